"""What might start it? Single relaxations that fit the layer that says no: each is a guess, which a copy then tries.

In the order of who would have to agree: the owner of the work (less of it, another queue, a toleration), an
administrator (quota, a policy, a node back in service), others (their work goes), money (another node).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fairway.admission.defaultclasses import DEFAULT_STORAGE, STORAGE_CLASS
from fairway.answers.explanation import (
    ADMISSION,
    GANG,
    KUBELET,
    PREEMPTION,
    PROVISIONING,
    QUEUE,
    QUOTA,
    SCHEDULER,
    VOLUMES,
    Link,
)
from fairway.answers.naming import WORKLOAD, job_of, named, pods_of, workload_of
from fairway.answers.queuelinks import shortages
from fairway.answers.steps import Apply, Delete, Open, Patch, Step, another_node, escaped
from fairway.cluster.store import Store
from fairway.ground import Moment
from fairway.kube.objects import (
    Key,
    Obj,
    annotations_of,
    key_of,
    labels_of,
    meta_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
)
from fairway.kube.resources import format_amount, parse_resources
from fairway.kube.taints import is_tolerated, parse_taints, parse_tolerations
from fairway.queueing.preemption.targets import uses_any_of
from fairway.results.queuestate import QueueState, state_of
from fairway.scenario.profiles import template_path
from fairway.traces.arrival import QUEUE_LABEL

_QUEUE = "ClusterQueue.kueue.x-k8s.io"
_LOCAL = "LocalQueue.kueue.x-k8s.io"
_PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"
_WORKLOAD_CLASS = "WorkloadPriorityClass.kueue.x-k8s.io"
_CLASS = "PriorityClass.scheduling.k8s.io"
_HOLDERS, _VALUES, _TYPES, _QUEUES = 4, 3, 3, 4
_CLAIM, _SIZE = "PersistentVolumeClaim", "10Gi"
"""How large the work wants it is nowhere said."""
_GPU = "gpu"
_MOST_NODES = 8


@dataclass(frozen=True)
class Proposal:
    """Steps, and what they are called. `family`: proposals of one are alternatives; `evicts`: whose work goes;
    `loses`: the work becomes less."""

    what: str
    steps: tuple[Step, ...]
    family: str
    evicts: tuple[str, ...] = ()
    loses: bool = False


def proposals(moment: Moment, key: Key, blocker: Link) -> list[Proposal]:
    """Guesses in the order above. O(nodes + holders); none is tried here."""
    found = [*_of_layer(moment, key, blocker)]
    seen: dict[str, Proposal] = {}
    for proposal in found:
        seen.setdefault(proposal.what, proposal)
    return list(seen.values())


def _of_layer(moment: Moment, key: Key, blocker: Link) -> Iterator[Proposal]:
    store = moment.store
    job = store.get(job_of(store, key))
    if job is None:
        return
    if blocker.layer == ADMISSION:
        yield from _roomier_quotas(store, job, blocker)
        yield from smaller(job, blocker)
    if blocker.layer == QUEUE:
        yield from _opened_queue(moment, key, job)
    if blocker.layer in (QUEUE, QUOTA, PREEMPTION):
        yield from smaller(job, blocker)
        yield from _other_queues(store, job)
        yield from _priorities(store, job)
        yield from _more_quota(moment, key)
        yield from _finished_holders(moment, key)
    if blocker.layer in (SCHEDULER, VOLUMES, PROVISIONING, PREEMPTION, GANG):
        yield from _of_placement(moment, key, job, blocker)
    if blocker.layer == KUBELET:
        yield from _missing_objects(job, blocker, namespace_of(job))


# Less of it


def smaller(job: Obj, blocker: Link) -> Iterator[Proposal]:
    """Fewer of the scarcest device per pod (as many as the nearest node has, first), then fewer workers."""
    short = (blocker.numbers.get("nearest") or {}).get("short") or {}
    free = {name: int(one["free"]) for name, one in short.items()}
    for path in template_path(job) if job.get("kind") != "Pod" else ((),):
        template = _at(job, path)
        for i, container in enumerate(spec_of(template).get("containers") or ()):
            yield from _fewer_devices(job, path, i, container, free)
    for place, count in _workers(job):
        for less in _steps_down(count):
            at = "/" + "/".join(place)
            operations = [{"op": "replace", "path": at, "value": less}]
            if place[-1] == "parallelism" and spec_of(job).get("completionMode") == "Indexed":
                operations.append({"op": "replace", "path": "/spec/completions", "value": less})
            yield Proposal(
                f"{less} instead of {count} workers",
                (Patch(key_of(job), tuple(operations)),),
                "workers",
                loses=True,
            )


def _fewer_devices(
    job: Obj, path: tuple[Any, ...], i: int, container: Obj, free: dict[str, int]
) -> Iterator[Proposal]:
    resources = container.get("resources") or {}
    asked = parse_resources({**(resources.get("limits") or {}), **(resources.get("requests") or {})})
    for name, count in asked.items():
        if _GPU not in name:
            continue
        for less in _steps_down(count, free.get(name, 0)):
            base = _pointer((*path, "spec", "containers", i, "resources"))
            operations = tuple(
                {"op": "replace", "path": f"{base}/{part}/{escaped(name)}", "value": str(less)}
                for part in ("limits", "requests")
                if name in (resources.get(part) or {})
            )
            what = f"{less} instead of {count} {name} in container {container.get('name')}"
            yield Proposal(what, (Patch(key_of(job), operations),), f"devices/{name}", loses=True)


def _steps_down(count: int, known: int = 0) -> list[int]:
    """What is known to be free, then from just below down to 1, by halves."""
    found = [known] if 0 < known < count else []
    left = count // 2 if count > 3 else count - 1
    while left >= 1:
        found.append(left)
        left //= 2
    return found


def _workers(job: Obj) -> list[tuple[tuple[str, ...], int]]:
    """Where a kind says how many workers it has."""
    spec = spec_of(job)
    places: list[tuple[str, ...]] = [("spec", "parallelism"), ("spec", "replicas")]
    places += [
        ("spec", name, role, "replicas")
        for name, roles in spec.items()
        if name.endswith("ReplicaSpecs") and isinstance(roles, dict)
        for role in roles
        if role == "Worker"
    ]
    found = [(place, _at(job, place)) for place in places]
    listed = spec.get("replicatedJobs")
    for i, one in enumerate(listed if isinstance(listed, list) else ()):
        found.append((("spec", "replicatedJobs", str(i), "replicas"), one.get("replicas") or 1))
    return [(place, count) for place, count in found if isinstance(count, int) and count > 1]


# Queues


def _other_queues(store: Store, job: Obj) -> Iterator[Proposal]:
    mine = labels_of(job).get(QUEUE_LABEL)
    names = [name_of(q) for q in store.objects(_LOCAL, namespace_of(job))]
    for name in [n for n in names if n != mine][:_QUEUES] if mine else ():
        path = f"/metadata/labels/{escaped(QUEUE_LABEL)}"
        patch = Patch(key_of(job), ({"op": "replace", "path": path, "value": name},))
        yield Proposal(f"LocalQueue {name} instead of {mine}", (patch,), "queue")


def _priorities(store: Store, job: Obj) -> Iterator[Proposal]:
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


def _more_quota(moment: Moment, key: Key) -> Iterator[Proposal]:
    """As much as is short, in the flavor that is least short, where the limit is."""
    state, workload = _queued(moment, key)
    if workload is None:
        return
    name = state.backlog.cluster_queue_of(workload.queue) or ""
    account = state.backlog.accounts.queues.get(name)
    queue = moment.store.get(Key(_QUEUE, "", name))
    if account is None or queue is None:
        return
    by_flavor: dict[str, list[Any]] = {}
    for shortage in shortages(account, workload):
        if shortage.short:
            by_flavor.setdefault(shortage.at.flavor, []).append(shortage)
    for flavor, short in list(by_flavor.items())[:_VALUES]:
        ahead = _asked_ahead(state, name, workload.key)
        for more, whose in (
            ((dict[str, int](), ""), (ahead, ", for all ahead of it too")) if ahead else (({}, ""),)
        ):
            wanted = {s.at.resource: s.short + more.get(s.at.resource, 0) for s in short}
            operations = _raised(queue, flavor, wanted)
            words = ", ".join(f"{format_amount(r, v)} more {r}" for r, v in wanted.items())
            what = f"quota of ClusterQueue {name} in flavor {flavor}: {words}{whose}"
            if operations:
                yield Proposal(what, (Patch(key_of(queue), operations),), "quota")
        yield from _lifted_limit(queue, name, flavor, short)


def _raised(queue: Obj, flavor: str, more: dict[str, int]) -> tuple[dict[str, Any], ...]:
    """Operations that give a flavor so much more of each resource."""
    operations = []
    for resource, value in more.items():
        place = _quota_place(queue, flavor, resource)
        if place is not None:
            nominal = parse_resources({resource: place[1].get("nominalQuota")})[resource]
            raised = format_amount(resource, nominal + value)
            operations.append({"op": "replace", "path": f"{place[0]}/nominalQuota", "value": raised})
    return tuple(operations)


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


def _lifted_limit(queue: Obj, name: str, flavor: str, short: list[Any]) -> Iterator[Proposal]:
    places = [_quota_place(queue, flavor, s.at.resource) for s in short]
    operations = tuple(
        {"op": "remove", "path": f"{p[0]}/borrowingLimit"}
        for p in places
        if p is not None and "borrowingLimit" in p[1]
    )
    if operations:
        what = f"no borrowingLimit of ClusterQueue {name} in flavor {flavor}"
        yield Proposal(what, (Patch(key_of(queue), operations),), "quota")


def _quota_place(queue: Obj, flavor: str, resource: str) -> tuple[str, Obj] | None:
    for g, group in enumerate(spec_of(queue).get("resourceGroups") or ()):
        for f, one in enumerate(group.get("flavors") or ()):
            for r, entry in enumerate(one.get("resources") or ()):
                if one.get("name") == flavor and entry.get("name") == resource:
                    return f"/spec/resourceGroups/{g}/flavors/{f}/resources/{r}", entry
    return None


def _finished_holders(moment: Moment, key: Key) -> Iterator[Proposal]:
    """Work that holds what is short, the least important and newest first; alone, then a few together."""
    state, workload = _queued(moment, key)
    name = "" if workload is None else state.backlog.cluster_queue_of(workload.queue) or ""
    account = state.backlog.accounts.queues.get(name)
    if workload is None or account is None:
        return
    frs = tuple(s.at for s in shortages(account, workload) if s.short)
    queues = list(account.root().subtree_queues()) if account.parent is not None else [account]
    holders = [w for q in queues for w in q.workloads.values() if frs and uses_any_of(w, frs)]  # type: ignore[attr-defined]
    holders.sort(key=lambda w: (w.priority, -w.reserved_us, w.key))
    yield from _gone(moment.store, [Key(WORKLOAD, *w.key.split("/", 1)) for w in holders])


def _gone(store: Store, holders: list[Key]) -> Iterator[Proposal]:
    jobs = list(dict.fromkeys(job_of(store, k) for k in holders))
    sets = [jobs[i : i + 1] for i in range(min(len(jobs), _HOLDERS))] + [
        jobs[:n] for n in (2, 4, 8) if len(jobs) >= n
    ]
    for some in sets:
        names = tuple(f"{k.namespace}/{k.name}" for k in some)
        what = f"{', '.join(names[:3])}{' …' if len(names) > 3 else ''} finished or deleted"
        yield Proposal(what, tuple(Delete(k) for k in some), f"holders/{len(some)}", evicts=names)


def _queued(moment: Moment, key: Key) -> tuple[QueueState, Any]:
    state = state_of(moment.twin)
    name = workload_of(moment.store, key)
    obj = None if name is None else moment.store.get(name)
    return state, None if obj is None else state.backlog.read(obj)


def _opened_queue(moment: Moment, key: Key, job: Obj) -> Iterator[Proposal]:
    """What stands still is set going: the job, its Workload, its queues; or the queue is made."""
    store = moment.store
    queue = labels_of(job).get(QUEUE_LABEL)
    if not queue and spec_of(job).get("suspend"):
        patch = Patch(key_of(job), ({"op": "replace", "path": "/spec/suspend", "value": False},))
        yield Proposal(f"{named(job)} no longer suspended", (patch,), "suspend")
    name = workload_of(store, key)
    workload = None if name is None else store.get(name)
    if workload is not None and spec_of(workload).get("active") is False:
        patch = Patch(key_of(workload), ({"op": "replace", "path": "/spec/active", "value": True},))
        yield Proposal(f"{named(workload)} activated", (patch,), "active")
    local = store.get(Key(_LOCAL, namespace_of(job), queue or ""))
    if queue and local is None:
        for cluster_queue in store.objects(_QUEUE)[:_QUEUES]:
            made = {
                "apiVersion": "kueue.x-k8s.io/v1beta2",
                "kind": "LocalQueue",
                "metadata": {"name": queue, "namespace": namespace_of(job)},
                "spec": {"clusterQueue": name_of(cluster_queue)},
            }
            what = f"a LocalQueue {queue} in namespace {namespace_of(job)} for ClusterQueue {name_of(cluster_queue)}"
            yield Proposal(what, (Apply(made),), "local queue")
    cluster = "" if local is None else str(spec_of(local).get("clusterQueue") or "")
    for obj in (local, store.get(Key(_QUEUE, "", cluster))):
        if obj is not None and spec_of(obj).get("stopPolicy") not in (None, "None"):
            patch = Patch(key_of(obj), ({"op": "replace", "path": "/spec/stopPolicy", "value": "None"},))
            yield Proposal(f"{named(obj)} no longer stopped", (patch,), "stop")


# Placement


def _of_placement(moment: Moment, key: Key, job: Obj, blocker: Link) -> Iterator[Proposal]:
    store = moment.store
    waiting = [p for p in pods_of(store, key) if not spec_of(p).get("nodeName")]
    if not waiting:
        return
    pod = waiting[0]
    paths = template_path(job) if job.get("kind") != "Pod" else ((),)
    yield from _claims(store, pod)
    yield from _tolerations(store, job, paths, pod)
    yield from _selectors(store, job, paths, pod)
    for node in store.objects("Node"):
        if spec_of(node).get("unschedulable"):
            patch = Patch(key_of(node), ({"op": "remove", "path": "/spec/unschedulable"},))
            yield Proposal(f"node {name_of(node)} uncordoned", (patch,), "cordon")
            break
    yield from smaller(job, blocker)
    yield from _pod_priorities(store, job, paths, pod)
    yield from _gone(store, _in_the_way(moment, pod))
    yield from _limits(store)
    yield from _nodes(moment, pod, len(waiting))


def _tolerations(store: Store, job: Obj, paths: Any, pod: Obj) -> Iterator[Proposal]:
    mine = parse_tolerations(spec_of(pod).get("tolerations") or [])
    taints: dict[tuple[str, str, str], None] = {}
    for node in store.objects("Node"):
        for taint in parse_taints(spec_of(node).get("taints") or []):
            is_ours = taint.key.startswith(("node.kubernetes.io/", "karpenter.sh/"))
            if taint.effect != "PreferNoSchedule" and not is_ours and not is_tolerated(taint, mine):
                taints[(taint.key, taint.value, taint.effect)] = None
    for key, value, effect in list(taints)[:_VALUES]:
        match = {"operator": "Equal", "value": value} if value else {"operator": "Exists"}
        toleration = {"key": key, "effect": effect, **match}
        operations: list[dict[str, Any]] = []
        for path in paths:
            base = _pointer((*path, "spec", "tolerations"))
            if spec_of(_at(job, path)).get("tolerations") is None:
                operations.append({"op": "add", "path": base, "value": [toleration]})
            else:
                operations.append({"op": "add", "path": f"{base}/-", "value": toleration})
        what = f"a toleration for {key}{f'={value}' if value else ''}:{effect}"
        yield Proposal(what, (Patch(key_of(job), tuple(operations)),), "toleration")


def _selectors(store: Store, job: Obj, paths: Any, pod: Obj) -> Iterator[Proposal]:
    """Another value for each label that is asked for, or none; and no required node affinity."""
    nodes = store.objects("Node")
    for path in paths:
        spec = spec_of(_at(job, path))
        base = _pointer((*path, "spec"))
        for label, value in (spec.get("nodeSelector") or {}).items():
            at = f"{base}/nodeSelector/{escaped(label)}"
            others = sorted({labels_of(n)[label] for n in nodes if label in labels_of(n)} - {value})
            for other in others[:_VALUES]:
                patch = Patch(key_of(job), ({"op": "replace", "path": at, "value": other},))
                yield Proposal(f"{label}={other} instead of {value}", (patch,), f"selector/{label}")
            patch = Patch(key_of(job), ({"op": "remove", "path": at},))
            yield Proposal(f"no node selector {label}={value}", (patch,), f"selector/{label}")
        for kind, required in (
            ("nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"),
            ("podAffinity", "requiredDuringSchedulingIgnoredDuringExecution"),
            ("podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution"),
        ):
            if ((spec.get("affinity") or {}).get(kind) or {}).get(required):
                patch = Patch(key_of(job), ({"op": "remove", "path": f"{base}/affinity/{kind}/{required}"},))
                yield Proposal(f"no required {kind}", (patch,), kind)
        if any(
            c.get("whenUnsatisfiable") != "ScheduleAnyway"
            for c in spec.get("topologySpreadConstraints") or ()
        ):
            patch = Patch(key_of(job), ({"op": "remove", "path": f"{base}/topologySpreadConstraints"},))
            yield Proposal("no topology spread constraints", (patch,), "spread")


def _pod_priorities(store: Store, job: Obj, paths: Any, pod: Obj) -> Iterator[Proposal]:
    now = int(spec_of(pod).get("priority") or 0)
    classes = sorted((int(c.get("value") or 0), name_of(c)) for c in store.objects(_CLASS))
    for value, name in [c for c in classes if c[0] > now and not c[1].startswith("system-")][:_VALUES]:
        operations: list[dict[str, Any]] = []
        for path in paths:
            spec, base = spec_of(_at(job, path)), _pointer((*path, "spec"))
            operations.append({"op": "add", "path": f"{base}/priorityClassName", "value": name})
            operations += [
                {"op": "remove", "path": f"{base}/{f}"} for f in ("priority", "preemptionPolicy") if f in spec
            ]
        yield Proposal(
            f"priorityClassName {name} ({value})", (Patch(key_of(job), tuple(operations)),), "priority"
        )


def _in_the_way(moment: Moment, pod: Obj) -> list[Key]:
    """Pods on the nodes where the fewest of them would have to go, least important first."""
    accounts = moment.store.accounts
    record = accounts.record(pod, key_of(pod))
    asked = [(r, v) for r, v in record.shape.requests.items() if v and (_GPU in r)] or list(
        record.shape.requests.items()
    )
    best: list[Key] = []
    least = -1
    for row in accounts.order().tolist():
        columns = [(accounts.column(r), v, r) for r, v in asked]
        if any(accounts.allocatable[row, c] < v for c, v, _ in columns):
            continue
        held = sorted(accounts.pods[row].values(), key=lambda p: (p.shape.priority, p.key))
        free = {r: int(accounts.allocatable[row, c] - accounts.requested[row, c]) for c, _, r in columns}
        chosen: list[Key] = []
        for other in held:
            if all(free[r] >= v for _, v, r in columns):
                break
            if any(other.shape.requests.get(r) for r in free):
                chosen.append(other.key)
                free = {r: f + other.shape.requests.get(r, 0) for r, f in free.items()}
        if all(free[r] >= v for _, v, r in columns) and chosen and (least < 0 or len(chosen) < least):
            best, least = chosen, len(chosen)
            if least == 1:
                break
    return best[:1] if least == 1 else best


def _claims(store: Store, pod: Obj) -> Iterator[Proposal]:
    """Claims that are not there or have no volume, of a storage class there is: the default one, or any of them."""
    classes = list(store.objects(STORAGE_CLASS))
    defaults = [c for c in classes if annotations_of(c).get(DEFAULT_STORAGE) == "true"]
    for name in sorted(name_of(c) for c in defaults or classes)[:_VALUES]:
        steps: list[Step] = []
        said: list[str] = []
        for volume in spec_of(pod).get("volumes") or ():
            key = Key(
                _CLAIM, namespace_of(pod), (volume.get("persistentVolumeClaim") or {}).get("claimName", "")
            )
            claim = store.get(key) if key.name else None
            if key.name and claim is None:
                steps.append(Apply(_claim(key, name)))
                said.append(f"PersistentVolumeClaim {key.name} ({_SIZE}) created")
            elif claim is not None and not spec_of(claim).get("volumeName"):
                of_class = {"op": "add", "path": "/spec/storageClassName", "value": name}
                if spec_of(claim).get("storageClassName") != name:
                    steps.append(Patch(key, (of_class,)))
                    said.append(f"PersistentVolumeClaim {key.name}")
        if steps:
            yield Proposal(f"{', '.join(said)} with StorageClass {name}", tuple(steps), "claims")


def _claim(key: Key, storage_class: str) -> Obj:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": _SIZE}},
    }
    meta = {"name": key.name, "namespace": key.namespace}
    return {"apiVersion": "v1", "kind": _CLAIM, "metadata": meta, "spec": spec}


def _limits(store: Store) -> Iterator[Proposal]:
    for pool in store.objects("NodePool.karpenter.sh"):
        if spec_of(pool).get("limits"):
            patch = Patch(key_of(pool), ({"op": "remove", "path": "/spec/limits"},))
            yield Proposal(f"no limits on NodePool {name_of(pool)}", (patch,), "limits")


def _nodes(moment: Moment, pod: Obj, pods: int) -> Iterator[Proposal]:
    """One more node like each kind there is, the roomiest in devices first; then as many as there are pods."""
    kinds: dict[tuple[Any, ...], Obj] = {}
    wanted: dict[str, str] = spec_of(pod).get("nodeSelector") or {}
    for node in moment.store.objects("Node"):
        offers = parse_resources(status_of(node).get("allocatable") or status_of(node).get("capacity") or {})
        kind = labels_of(node).get("node.kubernetes.io/instance-type") or ""
        kinds.setdefault((kind, tuple(sorted(offers.items()))), node)
    ranked = sorted(kinds.items(), key=lambda k: (-sum(v for r, v in k[0][1] if _GPU in r), k[0]))
    for (kind, _), node in ranked[:_TYPES]:
        missing = {k: v for k, v in wanted.items() if labels_of(node).get(k) != v}
        for labels in ({}, missing) if missing else ({},):
            for count in (1, pods) if 1 < pods <= _MOST_NODES else (1,):
                what = f"{count} more node{'s' if count > 1 else ''}" + (f" of type {kind}" if kind else "")
                told = f", labelled {', '.join(f'{k}={v}' for k, v in labels.items())}" if labels else ""
                steps = tuple(
                    Open(another_node(node, n, labels), kind or "a node") for n in range(1, count + 1)
                )
                yield Proposal(f"{what} (like {name_of(node)}{told})", steps, "nodes")


# Admission, kubelet


def _roomier_quotas(store: Store, job: Obj, blocker: Link) -> Iterator[Proposal]:
    """ResourceQuotas of its namespace that the refusal names, twice as large."""
    for quota in store.objects("ResourceQuota", namespace_of(job)):
        hard = spec_of(quota).get("hard") or {}
        if name_of(quota) not in blocker.message or "exceeded quota" not in blocker.message:
            continue
        operations = []
        for name in hard:
            if name in blocker.message:
                resource = name.removeprefix("requests.").removeprefix("limits.")
                amount = parse_resources({resource: hard[name]})[resource]
                value = format_amount(resource, 2 * amount or 1)
                operations.append({"op": "replace", "path": f"/spec/hard/{escaped(name)}", "value": value})
        if operations:
            yield Proposal(f"{named(quota)} doubled", (Patch(key_of(quota), tuple(operations)),), "quota")


def _missing_objects(job: Obj, blocker: Link, namespace: str) -> Iterator[Proposal]:
    kind, name = blocker.numbers.get("kind"), blocker.numbers.get("name")
    if kind and name:
        keys = blocker.numbers.get("keys") or []
        made: Obj = {
            "apiVersion": "v1",
            "kind": kind,
            "metadata": {"name": name, "namespace": namespace},
            "data": dict.fromkeys(keys, ""),
        }
        yield Proposal(f"{kind} {name} created", (Apply(made),), "object")


# Paths


def _at(obj: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        if isinstance(obj, list):
            obj = obj[int(step)] if int(step) < len(obj) else {}
        else:
            obj = (obj or {}).get(step)
    return obj if obj is not None else {}


def _pointer(path: tuple[Any, ...]) -> str:
    return "".join(f"/{escaped(str(step))}" for step in path)
