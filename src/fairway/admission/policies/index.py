"""Policies and webhook configurations of a view, compiled; again only after one of them changed.

Source: apiserver pkg/admission/plugin/policy/generic/policy_source.go,
pkg/admission/configuration (order of configurations) (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from fairway.cluster.actions import View
from fairway.cluster.changes import Change
from fairway.kube.objects import Obj, name_of

if TYPE_CHECKING:
    from fairway.admission.policies import mutating, validating

GROUP = "admissionregistration.k8s.io"
VALIDATING_POLICY = f"ValidatingAdmissionPolicy.{GROUP}"
MUTATING_POLICY = f"MutatingAdmissionPolicy.{GROUP}"
VALIDATING_WEBHOOKS = f"ValidatingWebhookConfiguration.{GROUP}"
MUTATING_WEBHOOKS = f"MutatingWebhookConfiguration.{GROUP}"
_CHANGING = (MUTATING_POLICY, MUTATING_WEBHOOKS)
_CONFIGURED = (VALIDATING_POLICY, VALIDATING_WEBHOOKS, *_CHANGING)

_P = TypeVar("_P")


class PolicyIndex:
    """Answers from a view's policies. A store follower that only forgets."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._known: dict[str, Any] = {}

    def apply(self, change: Change) -> None:
        if change.key.gk.endswith(GROUP):
            self._known.clear()

    def forget(self) -> None:
        self._known.clear()

    def validating(self) -> tuple[validating.Policy, ...]:
        known = self._known.get(VALIDATING_POLICY)
        if known is None:
            from fairway.admission.policies import validating

            known = self._known[VALIDATING_POLICY] = self._compiled(
                VALIDATING_POLICY, validating.compile_policy
            )
        policies: tuple[validating.Policy, ...] = known
        return policies

    def mutating(self) -> tuple[mutating.Policy, ...]:
        known = self._known.get(MUTATING_POLICY)
        if known is None:
            from fairway.admission.policies import mutating

            known = self._known[MUTATING_POLICY] = self._compiled(MUTATING_POLICY, mutating.compile_policy)
        policies: tuple[mutating.Policy, ...] = known
        return policies

    @property
    def is_empty(self) -> bool:
        """Whether nobody configured anything."""
        return self.remembered("", lambda view: not any(view.objects(gk) for gk in _CONFIGURED))

    @property
    def changes_objects(self) -> bool:
        return self.remembered("changes", lambda view: any(view.objects(gk) for gk in _CHANGING))

    def remembered(self, name: str, make: Callable[[View], _P]) -> _P:
        """What `make` gives, kept until one of these kinds changes."""
        if name not in self._known:
            self._known[name] = make(self._view)
        found: _P = self._known[name]
        return found

    def _compiled(self, gk: str, compile_one: Callable[[Obj, Iterable[Obj]], _P]) -> tuple[_P, ...]:
        """By name; a policy nobody bound has no say."""
        kind, _, group = gk.partition(".")
        bound: dict[str, list[Obj]] = {}
        for binding in self._view.objects(f"{kind}Binding.{group}"):
            bound.setdefault((binding.get("spec") or {}).get("policyName") or "", []).append(binding)
        return tuple(
            compile_one(policy, bound[name_of(policy)])
            for policy in self._view.objects(gk)
            if name_of(policy) in bound
        )
