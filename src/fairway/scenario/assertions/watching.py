"""Which of the objects that assertions name have reached what, and when?

A component that watches only the kinds asked about. It sees changes as everybody does, a watch latency after
they were made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase

from fairway.cluster.changes import ADDED, DELETED, Change
from fairway.kube.objects import Key, Obj, spec_of, status_of
from fairway.scenario.assertions.evidence import Reached
from fairway.scenario.assertions.grammar import REPLICAS, Assertion, Reaching
from fairway.twin.components import Host

_WILD = frozenset("*?[")


class ReachingWatch:
    """Notes for every goal and object when it was created and when it first reached the state."""

    name = "assertions"

    def __init__(self, goals: Iterable[Reaching]) -> None:
        self.goals = tuple(dict.fromkeys(goals))
        self.kinds: tuple[str, ...] = tuple(sorted({goal.gk for goal in self.goals}))
        self.acts_on: tuple[str, ...] = ()
        self.reached: dict[Reaching, Reached] = {goal: {} for goal in self.goals}
        self._of_kind = {gk: tuple(g for g in self.goals if g.gk == gk) for gk in self.kinds}

    @classmethod
    def of(cls, assertions: Iterable[Assertion]) -> ReachingWatch:
        return cls(a.body for a in assertions if isinstance(a.body, Reaching))

    def attach(self, host: Host) -> None:
        self.host = host

    def start(self) -> None:
        """There is nothing before the first change."""

    def fork(self) -> ReachingWatch:
        twin = ReachingWatch(self.goals)
        twin.reached = {goal: dict(found) for goal, found in self.reached.items()}
        return twin

    def observe(self, change: Change) -> None:
        key = change.key
        for goal in self._of_kind[key.gk]:
            if not is_about(goal, key):
                continue
            found = self.reached[goal]
            now_us = self.host.loop.now_us
            created_us, at_us = found.get(key, (now_us, None))
            if at_us is None and has_reached(goal.state, change):
                at_us = now_us
            found[key] = (created_us, at_us)


def is_about(goal: Reaching, key: Key) -> bool:
    return goal.gk == key.gk and _fits(goal.namespace, key.namespace) and _fits(goal.name, key.name)


def _fits(pattern: str, text: str) -> bool:
    return fnmatchcase(text, pattern) if _WILD & set(pattern) else text == pattern


def has_reached(state: str, change: Change) -> bool:
    """Whether the object is in this state now."""
    if state == "Deleted":
        return change.type == DELETED
    if change.type == DELETED:
        return False
    if state == "Created":
        return change.type == ADDED or change.old is None
    if state.endswith(REPLICAS):
        return _ready_replicas(change.obj) >= int(state.removesuffix(REPLICAS))
    special = _SPECIAL.get((change.key.gk, state))
    return special(change.obj) if special is not None else _condition(change.obj, state) == "True"


def _condition(obj: Obj, type_: str) -> str:
    for condition in status_of(obj).get("conditions") or ():
        if condition.get("type") == type_:
            return str(condition.get("status") or "")
    return ""


def _phase(phase: str) -> Callable[[Obj], bool]:
    return lambda pod: status_of(pod).get("phase") == phase


def _is_unschedulable(pod: Obj) -> bool:
    return any(
        c.get("type") == "PodScheduled" and c.get("status") == "False" and c.get("reason") == "Unschedulable"
        for c in status_of(pod).get("conditions") or ()
    )


def _has_restarted(pod: Obj) -> bool:
    return any(c.get("restartCount") for c in status_of(pod).get("containerStatuses") or ())


def _is_evicted(pod: Obj) -> bool:
    return status_of(pod).get("reason") == "Evicted" or _condition(pod, "DisruptionTarget") == "True"


def _is_stalled(deployment: Obj) -> bool:
    return any(
        c.get("type") == "Progressing" and c.get("reason") == "ProgressDeadlineExceeded"
        for c in status_of(deployment).get("conditions") or ()
    )


def _all_ready(obj: Obj) -> bool:
    """As many replicas ready as asked for, and some asked for."""
    wanted = spec_of(obj).get("replicas", 1)
    return bool(0 < wanted <= (status_of(obj).get("readyReplicas") or 0))


def _ready_replicas(obj: Obj) -> int:
    """As its status counts them; of kinds that do not, all there are."""
    status = status_of(obj)
    return int(status.get("readyReplicas") or 0) if "replicas" in status else 0


def _daemons_ready(obj: Obj) -> bool:
    status = status_of(obj)
    return 0 < (status.get("desiredNumberScheduled") or 0) <= (status.get("numberReady") or 0)


def _is_not_ready(node: Obj) -> bool:
    return _condition(node, "Ready") not in ("", "True")


_SPECIAL: dict[tuple[str, str], Callable[[Obj], bool]] = {
    ("Pod", "Scheduled"): lambda pod: bool(spec_of(pod).get("nodeName")),
    ("Pod", "Running"): _phase("Running"),
    ("Pod", "Succeeded"): _phase("Succeeded"),
    ("Pod", "Failed"): _phase("Failed"),
    ("Pod", "Unschedulable"): _is_unschedulable,
    ("Pod", "Evicted"): _is_evicted,
    ("Pod", "Restarted"): _has_restarted,
    ("Job.batch", "Started"): lambda job: bool(status_of(job).get("startTime")),
    ("Deployment.apps", "Stalled"): _is_stalled,
    ("ReplicaSet.apps", "Ready"): _all_ready,
    ("StatefulSet.apps", "Ready"): _all_ready,
    ("DaemonSet.apps", "Ready"): _daemons_ready,
    ("Node", "NotReady"): _is_not_ready,
    ("Node", "Cordoned"): lambda node: bool(spec_of(node).get("unschedulable")),
}
