"""What was noted, as arrays: the ground that series and rows are worked out from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fairway.recorder.pods import (
    CREATED,
    END,
    FINISHED,
    INTERVAL_WIDTH,
    LIFE,
    PLACE,
    POD,
    SCHEDULED,
    START,
    STARTED,
    WIDTH,
    PodLedger,
)
from fairway.recorder.steps import FAR, Ints
from fairway.recorder.workloads import NEVER


@dataclass(frozen=True, slots=True)
class Facts:
    """Per pod and per interval, int64. Times that are not yet are FAR; `owner` is -1 without one.

    `used`: per interval, milli-GPU·µs made use of, as far as told; `use_times`, `use_deltas`: its changes.
    """

    until: int
    created: Ints
    placed: Ints
    """When it stopped waiting for a node: bound, or over without one."""
    started: Ints
    finished: Ints
    is_placed: Ints
    gpu: Ints
    owner: Ints
    interval_pod: Ints
    interval_life: Ints
    interval_start: Ints
    interval_end: Ints
    """Open ones end at `until`."""
    interval_is_open: Ints
    interval_gpu: Ints
    interval_cpu: Ints
    interval_memory: Ints
    tells_use: Ints
    """Per interval: 1 where its pod says how it uses GPUs."""
    used: Ints
    use_times: Ints
    use_deltas: Ints
    memory_used: Mapping[int, int]
    """By interval: mean bytes of GPU memory made use of, where its pod says so."""


def facts_of(pods: PodLedger, until: int) -> Facts:
    """O(pods + intervals + changes of use)."""
    numbers = np.array(pods.numbers, np.int64).reshape(-1, WIDTH)
    intervals = np.array(pods.intervals, np.int64).reshape(-1, INTERVAL_WIDTH)
    times = np.where(numbers == NEVER, FAR, numbers)
    scheduled, finished = times[:, SCHEDULED], times[:, FINISHED]
    sizes = np.array(pods.interval_sizes, np.int64).reshape(-1, 3)
    is_open = intervals[:, END] == NEVER
    ends = np.where(is_open, until, intervals[:, END])
    tells = np.zeros(len(numbers), np.int64)
    tells[sorted(pods.uses)] = 1
    tells_use = tells[intervals[:, POD]]
    used, use_times, use_deltas = _uses(pods, intervals, ends, np.flatnonzero(tells_use), until)
    return Facts(
        until=until,
        created=times[:, CREATED],
        placed=np.minimum(scheduled, finished),
        started=times[:, STARTED],
        finished=finished,
        is_placed=(numbers[:, PLACE] >= 0).astype(np.int64),
        gpu=np.array([s.size[0] for s in pods.sorts], np.int64),
        owner=np.array([-1 if o is None else o.index for o in pods.owners], np.int64),
        interval_pod=intervals[:, POD],
        interval_life=intervals[:, LIFE],
        interval_start=intervals[:, START],
        interval_end=ends,
        interval_is_open=is_open.astype(np.int64),
        interval_gpu=sizes[:, 0],
        interval_cpu=sizes[:, 1],
        interval_memory=sizes[:, 2],
        tells_use=tells_use,
        used=used,
        use_times=use_times,
        use_deltas=use_deltas,
        memory_used=_memory_used(pods, intervals, ends),
    )


def _memory_used(pods: PodLedger, intervals: Ints, ends: Ints) -> dict[int, int]:
    """Time-weighted means, rounded down; until the pod has started it uses none."""
    if not pods.memory_uses:
        return {}
    telling = np.isin(intervals[:, POD], sorted(pods.memory_uses))
    found = {}
    for i in np.flatnonzero(telling).tolist():
        row, _, start, _ = intervals[i].tolist()
        end, started = int(ends[i]), pods.numbers[row * WIDTH + STARTED]
        steps = [] if started == NEVER else [(started + at, size) for at, size in pods.memory_uses[row]]
        total = sum(
            size * max(0, min(upto, end) - max(at, start))
            for (at, size), upto in zip(steps, [*(at for at, _ in steps[1:]), end], strict=True)
        )
        found[i] = total // max(end - start, 1)
    return found


def _uses(pods: PodLedger, intervals: Ints, ends: Ints, telling: Ints, until: int) -> tuple[Ints, Ints, Ints]:
    """Use per interval, and the changes of use over time, for the intervals of pods that tell."""
    used = np.zeros(len(intervals), np.int64)
    times: list[int] = []
    deltas: list[int] = []
    for i in telling.tolist():
        row, _, start, _ = intervals[i].tolist()
        end = int(ends[i])
        started = pods.numbers[row * WIDTH + STARTED]
        if started == NEVER:
            continue
        at, using, total = max(start, started), 0, 0
        for offset, milli in pods.uses[row]:
            step = max(started + offset, start)
            if step >= end:
                break
            total += using * (step - at)
            times.append(step)
            deltas.append(milli - using)
            at, using = step, milli
        used[i] = total + using * (end - at)
        if end < until or not using:
            times.append(end)
            deltas.append(-using)
    return used, np.array(times, np.int64), np.array(deltas, np.int64)
