"""Kueue asks for capacity, the Cluster Autoscaler answers: from a job that waits to one that runs, or is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairway.kube.conditions import get_condition
from fairway.kube.objects import Obj, annotations_of, controller_of, key_of, meta_of, name_of, status_of
from fairway.kube.provisioningrequests import BEST_EFFORT_ATOMIC, CHECK_CAPACITY, CONSUMES, REQUEST
from fairway.kube.timestamps import MINUTE_US, SECOND_US
from fairway.scenario.building import build_twin
from fairway.scenario.loading import load_scenario
from fairway.twin.twin import Twin

WORKLOAD = "Workload.kueue.x-k8s.io"
SCENARIO = """\
apiVersion: fairway.dev/v1alpha1
kind: Scenario
metadata: {name: requests}
spec:
  latency: zero
  cloud:
    provider: aws
    bootTime: 60s
    STOCK
    nodeGroups:
      - {name: gpu-a, instanceType: g5.xlarge, zone: us-east-1a, max: MOST, size: SIZE}
    autoscaler: {enableProvisioningRequests: true}
  manifests: [objects.yaml]
"""
OBJECTS = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: any}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ProvisioningRequestConfig
metadata: {name: prc}
spec:
  provisioningClassName: CLASS
  managedResources: [nvidia.com/gpu]
  parameters: {noRetry: "NORETRY"}
  retryStrategy: {backoffLimitCount: 1, backoffBaseSeconds: 120, backoffMaxSeconds: 600}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: AdmissionCheck
metadata: {name: capacity}
spec:
  controllerName: kueue.x-k8s.io/provisioning-request
  parameters: {apiGroup: kueue.x-k8s.io, kind: ProvisioningRequestConfig, name: prc}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: cq}
spec:
  namespaceSelector: {}
  admissionChecksStrategy: {admissionChecks: [{name: capacity}]}
  resourceGroups:
  - coveredResources: [nvidia.com/gpu]
    flavors: [{name: any, resources: [{name: nvidia.com/gpu, nominalQuota: 8}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: lq, namespace: default}
spec: {clusterQueue: cq}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: train
  namespace: default
  labels: {kueue.x-k8s.io/queue-name: lq}
spec:
  parallelism: 3
  completions: 3
  suspend: true
  template:
    metadata: {annotations: {fairway.dev/run-time: 5m}}
    spec:
      restartPolicy: Never
      containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 1}}}]
"""


def a_twin(
    tmp_path: Path,
    class_name: str = BEST_EFFORT_ATOMIC,
    most: int = 4,
    size: int = 0,
    *,
    no_retry: str = "false",
    stock: str = "stock: []",
) -> Twin:
    scenario = SCENARIO.replace("MOST", str(most)).replace("SIZE", str(size)).replace("STOCK", stock)
    (tmp_path / "scenario.yaml").write_text(scenario, encoding="utf-8")
    objects = OBJECTS.replace("CLASS", class_name).replace("NORETRY", no_retry)
    (tmp_path / "objects.yaml").write_text(objects, encoding="utf-8")
    return build_twin(load_scenario(tmp_path))


def request_of(twin: Twin) -> Obj:
    (found,) = twin.store.objects(REQUEST)
    return found


def said(twin: Twin, kind: str) -> tuple[str, str, str] | None:
    found = get_condition(status_of(request_of(twin)).get("conditions"), kind)
    return None if found is None else (found["status"], found["reason"], found["message"])


def told(twin: Twin, reason: str) -> list[str]:
    return [t.message for t in twin.host.events.told() if t.reason == reason]


def is_admitted(twin: Twin) -> bool:
    (workload,) = twin.store.objects(WORKLOAD)
    found = get_condition(status_of(workload).get("conditions"), "Admitted")
    return found is not None and found["status"] == "True"


def group_size(twin: Twin) -> int:
    return len(twin.store.objects("Node"))


def test_a_group_grows_for_all_pods_and_the_workload_starts(tmp_path: Path) -> None:
    twin = a_twin(tmp_path)
    twin.run_for(15 * SECOND_US)
    # Capacity counts as provisioned once it is asked for; machines are still booting.
    assert said(twin, "Accepted") == (
        "True",
        "Accepted",
        "ProvisioningRequest is accepted by ClusterAutoscaler",
    )
    assert said(twin, "Provisioned") == ("True", "CapacityIsProvisioned", "Capacity is found in the cluster")
    assert is_admitted(twin) and group_size(twin) == 0
    pods = twin.store.objects("Pod")
    assert {annotations_of(p)[CONSUMES] for p in pods} == {name_of(request_of(twin))}
    twin.run_for(3 * MINUTE_US)
    # The pods it was asked for make nothing grow again.
    assert group_size(twin) == 3
    assert said(twin, "BookingExpired") == (
        "True",
        "CapacityBookingConsumed",
        "Capacity booking consumed: all pods scheduled",
    )
    twin.run_for(10 * MINUTE_US)
    assert twin.store.objects(REQUEST) == [] and twin.store.objects("PodTemplate") == []
    assert {status_of(p)["phase"] for p in twin.store.objects("Pod")} == {"Succeeded"}


def test_all_or_nothing_a_group_that_is_too_small_does_not_grow(tmp_path: Path) -> None:
    twin = a_twin(tmp_path, most=2)
    twin.run_for(15 * SECOND_US)
    assert said(twin, "Provisioned") == (
        "False",
        "CapacityIsNotFound",
        "Capacity is not found, CA will try to find it later.",
    )
    (workload,) = twin.store.objects(WORKLOAD)
    (check,) = status_of(workload)["admissionChecks"]
    assert (check["state"], check["message"]) == (
        "Pending",
        "Capacity is not found, CA will try to find it later.",
    )
    reasons = set(told(twin, "NotTriggerScaleUp"))
    assert reasons == {
        "pod didn't trigger scale-up: 1 not all pods would fit and scale-up is using all-or-nothing strategy"
    }
    twin.run_for(60 * MINUTE_US)
    assert group_size(twin) == 0 and not is_admitted(twin)
    # Nothing changes any more: nothing is tried any more, and a scenario comes to its end.
    assert twin.loop.next_time() is None


def test_capacity_that_is_there_is_found_and_kept(tmp_path: Path) -> None:
    twin = a_twin(tmp_path, CHECK_CAPACITY, size=3)
    twin.run_for(20 * SECOND_US)
    assert said(twin, "Provisioned") == ("True", "CapacityIsFound", "Capacity is found in the cluster")
    assert is_admitted(twin)
    twin.run_for(8 * MINUTE_US)
    (job,) = twin.store.objects("Job.batch")
    assert status_of(job)["succeeded"] == 3


def test_a_request_that_must_not_be_retried_fails_and_kueue_asks_again(tmp_path: Path) -> None:
    twin = a_twin(tmp_path, CHECK_CAPACITY, no_retry="true")
    twin.run_for(15 * SECOND_US)
    first = name_of(request_of(twin))
    assert said(twin, "Failed") == ("True", "CapacityIsNotFound", "CA could not find requested capacity")
    twin.run_for(2 * MINUTE_US + 10 * SECOND_US)
    assert told(twin, "EvictedDueToAdmissionCheck") == [
        'Evicted due to AdmissionCheck in Retry state: "capacity" '
        "(Retrying after failure: CA could not find requested capacity)"
    ]
    assert told(twin, "ProvisioningRequestCreated") == [
        f'Created ProvisioningRequest: "{name}"' for name in (first, first[:-1] + "2")
    ]
    # The limit is one: the second failure is the last.
    twin.run_for(MINUTE_US)
    assert told(twin, "AdmissionCheckRejected") == [
        'Deactivated due to AdmissionCheck in Rejected state: "capacity" (CA could not find requested capacity)'
    ]


def alone(twin: Twin, class_name: str, count: int = 2, name: str = "mine") -> None:
    """A request of nobody's but the user's."""
    template = {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {"name": name, "namespace": "default"},
        "template": {
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"nvidia.com/gpu": "1"}}}]}
        },
    }
    request = {
        "apiVersion": "autoscaling.x-k8s.io/v1",
        "kind": "ProvisioningRequest",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "provisioningClassName": class_name,
            "podSets": [{"podTemplateRef": {"name": name}, "count": count}],
        },
    }
    twin.store.create(template)
    twin.store.create(request)
    twin.wake()


def without_job(twin: Twin) -> Twin:
    (job,) = twin.store.objects("Job.batch")
    twin.store.delete(key_of(job))
    twin.run_for(SECOND_US)
    return twin


def test_a_booking_that_nobody_uses_runs_out_after_ten_minutes_and_its_nodes_go(tmp_path: Path) -> None:
    twin = a_twin(tmp_path)
    twin.run_for(0)
    without_job(twin)
    alone(twin, BEST_EFFORT_ATOMIC)
    twin.run_for(9 * MINUTE_US)
    assert group_size(twin) == 2
    twin.run_for(3 * MINUTE_US)
    assert said(twin, "BookingExpired") == (
        "True",
        "CapacityReservationTimeExpired",
        "Capacity reservation time is expired",
    )
    # From then on they are unneeded, for ten minutes more.
    twin.run_for(7 * MINUTE_US)
    assert group_size(twin) == 2
    twin.run_for(3 * MINUTE_US)
    assert group_size(twin) == 0


def test_bookings_are_not_counted_on_twice(tmp_path: Path) -> None:
    twin = a_twin(tmp_path, size=3)
    twin.run_for(0)
    without_job(twin)
    alone(twin, CHECK_CAPACITY, 2, "first")
    alone(twin, CHECK_CAPACITY, 2, "second")
    twin.run_for(30 * SECOND_US)
    found = {
        name_of(r): get_condition(status_of(r)["conditions"], "Provisioned")
        for r in twin.store.objects(REQUEST)
    }
    assert {name: c and c["status"] for name, c in found.items()} == {"first": "True", "second": "False"}


def test_a_request_without_its_template_fails(tmp_path: Path) -> None:
    twin = a_twin(tmp_path)
    twin.run_for(0)
    without_job(twin)
    alone(twin, CHECK_CAPACITY)
    twin.store.delete(key_of(twin.store.objects("PodTemplate")[0]))
    twin.run_for(15 * SECOND_US)
    assert said(twin, "Failed") == (
        "True",
        "FailedToCreatePods",
        "missing pod templates, 1 pod templates were referenced, 1 templates were missing: mine",
    )


def test_a_fork_goes_on_as_the_original(tmp_path: Path) -> None:
    twin = a_twin(tmp_path)
    twin.run_for(12 * SECOND_US)
    fork = twin.fork()
    for one in (twin, fork):
        one.run_for(30 * MINUTE_US)
    assert twin.digest() == fork.digest()


@pytest.mark.parametrize("is_on", [True, False])
def test_requests_are_the_autoscalers_business_only_where_it_is_told_so(
    tmp_path: Path, *, is_on: bool
) -> None:
    a_twin(tmp_path)
    text = (tmp_path / "scenario.yaml").read_text(encoding="utf-8")
    text = text.replace(
        "enableProvisioningRequests: true", f"enableProvisioningRequests: {str(is_on).lower()}"
    )
    (tmp_path / "scenario.yaml").write_text(text, encoding="utf-8")
    twin = build_twin(load_scenario(tmp_path))
    twin.run_for(15 * SECOND_US)
    owner = controller_of(request_of(twin)) or {}
    assert owner["kind"] == "Workload" and meta_of(request_of(twin))["labels"]
    assert bool(status_of(request_of(twin)).get("conditions")) is is_on
