"""kube-state-metrics' families, read off objects."""

from typing import Any

import pytest

from fairway.telemetry.exposition import number, sample, text
from fairway.telemetry.statemetrics.families import families
from fairway.telemetry.statemetrics.page import blocks, own_labels
from fairway.telemetry.statemetrics.rules import of_labels

POD: dict[str, Any] = {
    "metadata": {
        "name": "a",
        "namespace": "n",
        "uid": "u",
        "labels": {"app": "x"},
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "ownerReferences": [{"kind": "Job", "name": "j", "controller": True}],
    },
    "spec": {
        "nodeName": "n1",
        "containers": [
            {
                "name": "c",
                "image": "i",
                "resources": {
                    "requests": {"cpu": "500m", "nvidia.com/gpu": "1", "memory": "1Gi", "odd": "1"}
                },
            }
        ],
    },
    "status": {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:01:00Z"}],
        "containerStatuses": [
            {
                "name": "c",
                "ready": True,
                "restartCount": 2,
                "state": {"running": {"startedAt": "2026-01-01T00:00:30Z"}},
                "lastState": {"terminated": {"reason": "OOMKilled", "exitCode": 137}},
            }
        ],
    },
}
NODE: dict[str, Any] = {
    "metadata": {"name": "n1", "labels": {"karpenter.sh/capacity-type": "spot"}},
    "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}], "unschedulable": True},
    "status": {
        "allocatable": {"cpu": "3500m", "nvidia.com/gpu": "8", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "Unknown"}],
    },
}


def said(gk: str, obj: dict[str, Any]) -> list[str]:
    return text(blocks(lambda kind: [obj] if kind == gk else [])).splitlines()


@pytest.mark.parametrize(
    "line",
    [
        'kube_pod_status_phase{namespace="n",pod="a",uid="u",phase="Running"} 1',
        'kube_pod_status_phase{namespace="n",pod="a",uid="u",phase="Pending"} 0',
        'kube_pod_labels{namespace="n",pod="a",uid="u",label_app="x"} 1',
        'kube_pod_owner{namespace="n",pod="a",uid="u",owner_kind="Job",owner_name="j",owner_is_controller="true"} 1',
        'kube_pod_container_resource_requests{namespace="n",pod="a",uid="u",container="c",node="n1",'
        'resource="nvidia_com_gpu",unit="integer"} 1',
        'kube_pod_container_resource_requests{namespace="n",pod="a",uid="u",container="c",node="n1",'
        'resource="cpu",unit="core"} 0.5',
        'kube_pod_container_status_restarts_total{namespace="n",pod="a",uid="u",container="c"} 2',
        'kube_pod_container_status_last_terminated_reason{namespace="n",pod="a",uid="u",container="c",'
        'reason="OOMKilled"} 1',
        'kube_pod_status_ready{namespace="n",pod="a",uid="u",condition="true"} 1',
        'kube_pod_created{namespace="n",pod="a",uid="u"} 1767225600',
    ],
)
def test_a_pod(line: str) -> None:
    assert line in said("Pod", POD)


@pytest.mark.parametrize(
    "line",
    [
        'kube_node_labels{node="n1",label_karpenter_sh_capacity_type="spot"} 1',
        'kube_node_status_allocatable{node="n1",resource="cpu",unit="core"} 3.5',
        'kube_node_spec_taint{node="n1",key="k",value="",effect="NoSchedule"} 1',
        'kube_node_spec_unschedulable{node="n1"} 1',
        'kube_node_status_condition{node="n1",condition="Ready",status="unknown"} 1',
    ],
)
def test_a_node(line: str) -> None:
    assert line in said("Node", NODE)


def test_a_pods_claims() -> None:
    """One of its own, one that is made of a template, and one that is still to be made."""
    entries = [
        {"name": "own", "resourceClaimName": "c"},
        {"name": "made", "resourceClaimTemplateName": "t"},
        {"name": "late", "resourceClaimTemplateName": "t"},
        {"name": "odd"},
    ]
    statuses = [{"name": "made", "resourceClaimName": "a-made-x7"}]
    pod = {
        "metadata": POD["metadata"],
        "spec": {"resourceClaims": entries},
        "status": {"resourceClaimStatuses": statuses},
    }
    lines = [line for line in said("Pod", pod) if line.startswith("kube_pod_resourceclaim_info{")]
    names = ("claim_name", "resourceclaim_name", "resourceclaim_template_name")
    found = [tuple(line.partition(f'{n}="')[2].partition('"')[0] for n in names) for line in lines]
    assert found == [("own", "c", ""), ("made", "a-made-x7", "t"), ("late", "", "t")]


def test_a_resource_of_no_unit_is_left_out() -> None:
    assert not [line for line in said("Pod", POD) if "odd" in line]


def test_label_names_that_come_out_alike_are_numbered() -> None:
    assert of_labels({"a-b": "1", "a.b": "2", "camelCase": "3"}) == {
        "label_a_b_conflict1": "1",
        "label_a_b_conflict2": "2",
        "label_camel_case": "3",
    }


@pytest.mark.parametrize("gk", sorted({family.gk for family in families().values()}))
def test_an_object_that_says_nothing_stops_nothing(gk: str) -> None:
    bare: dict[str, Any] = {"metadata": {"name": "x"}}
    assert own_labels(gk, bare)
    said(gk, bare)
    said(gk, {**bare, "spec": {}, "status": {"conditions": ["no"], "containerStatuses": []}})


def test_text_is_escaped_and_numbers_are_short() -> None:
    assert sample("m", {"l": 'a"b\\c\nd'}, 1.5) == 'm{l="a\\"b\\\\c\\nd"} 1.5\n'
    assert [number(v) for v in (1.0, 0.1, float("inf"), float("nan"), 1e300)][:4] == [
        "1",
        "0.1",
        "+Inf",
        "NaN",
    ]
