"""Which objects does a list or watch ask for? Namespace, name, labels and the fields its kind can be selected by.

Source: the registries' field label conversions (pkg/apis/*/v1/conversion.go) and GetAttrs, v1.36.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from fairway.apiserver.resources import Resource
from fairway.apiserver.statuses import bad_request
from fairway.apiserver.wire.messages import Request
from fairway.kube.labelparsing import parse_selector
from fairway.kube.labels import (
    EVERYTHING,
    FieldTerm,
    Selector,
    SelectorError,
    matches_fields,
    parse_field_selector,
)
from fairway.kube.objects import Obj

_ALWAYS = ("metadata.name", "metadata.namespace")
_FIELDS: dict[str, tuple[str, ...]] = {
    "Pod": (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
    ),
    "Node": ("spec.unschedulable",),
    "Namespace": ("status.phase",),
    "Secret": ("type",),
    "Service": ("spec.clusterIP", "spec.type"),
    "ReplicationController": ("status.replicas",),
    "ReplicaSet.apps": ("status.replicas",),
    "Job.batch": ("status.successful",),
    "CertificateSigningRequest.certificates.k8s.io": ("spec.signerName",),
    "Event": (
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
}
# events.k8s.io spells some of them otherwise.
_STORED_AS = {"source": "source.component", "status.successful": "status.succeeded"}
_EVENT_NAMES = {"regarding": "involvedObject", "reportingController": "reportingComponent"}


class Selection(NamedTuple):
    """Of one kind: a namespace ("": all), a name ("": all), labels and fields."""

    namespace: str
    name: str
    labels: Selector
    fields: tuple[FieldTerm, ...]

    @property
    def is_all(self) -> bool:
        """Whether everything of the namespace is selected."""
        return not self.name and not self.fields and self.labels == EVERYTHING

    def matches(self, obj: Obj) -> bool:
        meta = obj["metadata"]
        if self.namespace and meta.get("namespace") != self.namespace:
            return False
        if self.name and meta["name"] != self.name:
            return False
        if self.labels.requirements and not self.labels.matches(meta.get("labels") or {}):
            return False
        return not self.fields or matches_fields(self.fields, obj)


def selection(request: Request, resource: Resource, namespace: str, name: str = "") -> Selection:
    """What the query asks for, of the one object that was authorized where there is a `name`.

    Raises: StatusError (400).
    """
    labels, fields = request.option("labelSelector"), request.option("fieldSelector")
    terms = _terms(fields, resource) if fields else ()
    selected = _exact_name(terms)
    if name and terms and name != selected:
        raise bad_request("fieldSelector metadata.name doesn't match requested name")
    return Selection(namespace, name or selected, _labels(labels), terms)


def pinned_name(fields: str) -> str:
    """The name that a field selector limits a list or watch to, as authorization is told it.

    Source: endpoints/request/requestinfo.go; apimachinery content.IsPathSegmentName.
    """
    try:
        name = _exact_name(parse_field_selector(fields))
    except SelectorError:
        return ""
    return "" if name in (".", "..") or "/" in name or "%" in name else name


def _exact_name(terms: tuple[FieldTerm, ...]) -> str:
    return next((t.value for t in terms if t.path == "metadata.name" and not t.negated), "")


@lru_cache(maxsize=1024)
def _labels(text: str) -> Selector:
    try:
        return parse_selector(text) if text else EVERYTHING
    except SelectorError as wrong:
        raise bad_request(str(wrong)) from wrong


def _terms(text: str, resource: Resource) -> tuple[FieldTerm, ...]:
    try:
        terms = parse_field_selector(text)
    except SelectorError as wrong:
        raise bad_request(str(wrong)) from wrong
    known = (*_ALWAYS, *_FIELDS.get(resource.gk, ()), *_selectable(resource))
    out = []
    for term in terms:
        path = term.path
        for theirs, ours in _EVENT_NAMES.items():
            if resource.gk == "Event" and path.partition(".")[0] == theirs:
                path = path.replace(theirs, ours, 1)
        if path not in known:
            raise bad_request(_unsupported(term.path, resource))
        path = _STORED_AS.get(path, path)
        value = term.value
        if path == "spec.unschedulable" and value == "false":
            # An absent boolean is false.
            out.append(FieldTerm(path, not term.negated, "true"))
            continue
        if path.startswith("status.") and value == "0":
            out.append(_zero(path, negated=term.negated))
            continue
        out.append(FieldTerm(path, term.negated, value))
    return tuple(out)


def _zero(path: str, *, negated: bool) -> FieldTerm:
    """An absent count is 0; it reads as the empty text."""
    return FieldTerm(path, negated, "")


def _selectable(resource: Resource) -> tuple[str, ...]:
    if resource.crd_version is None:
        return ()
    return tuple(f["jsonPath"].lstrip(".") for f in resource.crd_version.get("selectableFields") or ())


def _unsupported(path: str, resource: Resource) -> str:
    if resource.gk in _FIELDS:
        return f"field label not supported: {path}"
    return f'"{path}" is not a known field selector: only "metadata.name", "metadata.namespace"'
