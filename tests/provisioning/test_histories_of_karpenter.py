"""What Karpenter makes of drawn worlds, as it is on file in `histories/`: every claim it opens, every pod it puts on a
node that is there, and every refusal; every command it decides, and what it says of the nodes that stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any

from karpenterworlds import FAMILY, GPU, NOW_US, ZONES, kind, pod, pool, solve, state_node, wants
from tests.histories import check_history

from fairway.kube.objects import Obj
from fairway.kube.resources import format_resources
from fairway.provisioning.karpenter.disruption.commands import Command
from fairway.provisioning.karpenter.disruption.consolidation import Outcome
from fairway.provisioning.karpenter.disruption.context import DisruptionContext, Notice
from fairway.provisioning.karpenter.disruption.methods import decide, eligible
from fairway.provisioning.karpenter.disruption.recheck import Abandoned, recheck
from fairway.provisioning.karpenter.fleet import Fleet
from fairway.provisioning.karpenter.instancetypes import InstanceType
from fairway.provisioning.karpenter.labels import (
    ARCH,
    CAPACITY_TYPE,
    DO_NOT_DISRUPT,
    HOSTNAME,
    INITIALIZED,
    INSTANCE_TYPE,
    NODEPOOL,
    ON_DEMAND,
    REGISTERED,
    SPOT,
    ZONE,
)
from fairway.provisioning.karpenter.nodepools import BALANCED, WHEN_EMPTY, WHEN_UNDERUTILIZED, NodePool
from fairway.provisioning.karpenter.nodes import Nodes
from fairway.provisioning.karpenter.packing import Options, Results
from fairway.provisioning.karpenter.podfacts import DELETION_COST, requests_of
from fairway.provisioning.karpenter.requirement import one_of
from fairway.provisioning.karpenter.requirements import Requirements
from fairway.provisioning.karpenter.statenode import StateNode
from fairway.provisioning.karpenter.world import World

_HERE = Path(__file__).parent / "histories"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_TAINT = {"key": "hard", "value": "yes", "effect": "NoSchedule"}
_SOFT = {"key": "soft", "effect": "PreferNoSchedule"}
_OF_EVERY_CLAIM = ("example.com/nodeclass", NODEPOOL, INITIALIZED, REGISTERED)
_KEYS = (ZONE, ZONE, HOSTNAME, CAPACITY_TYPE, "team")


def _types(draw: Random) -> list[InstanceType]:
    made = []
    for name in ("a1", "a2", "b1", "b2", "c1"):
        cpu = draw.choice((2, 4, 4, 8, 16))
        zones = tuple(sorted(draw.sample(ZONES, draw.choice((1, 2, 3, 3)))))
        made.append(
            kind(
                f"{name[0]}.{name}",
                cpu,
                gpu=draw.choice((0, 0, 0, 2)),
                spot=draw.choice((None, cpu * 20_000)),
                zones=zones,
                pods=draw.choice((3, 8, 110)),
                arch=draw.choice(("amd64", "amd64", "arm64")),
                overhead={"cpu": draw.choice((0, 100))},
                sold_out=((zones[0], draw.choice((SPOT, ON_DEMAND))),) if draw.random() < 0.3 else (),
            )
        )
    return made[: draw.randint(2, 5)]


def _pools(draw: Random) -> list[NodePool]:
    asked = (
        lambda: wants(ZONE, "In", *draw.sample(ZONES, 2)),
        lambda: wants(FAMILY, "NotIn", draw.choice("abc")),
        lambda: wants("fairway.dev/instance-cpu", "Gt", "2"),
        lambda: wants(CAPACITY_TYPE, "In", draw.choice((SPOT, ON_DEMAND))),
        lambda: wants(FAMILY, "Exists", least=2),
        lambda: wants("team", "In", "red", "blue"),
        lambda: wants("team", "NotIn", "red"),
    )
    return [
        pool(
            name,
            weight=draw.choice((0, 0, 5)),
            requirements=[make() for make in draw.sample(asked, draw.choice((0, 0, 1, 2)))],
            taints=draw.choice(([], [], [], [], [_TAINT], [_SOFT])),
            labels=draw.choice(({}, {}, {"team": "red"})),
            limits=draw.choice((None,) * 6 + ({"cpu": "12"}, {"nodes": "3"}, {"cpu": "40", GPU: "2"})),
        )
        for name in ("one", "two")[: draw.randint(1, 2)]
    ]


def _selector(draw: Random) -> dict[str, Any]:
    return {"matchLabels": {"app": draw.choice("xxy")}}


def _term(draw: Random) -> dict[str, Any]:
    term = {"topologyKey": draw.choice(_KEYS), "labelSelector": _selector(draw)}
    return term | draw.choice(
        ({}, {}, {"namespaces": ["other"]}, {"namespaceSelector": {"matchLabels": {"env": "test"}}})
    )


def _spread(draw: Random) -> dict[str, Any]:
    spread = {
        "maxSkew": draw.choice((1, 1, 2)),
        "topologyKey": draw.choice(_KEYS),
        "whenUnsatisfiable": draw.choice(("DoNotSchedule", "DoNotSchedule", "ScheduleAnyway")),
        "labelSelector": _selector(draw),
    }
    for name, values in (
        ("minDomains", (2, 4)),
        ("nodeTaintsPolicy", ("Honor",)),
        ("nodeAffinityPolicy", ("Ignore",)),
        ("matchLabelKeys", (["app"], ["none"])),
    ):
        if draw.random() < 0.2:
            spread[name] = draw.choice(values)
    return spread


def _near(draw: Random, which: str) -> dict[str, Any]:
    if draw.random() < 0.3:
        return {which: {_PREFERRED: [{"weight": w, "podAffinityTerm": _term(draw)} for w in (3, 7)]}}
    return {which: {_REQUIRED: [_term(draw) for _ in range(draw.choice((1, 1, 2)))]}}


def _expression(draw: Random) -> dict[str, Any]:
    key, values = draw.choice(
        ((ZONE, ZONES), (FAMILY, ("a", "b")), ("team", ("red", "blue")), (ARCH, ("arm64",)))
    )
    operator = draw.choice(("In", "In", "NotIn", "Exists", "DoesNotExist"))
    named = draw.sample(values, 1) if operator in ("In", "NotIn") else []
    return {"key": key, "operator": operator, "values": named}


def _node_affinity(draw: Random) -> dict[str, Any]:
    part: dict[str, Any] = {}
    if draw.random() < 0.6:
        terms = [{"matchExpressions": [_expression(draw)]} for _ in range(draw.choice((1, 2)))]
        part[_REQUIRED] = {"nodeSelectorTerms": terms}
    if draw.random() < 0.6:
        part[_PREFERRED] = [
            {"weight": w, "preference": {"matchExpressions": [_expression(draw)]}} for w in (2, 9, 4)
        ][: draw.choice((1, 3))]
    return {"nodeAffinity": part}


def _template(draw: Random) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "labels": {"app": draw.choice("xxy")},
        "cpu": draw.choice(("500m", "1", "1", "3")),
    }
    spec["memory"] = draw.choice(("1Gi", "1Gi", "3Gi"))
    affinity: dict[str, Any] = {}
    for chance, made in (
        (0.25, lambda: _near(draw, "podAffinity")),
        (0.25, lambda: _near(draw, "podAntiAffinity")),
        (0.25, lambda: _node_affinity(draw)),
    ):
        if draw.random() < chance:
            affinity |= made()
    if affinity:
        spec["affinity"] = affinity
    if draw.random() < 0.4:
        spec["topologySpreadConstraints"] = [_spread(draw) for _ in range(draw.choice((1, 1, 2)))]
    if draw.random() < 0.15:
        spec["nodeSelector"] = draw.choice(
            ({ZONE: "zone-2"}, {ZONE: "zone-1"}, {"team": "red"}, {HOSTNAME: "n1"})
        )
    if draw.random() < 0.3:
        spec["tolerations"] = draw.choice(([{"operator": "Exists"}], [{"key": "hard", "operator": "Exists"}]))
    if draw.random() < 0.15:
        spec["container"] = {"ports": [{"hostPort": 80}]}
    if draw.random() < 0.15:
        spec["gpu"] = 1
    return spec


def _pods(draw: Random, prefix: str, count: int, templates: list[dict[str, Any]]) -> list[Obj]:
    made = []
    for i in range(count):
        spec = dict(draw.choice(templates))
        one = pod(f"{prefix}{i}", spec.pop("cpu"), **spec)
        if draw.random() < 0.15:
            one["metadata"]["namespace"] = "other"
        made.append(one)
    return made


def _node(draw: Random, name: str, types: list[InstanceType], pools: list[NodePool]) -> StateNode:
    of = draw.choice(types)
    apart = {"affinity": _near(draw, "podAntiAffinity")} if draw.random() < 0.3 else {}
    held = tuple(
        pod(f"{name}p{i}", "1", labels={"app": draw.choice("xy")}, node=name, **apart)
        for i in range(draw.choice((0, 1, 1)))
    )
    return state_node(
        name,
        of,
        held,
        owner=draw.choice(pools).name,
        zone=draw.choice(ZONES),
        capacity_type=draw.choice((ON_DEMAND, SPOT)),
        labels=draw.choice(({}, {"team": "red"}, {"team": "blue"})),
        taints=draw.choice(([], [], [], [_TAINT], [_SOFT])),
        is_initialized=draw.random() < 0.8,
        has_node=draw.random() < 0.9,
        is_marked_for_deletion=draw.random() < 0.15,
        daemon_requests=draw.choice(({}, {"cpu": 100})),
    )


def _world(draw: Random) -> tuple[World, list[Obj], Options]:
    types = _types(draw)
    pools = _pools(draw)
    fleet = Fleet(types)
    nodes = [_node(draw, f"n{i}", types, pools) for i in range(draw.choice((0, 0, 1, 3, 4)))]
    agents = (pod("agent", "250m"), pod("arm-agent", "500m", nodeSelector={ARCH: "arm64"}))
    templates = [_template(draw) for _ in range(draw.randint(2, 4))]
    pods = _pods(draw, "p", draw.randint(4, 10), templates)
    places = [(Requirements([one_of(ZONE, (z,))]),) for z in ZONES]
    places.append((*places[0], *places[1]))
    made = World(
        tuple(pools),
        {p.name: fleet for p in pools},
        Nodes(nodes),
        agents[: draw.choice((0, 0, 1, 2))],
        namespaces={"default": {}, "other": {"env": "test"}},
        volumes={p["metadata"]["uid"]: draw.choice(places) for p in pods if draw.random() < 0.15},
    ).without_going()
    options = Options(
        preference_policy=draw.choice(("Respect", "Respect", "Respect", "Ignore")),
        min_values_policy=draw.choice(("Strict", "Strict", "BestEffort")),
        max_instance_types=draw.choice((600, 600, 2)),
    )
    return made, pods, options


def _told(found: Results) -> Iterator[str]:
    for plan in found.claims:
        amounts = " ".join(f"{k}={v}" for k, v in sorted(format_resources(plan.requests).items()))
        relaxed = ", minValues relaxed" * plan.min_values_relaxed
        asked = Requirements(r for r in plan.requirements if r.key not in _OF_EVERY_CLAIM)
        yield f"claim of {plan.pool.name}: {' '.join(p.name for p in plan.pods)}{relaxed}"
        yield f"  {' '.join(plan.type_names)}; {amounts}; {asked}"
    for node, pods in found.pods_on:
        yield f"on {node.name}: {' '.join(p.name for p in pods)}"
    for why, refused in groupby(found.refused, lambda pair: str(pair[1])):
        yield f"refused {' '.join(facts.key.removeprefix('default/') for facts, _ in refused)}: {why}"
    for name, refusal in found.unusable_pools:
        yield f"unusable {name}: {refusal}"
    if found.is_in_vain:
        yield "in vain"


def _all(count: int, lines: Callable[[int], Iterator[str]]) -> Iterator[str]:
    for seed in range(count):
        yield f"== {seed}"
        yield from lines(seed)


def _packed(seed: int) -> Iterator[str]:
    made, pods, options = _world(Random(seed))
    return _told(solve(made, pods, options))


def test_nothing_else_is_opened_than_was() -> None:
    check_history(_HERE / "packing.txt", _all(200, _packed))


# Nodes that go


def _disruption(draw: Random) -> dict[str, Any]:
    return {
        "budgets": draw.choice(
            (
                [{"nodes": "100%"}],
                [{"nodes": "100%"}],
                [{"nodes": "1"}],
                [{"nodes": "34%", "reasons": ["Underutilized", "Empty"]}],
                [{"nodes": "0", "reasons": ["Empty"]}, {"nodes": "2"}],
            )
        ),
        "consolidationPolicy": draw.choice((WHEN_UNDERUTILIZED, WHEN_UNDERUTILIZED, BALANCED, WHEN_EMPTY)),
        "consolidateAfter": draw.choice(("0s", "0s", "0s", "5m", "Never")),
    }


def _spare_pools(draw: Random, *, is_plain: bool) -> list[NodePool]:
    plain = {"budgets": [{"nodes": "100%"}]}
    return [
        pool(
            name,
            disruption=plain if is_plain else _disruption(draw),
            requirements=draw.choice(
                ([], [], [wants(CAPACITY_TYPE, "In", SPOT)], [wants(FAMILY, "Exists", least=2)])
            ),
            **({} if is_plain else draw.choice(({}, {}, {}, {"replicas": 2}))),
        )
        for name in ("one", "two")[: draw.choice((1, 1, 2))]
    ]


def _spare_types(draw: Random) -> list[InstanceType]:
    sizes = ((2, 100_000), (4, 190_000), (4, 210_000), (8, 400_000), (16, 900_000))
    made = [
        kind(
            f"{'ab'[i % 2]}.{i}",
            cpu,
            price=price,
            spot=draw.choice((None, price // 3, price + 1000)),
            zones=ZONES[: draw.choice((1, 3))],
        )
        for i, (cpu, price) in enumerate(sizes)
    ]
    if draw.random() < 0.3:
        made += [kind(f"m.{i}", 2, price=500_000, spot=20_000 + i) for i in range(draw.choice((14, 18)))]
    return made


def _spare_pod(draw: Random, name: str, node: str) -> Obj:
    extra: dict[str, Any] = {}
    if draw.random() < 0.1:
        extra["annotations"] = {DO_NOT_DISRUPT: draw.choice(("true", "1h", "1s"))}
    if draw.random() < 0.15:
        extra["annotations"] = {DELETION_COST: draw.choice(("-134217728", "200000000", "odd"))}
    if draw.random() < 0.1:
        extra["affinity"] = _near(draw, "podAntiAffinity")
    if draw.random() < 0.1:
        extra["nodeSelector"] = {HOSTNAME: draw.choice((node, "nowhere"))}
    made = pod(name, draw.choice(("500m", "1", "2")), labels={"app": draw.choice("xxyz")}, node=node, **extra)
    if draw.random() < 0.1:
        owner = {"apiVersion": "apps/v1", "kind": draw.choice(("DaemonSet", "StatefulSet")), "name": "o"}
        made["metadata"]["ownerReferences"] = [owner]
    if draw.random() < 0.05:
        made["status"]["phase"] = draw.choice(("Succeeded", "Pending"))
    return made


def _spare_node(
    draw: Random, name: str, types: list[InstanceType], pools: list[NodePool], *, is_plain: bool
) -> StateNode:
    of = draw.choice(types[2:5] if is_plain else types[:5])
    held = tuple(
        _spare_pod(draw, f"{name}p{i}", name)
        for i in range(draw.choice((1, 1, 2) if is_plain else (0, 1, 1, 2)))
    )
    state: dict[str, Any] = {}
    if not is_plain:
        others = ({NODEPOOL: ""}, {NODEPOOL: "gone"}, {INSTANCE_TYPE: "old"})
        state = {
            "labels": draw.choice(({},) * 12 + others),
            "consolidatable": draw.random() < 0.85,
            "drifted_s": draw.choice((None,) * 9 + (60, 90)),
            "annotations": draw.choice(({},) * 15 + ({DO_NOT_DISRUPT: "true"},)),
            "claim_spec": draw.choice(({}, {}, {"terminationGracePeriod": "1h"})),
            "is_initialized": draw.random() < 0.93,
            "has_node": draw.random() < 0.97,
            "is_ready": draw.random() < 0.93,
            "is_marked_for_deletion": draw.random() < 0.07,
            "is_nominated": draw.random() < 0.05,
            "rests_until_us": draw.choice((0, 0, 0, NOW_US, NOW_US + 1)),
        }
    return state_node(
        name,
        of,
        held,
        owner=draw.choice(pools).name,
        zone=draw.choice(sorted({o.zone for o in of.offerings})),
        capacity_type=draw.choice(sorted({o.capacity_type for o in of.offerings})),
        **state,
    )


def _guard(draw: Random, name: str) -> Obj:
    spec = draw.choice(({}, {}, {"maxUnavailable": 0}, {"minAvailable": "100%"}))
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": draw.choice("xyz")}}, **spec},
        "status": {"disruptionsAllowed": 0 if spec else draw.choice((0, 1))},
    }


def _spare_context(draw: Random) -> DisruptionContext:
    is_plain = draw.random() < 0.6
    types, pools = _spare_types(draw), _spare_pools(draw, is_plain=is_plain)
    fleet = Fleet(types)
    count = draw.randint(1, 5)
    nodes = [_spare_node(draw, f"n{i}", types, pools, is_plain=is_plain) for i in range(count)]
    made = World(tuple(pools), {p.name: fleet for p in pools}, Nodes(nodes), now_us=NOW_US)
    return DisruptionContext(
        made,
        NOW_US,
        pending=tuple(pod(f"w{i}", "1", labels={"app": "x"}) for i in range(draw.choice((0, 0, 1)))),
        budgets=tuple(_guard(draw, f"g{i}") for i in range(draw.choice((0, 0, 1, 2)))),
        spot_to_spot=draw.random() < 0.5,
    )


def _said(outcome: Outcome, before: set[Notice]) -> Iterator[str]:
    """What was not said the time before, and how much is said again."""
    for notice in outcome.notices:
        if notice not in before:
            yield f"says of {notice.about} {notice.reason}: {notice.message}"
    again = len([n for n in outcome.notices if n in before])
    if again:
        yield f"says again {again} of {len(before)}"
    before.update(outcome.notices)
    if outcome.in_vain or outcome.skipped:
        yield f"in vain {' '.join(outcome.in_vain)}; skipped {' '.join(outcome.skipped)}"


def _commanded(command: Command) -> Iterator[str]:
    yield f"{command.reason} {command.method} {command.text()}, saves {command.savings}"
    for plan in command.replacements:
        asked = Requirements(r for r in plan.requirements if r.key not in _OF_EVERY_CLAIM)
        yield f"  {' '.join(plan.type_names)}; {' '.join(p.name for p in plan.pods)}; {asked}"


def _again(command: Command, then: DisruptionContext, when: str) -> str:
    found = recheck(command, then)
    if isinstance(found, Abandoned):
        return f"  {when}: {found.kind}, {found.message}"
    return f"  {when}: {found.text()}"


def _decided(seed: int) -> Iterator[str]:
    """Three decisions one after another: what was commanded before is being carried out meanwhile."""
    draw = Random(seed)
    now = _spare_context(draw)
    yield f"eligible: {' '.join(f'{reason} {count}' for reason, count in eligible(now).items())}"
    before: set[Notice] = set()
    for _ in range(3):
        outcome = decide(now)
        yield from _said(outcome, before)
        command = outcome.command
        if command is None:
            now = replace(now, consolidated=frozenset(outcome.in_vain))
            if not outcome.in_vain:
                return
            continue
        yield from _commanded(command)
        yield _again(command, now, "later")
        yield _again(command, replace(now, budgets=(*now.budgets, _guard(draw, "new"))), "guarded")
        extra = _spare_pod(draw, "late", command.names[0])
        fuller = [_with_pod(n, extra) if n.name in command.names[:1] else n for n in now.world.nodes]
        world = World(now.world.pools, now.world.fleets, Nodes(fuller), now_us=NOW_US)
        yield _again(command, replace(now, world=world), "fuller")
        now = replace(now, disrupting=now.disrupting | {*command.names})


def _with_pod(node: StateNode, extra: Obj) -> StateNode:
    left = {name: node.available[name] - amount for name, amount in requests_of(extra["spec"]).items()}
    same = ("name", "labels", "taints", "capacity", "claim_facts", "node_object")
    return StateNode(
        **{name: getattr(node, name) for name in same},
        available={**node.available, **left},
        pods=(*node.pods, extra),
        former=node,
    )


def test_no_other_node_goes_than_did() -> None:
    check_history(_HERE / "disruption.txt", _all(200, _decided))
