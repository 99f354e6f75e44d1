"""Scripts and a site together, all or nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from fairway.errors import FieldProblem, InvalidInput
from fairway.kube.objects import Obj
from fairway.slurm.administration import Slurmctld
from fairway.slurm.commands.site import MAX_SCRIPT, Site
from fairway.slurm.conf import read_configuration
from fairway.slurm.converting.jobs import Choices, Converted, convert_script
from fairway.slurm.converting.notes import LOST, Note
from fairway.slurm.converting.scripts import read_script
from fairway.slurm.converting.sites import ConvertedSite, convert_site
from fairway.slurm.lifecycle import Behaviour
from fairway.slurm.model.association import empty_accounts
from fairway.slurm.sitefolder import SiteFolder, is_site, read_site

SUFFIXES = (".sh", ".sbatch", ".slurm", ".job", ".bash")
MAX_SCRIPTS = 10_000


@dataclass(slots=True)
class Conversion:
    """`site` None: scripts alone."""

    scripts: list[Converted] = field(default_factory=list)
    site: ConvertedSite | None = None

    @property
    def notes(self) -> list[Note]:
        found = list(self.site.notes) if self.site else []
        return found + [note for one in self.scripts for note in one.notes]

    @property
    def objects(self) -> list[Obj]:
        """What is applied, without machines."""
        found = list(self.site.objects) if self.site else []
        return found + [obj for one in self.scripts for obj in one.objects]

    @property
    def loses(self) -> bool:
        return any(note.kind == LOST for note in self.notes)


def convert(
    paths: Iterable[Path], choices: Choices, *, conf: Path | None = None, now_us: int = 0
) -> Conversion:
    """`paths`: scripts, folders of scripts, a slurm.conf or its folder; `conf`: a site that scripts are for, whose
    own objects are not wanted. Raises: InvalidInput with every problem of every file."""
    sites = [path for path in paths if is_site(path) or path.suffix == ".conf"]
    files = [file for path in paths if path not in sites for file in _files(path)]
    if len(sites) > 1:
        raise InvalidInput((FieldProblem(str(sites[1]), 0, "", "", f"expected one site; {sites[0]} is one"),))
    made = Conversion()
    place = sites[0] if sites else conf
    site = read_site(place, now_us) if place is not None else None
    controller = _controller(site, now_us)
    if site is not None:
        found = convert_site(site, controller.cluster)
        choices = replace(choices, cluster=controller.cluster, levels=found.levels, classes=found.classes)
        made.site = found if sites else None
    problems: list[FieldProblem] = []
    names: set[str] = set()
    for file in files:
        try:
            script = read_script(str(file), _text(file), Site(controller))
            made.scripts.append(convert_script(script, choices, names))
        except InvalidInput as invalid:
            problems.extend(invalid.problems)
    if problems:
        raise InvalidInput(tuple(problems))
    return made


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = sorted(file for file in path.iterdir() if file.suffix in SUFFIXES and file.is_file())
    if not found or len(found) > MAX_SCRIPTS:
        said = f"holds {len(found)} scripts ({', '.join(SUFFIXES)}): expected 1 to {MAX_SCRIPTS}"
        raise InvalidInput((FieldProblem(str(path), 0, "", "", said),))
    return found


def _text(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            return stream.read(MAX_SCRIPT + 1).decode("utf-8")
    except UnicodeDecodeError as wrong:
        raise InvalidInput((FieldProblem(str(file), 0, "", "", f"is no UTF-8 text: {wrong}"),)) from None
    except OSError as failed:
        said = f"cannot be read: {failed.strerror}"
        raise InvalidInput((FieldProblem(str(file), 0, "", "", said),)) from None


def _controller(site: SiteFolder | None, now_us: int) -> Slurmctld:
    if site is not None:
        return site.controller(now_us, enforce=False)
    conf = read_configuration({"slurm.conf": "ClusterName=none\nGresTypes=gpu\n"})
    return Slurmctld(conf, empty_accounts("none"), lambda job, now: Behaviour(None), now_us)
