"""Whole twins under random loads: budgets hold, limits hold, nobody waits in vain, moving pods saves money, all goes.

A load is some Deployments, each with or without a PodDisruptionBudget, that come one after the other, one of which may
shrink or go; in the end all go. Both provisioners are tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from test_provisioner_component import GPU, TYPES, pool

from fairway.cluster.changes import Change
from fairway.kube.conditions import is_condition_true
from fairway.kube.objects import Key, Obj, labels_of, meta_of, name_of
from fairway.kube.resources import parse_resources
from fairway.kube.timestamps import MINUTE_US, SECOND_US
from fairway.provisioning.clusterautoscaler.groups import Options
from fairway.provisioning.karpenter.labels import CAPACITY_TYPE, INSTANCE_TYPE, ON_DEMAND
from fairway.provisioning.karpenter.podfacts import requests_of
from fairway.twin.components import Component, Host
from fairway.twin.invariants import check
from fairway.twin.latency import latency_named
from fairway.twin.nodegroups.component import ClusterAutoscaler
from fairway.twin.nodegroups.grouping import GROUP_LABELS, AutoscalerPlan, GroupSpec
from fairway.twin.provisioner.cloud import Cloud
from fairway.twin.provisioner.component import Provisioner
from fairway.twin.standard import standard_components
from fairway.twin.twin import Twin

LIMITS = {"cpu": 48, GPU: 4}
GROUPS = (("small", 3), ("large", 2), ("gpu", 2))
STEP_US = 5 * SECOND_US


@dataclass(frozen=True)
class App:
    """`least`: minAvailable of its budget; None: it has none. `later`: how many replicas it has in the end."""

    name: str
    cpu: int
    gpu: int
    replicas: int
    least: int | None
    later: int


@st.composite
def loads(draw: st.DrawFn) -> list[App]:
    apps = []
    for i in range(draw(st.integers(1, 4))):
        replicas = draw(st.integers(1, 6))
        guarded = draw(st.booleans())
        least = draw(st.integers(0, replicas - 1)) if guarded else None
        # Twenty cores are more than any machine has.
        cpu, gpu = draw(st.sampled_from([1, 1, 2, 3, 5, 20])), draw(st.sampled_from([0, 0, 1, 3]))
        later = draw(st.sampled_from([replicas, min((least or 0) + 1, replicas)]))
        apps.append(App(f"a{i}", cpu, gpu, replicas, least, later))
    return apps


# After it shrinks, one node is emptied of two pods of which one may go at a time.
SHRINKING = [App("a0", 2, 0, 6, 1, 2), App("a1", 3, 0, 6, 2, 3)]


def objects_of(app: App) -> Iterator[Obj]:
    requests = {"cpu": str(app.cpu), "memory": "1Gi", **({GPU: str(app.gpu)} if app.gpu else {})}
    resources = {"requests": requests, **({"limits": {GPU: str(app.gpu)}} if app.gpu else {})}
    labels = {"app": app.name}
    meta = {"name": app.name, "namespace": "default"}
    yield {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": meta,
        "spec": {
            "replicas": app.replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}]},
            },
        },
    }
    if app.least is not None:
        spec = {"selector": {"matchLabels": labels}, "minAvailable": app.least}
        yield {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": meta,
            "spec": spec,
        }


class BudgetWatch:
    """Sees every change of a pod, and how many of each app are ready after it."""

    name = "budget-watch"
    kinds = ("Pod",)

    def __init__(self, apps: dict[str, App]) -> None:
        self.apps = apps
        self.reached: set[str] = set()
        """Apps that had what their budget asks for once."""
        self.evicted = 0

    def attach(self, host: Host) -> None:
        self.host = host

    def start(self) -> None: ...

    def fork(self) -> BudgetWatch:
        return BudgetWatch(self.apps)

    def observe(self, change: Change) -> None:
        if change.old is not None and _is_leaving(change.obj) and not _is_leaving(change.old):
            self.evicted += any(
                c["type"] == "DisruptionTarget" for c in change.obj["status"].get("conditions") or ()
            )
        app = self.apps.get(labels_of(change.obj).get("app") or "")
        if app is None or app.least is None:
            return
        if self.host.store.get(Key("Deployment.apps", "default", app.name)) is None:
            return
        ready = sum(
            _is_ready(p) for p in self.host.store.objects("Pod") if labels_of(p).get("app") == app.name
        )
        if ready >= app.least:
            self.reached.add(app.name)
        assert app.name not in self.reached or ready >= app.least, f"{app.name}'s budget is broken"


def _is_leaving(pod: Obj) -> bool:
    return "deletionTimestamp" in meta_of(pod)


def _is_ready(pod: Obj) -> bool:
    conditions = (pod.get("status") or {}).get("conditions")
    return is_condition_true(conditions, "Ready") and not _is_leaving(pod)


class Watcher:
    """Steps a twin and looks at it after every step."""

    def __init__(self, provisioner: Component, apps: list[App], limits: Callable[[Twin], None]) -> None:
        self.apps = {a.name: a for a in apps}
        components = [*standard_components(), provisioner, BudgetWatch(self.apps)]
        self.twin = Twin(seed=1, latency=latency_named("zero"), components=components)
        self.limits = limits

    def run(self, minutes: int) -> None:
        for _ in range(minutes * MINUTE_US // STEP_US):
            self.twin.run_for(STEP_US)
            check(self.twin.host)
            self.limits(self.twin)

    def scale(self) -> None:
        for app in self.apps.values():
            self.twin.store.patch(
                Key("Deployment.apps", "default", app.name), {"spec": {"replicas": app.later}}
            )
        self.twin.wake()

    def remove_all(self) -> None:
        for app in self.apps.values():
            self.twin.store.delete(Key("Deployment.apps", "default", app.name))
        self.twin.wake()

    def pending(self) -> list[Obj]:
        return [p for p in self.twin.store.objects("Pod") if not p["spec"].get("nodeName")]

    def cost(self) -> int:
        """µ$ an hour of all nodes."""
        prices = {t.name: {o.capacity_type: o.price for o in t.offerings} for t in TYPES}
        nodes = [labels_of(n) for n in self.twin.store.objects("Node")]
        return sum(prices[n[INSTANCE_TYPE]][n.get(CAPACITY_TYPE, ON_DEMAND)] for n in nodes)


def play(watcher: Watcher) -> None:
    """Loads come, settle, shrink, settle; what waits then, and what it costs, is judged by the caller."""
    for app in watcher.apps.values():
        watcher.twin.apply(list(objects_of(app)))
        watcher.run(1)
    watcher.run(8)


def fits(pod: Obj, there: dict[str, int]) -> bool:
    return all(amount <= there.get(name, 0) for name, amount in requests_of(pod["spec"]).items())


# Karpenter


def within_limits(twin: Twin) -> None:
    total: dict[str, int] = {}
    for node in twin.store.objects("Node"):
        # Pods of a node that goes may have new nodes already, as upstream lets them.
        if any(t["key"] == "karpenter.sh/disrupted" for t in node["spec"].get("taints") or ()):
            continue
        for name, amount in parse_resources(node["status"]["capacity"]).items():
            total[name] = total.get(name, 0) + amount
    assert total.get("cpu", 0) <= LIMITS["cpu"] * 1000 and total.get(GPU, 0) <= LIMITS[GPU]


def could_host(watcher: Watcher, pod: Obj) -> bool:
    """Whether a machine that the limits allow would hold the pod."""
    held = [parse_resources(n["status"]["capacity"]) for n in watcher.twin.store.objects("Node")]
    left = {
        "cpu": LIMITS["cpu"] * 1000 - sum(h["cpu"] for h in held),
        GPU: LIMITS[GPU] - sum(h.get(GPU, 0) for h in held),
    }
    return any(
        fits(pod, dict(t.capacity)) and all(t.capacity.get(name, 0) <= left[name] for name in left)
        for t in TYPES
    )


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@example(apps=SHRINKING, policy="WhenEmptyOrUnderutilized")
@given(apps=loads(), policy=st.sampled_from(["WhenEmpty", "WhenEmptyOrUnderutilized"]))
def test_karpenter(apps: list[App], policy: str) -> None:
    watcher = Watcher(Provisioner(Cloud(TYPES)), apps, within_limits)
    limits = {name: str(amount) for name, amount in LIMITS.items()}
    on_demand = [{"key": CAPACITY_TYPE, "operator": "In", "values": [ON_DEMAND]}]
    disruption = {"consolidationPolicy": policy}
    watcher.twin.apply([pool(limits=limits, disruption=disruption, requirements=on_demand)])
    play(watcher)
    assert [name_of(p) for p in watcher.pending() if could_host(watcher, p)] == []
    waiting, before = len(watcher.pending()), watcher.cost()
    # Nothing comes or goes any more: what consolidation does from here on may only save.
    watcher.run(15)
    assert len(watcher.pending()) <= waiting
    assert len(watcher.pending()) < waiting or watcher.cost() <= before
    watcher.scale()
    watcher.run(10)
    assert [name_of(p) for p in watcher.pending() if could_host(watcher, p)] == []
    watcher.remove_all()
    watcher.run(8)
    twin = watcher.twin
    assert (twin.store.objects("Node"), twin.store.objects("NodeClaim.karpenter.sh")) == ([], [])
    assert twin.host.launches.booting == {}


# The Cluster Autoscaler


def groups() -> tuple[GroupSpec, ...]:
    return tuple(
        GroupSpec(name, kind_, "z1", ON_DEMAND, 0, most, 0)
        for kind_ in TYPES
        for name, most in GROUPS
        if name == kind_.name
    )


def sizes(twin: Twin) -> dict[str, int]:
    found: dict[str, int] = {}
    for node in twin.store.objects("Node"):
        name = labels_of(node)[GROUP_LABELS["aws"]]
        found[name] = found.get(name, 0) + 1
    return found


def within_groups(twin: Twin) -> None:
    assert all(sizes(twin).get(name, 0) <= most for name, most in GROUPS)


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@example(apps=SHRINKING)
@given(apps=loads())
def test_cluster_autoscaler(apps: list[App]) -> None:
    autoscaler = ClusterAutoscaler(AutoscalerPlan(groups(), Cloud(TYPES), "aws", Options()))
    watcher = Watcher(autoscaler, apps, within_groups)
    play(watcher)
    there = sizes(watcher.twin)
    open_ = [g for g in groups() if there.get(g.name, 0) < g.most]
    hopeful = [p for p in watcher.pending() if any(fits(p, dict(g.kind.allocatable)) for g in open_)]
    assert [name_of(p) for p in hopeful] == []
    waiting, nodes = len(watcher.pending()), sum(there.values())
    watcher.run(25)
    # Removing nodes leaves nobody behind, and adds none.
    assert len(watcher.pending()) <= waiting and sum(sizes(watcher.twin).values()) <= nodes
    watcher.scale()
    watcher.run(25)
    assert len(watcher.pending()) <= waiting
    watcher.remove_all()
    watcher.run(25)
    assert watcher.twin.store.objects("Node") == []
    assert autoscaler_of(watcher).targets == {name: 0 for name, _ in GROUPS}


def autoscaler_of(watcher: Watcher) -> ClusterAutoscaler:
    found = watcher.twin.component("cluster-autoscaler")
    assert isinstance(found, ClusterAutoscaler)
    return found
