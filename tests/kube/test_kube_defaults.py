"""Defaults: what does the API server fill in?"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from fairway.kube.defaults import (
    PriorityError,
    add_default_tolerations,
    apply_defaults,
    generate_job_selector,
    resolve_priority,
)
from fairway.kube.objects import dig
from fairway.kube.poddefaults import pull_policy

Obj = dict[str, Any]


def of_kind(kind: str, api_version: str = "v1", **fields: Any) -> Obj:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, **fields}


def pod(**spec: Any) -> Obj:
    return of_kind("Pod", spec={"containers": [{"name": "c", "image": "i:1"}], **spec})


def filled(obj: Obj, *path: str | int) -> Any:
    """What stands at this path once defaults are in; the object itself must not change."""
    before = copy.deepcopy(obj)
    after = apply_defaults(obj)
    assert obj == before
    assert apply_defaults(after) == after, "defaulting is idempotent"
    return dig(after, *path)


def probe(**fields: Any) -> Obj:
    return pod(containers=[{"name": "c", "image": "i:1", "livenessProbe": fields}])


def limited(**resources: Any) -> Obj:
    return pod(containers=[{"name": "c", "image": "i:1", "resources": resources}])


C = ("spec", "containers", 0)
JOB = {"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": "Never"}}}

CPU_AT_80 = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
}
CASES: dict[str, tuple[Obj, tuple[str | int, ...], Any]] = {
    "an autoscaler without metrics goes by CPU": (
        {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "x"},
            "spec": {"maxReplicas": 3},
        },
        ("spec", "metrics"),
        [CPU_AT_80],
    ),
    "a secret's texts become data": (
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "x"},
            "data": {"a": "MQ==", "b": "Mg=="},
            "stringData": {"b": "3"},
        },
        ("data",),
        {"a": "MQ==", "b": "Mw=="},
    ),
    "a stateful set's claims are whole": (
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": "x"},
            "spec": {"volumeClaimTemplates": [{"metadata": {"name": "d"}, "spec": {}}]},
        },
        ("spec", "volumeClaimTemplates", 0),
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "d"},
            "spec": {"volumeMode": "Filesystem"},
            "status": {"phase": "Pending"},
        },
    ),
    "restart policy": (pod(), ("spec", "restartPolicy"), "Always"),
    "a restart policy that is set stays": (pod(restartPolicy="Never"), ("spec", "restartPolicy"), "Never"),
    "DNS policy": (pod(), ("spec", "dnsPolicy"), "ClusterFirst"),
    "scheduler": (pod(), ("spec", "schedulerName"), "default-scheduler"),
    "grace period": (pod(), ("spec", "terminationGracePeriodSeconds"), 30),
    "a grace period of zero stays": (
        pod(terminationGracePeriodSeconds=0),
        ("spec", "terminationGracePeriodSeconds"),
        0,
    ),
    "service links": (pod(), ("spec", "enableServiceLinks"), True),
    "security context": (pod(), ("spec", "securityContext"), {}),
    "pull policy of a version": (pod(), (*C, "imagePullPolicy"), "IfNotPresent"),
    "termination message": (pod(), (*C, "terminationMessagePath"), "/dev/termination-log"),
    "requests from limits": (
        limited(limits={"cpu": "2", "nvidia.com/gpu": 1}, requests={"cpu": "1"}),
        (*C, "resources", "requests"),
        {"cpu": "1", "nvidia.com/gpu": 1},
    ),
    "no limits, no requests": (limited(), (*C, "resources"), {}),
    "pod-level requests from the containers": (
        {
            **limited(requests={"cpu": "500m"}),
            "spec": {
                **limited(requests={"cpu": "500m"})["spec"],
                "resources": {"limits": {"cpu": "4", "memory": "1Gi"}},
            },
        },
        ("spec", "resources", "requests"),
        {"cpu": "500m", "memory": "1Gi"},
    ),
    "host ports on the host's network": (
        pod(hostNetwork=True, containers=[{"name": "c", "image": "i:1", "ports": [{"containerPort": 80}]}]),
        (*C, "ports"),
        [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}],
    ),
    "probe timing": (
        probe(tcpSocket={"port": 80}),
        (*C, "livenessProbe"),
        {
            "tcpSocket": {"port": 80},
            "timeoutSeconds": 1,
            "periodSeconds": 10,
            "successThreshold": 1,
            "failureThreshold": 3,
        },
    ),
    "HTTP probes": (
        probe(httpGet={"port": 80}),
        (*C, "livenessProbe", "httpGet"),
        {"port": 80, "path": "/", "scheme": "HTTP"},
    ),
    "the version of a field reference": (
        pod(
            containers=[
                {
                    "name": "c",
                    "image": "i",
                    "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}],
                }
            ]
        ),
        (*C, "env", 0, "valueFrom", "fieldRef"),
        {"fieldPath": "x", "apiVersion": "v1"},
    ),
    "a volume of no kind is an emptyDir": (
        pod(volumes=[{"name": "v"}]),
        ("spec", "volumes", 0),
        {"name": "v", "emptyDir": {}},
    ),
    "file modes": (
        pod(volumes=[{"name": "v", "configMap": {"name": "m"}}]),
        ("spec", "volumes", 0, "configMap", "defaultMode"),
        420,
    ),
    "tokens live an hour": (
        pod(volumes=[{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]),
        ("spec", "volumes", 0, "projected", "sources", 0, "serviceAccountToken", "expirationSeconds"),
        3600,
    ),
    "init containers too": (
        pod(initContainers=[{"name": "i", "image": "x"}]),
        ("spec", "initContainers", 0, "imagePullPolicy"),
        "Always",
    ),
    "a job runs once": (of_kind("Job", "batch/v1", spec=JOB), ("spec", "completions"), 1),
    "a job runs one at a time": (of_kind("Job", "batch/v1", spec=JOB), ("spec", "parallelism"), 1),
    "a work queue has no completions": (
        of_kind("Job", "batch/v1", spec={**JOB, "parallelism": 3}),
        ("spec", "completions"),
        None,
    ),
    "a job tries six times again": (of_kind("Job", "batch/v1", spec=JOB), ("spec", "backoffLimit"), 6),
    "a job is not indexed": (of_kind("Job", "batch/v1", spec=JOB), ("spec", "completionMode"), "NonIndexed"),
    "a job is not suspended": (of_kind("Job", "batch/v1", spec=JOB), ("spec", "suspend"), False),
    "a job replaces what is terminating": (
        of_kind("Job", "batch/v1", spec=JOB),
        ("spec", "podReplacementPolicy"),
        "TerminatingOrFailed",
    ),
    "a job with a failure policy replaces what failed": (
        of_kind("Job", "batch/v1", spec={**JOB, "podFailurePolicy": {"rules": []}}),
        ("spec", "podReplacementPolicy"),
        "Failed",
    ),
    "a condition pattern means True": (
        of_kind(
            "Job",
            "batch/v1",
            spec={
                **JOB,
                "podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "D"}]}]},
            },
        ),
        ("spec", "podFailurePolicy", "rules", 0, "onPodConditions", 0, "status"),
        "True",
    ),
    "a job takes the labels of its template": (
        of_kind("Job", "batch/v1", spec=JOB),
        ("metadata", "labels"),
        {"a": "b"},
    ),
    "a template gets the defaults of a spec, not of a pod": (
        of_kind("Job", "batch/v1", spec=JOB),
        ("spec", "template", "spec"),
        {
            "restartPolicy": "Never",
            "dnsPolicy": "ClusterFirst",
            "schedulerName": "default-scheduler",
            "terminationGracePeriodSeconds": 30,
            "securityContext": {},
        },
    ),
    "a cron job allows overlap": (
        of_kind("CronJob", "batch/v1", spec={"jobTemplate": {"spec": JOB}}),
        ("spec", "concurrencyPolicy"),
        "Allow",
    ),
    "a cron job's template": (
        of_kind("CronJob", "batch/v1", spec={"jobTemplate": {"spec": JOB}}),
        ("spec", "jobTemplate", "spec", "template", "spec", "dnsPolicy"),
        "ClusterFirst",
    ),
    "a cron job's job waits for its own defaults": (
        of_kind("CronJob", "batch/v1", spec={"jobTemplate": {"spec": JOB}}),
        ("spec", "jobTemplate", "spec", "backoffLimit"),
        None,
    ),
    "a deployment has one replica": (of_kind("Deployment", "apps/v1", spec={}), ("spec", "replicas"), 1),
    "a deployment rolls by quarters": (
        of_kind("Deployment", "apps/v1", spec={}),
        ("spec", "strategy"),
        {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}},
    ),
    "a deployment that recreates does not roll": (
        of_kind("Deployment", "apps/v1", spec={"strategy": {"type": "Recreate"}}),
        ("spec", "strategy"),
        {"type": "Recreate"},
    ),
    "a deployment remembers ten": (of_kind("Deployment", "apps/v1"), ("spec", "revisionHistoryLimit"), 10),
    "a deployment waits ten minutes": (
        of_kind("Deployment", "apps/v1"),
        ("spec", "progressDeadlineSeconds"),
        600,
    ),
    "zero replicas stay": (of_kind("ReplicaSet", "apps/v1", spec={"replicas": 0}), ("spec", "replicas"), 0),
    "a stateful set goes in order": (
        of_kind("StatefulSet", "apps/v1"),
        ("spec", "podManagementPolicy"),
        "OrderedReady",
    ),
    "a stateful set rolls from the top": (
        of_kind("StatefulSet", "apps/v1"),
        ("spec", "updateStrategy"),
        {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
    ),
    "a daemon set takes one down at a time": (
        of_kind("DaemonSet", "apps/v1"),
        ("spec", "updateStrategy", "rollingUpdate"),
        {"maxUnavailable": 1, "maxSurge": 0},
    ),
    "a service": (
        of_kind("Service", spec={"ports": [{"port": 80}]}),
        ("spec",),
        {
            "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
            "sessionAffinity": "None",
            "type": "ClusterIP",
            "internalTrafficPolicy": "Cluster",
        },
    ),
    "a node can give all it has": (
        of_kind("Node", status={"capacity": {"cpu": 8}}),
        ("status", "allocatable"),
        {"cpu": 8},
    ),
    "a namespace carries its name": (
        of_kind("Namespace"),
        ("metadata", "labels"),
        {"kubernetes.io/metadata.name": "x"},
    ),
    "limits default to the maximum": (
        of_kind(
            "LimitRange", spec={"limits": [{"type": "Container", "max": {"cpu": 2}, "min": {"memory": 1}}]}
        ),
        ("spec", "limits", 0),
        {
            "type": "Container",
            "max": {"cpu": 2},
            "min": {"memory": 1},
            "default": {"cpu": 2},
            "defaultRequest": {"cpu": 2, "memory": 1},
        },
    ),
    "a priority class preempts": (
        of_kind("PriorityClass", "scheduling.k8s.io/v1"),
        ("preemptionPolicy",),
        "PreemptLowerPriority",
    ),
    "a budget has no defaults": (of_kind("PodDisruptionBudget", "policy/v1", spec={}), ("spec",), {}),
}


@pytest.mark.parametrize(("obj", "path", "want"), CASES.values(), ids=CASES.keys())
def test_defaults(obj: Obj, path: tuple[str | int, ...], want: Any) -> None:
    assert filled(obj, *path) == want


@pytest.mark.parametrize(
    ("image", "want"),
    [
        ("cuda", "Always"),
        ("cuda:latest", "Always"),
        ("cuda:12", "IfNotPresent"),
        ("registry:5000/cuda", "Always"),
        ("registry:5000/cuda:12", "IfNotPresent"),
        ("cuda@sha256:abc", "IfNotPresent"),
        ("cuda:latest@sha256:abc", "Always"),
    ],
)
def test_pull_policy_follows_the_tag(image: str, want: str) -> None:
    assert pull_policy(image) == want


def test_what_is_complete_comes_back_as_it_is() -> None:
    complete = apply_defaults(pod())
    assert apply_defaults(complete) is complete
    custom = of_kind("Widget", "a.io/v1")
    assert apply_defaults(custom) is custom


def test_pods_of_one_template_share_one_defaulted_spec() -> None:
    spec = pod()["spec"]
    first = apply_defaults({**of_kind("Pod"), "spec": spec})
    second = apply_defaults({**of_kind("Pod"), "spec": spec})
    assert first["spec"] is second["spec"]
    assert first["spec"]["containers"][0] is not spec["containers"][0]


def test_a_job_with_a_uid_gets_a_selector() -> None:
    job = of_kind("Job", "batch/v1", spec=JOB)
    assert dig(apply_defaults(job), "spec", "selector") is None
    created = {**job, "metadata": {"name": "x", "uid": "u-1"}}
    made = apply_defaults(created)
    assert made["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": "u-1"}}
    assert made["spec"]["template"]["metadata"]["labels"] == {
        "a": "b",
        "batch.kubernetes.io/controller-uid": "u-1",
        "batch.kubernetes.io/job-name": "x",
        "controller-uid": "u-1",
        "job-name": "x",
    }
    named = {"matchLabels": {"batch.kubernetes.io/controller-uid": "other"}}
    kept = generate_job_selector({**created, "spec": {**JOB, "selector": named}})["spec"]
    assert kept["selector"] == named
    assert kept["template"]["metadata"]["labels"]["controller-uid"] == "u-1"
    assert generate_job_selector(made) is made
    manual = {**created, "spec": {**JOB, "manualSelector": True, "selector": {"matchLabels": {"a": "b"}}}}
    assert generate_job_selector(manual) is manual


def test_empty_texts_are_none() -> None:
    service = of_kind("Service", "v1", spec={"sessionAffinity": "", "type": ""})
    made = apply_defaults(service)["spec"]
    assert (made["sessionAffinity"], made["type"]) == ("None", "ClusterIP")
    cron_job = of_kind("CronJob", "batch/v1", spec={"schedule": "* * * * *", "concurrencyPolicy": ""})
    assert apply_defaults(cron_job)["spec"]["concurrencyPolicy"] == "Allow"


def test_pods_tolerate_lost_nodes_for_five_minutes() -> None:
    made = add_default_tolerations(pod(tolerations=[{"key": "a", "operator": "Exists"}]))
    assert made["spec"]["tolerations"][1:] == [
        {
            "key": f"node.kubernetes.io/{what}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": 300,
        }
        for what in ("not-ready", "unreachable")
    ]
    assert add_default_tolerations(made) is made
    for_ever = pod(tolerations=[{"operator": "Exists"}])
    assert add_default_tolerations(for_ever) is for_ever
    half = pod(
        tolerations=[{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}]
    )
    assert [t["key"] for t in add_default_tolerations(half)["spec"]["tolerations"][1:]] == [
        "node.kubernetes.io/unreachable"
    ]


CLASSES = {
    "high": {"value": 1000},
    "polite": {"value": 10, "preemptionPolicy": "Never"},
    "default-a": {"value": 5, "globalDefault": True},
    "default-b": {"value": 7, "globalDefault": True},
}


def test_priority_comes_from_the_class() -> None:
    spec = resolve_priority(pod(priorityClassName="high"), CLASSES)["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (1000, "PreemptLowerPriority")
    spec = resolve_priority(pod(priorityClassName="polite"), CLASSES)["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (10, "Never")


def test_without_a_class_the_lowest_global_default_holds() -> None:
    assert resolve_priority(pod(), CLASSES)["spec"]["priorityClassName"] == "default-a"
    spec = resolve_priority(pod(), {})["spec"]
    assert spec["priority"] == 0
    assert "priorityClassName" not in spec


def test_the_systems_classes_are_always_there() -> None:
    spec = resolve_priority(pod(priorityClassName="system-node-critical"), {})["spec"]
    assert spec["priority"] == 2_000_001_000


def test_a_resolved_pod_comes_back_as_it_is() -> None:
    once = resolve_priority(pod(priorityClassName="high"), CLASSES)
    assert resolve_priority(once, CLASSES) is once


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({"priorityClassName": "absent"}, "no PriorityClass with name absent was found"),
        (
            {"priorityClassName": "high", "priority": 3},
            r"the integer value of priority \(3\) must not be provided in pod spec; priority admission controller "
            "computed 1000",
        ),
        ({"priorityClassName": "polite", "preemptionPolicy": "PreemptLowerPriority"}, "PreemptionPolicy"),
    ],
)
def test_priorities_that_contradict_their_class_are_refused(spec: Obj, want: str) -> None:
    with pytest.raises(PriorityError, match=want):
        resolve_priority(pod(**spec), CLASSES)
