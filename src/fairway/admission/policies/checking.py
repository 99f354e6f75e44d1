"""Are policies, bindings and webhook configurations themselves well-formed?

Unlike kube: types of `object` are not checked against the resources a policy matches (`status.typeChecking`).

Source: pkg/apis/admissionregistration/validation/validation.go (v1.36).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import urlsplit

from fairway.admission.cel.compiling import ANY, BOOL, STRING, Error, Program, Variables, compiled
from fairway.admission.cel.composition import composed
from fairway.admission.policies.mutating import as_maps
from fairway.admission.policies.names import variables
from fairway.kube.names import dns_subdomain
from fairway.kube.objects import Obj

_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized")
_FAILURE = ("Fail", "Ignore")
_ACTIONS = ("Audit", "Deny", "Warn")
_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SEGMENTED = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?){2,}+")

MAX_VALIDATIONS = 64
"""Source: maxValidations… (`must have at most 64 items`)."""


def problems(obj: Obj) -> list[str]:
    """Field errors, as the sentences of a 422."""
    kind = obj.get("kind", "")
    if kind == "ValidatingAdmissionPolicy":
        return list(_validating(obj.get("spec") or {}))
    if kind == "MutatingAdmissionPolicy":
        return list(_mutating(obj.get("spec") or {}))
    if kind in ("ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicyBinding"):
        return list(_binding(obj.get("spec") or {}, has_actions=kind.startswith("Validating")))
    if kind in ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"):
        return [p for i, w in enumerate(obj.get("webhooks") or ()) for p in _webhook(w, f"webhooks[{i}]")]
    return []


def _validating(spec: Obj) -> Iterator[str]:
    yield from _shared(spec)
    names = variables(has_params=spec.get("paramKind") is not None, has_authorizer=True)
    composition = composed(spec.get("variables") or [], names)
    said = tuple(n for n in composition.names if not n[0].startswith("authorizer"))
    validations, annotations = spec.get("validations") or (), spec.get("auditAnnotations") or ()
    if not validations and not annotations:
        yield "spec.validations: Required value: validations or auditAnnotations must contain at least one item"
        yield "spec.auditAnnotations: Required value: validations or auditAnnotations must contain at least one item"
    for i, validation in enumerate(validations):
        path = f"spec.validations[{i}]"
        yield from _expression(f"{path}.expression", validation.get("expression"), composition.names, (BOOL,))
        if validation.get("messageExpression"):
            path_of_message = f"{path}.messageExpression"
            yield from _expression(path_of_message, validation["messageExpression"], said, (STRING,))
        if "\n" in str(validation.get("message") or "").strip():
            shown = _shown(validation["message"])
            yield f"{path}.message: Invalid value: {shown}: message must not contain line breaks"
        yield from _one_of(f"{path}.reason", validation.get("reason"), _REASONS)
    for i, annotation in enumerate(annotations):
        path = f"spec.auditAnnotations[{i}].valueExpression"
        yield from _expression(path, annotation.get("valueExpression"), said, (STRING, "null_type", "dyn"))


def _mutating(spec: Obj) -> Iterator[str]:
    yield from _shared(spec)
    yield from _one_of("spec.reinvocationPolicy", spec.get("reinvocationPolicy"), ("IfNeeded", "Never"))
    names = variables(has_params=spec.get("paramKind") is not None, has_authorizer=True)
    composition = composed(spec.get("variables") or [], names)
    if not spec.get("mutations"):
        yield "spec.mutations: Required value: mutations must contain at least one item"
    for i, mutation in enumerate(spec.get("mutations") or ()):
        path, kind = f"spec.mutations[{i}]", mutation.get("patchType")
        if not kind:
            yield f"{path}.patchType: Required value"
            continue
        yield from _one_of(f"{path}.patchType", kind, ("ApplyConfiguration", "JSONPatch"))
        field = "jsonPatch" if kind == "JSONPatch" else "applyConfiguration"
        expression = (mutation.get(field) or {}).get("expression")
        yield from _expression(f"{path}.{field}.expression", expression, composition.names, (ANY,), as_maps)


def _shared(spec: Obj) -> Iterator[str]:
    """What both kinds of policy have."""
    yield from _one_of("spec.failurePolicy", spec.get("failurePolicy"), _FAILURE)
    kind = spec.get("paramKind")
    if kind is not None:
        for field in ("apiVersion", "kind"):
            if not kind.get(field):
                yield f"spec.paramKind.{field}: Required value"
    constraints = spec.get("matchConstraints")
    if constraints is None:
        yield "spec.matchConstraints: Required value"
    else:
        if not constraints.get("resourceRules"):
            yield "spec.matchConstraints.resourceRules: Required value"
        yield from _rules(constraints.get("resourceRules") or (), "spec.matchConstraints.resourceRules")
        yield from _one_of(
            "spec.matchConstraints.matchPolicy", constraints.get("matchPolicy"), ("Equivalent", "Exact")
        )
    names = variables(has_params=kind is not None, has_authorizer=True)
    yield from _conditions(spec.get("matchConditions") or (), "spec.matchConditions", names)
    yield from _variables(spec.get("variables") or (), names)


def _variables(declared: Iterable[Obj], names: Variables) -> Iterator[str]:
    seen: list[Any] = []
    before: list[Obj] = []
    for i, variable in enumerate(declared):
        path, name = f"spec.variables[{i}]", variable.get("name") or ""
        if not name:
            yield f"{path}.name: Required value: name is not specified"
        elif not _IDENTIFIER.fullmatch(name):
            yield f"{path}.name: Invalid value: {_shown(name)}: name is not a valid CEL identifier"
        if name in seen:
            yield f"{path}.name: Duplicate value: {_shown(name)}"
        seen.append(name)
        yield from _expression(
            f"{path}.expression", variable.get("expression"), composed(before, names).names, (ANY,)
        )
        before.append(variable)


def _conditions(conditions: Iterable[Obj], path: str, names: Variables) -> Iterator[str]:
    seen: list[Any] = []
    for i, condition in enumerate(conditions):
        name = condition.get("name") or ""
        if not name:
            yield f"{path}[{i}].name: Required value"
        elif name in seen:
            yield f"{path}[{i}].name: Duplicate value: {_shown(name)}"
        seen.append(name)
        yield from _expression(f"{path}[{i}].expression", condition.get("expression"), names, (BOOL,))


def _rules(rules: Iterable[Obj], path: str) -> Iterator[str]:
    for i, rule in enumerate(rules):
        for field in ("operations", "apiGroups", "apiVersions", "resources"):
            if not rule.get(field):
                yield f"{path}[{i}].{field}: Required value"
        for j, operation in enumerate(rule.get("operations") or ()):
            yield from _one_of(f"{path}[{i}].operations[{j}]", operation, _OPERATIONS)


def _binding(spec: Obj, *, has_actions: bool) -> Iterator[str]:
    if not spec.get("policyName"):
        yield "spec.policyName: Required value"
    ref = spec.get("paramRef")
    if ref is not None:
        if ref.get("name") and ref.get("selector") is not None:
            yield "spec.paramRef.name: Forbidden: name and selector are mutually exclusive"
        elif not ref.get("name") and ref.get("selector") is None:
            yield "spec.paramRef: Required value: one of name or selector must be specified"
        action = ref.get("parameterNotFoundAction")
        if not action:
            yield "spec.paramRef.parameterNotFoundAction: Required value"
        yield from _one_of("spec.paramRef.parameterNotFoundAction", action, ("Allow", "Deny"))
    if has_actions:
        yield from _actions(list(spec.get("validationActions") or ()))


def _actions(actions: list[str]) -> Iterator[str]:
    path = "spec.validationActions"
    if not actions:
        yield f"{path}: Required value"
    for i, action in enumerate(actions):
        yield from _one_of(f"{path}[{i}]", action, _ACTIONS)
        if action in actions[:i]:
            yield f"{path}[{i}]: Duplicate value: {_shown(action)}"
    if "Deny" in actions and "Warn" in actions:
        yield (
            f"{path}: Invalid value: {_shown(actions)}: must not contain both Deny and Warn (repeating the same "
            "validation failure information in the API response and headers serves no purpose)"
        )


def _webhook(webhook: Obj, path: str) -> Iterator[str]:
    name = webhook.get("name") or ""
    if not name:
        yield f"{path}.name: Required value"
    elif not _SEGMENTED.fullmatch(name):
        why = "should be a domain with at least three segments separated by dots"
        yield f"{path}.name: Invalid value: {_shown(name)}: {why}"
    if not webhook.get("sideEffects"):
        yield f"{path}.sideEffects: Required value: must specify one of None, NoneOnDryRun"
    else:
        yield from _one_of(f"{path}.sideEffects", webhook["sideEffects"], ("None", "NoneOnDryRun"))
    versions = webhook.get("admissionReviewVersions") or ()
    if not versions:
        yield f"{path}.admissionReviewVersions: Required value: must specify one of v1, v1beta1"
    elif not {"v1", "v1beta1"} & set(versions):
        why = "must include at least one of v1, v1beta1"
        yield f"{path}.admissionReviewVersions: Invalid value: {_shown(list(versions))}: {why}"
    config = webhook.get("clientConfig") or {}
    if (config.get("url") is None) == (config.get("service") is None):
        yield f"{path}.clientConfig: Required value: exactly one of url or service is required"
    elif config.get("url") is not None:
        yield from _webhook_url(config["url"], f"{path}.clientConfig.url")
    else:
        yield from _webhook_service(config["service"], f"{path}.clientConfig.service")
    yield from _one_of(f"{path}.failurePolicy", webhook.get("failurePolicy"), _FAILURE)
    timeout = webhook.get("timeoutSeconds")
    if isinstance(timeout, int) and not 1 <= timeout <= 30:
        why = "the timeout value must be between 1 and 30 seconds"
        yield f"{path}.timeoutSeconds: Invalid value: {timeout}: {why}"
    yield from _rules(webhook.get("rules") or (), f"{path}.rules")
    names = variables(has_params=False, has_authorizer=True)
    yield from _conditions(webhook.get("matchConditions") or (), f"{path}.matchConditions", names)


def _webhook_url(url: str, path: str) -> Iterator[str]:
    """Source: apiserver pkg/util/webhook/validation.go ValidateWebhookURL."""
    form = "; desired format: https://host[/path]"
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2] if parts.port != -1 else ""
    except ValueError as wrong:
        yield f"{path}: Required value: url must be a valid URL: {wrong}{form}"
        return
    if parts.scheme != "https":
        yield f"{path}: Invalid value: {_shown(parts.scheme)}: 'https' is the only allowed URL scheme{form}"
    if not host:
        yield f'{path}: Invalid value: "": host must be specified{form}'
    if "@" in parts.netloc:
        user = parts.netloc.rpartition("@")[0]
        yield f"{path}: Invalid value: {_shown(user)}: user information is not permitted in the URL"
    if parts.fragment:
        yield f"{path}: Invalid value: {_shown(parts.fragment)}: fragments are not permitted in the URL"
    if parts.query:
        yield f"{path}: Invalid value: {_shown(parts.query)}: query parameters are not permitted in the URL"


def _webhook_service(service: Obj, path: str) -> Iterator[str]:
    """Source: apiserver pkg/util/webhook/validation.go ValidateWebhookService."""
    for field in ("name", "namespace"):
        if not service.get(field):
            yield f"{path}.{field}: Required value"
    port = service.get("port")
    if port is not None and not 1 <= port <= 65535:
        yield f"{path}.port: Invalid value: {port}: port is not valid: must be between 1 and 65535, inclusive"
    asked = service.get("path") or "/"
    if asked == "/":
        return
    at = f"{path}.path: Invalid value: {_shown(asked)}"
    if asked == "//":
        yield f"{at}: segment[0] may not be empty"
        return
    if not asked.startswith("/"):
        yield f"{at}: must start with a '/'"
    for number, segment in enumerate(asked[1:].removesuffix("/").split("/")):
        if not segment:
            yield f"{at}: segment[{number}] may not be empty"
        else:
            yield from (f"{at}: segment[{number}]: {complaint}" for complaint in dns_subdomain(segment))


def _expression(
    path: str, expression: Any, names: Variables, wanted: tuple[str, ...], rewrite: Any = None
) -> Iterator[str]:
    text = str(expression or "").strip()
    if not text:
        field = path.rpartition(".")[2]
        yield f"{path}: Required value: {field} is not specified"
        return
    program: Program | Error = compiled(rewrite(text) if rewrite else str(expression), names, wanted)
    if isinstance(program, Error):
        yield f"{path}: Invalid value: {_shown(expression)}: {program.text}"


def _one_of(path: str, value: Any, supported: tuple[str, ...]) -> Iterator[str]:
    if value is not None and value not in supported:
        listed = ", ".join(_shown(s) for s in supported)
        yield f"{path}: Unsupported value: {_shown(value)}: supported values: {listed}"


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
