"""Random streams: named, independent, copyable, and the same under any hash seed."""

from __future__ import annotations

import os
import subprocess
import sys

from fairway.twin.streams import Streams

_PRINT = (
    "from fairway.twin.streams import Streams; s = Streams(7); "
    "print(s.stream('a').random(), s.draw_for('x', 'y'), s.draws_for('x', 'y'))"
)


def test_a_stream_depends_on_seed_and_name_only() -> None:
    a, b = Streams(1), Streams(1)
    b.stream("other").random()
    assert a.stream("x").random() == b.stream("x").random()
    assert Streams(2).stream("x").random() != Streams(1).stream("x").random()
    assert Streams(1).stream("y").random() != Streams(1).stream("x").random()


def test_a_copy_goes_on_from_the_same_place() -> None:
    original = Streams(3)
    original.stream("x").random()
    copy = original.copy()
    assert [original.stream("x").random() for _ in range(5)] == [copy.stream("x").random() for _ in range(5)]


def test_a_subjects_luck_is_its_own() -> None:
    streams = Streams(1)
    first = streams.draws_for("pod", "ns", "p")
    assert streams.draws_for("pod", "ns", "p") == first
    assert len(set(first)) == 4 and all(0 <= u < 1 for u in first)
    assert streams.draws_for("pod", "ns", "q") != first


def test_draws_do_not_depend_on_the_hash_seed() -> None:
    outputs = {
        subprocess.run(
            [sys.executable, "-c", _PRINT],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1
