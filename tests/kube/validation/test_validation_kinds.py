"""What is wrong with nodes, quotas, jobs, controllers, services and the rest."""

from __future__ import annotations

from typing import Any

import pytest
from validationworld import container, controller, cron_job, job, node, of_kind, template, told

Case = tuple[dict[str, Any], list[str]]


def quota(**spec: Any) -> dict[str, Any]:
    return of_kind("ResourceQuota", spec=spec)


def limits(**item: Any) -> dict[str, Any]:
    return of_kind("LimitRange", spec={"limits": [{"type": "Container", **item}]})


def service(*ports: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return of_kind("Service", spec={"ports": list(ports), **spec})


def budget(**spec: Any) -> dict[str, Any]:
    return of_kind("PodDisruptionBudget", "policy/v1", spec=spec)


def priority(name: str = "high", **fields: Any) -> dict[str, Any]:
    return of_kind("PriorityClass", "scheduling.k8s.io/v1", name, **fields)


RULE = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}

FINE = {
    "a node": node(
        [{"key": "a", "effect": "NoSchedule"}], capacity={"cpu": 8, "nvidia.com/gpu": 8, "pods": "110"}
    ),
    "a node without anything": of_kind("Node"),
    "a namespace": of_kind("Namespace", name="team-a"),
    "a job": job(),
    "an indexed job": job(
        completions=3, completionMode="Indexed", backoffLimitPerIndex=1, maxFailedIndexes=2
    ),
    "a job with a failure policy": job(podFailurePolicy={"rules": [RULE]}),
    "a cron job": cron_job("*/5 0-6/2 1,15 JAN-MAR mon"),
    "a cron job by name": cron_job("@hourly"),
    "a deployment": controller("Deployment", replicas=0),
    "a replica set": controller("ReplicaSet"),
    "a daemon set": controller("DaemonSet"),
    "a stateful set with claims": controller(
        "StatefulSet",
        serviceName="s",
        template=template(container(volumeMounts=[{"name": "data", "mountPath": "/d"}])),
        volumeClaimTemplates=[
            {
                "metadata": {"name": "data"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            }
        ],
    ),
    "a budget": budget(minAvailable="50%", selector={}),
    "a priority class": priority(value=1000, globalDefault=True),
    "a negative priority": priority(value=-5),
    "a system priority class": priority("system-node-critical", value=2000001000),
    "a quota": quota(
        hard={"requests.nvidia.com/gpu": 8, "cpu": 4, "count/jobs.batch": 3, "requests.storage": "1Ti"}
    ),
    "a scoped quota": quota(
        hard={"pods": 3},
        scopeSelector={
            "matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["a"]}]
        },
    ),
    "a limit range": limits(max={"cpu": 2}, min={"cpu": "100m"}, default={"cpu": 1}),
    "a service": service({"port": 80}, selector={"app": "web"}),
    "a headless service": service(clusterIP="None"),
    "a custom kind": of_kind("Widget", "example.com/v1", anything={"goes": [1]}),
    "a role with a colon in its name": of_kind(
        "ClusterRole", "rbac.authorization.k8s.io/v1", "system:x", rules=[]
    ),
    "a configuration file": {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
    },
}


@pytest.mark.parametrize("obj", FINE.values(), ids=FINE.keys())
def test_nothing_is_wrong(obj: dict[str, Any]) -> None:
    assert told(obj) == []


CLUSTER: dict[str, Case] = {
    "a taint without effect": (
        node([{"key": "a"}]),
        [
            "metadata.taints[0].effect: Required value",
        ],
    ),
    "a taint with an unknown effect": (
        node([{"key": "a", "effect": "NoGo"}]),
        [
            'metadata.taints[0].effect: Unsupported value: "NoGo": supported values: '
            '"NoSchedule", "PreferNoSchedule", "NoExecute"',
        ],
    ),
    "a taint twice": (
        node([{"key": "a", "effect": "NoSchedule"}, {"key": "a", "value": "x", "effect": "NoSchedule"}]),
        [
            'metadata.taints[1]: Duplicate value: {"Key":"a","Value":"x",'
            '"Effect":"NoSchedule","TimeAdded":null}: taints must be unique by key and '
            "effect pair",
        ],
    ),
    "negative capacity": (
        node(capacity={"cpu": "-1"}),
        [
            'status.capacity.cpu: Invalid value: "-1": must be greater than or equal to 0',
            'status.allocatable.cpu: Invalid value: "-1": must be greater than or equal to 0',
        ],
    ),
    "a fraction of a GPU to allocate": (
        node(allocatable={"nvidia.com/gpu": "7500m"}),
        [
            'status.allocatable.nvidia.com/gpu: Invalid value: "7500m": must be an integer',
        ],
    ),
    "a namespace with dots": (
        of_kind("Namespace", name="a.b"),
        ['metadata.name: Invalid value: "a.b": must not contain dots'],
    ),
    "a priority above what users may have": (
        priority(value=1_000_000_001),
        ["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"],
    ),
    "a priority class that pretends to be the system's": (
        priority("system-mine", value=1),
        [
            "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use "
            "only. error: system-mine is not a known system priority class"
        ],
    ),
    "a config key with a slash": (
        of_kind("ConfigMap", data={"a/b": "x"}),
        [
            "data[a/b]: Invalid value: \"a/b\": a valid config key must consist of alphanumeric characters, '-', "
            "'_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is "
            "'[-._a-zA-Z0-9]+')"
        ],
    ),
    "a config map too large": (
        of_kind("ConfigMap", data={"a": "x" * (1024 * 1024 + 1)}),
        [
            ": Too long: may not be more than 1048576 bytes",
        ],
    ),
    "annotations too large": (
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "annotations": {"a": "x" * 300_000}}},
        ["metadata.annotations: Too long: may not be more than 262144 bytes"],
    ),
}

QUOTAS: dict[str, Case] = {
    "a quota on a resource nobody knows": (
        quota(hard={"gpus": 3}),
        [
            'spec.hard[gpus]: Invalid value: "gpus": must be a standard resource type or fully qualified',
            'spec.hard[gpus]: Invalid value: "gpus": must be a standard resource for quota',
        ],
    ),
    "a negative quota": (
        quota(hard={"pods": -1}),
        ['spec.hard[pods]: Invalid value: "-1": must be greater than or equal to 0'],
    ),
    "a quota of half a pod": (
        quota(hard={"pods": "500m"}),
        ['spec.hard[pods]: Invalid value: "500m": must be an integer'],
    ),
    "scopes that exclude each other": (
        quota(scopes=["BestEffort", "NotBestEffort"]),
        ['spec.scopes: Invalid value: ["BestEffort","NotBestEffort"]: conflicting scopes'],
    ),
    "a scope that does not apply": (
        quota(hard={"cpu": 1}, scopes=["BestEffort"]),
        ['spec.scopes: Invalid value: ["BestEffort"]: unsupported scope applied to resource'],
    ),
    "a scope selector without values": (
        quota(scopeSelector={"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In"}]}),
        [
            "spec.scopeSelector.matchExpressions.values: Required value: must be at least "
            "one value when `operator` is 'In' or 'NotIn' for scope selector",
        ],
    ),
    "a limit range of an unknown type": (
        of_kind("LimitRange", spec={"limits": [{"type": "Node"}]}),
        ['spec.limits[0].type: Invalid value: "Node": must be a standard limit type or fully qualified'],
    ),
    "a minimum above the maximum": (
        limits(max={"cpu": 1}, min={"cpu": 2}, default={"cpu": 1}, defaultRequest={"cpu": 1}),
        [
            'spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1',
            'spec.limits[0].defaultRequest[cpu]: Invalid value: "1": min value 2 is '
            "greater than default request value 1",
            'spec.limits[0].default[cpu]: Invalid value: "2": min value 2 is greater than default value 1',
        ],
    ),
    "a default for pods": (
        of_kind("LimitRange", spec={"limits": [{"type": "Pod", "default": {"cpu": 1}}]}),
        ["spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'"],
    ),
    "a ratio below one": (
        limits(maxLimitRequestRatio={"cpu": "500m"}),
        ['spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: "500m": ratio 500m is less than 1'],
    ),
}

BATCH: dict[str, Case] = {
    "a job that restarts for ever": (
        job("Always"),
        ['spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"'],
    ),
    "a job with an unknown restart policy": (
        job("Sometimes"),
        [
            'spec.template.spec.restartPolicy: Unsupported value: "Sometimes": supported '
            'values: "Always", "OnFailure", "Never"',
            'spec.template.spec.restartPolicy: Unsupported value: "Sometimes": supported '
            'values: "OnFailure", "Never"',
        ],
    ),
    "a job without a template": (
        of_kind("Job", "batch/v1", spec={}),
        [
            "spec.template.spec.containers: Required value",
            'spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"',
        ],
    ),
    "negative parallelism": (
        job(parallelism=-1),
        ["spec.parallelism: Invalid value: -1: must be greater than or equal to 0"],
    ),
    "a negative backoff limit": (
        job(backoffLimit=-1),
        ["spec.backoffLimit: Invalid value: -1: must be greater than or equal to 0"],
    ),
    "an unknown completion mode": (
        job(completionMode="Ordered"),
        ['spec.completionMode: Unsupported value: "Ordered": supported values: "NonIndexed", "Indexed"'],
    ),
    "an indexed job without completions": (
        job(completionMode="Indexed", parallelism=3),
        ["spec.completions: Required value: when completion mode is Indexed"],
    ),
    "limits per index on a job without": (
        job(backoffLimitPerIndex=1),
        ["spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode"],
    ),
    "a failure policy with restarts": (
        job("OnFailure", podFailurePolicy={"rules": [RULE]}),
        [
            'spec.template.spec.restartPolicy: Invalid value: "OnFailure": only "Never" is supported when '
            "podFailurePolicy is specified"
        ],
    ),
    "exit codes out of order": (
        job(
            podFailurePolicy={
                "rules": [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [3, 2]}}]
            }
        ),
        ["spec.podFailurePolicy.rules[0].onExitCodes.values: Invalid value: [3,2]: must be ordered"],
    ),
    "success as a failure": (
        job(
            podFailurePolicy={
                "rules": [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [0]}}]
            }
        ),
        [
            "spec.podFailurePolicy.rules[0].onExitCodes.values[0]: Invalid value: 0: must not be 0 for the In "
            "operator"
        ],
    ),
    "a rule about nothing": (
        job(podFailurePolicy={"rules": [{"action": "Count"}]}),
        [
            "spec.podFailurePolicy.rules[0]: Invalid value: specifying one of OnExitCodes "
            "and OnPodConditions is required",
        ],
    ),
    "replacement that does not go with a failure policy": (
        job(podFailurePolicy={"rules": [RULE]}, podReplacementPolicy="TerminatingOrFailed"),
        ['spec.podReplacementPolicy: Unsupported value: "TerminatingOrFailed": supported values: "Failed"'],
    ),
    "an indexed job whose pods would have no hostname": (
        {
            **job(completions=10, completionMode="Indexed"),
            "metadata": {"name": "x" * 62},
        },
        [
            f'metadata.name: Invalid value: "{"x" * 62}": will not able to create pod with invalid DNS label: '
            f"{'x' * 62}-9"
        ],
    ),
    "a manager without a domain": (
        job(managedBy="kueue"),
        ['spec.managedBy: Invalid value: "kueue": must be a domain-prefixed path (such as "acme.io/foo")'],
    ),
    "a schedule of six fields": (
        cron_job("0 0 3 * * *"),
        ['spec.schedule: Invalid value: "0 0 3 * * *": expected exactly 5 fields, found 6: [0 0 3 * * *]'],
    ),
    "a minute that is none": (
        cron_job("60 * * * *"),
        ['spec.schedule: Invalid value: "60 * * * *": end of range (60) above maximum (59): 60'],
    ),
    "a time zone in the schedule": (
        cron_job("TZ=UTC 0 3 * * *"),
        [
            'spec.schedule: Invalid value: "TZ=UTC 0 3 * * *": cannot use TZ or CRON_TZ in schedule, use '
            "timeZone field instead"
        ],
    ),
    "an unknown concurrency policy": (
        cron_job(concurrencyPolicy="Queue"),
        [
            'spec.concurrencyPolicy: Unsupported value: "Queue": supported values: "Allow", "Forbid", "Replace"'
        ],
    ),
    "a cron job with a long name": (
        {**cron_job(), "metadata": {"name": "x" * 53}},
        [f'metadata.name: Invalid value: "{"x" * 53}": must be no more than 52 characters'],
    ),
}

CONTROLLERS: dict[str, Case] = {
    "no selector": (
        controller("Deployment", selector=None),
        [
            "spec.selector: Required value",
            'spec.template.metadata.labels: Invalid value: {"app":"web"}: `selector` does not match template '
            "`labels`",
        ],
    ),
    "an empty selector": (
        controller("Deployment", selector={}),
        ["spec.selector: Invalid value: {}: empty selector is invalid for deployment"],
    ),
    "a selector that misses its template": (
        controller("Deployment", selector={"matchLabels": {"app": "api"}}),
        [
            'spec.template.metadata.labels: Invalid value: {"app":"web"}: `selector` does not match template '
            "`labels`"
        ],
    ),
    "a template that ends": (
        controller("Deployment", template=template(restartPolicy="Never")),
        ['spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"'],
    ),
    "a template with a deadline": (
        controller("StatefulSet", template=template(activeDeadlineSeconds=5)),
        [
            "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in StatefulSet is not "
            "Supported"
        ],
    ),
    "negative replicas": (
        controller("ReplicaSet", replicas=-1),
        ["spec.replicas: Invalid value: -1: must be greater than or equal to 0"],
    ),
    "Recreate with rolling parameters": (
        controller("Deployment", strategy={"type": "Recreate", "rollingUpdate": {}}),
        ["spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"],
    ),
    "an unknown strategy": (
        controller("Deployment", strategy={"type": "BlueGreen"}),
        [
            'spec.strategy: Unsupported value: {"Type":"BlueGreen","RollingUpdate":null}: '
            'supported values: "Recreate", "RollingUpdate"',
        ],
    ),
    "a rollout that cannot move": (
        controller("Deployment", strategy={"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}),
        ["spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0"],
    ),
    "a percentage that is none": (
        controller("Deployment", strategy={"rollingUpdate": {"maxSurge": "half"}}),
        [
            'spec.strategy.rollingUpdate.maxSurge: Invalid value: "half": a valid percent string must be a '
            "numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is "
            "'[0-9]+%')"
        ],
    ),
    "a deadline before the pods are ready": (
        controller("Deployment", progressDeadlineSeconds=10, minReadySeconds=10),
        ["spec.progressDeadlineSeconds: Invalid value: 10: must be greater than minReadySeconds"],
    ),
    "a stateful set with a name that is no label": (
        {**controller("StatefulSet"), "metadata": {"name": "a.b"}},
        ['metadata.name: Invalid value: "a.b": must not contain dots'],
    ),
    "an unknown pod management": (
        controller("StatefulSet", podManagementPolicy="Random"),
        [
            "spec.podManagementPolicy: Invalid value: \"Random\": must be 'OrderedReady' or 'Parallel'",
        ],
    ),
    "a daemon set that surges and stops": (
        controller("DaemonSet", updateStrategy={"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}),
        [
            "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when maxUnavailable is "
            "non-zero"
        ],
    ),
    "a budget of both kinds": (
        budget(minAvailable=1, maxUnavailable=1),
        [
            'spec: Invalid value: {"MinAvailable":1,"Selector":null,"MaxUnavailable":1,'
            '"UnhealthyPodEvictionPolicy":null}: minAvailable and maxUnavailable cannot be '
            "both set",
        ],
    ),
    "a budget of more than all": (
        budget(maxUnavailable="101%"),
        ['spec.maxUnavailable: Invalid value: "101%": must not be greater than 100%'],
    ),
    "an autoscaler without a maximum": (
        of_kind(
            "HorizontalPodAutoscaler",
            "autoscaling/v2",
            spec={"scaleTargetRef": {"kind": "Deployment", "name": "x"}},
        ),
        [
            "spec.maxReplicas: Required value: must be set and greater than 0",
            "spec.maxReplicas: Invalid value: 0: must be greater than or equal to `minReplicas`",
            'spec.scaleTargetRef.apiVersion: Invalid value: "": apiVersion must specify API group',
        ],
    ),
    "an autoscaler whose behaviour and metrics contradict themselves": (
        of_kind(
            "HorizontalPodAutoscaler",
            "autoscaling/v2",
            spec={
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"},
                "minReplicas": 3,
                "maxReplicas": 2,
                "metrics": [
                    {"type": "Pods", "resource": {"name": "cpu", "target": {"type": "Utilization"}}},
                    {
                        "type": "External",
                        "external": {
                            "metric": {"name": "a/b"},
                            "target": {"type": "Value", "value": "1", "averageValue": "1"},
                        },
                    },
                ],
                "behavior": {
                    "scaleUp": {
                        "selectPolicy": "Mean",
                        "policies": [{"type": "Nodes", "value": 0, "periodSeconds": 3600}],
                    },
                    "scaleDown": {"stabilizationWindowSeconds": 4000},
                },
            },
        ),
        [
            "spec.maxReplicas: Invalid value: 2: must be greater than or equal to `minReplicas`",
            "spec.metrics[0].resource.target.averageUtilization: Required value: "
            "must set either a target raw value or a target utilization",
            "spec.metrics[0].pods: Required value: must populate information for the given metric source",
            "spec.metrics[1].external.metric.name: Invalid value: \"a/b\": may not contain '/'",
            "spec.metrics[1].external.target.value: Forbidden: "
            "may not set both a target value for metric and a per-pod target",
            'spec.behavior.scaleUp.selectPolicy: Unsupported value: "Mean": supported values: "Disabled", "Max", "Min"',
            'spec.behavior.scaleUp.policies[0].type: Unsupported value: "Nodes": supported values: "Percent", "Pods"',
            "spec.behavior.scaleUp.policies[0].value: Invalid value: 0: must be greater than zero",
            "spec.behavior.scaleUp.policies[0].periodSeconds: Invalid value: 3600: must be less than or equal to 1800",
            "spec.behavior.scaleDown.stabilizationWindowSeconds: Invalid value: 4000: "
            "must be less than or equal to 3600",
        ],
    ),
    "a service without ports": (service(), ["spec.ports: Required value"]),
    "two ports without names": (
        service({"port": 80}, {"port": 81}),
        ["spec.ports[0].name: Required value", "spec.ports[1].name: Required value"],
    ),
    "a node port where there is none": (
        service({"port": 80, "nodePort": 30000}),
        ["spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"],
    ),
    "an unknown service type": (
        service({"port": 80}, type="Internal"),
        [
            'spec.type: Unsupported value: "Internal": supported values: "ClusterIP", "ExternalName", '
            '"LoadBalancer", "NodePort"'
        ],
    ),
    "a service that starts with a digit": (
        {**service({"port": 80}), "metadata": {"name": "1st"}},
        [],
    ),
}

ALL = {**CLUSTER, **QUOTAS, **BATCH, **CONTROLLERS}


@pytest.mark.parametrize(("obj", "want"), ALL.values(), ids=ALL.keys())
def test_an_object_is_refused_in_kubernetes_words(obj: dict[str, Any], want: list[str]) -> None:
    assert told(obj) == want
