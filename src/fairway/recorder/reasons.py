"""Which reasons stand in the scheduler's refusals?

`0/4 nodes are available: 1 Insufficient memory, 3 node(s) had untolerated taint(s). preemption: …` names two;
what is said after the first sentence is about preemption and not looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from fairway.recorder.tables import ReasonCount

_HEAD = re.compile(r"\d+/\d+ nodes are available: ")
_NEXT = re.compile(r", (?=\d+ )")
_COUNT = re.compile(r"\d+ ")


@lru_cache(maxsize=4096)
def reasons_in(message: str) -> tuple[str, ...]:
    """The reasons, as often as named, without how many nodes each stands for."""
    head = _HEAD.match(message)
    sentence = (message[head.end() :] if head else message).split(". ", 1)[0].rstrip(".")
    if not sentence:
        return ()
    return tuple(dict.fromkeys(_COUNT.sub("", part, count=1) for part in _NEXT.split(sentence)))


def ranked(told: dict[str, int], last_words: Iterable[tuple[str, bool]]) -> tuple[ReasonCount, ...]:
    """Reasons by the pods they kept waiting, most first, then by name.

    `told`: refusals by reason; `last_words`: each refused pod's last message, and whether it was placed later.
    """
    pods: dict[str, list[int]] = {reason: [0, 0] for reason in told}
    for message, was_placed in last_words:
        for reason in reasons_in(message):
            counts = pods.setdefault(reason, [0, 0])
            counts[0] += 1
            counts[1] += not was_placed
    rows = [ReasonCount(reason, told.get(reason, 0), n, never) for reason, (n, never) in pods.items()]
    return tuple(sorted(rows, key=lambda r: (-r.pods, -r.told, r.reason)))
