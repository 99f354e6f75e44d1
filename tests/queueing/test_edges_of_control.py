"""Kueue's controllers at the edges: what queues say of themselves, nodes that fail, ranks, books and their copies."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from queueworld import NOW_S, Case, World, cohort, flavor, queue, running, wl, workload_of
from test_books_of_workloads import Books, _local
from test_queueing_nodefailures import (
    DEFAULT_GATES,
    HOST,
    NOW_US,
    decided,
    node,
    pod,
    unhealthy_after,
    workload,
)
from test_ungating_oracle import pod as gated_pod
from test_ungating_oracle import went
from test_ungating_oracle import workload as placed

from fairway.cluster.actions import Emit, Replace, SetStatus
from fairway.cluster.changes import ADDED, DELETED, MODIFIED, Change
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import rfc3339
from fairway.queueing.control import checks, queuestatus, trees
from fairway.queueing.control.environment import Environment
from fairway.queueing.control.holdings import Holdings
from fairway.queueing.control.nodefailures import Member, is_ill, on_node
from fairway.queueing.control.pendingreasons import standing_of, standings
from fairway.queueing.control.queuestatus import NOTHING_HELD, Held
from fairway.queueing.control.settings import PodsReady
from fairway.queueing.control.touched import Touched
from fairway.queueing.control.ungating import ungated
from fairway.queueing.control.waiting import Waiting
from fairway.queueing.cycle.entries import RequeueReason
from fairway.queueing.cycle.nomination import CycleOptions
from fairway.queueing.facts import objects as facts
from fairway.queueing.facts.objects import FlavorResource
from fairway.queueing.facts.podsets import PodSetCharge
from fairway.queueing.quota.accounts import Accounts
from fairway.queueing.quota.queueusage import UsageSettings

GPU, CPU = FlavorResource("default", "gpu"), FlavorResource("default", "cpu")
AT = NOW_S * 1_000_000


# What queues and cohorts say of themselves


def _held(*usages: tuple[int, bool]) -> Held:
    held = Held()
    for gpus, is_admitted in usages:
        held.add(workload_of(usage=((GPU, gpus),), is_admitted=is_admitted), 1)
    return held


def test_what_holds_is_counted_and_taken_back() -> None:
    held = _held((3, True), (2, False))
    assert (held.reserving, held.admitted) == (2, 1)
    assert (held.reserved_usage, held.admitted_usage) == ({GPU: 5}, {GPU: 3})
    copied = held.copy()
    held.add(workload_of(usage=((GPU, 3), (CPU, 1)), is_admitted=True), -1)
    assert (held.reserving, held.admitted) == (1, 0)
    assert (held.reserved_usage, held.admitted_usage) == ({GPU: 2, CPU: -1}, {GPU: 0, CPU: -1})
    assert copied == _held((3, True), (2, False))


def _account(nominal: int = 4, **more: Any) -> Any:
    world = World(Case(queues=[queue("q", nominal, **more)], waiting=[], want={}, cohorts=[cohort("c")]))
    return world.accounts.queues["q"]


def _flavors(total: int, borrowed: int | None = None) -> list[Obj]:
    said = {} if borrowed is None else {"borrowed": str(borrowed)}
    return [{"name": "default", "resources": [{"name": "gpu", "total": str(total), **said}]}]


@pytest.mark.parametrize(
    ("shared", "held", "reserved", "admitted"),
    [
        (True, _held((3, True), (1, False)), (4, 0), (3, 0)),
        (True, _held((3, True), (2, False)), (5, 1), (3, 0)),
        (True, _held((6, True)), (6, 2), (6, 2)),
        (False, _held((6, True)), (6, 0), (6, 0)),
        (True, NOTHING_HELD, (0, 0), (0, 0)),
    ],
)
def test_a_cluster_queue_says_what_it_holds_and_borrows(
    shared: bool, held: Held, reserved: tuple[int, int], admitted: tuple[int, int]
) -> None:
    account = _account(**({"cohort": "c"} if shared else {}))
    obj = {"metadata": {"generation": 3}, "status": {"other": 1, "fairSharing": {"x": 1}}}
    status = queuestatus.cluster_queue_status(obj, account, held, 7, fair_sharing=False, now_us=AT)
    assert status["flavorsReservation"] == _flavors(*reserved)
    assert status["flavorsUsage"] == _flavors(*admitted)
    counts = (status["reservingWorkloads"], status["admittedWorkloads"], status["pendingWorkloads"])
    assert counts == (held.reserving, held.admitted, 7)
    (active,) = status["conditions"]
    assert (active["type"], active["status"], active["reason"]) == ("Active", "True", "Ready")
    assert (active["observedGeneration"], active["lastTransitionTime"]) == (3, rfc3339(AT))
    assert status["other"] == 1 and "fairSharing" not in status
    shares = queuestatus.cluster_queue_status(obj, account, held, 7, fair_sharing=True, now_us=AT)
    assert shares["fairSharing"]["x"] == 1 and "weightedShare" in shares["fairSharing"]


def test_what_nobody_uses_and_what_has_no_quota() -> None:
    flavors = [
        {"name": "a", "resources": [{"name": "gpu", "nominalQuota": "1"}]},
        {
            "name": "b",
            "resources": [{"name": "cpu", "nominalQuota": "1"}, {"name": "gpu", "nominalQuota": "1"}],
        },
    ]
    spec = {"resourceGroups": [{"coveredResources": ["gpu", "cpu"], "flavors": flavors}]}
    case = Case(
        queues=[queue("q", cohort="c", spec=spec)], waiting=[], want={}, flavors=[flavor("a"), flavor("b")]
    )
    account = World(case).accounts.queues["q"]
    held = Held(1, 0, {FlavorResource("a", "cpu"): 500, FlavorResource("b", "gpu"): 1})

    def listed(*amounts: str) -> list[tuple[str, ...]]:
        return [tuple(amounts[0:2]), tuple(amounts[2:4])]

    def found(said: list[Obj], field: str) -> list[tuple[str, ...]]:
        assert [f["name"] for f in said] == ["a", "b"]
        assert all([r["name"] for r in f["resources"]] == ["cpu", "gpu"] for f in said)
        return [tuple(r[field] for r in f["resources"]) for f in said]

    status = queuestatus.cluster_queue_status({}, account, held, 0, fair_sharing=False, now_us=AT)
    assert found(status["flavorsReservation"], "total") == listed("500m", "0", "0", "1")
    assert found(status["flavorsReservation"], "borrowed") == listed("500m", "0", "0", "0")
    assert (
        found(status["flavorsUsage"], "total")
        == found(status["flavorsUsage"], "borrowed")
        == listed("0", "0", "0", "0")
    )
    local = facts.local_queue(_local("lq", "q"))
    status = queuestatus.local_queue_status({}, local, account, held, 0, is_queue_active=True, now_us=AT)
    assert found(status["flavorsReservation"], "total") == listed("500m", "0", "0", "1")
    assert found(status["flavorsUsage"], "total") == listed("0", "0", "0", "0")


def test_an_inactive_cluster_queue_says_why() -> None:
    account = _account(spec={"stopPolicy": "Hold"})
    before = [
        {"type": "Mine", "status": "True"},
        {"type": "Active", "status": "True", "lastTransitionTime": "x"},
    ]
    obj = {"metadata": {}, "status": {"conditions": before}}
    status = queuestatus.cluster_queue_status(obj, account, NOTHING_HELD, 0, fair_sharing=True, now_us=AT)
    mine, active = status["conditions"]
    assert mine == before[0] and (active["status"], active["reason"]) == ("False", "Stopped")
    assert "observedGeneration" not in active and active["lastTransitionTime"] == rfc3339(AT)
    assert queuestatus.is_active_by_status({"status": {"conditions": before}}) is True
    assert queuestatus.is_active_by_status({"status": status}) is False
    assert queuestatus.is_active_by_status(None) is queuestatus.is_active_by_status({}) is False


def test_shares_are_whole_and_the_largest_where_nothing_is_due() -> None:
    case = Case(
        queues=[
            queue("q", 1, cohort="c", weight=1),
            queue("rest", 6, cohort="c"),
            queue("none", 0, cohort="c", weight=0),
        ],
        waiting=[],
        want={},
        cohorts=[cohort("c")],
        holding=[running("w", "q", 3), running("v", "none", 1)],
        fair=True,
    )
    accounts = World(case).accounts

    def share(name: str) -> int:
        status = queuestatus.cluster_queue_status(
            {}, accounts.queues[name], NOTHING_HELD, 0, fair_sharing=True, now_us=0
        )
        found: int = status["fairSharing"]["weightedShare"]
        return found

    assert share("q") == math.ceil(2 * 1000 / 7) and share("rest") == 0
    assert share("none") == 2**63 - 1
    node = accounts.cohorts["c"]
    obj = {"status": {"x": 1, "fairSharing": {"y": 2}}}
    assert queuestatus.cohort_status(obj, node, fair_sharing=True) == {
        "x": 1,
        "fairSharing": {"y": 2, "weightedShare": 0},
    }
    assert queuestatus.cohort_status(obj, node, fair_sharing=False) == {"x": 1}
    assert queuestatus.cohort_status(obj, None, fair_sharing=True) == obj["status"]


def test_what_was_consumed_is_told_by_name() -> None:
    consumed = {"gpu": Decimal("1.5"), "cpu": Decimal("2")}
    obj = {"status": {"x": 1}}
    said = {"consumedResources": {"cpu": "2", "gpu": "1500m"}, "lastUpdate": rfc3339(AT)}
    found = queuestatus.consumption_status(obj, consumed, AT)
    assert found == {"x": 1, "fairSharing": {"weightedShare": 0, "admissionFairSharingStatus": said}}
    assert list(found["fairSharing"]["admissionFairSharingStatus"]["consumedResources"]) == ["cpu", "gpu"]
    again = {"status": {"fairSharing": {"weightedShare": 5, "admissionFairSharingStatus": {}, "z": 1}}}
    assert queuestatus.consumption_status(again, consumed, AT)["fairSharing"] == {
        "weightedShare": 5,
        "admissionFairSharingStatus": said,
        "z": 1,
    }


@pytest.mark.parametrize(
    ("stop", "is_there", "is_active", "want"),
    [
        ("None", True, True, ("True", "Ready", 7)),
        ("None", True, False, ("False", "ClusterQueueIsInactive", 7)),
        ("None", False, False, ("False", "ClusterQueueDoesNotExist", 7)),
        ("Hold", True, True, ("False", "Stopped", 0)),
        ("HoldAndDrain", False, False, ("False", "Stopped", 0)),
    ],
)
def test_what_a_local_queue_says(
    stop: str, is_there: bool, is_active: bool, want: tuple[str, str, int]
) -> None:
    local = facts.local_queue(_local("lq", "q", stop))
    held = _held((5, True), (1, False))
    old = {"status": {"flavorsReservation": 1, "flavorsUsage": 2, "x": 3}}
    status = queuestatus.local_queue_status(
        old, local, _account(cohort="c") if is_there else None, held, 7, is_queue_active=is_active, now_us=AT
    )
    (active,) = status["conditions"]
    assert (active["status"], active["reason"], status["pendingWorkloads"]) == want
    assert status["x"] == 3
    counts = (status["reservingWorkloads"], status["admittedWorkloads"])
    if is_there:
        assert (status["flavorsReservation"], status["flavorsUsage"], counts) == (
            _flavors(6),
            _flavors(5),
            (2, 1),
        )
    else:
        assert not {"flavorsReservation", "flavorsUsage"} & set(status) and counts == (0, 0)


# Nodes that fail


def test_nodes_that_are_ill() -> None:
    assert (
        is_ill(None)
        and is_ill(node(ready="False"))
        and is_ill(node(ready=None))
        and is_ill(node(ready="Unknown"))
    )
    assert is_ill(node(taint="NoSchedule")) and is_ill(node(taint="NoExecute"))
    assert not is_ill(node()) and not is_ill(node(taint="PreferNoSchedule"))


def test_a_node_that_is_unready_is_given_its_time() -> None:
    at_once = replace(DEFAULT_GATES, tas_replace_node_on_pod_termination=False)
    delay_s = 30
    for since_s, waits in ((delay_s - 1, True), (delay_s, False), (delay_s + 1, False)):
        found = decided(node(ready="False", since_s=since_s), workload(), gates=at_once)
        assert (found.again_at_us is not None) is waits
        assert unhealthy_after(found) == (None if waits else ["n1"])


def test_of_several_pods_one_that_goes_on_is_waited_for() -> None:
    ended = pod(phase="Failed")
    ill = node(ready="False")
    assert unhealthy_after(decided(ill, workload(), ended, pod())) is None
    assert unhealthy_after(decided(ill, workload(), pod(), ended)) is None
    assert unhealthy_after(decided(ill, workload(), ended, pod(node="n2"))) == ["n1"]
    assert unhealthy_after(decided(ill, workload())) == ["n1"]


def test_the_rest_of_a_status_stays() -> None:
    of = workload()
    of["status"]["x"] = 1
    (written,) = decided(None, of).actions
    assert isinstance(written, SetStatus) and written.status == {
        **of["status"],
        "unhealthyNodes": [{"name": "n1"}],
    }
    of = workload(unhealthy=("n1",))
    of["status"]["x"] = 1
    (written,) = decided(node(), of).actions
    assert isinstance(written, SetStatus)
    assert written.status == {k: v for k, v in of["status"].items() if k != "unhealthyNodes"}
    of = workload(unhealthy=("n0", "n1", "n2"))
    (written,) = decided(node(), of).actions
    assert isinstance(written, SetStatus) and written.status["unhealthyNodes"] == [
        {"name": "n0"},
        {"name": "n2"},
    ]
    assert decided(node(), workload(unhealthy=("n2",))).actions == ()


def test_a_pod_that_never_came_is_failed_as_it_is() -> None:
    waiting = pod(node="", phase="Pending")
    waiting["status"] |= {"qosClass": "x", "conditions": [{"type": "Mine"}]}
    actions = decided(node(ready="False"), workload(on="n2"), waiting).actions
    (written,) = [a for a in actions if isinstance(a, SetStatus) and a.key.name == "p"]
    mine, told = written.status["conditions"]
    assert written.status == {"phase": "Failed", "qosClass": "x", "conditions": [mine, told]}
    assert mine == {"type": "Mine"} and (told["type"], told["status"]) == ("TerminatedByKueue", "True")
    assert told["lastTransitionTime"] == rfc3339(NOW_US)
    (event,) = [a for a in actions if isinstance(a, Emit)]
    assert (event.reason, event.message) == ("PodTerminatedByKueue", told["message"])


def test_one_of_several_domains_is_the_nodes() -> None:
    for hosts, want in ((("n1", "n2"), ["n1"]), (("n2", "n1"), ["n1"]), (("n2", "n3"), None)):
        of = workload()
        domains = [{"values": [host], "count": 1} for host in hosts]
        (assigned,) = of["status"]["admission"]["podSetAssignments"]
        assigned["topologyAssignment"] = {"levels": [HOST], "domains": domains}
        assert unhealthy_after(decided(None, of)) == want


def test_taints_are_tolerated_by_the_pod_sets_on_the_node() -> None:
    """Each of its taints by each of them; by name, main where none is said; others' do not count."""
    tainted = node(taint="NoExecute")

    def found(*named: tuple[str | None, str, bool], of: Obj = tainted) -> list[str] | None:
        """(name, node, tolerates)"""
        whole = workload(tolerates_s=None)
        (pod_set,), (assigned,) = whole["spec"]["podSets"], whole["status"]["admission"]["podSetAssignments"]
        bare = {**pod_set, "template": {"spec": {"containers": []}}}
        sets, placed_sets = [], []
        for name, host, tolerates in named:
            on = {"levels": [HOST], "domains": [{"values": [host], "count": 1}]}
            sets.append({**(pod_set if tolerates else bare), "name": name})
            placed_sets.append({**assigned, "name": name, "topologyAssignment": on})
        whole["spec"]["podSets"] = [{k: v for k, v in s.items() if v is not None} for s in sets]
        whole["status"]["admission"]["podSetAssignments"] = [
            {k: v for k, v in s.items() if v is not None} for s in placed_sets
        ]
        return unhealthy_after(decided(of, whole, pod(phase="Failed")))

    assert found(("a", "n1", True)) is found((None, "n1", True)) is None
    assert found(("a", "n1", False)) == found((None, "n1", False)) == ["n1"]
    assert (
        found(("a", "n1", True), ("b", "n1", False)) == found(("a", "n1", False), ("b", "n1", True)) == ["n1"]
    )
    assert (
        found(("a", "n1", True), ("b", "n2", False)) is found(("a", "n2", False), ("b", "n1", True)) is None
    )
    two = node(taint="NoExecute")
    two["spec"]["taints"].append({"key": "else", "effect": "NoSchedule"})
    assert found(("a", "n1", True), of=two) == ["n1"]
    nowhere = workload(tolerates_s=0)
    nowhere["status"]["admission"]["podSetAssignments"][0]["flavors"] = {"gpu": "gone"}
    assert unhealthy_after(decided(tainted, nowhere, pod(phase="Failed"))) is None, "its flavor is not there"
    strange = workload(tolerates_s=0)
    strange["spec"]["podSets"][0]["name"] = "else"
    assert unhealthy_after(decided(tainted, strange, pod(phase="Failed"))) is None


def test_each_member_of_a_node_for_itself() -> None:
    first, second = workload(), workload()
    second["metadata"]["name"] = "v"
    found = on_node(Store(), "n1", None, [Member(first, ()), Member(second, ())], DEFAULT_GATES, NOW_US)
    assert [a.key.name for a in found.actions if isinstance(a, SetStatus)] == [
        "w",
        "v",
    ] and found.again_at_us is None


# Ranks


def test_ranks_where_little_is_said() -> None:
    rack = {("r", "h"): 1, ("r", "i"): 1}
    request = {"podIndexLabel": "index"}
    of = placed([("main", request, rack)])
    first, second = gated_pod("p", "main", index="1"), gated_pod("q", "main", index="0")
    assert went(of, [first, second]) == {"p": ("r", "i"), "q": ("r", "h")}
    assert list(went(of, [first, second])) == ["q", "p"], "in the order of ranks"
    # A count that is not said, or is less than the domains have room for: one after the other.
    for count in (None, 1):
        short = placed([("main", request, rack)])
        (assigned,) = short["status"]["admission"]["podSetAssignments"]
        if count is None:
            del assigned["count"]
        else:
            assigned["count"] = count
        assert went(short, [first, second]) == {"p": ("r", "h"), "q": ("r", "i")}
    large = placed([("main", request, rack)])
    large["status"]["admission"]["podSetAssignments"][0]["count"] = 3
    third = gated_pod("r", "main", index="2")
    assert went(large, [third, second]) == {"r": ("r", "h"), "q": ("r", "i")}, "more than there is room for"
    unhealthy = placed([("main", request, rack)], unhealthy=["i"])
    assert went(unhealthy, [first, second]) == {"q": ("r", "h")}
    unhealthy["status"]["admission"]["podSetAssignments"][0]["topologyAssignment"] = {
        "levels": ["rack"],
        "domains": [{"values": ["i"], "count": 2}],
    }
    assert [
        a.obj["metadata"]["name"] for a in ungated(unhealthy, [first, second]) if isinstance(a, Replace)
    ] == ["q", "p"]
    none: Obj = {**of, "status": {**of["status"], "admission": {"podSetAssignments": []}}}
    assert went(none, [first]) == {}


def test_sub_groups_end_where_the_next_begins() -> None:
    request = {"podIndexLabel": "index", "subGroupIndexLabel": "group", "subGroupCount": 2}
    places = {("r", f"h{i}"): 1 for i in range(4)}
    of = placed([("main", request, places)])
    whole = [gated_pod(f"p{g}{i}", "main", index=str(i), group=str(g)) for g in (1, 0) for i in (1, 0)]
    assert went(of, whole) == {f"p{g}{i}": ("r", f"h{2 * g + i}") for g in (0, 1) for i in (0, 1)}
    beyond = [gated_pod("a", "main", index="2", group="0"), gated_pod("b", "main", index="1", group="1")]
    assert went(of, beyond) == {"a": ("r", "h0"), "b": ("r", "h1")}, "one beyond its group has no rank"


def test_of_three_pod_sets_in_a_group_two_share_ranks() -> None:
    """Kueue allows two; what else claims the group's name has no ranks of its own, and is not let go by any."""
    request = {"podIndexLabel": "index", "podSetGroupName": "g"}
    of = placed([("a", request, {("r", "h"): 1}), ("b", request, {("r", "i"): 2})])
    pods = [gated_pod("b1", "b", index="1"), gated_pod("b2", "b", index="2"), gated_pod("a0", "a", index="0")]
    assert went(of, pods) == {"a0": ("r", "h"), "b1": ("r", "i"), "b2": ("r", "i")}
    late = [gated_pod("b2", "b", index="2"), gated_pod("b3", "b", index="3")]
    assert went(of, late) == {"b2": ("r", "i"), "b3": ("r", "i")}, "beyond the end: one after the other"


# Books


def test_what_waits_by_its_queue() -> None:
    waiting = Waiting(DEFAULT_GATES)
    waiting.set_local_queue(facts.local_queue(_local("lq", "q")))
    pending = waiting.pending.queue("q", "BestEffortFIFO")
    assert (waiting.pending_in("q"), waiting.pending_in("x"), waiting.pending_by("default/lq")) == (0, 0, 0)
    of = workload_of(key="default/w", queue="default/lq")
    assert waiting.facts_of("default/w") is waiting.home_of("default/w") is None
    pending.push(of, ready_us=-1, now_us=0)
    waiting.note_queued("default/w", "default/lq")
    waiting.join("default/w", "default/lq")
    assert waiting.facts_of("default/w") is of and waiting.home_of("default/w") == "default/lq"
    assert (waiting.pending_in("q"), waiting.pending_by("default/lq")) == (1, 1)
    twin = waiting.copy()
    assert twin.local_queues_of("q") == ["default/lq"] and list(twin.members("default/lq")) == ["default/w"]
    assert twin.local_queues == waiting.local_queues and twin.home_of("default/w") == "default/lq"
    waiting.set_local_queue(facts.local_queue(_local("lq", "q", "Hold")))
    assert waiting.facts_of("default/w") is None and waiting.queue_of("default/lq") is None
    assert waiting.remove("default/w") is True and waiting.remove("default/w") is False
    waiting.drop_local_queue("default/lq")
    waiting.leave("default/w", "default/lq")
    assert (waiting.pending_in("q"), waiting.pending_by("default/lq"), waiting.local_queues_of("q")) == (
        0,
        0,
        [],
    )
    assert twin.facts_of("default/w") is of and twin.pending_in("q") == twin.pending_by("default/lq") == 1
    assert list(twin.members("default/lq")) == ["default/w"] and list(waiting.members("default/lq")) == []


def test_holdings_and_their_copies() -> None:
    accounts = World(Case(queues=[queue("q", 8)], waiting=[], want={})).accounts
    holdings = Holdings(accounts, blocks_admission=True)
    reader = World(Case(queues=[], waiting=[], want={})).reader
    old = reader.read(running("w", "q", 3))
    holdings.hold(old)
    assert holdings.of_queue("q").reserving == holdings.of_local_queue("default/q").reserving == 1
    assert list(holdings.not_ready) == ["default/w"]
    twin = holdings.copy(accounts.copy())
    new = reader.read(running("w", "q", 3, age_s=61))
    assert holdings.refresh(old, new) is False
    assert accounts.queues["q"].workloads["default/w"] is accounts.holders["default/w"] is new
    assert twin.accounts.holders["default/w"] is old
    evicted = reader.read(running("w", "q", 3, conditions=("Evicted",)))
    assert holdings.refresh(new, evicted) is True and holdings.refresh(evicted, new) is True
    stranger = reader.read(running("v", "gone", 1))
    assert holdings.refresh(stranger, stranger) is False
    assert holdings.release("default/w") is new and holdings.release("default/w") is None
    assert holdings.not_ready == {} and holdings.of_queue("q").reserving == 0
    assert list(twin.not_ready) == ["default/w"]
    assert twin.of_queue("q").reserving == twin.of_local_queue("default/q").reserving == 1
    assert twin.of_queue("x") is twin.of_local_queue("x") is NOTHING_HELD


def _change(kind: str, obj: Obj, old: Obj | None = None, *, gone: bool = False) -> Change:
    meta = obj["metadata"]
    type_ = DELETED if gone else ADDED if old is None else MODIFIED
    return Change(1, type_, Key(kind, meta.get("namespace", ""), meta["name"]), obj, old)


def test_surroundings_and_their_copies() -> None:
    here = Environment()
    limit = {
        "metadata": {"name": "l", "namespace": "ns"},
        "spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "2"}}]},
    }
    kata = {"metadata": {"name": "kata"}, "overhead": {"podFixed": {"cpu": "1"}}}
    here.hear_limit_range(_change("LimitRange", limit))
    here.hear_runtime_class(_change("RuntimeClass.node.k8s.io", kata))
    assert here.hear_namespace(_change("Namespace", {"metadata": {"name": "ns", "labels": {"a": "b"}}}))
    here.know_namespace("ns")
    here.know_namespace("new")
    assert here.namespaces.labels["ns"]["a"] == "b" and set(here.namespaces.labels) == {"ns", "new"}
    twin = here.copy()
    of = {
        "metadata": {"namespace": "ns"},
        "spec": {"podSets": [{"template": {"spec": {"containers": [{}], "runtimeClassName": "kata"}}}]},
    }
    changed = here.adjusted(of)
    assert changed != of and twin.adjusted(of) == changed and not twin.adjusts_nothing
    here.hear_limit_range(_change("LimitRange", limit, gone=True))
    here.hear_runtime_class(_change("RuntimeClass.node.k8s.io", kata, gone=True))
    assert here.adjusts_nothing and here.adjusted(of) is of
    assert not here.namespaces.limit_ranges.get("ns") and twin.namespaces.limit_ranges["ns"] == [limit]
    assert here.hear_namespace(_change("Namespace", {"metadata": {"name": "ns"}}, gone=True)) is None
    assert "ns" not in here.namespaces.labels and "ns" in twin.namespaces.labels
    assert twin.adjusted(of) == changed


def _books(**settings: Any) -> Books:
    return Books(("ClusterQueue", queue("q", 8)), ("LocalQueue", _local("q", "q")), **settings)


def test_books_and_their_copies() -> None:
    books = _books()
    books.say("Topology", {"metadata": {"name": "t"}, "spec": {"levels": [{"nodeLabel": HOST}]}})
    waits, holds = wl("waits", "q", 2), running("holds", "q", 3)
    for obj in (waits, holds):
        books.say("Workload", obj)
    books.backlog.charge("default/waits", ())
    twin = books.backlog.copy()
    for mine in (books.backlog, twin):
        assert mine.has_topologies and mine.pending_in("q") == mine.pending_by("default/q") == 1
        assert mine.held_in("q").reserving == mine.held_by("default/q").reserving == 1
        assert "default/holds" in mine.accounts.holders and "default/waits" in mine.charges
        assert mine.namespaces.labels == books.backlog.namespaces.labels
        assert mine.local_queues_of("q") == ["default/q"] and not mine.needs_charge(waits)
    assert twin.reader is books.backlog.reader
    books.say("Workload", waits, gone=True)
    books.say("Workload", holds, gone=True)
    books.say("LocalQueue", _local("q", "q"), gone=True)
    assert books.backlog.pending_in("q") == books.backlog.held_in("q").reserving == 0
    assert not books.backlog.accounts.holders and "default/waits" not in books.backlog.charges
    assert twin.pending_in("q") == twin.held_in("q").reserving == twin.held_by("default/q").reserving == 1
    assert "default/holds" in twin.accounts.holders and twin.local_queues_of("q") == ["default/q"]
    twin.accounts.settle()
    assert twin.is_queue_active("q") and not twin.is_queue_active("x") and not twin.is_queue_going("q")


def test_books_go_by_their_settings() -> None:
    shares = queue("q", 8, spec={"admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"}})
    for usage in (UsageSettings(0.0, 300.0, {}), None):
        backlog = Books(("ClusterQueue", shares), usage=usage).backlog
        assert backlog.pending.queues["q"].by_usage is (usage is not None)
        assert backlog.copy().pending.queues["q"].by_usage is (usage is not None)
    for ready, by_eviction, blocks in (
        (None, True, False),
        (PodsReady(requeues_by_eviction_time=True), True, False),
        (PodsReady(requeues_by_eviction_time=False, blocks_admission=True), False, True),
    ):
        backlog = _books(pods_ready=ready).backlog
        assert backlog.reader.requeue_by_eviction_time is by_eviction
        assert backlog.holdings.blocks_admission is blocks


def test_whose_workloads_and_what_their_devices_count_as() -> None:
    books = _books()
    job = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j", "controller": True}
    of = wl("w", "q", 2)
    of["metadata"]["ownerReferences"] = [job]
    books.say("Workload", of)
    twin, key = books.backlog.copy(), Key("Job.batch", "default", "j")
    assert books.backlog.owned.has(key) and twin.owned.has(key)
    books.say("Workload", of, gone=True)
    assert not books.backlog.owned.has(key) and twin.owned.has(key)
    twin.charge("default/w", (PodSetCharge("main", (("gpu", 3),), ()),))
    fresh = {**of}
    assert [w.totals[0].requests["gpu"] for w in (twin.read(fresh), twin.read_as_written(fresh))] == [5, 5]
    assert books.backlog.read_as_written(fresh).totals[0].requests["gpu"] == 2, (
        "a charge is of one copy alone"
    )
    other = wl("v", "q", 2)
    assert [w.totals[0].requests["gpu"] for w in (twin.read(other), twin.read_as_written(other))] == [2, 2]


def test_all_that_is_reconfigured_is_told_in_order() -> None:
    touched = Touched()
    assert touched.has_news is touched.copy().has_news is False
    accounts = Accounts(DEFAULT_GATES)
    for name in ("c", "a", "b"):
        accounts.set_cluster_queue(facts.cluster_queue(queue(name, 1, cohort=f"{name}x")))
        accounts.set_cohort(facts.cohort(cohort(f"{name}x")))
    assert touched.take_statuses(accounts, fair_sharing=True) == ()
    touched.reconfigure()
    assert touched.has_news is True
    told = touched.copy().take_statuses(accounts, fair_sharing=True)
    assert [name for _, name in told] == ["a", "b", "c", "ax", "bx", "cx"]
    assert [name for _, name in touched.take_statuses(accounts, fair_sharing=False)] == ["a", "b", "c"]
    assert trees.using_flavor(accounts.queue_specs(), "default") == ["a", "b", "c"]
    assert (
        trees.using_flavor(accounts.queue_specs(), "x")
        == trees.using_check(accounts.queue_specs(), "x")
        == []
    )
    checked = {n: facts.cluster_queue(queue(n, 1, spec={"admissionChecks": ["k"]})) for n in ("b", "c", "a")}
    assert trees.using_check(checked, "k") == ["a", "b", "c"]
    both = facts.cluster_queue(queue("q", 1, spec={"admissionChecks": ["b", "a"]}))
    assert list(checks.needed_checks(running("w", "q", 1), both)) == ["a", "b"]


@pytest.mark.parametrize("keeps", [True, False])
def test_an_echo_changes_nothing(keeps: bool) -> None:
    """Unless what waits is to lose its place in the search over flavors, or its pods will be others."""
    gates = replace(DEFAULT_GATES, flavor_fungibility_preserve_scan_progress=keeps)
    books, of = _books(gates=gates), wl("w", "q", 2)
    books.workload(of)
    known = books.backlog.waiting.facts_of("default/w")
    assert bool(books.workload(of)) is not keeps
    books.backlog.enqueue(of, AT)
    assert (books.backlog.waiting.facts_of("default/w") is known) is keeps
    limit = {
        "metadata": {"name": "l", "namespace": "default"},
        "spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "2"}}]},
    }
    books.backlog.environment.hear_limit_range(_change("LimitRange", limit))
    books.backlog.enqueue(of, AT)
    now = books.backlog.waiting.facts_of("default/w")
    assert now is not None and now is not known and now.totals[0].requests["cpu"] == 2000


def test_a_workload_that_moves_waits_in_one_queue() -> None:
    for is_told_of_before in (True, False):
        books = Books(("ClusterQueue", queue("q", 8)), *(("LocalQueue", _local(n, "q")) for n in "ab"))
        backlog = books.backlog
        backlog.apply(_change("Workload.kueue.x-k8s.io", wl("w", "a", 2)), AT)
        books.told()
        old = wl("w", "a", 2) if is_told_of_before else None
        backlog.apply(_change("Workload.kueue.x-k8s.io", wl("w", "b", 2), old), AT)
        assert (
            backlog.pending_by("default/a"),
            backlog.pending_by("default/b"),
            backlog.pending_in("q"),
        ) == (0, 1, 1)
        if is_told_of_before:
            assert list(backlog.waiting.members("default/a")) == []
            assert "tells LocalQueue default/a" in books.told()
        assert list(backlog.waiting.members("default/b")) == ["default/w"]
    backlog.apply(_change("Workload.kueue.x-k8s.io", wl("w", "b", 2), gone=True), AT)
    assert list(backlog.waiting.members("default/b")) == [] and backlog.pending_in("q") == 0


def test_a_workload_that_is_held_back_leaves_its_queue() -> None:
    books = _books()
    books.workload(wl("w", "q", 2, namespace="default"))
    gated = wl("w", "q", 2, annotations={"kueue.x-k8s.io/admission-gated-by": "x"})
    books.workload(gated)
    assert books.waits() == [] and books.backlog.pending_by("default/q") == 0
    books.workload(wl("v", "q", 1, namespace="strange"))
    assert books.backlog.namespaces.labels["strange"] == {"kubernetes.io/metadata.name": "strange"}


def test_who_is_told_of_what_is_taken_and_held() -> None:
    books = _books()
    books.workload(wl("w", "q", 2))
    books.backlog.taken("default/w")
    assert books.told() == ["tells LocalQueue default/q", "tells ClusterQueue q"]
    books.backlog.taken("default/w")
    assert books.told() == [] and books.backlog.pending_by("default/q") == 0
    books.backlog.hold(books.backlog.read(running("h", "q", 1)))
    assert books.told() == ["tells ClusterQueue q", "tells LocalQueue default/q", "anew"]


def test_all_that_waits_below_a_root_is_woken() -> None:
    """Also where who belongs to it was not settled since."""
    books = _books()
    books.workload(wl("w", "q", 20))
    waiting = books.backlog.pending.queues["q"]
    head = waiting.pop()
    assert head is not None
    waiting.requeue(head, head.workload, RequeueReason.GENERIC, now_us=AT)
    known = waiting.get("default/w")
    assert known is not None and not known.is_active
    books.backlog.accounts.settle()
    books.say("ClusterQueue", queue("q", 8, cohort="d"))
    version = books.backlog.version
    books.backlog.wake("/d", AT)
    assert books.backlog.version == version + 1
    known = books.backlog.pending.queues["q"].get("default/w")
    assert known is not None and known.is_active


def test_a_queue_that_is_dropped_lets_go_of_all_that_waits() -> None:
    books = _books()
    books.workload(wl("w", "q", 2))
    of = queue("q", 8)
    books.backlog.apply(_change("ClusterQueue.kueue.x-k8s.io", of, of, gone=True), AT)
    assert "q" not in books.backlog.pending.queues and "q" not in books.backlog.accounts.queue_specs()
    assert books.backlog.pending_by("default/q") == 0 and books.backlog.waiting.home_of("default/w") is None
    assert "tells LocalQueue default/q" in books.told()


def test_a_local_queue_that_goes_has_its_workloads_asked() -> None:
    books = _books()
    books.workload(wl("w", "q", 2))
    books.say("LocalQueue", _local("q", "q"), gone=True)
    assert "asks default/w" in books.told() and books.backlog.pending_in("q") == 0
    books.say("LocalQueue", _local("q", "q"))
    assert "asks default/w" in books.told() and books.backlog.pending_in("q") == 1


def test_nodes_and_topologies_whatever_comes_first() -> None:
    def host(name: str) -> Obj:
        status = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"gpu": "8"}}
        return {"metadata": {"name": name, "labels": {HOST: name}}, "spec": {}, "status": status}

    books = Books()
    backlog, of = books.backlog, {"metadata": {"name": "t"}, "spec": {"levels": [{"nodeLabel": HOST}]}}
    books.say("ResourceFlavor", flavor("default", topologyName="t"))

    def there() -> set[str]:
        backlog.accounts.settle()
        found = backlog.accounts.topologies.get("default")
        return set() if found is None else {leaf.id for leaf in found.leaves.values()}

    for name in ("a", "b"):
        backlog.apply(_change("Node", host(name)), AT)
    backlog.apply(_change("Node", host("b"), host("b"), gone=True), AT)
    assert not backlog.has_topologies and there() == set()
    books.say("Topology", of)
    assert backlog.has_topologies and there() == {"a"}
    backlog.apply(_change("Node", host("c")), AT)
    assert there() == {"a", "c"}
    backlog.apply(_change("Node", host("a"), host("a"), gone=True), AT)
    assert there() == {"c"}
    books.say("Topology", of, gone=True)
    assert there() == set() and not backlog.has_topologies


def test_queues_that_take_a_namespace_now_are_woken_by_name() -> None:
    books = Books()
    selector = {"namespaceSelector": {"matchLabels": {"a": "b"}}}
    for name in ("c", "a", "b"):
        books.say("ClusterQueue", queue(name, 1, spec=selector))
    books.told()

    def labelled(**labels: str) -> list[str]:
        books.backlog.apply(_change("Namespace", {"metadata": {"name": "new", "labels": labels}}), AT)
        return [line for line in books.told() if line.startswith("wakes")]

    assert labelled(a="b") == [], "it is new: nothing waits in it"
    assert labelled(a="c") == [] and labelled(a="b") == ["wakes a", "wakes b", "wakes c"]
    assert labelled(a="b", x="y") == []


def test_standings_by_queue_and_by_what_was_used() -> None:
    """Whether or not the books were settled; what was used counts where the queue says so."""
    shares = {"admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"}}
    books = Books(
        ("ClusterQueue", queue("b", 8)),
        ("ClusterQueue", queue("a", 8, spec=shares)),
        *(("LocalQueue", _local(name, name[0])) for name in ("a1", "a2", "b1", "b2")),
        usage=UsageSettings(0.0, 300.0, {}),
    )
    for age_s, at in enumerate(("b2", "b1", "a2", "a1"), 1):
        books.workload(wl(at, at, 1, age_s=age_s))
    used = {"default/a1": 9.0, "default/a2": 1.0, "default/b1": 9.0, "default/b2": 1.0}.__getitem__
    options = CycleOptions(number=1, now_us=AT)

    def found(usage: Any = None) -> list[tuple[str, int]]:
        every = standings(books.backlog, options, books.objects, usage)
        alone = [standing_of(books.backlog, options, s.workload.obj, usage) for s in every]
        assert [(s.workload.uid, s.position) for s in alone] == [(s.workload.uid, s.position) for s in every]
        assert [s.cluster_queue for s in every] == ["a", "a", "b", "b"]
        return [(s.workload.uid.removeprefix("uid-"), s.position) for s in every]

    assert found() == [("a1", 1), ("a2", 2), ("b1", 1), ("b2", 2)]
    assert found(used) == [("a2", 1), ("a1", 2), ("b1", 1), ("b2", 2)]
    of = books.objects["default/b1"]
    for quota, verdict in ((0, "Waits"), (8, "Fits")):
        books.say("ClusterQueue", queue("b", quota))
        assert standing_of(books.backlog, options, of).verdict == verdict
    books.say("ClusterQueue", queue("b", 0))
    assert [s.verdict for s in standings(books.backlog, options, books.objects)] == [
        "Fits",
        "Fits",
        "Waits",
        "Waits",
    ]

    for stop, words in (("Hold", "Blocked"), ("None", "Fits")):
        books.say("ClusterQueue", queue("b", 8, spec={"stopPolicy": stop}))
        assert standing_of(books.backlog, options, of).verdict == words
        books.say("ClusterQueue", queue("a", 8, spec={**shares, "stopPolicy": stop}))
        assert [s.verdict for s in standings(books.backlog, options, books.objects)] == [words] * 4


def test_standings_of_those_that_are_not_compared() -> None:
    """Each is tried for itself; what it was told stays its own."""
    books = _books(gates=replace(DEFAULT_GATES, scheduling_equivalence_hashing=False))
    books.workload(wl("large", "q", 9))
    books.workload(wl("small", "q", 1, age_s=5))
    held = [{"type": "QuotaReserved", "status": "False", "reason": "OnHold", "message": "m"}]
    books.workload(wl("held", "q", 1, status={"conditions": held}))
    found = standings(books.backlog, CycleOptions(number=1, now_us=AT), books.objects)
    assert [(s.workload.uid, s.verdict, s.told_message) for s in found] == [
        ("uid-large", "Waits", ""),
        ("uid-small", "Fits", ""),
        ("uid-held", "Blocked", "m"),
    ]


def test_a_queue_that_goes() -> None:
    books = _books()
    going = queue("q", 8)
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    books.say("ClusterQueue", going)
    assert books.backlog.is_queue_going("q") is True and books.backlog.is_queue_going("x") is False


def test_facts_as_written_and_as_they_will_be() -> None:
    books = _books()
    waits = wl("w", "q", 2)
    books.say("Workload", waits)
    known = books.backlog.read_as_written(waits)
    assert known is books.backlog.waiting.facts_of("default/w"), "it was read already"
    again = {**waits}
    assert (
        books.backlog.read_as_written(again) is not known
        and books.backlog.read_as_written(again).obj is again
    )
    limit = {
        "metadata": {"name": "l", "namespace": "default"},
        "spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "2"}}]},
    }
    books.backlog.environment.hear_limit_range(_change("LimitRange", limit))
    assert "cpu" not in books.backlog.read_as_written(waits).totals[0].requests
    adjusted = books.backlog.read(waits)
    assert adjusted.totals[0].requests["cpu"] == 2000 and adjusted.obj is waits
    (changed,) = books.backlog.adjusted(waits)["spec"]["podSets"]
    assert changed["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "2"
    holds = running("h", "q", 1)
    books.say("Workload", holds)
    newer = {**holds, "metadata": {**holds["metadata"], "labels": {"a": "b"}}}
    books.backlog.note_written(newer)
    assert books.backlog.accounts.holders["default/h"].obj is newer
    books.backlog.note_written(wl("nobody", "q"))
    assert "default/nobody" not in books.backlog.accounts.holders
