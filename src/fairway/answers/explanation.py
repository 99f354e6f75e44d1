"""What an explanation is made of: frozen data, and the JSON that programs read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

ADMISSION, QUEUE, QUOTA, PREEMPTION, GANG = "admission", "queue", "quota", "preemption", "gang"
SCHEDULER, VOLUMES, PROVISIONING, KUBELET, NONE = "scheduler", "volumes", "provisioning", "kubelet", "none"
# Beside the way of a pod: how many there are to be.
SCALING: Final = "scaling"
# In the order in which work passes them.
LAYERS: Final = (ADMISSION, QUEUE, QUOTA, PREEMPTION, GANG, SCHEDULER, VOLUMES, PROVISIONING, KUBELET)

PASSED, BLOCKED, WAITS, UNKNOWN, NOTED = "passed", "blocked", "waits", "unknown", "noted"

Numbers = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Link:
    """What one layer says. `state`: passed, blocked (it says no), waits (it goes on by itself), unknown (the ground
    does not tell), or noted (said for the reader's sake). `reason`, `message`: the engine's own words. `details`: lines
    of evidence."""

    layer: str
    state: str
    reason: str = ""
    message: str = ""
    numbers: Numbers = field(default_factory=dict)
    details: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {
            "layer": self.layer,
            "state": self.state,
            "reason": self.reason,
            "message": self.message,
            "numbers": self.numbers,
            "details": list(self.details),
        }


@dataclass(frozen=True, slots=True)
class Change:
    """Something that was tried on a copy and made it start. `starts_s`: seconds from now. `cost_micro_usd`: what it
    costs more until then and for an hour after, in micro-dollars; None: nobody says. `evicts`: who is stopped for it.
    `loses`: the work asks for less than it did."""

    what: str
    commands: tuple[str, ...]
    starts_s: float
    cost_micro_usd: int | None = 0
    evicts: tuple[str, ...] = ()
    loses: bool = False

    def as_json(self) -> dict[str, Any]:
        cost = None if self.cost_micro_usd is None else self.cost_micro_usd / 1e6
        return {
            "what": self.what,
            "commands": list(self.commands),
            "starts": self.starts_s,
            "cost_usd": cost,
            "evicts": list(self.evicts),
        }


@dataclass(frozen=True, slots=True)
class Explanation:
    """The answer about one object. `state`: its own word (Pending, Running, Suspended, …). `since`: RFC 3339, or "".

    `changes` None: nobody asked for them. `unknown`: what the ground could not tell."""

    object: str
    state: str
    since: str
    sentence: str
    chain: tuple[Link, ...]
    changes: tuple[Change, ...] | None = None
    tried: int = 0
    unknown: tuple[str, ...] = ()

    @property
    def blocker(self) -> Link:
        """The first layer that says no; where none does, the first that is waited for, or `none`."""
        for state in (BLOCKED, WAITS):
            for link in self.chain:
                if link.state == state:
                    return link
        return Link(NONE, PASSED, message=self.sentence)

    def as_json(self) -> dict[str, Any]:
        blocker = self.blocker
        return {
            "object": self.object,
            "state": self.state,
            "since": self.since,
            "sentence": self.sentence,
            "blocker": {
                "layer": blocker.layer,
                "reason": blocker.reason,
                "message": blocker.message,
                "numbers": blocker.numbers,
            },
            "chain": [link.as_json() for link in self.chain],
            "changes": None if self.changes is None else [change.as_json() for change in self.changes],
            "unknown": list(self.unknown),
        }
