"""HorizontalPodAutoscalers on the loop: each is looked at every sync period, as long as a look may change anything.

The first look comes a period after the autoscaler, as the real controller's queue delays what is added to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from fairway.autoscaling.hpa.decide import COMPONENT, Decision, decide
from fairway.autoscaling.hpa.memory import NOTHING, Memory
from fairway.autoscaling.hpa.podgroups import ready_count
from fairway.autoscaling.hpa.quiet import caught_up, quiet_until
from fairway.autoscaling.hpa.settings import DEFAULT, Settings
from fairway.autoscaling.scales import Target, target_of, with_replicas
from fairway.autoscaling.source import NEVER_US
from fairway.cluster.actions import SetStatus, perform
from fairway.cluster.changes import DELETED, Change
from fairway.kube.kinds import group_kind
from fairway.kube.labels import Selector
from fairway.kube.objects import Key, Obj, labels_of
from fairway.twin.autoscaling.journal import Scaling
from fairway.twin.autoscaling.podindex import Label, handle_of
from fairway.twin.loop import CONTROLLERS

if TYPE_CHECKING:
    from fairway.twin.autoscaling.component import Autoscaling

GK: Final = "HorizontalPodAutoscaler.autoscaling"


@dataclass(slots=True)
class Entry:
    """One autoscaler: what the controller remembers, and when it is looked at next (past: when something changes)."""

    born_us: int
    memory: Memory = NOTHING
    due_us: int = 0
    selector: Selector | None = None
    target: Key | None = None
    left_at: int | None = None
    """Replicas after its last look; where there are others at the next, somebody else set them."""


class Horizontal:
    """All of them."""

    def __init__(self, room: Autoscaling, settings: Settings = DEFAULT) -> None:
        self._room = room
        self.settings = settings
        self.entries: dict[Key, Entry] = {}
        self._by_label: dict[Label, dict[Key, None]] = {}
        self._by_target: dict[Key, dict[Key, None]] = {}

    def fork(self, room: Autoscaling) -> Horizontal:
        twin = Horizontal(room, self.settings)
        twin.entries = {key: replace(entry) for key, entry in self.entries.items()}
        twin._by_label = {label: dict(keys) for label, keys in self._by_label.items()}
        twin._by_target = {target: dict(keys) for target, keys in self._by_target.items()}
        return twin

    # What is observed

    def observe(self, change: Change) -> None:
        """An autoscaler came, changed or went."""
        key = change.key
        if change.type == DELETED:
            entry = self.entries.pop(key, None)
            if entry is not None:
                self._unlist(key, entry)
            return
        entry = self.entries.get(key)
        if entry is None:
            entry = self.entries[key] = Entry(self._room.host.loop.now_us)
        elif change.old is not None and change.old.get("spec") == change.obj.get("spec"):
            return
        self._aim(key, entry, change.obj)
        self._wake(key, entry)

    def _aim(self, key: Key, entry: Entry, scaler: Obj) -> None:
        ref = scaler["spec"]["scaleTargetRef"]
        target = Key(group_kind(ref.get("apiVersion") or "", ref["kind"]), key.namespace, ref["name"])
        if entry.target != target:
            if entry.target is not None:
                self._by_target[entry.target].pop(key, None)
            entry.target = target
            self._by_target.setdefault(target, {})[key] = None
            self._room.watch(target.gk)

    def _unlist(self, key: Key, entry: Entry) -> None:
        if entry.target is not None:
            self._by_target.get(entry.target, {}).pop(key, None)
        self._select(key, entry, None)

    def _select(self, key: Key, entry: Entry, selector: Selector | None) -> None:
        if entry.selector == selector:
            return
        for chosen, adds in ((entry.selector, False), (selector, True)):
            if chosen is None:
                continue
            handle = handle_of(key.namespace, chosen)
            if handle is None:
                continue
            if adds:
                self._by_label.setdefault(handle, {})[key] = None
            else:
                self._by_label[handle].pop(key)
            self._wake_others(key, chosen)
        entry.selector = selector

    def _wake_others(self, key: Key, selector: Selector) -> None:
        """Whoever selects a pod of these has somebody beside it now, or no more."""
        pods = self._room.index.pods(key.namespace, selector)
        labels = dict.fromkeys((key.namespace, *label) for pod in pods for label in labels_of(pod).items())
        for label in labels:
            for other in self._by_label.get(label, ()):
                if other != key:
                    self._wake(other, self.entries[other])

    def pod_changed(self, label: Label) -> None:
        for key in self._by_label.get(label, ()):
            self._wake(key, self.entries[key])

    def target_changed(self, target: Key) -> None:
        for key in self._by_target.get(target, ()):
            self._wake(key, self.entries[key])

    def metrics_changed(self) -> None:
        """A load came or went: everybody asks again."""
        for key, entry in self.entries.items():
            self._wake(key, entry)

    # When it is looked at

    def _wake(self, key: Key, entry: Entry) -> None:
        self._plan(key, entry, self._room.host.loop.now_us)

    def _plan(self, key: Key, entry: Entry, from_us: int) -> None:
        """Look at the first of its times after `from_us`, unless it is looked at before."""
        sync_us = self.settings.sync_us
        turns = max((from_us - entry.born_us) // sync_us + 1, 1)
        at_us = entry.born_us + turns * sync_us
        now_us = self._room.host.loop.now_us
        if entry.due_us > now_us and entry.due_us <= at_us:
            return
        entry.due_us = at_us
        self._room.host.loop.at(at_us, self._room.h_look, key, CONTROLLERS)

    def on_look(self, key: Key) -> None:
        entry, now_us = self.entries.get(key), self._room.host.loop.now_us
        scaler = self._room.host.store.get(key)
        if entry is None or entry.due_us != now_us or scaler is None:
            return
        self._look(key, entry, scaler, now_us)

    # A look

    def _look(self, key: Key, entry: Entry, scaler: Obj, now_us: int) -> None:
        room = self._room
        before = caught_up(entry.memory, entry.born_us, self.settings, now_us)
        target = target_of(room.host.store, key.namespace, scaler["spec"]["scaleTargetRef"])
        scale = target if isinstance(target, str) else target.scale
        if isinstance(target, Target):
            self._note_others(entry, target, now_us)
        room.measured.begin()
        world = _World(self, key)
        decision = decide(scaler, scale, world, before, self.settings, now_us)
        if decision.replicas is not None and isinstance(target, Target):
            self._rescale(key, target, decision, world, now_us)
        if isinstance(target, Target):
            entry.left_at = target.scale.wanted if decision.replicas is None else decision.replicas
        entry.memory = decision.memory
        self._write(key, scaler, decision)
        quiet_us = quiet_until(scaler, decision, world.seen, self.settings, now_us)
        quiet_us = min(quiet_us, room.measured.until_us)
        if quiet_us < NEVER_US:
            self._plan(key, entry, max(quiet_us - 1, now_us))

    def _note_others(self, entry: Entry, target: Target, now_us: int) -> None:
        """Replicas that no autoscaler set since the last look."""
        found = target.scale.wanted
        if entry.left_at is None or entry.left_at == found:
            return
        last = self._room.journal.last_of(str(target.key))
        if last is None or last.after != found:
            self._room.journal.note(
                Scaling(now_us, "", str(target.key), entry.left_at, found, 0, "", "set by somebody else")
            )

    def _rescale(self, key: Key, target: Target, decision: Decision, world: _World, now_us: int) -> None:
        replicas = decision.replicas or 0
        self._room.host.store.patch(target.key, with_replicas(target.paths.wanted, replicas))
        metric = next((p.name for p in decision.trail if p.replicas and not p.reason), "")
        ready = ready_count(world.seen)
        what = Scaling(
            now_us, str(key), str(target.key), target.scale.wanted, replicas, ready, metric, decision.reason
        )
        self._room.journal.note(what)

    def _write(self, key: Key, scaler: Obj, decision: Decision) -> None:
        host = self._room.host
        perform(host.store, SetStatus(key, decision.status))
        now_us, uid = host.loop.now_us, scaler["metadata"]["uid"]
        for said in decision.events:
            host.events.emit(now_us, key, uid, said.type, said.reason, said.message, COMPONENT)
            host.log.record(now_us, COMPONENT, GK, key.namespace, key.name, said.reason, said.message)

    def select(self, key: Key, selector: Selector) -> None:
        self._select(key, self.entries[key], selector)

    def selecting(self, pods: Sequence[Obj], namespace: str) -> list[str]:
        """The autoscalers that select any of these pods, by name."""
        labels = {(namespace, k, v) for pod in pods for k, v in (pod["metadata"].get("labels") or {}).items()}
        candidates = {key for label in labels for key in self._by_label.get(label, ())}
        found = []
        for key in sorted(candidates):
            selector = self.entries[key].selector
            if selector is not None and any(
                selector.matches(p["metadata"].get("labels") or {}) for p in pods
            ):
                found.append(f"{key.namespace}/{key.name}")
        return found


class _World:
    """What one autoscaler sees."""

    def __init__(self, horizontal: Horizontal, key: Key) -> None:
        self._horizontal = horizontal
        self._key = key
        self.seen: Sequence[Obj] = ()

    @property
    def metrics(self) -> Any:
        return self._horizontal._room.measured

    def pods(self, namespace: str, selector: Selector) -> Sequence[Obj]:
        self.seen = self._horizontal._room.index.pods(namespace, selector)
        return self.seen

    def autoscalers_of(self, pods: Sequence[Obj], key: tuple[str, str], selector: Selector) -> Sequence[str]:
        self._horizontal.select(self._key, selector)
        return self._horizontal.selecting(pods, key[0])
