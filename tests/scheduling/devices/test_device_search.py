"""The allocator against one that tries everything, on small worlds: the same choice, or both none."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.kube.devicedefaults import claim_defaults
from fairway.scheduling.devices.facts import claim_of, class_of, slice_of
from fairway.scheduling.devices.pools import Published
from fairway.scheduling.devices.search import Node, NoSolution, Solution, by_trial, is_plain, solve
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


# Shared devices, constraints and alternatives at once

_POLICIES: list[Obj | None] = [
    None,
    {"default": "1", "validRange": {"min": "1", "step": "2", "max": "5"}},
    {"default": "2", "validValues": ["1", "2", "4"]},
]
_GRAINS: list[tuple[int | None, list[int]]] = [(None, []), (1, [1, 3, 5]), (2, [1, 2, 4])]


def takes(asked: int | None, total: int, policy: int) -> int | None:
    """What a request takes of a capacity of `total`; None: it cannot be had."""
    default, grains = _GRAINS[policy]
    if asked is None:
        return total if default is None else default
    wanted = asked if not grains else next((g for g in grains if asked <= g), None)
    return wanted if wanted is not None and wanted <= total else None


@st.composite
def shared_worlds(draw: st.DrawFn) -> tuple[list[Obj], dict[str, int], list[int], Obj]:
    found: list[Obj] = []
    policies: list[int] = []
    for number in range(draw(st.integers(1, 4))):
        policy, is_shared = draw(st.integers(0, 2)), draw(st.booleans())
        memory: Obj = {"value": str(draw(st.integers(5, 8)))}
        if is_shared and _POLICIES[policy] is not None:
            memory["requestPolicy"] = _POLICIES[policy]
        device: Obj = {
            "name": f"d{number}",
            "attributes": {"index": {"int": number}},
            "capacity": {"m": memory},
        }
        for name, most in (("numa", 1), ("port", 3)):
            if draw(st.integers(0, 3)):
                device["attributes"][name] = {"int": draw(st.integers(0, most))}
        if is_shared:
            device["allowMultipleAllocations"] = True
        found.append(device)
        policies.append(policy if is_shared else 0)
    used = {d["name"]: draw(st.integers(1, 5)) for d in found if draw(st.integers(0, 3)) == 0}

    def exactly() -> Obj:
        body: Obj = {
            "deviceClassName": "any",
            "allocationMode": "ExactCount",
            "count": draw(st.integers(1, 2)),
        }
        if draw(st.booleans()):
            body["capacity"] = {"requests": {"m": str(draw(st.integers(0, 6)))}}
        return body

    asked: Obj = {"requests": []}
    for number in range(draw(st.integers(1, 3))):
        if draw(st.booleans()):
            asked["requests"].append({"name": f"r{number}", "exactly": exactly()})
        else:
            among = [{"name": f"s{i}", **exactly()} for i in range(2)]
            asked["requests"].append({"name": f"r{number}", "firstAvailable": among})
    names = [r["name"] for r in asked["requests"]]
    kind = draw(st.sampled_from(["", "matchAttribute", "distinctAttribute"]))
    if kind == "matchAttribute":
        some = draw(st.lists(st.sampled_from(names), unique=True))
        asked["constraints"] = [{kind: f"{DRIVER}/numa", **({"requests": some} if some else {})}]
    elif kind and all(e["count"] == 1 for r in asked["requests"] for _, e in entries_of(r)):
        # Of a request with several devices upstream forgets what it has compared: only single ones are exact.
        asked["constraints"] = [{kind: f"{DRIVER}/port"}]
    return found, used, policies, asked


def entries_of(request: Obj) -> list[tuple[str, Obj]]:
    own = [(request["name"], request["exactly"])] if "exactly" in request else []
    return own + [(f"{request['name']}/{s['name']}", s) for s in request.get("firstAvailable", ())]


@given(shared_worlds())
@settings(max_examples=300, deadline=None)
def test_the_first_choice_of_parts_that_holds_is_made(
    world: tuple[list[Obj], dict[str, int], list[int], Obj],
) -> None:
    found, used, policies, asked = world
    usage = Usage()
    for number, device in enumerate(found):
        result = {"request": "x", "driver": DRIVER, "pool": "p", "device": device["name"]}
        if device["name"] in used and device.get("allowMultipleAllocations"):
            usage.add(
                [{**result, "shareID": str(number), "consumedCapacity": {"m": str(used[device["name"]])}}]
            )
        elif device["name"] in used:
            usage.add([result])
    claim = claim_defaults({"metadata": {"name": "c", "namespace": "d"}, "spec": {"devices": asked}})
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    one = {
        "metadata": {"name": "a"},
        "spec": {"driver": DRIVER, "pool": pool, "nodeName": "n", "devices": found},
    }
    pools = Published([slice_of(one)]).pools_for("n", {})
    got = solve(Node("n", {}), pools, usage, [claim_of(claim)], lambda _: ANY)
    wanted = next(shares(found, used, policies, claim["spec"]["devices"]), None)
    if wanted is None:
        assert isinstance(got, NoSolution)
        return
    assert isinstance(got, Solution)
    assert [(c.request.full_name, c.device.id.device, _taken(c.consumed)) for c in got.devices[0]] == wanted


def _taken(consumed: Any) -> int | None:
    return None if consumed is None else int(consumed["m"].value)


def shares(
    found: list[Obj], used: dict[str, int], policies: list[int], asked: Obj
) -> Iterator[list[tuple[str, str, int | None]]]:
    """Everything that holds, in the order in which the allocator would come to it: by request its alternatives, and of
    each the devices in their order."""
    ways = [
        [(name, entry, some) for name, entry in entries_of(r) for some in combinations(found, entry["count"])]
        for r in asked["requests"]
    ]
    constraint = (asked.get("constraints") or [{}])[0]
    concerned = constraint.get("requests") or [r["name"] for r in asked["requests"]]
    for chosen in product(*ways):
        left = {d["name"]: int(d["capacity"]["m"]["value"]) - used.get(d["name"], 0) for d in found}
        alone = {d["name"] for d in found if not d.get("allowMultipleAllocations") and d["name"] in used}
        said: list[tuple[str, str, int | None]] = []
        for name, entry, some in chosen:
            wanted = (entry.get("capacity") or {}).get("requests", {}).get("m")
            for device in some:
                own, number = device["name"], int(device["name"][1:])
                total = int(device["capacity"]["m"]["value"])
                part = takes(None if wanted is None else int(wanted), total, policies[number])
                is_shared = bool(device.get("allowMultipleAllocations"))
                if part is None or own in alone or (is_shared and part > left[own]):
                    break
                if is_shared:
                    left[own] -= part
                else:
                    alone.add(own)
                said.append((name, own, part if is_shared else None))
        if len(said) < sum(len(some) for _, _, some in chosen):
            continue
        values = [
            str(d["attributes"].get("port" if "distinctAttribute" in constraint else "numa"))
            for name, _, some in chosen
            if name.partition("/")[0] in concerned
            for d in some
        ]
        if "distinctAttribute" in constraint and ("None" in values or len(set(values)) < len(values)):
            continue
        if "matchAttribute" in constraint and ("None" in values or len(set(values)) > 1):
            continue
        yield said


# Several claims over pools and slices


def _pools_drawn(draw: Random) -> list[Obj]:
    """Slices of three pools of two drivers; a pool that lacks one of its slices gives nothing."""
    slices: list[Obj] = []
    for driver, pool in ((DRIVER, "p"), (DRIVER, "q"), ("a.example.com", "z")):
        parts = draw.choice((1, 2, 2, 3))
        count = parts + (draw.random() < 0.1)
        for part in range(parts):
            found = [_device_drawn(draw, f"{part}{i}") for i in range(draw.choice((0, 1, 2, 3)))]
            of_pool = {"name": pool, "generation": 1, "resourceSliceCount": count}
            spec = {"driver": driver, "pool": of_pool, "nodeName": "n", "devices": found}
            slices.append({"metadata": {"name": f"{pool}{part}"}, "spec": spec})
    draw.shuffle(slices)
    return slices


def _device_drawn(draw: Random, name: str) -> Obj:
    device: Obj = {"name": name, "attributes": {"example.com/kind": {"string": draw.choice("xyy")}}}
    if draw.random() < 0.8:
        device["attributes"]["example.com/numa"] = {"int": draw.randint(0, 1)}
    if draw.random() < 0.15:
        effects = draw.choice((["NoSchedule"], ["NoExecute"], ["None"], ["None", "NoSchedule"]))
        device["taints"] = [{"key": e, "effect": e} for e in effects]
    return device


def _claim_drawn(draw: Random, number: int) -> Obj:
    def entry() -> Obj:
        body: Obj = {
            "deviceClassName": "any",
            "allocationMode": "ExactCount",
            "count": draw.choice((1, 1, 2)),
        }
        if draw.random() < 0.4:
            body["selectors"] = [{"cel": {"expression": _IS_X}}]
        if draw.random() < 0.3:
            body["tolerations"] = [{"key": draw.choice(("NoSchedule", "NoExecute")), "operator": "Exists"}]
        return body

    requests: list[Obj] = []
    for i in range(draw.choice((1, 1, 2))):
        if draw.random() < 0.7:
            admin = {"adminAccess": True} if draw.random() < 0.15 else {}
            requests.append({"name": f"r{i}", "exactly": {**entry(), **admin}})
        else:
            requests.append(
                {"name": f"r{i}", "firstAvailable": [{"name": f"s{j}", **entry()} for j in range(2)]}
            )
    asked: Obj = {"requests": requests}
    if draw.random() < 0.4:
        asked["constraints"] = [{"matchAttribute": "example.com/numa"}]
    return claim_defaults({"metadata": {"name": f"c{number}", "namespace": "d"}, "spec": {"devices": asked}})


_IS_X = "device.attributes['example.com'].kind == 'x'"
Pick = tuple[int, str, tuple[str, str, str]]
"""A claim, an entry of a request of it, a device."""


def _in_order(slices: list[Obj]) -> dict[tuple[str, str, str], Obj]:
    """The devices of pools that are complete: by driver and pool, then by slice, then as they stand there."""
    found = {}
    for one in sorted(
        slices, key=lambda s: (s["spec"]["driver"], s["spec"]["pool"]["name"], s["metadata"]["name"])
    ):
        spec = one["spec"]
        there = [s for s in slices if s["spec"]["pool"]["name"] == spec["pool"]["name"]]
        if len(there) == spec["pool"]["resourceSliceCount"]:
            found |= {(spec["driver"], spec["pool"]["name"], d["name"]): d for d in spec["devices"]}
    return found


def _will_do(device: Obj, entry: Obj) -> bool:
    tolerated = {t["key"] for t in entry.get("tolerations", ())} | {"None"}
    is_kind = not entry.get("selectors") or device["attributes"]["example.com/kind"]["string"] == "x"
    return is_kind and all(t["key"] in tolerated for t in device.get("taints", ()))


def _first_that_holds(
    claims: list[Obj], there: dict[tuple[str, str, str], Obj], taken: set[tuple[str, str, str]]
) -> list[Pick] | None:
    """Request after request, every choice of devices in their order, until one holds to the end."""
    asked = [(c, r) for c, claim in enumerate(claims) for r in claim["spec"]["devices"]["requests"]]

    def goes_on(at: int, picked: list[Pick]) -> list[Pick] | None:
        if at == len(asked):
            return picked
        claim, request = asked[at]
        for name, entry in entries_of(request):
            able = [own for own, device in there.items() if _will_do(device, entry)]
            if entry.get("adminAccess"):
                able = [own for own in able if own not in {o for c, _, o in picked if c == claim}]
            else:
                able = [own for own in able if own not in taken and own not in {o for _, _, o in picked}]
            for some in combinations(able, entry["count"]):
                now = [*picked, *((claim, name, own) for own in some)]
                if claims[claim]["spec"]["devices"].get("constraints"):
                    numa = {
                        str(there[own]["attributes"].get("example.com/numa"))
                        for c, _, own in now
                        if c == claim
                    }
                    if len(numa) > 1 or "None" in numa:
                        continue
                found = goes_on(at + 1, now)
                if found is not None:
                    return found
        return None

    return goes_on(0, [])


@pytest.mark.parametrize("seed", range(120))
def test_the_first_choice_over_pools_slices_and_claims_is_made(seed: int) -> None:
    draw = Random(seed)
    slices = _pools_drawn(draw)
    there = _in_order(slices)
    taken = {own for own in there if draw.random() < 0.15}
    usage = Usage()
    usage.add({"request": "x", "driver": d, "pool": p, "device": n} for d, p, n in sorted(taken))
    claims = [_claim_drawn(draw, number) for number in range(draw.choice((1, 2, 2)))]
    pools = Published(map(slice_of, slices)).pools_for("n", {})
    facts = [claim_of(c) for c in claims]
    wanted = _first_that_holds(claims, there, taken)
    for search in (solve, by_trial):
        got = search(Node("n", {}), pools, usage, facts, lambda _: ANY)
        if wanted is None:
            assert got == NoSolution()
            continue
        assert isinstance(got, Solution)
        said = [
            (c, one.request.full_name, one.device.id) for c, some in enumerate(got.devices) for one in some
        ]
        assert said == wanted
        asked = [c["spec"]["devices"]["requests"] for c in claims]
        assert got.has_alternatives == tuple(tuple("firstAvailable" in r for r in of) for of in asked)
        names = [{name for c, name, _ in wanted if c == i} for i in range(len(claims))]
        assert got.alternatives == tuple(
            tuple(int("firstAvailable" in r and f"{r['name']}/s1" in names[i]) for r in of)
            for i, of in enumerate(asked)
        )


# Plain claims are not searched for


@st.composite
def plain_worlds(draw: st.DrawFn) -> tuple[list[Obj], list[str], list[str], Obj]:
    """Slices of two pools, devices that are whole and that are shared in use, and a claim with one request."""
    slices: list[Obj] = []
    for pool in ("p", "q"):
        found: list[Obj] = []
        for number in range(draw(st.integers(0, 4))):
            device: Obj = {"name": f"d{number}", "attributes": {"index": {"int": number}}}
            for name, value in (
                (
                    "taints",
                    [{"key": "k", "effect": draw(st.sampled_from(["NoSchedule", "NoExecute", "None"]))}],
                ),
                ("capacity", {"memory": {"value": "4"}}),
                ("consumesCounters", [{"counterSet": "s", "counters": {"slots": {"value": "1"}}}]),
                ("allowMultipleAllocations", True),
                ("attributes", {}),
            ):
                if draw(st.integers(0, 7)) == 0:
                    device[name] = value
            found.append(device)
        count = draw(st.sampled_from([1, 1, 1, 2]))
        of_pool = {"name": pool, "generation": 1, "resourceSliceCount": count}
        spec = {"driver": DRIVER, "pool": of_pool, "nodeName": "n", "devices": found}
        slices.append({"metadata": {"name": pool}, "spec": spec})
    names = [(s["metadata"]["name"], d["name"]) for s in slices for d in s["spec"]["devices"]]
    picked = [f"{pool}/{name}" for pool, name in names if draw(st.integers(0, 3)) == 0]
    parts = [f"{pool}/{name}" for pool, name in names if draw(st.integers(0, 7)) == 0]
    body: Obj = {"deviceClassName": "any", "allocationMode": "ExactCount", "count": draw(st.integers(1, 3))}
    if draw(st.booleans()):
        body |= selector(draw(st.integers(0, 2)))
    if draw(st.integers(0, 3)) == 0:
        body["tolerations"] = [{"key": "k", "operator": "Exists"}]
    if draw(st.integers(0, 5)) == 0:
        body["adminAccess"] = True
    return slices, picked, parts, body


@pytest.mark.parametrize(
    ("requests", "more", "want"),
    [
        ([{"name": "r", "exactly": {"deviceClassName": "k"}}], {}, True),
        ([{"name": "r", "exactly": {"deviceClassName": "k", "count": 32}}], {}, True),
        ([{"name": "r", "exactly": {"deviceClassName": "k", "count": 33}}], {}, False),
        ([{"name": "r", "exactly": {"deviceClassName": "k", "allocationMode": "All"}}], {}, False),
        ([{"name": n, "exactly": {"deviceClassName": "k"}} for n in "ab"], {}, False),
        ([{"name": "r", "firstAvailable": [{"name": "a", "deviceClassName": "k"}]}], {}, False),
        ([{"name": "r", "firstAvailable": [{"name": n, "deviceClassName": "k"} for n in "ab"]}], {}, False),
        (
            [{"name": "r", "exactly": {"deviceClassName": "k"}}],
            {"constraints": [{"matchAttribute": "a/b"}]},
            False,
        ),
        ([], {}, False),
    ],
)
def test_which_claims_are_plain(requests: list[Obj], more: Obj, want: bool) -> None:
    spec = {"devices": {"requests": requests, **more}}
    assert is_plain(claim_of({"metadata": {"name": "c", "namespace": "d"}, "spec": spec})) == want


@given(plain_worlds())
@settings(max_examples=300, deadline=None)
def test_a_plain_claim_gets_what_a_search_would_find(
    world: tuple[list[Obj], list[str], list[str], Obj],
) -> None:
    slices, picked, parts, body = world
    usage = Usage()
    for name in picked:
        pool, _, device = name.partition("/")
        usage.add([{"request": "x", "driver": DRIVER, "pool": pool, "device": device}])
    for name in parts:
        pool, _, device = name.partition("/")
        share = {"shareID": "1", "consumedCapacity": {"memory": "1"}}
        usage.add([{"request": "x", "driver": DRIVER, "pool": pool, "device": device, **share}])
    spec = {"devices": {"requests": [{"name": "r", "exactly": body}]}}
    claim = claim_of({"metadata": {"name": "c", "namespace": "d"}, "spec": spec})
    assert is_plain(claim)
    pools = Published(map(slice_of, slices)).pools_for("n", {})
    said = []
    for ask in (solve, by_trial):
        try:
            found = ask(Node("n", {}), pools, usage, [claim], lambda _: ANY)
        except AllocationError as failed:
            said.append(f"{failed}")
            continue
        if isinstance(found, NoSolution):
            said.append(f"{found}")
        else:
            chosen = [
                (c.request.full_name, str(c.device.id), c.slice.name, c.consumed) for c in found.devices[0]
            ]
            said.append(f"{chosen} {found.alternatives} {found.has_alternatives}")
    assert said[0] == said[1]


def test_who_asks_for_more_than_is_left_is_told_at_once() -> None:
    """Without going through all sets of devices: they are counted."""
    slices = _world(*_many(21), nodeName="n")
    taken = Usage()
    assert len((_solved(slices, _asks(_request(count=20)), taken=taken) or [[]])[0]) == 20
    taken.add([{"request": "x", "driver": DRIVER, "pool": "p", "device": "d0"}])
    assert _solved(slices, _asks(_request(count=20)), taken=taken) is not None
    assert _solved(slices, _asks(_request(count=21)), taken=taken) is None
    assert _solved(_world(*_many(30), nodeName="n"), _asks(_request(count=31))) is None


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


def test_a_device_that_one_constraint_refuses_counts_for_no_other() -> None:
    """The first two match in one attribute alone: once they are given back, the second pair may."""

    def device(name: str, rack: int, model: int) -> Obj:
        return {"name": name, "attributes": {"rack": {"int": rack}, "model": {"int": model}}}

    slices = _world(device("a", 1, 1), device("b", 1, 2), device("c", 2, 3), device("d", 2, 3), **HERE)
    both = [{"matchAttribute": f"{DRIVER}/{name}"} for name in ("rack", "model")]
    for constraints in (both, both[::-1]):
        found = _solved(slices, _asks(_request("r"), _request("q"), constraints=constraints))
        assert found == [[("r", "c"), ("q", "d")]]


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

    # What one gives back is nobody else's, even where nothing is left of it.
    def two(name: str, m: int, n: int) -> Obj:
        return _request(name, capacity={"requests": {"m": str(m), "n": str(n)}})

    of_two = [
        {**shared(name, total), "capacity": {"m": {"value": str(total)}, "n": {"value": "1"}}}
        for name, total in (("a", 5), ("b", 1))
    ]
    asked = (two("r", 3, 0), two("q", 1, 1))
    assert _solved(_world(*of_two, **HERE), _asks(*asked)) == [[("r", "a"), ("q", "a")]]
    assert _solved(_world(*of_two, **HERE), _asks(*asked, two("s", 3, 1))) is None
    assert _solved(_world(*of_two, **HERE), _asks(*asked, two("s", 2, 1))) == [
        [("r", "a"), ("q", "b"), ("s", "a")]
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
