"""`fairway what-if`: what would be different?"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairway.cli.onground import At, On

if TYPE_CHECKING:
    from fairway.answers.whatif.changes import Alteration
    from fairway.answers.whatif.playing import World
    from fairway.scenario.assertions.grammar import Assertion

app = typer.Typer(rich_markup_mode=None, add_completion=False)

MOST_SEEDS = 1_000


_Changes = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[CHANGE…]",
        help="nodes=+4, nodes/PREFIX=-2, quota/QUEUE/FLAVOR/RESOURCE=+8, priority/CLASS=1000, load=2.",
        show_default=False,
    ),
]
_Apply = Annotated[
    list[Path] | None,
    typer.Option("--apply", "-f", metavar="FILE", help="Manifests: flavors, queues, policies, …"),
]
_Patch = Annotated[list[str] | None, typer.Option(metavar="KIND/NAME=JSON", help="A merge patch.")]
_Delete = Annotated[list[str] | None, typer.Option(metavar="KIND/NAME", help="This is gone.")]
_Seeds = Annotated[int, typer.Option(min=1, max=MOST_SEEDS, help="Runs of each way.")]
_Span = Annotated[
    str, typer.Option("--for", metavar="DURATION", help="How long; a scenario runs to its own end.")
]
_Seed = Annotated[int, typer.Option(help="The first seed.")]
_Processes = Annotated[int, typer.Option(min=0, max=256, help="0: as many as there are cores.")]
_Book = Annotated[
    list[Path] | None,
    typer.Option("--book", "-b", metavar="FILE|DIR", exists=True, help="Prices that win over ours."),
]
_Find = Annotated[
    str | None,
    typer.Option(
        "--search",
        metavar="OBJECTIVE",
        help="Find the smallest amount of the last CHANGE that meets it.",
        show_default=False,
    ),
]
_Between = Annotated[str, typer.Option(metavar="LOW..HIGH", help="--search: amounts to look at.")]
_Placements = Annotated[
    bool,
    typer.Option("--placements", help="The job of --apply spread, packed, aligned, per rail: which is best?"),
]
_Output = Annotated[str, typer.Option("--output", "-o", metavar="table|json", help="How to print.")]


@app.command("what-if")
def what_if(
    changes: _Changes = None,
    on: On = None,
    at: At = None,
    apply: _Apply = None,
    patch: _Patch = None,
    delete: _Delete = None,
    seeds: _Seeds = 5,
    span: _Span = "24h",
    seed: _Seed = 0,
    processes: _Processes = 0,
    book: _Book = None,
    find: _Find = None,
    between: _Between = "0..64",
    placements: _Placements = False,
    output: _Output = "table",
) -> None:
    """The same cluster with the same luck, once as it is and once changed: waits, evictions, fairness, dollars.

    A scenario is played with its own arrivals; any other cluster is run forward with run times and arrivals as its
    history has them. With --search OBJECTIVE, an assertion as in scenarios, the last change's amount is looked for.

    With --placements the job of --apply is placed in several ways on the cluster as it is: nodes, start, step, dollars.

    Exits 1 when --search finds none, or --placements no place.

    Example: fairway what-if nodes=+2 --on examples/06-load-130 --seeds 3
    Example: fairway what-if nodes=+0 --on examples/06-load-130 --search "wait p90 < 1h" --between 0..16
    """
    from fairway.answers.whatif.playing import World
    from fairway.cli import slurmanswers
    from fairway.cli.forecast_cmd import read_duration
    from fairway.cli.onground import ground_on
    from fairway.cli.output import check_output

    check_output(output)
    if placements:
        _place(on, at, apply or (), [*(changes or ()), *(patch or ()), *(delete or ())], output)
        return
    site = slurmanswers.slurm_on(on)
    if site is not None:
        slurmanswers.what_if(site, changes or (), at, output)
        return
    asked, others = _asked(changes or (), apply or (), patch or (), delete or ())
    objective, amounts = _objective(find), _between(between)
    world = World(ground_on(on), at, read_duration("--for", span), seed)
    if objective is not None:
        _search(world, asked, others, objective, amounts, min(seeds, 3), output)
    else:
        _compare(world, (*asked, *others), seeds, processes, book or (), output)


def _place(
    on: Path | None, at: str | None, apply: Sequence[Path], others: Sequence[str], output: str
) -> None:
    """One job in several ways."""
    from fairway.answers.whatif.placements import compare_placements
    from fairway.answers.whatif.whatiftext import placement_lines
    from fairway.cli.onground import ground_on
    from fairway.errors import UserError
    from fairway.kube.manifest import read_path

    if not apply or others:
        raise UserError("--placements: expected the job with --apply FILE, and no other change")
    objects = tuple(m.obj for path in apply for m in read_path(path))
    ground = ground_on(on)
    found = compare_placements(ground.name, ground.at(at), objects)
    _print(output, found.as_json(), placement_lines(found))
    if not found.best:
        raise typer.Exit(1)


def _asked(
    changes: Sequence[str], apply: Sequence[Path], patch: Sequence[str], delete: Sequence[str]
) -> tuple[list[Alteration], list[Alteration]]:
    """Changes with an amount, and the others."""
    from fairway.answers.whatif import changes as words
    from fairway.errors import UserError

    asked = [words.read_change(text) for text in changes]
    others = [words.applied(path) for path in apply]
    others += [words.patched(text) for text in patch] + [words.deleted(name) for name in delete]
    if not asked and not others:
        raise UserError(
            "nothing to change: expected a CHANGE such as nodes=+4, or --apply, --patch, --delete"
        )
    return asked, others


def _search(
    world: World,
    asked: Sequence[Alteration],
    others: Sequence[Alteration],
    objective: Assertion,
    amounts: tuple[int, int],
    seeds: int,
    output: str,
) -> None:
    """The smallest amount of the last change that meets the objective."""
    from fairway.answers.whatif.searching import search
    from fairway.answers.whatif.whatiftext import search_lines
    from fairway.cli.forecast_cmd import Counter
    from fairway.errors import UserError

    if not asked:
        raise UserError(
            "--search: expected a CHANGE whose amount is looked for, such as nodes=+0 or quota/…=0"
        )
    counter = Counter("runs")
    varied, fixed = asked[-1], (*asked[:-1], *others)
    found = search(world, fixed, varied, objective, between=amounts, seeds=seeds, progress=counter)
    counter.end()
    _print(output, found.as_json(), search_lines(found))
    if found.smallest is None:
        raise typer.Exit(1)


def _compare(
    world: World,
    changes: tuple[Alteration, ...],
    seeds: int,
    processes: int,
    book: Sequence[Path],
    output: str,
) -> None:
    """As it is and changed, side by side."""
    from fairway.answers.whatif.comparing import what_if as compared
    from fairway.answers.whatif.whatiftext import whatif_lines
    from fairway.catalog.catalog import load_catalog
    from fairway.cli.forecast_cmd import Counter

    counter, catalog = Counter("seeds"), load_catalog(book)
    found = compared(world, changes, seeds=seeds, processes=processes, catalog=catalog, progress=counter)
    counter.end()
    for note in found.notes:
        typer.echo(f"fairway: {note}", err=True)
    _print(output, found.as_json(), whatif_lines(found))


def _print(output: str, data: Any, lines: list[str]) -> None:
    from fairway.cli.output import print_json

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
