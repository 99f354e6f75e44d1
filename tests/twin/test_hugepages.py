"""Which parts of a process large pages are asked for."""

from __future__ import annotations

import sys

import pytest

from fairway.twin import hugepages
from fairway.twin.hugepages import HugePages, heap_regions

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="large pages are asked of Linux only")

MAPS = """\
55d000000000-55d000a00000 rw-p 00000000 00:00 0                          [heap]
7f0000000000-7f0004000000 rw-p 00000000 00:00 0
7f0010000000-7f0010001000 rw-p 00000000 00:00 0
7f0020000000-7f0024000000 r--p 00000000 00:00 0
7f0030000000-7f0034000000 rw-p 00000000 08:01 4711                       /usr/lib/my file.so
7f0040000000-7f0044000000 rw-s 00000000 00:01 99                         /dev/shm/x
7ffc00000000-7ffc04000000 rw-p 00000000 00:00 0                          [stack]
"""


def test_the_heap_and_large_private_memory_are_asked_for() -> None:
    assert list(heap_regions(MAPS.splitlines())) == [
        (0x55D000000000, 0x55D000A00000),
        (0x7F0000000000, 0x7F0004000000),
    ]


@on_linux
def test_it_asks_again_only_when_the_process_has_grown(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(hugepages, "_is_offered", lambda: True)
    monkeypatch.setattr(hugepages, "_advise", lambda start, length: asked.append((start, length)))
    pages = HugePages()
    pages.follow()
    assert not asked
    monkeypatch.setattr(hugepages, "_STEP_BYTES", 0)
    pages.follow()
    first = len(asked)
    assert first
    monkeypatch.setattr(hugepages, "_STEP_BYTES", 2**50)
    pages.follow()
    assert len(asked) == first


def test_nothing_is_asked_of_a_kernel_that_never_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hugepages, "_is_offered", lambda: False)
    monkeypatch.setattr(hugepages, "_advise", lambda *_: pytest.fail("asked"))
    HugePages().follow()


@on_linux
def test_advice_may_be_declined() -> None:
    hugepages._advise(0, 4096)
