"""Unknown fields and wrong types: what strict decoding refuses before any rule is looked at."""

from __future__ import annotations

from typing import Any

import pytest
from validationworld import container, controller, job, node, of_kind, pod, told

from fairway.kube.kinds import BY_GROUP_KIND
from fairway.kube.schema import document
from fairway.kube.schema.misfits import decoder_type, misfits
from fairway.kube.schema.node import definition_schema, schema_for

CASES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "a typo in a container": (
        pod(container(resorces={})),
        ['unknown field "spec.containers[0].resorces", did you mean "resources"?'],
    ),
    "a typo in a case": (
        pod(container(ImagePullPolicy="Always")),
        ['unknown field "spec.containers[0].ImagePullPolicy", did you mean "imagePullPolicy"?'],
    ),
    "a field one level too high": (
        {**controller("Deployment"), "replicas": 3},
        ['unknown field "replicas"'],
    ),
    "a field of another kind": (job(replicas=3), ['unknown field "spec.replicas"']),
    "a null unknown field": (pod(gpus=None), ['unknown field "spec.gpus"']),
    "several at once, in the order of the text": (
        pod(container(comand=["x"]), nodeSelectors={}),
        [
            'unknown field "spec.containers[0].comand", did you mean "command"?',
            'unknown field "spec.nodeSelectors", did you mean "nodeSelector"?',
        ],
    ),
    "text where an integer belongs": (
        controller("Deployment", replicas="3"),
        ['spec.replicas: Wrong type: "3": expected an integer, got text'],
    ),
    "a float where an integer belongs": (
        controller("Deployment", replicas=1.5),
        ["spec.replicas: Wrong type: 1.5: expected an integer, got a number"],
    ),
    "an integer that does not fit": (
        controller("Deployment", replicas=2**31),
        ["spec.replicas: Wrong type: 2147483648: expected an integer that fits in 32 bits"],
    ),
    "a truth value where text belongs": (
        pod(nodeSelector={"gpu": True}),
        ["spec.nodeSelector[gpu]: Wrong type: true: expected text, got a truth value"],
    ),
    "a number as a label": (
        {**pod(), "metadata": {"name": "p", "labels": {"version": 1.1}}},
        ["metadata.labels[version]: Wrong type: 1.1: expected text, got a number"],
    ),
    "a list where a mapping belongs": (
        pod(nodeSelector=["a"]),
        ['spec.nodeSelector: Wrong type: ["a"]: expected a mapping, got a list'],
    ),
    "a mapping where a list belongs": (
        pod(containers={"name": "c"}),
        ['spec.containers: Wrong type: {"name":"c"}: expected a list, got a mapping'],
    ),
    "text where a mapping belongs": (
        {**pod(), "spec": "none"},
        ['spec: Wrong type: "none": expected a mapping, got text'],
    ),
    "text where truth belongs": (
        pod(hostNetwork="true"),
        ['spec.hostNetwork: Wrong type: "true": expected true or false, got text'],
    ),
    "a quantity that is none": (
        node(capacity={"memory": "16GB"}),
        [
            'status.capacity[memory]: Wrong type: "16GB": expected a quantity: a number with an optional suffix '
            "(m, k, M, G, Ki, Mi, Gi, … or e3)"
        ],
    ),
    "a time that is none": (
        {**pod(), "metadata": {"name": "p", "creationTimestamp": "yesterday"}},
        ['metadata.creationTimestamp: Wrong type: "yesterday": expected a time such as 2026-01-31T08:00:00Z'],
    ),
    "a port that is neither number nor name": (
        pod(container(livenessProbe={"tcpSocket": {"port": [80]}})),
        [
            "spec.containers[0].livenessProbe.tcpSocket.port: Wrong type: [80]: expected an integer or text, got a "
            "list"
        ],
    ),
    "an item of the wrong type": (
        pod(container(command=["sleep", 600])),
        ["spec.containers[0].command[1]: Wrong type: 600: expected text, got an integer"],
    ),
    "an old version of a kind": (
        of_kind("CronJob", "batch/v1beta1"),
        [
            'apiVersion: Invalid value: "batch/v1beta1": no matches for kind "CronJob" in version '
            '"batch/v1beta1"; expected batch/v1'
        ],
    ),
    "a kind in the wrong group": (
        of_kind("Deployment"),
        [
            'apiVersion: Invalid value: "v1": no matches for kind "Deployment" in version "v1"; expected apps/v1'
        ],
    ),
    "a kind that does not exist": (
        of_kind("Podd"),
        ['apiVersion: Invalid value: "v1": no matches for kind "Podd" in version "v1"'],
    ),
    "metadata of a custom kind": (
        {"apiVersion": "a.io/v1", "kind": "Widget", "metadata": {"name": "x", "label": {}}},
        ['unknown field "metadata.label", did you mean "labels"?'],
    ),
    "metadata that is text": (
        {"apiVersion": "a.io/v1", "kind": "Widget", "metadata": "x"},
        ['metadata: Wrong type: "x": expected a mapping, got text'],
    ),
}


@pytest.mark.parametrize(("obj", "want"), CASES.values(), ids=CASES.keys())
def test_what_cannot_be_decoded(obj: dict[str, Any], want: list[str]) -> None:
    assert told(obj) == want


def test_an_object_that_cannot_be_decoded_is_not_judged_further() -> None:
    assert told(pod(container(name="Bad_Name", resorces={}))) == [
        'unknown field "spec.containers[0].resorces", did you mean "resources"?'
    ]


QUANTITIES = ["1", "500m", "1.5Gi", ".5", "1.", "+1", "-1", "1e3", "1E", "1.0000000001", 3, 0.5, 2**70]


@pytest.mark.parametrize("value", QUANTITIES)
def test_the_fast_and_the_slow_way_agree_on_quantities(value: object) -> None:
    status = definition_schema("io.k8s.api.core.v1.NodeStatus")
    assert misfits({"capacity": {"cpu": value}}, status) == []


def test_every_built_in_kind_has_a_decoder_unless_it_contains_itself() -> None:
    without = set()
    for kind in (k for k in BY_GROUP_KIND.values() if document.is_built_in(k.group, k.kind)):
        for version in kind.versions:
            schema = schema_for(f"{kind.group}/{version}" if kind.group else version, kind.kind)
            if schema is None:
                continue
            assert {"apiVersion", "kind", "metadata"} <= schema.properties.keys()
            if decoder_type(schema) is None:
                without.add(kind.kind)
            assert misfits({"apiVersion": "x", "kind": kind.kind, "metadata": {"name": "a"}}, schema) == []
            assert len(misfits({"nothing": 1, "metadata": {"nme": "a"}}, schema)) == 2
    assert without == {"CustomResourceDefinition"}


def test_a_field_of_a_later_release_is_refused() -> None:
    assert told(job(scheduling={})) == ['unknown field "spec.scheduling"']
