"""One bad object stops nothing but itself: what components raise is contained, told once, and tried again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fairway.cluster.actions import Reconciliation
from fairway.cluster.changes import Change
from fairway.errors import BugError
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import SECOND_US
from fairway.twin.components import Host
from fairway.twin.containment import Containment, place
from fairway.twin.controllers import Controllers
from fairway.twin.distributions import constant
from fairway.twin.latency import NONE
from fairway.twin.loop import NODES
from fairway.twin.twin import Twin
from fairway.workloads.controller import Controller

S = SECOND_US
ODD = Key("ConfigMap", "d", "odd")


def config(name: str, **data: str) -> Obj:
    meta = {"name": name, "namespace": "d"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


class Reader:
    """Reads `data.must` of every ConfigMap."""

    kinds = ("ConfigMap",)

    def __init__(self, name: str = "reader", must: str = "must") -> None:
        self.name = name
        self.must = must
        self.seen: list[tuple[str, str, bool]] = []
        self.handled: list[Any] = []
        self.tried = 0

    def attach(self, host: Host) -> None:
        self.host = host
        self.handle = host.loop.register(f"{self.name}.handle", self._on_handle)

    def start(self) -> None: ...

    def observe(self, change: Change) -> None:
        self.tried += 1
        if self.must:
            _ = change.obj["data"][self.must]
        self.seen.append((change.key.name, change.type, change.old is not None))

    def _on_handle(self, data: Any) -> None:
        self.tried += 1
        obj = self.host.store.get(data) if isinstance(data, Key) else None
        if obj is not None:
            _ = obj["data"]["must"]
        elif data == "broken" and self.must:
            raise ZeroDivisionError
        self.handled.append(data)

    def fork(self) -> Reader:
        twin = Reader(self.name, self.must)
        twin.seen, twin.handled, twin.tried = list(self.seen), list(self.handled), self.tried
        return twin


class World:
    """A strict reader, an easy one behind it, and what was said."""

    def __init__(self, **options: Any) -> None:
        self.said: list[str] = []
        self.containment = Containment(tell=lambda text, _error: self.said.append(text), **options)
        self.strict, self.easy = Reader(), Reader("easy", "")
        self.twin = Twin(latency=NONE, components=[self.strict, self.easy], containment=self.containment)

    def apply(self, *objects: Obj) -> None:
        self.twin.apply(objects)
        self.twin.run(self.twin.now_us)


def test_everybody_else_hears_of_everything() -> None:
    world = World()
    world.apply(config("a", must="1"), config("odd"), config("z", must="1"))
    assert [name for name, _, _ in world.strict.seen] == ["a", "z"]
    assert [name for name, _, _ in world.easy.seen] == ["a", "odd", "z"]
    (failure,) = world.containment.standing()
    assert (failure.component, failure.about, failure.error) == ("reader", ODD, "KeyError: 'must'")
    assert world.containment.counts == {"reader": 1}
    assert world.containment.left_out("reader") == 1 and not world.containment.is_stopped("reader")


def test_it_is_said_once_with_name_kind_and_place() -> None:
    world = World()
    for i in range(3):
        world.apply(config("odd", again=str(i)))
    assert len(world.said) == 1
    assert world.said[0].startswith("reader: ConfigMap d/odd: KeyError: 'must' (")
    assert world.containment.standing()[0].times == 3


def test_of_thousands_the_first_are_named() -> None:
    world = World()
    world.apply(*(config(f"odd-{i}") for i in range(500)))
    assert len(world.said) == 10
    assert world.said[-1].endswith("further objects that fail here are only counted")
    assert world.containment.counts == {"reader": 500}


def test_it_is_tried_again_later_every_time() -> None:
    world = World()
    world.apply(config("odd"))
    tried = []
    for _ in range(8):
        before = world.strict.tried
        world.twin.run_for(S)
        tried.append(world.strict.tried - before)
    assert tried == [1, 0, 1, 0, 0, 0, 1, 0]


def test_what_is_mended_is_heard_as_if_never_seen() -> None:
    world = World()
    world.apply(config("odd"))
    world.apply(config("odd", must="1"))
    assert world.strict.seen == [("odd", "ADDED", False)]
    assert world.easy.seen == [("odd", "ADDED", False), ("odd", "MODIFIED", True)]
    assert world.containment.standing() == [] and world.containment.missed == {}


def test_the_state_before_is_the_one_it_saw_last() -> None:
    world = World()
    world.apply(config("odd", must="1"))
    world.apply(config("odd", bad="2"))
    world.apply(config("odd", bad="3"))
    seen: list[Change] = []
    world.strict.observe = seen.append  # type: ignore[method-assign]
    world.containment.hear("reader", seen.append, world.twin.store.log.at(world.twin.store.version))
    (change,) = seen
    assert change.old is not None and change.old["data"] == {"must": "1"}
    assert change.obj["data"] == {"bad": "3"}


def test_what_is_deleted_is_forgotten() -> None:
    world = World()
    world.apply(config("odd"))
    world.twin.store.delete(ODD)
    world.apply()
    tried = world.strict.tried
    world.twin.run_for(10_000 * S)
    assert world.strict.tried == tried
    assert world.containment.standing() == [] and world.containment.missed == {}


def test_an_event_is_handled_again() -> None:
    world = World()
    loop = world.twin.loop
    world.apply(config("odd"))
    loop.at(loop.now_us, world.strict.handle, ODD, NODES)
    loop.at(loop.now_us, world.strict.handle, "fine", NODES)
    world.twin.run(loop.now_us)
    assert world.strict.handled == ["fine"]
    assert world.containment.standing()[-1].about == ODD
    world.twin.apply([config("odd", must="1")])
    world.twin.run_for(2 * S)
    assert world.strict.handled == ["fine", ODD]
    assert world.containment.standing() == []


def test_work_of_no_object_stops_its_component() -> None:
    world = World()
    loop = world.twin.loop
    loop.at(loop.now_us, world.strict.handle, "broken", NODES)
    world.twin.run(loop.now_us)
    assert world.containment.is_stopped("reader") and not world.containment.is_stopped("easy")
    assert world.containment.left_out("reader") == 0
    world.strict.must = ""
    world.twin.run_for(2 * S)
    assert not world.containment.is_stopped("reader")


def test_a_run_comes_to_an_end() -> None:
    world = World(tries=5)
    world.apply(config("odd"))
    world.twin.run()
    assert world.strict.tried == 6
    (failure,) = world.containment.standing()
    assert failure.next_us == 0


def test_what_is_let_through_ends_the_run() -> None:
    def observe(change: Change) -> None:
        raise BugError("more is taken than there is")

    world = World(lets_through=(BugError,))
    world.strict.observe = observe  # type: ignore[method-assign]
    world.containment.missed[ODD] = {}
    with pytest.raises(BugError, match="more is taken"):
        world.containment.hear("reader", observe, Change(1, "ADDED", ODD, config("odd"), None))


def test_without_a_containment_it_is_raised() -> None:
    twin = Twin(latency=NONE, components=[Reader()])
    twin.apply([config("odd")])
    with pytest.raises(KeyError):
        twin.run_for(S)


def test_a_watch_that_was_cut_short_goes_on_where_it_stopped() -> None:
    """Whoever loses changes would never get them back but by a restart."""
    reader = Reader()
    twin = Twin(latency=NONE, components=[reader])
    twin.apply([config("a", must="1"), config("odd"), config("z", must="1")])
    with pytest.raises(KeyError):
        twin.run_for(S)
    twin.apply([config("later", must="1")])
    twin.run_for(S)
    assert [name for name, _, _ in reader.seen] == ["a", "z", "later"]


def test_a_fork_has_its_own() -> None:
    world = World()
    world.apply(config("odd"))
    later = world.twin.fork()
    later.apply([config("odd", must="1")])
    later.run_for(S)
    found = later.host.containment
    assert found is not None and found.standing() == []
    assert len(world.containment.standing()) == 1


def test_what_was_there_before_is_introduced() -> None:
    first = Twin(latency=NONE)
    first.apply([config("a", must="1"), config("odd"), config("z", must="1")])
    reader, containment = Reader(), Containment(tell=lambda _text, _error: None)
    Twin(latency=NONE, components=[reader], store=first.store, containment=containment)
    assert [name for name, _, _ in reader.seen] == ["a", "z"]
    assert containment.left_out("reader") == 1


def controllers(reconcile: Callable[..., Reconciliation], qps: int = 0) -> tuple[Twin, Containment]:
    controller = Controller("c", "ConfigMap", ("ConfigMap",), lambda _view, change: (change.key,), reconcile)
    containment = Containment(tell=lambda _text, _error: None)
    components = [Controllers([controller])]
    return Twin(latency=NONE, components=components, containment=containment), containment


def test_a_controllers_other_keys_have_their_turn() -> None:
    seen: list[str] = []
    is_mended = False

    def reconcile(_view: object, key: Key, _now_us: int) -> Reconciliation:
        seen.append(key.name)
        if key.name == "odd" and not is_mended:
            raise TypeError("a list was expected")
        return Reconciliation()

    twin, containment = controllers(reconcile)
    twin.apply([config("a"), config("odd"), config("z")])
    twin.run(twin.now_us)
    assert seen == ["a", "odd", "z"]
    (failure,) = containment.standing()
    assert (failure.component, failure.doing, failure.about) == ("kube-controller-manager", "c", ODD)
    twin.run_for(S)
    assert 5 < seen.count("odd") < 12, "5 ms, doubling"
    is_mended = True
    twin.run_for(10 * S)
    assert containment.standing() == []


def test_a_place_is_told_innermost_first() -> None:
    try:
        Twin(latency=NONE).store.require(Key("Pod", "d", "x"))
    except Exception as error:
        assert place(error).startswith("cluster/store.py:")


def test_a_pass_over_many_says_which_it_left_out() -> None:
    world = World()
    world.apply(config("a", must="1"), config("odd", must="1"))
    for broken, want in ((("odd",), 1), ((), 0)):
        skipping = world.containment.skipping("reader", "reading it")
        for name in broken:
            skipping(config(name), KeyError("must"))
        skipping.done()
        assert world.containment.left_out("reader") == want
    assert len(world.said) == 1 and world.said[0].startswith("reader: ConfigMap d/odd:")


def test_an_event_may_carry_an_object() -> None:
    """The garbage collector's hold a change."""
    world = World()
    change = Change(1, "MODIFIED", ODD, config("odd"), None)
    world.apply(config("odd"))
    tried: list[Change] = []

    def handle(data: Change) -> None:
        tried.append(data)
        if len(tried) < 3:
            raise KeyError("uid")

    handler = world.twin.loop.register("collector.collect", handle)
    world.twin.loop.at(world.twin.now_us, handler, change)
    world.twin.run_for(10 * S)
    assert tried == [change] * 3
    assert not [f for f in world.containment.standing() if f.doing == "collector.collect"]


def test_what_went_before_it_was_tried_again_is_not_heard_of_again() -> None:
    """It is gone, and the news of that is still under way."""
    said: list[str] = []
    contains = Containment(tell=lambda text, _error: said.append(text))
    strict = Reader()
    twin = Twin(latency=replace(NONE, watch=constant(3 * S)), components=[strict], containment=contains)
    twin.apply([config("odd")])
    twin.run_for(3 * S)
    assert (strict.tried, [f.about for f in contains.standing()]) == (1, [ODD])
    twin.store.replace(config("odd", must="1"))
    twin.store.delete(ODD)
    twin.wake()
    twin.run_for(2 * S)
    assert (strict.tried, strict.seen, contains.standing(), contains.missed) == (1, [], [], {})
    twin.run_for(10 * S)
    assert [type_ for _, type_, _ in strict.seen] == ["MODIFIED", "DELETED"]
