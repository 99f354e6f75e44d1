"""ValidatingAdmissionPolicies: does every bound policy let the request through?

Each binding that matches evaluates its policy once per parameter object; what its `validationActions` say decides
whether a failure refuses, warns or is noted for the audit log. The first refusal is the answer.

Source: apiserver pkg/admission/plugin/policy/validating/{dispatcher,validator,policy_decision}.go (v1.36).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from fairway.admission.cel.authorizing import Ask, asking
from fairway.admission.cel.compiling import BOOL, STRING, Error, Program, compiled
from fairway.admission.cel.composition import Composed, Composition, composed
from fairway.admission.cel.evaluating import BUDGET, Evaluation
from fairway.admission.policies.conditions import Programs, are_met, compile_conditions, failed
from fairway.admission.policies.matching import Match, Matcher, matcher_of, namespace_of_request
from fairway.admission.policies.names import bindings, variables
from fairway.admission.policies.params import ParamsError, collect
from fairway.admission.request import AdmissionRequest, Denial
from fairway.cluster.actions import View
from fairway.kube.objects import Obj, name_of

MAX_MESSAGE = 5 * 1024
"""Bytes of a messageExpression's result. Source: MaxEvaluatedMessageExpressionSizeBytes."""
MAX_ANNOTATION = 10 * 1024
"""Bytes. Source: maxAuditAnnotationValueLength."""
MAX_FAILURES = 50
"""Failures written into one audit annotation. Source: maxValidationFailures."""
_NOTED = (STRING, "null_type", "dyn")

FAILURE_ANNOTATION = "validation.policy.admission.k8s.io/validation_failure"
CODES = {"Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413, "Invalid": 422}


# Values of variables that several policies define alike, per way of matching and parameter object.
_Shared = dict[tuple[Match, int], dict[tuple[Any, ...], Any]]


class _Validation(NamedTuple):
    program: Program | Error
    message: str
    message_program: Program | Error | None
    reason: str


class Binding(NamedTuple):
    """A ValidatingAdmissionPolicyBinding, ready to match."""

    name: str
    matcher: Matcher
    actions: tuple[str, ...]
    param_ref: Obj | None


class Policy(NamedTuple):
    """A ValidatingAdmissionPolicy, compiled, with its bindings by name."""

    name: str
    matcher: Matcher
    param_kind: Obj | None
    fails_open: bool
    conditions: Programs
    composition: Composition
    validations: tuple[_Validation, ...]
    annotations: tuple[tuple[str, Program | Error], ...]
    bindings: tuple[Binding, ...]


class Decision(NamedTuple):
    """One validation of one evaluation that did not hold."""

    message: str
    reason: str
    at: int = 0


class Verdict(NamedTuple):
    """`spoken` are the validations that only warn."""

    denials: tuple[Denial, ...] = ()
    spoken: tuple[Denial, ...] = ()
    audit: tuple[tuple[str, str], ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(w.message for w in self.spoken)


def compile_policy(policy: Obj, bound: Iterable[Obj]) -> Policy:
    """A policy and its bindings, ready to be asked."""
    spec = policy.get("spec") or {}
    has_params = spec.get("paramKind") is not None
    names = variables(has_params=has_params, has_authorizer=True)
    composition = composed(spec.get("variables") or [], names)
    said = tuple(n for n in composition.names if not n[0].startswith("authorizer"))
    return Policy(
        name_of(policy),
        matcher_of(spec.get("matchConstraints")),
        spec.get("paramKind"),
        spec.get("failurePolicy") == "Ignore",
        compile_conditions(spec.get("matchConditions") or (), names),
        composition,
        tuple(_validation(v, composition, said) for v in spec.get("validations") or ()),
        tuple(
            (a.get("key") or "", compiled(a.get("valueExpression") or "", composition.names, _NOTED))
            for a in spec.get("auditAnnotations") or ()
        ),
        tuple(compile_binding(b) for b in bound),
    )


def compile_binding(binding: Obj) -> Binding:
    spec = binding.get("spec") or {}
    matcher = matcher_of(spec.get("matchResources"))
    return Binding(
        name_of(binding), matcher, tuple(spec.get("validationActions") or ()), spec.get("paramRef")
    )


def _validation(raw: Obj, composition: Composition, said: tuple[tuple[str, str], ...]) -> _Validation:
    expression = raw.get("messageExpression")
    return _Validation(
        compiled(raw.get("expression") or "", composition.names, (BOOL,)),
        str(raw.get("message") or "").strip(),
        compiled(expression, said, (STRING,)) if expression else None,
        raw.get("reason") or "Invalid",
    )


def judge(view: View, ask: Ask | None, request: AdmissionRequest, policies: Iterable[Policy]) -> Verdict:
    """What all policies say."""
    denials: list[Denial] = []
    spoken: list[Denial] = []
    failures: list[dict[str, Any]] = []
    audit: dict[str, str] = {}
    shared: _Shared = {}
    with asking(ask, request.user):
        for policy in policies:
            matched = policy.matcher.match(view, request)
            if matched is None:
                continue
            noted: dict[str, list[str]] = {}
            for binding in policy.bindings:
                if binding.matcher.match(view, request) is None:
                    continue
                for decision in _decisions(view, request, matched, policy, binding, noted, shared):
                    _act(policy, binding, decision, denials, spoken, failures)
            for key, values in noted.items():
                audit[f"{policy.name}/{key}"] = ", ".join(dict.fromkeys(values))
    if failures:
        audit[FAILURE_ANNOTATION] = json.dumps(failures[:MAX_FAILURES], separators=(",", ":"))
    return Verdict(tuple(denials), tuple(spoken), tuple(audit.items()))


def _act(
    policy: Policy,
    binding: Binding,
    decision: Decision,
    denials: list[Denial],
    spoken: list[Denial],
    failures: list[dict[str, Any]],
) -> None:
    """What the binding wants done about a validation that does not hold; an index below 0 always refuses."""
    actions = binding.actions if decision.at >= 0 else ("Deny",)
    who = f"ValidatingAdmissionPolicy '{policy.name}' with binding '{binding.name}'"
    for action in actions:
        if action == "Deny":
            message = f"{who} denied request: {decision.message}"
            denials.append(Denial(message, decision.reason, policy.name, binding.name, decision.message))
        elif action == "Warn":
            message = f"Validation failed for {who}: {decision.message}"
            spoken.append(Denial(message, decision.reason, policy.name, binding.name, decision.message))
        elif action == "Audit":
            failures.append(
                {
                    "message": decision.message,
                    "policy": policy.name,
                    "binding": binding.name,
                    "expressionIndex": decision.at,
                    "validationActions": list(binding.actions),
                }
            )


def _decisions(
    view: View,
    request: AdmissionRequest,
    matched: Match,
    policy: Policy,
    binding: Binding,
    noted: dict[str, list[str]],
    shared: _Shared,
) -> Iterable[Decision]:
    """What does not hold, over all parameter objects."""
    try:
        params = collect(view, policy.param_kind, binding.param_ref, request.namespace)
    except ParamsError as wrong:
        if not policy.fails_open:
            yield Decision(f"failed to configure binding: {wrong}", "", -1)
        return
    is_namespace = request.kind.kind == "Namespace" and not request.kind.group
    namespace = namespace_of_request(view, request) if request.namespace and not is_namespace else None
    for param in params:
        values = bindings(request, matched, param, namespace)
        met: bool | str = True
        if policy.conditions:
            # Conditions see no namespace.
            alone = Evaluation({**values, "namespaceObject": None})
            met = are_met(policy.conditions, Composed(alone, policy.composition).evaluate)
        if isinstance(met, str):
            if not policy.fails_open:
                yield Decision(met, "")
            continue
        if not met:
            continue
        same = shared.setdefault((matched, id(param)), {})
        evaluation = Composed(Evaluation(values, BUDGET), policy.composition, same)
        yield from _evaluated(policy, evaluation)
        yield from _annotated(policy, evaluation, noted)


def _evaluated(policy: Policy, evaluation: Composed) -> Iterable[Decision]:
    for index, validation in enumerate(policy.validations):
        program = validation.program
        value = program if isinstance(program, Error) else evaluation.evaluate(program)
        if isinstance(value, Error):
            if not policy.fails_open:
                yield Decision(failed(program, value), "", index)
        elif value is not True:
            yield Decision(_message(validation, evaluation), validation.reason, index)


def _message(validation: _Validation, evaluation: Composed) -> str:
    """messageExpression's text, else message, else the expression itself."""
    program = validation.message_program
    if isinstance(program, Program):
        value = evaluation.evaluate(program)
        text = value.strip() if isinstance(value, str) else ""
        if text and len(text.encode()) <= MAX_MESSAGE and "\n" not in text:
            return text
    if validation.message:
        return validation.message
    own = validation.program
    return f"failed expression: {own.expression.strip() if isinstance(own, Program) else ''}"


def _annotated(policy: Policy, evaluation: Composed, noted: dict[str, list[str]]) -> Iterable[Decision]:
    for key, program in policy.annotations:
        value = program if isinstance(program, Error) else evaluation.evaluate(program)
        if isinstance(value, Error):
            if not policy.fails_open:
                yield Decision(failed(program, value), "", -1)
        elif isinstance(value, str) and value.strip():
            text = value.strip().encode(errors="replace")[:MAX_ANNOTATION].decode(errors="replace")
            noted.setdefault(key, []).append(text)
        elif value is not None and not isinstance(value, str):
            said = program.expression if isinstance(program, Program) else ""
            yield Decision(
                f"valueExpression '{said}' resulted in unsupported return type: {type(value).__name__}. "
                "Return type must be either string or null.",
                "",
                -1,
            )
