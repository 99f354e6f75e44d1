"""What a terminal report says about autoscalers: who was scaled between what, how often, and why at last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fairway.kube.timestamps import format_duration
from fairway.recorder.tables import ScalingRow
from fairway.results import words
from fairway.results.run import Run
from fairway.results.textlayout import HEADING, Line, table

# Targets and changes that are listed; the table of the run has all.
TARGETS_SHOWN = 10
CHANGES_SHOWN = 12


@dataclass(slots=True)
class _Target:
    name: str
    changes: list[ScalingRow]

    @property
    def row(self) -> list[str]:
        sizes = [self.changes[0].before, *(c.after for c in self.changes)]
        flaps = sum(c.is_flap for c in self.changes)
        return [
            self.name,
            str(len(self.changes)),
            str(flaps),
            str(min(sizes)),
            str(max(sizes)),
            str(sizes[-1]),
        ]


def scaling_lines(run: Run, width: int) -> list[Line]:
    """None for a run without autoscalers."""
    rows = run.outcome.scalings
    if not rows:
        return []
    targets: dict[str, _Target] = {}
    for row in rows:
        name = f"{row.kind} {row.namespace}/{row.name}"
        targets.setdefault(name, _Target(name, [])).changes.append(row)
    busiest = sorted(targets.values(), key=lambda t: (-len(t.changes), t.name))
    head = ["target", "changes", "flaps", "least", "most", "end"]
    body = [t.row for t in busiest[:TARGETS_SHOWN]]
    title = f"SCALING  {words.counted(len(rows), 'change')} of {words.counted(len(targets), 'target')}"
    lines = [Line(title, HEADING), *table(head, body, width)]
    if len(busiest) > TARGETS_SHOWN:
        lines.append(Line(f"  and {words.counted(len(busiest) - TARGETS_SHOWN, 'target')} more"))
    return [*lines, *_changes(rows[:CHANGES_SHOWN], len(rows), run.outcome.began_us, width)]


def _changes(rows: Sequence[ScalingRow], count: int, began_us: int, width: int) -> list[Line]:
    lines = []
    for row in rows:
        why = row.reason.partition("(&LabelSelector")[0] + (
            " above target" if "(&LabelSelector" in row.reason else ""
        )
        flap = "flap: " if row.is_flap else ""
        at = f"+{format_duration(row.at_us - began_us)}"
        lines.append(
            Line(
                words.cut(
                    f"  {at:>10}  {row.name}: {row.before} → {row.after} ({row.ready} ready)  {flap}{why}",
                    width,
                )
            )
        )
    if count > len(rows):
        lines.append(
            Line(f"  and {words.counted(count - len(rows), 'change')} more: scalings in the run's directory")
        )
    return lines
