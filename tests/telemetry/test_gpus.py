"""What GPUs do: coherent, the same however it is cut, as the annotations say."""

import numpy as np
import pytest

from fairway.catalog.catalog import load_catalog
from fairway.telemetry.gpus import FleetBuilder, Use
from fairway.telemetry.gpus.boards import board_of
from fairway.telemetry.gpus.fields import COUNTERS, GAUGES, Devices
from fairway.telemetry.gpus.fleet import TICK_US, Row
from fairway.telemetry.gpus.kinds import (
    IDLE,
    KINDS,
    NOTEBOOK,
    SERVING,
    STEADY,
    TRAINING,
    guess,
    parse_activity,
)

FIRST = 50_000_000
START = FIRST * TICK_US
HOUR = 3_600_000_000
DAY = 24 * HOUR
TICKS = 2880


def devices(*uses: Use, airflow: float = 1.0, rows: int = 1, product: str = "H100-SXM5-80GB") -> Devices:
    """Every use on a row of its own; `rows` 1: all on the first."""
    builder = FleetBuilder([board_of(load_catalog(), product)], seed=1)
    for i in range(max(rows, 1)):
        builder.add(Row(0, i, i, f"n/{i}", START, START + 30 * DAY, airflow=airflow))
    for i, use in enumerate(uses):
        builder.use(i if rows > 1 else 0, use)
    return Devices(builder.build())


def training(**changes: object) -> Use:
    plain = Use(START, START + DAY, TRAINING, KINDS[TRAINING].level, memory_mib=60_000.0, pattern="j")
    return plain._replace(**changes)  # type: ignore[arg-type]


def mean(found: Devices, field: str, row: int = 0) -> float:
    return float(found.values(field, slice(row, row + 1), FIRST, TICKS).mean())


def test_power_heat_and_clocks_follow_activity() -> None:
    found = devices(training(), training(kind=IDLE, level=0.0), rows=2)
    busy, idle = (
        {
            name: mean(found, f"DCGM_FI_DEV_{name}", row)
            for name in ("GPU_UTIL", "POWER_USAGE", "GPU_TEMP", "SM_CLOCK")
        }
        for row in (0, 1)
    )
    assert busy["GPU_UTIL"] > 85 and idle["GPU_UTIL"] == 0
    assert 550 < busy["POWER_USAGE"] <= 700 and idle["POWER_USAGE"] == pytest.approx(70, abs=2)
    assert 55 < busy["GPU_TEMP"] < 80 and idle["GPU_TEMP"] < 35
    assert busy["SM_CLOCK"] > 1900


def test_heat_lags_behind_power() -> None:
    found = devices(training(start_us=START + HOUR))
    heat = found.values("DCGM_FI_DEV_GPU_TEMP", slice(0, 1), FIRST + 115, 20)[0]
    power = found.values("DCGM_FI_DEV_POWER_USAGE", slice(0, 1), FIRST + 115, 20)[0]
    assert power[5] > 500
    assert heat[5] < heat[6] < heat[8]


def test_without_air_it_throttles() -> None:
    found = devices(training(), airflow=0.55)
    reasons = found.values("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", slice(0, 1), FIRST + 20, 100)[0].astype(int)
    assert (reasons & 0x20).any()
    assert found.values("DCGM_FI_DEV_GPU_TEMP", slice(0, 1), FIRST, TICKS).max() == 87
    assert mean(found, "DCGM_FI_DEV_SM_CLOCK") < mean(devices(training()), "DCGM_FI_DEV_SM_CLOCK") - 20
    assert mean(found, "DCGM_FI_DEV_THERMAL_VIOLATION") > 0


def test_serving_follows_the_day_and_notebooks_idle() -> None:
    uses = [training(kind=SERVING, level=KINDS[SERVING].level, pattern=f"s{i}") for i in range(64)]
    found = devices(*uses, rows=64)
    busy = found.values("DCGM_FI_DEV_GPU_UTIL", slice(0, 64), FIRST, TICKS)
    # The trace: 7 % on average, nothing two thirds of the time, 18.5 at the median while busy.
    assert 5 < busy.mean() < 9
    assert 0.6 < (busy == 0).mean() < 0.75
    assert 15 < np.median(busy[busy > 0]) < 22
    hours = busy.mean(axis=0).reshape(24, -1).mean(axis=1)
    assert hours.max() > 2 * hours.mean()
    notebook = devices(training(kind=NOTEBOOK, level=KINDS[NOTEBOOK].level))
    assert (notebook.values("DCGM_FI_DEV_GPU_UTIL", slice(0, 1), FIRST, TICKS) == 0).mean() > 0.7


def test_input_stalls_lower_use_and_checkpoints_stop_it() -> None:
    assert (
        mean(devices(training(input_stalls=0.4)), "DCGM_FI_DEV_GPU_UTIL")
        < mean(devices(training()), "DCGM_FI_DEV_GPU_UTIL") * 0.8
    )
    saves = devices(training(input_stalls=0.0, interval_us=HOUR, dip_us=5 * 60_000_000, anchor_us=START))
    busy = saves.values("DCGM_FI_DEV_GPU_UTIL", slice(0, 1), FIRST, 260)[0]
    assert (np.flatnonzero(busy == 0) == [*range(120, 130), *range(250, 260)]).all()


def test_a_leak_fills_the_framebuffer() -> None:
    found = devices(training(memory_mib=10_000.0, growth_mib_per_h=6_000.0, anchor_us=START))
    used = found.values("DCGM_FI_DEV_FB_USED", slice(0, 1), FIRST, TICKS)[0]
    free = found.values("DCGM_FI_DEV_FB_FREE", slice(0, 1), FIRST, TICKS)[0]
    assert used[120] == pytest.approx(16_000, abs=100)
    assert free[-1] == 0
    total = found.values("DCGM_FI_DEV_FB_TOTAL", slice(0, 1), FIRST, 1)[0, 0]
    assert (used + free + 550 == total).all()


def test_shared_devices_add_up() -> None:
    half = training(kind=STEADY, level=0.4)
    found = devices(half, half, half)
    assert mean(found, "DCGM_FI_DEV_GPU_UTIL") == pytest.approx(100, abs=1)
    assert len(found.fleet.layers) == 3


@pytest.mark.parametrize("field", sorted({*GAUGES, *COUNTERS}))
def test_values_do_not_depend_on_how_time_and_rows_are_cut(field: str) -> None:
    def fresh() -> Devices:
        uses = [
            training(),
            training(kind=SERVING, level=0.07),
            training(kind=NOTEBOOK, level=0.03, growth_mib_per_h=10.0, anchor_us=START),
            training(start_us=START + HOUR, interval_us=HOUR, dip_us=60_000_000, anchor_us=START + HOUR),
        ]
        return devices(*uses, rows=4)

    whole = fresh().values(field, slice(0, 4), FIRST, 600)
    going_on = fresh()
    pieces = [going_on.values(field, slice(0, 4), FIRST + at, 150) for at in range(0, 600, 150)]
    assert (np.concatenate(pieces, axis=1) == whole).all()
    assert (fresh().values(field, slice(2, 4), FIRST + 300, 100) == whole[2:4, 300:400]).all()
    assert np.isfinite(whole).all() and (whole >= 0).all()


def test_counters_only_rise() -> None:
    energy = devices(training()).values("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", slice(0, 1), FIRST, TICKS)[0]
    assert (np.diff(energy) > 0).all()
    # A day near the limit: 700 W for 24 hours are 60.5 MJ.
    assert 45e9 < energy[-1] < 60.5e9


@pytest.mark.parametrize(
    ("root", "name", "serving", "kind"),
    [
        ("Job", "train", False, TRAINING),
        ("Deployment", "chat", True, SERVING),
        ("StatefulSet", "jupyter-ann", True, NOTEBOOK),
        ("Notebook", "x", True, NOTEBOOK),
        ("", "pod", False, TRAINING),
        ("PyTorchJob", "t", True, TRAINING),
    ],
)
def test_what_a_pod_does_is_guessed_from_its_owner(root: str, name: str, serving: bool, kind: int) -> None:
    assert guess(root, name, is_serving=serving) == kind


def test_activity_is_read_and_refused() -> None:
    assert parse_activity("training, input-stalls=20%").input_stalls == 0.2
    assert parse_activity("serving,leak=2Gi").leak_mib_per_h == 2048
    for wrong in (
        "sleeping",
        "training,input-stalls=lots",
        "training,leak=-1Gi",
        "idle,x=1",
        "",
        "training,leak=1e999Gi",
    ):
        with pytest.raises(ValueError, match=r"expected|unknown"):
            parse_activity(wrong)
