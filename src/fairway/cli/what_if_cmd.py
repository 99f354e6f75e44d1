"""`fairway what-if`: what would be different?"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairway.cli.onground import At, On

if TYPE_CHECKING:
    from fairway.scenario.assertions.grammar import Assertion

app = typer.Typer(rich_markup_mode=None, add_completion=False)

MOST_SEEDS = 1_000


@app.command("what-if")
def what_if(
    changes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[CHANGE…]",
            help="nodes=+4, nodes/PREFIX=-2, quota/QUEUE/FLAVOR/RESOURCE=+8, priority/CLASS=1000, load=2.",
            show_default=False,
        ),
    ] = None,
    on: On = None,
    at: At = None,
    apply: Annotated[
        list[Path] | None,
        typer.Option("--apply", "-f", metavar="FILE", help="Manifests: flavors, queues, policies, …"),
    ] = None,
    patch: Annotated[list[str] | None, typer.Option(metavar="KIND/NAME=JSON", help="A merge patch.")] = None,
    delete: Annotated[list[str] | None, typer.Option(metavar="KIND/NAME", help="This is gone.")] = None,
    seeds: Annotated[int, typer.Option(min=1, max=MOST_SEEDS, help="Runs of each way.")] = 5,
    span: Annotated[
        str, typer.Option("--for", metavar="DURATION", help="How long; a scenario runs to its own end.")
    ] = "24h",
    seed: Annotated[int, typer.Option(help="The first seed.")] = 0,
    processes: Annotated[int, typer.Option(min=0, max=256, help="0: as many as there are cores.")] = 0,
    book: Annotated[
        list[Path] | None,
        typer.Option("--book", "-b", metavar="FILE|DIR", exists=True, help="Prices that win over ours."),
    ] = None,
    find: Annotated[
        str | None,
        typer.Option(
            "--search",
            metavar="OBJECTIVE",
            help="Find the smallest amount of the last CHANGE that meets it.",
            show_default=False,
        ),
    ] = None,
    between: Annotated[
        str, typer.Option(metavar="LOW..HIGH", help="--search: amounts to look at.")
    ] = "0..64",
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="table|json", help="How to print.")
    ] = "table",
) -> None:
    """The same cluster with the same luck, once as it is and once changed: waits, evictions, fairness, dollars.

    A scenario is played with its own arrivals; any other cluster is run forward with run times and arrivals as its
    history has them. With --search OBJECTIVE, an assertion as in scenarios, the last change's amount is looked for.

    Exits 1 when --search finds none.

    Example: fairway what-if nodes=+2 --on examples/06-load-130 --seeds 3
    Example: fairway what-if nodes=+0 --on examples/06-load-130 --search "wait p90 < 1h" --between 0..16
    """
    from fairway.answers.whatif import changes as words
    from fairway.answers.whatif.comparing import what_if as compared
    from fairway.answers.whatif.playing import World
    from fairway.answers.whatif.searching import search
    from fairway.answers.whatif.whatiftext import search_lines, whatif_lines
    from fairway.catalog.catalog import load_catalog
    from fairway.cli import slurmanswers
    from fairway.cli.forecast_cmd import Counter, read_duration
    from fairway.cli.onground import ground_on
    from fairway.cli.output import check_output, print_json
    from fairway.errors import UserError

    check_output(output)
    site = slurmanswers.slurm_on(on)
    if site is not None:
        slurmanswers.what_if(site, changes or (), at, output)
        return
    asked = [words.read_change(text) for text in changes or ()]
    others = [words.applied(path) for path in apply or ()]
    others += [words.patched(text) for text in patch or ()] + [words.deleted(name) for name in delete or ()]
    if not asked and not others:
        raise UserError(
            "nothing to change: expected a CHANGE such as nodes=+4, or --apply, --patch, --delete"
        )
    objective, amounts = _objective(find), _between(between)
    world = World(ground_on(on), at, read_duration("--for", span), seed)
    counter = Counter("runs" if find else "seeds")
    if objective is not None:
        if not asked:
            raise UserError(
                "--search: expected a CHANGE whose amount is looked for, such as nodes=+0 or quota/…=0"
            )
        varied, fixed = asked[-1], (*asked[:-1], *others)
        searched = search(
            world, fixed, varied, objective, between=amounts, seeds=min(seeds, 3), progress=counter
        )
        counter.end()
        _print(output, searched.as_json(), search_lines(searched), print_json)
        if searched.smallest is None:
            raise typer.Exit(1)
        return
    found = compared(
        world,
        (*asked, *others),
        seeds=seeds,
        processes=processes,
        catalog=load_catalog(book or ()),
        progress=counter,
    )
    counter.end()
    for note in found.notes:
        typer.echo(f"fairway: {note}", err=True)
    _print(output, found.as_json(), whatif_lines(found), print_json)


def _print(output: str, data: Any, lines: list[str], print_json: Callable[[Any], None]) -> None:
    if output == "json":
        print_json(data)
    else:
        typer.echo("\n".join(lines))


def _objective(text: str | None) -> Assertion | None:
    from fairway.errors import UserError
    from fairway.scenario.assertions.grammar import Assertion, Comparison
    from fairway.scenario.assertions.parsing import BadAssertion, parse

    if text is None:
        return None
    try:
        body = parse(text)
    except BadAssertion as wrong:
        raise UserError(f"--search {text!r}: {wrong}") from None
    if not isinstance(body, Comparison):
        raise UserError(f"--search {text!r}: expected a measure and a bound, such as wait p95 < 10m")
    return Assertion(text, body)


def _between(text: str) -> tuple[int, int]:
    from fairway.errors import UserError

    match = re.fullmatch(r"(\d{1,6})\.\.(\d{1,6})", text)
    if match is None or int(match[1]) > int(match[2]):
        raise UserError(f"--between {text!r}: expected two whole numbers such as 0..64")
    return int(match[1]), int(match[2])
