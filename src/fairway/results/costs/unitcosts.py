"""What did one of something cost: an epoch, an experiment, 1,000 requests, an idle GPU-hour?

Epochs and requests are told by labels of pods, or by whoever asks: `fairway.dev/epochs` on the pods of a workload
says how many epochs the whole workload trains, `fairway.dev/requests-per-second` how many requests a second one pod
answers while it runs. A workload that has not finished has no price per epoch: it is listed without one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fairway.errors import UserError
from fairway.kube.timestamps import SECOND_US
from fairway.metering.bill import NO_LABEL
from fairway.results.costs.breakdown import breakdown
from fairway.results.costs.costing import Costed
from fairway.results.costs.figures import CostFigures

EPOCHS_LABEL = "fairway.dev/epochs"
REQUESTS_LABEL = "fairway.dev/requests-per-second"

EPOCH, REQUESTS, EXPERIMENT, IDLE_HOUR = "epoch", "1,000 requests", "experiment", "idle GPU-hour"


@dataclass(frozen=True, slots=True)
class Asked:
    """Counts told by whoever asks, by `namespace/Kind/name` of a workload; they win over labels."""

    epochs: Mapping[str, float] = field(default_factory=dict)
    requests: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UnitCost:
    """`micros` for `count` of a unit. `each_micros` None: not known yet, and `note` says why."""

    unit: str
    name: str
    count: float
    micros: int
    each_micros: float | None
    note: str = ""


def unit_costs(run: Costed, figures: CostFigures, asked: Asked | None = None) -> tuple[UnitCost, ...]:
    """By unit, then by name. Raises: UserError for a workload that is not in the run, or a count that cannot be."""
    asked = asked or Asked()
    owed = _owed_by_workload(run)
    for told in (asked.epochs, asked.requests):
        _check(told, owed)
    found = [*_epochs(run, owed, asked.epochs), *_requests(run, owed, asked.requests), *_experiments(run)]
    if figures.idle_hour_micros is not None:
        found.append(
            UnitCost(IDLE_HOUR, "", figures.idle_gpu_hours, figures.idle_gpu_micros, figures.idle_hour_micros)
        )
    return tuple(found)


def _owed_by_workload(run: Costed) -> dict[str, int]:
    """µ$ by `namespace/Kind/name`; only those that hold something with a price."""
    lines = breakdown(run, ("namespace", "workload")).lines
    return {"/".join(line.key): line.owed for line in lines if not line.is_nobody}


def _check(told: Mapping[str, float], owed: Mapping[str, int]) -> None:
    for name, count in told.items():
        if name not in owed:
            from difflib import get_close_matches

            close = get_close_matches(name, owed, 1)
            hint = f"did you mean {close[0]}? " if close else ""
            raise UserError(f"{name}: {hint}expected namespace/Kind/name of a workload that held something")
        if not 0 < count < float("inf"):
            raise UserError(f"{name}: {count:g} of them: expected more than 0")


def _number(text: Any) -> float | None:
    try:
        value = float(text)
    except (TypeError, ValueError):
        return None
    return value if 0 < value < float("inf") else None


def _keys(run: Costed) -> list[str]:
    """`namespace/Kind/name` by row of the pods: as the bill names workloads."""
    columns = run.metered.owners.columns
    return [f"{n}/{w}" for n, w in zip(columns["namespace"], columns["workload"], strict=True)]


def _epochs(run: Costed, owed: Mapping[str, int], told: Mapping[str, float]) -> list[UnitCost]:
    counts: dict[str, float] = {}
    for key, labels in zip(_keys(run), run.run.outcome.pods.column("labels"), strict=True):
        found = _number(labels.get(EPOCHS_LABEL))
        if found:
            counts[key] = found
    counts.update(told)
    outcomes = {
        f"{w.namespace}/{w.kind}/{w.name}": w.outcome for w in run.run.outcome.workloads if not w.owner_kind
    }
    rows = []
    for key in sorted(counts):
        state = outcomes.get(key, "Complete")
        is_over = state == "Complete"
        each = owed.get(key, 0) / counts[key] if is_over else None
        note = "" if is_over else f"{state}: no price per epoch yet"
        rows.append(UnitCost(EPOCH, key, counts[key], owed.get(key, 0), each, note))
    return rows


def _requests(run: Costed, owed: Mapping[str, int], told: Mapping[str, float]) -> list[UnitCost]:
    """Requests of a pod: its rate times the time from its start to its end."""
    outcome = run.run.outcome
    counts: dict[str, float] = {}
    names = ("labels", "started_us", "finished_us")
    columns = zip(_keys(run), *(outcome.pods.column(n) for n in names), strict=True)
    for key, labels, started, finished in columns:
        rate = _number(labels.get(REQUESTS_LABEL))
        if rate and started is not None:
            until = outcome.ended_us if finished is None else finished
            counts[key] = counts.get(key, 0.0) + rate * (until - started) / SECOND_US
    counts.update(told)
    return [
        UnitCost(REQUESTS, key, counts[key], owed.get(key, 0), 1000 * owed.get(key, 0) / counts[key])
        for key in sorted(counts)
        if counts[key]
    ]


def _experiments(run: Costed) -> list[UnitCost]:
    lines = breakdown(run, ("experiment",)).lines
    named = [line for line in lines if line.key[0] != NO_LABEL and not line.is_nobody]
    return [UnitCost(EXPERIMENT, line.key[0], 1, line.owed, float(line.owed)) for line in named]
