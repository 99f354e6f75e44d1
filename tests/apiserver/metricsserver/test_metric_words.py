"""Numbers as metrics-server prints them: billionths of a core, Go's durations, rows that add containers up."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.apiserver.metricsserver.answering import _table, go_seconds, nano

SECOND_US = 1_000_000


@pytest.mark.parametrize(
    ("value", "want"),
    [
        (0, "0"),
        (1, "1n"),
        (999, "999n"),
        (1_000, "1u"),
        (1_001, "1001n"),
        (1_200_000, "1200u"),
        (250_000_000, "250m"),
        (250_000_001, "250000001n"),
        (10**9, "1"),
        (1_500_000_000, "1500m"),
        (999 * 10**9, "999"),
        (1_000 * 10**9, "1k"),
        (1_001 * 10**9, "1001"),
        (2_000_000 * 10**9, "2M"),
        (3 * 10**18, "3G"),
        (5 * 10**21, "5000G"),
    ],
)
def test_billionths_as_quantities(value: int, want: str) -> None:
    assert nano(value) == want


@pytest.mark.parametrize(
    ("seconds", "want"),
    [
        (0, "0s"),
        (15, "15s"),
        (12.5, "12.5s"),
        (0.000001, "0.000001s"),
        (10, "10s"),
        (59.999999, "59.999999s"),
        (60, "1m0s"),
        (61.25, "1m1.25s"),
        (3600, "60m0s"),
    ],
)
def test_durations(seconds: float, want: str) -> None:
    assert go_seconds(round(seconds * SECOND_US)) == want


def usage(cpu: str, memory: str) -> dict[str, str]:
    return {"cpu": cpu, "memory": memory, "swap": "0"}


POD: dict[str, Any] = {
    "kind": "PodMetrics",
    "apiVersion": "metrics.k8s.io/v1beta1",
    "metadata": {"name": "p", "namespace": "team"},
    "window": "15s",
    "containers": [
        {"name": "a", "usage": usage("250m", "1Gi")},
        {"name": "b", "usage": usage("1n", "1Ki")},
    ],
}
NODE: dict[str, Any] = {
    "kind": "NodeMetrics",
    "apiVersion": "metrics.k8s.io/v1beta1",
    "metadata": {"name": "n"},
    "window": "12.5s",
    "usage": usage("2", "3Gi"),
}


@pytest.mark.parametrize("include", ["Metadata", "Object", "None", ""])
def test_a_row_adds_containers_up_and_brings_what_is_asked_for(include: str) -> None:
    found = _table([POD, NODE], include)
    assert (found["kind"], found["apiVersion"], found["metadata"]) == ("Table", "meta.k8s.io/v1", {})
    assert [row["cells"] for row in found["rows"]] == [
        ["p", "250000001n", "1048577Ki", "0", "15s"],
        ["n", "2", "3Gi", "0", "12.5s"],
    ]
    objects = [row["object"] for row in found["rows"]]
    if include == "Object":
        assert objects == [POD, NODE]
    elif include == "None":
        assert objects == [None, None]
    else:
        assert [o["kind"] for o in objects] == ["PartialObjectMetadata"] * 2
        assert [o["metadata"]["name"] for o in objects] == ["p", "n"]
    assert [c["name"] for c in found["columnDefinitions"]] == ["Name", "cpu", "memory", "swap", "Window"]
    assert _table([], include)["columnDefinitions"] == []
