"""Carrying out a timeline's actions against the store.

Each action is what a person with kubectl would have done at that moment. What cannot be done (the object is
gone by then, a budget forbids it) comes back as a sentence, it is no error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairway.catalog.nodegpus import gpus_of_node
from fairway.cluster.actions import perform
from fairway.cluster.errors import ApiError
from fairway.kube.objects import Key, Obj, labels_of, name_of, namespace_of, spec_of
from fairway.scenario import actions
from fairway.scenario.actions import Action, Choice
from fairway.scenario.entering import NAME, enter, patch
from fairway.scenario.fleet import taint_object
from fairway.twin.components import Host
from fairway.twin.devices.gpuhealth import break_gpu
from fairway.twin.faults import plan_fault
from fairway.workloads.disruption.eviction import evict

Troubles = list[str]


def act(host: Host, action: Action) -> Troubles:
    """Do it; returns what could not be done."""
    return _VERBS[type(action)](host, action)


def chosen(host: Host, choice: Choice) -> list[Key]:
    """The keys of the objects there now, those named first that are not there included."""
    if choice.keys:
        return list(choice.keys)
    found = [
        Key(choice.gk, namespace_of(obj), name_of(obj))
        for obj in host.store.objects(choice.gk, choice.namespace)
        if choice.selector.matches(labels_of(obj)) and "deletionTimestamp" not in obj["metadata"]
    ]
    return found[: choice.most] if choice.most else found


def _each(host: Host, choice: Choice, do: Callable[[Key, Obj], str | None]) -> Troubles:
    """Do it to each object chosen; a refusal or an absence is a sentence."""
    troubles = []
    keys = chosen(host, choice)
    for key in keys:
        obj = host.store.get(key)
        if obj is None:
            troubles.append(f"{key} is not there")
            continue
        try:
            trouble = do(key, obj)
        except ApiError as refused:
            trouble = refused.message
        if trouble:
            troubles.append(trouble)
    if not keys:
        troubles.append(f"nothing matches {choice}")
    return troubles


def _apply(host: Host, action: actions.Apply) -> Troubles:
    for obj, origin in zip(action.objects, action.origins or (None,) * len(action.objects), strict=True):
        enter(host, obj, origin)
    return []


def _delete(host: Host, action: actions.Delete) -> Troubles:
    def delete(key: Key, obj: Obj) -> str | None:
        denied = host.door.leave(obj)
        if denied is None:
            host.store.delete(key, grace_s=action.grace_s, propagation=action.propagation)
        return None if denied is None else denied.message

    return _each(host, action.chosen, delete)


def _patch(host: Host, action: actions.Patch) -> Troubles:
    return _each(host, action.chosen, lambda key, _o: patch(host, key, action.patch, action.form))


def _scale(host: Host, action: actions.Scale) -> Troubles:
    def scale(key: Key, _obj: Obj) -> None:
        field = "parallelism" if key.gk == "Job.batch" else "replicas"
        patch(host, key, {"spec": {field: action.replicas}})

    return _each(host, action.chosen, scale)


def _suspend(host: Host, action: actions.Suspend) -> Troubles:
    return _each(host, action.chosen, lambda key, _o: patch(host, key, {"spec": {"suspend": action.on}}))


def _cordon(host: Host, action: actions.Cordon) -> Troubles:
    return _each(host, action.nodes, lambda key, _o: cordon(host, key, action.on))


def cordon(host: Host, key: Key, on: bool) -> None:
    patch(host, key, {"spec": {"unschedulable": True if on else None}})


def _fail_node(host: Host, action: actions.FailNode) -> Troubles:
    def fail(key: Key, _obj: Obj) -> None:
        plan_fault(host, "crash", key.name)
        if action.recover_us:
            plan_fault(host, "recover", key.name, after_us=action.recover_us)

    return _each(host, action.nodes, fail)


def _break_gpu(host: Host, action: actions.BreakGpu) -> Troubles:
    def strike(key: Key, obj: Obj) -> str | None:
        count = gpus_of_node(obj).count
        if action.gpu >= count:
            return f"it has {count} GPUs that are known by model, numbered from 0: none is {action.gpu}"
        break_gpu(host, key.name, action.gpu, action.cause, repair_us=action.repair_us, drains=action.drains)
        return None

    return _each(host, action.nodes, strike)


def _recover_node(host: Host, action: actions.RecoverNode) -> Troubles:
    return _each(host, action.nodes, lambda key, _o: plan_fault(host, "recover", key.name))


def _remove_node(host: Host, action: actions.RemoveNode) -> Troubles:
    return _each(host, action.nodes, lambda key, _o: plan_fault(host, "remove", key.name))


def _set_taints(host: Host, action: actions.SetTaints) -> Troubles:
    def taint(key: Key, obj: Obj) -> None:
        gone = {(t.key, t.effect) for t in action.added}
        kept = [
            t
            for t in spec_of(obj).get("taints") or ()
            if (t.get("key"), t.get("effect")) not in gone and not _is_removed(t, action.removed)
        ]
        taints = [*kept, *(taint_object(t) for t in action.added)]
        host.store.replace({**obj, "spec": {**spec_of(obj), "taints": taints}})

    return _each(host, action.nodes, taint)


def _is_removed(taint: dict[str, Any], removed: tuple[tuple[str, str], ...]) -> bool:
    return any(taint.get("key") == key and effect in ("", taint.get("effect")) for key, effect in removed)


def _set_labels(host: Host, action: actions.SetLabels) -> Troubles:
    labels = {"metadata": {"labels": dict(action.labels)}}
    return _each(host, action.chosen, lambda key, _o: patch(host, key, labels))


def _set_quota(host: Host, action: actions.SetQuota) -> Troubles:
    spec = {"hard": dict(action.hard)}
    if host.store.get(action.key) is None:
        meta = {"name": action.key.name, "namespace": action.key.namespace}
        enter(host, {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": spec})
    else:
        patch(host, action.key, {"spec": spec})
    return []


def _evict(host: Host, action: actions.Evict) -> Troubles:
    return _each(host, action.pods, lambda key, _o: evict_once(host, key, action.grace_s))


def evict_once(host: Host, key: Key, grace_s: int | None) -> str | None:
    """The eviction API; returns its refusal."""
    decided = evict(host.store, key, host.loop.now_us, grace_s=grace_s)
    if not decided.is_allowed:
        return f"{key}: {decided.message}"
    for action in decided.actions:
        perform(host.store, action)
    host.log.record(host.loop.now_us, NAME, key.gk, key.namespace, key.name, "Evicted")
    return None


def _kill_pod(host: Host, action: actions.KillPod) -> Troubles:
    return _each(host, action.pods, lambda key, _o: plan_fault(host, "kill", key, "", action.exit_code))


def _comment(host: Host, action: actions.Comment) -> Troubles:
    host.log.record(host.loop.now_us, NAME, "Scenario", "", "", "Comment", action.text)
    return []


def _drain(_host: Host, _action: actions.Drain) -> Troubles:
    raise AssertionError("a drain takes time: the component does it")


_VERBS: dict[type, Callable[[Host, Any], Troubles]] = {
    actions.Apply: _apply,
    actions.Delete: _delete,
    actions.Patch: _patch,
    actions.Scale: _scale,
    actions.Suspend: _suspend,
    actions.Cordon: _cordon,
    actions.Drain: _drain,
    actions.FailNode: _fail_node,
    actions.BreakGpu: _break_gpu,
    actions.RecoverNode: _recover_node,
    actions.RemoveNode: _remove_node,
    actions.SetTaints: _set_taints,
    actions.SetLabels: _set_labels,
    actions.SetQuota: _set_quota,
    actions.Evict: _evict,
    actions.KillPod: _kill_pod,
    actions.Comment: _comment,
}
