"""Pods that are put on nodes and on machines that are coming: first fit, kind by kind, against plain sums."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from fairway.kube.objects import Obj
from fairway.provisioning.clusterautoscaler.groups import NodeView, Seat
from fairway.provisioning.clusterautoscaler.snapshot import Snapshot
from fairway.provisioning.karpenter.podfacts import PodFacts, Shapes, facts_of


def _pod(name: str, cpu: int) -> Obj:
    asked = {"cpu": f"{cpu}m", "memory": "1"}
    spec = {"containers": [{"name": "c", "resources": {"requests": asked}, "ports": []}]}
    return {"metadata": {"name": name, "uid": name, "namespace": "d"}, "spec": spec}


def _seat(name: str, cpu: int, used: int = 0) -> Seat:
    there = {"cpu": cpu, "memory": 100, "pods": 4}
    return Seat(name, {}, (), there, there, {"cpu": used, "pods": int(used > 0)})


def _node(name: str, cpu: int, used: int = 0, **more: Any) -> NodeView:
    return NodeView(_seat(name, cpu, used), "g", **more)


@pytest.mark.parametrize("seed", range(30))
def test_each_kind_takes_the_first_room_that_holds_it(seed: int) -> None:
    draw = Random(seed)
    nodes = [
        _node(
            f"n{i}",
            draw.choice((1000, 2000, 4000)),
            draw.choice((0, 500)),
            is_ready=draw.random() < 0.8,
            is_going=draw.random() < 0.2,
        )
        for i in range(draw.randint(0, 4))
    ]
    coming = [_seat("t", 2000) for _ in range(draw.randint(0, 2))]
    objects = {f"p{i}": _pod(f"p{i}", draw.choice((300, 900, 1800))) for i in range(draw.randint(0, 10))}
    shapes = Shapes()
    pods: list[PodFacts] = [facts_of(o, shapes.of(o)) for o in objects.values()]
    snapshot = Snapshot(nodes, coming)
    twin = snapshot.copy()
    rooms = [[n.name, n.seat.allocatable["cpu"] - n.seat.used["cpu"], 4 - n.seat.used["pods"]]
             for n in nodes if n.is_ready and not n.is_going] + [["", 2000, 4] for _ in coming]  # fmt: skip
    want, without = {}, []
    kinds: dict[int, list[PodFacts]] = {}
    for pod in pods:
        kinds.setdefault(pod.shape.requests["cpu"], []).append(pod)
    for cpu, kin in kinds.items():
        for pod in kin:
            room = next((r for r in rooms if r[1] >= cpu and r[2] >= 1), None)
            if room is None:
                without.append(pod.uid)
            else:
                room[1] -= cpu
                room[2] -= 1
                want[pod.uid] = room[0]
    left = snapshot.place(pods)
    assert [p.uid for p in left] == without
    assert {p.uid: name for name, p in snapshot.placed} == want
    seen = snapshot.seen(nodes, objects)
    for before, after in zip(nodes, seen, strict=True):
        mine = [uid for uid, name in want.items() if name == before.name]
        assert sorted(p["metadata"]["uid"] for p in after.pods) == sorted(mine)
        added = sum(p.shape.requests["cpu"] for p in pods if p.uid in mine)
        assert after.seat.used["cpu"] == before.seat.used["cpu"] + added
        assert before.pods == ()
    assert twin.placed == [] and [p.uid for p in twin.place(pods)] == without, "the copy is as it was"
    again = snapshot.copy()
    assert again.placed == snapshot.placed and again.place(()) == []
