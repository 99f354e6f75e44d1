"""Several checks, pod sets, requests and templates of one Workload that asks for capacity: what is done about each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from stepwords import NOW_US, said, was
from test_capacity_steps import AGAIN, CONFIG_REF, EXPIRED, FAILED, HELD, PROVISIONED, request, workload

from fairway.cluster.store import Store
from fairway.kube.objects import Obj, owner_reference
from fairway.queueing.admissionchecks.provisioning import reconcile_provisioning
from fairway.queueing.facts.gates import DEFAULT_GATES

_GROUP = {"apiVersion": "kueue.x-k8s.io/v1beta2"}
_WAITS = {"state": "Pending"}


def _look(of: Obj, *there: Obj, checks: dict[str, Obj | None], theirs: Sequence[str] = ()) -> list[str]:
    """`checks`: of ours, with the spec of its config, None: it has none; `theirs`: another controller's."""
    store = Store(now_us=NOW_US)
    for name in (*checks, *theirs):
        ref = {**CONFIG_REF, "name": name}
        controller = "x" if name in theirs else "kueue.x-k8s.io/provisioning-request"
        spec = {"controllerName": controller, "parameters": ref}
        store.load({**_GROUP, "kind": "AdmissionCheck", "metadata": {"name": name}, "spec": spec})
    for name, config in checks.items():
        if config is not None:
            spec = {"provisioningClassName": "class", **config}
            store.load(
                {**_GROUP, "kind": "ProvisioningRequestConfig", "metadata": {"name": name}, "spec": spec}
            )
    objects = [store.load(obj) for obj in (of, *there)]
    return said(objects, reconcile_provisioning(store, objects[0], DEFAULT_GATES))


def _of(
    *checks: Obj, conditions: Sequence[Obj] = HELD, pod_sets: Sequence[str] = ("main",), **more: Any
) -> Obj:
    made = workload(*conditions, **more)
    gpu, tpu = ({"containers": [{"name": "c", "resources": {"requests": {r: "1"}}}]} for r in ("gpu", "tpu"))
    sets = [
        {"name": n, "count": 1, "template": {"spec": tpu if n.startswith("t") else gpu}} for n in pod_sets
    ]
    made["spec"] |= {"podSets": sets}
    made["status"]["admission"]["podSetAssignments"] = [
        {"name": n, "count": 1, "flavors": {}} for n in pod_sets
    ]
    made["status"]["admissionChecks"] = list(checks)
    return made


def _check(name: str, **more: Any) -> Obj:
    return {"name": name, **_WAITS, "message": "", **more}


def _request(name: str, *conditions: Obj, **more: Any) -> Obj:
    made = request(*conditions, **more)
    return {**made, "metadata": {**made["metadata"], "name": name, "uid": name}}


def _created(check: str, attempt: int = 1, *pod_sets: str) -> list[str]:
    name = f"w-{check}-{attempt}"
    return [
        *(f"new PodTemplate ppt-{name}-{pod_set}" for pod_set in pod_sets or ("main",)),
        f"new ProvisioningRequest {name}",
        f'Normal ProvisioningRequestCreated: Created ProvisioningRequest: "{name}"',
    ]


def test_each_check_is_asked_for_by_name() -> None:
    """Those without a config, of another, not needed or ready are passed over."""
    of = _of(*(_check(name) for name in ("z", "other", "b", "a")))
    found = _look(of, checks={"z": {}, "b": {}, "a": {}}, theirs=["other"])
    assert found == [*_created("a"), *_created("b"), *_created("z")]
    ready = _of(_check("a", state="Ready"), *(_check(name) for name in ("b", "c", "d")))
    said_there = [_request("w-a-1", PROVISIONED)]
    found = _look(
        ready, *said_there, checks={"a": {}, "b": None, "c": {"managedResources": ["tpu"]}, "d": {}}
    )
    assert found == _created("d")


def test_the_latest_request_of_each_check_counts() -> None:
    of = _of(*(_check(name) for name in ("a", "b", "c")))
    there = [_request(f"w-{check}-{n}", PROVISIONED) for check, n in (("c", 10), ("c", 9), ("b", 1))]
    found = _look(of, *there, checks={"a": None, "b": {}, "c": {}})
    assert found[-1] == "delete w-c-9 w-c-9"
    assert [line.rpartition("check ")[2].partition(" from")[0] for line in found[1:-1]] == [
        "b updated state",
        "c updated state",
    ]
    assert "'autoscaling.x-k8s.io/consume-provisioning-request': 'w-c-10'" in found[0]
    assert "the check is not active" in found[0]


def test_requests_go_by_name() -> None:
    over = _of(_check("a"), conditions=(*HELD, was("Finished")))
    there = [_request(name) for name in ("w-b-1", "w-a-2", "w-a-1")]
    assert _look(over, *there, checks={"a": {}}) == [f"delete {n} {n}" for n in ("w-a-1", "w-a-2", "w-b-1")]


def test_what_was_assigned_has_to_be_what_was_asked() -> None:
    of = _of(_check("a"), pod_sets=("main", "rest"))
    of["status"]["admission"]["podSetAssignments"].pop()
    assert _look(of, checks={"a": {"managedResources": ["tpu"]}})[0].startswith("w: admissionChecks: ")
    of = _of(_check("a"), pod_sets=("main", "train"))
    of["status"]["admission"]["podSetAssignments"].pop()
    assert _look(of, checks={"a": {"managedResources": ["tpu"]}}) == []
    nowhere = _of(_check("a"))
    nowhere["status"]["admission"]["podSetAssignments"][0]["flavors"] = {"gpu": "gone"}
    assert _look(nowhere, checks={"a": {}}) == []


def _template(name: str, *owners: Obj) -> Obj:
    meta = {"name": name, "namespace": "default", "uid": name, "ownerReferences": list(owners)}
    return {"apiVersion": "v1", "kind": "PodTemplate", "metadata": meta, "template": {}}


def test_templates_that_are_there_are_not_made_again() -> None:
    of = _of(_check("a"), pod_sets=("main", "rest", "last"))
    there = [_template(f"ppt-w-a-1-{name}") for name in ("main", "last")]
    assert _look(of, *there, checks={"a": {}}) == _created("a", 1, "rest")


def test_a_template_that_cannot_be() -> None:
    """Where what was assigned does not go with what the pods say, nothing is asked for."""
    store_flavor = {
        **_GROUP,
        "kind": "ResourceFlavor",
        "metadata": {"name": "f"},
        "spec": {"nodeLabels": {"pool": "a"}},
    }
    of = _of(_check("a"), pod_sets=("main", "rest"))
    of["status"]["admission"]["podSetAssignments"][1]["flavors"] = {"gpu": "f"}
    of["spec"]["podSets"][1]["template"]["spec"] = {"nodeSelector": {"pool": "b"}}
    (told,) = _look(of, store_flavor, checks={"a": {}})
    assert told.startswith('Warning FailedCreate: Error creating PodTemplate "ppt-w-a-1-rest": ')
    of["spec"]["podSets"][1]["template"]["spec"] = {"nodeSelector": {"pool": "a"}}
    assert _look(of, store_flavor, checks={"a": {}}) == _created("a", 1, "main", "rest")


def test_templates_come_to_belong_to_their_request() -> None:
    """Not to the Workload any more; owners beside it stay."""
    of = _of(_check("a"), pod_sets=("main", "rest"))
    asked = _request(
        "w-a-1", spec={"podSets": [{"podTemplateRef": {"name": n}} for n in ("gone", "t1", "t2", "t3")]}
    )
    mine, its = owner_reference(of), owner_reference(asked)
    also = {**mine, "uid": "else", "name": "else"}
    there = [_template("t1", mine, also), _template("t2", also, its), _template("t3")]
    assert _look(of, asked, *there, checks={"a": {}}) == [
        f"t1: patch {{'metadata': {{'ownerReferences': [{also}, {its}]}}}}",
        f"t3: patch {{'metadata': {{'ownerReferences': [{its}]}}}}",
    ]
    none = {**asked, "spec": {k: v for k, v in asked["spec"].items() if k != "podSets"}}
    assert _look(of, none, *there, checks={"a": {}}) == []


@pytest.mark.parametrize(
    ("lost", "tried", "admitted", "next_attempt"),
    [
        (FAILED, 1, False, 2),
        (FAILED, 2, False, 3),
        (EXPIRED, 1, False, 2),
        (EXPIRED, 1, True, 0),
        (FAILED, 1, True, 2),
        (PROVISIONED, 1, False, 0),
    ],
)
def test_a_request_that_is_lost_is_followed_by_another(
    lost: Obj, tried: int, admitted: bool, next_attempt: int
) -> None:
    conditions = (*HELD, was("Admitted")) if admitted else HELD
    of = _of(_check("a", retryCount=tried, message="x"), conditions=conditions)
    more = {"retryStrategy": {**AGAIN["retryStrategy"], "backoffLimitCount": 5}}
    found = _look(of, _request(f"w-a-{tried}", lost), checks={"a": more})
    made = [line for line in found if line.startswith("new ProvisioningRequest")]
    assert made == ([f"new ProvisioningRequest w-a-{next_attempt}"] if next_attempt else [])


def test_of_pod_sets_without_a_name() -> None:
    of = _of(_check("a"))
    del of["spec"]["podSets"][0]["name"], of["status"]["admission"]["podSetAssignments"][0]["name"]
    assert _look(of, checks={"a": {}}) == _created("a")
    asked = _request("w-a-1", PROVISIONED, spec={"podSets": [{"podTemplateRef": {"name": "ppt-w-a-1-main"}}]})
    (written, *_) = _look(of, asked, checks={"a": {}})
    assert "'podSetUpdates': [{'name': 'main', " in written
