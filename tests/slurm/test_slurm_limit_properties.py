"""Limits of all kinds on random clusters: whatever runs is counted anew at every step, and is under each of them.

And the first job that waits: what backfill promised it is never put off by jobs that came after it.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.slurm.slurmworld import World, world

from fairway.slurm.model.job import Job

USERS = {"alice": "accta", "bob": "accta", "carol": "acctb"}


NONE = 1_000


def limited(w: World, random: Random, *, by_qos: bool) -> dict[str, Any]:
    """Set some limits; what they are, to be counted against. A QOS's limit hides the association's of its kind."""
    accounts = w.ctl.cluster.accounts
    account = accounts.find("accta")
    user = accounts.find("accta", "alice")
    qos = accounts.qos["normal"]
    assert account is not None and user is not None
    said = {
        "account gpus": random.randint(4, 16),
        "account jobs": random.randint(2, 6),
        "user jobs": random.randint(1, 4),
        "qos gpus": random.randint(8, 24),
        "qos user jobs": random.randint(2, 5),
        "qos account gpus": random.randint(6, 20),
        "qos cpus": random.randint(32, 100),
    }
    account.limits.grp_jobs = said["account jobs"]
    account.limits.grp_tres = {"gres/gpu": said["account gpus"]}
    user.limits.max_jobs = said["user jobs"]
    qos.limits.grp_tres = {"cpu": said["qos cpus"]}
    if by_qos:
        qos.limits.grp_tres["gres/gpu"] = said["qos gpus"]
        qos.limits.max_jobs = said["qos user jobs"]
        said |= {"account gpus": NONE, "user jobs": NONE}
    else:
        said |= {"qos gpus": NONE, "qos user jobs": NONE}
    qos.limits.max_tres_per_account = {"gres/gpu": said["qos account gpus"]}
    w.ctl.accounts_changed()
    return said


def counted(jobs: list[Job], name: str) -> int:
    return sum(job.alloc_tres.get(name, 0) for job in jobs)


def check(w: World, said: dict[str, Any]) -> None:
    running = list(w.ctl.cluster.running.values())
    accta = [job for job in running if job.account == "accta"]
    assert counted(accta, "gres/gpu") <= said["account gpus"]
    assert len(accta) <= said["account jobs"]
    assert sum(job.user == "alice" for job in running) <= said["user jobs"]
    normal = [job for job in running if job.qos == "normal"]
    assert counted(normal, "gres/gpu") <= said["qos gpus"] and counted(normal, "cpu") <= said["qos cpus"]
    for user, account in USERS.items():
        assert sum(job.user == user for job in normal) <= said["qos user jobs"]
        mine = [job for job in normal if job.account == account]
        assert counted(mine, "gres/gpu") <= said["qos account gpus"]


@pytest.mark.parametrize("seed", range(4))
def test_no_limit_is_ever_exceeded(seed: int) -> None:
    random = Random(500 + seed)
    w = world()
    said = limited(w, random, by_qos=seed % 2 == 1)
    most = 0
    for _ in range(80):
        w.submit(
            random.randint(5, 60),
            random.choice(list(USERS)),
            gpus=random.choice((0, 1, 2, 4)),
            partition=random.choice(("p2", "p4")),
            cpus_per_task=random.choice((1, 8)),
            array=random.choice((None, None, "1-4")),
        )
        w.run(random.choice((0.5, 2, 9)))
        check(w, said)
        most = max(most, len(w.ctl.cluster.running))
    assert most >= 2
    for _ in range(300):
        w.run(10)
        check(w, said)
    assert not w.ctl.cluster.pending and not w.ctl.cluster.running


@pytest.mark.parametrize("seed", range(4))
def test_the_first_that_waits_starts_by_what_it_was_promised(seed: int) -> None:
    """Jobs end by their limits, nothing breaks, priority is first come: later jobs put nobody's promise off."""
    random = Random(600 + seed)
    w = world()
    for _ in range(12):
        w.submit(random.randint(30, 290), gpus=random.choice((4, 8)), partition="p4", time_limit=5)
    w.run(5)
    big = w.submit(60, min_nodes=3, max_nodes=3, gpus=8, partition="p4", time_limit=5, name="big")
    w.run(6)
    promised = big.start
    assert big.pending and promised
    while big.pending:
        w.submit(
            random.randint(1, 250),
            gpus=random.choice((1, 2)),
            partition="p4",
            time_limit=random.choice((1, 5)),
        )
        w.run(random.choice((1, 3)))
    # Limits are looked at every 30 seconds, and an epilogue takes its time.
    assert big.start <= promised + 35
