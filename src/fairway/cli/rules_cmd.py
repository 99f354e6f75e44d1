"""`fairway rules`: what would these rules have done?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairway.cli.onground import On

if TYPE_CHECKING:
    from fairway.results.alerting import RuleTest, Threshold
    from fairway.telemetry.rules.evaluating import Outcome

app = typer.Typer(
    rich_markup_mode=None,
    add_completion=False,
    no_args_is_help=True,
    help="Prometheus' rules, tried on what happened: PrometheusRule objects and rule files.",
)
_Rules = Annotated[
    Path, typer.Argument(metavar="RULES", help="A file or folder with PrometheusRules, or a rule file.")
]
_Output = Annotated[str, typer.Option("--output", "-o", metavar="table|json", help="How to print.")]


@app.command()
def check(
    rules: _Rules,
    enable_feature: Annotated[
        str,
        typer.Option(
            "--enable-feature", metavar="NAMES", help="Features that your Prometheus has on, by commas."
        ),
    ] = "",
) -> None:
    """Whether Prometheus would read them; what is wrong is told in its words, with file and line.

    Example: fairway rules check rules.yaml
    """
    from fairway.errors import InvalidInput
    from fairway.telemetry.rules.reading import duplicates, read_rules, refused_without

    groups = read_rules(rules)
    if problems := refused_without(groups, frozenset(filter(None, enable_feature.split(",")))):
        raise InvalidInput(tuple(problems[:100]))
    for rule in duplicates(groups):
        typer.echo(f"{rule.where}: duplicate rule {rule.name}, with the same labels", err=True)
    count = sum(len(group.rules) for group in groups)
    typer.echo(f"{len(groups)} groups, {count} rules found")


@app.command()
def test(
    rules: _Rules,
    on: On = None,
    suggest: Annotated[
        bool,
        typer.Option("--suggest", help="What other thresholds would have done, from the run's own values."),
    ] = False,
    output: _Output = "table",
) -> None:
    """When would each alert have fired, how often, how late, and what did its GPUs waste before?

    Late is how long the condition had held; of rules that point at GPUs, how long these had been idle (below 5 %),
    and what that cost: their share of their machines' price.
    Exits 1 when an evaluation fails.

    Example: fairway rules test rules.yaml --on runs/a --suggest
    """
    from fairway.cli.onground import ground_on
    from fairway.cli.output import check_output, print_json
    from fairway.results.alerting import GpuPrices, thresholds, try_rules
    from fairway.results.costs.pricing import catalog_of_run
    from fairway.results.telemetry import series_of_run
    from fairway.telemetry.rules.reading import read_rules
    from fairway.telemetry.store import Union

    check_output(output)
    groups = read_rules(rules)
    run = ground_on(on).history()
    outcome = run.outcome
    source, began, ended = series_of_run(outcome), outcome.began_us // 1000, outcome.ended_us // 1000
    prices = GpuPrices(outcome, catalog_of_run(run.info))
    found, tests = try_rules(groups, source, began, ended, prices)
    both = Union((source, found.recorded))
    others = [thresholds(t, both, began, ended) if suggest else [] for t in tests]
    if output == "json":
        print_json(_json(found, tests, others, began))
    else:
        _print(found, tests, others, began)
    for failure in found.failures:
        at = f"{failure.times} evaluations of {failure.rule.name} failed"
        typer.echo(f"{failure.rule.where}: {at}: {failure.message}", err=True)
    if found.failures:
        raise typer.Exit(1)


@app.command()
def route(
    rules: _Rules,
    alertmanager: Annotated[
        Path, typer.Option("--alertmanager", metavar="FILE", help="An Alertmanager's configuration.")
    ],
    on: On = None,
    silence: Annotated[
        list[str] | None,
        typer.Option(
            "--silence", metavar="MATCHERS", help='Silenced all the time: alertname="A",team="b". Repeat.'
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Write every payload: webhook, Slack, mail.")
    ] = None,
    output: _Output = "table",
) -> None:
    """Who would have been told of these alerts, when and why: routing, grouping, inhibition, silences, repeats.

    Example: fairway rules route rules.yaml --alertmanager alertmanager.yml --on runs/a
    """
    from dataclasses import replace

    from fairway.cli.onground import ground_on
    from fairway.cli.output import check_output, print_json, print_table
    from fairway.errors import UserError, WorldError
    from fairway.kube.timestamps import format_duration
    from fairway.results.telemetry import series_of_run
    from fairway.telemetry.alertmanager.configuration import Silence, parse_matchers, read_configuration
    from fairway.telemetry.alertmanager.dispatching import notifications
    from fairway.telemetry.alertmanager.payloads import payload, subject
    from fairway.telemetry.rules.dividing import evaluate_long
    from fairway.telemetry.rules.reading import read_rules

    check_output(output)
    groups, configuration = read_rules(rules), read_configuration(alertmanager)
    outcome = ground_on(on).history().outcome
    began, ended = outcome.began_us // 1000, outcome.ended_us // 1000
    try:
        silences = tuple(Silence(tuple(parse_matchers(text)), began, ended + 1) for text in silence or ())
    except ValueError as wrong:
        raise UserError(f"--silence: {wrong}") from None
    found = evaluate_long(groups, series_of_run(outcome), began, ended)
    notes = notifications(replace(configuration, silences=silences), found.alerts, ended)
    if out is not None:
        import msgspec

        try:
            out.mkdir(parents=True, exist_ok=True)
            for place, note in enumerate(notes):
                text = msgspec.json.format(msgspec.json.encode(payload(note)), indent=2)
                (out / f"{place:05d}-{note.integration.kind}.json").write_bytes(text + b"\n")
        except OSError as failed:
            raise WorldError(f"{out}: cannot be written: {failed.strerror}") from failed
    if output == "json":
        print_json(
            [
                {
                    "at_s": (n.at_ms - began) / 1000,
                    "receiver": n.receiver,
                    "integration": n.integration.kind,
                    "reason": n.reason,
                    "payload": payload(n),
                }
                for n in notes
            ]
        )
        return
    rows = [
        (format_duration((n.at_ms - began) * 1000), n.receiver, n.integration.kind, n.reason, subject(n))
        for n in notes
    ]
    print_table(("AT", "RECEIVER", "BY", "WHY", "WHAT"), rows, (0,))


def _print(found: Outcome, tests: list[RuleTest], others: list[list[Threshold]], began: int) -> None:
    from fairway.cli.output import print_table
    from fairway.kube.timestamps import format_duration
    from fairway.results.costs.money import dollars

    def text(at_ms: int | None) -> str:
        return "" if at_ms is None else format_duration(at_ms * 1000)

    rows = []
    for t in tests:
        first = min((a.fired_ms for a in t.fired if a.fired_ms is not None), default=None)
        idle = "" if t.idle_gpu_s is None else f"{t.idle_gpu_s / 3600:.1f} GPU-h"
        since = None if first is None else first - began
        cells = (str(len(t.fired)), str(t.brief), str(t.pending_only), text(t.firing_ms), text(since))
        cost = "" if t.idle_gpu_s is None else dollars(t.idle_micros)
        rows.append((t.rule.alert, *cells, text(t.late_p50_ms), idle, cost))
    head = ("ALERT", "FIRED", "BRIEF", "PENDING", "FIRING", "FIRST", "LATE", "IDLE BEFORE", "COST")
    print_table(head, rows, (1, 2, 3, 4, 5, 6, 7, 8))
    for t, values in zip(tests, others, strict=True):
        if values:
            typer.echo(f"\n{t.rule.alert}: {t.rule.query}")
            lines = [(f"{v.value:g}", str(v.fired), text(v.firing_ms)) for v in values]
            print_table(("  THRESHOLD", "FIRED", "FIRING"), lines, (0, 1, 2))
    records = sum(1 for name in found.recorded.names() if name not in ("ALERTS", "ALERTS_FOR_STATE"))
    typer.echo(f"\n{found.evaluations:,} evaluations, {records} metrics recorded")


def _json(found: Outcome, tests: list[RuleTest], others: list[list[Threshold]], began: int) -> dict[str, Any]:
    def since(at_ms: int | None) -> float | None:
        return None if at_ms is None else (at_ms - began) / 1000

    return {
        "evaluations": found.evaluations,
        "rules": [
            {
                "alert": t.rule.alert,
                "group": t.group,
                "where": t.rule.where,
                "fired": len(t.fired),
                "brief": t.brief,
                "pending_only": t.pending_only,
                "firing_s": t.firing_ms / 1000,
                "late_p50_s": None if t.late_p50_ms is None else t.late_p50_ms / 1000,
                "idle_gpu_s_before": t.idle_gpu_s,
                "idle_usd_before": None if t.idle_micros is None else t.idle_micros / 1e6,
                "alerts": [
                    {
                        "labels": dict(a.labels),
                        "annotations": dict(a.annotations),
                        "active_s": since(a.active_ms),
                        "fired_s": since(a.fired_ms),
                        "ended_s": since(a.ended_ms),
                    }
                    for a in t.fired
                ],
                "thresholds": [
                    {"value": v.value, "fired": v.fired, "firing_s": v.firing_ms / 1000} for v in values
                ],
            }
            for t, values in zip(tests, others, strict=True)
        ],
        "failures": [
            {"rule": f.rule.name, "where": f.rule.where, "times": f.times, "message": f.message}
            for f in found.failures
        ],
    }
