"""What would admission policies say to these manifests? A trial on files: no server, no cluster.

Namespaces, parameter objects and policies among the manifests count as what is there already; everything else is
created, one after the other. Mutating policies change an object before the validating ones see it.

An object Kubernetes would call invalid is refused for that, before policies see it, as on a server.

Unlike kube: namespaces nobody described exist, with their name as their only label.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from fairway.admission.policies import mutating, validating
from fairway.admission.policies.checking import problems
from fairway.admission.policies.index import MUTATING_POLICY, VALIDATING_POLICY, PolicyIndex
from fairway.admission.request import CREATE, AdmissionRequest, Gvk, Gvr, User
from fairway.cluster.store import Store
from fairway.errors import FieldProblem, InvalidInput
from fairway.kube.defaults import apply_defaults
from fairway.kube.kinds import kind_named
from fairway.kube.manifest import Manifest, capped
from fairway.kube.objects import Obj, gk_of, key_of, name_of, namespace_of
from fairway.kube.validation.checking import field_problem, subject_of
from fairway.kube.validation.problem import UNKNOWN_FIELD, WRONG_TYPE
from fairway.kube.validation.validating import validate

DENIED, WARNED = "denied", "warned"
_GIVEN = frozenset(("Namespace", "ConfigMap", "Secret"))
_CONFIGURATION = "admissionregistration.k8s.io"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing a policy has against one object."""

    file: str
    line: int
    subject: str
    outcome: str
    message: str
    policy: str
    binding: str


@dataclass(frozen=True, slots=True)
class Trial:
    """`judged` counts the objects; `unbound` names policies that no binding puts to work."""

    judged: int
    findings: tuple[Finding, ...]
    unbound: tuple[str, ...]

    @property
    def is_denied(self) -> bool:
        return any(f.outcome == DENIED for f in self.findings)


def judge(manifests: Iterable[Manifest], policies: Iterable[Manifest], user: User) -> Trial:
    """Every finding, in the order of the manifests.

    Raises: InvalidInput for what cannot be read as the kind it says, and for policies that could not work.
    """
    listed = [*policies, *manifests]
    _check(listed)
    subjects: list[Manifest] = []
    store = Store()
    for manifest in listed:
        gk = gk_of(manifest.obj)
        if gk in _GIVEN or gk.endswith(_CONFIGURATION):
            _place(store, apply_defaults(manifest.obj))
        else:
            subjects.append(manifest)
    _add_namespaces(store, subjects)
    index = PolicyIndex(store)
    findings = [f for m in subjects for f in _findings(store, index, m, user)]
    return Trial(len(subjects), tuple(findings), _unbound(store, index))


def _check(manifests: list[Manifest]) -> None:
    found: list[FieldProblem] = []
    for manifest in manifests:
        shape = [p for p in validate(manifest.obj) if p.reason in (WRONG_TYPE, UNKNOWN_FIELD)]
        found += [field_problem(manifest, p) for p in shape]
        if not shape and gk_of(manifest.obj).endswith(_CONFIGURATION):
            subject = subject_of(manifest.obj)
            found += [
                FieldProblem(manifest.file, manifest.line, "", "", said, subject)
                for said in problems(manifest.obj)
            ]
    if found:
        raise InvalidInput(capped(found))


def _place(store: Store, obj: Obj) -> None:
    """Later ones replace earlier ones of the same name, as applying them would."""
    kind = kind_named(gk_of(obj))
    if kind.namespaced and not namespace_of(obj):
        obj = {**obj, "metadata": {**obj["metadata"], "namespace": "default"}}
    current = store.get(key_of(obj))
    if current is None:
        store.create(obj)
    else:
        meta = {**obj["metadata"], "resourceVersion": current["metadata"]["resourceVersion"]}
        store.replace({**obj, "metadata": meta})


def _add_namespaces(store: Store, subjects: list[Manifest]) -> None:
    for namespace in sorted({namespace_of(m.obj) or "default" for m in subjects}):
        obj = apply_defaults({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        if store.get(key_of(obj)) is None:
            store.create(obj)


def _findings(store: Store, index: PolicyIndex, manifest: Manifest, user: User) -> Iterable[Finding]:
    request = request_for(manifest.obj, user)
    where = (manifest.file, manifest.line, _subject(request))
    invalid = validate(manifest.obj)
    for problem in invalid:
        line = manifest.line_of(problem.path)
        yield Finding(manifest.file, line, where[2], DENIED, str(problem), "", "")
    if invalid:
        return
    mutated = mutating.mutate(store, None, request, index.mutating())
    for refusal in mutated.refusals:
        yield Finding(*where, DENIED, refusal, "", "")
    verdict = validating.judge(store, None, replace(request, obj=mutated.obj), index.validating())
    for denial in verdict.denials:
        yield Finding(*where, DENIED, denial.text, denial.policy, denial.binding)
    for warning in verdict.spoken:
        yield Finding(*where, WARNED, warning.text, warning.policy, warning.binding)


def request_for(obj: Obj, user: User) -> AdmissionRequest:
    """The creation of an object as the API server would see it."""
    kind = kind_named(gk_of(obj))
    served: Obj = _with_text_quantities(apply_defaults(obj))
    meta = dict(served.get("metadata") or {})
    if kind.namespaced:
        meta.setdefault("namespace", "default")
    version = str(obj.get("apiVersion", "")).rpartition("/")[2]
    return AdmissionRequest(
        CREATE,
        Gvk(kind.group, version, kind.kind),
        Gvr(kind.group, version, kind.plural),
        meta.get("namespace") or "",
        name_of(obj),
        user,
        {**served, "metadata": meta},
    )


def _with_text_quantities(value: Any, *, is_amounts: bool = False) -> Any:
    """Numbers of `limits` and `requests` as text, which is how a server hands them to policies."""
    if isinstance(value, dict):
        return {
            k: str(v)
            if is_amounts and isinstance(v, int | float) and not isinstance(v, bool)
            else _with_text_quantities(v, is_amounts=k in ("limits", "requests"))
            for k, v in value.items()
        }
    return [_with_text_quantities(v) for v in value] if isinstance(value, list) else value


def _subject(request: AdmissionRequest) -> str:
    name = request.name or str((request.obj or {}).get("metadata", {}).get("generateName") or "")
    return (
        f"{request.kind.kind} {request.namespace}/{name}"
        if request.namespace
        else f"{request.kind.kind} {name}"
    )


def _unbound(store: Store, index: PolicyIndex) -> tuple[str, ...]:
    bound = {p.name for p in index.validating()} | {p.name for p in index.mutating()}
    there = [*store.objects(VALIDATING_POLICY), *store.objects(MUTATING_POLICY)]
    return tuple(name_of(p) for p in there if name_of(p) not in bound)
