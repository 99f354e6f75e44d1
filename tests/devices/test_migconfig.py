"""mig-parted's files: what they ask of each card, and what nvidia-mig-parted says of wrong ones."""

from __future__ import annotations

import pytest

from fairway.catalog.catalog import load_catalog
from fairway.catalog.gpus import GpuModel
from fairway.catalog.nodegpus import read_layouts
from fairway.catalog.placements import layout_of, layout_text
from fairway.devices.migapplying import WHOLE, Applied, Held, applied, is_applied, mode_differs
from fairway.devices.migconfig import (
    MigConfigError,
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


def texts(found: Applied) -> list[str | None]:
    return [None if x is None else layout_text(x) for x in found.layouts]


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
    assert applied(specs["a"], card, [now]).layouts[0] is now


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
            found = applied(specs, card, [None, None])
            assert (found.problem, len(found.layouts)) == ("", 2), name
            assert is_applied(specs, card, found.layouts) or not card.is_mig_capable, name


def wrapped(entry: str) -> str:
    return f"{{version: v1, mig-configs: {{a: [{entry}]}}}}"


YAML = "error parsing config file: unmarshal error: error converting YAML to JSON: yaml: "


def profile(name: str, count: int = 1) -> str:
    return wrapped(f'{{devices: all, mig-enabled: true, mig-devices: {{"{name}": {count}}}}}')


PREFIX = "error parsing config file: unmarshal error: error unmarshaling JSON: while decoding JSON: "
JSON = PREFIX + "json: cannot unmarshal "
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
            VALUES + "invalid format for '1x.5gb': cannot parse fields of '1x.5gb': missing 'g' from '%dg'",
        ),
        (profile("1g.5gb", -1), VALUES + "invalid count for '-1': <nil>"),
        (profile(""), VALUES + "invalid format for '': profile is the empty string"),
        (profile("1g"), "parsed wrong number of fields, expected 2 or 3"),
        (profile("1c.2x.20gb"), "missing 'g' from '%dg'"),
        (profile("1g. 5gb"), "leading or trailing spaces on '%dgb'"),
        (profile("ag.5gb"), "malformed number in '%dg'"),
        (profile("1g.5gb+me-x"), "profile '1g.5gb+me-x' contains both '+/-' attributes"),
        (profile("1g.5gb+"), "cannot parse attributes of '1g.5gb+': empty attribute in list"),
        (profile("1g.5gb+me,me"), "non unique attribute in list"),
        (profile("1g.5gb+1me"), "attribute begins with a number"),
        (profile("1g.5gb+me."), "attribute begins/ends with a dot"),
        (profile("1g.5gb+m_e"), "non alpha-numeric character or digit in attribute"),
        ("", PREFIX + "unknown version: "),
        ("{}", PREFIX + "unknown version: "),
        ("version: 1", JSON + "number into Go value of type string"),
        ("[1]", JSON + "array into Go value of type map[string]json.RawMessage"),
        (
            "{version: v1, mig-configs: [1]}",
            JSON + "array into Go value of type map[string]v1.MigConfigSpecSlice",
        ),
        (
            "{version: v1, mig-configs: {a: {}}}",
            JSON + "object into Go value of type v1.MigConfigSpecSlice",
        ),
        ("{version: v1, mig-configs: {a: [x]}}", JSON + "string into Go value of type map[string]json"),
        (
            wrapped("{devices: 1, mig-enabled: false}"),
            PREFIX
            + "(json: cannot unmarshal number into Go value of type string, "
            + "json: cannot unmarshal number into Go value of type []int)",
        ),
        (
            wrapped("{devices: [1.5], mig-enabled: false}"),
            "cannot unmarshal number 1.5 into Go value of type int)",
        ),
        (wrapped("{devices: null, mig-enabled: false}"), PREFIX + "invalid string input for 'devices': "),
        (wrapped("{devices: all, mig-enabled: 1}"), JSON + "number into Go value of type bool"),
        (
            wrapped("{devices: all, mig-enabled: true, mig-devices: [1]}"),
            JSON + "array into Go value of type types",
        ),
        (
            wrapped("{device-filter: 7, devices: all, mig-enabled: false}"),
            PREFIX
            + "(json: cannot unmarshal number into Go value of type string, "
            + "json: cannot unmarshal number into Go value of type []string)",
        ),
        (
            wrapped('{devices: all, mig-enabled: true, mig-devices: {"1g.5gb": 0}}'),
            VALUES + "all counts for all MigProfiles are 0",
        ),
        ("[" * 5000, YAML),
        ("x: [", YAML),
        ("x" * 2_000_000, "error parsing config file: 2000000 bytes"),
    ],
)
def test_what_mig_parted_says_of_a_wrong_file(text: str, said: str) -> None:
    with pytest.raises(MigConfigError) as raised:
        read_mig_configs(text)
    assert said in str(raised.value)
    assert str(raised.value).startswith(said) or not said.startswith("error")


@pytest.mark.parametrize(
    "text", ["{version: v1}", "{version: v1, mig-configs: {a: [{devices: [], mig-enabled: null}]}}"]
)
def test_what_mig_parted_lets_pass(text: str) -> None:
    assert len(read_mig_configs(text)) < 2


def entry(counts: str, devices: str = "all") -> str:
    return f"{{devices: {devices}, mig-enabled: true, mig-devices: {counts}}}"


def configured(*entries: str, card: str = "H100", now: str = "0=;1=", held: Held = frozenset()) -> Applied:
    specs = read_mig_configs(wrapped(", ".join(entries)))["a"]
    return applied(specs, gpu(card), read_layouts(gpu(card), 2, now), held)


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ('{"4g.40gb": 2}', "(2 x 4g.40gb do not fit on a NVIDIA-H100-80GB-HBM3: Insufficient Resources)"),
        ('{"1g.10gb": 1000000}', "(1000000 x 1g.10gb do not fit on a"),
    ],
)
def test_what_a_card_cannot_have_leaves_it_empty(counts: str, said: str) -> None:
    found = configured(entry(counts), now="0=1g.10gb@0;1=1g.10gb@0")
    assert said in found.problem and "all orderings failed" in found.problem
    assert texts(found) == ["", "1g.10gb@0"]


def test_a_profile_that_no_card_has_clears_the_card_and_is_no_error() -> None:
    """go-nvlib's parsing fails for it, and mig-parted takes the list of instances to be empty then."""
    found = configured(entry('{"1g.5gb": 7, "1g.10gb": 1}'), now="0=1g.10gb@0;1=")
    assert (found.problem, texts(found)) == ("", ["", ""])


def test_compute_instances_are_refused() -> None:
    with pytest.raises(MigConfigError, match="compute instances smaller"):
        configured(entry('{"1c.2g.20gb": 2}'))


def test_instances_in_use_stay_with_those_that_come_after_them() -> None:
    """NVML's order: 1g before 2g before 3g; what comes before the one in use is gone."""
    now = "0=1g.10gb@0,1g.10gb@1,2g.20gb@2,3g.40gb@4;1=7g.80gb@0"
    found = configured(entry('{"7g.80gb": 1}'), now=now, held=frozenset({(0, 2)}))
    assert "destroying Compute instance for profile '(1, 0)': In use by another client" in found.problem
    assert texts(found) == ["2g.20gb@2,3g.40gb@4", "7g.80gb@0"]


def test_cards_that_no_entry_changes_may_be_in_use() -> None:
    held = frozenset({(0, 0)})
    now = "0=7g.80gb@0;1=7g.80gb@0"
    for entries in (
        [entry('{"1g.10gb": 7}', "[1]")],
        [entry('{"7g.80gb": 1}', "[0]"), entry('{"1g.10gb": 7}', "[1]")],
    ):
        found = configured(*entries, now=now, held=held)
        assert found.problem == "" and (texts(found)[1] or "").startswith("1g.10gb@0,")


def test_a_mode_is_changed_by_a_reset_that_waits_for_who_has_the_card() -> None:
    found = configured(entry('{"7g.80gb": 1}'), now="", held=frozenset({(0, WHOLE)}))
    assert "error resetting all GPUs (GPU 0: In use by another client)" in found.problem and found.is_mode
    assert (texts(found), found.pending) == ([None, ""], (0,))
    assert found.rebooted() == ((), ())
    # Where one card's mode changes, every card of the configuration is cleared.
    found = configured(entry('{"7g.80gb": 1}'), now="0=7g.80gb@0", held=frozenset({(0, 0)}))
    assert "error clearing existing MIG configurations" in found.problem and texts(found) == [
        "7g.80gb@0",
        None,
    ]


def test_what_counts_as_applied() -> None:
    card, specs = gpu("H100"), read_mig_configs(wrapped(entry('{"7g.80gb": 1}', "[0]")))["a"]
    now = read_layouts(card, 2, "0=7g.80gb@0;1=7g.80gb@0")
    assert not mode_differs(specs, card, now)
    assert not is_applied(specs, card, now), "a card that no entry concerns never matches"
    assert is_applied(specs, card, now, mode_only=True)
    zero = read_mig_configs(wrapped(entry('{"7g.80gb": 1, "1g.10gb": 0}')))["a"]
    assert not is_applied(zero, card, now), "nor does a profile that is counted 0 times"
    off = read_mig_configs(wrapped("{devices: all, mig-enabled: false}"))["a"]
    assert is_applied(off, card, [None, None]) and not is_applied(off, card, [None, ()])


def test_cards_that_cannot_be_cut() -> None:
    assert configured(entry('{"1g.10gb": 7}'), card="V100", now="").problem == ""
    found = configured(entry('{"1g.10gb": 7}', "[0]"), card="V100", now="")
    assert "cannot set MIG mode on non MIG-capable GPU" in found.problem


def test_an_unknown_configuration_is_said() -> None:
    with pytest.raises(MigConfigError, match=r"selected mig-config not present: all-3g\.99gb"):
        selected(generated_configs(gpu("H100")), "all-3g.99gb")
