"""Who is admitted, borrows, and waits for quota: Kueue's documentation on ClusterQueues and Cohorts, as cases."""

from __future__ import annotations

import pytest
from queueworld import Case, World, cohort, flavor, play, pod_set, queue, running, taint, wl

from fairway.queueing.facts.objects import FlavorResource

SPOT = flavor("spot", nodeLabels={"lane": "spot"}, nodeTaints=[taint("spot")])
ON_DEMAND = flavor("on-demand", nodeLabels={"lane": "on-demand"})
TOLERATES_SPOT = [{"key": "spot", "operator": "Exists"}]
TWO = {"on-demand": 4, "spot": 4}


def affinity(*terms: list[tuple[str, str, list[str]]]) -> dict[str, object]:
    selector = [
        {"matchExpressions": [{"key": k, "operator": op, "values": v} for k, op, v in term]} for term in terms
    ]
    return {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": selector}}
    }


CASES = {
    "fits its own quota": Case(
        queues=[queue("a", 8)], waiting=[wl("train", "a", 8)], want={"train": "admitted default"}
    ),
    "one more than free waits for quota": Case(
        queues=[queue("a", 8)],
        holding=[running("old", "a", 5)],
        waiting=[wl("train", "a", 4)],
        want={"train": "waits WaitingForQuota"},
        message={"train": "insufficient unused quota for gpu in flavor default, 1 more needed"},
    ),
    "more than the quota can ever be": Case(
        queues=[queue("a", 8)],
        waiting=[wl("train", "a", 9)],
        want={"train": "waits ExceedsMaxQuota"},
        message={"train": "podsets requests (0) + current podset request (9) > maximum capacity (8)"},
    ),
    "borrows what a sibling leaves idle": Case(
        queues=[queue("a", 4, cohort="lab"), queue("b", 4, cohort="lab")],
        waiting=[wl("train", "a", 7)],
        want={"train": "admitted default"},
    ),
    "a queue without a cohort borrows from nobody": Case(
        queues=[queue("a", 4), queue("b", 4)],
        waiting=[wl("train", "a", 5)],
        want={"train": "waits ExceedsMaxQuota"},
    ),
    "borrowing stops at the borrowing limit": Case(
        queues=[queue("a", {"default": (4, 2)}, cohort="lab"), queue("b", 8, cohort="lab")],
        waiting=[wl("train", "a", 7)],
        want={"train": "waits ExceedsMaxQuota"},
    ),
    "borrowing up to the limit is fine": Case(
        queues=[queue("a", {"default": (4, 2)}, cohort="lab"), queue("b", 8, cohort="lab")],
        waiting=[wl("train", "a", 6)],
        want={"train": "admitted default"},
    ),
    "a sibling lends no more than its lending limit": Case(
        queues=[queue("a", 4, cohort="lab"), queue("b", {"default": (8, None, 3)}, cohort="lab")],
        waiting=[wl("train", "a", 8)],
        want={"train": "waits ExceedsMaxQuota"},
    ),
    "what is not lent is still the owner's": Case(
        queues=[queue("a", 4, cohort="lab"), queue("b", {"default": (8, None, 3)}, cohort="lab")],
        holding=[running("guest", "a", 7)],
        waiting=[wl("own", "b", 5)],
        want={"own": "admitted default"},
    ),
    "a cohort's own quota is shared": Case(
        queues=[queue("a", 0, cohort="lab")],
        cohorts=[cohort("lab", gpu=6)],
        waiting=[wl("train", "a", 6)],
        want={"train": "admitted default"},
    ),
    "quota flows down from the grandparent": Case(
        queues=[queue("a", 0, cohort="team")],
        cohorts=[cohort("team", parent="org"), cohort("org", gpu=5)],
        waiting=[wl("train", "a", 5)],
        want={"train": "admitted default"},
    ),
    "a cohort's borrowing limit binds everybody below": Case(
        queues=[queue("a", 0, cohort="team"), queue("z", 9, cohort="org")],
        cohorts=[cohort("team", parent="org", gpu={"default": (0, 2)}), cohort("org")],
        waiting=[wl("train", "a", 3)],
        want={"train": "waits ExceedsMaxQuota"},
    ),
    "a cohort's lending limit keeps quota inside": Case(
        queues=[queue("a", 6, cohort="team"), queue("z", 0, cohort="org")],
        cohorts=[cohort("team", parent="org", gpu={"default": (0, None, 2)}), cohort("org")],
        waiting=[wl("outside", "z", 3)],
        want={"outside": "waits ExceedsMaxQuota"},
    ),
    "cohorts in a cycle admit nothing": Case(
        queues=[queue("a", 4, cohort="x")],
        cohorts=[cohort("x", parent="y"), cohort("y", parent="x")],
        waiting=[wl("train", "a", 1)],
        want={"train": "waits Suspended"},
    ),
    "a queue that names an unknown flavor is inactive": Case(
        queues=[queue("a", {"ghost": 4})],
        waiting=[wl("train", "a", 1)],
        want={"train": "waits Suspended"},
        message={"train": "ClusterQueue a is inactive"},
    ),
    "a held queue admits nothing": Case(
        queues=[queue("a", 4, spec={"stopPolicy": "Hold"})],
        waiting=[wl("train", "a", 1)],
        want={"train": "waits Suspended"},
    ),
    "two heads share what is left; the second no longer fits": Case(
        queues=[queue("a", 4, cohort="lab"), queue("b", 4, cohort="lab")],
        holding=[running("old", "a", 4)],
        waiting=[wl("later", "a", 3, age_s=10), wl("first", "b", 3, age_s=90)],
        want={"first": "admitted default", "later": "waits WaitingForQuota"},
        message={"later": "Workload no longer fits after processing another workload"},
    ),
    "those who need not borrow go before those who do": Case(
        queues=[queue("a", 4, cohort="lab"), queue("b", 4, cohort="lab")],
        waiting=[wl("borrower", "a", 5, priority=9, age_s=90), wl("own", "b", 4, age_s=1)],
        want={"own": "admitted default", "borrower": "waits WaitingForQuota"},
    ),
    "among borrowers the higher priority goes first": Case(
        queues=[queue("a", 0, cohort="lab"), queue("b", 0, cohort="lab"), queue("c", 4, cohort="lab")],
        waiting=[wl("old", "a", 3, age_s=90), wl("urgent", "b", 3, priority=5, age_s=1)],
        want={"urgent": "admitted default", "old": "waits WaitingForQuota"},
    ),
    "without sorting by priority the older goes first": Case(
        queues=[queue("a", 0, cohort="lab"), queue("b", 0, cohort="lab"), queue("c", 4, cohort="lab")],
        waiting=[wl("old", "a", 3, age_s=90), wl("urgent", "b", 3, priority=5, age_s=1)],
        gates={"PrioritySortingWithinCohort": False},
        want={"old": "admitted default", "urgent": "waits WaitingForQuota"},
    ),
    "flavors are tried in order": Case(
        queues=[queue("a", TWO)],
        flavors=[ON_DEMAND, SPOT],
        waiting=[wl("train", "a", 4)],
        want={"train": "admitted on-demand"},
    ),
    "a taint nobody tolerates rules a flavor out": Case(
        queues=[queue("a", TWO)],
        flavors=[ON_DEMAND, SPOT],
        holding=[running("old", "a", 4, flavor="on-demand")],
        waiting=[wl("train", "a", 4)],
        want={"train": "waits WaitingForQuota"},
        message={"train": "untolerated taint {spot  NoSchedule <nil>} in flavor spot"},
    ),
    "a toleration opens the tainted flavor": Case(
        queues=[queue("a", TWO)],
        flavors=[ON_DEMAND, SPOT],
        holding=[running("old", "a", 4, flavor="on-demand")],
        waiting=[wl("train", "a", pod_sets=[pod_set(requests={"gpu": 4}, tolerations=TOLERATES_SPOT)])],
        want={"train": "admitted spot"},
    ),
    "a flavor's own tolerations count too": Case(
        queues=[queue("a", {"spot": 4})],
        flavors=[flavor("spot", nodeTaints=[taint("spot")], tolerations=TOLERATES_SPOT)],
        waiting=[wl("train", "a", 4)],
        want={"train": "admitted spot"},
    ),
    "a node selector picks the flavor": Case(
        queues=[queue("a", {"on-demand": 4, "cheap": 4})],
        flavors=[ON_DEMAND, flavor("cheap", nodeLabels={"lane": "cheap"})],
        waiting=[wl("train", "a", pod_sets=[pod_set(requests={"gpu": 1}, nodeSelector={"lane": "cheap"})])],
        want={"train": "admitted cheap"},
    ),
    "selector keys no flavor sets are ignored": Case(
        queues=[queue("a", {"on-demand": 4})],
        flavors=[ON_DEMAND],
        waiting=[wl("train", "a", pod_sets=[pod_set(requests={"gpu": 1}, nodeSelector={"disk": "ssd"})])],
        want={"train": "admitted on-demand"},
    ),
    "node affinity that no flavor meets": Case(
        queues=[queue("a", {"on-demand": 4})],
        flavors=[ON_DEMAND],
        waiting=[
            wl(
                "train",
                "a",
                pod_sets=[pod_set(requests={"gpu": 1}, affinity=affinity([("lane", "In", ["x"])]))],
            )
        ],
        want={"train": "waits NoMatchingFlavor"},
        message={"train": "flavor on-demand doesn't match node affinity"},
    ),
    "one alternative of the affinity that says nothing of the flavor is enough": Case(
        queues=[queue("a", {"on-demand": 4})],
        flavors=[ON_DEMAND],
        waiting=[
            wl(
                "train",
                "a",
                pod_sets=[
                    pod_set(
                        requests={"gpu": 1},
                        affinity=affinity([("lane", "In", ["x"])], [("disk", "In", ["ssd"])]),
                    )
                ],
            )
        ],
        want={"train": "admitted on-demand"},
    ),
    "stop at a flavor that can borrow": Case(
        queues=[
            queue("a", {"default": 1, "next": 4}, cohort="lab"),
            queue("b", {"default": 4}, cohort="lab"),
        ],
        flavors=[flavor("default"), flavor("next")],
        waiting=[wl("train", "a", 3)],
        want={"train": "admitted default"},
    ),
    "try the next flavor rather than borrow": Case(
        queues=[
            queue(
                "a",
                {"default": 1, "next": 4},
                cohort="lab",
                fungibility={"whenCanBorrow": "TryNextFlavor"},
            ),
            queue("b", {"default": 4}, cohort="lab"),
        ],
        flavors=[flavor("default"), flavor("next")],
        waiting=[wl("train", "a", 3)],
        want={"train": "admitted next"},
    ),
    "v1beta1 Borrow means stop": Case(
        queues=[
            queue("a", {"default": 1, "next": 4}, cohort="lab", fungibility={"whenCanBorrow": "Borrow"}),
            queue("b", {"default": 4}, cohort="lab"),
        ],
        flavors=[flavor("default"), flavor("next")],
        waiting=[wl("train", "a", 3)],
        want={"train": "admitted default"},
    ),
    "preempt in the first flavor rather than look at the next": Case(
        queues=[
            queue(
                "a",
                {"default": 4, "next": 4},
                within="LowerPriority",
                fungibility={"whenCanPreempt": "MayStopSearch"},
            )
        ],
        flavors=[flavor("default"), flavor("next")],
        holding=[running("old", "a", 4)],
        waiting=[wl("urgent", "a", 2, priority=5)],
        want={"urgent": "preempts old:InClusterQueue"},
    ),
    "look at the next flavor before preempting": Case(
        queues=[queue("a", {"default": 4, "next": 4}, within="LowerPriority")],
        flavors=[flavor("default"), flavor("next")],
        holding=[running("old", "a", 4)],
        waiting=[wl("urgent", "a", 2, priority=5)],
        want={"urgent": "admitted next"},
    ),
    "borrowing is preferred to preemption": Case(
        queues=[
            queue(
                "a",
                {"default": 4, "next": 0},
                cohort="lab",
                within="LowerPriority",
                fungibility={"whenCanBorrow": "TryNextFlavor"},
            ),
            queue("b", {"next": 4}, cohort="lab"),
        ],
        flavors=[flavor("default"), flavor("next")],
        holding=[running("old", "a", 4)],
        waiting=[wl("urgent", "a", 2, priority=5)],
        want={"urgent": "admitted next"},
    ),
    "preemption is preferred to borrowing where asked": Case(
        queues=[
            queue(
                "a",
                {"default": 4, "next": 0},
                cohort="lab",
                within="LowerPriority",
                fungibility={"whenCanBorrow": "TryNextFlavor", "preference": "PreemptionOverBorrowing"},
            ),
            queue("b", {"next": 4}, cohort="lab"),
        ],
        flavors=[flavor("default"), flavor("next")],
        holding=[running("old", "a", 4)],
        waiting=[wl("urgent", "a", 2, priority=5)],
        want={"urgent": "preempts old:InClusterQueue"},
    ),
    "a resource the queue does not cover": Case(
        queues=[queue("a", 4)],
        waiting=[wl("train", "a", pod_sets=[pod_set(requests={"gpu": 1, "tpu": 1})])],
        want={"train": "waits NoMatchingFlavor"},
        message={"train": "resource tpu unavailable in ClusterQueue"},
    ),
    "a workload that asks for nothing is admitted": Case(
        queues=[queue("a", 0)],
        waiting=[wl("idle", "a", pod_sets=[pod_set()])],
        want={"idle": "admitted nothing"},
    ),
    "several pod sets add up": Case(
        queues=[queue("a", 5)],
        waiting=[
            wl("train", "a", pod_sets=[pod_set("driver", 1, {"gpu": 2}), pod_set("workers", 2, {"gpu": 2})])
        ],
        want={"train": "waits ExceedsMaxQuota"},
        message={
            "train": "pod set workers: insufficient quota for gpu in flavor default, previously considered"
        },
    ),
    "partial admission takes as many pods as fit": Case(
        queues=[queue("a", 5)],
        waiting=[wl("train", "a", pod_sets=[pod_set("main", 10, {"gpu": 1}, min_count=2)])],
        want={"train": "admitted default with 5 pods"},
    ),
    "partial admission does not go below the minimum": Case(
        queues=[queue("a", 5)],
        waiting=[wl("train", "a", pod_sets=[pod_set("main", 10, {"gpu": 1}, min_count=6)])],
        want={"train": "waits ExceedsMaxQuota"},
    ),
    "partial admission can be switched off": Case(
        queues=[queue("a", 5)],
        gates={"PartialAdmission": False},
        waiting=[wl("train", "a", pod_sets=[pod_set("main", 10, {"gpu": 1}, min_count=2)])],
        want={"train": "waits ExceedsMaxQuota"},
    ),
    "the namespace must match the queue's selector": Case(
        queues=[queue("a", 4, spec={"namespaceSelector": {"matchLabels": {"team": "research"}}})],
        waiting=[wl("train", "a", 1), wl("paper", "a", 1, namespace="research")],
        want={"train": "waits Misconfigured", "paper": "admitted default"},
        message={"train": "workload namespace doesn't match ClusterQueue selector"},
    ),
    "requests above limits are refused": Case(
        queues=[queue("a", 4)],
        waiting=[
            wl(
                "train",
                "a",
                pod_sets=[
                    {
                        "name": "main",
                        "count": 1,
                        "template": {
                            "spec": {
                                "containers": [
                                    {"resources": {"requests": {"gpu": "2"}, "limits": {"gpu": "1"}}}
                                ]
                            }
                        },
                    }
                ],
            )
        ],
        want={"train": "waits Misconfigured"},
        message={"train": 'containers[0]: Invalid value: ["gpu"]: requests must not exceed its limits'},
    ),
    "a rejected admission check keeps it out": Case(
        queues=[queue("a", 4)],
        waiting=[wl("train", "a", 1, status={"admissionChecks": [{"name": "p", "state": "Rejected"}]})],
        want={"train": "waits PendingEvaluation"},
    ),
    "unlimited quota stays unlimited": Case(
        queues=[queue("a", "9223372036854775807")],
        holding=[running("old", "a", 1000)],
        waiting=[wl("train", "a", 5000)],
        want={"train": "admitted default"},
    ),
    "the next slice of an elastic job needs only what it has more": Case(
        queues=[queue("a", 5)],
        holding=[running("slice-1", "a", 3)],
        waiting=[
            wl(
                "slice-2",
                "a",
                5,
                annotations={"kueue.x-k8s.io/workload-slice-replacement-for": "default/slice-1"},
            )
        ],
        want={"slice-2": "admitted default"},
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_admission(case: Case) -> None:
    said, messages = play(case)
    assert said == case.want
    for name, part in case.message.items():
        assert part in messages[name]


def test_a_reason_that_two_resources_share_is_said_once_of_a_flavor_passed_over() -> None:
    """A slice follows the one it replaces into its flavor; cpu and gpu both refuse the other one."""
    both = ("cpu", "gpu")
    quota = [{"name": r, "nominalQuota": "8"} for r in both]
    flavors = [{"name": name, "resources": quota} for name in ("a100", "h100")]
    groups = [{"coveredResources": list(both), "flavors": flavors}]
    old = running("slice-1", "a", 1, pod_sets=[pod_set(requests={"cpu": 1, "gpu": 1})])
    (held,) = old["status"]["admission"]["podSetAssignments"]
    held |= {"flavors": dict.fromkeys(both, "h100"), "resourceUsage": dict.fromkeys(both, "1")}
    new = wl(
        "slice-2",
        "a",
        pod_sets=[pod_set(count=2, requests={"cpu": 1, "gpu": 1})],
        annotations={"kueue.x-k8s.io/workload-slice-replacement-for": "default/slice-1"},
    )
    queues = [queue("a", spec={"resourceGroups": groups})]
    case = Case(queues, [new], {}, holding=[old], flavors=[flavor("a100"), flavor("h100")])
    (outcome,) = World(case).cycle().entries
    assert outcome.considered == (
        "main: a100(NoFit;could not assign a100 flavor since the original workload is assigned: h100)"
    )


def test_what_a_queue_beyond_its_limit_reserves_gives_its_cohort_nothing() -> None:
    """It may use 4 and holds 6, so what it keeps for a workload that cannot preempt is less than nothing."""
    case = Case(
        queues=[
            queue("over", {"default": (2, 2)}, cohort="lab", reclaim="LowerPriority", within="LowerPriority"),
            queue("b", 6, cohort="lab"),
        ],
        holding=[running("old", "over", 6, priority=9)],
        waiting=[],
        want={},
    )
    accounts = World(case).accounts
    over, other, gpu = accounts.queues["over"], accounts.queues["b"], FlavorResource("default", "gpu")
    lab = accounts.cohorts["lab"]
    for value, used, borrowers in ((-1, 5, [over]), (-5, 1, []), (-4, 2, [])):
        over.add(gpu, value)
        assert (over.usage[gpu], lab.usage[gpu], other.free(gpu)) == (used, 6, 2)
        assert lab.children_over([gpu]) == borrowers
        over.remove(gpu, value)
        assert (over.usage[gpu], lab.usage[gpu], lab.children_over([gpu])) == (6, 6, [over])


def test_a_stopped_queue_does_not_make_its_cohort_higher() -> None:
    stop = {"stopPolicy": "Hold"}
    for spec, height in ((stop, 0), ({}, 1)):
        world = World(
            Case(
                queues=[queue("only", 4, cohort="low", spec=spec), queue("a", 1, cohort="top")],
                cohorts=[cohort("low", "top"), cohort("top")],
                waiting=[],
                want={},
            )
        )
        assert world.accounts.cohorts["low"].height() == height
        assert world.accounts.cohorts["top"].height() == height + 1
