"""How often may the server say the same? Log lines limited by rate, place by place.

Whoever can make the server complain can make it write: 1,100 idle connections made 221 MB of log. Of the lines that
come from one place in the code a few pass in every stretch of time; the next one that passes says how many did not.
"""

from __future__ import annotations

import logging
import time

# Lines of one place that pass in each stretch.
LINES, STRETCH_S = 20, 10.0
# Characters of one line: a message may quote what a client sent.
MOST_CHARS = 4096


class Sparing(logging.Filter):
    """For a handler."""

    def __init__(self) -> None:
        super().__init__()
        self._places: dict[tuple[str, int], list[float]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        now_s = time.monotonic()
        place = (record.pathname, record.lineno)
        # Beginning of the stretch, lines that passed in it, lines that did not.
        state = self._places.setdefault(place, [now_s, 0, 0])
        if now_s - state[0] >= STRETCH_S:
            state[0], state[1] = now_s, 0
        if state[1] >= LINES:
            state[2] += 1
            return False
        state[1] += 1
        said = record.getMessage()
        left_out, state[2] = int(state[2]), 0
        if len(said) > MOST_CHARS or left_out:
            more = f" ({left_out} more like this were left out)" if left_out else ""
            record.msg, record.args = said[:MOST_CHARS] + more, ()
        return True
