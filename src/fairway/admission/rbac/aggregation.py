"""Aggregated cluster roles: rules collected from the roles their selectors match.

Source: pkg/controller/clusterroleaggregation/clusterroleaggregation_controller.go (v1.36).
"""

from __future__ import annotations

from typing import Any

from fairway.admission.rbac.authorizer import CLUSTER_ROLE
from fairway.cluster.actions import Reconciliation, Replace, View
from fairway.kube.labels import label_selector
from fairway.kube.objects import Obj, labels_of, name_of


def reconcile(view: View) -> Reconciliation:
    """Rewrite every aggregated role whose rules are no longer what its selectors give."""
    roles = view.objects(CLUSTER_ROLE)
    changed = []
    for role in roles:
        if role.get("aggregationRule"):
            rules = aggregated_rules(role, roles)
            if rules != (role.get("rules") or []):
                changed.append(Replace({**role, "rules": rules}))
    return Reconciliation(tuple(changed))


def aggregated_rules(role: Obj, roles: list[Obj]) -> list[dict[str, Any]]:
    """Rules of the matching roles: selector by selector, roles by name, each rule once."""
    rules: list[dict[str, Any]] = []
    for raw in (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ():
        selector = label_selector(raw)
        for other in sorted(roles, key=name_of):
            if name_of(other) != name_of(role) and selector.matches(labels_of(other)):
                rules += [rule for rule in other.get("rules") or () if rule not in rules]
    return rules
