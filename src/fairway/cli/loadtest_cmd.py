"""`fairway loadtest`: what did requests get, what did they cost, and which setting is the cheapest that will do?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def loadtest(
    path: Annotated[
        Path, typer.Argument(metavar="DIR", exists=True, help="A scenario with a serving: section.")
    ],
    tune: Annotated[
        str, typer.Option(metavar="SERVICE", help="Try targets and least replicas of what scales it.")
    ] = "",
    attain: Annotated[
        float, typer.Option(min=0, max=100, help="Per cent of requests within the SLO, for --tune.")
    ] = 99.0,
    book: Annotated[
        list[Path] | None,
        typer.Option("--book", "-b", metavar="FILE|DIR", exists=True, help="Prices that win over ours."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Instead of the scenario's.", show_default=False)] = None,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="table|json", help="How to print.")
    ] = "table",
) -> None:
    """Send a scenario's requests through traffic, servers, autoscalers and nodes; say what they got and cost.

    Dollars need nodes with the label node.kubernetes.io/instance-type. With --tune it exits 1 where no setting keeps
    the SLO. A million requests take seconds and about 250 MB.

    Example: fairway loadtest examples/16-serving --tune by-hpa
    """
    from fairway.cli.output import check_output, print_json
    from fairway.cli.screen import print_lines
    from fairway.results import loadtest as testing
    from fairway.results.costs.pricing import books_of, catalog_of_run
    from fairway.results.loadtesttext import served_lines, variant_lines
    from fairway.results.run import RunInfo
    from fairway.scenario.loading import load_scenario

    check_output(output)
    scenario = load_scenario(path)
    catalog = catalog_of_run(RunInfo(scenario.name, books=books_of(scenario)), book or ())
    if not tune:
        run, served = testing.loadtest(scenario, catalog, seed)
        if output == "json":
            print_json({"scenario": run.info.name, "services": [s.as_json() for s in served]})
        else:
            print_lines(lambda width: served_lines(served, width))
        return
    variants = testing.tuned(scenario, tune, catalog, seed, lambda said: typer.echo(said, err=True))
    permille = round(10 * attain)
    if output == "json":
        print_json({"service": tune, "attain": attain, "variants": [v.as_json() for v in variants]})
    else:
        print_lines(lambda width: variant_lines(variants, permille, width))
    raise typer.Exit(0 if any(v.keeps(permille) for v in variants) else 1)
