"""Rules that are written out say what their expressions say."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.admission import crdrules
from fairway.admission.cel.compiling import Error
from fairway.admission.cel.evaluating import Evaluation
from fairway.admission.nativerules import HOLDS
from fairway.kube import published

NAMES = st.sampled_from(["PriorityClass", "WorkloadPriorityClass", "x"])
GROUPS = st.sampled_from(["scheduling.k8s.io", "kueue.x-k8s.io", "x"])
REFS = st.fixed_dictionaries({"group": GROUPS, "kind": NAMES, "name": st.just("n")})
QUOTAS = st.fixed_dictionaries({"name": st.just("cpu")}, optional={"borrowingLimit": st.just(1)})
FLAVORS = st.fixed_dictionaries({"name": st.just("f"), "resources": st.lists(QUOTAS, min_size=1, max_size=2)})
RESOURCE_GROUPS = st.lists(
    st.fixed_dictionaries({"flavors": st.lists(FLAVORS, min_size=1, max_size=2)}), max_size=2
)
CONDITIONS = st.lists(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["QuotaReserved", "Admitted"]), "status": st.sampled_from(["True", "False"])}
    ),
    max_size=2,
)
POD_SETS = st.lists(
    st.fixed_dictionaries({"count": st.integers(0, 3)}, optional={"minCount": st.integers(0, 3)}),
    min_size=1,
    max_size=2,
)
SELVES = st.one_of(
    REFS,
    st.fixed_dictionaries({"count": st.integers(0, 3)}, optional={"minCount": st.integers(0, 3)}),
    st.fixed_dictionaries(
        {},
        optional={
            "cohortName": st.just("c"),
            "cohort": st.just("c"),
            "resourceGroups": RESOURCE_GROUPS,
            "priorityClassRef": REFS,
            "priority": st.integers(0, 1),
        },
    ),
    st.fixed_dictionaries(
        {"spec": st.fixed_dictionaries({"podSets": POD_SETS})},
        optional={
            "status": st.fixed_dictionaries(
                {},
                optional={
                    "conditions": CONDITIONS,
                    "admission": st.fixed_dictionaries({"podSetAssignments": POD_SETS}),
                },
            )
        },
    ),
)


@given(SELVES)
@settings(max_examples=300, deadline=None)
def test_they_agree_wherever_both_have_an_answer(value: dict[str, Any]) -> None:
    for text, holds in HOLDS.items():
        program = crdrules._program(text, False, "dyn")
        assert not isinstance(program, Error)
        want = Evaluation({"self": value}).evaluate(program)
        if not isinstance(want, Error):
            try:
                got = holds(value)
            except KeyError:
                continue  # a value of another shape than the rule's: schemas come first
            assert got == want, text


def test_a_pod_set_may_need_all_its_pods() -> None:
    holds = HOLDS["has(self.minCount) ? self.minCount <= self.count : true"]
    assert [holds({"minCount": n, "count": 2}) for n in (1, 2, 3)] == [True, True, False]


@pytest.mark.parametrize("text", HOLDS)
def test_each_is_still_a_rule_of_some_definition(text: str) -> None:
    assert any(text in _texts(published.entry(gk, v.name)) for gk, kind in _kueue() for v in kind.versions)


def _kueue() -> list[tuple[str, published.Published]]:
    return [(gk, kind) for gk, kind in published.kinds().items() if kind.group == "kueue.x-k8s.io"]


def _texts(part: Any) -> set[str]:
    if isinstance(part, dict):
        found = {r["rule"] for r in part.get("x-kubernetes-validations", ())}
        return found.union(*(_texts(v) for k, v in part.items() if k != "template"))
    return set()
