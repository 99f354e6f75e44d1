"""What fits without the preempted is what fits once they are gone; in the end the accounts are as they were."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st
from queueworld import Case, World, cohort, queue, running, usage_of

from fairway.queueing.facts.objects import FlavorResource
from fairway.queueing.preemption.departures import Departures
from fairway.queueing.preemption.targets import Target

GPU = FlavorResource("default", "gpu")
QUEUES = ("a", "b", "c")


def world_of(draw: random.Random) -> World:
    """Queues that borrow of each other, full of Workloads."""
    return World(
        Case(
            queues=[
                queue(
                    name,
                    {"default": (draw.randint(0, 6), draw.choice((None, 2, 5)))},
                    cohort=draw.choice(("left", "right")),
                )
                for name in QUEUES
            ],
            cohorts=[cohort("root"), cohort("left", "root"), cohort("right", "root")],
            holding=[running(f"w{i}", draw.choice(QUEUES), draw.randint(1, 4)) for i in range(10)],
            waiting=[],
            want={},
        )
    )


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.integers(0, 10**9))
def test_it_fits_as_if_all_of_them_were_gone(seed: int) -> None:
    draw = random.Random(seed)
    world = world_of(draw)
    accounts, before = world.accounts, usage_of(world.accounts)
    departures = Departures(accounts)
    gone: dict[str, None] = {}
    for _ in range(12):
        action = draw.choice(("preempt", "ask", "ask", "put back"))
        some = draw.sample(sorted(accounts.holders), draw.randint(0, 3))
        workloads = [accounts.holders[key] for key in some]
        if action == "preempt":
            departures.add(workloads)
            gone |= dict.fromkeys(some)
        elif action == "put back":
            departures.put_back()
            assert usage_of(accounts) == before
        else:
            name, usage = draw.choice(QUEUES), ((GPU, draw.randint(1, 12)),)
            targets = [Target(w, "InClusterQueue") for w in workloads]
            said = departures.fits_without(accounts.queues[name], (usage, ()), targets)
            assert departures.has_any_of(targets) == any(key in gone for key in some)
            left = world_of(random.Random(seed)).accounts
            for key in gone | dict.fromkeys(some):
                left.release(key)
            assert said == left.queues[name].fits(usage, ())
    departures.put_back()
    assert usage_of(accounts) == before
