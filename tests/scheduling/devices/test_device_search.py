"""The allocator against one that tries everything, on small worlds: the same choice, or both none."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.kube.devicedefaults import claim_defaults
from fairway.scheduling.devices.facts import claim_of, class_of, slice_of
from fairway.scheduling.devices.pools import Published
from fairway.scheduling.devices.search import Node, NoSolution, solve
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
