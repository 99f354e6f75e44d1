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


def affine(kind: str, *, labels: dict[str, str], **term: object) -> PodShape:
    """A pod with one required term of this kind."""
    affinity = {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone", **term}]}}
    made = pod("a")
    made["metadata"]["labels"] = labels
    made["spec"]["affinity"] = affinity
    return Shapes().of(made)


def test_keys_of_a_term_take_the_pods_own_values() -> None:
    labels = {"app": "web", "version": "2"}
    selector = {"matchLabels": {"app": "web"}}
    shape = affine("podAffinity", labels=labels, labelSelector=selector, matchLabelKeys=["version", "absent"])
    (term,) = shape.required_affinity
    assert term.selector.matches({"app": "web", "version": "2"})
    assert not term.selector.matches({"app": "web", "version": "1"})
    assert not term.selector.matches({"app": "web"})
    apart = affine("podAntiAffinity", labels=labels, labelSelector=selector, mismatchLabelKeys=["version"])
    (other,) = apart.required_anti_affinity
    assert other.selector.matches({"app": "web", "version": "1"})
    assert not other.selector.matches({"app": "web", "version": "2"})


def test_a_term_is_about_its_own_namespace_unless_it_says_another() -> None:
    (own,) = affine("podAffinity", labels={}, labelSelector={}).required_affinity
    assert (own.namespaces, own.namespace_selector.matches({"a": "b"})) == (("d",), False)
    (named,) = affine("podAffinity", labels={}, labelSelector={}, namespaces=["z", "a"]).required_affinity
    assert named.namespaces == ("a", "z")
    (chosen,) = affine("podAffinity", labels={}, labelSelector={}, namespaceSelector={}).required_affinity
    assert chosen.namespaces == () and chosen.namespace_selector.matches({"a": "b"})
