"""Get and list: what is there now, in the order etcd keeps it, in pages.

A page continues behind the last object of the one before, in what is there by then; every page of a list names
the version of its first, so that a watch from there misses nothing (Unlike kube: pages are not one snapshot).

Source: apiserver pkg/storage/etcd3/store.go GetList, pkg/storage/continue.go (v1.36).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from itertools import islice
from typing import Any

import msgspec

from fairway.apiserver.asking import Api, Ask
from fairway.apiserver.selecting import Selection, selection
from fairway.apiserver.statuses import StatusError, bad_request, not_found
from fairway.apiserver.wire.messages import Response
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
    if accept in _PLAIN_ACCEPT and obj.get("apiVersion") == resource.api_version:
        response = Response(200, api.bodies.of(obj))
    else:
        response = api.representation.one(obj, resource, accept, include=ask.include)
    response.durable = int(obj["metadata"]["resourceVersion"])
    return response


def list_(api: Api, ask: Ask) -> Response:
    """A kind's objects, or a page of them."""
    request = ask.request
    chosen = selection(request, ask.resource, _namespace(ask))
    limit, after, version = _page(api, ask)
    _check_version(api, ask)
    found = _objects(api, ask, chosen, after)
    meta: dict[str, Any] = {"resourceVersion": str(version)}
    if not limit:
        objects: Iterable[Obj] = found
    else:
        objects = list(islice(found, limit))
        if len(objects) == limit and next(iter(found), None) is not None:
            last = objects[-1]["metadata"]
            meta["continue"] = _token(version, last.get("namespace", ""), last["name"])
            if chosen.is_all:
                meta["remainingItemCount"] = _remaining(api, ask, (last.get("namespace", ""), last["name"]))
    response = api.representation.many(objects, ask.resource, meta, ask.accept, ask.include)
    response.durable = api.store.version
    return response


def _namespace(ask: Ask) -> str:
    return ask.info.namespace if ask.resource.kind.namespaced else ""


def _objects(api: Api, ask: Ask, chosen: Selection, after: tuple[str, str]) -> Iterable[Obj]:
    gk = ask.resource.gk
    if chosen.name and (chosen.namespace or not ask.resource.kind.namespaced):
        obj = api.store.get(ask.key._replace(namespace=chosen.namespace, name=chosen.name))
        return iter([obj] if obj is not None and chosen.matches(obj) else [])
    walk = api.store.walk(gk, chosen.namespace or None, after)
    return walk if chosen.is_all else (o for o in walk if chosen.matches(o))


def _remaining(api: Api, ask: Ask, after: tuple[str, str]) -> int:
    namespace = _namespace(ask)
    return api.store.count_after(ask.resource.gk, namespace or None, after)


def _page(api: Api, ask: Ask) -> tuple[int, tuple[str, str], int]:
    """Limit, where to go on, and the version the list names."""
    request = ask.request
    text = request.option("limit")
    try:
        limit = max(int(text), 0) if text else 0
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None
    token = request.option("continue")
    if not token:
        return limit, ("", ""), api.store.version
    if request.option("resourceVersion") not in ("", "0"):
        raise bad_request("specifying resource version is not allowed when using continue")
    try:
        said = msgspec.json.decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        version, namespace, name = int(said["rv"]), str(said["ns"]), str(said["name"])
    except (ValueError, KeyError, TypeError, binascii.Error, msgspec.DecodeError):
        raise bad_request("continue key is not valid: the token could not be read") from None
    return limit, (namespace, name), version


def _token(version: int, namespace: str, name: str) -> str:
    said = msgspec.json.encode({"v": "meta.k8s.io/v1", "rv": version, "ns": namespace, "name": name})
    return base64.urlsafe_b64encode(said).decode().rstrip("=")


def _check_version(api: Api, ask: Ask) -> None:
    """`resourceVersion` on a list: not older than that (the usual), or exactly that."""
    text = ask.request.option("resourceVersion")
    match = ask.request.option("resourceVersionMatch")
    if not text or text == "0":
        if match and not text:
            raise bad_request("resourceVersionMatch is forbidden unless resourceVersion is provided")
        return
    version = parse_version(text)
    if version > api.store.version:
        raise too_large(version, api.store.version)
    if match == "Exact" and version != api.store.version:
        # Only the newest state is kept: any other exact version is gone.
        raise StatusError(410, "Expired", "The resourceVersion for the provided list is too old.")


def parse_version(text: str) -> int:
    """Raises: StatusError (400)."""
    if not text.isdigit():
        raise bad_request(
            f'invalid resource version "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        )
    return int(text)


def too_large(version: int, current: int) -> StatusError:
    """Source: apiserver storage.NewTooLargeResourceVersionError."""
    message = f"Too large resource version: {version}, current: {current}"
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    return StatusError(504, "Timeout", message, {"causes": causes, "retryAfterSeconds": 1})
