"""Which devices are there, and who uses them when? Columns; nothing per moment.

A row is a whole GPU or a MIG instance. Segments of a row may overlap where a GPU is shared: they lie in layers, in
each of which none does. Ticks count `TICK_S` seconds from 1970, the interval at which dcgm-exporter collects.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from fairway.telemetry.gpus.boards import Board
from fairway.telemetry.gpus.breaks import Break
from fairway.telemetry.gpus.kinds import IDLE, INPUT_STALLS, KINDS, SERVING

TICK_S: Final = 30
TICK_US: Final = TICK_S * 1_000_000
FAR_TICK: Final = 2**40
AIRFLOW: Final = "fairway.dev/airflow"

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]


class Use(NamedTuple):
    """How something uses a device from one moment on. `level` 0 to 1; memory in MiB, and how fast it grows.

    `interval_us`, `dip_us`: work between two checkpoints, counted from `anchor_us`, and how long each takes.
    """

    start_us: int
    end_us: int
    kind: int
    level: float
    memory_mib: float = 0.0
    growth_mib_per_h: float = 0.0
    input_stalls: float = INPUT_STALLS
    interval_us: int = 0
    dip_us: int = 0
    anchor_us: int = 0
    is_linked: bool = False
    """Whether it works together with other GPUs."""
    pattern: str = ""
    """Whose rhythm it has: pods of one workload stall and save together."""


class Row(NamedTuple):
    """A device. `gpu`: which physical one; `share`: its part of the SMs (a MIG instance's), `memory_mib` its own."""

    board: int
    gpu: int
    slot: int
    name: str
    start_us: int
    end_us: int
    share: float = 1.0
    memory_mib: float = 0.0
    airflow: float = 1.0


def airflow_of(labels: Mapping[str, str]) -> float:
    """A node's share of the air its boards should have: label `fairway.dev/airflow: "60"`, in percent; 1 without."""
    told = labels.get(AIRFLOW, "")
    return min(max(int(told[:4]) / 100, 0.2), 2.0) if told.isdecimal() else 1.0


class Fleet(NamedTuple):
    """Arrays by row and by segment; `layers`: per layer (segments in order, where each row's begin)."""

    seed: int
    boards: tuple[Board, ...]
    board: Ints
    gpu: Ints
    slot: Ints
    shift: Ints
    first: Ints
    last: Ints
    share: Floats
    memory: Floats
    airflow: Floats
    columns: Mapping[str, npt.NDArray[Any]]
    layers: tuple[tuple[Ints, Ints], ...]
    breaks: tuple[Break, ...] = ()

    def __len__(self) -> int:
        return len(self.board)


class FleetBuilder:
    """Collects rows and uses. O(n log n) when it is built."""

    def __init__(self, boards: Sequence[Board], seed: int = 0) -> None:
        self._boards = tuple(boards)
        self._seed = seed
        self._rows: list[Row] = []
        self._at: list[int] = []
        self._uses: list[Use] = []
        self._breaks: list[Break] = []

    def add(self, row: Row) -> int:
        """Its number. Rows of one GPU come one after the other."""
        self._rows.append(row)
        return len(self._rows) - 1

    def memory_of(self, row: int) -> float:
        """MiB of its framebuffer."""
        return self._rows[row].memory_mib or self._boards[self._rows[row].board].memory_mib

    def use(self, row: int, use: Use) -> None:
        self._at.append(row)
        self._uses.append(use)

    def broke(self, row: int, start_us: int, end_us: int | None, **how: Any) -> None:
        """The GPU of a row broke (`Break`); `end_us` None: it is not mended."""
        last = FAR_TICK if end_us is None else ticks_up(end_us)
        self._breaks.append(Break(self._rows[row].gpu, ticks_up(start_us), last, **how))

    def build(self) -> Fleet:
        rows, boards = self._rows, self._boards
        own = [self.memory_of(i) for i in range(len(rows))]
        at = np.array(self._at, np.int64)
        columns = _segments(self._uses)
        return Fleet(
            seed=self._seed,
            boards=boards,
            board=np.array([r.board for r in rows], np.int64),
            gpu=np.array([r.gpu for r in rows], np.int64),
            slot=np.array([r.slot for r in rows], np.int64),
            shift=np.array([stable(f"{self._seed}/{r.name}") for r in rows], np.int64),
            first=np.array([ticks_up(r.start_us) for r in rows], np.int64),
            last=np.array([ticks_up(r.end_us) for r in rows], np.int64),
            share=np.array([r.share for r in rows], np.float32),
            memory=np.array(own, np.float32),
            airflow=np.array([r.airflow for r in rows], np.float32),
            columns=columns,
            layers=_layers(at, columns["first"], columns["last"], len(rows)),
            breaks=tuple(self._breaks),
        )


def ticks_up(at_us: int) -> int:
    """The first tick that is not before a time."""
    return min(-(-at_us // TICK_US), FAR_TICK)


def stable(text: str) -> int:
    """A number from a name, the same in every process."""
    return zlib.crc32(text.encode())


def _segments(uses: Sequence[Use]) -> dict[str, npt.NDArray[Any]]:
    """One array per column, and behind the last a segment of nobody: an idle, empty GPU."""
    patterns: dict[str, int] = {}
    shifts = [patterns.get(u.pattern) or patterns.setdefault(u.pattern, stable(u.pattern)) for u in uses]
    kinds = np.array([u.kind for u in uses] + [IDLE], np.int64)
    ratios = {
        n: np.array([getattr(k, n) for k in KINDS], np.float32)[kinds]
        for n in ("sm", "tensor", "dram", "power")
    }
    linked = np.array([u.is_linked for u in uses] + [False])
    links = np.array([k.link for k in KINDS], np.float32)[kinds]
    found: dict[str, npt.NDArray[Any]] = {
        **ratios,
        "kind": kinds,
        "warps": np.array([k.occupancy for k in KINDS], np.float32)[kinds],
        "bus": np.array([k.pcie for k in KINDS], np.float32)[kinds],
        "link": np.where(linked, links, np.float32(0)),
        "first": np.array([ticks_up(u.start_us) for u in uses] + [0], np.int64),
        "last": np.array([ticks_up(u.end_us) for u in uses] + [0], np.int64),
        "level": np.array([u.level for u in uses] + [0.0], np.float32),
        "memory": np.array([u.memory_mib for u in uses] + [0.0], np.float32),
        "growth": np.array([u.growth_mib_per_h * TICK_S / 3600 for u in uses] + [0.0], np.float32),
        "stalls": np.array([u.input_stalls for u in uses] + [0.0], np.float32),
        "interval": np.array([ticks_up(u.interval_us) if u.dip_us else 0 for u in uses] + [0], np.int64),
        "dip": np.array([ticks_up(u.dip_us) for u in uses] + [0], np.int64),
        "anchor": np.array([ticks_up(u.anchor_us) for u in uses] + [0], np.int64),
        "shift": np.array([*shifts, 0], np.int64),
    }
    # Busy a third of the time, as much more while it is.
    serving = kinds == SERVING
    found["level"] = np.where(serving, found["level"] / KINDS[SERVING].level, found["level"]).astype(
        np.float32
    )
    return found


def _layers(at: Ints, first: Ints, last: Ints, rows: int) -> tuple[tuple[Ints, Ints], ...]:
    """Segments by row and start; one that begins before another of its row has ended goes a layer up."""
    order = np.lexsort((first[: len(at)], at)) if len(at) else np.zeros(0, np.int64)
    layer = np.zeros(len(order), np.int64)
    rowed, begins, ends = at[order], first[order], last[order]
    if len(order) > 1:
        # Rows are further apart than anything lasts: what goes on for ever ends at FAR_TICK itself.
        apart = FAR_TICK + 1
        latest = np.maximum.accumulate(ends + rowed * apart)[:-1] % apart
        collides = (rowed[1:] == rowed[:-1]) & (begins[1:] < latest)
        for row in np.unique(rowed[1:][collides]).tolist():
            lo, hi = np.searchsorted(rowed, (row, row + 1))
            free: list[int] = []
            for i in range(lo, hi):
                k = next((k for k, end in enumerate(free) if end <= begins[i]), len(free))
                free[k : k + 1] = [int(ends[i])]
                layer[i] = k
    found = []
    for k in range(int(layer.max(initial=0)) + 1):
        chosen = layer == k
        found.append((order[chosen], np.searchsorted(rowed[chosen], np.arange(rows + 1))))
    return tuple(found)
