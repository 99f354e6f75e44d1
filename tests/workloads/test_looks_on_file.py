"""One look of a controller at what is there: all that it decides, in order, as it is on file in `looks/`.

A file has `bases`, objects by a name, and `looks`: what is `there` (a base, what is `set` otherwise, its `status`, the
`owner` that controls it, whose uid is `{uid}` in its name, whether it is `going`, or `dumped` by another cluster
without a generation), which object is looked `at`, `by` which controller where several look at its kind, and how many
seconds `after` the objects were made. `writes: 2` carries out what is decided, and looks again. What an earlier look of
the file did in as many words is not repeated. Whether an answer is right is for whoever reads it; what differs from one
look to the next is said by the look's name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.histories import check_history

from fairway.cluster.actions import Create, Delete, Emit, Patch, SetStatus, perform
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj, gk_of, key_of
from fairway.kube.timestamps import SECOND_US, parse_rfc3339
from fairway.workloads import podgroups, registry, resourceclaims
from fairway.workloads.controller import Controller
from fairway.workloads.knative import controllers as knative
from fairway.workloads.leaderworkerset.decide import LWS, revision_of
from fairway.workloads.volcanojob import controllers as volcanojob

NOW = parse_rfc3339("2026-01-05T08:00:00Z")
FILES = sorted((Path(__file__).parent / "looks").glob("*.yaml"))
_CONTROLLERS = (
    *registry.CONTROLLERS,
    podgroups.CONTROLLER,
    *resourceclaims.CONTROLLERS,
    *volcanojob.CONTROLLERS,
    *knative.CONTROLLERS,
)
_OF_NO_NAMESPACE = (
    "Node",
    "Namespace",
    "Queue.scheduling.volcano.sh",
    "GatewayClass.gateway.networking.k8s.io",
)
_SHORT = 4
"""Lines that are worth saying again."""
_UNSAID = ("uid", "resourceVersion", "creationTimestamp")


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_what_is_decided_at_one_look(file: Path) -> None:
    given = yaml.safe_load(file.read_text(encoding="utf-8"))
    check_history(file.with_suffix(".txt"), _all_told(given["bases"], given["looks"]))


def _all_told(bases: dict[str, Obj], looks: list[dict[str, Any]]) -> Iterator[str]:
    known: dict[tuple[str, ...], str] = {}
    for look in looks:
        yield f"== {look['name']}"
        store = Store(seed=1, now_us=NOW)
        for said in look["there"]:
            _made(store, bases[said["of"]], said)
        kind, _, name = look["at"].partition("/")
        namespaced = "" if kind in _OF_NO_NAMESPACE else "default"
        for lines in _told(store, Key(kind, namespaced, name), look):
            if len(lines) > _SHORT and known.setdefault(tuple(lines), look["name"]) != look["name"]:
                yield f"{lines[0]} as at: {known[tuple(lines)]}"
            else:
                yield from lines


def _made(store: Store, base: Obj, said: dict[str, Any]) -> None:
    obj = _with(base, said.get("set") or {})
    if "{revision}" in json.dumps(obj):  # of the LeaderWorkerSet that is there
        obj = json.loads(json.dumps(obj).replace("{revision}", revision_of(store.objects(LWS)[0])))
    obj["metadata"] = dict(obj["metadata"])
    if gk_of(obj) not in _OF_NO_NAMESPACE:
        obj["metadata"].setdefault("namespace", "default")
    if said.get("owner"):
        kind, _, name = said["owner"].partition("/")
        owner = store.require(Key(kind, "default", name))
        ref = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": name, "controller": True}
        obj["metadata"]["ownerReferences"] = [{**ref, "uid": owner["metadata"]["uid"]}]
        obj["metadata"]["name"] = obj["metadata"]["name"].replace("{uid}", owner["metadata"]["uid"])
    if said.get("going"):
        obj["metadata"]["finalizers"] = ["x/y"]
    made = store.load(obj) if said.get("dumped") else store.create(obj)
    status = said.get("status", obj.get("status"))
    if status is not None:
        store.set_status(key_of(made), {**(made.get("status") or {}), **status})
    if said.get("going"):
        store.delete(key_of(made), grace_s=0)


def _with(base: Any, over: Any) -> Any:
    """A merge patch: `null` takes away."""
    if not isinstance(over, dict):
        return over
    found = dict(base) if isinstance(base, dict) else {}
    for name, value in over.items():
        if value is None:
            found.pop(name, None)
        else:
            found[name] = _with(found.get(name), value)
    return found


def _told(store: Store, key: Key, look: dict[str, Any]) -> Iterator[list[str]]:
    """The lines of each action."""
    now_us = NOW + round(look.get("after", 0) * SECOND_US)
    store.now_us = now_us
    for number in range(look.get("writes", 1)):
        if number:
            yield ["  -- and again"]
        found = _controller(key, look.get("by")).reconcile(store, key, now_us)
        for action in found.actions:
            yield list(_lines(store, action))
        if found.again_at_us is not None:
            yield [f"  again +{(found.again_at_us - NOW) / SECOND_US:g}s"]
        for action in found.actions:
            if not isinstance(action, Emit):
                perform(store, action)


def _controller(key: Key, name: str | None) -> Controller:
    return next(c for c in _CONTROLLERS if c.gk == key.gk and name in (None, c.name))


def _lines(store: Store, action: Any) -> Iterator[str]:
    if isinstance(action, Create):
        key = key_of(action.obj)
        yield f"  create {key.gk}/{key.name}"
        yield from _fields(action.obj)
    elif isinstance(action, Patch):
        yield f"  patch {action.key.gk}/{action.key.name}"
        yield from _fields(action.patch)
    elif isinstance(action, SetStatus):
        yield f"  status {action.key.gk}/{action.key.name}"
        before = dict(_leaves(store.require(action.key).get("status") or {}))
        after = dict(_leaves(action.status))
        for path in sorted({*before, *after}):
            if before.get(path) != after.get(path):
                yield f"    {path} = {after.get(path, 'gone')}"
    elif isinstance(action, Delete):
        grace = "" if action.grace_s is None else f" within {action.grace_s}s"
        yield f"  delete {action.key.gk}/{action.key.name} {action.propagation}{grace}"
    elif isinstance(action, Emit):
        yield f"  says {action.type} {action.reason} by {action.component}: {action.message}"
    else:
        yield f"  {action}"


def _fields(obj: Any) -> Iterator[str]:
    return (f"    {path} = {value}" for path, value in _leaves(obj))


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Lists in their order, mappings by name; an owner in one line."""
    if path.endswith("ownerReferences") and value:
        for ref in value:
            more = ", ".join(name for name in ("controller", "blockOwnerDeletion") if ref.get(name))
            yield path, f"{ref['apiVersion']} {ref['kind']} {ref['name']} ({more})"
    elif isinstance(value, dict) and value:
        for name in sorted(value):
            if name not in _UNSAID:
                yield from _leaves(value[name], f"{path}.{name}" if path else str(name))
    elif isinstance(value, list) and value:
        for number, inner in enumerate(value):
            yield from _leaves(inner, f"{path}[{number}]")
    else:
        yield path, json.dumps(value, ensure_ascii=False)
