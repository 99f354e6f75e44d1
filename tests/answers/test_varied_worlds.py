"""In clusters of varied shape the named blocker is the one, and what is printed against it starts the object.

A few worlds here; more of them by hand, from the repository's root, with seeds not used before, of either kind
(`changes`: instead, what would help so many objects of each world):

    PYTHONPATH=src python tests/answers/test_varied_worlds.py varied 1000 1300 [changes 2]
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from contestedworlds import OPEN_POOL, contested
from test_explain_properties import paste
from variedworlds import varied
from withoutblocker import passes, put, without, work

from fairway.answers.changes import with_changes
from fairway.answers.explain import explain
from fairway.answers.explanation import BLOCKED, NONE, PROVISIONING, WAITS, Explanation, Link
from fairway.answers.trials import HORIZON_US, has_started
from fairway.ground import Moment
from fairway.kube.objects import Key, key_of, spec_of


def of_blockers(moment: Moment, seen: Counter[object]) -> Iterator[str]:
    """What is false about the answers why. `seen`: how many of each layer were looked at."""
    for key in work(moment):
        found = explain(moment, key)
        json.dumps(found.as_json())
        is_over = has_started(moment.store, key) or found.chain == ()
        if (found.blocker.layer == NONE) != is_over:
            yield f"{key} has {'' if is_over else 'not '}started: {found.sentence}"
        if found.blocker.state != BLOCKED:
            continue
        again = without(moment, key, found)
        seen[found.blocker.layer] += 1
        if not passes(again, found):
            yield f"{key}: {found.sentence}\n   and without it: {again.sentence}"


def of_pools(moment: Moment, seen: Counter[object]) -> Iterator[str]:
    """Where NodePools refuse a pod: one beside them that takes everything would open a node for it, if there is a type
    of its size and it asks for no label of its own; and what is said to be opened is opened."""
    for pod in moment.store.objects("Pod"):
        key = key_of(pod)
        link = _of_provisioning(explain(moment, key))
        if link is None or spec_of(pod).get("nodeSelector"):
            continue
        seen["pools", link.state] += 1
        twin = moment.fork()
        if link.state == BLOCKED:
            put(twin, OPEN_POOL)
            twin.run_for(0)
            again = _of_provisioning(explain(Moment(twin), key))
            if again is not None and again.state == BLOCKED:
                yield f"{key}: {link.message}\n   and with a pool that takes everything: {again.message}"
        elif link.state == WAITS:
            twin.run_for(HORIZON_US)
            there = twin.store.get(key)
            if there is not None and not spec_of(there).get("nodeName"):
                yield f"{key}: {link.message}\n   and after 15 minutes: {explain(Moment(twin), key).sentence}"


def _of_provisioning(found: Explanation) -> Link | None:
    return next((link for link in found.chain if link.layer == PROVISIONING), None)


def of_changes(moment: Moment, count: int, seen: Counter[object]) -> Iterator[str]:
    """Which printed changes do not start their objects, of those that wait, evenly chosen."""
    waiting = [
        (key, found)
        for key in work(moment)
        if (found := explain(moment, key)).blocker.state in (BLOCKED, WAITS)
    ]
    for key, found in waiting[:: max(len(waiting) // count, 1)][:count]:
        changed = with_changes(moment, found)
        assert changed.changes is not None
        seen[found.blocker.layer, "helped" if changed.changes else "nothing helps"] += 1
        if not changed.changes:
            seen[f"nothing helps of {changed.tried}: {found.sentence[:300]}"] += 1
        yield from of_commands(moment, key, changed)


def of_commands(moment: Moment, key: Key, changed: Explanation) -> Iterator[str]:
    for change in changed.changes or ():
        twin = moment.fork()
        for command in change.commands:
            paste(twin, command)
        twin.wake()
        twin.run(twin.now_us + HORIZON_US)
        if not has_started(twin.store, key):
            yield f"{key}: {changed.sentence}\n   not started by {change.what}: {change.commands}"


@pytest.mark.parametrize("seed", range(12))
def test_the_blocker_is_true_in_varied_worlds(seed: int) -> None:
    moment = varied(seed)
    was = moment.twin.digest()
    assert list(of_blockers(moment, Counter())) == []
    assert moment.twin.digest() == was, "asking changes nothing"


def test_the_blocker_is_true_where_work_contends() -> None:
    seen: Counter[object] = Counter()
    for seed in range(5):
        moment = contested(seed)
        assert [*of_blockers(moment, seen), *of_pools(moment, seen)] == []
    assert all(seen[what] > 3 for what in ("gang", "scheduler", ("pools", BLOCKED)))


def test_every_change_starts_it_where_work_contends() -> None:
    assert [line for seed in (5, 9) for line in of_changes(contested(seed), 1, Counter())] == []


@pytest.mark.parametrize("seed", range(3))
def test_every_change_starts_it_in_varied_worlds(seed: int) -> None:
    assert list(of_changes(varied(seed), 1, Counter())) == []


def main(of: Callable[[int], Moment], first: int, last: int, changes: int) -> None:
    seen: Counter[object] = Counter()
    wrong = 0
    for seed in range(first, last):
        moment = of(seed)
        says = of_changes(moment, changes, seen) if changes else of_blockers(moment, seen)
        # Elsewhere pods ask for devices and volumes that no machine of the catalog brings.
        of_opening = of_pools(moment, seen) if of is contested and not changes else ()
        for line in (*says, *of_opening):
            wrong += 1
            print(f"world {seed}: {line}", flush=True)  # noqa: T201
    for what, count in sorted(seen.items(), key=str):
        print(count, what)  # noqa: T201
    print(f"{wrong} wrong in {last - first} worlds")  # noqa: T201


if __name__ == "__main__":
    kinds = {"varied": varied, "contested": contested}
    main(kinds[sys.argv[1]], *map(int, sys.argv[2:4]), int(sys.argv[5]) if len(sys.argv) > 5 else 0)
