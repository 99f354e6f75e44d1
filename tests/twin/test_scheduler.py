"""kube-scheduler on the loop: bindings, conditions, events, preemption, forks."""

from __future__ import annotations

from typing import Any

from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import SECOND_US
from fairway.twin.latency import latency_named
from fairway.twin.standard import standard_components
from fairway.twin.twin import Twin


def node(name: str, cpu: str = "4", **meta: Any) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, **meta},
        "status": {"allocatable": {"cpu": cpu, "memory": "16Gi", "pods": "110"}},
    }


def pod(name: str, cpu: str = "1", seconds: int = 60, **spec: Any) -> Obj:
    container = {
        "name": "c",
        "image": "i",
        "command": ["sleep", str(seconds)],
        "resources": {"requests": {"cpu": cpu}},
    }
    base = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {**base, **spec},
    }


def twin(*objects: Obj, seed: int = 1) -> Twin:
    made = Twin(seed=seed, latency=latency_named("zero"), components=standard_components())
    made.apply(objects)
    return made


def get(cluster: Twin, name: str) -> Obj:
    found = cluster.store.get(Key("Pod", "default", name))
    assert found is not None
    return found


def scheduled(obj: Obj) -> dict[str, Any]:
    return next(c for c in obj["status"]["conditions"] if c["type"] == "PodScheduled")


def test_a_node_name_of_null_is_none() -> None:
    cluster = twin(node("n"), pod("p", nodeName=None))
    cluster.run_for(SECOND_US)
    assert get(cluster, "p")["spec"]["nodeName"] == "n"


def test_a_pod_is_bound_and_runs() -> None:
    cluster = twin(node("n"), pod("p"))
    cluster.run_for(SECOND_US)
    p = get(cluster, "p")
    assert p["spec"]["nodeName"] == "n"
    assert scheduled(p)["status"] == "True"
    assert p["status"]["phase"] == "Running"
    about = cluster.host.events.about(Key("Pod", "default", "p"))
    assert [e.message for e in about if e.reason == "Scheduled"] == ["Successfully assigned default/p to n"]


def test_a_pod_that_fits_nowhere_says_why_and_runs_when_there_is_room() -> None:
    cluster = twin(node("n", cpu="2"), pod("big", cpu="2", seconds=30), pod("late", cpu="2"))
    cluster.run_for(SECOND_US)
    waiting = scheduled(get(cluster, "late"))
    assert waiting["status"] == "False"
    assert waiting["reason"] == "Unschedulable"
    assert waiting["message"].startswith("0/1 nodes are available: 1 Insufficient cpu.")
    cluster.run_for(60 * SECOND_US)
    assert get(cluster, "big")["status"]["phase"] == "Succeeded"
    assert get(cluster, "late")["status"]["phase"] == "Running"


def test_every_pod_of_a_waiting_line_is_told_why() -> None:
    cluster = twin(node("n", cpu="1"), *(pod(f"p{i}", cpu="1", seconds=600) for i in range(5)))
    cluster.run_for(SECOND_US)
    cluster.apply([pod("p5", cpu="1")])
    cluster.run_for(SECOND_US)
    told = [scheduled(get(cluster, f"p{i}"))["status"] for i in range(6)]
    assert sorted(told) == ["False"] * 5 + ["True"]


def test_waiting_pods_start_in_order_of_priority_then_age() -> None:
    cluster = twin(node("n", cpu="1"), pod("first", seconds=10))
    cluster.run_for(SECOND_US)
    cluster.apply([pod("old", seconds=10)])
    cluster.run_for(SECOND_US)
    cluster.apply([pod("new", seconds=10), pod("urgent", seconds=10, priority=5, preemptionPolicy="Never")])
    cluster.run_for(120 * SECOND_US)
    starts = {n: get(cluster, n)["status"]["startTime"] for n in ("first", "urgent", "old", "new")}
    assert sorted(starts, key=lambda n: starts[n]) == ["first", "urgent", "old", "new"]


def test_preemption_evicts_nominates_and_places() -> None:
    cluster = twin(node("n", cpu="2"), pod("low", cpu="2", seconds=600))
    cluster.run_for(SECOND_US)
    uid_low = get(cluster, "low")["metadata"]["uid"]
    cluster.apply([pod("high", cpu="2", priority=100)])
    cluster.run_for(5 * SECOND_US)
    assert cluster.store.get(Key("Pod", "default", "low")) is None
    high = get(cluster, "high")
    assert high["spec"]["nodeName"] == "n"
    assert "nominatedNodeName" not in high["status"]
    about = cluster.host.events.about(Key("Pod", "default", "low"))
    said = [e.message for e in about if e.reason == "Preempted"]
    assert said == [f"Preempted by pod {high['metadata']['uid']} on node n"]
    assert uid_low


def test_victims_get_their_grace_and_the_nominee_waits_for_it() -> None:
    low = pod("low", cpu="2", seconds=600)
    low["spec"]["terminationGracePeriodSeconds"] = 20
    cluster = twin(node("n", cpu="2"), low)
    cluster.run_for(SECOND_US)
    cluster.apply([pod("high", cpu="2", priority=100), pod("sneak", cpu="2", priority=50)])
    cluster.run_for(5 * SECOND_US)
    high = get(cluster, "high")
    assert high["status"]["nominatedNodeName"] == "n"
    assert "nodeName" not in high["spec"]
    condition = next(
        c for c in get(cluster, "low")["status"]["conditions"] if c["type"] == "DisruptionTarget"
    )
    assert condition["reason"] == "PreemptionByScheduler"
    cluster.run_for(30 * SECOND_US)
    assert get(cluster, "high")["spec"]["nodeName"] == "n"
    assert "nodeName" not in get(cluster, "sneak")["spec"]


def test_a_gated_pod_waits_for_its_gates() -> None:
    cluster = twin(node("n"), pod("p", schedulingGates=[{"name": "fairway.dev/hold"}]))
    cluster.run_for(SECOND_US)
    assert scheduled(get(cluster, "p"))["reason"] == "SchedulingGated"
    cluster.store.patch(Key("Pod", "default", "p"), {"spec": {"schedulingGates": None}})
    cluster.run_for(SECOND_US)
    assert get(cluster, "p")["spec"]["nodeName"] == "n"


def test_another_schedulers_pods_are_left_alone() -> None:
    cluster = twin(node("n"), pod("p", schedulerName="somebody-else"))
    cluster.run_for(SECOND_US)
    assert "nodeName" not in get(cluster, "p")["spec"]


def test_a_new_node_wakes_who_waits() -> None:
    cluster = twin(pod("p"))
    cluster.run_for(SECOND_US)
    assert scheduled(get(cluster, "p"))["message"] == "no nodes available to schedule pods"
    cluster.apply([node("n")])
    cluster.run_for(20 * SECOND_US)
    assert get(cluster, "p")["spec"]["nodeName"] == "n"


def test_uncordoning_a_node_wakes_who_waits() -> None:
    cordoned = node("n")
    cordoned["spec"] = {"unschedulable": True}
    cluster = twin(cordoned, pod("p"))
    cluster.run_for(SECOND_US)
    assert "1 node(s) were unschedulable" in scheduled(get(cluster, "p"))["message"]
    cluster.store.patch(Key("Node", "", "n"), {"spec": {"unschedulable": None}})
    cluster.run_for(20 * SECOND_US)
    assert get(cluster, "p")["spec"]["nodeName"] == "n"


def test_the_same_seed_gives_the_same_log_and_another_seed_may_not() -> None:
    def digest(seed: int) -> str:
        cluster = twin(*(node(f"n{i}") for i in range(5)), *(pod(f"p{i}") for i in range(40)), seed=seed)
        cluster.run_for(600 * SECOND_US)
        return cluster.digest()

    assert digest(1) == digest(1)
    assert digest(1) != digest(2)


def test_a_fork_goes_on_as_the_original_does() -> None:
    cluster = twin(*(node(f"n{i}") for i in range(3)), *(pod(f"p{i}", seconds=20 + i) for i in range(30)))
    cluster.run_for(15 * SECOND_US)
    copy = cluster.fork()
    for each in (cluster, copy):
        each.apply([pod("later", cpu="3", priority=10)])
        each.run_for(600 * SECOND_US)
    assert cluster.digest() == copy.digest()
    assert all(
        p["status"]["phase"] == "Succeeded" for p in copy.store.objects("Pod") if p["metadata"]["name"] != "x"
    )


def test_who_was_promised_a_node_looks_elsewhere_once_somebody_of_more_priority_takes_it() -> None:
    cluster = twin(node("n"), pod("low", "4", seconds=1000, terminationGracePeriodSeconds=30))
    cluster.run_for(5 * SECOND_US)
    stubborn = {"metadata": {"annotations": {"fairway.dev/stop-time": "never"}}}
    cluster.store.patch(Key("Pod", "default", "low"), stubborn)
    cluster.apply([pod("mid", "4", seconds=1000, priority=10)])
    cluster.run_for(SECOND_US)
    assert get(cluster, "mid")["status"]["nominatedNodeName"] == "n"
    cluster.apply([pod("high", "4", seconds=1000, priority=20), node("m")])
    cluster.run_for(SECOND_US)
    # The new node takes the one, whichever comes first; nobody is promised what another has.
    placed = {name: get(cluster, name)["spec"].get("nodeName") for name in ("mid", "high")}
    assert placed["high"] == "m"
    assert get(cluster, "mid")["status"]["nominatedNodeName"] == "n"


def test_a_promise_is_taken_back() -> None:
    cluster = twin(node("n"), pod("low", "4", seconds=1000, terminationGracePeriodSeconds=30))
    cluster.run_for(5 * SECOND_US)
    cluster.apply([pod("mid", "4", seconds=1000, priority=10)])
    cluster.run_for(SECOND_US)
    assert get(cluster, "mid")["status"]["nominatedNodeName"] == "n"
    cluster.apply([pod("high", "4", seconds=1000, priority=20)])
    cluster.run_for(SECOND_US)
    assert get(cluster, "high")["status"]["nominatedNodeName"] == "n"
    assert "nominatedNodeName" not in get(cluster, "mid")["status"]
    cluster.run_for(60 * SECOND_US)
    assert get(cluster, "high")["spec"]["nodeName"] == "n"
    assert "nodeName" not in get(cluster, "mid")["spec"]
    told = [t for t in cluster.host.events.told() if t.reason == "Preempted"]
    assert [t.about.name for t in told] == ["low"]


def test_a_namespace_that_becomes_another_wakes_who_looks_at_its_pods() -> None:
    selector = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
    selector["namespaceSelector"] = {"matchLabels": {"team": "a"}}
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [selector]}}
    web = pod("web", seconds=3600)
    web["metadata"] |= {"namespace": "x", "labels": {"app": "web"}}
    namespace: Obj = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}}
    cluster = twin(namespace, node("n", labels={"kubernetes.io/hostname": "n"}), web)
    cluster.run_for(SECOND_US)
    cluster.apply([pod("p", affinity=near)])
    cluster.run_for(SECOND_US)
    assert "didn't match pod affinity rules" in scheduled(get(cluster, "p"))["message"]
    cluster.store.patch(Key("Namespace", "", "x"), {"metadata": {"labels": {"team": "a"}}})
    cluster.wake()
    cluster.run_for(SECOND_US)
    assert get(cluster, "p")["spec"].get("nodeName") == "n"
