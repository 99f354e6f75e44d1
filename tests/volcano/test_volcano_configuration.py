"""Reading the scheduler's ConfigMap."""

from __future__ import annotations

import pytest

from fairway.errors import InvalidInput
from fairway.volcano.configuration import DEFAULT_CONFIGURATION, configuration_of, read_configuration

CHART = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
"""


def test_the_default_is_what_the_chart_installs() -> None:
    assert read_configuration(CHART) == DEFAULT_CONFIGURATION


def test_a_config_map_is_read() -> None:
    found = configuration_of({"metadata": {"name": "c"}, "data": {"volcano-scheduler.conf": CHART}})
    assert found.actions == ("enqueue", "allocate", "backfill")


def test_arguments_are_kept() -> None:
    text = (
        "actions: allocate\ntiers:\n- plugins:\n  - name: binpack\n    arguments:\n      binpack.weight: 10\n"
    )
    option = read_configuration(text).option("binpack")
    assert option is not None
    assert option.arguments == {"binpack.weight": 10}


@pytest.mark.parametrize(
    ("narrative", "text", "want"),
    [
        (
            "an action nobody has",
            "actions: dance\ntiers: []\n",
            "actions: dance: failed to find Action dance",
        ),
        ("an action of upstream's", "actions: shuffle\ntiers: []\n", "action cannot be simulated"),
        (
            "a plugin nobody has",
            "actions: allocate\ntiers:\n- plugins:\n  - name: gangg\n",
            "tiers[0].plugins[0].name: gangg: no such plugin",
        ),
        (
            "a plugin of upstream's",
            "actions: allocate\ntiers:\n- plugins:\n  - name: capacity\n",
            "plugin cannot be simulated",
        ),
        (
            "a flag nobody has",
            "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n    enableSinging: true\n",
            "tiers[0].plugins[0].enableSinging: True: unknown field",
        ),
        (
            "a flag that is no flag",
            "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n    enableJobOrder: 3\n",
            "expected true or false",
        ),
        (
            "a hierarchy",
            "actions: allocate\ntiers:\n- plugins:\n  - name: drf\n    enableHierarchy: true\n",
            "hierarchical queues cannot be simulated",
        ),
        (
            "a factor below one",
            "actions: allocate\ntiers:\n- plugins:\n  - name: overcommit\n    arguments: {overcommit-factor: 0.5}\n",
            "expected a number of at least 1",
        ),
        (
            "a weight that is none",
            "actions: allocate\ntiers:\n- plugins:\n  - name: nodeorder\n    arguments: {podaffinity.weight: x}\n",
            "expected a whole number",
        ),
        ("no tiers", "actions: allocate\n", "tiers: expected a list"),
        ("no mapping", "- a\n", "expected a mapping with actions and tiers"),
        ("no YAML", "actions: [\n", "not YAML"),
    ],
)
def test_what_will_not_do_is_refused(narrative: str, text: str, want: str) -> None:
    with pytest.raises(InvalidInput) as wrong:
        read_configuration(text)
    assert want in " ".join(str(p) for p in wrong.value.problems)


def test_a_config_map_without_configuration_is_refused() -> None:
    with pytest.raises(InvalidInput):
        configuration_of({"metadata": {"name": "c"}, "data": {"other": ""}})
