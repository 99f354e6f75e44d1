"""Putting an object into the store as the API server does: admission first, quota charged with it."""

from __future__ import annotations

from fairway.admission.admit import admit
from fairway.admission.verdicts import Refused
from fairway.cluster.actions import perform
from fairway.cluster.errors import ApiError
from fairway.cluster.store import Store
from fairway.kube.defaults import apply_defaults
from fairway.kube.kinds import kind_named
from fairway.kube.objects import Key, Obj, gk_of
from fairway.twin.components import Host
from fairway.twin.kubeevents import WARNING
from fairway.twin.twin import apply_object

NAME = "scenario"


def enter(host: Host, obj: Obj) -> None:
    """Create the object, or replace it where it exists. What the API server refuses goes on record instead."""
    try:
        create_or_replace(host.store, apply_defaults(obj))
    except ApiError as refused:
        about = stored_key(obj)
        now_us = host.loop.now_us
        host.log.record(now_us, NAME, about.gk, about.namespace, about.name, "Refused", refused.message)
        host.events.emit(now_us, about, "", WARNING, "Refused", refused.message, NAME)


def create_or_replace(store: Store, obj: Obj) -> Obj:
    """Raises: ApiError, with admission's words where it refuses."""
    if store.get(stored_key(obj)) is not None:
        return apply_object(store, obj)
    admitted = admit(store, obj)
    if isinstance(admitted, Refused):
        raise ApiError(admitted.code, admitted.reason, admitted.message, stored_key(obj))
    stored = store.create(admitted.obj)
    for charge in admitted.charges:
        perform(store, charge)
    return stored


def stored_key(obj: Obj) -> Key:
    """The key it will have: the namespace filled in, or left out for cluster-scoped kinds."""
    gk = gk_of(obj)
    meta = obj.get("metadata") or {}
    namespace = (meta.get("namespace") or "default") if kind_named(gk).namespaced else ""
    return Key(gk, namespace, meta.get("name") or "")
