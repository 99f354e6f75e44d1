"""Refusals as they go over the wire, for whatever plugin refuses.

Source: apimachinery pkg/api/errors, apiserver pkg/admission/errors.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fairway.admission.request import AdmissionRequest, Denied, status_body
from fairway.kube.objects import meta_of

_Causes = list[dict[str, Any]]


def qualified(request: AdmissionRequest) -> str:
    """`pods`, `deployments.apps`."""
    resource = request.resource
    return f"{resource.resource}.{resource.group}" if resource.group else resource.resource


def subject_name(request: AdmissionRequest) -> str:
    """What the object is called, or will be by its generateName."""
    if request.name:
        return request.name
    meta = meta_of(request.obj or {})
    return str(meta.get("name") or meta.get("generateName") or "Unknown")


def forbidden(
    request: AdmissionRequest,
    plugin: str,
    why: str,
    *,
    reason: str = "Forbidden",
    code: int = 403,
    causes: _Causes | None = None,
) -> Denied:
    """`pods "x" is forbidden: …`."""
    message = f'{qualified(request)} "{subject_name(request)}" is forbidden: {why}'
    return denied(request, plugin, message, reason=reason, code=code, causes=causes)


def denied(
    request: AdmissionRequest,
    plugin: str,
    message: str,
    *,
    reason: str = "Forbidden",
    code: int = 403,
    causes: _Causes | None = None,
) -> Denied:
    details: dict[str, Any] = {"name": subject_name(request)}
    if request.resource.group:
        details["group"] = request.resource.group
    details["kind"] = request.resource.resource
    if causes:
        details["causes"] = causes
    return Denied(plugin, status_body(code, reason, message, details))


def invalid(request: AdmissionRequest, plugin: str, problems: Iterable[str]) -> Denied:
    """A 422 of field errors, each `path: Invalid value: …`."""
    listed = list(problems)
    kind = request.kind
    gk = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    said = aggregated(listed)
    causes = []
    for problem in listed:
        path, _, rest = problem.partition(": ")
        causes.append({"reason": _cause_reason(rest), "message": rest, "field": path})
    details: dict[str, Any] = {"name": subject_name(request)}
    if kind.group:
        details["group"] = kind.group
    details |= {"kind": kind.kind, "causes": causes}
    body = status_body(422, "Invalid", f'{gk} "{subject_name(request)}" is invalid: {said}', details)
    return Denied(plugin, body)


def _cause_reason(text: str) -> str:
    words = {
        "Required value": "FieldValueRequired",
        "Unsupported value": "FieldValueNotSupported",
        "Duplicate value": "FieldValueDuplicate",
        "Forbidden": "FieldValueForbidden",
    }
    return next((reason for word, reason in words.items() if text.startswith(word)), "FieldValueInvalid")


def aggregated(errors: Iterable[str]) -> str:
    """As Go aggregates errors: each once, several in brackets."""
    said = list(dict.fromkeys(errors))
    return said[0] if len(said) == 1 else f"[{', '.join(said)}]"
