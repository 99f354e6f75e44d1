"""A copy of a twin has what the original has, field by field, and shares nothing that either of them changes.

Of everything that `fairway.twin` itself keeps; what a copy works out anew, and what is replaced rather than changed, is
named below with its reason.
"""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Callable, Iterator
from copy import deepcopy
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from test_stories_of_controllers import TOLD as OF_CONTROLLERS
from test_stories_of_scheduling import TOLD as OF_SCHEDULING
from tests.twin.stepwise import Watched

from fairway.compiled import loading
from fairway.kube.timestamps import MINUTE_US
from fairway.scenario.building import build_twin
from fairway.scenario.loading import load_scenario
from fairway.twin.latency import NONE
from fairway.twin.standard import standard_components
from fairway.twin.twin import Twin

HERE = Path(__file__).parent / "histories"
AGAIN = {
    "a copy works it out when it is asked": (
        *("autoscaling.loads._now", "autoscaling.loads._now_us", "autoscaling.measured.until_us"),
        *("autoscaling._index", "default-scheduler._state", "default-scheduler.devices._book"),
        "kueue._status_items",
        *(f"default-scheduler.selectors.{name}" for name in ("_at", "_services")),
        *(f"volcano._selectors.{name}" for name in ("_at", "_services")),
        *(f"karpenter.known.{name}" for name in ("_facts", "_left", "_objects", "_restated", "_stale")),
        *(f"karpenter.known.{name}" for name in ("_daemons", "_namespaces", "_pools")),
    ),
    "it is what makes it a copy": ("prometheus.is_copy",),
    "replaced, not changed": (
        *(f"kubelet.nodes[].{name}" for name in ("allocatable", "ips", "labels")),
        *(f"kubelet.pods[].{name}" for name in ("conditions", "ips")),
        "cluster-autoscaler._said",
    ),
    "never changed": (
        *("kubelet.plans", "kubelet.pods[].plan", "kubelet.stores.homes", "karpenter.whole_fleet"),
        *("default-scheduler.gangs._profiles", "cluster-autoscaler.tally._families"),
        *("karpenter.tally._families", "kueue.cycles.tally._families"),
    ),
}
_ATOMS = (int, float, str, bytes, bool, type(None), Enum, type, range, frozenset)
_CALLED = (types.FunctionType, types.BuiltinFunctionType, types.MethodType)
# The cluster itself is the store's to copy, and tested there.
_NOT_OURS = ("host", "store", "_host", "_store")

pytestmark = pytest.mark.skipif(
    loading.is_active(), reason="fields of compiled objects cannot be listed: the run as pure Python does it"
)


def fields(one: Any) -> set[str]:
    slots = {
        name
        for c in type(one).__mro__
        for name, m in vars(c).items()
        if isinstance(m, types.MemberDescriptorType)
    }
    return {
        name for name in (slots | set(getattr(one, "__dict__", ()))) - set(_NOT_OURS) if hasattr(one, name)
    }


def is_frozen(one: Any) -> bool:
    made = getattr(type(one), "__dataclass_params__", None)
    return isinstance(one, tuple) or (made is not None and made.frozen)


def is_object_of_cluster(one: Any) -> bool:
    return isinstance(one, dict) and "metadata" in one


def differences(a: Any, b: Any, path: str, seen: set[tuple[int, int]]) -> Iterator[tuple[str, str]]:
    """Where the second is not as the first, or is the same thing."""
    if isinstance(a, _CALLED) or path in {name for names in AGAIN.values() for name in names}:
        return
    if isinstance(a, _ATOMS) or type(a) is not type(b):
        if a != b:
            yield path, f"{a!r:.60} and {b!r:.60}"
    elif a is b:
        if not (is_frozen(a) or is_object_of_cluster(a)):
            yield path, f"one {type(a).__name__} for both"
    elif (id(a), id(b)) not in seen:
        seen.add((id(a), id(b)))
        if isinstance(a, dict):
            if list(a) != list(b):
                yield path, f"keys {list(a)!r:.60} and {list(b)!r:.60}"
            for key in a:
                if key in b:
                    yield from differences(a[key], b[key], f"{path}[]", seen)
        elif isinstance(a, list | tuple | deque):
            if len(a) != len(b):
                yield path, f"{len(a)} and {len(b)}"
            for one, other in zip(a, b, strict=False):
                yield from differences(one, other, f"{path}[]", seen)
        elif isinstance(a, set):
            if a != b:
                yield path, f"{a!r:.60} and {b!r:.60}"
        elif type(a).__module__.startswith("fairway.twin"):
            for name in sorted(fields(a) | fields(b)):
                one, other = getattr(a, name, None), getattr(b, name, None)
                yield from differences(one, other, f"{path}.{name}", seen)


def of_twins(twin: Twin) -> list[tuple[str, str]]:
    fork = twin.fork()
    assert [c.name for c in fork.components] == [c.name for c in twin.components]
    found: list[tuple[str, str]] = []
    for one, other in zip(twin.components, fork.components, strict=True):
        found += differences(one, other, one.name, set())
    return found


@pytest.mark.parametrize("story", ["gpus", "long-machines", "others", "pods", "queues", "scaling"])
def test_a_copy_is_whole(story: str) -> None:
    scenario = load_scenario(HERE / f"{story}.yaml")
    twin = build_twin(scenario)
    for minute in (7, 45):
        twin.run(scenario.start_us + minute * MINUTE_US)
        assert of_twins(twin) == []


@pytest.mark.parametrize("stories", [OF_CONTROLLERS, OF_SCHEDULING], ids=["controllers", "scheduling"])
def test_a_copy_is_whole_at_each_moment(
    stories: tuple[Callable[[], Iterator[str]], ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = set()
    monkeypatch.setattr(Watched, "seen_by", [lambda twin: found.update(of_twins(twin))])
    for story in stories:
        list(story())
    assert found == set()


def test_a_pod_that_waits_for_its_claim_waits_in_the_copy() -> None:
    twin = Twin(latency=NONE, components=standard_components())
    container = {"name": "c", "image": "i"}
    claims = [{"name": "gpu", "resourceClaimName": "to-come"}]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"containers": [container], "resourceClaims": claims},
    }
    twin.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}, pod])
    twin.run_for(MINUTE_US)
    assert of_twins(twin) == []


def test_differences_are_found() -> None:
    """Of lengths, keys, values, kinds and of what is shared."""
    cases: list[tuple[Any, Any]] = [
        *(
            (1, 2),
            ([1], [1, 2]),
            ({"a": 1}, {"b": 1}),
            ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
            ({"a": 1}, {"a": 2}),
        ),
        *(({1}, {2}), ((1, 2), (1, 3)), (None, 1), (deque([1]), deque([2])), ([[1]], [[2]])),
    ]
    for a, b in cases:
        assert list(differences(a, b, "x", set())), (a, b)
        assert not list(differences(a, deepcopy(a), "x", set()))
    shared: list[int] = []
    assert [path for path, _ in differences([shared], [shared], "x", set())] == ["x[]"]
    assert not list(differences([{"metadata": {}}], [{"metadata": {}}], "x", set()))
