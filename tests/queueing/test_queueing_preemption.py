"""Who has to go: Kueue's documentation on preemption and fair sharing (KEP-83, KEP-1337, KEP-1714) as cases."""

from __future__ import annotations

import pytest
from queueworld import Case, World, cohort, flavor, play, pod_set, queue, running, wl, workload_of

from fairway.queueing.facts.objects import FlavorResource
from fairway.queueing.preemption.classical import _borrowing_attempts, _is_under_nominal
from fairway.queueing.preemption.targets import Attempt

GOING = {"deletionTimestamp": "2027-01-01T00:00:00Z"}
LOWER_THAN_5 = {"policy": "LowerPriority", "maxPriorityThreshold": 5}

CASES = {
    "lower priority in the same queue": Case(
        queues=[queue("a", 4, within="LowerPriority")],
        holding=[running("low", "a", 4, priority=1)],
        waiting=[wl("high", "a", 4, priority=2)],
        want={"high": "preempts low:InClusterQueue"},
    ),
    "equal priority is left alone": Case(
        queues=[queue("a", 4, within="LowerPriority")],
        holding=[running("same", "a", 4, priority=2)],
        waiting=[wl("high", "a", 4, priority=2)],
        want={"high": "waits WaitingForQuota"},
    ),
    "newer equal priority gives way where the policy says so": Case(
        queues=[queue("a", 4, within="LowerOrNewerEqualPriority")],
        holding=[running("newer", "a", 4, priority=2, age_s=10)],
        waiting=[wl("older", "a", 4, priority=2, age_s=90)],
        want={"older": "preempts newer:InClusterQueue"},
    ),
    "older equal priority does not": Case(
        queues=[queue("a", 4, within="LowerOrNewerEqualPriority")],
        holding=[running("older", "a", 4, priority=2, age_s=90)],
        waiting=[wl("newer", "a", 4, priority=2, age_s=10)],
        want={"newer": "waits WaitingForQuota"},
    ),
    "never means never": Case(
        queues=[queue("a", 4)],
        holding=[running("low", "a", 4)],
        waiting=[wl("high", "a", 4, priority=9)],
        want={"high": "waits WaitingForQuota"},
    ),
    "the lowest priority goes first": Case(
        queues=[queue("a", 4, within="LowerPriority")],
        holding=[running("low", "a", 2, priority=1), running("middle", "a", 2, priority=2)],
        waiting=[wl("high", "a", 2, priority=3)],
        want={"high": "preempts low:InClusterQueue"},
    ),
    "of equal priority the one admitted last": Case(
        queues=[queue("a", 4, within="LowerPriority")],
        holding=[running("long", "a", 2, since_s=90), running("short", "a", 2, since_s=5)],
        waiting=[wl("high", "a", 2, priority=3)],
        want={"high": "preempts short:InClusterQueue"},
    ),
    "no more than it takes": Case(
        queues=[queue("a", 6, within="LowerPriority")],
        holding=[
            running("one", "a", 1, since_s=1),
            running("two", "a", 2, since_s=2),
            running("three", "a", 3),
        ],
        waiting=[wl("high", "a", 3, priority=3)],
        want={"high": "preempts one:InClusterQueue two:InClusterQueue"},
    ),
    "whoever turns out not to be needed is put back": Case(
        queues=[queue("a", 5, within="LowerPriority")],
        holding=[running("small", "a", 1, since_s=1), running("large", "a", 4, since_s=2)],
        waiting=[wl("high", "a", 4, priority=3)],
        want={"high": "preempts large:InClusterQueue"},
    ),
    "one being evicted already is taken first": Case(
        queues=[queue("a", 4, within="LowerPriority")],
        holding=[
            running("leaving", "a", 2, priority=2, since_s=90, conditions=["Evicted"]),
            running("staying", "a", 2, priority=1, since_s=1),
        ],
        waiting=[wl("high", "a", 2, priority=3)],
        want={"high": "preempts leaving:InClusterQueue"},
    ),
    "one of its own that is being evicted goes before another queue's": Case(
        queues=[
            queue("a", 4, cohort="lab", within="LowerPriority", reclaim="Any"),
            queue("b", 0, cohort="lab"),
        ],
        holding=[
            running("leaving", "a", 2, priority=1, since_s=90, conditions=["Evicted"]),
            running("guest", "b", 2, since_s=1),
        ],
        waiting=[wl("high", "a", 2, priority=3)],
        want={"high": "preempts leaving:InClusterQueue"},
    ),
    "not even all of them would do: nobody goes": Case(
        queues=[queue("a", 4, within="LowerPriority")],
        holding=[running("low", "a", 2), running("equal", "a", 2, priority=3)],
        waiting=[wl("high", "a", 3, priority=3)],
        want={"high": "waits WaitingForQuota"},
    ),
    "reclaims nominal quota from a borrower": Case(
        queues=[queue("a", 4, cohort="lab", reclaim="Any"), queue("b", 4, cohort="lab")],
        holding=[running("guest", "b", 8, priority=9)],
        waiting=[wl("owner", "a", 4)],
        want={"owner": "preempts guest:InCohortReclamation"},
    ),
    "only lower priority where reclaim says so": Case(
        queues=[queue("a", 4, cohort="lab", reclaim="LowerPriority"), queue("b", 4, cohort="lab")],
        holding=[running("guest", "b", 8, priority=9)],
        waiting=[wl("owner", "a", 4)],
        want={"owner": "waits WaitingForQuota"},
    ),
    "those within their own quota are safe": Case(
        queues=[queue("a", 2, cohort="lab", reclaim="Any"), queue("b", 4, cohort="lab")],
        holding=[running("own", "b", 4), running("mine", "a", 2)],
        waiting=[wl("more", "a", 2)],
        want={"more": "waits WaitingForQuota"},
    ),
    "reclaiming stops once the sibling is back within its quota": Case(
        queues=[queue("a", 6, cohort="lab", reclaim="Any"), queue("b", 2, cohort="lab")],
        holding=[running(f"g{i}", "b", 2, since_s=i + 1) for i in range(4)],
        waiting=[wl("owner", "a", 6)],
        want={"owner": "preempts g0:InCohortReclamation g1:InCohortReclamation g2:InCohortReclamation"},
    ),
    "whoever is back within its quota is spared, though it has less priority": Case(
        queues=[
            queue("a", 4, cohort="lab", reclaim="Any"),
            queue("b", 2, cohort="lab"),
            queue("c", 0, cohort="lab"),
        ],
        holding=[
            *(running(f"b{i}", "b", 2, since_s=9 * i + 1) for i in range(2)),
            running("c0", "c", 2, priority=7),
        ],
        waiting=[wl("owner", "a", 4)],
        want={"owner": "preempts b0:InCohortReclamation c0:InCohortReclamation"},
    ),
    "and so is whoever borrows within a cohort that is": Case(
        queues=[
            queue("a", 4, cohort="org", reclaim="Any"),
            queue("b", 2, cohort="left"),
            queue("c", 0, cohort="left"),
            queue("d", 0, cohort="org"),
        ],
        cohorts=[cohort("left", "org"), cohort("org")],
        holding=[
            *(running(f"c{i}", "c", 2, since_s=9 * i + 1) for i in range(2)),
            running("d0", "d", 2, priority=7),
        ],
        waiting=[wl("owner", "a", 4)],
        want={"owner": "preempts c0:InCohortReclamation d0:InCohortReclamation"},
    ),
    "a preemptor that would borrow reclaims nothing": Case(
        queues=[queue("a", 2, cohort="lab", reclaim="Any"), queue("b", 4, cohort="lab")],
        holding=[running("guest", "b", 6)],
        waiting=[wl("more", "a", 4)],
        want={"more": "waits WaitingForQuota"},
    ),
    "unless it may borrow within the cohort": Case(
        queues=[
            queue("a", 2, cohort="lab", reclaim="LowerPriority", borrow_within={"policy": "LowerPriority"}),
            queue("b", 2, cohort="lab"),
            queue("c", 2, cohort="lab"),
        ],
        holding=[running("guest", "b", 6)],
        waiting=[wl("more", "a", 4, priority=3)],
        want={"more": "preempts guest:InCohortReclaimWhileBorrowing"},
    ),
    "borrowing within the cohort spares priorities above the threshold": Case(
        queues=[
            queue("a", 2, cohort="lab", reclaim="LowerPriority", borrow_within=LOWER_THAN_5),
            queue("b", 2, cohort="lab"),
            queue("c", 2, cohort="lab"),
        ],
        holding=[running("guest", "b", 6, priority=6)],
        waiting=[wl("more", "a", 4, priority=9)],
        want={"more": "waits WaitingForQuota"},
    ),
    "borrowing within the cohort takes priorities up to the threshold": Case(
        queues=[
            queue("a", 2, cohort="lab", reclaim="LowerPriority", borrow_within=LOWER_THAN_5),
            queue("b", 2, cohort="lab"),
            queue("c", 2, cohort="lab"),
        ],
        holding=[running("guest", "b", 6, priority=5)],
        waiting=[wl("more", "a", 4, priority=9)],
        want={"more": "preempts guest:InCohortReclaimWhileBorrowing"},
    ),
    "hierarchical advantage: a subtree takes back what is its own": Case(
        queues=[queue("a", 0, cohort="team", reclaim="Any"), queue("z", 0, cohort="org")],
        cohorts=[cohort("team", parent="org", gpu=4), cohort("org")],
        holding=[running("guest", "z", 4, priority=9)],
        waiting=[wl("owner", "a", 4)],
        want={"owner": "preempts guest:InCohortReclamation"},
    ),
    "without preemption nothing is reserved twice: the second overlaps": Case(
        queues=[
            queue("a", 4, cohort="lab", reclaim="Any"),
            queue("b", 4, cohort="lab", reclaim="Any"),
            queue("c", 0, cohort="lab"),
        ],
        holding=[running("guest", "c", 8)],
        waiting=[wl("one", "a", 4, age_s=90), wl("two", "b", 4, age_s=10)],
        want={
            "one": "preempts guest:InCohortReclamation",
            "two": "waits WaitingForPreemptedWorkloads",
        },
    ),
    "overlapping targets are skipped without recomputing": Case(
        queues=[
            queue("a", 4, cohort="lab", reclaim="Any"),
            queue("b", 4, cohort="lab", reclaim="Any"),
            queue("c", 0, cohort="lab"),
        ],
        holding=[running("guest", "c", 8)],
        gates={"RecomputeAssignmentUponPreemptionTargetsOverlap": False},
        waiting=[wl("one", "a", 4, age_s=90), wl("two", "b", 4, age_s=10)],
        want={"one": "preempts guest:InCohortReclamation", "two": "waits WaitingForQuota"},
        message={"two": "Workload has overlapping preemption targets with another workload"},
    ),
    "preemption in one flavor of two": Case(
        queues=[queue("a", {"default": 4, "next": 2}, within="LowerPriority")],
        flavors=[flavor("default"), flavor("next")],
        holding=[running("low", "a", 4), running("peer", "a", 2, flavor="next", priority=5)],
        waiting=[wl("high", "a", 4, priority=5)],
        want={"high": "preempts low:InClusterQueue"},
    ),
    "fair sharing: the larger share gives": Case(
        fair=True,
        queues=[queue(n, 4, cohort="lab", reclaim="Any") for n in "abc"],
        holding=[running("b1", "b", 4), running("b2", "b", 4, since_s=5), running("c1", "c", 4)],
        waiting=[wl("a1", "a", 2)],
        want={"a1": "preempts b2:InCohortReclamation"},
    ),
    "fair sharing: a borrower may preempt a larger borrower": Case(
        fair=True,
        queues=[queue(n, 0, cohort="lab", reclaim="Any") for n in "ab"],
        cohorts=[cohort("lab", gpu=8)],
        holding=[running(f"b{i}", "b", 2, since_s=i + 1) for i in range(4)],
        waiting=[wl("a1", "a", 2)],
        want={"a1": "preempts b0:InCohortFairSharing"},
    ),
    "fair sharing: what is its own is reclaimed until it fits, whatever the shares": Case(
        fair=True,
        queues=[queue("a", 4, cohort="lab", reclaim="Any"), queue("b", 0, cohort="lab")],
        holding=[running(f"b{i}", "b", 2, since_s=9 * i + 1) for i in range(2)],
        waiting=[wl("a1", "a", 4)],
        want={"a1": "preempts b0:InCohortReclamation b1:InCohortReclamation"},
    ),
    "fair sharing: after each workload it is the turn of whoever has most": Case(
        fair=True,
        queues=[queue(n, 0, cohort="lab", reclaim="Any") for n in "abc"],
        cohorts=[cohort("lab", gpu=16)],
        holding=[running(f"{n}{i}", n, 2, since_s=9 * i + 1) for n in "bc" for i in range(4)],
        waiting=[wl("a1", "a", 4)],
        want={"a1": "preempts b0:InCohortFairSharing c0:InCohortFairSharing"},
    ),
    "fair sharing: equal shares leave each other alone": Case(
        fair=True,
        queues=[queue(n, 0, cohort="lab", reclaim="Any") for n in "ab"],
        cohorts=[cohort("lab", gpu=8)],
        holding=[running("a0", "a", 4), running("b0", "b", 4)],
        waiting=[wl("a1", "a", 2)],
        want={"a1": "waits WaitingForQuota"},
    ),
    "fair sharing: nobody gives way to whoever would then have as much": Case(
        fair=True,
        queues=[queue(n, 0, cohort="lab", reclaim="Any") for n in "ab"],
        cohorts=[cohort("lab", gpu=6)],
        holding=[running("a0", "a", 2), running("b0", "b", 4)],
        waiting=[wl("a1", "a", 2)],
        want={"a1": "waits WaitingForQuota"},
    ),
    "fair sharing: nobody gives more than leaves it as much": Case(
        fair=True,
        queues=[queue(n, 0, cohort="lab", reclaim="Any") for n in "ab"],
        cohorts=[cohort("lab", gpu=8)],
        holding=[running("b0", "b", 4, since_s=1), running("b1", "b", 4, since_s=9)],
        waiting=[wl("a1", "a", 4)],
        want={"a1": "preempts b0:InCohortFairSharing"},
    ),
    "fair sharing: nobody goes where one of a queue is not enough": Case(
        fair=True,
        queues=[queue(n, 0, cohort="lab", reclaim="Any") for n in "ab"],
        cohorts=[cohort("lab", gpu=8)],
        holding=[running("b0", "b", 4, since_s=1), running("b1", "b", 4, since_s=9)],
        waiting=[wl("a1", "a", 5)],
        want={"a1": "waits WaitingForQuota"},
        message={"a1": "insufficient unused quota for gpu in flavor default, 5 more needed"},
    ),
    "fair sharing: a larger weight may have more": Case(
        fair=True,
        queues=[
            queue("a", 0, cohort="lab", reclaim="Any", weight=3),
            queue("b", 0, cohort="lab", reclaim="Any", weight=1),
        ],
        cohorts=[cohort("lab", gpu=8)],
        holding=[running("a0", "a", 4), running("b0", "b", 2, since_s=9), running("b1", "b", 2, since_s=1)],
        waiting=[wl("a1", "a", 2)],
        want={"a1": "preempts b1:InCohortFairSharing"},
    ),
    "fair sharing: weight zero has no claim to borrow": Case(
        fair=True,
        queues=[queue("a", 0, cohort="lab", reclaim="Any", weight=0), queue("b", 0, cohort="lab")],
        cohorts=[cohort("lab", gpu=4)],
        holding=[running("b0", "b", 4)],
        waiting=[wl("a1", "a", 2)],
        want={"a1": "waits WaitingForQuota"},
    ),
    "fair sharing: the smaller share is admitted first": Case(
        fair=True,
        queues=[queue("a", 0, cohort="lab"), queue("b", 0, cohort="lab")],
        cohorts=[cohort("lab", gpu=8)],
        holding=[running("a0", "a", 4)],
        waiting=[wl("a1", "a", 4, priority=9, age_s=90), wl("b1", "b", 4)],
        want={"b1": "admitted default", "a1": "waits WaitingForQuota"},
    ),
    "fair sharing: those who need not borrow go first": Case(
        fair=True,
        queues=[queue("a", 4, cohort="lab"), queue("b", 0, cohort="lab")],
        waiting=[wl("b1", "b", 2, priority=9), wl("a1", "a", 4)],
        want={"a1": "admitted default", "b1": "waits WaitingForQuota"},
    ),
    "fair sharing: a share is compared below the common cohort": Case(
        fair=True,
        queues=[
            queue("a", 0, cohort="left", reclaim="Any"),
            queue("b", 0, cohort="right", reclaim="Any"),
            queue("c", 0, cohort="right", reclaim="Any"),
        ],
        cohorts=[cohort("left", "org"), cohort("right", "org"), cohort("org", gpu=8)],
        holding=[running("b0", "b", 4, since_s=9), running("c0", "c", 4, since_s=1)],
        waiting=[wl("a1", "a", 4)],
        want={"a1": "preempts c0:InCohortFairSharing"},
    ),
    "fair sharing: only the first strategy": Case(
        fair=True,
        strategies=("LessThanOrEqualToFinalShare",),
        queues=[queue(n, 0, cohort="lab", reclaim="Any") for n in "ab"],
        cohorts=[cohort("lab", gpu=8)],
        holding=[running("b0", "b", 8)],
        waiting=[wl("a1", "a", 2)],
        want={"a1": "waits WaitingForQuota"},
    ),
    "fair sharing: the second strategy lets one large workload go": Case(
        fair=True,
        queues=[queue(n, 0, cohort="lab", reclaim="Any") for n in "ab"],
        cohorts=[cohort("lab", gpu=8)],
        holding=[running("b0", "b", 8)],
        waiting=[wl("a1", "a", 2)],
        want={"a1": "preempts b0:InCohortFairSharing"},
    ),
    "a stopped queue gives nothing back: what it borrows counts all the same": Case(
        queues=[
            queue("a", 6, cohort="lab", reclaim="Any"),
            queue("stopped", 0, cohort="lab", spec={"stopPolicy": "Hold"}),
        ],
        holding=[running("borrower", "stopped", 4)],
        waiting=[wl("a1", "a", 5)],
        want={"a1": "waits WaitingForQuota"},
        message={"a1": "3 more needed"},
    ),
    "a queue whose flavor is missing gives nothing back either, the next one does": Case(
        queues=[
            queue("a", 8, cohort="lab", reclaim="Any"),
            queue("broken", {"default": 0, "gone": 0}, cohort="lab"),
            queue("c", 0, cohort="lab"),
        ],
        holding=[running("untouchable", "broken", 2, since_s=1), running("borrower", "c", 4, since_s=9)],
        waiting=[wl("a1", "a", 6)],
        want={"a1": "preempts borrower:InCohortReclamation"},
    ),
    "a queue about to be deleted keeps what runs in it": Case(
        queues=[
            queue("a", 6, cohort="lab", reclaim="Any"),
            {**(leaving := queue("leaving", 0, cohort="lab")), "metadata": leaving["metadata"] | GOING},
        ],
        holding=[running("borrower", "leaving", 4)],
        waiting=[wl("a1", "a", 5)],
        want={"a1": "waits WaitingForQuota"},
    ),
    "fair sharing: nor does a stopped queue with the largest share": Case(
        fair=True,
        queues=[
            queue("a", 0, cohort="lab", reclaim="Any"),
            queue("b", 0, cohort="lab"),
            queue("stopped", 0, cohort="lab", spec={"stopPolicy": "Hold"}),
        ],
        cohorts=[cohort("lab", gpu=10)],
        holding=[running("b0", "b", 4), running("s0", "stopped", 6)],
        waiting=[wl("a1", "a", 2)],
        want={"a1": "preempts b0:InCohortFairSharing"},
    ),
}


@pytest.mark.parametrize(
    ("mine", "wanted"),
    [
        # All its own GPUs are in use: it may borrow at the cost of its own workloads alone.
        ({"low": 2, "high": 2}, "waits WaitingForQuota"),
        ({"low": 1, "high": 2}, "preempts guest:InCohortReclamation low:InClusterQueue"),
        ({"low": 2}, "preempts guest:InCohortReclamation"),
    ],
)
def test_a_queue_that_uses_all_its_quota_of_one_resource_reclaims_none_of_another(
    mine: dict[str, int], wanted: str
) -> None:
    listed = [{"name": r, "nominalQuota": "4"} for r in ("gpu", "cpu")]
    groups = [{"coveredResources": ["gpu", "cpu"], "flavors": [{"name": "default", "resources": listed}]}]
    none = [{"name": r, "nominalQuota": "0"} for r in ("gpu", "cpu")]
    lent = [{"coveredResources": ["gpu", "cpu"], "flavors": [{"name": "default", "resources": none}]}]
    guest = running("guest", "b", 0)
    (given,) = guest["status"]["admission"]["podSetAssignments"]
    given |= {"flavors": {"cpu": "default"}, "resourceUsage": {"cpu": "4"}}
    asks = wl("new", "a", pod_sets=[pod_set(requests={"gpu": 2, "cpu": 4})], priority=5)
    case = Case(
        queues=[
            queue("a", cohort="lab", within="LowerPriority", reclaim="Any", spec={"resourceGroups": groups}),
            queue("b", cohort="lab", spec={"resourceGroups": lent}),
        ],
        holding=[guest, *(running(n, "a", gpu, priority=9 * (n == "high")) for n, gpu in mine.items())],
        waiting=[asks],
        want={},
    )
    assert play(case)[0] == {"new": wanted}


@pytest.mark.parametrize(("cpu", "reason"), [(4, "InCohortReclamation"), (0, "InCohortFairSharing")])
def test_fair_shares_count_where_one_of_its_resources_is_borrowed(cpu: int, reason: str) -> None:
    """What it wants of GPUs is its own; its CPUs are, or are to be borrowed."""

    def groups(gpus: int, cpus: int) -> dict[str, object]:
        listed = [{"name": "gpu", "nominalQuota": f"{gpus}"}, {"name": "cpu", "nominalQuota": f"{cpus}"}]
        flavors = [{"name": "default", "resources": listed}]
        return {"resourceGroups": [{"coveredResources": ["gpu", "cpu"], "flavors": flavors}]}

    guest = running("guest", "b", 4)
    (given,) = guest["status"]["admission"]["podSetAssignments"]
    given |= {"flavors": {"gpu": "default", "cpu": "default"}, "resourceUsage": {"gpu": "4", "cpu": "4"}}
    case = Case(
        fair=True,
        queues=[
            queue("a", cohort="lab", reclaim="Any", spec=groups(4, cpu)),
            queue("b", cohort="lab", spec=groups(0, 0)),
            queue("c", cohort="lab", spec=groups(0, 4 - cpu)),
        ],
        holding=[guest],
        waiting=[wl("new", "a", pod_sets=[pod_set(requests={"gpu": 2, "cpu": 2})])],
        want={},
    )
    assert play(case)[0] == {"new": f"preempts guest:{reason}"}


@pytest.mark.parametrize("used", [None, 0, 1, 2, 3])
@pytest.mark.parametrize("borrows", [True, False])
@pytest.mark.parametrize("others", [(False, False), (True, False), (False, True), (True, True)])
def test_with_borrowing_or_without_and_which_first(
    used: int | None, borrows: bool, others: tuple[bool, bool]
) -> None:
    """Source: preemption.go classicalPreemptions. `others`: of the cohort, those that it has an advantage over, and
    those that it has not."""
    more = {"borrow_within": {"policy": "LowerPriority"}} if borrows else {}
    accounts = World(
        Case(queues=[queue("a", 2, cohort="lab", reclaim="Any", **more)], waiting=[], want={})
    ).accounts
    account, gpu = accounts.queues["a"], FlavorResource("default", "gpu")
    if used is not None:
        account.usage[gpu] = used
    trying = Attempt(accounts, account, workload_of(), {}, (gpu,), {}, 0)
    if not any(others) or (not borrows and (used or 0) >= 2):
        want: tuple[bool, ...] = (True,)
    else:
        want = (False, True) if not borrows and not others[0] else (True, False)
    assert _borrowing_attempts(trying, *others) == want
    strange = Attempt(accounts, account, workload_of(), {}, (gpu, FlavorResource("default", "cpu")), {}, 0)
    assert _is_under_nominal(trying) == ((used or 0) < 2) and not _is_under_nominal(strange)
    account.subtree[gpu] = 1
    account.usage.pop(gpu, None)
    assert _is_under_nominal(trying), "one, and nothing used"


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_preemption(case: Case) -> None:
    said, messages = play(case)
    assert said == case.want
    for name, part in case.message.items():
        assert part in messages[name]


def test_the_message_names_who_why_and_both_paths() -> None:
    case = CASES["hierarchical advantage: a subtree takes back what is its own"]
    (eviction,) = World(case).cycle().evictions()
    assert eviction.message == (
        "Preempted to accommodate a workload (UID: uid-owner, JobUID: UNKNOWN) due to reclamation within the "
        "cohort; preemptor path: /org/team/a; preemptee path: /org/z"
    )


def test_pending_preemption_is_counted_in_the_message() -> None:
    (outcome,) = World(CASES["no more than it takes"]).cycle().entries
    assert outcome.message.endswith("2 more needed. Pending the preemption of 2 workload(s)") or (
        outcome.message.endswith("3 more needed. Pending the preemption of 2 workload(s)")
    )
