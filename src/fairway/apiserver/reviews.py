"""Questions that are POSTed: may I, who am I, whose token is this? And bindings, which only write.

Source: pkg/registry/authorization, pkg/registry/authentication (v1.36).
"""

from __future__ import annotations

from typing import Any

from fairway.admission.rbac import reviews as rbac
from fairway.apiserver.asking import Api, Ask
from fairway.apiserver.decoding import body_of, check_kind
from fairway.apiserver.statuses import StatusError, method_not_allowed
from fairway.apiserver.wire.messages import Answer, Response, json_response
from fairway.kube.objects import Obj


def answer(api: Api, ask: Ask) -> Answer:
    """Raises: StatusError (400, 405, 422)."""
    if ask.info.verb != "create" or ask.info.name:
        raise method_not_allowed(ask.resource.kind, ask.info.verb)
    if ask.resource.kind.kind == "Binding":
        from fairway.apiserver.subresources.binding import bind_from_collection

        return bind_from_collection(api, ask)
    review = body_of(ask)
    check_kind(review, ask.resource)
    review = {**review, "metadata": review.get("metadata") or {"creationTimestamp": None}}
    kind = ask.resource.kind.kind
    if kind == "TokenReview":
        return _created({**review, "status": _token_status(api, review)})
    if kind == "SelfSubjectReview":
        return _created({**review, "status": {"userInfo": ask.user.info()}})
    wrong = rbac.problems(review, ask.info.namespace)
    if wrong:
        said = wrong[0] if len(wrong) == 1 else f"[{', '.join(wrong)}]"
        message = f'{kind}.{ask.resource.group} "" is invalid: {said}'
        raise StatusError(422, "Invalid", message, {"group": ask.resource.group, "kind": kind})
    return _created(rbac.answer(api.authorizer, review, ask.user))


def _created(review: Obj) -> Response:
    return json_response(201, review)


def _token_status(api: Api, review: Obj) -> dict[str, Any]:
    spec = review.get("spec") or {}
    token = str(spec.get("token") or "")
    user = api.tokens.user(token) if token else None
    if user is None:
        return {"authenticated": False, "user": {}, "error": "invalid bearer token"}
    wanted, had = spec.get("audiences") or [], api.tokens.audiences(token)
    shared = [a for a in wanted if a in had] if wanted else had
    if wanted and not shared:
        return {
            "authenticated": False,
            "user": {},
            "error": f"token audiences {had} is invalid for the target audiences {wanted}",
        }
    return {"authenticated": True, "user": user.info(), "audiences": shared}
