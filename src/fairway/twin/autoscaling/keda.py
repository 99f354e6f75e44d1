"""KEDA on the loop: ScaledObjects and their autoscalers, ScaledJobs and their jobs.

What is polled is polled every polling interval, as long as a poll may find anything else; HorizontalPodAutoscalers get
their external metrics here, as from KEDA's metrics server.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from fairway.autoscaling.keda import conditions as states
from fairway.autoscaling.keda import scaledobjects
from fairway.autoscaling.keda.formulas import FormulaFault, evaluate
from fairway.autoscaling.keda.scaledobjects import COMPOSITE, OWNER_LABEL, Activity, Step
from fairway.autoscaling.keda.triggers import (
    CRON,
    EXTERNAL_KINDS,
    PODS,
    RESOURCE,
    Probe,
    TriggerFault,
    asked_of,
    external_probes,
    probe,
)
from fairway.autoscaling.scales import Target, target_of, with_replicas
from fairway.autoscaling.source import NEVER_US, MetricsError
from fairway.cluster.actions import SetStatus, perform
from fairway.cluster.changes import DELETED, Change
from fairway.cluster.errors import ApiError
from fairway.kube.defaults import apply_defaults
from fairway.kube.kinds import group_kind
from fairway.kube.labels import Selector
from fairway.kube.objects import Key, Obj, spec_of
from fairway.kube.timestamps import SECOND_US, parse_rfc3339, rfc3339
from fairway.twin.autoscaling import horizontal, kedafallback, kedajobs, probing
from fairway.twin.autoscaling.journal import Scaling
from fairway.twin.autoscaling.probing import Found
from fairway.twin.loop import CONTROLLERS

if TYPE_CHECKING:
    from fairway.twin.autoscaling.component import Autoscaling

SCALED_OBJECT: Final = "ScaledObject.keda.sh"
SCALED_JOB: Final = "ScaledJob.keda.sh"
AUTHENTICATIONS: Final = ("TriggerAuthentication.keda.sh", "ClusterTriggerAuthentication.keda.sh")
COMPONENT: Final = "keda-operator"
_NOT_MADE: Final = "failed to ensure HPA is correctly created for ScaledObject"
# What KEDA names as the trigger that a formula stands for.
_OF_MODIFIERS: Final = "ModifiersTrigger"
_RPC: Final = "rpc error: code = Unknown desc = error when getting metric values"


@dataclass(slots=True)
class Entry:
    """One ScaledObject or ScaledJob. `probes` None: it is not as it should be, or paused."""

    born_us: int
    probes: tuple[Probe, ...] | None = None
    due_us: int = 0
    was_active: bool = False
    polled_us: int = 0
    last_active_us: int | None = None
    failures: dict[str, int] = field(default_factory=dict)
    target: Key | None = None
    jobs_made: int = 0
    original: int | None = None
    is_watched: bool = False


class Keda:
    """All of them."""

    def __init__(self, room: Autoscaling) -> None:
        self.room = room
        self.entries: dict[Key, Entry] = {}

    def fork(self, room: Autoscaling) -> Keda:
        twin = Keda(room)
        twin.entries = {k: replace(e, failures=dict(e.failures)) for k, e in self.entries.items()}
        return twin

    # What is observed

    def observe(self, change: Change) -> None:
        key, now_us = change.key, self.room.host.loop.now_us
        if key.gk not in (SCALED_OBJECT, SCALED_JOB):
            for known in self.entries:
                self.reconcile_soon(known)
            return
        if change.type == DELETED:
            entry = self.entries.pop(key, None)
            if entry is not None:
                if entry.is_watched:
                    self.say(key, change.obj, "Normal", "KEDAScalersStopped", "Stopped scalers watch")
                self._restore(entry, change.obj)
            return
        old = change.old
        new = change.obj
        if (
            old is not None
            and old.get("spec") == new.get("spec")
            and old["metadata"].get("annotations") == new["metadata"].get("annotations")
        ):
            return
        self.entries.setdefault(key, Entry(now_us))
        self.reconcile_soon(key)

    def reconcile_soon(self, key: Key) -> None:
        self.room.host.loop.at(self.room.host.loop.now_us, self.room.h_keda, (key, True), CONTROLLERS)

    def target_changed(self, target: Key) -> None:
        for key, entry in self.entries.items():
            if entry.target == target:
                if entry.probes is None:
                    self.reconcile_soon(key)
                self.plan(key, entry, self.room.host.loop.now_us)

    def autoscaler_changed(self, change: Change) -> None:
        """Its health is a condition of the ScaledObject."""
        owner = (change.obj["metadata"].get("labels") or {}).get("app.kubernetes.io/part-of")
        key = Key(SCALED_OBJECT, change.key.namespace, owner or "")
        entry = self.entries.get(key)
        if entry is not None:
            self.plan(key, entry, self.room.host.loop.now_us)

    def wake_all(self) -> None:
        """Loads or pods changed: somebody may find something else."""
        for key, entry in self.entries.items():
            if entry.probes is None and _asks_outside(self.room.host.store.get(key)):
                self.reconcile_soon(key)
            self.plan(key, entry, self.room.host.loop.now_us)

    def pods_changed(self) -> None:
        for key, entry in self.entries.items():
            if key.gk == SCALED_JOB or any(p.source == PODS for p in entry.probes or ()):
                self.plan(key, entry, self.room.host.loop.now_us)

    # When

    def _interval_us(self, obj: Obj) -> int:
        seconds = spec_of(obj).get("pollingInterval")
        return (scaledobjects.POLLING_S if seconds is None else int(seconds)) * SECOND_US

    def plan(self, key: Key, entry: Entry, from_us: int) -> None:
        """Poll at the first of its times after `from_us`."""
        obj = self.room.host.store.get(key)
        if obj is None or entry.probes is None:
            return
        interval_us = max(self._interval_us(obj), SECOND_US)
        at_us = entry.born_us + ((from_us - entry.born_us) // interval_us + 1) * interval_us
        now_us = self.room.host.loop.now_us
        if now_us < entry.due_us <= at_us:
            return
        entry.due_us = at_us
        self.room.host.loop.at(at_us, self.room.h_keda, (key, False), CONTROLLERS)

    def on_turn(self, data: tuple[Key, bool]) -> None:
        key, reconciles = data
        entry, obj = self.entries.get(key), self.room.host.store.get(key)
        now_us = self.room.host.loop.now_us
        if entry is None or obj is None or not (reconciles or entry.due_us == now_us):
            return
        if reconciles:
            if key.gk == SCALED_OBJECT:
                self._reconcile_object(key, entry, obj)
            else:
                kedajobs.reconcile(self, key, entry, obj)
            obj = self.room.host.store.get(key)
        if entry.probes is not None and obj is not None:
            entry.due_us = 0
            if key.gk == SCALED_OBJECT:
                self._poll_object(key, entry, obj)
            else:
                kedajobs.poll(self, key, entry, obj)

    # Making an autoscaler

    def _reconcile_object(self, key: Key, entry: Entry, obj: Obj) -> None:
        entry.probes = None
        status = dict(obj.get("status") or {})
        told = list(status.get("conditions") or states.initialized())
        try:
            made = self._ensure(key, entry, obj, status, told)
            ready = ("True", "ScaledObjectReady", states.READY_MESSAGE if made else "ScaledObject is paused")
            if states.status_of(told, "Ready") != "True":
                self.say(key, obj, "Normal", "ScaledObjectReady", "ScaledObject is ready for scaling")
        except TriggerFault as fault:
            ready = ("False", "ScaledObjectCheckFailed", str(fault))
            told = states.put(told, "Active", "Unknown", "UnknownState", "ScaledObject check failed")
            self.say(key, obj, "Warning", "ScaledObjectCheckFailed", str(fault))
        told = states.put(told, "Ready", *ready)
        if "fallback" not in spec_of(obj):
            told = states.put(
                told, "Fallback", "False", "NoFallbackFound", "No fallbacks are active on this scaled object"
            )
        held = scaledobjects.paused(obj)
        is_held = held.whole or held.scale_in or held.scale_out
        if is_held != (states.status_of(told, "Paused") == "True"):
            said = ("True", "ScaledObjectPaused", "ScaledObject is paused")
            if not is_held:
                said = ("False", "ScaledObjectUnpaused", "pause annotation removed for ScaledObject")
            told = states.put(told, "Paused", *said)
            self.say(key, obj, "Normal", said[1], said[2])
        self.write(key, {**status, "conditions": told})

    def _ensure(
        self, key: Key, entry: Entry, obj: Obj, status: dict[str, Any], told: list[dict[str, Any]]
    ) -> bool:
        """The target, the triggers and the autoscaler, or why not; False while it is paused. Raises: TriggerFault."""
        ref = spec_of(obj)["scaleTargetRef"]
        version, kind = ref.get("apiVersion") or "apps/v1", ref.get("kind") or "Deployment"
        entry.target = Key(group_kind(version, kind), key.namespace, ref["name"])
        self.room.watch(entry.target.gk)
        found = target_of(
            self.room.host.store, key.namespace, {"apiVersion": version, "kind": kind, "name": ref["name"]}
        )
        if isinstance(found, str):
            self.say(key, obj, "Warning", "ScaledObjectCheckFailed", _target_fault(found))
            raise TriggerFault(f"ScaledObject doesn't have correct scaleTargetRef specification: {found}")
        status.setdefault("originalReplicaCount", found.scale.wanted)
        entry.original = status["originalReplicaCount"]
        status["scaleTargetKind"] = f"{version}.{kind}"
        fault = scaledobjects.bounds_fault(spec_of(obj))
        if fault:
            raise TriggerFault(
                f"ScaledObject doesn't have correct Idle/Min/Max Replica Counts specification: {fault}"
            )
        held = scaledobjects.paused(obj)
        if held.whole:
            self._pause(key, obj, found, held.replicas, status)
            return False
        status.pop("pausedReplicaCount", None)
        probes = self.probes_of(obj, key.namespace)
        names = [p.metric for p in probes if p.metric]
        for name in names:
            if names.count(name) > 1:
                raise TriggerFault(
                    f"{_NOT_MADE}: metricName {name} defined multiple times in ScaledObject {key.name}"
                )
        status["externalMetricNames"] = names
        status["triggersTypes"] = ",".join(dict.fromkeys(p.kind for p in probes))
        status["hpaName"] = scaledobjects.autoscaler_name(obj)
        self._make(key, scaledobjects.autoscaler(_labelled(obj), version, kind, probes))
        entry.probes = probes
        self.say_started(key, obj, entry)
        return True

    def say_started(self, key: Key, obj: Obj, entry: Entry) -> None:
        """Every scaler that was built; and the first time that it is watched."""
        for trigger in spec_of(obj).get("triggers") or ():
            self.say(key, obj, "Normal", "KEDAScalersStarted", f"Scaler {trigger.get('type')} is built")
        if not entry.is_watched:
            entry.is_watched = True
            self.say(key, obj, "Normal", "KEDAScalersStarted", "Started scalers watch")

    def probes_of(self, obj: Obj, namespace: str) -> tuple[Probe, ...]:
        """Raises: TriggerFault."""
        probes = []
        for number, trigger in enumerate(spec_of(obj).get("triggers") or ()):
            try:
                auth = probing.parameters(self.room, trigger, namespace)
                if trigger.get("type") in EXTERNAL_KINDS:
                    probes += self._external_probes(obj, number, trigger, auth)
                    continue
                one = probe(number, trigger, namespace, auth)
                fault = probing.cron_fault(one) if one.source == CRON else ""
                fault = fault or (probing.selector_fault(one) if one.source == PODS else "")
                if fault:
                    raise TriggerFault(fault)
            except TriggerFault as wrong:
                raise TriggerFault(
                    f"{_NOT_MADE}: error getting scaler for trigger #{number}: {wrong}"
                ) from None
            probes.append(one)
        if not probes and spec_of(obj).get("triggers"):
            where = f"{obj['kind']} {namespace}/{obj['metadata']['name']}"
            raise TriggerFault(f"{_NOT_MADE}: no metric specs returned from scalers for {where}")
        return tuple(probes)

    def _external_probes(self, obj: Obj, number: int, trigger: Obj, auth: dict[str, str]) -> list[Probe]:
        """As many as its scaler offers metrics. Raises: TriggerFault."""
        meta = obj["metadata"]
        key = Key(f"{obj['kind']}.keda.sh", meta["namespace"], meta["name"])
        asked = asked_of(key, number, trigger, {}, auth)
        told = probing.external(self.room, asked)
        if told is not None and told.fault:
            self.say(key, obj, "Warning", "KEDAScalerFailed", told.fault)
        return external_probes(asked, trigger, told.metrics if told is not None else ())

    def answered(self, key: Key, *, is_another: bool) -> None:
        """A scaler outside said something else; `is_another`: it offers other metrics."""
        entry, now_us = self.entries.get(key), self.room.host.loop.now_us
        if entry is None:
            return
        if is_another or entry.probes is None:
            self.reconcile_soon(key)
        else:
            entry.due_us = now_us
            self.room.host.loop.at(now_us, self.room.h_keda, (key, False), CONTROLLERS)

    def _make(self, key: Key, wanted: Obj) -> None:
        """Create the autoscaler, or let the one that is there be so."""
        host = self.room.host
        meta = wanted["metadata"]
        there = host.store.get(Key(horizontal.GK, meta["namespace"], meta["name"]))
        if there is None:
            try:
                host.create(wanted, partial(self.reconcile_soon, key))
            except ApiError as refused:
                raise TriggerFault(f"{_NOT_MADE}: {refused.message}") from None
            return
        new = apply_defaults(wanted)
        kept = {
            **there["metadata"],
            "labels": meta["labels"],
            **({"annotations": meta["annotations"]} if "annotations" in meta else {}),
        }
        if new["spec"] != there["spec"] or kept != there["metadata"]:
            host.store.replace({**there, "spec": new["spec"], "metadata": kept})

    def _pause(
        self, key: Key, obj: Obj, target: Target, replicas: int | None, status: dict[str, Any]
    ) -> None:
        name = Key(horizontal.GK, key.namespace, scaledobjects.autoscaler_name(obj))
        if self.room.host.store.get(name) is not None:
            self.room.host.store.delete(name)
        if replicas is not None:
            status["pausedReplicaCount"] = replicas
            if target.scale.wanted != replicas:
                self._scale(key, target, replicas, "paused")

    def _restore(self, entry: Entry, obj: Obj) -> None:
        """What a ScaledObject that asks for it leaves behind."""
        advanced = spec_of(obj).get("advanced") or {}
        if (
            not advanced.get("restoreToOriginalReplicaCount")
            or entry.target is None
            or entry.original is None
        ):
            return
        there = self.room.host.store.get(entry.target)
        if there is not None:
            self.room.host.store.patch(entry.target, {"spec": {"replicas": entry.original}})

    # Polling

    def _poll_object(self, key: Key, entry: Entry, obj: Obj) -> None:
        now_us, spec = self.room.host.loop.now_us, spec_of(obj)
        ref = spec["scaleTargetRef"]
        whole = {
            "apiVersion": ref.get("apiVersion") or "apps/v1",
            "kind": ref.get("kind") or "Deployment",
            **ref,
        }
        target = target_of(self.room.host.store, key.namespace, whole)
        status = dict(obj.get("status") or {})
        told = list(status.get("conditions") or states.initialized())
        if isinstance(target, str):
            message = f"Error getting current replicas count for ScaleTarget: {target}"
            told = states.put(told, "Ready", "False", "ErrorGettingCurrentReplicas", message)
            self.write(key, {**status, "conditions": told})
            return
        activity, falls, until_us = self._activity(key, entry, obj)
        if entry.was_active and entry.polled_us:
            entry.last_active_us = max(
                entry.last_active_us or 0, now_us - self._interval_us(obj), entry.polled_us
            )
        created_us = parse_rfc3339(obj["metadata"]["creationTimestamp"])
        step = scaledobjects.step(
            obj, activity, target.scale.wanted, created_us, entry.last_active_us, now_us
        )
        self._act(key, obj, target, step, activity)
        entry.was_active, entry.polled_us = step.touches_active_time, now_us
        if step.touches_active_time:
            entry.last_active_us = now_us
        ready = step.ready or ("True", "ScaledObjectReady", states.READY_MESSAGE)
        told = states.put(told, "Ready", *ready)
        if step.active is not None:
            told = states.put(told, "Active", *step.active)
        told = self._health(key, obj, told)
        if scaledobjects.has_fallback(spec):
            was = states.status_of(told, "Fallback") == "True"
            if falls != was:
                reason, word = ("Activated", "") if falls else ("Deactivated", "no longer ")
                said_ = f"ScaledObject fallback is {word}active"
                self.say(key, obj, "Normal", f"ScaledObjectFallback{reason}", said_)
            most = int(spec["fallback"].get("failureThreshold") or 0)
            said = ("True", "FallbackExists", "At least one trigger is falling back on this scaled object")
            if not any(count > most for count in entry.failures.values()):
                said = ("False", "NoFallbackFound", "No fallbacks are active on this scaled object")
            told = states.put(told, "Fallback", *said)
            status["health"] = {
                metric: {"numberOfFailures": count, "status": "Failing" if count else "Happy"}
                for metric, count in sorted(entry.failures.items())
            }
        status["conditions"] = told
        if entry.last_active_us is not None:
            status["lastActiveTime"] = rfc3339(entry.last_active_us)
        self.write(key, status)
        if activity.errors:
            until_us = now_us
        elif not activity.is_active and target.scale.wanted and step.replicas is None:
            until_us = min(
                until_us, max(scaledobjects.cooled_at(spec, created_us, entry.last_active_us), now_us)
            )
        if until_us < NEVER_US:
            self.plan(key, entry, max(until_us, now_us))

    def _activity(self, key: Key, entry: Entry, obj: Obj) -> tuple[Activity, bool, int]:
        """What all triggers say, whether one falls back, and until when. One that falls back is active."""
        probes, falls = entry.probes or (), False
        if scaledobjects.only_resources(probes):
            return Activity(True, False), False, NEVER_US
        until_us, errors, active = NEVER_US, False, []
        values: dict[str, float | None] = {}
        changed = scaledobjects.modifiers(spec_of(obj))
        for one in probes:
            if one.source == RESOURCE:
                continue
            found = probing.found(self.room, one, key.namespace)
            until_us = min(until_us, found.until_us)
            values[one.name or one.metric] = None if found.fault else found.milli / 1000
            if found.fault:
                until_us = self.room.host.loop.now_us
            instead = kedafallback.instead(self.room, entry, obj, one, found)
            if instead is not None:
                falls = True
            elif found.fault and not kedafallback.is_left_to_formula(entry, obj, one):
                errors = True
                reason = "KEDAMetricSourceFailed" if changed else "KEDAScalerFailed"
                self.say(key, obj, "Warning", reason, found.fault)
            if found.is_active or instead is not None:
                active.append(one.name or one.kind)
        if changed.get("formula") and not falls:
            active = []
            try:
                if not errors and evaluate(changed["formula"], values) > float(
                    changed.get("activationTarget") or 0
                ):
                    active = [_OF_MODIFIERS]
            except (FormulaFault, ValueError):
                errors = True
        return Activity(bool(active), errors, tuple(active)), falls, until_us

    def _act(self, key: Key, obj: Obj, target: Target, step: Step, activity: Activity) -> None:
        if step.replicas is None or step.replicas == target.scale.wanted:
            return
        before = target.scale.wanted
        kind = (obj.get("status") or {}).get("scaleTargetKind") or target.key.gk
        where = f"{kind} {key.namespace}/{target.key.name} from {before} to {step.replicas}"
        if step.is_activation:
            why = f"triggered by {';'.join(activity.active_triggers)}"
            if scaledobjects.is_forced(obj):
                why = "caused by forced activation annotation"
            told = f"Scaled {where}, {why}"
            reason = "KEDAScaleTargetActivated"
        else:
            why = "triggers are not active"
            told = f"Deactivated {where}"
            reason = "KEDAScaleTargetDeactivated"
        if not step.is_activation and step.replicas > before:
            # Up to the minimum: KEDA only writes that to its log.
            self._scale(key, target, step.replicas, "below minReplicaCount")
            return
        self._scale(key, target, step.replicas, why)
        self.say(key, obj, "Normal", reason, told)

    def _scale(self, key: Key, target: Target, replicas: int, why: str) -> None:
        self.room.host.store.patch(target.key, with_replicas(target.paths.wanted, replicas))
        now_us = self.room.host.loop.now_us
        self.room.journal.note(
            Scaling(
                now_us, str(key), str(target.key), target.scale.wanted, replicas, target.scale.there, "", why
            )
        )

    def _health(self, key: Key, obj: Obj, told: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The autoscaler's own condition, mirrored."""
        scaler = self.room.host.store.get(
            Key(horizontal.GK, key.namespace, scaledobjects.autoscaler_name(obj))
        )
        for condition in ((scaler or {}).get("status") or {}).get("conditions") or ():
            if condition["type"] == "ScalingActive":
                if condition["status"] == "True":
                    return states.put(told, "HPAActive", "True", "HPAActive", "HPA is actively scaling")
                if condition["reason"] == "ScalingDisabled":
                    return states.put(told, "HPAActive", "True", "ScalingDisabled", condition["message"])
                message = f"HPA is not actively scaling: {condition['message']}"
                return states.put(told, "HPAActive", "False", condition["reason"], message)
        return told

    # Metrics for autoscalers

    def external(
        self, namespace: str, metric: str, selector: Selector | None
    ) -> list[tuple[int, int]] | None:
        """Values and until when they hold; None where the metric is not KEDA's. Raises: MetricsError."""
        name = next(
            (
                r.values[0]
                for r in (selector.requirements if selector else ())
                if r.key == OWNER_LABEL and r.values
            ),
            "",
        )
        key = Key(SCALED_OBJECT, namespace, name)
        entry, obj = self.entries.get(key), self.room.host.store.get(key)
        if not name or entry is None or obj is None:
            return None
        probes = entry.probes or ()
        if metric == COMPOSITE:
            return [self._composite(key, entry, obj)]
        one = next((p for p in probes if p.metric == metric), None)
        if one is None:
            raise MetricsError(f"{_RPC} no matching metrics found for {metric}")
        found = probing.found(self.room, one, namespace)
        return [self._or_fallback(entry, obj, one, found)]

    def _or_fallback(self, entry: Entry, obj: Obj, one: Probe, found: Found) -> tuple[int, int]:
        """Raises: MetricsError."""
        value = kedafallback.instead(self.room, entry, obj, one, found)
        if not found.fault:
            return found.milli, found.until_us
        if value is None:
            raise MetricsError(f"{_RPC} metric:{one.metric} encountered error")
        return value, self.room.host.loop.now_us

    def _composite(self, key: Key, entry: Entry, obj: Obj) -> tuple[int, int]:
        values: dict[str, float | None] = {}
        until_us = NEVER_US
        for one in entry.probes or ():
            if one.source != RESOURCE:
                found = probing.found(self.room, one, key.namespace)
                until_us = min(until_us, found.until_us)
                values[one.name or one.metric] = None if found.fault else found.milli / 1000
        try:
            return round(evaluate(scaledobjects.modifiers(spec_of(obj))["formula"], values) * 1000), until_us
        except FormulaFault as fault:
            raise MetricsError(f"{_RPC} error applying custom modifiers: {fault}") from None

    # Writing

    def write(self, key: Key, status: dict[str, Any]) -> None:
        perform(self.room.host.store, SetStatus(key, status))

    def say(self, key: Key, obj: Obj, kind: str, reason: str, message: str) -> None:
        host = self.room.host
        now_us = host.loop.now_us
        host.events.emit(now_us, key, obj["metadata"]["uid"], kind, reason, message, COMPONENT)
        host.log.record(now_us, COMPONENT, key.gk, key.namespace, key.name, reason, message)


def _labelled(obj: Obj) -> Obj:
    """With the label by which KEDA's metrics server finds it."""
    meta = obj["metadata"]
    labels = {**(meta.get("labels") or {}), OWNER_LABEL: meta["name"]}
    return {**obj, "metadata": {**meta, "labels": labels}}


def _asks_outside(obj: Obj | None) -> bool:
    return obj is not None and any(
        t.get("type") in EXTERNAL_KINDS for t in spec_of(obj).get("triggers") or ()
    )


def _target_fault(fault: str) -> str:
    if fault.endswith("not found"):
        return "Target resource doesn't exist"
    return "Target resource doesn't expose /scale subresource"
