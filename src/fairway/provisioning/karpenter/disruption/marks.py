"""Which NodeClaims are consolidatable, drifted, or too old?

Source: pkg/controllers/nodeclaim/disruption (consolidation.go, drift.go), nodeclaim/expiration, and
pkg/utils/disruption IsUnderConsolidateAfter.
"""

from __future__ import annotations

from typing import Final

from fairway.kube.objects import Obj, meta_of, spec_of
from fairway.kube.timestamps import HOUR_US, parse_rfc3339
from fairway.provisioning.karpenter.claimfacts import ClaimFacts
from fairway.provisioning.karpenter.fleet import Fleet
from fairway.provisioning.karpenter.labels import (
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    NODEPOOL_HASH,
    NODEPOOL_HASH_VERSION,
    ON_DEMAND,
    RESERVED,
    WELL_KNOWN,
)
from fairway.provisioning.karpenter.nodeclaims import INITIALIZED_CONDITION, LAUNCHED, is_true
from fairway.provisioning.karpenter.nodepools import HASH_VERSION, NodePool, duration_us
from fairway.provisioning.karpenter.requirement import one_of
from fairway.provisioning.karpenter.requirements import label_requirements

NODEPOOL_DRIFTED: Final = "NodePoolDrifted"
REQUIREMENTS_DRIFTED: Final = "RequirementsDrifted"
INSTANCE_TYPE_NOT_FOUND: Final = "InstanceTypeNotFound"
# Types are not missed in a claim's first hour.
_TYPES_MISSED_AFTER_US: Final = HOUR_US


def consolidatable_at_us(claim: ClaimFacts, pool: NodePool) -> int | None:
    """When it may be consolidated, by its last pod event; None: never, or not initialized yet."""
    if pool.consolidate_after_us is None or not claim.is_true(INITIALIZED_CONDITION):
        return None
    since_us = claim.last_pod_event_us
    if since_us is None:
        since_us = claim.true_since_us(INITIALIZED_CONDITION)
    return since_us + pool.consolidate_after_us


def rests_until_us(claim: ClaimFacts, pool: NodePool) -> int:
    """Until when pods that could stay are kept from moving onto it; 0: they are not."""
    return consolidatable_at_us(claim, pool) or 0 if pool.consolidate_after_us else 0


def drift_reason(claim: Obj, pool: NodePool, fleet: Fleet, now_us: int) -> str:
    """Why a launched claim no longer is what its NodePool would make; empty where it is."""
    if not is_true(claim, LAUNCHED):
        return ""
    if _static_fields_drifted(claim, pool):
        return NODEPOOL_DRIFTED
    labels = label_requirements(meta_of(claim).get("labels"))
    if not labels.is_compatible(pool.asked):
        return REQUIREMENTS_DRIFTED
    created = meta_of(claim).get("creationTimestamp")
    is_old = created is not None and now_us - parse_rfc3339(created) > _TYPES_MISSED_AFTER_US
    return INSTANCE_TYPE_NOT_FOUND if is_old and not _type_is_there(claim, fleet) else ""


def _static_fields_drifted(claim: Obj, pool: NodePool) -> bool:
    annotations = meta_of(claim).get("annotations") or {}
    if annotations.get(NODEPOOL_HASH_VERSION) != HASH_VERSION or NODEPOOL_HASH not in annotations:
        return False
    return bool(annotations[NODEPOOL_HASH] != pool.hash)


def _type_is_there(claim: Obj, fleet: Fleet) -> bool:
    labels = meta_of(claim).get("labels") or {}
    kind = next((t for t in fleet.types if t.name == labels.get(INSTANCE_TYPE)), None)
    if kind is None:
        return False
    wanted = label_requirements(labels)
    if labels.get(CAPACITY_TYPE) == RESERVED:
        wanted = wanted.replacing(one_of(CAPACITY_TYPE, (RESERVED, ON_DEMAND)))
    return any(wanted.is_compatible(o.requirements(), WELL_KNOWN) for o in kind.offerings)


def expires_at_us(claim: Obj) -> int | None:
    """When a claim is deleted for its age, whatever budgets say; None: Never."""
    created = meta_of(claim).get("creationTimestamp")
    lasts_us = duration_us(spec_of(claim).get("expireAfter") or "Never")
    return parse_rfc3339(created) + lasts_us if created and lasts_us is not None else None
