"""The partitioner alone, step by step: MIG Manager, kubelet and scheduler are played by the test."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from fairway.kube.objects import Key, Obj, annotations_of, labels_of, spec_of
from fairway.kube.timestamps import SECOND_US
from fairway.twin.devices.partitioner import GpuPartitioner, _asks
from fairway.twin.latency import NONE
from fairway.twin.twin import Twin

H100, SMALL, WHOLE = "NVIDIA-H100-80GB-HBM3", "nvidia.com/mig-1g.10gb", "nvidia.com/gpu"
CONFIG, STATE = "nvidia.com/mig.config", "nvidia.com/mig.config.state"
TRIED, LAYOUT = "fairway.dev/mig-config-tried", "fairway.dev/gpu-layout"
FILE = Key("ConfigMap", "gpu-operator", "mig-configs")
SEVEN = "0=1g.10gb@0,1g.10gb@1,1g.10gb@2,1g.10gb@3,1g.10gb@4,1g.10gb@5,1g.10gb@6"


def node(
    name: str = "n",
    cards: int = 1,
    layout: str = "",
    model: str = H100,
    *,
    strategy: str = "mixed",
    state: str = "success",
) -> Obj:
    said = {"nvidia.com/mig.strategy": strategy, STATE: state}
    notes = {"fairway.dev/gpus": f"{cards} {model}"} | ({LAYOUT: layout} if layout else {})
    meta = {"name": name, "labels": said, "annotations": notes}
    status = {"allocatable": {WHOLE: str(cards)}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": status}


def policy(name: str = "cluster-policy", setting: str = "mig", file: str = FILE.name, **status: str) -> Obj:
    meta = {"name": name, "annotations": {"fairway.dev/gpu-partitioning": setting}}
    spec = {"migManager": {"config": {"name": file}}}
    found = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": meta, "spec": spec}
    return found | ({"status": status} if status else {})


def pod(name: str, resource: str = SMALL, count: str = "1", *, on: str = "", phase: str = "Pending") -> Obj:
    container = {"name": "c", "image": "i", "resources": {"limits": {resource: count}}}
    spec: Obj = {"containers": [container]} | ({"nodeName": on} if on else {})
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    status = {"phase": phase} | ({} if on else {"conditions": [condition]})
    meta = {"name": name, "namespace": "d"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": status}


def a_twin(*objects: Obj) -> Twin:
    twin = Twin(latency=NONE, components=[GpuPartitioner()])
    put(twin, *objects)
    return twin


def put(twin: Twin, *objects: Obj) -> None:
    twin.apply(objects)
    for obj in objects:
        if obj["kind"] == "Pod":
            twin.store.set_status(Key("Pod", "d", obj["metadata"]["name"]), obj["status"])


def patch(twin: Twin, name: str = "n", labels: Obj | None = None, notes: Obj | None = None) -> None:
    twin.store.patch(
        Key("Node", "", name), {"metadata": {"labels": labels or {}, "annotations": notes or {}}}
    )


def told(twin: Twin) -> list[tuple[int, str, str, str, str]]:
    began_us = 1767571200 * SECOND_US
    return [
        ((e.first_us - began_us) // SECOND_US, e.about.name, e.type, e.reason, e.message)
        for e in twin.host.events.told()
    ]


def closed(twin: Twin, name: str = "n") -> bool:
    return bool(spec_of(twin.store.require(Key("Node", "", name))).get("unschedulable"))


def config(twin: Twin, name: str = "n") -> str | None:
    return labels_of(twin.store.require(Key("Node", "", name))).get(CONFIG)


def story(twin: Twin, seconds: int, *names: str) -> list[tuple[int, str, Any]]:
    """What it wrote, by the second."""
    found, before, began_us = list[tuple[int, str, Any]](), dict[str, Any](), twin.now_us
    while True:
        file = twin.store.get(FILE)
        now: dict[str, Any] = {"file": None if file is None else file["data"]["config.yaml"]}
        for name in names or ("n",):
            now |= {f"{name} closed": closed(twin, name), f"{name} config": config(twin, name)}
        at = (twin.now_us - began_us) // SECOND_US
        found += [(at, k, v) for k, v in now.items() if before and before[k] != v]
        if at >= seconds:
            return found
        before = now
        twin.run_for(SECOND_US)


def cut(twin: Twin, name: str = "n") -> str:
    """Run until the node has its label."""
    twin.run_for(150 * SECOND_US)
    found = config(twin, name)
    assert found is not None and closed(twin, name)
    return found


def managed(twin: Twin, state: str, wanted: str, layout: str = SEVEN) -> None:
    """What MIG Manager says when it is done."""
    patch(twin, labels={STATE: state}, notes={TRIED: f"{wanted} mig-manager-x", LAYOUT: layout})


def plugged(twin: Twin, amounts: Obj) -> None:
    twin.store.set_status(Key("Node", "", "n"), {"allocatable": amounts})


FILE_OF_SEVEN = """version: v1
mig-configs:
  all-disabled:
  - devices: all
    mig-enabled: false
  fairway-1c7c3908a345:
  - devices:
    - 0
    mig-enabled: true
    mig-devices:
      1g.10gb: 7
"""


def test_the_steps_of_a_change() -> None:
    twin = a_twin(policy(), node(cards=2), *(pod(f"p{i}") for i in range(3)))
    name = "fairway-1c7c3908a345"
    assert story(twin, 150) == [
        (40, "file", FILE_OF_SEVEN),
        (130, "n closed", True),
        (135, "n config", name),
    ]
    words = "3 instances wait, 405 s in all: 1 cards; the change costs 120 s"
    assert told(twin) == [(135, "n", "Normal", "Repartitioning", words)]
    assert twin.store.require(FILE)["metadata"]["namespace"] == "gpu-operator"
    managed(twin, "success", name)
    assert story(twin, 20) == []
    plugged(twin, {SMALL: "7", WHOLE: "1"})
    assert story(twin, 600) == [(1, "n closed", False)]
    assert len(told(twin)) == 1


def test_a_device_plugin_that_says_nothing_is_waited_for_five_minutes() -> None:
    twin = a_twin(policy(), node(), *(pod(f"p{i}") for i in range(3)))
    managed(twin, "success", cut(twin))
    plugged(twin, {SMALL: "6"})
    assert story(twin, 600) == [(261, "n closed", False)], "looked at every five seconds, closed at 110 s"


def test_where_mig_manager_fails_its_pod_is_replaced() -> None:
    twin = a_twin(policy(), node(), node("m", strategy="none"), *(pod(f"p{i}") for i in range(3)))
    for name, on, app in (
        ("its", "n", "nvidia-mig-manager"),
        ("plugin", "n", "x"),
        ("other", "m", "nvidia-mig-manager"),
    ):
        one = pod(name, "cpu", on=on)
        one["metadata"]["labels"] = {"app": app}
        put(twin, one)
    managed(twin, "failed", cut(twin), "")
    assert story(twin, 20) == [(1, "n closed", False)]
    assert told(twin)[1:] == [
        (151, "n", "Warning", "RepartitioningFailed", "MIG Manager failed; its pod is replaced")
    ]
    leaving = [
        p["metadata"]["name"] for p in twin.store.objects("Pod") if "deletionTimestamp" in p["metadata"]
    ]
    assert leaving == ["its"]


@pytest.mark.parametrize(
    ("state", "tried"),
    [
        ("success", "fairway-1c7c3908a34 mig-manager-x"),
        ("pending", ""),
        ("rebooting", ""),
        ("success", "all-disabled mig-manager-x"),
    ],
)
def test_what_is_no_verdict_on_its_configuration_opens_nothing(state: str, tried: str) -> None:
    twin = a_twin(policy(), node(), *(pod(f"p{i}") for i in range(3)))
    name = cut(twin)
    patch(twin, labels={STATE: state}, notes={TRIED: tried or f"{name} mig-manager-x", LAYOUT: SEVEN})
    plugged(twin, {SMALL: "7"})
    assert story(twin, 900) == []


def busy(**labels: str) -> Obj:
    one = node()
    one["metadata"]["annotations"] |= labels
    return one


def cordoned() -> Obj:
    return {**node(), "spec": {"unschedulable": True}}


@pytest.mark.parametrize(
    ("one", "is_cut"),
    [
        (node(), True),
        (node(strategy="single"), False),
        (node(model="NVIDIA-L4"), False),
        (node(model="Nobody-Knows"), False),
        (node(state="pending"), False),
        (node(state="failed"), False),
        (busy(**{"fairway.dev/mig-run": "all-disabled x"}), False),
        (cordoned(), False),
    ],
)
def test_which_nodes_it_cuts(one: Obj, is_cut: bool) -> None:
    twin = a_twin(policy(), one, *(pod(f"p{i}") for i in range(3)))
    twin.run_for(200 * SECOND_US)
    assert (config(twin) is not None) is is_cut


def waits(one: Obj, **condition: str) -> Obj:
    one["status"] = {"phase": "Pending", "conditions": [condition]}
    return one


def asking(**resources: Obj) -> Obj:
    one = pod("first")
    one["spec"]["containers"] = [{"name": "c", "image": "i", "resources": resources}]
    return one


@pytest.mark.parametrize(
    ("first", "serves"),
    [
        (pod("first"), 3),
        (pod("first", count="2"), 4),
        (pod("first", count="1500"), 7),
        (pod("first", count="0"), 2),
        (pod("first", "cpu"), 2),
        (pod("first", "nvidia.com/mig-1g.20gb"), 3),
        (pod("first", phase="Succeeded"), 2),
        (pod("first", phase="Failed"), 2),
        (waits(pod("first"), type="PodScheduled", reason="SchedulingGated"), 2),
        (waits(pod("first"), type="Ready", reason="Unschedulable"), 2),
        (waits(pod("first"), type="PodScheduled", reason="Unschedulable"), 3),
        (asking(requests={SMALL: "3"}), 5),
        (asking(requests={SMALL: "3"}, limits={SMALL: "4"}), 6),
        (asking(requests={SMALL: "1"}, limits={"cpu": "4"}), 3),
        (asking(), 2),
    ],
)
def test_who_waits_for_how_many(first: Obj, serves: int) -> None:
    twin = a_twin(policy(), node(), first, *(pod(f"p{i}") for i in range(2)))
    cut(twin)
    ((_, _, _, _, words),) = told(twin)
    assert words.startswith(f"{serves} instances wait, ")


def test_containers_of_a_pod_are_added_up() -> None:
    first = pod("first")
    first["spec"]["containers"] *= 2
    twin = a_twin(policy(), node(), first, pod("second"))
    cut(twin)
    assert told(twin)[0][-1].startswith("3 instances wait, ")


@pytest.mark.parametrize(
    ("notes", "free"),
    [
        ({}, []),
        ({"gpu-index": "0"}, [1, 2]),
        ({"gpu-index": "2"}, [0, 1]),
        ({"gpu-index": "0,2"}, [1]),
        ({"gpu-index": "3"}, [0, 1, 2]),
        ({"gpu-index": "x,1"}, [0, 2]),
        ({"gpu-instances": "1/1g.10gb@0"}, [0, 2]),
        ({"gpu-instances": "1/1g.10gb@0", "gpu-index": "0"}, [2]),
    ],
)
def test_which_cards_a_pod_has(notes: Obj, free: list[int]) -> None:
    holder = pod("holder", WHOLE, on="n")
    holder["metadata"]["annotations"] = {f"fairway.dev/{k}": v for k, v in notes.items()}
    twin = a_twin(policy(), node(cards=3), holder, pod("p", count="21"))
    twin.run_for(150 * SECOND_US)
    file = twin.store.get(FILE)
    cuts = [] if file is None else [*yaml.safe_load(file["data"]["config.yaml"])["mig-configs"].values()][1]
    assert cuts == [{"devices": [card], "mig-enabled": True, "mig-devices": {"1g.10gb": 7}} for card in free]


def test_instances_that_are_free_serve_who_waits() -> None:
    """Seven of a card, of which a pod has that at 3, one each waits for six."""
    holder = pod("holder", on="n")
    holder["metadata"]["annotations"] = {"fairway.dev/gpu-instances": "0/1g.10gb@3"}
    twin = a_twin(policy(), node(cards=2, layout=SEVEN), holder, pod("p", count="6"))
    assert story(twin, 900) == []
    put(twin, pod("q"))
    assert [what for _, what, _ in story(twin, 900)] == ["file", "n closed", "n config"]


def test_it_matters_which_instance_a_pod_has() -> None:
    """The large one is free, whatever the small one is."""
    holder = pod("holder", on="n")
    holder["metadata"]["annotations"] = {"fairway.dev/gpu-instances": "0/1g.10gb@4"}
    twin = a_twin(policy(), node(cards=2, layout="0=3g.40gb@0,1g.10gb@4"), holder)
    put(twin, pod("large", "nvidia.com/mig-3g.40gb"))
    assert story(twin, 600) == []


def test_the_same_configuration_is_tried_again_as_a_new_one() -> None:
    twin = a_twin(policy(), node(), *(pod(f"p{i}") for i in range(3)))
    name = cut(twin)
    managed(twin, "failed", name, "")
    twin.run_for(10 * SECOND_US)
    patch(twin, labels={STATE: "success"})
    assert [(at, what) for at, what, _ in story(twin, 900)] == [(855, "n closed")], "left alone until 1015 s"
    assert config(twin) == name
    assert TRIED not in annotations_of(twin.store.require(Key("Node", "", "n")))


def test_a_card_is_whole_again_for_who_wants_it_whole() -> None:
    twin = a_twin(policy(), node(layout=SEVEN), pod("p", WHOLE))
    found = story(twin, 900)
    assert [(at, what) for at, what, _ in found] == [(420, "file"), (510, "n closed"), (515, "n config")]
    assert found[0][2].endswith("  - devices:\n    - 0\n    mig-enabled: false\n")
    assert told(twin)[0][-1] == "1 instances wait, 515 s in all: 1 cards; the change costs 420 s"
    managed(twin, "success", found[2][2], "")
    twin.store.delete(Key("Pod", "d", "p"))
    plugged(twin, {WHOLE: "1"})
    assert story(twin, 20) == [(1, "n closed", False)]
    # Changed at 515 s, it is left alone until 1415 s.
    put(twin, pod("small", count="7"))
    found = story(twin, 900)
    assert [(at, what) for at, what, _ in found] == [(495, "file"), (585, "n closed"), (590, "n config")]


@pytest.mark.parametrize(("after_s", "want"), [(100, []), (132, [(1, "n closed", False)]), (140, [])])
def test_who_waits_no_more_while_it_changes(after_s: int, want: list[tuple[int, str, Any]]) -> None:
    """Before the cordon nothing is done; before the label the node is opened; after it the change goes on."""
    twin = a_twin(policy(), node(cards=2), *(pod(f"p{i}") for i in range(3)))
    twin.run_for(after_s * SECOND_US)
    for i in range(3):
        twin.store.delete(Key("Pod", "d", f"p{i}"))
    assert story(twin, 600) == want


def test_what_comes_serves_who_waits_and_nothing_is_cut_twice() -> None:
    twin = a_twin(policy(), node(), node("o"), *(pod(f"p{i}") for i in range(3)))
    name = cut(twin)
    assert story(twin, 600, "n", "o") == []
    put(twin, pod("big", count="7"))
    found = story(twin, 600, "n", "o")
    # Three of ten are left over. The file has it already: nothing waits for the kubelet.
    assert found == [(20, "o closed", True), (25, "o config", name)]


def test_a_node_that_comes_again_is_another() -> None:
    twin = a_twin(policy(), node(), *(pod(f"p{i}") for i in range(3)))
    name = cut(twin)
    twin.store.delete(Key("Node", "", "n"))
    twin.run_for(5 * SECOND_US)
    twin.apply([node()])
    assert story(twin, 60) == [(1, "n closed", True), (6, "n config", name)]


def test_a_node_that_goes_while_it_is_closed_is_not_opened() -> None:
    twin = a_twin(policy(), node(cards=2), *(pod(f"p{i}") for i in range(3)))
    twin.run_for(132 * SECOND_US)
    twin.store.delete(Key("Node", "", "n"))
    for i in range(3):
        twin.store.delete(Key("Pod", "d", f"p{i}"))
    twin.run_for(60 * SECOND_US)
    assert twin.store.get(Key("Node", "", "n")) is None


def test_a_node_that_comes_again_by_its_name_is_closed_anew() -> None:
    twin = a_twin(policy(), node(cards=2), *(pod(f"p{i}") for i in range(3)))
    twin.run_for(132 * SECOND_US)
    assert closed(twin)
    twin.store.delete(Key("Node", "", "n"))
    put(twin, node(cards=2))
    twin.run_for(2 * SECOND_US)
    assert closed(twin) and config(twin) is None
    twin.run_for(5 * SECOND_US)
    assert config(twin) is not None


# The file


def configs(twin: Twin, key: Key = FILE) -> Obj:
    return dict(yaml.safe_load(twin.store.require(key)["data"]["config.yaml"])["mig-configs"])


def with_file(**entries: Any) -> Obj:
    text = yaml.safe_dump({"version": "v1", "mig-configs": entries}, sort_keys=False)
    meta = {"name": FILE.name, "namespace": FILE.namespace, "labels": {"own": "kept"}}
    data = {"config.yaml": text, "other": "kept"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def test_what_others_wrote_stays() -> None:
    off = [{"devices": [0], "mig-enabled": False}]
    twin = a_twin(with_file(**{"all-disabled": off, "mine": off}), policy(), node(), pod("p", count="7"))
    name = cut(twin)
    assert list(configs(twin)) == ["all-disabled", "mine", name]
    assert configs(twin)["all-disabled"] == configs(twin)["mine"] == off
    file = twin.store.require(FILE)
    assert (file["metadata"]["labels"], file["data"]["other"]) == ({"own": "kept"}, "kept")


@pytest.mark.parametrize("is_other", [False, True])
def test_what_somebody_took_out_of_the_file_is_written_again(is_other: bool) -> None:
    """Out of the file, or changed there: the kubelet has to bring it once more."""
    twin = a_twin(policy(), node(), *(pod(f"p{i}") for i in range(3)))
    twin.run_for(60 * SECOND_US)
    (name,) = [c for c in configs(twin) if c.startswith("fairway-")]
    off = [{"devices": "all", "mig-enabled": False}]
    twin.apply([with_file(**{"all-disabled": off}, **({name: off} if is_other else {}))])
    found = story(twin, 300)
    assert [(at, what) for at, what, _ in found] == [(50, "file"), (140, "n closed"), (145, "n config")]
    assert found[-1][2] == name
    assert list(configs(twin)) == ["all-disabled", name]
    assert configs(twin)[name] != off


@pytest.mark.parametrize(("old", "left"), [(199, 199), (200, 199), (203, 199)])
def test_two_hundred_configurations_are_kept(old: int, left: int) -> None:
    off = [{"devices": "all", "mig-enabled": False}]
    entries = {"mine": off} | {f"fairway-{i}": off for i in range(old)}
    twin = a_twin(with_file(**entries), policy(), node(), pod("p", count="7"))
    name = cut(twin)
    assert list(configs(twin)) == [
        "mine",
        *(f"fairway-{i}" for i in range(old - left, old)),
        "all-disabled",
        name,
    ]


def test_the_file_is_where_the_operator_is() -> None:
    twin = a_twin(policy(file="cuts"), node(), pod("p", count="7"))
    twin.store.set_status(Key("ClusterPolicy.nvidia.com", "", "cluster-policy"), {"namespace": "nvidia"})
    name = cut(twin)
    key = Key("ConfigMap", "nvidia", "cuts")
    assert list(configs(twin, key)) == ["all-disabled", name]
    assert twin.store.get(FILE) is None


def test_what_it_says_of_a_policy() -> None:
    twin = a_twin(policy(file=""), node(), pod("p", count="7"))
    twin.run_for(60 * SECOND_US)
    why = "migManager.config.name: expected a ConfigMap to write configurations to"
    assert told(twin) == [(0, "cluster-policy", "Warning", "NoConfigMap", why)]
    twin = a_twin({**with_file(), "data": {"config.yaml": "[1]"}}, policy(), node(), pod("p", count="7"))
    twin.run_for(60 * SECOND_US)
    assert [(at, name, reason) for at, name, _, reason, _ in told(twin)] == [
        (10, "cluster-policy", "UnreadableConfigMap")
    ]
    assert told(twin)[0][-1].startswith("mig-configs: ")
    assert not closed(twin)


# Who is listened to


def test_it_sleeps_until_a_policy_asks_for_it() -> None:
    twin = a_twin(policy(setting="off"), node(), pod("p", count="7"))
    assert story(twin, 300) == []
    twin.apply([policy("another")])
    assert [(at, what) for at, what, _ in story(twin, 300)] == [
        (1, "file"),
        (90, "n closed"),
        (95, "n config"),
    ]


def test_it_stops_when_no_policy_asks_any_more() -> None:
    twin = a_twin(policy(), node(), pod("p", count="7"))
    twin.run_for(50 * SECOND_US)
    twin.apply([policy(setting="off")])
    assert story(twin, 300) == []
    twin.apply([policy()])
    assert [(at, what) for at, what, _ in story(twin, 300)] == [(1, "n closed"), (6, "n config")]


def test_it_looks_as_seldom_as_it_can() -> None:
    twin = a_twin(policy(), node(cards=2), *(pod(f"p{i}") for i in range(3)))
    looks = list[tuple[int, int]]()
    for at in range(300):
        handled = twin.run_for(SECOND_US)
        looks += [(at, handled)] if handled else []
    # News and looks: as it wakes, at the end of the window, when it pays, for the cordon and for the label.
    assert looks == [(0, 2), (9, 1), (39, 2), (129, 2), (130, 1), (134, 2), (135, 1)]
    twin.apply([pod("none", "cpu")])
    assert twin.run_for(300 * SECOND_US) == 1, "told of, and of no interest"


@pytest.mark.parametrize("after_s", [5, 60, 132, 140, 160])
def test_a_copy_goes_on_as_its_original(after_s: int) -> None:
    twin = a_twin(policy(), node(cards=2), *(pod(f"p{i}") for i in range(3)))
    twin.run_for(after_s * SECOND_US)
    if after_s == 160:
        managed(twin, "success", config(twin) or "")
        plugged(twin, {SMALL: "7", WHOLE: "1"})
        twin.run_for(10 * SECOND_US)
    put(twin, pod("whole", WHOLE, "2"))
    copy = twin.fork()
    assert story(twin, 1500) == story(copy, 1500)
    assert twin.digest() == copy.digest()
    # What the original did since is not the copy's.
    assert twin.fork().digest() == twin.digest()


@pytest.mark.parametrize(
    ("limits", "requests", "asked"),
    [
        ({SMALL: "2"}, {}, {SMALL: 2}),
        ({}, {SMALL: "2"}, {SMALL: 2}),
        ({SMALL: "3"}, {SMALL: "2"}, {SMALL: 3}),
        ({SMALL: "1000"}, {}, {SMALL: 1000}),
        ({SMALL: "5k"}, {}, {SMALL: 1000}),
        ({WHOLE: "1", SMALL: "0", "nvidia.com/gpu.shared": "1", "cpu": "4"}, {}, {WHOLE: 1}),
    ],
)
def test_what_a_pod_asks_of_cards(limits: Obj, requests: Obj, asked: dict[str, int]) -> None:
    """A thousand of each at most: nobody has more, and each is looked at."""
    one = pod("p")
    one["spec"]["containers"] = [{"resources": {"limits": limits, "requests": requests}}, {"name": "d"}]
    assert _asks(one) == asked
