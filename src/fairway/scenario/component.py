"""A scenario on the loop: what is there at the start, and what its timeline does when.

Holds only data: which drains go on, what could not be done. Steps are queued at the start by their number.
"""

from __future__ import annotations

from typing import NamedTuple

from fairway.cluster.changes import Change
from fairway.kube.objects import Key, Obj, controller_of, name_of, namespace_of
from fairway.kube.timestamps import SECOND_US, format_duration
from fairway.scenario import actions
from fairway.scenario.acting import act, chosen, cordon, evict_once
from fairway.scenario.entering import NAME, Refusal, enter
from fairway.scenario.model import Scenario
from fairway.twin.components import Host
from fairway.twin.loop import INPUT

# kubectl drain tries a refused eviction again after five seconds.
DRAIN_RETRY_US = 5 * SECOND_US


class Trouble(NamedTuple):
    """Something the timeline wanted that could not be done."""

    at_us: int
    path: str
    message: str


class Draining(NamedTuple):
    """One drain under way."""

    action: actions.Drain
    nodes: tuple[str, ...]
    began_us: int
    path: str


class ScenarioComponent:
    """Plays one scenario."""

    name = NAME
    kinds: tuple[str, ...] = ()

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.troubles: list[Trouble] = []
        self.refusals: list[Refusal] = []
        self.steps_left = sum(step.times for step in scenario.steps)
        self.drains: dict[int, Draining] = {}
        self._serial = 0

    def attach(self, host: Host) -> None:
        self.host = host
        self._begin = host.loop.register("scenario.begin", self._on_begin)
        self._step = host.loop.register("scenario.step", self._on_step)
        self._drain = host.loop.register("scenario.drain", self._on_drain)

    def start(self) -> None:
        loop, scenario = self.host.loop, self.scenario
        loop.at(loop.now_us, self._begin, None, INPUT)
        order = sorted(range(len(scenario.steps)), key=lambda i: scenario.steps[i].at_us)
        for number in order:
            loop.at(scenario.start_us + scenario.steps[number].at_us, self._step, (number, 1), INPUT)

    def observe(self, change: Change) -> None:
        """The timeline does not look."""

    def fork(self) -> ScenarioComponent:
        twin = ScenarioComponent(self.scenario)
        twin.troubles = list(self.troubles)
        twin.refusals = list(self.refusals)
        twin.steps_left = self.steps_left
        twin.drains = dict(self.drains)
        twin._serial = self._serial
        return twin

    @property
    def is_done(self) -> bool:
        """Whether the timeline has nothing more to do."""
        return self.steps_left == 0 and not self.drains

    def _on_begin(self, _data: None) -> None:
        scenario = self.scenario
        origins = scenario.origins or (None,) * len(scenario.objects)
        for obj, origin in zip(scenario.objects, origins, strict=True):
            enter(self.host, obj, origin)

    def _on_step(self, data: tuple[int, int]) -> None:
        number, turn = data
        step = self.scenario.steps[number]
        self.steps_left -= 1
        now_us = self.host.loop.now_us
        for action in step.actions:
            if isinstance(action, actions.Drain):
                self._begin_drain(action, step.path)
            else:
                self._note(step.path, act(self.host, action))
        if turn < step.times:
            self.host.loop.at(now_us + step.every_us, self._step, (number, turn + 1), INPUT)

    def _note(self, path: str, messages: list[str]) -> None:
        now_us = self.host.loop.now_us
        for message in messages:
            self.troubles.append(Trouble(now_us, path, message))
            self.host.log.record(now_us, NAME, "Scenario", "", path, "NotDone", message)

    # Drains

    def _begin_drain(self, action: actions.Drain, path: str) -> None:
        keys = [key for key in chosen(self.host, action.nodes) if self.host.store.get(key) is not None]
        if not keys:
            self._note(path, [f"{action.nodes} is not there"])
        for key in keys:
            cordon(self.host, key, True)
        self._serial += 1
        names = tuple(key.name for key in keys)
        self.drains[self._serial] = Draining(action, names, self.host.loop.now_us, path)
        self._on_drain(self._serial)

    def _on_drain(self, serial: int) -> None:
        draining = self.drains[serial]
        action, now_us = draining.action, self.host.loop.now_us
        left = self._pods_left(draining)
        waited_us = now_us - draining.began_us
        if not left:
            del self.drains[serial]
            self.host.log.record(now_us, NAME, "Node", "", ",".join(draining.nodes), "Drained")
        elif action.timeout_us and waited_us >= action.timeout_us:
            del self.drains[serial]
            after = format_duration(waited_us)
            self._note(
                draining.path, [f"drain gave up after {after}: {len(left)} pods left, {left[0]} first"]
            )
        else:
            for key in left:
                self._remove(key, action)
            self.host.loop.at(now_us + DRAIN_RETRY_US, self._drain, serial, INPUT)

    def _remove(self, key: Key, action: actions.Drain) -> None:
        pod = self.host.store.get(key)
        if pod is None or "deletionTimestamp" in pod["metadata"]:
            return
        if action.deletes:
            self.host.store.delete(key, grace_s=action.grace_s)
        else:
            evict_once(self.host, key, action.grace_s)

    def _pods_left(self, draining: Draining) -> list[Key]:
        """Pods still on the nodes that a drain removes: not those of DaemonSets, nor what has ended."""
        accounts = self.host.store.accounts
        left = []
        for name in draining.nodes:
            row = accounts.row_of.get(name)
            for key in sorted(accounts.pods[row]) if row is not None else ():
                pod = self.host.store.get(key)
                if pod is not None and not _stays(pod):
                    left.append(Key("Pod", namespace_of(pod), name_of(pod)))
        return left


def _stays(pod: Obj) -> bool:
    owner = controller_of(pod)
    mirrored = "kubernetes.io/config.mirror" in (pod["metadata"].get("annotations") or {})
    return mirrored or (owner is not None and owner.get("kind") == "DaemonSet")
