"""One line on stderr that says how far a run is; nothing where stderr is no terminal."""

from __future__ import annotations

import sys

from fairway.cli.guardedstreams import unguarded
from fairway.kube.timestamps import format_duration
from fairway.twin.twin import Progress

# Sooner than this nobody needs to know when it ends.
_LEFT_FROM_US = 2_000_000


class ProgressLine:
    """Call it with each `Progress`; `end` clears the line."""

    def __init__(self, began_us: int, *, wanted: bool = True) -> None:
        self._began_us = began_us
        self._shown = wanted and sys.stderr.isatty()

    def __call__(self, progress: Progress) -> None:
        if not self._shown:
            return
        simulated = format_duration(progress.now_us - self._began_us)
        text = f"simulated {simulated}  {progress.events:,} events  {progress.speed_up:,.0f} × real time"
        if progress.until_us is not None and progress.until_us > self._began_us:
            share = (progress.now_us - self._began_us) / (progress.until_us - self._began_us)
            left_us = (
                (progress.until_us - progress.now_us) / progress.speed_up if progress.speed_up > 0 else 0
            )
            text = f"{min(share, 1.0):4.0%}  {text}  {_left(left_us)}"
        self._draw(text[:99])

    def end(self) -> None:
        if self._shown:
            self._draw("")

    def _draw(self, text: str) -> None:
        stream = unguarded(sys.stderr)
        stream.write(f"\r\x1b[K{text}")
        stream.flush()


def _left(left_us: float) -> str:
    """Wall time to go, at the pace so far."""
    return (
        f"about {format_duration(round(left_us / 1e6) * 1_000_000)} left" if left_us >= _LEFT_FROM_US else ""
    )
