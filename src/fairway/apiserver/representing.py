"""In which form does this client want it? JSON, YAML, a Table, metadata only, and in which API version.

Source: apiserver pkg/endpoints/handlers/negotiation, response.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from fairway.apiserver import converting
from fairway.apiserver.bodies import Bodies
from fairway.apiserver.nodeleases import LEASE, renewed
from fairway.apiserver.resources import Resource
from fairway.apiserver.statuses import no_such_representation, not_acceptable
from fairway.apiserver.wire.messages import JSON, Response, encode
from fairway.kube.objects import Obj

PLAIN, YAML, TABLE, PARTIAL = "json", "yaml", "table", "partial"
YAML_TYPE = "application/yaml"
_TABLE_TYPE = "application/json"
_PROTOBUF = "application/vnd.kubernetes.protobuf"
# What kube-apiserver offers. Protobuf is not spoken here: whoever asks for it alone is not told of it.
_OFFERED = (JSON, YAML_TYPE, _PROTOBUF)
_WATCHED = (f"{JSON};stream=watch", f"{_PROTOBUF};stream=watch")
# Subresources that answer whatever is behind them.
_ANYTHING = ("proxy", "exec", "attach", "portforward")


@lru_cache(maxsize=512)
def check_accept(accept: str, subresource: str, is_list: bool) -> None:
    """Whether a route of a built-in kind has what the header names, before anybody looks for the object.

    Raises: StatusError (406).
    """
    produced = ("text/plain", *_OFFERED) if subresource == "log" else _OFFERED
    asked = {part.partition(";")[0].strip() for part in accept.split(",")}
    if accept and subresource not in _ANYTHING and not asked & {"*/*", *produced}:
        raise no_such_representation((*produced, *_WATCHED) if is_list else produced)


def watched_form_of(accept: str) -> str:
    """The form of a watch's events: never YAML, which has no end.

    Raises: StatusError (406).
    """
    form = form_of(accept)
    if form == YAML:
        raise not_acceptable(_WATCHED)
    return form


@lru_cache(maxsize=512)
def form_of(accept: str) -> str:
    """The first form in the header that can be served.

    Raises: StatusError (406).
    """
    if not accept:
        return PLAIN
    for part in accept.split(","):
        media, *parameters = (p.strip() for p in part.split(";"))
        asked = dict(p.partition("=")[::2] for p in parameters)
        if media not in (JSON, "*/*", "application/*", YAML_TYPE, "text/yaml", "application/x-yaml"):
            continue
        wanted = asked.get("as", "")
        if wanted == "Table" and asked.get("v", "v1") == "v1":
            return TABLE
        if wanted in ("PartialObjectMetadata", "PartialObjectMetadataList"):
            return PARTIAL
        if wanted:
            continue
        return YAML if "yaml" in media else PLAIN
    raise not_acceptable((JSON, YAML_TYPE) if _PROTOBUF in accept else _OFFERED)


class Representation:
    """Turns stored objects into what a client asked for."""

    def __init__(self, bodies: Bodies, now_us: Callable[[], int]) -> None:
        self._bodies = bodies
        self._now_us = now_us

    def body(self, obj: Obj, resource: Resource) -> bytes:
        return self._bodies.of(self.version(obj, resource))

    def version(self, obj: Obj, resource: Resource) -> Obj:
        """The object in the resource's API version; itself where it is in that one."""
        if resource.gk == LEASE:
            return renewed(obj, self._now_us())
        if obj.get("apiVersion") == resource.api_version:
            return obj
        return converting.converted(obj, resource.api_version)

    def one(
        self, obj: Obj, resource: Resource, accept: str, *, status: int = 200, include: str = "Metadata"
    ) -> Response:
        form = form_of(accept)
        if form == PLAIN:
            return Response(status, self.body(obj, resource))
        if form == TABLE:
            version = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
            return Response(status, encode(self.table([obj], resource, version, include)), _TABLE_TYPE)
        if form == PARTIAL:
            return Response(status, encode(partial(obj)))
        return yaml_response(status, self.version(obj, resource))

    def many(
        self,
        objects: Iterable[Obj],
        resource: Resource,
        meta: dict[str, Any],
        accept: str,
        include: str = "Metadata",
    ) -> Response:
        form = form_of(accept)
        if form == TABLE:
            return Response(200, encode(self.table(list(objects), resource, meta, include)), _TABLE_TYPE)
        if form == PARTIAL:
            head = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": meta}
            return Response(200, encode({**head, "items": [partial(o) for o in objects]}))
        head = {"kind": f"{resource.kind.kind}List", "apiVersion": resource.api_version, "metadata": meta}
        shown = (self.version(o, resource) for o in objects)
        if form == YAML:
            return yaml_response(200, {**head, "items": list(shown)})
        return Response(200, self._bodies.join(head, shown))

    def table(
        self, objects: list[Obj], resource: Resource, meta: dict[str, Any], include: str = "Metadata"
    ) -> dict[str, Any]:
        from fairway.apiserver.tables import table

        columns = None
        if resource.crd_version is not None:
            columns = resource.crd_version.get("additionalPrinterColumns") or []
        shown = [self.version(o, resource) for o in objects]
        return table(
            resource.kind.group_kind if resource.storage_kind == "" else resource.storage_kind,
            objects if resource.storage_kind else shown,
            self._now_us(),
            list_meta=meta,
            include_object=include,
            columns=columns,
        )


def partial(obj: Obj) -> Obj:
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}


def yaml_response(status: int, body: Any) -> Response:
    from fairway.kube.manifestwriting import write_yaml

    return Response(status, write_yaml([body]).encode(), YAML_TYPE)
