"""The files of a first scenario, with comments that say what to change."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp
from typing import Any

from fairway.kube.manifestwriting import write_yaml
from fairway.scenario.scaffold.answers import Answers

_NODE_CLASSES = {
    "aws": ("karpenter.k8s.aws", "EC2NodeClass"),
    "gcp": ("karpenter.k8s.gcp", "GCENodeClass"),
    "azure": ("karpenter.azure.com", "AKSNodeClass"),
}
_CPUS_PER_GPU, _GIB_PER_GPU = 16, 128
# Run times are log-normal.
_MEDIAN_MIN, _SPREAD = 40, 0.8
FLAVOR, COHORT, QUEUE = "gpus", "everybody", "main"


def files_of(answers: Answers) -> dict[str, str]:
    """Text by file name, relative to the scenario's directory."""
    manifests = {"queues.yaml": _queues(answers), "jobs.yaml": _jobs(answers)}
    if answers.region:
        manifests["nodepool.yaml"] = write_yaml([_node_pool(answers)])
    files = {f"manifests/{name}": text for name, text in manifests.items()}
    return {"scenario.yaml": _scenario(answers), **files}


def _scenario(answers: Answers) -> str:
    return f"""\
# Run it:     fairway simulate {answers.name}
# Look at it: fairway simulate {answers.name} --out runs/{answers.name} --html report.html
apiVersion: fairway.dev/v1alpha1
kind: Scenario
metadata:
  name: {answers.name}
spec:
  seed: 1
  startTime: 2026-01-05T08:00:00Z
  duration: 1d
{_ground(answers)}
  manifests: [manifests]

  # What containers do where they do not say it themselves (docs/behaviour.md).
  behaviours:
    - match: {{kinds: [Job]}}
      set: {{gpu-utilization: "0s:20%,5m:80%", checkpoint-interval: 20m}}

  # More work than two jobs: hours of arrivals, drawn from distributions or read from a trace (docs/traces.md).
  traces:
    - generate:
        duration: 8h
        rate: {_jobs_an_hour(answers)}/h
        runTime: lognormal({_MEDIAN_MIN}m, {_SPREAD})
        gpus: {{{", ".join(f"{n}: {weight}" for n, weight in _sizes(answers).items())}}}
        namespaces: {{{", ".join(f"{team}: 1" for team in answers.teams)}}}
        queues: {{{QUEUE}: 1}}

  # What must hold, as a test: exit code 1 if it does not (docs/assertions.md).
  assertions:
    - count(unfinished jobs) == 0
    - gpu allocated > 20% between 1h and 8h
    - queue wait p95 < {4 if answers.gpus_in_all >= 8 else 16}h
"""


def _sizes(answers: Answers) -> dict[int, int]:
    """GPUs of a job, and how many of eight jobs ask for so many."""
    return {1: 5, 2: 2, answers.gpus: 1} if answers.gpus > 2 else {1: 7, answers.gpus: 1}


def _jobs_an_hour(answers: Answers) -> int:
    """As many as fill three quarters of the GPUs."""
    sizes = _sizes(answers)
    gpus = sum(n * weight for n, weight in sizes.items()) / sum(sizes.values())
    hours = _MEDIAN_MIN / 60 * exp(_SPREAD**2 / 2)
    return max(1, round(0.75 * answers.gpus_in_all / (gpus * hours)))


def _ground(answers: Answers) -> str:
    if not answers.region:
        cpus, memory = answers.gpus * _CPUS_PER_GPU, answers.gpus * _GIB_PER_GPU
        return f"""
  nodes:
    - name: gpu-{{i}}
      count: {answers.nodes}
      gpuModel: {answers.model.product}
      capacity: {{cpu: {cpus}, memory: {memory}Gi, nvidia.com/gpu: {answers.gpus}}}
"""
    return f"""
  # Machines come when pods wait and go when nobody needs them: Karpenter decides (docs/provisioning.md).
  cloud:
    provider: {answers.provider}
    regions: [{answers.region}]
    instanceTypes: [{", ".join(t.name for t in answers.types)}]
"""


def _queues(answers: Answers) -> str:
    """Every team has a namespace, a queue and an equal part of the quota; what one leaves, others borrow."""
    share, extra = divmod(answers.gpus_in_all, len(answers.teams))
    objects: list[dict[str, Any]] = [
        {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": FLAVOR}}
    ]
    for number, team in enumerate(answers.teams):
        objects += _team(team, share + (number < extra))
    return "# What one team leaves, the others may borrow, and have to give back.\n" + write_yaml(objects)


def _team(team: str, gpus: int) -> list[dict[str, Any]]:
    quota = {"cpu": gpus * _CPUS_PER_GPU, "memory": f"{gpus * _GIB_PER_GPU}Gi", "nvidia.com/gpu": gpus}
    flavor = {"name": FLAVOR, "resources": [{"name": n, "nominalQuota": q} for n, q in quota.items()]}
    cluster_queue = {
        "cohortName": COHORT,
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": team}},
        "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
        "resourceGroups": [{"coveredResources": [*quota], "flavors": [flavor]}],
    }
    kueue = "kueue.x-k8s.io/v1beta2"
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": team}},
        {"apiVersion": kueue, "kind": "ClusterQueue", "metadata": {"name": team}, "spec": cluster_queue},
        {
            "apiVersion": kueue,
            "kind": "LocalQueue",
            "metadata": {"name": QUEUE, "namespace": team},
            "spec": {"clusterQueue": team},
        },
    ]


def _jobs(answers: Answers) -> str:
    """One job a team, to start from."""
    jobs = [_job(team, min(answers.gpus, 4)) for team in answers.teams]
    said = "# fairway.dev/run-time says how long the container runs; docs/behaviour.md has what else can be said.\n"
    return said + write_yaml(jobs)


def _job(team: str, gpus: int) -> dict[str, Any]:
    container: Mapping[str, Any] = {
        "name": "train",
        "image": "registry.example/train:1",
        "resources": {
            "requests": {"cpu": 4 * gpus, "memory": f"{32 * gpus}Gi"},
            "limits": {"nvidia.com/gpu": gpus},
        },
    }
    template = {
        "metadata": {"annotations": {"fairway.dev/run-time": "2h"}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    labels = {"kueue.x-k8s.io/queue-name": QUEUE}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": team, "labels": labels},
        "spec": {"backoffLimit": 3, "template": template},
    }


def _node_pool(answers: Answers) -> dict[str, Any]:
    group, kind = _NODE_CLASSES[answers.provider]
    types = {
        "key": "node.kubernetes.io/instance-type",
        "operator": "In",
        "values": [t.name for t in answers.types],
    }
    capacity = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
    template = {
        "spec": {
            "nodeClassRef": {"group": group, "kind": kind, "name": "default"},
            "requirements": [types, capacity],
        }
    }
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "gpus"},
        "spec": {
            "template": template,
            "limits": {"nvidia.com/gpu": answers.gpus_in_all},
            "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "5m"},
        },
    }
