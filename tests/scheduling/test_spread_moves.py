"""Spread in a what-if: victims that go, pods nominated to a node, pods on their way out, against the oracle."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
import worlds
from agreement import Play

from fairway.kube.objects import key_of

Obj = dict[str, Any]
_SELECTORS: tuple[Obj, ...] = ({"matchLabels": {"app": "web"}}, {"matchLabels": {"app": "web"}}, {})


def _node(number: int, draw: Random) -> Obj:
    labels = {worlds.HOSTNAME: f"n{number}"}
    if draw.random() < 0.9:
        labels[worlds.ZONE] = "ab"[number % 2]
    if draw.random() < 0.5:
        labels["disk"] = "ssd"
    capacity = {"cpu": draw.choice(("2", "3", "8")), "memory": "8Gi", "pods": "110"}
    spec: Obj = {}
    if draw.random() < 0.1:
        spec["taints"] = [{"key": "spot", "effect": "NoSchedule"}]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"n{number}", "labels": labels},
        "spec": spec,
        "status": {"capacity": capacity, "allocatable": capacity},
    }


def _pod(name: str, priority: int, draw: Random, *constraints: Obj) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": draw.choice(("default", "default", "default", "red")),
            "labels": {"app": draw.choice(("web", "web", "db"))},
        },
        "spec": {
            "priority": priority,
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}],
            **({"topologySpreadConstraints": list(constraints)} if constraints else {}),
        },
    }


def _constraint(draw: Random) -> Obj:
    found: Obj = {
        "maxSkew": draw.choice((1, 1, 2)),
        "topologyKey": draw.choice((worlds.ZONE, worlds.HOSTNAME)),
        "whenUnsatisfiable": draw.choice(("DoNotSchedule", "DoNotSchedule", "ScheduleAnyway")),
        "labelSelector": draw.choice(_SELECTORS),
    }
    if found["whenUnsatisfiable"] == "DoNotSchedule" and draw.random() < 0.2:
        found["minDomains"] = draw.choice((1, 2, 3))
    if draw.random() < 0.2:
        found["nodeTaintsPolicy"] = draw.choice(("Honor", "Ignore"))
    return found


@pytest.mark.parametrize("start", range(0, 160, 40))
def test_what_ifs_count_as_upstream_counts(start: int) -> None:
    for seed in range(start, start + 40):
        draw = Random(seed)
        nodes = [_node(n, draw) for n in range(draw.choice((2, 3, 4)))]
        play = Play(seed, nodes)
        for number in range(draw.choice((3, 5, 7))):
            raw = _pod(f"r{number}", draw.choice((0, 0, 10)), draw)
            at = draw.choice(nodes)["metadata"]["name"]
            play.store.create(raw)
            play.bind(raw, at)
            if draw.random() < 0.35:
                play.delete(key_of(raw), lingers=True)
        for number in range(draw.choice((0, 1, 2))):
            raw = _pod(f"w{number}", draw.choice((50, 100)), draw)
            created = play.store.create(raw)
            at = draw.choice(nodes)["metadata"]["name"]
            record = play.store.accounts.record(created, key_of(created))
            play.scheduler.nominated[record.key] = (record, at)
            play.world.nominated.append((raw, at))
        for number in range(3):
            constraints = [_constraint(draw) for _ in range(draw.choice((1, 1, 2)))]
            found = play.judge(_pod(f"p{number}", draw.choice((5, 100, 100)), draw, *constraints))
            assert not found, (seed, number, found)
