"""Failures that stand, to the last field: since when, how often, when again, where, what was said, and in a fork."""

from __future__ import annotations

from pathlib import Path

import pytest
from stepwise import lets_go_of_timers
from test_containment import ODD, World, config

import fairway
from fairway.cluster.changes import Change
from fairway.kube.objects import Key
from fairway.kube.timestamps import SECOND_US
from fairway.twin.containment import LIMITED_TRIES, Containment, Failure, _short, culprits, named, place
from fairway.twin.loop import NODES
from fairway.twin.twin import EPOCH_US, Twin

S = SECOND_US
PACKAGE = Path(fairway.__file__).parent
REPEATED = "left out and tried again, everything else goes on"


def without_place(failure: Failure) -> Failure:
    assert failure.where.startswith("test_containment.py:")
    return failure._replace(where="")


def test_a_failure_through_its_whole_life() -> None:
    """1 s, 2, 4, … and from the tenth on 1000 s; the first try is the change itself."""
    world = World()
    world.apply(config("odd"))
    at_s, tries = 0, 1
    for number in range(13):
        wait_s = min(2**number, 1000)
        want = Failure(
            *("reader", "hearing of it", ODD, "KeyError: 'must'", ""),
            since_us=EPOCH_US,
            times=tries,
            next_us=EPOCH_US + (at_s + wait_s) * S,
        )
        assert [without_place(f) for f in world.containment.standing()] == [want]
        world.twin.run(EPOCH_US + (at_s + wait_s) * S - 1)
        assert world.strict.tried == tries
        at_s, tries = at_s + wait_s, tries + 1
        world.twin.run(EPOCH_US + at_s * S)
        assert world.strict.tried == tries
    assert world.containment.counts == {"reader": 14} and len(world.said) == 1
    # Another change: it is heard at once, and the next try is a second later again.
    world.apply(config("odd", other="1"))
    (failure,) = world.containment.standing()
    assert (failure.times, failure.since_us, failure.next_us) == (15, EPOCH_US, world.twin.now_us + S)
    world.apply(config("odd", must="1"))
    assert world.containment.standing() == [] and world.twin.loop.next_time() is None
    # What fails once it went well begins anew.
    world.apply(config("odd"))
    (failure,) = world.containment.standing()
    assert (failure.times, failure.next_us) == (1, world.twin.now_us + S)
    world.twin.run_for(S)
    world.apply(config("odd", must="1"))
    lets_go_of_timers(world.twin)


def test_who_tries_again_by_itself_has_no_timer_that_is_called_off() -> None:
    world = World()
    handle = world.strict.handle
    assert [world.twin.loop.at(EPOCH_US + i * S, handle, i) for i in (1, 2)] == [1, 2]
    world.twin.store.create(config("odd", must="1"))
    world.containment.failed("reader", "reading", ODD, KeyError("x"))
    world.containment.succeeded("reader", "reading", ODD)
    world.twin.run_for(3 * S)
    assert world.strict.handled == [1, 2]


def test_an_event_that_fails_once_it_went_well_is_tried_again_a_second_later() -> None:
    world = World()
    loop = world.twin.loop
    loop.at(EPOCH_US, world.strict.handle, "broken")
    world.twin.run(EPOCH_US + 2 * S)
    (failure,) = world.containment.standing()
    assert (failure.times, failure.next_us) == (2, EPOCH_US + 3 * S)
    world.strict.must = ""
    world.twin.run(EPOCH_US + 3 * S)
    assert world.containment.standing() == []
    world.strict.must = "must"
    loop.at(EPOCH_US + 5 * S, world.strict.handle, "broken")
    world.twin.run(EPOCH_US + 5 * S)
    (failure,) = world.containment.standing()
    assert (failure.times, failure.next_us) == (1, EPOCH_US + 6 * S)


def test_of_very_many_failures_the_newest_stand() -> None:
    world = World()
    for number in range(10_002):
        world.containment.handler_failed(world.strict.handle, number, ValueError("v"))
    standing = world.containment.standing()
    assert len(standing) == 10_000 and world.containment.counts == {"reader": 10_002}
    # Of those that are forgotten nothing is tried again.
    world.twin.run(EPOCH_US + S)
    assert world.strict.handled == list(range(2, 10_002)) and world.containment.standing() == []


def test_in_a_run_that_ends_it_is_tried_again_for_three_hours() -> None:
    world = World(tries=LIMITED_TRIES)
    world.apply(config("odd"))
    world.twin.run()
    assert world.twin.now_us == EPOCH_US + (1023 + 10 * 1000) * S


def test_data_that_hold_an_object_are_named_once_by_the_key_beside_it() -> None:
    world = World()
    world.apply(config("odd", must="1"))

    def handle(data: object) -> None:
        raise ValueError

    loop = world.twin.loop
    loop.at(loop.now_us, loop.register("x.y", handle), (1, ODD, {}))
    world.twin.run_for(10 * S)
    assert [said.partition(" (")[0] for said in world.said] == ["x.y: ConfigMap d/odd: ValueError"]
    assert [(f.about, f.times) for f in world.containment.standing()] == [(ODD, 4)]


def test_without_anybody_to_tell_it_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "fairway.components")
    contains = Containment()
    Twin(containment=contains).host.log.flush()
    contains.failed("reader", "reading", ODD, KeyError("x"))
    (message,) = contains.messages
    assert [(r.levelname, r.message) for r in caplog.records] == [("ERROR", message), ("DEBUG", message)]
    assert [r.exc_info is not None for r in caplog.records] == [False, True]


@pytest.mark.parametrize(
    ("file", "want"),
    [
        (str(PACKAGE / "twin" / "loop.py"), "twin/loop.py"),
        ("fairway/twin/loop.py", "twin/loop.py"),
        ("/elsewhere/fairway/x.py", "x.py"),
        ("other/twin/loop.py", "loop.py"),
    ],
)
def test_files_of_ours_are_named_from_our_folder(file: str, want: str) -> None:
    """However they were compiled."""
    assert _short(file) == want


def test_tries_that_are_counted_start_again_with_a_change() -> None:
    world = World(tries=2)
    world.apply(config("odd"))
    world.twin.run()
    assert (world.strict.tried, world.containment.standing()[0].next_us) == (3, 0)
    world.apply(config("odd", again="1"))
    world.twin.run()
    assert (world.strict.tried, world.containment.standing()[0].next_us) == (6, 0)


def test_what_is_said() -> None:
    world = World()
    world.apply(config("odd"))
    (failure,) = world.containment.standing()
    assert (
        world.said
        == world.containment.messages
        == [f"reader: ConfigMap d/odd: KeyError: 'must' ({failure.where}); {REPEATED}"]
    )
    loop = world.twin.loop
    loop.at(loop.now_us, world.strict.handle, "broken", NODES)
    world.twin.run(loop.now_us)
    broken = world.containment.standing()[1]
    assert world.said[1] == f"reader: reader.handle: ZeroDivisionError ({broken.where}); {REPEATED}"
    assert (failure.subject, broken.subject) == ("ConfigMap d/odd", "")
    # Elsewhere the same object is named again.
    loop.at(loop.now_us, world.strict.handle, ODD, NODES)
    world.twin.run(loop.now_us)
    assert [said.partition(" (")[0] for said in world.said[2:]] == [
        "reader: ConfigMap d/odd: KeyError: 'must'"
    ]
    assert world.containment.counts == {"reader": 3}
    assert world.containment.left_out("reader") == 1 and world.containment.left_out("easy") == 0


def test_ten_objects_are_named_for_one_place() -> None:
    world = World()
    world.apply(*(config(f"odd-{i:02}") for i in range(12)))
    further = "; further objects that fail here are only counted"
    assert [said.partition(": KeyError")[0] for said in world.said] == [
        f"reader: ConfigMap d/odd-{i:02}" for i in range(10)
    ]
    assert [said.endswith(REPEATED) for said in world.said[:9]] == [True] * 9
    assert world.said[9].endswith(REPEATED + further)
    assert world.containment.left_out("reader") == 12


@pytest.mark.parametrize(("length", "want"), [(200 - 12, 200 - 12), (201 - 12, 200 - 12)])
def test_long_errors_are_cut(length: int, want: int) -> None:
    world = World()
    change = Change(1, "ADDED", ODD, config("odd"), None)
    world.twin.store.create(config("odd"))
    world.containment.observer_failed("reader", change, ValueError("x" * length))
    (failure,) = world.containment.standing()
    assert failure.error == "ValueError: " + "x" * want + ("…" if length > want else "")


def test_nobody_hears_of_what_is_gone_again() -> None:
    """Neither a retry nor the failure outlives its object; one that is made anew begins anew."""
    world = World()
    world.apply(config("odd"), config("even"))
    world.twin.store.delete(ODD)
    assert [f.about for f in world.containment.standing()] == [Key("ConfigMap", "d", "even")]
    assert list(world.containment.missed) == [Key("ConfigMap", "d", "even")]
    world.twin.run(world.twin.now_us)
    world.apply(config("odd"))
    (even, odd) = world.containment.standing()
    assert (even.about, odd.about, odd.times) == (Key("ConfigMap", "d", "even"), ODD, 1)
    # Deleted while nobody looked: the retry finds it gone.
    world.twin.store.delete(ODD)
    world.twin.run_for(S)
    assert [f.subject for f in world.containment.standing()] == ["ConfigMap d/even"]


def test_who_missed_a_deletion_only_counts() -> None:
    """What cannot be heard is gone: nothing stands, nothing is tried again."""
    world = World()
    change = Change(2, "DELETED", ODD, config("odd"), config("odd"))
    world.containment.observer_failed("reader", change, ValueError("no"))
    assert (world.containment.standing(), world.containment.missed) == ([], {})
    assert world.containment.counts == {"reader": 1} and world.twin.loop.next_time() is None


def test_missed_changes_are_one_to_whoever_hears_the_last() -> None:
    world = World()
    world.apply(config("odd", must="1"), config("new"))
    world.apply(config("odd", bad="2"), config("new", bad="1"))
    world.strict.must = ""
    heard: list[tuple[str, str, object]] = []
    observe = world.strict.observe

    def note(change: Change) -> None:
        heard.append((change.key.name, change.type, None if change.old is None else change.old["data"]))
        observe(change)

    world.strict.observe = note  # type: ignore[method-assign]
    world.twin.run_for(S)
    # A retry tells the newest state, the one that it saw last before it: none of the object that it never saw.
    assert sorted(heard) == [("new", "ADDED", None), ("odd", "MODIFIED", {"must": "1"})]
    assert (world.containment.standing(), world.containment.missed) == ([], {})
    assert sorted(world.easy.seen) == [
        *(("new", "ADDED", False), ("new", "MODIFIED", True)),
        *(("odd", "ADDED", False), ("odd", "MODIFIED", True)),
    ]


def test_a_fork_takes_all_over_and_goes_on_alone() -> None:
    world = World(tries=3)
    world.apply(*(config(f"odd-{i}") for i in range(9)))
    world.twin.run_for(2 * S)
    fork = world.twin.fork()
    there = fork.host.containment
    assert isinstance(there, Containment)
    assert there.standing() == world.containment.standing() and len(there.standing()) == 9
    assert (there.counts, there.messages, there.tries) == (
        world.containment.counts,
        world.containment.messages,
        3,
    )
    # The tenth that fails here is the last that is named, and none of those before is named again.
    fork.apply([config("odd-9"), config("odd-x"), config("odd-0", again="1")])
    fork.run(fork.now_us)
    assert [m.partition(": KeyError")[0] for m in there.messages[9:]] == ["reader: ConfigMap d/odd-9"]
    assert there.counts == {"reader": 9 * 2 + 3} and world.containment.counts == {"reader": 9 * 2}
    fork.run()
    # Four tries of each, and one more round for what changed.
    assert there.counts == {"reader": 8 * 4 + 2 + 4 + 2 * 4}
    assert [f.next_us for f in there.standing()] == [0] * 11
    fork.apply([config(f"odd-{i}", must="1") for i in range(10)])
    fork.run(fork.now_us)
    assert [f.subject for f in there.standing()] == ["ConfigMap d/odd-x"]
    assert len(world.containment.standing()) == len(world.containment.missed) == 9
    world.twin.run()
    assert world.containment.counts == {"reader": 9 * 4}


def test_errors_that_are_let_through_are_not_counted() -> None:
    world = World(lets_through=(ZeroDivisionError,))
    loop = world.twin.loop
    loop.at(loop.now_us, world.strict.handle, "broken", NODES)
    with pytest.raises(ZeroDivisionError):
        world.twin.run(loop.now_us)
    assert (world.containment.counts, world.said, world.containment.standing()) == ({}, [], [])


def test_what_goes_well_afterwards_stands_no_longer() -> None:
    world = World()
    world.twin.store.create(config("odd", must="1"))
    world.twin.store.create(config("a", must="1"))
    key = Key("ConfigMap", "d", "a")
    tell = world.containment
    for about in (ODD, key):
        tell.failed("reader", "reading", about, KeyError("x"))
    tell.failed("reader", "writing", key, KeyError("x"))
    tell.failed("easy", "reading", key, KeyError("x"))
    assert [(f.component, f.doing, f.subject, f.next_us) for f in tell.standing()] == [
        ("reader", "reading", "ConfigMap d/odd", 0),
        ("reader", "reading", "ConfigMap d/a", 0),
        ("reader", "writing", "ConfigMap d/a", 0),
        ("easy", "reading", "ConfigMap d/a", 0),
    ]
    assert (tell.left_out("reader"), tell.left_out("easy"), tell.is_stopped("reader")) == (2, 1, False)
    tell.passed("reader", "reading", {key})
    assert [(f.component, f.doing, f.subject) for f in tell.standing()] == [
        ("reader", "reading", "ConfigMap d/a"),
        ("reader", "writing", "ConfigMap d/a"),
        ("easy", "reading", "ConfigMap d/a"),
    ]
    tell.succeeded("reader", "reading", ODD)
    tell.succeeded("reader", "writing", key)
    assert [(f.component, f.doing) for f in tell.standing()] == [("reader", "reading"), ("easy", "reading")]


def test_whose_event_it_is() -> None:
    """By the key in its data, alone or in a tuple; by the UID of an object that is there; else nobody's."""
    world = World()
    world.apply(config("a", must="1"))
    key = Key("ConfigMap", "d", "a")
    obj = world.twin.store.get(key)
    assert obj is not None
    uid = obj["metadata"]["uid"]
    abouts = []

    def handle(data: object) -> None:
        raise ValueError(str(data))

    handler = world.twin.loop.register("x.y", handle)
    for data in (key, (1, key), uid, (uid, 0), "no-uid", ("x", 7), None, [1]):
        world.containment.handler_failed(handler, data, ValueError("v"))
        abouts.append(world.containment.standing()[-1].about)
    assert abouts == [key, key, key, key, None, None, None, None]
    assert world.containment.is_stopped(world.containment.standing()[-1].component)


@pytest.mark.parametrize("bad", [set(), {0}, {6}, {2, 3}, set(range(7))])
def test_whom_an_engine_stumbles_over(bad: set[int]) -> None:
    judged: list[int] = []

    def judge(some: object) -> None:
        assert isinstance(some, list) and some
        judged.append(len(some))
        for one in some:
            if one in bad:
                raise ValueError(one)

    found = culprits(list(range(7)), judge)
    assert [(one, error.args) for one, error in found] == [(one, (one,)) for one in sorted(bad)]
    assert judged[0] == 7 and (len(judged) == 1) == (not bad)
    if len(bad) == 1:
        # By halves: 7, 3 and 4, 1 and 2 (or 2 and 2), 1 and 1.
        assert len(judged) <= 7


def test_names_and_places() -> None:
    assert named(Key("LocalQueue.kueue.x-k8s.io", "team-a", "odd")) == "LocalQueue team-a/odd"
    assert named(Key("Node", "", "n")) == "Node n"

    def deep(levels: int) -> None:
        if levels:
            deep(levels - 1)
        raise ValueError

    with pytest.raises(ValueError) as raised:
        deep(5)
    frames = place(raised.value).split(" < ")
    assert len(frames) == 3 and all(f.startswith("test_containment_accounts.py:") for f in frames)
    assert culprits([], lambda some: 1 / 0) == []
