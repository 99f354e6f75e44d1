"""What would become of these manifests here, were they applied now? Before anybody submits them.

They enter a copy of the cluster by its own door, one after the other, and the copy goes on: who is refused and by which
policy, who is admitted where, who has to go for it, when it starts, and what an hour of it costs. The cluster itself
hears nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from fairway.admission.request import User
from fairway.admission.trial import DENIED, Said, check_shapes, entered
from fairway.answers.explain import explain
from fairway.answers.explanation import BLOCKED, QUEUE, QUOTA, SCHEDULER, Explanation, Link
from fairway.answers.naming import pods_of, workload_of
from fairway.answers.trials import EVENTS, HORIZON_US, LOOKS_US, has_started, price_of, stopped
from fairway.cluster.changes import ADDED
from fairway.cluster.store import Store
from fairway.ground import Moment
from fairway.kube.creationorder import creation_step
from fairway.kube.kinds import kind_named
from fairway.kube.manifest import Manifest
from fairway.kube.objects import Key, Obj, gk_of, key_of, meta_of, spec_of, status_of
from fairway.kube.resources import CPU, NVIDIA_GPU, parse_resources
from fairway.kube.timestamps import SECOND_US
from fairway.queueing.facts import conditions as conds
from fairway.scenario.profiles import template_path
from fairway.scheduling.verdict import Scheduled
from fairway.twin.scheduler import SchedulerComponent
from fairway.twin.twin import Twin

REFUSED, STARTS, WAITS, NEVER, ACCEPTED = "refused", "starts", "waits", "never", "accepted"
# Reasons of Kueue that waiting alone does not end.
_FOR_GOOD: Final = (conds.EXCEEDS_MAX_QUOTA, conds.NO_MATCHING_FLAVOR, conds.MISCONFIGURED, conds.SUSPENDED)


@dataclass(frozen=True, slots=True)
class Checked:
    """One document. `verdict`: refused at the door; accepted (nothing in it runs); starts after `starts_s`; waits for
    what others hold; or never: what keeps it does not go away by itself.

    `usd_per_hour` in micro-dollars, of its share of the nodes it runs on; None: nobody says what they cost.
    """

    where: str
    object: str
    verdict: str
    message: str = ""
    policy: str = ""
    warnings: tuple[str, ...] = ()
    queue: str = ""
    flavors: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    starts_s: float | None = None
    micro_usd_per_hour: int | None = None
    blocker: Link | None = None

    def as_json(self) -> dict[str, Any]:
        cost = None if self.micro_usd_per_hour is None else self.micro_usd_per_hour / 1e6
        blocker = self.blocker
        return {
            "where": self.where,
            "object": self.object,
            "verdict": self.verdict,
            "message": self.message,
            "policy": self.policy,
            "warnings": list(self.warnings),
            "cluster_queue": self.queue,
            "flavors": list(self.flavors),
            "nodes": list(self.nodes),
            "starts": self.starts_s,
            "usd_per_hour": cost,
            "blocker": None
            if blocker is None
            else {
                "layer": blocker.layer,
                "reason": blocker.reason,
                "message": blocker.message,
                "numbers": blocker.numbers,
            },
        }


@dataclass(frozen=True, slots=True)
class Check:
    """`preempts`: whose work is stopped for all of it together. `horizon_s`: how far was looked."""

    documents: tuple[Checked, ...]
    preempts: tuple[str, ...]
    horizon_s: float
    unknown: tuple[str, ...] = field(default=())

    def as_json(self) -> dict[str, Any]:
        return {
            "documents": [d.as_json() for d in self.documents],
            "preempts": list(self.preempts),
            "horizon": self.horizon_s,
            "unknown": list(self.unknown),
        }

    def is_fine(self, within_s: float | None = None) -> bool:
        """Whether everything is let in and can run; `within_s`: and starts so soon."""
        if any(d.verdict in (REFUSED, NEVER) for d in self.documents):
            return False
        if within_s is None:
            return True
        timed = [d for d in self.documents if d.verdict in (STARTS, WAITS)]
        return all(d.starts_s is not None and d.starts_s <= within_s for d in timed)


def check(moment: Moment, manifests: Iterable[Manifest], user: User, horizon_us: int = HORIZON_US) -> Check:
    """One fork, and what happens on it until everything has started, at most `horizon_us`.

    Raises: InvalidInput for what is not of its kind's shape.
    """
    documents = sorted(manifests, key=lambda m: creation_step(m.obj))
    check_shapes(documents)
    twin = moment.fork()
    found: list[tuple[Checked, Key | None]] = [_entered(moment, twin, m, user) for m in documents]
    twin.wake()
    starts_us = _run(twin, [key for _, key in found if key is not None], horizon_us)
    later = replace(moment, twin=twin)
    checked = tuple(
        one if key is None else _followed(later, one, key, starts_us.get(key)) for one, key in found
    )
    mine = next((key for _, key in found if key is not None), None)
    preempts = () if mine is None else stopped(moment, twin, mine)
    return Check(checked, preempts, horizon_us / SECOND_US, moment.notes)


def _entered(moment: Moment, twin: Twin, manifest: Manifest, user: User) -> tuple[Checked, Key | None]:
    """Past the door; the key of what is to be followed, None for what runs nothing, or was refused."""
    obj, store = manifest.obj, twin.store
    before = store.version
    key = key_of(obj)
    if kind_named(key.gk).namespaced and not key.namespace:
        key = key._replace(namespace="default")
    lost = _is_lost(moment, store, key.namespace)
    said = [lost] if lost is not None else list(entered(store, twin.host.door, manifest, user))
    if not key.name:
        # It was given a name of its own.
        made = [c.key for c in store.log.since(before) if c.type == ADDED and c.key.gk == key.gk]
        key = made[0] if made else key
    name = key.name or f"{meta_of(obj).get('generateName') or ''}…"
    written = f"{kind_named(key.gk).kind} {f'{key.namespace}/' if key.namespace else ''}{name}"
    denied = [s for s in said if s.outcome == DENIED]
    warnings = tuple(s.message for s in said if s.outcome != DENIED)
    where = f"{manifest.file}:{manifest.line}" if manifest.line else manifest.file
    one = Checked(where, written, ACCEPTED, warnings=warnings)
    if denied:
        policies = ", ".join(dict.fromkeys(s.policy for s in denied if s.policy))
        return replace(one, verdict=REFUSED, message=denied[0].message, policy=policies), None
    runs = gk_of(obj) == "Pod" or bool(template_path(obj))
    return one, key if runs and key.name else None


def _is_lost(moment: Moment, store: Store, namespace: str) -> Said | None:
    """A namespace that is not there. Simulations have every namespace, and of some clusters they were not read."""
    is_known = not moment.is_simulated and "Namespace" not in moment.unseen
    if not namespace or not is_known or store.get(Key("Namespace", "", namespace)) is not None:
        return None
    return Said(DENIED, f'namespaces "{namespace}" not found')


def _run(twin: Twin, keys: list[Key], horizon_us: int) -> dict[Key, int]:
    """When each started, from now; those that did not are left out."""
    began_us = twin.now_us
    starts: dict[Key, int] = {}
    for look_us in LOOKS_US:
        if look_us > horizon_us or len(starts) == len(keys):
            break
        twin.run(began_us + look_us, limit=EVENTS)
        for key in keys:
            if key not in starts and has_started(twin.store, key):
                starts[key] = look_us
    return starts


def _followed(later: Moment, one: Checked, key: Key, starts_us: int | None) -> Checked:
    queue, flavors = _admitted(later, key)
    if later.store.get(key) is None:
        return replace(one, verdict=STARTS, message="it ran and was cleaned up", starts_s=None)
    if starts_us is not None:
        pods = pods_of(later.store, key, ended=True)
        nodes = tuple(dict.fromkeys(spec_of(p).get("nodeName") or "" for p in pods))
        cost = _cost(later, pods)
        return replace(
            one,
            verdict=STARTS,
            queue=queue,
            flavors=flavors,
            nodes=nodes,
            starts_s=starts_us / SECOND_US,
            micro_usd_per_hour=cost,
        )
    found = explain(later, key)
    verdict = NEVER if _is_for_good(later, found, key) else WAITS
    blocker = found.blocker
    return replace(
        one, verdict=verdict, message=blocker.message, queue=queue, flavors=flavors, blocker=blocker
    )


def _admitted(later: Moment, key: Key) -> tuple[str, tuple[str, ...]]:
    """The ClusterQueue that gave it quota, and the flavors."""
    name = workload_of(later.store, key)
    workload = None if name is None else later.store.get(name)
    admission: Obj = {} if workload is None else status_of(workload).get("admission") or {}
    flavors = [f for a in admission.get("podSetAssignments") or () for f in (a.get("flavors") or {}).values()]
    return str(admission.get("clusterQueue") or ""), tuple(dict.fromkeys(map(str, flavors)))


def _is_for_good(later: Moment, found: Explanation, key: Key) -> bool:
    """Whether waiting alone does not help: not even an empty cluster would do."""
    blocker = found.blocker
    if blocker.state != BLOCKED:
        return False
    if blocker.layer in (QUEUE, QUOTA):
        return blocker.reason in _FOR_GOOD
    if blocker.layer != SCHEDULER:
        return True
    waiting = [p for p in pods_of(later.store, key) if not spec_of(p).get("nodeName")]
    return bool(waiting) and not _fits_when_empty(later, waiting[0])


def _fits_when_empty(later: Moment, pod: Obj) -> bool:
    """Asked of the scheduler with every other pod taken off its node, and put back after."""
    store = later.store
    scheduler = later.twin.component("default-scheduler")
    assert isinstance(scheduler, SchedulerComponent)
    mark = store.mark()
    for other in store.objects("Pod"):
        if spec_of(other).get("nodeName"):
            store.delete(key_of(other), grace_s=0)
    verdict, _ = scheduler.asked(pod)
    store.rewind(mark)
    return isinstance(verdict, Scheduled)


def _cost(later: Moment, pods: list[Obj]) -> int | None:
    """µ$ an hour of the part of its nodes that the pods ask for: of the GPUs, or of the CPU where they ask for none."""
    total = 0
    for pod in pods:
        node = later.store.get(Key("Node", "", spec_of(pod).get("nodeName") or ""))
        price = None if node is None else price_of(later.twin, node)
        if node is None or price is None:
            return None
        asked = later.store.accounts.shapes.of(pod).requests
        offers = parse_resources(status_of(node).get("allocatable") or status_of(node).get("capacity") or {})
        by = NVIDIA_GPU if asked.get(NVIDIA_GPU) else CPU
        total += price * asked.get(by, 0) // max(offers.get(by, 0), 1)
    return total
