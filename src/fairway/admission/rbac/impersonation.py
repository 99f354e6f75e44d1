"""`--as`: what must be allowed before one user acts as another, and who that other is.

Source: apiserver pkg/endpoints/filters/impersonation.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairway.admission.rbac.attributes import Attributes
from fairway.admission.request import (
    ALL_AUTHENTICATED,
    ALL_SERVICE_ACCOUNTS,
    ALL_UNAUTHENTICATED,
    ANONYMOUS,
    User,
)

SERVICE_ACCOUNT_PREFIX = "system:serviceaccount:"
_AUTHENTICATION = "authentication.k8s.io"


def service_account_name(username: str) -> tuple[str, str] | None:
    """(namespace, name) if this is how a service account is called."""
    if not username.startswith(SERVICE_ACCOUNT_PREFIX):
        return None
    namespace, _, name = username[len(SERVICE_ACCOUNT_PREFIX) :].partition(":")
    return (namespace, name) if namespace and name and ":" not in name else None


def service_account_groups(namespace: str) -> tuple[str, ...]:
    """Groups of every service account of a namespace."""
    return (ALL_SERVICE_ACCOUNTS, f"{ALL_SERVICE_ACCOUNTS}:{namespace}")


def checks(
    requester: User,
    username: str,
    groups: Sequence[str] = (),
    uid: str = "",
    extra: Mapping[str, Sequence[str]] | None = None,
) -> list[Attributes]:
    """What the requester must be allowed, in order; the first that is not is the 403."""
    account = service_account_name(username)
    if account is not None:
        namespace, name = account
        needed = [Attributes(requester, "impersonate", "", "serviceaccounts", "", namespace, name, "", "v1")]
    else:
        needed = [Attributes(requester, "impersonate", "", "users", "", "", username, "", "v1")]
    needed += [Attributes(requester, "impersonate", "", "groups", "", "", g, "", "v1") for g in groups]
    for key, values in sorted((extra or {}).items()):
        needed += [
            Attributes(requester, "impersonate", _AUTHENTICATION, "userextras", key, "", value, "", "v1")
            for value in values
        ]
    if uid:
        needed.append(Attributes(requester, "impersonate", _AUTHENTICATION, "uids", "", "", uid, "", "v1"))
    return needed


def impersonated(
    username: str,
    groups: Sequence[str] = (),
    uid: str = "",
    extra: Mapping[str, Sequence[str]] | None = None,
) -> User:
    """The user a request is then made as."""
    members = list(groups)
    account = service_account_name(username)
    if account is not None and not members:
        members = list(service_account_groups(account[0]))
    if username == ANONYMOUS:
        if ALL_UNAUTHENTICATED not in members:
            members.append(ALL_UNAUTHENTICATED)
    elif ALL_AUTHENTICATED not in members and ALL_UNAUTHENTICATED not in members:
        members.append(ALL_AUTHENTICATED)
    said = tuple(sorted((key, tuple(values)) for key, values in (extra or {}).items()))
    return User(username, tuple(members), uid, said)
