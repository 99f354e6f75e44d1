"""What a cluster's accounts say, by name and number alone: equal for two accounts that count the same.

Rows, columns and interned ids may differ between two accounts of one cluster; nothing here depends on them.
"""

from __future__ import annotations

from typing import Any

from fairway.cluster.accounts import NodeAccounts
from fairway.cluster.store import Store

State = dict[str, Any]


def account_state(accounts: NodeAccounts) -> State:
    return {
        "nodes": {name: _node(accounts, row) for name, row in accounts.row_of.items()},
        "order": [accounts.names[row] for row in accounts.order().tolist()],
        "records": {key: _record(accounts, key) for key in accounts.records},
        "images": {
            name: sorted(accounts.names[row] for row in rows) for name, rows in accounts.image_holders.items()
        },
        "namespaces": {name: dict(labels) for name, labels in accounts.namespace_labels.items()},
        "dead": _is_zero_where_dead(accounts),
    }


def _node(accounts: NodeAccounts, row: int) -> State:
    columns = accounts.columns
    return {
        "allocatable": {c: int(v) for c, v in zip(columns, accounts.allocatable[row], strict=True) if v},
        "requested": {c: int(v) for c, v in zip(columns, accounts.requested[row], strict=True) if v},
        "non_zero": accounts.non_zero[row].tolist(),
        "pods": sorted(accounts.pods[row]),
        "pod_count": int(accounts.pod_count[row]),
        "allowed": int(accounts.allowed_pods[row]),
        "ports": dict(accounts.ports[row]),
        "labels": dict(accounts.labels[row]),
        "taints": accounts.taint_sets[int(accounts.taint_set[row])],
        "unschedulable": bool(accounts.unschedulable[row]),
        "images": dict(accounts.images[row]),
        "alive": bool(accounts.alive[row]),
    }


def _record(accounts: NodeAccounts, key: Any) -> tuple[Any, ...]:
    r = accounts.records[key]
    row = accounts.names[r.row] if r.row >= 0 else None
    return (
        r.uid,
        r.node,
        row,
        dict(r.labels.labels),
        r.is_terminating,
        r.is_preempted,
        r.start_us,
        r.shape.requests,
    )


def _is_zero_where_dead(accounts: NodeAccounts) -> bool:
    dead = ~accounts.alive
    return not (
        accounts.requested[dead].any()
        or accounts.allocatable[dead].any()
        or accounts.non_zero[dead].any()
        or accounts.pod_count[dead].any()
    )


def recount(store: Store) -> NodeAccounts:
    """Accounts made anew from the objects there are, in the order in which they were created."""
    fresh = Store()
    objects = [o for gk in ("Namespace", "Node", "Pod") for o in store.objects(gk)]
    for obj in sorted(objects, key=lambda o: str(o["metadata"]["uid"])):
        fresh.load(obj)
    return fresh.accounts
