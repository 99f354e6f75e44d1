"""MutatingAdmissionPolicies: what bound policies make of an object.

`ApplyConfiguration` gives the fields to be applied, `JSONPatch` a list of operations. Both are written with
constructors (`Object{spec: Object.spec{…}}`, `JSONPatch{op: "add", …}`); they become plain maps before compiling.

Source: apiserver pkg/admission/plugin/policy/mutating/{dispatcher,compilation}.go and mutating/patch (v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

from fairway.admission.cel.authorizing import Ask, asking
from fairway.admission.cel.compiling import Error, Program, compiled
from fairway.admission.cel.composition import Composed, Composition, composed
from fairway.admission.cel.evaluating import Evaluation
from fairway.admission.identity import misfit
from fairway.admission.policies.conditions import Programs, are_met, compile_conditions, failed
from fairway.admission.policies.matching import Match, Matcher, matcher_of, namespace_of_request
from fairway.admission.policies.names import bindings, variables
from fairway.admission.policies.params import ParamsError, collect
from fairway.admission.policies.validating import Binding, compile_binding
from fairway.admission.request import AdmissionRequest
from fairway.cluster.actions import View
from fairway.cluster.errors import ApiError
from fairway.cluster.patches import json_patch, strategic_patch
from fairway.kube.cel.brackets import closing, string_end
from fairway.kube.objects import Obj, name_of

APPLY, JSON_PATCH = "ApplyConfiguration", "JSONPatch"


class Mutation(NamedTuple):
    patch_type: str
    program: Program | Error


class Policy(NamedTuple):
    """A MutatingAdmissionPolicy, compiled, with its bindings by name."""

    name: str
    matcher: Matcher
    param_kind: Obj | None
    fails_open: bool
    is_reinvoked: bool
    conditions: Programs
    composition: Composition
    mutations: tuple[Mutation, ...]
    bindings: tuple[Binding, ...]


class Mutated(NamedTuple):
    """`refusals` are `policy 'p' with binding 'b' denied request: …`; `invoked` names what took part."""

    obj: Obj
    refusals: tuple[str, ...]
    invoked: frozenset[tuple[str, str]]


def compile_policy(policy: Obj, bound: Iterable[Obj]) -> Policy:
    spec = policy.get("spec") or {}
    names = variables(has_params=spec.get("paramKind") is not None, has_authorizer=True)
    composition = composed(spec.get("variables") or [], names)
    return Policy(
        name_of(policy),
        matcher_of(spec.get("matchConstraints")),
        spec.get("paramKind"),
        spec.get("failurePolicy") == "Ignore",
        spec.get("reinvocationPolicy") == "IfNeeded",
        compile_conditions(spec.get("matchConditions") or (), names),
        composition,
        tuple(_mutation(m, composition) for m in spec.get("mutations") or ()),
        tuple(compile_binding(b) for b in bound),
    )


def _mutation(raw: Obj, composition: Composition) -> Mutation:
    patch_type = raw.get("patchType") or APPLY
    field = "jsonPatch" if patch_type == JSON_PATCH else "applyConfiguration"
    expression = (raw.get(field) or {}).get("expression") or ""
    return Mutation(patch_type, compiled(as_maps(expression), composition.names))


_CONSTRUCTOR = re.compile(r"\b(?:Object(?:\.\w+)*|JSONPatch)\s*\{")
_FIELD = re.compile(r"\s*+(\??)\s*+([A-Za-z_]\w*+)\s*+:")


def as_maps(expression: str) -> str:
    """`Object{spec: Object.spec{x: 1}}` as `{"spec": {"x": 1}}`."""
    found = _CONSTRUCTOR.search(expression)
    if found is None:
        return expression
    end = closing(expression, found.end() - 1)
    if end < 0:
        return expression
    fields = [_as_entry(part) for part in _parts(expression[found.end() : end])]
    return f"{expression[: found.start()]}{{{','.join(fields)}}}{as_maps(expression[end + 1 :])}"


def _as_entry(part: str) -> str:
    found = _FIELD.match(part)
    if found is None:
        return as_maps(part)
    return f'{found[1]}"{_unescaped(found[2])}":{as_maps(part[found.end() :])}'


def _unescaped(name: str) -> str:
    for escape, char in (("__dot__", "."), ("__dash__", "-"), ("__slash__", "/")):
        name = name.replace(escape, char)
    keyword = re.fullmatch(r"__([a-z]+)__", name)
    return keyword[1] if keyword else name


def _parts(text: str) -> Iterable[str]:
    """Split at the commas that are not inside brackets or strings."""
    start = index = depth = 0
    while index < len(text):
        char = text[index]
        if char in "'\"":
            index = string_end(text, index)
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif char == "," and depth == 0:
            yield text[start:index]
            start = index + 1
        index += 1
    if text[start:].strip():
        yield text[start:]


def mutate(
    view: View,
    ask: Ask | None,
    request: AdmissionRequest,
    policies: Iterable[Policy],
    only: frozenset[tuple[str, str]] | None = None,
) -> Mutated:
    """The object after every policy that matches; `only` limits a second round to those that asked for one."""
    obj = request.obj or {}
    refusals: list[str] = []
    invoked: set[tuple[str, str]] = set()
    with asking(ask, request.user):
        for policy in policies:
            matched = policy.matcher.match(view, request)
            for binding in policy.bindings if matched is not None else ():
                now = replace(request, obj=obj)
                if matched is None or binding.matcher.match(view, now) is None:
                    continue
                if only is not None and (policy.name, binding.name) not in only:
                    continue
                obj, wrong = _applied(view, now, matched, policy, binding)
                if wrong and not policy.fails_open:
                    refusals.append(
                        f"policy '{policy.name}' with binding '{binding.name}' denied request: {wrong}"
                    )
                if policy.is_reinvoked:
                    invoked.add((policy.name, binding.name))
    return Mutated(obj, tuple(refusals), frozenset(invoked))


def _applied(
    view: View, request: AdmissionRequest, matched: Match, policy: Policy, binding: Binding
) -> tuple[Obj, str]:
    """The object after one binding's mutations, and what went wrong."""
    obj: Obj = request.obj or {}
    try:
        params = collect(view, policy.param_kind, binding.param_ref, request.namespace)
    except ParamsError as wrong:
        return obj, f"failed to configure binding: {wrong}"
    namespace = namespace_of_request(view, request) if request.namespace else None
    for param in params:
        values = bindings(replace(request, obj=obj), matched, param, namespace)
        met = are_met(policy.conditions, Composed(Evaluation(values), policy.composition).evaluate)
        if isinstance(met, str):
            return obj, met
        for mutation in policy.mutations if met else ():
            values = bindings(replace(request, obj=obj), matched, param, namespace)
            changed = _patched(obj, mutation, Composed(Evaluation(values), policy.composition))
            if isinstance(changed, str):
                return obj, changed
            obj = changed
    return obj, ""


def _patched(obj: Obj, mutation: Mutation, evaluation: Composed) -> Obj | str:
    program = mutation.program
    value = program if isinstance(program, Error) else evaluation.evaluate(program)
    if isinstance(value, Error):
        return failed(program, value)
    if mutation.patch_type == JSON_PATCH:
        patched = _json_patched(obj, value)
        if isinstance(patched, str):
            return patched
    elif isinstance(value, dict):
        patched = strategic_patch(obj, value)
    else:
        return f"unsupported return type from ApplyConfiguration expression: {type(value).__name__}"
    wrong = misfit(obj, patched)
    return patched if wrong is None else str(wrong["message"])


def _json_patched(obj: Obj, operations: Any) -> Obj | str:
    if not isinstance(operations, list):
        return "type mismatch: JSONPatchType.expression should evaluate to array"
    if not all(isinstance(o, dict) for o in operations):
        return "type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch"
    patched = obj
    for operation in operations:
        try:
            patched = json_patch(patched, [operation])
        except ApiError as refused:
            # A test that fails is not an error: nothing of this patch is applied.
            return obj if operation.get("op") == "test" else f"JSON Patch: {refused.message}"
    return patched
