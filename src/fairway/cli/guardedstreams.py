"""Whatever a command prints, a terminal prints: names and messages that somebody else chose do not steer it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from fairway.kube.plaintext import printed


class GuardedStream:
    """A text stream that writes control characters out."""

    def __init__(self, stream: TextIO) -> None:
        self.unguarded = stream

    def write(self, text: str) -> int:
        return self.unguarded.write(printed(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unguarded, name)


@contextmanager
def guarded_streams() -> Iterator[None]:
    """stdout and stderr are guarded meanwhile."""
    streams = sys.stdout, sys.stderr
    guarded: list[Any] = [s if isinstance(s, GuardedStream) else GuardedStream(s) for s in streams]
    sys.stdout, sys.stderr = guarded
    try:
        yield
    finally:
        sys.stdout, sys.stderr = streams


def unguarded(stream: Any) -> TextIO:
    """For colours of our own, and lines that are drawn anew: what is written here was looked at."""
    found: TextIO = getattr(stream, "unguarded", stream)
    return found
