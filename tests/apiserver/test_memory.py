"""How much of the past is kept, and how much may wait: by the bytes that came in, each bound from both sides."""

from __future__ import annotations

import pytest

from fairway.apiserver.bodies import Bodies
from fairway.apiserver.memory import LOG_BYTES, MEMO_BYTES, MOST_LOG_BYTES, Memory
from fairway.apiserver.statuses import StatusError
from fairway.cluster.store import Store
from fairway.kube import memos
from fairway.kube.objects import Key

AROUND = 256
EVERYTHING = 1 << 40


class Past:
    """A store whose changes are as large as a test says. `needed`: the first that somebody has yet to see."""

    def __init__(self) -> None:
        self.store = Store(seed=1)
        self.bodies = Bodies()
        self.needed = EVERYTHING
        self.asked = 0
        self.memory = Memory(self.store, self.bodies, self._needed)

    def _needed(self) -> int:
        self.asked += 1
        return self.needed

    def change(self, *sizes: int) -> None:
        for size in sizes:
            name = f"c{self.store.version}"
            meta = {"name": name, "namespace": "default"}
            self.store.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
            self.memory.written(self.store.version, {Key("ConfigMap", "default", name): size})

    @property
    def versions(self) -> list[int]:
        return [change.version for change in self.store.log.since(self.store.log.first - 1)]


def test_each_change_is_counted_once_with_what_is_around_it() -> None:
    past = Past()
    meta = {"name": "a", "namespace": "default"}
    made = past.store.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
    key = Key("ConfigMap", "default", "a")
    past.memory.written(0, {key: 5})
    assert past.memory.kept_bytes == 0, "nothing of it is on disk"
    past.memory.written(1, {key: 1000})
    assert past.memory.kept_bytes == 1000 + AROUND
    past.memory.written(1, {key: 1000})
    assert past.memory.kept_bytes == 1000 + AROUND
    past.store.patch(key, {"data": {"x": "y"}})
    past.memory.written(2, {})
    kept = 1000 + 2 * AROUND + len(past.bodies.of(past.store.require(key)))
    assert past.memory.kept_bytes == kept, "who was not told looks"
    past.store.delete(key)
    past.store.create(made)
    past.memory.written(3, {})
    assert past.memory.kept_bytes == kept + AROUND, "what is gone is not written again"
    past.memory.written(1, {})
    past.memory.written(4, {key: 7})
    assert past.memory.kept_bytes == kept + 2 * AROUND + 7


def test_the_oldest_changes_go_once_there_are_too_many_bytes() -> None:
    past, half = Past(), LOG_BYTES // 2 - AROUND
    past.change(half, half)
    assert (past.versions, past.memory.kept_bytes, past.asked) == ([1, 2], LOG_BYTES, 0)
    past.change(1)
    assert (past.versions, past.memory.kept_bytes) == ([2, 3], LOG_BYTES // 2 + 1 + AROUND)
    past.change(LOG_BYTES)
    assert (past.versions, past.memory.kept_bytes) == ([], 0)
    past.change(1)
    assert (past.versions, past.memory.kept_bytes) == ([5], 1 + AROUND)


def test_what_somebody_has_yet_to_see_stays() -> None:
    past = Past()
    past.needed = 2
    past.change(LOG_BYTES, LOG_BYTES, LOG_BYTES)
    assert past.versions == [2, 3]
    past.needed = 3
    past.memory.written(3, {})
    assert (past.versions, past.memory.kept_bytes) == ([3], LOG_BYTES + AROUND)


def test_what_others_forgot_is_not_counted_any_more() -> None:
    past = Past()
    past.change(10, 20, 30)
    past.store.log.compact(2)
    past.memory.written(3, {})
    assert past.memory.kept_bytes == 30 + AROUND
    meta = {"name": "unseen", "namespace": "default"}
    for _ in range(2):
        past.store.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
        past.store.delete(Key("ConfigMap", "default", "unseen"))
    past.store.log.compact(5)
    past.memory.written(7, {Key("ConfigMap", "default", "unseen"): 5})
    assert past.memory.kept_bytes == 2 * (5 + AROUND)


def test_who_wants_to_write_waits_while_too_much_waits() -> None:
    past = Past()
    past.needed = 0
    past.change(*[MOST_LOG_BYTES // 8 - AROUND] * 8)
    past.memory.make_room(10)
    past.change(1)
    with pytest.raises(StatusError) as refused:
        past.memory.make_room(10)
    assert refused.value.status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "512 MiB of changes wait for the cluster's time to go on: fairway clock resume",
        "reason": "TooManyRequests",
        "details": {"retryAfterSeconds": 1},
        "code": 429,
    }
    past.needed = EVERYTHING
    past.memory.make_room(10)
    assert past.memory.kept_bytes <= LOG_BYTES


def test_what_was_worked_out_is_forgotten_once_as_much_came_in() -> None:
    past, known = Past(), memos.memo()
    shapes = past.store.accounts.shapes
    pod = {"metadata": {"name": "p", "namespace": "default"}, "spec": {"containers": []}}
    for come_in in (past.memory.came_in, past.memory.make_room, past.change):
        for _ in range(2):
            known["x"] = 1
            shapes.of(pod)
            come_in(MEMO_BYTES)
            assert known and shapes._by_identity, "as much as may be"
            come_in(1)
            assert not known and not shapes._by_identity
