"""A Workload behind a ProvisioningRequest check: what is asked for it, and what each answer makes of it.

The autoscaler is the test: it sets the conditions that the Cluster Autoscaler would.
"""

from __future__ import annotations

from typing import Any

import pytest
from kueueworld import KUEUE, World, flavor, job, local_queue, node, queue

from fairway.kube.conditions import set_condition
from fairway.kube.objects import Obj, annotations_of, key_of, meta_of, name_of, spec_of, status_of

REQUEST = "ProvisioningRequest.autoscaling.x-k8s.io"
CHECK = "AdmissionCheck.kueue.x-k8s.io"
CLASS = "check-capacity.autoscaling.x-k8s.io"


def config(**spec: Any) -> Obj:
    body = {"provisioningClassName": CLASS, "managedResources": ["nvidia.com/gpu"], **spec}
    return {
        "apiVersion": KUEUE,
        "kind": "ProvisioningRequestConfig",
        "metadata": {"name": "prc"},
        "spec": body,
    }


def check(**parameters: str) -> Obj:
    ref = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": "prc", **parameters}
    spec = {"controllerName": "kueue.x-k8s.io/provisioning-request", "parameters": ref}
    return {"apiVersion": KUEUE, "kind": "AdmissionCheck", "metadata": {"name": "capacity"}, "spec": spec}


def a_world(**of_config: Any) -> World:
    strategy = {"admissionChecks": [{"name": "capacity"}]}
    return World().apply(
        flavor("default", nodeLabels={"pool": "gpu"}),
        config(**of_config),
        check(),
        queue("a", 4, admissionChecksStrategy=strategy),
        local_queue("a"),
        node("n1", 8, pool="gpu", reservation="r-1"),
    )


def request_of(world: World) -> Obj:
    (found,) = world.objects(REQUEST)
    return found


def answer(world: World, kind: str, message: str = "said so", status: str = "True", **fields: Any) -> None:
    request = request_of(world)
    now_us = world.twin.now_us
    conditions = set_condition(
        status_of(request).get("conditions"), kind, status, now_us=now_us, reason="Test", message=message
    )
    world.twin.store.set_status(
        key_of(request), {**status_of(request), **fields, "conditions": list(conditions)}
    )
    world.twin.wake()


def state(world: World) -> tuple[str, str]:
    (found,) = status_of(world.workload("train"))["admissionChecks"]
    return found["state"], found["message"]


def test_capacity_is_asked_for_and_the_pods_say_whose_they_use() -> None:
    updates = {"nodeSelector": [{"key": "reservation", "valueFromProvisioningClassDetail": "Name"}]}
    world = a_world(podSetUpdates=updates).apply(job("train", "a", gpus=2, pods=2, runs="20s")).run(2)
    workload = world.workload("train")
    request = request_of(world)
    assert name_of(request) == f"{name_of(workload)}-capacity-1"
    assert spec_of(request)["provisioningClassName"] == CLASS
    (pod_set,) = spec_of(request)["podSets"]
    assert pod_set == {"podTemplateRef": {"name": f"ppt-{name_of(request)}-main"}, "count": 2}
    (template,) = world.objects("PodTemplate")
    assert template["template"]["spec"]["nodeSelector"] == {"pool": "gpu"}
    assert template["template"]["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] == "2"
    # The template belongs to the request, and both go with it.
    assert [o["kind"] for o in meta_of(template)["ownerReferences"]] == ["ProvisioningRequest"]
    assert world.events("ProvisioningRequestCreated") == [
        f'Created ProvisioningRequest: "{name_of(request)}"'
    ]
    assert world.condition("train", "Admitted") == ("False", "UnsatisfiedAdmissionChecks")

    answer(world, "Accepted")
    answer(world, "Provisioned", "Capacity is not found, CA will try to find it later.", "False")
    world.run(1)
    assert state(world) == ("Pending", "Capacity is not found, CA will try to find it later.")
    answer(world, "Provisioned", "Capacity is found in the cluster", provisioningClassDetails={"Name": "r-1"})
    world.run(3)
    assert world.condition("train", "Admitted") == ("True", "Admitted")
    template_now = spec_of(world.job("train", "a"))["template"]
    assert annotations_of(template_now)["autoscaling.x-k8s.io/consume-provisioning-request"] == name_of(
        request
    )
    assert annotations_of(template_now)["autoscaling.x-k8s.io/provisioning-class-name"] == CLASS
    assert template_now["spec"]["nodeSelector"] == {"pool": "gpu", "reservation": "r-1"}
    assert world.events("AdmissionCheckUpdated") == [
        "Admission check capacity updated state from Pending to Ready "
        "with message: Capacity is found in the cluster"
    ]
    # A booking that runs out is nothing to a Workload that was let in.
    answer(world, "BookingExpired")
    world.run(30)
    assert world.condition("train", "Finished") == ("True", "Succeeded")
    assert not world.objects(REQUEST) and not world.objects("PodTemplate")


@pytest.mark.parametrize(
    ("kind", "words"),
    [("Failed", "Retrying after failure"), ("BookingExpired", "Retrying after booking expired")],
)
def test_what_fails_is_tried_again_after_a_backoff_and_in_the_end_rejected(kind: str, words: str) -> None:
    retry = {"backoffLimitCount": 1, "backoffBaseSeconds": 60, "backoffMaxSeconds": 600}
    world = a_world(retryStrategy=retry).apply(job("train", "a", gpus=2)).run(2)
    first = name_of(request_of(world))
    answer(world, kind, "no room")
    world.run(2)
    # Kueue holds the quota until the backoff is over, counted from when the check began.
    assert state(world) == ("Retry", f"{words}: no room")
    assert world.condition("train", "QuotaReserved") == ("True", "QuotaReserved")
    world.run(54)
    assert not world.events("EvictedDueToAdmissionCheck")
    world.run(6)
    assert world.events("EvictedDueToAdmissionCheck") == [
        f'Evicted due to AdmissionCheck in Retry state: "capacity" ({words}: no room)'
    ]
    assert name_of(request_of(world)) == first[:-1] + "2"
    (waiting,) = status_of(world.workload("train"))["admissionChecks"]
    assert (waiting["state"], waiting["retryCount"]) == ("Pending", 1)
    answer(world, kind, "still no room")
    world.run(2)
    assert world.condition("train", "Evicted") == ("True", "DeactivatedDueToAdmissionCheck")
    assert spec_of(world.workload("train"))["active"] is False
    assert world.objects(REQUEST) == []


def test_revoked_capacity_deactivates_a_workload_that_runs() -> None:
    world = a_world().apply(job("train", "a", gpus=2)).run(2)
    answer(world, "Provisioned")
    world.run(2)
    assert world.condition("train", "Admitted") == ("True", "Admitted")
    answer(world, "CapacityRevoked", "the machines are gone")
    world.run(2)
    assert world.condition("train", "Evicted") == ("True", "DeactivatedDueToAdmissionCheck")
    assert world.events("AdmissionCheckRejected") == [
        'Deactivated due to AdmissionCheck in Rejected state: "capacity" (the machines are gone)'
    ]


def test_nothing_is_asked_for_pods_that_use_nothing_managed() -> None:
    world = a_world(managedResources=["example.com/tpu"]).apply(job("train", "a", gpus=1)).run(3)
    assert state(world) == ("Ready", "the provisioning request is not needed")
    assert world.objects(REQUEST) == []
    assert world.condition("train", "Admitted") == ("True", "Admitted")


def test_a_config_that_changes_means_another_request() -> None:
    world = a_world().apply(job("train", "a", gpus=2)).run(2)
    name = name_of(request_of(world))
    world.patch(
        "ProvisioningRequestConfig.kueue.x-k8s.io", "prc", {"spec": {"parameters": {"noRetry": "true"}}}
    )
    world.run(2)
    request = request_of(world)
    assert name_of(request) == name
    assert spec_of(request)["parameters"] == {"noRetry": "true"}


def test_parameters_come_from_the_workloads_annotations_too() -> None:
    made = job("train", "a", gpus=2)
    meta_of(made)["annotations"] = {"provreq.kueue.x-k8s.io/ValidUntilSeconds": "60"}
    world = a_world(parameters={"noRetry": "true"}).apply(made).run(2)
    assert spec_of(request_of(world))["parameters"] == {"noRetry": "true", "ValidUntilSeconds": "60"}


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"name": "nope"}, 'provisioningrequestconfigs.kueue.x-k8s.io "nope" not found'),
        (
            {"kind": "ConfigMap"},
            'wrong kind "ConfigMap", expecting "ProvisioningRequestConfig": bad parameters reference',
        ),
        (
            {"apiGroup": "example.com"},
            'wrong group "example.com", expecting "kueue.x-k8s.io": bad parameters reference',
        ),
    ],
)
def test_a_check_whose_config_is_not_there_is_inactive(parameters: dict[str, str], message: str) -> None:
    world = a_world().apply(check(**parameters)).run(2)
    (found,) = world.objects(CHECK)
    (condition,) = status_of(found)["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "BadParametersRef")
    assert condition["message"] == message
    world.apply(check()).run(2)
    assert status_of(world.objects(CHECK)[0])["conditions"][0]["status"] == "True"
