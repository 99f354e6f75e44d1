"""Which look follows which change: the whole queue of looks after one change, both sides of every rule.

The reading of Kueue's event filters: pkg/controller/core (workload_controller.go, clusterqueue_controller.go,
localqueue_controller.go, resourceflavor_controller.go), pkg/controller/jobframework/reconciler.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from random import Random
from typing import Any

import pytest
from kueueworld import KUEUE, World, flavor, job, local_queue, node, priority_class, queue

from fairway.cluster.actions import Create, Delete, Emit, Patch, Replace, SetStatus
from fairway.cluster.changes import ADDED, DELETED, MODIFIED, Change
from fairway.kube.objects import Key, Obj, key_of, name_of
from fairway.kube.timestamps import MINUTE_US, SECOND_US
from fairway.queueing.control.settings import DEFAULT_KUEUE, KueueSettings, PodsReady
from fairway.queueing.integrations.ownership import WORKLOAD
from fairway.queueing.quota.queueusage import UsageSettings
from fairway.twin.eventlog import Record
from fairway.twin.kueue import component
from fairway.twin.kueue.component import Kueue

GOING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u", "controller": True}
CLUSTER_QUEUE = "ClusterQueue.kueue.x-k8s.io"


def settled(settings: KueueSettings = DEFAULT_KUEUE) -> World:
    """`a` with quota, its LocalQueue, a node and one job that holds two GPUs; nobody has anything left to do."""
    world = World(settings).apply(queue("a", 4), local_queue("a"), node("n1", 8))
    world.apply(job("train", "a", gpus=2)).run(5)
    assert world.admitted() == ["train"] and looks(world) == []
    assert not world.kueue.backlog.touched.has_news, "and all that was touched was followed up"
    return world


def looks(world: World) -> list[tuple[str, str, float]]:
    """What is to be looked at, and in how many seconds."""
    loop, now_us = world.twin.loop, world.twin.now_us
    due: dict[int, float] = {}
    for key, slot in loop._slots.items():
        events: Any = slot[slot[0] :] if isinstance(slot, list) else [slot]
        due.update({event[0]: ((key >> 6) - now_us) / SECOND_US for event in events})
    return sorted((tag, key[2], due[ticket]) for (tag, key), ticket in world.kueue._queued.items())


def reminders(world: World) -> int:
    """How many looks are planned for a time."""
    loop = world.twin.loop
    slots: list[Any] = [
        slot[slot[0] :] if isinstance(slot, list) else [slot] for slot in loop._slots.values()
    ]
    planned = [event[0] for events in slots for event in events if event[1] == world.kueue._remind]
    return len([ticket for ticket in planned if ticket not in loop._cancelled])


def heard(
    world: World, obj: Obj, old: Obj | None = None, *, gone: bool = False
) -> list[tuple[str, str, float]]:
    """The looks that one change brings about."""
    change = DELETED if gone else ADDED if old is None else MODIFIED
    world.kueue._queued = {}
    world.kueue.observe(Change(world.twin.store.version, change, key_of(obj), obj, old))
    return looks(world)


def at(obj: Obj, **meta: Any) -> Obj:
    return {**obj, "metadata": {**obj["metadata"], **meta}}


def but(obj: Obj, **fields: Any) -> Obj:
    return {**obj, **fields}


# Workloads: what calls for a look of their controller.


def condition(kind: str, status: str = "True", reason: str = "R", message: str = "") -> Obj:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def workload(*conditions: Obj, meta: Obj | None = None, spec: Obj | None = None, **status: Any) -> Obj:
    return {
        "apiVersion": KUEUE,
        "kind": "Workload",
        "metadata": {"name": "w", "namespace": "a", **(meta or {})},
        "spec": spec or {"queueName": "lq"},
        "status": {"conditions": list(conditions), **status},
    }


def changed(old: Obj, *conditions: Obj, **status: Any) -> Obj:
    """The same object with another status."""
    return {**old, "status": {"conditions": list(conditions), **status}}


HOLDS, HELD = condition("QuotaReserved"), condition("QuotaReserved", message="in other words")
IN = condition("Admitted")
EVICTED, PREEMPTED, READY = condition("Evicted"), condition("Preempted"), condition("PodsReady")
OUT, GONE = condition("QuotaReserved", "False", "Suspended"), condition("Admitted", "False")


def waits(reason: str, message: str = "") -> Obj:
    return condition("QuotaReserved", "False", reason, message)


TOLD = (
    "WaitingForQuota",
    "NoMatchingFlavor",
    "ExceedsMaxQuota",
    "TopologyPlacementFailed",
    "WaitingForPreemptedWorkloads",
    "WaitingForPodsReady",
)
NEVER, ALWAYS = (False, False, False), (True, True, True)
TIMED, WATCHED = (False, True, False), (False, True, True)
"""Whether it is looked at: as Kueue is without `waitForPodsReady`; with a time limit; with `waitForPodsReady`."""

STEPS: list[tuple[str, tuple[Obj, ...], tuple[Obj, ...], tuple[bool, bool, bool]]] = [
    ("nothing", (HOLDS, IN), (HOLDS, IN), NEVER),
    ("other words alone", (HOLDS,), (HELD,), NEVER),
    ("nothing, and nothing is known", (), (), NEVER),
    ("words of what is misconfigured", (waits("Misconfigured"),), (waits("Misconfigured", "else"),), ALWAYS),
    ("words of what waits", (waits("WaitingForQuota"),), (waits("WaitingForQuota", "else"),), NEVER),
    ("evicted with quota", (HOLDS, IN), (HOLDS, IN, EVICTED), TIMED),
    ("evicted before it is admitted", (HOLDS,), (HOLDS, EVICTED), TIMED),
    ("preempted with quota", (HOLDS,), (HOLDS, PREEMPTED, EVICTED), TIMED),
    ("admitted", (OUT, GONE), (HOLDS, IN), WATCHED),
    ("admitted again", (OUT, GONE, EVICTED, PREEMPTED), (HOLDS, IN), WATCHED),
    ("quota without admission", (OUT,), (HOLDS,), ALWAYS),
    ("quota, and admission is refused", (OUT,), (HOLDS, GONE), ALWAYS),
    ("admitted before its pods are ready", (HOLDS, IN), (HOLDS, IN, READY), ALWAYS),
    ("evicted and no longer ready", (HOLDS, IN, READY), (HOLDS, IN, EVICTED), ALWAYS),
    ("quota is taken away", (HOLDS, IN), (OUT, GONE), ALWAYS),
    ("admission alone goes", (waits("WaitingForQuota"), IN), (waits("WaitingForQuota"), GONE), NEVER),
    ("something else beside", (waits("WaitingForQuota"),), (waits("WaitingForQuota"), PREEMPTED), ALWAYS),
    ("never seen by a cycle", (), (condition("Requeued"),), ALWAYS),
    *(("refused by a cycle: " + told, (OUT,), (waits(told),), NEVER) for told in TOLD),
    *(
        ("told by others: " + other, (waits("WaitingForQuota"),), (waits(other),), ALWAYS)
        for other in ("Suspended", "Misconfigured", "PendingEvaluation", "AdmissionGated", "OnHold")
    ),
]


@pytest.mark.parametrize(("before", "after", "wanted"), [s[1:] for s in STEPS], ids=[s[0] for s in STEPS])
def test_conditions_that_call_for_a_look(
    before: tuple[Obj, ...], after: tuple[Obj, ...], wanted: tuple[bool, bool, bool]
) -> None:
    plain, watching = (Kueue(replace(DEFAULT_KUEUE, pods_ready=p)) for p in (None, PodsReady()))
    free, limited = workload(*before), workload(*before, spec={"maximumExecutionTimeSeconds": 0})
    asked = ((plain, free), (plain, limited), (watching, free))
    assert tuple(kueue._calls_for_look(old, changed(old, *after)) for kueue, old in asked) == wanted


def test_other_fields_that_call_for_a_look() -> None:
    kueue = Kueue()
    check, state = {"admissionChecks": [{"name": "c"}]}, {"requeueState": {"count": 1}}
    plain = workload(HOLDS, meta={"labels": {"a": "1"}, "annotations": {"x": "1"}})
    with_checks, requeued = changed(plain, HOLDS, **check), changed(plain, HOLDS, **state)
    noted = at(plain, annotations={"x": "2"})
    steps = [
        (plain, but(plain, spec=dict(plain["spec"])), True),
        (plain, at(plain, **GOING), True),
        (at(plain, **GOING), plain, True),
        (plain, at(plain, labels={"a": "2"}), False),
        (plain, noted, True),
        (plain, at(plain, annotations={"x": "1"}), False),
        (plain, requeued, True),
        (requeued, plain, False),
        (plain, with_checks, True),
        (with_checks, plain, True),
        (plain, changed(plain, HOLDS, admissionChecks=[]), False),
    ]
    assert [kueue._calls_for_look(old, new) for old, new, _ in steps] == [wanted for *_, wanted in steps]


def test_conditions_that_changed() -> None:
    """Against sets of (type, status, reason): whatever is in one of them alone."""
    draw = Random(7)
    for _ in range(300):
        one, two = (
            [
                condition(kind, draw.choice(("True", "False")), draw.choice("RS"), draw.choice("mn"))
                for kind in draw.sample("ABCD", draw.randint(0, 3))
            ]
            for _ in range(2)
        )
        seen = [{(c["type"], c["status"], c["reason"]) for c in found} for found in (one, two)]
        wanted = {kind for kind, *_ in seen[0] ^ seen[1]}
        shared = [*two, *(c for c in one if c["type"] not in {d["type"] for d in two})]
        assert component._changed_conditions({"conditions": one}, {"conditions": two}) == wanted
        assert component._changed_conditions({"conditions": one}, {"conditions": shared}) == {
            kind for kind in wanted if kind in {c["type"] for c in two}
        }
    assert component._changed_conditions({}, {}) == set()
    assert component._changed_conditions({"conditions": [IN]}, {}) == {"Admitted"}


# Workloads: what their jobs hear.

OF_JOBS = ("QuotaReserved", "Admitted", "Evicted", "Finished", "PodsReady", "WaitingForReplacementPods")


def test_what_of_a_workload_concerns_its_job() -> None:
    old = workload(IN, meta={"labels": {"a": "1"}, "annotations": {"x": "1"}})
    same_conditions = but(old, status={**old["status"], "reclaimablePods": []})
    concerns = component._concerns_job
    assert concerns(None, old)
    assert concerns(old, but(old, spec=dict(old["spec"])))
    assert concerns(old, at(old, **GOING)) and concerns(old, at(old, ownerReferences=[OWNER]))
    assert concerns(at(old, ownerReferences=[OWNER]), old)
    assert concerns(old, at(old, annotations={"x": "2"}))
    assert not concerns(old, at(old, labels={"a": "2"})) and not concerns(old, same_conditions)
    assert concerns(old, but(old, status={**old["status"], "admissionChecks": []}))
    for kind in OF_JOBS:
        here = workload(condition(kind), condition("Requeued"))
        assert not concerns(here, changed(here, condition(kind, message="else"), condition("Requeued")))
        assert not concerns(here, changed(here, condition(kind), condition("Requeued", "False")))
        for other in (condition(kind, "False"), condition(kind, reason="S"), condition("Preempted")):
            assert concerns(here, changed(here, other)), (kind, other)
            assert concerns(changed(here, other), here), (kind, other)


def test_a_finished_workload_is_settled_unless_it_is_kept_or_somebody_has_to_take_leave_of_it() -> None:
    over, uid = condition("Finished"), {"labels": {"kueue.x-k8s.io/job-uid": "u"}}
    cases: list[tuple[Obj, bool]] = [
        (workload(over), True),
        (workload(condition("Finished", "False")), False),
        (workload(over, meta=GOING), False),
        (workload(over, meta=uid), False),
        (workload(over, meta={**uid, "ownerReferences": [OWNER]}), True),
        (workload(over, meta={**GOING, "ownerReferences": [OWNER]}), True),
        (workload(over, meta={"labels": {"kueue.x-k8s.io/job-uid": ""}, "ownerReferences": []}), True),
    ]
    plain, keeping = Kueue(), Kueue(replace(DEFAULT_KUEUE, retained_us=MINUTE_US))
    for obj, wanted in cases:
        assert plain._is_settled(obj) is wanted, obj
        assert keeping._is_settled(obj) is False


def test_a_workload_that_changes_is_looked_at_and_so_is_its_job() -> None:
    world = settled()
    found = world.workload("train")
    stranger = {**OWNER, "kind": "Foo", "apiVersion": "example.com/v1"}
    named = name_of(found)
    respecified = but(found, spec={**found["spec"], "active": True})
    queues = [("status", "a", 1.0), ("status", "lq", 1.0)]
    assert heard(world, respecified, found) == [("job", "train", 0), ("look", named, 0), *queues]
    orphan = at(respecified, ownerReferences=[stranger])
    assert heard(world, orphan, at(found, ownerReferences=[stranger])) == [("look", named, 0), *queues]
    told = [c for c in found["status"]["conditions"] if c["type"] != "PodsReady"]
    unready = changed(found, *told, admission=found["status"]["admission"])
    assert heard(world, unready, found) == [("job", "train", 0), ("look", named, 0), *queues]
    # Its own write has decided all there was: nobody hears of it twice.
    world.kueue._echoes = {key_of(found): respecified}
    assert heard(world, respecified, found) == [("look", named, 0), *queues]
    assert world.kueue._echoes == {}
    # It ends: its job is told while there is one, and no deadline of its matters.
    world.kueue.again_at(("look", key_of(found)), world.twin.now_us + 7 * SECOND_US)
    assert reminders(world) == 1
    ended = changed(found, condition("Finished"), *told, admission=found["status"]["admission"])
    assert heard(world, ended, found) == [("job", "train", 0), *queues]
    assert world.kueue._again == {} and reminders(world) == 0
    assert heard(world, ended, gone=True)[0] == ("job", "train", 0)
    # A job of one object that is gone too has nobody to be told.
    world.twin.store.delete(Key("Job.batch", "a", "train"))
    assert ("job", "train", 0) not in heard(world, ended, gone=True)


# Jobs and pods.


def test_a_job_that_changes_is_looked_at_unless_kueue_wrote_it() -> None:
    world = settled()
    found = world.job("train", "a")
    assert heard(world, but(found, spec={**found["spec"], "parallelism": 3}), found) == [("job", "train", 0)]
    echo = but(found, spec={**found["spec"], "suspend": False})
    world.kueue._echoes = {key_of(found): echo}
    assert heard(world, echo, found) == []
    assert heard(world, but(echo, spec={**found["spec"], "parallelism": 3}), echo) == [("job", "train", 0)]
    assert heard(world, found, gone=True) == [("job", "train", 0)]
    # Without a Workload there is nothing to look after.
    assert heard(world, job("stranger", "a"), gone=True) == []


def test_pods_of_elastic_jobs_are_let_go_a_second_after_they_came() -> None:
    world = settled()
    gates = {"schedulingGates": [{"name": "kueue.x-k8s.io/elastic-job"}], "containers": []}

    def pod(spec: Obj, *owners: Obj) -> Obj:
        meta = {"name": "p", "namespace": "a", "uid": "p", "ownerReferences": list(owners)}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}

    set_of_replicas = {**OWNER, "kind": "ReplicaSet", "apiVersion": "apps/v1"}
    gated, other = pod(gates, set_of_replicas, OWNER), {**gates, "schedulingGates": [{"name": "other"}]}
    assert heard(world, gated) == [("job", "train", 1.0)]
    assert heard(world, at(gated, labels={"a": "b"}), gated) == []
    assert heard(world, pod(other, OWNER)) == [] and heard(world, pod({"containers": []}, OWNER)) == []
    assert heard(world, pod(gates, set_of_replicas)) == []


# Configuration.

FINALIZED = ("ClusterQueue", "ResourceFlavor", "AdmissionCheck", "Topology")


def of_kueue(kind: str, name: str, spec: Obj | None = None, **meta: Any) -> Obj:
    return {"apiVersion": KUEUE, "kind": kind, "metadata": {"name": name, **meta}, "spec": spec or {}}


@pytest.mark.parametrize("kind", [*FINALIZED, "Cohort", "LocalQueue"])
def test_finalizers_are_looked_after_where_there_are_some(kind: str) -> None:
    world = settled()
    namespace = {"namespace": "a"} if kind == "LocalQueue" else {}
    new = of_kueue(kind, "new", {"levels": [{"nodeLabel": "x"}]} if kind == "Topology" else {}, **namespace)
    steps = [
        (None, new),
        (new, but(new, status={"conditions": []})),
        (new, at(new, finalizers=["x"])),
        (at(new, finalizers=["x"]), at(new, finalizers=["x"], labels={"a": "b"})),
        (at(new, finalizers=["x"]), at(new, finalizers=["x"], **GOING)),
    ]
    looked = [("look", "new", 0.0) in heard(world, after, before) for before, after in steps]
    wanted = [True, False, True, False, True] if kind in FINALIZED else [False] * 5
    assert looked == wanted
    assert ("look", "new", 0.0) not in heard(world, new, gone=True)


def test_the_words_of_a_cluster_queue_reach_its_local_queues() -> None:
    world = settled()
    found = world.twin.store.require(Key(CLUSTER_QUEUE, "", "a"))
    words = found["status"]["conditions"]
    counted = but(found, status={**found["status"], "pendingWorkloads": 9})
    stopped = but(found, status={**found["status"], "conditions": [{**words[0], "status": "False"}]})
    assert ("status", "lq", 0) not in heard(world, counted, found)
    assert ("status", "lq", 0) in heard(world, stopped, found)
    assert ("status", "lq", 0) in heard(world, found)


@pytest.mark.parametrize("kind", FINALIZED)
def test_what_a_cluster_queue_lets_go_of_may_leave(kind: str) -> None:
    """Flavors, checks and topologies that wait to go are looked at once a queue changes, or goes."""
    world = settled()
    spec = {"levels": [{"nodeLabel": "x"}]} if kind == "Topology" else {"controllerName": "x"}
    if kind == "ClusterQueue":
        spec = {}
    for name in ("going", "stays"):
        world.twin.store.create(of_kueue(kind, name, spec, finalizers=["kueue.x-k8s.io/resource-in-use"]))
    world.twin.store.delete(Key(f"{kind}.kueue.x-k8s.io", "", "going"))
    found = world.twin.store.require(Key(CLUSTER_QUEUE, "", "a"))
    respecified = but(found, spec={**found["spec"], "stopPolicy": "Hold"})
    told = [
        [look for look in heard(world, *step, gone=gone) if look[0] == "look"]
        for step, gone in (
            ((found,), False),
            ((at(found, labels={"a": "b"}), found), False),
            ((respecified, found), False),
            ((found,), True),
        )
    ]
    looked = [("look", "going", 0)] if kind != "ClusterQueue" else []
    assert told == [[("look", "a", 0)], [], looked, looked]


@pytest.mark.parametrize(
    ("obj", "retries"),
    [
        (flavor("new"), True),
        (priority_class("new", 5), True),
        ({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "new"}}, True),
        (of_kueue("Cohort", "new"), False),
        (queue("new", 1), False),
        ({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new"}}, False),
    ],
    ids=lambda found: found["kind"] if isinstance(found, dict) else "",
)
def test_who_was_blocked_is_tried_again_when_what_may_be_missing_comes(obj: Obj, retries: bool) -> None:
    world = settled()
    blocked = ("job", Key("Job.batch", "a", "blocked"))
    for gone in (False, True):
        world.kueue._blocked = {blocked: None}
        looked = [look for look in heard(world, obj, gone=gone) if look[0] != "status"]
        own = (
            [("look", "new", 0)] if obj["kind"] in ("WorkloadPriorityClass", *FINALIZED) and not gone else []
        )
        assert looked == [*([("job", "blocked", 0)] if retries else []), *own]
        assert world.kueue._blocked == ({} if retries else {blocked: None})


def test_whose_status_is_written_is_named_once() -> None:
    world = settled()
    kueue, local = world.kueue, "LocalQueue.kueue.x-k8s.io"
    names = {(CLUSTER_QUEUE, "a"): Key(CLUSTER_QUEUE, "", "a"), (local, "a/lq"): Key(local, "a", "lq")}
    assert kueue._status_items == {queue_: ("status", key) for queue_, key in names.items()}
    kueue._queued = {}
    for queue_ in names:
        kueue._enqueue_queue(queue_, 2 * SECOND_US)
        kueue._enqueue_queue(queue_, 0)
    assert looks(world) == [("status", "a", 2.0), ("status", "lq", 2.0)], "the first to ask says when"


# Asleep and awake.


@pytest.mark.parametrize("kind", [*FINALIZED, "Cohort", "LocalQueue", "Workload", "WorkloadPriorityClass"])
def test_its_webhooks_are_there_with_the_first_object_of_kueue(kind: str) -> None:
    world = World()
    world.delete("ResourceFlavor.kueue.x-k8s.io", "default")
    kueue = Kueue()
    kueue.host = world.twin.host

    def are_there() -> bool:
        return kueue.webhook_settings is kueue.settings.webhooks

    assert kueue.webhook_settings is None and not are_there()
    namespace = "a" if kind in ("LocalQueue", "Workload") else ""
    world.twin.store.create(of_kueue(kind, "first", {}, **({"namespace": namespace} if namespace else {})))
    assert are_there()
    world.twin.store.delete(Key(f"{kind}.kueue.x-k8s.io", namespace, "first"))
    assert not are_there()
    kueue.is_awake = True
    assert are_there()


# Writing.


NAMELESS = "metadata.name: Required value: name or generateName is required"


def told_of(world: World) -> list[Record]:
    found: list[Record] = []
    world.twin.host.log.flush()
    world.twin.host.log.sinks.append(found.extend)
    return found


def test_what_is_refused_is_on_record_and_tried_again_ever_later() -> None:
    world = settled()
    kueue, about = world.kueue, Key("Job.batch", "a", "train")
    records = told_of(world)
    item = ("job", about)
    nameless: Obj = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"namespace": "a"}}
    refused = Create(nameless)
    labelled = Patch(about, {"metadata": {"labels": {"x": "y"}}})
    waits_s = []
    for _ in range(20):
        kueue._queued = {}
        kueue._carry_out(
            item, (Emit(about, "Normal", "Tried", "once more", "me"), refused, labelled), settles=True
        )
        waits_s.append(looks(world))
    assert waits_s == [[("job", "train", min(0.005 * 2**n, 1000))] for n in range(20)]
    assert "x" not in world.job("train", "a")["metadata"]["labels"], "nothing after what was refused"
    world.twin.host.log.flush()
    assert [(r.component, r.name, r.reason, r.message) for r in records[:2]] == [
        ("me", "train", "Tried", "once more"),
        ("kueue", "train", "Refused", 'Job.batch "" is invalid: ' + NAMELESS),
    ]
    kueue._carry_out(item, (labelled,), settles=False)
    assert world.job("train", "a")["metadata"]["labels"]["x"] == "y"
    assert kueue._failures == {} and kueue._echoes == {}
    assert kueue.retry_at_us(item) == world.twin.now_us + 5_000


def test_a_write_that_settles_all_is_known_again_where_it_is_the_only_one() -> None:
    world = settled()
    kueue, about = world.kueue, Key("Job.batch", "a", "train")
    labelled = Patch(about, {"metadata": {"labels": {"x": "y"}}})
    kueue._carry_out(("job", about), (labelled,), settles=True)
    assert kueue._echoes == {about: world.job("train", "a")}
    kueue._echoes = {}
    # Nothing changed: nobody will hear of it.
    kueue._carry_out(("job", about), (labelled,), settles=True)
    assert kueue._echoes == {}


def test_which_actions_are_requests_and_of_which_kind() -> None:
    world = settled()
    store, about = world.twin.store, Key(CLUSTER_QUEUE, "", "a")
    found, made = store.require(about), queue("b", 1)
    written = {**found["status"], "pendingWorkloads": 7}
    actions: list[tuple[Any, bool, str]] = [
        (SetStatus(about, found["status"]), False, CLUSTER_QUEUE),
        (SetStatus(about, written), True, CLUSTER_QUEUE),
        (SetStatus(Key(CLUSTER_QUEUE, "", "nobody"), written), False, CLUSTER_QUEUE),
        (Patch(Key("Job.batch", "a", "train"), {}), True, "Job.batch"),
        (Create(made), True, CLUSTER_QUEUE),
        (Replace(world.job("train", "a")), True, "Job.batch"),
        (Delete(Key(WORKLOAD, "a", "w"), "u", None, "Background"), True, WORKLOAD),
        (Emit(Key(WORKLOAD, "a", "w"), "Normal", "R", "m", "me"), True, WORKLOAD),
    ]
    for action, is_request, kind in actions:
        assert (component._is_request(store, action), component._kind_written(action)) == (is_request, kind)


def test_a_look_waits_for_the_tokens_of_its_requests_and_is_made_anew_then() -> None:
    world = settled()
    kueue, about = world.kueue, Key(WORKLOAD, "a", name_of(world.workload("train")))
    item = ("look", about)
    kueue.requests.limit(1, 1)
    write, words = Patch(about, {"metadata": {"labels": {"x": "y"}}}), Emit(about, "Normal", "R", "m", "me")

    def held_back(*actions: Any) -> tuple[bool, list[tuple[str, str, float]]]:
        kueue._queued = {}
        return kueue._is_held_back(item, actions), looks(world)

    assert held_back(words) == (False, [])
    assert held_back(write) == (False, [])
    assert held_back(words, words) == (False, []), "words are no requests"
    assert held_back(write, write) == (True, [("look", name_of(world.workload("train")), 2.0)])
    assert kueue._granted == {item: None}
    # Its time has come: it writes whatever it has to.
    assert held_back(write) == (False, []) and kueue._granted == {}
    assert held_back(write) == (True, [("look", name_of(world.workload("train")), 3.0)])


def test_reminders_and_looks_that_come_before_them() -> None:
    world = settled()
    kueue = world.kueue
    found = key_of(world.workload("train"))
    item = ("look", found)
    kueue.again_at(item, world.twin.now_us + 9 * SECOND_US)
    world.run(8)
    assert item in kueue._again and item not in kueue._queued
    kueue.enqueue(item)
    world.run(0)
    assert item not in kueue._again, "a look in between says itself when the next one is due"
    world.run(2)
    kueue.again_at(item, world.twin.now_us + SECOND_US)
    kueue._on_again(item)
    assert item in kueue._queued and item not in kueue._again


# Forks.


def test_a_fork_has_all_that_is_known_and_shares_nothing_that_changes() -> None:
    kueue, item, key = Kueue(), ("look", Key(WORKLOAD, "a", "w")), Key("Job.batch", "a", "j")
    kueue.is_awake = True
    kueue._queued, kueue._again, kueue._failures = {item: 3}, {item: 4}, {item: 5}
    kueue._granted, kueue._blocked = {item: None}, {("job", key): None}
    kueue._echoes, kueue._waking = {key: workload()}, {"root": None}
    kueue._drained_version, kueue._is_sampling, kueue._is_draining = 17, True, True
    fork = kueue.fork()

    def state(one: Kueue) -> list[Any]:
        tables: Iterable[Any] = (
            one._queued,
            one._again,
            one._failures,
            one._granted,
            one._blocked,
            one._echoes,
            one._waking,
        )
        flags = (one.is_awake, one._drained_version, one._is_sampling, one._is_draining, one.ledger)
        return [*(dict(table) for table in tables), *flags]

    assert state(fork) == state(kueue)
    before = state(kueue)
    for table in (fork._queued, fork._again, fork._failures, fork._granted, fork._blocked, fork._waking):
        table.clear()
    fork._echoes.clear()
    assert state(kueue) == before
    for one, two in product(("_is_sampling", "_is_draining"), (True, False)):
        setattr(kueue, one, two)
        assert getattr(kueue.fork(), one) is two
    assert fork.backlog is not kueue.backlog and fork.settings is kueue.settings


def test_a_fork_knows_what_queues_used_and_goes_on_by_itself() -> None:
    usage = UsageSettings(half_life_s=600, sampling_interval_s=60, weights={})
    kueue = Kueue(replace(DEFAULT_KUEUE, usage=usage))
    assert kueue.ledger is not None and Kueue().ledger is None and Kueue().fork().ledger is None
    kueue.ledger.set_consumed("a/lq", {"cpu": "3"}, 0)
    fork = kueue.fork()
    assert fork.ledger is not None and fork.ledger.usage("a/lq") == 3
    fork.ledger.set_consumed("a/lq", {"cpu": "5"}, 0)
    assert (kueue.ledger.usage("a/lq"), fork.ledger.usage("a/lq")) == (3, 5)


BY_USAGE = {"admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"}}
USAGE = UsageSettings(half_life_s=600, sampling_interval_s=60, weights={})


def named(name: str, **spec: Any) -> Obj:
    found = local_queue("a", **spec)
    return {**found, "metadata": {**found["metadata"], "name": name}}


def test_what_a_queue_used_counts_by_its_weight() -> None:
    """One of nobody's has the weight that queues have where none is said."""
    world = World(replace(DEFAULT_KUEUE, usage=USAGE)).apply(queue("a", 4))
    world.apply(named("lq"), named("heavy", fairSharing={"weight": "4"})).run(2)
    assert World().kueue.usage is None
    usage, ledger = world.kueue.usage, world.kueue.ledger
    assert usage is not None and ledger is not None
    for name in ("lq", "heavy", "nobody"):
        ledger.set_consumed(f"a/{name}", {"cpu": "8"}, world.twin.now_us)
    assert [usage(f"a/{name}") for name in ("lq", "heavy", "nobody")] == [8, 2, 8]


@pytest.mark.parametrize("by_usage", [True, False])
def test_an_admission_is_charged_where_queues_go_by_usage(by_usage: bool) -> None:
    world = World(replace(DEFAULT_KUEUE, usage=USAGE))
    world.apply(queue("a", 4, **(BY_USAGE if by_usage else {})), local_queue("a"), node("n1", 8)).run(2)
    world.apply(job("train", "a", gpus=2)).run(2)
    assert world.admitted() == ["train"] and world.kueue.ledger is not None
    assert (world.kueue.ledger.usage("a/lq") > 0) is by_usage


def test_consumption_is_written_queue_by_queue_in_their_order() -> None:
    world = World(replace(DEFAULT_KUEUE, usage=USAGE)).apply(queue("a", 4, **BY_USAGE), node("n1", 8))
    world.apply(*(named(name) for name in ("m", "z", "lq", "b"))).apply(job("train", "a")).run(2)
    seen = world.twin.store.version
    world.run(61)
    written = [
        c.key.name for c in world.twin.store.log.since(seen) if "fairSharing" in c.obj.get("status", {})
    ]
    assert written[:4] == ["b", "lq", "m", "z"]


def test_a_fork_knows_who_holds_quota_and_who_waits() -> None:
    world = settled().apply(job("waits", "a", gpus=4)).run(3)
    copy = world.twin.fork().component("kueue")
    assert isinstance(copy, Kueue) and copy.is_awake
    one, other = world.kueue.backlog, copy.backlog
    assert list(one.accounts.holders) == list(other.accounts.holders) != []
    assert one.pending_by("a/lq") == other.pending_by("a/lq") == 1
