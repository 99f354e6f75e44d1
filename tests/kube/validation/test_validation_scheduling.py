"""What is wrong with tolerations, affinity and topology spread."""

from __future__ import annotations

from typing import Any

import pytest
from validationworld import pod, told

Case = tuple[dict[str, Any], list[str]]


def tolerating(**toleration: Any) -> dict[str, Any]:
    return pod(tolerations=[toleration])


def on_nodes(operator: str, *values: str, key: str = "gpu") -> dict[str, Any]:
    term = {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}
    return pod(
        affinity={
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        }
    )


def beside(term: dict[str, Any], kind: str = "podAffinity") -> dict[str, Any]:
    return pod(affinity={kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})


def spread(*constraints: dict[str, Any]) -> dict[str, Any]:
    usual = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    return pod(topologySpreadConstraints=[{**usual, **c} for c in constraints])


T = "spec.tolerations[0]"
N = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
E = f"{N}[0].matchExpressions[0]"
A = "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]"
S = "spec.topologySpreadConstraints[0]"
KEY_TEXT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)

FINE = {
    "tolerate everything": tolerating(operator="Exists"),
    "tolerate a value": tolerating(key="a", value="b", effect="NoSchedule"),
    "tolerate for a while": tolerating(key="a", operator="Exists", effect="NoExecute", tolerationSeconds=-1),
    "In": on_nodes("In", "a", "b"),
    "NotIn": on_nodes("NotIn", "a"),
    "Exists": on_nodes("Exists"),
    "DoesNotExist": on_nodes("DoesNotExist"),
    "Gt": on_nodes("Gt", "5"),
    "Lt": on_nodes("Lt", "5"),
    "affinity": beside({"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}),
    "spread": spread({"minDomains": 2, "nodeTaintsPolicy": "Honor", "nodeAffinityPolicy": "Ignore"}),
}


@pytest.mark.parametrize("obj", FINE.values(), ids=FINE.keys())
def test_nothing_is_wrong(obj: dict[str, Any]) -> None:
    assert told(obj) == []


CASES: dict[str, Case] = {
    "Equal without a key": (
        tolerating(value="x"),
        [
            f'{T}.operator: Invalid value: "": operator must be Exists when `key` is empty, which means '
            '"match all values and all keys"'
        ],
    ),
    "Exists with a value": (
        tolerating(key="a", operator="Exists", value="b"),
        [f"{T}.operator: Invalid value: \"b\": value must be empty when `operator` is 'Exists'"],
    ),
    "an operator nobody knows": (
        tolerating(key="a", operator="In"),
        [f'{T}.operator: Unsupported value: "In": supported values: "Equal", "Exists"'],
    ),
    "an effect nobody knows": (
        tolerating(key="a", operator="Exists", effect="NoRun"),
        [
            f'{T}.effect: Unsupported value: "NoRun": supported values: "NoSchedule", "PreferNoSchedule", '
            '"NoExecute"'
        ],
    ),
    "seconds without NoExecute": (
        tolerating(key="a", operator="Exists", effect="NoSchedule", tolerationSeconds=3),
        [
            f"{T}.effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute' when `tolerationSeconds` is set"
        ],
    ),
    "a bad key": (
        tolerating(key="a b", operator="Exists"),
        [f'{T}.key: Invalid value: "a b": {KEY_TEXT}'],
    ),
    "Gt with text": (
        tolerating(key="a", operator="Gt", value="many"),
        [
            'spec.tolerations[0].operator: Unsupported value: "Gt": supported values: '
            '"Equal", "Exists", "Lt", "Gt"',
        ],
    ),
    "Gt with leading zeros": (
        tolerating(key="a", operator="Gt", value="010"),
        [
            'spec.tolerations[0].operator: Unsupported value: "Gt": supported values: '
            '"Equal", "Exists", "Lt", "Gt"',
        ],
    ),
    "In without values": (
        on_nodes("In"),
        [f"{E}.values: Required value: must be specified when `operator` is 'In' or 'NotIn'"],
    ),
    "Exists with values": (
        on_nodes("Exists", "a"),
        [f"{E}.values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"],
    ),
    "Gt with two values": (
        on_nodes("Gt", "1", "2"),
        [f"{E}.values: Required value: must be specified single value when `operator` is 'Lt' or 'Gt'"],
    ),
    "an unknown node operator": (
        on_nodes("Equals", "a"),
        [f'{E}.operator: Invalid value: "Equals": not a valid selector operator'],
    ),
    "no key": (
        on_nodes("Exists", key=""),
        [
            f'{E}.key: Invalid value: "": name part must be non-empty',
            f'{E}.key: Invalid value: "": {KEY_TEXT}',
        ],
    ),
    "no terms": (
        pod(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}),
        [f"{N}: Required value: must have at least one node selector term"],
    ),
    "a field that is not the name": (
        pod(
            affinity={
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {"matchFields": [{"key": "spec.x", "operator": "In", "values": ["a"]}]}
                        ]
                    }
                }
            }
        ),
        [f'{N}[0].matchFields[0].key: Invalid value: "spec.x": not a valid field selector key'],
    ),
    "a weight of zero": (
        pod(
            affinity={
                "nodeAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}
                    ]
                }
            }
        ),
        [
            "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: "
            "Invalid value: 0: must be in the range 1-100"
        ],
    ),
    "a weight above a hundred": (
        pod(
            affinity={
                "podAntiAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 101, "podAffinityTerm": {"topologyKey": "zone"}}
                    ]
                }
            }
        ),
        [
            "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: "
            "Invalid value: 101: must be in the range 1-100"
        ],
    ),
    "no topology key": (
        beside({"labelSelector": {}}),
        [
            f"{A}.topologyKey: Required value: can not be empty",
            f'{A}.topologyKey: Invalid value: "": name part must be non-empty',
            f'{A}.topologyKey: Invalid value: "": {KEY_TEXT}',
        ],
    ),
    "a pod selector that orders": (
        beside(
            {
                "topologyKey": "z",
                "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]},
            }
        ),
        [
            f'{A}.labelSelector.matchExpressions[0].operator: Invalid value: "Gt": not a valid selector operator'
        ],
    ),
    "label keys without a selector": (
        beside({"topologyKey": "z", "matchLabelKeys": ["a"]}),
        [f"{A}.matchLabelKeys: Forbidden: must not be specified when labelSelector is not set"],
    ),
    "label keys on both sides": (
        beside(
            {"topologyKey": "z", "labelSelector": {}, "matchLabelKeys": ["a"], "mismatchLabelKeys": ["a"]}
        ),
        [f'{A}.matchLabelKeys[0]: Invalid value: "a": exists in both matchLabelKeys and mismatchLabelKeys'],
    ),
    "no skew": (spread({"maxSkew": None}), [f"{S}.maxSkew: Invalid value: 0: must be greater than zero"]),
    "an unknown action": (
        spread({"whenUnsatisfiable": "Never"}),
        [
            f'{S}.whenUnsatisfiable: Unsupported value: "Never": supported values: "DoNotSchedule", '
            '"ScheduleAnyway"'
        ],
    ),
    "minDomains where it does not apply": (
        spread({"whenUnsatisfiable": "ScheduleAnyway", "minDomains": 2}),
        [
            f"{S}.minDomains: Invalid value: 2: can only use minDomains if whenUnsatisfiable=DoNotSchedule, not "
            "ScheduleAnyway"
        ],
    ),
    "minDomains of zero": (
        spread({"minDomains": 0}),
        [f"{S}.minDomains: Invalid value: 0: must be greater than zero"],
    ),
    "an unknown node policy": (
        spread({"nodeTaintsPolicy": "Respect"}),
        [f'{S}.nodeTaintsPolicy: Unsupported value: "Respect": supported values: "Honor", "Ignore"'],
    ),
    "the same constraint twice": (
        spread({}, {}),
        [f'{S}.{{topologyKey, whenUnsatisfiable}}: Duplicate value: "{{zone, DoNotSchedule}}"'],
    ),
    "a key in the selector and beside it": (
        spread({"labelSelector": {"matchLabels": {"a": "b"}}, "matchLabelKeys": ["a"]}),
        [],
    ),
}


@pytest.mark.parametrize(("obj", "want"), CASES.values(), ids=CASES.keys())
def test_scheduling_is_refused_in_kubernetes_words(obj: dict[str, Any], want: list[str]) -> None:
    assert told(obj) == want
