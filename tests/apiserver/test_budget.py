"""Of one object, to the byte: what etcd takes, in which words it refuses, and what is looked at before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fairway.apiserver import budget
from fairway.apiserver.budget import TooLarge, check_made, check_stored, check_unfolded
from fairway.apiserver.resources import Resource, Resources
from fairway.apiserver.wire.messages import encode
from fairway.kube.objects import Key, Obj

REQUEST, MESSAGE = 1_572_864, 2_097_152
CRD: Obj = {
    "metadata": {"name": "ws.x.dev", "uid": "u", "generation": 1},
    "spec": {
        "group": "x.dev",
        "scope": "Namespaced",
        "names": {"plural": "ws", "kind": "W", "singular": "w"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": {}}],
    },
    "status": {"conditions": [{"type": "Established", "status": "True"}]},
}


@pytest.fixture
def resources() -> Iterator[Resources]:
    found = Resources()
    found.set_definitions([CRD])
    yield found
    found.set_definitions([])


def widget(**meta: Any) -> Obj:
    return {
        "apiVersion": "x.dev/v1",
        "kind": "W",
        "metadata": {"name": "kept", "namespace": "default", **meta},
        "spec": {},
    }


def said(obj: Obj, json_bytes: int, resource: Resource, *, is_new: bool) -> str:
    try:
        check_stored(obj, json_bytes, resource, Key(resource.gk, "default", "kept"), is_new=is_new)
    except TooLarge as refused:
        assert refused.status()["code"] == 500 and not refused.status().get("reason")
        return str(refused)
    return ""


PATH = len("/registry/x.dev/ws/default/kept")
VERSION = len('"resourceVersion":"123",')


@pytest.mark.parametrize(
    ("meta", "is_new", "around"),
    [
        ({}, True, 2 * PATH + 40 + 1),
        ({}, False, 3 * PATH + 47 + 1),
        ({"resourceVersion": "123"}, False, 3 * PATH + 47 + 1 - VERSION),
        ({"resourceVersion": ""}, True, 2 * PATH + 40 + 1),
    ],
)
def test_a_custom_object_is_kept_as_json(resources: Resources, meta: Obj, is_new: bool, around: int) -> None:
    resource = resources.find("x.dev", "v1", "ws")
    assert resource is not None
    told = "rpc error: code = ResourceExhausted desc = trying to send message larger than max"
    for size, want in (
        (REQUEST, ""),
        (REQUEST + 1, "etcdserver: request is too large"),
        (MESSAGE, "etcdserver: request is too large"),
        (MESSAGE + 1, f"{told} ({MESSAGE + 1} vs. {MESSAGE})"),
    ):
        assert said(widget(**meta), size - around, resource, is_new=is_new) == want


def config_map(size: int, **meta: str) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "kept", "namespace": "default", **meta},
        "data": {"a": "x" * size},
    }


def test_a_kind_of_kubernetes_is_kept_as_protobuf(resources: Resources) -> None:
    resource = resources.by_route["", "v1", "configmaps"]

    def most(**meta: str) -> int:
        """The longest value that is taken."""
        low, high = 1_500_000, 1_600_000
        while high - low > 1:
            middle = (low + high) // 2
            obj = config_map(middle, **meta)
            refused = said(obj, len(encode(obj)), resource, is_new=True)
            low, high = (low, middle) if refused else (middle, high)
        return low

    # Its labels of fields and lengths: 4 + 21 around it all, 4 around the object, 29 of metadata, 11 around the value.
    fits = most()
    assert fits == REQUEST - (4 + 21 + 4 + 29 + 11) - 2 * len("/registry/configmaps/default/kept") - 40
    assert most(resourceVersion="123") == fits, "the version is not kept with it"
    assert most(uid="12345678") == fits - 8


def test_what_cannot_be_too_large_is_not_looked_at(resources: Resources) -> None:
    resource = resources.by_route["", "v1", "configmaps"]
    nonsense: Obj = {"data": config_map(3_000_000)["data"]}
    assert said(nonsense, budget.SURE_BYTES, resource, is_new=True) == ""
    with pytest.raises(KeyError):
        said(nonsense, budget.SURE_BYTES + 1, resource, is_new=True)
    large = config_map(3_000_000)
    small = 32 * 1024
    check_unfolded(bytes(small), large, resource)
    with pytest.raises(TooLarge):
        check_unfolded(bytes(small + 1), large, resource)
    with pytest.raises(TooLarge):
        check_unfolded(bytes(small + 1), {**large, "metadata": None}, resource)
    check_unfolded(bytes(small + 1), config_map(1_000_000), resource)


def test_what_controllers_make_has_the_same_bound(resources: Resources) -> None:
    check_made(resources, config_map(1_500_000))
    with pytest.raises(TooLarge):
        check_made(resources, config_map(1_600_000))
    check_made(resources, {**config_map(1_600_000), "kind": "Unheard"})
    bare = budget.without_managed_fields(widget(managedFields=[1], labels={"a": "b"}))
    assert bare == widget(labels={"a": "b"})
