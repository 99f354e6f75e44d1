"""Deployments and ReplicaSets: rollouts step by step, with their counts, conditions and events."""

from __future__ import annotations

from typing import Any

import pytest
from tinyworld import START_US, World, deployment, names, pod_key, template

from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import SECOND_US, rfc3339
from fairway.workloads.deployment import undo as undoing
from fairway.workloads.deployment.sets import fenceposts, wishes_of
from fairway.workloads.pods import in_ranked_deletion_order, next_available_us

WEB = Key("Deployment.apps", "default", "web")


def sets(world: World) -> dict[str, Obj]:
    """ReplicaSets by the image of their template."""
    found = world.store.objects("ReplicaSet.apps")
    return {s["spec"]["template"]["spec"]["containers"][0]["image"]: s for s in found}


def sizes(world: World) -> dict[str, int]:
    return {image: s["spec"]["replicas"] for image, s in sorted(sets(world).items())}


def roll_to(world: World, image: str) -> None:
    world.patch(WEB, {"spec": {"template": template(image, labels={"app": "web"})}})


def rolling(surge: int | str, unavailable: int | str) -> dict[str, Any]:
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}


def scaled(world: World) -> list[str]:
    """Scaling events with the ReplicaSets' hashes replaced by their images."""
    texts = world.told("ScalingReplicaSet")
    for image, one in sets(world).items():
        texts = [t.replace(one["metadata"]["name"], image) for t in texts]
    return texts


def test_a_new_deployment_brings_up_its_pods() -> None:
    world = World()
    world.apply(deployment(replicas=3))
    (one,) = world.store.objects("ReplicaSet.apps")
    assert world.status(WEB)["replicas"] == 3
    assert world.status(WEB)["availableReplicas"] == 3
    assert "unavailableReplicas" not in world.status(WEB)
    assert world.status(WEB)["observedGeneration"] == 1
    assert one["metadata"]["annotations"] == {
        "deployment.kubernetes.io/desired-replicas": "3",
        "deployment.kubernetes.io/max-replicas": "4",
        "deployment.kubernetes.io/revision": "1",
    }
    assert world.get(WEB)["metadata"]["annotations"] == {"deployment.kubernetes.io/revision": "1"}
    assert scaled(world) == ["Scaled up replica set app:1 from 0 to 3"]


def test_the_replica_set_is_told_apart_by_the_template_hash() -> None:
    world = World()
    world.apply(deployment())
    (one,) = world.store.objects("ReplicaSet.apps")
    digest = one["metadata"]["labels"]["pod-template-hash"]
    assert one["metadata"]["name"] == f"web-{digest}"
    assert one["spec"]["selector"]["matchLabels"] == {"app": "web", "pod-template-hash": digest}
    (pod,) = world.pods(app="web")
    assert pod["metadata"]["labels"]["pod-template-hash"] == digest
    assert pod["metadata"]["generateName"] == f"web-{digest}-"


def test_conditions_of_a_rollout_that_goes_well() -> None:
    world = World()
    world.hold = ("app:1",)
    world.apply(deployment(replicas=2))
    name = sets(world)["app:1"]["metadata"]["name"]
    progressing, available = world.condition(WEB, "Progressing"), world.condition(WEB, "Available")
    assert progressing is not None
    assert available is not None
    assert (progressing["reason"], progressing["message"]) == (
        "ReplicaSetUpdated",
        f'ReplicaSet "{name}" is progressing.',
    )
    assert (available["status"], available["reason"]) == ("False", "MinimumReplicasUnavailable")
    assert available["message"] == "Deployment does not have minimum availability."
    world.hold = ()
    world.advance(5)
    for pod in world.pods(app="web"):
        world.make_ready(pod)
    progressing, available = world.condition(WEB, "Progressing"), world.condition(WEB, "Available")
    assert progressing is not None
    assert available is not None
    assert (progressing["status"], progressing["reason"]) == ("True", "NewReplicaSetAvailable")
    assert progressing["message"] == f'ReplicaSet "{name}" has successfully progressed.'
    assert progressing["lastUpdateTime"] == rfc3339(START_US + 5 * SECOND_US)
    assert progressing["lastTransitionTime"] == rfc3339(START_US)
    assert (available["status"], available["reason"]) == ("True", "MinimumReplicasAvailable")


@pytest.mark.parametrize(
    ("case", "replicas", "surge", "unavailable", "want"),
    [
        ("percentages: surge up, unavailable down", 10, "25%", "25%", (3, 2)),
        ("both defaults", 4, None, None, (1, 1)),
        ("one replica keeps one up", 1, "25%", "25%", (1, 0)),
        ("both round to nothing: one may be missing", 3, 0, "10%", (0, 1)),
        ("absolute numbers", 10, 2, 0, (2, 0)),
        ("everything at once", 10, "100%", "100%", (10, 10)),
    ],
)
def test_fenceposts(case: str, replicas: int, surge: Any, unavailable: Any, want: tuple[int, int]) -> None:
    given = {k: v for k, v in (("maxSurge", surge), ("maxUnavailable", unavailable)) if v is not None}
    assert fenceposts(given, replicas) == want, case


def test_maxunavailable_never_exceeds_the_replicas() -> None:
    assert wishes_of(deployment(replicas=1, strategy=rolling(0, 5))).max_unavailable == 1


def test_a_rollout_one_by_one_with_surge() -> None:
    world = World()
    world.apply(deployment(replicas=2, strategy=rolling(1, 0)))
    world.events.clear()
    roll_to(world, "app:2")
    assert scaled(world) == [
        "Scaled up replica set app:2 from 0 to 1",
        "Scaled down replica set app:1 from 2 to 1",
        "Scaled up replica set app:2 from 1 to 2",
        "Scaled down replica set app:1 from 1 to 0",
    ]
    assert sizes(world) == {"app:1": 0, "app:2": 2}


def test_a_rollout_with_scarce_gpus_takes_one_away_first() -> None:
    world = World()
    world.apply(deployment(replicas=2, strategy=rolling(0, 1)))
    world.events.clear()
    roll_to(world, "app:2")
    assert scaled(world)[:3] == [
        "Scaled down replica set app:1 from 2 to 1",
        "Scaled up replica set app:2 from 0 to 1",
        "Scaled down replica set app:1 from 1 to 0",
    ]


def test_new_pods_that_never_get_ready_hold_the_rollout() -> None:
    world = World()
    world.apply(deployment(replicas=10, strategy=rolling(3, 2)))
    world.hold = ("app:bad",)
    roll_to(world, "app:bad")
    assert sizes(world) == {"app:1": 8, "app:bad": 5}
    assert world.status(WEB)["availableReplicas"] == 8
    assert world.status(WEB)["unavailableReplicas"] == 5


def test_a_stuck_rollout_exceeds_its_deadline() -> None:
    world = World()
    world.apply(deployment(replicas=2, progressDeadlineSeconds=60))
    world.hold = ("app:bad",)
    roll_to(world, "app:bad")
    world.advance(59)
    progressing = world.condition(WEB, "Progressing")
    assert progressing is not None
    assert progressing["status"] == "True"
    world.advance(2)
    progressing = world.condition(WEB, "Progressing")
    assert progressing is not None
    name = sets(world)["app:bad"]["metadata"]["name"]
    assert (progressing["status"], progressing["reason"]) == ("False", "ProgressDeadlineExceeded")
    assert progressing["message"] == f'ReplicaSet "{name}" has timed out progressing.'


def test_without_a_deadline_there_is_no_progressing_condition() -> None:
    world = World()
    world.apply(deployment(replicas=1, progressDeadlineSeconds=2**31 - 1))
    assert world.condition(WEB, "Progressing") is None


def test_rolling_back_from_a_bad_rollout_reuses_the_old_replica_set() -> None:
    world = World()
    world.apply(deployment(replicas=10, strategy=rolling(3, 2)))
    world.hold = ("app:bad",)
    roll_to(world, "app:bad")
    undo = undoing.undo(world.store, world.get(WEB))
    assert undo.message == "rolled back"
    world.patch(WEB, list(undo.patch), form="json")
    assert sizes(world) == {"app:1": 10, "app:bad": 0}
    notes = sets(world)["app:1"]["metadata"]["annotations"]
    assert notes["deployment.kubernetes.io/revision"] == "3"
    assert notes["deployment.kubernetes.io/revision-history"] == "1"


def test_recreate_waits_until_the_last_old_pod_is_gone() -> None:
    world = World(kubelet=False)
    world.apply(deployment(replicas=2, strategy={"type": "Recreate"}))
    for pod in world.pods():
        world.store.bind(pod_key(pod), "n1", {"phase": "Running"})
        world.make_ready(pod)
    roll_to(world, "app:2")
    old = world.pods()
    assert sizes(world) == {"app:1": 0}
    world.delete(pod_key(old[0]), grace_s=0)
    assert sizes(world) == {"app:1": 0}, "one old pod is still terminating"
    world.delete(pod_key(old[1]), grace_s=0)
    assert sizes(world) == {"app:1": 0, "app:2": 2}


def test_scaling_scales_the_only_active_replica_set() -> None:
    world = World()
    world.apply(deployment(replicas=2))
    world.patch(WEB, {"spec": {"replicas": 5}})
    assert sizes(world) == {"app:1": 5}
    assert scaled(world)[-1] == "Scaled up replica set app:1 from 2 to 5"
    notes = sets(world)["app:1"]["metadata"]["annotations"]
    assert notes["deployment.kubernetes.io/desired-replicas"] == "5"
    assert notes["deployment.kubernetes.io/max-replicas"] == "7"


@pytest.mark.parametrize(
    ("case", "replicas", "want"),
    [
        ("the documentation's example", 15, {"app:1": 11, "app:bad": 7}),
        ("up: both grow in proportion", 20, {"app:1": 14, "app:bad": 9}),
        ("down: both shrink in proportion", 5, {"app:1": 5, "app:bad": 3}),
        ("to nothing", 0, {"app:1": 0, "app:bad": 0}),
    ],
)
def test_scaling_in_the_middle_of_a_rollout(case: str, replicas: int, want: dict[str, int]) -> None:
    world = World()
    world.apply(deployment(replicas=10, strategy=rolling(3, 2)))
    world.hold = ("app:bad",)
    roll_to(world, "app:bad")
    assert sizes(world) == {"app:1": 8, "app:bad": 5}
    world.patch(WEB, {"spec": {"paused": True, "replicas": replicas}})
    assert sizes(world) == want, case


def test_a_paused_deployment_does_not_roll_but_scales() -> None:
    world = World()
    world.apply(deployment(replicas=2))
    world.patch(WEB, {"spec": {"paused": True}})
    roll_to(world, "app:2")
    assert sizes(world) == {"app:1": 2}
    world.patch(WEB, {"spec": {"replicas": 3}})
    assert sizes(world) == {"app:1": 3}
    paused = world.condition(WEB, "Progressing")
    assert paused is not None
    assert (paused["status"], paused["reason"]) == ("Unknown", "DeploymentPaused")
    world.patch(WEB, {"spec": {"paused": False}})
    assert sizes(world) == {"app:1": 0, "app:2": 3}


def test_old_revisions_beyond_the_limit_are_deleted() -> None:
    world = World()
    world.apply(deployment(replicas=1, revisionHistoryLimit=2))
    for i in range(2, 7):
        world.advance(1)
        roll_to(world, f"app:{i}")
    assert sorted(sets(world)) == ["app:4", "app:5", "app:6"]


def test_the_history_and_the_way_back() -> None:
    world = World()
    first = deployment(replicas=1)
    first["metadata"]["annotations"] = {undoing.CHANGE_CAUSE: "first"}
    world.apply(first)
    world.patch(
        WEB,
        {
            "metadata": {"annotations": {undoing.CHANGE_CAUSE: "second"}},
            "spec": {"template": template("app:2", labels={"app": "web"})},
        },
    )
    assert undoing.history(world.store, world.get(WEB)) == [(1, "first"), (2, "second")]
    world.patch(WEB, list(undoing.undo(world.store, world.get(WEB)).patch), form="json")
    assert undoing.history(world.store, world.get(WEB)) == [(2, "second"), (3, "first")]
    assert sizes(world) == {"app:1": 1, "app:2": 0}


@pytest.mark.parametrize(
    ("case", "spec", "revision", "want", "want_error"),
    [
        ("a revision that is not there", {}, 7, "unable to find specified revision 7 in history", True),
        ("the current one", {}, 1, "skipped rollback (current template already matches revision 1)", False),
        ("nothing before", {}, 0, 'no rollout history found for deployment "web"', True),
        (
            "paused",
            {"paused": True},
            0,
            "you cannot rollback a paused deployment; resume it first with "
            "'kubectl rollout resume deployment/web' and try again",
            True,
        ),
    ],
)
def test_undo_that_does_nothing(
    case: str, spec: dict[str, Any], revision: int, want: str, want_error: bool
) -> None:
    world = World()
    world.apply(deployment(replicas=1))
    world.patch(WEB, {"spec": spec})
    undo = undoing.undo(world.store, world.get(WEB), revision)
    assert (undo.message, undo.is_error, undo.patch) == (want, want_error, ()), case


def test_min_ready_seconds_makes_available_later_than_ready() -> None:
    world = World()
    world.apply(deployment(replicas=1, minReadySeconds=30))
    assert world.status(WEB)["readyReplicas"] == 1
    assert "availableReplicas" not in world.status(WEB)
    world.advance(30)
    assert world.status(WEB)["availableReplicas"] == 1


def test_next_available_is_the_first_of_the_ready_pods() -> None:
    world = World()
    world.apply(deployment(replicas=2))
    assert next_available_us(world.pods(), 30, world.now_us) == world.now_us + 30 * SECOND_US
    assert next_available_us(world.pods(), 0, world.now_us) is None


def test_a_pod_that_dies_is_replaced() -> None:
    world = World()
    world.apply(deployment(replicas=2))
    before = names(world.pods())
    world.delete(pod_key(world.pods()[0]))
    after = names(world.pods())
    assert len(after) == 2
    assert before[1] in after


def test_a_failed_pod_does_not_count_and_is_replaced() -> None:
    world = World()
    world.apply(deployment(replicas=2))
    world.set_pod(world.pods()[0], phase="Failed", conditions=[])
    assert len(world.pods()) == 3
    assert world.status(WEB)["availableReplicas"] == 2


def test_pods_that_cannot_be_created_show_on_replica_set_and_deployment() -> None:
    world = World()
    world.refuse, world.refuse_after = 'pods "web-" is forbidden: exceeded quota: q', 1
    world.apply(deployment(replicas=2))
    one = sets(world)["app:1"]
    (failing,) = one["status"]["conditions"]
    assert (failing["type"], failing["reason"]) == ("ReplicaFailure", "FailedCreate")
    assert failing["message"] == world.refuse
    assert one["status"]["replicas"] == 1
    carried = world.condition(WEB, "ReplicaFailure")
    assert carried is not None
    assert carried["message"] == world.refuse
    assert world.told("FailedCreate")[0] == f"Error creating: {world.refuse}"
    world.refuse = ""
    world.advance(1100)
    assert world.condition(WEB, "ReplicaFailure") is None
    assert world.status(WEB)["replicas"] == 2


def test_deleting_a_deployment_takes_everything_with_it() -> None:
    world = World()
    world.apply(deployment(replicas=3))
    world.delete(WEB)
    assert world.pods() == []
    assert world.store.objects("ReplicaSet.apps") == []


def test_an_empty_selector_is_refused() -> None:
    world = World()
    world.apply(deployment(replicas=1, selector={}))
    want = "This deployment is selecting all pods. A non-empty selector is required."
    assert world.told("SelectingAll") == [want]


def test_a_template_defaulted_on_its_way_in_is_still_the_new_one() -> None:
    world = World()
    world.apply(deployment(replicas=1))
    one = sets(world)["app:1"]
    key = Key("ReplicaSet.apps", "default", one["metadata"]["name"])
    world.patch(key, {"spec": {"template": {"spec": {"dnsPolicy": "ClusterFirst"}}}})
    world.patch(WEB, {"spec": {"replicas": 2}})
    assert len(world.store.objects("ReplicaSet.apps")) == 1


# Which pods go first


def a_pod(name: str, node: str = "n1", *, phase: str = "Running", ready: int | None = 0, **more: Any) -> Obj:
    """`ready`: seconds since the pod became ready; None: it is not."""
    conditions = []
    if ready is not None:
        since = rfc3339(START_US - ready * SECOND_US)
        conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": since}]
    meta = {
        "name": name,
        "uid": name,
        "creationTimestamp": rfc3339(START_US - more.get("age", 1000) * SECOND_US),
    }
    if "cost" in more:
        meta["annotations"] = {"controller.kubernetes.io/pod-deletion-cost": more["cost"]}
    restarts = [{"name": "c", "restartCount": more.get("restarts", 0)}]
    return {
        "metadata": meta,
        "spec": {"nodeName": node, "containers": []},
        "status": {"phase": phase, "conditions": conditions, "containerStatuses": restarts},
    }


@pytest.mark.parametrize(
    ("case", "first", "second"),
    [
        ("not scheduled before scheduled", a_pod("b", ""), a_pod("a")),
        ("pending before running", a_pod("b", phase="Pending"), a_pod("a")),
        ("not ready before ready", a_pod("b", ready=None), a_pod("a")),
        ("cheaper to delete", a_pod("b", cost="-5"), a_pod("a")),
        ("a cost that is no number counts as zero", a_pod("a", cost="1.5"), a_pod("b", cost="1")),
        ("on the more crowded node", a_pod("b", "n2"), a_pod("a", "n1")),
        ("ready for less long, by powers of two", a_pod("b", ready=10), a_pod("a", ready=1000)),
        ("ready for about as long: by uid", a_pod("a", ready=600), a_pod("b", ready=700)),
        ("restarted more often", a_pod("b", restarts=3), a_pod("a")),
        ("younger", a_pod("b", ready=None, age=5), a_pod("a", ready=None, age=5000)),
    ],
)
def test_who_is_deleted_first(case: str, first: Obj, second: Obj) -> None:
    ranks = {"n1": 1, "n2": 3}
    for given in ([first, second], [second, first]):
        ordered = in_ranked_deletion_order(given, ranks, START_US)
        assert names(ordered) == names([first, second]), case


def test_scaling_down_relieves_the_crowded_node_first() -> None:
    world = World(nodes=2)
    world.apply(deployment(replicas=3))
    crowded = [p for p in world.pods() if p["spec"]["nodeName"] == "n1"]
    assert len(crowded) == 2
    world.patch(WEB, {"spec": {"replicas": 2}})
    assert sorted(p["spec"]["nodeName"] for p in world.pods()) == ["n1", "n2"]


# Adoption


def bare_pod(name: str, **labels: str) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"containers": [{"name": "c", "image": "app:1"}]},
    }


def replica_set(replicas: int) -> Obj:
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "rs", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "rs"}},
            "template": template("app:1", labels={"app": "rs"}),
        },
    }


def test_a_new_replica_set_adopts_what_matches() -> None:
    world = World()
    world.apply(bare_pod("one", app="rs"))
    key = world.apply(replica_set(2))
    assert len(world.pods_of(key)) == 2
    assert "one" in names(world.pods_of(key))


def test_a_bare_pod_that_matches_is_adopted_and_may_be_one_too_many() -> None:
    world = World(nodes=0)
    key = world.apply(replica_set(1))
    world.apply(bare_pod("stray", app="rs"))
    assert len(world.pods()) == 1
    assert len(world.pods_of(key)) == 1


def test_a_pod_whose_labels_no_longer_match_is_let_go_and_replaced() -> None:
    world = World()
    key = world.apply(replica_set(1))
    (pod,) = world.pods_of(key)
    world.patch(pod_key(pod), {"metadata": {"labels": {"app": "quarantined"}}})
    assert len(world.pods()) == 2
    assert "ownerReferences" not in world.get(pod_key(pod))["metadata"]
    assert len(world.pods_of(key)) == 1


def test_a_deployment_adopts_a_replica_set_left_behind() -> None:
    world = World()
    world.apply(deployment(replicas=2))
    before = names(world.pods())
    world.delete(WEB, "Orphan")
    assert names(world.pods()) == before
    world.apply(deployment(replicas=2))
    assert names(world.pods()) == before, "the same pods serve on"
