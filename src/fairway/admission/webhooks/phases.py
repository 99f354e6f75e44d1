"""Running webhooks: mutating ones each on the object the one before left, validating ones on the final object.

Both are generators that yield calls and are sent answers.

Source: apiserver pkg/admission/plugin/webhook/{mutating,validating}/dispatcher.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Any, NamedTuple

from fairway.admission.cel.authorizing import Ask
from fairway.admission.identity import misfit
from fairway.admission.policies.index import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, PolicyIndex
from fairway.admission.request import AdmissionRequest, CallWebhook, WebhookAnswer, status_body
from fairway.admission.webhooks.calling import Refusal, call_of, match_of, outcome_of, webhooks_of
from fairway.admission.webhooks.reviews import Response
from fairway.cluster.actions import View
from fairway.cluster.errors import ApiError
from fairway.cluster.patches import json_patch
from fairway.kube.objects import Obj

_FAILED_OPEN = "failed-open.{}.webhook.admission.k8s.io/round_{}_index_{}"


class Called(NamedTuple):
    """`invoked` are the webhooks that want to be asked again if a later one changes something."""

    obj: Obj | None
    refusal: dict[str, Any] | None = None
    warnings: tuple[str, ...] = ()
    audit: tuple[tuple[str, str], ...] = ()
    invoked: frozenset[int] = frozenset()


Calls = Generator[CallWebhook, WebhookAnswer, Called]


def call_mutating(
    view: View,
    ask: Ask | None,
    index: PolicyIndex,
    request: AdmissionRequest,
    only: frozenset[int] | None = None,
) -> Calls:
    """One after the other; `only` limits a second round."""
    obj = request.obj
    warnings: list[str] = []
    audit: dict[str, str] = {}
    invoked: set[int] = set()
    changed_after: set[int] = set()
    for webhook in webhooks_of(index, MUTATING_WEBHOOKS):
        if only is not None and webhook.number not in only:
            continue
        now = replace(request, obj=obj)
        matched = match_of(view, ask, webhook, now)
        if matched is None:
            continue
        call = matched if isinstance(matched, Refusal) else call_of(view, webhook, now, matched)
        if isinstance(call, Refusal):
            return Called(obj, call.status, tuple(warnings), tuple(audit.items()))
        answer = yield replace(call, is_mutating=True)
        outcome = outcome_of(webhook, call, answer, is_mutating=True)
        if isinstance(outcome, Refusal):
            return Called(obj, outcome.status, tuple(warnings), tuple(audit.items()))
        if outcome is None:
            key = _FAILED_OPEN.format("mutation", 0 if only is None else 1, webhook.number)
            audit[key] = webhook.name
            continue
        _note(outcome, webhook.name, warnings, audit)
        patched = _patched(obj, outcome, webhook.name)
        if isinstance(patched, Refusal):
            return Called(obj, patched.status, tuple(warnings), tuple(audit.items()))
        if patched != obj:
            changed_after |= invoked
        obj = patched
        if webhook.is_reinvoked:
            invoked.add(webhook.number)
    return Called(obj, None, tuple(warnings), tuple(audit.items()), frozenset(changed_after or invoked))


def _note(response: Response, webhook: str, warnings: list[str], audit: dict[str, str]) -> None:
    warnings += response.warnings
    audit.update({f"{webhook}/{key}": value for key, value in response.audit})


def _patched(obj: Obj | None, response: Response, webhook: str) -> Obj | Refusal | None:
    if not response.patch:
        return obj
    if obj is None:
        why = f'admission webhook "{webhook}" attempted to modify the object, '
        why += "which is not supported for this operation"
        return Refusal(status_body(500, "InternalError", f"Internal error occurred: {why}"))
    try:
        patched: Obj = json_patch(obj, response.patch)
    except (ApiError, RecursionError) as refused:
        why = refused.message if isinstance(refused, ApiError) else "the patch is nested too deep"
        message = f"Internal error occurred: {why}"
        return Refusal(status_body(500, "InternalError", message))
    wrong = misfit(obj, patched)
    return patched if wrong is None else Refusal(wrong)


def call_validating(view: View, ask: Ask | None, index: PolicyIndex, request: AdmissionRequest) -> Calls:
    """All that match; the first refusal in calling order counts, as all of them are asked anyway."""
    warnings: list[str] = []
    audit: dict[str, str] = {}
    refusal: dict[str, Any] | None = None
    for webhook in webhooks_of(index, VALIDATING_WEBHOOKS):
        matched = match_of(view, ask, webhook, request)
        if matched is None:
            continue
        call = matched if isinstance(matched, Refusal) else call_of(view, webhook, request, matched)
        if isinstance(call, Refusal):
            refusal = refusal or call.status
            continue
        outcome = outcome_of(webhook, call, (yield call), is_mutating=False)
        if isinstance(outcome, Refusal):
            refusal = refusal or outcome.status
        elif outcome is None:
            audit[_FAILED_OPEN.format("validating", 0, webhook.number)] = webhook.name
        else:
            _note(outcome, webhook.name, warnings, audit)
    return Called(request.obj, refusal, tuple(warnings), tuple(audit.items()))
