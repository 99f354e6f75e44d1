"""Moves the requests of every served model, and tells its servers which pods they are.

A pod gets requests a while after it became ready, until a while after it was deleted or stopped being ready. It answers
from when its application is up until SIGTERM (deletion plus preStop). In between, whoever is sent to it finds nobody:
that is what a missing readiness probe or preStop hook costs.

Metrics are as of the last scrape, every 15 seconds, under vLLM's names.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from fairway.cluster.changes import DELETED, Change
from fairway.kube.conditions import is_condition_true
from fairway.kube.labels import Selector, label_selector
from fairway.kube.objects import Key, Obj, meta_of, namespace_of
from fairway.kube.quantity import whole_ceil
from fairway.kube.timestamps import SECOND_US, parse_rfc3339
from fairway.serving import batching
from fairway.serving.disaggregated import Apart
from fairway.serving.fleet import Fleet, Load
from fairway.serving.nature import PLAIN, Nature, parse_nature
from fairway.serving.steptimes import Deployed
from fairway.twin.components import Host
from fairway.twin.kubelet import probing, working
from fairway.twin.kubelet.component import Kubelet
from fairway.twin.kubelet.states import RUNNING, PodState
from fairway.twin.serving.served import Served

NAME: Final = "serving"
KNATIVE: Final = "serving.knative.dev/service"
KNATIVE_REVISION: Final = "serving.knative.dev/revision"
# Source: knative/serving pkg/queue/sharedmain (drainSleepDuration).
_DRAIN_SLEEP_US: Final = 30 * SECOND_US
ROUTE: Final = "HTTPRoute.gateway.networking.k8s.io"
POOL: Final = "InferencePool.inference.networking.k8s.io"
# Pods of this role read prompts for others; an endpoint picker sends requests to those who write.
_ROLE: Final = "llm-d.ai/role"
SCRAPE_US: Final = 15 * SECOND_US
IN, OUT, UP, CLOSE, GONE, PROBE = range(6)
# What a liveness probe that asks for tokens hears while others wait before it.
_TIMED_OUT: Final = (
    'Get "http://{path}": context deadline exceeded (Client.Timeout exceeded while awaiting headers)'
)
# What vLLM's servers say of themselves, with or without the colon that some adapters take away.
_METRICS: Final = {
    "vllm:num_requests_waiting": batching.WAITING,
    "vllm:num_requests_running": batching.RUNNING,
    "vllm:gpu_cache_usage_perc": batching.CACHED,
    "vllm:kv_cache_usage_perc": batching.CACHED,
    "requests_in_flight": batching.HELD,
}


class Sample(NamedTuple):
    """What a scrape found. `values` by replica: waiting, running, cached tokens, held."""

    load: Load
    values: dict[int, dict[int, int]]


class GeneratingProbe(NamedTuple):
    """A liveness probe whose answer has to be generated, so that it waits in line with everybody."""

    path: str
    period_us: int
    timeout_s: float
    failures_most: int


@dataclass(slots=True)
class Endpoint:
    """A run of a pod's container. `steps`: what becomes of it when, in µs, soonest first."""

    replica: int
    started_us: int
    gets_requests: bool = False
    listens: bool = False
    is_gone: bool = False
    probe: GeneratingProbe | None = None
    failures: int = 0
    container: int = 0
    drains: bool = False
    reads: bool = False
    """Only prompts: a server of the fleet before."""
    steps: list[tuple[int, int]] = field(default_factory=list)


@dataclass(slots=True)
class Room:
    """One served model as it stands."""

    served: Served
    fleet: Fleet
    backends: tuple[tuple[str, int], ...] = ()
    """Services and their weights; one without weights where no route is asked."""
    routes: list[tuple[int, tuple[tuple[str, int], ...]]] = field(default_factory=list)
    """Backends to come, and when, in µs."""
    selectors: dict[str, Selector] = field(default_factory=dict)
    """Of the Services that are there."""
    labels: dict[int, dict[str, str]] = field(default_factory=dict)
    """Of every replica there ever was, for its series."""
    natures: dict[int, Nature] = field(default_factory=dict)
    memory_mib: dict[int, float] = field(default_factory=dict)
    runs: dict[str, list[float]] = field(default_factory=dict)
    """When containers of a pod began, in seconds."""
    last_replica: dict[str, int] = field(default_factory=dict)
    endpoints: dict[str, Endpoint] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    due_us: int = -1

    def fork(self) -> Room:
        ends = {uid: replace(end, steps=list(end.steps)) for uid, end in self.endpoints.items()}
        return replace(
            self,
            fleet=self.fleet.fork(),
            endpoints=ends,
            samples=list(self.samples),
            routes=list(self.routes),
            selectors=dict(self.selectors),
            labels={r: dict(given) for r, given in self.labels.items()},
            natures=dict(self.natures),
            memory_mib=dict(self.memory_mib),
            runs={pod: list(at) for pod, at in self.runs.items()},
            last_replica=dict(self.last_replica),
        )

    def fleet_of(self, end: Endpoint) -> Fleet:
        return self.fleet.before if end.reads and isinstance(self.fleet, Apart) else self.fleet

    def groups_of(self, labels: dict[str, str]) -> list[int]:
        """Of a pod with these labels: the backends (Services, pools) that find it, that with the most weight first."""
        if labels.get(_ROLE) == "prefill" and not isinstance(self.fleet, Apart):
            return []
        found = [
            (-weight, i)
            for i, (name, weight) in enumerate(self.backends)
            if name in self.selectors and self.selectors[name].matches(labels)
        ]
        return [i for _, i in sorted(found)]


class Serving:
    """One for all served models of a twin."""

    name = NAME
    kinds: tuple[str, ...] = ("Pod", "Service", ROUTE, POOL)

    def __init__(self, served: Iterable[Served]) -> None:
        self.rooms = [Room(one, _fleet(one)) for one in served]
        for room in self.rooms:
            if not room.served.is_route:
                room.backends = ((room.served.name, 1),)
        self.began_us = 0

    def attach(self, host: Host) -> None:
        self.host = host
        self._h_turn = host.loop.register("serving.turn", self._on_turn)

    def start(self) -> None:
        self.began_us = self.host.loop.now_us
        for number, room in enumerate(self.rooms):
            self._plan(number, room, self.began_us + SCRAPE_US)

    def fork(self) -> Serving:
        twin = object.__new__(Serving)
        twin.rooms = [room.fork() for room in self.rooms]
        twin.began_us = self.began_us
        return twin

    def observe(self, change: Change) -> None:
        obj, is_there = change.obj, change.type != DELETED
        kind = obj.get("kind")
        for number, room in enumerate(self.rooms):
            if room.served.namespace != namespace_of(obj):
                continue
            if kind == "Pod":
                self._see(number, room, obj, is_there=is_there)
            elif kind in ("Service", "InferencePool") and any(
                name == meta_of(obj)["name"] for name, _ in room.backends
            ):
                self._select(room, obj, is_there=is_there)
                self._see_all(number, room)
            elif kind == "HTTPRoute" and room.served.is_route and meta_of(obj)["name"] == room.served.name:
                self._route(number, room, obj if is_there else {})

    def _see_all(self, number: int, room: Room) -> None:
        for pod in self.host.store.objects("Pod", room.served.namespace):
            self._see(number, room, pod, is_there=True)

    def _select(self, room: Room, service: Obj, *, is_there: bool) -> None:
        labels = (service.get("spec") or {}).get("selector")
        if service.get("kind") == "InferencePool":
            labels = (labels or {}).get("matchLabels")
        name = meta_of(service)["name"]
        if not labels and (meta_of(service).get("labels") or {}).get(KNATIVE) == name:
            # A placeholder: whoever asks for a Knative Service is led to its Revisions' pods.
            labels = {KNATIVE: name}
        room.selectors.pop(name, None)
        if labels and is_there:
            room.selectors[name] = label_selector({"matchLabels": labels})

    def _route(self, number: int, room: Room, route: Obj) -> None:
        """The weights of its first rule that leads anywhere; gateways hear of them as late as proxies of pods."""
        rules = (route.get("spec") or {}).get("rules") or ()
        backends: list[Obj] = next((r["backendRefs"] for r in rules if r.get("backendRefs")), [])
        found = tuple((b["name"], int(b.get("weight", 1))) for b in backends)
        now_us = self.host.loop.now_us
        room.routes.append((now_us + room.served.endpoint_us if room.backends else now_us, found))
        self._turn_at(number, room, room.routes[0][0])

    def _reroute(self, number: int, room: Room, backends: tuple[tuple[str, int], ...]) -> None:
        """What has come by now went by the old weights."""
        room.backends = backends
        for fleet in (room.fleet, room.fleet.before) if isinstance(room.fleet, Apart) else (room.fleet,):
            fleet.set_weights([weight for _, weight in backends] or [0])
        for name, _ in backends:
            for gk in ("Service", POOL):
                service = self.host.store.get(Key(gk, room.served.namespace, name))
                if service is not None:
                    self._select(room, service, is_there=True)
        self._see_all(number, room)

    # Who answers

    def _see(self, number: int, room: Room, pod: Obj, *, is_there: bool) -> None:
        """Plan what a pod's state means for its endpoint."""
        now_us, uid = self.host.loop.now_us, meta_of(pod)["uid"]
        groups = room.groups_of(meta_of(pod).get("labels") or {})
        is_ours = bool(groups)
        end = room.endpoints.get(uid)
        state = self._kubelet_state(uid)
        i = state.plan.init_count if state is not None else 0
        running = state is not None and i < len(state.containers) and state.containers[i].state == RUNNING
        if end is not None and (
            not is_there or not running or state is None or _began(state, i) != end.started_us
        ):
            if not running or not is_ours:
                _plan_step(end, now_us, GONE)
                self._turn_at(number, room, now_us)
                return
            # It runs again already: what the run before held is lost with it.
            self._advance(room)
            _carry_out(room, end, GONE)
            end = None
        if not running or state is None or (end is None and not is_ours):
            return
        if end is None:
            self._advance(room)
            reads = (meta_of(pod).get("labels") or {}).get(_ROLE) == "prefill"
            end = Endpoint(-1, _began(state, i), reads=reads)
            (end.replica,) = room.fleet_of(end).add()
            room.fleet_of(end).set_state(end.replica, gets_requests=False)
            room.endpoints[uid] = end
            self._describe(room, end, pod)
            up_us = end.started_us + working.startup_of(state, i)
            _plan_step(end, up_us, UP)
            end.probe, end.container = _generating_probe(pod, i - state.plan.init_count), i
            if end.probe is not None:
                _plan_step(end, up_us + end.probe.period_us, PROBE)
        if is_ours and room.served.is_route:
            self._advance(room)
            room.fleet_of(end).set_groups(end.replica, groups)
        if is_ours and not end.reads:
            room.labels[end.replica]["service"] = room.backends[groups[0]][0]
        is_leaving = "deletionTimestamp" in meta_of(pod)
        is_ready = is_condition_true((pod.get("status") or {}).get("conditions"), "Ready")
        wanted = is_ready and is_ours and not is_leaving
        step = IN if wanted else OUT
        end.steps = [planned for planned in end.steps if planned[1] != (OUT if wanted else IN)]
        if wanted != end.gets_requests and not any(planned == step for _, planned in end.steps):
            _plan_step(end, now_us + room.served.endpoint_us, step)
        if is_leaving and not any(step == CLOSE for _, step in end.steps):
            sigterm_us = _deleted_us(pod) + state.plan.containers[i].pre_stop_us
            if KNATIVE_REVISION in (meta_of(pod).get("labels") or {}):
                # Its queue-proxy goes on for so long, and lets what was begun be finished.
                sigterm_us, end.drains = sigterm_us + _DRAIN_SLEEP_US, True
            _plan_step(end, max(sigterm_us, now_us), CLOSE)
        self._turn_at(number, room, end.steps[0][0] if end.steps else now_us)

    def _describe(self, room: Room, end: Endpoint, pod: Obj) -> None:
        """What its series are called, and what its annotations say of this version of the server.

        Who only reads prompts has no series.
        """
        meta = meta_of(pod)
        annotations = meta.get("annotations") or {}
        nature = (
            parse_nature(annotations["fairway.dev/serving"])
            if "fairway.dev/serving" in annotations
            else PLAIN
        )
        replica = end.replica
        room.fleet_of(end).set_nature(
            replica, slow_permille=nature.slow_permille, fails_permille=nature.fails_permille
        )
        if end.reads:
            return
        room.natures[replica] = nature
        memory = annotations.get("fairway.dev/gpu-memory", "")
        if memory and ":" not in memory:
            room.memory_mib[replica] = whole_ceil(memory) / 2**20
        hash_ = (meta.get("labels") or {}).get("rollouts-pod-template-hash", "")
        room.labels[replica] = {
            "namespace": room.served.namespace,
            "pod": meta["name"],
            "model_name": room.served.deployed.model.name,
            "rollouts_pod_template_hash": hash_,
        }
        room.runs.setdefault(meta["name"], []).append(self._seconds(self.host.loop.now_us))
        room.last_replica[meta["name"]] = replica

    def _kubelet_state(self, uid: str) -> PodState | None:
        kubelet = self.host.parts.get("kubelet")
        return kubelet.pods.get(uid) if isinstance(kubelet, Kubelet) else None

    # Time

    def _seconds(self, at_us: int) -> float:
        return (at_us - self.began_us) / SECOND_US

    def _advance(self, room: Room) -> None:
        at_s = self._seconds(self.host.loop.now_us)
        if at_s > room.fleet.now_s:
            room.fleet.advance(at_s)

    def _turn_at(self, number: int, room: Room, at_us: int) -> None:
        if room.due_us < 0 or at_us < room.due_us:
            self._plan(number, room, at_us)

    def _plan(self, number: int, room: Room, at_us: int) -> None:
        room.due_us = at_us
        self.host.loop.at(at_us, self._h_turn, number)

    def _on_turn(self, number: int) -> None:
        """Carry out what is due, and scrape where it is time."""
        room, now_us = self.rooms[number], self.host.loop.now_us
        if now_us < room.due_us:
            return
        self._advance(room)
        room.due_us = -1
        while room.routes and room.routes[0][0] <= now_us:
            self._reroute(number, room, room.routes.pop(0)[1])
        for uid, end in list(room.endpoints.items()):
            while end.steps and end.steps[0][0] <= now_us:
                step = end.steps.pop(0)[1]
                if step == PROBE:
                    self._probe(room, uid, end)
                else:
                    _carry_out(room, end, step)
            if end.is_gone:
                del room.endpoints[uid]
        if (now_us - self.began_us) % SCRAPE_US == 0:
            room.samples.append(_sample(room))
        scrape_us = now_us + SCRAPE_US - (now_us - self.began_us) % SCRAPE_US
        due = [end.steps[0][0] for end in room.endpoints.values() if end.steps]
        due += [at_us for at_us, _ in room.routes]
        if not room.fleet.is_over:
            due.append(scrape_us)
        room.due_us = -1
        if due:
            self._plan(number, room, min(due))

    def _probe(self, room: Room, uid: str, end: Endpoint) -> None:
        """Fails where whoever is first in line has waited longer than the probe would."""
        probe, kubelet = end.probe, self.host.parts.get("kubelet")
        if probe is None or not end.listens or not isinstance(kubelet, Kubelet):
            return
        fleet, now_us = room.fleet_of(end), self.host.loop.now_us
        row = fleet.replicas[end.replica]
        waited_s = 0.0
        if row[batching.WAITING]:
            waited_s = self._seconds(now_us) - fleet.when[row[batching.HEAD], batching.ARRIVED]
        end.failures = end.failures + 1 if waited_s > probe.timeout_s else 0
        if end.failures >= probe.failures_most:
            probing.fail_liveness(kubelet, uid, end.container, _TIMED_OUT.format(path=probe.path))
        else:
            _plan_step(end, now_us + probe.period_us, PROBE)

    # What is read

    def pod_metric(self, pod: Obj, metric: str) -> tuple[int, int] | None:
        """Of a pod's server, in thousandths, and until when it holds; None: it has no such metric."""
        column = _column(metric)
        if column is None:
            return None
        for room in self.rooms:
            end = room.endpoints.get(meta_of(pod)["uid"])
            if end is not None:
                values = room.samples[-1].values.get(_key(end), {}) if room.samples else {}
                return _milli(room, column, values.get(column, 0), 1), self._holds_until()
        return None

    def totals(self, metric: str) -> list[tuple[tuple[tuple[str, str], ...], str, int, int]]:
        """Labels, namespace, value in thousandths and until when it holds, of every served model."""
        column = _column(metric)
        if column is None:
            return []
        found: list[tuple[tuple[tuple[str, str], ...], str, int, int]] = []
        for room in self.rooms:
            values = room.samples[-1].values if room.samples else {}
            total = sum(of.get(column, 0) for of in values.values())
            if column in (batching.WAITING, batching.HELD) and room.samples:
                # What waits at the gateway while nobody is there.
                here = sum(of[batching.WAITING] for of in values.values())
                total += room.samples[-1].load.waiting - here
            labels = (("model_name", room.served.deployed.model.name), ("service", room.served.name))
            milli = _milli(room, column, total, max(len(values), 1))
            found.append((labels, room.served.namespace, milli, self._holds_until()))
        return found

    def metric_names(self) -> list[str]:
        return list(_METRICS) if self.rooms else []

    def _holds_until(self) -> int:
        now_us = self.host.loop.now_us
        return now_us + SCRAPE_US - (now_us - self.began_us) % SCRAPE_US

    def finish(self) -> None:
        """Everything up to now, for whoever reads what requests got."""
        for room in self.rooms:
            self._advance(room)


def _column(metric: str) -> int | None:
    return _METRICS.get(metric) if ":" in metric else _METRICS.get(metric.replace("vllm_", "vllm:", 1))


def _milli(room: Room, column: int, value: int, replicas: int) -> int:
    if column != batching.CACHED:
        return value * 1000
    return round(1000 * value / (room.fleet.times.cache_tokens * replicas))


def _key(end: Endpoint) -> int:
    """Of a sample's values; servers that only read prompts below zero."""
    return -1 - end.replica if end.reads else end.replica


def _fleet(served: Served) -> Fleet:
    if served.reads is None or not isinstance(served.deployed, Deployed):
        return Fleet(served.deployed, served.requests, served.gateway)
    return Apart(served.deployed, served.requests, served.gateway, served.reads, served.link_bytes_per_s)


def _sample(room: Room) -> Sample:
    columns = sorted(set(_METRICS.values()))
    values = {
        _key(end): {column: int(room.fleet_of(end).replicas[end.replica, column]) for column in columns}
        for end in room.endpoints.values()
    }
    return Sample(room.fleet.load(), values)


def _carry_out(room: Room, end: Endpoint, step: int) -> None:
    fleet = room.fleet_of(end)
    if step == GONE:
        fleet.kill(end.replica)
        end.is_gone, end.steps = True, []
        return
    if step == CLOSE and not room.served.drains and not end.drains:
        fleet.abort(end.replica)
    end.gets_requests = step == IN or (end.gets_requests and step != OUT)
    end.listens = step == UP or (end.listens and step != CLOSE)
    fleet.set_state(end.replica, gets_requests=end.gets_requests, listens=end.listens)


def _generating_probe(pod: Obj, i: int) -> GeneratingProbe | None:
    containers = (pod.get("spec") or {}).get("containers") or []
    raw = containers[i].get("livenessProbe") if 0 <= i < len(containers) else None
    path = str(((raw or {}).get("httpGet") or {}).get("path") or "")
    if raw is None or not path.rstrip("/").endswith(("/generate", "/completions")):
        return None
    period_us = int(raw.get("periodSeconds") or 10) * SECOND_US
    return GeneratingProbe(
        path, period_us, float(raw.get("timeoutSeconds") or 1), int(raw.get("failureThreshold") or 3)
    )


def _plan_step(end: Endpoint, at_us: int, step: int) -> None:
    end.steps.append((at_us, step))
    end.steps.sort()


def _began(state: PodState, i: int) -> int:
    return state.containers[i].started_us


def _deleted_us(pod: Obj) -> int:
    meta: dict[str, Any] = meta_of(pod)
    return (
        parse_rfc3339(meta["deletionTimestamp"])
        - int(meta.get("deletionGracePeriodSeconds") or 0) * SECOND_US
    )
