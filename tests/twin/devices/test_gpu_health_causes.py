"""Every cause that a GPU can break of: what is written, said and ended, until when, and as before once it is mended."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.catalog.nodegpus import UNHEALTHY
from fairway.devices.breaking import cause_named, causes
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import MINUTE_US, SECOND_US
from fairway.twin.devices.gpuhealth import GpuHealth, _gpus_wanted, break_gpu
from fairway.twin.faults import Faults
from fairway.twin.kubelet.component import Kubelet
from fairway.twin.latency import NONE
from fairway.twin.twin import EPOCH_US, Twin

AT_US = EPOCH_US + 10 * SECOND_US


def node(name: str = "n") -> Obj:
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "4"}
    labels = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    status = {"capacity": amounts, "allocatable": amounts}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": status,
    }


def pod(name: str, gpus: int = 1, on: str = "n", **notes: str) -> Obj:
    limits = {"resources": {"limits": {"nvidia.com/gpu": str(gpus)}}} if gpus else {}
    said = {
        "fairway.dev/run-time": "24h",
        **{f"fairway.dev/{k.replace('_', '-')}": v for k, v in notes.items()},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "annotations": said},
        "spec": {
            "nodeName": on,
            "restartPolicy": "Never",
            "containers": [{"name": "c", "image": "i", **limits}],
        },
    }


class World:
    def __init__(self, *pods: Obj) -> None:
        parts: list[Any] = [Faults(), Kubelet(), GpuHealth()]
        self.twin = Twin(latency=NONE, components=parts, keep_records=1000)
        self.twin.apply([node(), node("m"), *pods])
        self.twin.run(AT_US)

    def breaks(self, card: int, cause: str, **how: Any) -> World:
        break_gpu(self.twin.host, "n", card, cause, **how)
        return self.after(0)

    def after(self, seconds: float) -> World:
        self.twin.run(self.twin.now_us + round(seconds * SECOND_US))
        return self

    @property
    def health(self) -> GpuHealth:
        found = self.twin.component("gpu-health")
        assert isinstance(found, GpuHealth)
        return found

    def phases(self) -> dict[str, str]:
        return {p["metadata"]["name"]: p["status"]["phase"] for p in self.twin.store.objects("Pod")}

    def node(self, name: str = "n") -> tuple[str, str, str, list[tuple[str, str, str, str]]]:
        """Unhealthy cards, GPUs to give, cordoned, and conditions that are no kubelet's."""
        obj = self.twin.store.require(Key("Node", "", name))
        kubelets = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")
        conditions = [
            (c["type"], c["status"], c["reason"], c.get("message", ""))
            for c in obj["status"].get("conditions") or ()
            if c["type"] not in kubelets
        ]
        notes = obj["metadata"].get("annotations") or {}
        cordoned = "cordoned" if (obj.get("spec") or {}).get("unschedulable") else ""
        return notes.get(UNHEALTHY, ""), obj["status"]["allocatable"]["nvidia.com/gpu"], cordoned, conditions

    def said(self) -> list[tuple[str, str, str, str]]:
        told = self.twin.host.events.told()
        return [(t.about.name, t.type, t.reason, t.message) for t in told if t.component == "kernel-monitor"]

    def noted(self) -> list[tuple[int, str, str]]:
        records = self.twin.host.log.records()
        return [
            ((r.time_us - AT_US) // SECOND_US, r.reason, r.message)
            for r in records
            if r.component == "gpu-health"
        ]


WELL: tuple[str, str, str, list[tuple[str, str, str, str]]] = ("", "4", "", [])


@pytest.mark.parametrize("named", causes())
def test_what_a_cause_does_until_it_is_mended(named: str) -> None:
    cause = cause_named(named)
    line = cause.log_line(2)
    world = World(pod("a"), pod("b"), pod("c", 2), pod("other", on="m"), pod("plain", 0)).breaks(2, named)
    world.after(1)
    ended = cause.ends == "card"
    running = dict.fromkeys(("a", "b", "other", "plain"), "Running")
    assert world.phases() == {**running, "c": "Failed" if ended else "Running"}
    conditions = [(cause.condition, "True", cause.condition, line)] if cause.condition else []
    broken = ("2", "3", "", conditions) if cause.unhealthy else ("", "4", "", conditions)
    assert (world.node(), world.node("m")) == (broken, WELL)
    said = [("n", "Warning", cause.condition or "XID", line)] if cause.xid or cause.condition else []
    said += [("c", "Warning", "GPUFailed", line)] if ended else []
    assert world.said() == said
    assert world.noted() == [(0, named, "2")]
    assert world.health.history == {("n", 2, named, AT_US): None}
    # A second before it is mended it is as it was.
    repair_s = round(cause.repair * 60)
    if repair_s:
        world.after(repair_s - 2)
        assert world.node() == broken and named in world.health.broken["n", 2]
    world.after(1)
    mended = [(cause.condition, "False", f"No{cause.condition}", "")] if cause.condition else []
    assert world.node() == ("", "4", "", mended if repair_s else conditions)
    assert world.health.broken == {("n", 2): {}}
    until = AT_US + repair_s * SECOND_US if repair_s else None
    assert world.health.history == {("n", 2, named, AT_US): until}
    assert world.noted()[1:] == ([(repair_s, f"{named}Mended", "2")] if repair_s else [])
    assert world.said() == said


@pytest.mark.parametrize(
    ("repair_s", "at_s", "broken"), [(60, 59, True), (60, 60, False), (-1, 10**6, True), (0, 3600, False)]
)
def test_how_long_it_takes_if_somebody_says_so(repair_s: int, at_s: int, broken: bool) -> None:
    world = World().breaks(0, "xid-79", repair_us=repair_s * SECOND_US).after(at_s)
    assert (world.node()[:2] == ("0", "3")) is broken


def test_cards_of_a_node_are_counted_together_and_conditions_stand_while_one_has_them() -> None:
    world = (
        World().breaks(3, "xid-94", repair_us=60 * SECOND_US).breaks(1, "xid-95", repair_us=120 * SECOND_US)
    )
    one, other = cause_named("xid-94").log_line(3), cause_named("xid-95").log_line(1)
    assert world.node() == ("1,3", "2", "", [("XIDErrors", "True", "XIDErrors", other)])
    world.after(60)
    assert world.node()[:3] == ("1", "3", "")
    assert world.node()[3][0][:3] == ("XIDErrors", "True", "XIDErrors")
    world.after(60)
    assert world.node() == ("", "4", "", [("XIDErrors", "False", "NoXIDErrors", "")])
    assert [line for _, _, _, line in world.said()] == [one, other]


def test_a_node_is_well_though_another_has_the_same_cause() -> None:
    world = World().breaks(1, "xid-95", repair_us=60 * SECOND_US)
    break_gpu(world.twin.host, "m", 2, "xid-95", repair_us=120 * SECOND_US)
    world.after(0)
    assert [world.node(name)[:2] for name in "nm"] == [("1", "3"), ("2", "3")]
    assert world.after(60).node() == ("", "4", "", [("XIDErrors", "False", "NoXIDErrors", "")])
    assert world.node("m")[3][0][:3] == ("XIDErrors", "True", "XIDErrors")


def test_parts_of_cards_are_given_up_with_them() -> None:
    world = World()
    amounts = {"nvidia.com/gpu": "4", "fairway.dev/gpu-milli": "4000"}
    known = world.twin.store.require(Key("Node", "", "n"))["status"]
    world.twin.store.set_status(Key("Node", "", "n"), {**known, "capacity": amounts, "allocatable": amounts})
    world.breaks(0, "xid-95", repair_us=60 * SECOND_US).breaks(3, "xid-95", repair_us=60 * SECOND_US)

    def free() -> Obj:
        return dict(world.twin.store.require(Key("Node", "", "n"))["status"]["allocatable"])

    assert free() == {"nvidia.com/gpu": "2", "fairway.dev/gpu-milli": "2000"}
    world.after(60)
    assert free() == amounts


def test_a_card_that_two_causes_broke_is_well_when_both_are_mended() -> None:
    world = (
        World().breaks(0, "xid-94", repair_us=60 * SECOND_US).breaks(0, "xid-74", repair_us=120 * SECOND_US)
    )
    world.breaks(0, "xid-74", repair_us=10 * SECOND_US)
    assert list(world.health.broken["n", 0]) == ["xid-94", "xid-74"] and len(world.noted()) == 2
    seen = [world.node()[:2], *(world.after(60).node()[:2] for _ in range(2))]
    assert seen == [("0", "3"), ("0", "3"), ("", "4")]
    # And once more, as if it had never been.
    assert world.breaks(0, "xid-74").node()[:2] == ("0", "3")


def test_whose_work_ends_is_said_on_pods_or_goes_by_their_turn() -> None:
    """One that names cards has those; of the others each has the next, in the order in which they came."""
    pods = [
        pod("named", gpu_index="3"),
        pod("range", gpu_index="0-1"),
        pod("cut", gpu_instances="2/1g.10gb@0"),
    ]
    for card, name in ((3, "named"), (0, "range"), (1, "range"), (2, "cut")):
        world = World(*pods).breaks(card, "xid-79").after(1)
        assert [n for n, phase in world.phases().items() if phase == "Failed"] == [name], card
    turns = [pod("a"), pod("b", 2), pod("named", gpu_index="3")]
    for card, names in ((0, ["a"]), (1, ["b"]), (2, ["b"]), (3, ["named"])):
        world = World(*turns).breaks(card, "xid-79").after(1)
        assert [n for n, phase in world.phases().items() if phase == "Failed"] == names, card


def test_a_drain_takes_all_that_have_gpus_but_daemons() -> None:
    daemon = pod("daemon")
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}
    daemon["metadata"]["ownerReferences"] = [owner]
    world = World(pod("a"), daemon, pod("plain", 0), pod("other", on="m"))
    world.breaks(3, "xid-63", drains=True).after(60)
    assert sorted(world.phases()) == ["daemon", "other", "plain"]
    assert world.node()[:3] == ("3", "3", "cordoned") and world.node("m") == WELL
    world.after(30 * 60)
    assert world.node()[:3] == ("", "4", "")


@pytest.mark.parametrize(("card", "breaks"), [(3, True), (4, False), (400, False)])
def test_a_card_that_is_not_there_does_not_break(card: int, breaks: bool) -> None:
    world = World().breaks(card, "xid-79")
    assert (
        bool(world.health.broken) is breaks and bool(world.noted()) is breaks and bool(world.said()) is breaks
    )


def test_a_node_that_is_gone_by_then_is_mended_without_a_word() -> None:
    world = World().breaks(0, "xid-79", repair_us=60 * SECOND_US)
    world.twin.store.delete(Key("Node", "", "n"))
    world.twin.wake()
    world.after(120)
    assert world.health.history == {("n", 0, "xid-79", AT_US): AT_US + MINUTE_US}
    assert world.health.broken == {("n", 0): {}} and [what for _, what, _ in world.noted()] == ["xid-79"]


@pytest.mark.parametrize(
    ("limits", "cards"),
    [
        ({"nvidia.com/gpu": "2"}, 2),
        ({"nvidia.com/gpu": "1", "nvidia.com/mig-1g.10gb": "2"}, 3),
        ({"fairway.dev/gpu-milli": "300"}, 1),
        ({"fairway.dev/gpu-milli": "1000"}, 1),
        ({"fairway.dev/gpu-milli": "2000"}, 2),
        ({"amd.com/gpu": "4", "cpu": "2"}, 0),
        ({}, 0),
    ],
)
def test_how_many_cards_a_pod_takes_its_turn_with(limits: dict[str, str], cards: int) -> None:
    asking = {"spec": {"containers": [{"name": "a", "resources": {"limits": limits}}, {"name": "b"}]}}
    assert _gpus_wanted(asking) == cards


def test_who_came_in_one_second_has_its_turn_by_namespace_and_name() -> None:
    others = pod("a")
    others["metadata"]["namespace"] = "zoo"
    for card, name in ((0, "b"), (1, "c"), (2, "a"), (3, "")):
        world = World(others, pod("c"), pod("b")).breaks(card, "xid-79").after(1)
        assert [n for n, phase in world.phases().items() if phase == "Failed"] == ([name] if name else [])
    late = World(pod("b"))
    late.twin.apply([pod("a")])
    late.after(1).breaks(0, "xid-79").after(1)
    assert late.phases() == {"a": "Running", "b": "Failed"}, "the first that came"


def test_of_what_broke_the_latest_hundred_thousand_are_known() -> None:
    world = World()
    world.health.history.update({("n", 0, "xid-13", at_us): at_us for at_us in range(99_999)})
    world.breaks(0, "xid-13")
    assert (len(world.health.history), next(iter(world.health.history))) == (100_000, ("n", 0, "xid-13", 0))
    world.breaks(1, "xid-13")
    assert (len(world.health.history), next(iter(world.health.history))) == (100_000, ("n", 0, "xid-13", 1))
