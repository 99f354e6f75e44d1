"""Until when does the usage that metrics-server shows stay as it is? Held against what it shows second by second."""

from __future__ import annotations

from typing import Any

import pytest
from scalingstory import S, World, pod

from fairway.autoscaling.source import NEVER_US
from fairway.kube.labels import set_selector
from fairway.twin.twin import EPOCH_US

OURS = set_selector({"app": "web"})
CASES: dict[str, tuple[dict[str, Any], int, list[int]]] = {
    # Seconds at which it starts, and looks that are enough: each is at the time until which the one before holds.
    "nothing said": ({}, 0, [0, 15, 30]),
    "one that starts between two scrapes": ({}, 20, [20, 30, 45]),
    "one that starts at a scrape": ({}, 30, [30, 45, 60]),
    "a step": ({"cpu": "0s:1,100s:2"}, 0, [0, 15, 30, 105, 120]),
    "a step at a scrape": ({"cpu": "0s:1,90s:2"}, 0, [0, 15, 30, 105]),
    "steps of two resources": (
        {"cpu": "0s:1,50s:2", "memory": "0s:1Gi,200s:2Gi"},
        0,
        [0, 15, 30, 60, 75, 210, 225],
    ),
    "an application that comes up": (
        {"cpu": "0s:1,100s:2", "startup-time": "40s"},
        0,
        [0, 15, 30, 45, 60, 150, 165],
    ),
}


def shown(world: World) -> dict[str, Any]:
    measured = world.part.measured
    return {name: one.containers for name, one in measured.usage("default", OURS).items()}


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_another_before_it_is_said_to_be(name: str) -> None:
    annotations, starts, looks = CASES[name]
    world = World(None, nodes=1)
    world.part.watch("Pod")
    seen, until = [], []
    for second in range(300):
        world.twin.run(EPOCH_US + second * S)
        if second == starts:
            world.apply(pod("p", annotations={"run-time": "forever", **annotations}))
            world.twin.run_for(0)
        world.part.measured.begin()
        seen.append(shown(world))
        until_us = world.part.measured.until_us
        until.append(300 if until_us == NEVER_US else (until_us - EPOCH_US) // S)
    for second, holds in enumerate(until[starts:], starts):
        assert holds > second
        assert all(one == seen[second] for one in seen[second:holds]), second
    assert seen[-1]
    taken, at = [], starts
    while at < 300:
        taken.append(at)
        at = until[at]
    assert taken == looks
