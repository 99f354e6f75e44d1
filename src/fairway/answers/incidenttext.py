"""An incident report as Markdown, and as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairway.answers.incident import Incident
from fairway.kube.manifestwriting import write_yaml
from fairway.kube.timestamps import format_duration, rfc3339
from fairway.results.textlayout import sparkline

_CHANGES = 3


def incident_markdown(found: Incident, pictures: Sequence[Path] = ()) -> str:
    """The report; `pictures` are linked beside its own graphs in characters."""
    parts = [
        f"# Incident: {rfc3339(found.from_us)} to {rfc3339(found.to_us)}",
        found.summary,
        _section("Scope", _scope(found)),
        _section("Timeline", _timeline(found)),
        _section("Graphs", [*_graphs(found), *(f"![{p.stem}]({p})" for p in pictures)]),
        _section("Contributing factors", _factors(found)),
        _section("What was tried", [f"- {line}" for line in found.tried] or ["Nothing is recorded."]),
        _section("Remediation", _remedies(found)),
        _section("What would have told earlier", _alerts(found)),
    ]
    if found.unknown:
        parts.append(
            _section("What could not be known", [f"- {note}" for note in dict.fromkeys(found.unknown)])
        )
    return "\n\n".join(parts) + "\n"


def _section(title: str, lines: list[str]) -> str:
    return "\n".join([f"## {title}", "", *lines])


def _scope(found: Incident) -> list[str]:
    scope = found.scope
    where = ", ".join(scope.namespaces) or "none"
    nodes = ", ".join(scope.nodes_lost[:5]) + (" …" if len(scope.nodes_lost) > 5 else "")
    return [
        f"- ground: {found.ground}; {format_duration(found.to_us - found.from_us)}",
        f"- namespaces concerned: {where}",
        f"- of {scope.pods} pods, {scope.pods_failed} failed and {scope.pods_disrupted} were disrupted; "
        f"{scope.evictions} workloads lost their quota",
        f"- nodes lost: {nodes or 'none'}",
        f"- GPU-hours waited for: {scope.gpu_hours_waited:,.1f}",
    ]


def _timeline(found: Incident) -> list[str]:
    lines = ["| when | what | times |", "|---|---|---|"]
    for entry in found.timeline:
        times = f"{entry.times}, until {rfc3339(entry.last_us)}" if entry.times > 1 else "1"
        lines.append(f"| {rfc3339(entry.at_us)} | {_cell(entry.what)} | {times} |")
    more = (
        [f"\n{found.left_out} more of the same kinds are counted above or left out."]
        if found.left_out
        else []
    )
    return [*lines, *more] if found.timeline else ["No events are left."]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _graphs(found: Incident) -> list[str]:
    width = max((len(g.title) for g in found.graphs), default=0)
    lines = [
        f"{g.title:<{width}}  {sparkline(g.values, g.top)}  up to {g.top:,.6g} {g.unit}" for g in found.graphs
    ]
    return ["```text", *lines, "```"] if lines else ["Nothing was recorded over time."]


def _factors(found: Incident) -> list[str]:
    lines = []
    for one in found.factors:
        lines.append(f"- **{one.symptom.title}** (`{one.symptom.name}`): {one.finding.count} found")
        lines += [f"    - {_cell(text)}" for text in one.finding.evidence]
    return lines or ["No check found any."]


def _remedies(found: Incident) -> list[str]:
    lines = [f"- {one.symptom.title}: {one.check.fix} (`{one.check.command}`)" for one in found.factors]
    for explanation in found.remedies:
        if not explanation.changes:
            lines.append(
                f"- {explanation.object}: none of {explanation.tried} changes that were tried starts it"
            )
            continue
        lines.append(f"- {explanation.object} starts with any of these, each tried on a copy:")
        for change in explanation.changes[:_CHANGES]:
            lines.append(f"    - {change.what}")
            lines += [f"\n      ```console\n      $ {command}\n      ```" for command in change.commands]
    return lines or ["Nothing is to be done."]


def _alerts(found: Incident) -> list[str]:
    rules: list[dict[str, Any]] = []
    lines = []
    for one in found.factors:
        alert = one.symptom.alert
        if alert is None or any(rule["alert"] == alert.name for rule in rules):
            continue
        rules.append(alert.rule(one.symptom.title))
        if alert.name in found.told_us:
            lines.append(f"`{alert.name}` would have fired at {rfc3339(found.told_us[alert.name])}.")
    if not rules:
        return ["No alert is known for this."]
    text = write_yaml([{"groups": [{"name": "fairway", "rules": rules}]}])
    return [*lines, "", "```yaml", text.rstrip(), "```"]


def incident_json(found: Incident) -> dict[str, Any]:
    scope = found.scope
    return {
        "ground": found.ground,
        "from": rfc3339(found.from_us),
        "to": rfc3339(found.to_us),
        "summary": found.summary,
        "scope": {name: getattr(scope, name) for name in scope.__slots__},
        "timeline": [
            {
                "at": rfc3339(e.at_us),
                "what": e.what,
                "times": e.times,
                "last": rfc3339(max(e.last_us, e.at_us)),
            }
            for e in found.timeline
        ],
        "factors": [f.as_json() for f in found.factors],
        "tried": list(found.tried),
        "remedies": [r.as_json() for r in found.remedies],
        "alerts": {name: rfc3339(at_us) for name, at_us in found.told_us.items()},
        "unknown": list(found.unknown),
    }
