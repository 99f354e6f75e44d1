"""Random clusters of varied shape: cohorts, flavors, topologies, checks, MIG, Karpenter, policies, limits, volumes.

`answerworlds.random_moment` is small and quick; these hold what a shared cluster may hold, and what may be wrong
there. `varied(seed)` is the same world for ever; what the cluster does not let in is left out.
"""

from __future__ import annotations

import random
from typing import Any

import answerworlds as worlds
from answerworlds import GPU, KUEUE, node

from fairway.catalog.catalog import load_catalog
from fairway.cluster.errors import ApiError
from fairway.errors import FairwayError
from fairway.ground import Moment
from fairway.kube.objects import Obj
from fairway.kube.timestamps import MINUTE_US
from fairway.provisioning.karpenter.instancetypes import types_of_catalog
from fairway.queueing.control.settings import KueueSettings
from fairway.queueing.webhooks.settings import FRAMEWORKS, INSTALLED_FRAMEWORKS
from fairway.recorder.recorder import Recorder
from fairway.scenario.entering import create_or_replace
from fairway.twin.latency import latency_named
from fairway.twin.provisioner.cloud import Cloud
from fairway.twin.provisioner.component import Provisioner
from fairway.twin.standard import standard_components
from fairway.twin.twin import Twin

RACK = "example.com/rack"
ZONE = "topology.kubernetes.io/zone"
MIG, SHARED = "nvidia.com/mig-1g.10gb", "nvidia.com/gpu.shared"
QUEUE = "kueue.x-k8s.io/queue-name"
_LOCAL_QUEUES = {"main": "a", "other": "b", "third": "e"}
_TYPES = ("p4d.24xlarge", "g5.xlarge", "g5.12xlarge", "m5.4xlarge")
_HOMES = ("team", "lab")


def varied(seed: int) -> Moment:
    """Everything that is set up, then three waves of work, two minutes apart."""
    draw = random.Random(f"varied/{seed}")
    frameworks = tuple(FRAMEWORKS) if draw.random() < 0.7 else INSTALLED_FRAMEWORKS
    settings = KueueSettings(uses_fair_sharing=draw.random() < 0.3, frameworks=frameworks)
    parts: list[Any] = [*standard_components(kueue=settings)]
    has_karpenter = draw.random() < 0.35
    if has_karpenter:
        parts.append(Provisioner(cloud()))
    twin = Twin(seed=1, latency=latency_named("zero"), components=[*parts, Recorder()])
    by_rack = draw.random() < 0.3
    setup = [worlds.namespace(home) for home in _HOMES] + _nodes(draw, by_rack)
    setup += _pools(draw) if has_karpenter else []
    setup += _queueing(draw, by_rack, settings.uses_fair_sharing)
    setup += [*_doors(draw), *_storage(draw)]
    enter(twin, setup)
    for wave in "xyz":
        enter(twin, [_work(draw, f"{wave}{i}", by_rack) for i in range(draw.randint(2, 6))])
    return Moment(twin)


def cloud() -> Cloud:
    types = types_of_catalog(load_catalog(), provider="aws", regions=["us-east-1"])
    return Cloud(tuple(t for t in types if t.name in _TYPES))


def enter(twin: Twin, objects: list[Obj], wait_us: int = 2 * MINUTE_US) -> None:
    for obj in objects:
        try:
            create_or_replace(twin.host, obj)
        except (ApiError, FairwayError):
            continue
    twin.wake()
    twin.run_for(wait_us)


# Nodes


def _nodes(draw: random.Random, by_rack: bool) -> list[Obj]:
    made = []
    for i in range(draw.randint(0 if draw.random() < 0.2 else 1, 6)):
        labels = {"gpu": draw.choice(("a100", "h100")), ZONE: draw.choice(("us-east-1a", "us-east-1b"))}
        if by_rack:
            labels[RACK] = draw.choice(("r1", "r2"))
        taint = {"key": draw.choice(("team", "dedicated")), "value": "infra"}
        taint["effect"] = draw.choice(("NoSchedule", "NoExecute"))
        one = node(f"n{i}", draw.choice((0, 1, 4, 8)), labels, [taint] if draw.random() < 0.25 else None)
        offers = {"cpu": draw.choice(("4", "16", "64"))} | draw.choice(({}, {}, {MIG: "4"}, {SHARED: "8"}))
        for part in ("allocatable", "capacity"):
            one["status"][part] = one["status"][part] | offers
        if draw.random() < 0.15:
            one["spec"]["unschedulable"] = True
        made.append(one)
    return made


def _pools(draw: random.Random) -> list[Obj]:
    made = []
    for i in range(draw.randint(1, 2)):
        wanted = [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}]
        wanted[0]["values"] = [draw.choice(("on-demand", "spot"))]
        if draw.random() < 0.5:
            name = draw.choice(("p4d.24xlarge", "g5.xlarge", "m5.4xlarge"))
            wanted.append({"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [name]})
        of_class = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
        spec: Obj = {"requirements": wanted, "nodeClassRef": of_class, "expireAfter": "Never"}
        if draw.random() < 0.3:
            spec["taints"] = [{"key": "pool", "value": "x", "effect": "NoSchedule"}]
        disruption = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "10m"}
        body: Obj = {"template": {"spec": spec}, "disruption": disruption}
        if draw.random() < 0.5:
            body["limits"] = draw.choice(({"cpu": "8"}, {GPU: "8"}, {"nodes": "1"}))
        meta = {"name": f"pool{i}"}
        made.append({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": meta, "spec": body})
    return made


# Queues


def _queueing(draw: random.Random, by_rack: bool, is_fair: bool) -> list[Obj]:
    flavors = [_flavor(draw, name, by_rack) for name in ("any", "a100", "h100")[: draw.randint(1, 3)]]
    names = [one["metadata"]["name"] for one in flavors]
    made = [*flavors]
    if by_rack and draw.random() < 0.9:
        levels = [{"nodeLabel": RACK}, {"nodeLabel": "kubernetes.io/hostname"}]
        made.append(_kueue("Topology", "racks", {"levels": levels}))
    cohorts, places = _cohorts(draw, names)
    made += cohorts
    covered = [GPU]
    covered += [r for r, often in (("cpu", 0.7), (MIG, 0.5), (SHARED, 0.4)) if draw.random() < often]
    for queue, place in zip("abe", places, strict=True):
        made.append(_cluster_queue(draw, queue, place, names, covered, is_fair))
    for home in _HOMES:
        for name, queue in _LOCAL_QUEUES.items():
            local = worlds.local_queue(name, queue, home)
            if draw.random() < 0.05:
                local["spec"]["stopPolicy"] = "Hold"
            made.append(local)
    if draw.random() < 0.8:
        made.append(_kueue("AdmissionCheck", "gate", {"controllerName": "example.com/gate"}))
    for name, value in (("low", 10), ("high", 1000)):
        made.append({**_kueue("WorkloadPriorityClass", name, {}), "value": value})
        of_pods = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        made.append({**of_pods, "metadata": {"name": name}, "value": value})
    draw.shuffle(made)
    return [{k: v for k, v in one.items() if k != "spec" or v} for one in made]


def _kueue(kind: str, name: str, spec: Obj) -> Obj:
    return {"apiVersion": KUEUE, "kind": kind, "metadata": {"name": name}, "spec": spec}


def _flavor(draw: random.Random, name: str, by_rack: bool) -> Obj:
    labels = {} if name == "any" else {"gpu": name}
    made = worlds.flavor(name, **labels)
    if draw.random() < 0.2:
        made["spec"]["nodeTaints"] = [{"key": "dedicated", "value": "infra", "effect": "NoSchedule"}]
    if draw.random() < 0.2:
        made["spec"]["tolerations"] = [{"key": "team", "operator": "Exists"}]
    if by_rack and (labels or draw.random() < 0.7):
        made["spec"]["topologyName"] = "racks"
        made["spec"].setdefault("nodeLabels", {"gpu": "a100"})
    return made


def _cohorts(draw: random.Random, flavors: list[str]) -> tuple[list[Obj], list[str]]:
    """Cohorts, and which one each of three queues is in."""
    if draw.random() >= 0.6:
        return [], ["", "", ""]
    if draw.random() >= 0.6:
        return [], ["c", "c", "c"]
    left = _kueue("Cohort", "left", {"parentName": "root"})
    if draw.random() < 0.5:
        left["spec"]["resourceGroups"] = [_group(draw, flavors, [GPU], True)]
    return [left, _kueue("Cohort", "right", {"parentName": "root"})], ["left", "right", "left"]


def _cluster_queue(
    draw: random.Random, name: str, cohort: str, flavors: list[str], covered: list[str], is_fair: bool
) -> Obj:
    within = draw.choice(("Never", "LowerPriority", "LowerOrNewerEqualPriority"))
    reclaims = draw.choice(("Never", "Any", "LowerPriority"))
    only_lab = {"matchLabels": {"kubernetes.io/metadata.name": "lab"}}
    some = draw.sample(flavors, draw.randint(1, len(flavors)))
    spec: Obj = {
        "namespaceSelector": {} if draw.random() < 0.9 else only_lab,
        "queueingStrategy": draw.choice(("StrictFIFO", "BestEffortFIFO")),
        "preemption": {"withinClusterQueue": within, "reclaimWithinCohort": reclaims},
        "resourceGroups": [
            _group(draw, [*some, "gone"] if draw.random() < 0.04 else some, covered, bool(cohort))
        ],
    }
    if cohort:
        spec["cohortName"] = cohort
    if draw.random() < 0.3:
        ways = ("MayStopSearch", "TryNextFlavor")
        spec["flavorFungibility"] = {"whenCanBorrow": draw.choice(ways), "whenCanPreempt": draw.choice(ways)}
    if is_fair:
        spec["fairSharing"] = {"weight": draw.choice(("0", "1", "2"))}
    if draw.random() < 0.1:
        spec["stopPolicy"] = draw.choice(("Hold", "HoldAndDrain"))
    if draw.random() < 0.1:
        spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": "gate"}]}
    return _kueue("ClusterQueue", name, spec)


def _group(draw: random.Random, flavors: list[str], covered: list[str], is_in_cohort: bool) -> Obj:
    def quota(resource: str) -> Obj:
        nominal = draw.randint(0, 12)
        made: Obj = {"name": resource, "nominalQuota": str(nominal)}
        if is_in_cohort and draw.random() < 0.3:
            made["borrowingLimit"] = str(draw.randint(0, 6))
        if is_in_cohort and draw.random() < 0.3:
            made["lendingLimit"] = str(draw.randint(0, nominal))
        return made

    listed = [{"name": flavor, "resources": [quota(r) for r in covered]} for flavor in flavors]
    return {"coveredResources": covered, "flavors": listed}


# Doors and volumes


def _doors(draw: random.Random) -> list[Obj]:
    made: list[Obj] = []
    if draw.random() < 0.25:
        hard = draw.choice(
            ({"requests.nvidia.com/gpu": "4"}, {"pods": "3"}, {"requests.cpu": "8", "limits.cpu": "9"})
        )
        made.append(_core("ResourceQuota", "small", "team", {"hard": hard}))
    if draw.random() < 0.2:
        limits = [{"type": "Container", "max": {"cpu": "4"}, "default": {"cpu": "1"}}]
        made.append(_core("LimitRange", "most", "lab", {"limits": limits}))
    if draw.random() < 0.2:
        made.append(worlds.namespace("lab", **{"pod-security.kubernetes.io/enforce": "restricted"}))
    if draw.random() < 0.2:
        made += _policy()
    return made


def _policy() -> list[Obj]:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    selector = "object.spec.nodeSelector"
    expression = f"!has({selector}) || !('gpu' in {selector}) || {selector}['gpu'] != 'h100'"
    says = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": expression, "message": "no h100 here"}],
    }
    binding = {"policyName": "few", "validationActions": ["Deny"]}
    api = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": "few"}}
    return [
        {**api, "kind": "ValidatingAdmissionPolicy", "spec": says},
        {**api, "kind": "ValidatingAdmissionPolicyBinding", "spec": binding},
    ]


def _core(kind: str, name: str, home: str, spec: Obj) -> Obj:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": home}, "spec": spec}


def _storage(draw: random.Random) -> list[Obj]:
    made: list[Obj] = []
    if draw.random() < 0.6:
        mode = draw.choice(("WaitForFirstConsumer", "Immediate"))
        api = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"}}
        made.append({**api, "provisioner": "ebs.csi.aws.com", "volumeBindingMode": mode})
    for home in _HOMES:
        if draw.random() < 0.7:
            spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
            of_class = {"storageClassName": draw.choice(("fast", "gone"))}
            made.append(_core("PersistentVolumeClaim", "data", home, spec | of_class))
    return made


# Work


def _work(draw: random.Random, name: str, by_rack: bool) -> Obj:
    template = _template(draw, by_rack)
    queue = draw.choice(("main", "main", "other", "third", "nowhere", ""))
    kind = draw.choice(("Pod", "Job", "Job", "Job", "JobSet", "PyTorchJob", "RayJob", "Deployment"))
    labels = {QUEUE: queue} if queue else {}
    if queue and draw.random() < 0.4:
        labels["kueue.x-k8s.io/priority-class"] = draw.choice(("low", "high"))
    home = draw.choice(("team", "team", "lab"))
    meta = {"name": f"{kind.lower()}-{name}", "namespace": home, "labels": labels}
    count = draw.choice((1, 1, 2, 3))
    if kind == "Pod":
        return _pod(draw, meta, template)
    make = {"Job": _job, "JobSet": _job_set, "PyTorchJob": _torch, "RayJob": _ray, "Deployment": _deployment}
    return {"metadata": meta, **make[kind](draw, template, count, bool(queue))}


def _template(draw: random.Random, by_rack: bool) -> Obj:
    resource = draw.choice((GPU, GPU, GPU, MIG, SHARED, ""))
    limits = {resource: str(draw.choice((1, 1, 2, 4, 8, 16)))} if resource else {}
    requests = dict(limits)
    if draw.random() < 0.6:
        requests["cpu"] = draw.choice(("500m", "2", "8", "32"))
    container = {"name": "main", "image": "i", "resources": {"requests": requests, "limits": limits}}
    spec: Obj = {"restartPolicy": "Never", "containers": [container]}
    selector = {"gpu": draw.choice(("a100", "h100", "b200"))} if draw.random() < 0.25 else {}
    if draw.random() < 0.15:
        selector[ZONE] = draw.choice(("us-east-1a", "us-east-1b", "us-east-1c"))
    if selector:
        spec["nodeSelector"] = selector
    if draw.random() < 0.2:
        spec["tolerations"] = [{"key": draw.choice(("team", "dedicated")), "operator": "Exists"}]
    if draw.random() < 0.12:
        claim = {"claimName": draw.choice(("data", "none"))}
        spec["volumes"] = [{"name": "v", "persistentVolumeClaim": claim}]
    alike = {"labelSelector": {"matchLabels": {"x": "y"}}}
    if draw.random() < 0.1:
        term = {**alike, "topologyKey": "kubernetes.io/hostname"}
        anti = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        spec["affinity"] = {"podAntiAffinity": anti}
    if draw.random() < 0.1:
        spread = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", **alike}
        spec["topologySpreadConstraints"] = [spread]
    if draw.random() < 0.08:
        container["envFrom"] = [{"secretRef": {"name": "token"}}]
    if draw.random() < 0.15:
        spec["priorityClassName"] = draw.choice(("low", "high"))
    annotations = {"fairway.dev/run-time": draw.choice(("12h", "20h"))}
    if by_rack and draw.random() < 0.5:
        wish = draw.choice(("required", "preferred"))
        level = draw.choice((RACK, "kubernetes.io/hostname"))
        annotations[f"kueue.x-k8s.io/podset-{wish}-topology"] = level
    return {"metadata": {"labels": {"x": "y"}, "annotations": annotations}, "spec": spec}


def _pod(draw: random.Random, meta: Obj, template: Obj) -> Obj:
    is_queued = bool(meta["labels"]) and draw.random() < 0.3
    labels = {**template["metadata"]["labels"], **(meta["labels"] if is_queued else {})}
    annotations = template["metadata"]["annotations"]
    if not is_queued:
        annotations = {k: v for k, v in annotations.items() if k.startswith("fairway")}
    meta = {**meta, "labels": labels, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": template["spec"]}


def _job(draw: random.Random, template: Obj, count: int, is_queued: bool) -> Obj:
    body = {"parallelism": count, "completions": count, "template": template}
    body["suspend"] = is_queued or draw.random() < 0.05
    if draw.random() < 0.3:
        body["completionMode"] = "Indexed"
    return {"apiVersion": "batch/v1", "kind": "Job", "spec": body}


def _job_set(draw: random.Random, template: Obj, count: int, is_queued: bool) -> Obj:
    job = {"parallelism": count, "completions": count, "completionMode": "Indexed", "template": template}
    replicated = {"name": "w", "replicas": draw.choice((1, 2)), "template": {"spec": job}}
    spec = {"suspend": is_queued, "replicatedJobs": [replicated]}
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "spec": spec}


def _torch(draw: random.Random, template: Obj, count: int, is_queued: bool) -> Obj:
    template["spec"]["containers"][0]["name"] = "pytorch"
    roles = {role: {"replicas": n, "template": template} for role, n in (("Master", 1), ("Worker", count))}
    spec = {"runPolicy": {"suspend": is_queued}, "pytorchReplicaSpecs": roles}
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "spec": spec}


def _ray(draw: random.Random, template: Obj, count: int, is_queued: bool) -> Obj:
    template["spec"]["restartPolicy"] = "Always"
    resources = {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}
    head = {
        "metadata": {},
        "spec": {"containers": [{"name": "head", "image": "ray", "resources": resources}]},
    }
    counts = dict.fromkeys(("replicas", "minReplicas", "maxReplicas"), count)
    workers = {"groupName": "w", **counts, "rayStartParams": {}, "template": template}
    cluster = {
        "rayVersion": "2.46.0",
        "headGroupSpec": {"rayStartParams": {}, "template": head},
        "workerGroupSpecs": [workers],
    }
    spec = {"suspend": is_queued, "entrypoint": "python a.py", "shutdownAfterJobFinishes": True}
    return {"apiVersion": "ray.io/v1", "kind": "RayJob", "spec": spec | {"rayClusterSpec": cluster}}


def _deployment(draw: random.Random, template: Obj, count: int, is_queued: bool) -> Obj:
    template["spec"]["restartPolicy"] = "Always"
    spec = {"replicas": count, "selector": {"matchLabels": {"x": "y"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "spec": spec}
