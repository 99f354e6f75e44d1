"""What counts towards a quota: every scope against every pod, and each kind under all its names.

Source of the rules: pkg/quota/v1/evaluator/core (pods.go, persistent_volume_claims.go, services.go).
"""

from __future__ import annotations

from typing import Any

import pytest

from builders import GPU, pod
from fairway.cluster.quotausage import (
    amount,
    base_resource,
    count_name,
    format_used,
    hard_of,
    kinds_counted,
    matches_scopes,
    quota_key,
    quotas_in,
    usage_of,
    used,
)
from fairway.cluster.store import Store
from fairway.kube.kinds import kind_named
from fairway.kube.objects import Key

Obj = dict[str, Any]


def _quota(*, hard: Obj | None = None, **spec: Any) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "default"},
        "spec": {"hard": hard or {}, **spec},
    }


def _term(**affinity: Any) -> Obj:
    return {"topologyKey": "zone", "labelSelector": {}, **affinity}


_PODS: dict[str, tuple[Obj, set[str]]] = {
    "plain": (pod("p").build(), {"NotTerminating", "BestEffort"}),
    "asking": (pod("p").cpu(1).build(), {"NotTerminating", "NotBestEffort"}),
    "limited": (pod("p").spec(activeDeadlineSeconds=5).build(), {"Terminating", "BestEffort"}),
    "limited at once": (pod("p").spec(activeDeadlineSeconds=0).build(), {"Terminating", "BestEffort"}),
    "high": (
        pod("p").spec(priorityClassName="high").build(),
        {"NotTerminating", "BestEffort", "PriorityClass"},
    ),
    **{
        f"{kind} {strength} {what}": (
            pod("p")
            .spec(
                affinity={
                    kind: {
                        f"{strength}DuringSchedulingIgnoredDuringExecution": [
                            _term(),
                            _term(**fields),
                        ]
                        if strength == "required"
                        else [
                            {"weight": 1, "podAffinityTerm": _term(**fields)},
                            {"weight": 1, "podAffinityTerm": _term()},
                        ]
                    }
                }
            )
            .build(),
            {"NotTerminating", "BestEffort"} | ({"CrossNamespacePodAffinity"} if crosses else set()),
        )
        for kind in ("podAffinity", "podAntiAffinity")
        for strength in ("required", "preferred")
        for what, fields, crosses in (
            ("at home", {}, False),
            ("of none", {"namespaces": []}, False),
            ("of one", {"namespaces": ["red"]}, True),
            ("of all", {"namespaceSelector": {}}, True),
            ("of some", {"namespaceSelector": {"matchLabels": {"a": "b"}}}, True),
        )
    },
}
_SCOPES = (
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
)


@pytest.mark.parametrize("name", _PODS)
def test_a_pod_is_in_the_scopes_its_spec_says(name: str) -> None:
    one, within = _PODS[name]
    for first in _SCOPES:
        assert matches_scopes(_quota(scopes=[first]), one) == (first in within), first
        for second in _SCOPES:
            both = {first, second} <= within
            assert matches_scopes(_quota(scopes=[first, second]), one) == both
            selector = {"matchExpressions": [{"scopeName": second, "operator": "Exists"}]}
            assert matches_scopes(_quota(scopes=[first], scopeSelector=selector), one) == both
    assert matches_scopes(_quota(), one)


_CLASSES = ("", "high", "low")


@pytest.mark.parametrize("operator", ["In", "NotIn", "Exists", "DoesNotExist"])
@pytest.mark.parametrize("has", _CLASSES)
def test_classes_are_selected_as_labels_are(operator: str, has: str) -> None:
    for values in ([], ["high"], ["low", "high"]):
        want = {
            "In": has in values,
            "NotIn": has not in values,
            "Exists": has != "",
            "DoesNotExist": has == "",
        }[operator]

        def selecting(scope: str, given: list[str] = values) -> Obj:
            terms = [{"scopeName": scope, "operator": operator, **({"values": given} if given else {})}]
            return _quota(scopeSelector={"matchExpressions": terms})

        one = pod("p").spec(**({"priorityClassName": has} if has else {})).build()
        claim = _claim(**({"volumeAttributesClassName": has} if has else {}))
        assert matches_scopes(selecting("PriorityClass"), one) == want
        assert matches_scopes(selecting("VolumeAttributesClass"), claim) == want
        assert not matches_scopes(selecting("VolumeAttributesClass"), one)
        assert not matches_scopes(selecting("PriorityClass"), claim)


def test_nothing_but_pods_and_claims_has_a_scope() -> None:
    for scope in _SCOPES:
        assert not matches_scopes(_quota(scopes=[scope]), _service("ClusterIP", 1))


def _claim(storage: str | None = None, **spec: Any) -> Obj:
    asked = {} if storage is None else {"resources": {"requests": {"storage": storage}}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c", "namespace": "default"},
        "spec": {**asked, **spec},
    }


def _service(kind: str, ports: int, **spec: Any) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s", "namespace": "default"},
        "spec": {"type": kind, "ports": [{"port": i + 1} for i in range(ports)], **spec},
    }


def test_what_a_pod_counts() -> None:
    counted = (
        pod("p")
        .cpu("250m")
        .memory("1Gi")
        .asks("ephemeral-storage", "2Gi")
        .asks("hugepages-2Mi", "4Mi")
        .gpu(2)
        .limit("cpu", 1)
        .limit("memory", "2Gi")
        .limit("hugepages-2Mi", "4Mi")
        .build()
    )
    gi = 2**30
    assert usage_of(counted) == {
        "count/pods": 1,
        "pods": 1,
        "cpu": 250,
        "requests.cpu": 250,
        "memory": gi,
        "requests.memory": gi,
        "ephemeral-storage": 2 * gi,
        "requests.ephemeral-storage": 2 * gi,
        "hugepages-2Mi": 4 * 2**20,
        "requests.hugepages-2Mi": 4 * 2**20,
        f"requests.{GPU}": 2,
        "limits.cpu": 1000,
        "limits.memory": 2 * gi,
    }
    for phase in ("Pending", "Running", "Unknown"):
        assert usage_of({**counted, "status": {"phase": phase}})["pods"] == 1
    for phase in ("Succeeded", "Failed"):
        assert usage_of({**counted, "status": {"phase": phase}}) == {"count/pods": 1}


def test_what_a_claim_counts() -> None:
    fast = "fast.storageclass.storage.k8s.io/"
    plain = {"count/persistentvolumeclaims": 1, "persistentvolumeclaims": 1}
    assert usage_of(_claim()) == plain
    assert usage_of(_claim("1Ki")) == {**plain, "requests.storage": 1024}
    assert usage_of(_claim(storageClassName="fast")) == {**plain, f"{fast}persistentvolumeclaims": 1}
    assert usage_of(_claim("1Ki", storageClassName="fast")) == {
        **plain,
        "requests.storage": 1024,
        f"{fast}persistentvolumeclaims": 1,
        f"{fast}requests.storage": 1024,
    }
    assert usage_of(_claim("1Ki", storageClassName="")) == {**plain, "requests.storage": 1024}


def test_what_a_service_counts() -> None:
    plain = {"count/services": 1, "services": 1}
    for kind in ("ClusterIP", "ExternalName"):
        assert usage_of(_service(kind, 2)) == plain
    assert usage_of(_service("NodePort", 2)) == {**plain, "services.nodeports": 2}
    balanced = {**plain, "services.loadbalancers": 1}
    assert usage_of(_service("LoadBalancer", 3)) == {**balanced, "services.nodeports": 3}
    assert usage_of(_service("LoadBalancer", 3, allocateLoadBalancerNodePorts=True)) == {
        **balanced,
        "services.nodeports": 3,
    }
    assert usage_of(_service("LoadBalancer", 3, allocateLoadBalancerNodePorts=False)) == {
        **balanced,
        "services.nodeports": 0,
    }


@pytest.mark.parametrize(
    ("name", "base", "value", "counted", "said"),
    [
        ("cpu", "cpu", "1500m", 1500, "1500m"),
        ("requests.cpu", "cpu", "2", 2000, "2"),
        ("limits.cpu", "cpu", "0.0001", 1, "1m"),
        ("requests.memory", "memory", "1Ki", 1024, "1Ki"),
        ("limits.memory", "memory", "1500m", 2, "2"),
        ("requests.storage", "memory", "2Gi", 2**31, "2Gi"),
        ("fast.storageclass.storage.k8s.io/requests.storage", "memory", "3Mi", 3 * 2**20, "3Mi"),
        ("fast.storageclass.storage.k8s.io/persistentvolumeclaims", "persistentvolumeclaims", "4", 4, "4"),
        (f"requests.{GPU}", GPU, "8", 8, "8"),
        ("pods", "pods", 7, 7, "7"),
        ("count/jobs.batch", "count/jobs.batch", "3", 3, "3"),
        # Of a name made of several prefixes the first alone is left out.
        ("requests.limits.cpu", "limits.cpu", "3", 3, "3"),
    ],
)
def test_the_unit_is_that_of_the_resource_behind_the_name(
    name: str, base: str, value: object, counted: int, said: str
) -> None:
    assert base_resource(name) == base
    assert amount(name, value) == counted
    assert hard_of(_quota(hard={name: value})) == {name: counted}
    assert format_used(name, counted) == said
    assert format_used(name, 0) == "0"


def test_which_kinds_count() -> None:
    for name, kinds in {
        "pods": ["Pod"],
        "requests.cpu": ["Pod"],
        "count/pods": ["Pod"],
        "count/jobs.batch": ["Job.batch"],
        "count/deployments.apps": ["Deployment.apps"],
        "configmaps": ["ConfigMap"],
        "secrets": ["Secret"],
        "services": ["Service"],
        "services.nodeports": ["Service"],
        "services.loadbalancers": ["Service"],
        "persistentvolumeclaims": ["PersistentVolumeClaim"],
        "requests.storage": ["PersistentVolumeClaim"],
        "fast.storageclass.storage.k8s.io/requests.storage": ["PersistentVolumeClaim"],
        "resourcequotas": ["ResourceQuota"],
        "replicationcontrollers": ["ReplicationController"],
    }.items():
        assert kinds_counted(_quota(hard={name: "1"})) == kinds, name
    several = _quota(hard={"requests.storage": "1", "pods": "1", "cpu": "1", "configmaps": "1"})
    assert kinds_counted(several) == ["ConfigMap", "PersistentVolumeClaim", "Pod"]
    assert kinds_counted(_quota()) == []
    assert count_name(kind_named("Pod")) == "count/pods"
    assert count_name(kind_named("Job.batch")) == "count/jobs.batch"


def test_what_is_used_is_the_sum_in_the_namespace_and_the_scopes() -> None:
    store = Store()
    for name in ("default", "red"):
        store.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    for i in range(3):
        store.create(pod(f"a{i}").cpu("100m").build())
        store.create(pod(f"b{i}", "red").cpu(1).build())
        store.create(pod(f"c{i}").build())
    store.create(_claim("1Gi"))
    ended = store.create(pod("z").cpu(5).build())
    store.set_status(Key("Pod", "default", "z"), {**ended["status"], "phase": "Succeeded"})
    hard = {"pods": "9", "requests.cpu": "9", "count/pods": "20", "requests.storage": "9Gi", "services": "1"}
    assert used(store, _quota(hard=hard)) == {
        "pods": 6,
        "requests.cpu": 300,
        "count/pods": 7,
        "requests.storage": 2**30,
        "services": 0,
    }
    assert used(store, _quota(hard=hard, scopes=["NotBestEffort"])) == {
        "pods": 3,
        "requests.cpu": 300,
        "count/pods": 4,
        "requests.storage": 0,
        "services": 0,
    }


def test_quotas_are_found_in_their_namespace() -> None:
    store = Store()
    made = [store.create({**_quota(), "metadata": {"name": n, "namespace": "default"}}) for n in "ba"]
    store.create({**_quota(), "metadata": {"name": "c", "namespace": "other"}})
    assert quotas_in(store, "default") == made[::-1]
    assert [quota_key(q) for q in made] == [Key("ResourceQuota", "default", n) for n in "ba"]
