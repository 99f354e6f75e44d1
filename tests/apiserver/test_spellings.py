"""Conditions one waits for, objects in other versions, and what is warned about: both sides of each rule."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.apiserver.conditions import condition_of
from fairway.apiserver.converting import converted
from fairway.apiserver.warnings import warnings
from fairway.cluster.store import Store
from fairway.errors import UserError
from fairway.kube.objects import Key, Obj

JOB = Key("Job.batch", "default", "j")


def a_job(**status: Any) -> Store:
    store = Store()
    store.create(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "j", "namespace": "default"},
            "spec": {},
        }
    )
    store.set_status(JOB, status)
    return store


def holds(store: Store, wanted: str, target: str = "job/j", **more: str) -> bool:
    return condition_of(store, {"target": target, "for": wanted, **more})()


@pytest.mark.parametrize(
    ("wanted", "want"),
    [
        ("condition=Complete", True),
        ("condition=complete=true", True),
        ("condition=Complete=False", False),
        ("condition=Failed", False),
        ("condition=Failed=False", True),
        ("condition=Other=False", False),
        ("jsonpath={.status.succeeded}=2", True),
        ("jsonpath=.status.succeeded=3", False),
        ("jsonpath={.status.ready}=true", True),
        ("jsonpath={.status.none}=", True),
        ("jsonpath={.status.conditions[1].type}=Failed", True),
        ("create", True),
        ("delete", False),
    ],
)
def test_what_is_waited_for(wanted: str, want: bool) -> None:
    conditions = [{"type": "Complete", "status": "True"}, {"type": "Failed", "status": "False"}]
    store = a_job(succeeded=2, ready=True, conditions=conditions)
    assert holds(store, wanted) == want
    nowhere = holds(store, wanted, namespace="other")
    assert nowhere == (wanted in ("delete", "jsonpath={.status.none}="))
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    store.create(node)
    assert holds(store, "create", "node/n", namespace="other"), "nodes have no namespace"


@pytest.mark.parametrize(
    ("target", "wanted"),
    [
        ("job", "create"),
        ("job/", "create"),
        ("nothing/j", "create"),
        ("job/j", ""),
        ("job/j", "condition="),
        ("job/j", "jsonpath={.a}"),
        ("job/j", "later"),
    ],
)
def test_what_cannot_be_waited_for(target: str, wanted: str) -> None:
    with pytest.raises(UserError, match="expected"):
        condition_of(Store(), {"target": target, "for": wanted})


META = {"name": "e", "namespace": "default"}
CORE: Obj = {
    "apiVersion": "v1",
    "kind": "Event",
    "metadata": META,
    "involvedObject": {"kind": "Pod"},
    "message": "said",
    "source": {"component": "c"},
    "firstTimestamp": "t1",
    "lastTimestamp": "t2",
    "count": 3,
    "eventTime": "t3",
    "reportingComponent": "rc",
    "reportingInstance": "ri",
    "reason": "r",
    "type": "Normal",
    "action": "a",
    "related": {"kind": "Node"},
    "series": {"count": 1},
}
EVENTS: Obj = {
    "apiVersion": "events.k8s.io/v1",
    "kind": "Event",
    "metadata": META,
    "regarding": {"kind": "Pod"},
    "note": "said",
    "deprecatedSource": {"component": "c"},
    "deprecatedFirstTimestamp": "t1",
    "deprecatedLastTimestamp": "t2",
    "deprecatedCount": 3,
    "eventTime": "t3",
    "reportingController": "rc",
    "reportingInstance": "ri",
    "reason": "r",
    "type": "Normal",
    "action": "a",
    "related": {"kind": "Node"},
    "series": {"count": 1},
}


def test_events_in_both_versions_say_the_same() -> None:
    assert converted(CORE, "events.k8s.io/v1") == EVENTS
    assert converted(EVENTS, "v1") == CORE
    assert converted(CORE, "v1") is CORE
    bare = {"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": META}
    made = converted(bare, "v1")
    assert "count" not in made
    assert "reason" not in made
    assert (made["involvedObject"], made["message"], made["source"]) == ({}, "", {})


def test_autoscalers_in_both_versions_have_one_target() -> None:
    cpu = {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}},
    }
    memory = {"type": "Resource", "resource": {"name": "memory", "target": {"averageUtilization": 60}}}
    value = {"type": "Resource", "resource": {"name": "cpu", "target": {"averageValue": "1"}}}
    new = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": META,
        "spec": {"maxReplicas": 3, "metrics": [value, memory, cpu], "behavior": {"x": 1}},
        "status": {"currentReplicas": 2, "conditions": [], "currentMetrics": []},
    }
    old = converted(new, "autoscaling/v1")
    assert old["spec"] == {"maxReplicas": 3, "targetCPUUtilizationPercentage": 70}
    assert old["status"] == {"currentReplicas": 2}
    back = converted(old, "autoscaling/v2")
    assert back["apiVersion"] == "autoscaling/v2"
    assert back["spec"]["metrics"] == [cpu]
    assert "targetCPUUtilizationPercentage" not in back["spec"]
    none = converted({**new, "spec": {"maxReplicas": 3, "metrics": [memory]}}, "autoscaling/v1")
    assert none["spec"] == {"maxReplicas": 3}
    other = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": META, "spec": 1}
    assert converted(other, "example.com/v2") == {**other, "apiVersion": "example.com/v2"}


NULL = "a null labelSelector results in matching no pod"


def of_pod(**spec: Any) -> list[str]:
    return warnings({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})


def of_container(**fields: Any) -> list[str]:
    return of_pod(containers=[{"name": "c", **fields}])


def test_pods_without_faults_are_not_warned_about() -> None:
    selected = {"labelSelector": {}, "topologyKey": "rack"}
    assert (
        of_pod(
            containers=[{"name": "c", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "1"}]}],
            imagePullSecrets=[{"name": "a"}, {"name": "b"}],
            hostAliases=[{"ip": "1"}, {"ip": "2"}],
            terminationGracePeriodSeconds=0,
            affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [selected]}},
            topologySpreadConstraints=[selected],
            nodeSelector={"disk": "ssd"},
        )
        == []
    )
    assert warnings({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}) == []


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"imagePullSecrets": [{"name": ""}]}, ['spec.imagePullSecrets[0]: invalid empty name ""']),
        (
            {"imagePullSecrets": [{"name": "a"}, {"name": "b"}, {"name": "a"}]},
            ['spec.imagePullSecrets[2].name: duplicate name "a"'],
        ),
        ({"hostAliases": [{"ip": "1"}, {"ip": "1"}]}, ['spec.hostAliases[1].ip: duplicate ip "1"']),
        (
            {"terminationGracePeriodSeconds": -1},
            [
                "spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be "
                "treated as 1"
            ],
        ),
        (
            {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}},
            [
                f"spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector: {NULL}"
            ],
        ),
        (
            {
                "affinity": {
                    "podAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [{"podAffinityTerm": {}}]
                    }
                }
            },
            [
                "spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm."
                f"labelSelector: {NULL}"
            ],
        ),
        (
            {"topologySpreadConstraints": [{"topologyKey": "rack"}]},
            [f"spec.topologySpreadConstraints[0].labelSelector: {NULL}"],
        ),
    ],
)
def test_pods_are_warned_about(spec: Obj, said: list[str]) -> None:
    assert of_pod(**spec) == said


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"resources": {"limits": {"memory": "1.5"}}}, ['limits[memory]: fractional byte value "1.5"']),
        (
            {"resources": {"requests": {"ephemeral-storage": "100m"}}},
            ["requests[ephemeral-storage]: fractional byte"],
        ),
        ({"resources": {"limits": {"memory": "1Gi", "cpu": "1.5"}}}, []),
        (
            {"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]},
            ['env[1]: hides previous definition of "A", which may be dropped when using apply'],
        ),
        ({"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "$(A):2"}]}, []),
        (
            {
                "ports": [
                    {"containerPort": 80},
                    {"containerPort": 81},
                    {"containerPort": 80, "protocol": "TCP"},
                ]
            },
            ["ports[2]: duplicate port definition with spec.containers[0].ports[0]"],
        ),
        ({"ports": [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}]}, []),
        ({"ports": [{"containerPort": 80, "hostPort": 1}, {"containerPort": 80, "hostPort": 2}]}, []),
    ],
)
def test_containers_are_warned_about(fields: Obj, said: list[str]) -> None:
    found = of_container(**fields)
    assert len(found) == len(said)
    for one, want in zip(found, said, strict=True):
        assert want in one
        assert one.startswith("spec.containers[0].")


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"clusterIP": "None"}, []),
        (
            {"clusterIP": "None", "loadBalancerIP": "1"},
            ["spec.loadBalancerIP is ignored for headless services"],
        ),
        ({"clusterIP": "None", "externalIPs": ["1"]}, ["spec.externalIPs is ignored for headless services"]),
        (
            {"clusterIP": "None", "sessionAffinity": "ClientIP"},
            ["spec.SessionAffinity is ignored for headless services"],
        ),
        ({"clusterIP": "None", "sessionAffinity": "None"}, []),
        ({"clusterIP": "None", "type": "LoadBalancer", "loadBalancerIP": "1"}, []),
        (
            {
                "clusterIP": "10.0.0.1",
                "loadBalancerIP": "1",
                "externalIPs": ["1"],
                "sessionAffinity": "ClientIP",
            },
            [],
        ),
        (
            {"type": "ExternalName", "externalIPs": ["1"]},
            ['spec.externalIPs is ignored when spec.type is "ExternalName"'],
        ),
    ],
)
def test_services_are_warned_about(spec: Obj, said: list[str]) -> None:
    assert warnings({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": spec}) == said


@pytest.mark.parametrize(
    ("kind", "api", "path"),
    [
        ("Job", "batch/v1", "spec.template."),
        ("Deployment", "apps/v1", "spec.template."),
        ("CronJob", "batch/v1", "spec.jobTemplate.spec.template."),
    ],
)
def test_templates_are_warned_about_where_they_stand(kind: str, api: str, path: str) -> None:
    template = {"spec": {"containers": [{"name": "c", "ports": [{"containerPort": 1}] * 2}]}}
    spec = {"jobTemplate": {"spec": {"template": template}}} if kind == "CronJob" else {"template": template}
    obj = {"apiVersion": api, "kind": kind, "metadata": {"name": "x"}, "spec": spec}
    at = f"{path}spec.containers[0].ports"
    assert warnings(obj) == [f"{at}[1]: duplicate port definition with {at}[0]"]
    dotted = warnings({**obj, "metadata": {"name": "x.y"}})
    assert len(dotted) == (1 if kind == "Deployment" else 2)
