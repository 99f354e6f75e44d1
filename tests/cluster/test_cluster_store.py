"""The store as an API client sees it: versions, generations, conflicts, finalizers, graceful deletion, the log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from builders import node, pod
from fairway.cluster.changes import ADDED, DELETED, MODIFIED
from fairway.cluster.errors import ApiError
from fairway.cluster.store import FOREGROUND, ORPHAN, Store
from fairway.kube.objects import Key
from fairway.kube.timestamps import SECOND_US

Obj = dict[str, Any]
P = Key("Pod", "default", "p")
CM = Key("ConfigMap", "default", "c")
JOB = Key("Job.batch", "default", "j")


def config(name: str = "c", **meta: Any) -> Obj:
    metadata = {"name": name, "namespace": "default", **meta}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"k": "v"}}


def job(**spec: Any) -> Obj:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"parallelism": 1, **spec},
    }


def meta(store: Store, key: Key) -> Obj:
    found: Obj = store.require(key)["metadata"]
    return found


def refusal(act: Callable[[], object]) -> tuple[int, str, str]:
    with pytest.raises(ApiError) as caught:
        act()
    return caught.value.code, caught.value.reason, caught.value.message


def running(store: Store) -> Obj:
    store.create(pod("p").build())
    return store.bind(P, "n1", {"phase": "Running"})


# Create


def test_create_stamps_identity_time_and_versions() -> None:
    store = Store(now_us=90 * SECOND_US)
    store.create(job())
    found = meta(store, JOB)
    assert found["namespace"] == "default"
    assert found["creationTimestamp"] == "1970-01-01T00:01:30Z"
    assert (found["resourceVersion"], found["generation"]) == ("1", 1)
    assert len(found["uid"]) == 36


def test_uids_are_the_same_in_every_run_and_differ_between_seeds() -> None:
    def uid(seed: int) -> str:
        return str(Store(seed=seed).create(config())["metadata"]["uid"])

    assert uid(1) == uid(1) != uid(2)


def test_cluster_scoped_objects_have_no_namespace() -> None:
    store = Store()
    store.create(node("n1").build())
    assert "namespace" not in meta(store, Key("Node", "", "n1"))


def test_kinds_that_have_no_generation() -> None:
    store = Store()
    store.create(config())
    assert "generation" not in meta(store, CM)


def test_a_name_taken() -> None:
    store = Store()
    store.create(config())
    assert refusal(lambda: store.create(config())) == (
        409,
        "AlreadyExists",
        'configmaps "c" already exists',
    )


def test_the_same_name_in_another_namespace_or_kind_is_free() -> None:
    store = Store()
    store.create(config())
    store.create(config(namespace="other"))
    store.create(pod("c").build())
    assert (store.count("ConfigMap"), store.count("Pod")) == (2, 1)


def test_a_name_is_required() -> None:
    code, reason, message = refusal(
        lambda: Store().create({"apiVersion": "v1", "kind": "Pod", "metadata": {}})
    )
    assert (code, reason) == (422, "Invalid")
    assert message == 'Pod "" is invalid: metadata.name: Required value: name or generateName is required'


def test_generated_names() -> None:
    def names(seed: int) -> list[str]:
        store = Store(seed=seed)
        raw = {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "p-"}, "spec": {}}
        return [store.create(raw)["metadata"]["name"] for _ in range(3)]

    made = names(1)
    assert made == names(1)
    assert len(set(made)) == 3
    assert all(n.startswith("p-") and len(n) == 7 for n in made)


def test_a_pod_is_born_pending_with_a_quality_of_service() -> None:
    store = Store()
    made = store.create({**pod("p").cpu(1).build(), "status": {"phase": "Running"}})
    assert made["status"] == {"phase": "Pending", "qosClass": "Burstable"}


def test_a_gated_pod_says_so() -> None:
    store = Store()
    made = store.create(pod("p").spec(schedulingGates=[{"name": "g"}]).build())
    (condition,) = made["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "PodScheduled",
        "False",
        "SchedulingGated",
    )


def test_what_is_given_is_not_changed() -> None:
    given = config()
    Store().create(given)
    assert given == config()


def test_a_loaded_object_keeps_its_identity_and_status() -> None:
    store = Store()
    raw = pod("p").meta(uid="u-1", creationTimestamp="2020-01-01T00:00:00Z").started(3).build()
    made = store.load(raw)
    assert (made["metadata"]["uid"], made["status"]["phase"]) == ("u-1", "Running")
    assert store.by_uid("u-1") is made


# Replace


def test_replace_raises_the_version_and_keeps_what_the_server_owns() -> None:
    store = Store()
    before = store.create(job())["metadata"]
    changed = job(parallelism=2)
    changed["metadata"] = {"name": "j", "creationTimestamp": "1999-01-01T00:00:00Z", "generation": 77}
    after = store.replace(changed)["metadata"]
    assert (after["uid"], after["creationTimestamp"]) == (before["uid"], before["creationTimestamp"])
    assert (after["generation"], after["resourceVersion"]) == (2, "2")


def test_metadata_and_status_do_not_raise_the_generation() -> None:
    store = Store()
    store.create(job())
    labelled = {**job(), "metadata": {"name": "j", "labels": {"a": "b"}}, "status": {"active": 1}}
    assert store.replace(labelled)["metadata"]["generation"] == 1
    store.set_status(JOB, {"active": 2})
    assert meta(store, JOB)["generation"] == 1


def test_writing_what_is_there_writes_nothing() -> None:
    store = Store()
    there = store.create(job())
    assert store.replace(there) is there
    store.set_status(JOB, {"active": 1})
    version = store.version
    store.set_status(JOB, {"active": 1})
    store.replace(dict(store.require(JOB)))
    assert store.version == version == 2


def test_a_stale_version_conflicts() -> None:
    store = Store()
    stale = store.create(job())
    store.replace(job(parallelism=2))
    assert refusal(lambda: store.replace({**stale, "spec": {"parallelism": 3}})) == (
        409,
        "Conflict",
        'Operation cannot be fulfilled on jobs.batch "j": the object has been modified; '
        "please apply your changes to the latest version and try again",
    )


def test_the_current_version_does_not() -> None:
    store = Store()
    fresh = store.create(job())
    assert store.replace({**fresh, "spec": {"parallelism": 3}})["spec"]["parallelism"] == 3


def test_another_objects_uid_conflicts() -> None:
    store = Store()
    store.create(job())
    wrong = {**job(), "metadata": {"name": "j", "uid": "x"}}
    code, reason, message = refusal(lambda: store.replace(wrong))
    assert (code, reason) == (409, "Conflict")
    assert "Precondition failed: UID in precondition: x" in message


def test_what_is_not_there_cannot_be_replaced() -> None:
    assert refusal(lambda: Store().replace(config())) == (404, "NotFound", 'configmaps "c" not found')


def test_readers_keep_what_they_read() -> None:
    store = Store()
    before = store.create(config())
    store.replace({**config(), "data": {"k": "w"}})
    assert before["data"] == {"k": "v"}


# Binding


def test_bind_sets_node_and_status_in_one_write() -> None:
    store = Store()
    bound = running(store)
    assert (bound["spec"]["nodeName"], bound["status"]["phase"], store.version) == ("n1", "Running", 2)


def test_a_bound_pod_is_not_bound_again() -> None:
    store = Store()
    running(store)
    code, _, message = refusal(lambda: store.bind(P, "n2", {}))
    assert code == 409
    assert 'pod p is already assigned to node "n1"' in message


def test_a_pod_being_deleted_is_not_bound() -> None:
    store = Store()
    store.create(pod("p").meta(finalizers=["x/y"]).build())
    store.delete(P)
    assert (
        "pod p is being deleted, cannot be assigned to a host" in refusal(lambda: store.bind(P, "n1", {}))[2]
    )


# Delete


def test_delete_removes() -> None:
    store = Store()
    store.create(config())
    assert store.delete(CM) is None
    assert store.get(CM) is None
    assert refusal(lambda: store.delete(CM))[0] == 404


def test_a_uid_precondition() -> None:
    store = Store()
    uid = store.create(config())["metadata"]["uid"]
    assert refusal(lambda: store.delete(CM, uid="other"))[0] == 409
    assert store.delete(CM, uid=uid) is None


def test_a_running_pod_gets_its_grace() -> None:
    store = Store()
    running(store)
    left = store.delete(P)
    assert left is not None
    assert left["metadata"]["deletionTimestamp"] == "1970-01-01T00:00:30Z"
    assert left["metadata"]["deletionGracePeriodSeconds"] == 30
    assert left["metadata"]["generation"] == 2


def test_its_own_grace_or_the_one_asked_for() -> None:
    store = Store()
    store.create(pod("p").spec(terminationGracePeriodSeconds=5).build())
    store.bind(P, "n1", {"phase": "Running"})
    store.delete(P)
    assert meta(store, P)["deletionGracePeriodSeconds"] == 5
    store.delete(P, grace_s=2)
    assert meta(store, P)["deletionGracePeriodSeconds"] == 2


def test_a_grace_can_be_shortened_not_lengthened() -> None:
    store = Store()
    running(store)
    store.delete(P, grace_s=10)
    store.delete(P, grace_s=60)
    assert meta(store, P)["deletionTimestamp"] == "1970-01-01T00:00:10Z"


def test_no_grace_removes_at_once() -> None:
    store = Store()
    running(store)
    store.delete(P)
    assert store.delete(P, grace_s=0) is None


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_ended_needs_no_grace(phase: str) -> None:
    store = Store()
    running(store)
    store.set_status(P, {"phase": phase})
    assert store.delete(P) is None


def test_a_pod_without_a_node_needs_none_either() -> None:
    store = Store()
    store.create(pod("p").build())
    assert store.delete(P) is None


def test_finalizers_are_waited_for() -> None:
    store = Store()
    store.create(config(finalizers=["a/b", "c/d"]))
    assert store.delete(CM) is not None
    assert store.set_finalizers(CM, ["c/d"]) is not None
    assert store.set_finalizers(CM, []) is None
    assert store.get(CM) is None


def test_replacing_the_last_finalizer_away_lets_go() -> None:
    store = Store()
    store.create(config(finalizers=["a/b"]))
    store.delete(CM)
    store.replace(config())
    assert store.get(CM) is None


def test_finalizers_of_a_living_object_hold_nothing() -> None:
    store = Store()
    store.create(config(finalizers=["a/b"]))
    assert store.set_finalizers(CM, []) is not None


def test_deleting_twice_is_deleting_once() -> None:
    store = Store()
    store.create(config(finalizers=["a/b"]))
    store.delete(CM)
    version = store.version
    store.delete(CM)
    assert store.version == version


def test_a_pod_with_grace_and_a_finalizer_waits_for_both() -> None:
    store = Store()
    store.create(pod("p").meta(finalizers=["a/b"]).build())
    store.bind(P, "n1", {"phase": "Running"})
    store.delete(P)
    store.set_finalizers(P, [])
    assert store.get(P) is not None
    assert store.delete(P, grace_s=0) is None


@pytest.mark.parametrize(("propagation", "want"), [(FOREGROUND, "foregroundDeletion"), (ORPHAN, "orphan")])
def test_propagation_leaves_a_finalizer(propagation: str, want: str) -> None:
    store = Store()
    store.create(config())
    store.delete(CM, propagation=propagation)
    assert meta(store, CM)["finalizers"] == [want]


# Reading and the log


def test_lists_are_ordered_by_namespace_and_name() -> None:
    store = Store()
    for name, namespace in (("b", "y"), ("a", "y"), ("z", "x")):
        store.create(config(name, namespace=namespace))
    names = [(o["metadata"]["namespace"], o["metadata"]["name"]) for o in store.objects("ConfigMap")]
    assert names == [("x", "z"), ("y", "a"), ("y", "b")]
    assert [o["metadata"]["name"] for o in store.objects("ConfigMap", "y")] == ["a", "b"]
    assert store.objects("ConfigMap", "none") == []
    assert store.kinds() == ["ConfigMap"]


def test_the_log_tells_every_change_with_what_was_before() -> None:
    store = Store()
    store.create(config())
    store.replace({**config(), "data": {"k": "w"}})
    store.delete(CM)
    changes = store.log.since(0)
    assert [c.type for c in changes] == [ADDED, MODIFIED, DELETED]
    assert [c.version for c in changes] == [1, 2, 3]
    assert changes[0].old is None
    assert changes[1].old == changes[0].obj
    assert changes[2].obj["metadata"]["resourceVersion"] == "3"


def test_following_from_a_version() -> None:
    store = Store()
    for name in "abc":
        store.create(config(name))
    assert [c.key.name for c in store.log.since(1)] == ["b", "c"]
    assert store.log.since(3) == []
    assert store.log.at(2).key.name == "b"


def test_what_was_compacted_away_is_expired() -> None:
    store = Store()
    for name in "abcd":
        store.create(config(name))
    store.log.compact(2)
    assert [c.key.name for c in store.log.since(2)] == ["c", "d"]
    code, reason, message = refusal(lambda: store.log.since(1))
    assert (code, reason) == (410, "Expired")
    assert "too old resource version" in message
    assert store.create(config("e"))["metadata"]["resourceVersion"] == "5"


def test_errors_are_statuses() -> None:
    with pytest.raises(ApiError) as caught:
        Store().require(JOB)
    assert caught.value.status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'jobs.batch "j" not found',
        "reason": "NotFound",
        "code": 404,
        "details": {"name": "j", "kind": "jobs", "group": "batch"},
    }


# What-ifs


def test_a_rewind_undoes_everything() -> None:
    store = Store()
    store.create(config())
    mark = store.mark()
    store.replace({**config(), "data": {}})
    store.create(config("d"))
    store.delete(CM)
    store.rewind(mark)
    assert (store.version, store.count("ConfigMap")) == (1, 1)
    assert store.require(CM)["data"] == {"k": "v"}


def test_after_a_rewind_the_same_writes_give_the_same_objects() -> None:
    store = Store()
    mark = store.mark()
    raw = {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "p-"}, "spec": {}}
    first = store.create(raw)
    store.rewind(mark)
    assert store.create(raw) == first


def test_a_fork_goes_its_own_way() -> None:
    store = Store()
    store.create(config())
    twin = store.fork()
    twin.delete(CM)
    store.create(config("d"))
    assert (store.count("ConfigMap"), twin.count("ConfigMap")) == (2, 0)
    assert (store.version, twin.version) == (2, 2)


def _namespace(store: Store) -> Key:
    made = store.create(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}, "status": {"x": 1}}
    )
    assert (made["status"], made["spec"]) == ({"phase": "Active"}, {"finalizers": ["kubernetes"]})
    return Key("Namespace", "", "team")


def test_a_namespace_is_terminating_until_its_content_is_gone() -> None:
    store = Store(now_us=5 * SECOND_US)
    key = _namespace(store)
    store.set_status(key, {"phase": "Active", "conditions": []})
    going = store.delete(key)
    assert going is not None
    assert going["status"] == {"phase": "Terminating", "conditions": []}
    assert going["metadata"]["deletionTimestamp"] == "1970-01-01T00:00:05Z"
    store.now_us += 1
    assert store.delete(key) is going
    labelled = {**going, "metadata": {**going["metadata"], "labels": {"a": "b"}}}
    assert store.replace(labelled) is store.require(key)
    store.replace({**store.require(key), "spec": {}})
    assert store.get(key) is None


@pytest.mark.parametrize(
    ("made", "status"),
    [
        (config() | {"status": {"x": 1}}, {}),
        (config(), None),
        (job() | {"status": {"active": 3}}, {}),
        (node("n").build() | {"status": {"capacity": {"cpu": "1"}}}, {"capacity": {"cpu": "1"}}),
        ({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"}}, {"phase": "Pending"}),
    ],
)
def test_status_at_birth_is_the_servers(made: Obj, status: Obj | None) -> None:
    assert Store().create(made).get("status") == status


def test_what_another_cluster_decided_is_taken_over_as_it_is() -> None:
    there, here = Store(seed=1), Store(seed=2)
    here.create(config("own"))
    for write in (
        lambda: there.create(config(finalizers=["a"])),
        lambda: there.replace(config(finalizers=["a"]) | {"data": {}}),
        lambda: there.delete(CM),
    ):
        write()
        here.follow(CM, there.require(CM))
        taken, decided = here.require(CM), there.require(CM)
        assert taken["metadata"]["resourceVersion"] == str(here.version)
        assert {**taken, "metadata": {**taken["metadata"], "resourceVersion": ""}} == {
            **decided,
            "metadata": {**decided["metadata"], "resourceVersion": ""},
        }
    here.follow(CM, None)
    version = here.version
    here.follow(CM, None)
    assert (here.get(CM), here.version, len(here.log)) == (None, version, version)
    assert [c.type for c in here.log.since(1)] == [ADDED, MODIFIED, MODIFIED, DELETED]
