"""Why a launched claim is no longer what its NodePool would make: the pool's hash, its requirements, its type.

Source: pkg/controllers/nodeclaim/disruption/drift.go.
"""

from __future__ import annotations

from typing import Any

import pytest
from karpenterworlds import NOW_US, kind, pool, wants

from fairway.kube.objects import Obj
from fairway.kube.timestamps import HOUR_US, rfc3339
from fairway.provisioning.karpenter.disruption.marks import drift_reason
from fairway.provisioning.karpenter.fleet import Fleet
from fairway.provisioning.karpenter.labels import (
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    NODEPOOL_HASH,
    NODEPOOL_HASH_VERSION,
    ZONE,
)
from fairway.provisioning.karpenter.nodepools import HASH_VERSION

POOL = pool(requirements=[wants(ZONE, "In", "zone-1", "zone-2")])
FLEET = Fleet((kind("c.small", 2, spot=1, zones=("zone-1",)),))


def claim(
    *,
    launched: bool = True,
    hashed: str | None = "",
    version: str = HASH_VERSION,
    age_us: int = HOUR_US + 1_000_000,
    **labels: str,
) -> Obj:
    """As the pool would make it now, but for what is said; `hashed` None: without a hash."""
    marks = {NODEPOOL_HASH_VERSION: version}
    if hashed is not None:
        marks[NODEPOOL_HASH] = hashed or POOL.hash
    own = {INSTANCE_TYPE: "c.small", ZONE: "zone-1", CAPACITY_TYPE: "on-demand"}
    words = {"type_": INSTANCE_TYPE, "zone": ZONE, "capacity": CAPACITY_TYPE}
    return {
        "metadata": {
            "name": "c",
            "annotations": marks,
            "labels": {**own, **{words[k]: v for k, v in labels.items()}},
            "creationTimestamp": rfc3339(NOW_US - age_us),
        },
        "status": {"conditions": [{"type": "Launched", "status": "True" if launched else "False"}]},
    }


CASES: dict[str, tuple[dict[str, Any], str]] = {
    "as it would be made": ({}, ""),
    "on spot, which is offered too": ({"capacity": "spot"}, ""),
    "reserved, gone over to on-demand": ({"capacity": "reserved"}, ""),
    "of another pool by its hash": ({"hashed": "1"}, "NodePoolDrifted"),
    "of another way of hashing": ({"hashed": "1", "version": "v0"}, ""),
    "without a hash": ({"hashed": None}, ""),
    "in a zone no longer asked for": ({"zone": "zone-3"}, "RequirementsDrifted"),
    "in a zone where its type is not sold": ({"zone": "zone-2"}, "InstanceTypeNotFound"),
    "of a type that is gone": ({"type_": "c.gone"}, "InstanceTypeNotFound"),
    "of a type that is gone, in its first hour": ({"type_": "c.gone", "age_us": HOUR_US}, ""),
    "not launched": ({"launched": False, "hashed": "1"}, ""),
    "the hash is asked first": ({"hashed": "1", "zone": "zone-3", "type_": "c.gone"}, "NodePoolDrifted"),
}


@pytest.mark.parametrize("case", CASES)
def test_why_a_claim_has_drifted(case: str) -> None:
    said, want = CASES[case]
    assert drift_reason(claim(**said), POOL, FLEET, NOW_US) == want
