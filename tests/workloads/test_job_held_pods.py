"""With a limit for each index: which failed pod's count the next one carries on."""

from __future__ import annotations

from typing import Any

import pytest
from tinyworld import START_US

from fairway.kube.objects import Obj
from fairway.kube.timestamps import SECOND_US, rfc3339
from fairway.workloads.job import census, indexes
from fairway.workloads.job.podspec import COMPLETION_INDEX, INDEX_FAILURE_COUNT, INDEX_IGNORED_FAILURE_COUNT
from fairway.workloads.job.upkeep import for_removal, held_back

INDEXED = {"completionMode": "Indexed", "completions": 3}


def failed(name: str, index: int | None, counted: int, ended_s: int, *, ignored: int = 0, **more: Any) -> Obj:
    """`index` None: a pod without one."""
    ended = {"terminated": {"exitCode": 1, "finishedAt": rfc3339(START_US + ended_s * SECOND_US)}}
    annotations = {INDEX_FAILURE_COUNT: str(counted), INDEX_IGNORED_FAILURE_COUNT: str(ignored)}
    if index is not None:
        annotations[COMPLETION_INDEX] = str(index)
    return {
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "spec": {},
        "status": {"phase": "Failed", "containerStatuses": [{"name": "c", "state": ended}], **more},
    }


def held(
    *tracked: Obj, active: tuple[Obj, ...] = (), done: tuple[int, ...] = (), given_up: tuple[int, ...] = ()
) -> dict[int, str]:
    return _held({**INDEXED, "backoffLimitPerIndex": 5}, tracked, active, done, given_up)


def _held(spec: Obj, tracked: Any, active: Any, done: Any, given_up: Any) -> dict[int, str]:
    found = census.Census()
    found.tracked, found.active = list(tracked), list(active)
    facts = census.facts_of({"spec": spec})
    pods = held_back(found, facts, indexes.of(done), indexes.of(given_up))
    return {index: pod["metadata"]["name"] for index, pod in pods.items()}


@pytest.mark.parametrize(
    ("first", "second", "is_second"),
    [
        (failed("a", 1, 1, 10), failed("b", 1, 1, 11), True),
        (failed("a", 1, 1, 10), failed("b", 1, 1, 10), True),
        (failed("a", 1, 1, 10), failed("b", 1, 1, 9), False),
        (failed("a", 1, 1, 10), failed("b", 1, 2, 11), True),
        (failed("a", 1, 1, 10), failed("b", 1, 2, 9), False),
        (failed("a", 1, 2, 10), failed("b", 1, 1, 11), False),
        (failed("a", 1, 2, 10), failed("b", 1, 1, 11, ignored=1), True),
        (failed("a", 1, 1, 10, ignored=2), failed("b", 1, 2, 11), False),
    ],
)
def test_of_two_of_an_index_the_later_and_not_less_counted_one(
    first: Obj, second: Obj, is_second: bool
) -> None:
    assert held(first, second) == {1: "b" if is_second else "a"}


def test_whose_index_goes_on() -> None:
    pods = [failed(f"p{i}", i, 0, i) for i in range(3)]
    assert held(*pods) == {0: "p0", 1: "p1", 2: "p2"}
    assert held(*pods, done=(0,), given_up=(2,)) == {1: "p1"}
    assert held(*pods, active=(failed("now", 1, 1, 5, phase="Running"),)) == {0: "p0", 2: "p2"}
    others = [failed("none", None, 0, 1), failed("beyond", 3, 0, 1), failed("well", 0, 0, 1, phase="Running")]
    assert held(*others, *pods) == {0: "p0", 1: "p1", 2: "p2"}
    assert _held(INDEXED, pods, (), (), ()) == {}
    endless = {"completionMode": "Indexed", "backoffLimitPerIndex": 1, "parallelism": 3}
    assert _held(endless, pods, (), (), ()) == {}


def active(name: str, index: int | None, **more: Any) -> Obj:
    made = {"name": name, "namespace": "default", "creationTimestamp": rfc3339(START_US), "annotations": {}}
    if index is not None:
        made["annotations"] = {COMPLETION_INDEX: str(index)}
    return {"metadata": made, "spec": {"containers": []}, "status": {"phase": "Pending", **more}}


def test_pods_without_a_place_go_first_then_the_second_of_an_index_by_index() -> None:
    """`completions` 3: index 3 is beyond it. All that have no place go, and of the others as many as are short."""
    facts = census.facts_of({"spec": INDEXED})
    pods = [active("x", 2), active("c", 1), active("d", 1), active("b", 0), active("a", 0)]
    pods += [active("none", None), active("beyond", 3)]

    def go(of: list[Obj], at_least: int) -> list[str]:
        return [p["metadata"]["name"] for p in for_removal(of, facts, at_least)]

    misplaced = ["none", "beyond", "a", "c"]
    for at_least in (0, 1, 4):
        assert go(pods, at_least) == misplaced
    assert go(pods, 5) == [*misplaced, "b"] and go(pods, 6) == [*misplaced, "b", "d"]
    plain = census.facts_of({"spec": {"completions": 3}})
    assert [p["metadata"]["name"] for p in for_removal(pods, plain, 2)] == ["a", "b"]
