"""The AdmissionReview a webhook gets, and whether what came back is an answer.

Source: apiserver pkg/admission/plugin/webhook/request/admissionreview.go, errors/statuserror.go (v1.36).
"""

from __future__ import annotations

import base64
import binascii
from typing import Any, NamedTuple

import msgspec

from fairway.admission.policies.matching import Match
from fairway.admission.policies.names import gvk_value, gvr_value
from fairway.admission.request import AdmissionRequest

API_VERSION = "admission.k8s.io/v1"


class Response(NamedTuple):
    """A well-formed answer. `patch` is the decoded JSON patch, or None."""

    allowed: bool
    result: dict[str, Any] | None
    warnings: tuple[str, ...]
    audit: tuple[tuple[str, str], ...]
    patch: list[dict[str, Any]] | None


def review_of(request: AdmissionRequest, matched: Match, uid: str) -> dict[str, Any]:
    """The body to be posted."""
    body: dict[str, Any] = {
        "uid": uid,
        "kind": gvk_value(matched.kind),
        "resource": gvr_value(matched.resource),
        "requestKind": gvk_value(request.kind),
        "requestResource": gvr_value(request.resource),
    }
    if request.subresource:
        body["subResource"] = body["requestSubResource"] = request.subresource
    if request.name:
        body["name"] = request.name
    if request.namespace:
        body["namespace"] = request.namespace
    body |= {
        "operation": request.operation,
        "userInfo": request.user.info(),
        "object": request.obj,
        "oldObject": request.old,
        "dryRun": request.dry_run,
        "options": request.options,
    }
    return {"kind": "AdmissionReview", "apiVersion": API_VERSION, "request": body}


class _Result(msgspec.Struct):
    """A metav1.Status, as far as it is read."""

    message: str | None = None
    reason: str | None = None
    code: int | None = None
    details: dict[str, Any] | None = None


class _Answer(msgspec.Struct):
    """An AdmissionResponse's fields, with the types Go decodes them into."""

    uid: str | None = None
    allowed: bool | None = None
    status: _Result | None = None
    patch: str | None = None
    patchType: str | None = None  # noqa: N815
    auditAnnotations: dict[str, str] | None = None  # noqa: N815
    warnings: list[str] | None = None


def response_of(review: dict[str, Any], uid: str, *, is_mutating: bool) -> Response | str:
    """The answer, or what is wrong with it."""
    response = review.get("response")
    if response is None:
        return "webhook response was absent"
    try:
        msgspec.convert(response, _Answer)
    except (msgspec.ValidationError, RecursionError) as broken:
        return f"json: cannot unmarshal response: {broken}"
    if response.get("uid") != uid:
        return f'expected response.uid="{uid}", got "{response.get("uid") or ""}"'
    group, _, version = str(review.get("apiVersion") or "").rpartition("/")
    if (review.get("apiVersion"), review.get("kind")) != (API_VERSION, "AdmissionReview"):
        got = f"{group}/{version}, Kind={review.get('kind') or ''}"
        return f"expected webhook response of {API_VERSION}, Kind=AdmissionReview, got {got}"
    patch = _patch_of(response, is_mutating)
    if isinstance(patch, str):
        return patch
    return Response(
        bool(response.get("allowed")),
        response.get("status"),
        tuple(str(w) for w in response.get("warnings") or ()),
        tuple((str(k), str(v)) for k, v in (response.get("auditAnnotations") or {}).items()),
        patch,
    )


def _patch_of(response: dict[str, Any], is_mutating: bool) -> list[dict[str, Any]] | str | None:
    raw, patch_type = response.get("patch"), response.get("patchType")
    if not is_mutating:
        if raw:
            return "validating webhook may not return response.patch"
        return "validating webhook may not return response.patchType" if patch_type is not None else None
    if raw and patch_type is None:
        return "webhook returned response.patch but not response.patchType"
    if not raw and patch_type is not None:
        return "webhook returned response.patchType but not response.patch"
    if not raw or not response.get("allowed"):
        return None
    if patch_type != "JSONPatch":
        return f'unsupported patch type "{patch_type}"'
    try:
        decoded = msgspec.json.decode(base64.b64decode(raw))
    except (binascii.Error, ValueError, TypeError, RecursionError, msgspec.DecodeError) as bad:
        return f"received undecodable patch in webhook response: {bad}"
    if not isinstance(decoded, list) or not all(isinstance(o, dict) for o in decoded):
        return "received undecodable patch in webhook response: not a list of operations"
    return decoded


def rejection(webhook: str, result: dict[str, Any] | None) -> dict[str, Any]:
    """The Status of a webhook that said no."""
    told = result or {}
    denied = f'admission webhook "{webhook}" denied the request'
    why = told.get("message") or told.get("reason")
    said = {
        "status": "Failure",
        "message": f"{denied}: {why}" if why else f"{denied} without explanation",
        **{name: told[name] for name in ("reason", "details") if told.get(name)},
        "code": min(max(told.get("code") or 0, 400), 599),
    }
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, **said}
