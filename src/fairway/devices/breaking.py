"""How do GPUs break, what do others see of it, and how often does it happen? The data: `data/breakages.yaml`."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import NamedTuple

import msgspec
import yaml

from fairway.errors import UserError
from fairway.kube.timestamps import HOUR_US


class Cause(msgspec.Struct, frozen=True):
    """One way to break. `repair`: minutes. `xid` 0: the driver says nothing."""

    name: str
    says: str
    action: str
    xid: int = 0
    ends: str = "none"
    unhealthy: bool = False
    condition: str = ""
    slow: float = 1.0
    repair: float = 0.0

    @property
    def slow_milli(self) -> int:
        return round(self.slow * 1000)

    def log_line(self, slot: int) -> str:
        """As the kernel logs it."""
        bus = f"0000:{0x10 + 8 * slot:02x}:00"
        return f"NVRM: Xid (PCI:{bus}): {self.xid}, {self.says}" if self.xid else f"GPU {slot}: {self.says}"


class Fleet(msgspec.Struct, frozen=True):
    name: str
    hours: float
    counts: dict[str, float] = {}
    total: float = 0.0
    like: str = ""


class _Data(msgspec.Struct, frozen=True):
    causes: tuple[Cause, ...]
    fleets: tuple[Fleet, ...]


class Rates(NamedTuple):
    """Of one card: mean time between failures in µs, and the causes by cumulated share."""

    mean_us: int
    causes: tuple[tuple[float, str], ...]

    def cause_at(self, quantile: float) -> str:
        return next((name for share, name in self.causes if quantile < share), self.causes[-1][1])


@cache
def _data() -> _Data:
    text = files("fairway.devices").joinpath("data/breakages.yaml").read_text("utf-8")
    return msgspec.convert(yaml.safe_load(text), _Data)


@cache
def causes() -> dict[str, Cause]:
    return {c.name: c for c in _data().causes}


@cache
def fleets() -> dict[str, Fleet]:
    return {f.name: f for f in _data().fleets}


def cause_named(name: str) -> Cause:
    """Raises: UserError."""
    found = causes().get(name)
    if found is None:
        raise UserError(f"unknown cause {name!r}: expected one of {', '.join(causes())}")
    return found


@cache
def rates_of(fleet: str) -> Rates:
    """Raises: UserError."""
    found = fleets().get(fleet)
    if found is None:
        raise UserError(f"unknown fleet {fleet!r}: expected one of {', '.join(fleets())}")
    counts = found.counts or fleets()[found.like].counts
    whole = sum(counts.values())
    cumulated, so_far = [], 0.0
    for name, count in counts.items():
        so_far += count / whole
        cumulated.append((so_far, cause_named(name).name))
    return Rates(round(found.hours / (found.total or whole) * HOUR_US), tuple(cumulated))
