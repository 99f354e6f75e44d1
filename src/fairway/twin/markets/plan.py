"""How often, where, and with how much notice is spot capacity taken back?"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from fairway.kube.timestamps import MINUTE_US, SECOND_US
from fairway.twin.distributions import Distribution

# From the notice to the machine's end. Source: EC2 spot instance interruption notices; Compute Engine preemption
# process; Azure Scheduled Events for spot ("Preempt", at least 30 seconds).
NOTICE_US = {"aws": 2 * MINUTE_US, "gcp": 30 * SECOND_US, "azure": 30 * SECOND_US}
DEFAULT_NOTICE_US = 2 * MINUTE_US


@dataclass(frozen=True, slots=True)
class Hazard:
    """Every spot machine of these offerings lives this long (drawn for each one). Words are patterns."""

    name: str
    after: Distribution
    instance_types: tuple[str, ...] = ("*",)
    zones: tuple[str, ...] = ("*",)

    def concerns(self, instance_type: str, zone: str) -> bool:
        return _matches(instance_type, self.instance_types) and _matches(zone, self.zones)


@dataclass(frozen=True, slots=True)
class Interruption:
    """At this time the cloud takes back `count` machines of these offerings (None: all), the oldest first."""

    at_us: int
    instance_type: str = "*"
    zone: str = "*"
    count: int | None = None

    def concerns(self, instance_type: str, zone: str) -> bool:
        return fnmatchcase(instance_type, self.instance_type) and fnmatchcase(zone, self.zone)


@dataclass(frozen=True, slots=True)
class Market:
    """`hint_us`: how long before the notice a rebalance recommendation comes; 0: none does."""

    hazards: tuple[Hazard, ...] = ()
    recorded: tuple[Interruption, ...] = ()
    notice_us: int = DEFAULT_NOTICE_US
    hint_us: int = 0


def _matches(word: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(word, pattern) for pattern in patterns)
