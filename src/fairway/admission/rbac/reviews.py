"""SubjectAccessReview and its relatives: the object that came in, with its status.

Source: pkg/registry/authorization, pkg/apis/authorization/validation (v1.36).
"""

from __future__ import annotations

from typing import Any

from fairway.admission.rbac.attributes import Attributes, Decision
from fairway.admission.rbac.authorizer import Authorizer
from fairway.admission.request import User
from fairway.kube.objects import Obj
from fairway.kube.problem import Faults

ACCESS_REVIEWS = ("SubjectAccessReview", "SelfSubjectAccessReview", "LocalSubjectAccessReview")
_OF_OTHERS = ("SubjectAccessReview", "LocalSubjectAccessReview")


def problems(review: Obj, namespace: str = "") -> Faults:
    """What is wrong with a review."""
    spec, kind = review.get("spec") or {}, review.get("kind", "")
    has_resource, has_url = bool(spec.get("resourceAttributes")), bool(spec.get("nonResourceAttributes"))
    found = Faults()
    if has_resource and has_url:
        why = "cannot be specified in combination with resourceAttributes"
        found.invalid(("spec", "nonResourceAttributes"), spec["nonResourceAttributes"], why)
    if not has_resource and not has_url and kind in ACCESS_REVIEWS:
        why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        found.invalid(("spec", "resourceAttributes"), None, why)
    if kind in _OF_OTHERS and not spec.get("user") and not spec.get("groups"):
        found.invalid(("spec", "user"), "", "at least one of user or group must be specified")
    if kind == "LocalSubjectAccessReview":
        asked = (spec.get("resourceAttributes") or {}).get("namespace") or ""
        if asked != namespace:
            found.invalid(("spec", "resourceAttributes", "namespace"), asked, "must match metadata.namespace")
    if kind == "SelfSubjectRulesReview" and not spec.get("namespace"):
        found.required(("spec", "namespace"), "no namespace on request")
    return found


def answer(authorizer: Authorizer, review: Obj, user: User) -> Obj:
    """The review with its status; `user` is who asks (the subject, for Self… reviews)."""
    spec, kind = review.get("spec") or {}, review.get("kind", "")
    if kind == "SelfSubjectRulesReview":
        return {**review, "status": rules_status(authorizer, user, spec.get("namespace") or "")}
    subject = user if kind == "SelfSubjectAccessReview" else _subject(spec)
    decision = authorizer.authorize(attributes_of(spec, subject))
    return {**review, "status": _access_status(decision)}


def attributes_of(spec: Obj, subject: User) -> Attributes:
    """What an access review asks about."""
    url = spec.get("nonResourceAttributes")
    if url and not spec.get("resourceAttributes"):
        return Attributes(subject, url.get("verb") or "", path=url.get("path") or "")
    asked = spec.get("resourceAttributes") or {}
    return Attributes(
        subject,
        asked.get("verb") or "",
        asked.get("group") or "",
        asked.get("resource") or "",
        asked.get("subresource") or "",
        asked.get("namespace") or "",
        asked.get("name") or "",
        "",
        asked.get("version") or "",
    )


def _subject(spec: Obj) -> User:
    extra = tuple(sorted((key, tuple(values or ())) for key, values in (spec.get("extra") or {}).items()))
    return User(spec.get("user") or "", tuple(spec.get("groups") or ()), spec.get("uid") or "", extra)


def _access_status(decision: Decision) -> dict[str, Any]:
    status: dict[str, Any] = {"allowed": decision.allowed}
    if decision.reason:
        status["reason"] = decision.reason
    return status


def rules_status(authorizer: Authorizer, user: User, namespace: str) -> dict[str, Any]:
    """Everything a user may do in a namespace, as far as rules can say it."""
    rules = authorizer.rules_for(user, namespace)
    return {
        "resourceRules": [r._replace(urls=()).raw() for r in rules if r.resources],
        "nonResourceRules": [
            {"verbs": list(r.verbs), "nonResourceURLs": list(r.urls)} for r in rules if r.urls
        ],
        "incomplete": False,
    }
