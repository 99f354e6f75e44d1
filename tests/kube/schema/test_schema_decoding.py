"""What Go's decoder says of wrong types, and the strict errors: unknown and duplicate fields."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.kube.schema.decoding import decode_error, strict_error, unknown_fields
from fairway.kube.schema.duplicates import duplicate_fields
from fairway.kube.schema.node import Schema, schema_for

# Kind, object, the sentence (None: it can be read).
WRONG_TYPES: dict[str, tuple[str, str, Any, str | None]] = {
    "nothing wrong": ("v1", "Pod", {"spec": {"containers": [{"name": "c", "image": "i"}]}}, None),
    "null reads as unset": ("v1", "Pod", {"spec": None, "metadata": {"labels": {"a": None}}}, None),
    "text for a number": (
        "apps/v1",
        "Deployment",
        {"spec": {"replicas": "3"}},
        "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
    ),
    "a fraction": (
        "apps/v1",
        "Deployment",
        {"spec": {"replicas": 1.5}},
        "json: cannot unmarshal number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32",
    ),
    "a number too large": (
        "apps/v1",
        "Deployment",
        {"spec": {"replicas": 3000000000}},
        "json: cannot unmarshal number 3000000000 into Go struct field DeploymentSpec.spec.replicas of type int32",
    ),
    "a number as a label": (
        "v1",
        "ConfigMap",
        {"metadata": {"labels": {"a": 1}}},
        "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
    ),
    "an object for a list": (
        "apps/v1",
        "Deployment",
        {"spec": {"template": {"spec": {"containers": {}}}}},
        "json: cannot unmarshal object into Go struct field PodSpec.spec.template.spec.containers"
        " of type []v1.Container",
    ),
    "a number as an environment value": (
        "v1",
        "Pod",
        {"spec": {"containers": [{"name": "c", "env": [{"name": "X", "value": 1}]}]}},
        "json: cannot unmarshal number into Go struct field EnvVar.spec.containers.env.value of type string",
    ),
    "a list for a struct": (
        "v1",
        "Pod",
        {"spec": []},
        "json: cannot unmarshal array into Go struct field Pod.spec of type v1.PodSpec",
    ),
    "text for resources": (
        "v1",
        "Pod",
        {"spec": {"containers": [{"resources": {"limits": "1"}}]}},
        "json: cannot unmarshal string into Go struct field ResourceRequirements.spec.containers.resources.limits"
        " of type v1.ResourceList",
    ),
    "no quantity": (
        "v1",
        "Pod",
        {"spec": {"containers": [{"resources": {"limits": {"cpu": "lots"}}}]}},
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    ),
    "no time": (
        "v1",
        "Pod",
        {"metadata": {"creationTimestamp": "today"}},
        'parsing time "today" as "2006-01-02T15:04:05Z07:00": cannot parse "today" as "2006"',
    ),
    "no base64": (
        "v1",
        "Secret",
        {"data": {"a": "!!!"}},
        "illegal base64 data at input byte 0",
    ),
    "a truth value as a port": (
        "v1",
        "Service",
        {"spec": {"ports": [{"targetPort": True}]}},
        "json: cannot unmarshal bool into Go struct field ServicePort.spec.ports.targetPort of type int32",
    ),
    "a number of disruptions that does not fit": (
        "policy/v1",
        "PodDisruptionBudget",
        {"spec": {"minAvailable": 2147483648}},
        "json: cannot unmarshal number 2147483648 into Go struct field PodDisruptionBudgetSpec.spec.minAvailable"
        " of type int32",
    ),
    "a number as a named text": (
        "v1",
        "Pod",
        {"spec": {"restartPolicy": 1}},
        "json: cannot unmarshal number into Go struct field PodSpec.spec.restartPolicy of type v1.RestartPolicy",
    ),
}

UNKNOWN: dict[str, tuple[str, str, Any, list[str]]] = {
    "none": ("v1", "Pod", {"spec": {"containers": [{"name": "c"}]}}, []),
    "in a container": (
        "v1",
        "Pod",
        {"spec": {"containers": [{"name": "c", "resorces": {}}]}},
        ['unknown field "spec.containers[0].resorces"'],
    ),
    "several, in the order of the text": (
        "v1",
        "Pod",
        {"zzz": 1, "spec": {"aaa": 1}},
        ['unknown field "zzz"', 'unknown field "spec.aaa"'],
    ),
    "maps have no unknown fields": ("v1", "ConfigMap", {"data": {"anything": "1"}}, []),
    "nor do free forms": ("v1", "Pod", {"metadata": {"managedFields": [{"fieldsV1": {"f:x": {}}}]}}, []),
    "in metadata": ("v1", "Pod", {"metadata": {"lables": {}}}, ['unknown field "metadata.lables"']),
}


def _schema(api_version: str, kind: str) -> Schema:
    schema = schema_for(api_version, kind)
    assert schema is not None
    return schema


@pytest.mark.parametrize("name", WRONG_TYPES)
def test_wrong_types(name: str) -> None:
    api_version, kind, obj, want = WRONG_TYPES[name]
    assert decode_error(obj, _schema(api_version, kind)) == want


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_fields(name: str) -> None:
    api_version, kind, obj, want = UNKNOWN[name]
    assert unknown_fields(obj, _schema(api_version, kind)) == want


def test_duplicate_fields() -> None:
    text = b'{"a":1,"b":{"c":[{"d":1,"d":2}]},"a":2,"a":3}'
    assert duplicate_fields(text) == ['duplicate field "b.c[0].d"', 'duplicate field "a"']
    assert duplicate_fields(b'{"a":[{"a":1},{"a":1}]}') == []


def test_the_sentence_of_a_refusal() -> None:
    want = 'strict decoding error: unknown field "a", duplicate field "b"'
    assert strict_error(['unknown field "a"', 'duplicate field "b"']) == want


KINDS = (
    "v1:Pod Node Namespace Service Secret ConfigMap Event LimitRange ResourceQuota PersistentVolume"
    " PersistentVolumeClaim ServiceAccount Endpoints PodTemplate ReplicationController",
    "apps/v1:Deployment ReplicaSet StatefulSet DaemonSet ControllerRevision",
    "batch/v1:Job CronJob",
    "policy/v1:PodDisruptionBudget Eviction",
    "rbac.authorization.k8s.io/v1:Role ClusterRole RoleBinding ClusterRoleBinding",
    "networking.k8s.io/v1:Ingress IngressClass NetworkPolicy ServiceCIDR IPAddress",
    "storage.k8s.io/v1:StorageClass VolumeAttachment CSIDriver CSINode CSIStorageCapacity",
    "scheduling.k8s.io/v1:PriorityClass",
    "autoscaling/v2:HorizontalPodAutoscaler",
    "autoscaling/v1:HorizontalPodAutoscaler Scale",
    "coordination.k8s.io/v1:Lease",
    "discovery.k8s.io/v1:EndpointSlice",
    "events.k8s.io/v1:Event",
    "admissionregistration.k8s.io/v1:ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding"
    " MutatingAdmissionPolicy MutatingWebhookConfiguration ValidatingWebhookConfiguration",
    "apiextensions.k8s.io/v1:CustomResourceDefinition",
    "apiregistration.k8s.io/v1:APIService",
    "authentication.k8s.io/v1:TokenReview TokenRequest SelfSubjectReview",
    "authorization.k8s.io/v1:SubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview",
    "certificates.k8s.io/v1:CertificateSigningRequest",
    "node.k8s.io/v1:RuntimeClass",
    "resource.k8s.io/v1:ResourceClaim ResourceClaimTemplate ResourceSlice DeviceClass",
    "flowcontrol.apiserver.k8s.io/v1:FlowSchema PriorityLevelConfiguration",
)


@pytest.mark.parametrize("row", KINDS)
def test_every_kind_users_expect_has_a_schema(row: str) -> None:
    api_version, _, kinds = row.partition(":")
    for kind in kinds.split():
        schema = schema_for(api_version, kind)
        assert schema is not None, kind
        assert "metadata" in schema.properties, kind


def test_what_is_not_built_in_has_none() -> None:
    assert schema_for("kueue.x-k8s.io/v1beta1", "Workload") is None
    assert schema_for("v1", "Widget") is None


def test_a_schema_that_refers_to_itself() -> None:
    nested: Any = {"type": "object"}
    for _ in range(20):
        nested = {"type": "object", "properties": {"x": nested}}
    crd = {"spec": {"versions": [{"schema": {"openAPIV3Schema": nested}}]}}
    schema = _schema("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    assert decode_error(crd, schema) is None
    assert unknown_fields(crd, schema) == []
