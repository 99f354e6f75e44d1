"""What a pod does with each of its GPUs, from when to when: as it says, and where it says nothing, as its kind does."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairway.telemetry.gpus.kinds import CORES_WANTED, KINDS, NOTEBOOK, SERVING, STEADY, TRAINING, guess
from fairway.twin.gpuuse import Working, behaviour_text, uses_of

S = 1_000_000
BOUND, END = 100 * S, 1000 * S
JOB, OTHER = guess("Job", "train", is_serving=False), guess("", "p", is_serving=False)


def uses(
    kind: str = "Job",
    started_us: int | None = 110 * S,
    cpu_milli: int = 0,
    devices: int = 1,
    end_us: int = END,
    **notes: str,
) -> list[Any]:
    text = behaviour_text({f"fairway.dev/{name.replace('_', '-')}": value for name, value in notes.items()})
    working = Working("ml", "p", kind, "train" if kind else "", False, cpu_milli, started_us, text)
    return list(uses_of(working, BOUND, end_us, devices, 1000.0))


def test_it_is_idle_until_it_starts_and_has_started_up() -> None:
    idle, busy = uses()
    assert (idle.start_us, idle.end_us, idle.kind, idle.level) == (BOUND, 110 * S, STEADY, 0.0)
    assert (busy.start_us, busy.end_us, busy.kind, busy.level) == (110 * S, END, JOB, KINDS[JOB].level)
    assert (busy.memory_mib, busy.is_linked, busy.anchor_us) == (KINDS[JOB].memory * 1000, False, 110 * S)
    assert (busy.interval_us, busy.dip_us, busy.pattern) == (0, 0, "ml/train")
    idle, busy = uses(startup_time="30s", checkpoint_interval="5m", checkpoint_time="20s")
    assert (idle.end_us, busy.start_us, busy.anchor_us) == (140 * S, 140 * S, 140 * S)
    assert (busy.interval_us, busy.dip_us) == (300 * S, 20 * S)
    # Who has not started is idle to the end; who started before it was bound, is busy from then on.
    assert [(u.start_us, u.end_us) for u in uses(started_us=None)] == [(BOUND, END)]
    assert [(u.start_us, u.end_us) for u in uses(started_us=None, startup_time="30s")] == [(BOUND, END)]
    assert [(u.start_us, u.end_us) for u in uses(started_us=5)] == [(BOUND, END)]
    assert [u.pattern for u in uses(kind="")][-1:] == ["ml/p"]


def test_levels_and_memory_by_the_time_since_it_began() -> None:
    found = uses(gpu_utilization="0s:20%,60s:80%", gpu_memory="1Gi,90s:2Gi", devices=2)[1:]
    assert [(u.start_us // S, u.end_us // S, u.level, u.memory_mib) for u in found] == [
        (110, 170, 0.2, 1024.0),
        (170, 200, 0.8, 1024.0),
        (200, 1000, 0.8, 2048.0),
    ]
    assert {(u.kind, u.is_linked) for u in found} == {(STEADY, True)}
    found = uses(gpu_utilization="0s:1%,7s:2%,2s:3%", gpu_memory="9s:1Gi,3s:2Gi")[1:]
    assert [u.start_us // S - 110 for u in found] == [0, 2, 3, 7, 9]
    # What would be after its end is not; what says nothing of the beginning is nothing then.
    (late,) = uses(gpu_utilization="60s:80%", end_us=170 * S)[1:]
    assert (late.start_us, late.end_us, late.level) == (110 * S, 170 * S, 0.0)
    assert [u.end_us // S for u in uses(gpu_utilization="60s:80%", end_us=171 * S)[1:]] == [170, 171]


@pytest.mark.parametrize("devices", [1, 4])
def test_training_with_too_few_cores_waits_for_its_input(devices: int) -> None:
    wanted = 1000 * CORES_WANTED * devices
    whole = uses(cpu_milli=wanted, devices=devices)[1]
    for share in (1, 2, 4):
        (_, busy) = uses(cpu_milli=wanted // share, devices=devices)
        assert busy.kind == TRAINING
        assert busy.level == pytest.approx(whole.level / share)
        assert busy.input_stalls == pytest.approx(min(whole.input_stalls + (1 - 1 / share) / 2, 0.95))
    more = uses(cpu_milli=2 * wanted, devices=devices)[1]
    assert (more.level, more.input_stalls) == (whole.level, whole.input_stalls)
    said = uses(cpu_milli=wanted // 4, devices=devices, gpu_utilization="50%")[1]
    assert (said.level, said.input_stalls) == (0.5, whole.input_stalls)
    assert whole.input_stalls == 0.04
    # Who says what it does, and how busy it is, waits for input nevertheless.
    told = uses(
        cpu_milli=wanted // 4,
        devices=devices,
        gpu_utilization="50%",
        gpu_activity="training,input-stalls=90%",
    )[1]
    assert (told.kind, told.level, told.input_stalls) == (TRAINING, 0.5, 0.95)


def test_what_it_says_that_it_does() -> None:
    (_, busy) = uses(gpu_activity="serving,leak=2Gi")
    assert (busy.kind, busy.level, busy.growth_mib_per_h) == (SERVING, KINDS[SERVING].level, 2048)
    for root, name, want in (("", "my-notebook", NOTEBOOK), ("notebook", "p", NOTEBOOK), ("", "p", OTHER)):
        working = Working("ml", name, "Pod" if root else "", root, False, 0, 0, "")
        assert [u.kind for u in uses_of(working, 0, END, 1, 1.0)] == [want]


def test_what_nobody_can_read_says_nothing() -> None:
    assert behaviour_text({"fairway.dev/run-time": "1m", "x": "y"}) == ""
    assert behaviour_text({"fairway.dev/gpu-memory": "1Gi", "x": "y"}) == '{"fairway.dev/gpu-memory": "1Gi"}'
    words = {f"fairway.dev/{name}": "1Gi" for name in ("startup-time", "gpu-memory", "checkpoint-time")}
    assert list(json.loads(behaviour_text(words))) == sorted(words)
    assert uses(gpu_utilization="much") == uses()
