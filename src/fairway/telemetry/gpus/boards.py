"""What does a board of this model draw, how fast does it run, how hot may it get?

MHz of SMs and memory at work are the datasheets'. Watts and MHz at rest, and MiB that the driver keeps, are estimates
of what `nvidia-smi -q` prints of such boards (`boards.json`; cards and drivers differ); the rest is the catalog's.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import NamedTuple

from fairway.catalog.catalog import Catalog
from fairway.catalog.gpus import MIB, GpuModel

# Of a GPU nobody described.
_MEMORY_MIB, _TDP_W, _THROTTLE_C, _BANDWIDTH = 81559, 400, 87, 2000
# GB/s of a PCIe slot by generation, x16, one way, less a tenth for headers. Source: PCI-SIG.
_PCIE = {"3.0": 14.0, "4.0": 28.0, "5.0": 56.0, "6.0": 110.0}


class Board(NamedTuple):
    """`link_gb_s`: NVLink, both ways together, 0 without."""

    name: str
    memory_mib: int
    reserved_mib: int
    idle_w: int
    tdp_w: int
    throttle_c: int
    sm_mhz: int
    rest_mhz: int
    memory_mhz: int
    pcie_gb_s: float
    link_gb_s: float


@cache
def _known() -> dict[str, list[int]]:
    text = (Path(__file__).parent / "boards.json").read_text()
    return dict(json.loads(text)["boards"])


def board_of(catalog: Catalog, product: str) -> Board:
    """The board behind a product's name; of one that nobody knows, a middling one under that name."""
    model = catalog.gpu(product) if product else None
    return _of_model(model) if model is not None else _unknown(product)


def _of_model(model: GpuModel) -> Board:
    idle, sm, rest, memory, reserved = _known().get(model.name) or _known()["otherwise"]
    return Board(
        name=model.product.replace("-", " "),
        memory_mib=model.memory_bytes // MIB,
        reserved_mib=reserved,
        idle_w=min(idle, model.tdp_w // 4),
        tdp_w=model.tdp_w,
        throttle_c=model.throttle_c,
        sm_mhz=sm,
        rest_mhz=rest,
        memory_mhz=memory,
        pcie_gb_s=_PCIE.get(model.pcie[:3], _PCIE["4.0"]),
        link_gb_s=float(model.nvlink_gb_per_s),
    )


def _unknown(product: str) -> Board:
    idle, sm, rest, memory, reserved = _known()["otherwise"]
    name = (product or "NVIDIA GPU").replace("-", " ")
    return Board(name, _MEMORY_MIB, reserved, idle, _TDP_W, _THROTTLE_C, sm, rest, memory, _PCIE["4.0"], 0.0)
