"""Consolidation that found nothing does not look again until the cluster is another, as upstream marks it."""

from __future__ import annotations

from karpenterworlds import NOW_US, context, kind, pod, pool, state_node, world

from fairway.kube.timestamps import MINUTE_US
from fairway.provisioning.karpenter.disruption.methods import SINGLE, decide
from fairway.provisioning.karpenter.disruption.multinode import MULTI
from fairway.provisioning.karpenter.disruption.settled import LOOK_AGAIN_US, Settled
from fairway.provisioning.karpenter.world import World

SMALL, LARGE = kind("a.small", 4), kind("b.large", 16)
BOTH = frozenset({MULTI, SINGLE})


def too_large(cpu: str = "3", **spec: object) -> World:
    """A large node for a pod that a small one would hold."""
    of = pool(disruption={"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}], **spec})
    return world([SMALL, LARGE], [of], (state_node("n", LARGE, (pod("p", cpu, node="n"),)),))


def test_what_is_settled_is_not_tried_again() -> None:
    made = too_large()
    tried = decide(context(made))
    assert tried.command is not None and tried.skipped == ()
    settled = decide(context(made, consolidated=BOTH))
    assert (settled.command, settled.skipped, settled.in_vain) == (None, (MULTI, SINGLE), ())
    half = decide(context(made, consolidated=frozenset({MULTI})))
    assert half.command is not None and half.skipped == (MULTI,)


def test_nothing_cheaper_settles_both_methods() -> None:
    outcome = decide(context(too_large(cpu="15")))
    assert (outcome.command, outcome.in_vain) == (None, (MULTI, SINGLE))


def test_a_budget_in_the_way_settles_nothing() -> None:
    outcome = decide(context(too_large(cpu="15", budgets=[{"nodes": "0"}])))
    assert (outcome.command, outcome.in_vain) == (None, ())


def test_nobody_to_try_settles_nothing() -> None:
    outcome = decide(context(too_large(consolidationPolicy="WhenEmpty"), consolidated=BOTH))
    assert (outcome.in_vain, outcome.skipped) == ((), ())


def test_a_change_or_five_minutes_unsettle_whoever_is_asked() -> None:
    settled = Settled()
    settled.changed(NOW_US)
    settled.mark([MULTI], NOW_US)
    settled.mark([SINGLE], NOW_US)
    assert settled.done(NOW_US + LOOK_AGAIN_US - 1) == BOTH
    assert settled.ask_again_us() == NOW_US + LOOK_AGAIN_US
    assert settled.copy().done(NOW_US + LOOK_AGAIN_US) == frozenset()
    settled.changed(NOW_US + MINUTE_US)
    assert settled.done(NOW_US + MINUTE_US) == frozenset()


def test_minutes_in_which_nothing_happened_only_count() -> None:
    settled = Settled()
    settled.changed(NOW_US)
    settled.mark([SINGLE], NOW_US)
    assert settled.done(NOW_US + 2 * LOOK_AGAIN_US + MINUTE_US) == {SINGLE}
    assert settled.ask_again_us() == NOW_US + 3 * LOOK_AGAIN_US


def test_who_looks_late_is_done_with_the_cluster_of_then() -> None:
    settled = Settled()
    settled.mark([MULTI], NOW_US)
    assert settled.ask_again_us() == NOW_US + LOOK_AGAIN_US
