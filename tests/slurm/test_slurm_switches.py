"""--switches with topology/tree: a job waits for few switches as long as it said and the site allows."""

from __future__ import annotations

import pytest
from tests.slurm.slurmworld import CONF, NODES, START_US, World, world

from fairway.slurm.administration import Slurmctld
from fairway.slurm.conf import read_configuration

TREE = "SwitchName=s1 Nodes=n[1-2]\nSwitchName=s2 Nodes=n[3-4]\nSwitchName=top Switches=s[1-2]\n"


def tree(more: str = "", topology: str = "TopologyPlugin=topology/tree\n") -> World:
    plain = world()
    texts = {"slurm.conf": CONF + more + topology + NODES, "topology.conf": TREE}
    conf = read_configuration(
        texts | {"gres.conf": "NodeName=n[1-4] Name=gpu Type=h100 File=/dev/nvidia[0-7]\n"}
    )
    return World(Slurmctld(conf, plain.ctl.cluster.accounts, plain.ctl.behave, START_US))


def crowded(w: World) -> World:
    """One node of each leaf is taken for an hour."""
    for node in ("n1", "n3"):
        w.submit(3600, time_limit=60, partition="p4", nodelist=(node,), exclusive="node")
    w.run(2)
    return w


def started(w: World, most_s: int, **asked: object) -> tuple[int, tuple[str, ...]]:
    """How long a job of two whole nodes waited, and where it went."""
    job = w.submit(10, partition="p4", min_nodes=2, exclusive="node", **asked)
    w.run(most_s)
    return (job.start - job.submit, job.nodes) if job.state != "PENDING" else (-1, ())


@pytest.mark.parametrize("switches", [None, 2])
def test_as_many_switches_as_it_takes(switches: int | None) -> None:
    waited, nodes = started(crowded(tree()), 5, switches=switches)
    assert (waited <= 2, nodes) == (True, ("n2", "n4"))


def test_a_leaf_with_room_is_taken_at_once() -> None:
    w = tree()
    w.submit(3600, time_limit=60, partition="p4", nodelist=("n1",), exclusive="node")
    w.run(2)
    waited, nodes = started(w, 5, switches=1)
    assert (waited <= 2, nodes) == (True, ("n3", "n4"))


SIXTY = "SchedulerParameters=max_switch_wait=60,sched_interval=2,bf_interval=2\n"


@pytest.mark.parametrize(("more", "most_s"), [("", 300), (SIXTY, 60)])
def test_it_waits_as_long_as_the_site_allows(more: str, most_s: int) -> None:
    assert started(crowded(tree(more)), most_s - 4, switches=1) == (-1, ())
    waited, nodes = started(crowded(tree(more)), most_s + 8, switches=1)
    assert (most_s <= waited <= most_s + 4, nodes) == (True, ("n2", "n4"))


def test_it_goes_to_one_switch_as_soon_as_that_has_room() -> None:
    w = tree()
    w.submit(100, time_limit=2, partition="p4", nodelist=("n1",), exclusive="node")
    w.submit(3600, time_limit=60, partition="p4", nodelist=("n3",), exclusive="node")
    w.run(2)
    waited, nodes = started(w, 110, switches=1)
    assert (95 <= waited <= 105, nodes) == (True, ("n1", "n2"))


def test_without_a_tree_nothing_is_waited_for() -> None:
    waited, nodes = started(crowded(tree(topology="")), 5, switches=1)
    assert (waited <= 2, nodes) == (True, ("n2", "n4"))


@pytest.mark.parametrize(("said", "seconds"), [("1@00:00:30", 30), ("1@0:10:00", 300), ("1", 300)])
def test_the_wait_asked_for_is_told_and_kept(said: str, seconds: int) -> None:
    w = crowded(tree())
    assert w.type(f"sbatch -p p4 -N2 --exclusive -t 5 --switches={said} --wrap true")[0] == 0
    clock = f"00:{seconds // 60:02}:{seconds % 60:02}"
    assert f"Switches=1@{clock}" in w.type("scontrol show job 3")[1]
    job = w.ctl.cluster.jobs[3]
    w.run(seconds - 3)
    assert job.pending
    w.run(8)
    assert not job.pending
