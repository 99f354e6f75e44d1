"""What is asked for in a pod's extended resources, what an allocation says, and what a book knows of a cluster."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj
from fairway.scheduling.devices.allocations import allocation_of
from fairway.scheduling.devices.book import DeviceBook
from fairway.scheduling.devices.extended import IMPLICIT, Asked, asked, backed
from fairway.scheduling.devices.facts import Claim, Class, DeviceId, claim_of, class_of, slice_of
from fairway.scheduling.devices.pools import PoolId, Published
from fairway.scheduling.devices.search import Node, Solution, solve
from fairway.scheduling.devices.usage import Usage

DRIVER = "gpu.example.com"
GPU, NIC = "example.com/gpu", "example.com/nic"


def _class(name: str, extended: str = "", created: str = "", **spec: Any) -> Class:
    meta = {"name": name, "creationTimestamp": created}
    return class_of({"metadata": meta, "spec": {"extendedResourceName": extended, **spec}})


def test_a_resource_is_backed_by_the_newest_class_that_names_it() -> None:
    older, newer = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
    classes = [
        _class("d", GPU, older),
        _class("b", GPU, newer),
        _class("a", GPU, newer),
        _class("c", GPU, older),
        _class("plain"),
    ]
    for seed in range(4):
        Random(seed).shuffle(classes)
        found = backed(classes)
        assert found[GPU].name == "a"
        assert {k: v.name for k, v in found.items() if k != GPU} == {
            f"{IMPLICIT}{n}": n for n in ("a", "b", "c", "d", "plain")
        }


# Extended resources


def _container(name: str, *, restarts: str = "", **requests: int) -> Obj:
    named = {GPU if k == "gpu" else NIC if k == "nic" else k: str(v) for k, v in requests.items()}
    always = {"restartPolicy": restarts} if restarts else {}
    return {"name": name, "resources": {"requests": named}, **always}


def _said(found: Asked) -> tuple[list[tuple[str, str, int]], list[tuple[str, str, str]]]:
    for request in found.requests:
        assert request["exactly"]["allocationMode"] == "ExactCount"
    requests = [(r["name"], r["exactly"]["deviceClassName"], r["exactly"]["count"]) for r in found.requests]
    mappings = [(m["containerName"], m["resourceName"], m["requestName"]) for m in found.mappings]
    return requests, sorted(mappings)


R = "container-{}-request-{}".format
ASKED: dict[str, tuple[Obj, list[tuple[str, str, int]], list[tuple[str, str, str]]]] = {
    "two containers": (
        {"containers": [_container("a", gpu=2), _container("b", cpu=1, gpu=1), _container("c", cpu=1)]},
        [(R(0, 0), "gpus", 2), (R(1, 1), "gpus", 1)],
        [("a", GPU, R(0, 0)), ("b", GPU, R(1, 1))],
    ),
    "two resources": (
        {"containers": [_container("a", gpu=1, nic=2)]},
        [(R(0, 0), "gpus", 1), (R(0, 1), "nics", 2)],
        [("a", GPU, R(0, 0)), ("a", NIC, R(0, 1))],
    ),
    "two resources of two containers, by name": (
        {"containers": [_container("a", gpu=1, nic=2), _container("b", gpu=3, nic=4)]},
        [(R(0, 0), "gpus", 1), (R(0, 1), "nics", 2), (R(1, 0), "gpus", 3), (R(1, 1), "nics", 4)],
        [("a", GPU, R(0, 0)), ("a", NIC, R(0, 1)), ("b", GPU, R(1, 0)), ("b", NIC, R(1, 1))],
    ),
    "none of it": ({"containers": [_container("a", gpu=0), {"name": "b"}]}, [], []),
    "an init container uses what comes later": (
        {"initContainers": [_container("i", gpu=2)], "containers": [_container("a", gpu=2)]},
        [(R(1, 0), "gpus", 2)],
        [("a", GPU, R(1, 0)), ("i", GPU, R(1, 0))],
    ),
    "an init container needs more than comes later": (
        {"initContainers": [_container("i", gpu=3)], "containers": [_container("a", gpu=2)]},
        [(R(0, 0), "gpus", 1), (R(1, 0), "gpus", 2)],
        [("a", GPU, R(1, 0)), ("i", GPU, R(0, 0)), ("i", GPU, R(1, 0))],
    ),
    "it takes no more of the later ones than it needs": (
        {
            "initContainers": [_container("i", gpu=1)],
            "containers": [_container("a", gpu=2), _container("b", gpu=1)],
        },
        [(R(1, 0), "gpus", 2), (R(2, 0), "gpus", 1)],
        [("a", GPU, R(1, 0)), ("b", GPU, R(2, 0)), ("i", GPU, R(1, 0))],
    ),
    "init containers share the largest": (
        {"initContainers": [_container("i", gpu=1), _container("j", gpu=3), _container("k", gpu=2)]},
        [(R(1, 0), "gpus", 3)],
        [("i", GPU, R(1, 0)), ("j", GPU, R(1, 0)), ("k", GPU, R(1, 0))],
    ),
    "of equal ones the first": (
        {"initContainers": [_container("i", gpu=2), _container("j", gpu=2)]},
        [(R(0, 0), "gpus", 2)],
        [("i", GPU, R(0, 0)), ("j", GPU, R(0, 0))],
    ),
    "a sidecar keeps its own": (
        {
            "initContainers": [_container("s", restarts="Always", gpu=1), _container("i", gpu=1)],
            "containers": [_container("a", gpu=1)],
        },
        [(R(0, 0), "gpus", 1), (R(2, 0), "gpus", 1)],
        [("a", GPU, R(2, 0)), ("i", GPU, R(2, 0)), ("s", GPU, R(0, 0))],
    ),
    "what a sidecar in front holds is not free": (
        {
            "initContainers": [
                _container("s", restarts="Always", gpu=1),
                _container("i", gpu=1),
                _container("t", restarts="Always", gpu=2),
            ],
        },
        [(R(0, 0), "gpus", 1), (R(2, 0), "gpus", 2)],
        [("i", GPU, R(2, 0)), ("s", GPU, R(0, 0)), ("t", GPU, R(2, 0))],
    ),
    "what is left of several goes by the largest": (
        {
            "initContainers": [_container("i", gpu=4), _container("j", gpu=3)],
            "containers": [_container("a", gpu=2)],
        },
        [(R(0, 0), "gpus", 2), (R(2, 0), "gpus", 2)],
        [
            ("a", GPU, R(2, 0)),
            ("i", GPU, R(0, 0)),
            ("i", GPU, R(2, 0)),
            ("j", GPU, R(0, 0)),
            ("j", GPU, R(2, 0)),
        ],
    ),
}


@pytest.mark.parametrize("name", ASKED)
def test_extended_resources_are_asked_for_by_container(name: str) -> None:
    spec, requests, mappings = ASKED[name]
    classes = {GPU: _class("gpus", GPU), NIC: _class("nics", NIC)}
    assert _said(asked(spec, (NIC, GPU), classes)) == (requests, mappings)
    assert asked(spec, (NIC, GPU), classes) == asked(spec, (GPU, NIC), classes), "by name, however they come"
    only_nics = [m for m in mappings if m[1] == NIC]
    assert _said(asked(spec, (NIC,), classes))[1] == only_nics


# Allocations


ZONE = [{"key": "z", "operator": "In", "values": ["1", "2"]}]


def _slices(*devices: Obj, **where: Any) -> list[Obj]:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    body = {"driver": DRIVER, "pool": pool, "devices": list(devices), **(where or {"nodeName": "n"})}
    return [{"metadata": {"name": "s"}, "spec": body}]


def _allocated(slices: list[Obj], devices: Obj, classes: dict[str, Class]) -> Obj:
    claim: Claim = claim_of({"metadata": {"name": "c", "namespace": "d"}, "spec": {"devices": devices}})
    pools = Published(map(slice_of, slices)).pools_for("n", {"z": "1"})
    found = solve(Node("n", {"z": "1"}), pools, Usage(), [claim], classes.get)
    assert isinstance(found, Solution)
    return allocation_of(found, 0, claim, node="n", uid="u", class_of=classes.get)


ANY = {"any": _class("any")}
HERE = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]}


def _one(**exactly: Any) -> Obj:
    return {"requests": [{"name": "r", "exactly": {"deviceClassName": "any", **exactly}}]}


def test_a_result_says_what_was_asked_and_what_is_to_be_awaited() -> None:
    plain = {"request": "r", "driver": DRIVER, "pool": "p", "device": "g"}
    assert _allocated(_slices({"name": "g"}), _one(), ANY) == {
        "devices": {"results": [plain]},
        "nodeSelector": HERE,
    }
    waits = {"name": "g", "bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}
    tolerations = [{"key": "k", "operator": "Exists"}]
    found = _allocated(_slices(waits), _one(adminAccess=True, tolerations=tolerations), ANY)
    assert found["devices"]["results"] == [
        {
            **plain,
            "adminAccess": True,
            "tolerations": tolerations,
            "bindingConditions": ["ready"],
            "bindingFailureConditions": ["broken"],
        }
    ]


def test_shares_of_a_device_are_named_and_say_how_much() -> None:
    shared = {
        "name": "g",
        "allowMultipleAllocations": True,
        "capacity": {"memory": {"value": "8Gi"}, "cores": {"value": "4"}},
    }
    of_each = {"deviceClassName": "any", "capacity": {"requests": {"memory": "1Gi", "cores": "1"}}}
    twice = {"requests": [{"name": name, "exactly": of_each} for name in "rq"]}
    first, second = _allocated(_slices(shared), twice, ANY)["devices"]["results"]
    assert (first["device"], second["device"]) == ("g", "g")
    assert first["consumedCapacity"] == second["consumedCapacity"] == {"cores": "1", "memory": "1Gi"}
    assert list(first["consumedCapacity"]) == ["cores", "memory"]
    assert first["shareID"] != second["shareID"]
    bare = {"name": "g", "allowMultipleAllocations": True}
    (alone,) = _allocated(_slices(bare), _one(), ANY)["devices"]["results"]
    assert alone["shareID"] == first["shareID"]
    assert "consumedCapacity" not in alone


@pytest.mark.parametrize(
    ("where", "extra", "selector"),
    [
        ({"nodeName": "n"}, {}, HERE),
        ({"allNodes": True}, {}, None),
        ({"allNodes": True}, {"bindsToNode": True}, HERE),
        (
            {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": ZONE}]}},
            {},
            {"nodeSelectorTerms": [{"matchExpressions": ZONE}]},
        ),
        (
            {
                "nodeSelector": {
                    "nodeSelectorTerms": [{"matchFields": HERE["nodeSelectorTerms"][0]["matchFields"]}]
                }
            },
            {},
            HERE,
        ),
        # Of several terms nothing can be said in one.
        ({"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": ZONE}] * 2}}, {}, None),
        ({"perDeviceNodeSelection": True}, {"nodeName": "n"}, HERE),
        ({"perDeviceNodeSelection": True}, {"allNodes": True}, None),
    ],
)
def test_an_allocation_says_where_its_devices_can_be_used(
    where: Obj, extra: Obj, selector: Obj | None
) -> None:
    found = _allocated(_slices({"name": "g", **extra}, **where), _one(), ANY)
    assert found.get("nodeSelector") == selector
    assert ("nodeSelector" in found) is (selector is not None)


def test_selectors_of_several_devices_are_one_term() -> None:
    def where(*expressions: Obj) -> Obj:
        return {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": list(expressions)}]}}

    turned = {**ZONE[0], "values": ["2", "1"]}
    exists = {"key": "z", "operator": "Exists"}
    devices = [
        {"name": "a", **where(ZONE[0])},
        {"name": "b", **where(turned, exists)},
        {"name": "c", **where({**ZONE[0], "values": ["1"]}, exists)},
    ]
    found = _allocated(_slices(*devices, perDeviceNodeSelection=True), _one(count=3), ANY)
    assert found["nodeSelector"]["nodeSelectorTerms"] == [
        {"matchExpressions": [ZONE[0], exists, {**ZONE[0], "values": ["1"]}]}
    ]


def test_configurations_come_from_classes_then_from_the_claim() -> None:
    classes = {
        "a": _class("a", config=[{"opaque": {"of": "a1"}}, {"opaque": {"of": "a2"}}]),
        "b": _class("b", config=[{"opaque": {"of": "b"}}]),
        "c": _class("c"),
    }
    devices = {
        "requests": [
            {"name": "x", "exactly": {"deviceClassName": "a"}},
            {"name": "y", "exactly": {"deviceClassName": "b"}},
            {
                "name": "z",
                "firstAvailable": [
                    {"name": "none", "deviceClassName": "b", "count": 9},
                    {"name": "some", "deviceClassName": "a"},
                ],
            },
            {"name": "w", "exactly": {"deviceClassName": "c"}},
        ],
        "config": [
            {"opaque": {"for": "all"}},
            {"requests": ["x", "z/some"], "opaque": {"for": "two"}},
            {"requests": ["z/none"], "opaque": {"for": "nobody"}},
            {"requests": ["z"], "opaque": {"for": "z"}},
        ],
    }
    found = _allocated(_slices(*({"name": f"g{i}"} for i in range(5))), devices, classes)["devices"]
    assert [(r["request"], r["device"]) for r in found["results"]] == [
        ("x", "g0"),
        ("y", "g1"),
        ("z/some", "g2"),
        ("w", "g3"),
    ]
    two = {"source": "FromClaim", "requests": ["x", "z/some"], "opaque": {"for": "two"}}
    assert found["config"] == [
        {"source": "FromClass", "requests": ["x", "z/some"], "opaque": {"of": "a1"}},
        {"source": "FromClass", "requests": ["x", "z/some"], "opaque": {"of": "a2"}},
        {"source": "FromClass", "requests": ["y"], "opaque": {"of": "b"}},
        {"source": "FromClaim", "opaque": {"for": "all"}},
        two,
        two,
        {"source": "FromClaim", "requests": ["z"], "opaque": {"for": "z"}},
    ]


def test_a_claim_for_no_devices_is_allocated_all_the_same() -> None:
    assert _allocated(_slices({"name": "g"}), {"requests": []}, ANY) == {"devices": {}}


# The book


class _Cluster:
    """Random writes of slices, classes and claims."""

    def __init__(self, seed: int) -> None:
        self.draw, self.store = Random(seed), Store(seed=seed)
        self.book = DeviceBook(self.store)

    def step(self) -> None:
        self.draw.choice((self._slice, self._class, self._claim, self._claim, self._drop, self._label))()

    def _put(self, kind: str, name: str, namespace: str, body: Obj, **meta: Any) -> None:
        made = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": name, **({"namespace": namespace} if namespace else {}), **meta},
            **body,
        }
        key = Key(f"{kind}.resource.k8s.io", namespace, name)
        if self.store.get(key) is None:
            self.store.load(made)
        else:
            self.store.replace(made)

    def _slice(self) -> None:
        name = self.draw.choice("abc")
        (made,) = _slices({"name": self.draw.choice("gh")}, nodeName=self.draw.choice("nm"))
        self._put("ResourceSlice", name, "", {"spec": made["spec"]})

    def _class(self) -> None:
        name = self.draw.choice("ab")
        self._put("DeviceClass", name, "", {"spec": {"extendedResourceName": self.draw.choice((GPU, NIC))}})

    def _claim(self) -> None:
        name = self.draw.choice("abc")
        results = [
            {"driver": DRIVER, "pool": self.draw.choice("pq"), "device": d, "request": "r"}
            for d in self.draw.sample("gh", self.draw.randint(0, 2))
        ]
        status = {"allocation": {"devices": {"results": results}}} if self.draw.random() < 0.7 else {}
        meta: Obj = {}
        if self.draw.random() < 0.4:
            meta["annotations"] = {"resource.kubernetes.io/extended-resource-claim": "true"}
            meta["ownerReferences"] = [{"uid": "x"}, {"uid": f"pod-{name}", "controller": True}]
        self._put("ResourceClaim", name, "default", {"spec": {}, "status": status}, **meta)

    def _drop(self) -> None:
        gk = self.draw.choice(("ResourceSlice", "DeviceClass", "ResourceClaim")) + ".resource.k8s.io"
        for obj in self.store.objects(gk)[:1]:
            meta = obj["metadata"]
            self.store.delete(Key(gk, meta.get("namespace", ""), meta["name"]))

    def _label(self) -> None:
        """A claim's labels alone: nothing that the book keeps."""
        for obj in self.store.objects("ResourceClaim.resource.k8s.io")[:1]:
            self.store.replace(
                {**obj, "metadata": {**obj["metadata"], "labels": {"n": str(self.draw.random())}}}
            )


def _known(book: DeviceBook) -> Any:
    return (
        {name: (s.name, [d.id for d in s.devices], s.where) for name, s in book.slices.items()},
        {name: c.extended for name, c in book.classes.items()},
        book.usage.whole,
        book.of_pod,
        {name: c.name for name, c in book.extended.items()},
        book.backed_names,
        [[p.id for p in book.published.pools_for(n, {})] for n in "nm"],
    )


@pytest.mark.parametrize("seed", range(12))
def test_a_book_knows_what_one_made_anew_would(seed: int) -> None:
    cluster = _Cluster(seed)
    for number in range(40):
        mark = cluster.store.mark()
        before = _known(cluster.book)
        cluster.step()
        if number % 4 == 3:
            cluster.store.rewind(mark)
            assert _known(cluster.book) == before
        # Claims that lost their annotation are remembered until they go.
        fresh = DeviceBook(cluster.store.fork())
        ours, theirs = _known(cluster.book), _known(fresh)
        assert ours[:3] == theirs[:3] and ours[4:] == theirs[4:]
        assert theirs[3].items() <= ours[3].items()


def test_a_book_tells_what_moved_and_what_was_published_anew() -> None:
    cluster = _Cluster(0)
    book, store = cluster.book, cluster.store
    claim = Key("ResourceClaim.resource.k8s.io", "default", "c")
    assert (book.published_version, book.moved) == (0, [])
    cluster._put("DeviceClass", "k", "", {"spec": {"extendedResourceName": GPU}})
    names = book.backed_names
    assert (book.published_version, names) == (1, {GPU, f"{IMPLICIT}k"})
    (made,) = _slices({"name": "g"})
    cluster._put("ResourceSlice", "s", "", {"spec": made["spec"]})
    assert book.published_version == 2
    assert book.published is book.published
    assert book.backed_names is names
    allocation = {"devices": {"results": [{"driver": DRIVER, "pool": "p", "device": "g", "request": "r"}]}}
    cluster._put("ResourceClaim", "c", "default", {"spec": {}, "status": {"allocation": allocation}})
    assert (book.published_version, book.moved) == (2, [PoolId(DRIVER, "p")])
    found = store.require(claim)
    store.set_status(claim, {**found["status"], "reservedFor": [{"uid": "u"}]})
    assert (book.moved, book.usage.whole) == ([PoolId(DRIVER, "p")], {DeviceId(DRIVER, "p", "g"): 1})
    store.set_status(claim, {})
    assert (book.moved, book.usage.whole) == ([PoolId(DRIVER, "p")] * 2, {})
    store.delete(Key("ResourceSlice.resource.k8s.io", "", "s"))
    store.delete(Key("DeviceClass.resource.k8s.io", "", "k"))
    assert (book.published_version, book.backed_names) == (4, frozenset())
    store.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}})
    assert book.published_version == 4


def test_devices_that_are_held_are_taken_before_the_claim_says_so() -> None:
    """Pods that wait for others hold theirs; who lets go gives back no more than that."""
    book = _Cluster(0).book
    first, claim = DeviceId(DRIVER, "p", "g"), Key("ResourceClaim.resource.k8s.io", "default", "c")
    other = Key("ResourceClaim.resource.k8s.io", "default", "d")
    results = [{"driver": DRIVER, "pool": pool, "device": "g", "request": "r"} for pool in "pq"]
    both, one = ({"devices": {"results": some}} for some in (results, results[:1]))
    second = DeviceId(DRIVER, "q", "g")
    for hold, key, allocation, whole, pending, moved in (
        (True, claim, both, {first: 1, second: 1}, [claim], "pq"),
        (True, None, one, {first: 2, second: 1}, [claim], "p"),
        (True, other, {}, {first: 2, second: 1}, [claim, other], ""),
        (False, None, one, {first: 1, second: 1}, [claim, other], "p"),
        (False, claim, both, {}, [other], "pq"),
        (False, claim, {}, {}, [other], ""),
        (False, other, {}, {}, [], ""),
    ):
        before = len(book.moved)
        (book.hold if hold else book.let_go)(key, allocation)
        assert (book.usage.whole, list(book.pending)) == (whole, pending)
        assert book.moved[before:] == [PoolId(DRIVER, pool) for pool in moved]
    assert book.published_version == 0
