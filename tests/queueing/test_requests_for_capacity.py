"""What Kueue asks the autoscaler for: names, which pod sets, merged ones, templates, waits between attempts."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from fairway.cluster.store import Store
from fairway.kube.objects import Key
from fairway.queueing.admissionchecks.configs import Config, config, config_of, is_ours, reconcile_check
from fairway.queueing.admissionchecks.requests import (
    InconsistentPodSets,
    asked_pod_sets,
    attempt_of,
    is_needed,
    is_of_config,
    request_name,
    request_object,
    template_name,
    template_object,
)
from fairway.queueing.facts.gates import DEFAULT_GATES

Obj = dict[str, Any]


def _config(**spec: Any) -> Config:
    return config({"metadata": {"name": "c"}, "spec": {"provisioningClassName": "class", **spec}})


def _pod_set(name: str, count: int = 1, **spec: Any) -> Obj:
    return {"name": name, "count": count, "template": {"spec": spec}}


def _containers(*asked: Obj) -> list[Obj]:
    return [{"name": f"c{i}", "resources": a} for i, a in enumerate(asked)]


def _workload(*pod_sets: Obj, counts: dict[str, int | None] | None = None, **meta: Any) -> Obj:
    named = counts if counts is not None else {p["name"]: None for p in pod_sets}
    assignments = [{"name": n, **({} if c is None else {"count": c})} for n, c in named.items()]
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": "w", "namespace": "default", "uid": "u", **meta},
        "spec": {"podSets": list(pod_sets)},
        "status": {"admission": {"podSetAssignments": assignments}},
    }


def test_attempts_wait_twice_as_long_each_and_no_longer_than_the_most() -> None:
    for base, most in product((0, 1, 60), (0, 60, 100, 1800)):
        waits = _config(retryStrategy={"backoffBaseSeconds": base, "backoffMaxSeconds": most})
        want = base
        for attempt in range(1, 50):
            assert waits.backoff_s(attempt) == min(want, most), (base, most, attempt)
            want *= 2
        assert waits.backoff_s(0) == min(base, most)
    default = _config()
    assert (default.limit, default.base_s, default.most_s) == (3, 60, 1800)
    assert _config(retryStrategy={"backoffLimitCount": 0}).limit == 0
    assert Config("", "", {}, frozenset(), "", (), updates_pod_sets=False).backoff_s(2) == 120


def test_what_a_config_says() -> None:
    plain = _config()
    assert (plain.name, plain.class_name, plain.merge_policy) == ("c", "class", "")
    assert (plain.updates_pod_sets, plain.node_selector, plain.managed_resources) == (False, (), frozenset())
    said = _config(
        parameters={"a": "1"},
        managedResources=["g"],
        podSetMergePolicy="IdenticalPodTemplates",
        podSetUpdates={"nodeSelector": [{"key": "k", "valueFromProvisioningClassDetail": "d"}]},
    )
    assert said.updates_pod_sets
    assert said.node_selector == (("k", "d"),)
    assert said.parameters == {"a": "1"}
    assert said.managed_resources == {"g"}
    assert _config(podSetUpdates={}).updates_pod_sets


@pytest.mark.parametrize("length", [1, 200, 243, 244, 245, 246, 247, 260])
def test_names_fit_and_tell_their_attempt(length: int) -> None:
    workload = "w" * length
    for check, attempt in product(("c", "d-1"), (1, 2, 10)):
        name = request_name(workload, check, attempt)
        whole = f"{workload}-{check}-{attempt}"
        assert len(name) <= 253
        assert (name == whole) == (len(whole) <= 247)
        if name != whole:
            assert name[:248] == whole[:247] + "-"
            assert len(name) == 253
        request = {"metadata": {"name": name}}
        if name == whole:
            assert attempt_of(request, workload, check) == attempt
        assert attempt_of(request, workload, "other") is None
    assert attempt_of({"metadata": {"name": "w-c-1x"}}, "w", "c") is None
    assert attempt_of({"metadata": {"name": "wxc-1"}}, "w", ".") is None
    assert template_name("r", "main") == "ppt-r-main"


def test_pod_sets_that_use_what_is_managed() -> None:
    gpu, cpu = {"nvidia.com/gpu": "1"}, {"cpu": "1"}
    variants = {
        "requests": _pod_set("a", containers=_containers({"requests": gpu})),
        "limits": _pod_set("a", containers=_containers({"limits": gpu})),
        "second": _pod_set("a", containers=_containers({"requests": cpu}, {"requests": gpu})),
        "init": _pod_set("a", initContainers=_containers({"requests": gpu}), containers=_containers({})),
    }
    managed = _config(managedResources=["nvidia.com/gpu", "x"])
    for name, pod_set in variants.items():
        assert is_needed(_workload(pod_set), managed), name
        assert [a.name for a in asked_pod_sets(_workload(pod_set), managed)] == ["a"]
    other = _pod_set("b", containers=_containers({"requests": cpu, "limits": cpu}))
    assert not is_needed(_workload(other), managed)
    assert asked_pod_sets(_workload(other), managed) == []
    assert is_needed(_workload(other), _config())
    assert not is_needed(_workload(), _config())
    both = _workload(other, variants["requests"])
    assert is_needed(both, managed)
    assert [(a.name, a.count) for a in asked_pod_sets(both, managed)] == [("a", 1)]
    assert [(a.name, a.count) for a in asked_pod_sets(both, _config())] == [("b", 1), ("a", 1)]


def test_the_assigned_count_is_what_counts() -> None:
    pod_set = _pod_set("a", 5)
    for counted, want in ((None, 5), (3, 3), (1, 1)):
        (asked,) = asked_pod_sets(_workload(pod_set, counts={"a": counted}), _config())
        assert asked.count == want
        assert is_needed(_workload(pod_set, counts={"a": counted}), _config())
    assert asked_pod_sets(_workload(pod_set, counts={"a": 0}), _config()) == []
    assert not is_needed(_workload(pod_set, counts={"a": 0}), _config())
    second = _workload(pod_set, _pod_set("b", 2), counts={"a": 0, "b": None})
    assert [(a.name, a.count) for a in asked_pod_sets(second, _config())] == [("b", 2)]
    assert is_needed(second, _config())
    assert asked_pod_sets(_workload(_pod_set("a", 0)), _config()) == []
    bare: Obj = {"template": {}}
    (only,) = asked_pod_sets(_workload(counts={}) | _bare(bare), _config())
    assert (only.name, only.count) == ("main", 1)
    for ask in (is_needed, asked_pod_sets):
        with pytest.raises(InconsistentPodSets):
            ask(_workload(pod_set, counts={"b": 1}), _config())
        # One that needs nothing is not asked for.
        ask(_workload(_pod_set("z", 0), counts={}), _config())


def _bare(pod_set: Obj) -> Obj:
    return {"spec": {"podSets": [pod_set]}, "status": {"admission": {"podSetAssignments": [{"count": None}]}}}


_SPECS: dict[str, Obj] = {
    "as it is": {},
    "another image": {"image": "b"},
    "more asked": {"requests": {"cpu": "2"}},
    "limits alone": {"limits": {"cpu": "2"}},
    "a selector": {"nodeSelector": {"a": "b"}},
    "an empty selector": {"nodeSelector": {}},
    "a toleration": {"tolerations": [{"key": "k"}]},
    "an affinity": {"affinity": {"podAffinity": {}}},
    "a claim": {"resourceClaims": [{"name": "c"}]},
    "of the pod": {"resources": {"requests": {"cpu": "4"}}},
    "another container": {"more": 1},
    "an init container": {"init": 1},
}
# Whether the pods ask for what a plain one asks for.
_SAME_NEEDS = {"as it is", "another image", "limits alone", "an empty selector"}


def _like(name: str, variant: str) -> Obj:
    said = dict(_SPECS[variant])
    container = {
        "name": "c",
        "image": said.pop("image", "a"),
        "resources": {"requests": said.pop("requests", {"cpu": "1"}), "limits": said.pop("limits", {})},
    }
    containers = [container] * (1 + said.pop("more", 0))
    spec: Obj = {"containers": containers}
    if said.pop("init", 0):
        spec["initContainers"] = [container]
    return _pod_set(name, 2, **spec, **said)


@pytest.mark.parametrize("variant", _SPECS)
def test_alike_pod_sets_are_asked_for_together(variant: str) -> None:
    workload = _workload(_like("a", "as it is"), _like("b", variant), _like("c", "as it is"))

    def asked(policy: str) -> list[tuple[str, int]]:
        return [(a.name, a.count) for a in asked_pod_sets(workload, _config(podSetMergePolicy=policy))]

    apart = [("a", 4), ("b", 2)]
    assert asked("IdenticalPodTemplates") == ([("a", 6)] if variant == "as it is" else apart)
    assert asked("IdenticalWorkloadSchedulingRequirements") == (
        [("a", 6)] if variant in _SAME_NEEDS else apart
    )
    assert asked("") == [("a", 2), ("b", 2), ("c", 2)]


def test_the_request() -> None:
    annotations = {"provreq.kueue.x-k8s.io/a": "mine", "provreq.kueue.x-k8s.io/b": "2", "other": "x"}
    workload = _workload(_pod_set("main", 3), annotations=annotations)
    wanted = _config(parameters={"a": "1", "c": "3"})
    made = request_object(workload, wanted, "r", asked_pod_sets(workload, wanted))
    assert made["spec"] == {
        "provisioningClassName": "class",
        "parameters": {"a": "mine", "b": "2", "c": "3"},
        "podSets": [{"podTemplateRef": {"name": "ppt-r-main"}, "count": 3}],
    }
    assert made["metadata"]["labels"] == {"kueue.x-k8s.io/managed": "true"}
    assert [o["uid"] for o in made["metadata"]["ownerReferences"]] == ["u"]
    assert not is_of_config(made, wanted), "its own word for `a` is not the config's"
    assert is_of_config(made, _config(parameters={"c": "3"}))
    assert is_of_config(made, _config())
    assert not is_of_config(made, _config(provisioningClassName="other"))
    assert not is_of_config(made, _config(parameters={"c": "3", "d": "4"}))
    plain = request_object(_workload(), _config(), "r", [])
    assert "parameters" not in plain["spec"]
    assert is_of_config(plain, _config())


def test_alike_are_those_that_say_the_same() -> None:
    for variant in _SPECS:
        workload = _workload(_like("a", variant), _like("b", variant))
        for policy in ("IdenticalPodTemplates", "IdenticalWorkloadSchedulingRequirements"):
            (asked,) = asked_pod_sets(workload, _config(podSetMergePolicy=policy))
            assert (asked.name, asked.count) == ("a", 4)


def test_the_template() -> None:
    """Limits stand in for requests that are missing; of the pod's own resources, too."""
    asks = {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "gpu": "1"}}
    containers = [
        {"name": "a", "resources": {**asks, "claims": []}},
        {"name": "b"},
        {"name": "c", "resources": {}},
    ]
    whole = {"requests": {"cpu": "1", "gpu": "1"}, "limits": {"cpu": "2", "gpu": "1"}}

    def made(spec: Obj, **template: Any) -> Obj:
        workload = _workload({"name": "main", "count": 2, "template": {"spec": spec, **template}})
        (asked,) = asked_pod_sets(workload, _config())
        return template_object(Store(), workload, "t", asked, DEFAULT_GATES)

    found = made({"containers": containers, "hostNetwork": True}, metadata={"labels": {"x": "y"}})
    assert found["template"] == {
        "metadata": {"labels": {"x": "y"}},
        "spec": {
            "containers": [{"name": "a", "resources": {**whole, "claims": []}}, {"name": "b"}, containers[2]],
            "hostNetwork": True,
        },
    }
    meta = found["metadata"]
    assert (meta["name"], meta["namespace"], meta["labels"]) == (
        "t",
        "default",
        {"kueue.x-k8s.io/managed": "true"},
    )
    assert [o["uid"] for o in meta["ownerReferences"]] == ["u"]
    first = [{"name": "i", "resources": asks}]
    assert made({"initContainers": first, "resources": asks})["template"]["spec"] == {
        "initContainers": [{"name": "i", "resources": whole}],
        "resources": whole,
    }
    assert made({"resources": {}})["template"]["spec"] == {"resources": {}}
    assert made({})["template"]["spec"] == {}
    workload = _workload(_bare_set())
    (bare,) = asked_pod_sets(workload, _config())
    assert template_object(Store(), workload, "t", bare, DEFAULT_GATES)["template"] == {"spec": {}}


def _bare_set() -> Obj:
    return {"name": "main", "count": 1}


_FINE = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": "c"}


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (_FINE, ""),
        (None, "missing parameters reference"),
        ({**_FINE, "name": ""}, "empty name: bad parameters reference"),
        (
            {**_FINE, "apiGroup": "x"},
            'wrong group "x", expecting "kueue.x-k8s.io": bad parameters reference',
        ),
        (
            {"name": "c", "kind": "ProvisioningRequestConfig"},
            'wrong group "", expecting "kueue.x-k8s.io": bad parameters reference',
        ),
        (
            {**_FINE, "kind": "x"},
            'wrong kind "x", expecting "ProvisioningRequestConfig": bad parameters reference',
        ),
        (
            {"name": "c", "apiGroup": "kueue.x-k8s.io"},
            'wrong kind "", expecting "ProvisioningRequestConfig": bad parameters reference',
        ),
        ({**_FINE, "name": "z"}, 'provisioningrequestconfigs.kueue.x-k8s.io "z" not found'),
    ],
)
def test_a_check_is_active_where_its_config_is_there(parameters: Obj | None, message: str) -> None:
    store = Store()
    group = {"apiVersion": "kueue.x-k8s.io/v1beta2"}
    store.create(
        {
            **group,
            "kind": "ProvisioningRequestConfig",
            "metadata": {"name": "c"},
            "spec": {"parameters": {"a": "1"}},
        }
    )
    spec: Obj = {"controllerName": "kueue.x-k8s.io/provisioning-request"}
    if parameters is not None:
        spec["parameters"] = parameters
    check = store.create({**group, "kind": "AdmissionCheck", "metadata": {"name": "k"}, "spec": spec})
    assert is_ours(check)
    assert (config_of(store, "k") is not None) == (not message)
    (told,) = reconcile_check(store, check, 5_000_000)
    (condition,) = told.status["conditions"]  # type: ignore[union-attr]
    assert {k: condition[k] for k in ("type", "status", "reason", "message", "observedGeneration")} == {
        "type": "Active",
        "status": "False" if message else "True",
        "reason": "BadParametersRef" if message else "Active",
        "message": message or "The admission check is active",
        "observedGeneration": 1,
    }
    said = store.set_status(Key("AdmissionCheck.kueue.x-k8s.io", "", "k"), told.status)  # type: ignore[union-attr]
    assert reconcile_check(store, said, 6_000_000) == ()
    # Of the rest of the status nothing goes; a check of no generation observes none.
    mine = {"type": "Mine", "status": "True"}
    young = {**check, "metadata": {"name": "k"}, "status": {"x": 1, "conditions": [mine]}}
    (more,) = reconcile_check(store, young, 5_000_000)
    first, second = more.status["conditions"]  # type: ignore[union-attr]
    assert first == mine and second == {k: v for k, v in condition.items() if k != "observedGeneration"}
    assert more.status["x"] == 1  # type: ignore[union-attr]
    other = {**check, "spec": {**spec, "controllerName": "x"}}
    assert not is_ours(other)
    assert reconcile_check(store, other, 5_000_000) == ()
    assert not is_ours(None)
    assert config_of(store, "nobody") is None
