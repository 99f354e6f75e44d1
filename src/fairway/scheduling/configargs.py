"""What do the arguments of plugins change in a profile?

One function per kind of arguments: it reads them, checks them in upstream's words and returns the fields of
`Profile` they set.

Source: k8s.io/kube-scheduler/config/v1/types_pluginargs.go; pkg/scheduler/apis/config/v1/defaults.go and
validation/validation_pluginargs.go (v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from fairway.cluster.shapes import SpreadConstraint, spread_constraint
from fairway.kube.labels import NOTHING
from fairway.kube.nodeselection import Term, parse_term
from fairway.kube.resources import CPU, MEMORY
from fairway.kube.timestamps import SECOND_US
from fairway.scheduling.configfields import DUPLICATE, REQUIRED, Part, unsupported
from fairway.scheduling.coscheduling import CoschedulingArgs
from fairway.scheduling.profile import (
    LEAST_ALLOCATED,
    MOST_ALLOCATED,
    REQUESTED_TO_CAPACITY_RATIO,
    FitStrategy,
    PreemptionArgs,
)

Changes = dict[str, Any]

_STRATEGIES = (LEAST_ALLOCATED, MOST_ALLOCATED, REQUESTED_TO_CAPACITY_RATIO)
_DEFAULT_RESOURCES = ((CPU, 1), (MEMORY, 1))
_INF = 2**31 - 1
_LABEL_NAME = re.compile(r"([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_NOT_A_LABEL_NAME = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc')"
)
_REQUIRED_AFFINITY = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED_AFFINITY = "preferredDuringSchedulingIgnoredDuringExecution"
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")


def read_args(part: Part, plugin: str) -> Changes:
    """The changes of one plugin's `args`. Plugins without arguments take any, as upstream does."""
    read = _READERS.get(plugin)
    if read is None or not part.is_given:
        return {}
    if isinstance(part.value, dict):
        kind = part.value.get("kind")
        if kind is not None and kind != f"{plugin}Args":
            group = "kubescheduler.config.k8s.io"
            part.at("kind", kind).reject(
                f"args for plugin {plugin} were not of type {plugin}Args.{group}, got {kind}.{group}"
            )
            return {}
    return read(part)


def _members(part: Part, *names: str) -> dict[str, Part]:
    return part.members("apiVersion", "kind", *names)


def _fit(part: Part) -> Changes:
    """NodeResourcesFitArgs."""
    args = _members(part, "ignoredResources", "ignoredResourceGroups", "scoringStrategy")
    resources = [_label_name(item) for item in args["ignoredResources"].items()]
    groups = []
    for item in args["ignoredResourceGroups"].items():
        if "/" in item.text():
            item.reject("resource group name can't contain '/'")
        else:
            groups.append(_label_name(item))
    return {
        "fit": _strategy(args["scoringStrategy"]),
        "ignored_resources": frozenset(resources),
        "ignored_resource_groups": frozenset(groups),
    }


def _strategy(part: Part) -> FitStrategy:
    if not part.is_given:
        return FitStrategy()
    args = part.members("type", "resources", "requestedToCapacityRatio")
    kind = args["type"].one_of(_STRATEGIES, "") or LEAST_ALLOCATED
    resources = []
    for item in args["resources"].items():
        spec = item.members("name", "weight")
        name = spec["name"].required_text()
        words = f"resource weight of {name} not in valid range (0, 100]"
        resources.append((name, spec["weight"].integer(1, 0, 100, words) or 1))
    ratio = args["requestedToCapacityRatio"]
    shape: tuple[tuple[int, int], ...] = ()
    if kind == REQUESTED_TO_CAPACITY_RATIO:
        if ratio.is_given:
            shape = _shape(ratio.members("shape")["shape"])
        else:
            ratio.reject(f"{REQUIRED}: must be specified when type is RequestedToCapacityRatio")
    elif ratio.is_given:
        ratio.reject("Forbidden: must be nil when type is not RequestedToCapacityRatio")
    return FitStrategy(kind, tuple(resources) or _DEFAULT_RESOURCES, shape)


def _shape(part: Part) -> tuple[tuple[int, int], ...]:
    """Points of (utilization %, score 0–10), rising."""
    if not part.is_given or part.value == []:
        part.reject(f"{REQUIRED}: at least one point must be specified")
        return ((0, 0),)
    points: list[tuple[int, int]] = []
    for item in part.items():
        point = item.members("utilization", "score")
        utilization = point["utilization"].integer(0, 0, 100, "not in valid range [0, 100]")
        if points and utilization <= points[-1][0]:
            point["utilization"].reject("values must be sorted in increasing order")
            break
        points.append((utilization, point["score"].integer(0, 0, 10, "not in valid range [0, 10]")))
    return tuple(points) or ((0, 0),)


def _balanced(part: Part) -> Changes:
    """NodeResourcesBalancedAllocationArgs."""
    names: list[str] = []
    for item in _members(part, "resources")["resources"].items():
        spec = item.members("name", "weight")
        name = spec["name"].required_text()
        if name in names:
            spec["name"].reject(DUPLICATE)
            continue
        names.append(name)
        if spec["weight"].integer(1) not in (0, 1):
            spec["weight"].reject("must be 1")
    return {"balanced_resources": tuple(names) or (CPU, MEMORY)}


def _inter_pod(part: Part) -> Changes:
    """InterPodAffinityArgs."""
    args = _members(part, "hardPodAffinityWeight", "ignorePreferredTermsOfExistingPods")
    return {
        "hard_pod_affinity_weight": args["hardPodAffinityWeight"].integer(
            1, 0, 100, "not in valid range [0, 100]"
        ),
        "ignores_preferred_terms_of_existing_pods": args["ignorePreferredTermsOfExistingPods"].flag(),
    }


def _spread(part: Part) -> Changes:
    """PodTopologySpreadArgs: `System` has its own constraints, `List` has those given."""
    args = _members(part, "defaultConstraints", "defaultingType")
    given = args["defaultConstraints"].items()
    kind = args["defaultingType"].text() or "System"
    if kind not in ("List", "System"):
        args["defaultingType"].reject(unsupported(("System", "List")))
        return {}
    if kind == "System":
        if given:
            args["defaultingType"].reject("when .defaultConstraints are not empty")
        return {}
    constraints: list[SpreadConstraint] = []
    seen: dict[tuple[str, str], None] = {}
    for item in given:
        found = _default_constraint(item, seen)
        if found is not None:
            constraints.append(found)
    return {"default_spread": tuple(constraints), "is_spread_system_defaulted": False}


def _default_constraint(part: Part, seen: dict[tuple[str, str], None]) -> SpreadConstraint | None:
    fields = part.members(
        "maxSkew",
        "topologyKey",
        "whenUnsatisfiable",
        "labelSelector",
        "minDomains",
        "nodeAffinityPolicy",
        "nodeTaintsPolicy",
        "matchLabelKeys",
    )
    before = len(part.problems)
    if fields["maxSkew"].is_given:
        fields["maxSkew"].integer(1, 1, _INF, "not in valid range (0, inf)")
    else:
        fields["maxSkew"].reject("not in valid range (0, inf)")
    if fields["topologyKey"].text():
        _label_name(fields["topologyKey"])
    else:
        fields["topologyKey"].reject(f"{REQUIRED}: can not be empty")
    action = fields["whenUnsatisfiable"].text()
    if not action:
        fields["whenUnsatisfiable"].reject(f"{REQUIRED}: can not be empty")
    elif action not in ("DoNotSchedule", "ScheduleAnyway"):
        fields["whenUnsatisfiable"].reject(unsupported(("DoNotSchedule", "ScheduleAnyway")))
    if fields["labelSelector"].is_given:
        fields["labelSelector"].reject(
            "Forbidden: constraint must not define a selector, as they deduced for each pod"
        )
    fields["minDomains"].integer(1, 1, _INF, "must be greater than 0")
    for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        fields[policy].one_of(("Honor", "Ignore"), "Honor")
    pair = (fields["topologyKey"].text(), action)
    if pair in seen:
        part.reject(f"{DUPLICATE}: {{{pair[0]}, {pair[1]}}}")
    seen[pair] = None
    if len(part.problems) > before:
        return None
    return spread_constraint(part.value, {})._replace(selector=NOTHING)


def _node_affinity(part: Part) -> Changes:
    """NodeAffinityArgs: affinity that every pod of the profile has on top of its own."""
    added = _members(part, "addedAffinity")["addedAffinity"]
    if not added.is_given:
        return {}
    affinity = added.members(_REQUIRED_AFFINITY, _PREFERRED_AFFINITY)
    changes: Changes = {}
    required = affinity[_REQUIRED_AFFINITY]
    if required.is_given:
        terms = required.members("nodeSelectorTerms")["nodeSelectorTerms"]
        changes["added_required"] = tuple(_node_term(item) for item in terms.items())
    preferred = []
    for item in affinity[_PREFERRED_AFFINITY].items():
        fields = item.members("weight", "preference")
        preferred.append((fields["weight"].integer(0), _node_term(fields["preference"])))
    changes["added_preferred"] = tuple(preferred)
    return changes


def _node_term(part: Part) -> Term:
    fields = part.members("matchExpressions", "matchFields")
    before = len(part.problems)
    for item in fields["matchExpressions"].items():
        _check_expression(item)
    for item in fields["matchFields"].items():
        expression = item.members("key", "operator", "values")
        expression["key"].text()
        if expression["operator"].text() not in ("In", "NotIn"):
            expression["operator"].reject(unsupported(("In", "NotIn")))
        elif len([value.text() for value in expression["values"].items()]) != 1:
            expression["values"].reject("must have one element")
    return Term((), ()) if len(part.problems) > before or not part.is_given else parse_term(part.value)


def _check_expression(part: Part) -> None:
    """Source: labels.NewRequirement."""
    expression = part.members("key", "operator", "values")
    expression["key"].text()
    operator = expression["operator"].text()
    values = [item.text() for item in expression["values"].items()]
    if operator not in _OPERATORS:
        expression["operator"].reject(unsupported(_OPERATORS))
    elif operator in ("In", "NotIn") and not values:
        expression["values"].reject("for 'in', 'notin' operators, values set can't be empty")
    elif operator in ("Exists", "DoesNotExist") and values:
        expression["values"].reject("values set must be empty for exists and does not exist")
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            expression["values"].reject("for 'Gt', 'Lt' operators, exactly one value is required")
        elif not re.fullmatch(r"[+-]?[0-9]+", values[0]):
            expression["values"].reject("for 'Gt', 'Lt' operators, the value must be an integer")


def _preemption(part: Part) -> Changes:
    """DefaultPreemptionArgs."""
    args = _members(part, "minCandidateNodesPercentage", "minCandidateNodesAbsolute")
    percentage, absolute = args["minCandidateNodesPercentage"], args["minCandidateNodesAbsolute"]
    found = PreemptionArgs(
        percentage.integer(10, 0, 100, "not in valid range [0, 100]"),
        absolute.integer(100, 0, _INF, "not in valid range [0, inf)"),
    )
    if not found.min_candidate_nodes_percentage and not found.min_candidate_nodes_absolute:
        percentage.reject("cannot be zero at the same time as minCandidateNodesAbsolute")
        absolute.reject("cannot be zero at the same time as minCandidateNodesPercentage")
    return {"preemption": found}


def _volume_binding(part: Part) -> Changes:
    args = _members(part, "bindTimeoutSeconds", "shape")
    args["bindTimeoutSeconds"].integer(
        600, 0, 2**63 - 1, "invalid BindTimeoutSeconds, should not be a negative value"
    )
    if args["shape"].is_given:
        args["shape"].reject(
            "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"
        )
    return {}


def _dynamic_resources(part: Part) -> Changes:
    _members(part, "filterTimeout", "bindingTimeout")
    return {}


def _label_name(part: Part) -> str:
    name = part.text()
    if name and not _LABEL_NAME.fullmatch(name):
        part.reject(_NOT_A_LABEL_NAME)
    return name


def _coscheduling(part: Part) -> Changes:
    """CoschedulingArgs. Source: scheduler-plugins apis/config/validation/validation_pluginargs.go."""
    args = _members(part, "permitWaitingTimeSeconds", "podGroupBackoffSeconds", "podGroupRejectPercentage")
    positive = "must be greater than 0"
    found = CoschedulingArgs(
        args["permitWaitingTimeSeconds"].integer(60, 0, _INF, positive) * SECOND_US,
        args["podGroupBackoffSeconds"].integer(0, 0, _INF, positive) * SECOND_US,
        args["podGroupRejectPercentage"].integer(10, 0, 100, "must be between 0 and 100"),
    )
    return {"coscheduling": found}


_READERS: dict[str, Callable[[Part], Changes]] = {
    "Coscheduling": _coscheduling,
    "DefaultPreemption": _preemption,
    "DynamicResources": _dynamic_resources,
    "InterPodAffinity": _inter_pod,
    "NodeAffinity": _node_affinity,
    "NodeResourcesBalancedAllocation": _balanced,
    "NodeResourcesFit": _fit,
    "PodTopologySpread": _spread,
    "VolumeBinding": _volume_binding,
}
