"""Requirement algebra: intersection, compatibility, words. Facts of Karpenter's requirement(s)_test.go."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.provisioning.karpenter.labels import WELL_KNOWN, ZONE
from fairway.provisioning.karpenter.requirement import OPERATORS, Requirement, one_of, requirement
from fairway.provisioning.karpenter.requirements import Requirements, selector_requirements

VALUES = ("", "A", "B", "0", "1", "2", "5", "9", "-3")
BY_NAME = {
    "exists": requirement("k", "Exists"),
    "absent": requirement("k", "DoesNotExist"),
    "in A": requirement("k", "In", ["A"]),
    "in B": requirement("k", "In", ["B"]),
    "in AB": requirement("k", "In", ["A", "B"]),
    "not A": requirement("k", "NotIn", ["A"]),
    "in 1": requirement("k", "In", ["1"]),
    "in 9": requirement("k", "In", ["9"]),
    "in 19": requirement("k", "In", ["1", "9"]),
    "not 12": requirement("k", "NotIn", ["1", "2"]),
    ">1": requirement("k", "Gt", ["1"]),
    ">9": requirement("k", "Gt", ["9"]),
    "<1": requirement("k", "Lt", ["1"]),
    "<9": requirement("k", "Lt", ["9"]),
    ">=5": requirement("k", "Gte", ["5"]),
    "<=5": requirement("k", "Lte", ["5"]),
}


@pytest.mark.parametrize(("a", "b"), list(product(BY_NAME, BY_NAME)))
def test_an_intersection_allows_what_both_allow(a: str, b: str) -> None:
    left, right = BY_NAME[a], BY_NAME[b]
    both = left.intersection(right)
    assert [v for v in VALUES if both.has(v)] == [v for v in VALUES if left.has(v) and right.has(v)]
    assert both.operator == right.intersection(left).operator
    assert left.intersects(right) == right.intersects(left)
    if not (left.complement and right.complement):
        assert left.intersects(right) == bool(both.values)


TEXTS = {
    "in": (BY_NAME["in AB"], "k In [A B]"),
    "not in": (BY_NAME["not A"], "k NotIn [A]"),
    "exists": (BY_NAME["exists"], "k Exists"),
    "does not exist": (BY_NAME["absent"], "k DoesNotExist"),
    "greater is a bound of Exists": (BY_NAME[">1"], "k Exists >=2"),
    "less is a bound of Exists": (BY_NAME["<9"], "k Exists <=8"),
    "both bounds": (BY_NAME[">1"].intersection(BY_NAME["<9"]), "k Exists >=2 <=8"),
    "bounds that cross allow nothing": (BY_NAME[">9"].intersection(BY_NAME["<1"]), "k DoesNotExist"),
    "minValues": (requirement("k", "In", ["A", "B"], 2), "k In [A B] minValues 2"),
    "five values, then a count": (one_of("k", "abcdefg"), "k In [a b c d e and 2 others]"),
    "old zone label": (
        requirement("failure-domain.beta.kubernetes.io/zone", "In", ["a"]),
        "topology.kubernetes.io/zone In [a]",
    ),
}


@pytest.mark.parametrize("case", TEXTS)
def test_words(case: str) -> None:
    made, want = TEXTS[case]
    assert str(made) == want


def test_the_larger_min_values_wins() -> None:
    both = requirement("k", "Exists", (), 3).intersection(requirement("k", "In", ["A", "B"], 2))
    assert both.min_values == 3


def test_two_bounds_are_written_as_two_requirements() -> None:
    made = BY_NAME[">1"].intersection(BY_NAME["<9"])
    assert [(s["operator"], s["values"]) for s in made.as_selectors()] == [("Gte", ["2"]), ("Lte", ["8"])]


# (what a node offers, what is asked, compatible when undefined well-known labels are allowed, without)
Z, C = ZONE, "team"
COMPATIBLE = {
    "nothing asked": ([], [], True, True),
    "an undefined well-known label may be asked for": ([], [(Z, "In", ["a"])], True, False),
    "an undefined custom label may not": ([], [(C, "In", ["x"])], False, False),
    "Exists on an undefined custom label may not": ([], [(C, "Exists", [])], False, False),
    "Gt on an undefined custom label may not": ([], [(C, "Gt", ["1"])], False, False),
    "NotIn on an undefined custom label may": ([], [(C, "NotIn", ["x"])], True, True),
    "DoesNotExist on an undefined label may": ([], [(C, "DoesNotExist", [])], True, True),
    "values that meet": ([(Z, "In", ["a", "b"])], [(Z, "In", ["b", "c"])], True, True),
    "values that do not": ([(Z, "In", ["a"])], [(Z, "In", ["b"])], False, False),
    "NotIn of the only value": ([(Z, "In", ["a"])], [(Z, "NotIn", ["a"])], False, False),
    "Exists where it is defined": ([(C, "In", ["x"])], [(C, "Exists", [])], True, True),
    "DoesNotExist where it is defined": ([(C, "In", ["x"])], [(C, "DoesNotExist", [])], False, False),
    "absent and absent": ([(C, "DoesNotExist", [])], [(C, "DoesNotExist", [])], True, True),
    "absent and not in": ([(C, "DoesNotExist", [])], [(C, "NotIn", ["x"])], True, True),
    "absent and in": ([(C, "DoesNotExist", [])], [(C, "In", ["x"])], False, False),
    "a number above": ([(C, "In", ["4"])], [(C, "Gt", ["3"])], True, True),
    "a number not above": ([(C, "In", ["3"])], [(C, "Gt", ["3"])], False, False),
    "a number at the bound": ([(C, "In", ["3"])], [(C, "Gte", ["3"])], True, True),
    "a word against a bound": ([(C, "In", ["x"])], [(C, "Lt", ["3"])], False, False),
    "one of two labels conflicts": (
        [(Z, "In", ["a"]), (C, "In", ["x"])],
        [(Z, "In", ["a"]), (C, "In", ["y"])],
        False,
        False,
    ),
}


@pytest.mark.parametrize("case", COMPATIBLE)
def test_compatibility(case: str) -> None:
    have, asked, allowed, strict = COMPATIBLE[case]
    node = Requirements(requirement(*r) for r in have)
    wanted = Requirements(requirement(*r) for r in asked)
    assert node.is_compatible(wanted, WELL_KNOWN) is allowed
    assert node.is_compatible(wanted) is strict
    assert (node.incompatible(wanted, WELL_KNOWN) is None) is allowed
    assert (node.incompatible(wanted) is None) is strict


def test_the_words_of_a_conflict_and_of_a_typo() -> None:
    node = Requirements([one_of(Z, ("a",))])
    assert node.incompatible(Requirements([one_of(Z, ("b",))])) == (
        "key topology.kubernetes.io/zone, topology.kubernetes.io/zone In [b] not in topology.kubernetes.io/zone In [a]"
    )
    typo = node.incompatible(Requirements([one_of("zone", ("a",))]), WELL_KNOWN)
    assert typo == 'label "zone" does not have known values (typo of "topology.kubernetes.io/zone"?)'


def _requirements() -> st.SearchStrategy[Requirement]:
    values = st.lists(st.sampled_from(["1", "2", "5", "A", "B"]), min_size=1, max_size=3)
    numbers = st.sampled_from([["1"], ["4"], ["9"]])
    return st.sampled_from(OPERATORS).flatmap(
        lambda op: st.builds(
            lambda v: requirement("k", op, v if op not in ("Exists", "DoesNotExist") else ()),
            numbers if op in ("Gt", "Lt", "Gte", "Lte") else values,
        )
    )


@given(_requirements(), _requirements(), _requirements())
def test_intersecting_is_associative_in_what_it_allows(
    a: Requirement, b: Requirement, c: Requirement
) -> None:
    left, right = a.intersection(b).intersection(c), a.intersection(b.intersection(c))
    assert [v for v in VALUES if left.has(v)] == [v for v in VALUES if right.has(v)]


@pytest.mark.parametrize(
    ("operators", "listed"),
    [
        ((("Gte", "2"),), [("Gte", ["2"])]),
        ((("Lte", "5"),), [("Lte", ["5"])]),
        ((("Gte", "2"), ("Lte", "5")), [("Gte", ["2"]), ("Lte", ["5"])]),
        ((("Gt", "2"),), [("Gte", ["3"])]),
        ((("Exists", ""),), [("Exists", None)]),
    ],
)
def test_each_bound_is_an_entry_of_its_own(operators: Any, listed: Any) -> None:
    made = selector_requirements(
        [{"key": "k", "operator": o, "values": [v] if v else []} for o, v in operators]
    )
    found = [(e["operator"], e.get("values")) for e in made.get("k").as_selectors()]
    assert found == listed


def test_keys_come_in_their_order_however_they_were_given() -> None:
    given_in = [requirement(key, "Exists") for key in ("zone", "arch", "type")]
    assert Requirements(given_in).keys() == ["arch", "type", "zone"]
