"""Who may do what, by the roles and bindings in the store.

The bindings are indexed by subject once per version of the RBAC objects, and answers are kept until one of those
objects changes: an `Authorizer` is a store follower that only notes that it has to look again.

Source: plugin/pkg/auth/authorizer/rbac/rbac.go, pkg/registry/rbac/validation/rule.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from fairway.admission.answers import aggregated
from fairway.admission.rbac.attributes import RBAC_GROUP, Attributes, Decision, quoted
from fairway.admission.rbac.rules import Rule, allows, parse_rules
from fairway.admission.request import SYSTEM_MASTERS, User
from fairway.cluster.actions import View
from fairway.cluster.changes import Change
from fairway.kube.objects import Key, Obj

ROLE = f"Role.{RBAC_GROUP}"
CLUSTER_ROLE = f"ClusterRole.{RBAC_GROUP}"
ROLE_BINDING = f"RoleBinding.{RBAC_GROUP}"
CLUSTER_ROLE_BINDING = f"ClusterRoleBinding.{RBAC_GROUP}"
KINDS = frozenset((ROLE, CLUSTER_ROLE, ROLE_BINDING, CLUSTER_ROLE_BINDING))

MAX_ANSWERS = 65536


class Grant(NamedTuple):
    """What one binding gives one of its subjects; `error` says why its role could not be read."""

    order: int
    source: str
    rules: tuple[Rule, ...]
    error: str = ""


_BySubject = dict[tuple[str, str], list[Grant]]


class Authorizer:
    """Answers from a view's RBAC objects. Append it to `store.followers`, or call `forget` after writes."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._answers: dict[Attributes, Decision] = {}
        self._scopes: dict[str, _BySubject] = {}
        self.version = 0
        """Rises whenever an RBAC object changes."""

    def apply(self, change: Change) -> None:
        if change.key.gk in KINDS:
            self.forget()

    def forget(self) -> None:
        self.version += 1
        self._answers.clear()
        self._scopes.clear()

    def authorize(self, attributes: Attributes) -> Decision:
        """May this be done? O(1) when asked before, else O(rules of the user)."""
        known = self._answers.get(attributes)
        if known is not None:
            return known
        if len(self._answers) >= MAX_ANSWERS:
            self._answers.clear()
        decision = self._answers[attributes] = self._decided(attributes)
        return decision

    def _decided(self, attributes: Attributes) -> Decision:
        if SYSTEM_MASTERS in attributes.user.groups:
            return Decision(True)
        errors = []
        for grant in self._grants(attributes.user, attributes.namespace):
            if grant.error:
                errors.append(grant.error)
            elif any(allows(rule, attributes) for rule in grant.rules):
                return Decision(True, f"RBAC: allowed by {grant.source}")
        if not errors:
            return Decision(False)
        return Decision(False, f"RBAC: {aggregated(errors)}")

    def rules_for(self, user: User, namespace: str) -> list[Rule]:
        """Every rule that applies to a user in a namespace, cluster-wide ones first."""
        return [rule for grant in self._grants(user, namespace) for rule in grant.rules]

    def role_rules(self, ref: Obj, namespace: str) -> tuple[Rule, ...] | str:
        """The rules a roleRef points at, or why there are none."""
        kind, name = ref.get("kind", ""), ref.get("name", "")
        if kind not in ("Role", "ClusterRole"):
            return f"unsupported role reference kind: {quoted(kind)}"
        key = Key(ROLE, namespace, name) if kind == "Role" else Key(CLUSTER_ROLE, "", name)
        role = self._view.get(key)
        if role is None:
            return f"{kind.lower()}.{RBAC_GROUP} {quoted(name)} not found"
        return parse_rules(role.get("rules"))

    def _grants(self, user: User, namespace: str) -> Iterator[Grant]:
        for scope in ("", namespace) if namespace else ("",):
            by_subject = self._scopes.get(scope)
            if by_subject is None:
                by_subject = self._scopes[scope] = self._index(scope)
            found = list(by_subject.get(("User", user.name), ()))
            for group in user.groups:
                found += by_subject.get(("Group", group), ())
            found.sort(key=lambda grant: grant.order)
            last = -1
            for grant in found:
                if grant.order != last:  # a binding that names the user twice counts once
                    last = grant.order
                    yield grant

    def _index(self, namespace: str) -> _BySubject:
        """Bindings of one scope, by subject. A service account is the user it authenticates as."""
        bindings = self._view.objects(ROLE_BINDING, namespace) if namespace else None
        if bindings is None:
            bindings = self._view.objects(CLUSTER_ROLE_BINDING)
        by_subject: _BySubject = {}
        for order, binding in enumerate(bindings):
            rules = self.role_rules(binding.get("roleRef") or {}, namespace)
            for subject in binding.get("subjects") or ():
                key = _subject_key(subject, namespace)
                if key is None:
                    continue
                if isinstance(rules, str):
                    grant = Grant(order, "", (), rules)
                else:
                    grant = Grant(order, _described(binding, subject, namespace), rules)
                by_subject.setdefault(key, []).append(grant)
        return by_subject


def _subject_key(subject: Obj, namespace: str) -> tuple[str, str] | None:
    kind, name = subject.get("kind", ""), subject.get("name", "")
    if kind in ("User", "Group"):
        return kind, name
    if kind == "ServiceAccount":
        home = subject.get("namespace") or namespace
        return ("User", f"system:serviceaccount:{home}:{name}") if home else None
    return None


def _described(binding: Obj, subject: Obj, namespace: str) -> str:
    """`RoleBinding "devs/team-a" of Role "developer" to User "alice"`."""
    meta, ref = binding["metadata"], binding.get("roleRef") or {}
    name, kind = meta["name"], subject.get("kind", "")
    who = subject.get("name", "")
    if kind == "ServiceAccount":
        who = f"{who}/{subject.get('namespace') or namespace}"
    own = (
        f"RoleBinding {quoted(f'{name}/{namespace}')}" if namespace else f"ClusterRoleBinding {quoted(name)}"
    )
    return f"{own} of {ref.get('kind')} {quoted(ref.get('name', ''))} to {kind} {quoted(who)}"
