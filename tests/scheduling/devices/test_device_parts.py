"""Parts of devices, and who has them: capacities, counters of what is taken, tolerations, constraints, pools."""

from __future__ import annotations

from copy import deepcopy
from fractions import Fraction
from itertools import product
from random import Random
from typing import Any

import pytest

from fairway.kube.objects import Obj
from fairway.scheduling.devices import capacity
from fairway.scheduling.devices.alike import Choice, kind_of, taken_of
from fairway.scheduling.devices.constraints import Distinct, Matching
from fairway.scheduling.devices.facts import (
    Constraint,
    Device,
    DeviceId,
    Request,
    Slice,
    Taint,
    Toleration,
    Where,
    claim_of,
    class_of,
    request_of,
    slice_of,
)
from fairway.scheduling.devices.pools import PoolId, Published
from fairway.scheduling.devices.search import Chosen, Solution
from fairway.scheduling.devices.usage import Usage, results_of

DRIVER = "gpu.example.com"


def _slice(name: str = "s", *devices: Obj, pool: str = "p", count: int = 1, **spec: Any) -> Slice:
    of_pool = {"name": pool, "generation": spec.pop("generation", 1), "resourceSliceCount": count}
    where = (
        {}
        if spec.keys() & {"nodeName", "allNodes", "nodeSelector", "perDeviceNodeSelection"}
        else {"nodeName": "n"}
    )
    body = {"driver": spec.pop("driver", DRIVER), "pool": of_pool, "devices": list(devices), **where, **spec}
    return slice_of({"metadata": {"name": name}, "spec": body})


def _device(name: str = "d", **fields: Any) -> Device:
    return _slice("s", {"name": name, **fields}).devices[0]


def _request(name: str = "r", parent: str = "", **fields: Any) -> Request:
    return request_of(fields, name, parent)


# Capacities


def _policy(draw: Random) -> Obj | None:
    kind = draw.choice(("none", "range", "step", "top", "values", "default", "open"))
    if kind == "none":
        return None
    policy: Obj = {} if draw.random() < 0.5 else {"default": str(draw.randint(1, 6))}
    if kind == "range":
        policy["validRange"] = {"min": "2"}
    elif kind == "step":
        policy["validRange"] = {"min": "2", "step": "3", **({"max": "8"} if draw.random() < 0.5 else {})}
    elif kind == "top":
        policy["validRange"] = {"min": str(draw.randint(1, 2)), "max": "5"}
    elif kind == "open":
        policy["validRange"] = {"max": "5", **({"step": "2"} if draw.random() < 0.5 else {})}
    elif kind == "values":
        policy["validValues"] = ["1", "4", "6"]
    return policy


def _takes(asked: int | None, total: int, policy: Obj | None) -> int:
    if asked is None:
        return int(policy["default"]) if policy and "default" in policy else total
    span = (policy or {}).get("validRange", {})
    if "min" in span:
        low = int(span["min"])
        if asked < low:
            return low
        while "step" in span and (asked - low) % int(span["step"]):
            asked += 1
        return asked
    return min((int(v) for v in (policy or {}).get("validValues", ()) if int(v) >= asked), default=asked)


def _is_allowed(takes: int, policy: Obj | None) -> bool:
    if not policy or takes == int(policy.get("default", -1)):
        return True
    span = policy.get("validRange", {})
    if takes > int(span.get("max", takes)):
        return False
    if "step" in span and "min" in span:
        return (takes - int(span["min"])) % int(span["step"]) == 0
    return "validValues" not in policy or str(takes) in policy["validValues"]


@pytest.mark.parametrize("seed", range(150))
def test_a_request_takes_what_the_policy_makes_of_it_if_that_is_left(seed: int) -> None:
    draw = Random(seed)
    names = ("memory", "cores")[: draw.randint(1, 2)]
    policies = {name: _policy(draw) for name in names}
    totals = {name: draw.randint(3, 9) for name in names}
    device = _device(
        capacity={
            n: {"value": str(totals[n]), **({} if policies[n] is None else {"requestPolicy": policies[n]})}
            for n in names
        }
    )
    asked = {n: draw.choice((0, 1, 2, 3, 5, 7, 9)) for n in names if draw.random() < 0.7}
    request = _request(capacity={"requests": {n: str(v) for n, v in asked.items()}})
    takes = {n: _takes(asked.get(n), totals[n], policies[n]) for n in names}
    found = capacity.consumptions(request.capacity, device.capacity)
    assert {n: (int(a.value), a.text) for n, a in found.items()} == {n: (t, str(t)) for n, t in takes.items()}
    for taken, taking in product((0, 1, 3), (0, 2)):
        fits = all(
            _is_allowed(takes[n], policies[n]) and takes[n] + taken + taking <= totals[n] for n in names
        )
        held = ({n: Fraction(taken) for n in names}, {n: Fraction(taking) for n in names})
        assert capacity.is_enough(request.capacity, device.capacity, *held) is fits
    other = _request(capacity={"requests": {"nobody's": "1"}})
    assert not capacity.is_enough(other.capacity, device.capacity, {}, {})


def test_steps_of_bytes_are_written_in_their_unit() -> None:
    policy = {"validRange": {"min": "1Gi", "step": "512Mi"}}
    device = _device(capacity={"memory": {"value": "80Gi", "requestPolicy": policy}})
    for asked, takes in (("1Ki", "1Gi"), ("1Gi", "1Gi"), ("1025Mi", "1536Mi"), ("2Gi", "2Gi")):
        request = _request(capacity={"requests": {"memory": asked}})
        assert capacity.consumptions(request.capacity, device.capacity)["memory"].text == takes


# Who has what


@pytest.mark.parametrize("seed", range(20))
def test_what_is_taken_is_counted_and_given_back(seed: int) -> None:
    draw, usage = Random(seed), Usage()
    held: list[list[Obj]] = []
    for _ in range(25):
        if held and draw.random() < 0.4:
            gone = held.pop(draw.randrange(len(held)))
            usage.remove(gone)
        else:
            results: list[Obj] = []
            for _ in range(draw.randint(0, 2)):
                result = {"driver": DRIVER, "pool": "p", "device": draw.choice("ab")}
                if draw.random() < 0.5:
                    result["shareID"] = str(draw.random())
                    if draw.random() < 0.8:
                        result["consumedCapacity"] = {draw.choice("xy"): draw.choice(("1", "500m", "0"))}
                if draw.random() < 0.2:
                    result["adminAccess"] = True
                results.append(result)
            held.append(results)
            taken = [DeviceId(DRIVER, "p", r["device"]) for r in results if not r.get("adminAccess")]
            assert usage.add(results) == taken
        counted = [r for results in held for r in results if not r.get("adminAccess")]
        twin = usage.copy()
        for name in "ab":
            device = DeviceId(DRIVER, "p", name)
            mine = [r for r in counted if r["device"] == name]
            shares = [r for r in mine if "shareID" in r]
            for each in (usage, twin):
                assert each.whole.get(device, 0) == len(mine) - len(shares)
                assert each.shares.get(device, 0) == len(shares)
                assert each.is_taken(device) is bool(mine)
                for of in "xy":
                    parts = [
                        {"1": Fraction(1), "500m": Fraction(1, 2), "0": Fraction(0)}[text]
                        for r in shares
                        if (text := r.get("consumedCapacity", {}).get(of))
                    ]
                    assert each.parts.get(device, {}).get(of, 0) == sum(parts)
        twin.add([{"driver": DRIVER, "pool": "p", "device": "a"}])
        assert twin.whole != usage.whole
    claim = {"status": {"allocation": {"devices": {"results": [1]}}}}
    assert (results_of(claim), results_of({}), results_of({"status": {"allocation": {}}})) == ([1], [], [])


def test_a_toleration_tolerates_by_effect_key_and_value() -> None:
    for effect, key, operator, value in product(
        ("", "NoSchedule", "NoExecute"), ("", "k", "other"), ("", "Equal", "Exists", "Odd"), ("", "v", "w")
    ):
        for taint in (Taint("k", "v", "NoSchedule"), Taint("k", "", "NoExecute")):
            same_value = operator == "Exists" or (operator != "Odd" and value == taint.value)
            wanted = effect in ("", taint.effect) and key in ("", "k") and same_value
            assert Toleration(key, operator, value, effect).tolerates(taint) is wanted


def test_a_device_is_where_it_says() -> None:
    zone = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "z", "operator": "In", "values": ["1"]}]}]}
    for spec, reached in (
        ({"nodeName": "n"}, {("n", "1"), ("n", "2")}),
        ({"allNodes": True}, {("n", "1"), ("n", "2"), ("m", "1"), ("m", "2")}),
        ({"nodeSelector": zone}, {("n", "1"), ("m", "1")}),
        ({"nodeSelector": {"nodeSelectorTerms": []}}, set()),
    ):
        where = _slice(**spec).where
        assert where is not None
        found = {(n, z) for n, z in product("nm", "12") if where.reaches(n, {"z": z})}
        assert found == reached
    assert not Where().reaches("n", {})
    assert _slice(perDeviceNodeSelection=True).where is None


# Constraints


def _entry(name: str, parent: str = "") -> Request:
    return _request(name, parent)


@pytest.mark.parametrize("kind", [Matching, Distinct])
def test_constraints_concern_the_requests_they_name(kind: type[Matching] | type[Distinct]) -> None:
    bare = _device()
    for named, entry, is_asked in (
        ((), _entry("r"), True),
        (("r",), _entry("r"), True),
        (("r",), _entry("q"), False),
        (("r",), _entry("s", "r"), True),
        (("r/s",), _entry("s", "r"), True),
        (("r/t",), _entry("s", "r"), False),
        (("s",), _entry("s", "r"), False),
        (("r/s",), _entry("r"), False),
    ):
        constraint = kind(Constraint(frozenset(named), f"{DRIVER}/a", f"{DRIVER}/a"))
        # A device without the attribute fits those alone that nobody asks.
        assert constraint.add(entry, bare) is not is_asked


def _with(**attribute: Any) -> Device:
    return _device(attributes={"a": attribute} if attribute else {})


def test_devices_match_by_type_and_value() -> None:
    constraint = Matching(Constraint(frozenset(), f"{DRIVER}/a", ""))
    request = _entry("r")
    assert not constraint.add(request, _with())
    assert constraint.add(request, _with(int=1))
    assert not constraint.add(request, _with(int=2))
    assert not constraint.add(request, _with(string="1"))
    assert not constraint.add(request, _with())
    assert constraint.add(request, _with(int=1))
    constraint.remove(request)
    assert not constraint.add(request, _with(int=2))
    constraint.remove(request)
    # With the last one gone, another value may come.
    assert constraint.add(request, _with(int=2))
    assert not constraint.add(request, _with(int=1))
    constraint.remove(request)
    # Of a type nobody knows one device is fine, a second is not.
    assert constraint.add(request, _with(float=1))
    assert not constraint.add(request, _with(float=1))


def test_devices_differ_by_type_and_value() -> None:
    constraint = Distinct(Constraint(frozenset(), "", f"{DRIVER}/a"))
    first, second, part = _entry("r"), _entry("q"), _entry("s", "r")
    assert not constraint.add(first, _with())
    assert constraint.add(first, _with(int=1))
    assert not constraint.add(second, _with(int=1))
    assert not constraint.add(second, _with())
    assert not constraint.add(second, _with(float=1))
    assert constraint.add(second, _with(string="1"))
    constraint.remove(second)
    assert constraint.add(second, _with(string="1"))
    # An alternative's value is kept under its request's name.
    assert constraint.add(part, _with(bool=True))
    assert constraint.add(second, _with(int=1))
    constraint.remove(part)
    assert not constraint.add(first, _with(int=1))


def test_devices_differ_from_all_others() -> None:
    constraint = Distinct(Constraint(frozenset(), "", f"{DRIVER}/a"))
    assert constraint.add(_entry("r"), _with(int=1)) and constraint.add(_entry("q"), _with(int=2))
    for value in (1, 2):
        assert not constraint.add(_entry("s"), _with(int=value))
    assert constraint.add(_entry("s"), _with(int=3))


# Pools


def _names(pools: Any) -> list[tuple[str, list[str], list[str], bool, str]]:
    return [
        (str(p.id), [s.name for s in p.slices], [s.name for s in p.elsewhere], p.is_incomplete, p.invalid)
        for p in pools
    ]


GPU: Obj = {"name": "g"}
P = f"{DRIVER}/p"


def test_pools_come_by_driver_and_name_and_those_with_conditions_last() -> None:
    slow = {"name": "g", "bindingConditions": ["ready"]}
    slices = [
        _slice("1", GPU, pool="b"),
        _slice("2", slow, pool="a", driver="a.example.com"),
        _slice("3", GPU, pool="a"),
        _slice("4", GPU, pool="c", nodeName="other"),
        _slice("5", GPU, pool="z", driver="a.example.com", allNodes=True),
    ]
    published = Published(slices)
    found = _names(published.pools_for("n", {}))
    assert [name for name, *_ in found] == [
        "a.example.com/z",
        f"{DRIVER}/a",
        f"{DRIVER}/b",
        "a.example.com/a",
    ]
    assert published.own_pools("n") == {
        PoolId(DRIVER, "a"),
        PoolId(DRIVER, "b"),
        PoolId("a.example.com", "a"),
    }
    assert published.own_pools("nowhere") == frozenset()
    assert published.shared_pools() == {PoolId("a.example.com", "z")}


_COUNTERS = [{"name": "s", "counters": {"slots": {"value": "4"}}}]


def _consumes(counter_set: str = "s", counter: str = "slots") -> Obj:
    return {"consumesCounters": [{"counterSet": counter_set, "counters": {counter: {"value": "1"}}}]}


POOLS: dict[str, tuple[list[Slice], list[Any]]] = {
    "one slice": ([_slice("a", GPU)], [(P, ["a"], [], False, "")]),
    "slices by name": (
        [_slice("b", GPU, count=2), _slice("a", {"name": "h"}, count=2)],
        [(P, ["a", "b"], [], False, "")],
    ),
    "one of two is missing": ([_slice("a", GPU, count=2)], [(P, [], [], True, "")]),
    "one too many": (
        [_slice(n, {"name": n}, count=2) for n in "abc"],
        [(P, [], [], True, "")],
    ),
    "the other is another node's": (
        [_slice("a", GPU, count=2), _slice("b", {"name": "h"}, count=2, nodeName="other")],
        [(P, ["a"], ["b"], False, "")],
    ),
    "an old generation is left out": (
        [_slice("a", GPU), _slice("b", {"name": "h"}, generation=2)],
        [(P, ["b"], [], False, "")],
    ),
    "an older one that comes later is, too": (
        [_slice("b", GPU), _slice("a", {"name": "h"}, generation=2)],
        [(P, ["a"], [], False, "")],
    ),
    "a newer generation is elsewhere": (
        [_slice("a", GPU, count=2), _slice("b", {"name": "h"}, generation=2, nodeName="other")],
        [],
    ),
    "an older one elsewhere does not count": (
        [
            _slice("a", GPU, count=2, generation=2),
            _slice("b", {"name": "h"}, count=2, generation=1, nodeName="other"),
        ],
        [(P, [], [], True, "")],
    ),
    "a device twice": (
        [_slice("a", GPU, count=2), _slice("b", GPU, count=2)],
        [(P, [], [], False, "duplicate device name g")],
    ),
    "counters": (
        [_slice("a", count=2, sharedCounters=_COUNTERS), _slice("b", {**GPU, **_consumes()}, count=2)],
        [(P, ["b"], [], False, "")],
    ),
    "a counter set twice in a slice": (
        [_slice("a", count=2, sharedCounters=_COUNTERS * 2), _slice("b", GPU, count=2)],
        [(P, [], [], False, "duplicate counter set name s")],
    ),
    "a counter set in two slices": (
        [_slice("a", count=2, sharedCounters=_COUNTERS), _slice("b", count=2, sharedCounters=_COUNTERS)],
        [(P, [], [], False, "duplicate counter set name s")],
    ),
    "no such counter set": (
        [_slice("a", {**GPU, **_consumes("t")})],
        [(P, [], [], False, "counter set t not found")],
    ),
    "no such counter": (
        [
            _slice("a", count=2, sharedCounters=_COUNTERS),
            _slice("b", {**GPU, **_consumes("s", "seats")}, count=2),
        ],
        [(P, [], [], False, "counter seats not found in counter set s")],
    ),
    "no such counter elsewhere": (
        [
            _slice("a", count=3, sharedCounters=_COUNTERS),
            _slice("b", GPU, count=3),
            _slice("c", {"name": "h", **_consumes("t")}, count=3, nodeName="other"),
        ],
        [(P, [], [], False, "counter set t not found")],
    ),
    "each device says where it is": (
        [
            _slice(
                "a",
                {"name": "g", "nodeName": "n"},
                {"name": "h", "nodeName": "other"},
                perDeviceNodeSelection=True,
            )
        ],
        [(P, ["a"], [], False, "")],
    ),
    "each device is elsewhere": (
        [_slice("a", {"name": "h", "nodeName": "other"}, perDeviceNodeSelection=True)],
        [],
    ),
}


@pytest.mark.parametrize("name", POOLS)
def test_pools_of_a_node(name: str) -> None:
    slices, wanted = POOLS[name]
    for draw in range(3):
        shuffled = list(slices)
        Random(draw).shuffle(shuffled)
        pools = Published(shuffled).pools_for("n", {})
        assert _names(pools) == wanted
        assert [p.gives_nothing for p in pools] == [bool(w[3] or w[4]) for w in wanted]


# Reading


def test_a_request_says_how_many_and_of_what() -> None:
    for fields, mode, count in (
        ({}, "ExactCount", 1),
        ({"count": 3}, "ExactCount", 3),
        ({"allocationMode": "All"}, "All", 0),
        ({"allocationMode": "ExactCount"}, "ExactCount", 1),
    ):
        request = _request("r", **fields)
        assert (request.mode, request.count, request.full_name) == (mode, count, "r")
    assert _request("s", "r").full_name == "r/s"
    full = _request(
        "r",
        deviceClassName="gpu",
        adminAccess=True,
        selectors=[{"cel": {"expression": "x"}}, {}],
        tolerations=[{"key": "k", "operator": "Exists", "value": "v", "effect": "e"}],
        capacity={"requests": {"memory": "1Gi"}},
    )
    assert (full.class_name, full.admin, full.selectors) == ("gpu", True, ("x", ""))
    assert full.tolerations == (Toleration("k", "Exists", "v", "e"),)
    assert {n: (a.value, a.text) for n, a in full.capacity.items()} == {"memory": (2**30, "1Gi")}


def test_claims_and_classes_keep_configurations_without_their_requests() -> None:
    config = {"requests": ["r"], "opaque": {"driver": DRIVER}}
    spec = {
        "devices": {
            "requests": [{"name": "r", "exactly": {}}, {"name": "q", "firstAvailable": [{"name": "s"}]}],
            "constraints": [{"requests": ["r"], "matchAttribute": "a/b"}, {"distinctAttribute": "c/d"}],
            "config": [config],
        }
    }
    claim = claim_of({"metadata": {"name": "c", "namespace": "d"}, "spec": spec})
    assert claim.title == "d/c"
    assert [(n, [e.full_name for e in entries]) for n, entries in claim.requests] == [
        ("r", ["r"]),
        ("q", ["q/s"]),
    ]
    assert claim.constraints == (
        Constraint(frozenset({"r"}), "a/b", ""),
        Constraint(frozenset(), "", "c/d"),
    )
    assert [(c.requests, c.obj) for c in claim.configs] == [(("r",), {"opaque": {"driver": DRIVER}})]
    obj = {
        "metadata": {"name": "k", "creationTimestamp": "t"},
        "spec": {"config": [config], "extendedResourceName": "example.com/gpu", "selectors": []},
    }
    found = class_of(obj)
    assert (found.name, found.extended, found.created) == ("k", "example.com/gpu", "t")
    assert [(c.requests, c.obj) for c in found.configs] == [((), {"opaque": {"driver": DRIVER}})]
    assert class_of(obj) is found


def test_a_device_is_known_by_its_domain_and_its_content() -> None:
    device = _device(attributes={"a": {"int": 1}, "other.com/b": {"int": 2}})
    assert device.attribute(f"{DRIVER}/a") == {"int": 1}
    assert device.attribute("other.com/b") == {"int": 2}
    assert device.attribute("other.com/a") is None
    assert device.attribute(f"{DRIVER}/b") is None
    assert str(device.id) == f"{DRIVER}/p/d"
    assert device.content == _device("another", attributes=device.obj["attributes"]).content
    assert device.content != _device(attributes={"a": {"int": 2}}).content
    assert (
        device.content != _device(attributes=device.obj["attributes"], allowMultipleAllocations=True).content
    )


def test_slices_of_one_shape_have_equal_devices() -> None:
    """Numbers are for slices that say the same of their devices, wherever these are; those that share have none."""
    two: list[Obj] = [{"name": "a", "attributes": {"x": {"int": 1}}}, {"name": "b"}]
    one = _slice("1", *two)
    assert one.shape > 0
    alike = _slice("2", *deepcopy(two), pool="q", nodeName="m", generation=7)
    assert alike.shape == one.shape
    assert all(d.matches is e.matches for d, e in zip(one.devices, alike.devices, strict=True))
    others = [
        _slice("3", *two, driver="other.example.com"),
        _slice("4", *reversed(two)),
        _slice("5", two[0]),
        _slice("6", two[1]),
        _slice("7", {"name": "a", "attributes": {"x": {"int": 2}}}, two[1]),
        _slice("8", *({**d, "taints": [{"key": "k", "effect": "NoSchedule"}]} for d in two)),
    ]
    numbers = [one.shape, *(other.shape for other in others)]
    assert min(numbers) > 0
    assert len(set(numbers)) == len(numbers)
    takes = {"consumesCounters": [{"counterSet": "s", "counters": {"slots": {"value": "1"}}}]}
    for more in ({"allowMultipleAllocations": True}, takes):
        assert _slice("9", two[0], {"name": "b", **more}).shape == 0
        assert _slice("9", {"name": "a", **more}, two[1]).shape == 0
    assert _slice("0").shape == 0


# Nodes that are alike


def _two_pools(node: str, *, driver: str = DRIVER) -> Any:
    slices = [
        _slice("a", {"name": "x"}, {"name": "y"}, pool=f"{node}-1", count=2, nodeName=node, driver=driver),
        _slice("b", {"name": "z"}, pool=f"{node}-1", count=2, nodeName=node, driver=driver),
        _slice("c", {"name": "w"}, pool=f"{node}-2", nodeName=node, driver=driver),
    ]
    return Published(slices).pools_for(node, {})


def test_what_is_taken_of_a_node_is_told_by_place() -> None:
    pools, usage = _two_pools("n"), Usage()
    assert taken_of(pools, usage) == 0
    for pool, device, taken in (
        ("n-1", "y", 0b10),
        ("n-2", "w", 0b1010),
        ("m-1", "x", 0b1010),
        ("n-1", "z", 0b1110),
        ("n-1", "x", 0b1111),
    ):
        usage.add([{"driver": DRIVER, "pool": pool, "device": device}])
        assert taken_of(pools, usage) == taken
    elsewhere = {"driver": DRIVER, "pool": "m-1", "device": "y", "shareID": "1"}
    usage.add([elsewhere])
    assert taken_of(pools, usage) == 0b1111
    for more in ({}, {"consumedCapacity": {"m": "1"}}):
        shared = usage.copy()
        shared.add([{**elsewhere, "pool": "n-1", **more}])
        assert taken_of(pools, shared) == -1


def test_nodes_are_of_one_kind_by_what_their_pools_hold() -> None:
    kind = kind_of(_two_pools("n"))
    assert kind > 0
    assert kind_of(_two_pools("m")) == kind
    others = [
        _two_pools("n", driver="other.example.com"),
        _two_pools("n")[:1],
        _two_pools("n")[::-1],
        Published([_slice("a", {"name": "x"}, {"name": "y"}, count=2)]).pools_for("n", {}),
        Published([_slice("a", {"name": "x"}, {"name": "y"})]).pools_for("n", {}),
        Published([_slice("a", {"name": "x"}, {"name": "x"})]).pools_for("n", {}),
        (),
    ]
    kinds = [kind, *map(kind_of, others)]
    assert min(kinds) > 0 and len(set(kinds)) == len(kinds)
    assert [*map(kind_of, others)] == kinds[1:], "as before"
    shared = _slice("a", {"name": "x", "allowMultipleAllocations": True}, nodeName="n")
    where = _slice("a", {"name": "x", "nodeName": "n"}, perDeviceNodeSelection=True)
    for alone in (shared, where):
        assert kind_of(Published([alone, _slice("b", {"name": "y"}, pool="q")]).pools_for("n", {})) == 0


def test_a_choice_is_found_at_another_node_by_its_place() -> None:
    here, there = _two_pools("n"), _two_pools("m")
    first, second = _request("r"), _request("q")

    def solution(pools: Any) -> Solution:
        (one, two), three = pools[0].slices, pools[1].slices[0]
        devices = (
            (Chosen(first, one.devices[1], one, None), Chosen(second, three.devices[0], three, None)),
            (Chosen(first, two.devices[0], two, None),),
        )
        return Solution(devices, ((0, 1), (2,)), ((False, True), (True,)))

    def told(of: Solution) -> Any:
        return [[(c.request, c.device.id, c.slice, c.consumed) for c in chosen] for chosen in of.devices]

    found, want = Choice(here, solution(here)).at(there), solution(there)
    assert told(found) == told(want)
    assert (found.alternatives, found.has_alternatives) == (want.alternatives, want.has_alternatives)
