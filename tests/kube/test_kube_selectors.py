"""Selectors, node affinity, tolerations: does this match?"""

from __future__ import annotations

from typing import Any

import pytest

from fairway.kube.labelparsing import parse_selector
from fairway.kube.labels import (
    EVERYTHING,
    SelectorError,
    label_selector,
    matches_fields,
    parse_field_selector,
    set_selector,
)
from fairway.kube.nodeselection import node_selection
from fairway.kube.taints import Taint, first_untolerated, parse_taints, parse_tolerations

LABELS = {"app": "web", "tier": "front", "size": "10", "zone": "a"}

SELECTORS = {
    "equality": ("app=web", True),
    "double equals": ("app==web", True),
    "equality with another value": ("app=db", False),
    "inequality": ("app!=db", True),
    "inequality of an absent key": ("owner!=me", True),
    "in": ("tier in (front, back)", True),
    "in without it": ("tier in (back)", False),
    "notin": ("tier notin (back)", True),
    "notin with an absent key": ("owner notin (me)", True),
    "exists": ("app", True),
    "exists of an absent key": ("owner", False),
    "does not exist": ("!owner", True),
    "does not exist of a present key": ("!app", False),
    "greater than": ("size>9", True),
    "greater than itself": ("size>10", False),
    "less than": ("size<11", True),
    "greater than on text": ("app>1", False),
    "all must hold": ("app=web,tier=back", False),
    "several that hold": ("app=web,tier in (front),!owner,size>3", True),
    "nothing asked": ("", True),
    "an empty value": ("app=", False),
}


@pytest.mark.parametrize(("text", "want"), SELECTORS.values(), ids=SELECTORS.keys())
def test_text_selectors(text: str, want: bool) -> None:
    assert parse_selector(text).matches(LABELS) is want


@pytest.mark.parametrize("text", ["app=web,", "a b", "in (x)", "tier in front", "=x", "app=web;b"])
def test_broken_selectors_are_refused(text: str) -> None:
    with pytest.raises(SelectorError):
        parse_selector(text)


def test_a_null_label_selector_matches_nothing_and_an_empty_one_everything() -> None:
    assert not label_selector(None).matches(LABELS)
    assert label_selector({}) == EVERYTHING
    assert label_selector({}).matches({})


def test_equal_selectors_are_one_key_whatever_their_order() -> None:
    a = label_selector({"matchLabels": {"app": "web", "tier": "front"}})
    b = label_selector(
        {
            "matchLabels": {"tier": "front"},
            "matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}],
        }
    )
    assert a == b
    assert hash(a) == hash(b)
    assert str(a) == "app=web,tier=front"
    assert parse_selector(str(a)) == a


def test_plain_maps_need_every_pair() -> None:
    assert set_selector({"app": "web"}).matches(LABELS)
    assert not set_selector({"app": "web", "owner": "me"}).matches(LABELS)
    assert set_selector(None).matches({})


def test_field_selectors_read_absent_fields_as_empty() -> None:
    obj = {"status": {"phase": "Running"}, "spec": {"unschedulable": True}}
    assert matches_fields(parse_field_selector("status.phase=Running"), obj)
    assert matches_fields(parse_field_selector("spec.nodeName="), obj)
    assert matches_fields(parse_field_selector("spec.unschedulable=true,status.phase!=Failed"), obj)
    assert not matches_fields(parse_field_selector("status.phase!=Running"), obj)
    with pytest.raises(SelectorError):
        parse_field_selector("status.phase")


def term(operator: str, *values: str, key: str = "gpu") -> dict[str, Any]:
    expression: dict[str, Any] = {"key": key, "operator": operator}
    if values:
        expression["values"] = list(values)
    return {"matchExpressions": [expression]}


def required(*terms: dict[str, Any]) -> dict[str, Any]:
    return {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}
            }
        }
    }


AFFINITY = {
    "In: one of the values": (term("In", "a100", "h100"), {"gpu": "h100"}, True),
    "In: another value": (term("In", "a100"), {"gpu": "h100"}, False),
    "In: no such label": (term("In", "a100"), {}, False),
    "NotIn: another value": (term("NotIn", "a100"), {"gpu": "h100"}, True),
    "NotIn: the value": (term("NotIn", "h100"), {"gpu": "h100"}, False),
    "NotIn: no such label": (term("NotIn", "h100"), {}, True),
    "Exists: there": (term("Exists"), {"gpu": ""}, True),
    "Exists: not there": (term("Exists"), {}, False),
    "DoesNotExist: not there": (term("DoesNotExist"), {}, True),
    "DoesNotExist: there": (term("DoesNotExist"), {"gpu": "x"}, False),
    "Gt: more": (term("Gt", "16"), {"gpu": "80"}, True),
    "Gt: as much": (term("Gt", "80"), {"gpu": "80"}, False),
    "Gt: numbers, not text": (term("Gt", "9"), {"gpu": "10"}, True),
    "Gt: not a number": (term("Gt", "9"), {"gpu": "ten"}, False),
    "Gt: negative": (term("Gt", "-5"), {"gpu": "-4"}, True),
    "Lt: less": (term("Lt", "16"), {"gpu": "8"}, True),
    "Lt: no such label": (term("Lt", "16"), {}, False),
    "an empty term matches no node": ({}, {"gpu": "a100"}, False),
}


@pytest.mark.parametrize(("of_term", "labels", "want"), AFFINITY.values(), ids=AFFINITY.keys())
def test_required_node_affinity(of_term: dict[str, Any], labels: dict[str, str], want: bool) -> None:
    assert node_selection(required(of_term)).allows(labels, "n1") is want


def test_terms_are_ored_and_expressions_anded() -> None:
    both = {
        "matchExpressions": [
            *term("Exists")["matchExpressions"],
            *term("In", "a", key="zone")["matchExpressions"],
        ]
    }
    selection = node_selection(required(both, term("In", "cpu", key="kind")))
    assert selection.allows({"gpu": "x", "zone": "a"}, "n")
    assert not selection.allows({"gpu": "x", "zone": "b"}, "n")
    assert selection.allows({"kind": "cpu"}, "n")


def test_match_fields_pin_to_a_node_name() -> None:
    pinned = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    selection = node_selection(required(pinned))
    assert selection.allows({}, "n1")
    assert not selection.allows({}, "n2")
    assert selection.pinned_names() == ("n1",)
    assert node_selection(required(pinned, term("Exists"))).pinned_names() is None


def test_no_required_terms_at_all_match_no_node() -> None:
    assert not node_selection(required()).allows({"gpu": "x"}, "n")
    assert node_selection({}).allows({}, "n")


def test_preferred_terms_add_up() -> None:
    affinity = {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 80, "preference": term("Exists")},
            {"weight": 5, "preference": term("In", "a", key="zone")},
            {"weight": 3, "preference": {}},
        ]
    }
    selection = node_selection({"affinity": {"nodeAffinity": affinity}, "nodeSelector": {"arch": "amd64"}})
    assert selection.preference({"gpu": "x", "zone": "a"}, "n") == 85
    assert selection.preference({}, "n") == 0
    assert not selection.allows({"gpu": "x"}, "n")


GPU_TAINT = Taint("nvidia.com/gpu", "present", "NoSchedule")
TOLERATIONS: dict[str, tuple[dict[str, Any], bool]] = {
    "Exists on the key": ({"key": "nvidia.com/gpu", "operator": "Exists"}, True),
    "Exists on everything": ({"operator": "Exists"}, True),
    "Exists on another key": ({"key": "amd.com/gpu", "operator": "Exists"}, False),
    "Equal with the value": ({"key": "nvidia.com/gpu", "value": "present"}, True),
    "Equal with another value": ({"key": "nvidia.com/gpu", "operator": "Equal", "value": "absent"}, False),
    "the effect": ({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}, True),
    "another effect": ({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoExecute"}, False),
    "an unknown operator": ({"key": "nvidia.com/gpu", "operator": "Near", "value": "present"}, False),
}


@pytest.mark.parametrize(("toleration", "want"), TOLERATIONS.values(), ids=TOLERATIONS.keys())
def test_tolerations(toleration: dict[str, Any], want: bool) -> None:
    assert parse_tolerations([toleration])[0].tolerates(GPU_TAINT) is want


@pytest.mark.parametrize(
    ("operator", "wanted", "actual", "want"),
    [
        ("Lt", "10", "9", True),
        ("Lt", "10", "10", False),
        ("Gt", "10", "11", True),
        ("Gt", "-3", "-2", True),
        ("Gt", "10", "many", False),
        ("Gt", "10", "1_1", False),
        ("Gt", "010", "11", False),
    ],
)
def test_tolerations_that_compare_numbers(operator: str, wanted: str, actual: str, want: bool) -> None:
    toleration = parse_tolerations([{"key": "sla", "operator": operator, "value": wanted}])[0]
    assert toleration.tolerates(Taint("sla", actual, "NoSchedule")) is want


def test_the_first_untolerated_taint_of_the_effects_asked_for() -> None:
    taints = parse_taints(
        [
            {"key": "a", "effect": "PreferNoSchedule"},
            {"key": "b", "effect": "NoSchedule"},
            {"key": "c", "effect": "NoExecute"},
        ]
    )
    tolerations = parse_tolerations([{"key": "b", "operator": "Exists"}])
    assert first_untolerated(taints, tolerations, ("NoSchedule", "NoExecute")) == taints[2]
    assert first_untolerated(taints, (), ("NoSchedule",)) == taints[1]
    assert first_untolerated((), (), ("NoSchedule",)) is None


def test_a_comma_in_a_value_of_a_field_is_escaped() -> None:
    (term,) = parse_field_selector(r"metadata.namespace!=x\,metadata.name=y".replace("=y", r"\=y"))
    assert (term.path, term.negated, term.value) == ("metadata.namespace", True, "x,metadata.name=y")


@pytest.mark.parametrize("text", ["a=b=c", "a=b\\", r"a=\x", "a"])
def test_field_selectors_that_cannot_be_read_are_refused(text: str) -> None:
    with pytest.raises(SelectorError):
        parse_field_selector(text)
