"""How much may one request be, and make? Bytes and members of what comes in, bytes of what is stored.

A body has 3 MiB (`wire.connection`). What it may unfold to is bounded here, before anything is made of it: members
(objects and lists) as it is decoded, bytes once defaults are filled in, and bytes as etcd would keep them when it is
stored. So a request costs memory and time in proportion to a few MiB, whatever it says.

Source: etcd --max-request-bytes (1.5 MiB), client/v3 (2 MiB a message); apiserver endpoints/handlers/rest.go
isTooLargeError, create.go (managedFields go first).
"""

from __future__ import annotations

from fairway.apiserver.resources import Resource, Resources
from fairway.apiserver.statuses import StatusError
from fairway.apiserver.wire.messages import encode
from fairway.kube.objects import Key, Obj, key_of

# Objects and lists in one body: what fits into 1.5 MiB of protobuf twice over.
MAX_MEMBERS = 200_000
MAX_REQUEST_BYTES = 1_572_864
MAX_MESSAGE_BYTES = 2 * 1024 * 1024
# etcd's transaction around an object: its key in each part, and this much for the rest. Measured with etcd 3.5:
# creating is two parts, updating three.
_CREATE_PARTS, _CREATE_BYTES = 2, 40
_UPDATE_PARTS, _UPDATE_BYTES = 3, 47
_NEWLINE = 1
_VERSION_BYTES = len('"resourceVersion":"",')
# Below this much JSON nothing can be too large in protobuf: a member that JSON leaves out takes two bytes there.
SURE_BYTES = 512 * 1024
# A smaller body cannot unfold to too much: defaults make of `{},` two hundred bytes.
_SMALL_BODY_BYTES = 32 * 1024


def check_unfolded(body: bytes, obj: Obj, resource: Resource) -> None:
    """Before anything looks at every part of it: would this, with its defaults, be too large to store?

    Unlike kube: it is refused as too large where it may be invalid, too.
    Raises: StatusError (500, as upstream).
    """
    if len(body) > _SMALL_BODY_BYTES:
        meta = obj.get("metadata") or {}
        check_stored(
            obj, len(encode(obj)), resource, Key(resource.gk, "", str(meta.get("name"))), is_new=True
        )


def check_stored(obj: Obj, json_bytes: int, resource: Resource, key: Key, *, is_new: bool) -> None:
    """Raises: StatusError (500, as upstream), where etcd would not take the object."""
    if json_bytes <= SURE_BYTES:
        return
    parts, around = (_CREATE_PARTS, _CREATE_BYTES) if is_new else (_UPDATE_PARTS, _UPDATE_BYTES)
    size = _stored_bytes(obj, json_bytes) + parts * len(_path(key, resource)) + around
    if size > MAX_MESSAGE_BYTES:
        said = f"trying to send message larger than max ({size} vs. {MAX_MESSAGE_BYTES})"
        raise TooLarge(f"rpc error: code = ResourceExhausted desc = {said}")
    if size > MAX_REQUEST_BYTES:
        raise TooLarge("etcdserver: request is too large")


def check_made(resources: Resources, obj: Obj) -> None:
    """Of an object that a controller makes. Raises: TooLarge."""
    size = len(encode(obj))
    resource = resources.of_kind(obj["apiVersion"], obj["kind"]) if size > SURE_BYTES else None
    if resource is not None:
        check_stored(obj, size, resource, key_of(obj), is_new=True)


class TooLarge(StatusError):
    """etcd's own words, which kube-apiserver passes on without a reason."""

    def __init__(self, why: str) -> None:
        super().__init__(500, "", why)


def without_managed_fields(obj: Obj) -> Obj:
    """What kube-apiserver tries once more with: the object without the record of who wrote what."""
    return {**obj, "metadata": {k: v for k, v in obj["metadata"].items() if k != "managedFields"}}


def _stored_bytes(obj: Obj, json_bytes: int) -> int:
    """Custom objects are kept as JSON, the others as protobuf; none with its version."""
    from fairway.apiserver.protobuf.numbers import fields_of, message_of
    from fairway.apiserver.protobuf.sizing import size_of
    from fairway.kube.schema.node import schema_for

    version = str((obj.get("metadata") or {}).get("resourceVersion") or "")
    schema = schema_for(obj["apiVersion"], obj["kind"])
    if schema is None or not fields_of(message_of(schema.go_type)):
        return json_bytes + _NEWLINE - (_VERSION_BYTES + len(version) if version else 0)
    return size_of(obj, schema) - len(version)


def _path(key: Key, resource: Resource) -> str:
    group = "" if resource.has_strategic_merge else f"{resource.kind.group}/"
    return f"/registry/{group}{resource.kind.plural}/{key.namespace}/{key.name}"
