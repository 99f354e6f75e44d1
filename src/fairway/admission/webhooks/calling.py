"""Which webhooks a request is shown to, in which order, and what an answer or a failure means.

Configurations come by name, webhooks within one in their own order.

Source: apiserver pkg/admission/plugin/webhook/generic/webhook.go, {mutating,validating}/dispatcher.go (v1.36).
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, NamedTuple
from uuid import UUID

from fairway.admission.cel.authorizing import Ask, asking
from fairway.admission.cel.evaluating import Evaluation
from fairway.admission.policies.conditions import Programs, are_met, compile_conditions
from fairway.admission.policies.index import PolicyIndex
from fairway.admission.policies.matching import Match, Matcher, webhook_matcher
from fairway.admission.policies.names import bindings, variables
from fairway.admission.request import (
    AdmissionRequest,
    CallWebhook,
    WebhookAnswer,
    status_body,
)
from fairway.admission.webhooks.reviews import Response, rejection, response_of, review_of
from fairway.cluster.actions import View
from fairway.kube.objects import name_of

DEFAULT_TIMEOUT_S = 10


class Webhook(NamedTuple):
    """One webhook of one configuration. `number` counts over all configurations, for audit annotations."""

    configuration: str
    name: str
    number: int
    matcher: Matcher
    conditions: Programs
    raw: dict[str, Any]

    @property
    def fails_open(self) -> bool:
        return self.raw.get("failurePolicy") == "Ignore"

    @property
    def is_reinvoked(self) -> bool:
        return self.raw.get("reinvocationPolicy") == "IfNeeded"


class Refusal(NamedTuple):
    status: dict[str, Any]


def webhooks_of(index: PolicyIndex, gk: str) -> tuple[Webhook, ...]:
    """All webhooks of one kind of configuration, in calling order."""
    return index.remembered(gk, lambda view: _read(view, gk))


def _read(view: View, gk: str) -> tuple[Webhook, ...]:
    names = variables(has_params=False, has_authorizer=True)
    found: list[Webhook] = []
    for configuration in view.objects(gk):
        for raw in configuration.get("webhooks") or ():
            conditions = compile_conditions(raw.get("matchConditions") or (), names)
            found.append(
                Webhook(
                    name_of(configuration),
                    raw.get("name") or "",
                    len(found),
                    webhook_matcher(raw),
                    conditions,
                    raw,
                )
            )
    return tuple(found)


def match_of(
    view: View, ask: Ask | None, webhook: Webhook, request: AdmissionRequest
) -> Match | Refusal | None:
    """How the request concerns a webhook; a refusal where its matchConditions fail."""
    matched = webhook.matcher.match(view, request)
    if matched is None or not webhook.conditions:
        return matched
    values = bindings(request, matched, None, None)
    with asking(ask, request.user):
        met = are_met(webhook.conditions, Evaluation(values).evaluate)
    if isinstance(met, str):
        return None if webhook.fails_open else _forbidden(request, met)
    return matched if met else None


def _forbidden(request: AdmissionRequest, why: str) -> Refusal:
    resource = request.resource
    qualified = f"{resource.resource}.{resource.group}" if resource.group else resource.resource
    named = f'{qualified} "{request.name}"' if request.name else qualified
    details = {"name": request.name, "group": resource.group, "kind": resource.resource}
    told = {key: value for key, value in details.items() if value}
    return Refusal(status_body(403, "Forbidden", f"{named} is forbidden: {why}", told))


def call_of(view: View, webhook: Webhook, request: AdmissionRequest, matched: Match) -> CallWebhook | Refusal:
    """The call to make; a dry run never reaches a webhook that has side effects."""
    side_effects = webhook.raw.get("sideEffects")
    if request.dry_run and side_effects not in ("None", "NoneOnDryRun"):
        message = f'admission webhook "{webhook.name}" does not support dry run'
        return Refusal(status_body(400, "BadRequest", message))
    uid = _call_uid(view, webhook, request)
    return CallWebhook(
        webhook.configuration,
        webhook.name,
        webhook.raw.get("clientConfig") or {},
        review_of(request, matched, uid),
        int(webhook.raw.get("timeoutSeconds") or DEFAULT_TIMEOUT_S),
        False,
    )


def _call_uid(view: View, webhook: Webhook, request: AdmissionRequest) -> str:
    """A UUID of its own for every call, the same in every run."""
    resource = request.resource.resource
    subject = (request.uid, str(view.version), request.operation, resource, request.namespace, request.name)
    text = "/".join((*subject, webhook.configuration, webhook.name))
    return str(UUID(bytes=blake2b(text.encode(), digest_size=16).digest(), version=4))


def outcome_of(
    webhook: Webhook, call: CallWebhook, answer: WebhookAnswer, *, is_mutating: bool
) -> Response | Refusal | None:
    """What the answer means; None where it failed and the webhook's failurePolicy is Ignore."""
    if answer.review is None:
        return _failed(webhook, f"failed to call webhook: {answer.error}")
    uid = call.body["request"]["uid"]
    response = response_of(answer.review, uid, is_mutating=is_mutating)
    if isinstance(response, str):
        is_whole = response.startswith(("received undecodable", "unsupported patch type"))
        return _failed(webhook, response if is_whole else f"received invalid webhook response: {response}")
    if not response.allowed:
        return Refusal(rejection(webhook.name, response.result))
    return response


def _failed(webhook: Webhook, why: str) -> Refusal | None:
    if webhook.fails_open:
        return None
    said = f'failed calling webhook "{webhook.name}": {why}'
    details = {"causes": [{"message": said}]}
    return Refusal(status_body(500, "InternalError", f"Internal error occurred: {said}", details))
