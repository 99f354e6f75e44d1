"""What might start it? Single relaxations that fit the layer that says no: each is a guess, which a copy then tries.

In the order of who would have to agree: the owner of the work (less of it, another queue, a toleration), an
administrator (quota, a policy, a node back in service), others (their work goes), money (another node).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fairway.admission.defaultclasses import DEFAULT_STORAGE, STORAGE_CLASS
from fairway.answers.admissionlinks import pods_wanted
from fairway.answers.doorproposals import doors_opened, lifted_doors, limits_raised
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
from fairway.answers.gangproposals import for_gangs, pods_short
from fairway.answers.naming import job_of, pods_of
from fairway.answers.nodeproposals import more_nodes
from fairway.answers.proposal import Proposal, gone
from fairway.answers.queueproposals import (
    TOPOLOGY_WISHES,
    finished_holders,
    flavors_of,
    more_quota,
    opened_queue,
    other_queues,
    priorities,
    topology_levels,
)
from fairway.answers.steps import Apply, Patch, Step
from fairway.answers.templatepaths import at_path, escaped, pointer, templates_of
from fairway.cluster.store import Store
from fairway.ground import Moment
from fairway.kube.objects import (
    Key,
    Obj,
    annotations_of,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    spec_of,
)
from fairway.kube.resources import format_amount, parse_resources
from fairway.kube.taints import is_tolerated, parse_taints, parse_tolerations

_CLASS = "PriorityClass.scheduling.k8s.io"
_VALUES = 3
_CLAIM, _SIZE = "PersistentVolumeClaim", "10Gi"
"""How large the work wants it is nowhere said."""
_NEW_CLASS = "standard"
_DRIVERS = {"aws": "ebs.csi.aws.com", "gce": "pd.csi.storage.gke.io", "azure": "disk.csi.azure.com"}
_GPU = "gpu"


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
        yield from doors_opened(store, job, blocker)
        yield from smaller(job, blocker)
    if blocker.layer == QUEUE:
        yield from opened_queue(moment, key, job, blocker)
        yield from limits_raised(job, blocker.message)
        yield from lifted_doors(store, job, blocker.message)
    if is_placed_by_kueue(blocker):
        yield from _for_flavors(moment, key, job)
    if blocker.layer in (QUEUE, QUOTA, PREEMPTION) or is_placed_by_kueue(blocker):
        yield from smaller(job, blocker)
        yield from other_queues(store, job)
        yield from priorities(store, job)
        yield from more_quota(moment, key)
        yield from _for_flavors(moment, key, job)
        yield from finished_holders(moment, key)
    if blocker.layer in (VOLUMES, PROVISIONING, PREEMPTION, GANG) or (
        blocker.layer == SCHEDULER and not is_placed_by_kueue(blocker)
    ):
        yield from _of_placement(moment, key, job, blocker)
    if blocker.layer == KUBELET:
        yield from _missing_objects(job, blocker, namespace_of(job))


def is_placed_by_kueue(blocker: Link) -> bool:
    """Whether it is Kueue's flavors that do not take it, not the nodes."""
    return blocker.layer == SCHEDULER and "mismatches" in blocker.numbers


# Less of it


def smaller(job: Obj, blocker: Link) -> Iterator[Proposal]:
    """Fewer of the scarcest device per pod (as many as the nearest node or flavor has, first), then fewer workers."""
    free = _known_free(blocker)
    for path in templates_of(job):
        template = at_path(job, path)
        for i, container in enumerate(spec_of(template).get("containers") or ()):
            yield from _fewer_resources(job, path, i, container, free, blocker.message)
    for place, count in _workers(job):
        for less in _steps_down(count):
            at = "/" + "/".join(place)
            operations = [{"op": "replace", "path": at, "value": less}]
            if place[-1] == "parallelism" and spec_of(job).get("completionMode") == "Indexed":
                operations.append({"op": "replace", "path": "/spec/completions", "value": less})
            if "workerGroupSpecs" in place:
                fewest = ("minReplicas",) if at_path(job, (*place[:-1], "minReplicas")) else ()
                operations += [
                    {"op": "replace", "path": f"{at.rpartition('/')[0]}/{f}", "value": less} for f in fewest
                ]
            yield Proposal(
                f"{less} instead of {count} workers",
                (Patch(key_of(job), tuple(operations)),),
                "workers",
                loses=True,
            )


def _known_free(blocker: Link) -> dict[str, int]:
    """What of each resource the nearest node, or the flavor with most, has free."""
    short = (blocker.numbers.get("nearest") or {}).get("short") or {}
    free = {name: int(one["free"]) for name, one in short.items()}
    for one in blocker.numbers.get("flavors") or ():
        if one["short"]:
            free[one["resource"]] = max(free.get(one["resource"], 0), int(one["free"]))
    return free


def _fewer_resources(
    job: Obj, path: tuple[Any, ...], i: int, container: Obj, free: dict[str, int], said: str
) -> Iterator[Proposal]:
    """Of devices, and of what else is said to be short."""
    resources = container.get("resources") or {}
    parts = {part: parse_resources(resources.get(part) or {}) for part in ("limits", "requests")}
    asked = {**parts["limits"], **parts["requests"]}
    for name, count in asked.items():
        is_device = "/" in name
        if not is_device and name not in free and f" {name} " not in f" {said} ":
            continue
        for less in _steps_down(count, free.get(name, 0))[: None if is_device else _VALUES]:
            base = pointer((*path, "spec", "containers", i, "resources"))
            operations = tuple(
                {
                    "op": "replace",
                    "path": f"{base}/{part}/{escaped(name)}",
                    "value": format_amount(name, less),
                }
                for part, has in parts.items()
                if has.get(name, 0) > less
            )
            fewer = f"{format_amount(name, less)} instead of {format_amount(name, count)} {name}"
            what = f"{fewer} in container {container.get('name')}"
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
    for cluster in (("spec",), ("spec", "rayClusterSpec")):
        groups = at_path(job, (*cluster, "workerGroupSpecs"))
        places += [
            (*cluster, "workerGroupSpecs", str(i), "replicas")
            for i in range(len(groups) if isinstance(groups, list) else 0)
        ]
    found = [(place, at_path(job, place)) for place in places]
    listed = spec.get("replicatedJobs")
    for i, one in enumerate(listed if isinstance(listed, list) else ()):
        found.append((("spec", "replicatedJobs", str(i), "replicas"), one.get("replicas") or 1))
    return [(place, count) for place, count in found if isinstance(count, int) and count > 1]


# Placement


def _of_placement(moment: Moment, key: Key, job: Obj, blocker: Link) -> Iterator[Proposal]:
    store = moment.store
    waiting = [p for p in pods_of(store, key) if not spec_of(p).get("nodeName")]
    if not waiting:
        return
    pod = waiting[0]
    paths = templates_of(job)
    yield from _claims(store, pod)
    if blocker.layer == GANG:
        yield from for_gangs(moment, job, pod, blocker)
    nodes = store.objects("Node")
    yield from _tolerations(job, paths, pod, [t for n in nodes for t in spec_of(n).get("taints") or ()])
    yield from _selectors(job, paths, [labels_of(n) for n in nodes])
    for node in store.objects("Node"):
        if spec_of(node).get("unschedulable"):
            patch = Patch(key_of(node), ({"op": "remove", "path": "/spec/unschedulable"},))
            yield Proposal(f"node {name_of(node)} uncordoned", (patch,), "cordon")
            break
    yield from smaller(job, blocker)
    yield from _pod_priorities(store, job, paths, pod)
    yield from gone(store, _in_the_way(moment, pod))
    yield from _limits(store)
    yield from more_nodes(moment, pod, pods_short(blocker, len(waiting)))


def _for_flavors(moment: Moment, key: Key, job: Obj) -> Iterator[Proposal]:
    """Work that its queue's flavors do not take as it is: their taints, labels and topology."""
    flavors = flavors_of(moment, key)
    paths = templates_of(job)
    if not flavors or not paths:
        return
    pod = at_path(job, paths[0])
    nodes = moment.store.objects("Node")
    # Those of nodes count where flavors have topologies.
    taints = [t for f in flavors for t in spec_of(f).get("nodeTaints") or ()]
    yield from _tolerations(
        job, paths, pod, taints + [t for n in nodes for t in spec_of(n).get("taints") or ()]
    )
    of_flavors = [spec_of(f).get("nodeLabels") or {} for f in flavors]
    yield from _selectors(job, paths, [*of_flavors, *map(labels_of, nodes)])
    annotations = [(p, a) for p in paths for a in TOPOLOGY_WISHES if a in annotations_of(at_path(job, p))]
    if annotations:
        operations = tuple(
            {"op": "remove", "path": pointer((*path, "metadata", "annotations", name))}
            for path, name in annotations
        )
        # Kueue takes a Workload that differs in its topology alone for the job's still.
        patch = Patch(key_of(job), operations, is_anew=True)
        yield Proposal("no topology asked for", (patch,), "topology")
    for flavor in flavors:
        levels = topology_levels(moment, flavor)
        if spec_of(flavor).get("topologyName"):
            wanted = {**dict.fromkeys(levels, "more"), **(spec_of(flavor).get("nodeLabels") or {})}
            yield from more_nodes(moment, pod, pods_wanted(job), wanted)


def _tolerations(job: Obj, paths: Any, pod: Obj, tainted: list[dict[str, Any]]) -> Iterator[Proposal]:
    mine = parse_tolerations(spec_of(pod).get("tolerations") or [])
    taints: dict[tuple[str, str, str], None] = {}
    for taint in parse_taints(tainted):
        is_ours = taint.key.startswith(("node.kubernetes.io/", "karpenter.sh/"))
        if taint.effect != "PreferNoSchedule" and not is_ours and not is_tolerated(taint, mine):
            taints[(taint.key, taint.value, taint.effect)] = None
    some = list(taints)[:_VALUES]
    for chosen in [[one] for one in some] + ([some] if len(some) > 1 else []):
        what = " and ".join(f"{k}{f'={v}' if v else ''}:{effect}" for k, v, effect in chosen)
        operations = tuple(_tolerated(job, paths, chosen))
        yield Proposal(f"a toleration for {what}", (Patch(key_of(job), operations),), "toleration")


def _tolerated(job: Obj, paths: Any, taints: list[tuple[str, str, str]]) -> Iterator[dict[str, Any]]:
    """Operations that let every template tolerate these taints."""
    new = [
        {"key": k, "effect": effect, **({"operator": "Equal", "value": v} if v else {"operator": "Exists"})}
        for k, v, effect in taints
    ]
    for path in paths:
        base = pointer((*path, "spec", "tolerations"))
        if spec_of(at_path(job, path)).get("tolerations") is None:
            yield {"op": "add", "path": base, "value": new}
        else:
            yield from ({"op": "add", "path": f"{base}/-", "value": one} for one in new)


def _selectors(job: Obj, paths: Any, labelled: list[dict[str, str]]) -> Iterator[Proposal]:
    """Another value for each label that is asked for, or none, in all its templates; no required affinity."""
    asked: dict[tuple[str, str], list[str]] = {}
    for path in paths:
        for label, value in (spec_of(at_path(job, path)).get("nodeSelector") or {}).items():
            at = pointer((*path, "spec", "nodeSelector", label))
            asked.setdefault((label, value), []).append(at)
    for (label, value), places in asked.items():
        others = sorted({labels[label] for labels in labelled if label in labels} - {value})
        for other in others[:_VALUES]:
            operations = tuple({"op": "replace", "path": at, "value": other} for at in places)
            patch = Patch(key_of(job), operations)
            yield Proposal(f"{label}={other} instead of {value}", (patch,), f"selector/{label}")
        patch = Patch(key_of(job), tuple({"op": "remove", "path": at} for at in places))
        yield Proposal(f"no node selector {label}={value}", (patch,), f"selector/{label}")
    for path in paths:
        spec = spec_of(at_path(job, path))
        base = pointer((*path, "spec"))
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
            spec, base = spec_of(at_path(job, path)), pointer((*path, "spec"))
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
    """Claims that are not there or have no volume, of a storage class there is: the default one, or any of them; where
    there is none, of one that is made."""
    classes = list(store.objects(STORAGE_CLASS))
    defaults = [c for c in classes if annotations_of(c).get(DEFAULT_STORAGE) == "true"]
    for name in sorted(name_of(c) for c in defaults or classes)[:_VALUES] or [_NEW_CLASS]:
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
            made: list[Step] = [] if classes else [Apply(_storage_class(store))]
            new = "a new " if made else ""
            yield Proposal(f"{', '.join(said)} with {new}StorageClass {name}", (*made, *steps), "claims")


def _storage_class(store: Store) -> Obj:
    """Of the CSI driver of the cloud that the nodes are of."""
    ids = [str(spec_of(n).get("providerID") or "").partition(":")[0] for n in store.objects("Node")]
    driver = next((_DRIVERS[i] for i in ids if i in _DRIVERS), "rancher.io/local-path")
    api = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": _NEW_CLASS}}
    return {**api, "provisioner": driver, "volumeBindingMode": "WaitForFirstConsumer"}


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


# Kubelet


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
