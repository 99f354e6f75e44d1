"""What the API server would answer instead of doing it: a `Status`, word for word.

Source: apimachinery pkg/api/errors/errors.go (v1.34).
"""

from __future__ import annotations

from typing import Any

from fairway.errors import FairwayError
from fairway.kube.kinds import kind_named
from fairway.kube.objects import Key

# Why nothing can be created in a namespace that is going away. Source: core/v1 NamespaceTerminatingCause.
NAMESPACE_TERMINATING = "NamespaceTerminating"


class ApiError(FairwayError):
    """A request the API refuses: HTTP code, machine-readable reason and the sentence kubectl prints."""

    exit_code = 2

    def __init__(self, code: int, reason: str, message: str, key: Key | None = None) -> None:
        self.code = code
        self.reason = reason
        self.message = message
        self.key = key
        self.causes: tuple[str, ...] = ()
        """Reasons of what it is made of, where those are known."""
        super().__init__(message)

    def status(self) -> dict[str, Any]:
        """The `Status` object."""
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        }
        if not self.reason:
            del body["reason"]
        if self.key is not None:
            kind = kind_named(self.key.gk)
            body["details"] = {"name": self.key.name, "kind": kind.plural}
            if kind.group:
                body["details"]["group"] = kind.group
        return body


def resource_name(key: Key) -> str:
    """The plural with its group, as error sentences name a kind: `pods`, `jobs.batch`."""
    kind = kind_named(key.gk)
    return f"{kind.plural}.{kind.group}" if kind.group else kind.plural


def not_found(key: Key) -> ApiError:
    return ApiError(404, "NotFound", f'{resource_name(key)} "{key.name}" not found', key)


def already_exists(key: Key) -> ApiError:
    return ApiError(409, "AlreadyExists", f'{resource_name(key)} "{key.name}" already exists', key)


def conflict(key: Key, why: str) -> ApiError:
    message = f'Operation cannot be fulfilled on {resource_name(key)} "{key.name}": {why}'
    return ApiError(409, "Conflict", message, key)


def modified_meanwhile(key: Key) -> ApiError:
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(key, why)


def forbidden(key: Key, why: str) -> ApiError:
    return ApiError(403, "Forbidden", f'{resource_name(key)} "{key.name}" is forbidden: {why}', key)


def invalid(key: Key, why: str) -> ApiError:
    kind = kind_named(key.gk)
    return ApiError(422, "Invalid", f'{kind.group_kind} "{key.name}" is invalid: {why}', key)


def bad_request(why: str) -> ApiError:
    return ApiError(400, "BadRequest", why)


def expired(oldest: int) -> ApiError:
    """A watch from a version that was compacted away."""
    return ApiError(410, "Expired", f"too old resource version: the oldest kept is {oldest}")
