"""What is wrong with the quotas of a ClusterQueue or a Cohort, and with its fair-sharing weight?

Source: pkg/webhooks/clusterqueue_webhook.go validateResourceGroups, validateFlavorQuotas; pkg/webhooks/common.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from fairway.kube import names, quantity
from fairway.kube.fieldpath import Path
from fairway.kube.objects import Obj
from fairway.queueing.webhooks import faults as f
from fairway.queueing.webhooks.faults import Fault

_SMALLEST_WEIGHT = Fraction(1, 10**9)


def resource_group_faults(groups: Sequence[Obj], path: Path, *, parent: str, has_parent: bool) -> list[Fault]:
    """`parent`: what limits need beside them, `cohort` for queues and `parent` for cohorts."""
    out: list[Fault] = []
    resources: set[str] = set()
    flavors: set[str] = set()
    for i, group in enumerate(groups):
        covered = group.get("coveredResources") or []
        for j, name in enumerate(covered):
            at: Path = (*path, i, "coveredResources", j)
            out += f.invalids(at, name, names.label_key(name))
            if name in resources:
                out.append(f.duplicate(at, name))
            resources.add(name)
        for j, flavor in enumerate(group.get("flavors") or ()):
            at = (*path, i, "flavors", j)
            out += _quota_faults(flavor, covered, at, parent, has_parent)
            if flavor.get("name") in flavors:
                out.append(f.duplicate((*at, "name"), flavor["name"]))
            flavors.add(str(flavor.get("name")))
    return out


def _quota_faults(
    flavor: Obj, covered: Sequence[str], path: Path, parent: str, has_parent: bool
) -> list[Fault]:
    out: list[Fault] = []
    for i, quota in enumerate((flavor.get("resources") or ())[: len(covered)]):
        at: Path = (*path, "resources", i)
        if quota.get("name") != covered[i]:
            out.append(f.invalid((*at, "name"), quota.get("name"), "must match the name in coveredResources"))
        nominal = quota.get("nominalQuota", "0")
        out += negative_faults(nominal, (*at, "nominalQuota"))
        orphan = [] if has_parent else [f"must be nil when {parent} is empty"]
        borrowing, lending = quota.get("borrowingLimit"), quota.get("lendingLimit")
        if borrowing is not None:
            here: Path = (*at, "borrowingLimit")
            out += [f.invalid(here, text_of(borrowing), why) for why in orphan]
            out += negative_faults(borrowing, here)
        if lending is not None:
            here = (*at, "lendingLimit")
            out += negative_faults(lending, here)
            out += [f.invalid(here, text_of(lending), why) for why in orphan]
            if parent == "cohort" and quantity.of(lending) > quantity.of(nominal):
                out.append(
                    f.invalid(here, text_of(lending), "must be less than or equal to the nominalQuota")
                )
    return out


def negative_faults(value: Any, path: Path) -> list[Fault]:
    return [f.invalid(path, text_of(value), f.NEGATIVE)] if quantity.of(value) < 0 else []


def fair_sharing_faults(sharing: Mapping[str, Any] | None, path: Path) -> list[Fault]:
    weight = (sharing or {}).get("weight")
    if weight is None:
        return []
    exact = quantity.of(weight)
    out = [f.invalid(path, text_of(weight), f.NEGATIVE)] if exact < 0 else []
    if 0 < exact <= _SMALLEST_WEIGHT:
        out.append(f.invalid(path, text_of(weight), "When not 0, weight must be > 10e-9"))
    return out


def text_of(value: Any) -> str:
    """A quantity as Go prints it."""
    return quantity.canonical(value)
