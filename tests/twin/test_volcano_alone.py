"""Volcano's scheduler without anybody else: every line it says, every status it writes, every look it takes."""

from __future__ import annotations

import numpy as np
import pytest
from tests.twin.test_volcano_in_twins import ACTIONS, CONFIG, configuration, gang, node, priority_class

from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj, spec_of, status_of
from fairway.kube.timestamps import SECOND_US
from fairway.twin.latency import NONE
from fairway.twin.owners import DefaultSelectors
from fairway.twin.twin import Twin
from fairway.twin.volcano.feasibility import KubeFeasibility
from fairway.twin.volcano.scheduler import VolcanoScheduler

GROUP, QUEUE, EPOCH_S = "PodGroup.scheduling.volcano.sh", "Queue.scheduling.volcano.sh", 1767571200
PREEMPTS = (
    f'actions: "{ACTIONS}"\ntiers:\n- plugins:\n  - name: priority\n  - name: gang\n  - name: conformance\n'
)


def alone(*objects: Obj) -> Twin:
    made = Twin(seed=1, latency=NONE, components=[VolcanoScheduler()], keep_records=1000)
    made.apply(objects)
    return made


def lines(twin: Twin) -> list[str]:
    return [
        f"{r.time_us // SECOND_US - EPOCH_S} {r.kind.partition('.')[0]} {r.name} {r.reason}: {r.message}"
        for r in twin.host.log.records()
    ]


def looks(twin: Twin, seconds: int) -> list[tuple[int, int]]:
    """Events by the second in which there are any."""
    return [(at, handled) for at in range(seconds) if (handled := twin.run_for(SECOND_US))]


def of_pod(twin: Twin, name: str) -> Obj:
    return twin.store.require(Key("Pod", "default", name))


FITS, WAITS = gang("fits", 4, "2"), gang("waits", 2, "2")
NO_PLACE = "pod group is not ready, 2 Pending, 2 minAvailable; Pending: 2 Unschedulable"


def test_one_gang_fits_and_one_waits() -> None:
    twin = alone(node("n1"), node("n2"), *FITS, *WAITS)
    assert looks(twin, 10) == [(0, 4), (1, 2), (2, 1)]
    assert lines(twin) == [
        *(
            f"1 Pod fits-{i} Scheduled: Successfully assigned default/fits-{i} to n{1 + i // 2}"
            for i in range(4)
        ),
        "1 PodGroup fits Unschedulable: 0/4 tasks in gang unschedulable: pod group is ready, 4 Binding, 4 minAvailable",
        f"1 PodGroup waits Unschedulable: 2/2 tasks in gang unschedulable: {NO_PLACE}",
        f"1 Pod waits-0 FailedScheduling: {NO_PLACE}",
        f"1 Pod waits-1 FailedScheduling: {NO_PLACE}",
        "2 PodGroup fits Scheduled: pod group is ready",
    ]
    events = [(e.about.name, e.uid, e.type, e.reason, e.component) for e in twin.host.events.told()]
    group = twin.store.require(Key(GROUP, "default", "waits"))
    assert events == [
        *(
            (f"fits-{i}", of_pod(twin, f"fits-{i}")["metadata"]["uid"], "Normal", "Scheduled", "volcano")
            for i in range(4)
        ),
        (
            "fits",
            twin.store.require(Key(GROUP, "default", "fits"))["metadata"]["uid"],
            "Warning",
            "Unschedulable",
            "volcano",
        ),
        ("waits", group["metadata"]["uid"], "Warning", "Unschedulable", "volcano"),
        *(
            (
                f"waits-{i}",
                of_pod(twin, f"waits-{i}")["metadata"]["uid"],
                "Warning",
                "FailedScheduling",
                "volcano",
            )
            for i in range(2)
        ),
        (
            "fits",
            twin.store.require(Key(GROUP, "default", "fits"))["metadata"]["uid"],
            "Normal",
            "Scheduled",
            "volcano",
        ),
    ]
    bound, waiting = status_of(of_pod(twin, "fits-0")), status_of(of_pod(twin, "waits-0"))
    then = "2026-01-05T00:00:01Z"
    assert bound["conditions"] == [
        {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": then}
    ]
    assert waiting["conditions"] == [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": NO_PLACE,
            "lastTransitionTime": then,
        }
    ]
    assert "annotations" not in spec_of(of_pod(twin, "fits-0"))
    assert group["status"] == {
        "phase": "Inqueue",
        "conditions": [
            {
                "type": "Unschedulable",
                "status": "True",
                "transitionID": "00000000-0000-0000-0000-000000000001",
                "lastTransitionTime": then,
                "reason": "NotEnoughResources",
                "message": f"2/2 tasks in gang unschedulable: {NO_PLACE}",
            }
        ],
    }


def test_what_queues_hold_is_written_beside_what_they_say() -> None:
    twin = alone(node("n1"), *gang("g", 1, "2"))
    twin.run_for(SECOND_US // 2)
    key = Key(QUEUE, "", "default")
    twin.store.set_status(key, {"state": "Open", "allocated": {"cpu": "77"}})
    twin.run_for(5 * SECOND_US)
    assert twin.store.require(key)["status"] == {
        "state": "Open",
        "allocated": {"cpu": "2", "memory": "0", "pods": "1"},
    }


POSSIBLY = "Pod default/high-0 can possibly be assigned to n1, once resource is released and minAvailable is satisfied"


def condition(kind: str, status: str, reason: str, message: str, since: str) -> Obj:
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since}


def test_whom_it_evicts_and_what_it_says() -> None:
    low, high = gang("low", 2, "2", "low", least=1), gang("high", 1, "2", "high")
    for one in low[1:]:
        one["spec"]["terminationGracePeriodSeconds"] = 30
    twin = alone(
        priority_class("low", 1), priority_class("high", 100), configuration(PREEMPTS), node("n1"), *low
    )
    twin.run_for(5 * SECOND_US)
    before = len(lines(twin))
    twin.apply(high)
    twin.run_for(10 * SECOND_US)
    victim = next(p for p in twin.store.objects("Pod") if "deletionTimestamp" in p["metadata"])
    name = victim["metadata"]["name"]
    assert lines(twin)[before:] == [
        "6 PodGroup low Evict: preempt",
        f"6 Pod {name} Evict: Pod is evicted, because of preempt",
        "6 PodGroup high Unschedulable: 0/1 tasks in gang unschedulable: pod group is not ready, 1 Pipelined, "
        "1 minAvailable. Origin reason is high-0: 0/1 nodes are unavailable: 1 Insufficient cpu.",
        f"6 Pod high-0 FailedScheduling: {POSSIBLY}",
        "7 PodGroup high Unschedulable: 0/1 tasks in gang unschedulable: pod group is not ready, 1 Pipelined, "
        "1 minAvailable",
    ]
    assert [(e.type, e.about.name) for e in twin.host.events.told() if e.reason == "Evict"] == [
        ("Normal", "low"),
        ("Warning", name),
    ]
    then = "2026-01-05T00:00:06Z"
    why = "volcano: preempting to accommodate a higher priority pod"
    assert victim["status"]["conditions"][1:] == [
        condition("Ready", "False", "Evict", "Pod is evicted, because of preempt", then),
        condition("DisruptionTarget", "True", "PreemptionByScheduler", why, then),
    ]
    waiting = status_of(of_pod(twin, "high-0"))
    assert waiting["nominatedNodeName"] == "n1"
    assert waiting["conditions"] == [condition("PodScheduled", "False", "Unschedulable", POSSIBLY, then)]
    twin.store.delete(Key("Pod", "default", name), grace_s=0)
    twin.run_for(5 * SECOND_US)
    assert of_pod(twin, "high-0")["spec"]["nodeName"] == "n1"
    assert "nominatedNodeName" not in status_of(of_pod(twin, "high-0"))
    assert [c["status"] for c in status_of(of_pod(twin, "high-0"))["conditions"]] == ["True"]


@pytest.mark.parametrize(
    ("one", "wakes"),
    [
        (FITS[0], True),
        (FITS[1], True),
        ({**FITS[1], "spec": {**FITS[1]["spec"], "schedulerName": "default-scheduler"}}, False),
        (node("n1"), False),
        (priority_class("low", 1), False),
        (configuration(PREEMPTS), True),
        ({**configuration(PREEMPTS), "metadata": {"name": CONFIG.name, "namespace": "default"}}, False),
        ({**configuration(PREEMPTS), "metadata": {"name": "x", "namespace": CONFIG.namespace}}, False),
        ({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "q"}}, True),
    ],
)
def test_what_wakes_it(one: Obj, wakes: bool) -> None:
    twin = alone(one)
    handled = twin.run_for(10 * SECOND_US)
    names = sorted(q["metadata"]["name"] for q in twin.store.objects(QUEUE) if q["metadata"]["name"] != "q")
    assert names == (["default", "root"] if wakes else [])
    assert (handled > 1) is wakes


def test_it_wakes_once() -> None:
    twin = alone(*FITS)
    twin.run_for(5 * SECOND_US)
    twin.store.delete(Key(QUEUE, "", "default"))
    twin.apply(WAITS)
    twin.run_for(5 * SECOND_US)
    assert [q["metadata"]["name"] for q in twin.store.objects(QUEUE)] == ["root"]


NODE, POD = Key("Node", "", "n1"), Key("Pod", "default", "fits-0")
LET_GO = {"metadata": {"annotations": {"scheduling.k8s.io/group-name": None}}}


@pytest.mark.parametrize(
    ("key", "status", "patch", "looks_again"),
    [
        (NODE, {"allocatable": {"cpu": "1", "memory": "16Gi", "pods": "110"}}, None, True),
        (NODE, {"conditions": [{"type": "Ready", "status": "False"}]}, None, True),
        (NODE, {"conditions": [{"type": "DiskPressure", "status": "False"}]}, None, False),
        (NODE, {"capacity": {"cpu": "5"}}, None, False),
        (NODE, None, {"metadata": {"labels": {"x": "y"}}}, True),
        (NODE, None, {"metadata": {"annotations": {"x": "y"}}}, False),
        (NODE, None, {"spec": {"unschedulable": True}}, True),
        (POD, {"phase": "Running"}, None, True),
        (POD, {"conditions": []}, None, False),
        (POD, None, {"metadata": {"annotations": {"x": "y"}}}, False),
        (POD, None, LET_GO, True),
        (Key(GROUP, "default", "fits"), {"phase": "Unknown"}, None, True),
        (Key(GROUP, "default", "fits"), {"conditions": []}, None, False),
        (Key(GROUP, "default", "fits"), None, {"spec": {"minMember": 3}}, True),
        (Key(QUEUE, "", "default"), {"state": "Closed"}, None, True),
        (Key(QUEUE, "", "default"), {"allocated": {}}, None, False),
        (Key(QUEUE, "", "default"), None, {"spec": {"weight": 2}}, True),
        (Key("PriorityClass.scheduling.k8s.io", "", "low"), None, {"metadata": {"labels": {"x": "y"}}}, True),
        (CONFIG, None, {"metadata": {"labels": {"x": "y"}}}, True),
        (Key("ConfigMap", "volcano-system", "x"), None, {"data": {"volcano-scheduler.conf": "x"}}, False),
    ],
)
def test_which_changes_make_it_look_again(
    key: Key, status: Obj | None, patch: Obj | None, looks_again: bool
) -> None:
    other = configuration("")
    other["metadata"] = {"name": "x", "namespace": "volcano-system"}
    twin = alone(node("n1"), node("n2"), priority_class("low", 1), configuration(PREEMPTS), other, *FITS)
    twin.run_for(10 * SECOND_US)
    if status is not None:
        twin.store.set_status(key, {**status_of(twin.store.require(key)), **status})
    if patch is not None:
        twin.store.patch(key, patch)
    assert (twin.run_for(SECOND_US // 2), twin.run_for(SECOND_US) > 0) == (1, looks_again)


def test_the_same_is_not_said_twice() -> None:
    twin = alone(node("n1", "1"), *WAITS)
    twin.run_for(5 * SECOND_US)
    before = lines(twin)
    for i in range(3):
        twin.store.patch(NODE, {"metadata": {"labels": {"x": str(i)}}})
        twin.run_for(5 * SECOND_US)
    assert lines(twin) == before
    assert [e.times for e in twin.host.events.told()] == [1] * len(before)


@pytest.mark.parametrize("after_s", [0, 1, 3])
def test_a_copy_goes_on_as_its_original(after_s: int) -> None:
    twin = alone(*(node(f"n{i}") for i in range(9)), *WAITS, *gang("big", 40, "2"))
    twin.run_for(after_s * SECOND_US + SECOND_US // 2)
    copy = twin.fork()
    for one in (twin, copy):
        for i in range(3):
            one.store.patch(NODE, {"metadata": {"labels": {"x": str(i)}}})
            one.run_for(5 * SECOND_US)
            one.apply(gang(f"later-{i}", 3, "1"))
    assert lines(twin)[-1:] == lines(copy)[-1:]
    assert twin.digest() == copy.digest()


def test_among_equals_it_draws() -> None:
    plain = configuration('actions: "enqueue, allocate"\ntiers:\n- plugins:\n  - name: gang\n')
    pods = [one for i in range(12) for one in gang(f"g{i}", 1, "100m")]
    twin = alone(plain, *(node(f"n{i}") for i in range(6)), *pods)
    twin.run_for(5 * SECOND_US)
    drawn = "".join(of_pod(twin, f"g{i}-0")["spec"]["nodeName"] for i in range(12))
    assert drawn == "n0n0n3n3n5n2n0n4n1n5n1n3"


def test_words_of_more_than_1024_letters_are_cut() -> None:
    def said(length: int) -> str:
        twin = alone(configuration(f'actions: "{"x" * length}"\ntiers: []\n'))
        twin.run_for(SECOND_US)
        (told,) = twin.host.events.about(CONFIG)
        assert lines(twin)[-1].endswith(told.message)
        return told.message

    fixed = len(said(1)) - 2
    most = (1024 - fixed) // 2
    assert (len(said(most)), said(most)[-4:]) == (fixed + 2 * most, "laim")
    assert (len(said(most + 1)), said(most + 1)[-5:]) == (1024, "r ...")


# What kube-scheduler's filters say


def with_spec(name: str, spec: Obj | None = None, **labels: str) -> Obj:
    one = node(name)
    one["metadata"]["labels"] |= labels
    return one | ({"spec": spec} if spec else {})


def feasibility(pod: Obj, *nodes: Obj) -> tuple[Store, KubeFeasibility]:
    store = Store(seed=1)
    for one in (*nodes, pod):
        store.create(one)
    names = [one["metadata"]["name"] for one in nodes]
    return store, KubeFeasibility(store.accounts, names, store.get, DefaultSelectors(store).of)


def test_what_no_eviction_can_change() -> None:
    taint = {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}
    nodes = (
        with_spec("free", disk="ssd"),
        with_spec("cordoned", {"unschedulable": True}, disk="ssd"),
        with_spec("tainted", taint, disk="ssd"),
        with_spec("other", disk="hdd"),
    )
    pod = gang("g", 1, "100")[1]
    pod["spec"]["nodeSelector"] = {"disk": "ssd"}
    _, asked = feasibility(pod, *nodes)
    found = asked.refusals("default/g-0")
    assert [found.words.get(int(code), "") for code in found.code] == [
        "",
        "node(s) were unschedulable",
        "node(s) had untolerated taint(s)",
        "node(s) didn't match Pod's node affinity/selector",
    ]
    assert found.is_final.tolist() == [False, True, True, True]


def test_which_words_of_filters_are_final() -> None:
    """Whom a pod wants to be near does not come by an eviction, nor does a label."""
    elsewhere = node("elsewhere")
    elsewhere["metadata"]["labels"] = {"kubernetes.io/hostname": "elsewhere"}
    near = {"labelSelector": {"matchLabels": {"app": "none"}}, "topologyKey": "kubernetes.io/hostname"}
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    rule = "requiredDuringSchedulingIgnoredDuringExecution"
    key = {"key": "metadata.name", "operator": "In", "values": ["other"]}
    asks: list[tuple[Obj, str]] = [
        ({"affinity": {"podAffinity": {rule: [near]}}}, "didn't match pod affinity rules"),
        ({"topologySpreadConstraints": [spread]}, "(missing required label)"),
        (
            {"affinity": {"nodeAffinity": {rule: {"nodeSelectorTerms": [{"matchFields": [key]}]}}}},
            "didn't match Pod's node affinity/selector",
        ),
    ]
    for spec, words in asks:
        pod = gang("g", 1, "1")[1]
        pod["spec"] |= spec
        _, asked = feasibility(pod, elsewhere)
        found = asked.refusals("default/g-0")
        assert [words in found.words.get(int(code), "") for code in found.code] == [True], (spec, found.words)
        assert found.is_final.tolist() == [True], spec


def test_a_port_that_is_taken_may_become_free() -> None:
    pod = gang("g", 1, "1")[1]
    pod["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
    store, asked = feasibility(pod, node("a"), node("b"))
    holder = {**pod, "metadata": {"name": "holder", "namespace": "default"}}
    store.create(holder)
    asked.came("default/holder", 1)
    found = asked.refusals("default/g-0")
    assert [found.words.get(int(code), "") for code in found.code] == [
        "",
        "node(s) didn't have free ports for the requested pod ports",
    ]
    assert found.is_final.tolist() == [False, False]
    asked.left("default/holder", 1)
    assert asked.refusals("default/g-0").code.tolist() == [0, 0]
    asked.came("default/holder", 0)
    asked.close()
    assert asked.refusals("default/g-0").code.tolist() == [0, 0], "a session leaves nothing behind"


def test_close_puts_everybody_back() -> None:
    pod = gang("g", 1, "1")[1]
    pod["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
    holder = {**pod, "metadata": {"name": "holder", "namespace": "default"}}
    store, asked = feasibility(pod, node("a"), node("b"))
    store.create({**holder, "spec": {**pod["spec"], "nodeName": "a"}})
    record = store.accounts.records[Key("Pod", "default", "holder")]
    home = record.row
    asked.left("default/holder", 0)
    assert record.row < 0
    asked.came("default/holder", 1)
    assert record.row == store.accounts.row_of["b"]
    asked.came("default/g-0", 0)
    asked.close()
    assert record.row == home
    assert [code != 0 for code in asked.refusals("default/g-0").code] == [True, False]


@pytest.mark.parametrize(
    ("weights", "want"),
    [
        ({}, [0, 0]),
        ({"leastrequested.weight": 1}, [50, 75]),
        ({"leastrequested.weight": 2}, [100, 150]),
        ({"mostrequested.weight": 1}, [50, 25]),
        ({"leastrequested.weight": 1, "mostrequested.weight": 1}, [100, 100]),
        ({"leastrequested.weight": 0, "tainttoleration.weight": 0}, [0, 0]),
        ({"tainttoleration.weight": 1}, [100, 0]),
        ({"leastrequested.weight": 1, "mostrequested.weight": 1, "tainttoleration.weight": 3}, [400, 100]),
        ({"mostrequested.weight": 1, "tainttoleration.weight": 3}, [350, 25]),
        ({"nobody.weight": 7}, [0, 0]),
    ],
)
def test_scores_by_their_weights(weights: dict[str, int], want: list[int]) -> None:
    soft = {"taints": [{"key": "k", "value": "v", "effect": "PreferNoSchedule"}]}
    pod = gang("g", 1, "1")[1]
    pod["spec"]["containers"][0]["resources"]["requests"]["memory"] = "4Gi"
    holder = {**pod, "metadata": {"name": "holder", "namespace": "default"}}
    store, asked = feasibility(pod, node("a"), with_spec("b", soft))
    store.create({**holder, "spec": {**pod["spec"], "nodeName": "a"}})
    assert asked.scores("default/g-0", np.array([0, 1]), weights).tolist() == want
    assert asked.scores("default/g-0", np.array([1]), weights).tolist() == want[1:]
