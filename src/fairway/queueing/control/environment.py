"""What stands around Workloads and decides about them: namespaces, LimitRanges, RuntimeClasses, DeviceClasses."""

from __future__ import annotations

from typing import Any, Final

from fairway.cluster.changes import DELETED, Change
from fairway.kube.objects import Obj, labels_of, name_of, namespace_of, spec_of
from fairway.queueing.cycle.admissibility import Namespaces
from fairway.queueing.facts.adjusting import Defaults, adjusted

NAME_LABEL: Final = "kubernetes.io/metadata.name"

Labels = dict[str, str]


class Environment:
    """Kept by changes of those objects."""

    def __init__(self) -> None:
        self._labels: dict[str, Labels] = {}
        self._ranges: dict[str, list[Obj]] = {}
        self.namespaces = Namespaces(self._labels, self._ranges)
        self._defaults: dict[str, Defaults] = {}
        self._overheads: dict[str, dict[str, Any]] = {}
        self.backed: dict[str, tuple[str, ...]] = {}
        """Extended resource → the DeviceClasses that stand for it."""

    def copy(self) -> Environment:
        twin = Environment()
        twin._labels.update(self._labels)
        twin._ranges.update(self._ranges)
        twin._defaults = dict(self._defaults)
        twin._overheads = dict(self._overheads)
        twin.backed = dict(self.backed)
        return twin

    def know_namespace(self, name: str) -> None:
        """Unlike kube: a namespace nobody created is there all the same."""
        if name not in self._labels:
            self._labels[name] = {NAME_LABEL: name}

    @property
    def adjusts_nothing(self) -> bool:
        """Whether pods will be as they are written."""
        return not self._defaults and not self._overheads

    def adjusted(self, workload: Obj) -> Obj:
        """The Workload as its pods will be: with the defaults and overheads they get."""
        if self.adjusts_nothing:
            return workload
        return adjusted(workload, self._defaults.get(namespace_of(workload)), self._overheads)

    def hear_namespace(self, change: Change) -> tuple[Labels | None, Labels] | None:
        """Its labels before and now; None where they are the same, or it is gone."""
        name = change.key.name
        if change.type == DELETED:
            self._labels.pop(name, None)
            return None
        now = {NAME_LABEL: name, **labels_of(change.obj)}
        before = self._labels.get(name)
        if before == now:
            return None
        self._labels[name] = now
        return before, now

    def hear_limit_range(self, change: Change) -> None:
        namespace = change.key.namespace
        kept = [r for r in self._ranges.get(namespace, ()) if name_of(r) != change.key.name]
        if change.type != DELETED:
            kept.append(change.obj)
        if kept:
            self._ranges[namespace] = kept
            self._defaults[namespace] = Defaults(kept)
        else:
            self._ranges.pop(namespace, None)
            self._defaults.pop(namespace, None)

    def hear_runtime_class(self, change: Change) -> None:
        overhead = (change.obj.get("overhead") or {}).get("podFixed") or {}
        if change.type == DELETED or not overhead:
            self._overheads.pop(change.key.name, None)
        else:
            self._overheads[change.key.name] = dict(overhead)

    def hear_device_class(self, change: Change) -> bool:
        """Whether it stands, or stood, for an extended resource."""
        name, before = change.key.name, change.old or {}
        old = str(spec_of(before).get("extendedResourceName") or "")
        new = str(spec_of(change.obj).get("extendedResourceName") or "")
        for resource in filter(None, dict.fromkeys((old, new))):
            left = tuple(c for c in self.backed.get(resource, ()) if c != name)
            if change.type != DELETED and resource == new:
                left = (*left, name)
            if left:
                self.backed[resource] = left
            else:
                self.backed.pop(resource, None)
        return bool(old or new)
