"""The allocator against one that tries everything, on small worlds: the same choice, or both none."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.kube.devicedefaults import claim_defaults
from fairway.scheduling.devices.facts import claim_of, class_of, slice_of
from fairway.scheduling.devices.pools import Published
from fairway.scheduling.devices.search import Node, NoSolution, solve
from fairway.scheduling.devices.selecting import AllocationError
from fairway.scheduling.devices.usage import Usage

DRIVER = "gpu.example.com"
ANY = class_of({"metadata": {"name": "any"}, "spec": {}})
Obj = dict[str, Any]


@st.composite
def devices(draw: st.DrawFn) -> list[Obj]:
    made: list[Obj] = []
    for number in range(draw(st.integers(1, 5))):
        device: Obj = {"name": f"d{number}", "attributes": {"index": {"int": number}}}
        if draw(st.booleans()):
            device["attributes"]["numa"] = {"int": draw(st.integers(0, 1))}
        if draw(st.booleans()):
            counters = {"slots": {"value": str(draw(st.integers(1, 3)))}}
            device["consumesCounters"] = [{"counterSet": "s", "counters": counters}]
        made.append(device)
    return made


@st.composite
def requests(draw: st.DrawFn, name: str) -> Obj:
    def exactly() -> Obj:
        body: Obj = {"deviceClassName": "any"}
        if draw(st.integers(0, 5)) == 0:
            return {**body, "allocationMode": "All", **selector(draw(st.integers(0, 4)))}
        body |= {"allocationMode": "ExactCount", "count": draw(st.integers(1, 3))}
        return body | (selector(draw(st.integers(0, 3))) if draw(st.booleans()) else {})

    if draw(st.booleans()):
        return {"name": name, "exactly": exactly()}
    return {"name": name, "firstAvailable": [{"name": f"s{i}", **exactly()} for i in range(2)]}


def selector(least: int) -> Obj:
    expression = f"device.attributes['{DRIVER}'].index >= {least}"
    return {"selectors": [{"cel": {"expression": expression}}]}


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[Obj], int, set[str], Obj]:
    found = draw(devices())
    taken = {d["name"] for d in found if draw(st.integers(0, 5)) == 0}
    asked: Obj = {"requests": [draw(requests(f"r{i}")) for i in range(draw(st.integers(1, 2)))]}
    # All devices that break a constraint are an error, not a search.
    if "All" not in str(asked) and draw(st.booleans()):
        asked["constraints"] = [{"matchAttribute": f"{DRIVER}/numa"}]
    # Upstream forgets to give back the counters of a device that a constraint refuses, and so does the search: with
    # constraints there are counters enough to forget some.
    return found, 10_000 if "constraints" in asked else draw(st.integers(0, 4)), taken, asked


@given(worlds())
@settings(max_examples=200, deadline=None)
def test_the_first_choice_that_holds_is_made(world: tuple[list[Obj], int, set[str], Obj]) -> None:
    found, slots, taken, asked = world
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 2}
    where: Obj = {"driver": DRIVER, "pool": pool, "nodeName": "n"}
    counters = [{"name": "s", "counters": {"slots": {"value": str(slots)}}}]
    slices = [
        {"metadata": {"name": "a"}, "spec": {**where, "sharedCounters": counters}},
        {"metadata": {"name": "b"}, "spec": {**where, "devices": found}},
    ]
    usage = Usage()
    usage.add({"request": "x", "driver": DRIVER, "pool": "p", "device": name} for name in sorted(taken))
    claim = claim_defaults({"metadata": {"name": "c", "namespace": "d"}, "spec": {"devices": asked}})
    pools = Published(map(slice_of, slices)).pools_for("n", {})
    got = solve(Node("n", {}), pools, usage, [claim_of(claim)], lambda _: ANY)
    wanted = next(choices(found, slots, taken, claim["spec"]["devices"]), None)
    if wanted is None:
        assert isinstance(got, NoSolution)
    else:
        assert not isinstance(got, NoSolution)
        assert [(c.request.full_name, c.device.id.device) for c in got.devices[0]] == wanted


def choices(found: list[Obj], slots: int, taken: set[str], asked: Obj) -> Iterator[list[tuple[str, str]]]:
    """Everything that holds, in the order in which the allocator would come to it."""
    used = sum(map(cost, (d for d in found if d["name"] in taken)))
    for chosen in product(*(list(ways(found, r)) for r in asked["requests"])):
        flat = [(name, device) for way in chosen for name, device in way]
        names = [device["name"] for _, device in flat]
        numa = {str(device["attributes"].get("numa")) for _, device in flat}
        if len(set(names)) < len(names) or taken & set(names):
            continue
        if used + sum(cost(device) for _, device in flat) > slots and any(cost(d) for _, d in flat):
            continue
        if asked.get("constraints") and (len(numa) > 1 or "None" in numa):
            continue
        yield [(name, device["name"]) for name, device in flat]


def ways(found: list[Obj], request: Obj) -> Iterator[list[tuple[str, Obj]]]:
    entries = [(request["name"], request["exactly"])] if "exactly" in request else []
    entries += [(f"{request['name']}/{s['name']}", s) for s in request.get("firstAvailable", ())]
    for name, entry in entries:
        said = [s["cel"]["expression"] for s in entry.get("selectors", ())]
        least = int(said[0].rpartition(" ")[2]) if said else 0
        fitting = [d for d in found if d["attributes"]["index"]["int"] >= least]
        count = len(fitting) if entry["allocationMode"] == "All" else entry["count"]
        if count:
            yield from ([(name, d) for d in some] for some in combinations(fitting, count))


def cost(device: Obj) -> int:
    return sum(int(c["counters"]["slots"]["value"]) for c in device.get("consumesCounters", ()))


# One by one: what each rule of the search does


def _world(*found: Obj, count: int = 1, **more: Any) -> list[Obj]:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": count}
    return [
        {"metadata": {"name": "s"}, "spec": {"driver": DRIVER, "pool": pool, "devices": list(found), **more}}
    ]


def _solved(slices: list[Obj], *asked: Obj, taken: Usage | None = None) -> list[list[tuple[str, str]]] | None:
    claims = [
        claim_of(
            claim_defaults({"metadata": {"name": f"c{i}", "namespace": "d"}, "spec": {"devices": devices}})
        )
        for i, devices in enumerate(asked)
    ]
    pools = Published(map(slice_of, slices)).pools_for("n", {})
    classes = {"any": ANY}
    got = solve(Node("n", {}), pools, taken or Usage(), claims, classes.get)
    if isinstance(got, NoSolution):
        return None
    return [[(c.request.full_name, c.device.id.device) for c in chosen] for chosen in got.devices]


def _request(name: str = "r", **body: Any) -> Obj:
    return {"name": name, "exactly": {"deviceClassName": "any", **body}}


def _asks(*found: Obj, **more: Any) -> Obj:
    return {"requests": list(found), **more}


def _many(count: int) -> list[Obj]:
    return [{"name": f"d{i}"} for i in range(count)]


HERE: Obj = {"nodeName": "n"}
ALL_OF = {"allocationMode": "All"}


@pytest.mark.parametrize(
    ("slices", "asked", "words"),
    [
        (
            _world(*_many(1), count=2, **HERE),
            _asks(_request(**ALL_OF)),
            "claim d/c0, request r: asks for all devices, but resource pool gpu.example.com/p is currently "
            "being updated",
        ),
        (
            _world({"name": "x"}, {"name": "x"}, **HERE),
            _asks(_request(**ALL_OF)),
            "claim d/c0, request r: asks for all devices, but resource pool gpu.example.com/p is currently invalid",
        ),
        (
            _world(*_many(1), **HERE),
            _asks(_request(deviceClassName="")),
            "claim d/c0, request r: missing device class name (unsupported request type?)",
        ),
        (
            _world(*_many(1), **HERE),
            _asks(_request(deviceClassName="none")),
            "claim d/c0, request r: could not retrieve device class none: "
            'deviceclass.resource.k8s.io "none" not found',
        ),
        (
            _world(*_many(1), **HERE),
            _asks(_request(allocationMode="Some")),
            "claim d/c0, request r: unsupported count mode Some",
        ),
        (
            _world(*_many(40), **HERE),
            _asks(_request(count=30), _request("q", count=3)),
            "claim d/c0: number of requested devices 33 exceeds the claim limit of 32",
        ),
        (
            _world({"name": "a", "attributes": {"x": {"int": 1}}}, {"name": "b"}, **HERE),
            _asks(_request(**ALL_OF), constraints=[{"matchAttribute": f"{DRIVER}/x"}]),
            "claim d/c0, request r: cannot add device gpu.example.com/p/b because a claim constraint would not be "
            "satisfied",
        ),
    ],
)
def test_what_nobody_could_satisfy_is_said(slices: list[Obj], asked: Obj, words: str) -> None:
    with pytest.raises(AllocationError) as told:
        _solved(slices, asked)
    assert str(told.value) == words


def test_a_claim_has_no_more_than_32_devices_and_takes_an_alternative_for_it() -> None:
    either = [{"name": f"s{n}", "deviceClassName": "any", "count": n} for n in (3, 2)]
    asked = _asks(_request(count=30), {"name": "q", "firstAvailable": either})
    found = _solved(_world(*_many(40), **HERE), asked)
    assert found is not None
    assert [name for name, _ in found[0]] == ["r"] * 30 + ["q/s2"] * 2
    # Each claim has its own 32.
    two = _solved(_world(*_many(64), **HERE), _asks(_request(count=32)), _asks(_request(count=32)))
    assert two is not None and [len(c) for c in two] == [32, 32]


def test_all_means_all_there_are_and_some() -> None:
    assert _solved(_world(*_many(3), **HERE), _asks(_request(**ALL_OF))) == [
        [("r", f"d{i}") for i in range(3)]
    ]
    assert _solved(_world(**HERE), _asks(_request(**ALL_OF))) is None
    taken = Usage()
    taken.add([{"driver": DRIVER, "pool": "p", "device": "d1"}])
    assert _solved(_world(*_many(3), **HERE), _asks(_request(**ALL_OF)), taken=taken) is None
    assert _solved(_world(*_many(3), **HERE), _asks(_request(**ALL_OF)), _asks(_request())) is None


def test_tainted_devices_are_for_who_tolerates_them() -> None:
    def found(of_taint: str, **toleration: str) -> bool:
        device = {"name": "d", "taints": [{"key": "k", "value": "v", "effect": of_taint}]}
        tolerations = [{"key": "k", "operator": "Exists", **toleration}] if toleration else []
        return _solved(_world(device, **HERE), _asks(_request(tolerations=tolerations))) is not None

    assert [found(e) for e in ("NoSchedule", "NoExecute", "None")] == [False, False, True]
    assert found("NoSchedule", effect="NoSchedule") and not found("NoSchedule", effect="NoExecute")
    assert found("NoExecute", operator="Equal", value="v") and not found(
        "NoExecute", operator="Equal", value="w"
    )


def test_administrators_share_what_others_have_but_not_twice_in_a_claim() -> None:
    taken = Usage()
    taken.add([{"driver": DRIVER, "pool": "p", "device": "d0"}])
    slices = _world(*_many(1), **HERE)
    assert _solved(slices, _asks(_request()), taken=taken) is None
    admin = _request(adminAccess=True)
    assert _solved(slices, _asks(admin), taken=taken) == [[("r", "d0")]]
    assert _solved(slices, _asks(admin), _asks(admin)) == [[("r", "d0")], [("r", "d0")]]
    assert _solved(slices, _asks(admin, {**admin, "name": "q"})) is None
    assert _solved(slices, _asks(_request(), {**admin, "name": "q"})) is None


def test_parts_of_a_device_go_as_far_as_they_reach() -> None:
    def shared(name: str, total: int) -> Obj:
        return {"name": name, "allowMultipleAllocations": True, "capacity": {"m": {"value": str(total)}}}

    def part(name: str, amount: int) -> Obj:
        return _request(name, capacity={"requests": {"m": str(amount)}})

    slices = _world(shared("a", 5), shared("b", 4), **HERE)
    assert _solved(slices, _asks(part("r", 3), part("q", 2))) == [[("r", "a"), ("q", "a")]]
    assert _solved(slices, _asks(part("r", 3), part("q", 3))) == [[("r", "a"), ("q", "b")]]
    # The first gives way where the second fits nowhere else.
    assert _solved(slices, _asks(part("r", 3), part("q", 5))) == [[("r", "b"), ("q", "a")]]
    assert _solved(slices, _asks(part("r", 5), part("q", 5))) is None
    assert _solved(slices, _asks(part("r", 3)), _asks(part("q", 2), part("s", 4))) == [
        [("r", "a")],
        [("q", "a"), ("s", "b")],
    ]
    taken = Usage()
    used = {"driver": DRIVER, "pool": "p", "device": "a", "shareID": "x", "consumedCapacity": {"m": "3"}}
    taken.add([used])
    assert _solved(slices, _asks(part("r", 3)), taken=taken) == [[("r", "b")]]
    assert _solved(slices, _asks(part("r", 2)), taken=taken) == [[("r", "a")]]
    assert _solved(slices, _asks(_request(capacity={"requests": {"other": "1"}}))) is None


def test_counters_are_taken_once_by_each_device_in_use() -> None:
    def slices(left: int, *found: Obj) -> list[Obj]:
        pool = {"name": "p", "generation": 1, "resourceSliceCount": 2}
        where = {"driver": DRIVER, "pool": pool, "nodeName": "n"}
        # Of what nobody takes there may be none.
        sets = [{"name": "s", "counters": {"slots": {"value": str(left)}, "none": {"value": "0"}}}]
        return [
            {"metadata": {"name": "a"}, "spec": {**where, "sharedCounters": sets}},
            {"metadata": {"name": "b"}, "spec": {**where, "devices": list(found)}},
        ]

    def device(name: str, slots: int, **more: Any) -> Obj:
        counters = [{"counterSet": "s", "counters": {"slots": {"value": str(slots)}}}]
        return {"name": name, "consumesCounters": counters, **more}

    two = (device("x", 2), device("y", 3), device("z", 1))
    assert _solved(slices(4, *two), _asks(_request(count=2))) == [[("r", "x"), ("r", "z")]]
    assert _solved(slices(5, *two), _asks(_request(count=2))) == [[("r", "x"), ("r", "y")]]
    assert _solved(slices(2, *two), _asks(_request(count=2))) is None
    assert _solved(slices(3, *two), _asks(_request()), _asks(_request())) == [[("r", "x")], [("r", "z")]]
    taken = Usage()
    taken.add([{"driver": DRIVER, "pool": "p", "device": "y"}])
    assert _solved(slices(5, *two), _asks(_request()), taken=taken) == [[("r", "x")]]
    assert _solved(slices(4, *two), _asks(_request()), taken=taken) == [[("r", "z")]]
    part = {"capacity": {"requests": {"m": "1"}}}
    shared = device("x", 2, allowMultipleAllocations=True, capacity={"m": {"value": "2"}})
    # A shared device takes its counters with its first part alone.
    both = _asks(_request("r", **part), _request("q", **part))
    assert _solved(slices(2, shared), both) == [[("r", "x"), ("q", "x")]]
    assert _solved(slices(1, shared), _asks(_request("r", **part))) is None
