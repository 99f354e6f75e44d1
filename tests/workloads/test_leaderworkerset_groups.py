"""One group of a LeaderWorkerSet: when it starts anew, and what its leader brings about.

Source: lws pkg/controllers/pod_controller.go.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from fairway.cluster.actions import Create, Delete, Emit
from fairway.cluster.changes import ADDED, DELETED, MODIFIED, Change
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import parse_rfc3339
from fairway.workloads.leaderworkerset import decide, groups, marks

NOW = parse_rfc3339("2026-01-05T08:00:00Z")
P = "leaderworkerset.sigs.k8s.io/"


class Group:
    """The set `lws` with the pods of its group 0: leader `lws-0`, workers `lws-0-1` …"""

    def __init__(
        self, size: int = 3, notes: Obj | None = None, template: Obj | None = None, **spec: Any
    ) -> None:
        self.store = Store(seed=1, now_us=NOW)
        pods = {
            "metadata": {"labels": {"mine": "1"}},
            "spec": {"containers": [{"name": "c"}], "nodeSelector": {"a": "b"}},
        }
        self.lws = self.store.create(
            {
                "apiVersion": "leaderworkerset.x-k8s.io/v1",
                "kind": "LeaderWorkerSet",
                "metadata": {
                    "name": "lws",
                    "namespace": "ns",
                    "labels": {"team": "x"},
                    "annotations": notes or {},
                },
                "spec": {
                    "leaderWorkerTemplate": {"size": size, "workerTemplate": pods, **(template or {})},
                    **spec,
                },
            }
        )
        self.revision = decide.revision_of(self.lws)

    def above(self, kind: str, obj: Obj) -> list[Obj]:
        meta = obj["metadata"]
        return [
            {"apiVersion": "v1", "kind": kind, "name": meta["name"], "uid": meta["uid"], "controller": True}
        ]

    def pod(
        self,
        name: str,
        phase: str = "Running",
        *,
        ready: bool = True,
        restarts: int = 0,
        inits: int = 0,
        revision: str | None = None,
        owner: Obj | None = None,
        leaving: bool = False,
        node: str = "n1",
        group: str = "0",
    ) -> Obj:
        labels = {
            P + "name": "lws",
            P + "group-index": group,
            P + "template-revision-hash": revision or self.revision,
        }
        labels[P + "worker-index"] = "0" if name.count("-") == 1 else name.rpartition("-")[2]
        made = self.store.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": name,
                    "namespace": "ns",
                    "labels": labels,
                    "finalizers": ["keep"],
                    "ownerReferences": self.above("StatefulSet", owner or self.lws),
                },
                "spec": {"nodeName": node, "containers": [{"name": "c"}]},
            }
        )
        status = {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            "containerStatuses": [{"name": "c", "restartCount": restarts}],
            "initContainerStatuses": [{"name": "i", "restartCount": inits}],
        }
        self.store.set_status(Key("Pod", "ns", name), status)
        if leaving:
            self.store.delete(Key("Pod", "ns", name), grace_s=30)
        return made

    def workers(self, leader: Obj, name: str = "lws-0") -> Obj:
        return self.store.create(
            {
                "apiVersion": "apps/v1",
                "kind": "StatefulSet",
                "metadata": {"name": name, "namespace": "ns", "ownerReferences": self.above("Pod", leader)},
                "spec": {"replicas": 2},
            }
        )

    def decided(self, name: str) -> list[Any]:
        return list(groups.reconcile(self.store, Key("Pod", "ns", name), NOW).actions)

    def deleted(self, name: str) -> list[str]:
        return [a.key.name for a in self.decided(name) if isinstance(a, Delete)]


POLICIES = (None, "RecreateGroupOnPodRestart", "RecreateGroupAfterStart", "None")


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("at", ["lws-0", "lws-0-1"])
@pytest.mark.parametrize(
    ("what", "is_over"),
    [
        ({}, False),
        ({"restarts": 1}, True),
        ({"inits": 1}, True),
        ({"leaving": True}, True),
        ({"restarts": 1, "phase": "Failed"}, False),
        ({"restarts": 1, "phase": "Succeeded"}, False),
        ({"restarts": 1, "phase": "Pending"}, None),
    ],
)
def test_a_group_goes_with_a_pod_that_restarts_or_leaves(
    policy: str | None, at: str, what: Obj, is_over: bool | None
) -> None:
    """After its start only, where the policy says so: not while one of it is pending or missing (`None` above)."""
    group = Group(3, template={} if policy is None else {"restartPolicy": policy})
    leader = group.pod("lws-0", **(what if at == "lws-0" else {}))
    of = group.workers(leader)
    group.pod("lws-0-1", owner=of, **(what if at == "lws-0-1" else {}))
    group.pod("lws-0-2", owner=of)
    want = policy != "RecreateGroupAfterStart" if is_over is None else is_over
    want = want and policy != "None"
    is_leaving_leader = at == "lws-0" and what.get("leaving")
    assert group.deleted(at) == (["lws-0"] if want and not is_leaving_leader else [])
    if want and not is_leaving_leader:
        gone, told = group.decided(at)
        assert (gone.uid, gone.propagation) == (leader["metadata"]["uid"], "Foreground")
        assert isinstance(told, Emit)
        assert told.reason == "RecreateGroup"
        assert told.message == f"Worker pod {at} failed, deleted leader pod lws-0 to recreate group 0"
        assert told.about.name == "lws"
    assert group.deleted("lws-0-2") == [], "nothing happened to it"


@pytest.mark.parametrize("there", list(product((True, False), ("0", "1"), ("Running", "Pending"))))
def test_after_its_start_a_group_is_whole(there: tuple[bool, str, str]) -> None:
    """Pods of another group neither complete it nor hold it up."""
    has_third, group_of_third, phase = there
    group = Group(3, template={"restartPolicy": "RecreateGroupAfterStart"})
    of = group.workers(group.pod("lws-0"))
    group.pod("lws-0-1", owner=of, restarts=1)
    if has_third:
        group.pod("lws-0-2", phase, owner=of, group=group_of_third)
    is_whole = has_third and group_of_third == "0" and phase == "Running"
    assert group.deleted("lws-0-1") == (["lws-0"] if is_whole else [])


def test_a_worker_of_a_leader_before_this_one_takes_nobody_along() -> None:
    group = Group(2)
    leader = group.pod("lws-0")
    older = {"metadata": {"name": "lws-0", "uid": "before"}}
    group.pod("lws-0-1", owner=group.workers(older), restarts=1)
    assert group.deleted("lws-0-1") == []
    group.pod("lws-0-2", owner=group.workers(leader, "others"), restarts=1, revision="old")
    assert group.deleted("lws-0-2") == []
    group.pod("lws-0-3", owner={"metadata": {"name": "gone", "uid": "gone"}}, restarts=1)
    assert group.deleted("lws-0-3") == []
    group.pod("lws-7-1", owner=group.workers(leader, "more"), restarts=1)
    assert group.decided("lws-7-1") == [], "it has no leader"


def test_what_is_gone_or_going_is_left_alone() -> None:
    group = Group(2)
    assert group.decided("absent") == []
    of = group.workers(group.pod("lws-0", leaving=True))
    group.pod("lws-0-1", owner=of, restarts=1)
    assert group.decided("lws-0-1") == [], "the leader leaves already"
    group = Group(2, template={"restartPolicy": "None"})
    group.pod("lws-0", leaving=True)
    assert group.decided("lws-0") == []


# What a leader brings about


@pytest.mark.parametrize("startup", [None, "LeaderCreated", "LeaderReady"])
@pytest.mark.parametrize("is_ready", [True, False])
@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("is_old", [True, False])
@pytest.mark.parametrize("is_there", [True, False])
def test_workers_come_once_they_may(
    startup: str | None, is_ready: bool, size: int, is_old: bool, is_there: bool
) -> None:
    group = Group(size, **({} if startup is None else {"startupPolicy": startup}))
    leader = group.pod("lws-0", ready=is_ready, revision="old" if is_old else None)
    if is_there:
        group.workers(leader)
    may = size > 1 and not is_old and not is_there and (is_ready or startup != "LeaderReady")
    actions = group.decided("lws-0")
    assert [type(a) for a in actions] == ([Create, Emit] if may else [])
    if not may:
        return
    assert (actions[1].reason, actions[1].message) == (
        "GroupsProgressing",
        "Created worker statefulset for leader pod lws-0",
    )
    made = actions[0].obj
    chosen = {P + "name": "lws", P + "group-index": "0", P + "group-key": marks.group_key("ns", "lws-0")}
    labels = {**chosen, P + "template-revision-hash": group.revision}
    assert made["metadata"]["labels"] == {"team": "x", **labels}
    assert [o["uid"] for o in made["metadata"]["ownerReferences"]] == [leader["metadata"]["uid"]]
    spec = made["spec"]
    assert (spec["replicas"], spec["serviceName"], spec["ordinals"]) == (size - 1, "lws", {"start": 1})
    assert spec["selector"]["matchLabels"] == chosen
    assert spec["template"]["metadata"]["labels"] == {"mine": "1", **labels}
    assert spec["template"]["metadata"]["annotations"] == {P + "size": str(size), P + "leader-name": "lws-0"}
    assert spec["template"]["spec"]["nodeSelector"] == {"a": "b"}


@pytest.mark.parametrize("has_service", [True, False])
@pytest.mark.parametrize("size", [1, 2])
def test_a_group_with_a_subdomain_of_its_own_has_a_service(has_service: bool, size: int) -> None:
    group = Group(size, networkConfig={"subdomainPolicy": "UniquePerReplica"})
    leader = group.pod("lws-0")
    if has_service:
        group.store.create(
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "lws-0", "namespace": "ns"},
                "spec": {},
            }
        )
    made = {a.obj["kind"]: a.obj for a in group.decided("lws-0") if isinstance(a, Create)}
    assert sorted(made) == [*(["Service"] if not has_service else []), *(["StatefulSet"] if size > 1 else [])]
    if size > 1:
        assert made["StatefulSet"]["spec"]["serviceName"] == "lws-0"
    if not has_service:
        assert made["Service"]["spec"] == {
            "clusterIP": "None",
            "selector": {P + "name": "lws", P + "group-index": "0"},
            "publishNotReadyAddresses": True,
        }
        assert [o["uid"] for o in made["Service"]["metadata"]["ownerReferences"]] == [
            leader["metadata"]["uid"]
        ]


@pytest.mark.parametrize(
    ("labels", "node"), [({"zone": "z1"}, "n1"), ({}, "n1"), ({"zone": "z1"}, ""), ({"zone": "z1"}, "gone")]
)
def test_an_exclusive_group_follows_its_leader_into_its_domain(labels: dict[str, str], node: str) -> None:
    group = Group(2, {P + "exclusive-topology": "zone"})
    group.store.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": labels}})
    group.pod("lws-0", node=node)
    made = [a.obj for a in group.decided("lws-0") if isinstance(a, Create)]
    if not labels or node != "n1":
        assert made == [], "nobody knows its domain yet"
        return
    pod = made[0]["spec"]["template"]
    assert pod["spec"]["nodeSelector"] == {"a": "b", "zone": "z1"}
    assert pod["metadata"]["annotations"][P + "exclusive-topology"] == "zone"
    assert group.lws["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["nodeSelector"] == {"a": "b"}


def test_which_pods_a_change_makes_look() -> None:
    group = Group()
    leader = group.pod("lws-0")
    of = group.workers(leader)
    key, lone = Key("Pod", "ns", "lws-0"), {"metadata": {"name": "x", "namespace": "ns"}}
    for kind in (ADDED, MODIFIED, DELETED):
        change = Change(1, kind, key, leader, None)
        assert list(groups.map_change(group.store, change)) == ([] if kind == DELETED else [key])
        assert not groups.map_change(group.store, Change(1, kind, Key("Pod", "ns", "x"), lone, None))
        workers = Change(1, kind, Key("StatefulSet.apps", "ns", "lws-0"), of, None)
        assert list(groups.map_change(group.store, workers)) == ([key] if kind == DELETED else [])
        leaders = {
            "metadata": {
                "name": "lws",
                "namespace": "ns",
                "ownerReferences": group.above("LeaderWorkerSet", group.lws),
            }
        }
        assert not groups.map_change(
            group.store, Change(1, kind, Key("StatefulSet.apps", "ns", "lws"), leaders, None)
        )
