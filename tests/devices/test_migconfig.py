"""mig-parted's files: what they ask of each card, and what nvidia-mig-parted says of wrong ones."""

from __future__ import annotations

import pytest

from fairway.catalog.catalog import load_catalog
from fairway.catalog.gpus import GpuModel
from fairway.catalog.placements import Layout, layout_of, layout_text
from fairway.devices.migconfig import (
    MigConfigError,
    applied,
    generated_configs,
    read_mig_configs,
    selected,
)

CUSTOM = """
version: v1
mig-configs:
  custom-mig:
  - devices: [0]
    mig-enabled: false
  - devices: [1]
    mig-enabled: true
    mig-devices: {"1g.10gb": 7}
  - devices: [2, 3]
    mig-enabled: true
    mig-devices: {"3g.40gb": 1, "4g.40gb": 1}
  filtered:
  - device-filter: ["0x233010DE"]
    devices: all
    mig-enabled: true
    mig-devices: {"2g.20gb": 3}
  - device-filter: "0x20B010DE"
    devices: all
    mig-enabled: true
    mig-devices: {"1g.5gb": 7}
"""


def gpu(name: str) -> GpuModel:
    found = load_catalog().gpu(name)
    assert found is not None
    return found


def texts(layouts: list[Layout | None]) -> list[str | None]:
    return [None if x is None else layout_text(x) for x in layouts]


def test_each_card_is_cut_as_its_entry_says() -> None:
    configs = read_mig_configs(CUSTOM)
    seven = ",".join(f"1g.10gb@{i}" for i in range(7))
    found = applied(selected(configs, "custom-mig"), gpu("H100"), [None] * 4)
    assert texts(found) == [None, seven, "4g.40gb@0,3g.40gb@4", "4g.40gb@0,3g.40gb@4"]
    found = applied(selected(configs, "filtered"), gpu("H100"), [None])
    assert texts(found) == ["2g.20gb@0,2g.20gb@2,2g.20gb@4"]


def test_a_card_that_has_the_instances_keeps_them_where_they_are() -> None:
    card = gpu("H100")
    now = layout_of(card, "4g.40gb@0")
    specs = read_mig_configs(
        '{version: v1, mig-configs: {a: [{devices: all, mig-enabled: true, mig-devices: {"4g.40gb": 1}}]}}'
    )
    assert applied(specs["a"], card, [now])[0] is now


@pytest.mark.parametrize(
    ("name", "config", "want"),
    [
        ("A100-40GB", "all-1g.10gb", {"1g.10gb": 4}),
        ("H100", "all-1g.10gb", {"1g.10gb": 7}),
        ("H100", "all-1g.10gb.me", {"1g.10gb+me": 1}),
        ("A30", "all-balanced", {"1g.6gb": 2, "2g.12gb": 1}),
        ("GB200", "all-balanced", {"1g.23gb": 2, "2g.47gb": 1, "3g.93gb": 1}),
    ],
)
def test_configurations_made_from_the_cards(name: str, config: str, want: dict[str, int]) -> None:
    assert generated_configs(gpu(name))[config][0].counts == want


def test_every_generated_configuration_can_be_applied() -> None:
    for card in load_catalog().gpus():
        for name, specs in generated_configs(card).items():
            assert len(applied(specs, card, [None, None])) == 2, name


def wrapped(entry: str) -> str:
    return f"{{version: v1, mig-configs: {{a: [{entry}]}}}}"


PREFIX = "error parsing config file: unmarshal error: "
VALUES = PREFIX + "error validating values in 'mig-devices' field: "


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mig-configs: {}", PREFIX + "unable to parse with missing 'version' field"),
        ("version: v2", PREFIX + "unknown version: v2"),
        ("{version: v1, mig-config: {}}", PREFIX + "unexpected field: mig-config"),
        ("{version: v1, mig-configs: {}}", PREFIX + "at least one entry in 'mig-configs' is required"),
        ("{version: v1, mig-configs: {a: []}}", PREFIX + "at least one entry in 'a' is required"),
        (wrapped("{mig-enabled: true}"), PREFIX + "missing required field: devices"),
        (wrapped("{devices: some, mig-enabled: true}"), PREFIX + "invalid string input for 'devices': some"),
        (
            wrapped("{devices: all, mig-enabled: true}"),
            PREFIX + "missing required field 'mig-devices' when 'mig-enabled' is true",
        ),
        (
            wrapped('{devices: all, mig-enabled: false, mig-devices: {"1g.5gb": 1}}'),
            PREFIX + "MIG devices included when 'mig-enabled' is false",
        ),
        (wrapped("{devices: all, mig-enabled: true, gpus: 1}"), PREFIX + "unexpected field: gpus"),
        (
            wrapped('{devices: all, mig-enabled: true, mig-devices: {"1x.5gb": 1}}'),
            VALUES + "invalid format for '1x.5gb': cannot parse as a MIG profile",
        ),
        (
            wrapped('{devices: all, mig-enabled: true, mig-devices: {"1g.5gb": 0}}'),
            VALUES + "all counts for all MigProfiles are 0",
        ),
        ("[" * 5000, PREFIX),
        ("x: [", PREFIX),
        ("x" * 2_000_000, "error parsing config file: 2000000 bytes"),
    ],
)
def test_what_mig_parted_says_of_a_wrong_file(text: str, said: str) -> None:
    with pytest.raises(MigConfigError) as raised:
        read_mig_configs(text)
    assert str(raised.value).startswith(said)


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        (
            '{"1g.5gb": 7}',
            '(MIG profile "1g.5gb" not found on this GPU; a NVIDIA-H100-80GB-HBM3 has 1g.10gb,',
        ),
        ('{"4g.40gb": 2}', "(2 x 4g.40gb do not fit on a NVIDIA-H100-80GB-HBM3: Insufficient Resources)"),
        ('{"1g.10gb": 1000000}', "(1000000 x 1g.10gb do not fit on a"),
    ],
)
def test_what_a_card_cannot_have_is_refused(counts: str, said: str) -> None:
    specs = read_mig_configs(wrapped(f"{{devices: all, mig-enabled: true, mig-devices: {counts}}}"))["a"]
    with pytest.raises(MigConfigError) as raised:
        applied(specs, gpu("H100"), [None])
    assert said in str(raised.value) and "all orderings failed" in str(raised.value)


def test_an_unknown_configuration_is_said() -> None:
    with pytest.raises(MigConfigError, match=r"selected mig-config not present: all-3g\.99gb"):
        selected(generated_configs(gpu("H100")), "all-3g.99gb")
