"""What does an object look like once the API server has filled in what was left out?

`apply_defaults` is the server's defaulting; `add_default_tolerations` and `resolve_priority` are the admission
plugins DefaultTolerationSeconds and Priority; `generate_job_selector` is what creating a Job adds. All return a
new object that shares what did not change, or the same one where nothing was missing.

Source: pkg/apis/{core,apps,batch,scheduling,autoscaling}/v1/defaults.go, plugin/pkg/admission/{priority,
defaulttolerationseconds}, pkg/registry/batch/job/strategy.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from fairway.kube import configdefaults, devicedefaults, published, trainingdefaults
from fairway.kube.memos import memo
from fairway.kube.objects import Obj, gk_of, meta_of, status_of
from fairway.kube.poddefaults import pod_defaults, pod_spec_defaults
from fairway.kube.taints import NOT_READY_TAINT, UNREACHABLE_TAINT

# How long a pod stays on a node that is not ready. Source: --default-not-ready-toleration-seconds.
NOT_READY_SECONDS: Final = 300
_CLIENT_IP_SECONDS: Final = 10800
# Specs whose defaults are remembered by identity: controllers create many pods from one spec.
_MEMO_SIZE: Final = 4096

_SYSTEM_PRIORITIES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}

_CONTROLLER_UID: Final = "batch.kubernetes.io/controller-uid"
_MAX_INT32: Final = 2**31 - 1
# What an autoscaler without metrics goes by. Source: pkg/apis/autoscaling/defaults.go DefaultCPUUtilization.
_CPU_METRIC: Final = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
}

# Source: pkg/apis/autoscaling/v2/defaults.go. How long scaling down is stabilized is a flag of the controller.
_SCALING_RULES: Final[dict[str, dict[str, Any]]] = {
    "scaleUp": {
        "stabilizationWindowSeconds": 0,
        "selectPolicy": "Max",
        "policies": [
            {"type": "Pods", "value": 4, "periodSeconds": 15},
            {"type": "Percent", "value": 100, "periodSeconds": 15},
        ],
    },
    "scaleDown": {
        "selectPolicy": "Max",
        "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
    },
}


def apply_defaults(obj: Obj) -> Obj:
    """The object with the API server's defaults. Kinds without any come back as they are."""
    gk = gk_of(obj)
    fill = _BY_KIND.get(gk)
    if gk in published.kinds():
        return _published(obj, gk, fill)
    return fill(obj) if fill is not None else obj


def _published(obj: Obj, gk: str, webhook: Callable[[Obj], Obj] | None) -> Obj:
    """With the defaults of its definition, then of its webhook, which reads no object of another shape."""
    from fairway.kube.schema.shaping import fill_defaults
    from fairway.kube.schema.structural import tree_of
    from fairway.kube.schema.values import has_types_of

    entry = published.entry(gk, obj["apiVersion"].rpartition("/")[2])
    tree = tree_of(entry) if entry is not None else None
    if tree is None:
        return obj
    filled = fill_defaults(obj, tree)
    return webhook(filled) if webhook is not None and has_types_of(filled, tree) else filled


# id of a spec → the spec itself (so that the id stays taken) and its defaulted form.
_pod_specs: dict[int, tuple[Obj, Obj]] = memo()
_template_specs: dict[int, tuple[Obj, Obj]] = memo()


def _remembered(memo: dict[int, tuple[Obj, Obj]], spec: Obj, fill: Callable[[Obj], Obj]) -> Obj:
    known = memo.get(id(spec))
    if known is not None and known[0] is spec:
        return known[1]
    filled = fill(spec)
    if len(memo) >= _MEMO_SIZE:
        memo.clear()
    memo[id(spec)] = (spec, filled)
    return filled


def _pod(pod: Obj) -> Obj:
    spec = pod.get("spec")
    if spec is None:
        return pod
    filled = _remembered(_pod_specs, spec, pod_defaults)
    return pod if filled is spec else {**pod, "spec": filled}


def _template(template: Any) -> Any:
    spec = template.get("spec") if template else None
    if spec is None:
        return template
    filled = _remembered(_template_specs, spec, pod_spec_defaults)
    return template if filled is spec else {**template, "spec": filled}


def _filled(spec: Obj, **defaults: Any) -> Obj:
    """The mapping with defaults for the members that are absent or null."""
    missing = {name: value for name, value in defaults.items() if spec.get(name) is None}
    return {**spec, **missing} if missing else spec


def _said(spec: Obj, *texts: str) -> Obj:
    """The mapping without those of these texts that are empty: to Go, which has no pointers there, they are absent."""
    empty = [name for name in texts if spec.get(name) == ""]
    return {name: value for name, value in spec.items() if name not in empty} if empty else spec


def _with_spec(obj: Obj, spec: Obj) -> Obj:
    """The object with this spec, its pod template defaulted."""
    template = spec.get("template")
    filled = _template(template)
    if filled is not template:
        spec = {**spec, "template": filled}
    return obj if obj.get("spec") is spec else {**obj, "spec": spec}


def _job(job: Obj) -> Obj:
    spec: Obj = job.get("spec") or {}
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec = {**spec, "completions": 1}
    failure_policy = spec.get("podFailurePolicy")
    spec = _filled(
        spec,
        parallelism=1,
        # With a limit per index, the one for the whole Job only counts if it was said.
        backoffLimit=6 if spec.get("backoffLimitPerIndex") is None else _MAX_INT32,
        completionMode="NonIndexed",
        suspend=False,
        manualSelector=False,
        podReplacementPolicy="Failed" if failure_policy is not None else "TerminatingOrFailed",
    )
    if failure_policy:
        spec = {**spec, "podFailurePolicy": _failure_policy(failure_policy)}
    job = _with_spec(job, spec)
    meta = meta_of(job)
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels and not meta.get("labels"):
        job = {**job, "metadata": {**meta, "labels": labels}}
    return generate_job_selector(job) if meta.get("uid") else job


def _failure_policy(policy: Obj) -> Obj:
    """The status of a condition pattern is True unless it says otherwise."""
    rules = []
    for rule in policy.get("rules") or ():
        patterns = rule.get("onPodConditions")
        if patterns:
            rule = {
                **rule,
                "onPodConditions": [p if p.get("status") else {**p, "status": "True"} for p in patterns],
            }
        rules.append(rule)
    return {**policy, "rules": rules}


def generate_job_selector(job: Obj) -> Obj:
    """The Job with its generated selector and the labels that go with it on the template. Needs a uid.

    A Job with `manualSelector` stays as it is. Labels that are there already are left for validation to refuse.

    Source: pkg/registry/batch/job/strategy.go generateSelector (v1.36).
    """
    spec: Obj = job.get("spec") or {}
    if spec.get("manualSelector"):
        return job
    meta: Obj = job["metadata"]
    uid, name = meta["uid"], meta.get("name") or ""
    selector: Obj = spec.get("selector") or {}
    matched = selector.get("matchLabels") or {}
    template: Obj = spec.get("template") or {}
    template_meta = meta_of(template)
    labels = {
        _CONTROLLER_UID: uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }
    given = template_meta.get("labels") or {}
    if _CONTROLLER_UID in matched and labels.keys() <= given.keys():
        return job
    labels = {**given, **{key: value for key, value in labels.items() if key not in given}}
    return {
        **job,
        "spec": {
            **spec,
            "selector": {**selector, "matchLabels": {_CONTROLLER_UID: uid, **matched}},
            "template": {**template, "metadata": {**template_meta, "labels": labels}},
        },
    }


def _cron_job(cron_job: Obj) -> Obj:
    spec = _filled(
        _said(cron_job.get("spec") or {}, "concurrencyPolicy"),
        concurrencyPolicy="Allow",
        suspend=False,
        successfulJobsHistoryLimit=3,
        failedJobsHistoryLimit=1,
    )
    template = spec.get("jobTemplate")
    job_spec = template.get("spec") if template else None
    if template is not None and job_spec is not None:
        filled = _template(job_spec.get("template"))
        if filled is not job_spec.get("template"):
            spec = {**spec, "jobTemplate": {**template, "spec": {**job_spec, "template": filled}}}
    return cron_job if cron_job.get("spec") is spec else {**cron_job, "spec": spec}


def _deployment(deployment: Obj) -> Obj:
    spec = _filled(
        deployment.get("spec") or {}, replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600
    )
    strategy = _filled(spec.get("strategy") or {}, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = _filled(strategy.get("rollingUpdate") or {}, maxUnavailable="25%", maxSurge="25%")
        strategy = (
            strategy if strategy.get("rollingUpdate") is rolling else {**strategy, "rollingUpdate": rolling}
        )
    return _with_spec(
        deployment, spec if spec.get("strategy") is strategy else {**spec, "strategy": strategy}
    )


def _replica_set(replica_set: Obj) -> Obj:
    return _with_spec(replica_set, _filled(replica_set.get("spec") or {}, replicas=1))


def _replication_controller(controller: Obj) -> Obj:
    spec = _filled(controller.get("spec") or {}, replicas=1)
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels and not spec.get("selector"):
        spec = {**spec, "selector": labels}
    if labels and not meta_of(controller).get("labels"):
        controller = {**controller, "metadata": {**meta_of(controller), "labels": labels}}
    return _with_spec(controller, spec)


def _stateful_set(stateful_set: Obj) -> Obj:
    spec = _filled(
        stateful_set.get("spec") or {},
        replicas=1,
        revisionHistoryLimit=10,
        podManagementPolicy="OrderedReady",
    )
    strategy = spec.get("updateStrategy") or {}
    if not strategy.get("type"):
        strategy = {"rollingUpdate": {}, **strategy, "type": "RollingUpdate"}
    if strategy["type"] == "RollingUpdate" and strategy.get("rollingUpdate") is not None:
        rolling = _filled(strategy["rollingUpdate"], partition=0)
        strategy = (
            strategy if strategy["rollingUpdate"] is rolling else {**strategy, "rollingUpdate": rolling}
        )
    if spec.get("updateStrategy") is not strategy:
        spec = {**spec, "updateStrategy": strategy}
    retention = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    kept = _filled(retention, whenDeleted="Retain", whenScaled="Retain")
    if kept is not retention:
        spec = {**spec, "persistentVolumeClaimRetentionPolicy": kept}
    claims = [_claim_template(claim) for claim in spec.get("volumeClaimTemplates") or ()]
    if claims:
        spec = {**spec, "volumeClaimTemplates": claims}
    return _with_spec(stateful_set, spec)


def _claim_template(claim: Obj) -> Obj:
    """Whole claims, as the API server keeps them in a StatefulSet: with kind, volume mode and phase."""
    spec = _filled(claim.get("spec") or {}, volumeMode="Filesystem")
    status = _filled(claim.get("status") or {}, phase="Pending")
    kind = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
    return {**kind, **claim, "spec": spec, "status": status}


def _daemon_set(daemon_set: Obj) -> Obj:
    spec = _filled(daemon_set.get("spec") or {}, revisionHistoryLimit=10)
    strategy = _filled(spec.get("updateStrategy") or {}, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = _filled(strategy.get("rollingUpdate") or {}, maxUnavailable=1, maxSurge=0)
        strategy = (
            strategy if strategy.get("rollingUpdate") is rolling else {**strategy, "rollingUpdate": rolling}
        )
    return _with_spec(
        daemon_set, spec if spec.get("updateStrategy") is strategy else {**spec, "updateStrategy": strategy}
    )


def _service(service: Obj) -> Obj:
    given = _said(service.get("spec") or {}, "sessionAffinity", "type")
    spec = _filled(given, sessionAffinity="None", type="ClusterIP")
    if spec["sessionAffinity"] == "ClientIP" and not spec.get("sessionAffinityConfig"):
        spec = {**spec, "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": _CLIENT_IP_SECONDS}}}
    ports = [_service_port(p) for p in spec.get("ports") or ()]
    if any(a is not b for a, b in zip(ports, spec.get("ports") or (), strict=True)):
        spec = {**spec, "ports": ports}
    if spec["type"] in ("NodePort", "LoadBalancer", "ClusterIP"):
        spec = _filled(spec, internalTrafficPolicy="Cluster")
    if spec["type"] in ("NodePort", "LoadBalancer") or (
        spec["type"] == "ClusterIP" and spec.get("externalIPs")
    ):
        spec = _filled(spec, externalTrafficPolicy="Cluster")
    if spec["type"] == "LoadBalancer":
        spec = _filled(spec, allocateLoadBalancerNodePorts=True)
        service = _balanced(service)
    return service if service.get("spec") is spec else {**service, "spec": spec}


def _balanced(service: Obj) -> Obj:
    status = service.get("status") or {}
    balancer = status.get("loadBalancer") or {}
    entries = balancer.get("ingress") or ()
    if all(e.get("ipMode") or not e.get("ip") for e in entries):
        return service
    filled = [_filled(e, ipMode="VIP") if e.get("ip") else e for e in entries]
    return {**service, "status": {**status, "loadBalancer": {**balancer, "ingress": filled}}}


def _service_port(port: Obj) -> Obj:
    missing: Obj = {}
    if not port.get("protocol"):
        missing["protocol"] = "TCP"
    if not port.get("targetPort"):
        missing["targetPort"] = port.get("port")
    return {**port, **missing} if missing else port


def _node(node: Obj) -> Obj:
    spec = node.get("spec") or {}
    if spec.get("podCIDR") and not spec.get("podCIDRs"):
        node = {**node, "spec": {**spec, "podCIDRs": [spec["podCIDR"]]}}
    status = node.get("status")
    if not status or status.get("allocatable") is not None or status.get("capacity") is None:
        return node
    return {**node, "status": {**status, "allocatable": status["capacity"]}}


def _namespace(namespace: Obj) -> Obj:
    meta = meta_of(namespace)
    name = meta.get("name")
    labels: Obj = meta.get("labels") or {}
    if name and labels.get("kubernetes.io/metadata.name") != name:
        labels = {**labels, "kubernetes.io/metadata.name": name}
        namespace = {**namespace, "metadata": {**meta, "labels": labels}}
    status = status_of(namespace)
    return namespace if status.get("phase") else {**namespace, "status": {**status, "phase": "Active"}}


def _limit_range(limit_range: Obj) -> Obj:
    spec: Obj = limit_range.get("spec") or {}
    if not spec.get("limits"):
        return limit_range
    limits = [_limit_range_item(item) for item in spec["limits"]]
    return {**limit_range, "spec": {**spec, "limits": limits}}


def _limit_range_item(item: Obj) -> Obj:
    """Of containers: limits default to the maximum, requests to the limit, else to the minimum."""
    if item.get("type") != "Container":
        return item
    default = {**(item.get("max") or {}), **(item.get("default") or {})}
    request = {**(item.get("min") or {}), **default, **(item.get("defaultRequest") or {})}
    return {**item, "default": default, "defaultRequest": request}


def _priority_class(priority_class: Obj) -> Obj:
    return _filled(priority_class, preemptionPolicy="PreemptLowerPriority")


def _autoscaler(autoscaler: Obj) -> Obj:
    spec = autoscaler.get("spec") or {}
    filled = _filled(spec, minReplicas=1)
    is_v1 = autoscaler.get("apiVersion") == "autoscaling/v1"
    if not is_v1 and not filled.get("metrics"):
        filled = {**filled, "metrics": [_CPU_METRIC]}
    if not is_v1 and filled.get("behavior") is not None:
        behavior = {
            direction: {
                **rules,
                **{k: v for k, v in (filled["behavior"].get(direction) or {}).items() if v is not None},
            }
            for direction, rules in _SCALING_RULES.items()
        }
        if behavior != filled["behavior"]:
            filled = {**filled, "behavior": behavior}
    return autoscaler if filled is spec else {**autoscaler, "spec": filled}


def _pod_template(obj: Obj) -> Obj:
    template = obj.get("template")
    filled = _template(template)
    return obj if filled is template else {**obj, "template": filled}


_BY_KIND: Final[dict[str, Callable[[Obj], Obj]]] = {
    "Pod": _pod,
    "PodTemplate": _pod_template,
    "Job.batch": _job,
    "CronJob.batch": _cron_job,
    "Deployment.apps": _deployment,
    "ReplicaSet.apps": _replica_set,
    "ReplicationController": _replication_controller,
    "StatefulSet.apps": _stateful_set,
    "DaemonSet.apps": _daemon_set,
    "Service": _service,
    "Node": _node,
    "Namespace": _namespace,
    "LimitRange": _limit_range,
    "PriorityClass.scheduling.k8s.io": _priority_class,
    "ResourceClaim.resource.k8s.io": devicedefaults.claim_defaults,
    "ResourceClaimTemplate.resource.k8s.io": devicedefaults.claim_template_defaults,
    "ResourceSlice.resource.k8s.io": devicedefaults.slice_defaults,
    "HorizontalPodAutoscaler.autoscaling": _autoscaler,
    "JobSet.jobset.x-k8s.io": trainingdefaults.jobset,
    "LeaderWorkerSet.leaderworkerset.x-k8s.io": trainingdefaults.leader_worker_set,
    **configdefaults.DEFAULTS,
}


def add_default_tolerations(pod: Obj) -> Obj:
    """The pod with the two NoExecute tolerations of 300 s, unless it already tolerates those taints."""
    spec: Obj = pod.get("spec") or {}
    tolerations = spec.get("tolerations") or []
    added = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": NOT_READY_SECONDS}
        for key in (NOT_READY_TAINT, UNREACHABLE_TAINT)
        if not any(
            t.get("key") in (key, "", None) and t.get("effect") in ("NoExecute", "", None)
            for t in tolerations
        )
    ]
    return {**pod, "spec": {**spec, "tolerations": [*tolerations, *added]}} if added else pod


class PriorityError(ValueError):
    """The Priority admission plugin refuses the pod. The text is its message."""


def resolve_priority(pod: Obj, priority_classes: Mapping[str, Obj]) -> Obj:
    """The pod with `priority` and `preemptionPolicy` from its class, or from the global default class.

    `priority_classes` maps names to PriorityClass objects; the two system classes are always there.
    Raises: PriorityError for an unknown class or a priority that contradicts it.
    """
    spec: Obj = pod.get("spec") or {}
    name = spec.get("priorityClassName") or _default_class(priority_classes)
    if name in _SYSTEM_PRIORITIES and name not in priority_classes:
        value, policy = _SYSTEM_PRIORITIES[name], "PreemptLowerPriority"
    elif name:
        found = priority_classes.get(name)
        if found is None:
            raise PriorityError(f"no PriorityClass with name {name} was found")
        value = found.get("value") or 0
        policy = found.get("preemptionPolicy") or "PreemptLowerPriority"
    else:
        value, policy = 0, "PreemptLowerPriority"
    stated = spec.get("priority")
    if stated is not None and stated != value:
        raise PriorityError(
            f"the integer value of priority ({stated}) must not be provided in pod spec; "
            f"priority admission controller computed {value} from the given PriorityClass name"
        )
    stated_policy = spec.get("preemptionPolicy")
    if stated_policy and stated_policy != policy:
        raise PriorityError(
            f"the string value of PreemptionPolicy ({stated_policy}) must not be provided in pod spec; "
            f"priority admission controller computed {policy} from the given PriorityClass name"
        )
    new: Obj = {"priority": value, "preemptionPolicy": policy}
    if name:
        new["priorityClassName"] = name
    if all(spec.get(k) == v for k, v in new.items()):
        return pod
    return {**pod, "spec": {**spec, **new}}


def _default_class(priority_classes: Mapping[str, Obj]) -> str:
    """The global default class; of several, the one with the lowest value."""
    defaults = [(c.get("value") or 0, name) for name, c in priority_classes.items() if c.get("globalDefault")]
    return min(defaults)[1] if defaults else ""
