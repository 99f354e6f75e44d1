"""One recorded cluster with devices, in a twin.

What ran where this was recorded runs here: the scheduler, the resource claim controller, device taint eviction, the
garbage collector. There was no kubelet: a pod that is bound runs, and ends when its annotations say so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from fairway.admission.request import Denied
from fairway.cluster.errors import ApiError
from fairway.cluster.patches import merge_patch
from fairway.errors import BugError
from fairway.kube.conditions import set_condition
from fairway.kube.defaults import apply_defaults
from fairway.kube.devicedefaults import with_taint_times
from fairway.kube.kinds import kind_named
from fairway.kube.objects import Key, Obj, gk_of, meta_of, name_of, spec_of, status_of
from fairway.kube.resourceclaims import CLAIM, SLICE, TEMPLATE
from fairway.kube.timestamps import SECOND_US, rfc3339
from fairway.kube.validation.devices.requests import admin_problem
from fairway.kube.validation.validating import validate
from fairway.scheduling.queue import ACTIVE, BACKING_OFF, QueuedPod
from fairway.scheduling.verdict import Scheduled
from fairway.twin.components import Component
from fairway.twin.controllers import Controllers
from fairway.twin.devices.evicting import DeviceTaintEviction
from fairway.twin.latency import NONE
from fairway.twin.ownergc import OwnerGarbageCollector
from fairway.twin.scheduler import SchedulerComponent
from fairway.twin.twin import Twin
from fairway.workloads import resourceclaims

_SECONDS, _EXIT = "rec/seconds", "rec/exit"
_PREEMPTOR: Final = re.compile(r"Preempted by pod \S+")
_STEP_US: Final = SECOND_US // 10
# Long enough for the scheduler to hear of a pod that ended, too short for its claims to be given back.
_AT_ONCE_US: Final = 500
_QUIET_STEPS: Final = 7
_MOST_STEPS: Final = 200
_ENDED: Final = ("Succeeded", "Failed")


class _Led(SchedulerComponent):
    """The scheduler, given the recorded node where it would draw one, and remembering scores."""

    def __init__(self) -> None:
        super().__init__()
        self.wanted: dict[str, str] = {}
        self.sheets: dict[str, Obj] = {}

    def _try(self, queued: QueuedPod, now_us: int) -> None:
        scheduler, record = self.schedulers[queued.record.shape.scheduler_name], queued.record
        sheet = scheduler.score_sheet(record)
        if len(sheet.nodes) > 1:
            dra = sheet.by_plugin.get("DynamicResources") or (0,) * len(sheet.nodes)
            total = dict(zip(sheet.nodes, sheet.totals, strict=True))
            self.sheets[record.key.name] = {"total": total, "dra": dict(zip(sheet.nodes, dra, strict=True))}
        self._drawn = self._leading_to(self.wanted.get(record.key.name), scheduler, record, now_us)
        super()._try(queued, now_us)

    def fork(self) -> _Led:
        raise BugError("a recording is played once")

    def _leading_to(self, node: str | None, scheduler: Any, record: Any, now_us: int) -> int:
        """The draw that leads to this node, if one does."""
        start = scheduler.next_start
        tied, draw = 1, 0
        while node is not None and draw < tied:
            verdict = scheduler.place(record, draw, now_us)
            scheduler.next_start = start
            if not isinstance(verdict, Scheduled):
                break
            if verdict.node == node:
                return draw
            tied, draw = verdict.tied, draw + 1
        return 0

    def draw(self) -> int:
        return self._drawn


class Player:
    """One cluster being played."""

    def __init__(self, objects: Iterable[Obj]) -> None:
        self._scheduler = _Led()
        components: list[Component] = [
            OwnerGarbageCollector(),
            DeviceTaintEviction(),
            Controllers(resourceclaims.CONTROLLERS, resourceclaims.affected, "resource-claim-controller"),
            self._scheduler,
        ]
        self.twin = Twin(latency=NONE, components=components)
        self.names: dict[str, str] = {}
        self.scores: dict[str, Obj] = {}
        self._running: dict[Key, int] = {}
        self.events: list[Obj] = []
        self._ended: set[str] = set()
        self._told: set[tuple[str, str, str]] = set()
        for obj in ({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}, *objects):
            self._create(obj)
        self.twin.wake()
        self._settle()

    def follows(self, recorded: Obj) -> None:
        """Where the recorded pods of the next step went, and which of them ended in it."""
        pods = recorded.get("pods") or {}
        self._ended |= {name for name, p in pods.items() if p.get("phase") in _ENDED}
        self._scheduler.wanted = {name: p["node"] for name, p in pods.items() if p.get("node")}

    def play(self, do: Iterable[Obj], *, is_early: bool = False) -> list[str | None]:
        """Do all of it, then wait until nothing happens any more; the refusals, None for what was taken.

        `is_early`: pods that ended did so well before, and all was quiet again.
        """
        self._scheduler.sheets = {}
        if self._live():
            self._run(_STEP_US) if is_early else self.twin.run_for(_AT_ONCE_US)
        refused: list[str | None] = []
        for action in do:
            try:
                self._act(action)
                refused.append(None)
            except ApiError as error:
                refused.append(error.message)
            self.twin.wake()
            self._run(round(float(action.get("wait") or 0) * SECOND_US))
        self._settle()
        self.scores = self._scheduler.sheets
        return refused

    def _act(self, action: Obj) -> None:
        """Raises: ApiError."""
        verb, obj, store = action["verb"], action["object"], self.twin.store
        key = self._key(obj)
        if verb == "create":
            self._create(obj)
        elif verb == "delete":
            if store.get(key) is not None:
                store.delete(key, grace_s=0)
        elif verb == "replace":
            old = store.require(key)
            made = with_taint_times(apply_defaults(obj), rfc3339(store.now_us))
            store.replace({**made, "metadata": {**old["metadata"], **meta_of(obj)}})
        elif verb == "patch":
            store.replace(merge_patch(store.require(key), action["patch"]))
        elif verb == "patch-status":
            changed = merge_patch(store.require(key), action["patch"])
            store.set_status(key, changed.get("status") or {})
        elif verb != "sleep":
            raise ApiError(400, "BadRequest", f"unknown verb {verb!r} in the recording")

    def _key(self, obj: Obj) -> Key:
        kind: str = obj["kind"]
        gk = gk_of(obj) if obj.get("apiVersion") else _GROUPS.get(kind, kind)
        namespace = (meta_of(obj).get("namespace") or "default") if kind_named(gk).namespaced else ""
        return Key(gk, namespace, name_of(obj))

    def _create(self, obj: Obj) -> None:
        """Raises: ApiError."""
        store, gk = self.twin.store, gk_of(obj)
        problems = []
        if gk in (CLAIM, TEMPLATE):
            asked = obj if gk == CLAIM else spec_of(obj)
            namespace = meta_of(obj).get("namespace") or "default"
            problems = admin_problem(asked, store.get(Key("Namespace", "", namespace)))
        problems += validate(obj)
        if problems:
            kind, said = f"{obj['kind']}.{gk.partition('.')[2]}", "; ".join(map(str, problems))
            raise ApiError(422, "Invalid", f'{kind} "{name_of(obj)}" is invalid: {said}')
        answer = self.twin.host.door.enter(obj)
        if isinstance(answer, Denied):
            raise ApiError(answer.status["code"], answer.status["reason"], answer.status["message"])
        made = answer.obj or obj
        if gk == SLICE:
            made = with_taint_times(made, rfc3339(store.now_us))
        store.create(made)

    # Time

    def _settle(self) -> None:
        quiet = steps = 0
        while quiet < _QUIET_STEPS and steps < _MOST_STEPS:
            version = self.twin.store.version
            self._run(_STEP_US)
            counts = self._scheduler.queue.counts()
            is_busy = self.twin.store.version != version or counts[ACTIVE] or counts[BACKING_OFF]
            quiet = 0 if is_busy else quiet + 1
            steps += 1

    def _run(self, duration_us: int) -> None:
        while duration_us > 0:
            self.twin.run_for(min(duration_us, _STEP_US))
            duration_us -= _STEP_US
            self._live()

    def _live(self) -> bool:
        """Bound pods run; those that say how long end. Whether one did."""
        has_ended = False
        store = self.twin.store
        for pod in store.objects("Pod"):
            key = Key("Pod", meta_of(pod)["namespace"], name_of(pod))
            if not spec_of(pod).get("nodeName") or status_of(pod).get("phase") in _ENDED:
                continue
            if key not in self._running:
                self._running[key] = store.now_us
                store.set_status(key, _running(pod, rfc3339(store.now_us)))
                continue
            annotations = meta_of(pod).get("annotations") or {}
            lasts_s = annotations.get(_SECONDS)
            if lasts_s is None or name_of(pod) not in self._ended:
                continue
            if self._running[key] + float(lasts_s) * SECOND_US <= store.now_us:
                phase = "Failed" if annotations.get(_EXIT, "0") != "0" else "Succeeded"
                store.set_status(key, {**status_of(pod), "phase": phase})
                has_ended = True
        self.twin.wake()
        return has_ended

    def new_events(self) -> list[Obj]:
        """What was said since this was asked last."""
        found = []
        for entry in self.twin.host.events.told():
            message = _PREEMPTOR.sub("Preempted by pod <uid>", entry.message)
            said = (str(entry.about), entry.reason, message)
            if said not in self._told:
                self._told.add(said)
                on = f"{entry.about.gk}/{entry.about.name}"
                found.append({"on": on, "type": entry.type, "reason": entry.reason, "message": message})
        self.events += found
        return found


def _running(pod: Obj, now: str) -> Obj:
    conditions = set_condition(status_of(pod).get("conditions"), "Ready", "True", now_text=now)
    return {**status_of(pod), "phase": "Running", "conditions": conditions}


_GROUPS: Final = {
    kind: f"{kind}.resource.k8s.io"
    for kind in ("ResourceClaim", "ResourceClaimTemplate", "ResourceSlice", "DeviceClass")
}
