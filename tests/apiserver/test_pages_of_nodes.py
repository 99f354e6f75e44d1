"""What node-exporter says of a node: seconds by core and mode, memory, time; against plain arithmetic."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.apiserver.scrapes.nodes import node_exporter
from fairway.kube.timestamps import SECOND_US
from fairway.twin.kubelet.usage import NodeUse

SINCE_S, GIB = 1_767_571_200, 2**30


def _page(cpu: str, core_s: float, after_s: int = 100, memory: int = GIB, **info: str) -> dict[str, float]:
    capacity = {"cpu": cpu, "memory": "4Gi"}
    node: dict[str, Any] = {"metadata": {"name": "n"}, "status": {"capacity": capacity, "nodeInfo": info}}
    use = NodeUse("n", round(core_s * 10**9), 1500, memory, ())
    blocks = node_exporter(node, use, SINCE_S * SECOND_US, (SINCE_S + after_s) * SECOND_US)
    lines = [line for block in blocks for line in block.lines]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


@pytest.mark.parametrize(
    ("cpu", "core_s", "cores", "busy"),
    [
        ("4", 120, 4, 30),
        ("4", 0, 4, 0),
        ("2", 200, 2, 100),
        ("2", 1000, 2, 100),
        ("500m", 20, 1, 20),
        ("3900m", 9, 3, 3),
    ],
)
def test_work_is_spread_over_all_cores(cpu: str, core_s: float, cores: int, busy: float) -> None:
    page = _page(cpu, core_s)
    for core in range(cores):
        modes = {
            mode: page[f'node_cpu_seconds_total{{cpu="{core}",mode="{mode}"}}']
            for mode in ("user", "system", "idle")
        }
        assert modes == {"user": busy, "system": 0, "idle": 100 - busy}
    assert sum(name.startswith("node_cpu_seconds_total") for name in page) == 3 * cores


def test_load_memory_and_time() -> None:
    page = _page("4", 10, memory=GIB, architecture="arm64", kernelVersion="6.1")
    assert [page[f"node_load{minutes}"] for minutes in (1, 5, 15)] == [1.5] * 3
    assert page["node_memory_MemTotal_bytes"] == 4 * GIB
    assert page["node_memory_MemFree_bytes"] == page["node_memory_MemAvailable_bytes"] == 3 * GIB
    assert (page["node_boot_time_seconds"], page["node_time_seconds"]) == (SINCE_S, SINCE_S + 100)
    (uname,) = [name for name in page if name.startswith("node_uname_info")]
    assert 'machine="aarch64"' in uname and 'release="6.1"' in uname and 'nodename="n"' in uname
    assert _page("4", 10, memory=5 * GIB)["node_memory_MemFree_bytes"] == 0
    assert any('machine="x86_64"' in name for name in _page("4", 10))
