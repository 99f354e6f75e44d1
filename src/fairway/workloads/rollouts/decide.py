"""The Rollout controller's decision, for the canary strategy: pods, Services, weights, analyses, pauses, steps, status.

Unlike kube: blue-green, experiments, header and mirror routes, ephemeral metadata, rollback windows and traffic routers
other than the Gateway API's are left out; an aborted canary's pods stay for `abortScaleDownDelaySeconds` and no longer;
with `dynamicStableScale` it goes back at once, not weight by weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from fairway.cluster.actions import (
    NOTHING_TO_DO,
    Action,
    Create,
    Emit,
    Patch,
    Reconciliation,
    SetStatus,
    View,
)
from fairway.cluster.changes import Change
from fairway.kube.objects import Key, Obj, annotations_of, key_of, labels_of
from fairway.kube.timestamps import SECOND_US, parse_duration, parse_rfc3339, rfc3339
from fairway.workloads.controller import (
    NO_KEYS,
    NORMAL,
    WARNING,
    Controller,
    event,
    is_desire_changed,
    owner_key,
)
from fairway.workloads.podtemplate import owned_by
from fairway.workloads.rollouts import traffic
from fairway.workloads.rollouts.analyses import RUN, Analyses, analyses
from fairway.workloads.rollouts.counts import is_at_wanted, wanted_counts
from fairway.workloads.rollouts.facts import (
    GROUP,
    HASH,
    INCONCLUSIVE,
    KIND,
    MOST_WEIGHT,
    REPLICA_SET,
    REVISION,
    ROLLOUT,
    STEP_PAUSE,
    Facts,
    available_of,
    facts_of,
    replicas_of,
)
from fairway.workloads.rollouts.measuring import SUCCESSFUL
from fairway.workloads.rollouts.status import with_counts, with_phase

COMPONENT: Final = "rollouts-controller"
_ABORT_DELAY_S: Final = 30
_SCALE_DOWN_DELAY_S: Final = 30
_DEADLINE: Final = "scale-down-deadline"


def reconcile(view: View, key: Key, now_us: int) -> Reconciliation:
    """What to do about one Rollout. O(its ReplicaSets and AnalysisRuns)."""
    rollout = view.get(key)
    if rollout is None or "deletionTimestamp" in rollout["metadata"]:
        return NOTHING_TO_DO
    if "canary" not in (rollout["spec"].get("strategy") or {}) or "template" not in rollout["spec"]:
        return NOTHING_TO_DO
    facts = facts_of(view, rollout)
    if facts.is_new_template:
        return _begun(facts, key, now_us)
    if facts.new is None:
        return Reconciliation((Create(_replica_set(facts)), _told_new(facts, key)))
    return _carried_on(view, facts, key, now_us)


def _begun(facts: Facts, key: Key, now_us: int) -> Reconciliation:
    """Another template or other steps: everything of the update before is forgotten."""
    status = {
        k: v
        for k, v in facts.status.items()
        if k not in ("pauseConditions", "controllerPause", "abort", "abortedAt", "message", "promoteFull")
    }
    is_back = facts.status.get("stableRS") == facts.hash
    status |= {"currentPodHash": facts.hash, "currentStepHash": facts.step_hash}
    status["currentStepIndex"] = len(facts.steps) if is_back or not facts.status.get("stableRS") else 0
    actions: list[Action] = []
    if facts.new is None or facts.revision != _revision(facts.new) or not is_back:
        revision = max([facts.revision, *(_revision(obj) for obj in facts.all)]) + 1
        if facts.status.get("currentPodHash") != facts.hash:
            actions.append(Patch(key, {"metadata": {"annotations": {REVISION: str(revision)}}}))
            if facts.new is not None:
                mark = {"metadata": {"annotations": {REVISION: str(revision)}}}
                actions.append(Patch(key_of(facts.new), mark))
            told = f"Rollout updated to revision {revision}"
            actions.append(event(key, "RolloutUpdated", told, COMPONENT))
    if is_back and facts.status.get("currentPodHash") not in (None, facts.hash):
        actions.append(event(key, "SkipSteps", "Rollback to stable ReplicaSets", COMPONENT))
    status = with_phase(facts, with_counts(facts, status), "", rfc3339(now_us))
    return Reconciliation((*actions, SetStatus(key, status)))


def _revision(obj: Obj) -> int:
    return int(annotations_of(obj).get(REVISION) or 0)


def _replica_set(facts: Facts) -> Obj:
    rollout = facts.rollout
    template = rollout["spec"]["template"]
    meta = template.get("metadata") or {}
    labels = {**(meta.get("labels") or {}), HASH: facts.hash}
    match = {**((rollout["spec"].get("selector") or {}).get("matchLabels") or {}), HASH: facts.hash}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{rollout['metadata']['name']}-{facts.hash}",
            "namespace": rollout["metadata"]["namespace"],
            "labels": labels,
            "annotations": {REVISION: str(facts.revision)},
            "ownerReferences": owned_by(rollout, rollout["apiVersion"], KIND),
        },
        "spec": {
            "replicas": 0,
            "minReadySeconds": rollout["spec"].get("minReadySeconds") or 0,
            "selector": {"matchLabels": match},
            "template": {**template, "metadata": {**meta, "labels": labels}},
        },
    }


def _told_new(facts: Facts, key: Key) -> Emit:
    name = f"{key.name}-{facts.hash}"
    return event(
        key, "NewReplicaSetCreated", f"Created ReplicaSet {name} (revision {facts.revision})", COMPONENT
    )


def _carried_on(view: View, facts: Facts, key: Key, now_us: int) -> Reconciliation:
    """Services, weights, analyses, pods, pauses, the step, the status: in this order."""
    status = dict(facts.status)
    actions = traffic.services(view, facts)
    if facts.routes_traffic:
        weight = traffic.wanted_weight(facts)
        if available_of(facts.stable) * MOST_WEIGHT >= (MOST_WEIGHT - weight) * facts.replicas:
            actions += traffic.routed(view, facts, weight)
            weights = traffic.weights_status(facts, weight)
            status["canary"] = {**(status.get("canary") or {}), "weights": weights}
    problem = ""
    try:
        found = analyses(view, facts)
    except ValueError as wrong:
        found, problem = Analyses([]), str(wrong)
    actions += found.actions
    _note_runs(status, found)
    if found.is_unsure and not _paused(status, INCONCLUSIVE):
        _pause(status, INCONCLUSIVE, now_us)
    if found.abort and not facts.is_aborted:
        status |= {"abort": True, "abortedAt": rfc3339(now_us)}
        why = f"Rollout aborted update to revision {facts.revision}: {found.abort}"
        status["message"] = f"RolloutAborted: {why}"
        actions.append(event(key, "RolloutAborted", why, COMPONENT, WARNING))
    scaled, again_us = _scaled(facts, key, now_us)
    actions += scaled
    if not scaled and not status.get("abort"):
        again_us = _earlier(again_us, _pause_step(facts, status, now_us))
        actions += _stepped(facts, status, key, found, now_us)
    if status.get("abort"):
        # Whoever aborts by hand writes no time. Source: argo-rollouts rollout/pause.go CalculatePauseStatus.
        status.setdefault("abortedAt", rfc3339(now_us))
        status["currentStepIndex"] = 0 if facts.steps and not facts.is_promoted else len(facts.steps)
        status.pop("pauseConditions", None)
        status["controllerPause"] = False
        said = str(status.get("message") or "")
        problem = f"Rollout aborted update to revision {facts.revision}"
        if said.startswith("RolloutAborted: "):
            problem = said.removeprefix("RolloutAborted: ")
    else:
        status.pop("abortedAt", None)
    status = with_phase(facts, with_counts(facts, status), problem, rfc3339(now_us))
    if not problem and "message" in status and status["phase"] == "Healthy":
        status.pop("message")
    if status != facts.status:
        actions.append(SetStatus(key, status))
    return Reconciliation(tuple(actions), again_us)


def _earlier(one: int | None, other: int | None) -> int | None:
    given = [at for at in (one, other) if at is not None]
    return min(given) if given else None


def _note_runs(status: dict[str, Any], found: Analyses) -> None:
    canary = dict(status.get("canary") or {})
    for field, run in (
        ("currentBackgroundAnalysisRunStatus", found.background),
        ("currentStepAnalysisRunStatus", found.step),
    ):
        canary.pop(field, None)
        if run is not None:
            said = run.get("status") or {}
            canary[field] = {"name": run["metadata"]["name"], "status": said.get("phase", "")}
            if said.get("message"):
                canary[field]["message"] = said["message"]
    if canary:
        status["canary"] = canary


# Pods


def _scaled(facts: Facts, key: Key, now_us: int) -> tuple[list[Action], int | None]:
    """ReplicaSets brought to their counts, old ones taken down; and when to look again."""
    new, stable = wanted_counts(facts)
    actions: list[Action] = []
    again_us: int | None = None
    if facts.is_aborted and facts.routes_traffic and facts.new is not facts.stable:
        delay_s = facts.canary.get("abortScaleDownDelaySeconds", _ABORT_DELAY_S)
        aborted_us = parse_rfc3339(facts.status.get("abortedAt") or rfc3339(now_us))
        until_us = aborted_us + int(delay_s) * SECOND_US if delay_s else None
        if until_us is None or now_us < until_us:
            new, again_us = replicas_of(facts.new), until_us
    if facts.new is not None and replicas_of(facts.new) != new:
        actions += _resized(facts, key, facts.new, new)
    if facts.stable is not None and facts.stable is not facts.new and replicas_of(facts.stable) != stable:
        actions += _resized(facts, key, facts.stable, stable)
    if not actions:
        older, later_us = _older_down(facts, key, now_us)
        actions += older
        again_us = _earlier(again_us, later_us)
    return actions, again_us


def _older_down(facts: Facts, key: Key, now_us: int) -> tuple[list[Action], int | None]:
    spare = sum(map(available_of, facts.all)) - (facts.replicas - facts.limit("maxUnavailable"))
    again_us: int | None = None
    actions: list[Action] = []
    for obj in sorted(facts.others, key=_revision, reverse=True):
        there = replicas_of(obj)
        if there == 0:
            continue
        if facts.routes_traffic:
            until_us = _deadline_us(obj)
            if facts.is_promoted and until_us is None:
                until_us = now_us + _delay_us(facts)
                mark = {"metadata": {"annotations": {_DEADLINE: rfc3339(until_us)}}}
                actions.append(Patch(key_of(obj), mark))
            if facts.is_promoted and until_us is not None and now_us < until_us:
                again_us = _earlier(again_us, until_us)
            else:
                actions += _resized(facts, key, obj, 0)
        elif spare > 0:
            gone = min(there, spare)
            spare -= gone
            actions += _resized(facts, key, obj, there - gone)
    return actions, again_us


def _delay_us(facts: Facts) -> int:
    given = facts.canary.get("scaleDownDelaySeconds")
    return int(_SCALE_DOWN_DELAY_S if given is None else given) * SECOND_US


def _deadline_us(obj: Obj) -> int | None:
    """Until when the pods of a version that was stable stay, so that it can be gone back to at once."""
    at = annotations_of(obj).get(_DEADLINE)
    return parse_rfc3339(at) if at else None


def _resized(facts: Facts, key: Key, obj: Obj, replicas: int) -> list[Action]:
    there = replicas_of(obj)
    up = "up" if replicas > there else "down"
    name, revision = obj["metadata"]["name"], _revision(obj)
    told = f"Scaled {up} ReplicaSet {name} (revision {revision}) from {there} to {replicas}"
    return [
        Patch(key_of(obj), {"spec": {"replicas": replicas}}),
        event(key, "ScalingReplicaSet", told, COMPONENT),
    ]


# Steps


def _paused(status: dict[str, Any], reason: str) -> dict[str, Any] | None:
    return next((p for p in status.get("pauseConditions") or () if p["reason"] == reason), None)


def _pause(status: dict[str, Any], reason: str, now_us: int) -> None:
    condition = {"reason": reason, "startTime": rfc3339(now_us)}
    status["pauseConditions"] = [*(status.get("pauseConditions") or ()), condition]
    status["controllerPause"] = True


def _pause_step(facts: Facts, status: dict[str, Any], now_us: int) -> int | None:
    """Begin a pause where the step is one; when it is over, where it has an end."""
    if "pause" not in facts.step or facts.rollout["spec"].get("paused") or facts.stable is None:
        return None
    condition = _paused(status, STEP_PAUSE)
    if condition is None and not status.get("controllerPause"):
        _pause(status, STEP_PAUSE, now_us)
        condition = _paused(status, STEP_PAUSE)
    ends_us = _pause_ends(facts, condition)
    return ends_us if ends_us is not None and ends_us > now_us else None


def _pause_ends(facts: Facts, condition: dict[str, Any] | None) -> int | None:
    duration = (facts.step.get("pause") or {}).get("duration")
    if duration is None or condition is None:
        return None
    text = str(duration)
    return parse_rfc3339(condition["startTime"]) + parse_duration(f"{text}s" if text.isdigit() else text)


def _is_done(facts: Facts, status: dict[str, Any], found: Analyses, now_us: int) -> bool:
    step = facts.step
    if not step or facts.rollout["spec"].get("paused"):
        return False
    if "pause" in step:
        condition = _paused(status, STEP_PAUSE)
        if condition is None:
            return bool(facts.status.get("controllerPause"))
        ends_us = _pause_ends(facts, condition)
        return ends_us is not None and now_us >= ends_us
    if "analysis" in step:
        return found.step is not None and (found.step.get("status") or {}).get("phase") == SUCCESSFUL
    if "setWeight" in step and facts.routes_traffic:
        weights = (status.get("canary") or {}).get("weights") or {}
        return is_at_wanted(facts) and weights.get("canary", {}).get("weight") == facts.weight_now()
    return is_at_wanted(facts)


def _stepped(facts: Facts, status: dict[str, Any], key: Key, found: Analyses, now_us: int) -> list[Action]:
    """The next step where this one is done; the new version made the stable one where all are."""
    if _paused(status, INCONCLUSIVE):
        return []
    if facts.stable is None or status.get("promoteFull"):
        status["currentStepIndex"] = len(facts.steps)
        index = len(facts.steps)
    else:
        index = facts.index
    if index < len(facts.steps):
        if not _is_done(facts, status, found, now_us):
            return []
        status["currentStepIndex"] = index + 1
        status["pauseConditions"] = [
            p for p in status.get("pauseConditions") or () if p["reason"] != STEP_PAUSE
        ]
        if not status["pauseConditions"]:
            status.pop("pauseConditions")
            status["controllerPause"] = False
        told = f"Rollout step {index + 1}/{len(facts.steps)} completed ({_step_text(facts.step)})"
        return [event(key, "RolloutStepCompleted", told, COMPONENT)]
    if (
        facts.is_promoted
        or available_of(facts.new) < facts.replicas
        or replicas_of(facts.new) != facts.replicas
    ):
        return []
    if facts.routes_traffic and facts.stable is not None:
        weights = (status.get("canary") or {}).get("weights") or {}
        if weights.get("canary", {}).get("weight") != MOST_WEIGHT:
            return []
    if not facts.routes_traffic and facts.stable is not None and replicas_of(facts.stable) > 0:
        return []
    why = "Completed all canary steps" if facts.stable is not None else "Initial deploy"
    status["stableRS"] = facts.hash
    status.pop("promoteFull", None)
    told = f"Rollout completed update to revision {facts.revision} ({facts.hash}): {why}"
    return [event(key, "RolloutCompleted", told, COMPONENT, NORMAL)]


def _step_text(step: dict[str, Any]) -> str:
    if "setWeight" in step:
        return f"setWeight: {step['setWeight']}"
    if "pause" in step:
        duration = (step.get("pause") or {}).get("duration")
        return "pause" if duration is None else f"pause: {duration}"
    if "analysis" in step:
        return "analysis"
    return next(iter(step), "")


def map_change(view: View, change: Change) -> Sequence[Key]:
    gk = change.key.gk
    if gk == ROLLOUT:
        moved = change.old is not None and _told_by_people(change.obj) != _told_by_people(change.old)
        return (change.key,) if is_desire_changed(change) or moved else NO_KEYS
    if gk in ("Service", traffic.ROUTE):
        return [key_of(o) for o in view.objects(ROLLOUT, change.key.namespace) if _names(o, change.key)]
    key = owner_key(change.obj, KIND, GROUP, ROLLOUT)
    return (key,) if key is not None else NO_KEYS


def _told_by_people(rollout: Obj) -> list[Any]:
    """What `kubectl argo rollouts promote`, `abort` and `retry` write into the status."""
    status = rollout.get("status") or {}
    return [
        status.get(n)
        for n in ("abort", "promoteFull", "pauseConditions", "currentStepIndex", "currentPodHash", "stableRS")
    ]


def _names(rollout: Obj, key: Key) -> bool:
    canary = (rollout["spec"].get("strategy") or {}).get("canary") or {}
    if key.gk == "Service":
        return key.name in (canary.get("canaryService"), canary.get("stableService"))
    return bool(canary.get("trafficRouting")) and labels_of(rollout) is not None


CONTROLLER: Final = Controller(
    name="rollouts",
    gk=ROLLOUT,
    watches=(ROLLOUT, REPLICA_SET, RUN, "Service", traffic.ROUTE),
    map_change=map_change,
    reconcile=reconcile,
)
