"""What a kubelet that starts anew takes a pod to have: what containers that run had, not what they are to have."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.kube.objects import Obj
from fairway.twin.kubelet.resizing import remember

SMALL, LARGE = {"requests": {"cpu": "1"}}, {"requests": {"cpu": "2"}}
RUNS: Obj = {"running": {"startedAt": "2026-01-05T00:00:00Z"}}
ENDED: Obj = {"terminated": {"exitCode": 0}}

CASES: dict[str, tuple[Any, Any, Obj, Any]] = {
    "as it is": (LARGE, LARGE, RUNS, LARGE),
    "less than it is to have": (LARGE, SMALL, RUNS, SMALL),
    "more than it is to have": (SMALL, LARGE, RUNS, LARGE),
    "none, and it is to have some": (LARGE, {}, RUNS, {}),
    "some, and it is to have none": (None, LARGE, RUNS, LARGE),
    "none of either": (None, {}, RUNS, None),
    "nothing told": (LARGE, None, RUNS, LARGE),
    "it ended": (LARGE, SMALL, ENDED, LARGE),
    "it waits": (LARGE, SMALL, {}, LARGE),
}


def pod(*containers: tuple[str, Any, Any, Obj]) -> Obj:
    specs, statuses = [], []
    for name, wanted, had, state in containers:
        specs.append({"name": name, **({} if wanted is None else {"resources": wanted})})
        statuses.append({"name": name, "state": state, **({} if had is None else {"resources": had})})
    return {
        "metadata": {"name": "p"},
        "spec": {"nodeName": "n", "containers": specs},
        "status": {"containerStatuses": statuses},
    }


@pytest.mark.parametrize("name", CASES)
def test_what_one_container_had(name: str) -> None:
    wanted, had, state, want = CASES[name]
    obj = pod(("a", wanted, had, state))
    found = remember(obj)
    (container,) = found["spec"]["containers"]
    assert container == ({"name": "a"} if want is None else {"name": "a", "resources": want})
    assert (found is obj) is (wanted == want)


@pytest.mark.parametrize("changed", [0, 1])
def test_of_several_only_those_that_had_something_else_are_another(changed: int) -> None:
    both = [("a", LARGE, LARGE, RUNS), ("b", LARGE, LARGE, RUNS)]
    name, wanted, _, state = both[changed]
    both[changed] = (name, wanted, SMALL, state)
    obj = pod(*both)
    found = remember(obj)
    assert [c["resources"] for c in found["spec"]["containers"]] == [
        SMALL if place == changed else LARGE for place in range(2)
    ]
    assert found["spec"]["containers"][1 - changed] is obj["spec"]["containers"][1 - changed]
    assert {k: v for k, v in found["spec"].items() if k != "containers"} == {"nodeName": "n"}
    assert (found["metadata"], found["status"]) == (obj["metadata"], obj["status"])
    assert [c["resources"] for c in obj["spec"]["containers"]] == [LARGE, LARGE]


def test_a_pod_without_statuses_is_as_it_says() -> None:
    obj = {"metadata": {}, "spec": {"containers": [{"name": "a", "resources": LARGE}]}}
    assert remember(obj) is obj
