"""How soon does one know why it waits, and what would start it?

A thousand nodes of eight GPUs, full of admitted Jobs of two teams in one cohort, and five hundred Jobs that wait for
quota or for a node. The references are what we ask of ourselves.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from fairway.admission.request import ADMIN
from fairway.answers.changes import with_changes
from fairway.answers.check import check
from fairway.answers.explain import explain
from fairway.bench import BenchRow
from fairway.ground import Moment
from fairway.kube.manifest import Manifest
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import MINUTE_US
from fairway.recorder.recorder import Recorder
from fairway.twin.latency import latency_named
from fairway.twin.standard import standard_components
from fairway.twin.twin import Twin

EXPLAIN_MS, CHANGES_MS, CHECK_MS = 100.0, 2_000.0, 1_000.0
_ASKED = 50
_GPUS = 8
_KUEUE = "kueue.x-k8s.io/v1beta2"


def run(quick: bool) -> Iterator[BenchRow]:
    nodes, pending = (200, 100) if quick else (1_000, 500)
    moment = crowded(nodes, pending)
    names = [f"a-{nodes + i:05}" for i in range(min(_ASKED, pending))]
    keys = [Key("Job.batch", "team-a", name) for name in names]
    explain(moment, keys[0])
    took = sorted(_timed(lambda k=key: explain(moment, k)) for key in keys)
    what = f"explain/{nodes} nodes, {pending} pending"
    yield _row(f"{what}, median", took[len(took) // 2], EXPLAIN_MS)
    yield _row(f"{what}, slowest of {len(took)}", took[-1], EXPLAIN_MS)
    for kind, key in (("quota", keys[0]), ("placement", Key("Pod", "default", "large"))):
        found = explain(moment, key)
        if found.blocker.layer not in ("quota", "scheduler"):
            raise AssertionError(f"{key} was to be blocked: {found.sentence}")
        yield _row(
            f"changes/{kind}, {nodes} nodes", _timed(lambda f=found: with_changes(moment, f)), CHANGES_MS
        )
    for name, job in (("waits", _job("b", 99_999, 2, 4)), ("never", _job("b", 99_998, 1, 64))):
        manifest = Manifest(job, "job.yaml")
        took_ms = _timed(lambda m=manifest: check(moment, [m], ADMIN))
        yield _row(f"check/{name}, {nodes} nodes", took_ms, CHECK_MS)


def _timed(ask: Any) -> float:
    began_s = time.process_time()
    ask()
    return (time.process_time() - began_s) * 1000


def _row(name: str, took_ms: float, asked_ms: float) -> BenchRow:
    return BenchRow(name, took_ms, "ms", asked_ms / took_ms, f"{asked_ms:.0f} ms, what we ask of ourselves")


def crowded(nodes: int, pending: int) -> Moment:
    """The cluster, five virtual minutes after everything was submitted."""
    twin = Twin(seed=1, latency=latency_named("zero"), components=[*standard_components(), Recorder()])
    twin.apply(_queues(nodes * _GPUS))
    twin.apply(_node(i) for i in range(nodes))
    twin.run(until_us=twin.now_us + 1)
    # One Job a node: two teams' admitted work fills the cluster.
    twin.apply(_job("a", i, 2, 4) for i in range(nodes // 2))
    twin.apply(_job("b", i, 2, 4) for i in range(nodes // 2))
    twin.run_for(MINUTE_US)
    twin.apply(_job("a", nodes + i, 1 + i % 2, 4) for i in range(pending))
    twin.apply([_large_pod()])
    twin.run_for(4 * MINUTE_US)
    return Moment(twin)


def _queues(gpus: int) -> list[Obj]:
    made: list[Obj] = [
        {"apiVersion": _KUEUE, "kind": "ResourceFlavor", "metadata": {"name": "h100"}},
        {"apiVersion": _KUEUE, "kind": "Cohort", "metadata": {"name": "company"}},
    ]
    for team in "ab":
        quota = [{"name": "nvidia.com/gpu", "nominalQuota": str(gpus // 2)}]
        group = {
            "coveredResources": ["nvidia.com/gpu"],
            "flavors": [{"name": "h100", "resources": quota}],
        }
        spec = {"cohortName": "company", "namespaceSelector": {}, "resourceGroups": [group]}
        name = f"team-{team}"
        made += [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}},
            {"apiVersion": _KUEUE, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec},
            {
                "apiVersion": _KUEUE,
                "kind": "LocalQueue",
                "metadata": {"name": "main", "namespace": name},
                "spec": {"clusterQueue": name},
            },
        ]
    return made


def _node(i: int) -> Obj:
    name = f"node-{i:05}"
    offers = {"cpu": "96", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": str(_GPUS)}
    labels = {"kubernetes.io/hostname": name, "node.kubernetes.io/instance-type": "p5.48xlarge"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": offers, "capacity": offers},
    }


def _template(gpus: int) -> Obj:
    resources = {
        "limits": {"nvidia.com/gpu": str(gpus)},
        "requests": {"nvidia.com/gpu": str(gpus)},
    }
    containers = [{"name": "main", "image": "train", "resources": resources}]
    return {
        "metadata": {"annotations": {"fairway.dev/run-time": "12h"}},
        "spec": {"restartPolicy": "Never", "containers": containers},
    }


def _job(team: str, i: int, workers: int, gpus: int) -> Obj:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": f"{team}-{i:05}",
            "namespace": f"team-{team}",
            "labels": {"kueue.x-k8s.io/queue-name": "main"},
        },
        "spec": {
            "suspend": True,
            "parallelism": workers,
            "completions": workers,
            "completionMode": "NonIndexed",
            "template": _template(gpus),
        },
    }


def _large_pod() -> Obj:
    pod = _template(_GPUS)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "large"}, "spec": pod["spec"]}
