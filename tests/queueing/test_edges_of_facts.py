"""What Kueue reads out of objects, at the edges: numbers without limit, orders, fields left out, times before all."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.kube.objects import Obj
from fairway.kube.timestamps import parse_rfc3339
from fairway.queueing.facts import conditions as conds
from fairway.queueing.facts.adjusting import Defaults, adjusted
from fairway.queueing.facts.amounts import (
    MAX_INT64,
    MIN_INT64,
    UNLIMITED,
    amount_text,
    in_rank_order,
    is_unlimited,
    quota_amount,
    resource_rank,
    saturated,
)
from fairway.queueing.facts.featuregates import gate_problem
from fairway.queueing.facts.gates import gates_from
from fairway.queueing.facts.limits import out_of_range, over_limits, summarize

# Amounts


def test_amounts_of_64_bits() -> None:
    assert (MIN_INT64, MAX_INT64) == (-(2**63), 2**63 - 1)
    assert (saturated(-(2**63) - 1), saturated(2**63)) == (MIN_INT64, MAX_INT64)
    assert (saturated(MIN_INT64 + 1), saturated(0), saturated(MAX_INT64 - 1)) == (
        MIN_INT64 + 1,
        0,
        MAX_INT64 - 1,
    )


def test_a_quota_beyond_64_bits_is_none() -> None:
    assert quota_amount("memory", str(2**63 - 2)) == 2**63 - 2
    assert quota_amount("memory", str(2**63 - 1)) == quota_amount("memory", "1e30") == UNLIMITED
    most = (2**63 - 1) // 1000
    assert quota_amount("cpu", str(most - 1)) == (most - 1) * 1000
    assert quota_amount("cpu", str(most)) == UNLIMITED
    assert quota_amount("memory", str(most)) == most
    assert (quota_amount("cpu", "1500m"), quota_amount("gpu", "1500m"), quota_amount("cpu", 2)) == (
        1500,
        2,
        2000,
    )
    assert is_unlimited(1 << 99) and not is_unlimited((1 << 99) - 1)
    assert is_unlimited(UNLIMITED - MAX_INT64) and not is_unlimited(MAX_INT64)


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("gpu", 0, "0"),
        ("gpu", 1, "1"),
        ("cpu", 1, "1m"),
        ("cpu", 1500, "1500m"),
        ("cpu", 2000, "2"),
        ("gpu", 1000, "1k"),
        ("gpu", 1024, "1024"),
        ("memory", 1024, "1Ki"),
        ("memory", 1000, "1000"),
        ("ephemeral-storage", 2**31, "2Gi"),
        ("hugepages-2Mi", 2**21, "2Mi"),
        ("memory", UNLIMITED, "<unlimited>"),
        ("gpu", 2**63, str(2**63 - 1)),
        ("gpu", -5, "-5"),
    ],
)
def test_amounts_in_messages(resource: str, amount: int, text: str) -> None:
    assert amount_text(resource, amount) == text


def test_requests_are_walked_by_their_hash() -> None:
    """FNV-1a of 64 bits, with the values its authors publish."""
    assert resource_rank("") == (0xCBF29CE484222325, "")
    assert resource_rank("a") == (0xAF63DC4C8601EC8C, "a")
    assert resource_rank("foobar") == (0x85944171F73967E8, "foobar")
    for given in (["cpu", "memory"], ["memory", "cpu"], ["pods", "gpu", "cpu", "memory"]):
        found = in_rank_order({name: i for i, name in enumerate(given)})
        assert list(found) == sorted(given, key=resource_rank)
        assert found == {name: i for i, name in enumerate(given)}
    one: dict[str, int] = {"cpu": 1}
    assert in_rank_order(one) is one and in_rank_order({}) == {}


# Conditions


def test_times_and_generations_of_conditions() -> None:
    assert conds.NO_TIME_US == -62_135_596_800_000_000
    assert conds.since_us({}) == conds.since_us({"lastTransitionTime": ""}) == conds.NO_TIME_US
    at = "2026-01-01T00:00:00Z"
    assert conds.since_us({"lastTransitionTime": at}) == parse_rfc3339(at)
    (new,) = conds.with_condition([], "A", "True", reason="r", message="m", now_us=parse_rfc3339(at))
    assert new == {"type": "A", "status": "True", "lastTransitionTime": at, "reason": "r", "message": "m"}
    (told,) = conds.with_condition([], "A", "True", reason="r", message="m", now_us=0, generation=1)
    assert told["observedGeneration"] == 1


def test_messages_are_cut() -> None:
    assert (conds.MAX_EVENT_MESSAGE, conds.MAX_CONDITION_MESSAGE) == (1024, 32768)
    assert conds.truncated("x" * 9, 9) == "x" * 9
    assert conds.truncated("x" * 10, 9) == "x" * 5 + " ..."


# Gates


def test_gates_by_name() -> None:
    assert gate_problem({"AllAlpha": True, "X": True}) == "unrecognized feature gate: X"
    assert gate_problem({"AllAlpha": True, "AllBeta": False}) == gate_problem({}) == ""
    locked = "cannot set feature gate TLSOptions to false, feature is locked to true"
    assert gate_problem({"TLSOptions": False}) == locked and gate_problem({"TLSOptions": True}) == ""
    gates, unknown = gates_from({"X": True, "PartialAdmission": False, "A": True, "PriorityBoost": True})
    assert unknown == ("A", "X")
    assert (gates.partial_admission, gates.priority_boost) == (False, True)


# LimitRanges


def _ranges(*limits: Obj) -> list[Obj]:
    return [{"spec": {"limits": list(limits)}}]


def test_defaults_of_a_namespace_beside_what_is_said() -> None:
    defaults = Defaults(
        [
            *_ranges(
                {"type": "Pod", "default": {"cpu": "9"}},
                {
                    "type": "Container",
                    "default": {"cpu": "2"},
                    "defaultRequest": {"cpu": "1", "memory": "1Gi"},
                },
            ),
            *_ranges(
                {
                    "type": "Container",
                    "default": {"cpu": "3", "gpu": "1"},
                    "defaultRequest": {"memory": "2Gi"},
                }
            ),
            {},
        ]
    )
    assert defaults.limits == {"cpu": "2", "gpu": "1"} and defaults.requests == {"cpu": "1", "memory": "1Gi"}
    says = {
        "name": "c",
        "image": "i",
        "resources": {"claims": [], "requests": {"cpu": "5"}, "limits": {"gpu": "7"}},
    }
    whole = {"cpu": "2", "gpu": "7"}
    spec = {"containers": [says, {"name": "d"}], "initContainers": [{"name": "i"}], "hostNetwork": True}
    quiet = {"name": "b", "count": 1, "template": {"spec": {}}}
    of = {
        "metadata": {"name": "w"},
        "spec": {
            "queueName": "q",
            "podSets": [{"name": "a", "template": {"metadata": {"x": "y"}, "spec": spec}}, quiet],
        },
    }
    found = adjusted(of, defaults, {})
    bare = {"limits": {"cpu": "2", "gpu": "1"}, "requests": {"cpu": "1", "memory": "1Gi"}}
    filled = {
        "containers": [
            {**says, "resources": {"claims": [], "requests": {"cpu": "5", "memory": "1Gi"}, "limits": whole}},
            {"name": "d", "resources": bare},
        ],
        "initContainers": [{"name": "i", "resources": bare}],
        "hostNetwork": True,
    }
    # One pod set of two changes: the other stays as it is.
    changed = {"name": "a", "template": {"metadata": {"x": "y"}, "spec": filled}}
    assert found == {"metadata": {"name": "w"}, "spec": {"queueName": "q", "podSets": [changed, quiet]}}
    assert found["spec"]["podSets"][1] is quiet
    for nothing in (None, Defaults([]), Defaults(_ranges({"type": "Pod", "default": {"cpu": "9"}}))):
        assert adjusted(of, nothing, {}) is of
    assert adjusted({"spec": {}}, defaults, {}) == {"spec": {}}
    assert Defaults([]).is_empty and not defaults.is_empty
    for half in ({"default": {"cpu": "1"}}, {"defaultRequest": {"cpu": "1"}}):
        assert not Defaults(_ranges({"type": "Container", **half})).is_empty


def test_overheads_of_runtimes() -> None:
    def of(**spec: Any) -> Obj:
        return {"spec": {"podSets": [{"name": "a", "template": {"spec": spec}}]}}

    overheads = {"kata": {"cpu": "250m"}, "bare": {}}
    found = adjusted(of(runtimeClassName="kata"), None, overheads)
    assert found == of(runtimeClassName="kata", overhead={"cpu": "250m"})
    for spec in (
        {"runtimeClassName": "kata", "overhead": {"cpu": "1"}},
        {"runtimeClassName": "bare"},
        {"runtimeClassName": "other"},
        {},
    ):
        same = of(**spec)
        assert adjusted(same, None, overheads) is same


def test_bounds_of_several_ranges() -> None:
    ranges = [
        *_ranges(
            {"type": "Container", "max": {"cpu": "4", "memory": "4Gi"}, "min": {"cpu": "1"}},
            {"type": "Pod", "max": {"cpu": "5"}},
        ),
        *_ranges(
            {"type": "Container", "max": {"cpu": "3"}, "min": {"cpu": "2", "memory": "1Gi"}},
            {"max": {"cpu": "1"}},
        ),
        {},
    ]
    found = summarize(ranges)
    assert found["Container"].max == {"cpu": 3000, "memory": 4 << 30}
    assert found["Container"].min == {"cpu": 2000, "memory": 1 << 30}
    assert found["Pod"].max == {"cpu": 5000} and found[""].max == {"cpu": 1000} and len(found) == 3
    assert summarize([]) == {}


def test_what_is_out_of_its_range() -> None:
    """The least and the most of request and limit count, of each; names letter by letter."""
    summary = summarize(
        _ranges(
            {"type": "Container", "max": {"cpu": "4", "b": "4", "a": "4"}, "min": {"cpu": "2", "a": "2"}},
            {"type": "Pod", "max": {"cpu": "6"}, "min": {"cpu": "3"}},
        )
    )

    def said(*containers: Obj, **more: Any) -> list[str]:
        spec = {"containers": [{"resources": c} for c in containers], **more}
        return [
            line.replace("requests must not be ", "").replace("Invalid value: ", "")
            for line in out_of_range("s", spec, summary)
        ]

    above, below = "above the limitRange max", "below the limitRange min"
    assert said({"requests": {"cpu": "3"}}) == []
    assert said({"requests": {"cpu": "2"}}, {"requests": {"cpu": "4"}}) == []
    assert said({"requests": {"cpu": "2"}}) == [f's: ["cpu"]: {below}']
    assert said({"requests": {"cpu": "4"}}, {"limits": {"cpu": "5"}}) == [
        f's.containers[1]: ["cpu"]: {above}',
        f's: ["cpu"]: {above}',
    ]
    assert said({"requests": {"cpu": "3"}, "limits": {"cpu": "5"}}) == [f's.containers[0]: ["cpu"]: {above}']
    assert said({"requests": {"cpu": "1"}, "limits": {"cpu": "3"}}) == [
        f's.containers[0]: ["cpu"]: {below}',
        f's: ["cpu"]: {below}',
    ]
    # Both, whichever of the two says it.
    assert said({"requests": {"cpu": "5"}, "limits": {"cpu": "1"}}) == [
        f's.containers[0]: ["cpu"]: {above}',
        f's.containers[0]: ["cpu"]: {below}',
    ]
    assert said({"requests": {"cpu": "3", "b": "5", "a": "5"}}) == [f's.containers[0]: ["a","b"]: {above}']
    first = [{"resources": {"requests": {"cpu": "1"}}}]
    assert said({"requests": {"cpu": "3"}}, initContainers=first) == [
        f's.initContainers[0]: ["cpu"]: {below}'
    ]
    assert out_of_range("s", {"containers": [{"resources": {"limits": {"cpu": "9"}}}]}, {}) == []


def test_requests_beyond_their_limits() -> None:
    def part(request: str, limit: str | None) -> Obj:
        return {
            "requests": {"cpu": request, "b": "2", "a": "2"},
            **({} if limit is None else {"limits": {"cpu": limit}}),
        }

    why = 'Invalid value: ["cpu"]: requests must not exceed its limits'
    spec = {
        "initContainers": [{"resources": part("2", "1")}],
        "containers": [
            {},
            {"resources": part("2", None)},
            {"resources": part("2", "2")},
            {"resources": part("3", "2")},
        ],
        "resources": part("2001m", "2"),
    }
    assert over_limits("s", spec) == [
        f"s.initContainers[0]: {why}",
        f"s.containers[3]: {why}",
        f"s.resources: {why}",
    ]
    several = {
        "containers": [{"resources": {"requests": {"b": "2", "a": "2"}, "limits": {"b": "1", "a": "1"}}}]
    }
    assert over_limits("s", several) == [
        's.containers[0]: Invalid value: ["a","b"]: requests must not exceed its limits'
    ]
    assert over_limits("s", {}) == []
