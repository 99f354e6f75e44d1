"""Get and list: what is there now, in the order etcd keeps it, in pages.

A page continues behind the last object of the one before, in what was there when the list began: see `snapshots`.

Source: apiserver pkg/storage/etcd3/store.go GetList, pkg/storage/continue.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

from fairway.apiserver.asking import Api, Ask
from fairway.apiserver.nodeleases import LEASE
from fairway.apiserver.selecting import Selection, selection
from fairway.apiserver.snapshots import INCONSISTENT, Snapshot, Token, expired, read_token, too_old
from fairway.apiserver.statuses import StatusError, bad_request, not_found
from fairway.apiserver.wire.messages import Response
from fairway.cluster.errors import ApiError
from fairway.kube.integers import integer, natural
from fairway.kube.objects import Obj

_PLAIN_ACCEPT = ("", "*/*", "application/json")


def get(api: Api, ask: Ask) -> Response:
    """One object.

    Raises: StatusError (404).
    """
    obj = api.store.get(ask.key)
    if obj is None:
        raise not_found(ask.resource.kind, ask.info.name)
    resource = ask.resource
    accept = ask.request.headers.get("accept", "")
    if accept in _PLAIN_ACCEPT and obj.get("apiVersion") == resource.api_version and resource.gk != LEASE:
        response = Response(200, api.bodies.of(obj))
    else:
        response = api.representation.one(obj, resource, accept, include=ask.include)
    response.durable = int(obj["metadata"]["resourceVersion"])
    return response


def list_(api: Api, ask: Ask) -> Response:
    """A kind's objects, or a page of them."""
    request = ask.request
    chosen = selection(request, ask.resource, _namespace(ask), ask.info.name)
    limit, token = _limit(ask), _continued(ask)
    version = _version(api, ask, token)
    snapshot = _snapshot(api, ask, token, version)
    after = token.after if token is not None else ("", "")
    found = _objects(api, ask, chosen, snapshot, after)
    meta: dict[str, Any] = {"resourceVersion": str(version)}
    if not limit:
        objects: Iterable[Obj] = found
    else:
        objects = list(islice(found, limit))
        if len(objects) == limit and next(iter(found), None) is not None:
            last = objects[-1]["metadata"]
            place = (last.get("namespace", ""), last["name"])
            meta["continue"] = Token(version, place).text()
            if chosen.is_all:
                meta["remainingItemCount"] = snapshot.count_after(place)
    response = api.representation.many(objects, ask.resource, meta, ask.accept, ask.include)
    response.durable = api.store.version
    return response


def _namespace(ask: Ask) -> str:
    return ask.info.namespace if ask.resource.kind.namespaced else ""


def _objects(
    api: Api, ask: Ask, chosen: Selection, snapshot: Snapshot, after: tuple[str, str]
) -> Iterable[Obj]:
    if chosen.name and (chosen.namespace or not ask.resource.kind.namespaced):
        obj = api.store.get(ask.key._replace(namespace=chosen.namespace, name=chosen.name))
        return iter([obj] if obj is not None and chosen.matches(obj) else [])
    walk = snapshot.walk(after)
    return walk if chosen.is_all else (o for o in walk if chosen.matches(o))


def _limit(ask: Ask) -> int:
    text = ask.request.option("limit")
    if not text:
        return 0
    return max(integer(text) or 0, 0)


def _continued(ask: Ask) -> Token | None:
    """Where the list goes on, if it does."""
    text = ask.request.option("continue")
    if text and ask.request.option("resourceVersion") not in ("", "0"):
        raise bad_request("specifying resource version is not allowed when using continue")
    return read_token(text) if text else None


def _version(api: Api, ask: Ask, token: Token | None) -> int:
    """The version the list is of: its first page's, the one asked for exactly, or the newest."""
    now = api.store.version
    if token is not None:
        return now if token.version == INCONSISTENT else token.version
    text = ask.request.option("resourceVersion")
    match = ask.request.option("resourceVersionMatch")
    if not text or text == "0":
        return now
    try:
        version = parse_version(text)
    except StatusError as wrong:
        raise bad_request(f"invalid resource version: {wrong.message}") from wrong
    if version > now:
        raise too_large(version, now)
    return version if match == "Exact" else now


def _snapshot(api: Api, ask: Ask, token: Token | None, version: int) -> Snapshot:
    """Raises: StatusError (410) where what changed since then is forgotten; ApiError (504: not yet there)."""
    if version > api.store.version:
        raise too_large(version, api.store.version)
    namespace = _namespace(ask) or None
    try:
        return Snapshot(api.store, ask.resource.gk, namespace, version)
    except ApiError as gone:
        raise (too_old() if token is None else expired(token)) from gone


def parse_version(text: str) -> int:
    """Raises: StatusError (500: upstream makes no better of it)."""
    version = natural(text)
    if version is None:
        why = f'strconv.ParseUint: parsing "{text}": {_complaint(text)}'
        raise StatusError(500, "", f'resourceVersion: Invalid value: "{text}": {why}')
    return version


def _complaint(text: str) -> str:
    """What strconv says of a text that is no number it can hold. ParseUint takes no sign."""
    return "value out of range" if text.isascii() and text.isdigit() else "invalid syntax"


def too_large(version: int, current: int) -> StatusError:
    """Source: apiserver storage.NewTooLargeResourceVersionError."""
    message = f"Timeout: Too large resource version: {version}, current: {current}"
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    return StatusError(504, "Timeout", message, {"causes": causes, "retryAfterSeconds": 1})
