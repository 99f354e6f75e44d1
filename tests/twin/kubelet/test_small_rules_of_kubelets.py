"""Small rules of kubelets, each alone: boundaries of times, what is forgotten, what is remembered, what comes late."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from kubeletworld import S, World, container, latency, node, pod

from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import parse_rfc3339
from fairway.twin import faults
from fairway.twin.behaviour import Behaviour
from fairway.twin.distributions import parse_distribution
from fairway.twin.kubelet import pulling, resizing
from fairway.twin.kubelet.plans import Plans, plan_of
from fairway.twin.kubelet.states import NodeState, PodState
from fairway.twin.kubelet.usage import container_use, core_ns
from fairway.twin.latency import NONE, Latency

P = Key("Pod", "default", "p")


def started_s(world: World, name: str = "p", i: int = 0) -> float:
    (state,) = [one for one in world.kubelet.pods.values() if one.key.name == name]
    return (state.containers[i].started_us - world.us(0)) / S


# What is delivered late


def test_a_pod_that_came_and_went_before_anybody_looked_is_none() -> None:
    world = World().at(1)
    store = world.twin.store
    store.create(pod("p", container("c", "sleep 9")))
    store.delete(P, grace_s=0)
    world.twin.wake()
    assert world.at(2).seen() == "gone"
    assert world.kubelet.pods == {} and world.said() == []


def test_a_pod_that_was_over_before_anybody_looked_is_not_begun() -> None:
    world = World().at(1)
    world.twin.store.create(pod("p", container("c", "sleep 9")))
    world.twin.store.set_status(P, {"phase": "Failed"})
    world.twin.wake()
    assert world.at(20).need()["status"] == {"phase": "Failed"}
    assert world.kubelet.pods == {}


def test_of_two_pods_of_a_name_the_one_that_is_there_runs() -> None:
    world = World().at(1)
    store = world.twin.store
    store.create(pod("p", container("c", "sleep 5")))
    store.delete(P, grace_s=0)
    made = store.create(pod("p", container("c", "sleep 9")))
    world.twin.wake()
    world.at(2)
    assert list(world.kubelet.pods) == [made["metadata"]["uid"]]
    assert world.at(9.9).seen() == "Running 1/1 c=run"


def test_a_change_of_its_labels_asks_for_nothing() -> None:
    """A wish that waits is not tried again by it, though there is room by now: that is in three minutes."""
    asks = container("c", "sleep 900", resources={"requests": {"cpu": "1"}})
    more = container("c", "sleep 900", resources={"requests": {"cpu": "9"}})
    world = World(pod("p", asks, meta={"generation": 1})).at(1)
    store = world.twin.store
    store.patch(P, {"spec": {"containers": [more]}})
    world.twin.wake()
    assert world.at(2).condition("PodResizePending") == ("True", "Deferred")
    key = Key("Node", "", "n")
    store.set_status(
        key, {**world.node()["status"], "allocatable": {"cpu": "9", "memory": "1Gi", "pods": "9"}}
    )
    store.patch(P, {"metadata": {"labels": {"a": "b"}}})
    world.twin.wake()
    assert world.at(180).condition("PodResizePending") == ("True", "Deferred")
    assert world.at(181).condition("PodResizePending") == ("", "")


def test_a_wish_that_is_taken_back_at_once_was_none() -> None:
    def asks(cpu: str) -> Obj:
        return container("c", "sleep 900", resources={"requests": {"cpu": cpu}})

    world = World(pod("p", asks("1"), meta={"generation": 1})).at(1)
    before = world.need()["status"]
    for cpu in ("2", "1"):
        world.twin.store.patch(P, {"spec": {"containers": [asks(cpu)]}})
    world.twin.wake()
    assert world.at(500).need()["status"] is before
    assert not [said for said in world.said() if said.startswith("Resize")]
    assert not world.kubelet.nodes["n"].resizes


def test_a_pod_that_is_deleted_before_it_starts_keeps_what_others_said_of_it() -> None:
    world = World().at(1)
    faults.partition_node(world.twin, "n", world.us(2), 20 * S)
    world.at(3)
    world.twin.apply([pod("p", container("c", "sleep 9"), meta={"finalizers": ["x/y"]})])
    scheduled = {"type": "PodScheduled", "status": "True"}
    world.twin.store.set_status(P, {"phase": "Pending", "qosClass": "BestEffort", "conditions": [scheduled]})
    world.twin.apply([pod("q", container("c", "sleep 9"))])
    world.at(4)
    world.delete()
    world.delete("q")
    assert world.at(21).get("q") is not None and world.at(23).seen("q") == "gone"
    assert world.need()["status"] == {"phase": "Failed", "qosClass": "BestEffort", "conditions": [scheduled]}
    assert world.kubelet.nodes["n"].unseen == {}


# Starts


@pytest.mark.parametrize(("count", "at_once"), [(2, True), (31, True), (32, False), (33, False)])
def test_of_many_containers_starts_are_told_together(count: int, at_once: bool) -> None:
    names = [f"c{i:02}" for i in range(count)]
    slow = latency(container_start=3 if count == 2 else 0.5)
    world = World(pod("p", *(container(name, "sleep 900") for name in names)), latency=slow)
    first_s = 3 if count == 2 else 0.5
    told = world.at(first_s).need()["status"].get("containerStatuses", [])
    assert [status["name"] for status in told if "running" in status["state"]] == (
        names[:1] if at_once else []
    )
    assert world.at(20).seen().count("=run") == count


def test_who_shuts_a_probed_container_out_of_what_is_plain() -> None:
    probe = {"exec": {"command": ["x"]}}
    specs: list[tuple[list[Obj], bool]] = [
        ([{"name": "a"}], True),
        ([{"name": "a", "livenessProbe": probe}], False),
        ([{"name": "a"}, {"name": "b"}], False),
        ([], False),
    ]
    assert [plan_of({"containers": made}).is_plain for made, _ in specs] == [want for _, want in specs]


@pytest.mark.parametrize(
    ("times", "is_told"),
    [
        ({"container_start": 2}, True),
        ({"container_start": 1.999999}, False),
        ({"sandbox_start": 1, "container_start": 1}, True),
        ({"image_pull": 1.9}, False),
        ({"image_pull": 2}, True),
    ],
)
def test_a_start_that_takes_two_seconds_is_told_before(times: dict[str, float], is_told: bool) -> None:
    world = World(pod("p", container("c", "sleep 90")), latency=latency(**times)).at(1)
    want = "Pending 0/1 c=wait:ContainerCreating" if is_told else "Pending 0/1"
    assert world.seen() == want
    assert world.at(3).seen() == "Running 1/1 c=run"


@pytest.mark.parametrize(
    ("check_s", "want"), [(2, "Pending 0/1 c=wait:ContainerCreating"), (1.9, "Pending 0/1")]
)
def test_so_is_one_whose_image_cannot_be_pulled(check_s: float, want: str) -> None:
    made = pod("p", container("c", "sleep 90"), says={"image-pull-fails": "0s-60s"})
    world = World(made, latency=latency(image_check=check_s))
    assert world.at(1).seen() == want
    assert world.at(2).seen() == "Pending 0/1 c=wait:ImagePullBackOff"


@pytest.mark.parametrize("which", ["sandbox_start", "container_start", "container_relist"])
def test_what_varies_varies_from_pod_to_pod(which: str) -> None:
    """Also where it is the only thing that does."""
    slow: Latency = replace(NONE, **{which: parse_distribution("uniform(1s, 9s)")})
    names = [f"p{i}" for i in range(5)]
    world = World(*(pod(name, container("c", "sleep 20")) for name in names), latency=slow)
    ended = {}
    for second in range(14, 32):
        world.at(second)
        for name in names:
            if world.need(name)["status"]["phase"] == "Succeeded":
                ended.setdefault(name, second)
    assert sorted(ended) == names and len(set(ended.values())) > 1
    assert all(21 <= second <= 29 for second in ended.values())


def test_whether_an_image_is_there_and_how_long_pulling_it_took() -> None:
    world = World(
        node("m"), pod("p", container("c", "sleep 90")), latency=latency(image_pull=7, image_check=2)
    ).at(1)
    kubelet, there = world.kubelet, world.kubelet.nodes["m"]
    (one,) = kubelet.pods.values()

    def pulled(image: str, from_us: int, **fields: str) -> tuple[int, int]:
        made = PodState("u", P, "m", plan_of({"containers": [{"name": "c", "image": image, **fields}]}), 0)
        return pulling.pull(kubelet, made, there, 0, from_us)

    assert pulled("a:1", 5 * S) == (12 * S, 7 * S)
    assert pulled("b:1", 6 * S) == (19 * S, 13 * S), "one after another"
    assert pulled("a:1", 6 * S) == (12 * S, -1), "when it will be there"
    assert pulled("a:1", 20 * S) == (20 * S, -1)
    assert pulled("a:1", 20 * S, imagePullPolicy="Always") == (22 * S, -1)
    assert pulled("z:1", 20 * S, imagePullPolicy="Never") == (20 * S, -1)
    assert pulled("c:1", 30 * S) == (37 * S, 7 * S)
    assert (there.images["c:1"], there.pull_free_us) == (37 * S, 37 * S)
    assert one.node == "n"


def test_a_copy_of_a_twin_has_as_slow_a_registry() -> None:
    world = World(latency=latency(image_pull=4))
    faults.slow_registry(world.twin, world.us(1), 3)
    world.at(2)
    fork = world.twin.fork()
    ends = []
    for twin in (world.twin, fork):
        twin.apply([pod("p", container("c", "sleep 90"))])
        twin.run(world.us(13.9))
        before = twin.store.require(P)["status"]["phase"]
        twin.run(world.us(14))
        ends.append((before, twin.store.require(P)["status"]["phase"]))
    assert ends == [("Pending", "Running")] * 2


# Ends, and what comes after them


@pytest.mark.parametrize(("ran_s", "waits_s"), [(600, 20), (600.000001, 0), (601, 0)])
def test_who_ran_ten_minutes_starts_over(ran_s: float, waits_s: float) -> None:
    """At once, and after ten seconds the next time. Source: client-go util/flowcontrol/backoff.go."""
    made = pod("p", container("c", "sleep 90000"), restartPolicy="Always")
    world = World(made)
    # Killed at once twice: the first start after that is ten seconds later, the next wait would be twenty.
    for at_s in (1, 2):
        faults.kill_container(world.twin, P, world.us(at_s))
    assert started_s(world.at(12.5)) == 12
    faults.kill_container(world.twin, P, world.us(12 + ran_s))
    assert started_s(world.at(12 + ran_s + waits_s + 0.5)) == 12 + ran_s + waits_s
    again_s = 12 + ran_s + waits_s + 1
    faults.kill_container(world.twin, P, world.us(again_s))
    next_s = 40 if waits_s else 10
    assert started_s(world.at(again_s + next_s + 0.5)) == again_s + next_s


def test_a_run_that_is_stopped_well_has_lost_its_work_all_the_same() -> None:
    says = {"run-time": "10m", "stop-exit-code": "0"}
    world = World(pod("p", says=says), pod("q", says={"run-time": "100s"})).at(90)
    world.delete()
    world.at(200)
    totals = world.kubelet.progress.totals
    assert (totals.useful_us, totals.lost_us, totals.overhead_us) == (100 * S, 90 * S, 0)


def test_after_a_whole_run_the_next_begins_from_nothing() -> None:
    """The one before it had resumed; nothing of that is left."""
    says = {"run-time": "100s", "checkpoint-interval": "30s", "exit-code": "0"}
    world = World(pod("p", says=says, restartPolicy="Always"))
    faults.kill_container(world.twin, P, world.us(50))
    # From 30 s on at 50 s: done at 120 s; then from nothing after ten seconds.
    assert world.at(119.9).seen() == "Running 1/1 main=run*1"
    assert world.at(120).seen() == "Running 0/1 main=wait:CrashLoopBackOff*1"
    assert world.at(229.9).seen() == "Running 1/1 main=run*2"
    assert world.at(230).seen() == "Running 0/1 main=wait:CrashLoopBackOff*2"
    totals = world.kubelet.progress.totals
    assert (totals.resumed, totals.useful_us, totals.lost_us) == (1, 200 * S, 20 * S)


def test_what_was_saved_adds_up_from_run_to_run() -> None:
    says = {"run-time": "100s", "checkpoint-interval": "30s"}
    world = World(pod("p", says=says, restartPolicy="OnFailure"))
    # 30 s are safe when it is killed at 50 s, 90 s when it is killed at 115 s; it waits for ten seconds then.
    for at_s in (50, 115):
        faults.kill_container(world.twin, P, world.us(at_s))
    assert world.at(134.9).seen() == "Running 1/1 main=run*2"
    assert world.at(135).seen() == "Succeeded 0/1 main=end:Completed:0*2"
    totals = world.kubelet.progress.totals
    assert (totals.resumed, totals.useful_us, totals.lost_us) == (2, 100 * S, 25 * S)


def test_a_forecast_draws_how_long_main_containers_run() -> None:
    drawn = {"p": 20 * S, "q": None}
    says = {"run-time": "50s", "run-time.i": "5s"}
    world = World()
    world.kubelet.drawn_us = lambda key: drawn[key.name]
    world.twin.apply([pod(name, initContainers=[container("i")], says=says) for name in drawn])
    assert started_s(world.at(6), "p", 1) == 5, "init containers run as long as they say"
    assert [world.at(25).seen(name).split()[0] for name in drawn] == ["Succeeded", "Running"]
    assert world.at(55).seen("q").split()[0] == "Succeeded"


def test_a_container_that_is_resized_twice_is_restarted_twice() -> None:
    policy = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]

    def asks(memory: str) -> Obj:
        return container("c", resources={"requests": {"memory": memory}}, resizePolicy=policy)

    world = World(pod("p", asks("1Gi"), restartPolicy="Always", meta={"generation": 1})).at(1)
    for at_s, memory in ((2000, "2Gi"), (4000, "3Gi"), (6000, "1Gi")):
        world.twin.store.patch(P, {"spec": {"containers": [asks(memory)]}})
        world.twin.wake()
        (told,) = world.at(at_s).need()["status"]["containerStatuses"]
        assert told["resources"]["requests"]["memory"] == memory
        assert world.condition("PodResizeInProgress") == ("", "")
    assert told["restartCount"] == 3


def test_containers_that_stop_for_a_resize_are_told_so_once() -> None:
    """The first runs again, and what is left to do is looked at, while the second still stops."""
    policy = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]

    def asks(cpu: str) -> list[Obj]:
        return [container(n, resources={"requests": {"cpu": cpu}}, resizePolicy=policy) for n in "ab"]

    says = {"run-time": "forever", "stop-time.a": "3s", "stop-time.b": "9s"}
    world = World(pod("p", *asks("1"), restartPolicy="Always", meta={"generation": 1}, says=says)).at(1)
    world.twin.store.patch(P, {"spec": {"containers": asks("2")}})
    world.twin.wake()
    assert world.at(5).seen() == "Running 2/2 a=run*1 b=run"
    assert world.condition("PodResizeInProgress") == ("True", "")
    assert world.at(10).seen() == "Running 2/2 a=run*1 b=run*1"
    assert world.condition("PodResizeInProgress") == ("", "")
    told = [t.message for t in world.twin.host.events.about(P) if t.reason == "Killing"]
    assert told == [f"Container {name} resize requires restart" for name in "ab"]


def test_a_run_without_a_constant_time_is_as_long_as_the_pods_luck_has_it() -> None:
    """Each run of it, whether or not anything else varies."""
    lasts = parse_distribution("uniform(10s, 60s)")
    says = {"run-time": "uniform(10s, 60s)", "exit-code": "1"}
    names = ["p", "q", "r"]
    world = World(*(pod(name, restartPolicy="OnFailure", says=says) for name in names)).at(200)
    lengths = set()
    for name in names:
        luck = world.twin.host.streams.draws_for("pod", "default", name)
        (status,) = world.need(name)["status"]["containerStatuses"]
        last = status["lastState"]["terminated"]
        ran_s = (parse_rfc3339(last["finishedAt"]) - parse_rfc3339(last["startedAt"])) / S
        assert abs(ran_s - lasts.at_quantile(luck[2]) / S) <= 1 and status["restartCount"] >= 1
        lengths.add(ran_s)
    assert len(lengths) > 1


def test_attempts_are_counted_where_exit_codes_differ() -> None:
    """What ended before, by the same name and with one code for all runs, was none of them."""
    world = World(pod("p", says={"run-time": "5s", "exit-code": "7"})).at(6)
    world.delete(grace_s=0)
    world.twin.apply([pod("p", says={"run-time": "5s", "exit-code": "3,0"})])
    assert world.at(12).seen() == "Failed 0/1 main=end:Error:3"


@pytest.mark.parametrize(("relist_s", "wait_s"), [(9.9, 0.1), (10, 0), (15, 0)])
def test_a_back_off_that_is_over_when_an_end_is_noticed_keeps_nobody(relist_s: float, wait_s: float) -> None:
    made = pod("p", container("c", "sleep 1; exit 1"), restartPolicy="Always")
    world = World(made, latency=latency(container_relist=relist_s))
    # The first end is noticed so late, and followed at once; the second is waited for for ten seconds.
    second_s = 2 * (1 + relist_s)
    assert started_s(world.at(second_s - 0.05)) == 1 + relist_s
    assert ("BackOff*1" in world.at(second_s).said()) is (wait_s > 0)
    assert started_s(world.at(second_s + wait_s)) == pytest.approx(second_s + wait_s)


def test_what_a_server_did_until_it_was_deleted_by_force_is_useful_and_stays_spent() -> None:
    asks = {"resources": {"limits": {"nvidia.com/gpu": "2"}}}
    made = pod("p", container("c", **asks), says={"run-time": "forever", "cpu-usage": "2"})
    world = World(made, nodes=[node(more={"nvidia.com/gpu": "2"})]).at(30)
    world.delete(grace_s=0)
    world.at(50)
    totals = world.kubelet.progress.totals
    assert (totals.useful_us, totals.lost_us, totals.overhead_us) == (30 * S, 0, 0)
    assert (totals.useful_gpu_us, totals.lost_gpu_us, totals.overhead_gpu_us) == (60_000 * S, 0, 0)
    assert world.kubelet.nodes["n"].spent_core_ns == 2000 * 30 * S


# Who is asked first for room


def wish(cpu: str, memory: str = "1Gi", **fields: Any) -> tuple[Obj, PodState]:
    """A pod that has one core and one GiB, and wishes for this; `since`: when that was first put off."""
    since = fields.pop("since", None)
    qos = fields.pop("qos", "Burstable")

    def asking(cpu: str, memory: str) -> Obj:
        return {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}}]}

    state = PodState("u", P, "n", plan_of(asking("1", "1Gi")), 0)
    if since:
        state.resize = resizing.Resizing({"lastTransitionTime": since})
    return {"spec": {**asking(cpu, memory), **fields}, "status": {"qosClass": qos}}, state


ORDER = [
    wish("500m", priority=-5),
    wish("1", "512Mi", priority=-5, qos="BestEffort"),
    wish("2", priority=1, qos="BestEffort"),
    wish("2", qos="Guaranteed", since="2026-01-05T00:00:09Z"),
    wish("2", qos="Guaranteed"),
    wish("1", "2Gi", since="2026-01-05T00:00:01Z"),
    wish("500m", "2Gi", since="2026-01-05T00:00:02Z"),
    wish("2"),
    wish("2", priority=-1, qos="Guaranteed"),
]


@pytest.mark.parametrize(
    ("had", "wanted", "grows"),
    [
        ({"memory": "1Gi"}, {"memory": "512Mi"}, False),
        ({"memory": "1Gi"}, {"memory": "1Gi", "cpu": "1m"}, True),
        ({"cpu": "1m"}, {"memory": "1"}, True),
        ({"cpu": "1m"}, {}, False),
        ({"cpu": "1", "memory": "1Gi"}, {"cpu": "2", "memory": "512Mi"}, True),
        ({"cpu": "1", "memory": "1Gi"}, {"cpu": "500m", "memory": "2Gi"}, True),
        ({"cpu": "1", "x.io/y": "1"}, {"cpu": "1", "x.io/y": "2"}, False),
    ],
)
def test_who_grows(had: Obj, wanted: Obj, grows: bool) -> None:
    before, after = ({"containers": [{"resources": {"requests": asks}}]} for asks in (had, wanted))
    state = PodState("u", P, "n", plan_of(before), 0)
    assert resizing._order(state, {"spec": after, "status": {}}, plan_of(after))[0] is grows


@pytest.mark.parametrize(("cpu", "fits"), [("3", True), ("3001m", False)])
def test_what_others_have_is_counted_whole_where_it_had_none_of_it(cpu: str, fits: bool) -> None:
    def asks(**amounts: str) -> Obj:
        return container("c", "sleep 900", resources={"requests": {"memory": "1Gi", **amounts}})

    world = World(pod("p", asks(), meta={"generation": 1}), pod("q", asks(cpu="5"))).at(1)
    world.twin.store.patch(P, {"spec": {"containers": [asks(cpu=cpu)]}})
    world.twin.wake()
    world.at(2)
    assert world.condition("PodResizePending") == (("", "") if fits else ("True", "Deferred"))
    assert world.kubelet.nodes["n"].used["cpu"] == (8000 if fits else 5000)


def test_in_which_order_wishes_are_looked_at() -> None:
    """What asks for no more, by priority (none: 0), Guaranteed ones, who waits longest, who has not waited yet."""
    found = [resizing._order(state, obj, plan_of(obj["spec"])) for obj, state in ORDER]
    assert found[0][:1] == (False,)
    assert found[2:] == sorted(found[2:]) and len(set(found[2:])) == len(found) - 2
    assert max(found[:2]) < found[2], "who shrinks comes before everybody else"


# What a container uses


def test_cpu_is_counted_from_step_to_step() -> None:
    behaviour = Behaviour()
    behaviour.cpu_milli = ((0, 100), (10, 2000), (20, 7))
    idle = core_ns(behaviour, 1000, 2000, 1001)
    assert idle > 0
    # Started at 1000, at work from 1100 on.
    wanted = {
        900: 0,
        1000: 0,
        1001: idle,
        1100: 100 * idle,
        1101: 100 * idle + 100,
        1110: 100 * idle + 1000,
        1111: 100 * idle + 3000,
        1121: 100 * idle + 21_007,
    }
    assert {until: core_ns(behaviour, 1000, 1100, until) for until in wanted} == wanted
    state = PodState("u", P, "n", plan_of({"containers": [{}]}), 0).containers[0]
    state.started_us, state.work_from_us = 1000, 1100
    levels = [
        container_use("c", behaviour, state, at).cpu_milli for at in (1099, 1100, 1109, 1110, 1120, 5000)
    ]
    assert levels == [idle, 100, 100, 2000, 7, 7]


# What is kept, and what is not


def test_plans_are_kept_up_to_a_number_then_all_are_let_go() -> None:
    plans = Plans()
    lists = [[{"name": "c", "image": "i"}] for _ in range(4097)]
    for count, containers in enumerate(lists[:4096], 1):
        plans.of({"metadata": {}, "spec": {"containers": containers}})
        assert len(plans._by_template) == count
    first = plans.of({"metadata": {}, "spec": {"containers": lists[0]}})
    assert len(plans._by_template) == 4096 and len(plans._by_bytes) == 1
    assert plans.of({"metadata": {}, "spec": {"containers": lists[4096]}}) is first, (
        "equal ones have one plan"
    )
    assert len(plans._by_template) == 1
    spec = {"containers": lists[0]}
    for i in range(4096):
        plans.of({"metadata": {"annotations": {"fairway.dev/run-time": f"{i + 1}s"}}, "spec": spec})
    assert len(plans._annotated) == 4096
    plans.of({"metadata": {"annotations": {"fairway.dev/run-time": "1h"}}, "spec": spec})
    assert len(plans._annotated) == 1
    plans._by_bytes.update((str(i).encode(), first) for i in range(65_534))
    for name, count in (("a", 65_536), ("b", 1)):
        plans.of({"metadata": {}, "spec": {"containers": [{"name": name}]}})
        assert len(plans._by_bytes) == count


def test_what_a_plan_is_known_by() -> None:
    """Another list of containers, of init containers, another policy, grace or deadline is another plan."""
    plans = Plans()
    mains, inits = [{"name": "c", "image": "i"}], [{"name": "i", "image": "i"}]
    base: Obj = {"containers": mains, "initContainers": inits}
    others: list[Obj] = [
        {**base, "containers": [{"name": "d"}]},
        {**base, "initContainers": [{"name": "j"}]},
        {"containers": mains},
        {**base, "restartPolicy": "Never"},
        {**base, "terminationGracePeriodSeconds": 5},
        {**base, "activeDeadlineSeconds": 5},
        {**base, "hostNetwork": True},
        {**base, "readinessGates": [{"conditionType": "x"}]},
        {**base, "overhead": {"cpu": "1"}},
        {**base, "resources": {"requests": {"cpu": "2"}}},
    ]
    for _ in range(2):
        found = [plans.of({"metadata": {}, "spec": spec}) for spec in (base, *others)]
        assert len({id(plan) for plan in found}) == len(found)
        for plan, spec in zip(found, (base, *others), strict=True):
            fresh = plan_of(spec)
            assert (plan.containers, plan.requests, plan.grace_us) == (
                fresh.containers,
                fresh.requests,
                fresh.grace_us,
            )
            assert plans.of({"metadata": {}, "spec": msgspec.json.decode(msgspec.json.encode(spec))}) is plan


def test_where_all_addresses_are_taken_the_round_ends_where_it_began() -> None:
    state = NodeState("n", "u", (5 << 8) + 9)
    everything = {f"10.5.9.{i}" for i in range(1, 255)}
    first = state.take_ip(set())
    assert state.take_ip(everything) == first
    assert state.take_ip(everything) == first


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"containers": [{}]}, "ContainerCreating"),
        ({"containers": [{}, {}]}, "ContainerCreating"),
        ({"containers": [{}], "initContainers": [{}]}, "PodInitializing"),
        ({"containers": [{}], "readinessGates": [{}]}, "ContainerCreating"),
    ],
)
def test_what_containers_wait_for_at_first(spec: Obj, reason: str) -> None:
    state = PodState("u", P, "n", plan_of(spec), 7)
    assert {one.reason for one in state.containers} == {reason}
    assert len(state.containers) == len(spec["containers"]) + len(spec.get("initContainers", ()))
    assert state.is_initialized is ("initContainers" not in spec)


# Stops


def test_who_ends_in_the_moment_it_would_be_killed_has_ended_by_itself() -> None:
    made = pod("p", container("c", "sleep 15"), meta={"finalizers": ["x/y"]}, terminationGracePeriodSeconds=5)
    world = World(made).at(10)
    world.delete()
    assert world.at(15).seen() == "Succeeded 0/1 c=end:Completed:0 Terminating"


def test_sidecars_stop_one_after_another_the_last_one_first() -> None:
    inits = [container(name, restartPolicy="Always") for name in ("s1", "s2", "s3")]
    times = {"main": 4, "s1": 3, "s2": 5, "s3": 2}
    says = {"run-time": "forever", **{f"stop-time.{name}": f"{s}s" for name, s in times.items()}}
    says |= {f"run-time.{name}": "forever" for name in times}
    world = World(pod("p", initContainers=inits, says=says, meta={"finalizers": ["x/y"]})).at(10)
    world.delete()
    status = world.at(100).need()["status"]
    ends = {}
    for one in (*status["initContainerStatuses"], *status["containerStatuses"]):
        ends[one["name"]] = (parse_rfc3339(one["state"]["terminated"]["finishedAt"]) - world.us(10)) // S
    assert ends == {"main": 4, "s3": 6, "s2": 11, "s1": 14}


def test_a_second_stop_that_ends_no_sooner_changes_nothing() -> None:
    for grace_s, want in ((20, 1), (25, 1), (19, 2)):
        made = pod("p", container("c", "sleep 900"), terminationGracePeriodSeconds=30)
        world = World(made).at(10)
        world.delete()
        world.at(20)
        world.delete(grace_s=grace_s)
        world.at(21)
        assert world.said().count(f"Killing*{want}") == 1, grace_s
        gone_s = 20 + min(grace_s, 20)
        assert world.at(gone_s - 0.1).seen() != "gone" and world.at(gone_s).seen() == "gone"


@pytest.mark.parametrize("kind", ["startupProbe", "readinessProbe", "livenessProbe"])
def test_probes_of_a_pod_that_is_gone_are_forgotten(kind: str) -> None:
    probe = {"exec": {"command": ["x"]}, "periodSeconds": 5}
    says = {"run-time": "forever", f"{kind.removesuffix('Probe')}-fails": "7s-60s"}
    world = World(pod("p", container("c", **{kind: probe}), says=says)).at(4 if kind != "startupProbe" else 0)
    world.delete(grace_s=0)
    assert world.at(100).seen() == "gone" and world.kubelet.pods == {}


def test_an_init_container_that_is_done_is_ready_and_no_other_that_ended() -> None:
    inits = [container("i", "sleep 1"), container("s", "sleep 2; exit 0", restartPolicy="Always")]
    two = [container("a", "sleep 3"), container("b", "sleep 90")]
    world = World(pod("p", *two, initContainers=inits)).at(5.5)
    status = world.need()["status"]
    told = [*status["initContainerStatuses"], *status["containerStatuses"]]
    assert {one["name"]: one["ready"] for one in told} == {"i": True, "s": False, "a": False, "b": True}
    failed = World(pod("p", initContainers=[container("i", "sleep 1; exit 1")])).at(4)
    assert [one["ready"] for one in failed.need()["status"]["initContainerStatuses"]] == [False]


@pytest.mark.parametrize("kind", ["startup", "liveness"])
@pytest.mark.parametrize(
    ("policy", "is_sidecar", "said"),
    [
        ("Never", False, "Container c failed {} probe"),
        ("OnFailure", False, "Container c failed {} probe, will be restarted"),
        ("Always", False, "Container c failed {} probe, will be restarted"),
        ("Never", True, "Init container c failed {} probe"),
        ("Always", True, "Init container c failed {} probe"),
    ],
)
def test_what_is_said_of_a_container_that_a_probe_kills(
    kind: str, policy: str, is_sidecar: bool, said: str
) -> None:
    probe = {f"{kind}Probe": {"exec": {"command": ["x"]}, "periodSeconds": 5}}
    says = {"run-time": "forever", "run-time.c": "forever", f"{kind}-fails.c": "true"}
    one = container("c", **probe, **({"restartPolicy": "Always"} if is_sidecar else {}))
    parts: Obj = {"initContainers": [one]} if is_sidecar else {}
    made = pod("p", container("main") if is_sidecar else one, restartPolicy=policy, says=says, **parts)
    world = World(made).at(12)
    told = [e.message for e in world.twin.host.events.about(P) if e.reason == "Killing"]
    assert told[:1] == [said.format(kind)]
