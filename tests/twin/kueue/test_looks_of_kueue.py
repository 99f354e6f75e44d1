"""What one look, or one turn of a cycle, decides: its actions and what it leaves in the books, case by case."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from kueueworld import KUEUE, World, flavor, job, local_queue, node, queue

from fairway.cluster.actions import Action, Patch, SetStatus
from fairway.cluster.changes import ADDED, DELETED, MODIFIED, Change
from fairway.kube.objects import Key, Obj, key_of, meta_of, name_of
from fairway.kube.timestamps import SECOND_US
from fairway.queueing.control.settings import DEFAULT_KUEUE, KueueSettings, PodsReady
from fairway.queueing.cycle.entries import CycleOutcome, Eviction, Head, Outcome, RequeueReason, Status
from fairway.queueing.facts.gates import gates_from
from fairway.queueing.facts.workloads import Workload
from fairway.queueing.integrations.ownership import WORKLOAD
from fairway.twin.distributions import constant
from fairway.twin.kueue import claims, provisioning
from fairway.twin.kueue.reconciling import reconcile
from fairway.twin.latency import NONE, Latency

CLUSTER_QUEUE, LOCAL_QUEUE = "ClusterQueue.kueue.x-k8s.io", "LocalQueue.kueue.x-k8s.io"
CONTROLLER = "kueue.x-k8s.io/provisioning-request"


def a_world(latency: Latency = NONE, settings: KueueSettings = DEFAULT_KUEUE) -> World:
    """Four GPUs of quota; `first` has all of them, `second` waits."""
    world = World(settings, latency=latency).apply(node("n1", 8), queue("a", 4), local_queue("a"))
    world.apply(job("first", "a", gpus=4)).run(30)
    return world.apply(job("second", "a", gpus=4)).run(30)


def facts(world: World, name: str) -> Workload:
    return world.kueue.backlog.read(world.workload(name))


def outcome(
    head: Head,
    status: Status = Status.SKIPPED,
    message: str = "no room",
    evictions: tuple[Eviction, ...] = (),
    reason: RequeueReason = RequeueReason.NO_FIT,
) -> Outcome:
    return Outcome(head, status, message, "WaitingForQuota", reason, None, None, evictions=evictions)


# Back to the queue.


def in_flight(world: World) -> Head:
    """`second` is the head of a cycle."""
    pending = world.kueue.backlog.pending.queues["a"]
    found = facts(world, "second")
    pending.remove(found.key)
    pending._inflight = pending._sticky = found.key
    return Head(found, "a")


def stands(world: World, key: str) -> tuple[str, str]:
    """Where it waits now: in which line, and who is in flight."""
    pending = world.kueue.backlog.pending.queues["a"]
    found = pending.get(key)
    return ("gone" if found is None else "active" if found.is_active else "waits"), pending._inflight


@pytest.mark.parametrize(
    ("reason", "line"),
    [
        (RequeueReason.NO_FIT, "waits"),
        (RequeueReason.GENERIC, "waits"),
        (RequeueReason.FAILED_AFTER_NOMINATION, "active"),
        (RequeueReason.PENDING_PREEMPTION, "active"),
    ],
)
@pytest.mark.parametrize("tells", [True, False])
def test_a_head_that_is_refused_goes_back_to_its_line(reason: RequeueReason, line: str, tells: bool) -> None:
    world = a_world()
    head = in_flight(world)
    events = len(world.events("Pending"))
    version = world.twin.store.version
    pending = world.kueue.backlog.pending.queues["a"]
    pending.pop()
    pending._inflight = head.workload.key
    written = world.kueue.cycles._requeue(outcome(head, message="no room", reason=reason), tells=tells)
    assert written == int(tells)
    assert stands(world, head.workload.key) == (line, "")
    said = world.conditions("second")["QuotaReserved"]
    assert (world.twin.store.version > version) is tells
    assert (said["message"] == "no room") is tells
    assert len(world.events("WaitingForQuota")) + len(world.events("Pending")) >= events
    waiting = pending.get(head.workload.key)
    assert waiting is not None and waiting.workload.obj is world.workload("second")


def test_a_head_that_may_wait_no_longer_does_not_go_back() -> None:
    for change in ("gone", "inactive", "elsewhere", "no such queue", "stopped"):
        world = a_world()
        head = in_flight(world)
        at = Key(WORKLOAD, *head.workload.key.split("/"))
        if change == "gone":
            world.twin.store.patch(at, {"metadata": {"finalizers": None}})
            world.twin.store.delete(at)
        elif change == "inactive":
            world.twin.store.patch(at, {"spec": {"active": False}})
        elif change == "elsewhere":
            world.twin.store.patch(at, {"spec": {"queueName": "other"}})
        elif change == "no such queue":
            head.queue = "nobody"
        else:
            world.patch(LOCAL_QUEUE, "lq", {"spec": {"stopPolicy": "Hold"}}, "a").run(0)
        before = world.twin.store.version
        written = world.kueue.cycles._requeue(outcome(head), tells=True)
        assert stands(world, head.workload.key)[0] == "gone", change
        tells = change in ("elsewhere", "stopped")
        assert (written, world.twin.store.version > before) == (int(tells), tells), change
        if change != "no such queue":
            pending = world.kueue.backlog.pending.queues["a"]
            assert (pending._inflight, pending._sticky) == ("", ""), change


def test_a_head_that_went_to_another_queue_waits_there() -> None:
    world = a_world().apply(
        queue("b", 4), {**local_queue("b"), "metadata": {"name": "other", "namespace": "a"}}
    )
    world.run(2)
    head = in_flight(world)
    world.twin.store.patch(Key(WORKLOAD, *head.workload.key.split("/")), {"spec": {"queueName": "other"}})
    assert world.kueue.cycles._requeue(outcome(head), tells=True) == 1
    pending = world.kueue.backlog.pending.queues
    assert pending["a"].get(head.workload.key) is None
    there = pending["b"].get(head.workload.key)
    assert there is not None and there.workload.obj is world.workload("second")


def test_a_second_pass_that_failed_is_told_and_tried_again() -> None:
    world = a_world()
    head = Head(facts(world, "first"), "a")
    cycles = world.kueue.cycles
    for status, told in ((Status.PREEMPTION_GATED, 1), (Status.NOMINATED, 1), (Status.SKIPPED, 2)):
        assert cycles._requeue(outcome(head, status, f"no node, {status}"), tells=True) == 0
        assert world.events("SecondPassFailed") == ["no node, preemptionGated", "no node, skipped"][:told]
        assert cycles._passes == {head.workload.key: told}
    assert world.condition("first", "QuotaReserved") == ("True", "QuotaReserved")
    at = Key(WORKLOAD, *head.workload.key.split("/"))
    world.twin.store.patch(at, {"metadata": {"finalizers": None}})
    world.twin.store.delete(at)
    cycles._requeue(outcome(head, message="no node"), tells=True)
    assert cycles._passes == {head.workload.key: 2}


@pytest.mark.parametrize("observed", [True, False])
def test_words_to_whoever_waits_for_pods_of_others(observed: bool) -> None:
    gates, _ = gates_from({"UnadmittedWorkloadsObservability": observed})
    world = a_world(settings=replace(DEFAULT_KUEUE, gates=gates))
    cycles, found = world.kueue.cycles, world.workload("second")
    head = Head(facts(world, "second"), "a")
    told = len(world.twin.host.events.told())
    one = Outcome(
        head, Status.WAITING_FOR_PODS_READY, "wait", "WaitingForPodsReady", RequeueReason.GENERIC, None, None
    )
    cycles._tell(one, key_of(found), found)
    said = world.conditions("second")["QuotaReserved"]
    wanted = "WaitingForPodsReady" if observed else "Waiting"
    assert (said["status"], said["reason"], said["message"]) == ("False", wanted, "wait")
    assert len(world.twin.host.events.told()) == told, "without an event"
    cycles._tell(outcome(head), key_of(found), found)
    said = world.conditions("second")["QuotaReserved"]
    assert (said["status"], said["message"]) == ("False", "no room")
    assert said["reason"] == ("WaitingForQuota" if observed else "Pending")
    assert "no room" in world.events("WaitingForQuota" if observed else "Pending")


def test_whoever_comes_after_one_that_waits_for_pods_is_told_nothing() -> None:
    """The cycle stood there: those behind were not looked at."""
    settings = replace(DEFAULT_KUEUE, pods_ready=PodsReady(blocks_admission=True))
    for order, told in (((0, 1), ["first"]), ((1, 0), ["second", "first"])):
        world = a_world(settings=settings)
        world.apply(job("third", "a", gpus=4)).run(5)
        heads = [Head(facts(world, name), "a") for name in ("second", "third")]
        both = (
            outcome(heads[0], Status.WAITING_FOR_PODS_READY, "first"),
            outcome(heads[1], Status.SKIPPED, "second"),
        )
        world.kueue.cycles._carry_out(CycleOutcome(tuple(both[i] for i in order)))
        of_both = [world.conditions(name).get("QuotaReserved") for name in ("second", "third")]
        said = {c["message"] for c in of_both if c is not None}
        assert said & {"first", "second"} == set(told)
        assert world.kueue.cycles._options().waits_for_pods_ready


# Requests of a cycle.


def test_a_cycle_stands_until_its_last_request_is_answered() -> None:
    """Evictions go out together and it waits for the slowest; words follow one after the other."""
    slow = replace(NONE, api_write=constant(4 * SECOND_US))
    world = a_world(slow)
    world.apply(job("third", "a", gpus=4)).run(60)
    cycles, loop = world.kueue.cycles, world.twin.loop
    first, second, third = (facts(world, name) for name in ("first", "second", "third"))
    now_us = world.twin.now_us
    cycles._busy_until_us = now_us
    leaving = Eviction(first, "InClusterQueue", "room", second)
    under_way = Eviction(third, "InClusterQueue", "room", second, is_under_way=True)
    cycles._evict_all(outcome(Head(second, "a"), evictions=(under_way, leaving, leaving)))
    assert cycles._busy_until_us == now_us + 4 * SECOND_US
    assert cycles._evicting == {first.key: (leaving, "a")}
    assert world.condition("first", "Evicted") is None
    cycles._evict_all(outcome(Head(second, "a"), evictions=(leaving,)))
    assert cycles._busy_until_us == now_us + 4 * SECOND_US, "it is on its way already"
    assert cycles._request(now_us) == now_us + 4 * SECOND_US
    while cycles._evicting:
        loop.step()
    assert world.twin.now_us == now_us + 4 * SECOND_US
    assert world.condition("first", "Evicted") == ("True", "Preempted")


def test_words_of_a_cycle_follow_one_after_the_other() -> None:
    world = a_world(replace(NONE, api_write=constant(4 * SECOND_US)))
    world.apply(job("third", "a", gpus=4)).run(60)
    cycles, now_us = world.kueue.cycles, world.twin.now_us
    heads = [Head(facts(world, name), "a") for name in ("second", "third")]
    cycles._carry_out(CycleOutcome(tuple(outcome(head) for head in heads)))
    assert cycles._busy_until_us == now_us + 8 * SECOND_US
    cycles._carry_out(CycleOutcome((outcome(heads[0], Status.NOMINATED),)))
    assert cycles._busy_until_us == now_us, "nothing was written"
    cycles._carry_out(CycleOutcome((outcome(heads[0], Status.EVICTED),)))
    assert cycles._busy_until_us == now_us
    assert world.kueue.backlog.pending_by("a/lq") == 1, "who left waits no longer"


# Checks that are answered by ProvisioningRequests: who is looked at when.


def check(name: str, controller: str = CONTROLLER, config: str = "prc", **spec: Any) -> Obj:
    ref = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": config}
    body = {"controllerName": controller, "parameters": ref, **spec}
    return {"apiVersion": KUEUE, "kind": "AdmissionCheck", "metadata": {"name": name}, "spec": body}


def with_checks(name: str, *checks: str) -> Obj:
    return {
        "apiVersion": KUEUE,
        "kind": "Workload",
        "metadata": {"name": name, "namespace": "a"},
        "spec": {},
        "status": {"admissionChecks": [{"name": c, "state": "Pending"} for c in checks]},
    }


def provisioned() -> World:
    """Two checks of ours, with a config each, and one of somebody else."""
    world = World()
    theirs = check("theirs", "example.com/other")
    for obj in (
        check("ours"),
        check("more", config="other"),
        theirs,
        with_checks("w1", "ours"),
        with_checks("w2", "theirs", "more"),
        with_checks("w3"),
        with_checks("w4", "theirs"),
    ):
        world.twin.store.create(obj)
        if status := obj.get("status"):
            world.twin.store.set_status(key_of(obj), status)
    world.kueue._queued = {}
    return world


def queued(world: World) -> list[str]:
    found = sorted(f"{tag} {key.name}" for tag, key in world.kueue._queued)
    world.kueue._queued = {}
    return found


def change(obj: Obj, old: Obj | None = None, *, gone: bool = False) -> Change:
    return Change(1, DELETED if gone else ADDED if old is None else MODIFIED, key_of(obj), obj, old)


def test_a_workload_with_a_check_of_ours_is_looked_at() -> None:
    world = provisioned()
    for name, gone, wanted in (
        ("w1", False, ["provisioning w1"]),
        ("w1", True, []),
        ("w2", False, ["provisioning w2"]),
        ("w3", False, []),
        ("w4", False, []),
    ):
        found = world.twin.store.require(Key(WORKLOAD, "a", name))
        provisioning.hear_workload(world.kueue, change(found, gone=gone))
        assert queued(world) == wanted, name
    provisioning.hear_workload(world.kueue, change(with_checks("w5", "nobody")))
    assert queued(world) == []


def test_a_request_leads_to_the_workload_it_was_made_for() -> None:
    world = provisioned()

    def request(kind: str, **owner: Any) -> Obj:
        owners = [{"apiVersion": KUEUE, "kind": kind, "name": "w1", "uid": "u", **owner}] if kind else []
        meta = {"name": "r", "namespace": "a", "ownerReferences": owners}
        return {"apiVersion": "autoscaling.x-k8s.io/v1", "kind": "ProvisioningRequest", "metadata": meta}

    for gone in (False, True):
        provisioning.hear_request(world.kueue, change(request("Workload", controller=True), gone=gone))
        assert world.kueue._queued.keys() == {("provisioning", Key(WORKLOAD, "a", "w1"))}
        assert queued(world) == ["provisioning w1"]
    for other in (request("Job", controller=True), request("Workload"), request("")):
        provisioning.hear_request(world.kueue, change(other))
        assert queued(world) == []


def test_a_check_or_its_config_that_changes_concerns_its_users() -> None:
    world = provisioned()
    ours, theirs = check("ours"), check("theirs", "example.com/other")
    labelled = {**ours, "metadata": {"name": "ours", "labels": {"a": "b"}}}
    users = ["check ours", "provisioning w1"]
    for obj, old, gone, wanted in (
        (ours, None, False, users),
        (labelled, ours, False, ["check ours"]),
        (check("ours", config="z"), ours, False, users),
        (check("ours", "example.com/other"), ours, False, users),
        (ours, check("ours", "example.com/other"), False, users),
        (ours, ours, True, ["provisioning w1"]),
        (theirs, None, False, []),
        (theirs, theirs, True, []),
    ):
        provisioning.hear_configuration(world.kueue, change(obj, old, gone=gone))
        assert queued(world) == wanted, (obj, old, gone)

    def config(name: str) -> Obj:
        return {
            "apiVersion": KUEUE,
            "kind": "ProvisioningRequestConfig",
            "metadata": {"name": name},
            "spec": {},
        }

    for name, wanted in (
        ("prc", users),
        ("other", ["check more", "provisioning w2"]),
        ("", []),
        ("none", []),
    ):
        for gone in (False, True):
            provisioning.hear_configuration(world.kueue, change(config(name), gone=gone))
            assert queued(world) == wanted, name
    provisioning.hear_configuration(world.kueue, change(queue("prc", 1)))
    assert queued(world) == []


# Claims of devices.

CLASS = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}}


def claiming(name: str, *conditions: Obj, claims_devices: bool = True) -> Obj:
    entry = {"name": "gpu", "resourceClaimTemplateName": "two"}
    spec = {"containers": [{"name": "c"}], **({"resourceClaims": [entry]} if claims_devices else {})}
    return {
        "apiVersion": KUEUE,
        "kind": "Workload",
        "metadata": {"name": name, "namespace": "a", "uid": name},
        "spec": {"queueName": "lq", "podSets": [{"name": "main", "count": 1, "template": {"spec": spec}}]},
        "status": {"conditions": list(conditions)},
    }


def says(kind: str, status: str = "True", reason: str = "R") -> Obj:
    return {"type": kind, "status": status, "reason": reason, "message": "m", "lastTransitionTime": None}


def test_whose_claims_are_looked_at() -> None:
    cases: list[tuple[Obj, bool]] = [
        (claiming("w"), True),
        (claiming("w", says("QuotaReserved", "False", "WaitingForQuota")), True),
        (claiming("w", claims_devices=False), False),
        (claiming("w", says("QuotaReserved")), False),
        (claiming("w", says("Finished")), False),
        (claiming("w", says("QuotaReserved", "False", "OnHold")), False),
    ]
    for obj, wanted in cases:
        world = World().apply(queue("a", 4), local_queue("a")).run(1)
        assert claims.concerns(world.kueue, obj) is wanted
        assert world.kueue.backlog.pending.queues["a"].get("a/w") is None
    # One that claims none any more is queued as it is, once.
    world = World().apply(queue("a", 4), local_queue("a")).run(1)
    backlog = world.kueue.backlog
    backlog.charges["a/w"] = ()
    assert not claims.concerns(world.kueue, claiming("w", claims_devices=False))
    assert "a/w" not in backlog.charges and backlog.pending.queues["a"].get("a/w") is not None


def test_what_a_look_at_claims_writes() -> None:
    """Refused: why, twice; not refused any more: those words go, and what others said stays."""
    world = World().apply(queue("a", 4), local_queue("a")).run(1)
    obj = claiming("w", says("Other"))
    looked = claims.look(world.kueue, key_of(obj), obj)
    assert looked is not None and looked[1], "a template that is missing may come"
    ((key, status),) = [(a.key, a.status) for a in looked[0]]
    assert key == key_of(obj)
    said = {c["type"]: (c["status"], c["reason"]) for c in status["conditions"]}
    assert said == {
        "Other": ("True", "R"),
        "Admitted": ("False", "NoReservation"),
        "QuotaReserved": ("False", "Misconfigured"),
        "Requeued": ("False", "Inadmissible"),
    }
    assert {c["type"]: c.get("observedGeneration") for c in status["conditions"]}["Requeued"] in (None, 0)
    third = {**obj, "metadata": {**obj["metadata"], "generation": 3}}
    looked = claims.look(world.kueue, key_of(third), third)
    assert looked is not None
    conditions = {c["type"]: c for c in looked[0][0].status["conditions"]}
    assert (
        conditions["Requeued"]["observedGeneration"] == conditions["QuotaReserved"]["observedGeneration"] == 3
    )
    again = claims.look(world.kueue, key, {**obj, "status": status})
    assert again == ((), True), "nothing new to write"
    assert world.kueue.backlog.pending.queues["a"].get("a/w") is None
    # Without claims to count there is nothing in the way.
    for words, kept in (
        ([says("Other")], None),
        ([says("Requeued", "False", "Inadmissible")], []),
        ([says("Requeued", "True", "Inadmissible"), says("Requeued2", "False", "Inadmissible")], None),
        ([says("QuotaReserved", "False", "Misconfigured"), says("Other")], ["Other"]),
        ([says("QuotaReserved", "False", "Inadmissible")], []),
        ([says("QuotaReserved", "False", "WaitingForQuota")], None),
        ([says("Requeued", "False", "Misconfigured")], None),
    ):
        world = World().apply(queue("a", 4), local_queue("a")).run(1)
        obj = claiming("w", *words, claims_devices=False)
        looked = claims.look(world.kueue, key_of(obj), obj)
        assert world.kueue.backlog.charges == {"a/w": ()}
        assert world.kueue.backlog.pending.queues["a"].get("a/w") is not None
        if kept is None:
            assert looked is None, words
        else:
            assert looked is not None and not looked[1]
            assert [[c["type"] for c in a.status["conditions"]] for a in looked[0]] == [kept]


# What queues say, and who may go.


def decided(world: World, tag: str, gk: str, name: str, namespace: str = "") -> tuple[Action, ...]:
    found = reconcile(world.kueue, (tag, Key(gk, namespace, name)))
    assert (found.again_at_us, found.is_blocked, found.settles) == (None, False, False)
    return found.actions


def test_a_queue_that_is_going_says_so_and_goes_once_nothing_holds_it() -> None:
    world = a_world()
    at = Key(CLUSTER_QUEUE, "", "a")
    found = decided(world, "status", CLUSTER_QUEUE, "a")
    assert [type(a) for a in found] == [SetStatus]
    world.twin.store.delete(at)
    assert "deletionTimestamp" in meta_of(world.twin.store.require(at))
    assert [type(a) for a in decided(world, "status", CLUSTER_QUEUE, "a")] == [SetStatus]
    world.kueue.backlog.release(facts(world, "first").key)
    status, patch = decided(world, "status", CLUSTER_QUEUE, "a")
    assert isinstance(status, SetStatus) and status.status["reservingWorkloads"] == 0
    assert patch == Patch(at, {"metadata": {"finalizers": None}})
    assert decided(world, "status", CLUSTER_QUEUE, "nobody") == ()
    assert decided(world, "status", LOCAL_QUEUE, "nobody", "a") == ()


def test_what_a_queue_says_of_itself_goes_by_the_quotas_of_now() -> None:
    """Also before anybody has settled the books after a change of them."""
    world = World().apply(flavor("spot"), node("n1", 8), queue("a", 4), local_queue("a")).run(5)
    old = world.twin.store.require(Key(CLUSTER_QUEUE, "", "a"))
    entry = {"name": "nvidia.com/gpu", "nominalQuota": "3"}
    groups = [{"coveredResources": ["nvidia.com/gpu"], "flavors": [{"name": "spot", "resources": [entry]}]}]
    new = {**old, "spec": {**old["spec"], "resourceGroups": groups}}
    world.kueue.backlog.apply(change(new, old), world.twin.now_us)
    (told,) = decided(world, "status", CLUSTER_QUEUE, "a")
    assert isinstance(told, SetStatus)
    assert [f["name"] for f in told.status["flavorsReservation"]] == ["spot"]


def test_objects_that_are_used_stay() -> None:
    """A ClusterQueue with quota in use; flavors, checks and topologies that something names."""
    racks = {"levels": [{"nodeLabel": "kubernetes.io/hostname"}]}
    strategy = {"admissionChecks": [{"name": "used"}]}
    world = a_world().apply(
        check("used", "x"),
        check("spare", "x"),
        flavor("spare"),
        flavor("tas", nodeLabels={"a": "b"}, topologyName="used"),
        *(
            {"apiVersion": KUEUE, "kind": "Topology", "metadata": {"name": name}, "spec": racks}
            for name in ("used", "spare")
        ),
        queue("spare", 4),
        queue("asks", 4, admissionChecksStrategy=strategy),
    )
    world.run(2)
    cases = {
        CLUSTER_QUEUE: ("a", "spare"),
        "ResourceFlavor.kueue.x-k8s.io": ("default", "spare"),
        "AdmissionCheck.kueue.x-k8s.io": ("used", "spare"),
        "Topology.kueue.x-k8s.io": ("used", "spare"),
    }
    for gk, (used, spare) in cases.items():
        for name in (used, spare):
            assert decided(world, "look", gk, name) == (), "it lives"
            world.twin.store.delete(Key(gk, "", name))
        assert decided(world, "look", gk, used) == ()
        (going,) = decided(world, "look", gk, spare)
        assert going == Patch(Key(gk, "", spare), {"metadata": {"finalizers": None}})
    assert decided(world, "look", CLUSTER_QUEUE, "nobody") == ()


def test_a_look_at_a_job_and_at_its_pods() -> None:
    world = a_world()
    assert decided(world, "ungate", WORKLOAD, name_of(world.workload("first")), "a") == ()
    assert decided(world, "ungate", WORKLOAD, "nobody", "a") == ()
    assert decided(world, "node", "Node", "n1") == ()
    assert decided(world, "job", "Job.batch", "second", "a") == ()


def test_a_slice_of_an_elastic_job_ends_with_the_admission_of_the_next() -> None:
    """KEP-77: the old one is finished by the scheduler, in the admission's turn; its quota goes over to the new one."""
    world = World().apply(queue("a", 4), local_queue("a"), node("n1", 8)).run(2)
    train = job("train", "a", pods=2, annotations={"kueue.x-k8s.io/elastic-job": "true"})
    train["spec"]["completions"] = 10
    world.apply(train).run(5)
    (old,) = world.objects(WORKLOAD)
    world.patch("Job.batch", "train", {"spec": {"parallelism": 3}}, "a").run(5)
    old = world.twin.store.require(key_of(old))
    (new,) = [w for w in world.objects(WORKLOAD) if key_of(w) != key_of(old)]
    uid, job_uid = meta_of(new)["uid"], meta_of(world.job("train", "a"))["uid"]
    told = f"Replaced to accommodate a workload (UID: {uid}, JobUID: {job_uid}) due to workload slice aggregation"
    (ended,) = [c for c in old["status"]["conditions"] if c["type"] == "Finished"]
    assert (ended["status"], ended["reason"], ended["message"]) == ("True", "WorkloadSliceReplaced", told)
    assert world.events("WorkloadSliceReplaced") == [told]
    samples = [s for s in world.kueue.cycles.tally.samples() if "slices" in s.name]
    assert [tuple(s) for s in samples] == [("kueue_replaced_workload_slices_total", ("a", "leader"), 1)]
    assert sum(world.kueue.backlog.accounts.queues["a"].usage.values()) == 3
    assert list(world.kueue.backlog.accounts.holders) == [f"a/{name_of(new)}"]
    # What is over already is left alone.
    version = world.twin.store.version
    held = world.kueue.backlog.read(new)
    world.kueue.cycles._finish_slice(world.kueue.backlog.read(old), held)
    assert world.twin.store.version == version


@pytest.mark.parametrize("fair", [True, False])
def test_what_queues_and_cohorts_say_of_themselves(fair: bool) -> None:
    """`borrower` holds 3 of its 1: two of the six that could be lent to it. Shares are told where they count."""
    settings = replace(DEFAULT_KUEUE, uses_fair_sharing=fair)
    cohort: Obj = {"apiVersion": KUEUE, "kind": "Cohort", "metadata": {"name": "all"}, "spec": {}}
    world = World(settings).apply(
        cohort, queue("borrower", 1, cohort="all"), queue("lender", 5, cohort="all")
    )
    world.apply(local_queue("borrower"), local_queue("lender"), node("n1", 8)).run(2)
    world.apply(job("held", "borrower", gpus=3)).run(2).apply(job("waits", "borrower", gpus=9)).run(3)
    (told,) = decided(world, "status", CLUSTER_QUEUE, "borrower")
    assert isinstance(told, SetStatus) and told.key == Key(CLUSTER_QUEUE, "", "borrower")
    status = told.status
    counts = {k: status[k] for k in ("pendingWorkloads", "reservingWorkloads", "admittedWorkloads")}
    assert counts == {"pendingWorkloads": 1, "reservingWorkloads": 1, "admittedWorkloads": 1}
    used = {"name": "default", "resources": [{"name": "nvidia.com/gpu", "total": "3", "borrowed": "2"}]}
    assert status["flavorsReservation"] == status["flavorsUsage"] == [used]
    # 2 of 6, in thousandths; rounded up.
    assert status.get("fairSharing") == ({"weightedShare": 334} if fair else None)
    (local,) = decided(world, "status", LOCAL_QUEUE, "lq", "borrower")
    assert isinstance(local, SetStatus)
    assert {k: local.status[k] for k in counts} == counts
    (of_cohort,) = decided(world, "status", "Cohort.kueue.x-k8s.io", "all")
    assert isinstance(of_cohort, SetStatus)
    assert of_cohort.status == ({"fairSharing": {"weightedShare": 0}} if fair else {})


def test_those_that_wait_are_woken_once_a_batch_is_over() -> None:
    """Of a queue that has room again; so that many changes at once wake them once."""
    world = a_world(settings=replace(DEFAULT_KUEUE, wake_batch_us=10 * SECOND_US))
    world.apply(queue("a", 8)).run(9)
    assert world.admitted() == ["first"]
    assert world.run(2).admitted() == ["first", "second"]
