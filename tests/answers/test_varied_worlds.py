"""In clusters of varied shape the named blocker is the one, and what is printed against it starts the object.

A few worlds here; more of them by hand, from the repository's root, with seeds not used before
(`changes`: instead, what would help so many objects of each world):

    PYTHONPATH=src python tests/answers/test_varied_worlds.py 1000 1300 [changes 2]
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator

import pytest
from test_explain_properties import paste
from variedworlds import varied
from withoutblocker import passes, without, work

from fairway.answers.changes import with_changes
from fairway.answers.explain import explain
from fairway.answers.explanation import BLOCKED, NONE, WAITS, Explanation
from fairway.answers.trials import HORIZON_US, has_started
from fairway.ground import Moment
from fairway.kube.objects import Key


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


@pytest.mark.parametrize("seed", range(3))
def test_every_change_starts_it_in_varied_worlds(seed: int) -> None:
    assert list(of_changes(varied(seed), 1, Counter())) == []


def main(first: int, last: int, changes: int) -> None:
    seen: Counter[object] = Counter()
    wrong = 0
    for seed in range(first, last):
        moment = varied(seed)
        says = of_changes(moment, changes, seen) if changes else of_blockers(moment, seen)
        for line in says:
            wrong += 1
            print(f"world {seed}: {line}", flush=True)  # noqa: T201
    for what, count in sorted(seen.items(), key=str):
        print(count, what)  # noqa: T201
    print(f"{wrong} wrong in {last - first} worlds")  # noqa: T201


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[4]) if len(sys.argv) > 4 else 0)
