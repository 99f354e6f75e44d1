"""What the accounts remember of pods, and for how long."""

from __future__ import annotations

from fairway.cluster.records import REMEMBERED, LabelSets


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
