"""What the server warns of, word for word."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.apiserver.warnings import warnings
from fairway.kube.objects import Obj


def pod(name: str = "p", annotations: dict[str, str] | None = None, **spec: Any) -> Obj:
    body = {"containers": [{"name": "c", "image": "i"}], **spec}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": body,
    }


def container(**fields: Any) -> Obj:
    return pod(containers=[{"name": "c", "image": "i", **fields}])


CASES: dict[str, tuple[Obj, list[str]]] = {
    "nothing to say": (pod(), []),
    "a variable twice": (
        container(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]),
        [
            'spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply'
        ],
    ),
    "a variable that adds to itself": (
        container(env=[{"name": "PATH", "value": "/a"}, {"name": "PATH", "value": "$(PATH):/b"}]),
        [],
    ),
    "a port twice": (
        container(ports=[{"containerPort": 80}, {"containerPort": 80, "protocol": "TCP"}]),
        ["spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]"],
    ),
    "half a byte": (
        container(resources={"limits": {"memory": "100m"}}),
        [
            'spec.containers[0].resources.limits[memory]: fractional byte value "100m" is invalid, must be an '
            "integer"
        ],
    ),
    "halves of bytes and whole ones": (
        container(
            resources={
                "limits": {"memory": "1Gi", "ephemeral-storage": "1.5"},
                "requests": {"memory": "1.5Gi", "ephemeral-storage": "500m", "cpu": "500m"},
            }
        ),
        [
            f'spec.containers[0].resources.{where}: fractional byte value "{value}" is invalid, must be an integer'
            for where, value in (
                ("limits[ephemeral-storage]", "1.5"),
                ("requests[ephemeral-storage]", "500m"),
            )
        ],
    ),
    "a claim of whole bytes": (
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "c"},
            "spec": {"resources": {"requests": {"storage": "1Gi"}, "limits": {"storage": "2k"}}},
        },
        [],
    ),
    "a claim of halves": (
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "c", "annotations": {"volume.beta.kubernetes.io/storage-class": "x"}},
            "spec": {"resources": {"requests": {"storage": "1500m"}, "limits": {"storage": "0.5"}}},
        },
        [
            "metadata.annotations[volume.beta.kubernetes.io/storage-class]: deprecated since v1.8; use "
            '"storageClassName" attribute instead',
            'spec.resources.requests[storage]: fractional byte value "1500m" is invalid, must be an integer',
            'spec.resources.limits[storage]: fractional byte value "0.5" is invalid, must be an integer',
        ],
    ),
    "a claim of a StatefulSet": (
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": "s"},
            "spec": {
                "template": {},
                "volumeClaimTemplates": [
                    {"spec": {"resources": {"requests": {"storage": "1Gi"}}}},
                    {"spec": {"resources": {"requests": {"storage": "100m"}}}},
                ],
            },
        },
        [
            "spec.volumeClaimTemplates[1].spec.resources.requests[storage]: fractional byte value "
            '"100m" is invalid, must be an integer'
        ],
    ),
    "a volume that is recycled": (
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "v"},
            "spec": {"persistentVolumeReclaimPolicy": "Recycle"},
        },
        [
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended "
            "approach is to use dynamic provisioning."
        ],
    ),
    "an old node label": (
        pod(nodeSelector={"beta.kubernetes.io/os": "linux"}),
        ['spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead'],
    ),
    "old node labels in every place": (
        pod(
            affinity={
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {},
                            {"matchExpressions": [{"key": "a"}, {"key": "beta.kubernetes.io/arch"}]},
                        ]
                    },
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 1},
                        {
                            "preference": {
                                "matchExpressions": [{"key": "failure-domain.beta.kubernetes.io/zone"}]
                            }
                        },
                    ],
                }
            },
            topologySpreadConstraints=[
                {"topologyKey": "zone", "labelSelector": {}},
                {"topologyKey": "failure-domain.beta.kubernetes.io/region"},
            ],
        ),
        [
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[1]."
            "matchExpressions[1].key: beta.kubernetes.io/arch is deprecated since v1.14; use "
            '"kubernetes.io/arch" instead',
            "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[1].preference."
            "matchExpressions[0].key: failure-domain.beta.kubernetes.io/zone is deprecated since v1.17; use "
            '"topology.kubernetes.io/zone" instead',
            "spec.topologySpreadConstraints[1].topologyKey: failure-domain.beta.kubernetes.io/region is "
            'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
            "spec.topologySpreadConstraints[1].labelSelector: a null labelSelector results in matching no pod",
        ],
    ),
    "an old annotation": (
        pod(annotations={"scheduler.alpha.kubernetes.io/critical-pod": ""}),
        [
            "metadata.annotations[scheduler.alpha.kubernetes.io/critical-pod]: non-functional in v1.16+; use the "
            '"priorityClassName" field instead'
        ],
    ),
    "negative grace": (
        pod(terminationGracePeriodSeconds=-1),
        [
            "spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"
        ],
    ),
    "a name with dots": (
        pod("a.b"),
        [
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label "
            "is recommended: [must not contain dots]"
        ],
    ),
    "affinity to no pod": (
        pod(
            affinity={
                "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "x"}]}
            }
        ),
        [
            "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector: a null "
            "labelSelector results in matching no pod"
        ],
    ),
    "in a template": (
        {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "metadata": {"name": "c"},
            "spec": {"jobTemplate": {"spec": {"template": pod(imagePullSecrets=[{}])}}},
        },
        ['spec.jobTemplate.spec.template.spec.imagePullSecrets[0]: invalid empty name ""'],
    ),
    "an ingress class by annotation": (
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "Ingress",
            "metadata": {"name": "i", "annotations": {"kubernetes.io/ingress.class": "nginx"}},
        },
        [
            "annotation \"kubernetes.io/ingress.class\" is deprecated, please use 'spec.ingressClassName' instead"
        ],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_warnings(name: str) -> None:
    obj, want = CASES[name]
    assert warnings(obj) == want
