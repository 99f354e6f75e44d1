"""What kubelet and system keep of a machine, exactly; bounds of a requirement at the largest integer there is."""

from __future__ import annotations

from itertools import product

from fairway.catalog.catalog import load_catalog
from fairway.provisioning.karpenter import batching, launching, nodeclaims
from fairway.provisioning.karpenter.disruption import (
    balanced,
    budgets,
    consolidation,
    multinode,
    recheck,
    settled,
)
from fairway.provisioning.karpenter.instancetypes import overhead_of
from fairway.provisioning.karpenter.requirement import GT, GTE, IN, LT, LTE, NOT_IN, requirement

MIB, GIB = 2**20, 2**30


def _kept_cpu(milli: int) -> int:
    """6 % of the first core, 1 % of the second, 0.5 % of the next two, 0.25 % of the rest; in ten-thousandths."""
    shares = [600] * 1000 + [100] * 1000 + [50] * 2000
    return (sum(shares[:milli]) + 25 * max(milli - 4000, 0)) // 10_000


def test_what_is_kept_grows_with_the_machine() -> None:
    for milli in (
        0,
        1,
        250,
        940,
        999,
        1000,
        1001,
        1500,
        1999,
        2000,
        2001,
        3920,
        4000,
        4001,
        4399,
        4400,
        8000,
        192_000,
    ):
        assert overhead_of({"cpu": milli})["cpu"] == _kept_cpu(milli), milli
    assert [overhead_of({"cpu": c * 1000})["cpu"] for c in (1, 2, 4, 8, 96)] == [60, 70, 80, 90, 310]
    for pods, disk in product((0, 1, 29, 737), (0, 20 * GIB, 7)):
        kept = overhead_of({"cpu": 1000, "pods": pods, "ephemeral-storage": disk, "memory": 8 * GIB})
        assert kept["memory"] == (255 + 11 * pods + 100) * MIB
        assert kept["ephemeral-storage"] == GIB + disk // 10
        assert set(kept) == {"cpu", "memory", "ephemeral-storage"}
    assert overhead_of({}) == {"cpu": 0, "memory": 355 * MIB, "ephemeral-storage": GIB}


def test_every_machine_of_the_catalog_keeps_less_than_it_has() -> None:
    for kind in load_catalog().instance_types():
        kept = overhead_of({"cpu": kind.cpu_milli, "memory": kind.memory_bytes, "pods": kind.pods})
        assert 0 < kept["cpu"] < kind.cpu_milli // 10
        assert 0 < kept["memory"] < kind.memory_bytes


def test_bounds_of_a_requirement() -> None:
    most = 2**63 - 1
    for bound, value in product((-2, 0, 5, most - 1, most), (-3, -2, 0, 4, 5, 6, most - 1, most)):
        for operator, want in (
            (GT, value > bound),
            (GTE, value >= bound),
            (LT, value < bound),
            (LTE, value <= bound),
        ):
            one = requirement("k", operator, [str(bound)])
            assert one.has(str(value)) == want, (operator, bound, value)
            assert not one.has("a") and not one.has("")
    assert requirement("k", GT, ["+5"]).has("6")
    values = [str(n) for n in range(5)]
    assert str(requirement("k", IN, values)) == "k In [0 1 2 3 4]"
    assert str(requirement("k", NOT_IN, [*values, "5"])) == "k NotIn [0 1 2 3 4 and 1 others]"


def test_upstreams_numbers() -> None:
    """As Karpenter's sources name them."""
    assert {
        "BATCH_IDLE_DURATION": batching.IDLE_US,
        "BATCH_MAX_DURATION": batching.MAX_US,
        "UnavailableOfferingsTTL": launching.UNAVAILABLE_US,
        "registrationTTL": nodeclaims.REGISTRATION_TIMEOUT_US,
        "consolidationTTL": recheck.RECHECK_AFTER_US,
        "ConsolidationState": settled.LOOK_AGAIN_US,
    } == {
        "BATCH_IDLE_DURATION": 1_000_000,
        "BATCH_MAX_DURATION": 10_000_000,
        "UnavailableOfferingsTTL": 180_000_000,
        "registrationTTL": 900_000_000,
        "consolidationTTL": 15_000_000,
        "ConsolidationState": 300_000_000,
    }
    assert multinode.MOST_AT_ONCE == 100
    assert consolidation.SPOT_TO_SPOT_TYPES == 15
    assert balanced.K == 2
    assert budgets.UNBOUNDED == 2**31 - 1
