"""StatefulSets, LeaderWorkerSets and slices of elastic jobs: what each look at them does, case by case."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from fairway.cluster.actions import Action, Create, Delete, Emit, Patch, Replace, SetStatus
from fairway.cluster.changes import MODIFIED, Change
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj
from fairway.queueing.facts.gates import gates_from
from fairway.queueing.integrations import leaderworkerset as lws
from fairway.queueing.integrations import serving, slices
from fairway.queueing.integrations.integration import Integration
from fairway.queueing.integrations.leaderworkerset import LeaderWorkerSet
from fairway.queueing.integrations.names import workload_name
from fairway.queueing.integrations.serving import StatefulSet
from fairway.queueing.integrations.settings import JobSettings

NOW_US = 1_800_000_000_000_000
K = "kueue.x-k8s.io/"
GATE, TOPOLOGY, ELASTIC = ({"name": f"{K}{n}"} for n in ("admission", "topology", "elastic-job"))
SETTINGS = JobSettings()


def _said(actions: list[Action] | None) -> list[str]:
    """Kind and name of each action, of events their message."""
    out = []
    for a in actions or ():
        if isinstance(a, Emit):
            out.append(f"{a.reason} {a.about.name}: {a.message}")
        elif isinstance(a, (Create, Replace)):
            out.append(f"{type(a).__name__} {a.obj['metadata']['name']}")
        else:
            assert isinstance(a, (Delete, Patch, SetStatus))
            out.append(f"{type(a).__name__} {a.key.name}")
    return out


def _gated(kind: type[Integration], **gates: bool) -> Any:
    return kind(gates_from(gates)[0])


def _set(name: str = "web", queue: str = "lq", replicas: int | None = 2, **more: Any) -> Obj:
    spec: Obj = {"template": {"spec": {"containers": [{"name": "c"}]}}, **more.pop("spec", {})}
    if replicas is not None:
        spec["replicas"] = replicas
    labels = {f"{K}queue-name": queue} if queue else {}
    labels |= more.pop("labels", {})
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": f"uid-{name}",
            "labels": labels,
            "annotations": more.pop("annotations", {}),
        },
        "spec": spec,
        "status": more.pop("status", {}),
    }


def _pod(name: str, owner: str = "web", **more: Any) -> Obj:
    reference = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": owner, "uid": f"uid-{owner}"}
    meta: Obj = {
        "name": name,
        "namespace": "ns",
        "uid": f"uid-{name}",
        "ownerReferences": [{**reference, "controller": True}],
        "labels": more.get("labels", {}),
        "annotations": {f"{K}pod-suspending-parent": "statefulset", **more.get("annotations", {})},
    }
    if more.get("going"):
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    gates = more.get("gates", [GATE])
    spec: Obj = {"containers": [{"name": "c"}], **({"schedulingGates": gates} if gates else {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": spec,
        "status": {"phase": more.get("phase", "Pending")},
    }


def _condition(kind: str, status: str = "True", reason: str = "R") -> Obj:
    at = "2026-01-01T00:00:00Z"
    return {"type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": at}


def _name_of(job: Obj) -> str:
    return workload_name(job["metadata"]["name"], job["metadata"]["uid"], serving.STATEFUL_SET)


def _workload(name: str, *conditions: Obj, queue: str = "lq", owner: str = "web", **more: Any) -> Obj:
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": f"uid-{name}",
            "annotations": more.get("annotations", {}),
            "finalizers": more.get("finalizers", []),
            "ownerReferences": [{"kind": "X", "name": owner, "uid": f"uid-{owner}"}] if owner else [],
        },
        "spec": {
            "queueName": queue,
            "active": more.get("active", True),
            "podSets": more.get("pod_sets", [{"name": "main", "count": 2}]),
        },
        "status": {"conditions": list(conditions), **more.get("status", {})},
    }


def _groups(job: Obj, *others: Obj, kind: Any = None, settings: JobSettings = SETTINGS) -> list[Action]:
    store = Store()
    for it in (job, *others):
        store.load(it)
    found: list[Action] = (kind or StatefulSet()).groups(store, job, (), settings, NOW_US)
    return found


# StatefulSets


@pytest.mark.parametrize(
    ("labels", "parent", "skips"),
    [
        ({}, None, False),
        ({}, "statefulset", False),
        ({}, "leaderworkerset.x-k8s.io/leaderworkerset", True),
        ({serving.LWS_NAME: "x"}, None, True),
    ],
)
def test_whose_stateful_sets_are(labels: dict[str, str], parent: str | None, skips: bool) -> None:
    job = _set(labels=labels)
    if parent is not None:
        job["spec"]["template"]["metadata"] = {"annotations": {f"{K}pod-suspending-parent": parent}}
    assert StatefulSet().skips(Store(), job) == skips


def test_a_pod_concerns_the_set_that_made_it() -> None:
    kind, it = StatefulSet(), _pod("web-0")
    change = Change(1, MODIFIED, Key("Pod", "ns", "web-0"), it, it)
    assert list(kind.jobs_of(Store(), change)) == [Key(serving.STATEFUL_SET, "ns", "web")]
    it["metadata"]["ownerReferences"][0]["kind"] = "ReplicaSet"
    assert list(kind.jobs_of(Store(), change)) == []
    it["metadata"]["ownerReferences"] = []
    assert list(kind.jobs_of(Store(), change)) == []


def test_it_makes_a_workload_of_all_its_replicas() -> None:
    for replicas, count in ((3, 3), (None, 1)):
        job = _set(replicas=replicas)
        made = _groups(job)
        assert _said(made) == [
            f"Create {_name_of(job)}",
            f"CreatedWorkload web: Created Workload: ns/{_name_of(job)}",
        ]
        (created,) = [a.obj for a in made if isinstance(a, Create)]
        (pod_set,) = created["spec"]["podSets"]
        assert (pod_set["name"], pod_set["count"]) == ("main", count)
        assert pod_set["topologyRequest"] == {"podIndexLabel": "apps.kubernetes.io/pod-index"}
        assert created["spec"]["queueName"] == "lq"
        (owner,) = created["metadata"]["ownerReferences"]
        assert owner["uid"] == "uid-web" and not owner.get("controller")
        annotations = created["metadata"]["annotations"]
        assert annotations[f"{K}is-group-workload"] == "true"
        assert annotations[f"{K}job-owner-gvk"] == "apps/v1, Kind=StatefulSet"
        assert annotations[f"{K}job-owner-name"] == "web"
    assert _groups(_set(replicas=0)) == []
    assert _groups(_set(queue="")) == []
    everybody = replace(SETTINGS, manages_without_queue_name=True)
    assert [type(a) for a in _groups(_set(queue=""), settings=everybody)] == [Create, Emit]
    without = _gated(StatefulSet, TopologyAwareScheduling=False, TASProfileMixed=False)
    (plain,) = [a.obj for a in _groups(_set(), kind=without) if isinstance(a, Create)]
    assert "topologyRequest" not in plain["spec"]["podSets"][0]
    copied = replace(SETTINGS, label_keys_to_copy=("team",))
    (made_plain,) = [
        a.obj for a in _groups(_set(labels={"team": "a"}), settings=copied) if isinstance(a, Create)
    ]
    assert "team" not in (made_plain["metadata"].get("labels") or {})


def test_a_workload_that_is_as_it_should_be_is_left_alone() -> None:
    job = _set()
    assert _groups(job, _workload(_name_of(job))) == []
    assert _groups(_set(replicas=0), _workload(_name_of(job), owner="", queue="x")) == []


def test_its_workload_follows_its_queue_and_is_its_own() -> None:
    job = _set(queue="new")
    (moved,) = _groups(job, _workload(_name_of(job), annotations={"kept": "1"}))
    assert isinstance(moved, Replace)
    assert moved.obj["spec"]["queueName"] == "new"
    assert moved.obj["metadata"]["annotations"] == {"kept": "1"}
    job = _set()
    (owned,) = _groups(job, _workload(_name_of(job), owner="other", annotations={"kept": "1"}))
    assert isinstance(owned, Replace)
    assert [r["uid"] for r in owned.obj["metadata"]["ownerReferences"]] == ["uid-other", "uid-web"]
    assert owned.obj["metadata"]["annotations"] == {
        "kept": "1",
        f"{K}job-owner-gvk": "apps/v1, Kind=StatefulSet",
        f"{K}job-owner-name": "web",
    }


@pytest.mark.parametrize("is_on", [True, False])
@pytest.mark.parametrize(
    ("mine", "its", "want"),
    [("x", "", "x"), ("", "x", ""), ("x", "x", None), ("", "", None), ("x", "y", "x")],
)
def test_its_workload_has_its_gate(is_on: bool, mine: str, its: str, want: str | None) -> None:
    kind = _gated(StatefulSet, AdmissionGatedBy=is_on)
    job = _set(annotations={f"{K}admission-gated-by": mine} if mine else {})
    its_own = {"kept": "1", **({f"{K}admission-gated-by": its} if its else {})}
    actions = _groups(job, _workload(_name_of(job), annotations=its_own), kind=kind)
    if want is None or not is_on:
        assert actions == []
        return
    assert _said(actions) == [
        f"Replace {_name_of(job)}",
        f'UpdatedWorkload web: Updated workload AdmissionGatedBy to "{want}"',
    ]
    assert isinstance(actions[0], Replace)
    assert actions[0].obj["metadata"]["annotations"] == {
        "kept": "1",
        **({f"{K}admission-gated-by": want} if want else {}),
    }


RESERVED = _condition("QuotaReserved")
HELD = _condition("QuotaReserved", "False", "OnHold")


@pytest.mark.parametrize(
    ("replicas", "conditions", "active", "want"),
    [
        (0, [RESERVED], True, ("OnHold", "StatefulSet scaled to zero; workload on hold")),
        (0, [RESERVED], False, None),
        (0, [RESERVED, _condition("Finished")], True, None),
        (0, [], True, None),
        (0, [HELD], True, None),
        (2, [RESERVED], True, None),
        (2, [HELD], True, ("?", "Workload no longer on hold; waiting for quota reservation")),
    ],
)
def test_a_set_scaled_to_nothing_gives_its_quota_back(
    replicas: int, conditions: list[Obj], active: bool, want: tuple[str, str] | None
) -> None:
    job = _set(replicas=replicas)
    for observed in (True, False):
        kind = _gated(StatefulSet, UnadmittedWorkloadsObservability=observed)
        actions = _groups(job, _workload(_name_of(job), *conditions, active=active), kind=kind)
        if want is None:
            assert actions == []
            continue
        (written,) = actions
        assert isinstance(written, SetStatus)
        (found,) = [c for c in written.status["conditions"] if c["type"] == "QuotaReserved"]
        reason = want[0] if want[0] != "?" else "PendingEvaluation" if observed else "Pending"
        assert (found["status"], found["reason"], found["message"]) == ("False", reason, want[1])


def test_its_pods_join_the_group_of_its_workload() -> None:
    job = _set(replicas=3, labels={f"{K}priority-class": "high"})
    group = _name_of(job)

    def joins(it: Obj, of: Obj = job, settings: JobSettings = SETTINGS) -> list[Action]:
        return _groups(of, _workload(group), it, settings=settings)

    (marked,) = joins(_pod("web-0"))
    assert marked == Patch(
        Key("Pod", "ns", "web-0"),
        {
            "metadata": {
                "labels": {f"{K}managed": "true", f"{K}queue-name": "lq", f"{K}priority-class": "high"},
                "annotations": {
                    f"{K}prebuilt-workload-name": group,
                    f"{K}pod-group-name": group,
                    f"{K}pod-group-total-count": "3",
                    f"{K}pod-group-fast-admission": "true",
                    f"{K}pod-group-serving": "true",
                    f"{K}pod-group-pod-index-label": "apps.kubernetes.io/pod-index",
                    f"{K}role-hash": "main",
                },
            }
        },
    )
    for stranger in (
        _pod("web-0", phase="Succeeded"),
        _pod("web-0", phase="Failed"),
        _pod("web-0", going=True),
        _pod("web-0", owner="other"),
        _pod("web-0", annotations={f"{K}pod-suspending-parent": "deployment"}),
    ):
        assert joins(stranger) == []
    nameless = _set(queue="", replicas=3)
    assert _groups(nameless, _workload(group, queue=""), _pod("web-0")) == []
    everybody = replace(SETTINGS, manages_without_queue_name=True)
    (bare,) = _groups(nameless, _workload(group, queue=""), _pod("web-0"), settings=everybody)
    assert isinstance(bare, Patch)
    assert bare.patch["metadata"]["labels"] == {f"{K}managed": "true"}


def test_members_follow_the_queue_and_do_not_hold_up_a_roll_out() -> None:
    old = {"currentRevision": "one", "updateRevision": "two"}
    group = _name_of(_set())

    def member(revision: str, queue: str = "lq", gates: tuple[Obj, ...] = (GATE,)) -> Obj:
        labels = {f"{K}pod-group-name": group, "controller-revision-hash": revision}
        if queue:
            labels[f"{K}queue-name"] = queue
        return _pod("web-0", labels=labels, gates=list(gates))

    def done(it: Obj, job: Obj) -> list[Action]:
        return _groups(job, _workload(group, queue=job["metadata"]["labels"].get(f"{K}queue-name", "")), it)

    (moved,) = done(member("one", "other"), _set(status=old))
    assert moved == Patch(
        Key("Pod", "ns", "web-0"), {"metadata": {"labels": {f"{K}queue-name": "lq"}, "annotations": {}}}
    )
    (freed,) = done(member("one"), _set(status=old))
    assert isinstance(freed, Replace) and "schedulingGates" not in freed.obj["spec"]
    (partly,) = done(member("one", gates=(TOPOLOGY, {"name": "mine"}, GATE)), _set(status=old))
    assert isinstance(partly, Replace) and partly.obj["spec"]["schedulingGates"] == [{"name": "mine"}]
    assert done(member("two"), _set(status=old)) == []
    assert done(member("one", gates=()), _set(status=old)) == []
    assert done(member("one", gates=(TOPOLOGY,)), _set(status=old)) == [], "it waits for nothing of quota"
    same = {"currentRevision": "one", "updateRevision": "one"}
    assert done(member("one"), _set(status=same)) == []
    assert done(member("one", "other"), _set(queue="", status=same)) == []


def test_what_serves_is_never_started_or_ended_itself() -> None:
    kind, job, store = StatefulSet(), _set(), Store()
    assert not kind.is_suspended(job) and not kind.is_active(store, job) and not kind.pods_ready(store, job)
    assert kind.finished(store, job) is None
    assert kind.with_suspend(job, True) is kind.with_infos(job, ()) is kind.restored(job, ()) is job


# LeaderWorkerSets


def _lws(replicas: int | None = 2, size: int | None = 3, *, leader: bool = False, **more: Any) -> Obj:
    both: Obj = {"workerTemplate": {"spec": {"containers": [{"name": "w"}]}}}
    if size is not None:
        both["size"] = size
    if leader:
        both["leaderTemplate"] = {"spec": {"containers": [{"name": "l"}]}}
    job = _set("net", replicas=replicas, **more)
    job["spec"].pop("template")
    job["spec"]["leaderWorkerTemplate"] = both
    return {**job, "apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet"}


def _of_index(job: Obj, index: int) -> str:
    return workload_name(f"net-{index}", job["metadata"]["uid"], lws.LEADER_WORKER_SET)


def _looked(job: Obj, *others: Obj, owned: tuple[Obj, ...] = (), kind: Any = None) -> list[Action]:
    store = Store()
    for it in (job, *others, *owned):
        store.load(it)
    found: list[Action] = (kind or LeaderWorkerSet()).groups(store, job, owned, SETTINGS, NOW_US)
    return found


def test_pod_sets_of_leaders_and_workers() -> None:
    kind, store = LeaderWorkerSet(), Store()
    index = {"podIndexLabel": "leaderworkerset.sigs.k8s.io/worker-index"}
    (main,) = kind.pod_sets(store, _lws())
    assert (main["name"], main["count"], main["topologyRequest"]) == ("main", 3, index)
    assert main["template"] == {"spec": {"containers": [{"name": "w"}]}}
    assert kind.pod_sets(store, _lws(size=None))[0]["count"] == 1
    leader, worker = kind.pod_sets(store, _lws(leader=True))
    assert (leader["name"], leader["count"]) == ("leader", 1)
    assert "topologyRequest" not in leader
    assert (worker["name"], worker["count"], worker["topologyRequest"]) == ("worker", 2, index)
    assert leader["template"]["spec"]["containers"] == [{"name": "l"}]
    noted = _lws()
    prefix = "leaderworkerset.sigs.k8s.io"
    noted["spec"]["leaderWorkerTemplate"]["workerTemplate"]["metadata"] = {
        "labels": {f"{prefix}/name": "net", f"{prefix}/x": "1", "mine": "2"},
        "annotations": {f"{prefix}/y": "1", "said": "3"},
    }
    (with_meta,) = kind.pod_sets(store, noted)
    assert with_meta["template"]["metadata"] == {
        "labels": {f"{prefix}/name": "net", "mine": "2"},
        "annotations": {"said": "3"},
    }


@pytest.mark.parametrize(
    ("replicas", "surge", "updated", "there", "want"),
    [
        (None, None, 0, 0, 1),
        (3, None, 0, 9, 3),
        (3, 0, 0, 9, 3),
        (3, "25%", 0, 9, 3),
        (3, 1, 0, 4, 4),
        (3, 1, 2, 4, 4),
        (3, 1, 3, 4, 3),
        (3, 1, 0, 2, 3),
        (0, 1, 0, 2, 0),
    ],
)
def test_how_many_groups_there_are(
    replicas: int | None, surge: Any, updated: int, there: int, want: int
) -> None:
    job = _lws(replicas, status={"updatedReplicas": updated, "replicas": there})
    if surge is not None:
        job["spec"]["rolloutStrategy"] = {"rollingUpdateConfiguration": {"maxSurge": surge}}
    made = [a for a in _looked(job) if isinstance(a, Create)]
    assert [a.obj["metadata"]["name"] for a in made] == [_of_index(job, i) for i in range(want)]
    indexes = [a.obj["metadata"]["annotations"][f"{K}component-workload-index"] for a in made]
    assert indexes == [str(i) for i in range(want)]


def test_a_workload_for_each_group_and_no_more() -> None:
    job = _lws()
    there = _workload(_of_index(job, 1), owner="net")
    over = _workload(_of_index(job, 2), owner="net", finalizers=[f"{K}resource-in-use", "other"])
    going = _workload("going", owner="net", finalizers=[f"{K}resource-in-use"])
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    actions = _looked(job, owned=(there, over, going))
    first = _of_index(job, 0)
    assert _said(actions) == [
        f"Create {first}",
        f"CreatedWorkload net: Created Workload: ns/{first}",
        f"Patch {over['metadata']['name']}",
        f"Delete {over['metadata']['name']}",
        "Patch going",
    ]
    patches = [a.patch["metadata"]["finalizers"] for a in actions if isinstance(a, Patch)]
    assert patches == [["other"], None]


def test_not_too_many_at_once() -> None:
    job = _lws(502, 1)
    over = _workload("over", owner="net")
    made = _looked(job, owned=(over,))
    assert sum(isinstance(a, Create) for a in made) == 500
    assert not any(isinstance(a, Delete) for a in made), "whether it is wanted is not known yet"
    exact = _looked(_lws(500, 1), owned=(over,))
    assert sum(isinstance(a, Create) for a in exact) == 500
    assert [a.key.name for a in exact if isinstance(a, Delete)] == ["over"]


def test_workloads_of_groups_follow_queue_gate_and_priority() -> None:
    job = _lws(1, queue="new")
    name = _of_index(job, 0)
    before = _workload(name, owner="net")
    before["spec"] = {**before["spec"], "active": False}
    (moved,) = _looked(job, owned=(before,))
    assert isinstance(moved, Replace)
    assert moved.obj == {**before, "spec": {**before["spec"], "queueName": "new"}}
    job = _lws(1, labels={f"{K}priority-class": "high"}, annotations={f"{K}admission-gated-by": "x"})
    high: Obj = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "WorkloadPriorityClass",
        "metadata": {"name": "high"},
        "value": 7,
    }
    kind = _gated(LeaderWorkerSet, AdmissionGatedBy=True)
    actions = _looked(job, high, owned=(_workload(name, owner="net"),), kind=kind)
    assert _said(actions) == [
        f"Replace {name}",
        'UpdatedWorkload net: Updated workload AdmissionGatedBy to "x"',
        f"UpdatedWorkload net: Updated workload priority class: ns/{name}",
    ]
    assert isinstance(actions[0], Replace)
    spec, kept = actions[0].obj["spec"], _workload(name, owner="net")["spec"]
    assert (spec["priority"], spec["priorityClassRef"]["name"]) == (7, "high")
    assert {k: v for k, v in spec.items() if not k.startswith("priority")} == {
        k: v for k, v in kept.items() if not k.startswith("priority")
    }
    assert _looked(_lws(1), owned=(_workload(name, owner="net"),)) == []


def _of_lws(name: str, owner: str, *, index: str | None = "0", worker: bool = False, **more: Any) -> Obj:
    labels = {**({lws.GROUP_INDEX: index} if index is not None else {}), **more.pop("labels", {})}
    annotations = {f"{K}pod-suspending-parent": LeaderWorkerSet.name, **more.pop("annotations", {})}
    if worker:
        annotations[lws.LEADER_NAME] = owner
    return _pod(name, owner, labels=labels, annotations=annotations, **more)


def test_pods_join_the_group_of_their_replica() -> None:
    def marks(job: Obj, *pods: Obj, status: Obj | None = None) -> dict[str, Obj]:
        leaders, workers = _set("net", status=status or {}), _set("net-0", status=status or {})
        leaders["metadata"]["uid"] = "uid-leaders"
        for it in pods:
            if it["metadata"]["ownerReferences"][0]["name"] == "net":
                it["metadata"]["ownerReferences"][0]["uid"] = "uid-leaders"
        owned = (
            _workload(
                _of_index(job, 0), owner="net", queue=job["metadata"]["labels"].get(f"{K}queue-name", "")
            ),
        )
        actions = _looked(job, leaders, workers, *pods, owned=owned)
        return {
            (a.key.name if isinstance(a, Patch) else a.obj["metadata"]["name"]): (
                a.patch["metadata"] if isinstance(a, Patch) else a.obj["spec"]
            )
            for a in actions
            if isinstance(a, (Patch, Replace))
        }

    def said(job: Obj, role: str, **labels: str) -> Obj:
        group = _of_index(job, 0)
        return {
            "labels": {f"{K}managed": "true", **labels},
            "annotations": {
                f"{K}pod-group-name": group,
                f"{K}prebuilt-workload-name": group,
                f"{K}pod-group-total-count": "3",
                f"{K}role-hash": role,
            },
        }

    queue = {f"{K}queue-name": "lq"}
    for leader, roles in ((False, ("main", "main")), (True, ("leader", "worker"))):
        job = _lws(1, leader=leader)
        found = marks(job, _of_lws("net-0", "net"), _of_lws("net-0-1", "net-0", worker=True))
        assert found == {"net-0": said(job, roles[0], **queue), "net-0-1": said(job, roles[1], **queue)}
    job = _lws(1)
    # Not gated, or of the same queue: the queue is not written. No queue: nothing to write.
    assert marks(job, _of_lws("net-0", "net", gates=[])) == {"net-0": said(job, "main")}
    assert marks(job, _of_lws("net-0", "net", labels=queue)) == {"net-0": said(job, "main")}
    nameless = _lws(1, queue="")
    assert marks(nameless, _of_lws("net-0", "net")) == {"net-0": said(nameless, "main")}
    for stranger in (
        _of_lws("net-0", "net", index=None),
        _of_lws("net-0", "net", phase="Failed"),
        _of_lws("net-0", "net", annotations={f"{K}pod-suspending-parent": "statefulset"}),
    ):
        assert marks(job, stranger) == {}
    known = {f"{K}managed": "true"}
    assert marks(job, _of_lws("net-0", "net", labels=known)) == {
        "net-0": {"labels": queue, "annotations": {}}
    }
    assert marks(job, _of_lws("net-0", "net", labels={**known, **queue})) == {}
    assert marks(job, _of_lws("net-0", "net", labels=known, gates=[])) == {}
    assert marks(nameless, _of_lws("net-0", "net", labels=known)) == {}
    rolling = {"currentRevision": "one", "updateRevision": "two"}
    old = _of_lws("net-0", "net", labels={"controller-revision-hash": "one"})
    assert marks(job, old, status=rolling) == {"net-0": {"containers": [{"name": "c"}]}}
    free = _of_lws("net-0", "net", labels={"controller-revision-hash": "one"}, gates=[])
    assert marks(job, free, status=rolling) == {}


def test_a_pod_concerns_the_leader_worker_set_it_names() -> None:
    it = _pod("x", labels={serving.LWS_NAME: "net"})
    change = Change(1, MODIFIED, Key("Pod", "ns", "x"), it, it)
    assert list(LeaderWorkerSet().jobs_of(Store(), change)) == [Key(lws.LEADER_WORKER_SET, "ns", "net")]
    other = _pod("x")
    assert list(LeaderWorkerSet().jobs_of(Store(), Change(1, MODIFIED, change.key, other, other))) == []


# Slices


def _slice(name: str, count: int, *conditions: str, at: int = 0, replaces: str = "", **more: Any) -> Obj:
    made = _workload(
        name,
        *(_condition(c) for c in conditions),
        pod_sets=[{"name": "main", "count": count}],
        annotations={f"{K}workload-slice-replacement-for": f"ns/{replaces}"} if replaces else {},
        **more,
    )
    made["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:{at:02}Z"
    return made


def _ensured(count: int, *owned: Obj, name: str = "main") -> tuple[str | None, list[str]] | None:
    found = slices.ensured([{"name": name, "count": count}], owned, NOW_US)
    if found is None:
        return None
    chosen, actions = found
    return None if chosen is None else chosen["metadata"]["name"], _said(actions)


def test_one_slice_is_kept_resized_or_replaced() -> None:
    assert _ensured(2) == (None, [])
    assert _ensured(2, _slice("a", 2, "Finished")) == (None, [])
    assert _ensured(2, _slice("a", 2)) == ("a", [])
    assert _ensured(2, _slice("a", 2, "QuotaReserved")) == ("a", [])
    assert _ensured(3, _slice("a", 2)) == ("a", ["Replace a"])
    assert _ensured(1, _slice("a", 2)) == ("a", ["Replace a"])
    assert _ensured(1, _slice("a", 2, "QuotaReserved")) == ("a", ["Replace a"])
    assert _ensured(3, _slice("a", 2, "QuotaReserved")) == (None, [])
    assert _ensured(2, _slice("a", 2), name="other") is None
    found = slices.ensured([{"count": 5}], [_slice("a", 2)], NOW_US)
    assert found is not None and isinstance(found[1][0], Replace)
    assert found[1][0].obj["spec"]["podSets"] == [{"name": "main", "count": 5}]


def test_of_several_slices_one_holds_quota_and_one_waits_to_take_over() -> None:
    q = "QuotaReserved"
    old, new = _slice("a", 2, q), _slice("b", 3, at=1, replaces="a")
    assert _ensured(3, old, new) == ("b", [])
    assert _ensured(3, new, old) == ("b", []), "whatever their order"
    assert _ensured(4, old, new) == ("b", ["Replace b"])
    # It took over: the old one is over.
    took = _slice("b", 3, q, at=1, replaces="a")
    assert _ensured(3, old, took) == ("b", ["SetStatus a"])
    # Of two that would replace it, one without quota and one with.
    third = _slice("c", 3, at=2, replaces="a")
    assert _ensured(3, old, new, third) == ("b", ["SetStatus c"])
    assert _ensured(3, old, third, took) == ("b", ["SetStatus a", "SetStatus c"])
    # Nobody holds quota: the newest stays.
    assert _ensured(3, _slice("a", 2), _slice("b", 3, at=1)) == ("b", ["SetStatus a"])
    # Who is evicted does not count.
    assert _ensured(3, _slice("a", 2, q, "Evicted"), _slice("b", 3, at=1)) == ("b", ["SetStatus a"])
    assert _ensured(3, _slice("a", 2, "Evicted"), _slice("b", 3, "Evicted", at=1)) == (
        None,
        ["SetStatus a", "SetStatus b"],
    )
    assert _ensured(3, old, _slice("b", 3, at=1)) == ("a", ["SetStatus b"])
    found = slices.ensured([{"count": 3}], [old, took], NOW_US)
    assert found is not None and isinstance(found[1][0], SetStatus)
    (ended,) = [c for c in found[1][0].status["conditions"] if c["type"] == "Finished"]
    assert (ended["status"], ended["reason"]) == ("True", "OutOfSync")
    assert ended["message"] == "The workload slice is out of sync with its parent job"


def test_slices_made_in_one_second_are_told_by_uid() -> None:
    first, second = _slice("z", 2), _slice("a", 3)
    first["metadata"]["uid"], second["metadata"]["uid"] = "1", "2"
    assert _ensured(3, second, first) == ("a", ["SetStatus z"])


def test_scaled_down_is_less_somewhere_and_more_nowhere() -> None:
    for old, new in product(product((0, 1, 2), repeat=2), repeat=2):
        a, b = ({"x": n[0], "y": n[1]} for n in (old, new))
        less, more = any(n < o for o, n in zip(old, new)), any(n > o for o, n in zip(old, new))  # noqa: B905
        assert slices.is_scaled_down(a, b) == (less and not more)
    assert slices.is_scaled_down({"x": 1}, {}) and not slices.is_scaled_down({}, {"x": 1})


def _elastic(name: str, phase: str = "Pending", *, gated: bool = True, pod_set: str = "") -> Obj:
    made = _pod(name, gates=[ELASTIC] if gated else [], phase=phase)
    if pod_set:
        made["metadata"]["labels"] = {f"{K}podset": pod_set}
    return made


def _let_go(workloads: list[Obj], *pods: Obj) -> list[str]:
    return [a.obj["metadata"]["name"] for a in slices.ungated(workloads, pods) if isinstance(a, Replace)]


def _admitted(name: str, *counts: tuple[str | None, int], also: tuple[str, ...] = ()) -> Obj:
    given = [{"count": c, **({} if n is None else {"name": n})} for n, c in counts]
    status = {"admission": {"podSetAssignments": given}}
    return _slice(name, 0, "QuotaReserved", "Admitted", *also, status=status)


def test_as_many_pods_go_as_the_slice_grants() -> None:
    a, b, c = (_elastic(n) for n in "abc")
    two = _admitted("w", ("main", 2))
    assert _let_go([two], c, a, b) == ["a", "b"]
    assert _let_go([two], _elastic("x", gated=False), b, a) == ["a"]
    assert _let_go(
        [two], _elastic("x", "Running", gated=False), _elastic("y", "Failed", gated=False), b, a
    ) == ["a"]
    assert _let_go([two], _elastic("a", "Succeeded"), b) == ["b"]
    assert _let_go([_admitted("w", (None, 1))], a, b) == ["a"]
    assert _let_go([two, _admitted("v", ("main", 1))], a, b) == ["a"], "the newest counts"
    assert _let_go([two, _admitted("v", ("main", 1), also=("Finished",))], a, b) == ["a", "b"]
    assert _let_go([two, _admitted("v", ("main", 1), also=("Evicted",))], a, b) == ["a", "b"]
    assert _let_go([_slice("w", 2, "QuotaReserved")], a) == []
    assert _let_go([], a) == []
    both = _admitted("w", ("x", 1), ("y", 0))
    assert _let_go([both], _elastic("a", pod_set="y"), _elastic("b", pod_set="x"), _elastic("c")) == ["b"]
    mixed = _elastic("m")
    mixed["spec"]["schedulingGates"] = [ELASTIC, GATE]
    (kept,) = slices.ungated([two], [mixed])
    assert isinstance(kept, Replace) and kept.obj["spec"]["schedulingGates"] == [GATE]
    (bare,) = slices.ungated([two], [a])
    assert isinstance(bare, Replace) and "schedulingGates" not in bare.obj["spec"]
    assert slices.is_gated(mixed) and not slices.is_gated(_elastic("g", gated=False))


@pytest.mark.parametrize(
    ("replicas", "surge", "updated", "there", "want"),
    [
        (None, None, None, None, 1),
        (3, None, None, 5, 3),
        (3, 0, None, 5, 3),
        (3, 2, None, 5, 5),
        (3, 2, 2, 4, 4),
        (3, 2, 3, 4, 3),
        (3, 2, 0, None, 3),
        (3, 2, 0, 1, 3),
        (3, "50%", 0, 5, 3),
        (0, 1, 0, 4, 0),
    ],
)
def test_groups_of_a_set_while_it_is_updated(
    replicas: int | None, surge: Any, updated: int | None, there: int | None, want: int
) -> None:
    spec = {"replicas": replicas, "rolloutStrategy": {"rollingUpdateConfiguration": {"maxSurge": surge}}}
    job = {"spec": spec, "status": {"updatedReplicas": updated, "replicas": there}}
    assert lws._groups(job) == want


def test_the_gate_of_elastic_jobs_among_others() -> None:
    for gates, want in (
        ([], False),
        (["x"], False),
        ([ELASTIC["name"]], True),
        (["x", ELASTIC["name"]], True),
    ):
        assert slices.is_gated({"spec": {"schedulingGates": [{"name": g} for g in gates]}}) == want
    assert not slices.is_gated({"spec": {"schedulingGates": None}})
