"""The cloud of a twin: which machines there are, what is out of stock, how long a machine takes to come."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from fairway.kube.objects import Obj, labels_of
from fairway.kube.timestamps import SECOND_US
from fairway.provisioning.karpenter.fleet import Fleet
from fairway.provisioning.karpenter.instancetypes import InstanceType, Offering
from fairway.provisioning.karpenter.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from fairway.twin.distributions import Distribution, constant

Offered = tuple[str, str, str]
"""(type, zone, capacity type)."""

# From launch until the node is ready: what providers report for general images on warm capacity.
DEFAULT_BOOT = constant(60 * SECOND_US)
# Estimates, not measurements: a GPU image loads drivers and the device plugin; machines of eight GPUs check them and
# their links first. A scenario says its own (`cloud.bootTime`).
GPU_BOOT = Distribution("lognormal", 120 * SECOND_US, 0.25)
EIGHT_GPUS_BOOT = Distribution("lognormal", 300 * SECOND_US, 0.25)

# How long after its registration a node's startup taints stay: the DaemonSet they wait for takes them off.
DEFAULT_STARTUP_US = 15 * SECOND_US

FOREVER_US = 2**62


@dataclass(frozen=True, slots=True)
class Shortage:
    """At most `most` machines of these offerings run at once, from `from_us` until before `until_us`.

    Words are patterns; `most` counts what this cluster holds of them. 0: out of stock.
    """

    instance_type: str = "*"
    zone: str = "*"
    capacity_type: str = "*"
    from_us: int = 0
    until_us: int = FOREVER_US
    most: int = 0

    def concerns(self, offered: Offered) -> bool:
        patterns = (self.instance_type, self.zone, self.capacity_type)
        return all(fnmatchcase(word, pattern) for word, pattern in zip(offered, patterns, strict=True))


@dataclass(frozen=True, slots=True)
class Cloud:
    """What can be launched. `out_of_stock`: offerings whose launch fails, though Karpenter does not know yet.

    `boots`: by instance type, where they differ from `boot`. `startup_us`: how long startup taints stay.
    """

    types: tuple[InstanceType, ...]
    boot: Distribution = DEFAULT_BOOT
    out_of_stock: frozenset[Offered] = frozenset()
    spot_to_spot: bool = False
    boots: Mapping[str, Distribution] = field(default_factory=dict)
    shortages: tuple[Shortage, ...] = ()
    startup_us: int = DEFAULT_STARTUP_US

    def boot_of(self, instance_type: str) -> Distribution:
        return self.boots.get(instance_type, self.boot)

    def has(self, offered: Offered, running: Callable[[], Iterable[Offered]], now_us: int) -> bool:
        """Whether one more of these can be had beside the machines that run."""
        if offered in self.out_of_stock:
            return False
        short = [s for s in self.shortages if s.from_us <= now_us < s.until_us and s.concerns(offered)]
        if not short:
            return True
        held = list(running())
        return all(sum(s.concerns(o) for o in held) < s.most for s in short)


def offered_of(obj: Obj) -> Offered:
    """What a node, or a launched NodeClaim, is: by its labels."""
    labels = labels_of(obj)
    return (labels.get(INSTANCE_TYPE) or "", labels.get(ZONE) or "", labels.get(CAPACITY_TYPE) or "")


def fleet_without(types: tuple[InstanceType, ...], unavailable: frozenset[Offered]) -> Fleet:
    """The fleet as Karpenter sees it after launches that failed."""
    if not unavailable:
        return Fleet(types)
    return Fleet(replace(t, offerings=tuple(_seen(t, o, unavailable) for o in t.offerings)) for t in types)


def _seen(kind: InstanceType, offering: Offering, unavailable: frozenset[Offered]) -> Offering:
    is_out = (kind.name, offering.zone, offering.capacity_type) in unavailable
    return replace(offering, available=offering.available and not is_out)
