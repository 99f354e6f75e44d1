"""Which wish does a pod give up first when it fits nowhere?

One wish at a time, in Karpenter's order: an alternative of required node affinity, preferred pod affinity,
preferred pod anti-affinity, preferred node affinity (heaviest first), a spread that would rather be kept, and last,
where some NodePool has such a taint, the dislike of `PreferNoSchedule`.

Source: pkg/controllers/provisioning/scheduling/preferences.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from fairway.kube.taints import PREFER_NO_SCHEDULE

Spec = Mapping[str, Any]
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def relaxed(spec: Spec, *, tolerates_preferred_taints: bool) -> Spec | None:
    """The spec without its next soft constraint; None where it has none left."""
    steps: list[Callable[[Spec], Spec | None]] = [
        _without_required_term,
        lambda s: _without_preferred(s, "podAffinity"),
        lambda s: _without_preferred(s, "podAntiAffinity"),
        lambda s: _without_preferred(s, "nodeAffinity"),
        _without_soft_spread,
    ]
    if tolerates_preferred_taints:
        steps.append(tolerating_preferred_taints)
    for step in steps:
        found = step(spec)
        if found is not None:
            return found
    return None


def without_required_term(spec: Spec) -> Spec | None:
    """Without the first alternative of required node affinity; the last one stays."""
    return _without_required_term(spec)


def _without_required_term(spec: Spec) -> Spec | None:
    affinity = spec.get("affinity") or {}
    of_nodes = affinity.get("nodeAffinity") or {}
    required = of_nodes.get(REQUIRED) or {}
    terms = required.get("nodeSelectorTerms") or []
    if len(terms) <= 1:
        return None
    fewer = {**required, "nodeSelectorTerms": list(terms[1:])}
    return {**spec, "affinity": {**affinity, "nodeAffinity": {**of_nodes, REQUIRED: fewer}}}


def _without_preferred(spec: Spec, kind: str) -> Spec | None:
    affinity = spec.get("affinity") or {}
    part = affinity.get(kind) or {}
    terms = part.get(PREFERRED) or []
    if not terms:
        return None
    lighter = sorted(terms, key=lambda t: -(t.get("weight") or 0))[1:]
    return {**spec, "affinity": {**affinity, kind: {**part, PREFERRED: lighter}}}


def _without_soft_spread(spec: Spec) -> Spec | None:
    spreads = list(spec.get("topologySpreadConstraints") or ())
    for i, spread in enumerate(spreads):
        if spread.get("whenUnsatisfiable") == "ScheduleAnyway":
            # The last one takes its place, as upstream has it.
            spreads[i] = spreads[-1]
            return {**spec, "topologySpreadConstraints": spreads[:-1]}
    return None


def tolerating_preferred_taints(spec: Spec) -> Spec | None:
    toleration = {"operator": "Exists", "effect": PREFER_NO_SCHEDULE}
    held = list(spec.get("tolerations") or ())
    if any(_is_same(t, toleration) for t in held):
        return None
    return {**spec, "tolerations": [*held, toleration]}


def _is_same(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    return all((a.get(name) or "") == (b.get(name) or "") for name in ("key", "operator", "value", "effect"))
