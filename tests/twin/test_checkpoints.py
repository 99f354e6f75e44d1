"""Checkpointed work: what is saved, lost and resumed when pods come and go."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent / "kubelet"))
from kubeletworld import World, container, node, pod

from fairway.kube.objects import Obj
from fairway.kube.timestamps import MINUTE_US
from fairway.twin import faults
from fairway.twin.progress import Progress, wall_us, work_after

M = MINUTE_US
TRAINING = {
    "run_time": "60m",
    "checkpoint_interval": "10m",
    "checkpoint_time": "1m",
    "restore_time": "2m",
}


def owned(name: str, uid: str, index: str = "", **extra: Any) -> Obj:
    made = pod(name, says=TRAINING, **extra)
    made["metadata"]["ownerReferences"] = [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": uid, "controller": True}
    ]
    if index:
        made["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] = index
    return made


def minutes(world: World, m: float) -> World:
    return world.at(m * 60)


def test_saving_takes_time_but_not_at_the_end() -> None:
    world = World(owned("p", "u"))
    assert minutes(world, 64.9).seen().startswith("Running")
    assert minutes(world, 65).seen().startswith("Succeeded")
    totals = world.kubelet.progress.totals
    assert (totals.useful_us, totals.overhead_us, totals.lost_us) == (60 * M, 5 * M, 0)


def test_a_replacement_resumes_from_the_last_checkpoint() -> None:
    world = World(owned("p", "u"), nodes=[node(), node("m")])
    minutes(world, 25)
    world.delete()
    # 25 minutes: two checkpoints (at 10 and 21), three minutes of work lost.
    world.twin.apply([owned("q", "u")])
    totals = world.kubelet.progress.totals
    minutes(world, 26)
    assert (totals.useful_us, totals.lost_us, totals.resumed) == (20 * M, 3 * M, 1)
    # 2 to restore, 40 to work, 3 to save.
    assert minutes(world, 69.9).seen("q").startswith("Running")
    assert minutes(world, 70.1).seen("q").startswith("Succeeded")
    assert totals.useful_us == 60 * M
    assert [r.message for r in world.twin.host.log.records() if r.reason == "Resumed"] == ["main from 20m"]


def test_each_index_has_its_own_progress() -> None:
    world = World(owned("p0", "u", "0"), owned("p1", "u", "1"))
    minutes(world, 15)
    world.delete("p0")
    world.twin.apply([owned("q1", "u", "1"), owned("q0", "u", "0")])
    minutes(world, 16)
    resumed = [(r.name, r.message) for r in world.twin.host.log.records() if r.reason == "Resumed"]
    assert resumed == [("q0", "main from 10m")]


def test_a_crash_of_the_node_loses_work_and_the_restart_resumes() -> None:
    world = World(owned("p", "u", restartPolicy="OnFailure"), nodes=[node(), node("m")])
    world.crash(15 * 60, for_s=60)
    minutes(world, 15.5)
    assert world.kubelet.progress.totals.lost_us == 4 * M
    minutes(world, 17)
    assert world.seen() == "Running 1/1 main=run*1"
    # Back at 16: 2 to restore, 50 to work, 4 to save.
    assert minutes(world, 71.9).seen().startswith("Running")
    assert minutes(world, 72.1).seen().startswith("Succeeded")


def test_out_of_memory_in_place_resumes_too() -> None:
    says = {**TRAINING, "out_of_memory_after": "30m"}
    world = World(pod("p", container("main"), says=says, restartPolicy="OnFailure"))
    minutes(world, 31)
    assert world.seen() == "Running 1/1 main=run*1"
    assert world.kubelet.progress.totals.resumed == 1


def test_without_checkpoints_everything_is_lost() -> None:
    world = World(pod("p", says={"run_time": "60m"}), nodes=[node(), node("m")])
    faults.fail_node(world.twin, "n", world.us(50 * 60))
    minutes(world, 51)
    totals = world.kubelet.progress.totals
    assert (totals.useful_us, totals.lost_us) == (0, 50 * M)


@pytest.mark.parametrize(
    ("work", "interval", "save", "want"),
    [(60, 0, 5, 60), (60, 10, 0, 60), (60, 10, 1, 65), (61, 10, 1, 67), (5, 10, 1, 5), (0, 10, 1, 0)],
)
def test_how_long_work_takes(work: int, interval: int, save: int, want: int) -> None:
    assert wall_us(work, interval, save) == want


@given(st.integers(1, 200), st.integers(1, 30), st.integers(0, 10), st.integers(0, 400))
def test_work_done_grows_and_adds_up(work: int, interval: int, save: int, elapsed: int) -> None:
    now, later = work_after(elapsed, interval, save), work_after(elapsed + 1, interval, save)
    assert now.done_us + now.saving_us == elapsed
    assert 0 <= now.saved_us <= now.done_us
    assert (later.done_us, later.saved_us) >= (now.done_us, now.saved_us)
    assert work_after(wall_us(work, interval, save), interval, save).done_us == work


def test_the_largest_saved_piece_is_taken_first() -> None:
    progress = Progress()
    for piece in (5, 9, 0, 7):
        progress.put_back("x", piece)
    copy = progress.fork()
    assert [progress.take("x") for _ in range(4)] == [9, 7, 5, 0]
    assert copy.saved("x") == (5, 7, 9)
