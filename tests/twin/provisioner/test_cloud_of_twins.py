"""What a twin's cloud has, when, and how long its machines take: shortages at their edges, defaults as documented."""

from __future__ import annotations

from typing import Any

import pytest
from machinesworld import KINDS, kind

from fairway.kube.timestamps import SECOND_US
from fairway.provisioning.karpenter.labels import ON_DEMAND, SPOT
from fairway.twin.distributions import Distribution, constant
from fairway.twin.provisioner import cloud as of_clouds
from fairway.twin.provisioner.cloud import Cloud, Offered, Shortage, fleet_without, offered_of

ONE: Offered = ("small", "z1", SPOT)


def test_how_long_machines_take_unless_somebody_says() -> None:
    """docs/provisioning.md: 60 s, with GPUs about 2 min, with eight or more about 5 min; startup taints stay 15 s."""
    assert Cloud(()).boot_of("small") == constant(60 * SECOND_US)
    assert Distribution("lognormal", 120 * SECOND_US, 0.25) == of_clouds.GPU_BOOT
    assert Distribution("lognormal", 300 * SECOND_US, 0.25) == of_clouds.EIGHT_GPUS_BOOT
    assert Cloud(()).startup_us == 15 * SECOND_US
    own = Cloud((), boot=constant(7), boots={"large": constant(9)})
    assert [own.boot_of(name) for name in ("small", "large")] == [constant(7), constant(9)]


@pytest.mark.parametrize(
    ("patterns", "concerned"),
    [
        ({}, True),
        ({"instance_type": "sm*"}, True),
        ({"instance_type": "large"}, False),
        ({"zone": "z?"}, True),
        ({"zone": "z2"}, False),
        ({"capacity_type": SPOT}, True),
        ({"capacity_type": ON_DEMAND}, False),
        ({"instance_type": "small", "zone": "z1", "capacity_type": ON_DEMAND}, False),
    ],
)
def test_whom_a_shortage_concerns(patterns: dict[str, str], concerned: bool) -> None:
    short = Shortage(**patterns)
    assert short.concerns(ONE) is concerned
    assert Cloud((), shortages=(short,)).has(ONE, list, 5) is not concerned


@pytest.mark.parametrize(
    ("now_us", "held", "has"),
    [
        (9, [ONE, ONE], True),
        (10, [ONE], True),
        (10, [ONE, ONE], False),
        (10, [ONE, ("small", "z2", SPOT)], True),
        (19, [ONE, ONE, ONE], False),
        (20, [ONE, ONE, ONE], True),
    ],
)
def test_a_shortage_counts_what_runs_from_its_beginning_until_its_end(
    now_us: int, held: list[Offered], has: bool
) -> None:
    short = Shortage("small", "z1", from_us=10, until_us=20, most=2)
    assert Cloud((), shortages=(short,)).has(ONE, lambda: held, now_us) is has


def test_of_several_shortages_each_has_to_leave_one() -> None:
    shortages = (Shortage(most=3), Shortage("small", most=1), Shortage("large"))
    cloud = Cloud((), shortages=shortages)
    others: list[Offered] = [("large", "z1", SPOT), ("cards", "z1", SPOT)]
    assert cloud.has(ONE, lambda: others, 0)
    assert not cloud.has(ONE, lambda: [*others, ONE], 0)
    assert not cloud.has(ONE, lambda: [*others, others[0]], 0)
    assert not cloud.has(others[0], list, 0)
    # For ever, unless it says until when; and nobody counts where nothing is short.
    assert not cloud.has(others[0], list, 2**61)

    def nobody() -> Any:
        raise AssertionError

    assert Cloud((), shortages=(Shortage("large"),)).has(ONE, nobody, 0)
    assert not Cloud((), out_of_stock=frozenset({ONE})).has(ONE, nobody, 0)


def test_what_is_left_of_a_fleet() -> None:
    """The offerings that are out, of their type, zone and capacity type alone; nothing is made where none is."""
    two = kind("two", 4, 100, zones=("z1", "z2"))
    left = fleet_without((two, KINDS[1]), frozenset({("two", "z1", SPOT), ("large", "z1", ON_DEMAND)}))
    shown = {
        t.name: [(o.zone, o.capacity_type, o.price) for o in t.offerings if o.available] for t in left.types
    }
    assert shown == {
        "two": [("z1", ON_DEMAND, 100), ("z2", SPOT, 50), ("z2", ON_DEMAND, 101)],
        "large": [("z1", SPOT, 250_000)],
    }
    assert list(fleet_without((two,), frozenset()).types) == [two]
    gone = kind("gone", 4, 100)
    again = fleet_without(
        fleet_without((gone,), frozenset({("gone", "z1", SPOT)})).types, frozenset({("x", "y", "z")})
    )
    assert [o.available for t in again.types for o in t.offerings] == [False, True]


def test_what_a_machine_is_by_its_labels() -> None:
    labels = {"node.kubernetes.io/instance-type": "a", "topology.kubernetes.io/zone": "b"}
    assert offered_of({"metadata": {"labels": labels}}) == ("a", "b", "")
    assert offered_of({"metadata": {"labels": {"karpenter.sh/capacity-type": "c"}}}) == ("", "", "c")
