"""What might let it pass its queue? Another queue, a higher class, more quota, others' work gone, a queue set going."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from typing import Any

from fairway.answers.admissionlinks import NOT_LOOKED_AFTER, SUSPENDED, suspended_at
from fairway.answers.explanation import Link
from fairway.answers.naming import WORKLOAD, named, pods_of, workload_of
from fairway.answers.proposal import Proposal, gone
from fairway.answers.queuelinks import Shortage, mismatches_of, shortages, uncovered_by
from fairway.answers.steps import Apply, Patch
from fairway.answers.templatepaths import at_path, escaped, templates_of
from fairway.cluster.store import Store
from fairway.ground import Moment
from fairway.kube.labels import label_selector
from fairway.kube.objects import Key, Obj, key_of, labels_of, meta_of, name_of, namespace_of, spec_of
from fairway.kube.resources import format_amount, parse_resources
from fairway.queueing.facts.objects import BEST_EFFORT_FIFO
from fairway.queueing.preemption.targets import uses_any_of
from fairway.queueing.quota.accounts import QueueAccount
from fairway.results.queuestate import QueueState, state_of
from fairway.traces.arrival import QUEUE_LABEL

_QUEUE = "ClusterQueue.kueue.x-k8s.io"
_LOCAL = "LocalQueue.kueue.x-k8s.io"
_PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"
_WORKLOAD_CLASS = "WorkloadPriorityClass.kueue.x-k8s.io"
_FLAVOR, _TOPOLOGY = "ResourceFlavor.kueue.x-k8s.io", "Topology.kueue.x-k8s.io"
_VALUES, _QUEUES = 3, 4
TOPOLOGY_WISHES = (
    "kueue.x-k8s.io/podset-required-topology",
    "kueue.x-k8s.io/podset-preferred-topology",
    "kueue.x-k8s.io/podset-unconstrained-topology",
)


def other_queues(store: Store, job: Obj) -> Iterator[Proposal]:
    mine = labels_of(job).get(QUEUE_LABEL)
    names = [name_of(q) for q in store.objects(_LOCAL, namespace_of(job))]
    for name in [n for n in names if n != mine][:_QUEUES] if mine else ():
        path = f"/metadata/labels/{escaped(QUEUE_LABEL)}"
        patch = Patch(key_of(job), ({"op": "replace", "path": path, "value": name},))
        yield Proposal(f"LocalQueue {name} instead of {mine}", (patch,), "queue")


def priorities(store: Store, job: Obj) -> Iterator[Proposal]:
    """The classes above its own, the lowest first."""
    mine = labels_of(job).get(_PRIORITY_LABEL)
    classes = sorted((int(c.get("value") or 0), name_of(c)) for c in store.objects(_WORKLOAD_CLASS))
    now = next((value for value, name in classes if name == mine), 0)
    for value, name in [c for c in classes if c[0] > now and c[1] != mine][:_VALUES]:
        labels = "labels" in meta_of(job)
        operations: list[dict[str, Any]] = (
            [] if labels else [{"op": "add", "path": "/metadata/labels", "value": {}}]
        )
        operations.append(
            {"op": "add", "path": f"/metadata/labels/{escaped(_PRIORITY_LABEL)}", "value": name}
        )
        yield Proposal(f"priority {name} ({value})", (Patch(key_of(job), tuple(operations)),), "priority")


def more_quota(moment: Moment, key: Key) -> Iterator[Proposal]:
    """As much as is short and as no flavor covers, in the flavors that are least short, one of each group."""
    state, workload = queued(moment, key)
    name = "" if workload is None else state.backlog.cluster_queue_of(workload.queue) or ""
    account = state.backlog.accounts.queues.get(name)
    queue = moment.store.get(Key(_QUEUE, "", name))
    if workload is None or account is None or queue is None:
        return
    ahead = _asked_ahead(state, name, workload.key)
    uncovered = uncovered_by(account, workload)
    mismatches = mismatches_of(state, account, workload)
    every = shortages(account, workload)
    found = [s for s in every if s.at.flavor not in mismatches] or every
    ways = _ways(account, found)
    for way in ways:
        short = [s for s in found if s.at.flavor in way and s.short]
        for more in ({}, ahead) if ahead else ({},):
            new = {r: v + more.get(r, 0) for r, v in uncovered.items()}
            operations = [*_raised(queue, short, more), *_covered(moment.store, queue, new)]
            said = [f"{_amount(s, more)} more {s.at.resource} in flavor {s.at.flavor}" for s in short]
            said += [f"{format_amount(r, v)} {r}, which it does not cover" for r, v in new.items()]
            whose = ", for all ahead of it too" if more else ""
            if operations:
                what = f"quota of ClusterQueue {name}: {', '.join(said)}{whose}"
                yield Proposal(what, (Patch(key_of(queue), tuple(operations)),), f"quota/{','.join(way)}")
        yield from _lifted_limit(queue, name, short)


def _ways(account: QueueAccount, found: list[Shortage]) -> list[tuple[str, ...]]:
    """One flavor of each resource group: the least short of all, then the next ones."""
    by_group: dict[int, dict[str, int]] = {}
    for s in found:
        group = account.spec.group_of(s.at.resource)
        if group is not None:
            flavors = by_group.setdefault(group.at, {})
            flavors[s.at.flavor] = flavors.get(s.at.flavor, 0) + s.short
    ranked = [sorted(flavors, key=lambda f: flavors[f]) for flavors in by_group.values()]
    count = max((len(flavors) for flavors in ranked), default=0)
    return [tuple(flavors[min(i, len(flavors) - 1)] for flavors in ranked) for i in range(count)][
        :_VALUES
    ] or [()]


def _amount(shortage: Shortage, more: dict[str, int]) -> str:
    resource = shortage.at.resource
    return format_amount(resource, shortage.short + more.get(resource, 0))


def _raised(queue: Obj, short: list[Shortage], more: dict[str, int]) -> list[dict[str, Any]]:
    """Operations that give each flavor what it is short of, and what `more` says."""
    operations = []
    for s in short:
        place = _quota_place(queue, s.at.flavor, s.at.resource)
        if place is not None:
            resource = s.at.resource
            nominal = parse_resources({resource: place[1].get("nominalQuota")})[resource]
            raised = format_amount(resource, nominal + s.short + more.get(resource, 0))
            operations.append({"op": "replace", "path": f"{place[0]}/nominalQuota", "value": raised})
    return operations


def _covered(store: Store, queue: Obj, new: dict[str, int]) -> list[dict[str, Any]]:
    """Operations that let its first group cover more resources, so much of each in every flavor."""
    if not new:
        return []
    entries = [{"name": r, "nominalQuota": format_amount(r, v)} for r, v in sorted(new.items())]
    groups = spec_of(queue).get("resourceGroups") or []
    if not groups:
        flavors = sorted(name_of(f) for f in store.objects(_FLAVOR))[:1]
        made = [
            {"coveredResources": sorted(new), "flavors": [{"name": f, "resources": entries}]} for f in flavors
        ]
        return [{"op": "add", "path": "/spec/resourceGroups", "value": made}] if made else []
    at = "/spec/resourceGroups/0"
    operations: list[dict[str, Any]] = [
        {"op": "add", "path": f"{at}/coveredResources/-", "value": r} for r in sorted(new)
    ]
    for i in range(len(groups[0].get("flavors") or ())):
        operations += [{"op": "add", "path": f"{at}/flavors/{i}/resources/-", "value": e} for e in entries]
    return operations


def _asked_ahead(state: QueueState, queue: str, key: str) -> dict[str, int]:
    """What is asked by those that stand before it."""
    pending = state.backlog.pending.queues.get(queue)
    asked: dict[str, int] = {}
    for workload in () if pending is None else pending.in_order(state.usage if pending.by_usage else None):
        if workload.key == key:
            break
        for total in workload.totals:
            for resource, value in total.requests.items():
                asked[resource] = asked.get(resource, 0) + value
    return asked


def _lifted_limit(queue: Obj, name: str, short: list[Shortage]) -> Iterator[Proposal]:
    places = {s.at.flavor: _quota_place(queue, s.at.flavor, s.at.resource) for s in short}
    limited = {f: p for f, p in places.items() if p is not None and "borrowingLimit" in p[1]}
    if limited:
        operations = tuple({"op": "remove", "path": f"{p[0]}/borrowingLimit"} for p in limited.values())
        what = f"no borrowingLimit of ClusterQueue {name} in flavor {', '.join(limited)}"
        yield Proposal(what, (Patch(key_of(queue), operations),), "borrowing")


def _quota_place(queue: Obj, flavor: str, resource: str) -> tuple[str, Obj] | None:
    for g, group in enumerate(spec_of(queue).get("resourceGroups") or ()):
        for f, one in enumerate(group.get("flavors") or ()):
            for r, entry in enumerate(one.get("resources") or ()):
                if one.get("name") == flavor and entry.get("name") == resource:
                    return f"/spec/resourceGroups/{g}/flavors/{f}/resources/{r}", entry
    return None


def finished_holders(moment: Moment, key: Key) -> Iterator[Proposal]:
    """Work that holds what is short, the least important and newest first; alone, then a few together."""
    state, workload = queued(moment, key)
    name = "" if workload is None else state.backlog.cluster_queue_of(workload.queue) or ""
    account = state.backlog.accounts.queues.get(name)
    if workload is None or account is None:
        return
    every = shortages(account, workload)
    # Where none is short, they may be in the way in a topology.
    frs = tuple(s.at for s in every if s.short) or tuple(
        s.at for s in every if s.at.flavor in account.topologies
    )
    queues = list(account.root().subtree_queues()) if account.parent is not None else [account]
    holders = [w for q in queues for w in q.workloads.values() if frs and uses_any_of(w, frs)]  # type: ignore[attr-defined]
    holders.sort(key=lambda w: (w.priority, -w.reserved_us, w.key))
    yield from gone(moment.store, [Key(WORKLOAD, *w.key.split("/", 1)) for w in holders])


def queued(moment: Moment, key: Key) -> tuple[QueueState, Any]:
    """Kueue's books, and its Workload in them; of what Kueue gates pod by pod, that of one that is gated."""
    state = state_of(moment.twin)
    name = workload_of(moment.store, key)
    if name is None:
        gated = [p for p in pods_of(moment.store, key) if spec_of(p).get("schedulingGates")]
        name = next((w for p in gated if (w := workload_of(moment.store, key_of(p))) is not None), None)
    obj = None if name is None else moment.store.get(name)
    return state, None if obj is None else state.backlog.read(obj)


def opened_queue(moment: Moment, key: Key, job: Obj, blocker: Link) -> Iterator[Proposal]:
    """What stands still is set going: the job, its Workload, its queues; or the queue is made, or who heads it goes."""
    store = moment.store
    queue = labels_of(job).get(QUEUE_LABEL)
    yield from _unsuspended(moment, job, blocker)
    name = workload_of(store, key)
    workload = None if name is None else store.get(name)
    if workload is not None and spec_of(workload).get("active") is False:
        patch = Patch(key_of(workload), ({"op": "replace", "path": "/spec/active", "value": True},))
        yield Proposal(f"{named(workload)} activated", (patch,), "active")
    if "behind" in blocker.numbers:
        yield from _let_past(moment, key)
    local = store.get(Key(_LOCAL, namespace_of(job), queue or ""))
    if queue and local is None:
        for cluster_queue in store.objects(_QUEUE)[:_QUEUES]:
            made = _object("LocalQueue", queue) | {"spec": {"clusterQueue": name_of(cluster_queue)}}
            made["metadata"]["namespace"] = namespace_of(job)
            what = f"a LocalQueue {queue} in namespace {namespace_of(job)} for ClusterQueue {name_of(cluster_queue)}"
            yield Proposal(what, (Apply(made),), "local queue")
    yield from _active(moment, local, job)


def _let_past(moment: Moment, key: Key) -> Iterator[Proposal]:
    """Of one that would fit: its queue lets it pass those in front, or they go."""
    state, workload = queued(moment, key)
    name = "" if workload is None else state.backlog.cluster_queue_of(workload.queue) or ""
    pending = state.backlog.pending.queues.get(name)
    if workload is None or pending is None:
        return
    operation = {"op": "replace", "path": "/spec/queueingStrategy", "value": BEST_EFFORT_FIFO}
    patch = Patch(Key(_QUEUE, "", name), (operation,))
    yield Proposal(f"ClusterQueue {name} with queueingStrategy {BEST_EFFORT_FIFO}", (patch,), "strategy")
    order = pending.in_order(state.usage if pending.by_usage else None)
    ahead = list(takewhile(lambda w: w.key != workload.key, order))
    yield from gone(moment.store, [Key(WORKLOAD, *w.key.split("/", 1)) for w in ahead])


def _unsuspended(moment: Moment, job: Obj, blocker: Link) -> Iterator[Proposal]:
    """A job that nobody but its owner would set going."""
    if blocker.reason not in (SUSPENDED, NOT_LOOKED_AFTER):
        return
    path = suspended_at(job)
    if path:
        patch = Patch(key_of(job), ({"op": "replace", "path": path, "value": False},))
        yield Proposal(f"{named(job)} no longer suspended", (patch,), "suspend")


def _active(moment: Moment, local: Obj | None, job: Obj) -> Iterator[Proposal]:
    """Its queues let in again: not stopped, with the flavors and topologies they name, without checks that nobody
    answers, open to its namespace. One by one, and all of it together."""
    cluster = moment.store.get(Key(_QUEUE, "", str(spec_of(local or {}).get("clusterQueue") or "")))
    stopped = [
        q for q in (local, cluster) if q is not None and spec_of(q).get("stopPolicy") not in (None, "None")
    ]
    found: list[Proposal] = []
    if stopped:
        resumed = [
            Patch(key_of(q), ({"op": "replace", "path": "/spec/stopPolicy", "value": "None"},))
            for q in stopped
        ]
        found.append(
            Proposal(f"{' and '.join(map(named, stopped))} no longer stopped", tuple(resumed), "stop")
        )
    if cluster is not None:
        found += [
            p for p in (_unchecked(cluster), _opened(moment, cluster, job), *_made(moment, cluster, job)) if p
        ]
    yield from found
    if len(found) > 1:
        steps = tuple(step for p in found for step in p.steps)
        yield Proposal(" and ".join(p.what for p in found), steps, "active")


def _unchecked(cluster: Obj) -> Proposal | None:
    if not spec_of(cluster).get("admissionChecksStrategy"):
        return None
    patch = Patch(key_of(cluster), ({"op": "remove", "path": "/spec/admissionChecksStrategy"},))
    return Proposal(f"no admission checks on {named(cluster)}", (patch,), "checks")


def _opened(moment: Moment, cluster: Obj, job: Obj) -> Proposal | None:
    """To its namespace, which the queue's selector leaves out."""
    space = moment.store.get(Key("Namespace", "", namespace_of(job)))
    selector = spec_of(cluster).get("namespaceSelector")
    if space is None or (selector is not None and label_selector(selector).matches(labels_of(space))):
        return None
    patch = Patch(key_of(cluster), ({"op": "add", "path": "/spec/namespaceSelector", "value": {}},))
    return Proposal(f"{named(cluster)} open to every namespace", (patch,), "namespaces")


def _made(moment: Moment, cluster: Obj, job: Obj) -> Iterator[Proposal]:
    """Flavors and topologies that it names and that are not there."""
    store = moment.store
    named_flavors = [
        f["name"] for g in spec_of(cluster).get("resourceGroups") or () for f in g.get("flavors") or ()
    ]
    flavors = {name: store.get(Key(_FLAVOR, "", name)) for name in named_flavors}
    absent = [name for name, flavor in flavors.items() if flavor is None]
    if absent:
        made = [_object("ResourceFlavor", name) for name in absent]
        yield Proposal(f"ResourceFlavor {', '.join(absent)} created", tuple(map(Apply, made)), "flavor")
    topologies = [str(spec_of(f).get("topologyName") or "") for f in flavors.values() if f is not None]
    gone_ones = [t for t in dict.fromkeys(topologies) if t and store.get(Key(_TOPOLOGY, "", t)) is None]
    if gone_ones:
        labels = [*_levels_asked(job), "kubernetes.io/hostname"]
        levels = [{"nodeLabel": label} for label in dict.fromkeys(labels)]
        made = [{**_object("Topology", name), "spec": {"levels": levels}} for name in gone_ones]
        yield Proposal(f"Topology {', '.join(gone_ones)} created", tuple(map(Apply, made)), "topology made")


def _levels_asked(job: Obj) -> list[str]:
    metas = [meta_of(at_path(job, path)).get("annotations") or {} for path in templates_of(job)]
    return [
        str(value)
        for notes in metas
        for name, value in notes.items()
        if name in TOPOLOGY_WISHES and "/" in value
    ]


def _object(kind: str, name: str) -> Obj:
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}}


# Flavors


def flavors_of(moment: Moment, key: Key) -> list[Obj]:
    """The ResourceFlavors of its ClusterQueue, in the queue's order."""
    state, workload = queued(moment, key)
    name = "" if workload is None else state.backlog.cluster_queue_of(workload.queue) or ""
    account = state.backlog.accounts.queues.get(name)
    names = [] if account is None else [f for g in account.spec.groups for f in g.flavors]
    found = (moment.store.get(Key(_FLAVOR, "", n)) for n in dict.fromkeys(names))
    return [f for f in found if f is not None]


def topology_levels(moment: Moment, flavor: Obj) -> list[str]:
    """The node labels of its Topology's levels, but for the node's own name; empty for a flavor without one."""
    topology = moment.store.get(Key(_TOPOLOGY, "", str(spec_of(flavor).get("topologyName") or "")))
    levels = [] if topology is None else spec_of(topology).get("levels") or []
    names = [str(level.get("nodeLabel")) for level in levels]
    return [name for name in names if name != "kubernetes.io/hostname"]
