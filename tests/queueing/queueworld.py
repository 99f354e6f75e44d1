"""Queues and workloads in few words: `Case(queues=[queue("a", gpu=8)], waiting=[wl("train", "a", 4)], want=…)`.

One resource, `gpu`, unless said otherwise; flavors are free text. Outcomes read as short sentences:
`admitted a100`, `preempts old:InClusterQueue`, `waits WaitingForQuota`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairway.admission.request import Denied
from fairway.cluster.store import Store
from fairway.kube.timestamps import rfc3339
from fairway.queueing.cycle.admissibility import Namespaces
from fairway.queueing.cycle.cycle import run_cycle
from fairway.queueing.cycle.entries import CycleOutcome, Head, Outcome
from fairway.queueing.cycle.nomination import CycleOptions
from fairway.queueing.facts import objects as facts
from fairway.queueing.facts.gates import gates_from
from fairway.queueing.facts.podsets import new_shape
from fairway.queueing.facts.transformations import Transformations
from fairway.queueing.facts.workloads import Workload, WorkloadReader
from fairway.queueing.preemption.fairsharing import DEFAULT_STRATEGIES
from fairway.queueing.quota.accounts import Accounts
from fairway.queueing.webhooks.door import CREATE, UPDATE, defaulted
from fairway.queueing.webhooks.settings import DEFAULTS, Settings
from fairway.twin.operators import OperatorWebhooks

Obj = dict[str, Any]
NOW_S = 1_800_000_000
NAMESPACES = Namespaces({"default": {}, "research": {"team": "research"}})


def flavor(name: str, **spec: Any) -> Obj:
    return {"metadata": {"name": name}, "spec": spec}


def taint(key: str, value: str = "", effect: str = "NoSchedule") -> Obj:
    return {"key": key, "value": value, "effect": effect}


def quotas(amounts: Mapping[str, Any], resource: str = "gpu") -> list[Obj]:
    """flavor → nominal, or (nominal, borrowing limit, lending limit)."""
    flavors = []
    for name, amount in amounts.items():
        nominal, borrow, lend = (
            (*amount, None, None)[:3] if isinstance(amount, tuple) else (amount, None, None)
        )
        entry: Obj = {"name": resource, "nominalQuota": str(nominal)}
        if borrow is not None:
            entry["borrowingLimit"] = str(borrow)
        if lend is not None:
            entry["lendingLimit"] = str(lend)
        flavors.append({"name": name, "resources": [entry]})
    return [{"coveredResources": [resource], "flavors": flavors}]


def workload_of(**facts: Any) -> Workload:
    """One that asks for nothing and holds nothing but what is said."""
    plain: dict[str, Any] = {
        "key": "ns/w",
        "uid": "w",
        "obj": {},
        "shape": new_shape((), Transformations()),
        "queue": "ns/q",
        "priority": 0,
        "base_priority": facts.get("priority", 0),
        "order_us": 0,
        "totals": (),
        "alike": (),
        "cluster_queue": "",
        "has_quota": False,
        "is_admitted": False,
        "is_evicted": False,
        "reserved_us": -1,
        "usage": (),
        "topology_usage": (),
    }
    return Workload(**(plain | facts))


def queue(name: str, gpu: Any = 0, **more: Any) -> Obj:
    """`gpu`: nominal quota of flavor `default`, or a map of flavors. `within`, `reclaim`: preemption policies."""
    amounts = gpu if isinstance(gpu, Mapping) else {"default": gpu}
    spec: Obj = {"namespaceSelector": {}, "resourceGroups": quotas(amounts)}
    if more.get("cohort"):
        spec["cohortName"] = more["cohort"]
    preemption = {
        "withinClusterQueue": more.get("within", "Never"),
        "reclaimWithinCohort": more.get("reclaim", "Never"),
    }
    if "borrow_within" in more:
        preemption["borrowWithinCohort"] = more["borrow_within"]
    spec["preemption"] = preemption
    if "weight" in more:
        spec["fairSharing"] = {"weight": str(more["weight"])}
    if "fungibility" in more:
        spec["flavorFungibility"] = more["fungibility"]
    spec |= more.get("spec", {})
    return {"metadata": {"name": name}, "spec": spec}


def cohort(name: str, parent: str = "", gpu: Any = None, weight: Any = None) -> Obj:
    spec: Obj = {}
    if parent:
        spec["parentName"] = parent
    if gpu is not None:
        spec["resourceGroups"] = quotas(gpu if isinstance(gpu, Mapping) else {"default": gpu})
    if weight is not None:
        spec["fairSharing"] = {"weight": str(weight)}
    return {"metadata": {"name": name}, "spec": spec}


def pod_set(
    name: str = "main", count: int = 1, requests: Mapping[str, Any] | None = None, **more: Any
) -> Obj:
    """`more`: fields of the pod spec, except `min_count` and `topology`."""
    min_count, topology = more.pop("min_count", None), more.pop("topology", None)
    container: Obj = {"name": "c"}
    if requests:
        container["resources"] = {"requests": {k: str(v) for k, v in requests.items()}}
    out: Obj = {"name": name, "count": count, "template": {"spec": {"containers": [container], **more}}}
    if min_count is not None:
        out["minCount"] = min_count
    if topology is not None:
        out["topologyRequest"] = topology
    return out


def wl(name: str, at: str, gpu: int = 1, *, priority: int = 0, age_s: int = 60, **more: Any) -> Obj:
    """A Workload for queue `at`; `pod_sets` instead of `gpu` for more than one pod."""
    meta: Obj = {
        "name": name,
        "namespace": more.get("namespace", "default"),
        "uid": f"uid-{name}",
        "creationTimestamp": rfc3339((NOW_S - age_s) * 1_000_000),
    }
    if "annotations" in more:
        meta["annotations"] = more["annotations"]
    spec: Obj = {"queueName": at, "priority": priority}
    spec["podSets"] = more.get("pod_sets") or [pod_set(requests={"gpu": gpu})]
    out: Obj = {"metadata": meta, "spec": spec}
    if "status" in more:
        out["status"] = more["status"]
    return out


def running(
    name: str, at: str, gpu: int = 1, *, flavor: str = "default", since_s: int = 30, **more: Any
) -> Obj:
    """A Workload that holds quota in ClusterQueue `at` since so many seconds."""
    obj = wl(name, at, gpu, **more)
    assignments = [
        {
            "name": ps["name"],
            "count": ps["count"],
            "flavors": {"gpu": flavor},
            "resourceUsage": {"gpu": str(gpu)},
            **more.get("assigned", {}),
        }
        for ps in obj["spec"]["podSets"]
    ]
    since = rfc3339((NOW_S - since_s) * 1_000_000)
    conditions = [
        {"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": since}
        for kind in ("QuotaReserved", "Admitted", *more.get("conditions", ()))
    ]
    obj["status"] = {
        "admission": {"clusterQueue": at, "podSetAssignments": assignments},
        "conditions": conditions,
    }
    return obj


@dataclass
class Case:
    """`want`: workload → outcome sentence, of those that waited. `message`: workload → part of its message."""

    queues: Sequence[Obj]
    waiting: Sequence[Obj]
    want: Mapping[str, str]
    cohorts: Sequence[Obj] = ()
    holding: Sequence[Obj] = ()
    flavors: Sequence[Obj] = (flavor("default"),)
    message: Mapping[str, str] = field(default_factory=dict)
    fair: bool = False
    strategies: tuple[str, ...] = DEFAULT_STRATEGIES
    gates: Mapping[str, bool] = field(default_factory=dict)
    nodes: Sequence[Obj] = ()
    topologies: Sequence[Obj] = ()
    checks: Sequence[Obj] = ()


class World:
    """A case set up: accounts, and heads in the order given."""

    def __init__(self, case: Case) -> None:
        gates, unknown = gates_from(case.gates)
        assert not unknown
        self.case = case
        self.accounts = Accounts(gates)
        self.reader = WorkloadReader(gates)
        for obj in case.flavors:
            self.accounts.set_flavor(facts.resource_flavor(obj))
        for obj in case.topologies:
            self.accounts.set_topology(facts.topology(obj))
        for obj in case.checks:
            self.accounts.set_check(facts.admission_check(obj))
        for obj in case.cohorts:
            self.accounts.set_cohort(facts.cohort(obj))
        for obj in case.queues:
            self.accounts.set_cluster_queue(facts.cluster_queue(obj))
        for obj in case.nodes:
            self.accounts.set_node(facts.topology_node(obj))
        for obj in case.holding:
            self.accounts.hold(self.reader.read(obj))
        self.accounts.settle()

    def heads(self) -> list[Head]:
        return [Head(w, w.queue.partition("/")[2]) for w in map(self.reader.read, self.case.waiting)]

    def cycle(self, number: int = 1, heads: Sequence[Head] | None = None) -> CycleOutcome:
        options = CycleOptions(
            number=number,
            now_us=NOW_S * 1_000_000,
            uses_fair_sharing=self.case.fair,
            strategies=self.case.strategies,
        )
        return run_cycle(self.accounts, self.heads() if heads is None else heads, NAMESPACES, options)


def sentence(outcome: Outcome) -> str:
    """What became of a head, in a few words."""
    if outcome.is_admitted:
        assert outcome.assignment is not None and outcome.admission is not None
        flavors: dict[str, None] = {}
        for ps in outcome.assignment.pod_sets:
            flavors |= {choice.flavor: None for choice in ps.flavors.values()}
        asked = sum(ps.count for ps in outcome.head.workload.shape.pod_sets)
        counts = sum(ps.count for ps in outcome.assignment.pod_sets)
        return f"admitted {'+'.join(flavors) or 'nothing'}" + (
            f" with {counts} pods" if counts != asked else ""
        )
    if outcome.evictions:
        victims = sorted(f"{_name(e.workload)}:{e.reason}" for e in outcome.evictions)
        return f"preempts {' '.join(victims)}"
    return f"waits {outcome.reason}"


def _name(workload: Workload) -> str:
    return workload.key.partition("/")[2]


def play(case: Case) -> tuple[dict[str, str], dict[str, str]]:
    """Outcome sentences and messages by workload; asserts that the what-ifs left nothing behind."""
    world = World(case)
    before = usage_of(world.accounts)
    outcome = world.cycle()
    assert usage_of(world.accounts) == before
    said = {_name(o.head.workload): sentence(o) for o in outcome.entries}
    messages = {_name(o.head.workload): o.message for o in outcome.entries}
    return said, messages


def usage_of(accounts: Accounts) -> dict[str, Any]:
    """Everything a what-if could change."""
    nodes = (*accounts.cohorts.values(), *accounts.queues.values())
    quota = {n.path(): {fr: v for fr, v in sorted(n.usage.items()) if v} for n in nodes}
    pods = {
        name: {leaf.id: {r: v for r, v in sorted(leaf.used.items()) if v} for leaf in t.leaves.values()}
        for name, t in accounts.topologies.items()
    }
    held = {name: sorted(q.workloads) for name, q in accounts.queues.items()}
    return {"quota": quota, "pods": pods, "held": held}


def said(
    obj: dict[str, Any],
    old: dict[str, Any] | None = None,
    settings: Settings | None = DEFAULTS,
    *,
    strict: bool = False,
) -> list[str]:
    """What the API of a cluster with Kueue has against an object: the message of its refusal, if there is one.

    `old` is stored first, with its defaults.
    """
    store = Store()
    stored = None if old is None else defaulted(CREATE, old, store, settings)
    operation = CREATE if old is None else UPDATE
    answer = OperatorWebhooks(store, lambda: settings).changed(operation, obj, stored, strict=strict)
    return [answer.message] if isinstance(answer, Denied) else []
