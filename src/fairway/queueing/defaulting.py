"""What the API server writes into a Kueue object that leaves fields out: the defaults of its schema.

`webhooks.defaulted` does this and all that follows at the API's door; here only the schema speaks, for objects that
are read without one.

Source: the defaults in config/components/crd/bases (v1beta2).
"""

from __future__ import annotations

from typing import Any

from fairway.kube.objects import Obj, spec_of
from fairway.queueing.webhooks.structure import with_defaults
from fairway.queueing.webhooks.tables import schema_of


def defaulted_cluster_queue(obj: Obj) -> Obj:
    """A ClusterQueue with its defaults filled in."""
    return _defaulted("ClusterQueue", obj)


def defaulted_local_queue(obj: Obj) -> Obj:
    """A LocalQueue with its defaults filled in."""
    return _defaulted("LocalQueue", obj)


def defaulted_workload(obj: Obj) -> Obj:
    """A Workload with its defaults filled in: active, and every pod set named and counted."""
    return _defaulted("Workload", obj)


def _defaulted(kind: str, obj: Obj) -> Obj:
    node = schema_of(kind, "v1beta2")
    assert node is not None
    filled: dict[str, Any] = with_defaults(node, {**obj, "spec": dict(spec_of(obj))})
    return filled
