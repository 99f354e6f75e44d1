"""The cluster over time, exactly integrated and in bounded space.

For a value that changes by δ at times t, its integral up to T is `v·T − Σ δ·t`: a change costs two additions
and nothing else has to be touched. A *cut* notes all integrals at one moment; the mean between two cuts is
the difference of their integrals. Up to `CUT_LIMIT` cuts there is one per moment at which anything changed;
beyond, every second one is dropped and the distance doubles: means get coarser, integrals stay exact.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from fairway.twin.recorder.tables import Peak, SeriesRow, Table

# What is followed. The order is that of `NAMES`.
(
    GPU_TOTAL,
    GPU_ALLOCATED,
    GPU_TOLD,
    GPU_USED,
    GPU_PENDING,
    CPU_TOTAL,
    CPU_ALLOCATED,
    MEMORY_TOTAL,
    MEMORY_ALLOCATED,
    NODES,
    PODS_PENDING,
    PODS_STARTING,
    PODS_RUNNING,
    QUEUE_LENGTH,
) = range(14)

NAMES = (
    "gpu_milli_total",
    "gpu_milli_allocated",
    "gpu_milli_told",
    "gpu_milli_used",
    "gpu_milli_pending",
    "cpu_milli_total",
    "cpu_milli_allocated",
    "memory_bytes_total",
    "memory_bytes_allocated",
    "nodes",
    "pods_pending",
    "pods_starting",
    "pods_running",
    "queue_length",
)
# Those whose largest value is worth a line in a report.
PEAKED = (GPU_TOTAL, GPU_ALLOCATED, GPU_PENDING, NODES, PODS_PENDING, PODS_RUNNING, QUEUE_LENGTH)

# Cuts kept at most. A chart is a thousand pixels wide; a cut is about 600 bytes and, on 1,200 nodes, 50 µs for
# the fragmentation. A run of any length makes a few thousand.
CUT_LIMIT = 1024


class Cut(NamedTuple):
    """All integrals up to a moment, and the fragmentation just before it."""

    at_us: int
    integrals: tuple[int, ...]
    fragmentation: float | None


class SeriesLedger:
    """Values as they stand, their moments, and the cuts so far. Times are µs since the run began."""

    __slots__ = ("_cut_at", "_peak_at", "_peaks", "_width", "cuts", "moments", "now", "values")

    def __init__(self) -> None:
        self.now = 0
        self.values = [0] * len(NAMES)
        self.cuts: list[Cut] = []
        self._peaks = [0] * len(NAMES)
        self._peak_at = [0] * len(NAMES)
        self.moments = [0] * len(NAMES)
        self._width = 1
        self._cut_at = -1

    def tick(self, now: int, fragmentation: float | None) -> None:
        """Let time pass to `now`, which lies ahead. `fragmentation` is that of the time that passed."""
        self._note_peaks()
        if self._cut_at < 0:
            self._cut(0, None)
        if now - self._cut_at >= self._width:
            # A quiet stretch gets a segment of its own, so that what came before is not spread over it.
            if self.now - self._cut_at > 0 and now - self.now >= self._width:
                self._cut(self.now, fragmentation)
            self._cut(now, fragmentation)
        self.now = now

    def is_cut_due(self, now: int) -> bool:
        """Whether `tick` to this time would cut."""
        return now - self._cut_at >= self._width

    def add(self, metric: int, delta: int) -> None:
        self.values[metric] += delta
        self.moments[metric] += delta * self.now

    def add_all(self, deltas: tuple[tuple[int, int], ...]) -> None:
        """Several changes of the present moment: (metric, delta) each."""
        now, values, moments = self.now, self.values, self.moments
        for metric, delta in deltas:
            values[metric] += delta
            moments[metric] += delta * now

    def integral(self, metric: int, until: int) -> int:
        """Exact, from the beginning, value·µs. `until` is not before the last change."""
        return self.values[metric] * until - self.moments[metric]

    def _integrals(self, until: int) -> tuple[int, ...]:
        return tuple([v * until - m for v, m in zip(self.values, self.moments, strict=True)])

    def _cut(self, at: int, fragmentation: float | None) -> None:
        cuts = self.cuts
        cuts.append(Cut(at, self._integrals(at), fragmentation))
        self._cut_at = at
        if len(cuts) > CUT_LIMIT:
            self._width = max(2 * self._width, 2 * at // CUT_LIMIT)
            kept = [cuts[0]]
            for cut in cuts[1:-1]:
                if cut.at_us - kept[-1].at_us >= self._width:
                    kept.append(cut)
            kept.append(cuts[-1])
            self.cuts = kept

    def _note_peaks(self) -> None:
        """What stands now lasted until the next change: is it the most so far? Unrolled, for it runs per moment."""
        v, p = self.values, self._peaks
        if v[PODS_PENDING] > p[PODS_PENDING]:
            self._set_peak(PODS_PENDING)
        if v[PODS_RUNNING] > p[PODS_RUNNING]:
            self._set_peak(PODS_RUNNING)
        if v[GPU_ALLOCATED] > p[GPU_ALLOCATED]:
            self._set_peak(GPU_ALLOCATED)
        if v[GPU_PENDING] > p[GPU_PENDING]:
            self._set_peak(GPU_PENDING)
        if v[QUEUE_LENGTH] > p[QUEUE_LENGTH]:
            self._set_peak(QUEUE_LENGTH)
        if v[GPU_TOTAL] > p[GPU_TOTAL]:
            self._set_peak(GPU_TOTAL)
        if v[NODES] > p[NODES]:
            self._set_peak(NODES)

    def _set_peak(self, metric: int) -> None:
        self._peaks[metric] = self.values[metric]
        self._peak_at[metric] = self.now

    def table(self, began_us: int, until: int, fragmentation: float | None) -> Table[SeriesRow]:
        """Means between the cuts, the last segment ending at `until` (µs since the run began)."""
        cuts = self.cuts or [Cut(0, (0,) * len(NAMES), None)]
        if until > cuts[-1].at_us:
            last = self._integrals(until)
            cuts = [*cuts, Cut(until, last, fragmentation)]
        starts = [began_us + c.at_us for c in cuts]
        columns: dict[str, list[int] | list[float] | list[float | None]] = {
            "start_us": starts[:-1],
            "end_us": starts[1:],
            "fragmentation": [c.fragmentation for c in cuts[1:]],
        }
        pairs = list(pairwise(cuts))
        for metric, name in enumerate(NAMES):
            columns[name] = [
                (b.integrals[metric] - a.integrals[metric]) / (b.at_us - a.at_us) for a, b in pairs
            ]
        return Table(SeriesRow, dict(columns))

    def highest(self, began_us: int) -> dict[str, Peak]:
        """Peaks by name, the present moment included."""
        self._note_peaks()
        return {NAMES[m]: Peak(self._peaks[m], began_us + self._peak_at[m]) for m in PEAKED}

    def fork(self) -> SeriesLedger:
        twin = SeriesLedger()
        twin.now = self.now
        twin.values = list(self.values)
        twin.cuts = list(self.cuts)
        twin._peaks, twin._peak_at = list(self._peaks), list(self._peak_at)
        twin.moments = list(self.moments)
        twin._width = self._width
        twin._cut_at = self._cut_at
        return twin
