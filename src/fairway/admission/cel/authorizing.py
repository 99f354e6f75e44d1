"""`authorizer`: asking, in an expression, what the requesting user may do.

A check carries what is to be asked; who is asked comes from `asking`, which the evaluation sets around itself.

Source: apiserver pkg/cel/library/authz.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from fairway.admission.rbac.attributes import Attributes, Decision
from fairway.admission.request import ALL_AUTHENTICATED, User
from fairway.kube.cel.functions.overloads import BOOL, MAP, STRING, FunctionError, member, plain, tagged

AUTHORIZER = "kubernetes.authorization.Authorizer"
GROUP_CHECK = "kubernetes.authorization.GroupCheck"
RESOURCE_CHECK = "kubernetes.authorization.ResourceCheck"
PATH_CHECK = "kubernetes.authorization.PathCheck"
DECISION = "kubernetes.authorization.Decision"

Ask = Callable[[Attributes], Decision]

_asked: ContextVar[tuple[Ask, User] | None] = ContextVar("asked", default=None)


@contextmanager
def asking(ask: Ask | None, user: User) -> Iterator[None]:
    """Answer the checks of expressions evaluated inside with `ask`, about `user`."""
    token = _asked.set(None if ask is None else (ask, user))
    try:
        yield
    finally:
        _asked.reset(token)


def authorizer_value() -> dict[str, Any]:
    """What the variable `authorizer` holds."""
    return {AUTHORIZER: {}}


def resource_check(group: str, resource: str, subresource: str, namespace: str, name: str) -> dict[str, Any]:
    """What `authorizer.requestResource` holds."""
    check = {"group": group, "resource": resource, "subresource": subresource}
    return {RESOURCE_CHECK: {**check, "namespace": namespace, "name": name}}


def _path(value: Any, path: str) -> dict[str, Any]:
    if not path:
        raise FunctionError("path must not be empty")
    return {PATH_CHECK: {**tagged(value, AUTHORIZER), "path": path}}


def _group(value: Any, group: str) -> dict[str, Any]:
    return {GROUP_CHECK: {**tagged(value, AUTHORIZER), "group": group}}


def _service_account(value: Any, namespace: str, name: str) -> dict[str, Any]:
    return {AUTHORIZER: {**tagged(value, AUTHORIZER), "as": f"{namespace}:{name}"}}


def _resource(value: Any, resource: str) -> dict[str, Any]:
    return {RESOURCE_CHECK: {**tagged(value, GROUP_CHECK), "resource": resource}}


def _with(field: str) -> Callable[[Any, str], dict[str, Any]]:
    return lambda value, text: {RESOURCE_CHECK: {**tagged(value, RESOURCE_CHECK), field: text}}


def _check(value: Any, verb: str) -> dict[str, Any]:
    current = _asked.get()
    if current is None:
        raise FunctionError("authorizer is not available here")
    ask, user = current
    wanted = value.get(PATH_CHECK) or value.get(RESOURCE_CHECK) if isinstance(value, dict) else None
    if not wanted:
        raise FunctionError("no such overload")
    account = wanted.get("as")
    if account:
        namespace = account.partition(":")[0]
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", ALL_AUTHENTICATED)
        user = User(f"system:serviceaccount:{account}", groups)
    fields = ("group", "resource", "subresource", "namespace", "name", "path")
    decision = ask(Attributes(user, verb, *(wanted.get(f, "") for f in fields)))
    return {DECISION: {"allowed": decision.allowed, "reason": decision.reason}}


def _decision(field: str) -> Callable[[Any], Any]:
    return lambda value: tagged(value, DECISION)[field]


def _never_errs(value: Any) -> bool:
    return tagged(value, DECISION) is None


def _no_error(value: Any) -> str:
    return "" if tagged(value, DECISION) else "no decision"


_TEXT = (MAP, STRING)

OVERLOADS = (
    member("path", _TEXT, MAP, _path),
    member("group", _TEXT, MAP, _group),
    member("serviceAccount", (MAP, STRING, STRING), MAP, _service_account),
    member("resource", _TEXT, MAP, _resource),
    member("subresource", _TEXT, MAP, _with("subresource")),
    member("namespace", _TEXT, MAP, _with("namespace")),
    member("name", _TEXT, MAP, _with("name")),
    member("fieldSelector", _TEXT, MAP, _with("fieldSelector")),
    member("labelSelector", _TEXT, MAP, _with("labelSelector")),
    member("check", _TEXT, MAP, _check),
    member("allowed", (MAP,), BOOL, _decision("allowed")),
    member("reason", (MAP,), STRING, _decision("reason")),
    member("errored", (MAP,), BOOL, _never_errs),
    member("error", (MAP,), STRING, _no_error),
    plain("jsonpatch.escapeKey", (STRING,), STRING, lambda text: text.replace("~", "~0").replace("/", "~1")),
)
