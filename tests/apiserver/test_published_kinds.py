"""Kinds of other projects as the API serves them: by their published definitions, without an installed one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from apiserver_serving import Served

KUEUE = "/apis/kueue.x-k8s.io"
APPLY = {"Content-Type": "application/apply-patch+yaml"}


def test_conditions_of_two_managers_are_two_conditions(api: Served) -> None:
    path = f"{KUEUE}/v1beta2/clusterqueues"
    api.ask("POST", path, queue("shared", "v1beta2"))
    for manager, kind in (("a", "Active"), ("b", "Other")):
        condition = {
            "type": kind,
            "status": "True",
            "reason": "Ready",
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        body = {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "ClusterQueue",
            "metadata": {"name": "shared"},
            "status": {"conditions": [condition]},
        }
        code, answer = api.ask("PATCH", f"{path}/shared/status?fieldManager={manager}", body, headers=APPLY)
        assert code == 200, answer
    types = [c["type"] for c in answer["status"]["conditions"]]
    assert {"Active", "Other"} <= set(types)
    assert len(types) == len(set(types))


def queue(name: str, version: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"kueue.x-k8s.io/{version}",
        "kind": "ClusterQueue",
        "metadata": {"name": name},
        "spec": spec,
    }


def test_an_old_version_reads_back_in_its_own_words(api: Served) -> None:
    path = f"{KUEUE}/v1beta1/clusterqueues"
    code, made = api.ask("POST", path, queue("old", "v1beta1", cohort="all"))
    assert code == 201
    assert made["apiVersion"] == "kueue.x-k8s.io/v1beta1"
    assert made["spec"]["cohort"] == "all"
    assert "cohortName" not in made["spec"]
    # A second `kubectl apply` sends what it read, merged with what the file says.
    code, again = api.ask("PUT", f"{path}/old", made)
    assert (code, again["spec"]) == (200, made["spec"])
    _, new = api.ask("GET", f"{KUEUE}/v1beta2/clusterqueues/old")
    assert new["spec"]["cohortName"] == "all"
    assert "cohort" not in new["spec"]


ScaledObject = dict[str, Any]


def scaled(**spec: Any) -> ScaledObject:
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": "s"},
        "spec": {"scaleTargetRef": {"name": "d"}, "triggers": [{"type": "cron", "metadata": {}}], **spec},
    }


SCALED = "/apis/keda.sh/v1alpha1/namespaces/default/scaledobjects"
REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "a wrong type": (
        SCALED,
        scaled(minReplicaCount="two"),
        'ScaledObject.keda.sh "s" is invalid: spec.minReplicaCount: Invalid value: "string": '
        'spec.minReplicaCount in body must be of type integer: "string"',
    ),
    "a field left out": (
        SCALED,
        scaled(triggers=[{"type": "cron"}]),
        'ScaledObject.keda.sh "s" is invalid: spec.triggers[0].metadata: Required value',
    ),
    "a rule broken": (
        "/apis/karpenter.k8s.aws/v1/ec2nodeclasses",
        {
            "apiVersion": "karpenter.k8s.aws/v1",
            "kind": "EC2NodeClass",
            "metadata": {"name": "s"},
            "spec": {
                "amiSelectorTerms": [{"alias": "al2023@latest"}],
                "subnetSelectorTerms": [{"tags": {"a": "b"}}],
                "securityGroupSelectorTerms": [{"tags": {"a": "b"}}],
            },
        },
        'EC2NodeClass.karpenter.k8s.aws "s" is invalid: spec: Invalid value: '
        "must specify exactly one of ['role', 'instanceProfile']",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_definition_forbids_is_refused_in_its_words(api: Served, name: str) -> None:
    path, body, want = REFUSED[name]
    code, answer = api.ask("POST", path, body)
    assert (code, answer["message"].split(", <nil>")[0].replace("[spec", "spec")) == (422, want)


def test_unknown_fields_are_refused_warned_of_or_pruned(api: Served) -> None:
    body = scaled(replicas=3)
    code, answer = api.ask("POST", f"{SCALED}?fieldValidation=Strict&dryRun=All", body)
    assert code == 400
    assert answer["message"].endswith('strict decoding error: unknown field "spec.replicas"')
    code, answer = api.ask("POST", f"{SCALED}?fieldValidation=Ignore&dryRun=All", body)
    assert code == 201
    assert "replicas" not in answer["spec"]


def test_who_creates_what_nobody_acts_on_is_warned(api: Served) -> None:
    api.until_ready()
    service = {
        "apiVersion": "ray.io/v1",
        "kind": "RayService",
        "metadata": {"name": "r"},
        "spec": {
            "rayClusterConfig": {"headGroupSpec": {"template": {"spec": {"containers": [{"name": "ray"}]}}}}
        },
    }
    assert warnings_of(api, "/apis/ray.io/v1/namespaces/default/rayservices", service) == [
        '299 - "RayService.ray.io: stored, but nobody acts on this kind here"'
    ]
    assert warnings_of(api, f"{KUEUE}/v1beta2/clusterqueues", queue("acted", "v1beta2")) == []


def warnings_of(api: Served, path: str, body: dict[str, Any]) -> list[str]:
    connection = api.connect()
    try:
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        response.read()
        assert response.status == 201
        return response.headers.get_all("Warning") or []
    finally:
        connection.close()


def test_defaults_columns_and_the_scale_of_a_definition(api: Served) -> None:
    path = "/apis/leaderworkerset.x-k8s.io/v1/namespaces/default/leaderworkersets"
    template = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    body = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "lws"},
        "spec": {"leaderWorkerTemplate": {"workerTemplate": template, "size": 2}},
    }
    code, made = api.ask("POST", path, body)
    assert code == 201, made
    assert made["spec"]["replicas"] == 1
    code, scale = api.ask("GET", f"{path}/lws/scale")
    assert (code, scale["spec"]) == (200, {"replicas": 1})
    headers = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    _, table = api.ask("GET", path, headers=headers)
    assert [c["name"] for c in table["columnDefinitions"]][:3] == ["Name", "Ready", "Desired"]


def test_discovery_and_openapi_know_it(api: Served) -> None:
    _, listed = api.ask("GET", "/apis/autoscaling.k8s.io/v1")
    (row,) = [r for r in listed["resources"] if r["name"] == "verticalpodautoscalers"]
    assert (row["shortNames"], row["namespaced"]) == (["vpa"], True)
    _, document = api.ask("GET", "/openapi/v3/apis/autoscaling.k8s.io/v1")
    schema = document["components"]["schemas"]["io.k8s.autoscaling.v1.VerticalPodAutoscaler"]
    modes = schema["properties"]["spec"]["properties"]["updatePolicy"]["properties"]["updateMode"]
    assert "Off" in modes["enum"]
