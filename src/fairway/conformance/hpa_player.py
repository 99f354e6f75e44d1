"""Runs the autoscalers of a recorded scenario over its inputs.

Source of how events are counted and dropped: client-go tools/record/events_cache.go (v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final, NamedTuple

import msgspec

from fairway.autoscaling.hpa.decide import decide
from fairway.autoscaling.hpa.memory import NOTHING, Memory, ScaleEvent
from fairway.autoscaling.hpa.settings import Settings
from fairway.autoscaling.scales import Scale, selector_text
from fairway.autoscaling.source import MetricsError, MetricsSource, PodUsage, PodValue
from fairway.cluster.mergepatch import merge_patch
from fairway.kube.defaults import apply_defaults
from fairway.kube.kinds import BY_GROUP_KIND, group_kind
from fairway.kube.labels import Selector
from fairway.kube.objects import Obj, labels_of, name_of
from fairway.kube.quantity import milli_ceil
from fairway.kube.timestamps import MINUTE_US, SECOND_US, parse_rfc3339, rfc3339

_BEGAN_US: Final = parse_rfc3339("2026-01-05T00:00:00Z")
_DOWN: Final = "the metrics backend is down"
_CONFLICT: Final = (
    'Operation cannot be fulfilled on horizontalpodautoscalers.autoscaling "{}": the object has been modified; '
    "please apply your changes to the latest version and try again"
)
# Between reading metrics and writing a status: whoever changes the autoscaler within it causes a conflict.
_WRITE_S: Final = 0.15
# Events about one object beyond these are dropped. Source: defaultSpamBurst, defaultSpamQPS.
_BURST: Final = 25
_TOKEN_US: Final = 300 * SECOND_US

Said = tuple[str, str, str]
State = tuple[int, int, tuple[tuple[str, ...], ...], str]
"""Current and desired replicas, conditions without times, current metrics."""


@dataclass(slots=True)
class Played:
    """What was written, changed and said, and when (seconds since the autoscaler was created)."""

    states: list[tuple[float, State]] = field(default_factory=list)
    scales: list[tuple[float, int]] = field(default_factory=list)
    events: list[tuple[float, Said]] = field(default_factory=list)


class Timing(NamedTuple):
    """What a recording does not tell, in µs: how much later looks read than they are told to, how much later a change
    is noted, and where within a second it all began."""

    shift_us: int = 0
    lag_us: int = 0
    phase_us: int = 0


def play(row: Mapping[str, Any], settings: Settings, timing: Timing) -> Played:
    """All that the last autoscaler of a scenario does."""
    target = next(o for o in row["objects"] if o.get("kind") != "HorizontalPodAutoscaler")
    namespace = next(
        (o["metadata"]["namespace"] for o in row["objects"] if "namespace" in o["metadata"]), "default"
    )
    scalers = [_prepared(o, namespace) for o in row["objects"] if o.get("kind") == "HorizontalPodAutoscaler"]
    player = _Player(row, target, scalers, settings, timing)
    watched = name_of(scalers[-1])
    played = Played(states=[(-1.0, state_of({}, set()))], scales=[(0.0, row["steps"][0]["specReplicas"])])
    for before, step in pairwise(row["steps"]):
        if step["why"].startswith("script") and step["specReplicas"] != before["specReplicas"]:
            played.scales.append((step["t"], step["specReplicas"]))
    for at in _looks(row, settings.sync_us):
        player.look(at, at + timing.shift_us / SECOND_US, played, watched)
    return played


def _prepared(scaler: Obj, namespace: str) -> Obj:
    meta = {**scaler["metadata"], "namespace": namespace}
    return apply_defaults({"apiVersion": "autoscaling/v2", **scaler, "metadata": meta})


def _looks(row: Mapping[str, Any], every_us: int) -> list[float]:
    """When the controller looked: where it asked for metrics, and every period between."""
    every = every_us / SECOND_US
    asked: list[float] = []
    for sync in row["syncs"]:
        if not asked or sync["t"] - asked[-1] > every / 2:
            asked.append(sync["t"])
    looks: list[float] = []
    last = 0.0
    for at in asked:
        missing = max(round((at - last) / (every * 1.01)) - 1, 0)
        looks.extend(last + (at - last) * (i + 1) / (missing + 1) for i in range(missing))
        looks.append(at)
        last = at
    end = max([o["t"] for o in row["observed"]], default=0.0)
    while last + every <= end:
        last += every * 1.01
        looks.append(last)
    return looks


class _Player:
    def __init__(
        self, row: Mapping[str, Any], target: Obj, scalers: list[Obj], settings: Settings, timing: Timing
    ) -> None:
        self.steps: Sequence[Mapping[str, Any]] = row["steps"]
        self.target = target
        self.settings = settings
        self.timing = timing
        self.began_us = _BEGAN_US + timing.phase_us
        self.scalers = {name_of(s): s for s in scalers}
        self.memories: dict[str, Memory] = dict.fromkeys(self.scalers, NOTHING)
        self.selectors: dict[str, Selector] = {}
        self.tokens = {name: (float(_BURST), self.began_us) for name in self.scalers}
        self.changed = 0
        self.scaled: int | None = None
        """What the target was scaled to since the last step."""
        said = [e["reason"] for o in row["observed"] for e in o["events"]]
        self.conflicts = "FailedUpdateStatus" in said

    def look(self, at: float, read: float, played: Played, watched: str) -> None:
        """One sync of every autoscaler, over the inputs at `read`."""
        now_us = self.began_us + round(at * SECOND_US)
        self._change(read, watched)
        known = [s for s in self.steps if s["t"] <= max(read, 0.0)]
        step = known[-1]
        if len(known) == len(self.steps) and self.scaled is not None:
            # The recorder no longer let pods follow: only the scale is another.
            step = {**step, "specReplicas": self.scaled}
        wanted = step["specReplicas"]
        for name, scaler in self.scalers.items():
            world = _World(self, step, now_us)
            scale = self._scale(scaler, step, wanted)
            decision = decide(scaler, scale, world, self.memories[name], self.settings, now_us)
            self.memories[name] = decision.memory
            if decision.replicas is not None:
                wanted = decision.replicas
                played.scales.append((at, wanted))
                self.scaled = wanted
                self.memories[name] = self._noted(decision.memory, now_us)
            events = list(decision.events)
            if name == watched and self._is_overtaken(at):
                events.append(("Warning", "FailedUpdateStatus", _CONFLICT.format(name)))  # type: ignore[arg-type]
            else:
                self.scalers[name] = {**scaler, "status": decision.status}
                if name == watched:
                    played.states.append((at, state_of(decision.status, world.names)))
            for event in events:
                if self._may_say(name, now_us):
                    said = (event[0], event[1], canonical_message(event[2], world.names))
                    played.events.append((at, said))

    def _noted(self, memory: Memory, now_us: int) -> Memory:
        """With the change just made noted a moment later."""

        def later(events: tuple[ScaleEvent, ...]) -> tuple[ScaleEvent, ...]:
            late = self.timing.lag_us
            return tuple(e._replace(at_us=e.at_us + late) if e.at_us == now_us else e for e in events)

        return replace(memory, ups=later(memory.ups), downs=later(memory.downs))

    def _change(self, until: float, watched: str) -> None:
        """What was changed of the autoscaler meanwhile."""
        while self.changed < len(self.steps) and self.steps[self.changed]["t"] <= until:
            change = _specification(self.steps[self.changed])
            self.changed += 1
            self.scaled = None
            if change:
                scaler = self.scalers[watched]
                spec = merge_patch(scaler["spec"], change)
                self.scalers[watched] = apply_defaults({**scaler, "spec": spec})

    def _is_overtaken(self, at: float) -> bool:
        return self.conflicts and any(_specification(s) and at < s["t"] <= at + _WRITE_S for s in self.steps)

    def _scale(self, scaler: Obj, step: Mapping[str, Any], wanted: int) -> Scale | str:
        """The target's scale, or the API server's words where there is none."""
        ref = scaler["spec"]["scaleTargetRef"]
        group = ref["apiVersion"].rpartition("/")[0]
        kind = BY_GROUP_KIND.get(group_kind(ref["apiVersion"], ref["kind"]))
        if kind is None:
            return f'no matches for kind "{ref["kind"]}" in group "{group}"'
        if ref["kind"] != self.target["kind"] or ref["name"] != name_of(self.target):
            plural = f"{kind.plural}.{group}" if group else kind.plural
            return f'{plural} "{ref["name"]}" not found'
        return Scale(wanted, step["statusReplicas"], selector_text(self.target, ""))

    def _may_say(self, name: str, now_us: int) -> bool:
        tokens, since_us = self.tokens[name]
        tokens = min(tokens + (now_us - since_us) / _TOKEN_US, _BURST)
        self.tokens[name] = (tokens - 1 if tokens >= 1 else tokens, now_us)
        return tokens >= 1


def _specification(step: Mapping[str, Any]) -> Any:
    """What a script changes of the autoscaler."""
    _, _, change = step["why"].partition(" hpa=")
    return msgspec.json.decode(change) if change else None


class _World:
    """A step, as the controller sees it."""

    def __init__(self, player: _Player, step: Mapping[str, Any], now_us: int) -> None:
        self.player = player
        self.step = step
        self.now_us = now_us
        self.names = {p["name"] for p in step["pods"]}

    @property
    def metrics(self) -> MetricsSource:
        return self

    def pods(self, namespace: str, selector: Selector) -> list[Obj]:
        at_us = self.player.began_us + round(self.step["t"] * SECOND_US)
        spec = self.player.target["spec"]
        labels = labels_of(spec["template"])
        found = [_pod(p, labels, at_us) for p in self.step["pods"]]
        return [pod for pod in found if selector.matches(labels_of(pod))]

    def autoscalers_of(self, pods: Sequence[Obj], key: tuple[str, str], selector: Selector) -> Sequence[str]:
        known = self.player.selectors
        known[key[1]] = selector
        return [
            f"{key[0]}/{name}"
            for name in sorted(known)
            if any(known[name].matches(labels_of(pod)) for pod in pods)
        ]

    def _asked(self, *apis: str) -> Mapping[str, Any]:
        given: Mapping[str, Any] = self.step["metrics"]
        if any(api in (given.get("fail") or ()) for api in apis):
            raise MetricsError(_DOWN)
        return given

    def usage(self, namespace: str, selector: Selector) -> dict[str, PodUsage]:
        found = {}
        for pod, told in (self._asked("resource").get("resource") or {}).items():
            at_us = self.now_us - round(told["timestampSecondsAgo"] * SECOND_US)
            containers = {
                name: {resource: milli_ceil(amount) for resource, amount in usage.items()}
                for name, usage in told["containers"].items()
            }
            window_us = round(told["windowSeconds"] * SECOND_US)
            found[pod] = PodUsage(at_us // SECOND_US * SECOND_US, window_us, containers)
        return found

    def of_pods(
        self, namespace: str, metric: str, selector: Selector, metric_selector: Selector | None
    ) -> dict[str, PodValue]:
        values = (self._asked("pods", "custom").get("pods") or {}).get(metric) or {}
        return {pod: PodValue(self.now_us, MINUTE_US, milli_ceil(v)) for pod, v in values.items()}

    def of_object(
        self, namespace: str, metric: str, described: Mapping[str, str], metric_selector: Selector | None
    ) -> int:
        values = (self._asked("object", "custom").get("object") or {}).get(metric) or {}
        kind = BY_GROUP_KIND.get(group_kind(described.get("apiVersion") or "", described["kind"]))
        plural = kind.plural if kind else f"{described['kind'].lower()}s"
        value = values.get(f"{plural}/{described['name']}")
        if value is None:
            raise MetricsError(
                f"the server could not find the metric {metric} for {plural} {described['name']}"
            )
        return milli_ceil(value)

    def external(self, namespace: str, metric: str, metric_selector: Selector | None) -> list[int]:
        return [milli_ceil(v) for v in (self._asked("external").get("external") or {}).get(metric) or ()]


def _pod(told: Mapping[str, Any], labels: Mapping[str, str], at_us: int) -> Obj:
    meta: dict[str, Any] = {"name": told["name"], "labels": dict(labels)}
    if told["deleting"]:
        meta["deletionTimestamp"] = rfc3339(at_us)
    status: dict[str, Any] = {"phase": told["phase"]}
    if told.get("startSecondsAgo") is not None:
        status["startTime"] = rfc3339(at_us - round(told["startSecondsAgo"] * SECOND_US))
    if told.get("readyChangedSecondsAgo") is not None:
        ready = "True" if told["ready"] else "False"
        since = rfc3339(at_us - round(told["readyChangedSecondsAgo"] * SECOND_US))
        status["conditions"] = [{"type": "Ready", "status": ready, "lastTransitionTime": since}]
    containers = [
        {"name": name, "resources": {"requests": dict(requests or {})}}
        for name, requests in told["containers"].items()
    ]
    return {"metadata": meta, "spec": {"containers": containers}, "status": status}


def state_of(told: Mapping[str, Any], pods: set[str]) -> State:
    """A status as it is compared."""
    conditions = tuple(
        (c["type"], c["status"], c["reason"], canonical_message(c["message"], pods))
        for c in told.get("conditions") or ()
    )
    metrics = told.get("currentMetrics")
    return (
        told.get("currentReplicas") or 0,
        told.get("desiredReplicas") or 0,
        conditions,
        "" if metrics is None else _text(metrics),
    )


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {_text(v)}" for k, v in sorted(value.items())) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_text, value)) + "]"
    return str(value)


_POD_NAMED: Final = re.compile(
    r"(missing (?:pod-level )?request for \S+ (?:in container \S+ of|in) Pod )(\S+)"
)
_LISTED: Final = re.compile(r"(are controlled by multiple HPAs: \[)([^\]]*)\]")


def canonical_message(message: str, pods: set[str]) -> str:
    """With any one pod for each pod of the target, and autoscalers in order: both depend on Go's maps."""

    def any_pod(found: re.Match[str]) -> str:
        return found[1] + ("…" if found[2] in pods else found[2])

    def in_order(found: re.Match[str]) -> str:
        return f"{found[1]}{' '.join(sorted(found[2].split()))}]"

    return _LISTED.sub(in_order, _POD_NAMED.sub(any_pod, message))
