"""dcgm-exporter's files of counters, names and labels."""

import pytest

from fairway.telemetry.dcgm.counters import (
    CountersError,
    default_counters,
    field_of,
    parse_counters,
    spellings,
)
from fairway.telemetry.dcgm.identity import Device, Holder, split_labels


def test_the_default_file_is_the_exporters() -> None:
    names = [counter.name for counter in default_counters()]
    assert len(names) == 25
    assert {"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"} <= set(names)
    assert "DCGM_FI_DRIVER_VERSION" not in names


def test_old_spellings_stand_for_fields() -> None:
    assert field_of("dcgm_gpu_utilization") == "DCGM_FI_DEV_GPU_UTIL"
    assert field_of("dcgm_temperature_gpu") == field_of("dcgm_gpu_temp") == "DCGM_FI_DEV_GPU_TEMP"
    assert all(field_of(name) for name in spellings())
    assert field_of("up") is None


def test_a_file_of_ones_own() -> None:
    text = "# mine\n\nDCGM_FI_PROF_SM_ACTIVE , gauge, Busy SMs.\ndcgm_gpu_temp, gauge, Heat, \nX"
    found = parse_counters(text.splitlines()[2])
    assert found[0][:3] == ("DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_PROF_SM_ACTIVE", "gauge")
    assert parse_counters("DCGM_FI_DRIVER_VERSION, label, Driver") == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("DCGM_FI_DEV_GPU_UTIL, gauge", "line 1: malformed CSV record.*expected 3 fields"),
        ("\nDCGM_FI_DEV_GPU_UTIL, meter, x", "line 2: could not find Prometheus metric type 'meter'"),
        ("DCGM_FI_MADE_UP, gauge, x", "could not find DCGM field; err: unknown ExporterCounter field"),
        ("a,b,c\n" * 2000, "2000 lines"),
        ("\x00\xff", "malformed"),
    ],
)
def test_what_the_exporter_would_not_start_with(text: str, words: str) -> None:
    with pytest.raises(CountersError, match=words):
        parse_counters(text)


def test_labels() -> None:
    before, behind = split_labels(Device("n1", 3, "NVIDIA A10G"), Holder("team", "p-0", "main"))
    found = dict((*before, *behind))
    assert found["gpu"] == "3" and found["device"] == "nvidia3" and found["Hostname"] == "n1"
    assert found["pod"] == "p-0" and found["namespace"] == "team" and found["node"] == "n1"
    assert "GPU_I_ID" not in found
    sliced = Device("n1", 0, "H100", "1g.10gb", "2").labels()
    assert sliced["GPU_I_PROFILE"] == "1g.10gb" and sliced["GPU_I_ID"] == "2"
