"""Who owns which field after this write? The manager of the request, and what the endpoint leaves alone.

The work is `patching`'s; this says who writes, and when a write changes nothing.
"""

from __future__ import annotations

from fairway.apiserver.asking import Api, Ask
from fairway.apiserver.decoding import schema_of
from fairway.apiserver.patching import applying
from fairway.apiserver.patching.applying import apply
from fairway.apiserver.patching.managed import manager_of
from fairway.apiserver.patching.tracking import Writer, track_update
from fairway.kube.objects import Obj


def _writer(ask: Ask) -> Writer:
    manager = manager_of(ask.request.option("fieldManager"), ask.request.header("user-agent"))
    ignores: tuple[str, ...] | None = None
    if ask.resource.is_custom:
        has_status = ask.resource.subresource("status") is not None
        if ask.info.subresource == "status":
            ignores = ("spec",)
        else:
            ignores = ("status",) if has_status else ()
    return Writer(manager, ask.resource.api_version, ask.info.subresource, ignores)


def created(api: Api, ask: Ask, obj: Obj) -> Obj:
    if ask.info.verb == "patch":
        # Server-side apply has said who owns what.
        return obj
    return track_update(None, obj, _writer(ask), api.store.now_us, schema_of(ask.resource))


def updated(api: Api, ask: Ask, old: Obj, new: Obj) -> Obj:
    return track_update(old, new, _writer(ask), api.store.now_us, schema_of(ask.resource))


def applied(api: Api, ask: Ask, old: Obj | None, body: Obj) -> Obj:
    """Raises: ApiError (400; 409 with the conflicts)."""
    force = ask.request.flag("force")
    return apply(old, body, _writer(ask), api.store.now_us, schema_of(ask.resource), force=force)


def check_applied(ask: Ask, body: Obj) -> None:
    """Raises: StatusError (400, 500)."""
    applying.check_applied(body, _writer(ask), schema_of(ask.resource))


def is_same(old: Obj, new: Obj) -> bool:
    """Whether the write changes nothing but when somebody last said the same.

    Source: managedfields skipnonapplied and endpoints/handlers ShouldSkipUpdate (avoid_noop timestamps).
    """
    if _content(old) != _content(new):
        return False
    before, after = _entries(old), _entries(new)
    return before == after


def _content(obj: Obj) -> tuple[Obj, Obj]:
    meta = {k: v for k, v in obj["metadata"].items() if k not in ("managedFields", "resourceVersion")}
    return {k: v for k, v in obj.items() if k != "metadata"}, meta


def _entries(obj: Obj) -> list[Obj]:
    entries = obj["metadata"].get("managedFields") or ()
    return [{k: v for k, v in entry.items() if k != "time"} for entry in entries]
