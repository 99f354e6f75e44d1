"""What Karpenter's recorder says, and what it has said a moment ago: the speaker alone."""

from __future__ import annotations

import pytest

from fairway.kube.objects import Key
from fairway.kube.timestamps import MINUTE_US, SECOND_US
from fairway.provisioning.karpenter.events import NOMINATED, KarpenterEvent, nominated
from fairway.twin.eventlog import Record
from fairway.twin.latency import NONE
from fairway.twin.provisioner import speaking
from fairway.twin.provisioner.speaking import Speaker
from fairway.twin.twin import EPOCH_US, Twin

NODE = Key("Node", "", "n")


class World:
    """A speaker in a twin of one node and some pods."""

    def __init__(self, pods: int = 0) -> None:
        self.twin = Twin(latency=NONE, components=[])
        self.twin.apply([{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}])
        spec = {"containers": [{"name": "c", "image": "i"}]}
        meta = {"namespace": "d"}
        self.twin.apply(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {**meta, "name": f"p{i}"}, "spec": spec}
            for i in range(pods)
        )
        self.lines: list[Record] = []
        self.twin.host.log.sinks.append(self.lines.extend)
        self.speaker = Speaker()
        self.speaker.attach(self.twin.host)

    def at(self, us: int) -> World:
        self.twin.run(EPOCH_US + us)
        return self

    def told(self) -> list[tuple[str, str, str, int]]:
        return [(e.about.name, e.reason, e.message, e.times) for e in self.twin.host.events.told()]


EVENT = KarpenterEvent("Warning", "Unconsolidatable", "Not all pods would schedule", quiet_us=5 * MINUTE_US)


def test_what_was_said_is_not_said_again_until_its_time() -> None:
    world = World()
    for at_us, times in ((0, 1), (5 * MINUTE_US - 1, 1), (5 * MINUTE_US, 2), (5 * MINUTE_US + 1, 2)):
        world.at(at_us).speaker.tell(NODE, EVENT)
        assert world.told() == [("n", EVENT.reason, EVENT.message, times)], at_us
    world.twin.host.log.flush()
    assert [tuple(line) for line in world.lines] == [
        (EPOCH_US + at_us, "karpenter", "Node", "", "n", EVENT.reason, EVENT.message)
        for at_us in (0, 5 * MINUTE_US)
    ]
    (event,) = world.twin.host.events.told()
    uid = world.twin.store.require(NODE)["metadata"]["uid"]
    assert (event.about, event.uid, event.type, event.component) == (NODE, uid, "Warning", "karpenter")


def test_it_is_quiet_of_what_was_said_of_the_object() -> None:
    world = World()
    uid = world.twin.store.require(NODE)["metadata"]["uid"]
    world.speaker.tell(NODE, EVENT)
    for at_us, is_quiet in ((0, True), (5 * MINUTE_US - 1, True), (5 * MINUTE_US, False)):
        world.at(at_us)
        assert world.speaker.is_quiet(EVENT.reason, uid) is is_quiet
    assert not World().speaker.is_quiet(EVENT.reason, uid)
    world.speaker.tell(NODE, EVENT)
    assert not world.speaker.is_quiet("Else", uid)
    assert not world.speaker.is_quiet(EVENT.reason, "another")


def test_another_object_another_reason_and_what_makes_it_another_event() -> None:
    world = World(1)
    for event in (EVENT, EVENT._replace(reason="Else"), EVENT._replace(distinct=("a",))):
        for about in (NODE, Key("Pod", "d", "p0"), Key("Pod", "d", "gone"), Key("Pod", "e", "gone")):
            world.speaker.tell(about, event)
            world.speaker.tell(about, event._replace(message="in other words"))
    times = [(name, reason, count) for name, reason, _, count in world.told()]
    assert sorted(times) == sorted(
        (name, reason, count)
        for reason, count in ((EVENT.reason, 2), ("Else", 1))
        for name in ("n", "p0", "gone", "gone")
    )


def test_five_nominations_a_second_and_ten_at_once() -> None:
    world = World(20)

    def nominate(first: int, last: int) -> None:
        for i in range(first, last):
            world.speaker.tell(Key("Pod", "d", f"p{i}"), nominated(node="n"))

    nominate(0, 12)
    assert [name for name, *_ in world.told()] == [f"p{i}" for i in range(10)]
    # Who was left out counts as nominated all the same: he is not said two minutes long.
    world.at(200_000 - 1)
    nominate(10, 14)
    assert len(world.told()) == 10
    world.at(200_000)
    nominate(14, 16)
    assert [name for name, *_ in world.told()][10:] == ["p14"]
    copy = world.speaker.copy()
    copy.attach(world.twin.host)
    copy.tell(Key("Pod", "d", "p17"), nominated(node="n"))
    assert len(world.told()) == 11, "a copy has what its original has spent"
    world.at(200_000 + 2 * SECOND_US)
    nominate(10, 14)
    assert len(world.told()) == 11
    nominate(16, 18)
    assert [name for name, *_ in world.told()][11:] == ["p16", "p17"]
    # Other words wait for nobody.
    world.speaker.tell(NODE, EVENT)
    assert world.told()[-1][1] == EVENT.reason
    assert all(reason == NOMINATED for _, reason, *_ in world.told()[:-1])


def test_a_copy_says_for_itself() -> None:
    world = World()
    world.speaker.tell(NODE, EVENT)
    copy = world.speaker.copy()
    copy.attach(world.twin.host)
    copy.tell(NODE, EVENT)
    assert world.told()[0][3] == 1, "it knows what was said"
    copy.tell(NODE, EVENT._replace(distinct=("a",)))
    world.speaker.tell(NODE, EVENT._replace(distinct=("a",)))
    assert world.told()[0][3] == 3, "what it says the other does not know"


def test_what_is_long_past_is_forgotten_when_there_is_much() -> None:
    world = World()
    short, long = EVENT._replace(quiet_us=SECOND_US), EVENT._replace(quiet_us=MINUTE_US)
    world.speaker.tell(Key("Pod", "d", "short"), short)
    world.speaker.tell(Key("Pod", "d", "long"), long)
    for i in range(speaking._MOST_KEPT - 2):
        world.speaker._note((str(i),), EPOCH_US + SECOND_US)
    world.at(SECOND_US)
    assert len(world.speaker._quiet_until) == speaking._MOST_KEPT
    world.speaker.tell(NODE, long)
    assert [said[1] for said in world.speaker._quiet_until] == [
        "Pod/d/long",
        world.twin.store.require(NODE)["metadata"]["uid"],
    ]


@pytest.mark.parametrize(("claim", "node", "words"), [("a", "", "nodeclaim/a"), ("", "b", "node/b")])
def test_a_nomination_names_where(claim: str, node: str, words: str) -> None:
    world = World(1)
    world.speaker.tell(Key("Pod", "d", "p0"), nominated(claim, node))
    assert world.told() == [("p0", "Nominated", f"Pod should schedule on: {words}", 1)]
