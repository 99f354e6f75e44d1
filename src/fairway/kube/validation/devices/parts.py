"""Names, selectors, tolerations, taints, configuration: what several kinds have in common."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from fairway.kube import names
from fairway.kube.cel.devices import MAX_COST, MAX_LENGTH, selector
from fairway.kube.fieldpath import MapKey, Path
from fairway.kube.objects import Obj
from fairway.kube.problem import (
    Problem,
    duplicate,
    forbidden,
    invalid,
    invalids,
    required,
    too_long,
    too_many,
    unsupported,
)

MAX_REQUESTS: Final = 32
MAX_SELECTORS: Final = 32
MAX_CONFIGS: Final = 32
_MAX_PARAMETERS: Final = 10 * 1024
_MAX_DRIVER: Final = 63
_MAX_POOL: Final = 253
_MAX_ID: Final = 32
_MIN_SHOWN: Final = 16
_MAX_KEY: Final = 63 + 1 + _MAX_ID

_IDENTIFIER: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_IDENTIFIER_TEXT: Final = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters "
    "or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')"
)
_NO_REQUEST: Final = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)
TAINT_EFFECTS: Final = ("NoExecute", "NoSchedule", "None")
_OPERATORS: Final = ("Equal", "Exists")

Check = Callable[[Any, Path], list[Problem]]


def items(values: Sequence[Any] | None, most: int, check: Check, at: Path) -> list[Problem]:
    """Each of a list, or that there are too many of them."""
    values = values or ()
    if 0 <= most < len(values):
        return [too_many(at, len(values), most)]
    return [problem for index, value in enumerate(values) for problem in check(value, (*at, index))]


def unique(
    values: Sequence[Any] | None, most: int, check: Check, key: Callable[[Any], Any], at: Path
) -> list[Problem]:
    """Each of a list, and that no two have the same key."""
    found = items(values, most, check, at)
    if 0 <= most < len(values or ()):
        return found
    seen = set()
    for index, value in enumerate(values or ()):
        own = key(value)
        if own in seen:
            found.append(duplicate((*at, index), own))
        seen.add(own)
    return found


def members(
    values: Mapping[str, Any] | None,
    most: int,
    check_key: Check,
    check: Check,
    at: Path,
    shown: int = _MAX_KEY,
) -> list[Problem]:
    """Each of a map. Upstream looks at them in any order; here by key."""
    values = values or {}
    if 0 <= most < len(values):
        return [too_many(at, len(values), most)]
    found = []
    for key in sorted(values):
        found += check_key(key, at)
        found += check(values[key] or {}, (*at, MapKey(_shortened(key, shown))))
    return found


def _shortened(text: str, most: int) -> str:
    most = max(most, _MIN_SHOWN)
    if len(text) <= most:
        return text
    rest = most - 3
    return f"{text[: (rest + 1) // 2]}...{text[len(text) - rest // 2 :]}"


# Names


def label(value: str | None, at: Path) -> list[Problem]:
    return invalids(at, value or "", names.dns_label(value or ""))


def driver(value: str | None, at: Path) -> list[Problem]:
    if not value:
        return [required(at)]
    long = [too_long(at, _MAX_DRIVER)] if len(value) > _MAX_DRIVER else []
    return [*long, *invalids(at, value, names.dns_subdomain(value.lower()))]


def pool(value: str | None, at: Path) -> list[Problem]:
    if not value:
        return [required(at)]
    long = [too_long(at, _MAX_POOL)] if len(value) > _MAX_POOL else []
    return [*long, *(p for part in value.split("/") for p in invalids(at, part, names.dns_subdomain(part)))]


def qualified(value: str, at: Path) -> list[Problem]:
    """`name` or `domain/name`. More than one slash passes, upstream too."""
    parts = value.split("/")
    if len(parts) == 1:
        return _identifier(value, at)
    if len(parts) > 2:
        return []
    domain, name = parts
    found = driver(domain, at) if domain else [invalid(at, "", "the domain must not be empty")]
    return [*found, *(_identifier(name, at) if name else [invalid(at, "", "the name must not be empty")])]


def fully_qualified(value: str, at: Path) -> list[Problem]:
    found = qualified(value, at)
    if "/" not in value:
        detail = "a fully qualified name must be a domain and a name separated by a slash"
        found.append(invalid(at, value, detail))
    return found


def _identifier(value: str, at: Path) -> list[Problem]:
    found = [too_long(at, _MAX_ID)] if len(value) > _MAX_ID else []
    return found if _IDENTIFIER.fullmatch(value) else [*found, invalid(at, value, _IDENTIFIER_TEXT)]


def label_name(value: str | None, at: Path) -> list[Problem]:
    return invalids(at, value or "", names.label_key(value or ""))


def label_value(value: str, at: Path) -> list[Problem]:
    return invalids(at, value, names.label_value(value))


_HEX: Final = re.compile("[0-9a-fA-F]*")


def uid(value: str, at: Path) -> list[Problem]:
    """A UUID in its normal form. Source: github.com/google/uuid Validate."""
    wrong = _uuid_error(value)
    if wrong:
        return [invalid(at, value, f"error validating uid: {wrong}")]
    if len(value) != 36 or value != value.lower():
        detail = (
            "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase "
            "hexadecimal characters"
        )
        return [invalid(at, value, detail)]
    return []


def _uuid_error(value: str) -> str:
    size = len(value.encode())
    if size == 45:
        if value[:9].lower() != "urn:uuid:":
            return f"invalid urn prefix: {json.dumps(value[:9])}"
        value = value[9:]
    elif size == 38:
        if value[0] != "{" or value[-1] != "}":
            return "invalid bracketed UUID format"
        value = value[1:-1]
    elif size == 32:
        return "" if _HEX.fullmatch(value) else "invalid UUID format"
    elif size != 36:
        return f"invalid UUID length: {size}"
    parts = value.split("-")
    is_well = [len(p) for p in parts] == [8, 4, 4, 4, 12] and all(map(_HEX.fullmatch, parts))
    return "" if is_well else "invalid UUID format"


# Selectors, taints and tolerations


def selectors(values: Sequence[Obj] | None, at: Path) -> list[Problem]:
    return items(values, MAX_SELECTORS, _selector, at)


def _selector(value: Obj, at: Path) -> list[Problem]:
    if value.get("cel") is None:
        return [required((*at, "cel"))]
    expression, where = value["cel"].get("expression") or "", (*at, "cel", "expression")
    if len(expression.encode()) > MAX_LENGTH:
        return [too_long(where, MAX_LENGTH)]
    program = selector(expression)
    if program.error:
        return [invalid(where, expression, program.error)]
    if program.cost > MAX_COST:
        return [forbidden(where, "too complex, exceeds cost limit")]
    return []


def taint(value: Obj, at: Path, old_effect: str | None = None) -> list[Problem]:
    found = label_name(value.get("key"), (*at, "key"))
    if value.get("value"):
        found += label_value(value["value"], (*at, "value"))
    effect = value.get("effect") or ""
    if effect == old_effect:
        return found
    if not effect:
        found.append(required((*at, "effect")))
    elif effect not in TAINT_EFFECTS:
        found.append(unsupported((*at, "effect"), effect, TAINT_EFFECTS))
    return found


def toleration(value: Obj, at: Path) -> list[Problem]:
    found = label_name(value["key"], (*at, "key")) if value.get("key") else []
    operator, text, effect = value.get("operator") or "", value.get("value") or "", value.get("effect") or ""
    if operator == "Exists":
        if text:
            found.append(invalid((*at, "value"), text, "must be empty for operator `Exists`"))
    elif operator == "Equal":
        found += label_value(text, (*at, "value"))
    elif not operator:
        found.append(required((*at, "operator")))
    else:
        found.append(unsupported((*at, "operator"), operator, _OPERATORS))
    if effect and effect not in TAINT_EFFECTS:
        found.append(unsupported((*at, "effect"), effect, TAINT_EFFECTS))
    return found


# References to requests, configuration, binding conditions


class Requests:
    """The names of a claim's requests, and of their alternatives."""

    def __init__(self, devices: Obj) -> None:
        self._names = {
            r.get("name") or "": {s.get("name") or "" for s in r.get("firstAvailable") or ()}
            for r in devices.get("requests") or ()
        }

    def reference(self, value: str, at: Path) -> list[Problem]:
        parts = value.split("/")
        if len(parts) > 2:
            return [invalid(at, value, _NO_REQUEST)]
        found = [p for part in parts for p in label(part, at)]
        alternatives = self._names.get(parts[0])
        if alternatives is None or (len(parts) == 2 and parts[1] not in alternatives):
            found.append(invalid(at, value, _NO_REQUEST))
        return found

    def references(self, values: Sequence[str] | None, at: Path) -> list[Problem]:
        return unique(values, MAX_REQUESTS, self.reference, str, at)


def configuration(value: Obj, at: Path) -> list[Problem]:
    opaque, where = value.get("opaque"), (*at, "opaque")
    if opaque is None:
        return [required(where)]
    found = driver(opaque.get("driver"), (*where, "driver"))
    return [*found, *raw(opaque.get("parameters"), (*where, "parameters"), _MAX_PARAMETERS)]


def raw(value: Any, at: Path, most: int) -> list[Problem]:
    """A JSON object of a driver's own."""
    if value is None:
        return [required(at)]
    if len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()) > most:
        return [too_long(at, most)]
    return [] if isinstance(value, dict) else [invalid(at, "<value omitted>", "must be a valid JSON object")]


_MAX_CONDITIONS: Final = 4


def binding_conditions(value: Obj, at: Path) -> list[Problem]:
    wanted, failing = value.get("bindingConditions") or (), value.get("bindingFailureConditions") or ()
    at_wanted, at_failing = (*at, "bindingConditions"), (*at, "bindingFailureConditions")
    found = items(wanted, _MAX_CONDITIONS, label_name, at_wanted)
    found += items(failing, _MAX_CONDITIONS, label_name, at_failing)
    found += [duplicate((*at_wanted, i), c) for i, c in enumerate(wanted) if c in wanted[:i]]
    for index, condition in enumerate(failing):
        if condition in failing[:index]:
            found.append(duplicate((*at_failing, index), condition))
        if condition in wanted:
            detail = "bindingFailureConditions must not overlap with bindingConditions"
            found.append(invalid((*at_failing, index), condition, detail))
    if not wanted and failing:
        detail = "bindingConditions are required to use bindingFailureConditions"
        found.append(invalid(at_wanted, None, detail))
    if not failing and wanted:
        detail = "bindingFailureConditions are required to use bindingConditions"
        found.append(invalid(at_failing, None, detail))
    return found
