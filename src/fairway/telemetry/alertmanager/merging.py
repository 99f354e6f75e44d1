"""Which configuration does the Prometheus Operator give an Alertmanager? Its Secret's, with AlertmanagerConfigs in it.

Every AlertmanagerConfig that is selected becomes a route before all others, for alerts of its own namespace only
(unless the Alertmanager's strategy says otherwise); its receivers and intervals get its namespace and name before
theirs. One that cannot be used is left out, and said which.

Unlike the operator: a matcher, template or duration that Alertmanager itself could not read makes its own object
rejected, not the whole configuration stay what it was.

Source: pkg/alertmanager/{amcfg,operator}.go (prometheus-operator v0.93).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from fairway.errors import InvalidInput
from fairway.kube.labels import Selector, label_selector
from fairway.kube.objects import Obj, labels_of, meta_of
from fairway.kube.yamltext import first_value
from fairway.telemetry.alertmanager.configuration import Configuration, read_mapping
from fairway.telemetry.alertmanager.receivers import Rejected, check_receivers, receiver_of, settings_of

ALERTMANAGER: Final = "Alertmanager.monitoring.coreos.com"
CONFIG: Final = "AlertmanagerConfig.monitoring.coreos.com"
FILE: Final = "alertmanager.yaml"
NONE: Final = "None"
EXCEPT_OWN: Final = "OnNamespaceExceptForAlertmanagerNamespace"
MOST_BYTES: Final = 4 << 20
_DEFAULT: Final = {"route": {"receiver": "null"}, "receivers": [{"name": "null"}]}
_DEEPEST: Final = 50
_RANGES: Final = {
    "daysOfMonth": "days_of_month",
    "weekdays": "weekdays",
    "months": "months",
    "years": "years",
}
_FIELDS: Final[dict[str, type]] = {
    **dict.fromkeys(("receiver", "groupWait", "groupInterval", "repeatInterval"), str),
    **dict.fromkeys(("groupBy", "matchers", "routes", "muteTimeIntervals", "activeTimeIntervals"), list),
    "continue": bool,
}
_INSIDE: Final[dict[str, type]] = {
    **dict.fromkeys(("groupBy", "muteTimeIntervals", "activeTimeIntervals"), str),
    "matchers": dict,
}
SecretOf = Callable[[str, str], Mapping[str, str] | None]
"""Decoded values of a Secret, by namespace and name; None: there is none."""


@dataclass(slots=True)
class Merged:
    """`raw`: the file's content; `rejected`: objects that are left out, and why; `fault`: why there is none."""

    raw: dict[str, Any] = field(default_factory=dict)
    rejected: list[tuple[Obj, str]] = field(default_factory=list)
    fault: str = ""

    def configuration(self) -> Configuration:
        """Raises: InvalidInput."""
        return read_mapping(self.raw, FILE)


def merged(
    alertmanager: Obj, configs: Sequence[Obj], namespaces: Mapping[str, Obj], secret_of: SecretOf
) -> Merged:
    """`configs`: all there are."""
    found = Merged()
    spec, own = alertmanager.get("spec") or {}, meta_of(alertmanager).get("namespace") or ""
    whole = (spec.get("alertmanagerConfiguration") or {}).get("name") or ""
    try:
        if whole:
            found.raw = _from_object(whole, own, configs, secret_of)
        else:
            found.raw = _from_secret(alertmanager, secret_of)
            read_mapping(found.raw, FILE)
        if spec.get("alertmanagerConfigSelector") is None and not whole:
            return found
        chosen = _selected(spec, own, configs, namespaces)
    except (Rejected, InvalidInput, ValueError) as wrong:
        found.fault = str(wrong)
        return found
    strategy = (spec.get("alertmanagerConfigMatcherStrategy") or {}).get("type") or ""
    routes = []
    for obj in chosen:
        if whole and (meta_of(obj).get("namespace"), meta_of(obj)["name"]) == (own, whole):
            continue
        try:
            part = _part_of(obj, found.raw, secret_of)
            _enforce(part, meta_of(obj).get("namespace") or "", own, strategy)
            _try(found.raw, part)
        except (Rejected, InvalidInput) as wrong:
            name = meta_of(obj)["name"]
            said = f"AlertmanagerConfig {name} was rejected due to invalid configuration: {wrong}"
            found.rejected.append((obj, said))
            continue
        _add(found.raw, part)
        routes += part["routes"]
    route = found.raw.get("route") or {}
    found.raw["route"] = {**route, "routes": [*routes, *(route.get("routes") or ())]}
    return found


def _from_secret(alertmanager: Obj, secret_of: SecretOf) -> dict[str, Any]:
    """Raises: Rejected."""
    meta, spec = meta_of(alertmanager), alertmanager.get("spec") or {}
    name = spec.get("configSecret") or f"alertmanager-{meta['name']}"
    text = (secret_of(meta.get("namespace") or "", name) or {}).get(FILE) or ""
    if not text:
        return _copied(_DEFAULT)
    if len(text) > MOST_BYTES:
        raise Rejected(f"failed to initialize from secret: {FILE} is larger than {MOST_BYTES >> 20} MiB")
    try:
        read = first_value(text)
    except ValueError as wrong:
        raise Rejected(f"failed to initialize from secret: {wrong}") from wrong
    if not isinstance(read, dict):
        raise Rejected("failed to initialize from secret: expected a mapping with route and receivers")
    return read


def _from_object(name: str, own: str, configs: Sequence[Obj], secret_of: SecretOf) -> dict[str, Any]:
    """The whole configuration is one object's. Raises: Rejected."""
    for obj in configs:
        if (meta_of(obj).get("namespace"), meta_of(obj)["name"]) == (own, name):
            part = _part_of(obj, {}, secret_of)
            if not part["routes"]:
                raise Rejected("failed to initialize from global AlertmanagerConfig: root route must exist")
            (route,) = part.pop("routes")
            if route.get("matchers"):
                raise Rejected(
                    "failed to initialize from global AlertmanagerConfig: 'matchers' not permitted on root route"
                )
            route.pop("continue", None)
            whole = {"route": route, **part}
            read_mapping(whole, FILE)
            return whole
    raise Rejected(f'failed to get global AlertmanagerConfig: "{name}" not found')


def _selected(
    spec: Mapping[str, Any], own: str, configs: Sequence[Obj], namespaces: Mapping[str, Obj]
) -> list[Obj]:
    """By namespace and name. Raises: ValueError."""
    where = spec.get("alertmanagerConfigNamespaceSelector")
    wanted: Selector | None = label_selector(where) if where is not None else None
    chosen = label_selector(spec.get("alertmanagerConfigSelector"))
    found = []
    for obj in configs:
        namespace = meta_of(obj).get("namespace") or ""
        if wanted is None:
            is_there = namespace == own
        else:
            # A simulation has namespaces of which there is no object.
            there = namespaces.get(namespace)
            labels = {"kubernetes.io/metadata.name": namespace} if there is None else labels_of(there)
            is_there = wanted.matches(labels)
        if is_there and chosen.matches(labels_of(obj)):
            found.append(obj)
    return sorted(found, key=lambda o: f"{meta_of(o).get('namespace')}/{meta_of(o)['name']}")


# One object


def _part_of(obj: Obj, base: Mapping[str, Any], secret_of: SecretOf) -> dict[str, Any]:
    """Its routes (one, or none), receivers, inhibitions and intervals, as Alertmanager has them. Raises: Rejected."""
    spec, meta = obj.get("spec") or {}, meta_of(obj)
    namespace, name = meta.get("namespace") or "", meta["name"]
    receivers = spec.get("receivers") or ()
    intervals = spec.get("muteTimeIntervals") or spec.get("timeIntervals") or ()
    check_receivers(receivers)
    known = {str(one.get("name") or "") for one in intervals}
    if "" in known:
        raise Rejected("mute time interval[0] is invalid: empty name field for mute time interval")
    route = spec.get("route")
    if route:
        _check_route(route, {str(r.get("name")) for r in receivers}, known, 0)

    def value_of(selector: Mapping[str, Any]) -> str:
        return _secret_value(selector, namespace, secret_of)

    prefix = f"{namespace}/{name}/"
    return {
        "routes": [_route(route, prefix)] if route else [],
        "receivers": [receiver_of(r, prefix, base.get("global") or {}, value_of) for r in receivers]
        if route
        else [],
        "inhibit_rules": [
            _inhibition(one, at, name) for at, one in enumerate(spec.get("inhibitRules") or ())
        ],
        "mute_time_intervals": [_intervals(one, prefix) for one in intervals] if route else [],
    }


def _secret_value(selector: Mapping[str, Any], namespace: str, secret_of: SecretOf) -> str:
    name, key = str(selector.get("name") or ""), str(selector.get("key") or "")
    found = secret_of(namespace, name)
    if found is None:
        raise Rejected(f'unable to get secret "{name}": secrets "{name}" not found')
    if key not in found:
        raise Rejected(f'key "{key}" in secret "{name}" not found')
    return found[key]


def _check_route(route: Mapping[str, Any], receivers: set[str], intervals: set[str], depth: int) -> None:
    """Raises: Rejected."""
    if depth > _DEEPEST:
        raise Rejected("nested too deep")
    receiver = route.get("receiver") or ""
    if not receiver and not depth:
        raise Rejected("root route must define a receiver")
    if receiver and receiver not in receivers:
        raise Rejected(f'receiver "{receiver}" not found')
    names = [str(one) for one in route.get("groupBy") or ()]
    shown = f"[{' '.join(names)}]"
    if len(set(names)) < len(names):
        raise Rejected(f"duplicate values not permitted in route 'groupBy': {shown}")
    if "..." in names and len(names) > 1:
        raise Rejected(f"'...' must be a sole value in route 'groupBy': {shown}")
    for fields, word in (
        ("muteTimeIntervals", "mute time interval"),
        ("activeTimeIntervals", "time interval"),
    ):
        for one in route.get(fields) or ():
            if one not in intervals:
                raise Rejected(f'{word} "{one}" not found')
    for place, one in enumerate(route.get("matchers") or ()):
        _check_matcher(one, f"matcher[{place}]: ")
    for place, child in enumerate(route.get("routes") or ()):
        try:
            _check_fields(child)
            _check_route(child, receivers, intervals, depth + 1)
        except Rejected as wrong:
            raise Rejected(f"route[{place}]: {wrong}") from None


def _check_fields(route: Any) -> None:
    """Of a route inside a route, which no schema describes. Raises: Rejected."""
    if not isinstance(route, dict):
        raise Rejected("json: cannot unmarshal into Go value of type v1alpha1.Route")
    for name, value in route.items():
        wanted = _FIELDS.get(name)
        if wanted is None:
            raise Rejected(f'json: unknown field "{name}"')
        inside = _INSIDE.get(name)
        is_right = isinstance(value, wanted)
        if is_right and inside and isinstance(value, list):
            is_right = all(isinstance(one, inside) for one in value)
        if not is_right:
            raise Rejected(f"json: cannot unmarshal into Go struct field Route.{name}")


def _check_matcher(one: Mapping[str, Any], before: str) -> None:
    kind = one.get("matchType") or ""
    if kind and kind not in ("=", "!=", "=~", "!~"):
        raise Rejected(f"{before}invalid 'matchType' '{kind}' provided'")
    if kind and not str(one.get("name") or "").strip():
        raise Rejected(f"{before}matcher 'name' is required")


def _route(route: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if route.get("receiver"):
        found["receiver"] = prefix + route["receiver"]
    if route.get("groupBy"):
        found["group_by"] = list(route["groupBy"])
    for ours, theirs in (
        ("groupWait", "group_wait"),
        ("groupInterval", "group_interval"),
        ("repeatInterval", "repeat_interval"),
    ):
        # An interval of nothing is as if nothing were said.
        if route.get(ours) and (ours == "groupWait" or str(route[ours]).strip("0hmsdwy")):
            found[theirs] = route[ours]
    if route.get("matchers"):
        found["matchers"] = [_matcher(one) for one in route["matchers"]]
    if route.get("continue"):
        found["continue"] = True
    for ours, theirs in (
        ("muteTimeIntervals", "mute_time_intervals"),
        ("activeTimeIntervals", "active_time_intervals"),
    ):
        if route.get(ours):
            found[theirs] = [prefix + one for one in route[ours]]
    if route.get("routes"):
        found["routes"] = [_route(child, prefix) for child in route["routes"]]
    return found


def _matcher(one: Mapping[str, Any]) -> str:
    """Of an old one without `matchType`, by `regex`."""
    kind = one.get("matchType") or ("=~" if one.get("regex") else "=")
    value = str(one.get("value") or "").replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
    return f'{one.get("name") or ""}{kind}"{value}"'


def _inhibition(one: Mapping[str, Any], at: int, name: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for ours, theirs in (("targetMatch", "target_matchers"), ("sourceMatch", "source_matchers")):
        word = ours.replace("Match", "Matchers")
        for place, matcher in enumerate(one.get(ours) or ()):
            _check_matcher(matcher, f"invalid {word}[{place}] in inhibitRule[{at}] in config {name}: ")
        found[theirs] = [_matcher(matcher) for matcher in one.get(ours) or ()]
    if one.get("equal"):
        found["equal"] = list(one["equal"])
    return found


def _intervals(one: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    read = []
    for part in one.get("timeIntervals") or ():
        found: dict[str, Any] = {}
        if part.get("times"):
            found["times"] = [
                {"start_time": t.get("startTime") or "", "end_time": t.get("endTime") or ""}
                for t in part["times"]
            ]
        for ours, theirs in _RANGES.items():
            if part.get(ours):
                found[theirs] = [
                    f"{r.get('start')}:{r.get('end')}" if isinstance(r, dict) else str(r) for r in part[ours]
                ]
        read.append(found)
    return {"name": f"{prefix}{one['name']}", "time_intervals": read}


# Into the whole


def _enforce(part: dict[str, Any], namespace: str, own: str, strategy: str) -> None:
    """Alerts of its namespace only; after it, others are asked all the same."""
    is_free = strategy == NONE or (strategy == EXCEPT_OWN and namespace == own)
    only = f'namespace="{namespace}"'
    for route in part["routes"]:
        if not is_free:
            route["matchers"] = [*route.get("matchers", ()), only]
        route["continue"] = True
    for rule in part["inhibit_rules"] if not is_free else ():
        for side in ("source_matchers", "target_matchers"):
            if only not in rule[side]:
                rule[side].append(only)


def _try(base: Mapping[str, Any], part: Mapping[str, Any]) -> None:
    """Whether Alertmanager reads it by itself. Raises: InvalidInput."""
    route = {**(base.get("route") or {}), "routes": list(part["routes"])}
    alone = {**settings_of(base), "route": route}
    _add(alone, part)
    read_mapping(alone, FILE)


def _add(whole: dict[str, Any], part: Mapping[str, Any]) -> None:
    for name in ("receivers", "inhibit_rules", "mute_time_intervals"):
        if part[name]:
            whole[name] = [*(whole.get(name) or ()), *part[name]]


def _copied(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {name: dict(value) if isinstance(value, dict) else list(value) for name, value in raw.items()}
