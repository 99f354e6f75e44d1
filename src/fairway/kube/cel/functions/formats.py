"""Named formats: `format.dns1123Label().validate('x')` gives an optional list of complaints.

`validate` itself gives a list, empty where the value is good; `compiling` wraps the call in
`optional.ofNonZeroValue`, as the interpreter takes no optionals from Python.

Source: apiserver pkg/cel/library/format.go, pkg/cel/format.go (v1.36).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any
from uuid import UUID

from fairway.kube import names
from fairway.kube.cel.functions.addresses import is_url
from fairway.kube.cel.functions.overloads import (
    MAP,
    STRING,
    STRINGS,
    Overload,
    member,
    plain,
    tagged,
)

FORMAT = "kubernetes.NamedFormat"

_Check = Callable[[str], Iterable[str]]


def _said(good: bool, otherwise: str) -> list[str]:
    return [] if good else [otherwise]


def _is_uuid(text: str) -> bool:
    try:
        return bool(UUID(text)) and len(text) == 36
    except ValueError:
        return False


def _is_bytes(text: str) -> bool:
    try:
        return base64.b64encode(base64.b64decode(text, validate=True)).decode() == text
    except (binascii.Error, ValueError):
        return False


def _is_time(text: str, pattern: str) -> bool:
    if not re.fullmatch(pattern, text):
        return False
    try:
        datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return False
    return True


_DATE = r"\d{4}-\d{2}-\d{2}"
_DATETIME = rf"{_DATE}T\d{{2}}:\d{{2}}:\d{{2}}(\.\d+)?(Z|[+-]\d{{2}}:\d{{2}})"

_CHECKS: dict[str, _Check] = {
    "dns1123Label": names.dns_label,
    "dns1123Subdomain": names.dns_subdomain,
    "dns1035Label": names.dns1035_label,
    "qualifiedName": names.label_key,
    "dns1123LabelPrefix": lambda v: names.dns_label(v.rstrip("-") + "a"),
    "dns1123SubdomainPrefix": lambda v: names.dns_subdomain(v.rstrip("-.") + "a"),
    "dns1035LabelPrefix": lambda v: names.dns1035_label(v.rstrip("-") + "a"),
    "labelValue": names.label_value,
    "uri": lambda v: _said(is_url(v), f'parse "{v}": invalid URI for request'),
    "uuid": lambda v: _said(_is_uuid(v), "does not match the UUID format"),
    "byte": lambda v: _said(_is_bytes(v), "invalid base64"),
    "date": lambda v: _said(_is_time(v, _DATE), "invalid date"),
    "datetime": lambda v: _said(_is_time(v, _DATETIME), "invalid datetime"),
}


def _validated(fmt: Any, text: str) -> list[str]:
    return list(_CHECKS[tagged(fmt, FORMAT)](text))


def _constructor(name: str) -> Overload:
    return plain(f"format.{name}", (), MAP, lambda: {FORMAT: name})


OVERLOADS = (
    *(_constructor(name) for name in _CHECKS),
    member("validate", (MAP, STRING), STRINGS, _validated),
)
