"""What the accounts remember of pods, and for how long."""

from __future__ import annotations

import pytest

from fairway.cluster.records import REMEMBERED, LabelSets, PodRecord, is_preempted, start_time_us
from fairway.cluster.shapes import Shapes
from fairway.kube.objects import Key


def test_equal_labels_of_one_namespace_are_one_set() -> None:
    sets = LabelSets()
    first = sets.of("a", {"app": "x", "tier": "web"})
    assert sets.of("a", {"tier": "web", "app": "x"}) is first
    assert sets.of("b", {"app": "x", "tier": "web"}) is not first


def test_sets_nobody_asks_for_are_forgotten_and_those_in_use_are_not() -> None:
    sets = LabelSets()
    standing, passing = sets.of("a", {"app": "x"}), sets.of("a", {"job": "first"})
    ids = {standing.id, passing.id}
    for number in range(3 * REMEMBERED):
        ids.add(sets.of("a", {"job": str(number)}).id)
        assert sets.of("a", {"app": "x"}) is standing
    assert sets.of("a", {"job": "first"}) is not passing
    assert len(ids) == 3 * REMEMBERED + 2
    assert list(sets.namespaces) == ["a"]


_PREEMPTED = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}


@pytest.mark.parametrize(
    ("is_going", "conditions", "want"),
    [
        (True, [_PREEMPTED], True),
        (False, [_PREEMPTED], False),
        (True, [], False),
        (True, [{"type": "Ready", "status": "True", "reason": "PreemptionByScheduler"}], False),
        (True, [{"type": "Ready", "status": "True"}, _PREEMPTED], True),
        (True, [{**_PREEMPTED, "status": "False"}], False),
        (True, [{**_PREEMPTED, "reason": "EvictionByEvictionAPI"}], False),
    ],
)
def test_who_goes_for_another_is_preempted(
    is_going: bool, conditions: list[dict[str, str]], want: bool
) -> None:
    meta = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if is_going else {}
    assert is_preempted(meta, {"conditions": conditions}) is want


def test_a_start_is_a_time_or_none_yet() -> None:
    assert start_time_us({}) == start_time_us({"startTime": None}) == 0
    assert start_time_us({"startTime": "1970-01-01T00:00:02Z"}) == 2_000_000


def test_a_copy_has_all_that_a_record_has() -> None:
    record = PodRecord(
        key=Key("Pod", "a", "p"),
        uid="u",
        shape=Shapes().of({"metadata": {}, "spec": {}}),
        labels=LabelSets().of("a", {}),
        is_terminating=True,
        is_preempted=True,
        start_us=7,
        devices=0b11,
    )
    assert (record.row, record.node) == (-1, "")
    record.row, record.node = 3, "n"
    twin = record.copy()
    assert twin is not record
    # By name: compiled classes do not tell their attributes.
    names = [
        "devices",
        "is_preempted",
        "is_terminating",
        "key",
        "labels",
        "node",
        "row",
        "shape",
        "start_us",
        "uid",
    ]
    assert all(getattr(twin, name) == getattr(record, name) for name in names)
    assert record.has_labels(None) and record.has_labels({}) and not record.has_labels({"a": "b"})
