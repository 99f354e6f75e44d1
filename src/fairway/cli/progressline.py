"""One line on stderr that says how far a run is; nothing where stderr is no terminal."""

from __future__ import annotations

import sys

from fairway.kube.timestamps import format_duration
from fairway.twin.twin import Progress


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
            text = f"{min(share, 1.0):4.0%}  {text}"
        sys.stderr.write(f"\r\x1b[K{text[:99]}")
        sys.stderr.flush()

    def end(self) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
