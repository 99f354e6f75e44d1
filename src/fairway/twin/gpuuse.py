"""How does a pod use the GPUs it holds? Its annotations and its owner, as what `telemetry.gpus` derives metrics from.

Utilisation, memory, start-up and checkpoints are those of `behaviour`; what nobody says is what pods of its kind do.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from fairway.catalog.gpus import MIB
from fairway.telemetry.gpus import Use
from fairway.telemetry.gpus.kinds import CORES_WANTED, KINDS, STEADY, TRAINING, Activity, guess
from fairway.twin.behaviour import PREFIX, Behaviour, BehaviourError, behaviour_of, said

# The annotations that say it.
_TELLING = (PREFIX + "gpu-", PREFIX + "checkpoint-", PREFIX + "startup-time", PREFIX + "restore-time")


class Working(NamedTuple):
    """A pod. `root_kind`, `root_name`: its topmost owner; `behaviour`: its annotations about GPUs, as JSON."""

    namespace: str
    name: str
    root_kind: str
    root_name: str
    is_serving: bool
    cpu_milli: int
    started_us: int | None
    behaviour: str


def behaviour_text(annotations: Mapping[str, str]) -> str:
    """The annotations that say how a pod uses its GPUs, from which its metrics are derived: as JSON; empty without."""
    words = {name: str(value) for name, value in annotations.items() if name.startswith(_TELLING)}
    return json.dumps(words, sort_keys=True) if words else ""


def uses_of(row: Working, start_us: int, end_us: int, devices: int, memory_mib: float) -> Iterator[Use]:
    """How a pod uses each of its devices while it holds them. `memory_mib`: a device's framebuffer."""
    behaviour = _behaviour(row.behaviour)
    told = behaviour.gpu_activity if behaviour is not None else None
    kind = guess(row.root_kind, row.root_name or row.name, is_serving=row.is_serving)
    activity = told or Activity(kind)
    code = activity.kind
    levels = behaviour.gpu_utilization_milli if behaviour is not None else ()
    if told is None and levels:
        # Who says how busy it is, is as busy as that.
        code = STEADY
    model = KINDS[code]
    starved = (
        min(1.0, row.cpu_milli / (1000 * CORES_WANTED * devices))
        if code == TRAINING and row.cpu_milli
        else 1.0
    )
    begins = row.started_us if row.started_us is not None else end_us
    begins = max(start_us, begins) + (behaviour.startup.at_quantile(0.5) if behaviour is not None else 0)
    pattern = f"{row.namespace}/{row.root_name or row.name}"
    held = behaviour.gpu_memory_bytes if behaviour is not None else ()
    steps = sorted({0, *(at for at, _ in levels), *(at for at, _ in held)})
    if begins > start_us:
        yield Use(start_us, min(begins, end_us), STEADY, 0.0)
    for at, until in zip(steps, [*steps[1:], None], strict=True):
        first = begins + at
        last = end_us if until is None else min(begins + until, end_us)
        if last > first:
            yield Use(
                first,
                last,
                code,
                (_at(levels, at) / 1000 if levels else model.level) * (1.0 if levels else starved),
                memory_mib=_at(held, at) / MIB if held else model.memory * memory_mib,
                growth_mib_per_h=activity.leak_mib_per_h,
                input_stalls=min(activity.input_stalls + (1 - starved) / 2, 0.95),
                interval_us=behaviour.checkpoint_interval_us if behaviour is not None else 0,
                dip_us=behaviour.checkpoint_us if behaviour is not None else 0,
                anchor_us=begins,
                is_linked=devices > 1,
                pattern=pattern,
            )


def _at(steps: tuple[tuple[int, int], ...], at_us: int) -> int:
    level = 0
    for from_us, value in steps:
        if from_us <= at_us:
            level = value
    return level


@lru_cache(maxsize=4096)
def _behaviour(text: str) -> Behaviour | None:
    if not text:
        return None
    words: dict[str, Any] = json.loads(text)
    try:
        return behaviour_of({"name": ""}, "Always", said({k: str(v) for k, v in words.items()}))
    except BehaviourError:
        return None
