"""Under random loads: limits hold, nobody waits whom an offering could host, consolidation never costs more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from karpenterworlds import GPU, ZONES, context, kind, pod, pool, solve, state_node, wants, world

from fairway.kube.objects import Obj
from fairway.provisioning.karpenter.disruption.commands import REPLACE
from fairway.provisioning.karpenter.disruption.methods import decide
from fairway.provisioning.karpenter.fleet import worst_launch_price
from fairway.provisioning.karpenter.instancetypes import InstanceType
from fairway.provisioning.karpenter.labels import ARCH, CAPACITY_TYPE, HOSTNAME, ON_DEMAND, SPOT, ZONE
from fairway.provisioning.karpenter.launching import launch_choices
from fairway.provisioning.karpenter.nodeclaims import node_claim
from fairway.provisioning.karpenter.nodepools import NodePool
from fairway.provisioning.karpenter.packing import Results

TYPES = [
    kind("a.one", 1, 4, price=50_000, spot=20_000),
    kind("b.four", 4, 16, price=190_000, zones=("zone-1", "zone-2")),
    kind("c.eight", 8, 16, price=350_000, spot=400_000, zones=("zone-3",)),
    kind("d.arm", 4, 16, price=150_000, arch="arm64"),
    kind(
        "g.gpu",
        8,
        64,
        gpu=2,
        price=2_000_000,
        spot=900_000,
        sold_out=(("zone-1", SPOT), ("zone-2", ON_DEMAND)),
    ),
]
FLEETS = st.lists(st.sampled_from(TYPES), min_size=1, max_size=5, unique_by=lambda t: t.name)


@st.composite
def pods(draw: st.DrawFn, most: int = 8, constrained: bool = True) -> list[Obj]:
    made = []
    for i in range(draw(st.integers(1, most))):
        spec: dict[str, Any] = {}
        labels = {"app": draw(st.sampled_from("xy"))}
        selector: dict[str, str] = {}
        if draw(st.booleans()):
            selector[ZONE] = draw(st.sampled_from(ZONES))
        if draw(st.integers(0, 4)) == 0:
            selector[ARCH] = draw(st.sampled_from(["amd64", "arm64"]))
        if draw(st.integers(0, 4)) == 0:
            selector[CAPACITY_TYPE] = draw(st.sampled_from([SPOT, ON_DEMAND]))
        if selector:
            spec["nodeSelector"] = selector
        if constrained:
            spec |= draw(st.sampled_from(CONSTRAINTS))
        gpu = draw(st.sampled_from([0, 0, 0, 1, 2, 3]))
        cpu, memory = draw(st.sampled_from("12489")), draw(st.sampled_from(["1Gi", "6Gi", "20Gi"]))
        made.append(pod(f"p{i}", cpu, memory, gpu=gpu, labels=labels, **spec))
    return made


def _term(key: str) -> dict[str, Any]:
    terms = [{"topologyKey": key, "labelSelector": {"matchLabels": {"app": "x"}}}]
    return {"requiredDuringSchedulingIgnoredDuringExecution": terms}


_SPREAD = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "x"}}}
CONSTRAINTS: list[dict[str, Any]] = [
    {},
    {},
    {"topologySpreadConstraints": [{**_SPREAD, "topologyKey": ZONE}]},
    {"topologySpreadConstraints": [{**_SPREAD, "topologyKey": HOSTNAME}]},
    {"affinity": {"podAffinity": _term(ZONE)}},
    {"affinity": {"podAntiAffinity": _term(HOSTNAME)}},
]


def _hosts(of: InstanceType, asked: Obj, limits: dict[str, int]) -> bool:
    """Could some available offering of this type, within the limits, host the pod alone? By brute force."""
    spec = asked["spec"]
    requests = spec["containers"][0]["resources"]["requests"]
    selector = spec.get("nodeSelector", {})
    memory = int(requests["memory"][:-2]) * 2**30
    need = {"cpu": int(requests["cpu"]) * 1000, "memory": memory, GPU: int(requests.get(GPU, "0")), "pods": 1}
    holds = all(of.allocatable.get(n, 0) >= amount for n, amount in need.items())
    within = all(of.capacity.get(n, 0) <= most for n, most in limits.items())
    arch = of.requirements.get(ARCH).has(selector.get(ARCH, next(iter(of.requirements.get(ARCH).values))))
    offered = any(
        o.available
        and selector.get(ZONE, o.zone) == o.zone
        and selector.get(CAPACITY_TYPE, o.capacity_type) == o.capacity_type
        for o in of.offerings
    )
    return holds and within and arch and offered


@settings(max_examples=150, deadline=None)
@given(FLEETS, pods(constrained=False), st.sampled_from([None, 4, 9, 20]))
def test_nobody_waits_whom_an_offering_could_host(
    types: list[InstanceType], asked: list[Obj], cpus: int | None
) -> None:
    of = pool(**({"limits": {"cpu": str(cpus)}} if cpus else {}))
    results = solve(world(types, [of]), asked)
    # A claim counts as its largest type when it is opened; later pods may have ruled that out, limits stay taken.
    largest = max(t.capacity["cpu"] for t in types)
    left = {"cpu": cpus * 1000 - len(results.claims) * largest} if cpus else {}
    refused = {facts.name for facts, _ in results.refused}
    for p in asked:
        hosted = any(_hosts(t, p, left) for t in types)
        assert not (p["metadata"]["name"] in refused and hosted)
        if not cpus:
            assert (p["metadata"]["name"] not in refused) == hosted


@settings(max_examples=150, deadline=None)
@given(FLEETS, pods(), st.integers(1, 40), st.booleans())
def test_every_pod_is_placed_once_within_limits_and_sizes(
    types: list[InstanceType], asked: list[Obj], cpus: int, spot_only: bool
) -> None:
    wish = [wants(CAPACITY_TYPE, "In", SPOT)] if spot_only else []
    of = pool(requirements=wish, limits={"cpu": str(cpus), GPU: "4"})
    results = solve(world(types, [of]), asked)
    everybody = [f.name for c in results.claims for f in c.pods] + [f.name for f, _ in results.refused]
    assert sorted(everybody) == sorted(p["metadata"]["name"] for p in asked)
    most = {"cpu": 0, GPU: 0}
    for claim in results.claims:
        kinds = claim.types()
        assert kinds
        for t in kinds:
            assert all(t.allocatable.get(n, 0) >= amount for n, amount in claim.requests.items())
        for name in most:
            most[name] += max(t.capacity.get(name, 0) for t in kinds)
        assert _total(claim.pods) == claim.requests["cpu"]
    assert most["cpu"] <= cpus * 1000 and most[GPU] <= 4


def _total(facts: Any) -> int:
    return sum(f.shape.requests["cpu"] for f in facts)


@settings(max_examples=100, deadline=None)
@given(FLEETS, pods())
def test_what_is_launched_satisfies_each_of_its_pods(types: list[InstanceType], asked: list[Obj]) -> None:
    results = solve(world(types), asked)
    by_name = {t.name: t for t in types}
    for i, claim in enumerate(results.claims):
        launch = launch_choices(node_claim(claim, f"default-{i}"), by_name)
        assert not launch.is_empty
        prices = [offering.price for _, offering in launch.choices]
        assert prices == sorted(prices)
        for of, offering in launch.choices:
            for facts in claim.pods:
                selector = facts.shape.spec.get("nodeSelector", {})
                assert selector.get(ZONE, offering.zone) == offering.zone
                assert selector.get(CAPACITY_TYPE, offering.capacity_type) == offering.capacity_type
                assert of.requirements.get(ARCH).has(selector.get(ARCH, "amd64")) or ARCH not in selector


@settings(max_examples=60, deadline=None)
@given(FLEETS, pods(constrained=False))
def test_the_order_in_which_pods_are_listed_changes_nothing(
    types: list[InstanceType], asked: list[Obj]
) -> None:
    """Without spreads and affinities: of those that are one the first to be listed decides, upstream too."""

    def read(results: Results) -> list[Any]:
        return [([f.name for f in c.pods], c.type_names, str(c.requirements)) for c in results.claims]

    assert read(solve(world(types), asked)) == read(solve(world(types), asked[::-1]))


PLAIN = [t for t in TYPES if t.requirements.get(ARCH).has("amd64") and not t.capacity.get(GPU)]
ANY_NUMBER: NodePool = pool(disruption={"budgets": [{"nodes": "100%"}]})


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(PLAIN), st.lists(st.sampled_from("12"), max_size=3)), max_size=6),
       st.integers(0, 2))  # fmt: skip
def test_consolidation_never_costs_more_and_keeps_budgets(
    drawn: list[tuple[InstanceType, list[str]]], allowed: int
) -> None:
    nodes = []
    for i, (of, sizes) in enumerate(drawn):
        zone = of.offerings[0].zone
        own = tuple(pod(f"n{i}-{j}", cpu, labels={"app": "x"}, node=f"n{i}") for j, cpu in enumerate(sizes))
        node = state_node(f"n{i}", of, own, zone=zone)
        if all(left >= 0 for left in node.available.values()):
            nodes.append(node)
    budget = {
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "x"}}},
        "status": {"disruptionsAllowed": allowed},
    }
    limited = replace(ANY_NUMBER)
    command = decide(context(world(PLAIN, [limited], tuple(nodes)), budgets=(budget,))).command
    if command is None:
        return
    if allowed == 0:
        assert all(not c.reschedulable for c in command.candidates)
    if command.decision == REPLACE and command.reason == "Underutilized":
        plan = command.replacements[0]
        launchable = plan.offered().types()  # types without spot stay on the list that asks for spot
        assert launchable
        assert all(
            worst_launch_price(t, plan.requirements) < sum(c.price for c in command.candidates)
            for t in launchable
        )
    going = {f"n{i}" for i in range(len(drawn))} & set(command.names)
    moved = [f.name for f in (command.replacements[0].pods if command.replacements else ())]
    moved += [f.name for _, facts in (command.results.pods_on if command.results else ()) for f in facts]
    assert sorted(moved) == sorted(p["metadata"]["name"] for n in nodes if n.name in going for p in n.pods)


@settings(max_examples=40, deadline=None)
@given(pods(constrained=False))
def test_provision_empty_gone(asked: list[Obj]) -> None:
    results = solve(world(TYPES), asked)
    nodes = []
    for i, claim in enumerate(results.claims):
        of, offering = launch_choices(node_claim(claim, f"c{i}"), {t.name: t for t in TYPES}).choices[0]
        nodes.append(state_node(f"n{i}", of, zone=offering.zone, capacity_type=offering.capacity_type))
    while nodes:
        command = decide(context(world(TYPES, None, tuple(nodes)))).command
        assert command is not None and command.reason == "Empty"
        nodes = [n for n in nodes if n.name not in command.names]
