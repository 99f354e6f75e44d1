"""What accounts say of one node and of several, number by number, and what a store keeps of its objects."""

from __future__ import annotations

from typing import Any

import pytest

from builders import HOSTNAME, node, pod
from fairway.cluster.devices import GpuDevices
from fairway.cluster.errors import ApiError
from fairway.cluster.jsonpatch import json_patch
from fairway.cluster.metadata import bumps_generation
from fairway.cluster.podcounts import PodQuestion
from fairway.cluster.records import LabelSet, LabelSets, PodRecord
from fairway.cluster.shapes import MOST_KEY_BYTES, PodTerm, Shapes
from fairway.cluster.store import Store
from fairway.kube.labels import EVERYTHING, NOTHING, label_selector
from fairway.kube.objects import Key, Obj
from fairway.kube.resources import GPU_MILLI


def test_a_node_is_what_its_object_says() -> None:
    store = Store()
    accounts = store.accounts
    made = node("n").cpu(4).pods(5).taint("a", "b").cordoned().label(x="y").image("i", mib=3)
    store.create(made.build())
    store.create(node("m").cpu(2).build())
    assert accounts.unschedulable.tolist()[:3] == [True, False, False]
    assert accounts.alive.tolist()[:3] == [True, True, False]
    assert int(accounts.allowed_pods[0]) == 5
    assert [int(accounts.allocatable[row, 0]) for row in (0, 1, 2)] == [4000, 2000, 0]
    assert [t.key for t in accounts.taints[0]] == ["a"] and accounts.taints[1] == ()
    assert accounts.taint_sets[int(accounts.taint_set[0])] == accounts.taints[0]
    assert int(accounts.taint_set[1]) == 0
    assert accounts.labels[0]["x"] == "y" and accounts.images[0] == {"i": 3 * 2**20}
    store.replace(node("n").cpu(4).pods(6).build())
    assert accounts.unschedulable.tolist()[:2] == [False, False]
    assert (int(accounts.taint_set[0]), accounts.taints[0]) == (0, ())


def test_what_pods_take_of_a_node_is_given_back() -> None:
    """By resource, by number, by port and by priority; of two pods with one port, the second's stays."""
    store = Store()
    accounts = store.accounts
    store.create(node("n").build())
    store.create(node("m").build())

    def state() -> tuple[int, list[int], list[int], list[int], dict[int, int]]:
        ports = sorted(accounts.ports[0].values())
        counts = accounts.pod_count.tolist()[:2]
        return (
            int(accounts.requested[0, 0]),
            accounts.non_zero[0].tolist(),
            counts,
            ports,
            accounts.pods_by_priority,
        )

    for name, priority in (("a", 7), ("b", 7), ("c", -1)):
        made = pod(name).cpu(1).memory(1024).port(80).priority(priority)
        store.create(made.spec(nodeName="n").build())
    store.create(pod("d").port(81).spec(nodeName="m").build())
    assert state() == (3000, [3000, 3072], [3, 1], [3], {7: 2, -1: 1, 0: 1})
    store.delete(Key("Pod", "default", "a"), grace_s=0)
    assert state() == (2000, [2000, 2048], [2, 1], [2], {7: 1, -1: 1, 0: 1})
    store.set_status(Key("Pod", "default", "b"), {"phase": "Failed"})
    assert state() == (1000, [1000, 1024], [1, 1], [1], {-1: 1, 0: 1})
    store.delete(Key("Pod", "default", "c"), grace_s=0)
    assert state() == (0, [0, 0], [0, 1], [], {0: 1})


def test_rows_beyond_the_first_sixteen_count_as_those_before() -> None:
    store = Store()
    accounts = store.accounts
    for i in range(20):
        store.create(node(f"n{i}").cpu(i + 1).build())
        store.create(pod(f"p{i}").cpu(1).spec(nodeName=f"n{i}").build())
    store.create(pod("more").cpu(1).asks("example.com/a", 2).spec(nodeName="n3").build())
    store.create(pod("last").cpu(1).spec(nodeName="n19").build())
    assert accounts.pod_count.tolist() == [2 if i in (3, 19) else int(i < 20) for i in range(32)]
    assert accounts.requested[:, 0].tolist() == [1000 * n for n in accounts.pod_count.tolist()]
    assert accounts.allocatable[:, 0].tolist() == [1000 * (i + 1) if i < 20 else 0 for i in range(32)]
    assert accounts.requested[:, accounts.column_of["example.com/a"]].tolist() == [
        2 * (i == 3) for i in range(32)
    ]
    assert len(accounts.devices.count) == len(accounts.unschedulable) == len(accounts.taint_set) == 32


def test_a_row_full_of_pods_is_in_another_state() -> None:
    """Two nodes of one size are in one state until a pod takes something, or the last place, of one of them."""
    store = Store()
    accounts = store.accounts
    for name in ("a", "b"):
        store.create(node(name).pods(2).build())
    assert accounts.state(0) == accounts.state(1)
    seen = {accounts.state(0)}
    for i, made in enumerate((pod("p").spec(nodeName="a"), pod("q").memory(1).spec(nodeName="a"))):
        store.create(made.build())
        assert accounts.state(0) not in seen
        seen.add(accounts.state(0))
        assert len(seen) == i + 2
    for name, made in (("r", pod("r")), ("s", pod("s").memory(1))):
        store.create(made.spec(nodeName="b").build())
        assert (accounts.state(0) == accounts.state(1)) is (name == "s")
    # What containers say nothing of is scored all the same.
    assert accounts.non_zero[0].tolist() == accounts.non_zero[1].tolist()
    store.delete(Key("Pod", "default", "p"), grace_s=0)
    assert accounts.state(0) not in seen


def test_kinds_nobody_counts_change_nothing() -> None:
    """Only namespaces say what a namespace is labelled, not what is named like one."""
    store = Store()
    accounts = store.accounts
    other = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "team", "labels": {"a": "b"}},
    }
    store.create({**other, "spec": {}})
    assert accounts.namespaces() == [] and accounts.namespace_labels == {}
    store.create(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team", "labels": {"c": "d"}}}
    )
    store.delete(Key("PersistentVolume", "", "team"))
    assert accounts.namespace_labels == {"team": {"kubernetes.io/metadata.name": "team", "c": "d"}}


def test_a_term_of_another_role_hides_none_behind_it() -> None:
    store = Store()
    accounts = store.accounts
    store.create(node("n").build())
    first = pod("a").near(HOSTNAME, labelSelector={"matchLabels": {"app": "web"}})
    second = pod("b").apart(HOSTNAME, labelSelector={"matchLabels": {"app": "web"}})
    third = pod("c").prefer_apart(5, HOSTNAME, labelSelector={"matchLabels": {"app": "web"}})
    for made in (first, second, third):
        store.create(made.spec(nodeName="n").build())
    web = accounts.label_sets.of("default", {"app": "web"})
    for roles in (("required",), ("required-anti",), ("preferred-anti",), ("preferred",)):
        found = [(term.role, term.weight) for term, _ in accounts.counts.carried(web, roles)]
        assert found == (
            [] if roles == ("preferred",) else [(roles[0], 5 if roles[0].startswith("pref") else 1)]
        )
    db = accounts.label_sets.of("default", {"app": "db"})
    assert accounts.counts.carried(db, ("required", "required-anti", "preferred-anti")) == []
    assert accounts.counts.carried(accounts.label_sets.of("other", {"app": "web"}), ("required",)) == []


def test_which_pods_a_question_counts() -> None:
    web, any_ = label_selector({"matchLabels": {"app": "web"}}), EVERYTHING
    here = LabelSet(0, "a", {"app": "web"})
    for parts, home, is_counted in (
        (((("a",), web),), "a", True),
        (((("b",), web),), "b", False),
        (((None, web),), "", True),
        (((("a", "b"), web),), "", True),
        (((None, any_), (("a",), NOTHING)), "a", False),
        (((("a", "b"), web), (("a",), any_)), "a", True),
        (((None, NOTHING), (("a",), any_)), "a", False),
    ):
        question = PodQuestion(parts, False)
        assert (question.home, question.matches(here)) == (home, is_counted), parts


# Shapes and sets of labels


def test_shapes_and_sets_are_numbered_one_after_the_other() -> None:
    sets, shapes = LabelSets(), Shapes()
    assert [sets.of("a", {"n": str(n % 3)}).id for n in range(5)] == [0, 1, 2, 0, 1]
    assert [shapes.of(pod("p").cpu(n % 3 + 1).build()).id for n in range(5)] == [0, 1, 2, 0, 1]
    assert shapes.most_key_bytes == MOST_KEY_BYTES == 67_108_864


def test_past_the_limit_every_shape_is_let_go_and_made_anew() -> None:
    shapes = Shapes()
    shapes.most_key_bytes = 10_000
    one = pod("p").image("first").build()
    first = shapes.of(one)
    copied = pod("p").image("first").build()
    assert shapes.of(copied) is shapes.of(one) is first
    for i in range(10):
        shapes.of(pod("p").image(f"{i}" * 100).build())
    again = shapes.of(one)
    assert again is not first
    assert (again.id, again.images) == (11, first.images)
    assert shapes.of(pod("p").image("first").build()) is again


def test_a_forgotten_spec_has_its_shape_all_the_same() -> None:
    shapes = Shapes()
    made = pod("p").cpu(1).build()
    first = shapes.of(made)
    shapes.forget()
    assert shapes.of(made) is first


def test_a_term_without_a_selector_of_namespaces_selects_none() -> None:
    def term(**said: Any) -> PodTerm:
        return Shapes().of(pod("p").near("zone", **said).build()).required_affinity[0]

    labels: dict[str, str] = {"team": "a"}
    anyone: Obj = {"labelSelector": {}}
    for said, found in (
        (anyone, [True, False, False]),
        ({**anyone, "namespaces": ["b"]}, [False, True, False]),
        ({**anyone, "namespaceSelector": {}}, [True, True, True]),
        (
            {**anyone, "namespaces": ["b"], "namespaceSelector": {"matchLabels": {"team": "z"}}},
            [False, True, False],
        ),
        ({**anyone, "namespaces": ["b"], "namespaceSelector": {"matchLabels": labels}}, [True, True, True]),
    ):
        made = term(**said)
        assert [made.matches(n, {}, labels) for n in ("default", "b", "c")] == found, said


# Devices


def _record(shapes: Shapes, uid: str, resource: str, amount: int) -> PodRecord:
    shape = shapes.of(pod("p").asks(resource, amount).build())
    return PodRecord(key=Key("Pod", "default", uid), uid=uid, shape=shape, labels=LabelSet(0, "", {}))


def test_a_whole_device_that_is_just_free_is_given_back() -> None:
    shapes, devices = Shapes(), GpuDevices()
    devices.describe(0, 3)
    one, two = (_record(shapes, uid, "nvidia.com/gpu", 1) for uid in ("1", "2"))
    for record in (one, two):
        devices.take(record, 0)
    for record in (one, two):
        devices.give(record, 0)
    again = _record(shapes, "2", "nvidia.com/gpu", 1)
    devices.take(again, 0)
    assert (one.devices, two.devices, again.devices) == (0b1, 0b10, 0b10)


@pytest.mark.parametrize("asked", [1, 2, 999, 1000])
def test_the_last_of_a_device_is_enough(asked: int) -> None:
    shapes, devices = Shapes(), GpuDevices()
    devices.describe(0, 1)
    fits, same = (_record(shapes, str(n), GPU_MILLI, n) for n in (1000 - asked, asked))
    if asked < 1000:
        devices.take(fits, 0)
    for more in (asked - 1, asked, asked + 1):
        if more:
            is_short = devices.short(_record(shapes, "x", GPU_MILLI, more).shape, slice(0, 1)).tolist()
            assert is_short == [more > asked], more
    devices.take(same, 0)
    assert devices.free[0, 0] == 0
    assert devices.short(_record(shapes, "y", GPU_MILLI, 1).shape, slice(0, 1)).tolist() == [True]


# The store


def test_no_kind_but_pods_has_a_grace() -> None:
    """A volume's attachment names a node, too."""
    store = Store()
    for api, kind in (("storage.k8s.io/v1", "VolumeAttachment"), ("resource.k8s.io/v1", "ResourceSlice")):
        made = {"apiVersion": api, "kind": kind, "metadata": {"name": "x"}, "spec": {"nodeName": "n"}}
        stored = store.create(made)
        key = Key(f"{kind}.{api.partition('/')[0]}", "", "x")
        assert stored["metadata"]["name"] == "x"
        assert store.delete(key, grace_s=30) is None and store.get(key) is None


def test_a_pod_without_a_grace_goes_with_its_last_finalizer() -> None:
    store = Store()
    key = Key("Pod", "default", "p")
    for is_bound in (False, True):
        store.create(pod("p").meta(finalizers=["a", "b"]).build())
        if is_bound:
            store.bind(key, "n", {"phase": "Running"})
        held = store.delete(key)
        assert held is not None
        assert held["metadata"]["deletionGracePeriodSeconds"] == (30 if is_bound else 0)
        assert store.set_finalizers(key, ["a"]) is not None
        left = store.set_finalizers(key, [])
        assert (left is not None) is is_bound
        if left is not None:
            assert store.delete(key, grace_s=0) is None
        assert store.get(key) is None


def test_only_the_server_says_when_an_object_was_made_and_is_to_go() -> None:
    store = Store()
    first = store.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}})
    claims = {"deletionTimestamp": "2020-01-01T00:00:00Z", "generation": 9, "namespace": "default"}
    wrong = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", **claims}, "data": {"a": "b"}}
    changed = store.replace(wrong)
    want = {**first["metadata"], "resourceVersion": "2"}
    assert changed["metadata"] == want and changed["data"] == {"a": "b"}
    assert store.require(Key("ConfigMap", "default", "c"))["metadata"] == want


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        ({"spec": {"a": 1}}, {"spec": {"a": 1}}, False),
        ({"spec": {"a": 1}}, {"spec": {"a": 2}}, True),
        ({"spec": {"a": 1}}, {}, True),
        ({"spec": {"a": 1}, "data": {}}, {"data": {}}, True),
        ({"spec": {"a": 1}, "data": {}}, {"spec": {"a": 1}}, True),
        ({"spec": {"a": 1}}, {"spec": {"a": 1}, "data": {}}, True),
        ({"spec": {"a": 1}, "status": {}}, {"spec": {"a": 1}}, False),
        ({"spec": {"a": 1}}, {"spec": {"a": 1}, "status": {"x": 1}}, False),
        ({"spec": {"a": 1}, "status": {"x": 1}}, {"spec": {"a": 1}, "status": {"x": 2}}, False),
    ],
)
def test_what_counts_as_another_generation(old: Obj, new: Obj, want: bool) -> None:
    meta = {"metadata": {"name": "j", "generation": 1, "labels": {"was": "so"}}}
    assert bumps_generation("Job.batch", {**meta, **old}, {"metadata": {"name": "j"}, **new}) is want
    assert bumps_generation("ConfigMap", {**meta, **old}, {"metadata": {"name": "j"}, **new}) is False
    assert bumps_generation("Job.batch", {"metadata": {"name": "j"}, **old}, {**meta, **new}) is False


def test_a_json_patch_is_of_objects_alone() -> None:
    step = {"op": "add", "path": "/a", "value": 1}
    assert json_patch({}, []) == {} and json_patch({}, [step]) == {"a": 1}
    for wrong, kind in (
        ([step, 1], "value"),
        ([1, step], "value"),
        (["x"], "value"),
        ("x", "value"),
        (step, "object"),
    ):
        with pytest.raises(ApiError) as caught:
            json_patch({}, wrong)
        assert caught.value.code == 400
        assert f"cannot unmarshal {kind} into Go value" in caught.value.message
