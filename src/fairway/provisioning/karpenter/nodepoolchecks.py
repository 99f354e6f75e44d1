"""What is wrong with a NodePool? Located, in the words of its CRD and of Karpenter's own validation.

Both v1 and v1beta1 are read. Whether any instance type suits it is asked of a `Fleet`: `packing` says so per batch.

Source: pkg/apis/crds/karpenter.sh_nodepools.yaml; pkg/apis/v1/nodepool_validation.go, nodeclaim_validation.go.
"""

from __future__ import annotations

import re
from typing import Final

from fairway.errors import FieldProblem
from fairway.kube.cron import ScheduleError, parse
from fairway.kube.located import Field, Reading
from fairway.kube.manifest import Manifest
from fairway.kube.names import label_key, label_value
from fairway.provisioning.karpenter.labels import (
    KNOWN_VALUES,
    NODEPOOL,
    NORMALIZED,
    WELL_KNOWN,
    is_restricted,
    restricted_text,
)
from fairway.provisioning.karpenter.nodepools import (
    API_BETA,
    BALANCED,
    WHEN_EMPTY,
    WHEN_UNDERUTILIZED,
)
from fairway.provisioning.karpenter.requirement import GT, GTE, IN, LT, LTE, OPERATORS

_DURATION: Final = re.compile(r"([0-9]+(s|m|h))+")
_BUDGET_NODES: Final = re.compile(r"(100|[0-9]{1,2})%|[0-9]+")
_BUDGET_DURATION: Final = re.compile(r"(([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?")
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute", "")
_REASONS: Final = ("Underutilized", "Empty", "Drifted")
_POLICIES: Final = (WHEN_EMPTY, WHEN_UNDERUTILIZED, BALANCED)
_MOST: Final = 100
NEEDS_INTEGER: Final = (
    "requirements operator 'Gt', 'Lt', 'Gte', or 'Lte' must have a single positive integer value"
)
NEEDS_VALUES: Final = "requirements with operator 'In' must have a value defined"
NEEDS_MORE_VALUES: Final = (
    "requirements with 'minValues' must have at least that many values specified in the 'values' field"
)


def problems_of(manifest: Manifest) -> list[FieldProblem]:
    """Everything the API server, or Karpenter after it, would refuse."""
    reading = Reading(manifest)
    is_beta = manifest.obj.get("apiVersion") == API_BETA
    root = reading.root().members("apiVersion", "kind", "metadata", "spec", "status", required=("spec",))
    names = ("template", "disruption", "limits", "weight", "replicas")
    spec = root["spec"].members(*names, required=("template",))
    template = spec["template"].members("metadata", "spec", required=("spec",))
    _check_metadata(template["metadata"])
    _check_node(template["spec"], is_beta=is_beta)
    _check_disruption(spec["disruption"], is_beta=is_beta)
    spec["limits"].quantities()
    spec["weight"].integer(1, 1, _MOST)
    spec["replicas"].integer(0, 0)
    _check_static(spec)
    return reading.problems


def _check_static(spec: dict[str, Field]) -> None:
    if not spec["replicas"].is_given:
        return
    if spec["weight"].is_given:
        spec["weight"].reject("'weight' is not supported on static NodePools")
    if spec["limits"].is_given and set(spec["limits"].value or ()) - {"nodes"}:
        spec["limits"].reject("only 'limits.nodes' is supported on static NodePools")


def _check_metadata(metadata: Field) -> None:
    parts = metadata.members("labels", "annotations")
    parts["annotations"].words()
    for key, value in parts["labels"].entries():
        if key == NODEPOOL:
            value.reject(f'invalid key name "{key}" in labels, restricted')
        elif is_restricted(key):
            value.reject(f'invalid key name "{key}" in labels, {restricted_text(key)}')
        for why in label_key(key):
            value.reject(f'invalid key name "{key}" in labels, "{why}"')
        for why in label_value(str(value.value)):
            value.reject(f"invalid value: {value.value} for label[{key}], {why}")


def _check_node(node: Field, *, is_beta: bool) -> None:
    names = [
        "taints",
        "startupTaints",
        "requirements",
        "nodeClassRef",
        "terminationGracePeriod",
        "expireAfter",
    ]
    given = node.members(*names, *(["kubelet", "resources"] if is_beta else []), required=("nodeClassRef",))
    if not isinstance(node.value, dict) or "requirements" not in node.value:
        given["requirements"].reject("required")
    for requirement in given["requirements"].items():
        _check_requirement(requirement)
    seen: set[tuple[str, str]] = set()
    for name in ("taints", "startupTaints"):
        for taint in given[name].items():
            _check_taint(taint, name, seen)
    _check_class(given["nodeClassRef"], is_beta=is_beta)
    _check_duration(given["terminationGracePeriod"], may_be_never=False)
    _check_duration(given["expireAfter"], may_be_never=True)


def _check_class(reference: Field, *, is_beta: bool) -> None:
    names = ("group", "kind", "name", "apiVersion") if is_beta else ("group", "kind", "name")
    parts = reference.members(*names)
    if not reference.is_given:
        return
    for name in ("name",) if is_beta else ("group", "kind", "name"):
        if not parts[name].text():
            parts[name].reject(f"{name} may not be empty")


def _check_duration(given: Field, *, may_be_never: bool) -> None:
    if not given.is_given or (may_be_never and given.value == "Never"):
        return
    if not isinstance(given.value, str) or not _DURATION.fullmatch(given.value):
        more = " or Never" if may_be_never else ""
        given.reject(f"expected a duration of hours, minutes and seconds such as 720h or 1h30m{more}")


def _check_requirement(item: Field) -> None:
    given = item.members("key", "operator", "values", "minValues", required=("key", "operator"))
    key, operator = given["key"].text(), given["operator"].choice(OPERATORS, IN)
    values = [str(f.value) for f in given["values"].items()]
    normalized = NORMALIZED.get(key, key)
    if key == NODEPOOL:
        given["key"].reject(f'invalid key: "{key}" in requirements, restricted')
    elif is_restricted(normalized):
        given["key"].reject(f"invalid value: {restricted_text(normalized)} in requirements, restricted")
    for why in label_key(normalized) if key else ():
        given["key"].reject(f"key {normalized} is not a qualified name, {why}")
    for value in given["values"].items():
        for why in label_value(str(value.value)):
            value.reject(f"invalid value {value.value} for key {normalized}, {why}")
    least = given["minValues"].integer(0, 1, 50)
    if operator == IN:
        _check_in(item, given, normalized, values, least)
    elif operator in (GT, LT, GTE, LTE) and (len(values) != 1 or not values[0].isdecimal()):
        item.reject(NEEDS_INTEGER)


def _check_in(item: Field, given: dict[str, Field], key: str, values: list[str], least: int) -> None:
    if not values:
        item.reject(NEEDS_VALUES)
    elif len(values) < least:
        item.reject(NEEDS_MORE_VALUES)
    known = KNOWN_VALUES.get(key) if key in WELL_KNOWN else None
    if known and values and not set(values) & set(known):
        given["values"].reject(
            f"no valid values found in {values} for {key}, expected one of: [{' '.join(known)}]"
        )


def _check_taint(item: Field, field_name: str, seen: set[tuple[str, str]]) -> None:
    given = item.members("key", "value", "effect", "timeAdded", required=("key",))
    key, effect = given["key"].text(), given["effect"].text()
    for why in label_key(key) if key else ():
        given["key"].reject(f"invalid value: {why} in {field_name}")
    if effect not in _EFFECTS:
        given["effect"].reject(f'invalid value: "{effect}" in {field_name}')
    if (key, effect) in seen:
        item.reject(f"duplicate taint Key/Effect pair {key}={effect}")
    seen.add((key, effect))


def _check_disruption(given: Field, *, is_beta: bool) -> None:
    names = ["consolidateAfter", "consolidationPolicy", "budgets"]
    parts = given.members(*names, *(["expireAfter"] if is_beta else []))
    policies = (*_POLICIES, "WhenUnderutilized") if is_beta else _POLICIES
    parts["consolidationPolicy"].choice(policies, WHEN_UNDERUTILIZED)
    _check_duration(parts["consolidateAfter"], may_be_never=True)
    if is_beta:
        _check_duration(parts["expireAfter"], may_be_never=True)
    for budget in parts["budgets"].items():
        _check_budget(budget)


def _check_budget(item: Field) -> None:
    given = item.members("nodes", "reasons", "schedule", "duration")
    nodes = given["nodes"]
    if nodes.is_given and not _BUDGET_NODES.fullmatch(str(nodes.value)):
        nodes.reject("expected a number of nodes or a percentage up to 100%")
    for reason in given["reasons"].items():
        reason.choice(_REASONS, _REASONS[0])
    if given["schedule"].is_given != given["duration"].is_given:
        item.reject("'schedule' must be set with 'duration'")
    duration = given["duration"]
    if duration.is_given and not _BUDGET_DURATION.fullmatch(str(duration.value)):
        duration.reject("expected a duration of hours and minutes such as 8h or 1h30m")
    if given["schedule"].is_given:
        try:
            parse(given["schedule"].text())
        except ScheduleError as wrong:
            given["schedule"].reject(f"invalid cron: {wrong}")
