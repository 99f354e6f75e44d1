"""The scheduling queue against a list that is searched anew each time; how many nodes a search wants."""

from __future__ import annotations

from random import Random

import pytest

from builders import pod
from fairway.cluster.store import Store
from fairway.kube.objects import Key, key_of
from fairway.kube.timestamps import SECOND_US
from fairway.scheduling.cycle import feasible_nodes_to_find
from fairway.scheduling.queue import ACTIVE, BACKING_OFF, PARKED, SchedulingQueue


class _Model:
    """Each pod a line of its own: [priority, queued, sequence, state, refused, backoff until, refusals, by nobody]."""

    def __init__(self) -> None:
        self.pods: dict[str, list[int | str | bool]] = {}
        self.made = 0

    def add(self, name: str, priority: int, now: int) -> None:
        self.made += 1
        self.pods[name] = [priority, now, self.made, ACTIVE, 0, 0, 0, False]

    def promote(self, now: int) -> None:
        for one in self.pods.values():
            is_due = one[3] == BACKING_OFF or (one[3] == PARKED and one[7])
            if is_due and int(one[5]) <= now:
                one[3] = ACTIVE

    def head(self, now: int) -> str:
        self.promote(now)

        def turn(name: str) -> tuple[int, ...]:
            priority, queued, sequence, _, refused, _, _, _ = self.pods[name]
            return -int(priority), max(int(queued), int(refused)), int(sequence)

        for state in (ACTIVE, BACKING_OFF):
            waiting = [n for n, one in self.pods.items() if one[3] == state]
            if state == BACKING_OFF:
                waiting.sort(key=lambda n: (int(self.pods[n][5]), turn(n)))
            else:
                waiting.sort(key=turn)
            if waiting:
                return waiting[0]
        return ""

    def refuse(self, name: str, now: int, *, by_nobody: bool) -> None:
        one = self.pods[name]
        one[6] = int(one[6]) + 1
        one[3], one[4], one[7] = PARKED, now, by_nobody
        one[5] = now + min(2 ** (int(one[6]) - 1), 10) * SECOND_US

    def wake(self, name: str, now: int) -> None:
        one = self.pods[name]
        if one[3] == PARKED:
            one[3] = ACTIVE if int(one[5]) <= now else BACKING_OFF
            one[7] = False


def _key(name: str) -> Key:
    return Key("Pod", "default", name)


@pytest.mark.parametrize("seed", range(25))
def test_turns_are_those_of_a_list_that_is_searched(seed: int) -> None:
    draw, store, model = Random(seed), Store(), _Model()
    queue, now, made = SchedulingQueue(), 0, 0
    for _ in range(150):
        now += draw.choice((0, 0, 1, SECOND_US // 2, SECOND_US, 3 * SECOND_US))
        act = draw.choice(
            ("add", "add", "turn", "turn", "turn", "wake", "wake", "retry", "remove", "all", "fork")
        )
        names = list(model.pods)
        if act == "add":
            made += 1
            stored = store.create(pod(f"p{made}").spec(priority=draw.choice((0, 0, 5))).build())
            queue.add(store.accounts.record(stored, key_of(stored)), (made, -1, None), now)
            model.add(f"p{made}", int(stored["spec"]["priority"]), now)
        elif act == "turn" and queue.head(now) is not None:
            head = queue.head(now)
            assert head is not None
            name = head.key.name
            assert model.head(now) == name
            if draw.random() < 0.3:
                queue.admitted(head)
                del model.pods[name]
            else:
                by_nobody = draw.random() < 0.3
                attempts = head.attempts
                queue.park(head, () if by_nobody else ("NodeResourcesFit",), now)
                model.refuse(name, now, by_nobody=by_nobody)
                assert head.attempts == attempts + 1
        elif act == "wake" and names:
            name = draw.choice(names)
            line = queue.line_of(_key(name))
            assert line is not None
            queue.unpark(line.key, now)
            model.wake(name, now)
        elif act == "retry" and names:
            name = draw.choice(names)
            line = queue.line_of(_key(name))
            assert line is not None
            queue.retry(line.key)
            if model.pods[name][3] == PARKED:
                model.pods[name][3], model.pods[name][7] = ACTIVE, False
        elif act == "remove" and names:
            name = draw.choice(names)
            queue.remove(_key(name))
            queue.remove(_key(name))
            del model.pods[name]
        elif act == "all":
            queue.unpark_all(now)
            for name in names:
                model.wake(name, now)
        elif act == "fork":
            queue = queue.fork()
        found = queue.head(now)
        assert (found.key.name if found else "") == model.head(now)
        assert queue.has_work(now) == (found is not None)
        assert len(queue) == len(model.pods)
        assert all(_key(name) in queue for name in model.pods)
        states = [str(one[3]) for one in model.pods.values()]
        assert queue.counts() == {state: states.count(state) for state in (ACTIVE, BACKING_OFF, PARKED)}
        parked = sorted((int(one[4]), int(one[2]), n) for n, one in model.pods.items() if one[3] == PARKED)
        assert [queue.record_of(line).key.name for line in queue.parked()] == [n for _, _, n in parked]
        assert queue.has_parked == bool(parked)
        order = sorted(
            model.pods, key=lambda n: (-int(model.pods[n][0]), int(model.pods[n][1]), int(model.pods[n][2]))
        )
        assert [q.key.name for q in queue.pods()] == order
        alone = [int(one[5]) for one in model.pods.values() if one[3] == PARKED and one[7]]
        assert not alone or queue.retry_at_us() is not None


def test_all_that_happens_has_a_number_of_its_own() -> None:
    """Who comes, each change of a line's state; a copy counts on from where it was made."""
    store, queue = Store(), SchedulingQueue()
    assert queue.ticket == 0
    for number, name in enumerate("ab"):
        stored = store.create(pod(name).build())
        queue.add(store.accounts.record(stored, key_of(stored)), (number, -1, None), 0)
    assert queue.ticket == 4
    head = queue.head(0)
    assert head is not None
    queue.park(head, ("A",), 0)
    assert queue.ticket == 5
    twin = queue.fork()
    twin.unpark((0, -1, None), 0)
    twin.unpark((0, -1, None), 5 * SECOND_US)
    twin.retry((1, -1, None))
    assert (twin.ticket, queue.ticket) == (6, 5)
    other = twin.head(0)
    assert other is not None
    twin.set_apart(other, 0, ("A",))
    # It comes again, in a line that is made and parked.
    assert twin.ticket == 9


def test_backoffs() -> None:
    queue = SchedulingQueue(3, 20)
    assert [queue.backoff_us(n) for n in (-1, 0, 1, 2, 3, 4, 5, 100)] == [0, 0, 3, 6, 12, 20, 20, 20]


def test_how_many_feasible_nodes_end_a_search() -> None:
    """numFeasibleNodesToFind: all below a hundred, then a share from 50 % down to 5 %, never below a hundred."""
    for nodes in (0, 1, 99, 100, 101, 199, 200, 250, 1000, 5000, 5625, 6000, 20_000):
        for percentage in (0, 1, 5, 30, 99, 100):
            share = percentage or max(50 - nodes // 125, 5)
            want = nodes if nodes < 100 else max(nodes * share // 100, 100)
            assert feasible_nodes_to_find(nodes, percentage) == want, (nodes, percentage)
