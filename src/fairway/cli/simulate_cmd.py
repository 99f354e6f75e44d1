"""`fairway simulate`: run what a directory describes, and say what came of it."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairway.errors import BugError

if TYPE_CHECKING:
    from fairway.cli.progressline import ProgressLine
    from fairway.recorder.recorder import Recorder
    from fairway.results.run import Run, RunInfo
    from fairway.results.rundir import RunWriter
    from fairway.scenario.model import Scenario
    from fairway.scenario.running import Finished
    from fairway.twin.twin import Progress

app = typer.Typer(rich_markup_mode=None, add_completion=False)

FORMATS = ("table", "json", "junit")
_SKIPPED_SHOWN = 20
# Wall seconds between two writings of the tables of a run that goes on.
_CHECKPOINT_EVERY_S = 15
STOPPED = "interrupted"
INTERRUPTED = 130


@app.command()
def simulate(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="DIR|FILE", exists=True, help="Manifests, or a directory with a scenario.yaml."
        ),
    ],
    seed: Annotated[int | None, typer.Option(help="Instead of the scenario's.", show_default=False)] = None,
    seeds: Annotated[
        int, typer.Option(min=1, max=10_000, help="Repeat under this many seeds; report the spread.")
    ] = 1,
    latency: Annotated[
        str | None,
        typer.Option(metavar="default|zero|FILE", help="How long components take.", show_default=False),
    ] = None,
    duration: Annotated[
        str | None, typer.Option(help="Stop after this much simulated time, such as 8h.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write a run directory (see fairway report).")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a self-contained HTML report.")
    ] = None,
    request_spans: Annotated[
        int,
        typer.Option(
            "--request-spans",
            metavar="N",
            min=0,
            max=100_000,
            help="With --out: what happened to N requests of each served model, as spans.",
        ),
    ] = 0,
    lenient: Annotated[
        bool, typer.Option("--lenient", help="Skip objects that will not do, and count them.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Only the assertions, and no progress.")
    ] = False,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="table|json|junit", help="How to print.")
    ] = "table",
) -> None:
    """Run a directory of Kubernetes YAML, or a scenario with a timeline and assertions, in virtual time.

    Exits 0 when every assertion holds, 1 when one does not or the cluster refuses an object that no assertion says
    it should refuse (--lenient only tells so), 4 where a fault of Fairway left objects out of the run.

    Example: fairway simulate examples/01-two-teams --out runs/two-teams
    """
    from fairway.cli.output import check_output
    from fairway.kube.collectorpause import collector_resting

    check_output(output, FORMATS)
    if request_spans and out is None:
        raise typer.BadParameter("goes with --out", param_hint="--request-spans")
    with collector_resting():
        from fairway.scenario.loading import load_scenario

        scenario = _adjusted(load_scenario(path, lenient=lenient), latency, duration)
    _say_skipped(scenario)
    if seeds > 1:
        raise typer.Exit(_many(scenario, seeds, seed, output))
    with collector_resting():
        finished, run = _one(scenario, seed, out, quiet)
        if out is not None:
            _write_notifications(finished, out / "notifications.jsonl")
            _write_request_spans(finished, out, request_spans)
        if html is not None:
            _write_html(run, html)
        _print(finished, run, output, quiet)
    _say_refused(finished)
    _say_failures(finished.status.failures)
    if finished.status.ended == STOPPED:
        raise typer.Exit(INTERRUPTED)
    if finished.status.failures:
        raise typer.Exit(BugError.exit_code)
    raise typer.Exit(0 if finished.passed else 1)


def _say_failures(failures: Sequence[str]) -> None:
    """Loudly, at the very end: the run is not what was asked for."""
    if not failures:
        return
    from fairway.cli.main import BUG_HINT

    for text in failures:
        typer.echo(f"fairway: a fault of ours: {text}", err=True)
    typer.echo(f"fairway: {BUG_HINT}", err=True)


def _say_skipped(scenario: Scenario) -> None:
    if not scenario.skipped:
        return
    for problem in scenario.skipped[:_SKIPPED_SHOWN]:
        typer.echo(str(problem), err=True)
    typer.echo(f"fairway: skipped {len(scenario.skipped)} that will not do", err=True)


def _say_refused(finished: Finished) -> None:
    """What the cluster did not let in, in the API server's words, and whom it could not ask."""
    from fairway.scenario.running import unasked_webhooks

    refused = finished.status.refusals
    expected = len(refused) - len(finished.unexpected)
    for refusal in finished.unexpected[:_SKIPPED_SHOWN]:
        typer.echo(str(refusal), err=True)
    if refused:
        asked_for = f", {expected} of them as assertions say" if expected else ""
        typer.echo(f"fairway: {len(refused)} objects were refused{asked_for}", err=True)
    for note in unasked_webhooks(finished.twin):
        typer.echo(f"fairway: {note}", err=True)


def _adjusted(scenario: Scenario, latency: str | None, duration: str | None) -> Scenario:
    from fairway.errors import UserError
    from fairway.kube.timestamps import parse_duration
    from fairway.twin.latency import latency_named

    if latency is not None:
        scenario = replace(scenario, latency=latency_named(latency))
    if duration is not None:
        try:
            scenario = replace(scenario, duration_us=parse_duration(duration))
        except ValueError as wrong:
            raise UserError(f"--duration {duration!r}: {wrong}") from wrong
    return scenario


def _one(scenario: Scenario, seed: int | None, out: Path | None, quiet: bool) -> tuple[Finished, Run]:
    """Run once; with `out` the run directory grows meanwhile, and is readable whenever the run is cut off."""
    from contextlib import ExitStack

    from fairway.cli.progressline import ProgressLine
    from fairway.recorder.recorder import Recorder
    from fairway.results.alerting import alerts_of
    from fairway.results.run import Run
    from fairway.results.rundir import RunWriter
    from fairway.scenario.running import run_scenario
    from fairway.twin.twin import Twin

    line = ProgressLine(scenario.start_us, wanted=not quiet)
    writers: list[tuple[RunWriter, Recorder]] = []
    with ExitStack() as stack:
        stack.callback(line.end)

        def prepare(twin: Twin) -> None:
            if out is None:
                return
            recorder = twin.host.parts["recorder"]
            assert isinstance(recorder, Recorder)
            writer = stack.enter_context(RunWriter(out, recorder, _info(scenario, seed)))
            twin.host.log.sinks.append(writer.on_records)
            writers.append((writer, recorder))

        progress = _Checkpoints(line, writers)
        # Who looks for the cause of a fault wants its traceback, not a run without the object.
        contains = not os.environ.get("FAIRWAY_DEBUG")
        finished = run_scenario(
            scenario, seed=seed, progress=progress, prepare=prepare, contains=contains, alerts_of=alerts_of
        )
        info = _info(scenario, seed, finished)
        if writers:
            return finished, writers[0][0].finish(finished.outcome, info)
        return finished, Run(info, finished.outcome)


def _write_notifications(finished: Finished, file: Path) -> None:
    """What the run's Alertmanagers told whom, a line each; no file where there are none."""
    import msgspec

    from fairway.kube.timestamps import rfc3339
    from fairway.results.atomic import replace_text
    from fairway.telemetry.alertmanager.payloads import payload
    from fairway.twin.rules.component import rules_part

    part = rules_part(finished.twin.host.parts)
    lines = [
        {
            "at": rfc3339(note.at_ms * 1000),
            "alertmanager": who,
            "receiver": note.receiver,
            "integration": note.integration.kind,
            "reason": note.reason,
            "payload": payload(note),
        }
        for who, note in (part.notes if part is not None else ())
    ]
    if lines:
        replace_text(file, "".join(f"{msgspec.json.encode(line).decode()}\n" for line in lines))


def _write_request_spans(finished: Finished, out: Path, most: int) -> None:
    """A file of them, where there are served models and somebody asks."""
    serving = finished.twin.host.parts.get("serving")
    if not most or serving is None:
        return
    # Model servers need the extra `placement`: nothing of them is loaded where there is none.
    from fairway.results.requestspans import FILE, request_lines
    from fairway.twin.serving.component import Serving

    if isinstance(serving, Serving):
        with (out / FILE).open("w", encoding="utf-8") as file:
            file.writelines(request_lines(serving, most))


class _Checkpoints:
    """Progress for the terminal, and every few seconds the tables so far: a killed run is readable, too."""

    def __init__(self, line: ProgressLine, writers: list[tuple[RunWriter, Recorder]]) -> None:
        self._line = line
        self._writers = writers
        self._due_s = time.monotonic() + _CHECKPOINT_EVERY_S

    def __call__(self, progress: Progress) -> None:
        self._line(progress)
        if self._writers and time.monotonic() >= self._due_s:
            writer, recorder = self._writers[0]
            writer.checkpoint(recorder.outcome("running"))
            self._due_s = time.monotonic() + _CHECKPOINT_EVERY_S


def _info(scenario: Scenario, seed: int | None, finished: Finished | None = None) -> RunInfo:
    """What the run was; with `finished`, what came of it too."""
    from fairway.results.alerttext import alert_json
    from fairway.results.costs.borrowing import queues_in
    from fairway.results.costs.pricing import books_of
    from fairway.results.run import RunInfo
    from fairway.scenario.running import fighting, idle_objects, unasked_webhooks
    from fairway.scenario.verdicts import verdict_json

    info = RunInfo(scenario.name, scenario.seed if seed is None else seed, source=scenario.file)
    if finished is None:
        return info
    notes = (
        [f"{len(scenario.skipped)} objects or rows were skipped: they will not do"]
        if scenario.skipped
        else []
    )
    notes += [f"{t.path}: {t.message}" for t in finished.status.troubles]
    notes += [f"a fault of Fairway: {text}" for text in finished.status.failures]
    notes += [str(r) for r in finished.status.refusals[:_SKIPPED_SHOWN]]
    notes += [*unasked_webhooks(finished.twin), *idle_objects(finished.twin)]
    notes += fighting(finished.twin, finished.outcome)
    notes += _work_notes(finished)
    return replace(
        info,
        digest=finished.status.digest,
        reason="stopped by Ctrl-C" if finished.status.ended == STOPPED else "",
        assertions=tuple(verdict_json(v) for v in finished.verdicts),
        lost_work_us=_lost_work_us(finished),
        notes=tuple(notes),
        queues=queues_in(finished.twin.store),
        books=books_of(scenario),
        alerts=alert_json(finished.alerts, finished.status.began_us),
    )


def _lost_work_us(finished: Finished) -> int | None:
    """Container time whose work no checkpoint saved; None where no kubelet kept count."""
    from fairway.twin.kubelet.component import Kubelet

    kubelet = finished.twin.host.parts.get("kubelet")
    return kubelet.progress.totals.lost_us if isinstance(kubelet, Kubelet) else None


def _work_notes(finished: Finished) -> list[str]:
    """GPU-hours of work that was lost, and what a useful one cost, where machines come from a cloud; and what
    distributed jobs held while they waited for their members."""
    from fairway.kube.timestamps import HOUR_US
    from fairway.twin.kubelet.component import Kubelet

    kubelet = finished.twin.host.parts.get("kubelet")
    waited_us = kubelet.progress.totals.waited_gpu_us if isinstance(kubelet, Kubelet) else 0
    notes = []
    if waited_us:
        hours = waited_us / 1000 / HOUR_US
        notes = [
            f"distributed jobs held their GPUs for {hours:.2f} GPU-hours while members of theirs did not run"
        ]
    if finished.scenario.cloud is None:
        return notes
    from fairway.results.usefulwork import useful_work_notes

    return notes + useful_work_notes(finished)


def _write_html(run: Run, html: Path) -> None:
    from fairway.results.atomic import replace_text
    from fairway.results.htmlreport import html_report

    replace_text(html, html_report(run))
    typer.echo(f"fairway: wrote {html}", err=True)


def _many(scenario: Scenario, seeds: int, first: int | None, output: str) -> int:
    from fairway.cli.output import print_json
    from fairway.results.alerting import alerts_of
    from fairway.scenario.repeating import run_seeds
    from fairway.scenario.verdicts import junit_repeated, repeated_json, spread_lines

    repeated = run_seeds(scenario, seeds, first=first, alerts_of=alerts_of)
    if output == "json":
        print_json(repeated_json(repeated))
    elif output == "junit":
        typer.echo(junit_repeated(repeated), nl=False)
    else:
        held = sum(run.passed for run in repeated.runs)
        typer.echo(f"{scenario.name}: {held} of {seeds} seeds pass (least … median … most)")
        for text in spread_lines(repeated.spreads):
            typer.echo(text)
    _say_failures(repeated.failures)
    if repeated.failures:
        return BugError.exit_code
    return 0 if repeated.passed else 1


def _print(finished: Finished, run: Run, output: str, quiet: bool) -> None:
    from fairway.cli.output import print_json
    from fairway.scenario.verdicts import finished_json, junit, verdict_lines

    if output == "json":
        from fairway.results.summary import summary_of

        print_json({**finished_json(finished), "summary": summary_of(run)})
    elif output == "junit":
        typer.echo(junit([finished]), nl=False)
    elif quiet:
        for line in verdict_lines(finished.verdicts):
            typer.echo(line)
    else:
        _print_report(finished, run)


def _print_report(finished: Finished, run: Run) -> None:
    import shutil
    import sys

    from fairway.cli.guardedstreams import unguarded
    from fairway.kube.timestamps import format_duration
    from fairway.results.textlayout import as_text
    from fairway.results.textreport import report_lines

    width = shutil.get_terminal_size((100, 24)).columns
    text = as_text(report_lines(run, min(width, 140)), colour=sys.stdout.isatty()).rstrip("\n")
    typer.echo(text, unguarded(sys.stdout))
    status = finished.status
    simulated = format_duration(status.duration_us)
    speed = f"simulated {simulated} in {status.wall_s:.2f} s, {status.speed_up:,.0f} × real time"
    typer.echo(f"{speed}; digest {status.digest}", err=True)
    if run.directory:
        typer.echo(f"written to {run.directory}; look again with: fairway report {run.directory}", err=True)
