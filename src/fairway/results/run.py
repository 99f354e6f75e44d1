"""A run at hand: what it was, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fairway.recorder.tables import RUNNING, Outcome


@dataclass(frozen=True, slots=True)
class RunInfo:
    """What the outcome's tables do not say. Nothing in it depends on the wall clock: equal runs are equal files.

    `assertions`: verdicts as `{"name", "passed", "shown", "note", "worst"}` (more is kept, not looked at).
    `lost_work_us`: container time whose work no checkpoint saved; None: nobody measured it.
    `notes`: sentences for the reader, such as rows of a trace that were skipped.
    `books`: files of prices that its scenario names (`cloud.prices`), as they were found.
    `alerts`: what its PrometheusRules raised (see `alerttext`).
    `queues`: LocalQueues with the ClusterQueue, cohort and GPU quota behind each (see `costs.borrowing`).
    """

    name: str
    seed: int | None = None
    latency: str = ""
    source: str = ""
    digest: str = ""
    reason: str = ""
    """Why the run is not complete; empty where it is."""
    lost_work_us: int | None = None
    assertions: tuple[Mapping[str, Any], ...] = ()
    notes: tuple[str, ...] = ()
    queues: tuple[Mapping[str, Any], ...] = ()
    books: tuple[str, ...] = ()
    alerts: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Run:
    """What reports and comparisons are made of."""

    info: RunInfo
    outcome: Outcome
    directory: str = ""
    missing: tuple[str, ...] = field(default=())
    """Tables that a killed run did not get to write; they are empty."""

    @property
    def name(self) -> str:
        return self.info.name

    @property
    def status(self) -> str:
        return self.outcome.status


def partial_words(run: Run) -> str:
    """What a run that is not complete has to say for itself."""
    reason = f" ({run.info.reason})" if run.info.reason else ""
    if run.status == RUNNING:
        text = f"This run is still going on, or was killed{reason}: what follows is what it had written."
    else:
        text = f"This run was interrupted{reason}: everything below ends at that moment."
    if run.missing:
        text += f" Missing: {', '.join(run.missing)}."
    return text
