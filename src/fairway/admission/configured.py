"""What policies and webhooks that users configured make of a write, and what they refuse.

Loaded with the first write that may meet one: CEL is a tenth of a server's memory, and most clusters have no policy.

Source: apiserver pkg/admission/{chain,reinvocation}.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

from fairway.admission import intree
from fairway.admission.answers import denied, forbidden
from fairway.admission.phasenotes import Configured, Notes
from fairway.admission.policies.mutating import Policy, mutate
from fairway.admission.policies.validating import CODES, judge
from fairway.admission.request import (
    DELETE,
    AdmissionRequest,
    Admitted,
    CallWebhook,
    Denial,
    Denied,
    Outcome,
    WebhookAnswer,
)
from fairway.admission.webhooks.phases import Called, call_mutating, call_validating


def changed(
    by: Configured, request: AdmissionRequest, notes: Notes
) -> Generator[CallWebhook, WebhookAnswer, Outcome]:
    """Mutating policies and webhooks, and a second round if something changed what came before it."""
    policies = by.policies.mutating() if request.obj is not None and request.operation != DELETE else ()
    obj, invoked = request.obj, frozenset[tuple[str, str]]()
    if policies:
        mutated = mutate(by.view, by.ask, request, policies)
        if mutated.refusals:
            causes = [{"message": r} for r in mutated.refusals]
            return denied(request, "MutatingAdmissionPolicy", mutated.refusals[0], causes=causes)
        obj, invoked = mutated.obj, mutated.invoked
    called = yield from call_mutating(by.view, by.ask, by.policies, replace(request, obj=obj))
    notes.add(called)
    if called.refusal is not None:
        return Denied("MutatingAdmissionWebhook", called.refusal)
    if called.obj == request.obj:
        return Admitted(request.obj)
    return (yield from _again(by, request, called, policies, invoked, notes))


def _again(
    by: Configured,
    request: AdmissionRequest,
    called: Called,
    policies: tuple[Policy, ...],
    invoked: frozenset[tuple[str, str]],
    notes: Notes,
) -> Generator[CallWebhook, WebhookAnswer, Outcome]:
    """The built-in plugins see what policies and webhooks made, and those that asked for it do too."""
    again = intree.changed(by.view, replace(request, obj=called.obj), by.options)
    if isinstance(again, Denied):
        return again
    obj = again
    if invoked:
        now = replace(request, obj=obj)
        mutated = mutate(by.view, by.ask, now, policies, invoked)
        if mutated.refusals:
            return denied(request, "MutatingAdmissionPolicy", mutated.refusals[0])
        obj = mutated.obj
    if called.invoked:
        now = replace(request, obj=obj)
        second = yield from call_mutating(by.view, by.ask, by.policies, now, called.invoked)
        notes.add(second)
        if second.refusal is not None:
            return Denied("MutatingAdmissionWebhook", second.refusal)
        obj = second.obj
    return Admitted(obj)


def refusal(
    by: Configured, request: AdmissionRequest, notes: Notes
) -> Generator[CallWebhook, WebhookAnswer, Denied | None]:
    """What validating policies say, then validating webhooks."""
    refused = _judged(by, request, notes)
    if refused is not None:
        return refused
    called = yield from call_validating(by.view, by.ask, by.policies, request)
    notes.add(called)
    return None if called.refusal is None else Denied("ValidatingAdmissionWebhook", called.refusal)


def _judged(by: Configured, request: AdmissionRequest, notes: Notes) -> Denied | None:
    policies = by.policies.validating()
    if not policies:
        return None
    said = judge(by.view, by.ask, request, policies)
    notes.warnings += said.warnings
    notes.audit.update(said.audit)
    notes.spoken = said.spoken
    return replace(denied_by(request, said.denials[0]), denials=said.denials) if said.denials else None


def denied_by(request: AdmissionRequest, denial: Denial) -> Denied:
    """What a client reads of a policy's refusal."""
    reason = denial.reason or "Invalid"
    return forbidden(
        request,
        "ValidatingAdmissionPolicy",
        denial.message,
        reason=reason,
        code=CODES.get(reason, 422),
        causes=[{"message": denial.message}],
    )
