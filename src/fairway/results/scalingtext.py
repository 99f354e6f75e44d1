"""What a terminal report says about autoscalers: who was scaled between what, how often, and why at last."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

from fairway.kube.timestamps import format_duration
from fairway.recorder.tables import GPU_HOUR, ScalingRow
from fairway.results import words
from fairway.results.costs.money import dollars
from fairway.results.run import Run
from fairway.results.scalingfigures import ScaledTarget
from fairway.results.textlayout import DIM, HEADING, Line, table

# Targets and changes that are listed; the table of the run has all.
TARGETS_SHOWN = 10
CHANGES_SHOWN = 12
# GPU-time below which nothing is said of it: what is written with one digit would be 0.0 hours.
_WORTH_TELLING = GPU_HOUR // 20


def scaling_lines(run: Run, width: int) -> list[Line]:
    """None for a run without autoscalers."""
    rows = run.outcome.scalings
    if not rows:
        return []
    from fairway.results.scalingprices import priced_targets

    targets = priced_targets(run)
    has_prices = any(t.hourly_micros is not None for t in targets)
    head = ["target", "changes", "flaps", "least", "most", "end", "short", "surplus"]
    head += ["short, $", "surplus, $"] if has_prices else []
    body = [_row(target, has_prices=has_prices) for target in targets[:TARGETS_SHOWN]]
    title = f"SCALING  {words.counted(len(rows), 'change')} of {words.counted(len(targets), 'target')}"
    lines = [Line(title, HEADING), *table(head, body, width)]
    if len(targets) > TARGETS_SHOWN:
        lines.append(Line(f"  and {words.counted(len(targets) - TARGETS_SHOWN, 'target')} more"))
    starting = sum(t.starting_gpu_milli_us for t in targets)
    note = "  short: replicas wanted and not ready, over time; surplus: ready and no longer wanted"
    if has_prices:
        note += "; $: at the price of a replica's part of its machine"
    if starting >= _WORTH_TELLING:
        note += f"; {words.gpu_hours(starting)} GPU-hours held before ready"
    lines += [Line(text, DIM) for text in wrap(note, width, subsequent_indent="  ")]
    return [*lines, *_changes(rows[:CHANGES_SHOWN], len(rows), run.outcome.began_us, width)]


def _row(target: ScaledTarget, *, has_prices: bool) -> list[str]:
    sizes = target.sizes
    money = (dollars(target.short_micros), dollars(target.surplus_micros)) if has_prices else ()
    return [
        target.title,
        *map(str, (len(target.changes), target.flaps, min(sizes), max(sizes), sizes[-1])),
        words.duration(target.short_us),
        words.duration(target.surplus_us),
        *money,
    ]


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
