"""Shapes of pods: equal specs share one, and what is remembered of them is bounded in bytes."""

from __future__ import annotations

from fairway.cluster.shapes import PodShape, Shapes
from fairway.kube.objects import Obj


def pod(image: str) -> Obj:
    return {"metadata": {"namespace": "d"}, "spec": {"containers": [{"name": "c", "image": image}]}}


def test_equal_specs_share_a_shape() -> None:
    shapes = Shapes()
    assert shapes.of(pod("a")) is shapes.of(pod("a"))
    assert shapes.of(pod("a")) is not shapes.of(pod("b"))


def test_shapes_nobody_asks_for_are_let_go() -> None:
    shapes = Shapes()
    shapes.most_key_bytes = 100_000
    most = 0
    seen: list[PodShape] = []
    for i in range(400):
        seen.append(shapes.of(pod(f"{i}-" + "x" * 1000)))
        most = max(most, shapes.key_bytes)
    assert 90_000 < most <= 100_000
    assert len({s.id for s in seen}) == 400
    # An image that is larger than everything else together is remembered alone.
    assert shapes.of(pod("x" * 200_000)).images == ("x" * 200_000 + ":latest",)
    assert shapes.of(pod("0")).id == 401
