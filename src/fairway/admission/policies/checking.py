"""Do the expressions of policies and webhook configurations compile? Their shape is `kube.validation`'s business.

Unlike kube: types of `object` are not checked against the resources a policy matches (`status.typeChecking`).

Source: pkg/apis/admissionregistration/validation/validation.go (v1.36).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from fairway.admission.cel.compiling import ANY, BOOL, STRING, Error, Variables, compiled
from fairway.admission.cel.composition import Composition, composed
from fairway.admission.policies.mutating import as_maps
from fairway.admission.policies.names import variables
from fairway.kube.objects import Obj, spec_of


def problems(obj: Obj) -> list[str]:
    """Field errors, as the sentences of a 422. The object's shape was checked."""
    kind = obj.get("kind", "")
    if kind in ("ValidatingAdmissionPolicy", "MutatingAdmissionPolicy"):
        return list(_policy(spec_of(obj), is_mutating=kind.startswith("Mutating")))
    if kind in ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"):
        names = variables(has_params=False, has_authorizer=True)
        hooks = enumerate(obj.get("webhooks") or ())
        return [p for i, hook in hooks for p in _conditions(hook, f"webhooks[{i}]", names)]
    return []


def _policy(spec: Obj, *, is_mutating: bool) -> Iterator[str]:
    names = variables(has_params=spec.get("paramKind") is not None, has_authorizer=True)
    yield from _conditions(spec, "spec", names)
    before: list[Obj] = []
    for i, variable in enumerate(spec.get("variables") or ()):
        known = composed(before, names).names
        yield from _expression(f"spec.variables[{i}].expression", variable.get("expression"), known, (ANY,))
        before.append(variable)
    composition = composed(before, names)
    yield from _mutations(spec, composition) if is_mutating else _validations(spec, composition)


def _validations(spec: Obj, composition: Composition) -> Iterator[str]:
    said = tuple(n for n in composition.names if not n[0].startswith("authorizer"))
    for i, validation in enumerate(spec.get("validations") or ()):
        path = f"spec.validations[{i}]"
        yield from _expression(f"{path}.expression", validation.get("expression"), composition.names, (BOOL,))
        message = validation.get("messageExpression")
        yield from _expression(f"{path}.messageExpression", message, said, (STRING,))
    for i, annotation in enumerate(spec.get("auditAnnotations") or ()):
        path, wanted = f"spec.auditAnnotations[{i}].valueExpression", (STRING, "null_type", "dyn")
        yield from _expression(path, annotation.get("valueExpression"), composition.names, wanted)


def _mutations(spec: Obj, composition: Composition) -> Iterator[str]:
    for i, mutation in enumerate(spec.get("mutations") or ()):
        field = "jsonPatch" if mutation.get("patchType") == "JSONPatch" else "applyConfiguration"
        path, text = f"spec.mutations[{i}].{field}.expression", (mutation.get(field) or {}).get("expression")
        yield from _expression(path, text, composition.names, (ANY,), as_maps)


def _conditions(holder: Obj, path: str, names: Variables) -> Iterator[str]:
    for i, condition in enumerate(holder.get("matchConditions") or ()):
        text = condition.get("expression")
        yield from _expression(f"{path}.matchConditions[{i}].expression", text, names, (BOOL,))


def _expression(
    path: str,
    expression: Any,
    names: Variables,
    wanted: Iterable[str],
    rewrite: Callable[[str], str] | None = None,
) -> Iterator[str]:
    """Nothing is said of one that is empty: whether it may be is a matter of shape."""
    text = str(expression or "").strip()
    if text:
        program = compiled(rewrite(text) if rewrite else str(expression), names, tuple(wanted))
        if isinstance(program, Error):
            shown = json.dumps(expression, ensure_ascii=False, separators=(",", ":"))
            yield f"{path}: Invalid value: {shown}: {program.text}"
