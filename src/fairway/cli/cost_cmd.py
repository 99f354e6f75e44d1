"""`fairway cost`: what did a run cost, and who owes it?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairway.cli.onground import On, path_on

if TYPE_CHECKING:
    from fairway.catalog.catalog import Catalog
    from fairway.results.costs.answers import CostReport, Question
    from fairway.results.costs.breakdown import Shared
    from fairway.results.costs.budgets import Decision
    from fairway.results.costs.costing import CostRules

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_LABEL = "label:"


_Ground = Annotated[
    Path | None,
    typer.Argument(
        metavar="[GROUND]",
        help="A run, a scenario to run first, a dump, a data folder, a kubeconfig.",
        show_default=False,
    ),
]
_By = Annotated[
    str,
    typer.Option(
        "--by",
        metavar="COLUMN[,…]",
        help="namespace, team, project, queue, workload, gpu_model, capacity_type, …, or label:KEY.",
    ),
]
_Basis = Annotated[str, typer.Option("--basis", metavar="request|usage", help="Owe what is held, or used.")]
_Measure = Annotated[str, typer.Option("--measure", metavar="sm|memory", help="By what use is judged.")]
_Split = Annotated[
    str,
    typer.Option("--split", metavar="residual|gpu|ratio", help="How much of a node's price is its GPUs."),
]
_Commitment = Annotated[
    str, typer.Option("--commitment", metavar="1y|3y", help="On-demand nodes at this plan's price.")
]
_Book = Annotated[
    list[Path] | None,
    typer.Option(
        "--book",
        "--prices",
        "-b",
        metavar="FILE|DIR",
        exists=True,
        help="Prices that win over ours and the scenario's.",
    ),
]
_Share = Annotated[
    list[str] | None,
    typer.Option(
        "--share", metavar="WHAT[=RULE]", help="Lay idle, booting, system, unused, namespace/X on others."
    ),
]
_Weight = Annotated[
    list[str] | None, typer.Option("--weight", metavar="NAME=N", help="For --share …=weighted.")
]
_Budget = Annotated[
    list[Path] | None,
    typer.Option("--budget", metavar="FILE|DIR", help="Budgets; exit 1 when overspent."),
]
_Enforce = Annotated[
    bool, typer.Option("--enforce", help="Run the commands of budgets whose enforcement is due.")
]
_Decisions = Annotated[
    Path | None, typer.Option("--decisions", metavar="FILE", help="Write what is due as JSON lines.")
]
_Epochs = Annotated[
    list[str] | None, typer.Option("--epochs", metavar="NS/KIND/NAME=N", help="Epochs of a workload.")
]
_Requests = Annotated[
    list[str] | None, typer.Option("--requests", metavar="NS/KIND/NAME=N", help="Requests it answered.")
]
_Top = Annotated[int, typer.Option("--top", min=0, max=1000, help="Top consumers to name.")]
_Showback = Annotated[bool, typer.Option("--showback", help="Month by month, too.")]
_Html = Annotated[
    Path | None, typer.Option("--html", metavar="FILE", help="Write the showback as one HTML file.")
]
_Csv = Annotated[Path | None, typer.Option("--csv", metavar="FILE", help="Write the showback as CSV.")]
_Plots = Annotated[
    Path | None, typer.Option("--plots", metavar="DIR", help="Write the trends as SVG and PNG.")
]
_Export = Annotated[
    Path | None, typer.Option("--export", metavar="FILE", help="Every row, as .csv or .parquet.")
]
_Focus = Annotated[
    Path | None, typer.Option("--focus", metavar="FILE", help="In FOCUS columns, .csv or .parquet.")
]
_Seed = Annotated[int | None, typer.Option(help="Of a scenario, instead of its own.", show_default=False)]
_Output = Annotated[str, typer.Option("--output", "-o", metavar="table|json", help="How to print.")]


@app.command()
def cost(
    ground: _Ground = None,
    on: On = None,
    by: _By = "namespace",
    basis: _Basis = "request",
    measure: _Measure = "sm",
    split: _Split = "residual",
    commitment: _Commitment = "",
    book: _Book = None,
    share: _Share = None,
    weight: _Weight = None,
    budget: _Budget = None,
    enforce: _Enforce = False,
    decisions: _Decisions = None,
    epochs: _Epochs = None,
    requests: _Requests = None,
    top: _Top = 5,
    showback: _Showback = False,
    html: _Html = None,
    csv: _Csv = None,
    plots: _Plots = None,
    export: _Export = None,
    focus: _Focus = None,
    seed: _Seed = None,
    output: _Output = "table",
) -> None:
    """Say what a run cost, where the money went, and who owes it, to the micro-dollar.

    Exits 1 when a budget is overspent, or when nobody says what any of its machines cost. Hours without a price are
    told beside the money, never counted as free.

    Example: fairway cost runs/two-teams --by team --share idle=proportional --html showback.html
    """
    from fairway.cli import slurmanswers
    from fairway.cli.output import check_output
    from fairway.ground import open_ground
    from fairway.results.costs.answers import cost_report
    from fairway.results.costs.costing import costed
    from fairway.results.costs.exports import check_suffix
    from fairway.results.costs.pricing import catalog_of_run

    check_output(output)
    path = path_on(ground, on)
    site = slurmanswers.slurm_on(path)
    if site is not None:
        slurmanswers.cost(site, by, book or (), output)
        return
    for file in (export, focus):
        if file is not None:
            check_suffix(file)
    columns = _columns(by)
    question = _question(columns, share or [], weight or [], budget or [], epochs or [], requests or [], top)
    named = (*columns, *(name for b in question.budgets for name in b.for_))
    rules = _rules(basis, measure, split, commitment, named)
    found = open_ground(path, seed=seed).history()
    for note in found.info.notes:
        typer.echo(f"fairway: {note}", err=True)
    catalog = catalog_of_run(found.info, book or ())
    run = costed(found, catalog, rules)
    report = cost_report(run, question)
    _print(report, output, showback)
    _write(report, catalog, html=html, csv=csv, plots=plots, export=export, focus=focus)
    _decide(report.decisions, decisions, enforce)
    raise typer.Exit(0 if report.is_within_budget and (run.is_priced or not len(run.bill)) else 1)


def _columns(by: str) -> tuple[str, ...]:
    """Dashes are underscores, except in a label's key."""
    from fairway.errors import UserError

    names = [name.strip() for name in by.split(",") if name.strip()]
    if not names:
        raise UserError("--by: expected the name of a column, such as namespace or label:tier")
    return tuple(name if name.startswith(_LABEL) else name.replace("-", "_") for name in names)


def _rules(basis: str, measure: str, split: str, commitment: str, columns: tuple[str, ...]) -> CostRules:
    from fairway.catalog.prices import COMMITMENTS
    from fairway.metering.bill import Basis, Measure
    from fairway.metering.split import SplitRule
    from fairway.results.costs.costing import CostRules

    _one_of("--basis", basis, [b.value for b in Basis])
    _one_of("--measure", measure, [m.value for m in Measure])
    _one_of("--split", split, [s.value for s in SplitRule])
    if commitment:
        _one_of("--commitment", commitment, COMMITMENTS)
    labels = tuple(dict.fromkeys(n.removeprefix(_LABEL) for n in columns if n.startswith(_LABEL)))
    return CostRules(Basis(basis), Measure(measure), SplitRule(split), commitment, labels)


def _one_of(option: str, value: str, known: Sequence[str]) -> None:
    from fairway.errors import UserError

    if value not in known:
        raise UserError(f"{option} {value!r}: expected one of {', '.join(known)}")


def _question(
    by: tuple[str, ...],
    share: list[str],
    weight: list[str],
    budget: list[Path],
    epochs: list[str],
    requests: list[str],
    top: int,
) -> Question:
    from fairway.results.costs.answers import Question
    from fairway.results.costs.budgetreading import read_budgets
    from fairway.results.costs.unitcosts import Asked

    return Question(
        by=by,
        shared=tuple(_shared(text) for text in share),
        weights=_numbers("--weight", weight),
        budgets=read_budgets(budget),
        asked=Asked(_numbers("--epochs", epochs), _numbers("--requests", requests)),
        top=top,
    )


def _shared(text: str) -> Shared:
    from fairway.metering.distribution import SharingRule
    from fairway.results.costs.breakdown import Shared

    what, _, rule = text.partition("=")
    _one_of(f"--share {what}=", rule or SharingRule.PROPORTIONAL.value, [r.value for r in SharingRule])
    return Shared(what, SharingRule(rule or SharingRule.PROPORTIONAL.value))


def _numbers(option: str, texts: list[str]) -> dict[str, float]:
    from fairway.errors import UserError

    found = {}
    for text in texts:
        name, _, number = text.rpartition("=")
        try:
            found[name] = float(number)
        except ValueError:
            name = ""
        if not name:
            raise UserError(f"{option} {text!r}: expected NAME=NUMBER")
    return found


def _print(report: CostReport, output: str, months: bool) -> None:
    from fairway.cli.output import print_json
    from fairway.cli.screen import print_lines
    from fairway.results.costs.costtext import cost_lines

    if output == "json":
        print_json(report.as_json())
    else:
        print_lines(lambda width: cost_lines(report, width, months=months))


def _write(
    report: CostReport,
    catalog: Catalog,
    *,
    html: Path | None,
    csv: Path | None,
    plots: Path | None,
    export: Path | None,
    focus: Path | None,
) -> None:
    from fairway.results.atomic import replace_text
    from fairway.results.costs.exports import write_bill, write_focus, write_showback
    from fairway.results.costs.showbackhtml import showback_html
    from fairway.results.costs.trends import cost_charts
    from fairway.results.plots import forms, write_drawings

    if html is not None:
        replace_text(html, showback_html(report))
    if csv is not None:
        write_showback(report, csv)
    if export is not None:
        write_bill(report.run, export)
    if focus is not None:
        write_focus(report.run, catalog, focus)
    for file in (html, csv, export, focus):
        if file is not None:
            typer.echo(f"fairway: wrote {file}", err=True)
    if plots is not None:
        charts = cost_charts(report.trend, report.breakdown.by[0], report.budgets)
        names = write_drawings(charts, plots)
        said = f"wrote {', '.join(names)} as {forms()} to {plots}" if names else "nothing to plot"
        typer.echo(f"fairway: {said}", err=True)


def _decide(due: tuple[Decision, ...], file: Path | None, enforce: bool) -> None:
    """Write decisions down, and with `enforce` hand each to its command (as JSON on its standard input)."""
    import json

    from fairway.results.atomic import replace_text

    texts = [json.dumps(d.as_json(), ensure_ascii=False) for d in due]
    if file is not None:
        replace_text(file, "".join(f"{text}\n" for text in texts))
        typer.echo(f"fairway: wrote {file}", err=True)
    for decision, text in zip(due, texts, strict=True):
        if decision.command and enforce:
            _carry_out(decision, text)
        elif file is None:
            how = " (--enforce runs its command)" if decision.command else ""
            said = f"{decision.percent} % of budget {decision.budget} reached by {decision.at}"
            typer.echo(f"fairway: {said}: {decision.action}{how}", err=True)


def _carry_out(decision: Decision, text: str) -> None:
    """Raises: WorldError where the command cannot be run or fails."""
    import subprocess

    from fairway.errors import WorldError

    name = decision.command[0]
    try:
        done = subprocess.run(decision.command, input=f"{text}\n", text=True, check=False)
    except OSError as failed:
        raise WorldError(
            f"budget {decision.budget}: {name} cannot be run: {failed.strerror or failed}"
        ) from failed
    if done.returncode:
        raise WorldError(f"budget {decision.budget}: {name} exited with {done.returncode}")
    typer.echo(f"fairway: budget {decision.budget}: ran {name}", err=True)
