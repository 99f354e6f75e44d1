"""What the requests of every served model got, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from fairway.recorder.table import Table
from fairway.recorder.tables import ServiceRow
from fairway.twin.components import Component

if TYPE_CHECKING:
    from fairway.twin.serving.component import Room, Serving

_US: Final = 1e6
_SPANS: Final = ("ttft", "tpot", "end_to_end", "queue", "prefill", "decode")


def service_table(parts: dict[str, Component]) -> Table[ServiceRow]:
    """A row a served model; empty without any."""
    serving = cast("Serving | None", parts.get("serving"))
    if serving is None:
        return Table.of(ServiceRow, [])
    serving.finish()
    return Table.of(ServiceRow, [_row(room, serving.host.loop.now_us) for room in serving.rooms])


def _row(room: Room, at_us: int) -> ServiceRow:
    from fairway.serving.readings import readings

    fleet, served = room.fleet, room.served
    come = fleet.arrived
    when, what = fleet.tables()
    found = readings(when[:come], what[:come], served.slo)
    spans = {
        f"{name}_us_p{p}": None if value != value else round(value * _US)
        for name in _SPANS
        for p, value in zip((50, 95, 99), found.percentiles[name], strict=True)
    }
    loads = [sample.load for sample in room.samples]
    return ServiceRow(
        at_us=at_us,
        namespace=served.namespace,
        name=served.name,
        model=served.deployed.model.name,
        requests=found.requests,
        ok=found.ends["ok"],
        refused=found.ends["refused"],
        lost=found.ends["lost"],
        timed_out=found.ends["timed out"],
        too_long=found.ends["too long"],
        failed=found.ends["failed"],
        unfinished=found.ends["unfinished"],
        attained_permille=round(1000 * found.attained),
        tokens_written=fleet.load().tokens_written,
        tokens_read=fleet.load().tokens_read,
        preempted=fleet.load().preempted,
        ready_most=max((load.ready for load in loads), default=0),
        waiting_most=max((load.waiting for load in loads), default=0),
        **spans,
    )
