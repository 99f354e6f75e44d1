"""When is it as we wait for? The conditions `fairway clock run-until` takes, as kubectl wait spells them.

condition=Complete            a condition of the object is True
condition=Ready=False         … or this
jsonpath={.status.phase}=Running
delete                        the object is gone
create                        the object is there
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from fairway.cluster.actions import View
from fairway.errors import UserError
from fairway.kube.kinds import find_kind
from fairway.kube.objects import Key, dig


def condition_of(view: View, said: dict[str, Any]) -> Callable[[], bool]:
    """From `{"target": "job/train", "namespace": "team-a", "for": "condition=Complete"}`.

    Raises: UserError.
    """
    key = _target(str(said.get("target", "")), str(said.get("namespace") or "default"))
    wanted = str(said.get("for", ""))
    if wanted == "delete":
        return lambda: view.get(key) is None
    if wanted == "create":
        return lambda: view.get(key) is not None
    form, _, rest = wanted.partition("=")
    if form == "condition" and rest:
        name, _, status = rest.partition("=")
        return lambda: _has(view, key, name, status or "True")
    if form == "jsonpath" and rest:
        return _field(view, key, rest)
    raise UserError(
        f"--for {wanted!r}: expected condition=TYPE[=STATUS], jsonpath={{.PATH}}=VALUE, create or delete"
    )


def _target(text: str, namespace: str) -> Key:
    kind_name, slash, name = text.partition("/")
    kind = find_kind(kind_name)
    if not slash or not name or kind is None:
        raise UserError(f"target {text!r}: expected KIND/NAME, such as job/train")
    return Key(kind.group_kind, namespace if kind.namespaced else "", name)


def _has(view: View, key: Key, name: str, status: str) -> bool:
    obj = view.get(key)
    conditions = ((obj or {}).get("status") or {}).get("conditions") or ()
    return any(
        c.get("type", "").lower() == name.lower() and c.get("status", "").lower() == status.lower()
        for c in conditions
    )


def _field(view: View, key: Key, text: str) -> Callable[[], bool]:
    found = re.fullmatch(r"\{?\.?([\w.\-\[\]]+)\}?=(.*)", text)
    if found is None:
        raise UserError(f"--for jsonpath={text!r}: expected {{.PATH}}=VALUE")
    words = re.findall(r"[\w\-]+|\[\d+\]", found[1])
    steps: list[str | int] = [int(w[1:-1]) if w.startswith("[") else w for w in words]
    value = found[2]
    return lambda: _text(dig(view.get(key) or {}, *steps)) == value


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)
