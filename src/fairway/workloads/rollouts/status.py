"""A Rollout's status: counts, phase, conditions.

Source: rollout/sync.go (calculateBaseStatus, calculateRolloutConditions), utils/rollout/rolloututil.go.
"""

from __future__ import annotations

from typing import Any

from fairway.kube.conditions import FALSE, TRUE, UNKNOWN, set_condition, without_condition
from fairway.workloads.rollouts.facts import INCONCLUSIVE, Facts, available_of, count_of


def with_counts(facts: Facts, status: dict[str, Any]) -> dict[str, Any]:
    """Pods of all versions and of the new one."""
    found = facts.all
    selector = (facts.rollout["spec"].get("selector") or {}).get("matchLabels") or {}
    return {
        **status,
        "replicas": sum(map(count_of, found)),
        "updatedReplicas": count_of(facts.new),
        "readyReplicas": sum(int((o.get("status") or {}).get("readyReplicas") or 0) for o in found),
        "availableReplicas": sum(map(available_of, found)),
        "HPAReplicas": sum(map(count_of, found)),
        "selector": ",".join(f"{k}={v}" for k, v in sorted(selector.items())),
        "observedGeneration": str(facts.rollout["metadata"].get("generation", 1)),
    }


def with_phase(facts: Facts, status: dict[str, Any], message: str, now: str) -> dict[str, Any]:
    """Healthy, Progressing, Paused or Degraded; with conditions. `message`: why it was aborted, or cannot go on."""
    least = facts.replicas - facts.limit("maxUnavailable")
    enough = status["availableReplicas"] >= least
    given = status.get("conditions")
    said = "minimum availability"
    if enough:
        given = set_condition(
            given, "Available", TRUE, "AvailableReason", f"Rollout has {said}", now, lastUpdateTime=now
        )
    else:
        text = f"Rollout does not have {said}"
        given = set_condition(given, "Available", FALSE, "AvailableReason", text, now, lastUpdateTime=now)
    phase, why = _phase(facts, status, message)
    healthy = phase == "Healthy"
    if healthy:
        given = set_condition(
            given, "Healthy", TRUE, "RolloutHealthy", "Rollout is healthy", now, lastUpdateTime=now
        )
    elif any(c.get("type") == "Healthy" for c in given or ()):
        text = "Rollout is not healthy"
        given = set_condition(given, "Healthy", FALSE, "RolloutHealthy", text, now, lastUpdateTime=now)
    if status.get("abort"):
        progressing = (FALSE, "RolloutAborted", message)
    elif status.get("pauseConditions"):
        progressing = (UNKNOWN, "RolloutPaused", "Rollout is paused")
    elif healthy:
        name = f"{facts.rollout['metadata']['name']}-{facts.hash}"
        done = f'ReplicaSet "{name}" has successfully progressed.'
        progressing = (TRUE, "NewReplicaSetAvailable", done)
    else:
        name = f"{facts.rollout['metadata']['name']}-{facts.hash}"
        progressing = (TRUE, "ReplicaSetUpdated", f'ReplicaSet "{name}" is progressing.')
    given = set_condition(given, "Progressing", *progressing, now, lastUpdateTime=now)
    if status.get("pauseConditions"):
        given = set_condition(
            given, "Paused", TRUE, "RolloutPaused", "Rollout is paused", now, lastUpdateTime=now
        )
    else:
        given = without_condition(given, "Paused")
    # Update times move only with what they are of.
    before = {c["type"]: c for c in facts.status.get("conditions") or ()}
    conditions = [_kept(before.get(c["type"]), c) for c in given]
    found = {**status, "phase": phase, "conditions": conditions}
    if why:
        found["message"] = why
    return found


def _kept(before: dict[str, Any] | None, now: dict[str, Any]) -> dict[str, Any]:
    same = before is not None and all(before.get(k) == now.get(k) for k in ("status", "reason", "message"))
    return before if same and before is not None else now


def _phase(facts: Facts, status: dict[str, Any], message: str) -> tuple[str, str]:
    if status.get("abort"):
        return "Degraded", f"RolloutAborted: {message}"
    paused = status.get("pauseConditions")
    if paused:
        reasons = [p["reason"] for p in paused]
        return "Paused", INCONCLUSIVE if INCONCLUSIVE in reasons else reasons[0]
    if facts.rollout["spec"].get("paused"):
        return "Paused", "manually paused"
    if message:
        return "Degraded", f"InvalidSpec: {message}"
    if status["updatedReplicas"] < facts.replicas and status.get("stableRS") == status.get("currentPodHash"):
        return "Progressing", "more replicas need to be updated"
    if available_of(facts.new) < status["updatedReplicas"]:
        return "Progressing", "updated replicas are still becoming available"
    if status.get("stableRS") != status.get("currentPodHash"):
        return (
            "Progressing",
            "waiting for all steps to complete" if facts.steps else "more replicas need to be updated",
        )
    if status["replicas"] > status["updatedReplicas"]:
        return "Progressing", "old replicas are pending termination"
    return "Healthy", ""
