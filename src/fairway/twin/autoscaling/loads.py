"""Lets the pods of a load use what it says, and answers what its series and queues are.

What a pod uses becomes steps of its behaviour, as its annotations' would: whoever reads usage (metrics-server's API,
kubelets' pages, autoscalers, reports) reads the same. It is divided anew whenever a pod becomes ready or not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from fairway.autoscaling.hpa.podgroups import ready_condition
from fairway.autoscaling.keda.external import Answer, Asked, Metric
from fairway.autoscaling.keda.scaledjobs import NAME_LABEL
from fairway.autoscaling.load import queues
from fairway.autoscaling.load.curves import Curve, constant
from fairway.autoscaling.load.queues import Level, Queue
from fairway.autoscaling.load.reading import Load, Series, WorkloadLoad
from fairway.autoscaling.source import NEVER_US
from fairway.kube.kinds import find_kind
from fairway.kube.labels import EVERYTHING, Selector, label_selector
from fairway.kube.objects import Key, Obj, dig
from fairway.kube.quantity import milli_ceil
from fairway.twin.autoscaling.podindex import Label, handle_of
from fairway.twin.behaviour import using
from fairway.twin.kubelet.component import Kubelet
from fairway.twin.kubelet.states import PodState

if TYPE_CHECKING:
    from fairway.twin.autoscaling.component import Autoscaling
    from fairway.twin.serving.component import Serving

# Steps of one container that are kept: beyond, the oldest are forgotten (a counter then starts a little lower).
_STEPS_KEPT: Final = 4096


@dataclass(slots=True)
class Given:
    """One description, and when it began. `name` of its ConfigMap; empty for the scenario's."""

    load: Load
    began_us: int
    levels: list[Level] = field(default_factory=list)


class Value(NamedTuple):
    """A value in thousandths, and when it may be another."""

    milli: int
    until_us: int


class Loads:
    """All descriptions of load of a twin."""

    def __init__(self, room: Autoscaling) -> None:
        self._room = room
        self.given: dict[str, Given] = {}
        self._by_label: dict[Label, list[tuple[str, int]]] = {}
        self._ready: dict[tuple[str, str, str], int] = {}
        """Ready pods by workload, as they were when its queues were last advanced."""
        self._by_name: dict[str, list[tuple[Given, Series]]] = {}
        self._now_us = -1
        self._now: dict[tuple[str, Selector | None], list[tuple[Series, Value]]] = {}
        """Series by name and selector, as they are at `_now_us`."""

    def fork(self, room: Autoscaling) -> Loads:
        twin = Loads(room)
        twin.given = {name: Given(g.load, g.began_us, list(g.levels)) for name, g in self.given.items()}
        twin._by_label = {label: list(of) for label, of in self._by_label.items()}
        twin._ready = dict(self._ready)
        for given in twin.given.values():
            for one in given.load.series:
                if not one.scaler:
                    twin._by_name.setdefault(one.name, []).append((given, one))
        return twin

    def put(self, name: str, load: Load, began_us: int) -> None:
        levels = [Level(began_us, q.length_milli) for q in load.queues]
        self.given[name] = Given(load, began_us, levels)
        named = [w.kind for w in load.workloads] + [q.consumers.kind for q in load.queues if q.consumers]
        self._room.watch(*(found.group_kind for kind in dict.fromkeys(named) if (found := find_kind(kind))))
        self._reindex()
        self.count_consumers()
        self.apply(name)

    def drop(self, name: str) -> None:
        if self.given.pop(name, None) is not None:
            self._reindex()

    def _reindex(self) -> None:
        self._now_us = -1
        self._by_name = {}
        for given in self.given.values():
            for one in given.load.series:
                if not one.scaler:
                    self._by_name.setdefault(one.name, []).append((given, one))
        self._by_label = {}
        for name, given in self.given.items():
            for number, workload in enumerate(given.load.workloads):
                handle = handle_of(
                    workload.namespace, self.selector(workload.kind, workload.namespace, workload.name)
                )
                if handle is not None:
                    self._by_label.setdefault(handle, []).append((name, number))

    # What pods use

    def selector(self, kind: str, namespace: str, name: str) -> Selector:
        """Of a workload; of one that is not there, a selector of nothing (kept apart by its lack of labels)."""
        found = find_kind(kind)
        obj = None if found is None else self._room.host.store.get(Key(found.group_kind, namespace, name))
        raw = dig(obj, "spec", "selector") if obj is not None else None
        if obj is not None and kind == "ScaledJob":
            raw = {NAME_LABEL: name}
        if raw is None:
            return EVERYTHING
        plain = "matchLabels" not in raw and "matchExpressions" not in raw
        return label_selector({"matchLabels": raw} if plain else raw)

    def ready_pods(self, kind: str, namespace: str, name: str) -> list[Obj]:
        selector = self.selector(kind, namespace, name)
        if selector == EVERYTHING:
            return []
        return [pod for pod in self._room.index.pods(namespace, selector) if is_ready(pod)]

    def workload_appeared(self) -> None:
        """A workload that a load may be about is there now, or selects others."""
        self._reindex()
        for name in self.given:
            self.apply(name)

    def pod_changed(self, label: Label) -> None:
        for name, number in self._by_label.get(label, ()):
            self._apply_to(self.given[name], self.given[name].load.workloads[number])

    def apply(self, name: str) -> None:
        """Divide every load of a description now, and plan when it is another."""
        given = self.given[name]
        next_us = NEVER_US
        for workload in given.load.workloads:
            next_us = min(next_us, self._apply_to(given, workload))
        if next_us < NEVER_US:
            self._room.plan_load(name, next_us)

    def _apply_to(self, given: Given, workload: WorkloadLoad) -> int:
        """Returns when the load is another."""
        amounts = {
            name: curve for name, curve in (*workload.total, *workload.each) if name in ("cpu", "memory")
        }
        now_us = self._room.host.loop.now_us
        since_us = now_us - given.began_us
        next_us = min((c.changes_at(since_us) for c in amounts.values()), default=NEVER_US)
        kubelet = self._room.host.parts.get("kubelet")
        if amounts and isinstance(kubelet, Kubelet):
            ready = self.ready_pods(workload.kind, workload.namespace, workload.name)
            cpu = share(workload, "cpu", since_us, len(ready))
            memory = share(workload, "memory", since_us, len(ready))
            for pod in ready:
                state = kubelet.pods.get(pod["metadata"]["uid"])
                if state is not None and _use(state, pod, now_us, cpu, memory):
                    self._room.usage_changed(pod)
        return given.began_us + next_us

    @property
    def _serving(self) -> Serving | None:
        # Not asked for its class: what it is made of is loaded only where something is served.
        return cast("Serving | None", self._room.host.parts.get("serving"))

    def pod_metric(self, pod: Obj, metric: str) -> Value | None:
        """What a pod reports under this name: as a model server, or by the load of its workload."""
        served = self._serving.pod_metric(pod, metric) if self._serving else None
        if served is not None:
            return Value(*served)
        now_us = self._room.host.loop.now_us
        for key, value in (pod["metadata"].get("labels") or {}).items():
            for name, number in self._by_label.get((pod["metadata"]["namespace"], key, value), ()):
                given = self.given[name]
                workload = given.load.workloads[number]
                curves = [c for n, c in (*workload.total, *workload.each) if n == metric]
                if curves:
                    count = len(self.ready_pods(workload.kind, workload.namespace, workload.name))
                    since_us = now_us - given.began_us
                    milli = share(workload, metric, since_us, count) or 0
                    return Value(milli if is_ready(pod) else 0, _until(given.began_us, curves, since_us))
        return None

    # Series and queues

    def series(self, metric: str, selector: Selector | None = None) -> list[tuple[Series, Value]]:
        """Every series of this name that is selected, as it is now. Worked out once for all who ask at one time."""
        now_us = self._room.host.loop.now_us
        if self._now_us != now_us:
            self._now_us, self._now = now_us, {}
        known = self._now.get((metric, selector))
        if known is None:
            known = self._now[(metric, selector)] = []
            for given, one in self._by_name.get(metric, ()):
                if selector is not None and not selector.matches(dict(one.labels)):
                    continue
                since_us = now_us - given.began_us
                known.append((one, Value(one.at(since_us), _until(given.began_us, [one], since_us))))
            for labels, namespace, milli, until_us in self._serving.totals(metric) if self._serving else ():
                if selector is None or selector.matches(dict(labels)):
                    known.append((Series(metric, namespace, constant(milli), labels), Value(milli, until_us)))
        return known

    # As Prometheus would have it

    def described(self, metric: str) -> list[tuple[Given, Series]]:
        """Series of this name whose past is known: those that a load describes."""
        return self._by_name.get(metric, [])

    def until_us(self, given: Given, one: Series) -> int:
        return _until(given.began_us, [one], self._room.host.loop.now_us - given.began_us)

    def of_now(self, metric: str) -> Iterator[tuple[dict[str, str], Value]]:
        """Labels and values of what only now is known of: served models, queues, and pods by what they report."""
        for labels, namespace, milli, until_us in self._serving.totals(metric) if self._serving else ():
            yield {**dict(labels), "namespace": namespace}, Value(milli, until_us)
        for queue, _level, _ready, length in self.queues():
            if metric in (queue.metric or queue.name, queue.name):
                yield {"queue": queue.name, "namespace": queue.namespace}, length
        for given in self.given.values():
            for workload in given.load.workloads:
                if metric not in ("cpu", "memory") and metric in _reported(workload):
                    for pod in self.ready_pods(workload.kind, workload.namespace, workload.name):
                        value = self.pod_metric(pod, metric)
                        if value is not None:
                            meta = pod["metadata"]
                            yield {"namespace": meta["namespace"], "pod": meta["name"]}, value

    def has(self, metric: str) -> bool:
        """Whether any load or served model has a metric of this name."""
        return metric in self._by_name or metric in self.names()

    def names(self) -> list[str]:
        """Of all metrics, sorted."""
        found = {*self._by_name, *(self._serving.metric_names() if self._serving else ())}
        for given in self.given.values():
            found |= {name for queue in given.load.queues for name in (queue.metric, queue.name) if name}
            found |= {n for w in given.load.workloads for n in _reported(w)} - {"cpu", "memory"}
        return sorted(found)

    def scaler(self, asked: Asked) -> Answer | None:
        """What an external scaler answers; None where no load describes one at its address."""
        metrics, values, until_us = [], {}, NEVER_US
        for given in self.given.values():
            since_us = self._room.host.loop.now_us - given.began_us
            for one in given.load.series:
                is_other = one.scaler != asked.address or one.namespace not in ("", asked.key.namespace)
                if is_other or not set(one.labels) <= set(asked.metadata):
                    continue
                metrics.append(Metric(one.name, one.target_milli))
                values[one.name] = one.at(since_us)
                until_us = min(until_us, _until(given.began_us, [one], since_us))
        if not metrics:
            return None
        return Answer(tuple(metrics), values, any(v > 0 for v in values.values()), until_us)

    def metric_names(self, *, of_objects: bool) -> list[str]:
        """As an adapter lists them: `pods/NAME` and `services/NAME`, or the names of external ones. Sorted."""
        served = self._serving.metric_names() if self._serving else []
        found: dict[str, None] = {f"pods/{name}" if of_objects else name: None for name in served}
        for given in self.given.values():
            for series in given.load.series:
                if series.about is not None and of_objects:
                    kind = find_kind(series.about[0])
                    found[f"{kind.plural if kind else series.about[0].lower()}/{series.name}"] = None
                elif series.about is None and not of_objects and not series.scaler:
                    found[series.name] = None
            if of_objects:
                named = [n for w in given.load.workloads for n, _ in (*w.total, *w.each)]
                found.update({f"pods/{name}": None for name in named if name not in ("cpu", "memory")})
            else:
                found.update({queue.metric or queue.name: None for queue in given.load.queues})
        return sorted(found)

    def queues(self) -> list[tuple[Queue, Level, int, Value]]:
        """Every queue as it is now: itself, its level, how many consumers are ready, and its length."""
        now_us, found = self._room.host.loop.now_us, []
        for given in self.given.values():
            for number, queue in enumerate(given.load.queues):
                level, ready = self._advance(given, number, queue, now_us)
                until_us = queues.changes_at(queue, level, ready, given.began_us)
                found.append(
                    (queue, level, ready, Value(queues.length(queue, level, ready, given.began_us), until_us))
                )
        return found

    def _advance(self, given: Given, number: int, queue: Queue, now_us: int) -> tuple[Level, int]:
        """Up to now, with the consumers that were ready since; then with those that are."""
        consumers = queue.consumers
        who = (consumers.kind, consumers.namespace, consumers.name) if consumers else ("", "", "")
        before = self._ready.get(who, 0)
        level = given.levels[number]
        if level.at_us < now_us:
            level = given.levels[number] = queues.advanced(queue, level, before, given.began_us, now_us)
        return level, before

    def count_consumers(self) -> None:
        """Pods became ready, or stopped being so: queues flow otherwise from here on."""
        now_us = self._room.host.loop.now_us
        for given in self.given.values():
            for queue in given.load.queues:
                if queue.consumers is None:
                    continue
                who = (queue.consumers.kind, queue.consumers.namespace, queue.consumers.name)
                ready = len(self.ready_pods(*who))
                if ready != self._ready.get(who, 0):
                    for other in self.given.values():
                        for i, q in enumerate(other.load.queues):
                            self._advance(other, i, q, now_us)
                    self._ready[who] = ready


def _until(began_us: int, curves: Sequence[Curve | Series], since_us: int) -> int:
    changes_us = min((c.changes_at(since_us) for c in curves), default=NEVER_US)
    return began_us + changes_us if changes_us < NEVER_US else NEVER_US


def _reported(workload: WorkloadLoad) -> list[str]:
    return [name for name, _ in (*workload.total, *workload.each)]


def share(workload: WorkloadLoad, metric: str, since_us: int, ready: int) -> int | None:
    """What each ready pod has of a metric, in thousandths; None where the load does not say."""
    total = next((c for n, c in workload.total if n == metric), None)
    each = next((c for n, c in workload.each if n == metric), None)
    if total is None and each is None:
        return None
    of_total = total.at(since_us) // ready if total is not None and ready else 0
    return of_total + (each.at(since_us) if each is not None else 0)


def is_ready(pod: Obj) -> bool:
    condition = ready_condition(pod.get("status") or {})
    is_leaving = "deletionTimestamp" in pod["metadata"]
    return condition is not None and condition.get("status") == "True" and not is_leaving


def _use(state: PodState, pod: Obj, now_us: int, cpu: int | None, memory: int | None) -> bool:
    """From now on the pod's first container uses that much, as far as its limits let it. False: as before."""
    number = state.plan.init_count
    if number >= len(state.containers):
        return False
    since_us = now_us - state.containers[number].work_from_us
    behaviour = state.plan.behaviours[number]
    limits = (pod["spec"]["containers"][0].get("resources") or {}).get("limits") or {}
    cpu_steps, memory_steps = behaviour.cpu_milli, behaviour.memory_bytes
    if cpu is not None:
        most = milli_ceil(limits["cpu"]) if limits.get("cpu") else cpu
        cpu_steps = _stepped(cpu_steps, since_us, min(cpu, most))
    if memory is not None:
        memory_steps = _stepped(memory_steps, since_us, memory // 1000)
    if cpu_steps is behaviour.cpu_milli and memory_steps is behaviour.memory_bytes:
        return False
    new = using(behaviour, cpu_steps, memory_steps)
    behaviours = (*state.plan.behaviours[:number], new, *state.plan.behaviours[number + 1 :])
    state.plan = state.plan.behaving(behaviours, state.plan.problem)
    return True


def _stepped(steps: tuple[tuple[int, int], ...], since_us: int, level: int) -> tuple[tuple[int, int], ...]:
    if steps and steps[-1][1] == level:
        return steps
    kept = tuple(s for s in steps if s[0] < since_us)
    return (*kept[-_STEPS_KEPT:], (since_us, level))
