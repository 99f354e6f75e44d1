"""`fairway verify`: does Fairway decide what the real engines decided?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from fairway.conformance.verification import Verification

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
        metavar="FILE",
        exists=True,
        dir_okay=False,
        help="The recording, one JSON object a line, plain or .gz.",
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
    _verify("placements", file, verbose, output)


@app.command("kueue-table")
def kueue_table(file: RecordingFile, verbose: Verbose = False, output: Output = "table") -> None:
    """Run rows of Kueue's decision tables: the same admissions, preemptions and leftovers.

    Example: fairway verify kueue-table TestSchedule.jsonl -v
    """
    _verify("kueue-table", file, verbose, output)


@app.command("kueue-scenarios")
def kueue_scenarios(file: RecordingFile, verbose: Verbose = False, output: Output = "table") -> None:
    """Play recorded Kueue scenarios: the same conditions, admissions, jobs, pods and refusals after every step.

    Where several nodes would do, kube-scheduler picks at random: there only the number of pods placed counts.

    Example: fairway verify kueue-scenarios scenarios.jsonl -v
    """
    _verify("kueue-scenarios", file, verbose, output)


@app.command("kubectl")
def kubectl(file: RecordingFile, verbose: Verbose = False, output: Output = "table") -> None:
    """Play a recorded kubectl session against a fresh server: the same exit codes and the same output.

    Ages, addresses, UIDs, versions and hash suffixes may differ. A recording's commands are run in a shell.

    Example: fairway verify kubectl session.jsonl -v
    """
    _verify("kubectl", file, verbose, output)


@app.command("api")
def api(file: RecordingFile, verbose: Verbose = False, output: Output = "table") -> None:
    """Send recorded HTTP requests to a fresh server: kube-apiserver's codes, messages and bodies?

    UIDs, times, versions and addresses may differ.

    Example: fairway verify api requests.jsonl -v
    """
    _verify("api", file, verbose, output)


@app.command("slurm-scheduling")
def slurm_scheduling(file: RecordingFile, verbose: Verbose = False, output: Output = "table") -> None:
    """Play recorded scenarios of a slurmctld: the same starts, nodes, CPUs, GPUs, states and reasons?

    Starts may be two seconds apart, with sched/builtin four.

    Example: fairway verify slurm-scheduling scheduling.jsonl -v
    """
    _verify("slurm-scheduling", file, verbose, output)


@app.command("hpa")
def hpa(file: RecordingFile, verbose: Verbose = False, output: Output = "table") -> None:
    """Run recorded HorizontalPodAutoscalers: the same statuses, scales and events after every look.

    A recording cuts times to seconds; it agrees if it does for one beginning within that second.

    Example: fairway verify hpa hpa.jsonl -v
    """
    _verify("hpa", file, verbose, output)


@app.command("dra")
def dra(file: RecordingFile, verbose: Verbose = False, output: Output = "table") -> None:
    """Play recorded clusters with devices: the same nodes, devices, claims, conditions, scores and events?

    Where kube-scheduler drew a node among equals, Fairway is given the recorded one and goes on.

    Example: fairway verify dra dra.jsonl -v
    """
    _verify("dra", file, verbose, output)


@app.command("dra-validation")
def dra_validation(file: RecordingFile, verbose: Verbose = False, output: Output = "table") -> None:
    """Send recorded requests about devices and claims to a fresh server: refused or stored as kube-apiserver did?

    Example: fairway verify dra-validation validation.jsonl -v
    """
    _verify("dra-validation", file, verbose, output)


@app.command("kubelet")
def kubelet(file: RecordingFile, verbose: Verbose = False, output: Output = "table") -> None:
    """Try the test tables of the kubelet's managers: the same NUMA nodes, CPUs, memory, devices and refusals?

    Example: fairway verify kubelet recordings/kubelet-managers.jsonl.gz -v
    """
    _verify("kubelet", file, verbose, output)


@app.command("promql")
def promql(file: RecordingFile, verbose: Verbose = False, output: Output = "table") -> None:
    """Ask recorded queries again: the same series, and values to 1e-9, as a real Prometheus gave?

    A file named *.test is a script of Prometheus' own tests.

    Example: fairway verify promql recordings/promql.jsonl.gz -v
    """
    _verify("promql", file, verbose, output)


@app.command("slurm-commands")
def slurm_commands(file: RecordingFile, verbose: Verbose = False, output: Output = "table") -> None:
    """Play recorded sessions of sbatch, squeue and the others: the same output, messages and exit codes?

    Clock times may be three seconds apart; loads, process numbers and ports may differ. A recording's commands are run
    in a shell.

    Example: fairway verify slurm-commands commands.jsonl -v
    """
    _verify("slurm-commands", file, verbose, output)


@app.command("all")
def everything(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", exists=True, file_okay=False, help="A folder with recordings.toml."),
    ] = Path("recordings"),
    verbose: Verbose = False,
    output: Output = "table",
) -> None:
    """Replay every recording of a folder: engine, version, cases, how many agree.

    A checkout of Fairway has the recordings it is tested with in `recordings/`.

    Example: fairway verify all recordings
    """
    from fairway.cli.output import check_output, print_json, print_table
    from fairway.conformance.suite import read_index, replay_all

    check_output(output)
    total = len(read_index(folder))
    replayed = []
    for one in replay_all(folder):
        replayed.append(one)
        typer.echo(
            f"{len(replayed)}/{total} {one.recording.file}: agree {one.found.agreed} of {one.found.total}",
            err=True,
        )
    agreed, cases = (sum(getattr(r.found, n) for r in replayed) for n in ("agreed", "total"))
    if output == "json":
        print_json({"agreed": agreed, "total": cases, "recordings": [r.as_json() for r in replayed]})
    else:
        for one in replayed if verbose else ():
            _print_differences(one.found)
        rows = [
            (
                of.engine,
                of.version,
                f"{found.total:,}",
                f"{found.agreed:,}",
                f"{found.agreed / found.total:.1%}",
                of.what,
            )
            for of, found in ((r.recording, r.found) for r in replayed)
        ]
        print_table(("ENGINE", "VERSION", "CASES", "AGREE", "", "WHAT"), rows, right=(2, 3, 4))
        typer.echo(f"agree {agreed} of {cases}")
    raise typer.Exit(0 if agreed == cases else 1)


def _verify(check: str, file: Path, verbose: bool, output: str) -> None:
    """Replay one recording and print how many cases agree. Exits 0 where all do, 1 where not."""
    from fairway.cli.output import check_output, print_json
    from fairway.conformance.suite import check_of

    check_output(output)
    found = check_of(check)(file)
    if output == "json":
        print_json(found.as_json())
    else:
        _print_differences(found, verbose)
        typer.echo(f"agree {found.agreed} of {found.total}")
    raise typer.Exit(0 if found.holds else 1)


def _print_differences(found: Verification, verbose: bool = True) -> None:
    for difference in found.differences if verbose else ():
        typer.echo(difference.text())
    for case in found.inapplicable:
        typer.echo(case.text())
