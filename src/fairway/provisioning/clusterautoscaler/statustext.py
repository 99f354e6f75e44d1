"""What does the ConfigMap `cluster-autoscaler-status` say?

Source: clusterstate/api/types.go; written as YAML under `status`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from fairway.kube.timestamps import rfc3339
from fairway.provisioning.clusterautoscaler.groups import NodeGroup, NodeView

NAME, NAMESPACE = "cluster-autoscaler-status", "kube-system"


def status_text(
    groups: Sequence[NodeGroup],
    nodes: Sequence[NodeView],
    candidates: Sequence[str],
    backoffs: Mapping[str, str],
    now_us: int,
) -> str:
    """The text. `backoffs`: why a group is in backoff."""
    of_groups = [_group(g, [n for n in nodes if n.group == g.name], candidates, backoffs) for g in groups]
    target = sum(g.target for g in groups)
    growing = any(g["scaleUp"]["status"] == "InProgress" for g in of_groups)
    whole = {
        "time": rfc3339(now_us),
        "autoscalerStatus": "Running",
        "clusterWide": {
            "health": {"status": "Healthy", "nodeCounts": _counts(nodes, target, nodes)},
            "scaleUp": {"status": "InProgress" if growing else "NoActivity"},
            "scaleDown": _scale_down(len(candidates)),
        },
        "nodeGroups": of_groups,
    }
    return str(yaml.safe_dump(whole, sort_keys=False))


def _group(
    group: NodeGroup, nodes: list[NodeView], candidates: Sequence[str], backoffs: Mapping[str, str]
) -> dict[str, Any]:
    scale_up: dict[str, Any] = {"status": "InProgress" if group.target > len(nodes) else "NoActivity"}
    if group.name in backoffs:
        scale_up = {"status": "Backoff", "backoffInfo": {"errorMessage": backoffs[group.name]}}
    return {
        "name": group.name,
        "health": {
            "status": "Healthy",
            "nodeCounts": _counts(nodes, group.target, nodes),
            "cloudProviderTarget": group.target,
            "minSize": group.least,
            "maxSize": group.most,
        },
        "scaleUp": scale_up,
        "scaleDown": _scale_down(sum(n.name in candidates for n in nodes)),
    }


def _counts(nodes: Sequence[NodeView], target: int, managed: Sequence[NodeView]) -> dict[str, Any]:
    registered = {
        "total": len(nodes),
        "ready": sum(n.is_ready for n in nodes),
        "notStarted": 0,
        "beingDeleted": sum(n.is_going for n in nodes),
        "unready": {"total": sum(not n.is_ready for n in nodes), "resourceUnready": 0},
    }
    coming = max(target - sum(bool(n.group) for n in managed), 0)
    return {"registered": registered, "longUnregistered": 0, "unregistered": coming}


def _scale_down(candidates: int) -> dict[str, Any]:
    return {"status": "CandidatesPresent" if candidates else "NoCandidates", "candidates": candidates}
