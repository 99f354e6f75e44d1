"""What would a cluster say to these manifests? A trial on files: no server, and nothing runs.

Everything is created at the one door, one after the other (`kube.creationorder`), and what goes in is there for what
follows. Policies are not judged themselves: one that could not work is an error.

Unlike kube: namespaces nobody described exist, with their name as their only label. Users' webhooks are not asked;
`unasked` names them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from fairway.admission.chain import Operators
from fairway.admission.configured import denied_by
from fairway.admission.door import Door
from fairway.admission.intree import Options
from fairway.admission.policies.checking import problems
from fairway.admission.policies.index import GROUP, MUTATING_POLICY, VALIDATING_POLICY
from fairway.admission.request import AdmissionRequest, Denied, User
from fairway.cluster.actions import perform
from fairway.cluster.errors import ApiError
from fairway.cluster.store import Store
from fairway.errors import FieldProblem, InvalidInput
from fairway.kube.creationorder import creation_step
from fairway.kube.kinds import kind_named
from fairway.kube.manifest import Manifest, capped
from fairway.kube.objects import Key, gk_of, key_of, name_of
from fairway.kube.problem import TYPE_INVALID, UNKNOWN_FIELD, WRONG_TYPE
from fairway.kube.validation.checking import field_problem, subject_of
from fairway.kube.validation.validating import validate

DENIED, WARNED = "denied", "warned"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing a cluster has against one object. `message` is what the API server would answer."""

    file: str
    line: int
    subject: str
    outcome: str
    message: str
    policy: str
    binding: str


@dataclass(frozen=True, slots=True)
class Trial:
    """`judged` counts the objects; `unbound` names policies that no binding puts to work; `unasked` webhooks."""

    judged: int
    findings: tuple[Finding, ...]
    unbound: tuple[str, ...]
    unasked: tuple[str, ...]

    @property
    def is_denied(self) -> bool:
        return any(f.outcome == DENIED for f in self.findings)


class Said(NamedTuple):
    """A finding without its place."""

    outcome: str
    message: str
    policy: str = ""
    binding: str = ""


def judge(
    manifests: Iterable[Manifest],
    policies: Iterable[Manifest],
    user: User,
    store: Store | None = None,
    operators: Operators | None = None,
) -> Trial:
    """Every finding, in the order in which the objects are created. `store`: what is there already, and is added to;
    `operators` look at it.

    Raises: InvalidInput for what cannot be read as the kind it says, and for policies that could not work.
    """
    listed = [*policies, *manifests]
    check_shapes(listed)
    store = Store() if store is None else store
    door = Door(store, options=Options(is_served=False), operators=operators)
    store.followers.append(door)
    findings: list[Finding] = []
    judged = 0
    for manifest in sorted(listed, key=lambda m: creation_step(m.obj)):
        said = entered(store, door, manifest, user)
        if not gk_of(manifest.obj).endswith(GROUP):
            judged += 1
            subject = _subject(manifest)
            findings += [Finding(manifest.file, manifest.line, subject, *one) for one in said]
    unasked = tuple(f"{name} of {configuration}" for configuration, name in door.unasked)
    return Trial(judged, tuple(findings), _unbound(store, door), unasked)


def check_shapes(manifests: list[Manifest]) -> None:
    """Raises: InvalidInput for what cannot be read as the kind it says, and for policies that could not work."""
    found: list[FieldProblem] = []
    for manifest in manifests:
        wrong, is_own = validate(manifest.obj), gk_of(manifest.obj).endswith(GROUP)
        shape = [p for p in wrong if is_own or p.reason in (TYPE_INVALID, WRONG_TYPE, UNKNOWN_FIELD)]
        found += [field_problem(manifest, p) for p in shape]
        if not shape and is_own:
            subject = subject_of(manifest.obj)
            found += [
                FieldProblem(manifest.file, manifest.line, "", "", said, subject)
                for said in problems(manifest.obj)
            ]
    if found:
        raise InvalidInput(capped(found))


def entered(store: Store, door: Door, manifest: Manifest, user: User) -> Iterable[Said]:
    """What is said to one object; it is there from now on unless it is refused."""
    obj = manifest.obj
    kind = kind_named(gk_of(obj))
    old = store.get(_landed(key_of(obj), is_namespaced=kind.namespaced))
    outcome = door.enter(obj, old, user=user, checks=True)
    warned = [Said(WARNED, s.message, s.policy, s.binding) for s in outcome.spoken]
    spoken = {s.message for s in outcome.spoken}
    warned += [Said(WARNED, text) for text in outcome.warnings if text not in spoken]
    if isinstance(outcome, Denied):
        return [*_denials(door.request(obj), outcome), *warned]
    assert outcome.obj is not None
    try:
        if old is None:
            store.create(outcome.obj)
        else:
            store.replace(outcome.obj)
    except ApiError as refused:
        return [Said(DENIED, refused.message), *warned]
    for charge in outcome.charges:
        perform(store, charge)
    return warned


def _landed(key: Key, *, is_namespaced: bool) -> Key:
    return key._replace(namespace=(key.namespace or "default") if is_namespaced else "")


def _denials(request: AdmissionRequest, denied: Denied) -> list[Said]:
    """The answer; of several policies each one's, as if it were alone."""
    if not denied.denials:
        return [Said(DENIED, denied.message)]
    return [Said(DENIED, denied_by(request, d).message, d.policy, d.binding) for d in denied.denials]


def _subject(manifest: Manifest) -> str:
    key, kind = key_of(manifest.obj), kind_named(gk_of(manifest.obj))
    name = key.name or str((manifest.obj.get("metadata") or {}).get("generateName") or "")
    return f"{kind.kind} {key.namespace or 'default'}/{name}" if kind.namespaced else f"{kind.kind} {name}"


def _unbound(store: Store, door: Door) -> tuple[str, ...]:
    index = door.chain.index
    bound = {p.name for p in index.validating()} | {p.name for p in index.mutating()}
    there = [*store.objects(VALIDATING_POLICY), *store.objects(MUTATING_POLICY)]
    return tuple(name_of(p) for p in there if name_of(p) not in bound)
