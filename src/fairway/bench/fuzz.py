"""Can anything that clients send make the server stumble? Hundreds of thousands of requests, from a seed.

A server in a process of its own whose clock goes on between requests, one client over TLS. Every 5,000 requests
everything that was made is removed: what the server then holds more than before, it keeps for nothing.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from statistics import median

from fairway.apiserver.folders import running
from fairway.bench import BenchRow
from fairway.bench.api import _resident_mb, connect, start_server
from fairway.bench.fuzzing.attack import CLEAR_EVERY, Attack

REQUESTS, REQUESTS_QUICK = 200_000, 10_000
SEED = 1
# Resident memory at the end to that in the second fifth of the requests.
GROWTH_LIMIT = 1.2
_SHOWN = 20


def run(quick: bool) -> Iterator[BenchRow]:
    """Rows as they are measured."""
    folder = Path(tempfile.mkdtemp(prefix="fairway-fuzz-"))
    try:
        yield from _attacked(folder, REQUESTS_QUICK if quick else REQUESTS)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _attacked(folder: Path, count: int) -> Iterator[BenchRow]:
    said = folder / "stderr.log"
    with said.open("wb") as errors:
        process, _ = start_server(folder, errors)
        try:
            server = running(folder)
            assert server is not None
            with closing(Attack(partial(connect, folder, server.url), SEED)) as attack:
                attack.ask("POST", "/fairway/clock", {"paused": True})
                memory = _send(attack, count, process.pid)
                failures, dead = attack.failures(), attack.dead()
        finally:
            process.terminate()
            process.wait()
    yield from _judged(attack, count, memory, failures, dead, said.read_text(errors="replace"))


def _send(attack: Attack, count: int, pid: int) -> list[float]:
    """Resident megabytes after each clearance."""
    memory = []
    for at in range(0, count, CLEAR_EVERY):
        attack.send(min(CLEAR_EVERY, count - at))
        attack.clear()
        memory.append(_resident_mb(pid))
        _say(f"fairway: {at + CLEAR_EVERY:,} of {count:,}, {memory[-1]:.0f} MB")
    return memory


def _judged(
    attack: Attack, count: int, memory: list[float], failures: list[str], dead: list[str], said: str
) -> Iterator[BenchRow]:
    for sent, body in attack.failed[:_SHOWN]:
        _say(f"{sent.method} {sent.path} {sent.body!r}: {body[-300:]!r}")
    named = [line for line in said.splitlines() if " fairway.components " in line]
    for line in (*failures[:_SHOWN], *named[:_SHOWN], *dead, *(str(sent) for sent in attack.broken[:_SHOWN])):
        _say(line)
    written = sum(attack.codes[code] for code in (200, 201))
    yield BenchRow(f"fuzz requests, seed {SEED}", count, "", 0, f"{len(attack.codes)} different answers")
    yield BenchRow("fuzz requests that got in", written, "", 0, "the more, the better a test")
    yield BenchRow("fuzz answers of 500", attack.faults, "", 0, "none may be")
    yield BenchRow("fuzz answers of 500 that kube-apiserver gives", attack.upstreams, "", 0, "as upstream")
    yield BenchRow("fuzz connections broken", len(attack.broken), "", 0, "none may be")
    yield BenchRow("fuzz tracebacks", said.count("Traceback (most recent call last)"), "", 0, "none may be")
    yield BenchRow("fuzz failures of components", len(failures), "", 0, "none may be")
    yield BenchRow("fuzz what is dead at the end", len(dead), "", 0, "nothing may be")
    # Caches of a bounded size fill first: what counts is whether it grows from there.
    fifth = len(memory) // 5
    first, last = median(memory[fifth : 2 * fifth] or memory[:1]), median(memory[-2:])
    yield BenchRow(
        "fuzz memory, end", last, "MB", GROWTH_LIMIT * first / last, f"{GROWTH_LIMIT} × {first:.0f} MB"
    )


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
