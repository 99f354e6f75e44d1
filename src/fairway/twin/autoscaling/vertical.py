"""VerticalPodAutoscalers on the loop: every minute usage is sampled, recommendations are written, pods are updated."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from fairway.autoscaling.vpa import policies, updating
from fairway.autoscaling.vpa.admitting import GK, in_place, selector_of, target_key
from fairway.autoscaling.vpa.recommending import (
    Recommendation,
    Usage,
    add_cpu,
    add_memory,
    add_oom,
    amounts_text,
    recommend,
)
from fairway.cluster.actions import SetStatus, perform
from fairway.cluster.changes import DELETED, Change
from fairway.cluster.metadata import qos_class
from fairway.kube.objects import Key, Obj, controller_of
from fairway.kube.quantity import whole_ceil
from fairway.kube.timestamps import MINUTE_US, parse_rfc3339, rfc3339
from fairway.kube.validation.validating import changed
from fairway.twin.loop import CONTROLLERS
from fairway.workloads.disruption.eviction import evict

if TYPE_CHECKING:
    from fairway.twin.autoscaling.component import Autoscaling

INTERVAL_US: Final = MINUTE_US
UPDATER: Final = "vpa-updater"


@dataclass(slots=True)
class Entry:
    """One autoscaler: what its pods used, by container; which runs out of memory were counted."""

    usages: dict[str, Usage] = field(default_factory=dict)
    sampled_us: dict[str, int] = field(default_factory=dict)
    ooms: dict[str, str] = field(default_factory=dict)
    resizing_us: dict[str, int] = field(default_factory=dict)
    """Since when pods, by UID, are being resized in place."""


class Vertical:
    """All of them."""

    def __init__(self, room: Autoscaling) -> None:
        self._room = room
        self.entries: dict[Key, Entry] = {}

    def fork(self, room: Autoscaling) -> Vertical:
        twin = Vertical(room)
        twin.entries = {
            key: Entry(
                {n: u.copy() for n, u in e.usages.items()},
                dict(e.sampled_us),
                dict(e.ooms),
                dict(e.resizing_us),
            )
            for key, e in self.entries.items()
        }
        return twin

    def observe(self, change: Change) -> None:
        if change.type == DELETED:
            self.entries.pop(change.key, None)
        elif change.key not in self.entries:
            self.entries[change.key] = Entry()
            self._plan(change.key)

    def _plan(self, key: Key) -> None:
        loop = self._room.host.loop
        loop.at(loop.now_us + INTERVAL_US, self._room.h_vertical, key, CONTROLLERS)

    def on_turn(self, key: Key) -> None:
        entry, autoscaler = self.entries.get(key), self._room.host.store.get(key)
        if entry is None or autoscaler is None:
            return
        self._plan(key)
        selector = selector_of(self._room.host.store, autoscaler)
        if selector is None:
            self._write(key, autoscaler, None, self._no_target(autoscaler))
            return
        pods = [
            p
            for p in self._room.index.pods(key.namespace, selector)
            if (p.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
        ]
        usages = self._room.measured.usage(key.namespace, selector)
        for pod in pods:
            self._sample(entry, pod, usages.get(pod["metadata"]["name"]))
        found = recommend({n: u for n, u in entry.usages.items() if policies.is_scaled(autoscaler, n)})
        status = self._write(key, autoscaler, found, None if pods else _NO_PODS)
        if policies.mode(autoscaler) in (policies.RECREATE, policies.AUTO, policies.IN_PLACE):
            self._update(key, autoscaler, pods, status)

    def _sample(self, entry: Entry, pod: Obj, usage: Any) -> None:
        uid = pod["metadata"]["uid"]
        if usage is not None and usage.at_us > entry.sampled_us.get(uid, -1):
            entry.sampled_us[uid] = usage.at_us
            for name, amounts in usage.containers.items():
                of = entry.usages.setdefault(name, Usage())
                add_cpu(of, amounts["cpu"], usage.at_us)
                add_memory(of, uid, amounts["memory"] // 1000, usage.at_us)
        for told in (pod.get("status") or {}).get("containerStatuses") or ():
            ended = (told.get("lastState") or {}).get("terminated") or {}
            at = ended.get("finishedAt")
            place = f"{uid}/{told['name']}"
            if ended.get("reason") == "OOMKilled" and at and entry.ooms.get(place) != at:
                entry.ooms[place] = at
                requested = _requested(pod, told["name"])
                add_oom(entry.usages.setdefault(told["name"], Usage()), uid, requested, parse_rfc3339(at))

    def _write(
        self,
        key: Key,
        autoscaler: Obj,
        found: dict[str, Recommendation] | None,
        trouble: tuple[str, str] | None,
    ) -> dict[str, Any]:
        before: dict[str, Any] = autoscaler.get("status") or {}
        status: dict[str, Any] = {}
        if found:
            status["recommendation"] = {
                "containerRecommendations": [_told(autoscaler, name, r) for name, r in found.items()]
            }
        elif before.get("recommendation"):
            status["recommendation"] = before["recommendation"]
        now = rfc3339(self._room.host.loop.now_us)
        told = [("RecommendationProvided", "True" if status else "False", "", "")]
        if trouble is not None:
            told.append((trouble[0], "True", trouble[0], trouble[1]))
        known = {(c["type"], c["status"]): c for c in before.get("conditions") or ()}
        status["conditions"] = [
            {
                "type": kind,
                "status": state,
                "lastTransitionTime": known.get((kind, state), {}).get("lastTransitionTime", now),
                **({"reason": reason, "message": message} if reason else {}),
            }
            for kind, state, reason, message in sorted(told)
        ]
        perform(self._room.host.store, SetStatus(key, status))
        return status

    def _no_target(self, autoscaler: Obj) -> tuple[str, str]:
        if not (autoscaler.get("spec") or {}).get("targetRef"):
            return ("ConfigUnsupported", "targetRef not defined. If this is a v1beta1 object switch to v1.")
        key = target_key(autoscaler)
        kind = key.gk.partition(".")[0]
        what = f"{kind} {key.namespace}/{key.name} does not exist"
        return ("ConfigUnsupported", f"Cannot read targetRef. Reason: {what}")

    # The updater

    def _update(self, key: Key, autoscaler: Obj, pods: list[Obj], status: dict[str, Any]) -> None:
        told = (status.get("recommendation") or {}).get("containerRecommendations") or ()
        by_name = {r["containerName"]: r for r in told}
        now_us = self._room.host.loop.now_us
        if not by_name:
            return
        candidates = []
        for pod in pods:
            found = updating.priority(pod, by_name)
            is_leaving = "deletionTimestamp" in pod["metadata"]
            if not is_leaving and updating.is_worth_it(autoscaler, pod, found, now_us):
                candidates.append((pod, found))
        if not candidates:
            return
        left = self._allowed(autoscaler, pods)
        ordered = updating.in_order(candidates)
        if policies.mode(autoscaler) == policies.IN_PLACE:
            ordered = self._resize(key, autoscaler, ordered, by_name, left)
        for pod in ordered:
            uid = _owner_uid(pod)
            is_pending = (pod.get("status") or {}).get("phase") == "Pending"
            if (left.get(uid, 0) > 0 or is_pending) and self._evict(key, autoscaler, pod) and not is_pending:
                left[uid] -= 1

    def _resize(
        self,
        key: Key,
        autoscaler: Obj,
        pods: list[Obj],
        recommended: dict[str, Any],
        left: dict[str, int],
    ) -> list[Obj]:
        """Resize in place what can be; returns the pods that are to be evicted instead."""
        entry, now_us, rest = self.entries[key], self._room.host.loop.now_us, []
        targets = {name: told["target"] for name, told in recommended.items()}
        for pod in pods:
            uid, owner = pod["metadata"]["uid"], _owner_uid(pod)
            if owner not in left:
                continue
            if updating.resizing(pod) is not None:
                entry.resizing_us.setdefault(uid, now_us)
            else:
                entry.resizing_us.pop(uid, None)
            since_us = entry.resizing_us.get(uid, now_us)
            found = updating.in_place(pod, may_disturb=left[owner] > 0, since_us=since_us, now_us=now_us)
            if found == updating.EVICTED or (
                found == updating.APPROVED and not self._resized(key, autoscaler, pod, targets)
            ):
                rest.append(pod)
            elif found == updating.APPROVED:
                left[owner] -= 1
        return rest

    def _resized(self, key: Key, autoscaler: Obj, pod: Obj, targets: dict[str, Any]) -> bool:
        """Through the `resize` subresource; False where the API server would refuse it."""
        host = self._room.host
        about = Key("Pod", key.namespace, pod["metadata"]["name"])
        new = {**pod, "spec": {**pod["spec"], "containers": in_place(autoscaler, pod, targets)}}
        if changed(new, pod, "resize", (qos_class(pod["spec"]), qos_class(new["spec"]))):
            return False
        host.store.patch(about, {"spec": {"containers": new["spec"]["containers"]}})
        message = "Pod was resized in place by VPA Updater."
        now_us, uid = host.loop.now_us, pod["metadata"]["uid"]
        host.events.emit(now_us, about, uid, "Normal", "InPlaceResizedByVPA", message, UPDATER)
        host.log.record(now_us, UPDATER, "Pod", about.namespace, about.name, "InPlaceResizedByVPA", message)
        return True

    def _allowed(self, autoscaler: Obj, pods: list[Obj]) -> dict[str, int]:
        """How many of each group may go."""
        running: dict[str, int] = {}
        for pod in pods:
            owner = controller_of(pod)
            if owner is not None:
                is_there = (pod.get("status") or {}).get("phase") == "Running"
                running[owner["uid"]] = running.get(owner["uid"], 0) + is_there
        least = policies.min_replicas(autoscaler)
        found = {}
        for uid, there in running.items():
            owner = self._room.host.store.by_uid(uid)
            configured = ((owner or {}).get("spec") or {}).get("replicas")
            found[uid] = updating.may_go(there if configured is None else configured, there, least)
        return found

    def _evict(self, key: Key, autoscaler: Obj, pod: Obj) -> bool:
        """Through the eviction API: budgets count."""
        host = self._room.host
        now_us = host.loop.now_us
        about = Key("Pod", key.namespace, pod["metadata"]["name"])
        decided = evict(host.store, about, now_us)
        if not decided.is_allowed:
            return False
        for action in decided.actions:
            perform(host.store, action)
        message = "Pod was evicted by VPA Updater to apply resource recommendation."
        host.events.emit(now_us, about, pod["metadata"]["uid"], "Normal", "EvictedByVPA", message, UPDATER)
        message = f"VPA Updater evicted Pod {about.name} to apply resource recommendation."
        host.events.emit(now_us, key, autoscaler["metadata"]["uid"], "Normal", "EvictedPod", message, UPDATER)
        host.log.record(now_us, UPDATER, GK, key.namespace, key.name, "EvictedPod", message)
        return True


def _owner_uid(pod: Obj) -> str:
    owner = controller_of(pod)
    return "" if owner is None else str(owner["uid"])


_NO_PODS: Final = ("NoPodsMatched", "No pods match this VPA object")


def _requested(pod: Obj, container: str) -> int:
    for one in pod["spec"]["containers"]:
        if one["name"] == container:
            requests = (one.get("resources") or {}).get("requests") or {}
            return whole_ceil(requests["memory"]) if "memory" in requests else 0
    return 0


def _told(autoscaler: Obj, name: str, found: Recommendation) -> dict[str, Any]:
    capped = policies.capped(autoscaler, name, found)
    controlled = capped.target.keys()

    def text(amounts: Any) -> dict[str, str]:
        return {k: v for k, v in amounts_text({**found.target, **amounts}).items() if k in controlled}

    return {
        "containerName": name,
        "lowerBound": text(capped.lower),
        "target": text(capped.target),
        "uncappedTarget": text(found.target),
        "upperBound": text(capped.upper),
    }
