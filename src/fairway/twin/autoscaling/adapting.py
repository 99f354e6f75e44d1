"""Prometheus Adapter: which custom and external metrics do its rules make of PromQL?

Its configuration is the `config.yaml` of a ConfigMap that is called as its chart or kube-prometheus call it. A rule
finds series (`seriesQuery`, `seriesFilters`), says what their labels are about (`resources`), what the metric is
called (`name`), and how it is asked for (`metricsQuery`). Queries are asked of the twin's series (`twin.queries`).

Unlike the adapter: series are looked for whenever somebody asks, not every `--metrics-relist-interval`.

Source: prometheus-adapter v0.12, pkg/config/config.go, pkg/naming/{metric_namer,metrics_query,resource_converter}.go,
pkg/custom-provider/provider.go.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fairway.autoscaling.source import MetricsError
from fairway.kube.goregexp import RegexpError, compiled
from fairway.kube.kinds import find_kind
from fairway.kube.labels import EXISTS, IN, NOT_IN, Selector
from fairway.kube.objects import Key

if TYPE_CHECKING:
    from fairway.twin.autoscaling.component import Autoscaling

CONFIG: Final = "config.yaml"
_CALLED: Final = ("prometheus-adapter", "adapter-config")
_RULES_MOST: Final = 1_000
_WORD: Final = re.compile(r"<<-?\s*(?:\.(\w+)|index\s+\.LabelValuesByName\s+\"([^\"]*)\")\s*-?>>")
_GROUP: Final = re.compile(r"\$\{?(\w+)\}?")


class AdapterFault(ValueError):
    """What is wrong with a rule, and where."""


class _Rule(NamedTuple):
    series_query: str
    filters: tuple[tuple[str, str], ...]
    """`is` or `isNot`, and a pattern of the series' name."""
    template: str
    overrides: tuple[tuple[str, str], ...]
    """Labels, and the plural of the resource each is about."""
    is_namespaced: bool
    matches: str
    named: str
    query: str


class Answer(NamedTuple):
    """Labels and value (thousandths) of one element, and until when it holds."""

    labels: tuple[tuple[str, str], ...]
    milli: int
    until_us: int


class Adapter:
    """The rules of a cluster's adapters, by ConfigMap: custom ones and external ones."""

    def __init__(self, room: Autoscaling) -> None:
        self._room = room
        self._rules: dict[Key, tuple[tuple[_Rule, ...], tuple[_Rule, ...]]] = {}

    def fork(self, room: Autoscaling) -> Adapter:
        twin = Adapter(room)
        twin._rules = dict(self._rules)
        return twin

    def __len__(self) -> int:
        return len(self._rules)

    def put(self, key: Key, text: str) -> None:
        """Raises: AdapterFault, ValueError."""
        self._rules.pop(key, None)
        custom, external = read_adapter(text)
        if custom or external:
            self._rules[key] = custom, external

    def drop(self, key: Key) -> bool:
        return self._rules.pop(key, None) is not None

    def of_resource(
        self, resource: str, namespace: str, metric: str, names: Sequence[str], chosen: Selector | None
    ) -> dict[str, Answer] | None:
        """Of objects of a kind (its plural), by name; None where no rule gives such a metric."""
        for rule, series in self._found(0, metric):
            label, of = _label_of(rule, resource), _label_of(rule, "namespaces")
            if not any(label in dict(one) for one in series):
                continue
            asked = [*_of_selector(chosen), *_equal(of, (namespace,) if resource != "namespaces" else ())]
            asked += _equal(label, names)
            found = self._asked(rule, dict(series[0])["__name__"], asked, label, {of: namespace})
            return {dict(one.labels)[label]: one for one in found if label in dict(one.labels)}
        return None

    def external(self, namespace: str, metric: str, chosen: Selector | None) -> list[Answer] | None:
        """Every element; None where no rule gives such a metric."""
        for rule, series in self._found(1, metric):
            of = _label_of(rule, "namespaces")
            asked = [*_of_selector(chosen), *_equal(of, (namespace,) if rule.is_namespaced else ())]
            return list(self._asked(rule, dict(series[0])["__name__"], asked, "", {of: namespace}))
        return None

    def names(self, *, of_objects: bool) -> list[str]:
        """`pods/NAME` and the like, or the names of external metrics."""
        found = set()
        for rules in self._rules.values():
            for rule in rules[0 if of_objects else 1]:
                for one in self._series(rule):
                    name = _metric_of(rule, dict(one)["__name__"])
                    if of_objects:
                        found |= {f"{about}/{name}" for key, _ in one if (about := _resource_of(rule, key))}
                    else:
                        found.add(name)
        return sorted(found)

    def _found(self, which: int, metric: str) -> Iterator[tuple[_Rule, list[Any]]]:
        """Rules that give the metric, and the series of the first of their names."""
        for rules in self._rules.values():
            for rule in rules[which]:
                series = [s for s in self._series(rule) if _metric_of(rule, dict(s)["__name__"]) == metric]
                if series:
                    first = dict(series[0])["__name__"]
                    yield rule, [one for one in series if dict(one)["__name__"] == first]

    def _series(self, rule: _Rule) -> list[tuple[tuple[str, str], ...]]:
        """Labels of the series that are there now. Those of a query that cannot be read are none."""
        from fairway.telemetry.promql import PromQLError, parse
        from fairway.telemetry.promql.nodes import Selector as Series
        from fairway.twin.queries import TwinSource

        now_ms = self._room.host.loop.now_us // 1000
        try:
            node = parse(rule.series_query)
            if not isinstance(node, Series):
                return []
            found = TwinSource(self._room.host).select(node.matchers, now_ms - 300_000, now_ms)
            return [s.labels for s in found if _passes(rule, dict(s.labels)["__name__"])]
        except (PromQLError, RegexpError):
            return []

    def _asked(
        self, rule: _Rule, series: str, asked: Sequence[str], group_by: str, values: Mapping[str, str]
    ) -> Iterator[Answer]:
        from fairway.telemetry.promql import Matrix, PromQLError
        from fairway.twin.queries import ask

        words = {"Series": series, "LabelMatchers": ",".join(asked), "GroupBy": group_by}

        def filled(match: re.Match[str]) -> str:
            return words.get(match[1], "") if match[1] else values.get(match[2], "")

        try:
            found = ask(self._room.host, _WORD.sub(filled, rule.query))
        except PromQLError:
            raise MetricsError("Internal error occurred: unable to fetch metrics") from None
        if isinstance(found.result, Matrix):
            for labels, value in zip(found.result.labels, found.result.values[:, 0].tolist(), strict=True):
                milli = int(value * 1000) if math.isfinite(value) else 0
                yield Answer(labels, milli, found.until_us)


def is_adapters(name: str) -> bool:
    """Whether a ConfigMap of this name is an adapter's."""
    return name.endswith(_CALLED)


def read_adapter(text: str) -> tuple[tuple[_Rule, ...], tuple[_Rule, ...]]:
    """Custom and external rules. Raises: AdapterFault, ValueError."""
    from fairway.kube.yamltext import first_value

    raw = first_value(text)
    if not isinstance(raw, dict):
        raise AdapterFault("expected a mapping with rules and externalRules")
    return _rules(raw, "rules"), _rules(raw, "externalRules")


def _rules(raw: Mapping[str, Any], member: str) -> tuple[_Rule, ...]:
    listed = raw.get(member) or []
    if not isinstance(listed, list) or len(listed) > _RULES_MOST:
        raise AdapterFault(f"{member}: expected a list of at most {_RULES_MOST} rules")
    found = []
    for number, one in enumerate(listed):
        if not isinstance(one, dict):
            raise AdapterFault(f"{member}[{number}]: expected a mapping")
        try:
            found.append(_rule(one))
        except (AdapterFault, RegexpError) as wrong:
            raise AdapterFault(f"{member}[{number}]: {wrong}") from None
    return tuple(found)


def _rule(one: Mapping[str, Any]) -> _Rule:
    resources, name = _mapping(one, "resources"), _mapping(one, "name")
    overrides = []
    for label, about in _mapping(resources, "overrides").items():
        given = about.get("resource") if isinstance(about, dict) else None
        kind = find_kind(str(given or ""))
        if kind is None:
            raise AdapterFault(f"resources.overrides.{label}: unable to map resource {given!r}")
        overrides.append((str(label), kind.plural))
    filters = [_filter(entry) for entry in one.get("seriesFilters") or () if isinstance(entry, dict)]
    matches = str(name.get("matches") or ".*")
    pattern = compiled(matches)
    groups = int(getattr(pattern, "groups", 0))
    if not name.get("as") and groups > 1:
        about = f'"{matches}" associated with series query "{one.get("seriesQuery") or ""}"'
        raise AdapterFault(f"must specify an 'as' value for name matcher {about}")
    template = str(resources.get("template") or "")
    if template and "(?P<resource>" not in _label_pattern(template):
        raise AdapterFault("must include at least `{{.Resource}}` in the label template")
    try:
        compiled(_label_pattern(template))
    except RegexpError as wrong:
        raise AdapterFault(f"unable to convert label template to matcher: {wrong}") from None
    query = str(one.get("metricsQuery") or "")
    if not query:
        raise AdapterFault("metricsQuery: expected a query")
    return _Rule(
        str(one.get("seriesQuery") or ""),
        tuple(filters),
        template,
        tuple(overrides),
        resources.get("namespaced") is not False,
        matches,
        str(name.get("as") or ("$1" if groups else "$0")),
        query,
    )


def _filter(one: Mapping[str, Any]) -> tuple[str, str]:
    """Raises: AdapterFault."""
    wanted, unwanted = str(one.get("is") or ""), str(one.get("isNot") or "")
    if wanted and unwanted:
        both = f'`is` ("{wanted}") and `isNot` ("{unwanted}")'
        raise AdapterFault(f"cannot have both an {both} expression in a single filter")
    if not wanted and not unwanted:
        raise AdapterFault("must have either an `is` or `isNot` expression in a filter")
    try:
        compiled(wanted or unwanted)
    except RegexpError as wrong:
        raise AdapterFault(f'unable to compile series filter "{wanted or unwanted}": {wrong}') from None
    return ("is", wanted) if wanted else ("isNot", unwanted)


def _mapping(raw: Mapping[str, Any], member: str) -> Mapping[str, Any]:
    found = raw.get(member) or {}
    if not isinstance(found, dict):
        raise AdapterFault(f"{member}: expected a mapping")
    return found


def _passes(rule: _Rule, name: str) -> bool:
    return all((compiled(text).search(name) is not None) is (how == "is") for how, text in rule.filters)


def _metric_of(rule: _Rule, series: str) -> str:
    """What the series is called as a metric; empty where the rule is not about it."""
    match = compiled(rule.matches).search(series)
    if match is None:
        return ""

    def group(found: re.Match[str]) -> str:
        try:
            return str(match.group(int(found[1]) if found[1].isdecimal() else found[1]) or "")
        except (IndexError, KeyError):
            return ""

    return _GROUP.sub(group, rule.named)


def _label_of(rule: _Rule, resource: str) -> str:
    """The label that says which object of a kind (its plural) a series is about."""
    for label, plural in rule.overrides:
        if plural == resource:
            return label
    kind = find_kind(resource)
    group = "" if kind is None else kind.group.replace(".", "_").replace("-", "_")
    return _filled(rule.template, kind.kind.lower() if kind else resource, group)


def _resource_of(rule: _Rule, label: str) -> str:
    """The plural of what a label is about; empty where it is about nothing."""
    known = dict(rule.overrides).get(label)
    if known is not None or not rule.template:
        return known or ""
    match = compiled(_label_pattern(rule.template)).search(label)
    if match is None:
        return ""
    kind = find_kind(".".join(filter(None, (match["resource"], match.groupdict().get("group")))))
    return kind.plural if kind is not None and _label_of(rule, kind.plural) == label else ""


def _label_pattern(template: str) -> str:
    """Which labels a template makes. What else stands in it is a pattern, too, as upstream."""
    return f"^{_filled(template, '(?P<resource>.+?)', '(?P<group>.+?)')}$"


def _filled(template: str, resource: str, group: str) -> str:
    words = {"Resource": resource, "Group": group}
    return _WORD.sub(lambda match: words.get(match[1] or "", ""), template)


def _equal(label: str, values: Sequence[str]) -> list[str]:
    """A matcher: the one value, or one of them."""
    if not label or not values:
        return []
    op, text = ("=", values[0]) if len(values) == 1 else ("=~", "|".join(values))
    return [f'{label}{op}"{_escaped(text)}"']


def _of_selector(chosen: Selector | None) -> Iterator[str]:
    for one in chosen.requirements if chosen is not None else ():
        text = _escaped("|".join(one.values))
        is_one = len(one.values) == 1
        match one.operator:
            case op if op == IN:
                yield f'{one.key}{"=" if is_one else "=~"}"{text}"'
            case op if op == NOT_IN:
                yield f'{one.key}{"!=" if is_one else "!~"}"{text}"'
            case op if op == EXISTS:
                yield f'{one.key}!=""'
            case _:
                yield f'{one.key}=""'


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
