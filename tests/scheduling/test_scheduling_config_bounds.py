"""Configuration files at their bounds: the last value that is taken, the first that is not, and what each becomes."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.errors import InvalidInput
from fairway.kube.labels import NOTHING
from fairway.kube.manifest import Manifest
from fairway.kube.nodeselection import Requirement, Term
from fairway.scheduling.config import SchedulerConfiguration, read_configuration
from fairway.scheduling.coscheduling import CoschedulingArgs
from fairway.scheduling.extenders import Extender
from fairway.scheduling.profile import DEFAULT_PROFILE, FitStrategy, PreemptionArgs, Profile

Raw = dict[str, Any]
_HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
_MOST = 2**31 - 1


def _read(body: Raw) -> SchedulerConfiguration:
    return read_configuration(Manifest({**_HEAD, **body}, "f"))


def _says(body: Raw) -> list[str]:
    """Path and words of each problem."""
    try:
        _read(body)
    except InvalidInput as wrong:
        return [f"{p.path}: {p.expected}" for p in wrong.problems]
    return []


def _args(plugin: str, args: Raw) -> Raw:
    return {"profiles": [{"pluginConfig": [{"name": plugin, "args": args}]}]}


def _profile(plugin: str, args: Raw) -> Profile:
    return _read(_args(plugin, args)).profiles[0]


def _ratio(*points: tuple[Any, Any]) -> Raw:
    shape = [{"utilization": u, "score": s} for u, s in points]
    return {
        "scoringStrategy": {
            "type": "RequestedToCapacityRatio",
            "requestedToCapacityRatio": {"shape": shape},
        }
    }


def _spread(**fields: Any) -> Raw:
    made = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", **fields}
    kept = {k: v for k, v in made.items() if v is not None}
    return {"defaultingType": "List", "defaultConstraints": [kept]}


def _expression(operator: str, *values: Any, key: str = "a") -> Raw:
    found: Raw = {"key": key, "operator": operator}
    if values:
        found["values"] = list(values)
    terms = [{"matchExpressions": [found]}]
    return {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


BOUNDS: dict[str, tuple[str, str, list[Any], list[Any], str]] = {
    # plugin or "": where, taken, refused, words
    "parallelism": (
        "",
        "parallelism",
        [1, 16, _MOST],
        [0, -1, _MOST + 1],
        "should be an integer value greater than zero",
    ),
    "percentage": ("", "percentageOfNodesToScore", [0, 100], [-1, 101], "not in valid range [0-100]"),
    "first backoff": ("", "podInitialBackoffSeconds", [1, 10], [0], "must be greater than 0"),
    "hard weight": (
        "InterPodAffinity",
        "hardPodAffinityWeight",
        [0, 1, 100],
        [-1, 101],
        "not in valid range [0, 100]",
    ),
    "candidates in percent": (
        "DefaultPreemption",
        "minCandidateNodesPercentage",
        [0, 100],
        [-1, 101],
        "not in valid range [0, 100]",
    ),
    "candidates": (
        "DefaultPreemption",
        "minCandidateNodesAbsolute",
        [0, _MOST],
        [-1],
        "not in valid range [0, inf)",
    ),
    "binding": (
        "VolumeBinding",
        "bindTimeoutSeconds",
        [0, 2**63 - 1],
        [-1],
        "invalid BindTimeoutSeconds, should not be a negative value",
    ),
    "permit": ("Coscheduling", "permitWaitingTimeSeconds", [0, 60], [-1], "must be greater than 0"),
    "group backoff": ("Coscheduling", "podGroupBackoffSeconds", [0, 60], [-1], "must be greater than 0"),
    "rejected percent": (
        "Coscheduling",
        "podGroupRejectPercentage",
        [0, 100],
        [-1, 101],
        "must be between 0 and 100",
    ),
}


def test_a_number_without_bounds_of_its_own_has_32_bits() -> None:
    words = f"expected a whole number from {-_MOST - 1} to {_MOST}"
    for value, want in (
        (_MOST, []),
        (_MOST + 1, [words]),
        (-_MOST - 1, []),
        (-_MOST - 2, [words]),
    ):
        said = _says({"clientConnection": {"burst": value}})
        assert [one.partition(": ")[2] for one in said] == want, value


@pytest.mark.parametrize("name", BOUNDS)
def test_both_sides_of_a_bound(name: str) -> None:
    plugin, field, taken, refused, words = BOUNDS[name]

    def body(value: Any) -> Raw:
        return _args(plugin, {field: value}) if plugin else {field: value}

    for value in taken:
        assert _says(body(value)) == [], value
    for value in refused:
        (said,) = _says(body(value))
        assert said.endswith(f"{field}: {words}"), said
    for odd in (True, 1.5, "1"):
        (said,) = _says(body(odd))
        assert said.endswith(f"{field}: expected a whole number"), said


@pytest.mark.parametrize(
    ("plugin", "args", "words"),
    [
        ("NodeResourcesFit", _ratio((0, 0), (100, 10)), ""),
        ("NodeResourcesFit", _ratio((-1, 0)), "not in valid range [0, 100]"),
        ("NodeResourcesFit", _ratio((101, 0)), "not in valid range [0, 100]"),
        ("NodeResourcesFit", _ratio((0, -1)), "not in valid range [0, 10]"),
        ("NodeResourcesFit", _ratio((0, 11)), "not in valid range [0, 10]"),
        ("NodeResourcesFit", _ratio((5, 0), (6, 1)), ""),
        ("NodeResourcesFit", _ratio((5, 0), (5, 1)), "values must be sorted in increasing order"),
        ("NodeResourcesFit", _ratio((5, 0), (4, 1), (3, 0)), "values must be sorted in increasing order"),
        ("NodeResourcesFit", _ratio(), "Required value: at least one point must be specified"),
        (
            "NodeResourcesFit",
            {
                "scoringStrategy": {
                    "type": "MostAllocated",
                    "resources": [{"name": "cpu", "weight": 1}, {"name": "x", "weight": 100}],
                }
            },
            "",
        ),
        (
            "NodeResourcesFit",
            {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 101}]}},
            "resource weight of cpu not in valid range (0, 100]",
        ),
        (
            "NodeResourcesFit",
            {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": -1}]}},
            "resource weight of cpu not in valid range (0, 100]",
        ),
        (
            "NodeResourcesFit",
            {"scoringStrategy": {"type": "MostAllocated", "resources": [{"weight": 1}]}},
            "Required value",
        ),
        ("NodeResourcesFit", {"scoringStrategy": {}}, "Unsupported value"),
        ("NodeResourcesFit", {"ignoredResources": ["example.com/foo", "x_y.z-1", "a" * 63]}, ""),
        ("NodeResourcesFit", {"ignoredResources": ["example.com/-foo"]}, "name part must consist of"),
        ("NodeResourcesFit", {"ignoredResources": ["a" * 64]}, "name part must consist of"),
        ("NodeResourcesFit", {"ignoredResourceGroups": ["example.com"]}, ""),
        ("NodeResourcesFit", {"ignoredResourceGroups": ["-x"]}, "name part must consist of"),
        ("NodeResourcesBalancedAllocation", {"resources": [{"name": "cpu"}, {"name": "x", "weight": 1}]}, ""),
        ("NodeResourcesBalancedAllocation", {"resources": [{"name": "cpu", "weight": 0}]}, ""),
        ("NodeResourcesBalancedAllocation", {"resources": [{"name": "cpu", "weight": 2}]}, "must be 1"),
        ("NodeResourcesBalancedAllocation", {"resources": [{"name": "cpu", "weight": -1}]}, "must be 1"),
        ("PodTopologySpread", _spread(), ""),
        ("PodTopologySpread", _spread(whenUnsatisfiable="ScheduleAnyway", minDomains=1), ""),
        ("PodTopologySpread", _spread(maxSkew=_MOST), ""),
        ("PodTopologySpread", _spread(maxSkew=0), "not in valid range (0, inf)"),
        ("PodTopologySpread", _spread(maxSkew=None), "not in valid range (0, inf)"),
        ("PodTopologySpread", _spread(minDomains=0), "must be greater than 0"),
        ("PodTopologySpread", _spread(topologyKey=""), "Required value: can not be empty"),
        ("PodTopologySpread", _spread(topologyKey="-x"), "name part must consist of"),
        ("PodTopologySpread", _spread(nodeAffinityPolicy="Ignore", nodeTaintsPolicy="Honor"), ""),
        ("PodTopologySpread", _spread(nodeAffinityPolicy="x"), "Unsupported value"),
        ("PodTopologySpread", {"defaultConstraints": []}, ""),
        ("NodeAffinity", _expression("In", "x"), ""),
        ("NodeAffinity", _expression("In"), "for 'in', 'notin' operators, values set can't be empty"),
        ("NodeAffinity", _expression("NotIn"), "for 'in', 'notin' operators, values set can't be empty"),
        ("NodeAffinity", _expression("NotIn", "x", "y"), ""),
        ("NodeAffinity", _expression("Exists"), ""),
        (
            "NodeAffinity",
            _expression("Exists", "x"),
            "values set must be empty for exists and does not exist",
        ),
        ("NodeAffinity", _expression("DoesNotExist"), ""),
        ("NodeAffinity", _expression("Gt", "-5"), ""),
        ("NodeAffinity", _expression("Lt", "5", "6"), "exactly one value is required"),
        ("NodeAffinity", _expression("Gt"), "exactly one value is required"),
        ("NodeAffinity", _expression("Gt", "5x"), "the value must be an integer"),
        ("VolumeBinding", {"shape": []}, "unexpected field `shape`"),
        ("DynamicResources", {"filterTimeout": "1s", "bindingTimeout": "2s"}, ""),
        ("DynamicResources", {"timeout": "1s"}, "unknown field"),
        ("DefaultPreemption", {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 1}, ""),
        ("DefaultPreemption", {"minCandidateNodesPercentage": 1, "minCandidateNodesAbsolute": 0}, ""),
        ("ImageLocality", {"anything": 1}, ""),
        ("InterPodAffinity", {"kind": "InterPodAffinityArgs"}, ""),
    ],
)
def test_arguments(plugin: str, args: Raw, words: str) -> None:
    said = _says(_args(plugin, args))
    if not words:
        assert said == []
    else:
        assert len(said) == 1 and words in said[0], said


def test_what_arguments_become() -> None:
    """All of it: everything else stays the default."""
    plain = Profile(**_fields(DEFAULT_PROFILE))
    assert plain == DEFAULT_PROFILE

    def becomes(plugin: str, args: Raw) -> Raw:
        found = _fields(_profile(plugin, args))
        default = _fields(_read({"profiles": [{}]}).profiles[0])
        return {name: value for name, value in found.items() if value != default[name]}

    assert becomes("NodeResourcesFit", {}) == {}
    assert becomes("NodeResourcesFit", _ratio((10, 2), (20, 7))) == {
        "fit": FitStrategy("RequestedToCapacityRatio", (("cpu", 1), ("memory", 1)), ((10, 2), (20, 7)))
    }
    weights = {
        "scoringStrategy": {
            "type": "MostAllocated",
            "resources": [{"name": "x", "weight": 0}, {"name": "y", "weight": 9}],
        }
    }
    assert becomes("NodeResourcesFit", weights) == {"fit": FitStrategy("MostAllocated", (("x", 1), ("y", 9)))}
    assert becomes("NodeResourcesFit", {"ignoredResources": ["a/b"], "ignoredResourceGroups": ["c"]}) == {
        "ignored_resources": frozenset({"a/b"}),
        "ignored_resource_groups": frozenset({"c"}),
    }
    assert becomes("NodeResourcesBalancedAllocation", {"resources": [{"name": "z"}]}) == {
        "balanced_resources": ("z",)
    }
    assert becomes("InterPodAffinity", {}) == {}
    assert becomes("DefaultPreemption", {"minCandidateNodesAbsolute": 7}) == {
        "preemption": PreemptionArgs(10, 7)
    }
    assert becomes("Coscheduling", {}) == {}
    assert becomes("Coscheduling", {"podGroupRejectPercentage": 11}) == {
        "coscheduling": CoschedulingArgs(60_000_000, 0, 11)
    }
    assert becomes(
        "Coscheduling",
        {"permitWaitingTimeSeconds": 5, "podGroupBackoffSeconds": 6, "podGroupRejectPercentage": 7},
    ) == {"coscheduling": CoschedulingArgs(5_000_000, 6_000_000, 7)}
    (one,) = becomes("PodTopologySpread", _spread(maxSkew=4, minDomains=3, nodeTaintsPolicy="Honor"))[
        "default_spread"
    ]
    assert (one.max_skew, one.topology_key, one.min_domains, one.is_hard) == (4, "zone", 3, True)
    assert (one.honors_affinity, one.honors_taints, one.selector) == (True, True, NOTHING)
    assert becomes("PodTopologySpread", {"defaultingType": "System"}) == {}
    assert becomes("PodTopologySpread", {"defaultingType": "List"}) == {
        "default_spread": (),
        "is_spread_system_defaulted": False,
    }
    assert becomes("NodeAffinity", {}) == {}
    preferred = [
        {
            "weight": 5,
            "preference": {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]},
        }
    ]
    added = becomes(
        "NodeAffinity", {"addedAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    )
    assert list(added) == ["added_preferred"]
    ((weight, term),) = added["added_preferred"]
    assert weight == 5 and len(term.fields) == 1 and not term.expressions


def _fields(profile: Profile) -> Raw:
    return {name: getattr(profile, name) for name in profile.__dataclass_fields__}


def test_constraints_are_told_apart_by_key_and_action() -> None:
    one = _spread()["defaultConstraints"][0]

    def says(*others: Raw) -> list[str]:
        return _says(
            _args(
                "PodTopologySpread",
                {"defaultingType": "List", "defaultConstraints": [one, *({**one, **o} for o in others)]},
            )
        )

    assert says({"topologyKey": "rack"}, {"whenUnsatisfiable": "ScheduleAnyway"}) == []
    (said,) = says({"maxSkew": 3})
    assert said.endswith("Duplicate value: {zone, DoNotSchedule}")


def test_settings_of_the_process() -> None:
    found = _read({"podInitialBackoffSeconds": 3, "podMaxBackoffSeconds": 3})
    assert (found.initial_backoff_us, found.max_backoff_us) == (3_000_000, 3_000_000)
    (said,) = _says({"podInitialBackoffSeconds": 3, "podMaxBackoffSeconds": 2})
    assert said.endswith("must be greater than or equal to PodInitialBackoffSeconds")
    for given, want in (
        ({}, (50, 100)),
        ({"qps": 0, "burst": 0}, (50, 100)),
        ({"qps": 7, "burst": 8}, (7, 8)),
        ({"qps": 1.5}, (2, 100)),
        ({"qps": 2.0}, (2, 100)),
        ({"qps": -1.5}, (50, 100)),
        ({"qps": 0.5}, (1, 100)),
    ):
        connection = _read({"clientConnection": given})
        assert (connection.client_qps, connection.client_burst) == want, given
    for body in ({"kind": "Pod"}, {"apiVersion": "v1"}):
        assert len(_says(body)) == 1
    shared = _read({"percentageOfNodesToScore": 30})
    assert [p.percentage_of_nodes_to_score for p in shared.profiles] == [30]
    both = _read(
        {
            "percentageOfNodesToScore": 30,
            "profiles": [{"schedulerName": "a"}, {"schedulerName": "b", "percentageOfNodesToScore": 0}],
        }
    )
    assert [(p.scheduler_name, p.percentage_of_nodes_to_score) for p in both.profiles] == [
        ("a", 30),
        ("b", 0),
    ]


def test_all_of_an_extender() -> None:
    url = "https://x/y"
    full: Raw = {
        "urlPrefix": url,
        "filterVerb": "f",
        "prioritizeVerb": "p",
        "preemptVerb": "e",
        "bindVerb": "b",
        "weight": 7,
        "httpTimeout": "1500ms",
        "nodeCacheCapable": True,
        "enableHTTPS": True,
        "tlsConfig": {"caFile": "/ca"},
        "managedResources": [{"name": "a.io/x", "ignoredByScheduler": True}, {"name": "a.io/y"}],
        "ignorable": True,
    }
    found = _read({"extenders": [full, {"urlPrefix": "http://z"}]}).profiles[0]
    assert found.extenders == (
        Extender(
            url,
            "f",
            "p",
            "e",
            "b",
            weight=7,
            timeout_s=1.5,
            caches_nodes=True,
            managed=("a.io/x", "a.io/y"),
            is_ignorable=True,
            ca_file="/ca",
        ),
        Extender("http://z", weight=0),
    )
    assert found.ignored_resources == frozenset({"a.io/x"})
    assert found.extenders[1].timeout_s == 5.0

    def one(**more: Any) -> Extender:
        (it,) = _read({"extenders": [{"urlPrefix": url, **more}]}).profiles[0].extenders
        return it

    assert one(enableHTTPS=True).is_unverified and not one().is_unverified
    assert one(tlsConfig={"insecure": True, "caFile": "/ca"}).is_unverified
    assert one(httpTimeout="0s").timeout_s == 5.0
    fit = {"pluginConfig": [{"name": "NodeResourcesFit", "args": {"ignoredResources": ["b.io/z"]}}]}
    plain = _read({"extenders": [{"urlPrefix": url}], "profiles": [fit]}).profiles[0]
    assert plain.ignored_resources == frozenset({"b.io/z"})
    taken = _read({"extenders": [full], "profiles": [fit]}).profiles[0]
    assert taken.ignored_resources == frozenset({"a.io/x"}), "instead of what the arguments say"
    assert _says({"extenders": [{"urlPrefix": url}] * 64}) == []
    assert len(_says({"extenders": [{"urlPrefix": url}] * 65})) == 1
    assert _says({"extenders": [{"urlPrefix": url, "prioritizeVerb": "p", "weight": 1}]}) == []
    assert _says({"extenders": [{"urlPrefix": url, "bindVerb": "b"}, {"urlPrefix": url}]}) == []
    for name in ("certFile", "keyFile", "certData", "keyData", "caData"):
        (said,) = _says({"extenders": [{"urlPrefix": url, "tlsConfig": {name: "x"}}]})
        assert said.startswith(f"extenders[0].tlsConfig.{name}: client certificates")
    assert len(_says({"extenders": [{"urlPrefix": url, "managedResources": [{}]}]})) == 1


@pytest.mark.parametrize("wrong", [5, "x", [5], [{"key": 1, "operator": "Exists"}], {"a": 1}])
@pytest.mark.parametrize("field", ["matchExpressions", "matchFields"])
def test_terms_of_the_wrong_kind_are_refused(field: str, wrong: Any) -> None:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{field: wrong}]}}
    assert _says(_args("NodeAffinity", {"addedAffinity": required}))
    preferred = {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {field: wrong}}]
    }
    assert _says(_args("NodeAffinity", {"addedAffinity": preferred}))


def test_a_preference_may_be_left_out() -> None:
    def added(*items: Raw) -> Any:
        affinity = {"preferredDuringSchedulingIgnoredDuringExecution": list(items)}
        return _profile("NodeAffinity", {"addedAffinity": affinity}).added_preferred

    assert added({"weight": 3}) == added({"weight": 3, "preference": {}}) == ((3, Term((), ())),)
    key = Requirement("a", "In", ("b",))
    wanted = {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
    assert added({"weight": 1, "preference": wanted}) == ((1, Term((key,), ())),)
