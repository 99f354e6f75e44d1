"""Pure decisions about jobs, checks and gated pods, as tables."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.cluster.store import Store
from fairway.kube.objects import Obj, spec_of
from fairway.queueing.control import checks
from fairway.queueing.control.ungating import ungated
from fairway.queueing.integrations.job import BatchJob, terminal_indexes
from fairway.queueing.integrations.podsetinfo import BadPodSets, PodSetInfo
from fairway.queueing.integrations.podsready import readiness
from fairway.queueing.integrations.slices import ensured, is_scaled_down
from fairway.queueing.integrations.topologyrequest import topology_request

KIND = BatchJob()
VIEW = Store()


def job(annotations: dict[str, str] | None = None, **spec: Any) -> Obj:
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c"}]}}
    body = {"parallelism": 4, "completions": 4, "suspend": True, "template": template, **spec}
    meta = {"name": "j", "namespace": "a", "annotations": annotations or {}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": body}


def test_what_is_injected_comes_out_again() -> None:
    before = job()
    info = PodSetInfo("main", 4, {"a": "b"}, {"l": "m"}, {"pool": "x"}, [{"key": "k"}], [{"name": "g"}])
    running = KIND.with_infos(before, [info])
    template = spec_of(running)["template"]
    assert template["spec"]["nodeSelector"] == {"pool": "x"}
    assert template["spec"]["schedulingGates"] == [{"name": "g"}]
    assert template["metadata"]["labels"] == {"app": "x", "l": "m"}
    own = PodSetInfo("main", 4, {}, {"app": "x"}, {}, (), ())
    assert KIND.restored(running, [own]) == before


def test_a_contradiction_can_never_start() -> None:
    fixed = job()
    spec_of(fixed)["template"]["spec"]["nodeSelector"] = {"pool": "y"}
    with pytest.raises(BadPodSets, match="conflict for nodeSelector"):
        KIND.with_infos(fixed, [PodSetInfo("main", 4, node_selector={"pool": "x"})])


@pytest.mark.parametrize(
    ("spec", "status", "reclaimed"),
    [
        ({}, {}, []),
        ({}, {"succeeded": 1}, [("main", 1)]),
        ({"completions": 10}, {"succeeded": 5}, []),
        ({"completions": 10}, {"succeeded": 8}, [("main", 2)]),
        ({"parallelism": 1, "completions": 1}, {"succeeded": 1}, []),
        ({"completionMode": "Indexed"}, {"completedIndexes": "0-1", "failedIndexes": "1,3"}, [("main", 3)]),
    ],
)
def test_pods_that_are_done_for_good(spec: Obj, status: Obj, reclaimed: list[tuple[str, int]]) -> None:
    found = KIND.reclaimable(VIEW, {**job(**spec), "status": status})
    assert [(r.name, r.count) for r in found or ()] == reclaimed


@pytest.mark.parametrize(
    ("texts", "completions", "count"),
    [([""], 4, 0), (["0-3"], 2, 2), (["0-2", "2-3"], 9, 4), (["5-3", "x"], 9, 0), (["1", "1"], 9, 1)],
)
def test_indexes_are_counted_once(texts: list[str], completions: int, count: int) -> None:
    assert terminal_indexes(texts, completions) == count


@pytest.mark.parametrize(
    ("admitted", "old", "ready", "wanted"),
    [
        (False, None, True, ("False", "WaitForStart")),
        (True, None, False, ("False", "WaitForStart")),
        (True, ("False", "WaitForStart"), True, ("True", "Started")),
        (True, ("True", "Started"), False, ("False", "WaitForRecovery")),
        (True, ("False", "WaitForRecovery"), False, ("False", "WaitForRecovery")),
        (True, ("False", "WaitForRecovery"), True, ("True", "Recovered")),
    ],
)
def test_pods_ready_remembers_a_recovery(
    admitted: bool, old: tuple[str, str] | None, ready: bool, wanted: tuple[str, str]
) -> None:
    conditions = [{"type": "Admitted", "status": "True" if admitted else "False"}]
    if old:
        conditions.append({"type": "PodsReady", "status": old[0], "reason": old[1]})
    found = readiness({"status": {"conditions": conditions}}, ready)
    assert (found.status, found.reason) == wanted


def test_a_template_without_wishes_asks_for_no_topology() -> None:
    assert topology_request({}) is None
    assert topology_request({}, pod_index_label="i") == {"podIndexLabel": "i"}
    wishes = {"metadata": {"annotations": {"kueue.x-k8s.io/podset-required-topology": "rack"}}}
    assert topology_request(wishes) == {"required": "rack"}


def test_checks_are_added_and_dropped() -> None:
    present = [{"name": "b", "state": "Ready"}, {"name": "z", "state": "Ready"}]
    found = checks.synced(present, ("a", "b"), 0)
    assert [(c["name"], c["state"]) for c in found or ()] == [("a", "Pending"), ("b", "Ready")]
    assert checks.synced(found or (), ("a", "b"), 0) is None
    listed = checks.listed([{"name": "b", "message": "no"}, {"name": "a"}], "Retry")
    assert listed == 'AdmissionChecks in Retry state: "a"; "b" (no)'


def gang(request: Obj, *pods: Obj) -> list[str]:
    """Where gated pods of a gang of three over n1 (two pods) and n2 go, by pod name."""
    domains = [{"values": ["n1"], "count": 2}, {"values": ["n2"], "count": 1}]
    assignment = {"levels": ["kubernetes.io/hostname"], "domains": domains}
    workload = {
        "metadata": {"name": "w", "namespace": "a"},
        "spec": {"podSets": [{"name": "main", "count": 3, "topologyRequest": request}]},
        "status": {
            "conditions": [{"type": "Admitted", "status": "True"}],
            "admission": {
                "podSetAssignments": [{"name": "main", "count": 3, "topologyAssignment": assignment}]
            },
        },
    }
    actions: list[Any] = ungated(workload, pods)
    return [
        f"{a.obj['metadata']['name']}→{next(iter(a.obj['spec']['nodeSelector'].values()))}" for a in actions
    ]


def pod(name: str, rank: str = "", node: str = "") -> Obj:
    labels = {"kueue.x-k8s.io/podset": "main", **({"rank": rank} if rank else {})}
    spec: Obj = {"nodeSelector": {"kubernetes.io/hostname": node}} if node else {}
    if not node:
        spec["schedulingGates"] = [{"name": "kueue.x-k8s.io/topology"}]
    return {"metadata": {"name": name, "labels": labels}, "spec": spec}


@pytest.mark.parametrize(
    ("request_", "pods", "placed"),
    [
        ({}, [pod("a"), pod("b"), pod("c")], ["a→n1", "b→n1", "c→n2"]),
        ({}, [pod("a"), pod("b", node="n1")], ["a→n1"]),
        ({"podIndexLabel": "rank"}, [pod("a", "2"), pod("b", "0")], ["b→n1", "a→n2"]),
        ({"podIndexLabel": "rank"}, [pod("a", "2"), pod("b")], ["a→n1", "b→n1"]),
        ({"podIndexLabel": "rank"}, [pod("a", "1"), pod("b", "1")], ["a→n1", "b→n1"]),
    ],
)
def test_gated_pods_go_by_rank_or_in_turn(request_: Obj, pods: list[Obj], placed: list[str]) -> None:
    assert gang(request_, *pods) == placed


def slice_of(name: str, count: int, *, holds: bool = False, replaces: str = "") -> Obj:
    conditions = [{"type": "QuotaReserved", "status": "True"}] if holds else []
    annotations = {"kueue.x-k8s.io/workload-slice-replacement-for": replaces} if replaces else {}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": name, "namespace": "a", "uid": name, "annotations": annotations},
        "spec": {"podSets": [{"name": "main", "count": count}]},
        "status": {"conditions": conditions},
    }


def test_an_elastic_job_grows_by_a_new_slice_and_shrinks_in_place() -> None:
    wanted = [{"name": "main", "count": 4}]
    assert ensured(wanted, [], 0) == (None, [])
    assert ensured(wanted, [slice_of("s", 2, holds=True)], 0) == (None, [])
    found = ensured(wanted, [slice_of("s", 8, holds=True)], 0)
    assert found is not None and len(found[1]) == 1
    pair = [slice_of("s", 2, holds=True), slice_of("t", 4, replaces="a/s")]
    found = ensured(wanted, pair, 0)
    assert found is not None and found[0] is pair[1] and not found[1]
    assert is_scaled_down({"a": 2, "b": 1}, {"a": 1, "b": 1})
    assert not is_scaled_down({"a": 2, "b": 1}, {"a": 1, "b": 2})
