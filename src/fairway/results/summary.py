"""`summary.json`: what a run was, how it stands and its main figures, for programs.

| key | meaning |
|---|---|
| `schema` | `fairway.dev/run/v1`; a reader refuses others |
| `status` | `complete`, `interrupted`, or `running` (still, or killed) |
| `reason` | why it is not complete; empty otherwise |
| `name`, `seed`, `latency`, `source`, `digest` | what was run; equal digests mean equal runs |
| `began`, `ended` | RFC 3339, in the run's own time; `began_us`, `ended_us` in µs since 1970 |
| `figures` | waits in µs, GPU time in milli-GPU·µs, ratios: see `results.figures` |
| `peaks`, `integrals` | of the series' columns: value and µs; exact value·µs |
| `events` | core/v1 Events by component, type and reason, with counts |
| `assertions` | verdicts, where there were assertions |
| `lost_work_us` | container time no checkpoint saved; null: nobody measured it |
| `alerts` | the first thousand that fired, where it had PrometheusRules |
| `notes` | sentences for the reader |
| `queues` | LocalQueues with their ClusterQueue, cohort and GPU quota |

Keys may be added within v1; none changes its meaning. Nothing depends on the wall clock.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fairway.kube.timestamps import rfc3339_micro
from fairway.recorder.tables import EventCount, Peak, ReasonCount
from fairway.results.figures import figures_of
from fairway.results.run import Run, RunInfo

SCHEMA = "fairway.dev/run/v1"


def summary_of(run: Run) -> dict[str, Any]:
    """The whole summary of a run that has an outcome."""
    outcome = run.outcome
    return {
        **_head(run.info, outcome.status),
        "began": rfc3339_micro(outcome.began_us),
        "ended": rfc3339_micro(outcome.ended_us),
        "began_us": outcome.began_us,
        "ended_us": outcome.ended_us,
        "figures": figures_of(outcome).as_json(),
        "peaks": {name: asdict(peak) for name, peak in outcome.peaks.items()},
        "integrals": dict(outcome.integrals),
        "events": [asdict(e) for e in outcome.events],
        "lost_work_us": run.info.lost_work_us,
        "assertions": [dict(a) for a in run.info.assertions],
        "notes": list(run.info.notes),
        "queues": [dict(q) for q in run.info.queues],
        **({"books": list(run.info.books)} if run.info.books else {}),
        **({"alerts": [dict(a) for a in run.info.alerts]} if run.info.alerts else {}),
    }


def unfinished_summary(info: RunInfo, status: str) -> dict[str, Any]:
    """The summary of a run that has no outcome (yet)."""
    return {**_head(info, status), "notes": list(info.notes)}


def _head(info: RunInfo, status: str) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "status": status,
        "reason": info.reason,
        "name": info.name,
        "seed": info.seed,
        "latency": info.latency,
        "source": info.source,
        "digest": info.digest,
    }


def info_of(summary: dict[str, Any]) -> RunInfo:
    return RunInfo(
        name=summary.get("name") or "",
        seed=summary.get("seed"),
        latency=summary.get("latency") or "",
        source=summary.get("source") or "",
        digest=summary.get("digest") or "",
        reason=summary.get("reason") or "",
        lost_work_us=summary.get("lost_work_us"),
        assertions=tuple(summary.get("assertions") or ()),
        notes=tuple(summary.get("notes") or ()),
        queues=tuple(summary.get("queues") or ()),
        books=tuple(summary.get("books") or ()),
        alerts=tuple(summary.get("alerts") or ()),
    )


def outcome_parts(summary: dict[str, Any]) -> dict[str, Any]:
    """What an `Outcome` holds beside its tables."""
    figures = summary.get("figures") or {}
    return {
        "began_us": summary.get("began_us") or 0,
        "ended_us": summary.get("ended_us") or 0,
        "status": summary.get("status") or "",
        "events": tuple(EventCount(**e) for e in summary.get("events") or ()),
        "reasons": tuple(ReasonCount(**r) for r in figures.get("reasons") or ()),
        "peaks": {name: Peak(**p) for name, p in (summary.get("peaks") or {}).items()},
        "integrals": dict(summary.get("integrals") or {}),
    }
