"""Questions that are POSTed: may I, who am I, whose token is this? And bindings, which only write.

Source: pkg/registry/authorization, pkg/registry/authentication (v1.36).
"""

from __future__ import annotations

from typing import Any

from fairway.admission.rbac import reviews as rbac
from fairway.apiserver.asking import Api, Ask
from fairway.apiserver.auth.tokens import ISSUER, Unaccepted
from fairway.apiserver.decoding import body_of, of_kind, typed
from fairway.apiserver.statuses import bad_request, invalid_of, method_not_allowed
from fairway.apiserver.wire.messages import Answer, Response, json_response
from fairway.kube.objects import Obj


def answer(api: Api, ask: Ask) -> Answer:
    """Raises: StatusError (400, 405, 422)."""
    if ask.info.verb != "create" or ask.info.name:
        raise method_not_allowed(ask.resource.kind, ask.info.verb)
    if ask.resource.kind.kind == "Binding":
        from fairway.apiserver.subresources.binding import bind_from_collection

        return bind_from_collection(api, ask)
    review = of_kind(body_of(ask), ask.resource)
    review = typed(review, ask.resource.api_version, ask.resource.kind.kind)
    review = {**review, "metadata": review.get("metadata") or {"creationTimestamp": None}}
    kind = ask.resource.kind.kind
    if kind == "TokenReview":
        return _created({**review, "status": _token_status(api, review)})
    if kind == "SelfSubjectReview":
        return _created({**review, "status": {"userInfo": ask.user.info()}})
    wrong = rbac.problems(review, ask.info.namespace)
    if wrong:
        raise invalid_of(ask.resource.group, "", "", wrong)
    return _created(rbac.answer(api.authorizer, review, ask.user))


def _created(review: Obj) -> Response:
    return json_response(201, review)


def _token_status(api: Api, review: Obj) -> dict[str, Any]:
    """Raises: StatusError (400)."""
    spec = review.get("spec") or {}
    if not spec.get("token"):
        raise bad_request("token is required for TokenReview in authentication")
    try:
        user, audiences = api.tokens.reviewed(spec["token"], spec.get("audiences") or (ISSUER,))
    except Unaccepted as why:
        return {"user": {}, "error": str(why)}
    return {"authenticated": True, "user": user.info(), "audiences": audiences}
