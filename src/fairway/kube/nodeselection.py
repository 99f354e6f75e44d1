"""Which nodes does a pod's nodeSelector and node affinity allow, and which does it prefer?

Source: k8s.io/component-helpers/scheduling/corev1/nodeaffinity (v1.36): terms are ORed, expressions within a
term ANDed; a term with neither expressions nor fields matches nothing; matchFields knows metadata.name only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from fairway.kube.labels import Requirement, Selector, set_selector


class Term(NamedTuple):
    """One node selector term: label expressions and field expressions."""

    expressions: tuple[Requirement, ...]
    fields: tuple[Requirement, ...]

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        if not self.expressions and not self.fields:
            return False
        if not all(e.matches(labels) for e in self.expressions):
            return False
        at = {"metadata.name": name}
        return all(f.matches(at) for f in self.fields)


class NodeSelection(NamedTuple):
    """Everything a pod says about nodes. `required` None: no required affinity (any node)."""

    node_selector: Selector
    required: tuple[Term, ...] | None
    preferred: tuple[tuple[int, Term], ...]

    def allows(self, labels: Mapping[str, str], name: str) -> bool:
        if not self.node_selector.matches(labels):
            return False
        return self.required is None or any(t.matches(labels, name) for t in self.required)

    def preference(self, labels: Mapping[str, str], name: str) -> int:
        """The sum of the weights of the preferred terms that match."""
        return sum(weight for weight, term in self.preferred if term.matches(labels, name))

    def pinned_names(self) -> tuple[str, ...] | None:
        """The node names the required terms pin the pod to, where every term names some; else None.

        Source: NodeAffinity PreFilter, which restricts the search to those nodes.
        """
        if not self.required:
            return None
        names: set[str] = set()
        for term in self.required:
            of_term: set[str] | None = None
            for f in term.fields:
                if f.key == "metadata.name" and f.operator == "In":
                    of_term = set(f.values) if of_term is None else of_term & set(f.values)
            if of_term is None:
                return None
            names |= of_term
        return tuple(sorted(names))


def parse_term(raw: Mapping[str, Any]) -> Term:
    return Term(_requirements(raw.get("matchExpressions")), _requirements(raw.get("matchFields")))


def _requirements(raw: Any) -> tuple[Requirement, ...]:
    return tuple(
        Requirement(
            e.get("key", ""), e.get("operator", ""), tuple(sorted(str(v) for v in e.get("values") or ()))
        )
        for e in raw or ()
    )


def node_selector_terms(raw: Mapping[str, Any]) -> tuple[Term, ...]:
    """The terms of a NodeSelector."""
    return tuple(parse_term(t) for t in raw.get("nodeSelectorTerms") or ())


def node_selection(spec: Mapping[str, Any]) -> NodeSelection:
    """From a pod's spec."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    preferred = affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    return NodeSelection(
        set_selector(spec.get("nodeSelector")),
        None if required is None else node_selector_terms(required),
        tuple((int(p.get("weight") or 0), parse_term(p.get("preference") or {})) for p in preferred),
    )
