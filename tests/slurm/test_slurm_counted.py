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


def test_what_may_be_changed_of_a_job_by_whom() -> None:
    from fairway.slurm.words.errors import SlurmError

    w = world(nodes=MIXED, gres="")
    waits, runs = w.submit(begin=w.ctl.now + 900), w.submit(60)
    held = w.submit(hold="user")
    w.run(3)
    w.ctl.update_job(waits.job_id, {"nodes": (2, 2)}, "alice")
    assert (waits.min_nodes, waits.req_tres["node"]) == (2, 2)
    refused = {}
    for name, job, changes, user in (
        ("deadline", waits, {"deadline": w.ctl.now + 9999}, "alice"),
        ("share", waits, {"share": True}, "alice"),
        ("end", waits, {"end": w.ctl.now + 9999}, "alice"),
        ("held", held, {"priority": 1000}, "root"),
        ("more nodes", runs, {"nodes": (2, 2)}, "alice"),
        ("features", runs, {"features": "new"}, "alice"),
        ("qos", runs, {"qos": "nosuch"}, "alice"),
    ):
        with pytest.raises(SlurmError) as error:
            w.ctl.update_job(job.job_id, changes, user)
        refused[name] = error.value.name
    assert refused == {
        "deadline": "ACCESS_DENIED",
        "share": "ACCESS_DENIED",
        "end": "JOB_NOT_RUNNING",
        "held": "JOB_HELD",
        "more nodes": "NOT_SUPPORTED",
        "features": "JOB_NOT_PENDING",
        "qos": "INVALID_QOS",
    }


def test_a_task_of_an_array_is_changed_alone() -> None:
    w = world(nodes=MIXED, gres="")
    array = w.submit(array="1-9", hold="user")
    task = w.ctl.cluster.jobs[w.ctl.split_off(array.job_id, 5)]
    w.ctl.update_job(task.job_id, {"comment": "five"}, "alice")
    assert (task.array_task, task.request.extra["comment"]) == (5, "five")
    assert (array.array_left, array.request.extra.get("comment")) == ([1, 2, 3, 4, 6, 7, 8, 9], None)


def test_more_counted_nodes_than_the_job_may_take_never_start() -> None:
    from fairway.slurm.words.errors import SlurmError

    w = world(nodes=MIXED, gres="")
    with pytest.raises(SlurmError) as refused:
        w.submit(features="[new*2&old*1]", min_nodes=2, max_nodes=2)
    assert refused.value.name == "REQUESTED_NODE_CONFIG_UNAVAILABLE"
