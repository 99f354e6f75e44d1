"""What follows from how busy a device is: power, heat, clocks, traffic. One `Frame` is some rows over some ticks.

Power follows activity between the board's rest and its limit. Heat follows power as a body of one time constant does
(`_TAU_S`), from the air that comes in, through a resistance that grows as the airflow falls. A board that gets too hot,
or draws more than it may, lowers its clocks. Everything is worked out when it is asked for, once a frame.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from fairway.telemetry.gpus import activity
from fairway.telemetry.gpus.activity import KeptLevels, Runs
from fairway.telemetry.gpus.breaks import POWER, THERMAL, Break
from fairway.telemetry.gpus.fleet import TICK_S, Fleet, Floats

_TAU_S = 60.0
_WARM = 6
"""Ticks of power that heat remembers: three time constants."""
_INLET_C = 26.0
# At its limit, in full air, a board is this much warmer than the air: what HGX and PCIe boards show (60 to 75 °C).
_RISE_C = 42.0
_BEHIND_C = 1.5
"""Boards further back get warmer air."""
# Bits of DCGM_FI_DEV_CLOCKS_EVENT_REASONS. Source: nvml.h.
IDLE_CLOCKS, POWER_CAP, TOO_HOT, HARDWARE_TOO_HOT = 0x1, 0x4, 0x20, 0x40


Flags = npt.NDArray[np.bool_]


class Frame:
    """`rows` of a fleet from tick `first` on; every property is float32[row, tick] unless it says otherwise."""

    def __init__(
        self, fleet: Fleet, rows: slice, first: int, ticks: int, kept: KeptLevels | None = None
    ) -> None:
        self.fleet, self.rows, self.first, self.ticks = fleet, rows, first, ticks
        self._kept = kept or KeptLevels()
        self._begin = first - _WARM

    @cached_property
    def _runs(self) -> list[Runs]:
        """Per layer, from `_begin` on."""
        span = self.ticks + _WARM
        layers = range(len(self.fleet.layers))
        return [activity.runs_of(self.fleet, k, self.rows, self._begin, span) for k in layers]

    @cached_property
    def _levels(self) -> list[Floats]:
        return self._kept.levels(self.fleet, self._runs, self.rows, self._begin)

    @cached_property
    def level(self) -> Floats:
        """How busy it is, 0 to 1, all who share it together."""
        return _shown(self._sum(None))

    def weighed(self, column: str) -> Floats:
        """The level times a ratio of whoever uses it, at most 1."""
        return _shown(self._sum(column))

    def _sum(self, column: str | None) -> Floats:
        parts = [
            level if column is None else level * runs.spread(self.fleet.columns[column])
            for runs, level in zip(self._runs, self._levels, strict=True)
        ]
        if len(parts) == 1:
            return parts[0]
        total: Floats = np.minimum(np.sum(parts, axis=0, dtype=np.float32), np.float32(1))
        return total

    @cached_property
    def is_held(self) -> Flags:
        """Whether somebody holds the device."""
        is_used = np.arange(len(self.fleet.columns["kind"])) < len(self.fleet.columns["kind"]) - 1
        held = [_shown(runs.spread(is_used)) for runs in self._runs]
        return held[0] if len(held) == 1 else np.any(held, axis=0)

    # What is broken

    def marked(self, read: Callable[[Break], tuple[float, int]], *, adds: bool = False) -> Floats:
        """What each failure says, from its first tick until a last one; `adds`: together, else the latest."""
        out = np.zeros((self.rows.stop - self.rows.start, self.ticks), np.float32)
        gpu = self.fleet.gpu[self.rows]
        for broken in self.fleet.breaks:
            value, last = read(broken)
            lo, hi = max(broken.first - self.first, 0), min(last - self.first, self.ticks)
            if value and hi > lo:
                rows = np.flatnonzero(gpu == broken.gpu)[:, None]
                ticks = np.arange(lo, hi)
                out[rows, ticks] = out[rows, ticks] + value if adds else value
        return out

    def _throttled(self, by: str) -> Floats | None:
        """How many times as long work takes because of it; 0 where nothing holds it back, None where never."""
        if not any(broken.throttles == by for broken in self.fleet.breaks):
            return None
        return self.marked(lambda b: (b.slow if b.throttles == by else 0.0, b.last))

    @cached_property
    def memory(self) -> Floats:
        """MiB of framebuffer in use, at most what there is."""
        columns, total = self.fleet.columns, np.zeros((len(self._own), self.ticks), np.float32)
        now = np.arange(self.first, self.first + self.ticks)
        for runs in self._runs:
            total += _shown(runs.spread(columns["memory"]))
            if columns["growth"][runs.names].any():
                held_for = now - _shown(runs.spread(columns["anchor"]))
                total += (_shown(runs.spread(columns["growth"])) * held_for).astype(np.float32)
        held: Floats = np.minimum(total, self._own - self._reserved)
        return held

    # The board, by row

    def _of_board(self, name: str) -> Floats:
        values = np.array([getattr(b, name) for b in self.fleet.boards], np.float32)
        return values[self.fleet.board[self.rows]][:, None]

    @cached_property
    def _own(self) -> Floats:
        return self.fleet.memory[self.rows][:, None]

    @cached_property
    def _reserved(self) -> Floats:
        share = self._own / self._of_board("memory_mib")
        return np.rint(self._of_board("reserved_mib") * share)

    @property
    def total_mib(self) -> Floats:
        return np.broadcast_to(self._own, (len(self._own), self.ticks))

    @property
    def reserved(self) -> Floats:
        return np.broadcast_to(self._reserved, (len(self._own), self.ticks))

    # Power and heat, of the whole GPU also where the row is a part of it

    @cached_property
    def _wanted_w(self) -> Floats:
        """What it would draw if nothing held it back, from `_begin` on."""
        busy, level = self._sum("power"), self._sum(None)
        gpu = self.fleet.gpu[self.rows]
        heads = np.flatnonzero(np.append(True, gpu[1:] != gpu[:-1]))
        if len(heads) < len(gpu):
            share = self.fleet.share[self.rows][:, None]
            sizes = np.diff(np.append(heads, len(gpu)))
            busy, level = (np.repeat(np.add.reduceat(x * share, heads), sizes, axis=0) for x in (busy, level))
        idle, tdp = self._of_board("idle_w"), self._of_board("tdp_w")
        draws = np.multiply(busy, tdp)
        draws -= idle * level
        draws += idle
        wobble = activity.wobbles(self.fleet, self.rows, self._begin, level.shape[1])
        wobble *= np.float32(0.012)
        wobble += 1
        return np.multiply(draws, wobble, out=draws)

    @cached_property
    def _air(self) -> Floats:
        """°C of what comes in, by row."""
        air: Floats = _INLET_C + _BEHIND_C * (self.fleet.slot[self.rows][:, None] % 4).astype(np.float32)
        return air

    @cached_property
    def _heat(self) -> Floats:
        """How hot the die would get, from `first` on like everything below."""
        tdp = self._of_board("tdp_w")
        capped = np.minimum(self._wanted_w, tdp)
        weights = np.exp(-np.arange(_WARM + 1) * TICK_S / _TAU_S).astype(np.float32)
        weights /= weights.sum()
        felt = np.zeros((len(capped), self.ticks), np.float32)
        part = np.empty_like(felt)
        for back, weight in enumerate(weights):
            np.multiply(capped[:, _WARM - back : _WARM - back + self.ticks], weight, out=part)
            felt += part
        felt *= _RISE_C / tdp / self.fleet.airflow[self.rows][:, None]
        felt += self._air
        return felt

    @cached_property
    def _cool(self) -> Floats:
        """What share of its power it may draw, hot as it is."""
        limit, air = self._of_board("throttle_c"), self._air
        cool: Floats = np.minimum(1, (limit - air) / np.maximum(self._heat - air, 1))
        return cool

    @cached_property
    def power(self) -> Floats:
        """Watts."""
        draws: Floats = np.minimum(_shown(self._wanted_w), self._of_board("tdp_w"))
        draws *= self._cool
        return draws

    @cached_property
    def heat(self) -> Floats:
        """°C of the die."""
        limit = self._of_board("throttle_c")
        held: Floats = np.minimum(self._heat, limit)
        broken = self._throttled(THERMAL)
        return held if broken is None else np.where(broken > 0, limit, held)

    @property
    def _slows(self) -> Floats:
        """The share of clocks that is left."""
        tdp = self._of_board("tdp_w")
        left: Floats = np.cbrt(self._cool * np.minimum(1, tdp / np.maximum(_shown(self._wanted_w), 1)))
        for broken in (self._throttled(THERMAL), self._throttled(POWER)):
            if broken is not None:
                left /= np.maximum(broken, 1)
        return left

    @cached_property
    def sm_mhz(self) -> Floats:
        mhz = self._of_board("sm_mhz") * self._slows
        return np.where(self.is_held, mhz, self._of_board("rest_mhz"))

    @property
    def memory_mhz(self) -> Floats:
        return np.broadcast_to(self._of_board("memory_mhz"), (len(self._own), self.ticks))

    @property
    def memory_heat(self) -> Floats:
        """HBM is hotter than the die, the more the more it draws."""
        warmer: Floats = self.heat + 2 + 12 * self.power / self._of_board("tdp_w")
        return warmer

    @cached_property
    def is_capped(self) -> Flags:
        capped: Flags = _shown(self._wanted_w) >= self._of_board("tdp_w")
        broken = self._throttled(POWER)
        return capped if broken is None else capped | (broken > 0)

    @cached_property
    def is_too_hot(self) -> Flags:
        return self.heat >= self._of_board("throttle_c")

    @property
    def reasons(self) -> Floats:
        """Bits: why clocks are not higher."""
        bits: npt.NDArray[np.int64] = (
            IDLE_CLOCKS * ~self.is_held + POWER_CAP * self.is_capped + TOO_HOT * self.is_too_hot
        )
        broken = self._throttled(THERMAL)
        if broken is not None:
            bits = bits + HARDWARE_TOO_HOT * (broken > 0)
        return bits.astype(np.float32)

    # Traffic, bytes a second

    @cached_property
    def pcie_in(self) -> Floats:
        return self.weighed("bus") * self._of_board("pcie_gb_s") * np.float32(1e9)

    @property
    def pcie_out(self) -> Floats:
        """A third of what comes in; a checkpoint is not looked at."""
        return self.pcie_in / np.float32(3)

    @cached_property
    def link(self) -> Floats:
        """NVLink, both ways together."""
        return self.weighed("link") * self._of_board("link_gb_s") * np.float32(1e9)

    def limit(self, name: str) -> Floats:
        """What does not change: a number of the board, for every tick."""
        return np.broadcast_to(self._of_board(name), (len(self._own), self.ticks))


def _shown(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Without the ticks that only heat remembers."""
    return values[:, _WARM:]
