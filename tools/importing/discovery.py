"""From kube-apiserver's discovery documents: kinds, names, verbs, subresources. Versions on trial are left out."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tools.importing.pins import Pin, texts

Row = dict[str, Any]

# What nearly every kind can do is not said of it.
VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
READ_WRITE = ["get", "patch", "update"]


def kinds(pin: Pin, clones: Path) -> list[Row]:
    """One row a kind, its versions newest first."""
    found: dict[tuple[str, str], Row] = {}
    for _, text in sorted(texts(pin, clones), key=lambda named: named[0].replace("api__", " ")):
        listed = json.loads(text)
        group, _, version = listed["groupVersion"].rpartition("/")
        if re.fullmatch(r"v\d+", version):
            for resource in listed["resources"]:
                _add(found, group, version, resource)
    for row in found.values():
        row["versions"].sort(key=lambda v: -int(v[1:]))
    return list(found.values())


def _add(found: dict[tuple[str, str], Row], group: str, version: str, resource: Row) -> None:
    plural, _, part = resource["name"].partition("/")
    if not part:
        row = found.setdefault((group, plural), _kind(group, resource))
        row["versions"].append(version)
        return
    row = found[(group, plural)]
    subresource: Row = {"name": part}
    if sorted(resource["verbs"]) != READ_WRITE:
        subresource["verbs"] = sorted(resource["verbs"])
    if resource["kind"] != row["kind"]:
        spoken = resource.get("group", group), resource.get("version", version)
        subresource |= {"apiVersion": "/".join(filter(None, spoken)), "kind": resource["kind"]}
    if subresource not in row["subresources"]:
        row["subresources"].append(subresource)


def _kind(group: str, resource: Row) -> Row:
    row: Row = {"group": group, "kind": resource["kind"], "plural": resource["name"]}
    row["namespaced"] = resource["namespaced"]
    for name in ("shortNames", "categories"):
        if resource.get(name):
            row[name] = resource[name]
    if sorted(resource["verbs"]) != VERBS:
        row["verbs"] = sorted(resource["verbs"])
    return row | {"subresources": [], "versions": []}
