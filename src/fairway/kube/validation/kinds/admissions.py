"""Webhook configurations and admission policies, their CEL apart.

Source: pkg/apis/admissionregistration/validation/validation.go (v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from fairway.kube import names
from fairway.kube.fieldpath import Path
from fairway.kube.objects import Obj, name_of, spec_of
from fairway.kube.problem import Faults
from fairway.kube.validation.kinds import texts
from fairway.kube.validation.kinds.metadata import object_meta
from fairway.kube.validation.kinds.selectors import label_selector_of
from fairway.kube.validation.kinds.texts import one_of

Part = Mapping[str, Any]
_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_MUTATING = ("*", "CONNECT", "CREATE", "UPDATE")
_SCOPES = ("*", "Cluster", "Namespaced")
_FAILURE = ("Fail", "Ignore")
_MATCH = ("Equivalent", "Exact")
_SIDE_EFFECTS = ("None", "NoneOnDryRun")
_REINVOCATION = ("IfNeeded", "Never")
_VERSIONS = ("v1", "v1beta1")
_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_ACTIONS = ("Audit", "Deny", "Warn")
_MOST_NOTES, _LONGEST_NOTE = 20, 5 * 1024
_PATCHES = ("ApplyConfiguration", "JSONPatch")
_BOTH_ACTIONS = (
    "must not contain both Deny and Warn (repeating the same validation failure information in the API response and "
    "headers serves no purpose)"
)
_NO_VALIDATIONS = "validations or auditAnnotations must contain at least one item"
_EXCLUSIVE = "name and selector are mutually exclusive"
_IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
_RESERVED = frozenset(
    (
        *(
            "true",
            "false",
            "null",
            "in",
            "as",
            "break",
            "const",
            "continue",
            "else",
            "for",
            "function",
            "if",
            "import",
        ),
        *("let", "loop", "package", "namespace", "return", "var", "void", "while"),
    )
)


def webhooks(obj: Obj, out: Faults) -> None:
    """A Validating- or a MutatingWebhookConfiguration."""
    object_meta(obj, out, namespaced=False)
    seen = set()
    is_mutating = obj["kind"].startswith("Mutating")
    for index, hook in enumerate(obj.get("webhooks") or ()):
        at, name = ("webhooks", index), hook.get("name") or ""
        _webhook(hook, at, out, is_mutating=is_mutating)
        _review_versions(hook.get("admissionReviewVersions") or (), (*at, "admissionReviewVersions"), out)
        if name and name in seen:
            out.duplicate((*at, "name"), name)
        seen.add(name)


def webhooks_update(new: Obj, _old: Obj, out: Faults) -> None:
    webhooks(new, out)


def _webhook(hook: Part, at: Path, out: Faults, *, is_mutating: bool) -> None:
    texts.fully_qualified_name(hook.get("name") or "", (*at, "name"), out)
    for index, rule in enumerate(hook.get("rules") or ()):
        _rule(rule, (*at, "rules", index), out)
    _choice(hook, "failurePolicy", _FAILURE, at, out)
    _choice(hook, "matchPolicy", _MATCH, at, out)
    if hook.get("sideEffects") is None:
        out.required((*at, "sideEffects"), f"must specify one of {', '.join(_SIDE_EFFECTS)}")
    _choice(hook, "sideEffects", _SIDE_EFFECTS, at, out)
    seconds = hook.get("timeoutSeconds")
    if seconds is not None and not 1 <= seconds <= 30:
        said = "the timeout value must be between 1 and 30 seconds"
        out.invalid((*at, "timeoutSeconds"), seconds, said)
    for name in ("namespaceSelector", "objectSelector"):
        label_selector_of(hook.get(name), (*at, name), out)
    if is_mutating:
        _choice(hook, "reinvocationPolicy", _REINVOCATION, at, out)
    client, where = hook.get("clientConfig") or {}, (*at, "clientConfig")
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        out.required(where, "exactly one of url or service is required")
    elif url is not None:
        texts.webhook_url(url, (*where, "url"), out)
    else:
        texts.webhook_service(service or {}, (*where, "service"), out)
    _match_conditions(hook.get("matchConditions") or (), (*at, "matchConditions"), out)


def _choice(found: Part, name: str, choices: Sequence[str], at: Path, out: Faults) -> None:
    if found.get(name) is not None and found[name] not in choices:
        out.unsupported((*at, name), found[name], choices)


def _rule(rule: Part, at: Path, out: Faults) -> None:
    operations = rule.get("operations") or ()
    if not operations:
        out.required((*at, "operations"))
    _alone(operations, "operations", "operations", at, out)
    for index, operation in enumerate(operations):
        if operation not in _OPERATIONS:
            out.unsupported((*at, "operations", index), operation, _OPERATIONS)
    groups, versions = rule.get("apiGroups") or (), rule.get("apiVersions") or ()
    if not groups:
        out.required((*at, "apiGroups"))
    _alone(groups, "apiGroups", "API groups", at, out)
    if not versions:
        out.required((*at, "apiVersions"))
    _alone(versions, "apiVersions", "API versions", at, out)
    for index, version in enumerate(versions):
        if not version:
            out.required((*at, "apiVersions", index))
    _resources(rule.get("resources") or (), (*at, "resources"), out)
    _choice(rule, "scope", _SCOPES, at, out)


def _alone(found: Sequence[str], name: str, what: str, at: Path, out: Faults) -> None:
    if len(found) > 1 and "*" in found:
        out.invalid((*at, name), found, f"if '*' is present, must not specify other {what}")


def _resources(found: Sequence[str], at: Path, out: Faults) -> None:
    if not found:
        out.required(at)
    whole: set[str] = set()
    parts: set[str] = set()
    is_plain = False
    for index, text in enumerate(found):
        where = (*at, index)
        if not text:
            out.required(where)
            continue
        resource, slash, sub = text.partition("/")
        if not slash:
            is_plain = text != "*"
            continue
        if resource in whole:
            out.invalid(where, text, f"if '{resource}/*' is present, must not specify {text}")
        if sub in parts:
            out.invalid(where, text, f"if '*/{sub}' is present, must not specify {text}")
        if sub == "*":
            whole.add(resource)
        if resource == "*":
            parts.add(sub)
    if len(found) > 1 and "*/*" in found:
        out.invalid(at, found, "if '*/*' is present, must not specify other resources")
    if "*" in found and is_plain:
        said = "if '*' is present, must not specify other resources without subresources"
        out.invalid(at, found, said)


def _review_versions(versions: Sequence[str], at: Path, out: Faults) -> None:
    if not versions:
        out.required(at, f"must specify one of {', '.join(_VERSIONS)}")
        return
    for index, version in enumerate(versions):
        if version in versions[:index]:
            out.invalid((*at, index), version, "duplicate version")
        else:
            out.invalids((*at, index), version, names.dns1035_label(version))
    if not set(versions) & set(_VERSIONS):
        out.invalid(at, versions, f"must include at least one of {', '.join(_VERSIONS)}")


def _match_conditions(found: Sequence[Part], at: Path, out: Faults) -> None:
    if len(found) > 64:
        out.too_many(at, len(found), 64)
    seen = set()
    for index, condition in enumerate(found):
        where, name = (*at, index), condition.get("name") or ""
        if not (condition.get("expression") or "").strip():
            out.required((*where, "expression"))
        if not name:
            out.required((*where, "name"))
        else:
            texts.qualified_name(name, (*where, "name"), out)
        if name and name in seen:
            out.duplicate((*where, "name"), name)
        seen.add(name)


def policy(obj: Obj, out: Faults) -> None:
    """A Validating- or a MutatingAdmissionPolicy."""
    object_meta(obj, out, namespaced=False)
    spec, at, is_mutating = spec_of(obj), ("spec",), obj["kind"].startswith("Mutating")
    one_of(spec.get("failurePolicy", "Fail"), _FAILURE, (*at, "failurePolicy"), out)
    if spec.get("paramKind") is not None:
        _param_kind(spec["paramKind"], (*at, "paramKind"), out)
    constraints = spec.get("matchConstraints")
    if constraints is None:
        out.required((*at, "matchConstraints"))
    else:
        _match_resources(constraints, (*at, "matchConstraints"), out)
        if not constraints.get("resourceRules"):
            out.required((*at, "matchConstraints", "resourceRules"))
        if is_mutating:
            _mutating_operations(constraints, (*at, "matchConstraints"), out)
    _match_conditions(spec.get("matchConditions") or (), (*at, "matchConditions"), out)
    for index, variable in enumerate(spec.get("variables") or ()):
        _variable(variable, (*at, "variables", index), out)
    if is_mutating:
        _mutations(spec, at, out)
    else:
        _validations(obj, spec, at, out)


def policy_update(new: Obj, _old: Obj, out: Faults) -> None:
    policy(new, out)


def _variable(variable: Part, at: Path, out: Faults) -> None:
    name = variable.get("name") or ""
    if not name.strip():
        out.required((*at, "name"), "name is not specified")
    elif not _IDENTIFIER.fullmatch(name) or name in _RESERVED:
        out.invalid((*at, "name"), name, "name is not a valid CEL identifier")
    if not (variable.get("expression") or "").strip():
        out.required((*at, "expression"), "expression is not specified")


def _validations(obj: Obj, spec: Part, at: Path, out: Faults) -> None:
    validations, notes = spec.get("validations") or (), spec.get("auditAnnotations") or ()
    if not validations and not notes:
        out.required((*at, "validations"), _NO_VALIDATIONS)
        out.required((*at, "auditAnnotations"), _NO_VALIDATIONS)
    for index, validation in enumerate(validations):
        _validation(validation, (*at, "validations", index), out)
    if len(notes) > _MOST_NOTES:
        said = f"must not have more than {_MOST_NOTES} auditAnnotations"
        out.invalid((*at, "auditAnnotations"), notes, said)
    seen = set()
    for index, note in enumerate(notes):
        where, key = (*at, "auditAnnotations", index), note.get("key") or ""
        texts.qualified_name(f"{name_of(obj)}/{key}", (*where, "key"), out)
        text = (note.get("valueExpression") or "").strip()
        if not text:
            out.required((*where, "valueExpression"), "valueExpression is not specified")
        elif len(text.encode(errors="replace")) > _LONGEST_NOTE:
            out.required((*where, "valueExpression"), f"must not exceed {_LONGEST_NOTE} bytes in length")
        if key in seen:
            out.duplicate((*where, "key"), key)
        seen.add(key)


def _validation(found: Part, at: Path, out: Faults) -> None:
    if not (found.get("expression") or "").strip():
        out.required((*at, "expression"), "expression is not specified")
    for name in ("messageExpression", "message"):
        text = found.get(name) or ""
        if text and not text.strip():
            said = "message must be non-empty" if name == "message" else "must be non-empty"
            out.invalid((*at, name), text, f"{said} if specified")
        elif name == "message" and re.search(r"[\n\r]", text.strip()):
            out.invalid((*at, name), text, "message must not contain line breaks")
    _choice(found, "reason", _REASONS, at, out)


def _mutations(spec: Part, at: Path, out: Faults) -> None:
    mutations = spec.get("mutations") or ()
    if not mutations:
        out.required((*at, "mutations"), "mutations must contain at least one item")
    for index, mutation in enumerate(mutations):
        where, kind = (*at, "mutations", index), mutation.get("patchType") or ""
        one_of(kind, _PATCHES, (*where, "patchType"), out)
        if kind not in _PATCHES:
            continue
        own, other = (
            ("jsonPatch", "applyConfiguration")
            if kind == "JSONPatch"
            else ("applyConfiguration", "jsonPatch")
        )
        if mutation.get(own) is None:
            out.required((*where, own), f"must be specified when patchType is {kind}")
        elif not (mutation[own].get("expression") or "").strip():
            out.required((*where, own, "expression"))
        if mutation.get(other) is not None:
            out.invalid((*where, other), f"{{{other}}}", f"must not be specified when patchType is {kind}")
    one_of(spec.get("reinvocationPolicy"), _REINVOCATION, (*at, "reinvocationPolicy"), out)


def _param_kind(found: Part, at: Path, out: Faults) -> None:
    text, kind = found.get("apiVersion") or "", found.get("kind") or ""
    group, _, version = text.rpartition("/")
    if not text:
        out.required((*at, "apiVersion"))
    elif text.count("/") > 1:
        out.invalid((*at, "apiVersion"), text, f"unexpected GroupVersion string: {text}")
    else:
        if group and (complaints := names.dns_subdomain(group)):
            out.invalid((*at, "apiVersion"), group, ",".join(complaints))
        if not version:
            out.invalid((*at, "apiVersion"), text, "version must be specified")
        elif complaints := names.dns1035_label(version):
            out.invalid((*at, "apiVersion"), version, ",".join(complaints))
    if not kind:
        out.required((*at, "kind"))
    elif complaints := names.dns1035_label(kind.lower()):
        said = "may have mixed case, but should otherwise match: " + ",".join(complaints)
        out.invalid((*at, "kind"), kind, said)


def _match_resources(found: Part, at: Path, out: Faults) -> None:
    one_of(found.get("matchPolicy", "Equivalent"), _MATCH, (*at, "matchPolicy"), out)
    for name in ("namespaceSelector", "objectSelector"):
        label_selector_of(found.get(name), (*at, name), out)
    for name in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(found.get(name) or ()):
            where, known = (*at, name, index), rule.get("resourceNames") or ()
            for number, text in enumerate(known):
                texts.path_segment(text, (*where, "resourceNames", number), out)
                if text in known[:number]:
                    out.duplicate((*where, "resourceNames", number), text)
            _rule(rule, where, out)


def _mutating_operations(found: Part, at: Path, out: Faults) -> None:
    for rule in found.get("resourceRules") or ():
        for operation in rule.get("operations") or ():
            if operation not in _MUTATING:
                out.unsupported((*at, "resourceRules", "operations"), operation, _MUTATING)


def policy_binding(obj: Obj, out: Faults) -> None:
    object_meta(obj, out, namespaced=False)
    spec, at = spec_of(obj), ("spec",)
    if not spec.get("policyName"):
        out.required((*at, "policyName"))
    else:
        texts.dns_subdomain(spec["policyName"], (*at, "policyName"), out)
    if spec.get("paramRef") is not None:
        _param_ref(spec["paramRef"], (*at, "paramRef"), out)
    matched, is_mutating = spec.get("matchResources"), obj["kind"].startswith("Mutating")
    if matched is not None:
        # Upstream's own spelling, of one of the two.
        _match_resources(matched, (*at, "matchResources" if is_mutating else "matchResouces"), out)
    if is_mutating:
        _mutating_operations(matched or {}, (*at, "matchResources"), out)
        return
    actions, where = spec.get("validationActions") or (), (*at, "validationActions")
    for index, action in enumerate(actions):
        if action not in _ACTIONS:
            out.unsupported((*where, index), action, _ACTIONS)
        if action in actions[:index]:
            out.duplicate((*where, index), action)
    if {"Deny", "Warn"} <= set(actions):
        out.invalid(where, actions, _BOTH_ACTIONS)
    if not actions:
        out.required(where, "at least one validation action is required")


def policy_binding_update(new: Obj, _old: Obj, out: Faults) -> None:
    policy_binding(new, out)


def _param_ref(found: Part, at: Path, out: Faults) -> None:
    name, selector, action = found.get("name"), found.get("selector"), found.get("parameterNotFoundAction")
    if name:
        texts.path_segment(name, (*at, "name"), out)
        if selector is not None:
            out.forbidden((*at, "name"), _EXCLUSIVE)
    label_selector_of(selector, (*at, "selector"), out)
    if name and selector is not None:
        out.forbidden((*at, "selector"), _EXCLUSIVE)
    if not name and selector is None:
        out.required(at, "one of name or selector must be specified")
    one_of(action, ("Deny", "Allow"), (*at, "parameterNotFoundAction"), out)
