"""From CustomResourceDefinitions: names, versions, columns, subresources, schemas."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tools.importing.pins import Pin, texts

Row = dict[str, Any]


class _Loader(yaml.CSafeLoader):
    """YAML as Kubernetes reads it: `=` is text."""


_Loader.add_constructor("tag:yaml.org,2002:value", lambda loader, node: node.value)


def kinds(pin: Pin, clones: Path) -> Iterator[Row]:
    """One row a kind of the pinned files, versions newest first, with `schema` as the definition says it."""
    for path, text in texts(pin, clones):
        for crd in yaml.load_all(text, _Loader):
            if not isinstance(crd, dict) or crd.get("kind") != "CustomResourceDefinition":
                continue
            spec = crd["spec"]
            if "names" not in spec:
                continue  # a patch of one
            if spec["names"]["kind"] in pin.leave_out:
                continue
            versions = [_version(v) for v in spec["versions"] if v.get("served")]
            versions = [v for v in versions if not pin.versions or v["name"] in pin.versions]
            if not versions:
                raise ValueError(f"{pin.name}: {path} serves none of the versions wanted")
            versions.sort(key=lambda v: _order(v["name"]))
            yield _kind(spec) | {"versions": versions}


def _kind(spec: Row) -> Row:
    names = spec["names"]
    row: Row = {"group": spec["group"], "kind": names["kind"], "plural": names["plural"]}
    row["namespaced"] = spec["scope"] == "Namespaced"
    if names.get("singular", "") not in ("", names["kind"].lower()):
        row["singular"] = names["singular"]
    for name in ("shortNames", "categories"):
        if names.get(name):
            row[name] = names[name]
    return row


def _version(given: Row) -> Row:
    row: Row = {"name": given["name"]}
    for name in ("storage", "deprecated", "deprecationWarning", "selectableFields"):
        if given.get(name):
            row[name] = given[name]
    subresources = given.get("subresources") or {}
    if subresources.get("status") is not None:
        row["status"] = True
    if subresources.get("scale"):
        row["scale"] = subresources["scale"]
    columns = given.get("additionalPrinterColumns") or []
    if columns:
        row["columns"] = [{k: v for k, v in column.items() if k != "description"} for column in columns]
    row["schema"] = (given.get("schema") or {}).get("openAPIV3Schema") or {}
    return row


def _order(version: str) -> tuple[int, int, int, str]:
    """GA before beta before alpha, newer first. Source: apimachinery version.CompareKubeAwareVersionStrings."""
    found = re.fullmatch(r"v(\d+)(?:(alpha|beta)(\d+))?", version)
    if found is None:
        return 3, 0, 0, version
    return {None: 0, "beta": 1, "alpha": 2}[found[2]], -int(found[1]), -int(found[3] or 0), ""
