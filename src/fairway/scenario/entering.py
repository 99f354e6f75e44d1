"""Putting an object into the cluster as a client of the API server does: past the one door, quota charged with it."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, cast

from fairway.admission.request import Denied
from fairway.cluster.actions import perform
from fairway.cluster.errors import ApiError
from fairway.cluster.mergepatch import merge_patch
from fairway.kube.kinds import kind_named
from fairway.kube.manifest import Manifest
from fairway.kube.objects import Key, Obj, gk_of
from fairway.twin.components import Host
from fairway.twin.kubeevents import WARNING
from fairway.twin.twin import apply_object

NAME = "scenario"


class Refusal(NamedTuple):
    """An object of the scenario that the cluster did not let in. `where`: `file:line`, or what it came from."""

    at_us: int
    where: str
    key: Key
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.where}: Error from server ({self.reason}): {self.message}"


class Player(Protocol):
    """Keeps what was refused."""

    refusals: list[Refusal]


def enter(host: Host, obj: Obj, origin: Manifest | None = None) -> None:
    """Create the object, or replace it where it exists. What the cluster refuses goes on record instead."""
    try:
        create_or_replace(host, obj)
    except ApiError as refused:
        about, now_us = stored_key(obj), host.loop.now_us
        host.log.record(now_us, NAME, about.gk, about.namespace, about.name, "Refused", refused.message)
        host.events.emit(now_us, about, "", WARNING, "Refused", refused.message, NAME)
        if NAME in host.parts:
            where = str(about) if origin is None else f"{origin.file}:{origin.line}"
            player = cast("Player", host.parts[NAME])
            player.refusals.append(Refusal(now_us, where, about, refused.reason, refused.message))
    except Exception as failed:
        if host.containment is None:
            raise
        host.containment.failed(NAME, "entering it", stored_key(obj), failed)


def create_or_replace(host: Host, obj: Obj) -> Obj:
    """Raises: ApiError, with the API server's words where it refuses."""
    store = host.store
    old = store.get(stored_key(obj))
    outcome = host.door.enter(obj, old)
    if isinstance(outcome, Denied):
        raise outcome.error()
    assert outcome.obj is not None
    stored = store.create(outcome.obj) if old is None else apply_object(store, outcome.obj)
    for charge in outcome.charges:
        perform(store, charge)
    return stored


def patch(host: Host, key: Key, change: Any, form: str = "merge") -> None:
    """As kubectl patch: the new state passes the door, too. Raises: ApiError."""
    from fairway.cluster.patches import json_patch, strategic_patch

    old = host.store.require(key)
    forms = {"merge": merge_patch, "strategic": strategic_patch, "json": json_patch}
    create_or_replace(host, forms[form](old, change))


def stored_key(obj: Obj) -> Key:
    """The key it will have: the namespace filled in, or left out for cluster-scoped kinds."""
    gk = gk_of(obj)
    meta = obj.get("metadata") or {}
    namespace = (meta.get("namespace") or "default") if kind_named(gk).namespaced else ""
    return Key(gk, namespace, meta.get("name") or "")
