"""Who makes this request, and as whom? Certificate or token first, then impersonation.

Source: apiserver pkg/endpoints/filters/authentication.go, impersonation.go (v1.36).
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from fairway.admission.rbac import impersonation
from fairway.admission.rbac.attributes import Attributes, forbidden_status
from fairway.admission.rbac.authorizer import Authorizer
from fairway.admission.request import ALL_AUTHENTICATED, User
from fairway.apiserver.auth.tokens import Tokens
from fairway.apiserver.refusals import Refused
from fairway.apiserver.statuses import internal, unauthorized
from fairway.apiserver.wire.messages import Request

_AS = "impersonate-user"
_AS_GROUP = "impersonate-group"
_AS_UID = "impersonate-uid"
_AS_EXTRA = "impersonate-extra-"
_NOBODY = User("")


class Authentication:
    """Turns requests into users."""

    def __init__(self, tokens: Tokens, authorizer: Authorizer) -> None:
        self._tokens = tokens
        self._authorizer = authorizer

    def user(self, request: Request) -> User:
        """The user this request acts as.

        Raises: StatusError (401), Refused (403 for an impersonation that is not allowed).
        """
        user = self._requester(request)
        if user is None:
            raise unauthorized()
        headers = request.headers
        if _AS in headers:
            return self._impersonated(user, request)
        if any(name.startswith("impersonate-") for name in headers):
            raise internal("requested impersonating without a user")
        return user

    def _requester(self, request: Request) -> User | None:
        authorization = request.headers.get("authorization")
        if authorization is not None:
            scheme, _, token = authorization.partition(" ")
            return self._tokens.user(token.strip()) if scheme.lower() == "bearer" else None
        connection = request.connection
        if connection is None:
            return None
        if connection.certificate_user is None:
            connection.certificate_user = certificate_user(connection.transport) or _NOBODY
        known: User = connection.certificate_user
        return known if known is not _NOBODY else None

    def _impersonated(self, requester: User, request: Request) -> User:
        name = request.headers[_AS]
        groups = [g.strip() for g in request.headers.get(_AS_GROUP, "").split(",") if g.strip()]
        uid = request.headers.get(_AS_UID, "")
        extra = {
            unquote(header[len(_AS_EXTRA) :]): [v.strip() for v in value.split(",")]
            for header, value in request.headers.items()
            if header.startswith(_AS_EXTRA)
        }
        for needed in impersonation.checks(requester, name, groups, uid, extra):
            self.require(needed)
        return impersonation.impersonated(name, groups, uid, extra)

    def require(self, wanted: Attributes) -> None:
        """Raises: Refused (403)."""
        decision = self._authorizer.authorize(wanted)
        if not decision.allowed:
            raise Refused(forbidden_status(wanted, decision.reason))


def certificate_user(transport: Any) -> User | None:
    """CN is the user's name, every O a group. Source: request/x509 CommonNameUserConversion."""
    certificate = transport.get_extra_info("peercert")
    if not certificate:
        return None
    name = ""
    groups = []
    for rdn in certificate.get("subject", ()):
        for attribute, value in rdn:
            if attribute == "commonName":
                name = value
            elif attribute == "organizationName":
                groups.append(value)
    return User(name, (*groups, ALL_AUTHENTICATED)) if name else None
