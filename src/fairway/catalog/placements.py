"""Where on a card may MIG instances be? What the driver allows, and which place it takes.

An instance begins on one of its profile's starts and covers memory slices from there; instances do not overlap, have
no more compute slices than the card together, and one of them may have the media engines.

Source: MIG user guide; `nvidia-smi mig -lgipp`, `-lgi` and the order in which `-cgi` creates instances.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from fairway.catalog.gpus import GpuModel, MigProfile

# The driver's numbers of GPU instances, by memory slices and start: a tree of halves, quarters and eighths.
_QUARTERS = {0: 3, 2: 6, 4: 5, 6: 4}
_FIRST_EIGHTH = 7


class Instance(NamedTuple):
    """A GPU instance on a card; `1g.10gb@6` in writing."""

    profile: MigProfile
    start: int

    @property
    def end(self) -> int:
        return self.start + self.profile.memory_slices

    def overlaps(self, other: Instance) -> bool:
        return self.start < other.end and other.start < self.end

    def id_on(self, model: GpuModel) -> int:
        """The number the driver gives it: `GPU instance ID`."""
        width = self.profile.memory_slices
        if width == model.memory_slices:
            return 0
        if width == 4:
            return 2 if self.start == 0 and self.profile.compute_slices < width else 1
        if model.memory_slices < 8:
            return self.start // width + (1 if width == 2 else 3)
        return _QUARTERS[self.start] if width == 2 else _FIRST_EIGHTH + self.start

    def __str__(self) -> str:
        return f"{self.profile.name}@{self.start}"


Layout = tuple[Instance, ...]
"""The instances of one card, by start."""


@lru_cache(maxsize=64)
def placements(model: GpuModel) -> tuple[Instance, ...]:
    """Every place an instance can be on an empty card."""
    return tuple([Instance(p, start) for p in model.mig for start in p.starts])


def fits(model: GpuModel, layout: Sequence[Instance], new: Instance) -> bool:
    """Whether it may be created beside these."""
    if new.start not in new.profile.starts or any(new.overlaps(other) for other in layout):
        return False
    if new.profile.has_media and any(other.profile.has_media for other in layout):
        return False
    compute = sum(other.profile.compute_slices for other in layout)
    return compute + new.profile.compute_slices <= model.compute_slices


@lru_cache(maxsize=4096)
def _preferred(model: GpuModel, profile: MigProfile) -> tuple[Instance, ...]:
    """Its places in the order in which the driver takes them: first where it bars the fewest others."""
    found = [Instance(profile, start) for start in profile.starts]
    barred = {at: sum(at.overlaps(other) for other in placements(model)) for at in found}
    return tuple(sorted(found, key=lambda at: (barred[at], at.start)))


def placed(model: GpuModel, layout: Layout, profile: MigProfile) -> Instance | None:
    """Where the driver puts one more; None: nowhere."""
    return next((at for at in _preferred(model, profile) if fits(model, layout, at)), None)


def laid_out(model: GpuModel, counts: Mapping[MigProfile, int]) -> Layout | None:
    """The layout with so many instances of each profile, as mig-parted makes it: created one by one, largest first,
    and in other orders while that fails. None: no order succeeds."""
    if sum(p.compute_slices * n for p, n in counts.items()) > model.compute_slices:
        return None
    order = sorted((p for p in counts if counts[p] > 0), key=lambda p: (-p.compute_slices, p.name))
    return _created(model, tuple([p for p in order for _ in range(counts[p])]), ())


@lru_cache(maxsize=65536)
def _created(model: GpuModel, left: tuple[MigProfile, ...], layout: Layout) -> Layout | None:
    if not left:
        return layout
    for profile in dict.fromkeys(left):
        at = placed(model, layout, profile)
        if at is None:
            continue
        i = left.index(profile)
        found = _created(model, left[:i] + left[i + 1 :], tuple(sorted((*layout, at), key=lambda x: x.start)))
        if found is not None:
            return found
    return None


def layouts(model: GpuModel) -> Iterator[Layout]:
    """Every layout there can be, the empty one included. Some thousands on a card with eight memory slices."""
    options = sorted(placements(model), key=lambda at: (at.start, at.profile.name))
    stack: list[tuple[int, Layout]] = [(0, ())]
    while stack:
        at, layout = stack.pop()
        yield layout
        stack += [
            (i + 1, (*layout, options[i])) for i in range(at, len(options)) if fits(model, layout, options[i])
        ]


def layout_text(layout: Layout) -> str:
    """`3g.40gb@0,1g.10gb@4`."""
    return ",".join(str(instance) for instance in layout)


def layout_of(model: GpuModel, text: str) -> Layout | None:
    """What `layout_text` wrote; None where the card cannot have that."""
    found: Layout = ()
    for part in filter(None, text.split(",")):
        name, _, start = part.partition("@")
        profile = model.profile(name)
        if profile is None or not start.isdecimal():
            return None
        new = Instance(profile, int(start[:3]))
        if not fits(model, found, new):
            return None
        found = (*found, new)
    return tuple(sorted(found, key=lambda x: x.start))
