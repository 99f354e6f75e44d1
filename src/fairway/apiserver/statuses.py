"""What the API answers when it does not do it: `Status`, word for word.

The common refusals live in `cluster.errors`; here are those only HTTP knows.
Source: apimachinery pkg/api/errors/errors.go, apiserver endpoints/handlers (v1.36).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fairway.apiserver.wire.messages import Response, encode
from fairway.cluster.errors import ApiError
from fairway.kube.fieldpath import path_text
from fairway.kube.kinds import Kind

if TYPE_CHECKING:
    from fairway.kube.problem import Problem

# The words of kube.problem, which is not imported: refusals are made before anything is validated.
_CAUSES = {
    "Invalid value": "FieldValueInvalid",
    "Required value": "FieldValueRequired",
    "Unsupported value": "FieldValueNotSupported",
    "Duplicate value": "FieldValueDuplicate",
    "Forbidden": "FieldValueForbidden",
    "Not found": "FieldValueNotFound",
    "Too long": "FieldValueTooLong",
    "Too many": "FieldValueTooMany",
    "Type invalid": "FieldValueTypeInvalid",
    "Wrong type": "FieldValueTypeInvalid",
}

# Source: apiserver endpoints/filters/warning.go truncateAtTotalRunes, truncateItemRunes.
_WARNINGS_CHARS, _WARNING_CHARS = 4096, 256


class StatusError(ApiError):
    """An `ApiError` whose `details` are more than a key: causes, seconds to wait."""

    def __init__(self, code: int, reason: str, message: str, details: dict[str, Any] | None = None) -> None:
        super().__init__(code, reason, message)
        self.details = details
        self.list_meta: dict[str, Any] = {}
        """The metadata of a list that cannot go on: a token that can."""

    def status(self) -> dict[str, Any]:
        body = super().status()
        body["metadata"] = self.list_meta
        if self.details is not None:
            body["details"] = self.details
            # `code` comes last, as Go's struct has it: people read these.
            body["code"] = body.pop("code")
        return body


def status_response(error: ApiError) -> Response:
    if isinstance(error, NoPage):
        return Response(404, b"404 page not found\n", "text/plain; charset=utf-8")
    details = getattr(error, "details", None) or {}
    retry = details.get("retryAfterSeconds")
    headers: tuple[tuple[str, str], ...] = (("Retry-After", str(retry)),) if retry else ()
    # Whoever refuses may have warned before.
    headers += warning_headers(getattr(error, "warnings", ()))
    return Response(error.code, encode(error.status()), headers=headers)


def warning_headers(warnings: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Each once; cut short, and left off, where all are too long.

    Source: client-go net.NewWarningHeader: `299 - "text"`; apiserver endpoints/filters/warning.go.
    """
    texts = [text for text in dict.fromkeys(warnings) if text]
    if sum(map(len, texts)) > _WARNINGS_CHARS:
        texts = _cut(texts)
    return tuple(("Warning", f'299 - "{_escaped(text)}"') for text in texts)


def _cut(texts: list[str]) -> list[str]:
    """All up to the one that is too much are kept, if need be shortened; those behind it while there is room."""
    kept: list[str] = []
    full = shortened = 0
    for text in texts:
        if full > _WARNINGS_CHARS and shortened >= _WARNINGS_CHARS:
            break
        full += len(text)
        kept.append(text[:_WARNING_CHARS])
        shortened += len(kept[-1])
    return kept


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def success(details: dict[str, Any]) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {k: v for k, v in details.items() if v},
    }


def details_of(kind: Kind, name: str, uid: str = "") -> dict[str, Any]:
    details = {"name": name, "group": kind.group, "kind": kind.plural, "uid": uid}
    return {k: v for k, v in details.items() if v}


def not_found(kind: Kind, name: str) -> StatusError:
    return StatusError(404, "NotFound", f'{qualified(kind)} "{name}" not found', details_of(kind, name))


def page_not_found() -> StatusError:
    """No such resource in a version that is served. Source: genericapiserver serviceErrorHandler."""
    message = "the server could not find the requested resource"
    return StatusError(404, "NotFound", message, {})


class NoPage(ApiError):
    """No such version, or nothing at all: plain text, for which client-go finds words of its own.

    Source: genericapiserver notfoundhandler.
    """

    def __init__(self) -> None:
        super().__init__(404, "NotFound", "404 page not found")


def qualified(kind: Kind) -> str:
    return f"{kind.plural}.{kind.group}" if kind.group else kind.plural


def invalid(kind: Kind, name: str, problems: Sequence[Problem]) -> StatusError:
    """A 422 of validation."""
    return invalid_of(kind.group, kind.kind, name, problems)


def invalid_of(group: str, kind: str, name: str, problems: Sequence[Problem]) -> StatusError:
    """A 422 of validation, of what need not be a kind that is served."""
    causes = [
        {
            "reason": _CAUSES.get(problem.reason, "FieldValueInvalid"),
            "message": problem.message,
            "field": path_text(problem.path),
        }
        for problem in problems
    ]
    # Source: errors.NewInvalid with field.ErrorList.ToAggregate, which names equal messages once.
    lines = list(dict.fromkeys(str(problem) for problem in problems))
    said = lines[0] if len(lines) == 1 else f"[{', '.join(lines)}]"
    details: dict[str, Any] = {"name": name, "group": group, "kind": kind}
    details = {k: v for k, v in details.items() if v}
    details["causes"] = causes
    shown = f"{kind}.{group}" if group else kind
    return StatusError(422, "Invalid", f'{shown} "{name}" is invalid: {said}', details)


def bad_request(message: str) -> StatusError:
    return StatusError(400, "BadRequest", message)


def cannot_be_handled(kind: Kind, version: str, why: str) -> StatusError:
    """Source: endpoints/handlers transformDecodeError."""
    return bad_request(f'{kind.kind} in version "{version}" cannot be handled as a {kind.kind}: {why}')


def unauthorized() -> StatusError:
    return StatusError(401, "Unauthorized", "Unauthorized")


def method_not_allowed(kind: Kind | None, verb: str = "") -> StatusError:
    """Source: errors.NewMethodNotSupported."""
    if kind is None:
        return StatusError(
            405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {}
        )
    message = f'{verb} is not supported on resources of kind "{qualified(kind)}"'
    details = {"group": kind.group, "kind": kind.plural}
    return StatusError(405, "MethodNotAllowed", message, {k: v for k, v in details.items() if v})


def not_acceptable(accepted: Sequence[str]) -> StatusError:
    """Source: negotiation.NewNotAcceptableError."""
    message = f"only the following media types are accepted: {', '.join(accepted)}"
    return StatusError(406, "NotAcceptable", message)


def no_such_representation(produced: Sequence[str]) -> StatusError:
    """Told before anything is looked up. Source: go-restful CurlyRouter, apiserver pkg/server serviceErrorHandler."""
    message = f"406: Not Acceptable\n\nAvailable representations: {', '.join(produced)}"
    return StatusError(406, "NotAcceptable", message, {})


def unsupported_media_type(accepted: Sequence[str]) -> StatusError:
    """Source: negotiation.NewUnsupportedMediaTypeError."""
    message = f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}"
    return StatusError(415, "UnsupportedMediaType", message)


def too_many_requests(message: str, retry_s: int, causes: list[dict[str, str]]) -> StatusError:
    details: dict[str, Any] = {"causes": causes} if causes else {}
    if retry_s:
        details["retryAfterSeconds"] = retry_s
    return StatusError(429, "TooManyRequests", message, details)


def too_large(message: str) -> StatusError:
    """Source: errors.NewRequestEntityTooLargeError."""
    return StatusError(413, "RequestEntityTooLarge", f"Request entity too large: {message}")


def internal(message: str) -> StatusError:
    """Source: errors.NewInternalError."""
    causes = [{"message": message}]
    return StatusError(500, "InternalError", f"Internal error occurred: {message}", {"causes": causes})


def refused_connection(code: int, why: str) -> Response:
    """A request that could not even be read."""
    if code == 413:
        return status_response(too_large(why))
    return status_response(StatusError(code, "Timeout" if code == 408 else "BadRequest", why))
