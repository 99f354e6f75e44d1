"""Putting an object into the store as the API server does: admission first, quota charged with it."""

from __future__ import annotations

from fairway.cluster.actions import perform
from fairway.cluster.errors import ApiError
from fairway.cluster.store import Store
from fairway.kube.kinds import kind_named
from fairway.kube.objects import Key, Obj, gk_of
from fairway.queueing.webhooks import Settings
from fairway.twin.apidoor import entered, settings_of
from fairway.twin.components import Host
from fairway.twin.kubeevents import WARNING
from fairway.twin.twin import apply_object

NAME = "scenario"


def enter(host: Host, obj: Obj) -> None:
    """Create the object, or replace it where it exists. What the API server refuses goes on record instead."""
    try:
        create_or_replace(host.store, obj, settings_of(host))
    except ApiError as refused:
        about = stored_key(obj)
        now_us = host.loop.now_us
        host.log.record(now_us, NAME, about.gk, about.namespace, about.name, "Refused", refused.message)
        host.events.emit(now_us, about, "", WARNING, "Refused", refused.message, NAME)
    except Exception as failed:
        if host.containment is None:
            raise
        host.containment.failed(NAME, "entering it", stored_key(obj), failed)


def create_or_replace(store: Store, obj: Obj, kueue: Settings | None = None) -> Obj:
    """Raises: ApiError, with the API server's words where it refuses."""
    old = store.get(stored_key(obj))
    admitted = entered(store, obj, old, kueue=kueue)
    if old is not None:
        return apply_object(store, admitted.obj)
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
