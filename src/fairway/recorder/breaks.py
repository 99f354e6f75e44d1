"""Which GPUs broke in a run?"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from fairway.recorder.tables import BreakRow, Table
from fairway.twin.components import Component

if TYPE_CHECKING:
    from fairway.twin.devices.gpuhealth import GpuHealth


def break_table(parts: dict[str, Component]) -> Table[BreakRow]:
    """In the order in which they broke; empty where none did."""
    health = cast("GpuHealth | None", parts.get("gpu-health"))
    known = {} if health is None else health.history
    return Table.of(BreakRow, [BreakRow(*at, until) for at, until in known.items()])
