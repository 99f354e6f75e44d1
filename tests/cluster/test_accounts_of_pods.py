"""What accounts make of pods that are resized, announced, or bound to a name nobody bears; how large images are."""

from __future__ import annotations

from typing import Any

import pytest

from accountstate import account_state, recount
from builders import HOSTNAME, PodBuilder, node, pod
from fairway.cluster.accounts import NodeAccounts
from fairway.cluster.devices import GPU_INDEX_ANNOTATION
from fairway.cluster.podcounts import Domains
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj, key_of
from fairway.kube.resources import GPU_MILLI

P = Key("Pod", "default", "p")


def _resized(wished: str, granted: str, has: str, *conditions: Obj) -> tuple[Obj, Obj]:
    """A container's spec, and the status of its pod."""
    spec = {"name": "c", "image": "i", "resources": {"requests": {"cpu": wished}}}
    of_container = {
        "name": "c",
        "allocatedResources": {"cpu": granted},
        "resources": {"requests": {"cpu": has}},
    }
    return spec, {"phase": "Running", "containerStatuses": [of_container], "conditions": list(conditions)}


class _Resizes:
    """A pod of one container on a node, seen through the accounts."""

    def __init__(self) -> None:
        self.store = Store()
        self.store.create(node("n").build())
        self.store.create(pod("p").cpu(1).build())
        self.store.bind(P, "n", {"phase": "Running"})

    def write(self, wished: str, granted: str, has: str, *conditions: Obj) -> None:
        container, status = _resized(wished, granted, has, *conditions)
        found = self.store.require(P)
        self.store.replace({**found, "spec": {**found["spec"], "containers": [container]}, "status": status})

    @property
    def counts(self) -> tuple[int, bool]:
        """Milli-CPU that count, and whether the node has a resize under way."""
        accounts = self.store.accounts
        assert account_state(recount(self.store))["nodes"] == account_state(accounts)["nodes"]
        return int(accounts.requested[0, 0]), accounts.has_resizes(0)


def test_a_resize_counts_as_the_largest_until_it_is_settled() -> None:
    at = _Resizes()
    assert at.counts == (1000, False)
    at.write("2", "1", "1")
    assert at.counts == (2000, True)
    at.write("2", "2", "1")
    assert at.counts == (2000, True)
    at.write("2", "2", "2")
    assert at.counts == (2000, False)
    at.write("500m", "2", "2")
    assert at.counts == (2000, True)
    at.write("500m", "500m", "1")
    assert at.counts == (1000, True)
    at.write("500m", "500m", "500m")
    assert at.counts == (500, False)


def test_a_wish_that_cannot_be_granted_does_not_count() -> None:
    at = _Resizes()
    at.write("9", "1", "1", {"type": "PodResizePending", "reason": "Infeasible"})
    assert at.counts == (1000, True)
    at.write("9", "1", "1", {"type": "PodResizePending", "reason": "Deferred"})
    assert at.counts == (9000, True)


def test_a_resized_pod_that_ends_or_goes_leaves_nothing_behind() -> None:
    for end in (
        lambda s: s.delete(P, grace_s=0),
        lambda s: s.set_status(P, {"phase": "Succeeded"}),
    ):
        at = _Resizes()
        at.write("2", "1", "1")
        end(at.store)
        assert at.counts == (0, False)
        again = {**pod("p").cpu(1).build()}
        at.store.delete(P, grace_s=0) if at.store.get(P) else None
        at.store.create(again)
        at.store.bind(P, "n", {"phase": "Running"})
        # A write that is no resize does not stir it up again.
        at.store.set_status(P, {"phase": "Running", "podIP": "10.0.0.1"})
        assert at.counts == (1000, False)


def test_only_the_node_of_a_resized_pod_has_resizes() -> None:
    at = _Resizes()
    at.store.create(node("other").build())
    at.store.create(pod("q").cpu(1).build())
    at.store.bind(Key("Pod", "default", "q"), "other", {"phase": "Running"})
    at.write("2", "1", "1")
    accounts = at.store.accounts
    assert [accounts.has_resizes(row) for row in (0, 1)] == [True, False]


def test_a_pod_that_comes_with_containers_counts_as_they_are() -> None:
    store = Store()
    store.create(node("n").build())
    container, status = _resized("1", "3", "2")
    made = pod("p").spec(containers=[container], nodeName="n").build()
    store.load({**made, "status": status})
    assert (int(store.accounts.requested[0, 0]), store.accounts.has_resizes(0)) == (3000, True)


def test_pods_bound_to_a_name_count_once_a_node_bears_it() -> None:
    store = Store()
    accounts = store.accounts
    for name in ("b", "a"):
        store.create(pod(name).cpu(1).spec(nodeName="late").build())
    keys = [Key("Pod", "default", name) for name in "ab"]
    assert accounts.bound_to("late") == keys
    assert accounts.bound_to("nobody") == []
    store.create(node("late").build())
    assert accounts.bound_to("late") == keys
    assert (accounts.node_count, accounts.row_count, int(accounts.requested[0, 0])) == (1, 1, 2000)
    store.delete(keys[0], grace_s=0)
    store.delete(Key("Node", "", "late"))
    assert accounts.bound_to("late") == keys[1:]
    assert (accounts.node_count, accounts.row_count) == (0, 1)
    store.delete(keys[1], grace_s=0)
    assert accounts.bound_to("late") == []
    store.create(node("other").build())
    assert (accounts.node_count, accounts.row_count) == (1, 1)


def _announced(accounts: NodeAccounts, made: Obj) -> Any:
    record = accounts.record(made, key_of(made))
    accounts.announce(record)
    return record


def test_an_announced_record_is_taken_for_its_own_pod_alone() -> None:
    store = Store()
    accounts = store.accounts
    store.create(node("n").has(GPU_MILLI, 2000).gpu(2).build())
    first = store.create(pod("p").asks(GPU_MILLI, 300).build())
    second = store.create(pod("q").asks(GPU_MILLI, 300).build())
    record = _announced(accounts, first)
    store.bind(key_of(first), "n", {"phase": "Running"}, {GPU_INDEX_ANNOTATION: "1"})
    assert accounts.records[key_of(first)] is record
    assert record.devices == 0b10
    assert accounts.devices.free[0].tolist()[:2] == [1000, 700]
    # What was announced is used up, and another's is not taken.
    record = _announced(accounts, first)
    store.bind(key_of(second), "n", {"phase": "Running"})
    assert accounts.records[key_of(second)] is not record
    store.delete(key_of(second), grace_s=0)
    later = store.create(pod("q").asks(GPU_MILLI, 300).build())
    record = accounts.record(second, key_of(second))
    accounts.announce(record)
    store.bind(key_of(later), "n", {"phase": "Running"})
    assert accounts.records[key_of(later)].uid == later["metadata"]["uid"] != record.uid


def test_an_image_is_as_large_as_the_oldest_of_its_nodes_says() -> None:
    store = Store()
    accounts = store.accounts
    for name, mib in (("a", 10), ("b", 20), ("c", 30)):
        store.create(node(name).image("i", mib=mib).build())
    assert accounts.image_size("i") == 10 * 2**20
    store.delete(Key("Node", "", "a"))
    assert accounts.image_size("i") == 20 * 2**20
    # The row of the first is taken by the youngest.
    store.create(node("d").image("i", mib=40).build())
    assert accounts.image_size("i") == 20 * 2**20
    assert accounts.image_size("nobody's") == 0


def test_namespaces_are_those_that_exist_and_those_with_pods() -> None:
    store = Store()
    accounts = store.accounts
    for name in ("b", "a"):
        made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"of": name}}}
        store.create(made)
    store.create(pod("p", "seen").spec(nodeName="n").build())
    assert accounts.namespaces() == ["a", "b", "seen"]
    assert accounts.labels_of_namespace("a") == {"kubernetes.io/metadata.name": "a", "of": "a"}
    assert accounts.labels_of_namespace("seen") == {"kubernetes.io/metadata.name": "seen"}
    found = store.require(Key("Namespace", "", "a"))
    store.replace({**found, "spec": {}})
    store.delete(Key("Namespace", "", "a"))
    assert accounts.namespaces() == ["b", "seen"]
    assert accounts.labels_of_namespace("a") == {"kubernetes.io/metadata.name": "a"}


def test_terms_match_by_what_a_namespace_is_labelled_now() -> None:
    store = Store()
    accounts = store.accounts
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
    store.create(namespace)
    store.create(node("n").build())
    apart = pod("p").apart(HOSTNAME, namespaceSelector={"matchLabels": {"team": "a"}})
    store.create(apart.spec(nodeName="n").build())
    web = accounts.label_sets.of("default", {"app": "web"})
    roles = ("required-anti",)
    assert accounts.counts.has_carried
    assert accounts.counts.carried(web, roles) == []
    found = store.require(Key("Namespace", "", "default"))
    store.replace({**found, "metadata": {**found["metadata"], "labels": {"team": "a"}}})
    assert [int(counts[0]) for _, counts in accounts.counts.carried(web, roles)] == [1]
    assert accounts.counts.carried(web, ("required",)) == []
    store.delete(P, grace_s=0)
    assert accounts.counts.carried(web, roles) == []
    assert accounts.counts.has_carried


def test_domains_sum_and_show_what_their_rows_hold() -> None:
    domains = Domains(5)
    assert domains.sums(domains.of_row * 0 + 9).tolist() == [0]
    assert domains.present(domains.of_row == 5).tolist() == [False]
    for row, value in enumerate(("a", "b", None, "a")):
        domains.label(row, value)
    assert domains.of_row.tolist() == [0, 1, -1, 0, -1]
    assert domains.sums(domains.of_row * 0 + [1, 2, 4, 8, 16]).tolist() == [9, 2]
    assert domains.present(domains.of_row == 1).tolist() == [False, True]


def test_counts_grow_with_the_rows() -> None:
    """Pods and labels on the seventeenth node: arrays are twice as long then."""
    store = Store()
    counts = store.accounts.counts
    zones = counts.domains("zone")
    web: PodBuilder = pod("first").label(app="web").apart(HOSTNAME)
    store.create(node("n0").label(zone="z0").build())
    store.create(web.spec(nodeName="n0").build())
    for i in range(1, 20):
        store.create(node(f"n{i}").label(zone=f"z{i % 3}").build())
    store.create(pod("last").label(app="web").apart(HOSTNAME).spec(nodeName="n19").build())
    assert zones.of_row.tolist() == [[0, 1, 2][i % 3] if i < 20 else -1 for i in range(32)]
    interned = store.accounts.label_sets.of("default", {"app": "web"})
    ((_, carried),) = counts.carried(interned, ("required-anti",))
    assert [row for row, n in enumerate(carried.tolist()) if n] == [0, 19]
    assert len(carried) == 32


ZONE = "topology.kubernetes.io/zone"


@pytest.mark.parametrize(
    ("change", "is_seen"),
    [
        ({"metadata": {"labels": {ZONE: "b"}}}, True),
        ({"metadata": {"labels": {"other": "b"}}}, True),
        ({"metadata": {"annotations": {"a": "b"}}}, False),
        ({"spec": {"unschedulable": True}}, True),
        ({"spec": {"unschedulable": False}}, False),
        ({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}, True),
        ({"spec": {"podCIDR": "10.0.0.0/24"}}, False),
        ({"status": {"allocatable": {"cpu": "9"}}}, True),
        ({"status": {"capacity": {"cpu": "99"}}}, False),
        ({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, False),
    ],
)
def test_which_changes_of_a_node_are_looked_at(change: Obj, is_seen: bool) -> None:
    store = Store()
    for name in ("n", "m"):
        store.create(node(name).zone("a").build())
    accounts = store.accounts
    accounts.respecced.clear()
    store.patch(Key("Node", "", "n"), change)
    if "status" in change:
        found = store.require(Key("Node", "", "n"))
        store.set_status(Key("Node", "", "n"), {**found["status"], **change["status"]})
    assert bool(accounts.respecced) is is_seen
    assert account_state(recount(store)) == account_state(accounts)


def test_where_nothing_is_said_to_be_allocatable_capacity_counts() -> None:
    store = Store()
    made = node("n").build()
    store.create({**made, "status": {"capacity": made["status"]["allocatable"]}})
    accounts = store.accounts
    accounts.respecced.clear()
    store.set_status(Key("Node", "", "n"), {"capacity": {"cpu": "7"}})
    assert accounts.respecced == [0]
    assert account_state(recount(store)) == account_state(accounts)


def test_a_row_that_is_free_again_bears_the_name_of_its_next_node() -> None:
    store = Store()
    for name in ("a", "b"):
        store.create(node(name).build())
    row = store.accounts.row_of["a"]
    store.delete(Key("Node", "", "a"))
    store.create(node("c").build())
    assert (store.accounts.row_of, store.accounts.names) == ({"b": 1 - row, "c": row}, ["c", "b"])
    # What is loaded is numbered as what is created.
    loaded, made = Store().load(node("n").build()), Store().create(node("n").build())
    assert loaded["metadata"]["uid"] == made["metadata"]["uid"]
