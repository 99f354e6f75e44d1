"""What `fairway init` has to know."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fairway.catalog.catalog import Catalog
from fairway.catalog.gpus import GpuModel
from fairway.catalog.instances import InstanceType
from fairway.errors import UserError

TEAMS_MOST, NODES_MOST, GPUS_MOST = 100, 10_000, 64
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Answers:
    """`nodes` of `gpus` GPUs each; with a `region`, machines with such GPUs are bought there up to that many nodes."""

    name: str
    model: GpuModel
    nodes: int
    gpus: int
    teams: tuple[str, ...]
    provider: str = ""
    region: str = ""
    types: tuple[InstanceType, ...] = ()

    @property
    def gpus_in_all(self) -> int:
        return self.nodes * self.gpus


def checked(
    catalog: Catalog, name: str, model: str, nodes: int, gpus: int, teams: tuple[str, ...], region: str
) -> Answers:
    """Raises: UserError for an answer that makes no scenario."""
    found = catalog.gpu(model)
    if found is None:
        known = ", ".join(m.name for m in catalog.gpus())
        raise UserError(f"--model {model}: expected one of {known}")
    for option, value, most in (("--nodes", nodes, NODES_MOST), ("--gpus", gpus, GPUS_MOST)):
        if not 1 <= value <= most:
            raise UserError(f"{option} {value}: expected 1 to {most}")
    if not 1 <= len(teams) <= TEAMS_MOST:
        raise UserError(f"{len(teams)} teams: expected 1 to {TEAMS_MOST}")
    for team in teams:
        if not _NAME.fullmatch(team):
            raise UserError(f"team {team!r}: expected lower-case letters, digits and '-', 40 at most")
    if len(set(teams)) < len(teams):
        raise UserError(f"a team is named twice: {', '.join(teams)}")
    if not region:
        return Answers(name, found, nodes, gpus, teams)
    types = tuple(t for t in catalog.instance_types() if t.gpu == found.name and region in t.regions)
    if not types:
        raise UserError(f"{region} has no machine with {found.name}: {_where(catalog, found)}")
    gpus = max(t.gpus for t in types)
    return Answers(name, found, nodes, gpus, teams, types[0].provider, region, types)


def _where(catalog: Catalog, model: GpuModel) -> str:
    regions = sorted({r for t in catalog.instance_types() if t.gpu == model.name for r in t.regions})
    return f"it is to be had in {', '.join(regions)}" if regions else "no cloud of the catalog has it"
