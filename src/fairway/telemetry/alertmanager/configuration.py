"""An Alertmanager's configuration file, as far as it decides who hears of what, when.

Source: config/config.go, dispatch/route.go (Alertmanager main, August 2026).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import yaml

from fairway.errors import FieldProblem, InvalidInput, WorldError
from fairway.kube import yamltext
from fairway.kube.fieldpath import Path as FieldPath
from fairway.kube.fieldpath import path_text, value_text
from fairway.kube.goregexp import RegexpError
from fairway.telemetry.alertmanager.intervals import Interval, read_interval
from fairway.telemetry.promql.nodes import PromQLError
from fairway.telemetry.promql.parsing import duration_ms
from fairway.telemetry.store import Matcher, anchored

_MATCHER: Final = re.compile(
    r'\s*("(?:[^"\\]|\\.)+"|[^\s=!~,"]+)\s*(=~|!~|!=|=)\s*("(?:[^"\\]|\\.)*"|[^",{}]*)\s*'
)
_MATCHERS: Final = re.compile(rf"\{{?(?:{_MATCHER.pattern})(?:,(?:{_MATCHER.pattern}))*,?\s*\}}?")
_WAIT_MS, _INTERVAL_MS, _REPEAT_MS = 30_000, 300_000, 4 * 3_600_000
_MAX_BYTES: Final = 4 << 20
# Whether a receiver is told of the end of alerts unless it says otherwise.
_SENDS_RESOLVED: Final = {
    "webhook": True,
    "slack": False,
    "email": False,
    "pagerduty": True,
    "opsgenie": True,
}


@dataclass(frozen=True, slots=True)
class Route:
    """One node of the tree, with what it inherits. `key`: as in `groupKey`; `group_by`: None for `...` (all labels)."""

    receiver: str
    matchers: tuple[Matcher, ...]
    continues: bool
    group_by: tuple[str, ...] | None
    wait_ms: int
    interval_ms: int
    repeat_ms: int
    muted: tuple[str, ...]
    active: tuple[str, ...]
    routes: tuple[Route, ...]
    key: str


@dataclass(frozen=True, slots=True)
class Integration:
    """One way of a receiver: `kind` is webhook, slack, email, …; `settings` are the file's."""

    kind: str
    sends_resolved: bool
    settings: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Inhibition:
    source: tuple[Matcher, ...]
    target: tuple[Matcher, ...]
    equal: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Silence:
    """Alerts that match everything are not told of between two times (ms)."""

    matchers: tuple[Matcher, ...]
    start_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True)
class Configuration:
    route: Route
    receivers: Mapping[str, tuple[Integration, ...]]
    inhibitions: tuple[Inhibition, ...] = ()
    intervals: Mapping[str, tuple[Interval, ...]] = dataclasses.field(default_factory=dict)
    silences: tuple[Silence, ...] = ()


def read_configuration(file: Path) -> Configuration:
    """Raises: InvalidInput, WorldError."""
    try:
        with file.open("rb") as stream:
            data = stream.read(_MAX_BYTES + 1)
    except OSError as error:
        raise WorldError(f"{file}: cannot be read: {error.strerror}") from error
    if len(data) > _MAX_BYTES:
        raise InvalidInput((FieldProblem(str(file), 0, "", "", "larger than 4 MiB"),))
    return read_text(data.decode("utf-8", "replace"), str(file))


def read_text(text: str, file: str) -> Configuration:
    """Raises: InvalidInput."""
    documents, broken = yamltext.read_documents(text)
    problems = [FieldProblem(file, p.line, path_text(p.path), p.value, p.expected) for p in broken]
    if problems:
        raise InvalidInput(tuple(problems))
    if len(documents) != 1 or not isinstance(documents[0].value, dict):
        raise InvalidInput((FieldProblem(file, 0, "", "", "expected one mapping with route and receivers"),))
    document = documents[0]
    reader = _Reader(file, lambda path: yamltext.line_in_document(text, document, path))
    found = reader.whole(document.value)
    if reader.problems:
        raise InvalidInput(tuple(reader.problems))
    assert found is not None
    return found


def read_mapping(raw: dict[str, Any], file: str) -> Configuration:
    """What was read already. Raises: InvalidInput."""
    reader = _Reader(file, lambda path: 0)
    try:
        found = reader.whole(raw)
    except (TypeError, AttributeError, ValueError) as wrong:
        raise InvalidInput((FieldProblem(file, 0, "", "", f"cannot be read: {wrong}"),)) from wrong
    if reader.problems or found is None:
        raise InvalidInput(tuple(reader.problems))
    return found


class _Reader:
    def __init__(self, file: str, line_of: Any) -> None:
        self.file, self.line_of = file, line_of
        self.problems: list[FieldProblem] = []

    def fail(self, path: FieldPath, value: Any, said: str) -> None:
        shown = "" if value is None else value_text(value)
        self.problems.append(FieldProblem(self.file, self.line_of(path), path_text(path), shown, said))

    def whole(self, raw: dict[str, Any]) -> Configuration | None:
        intervals: dict[str, tuple[Interval, ...]] = {}
        for field in ("time_intervals", "mute_time_intervals"):
            for place, one in enumerate(self.listed(raw, field, ())):
                name = str(one.get("name") or "")
                path = (field, place, "time_intervals")
                intervals[name] = tuple(
                    self.interval(i, (*path, n)) for n, i in enumerate(one.get("time_intervals") or ())
                )
        receivers: dict[str, tuple[Integration, ...]] = {}
        for place, one in enumerate(self.listed(raw, "receivers", ())):
            name = str(one.get("name") or "")
            if not name:
                self.fail(("receivers", place), None, "missing name in receiver")
            elif name in receivers:
                self.fail(
                    ("receivers", place, "name"), name, f'notification config name "{name}" is not unique'
                )
            receivers[name] = _integrations(one)
        if not isinstance(raw.get("route"), dict):
            self.fail(("route",), raw.get("route"), "no routes provided")
            return None
        inhibitions = tuple(
            Inhibition(
                self.matchers(one, "source_", ("inhibit_rules", place)),
                self.matchers(one, "target_", ("inhibit_rules", place)),
                tuple(map(str, one.get("equal") or ())),
            )
            for place, one in enumerate(self.listed(raw, "inhibit_rules", ()))
        )
        top = Route("", (), False, (), _WAIT_MS, _INTERVAL_MS, _REPEAT_MS, (), (), (), "")
        route = self.route(raw["route"], ("route",), top, receivers, intervals)
        if route.matchers:
            self.fail(("route",), None, "root route must not have any matchers")
        if not route.receiver:
            self.fail(("route",), None, "root route must specify a default receiver")
        return Configuration(route, receivers, inhibitions, intervals)

    def listed(self, raw: dict[str, Any], field: str, path: FieldPath) -> Sequence[dict[str, Any]]:
        value = raw.get(field)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
            self.fail((*path, field), None, "expected a list of mappings")
            return ()
        return value

    def interval(self, value: Any, path: FieldPath) -> Interval:
        try:
            return read_interval(value)
        except ValueError as wrong:
            self.fail(path, None, str(wrong))
            return read_interval({})

    def route(
        self,
        raw: dict[str, Any],
        path: FieldPath,
        parent: Route,
        receivers: Mapping[str, Any],
        intervals: Mapping[str, Any],
    ) -> Route:
        if len(path) > 60:
            self.fail(path, None, "nested too deep")
            return parent
        receiver = str(raw.get("receiver") or parent.receiver)
        if receiver and receiver not in receivers:
            self.fail((*path, "receiver"), receiver, f'undefined receiver "{receiver}" used in route')
        group_by: tuple[str, ...] | None = parent.group_by
        if raw.get("group_by") is not None:
            names = tuple(map(str, raw["group_by"] or ()))
            group_by = None if "..." in names else names
        times = []
        for field, default in (
            ("group_wait", parent.wait_ms),
            ("group_interval", parent.interval_ms),
            ("repeat_interval", parent.repeat_ms),
        ):
            times.append(self.duration(raw, field, default, path))
            if field != "group_wait" and times[-1] <= 0:
                self.fail((*path, field), raw.get(field), f"{field} cannot be zero")
        named = []
        for field in ("mute_time_intervals", "active_time_intervals"):
            names = tuple(map(str, raw.get(field) or ()))
            for name in names:
                if name not in intervals:
                    self.fail((*path, field), name, f'undefined time interval "{name}" used in route')
            named.append(names)
        matchers = self.matchers(raw, "", path)
        key = f"{parent.key}/{_matchers_text(matchers)}" if parent.key else _matchers_text(matchers)
        one = Route(
            receiver,
            matchers,
            bool(raw.get("continue")),
            group_by,
            times[0],
            times[1],
            times[2],
            named[0],
            named[1],
            (),
            key,
        )
        children = tuple(
            self.route(child, (*path, "routes", place), one, receivers, intervals)
            for place, child in enumerate(self.listed(raw, "routes", path))
        )
        return replace(one, routes=children)

    def duration(self, raw: dict[str, Any], field: str, default: int, path: FieldPath) -> int:
        if raw.get(field) is None:
            return default
        try:
            return duration_ms(str(raw[field]))
        except PromQLError as wrong:
            self.fail((*path, field), raw[field], str(wrong))
            return default

    def matchers(self, raw: dict[str, Any], prefix: str, path: FieldPath) -> tuple[Matcher, ...]:
        found = []
        for suffix, op in (("match", "="), ("match_re", "=~")):
            pairs = raw.get(prefix + suffix)
            if isinstance(pairs, dict):
                found += [Matcher(str(name), op, str(value)) for name, value in pairs.items()]
        for place, text in enumerate(raw.get(prefix + "matchers") or ()):
            try:
                found += parse_matchers(str(text))
            except ValueError as wrong:
                self.fail((*path, prefix + "matchers", place), text, str(wrong))
        for matcher in found:
            try:
                anchored(matcher.value if "~" in matcher.op else "")
            except RegexpError as wrong:
                self.fail((*path, prefix + "matchers"), matcher.value, str(wrong))
        return tuple(sorted(found))


def _integrations(receiver: dict[str, Any]) -> tuple[Integration, ...]:
    found = []
    for field, listed in receiver.items():
        if field.endswith("_configs") and isinstance(listed, list):
            kind = field.removesuffix("_configs")
            for settings in listed:
                settings = settings if isinstance(settings, dict) else {}
                sends = settings.get("send_resolved", _SENDS_RESOLVED.get(kind, True))
                found.append(Integration(kind, bool(sends), settings))
    return tuple(found)


def parse_matchers(text: str) -> list[Matcher]:
    """`severity=~"a|b"`, or several with commas, in braces or not. Raises: ValueError."""
    if _MATCHERS.fullmatch(text.strip()) is None:
        raise ValueError(f"bad matcher format: {text}")
    found = []
    for name, op, value in _MATCHER.findall(text.strip().removeprefix("{").removesuffix("}")):
        found.append(Matcher(_unquoted(name), op, _unquoted(value)))
    return found


def _unquoted(text: str) -> str:
    return str(yaml.safe_load(text)) if text.startswith('"') else text.strip()


def _matchers_text(matchers: Sequence[Matcher]) -> str:
    return "{" + ",".join(f'{m.name}{m.op}"{m.value}"' for m in matchers) + "}"
