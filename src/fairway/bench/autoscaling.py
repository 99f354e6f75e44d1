"""10,000 autoscaled Deployments over a simulated day: loads that go up and down six times, and the pods that follow.

Twenty to a namespace; every autoscaler goes by an external metric of one of fifty services. What is measured is the
whole twin: looks, rescales, ReplicaSets, scheduling, kubelets.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from fairway.autoscaling.load.reading import read_load
from fairway.bench import BenchRow
from fairway.kube.objects import Obj
from fairway.kube.timestamps import DAY_US
from fairway.twin.autoscaling.component import Autoscaling
from fairway.twin.latency import latency_named
from fairway.twin.standard import standard_components
from fairway.twin.twin import Twin

TARGETS = 10_000
SERVICES = 50
_LIMIT_S = 30.0
_PODS_A_NODE = 250
_TARGETS_A_NAMESPACE = 20
# Messages for each replica over the day: one replica by night, three at noon.
_DAY = ((0, 1), (6, 2), (9, 3), (15, 2), (18, 3), (21, 1))


def run(quick: bool) -> Iterator[BenchRow]:
    targets = TARGETS // 10 if quick else TARGETS
    twin = Twin(
        seed=1, latency=latency_named("zero"), components=standard_components(load=read_load(_load()))
    )
    twin.apply(_node(i) for i in range(4 * targets // _PODS_A_NODE + 1))
    twin.apply(_namespace(i) for i in range(targets // _TARGETS_A_NAMESPACE))
    for i in range(targets):
        twin.apply(_objects(i))
    began_s = time.perf_counter()
    twin.run_for(DAY_US)
    spent_s = time.perf_counter() - began_s
    room = twin.component("autoscaling")
    assert isinstance(room, Autoscaling)
    limit_s = _LIMIT_S * targets / TARGETS
    reference = f"our limit: {limit_s:g} s"
    yield BenchRow(f"a day of {targets:,} autoscaled targets", spent_s, "s", limit_s / spent_s, reference)
    done = len(room.journal.scalings)
    yield BenchRow("rescales", float(done), "", 0.0, "")
    yield BenchRow("rescales a second", done / spent_s, "/s", 0.0, "")


def _load() -> dict[str, Any]:
    """Each service's day begins a few minutes later than the one before it."""
    series = []
    for i in range(SERVICES):
        steps = ",".join(f"{hour * 60 + (i if hour else 0)}m:{level * 10}" for hour, level in _DAY)
        series.append({"name": "backlog", "labels": {"service": str(i)}, "value": steps})
    return {"series": series}


def _node(number: int) -> Obj:
    amounts = {"cpu": "64", "memory": "256Gi", "pods": str(_PODS_A_NODE)}
    status = {"capacity": amounts, "allocatable": amounts}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n-{number}"}, "status": status}


def _namespace(number: int) -> Obj:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"team-{number}"}}


def _objects(number: int) -> list[Obj]:
    name = f"app-{number}"
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m", "memory": "100Mi"}}}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}
    meta = {"name": name, "namespace": f"team-{number // _TARGETS_A_NAMESPACE}"}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": meta,
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": template},
    }
    service = {"matchLabels": {"service": str(number % SERVICES)}}
    metric = {"name": "backlog", "selector": service}
    target = {"type": "AverageValue", "averageValue": "10"}
    autoscaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": meta,
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicas": 1,
            "maxReplicas": 5,
            "metrics": [{"type": "External", "external": {"metric": metric, "target": target}}],
        },
    }
    return [deployment, autoscaler]
