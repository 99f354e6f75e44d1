"""Which fields does DCGM have of a device, and what are they at some ticks? By DCGM's names.

A gauge is read off a `Frame`; a counter is the sum of what every tick adds, in whole units, so that it comes out the
same whichever way the time is cut. What the model knows nothing of (retries, remapped rows, licences) is 0, as on a
healthy device.

Source: DCGM field identifiers (dcgm_fields.h); profiling fields are ratios, 0 to 1.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fairway.telemetry.gpus.activity import KeptLevels
from fairway.telemetry.gpus.breaks import ERRORS, XID
from fairway.telemetry.gpus.fleet import TICK_S, Fleet
from fairway.telemetry.gpus.frame import Frame

Values = npt.NDArray[np.float64]
Numbers = npt.NDArray[Any]
_Read = Callable[[Frame], Numbers]


def _none(frame: Frame) -> Numbers:
    return np.zeros((frame.rows.stop - frame.rows.start, frame.ticks), np.float32)


def _percent(read: _Read) -> _Read:
    def percent(frame: Frame) -> Numbers:
        found = read(frame) * np.float32(100)
        np.minimum(found, 100, out=found)
        return np.rint(found, out=found)

    return percent


def _whole(read: _Read) -> _Read:
    return lambda frame: np.rint(read(frame))


def _nanoseconds(read: _Read) -> _Read:
    return lambda frame: read(frame) * np.float32(TICK_S * 1e9)


GAUGES: Final[dict[str, _Read]] = {
    "DCGM_FI_DEV_GPU_UTIL": _percent(lambda f: f.level),
    "DCGM_FI_DEV_MEM_COPY_UTIL": _percent(lambda f: f.weighed("dram")),
    "DCGM_FI_DEV_ENC_UTIL": _none,
    "DCGM_FI_DEV_DEC_UTIL": _none,
    "DCGM_FI_DEV_SM_CLOCK": _whole(lambda f: f.sm_mhz),
    "DCGM_FI_DEV_MEM_CLOCK": _whole(lambda f: f.memory_mhz),
    "DCGM_FI_DEV_GPU_TEMP": _whole(lambda f: f.heat),
    "DCGM_FI_DEV_MEMORY_TEMP": _whole(lambda f: f.memory_heat),
    "DCGM_FI_DEV_SLOWDOWN_TEMP": lambda f: f.limit("throttle_c"),
    "DCGM_FI_DEV_POWER_USAGE": lambda f: np.rint(f.power * 1000) / 1000,
    "DCGM_FI_DEV_POWER_MGMT_LIMIT": lambda f: f.limit("tdp_w"),
    "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": lambda f: f.reasons,
    "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": lambda f: f.reasons,
    "DCGM_FI_DEV_FB_TOTAL": _whole(lambda f: f.total_mib),
    "DCGM_FI_DEV_FB_USED": _whole(lambda f: f.memory),
    "DCGM_FI_DEV_FB_FREE": lambda f: f.total_mib - f.reserved - np.rint(f.memory),
    "DCGM_FI_DEV_FB_RESERVED": lambda f: f.reserved,
    "DCGM_FI_DEV_FB_USED_PERCENT": lambda f: f.memory / (f.total_mib - f.reserved),
    XID: lambda f: f.marked(lambda b: (b.xid, b.lasts(XID))),
    "DCGM_FI_DEV_VGPU_LICENSE_STATUS": _none,
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": _none,
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": lambda f: f.level,
    "DCGM_FI_PROF_SM_ACTIVE": lambda f: f.weighed("sm"),
    "DCGM_FI_PROF_SM_OCCUPANCY": lambda f: f.weighed("warps") * f.weighed("sm"),
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": lambda f: f.weighed("tensor"),
    "DCGM_FI_PROF_PIPE_FP16_ACTIVE": lambda f: f.weighed("tensor") * np.float32(0.08),
    "DCGM_FI_PROF_PIPE_FP32_ACTIVE": lambda f: f.weighed("sm") * np.float32(0.07),
    "DCGM_FI_PROF_PIPE_FP64_ACTIVE": _none,
    "DCGM_FI_PROF_DRAM_ACTIVE": lambda f: f.weighed("dram"),
    "DCGM_FI_PROF_PCIE_RX_BYTES": _whole(lambda f: f.pcie_in),
    "DCGM_FI_PROF_PCIE_TX_BYTES": _whole(lambda f: f.pcie_out),
    "DCGM_FI_PROF_NVLINK_RX_BYTES": _whole(lambda f: f.link / 2),
    "DCGM_FI_PROF_NVLINK_TX_BYTES": _whole(lambda f: f.link / 2),
}
# What every tick adds.
COUNTERS: Final[dict[str, _Read]] = {
    # mJ; KiB; ns.
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": _whole(lambda f: f.power * np.float32(1000 * TICK_S)),
    "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL": _whole(lambda f: f.link * np.float32(TICK_S / 1024)),
    "DCGM_FI_DEV_POWER_VIOLATION": _nanoseconds(lambda f: f.is_capped.astype(np.float32)),
    "DCGM_FI_DEV_THERMAL_VIOLATION": _nanoseconds(lambda f: f.is_too_hot.astype(np.float32)),
    **dict.fromkeys(
        (
            "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
            "DCGM_FI_DEV_SYNC_BOOST_VIOLATION",
            "DCGM_FI_DEV_BOARD_LIMIT_VIOLATION",
            "DCGM_FI_DEV_LOW_UTIL_VIOLATION",
            "DCGM_FI_DEV_RELIABILITY_VIOLATION",
            "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL",
            "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
            "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL",
            "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL",
            "DCGM_FI_DEV_RETIRED_SBE",
            "DCGM_FI_DEV_RETIRED_DBE",
            "DCGM_FI_DEV_RETIRED_PENDING",
            "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL",
            "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL",
            "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL",
            "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL",
            "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
            "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
        ),
        _none,
    ),
}
# Of a whole GPU only: what MIG instances do not have of their own.
OF_WHOLE_GPUS: Final = ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_MEM_COPY_UTIL")

_FRAMES = 4
_ANCHORS = 32
_STRETCH = 2880
"""Ticks summed at once."""


class Devices:
    """A fleet's fields. Keeps the last frames, and the sums counters had reached, so that going on is cheap."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self._levels = KeptLevels()
        self._frames: OrderedDict[tuple[int, int, int, int], Frame] = OrderedDict()
        self._reached: dict[tuple[str, int, int], dict[int, Values]] = {}

    def values(self, field: str, rows: slice, first: int, ticks: int) -> Numbers:
        """`float[row, tick]`. Raises: KeyError for a field that DCGM does not have, or that nobody models."""
        if field in ERRORS:
            return self.frame(rows, first, ticks).marked(lambda b: (1.0, b.lasts(field)), adds=True)
        read = GAUGES.get(field)
        if read is not None:
            return read(self.frame(rows, first, ticks))
        if COUNTERS[field] is _none:
            return _none(Frame(self.fleet, rows, first, ticks))
        return self._counted(field, rows, first, ticks)

    def resume(self, counter: str, rows: slice, at: int, totals: Values) -> None:
        """Let a counter of some rows go on from what it had reached before a tick."""
        self._reached[counter, rows.start, rows.stop] = {at: totals}

    def frame(self, rows: slice, first: int, ticks: int) -> Frame:
        key = (rows.start, rows.stop, first, ticks)
        found = self._frames.pop(key, None) or Frame(self.fleet, rows, first, ticks, self._levels)
        self._frames[key] = found
        while len(self._frames) > _FRAMES:
            self._frames.popitem(last=False)
        return found

    def _counted(self, field: str, rows: slice, first: int, ticks: int) -> Values:
        before = self._before(field, rows, first)
        found = before[:, None] + np.cumsum(self._added(field, rows, first, ticks), axis=1)
        self._keep(field, rows, first + ticks, found[:, -1])
        return found

    def _before(self, field: str, rows: slice, first: int) -> Values:
        """What all ticks before that one added."""
        known = self._reached.setdefault((field, rows.start, rows.stop), {})
        at = max((t for t in known if t <= first), default=None)
        if at is None:
            at = min(int(self.fleet.first[rows].min()), first)
            total = np.zeros(rows.stop - rows.start)
        else:
            total = known[at]
        while at < first:
            ticks = min(_STRETCH, first - at)
            total = total + self._added(field, rows, at, ticks).sum(axis=1)
            at += ticks
        self._keep(field, rows, first, total)
        return total

    def _added(self, field: str, rows: slice, first: int, ticks: int) -> Values:
        added = COUNTERS[field](Frame(self.fleet, rows, first, ticks, self._levels)).astype(np.float64)
        here = self.fleet.first[rows]
        if int(here.max()) > first:
            added[np.arange(first, first + ticks) < here[:, None]] = 0
        return added

    def _keep(self, field: str, rows: slice, at: int, total: Values) -> None:
        known = self._reached.setdefault((field, rows.start, rows.stop), {})
        known[at] = total
        while len(known) > _ANCHORS:
            del known[next(iter(known))]
