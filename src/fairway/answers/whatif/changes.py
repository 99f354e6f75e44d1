"""What can be changed about a cluster, and how it is said on a command line.

    nodes=+4          four more nodes like the first one with GPUs       nodes/gpu-=-2    two of those named gpu-… go
    quota/prod/a100/nvidia.com/gpu=+8                                    …=32 sets it
    priority/high=1000                                                   of a PriorityClass or WorkloadPriorityClass
    load=2                                                               so many times the arrivals

Everything else is a manifest (applied), a merge patch, or a deletion.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from fairway.answers.naming import find
from fairway.errors import UserError
from fairway.kube.manifest import read_path
from fairway.kube.objects import Obj, meta_of, spec_of, status_of
from fairway.kube.quantity import QuantityError, whole_ceil
from fairway.kube.resources import NVIDIA_GPU
from fairway.scenario.entering import create_or_replace, patch
from fairway.twin.twin import Twin

NODES, QUOTA, PRIORITY, LOAD, APPLY, PATCH, DELETE = (
    "nodes",
    "quota",
    "priority",
    "load",
    "apply",
    "patch",
    "delete",
)
_AMOUNT: Final = re.compile(r"([+-]?)(\d+(?:\.\d+)?[A-Za-z]*)")
_QUEUE: Final = "ClusterQueue.kueue.x-k8s.io"
_CLASSES: Final = ("PriorityClass.scheduling.k8s.io", "WorkloadPriorityClass.kueue.x-k8s.io")
MOST_NODES: Final = 20_000


@dataclass(frozen=True, slots=True)
class Alteration:
    """One change. `sign` "": the amount is what it becomes. `objects`: manifests, of `apply`."""

    what: str
    about: tuple[str, ...] = ()
    sign: str = ""
    amount: str = ""
    objects: tuple[Obj, ...] = ()
    text: str = ""


def read_change(text: str) -> Alteration:
    """Raises: UserError."""
    said, equals, amount = text.partition("=")
    kind, *about = said.split("/", 3)
    number = _AMOUNT.fullmatch(amount)
    wanted = {NODES: (0, 1), QUOTA: (3, 3), PRIORITY: (1, 1), LOAD: (0, 0)}
    if (
        not equals
        or number is None
        or kind not in wanted
        or not wanted[kind][0] <= len(about) <= wanted[kind][1]
    ):
        raise UserError(
            f"{text!r}: expected nodes=+4, nodes/PREFIX=-2, quota/QUEUE/FLAVOR/RESOURCE=+8, priority/CLASS=1000 or "
            "load=2; or --apply, --patch, --delete"
        )
    if kind != QUOTA and not re.fullmatch(r"\d{1,9}(\.\d{1,6})?" if kind == LOAD else r"\d{1,9}", number[2]):
        raise UserError(f"{text!r}: {amount!r}: expected a {'factor' if kind == LOAD else 'whole number'}")
    if kind == LOAD and (number[1] or not 0 <= float(number[2]) <= 100):
        raise UserError(f"{text!r}: expected a factor from 0 to 100")
    return Alteration(kind, tuple(about), number[1], number[2], text=text)


def applied(path: Path) -> Alteration:
    """Raises: InvalidInput."""
    manifests = tuple(m.obj for m in read_path(path))
    return Alteration(APPLY, objects=manifests, text=f"apply {path}")


def patched(text: str) -> Alteration:
    """`KIND/[NAMESPACE/]NAME={"spec": …}`. Raises: UserError."""
    name, _, body = text.partition("=")
    try:
        found = json.loads(body)
    except ValueError as wrong:
        raise UserError(f"--patch {text!r}: expected KIND/NAME=JSON: {wrong}") from None
    if not isinstance(found, dict):
        raise UserError(f"--patch {text!r}: expected an object, not {body[:40]}")
    return Alteration(PATCH, (name,), objects=(found,), text=f"patch {name}")


def deleted(name: str) -> Alteration:
    return Alteration(DELETE, (name,), text=f"delete {name}")


def load_of(changes: Sequence[Alteration]) -> float:
    factor = 1.0
    for change in changes:
        if change.what == LOAD:
            factor *= float(change.amount)
    return factor


def scaled(change: Alteration, amount: int) -> Alteration:
    """The same change with another amount."""
    return replace(change, amount=str(amount), text=change.text.partition("=")[0] + f"={change.sign}{amount}")


def carry_out(twin: Twin, changes: Sequence[Alteration]) -> None:
    """On this twin, now. Raises: UserError where what is to be changed is not there; ApiError where it is refused."""
    for change in changes:
        if change.what == NODES:
            _nodes(twin, change)
        elif change.what == QUOTA:
            _quota(twin, change)
        elif change.what == PRIORITY:
            _priority(twin, change)
        elif change.what == APPLY:
            for obj in change.objects:
                create_or_replace(twin.host, obj)
        elif change.what == PATCH:
            patch(twin.host, find(twin.store, change.about[0]), change.objects[0])
        elif change.what == DELETE:
            twin.store.delete(find(twin.store, change.about[0]))
    twin.wake()


def _nodes(twin: Twin, change: Alteration) -> None:
    store = twin.store
    prefix = change.about[0] if change.about else ""
    there = [n for n in store.objects("Node") if meta_of(n)["name"].startswith(prefix)]
    with_gpus = [n for n in there if (status_of(n).get("allocatable") or {}).get(NVIDIA_GPU)]
    there = there if prefix else with_gpus or there
    if not there:
        raise UserError(
            f"{change.text}: no node{f' is named {prefix}…' if prefix else ''}: nothing to copy or remove"
        )
    count = int(change.amount)
    more = {"+": count, "-": -count, "": count - len(there)}[change.sign]
    if more > MOST_NODES or -more > len(there):
        raise UserError(f"{change.text}: {len(there)} such nodes are there; expected 0 to {MOST_NODES} more")
    for number in range(more):
        twin.apply([_copied(there[0], f"{prefix or 'more-'}whatif-{number}")])
    for node in there[len(there) + more :] if more < 0 else ():
        store.delete(find(store, f"node/{meta_of(node)['name']}"))


def _copied(node: Obj, name: str) -> Obj:
    labels = {**(meta_of(node).get("labels") or {}), "kubernetes.io/hostname": name}
    status = {
        k: v for k, v in status_of(node).items() if k in ("allocatable", "capacity", "nodeInfo", "images")
    }
    spec = {k: v for k, v in spec_of(node).items() if k == "taints"}
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": status}


def _quota(twin: Twin, change: Alteration) -> None:
    queue, flavor, resource = change.about
    key = find(twin.store, f"clusterqueue/{queue}")
    obj = twin.store.require(key)
    found = False

    def one(entry: dict[str, Any]) -> dict[str, Any]:
        nonlocal found
        if entry.get("name") != resource:
            return entry
        found = True
        return {**entry, "nominalQuota": _amount(change, entry.get("nominalQuota", 0))}

    groups = [
        {
            **group,
            "flavors": [
                {**f, "resources": [one(r) for r in f.get("resources") or ()]}
                if f.get("name") == flavor
                else f
                for f in group.get("flavors") or ()
            ],
        }
        for group in spec_of(obj).get("resourceGroups") or ()
    ]
    if not found:
        raise UserError(f"{change.text}: ClusterQueue {queue} has no {resource} of flavor {flavor}")
    patch(twin.host, key, {"spec": {"resourceGroups": groups}})


def _amount(change: Alteration, before: object) -> str:
    if not change.sign:
        return change.amount
    try:
        was, by = whole_ceil(before), whole_ceil(change.amount)
    except QuantityError as wrong:
        raise UserError(f"{change.text}: {wrong}") from None
    return str(max(was + by if change.sign == "+" else was - by, 0))


def _priority(twin: Twin, change: Alteration) -> None:
    """A class's value never changes; what is created from now on finds a class of that name with another one."""
    store = twin.store
    classes = [o for gk in _CLASSES for o in store.objects(gk) if meta_of(o)["name"] == change.about[0]]
    if not classes:
        raise UserError(f"{change.text}: no PriorityClass or WorkloadPriorityClass has this name")
    for obj in classes:
        value = int(_amount(change, obj.get("value", 0)))
        metadata = {"name": change.about[0], "labels": meta_of(obj).get("labels") or {}}
        store.delete(find(store, f"{obj['kind'].lower()}/{change.about[0]}"))
        twin.apply([{**obj, "metadata": metadata, "value": value}])
