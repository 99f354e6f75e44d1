"""A run as Prometheus would have seen it: every exporter's series, derived when somebody asks.

Nothing of this happens while a simulation runs. What is derived follows from the run directory alone, so that it is the
same every time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fairway.catalog.catalog import Catalog, load_catalog
from fairway.recorder.tables import Outcome
from fairway.results.gpuseries import dcgm_source
from fairway.results.queueseries import queue_makers
from fairway.results.stateseries import state_makers
from fairway.telemetry.dcgm.counters import field_of
from fairway.telemetry.dcgm.source import DcgmSource
from fairway.telemetry.steps import StepSource
from fairway.telemetry.store import Matcher, Series, Table, name_of


class RunSource:
    """All series of a run. Devices are looked at when a metric of theirs is first asked for."""

    def __init__(self, outcome: Outcome, catalog: Catalog, seed: int) -> None:
        self._outcome, self._catalog, self._seed = outcome, catalog, seed
        makers = {**state_makers(outcome), **queue_makers(outcome)}
        self._steps = StepSource(makers, outcome.ended_us // 1000)
        self._gpus: DcgmSource | None = None

    def names(self) -> list[str]:
        """Every metric that there may be."""
        return sorted({*self._steps.names(), *self._devices().names()})

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> Iterator[Series]:
        name = name_of(matchers)
        if name is None or field_of(name) is not None:
            yield from self._devices().select(matchers, start_ms, end_ms)
        if name is None or field_of(name) is None:
            yield from self._steps.select(matchers, start_ms, end_ms)

    def has_tables(self, matchers: Sequence[Matcher]) -> bool:
        name = name_of(matchers)
        return name is not None and field_of(name) is not None

    def parts(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> Iterator[Table | Series]:
        return self._devices().parts(matchers, start_ms, end_ms)

    def row_count(self) -> int:
        return self._devices().row_count()

    def divided(self, share: float) -> tuple[DcgmSource, DcgmSource]:
        return self._devices().divided(share)

    def _devices(self) -> DcgmSource:
        if self._gpus is None:
            self._gpus = dcgm_source(self._outcome, self._catalog, self._seed)
        return self._gpus


def series_of_run(outcome: Outcome, catalog: Catalog | None = None, *, seed: int = 0) -> RunSource:
    """Of a run that was simulated, loaded from its directory or still going on. `seed`: of the devices' noise."""
    return RunSource(outcome, load_catalog() if catalog is None else catalog, seed)
