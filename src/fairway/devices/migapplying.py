"""What becomes of a node's cards when a MIG configuration is applied? nvidia-mig-parted's `assert` and `apply`.

Cards are gone through in order, entry by entry, and what is done stays done: one that fails leaves those before it as
asked, itself without the instances that could be destroyed, and those after it as they were. An instance that a
process has cannot be destroyed, a card that one has can change its MIG mode only by a reset, which waits for all.

Source: NVIDIA/mig-parted 0.15 cmd/nvidia-mig-parted/{assert,apply}, pkg/mig/{config,mode}; NVML's numbers of profiles.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fairway.catalog.gpus import GpuModel, MigProfile
from fairway.catalog.placements import Layout, laid_out
from fairway.devices.migconfig import MigConfigError, MigSpec

Held = frozenset[tuple[int, int]]
"""What processes have: a card, and the memory slice on which their instance begins, `WHOLE` without one."""
WHOLE: Final = -1
_HOOKS: Final = "error applying MIG configuration with hooks: "
_SETTING: Final = "error setting MIGConfig: error attempting multiple config orderings: all orderings failed"


@dataclass(frozen=True, slots=True)
class Applied:
    """The cards afterwards. `problem`: what mig-parted says before it exits with 1. `pending`: cards whose MIG mode is
    set and waits for a reset; then it was the mode that failed."""

    layouts: tuple[Layout | None, ...]
    problem: str = ""
    pending: tuple[int, ...] = ()
    is_mode: bool = False
    """Whether changing the mode is what failed."""

    def rebooted(self) -> tuple[Layout | None, ...]:
        """After a reboot: the mode stays and what was pending holds; instances are gone."""
        return tuple(
            [() if at is not None or i in self.pending else None for i, at in enumerate(self.layouts)]
        )


def mode_differs(specs: Sequence[MigSpec], model: GpuModel, layouts: Sequence[Layout | None]) -> bool:
    """Whether `assert --mode-only` fails."""
    for spec in specs:
        for i, layout in enumerate(layouts):
            if not spec.concerns(i, model.device_id):
                continue
            if spec.enabled != (layout is not None):
                return True
    return False


def is_applied(
    specs: Sequence[MigSpec],
    model: GpuModel,
    layouts: Sequence[Layout | None],
    *,
    mode_only: bool = False,
) -> bool:
    """Whether `assert` succeeds: modes are as asked, and every card of the node, not only those that an entry
    concerns, has what the last entry about it asks. An entry that counts a profile 0 times is never so."""
    if mode_differs(specs, model, layouts):
        return False
    if mode_only:
        return True
    matched = [False] * len(layouts)
    for spec in specs:
        for i, layout in enumerate(layouts):
            if spec.concerns(i, model.device_id):
                matched[i] = not spec.enabled or _has(layout, spec, model)
    return all(matched)


def _has(layout: Layout | None, spec: MigSpec, model: GpuModel) -> bool:
    wanted = {_name(model, name): n for name, n in spec.counts.items()}
    return layout is not None and dict(Counter(at.profile.name for at in layout)) == wanted


def _name(model: GpuModel, name: str) -> str:
    profile = model.profile(name)
    return name if profile is None else profile.name


def applied(
    specs: Sequence[MigSpec],
    model: GpuModel,
    current: Sequence[Layout | None],
    held: Held = frozenset(),
    *,
    mode_only: bool = False,
) -> Applied:
    """Raises: MigConfigError for compute instances smaller than their GPU instance, which are not modelled."""
    cards = list(current)
    if mode_differs(specs, model, cards):
        pending, problem = _set_modes(specs, model, cards, held)
        if problem:
            return Applied(tuple(cards), _HOOKS + problem, pending, True)
    problem = "" if mode_only else _set_instances(specs, model, cards, held)
    return Applied(tuple(cards), _HOOKS + problem if problem else "")


def _set_modes(
    specs: Sequence[MigSpec], model: GpuModel, cards: list[Layout | None], held: Held
) -> tuple[tuple[int, ...], str]:
    """Every card of the configuration is cleared, also those whose mode is right. Returns pending cards, and what
    went wrong."""
    pending: list[int] = []
    for spec in specs:
        for i in [i for i in range(len(cards)) if spec.concerns(i, model.device_id)]:
            if not model.is_mig_capable:
                if spec.devices is None or not spec.enabled:
                    continue
                return (), "cannot set MIG mode on non MIG-capable GPU"
            stuck = _clear(i, cards, held)
            if stuck:
                return (), f"error clearing existing MIG configurations: {stuck}"
            if not spec.enabled:
                cards[i] = None
            elif cards[i] is None and (i, WHOLE) in held:
                pending.append(i)
            elif cards[i] is None:
                cards[i] = ()
    if pending:
        return tuple(pending), f"error resetting all GPUs (GPU {pending[0]}: In use by another client)"
    return (), ""


def _set_instances(specs: Sequence[MigSpec], model: GpuModel, cards: list[Layout | None], held: Held) -> str:
    for spec in specs:
        for i in [i for i in range(len(cards)) if spec.concerns(i, model.device_id)]:
            if not model.is_mig_capable:
                if spec.devices is None or not spec.enabled:
                    continue
                return "cannot set MIG config on non MIG-capable GPU"
            if spec.enabled and cards[i] is None:
                return "unable to apply MIG config with MIG mode disabled"
            if not spec.enabled and cards[i] is not None:
                return "MIG mode is currently enabled, but the configuration specifies it should be disabled"
            if not spec.enabled or _has(cards[i], spec, model):
                continue
            stuck = _clear(i, cards, held)
            if stuck:
                return f"{_SETTING} (error clearing MigConfig: {stuck})"
            problem = _cut(i, spec, model, cards)
            if problem:
                return problem
    return ""


def _clear(i: int, cards: list[Layout | None], held: Held) -> str:
    """Instances go profile by profile, in NVML's order, up to the first that a process has."""
    layout = cards[i]
    left = sorted(layout or (), key=lambda at: (_nvml(at.profile), at.start))
    while left:
        if (i, left[0].start) in held or (i, WHOLE) in held:
            cards[i] = tuple(sorted(left, key=lambda at: at.start))
            slices = left[0].profile.compute_slices
            return (
                f"error walking gpu instances for '{i}': error walking compute instances for "
                f"'{_nvml(left[0].profile)}': error destroying Compute instance for profile "
                f"'({slices - 1}, 0)': In use by another client"
            )
        left.pop(0)
    cards[i] = None if layout is None else ()
    return ""


def _nvml(profile: MigProfile) -> int:
    """NVML's number of a profile, by which it walks: plain ones by size, with media engines, with more memory."""
    slices = profile.compute_slices
    if profile.has_media:
        return 6 + slices
    return (
        9
        if slices == 1 < profile.memory_slices
        else {1: 0, 2: 1, 3: 2, 4: 3, 7: 4, 8: 5, 6: 6}.get(slices, 10)
    )


def _cut(i: int, spec: MigSpec, model: GpuModel, cards: list[Layout | None]) -> str:
    """An empty card gets its instances. A profile that no card of the node has is not complained about: upstream
    takes the list of instances to be empty then, and the card stays without any."""
    parts = next((name for name in spec.counts if name.count(".") > 1 and "c." in name[:3]), "")
    if parts and model.profile(parts) is None:
        raise MigConfigError(f"{parts}: compute instances smaller than their GPU instance are not modelled")
    wanted = {profile: n for name, n in spec.counts.items() if n and (profile := model.profile(name))}
    if len(wanted) < sum(n > 0 for n in spec.counts.values()):
        return ""
    layout = laid_out(model, wanted)
    if layout is None:
        asked = ", ".join(f"{n} x {name}" for name, n in spec.counts.items() if n)
        return f"{_SETTING} ({asked} do not fit on a {model.product}: Insufficient Resources)"
    cards[i] = layout
    return ""
