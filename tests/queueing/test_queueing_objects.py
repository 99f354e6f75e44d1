"""What Kueue's objects say, and what the API objects say after a decision."""

from __future__ import annotations

from typing import Any

import pytest
from queueworld import Case, World, cohort, flavor, pod_set, queue, running, wl

from fairway.queueing.cycle.entries import Eviction
from fairway.queueing.facts import objects as facts
from fairway.queueing.facts.amounts import UNLIMITED, amount_text, quota_amount, resource_rank
from fairway.queueing.facts.gates import FeatureGates, field_of, gates_from
from fairway.queueing.facts.topologyassignments import (
    DomainCount,
    TopologyAssignment,
    read_assignment,
    write_assignment,
)
from fairway.queueing.facts.transformations import transformations
from fairway.queueing.facts.workloads import WorkloadReader
from fairway.queueing.outcomes import statuses
from fairway.queueing.outcomes.events import admission_events, eviction_events, pending_event

NOW_US = 1_800_000_000_000_000


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("cpu", 0, "0"),
        ("cpu", 1500, "1500m"),
        ("cpu", 1_000_000, "1k"),
        ("memory", 2**31, "2Gi"),
        ("memory", 1000, "1000"),
        ("nvidia.com/gpu", 8, "8"),
        ("nvidia.com/gpu", 2000, "2k"),
        ("gpu", UNLIMITED - 5, "<unlimited>"),
    ],
)
def test_amounts_print_as_quantities(resource: str, amount: int, text: str) -> None:
    assert amount_text(resource, amount) == text


def test_a_quota_beyond_64_bits_is_unlimited() -> None:
    assert quota_amount("gpu", "9223372036854775807") == UNLIMITED
    assert quota_amount("cpu", "9223372036854775") == UNLIMITED
    assert quota_amount("cpu", "2") == 2000


def test_requests_are_walked_by_the_hash_of_their_name() -> None:
    """FNV-1a of the empty string is its offset basis."""
    assert resource_rank("")[0] == 0xCBF29CE484222325
    assert resource_rank("a")[0] == 0xAF63DC4C8601EC8C


def test_gate_names_become_fields() -> None:
    assert field_of("TASProfileMixed") == "tas_profile_mixed"
    assert gates_from({"PartialAdmission": False, "Nonsense": True}) == (
        FeatureGates(partial_admission=False),
        ("Nonsense",),
    )


def test_v1beta1_and_v1beta2_say_the_same() -> None:
    old = {
        "metadata": {"name": "a"},
        "spec": {
            "cohort": "lab",
            "admissionChecks": ["prov"],
            "flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "Preempt"},
        },
    }
    new = {
        "metadata": {"name": "a"},
        "spec": {
            "cohortName": "lab",
            "admissionChecksStrategy": {"admissionChecks": [{"name": "prov"}]},
            "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "MayStopSearch"},
        },
    }
    assert facts.cluster_queue(old) == facts.cluster_queue(new)
    assert facts.cohort({"metadata": {"name": "x"}, "spec": {"parent": "y"}}) == facts.cohort(
        {"metadata": {"name": "x"}, "spec": {"parentName": "y"}}
    )


def test_resource_transformations_replace_and_add() -> None:
    rules = transformations(
        {
            "excludeResourcePrefixes": ["networking.example.com/"],
            "transformations": [
                {
                    "input": "nvidia.com/mig-1g.5gb",
                    "strategy": "Replace",
                    "outputs": {"example.com/accelerator-memory": "5Gi", "example.com/credits": "10"},
                },
                {"input": "gpu", "outputs": {"example.com/credits": "35"}},
            ],
        }
    )
    assert rules.apply({"nvidia.com/mig-1g.5gb": 2, "gpu": 1, "networking.example.com/vf": 4}) == {
        "gpu": 1,
        "example.com/accelerator-memory": 10 * 2**30,
        "example.com/credits": 55,
    }


def test_resource_transformations_multiply() -> None:
    rules = transformations(
        {
            "transformations": [
                {
                    "input": "gpu-memory",
                    "strategy": "Replace",
                    "multiplyBy": "gpu",
                    "outputs": {"total-gpu-memory": "1"},
                }
            ]
        }
    )
    assert rules.apply({"gpu-memory": 1024, "gpu": 4}) == {"gpu": 4, "total-gpu-memory": 4096}


FAR, NEAR = "far" * 30, "near" * 30


@pytest.mark.parametrize(
    ("hosts", "slices"),
    [
        (["x1"], [{"universal": "x1"}]),
        (["x1", "x2"], [{"individual": {"prefix": "x", "roots": ["1", "2"]}}]),
        (["a-x", "b-x"], [{"individual": {"suffix": "-x", "roots": ["a", "b"]}}]),
        (
            # What only one has in common with itself is no run of its own; a host without a dash is.
            [*(f"{FAR}-{i}-x" for i in range(4)), *(f"{NEAR}-{i}-y" for i in range(4)), "z"],
            [
                {"individual": {"prefix": f"{FAR}-", "suffix": "-x", "roots": ["0", "1", "2", "3"]}},
                {"individual": {"prefix": f"{NEAR}-", "suffix": "-y", "roots": ["0", "1", "2", "3"]}},
                {"universal": "z"},
            ],
        ),
    ],
)
def test_topology_assignments_are_packed(hosts: list[str], slices: list[dict[str, Any]]) -> None:
    assignment = TopologyAssignment(("kubernetes.io/hostname",), tuple(DomainCount((h,), 1) for h in hosts))
    packed = write_assignment(assignment)
    assert packed is not None
    assert [s["valuesPerLevel"][0] for s in packed["slices"]] == slices
    assert read_assignment(packed) == assignment
    by_rack = write_assignment(TopologyAssignment(("rack",), assignment.domains))
    assert by_rack is not None
    assert len(by_rack["slices"]) == 1, "prefixes are of hosts alone"


@pytest.mark.parametrize("levels", [(), ("kubernetes.io/hostname",)])
def test_an_assignment_of_nothing_has_no_slices(levels: tuple[str, ...]) -> None:
    for by_prefix in (True, False):
        packed = write_assignment(TopologyAssignment(levels, ()), by_hostname_prefix=by_prefix)
        assert packed == {"levels": list(levels), "slices": []}
    assert write_assignment(None) is None


def test_prefixes_are_shorter_where_there_would_be_more_than_a_thousand_runs() -> None:
    """A thousand runs of two hosts are longer than one slice; of one more there are two, one for each letter."""
    for pairs, prefixes in ((500, [None]), (501, ["a-", "b-"])):
        hosts = [f"a-{i}-{k}" for i in range(pairs) for k in "01"]
        hosts += [f"b-{i}-{k}" for i in range(500) for k in "01"]
        domains = tuple(DomainCount((h,), 1) for h in hosts)
        assignment = TopologyAssignment(("kubernetes.io/hostname",), domains)
        packed = write_assignment(assignment)
        assert packed is not None
        assert [s["valuesPerLevel"][0]["individual"].get("prefix") for s in packed["slices"]] == prefixes
        assert read_assignment(packed) == assignment


def test_the_plain_form_of_v1beta1_is_read_too() -> None:
    plain = {"levels": ["rack", "host"], "domains": [{"values": ["r1", "h1"], "count": 2}]}
    assert read_assignment(plain) == TopologyAssignment(("rack", "host"), (DomainCount(("r1", "h1"), 2),))


INACTIVE = {
    "stopped": (
        {"spec": {"stopPolicy": "HoldAndDrain"}},
        "Stopped",
        "Can't admit new workloads: is stopped.",
    ),
    "flavor missing": (
        {"gpu": {"ghost": 1}},
        "FlavorNotFound",
        "Can't admit new workloads: references missing ResourceFlavor(s): ghost.",
    ),
    "check missing": (
        {"spec": {"admissionChecks": ["prov"]}},
        "AdmissionCheckNotFound",
        "Can't admit new workloads: references missing AdmissionCheck(s): prov.",
    ),
    "check inactive": (
        {"spec": {"admissionChecks": ["lazy"]}},
        "AdmissionCheckInactive",
        "Can't admit new workloads: references inactive AdmissionCheck(s): lazy.",
    ),
    "topology missing": (
        {"gpu": {"tas": 1}},
        "TopologyNotFound",
        'Can\'t admit new workloads: there is no Topology "dc" for TAS flavor "tas".',
    ),
}


@pytest.mark.parametrize(("more", "reason", "message"), INACTIVE.values(), ids=INACTIVE.keys())
def test_why_a_queue_is_inactive(more: dict[str, Any], reason: str, message: str) -> None:
    case = Case(
        queues=[queue("a", **more)],
        flavors=[flavor("default"), flavor("tas", topologyName="dc")],
        checks=[{"metadata": {"name": "lazy"}, "spec": {"controllerName": "x"}}],
        waiting=[],
        want={},
    )
    assert World(case).accounts.queues["a"].inactivity == (reason, message)


def test_a_configuration_change_moves_only_its_tree_to_a_new_generation() -> None:
    case = Case(
        queues=[queue("a", 1, cohort="x"), queue("b", 1, cohort="x"), queue("z", 1)],
        cohorts=[cohort("x")],
        waiting=[],
        want={},
    )
    accounts = World(case).accounts
    before = {name: q.generation for name, q in accounts.queues.items()}
    accounts.set_cluster_queue(facts.cluster_queue(queue("a", 2, cohort="x")))
    accounts.settle()
    after = {name: q.generation for name, q in accounts.queues.items()}
    assert (after["a"] > before["a"], after["b"] > before["b"], after["z"] == before["z"]) == (True,) * 3


def test_admission_writes_quota_and_admitted() -> None:
    case = Case(queues=[queue("a", 4)], waiting=[wl("w", "a", 2)], want={})
    world = World(case)
    (outcome,) = world.cycle().entries
    assert outcome.admission is not None
    after = statuses.admitted(case.waiting[0], outcome.admission, world.accounts.queues["a"].spec, NOW_US)
    said = [(c["type"], c["status"], c["reason"], c["message"]) for c in after["status"]["conditions"]]
    assert said == [
        ("QuotaReserved", "True", "QuotaReserved", "Quota reserved in ClusterQueue a"),
        ("Admitted", "True", "Admitted", "The workload is admitted"),
    ]
    assert after["status"]["admission"]["podSetAssignments"] == [
        {"name": "main", "flavors": {"gpu": "default"}, "resourceUsage": {"gpu": "2"}, "count": 1}
    ]
    events = admission_events(outcome, case.waiting[0], after, NOW_US)
    assert [e.message for e in events] == [
        "Quota reserved in ClusterQueue a, wait time since queued was 60s",
        "Admitted by ClusterQueue a, wait time since reservation was 0s",
    ]
    assert WorkloadReader().read(after).usage == ((facts.FlavorResource("default", "gpu"), 2),)


def test_a_required_check_holds_admission_back() -> None:
    spec = facts.cluster_queue(queue("a", 4, spec={"admissionChecks": ["prov"]}))
    admission = {
        "clusterQueue": "a",
        "podSetAssignments": [{"name": "main", "flavors": {"gpu": "default"}, "count": 1}],
    }
    after = statuses.admitted(wl("w", "a"), admission, spec, NOW_US)
    assert [c["type"] for c in after["status"]["conditions"]] == ["QuotaReserved"]
    pending = {**wl("w", "a"), "status": {"admissionChecks": [{"name": "prov", "state": "Pending"}]}}
    after = statuses.admitted(pending, admission, spec, NOW_US)
    assert after["status"]["conditions"][1]["reason"] == "UnsatisfiedAdmissionChecks"


def test_admission_after_an_eviction_remembers_it() -> None:
    spec = facts.cluster_queue(queue("a", 4))
    eviction = Eviction(WorkloadReader().read(running("w", "a")), "InClusterQueue", "make room")
    gone = statuses.preempted(running("w", "a"), eviction, NOW_US)
    admission = gone["status"]["admission"]
    after = statuses.admitted(gone, admission, spec, NOW_US)
    of = {c["type"]: (c["status"], c["reason"], c["message"]) for c in after["status"]["conditions"]}
    assert of["Evicted"] == of["Preempted"] == ("False", "QuotaReserved", "Previously: make room")
    assert after["status"]["schedulingStats"] == {
        "evictions": [{"reason": "Preempted", "underlyingCause": "", "count": 1}]
    }


def test_an_eviction_resets_checks_and_counts() -> None:
    obj = running("w", "a")
    obj["status"]["admissionChecks"] = [
        {"name": "p", "state": "Retry", "retryCount": 1},
        {"name": "q", "state": "Pending"},
    ]
    after = statuses.evicted(obj, "Deactivated", "gone", NOW_US, cause="RequeuingLimitExceeded")
    checks = after["status"]["admissionChecks"]
    assert (checks[0]["state"], checks[0]["retryCount"]) == ("Pending", 2)
    assert checks[0]["message"] == "Reset to Pending after eviction. Previously: Retry"
    assert checks[1] == {"name": "q", "state": "Pending"}
    assert after["status"]["conditions"][-1]["reason"] == "DeactivatedDueToRequeuingLimitExceeded"


def test_losing_quota_counts_the_time_run() -> None:
    after = statuses.without_quota(running("w", "a", since_s=30), "Pending", "why", NOW_US)
    assert after["status"]["accumulatedPastExecutionTimeSeconds"] == 30
    assert "admission" not in after["status"]


def test_refusal_is_written_with_what_was_asked() -> None:
    case = Case(queues=[queue("a", 1)], waiting=[wl("w", "a", 2)], want={})
    (outcome,) = World(case).cycle().entries
    after = statuses.pending(case.waiting[0], outcome, NOW_US)
    assert after["status"]["resourceRequests"] == [{"name": "main", "resources": {"gpu": "2"}}]
    assert pending_event(outcome).reason == after["status"]["conditions"][0]["reason"] == "ExceedsMaxQuota"


def test_a_preemption_is_told_to_both_sides() -> None:
    case = Case(
        queues=[queue("a", 4, within="LowerPriority")],
        holding=[running("low", "a", 4)],
        waiting=[wl("high", "a", 4, priority=2)],
        want={},
    )
    (eviction,) = World(case).cycle().evictions()
    kinds = [(e.key, e.reason) for e in eviction_events(eviction, "a")]
    assert kinds == [
        ("default/low", "EvictedDueToPreempted"),
        ("default/low", "Preempted"),
        ("default/high", "PreemptedWorkload"),
    ]


def test_reclaimable_pods_are_not_counted() -> None:
    obj = wl("w", "a", pod_sets=[pod_set("main", 4, {"gpu": 2})])
    obj["status"] = {"reclaimablePods": [{"name": "main", "count": 3}]}
    assert WorkloadReader().read(obj).totals[0].requests == {"gpu": 2}


def test_equal_specs_share_one_shape() -> None:
    reader = WorkloadReader()
    one, two = reader.read(wl("one", "a", 2)), reader.read(wl("two", "a", 2))
    other = reader.read(wl("other", "a", 3))
    assert one.shape is two.shape
    assert one.hash == two.hash != other.hash


def test_a_limit_stands_in_for_a_request_and_amounts_count_by_value_in_the_hash() -> None:
    """Kueue compares what pods will ask for, not how their template says it."""
    reader = WorkloadReader()

    def hash_of(resources: dict[str, Any], **spec: Any) -> object:
        main = pod_set()
        main["template"]["spec"] = {"containers": [{"name": "c", "resources": resources}], **spec}
        return reader.read(wl("w", "a", pod_sets=[main])).hash

    plain = hash_of({"requests": {"cpu": "2", "memory": "1Gi"}})
    assert hash_of({"requests": {"cpu": "2000m", "memory": "1024Mi"}}) == plain
    assert hash_of({"limits": {"cpu": 2, "memory": "1Gi"}}) == plain
    assert hash_of({"limits": {"cpu": "4"}, "requests": {"cpu": "2", "memory": "1Gi"}}) == plain
    assert hash_of({"requests": {"cpu": "2", "memory": "2Gi"}}) != plain
    assert hash_of({"requests": {"cpu": "2", "memory": "1Gi"}}, overhead={"cpu": "1"}) != plain
