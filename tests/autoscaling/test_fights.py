"""Autoscalers that work against each other are recognised by name."""

from __future__ import annotations

from typing import Any

from fairway.autoscaling.fights import fights
from fairway.kube.timestamps import SECOND_US

WEB = ("Deployment", "shop", "web")
REF = {"kind": "Deployment", "name": "web"}


def scaler(name: str, *, of: str = "averageUtilization", **spec: Any) -> dict[str, Any]:
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": {of: 50}}}
    meta = {"name": name, "namespace": "shop"}
    return {"metadata": meta, "spec": {"scaleTargetRef": REF, "metrics": [metric], **spec}}


def vertical(mode: str) -> dict[str, Any]:
    spec = {"targetRef": REF, "updatePolicy": {"updateMode": mode}}
    return {"metadata": {"name": "web-size", "namespace": "shop"}, "spec": spec}


def scaled(**spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "jobs", "namespace": "shop"},
        "spec": {"scaleTargetRef": {"name": "web"}, **spec},
    }


def test_peace() -> None:
    assert fights([scaler("a")], [vertical("Off")], [scaled()], {WEB: 60 * SECOND_US}, {}) == []
    assert fights([scaler("a", of="averageValue")], [vertical("Auto")], [], {}, {}) == []


def test_two_on_one_target() -> None:
    (told,) = fights([scaler("a"), scaler("b")], [], [], {}, {})
    assert told.startswith(
        "Deployment shop/web: HorizontalPodAutoscaler a and HorizontalPodAutoscaler b scale the same"
    )


def test_requests_that_another_scales_by() -> None:
    (told,) = fights([scaler("a")], [vertical("Recreate")], [], {}, {})
    assert (
        "VerticalPodAutoscaler web-size changes the cpu requests that HorizontalPodAutoscaler a scales by"
        in told
    )


def test_down_sooner_than_up() -> None:
    (told,) = fights([], [], [scaled(cooldownPeriod=30)], {WEB: 45 * SECOND_US}, {})
    assert "ScaledObject jobs cools down after 30 s, but a pod takes 45s to start" in told
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 0}}
    (told,) = fights([scaler("a", behavior=behavior)], [], [], {WEB: 45 * SECOND_US}, {})
    assert "HorizontalPodAutoscaler a goes down after 0 s, but a pod takes 45s to start" in told


def test_somebody_else() -> None:
    (told,) = fights([scaler("a")], [], [], {}, {WEB: 4})
    assert "HorizontalPodAutoscaler a and somebody else both set its replicas (4 times)" in told
    assert fights([], [], [], {}, {WEB: 4}) == []


def test_replicas_that_no_node_takes() -> None:
    taint = "untolerated taint {nvidia.com/gpu: present}"
    (told,) = fights([scaler("a")], [], [], {}, {}, {WEB: taint})
    assert (
        "asks for replicas that no node takes: their pods do not tolerate {nvidia.com/gpu: present}" in told
    )
    assert fights([], [], [], {}, {}, {WEB: taint}) == []
