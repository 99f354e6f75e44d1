"""The roles and bindings every cluster starts with.

They are data (`admission/data/roles.json`), made by `tools/importing/roles.py` from what Kubernetes says its policy
makes with every feature gate at its default.

Source: plugin/pkg/auth/authorizer/rbac/bootstrappolicy/testdata (v1.36).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from fairway.admission.rbac.aggregation import aggregated_rules
from fairway.admission.rbac.attributes import RBAC_GROUP
from fairway.kube.objects import Obj

_DATA = Path(__file__).parents[1] / "data" / "roles.json"
_LABELS = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_ANNOTATIONS = {"rbac.authorization.kubernetes.io/autoupdate": "true"}
_META = ("namespace", "name", "labels")
# Each collects the one before it.
_AGGREGATED = ("view", "edit", "admin")


def objects() -> list[Obj]:
    """Roles and bindings, by kind, namespace and name. Aggregated roles carry their rules already."""
    found = [_object(row) for row in msgspec.json.decode(_DATA.read_bytes())]
    roles = {o["metadata"]["name"]: o for o in found if o["kind"] == "ClusterRole"}
    for name in _AGGREGATED:
        roles[name]["rules"] = aggregated_rules(roles[name], list(roles.values()))
    return found


def _object(row: dict[str, Any]) -> Obj:
    meta = {key: row[key] for key in _META if key in row}
    meta["labels"] = {**_LABELS, **meta.get("labels", {})}
    meta["annotations"] = dict(_ANNOTATIONS)
    spec = {key: value for key, value in row.items() if key not in (*_META, "kind")}
    return {"apiVersion": f"{RBAC_GROUP}/v1", "kind": row["kind"], "metadata": meta, **spec}
