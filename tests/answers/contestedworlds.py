"""Random clusters in which work contends: gangs of both kinds, priorities and who may not be preempted, NodePools that
refuse.

`contested(seed)` is the same world for ever; what the cluster does not let in is left out.
"""

from __future__ import annotations

import random
from typing import Any

import answerworlds as worlds
from answerworlds import GPU, node, template
from variedworlds import QUEUE, ZONE, cloud, enter

from fairway.ground import Moment
from fairway.kube.objects import Obj
from fairway.kube.timestamps import MINUTE_US, SECOND_US
from fairway.recorder.recorder import Recorder
from fairway.scheduling import coscheduling, gangscheduling
from fairway.scheduling.profile import Profile
from fairway.twin.latency import latency_named
from fairway.twin.provisioner.component import Provisioner
from fairway.twin.standard import standard_components
from fairway.twin.twin import Twin

_CLASSES = ("low", "high", "gentle")
_OF_CLASS = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
OPEN_POOL: Obj = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "open"},
    "spec": {"template": {"spec": {"requirements": [], "nodeClassRef": _OF_CLASS, "expireAfter": "Never"}}},
}


def contested(seed: int) -> Moment:
    """Everything that is set up, work that fills it, then three waves that want in, two minutes apart.

    The last one may have come just now.
    """
    draw = random.Random(f"contested/{seed}")
    permits = draw.choice(((coscheduling.NAME,), (gangscheduling.NAME,), ()))
    has_karpenter, is_queued = draw.random() < 0.6, draw.random() < 0.4
    parts: list[Any] = [*standard_components((Profile(permits=frozenset(permits)),))]
    if has_karpenter:
        parts.append(Provisioner(cloud()))
    twin = Twin(seed=1, latency=latency_named("zero"), components=[*parts, Recorder()])
    setup = [worlds.namespace("team"), *_nodes(draw), *map(_priority_class, _CLASSES)]
    if has_karpenter:
        setup += [_pool(draw, f"pool{i}") for i in range(draw.randint(1, 3))]
    if is_queued:
        within = {"withinClusterQueue": draw.choice(("Never", "LowerPriority"))}
        queue = worlds.cluster_queue("a", {"gpus": draw.randint(2, 24)}, preemption=within)
        setup += [worlds.flavor("gpus"), queue, worlds.local_queue("main", "a")]
    if draw.random() < 0.3:
        spec = {"maxUnavailable": draw.randint(0, 1), "selector": {"matchLabels": {"kept": "yes"}}}
        meta = {"name": "kept", "namespace": "team"}
        setup.append(
            {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": spec}
        )
    enter(twin, setup)
    enter(twin, [_pod(draw, f"old{i}", "low") for i in range(draw.randint(1, 8))])
    for wave in "xyz":
        made = [_work(draw, f"{wave}{i}", permits, is_queued) for i in range(draw.randint(1, 3))]
        # Of the last ones some have just come: nodes are on their way for them.
        wait_us = 5 * SECOND_US if wave == "z" and draw.random() < 0.6 else 2 * MINUTE_US
        enter(twin, [obj for some in made for obj in some], wait_us)
    return Moment(twin)


def _nodes(draw: random.Random) -> list[Obj]:
    taint = [{"key": "team", "value": "infra", "effect": "NoSchedule"}]
    return [
        node(
            f"n{i}",
            draw.choice((0, 4, 8)),
            {ZONE: draw.choice(("us-east-1a", "us-east-1b"))},
            taint if draw.random() < 0.15 else None,
        )
        for i in range(draw.randint(1, 4))
    ]


def _priority_class(name: str) -> Obj:
    made: Obj = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
    made["value"] = 10 if name == "low" else 1000
    return made | ({"preemptionPolicy": "Never"} if name == "gentle" else {})


def _pool(draw: random.Random, name: str) -> Obj:
    """One that opens few nodes, or none for most."""
    wanted: list[Obj] = []
    if draw.random() < 0.5:
        types = draw.sample(("p4d.24xlarge", "g5.xlarge", "g5.12xlarge", "m5.4xlarge", "none.large"), 2)
        wanted.append({"key": "node.kubernetes.io/instance-type", "operator": "In", "values": types})
    if draw.random() < 0.3:
        zone = draw.choice(("us-east-1a", "us-east-1z"))
        wanted.append({"key": ZONE, "operator": "In", "values": [zone]})
    if draw.random() < 0.15:
        wanted.append({"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]})
    spec: Obj = {"requirements": wanted, "nodeClassRef": _OF_CLASS, "expireAfter": "Never"}
    if draw.random() < 0.3:
        spec["taints"] = [{"key": "pool", "value": "x", "effect": draw.choice(("NoSchedule", "NoExecute"))}]
    labels = {"metadata": {"labels": {"kind": "pooled"}}} if draw.random() < 0.3 else {}
    body: Obj = {"template": {"spec": spec, **labels}, "weight": draw.randint(1, 3)}
    body["disruption"] = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "10m"}
    if draw.random() < 0.6:
        body["limits"] = draw.choice(({"cpu": "8"}, {GPU: "1"}, {GPU: "8"}, {"nodes": "1"}, {"cpu": "0"}))
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": body}


# Work


def _work(draw: random.Random, name: str, permits: tuple[str, ...], is_queued: bool) -> list[Obj]:
    chance = draw.random()
    if permits and chance < 0.5:
        return _gang(draw, name, permits[0])
    if chance < 0.75:
        return [_pod(draw, name, draw.choice(_CLASSES))]
    made = _template(draw, draw.choice(_CLASSES))
    count = draw.randint(1, 4)
    body = {"parallelism": count, "completions": count, "template": made, "suspend": is_queued}
    meta: Obj = {"name": f"job-{name}", "namespace": "team", "labels": {QUEUE: "main"} if is_queued else {}}
    return [{"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": body}]


def _template(draw: random.Random, priority: str) -> Obj:
    made = template(draw.choice((1, 1, 2, 4, 8)), priorityClassName=priority)
    made["metadata"]["labels"] = {"kept": draw.choice(("yes", "no"))}
    spec = made["spec"]
    if draw.random() < 0.15:
        spec["nodeSelector"] = draw.choice(({ZONE: "us-east-1a"}, {ZONE: "us-east-1c"}, {"kind": "pooled"}))
    if draw.random() < 0.25:
        spec["tolerations"] = [{"key": draw.choice(("team", "pool")), "operator": "Exists"}]
    return made


def _pod(draw: random.Random, name: str, priority: str) -> Obj:
    made = _template(draw, priority)
    meta = {"name": f"pod-{name}", "namespace": "team", **made["metadata"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": made["spec"]}


def _gang(draw: random.Random, name: str, plugin: str) -> list[Obj]:
    """A group and its pods, or a Job or JobSet whose pods are one; it may be missing, or ask for more."""
    count, priority = draw.randint(2, 4), draw.choice(_CLASSES)
    least = count + draw.choice((0, 0, 0, -1, 1))
    made = _template(draw, priority)
    if plugin == coscheduling.NAME:
        api, spec = "scheduling.x-k8s.io/v1alpha1", {"minMember": least}
        made["metadata"]["labels"][coscheduling.POD_GROUP_LABEL] = f"gang-{name}"
    else:
        api, spec = "scheduling.k8s.io/v1alpha2", {"schedulingPolicy": {"gang": {"minCount": least}}}
        made["spec"]["schedulingGroup"] = {"podGroupName": f"gang-{name}"}
    meta = {"name": f"gang-{name}", "namespace": "team"}
    group = [{"apiVersion": api, "kind": "PodGroup", "metadata": meta, "spec": spec}]
    if draw.random() < 0.1:
        group = []
    if draw.random() < 0.5:
        body: Obj = {"parallelism": count, "completions": count, "template": made}
        api, kind = "batch/v1", "Job"
        if name.endswith("1"):
            replicated = {"name": "w", "replicas": 1, "template": {"spec": body}}
            api, kind, body = "jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": [replicated]}
        return [*group, {"apiVersion": api, "kind": kind, "metadata": meta, "spec": body}]
    return [
        *group,
        *(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"gang-{name}-{i}", "namespace": "team", **made["metadata"]},
                "spec": made["spec"],
            }
            for i in range(count)
        ),
    ]
