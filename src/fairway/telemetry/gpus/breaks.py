"""What do DCGM's fields say of a GPU that broke? Which counters a failure adds to, and how long each effect lasts.

Errors that the driver reports stay in DCGM_FI_DEV_XID_ERRORS until another comes or the device is reset; volatile
counts end with the reset, aggregated ones never. A card that fell off the bus goes on having series here.

Source: NVIDIA's Xid catalog; dcgm_fields.h.
"""

from __future__ import annotations

from typing import Final, NamedTuple

XID: Final = "DCGM_FI_DEV_XID_ERRORS"
THERMAL: Final = "thermal"
POWER: Final = "power"
# By field: the Xids that add one to it, and whether a reset takes it back.
ERRORS: Final[dict[str, tuple[frozenset[int], bool]]] = {
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": (frozenset((48, 94, 95)), True),
    "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL": (frozenset((48, 94, 95)), False),
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": (frozenset((63,)), False),
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": (frozenset((64,)), True),
    "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL": (frozenset((74,)), True),
}


class Break(NamedTuple):
    """One failure of the physical GPU `gpu`, from a tick until it is reset or mended. `throttles`: what holds its
    clocks back, THERMAL or POWER, and `slow` how many times as long work takes meanwhile."""

    gpu: int
    first: int
    last: int
    xid: int = 0
    throttles: str = ""
    slow: float = 1.0

    def lasts(self, field: str) -> int:
        """Until which tick a field shows it; where it shows it not at all, before its first."""
        if field == XID:
            return self.last if self.xid else self.first
        xids, ends = ERRORS[field]
        if self.xid not in xids:
            return self.first
        return self.last if ends else 1 << 60
