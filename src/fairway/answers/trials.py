"""Would this start it? A copy of the twin takes the steps and goes on; what happens there is the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fairway.answers.admissionlinks import number_or, pods_wanted, suspended_at
from fairway.answers.explain import has_ended, runs
from fairway.answers.naming import WORKLOAD, job_of, pods_of
from fairway.answers.steps import Step
from fairway.cluster.errors import ApiError
from fairway.cluster.store import Store
from fairway.errors import FairwayError
from fairway.ground import Moment
from fairway.kube.conditions import is_condition_true
from fairway.kube.objects import Key, Obj, key_of, labels_of, meta_of, spec_of, status_of
from fairway.kube.timestamps import MINUTE_US, SECOND_US
from fairway.twin.loop import LoopLimit
from fairway.twin.provisioner.component import Provisioner
from fairway.twin.twin import Twin

# How far a copy goes on: time enough for a node to be opened and images to be pulled.
HORIZON_US = 15 * MINUTE_US
# Between two looks whether it started: close together at first.
_LOOKS_S = (1, 2, 5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 240, 300, 420, 600, 900)
_LATER_S = (1200, 1800, 2700, 3600, 2 * 3600, 4 * 3600, 8 * 3600, 16 * 3600, 24 * 3600)
LOOKS_US = tuple(s * SECOND_US for s in (*_LOOKS_S, *_LATER_S))
EVENTS = 200_000
_TYPE = "node.kubernetes.io/instance-type"


@dataclass(frozen=True, slots=True)
class Trial:
    """`starts_s`: when it started on the copy; None: it did not. `evicts`: work that was stopped there, beyond what
    ends by itself. `opened`: nodes that came, by instance type. `there`: the copy, where it did not start."""

    starts_s: float | None
    commands: tuple[str, ...] = ()
    evicts: tuple[str, ...] = ()
    opened: tuple[tuple[str, int | None], ...] = ()
    there: Twin | None = field(default=None, repr=False)


def tried(moment: Moment, key: Key, steps: Sequence[Step], horizon_us: int = HORIZON_US) -> Trial:
    """Take the steps on a copy and wait for the object there. One fork, and what happens in the horizon."""
    twin = moment.fork()
    commands: list[str] = []
    try:
        for step in steps:
            commands += step.take(twin)
        twin.wake()
        starts_us = started_after_us(twin, key, horizon_us)
    except (ApiError, FairwayError, LoopLimit):
        return Trial(None)
    if starts_us is None:
        return Trial(None, tuple(commands), there=twin)
    evicts = stopped(moment, twin, key)
    return Trial(starts_us / SECOND_US, tuple(commands), evicts, _opened(moment, twin))


def started_after_us(twin: Twin, key: Key, horizon_us: int) -> int | None:
    """Go on until the object there has started; None: it has not within the horizon."""
    began_us = twin.now_us
    # Compiled code takes time as it comes; a look right away costs nothing.
    for look_us in LOOKS_US:
        if look_us > horizon_us:
            break
        twin.run(began_us + look_us, limit=EVENTS)
        if has_started(twin.store, key):
            return look_us
    return None


def has_started(store: Store, key: Key) -> bool:
    """Whether all of its pods run (or have ended well), and none is still to be made."""
    obj = store.get(key)
    if obj is None:
        return False
    if has_ended(obj):
        return not _failed(obj)
    if key.gk != "Pod" and _lacks_pods(store, key, obj):
        return False
    pods = pods_of(store, key)
    return bool(pods) and all(map(runs, pods))


def _failed(obj: Obj) -> bool:
    status = status_of(obj)
    if (
        "Failed" in (status.get("phase"), status.get("jobDeploymentStatus"))
        or status.get("jobStatus") == "FAILED"
    ):
        return True
    return is_condition_true(status.get("conditions"), "Failed")


def _lacks_pods(store: Store, key: Key, obj: Obj) -> bool:
    """Whether pods of it are still to be made, at whatever depth."""
    job = store.get(job_of(store, key)) if key.gk == WORKLOAD else obj
    if job is None or suspended_at(job):
        return True
    kind, spec = job.get("kind"), spec_of(job)
    if kind == "JobSet":
        jobs = [k for k in store.dependents(meta_of(job)["uid"]) if k.gk == "Job.batch"]
        listed = [one for one in spec.get("replicatedJobs") or () if not one.get("dependsOn")]
        return len(jobs) < sum(number_or(one.get("replicas"), 1) for one in listed) or any(
            _lacks_pods(store, k, o) for k in jobs if (o := store.get(k)) is not None and not has_ended(o)
        )
    return len(pods_of(store, key_of(job), ended=kind != "Job")) < pods_wanted(job)


# Who paid


def stopped(moment: Moment, twin: Twin, key: Key) -> tuple[str, ...]:
    """Owners of pods that ran and were stopped on the copy, and that had not come to their end."""
    store, later = moment.store, twin.store
    mine = job_of(store, key)
    found: dict[str, None] = {}
    for pod in store.objects("Pod"):
        if status_of(pod).get("phase") != "Running":
            continue
        pod_key = Key("Pod", pod["metadata"].get("namespace") or "", pod["metadata"]["name"])
        now = later.get(pod_key)
        if now is pod or (now is not None and _goes_on(pod, now)):
            continue
        owner = job_of(store, pod_key)
        if owner == mine or _ended_well(later, owner):
            continue
        found[f"{owner.namespace}/{owner.name}"] = None
    return tuple(found)


def _goes_on(pod: Obj, now: Obj) -> bool:
    """Whether it is the same pod still, and nobody told it to go."""
    is_same = now["metadata"]["uid"] == pod["metadata"]["uid"] and "deletionTimestamp" not in now["metadata"]
    return is_same and not is_condition_true(status_of(now).get("conditions"), "DisruptionTarget")


def _ended_well(store: Store, owner: Key) -> bool:
    obj = store.get(owner)
    return obj is not None and has_ended(obj)


def _opened(moment: Moment, twin: Twin) -> tuple[tuple[str, int | None], ...]:
    """Nodes that are there now and were not: instance type, and µ$ an hour where it is known."""
    new = [
        n
        for n in twin.store.objects("Node")
        if moment.store.get(Key("Node", "", n["metadata"]["name"])) is None
    ]
    return tuple((labels_of(n).get(_TYPE) or "", price_of(twin, n)) for n in new)


def price_of(twin: Twin, node: Obj) -> int | None:
    """µ$ an hour of a node, as the cloud here or the catalog says; None: neither knows its type."""
    labels = labels_of(node)
    name, zone = labels.get(_TYPE) or "", labels.get("topology.kubernetes.io/zone") or ""
    capacity = labels.get("karpenter.sh/capacity-type") or "on-demand"
    karpenter = twin.host.parts.get("karpenter")
    if isinstance(karpenter, Provisioner):
        for kind in karpenter.cloud.types:
            if kind.name == name:
                return kind.price_of(zone, capacity)
    return None if not name else _catalog_price(name, capacity, zone, twin.now_us)


def _catalog_price(name: str, capacity: str, zone: str, now_us: int) -> int | None:
    from fairway.catalog.catalog import load_catalog
    from fairway.catalog.prices import Price

    found = load_catalog().price(name, capacity, zone=zone, at_us=now_us)
    return found.micros_per_hour if isinstance(found, Price) else None
