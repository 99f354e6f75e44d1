"""Create, update and patch: from what the client sent to what the store keeps.

All three end in `_stored`: admission, validation, field ownership, the write. Whoever lost a race against another
writer while a webhook was asked starts over from what is there now.

Source: apiserver pkg/registry/generic/registry/store.go, endpoints/handlers/{create,update,patch}.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import Any

from fairway.admission.request import CREATE, UPDATE, CallWebhook, WebhookAnswer
from fairway.apiserver import devices, door, ownership, signingrequests
from fairway.apiserver.asking import Api, Ask, attributes
from fairway.apiserver.budget import check_unfolded
from fairway.apiserver.changeable import PARTS, narrowed
from fairway.apiserver.converting import for_storage
from fairway.apiserver.decoding import body_of, check_fields, check_form, decoded, media_type, of_kind
from fairway.apiserver.statuses import (
    StatusError,
    bad_request,
    invalid,
    not_found,
    unsupported_media_type,
)
from fairway.apiserver.strategies import prepared
from fairway.cluster.errors import conflict, forbidden, modified_meanwhile
from fairway.cluster.metadata import generated_name, uid_for
from fairway.kube.defaults import generate_job_selector
from fairway.kube.objects import Obj
from fairway.kube.problem import invalid as invalid_value
from fairway.kube.timestamps import rfc3339

APPLY = ("application/apply-patch+yaml", "application/apply-patch+cbor")
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
# Source: patch.go maxRetryWhenPatchConflicts.
_TRIES = 5

Step = Generator[CallWebhook, WebhookAnswer, Obj]


def create(api: Api, ask: Ask) -> door.Write:
    """POST to a collection."""
    body = body_of(ask)
    obj = for_create(ask, body)
    stored = yield from _created(api, ask, obj)
    response = api.representation.one(stored, ask.resource, ask.accept, status=201, include=ask.include)
    return door.durable(api, ask, response)


def for_create(ask: Ask, body: Obj) -> Obj:
    """The object as it is to be created: of the right kind, in the path's namespace, without what is the server's.

    Raises: StatusError (400).
    """
    body = of_kind(body, ask.resource)
    is_json = media_type(ask) in ("", "application/json", "*/*")
    obj = check_fields(ask, body, ask.request.body if is_json else None)
    obj = _placed(ask, obj)
    meta = obj["metadata"]
    if meta.get("resourceVersion"):
        raise StatusError(500, "", "resourceVersion should not be set on objects to be created")
    return door.merged_metadata(
        obj,
        uid=None,
        resourceVersion=None,
        creationTimestamp=None,
        deletionTimestamp=None,
        deletionGracePeriodSeconds=None,
        generation=None,
        selfLink=None,
    )


def _placed(ask: Ask, obj: Obj) -> Obj:
    """Raises: StatusError (400) for a namespace other than the path's."""
    meta = obj.get("metadata") or {}
    if not ask.resource.kind.namespaced:
        return door.merged_metadata(obj, namespace=None)
    given, asked = meta.get("namespace") or "", ask.info.namespace
    if given and given != asked:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    return obj if given else door.merged_metadata(obj, namespace=asked)


def _created(api: Api, ask: Ask, obj: Obj) -> Step:
    """Admit, check and store a new object."""
    meta = obj["metadata"]
    if not meta.get("name") and meta.get("generateName"):
        name = generated_name(meta["generateName"], api.store.seed, api.store.serial + 1)
        obj = door.merged_metadata(obj, name=name)
    elif not meta.get("name") and ask.resource.gk == "LimitRange":
        # Source: pkg/registry/core/limitrange/strategy.go PrepareForCreate.
        obj = door.merged_metadata(obj, name=uid_for(api.store.seed + 1, api.store.serial + 1))
    obj = _without_status(ask, obj)
    if ask.resource.gk == signingrequests.KIND:
        obj = signingrequests.asked_by(obj, ask.user)
    # Whoever writes owns what was asked for, not what admission makes of it.
    obj = door.defaulted(obj, ask.resource)
    check_unfolded(ask.request.body, obj, ask.resource)
    obj = ownership.created(api, ask, obj)
    request = door.admission_request(ask, CREATE, obj, None, "CreateOptions")
    obj = yield from door.mutated(api, ask, request)
    obj = prepared(door.defaulted(obj, ask.resource), None, rfc3339(api.store.now_us))
    door.check_object(ask, _as_stored(api, ask, obj), None, devices.new_problems(api, ask, obj))
    if ask.resource.gk == signingrequests.KIND and (why := signingrequests.restriction(obj)):
        raise forbidden(ask.key._replace(name=obj["metadata"]["name"]), why)
    request = door.admission_request(ask, CREATE, obj, None, "CreateOptions")
    admitted = yield from door.validated(api, ask, request)
    assert admitted.obj is not None
    obj = for_storage(admitted.obj, ask.resource)
    return door.written(api, ask, api.store.create, obj, admitted)


def _as_stored(api: Api, ask: Ask, obj: Obj) -> Obj:
    """A Job is judged with the selector it is going to have."""
    if ask.resource.gk != "Job.batch":
        return obj
    return generate_job_selector(door.merged_metadata(obj, uid=uid_for(api.store.seed, api.store.serial + 1)))


def _without_status(ask: Ask, obj: Obj) -> Obj:
    """A status given with a new object is dropped where it is a subresource (a node brings its own)."""
    if "status" in obj and ask.resource.subresource("status") is not None and ask.resource.gk != "Node":
        return {k: v for k, v in obj.items() if k != "status"}
    return obj


def update(api: Api, ask: Ask) -> door.Write:
    """PUT."""
    body = body_of(ask)
    body = of_kind(body, ask.resource)
    is_json = media_type(ask) in ("", "application/json", "*/*")
    obj = _placed(ask, check_fields(ask, body, ask.request.body if is_json else None))
    name = (obj.get("metadata") or {}).get("name") or ""
    if name != ask.info.name:
        raise bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({ask.info.name})"
        )
    stored = yield from updated(api, ask, lambda _old: obj)
    response = api.representation.one(stored, ask.resource, ask.accept, include=ask.include)
    return door.durable(api, ask, response)


def updated(api: Api, ask: Ask, change: Callable[[Obj], Obj], *, owned: bool = False) -> Step:
    """Store what `change` makes of the object as it is; again, where it changed meanwhile.

    `owned`: `change` has taken care of who owns which field (server-side apply).
    """
    for _ in range(_TRIES):
        old = api.store.get(ask.key)
        if old is None:
            raise not_found(ask.resource.kind, ask.info.name)
        shown = api.representation.version(old, ask.resource)
        new = change(shown)
        stored = yield from _replaced(api, ask, old, shown, new, owned)
        if stored is not None:
            return stored
    raise modified_meanwhile(ask.key)


def _replaced(
    api: Api, ask: Ask, old: Obj, shown: Obj, new: Obj, owned: bool
) -> Generator[CallWebhook, WebhookAnswer, Obj | None]:
    """One try; None where somebody else wrote meanwhile and the client does not insist on a version."""
    _check_preconditions(ask, shown, new)
    given_version = (new.get("metadata") or {}).get("resourceVersion")
    new = _kept(ask, shown, new, rfc3339(api.store.now_us))
    is_service = ask.resource.gk == "Service" and not ask.info.subresource
    new = door.defaulted(api.addresses.adjusted(new, shown) if is_service else new, ask.resource)
    check_unfolded(ask.request.body, new, ask.resource)
    if not owned:
        new = ownership.updated(api, ask, shown, new)
    request = door.admission_request(ask, UPDATE, new, shown, "UpdateOptions")
    uid = (new.get("metadata") or {}).get("uid")
    new = yield from door.mutated(api, ask, request)
    new = _kept(ask, shown, new, rfc3339(api.store.now_us), asked=False)
    new = door.defaulted(door.merged_metadata(new, uid=uid), ask.resource)
    new = prepared(new, shown, rfc3339(api.store.now_us))
    _check_update(api, ask, new, shown)
    request = door.admission_request(ask, UPDATE, new, shown, "UpdateOptions")
    admitted = yield from door.validated(api, ask, request)
    assert admitted.obj is not None
    if api.store.get(ask.key) is not old:
        if given_version and ask.info.verb != "patch":
            raise modified_meanwhile(ask.key)
        # A patch is made of what is there by now, which refuses one that names a version.
        return None
    if ownership.is_same(shown, admitted.obj):
        return old
    new = api.addresses.allocated(admitted.obj, shown) if is_service else admitted.obj
    new = for_storage(new, ask.resource)
    return door.written(api, ask, api.store.replace, new, admitted)


def _check_preconditions(ask: Ask, old: Obj, new: Obj) -> None:
    """Raises: ApiError (409; 422 for a custom object without a version)."""
    meta, old_meta = new.get("metadata") or {}, old["metadata"]
    version = meta.get("resourceVersion")
    if version and version != old_meta["resourceVersion"]:
        raise modified_meanwhile(ask.key)
    if not version and ask.resource.is_custom and ask.info.verb == "update":
        problem = invalid_value(("metadata", "resourceVersion"), 0, "must be specified for an update")
        raise invalid(ask.resource.kind, ask.info.name, [problem])
    if ask.info.verb == "update" and meta.get("uid") and meta["uid"] != old_meta["uid"]:
        why = (
            f"StorageError: invalid object, Code: 4, Key: {_storage_key(ask)}, ResourceVersion: 0, AdditionalErrorMsg: "
            f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: {old_meta['uid']}"
        )
        raise conflict(ask.key, why)


# Resources that etcd knows by another name. Source: pkg/kubeapiserver/default_storage_factory_builder.go.
_STORED_UNDER = {
    "nodes": "minions",
    "replicationcontrollers": "controllers",
    "services": "services/specs",
    "endpoints": "services/endpoints",
    "ingresses": "ingress",
}
_WITH_GROUP = ("apiextensions.k8s.io", "apiregistration.k8s.io")


def _storage_key(ask: Ask) -> str:
    kind = ask.resource.kind
    path = _STORED_UNDER.get(kind.plural, kind.plural)
    if ask.resource.is_custom or kind.group in _WITH_GROUP:
        path = f"{kind.group}/{path}"
    return "/".join(("/registry", path, *filter(None, (ask.key.namespace, ask.info.name))))


def _kept(ask: Ask, old: Obj, new: Obj, now: str, *, asked: bool = True) -> Obj:
    """The new state with everything this endpoint may not change as it was. `asked`: by the client, not a webhook."""
    part = ask.info.subresource
    if part in PARTS:
        out = narrowed(part, old, new)
        return signingrequests.approved_at(out, now) if part == "approval" else out
    out = dict(new)
    if ask.resource.gk == signingrequests.KIND:
        out["spec"] = old["spec"]
    if ask.resource.subresource("status") is not None:
        out.pop("status", None)
        if "status" in old:
            out["status"] = old["status"]
    meta = {**(new.get("metadata") or {})}
    for name in (
        "uid",
        "creationTimestamp",
        "resourceVersion",
        "generation",
        "deletionTimestamp",
        "selfLink",
    ):
        given = meta.pop(name, None)
        if given and name == "uid" and asked:
            # Refused, where it is another.
            meta[name] = given
        elif name in old["metadata"]:
            meta[name] = old["metadata"][name]
    if "deletionGracePeriodSeconds" in old["metadata"]:
        meta["deletionGracePeriodSeconds"] = old["metadata"]["deletionGracePeriodSeconds"]
    out["metadata"] = {k: v for k, v in meta.items() if v is not None}
    return out


def _check_update(api: Api, ask: Ask, new: Obj, old: Obj) -> None:
    """Raises: StatusError (422)."""
    if ask.resource.gk == devices.CLAIM and ask.info.subresource == "status":
        found = devices.status_problems(api, ask, new, old)
    elif ask.info.subresource == "approval":
        found = signingrequests.approval_problems(new, old)
    else:
        door.check_object(ask, new, old)
        return
    if found:
        raise invalid(ask.resource.kind, ask.info.name, found)


def patch(api: Api, ask: Ask) -> door.Write:
    """PATCH, in any of its forms."""
    media = media_type(ask)
    if media in APPLY:
        return (yield from _apply(api, ask))
    if ask.resource.has_strategic_merge and media not in (JSON_PATCH, MERGE_PATCH, STRATEGIC):
        # go-restful looks at it before anybody else.
        raise StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
    if media == STRATEGIC and not ask.resource.has_strategic_merge:
        raise unsupported_media_type((JSON_PATCH, MERGE_PATCH, *APPLY))
    if media not in (JSON_PATCH, MERGE_PATCH, STRATEGIC):
        raise unsupported_media_type((JSON_PATCH, MERGE_PATCH, STRATEGIC, *APPLY))
    stored = yield from updated(api, ask, patcher(ask))
    response = api.representation.one(stored, ask.resource, ask.accept, include=ask.include)
    return door.durable(api, ask, response)


def patcher(ask: Ask) -> Callable[[Obj], Obj]:
    """What the request's patch makes of an object.

    Raises: ApiError (400, 415, 422), at once or when applied.
    """
    from fairway.apiserver.decoding import schema_of
    from fairway.apiserver.patching.forms import patched
    from fairway.apiserver.patching.misfits import misfit

    media, raw = media_type(ask), ask.request.body
    change = patch_body(raw)

    def apply_to(old: Obj) -> Obj:
        new: Obj = patched(old, change, media, schema_of(ask.resource))
        if not isinstance(new, dict):
            raise bad_request("the patch does not leave an object")
        meta = new.get("metadata")
        if not isinstance(meta, dict) or meta.get("name") != old["metadata"]["name"]:
            found = meta.get("name") if isinstance(meta, dict) else None
            raise StatusError(
                400,
                "BadRequest",
                f"the name of the object ({found}) does not match the name on the URL ({ask.info.name})",
            )
        # What a patch takes away of these, decoding puts back: the path says what it is.
        new = {"apiVersion": ask.resource.api_version, "kind": ask.resource.kind.kind, **new}
        new = of_kind(new, ask.resource)
        return check_fields(ask, new, None, partial(misfit, change, new, is_strategic=media == STRATEGIC))

    return apply_to


def patch_body(raw: bytes) -> Any:
    import msgspec

    try:
        patch = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as broken:
        raise bad_request(f"error decoding patch: {broken}") from broken
    if isinstance(patch, (dict, list)):
        check_form(patch)
    return patch


def _apply(api: Api, ask: Ask) -> door.Write:
    """Server-side apply: creates what is not there."""
    body = decoded(ask.request.body, ask.resource.kind.kind, is_yaml=True)
    group, _, version = str(body.get("apiVersion") or "").rpartition("/")
    if (body.get("kind"), body.get("apiVersion")) != (ask.resource.kind.kind, ask.resource.api_version):
        raise bad_request(f"invalid object type: {group}/{version}, Kind={body.get('kind') or ''}")
    ownership.check_applied(ask, body)
    meta = body.get("metadata") or {}
    if not meta.get("name"):
        raise bad_request(
            f"the name of the object ({ask.info.name} based on URL) was undeterminable: name must be provided"
        )
    if meta["name"] != ask.info.name:
        raise bad_request(
            f"the name of the object ({meta['name']}) does not match the name on the URL ({ask.info.name})"
        )
    body = _placed(ask, door.merged_metadata(check_fields(ask, body, None), name=ask.info.name))
    if api.store.get(ask.key) is None:
        if ask.info.subresource:
            raise not_found(ask.resource.kind, ask.info.name)
        # Source: endpoints/handlers/update.go withAuthorization: what a patch creates, its user may create.
        api.authentication.require(attributes(ask.user, ask.info, "create"))
        obj = ownership.applied(api, ask, None, body)
        stored = yield from _created(api, ask, obj)
        response = api.representation.one(stored, ask.resource, ask.accept, status=201, include=ask.include)
        return door.durable(api, ask, response)
    stored = yield from updated(api, ask, lambda old: ownership.applied(api, ask, old, body), owned=True)
    response = api.representation.one(stored, ask.resource, ask.accept, include=ask.include)
    return door.durable(api, ask, response)
