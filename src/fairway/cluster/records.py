"""What the accounts remember of one pod, and of one set of labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fairway.cluster.shapes import PodShape
from fairway.kube.objects import Key
from fairway.kube.timestamps import parse_rfc3339


class LabelSet:
    """A namespace and a set of labels, interned: selectors are matched once per distinct set."""

    __slots__ = ("id", "labels", "namespace")

    def __init__(self, id_: int, namespace: str, labels: Mapping[str, str]) -> None:
        self.id = id_
        self.namespace = namespace
        self.labels = labels


# Label sets a cluster remembers without asking who still has them: pods of one Job come close together.
REMEMBERED: Final = 8192


class LabelSets:
    """The interned label sets of a cluster.

    A month of Jobs has a set for each of them. One that nobody asked for during the last `REMEMBERED` others is
    forgotten: pods keep theirs, and a newcomer with the same labels gets a set of its own.
    """

    def __init__(self) -> None:
        self.namespaces: dict[str, None] = {}
        self._made = 0
        self._recent: dict[tuple[str, tuple[tuple[str, str], ...]], LabelSet] = {}
        self._before: dict[tuple[str, tuple[tuple[str, str], ...]], LabelSet] = {}

    def of(self, namespace: str, labels: Mapping[str, str]) -> LabelSet:
        at = (namespace, tuple(sorted(labels.items())))
        found = self._recent.get(at)
        if found is None:
            found = self._before.get(at)
            if found is None:
                found = LabelSet(self._made, namespace, labels)
                self._made += 1
                self.namespaces[namespace] = None
            if len(self._recent) >= REMEMBERED:
                self._before, self._recent = self._recent, {}
            self._recent[at] = found
        return found


class PodRecord:
    """A pod as it counts on a node. `row` is -1 while it is counted nowhere."""

    __slots__ = (
        "devices",
        "is_preempted",
        "is_terminating",
        "key",
        "labels",
        "node",
        "row",
        "shape",
        "start_us",
        "uid",
    )

    def __init__(
        self,
        *,
        key: Key,
        uid: str,
        shape: PodShape,
        labels: LabelSet,
        is_terminating: bool = False,
        is_preempted: bool = False,
        start_us: int = 0,
        devices: int = 0,
    ) -> None:
        self.devices = devices
        self.key = key
        self.uid = uid
        self.shape = shape
        self.labels = labels
        self.is_terminating = is_terminating
        self.is_preempted = is_preempted
        self.start_us = start_us
        self.row = -1
        self.node = ""

    def copy(self) -> PodRecord:
        twin = PodRecord(
            key=self.key,
            uid=self.uid,
            shape=self.shape,
            labels=self.labels,
            is_terminating=self.is_terminating,
            is_preempted=self.is_preempted,
            start_us=self.start_us,
            devices=self.devices,
        )
        twin.row, twin.node = self.row, self.node
        return twin

    def has_labels(self, labels: Mapping[str, str] | None) -> bool:
        return self.labels.labels == (labels or {})


def start_time_us(status: Mapping[str, Any]) -> int:
    """When the kubelet acknowledged the pod; 0 before that."""
    started = status.get("startTime")
    return parse_rfc3339(started) if started else 0


def is_preempted(meta: Mapping[str, Any], status: Mapping[str, Any]) -> bool:
    """Whether the scheduler is already evicting it. Source: podTerminatingByPreemption."""
    if "deletionTimestamp" not in meta:
        return False
    for condition in status.get("conditions") or ():
        if condition.get("type") == "DisruptionTarget":
            return bool(
                condition.get("status") == "True" and condition.get("reason") == "PreemptionByScheduler"
            )
    return False
