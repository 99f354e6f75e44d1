"""`fairway verify`: does Fairway decide what the real engines decided?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
    help="Check Fairway's decisions against recordings of the real engines.\n\n"
    "Each command prints `agree N of M` last and exits 0 only when all agree.",
)

RecordingFile = Annotated[
    Path,
    typer.Argument(
        metavar="FILE", exists=True, dir_okay=False, help="The recording, one JSON object a line."
    ),
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print every difference.")]
Output = Annotated[str, typer.Option("--output", "-o", metavar="table|json", help="How to print.")]


@app.command("placements")
def placements(file: RecordingFile, verbose: Verbose = False, output: Output = "table") -> None:
    """Replay pods that a kube-scheduler placed: the same feasible nodes, scores, choice and message.

    Equal best scores are broken at random by kube-scheduler: any best node counts as agreement.

    Example: fairway verify placements recording.jsonl -v
    """
    from fairway.cli.output import check_output, print_json
    from fairway.conformance.placements import verify_placements

    check_output(output)
    result = verify_placements(file)
    if output == "json":
        print_json(result.as_json())
    else:
        for difference in result.differences if verbose else ():
            typer.echo(difference.text())
        typer.echo(f"agree {result.agreed} of {result.total}")
    raise typer.Exit(0 if result.agreed == result.total else 1)


@app.command("kueue-table")
def kueue_table(file: RecordingFile, verbose: Verbose = False) -> None:
    """Run rows of Kueue's decision tables: the same admissions, preemptions and leftovers.

    Example: fairway verify kueue-table TestSchedule.jsonl -v
    """
    from fairway.cli.verify_kueue_cmd import kueue_table as run

    raise typer.Exit(run(file, verbose))


@app.command("kueue-scenarios")
def kueue_scenarios(file: RecordingFile, verbose: Verbose = False, output: Output = "table") -> None:
    """Play recorded Kueue scenarios: the same conditions, admissions, jobs, pods and refusals after every step.

    Where several nodes would do, kube-scheduler picks at random: there only the number of pods placed counts.

    Example: fairway verify kueue-scenarios scenarios.jsonl -v
    """
    from fairway.cli.verify_kueue_cmd import kueue_scenarios as run

    raise typer.Exit(run(file, verbose, output))


@app.command("kubectl")
def kubectl(file: RecordingFile, verbose: Verbose = False, output: Output = "table") -> None:
    """Play a recorded kubectl session against a fresh server: the same exit codes and the same output.

    Ages, addresses, UIDs, versions and hash suffixes may differ. A recording's commands are run in a shell.

    Example: fairway verify kubectl session.jsonl -v
    """
    from fairway.cli.verify_kubectl_cmd import kubectl as run

    raise typer.Exit(run(file, verbose, output))


@app.command("api")
def api(file: RecordingFile, output: Output = "table") -> None:
    """Send recorded HTTP requests to a fresh server: kube-apiserver's codes, messages and bodies?

    Each difference is shown as recorded and as Fairway answers. UIDs, times, versions and addresses may differ.

    Example: fairway verify api requests.jsonl
    """
    from fairway.cli.verify_kubectl_cmd import api as run

    raise typer.Exit(run(file, output))
