"""Devices of one fleet are the same however they are asked for: in halves, in blocks, with or without what was kept."""

from __future__ import annotations

import numpy as np
import pytest

from fairway.catalog.catalog import load_catalog
from fairway.telemetry.dcgm import source as dcgm
from fairway.telemetry.dcgm.identity import Device, Holder
from fairway.telemetry.dcgm.source import DcgmSource, Stay
from fairway.telemetry.gpus import FleetBuilder, Use, activity
from fairway.telemetry.gpus.boards import board_of
from fairway.telemetry.gpus.fleet import TICK_US, Row
from fairway.telemetry.store import NAME, Matcher

START = 58_000_000
TICKS = 400


def fleet(gpus: int, parts: int) -> DcgmSource:
    """Every GPU in parts of one size; each part works by turns."""
    board = board_of(load_catalog(), "NVIDIA-H100-80GB-HBM3")
    builder, rng = FleetBuilder([board], 3), np.random.default_rng(3)
    devices, stays = [], []
    end = START + TICKS
    for gpu in range(gpus):
        for part in range(parts):
            row = builder.add(
                Row(0, gpu, gpu % 8, f"n/{gpu}/{part}", START * TICK_US, end * TICK_US, share=1 / parts)
            )
            devices.append(Device(f"n{gpu}", gpu % 8, board.name, "1g.10gb", str(part)))
            at = START
            while at < end:
                until = at + int(rng.integers(1, 90))
                use = Use(at * TICK_US, until * TICK_US, int(rng.integers(5)), 0.9, 5_000.0)
                builder.use(row, use)
                stays.append(Stay(row, at, until, Holder("team", f"p{gpu}-{part}-{at}")))
                at = until + int(rng.integers(0, 20))
    return DcgmSource(builder.build(), devices, stays, end * 30_000)


def shown(source: object, metric: str, first: int = 0, last: int = TICKS) -> list[tuple[object, ...]]:
    asked = [Matcher(NAME, "=", metric)]
    found = source.select(asked, (START + first) * 30_000, (START + last) * 30_000)  # type: ignore[attr-defined]
    return sorted((s.labels, s.times.tolist(), np.nan_to_num(s.values, nan=-1).tolist()) for s in found)


METRICS = ("DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION")


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("share", [0.0, 0.3, 0.71, 1.0])
def test_two_parts_have_every_series_once(metric: str, share: float) -> None:
    whole = shown(fleet(5, 3), metric)
    parts = fleet(5, 3).divided(share)
    assert sorted(shown(parts[0], metric) + shown(parts[1], metric)) == whole
    assert sum(part.row_count() for part in parts) == 15


@pytest.mark.parametrize("metric", METRICS)
def test_blocks_do_not_cut_a_gpu_in_two(metric: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = shown(fleet(7, 7), metric)
    monkeypatch.setattr(dcgm, "_BLOCK", 5 * TICKS)
    assert shown(fleet(7, 7), metric) == whole


def test_what_was_kept_is_what_is_worked_out_again(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, kept, metric = np.random.default_rng(4), fleet(6, 2), METRICS[1]
    want = {}
    for _ in range(40):
        first = int(rng.integers(0, TICKS - 1))
        span = first, int(rng.integers(first + 1, TICKS))
        want[span] = shown(fleet(6, 2), metric, *span)
    monkeypatch.setattr(activity, "_WORTH_KEEPING", 1)
    for span, series in want.items():
        assert shown(kept, metric, *span) == series


def test_no_more_is_kept_than_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = shown(fleet(6, 2), METRICS[1])
    monkeypatch.setattr(activity, "_WORTH_KEEPING", 1)
    monkeypatch.setattr(activity, "_MOST_KEPT", 3 * TICKS * 4)
    monkeypatch.setattr(dcgm, "_BLOCK", 2 * TICKS)
    source = fleet(6, 2)
    assert shown(source, METRICS[1]) == shown(source, METRICS[1]) == whole
    assert source._fields._levels._bytes <= 3 * TICKS * 4
