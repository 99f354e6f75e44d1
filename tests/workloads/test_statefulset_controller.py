"""StatefulSets: order, identity, updates from the top down, volume claims."""

from __future__ import annotations

from typing import Any

import pytest
from tinyworld import World, names, pod_key, template

from fairway.kube.objects import Key, Obj

DB = Key("StatefulSet.apps", "default", "db")


def stateful_set(**spec: Any) -> Obj:
    labels = {"app": "db"}
    spec.setdefault("template", template("app:1", labels=labels))
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db", "namespace": "default"},
        "spec": {"serviceName": "db", "selector": {"matchLabels": labels}, **spec},
    }


def claim_template(name: str = "data") -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"]}}


def images(world: World) -> dict[str, str]:
    return {p["metadata"]["name"]: p["spec"]["containers"][0]["image"] for p in world.pods()}


def update_to(world: World, image: str) -> None:
    world.patch(DB, {"spec": {"template": template(image, labels={"app": "db"})}})


def verbs(world: World) -> list[str]:
    """`create db-0`, `delete db-2`, in order."""
    messages = [m.partition(": ")[2].split() for m in world.told()]
    return [f"{words[0]} {words[2]}" for words in messages if words[1] == "Pod"]


def test_pods_come_up_in_order_each_when_the_one_before_is_ready() -> None:
    world = World()
    world.hold = ("app:1",)
    world.apply(stateful_set(replicas=3))
    assert names(world.pods()) == ["db-0"]
    world.make_ready(world.pods()[0])
    assert names(world.pods()) == ["db-0", "db-1"]
    world.make_ready(world.pods()[1])
    assert names(world.pods()) == ["db-0", "db-1", "db-2"]
    assert world.told("SuccessfulCreate")[0] == "create Pod db-0 in StatefulSet db successful"


def test_parallel_pods_come_up_together() -> None:
    world = World()
    world.hold = ("app:1",)
    world.apply(stateful_set(replicas=3, podManagementPolicy="Parallel"))
    assert names(world.pods()) == ["db-0", "db-1", "db-2"]


def test_ordinals_may_start_elsewhere() -> None:
    world = World()
    world.apply(stateful_set(replicas=2, ordinals={"start": 5}))
    assert names(world.pods()) == ["db-5", "db-6"]
    world.patch(DB, {"spec": {"ordinals": {"start": 6}}})
    assert names(world.pods()) == ["db-6", "db-7"]


def test_a_pod_knows_who_it_is() -> None:
    world = World()
    world.apply(stateful_set(replicas=1))
    (pod,) = world.pods()
    labels = pod["metadata"]["labels"]
    assert labels["statefulset.kubernetes.io/pod-name"] == "db-0"
    assert labels["apps.kubernetes.io/pod-index"] == "0"
    assert labels["controller-revision-hash"] == world.status(DB)["updateRevision"]
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("db-0", "db")


def test_the_status_counts_and_names_revisions() -> None:
    world = World()
    world.apply(stateful_set(replicas=2))
    status = world.status(DB)
    counts = ("replicas", "readyReplicas", "availableReplicas", "currentReplicas", "updatedReplicas")
    assert [status[c] for c in counts] == [2, 2, 2, 2, 2]
    assert status["currentRevision"] == status["updateRevision"]
    assert status["collisionCount"] == 0
    (revision,) = world.store.objects("ControllerRevision.apps")
    assert revision["revision"] == 1
    assert revision["metadata"]["name"] == status["updateRevision"]


def test_scaling_down_goes_from_the_top_one_at_a_time() -> None:
    world = World()
    world.apply(stateful_set(replicas=4))
    world.events.clear()
    world.patch(DB, {"spec": {"replicas": 1}})
    assert names(world.pods()) == ["db-0"]
    assert verbs(world) == ["delete db-3", "delete db-2", "delete db-1"]


def test_scaling_down_waits_for_unready_pods_below() -> None:
    world = World()
    world.apply(stateful_set(replicas=3))
    world.make_ready(world.pods()[0], ready=False)
    world.patch(DB, {"spec": {"replicas": 1}})
    assert len(world.pods()) == 3
    world.make_ready(world.pods()[0])
    assert names(world.pods()) == ["db-0"]


def test_an_update_goes_from_the_top_one_at_a_time() -> None:
    world = World()
    world.apply(stateful_set(replicas=3))
    world.events.clear()
    update_to(world, "app:2")
    assert set(images(world).values()) == {"app:2"}
    assert verbs(world) == [
        "delete db-2",
        "create db-2",
        "delete db-1",
        "create db-1",
        "delete db-0",
        "create db-0",
    ]
    status = world.status(DB)
    assert status["currentRevision"] == status["updateRevision"]


def test_a_broken_update_stops_at_the_first_pod() -> None:
    world = World()
    world.apply(stateful_set(replicas=3))
    world.hold = ("app:bad",)
    update_to(world, "app:bad")
    assert images(world) == {"db-0": "app:1", "db-1": "app:1", "db-2": "app:bad"}
    status = world.status(DB)
    assert (status["currentReplicas"], status["updatedReplicas"]) == (2, 1)
    assert status["currentRevision"] != status["updateRevision"]


def test_a_partition_keeps_the_lower_pods_as_they_are() -> None:
    world = World()
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
    world.apply(stateful_set(replicas=3, updateStrategy=strategy))
    update_to(world, "app:2")
    assert images(world) == {"db-0": "app:1", "db-1": "app:1", "db-2": "app:2"}
    world.delete(Key("Pod", "default", "db-0"))
    assert images(world)["db-0"] == "app:1", "below the partition the old revision comes back"
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
    world.patch(DB, {"spec": {"updateStrategy": strategy}})
    assert set(images(world).values()) == {"app:2"}


@pytest.mark.parametrize(("max_unavailable", "want"), [(1, 1), (2, 2), ("50%", 2), ("10%", 1), (None, 1)])
def test_max_unavailable_updates_several_at_once(max_unavailable: Any, want: int) -> None:
    world = World()
    rolling = {} if max_unavailable is None else {"maxUnavailable": max_unavailable}
    spec = {"replicas": 4, "podManagementPolicy": "Parallel"}
    world.apply(stateful_set(**spec, updateStrategy={"type": "RollingUpdate", "rollingUpdate": rolling}))
    world.hold = ("app:bad",)
    update_to(world, "app:bad")
    assert list(images(world).values()).count("app:bad") == want


def test_on_delete_leaves_updating_to_whoever_deletes() -> None:
    world = World()
    world.apply(stateful_set(replicas=2, updateStrategy={"type": "OnDelete"}))
    update_to(world, "app:2")
    assert set(images(world).values()) == {"app:1"}
    world.delete(Key("Pod", "default", "db-0"))
    assert images(world) == {"db-0": "app:2", "db-1": "app:1"}


def test_a_pod_that_ended_is_deleted_and_made_again() -> None:
    world = World()
    world.apply(stateful_set(replicas=1))
    uid = world.pods()[0]["metadata"]["uid"]
    world.set_pod(world.pods()[0], phase="Failed")
    (pod,) = world.pods()
    assert pod["metadata"]["uid"] != uid
    assert pod["status"]["phase"] == "Running"


def test_every_pod_gets_its_claims_and_keeps_them() -> None:
    world = World()
    world.apply(stateful_set(replicas=2, volumeClaimTemplates=[claim_template()]))
    claims = names(world.store.objects("PersistentVolumeClaim"))
    assert claims == ["data-db-0", "data-db-1"]
    (volume,) = world.pods()[1]["spec"]["volumes"]
    assert volume == {"name": "data", "persistentVolumeClaim": {"claimName": "data-db-1"}}
    assert "create Claim data-db-0 Pod db-0 in StatefulSet db success" in world.told("SuccessfulCreate")
    world.patch(DB, {"spec": {"replicas": 1}})
    world.delete(DB)
    assert names(world.store.objects("PersistentVolumeClaim")) == claims


@pytest.mark.parametrize(
    ("scaled", "deleted", "after_scaling", "after_deleting"),
    [
        ("Retain", "Retain", ["data-db-0", "data-db-1"], ["data-db-0", "data-db-1"]),
        ("Delete", "Retain", ["data-db-0"], ["data-db-0"]),
        ("Retain", "Delete", ["data-db-0", "data-db-1"], []),
        ("Delete", "Delete", ["data-db-0"], []),
    ],
)
def test_how_long_claims_are_kept(
    scaled: str, deleted: str, after_scaling: list[str], after_deleting: list[str]
) -> None:
    world = World()
    policy = {"whenScaled": scaled, "whenDeleted": deleted}
    world.apply(
        stateful_set(
            replicas=2,
            volumeClaimTemplates=[claim_template()],
            persistentVolumeClaimRetentionPolicy=policy,
        )
    )
    world.patch(DB, {"spec": {"replicas": 1}})
    assert names(world.store.objects("PersistentVolumeClaim")) == after_scaling
    world.delete(DB)
    assert names(world.store.objects("PersistentVolumeClaim")) == after_deleting


def test_a_claim_volume_takes_the_place_of_one_of_the_same_name() -> None:
    world = World()
    own = [{"name": "data", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}]
    world.apply(
        stateful_set(
            replicas=1,
            volumeClaimTemplates=[claim_template()],
            template=template("app:1", labels={"app": "db"}, volumes=own),
        )
    )
    assert [v["name"] for v in world.pods()[0]["spec"]["volumes"]] == ["data", "tmp"]
    assert "persistentVolumeClaim" in world.pods()[0]["spec"]["volumes"][0]


def test_old_revisions_are_truncated_and_an_old_template_is_renumbered() -> None:
    world = World()
    world.apply(stateful_set(replicas=1, revisionHistoryLimit=1))
    for image in ("app:2", "app:3", "app:4"):
        world.advance(1)
        update_to(world, image)
    assert [r["revision"] for r in _revisions(world)] == [3, 4]
    update_to(world, "app:3")
    assert [r["revision"] for r in _revisions(world)] == [4, 5]
    assert images(world) == {"db-0": "app:3"}


def _revisions(world: World) -> list[Obj]:
    return sorted(world.store.objects("ControllerRevision.apps"), key=lambda r: r["revision"])


def test_a_refused_pod_is_tried_again() -> None:
    world = World()
    world.refuse = "no room"
    world.apply(stateful_set(replicas=1))
    assert world.pods() == []
    assert world.told("FailedCreate") == ["create Pod db-0 in StatefulSet db failed error: no room"]
    assert world.status(DB)["replicas"] == 0
    world.refuse = ""
    world.advance(60)
    assert names(world.pods()) == ["db-0"]


def test_deleting_the_set_takes_its_pods() -> None:
    world = World()
    world.apply(stateful_set(replicas=3))
    world.delete(DB)
    assert world.pods() == []
    assert world.store.objects("ControllerRevision.apps") == []


def test_a_deleted_pod_comes_back_under_its_name() -> None:
    world = World()
    world.apply(stateful_set(replicas=2))
    world.delete(pod_key(world.pods()[0]))
    assert names(world.pods()) == ["db-0", "db-1"]
