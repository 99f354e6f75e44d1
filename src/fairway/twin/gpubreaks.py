"""What do a GPU's series say of how it broke?"""

from __future__ import annotations

from collections.abc import Mapping

from fairway.devices.breaking import cause_named
from fairway.telemetry.gpus import FleetBuilder
from fairway.telemetry.gpus.breaks import POWER, THERMAL
from fairway.twin.components import Component
from fairway.twin.devices import gpuhealth

_THROTTLES = {"thermal": THERMAL, "power-cap": POWER}


def broken_gpus(parts: Mapping[str, Component]) -> Mapping[tuple[str, int, str, int], int | None]:
    """Node, card, cause and since when, of a twin's components; until when."""
    health = parts.get(gpuhealth.NAME)
    return health.history if isinstance(health, gpuhealth.GpuHealth) else {}


def tell(builder: FleetBuilder, row: int, cause: str, start_us: int, end_us: int | None) -> None:
    """One failure of the GPU that a row of a fleet belongs to."""
    how = cause_named(cause)
    throttles = _THROTTLES.get(cause, "")
    builder.broke(row, start_us, end_us, xid=how.xid, throttles=throttles, slow=how.slow)
