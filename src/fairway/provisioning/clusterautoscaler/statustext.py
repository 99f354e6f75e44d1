"""What does the ConfigMap `cluster-autoscaler-status` say?

Each condition has the time of this look, and since when its status is what it is; so what was said last is needed.

Source: clusterstate/clusterstate.go GetStatus, clusterstate/api/types.go, clusterstate/utils/status.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from fairway.kube.timestamps import SECOND_US, rfc3339
from fairway.provisioning.clusterautoscaler.groups import NodeGroup, NodeView

NAME, NAMESPACE = "cluster-autoscaler-status", "kube-system"
LAST_UPDATED = "cluster-autoscaler.kubernetes.io/last-updated"
# How many nodes may be unready, and how large a part of all where there are more. Source: config/flags/flags.go.
OK_UNREADY, MOST_UNREADY = 3, 0.45

Status = dict[str, Any]


def is_healthy(nodes: Sequence[NodeView]) -> bool:
    """Whether the autoscaler does anything at all: not while too many nodes are unready."""
    unready = sum(not n.is_ready for n in nodes)
    return unready <= OK_UNREADY or unready <= MOST_UNREADY * len(nodes)


def status_of(
    groups: Sequence[NodeGroup],
    nodes: Sequence[NodeView],
    candidates: Sequence[str],
    backoffs: Mapping[str, tuple[str, str]],
    now_us: int,
    before: Status | None = None,
) -> Status:
    """The status. `backoffs`: code and message of what put a group into backoff; `before`: what was said last."""
    was_groups = {g["name"]: g for g in (before or {}).get("nodeGroups") or ()}
    was = (before or {}).get("clusterWide") or {}
    of_groups = [
        _group(
            g, [n for n in nodes if n.group == g.name], candidates, backoffs, now_us, was_groups.get(g.name)
        )
        for g in groups
    ]
    target = sum(g.target for g in groups)
    growing = any(g["scaleUp"]["status"] == "InProgress" for g in of_groups)
    health = {"status": _health(nodes), "nodeCounts": _counts(nodes, target)}
    scale_up = {"status": "InProgress" if growing else "NoActivity"}
    return {
        "time": time_text(now_us),
        "autoscalerStatus": "Running",
        "clusterWide": {
            "health": _since(health, was.get("health"), now_us),
            "scaleUp": _since(scale_up, was.get("scaleUp"), now_us),
            "scaleDown": _since(_scale_down(len(candidates)), was.get("scaleDown"), now_us),
        },
        "nodeGroups": of_groups,
    }


def text(status: Status) -> str:
    return str(yaml.safe_dump(status, sort_keys=False))


def time_text(now_us: int) -> str:
    """As Go prints a time: `2026-01-31 08:00:01.5 +0000 UTC`."""
    return rfc3339(now_us)[:-1].replace("T", " ") + _fraction(now_us) + " +0000 UTC"


def _fraction(time_us: int) -> str:
    rest = time_us % SECOND_US
    return f".{rest:06d}".rstrip("0") if rest else ""


def _health(nodes: Sequence[NodeView]) -> str:
    return "Healthy" if is_healthy(nodes) else "Unhealthy"


def _since(condition: dict[str, Any], before: Mapping[str, Any] | None, now_us: int) -> dict[str, Any]:
    now = rfc3339(now_us)[:-1] + _fraction(now_us) + "Z"
    stays = before is not None and before["status"] == condition["status"]
    since = before["lastTransitionTime"] if before is not None and stays else now
    return {**condition, "lastProbeTime": now, "lastTransitionTime": since}


def _group(
    group: NodeGroup,
    nodes: list[NodeView],
    candidates: Sequence[str],
    backoffs: Mapping[str, tuple[str, str]],
    now_us: int,
    before: Mapping[str, Any] | None,
) -> dict[str, Any]:
    was = before or {}
    scale_up: dict[str, Any] = {"status": "InProgress" if group.target > len(nodes) else "NoActivity"}
    if scale_up["status"] == "NoActivity" and group.name in backoffs:
        code, message = backoffs[group.name]
        scale_up = {"status": "Backoff", "backoffInfo": {"errorCode": code, "errorMessage": message}}
    health = {
        # Of a group only what does not come counts, and that is given up soon.
        "status": "Healthy",
        "nodeCounts": _counts(nodes, group.target),
        "cloudProviderTarget": group.target,
        "minSize": group.least,
        "maxSize": group.most,
    }
    scale_down = _scale_down(sum(n.name in candidates for n in nodes))
    return {
        "name": group.name,
        "health": _since(health, was.get("health"), now_us),
        "scaleUp": _since(scale_up, was.get("scaleUp"), now_us),
        "scaleDown": _since(scale_down, was.get("scaleDown"), now_us),
    }


def _counts(nodes: Sequence[NodeView], target: int) -> dict[str, Any]:
    going = sum(n.is_going for n in nodes)
    registered = {
        "total": len(nodes),
        "ready": sum(n.is_ready for n in nodes),
        "notStarted": 0,
        "suspended": 0,
        **({"beingDeleted": going} if going else {}),
        "unready": {"total": sum(not n.is_ready for n in nodes), "resourceUnready": 0},
    }
    coming = max(target - sum(bool(n.group) for n in nodes), 0)
    return {"registered": registered, "longUnregistered": 0, "unregistered": coming}


def _scale_down(candidates: int) -> dict[str, Any]:
    if not candidates:
        return {"status": "NoCandidates"}
    return {"status": "CandidatesPresent", "candidates": candidates}
