"""An autoscaler, its target and its world, written by hand.

fleet = Fleet(replicas=3, metrics=[cpu(50)]).using(cpu="900m")
assert fleet.look().replicas == 6
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

from fairway.autoscaling.hpa.decide import Decision, decide
from fairway.autoscaling.hpa.memory import NOTHING
from fairway.autoscaling.hpa.settings import DEFAULT, Settings
from fairway.autoscaling.scales import Scale
from fairway.autoscaling.source import MetricsError, PodUsage, PodValue
from fairway.kube.defaults import apply_defaults
from fairway.kube.labels import Selector
from fairway.kube.objects import Obj
from fairway.kube.quantity import milli_ceil
from fairway.kube.timestamps import HOUR_US, MINUTE_US, SECOND_US, rfc3339

NOW_US = 1_800_000_000 * SECOND_US


def cpu(percent: int) -> Obj:
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def resource(name: str, average: str) -> Obj:
    target = {"type": "AverageValue", "averageValue": average}
    return {"type": "Resource", "resource": {"name": name, "target": target}}


def external(name: str, **target: str) -> Obj:
    kind = "Value" if "value" in target else "AverageValue"
    return {"type": "External", "external": {"metric": {"name": name}, "target": {"type": kind, **target}}}


def pods(name: str, average: str) -> Obj:
    target = {"type": "AverageValue", "averageValue": average}
    return {"type": "Pods", "pods": {"metric": {"name": name}, "target": target}}


def service(name: str, **target: str) -> Obj:
    kind = "Value" if "value" in target else "AverageValue"
    described = {"apiVersion": "v1", "kind": "Service", "name": "web"}
    told = {"metric": {"name": name}, "target": {"type": kind, **target}, "describedObject": described}
    return {"type": "Object", "object": told}


class Fleet:
    def __init__(
        self,
        replicas: int,
        metrics: Sequence[Obj],
        *,
        low: int = 1,
        high: int = 100,
        behavior: Obj | None = None,
        settings: Settings = DEFAULT,
    ) -> None:
        spec: dict[str, Any] = {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": low,
            "maxReplicas": high,
            "metrics": list(metrics),
        }
        if behavior is not None:
            spec["behavior"] = behavior
        self.scaler = apply_defaults(
            {
                "apiVersion": "autoscaling/v2",
                "kind": "HorizontalPodAutoscaler",
                "metadata": {"name": "web", "namespace": "shop"},
                "spec": spec,
            }
        )
        self.settings = settings
        self.memory = NOTHING
        self.now_us = NOW_US
        self.selector = "app=web"
        self.rivals: list[str] = ["shop/web"]
        self.down: str = ""
        self.usages: dict[str, dict[str, str]] = {}
        self.values: dict[str, dict[str, str]] = {}
        self.totals: dict[str, list[str]] = {}
        self.of(replicas)

    def of(self, replicas: int) -> Self:
        """So many pods, all old and ready."""
        self.replicas = replicas
        self.list = [pod(f"p{i}", self.now_us) for i in range(replicas)]
        return self

    def using(self, **usage: str) -> Self:
        """What each pod's container uses."""
        self.usages = {p["metadata"]["name"]: dict(usage) for p in self.list}
        return self

    def after(self, seconds: float) -> Self:
        self.now_us += round(seconds * SECOND_US)
        return self

    def look(self, scale: Scale | str | None = None) -> Decision:
        there = scale or Scale(self.replicas, len(self.list), self.selector)
        decision = decide(self.scaler, there, self, self.memory, self.settings, self.now_us)
        self.memory = decision.memory
        self.scaler = {**self.scaler, "status": decision.status}
        return decision

    def follow(self, decision: Decision) -> Self:
        """Pods appear and vanish as decided; each uses what the first one does."""
        if decision.replicas is not None:
            usage = next(iter(self.usages.values()), {})
            self.of(decision.replicas).using(**usage)
        return self

    # World and MetricsSource

    @property
    def metrics(self) -> Fleet:
        return self

    def pods(self, namespace: str, selector: Selector) -> Sequence[Obj]:
        return self.list

    def autoscalers_of(self, pods: Sequence[Obj], key: tuple[str, str], selector: Selector) -> Sequence[str]:
        return self.rivals

    def _up(self) -> None:
        if self.down:
            raise MetricsError(self.down)

    def usage(self, namespace: str, selector: Selector) -> Mapping[str, PodUsage]:
        self._up()
        return {
            name: PodUsage(self.now_us, 15 * SECOND_US, {"c": {k: milli_ceil(v) for k, v in usage.items()}})
            for name, usage in self.usages.items()
        }

    def of_pods(
        self, namespace: str, metric: str, selector: Selector, metric_selector: Selector | None
    ) -> Mapping[str, PodValue]:
        self._up()
        values = self.values.get(metric, {})
        return {name: PodValue(self.now_us, MINUTE_US, milli_ceil(v)) for name, v in values.items()}

    def of_object(
        self, namespace: str, metric: str, described: Mapping[str, str], metric_selector: Selector | None
    ) -> int:
        self._up()
        return milli_ceil(self.totals[metric][0])

    def external(self, namespace: str, metric: str, metric_selector: Selector | None) -> Sequence[int]:
        self._up()
        return [milli_ceil(v) for v in self.totals.get(metric, ())]


def pod(name: str, now_us: int, *, phase: str = "Running", ready: bool = True, age_s: int = 3600) -> Obj:
    since = rfc3339(now_us - age_s * SECOND_US) if age_s else rfc3339(now_us)
    condition = {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": since}
    requests = {"cpu": "1", "memory": "1Gi"}
    return {
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]},
        "status": {
            "phase": phase,
            "startTime": rfc3339(now_us - max(age_s * SECOND_US, 0))
            if age_s < 3600
            else rfc3339(now_us - HOUR_US),
            "conditions": [condition],
        },
    }
