"""Who is next, how long a refused pod backs off, and which changes bring it back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from builders import GPU, HOSTNAME, ZONE, PodBuilder, node, pod
from fairway.cluster.changes import Change
from fairway.cluster.records import PodRecord
from fairway.cluster.store import Store
from fairway.kube.objects import Key, key_of
from fairway.kube.timestamps import SECOND_US
from fairway.scheduling.queue import ACTIVE, BACKING_OFF, PARKED, LineKey, SchedulingQueue
from fairway.scheduling.requeue import happening, wake


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
