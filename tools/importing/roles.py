"""Writes the roles and bindings that every cluster starts with into `src/fairway/admission/data/roles.json`.

    python -m tools.importing.roles KUBERNETES

KUBERNETES is a checkout of kubernetes/kubernetes; `bootstrappolicy/testdata` says what its policy makes with every
feature gate at its default. One object a line; what all have in common is left out (`rbac/bootstrap.py` adds it).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml

DATA = Path(__file__).parents[2] / "src/fairway/admission/data/roles.json"
_POLICY = "plugin/pkg/auth/authorizer/rbac/bootstrappolicy/testdata"
_FILES = (
    "cluster-roles",
    "cluster-role-bindings",
    "controller-roles",
    "controller-role-bindings",
    "namespace-roles",
    "namespace-role-bindings",
)
_COMMON_LABEL = "kubernetes.io/bootstrapping"


def main() -> None:
    folder = Path(sys.argv[1]) / _POLICY
    rows = [_row(obj) for name in _FILES for obj in _items(folder / f"{name}.yaml")]
    rows.sort(key=lambda row: (row["kind"], row.get("namespace", ""), row["name"]))
    lines = (json.dumps(row, separators=(",", ":")) for row in rows)
    DATA.parent.mkdir(exist_ok=True)
    DATA.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


def _items(file: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load(file.read_text(encoding="utf-8"))["items"]
    return found


def _row(obj: dict[str, Any]) -> dict[str, Any]:
    meta = obj["metadata"]
    labels = {k: v for k, v in meta["labels"].items() if k != _COMMON_LABEL}
    row = {
        "kind": obj["kind"],
        "namespace": meta.get("namespace"),
        "name": meta["name"],
        "labels": labels,
        "aggregationRule": obj.get("aggregationRule"),
        "rules": obj.get("rules"),
        "roleRef": obj.get("roleRef"),
        "subjects": obj.get("subjects"),
    }
    return {key: value for key, value in row.items() if value}


if __name__ == "__main__":
    main()
