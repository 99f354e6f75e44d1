"""Trackable resources: counts by name, as Slurm writes them (`cpu=1,mem=1000M,node=1,billing=1,gres/gpu=8`).

A count of `mem` is MiB, of `cpu`, `node`, `gres/…` and `license/…` whole ones, of `billing` whole units.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

from fairway.slurm.words.sizes import tres_text

Tres = dict[str, int]

STATIC = ("cpu", "mem", "energy", "node", "billing", "fs/disk", "vmem", "pages")
"""The names slurmdbd gives ids 1 to 8, in that order."""


def order(names: Iterable[str], tracked: tuple[str, ...] = ()) -> list[str]:
    """Names in the order of their ids: the static ones, `tracked` (AccountingStorageTRES) as configured, the rest."""
    ids = _ids(tracked)
    return sorted(names, key=lambda name: (ids.get(name, len(ids)), name))


@cache
def _ids(tracked: tuple[str, ...]) -> dict[str, int]:
    return {name: at for at, name in enumerate((*STATIC, *tracked))}


def written(tres: Mapping[str, int], tracked: tuple[str, ...] = ()) -> str:
    """As `scontrol show job` writes TRES: in the order of ids, zero counts left out."""
    return tres_text((name, tres[name]) for name in order(tres, tracked) if tres[name])
