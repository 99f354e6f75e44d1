"""How many replicas, by another name: autoscaling/v1 Scale over workloads and custom kinds that declare it.

Source: pkg/registry/apps/deployment/storage (ScaleREST), apiextensions scale subresource (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairway.apiserver import door
from fairway.apiserver.asking import Api, Ask
from fairway.apiserver.decoding import media_type, typed, typed_body
from fairway.apiserver.statuses import StatusError, bad_request, not_found
from fairway.apiserver.verbs import writing
from fairway.apiserver.wire.messages import Answer, Response, json_response
from fairway.autoscaling.scales import PLAIN, Paths, declared_paths, scale_at
from fairway.kube.objects import Obj, dig
from fairway.kube.problem import invalid as invalid_value


def answer(api: Api, ask: Ask) -> Answer:
    """Raises: ApiError."""
    if ask.info.verb == "get":
        obj = api.store.get(ask.key)
        if obj is None:
            raise not_found(ask.resource.kind, ask.info.name)
        return json_response(200, scale_of(ask, obj))
    return door.run(api, _write(api, ask))


def _paths(ask: Ask) -> Paths:
    if ask.resource.crd_version is None:
        return PLAIN
    return declared_paths((ask.resource.crd_version.get("subresources") or {}).get("scale"))


def scale_of(ask: Ask, obj: Obj) -> Obj:
    scale = scale_at(obj, _paths(ask))
    meta = obj["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: dict[str, Any] = {"replicas": scale.there}
    if scale.selector:
        status["selector"] = scale.selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {k: meta[k] for k in kept if k in meta},
        "spec": {"replicas": scale.wanted} if scale.wanted else {},
        "status": status,
    }


def _write(api: Api, ask: Ask) -> door.Write:
    change = _change(ask)
    path = _paths(ask).wanted.split(".")

    def scaled(old: Obj) -> Obj:
        scale = change(scale_of(ask, old))
        replicas = dig(scale, "spec", "replicas") or 0
        if not isinstance(replicas, int) or isinstance(replicas, bool) or replicas < 0:
            problem = invalid_value(("spec", "replicas"), replicas, "must be greater than or equal to 0")
            raise _invalid(ask, problem)
        new = _with(old, path, replicas)
        version = (scale.get("metadata") or {}).get("resourceVersion")
        return door.merged_metadata(new, resourceVersion=version)

    stored = yield from writing.updated(api, ask, scaled)
    return door.durable(api, ask, Response(200, json_response(200, scale_of(ask, stored)).body))


def _change(ask: Ask) -> Callable[[Obj], Obj]:
    """What the request makes of a Scale."""
    if ask.info.verb == "update":
        body = typed_body(ask, "autoscaling/v1", "Scale")
        if body.get("kind") != "Scale":
            found = body.get("kind")
            raise bad_request(f"the object provided is unrecognized (must be of type Scale): {found}")
        return lambda _scale: body
    from fairway.apiserver.patching.forms import patched
    from fairway.apiserver.verbs.writing import patch_body

    patch, media = patch_body(ask.request.body), media_type(ask)
    return lambda scale: _scale(patched(scale, patch, media, None))


def _scale(found: Any) -> Obj:
    """Raises: StatusError (400)."""
    if not isinstance(found, dict):
        raise bad_request("the patch does not leave an object")
    return typed(found, "autoscaling/v1", "Scale")


def _invalid(ask: Ask, problem: Any) -> StatusError:
    message = f'Scale.autoscaling "{ask.info.name}" is invalid: {problem}'
    details = {
        "name": ask.info.name,
        "group": "autoscaling",
        "kind": "Scale",
        "causes": [{"reason": "FieldValueInvalid", "message": problem.message, "field": "spec.replicas"}],
    }
    return StatusError(422, "Invalid", message, details)


def _with(obj: Obj, path: list[str], value: Any) -> Obj:
    head, *rest = path
    if not rest:
        return {**obj, head: value}
    return {**obj, head: _with(obj.get(head) or {}, rest, value)}
