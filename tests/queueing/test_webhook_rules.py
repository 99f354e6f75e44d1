"""The rules of Kueue's webhooks one by one, at both sides of their boundaries."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairway.queueing.webhooks.clusterqueues import cluster_queue_faults
from fairway.queueing.webhooks.gatedby import GATED_BY, gated_by_faults
from fairway.queueing.webhooks.settings import Settings
from fairway.queueing.webhooks.topologyannotations import (
    Template,
    bound_faults,
    grouping_faults,
    topology_faults,
)
from fairway.queueing.webhooks.workloads import workload_faults

Obj = dict[str, Any]
K = "kueue.x-k8s.io/podset-"
LAYERS = "slice-required-topology-constraints"
NUMBER = "must be greater than or equal to 1"


def template(name: str = "main", count: int = 4, **annotations: str) -> Template:
    named = {K + key.replace("_", "-"): value for key, value in annotations.items()}
    return Template(name, ("spec", name), named, count)


def layers(*sizes: tuple[str, int]) -> str:
    return json.dumps([{"topology": topology, "size": size} for topology, size in sizes])


def at(key: str) -> str:
    return f"spec.main.annotations[{K}{key}]"


TOPOLOGY: dict[str, tuple[Template, list[str]]] = {
    "none": (Template("main", ("spec",), {"other": "x"}, 1), []),
    "a group that is a number": (
        template(group_name="007", required_topology="rack"),
        [f'{at("group-name")}: Invalid value: "007": must not be a number'],
    ),
    "a group that only begins like a number": (template(group_name="7a", required_topology="rack"), []),
    "a group larger than any number": (template(group_name=str(2**64), preferred_topology="rack"), []),
    "the largest number": (
        template(group_name=str(2**64 - 1), preferred_topology="rack"),
        [f'{at("group-name")}: Invalid value: "{2**64 - 1}": must not be a number'],
    ),
    "a group of nothing": (
        template(group_name="g", unconstrained_topology="true"),
        [
            f"{at('group-name')}: Forbidden: may not be set when neither '{K}preferred-topology' nor "
            f"'{K}required-topology' is specified"
        ],
    ),
    "a group with slices": (
        template(group_name="g", required_topology="rack", slice_required_topology="rack", slice_size="1"),
        [
            f"{at('group-name')}: Forbidden: may not be set when '{K}slice-size' is specified",
            f"{at('group-name')}: Forbidden: may not be set when '{K}slice-required-topology' is specified",
        ],
    ),
    "slices of nobody": (
        template(slice_required_topology="rack", slice_size="0"),
        [f'{at("slice-size")}: Invalid value: "0": {NUMBER}'],
    ),
    "slices of one": (template(slice_required_topology="rack", slice_size="+1"), []),
    "the largest slices": (template(slice_required_topology="rack", slice_size=str(2**31 - 1)), []),
    "slices larger than any": (
        template(slice_required_topology="rack", slice_size=str(2**31)),
        [f'{at("slice-size")}: Invalid value: "{2**31}": must be a numeric value'],
    ),
    "slices smaller than any": (
        template(slice_required_topology="rack", slice_size=str(-(2**31))),
        [f'{at("slice-size")}: Invalid value: "{-(2**31)}": {NUMBER}'],
    ),
    "two layers": (template(slice_required_topology_constraints=layers(("a", 4), ("b", 2))), []),
    "four layers": (
        template(slice_required_topology_constraints="[{}, {}, {}, {}]"),
        [
            f'{at(LAYERS)}: Invalid value: "[{{}}, {{}}, {{}}, {{}}]": topology constraints must contain between '
            "1 and 3 entries"
        ],
    ),
    "layers and slices": (
        template(
            slice_required_topology_constraints=layers(("a", 1)),
            slice_required_topology="a",
            slice_size="1",
            group_name="g",
            required_topology="a",
        ),
        [
            f"{at('group-name')}: Forbidden: may not be set when '{K}slice-size' is specified",
            f"{at('group-name')}: Forbidden: may not be set when '{K}slice-required-topology' is specified",
            f"{at(LAYERS)}: Forbidden: may not be set when '{K}slice-required-topology' is specified",
            f"{at(LAYERS)}: Forbidden: may not be set when '{K}slice-size' is specified",
            f"{at('group-name')}: Forbidden: may not be set when '{K}{LAYERS}' is specified",
        ],
    ),
    "layers of nobody, twice, and uneven": (
        template(slice_required_topology_constraints=layers(("a", 3), ("b", 2), ("a", 0))),
        [
            f"{at(LAYERS)}[2].size: Invalid value: 0: {NUMBER}",
            f'{at(LAYERS)}[2].topology: Duplicate value: "a (also at index 0)"',
            f"{at(LAYERS)}[1].size: Invalid value: 2: must evenly divide the parent layer size 3",
        ],
    ),
    "a layer that says no size": (
        template(slice_required_topology_constraints='[{"topology":"a"}]'),
        [f"{at(LAYERS)}[0].size: Invalid value: 0: {NUMBER}"],
    ),
    "layers of less than nobody": (
        template(slice_required_topology_constraints=layers(("a", 3), ("b", -2))),
        [f"{at(LAYERS)}[1].size: Invalid value: -2: {NUMBER}"],
    ),
    "three layers, the last of one pod": (
        template(slice_required_topology_constraints=layers(("a", 9), ("b", 3), ("c", 1))),
        [],
    ),
    "the same layer three times": (
        template(slice_required_topology_constraints=layers(("a", 4), ("a", 2), ("a", 1))),
        [
            f'{at(LAYERS)}[1].topology: Duplicate value: "a (also at index 0)"',
            f'{at(LAYERS)}[2].topology: Duplicate value: "a (also at index 0)"',
        ],
    ),
}


@pytest.mark.parametrize("name", TOPOLOGY)
def test_topology_annotations(name: str) -> None:
    given, want = TOPOLOGY[name]
    assert [str(fault) for fault in topology_faults(given, Settings())] == want


def test_layers_are_a_gate() -> None:
    given = template(slice_required_topology_constraints="[", slice_size="1", slice_required_topology="a")
    (off,) = topology_faults(given, Settings(gates={"TASMultiLayerTopology": False}))
    assert str(off) == (
        f"{at(LAYERS)}: Forbidden: the TASMultiLayerTopology feature gate must be enabled to use this annotation"
    )
    said = [str(fault) for fault in topology_faults(given, Settings())]
    assert len(said) == 3
    assert said[2].startswith(f'{at(LAYERS)}: Invalid value: "[": must be a valid JSON array: ')
    for text in ("7", '["a"]', '[{"size": "x"}]'):
        (wrong,) = topology_faults(template(slice_required_topology_constraints=text), Settings())
        assert "must be a valid JSON array: " in str(wrong)


@pytest.mark.parametrize(("wrong", "place"), [("a b", 0), ("", 1), ("x/y/z", 1)])
def test_each_layer_names_a_label(wrong: str, place: int) -> None:
    pairs = [("a", 4), ("b", 2)]
    pairs[place] = (wrong, pairs[place][1])
    found = [
        str(fault)
        for fault in topology_faults(template(slice_required_topology_constraints=layers(*pairs)), Settings())
    ]
    assert found
    assert all(
        text.startswith(f'{at(LAYERS)}[{place}].topology: Invalid value: "{wrong}": ') for text in found
    )


def test_no_slice_is_larger_than_its_pod_set() -> None:
    why = "must not be greater than pod set count 4"
    assert bound_faults(template()) == []
    for size in ("4", "x", "5"):
        found = [str(fault) for fault in bound_faults(template(slice_size=size))]
        assert found == ([f'{at("slice-size")}: Invalid value: "5": {why}'] if size == "5" else [])
    for text, is_wrong in (
        (layers(("a", 4), ("b", 9)), False),
        (layers(("a", 5), ("b", 1)), True),
        ("[]", False),
        ("[", False),
    ):
        found = [str(fault) for fault in bound_faults(template(slice_required_topology_constraints=text))]
        assert found == ([f"{at(LAYERS)}: Invalid value: 5: {why}"] if is_wrong else [])


def test_pod_sets_that_share_a_topology_come_in_twos() -> None:
    def said(*members: Template) -> list[str]:
        return [str(fault).replace(K, "") for fault in grouping_faults(members)]

    leader = template("leader", 1, group_name="g", required_topology="rack")
    workers = template("workers", 8, group_name="g", required_topology="rack")
    assert said(leader, workers, template("alone", 3)) == []
    assert said(workers, leader, template("x", 2, group_name="h", required_topology="rack")) == [
        'spec.x.annotations[group-name]: Invalid value: "h": can only define groups of exactly 2 pod sets, '
        "got: 1 pod set(s)"
    ]
    assert len(said(leader, workers, template("third", 1, group_name="g", required_topology="rack"))) == 3
    many = template("leader", 2, group_name="g", required_topology="rack")
    why = (
        'annotations[group-name]: Invalid value: "g": can only define groups where at least one pod set has only '
        "1 replica, got: 2 replica(s) and 8 replica(s) in the group"
    )
    assert said(many, workers) == [f"spec.leader.{why}", f"spec.workers.{why}"]
    for other in (
        template("workers", 8, group_name="g", required_topology="block"),
        template("workers", 8, group_name="g", preferred_topology="rack"),
    ):
        assert said(leader, other) == [
            f"spec.{here}.annotations: Invalid value: must specify 'required-topology' or 'preferred-topology' "
            f"topology consistent with 'spec.{there}.annotations' in group 'g'"
            for here, there in (("leader", "workers"), ("workers", "leader"))
        ]
    assert len(said(leader, template("workers", 8, group_name="g"))) == 2
    nothing = [template(name, 1, group_name="g") for name in ("a", "b")]
    assert len(said(*nothing)) == 2


# Workloads


def workload(*pod_sets: Obj, **status: Any) -> Obj:
    annotations = status.pop("annotations", {})
    return {"metadata": {"annotations": annotations}, "spec": {"podSets": list(pod_sets)}, "status": status}


def faults(new: Obj, old: Obj | None = None, **gates: bool) -> list[str]:
    return [str(fault) for fault in workload_faults(new, old, Settings(gates=gates))]


def admitted(*pod_sets: Obj, **status: Any) -> Obj:
    reserved = {"type": "QuotaReserved", "status": "True"}
    return workload(*pod_sets, conditions=[reserved], **status)


def test_at_most_one_pod_set_is_variable() -> None:
    fixed, some = {"name": "a"}, {"name": "b", "minCount": 1}
    assert faults(workload(fixed, some)) == []
    assert faults(workload({**fixed, "minCount": 0}, some)) == [
        "spec.podSets: Invalid value: 2: at most one podSet can use minCount"
    ]
    elastic = {"kueue.x-k8s.io/elastic-job": "true"}
    on = {"ElasticJobsViaWorkloadSlices": True}
    assert faults(workload(some, annotations=elastic), **on) == [
        "spec.podSets: Invalid value: 1: partial admission and elastic job cannot be used together"
    ]
    assert faults(workload(some, annotations=elastic), ElasticJobsViaWorkloadSlices=False) == []
    assert faults(workload(some), **on) == []
    assert faults(workload(fixed, annotations=elastic), **on) == []


def test_nobody_asks_for_pods() -> None:
    asks = {"resources": {"requests": {"pods": "1", "cpu": "1"}, "limits": {"pods": "2"}}}
    spec = {"initContainers": [{}, asks], "containers": [asks], **asks}
    places = ("initContainers[1].resources", "containers[0].resources", "resources")
    assert faults(workload({"name": "a", "template": {"spec": spec}})) == [
        f'spec.podSets[0].template.spec.{place}.{part}[pods]: Invalid value: "pods": the key is reserved for '
        "internal kueue use"
        for place in places
        for part in ("requests", "limits")
    ]


def test_sizes_of_slices() -> None:
    path = "spec.podSets[0].topologyRequest"

    def said(**asked: Any) -> list[str]:
        return faults(workload({"name": "a", "topologyRequest": asked}), TASValidateWorkloadSliceSize=True)

    assert said(podSetSliceRequiredTopology="rack", podSetSliceSize=1) == []
    assert said(podSetSliceRequiredTopology="rack", podSetSliceSize=0) == [
        f"{path}.podSetSliceSize: Invalid value: 0: must be greater than 0"
    ]
    assert said(podSetSliceRequiredTopology="rack") == [
        f"{path}.podSetSliceSize: Required value: must be set when podSetSliceRequiredTopology is specified"
    ]
    assert said(podSetSliceSize=1) == [
        f"{path}.podSetSliceSize: Forbidden: may not be set when podSetSliceRequiredTopology is not specified"
    ]
    assert said(podsetSliceRequiredTopologyConstraints=[{"size": 1}, {"size": 0}, {}]) == [
        f"{path}.podsetSliceRequiredTopologyConstraints[{i}].size: Invalid value: 0: must be greater than 0"
        for i in (1, 2)
    ]
    wrong = {"name": "a", "topologyRequest": {"podSetSliceSize": 1}}
    assert faults(workload(wrong), TASValidateWorkloadSliceSize=False) == []


def test_what_checks_add_to_pod_sets() -> None:
    update = {
        "name": "b",
        "tolerations": [{"key": "a b", "operator": "Exists"}],
        "annotations": {"a b": "x"},
        "nodeSelector": {"c d": "x"},
        "labels": {"e f": "x"},
    }
    checks = [{"name": "one"}, {"name": "two", "podSetUpdates": [{"name": "a"}, update]}]
    found = faults(workload({"name": "a"}, admissionChecks=checks))
    at_update = "status.admissionChecks[1].podSetUpdates[1]"
    assert found[0] == f'{at_update}.name: Unsupported value: "b": supported values: "a"'
    assert [fault.partition(": ")[0] for fault in found[1:]] == [
        f"{at_update}.tolerations[0].key",
        f"{at_update}.annotations",
        f"{at_update}.nodeSelector",
        f"{at_update}.labels",
    ]
    assert faults(workload({}, admissionChecks=[{"podSetUpdates": [{"name": "main"}]}])) == []


def test_usage_is_a_multiple_of_pods() -> None:
    def said(count: int, **usage: str) -> list[str]:
        given = {"name": "a", "count": count, "resourceUsage": usage}
        return faults(admitted({"name": "a"}, admission={"podSetAssignments": [{"name": "a"}, given]}))

    path = "status.admission.podSetAssignments[1].resourceUsage"
    assert said(3, cpu="1500m", gpu="6") == []
    assert said(4, cpu="1500m", gpu="6") == [f'{path}[gpu]: Invalid value: "6": is not a multiple of 4']
    assert said(7, cpu="1500m") == [f'{path}[cpu]: Invalid value: "1500m": is not a multiple of 7']
    assert said(0, cpu="1500m") == said(1, cpu="1500m") == []
    some = {"name": "a", "resourceUsage": {"gpu": "3"}}
    assert faults(admitted({"name": "a"}, admission={"podSetAssignments": [some]})) == []
    other = admitted({}, admission={"podSetAssignments": [{}, {"name": "c"}]})
    assert faults(other) == ['status.admission.podSetAssignments[1].name: Not found: "c"']
    why = "status.admission: Required value: must be set while the QuotaReserved condition is true"
    assert faults(admitted({})) == [why]
    assert faults(admitted({}), workload({})) == [why]
    assert faults(admitted({}), admitted({}, admission={})) == [why]
    assert faults(admitted({}), admitted({})) == []


def test_reclaimable_pods_are_of_their_pod_set_and_only_grow() -> None:
    def entry(name: str, count: int) -> Obj:
        return {"name": name, "count": count}

    sets = ({"name": "a", "count": 3}, {"name": "b", "count": 3})
    path = "status.reclaimablePods"
    assert faults(workload(*sets, reclaimablePods=[entry("a", 3)])) == []
    assert faults(workload(*sets, reclaimablePods=[entry("a", 4), entry("c", 1)])) == [
        f"{path}[a].count: Invalid value: 4: should be less or equal to 3",
        f'{path}[c].name: Unsupported value: "c": supported values: "a", "b"',
    ]

    def changed(
        before: list[Obj], after: list[Obj], assigned: int = 3, *, is_elastic: bool = False
    ) -> list[str]:
        notes = {"kueue.x-k8s.io/elastic-job": "true"} if is_elastic else {}
        admission = {"podSetAssignments": [{"name": "a", "count": assigned}, {"name": "b", "count": 3}]}
        old, new = (
            admitted(*sets, annotations=notes, admission=admission, reclaimablePods=pods)
            for pods in (before, after)
        )
        return faults(new, old, ElasticJobsViaWorkloadSlices=True)

    assert changed([entry("a", 2)], [entry("a", 2)]) == []
    assert changed([entry("a", 1)], [entry("a", 2), entry("b", 1)]) == []
    assert changed([], [entry("a", 1)]) == []
    less = f"{path}[a].count: Invalid value: 1: cannot be less than 2"
    assert changed([entry("a", 2)], [entry("a", 1)]) == [less]
    assert changed([entry("a", 2), entry("b", 1)], [entry("a", 2)]) == [
        f"{path}[b]: Required value: cannot be removed"
    ]
    # An elastic job's pod set that shrank may lose some; what it had before may be more than it now has.
    assert changed([entry("a", 2)], [entry("a", 1)], 4, is_elastic=True) == []
    assert changed([entry("a", 2)], [entry("b", 1)], 4, is_elastic=True) == []
    assert changed([entry("a", 2)], [entry("a", 1)], 3, is_elastic=True) == [less]
    assert changed([entry("a", 2)], [entry("a", 1)], 4) == [less]
    assert changed([entry("a", 5)], [entry("a", 5)], is_elastic=True) == []
    assert changed([entry("a", 5)], [entry("a", 5)]) == [
        f"{path}[a].count: Invalid value: 5: should be less or equal to 3"
    ]
    assert changed([entry("a", 4)], [entry("a", 5)], is_elastic=True) == [
        f"{path}[a].count: Invalid value: 5: should be less or equal to 3"
    ]


def test_what_stays_while_quota_is_held() -> None:
    assigned = {"clusterQueue": "q", "podSetAssignments": [{"name": "a", "topologyAssignment": {}}]}
    moved = {"clusterQueue": "q", "podSetAssignments": [{"name": "a", "delayedTopologyRequest": "x"}]}
    other = {**assigned, "clusterQueue": "r"}
    one, two = {"name": "a", "count": 1}, {"name": "a", "count": 2}
    stays = "field is immutable"

    def said(before: Obj, after: Obj, **gates: bool) -> list[str]:
        return [fault.rpartition(": ")[0][:24] for fault in faults(after, before, **gates)]

    assert said(admitted(one, admission=assigned), admitted(one, admission=moved)) == []
    assert said(
        admitted(one, admission=assigned), admitted(one, admission=moved), TopologyAwareScheduling=False
    )
    assert faults(admitted(one, admission=other), admitted(one, admission=assigned))[0].endswith(stays)
    assert said(admitted(one, admission=assigned), workload(one)) == []
    assert said(workload(one), admitted(one, admission=assigned)) == []
    grown = (admitted(one, admission=assigned), admitted(two, admission=assigned))
    shrunk = grown[::-1]
    for pair, gates, is_refused in (
        (grown, {"ElasticJobsViaWorkloadSlices": True}, True),
        (shrunk, {"ElasticJobsViaWorkloadSlices": True}, False),
        (shrunk, {"ElasticJobsViaWorkloadSlices": False}, True),
        ((workload(one), workload(two)), {"ElasticJobsViaWorkloadSlices": False}, False),
    ):
        found = faults(pair[1], pair[0], **gates)
        assert [fault.partition(":")[0] for fault in found] == (["spec.podSets.0"] if is_refused else [])
    more = admitted(one, one, admission=assigned)
    (found,) = faults(more, grown[0])
    assert found.startswith("spec.podSets: Invalid value: ")


def test_sizes_that_are_left_out() -> None:
    """A pod set is of one pod, an entry of what can be taken back of none."""
    one, none = [{"name": "main"}], {"name": "main", "count": 0}
    at = "status.reclaimablePods[main].count: Invalid value: "
    assert faults(workload({}, reclaimablePods=[{"name": "main", "count": 1}])) == []
    assert faults(workload({}, reclaimablePods=[{"name": "main", "count": 2}])) == [
        f"{at}2: should be less or equal to 1"
    ]
    assert faults(workload({"count": 0}, reclaimablePods=one)) == []
    entry = [{"name": "main", "count": 1}]
    admission = {"podSetAssignments": [{"count": 5}]}

    def holding(*entries: Obj, **more: Any) -> Obj:
        return admitted({"count": 5}, reclaimablePods=list(entries), admission=admission, **more)

    assert faults(holding(none), holding(*one)) == faults(holding(*one), holding(none)) == []
    assert faults(holding(*one), holding(*entry)) == [f"{at}0: cannot be less than 1"]
    assert faults(holding(*entry), holding(*one)) == faults(holding(*entry), holding()) == []
    # Only while quota is held, before and after.
    waits = workload({"count": 5}, reclaimablePods=one)
    assert (
        faults(waits, holding(*entry))
        == faults(holding(*one), workload({"count": 5}, reclaimablePods=entry))
        == []
    )
    on = {"ElasticJobsViaWorkloadSlices": True}
    assert faults(admitted({}, admission=admission), admitted({"count": 2}, admission=admission), **on) == []
    assert faults(admitted({"count": 0}, admission=admission), admitted({}, admission=admission), **on) == []
    (grown,) = faults(admitted({"count": 2}, admission=admission), admitted({}, admission=admission), **on)
    assert grown.startswith("spec.podSets.0: Invalid value: ")
    assert faults(admitted({}, admission=admission), admitted({"count": 1}, admission=admission)) == []


def test_of_slices_that_shrank_more_is_taken_back() -> None:
    elastic = {"kueue.x-k8s.io/elastic-job": "true"}

    def slice_of(size: Obj, assigned: Obj, *entries: tuple[str, int]) -> Obj:
        found = [{"name": name, "count": count} for name, count in entries]
        return admitted(
            size, reclaimablePods=found, admission={"podSetAssignments": [assigned]}, annotations=elastic
        )

    def said(size: Obj, assigned: Obj, now: int, was: int) -> list[str]:
        new, old = (slice_of(size, assigned, ("main", n)) for n in (now, was))
        return [line.rpartition(": ")[2] for line in faults(new, old, ElasticJobsViaWorkloadSlices=True)]

    less = ["cannot be less than 1"]
    assert said({}, {"count": 2}, 0, 1) == [], "it had two pods, and has one"
    assert said({}, {"count": 1}, 0, 1) == less
    assert said({"count": 2}, {"count": 2}, 0, 1) == less
    assert said({"count": 0}, {}, 0, 1) == less
    assert said({"count": 1}, {"count": 3, "name": "main"}, 0, 1) == []
    strange = slice_of({"count": 1}, {"name": "x", "count": 1}, ("x", 0))
    before = slice_of({"count": 1}, {"name": "x", "count": 1}, ("x", 1))
    assert "cannot be less" not in str(faults(strange, before, ElasticJobsViaWorkloadSlices=True))
    # What is beyond the size may stay where it was so before, whatever else is taken back.
    two = slice_of({"count": 1}, {"count": 3}, ("main", 2))
    before = slice_of({"count": 1}, {"count": 3}, ("main", 2), ("other", 1))
    found = faults(two, before, ElasticJobsViaWorkloadSlices=True)
    assert [line.partition(":")[0] for line in found] == ["status.reclaimablePods[other]"]
    assert len(faults(two, None, ElasticJobsViaWorkloadSlices=True)) == 1


def test_of_an_admission_only_topologies_change() -> None:
    def said(new: Obj, old: Obj, **gates: bool) -> int:
        was, now = ({"podSetAssignments": [{"name": "main", **o}]} for o in (old, new))
        return len(faults(admitted({}, admission=now), admitted({}, admission=was), **gates))

    for field in ("topologyAssignment", "delayedTopologyRequest"):
        assert said({field: "a"}, {field: "b"}) == said({field: "a"}, {}) == 0
        assert said({field: "a"}, {field: "b"}, TopologyAwareScheduling=False) == 1
    assert said({"flavors": {"gpu": "a"}}, {"flavors": {"gpu": "b"}}) == 1
    assert said({"flavors": {}}, {"flavors": {}}) == 0


def test_gates_and_names_of_workloads() -> None:
    gated = workload({}, annotations={GATED_BY: "c"})
    assert len(faults(gated)) == 1 and faults(gated, AdmissionGatedBy=False) == []
    update = [{"podSetUpdates": [{"name": "c"}]}]
    (found,) = faults(workload({"name": "b"}, {"name": "a"}, admissionChecks=update))
    assert found.endswith('Unsupported value: "c": supported values: "a", "b"')


def test_a_check_that_is_ready_adds_nothing_more() -> None:
    def having(state: str, **fields: Any) -> Obj:
        return workload({"name": "a"}, admissionChecks=[{"name": "c", "state": state, **fields}])

    updates = {"podSetUpdates": [{"name": "a", "labels": {"x": "y"}}]}
    (found,) = faults(having("Ready", **updates), having("Ready"))
    assert found.startswith("status.admissionChecks[0].podSetUpdates: Invalid value: ")
    assert faults(having("Ready", **updates), having("Pending")) == []
    assert faults(having("Pending", **updates), having("Ready")) == []
    assert faults(having("Ready", **updates), having("Ready", **updates)) == []
    assert faults(workload({"name": "a"}), having("Ready")) == []


def test_a_cluster_is_one_of_those_nominated() -> None:
    why = "when setting clusterName it must be one of the nominatedClusterNames"
    said = f'status.clusterName: Invalid value: "c": {why}'
    new = workload({}, clusterName="c")
    assert faults(new, workload({}, nominatedClusterNames=["b", "c"])) == []
    assert faults(new, workload({}, nominatedClusterNames=["b"])) == [said]
    assert faults(new, workload({})) == [said]
    assert faults(new, new) == []
    assert faults(workload({}), workload({})) == []
    slice_of = workload(
        {}, clusterName="c", annotations={"kueue.x-k8s.io/workload-slice-replacement-for": "old"}
    )
    assert faults(slice_of, workload({}), ElasticJobsViaWorkloadSlices=True) == []
    assert faults(slice_of, workload({}), ElasticJobsViaWorkloadSlices=False) == [said]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, ""),
        ("0", ""),
        ("-7", ""),
        ("+7", ""),
        ("", 'must be a valid signed integer; use "0" explicitly, empty string is not allowed'),
        ("7a", "must be a valid signed integer"),
    ],
)
def test_a_boost_is_a_number(value: str | None, said: str) -> None:
    key = "kueue.x-k8s.io/priority-boost"
    boosted = workload({}, annotations={} if value is None else {key: value})
    want = [f'metadata.annotations[{key}]: Invalid value: "{value}": {said}'] if said else []
    assert faults(boosted, PriorityBoost=True) == want
    assert faults(boosted, PriorityBoost=False) == []


GATES: dict[tuple[str | None, str], list[str]] = {
    (None, "a.io/x, b.io/y"): [],
    (None, "a.io/x,"): ['Invalid value: "a.io/x,": cannot contain empty gate names'],
    (None, "a.io/x,a.io/x"): ['Invalid value: "a.io/x,a.io/x": duplicate gate name: a.io/x'],
    (None, "a.io/" + "x" * 58): [],
    (None, "a.io/" + "x" * 59): ["Too long: may not be more than 63 bytes"],
    (None, "x"): ['Invalid value: "x": must be a domain-prefixed path (such as "acme.io/foo")'],
    (None, "/x"): ['Invalid value: "/x": must be a domain-prefixed path (such as "acme.io/foo")'],
    (None, "a.io/"): ['Invalid value: "a.io/": must be a domain-prefixed path (such as "acme.io/foo")'],
    (None, "a.io/x y"): [
        'Invalid value: "x y": Invalid path (regex used for validation is '
        "'[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')"
    ],
    (None, " "): [],
    ("a.io/x,b.io/y", "b.io/y"): [],
    ("a.io/x", ""): [],
    ("", "a.io/x"): ["Forbidden: cannot add admission gate after creation"],
    ("a.io/x", "a.io/x,b.io/y"): ["Forbidden: can only remove gates, not add new ones"],
}


@pytest.mark.parametrize("change", GATES)
def test_gates_of_admission(change: tuple[str | None, str]) -> None:
    before, after = change
    new = {"metadata": {"annotations": {GATED_BY: after}}}
    old = None if before is None else {"metadata": {"annotations": {GATED_BY: before}}}
    path = f"metadata.annotations[{GATED_BY}]: "
    assert [str(fault).removeprefix(path) for fault in gated_by_faults(new, old)] == GATES[change]


# Cluster queues


def queue_faults(old: Obj | None = None, **spec: Any) -> list[str]:
    before = None if old is None else {"spec": old}
    settings = Settings(gates={"ConcurrentAdmission": True})
    return [str(fault) for fault in cluster_queue_faults({"spec": spec}, before, settings)]


def group(flavors: int, resources: int = 1, *, first: int = 0) -> Obj:
    names = [f"r{first}.{n}" for n in range(resources)]
    listed = [
        {"name": f"f{n}", "resources": [{"name": r, "nominalQuota": "1"} for r in names]}
        for n in range(first, first + flavors)
    ]
    return {"coveredResources": names, "flavors": listed}


def test_policies_of_preemption_go_together() -> None:
    never = {"reclaimWithinCohort": "Never"}
    assert queue_faults(preemption=never) == []
    assert queue_faults(preemption={**never, "borrowWithinCohort": {"policy": "Never"}}) == []
    lower = {"borrowWithinCohort": {"policy": "LowerPriority"}}
    assert queue_faults(preemption={**lower, "reclaimWithinCohort": "Any"}) == []
    (found,) = queue_faults(preemption={**never, **lower})
    assert found.endswith("reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never")
    assert found.startswith("spec.preemption: Invalid value: {")


def test_a_selector_of_namespaces_says_what_can_be_asked() -> None:
    """Every fault, in order: labels as they come, then expressions."""
    path = "spec.namespaceSelector"
    name = (
        "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
        "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
        "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
    )
    value = (
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
        "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for "
        "validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
    )
    expressions = [
        {"key": "a", "operator": "In", "values": ["x", "y z", "-"]},
        {"key": "a b", "operator": "NotIn"},
        {"key": "a", "operator": "Exists", "values": ["x"]},
        {"key": "a", "operator": "DoesNotExist"},
        {"key": "a", "operator": "Gt", "values": ["1"]},
    ]
    wrong = {"matchLabels": {"ok": "", "a b": "x", "c": "y z"}, "matchExpressions": expressions}
    at = f"{path}.matchExpressions"
    assert queue_faults(namespaceSelector=wrong) == [
        f'{path}.matchLabels: Invalid value: "a b": {name}',
        f'{path}.matchLabels: Invalid value: "y z": {value}',
        f'{at}[0].values[1]: Invalid value: "y z": {value}',
        f'{at}[0].values[2]: Invalid value: "-": {value}',
        f"{at}[1].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
        f'{at}[1].key: Invalid value: "a b": {name}',
        f"{at}[2].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        f'{at}[4].operator: Invalid value: "Gt": not a valid selector operator',
    ]
    assert (
        queue_faults(namespaceSelector={"matchLabels": {"a/b": "c"}, "matchExpressions": expressions[3:4]})
        == []
    )
    assert queue_faults(namespaceSelector=None) == []


def test_a_preference_wants_the_next_flavor_tried() -> None:
    both = {"whenCanBorrow": "TryNextFlavor", "whenCanPreempt": "TryNextFlavor"}
    likes = {"preference": "PreemptionOverBorrowing"}
    assert queue_faults(flavorFungibility={**both, **likes}) == []
    assert queue_faults(flavorFungibility={"whenCanBorrow": "MayStopSearch"}) == []
    for field in both:
        assert queue_faults(flavorFungibility={**both, **likes, field: "MayStopSearch"}) == [
            'spec.flavorFungibility.preference: Invalid value: "PreemptionOverBorrowing": preference '
            '"PreemptionOverBorrowing" requires both whenCanBorrow and whenCanPreempt to be TryNextFlavor'
        ]


def test_how_many_flavors_and_resources_there_may_be() -> None:
    path = "spec.resourceGroups"
    assert (
        queue_faults(
            resourceGroups=[group(64), group(64, first=64), group(64, first=128), group(64, first=192)]
        )
        == []
    )
    many = [group(64, first=64 * n) for n in range(4)] + [group(1, first=999)]
    assert queue_faults(resourceGroups=many)[0] == (
        f"{path}: Invalid value: 257: total number of flavors across all resourceGroups must be ≤ 256, got 257"
    )
    assert queue_faults(resourceGroups=[group(8, 64)]) == []
    assert queue_faults(resourceGroups=[group(8, 65)]) == [
        f"{path}[0]: Invalid value: 520: number of flavor-resource combinations in a resourceGroup must be ≤ 512, "
        "got 520"
    ]


def test_concurrent_admission_is_within_one_group() -> None:
    policy: Obj = {"concurrentAdmissionPolicy": {}}
    groups = "spec.resourceGroups"
    assert queue_faults(resourceGroups=[group(16)], **policy) == []
    assert queue_faults(resourceGroups=[group(1), group(1, first=1)]) == []
    assert queue_faults(resourceGroups=[group(1), group(1, first=1)], **policy) == [
        f"{groups}: Invalid value: 2: must have exactly one ResourceGroup when ConcurrentAdmissionPolicy is defined"
    ]
    assert queue_faults(resourceGroups=[group(17)], **policy) == [
        f"{groups}[0].flavors: Invalid value: 17: cannot have more than 16 resource flavors in the ResourceGroup "
        "when ConcurrentAdmissionPolicy is defined"
    ]
    assert queue_faults(resourceGroups=[group(1)], queueingStrategy="StrictFIFO", **policy) == [
        'spec.queueingStrategy: Invalid value: "StrictFIFO": StrictFIFO queueing strategy cannot be used when '
        "ConcurrentAdmissionPolicy is defined"
    ]

    def migrating(mode: str | None, **constraints: str) -> list[str]:
        asked = {"migration": {"mode": mode, "constraints": constraints}}
        return queue_faults(resourceGroups=[group(2)], concurrentAdmissionPolicy=asked)

    path = "spec.concurrentAdmissionPolicy.migration.constraints"
    both = {"spec": {"resourceGroups": [group(1), group(1, first=1)], **policy}}
    off = Settings(gates={"ConcurrentAdmission": False})
    assert cluster_queue_faults(both, None, off) == []
    (changed,) = cluster_queue_faults(both, {"spec": {}}, off)
    assert str(changed).startswith("spec.concurrentAdmissionPolicy: Invalid value: ")
    assert migrating("TryPreferredFlavors", lastAcceptableFlavorName="f1") == []
    assert migrating(None) == []
    assert migrating("TryPreferredFlavors", lastAcceptableFlavorName="f2") == [
        f'{path}.lastAcceptableFlavorName: Invalid value: "f2": must be one of the flavors defined in the '
        "ClusterQueue: [f0 f1]"
    ]
    assert migrating("RetainFirstAdmission") == [
        f'{path}: Forbidden: may only be set when migration.mode is "TryPreferredFlavors" (got "RetainFirstAdmission")'
    ]


def test_checks_are_on_flavors_the_queue_has() -> None:
    def spec(flavors: int, *on: str, name: str = "c") -> Obj:
        checks = {"admissionChecks": [{"name": "plain"}, {"name": name, "onFlavors": list(on)}]}
        return {"resourceGroups": [group(flavors)], "admissionChecksStrategy": checks}

    path = "spec.admissionChecksStrategy.admissionChecks[1].onFlavors"
    assert queue_faults(**spec(2, "f1")) == []
    said = [f'{path}[1]: Unsupported value: "f9": supported values: "f0", "f1"']
    assert queue_faults(**spec(2, "f1", "f9")) == said
    for old, is_refused in (
        (spec(2, "f9", "f1"), False),
        (spec(2, "f9"), True),
        (spec(3, "f1", "f9"), True),
        (spec(2, "f1", "f9", name="d"), True),
    ):
        found = cluster_queue_faults(
            {"spec": spec(2, "f1", "f9")},
            {"spec": old},
            Settings(gates={"RejectUpdatesToCQWithInvalidOnFlavors": False}),
        )
        assert [str(fault) for fault in found] == (said if is_refused else [])
    strict = Settings(gates={"RejectUpdatesToCQWithInvalidOnFlavors": True})
    same = {"spec": spec(2, "f1", "f9")}
    assert [str(fault) for fault in cluster_queue_faults(same, same, strict)] == said
