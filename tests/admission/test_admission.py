"""Admission: quotas, limit ranges, priorities and dying namespaces, in the API server's words."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.admission.door import Door
from fairway.admission.intree import Options
from fairway.admission.limitranger import LIMIT_RANGE_ANNOTATION
from fairway.admission.quota import quota_violation
from fairway.admission.request import Admitted, Denied
from fairway.cluster.actions import perform
from fairway.cluster.store import Store
from fairway.kube.defaults import apply_defaults
from fairway.kube.objects import Key, Obj

QUOTA = Key("ResourceQuota", "team-a", "gpu-quota")


def pod(name: str = "p", *, gpu: int | None = None, **resources: Any) -> Obj:
    if gpu is not None:
        resources = {
            "requests": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": gpu},
            "limits": {"cpu": "2", "memory": "2Gi", "nvidia.com/gpu": gpu},
        }
    container = {"name": "cuda", "image": "cuda", **({"resources": resources} if resources else {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "team-a"},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }


def quota(**hard: str) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "gpu-quota", "namespace": "team-a"},
        "spec": {"hard": {k.replace("__", "/").replace("_", "."): v for k, v in hard.items()}},
    }


def limit_range(*limits: dict[str, Any]) -> Obj:
    return apply_defaults(
        {
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": {"name": "limits", "namespace": "team-a"},
            "spec": {"limits": list(limits)},
        }
    )


def admit(store: Store, obj: Obj) -> Admitted | Denied:
    """Past the door that this store has."""
    door = next((f for f in store.followers if isinstance(f, Door)), None)
    if door is None:
        door = Door(store, options=Options(is_served=False))
        store.followers.append(door)
    return door.enter(obj)


def enter(store: Store, obj: Obj) -> Obj | Denied:
    """Admit and store, charges included: what an API server does."""
    verdict = admit(store, obj)
    if isinstance(verdict, Denied):
        return verdict
    for charge in verdict.charges:
        perform(store, charge)
    assert verdict.obj is not None
    return store.create(verdict.obj)


def recorded_team_a() -> Store:
    """The quota and limit range of the recorded kubectl session."""
    store = Store()
    store.create(quota(requests_nvidia_com__gpu="3", pods="10", requests_cpu="8"))
    store.set_status(QUOTA, {"used": {"requests.nvidia.com/gpu": "0", "pods": "0", "requests.cpu": "0"}})
    store.create(
        limit_range(
            {
                "type": "Container",
                "max": {"nvidia.com/gpu": "2", "cpu": "4"},
                "default": {"cpu": "1", "memory": "1Gi"},
                "defaultRequest": {"cpu": "500m", "memory": "512Mi"},
            }
        )
    )
    return store


def test_the_recorded_session() -> None:
    """Messages and numbers as kube-apiserver v1.36.3 gave them."""
    store = recorded_team_a()
    for name in ("one", "forgot-toleration"):
        assert not isinstance(enter(store, pod(name, gpu=1)), Denied)
    too_big = enter(store, pod("too-big", gpu=3))
    assert isinstance(too_big, Denied)
    assert too_big.message == (
        'pods "too-big" is forbidden: maximum nvidia.com/gpu usage per Container is 2, but limit is 3'
    )
    over = enter(store, pod("over-quota", gpu=2))
    assert isinstance(over, Denied)
    assert over.message == (
        'pods "over-quota" is forbidden: exceeded quota: gpu-quota, requested: requests.nvidia.com/gpu=2, '
        "used: requests.nvidia.com/gpu=2, limited: requests.nvidia.com/gpu=3"
    )
    assert (over.code, over.status["reason"]) == (403, "Forbidden")
    used = store.require(QUOTA)["status"]["used"]
    assert used == {"pods": "2", "requests.cpu": "2", "requests.nvidia.com/gpu": "2"}


def test_charging_keeps_two_from_spending_the_last() -> None:
    store = recorded_team_a()
    for name in ("a", "b", "c"):
        assert not isinstance(enter(store, pod(name, gpu=1)), Denied)
    assert isinstance(enter(store, pod("d", gpu=1)), Denied)


def test_a_quota_nobody_counted_yet_is_counted_on_the_spot() -> None:
    store = Store()
    store.create(quota(pods="1"))
    store.create(pod("a"))
    assert quota_violation(store, pod("b")) == (
        "exceeded quota: gpu-quota, requested: pods=1, used: pods=1, limited: pods=1"
    )


@pytest.mark.parametrize(
    ("case", "hard", "resources", "want"),
    [
        ("it fits", {"requests_cpu": "4"}, {"requests": {"cpu": "4"}}, None),
        (
            "cpu in milli-CPU",
            {"requests_cpu": "1"},
            {"requests": {"cpu": "1500m"}},
            "exceeded quota: gpu-quota, requested: requests.cpu=1500m, used: requests.cpu=0, limited: requests.cpu=1",
        ),
        (
            "several at once, by name",
            {"requests_cpu": "1", "requests_memory": "1Gi", "pods": "5"},
            {"requests": {"cpu": "2", "memory": "2Gi"}},
            "exceeded quota: gpu-quota, requested: requests.cpu=2,requests.memory=2Gi, "
            "used: requests.cpu=0,requests.memory=0, limited: requests.cpu=1,requests.memory=1Gi",
        ),
        (
            "a bounded resource has to be said",
            {"requests_cpu": "4", "limits_memory": "4Gi"},
            {"requests": {"memory": "1Gi"}},
            "failed quota: gpu-quota: must specify limits.memory for: cuda; requests.cpu for: cuda",
        ),
        (
            "devices are never said to be missing",
            {"requests_memory": "1Gi"},
            {"requests": {"memory": "1Gi"}},
            None,
        ),
        ("a limit speaks for the request", {"requests_cpu": "4"}, {"limits": {"cpu": "1"}}, None),
        ("devices need not be said", {"requests_nvidia_com__gpu": "4"}, {}, None),
        (
            "counted kinds",
            {"count__pods": "0"},
            {},
            "exceeded quota: gpu-quota, requested: count/pods=1, used: count/pods=0, limited: count/pods=0",
        ),
    ],
)
def test_quota(case: str, hard: dict[str, str], resources: dict[str, Any], want: str | None) -> None:
    store = Store()
    store.create(quota(**hard))
    assert quota_violation(store, pod(**resources)) == want, case


def test_quota_counts_other_kinds_too() -> None:
    store = Store()
    store.create(quota(count__jobs_batch="0"))
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "team-a"},
        "spec": {},
    }
    assert quota_violation(store, job) == (
        "exceeded quota: gpu-quota, requested: count/jobs.batch=1, used: count/jobs.batch=0, "
        "limited: count/jobs.batch=0"
    )


@pytest.mark.parametrize(
    ("case", "rule", "resources", "want"),
    [
        (
            "above the maximum",
            {"type": "Container", "max": {"cpu": "1"}},
            {"limits": {"cpu": "2"}},
            "maximum cpu usage per Container is 1, but limit is 2",
        ),
        (
            "below the minimum",
            {"type": "Container", "min": {"memory": "1Gi"}, "defaultRequest": {"memory": "1Gi"}},
            {"requests": {"memory": "512Mi"}},
            "minimum memory usage per Container is 1Gi, but request is 512Mi",
        ),
        (
            "a maximum for the whole pod needs a limit",
            {"type": "Pod", "max": {"cpu": "1"}},
            {},
            "maximum cpu usage per Pod is 1.  No limit is specified",
        ),
        (
            "too far between request and limit",
            {"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}},
            {"requests": {"cpu": "1"}, "limits": {"cpu": "3"}},
            "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000",
        ),
        (
            "several wrongs in one sentence",
            {"type": "Container", "max": {"cpu": "1", "memory": "1Gi"}},
            {"limits": {"cpu": "2", "memory": "2Gi"}},
            "[maximum cpu usage per Container is 1, but limit is 2, "
            "maximum memory usage per Container is 1Gi, but limit is 2Gi]",
        ),
        ("within bounds", {"type": "Container", "max": {"cpu": "2"}}, {"limits": {"cpu": "2"}}, None),
    ],
)
def test_limit_ranges(case: str, rule: dict[str, Any], resources: dict[str, Any], want: str | None) -> None:
    store = Store()
    store.create(limit_range(rule))
    verdict = admit(store, pod(**resources))
    if want is None:
        assert isinstance(verdict, Admitted), case
    else:
        assert isinstance(verdict, Denied), case
        assert verdict.message == f'pods "p" is forbidden: {want}'


def test_limit_range_defaults_are_filled_in_and_noted() -> None:
    store = recorded_team_a()
    verdict = admit(store, pod())
    assert isinstance(verdict, Admitted)
    (container,) = verdict.obj["spec"]["containers"]
    assert container["resources"] == {
        "requests": {"cpu": "500m", "memory": "512Mi", "nvidia.com/gpu": "2"},
        "limits": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "2"},
    }
    note = verdict.obj["metadata"]["annotations"][LIMIT_RANGE_ANNOTATION]
    assert note == (
        "LimitRanger plugin set: cpu, memory, nvidia.com/gpu request for container cuda; "
        "cpu, memory, nvidia.com/gpu limit for container cuda"
    )


def priority_class(name: str, value: int, **more: Any) -> Obj:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        **more,
    }


@pytest.mark.parametrize(
    ("case", "name", "want"),
    [
        ("of its class", "high", (1000, "PreemptLowerPriority")),
        ("of a class that never preempts", "polite", (500, "Never")),
        ("of the default class", None, (7, "PreemptLowerPriority")),
        ("of a system class", "system-node-critical", (2000001000, "PreemptLowerPriority")),
    ],
)
def test_priority(case: str, name: str | None, want: tuple[int, str]) -> None:
    store = Store()
    store.create(priority_class("high", 1000))
    store.create(priority_class("polite", 500, preemptionPolicy="Never"))
    store.create(priority_class("usual", 7, globalDefault=True))
    asked = pod()
    if name:
        asked["spec"]["priorityClassName"] = name
    verdict = admit(store, asked)
    assert isinstance(verdict, Admitted), case
    spec = verdict.obj["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == want


def test_a_class_that_is_not_there() -> None:
    asked = pod()
    asked["spec"]["priorityClassName"] = "urgent"
    verdict = admit(Store(), asked)
    assert isinstance(verdict, Denied)
    assert verdict.message == 'pods "p" is forbidden: no PriorityClass with name urgent was found'


def test_pods_of_one_spec_go_on_sharing_one_until_a_policy_changes() -> None:
    store = Store()
    store.create(priority_class("usual", 7, globalDefault=True))
    shared = pod()["spec"]
    first, second = ({**pod(n), "spec": shared} for n in ("a", "b"))
    one, two = admit(store, first), admit(store, second)
    assert isinstance(one, Admitted)
    assert isinstance(two, Admitted)
    assert one.obj["spec"] is two.obj["spec"]
    key = Key("PriorityClass.scheduling.k8s.io", "", "usual")
    store.patch(key, {"value": 8})
    three = admit(store, first)
    assert isinstance(three, Admitted)
    assert three.obj["spec"]["priority"] == 8


def test_pods_tolerate_broken_nodes_for_five_minutes() -> None:
    verdict = admit(Store(), pod())
    assert isinstance(verdict, Admitted)
    seconds = {t["key"]: t["tolerationSeconds"] for t in verdict.obj["spec"]["tolerations"]}
    assert seconds == {"node.kubernetes.io/not-ready": 300, "node.kubernetes.io/unreachable": 300}


def test_nothing_enters_a_dying_namespace() -> None:
    store = Store()
    key = Key("Namespace", "", "team-a")
    meta = {"name": "team-a", "finalizers": ["kubernetes"]}
    store.create({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    assert isinstance(admit(store, pod()), Admitted)
    store.delete(key)
    verdict = admit(store, pod())
    assert isinstance(verdict, Denied)
    assert verdict.message == (
        'pods "p" is forbidden: unable to create new content in namespace team-a because it is being terminated'
    )
