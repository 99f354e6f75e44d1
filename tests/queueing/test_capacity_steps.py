"""What becomes of a Workload's check that asks for capacity: a table of requests, each with all that is written.

Source: pkg/controller/admissionchecks/provisioning/controller.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from stepwords import NOW_US, said, was

from fairway.cluster.store import Store
from fairway.kube.objects import Obj, owner_reference
from fairway.queueing.admissionchecks.provisioning import reconcile_provisioning
from fairway.queueing.facts.gates import DEFAULT_GATES, FeatureGates

HELD = (was("QuotaReserved"),)
ADMITTED = (*HELD, was("Admitted"))
CONFIG_REF = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": "config"}


def workload(*conditions: Obj, check: Obj | None = None, count: int = 1, spec: Obj | None = None) -> Obj:
    pods = {"containers": [{"name": "c", "resources": {"requests": {"gpu": "1"}}}]}
    state = {"name": "check", "state": "Pending", "message": "", **(check or {})}
    placed = [{"name": "main", "count": count, "flavors": {}}]
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": "w", "namespace": "default", "uid": "w"},
        "spec": {"podSets": [{"name": "main", "count": count, "template": {"spec": pods}}], **(spec or {})},
        "status": {
            "conditions": list(conditions),
            "admission": {"clusterQueue": "cq", "podSetAssignments": placed},
            "admissionChecks": [state, {"name": "another", "state": "Pending"}],
        },
    }


def request(*conditions: Obj, attempt: int = 1, spec: Obj | None = None, **status: Any) -> Obj:
    name = f"w-check-{attempt}"
    return {
        "apiVersion": "autoscaling.x-k8s.io/v1",
        "kind": "ProvisioningRequest",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": name,
            "ownerReferences": [owner_reference(workload())],
        },
        "spec": {
            "provisioningClassName": "class",
            "parameters": {},
            "podSets": [{"count": 1, "podTemplateRef": {"name": f"ppt-{name}-main"}}],
            **(spec or {}),
        },
        "status": {"conditions": list(conditions), **status},
    }


ACCEPTED, FAILED = was("Accepted"), was("Failed", message="no room")
PROVISIONED, SOON = was("Provisioned", message="there"), was("Provisioned", "False", message="in an hour")
EXPIRED, REVOKED = was("BookingExpired", message="too late"), was("CapacityRevoked", message="gone")
AGAIN = {"retryStrategy": {"backoffLimitCount": 2, "backoffBaseSeconds": 30, "backoffMaxSeconds": 40}}
CASES: dict[str, dict[str, Any]] = {
    "no quota": {"of": workload()},
    "quota": {"of": workload(*HELD)},
    "quota, no config": {"of": workload(*HELD), "config": None},
    "quota, nothing managed": {"of": workload(*HELD), "config": {"managedResources": ["tpu"]}},
    "quota, nothing managed, ready": {
        "of": workload(*HELD, check={"state": "Ready"}),
        "config": {"managedResources": ["tpu"]},
    },
    "quota, no pods": {"of": workload(*HELD, count=0)},
    "asked, nothing said": {"of": workload(*HELD, check={"message": "old"}), "requests": [request()]},
    "accepted, nothing said": {"of": workload(*HELD), "requests": [request(ACCEPTED)]},
    "accepted, soon": {"of": workload(*HELD), "requests": [request(ACCEPTED, SOON)]},
    "provisioned": {"of": workload(*HELD), "requests": [request(ACCEPTED, PROVISIONED)]},
    "provisioned somewhere": {
        "of": workload(*HELD),
        "config": {
            "podSetUpdates": {
                "nodeSelector": [
                    {"key": "pool", "valueFromProvisioningClassDetail": "name"},
                    {"key": "zone", "valueFromProvisioningClassDetail": "zone"},
                ]
            }
        },
        "requests": [request(PROVISIONED, provisioningClassDetails={"name": 7})],
    },
    "provisioned, known": {
        "of": workload(*HELD, check={"state": "Ready", "message": "kept"}),
        "requests": [request(PROVISIONED)],
    },
    "expired, admitted": {
        "of": workload(*ADMITTED, check={"state": "Ready"}),
        "requests": [request(PROVISIONED, EXPIRED)],
    },
    "expired, waiting": {"of": workload(*HELD), "config": AGAIN, "requests": [request(PROVISIONED, EXPIRED)]},
    "revoked": {
        "of": workload(*ADMITTED, check={"state": "Ready"}),
        "requests": [request(PROVISIONED, REVOKED)],
    },
    "revoked, deactivated": {
        "of": workload(*ADMITTED, check={"state": "Ready"}, spec={"active": False}),
        "requests": [request(PROVISIONED, REVOKED)],
    },
    "failed": {"of": workload(*HELD), "config": AGAIN, "requests": [request(FAILED)]},
    "failed, told": {
        "of": workload(*HELD, check={"state": "Pending", "retryCount": 1}),
        "config": AGAIN,
        "requests": [request(FAILED)],
    },
    "failed, the second time": {
        "of": workload(*HELD, check={"retryCount": 1}),
        "config": AGAIN,
        "requests": [request(FAILED), request(FAILED, attempt=2)],
    },
    "failed, once too often": {
        "of": workload(*HELD, check={"retryCount": 2}),
        "config": AGAIN,
        "requests": [request(FAILED, attempt=3)],
    },
    "to be retried, and asked again": {
        "of": workload(*HELD, check={"retryCount": 2}),
        "config": AGAIN,
        "requests": [request(FAILED, attempt=1)],
    },
    "of another class": {
        "of": workload(*HELD),
        "requests": [request(ACCEPTED, spec={"provisioningClassName": "other"})],
    },
    "over": {"of": workload(*HELD, was("Finished")), "requests": [request(), request(attempt=2)]},
    "evicted": {"of": workload(*HELD, was("Evicted")), "requests": [request()]},
    "evicted, kept": {
        "of": workload(*HELD, was("Evicted")),
        "requests": [request()],
        "gates": replace(DEFAULT_GATES, cleanup_provisioning_requests_on_eviction=False),
    },
    "evicted, not told yet": {"of": workload(was("Evicted")), "requests": [request()]},
}
PLAIN: Obj = {}
WANT: dict[str, list[str]] = yaml.safe_load(
    (Path(__file__).parent / "capacity_steps.yaml").read_text(encoding="utf-8")
)


def look(
    of: Obj, requests: Sequence[Obj] = (), config: Obj | None = PLAIN, gates: FeatureGates = DEFAULT_GATES
) -> list[str]:
    store = Store(now_us=NOW_US)
    store.load(
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "AdmissionCheck",
            "metadata": {"name": "check"},
            "spec": {"controllerName": "kueue.x-k8s.io/provisioning-request", "parameters": CONFIG_REF},
        }
    )
    if config is not None:
        store.load(
            {
                "apiVersion": "kueue.x-k8s.io/v1beta2",
                "kind": "ProvisioningRequestConfig",
                "metadata": {"name": "config"},
                "spec": {"provisioningClassName": "class", "managedResources": ["gpu"], **config},
            }
        )
    objects = [store.load(obj) for obj in (of, *requests)]
    return said(objects, reconcile_provisioning(store, objects[0], gates))


@pytest.mark.parametrize("case", CASES)
def test_what_becomes_of_the_check(case: str) -> None:
    assert look(**CASES[case]) == WANT[case]


def test_every_state_is_told_what_comes_of_it() -> None:
    assert list(CASES) == list(WANT)
