"""Sets of instance types as bits, against lists of them that are searched anew; a NodePool read as a whole; which
domains its taints leave; a move that is just worth it."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
from karpenterworlds import context, kind, pod, pool, pool_object, solve, state_node, wants, world

from fairway.kube.taints import Taint
from fairway.provisioning.karpenter.disruption.balanced import can_be_worth_it, is_worth_it, score
from fairway.provisioning.karpenter.disruption.candidates import GRACEFUL, candidates
from fairway.provisioning.karpenter.disruption.commands import Command
from fairway.provisioning.karpenter.fleet import NO_PRICE, Fleet, unsatisfied_min_values
from fairway.provisioning.karpenter.instancetypes import InstanceType, Offering
from fairway.provisioning.karpenter.labels import CAPACITY_TYPE, NODEPOOL, ON_DEMAND, RESERVED, SPOT, ZONE
from fairway.provisioning.karpenter.nodepools import Budget, node_pool
from fairway.provisioning.karpenter.requirement import one_of
from fairway.provisioning.karpenter.requirements import (
    Requirements,
    label_requirements,
    selector_requirements,
)

FAMILY, TEAM = "example.com/family", "example.com/team"
VALUES = {
    ZONE: ("z1", "z2", "z3"),
    CAPACITY_TYPE: (ON_DEMAND, SPOT, RESERVED),
    FAMILY: ("a", "b"),
    TEAM: ("x", "y"),
}


@dataclass
class _Type:
    name: str
    labels: dict[str, tuple[str, ...]]
    """No value: it says that it has none of it."""
    offers: list[tuple[str, str, int, bool]]
    capacity: dict[str, int]
    overhead: dict[str, int]

    def built(self) -> InstanceType:
        labels = Requirements(one_of(k, vs) for k, vs in self.labels.items())
        offers = tuple(Offering(*o) for o in self.offers)
        return InstanceType(self.name, labels, offers, self.capacity, self.overhead)


@dataclass
class _Wish:
    asks: dict[str, tuple[str, tuple[str, ...]]]

    def built(self) -> Requirements:
        entries = [{"key": k, "operator": o, "values": list(vs)} for k, (o, vs) in self.asks.items()]
        return selector_requirements(entries)

    def allows(self, key: str, value: str) -> bool:
        operator, values = self.asks.get(key, ("Exists", ()))
        return {"In": value in values, "NotIn": value not in values, "Exists": True}.get(operator, False)

    def suits(self, of: _Type) -> bool:
        for key, (operator, _) in self.asks.items():
            has = of.labels.get(key)
            is_absent = has == () and operator in ("NotIn", "DoesNotExist")
            if has is not None and not is_absent and not any(self.allows(key, v) for v in has):
                return False
        return True

    def offers(self, of: _Type) -> list[tuple[str, str, int, bool]]:
        return [o for o in of.offers if o[3] and self.allows(ZONE, o[0]) and self.allows(CAPACITY_TYPE, o[1])]

    def price(self, of: _Type) -> int:
        return min((o[2] for o in self.offers(of)), default=NO_PRICE)

    def worst_price(self, of: _Type) -> int:
        for capacity_type in (RESERVED, SPOT, ON_DEMAND):
            prices = [o[2] for o in self.offers(of) if o[1] == capacity_type]
            if prices:
                return max(prices)
        return NO_PRICE


def _drawn(draw: Random) -> tuple[list[_Type], list[_Wish]]:
    types = []
    for i in range(draw.randint(1, 5)):
        labels = {
            key: tuple(draw.sample(VALUES[key], draw.randint(0, 2)))
            for key in (FAMILY, TEAM)
            if draw.random() < 0.7
        }
        offers = [
            (z, c, draw.choice((10, 20, 20, 30)), draw.random() < 0.7)
            for z in VALUES[ZONE]
            for c in VALUES[CAPACITY_TYPE]
            if draw.random() < 0.4
        ]
        for key, at in ((ZONE, 0), (CAPACITY_TYPE, 1)):
            labels[key] = tuple(dict.fromkeys(str(o[at]) for o in offers))
        capacity = {"cpu": draw.choice((2, 4, 8)), **({"gpu": draw.choice((0, 1))} if i % 2 else {})}
        overhead = draw.choice(({}, {"cpu": 1}, {"cpu": 9}))
        types.append(_Type(draw.choice("pqrst") + str(i), labels, offers, capacity, overhead))
    wishes = [
        _Wish(
            {
                key: (
                    operator := draw.choice(("In", "In", "NotIn", "Exists", "DoesNotExist")),
                    tuple(draw.sample(values, draw.randint(1, 2))) if operator.endswith("In") else (),
                )
                for key, values in VALUES.items()
                if draw.random() < 0.4
            }
        )
        for _ in range(4)
    ]
    return types, wishes


def _bits(flags: list[bool]) -> int:
    return sum(1 << i for i, flag in enumerate(flags) if flag)


@pytest.mark.parametrize("start", range(0, 120, 20))
def test_sets_of_types_are_those_found_one_by_one(start: int) -> None:
    for seed in range(start, start + 20):
        draw = Random(seed)
        types, wishes = _drawn(draw)
        made = [t.built() for t in types]
        fleet = Fleet(iter(made))
        every = range(len(types))
        assert (fleet.types, fleet.all) == (tuple(made), _bits([True] * len(types)))
        # Each is asked twice: what is remembered is what was found.
        for wish in (*wishes, *wishes):
            wanted = wish.built()
            assert fleet.compatible(wanted) == _bits([wish.suits(t) for t in types]), seed
            assert fleet.offered(wanted) == _bits([bool(wish.offers(t)) for t in types]), seed
            assert [fleet.price(i, wanted) for i in every] == [wish.price(t) for t in types], seed
            assert [fleet.worst_price(i, wanted) for i in every] == [wish.worst_price(t) for t in types], seed
            mask = draw.randrange(fleet.all + 1)
            chosen = [i for i in every if mask >> i & 1]
            assert list(fleet.indexes(mask)) == chosen
            assert fleet.of(mask) == [made[i] for i in chosen]
            assert fleet.mask_of(reversed(fleet.of(mask))) == mask
            by_price = sorted(chosen, key=lambda i: (wish.price(types[i]), types[i].name))
            assert fleet.by_price(mask, wanted) == by_price
            most = {r: max(types[i].capacity.get(r, 0) for i in chosen) for r in ("cpu", "gpu") if chosen}
            assert fleet.largest(mask) == {r: v for r, v in most.items() if v}
            assert fleet.label_values(wanted) == _label_values(types, wish), seed
        for cpu in (-1, 0, 1, 2, 3, 4, 7, 8, 9):
            room = [cpu <= 0 or max(t.capacity["cpu"] - t.overhead.get("cpu", 0), 0) >= cpu for t in types]
            assert fleet.fitting({"cpu": cpu, "other": 0}) == _bits(room), (seed, cpu)
            assert fleet.within({"cpu": cpu}) == _bits([t.capacity["cpu"] <= cpu for t in types]), (seed, cpu)
        has_gpus = [t.capacity.get("gpu", 0) >= 1 for t in types]
        assert fleet.fitting({"gpu": 1, "cpu": 0}) == _bits(has_gpus)
        assert fleet.fitting({"other": 1}) == 0
        assert fleet.within({"gpu": 0}) == _bits([not has for has in has_gpus])
        assert (fleet.within({"other": 0}), fleet.within({"other": -1})) == (fleet.all, 0)
        assert [fleet.named(t.name) for t in types] == made
        assert fleet.named("nobody") is None


def _label_values(types: list[_Type], wish: _Wish) -> dict[str, list[str]]:
    """What a type says within the wish, what only the wish names (also what it rules out: as upstream lists them), and
    every value that the wish allows by name."""
    found: dict[str, set[str]] = {}
    for of in types:
        for key in {*of.labels, *wish.asks}:
            there = of.labels.get(key)
            named = wish.asks.get(key, ("", ()))[1]
            found.setdefault(key, set()).update(
                named if there is None else (v for v in there if wish.allows(key, v))
            )
    for key, (operator, values) in wish.asks.items():
        if operator == "In":
            found.setdefault(key, set()).update(values)
    return {key: sorted(values) for key, values in found.items()}


def test_as_many_types_as_it_takes_for_every_min_values() -> None:
    def of(family: str, *zones: str) -> InstanceType:
        return InstanceType(family, Requirements([one_of(FAMILY, (family,)), one_of(ZONE, zones)]), (), {})

    types = [of("a", "z1"), of("a", "z2"), of("b", "z1"), of("b", "z3")]

    def wanted(**least: int | None) -> Requirements:
        keys = {"family": FAMILY, "zone": ZONE}
        return selector_requirements([wants(keys[k], "Exists", least=n) for k, n in least.items()])

    for asked, found in (
        (wanted(), (0, {})),
        (wanted(family=None), (0, {})),
        (wanted(family=1), (1, {})),
        (wanted(family=2), (3, {})),
        (wanted(family=2, zone=2), (3, {})),
        (wanted(family=1, zone=2), (2, {})),
        (wanted(family=2, zone=3), (4, {})),
        (wanted(family=3, zone=4), (4, {FAMILY: 2, ZONE: 3})),
        (wanted(family=2, zone=4), (4, {ZONE: 3})),
    ):
        assert unsatisfied_min_values(types, asked) == found
    assert unsatisfied_min_values([], wanted(family=1)) == (0, {})


# NodePools


def test_a_node_pool_is_read_as_a_whole() -> None:
    asked: list[dict[str, Any]] = [
        {"key": ZONE, "operator": "In", "values": ["z1", "z2"]},
        {"key": TEAM, "operator": "Exists", "minValues": 2},
    ]
    template = {
        "metadata": {"labels": {FAMILY: "a", ZONE: "z1"}, "annotations": {"note": "n"}},
        "spec": {
            "requirements": asked,
            "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}],
            "nodeClassRef": {"group": "example.com", "kind": "NodeClass", "name": "c"},
        },
    }
    disruption = {
        "consolidateAfter": "1h2m3s",
        "consolidationPolicy": "WhenEmpty",
        "budgets": [
            {"nodes": 3},
            {"reasons": ["Drifted"], "schedule": "0 9 * * *", "duration": "8h"},
            {"nodes": "0", "reasons": []},
        ],
    }
    spec = {
        "template": template,
        "disruption": disruption,
        "weight": 7,
        "limits": {"cpu": "4", "gpu": 2},
        "replicas": 0,
    }
    conditions = [{"type": "Other", "status": "False"}, {"type": "Ready", "status": "False"}]
    obj = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "p", "uid": "u"},
        "spec": spec,
        "status": {"conditions": conditions},
    }
    own = {NODEPOOL: "p", "example.com/nodeclass": "c"}
    labels = {FAMILY: "a", ZONE: "z1"}
    asks = selector_requirements(asked)
    found = node_pool(obj)
    assert (found.name, found.uid, found.weight, found.limits) == ("p", "u", 7, {"cpu": 4000, "gpu": 2})
    assert (found.labels, found.annotations) == ({**labels, **own}, {"note": "n"})
    assert (found.template, found.asked) == (template, asks)
    assert found.requirements == asks.plus(label_requirements({**labels, **own}))
    assert found.label_requirements == asks.plus(label_requirements(labels))
    assert found.taints == (Taint("k", "v", "NoSchedule"),)
    assert (found.consolidate_after_us, found.consolidation_policy) == (3_723_000_000, "WhenEmpty")
    assert found.budgets == (
        Budget("3"),
        Budget("10%", ("Drifted",), "0 9 * * *", 8 * 3600 * 10**6),
        Budget("0", ()),
    )
    assert (found.is_static, found.is_ready, found.has_preferred_taint) == (True, False, False)
    conditions[1]["status"] = "Unknown"
    disruption["consolidateAfter"] = "Never"
    template["spec"]["taints"] = [{"key": "k", "effect": "PreferNoSchedule"}]  # type: ignore[index]
    template["spec"]["nodeClassRef"] = {"group": "example.com", "kind": "NodeClass"}  # type: ignore[index]
    del spec["replicas"], spec["limits"]
    again = node_pool(obj)
    assert (again.is_static, again.is_ready, again.has_preferred_taint) == (False, True, True)
    assert (again.consolidate_after_us, again.limits) == (None, None)
    # A class that is not named in full gives no label.
    assert again.labels == {**labels, NODEPOOL: "p"}
    assert again.hash != found.hash


# Domains


@pytest.mark.parametrize(
    ("pools", "tolerates", "want"),
    [
        ({"a": ""}, "", True),
        ({"a": "red"}, "", False),
        ({"a": "red"}, "red", True),
        # One of several pools that make nodes there will do.
        ({"a": "red", "b": "blue"}, "blue", True),
        ({"a": "red", "b": "blue"}, "red", True),
        ({"a": "red", "b": "blue"}, "green", False),
        ({"a": "red", "b": "", "c": "blue"}, "", True),
    ],
)
def test_a_zone_is_a_domain_of_who_tolerates_one_of_its_pools(
    pools: dict[str, str], tolerates: str, *, want: bool
) -> None:
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "x"}}}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    tolerations = [{"key": tolerates, "operator": "Exists"}] if tolerates else []
    made = [
        pool(name, taints=[{"key": taint, "effect": "NoSchedule"}] if taint else [])
        for name, taint in pools.items()
    ]
    pods = [pod(f"p{i}", labels={"app": "x"}, affinity=affinity, tolerations=tolerations) for i in range(2)]
    found = solve(world([kind("s.small", 4, zones=("zone-1",))], made), pods)
    assert [[p.name for p in c.pods] for c in found.claims] == ([["p0", "p1"]] if want else [])
    if want:
        (claim,) = found.claims
        assert claim.requirements.get(ZONE).sorted_values() == ["zone-1"]


# Balanced


@pytest.mark.parametrize(("others_cpu", "is_worth"), [(2, True), (3, True), (4, False)])
def test_half_as_much_saved_as_is_disrupted_is_just_enough(others_cpu: int, *, is_worth: bool) -> None:
    """Each node has a pod, so either is half of the disruption; a quarter of the cost is half of that."""
    one, other = kind("s.one", 1), kind("s.other", others_cpu)
    balanced = node_pool(
        pool_object(disruption={"budgets": [{"nodes": "100%"}], "consolidationPolicy": "Balanced"})
    )
    nodes = tuple(state_node(n, of, (pod(f"{n}-0", "500m", node=n),)) for n, of in (("a", one), ("b", other)))
    made = context(world([one, other], [balanced], nodes))
    a = next(c for c in candidates(made, GRACEFUL)[0] if c.name == "a")
    assert score(made, [a], a.price) == 2 / (1 + others_cpu)
    assert can_be_worth_it(made, a) is is_worth
    assert is_worth_it(made, Command("Underutilized", "single", (a,))) is is_worth
