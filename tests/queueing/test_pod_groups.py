"""Groups of pods: which pods stay, go and count, over all small groups; hashes of roles as Go would write them."""

from __future__ import annotations

import json
from hashlib import sha256
from itertools import permutations, product
from typing import Any

import pytest

from fairway.cluster.actions import Delete, Emit, Patch, Replace, SetStatus
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj, name_of
from fairway.kube.timestamps import rfc3339
from fairway.queueing.integrations import podgroup
from fairway.queueing.integrations.integration import Finish, Reclaimable, StopReason
from fairway.queueing.integrations.pod import Pod, held, is_gated, prepared, with_target
from fairway.queueing.integrations.podgroup import FINALIZER, GROUP_NAME, MEMBERS, TOTAL_COUNT
from fairway.queueing.integrations.podsetinfo import BadPodSets, PodSetInfo
from fairway.queueing.integrations.rolehash import ROLE_HASH, role_hash

KIND = Pod()
NOW_US = 1_800_000_000_000_000
_GATE = {"name": "kueue.x-k8s.io/admission"}
_TOPOLOGY = {"name": "kueue.x-k8s.io/topology"}


def pod(
    name: str,
    phase: str = "Pending",
    *,
    role: str = "r",
    total: str = "2",
    group: str = "g",
    age: int = 0,
    finalizer: bool = True,
    gated: bool = False,
    going: bool = False,
    node: str = "",
    queue: str = "lq",
    **annotations: str,
) -> Obj:
    said = {ROLE_HASH: role, **annotations}
    if total:
        said[TOTAL_COUNT] = total
    labels = {"kueue.x-k8s.io/managed": "true", "kueue.x-k8s.io/queue-name": queue}
    if group:
        labels[GROUP_NAME] = group
    meta: Obj = {
        "name": name,
        "namespace": "ns",
        "uid": f"uid-{name}",
        "creationTimestamp": rfc3339((1_700_000_000 + age) * 1_000_000),
        "labels": labels,
        "annotations": said,
    }
    if finalizer:
        meta["finalizers"] = ["other", FINALIZER]
    if going:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    spec: Obj = {"containers": [{"name": "c"}]}
    if gated:
        spec["schedulingGates"] = [_GATE]
    if node:
        spec["nodeName"] = node
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": {"phase": phase}}


def group(*pods: Obj) -> Obj:
    return podgroup.composed(list(pods))


def workload(*pod_sets: tuple[str, int], owners: tuple[str, ...] = (), **status: Any) -> Obj:
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {
            "name": "g",
            "namespace": "ns",
            "generation": 4,
            "annotations": {"kueue.x-k8s.io/is-group-workload": "true"},
            "ownerReferences": [{"kind": "Pod", "name": o, "uid": f"uid-{o}"} for o in owners],
        },
        "spec": {"podSets": [{"name": n, "count": c} for n, c in pod_sets]},
        "status": status,
    }


def _name(action: Any) -> str:
    return str((action.about if isinstance(action, Emit) else action.key).name)


# Which pods it is


def test_which_group_a_pod_is_of() -> None:
    by_label, by_annotation = pod("a"), pod("b", group="")
    by_annotation["metadata"]["annotations"][GROUP_NAME] = "h"
    both = pod("c", **{GROUP_NAME: "h"})
    assert [podgroup.group_name(p) for p in (by_label, by_annotation, both, pod("d", group=""))] == [
        "g",
        "h",
        "h",
        "",
    ]


def test_a_group_is_loaded_by_any_of_its_pods() -> None:
    store = Store()
    going = pod("a", going=True)
    for made in (going, pod("b"), pod("c", group="h"), pod("d", group="")):
        store.load(made)
    elsewhere = pod("e")
    elsewhere["metadata"]["namespace"] = "other"
    store.load(elsewhere)

    def members(name: str) -> list[str] | None:
        found = podgroup.load(store, Key("Pod", "ns", name))
        return None if found is None else [name_of(p) for p in podgroup.members_of(found)]

    assert members("a") == members("b") == ["a", "b"]
    assert members("c") == ["c"]
    single = podgroup.load(store, Key("Pod", "ns", "d"))
    assert single is not None and not podgroup.is_group(single) and name_of(single) == "d"
    loaded = podgroup.load(store, Key("Pod", "ns", "a"))
    assert loaded is not None and podgroup.is_group(loaded)
    assert "deletionTimestamp" not in loaded["metadata"], "a group is never on its way out"
    assert loaded[MEMBERS][0]["metadata"]["deletionTimestamp"]
    assert members("gone") is None
    # The Workload knows whose pod it was.
    of_job = workload(("r", 1), owners=("gone",))
    of_job["metadata"]["ownerReferences"][0]["kind"] = "Job"
    of_job["metadata"]["name"] = "c-job"
    store.load(of_job)
    plain = workload(("r", 1), owners=("gone",))
    plain["metadata"] |= {"name": "plain", "annotations": {}}
    store.load(plain)
    assert members("gone") is None
    store.load(workload(("r", 1), owners=("x", "gone")))
    assert members("gone") == ["a", "b"]
    assert members("x") == ["a", "b"]
    empty = workload(("r", 1), owners=("last",))
    empty["metadata"]["name"] = "nobody"
    store.load(empty)
    assert members("last") is None


@pytest.mark.parametrize(
    ("said", "want"), [("3", 3), ("1", 1), ("0", None), ("-1", None), ("x", None), ("", None)]
)
def test_how_many_there_are_when_it_is_complete(said: str, want: int | None) -> None:
    assert podgroup.total_count(pod("a", total=said)) == want


@pytest.mark.parametrize("phase", ["Pending", "Running", "Succeeded", "Failed", "Unknown"])
@pytest.mark.parametrize(("going", "node"), list(product((False, True), ("", "n"))))
def test_who_can_run(phase: str, going: bool, node: str) -> None:
    it = pod("a", phase, going=going, node=node)
    assert podgroup.can_run(it) == (phase != "Failed" and not (going and not node))
    assert podgroup.is_terminated(it) == (phase in ("Succeeded", "Failed"))


# What it asks for


def test_one_pod_set_for_each_role_by_name() -> None:
    job = group(pod("a", role="z"), pod("b", role="y"), pod("c", role="z"), pod("d", "Failed", role="y"))
    assert [(ps["name"], ps["count"]) for ps in podgroup.pod_sets(KIND, job)] == [("y", 1), ("z", 2)]
    fast = {"kueue.x-k8s.io/pod-group-fast-admission": "true"}
    first = group(pod("x", "Failed", role="w", total="5", **fast), pod("a", role="z", total="5", **fast))
    assert [(ps["name"], ps["count"]) for ps in podgroup.pod_sets(KIND, first)] == [("z", 5)]
    unsaid = group(pod("a", total="", **fast))
    assert [(ps["name"], ps["count"]) for ps in podgroup.pod_sets(KIND, unsaid)] == [("r", 1)]
    slow = {"kueue.x-k8s.io/pod-group-fast-admission": "yes"}
    assert podgroup.pod_sets(KIND, group(pod("a", total="5", **slow)))[0]["count"] == 1
    assert podgroup.pod_sets(KIND, group(pod("a", "Failed"))) == []


def test_templates_hold_nobody_and_say_how_pods_are_numbered() -> None:
    made = pod("a", gated=True)
    made["spec"]["schedulingGates"] = [_GATE, {"name": "mine"}, _TOPOLOGY]
    (one,) = KIND.pod_sets(Store(), made)
    assert (one["name"], one["count"]) == ("main", 1)
    assert one["template"]["spec"] == {"containers": [{"name": "c"}], "schedulingGates": [{"name": "mine"}]}
    assert one["topologyRequest"] == {"podIndexLabel": "kueue.x-k8s.io/pod-group-pod-index"}
    made["spec"]["schedulingGates"] = [_TOPOLOGY]
    assert KIND.pod_sets(Store(), made)[0]["template"]["spec"] == {"containers": [{"name": "c"}]}


def test_its_workload_is_owned_by_all_who_can_run() -> None:
    job = group(pod("a"), pod("b", "Failed"), pod("c", "Succeeded"), pod("d", going=True))
    shaped = podgroup.shaped(job, {"metadata": {"name": "g", "annotations": {"x": "y"}}, "spec": {}})
    assert shaped["metadata"]["annotations"] == {"x": "y", "kueue.x-k8s.io/is-group-workload": "true"}
    assert [r["name"] for r in shaped["metadata"]["ownerReferences"]] == ["a", "c"]
    for reference in shaped["metadata"]["ownerReferences"]:
        assert not reference.get("controller") and not reference.get("blockOwnerDeletion")


# When it is over


@pytest.mark.parametrize("total", ["1", "2", "3", ""])
def test_when_a_group_is_over(total: str) -> None:
    phases = ("Running", "Succeeded", "Failed")
    for chosen in (c for n in (1, 2, 3) for c in product(phases, repeat=n)):
        for final in (None, *range(len(chosen))):
            job = group(
                *(
                    pod(
                        f"p{i}",
                        phase,
                        total=total,
                        **({"kueue.x-k8s.io/retriable-in-group": "false"} if i == final else {}),
                    )
                    for i, phase in enumerate(chosen)
                )
            )
            done = chosen.count("Succeeded")
            is_over = total != "" and (done == int(total) or (final is not None and "Running" not in chosen))
            want = Finish(f"Pods succeeded: {done}/{total}.", True) if is_over else None
            assert podgroup.is_group_over(job) == want, (chosen, final)
            assert KIND.finished(Store(), job) == want
            job["metadata"]["annotations"] = {
                **job["metadata"]["annotations"],
                "kueue.x-k8s.io/pod-group-serving": "true",
            }
            assert podgroup.is_group_over(job) is None
            assert KIND.reclaimable(Store(), job) == []


def test_pods_that_succeeded_are_reclaimable_by_role() -> None:
    phases = [("a", "x", "Succeeded"), ("b", "y", "Succeeded"), ("c", "x", "Succeeded"), ("d", "y", "Failed")]
    job = group(*(pod(n, phase, role=role) for n, role, phase in phases), pod("e", role="z"))
    assert KIND.reclaimable(Store(), job) == [Reclaimable("x", 2), Reclaimable("y", 1)]
    assert KIND.reclaimable(Store(), pod("a", "Succeeded")) == []


def test_a_pod_alone_is_over_with_its_phase() -> None:
    for phase in ("Pending", "Running", "Succeeded", "Failed"):
        alone = pod("a", phase, group="")
        alone["status"]["message"] = "why"
        over = phase in ("Succeeded", "Failed")
        assert KIND.finished(Store(), alone) == (Finish("why", phase == "Succeeded") if over else None)
        del alone["status"]["message"]
        assert KIND.finished(Store(), alone) == (Finish("", phase == "Succeeded") if over else None)
        assert KIND.is_suspended(alone) == over
        assert not KIND.is_active(Store(), alone)
        assert KIND.is_active(Store(), group(pod("b"), alone)) == (phase == "Running")
    assert KIND.is_suspended(group(pod("a"), pod("b", gated=True)))
    assert not KIND.is_suspended(group(pod("a"), pod("b")))


def test_a_group_is_ready_when_all_of_it_is() -> None:
    def ready(name: str, status: str = "True", kind: str = "Ready", total: str = "2") -> Obj:
        made = pod(name, total=total)
        made["status"]["conditions"] = [{"type": kind, "status": status}]
        return made

    store = Store()
    assert KIND.pods_ready(store, group(ready("a"), ready("b")))
    assert KIND.pods_ready(store, group(ready("a"), ready("b"), ready("c")))
    assert not KIND.pods_ready(store, group(ready("a")))
    assert not KIND.pods_ready(store, group(ready("a"), ready("b", "False")))
    assert not KIND.pods_ready(store, group(ready("a"), ready("b", kind="PodScheduled")))
    assert not KIND.pods_ready(store, group(ready("a", total="x")))
    assert KIND.pods_ready(store, ready("a", total="")) and not KIND.pods_ready(store, pod("a"))


def test_another_workload_will_do_if_it_has_room_for_every_role() -> None:
    job = group(pod("a"))

    def will_do(*room: tuple[str, int]) -> bool | None:
        others = [{"name": n, "count": c} for n, c in room]
        return KIND.is_equivalent(job, [{"name": "x", "count": 2}, {"name": "y", "count": 1}], others)

    assert will_do(("x", 2), ("y", 1)) and will_do(("x", 3), ("y", 1), ("z", 1))
    assert not will_do(("x", 1), ("y", 1)) and not will_do(("x", 2))
    assert KIND.is_equivalent(pod("a"), [], []) is None
    assert KIND.is_equivalent(job, [{"name": "x", "count": 0}], []) is False


# Which pods stay, which go


def _rank(it: Obj) -> tuple[bool, bool, str, str]:
    meta = it["metadata"]
    return (
        FINALIZER not in meta.get("finalizers", ()),
        bool(it["spec"].get("schedulingGates")),
        meta["creationTimestamp"],
        meta["name"],
    )


def test_pods_to_keep_come_first() -> None:
    """With the finalizer, not gated, older, by name."""
    pods = [
        pod("d", age=1),
        pod("a", age=2),
        pod("b", age=2),
        pod("e", age=0, gated=True),
        pod("f", age=0, finalizer=False),
        pod("c", age=0, finalizer=False, gated=True),
    ]
    other_gate = pod("g", age=3)
    other_gate["spec"]["schedulingGates"] = [{"name": "mine"}]
    want = ["d", "a", "b", "g", "e", "f", "c"]
    for mixed in list(permutations([*pods, other_gate]))[::97]:
        assert [name_of(p) for p in podgroup._kept_first(list(mixed))] == want


def test_of_each_role_as_many_stay_as_the_workload_counts() -> None:
    """Active ones first, then of those that ended as many as no other took the place of."""
    choices = [
        ("Running", True, False),
        ("Pending", True, True),
        ("Failed", True, False),
        ("Failed", False, False),
    ]
    for count in (0, 1, 2):
        for drawn in (d for n in (1, 2, 3) for d in product(choices, repeat=n)):
            pods = [
                pod(f"p{i}", phase, finalizer=has, gated=gated, age=-i)
                for i, (phase, has, gated) in enumerate(drawn)
            ]
            stranger = pod("s", role="other")
            job = group(*pods, stranger)
            active = sorted((p for p in pods if p["status"]["phase"] != "Failed"), key=_rank)
            lost = [p for p in pods if p["status"]["phase"] == "Failed"]
            excess = active[count:]
            surplus = max(0, min(len(lost), len(lost) + len(active) - count))
            # Those that were let go of already, and the youngest, are given up first.
            by_need = sorted(
                lost,
                key=lambda p: (
                    FINALIZER not in p["metadata"].get("finalizers", ()),
                    p["metadata"]["creationTimestamp"],
                ),
            )
            stay = [*active[:count], *by_need[: len(lost) - surplus]]
            given_up = by_need[len(lost) - surplus :]
            found = podgroup.kept(job, workload(("r", count)))
            assert sorted(map(name_of, podgroup.members_of(found))) == (
                sorted(map(name_of, stay)) or sorted(map(name_of, [*pods, stranger]))
            ), (count, drawn)
            actions = (
                podgroup.upkeep(KIND, job, workload(("r", count), owners=("p0", "p1", "p2")), NOW_US) or []
            )
            assert [a.key.name for a in actions if isinstance(a, Delete)] == [name_of(p) for p in excess]
            lifted = [p for p in (*excess, *given_up) if FINALIZER in p["metadata"].get("finalizers", ())]
            assert [a.key.name for a in actions if isinstance(a, Patch)] == [name_of(p) for p in lifted]
            assert all(
                a.patch == {"metadata": {"finalizers": ["other"]}} for a in actions if isinstance(a, Patch)
            )
            told = [a for a in actions if isinstance(a, Emit)]
            assert [(a.reason, a.message, a.type) for a in told] == [
                ("ExcessPodDeleted", "Excess pod deleted", "Normal")
            ] * len(excess)
            missing = [a for a in actions if isinstance(a, SetStatus)]
            assert bool(missing) == (len(active) < count)


def test_fast_groups_miss_a_role_only_where_nobody_is_there() -> None:
    fast = {"kueue.x-k8s.io/pod-group-fast-admission": "true"}

    def waits(count: int, *phases: str) -> bool:
        job = group(*(pod(f"p{i}", phase, total="3", **fast) for i, phase in enumerate(phases)))
        owners = tuple(f"p{i}" for i in range(len(phases)))
        actions = podgroup.upkeep(KIND, job, workload(("r", count), owners=owners), NOW_US)
        return any(isinstance(a, SetStatus) for a in actions or ())

    assert not waits(3, "Running")
    assert not waits(0, "Failed")
    assert waits(3, "Failed")


def test_pods_that_go_already_are_not_deleted_again() -> None:
    going = pod("b", going=True, node="n", age=1)
    actions = podgroup.upkeep(KIND, group(pod("a"), going), workload(("r", 1), owners=("a",)), NOW_US)
    assert actions == [Patch(Key("Pod", "ns", "b"), {"metadata": {"finalizers": ["other"]}})]
    only = pod("c", finalizer=False)
    only["metadata"]["finalizers"] = [FINALIZER]
    assert podgroup.without_finalizer(only) == Patch(
        Key("Pod", "ns", "c"), {"metadata": {"finalizers": None}}
    )
    assert podgroup.without_finalizer(pod("d", finalizer=False)) is None


def test_all_pods_own_the_workload() -> None:
    job = group(pod("a"), pod("b"), pod("c", "Failed"))
    actions = podgroup.upkeep(KIND, job, workload(("r", 2), owners=("a",)), NOW_US)
    assert actions is not None
    (replaced,) = [a for a in actions if isinstance(a, Replace)]
    assert [r["name"] for r in replaced.obj["metadata"]["ownerReferences"]] == ["a", "b"]
    (told,) = [a for a in actions if isinstance(a, Emit)]
    assert (told.about.name, told.reason, told.message) == (
        "g",
        "OwnerReferencesAdded",
        "Added 1 owner reference(s)",
    )
    assert podgroup.owned_by_all(KIND, workload(owners=("a", "b")), job[MEMBERS][:2]) == []
    assert KIND.claimed(job, workload(owners=("a", "b", "c"))) == []
    assert KIND.claimed(pod("a"), workload()) is None
    assert KIND.upkeep(Store(), pod("a"), None, NOW_US) is None


# Before there is a Workload


def _before(*pods: Obj) -> list[str] | None:
    actions = podgroup.upkeep(KIND, group(*pods), None, NOW_US)
    if actions is None:
        return None
    return [f"{type(a).__name__} {_name(a)}" for a in actions if not isinstance(a, Replace)]


def test_a_group_waits_for_its_workload_until_it_is_whole() -> None:
    assert _before(pod("a"), pod("b")) is None
    assert _before(pod("a")) == ["Emit a"]
    assert _before(pod("a"), pod("b", "Failed")) == ["Patch b", "Emit a"]
    assert _before(pod("a"), pod("b"), pod("c", "Failed")) == ["Patch c"]
    assert _before(pod("a"), pod("b"), pod("c", "Failed", finalizer=False)) is None
    assert _before(pod("a", total="x")) == []
    assert _before(pod("a", total="x"), pod("b", "Failed", total="x")) == ["Patch b"]
    # Of several queues, or not of one mind about how many they are: somebody has to mend that.
    assert _before(pod("a"), pod("b", queue="other")) == []
    assert _before(pod("a"), pod("b", total="3")) == []
    assert _before(pod("a"), pod("b"), pod("c", age=1)) == ["Patch c", "Delete c", "Emit c"]
    assert _before(pod("c", gated=True), pod("b", age=9), pod("a")) == ["Patch c", "Delete c", "Emit c"]
    fast = {"kueue.x-k8s.io/pod-group-fast-admission": "true"}
    assert _before(pod("a", **fast)) is None
    (told,) = [a for a in podgroup.upkeep(KIND, group(pod("a")), None, NOW_US) or () if isinstance(a, Emit)]
    assert (told.type, told.reason) == ("Warning", "ErrWorkloadCompose")
    assert told.message == "'g' group has fewer runnable pods than expected"


# Waiting for pods that replace others

WAITING = "WaitingForReplacementPods"
SAYS = {
    "yes": ("True", "PodsFailed", "Some Failed pods need replacement"),
    "no": ("False", "PodsReady", "No pods need replacement"),
    "evicted": ("True", "Preempted", "to make room"),
}


def _condition(kind: str, status: str, reason: str, message: str) -> Obj:
    at = "2026-01-01T00:00:00Z"
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": at,
        "observedGeneration": 1,
    }


@pytest.mark.parametrize(
    ("was", "is_evicted", "is_finished", "missing", "want"),
    [
        (None, False, False, 0, None),
        (None, True, False, 0, None),
        (None, False, False, 1, "yes"),
        (None, True, False, 1, "evicted"),
        (None, False, True, 1, None),
        ("yes", False, False, 1, None),
        ("yes", True, False, 1, "evicted"),
        ("yes", False, False, 0, "no"),
        ("yes", False, True, 0, None),
        ("no", False, False, 0, None),
        ("no", True, False, 0, None),
        ("no", False, False, 1, "yes"),
        ("evicted", True, False, 1, None),
        ("evicted", False, False, 1, None),
        ("evicted", True, False, 0, "no"),
    ],
)
def test_waiting_for_replacements(
    was: str | None, is_evicted: bool, is_finished: bool, missing: int, want: str | None
) -> None:
    before = [] if was is None else [_condition(WAITING, *SAYS[was])]
    if is_evicted:
        before.append(_condition("Evicted", "True", "Preempted", "to make room"))
    if is_finished:
        before.append(_condition("Finished", "True", "Succeeded", ""))
    pods = [pod("a")] if missing else [pod("a"), pod("b")]
    known = workload(("r", 2), owners=("a", "b"), conditions=before, other="kept")
    actions = podgroup.upkeep(KIND, group(*pods), known, NOW_US)
    if want is None:
        assert actions is None
        return
    assert actions is not None
    (written,) = actions
    assert isinstance(written, SetStatus)
    assert written.status["other"] == "kept"
    (found,) = [c for c in written.status["conditions"] if c["type"] == WAITING]
    assert (found["status"], found["reason"], found["message"]) == SAYS[want]
    is_new = was is None or SAYS[was][0] != SAYS[want][0]
    assert found["lastTransitionTime"] == (rfc3339(NOW_US) if is_new else "2026-01-01T00:00:00Z")
    assert found["observedGeneration"] == 4
    assert len(written.status["conditions"]) == len(before) + (was is None)


# Starting, stopping


def test_each_pod_starts_with_what_its_role_was_given() -> None:
    infos = [PodSetInfo(name=n, count=1, node_selector={"pool": n}) for n in ("x", "y")]
    running = pod("c", "Running", role="x")
    job = group(pod("a", role="y", gated=True), pod("b", role="x", gated=True), running)
    actions = KIND.start(Store(), job, infos, "off you go")
    started = [(a.obj["metadata"]["name"], a.obj["spec"]) for a in actions if isinstance(a, Replace)]
    assert [(n, s["nodeSelector"], "schedulingGates" in s) for n, s in started] == [
        ("a", {"pool": "y"}, False),
        ("b", {"pool": "x"}, False),
    ]
    told = [(a.about.name, a.reason, a.message, a.type) for a in actions if isinstance(a, Emit)]
    assert told == [(n, "Started", "off you go", "Normal") for n in ("a", "b")]
    (alone,) = [
        a for a in KIND.start(Store(), pod("p", gated=True), infos[:1], "m") if isinstance(a, Replace)
    ]
    assert alone.obj["spec"]["nodeSelector"] == {"pool": "x"}
    assert KIND.start(Store(), pod("p"), infos[:1], "m") == []
    with pytest.raises(BadPodSets, match="invalid podset infos: expecting 1 pod set got 2"):
        KIND.start(Store(), pod("p", gated=True), infos, "m")
    with pytest.raises(BadPodSets, match="podSetInfo with the name 'z' is not found"):
        KIND.start(Store(), group(pod("a", role="z", gated=True)), infos, "m")


def test_gates_stay_where_a_topology_was_given() -> None:
    made = pod("a")
    made["spec"]["schedulingGates"] = [_GATE, _TOPOLOGY, {"name": "mine"}]
    free = prepared(made, PodSetInfo(name="r", count=1))
    assert free["spec"]["schedulingGates"] == [{"name": "mine"}]
    placed = prepared(made, PodSetInfo(name="r", count=1, gates=(_TOPOLOGY,)))
    assert {g["name"] for g in placed["spec"]["schedulingGates"]} == {_TOPOLOGY["name"], "mine"}
    assert is_gated(made) and not is_gated(free) and not is_gated(placed)


def test_who_is_stopped() -> None:
    job = group(
        pod("run", "Running"),
        pod("gated", gated=True),
        pod("done", "Succeeded"),
        pod("going", "Running", going=True, node="n"),
    )

    def stopped(reason: str, it: Obj = job) -> list[tuple[str, str]]:
        actions = KIND.stop(Store(), it, None, reason, "told why")
        for action in actions:
            if isinstance(action, Emit):
                assert (action.reason, action.message, action.type) == ("Stopped", "told why", "Normal")
            if isinstance(action, SetStatus):
                (target,) = action.status["conditions"]
                assert target == {
                    "type": "TerminationTarget",
                    "status": "True",
                    "reason": reason,
                    "message": "told why",
                }
        return [(type(a).__name__, _name(a)) for a in actions if not isinstance(a, Replace)]

    def all_of(*names: str) -> list[tuple[str, str]]:
        return [(kind, name) for name in names for kind in ("SetStatus", "Delete", "Emit")]

    assert stopped(StopReason.WORKLOAD_EVICTED) == all_of("run")
    lifted = [("Patch", name) for name in ("run", "gated", "done", "going")]
    assert stopped(StopReason.WORKLOAD_DELETED) == [*all_of("run", "gated", "done"), *lifted]
    assert stopped(StopReason.WORKLOAD_DELETED, pod("a", "Running")) == all_of("a")
    kept = pod("a")
    kept["status"]["conditions"] = [{"type": "TerminationTarget", "old": 1}, {"type": "Ready"}]
    assert [c["type"] for c in with_target(kept, "R", "m")["conditions"]] == ["Ready", "TerminationTarget"]


def test_a_pod_enters_held() -> None:
    plain: Obj = {"metadata": {"name": "p", "labels": {"i": "7"}}, "spec": {"containers": []}}
    made = held(plain)
    assert made["metadata"]["labels"] == {"i": "7", "kueue.x-k8s.io/managed": "true"}
    assert made["metadata"]["finalizers"] == [FINALIZER]
    assert made["metadata"]["annotations"] == {ROLE_HASH: role_hash(plain["spec"])}
    assert made["spec"]["schedulingGates"] == [_GATE]
    assert held(made, with_topology_gate=True)["spec"]["schedulingGates"] == [_GATE, _TOPOLOGY]
    assert held(held(made)) == made
    said = {"kueue.x-k8s.io/pod-group-pod-index-label": "i", ROLE_HASH: "told"}
    numbered = {**plain, "metadata": {**plain["metadata"], "annotations": said}}
    assert held(numbered)["metadata"]["labels"].get("kueue.x-k8s.io/pod-group-pod-index") is None
    there = held(numbered, with_topology_gate=True)["metadata"]
    assert there["labels"]["kueue.x-k8s.io/pod-group-pod-index"] == "7"
    assert there["annotations"][ROLE_HASH] == "told"
    childs = {"metadata": {"annotations": {"kueue.x-k8s.io/pod-suspending-parent": "x"}}, "spec": {}}
    of_parent = held(childs)
    assert "finalizers" not in of_parent["metadata"] and of_parent["metadata"]["labels"] == {}


# Hashes of roles, from JSON written by hand


def _go(**fields: str) -> str:
    """The shape as Go prints it: fields by name, of structs in their order."""
    names = (
        "affinity containers initContainers nodeSelector overhead priority resourceClaims runtimeClassName"
    )
    empty = dict.fromkeys((*names.split(), "tolerations", "topologySpreadConstraints"), "null")
    inner = ",".join(f'"{name}":{text}' for name, text in sorted({**empty, **fields}.items()))
    text = f'{{"spec":{{{inner}}}}}'
    json.loads(text)
    return sha256(text.encode()).hexdigest()[:8]


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({}, {}),
        (
            {"containers": [{"resources": {"requests": {"memory": "1024Mi", "cpu": "1000m"}}}]},
            {"containers": '[{"ports":null,"resources":{"requests":{"cpu":"1","memory":"1Gi"}}}]'},
        ),
        (
            {"initContainers": [{"name": "a"}, {"resources": {"requests": {"cpu": 2}}}]},
            {
                "initContainers": '[{"ports":null,"resources":{"requests":null}},'
                '{"ports":null,"resources":{"requests":{"cpu":"2"}}}]'
            },
        ),
        (
            {
                "containers": [
                    {
                        "ports": [
                            {"protocol": "TCP", "containerPort": 80, "hostPort": 0, "name": ""},
                            {"hostPort": 1, "name": "n", "containerPort": 2, "hostIP": "h"},
                        ]
                    }
                ]
            },
            {
                "containers": '[{"ports":[{"containerPort":80,"protocol":"TCP"},'
                '{"name":"n","hostPort":1,"containerPort":2,"hostIP":"h"}],"resources":{"requests":null}}]'
            },
        ),
        (
            {
                "tolerations": [
                    {"effect": "NoExecute", "key": "k", "tolerationSeconds": 0, "value": ""},
                    {"operator": "Exists", "tolerationSeconds": None},
                ]
            },
            {"tolerations": '[{"key":"k","effect":"NoExecute","tolerationSeconds":0},{"operator":"Exists"}]'},
        ),
        ({"overhead": {"cpu": "0.5"}, "priority": 0}, {"overhead": '{"cpu":"500m"}', "priority": "0"}),
        (
            {"resources": {"requests": {"cpu": "2"}}, "runtimeClassName": "é"},
            {"resources": '{"cpu":"2"}', "runtimeClassName": '"é"'},
        ),
        ({"resources": {}}, {"resources": "null"}),
        ({"nodeSelector": {"b": "1", "a": "2"}}, {"nodeSelector": '{"a":"2","b":"1"}'}),
    ],
)
def test_hashes_of_roles(spec: Obj, want: dict[str, str]) -> None:
    assert role_hash(spec) == _go(**want)
