"""`x-kubernetes-validations`: CEL rules inside the schema of a CustomResourceDefinition.

    judged(version, obj, old)       # all that is wrong with an object of a definition's version: values, then rules
    problems(schema, obj, old)      # the rules it breaks
    definition_problems(crd)        # rules that do not compile: field errors of the CustomResourceDefinition

Rules see `self` (their part of the object) and, where the object is updated and its part can be found again,
`oldSelf`; a rule that names `oldSelf` is skipped otherwise. A rule is not held against a part that did not change.

Unlike kube: dates inside `self` are strings; only a `self` that is itself a date is a timestamp.

Source: apiextensions-apiserver pkg/apiserver/schema/cel/validation.go, compilation.go (v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache
from typing import Any

from fairway.admission.cel.compiling import BOOL, STRING, Error, Program, Variables, compiled
from fairway.admission.cel.evaluating import BUDGET, Evaluation
from fairway.admission.nativerules import HOLDS
from fairway.admission.rbac.attributes import quoted
from fairway.kube import problem
from fairway.kube.fieldpath import MapKey, Path
from fairway.kube.memos import memo
from fairway.kube.objects import dig
from fairway.kube.problem import OMITTED, Problem
from fairway.kube.schema.structural import tree_of
from fairway.kube.schema.values import validate_custom

Schema = dict[str, Any]

_ABSENT: Any = object()
_MAX_DEPTH = 64

_KEYWORDS = frozenset(
    (
        *("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if"),
        *("import", "let", "loop", "package", "namespace", "return", "var", "void", "while"),
    )
)
_SCALARS = {"integer": "int", "string": "string", "boolean": "bool", "number": "double"}


# Faults after which rules would stumble. Source: customresource/strategy.go hasBlockingErr.
_BLOCKING = frozenset(
    (problem.UNSUPPORTED, problem.REQUIRED, problem.TOO_LONG, problem.TOO_MANY, problem.TYPE_INVALID)
)
# How kube prints the path of a fault that belongs to no single field.
_NO_PATH: Path = ("<nil>",)
_NOT_CHECKED = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)
# A cause's reason → what the line says.
_SAID = {
    "FieldValueForbidden": problem.FORBIDDEN,
    "FieldValueRequired": problem.REQUIRED,
    "FieldValueDuplicate": problem.DUPLICATE,
}


def judged(version: Schema, obj: Any, old: Any = None) -> list[Problem]:
    """Everything wrong with a custom object but its metadata. `version`: an entry of a definition's `spec.versions`.

    Rules are asked where the rest lets them be. `old`: what an update replaces.
    """
    tree = tree_of(version)
    if tree is None:
        return []
    found = validate_custom(obj, tree, old)
    schema: Schema = version["schema"]["openAPIV3Schema"]
    if not has_rules(schema):
        return found
    if any(p.reason in _BLOCKING for p in found):
        return [*found, Problem(_NO_PATH, None, problem.INVALID, _NOT_CHECKED)]
    return [*found, *problems(schema, obj, old)]


def problems(schema: Schema, obj: Any, old: Any = None, path: Path = ()) -> list[Problem]:
    """Every rule of the schema that the object violates. Free for schemas without rules."""
    if not has_rules(schema):
        return []
    walk = _Walk(BUDGET)
    before = _ABSENT if old is None else old
    try:
        return list(walk.visit(schema, obj, before, path, is_root=not path))
    except _OutOfBudgetError as spent:
        return [Problem(path or _NO_PATH, "object", problem.INVALID, str(spent))]


# Schema → whether there is a rule in it. The schema is kept with the answer, so that its identity stays its own.
_RULED: dict[int, tuple[Schema, bool]] = memo()
_MAX_RULED = 65_536


def has_rules(schema: Any, depth: int = 0) -> bool:
    """Whether there is a rule anywhere in a schema. Looked for once in each part."""
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return False
    known = _RULED.get(id(schema))
    if known is None:
        if len(_RULED) >= _MAX_RULED:
            _RULED.clear()
        known = _RULED[id(schema)] = (schema, _finds_rules(schema, depth + 1))
    return known[1]


def _finds_rules(schema: Schema, depth: int) -> bool:
    if schema.get("x-kubernetes-validations"):
        return True
    parts = [
        schema.get("items"),
        schema.get("additionalProperties"),
        *(schema.get("properties") or {}).values(),
    ]
    return any(has_rules(part, depth) for part in parts)


class _OutOfBudgetError(Exception):
    """The rules cost too much; nothing further is run."""


class _Walk:
    """One pass over an object; all its rules share one budget."""

    def __init__(self, budget: int) -> None:
        self._left = budget

    def visit(
        self, schema: Schema, value: Any, old: Any, path: Path, *, is_root: bool = False
    ) -> Iterator[Problem]:
        if value is None or not has_rules(schema):
            return
        for rule in schema.get("x-kubernetes-validations") or ():
            found = self._judge(schema, rule, is_root, value, old, path)
            if found is not None:
                yield found
        yield from self._children(schema, value, old, path)

    def _children(self, schema: Schema, value: Any, old: Any, path: Path) -> Iterator[Problem]:
        if isinstance(value, dict):
            properties = schema.get("properties") or {}
            extra = schema.get("additionalProperties")
            before = old if isinstance(old, dict) else {}
            for name in value:
                if name in properties:
                    yield from self.visit(
                        properties[name], value[name], before.get(name, _ABSENT), (*path, name)
                    )
                elif isinstance(extra, dict):
                    key = MapKey(name)
                    yield from self.visit(extra, value[name], before.get(name, _ABSENT), (*path, key))
        elif isinstance(value, list) and isinstance(schema.get("items"), dict):
            for index, item in enumerate(value):
                yield from self.visit(schema["items"], item, _correlated(schema, item, old), (*path, index))

    def _judge(
        self, schema: Schema, rule: Schema, is_root: bool, value: Any, old: Any, path: Path
    ) -> Problem | None:
        text = rule.get("rule") or ""
        is_transition = _names_old(text)
        if is_transition and old is _ABSENT and not rule.get("optionalOldSelf"):
            return None
        if not is_transition and old is not _ABSENT and old == value:
            return None
        native = HOLDS.get(text)
        if native is not None and native(value):
            return None
        if native is not None and rule.get("message"):
            return _broken(schema, rule, value, path, str(rule["message"]).strip())
        view = _View(schema, is_root)
        program = _program(text, bool(rule.get("optionalOldSelf")), view.type_name)
        where = _at(path, rule.get("fieldPath"))
        kind = schema.get("type") or "object"
        if isinstance(program, Error):
            return Problem(where, kind, problem.INVALID, f"rule compile error: {program.text}")
        names = {"self": view.seen(value), "oldSelf": None if old is _ABSENT else view.seen(old)}
        names["hasOldSelf"] = old is not _ABSENT
        evaluation = Evaluation(names, self._left)
        verdict = evaluation.evaluate(program)
        self._left = evaluation.left
        if verdict is True:
            return None
        if isinstance(verdict, Error):
            return self._errored(rule, verdict, where, kind)
        detail = _message(rule, names, view.type_name)
        return _broken(schema, rule, value, path, detail)

    def _errored(self, rule: Schema, error: Error, where: Path, kind: str) -> Problem:
        said = str(rule.get("message") or rule.get("rule") or "").strip()
        if error.kind == "budget":
            if error.text.startswith("validation failed"):
                raise _OutOfBudgetError(error.text)
            detail = (
                f"no further validation rules will be run due to call cost exceeds limit for rule: {said}"
            )
        elif error.text.startswith("no such overload"):
            detail = (
                f"'{error.text}': call arguments did not match a supported operator, function or macro "
                f"signature for rule: {said}"
            )
        else:
            detail = f"{error.text} evaluating rule: {said}"
        return Problem(where, kind, problem.INVALID, detail)


def _broken(schema: Schema, rule: Schema, value: Any, path: Path, detail: str) -> Problem:
    """A rule that does not hold. What an object or a list holds is not shown."""
    shown = OMITTED if (schema.get("type") or "object") in ("object", "array") else value
    reason = _SAID.get(rule.get("reason") or "", problem.INVALID)
    return Problem(_at(path, rule.get("fieldPath")), shown, reason, detail)


class _View:
    """How a part of the object looks to a rule: property names escaped, only what a root shows."""

    def __init__(self, schema: Schema, is_root: bool) -> None:
        self._schema = schema
        self._is_root = is_root
        is_either = bool(schema.get("x-kubernetes-int-or-string"))
        self.type_name = "dyn" if is_either else _SCALARS.get(schema.get("type") or "", "dyn")
        if self.type_name == "string" and schema.get("format") in ("date-time", "date"):
            self.type_name = "timestamp"

    def seen(self, value: Any) -> Any:
        if self.type_name == "timestamp":
            return _timestamp(value)
        if self.type_name == "double" and isinstance(value, int):
            return float(value)
        shown = _escaped(self._schema, value)
        if self._is_root and isinstance(shown, dict) and isinstance(shown.get("metadata"), dict):
            meta = {k: v for k, v in shown["metadata"].items() if k in ("name", "generateName")}
            shown = {**shown, "metadata": meta}
        return shown


def _timestamp(value: Any) -> Any:
    try:
        return datetime.fromisoformat(str(value).replace("Z", "+00:00"))
    except ValueError:
        return value


def _escaped(schema: Any, value: Any) -> Any:
    """Properties under the names expressions use; keys of maps stay as they are."""
    if not isinstance(schema, dict):
        return value
    if isinstance(value, dict):
        properties, extra = schema.get("properties") or {}, schema.get("additionalProperties")
        return {
            (escape(k) if k in properties else k): _escaped(properties.get(k, extra), v)
            for k, v in value.items()
        }
    if isinstance(value, list):
        return [_escaped(schema.get("items"), v) for v in value]
    return value


def escape(name: str) -> str:
    """`namespace` → `__namespace__`, `foo-bar` → `foo__dash__bar`. Source: apiserver pkg/cel/escaping.go."""
    if name in _KEYWORDS:
        return f"__{name}__"
    out = name.replace("__", "__underscores__")
    for char, word in ((".", "dot"), ("-", "dash"), ("/", "slash")):
        out = out.replace(char, f"__{word}__")
    return out


def _correlated(schema: Schema, item: Any, old: Any) -> Any:
    """The same item before: only lists with keys say which one that is."""
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    if (
        schema.get("x-kubernetes-list-type") != "map"
        or not isinstance(old, list)
        or not isinstance(item, dict)
    ):
        return _ABSENT
    for before in old:
        if isinstance(before, dict) and all(before.get(k) == item.get(k) for k in keys):
            return before
    return _ABSENT


_OLD = re.compile(r"\boldSelf\b")


@lru_cache(8192)
def _names_old(expression: str) -> bool:
    return _OLD.search(expression) is not None


@lru_cache(8192)
def _program(expression: str, is_optional: bool, type_name: str) -> Program | Error:
    names: Variables = (
        ("self", type_name),
        ("oldSelf", "dyn" if is_optional else type_name),
        ("hasOldSelf", "bool"),
    )
    if is_optional:
        # The interpreter takes no optionals from outside: one is made around the rule.
        value = "hasOldSelf ? optional.of(oldSelf) : optional.none()"
        expression = f"cel.bind(oldSelf, {value}, {expression})"
    return compiled(expression, names, (BOOL,))


def _message(rule: Schema, names: dict[str, Any], type_name: str) -> str:
    expression = rule.get("messageExpression")
    if expression:
        program = compiled(expression, _of_message(type_name), (STRING,))
        text = program if isinstance(program, Error) else Evaluation(names).evaluate(program)
        if isinstance(text, str) and text.strip() and "\n" not in text.strip():
            return text.strip()
    message = str(rule.get("message") or "").strip()
    return message or f"failed rule: {str(rule.get('rule') or '').strip()}"


_STEP = re.compile(r"\.([A-Za-z_]\w*)|\['((?:[^'\\]|\\.)*)'\]")


def _at(path: Path, field_path: str | None) -> Path:
    found = _STEP.finditer(field_path or "")
    at = (*path, *(f[1] if f[1] is not None else f[2].replace("\\'", "'") for f in found))
    return at or _NO_PATH


def definition_problems(crd: Any) -> list[Problem]:
    """Rules of a CustomResourceDefinition that nobody could ask. For schemas that are right otherwise."""
    versions = enumerate(crd["spec"].get("versions") or ())
    schemas = ((i, dig(version, "schema", "openAPIV3Schema")) for i, version in versions)
    return [
        found
        for i, schema in schemas
        if has_rules(schema)
        for found in rule_problems(schema, ("spec", "versions", i, "schema", "openAPIV3Schema"))
    ]


def rule_problems(schema: Schema, path: Path) -> list[Problem]:
    """Rules that do not compile; `path` is where the schema stands in the CustomResourceDefinition."""
    found = []
    for index, rule in enumerate(schema.get("x-kubernetes-validations") or ()):
        found += _rule_problems(schema, rule, (*path, "x-kubernetes-validations", index))
    for name, part in sorted((schema.get("properties") or {}).items()):
        found += rule_problems(part, (*path, "properties", MapKey(name)))
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            found += rule_problems(schema[name], (*path, name))
    return found


def _rule_problems(schema: Schema, rule: Schema, path: Path) -> list[Problem]:
    expression = str(rule.get("rule") or "").strip()
    if not expression:
        return [problem.required((*path, "rule"), "rule is not specified")]
    found: list[Problem] = []
    type_name = _View(schema, False).type_name
    program = _program(rule["rule"], bool(rule.get("optionalOldSelf")), type_name)
    if isinstance(program, Error):
        found.append(problem.invalid((*path, "rule"), _go_text(rule), program.text))
    if rule.get("messageExpression"):
        message = compiled(rule["messageExpression"], _of_message(type_name), (STRING,))
        if isinstance(message, Error):
            detail = f"messageExpression {message.text}"
            found.append(problem.invalid((*path, "messageExpression"), _go_text(rule), detail))
    return found


def _of_message(type_name: str) -> Variables:
    return (("self", type_name), ("oldSelf", type_name), ("hasOldSelf", "bool"))


def _go_text(rule: Schema) -> problem.GoText:
    """How Go prints a ValidationRule with %#v."""
    fields = (
        f"Rule:{quoted(rule.get('rule') or '')}",
        f"Message:{quoted(rule.get('message') or '')}",
        f"MessageExpression:{quoted(rule.get('messageExpression') or '')}",
        "Reason:(*apiextensions.FieldValueErrorReason)(nil)",
        f"FieldPath:{quoted(rule.get('fieldPath') or '')}",
        "OptionalOldSelf:(*bool)(nil)",
    )
    return problem.GoText(f"apiextensions.ValidationRule{{{', '.join(fields)}}}")
