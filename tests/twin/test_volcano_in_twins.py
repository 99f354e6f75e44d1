"""Volcano on the loop: gangs are bound whole, evicted for more important ones, told why they wait."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import SECOND_US
from fairway.twin.latency import NONE
from fairway.twin.standard import standard_components
from fairway.twin.twin import Twin
from fairway.twin.volcano.scheduler import VolcanoScheduler

GROUP = "PodGroup.scheduling.volcano.sh"
ACTIONS = "enqueue, allocate, preempt, reclaim, backfill"
CONFIG = Key("ConfigMap", "volcano-system", "volcano-scheduler-configmap")


def node(name: str, cpu: str = "4") -> Obj:
    offers = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
    meta = {"name": name, "labels": {"kubernetes.io/hostname": name}}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": meta,
        "status": {"allocatable": offers, "capacity": offers},
    }


def gang(
    name: str, pods: int, cpu: str, priority: str = "", least: int = 0, queue: str = "default"
) -> list[Obj]:
    spec: Obj = {"minMember": least or pods, "queue": queue}
    if priority:
        spec["priorityClassName"] = priority
    made: list[Obj] = [
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": name, "namespace": "default"},
            "spec": spec,
        }
    ]
    for number in range(pods):
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
        body: Obj = {
            "schedulerName": "volcano",
            "containers": [container],
            "terminationGracePeriodSeconds": 0,
        }
        if priority:
            body |= {"priorityClassName": priority, "priority": {"low": 1, "high": 100}[priority]}
        meta = {
            "name": f"{name}-{number}",
            "namespace": "default",
            "annotations": {"scheduling.k8s.io/group-name": name},
        }
        made.append({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": body})
    return made


def priority_class(name: str, value: int) -> Obj:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


def configuration(text: str) -> Obj:
    meta = {"name": CONFIG.name, "namespace": CONFIG.namespace}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": meta,
        "data": {"volcano-scheduler.conf": text},
    }


def cluster(*objects: Obj) -> Twin:
    made = Twin(seed=1, latency=NONE, components=standard_components())
    made.apply([node("n1"), node("n2"), priority_class("low", 1), priority_class("high", 100), *objects])
    made.run_for(5 * SECOND_US)
    return made


def placed(twin: Twin, gang_name: str) -> list[str]:
    pods = twin.store.objects("Pod")
    mine = [p for p in pods if p["metadata"]["annotations"].get("scheduling.k8s.io/group-name") == gang_name]
    return sorted(p["spec"].get("nodeName", "") for p in mine)


def said(twin: Twin, about: Key) -> list[tuple[str, str]]:
    return [(t.reason, t.message) for t in twin.host.events.about(about)]


def volcano(twin: Twin) -> VolcanoScheduler:
    found = twin.component("volcano")
    assert isinstance(found, VolcanoScheduler)
    return found


def test_a_gang_is_bound_whole_or_not_at_all() -> None:
    twin = cluster(*gang("fits", 4, "2"), *gang("waits", 2, "2"))
    assert placed(twin, "fits") == ["n1", "n1", "n2", "n2"]
    assert placed(twin, "waits") == ["", ""]
    group = twin.store.require(Key(GROUP, "default", "waits"))
    assert group["status"]["phase"] in ("Pending", "Inqueue")
    pod = twin.store.require(Key("Pod", "default", "waits-0"))
    told = [c for c in pod["status"]["conditions"] if c["type"] == "PodScheduled"]
    assert [(c["status"], c["reason"]) for c in told] in (
        [("False", "Unschedulable")],
        [("False", "Undetermined")],
    )


def test_the_queues_that_are_always_there() -> None:
    twin = cluster(*gang("g", 1, "1"))
    queues = {q["metadata"]["name"]: q["spec"] for q in twin.store.objects("Queue.scheduling.volcano.sh")}
    assert queues == {
        "root": {"weight": 1, "reclaimable": False},
        "default": {"weight": 1, "reclaimable": True, "parent": "root"},
    }
    twin = cluster()
    assert twin.store.objects("Queue.scheduling.volcano.sh") == []


def test_more_important_gangs_evict_where_preemption_is_on() -> None:
    settings = configuration(
        f'actions: "{ACTIONS}"\ntiers:\n- plugins:\n  - name: priority\n  - name: gang\n  - name: conformance\n'
    )
    twin = cluster(settings, *gang("low", 4, "2", "low", least=1))
    assert placed(twin, "low") == ["n1", "n1", "n2", "n2"]
    before = {p["metadata"]["name"] for p in twin.store.objects("Pod")}
    twin.apply(gang("high", 2, "2", "high"))
    twin.run_for(20 * SECOND_US)
    assert "" not in placed(twin, "high")
    gone = before - {p["metadata"]["name"] for p in twin.store.objects("Pod")}
    assert len(gone) == 2
    for name in gone:
        reasons = [reason for reason, _ in said(twin, Key("Pod", "default", name))]
        assert "Evict" in reasons
    assert [r for r, _ in said(twin, Key(GROUP, "default", "low"))].count("Evict") >= 1


def test_without_preemption_nobody_is_evicted() -> None:
    twin = cluster(*gang("low", 4, "2", "low", least=1))
    twin.apply(gang("high", 2, "2", "high"))
    twin.run_for(20 * SECOND_US)
    assert placed(twin, "high") == ["", ""]
    assert len(placed(twin, "low")) == 4


def test_a_configuration_that_will_not_do_leaves_the_old_one() -> None:
    twin = cluster(*gang("g", 1, "1"))
    first = volcano(twin).configuration
    twin.apply([configuration('actions: "enqueue, dance"\ntiers: []\n')])
    twin.run_for(SECOND_US)
    assert volcano(twin).configuration == first
    assert [r for r, _ in said(twin, CONFIG)] == ["InvalidConfiguration"]


@pytest.mark.parametrize("how", ["changed", "deleted"])
def test_a_configuration_counts_from_then_on(how: str) -> None:
    given: Any = configuration(
        f'actions: "{ACTIONS}"\ntiers:\n- plugins:\n  - name: priority\n  - name: gang\n'
    )
    twin = cluster(given, *gang("g", 1, "1"))
    first = volcano(twin).configuration
    if how == "deleted":
        twin.store.delete(CONFIG)
    else:
        text = 'actions: "enqueue, allocate"\ntiers:\n- plugins:\n  - name: gang\n'
        twin.store.patch(CONFIG, {"data": {"volcano-scheduler.conf": text}})
    twin.wake()
    twin.run_for(SECOND_US)
    assert volcano(twin).configuration != first
