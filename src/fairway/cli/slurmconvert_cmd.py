"""`fairway slurm convert`: scripts and configuration of a Slurm site as Kubernetes objects."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from fairway.kube.manifest import Manifest
    from fairway.kube.objects import Obj
    from fairway.slurm.converting.converting import Conversion

FORMATS = ("yaml", "json")


def convert(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH…", help="Batch scripts, folders of them, a slurm.conf or its folder."),
    ],
    conf: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The site the scripts are for; its own objects are left out."),
    ] = None,
    image: Annotated[str, typer.Option(help="The image of pods whose script names none.")] = "python:3.12",
    claim: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME:PATH", help="Mount this PersistentVolumeClaim there, again for more."),
    ] = None,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", metavar="NS", help="Of jobs without --account.")
    ] = "default",
    queue: Annotated[
        str, typer.Option(metavar="NAME", help="The LocalQueue of jobs without --partition.")
    ] = "default",
    nodes: Annotated[
        bool, typer.Option("--nodes", help="The site's machines too, for a simulation.")
    ] = False,
    to: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write files here, new ones only; else YAML goes to stdout."),
    ] = None,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="yaml|json", help="How to print.")
    ] = "yaml",
) -> None:
    """Turn batch scripts into Jobs, JobSets, PyTorchJobs and MPIJobs, and slurm.conf into Kueue's queues.

    What is done in another way, left out or lost is said for each directive, with file and line, on stderr. Exits 1
    when something has no equal, 2 when sbatch would not take a script: then nothing is written.

    Example: fairway slurm convert examples/19-leaving-slurm/site examples/19-leaving-slurm/scripts --to k8s
    """
    import time

    from fairway.cli.output import check_output, print_json
    from fairway.kube.manifestwriting import write_yaml
    from fairway.slurm.converting.converting import convert as converted
    from fairway.slurm.converting.jobs import Choices
    from fairway.slurm.converting.notes import note_lines

    check_output(output, FORMATS)
    choices = Choices(image=image, claims=_claims(claim or []), namespace=namespace, queue=queue)
    made = converted(paths, choices, conf=conf, now_us=int(time.time()) * 1_000_000)
    machines = made.site.machines if made.site and (nodes or to) else []
    _check(made)
    objects = [*machines, *made.objects]
    if to is not None:
        _write(made, machines, to)
    elif output == "json":
        notes = [note.as_json() for note in made.notes]
        print_json({"objects": objects, "notes": notes, "loses": made.loses})
    else:
        typer.echo(write_yaml(objects), nl=False)
    if output != "json":
        for line in note_lines(made.notes):
            typer.echo(line, err=True)
    if made.loses:
        raise typer.Exit(1)


def _claims(texts: list[str]) -> tuple[tuple[str, str], ...]:
    from fairway.errors import UserError

    found = []
    for text in texts:
        name, colon, path = text.partition(":")
        if not colon or not name or not path.startswith("/"):
            raise UserError(f"--claim {text!r}: expected NAME:PATH, such as home:/home")
        found.append((name, path))
    return tuple(found)


def _check(made: Conversion) -> None:
    """Whatever comes out is let in at the door. Raises: InvalidInput."""
    from fairway.admission import trial
    from fairway.admission.request import ADMIN
    from fairway.cluster.store import Store
    from fairway.errors import FieldProblem, InvalidInput
    from fairway.twin.operators import OperatorWebhooks, settings_where_used

    store = Store()
    operators = OperatorWebhooks(store, lambda: settings_where_used(store))
    found = trial.judge(_manifests(made), (), ADMIN, store, operators)
    problems = [
        FieldProblem(f.file, 0, "", "", f"the object made of it would be refused: {f.message}", f.subject)
        for f in found.findings
        if f.outcome == trial.DENIED
    ]
    if problems:
        raise InvalidInput(tuple(problems))


def _manifests(made: Conversion) -> list[Manifest]:
    from fairway.kube.manifest import Manifest

    site: list[Obj] = [*made.site.machines, *made.site.objects] if made.site else []
    found = [Manifest(obj, "slurm.conf") for obj in site]
    return found + [Manifest(obj, one.file) for one in made.scripts for obj in one.objects]


def _write(made: Conversion, machines: list[Any], to: Path) -> None:
    """Every file, or none: they appear together, in a new folder."""
    import os
    import tempfile

    from fairway.errors import UserError
    from fairway.kube.manifestwriting import write_yaml
    from fairway.slurm.converting.notes import note_lines
    from fairway.slurm.converting.sites import kueue_configuration, scenario_of

    if to.exists():
        raise UserError(f"--to {to}: is there already; expected a name that is free")
    texts = {"notes.txt": "\n".join(note_lines(made.notes)) + "\n"}
    for one in made.scripts:
        texts[f"jobs/{one.objects[-1]['metadata']['name']}.yaml"] = write_yaml(one.objects)
    if made.site is not None:
        texts["queues.yaml"] = write_yaml(made.site.objects)
        texts["nodes.yaml"] = write_yaml(machines)
        texts["kueue.yaml"] = write_yaml([kueue_configuration()])
        texts["scenario.yaml"] = write_yaml([scenario_of(to.name, bool(made.scripts))])
    to.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=to.parent) as held:
        folder = Path(held) / "made"
        folder.mkdir()
        for name, text in texts.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        os.rename(folder, to)
    typer.echo(f"{len(made.objects) + len(machines)} objects in {len(texts) - 1} files under {to}", err=True)
