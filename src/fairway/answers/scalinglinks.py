"""Why did it (not) scale? What autoscalers say of themselves and of their target, and what they did to it.

Asked of an autoscaler, its own conditions decide; asked of what is scaled, they are noted beside what holds its pods.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from fairway.answers.explanation import BLOCKED, NOTED, PASSED, SCALING, WAITS, Explanation, Link
from fairway.answers.naming import named, ref
from fairway.autoscaling.scales import Target, target_of
from fairway.ground import Moment
from fairway.kube.conditions import get_condition
from fairway.kube.kinds import group_kind
from fairway.kube.objects import Key, Obj, controller_of, key_of, meta_of, spec_of, status_of
from fairway.kube.timestamps import format_duration
from fairway.twin.autoscaling.component import NAME, Autoscaling
from fairway.twin.autoscaling.journal import Scaling
from fairway.workloads.knative import names as knative

HPA: Final = "HorizontalPodAutoscaler.autoscaling"
SCALED_OBJECT: Final = "ScaledObject.keda.sh"
VPA: Final = "VerticalPodAutoscaler.autoscaling.k8s.io"
SCALERS: Final = (HPA, SCALED_OBJECT, VPA, knative.POD_AUTOSCALER)
_CHANGES_TOLD: Final = 5
# The conditions of each kind that must be True for it to scale.
_NEEDED: Final = {
    HPA: ("AbleToScale", "ScalingActive"),
    SCALED_OBJECT: ("Ready",),
    VPA: ("RecommendationProvided",),
    knative.POD_AUTOSCALER: ("ScaleTargetInitialized", "SKSReady"),
}


def scaler_explanation(moment: Moment, scaler: Obj) -> Explanation:
    """One autoscaler: whether it can decide, what it goes by, what it did last."""
    links = [_own(scaler), *_more_of(moment, scaler)]
    blocked = next((link for link in links if link.state == BLOCKED), None)
    changes = _changes(moment, scaler)
    state = "Scaling" if blocked is None else "NotScaling"
    if blocked is not None:
        sentence = f"{named(scaler)} does not scale: {blocked.message}"
    else:
        sentence = f"{named(scaler)} scales {_aim(scaler)}: {links[0].message}"
    if changes:
        links.append(_history(moment, changes))
    key = key_of(scaler)
    since = str(meta_of(scaler).get("creationTimestamp") or "")
    return Explanation(
        f"{key.namespace}/{ref(key)}", state, since, sentence, tuple(links), unknown=moment.notes
    )


def scaling_links(moment: Moment, obj: Obj) -> list[Link]:
    """Of what is scaled: its autoscalers and their last changes, as notes. O(autoscalers of its namespace)."""
    namespace = meta_of(obj).get("namespace") or ""
    found: list[Link] = []
    for gk in SCALERS:
        for scaler in moment.store.objects(gk, namespace):
            if _aims_at(scaler, obj):
                link = _own(scaler)
                details = [*link.details, *(_told(moment, c) for c in _changes(moment, scaler))]
                about = f"{ref(key_of(scaler))}: {link.message}"
                found.append(Link(SCALING, NOTED, link.reason, about, link.numbers, tuple(details)))
    return found


# Who scales what


def _aim(scaler: Obj) -> str:
    of = _reference(scaler)
    return f"{of.get('kind', '')} {of.get('name', '')}".strip() or "nothing"


def _reference(scaler: Obj) -> dict[str, Any]:
    spec = spec_of(scaler)
    told = dict(spec.get("scaleTargetRef") or spec.get("targetRef") or {})
    if told and scaler["kind"] == "ScaledObject":
        told = {"apiVersion": "apps/v1", "kind": "Deployment", **told}
    return told


def _aims_at(scaler: Obj, obj: Obj) -> bool:
    of, key = _reference(scaler), key_of(obj)
    if of.get("name") == key.name and of.get("kind"):
        return group_kind(of.get("apiVersion") or "", of["kind"]) == key.gk
    owner = controller_of(scaler)
    return owner is not None and owner.get("uid") == meta_of(obj).get("uid")


# What it says


def _own(scaler: Obj) -> Link:
    """Its conditions: the first that keeps it from scaling, else where it stands."""
    gk, status = key_of(scaler).gk, status_of(scaler)
    conditions = status.get("conditions")
    numbers = _numbers(gk, scaler)
    details = tuple(_measured(scaler)) if gk == HPA else ()
    if not conditions:
        return Link(SCALING, WAITS, "", "its controller has not looked at it yet", numbers, details)
    for type_ in _NEEDED[gk]:
        condition = get_condition(conditions, type_)
        if condition is not None and condition.get("status") == "False":
            said = condition.get("message") or f"{type_} is False"
            return Link(SCALING, BLOCKED, condition.get("reason", ""), said, numbers, details)
    limited = get_condition(conditions, "ScalingLimited")
    if limited is not None and limited.get("status") == "True":
        return Link(SCALING, PASSED, limited["reason"], limited["message"], numbers, details)
    active = get_condition(conditions, "Active")
    if active is not None and active.get("status") != "True" and active.get("message"):
        return Link(SCALING, PASSED, active.get("reason", ""), active["message"], numbers, details)
    able = get_condition(conditions, "AbleToScale")
    said = _standing(numbers) + (f"; {able['message']}" if able is not None else "")
    return Link(SCALING, PASSED, "" if able is None else able.get("reason", ""), said, numbers, details)


def _numbers(gk: str, scaler: Obj) -> dict[str, Any]:
    spec, status = spec_of(scaler), status_of(scaler)
    if gk == HPA:
        return {
            "current": status.get("currentReplicas", 0),
            "desired": status.get("desiredReplicas", 0),
            "min": spec.get("minReplicas", 1),
            "max": spec.get("maxReplicas", 0),
        }
    if gk == knative.POD_AUTOSCALER:
        return {"current": status.get("actualScale", 0), "desired": status.get("desiredScale", -1)}
    return {}


def _standing(numbers: dict[str, Any]) -> str:
    if not numbers:
        return "it is ready"
    bounds = f" (between {numbers['min']} and {numbers['max']})" if "max" in numbers else ""
    return f"{numbers['desired']} replicas are desired, {numbers['current']} are there{bounds}"


def _measured(scaler: Obj) -> list[str]:
    """Each metric beside its target."""
    now = status_of(scaler).get("currentMetrics") or ()
    found = []
    for number, metric in enumerate(spec_of(scaler).get("metrics") or ()):
        source, target = _value(metric, "target")
        current = _value(now[number], "current")[1] if number < len(now) else ""
        found.append(f"{metric.get('type')} {source}: {current or 'unknown'}, target {target}")
    return found


def _value(metric: dict[str, Any], member: str) -> tuple[str, str]:
    """A metric's name, and its value or target as kubectl writes it."""
    kind = str(metric.get("type") or "")
    part = metric.get(kind[:1].lower() + kind[1:]) or {}
    name = str(part.get("name") or (part.get("metric") or {}).get("name") or "")
    value = part.get(member) or {}
    if value.get("averageUtilization") is not None:
        return name, f"{value['averageUtilization']}%"
    for which, suffix in (("averageValue", " for each pod"), ("value", "")):
        if value.get(which) is not None:
            return name, f"{value[which]}{suffix}"
    return name, ""


def _more_of(moment: Moment, scaler: Obj) -> list[Link]:
    """Its target, and the autoscaler that KEDA made for it."""
    key = key_of(scaler)
    of = _reference(scaler)
    found: list[Link] = []
    if of.get("kind") and of.get("name"):
        target = target_of(moment.store, key.namespace, of)
        if isinstance(target, Target):
            scale = target.scale
            said = f"{ref(target.key)}: {scale.wanted} replicas asked for, {scale.there} there"
            found.append(Link(SCALING, PASSED, "", said, {"wanted": scale.wanted, "there": scale.there}))
        elif key.gk in (HPA, SCALED_OBJECT):
            found.append(Link(SCALING, BLOCKED, "FailedGetScale", target))
    if key.gk == SCALED_OBJECT:
        name = status_of(scaler).get("hpaName") or f"keda-hpa-{key.name}"
        made = moment.store.get(Key(HPA, key.namespace, name))
        if made is not None:
            link = _own(made)
            found.append(
                Link(SCALING, link.state, link.reason, f"{name}: {link.message}", link.numbers, link.details)
            )
    return found


# What it did


def _changes(moment: Moment, scaler: Obj) -> Sequence[Scaling]:
    room = moment.twin.host.parts.get(NAME)
    if not isinstance(room, Autoscaling):
        return ()
    mine = str(key_of(scaler))
    return [s for s in room.journal.scalings if s.by == mine][-_CHANGES_TOLD:]


def _history(moment: Moment, changes: Sequence[Scaling]) -> Link:
    last = changes[-1]
    said = f"last changed {last.before} → {last.after} replicas {_ago(moment, last)}"
    return Link(SCALING, NOTED, "", said, {"changes": len(changes)}, tuple(_told(moment, c) for c in changes))


def _told(moment: Moment, change: Scaling) -> str:
    return f"{_ago(moment, change)}: {change.before} → {change.after} ({change.ready} ready): {change.why}"


def _ago(moment: Moment, change: Scaling) -> str:
    return f"{format_duration(moment.now_us - change.at_us)} ago"
