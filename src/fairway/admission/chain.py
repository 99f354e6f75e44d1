"""Admission of a write, in kube-apiserver's order: what every plugin changes, then what every plugin refuses.

    chain = Chain(view, authorizer)          # once per cluster: `door.Door` holds it
    store.followers.append(chain)            # so that it sees policies and webhooks change
    outcome = drive(chain.mutating(request), call)       # `call` performs a CallWebhook, gives a WebhookAnswer
    ... defaults, object validation of outcome.obj ...
    outcome = drive(chain.validating(request_with_that_obj), call)
    ... write outcome.obj and outcome.charges in one transaction ...

Both phases are generators that yield `CallWebhook`, are sent `WebhookAnswer` and return an `Outcome`: a server that
serves others meanwhile writes `outcome = yield from chain.mutating(request)`. Warnings of both phases go to the
client. For a dry run the charges are not written.

Changing: NamespaceLifecycle (refuses), LimitRanger, ServiceAccount, TaintNodesByCondition, Priority,
DefaultTolerationSeconds, ExtendedResourceToleration (if asked for), DefaultStorageClass, RuntimeClass,
StorageObjectInUseProtection, DefaultIngressClass, PodTopologyLabels, MutatingAdmissionPolicy,
MutatingAdmissionWebhook, the webhooks of operators handed in; then RBAC's check against escalation, which upstream's
storage of roles makes at this point.
Refusing: LimitRanger, ServiceAccount, PodSecurity, Priority, RuntimeClass, CertificateApproval, CertificateSigning,
ValidatingAdmissionPolicy, ValidatingAdmissionWebhook, the webhooks of operators, ResourceQuota.
(CertificateSubjectRestriction is `apiserver`'s: it reads the request's PKCS#10.)

Source: pkg/kubeapiserver/options/plugins.go AllOrderedPlugins; apiserver pkg/admission/{chain,reinvocation}.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Protocol

from fairway.admission import certificates, intree, quota
from fairway.admission.answers import forbidden, invalid
from fairway.admission.intree import Options
from fairway.admission.phasenotes import Configured, Notes
from fairway.admission.podsecurity.admission import PLUGIN as POD_SECURITY
from fairway.admission.podsecurity.admission import verdict as pod_security_verdict
from fairway.admission.policies.index import GROUP, PolicyIndex
from fairway.admission.policies.matching import is_exempt
from fairway.admission.rbac import escalation
from fairway.admission.rbac.attributes import RBAC_GROUP
from fairway.admission.rbac.authorizer import Authorizer
from fairway.admission.request import (
    CREATE,
    UPDATE,
    AdmissionRequest,
    Admitted,
    CallWebhook,
    Denied,
    Outcome,
    WebhookAnswer,
)
from fairway.cluster.actions import View
from fairway.cluster.changes import Change
from fairway.kube.objects import Obj

Steps = Generator[CallWebhook, WebhookAnswer, Outcome]

# Reviews are questions, not objects: policies and webhooks do not see them.
_UNSEEN = frozenset(
    (
        "tokenreviews",
        "selfsubjectreviews",
        "subjectaccessreviews",
        "localsubjectaccessreviews",
        "selfsubjectaccessreviews",
        "selfsubjectrulesreviews",
    )
)


def drive(steps: Steps, call: Callable[[CallWebhook], WebhookAnswer]) -> Outcome:
    """Run a phase to its end, with `call` as the one who performs webhook calls."""
    try:
        wanted = next(steps)
        while True:
            wanted = steps.send(call(wanted))
    except StopIteration as end:
        outcome: Outcome = end.value
        return outcome


class Operators(Protocol):
    """The webhooks of operators that run in this process where a real cluster would call them: after all others."""

    def changed(self, operation: str, obj: Obj, old: Obj | None, *, strict: bool) -> Obj | Denied: ...
    def refused(self, operation: str, obj: Obj, old: Obj | None) -> Denied | None: ...


class Chain:
    """All plugins over one view. A store follower: policies and webhooks are compiled once."""

    def __init__(
        self,
        view: View,
        authorizer: Authorizer | None = None,
        options: Options | None = None,
        operators: Operators | None = None,
    ) -> None:
        self._view = view
        self._authorizer = authorizer
        self._operators = operators
        self._options = options or Options()
        self.index = PolicyIndex(view)
        ask = None if authorizer is None else authorizer.authorize
        self._configured = Configured(view, ask, self.index, self._options)

    def apply(self, change: Change) -> None:
        self.index.apply(change)

    def mutating(self, request: AdmissionRequest) -> Steps:
        """Everything that may change the object."""
        notes = Notes([], {})
        mounts_token = self._options.is_served or not self.index.is_empty
        first = intree.changed(self._view, request, self._options, mounts_token=mounts_token)
        if isinstance(first, Denied):
            return first
        if self._meets_configured(request):
            from fairway.admission.configured import changed

            outcome = yield from changed(self._configured, replace(request, obj=first), notes)
            if isinstance(outcome, Denied):
                return notes.on(outcome)
            first = outcome.obj
        if self._operators is not None and first is not None and _is_of_operators(request):
            strict = (request.options or {}).get("fieldValidation") == "Strict"
            settled = self._operators.changed(request.operation, first, request.old, strict=strict)
            if isinstance(settled, Denied):
                return notes.on(settled)
            first = settled
        if self._authorizer is not None and request.resource.group == RBAC_GROUP:
            refused = escalation.refusal(self._authorizer, replace(request, obj=first))
            if refused is not None:
                return notes.on(refused)
        return notes.on(Admitted(first))

    def validating(self, request: AdmissionRequest) -> Steps:
        """Everything that may refuse; the object is as it will be stored."""
        notes = Notes([], {})
        refused = _ill_formed(request) or intree.refused(self._view, request)
        if refused is None:
            refused = self._pod_security(request, notes)
        if refused is None:
            refused = intree.refused_late(self._view, request)
        if refused is None and self._authorizer is not None:
            refused = certificates.refusal(self._authorizer, request)
        if refused is None and self._meets_configured(request):
            from fairway.admission.configured import refusal

            refused = yield from refusal(self._configured, request, notes)
        if refused is None and self._operators is not None and request.obj and _is_of_operators(request):
            refused = self._operators.refused(request.operation, request.obj, request.old)
        if refused is not None:
            return notes.on(refused)
        return notes.on(self._quota(request))

    def _pod_security(self, request: AdmissionRequest, notes: Notes) -> Denied | None:
        said = pod_security_verdict(self._view, request)
        notes.warnings += said.warnings
        notes.audit.update(said.audit)
        if said.invalid:
            return invalid(request, POD_SECURITY, said.invalid)
        return forbidden(request, POD_SECURITY, said.forbidden) if said.forbidden else None

    def _quota(self, request: AdmissionRequest) -> Outcome:
        obj: Obj | None = request.obj
        if obj is None or not quota.is_counted_request(request):
            return Admitted(obj)
        violation = quota.quota_violation(self._view, obj, request.old)
        if violation is not None:
            return forbidden(request, quota.PLUGIN, violation)
        return Admitted(obj, charges=quota.charges(self._view, obj, request.old))

    def _meets_configured(self, request: AdmissionRequest) -> bool:
        """Whether a policy or a webhook may see it. They come with CEL: loaded where somebody configured one."""
        return not self.index.is_empty and request.resource.resource not in _UNSEEN and not is_exempt(request)


def _is_of_operators(request: AdmissionRequest) -> bool:
    return request.operation in (CREATE, UPDATE) and not request.subresource


def _ill_formed(request: AdmissionRequest) -> Denied | None:
    """Policies and webhook configurations that could not work. Upstream's storage checks them at this point."""
    if request.resource.group != GROUP or request.obj is None or request.subresource:
        return None
    from fairway.admission.policies.checking import problems

    found = problems(request.obj)
    return invalid(request, "Validation", found) if found else None
