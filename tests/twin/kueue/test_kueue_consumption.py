"""Admission fair sharing in time: what a LocalQueue consumed is written, and decays while nobody runs.

Source: localqueue_controller.go reconcileConsumedUsage, pkg/util/admissionfairsharing.
"""

from __future__ import annotations

from fractions import Fraction

import pytest
from kueuehistory import History
from kueueworld import GPU, flavor, job, local_queue, node, queue

from fairway.kube import quantity
from fairway.kube.objects import Key, Obj, status_of

HALF_LIFE_S = 600
AFS = {"admissionFairSharing": {"usageHalfLifeTime": "10m", "usageSamplingInterval": "1m"}}
BY_USAGE = {"admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"}}


def two_teams() -> History:
    other = local_queue("a")
    other["metadata"]["name"] = "other"
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}
    return History(AFS).step(
        space, flavor("default"), node("n1", 8), queue("a", 4, **BY_USAGE), local_queue("a"), other
    )


def of_other(name: str, **options: str) -> Obj:
    return job(name, "a", gpus=4, labels={"kueue.x-k8s.io/queue-name": "other"}, **options)  # type: ignore[arg-type]


def consumed(history: History, name: str) -> Fraction:
    obj = history.player.twin.store.require(Key("LocalQueue.kueue.x-k8s.io", "a", name))
    said = status_of(obj)["fairSharing"]["admissionFairSharingStatus"]["consumedResources"]
    return quantity.of(said.get(GPU, "0"))


def test_what_is_held_becomes_consumption_with_a_half_life() -> None:
    history = two_teams().step(job("train", "a", gpus=4), wait=HALF_LIFE_S)
    # Half of what it holds, and what is left of the penalty it began with: 1 - 2^(-1/10) of it.
    most = 4 * (0.5 + (1 - 0.5**0.1))
    assert 4 * 0.45 < consumed(history, "lq") < most
    assert consumed(history, "other") == 0


def test_who_used_less_goes_first() -> None:
    history = two_teams().step(job("first", "a", gpus=4, runs="3m"), wait=120)
    history.step(job("again", "a", gpus=4), of_other("theirs"), wait=120)
    assert history.admitted() == ["theirs"]


def test_consumption_decays_while_nobody_runs() -> None:
    """Ten half-lives later nothing is left of it, and who comes back has not used that time."""
    history = two_teams().step(job("long", "a", gpus=4, runs="20m"), wait=1300)
    before = consumed(history, "lq")
    assert before > 2
    history.step(wait=10 * HALF_LIFE_S).step(of_other("short", runs="30s"), wait=90)
    assert consumed(history, "lq") < before / 500
    assert float(consumed(history, "other")) == pytest.approx(4 * (1 - 0.5**0.1), rel=0.6)


def test_a_stopped_queue_is_not_written() -> None:
    history = two_teams().patch("LocalQueue", "other", "a", spec={"stopPolicy": "Hold"})
    history.step(job("train", "a", gpus=4), wait=120)
    obj = history.player.twin.store.require(Key("LocalQueue.kueue.x-k8s.io", "a", "other"))
    assert "fairSharing" not in status_of(obj)
