"""Which rules do these files have? PrometheusRule objects, and Prometheus' own rule files.

What Prometheus would refuse is refused in its words, located in the file; one bad rule never hides the others.

Source: model/rulefmt/rulefmt.go (Prometheus 3.14); monitoring.coreos.com/v1 (prometheus-operator).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fairway.errors import FieldProblem, InvalidInput, WorldError
from fairway.kube import yamltext
from fairway.kube.fieldpath import Path as FieldPath
from fairway.kube.fieldpath import path_text, value_text
from fairway.kube.objects import Obj, meta_of
from fairway.telemetry.promql import PromQLError, parse
from fairway.telemetry.promql.nodes import Node
from fairway.telemetry.promql.parsing import duration_ms, refusal
from fairway.telemetry.rules.expanding import check

KIND: Final = "PrometheusRule.monitoring.coreos.com"
# Prometheus' global evaluation_interval.
DEFAULT_INTERVAL_MS: Final = 60_000
MAX_BYTES: Final = 16 * 1024**2
_METRIC: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
Lines = Callable[[FieldPath], int]
# Fields of Prometheus' own files, by its types; PrometheusRules have a few more.
_FIELDS: Final = {
    "RuleGroups": {"groups"},
    "RuleGroup": {"name", "interval", "query_offset", "limit", "rules", "labels"},
    "Rule": {"record", "alert", "expr", "for", "keep_firing_for", "labels", "annotations"},
}
_OF_OBJECTS: Final = {"partial_response_strategy", "keepFiringFor"}


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. `record` or `alert` is its name; `where`: file and line."""

    record: str
    alert: str
    query: str
    node: Node
    for_ms: int
    keep_firing_ms: int
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    where: str

    @property
    def name(self) -> str:
        return self.alert or self.record


@dataclass(frozen=True, slots=True)
class Group:
    """Rules that are evaluated one after another at the same times. `source`: file, or namespace and name."""

    name: str
    source: str
    interval_ms: int
    offset_ms: int
    limit: int
    rules: tuple[Rule, ...]
    since_ms: int = 0
    """From when on it is evaluated."""

    @property
    def identity(self) -> tuple[str, str]:
        return self.source, self.name


def read_rules(path: Path) -> list[Group]:
    """Groups of one file, or of all YAML files in a folder. Raises: InvalidInput, WorldError."""
    files = sorted(f for s in ("*.yaml", "*.yml") for f in path.rglob(s)) if path.is_dir() else [path]
    groups: list[Group] = []
    problems: list[FieldProblem] = []
    for file in files:
        found, wrong = read_text(_text_of(file), str(file), must_have=not path.is_dir())
        groups += found
        problems += wrong
    if problems:
        raise InvalidInput(tuple(problems[:100]))
    if not groups:
        problem = FieldProblem(
            str(path), 0, "", "", "no rules: expected a PrometheusRule or a file with `groups`"
        )
        raise InvalidInput((problem,))
    return groups


def refused_without(groups: list[Group], features: frozenset[str]) -> list[FieldProblem]:
    """What a Prometheus that has only these features enabled has against rules that can be read."""
    problems = []
    for group in groups:
        for place, rule in enumerate(group.rules):
            if said := refusal(rule.query, features):
                file, _, line = rule.where.rpartition(":")
                subject = f'group "{group.name}", rule {place + 1}, "{rule.name}"'
                problem = f"could not parse expression: {said}"
                problems.append(
                    FieldProblem(file, int(line), "expr", value_text(rule.query), problem, subject)
                )
    return problems


def duplicates(groups: list[Group]) -> list[Rule]:
    """Rules of one file that write what another one writes: the later of each."""
    seen: set[tuple[str, str, tuple[tuple[str, str], ...]]] = set()
    found = []
    for group in groups:
        for rule in group.rules:
            key = rule.where.rpartition(":")[0], rule.name, tuple(sorted(rule.labels.items()))
            if key in seen:
                found.append(rule)
            seen.add(key)
    return found


def _text_of(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise WorldError(f"{file}: cannot be read: {error.strerror}") from error
    if len(data) > MAX_BYTES:
        raise InvalidInput(
            (FieldProblem(str(file), 0, "", "", f"larger than {MAX_BYTES >> 20} MiB of rules"),)
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidInput((FieldProblem(str(file), 0, "", "", "expected UTF-8 text"),)) from None


def read_text(text: str, file: str, must_have: bool = True) -> tuple[list[Group], list[FieldProblem]]:
    """`must_have`: a document without rules is a problem."""
    documents, broken = yamltext.read_documents(text)
    problems = [FieldProblem(file, p.line, path_text(p.path), p.value, p.expected) for p in broken]
    groups: list[Group] = []
    for document in documents:

        def line_of(path: FieldPath, document: yamltext.Document = document) -> int:
            return yamltext.line_in_document(text, document, path)

        found = list(_rule_parts(document.value, ()))
        if not found and must_have:
            problems.append(FieldProblem(file, line_of(()), "", "", "expected a PrometheusRule, or `groups`"))
        for spec, path, source in found:
            groups += _read_groups(spec, path, source or file, file, line_of, problems)
    return groups, problems


def rules_of(obj: Obj) -> tuple[list[Group], list[FieldProblem]]:
    """The groups of a PrometheusRule that is stored."""
    problems: list[FieldProblem] = []
    source = f"{meta_of(obj).get('namespace') or ''}/{meta_of(obj).get('name') or ''}"
    spec = obj.get("spec") if isinstance(obj.get("spec"), dict) else {}
    return _read_groups(
        spec, ("spec",), source, f"PrometheusRule {source}", lambda path: 0, problems
    ), problems


def _rule_parts(value: Any, path: FieldPath) -> Iterator[tuple[Any, FieldPath, str]]:
    """What holds `groups`, where it stands, and whose it is."""
    if not isinstance(value, dict):
        return
    if value.get("kind") == "PrometheusRule":
        meta = value.get("metadata")
        meta = meta if isinstance(meta, dict) else {}
        source = "/".join(str(meta[key]) for key in ("namespace", "name") if meta.get(key))
        yield value.get("spec"), (*path, "spec"), source
    elif isinstance(value.get("items"), list) and len(path) < 20:
        for index, item in enumerate(value["items"]):
            yield from _rule_parts(item, (*path, "items", index))
    elif "groups" in value and "kind" not in value:
        yield value, path, ""


class _Reader:
    """Fields of one mapping, with their problems."""

    def __init__(
        self, value: Any, path: FieldPath, file: str, line_of: Lines, problems: list[FieldProblem]
    ) -> None:
        self.path, self.file, self.line_of, self.problems = path, file, line_of, problems
        self.value: dict[str, Any] = value if isinstance(value, dict) else {}
        if not isinstance(value, dict):
            self.fail((), value, "expected a mapping")

    def fail(self, path: FieldPath, value: Any, said: str, subject: str = "") -> None:
        at = (*self.path, *path)
        shown = "" if value is None else value_text(value)
        self.problems.append(FieldProblem(self.file, self.line_of(at), path_text(at), shown, said, subject))

    def only(self, kind: str) -> None:
        """Fields that a type of Prometheus' lacks, in its words or, of a PrometheusRule, in the API server's."""
        is_object = "spec" in self.path[:1] or "items" in self.path[:1]
        for name in self.value:
            if name in _FIELDS[kind] or (is_object and (name in _OF_OBJECTS or kind == "RuleGroups")):
                continue
            said = f'unknown field "{path_text((*self.path, str(name)))}"'
            said = said if is_object else f"field {name} not found in type rulefmt.{kind}"
            self.fail((str(name),), None, said)

    def text(self, name: str) -> str:
        value = self.value.get(name)
        if value is None or isinstance(value, str):
            return value or ""
        if isinstance(value, int | float) and not isinstance(value, bool):
            return str(value)
        self.fail((name,), value, "expected text")
        return ""

    def duration(self, name: str, default: int = 0) -> int:
        text = self.text(name)
        if not text:
            return default
        try:
            return duration_ms(text)
        except PromQLError as wrong:
            self.fail((name,), text, str(wrong))
            return default

    def texts(self, name: str) -> dict[str, str]:
        value = self.value.get(name)
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.fail((name,), value, "expected a mapping of texts")
            return {}
        found = {}
        for key, one in value.items():
            if isinstance(one, str | int | float) and not isinstance(one, bool):
                found[str(key)] = str(one)
            else:
                self.fail((name, str(key)), one, "expected text")
        return found


def _read_groups(
    spec: Any, path: FieldPath, source: str, file: str, line_of: Lines, problems: list[FieldProblem]
) -> list[Group]:
    reader = _Reader(spec, path, file, line_of, problems)
    reader.only("RuleGroups")
    listed = reader.value.get("groups")
    if listed is not None and not isinstance(listed, list):
        reader.fail(("groups",), listed, "expected a list of groups")
        listed = None
    groups: list[Group] = []
    for place, raw in enumerate(listed or ()):
        one = _Reader(raw, (*path, "groups", place), file, line_of, problems)
        one.only("RuleGroup")
        name = one.text("name")
        if not name:
            one.fail(("name",), None, "Groupname must not be empty")
        if any(name == group.name for group in groups):
            one.fail(("name",), name, f'groupname: "{name}" is repeated in the same file')
        rules = one.value.get("rules")
        if rules is not None and not isinstance(rules, list):
            one.fail(("rules",), rules, "expected a list of rules")
            rules = None
        limit = one.value.get("limit") or 0
        if not isinstance(limit, int) or limit < 0:
            one.fail(("limit",), limit, "expected a number that is not negative")
            limit = 0
        shared = one.texts("labels")
        read = [
            _read_rule(_Reader(rule, (*one.path, "rules", at), file, line_of, problems), name, at, shared)
            for at, rule in enumerate(rules or ())
        ]
        interval = one.duration("interval", DEFAULT_INTERVAL_MS) or DEFAULT_INTERVAL_MS
        kept = tuple(rule for rule in read if rule is not None)
        groups.append(Group(name, source, interval, one.duration("query_offset"), limit, kept))
    return groups


def _read_rule(reader: _Reader, group: str, place: int, shared: Mapping[str, str]) -> Rule | None:
    before = len(reader.problems)
    reader.only("Rule")
    record, alert, query = reader.text("record"), reader.text("alert"), reader.text("expr")
    subject = f'group "{group}", rule {place + 1}, "{alert or record}"'

    def refuse(field: str, value: Any, said: str, key: str = "") -> None:
        reader.fail(tuple(filter(None, (field, key))), value, said, subject)

    if record and alert:
        refuse("record", None, "only one of 'record' and 'alert' must be set")
    if not record and not alert:
        refuse("", None, "one of 'record' or 'alert' must be set")
    node: Node | None = None
    if not query:
        refuse("expr", None, "field 'expr' must be set in rule")
    else:
        try:
            node = parse(query)
        except PromQLError as wrong:
            refuse("expr", query, f"could not parse expression: {wrong}")
    labels, annotations = {**shared, **reader.texts("labels")}, reader.texts("annotations")
    for_ms, keep_ms = (
        reader.duration("for"),
        reader.duration("keep_firing_for") or reader.duration("keepFiringFor"),
    )
    if record:
        for field, is_set in (("annotations", annotations), ("for", for_ms), ("keep_firing_for", keep_ms)):
            if is_set:
                refuse(field, None, f"invalid field '{field}' in recording rule")
        if not _METRIC.fullmatch(record):
            refuse("record", record, f"invalid recording rule name: {record}")
    for name in labels:
        if not _LABEL.fullmatch(name) or name == "__name__":
            refuse("labels", None, f"invalid label name: {name}", name)
    for name in annotations:
        if not _LABEL.fullmatch(name):
            refuse("annotations", None, f"invalid annotation name: {name}", name)
    for field, texts in (("label", labels), ("annotation", annotations)) if alert else ():
        for name, text in texts.items():
            if said := check(text, alert):
                refuse(f"{field}s", text, f'{field} "{name}": {said}', name)
    if len(reader.problems) > before or node is None:
        return None
    where = f"{reader.file}:{reader.line_of((*reader.path, 'expr'))}"
    return Rule(record, alert, query, node, for_ms, keep_ms, labels, annotations, where)
