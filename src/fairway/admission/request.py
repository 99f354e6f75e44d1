"""What admission is asked, what it answers, and the webhook calls it wants made in between.

Admission has no I/O. It runs in two phases around the server's own work, as in kube-apiserver:
`chain.mutating` → (defaults again, object validation) → `chain.validating` → the write. Both are generators: they
yield `CallWebhook`, are sent a `WebhookAnswer`, and return an `Admitted` or a `Denied`.

Source: apiserver pkg/admission/attributes.go, pkg/admission/interfaces.go; api/admission/v1/types.go (v1.36).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fairway.cluster.actions import SetStatus
from fairway.cluster.errors import ApiError
from fairway.kube.objects import Obj

CREATE = "CREATE"
UPDATE = "UPDATE"
DELETE = "DELETE"
CONNECT = "CONNECT"

SYSTEM_MASTERS = "system:masters"
ALL_AUTHENTICATED = "system:authenticated"
ALL_UNAUTHENTICATED = "system:unauthenticated"
ALL_SERVICE_ACCOUNTS = "system:serviceaccounts"
ANONYMOUS = "system:anonymous"


class Gvk(NamedTuple):
    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


class Gvr(NamedTuple):
    group: str
    version: str
    resource: str


@dataclass(frozen=True, slots=True)
class User:
    """Who asks. `extra` maps a key to its values; hashable, so that decisions can be cached per user."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def info(self) -> dict[str, Any]:
        """An `authentication.k8s.io/v1` UserInfo."""
        info: dict[str, Any] = {"username": self.name}
        if self.uid:
            info["uid"] = self.uid
        if self.groups:
            info["groups"] = list(self.groups)
        if self.extra:
            info["extra"] = {key: list(values) for key, values in self.extra}
        return info


# Who applies manifests unless told otherwise, and what controllers act as.
ADMIN = User("kubernetes-admin", (SYSTEM_MASTERS, ALL_AUTHENTICATED))
CONTROLLERS = User("system:kube-controller-manager", (ALL_AUTHENTICATED,))


@dataclass(slots=True)
class AdmissionRequest:
    """One write on its way in. Nobody changes it; not frozen, which would cost a microsecond for each.

    `obj` is None for DELETE; `old` is None for CREATE and CONNECT. `name` may be empty on CREATE with
    `generateName`. `subresource` is `status`, `scale`, `eviction`, `binding`… or empty. `options` is the decoded
    CreateOptions, UpdateOptions or DeleteOptions.
    """

    operation: str
    kind: Gvk
    resource: Gvr
    namespace: str
    name: str
    user: User
    obj: Obj | None
    old: Obj | None = None
    subresource: str = ""
    options: Obj | None = None
    dry_run: bool = False
    uid: str = ""


@dataclass(frozen=True, slots=True)
class CallWebhook:
    """A webhook to be called: POST `body` (an AdmissionReview) as JSON, within `timeout_s`.

    `client_config` is the webhook's own (`url`, or `service` with namespace, name, path and port; `caBundle`).
    The caller only transports: how a failure counts is decided here, by the webhook's failurePolicy. A dry run
    of a webhook with side effects never gets here.
    """

    configuration: str
    webhook: str
    client_config: dict[str, Any]
    body: dict[str, Any]
    timeout_s: int
    is_mutating: bool


@dataclass(frozen=True, slots=True)
class WebhookAnswer:
    """`review` is the decoded AdmissionReview that came back; or `error`, Go's words for why none did.

    An `error` reads as client-go writes it, for example
    `Post "https://127.0.0.1:8443/mutate?timeout=10s": dial tcp 127.0.0.1:8443: connect: connection refused`.
    """

    review: dict[str, Any] | None = None
    error: str = ""


class Denial(NamedTuple):
    """What one ValidatingAdmissionPolicy has against a request. `message` is the whole sentence after
    `is forbidden: `; `text` the policy's own words in it."""

    message: str
    reason: str
    policy: str
    binding: str
    text: str


@dataclass(slots=True)
class Admitted:
    """The object as it goes in. `charges` are written in the same transaction (quota usage), or two objects could
    spend the same quota. None for a deletion."""

    obj: Obj | None
    warnings: tuple[str, ...] = ()
    audit: dict[str, str] = field(default_factory=dict)
    charges: tuple[SetStatus, ...] = ()
    spoken: tuple[Denial, ...] = ()
    """Of the warnings, what policies said."""


@dataclass(frozen=True, slots=True)
class Denied:
    """A refusal: the `Status` as it goes over the wire, by which plugin. Warnings are sent all the same."""

    plugin: str
    status: dict[str, Any]
    warnings: tuple[str, ...] = ()
    audit: dict[str, str] = field(default_factory=dict)
    denials: tuple[Denial, ...] = ()
    """Everything policies have against it; the first of these is what the status says."""
    spoken: tuple[Denial, ...] = ()

    @classmethod
    def by(cls, plugin: str, refused: ApiError) -> Denied:
        return cls(plugin, refused.status())

    @property
    def code(self) -> int:
        return int(self.status["code"])

    @property
    def message(self) -> str:
        return str(self.status["message"])

    def error(self) -> ApiError:
        error = ApiError(self.code, str(self.status.get("reason", "")), self.message)
        # A webhook may have said anything.
        details = self.status.get("details")
        causes = details.get("causes") if isinstance(details, dict) else None
        if isinstance(causes, list):
            error.causes = tuple(str(c.get("reason", "")) for c in causes if isinstance(c, dict))
        return error


Outcome = Admitted | Denied


def status_body(
    code: int, reason: str, message: str, details: dict[str, Any] | None = None
) -> dict[str, Any]:
    """A failure `Status` as it goes over the wire."""
    body: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }
    if not reason:
        del body["reason"]
    if details:
        body["details"] = details
    return body
