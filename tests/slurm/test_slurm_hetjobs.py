"""Heterogeneous jobs: what their components wait for, when they start together, and on whose nodes."""

from __future__ import annotations

import pytest
from tests.slurm.slurmworld import START_US, World, world

from fairway.slurm.model.job import Job

FROM = START_US // 1_000_000


def submitted(w: World, first: str, second: str) -> list[Job]:
    code, said, _ = w.type(f"sbatch -p p4 -t 10 {first} : -p p4 -t 10 {second} --wrap 'sleep 100'")
    assert (code, said.split()[:3]) == (0, ["Submitted", "batch", "job"])
    leader = int(said.split()[3])
    return [w.ctl.cluster.jobs[leader], w.ctl.cluster.jobs[leader + 1]]


def test_components_start_together_on_nodes_of_their_own() -> None:
    w = world()
    jobs = submitted(w, "--gres=gpu:1", "-N2 --gres=gpu:1")
    assert [job.reason for job in jobs] == ["None", "None"]
    w.run(4)
    assert [job.state for job in jobs] == ["RUNNING", "RUNNING"]
    assert jobs[0].start == jobs[1].start
    assert not set(jobs[0].nodes) & set(jobs[1].nodes)
    assert len(jobs[1].nodes) == 2


def test_more_nodes_than_there_are_for_all_components_are_never_found() -> None:
    w = world()
    jobs = submitted(w, "-N3 --gres=gpu:1", "-N2 --gres=gpu:1")
    w.run(600)
    assert [(job.state, job.reason) for job in jobs] == [("PENDING", "Resources")] * 2


def test_components_wait_for_each_other_and_hold_nothing_meanwhile() -> None:
    """One of four nodes is free: the first component fits, the second does not until the others end at 120 s."""
    w = world()
    w.submit(120, time_limit=3, partition="p4", min_nodes=3, exclusive="node")
    w.run(2)
    jobs = submitted(w, "--gres=gpu:8", "-N2 --gres=gpu:8")
    w.run(5)
    assert [(job.state, job.reason) for job in jobs] == [("PENDING", "Resources")] * 2
    small = w.submit(30, partition="p4", time_limit=1, gpus=8)
    w.run(4)
    w.ctl.changed()  # every other cycle thinks that the first component could start by itself
    w.run(2)
    assert (small.state, small.nodes) == ("RUNNING", ("n4",))
    w.run(130)
    assert [job.state for job in jobs] == ["RUNNING", "RUNNING"]
    assert jobs[0].start == jobs[1].start


def test_in_every_other_cycle_all_are_planned_for_when_the_last_can_start() -> None:
    w = world()
    w.submit(900, time_limit=15, partition="p4", min_nodes=3, exclusive="node")
    w.run(2)
    jobs = submitted(w, "--gres=gpu:8", "-N2 --gres=gpu:8")
    seen = set()
    for _ in range(4):
        w.ctl.changed()
        w.run(2)
        seen.add(tuple(job.start >= FROM + 900 for job in jobs))
    assert seen == {(False, True), (True, True)}


@pytest.mark.parametrize(("most", "states"), [(15, "PENDING"), (16, "RUNNING")])
def test_limits_are_those_of_all_components_together(most: int, states: str) -> None:
    w = world()
    w.ctl.cluster.accounts.find("accta", "alice", "").limits.grp_tres["gres/gpu"] = most  # type: ignore[union-attr]
    w.ctl.accounts_changed()
    jobs = submitted(w, "--gres=gpu:8", "--gres=gpu:8")
    w.run(6)
    assert [job.state for job in jobs] == [states] * 2


def test_a_component_is_not_kept_back_by_the_others_in_what_is_told() -> None:
    w = world()
    busy = w.submit(500, partition="p4", min_nodes=4, exclusive="node")
    w.run(2)
    w.submit(500, partition="p4", min_nodes=4, exclusive="node")
    jobs = submitted(w, "--gres=gpu:8", "--gres=gpu:8")
    assert busy.state == "RUNNING"
    assert [job.reason for job in jobs] == ["None", "None"]
    w.run(4)
    assert [job.reason for job in jobs] == ["Resources", "Resources"]


def test_an_update_of_one_component_leaves_the_others() -> None:
    """update_job_str: `1+1` is that component, `1` all of them."""
    w = world()
    jobs = submitted(w, "-n1", "-n1")
    assert w.type("scontrol update jobid=1+1 timelimit=3") == (0, "", "")
    assert [job.time_limit for job in jobs] == [10, 3]
    assert w.type("scontrol update jobid=1 timelimit=4") == (0, "", "")
    assert [job.time_limit for job in jobs] == [4, 4]
    assert w.type("scontrol update jobid=1+2 timelimit=3")[0] == 1
    unknown = (1, "", "9_0-2: Invalid job id specified\n")
    assert w.type("scontrol update jobid=9_[0-2] timelimit=3") == unknown
