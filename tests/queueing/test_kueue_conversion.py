"""v1beta1 objects in v1beta2's words, and what the API fills in."""

from __future__ import annotations

from typing import Any

import pytest
from queueworld import said

from fairway.cluster.store import Store
from fairway.queueing.webhooks.door import CREATE, defaulted
from fairway.queueing.webhooks.settings import Settings

Obj = dict[str, Any]
IN_USE = "kueue.x-k8s.io/resource-in-use"
QUEUE_DEFAULTS = {
    "queueingStrategy": "BestEffortFIFO",
    "stopPolicy": "None",
    "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"},
    "preemption": {
        "borrowWithinCohort": {"policy": "Never"},
        "reclaimWithinCohort": "Never",
        "withinClusterQueue": "Never",
    },
}
TEMPLATE: Obj = {"spec": {"containers": []}}


def old(kind: str, spec: Obj) -> Obj:
    return {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": kind, "metadata": {"name": "x"}, "spec": spec}


CASES: dict[str, tuple[Obj, Obj]] = {
    "a queue's cohort": (old("ClusterQueue", {"cohort": "a"}), {**QUEUE_DEFAULTS, "cohortName": "a"}),
    "a queue's checks": (
        old("ClusterQueue", {"admissionChecks": ["a", "b"]}),
        {**QUEUE_DEFAULTS, "admissionChecksStrategy": {"admissionChecks": [{"name": "a"}, {"name": "b"}]}},
    ),
    "words of fungibility": (
        old("ClusterQueue", {"flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "Preempt"}}),
        {
            **QUEUE_DEFAULTS,
            "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "MayStopSearch"},
        },
    ),
    "a cohort's parent": (old("Cohort", {"parentName": "root"}), {"parentName": "root"}),
    "a local queue": (old("LocalQueue", {"clusterQueue": "a"}), {"clusterQueue": "a", "stopPolicy": "None"}),
    "a weight left out": (
        old("LocalQueue", {"clusterQueue": "a", "fairSharing": {}}),
        {"clusterQueue": "a", "stopPolicy": "None", "fairSharing": {"weight": 1}},
    ),
    "a check's delay is gone": (
        old("AdmissionCheck", {"controllerName": "a/b", "retryDelayMinutes": 3}),
        {"controllerName": "a/b"},
    ),
    "a workload's class": (
        old(
            "Workload",
            {
                "podSets": [{"template": TEMPLATE}],
                "priorityClassName": "high",
                "priorityClassSource": "kueue.x-k8s.io/workloadpriorityclass",
                "priority": 7,
            },
        ),
        {
            "active": True,
            "podSets": [{"name": "main", "count": 1, "template": TEMPLATE}],
            "priority": 7,
            "priorityClassRef": {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"},
        },
    ),
    "a workload's pod class": (
        old(
            "Workload",
            {
                "podSets": [{"template": TEMPLATE}],
                "priorityClassName": "high",
                "priorityClassSource": "scheduling.k8s.io/priorityclass",
                "priority": 7,
            },
        ),
        {
            "active": True,
            "podSets": [{"name": "main", "count": 1, "template": TEMPLATE}],
            "priority": 7,
            "priorityClassRef": {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "high"},
        },
    ),
    "a remote cluster": (
        old("MultiKueueCluster", {"kubeConfig": {"location": "secret"}}),
        {"clusterSource": {"kubeConfig": {"location": "secret", "locationType": "Secret"}}},
    ),
    "a provisioning config": (
        old(
            "ProvisioningRequestConfig",
            {"provisioningClassName": "a", "retryStrategy": {"backoffLimitCount": 1}},
        ),
        {
            "provisioningClassName": "a",
            "retryStrategy": {"backoffBaseSeconds": 60, "backoffLimitCount": 1, "backoffMaxSeconds": 1800},
        },
    ),
    "a topology": (
        old("Topology", {"levels": [{"nodeLabel": "rack"}]}),
        {"levels": [{"nodeLabel": "rack"}]},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_conversion(name: str) -> None:
    obj, want = CASES[name]
    got = defaulted(CREATE, obj, Store())
    assert got["apiVersion"] == "kueue.x-k8s.io/v1beta2"
    assert got["spec"] == want
    assert said(obj) == []


@pytest.mark.parametrize("name", CASES)
def test_what_is_stored_is_accepted_again_and_stays_as_it_is(name: str) -> None:
    stored = defaulted(CREATE, CASES[name][0], Store())
    assert defaulted(CREATE, stored, Store()) == stored
    assert said(stored) == []


def test_what_is_in_use_gets_a_finalizer_once() -> None:
    obj = defaulted(CREATE, old("ResourceFlavor", {}), Store())
    assert obj["metadata"]["finalizers"] == [IN_USE]
    assert defaulted(CREATE, obj, Store())["metadata"]["finalizers"] == [IN_USE]
    assert "finalizers" not in defaulted(CREATE, old("Cohort", {}), Store())["metadata"]
    assert "finalizers" not in defaulted(CREATE, old("ResourceFlavor", {}), Store(), None)["metadata"]


def test_minimum_counts_are_dropped_without_partial_admission() -> None:
    obj = old("Workload", {"podSets": [{"count": 3, "minCount": 1, "template": TEMPLATE}]})
    off = defaulted(CREATE, obj, Store(), Settings(gates={"PartialAdmission": False}))
    assert "minCount" not in off["spec"]["podSets"][0]
    assert defaulted(CREATE, obj, Store())["spec"]["podSets"][0]["minCount"] == 1


def test_a_version_nobody_serves() -> None:
    obj = {**old("Topology", {}), "apiVersion": "kueue.x-k8s.io/v1alpha1"}
    assert said(obj) == ['no matches for kind "Topology" in version "kueue.x-k8s.io/v1alpha1"']
    assert defaulted(CREATE, obj, Store()) == obj


def test_what_is_immutable_stays_so_for_clients_of_v1beta1() -> None:
    stored = old("LocalQueue", {"clusterQueue": "a"})
    assert said(old("LocalQueue", {"clusterQueue": "b"}), stored) == [
        'LocalQueue.kueue.x-k8s.io "x" is invalid: spec.clusterQueue: Invalid value: "b": field is immutable'
    ]
