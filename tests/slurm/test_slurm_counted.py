"""Constraints that count nodes, nodes that are preferred, and the same user's jobs beside --exclusive=user."""

from __future__ import annotations

import pytest
from slurmworld import world

MIXED = """
NodeName=n[1-2] CPUs=32 SocketsPerBoard=2 CoresPerSocket=16 RealMemory=256000 Feature=old
NodeName=n[3-4] CPUs=32 SocketsPerBoard=2 CoresPerSocket=16 RealMemory=256000 Feature=new,fast
PartitionName=p4 Nodes=n[1-4] Default=YES MaxTime=INFINITE
"""


@pytest.mark.parametrize(
    ("constraint", "nodes", "want"),
    [
        ("[new*2&old*1]", 3, ("n1", "n3", "n4")),
        ("[old*2&new*1]", 3, ("n1", "n2", "n3")),
        ("new*2", 2, ("n3", "n4")),
        ("new&", 1, ("n3",)),
    ],
)
def test_so_many_nodes_with_each_feature(constraint: str, nodes: int, want: tuple[str, ...]) -> None:
    w = world(nodes=MIXED, gres="")
    job = w.submit(features=constraint, min_nodes=nodes, max_nodes=nodes)
    w.run(5)
    assert (job.state, job.nodes) == ("RUNNING", want)


def test_a_counted_constraint_waits_until_enough_nodes_of_each_feature_are_free() -> None:
    w = world(nodes=MIXED, gres="")
    first = w.submit(20, features="new", exclusive="node")
    w.run(1)
    counted = w.submit(features="[new*2&old*1]", min_nodes=3, max_nodes=3, exclusive="node")
    w.run(10)
    assert (first.nodes, counted.state) == (("n3",), "PENDING")
    w.run(20)
    assert counted.nodes == ("n1", "n3", "n4")


def test_more_nodes_with_a_feature_than_there_are_are_refused() -> None:
    from fairway.slurm.words.errors import SlurmError

    w = world(nodes=MIXED, gres="")
    with pytest.raises(SlurmError) as refused:
        w.submit(features="nosuch*2", min_nodes=2, max_nodes=2)
    assert refused.value.name == "INVALID_FEATURE"


def test_preferred_nodes_are_taken_if_they_are_free_and_not_waited_for() -> None:
    w = world(nodes=MIXED, gres="")
    chosen = [w.submit(60, prefer="fast", exclusive="node") for _ in range(3)]
    w.run(5)
    assert [(job.nodes, job.by_preference) for job in chosen] == [
        (("n3",), True),
        (("n4",), True),
        (("n1",), False),
    ]


def test_exclusive_user_shares_with_the_users_own_jobs_alone() -> None:
    w = world(nodes=MIXED, gres="")
    w.submit(60, nodelist=("n1",), user="bob")
    w.submit(60, nodelist=("n2",), user="alice")
    w.run(3)
    alone = w.submit(60, nodelist=("n2",), exclusive="user", user="alice")
    kept_out = w.submit(60, nodelist=("n1",), exclusive="user", user="alice")
    w.run(3)
    assert (alone.state, kept_out.state) == ("RUNNING", "PENDING")
