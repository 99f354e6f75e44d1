"""Boundaries, defaults and what is kept: rules of several controllers, each asked directly."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from tinyworld import START_US, World, deployment, template

from fairway.cluster.actions import Create, Delete, Emit, Patch, SetStatus
from fairway.cluster.changes import ADDED, DELETED, MODIFIED, Change
from fairway.cluster.store import Store
from fairway.kube.cron import parse
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import SECOND_US, rfc3339
from fairway.workloads import adoption, claims, podgroups, podwebhooks
from fairway.workloads.cronjob import decide as cronjob
from fairway.workloads.cronjob import missed
from fairway.workloads.deployment import revisions, rolling, rollout, scaling, sets
from fairway.workloads.disruption import budget as budgets
from fairway.workloads.disruption.eviction import evict
from fairway.workloads.job import backoff
from fairway.workloads.job import decide as jobs
from fairway.workloads.podtemplate import fresh_names
from fairway.workloads.statefulset import storage

NOW = START_US


def at(seconds: int) -> str:
    return rfc3339(NOW + seconds * SECOND_US)


def pod(name: str = "p", phase: str = "Running", *, ready: bool = True, **meta: Any) -> Obj:
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", **meta},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
        "status": {"phase": phase, "conditions": conditions},
    }


def put(store: Store, obj: Obj) -> Obj:
    """Created, with its status."""
    made = store.create(obj)
    group = obj["apiVersion"].rpartition("/")[0]
    gk = f"{obj['kind']}.{group}" if group else obj["kind"]
    key = Key(gk, made["metadata"].get("namespace", ""), made["metadata"]["name"])
    if "status" in obj:
        store.set_status(key, obj["status"])
    return store.require(key)


# PodGroups of scheduler-plugins.


def group(least: int, **status: Any) -> Obj:
    meta = {"name": "g", "namespace": "default"}
    api = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup"}
    return {**api, "metadata": meta, "spec": {"minMember": least}, "status": status}


GROUP = Key("PodGroup.scheduling.x-k8s.io", "default", "g")


def test_phases_of_a_pod_group() -> None:
    """Every phase, size and mix of up to three pods."""
    for least, count in product((1, 2), (0, 1, 2, 3)):
        for phases in {
            tuple(sorted(p)) for p in product(("Pending", "Running", "Succeeded", "Failed"), repeat=count)
        }:
            for phase in ("", "Pending", "Scheduling", "Running", "Finished", "Failed"):
                store = Store()
                put(store, group(least, phase=phase, occupiedBy="x", running=9, succeeded=9, failed=9))
                for i, one in enumerate(phases):
                    put(store, pod(f"p{i}", one, labels={podgroups.POD_GROUP_LABEL: "g"}))
                put(store, pod("other", labels={podgroups.POD_GROUP_LABEL: "another"}))
                look = podgroups.reconcile(store, GROUP, NOW)
                written = [a.status for a in look.actions if isinstance(a, SetStatus)]
                counts = {
                    n: phases.count(p)
                    for n, p in (("running", "Running"), ("succeeded", "Succeeded"), ("failed", "Failed"))
                }
                if phase in ("Finished", "Failed"):
                    assert not written
                    continue
                kept = {"occupiedBy": "x", "running": 9, "succeeded": 9, "failed": 9}
                if not phase:
                    want = {**kept, "phase": "Pending"}
                elif phase == "Pending":
                    want = {**kept, "phase": "Scheduling" if count >= least else "Pending"}
                else:
                    done, run, bad = counts["succeeded"], counts["running"], counts["failed"]
                    if count < least:
                        new = "Pending"
                    elif done >= least:
                        new = "Finished"
                    elif bad and bad + run + done >= least:
                        new = "Failed"
                    else:
                        new = "Running" if done + run >= least else "Scheduling"
                    want = {"occupiedBy": "x", "phase": new, **{n: c for n, c in counts.items() if c}}
                before = {**kept, "phase": phase}
                assert written == ([] if want == before else [want]), (least, phases, phase)


def test_a_pod_group_is_occupied_by_the_owners_of_its_first_pod() -> None:
    store = Store()
    put(store, group(1, phase="Pending"))
    owners = [{"kind": "Job", "name": n, "uid": n, "apiVersion": "batch/v1"} for n in ("b", "a")]
    put(store, pod("p0", labels={podgroups.POD_GROUP_LABEL: "g"}, ownerReferences=owners))
    look = podgroups.reconcile(store, GROUP, NOW)
    assert [a.status for a in look.actions if isinstance(a, SetStatus)] == [
        {"phase": "Scheduling", "occupiedBy": "default/a,default/b"}
    ]
    assert podgroups.reconcile(store, GROUP._replace(name="x"), NOW).actions == ()


def test_who_looks_at_a_pod_group() -> None:
    def keys(obj: Obj, gk: str, type_: str = ADDED) -> Any:
        key = Key(gk, "default", obj["metadata"]["name"])
        return podgroups.changed_keys(Store(), Change(1, type_, key, obj, None))

    assert keys(group(1), GROUP.gk) == (GROUP,)
    assert not keys(group(1), GROUP.gk, DELETED)
    assert keys(pod(labels={podgroups.POD_GROUP_LABEL: "g"}), "Pod", DELETED) == (GROUP,)
    assert not keys(pod(), "Pod")


# JobSet's webhook for pods with a domain of their own.

TOPOLOGY = "rack"


def of_jobset(index: str, **fields: Any) -> Obj:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "job-uid", "controller": True}
    labels = {podwebhooks.JOBSET_NAME: "js", podwebhooks.JOB_KEY: "key"}
    annotations = {
        podwebhooks.JOBSET_NAME: "js",
        podwebhooks.EXCLUSIVE: TOPOLOGY,
        podwebhooks.COMPLETION_INDEX: index,
    }
    made = pod(f"p-{index}", labels=labels, annotations=annotations, ownerReferences=[owner])
    made["spec"].update(fields)
    return made


def test_the_leader_of_an_exclusive_job_keeps_others_out() -> None:
    made: Any = podwebhooks.entered(Store(), of_jobset("0", priority=7))
    given = of_jobset("0", priority=7)["metadata"]
    assert made["metadata"] == {**given, "labels": {**given["labels"], podwebhooks.PRIORITY: "7"}}
    assert {**made, "metadata": given, "spec": {}} == {**of_jobset("0"), "metadata": given, "spec": {}}
    affinity = made["spec"]["affinity"]
    here = affinity["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    others = affinity["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    mine = [{"key": podwebhooks.JOB_KEY, "operator": "In", "values": ["key"]}]
    assert here == [
        {"labelSelector": {"matchExpressions": mine}, "topologyKey": TOPOLOGY, "namespaceSelector": {}}
    ]
    assert others[0]["labelSelector"]["matchExpressions"] == [
        {"key": podwebhooks.JOB_KEY, "operator": "Exists"},
        {"key": podwebhooks.JOB_KEY, "operator": "NotIn", "values": ["key"]},
        {"key": podwebhooks.PRIORITY, "operator": "In", "values": ["7"]},
    ]


@pytest.mark.parametrize(
    ("leader", "node", "want"),
    [
        (None, "n1", "follower pod node selector not set"),
        ({"nodeName": ""}, "n1", "follower pod node selector not set"),
        ({"nodeName": "n1", "phase": "Failed"}, "n1", "follower pod node selector not set"),
        ({"nodeName": "n1", "index": "2"}, "n1", "follower pod node selector not set"),
        ({"nodeName": "n2"}, "n1", "node does not have topology label: rack"),
        ({"nodeName": "n3"}, "n1", "node does not have topology label: rack"),
        ({"nodeName": "n1"}, "n1", None),
    ],
)
def test_followers_wait_for_their_leader_and_share_its_domain(
    leader: Any, node: str, want: str | None
) -> None:
    store = Store()
    store.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": {TOPOLOGY: "r7"}}})
    store.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n2"}})
    if leader is not None:
        made = of_jobset(leader.get("index", "0"), nodeName=leader["nodeName"])
        made["status"]["phase"] = leader.get("phase", "Running")
        put(store, made)
    follower = of_jobset("1", nodeSelector={"gpu": "yes"})
    entered: Any = podwebhooks.entered(store, follower)
    if want is not None:
        assert entered == f'admission webhook "vpod.kb.io" denied the request: {want}'
    else:
        assert entered["spec"]["nodeSelector"] == {"gpu": "yes", TOPOLOGY: "r7"}


def test_a_follower_of_nobody_has_no_leader() -> None:
    follower = of_jobset("1")
    del follower["metadata"]["ownerReferences"]
    want = 'admission webhook "vpod.kb.io" denied the request: follower pod node selector not set'
    assert podwebhooks.entered(Store(), follower) == want


def test_pods_that_the_webhook_leaves_alone() -> None:
    follower = of_jobset("1")
    for annotation, value in (
        (podwebhooks.NODE_SELECTOR_STRATEGY, "true"),
        (podwebhooks.JOBSET_NAME, None),
        (podwebhooks.EXCLUSIVE, None),
    ):
        other = of_jobset("1")
        if value is None:
            del other["metadata"]["annotations"][annotation]
        else:
            other["metadata"]["annotations"][annotation] = value
        assert podwebhooks.entered(Store(), other) is other
    assert podwebhooks.entered(Store(), follower, without=("jobset",)) is follower


# Budgets.


def a_budget(status: Obj | None = None, **spec: Any) -> Obj:
    selector = {"matchLabels": {"app": "a"}}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"selector": selector, **spec},
        "status": status or {},
    }


PDB = Key(budgets.PDB, "default", "b")


def test_an_evicted_pod_counts_as_gone_until_its_deletion_should_have_been_seen() -> None:
    for age, is_kept in ((0, True), (120, True), (121, False)):
        store = Store(now_us=NOW)
        for name in ("p1", "p2"):
            put(store, pod(name, labels={"app": "a"}))
        noted = {"p1": at(-age), "gone": at(0)}
        put(store, a_budget({"disruptedPods": noted}, minAvailable=1))
        look = budgets.reconcile(store, PDB, NOW)
        status = next(a.status for a in look.actions if isinstance(a, SetStatus))
        assert status.get("disruptedPods", {}) == ({"p1": at(-age)} if is_kept else {})
        assert status["currentHealthy"] == (1 if is_kept else 2)
        assert status["disruptionsAllowed"] == (0 if is_kept else 1)
        assert look.again_at_us == (NOW + (121 - age) * SECOND_US if is_kept else None)


def test_the_first_of_several_evictions_is_given_up_first() -> None:
    store = Store(now_us=NOW)
    for name in ("p1", "p2", "p3"):
        put(store, pod(name, labels={"app": "a"}))
    put(store, a_budget({"disruptedPods": {"p1": at(-10), "p2": at(-30), "p3": at(-20)}}, minAvailable=1))
    assert budgets.reconcile(store, PDB, NOW).again_at_us == NOW + (121 - 30) * SECOND_US


@pytest.mark.parametrize(
    ("spec", "pods", "want"),
    [
        ({"minAvailable": 2}, 3, (3, 2, 1)),
        ({"minAvailable": 3}, 3, (3, 3, 0)),
        ({"minAvailable": 4}, 3, (3, 4, 0)),
        ({"minAvailable": 0}, 3, (3, 0, 3)),
        ({"minAvailable": 0}, 0, (0, 0, 0)),
        ({}, 3, (0, 0, 0)),
    ],
)
def test_how_many_may_go(spec: Obj, pods: int, want: tuple[int, int, int]) -> None:
    store = Store(now_us=NOW)
    for i in range(pods):
        put(store, pod(f"p{i}", labels={"app": "a"}))
    put(store, pod("elsewhere", labels={"app": "b"}))
    put(store, a_budget(**spec))
    look = budgets.reconcile(store, PDB, NOW)
    status = next(a.status for a in look.actions if isinstance(a, SetStatus))
    assert tuple(status[f] for f in ("expectedPods", "desiredHealthy", "disruptionsAllowed")) == want
    assert [a.reason for a in look.actions if isinstance(a, Emit)] == ([] if pods else ["NoPods"])


def replica_set(replicas: int | None, name: str = "r", **meta: Any) -> Obj:
    spec: Obj = {"selector": {"matchLabels": {"app": "a"}}, "template": template(labels={"app": "a"})}
    if replicas is not None:
        spec["replicas"] = replicas
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name, "namespace": "default", **meta},
        "spec": spec,
    }


def owned(owner: Obj) -> list[Obj]:
    meta = owner["metadata"]
    ref = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta["name"], "uid": meta["uid"]}
    return [{**ref, "controller": True}]


@pytest.mark.parametrize(
    ("spec", "want"),
    [({"maxUnavailable": "50%"}, (5, 2)), ({"minAvailable": "50%"}, (5, 3)), ({"maxUnavailable": 9}, (5, 0))],
)
def test_shares_are_of_what_the_owners_ask_for(spec: Obj, want: tuple[int, int]) -> None:
    """Each owner counts once; pods without one, or whose owner is gone, count nothing."""
    store = Store(now_us=NOW)
    first, second = put(store, replica_set(4)), put(store, replica_set(None, "s"))
    gone = [{**owned(first)[0], "name": "gone", "uid": "x"}]
    replaced = [{**owned(first)[0], "uid": "another"}]
    for i, refs in enumerate((owned(first), owned(first), owned(second), gone, replaced)):
        put(store, pod(f"p{i}", labels={"app": "a"}, ownerReferences=refs))
    put(store, pod("bare", labels={"app": "a"}))
    put(store, a_budget(**spec))
    look = budgets.reconcile(store, PDB, NOW)
    status = next(a.status for a in look.actions if isinstance(a, SetStatus))
    assert (status["expectedPods"], status["desiredHealthy"]) == want
    assert [a.reason for a in look.actions if isinstance(a, Emit)] == ["UnmanagedPods"]


def test_owners_without_a_size_stop_evictions() -> None:
    store = Store(now_us=NOW)
    job = put(
        store,
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "j", "namespace": "default"},
            "spec": {"template": template()},
        },
    )
    put(store, pod("p", labels={"app": "a"}, ownerReferences=owned(job)))
    put(store, a_budget({"currentHealthy": 3, "disruptionsAllowed": 2}, maxUnavailable=1))
    look = budgets.reconcile(store, PDB, NOW)
    status = next(a.status for a in look.actions if isinstance(a, SetStatus))
    why = "jobs.batch does not implement the scale subresource"
    assert status["conditions"][0] == {
        "type": "DisruptionAllowed",
        "status": "False",
        "observedGeneration": 1,
        "lastTransitionTime": at(0),
        "reason": "SyncFailed",
        "message": why,
    }
    numbers = ("currentHealthy", "desiredHealthy", "expectedPods", "disruptionsAllowed")
    assert [status[f] for f in numbers] == [3, 0, 0, 0]
    store.set_status(PDB, status)
    assert budgets.reconcile(store, PDB, NOW).actions == (), "it is said once"
    asked = evict(store, Key("Pod", "default", "p"), NOW)
    assert (
        asked.cause
        == f"The disruption budget b does not allow evicting pods currently because it failed sync: {why}"
    )


@pytest.mark.parametrize(
    ("api_version", "kind", "resource"),
    [
        ("v1", "ConfigMap", "configmaps"),
        ("batch/v1", "CronJob", "cronjobs.batch"),
        ("x.dev/v1", "Thing", "things.x.dev"),
    ],
)
def test_owners_without_a_size_by_their_resource(api_version: str, kind: str, resource: str) -> None:
    store = Store(now_us=NOW)
    meta = {"name": "o", "namespace": "default"}
    owner = put(store, {"apiVersion": api_version, "kind": kind, "metadata": meta, "spec": {}})
    put(store, pod("p", labels={"app": "a"}, ownerReferences=owned(owner)))
    put(store, a_budget(maxUnavailable=1))
    look = budgets.reconcile(store, PDB, NOW)
    status = next(a.status for a in look.actions if isinstance(a, SetStatus))
    assert status["conditions"][0]["message"] == f"{resource} does not implement the scale subresource"


READY = {"observedGeneration": 1, "currentHealthy": 2, "desiredHealthy": 1, "disruptionsAllowed": 1}


@pytest.mark.parametrize(
    ("status", "fields", "code", "said"),
    [
        (READY, {}, 201, ""),
        ({**READY, "disruptionsAllowed": 2}, {}, 201, ""),
        (
            {**READY, "observedGeneration": 0},
            {},
            429,
            "The disruption budget b is still being processed by the server.",
        ),
        (
            {**READY, "disruptionsAllowed": 0},
            {},
            429,
            "The disruption budget b needs 1 healthy pods and has 2 currently",
        ),
        (
            {**READY, "disruptionsAllowed": -1},
            {},
            403,
            'poddisruptionbudgets.policy "b" is forbidden: pdb disruptions allowed is negative',
        ),
        (
            {**READY, "disruptedPods": {f"x{i}": "t" for i in range(2001)}},
            {},
            403,
            'poddisruptionbudgets.policy "b" is forbidden: '
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
        ),
        ({**READY, "disruptedPods": {f"x{i}": "t" for i in range(2000)}}, {}, 201, ""),
        ({**READY, "disruptionsAllowed": 0}, {"phase": "Succeeded"}, 201, ""),
        ({**READY, "disruptionsAllowed": 0}, {"phase": "Pending"}, 201, ""),
        ({**READY, "disruptionsAllowed": 0}, {"ready": False}, 201, ""),
        ({**READY, "disruptionsAllowed": 0, "currentHealthy": 1}, {"ready": False}, 201, ""),
        (
            {**READY, "disruptionsAllowed": 0, "currentHealthy": 0},
            {"ready": False},
            429,
            "The disruption budget b needs 1 healthy pods and has 0 currently",
        ),
        (
            {**READY, "disruptionsAllowed": 0, "desiredHealthy": 0},
            {"ready": False},
            429,
            "The disruption budget b needs 0 healthy pods and has 2 currently",
        ),
        (
            {**READY, "disruptionsAllowed": 0, "currentHealthy": 0},
            {"ready": False, "policy": "AlwaysAllow"},
            201,
            "",
        ),
        (
            {**READY, "disruptionsAllowed": 0},
            {"policy": "AlwaysAllow"},
            429,
            "The disruption budget b needs 1 healthy pods and has 2 currently",
        ),
    ],
)
def test_may_this_pod_be_evicted(status: Obj, fields: Obj, code: int, said: str) -> None:
    store = Store(now_us=NOW)
    spec = {"unhealthyPodEvictionPolicy": fields["policy"]} if "policy" in fields else {}
    put(store, pod("p", fields.get("phase", "Running"), ready=fields.get("ready", True), labels={"app": "a"}))
    put(store, a_budget(status, minAvailable=1, **spec))
    asked = evict(store, Key("Pod", "default", "p"), NOW, grace_s=7)
    assert (asked.code, asked.cause or asked.message) == (code, said)
    assert asked.retry_after_s == (10 if "processed" in said else 0)
    if code != 201:
        assert not asked.actions
        return
    deletions = [a for a in asked.actions if isinstance(a, Delete)]
    assert [(d.key.name, d.grace_s) for d in deletions] == [("p", 7)]
    written = {a.key.gk: a.status for a in asked.actions if isinstance(a, SetStatus)}
    marked = [c for c in written.get("Pod", {}).get("conditions", ()) if c["type"] == "DisruptionTarget"]
    assert [c["reason"] for c in marked] == (
        [] if fields.get("phase") == "Succeeded" else ["EvictionByEvictionAPI"]
    )
    spends = not fields
    assert (budgets.PDB in written) == spends
    if spends:
        left = written[budgets.PDB]
        assert left["disruptionsAllowed"] == status["disruptionsAllowed"] - 1
        assert left["disruptedPods"]["p"] == at(0)
        assert len(left["disruptedPods"]) == 1 + len(status.get("disruptedPods") or {})
        assert bool(left.get("conditions")) == (left["disruptionsAllowed"] == 0)


def test_several_budgets_are_not_supported_and_none_is_free() -> None:
    store = Store(now_us=NOW)
    put(store, pod("p", labels={"app": "a"}))
    key = Key("Pod", "default", "p")
    assert evict(store, key, NOW).code == 201
    put(store, a_budget(READY, minAvailable=1))
    second = a_budget(READY, minAvailable=1)
    second["metadata"]["name"] = "c"
    put(store, second)
    assert (evict(store, key, NOW).code, evict(store, key._replace(name="x"), NOW).code) == (500, 404)


# Deployments.


def test_a_deployment_that_is_going_only_counts() -> None:
    world = World()
    key = world.apply(deployment(replicas=2))
    world.store.patch(key, {"metadata": {"finalizers": ["x/y"]}})
    world.store.delete(key)
    world.store.patch(key, {"spec": {"replicas": 5}})
    look = rollout.reconcile(world.store, key, world.now_us)
    assert {type(a) for a in look.actions} <= {SetStatus}
    world.store.set_status(key, {})
    look = rollout.reconcile(world.store, key, world.now_us)
    assert [a.status["replicas"] for a in look.actions if isinstance(a, SetStatus)] == [2]
    assert look.again_at_us is None


@pytest.mark.parametrize("deadline", [600, 2**31 - 1])
def test_a_replica_set_that_is_refused_is_told_and_tried_again(deadline: int) -> None:
    store = Store(now_us=NOW)
    store.create(deployment(progressDeadlineSeconds=deadline))
    key = Key("Deployment.apps", "default", "web")
    look = rollout.refused(store, key, NOW, "no room")
    assert look.again_at_us == NOW + 60 * SECOND_US
    told = [a for a in look.actions if isinstance(a, Emit)]
    assert told[0].reason == "ReplicaSetCreateError"
    assert told[0].message.startswith('Failed to create new replica set "web-')
    assert told[0].message.endswith('": no room')
    conditions = [a.status["conditions"][0] for a in look.actions if isinstance(a, SetStatus)]
    assert [(c["status"], c["reason"]) for c in conditions] == (
        [("False", "ReplicaSetCreateError")] if deadline == 600 else []
    )
    assert rollout.refused(store, key._replace(name="x"), NOW, "no").actions == ()


def made_set(name: str, replicas: int, available: int, age: int = 0, **annotations: str) -> sets.Sized:
    meta = {"name": name, "creationTimestamp": at(age), "annotations": annotations}
    obj = {"metadata": meta, "spec": {"replicas": replicas}, "status": {"availableReplicas": available}}
    return sets.sized(obj)


def plan(
    new: sets.Sized | None, *old: sets.Sized, replicas: int, surge: int = 1, unavailable: int = 0, **spec: Any
) -> sets.Rollout:
    strategy = {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
    obj = deployment(replicas=replicas, strategy=strategy, **spec)
    key = Key("Deployment.apps", "default", "web")
    return sets.Rollout(key, obj, sets.wishes_of(obj), old=list(old), new=new)


def sizes(one: sets.Rollout) -> dict[str, int]:
    return {s.name: s.replicas for s in one.everything}


def test_a_rolling_update_keeps_its_promises_in_every_small_world() -> None:
    """No more than replicas + maxSurge; nothing that is available goes beyond what may be unavailable."""
    for replicas, surge, unavailable in product((1, 2, 3), (0, 1, 2), (0, 1)):
        if not surge and not unavailable:
            continue
        for new_size, first, second in product(range(4), range(4), range(3)):
            for ready in product(range(new_size + 1), range(first + 1), range(second + 1)):
                new = made_set("new", new_size, ready[0], 9)
                one = plan(
                    new,
                    made_set("a", first, ready[1], 1),
                    made_set("b", second, ready[2], 2),
                    replicas=replicas,
                    surge=surge,
                    unavailable=unavailable,
                )
                before, ready_before = sizes(one), sum(ready)
                grown = rolling.scale_new(one, new)
                most = one.wishes.max_replicas
                total = sum(before.values())
                if new_size > replicas:
                    want = replicas
                elif new_size < replicas and total < most:
                    want = new_size + min(most - total, replicas - new_size)
                else:
                    want = new_size
                assert (new.replicas, grown) == (want, want != new_size)
                if grown:
                    continue
                shrunk = rolling.scale_old(one, new)
                after = sizes(one)
                assert shrunk == (after != before)
                least = one.wishes.min_available
                spare = total - least - (new_size - min(ready[0], new_size))
                assert before["a"] + before["b"] - after["a"] - after["b"] <= max(spare, 0)
                # Unavailable ones go first, the older set's before the younger's.
                unready = (first - ready[1], second - ready[2])
                room = max(spare, 0) if first + second else 0
                gone_a = min(unready[0], room)
                gone_b = min(unready[1], room - gone_a)
                left = max(ready_before - least, 0) if room else 0
                more_a = min(first - gone_a, left)
                more_b = min(second - gone_b, left - more_a)
                assert (after["a"], after["b"]) == (first - gone_a - more_a, second - gone_b - more_b), (
                    before,
                    ready,
                    replicas,
                    surge,
                    unavailable,
                )


def test_a_change_of_size_is_shared_out_in_proportion() -> None:
    """From 10 (3 surging) to 20: the documentation's example of Kubernetes, and the way back."""
    marks = {sets.DESIRED_REPLICAS: "10", sets.MAX_REPLICAS: "13"}
    one = plan(made_set("new", 5, 5, 9, **marks), made_set("old", 8, 8, 1, **marks), replicas=15, surge=3)
    assert scaling.is_scaling_event(one)
    scaling.share_out(one)
    assert sizes(one) == {"old": 11, "new": 7}
    assert not scaling.is_scaling_event(one)
    marks = {sets.DESIRED_REPLICAS: "15", sets.MAX_REPLICAS: "18"}
    back = plan(made_set("new", 7, 7, 9, **marks), made_set("old", 11, 11, 1, **marks), replicas=10, surge=3)
    scaling.share_out(back)
    assert sizes(back) == {"old": 8, "new": 5}


def test_what_is_shared_out_adds_up() -> None:
    for first, second, replicas, before in product(range(1, 5), range(1, 5), (0, 1, 3, 8), (2, 4, 6)):
        if first + second > before + 1:
            continue
        marks = {sets.DESIRED_REPLICAS: str(before), sets.MAX_REPLICAS: str(before + 1)}
        one = plan(
            made_set("new", first, 0, 9, **marks), made_set("old", second, 0, 1, **marks), replicas=replicas
        )
        scaling.share_out(one)
        assert sum(sizes(one).values()) == (replicas + 1 if replicas else 0), (
            first,
            second,
            replicas,
            before,
        )


@pytest.mark.parametrize(
    ("new", "old", "want"),
    [
        (made_set("new", 2, 2, 9), [], {"new": 3}),
        (made_set("new", 0, 0, 9), [made_set("old", 2, 2, 1)], {"new": 0, "old": 3}),
        (made_set("new", 0, 0, 9), [made_set("old", 0, 0, 1)], {"new": 3, "old": 0}),
        (None, [made_set("older", 0, 0, 1), made_set("old", 0, 0, 2)], {"older": 0, "old": 3}),
        (
            made_set("new", 3, 3, 9, **{sets.DESIRED_REPLICAS: "3"}),
            [made_set("old", 2, 2, 1)],
            {"new": 3, "old": 0},
        ),
    ],
)
def test_who_is_scaled_alone(new: Any, old: list[Any], want: dict[str, int]) -> None:
    one = plan(new, *old, replicas=3)
    scaling.share_out(one)
    assert sizes(one) == want


# Per ReplicaSet: its pods, available ones, and what it remembers of the size before (maximum, wanted); `new` and two
# older ones. Worked out by the rules of sync.go (scale) and GetReplicaSetProportion.
Had = tuple[int, int, int | None, int | None]
SHARES: list[tuple[int, int, int | None, Had | None, list[Had], dict[str, int]]] = [
    (9, 2, None, None, [(4, 0, 0, 4), (1, 1, 4, 4)], {"a": 8, "b": 3}),
    (0, 2, 1, (3, 2, None, None), [(2, 1, 4, 4)], {"a": 0, "new": 0}),
    (9, 2, None, (3, 2, 1, 3), [(4, 0, None, None), (3, 3, 1, None)], {"a": 4, "b": 3, "new": 4}),
    (2, 1, 0, None, [(0, 0, 4, 3), (0, 0, 1, 3)], {"a": 0, "b": 2}),
    (2, 2, 0, (2, 2, 1, 2), [(1, 1, None, 2), (3, 2, 6, 3)], {"a": 0, "b": 0, "new": 2}),
    (3, 3, 4, (3, 3, 6, 4), [], {"new": 3}),
    (2, 2, None, (2, 1, 8, 2), [(5, 2, 1, None)], {"a": 3, "new": 1}),
    (4, 1, None, (0, 0, 5, None), [], {"new": 4}),
    (4, 1, 4, (2, 1, 1, 4), [(3, 3, None, 4)], {"a": 3, "new": 2}),
]


@pytest.mark.parametrize(("replicas", "surge", "there", "new", "old", "want"), SHARES)
def test_each_gets_its_share_of_what_it_had(
    replicas: int, surge: int, there: int | None, new: Had | None, old: list[Had], want: dict[str, int]
) -> None:
    def made(name: str, had: Had, age: int) -> sets.Sized:
        marks = {sets.MAX_REPLICAS: had[2], sets.DESIRED_REPLICAS: had[3]}
        return made_set(name, had[0], had[1], age, **{k: str(v) for k, v in marks.items() if v is not None})

    older = [made(name, had, age) for name, had, age in zip("ab", old, (1, 2), strict=False)]
    one = plan(made("new", new, 9) if new else None, *older, replicas=replicas, surge=surge)
    if there is not None:
        one.deployment["status"] = {"replicas": there}
    scaling.share_out(one)
    assert sizes(one) == want


@pytest.mark.parametrize(
    ("new", "old", "want"),
    [
        ((3, "3"), (2, "3"), False),
        ((3, "3"), (2, "4"), True),
        ((3, "2"), (2, "3"), True),
        ((3, "3"), (0, "4"), False),
        ((3, None), (2, "3"), False),
        ((3, None), (2, "4"), True),
        ((3, "many"), (2, "3"), False),
    ],
)
def test_another_size_is_one_that_pods_still_go_by(new: Any, old: Any, want: bool) -> None:
    def made(name: str, had: tuple[int, str | None]) -> sets.Sized:
        return made_set(name, had[0], 0, 1, **({sets.DESIRED_REPLICAS: had[1]} if had[1] else {}))

    assert scaling.is_scaling_event(plan(made("new", new), made("old", old), replicas=3)) is want


def test_a_size_that_fits_is_remembered() -> None:
    one = plan(made_set("new", 3, 3, 9, **{sets.DESIRED_REPLICAS: "2", sets.MAX_REPLICAS: "3"}), replicas=3)
    scaling.share_out(one)
    assert sizes(one) == {"new": 3}
    assert not scaling.is_scaling_event(one)


def test_recreate_never_runs_two_versions() -> None:
    one = plan(None, made_set("a", 2, 2), made_set("b", 0, 0), replicas=2)
    assert rolling.stop_old(one)
    assert sizes(one) == {"a": 0, "b": 0}
    assert not rolling.stop_old(one)


def test_a_name_that_is_taken_counts_as_a_collision() -> None:
    store = Store()
    obj = store.create(deployment(minReadySeconds=5))
    one = sets.Rollout(Key("Deployment.apps", "default", "web"), obj, sets.wishes_of(obj), old=[])
    first, none = revisions.new_born(store, one)
    assert none == 0
    assert first.obj["spec"]["minReadySeconds"] == 5
    store.create(replica_set(0, first.name))
    second, once = revisions.new_born(store, one)
    assert once == 1
    assert second.name != first.name


def test_revisions_go_up_and_a_rollback_keeps_its_numbers() -> None:
    def numbered(of_old: str, of_new: str | None, history: str = "") -> dict[str, str]:
        own = {} if of_new is None else {sets.REVISION: of_new}
        if history:
            own[sets.REVISION_HISTORY] = history
        new = made_set("new", 1, 1, 9, **own)
        one = plan(new, made_set("old", 1, 1, 1, **{sets.REVISION: of_old}), replicas=1)
        revisions.annotate_new(one, new)
        return {k: v for k, v in new.annotations.items() if "revision" in k}

    assert numbered("3", None) == {sets.REVISION: "4"}
    assert numbered("3", "4") == {sets.REVISION: "4"}
    assert numbered("3", "2") == {sets.REVISION: "4", sets.REVISION_HISTORY: "2"}
    assert numbered("3", "2", "1") == {sets.REVISION: "4", sets.REVISION_HISTORY: "1,2"}
    long = ",".join(["10"] * 666)  # 1,997 letters; with one more number exactly 2,000
    assert numbered("30", "20", long)[sets.REVISION_HISTORY] == f"{long},20"
    assert numbered("300", "200", long)[sets.REVISION_HISTORY] == f"{long[3:]},200"


# Jobs: when a failed pod may be replaced.


@pytest.mark.parametrize(
    ("failures", "wait"), [(0, None), (1, 10), (2, 20), (6, 320), (7, 600), (8, 600), (99, 600)]
)
def test_the_wait_doubles_up_to_ten_minutes(failures: int, wait: int | None) -> None:
    want = 0 if wait is None else NOW + wait * SECOND_US
    assert backoff.wait_until_us(backoff.Failures(failures, NOW)) == want


def ended(name: str, seconds: int) -> Obj:
    made = pod(name, "Failed", creationTimestamp=at(-999))
    terminated = {"finishedAt": at(seconds), "exitCode": 1}
    made["status"]["containerStatuses"] = [{"name": "c", "state": {"terminated": terminated}}]
    return made


def test_failures_count_since_the_last_success() -> None:
    count = backoff.since_last_success
    assert count([], [], None) == backoff.NO_FAILURES
    assert count([], [ended("a", 1), ended("b", 3), ended("c", 2)], None) == (3, NOW + 3 * SECOND_US)
    done = [ended("s", 2), ended("t", 1)]
    assert count(done, [ended("a", 1), ended("b", 3), ended("c", 2)], None) == (1, NOW + 3 * SECOND_US)
    assert count([], [ended("a", 1)], f"2/{at(5)}") == (3, NOW + 5 * SECOND_US)
    assert count([], [ended("a", 7)], f"2/{at(5)}") == (3, NOW + 7 * SECOND_US)
    assert count([ended("s", 5)], [], f"2/{at(5)}") == backoff.NO_FAILURES
    assert count([], [], "nonsense") == backoff.NO_FAILURES
    assert backoff.extended_record(None, [ended("a", 1)], []) == f"1/{at(1)}"
    assert backoff.extended_record(f"2/{at(5)}", [ended("a", 1)], [NOW]) == f"3/{at(5)}"
    assert backoff.extended_record(f"2/{at(5)}", [ended("a", 1)], []) == f"3/{at(5)}"
    since = [NOW, NOW + 6 * SECOND_US]
    assert backoff.extended_record(f"2/{at(5)}", [ended("a", 9)], since) == f"1/{at(9)}"
    assert backoff.extended_record(f"2/{at(5)}", [ended("a", 9)], [NOW + 5 * SECOND_US]) == f"1/{at(9)}"


def test_when_a_pod_ended() -> None:
    made = ended("a", 5)
    assert backoff.finished_us(made) == NOW + 5 * SECOND_US
    made["spec"]["initContainers"] = [{"name": "log", "restartPolicy": "Always"}, {"name": "setup"}]
    late, early = {"finishedAt": at(9)}, {"finishedAt": at(7)}
    made["status"]["initContainerStatuses"] = [
        {"name": "setup", "state": {"terminated": late}},
        {"name": "log", "state": {"terminated": early}},
    ]
    assert backoff.finished_us(made) == NOW + 7 * SECOND_US, "sidecars count, other init containers do not"
    made["status"]["initContainerStatuses"][1]["state"] = {"running": {}}
    made["status"]["conditions"] = [{"type": "Ready", "status": "False", "lastTransitionTime": at(3)}]
    assert backoff.finished_us(made) == NOW + 3 * SECOND_US
    made["status"]["conditions"][0]["status"] = "True"
    made["metadata"] |= {"deletionTimestamp": at(40), "deletionGracePeriodSeconds": 30}
    assert backoff.finished_us(made) == NOW + 10 * SECOND_US
    del made["metadata"]["deletionTimestamp"]
    assert backoff.finished_us(made) == NOW - 999 * SECOND_US


# CronJobs.


def cron(**spec: Any) -> Obj:
    body = {
        "schedule": "* * * * *",
        "jobTemplate": {"spec": {"template": template(restartPolicy="Never")}},
        **spec,
    }
    meta = {"name": "c", "namespace": "default"}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": meta, "spec": body}


CRON = Key("CronJob.batch", "default", "c")


def cron_look(late_s: int, **spec: Any) -> tuple[list[str], list[Obj]]:
    """What is told and made `late_s` after a start was due; the CronJob is a little older than a minute then."""
    store = Store(now_us=NOW - SECOND_US)
    store.create(cron(**spec))
    look = cronjob.reconcile(store, CRON, NOW + late_s * SECOND_US)
    return [a.message for a in look.actions if isinstance(a, Emit)], [
        a.obj for a in look.actions if isinstance(a, Create)
    ]


def test_a_start_is_made_until_its_deadline() -> None:
    for late, deadline, is_made in (
        (0, 0, False),
        (0, 1, True),
        (29, 30, True),
        (30, 30, False),
        (31, None, True),
    ):
        told, made = cron_look(late, **({} if deadline is None else {"startingDeadlineSeconds": deadline}))
        assert bool(made) == is_made, (late, deadline)
        if is_made:
            assert told == [f"Created job {made[0]['metadata']['name']}"]


def test_what_a_job_of_a_cronjob_bears() -> None:
    given = {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}, "spec": {"template": template()}}
    _, made = cron_look(0, jobTemplate=given, timeZone="Europe/Berlin")
    meta = made[0]["metadata"]
    assert meta["labels"] == {"a": "b"}
    assert meta["annotations"] == {"c": "d", cronjob.SCHEDULED_AT: "2026-01-05T09:00:00+01:00"}
    assert [r["kind"] for r in meta["ownerReferences"]] == ["CronJob"]
    _, plain = cron_look(0)
    assert "labels" not in plain[0]["metadata"]
    assert plain[0]["metadata"]["annotations"] == {cronjob.SCHEDULED_AT: "2026-01-05T08:00:00Z"}


def test_schedules_that_cannot_be() -> None:
    assert cron_look(0, schedule="nonsense")[0][0].startswith('unparseable schedule: "nonsense" : ')
    assert cron_look(0, timeZone="Nowhere/Else")[0] == [
        'invalid timeZone: "Nowhere/Else": unknown time zone Nowhere/Else'
    ]
    assert cron_look(0, suspend=True) == ([], [])
    look = cronjob.refused(Store(), CRON, NOW, "no")
    assert look.again_at_us == NOW + 10 * SECOND_US
    assert [a.message for a in look.actions if isinstance(a, Emit)] == ["Error creating job: no"]


# StatefulSets: claims; orphans.


def stateful(**spec: Any) -> Obj:
    claim = {"metadata": {"name": "data", "labels": {"l": "1"}, "annotations": {"a": "2"}}, "spec": {"x": 1}}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db", "namespace": "default", "uid": "set-uid"},
        "spec": {"selector": {"matchLabels": {"app": "db"}}, "volumeClaimTemplates": [claim], **spec},
    }


CLAIM = Key("PersistentVolumeClaim", "default", "data-db-0")


def test_a_claim_is_made_once_with_what_its_template_says() -> None:
    store, key = Store(), Key("StatefulSet.apps", "default", "db")
    made = storage.missing_claims(store, key, stateful(), pod("db-0"), 0)
    claim = next(a.obj for a in made if isinstance(a, Create))
    assert claim == {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": "data-db-0",
            "namespace": "default",
            "labels": {"l": "1", "app": "db"},
            "annotations": {"a": "2"},
        },
        "spec": {"x": 1},
    }
    store.create(claim)
    assert storage.missing_claims(store, key, stateful(), pod("db-0"), 0) == []
    own = [{"name": "data", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}]
    assert storage.volumes_for(stateful(), 0, own) == [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}},
        {"name": "tmp", "emptyDir": {}},
    ]


@pytest.mark.parametrize("deleted", ["Retain", "Delete"])
@pytest.mark.parametrize("scaled", ["Retain", "Delete"])
@pytest.mark.parametrize("is_condemned", [False, True])
def test_who_owns_a_claim(deleted: str, scaled: str, is_condemned: bool) -> None:
    """The pod that goes, else the set, else nobody; owners of others stay."""
    owner = stateful(persistentVolumeClaimRetentionPolicy={"whenDeleted": deleted, "whenScaled": scaled})
    other = {"apiVersion": "v1", "kind": "X", "name": "x", "uid": "x"}
    its_pod = pod("db-0", uid="pod-uid")
    want = "Pod" if scaled == "Delete" and is_condemned else "StatefulSet" if deleted == "Delete" else None
    for before in ([other], [other, {**other, "uid": "set-uid"}], [other, {**other, "uid": "pod-uid"}]):
        store = Store()
        meta = {"name": "data-db-0", "namespace": "default", "ownerReferences": before}
        store.create({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta})
        found = storage.retained(store, owner, its_pod, 0, is_condemned=is_condemned)
        left = before
        for action in found:
            assert isinstance(action, Patch)
            left = action.patch["metadata"]["ownerReferences"]
        assert left[0] == other
        assert [r["kind"] for r in left[1:]] == ([want] if want else [])
    store.patch(CLAIM, {"metadata": {"ownerReferences": None}})
    found = storage.retained(store, owner, its_pod, 0, is_condemned=is_condemned)
    assert len(found) == (1 if want else 0)
    assert storage.retained(Store(), owner, its_pod, 0, is_condemned=is_condemned) == []


def test_a_claim_of_an_earlier_pod_goes_first() -> None:
    store = Store()
    live = put(store, pod("db-0"))
    for refs, is_stale in (
        ([], False),
        ([{"apiVersion": "v1", "kind": "Pod", "name": "db-0", "uid": live["metadata"]["uid"]}], False),
        ([{"apiVersion": "v1", "kind": "Pod", "name": "db-0", "uid": "gone"}], True),
        ([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "gone"}], False),
    ):
        here = Store()
        put(here, live)
        meta = {"name": "data-db-0", "namespace": "default", "ownerReferences": refs}
        here.create({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta})
        kept = here.require(Key("Pod", "default", "db-0"))["metadata"]["uid"]
        for ref in refs:
            ref["uid"] = kept if ref["uid"] == live["metadata"]["uid"] else ref["uid"]
        assert storage.has_stale_claim(here, stateful(), 0) == is_stale
    assert not storage.has_stale_claim(Store(), stateful(), 0)


@pytest.mark.parametrize(
    ("name", "labels", "going", "without", "want"),
    [
        ("x", {"app": "a"}, False, (), "ReplicaSet"),
        ("x", {"app": "b"}, False, (), None),
        ("x", {"app": "a"}, True, (), None),
        ("x", {"app": "a"}, False, ("ReplicaSet",), None),
        ("db-0", {"app": "db"}, False, (), "StatefulSet"),
        ("db-x", {"app": "db"}, False, (), None),
        ("dc-0", {"app": "db"}, False, (), None),
    ],
)
def test_who_takes_an_orphan(
    name: str, labels: Any, going: bool, without: tuple[str, ...], want: str | None
) -> None:
    store = Store()
    put(store, replica_set(1))
    put(store, stateful())
    orphan = put(store, pod(name, labels=labels, finalizers=["x/y"]))
    key = Key("Pod", "default", name)
    if going:
        store.delete(key)
    for controller in (adoption.pods_without(without), *((adoption.PODS,) if not without else ())):
        found = controller.reconcile(store, key, NOW).actions
        owners = [a.patch["metadata"]["ownerReferences"][-1]["kind"] for a in found if isinstance(a, Patch)]
        assert owners == ([want] if want else [])
    owned_pod = {**orphan, "metadata": {**orphan["metadata"], "ownerReferences": owned(orphan)}}
    for obj, old, type_, looks in (
        (orphan, None, ADDED, True),
        (orphan, orphan, MODIFIED, False),
        (orphan, owned_pod, MODIFIED, True),
        (owned_pod, orphan, MODIFIED, False),
        (orphan, {**orphan, "metadata": {**orphan["metadata"], "labels": {}}}, MODIFIED, True),
        (orphan, None, DELETED, False),
    ):
        assert bool(adoption.map_pod(store, Change(1, type_, key, obj, old))) == looks


def test_what_is_claimed_comes_by_name_and_has_this_controller() -> None:
    store = Store()
    owner = put(store, replica_set(3))
    ref = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": owner["metadata"]["uid"]}
    other = {**ref, "name": "x", "uid": "x", "controller": True}
    for name, references in (
        ("c", [{**ref, "controller": True}]),
        ("a", []),
        ("b", [other, ref]),
        ("d", [ref, {**ref, "controller": True}]),
        ("e", [ref]),
    ):
        put(store, pod(name, labels={"app": "a"}, ownerReferences=references))
    found = claims.claim(store, owner, "apps/v1", "ReplicaSet")
    assert [p["metadata"]["name"] for p in found.objects] == ["a", "c", "d", "e"]
    assert [a.key.name for a in found.actions if isinstance(a, Patch)] == ["a", "e"]


def test_a_uid_that_is_no_number_is_none() -> None:
    """Names are drawn by the owner's uid: one of a dump that was written by hand counts as 0."""
    of_nobody = next(fresh_names(Store(), "Pod", "default", "p-", "by-hand"))
    assert of_nobody == next(fresh_names(Store(), "Pod", "default", "p-", "0-0"))
    assert of_nobody != next(fresh_names(Store(), "Pod", "default", "p-", "0-1"))


def test_a_year_of_missed_starts_is_passed_over() -> None:
    """Of a start a second for thirty years the last one is found without a walk through all."""
    began = "1996-01-05T08:00:00Z"
    cron_job = {"metadata": {"creationTimestamp": began}, "spec": {}}
    found = missed.due(cron_job, parse("@every 1s"), NOW + SECOND_US // 2)
    assert (found.start_us, found.is_many) == (NOW, True)


def test_a_budget_looks_at_pods_that_are_and_that_were_its_own() -> None:
    store = Store()
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "a"}}}
    meta = {"name": "b", "namespace": "default"}
    store.create({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": spec})
    mine, other = put(store, pod("p", labels={"app": "a"})), pod("p", labels={"app": "b"})
    key = Key("Pod", "default", "p")
    for now, before, type_, looks in (
        (mine, None, ADDED, True),
        (other, None, ADDED, False),
        (other, mine, MODIFIED, True),
        (mine, other, MODIFIED, True),
        (mine, mine, DELETED, True),
        (other, other, DELETED, False),
    ):
        found = budgets.CONTROLLER.map_change(store, Change(1, type_, key, now, before))
        assert [k.name for k in found] == (["b"] if looks else [])


def test_a_new_pod_of_a_job_concerns_it_where_it_was_there_before() -> None:
    """Made by the controller it was counted; of a dump, which says where it runs or ran, it was not."""
    ref = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
    key = Key("Pod", "default", "p")
    for phase, node, looks in (
        ("Pending", "", False),
        ("Pending", "n1", True),
        ("Running", "", True),
        ("Succeeded", "n1", True),
    ):
        made = pod(phase=phase, ownerReferences=[ref])
        made["spec"]["nodeName"] = node
        for type_ in (ADDED, MODIFIED):
            found = jobs.CONTROLLER.map_change(Store(), Change(1, type_, key, made, None))
            assert [k.name for k in found] == (["j"] if looks else [])
        gone = jobs.CONTROLLER.map_change(Store(), Change(1, DELETED, key, made, made))
        assert [k.name for k in gone] == ["j"]
