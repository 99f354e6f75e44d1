"""Alerts of a run, as summaries and reports show them: by rule, the most told of first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from fairway.kube.timestamps import format_duration
from fairway.results import words
from fairway.results.run import Run
from fairway.results.textlayout import BAD, HEADING, Line
from fairway.scenario.assertions.alertwords import AlertRow

SHOWN: Final = 12
# A summary keeps that many alerts; the counts are of all.
KEPT: Final = 1_000


def alert_json(alerts: Sequence[AlertRow], began_us: int) -> tuple[Mapping[str, Any], ...]:
    """Those that fired first, in order. Times in seconds since the run's start; `ended_s` null: it still fired."""
    fired = [a for a in alerts if a.fired_us is not None]

    def since(at_us: int | None) -> float | None:
        return None if at_us is None else (at_us - began_us) / 1e6

    return tuple(
        {
            "alert": a.alert,
            "labels": dict(a.labels),
            "active_s": since(a.created_us),
            "fired_s": since(a.fired_us),
            "ended_s": since(a.ended_us),
            "value": a.value if abs(a.value) != float("inf") and a.value == a.value else None,
            "summary": a.summary,
        }
        for a in fired[:KEPT]
    )


def alert_lines(run: Run, width: int) -> list[Line]:
    """Rule, severity, how often and how long it fired, when first, and what it said."""
    rules = by_rule(run.info.alerts, run.outcome.duration_us / 1e6)
    if not rules:
        return []
    lines = [Line(f"ALERTS  {words.counted(len(run.info.alerts), 'alert')} fired", HEADING)]
    for name, severity, count, firing_s, first_s, said in rules[:SHOWN]:
        when = f"{count:,} times" if count != 1 else "once"
        long, first = (format_duration(round(s * 1e6)) for s in (firing_s, first_s))
        text = f"  {name:<28} {severity:<9} {when:>10}  {long:>7} firing  first at {first:<7} {said}"
        lines.append(Line(words.cut(text, width), BAD if severity == "critical" else ""))
    if len(rules) > SHOWN:
        lines.append(Line(f"  … and {len(rules) - SHOWN} more rules"))
    return lines


def by_rule(
    alerts: Iterable[Mapping[str, Any]], end_s: float
) -> list[tuple[str, str, int, float, float, str]]:
    """Name, severity, how often, seconds of firing together, when first, what the first said."""
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for alert in alerts:
        severity = str((alert.get("labels") or {}).get("severity", ""))
        found.setdefault((str(alert.get("alert", "")), severity), []).append(alert)
    rows = []
    for (name, severity), ours in found.items():
        firing = sum((end_s if a.get("ended_s") is None else a["ended_s"]) - a["fired_s"] for a in ours)
        first = min(a["fired_s"] for a in ours)
        rows.append((name, severity, len(ours), firing, first, str(ours[0].get("summary", ""))))
    return sorted(rows, key=lambda row: (-row[2], row[0]))
