"""Who is next, how long a refused pod backs off, and which changes bring it back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from builders import GPU, HOSTNAME, ZONE, PodBuilder, node, pod
from fairway.cluster.changes import ADDED, DELETED, MODIFIED, Change
from fairway.cluster.records import PodRecord
from fairway.cluster.store import Store
from fairway.kube.objects import Key, key_of
from fairway.kube.resourceclaims import CLAIM as RESOURCE_CLAIM
from fairway.kube.timestamps import SECOND_US
from fairway.scheduling.queue import ACTIVE, BACKING_OFF, PARKED, LineKey, SchedulingQueue
from fairway.scheduling.requeue import (
    DevicesChanged,
    Happening,
    NodeChanged,
    PodMoved,
    VolumeChanged,
    happening,
    wake,
)


class Desk:
    """A queue, and a store to make records from."""

    def __init__(self) -> None:
        self.store = Store()
        self.queue = SchedulingQueue()
        self.now_us = 0

    def add(self, made: PodBuilder, line: int | None = None) -> Key:
        stored = self.store.create(made.build())
        record = self.store.accounts.record(stored, key_of(stored))
        self.queue.add(record, self.line(record, line), self.now_us)
        return record.key

    def line(self, record: PodRecord, number: int | None) -> LineKey:
        return (record.shape.id if number is None else number, -1, None)

    def head(self) -> str:
        found = self.queue.head(self.now_us)
        return found.key.name if found else ""

    def refuse(self, *plugins: str) -> None:
        found = self.queue.head(self.now_us)
        assert found is not None
        self.queue.park(found, plugins, self.now_us)

    def admit(self) -> str:
        found = self.queue.head(self.now_us)
        assert found is not None
        self.queue.admitted(found)
        return found.key.name

    def state(self, key: Key) -> str:
        line = self.queue.line_of(key)
        assert line is not None
        return line.state


def test_higher_priority_first_then_older() -> None:
    desk = Desk()
    for name, priority in (("a", 0), ("b", 10), ("c", 0), ("d", 10)):
        desk.add(pod(name).priority(priority).cpu(ord(name)))
        desk.now_us += 1
    assert [desk.admit() for _ in range(4)] == ["b", "d", "a", "c"]


def test_pods_of_one_shape_stand_in_one_line_by_age() -> None:
    desk = Desk()
    keys = [desk.add(pod(n)) for n in ("z", "y", "x")]
    assert desk.queue.line_of(keys[0]) is desk.queue.line_of(keys[2])
    assert [desk.admit() for _ in range(3)] == ["z", "y", "x"]


def test_a_refused_head_parks_its_whole_line() -> None:
    desk = Desk()
    keys = [desk.add(pod(n)) for n in ("a", "b")]
    desk.add(pod("c").cpu(1))
    desk.refuse("NodeResourcesFit")
    assert [desk.state(k) for k in keys] == [PARKED, PARKED]
    assert desk.head() == "c"


def test_nothing_to_do_with_every_line_parked() -> None:
    desk = Desk()
    desk.add(pod("a"))
    desk.refuse("NodeResourcesFit")
    assert desk.head() == ""
    assert not desk.queue.has_work(desk.now_us)


def test_backoff_doubles_from_one_second_to_ten() -> None:
    queue = SchedulingQueue()
    assert [queue.backoff_us(n) // SECOND_US for n in range(7)] == [0, 1, 2, 4, 8, 10, 10]


def test_backoff_limits_are_settings() -> None:
    queue = SchedulingQueue(2 * SECOND_US, 5 * SECOND_US)
    assert [queue.backoff_us(n) // SECOND_US for n in (1, 2, 3)] == [2, 4, 5]


def test_an_event_within_the_backoff_leaves_a_line_backing_off() -> None:
    desk = Desk()
    key = desk.add(pod("a"))
    desk.refuse("NodeResourcesFit")
    desk.queue.unpark_all(desk.now_us)
    assert desk.state(key) == BACKING_OFF
    desk.now_us = SECOND_US
    assert desk.head() == "a"
    assert desk.state(key) == ACTIVE


def test_an_event_after_the_backoff_makes_a_line_active_at_once() -> None:
    desk = Desk()
    key = desk.add(pod("a"))
    desk.refuse("NodeResourcesFit")
    desk.now_us = 2 * SECOND_US
    desk.queue.unpark_all(desk.now_us)
    assert desk.state(key) == ACTIVE


def test_with_nothing_active_a_line_is_tried_before_its_backoff_ends() -> None:
    desk = Desk()
    desk.add(pod("a"))
    desk.refuse("NodeResourcesFit")
    desk.queue.unpark_all(desk.now_us)
    assert desk.head() == "a"


def test_but_anything_active_goes_first() -> None:
    desk = Desk()
    desk.add(pod("a").priority(100))
    desk.refuse("NodeResourcesFit")
    desk.queue.unpark_all(desk.now_us)
    desk.add(pod("b"))
    assert desk.head() == "b"


def test_of_two_backing_off_the_one_that_is_done_first() -> None:
    desk = Desk()
    desk.add(pod("a").cpu(1))
    desk.refuse("NodeResourcesFit")
    desk.now_us = SECOND_US // 2
    desk.add(pod("b").cpu(2).priority(5))
    desk.refuse("NodeResourcesFit")
    desk.queue.unpark_all(desk.now_us)
    assert desk.head() == "a"


def test_refusals_add_up_and_an_admission_forgets_them() -> None:
    desk = Desk()
    key = desk.add(pod("a"))
    desk.add(pod("b"))
    for _ in range(3):
        desk.refuse("NodeResourcesFit")
        desk.now_us += 20 * SECOND_US
        desk.queue.unpark_all(desk.now_us)
    line = desk.queue.line_of(key)
    assert line is not None
    assert line.refusals == 3
    desk.admit()
    assert line.refusals == 0
    assert desk.head() == "b"


def test_a_refused_pod_queues_behind_those_that_came_meanwhile() -> None:
    desk = Desk()
    desk.add(pod("a").cpu(1))
    desk.now_us = 1
    desk.add(pod("b").cpu(2))
    desk.now_us = 2
    desk.refuse("NodeResourcesFit")
    desk.now_us = 60 * SECOND_US
    desk.queue.unpark_all(desk.now_us)
    assert [desk.admit(), desk.admit()] == ["b", "a"]


def test_a_refusal_nobody_can_explain_is_tried_again_after_the_backoff() -> None:
    desk = Desk()
    desk.add(pod("a"))
    desk.refuse()
    assert (desk.head(), desk.queue.retry_at_us()) == ("", SECOND_US)
    desk.now_us = SECOND_US
    assert desk.head() == "a"


def test_a_pod_that_is_gone_is_not_tried() -> None:
    desk = Desk()
    first, _ = desk.add(pod("a")), desk.add(pod("b"))
    desk.queue.remove(first)
    assert desk.head() == "b"
    desk.queue.remove(Key("Pod", "default", "b"))
    assert (desk.head(), len(desk.queue)) == ("", 0)


def test_a_pod_queued_again_is_queued_once() -> None:
    desk = Desk()
    key = desk.add(pod("a"))
    queued = desk.queue.pod(key)
    assert queued is not None
    desk.queue.add(queued.record, desk.line(queued.record, 7), 5)
    assert len(desk.queue) == 1
    line = desk.queue.line_of(key)
    assert line is not None
    assert line.key[0] == 7


def test_a_preemptor_waits_by_itself() -> None:
    desk = Desk()
    key, other = desk.add(pod("a")), desk.add(pod("b"))
    queued = desk.queue.pod(key)
    assert queued is not None
    desk.queue.set_apart(queued, desk.now_us, ("NodeResourcesFit",))
    assert desk.state(key) == PARKED
    assert desk.state(other) == ACTIVE
    assert desk.head() == "b"


def test_a_fork_goes_its_own_way() -> None:
    desk = Desk()
    for name in ("a", "b", "c"):
        desk.add(pod(name).cpu(ord(name)))
    desk.refuse("NodeResourcesFit")
    twin = desk.queue.fork()
    assert [q.key.name for q in twin.pods()] == [q.key.name for q in desk.queue.pods()]
    desk.admit()
    head = twin.head(desk.now_us)
    assert head is not None
    assert head.key.name == "b"
    assert len(twin) == 3


# What brings a refused pod back


@dataclass
class Wake:
    """Does `change`, made by `do` on a store with nodes n1 and n2, wake `waiting` refused by `plugins`?"""

    waiting: PodBuilder
    plugins: tuple[str, ...]
    do: str
    want: bool
    running: PodBuilder = field(default_factory=lambda: pod("r").cpu(2))


FIT = ("NodeResourcesFit",)

WAKES = {
    "room for a pod that fits": Wake(pod("w").cpu(2), FIT, "delete r", True),
    "too little room": Wake(pod("w").cpu(5), FIT, "delete r", False),
    "a pod that ended": Wake(pod("w").cpu(2), FIT, "finish r", True),
    "a pod that came": Wake(pod("w").cpu(2), FIT, "bind", False),
    "victims of lower priority on the node": Wake(
        pod("w").cpu(4).priority(10), FIT, "delete r", True, pod("r").cpu(1)
    ),
    "a new node": Wake(pod("w").cpu(2), FIT, "add node", True),
    "a node that changed": Wake(pod("w").cpu(2), ("TaintToleration",), "label node", True),
    "a heartbeat": Wake(pod("w").cpu(2), ("TaintToleration",), "beat node", False),
    "a node that went, and nobody spreads": Wake(pod("w").cpu(2), FIT, "drop node", False),
    "a node that went, and somebody spreads": Wake(pod("w"), ("PodTopologySpread",), "drop node", True),
    "a port given back": Wake(pod("w").port(80), ("NodePorts",), "delete r", True, pod("r").port(80)),
    "a pod for one that wants to be near": Wake(pod("w").near(ZONE), ("InterPodAffinity",), "bind", True),
    "one gone for one that wants to be apart": Wake(pod("w"), ("InterPodAffinity",), "delete r", True),
    "labels changed": Wake(pod("w"), ("PodTopologySpread",), "relabel r", True),
    "a deletion that began": Wake(pod("w"), ("PodTopologySpread",), "end r", True),
    "a kubelet's report": Wake(pod("w"), ("PodTopologySpread",), "report r", False),
    "taints do not care for pods": Wake(pod("w"), ("TaintToleration",), "delete r", False),
    "a pod that shrank": Wake(pod("w").cpu(3), FIT, "shrink r", True),
    "nobody of lower priority on the node": Wake(
        pod("w").cpu(5).priority(10), FIT, "delete r", False, pod("r").cpu(1)
    ),
    "somebody waiting who is relabelled": Wake(pod("w"), ("PodTopologySpread",), "relabel pending", False),
    "a nominated pod that went": Wake(pod("w").cpu(2), FIT, "delete nominated", True),
    "a nomination that is void": Wake(pod("w").cpu(2), FIT, "clear nominated", True),
    "a nominated pod bound elsewhere": Wake(pod("w").cpu(2), FIT, "bind nominated", True),
    "somebody waiting who went": Wake(pod("w").cpu(2), FIT, "delete pending", False),
}


def _change(store: Store, do: str) -> Change:
    verb, _, what = do.partition(" ")
    key = Key("Pod", "default", what)
    stored: dict[str, Any] | None = store.get(key)
    if what == "node":
        old = store.require(Key("Node", "", "n2"))
        if verb == "add":
            store.create(node("n3").build())
        elif verb == "drop":
            store.delete(Key("Node", "", "n2"))
        elif verb == "label":
            store.replace({**old, "metadata": {**old["metadata"], "labels": {HOSTNAME: "x"}}})
        else:
            store.set_status(Key("Node", "", "n2"), {**old["status"], "conditions": [{"type": "Ready"}]})
    elif do == "bind":
        store.create(pod("new").build())
        store.bind(Key("Pod", "default", "new"), "n2", {"phase": "Running"})
    elif verb == "bind":
        store.bind(key, "n1", {"phase": "Pending"})
    elif verb == "clear":
        store.set_status(key, {"phase": "Pending"})
    elif stored is not None and verb == "delete":
        store.delete(key, grace_s=0)
    elif verb == "end":
        store.delete(key, grace_s=30)
    elif stored is not None and verb in ("finish", "report"):
        phase = "Succeeded" if verb == "finish" else "Running"
        store.set_status(key, {**stored["status"], "phase": phase, "podIP": "10.0.0.1"})
    elif stored is not None and verb == "relabel":
        store.replace({**stored, "metadata": {**stored["metadata"], "labels": {"app": "x"}}})
    elif stored is not None and verb == "shrink":
        small = pod("r").cpu(1).build()["spec"]["containers"]
        store.replace({**stored, "spec": {**stored["spec"], "containers": small}})
    return store.log.at(store.version)


@pytest.mark.parametrize("name", WAKES)
def test_requeue(name: str) -> None:
    case = WAKES[name]
    desk = Desk()
    store = desk.store
    for builder in (node("n1").cpu(4).zone("a"), node("n2").cpu(4).zone("b")):
        store.create(builder.build())
    running = store.create(case.running.build())
    store.bind(key_of(running), "n2", {"phase": "Running"})
    for other, status in (("nominated", {"phase": "Pending", "nominatedNodeName": "n2"}), ("pending", {})):
        made = store.create(pod(other).build())
        store.set_status(key_of(made), {"phase": "Pending", **status})
    key = desk.add(case.waiting)
    desk.refuse(*case.plugins)
    desk.now_us = 60 * SECOND_US
    event = happening(_change(store, case.do))
    if event is not None:
        wake(desk.queue, store.accounts, event, desk.now_us)
    assert (desk.state(key) == ACTIVE) is case.want


def test_a_resource_that_no_profile_checks_keeps_nobody_asleep() -> None:
    desk = Desk()
    store = desk.store
    store.create(node("n1").cpu(4).gpu(0).build())
    running = store.create(pod("r").cpu(2).build())
    store.bind(key_of(running), "n1", {"phase": "Running"})
    key = desk.add(pod("w").cpu(4).gpu(1))
    desk.refuse("NodeResourcesFit")
    desk.now_us = 60 * SECOND_US
    store.delete(key_of(running), grace_s=0)
    event = happening(store.log.at(store.version))
    assert event is not None
    wake(desk.queue, store.accounts, event, desk.now_us)
    assert desk.state(key) == PARKED
    wake(desk.queue, store.accounts, event, desk.now_us, lambda resource: resource == GPU)
    assert desk.state(key) == ACTIVE


# Volumes, devices, extenders


VOLUMES = ("VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone")
DEVICES = ("DynamicResources",)
_CLAIM, _DEVICE_CLAIM = Key("PersistentVolumeClaim", "default", "c"), Key(RESOURCE_CLAIM, "default", "c")


def _claiming(name: str, *claims: str, own: tuple[str, ...] = ()) -> PodBuilder:
    volumes: list[dict[str, Any]] = [{"name": "v", "persistentVolumeClaim": {"claimName": c}} for c in claims]
    volumes += [{"name": c, "ephemeral": {"volumeClaimTemplate": {}}} for c in own]
    return pod(name).spec(volumes=volumes)


def _woken(waiting: PodBuilder, plugins: tuple[str, ...], event: Happening, **how: Any) -> bool:
    desk = Desk()
    desk.store.create(node("n1").cpu(4).build())
    key = desk.add(waiting)
    desk.refuse(*plugins)
    desk.now_us = 60 * SECOND_US
    wake(desk.queue, desk.store.accounts, event, desk.now_us, **how)
    return desk.state(key) == ACTIVE


@pytest.mark.parametrize("plugin", [*VOLUMES, "NodeResourcesFit", "DynamicResources"])
def test_news_of_volumes_are_for_those_whom_volumes_refused(plugin: str) -> None:
    is_about = plugin in VOLUMES
    other = Key("PersistentVolumeClaim", "other", "c")
    for waiting, claim, is_theirs in (
        (_claiming("w", "c"), None, True),
        (_claiming("w", "c"), _CLAIM, True),
        (_claiming("w", "c"), other, False),
        (_claiming("w", "d", "c"), _CLAIM, True),
        (_claiming("w", "d"), _CLAIM, False),
        (_claiming("w", own=("c",)), _CLAIM, False),
        (_claiming("w", own=("c",)), _CLAIM._replace(name="w-c"), True),
    ):
        assert _woken(waiting, (plugin,), VolumeChanged(claim)) is (is_about and is_theirs)


def test_a_pod_that_leaves_gives_back_what_it_holds_of_volumes() -> None:
    for plugin in VOLUMES:
        is_freed = plugin in ("VolumeRestrictions", "NodeVolumeLimits")
        assert _woken(_claiming("w", "c"), (plugin,), PodMoved("n1", came=False, left=True)) is is_freed
        assert not _woken(_claiming("w", "c"), (plugin,), PodMoved("n1", came=True, left=False))
        assert not _woken(_claiming("w", "c"), (plugin,), PodMoved("nowhere", came=False, left=True))
        assert _woken(_claiming("w", "c"), (plugin,), PodMoved("x", True, False, freed="n1")) is is_freed


@pytest.mark.parametrize(
    ("event", "plugins", "uses", "want"),
    [
        (DevicesChanged(), DEVICES, False, True),
        (DevicesChanged(), FIT, False, False),
        (DevicesChanged(is_class=True), FIT, False, True),
        (DevicesChanged(is_class=True), DEVICES, False, True),
        (DevicesChanged(is_class=True), ("TaintToleration",), False, False),
        (DevicesChanged(_DEVICE_CLAIM, is_freed=True), DEVICES, False, True),
        (DevicesChanged(_DEVICE_CLAIM, is_freed=True), FIT, True, False),
        (DevicesChanged(_DEVICE_CLAIM, is_new=True), DEVICES, True, True),
        (DevicesChanged(_DEVICE_CLAIM, is_new=True), DEVICES, False, False),
        (DevicesChanged(_DEVICE_CLAIM), DEVICES, True, False),
    ],
)
def test_news_of_devices(event: DevicesChanged, plugins: tuple[str, ...], uses: bool, want: bool) -> None:
    asked: list[tuple[str, Key]] = []

    def says(waiting: Key, claim: Key) -> bool:
        asked.append((waiting.name, claim))
        return uses

    assert _woken(pod("w"), plugins, event, uses=says) is want
    assert all(each == ("w", _DEVICE_CLAIM) for each in asked)
    if plugins == DEVICES and event.is_new:
        assert _woken(pod("w"), plugins, event)


def test_whom_an_extender_refused_anything_may_help() -> None:
    for event in (
        PodMoved("n1", came=True, left=False),
        NodeChanged("n1", is_gone=True),
        VolumeChanged(None),
        DevicesChanged(),
    ):
        assert _woken(pod("w"), ("Extender", "TaintToleration"), event)
        assert not _woken(pod("w"), ("TaintToleration",), event)


def test_room_is_what_the_node_has_left() -> None:
    moved = PodMoved("n1", came=False, left=True)
    for plugin in ("NodeResourcesFit", "GpuShare"):
        assert _woken(pod("w").cpu(4), (plugin,), moved)
        assert not _woken(pod("w").cpu("4001m"), (plugin,), moved)
    assert _woken(pod("w").cpu(9), ("NodePorts",), moved)
    assert not _woken(pod("w").cpu(1), ("NodeName",), moved)
    desk = Desk()
    desk.store.create(node("n1").pods(1).build())
    key = desk.add(pod("w"))
    desk.refuse("NodeResourcesFit")
    desk.now_us = 60 * SECOND_US
    held = desk.store.create(pod("r").build())
    desk.store.bind(key_of(held), "n1", {"phase": "Running"})
    wake(desk.queue, desk.store.accounts, moved, desk.now_us)
    assert desk.state(key) == PARKED
    desk.store.delete(key_of(held), grace_s=0)
    wake(desk.queue, desk.store.accounts, moved, desk.now_us)
    assert desk.state(key) == ACTIVE


def _object(kind: str, group: str = "v1", **body: Any) -> dict[str, Any]:
    return {"apiVersion": group, "kind": kind, "metadata": {"name": "c"}, **body}


RESOURCE = "resource.k8s.io/v1"


def test_what_changes_mean_to_pending_pods() -> None:
    store = Store()

    def last() -> Happening | None:
        return happening(store.log.at(store.version))

    for made, gk, namespace, want in (
        (_object("PersistentVolumeClaim"), "PersistentVolumeClaim", "default", VolumeChanged(_CLAIM)),
        (_object("PersistentVolume"), "PersistentVolume", "", VolumeChanged(None)),
        (
            _object("StorageClass", "storage.k8s.io/v1"),
            "StorageClass.storage.k8s.io",
            "",
            VolumeChanged(None),
        ),
        (_object("CSINode", "storage.k8s.io/v1"), "CSINode.storage.k8s.io", "", VolumeChanged(None)),
        (_object("ResourceSlice", RESOURCE), "ResourceSlice.resource.k8s.io", "", DevicesChanged()),
        (_object("DeviceClass", RESOURCE), "DeviceClass.resource.k8s.io", "", DevicesChanged(is_class=True)),
        (
            _object("ResourceClaim", RESOURCE),
            RESOURCE_CLAIM,
            "default",
            DevicesChanged(_DEVICE_CLAIM, is_new=True),
        ),
        (_object("ConfigMap"), "ConfigMap", "default", None),
    ):
        store.create(made)
        assert last() == want
        store.delete(Key(gk, namespace, "c"))
        assert last() is None
    store.create(_object("ResourceClaim", RESOURCE, spec={}))
    has, other = {"allocation": {"a": 1}}, {"allocation": {"a": 2}}
    for status, want in (
        (has, DevicesChanged(_DEVICE_CLAIM, is_freed=False, is_new=True)),
        (other, DevicesChanged(_DEVICE_CLAIM, is_freed=False, is_new=True)),
        ({"reservedFor": []}, DevicesChanged(_DEVICE_CLAIM, is_freed=True, is_new=True)),
        ({"reservedFor": [1]}, DevicesChanged(_DEVICE_CLAIM, is_freed=False, is_new=True)),
    ):
        store.set_status(_DEVICE_CLAIM, status)
        assert last() == want
    found = store.require(_DEVICE_CLAIM)
    store.replace({**found, "metadata": {**found["metadata"], "labels": {"a": "b"}}})
    assert last() is None
    store.create(node("n").build())
    assert last() == NodeChanged("n")
    store.delete(Key("Node", "", "n"))
    assert last() == NodeChanged("n", is_gone=True)


# Lines


def test_who_was_never_told_is_told_with_the_line() -> None:
    desk = Desk()
    keys = [desk.add(pod(n)) for n in "abc"]
    line = desk.queue.line_of(keys[0])
    assert line is not None
    assert [q.key.name for q in desk.queue.untold(line.key)] == ["a", "b", "c"]
    first = desk.queue.pod(keys[0])
    assert first is not None
    first.is_told = True
    desk.queue.remove(keys[1])
    assert [q.key.name for q in desk.queue.untold(line.key)] == ["c"]
    assert list(desk.queue.untold((-9, -1, None))) == []
    assert (desk.queue.pod(keys[1]), desk.queue.line_of(keys[1])) == (None, None)


def test_a_ticket_tells_which_lines_were_parked_after_a_moment() -> None:
    desk = Desk()
    first, second = desk.add(pod("a").cpu(1)), desk.add(pod("b").cpu(2))
    desk.refuse("NodePorts")
    moment = desk.queue.ticket
    desk.refuse("NodePorts")
    assert desk.queue.has_parked
    tickets = [desk.queue.line_of(key).ticket for key in (first, second)]  # type: ignore[union-attr]
    assert tickets[0] <= moment < tickets[1] == desk.queue.ticket
    desk.queue.unpark_all(60 * SECOND_US)
    assert not desk.queue.has_parked


def _at(place: str) -> dict[str, Any]:
    """`n`: on a node; `~m`: nominated to one; `n~m`: both; `n!`: it ended there."""
    where, _, nominated = place.partition("~")
    phase = "Failed" if where.endswith("!") else "Running"
    spec = {"containers": [], **({"nodeName": where.strip("!")} if where else {})}
    status = {"phase": phase, **({"nominatedNodeName": nominated} if nominated else {})}
    return {"metadata": {"name": "p", "namespace": "default"}, "spec": spec, "status": status}


@pytest.mark.parametrize("before", ["none", "", "~m", "n", "n~m", "n!", "n!~m"])
@pytest.mark.parametrize("now", ["gone", "", "~m", "~k", "n", "n~m", "m", "m~m", "k~m", "n!", "n!~m"])
def test_where_a_pod_was_and_is_tells_what_it_frees(before: str, now: str) -> None:
    """It frees the node it left, and one that it was nominated to while on none, unless it is there or still means to
    come; pods that ended are nowhere."""
    if (before, now) == ("none", "gone"):
        return
    old = None if before == "none" else _at(before)
    obj = _at(before if now == "gone" else now)
    kind = ADDED if old is None else DELETED if now == "gone" else MODIFIED

    def parts(place: str) -> tuple[str, str]:
        if place in ("none", "gone"):
            return "", ""
        where, _, nominated = place.partition("~")
        return ("" if where.endswith("!") else where), nominated

    (was, meant), (here, means) = parts(before), parts(now)
    held = meant if not was else ""
    freed = held if held and (here or means) != held else ""
    want: PodMoved | None = None
    if here != was:
        want = PodMoved(here or was, came=bool(here), left=bool(was), freed=freed)
    elif freed:
        want = PodMoved(freed, came=False, left=True)
    assert happening(Change(1, kind, Key("Pod", "default", "p"), obj, old)) == want


def test_what_is_left_of_a_node_is_what_pods_there_do_not_ask_for() -> None:
    """Pods of lower priority there may be evicted; those of the same may not."""
    moved = PodMoved("n1", came=False, left=True)
    for asks, priority, want in ((3, 0, True), (4, 0, False), (4, 1, True), (9, 1, True), (9, -1, False)):
        desk = Desk()
        desk.store.create(node("n1").cpu(4).build())
        held = desk.store.create(pod("r").cpu(1).build())
        desk.store.bind(key_of(held), "n1", {"phase": "Running"})
        key = desk.add(pod("w").cpu(asks).priority(priority))
        desk.refuse("NodeResourcesFit")
        desk.now_us = 60 * SECOND_US
        wake(desk.queue, desk.store.accounts, moved, desk.now_us)
        assert (desk.state(key) == ACTIVE) is want, (asks, priority)


@pytest.mark.parametrize("where", ["", "n"])
def test_labels_and_deletions_of_pods_that_are_nowhere_help_nobody(where: str) -> None:
    old = _at(where)
    for news in ({"labels": {"app": "x"}}, {"deletionTimestamp": "2026-01-01T00:00:00Z"}):
        obj = {**old, "metadata": {**old["metadata"], **news}}
        found = happening(Change(1, MODIFIED, Key("Pod", "default", "p"), obj, old))
        assert found == (PodMoved("n", came="labels" in news, left=True) if where else None)
        # What is said already is no news.
        again = happening(Change(1, MODIFIED, Key("Pod", "default", "p"), obj, obj))
        assert again is None
