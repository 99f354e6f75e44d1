"""What autoscalers did to whom, as a table."""

from __future__ import annotations

from typing import Final

from fairway.kube.timestamps import MINUTE_US
from fairway.recorder.table import Table
from fairway.recorder.tables import ScalingRow
from fairway.twin.autoscaling.component import NAME, Autoscaling
from fairway.twin.components import Component

# A change against the one before it, sooner than this, is a flap.
FLAP_US: Final = 10 * MINUTE_US


def scaling_table(parts: dict[str, Component]) -> Table[ScalingRow]:
    """In order; empty without autoscalers."""
    room = parts.get(NAME)
    if not isinstance(room, Autoscaling) or not room.journal.scalings:
        return Table.of(ScalingRow, [])
    last: dict[str, tuple[int, bool]] = {}
    rows = []
    for done in room.journal.scalings:
        is_up = done.after > done.before
        before = last.get(done.target)
        is_flap = before is not None and before[1] != is_up and done.at_us - before[0] < FLAP_US
        last[done.target] = (done.at_us, is_up)
        kind, namespace, name = done.target.split("/", 2)
        by = done.by.split("/", 2) if done.by else ["", "", ""]
        rows.append(
            ScalingRow(
                done.at_us,
                by[0],
                by[2],
                kind,
                namespace,
                name,
                done.before,
                done.after,
                done.ready,
                done.metric,
                done.why,
                is_flap,
            )
        )
    return Table.of(ScalingRow, rows)
