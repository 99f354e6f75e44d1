"""`fairway metrics`: what would Prometheus have seen?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairway.cli.onground import On

if TYPE_CHECKING:
    from fairway.results.telemetry import RunSource
    from fairway.telemetry.store import Matcher

app = typer.Typer(
    rich_markup_mode=None,
    add_completion=False,
    no_args_is_help=True,
    help="The series of a run, under the exporters' own names: asked in PromQL, or exported.",
)
_Output = Annotated[str, typer.Option("--output", "-o", metavar="table|json", help="How to print.")]
_Start = Annotated[
    str | None, typer.Option("--start", metavar="TIME", help="From when: 8h since the start, or RFC 3339.")
]
_End = Annotated[str | None, typer.Option("--end", metavar="TIME", help="Until when. Default: the end.")]


@app.command()
def query(
    expression: Annotated[str, typer.Argument(metavar="EXPR", help="A query in PromQL.")],
    on: On = None,
    at: Annotated[
        str | None, typer.Option("--at", metavar="TIME", help="At one time. Default: the end.")
    ] = None,
    start: _Start = None,
    end: _End = None,
    step: Annotated[
        str | None, typer.Option("--step", metavar="DURATION", help="Over a span, at every such step.")
    ] = None,
    output: _Output = "table",
) -> None:
    """Ask the series of a run: at one time, or with --step over a span. JSON is as Prometheus' API gives it.

    Exits 1 when nothing is found.

    Example: fairway metrics query 'avg by (namespace) (DCGM_FI_DEV_GPU_UTIL)' --on runs/a --step 1h
    """
    from fairway.cli.output import check_output, print_json, print_table
    from fairway.errors import UserError
    from fairway.telemetry.promql import Matrix, as_json, query_instant, query_range
    from fairway.telemetry.promql.aggregating import number_text
    from fairway.telemetry.promql.matrix import text_of
    from fairway.telemetry.promql.parsing import duration_ms

    check_output(output)
    if at is not None and (step or start or end):
        raise UserError("--at asks at one time: --start, --end and --step ask over a span")
    source, began, ended = _source(on)
    if step is None and (start or end):
        raise UserError("--step is needed to ask over a span, such as --step 5m")
    if step is None:
        when = ended if at is None else _moment(at, began)
        found = query_instant(source, expression, when)
        data = as_json(found, when)
        if output == "json":
            print_json(data)
        elif isinstance(found, Matrix):
            rows = zip(found.labels, found.values[:, 0], strict=True)
            print_table(
                ("VALUE", "SERIES"), [(number_text(float(v)), text_of(labels)) for labels, v in rows], (0,)
            )
        elif isinstance(found, list):
            print_table(("SAMPLES", "SERIES"), [(str(len(s.times)), text_of(s.labels)) for s in found], (0,))
        else:
            typer.echo(found if isinstance(found, str) else number_text(found))
        is_empty = not (found.labels if isinstance(found, Matrix) else True)
    else:
        first, last = _span(start, end, began, ended)
        width = duration_ms(step)
        if width <= 0:
            raise UserError(f"--step {step!r}: expected a duration above 0, such as 5m")
        matrix = query_range(source, expression, first, last, width)
        is_empty = not matrix.labels
        if output == "json":
            print_json(as_json(matrix, first, width))
        else:
            lines = []
            for labels, values, there in zip(*matrix, strict=True):
                seen = values[there]
                cells = (seen.min(), seen.mean(), seen.max(), seen[-1])
                lines.append((*(f"{v:.4g}" for v in cells), str(len(seen)), text_of(labels)))
            print_table(("MIN", "MEAN", "MAX", "LAST", "STEPS", "SERIES"), lines, (0, 1, 2, 3, 4))
    if is_empty:
        typer.echo("fairway: nothing was found", err=True)
        raise typer.Exit(1)


@app.command()
def names(on: On = None, output: _Output = "table") -> None:
    """Every metric there is.

    Example: fairway metrics names --on runs/a
    """
    from fairway.cli.output import check_output, print_json

    check_output(output)
    source, _, _ = _source(on)
    if output == "json":
        print_json(source.names())
    else:
        for name in source.names():
            typer.echo(name)


@app.command()
def export(
    out: Annotated[
        str,
        typer.Argument(metavar="OUT", help="A file; of tsdb a folder; of remote-write the URL to send to."),
    ],
    on: On = None,
    form: Annotated[
        str, typer.Option("--format", metavar="openmetrics|tsdb|remote-write|otlp", help="What to write.")
    ] = "openmetrics",
    match: Annotated[
        list[str] | None,
        typer.Option(
            "--match", metavar="SELECTOR", help="Only these series, such as DCGM_FI_DEV_GPU_UTIL. Repeat."
        ),
    ] = None,
    start: _Start = None,
    end: _End = None,
) -> None:
    """Write what a run has for another program: OpenMetrics text, a Prometheus' blocks (with promtool), or send it.

    otlp: not series, but what happened to each job and pod, as OpenTelemetry's spans (a JSON export request a line);
    and to requests, where the run was made with --request-spans.

    Example: fairway metrics export data --on runs/a --format tsdb --match DCGM_FI_DEV_GPU_UTIL
    """
    from fairway.errors import UserError
    from fairway.telemetry.exporting import SENT_TOGETHER_MS, openmetrics, parts, write_requests

    if form == "otlp":
        if match or start or end:
            raise UserError("--match, --start and --end choose series; otlp writes all spans")
        _spans(Path(out), on)
        return
    if form not in ("openmetrics", "tsdb", "remote-write"):
        raise UserError(f"--format {form!r}: expected one of openmetrics, tsdb, remote-write, otlp")
    source, began, ended = _source(on)
    first, last = _span(start, end, began, ended)
    selected = _chosen(source, match)
    count = sum(len(chosen) for chosen, _ in selected)
    if not count:
        raise UserError("no metric matches; see fairway metrics names")
    if form == "remote-write":
        by_time = (
            part
            for at in range(first, last + 1, SENT_TOGETHER_MS)
            for chosen, matchers in selected
            for part in parts(source, chosen, matchers, at, min(at + SENT_TOGETHER_MS - 1, last))
        )
        sent = _send(out, write_requests(by_time))
        typer.echo(f"fairway: sent {sent} requests to {out}", err=True)
        return
    found = (part for chosen, matchers in selected for part in parts(source, chosen, matchers, first, last))
    target = Path(out)
    text = target if form == "openmetrics" else target.with_name(target.name + ".om.tmp")
    try:
        with text.open("w", encoding="utf-8") as file:
            for piece in openmetrics(found):
                file.write(piece)
        if form == "tsdb":
            _blocks(text, target)
    except OSError as failed:
        raise UserError(f"{text}: cannot be written: {failed.strerror}") from failed
    finally:
        if form == "tsdb":
            text.unlink(missing_ok=True)
    typer.echo(f"fairway: {count} metrics written to {target}", err=True)


def _spans(target: Path, on: Path | None) -> None:
    from fairway.cli.onground import ground_on
    from fairway.errors import UserError
    from fairway.results.requestspans import FILE
    from fairway.results.spans import otlp_lines

    outcome = ground_on(on).history().outcome
    requests = None if on is None else on / FILE
    try:
        with target.open("w", encoding="utf-8") as file:
            for line in otlp_lines(outcome):
                file.write(line)
            if requests is not None and requests.is_file():
                with requests.open(encoding="utf-8") as more:
                    file.writelines(more)
    except OSError as failed:
        raise UserError(f"{target}: cannot be written: {failed.strerror}") from failed
    typer.echo(f"fairway: spans of {len(outcome.pods):,} pods written to {target}", err=True)


def _source(on: Path | None) -> tuple[RunSource, int, int]:
    """The series, and the run's start and end in ms."""
    from fairway.cli.onground import ground_on
    from fairway.results.telemetry import series_of_run

    outcome = ground_on(on).history().outcome
    return series_of_run(outcome), outcome.began_us // 1000, outcome.ended_us // 1000


def _span(start: str | None, end: str | None, began: int, ended: int) -> tuple[int, int]:
    from fairway.errors import UserError

    first = began if start is None else _moment(start, began)
    last = ended if end is None else _moment(end, began)
    if last < first:
        raise UserError("--end lies before --start")
    return first, last


def _moment(text: str, began: int) -> int:
    from fairway.scenario.running import moment

    return moment(text, began * 1000) // 1000


def _chosen(source: RunSource, match: list[str] | None) -> list[tuple[list[str], Sequence[Matcher]]]:
    """Names and further matchers of each selector; every metric where none is given."""
    from fairway.errors import UserError
    from fairway.telemetry.promql import parse
    from fairway.telemetry.promql.nodes import Selector
    from fairway.telemetry.store import NAME

    if not match:
        return [(source.names(), ())]
    chosen: list[tuple[list[str], Sequence[Matcher]]] = []
    for text in match:
        node = parse(text)
        if not isinstance(node, Selector) or node.range_ms or node.offset_ms or node.at is not None:
            raise UserError(f'--match {text!r}: expected a selector such as DCGM_FI_DEV_GPU_UTIL{{pod!=""}}')
        of_name = [m for m in node.matchers if m.name == NAME]
        chosen.append(([n for n in source.names() if all(m.matches(n) for m in of_name)], node.matchers))
    return chosen


def _blocks(text: Path, folder: Path) -> None:
    import shutil
    import subprocess

    from fairway.errors import WorldError

    if shutil.which("promtool") is None:
        raise WorldError("promtool makes the blocks and is not installed: apt-get install prometheus")
    command = ["promtool", "tsdb", "create-blocks-from", "openmetrics", "-q", str(text), str(folder)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise WorldError(f"promtool: {done.stderr.strip()[-500:]}")


def _send(url: str, bodies: object) -> int:
    import urllib.error
    import urllib.request
    from collections.abc import Iterable

    from fairway.errors import UserError, WorldError

    if not url.startswith(("http://", "https://")):
        raise UserError(f"{url!r}: expected a URL such as http://localhost:9090/api/v1/write")
    assert isinstance(bodies, Iterable)
    headers = {
        "Content-Encoding": "snappy",
        "Content-Type": "application/x-protobuf",
        "X-Prometheus-Remote-Write-Version": "0.1.0",
    }
    sent = 0
    for body in bodies:
        try:
            with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=30):
                sent += 1
        except urllib.error.HTTPError as refused:
            said = refused.read(300).decode("utf-8", "replace").strip()
            raise WorldError(f"{url}: {refused.code}: {said}") from None
        except OSError as failed:
            raise WorldError(f"{url}: {failed}") from failed
    return sent
