"""Does a Workload still describe its job? Owner, time limit, counts, containers and tolerations, at every stage."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from test_kueue_job_webhooks import K

from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj
from fairway.queueing.integrations.equivalence import are_equal, is_equivalent
from fairway.queueing.integrations.job import BatchJob
from fairway.queueing.integrations.jobset import JobSet
from fairway.queueing.integrations.pod import Pod
from fairway.queueing.integrations.settings import JobSettings

SETTINGS = JobSettings()
BATCH, SET, POD = BatchJob(), JobSet(), Pod()
SPOT = {"key": "spot", "operator": "Exists"}
OWN = {"key": "own", "operator": "Exists"}
FREE, HELD, RUNS = (), ("QuotaReserved",), ("QuotaReserved", "Admitted")
STAGES = (FREE, HELD, RUNS)


def _store(tolerations: list[Obj] | None = None) -> Store:
    made = Store()
    if tolerations is not None:
        spec = {"tolerations": tolerations, "nodeLabels": {"pool": "spot"}}
        made.create(
            {
                "apiVersion": f"{K}v1beta2",
                "kind": "ResourceFlavor",
                "metadata": {"name": "spot"},
                "spec": spec,
            }
        )
    return made


def _spec(*tolerations: Obj, image: str = "i", **more: Any) -> Obj:
    spec: Obj = {"containers": [{"name": "c", "image": image}], **more}
    return {**spec, "tolerations": list(tolerations)} if tolerations else spec


def _job(spec: Obj, count: int = 4, *, suspend: bool = False, least: int = 0, limit: int = 0) -> Obj:
    meta: Obj = {"name": "j", "namespace": "ns", "uid": "u"}
    if least:
        meta["annotations"] = {f"{K}job-min-parallelism": str(least)}
    if limit:
        meta["labels"] = {f"{K}max-exec-time-seconds": str(limit)}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": meta,
        "spec": {"parallelism": count, "suspend": suspend, "template": {"spec": spec}},
    }


def _workload(
    spec: Obj,
    count: int = 4,
    stage: tuple[str, ...] = FREE,
    *,
    admitted: int | None = None,
    least: int = 0,
    **more: Any,
) -> Obj:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
    pod_set: Obj = {"name": "main", "count": count, "template": {"spec": spec}}
    if least:
        pod_set["minCount"] = least
    assigned: Obj = {"name": "main", "flavors": {"gpu": "spot"}}
    if admitted is not None:
        assigned["count"] = admitted
    status: Obj = {"conditions": [{"type": kind, "status": "True"} for kind in stage]}
    if stage:
        status["admission"] = {"podSetAssignments": [assigned]}
    return {
        "metadata": {"name": "w", "namespace": "ns", "ownerReferences": [owner | more.pop("owner", {})]},
        "spec": {"podSets": [pod_set], **more},
        "status": status,
    }


def _is(job: Obj, workload: Obj, view: Store | None = None) -> bool:
    return is_equivalent(view or _store([SPOT]), BATCH, job, workload, SETTINGS)


@pytest.mark.parametrize("stage", STAGES)
def test_whose_it_is(stage: tuple[str, ...]) -> None:
    job = _job(_spec(), suspend=True)
    assert _is(job, _workload(_spec(), 4, stage, admitted=4)) is True
    assert _is(job, _workload(_spec(), 4, stage, admitted=4, owner={"uid": "v"})) is False
    assert _is(job, _workload(_spec(), 4, stage, admitted=4, owner={"name": "k"})) is False
    nobodys = _workload(_spec(), 4, stage, admitted=4)
    nobodys["metadata"]["ownerReferences"][0]["controller"] = False
    nobodys["metadata"]["ownerReferences"][0]["uid"] = "v"
    assert _is(job, nobodys) is True
    limited = _job(_spec(), suspend=True, limit=60)
    for seconds, want in ((60, True), (61, False), (None, False)):
        more = {} if seconds is None else {"maximumExecutionTimeSeconds": seconds}
        assert _is(limited, _workload(_spec(), 4, stage, admitted=4, **more)) is want
    assert _is(job, _workload(_spec(), 4, stage, admitted=4, maximumExecutionTimeSeconds=60)) is False


@pytest.mark.parametrize(("stage", "suspended"), list(product(STAGES, (True, False))))
def test_other_containers_are_another_job_at_any_stage(stage: tuple[str, ...], suspended: bool) -> None:
    workload = _workload(_spec(SPOT), 4, stage, admitted=4)
    assert _is(_job(_spec(SPOT), suspend=suspended), workload) is True
    assert _is(_job(_spec(SPOT, image="other"), suspend=suspended), workload) is False
    assert _is(_job(_spec(SPOT, initContainers=[{"name": "i"}]), suspend=suspended), workload) is False
    assert _is(_job(_spec(SPOT, nodeSelector={"a": "b"}), suspend=suspended), workload) is True


# Tolerations: (of the job, of its Workload) → at each stage, suspended or not.
_TOLERATED = [
    # As it asked: while nothing is injected, or suspended (it was not started yet, or restored).
    ((OWN,), (OWN,), {FREE: (True, True), HELD: (True, False), RUNS: (True, True)}),
    # As it runs, with what the flavor adds.
    ((OWN, SPOT), (OWN,), {FREE: (False, False), HELD: (True, True), RUNS: (True, True)}),
    # What it has already is not added again.
    ((SPOT,), (SPOT,), {FREE: (True, True), HELD: (True, True), RUNS: (True, True)}),
    ((SPOT,), (), {FREE: (False, False), HELD: (True, True), RUNS: (True, True)}),
    # Of one that was admitted they do not count.
    ((), (OWN,), {FREE: (False, False), HELD: (False, False), RUNS: (True, True)}),
    ((SPOT, OWN), (OWN,), {FREE: (False, False), HELD: (False, False), RUNS: (True, True)}),
]


@pytest.mark.parametrize(("mine", "asked", "want"), _TOLERATED)
def test_tolerations_count_until_it_was_admitted(
    mine: tuple[Obj, ...], asked: tuple[Obj, ...], want: dict[tuple[str, ...], tuple[bool, bool]]
) -> None:
    for stage, by_suspension in want.items():
        for suspended, equal in zip((True, False), by_suspension, strict=True):
            job, workload = (
                _job(_spec(*mine), suspend=suspended),
                _workload(_spec(*asked), 4, stage, admitted=4),
            )
            assert _is(job, workload) is equal, (stage, suspended)
            unnamed = _workload(_spec(*asked), 4, stage, admitted=4)
            del unnamed["spec"]["podSets"][0]["name"]
            assert _is(job, unnamed) is equal, "main, where none is said"
            if stage:
                del workload["status"]["admission"]["podSetAssignments"][0]["name"]
                assert _is(job, workload) is equal


def test_without_the_flavor_it_is_what_it_asked_for() -> None:
    for tolerations, want in (((OWN,), True), ((OWN, SPOT), False)):
        for suspended in (True, False):
            job = _job(_spec(*tolerations), suspend=suspended)
            assert _is(job, _workload(_spec(OWN), 4, HELD, admitted=4), _store()) is want
    plain = _job(_spec())
    assert _is(plain, _workload(_spec(), 4, HELD, admitted=4), _store([])) is True


@pytest.mark.parametrize("stage", [HELD, RUNS])
def test_a_job_is_as_large_as_asked_or_as_admitted(stage: tuple[str, ...]) -> None:
    """Partly admitted it is smaller; one that may not shrink is what it was."""
    for suspended in (True, False):
        for count in (2, 3, 4, 5):
            job = _job(_spec(SPOT), count, suspend=suspended, least=2)
            some = _workload(_spec(SPOT), 4, stage, admitted=3, least=2)
            assert _is(job, some) is (count == 3 or (suspended and count == 4))
            some["status"]["admission"]["podSetAssignments"][0]["name"] = "another"
            assert _is(job, some) is (count == 4)
            unsaid = _workload(_spec(SPOT), 4, stage, least=2)
            assert _is(job, unsaid) is (count == 4)
            fixed = _workload(_spec(SPOT), 4, stage, admitted=3)
            assert _is(_job(_spec(SPOT), count, suspend=suspended), fixed) is (count == 4)
    elsewhere = _workload(_spec(SPOT), 4, stage, admitted=3, least=2)
    for named in (elsewhere["spec"]["podSets"][0], elsewhere["status"]["admission"]["podSetAssignments"][0]):
        named["name"] = "role"
    assert [c for c in range(6) if _is(_job(_spec(SPOT), c, least=2), elsewhere)] == [3]
    free = _workload(_spec(SPOT), 4, FREE, least=2)
    assert [c for c in range(6) if _is(_job(_spec(SPOT), c, least=2), free)] == [4]


def test_every_pod_set_counts_in_its_place() -> None:
    def job(*images: str) -> Obj:
        replicated = [
            {"name": f"r{i}", "template": {"spec": {"template": {"spec": _spec(image=image)}}}}
            for i, image in enumerate(images)
        ]
        return {
            "metadata": {"name": "j", "uid": "u"},
            "spec": {"replicatedJobs": replicated, "suspend": True},
        }

    def workload(*images: str, stage: tuple[str, ...]) -> Obj:
        made = _workload(_spec(), 1, stage, admitted=1)
        pod_sets = [
            {"name": f"r{i}", "count": 1, "template": {"spec": _spec(image=m)}} for i, m in enumerate(images)
        ]
        return {**made, "spec": {"podSets": pod_sets}}

    for stage in STAGES:
        for images in (("a", "b"), ("a", "c"), ("c", "b"), ("b", "a"), ("a",), ("a", "b", "c"), ()):
            found = is_equivalent(_store([]), SET, job("a", "b"), workload(*images, stage=stage), SETTINGS)
            assert found is (images == ("a", "b")), (stage, images)


def test_a_group_of_pods_says_for_itself() -> None:
    """It needs room for each of its roles, whatever their containers."""

    def found(room: int, *, member: str = "r") -> bool:
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "p",
                "namespace": "ns",
                "uid": "u",
                "labels": {f"{K}managed": "true", f"{K}pod-group-name": "g"},
                "annotations": {f"{K}role-hash": member, f"{K}pod-group-total-count": "1"},
            },
            "spec": _spec(),
        }
        view = Store()
        view.create(pod)
        group = POD.load(view, Key("Pod", "ns", "p"))
        assert group is not None
        workload = {"metadata": {"name": "g"}, "spec": {"podSets": [{"name": "r", "count": room}]}}
        return is_equivalent(view, POD, group, workload, SETTINGS)

    assert found(1) is found(2) is True
    assert found(0) is found(1, member="s") is False


def test_lists_of_pod_sets() -> None:
    one: Obj = {"name": "main", "count": 1, "template": {"spec": _spec(OWN)}}
    unsaid = {"name": "main", "template": {"spec": {**_spec(OWN), "initContainers": []}}}
    assert are_equal([], []) and are_equal([one], [unsaid]) and are_equal([unsaid], [one])
    assert not are_equal([one], []) and not are_equal([one], [{**one, "count": 2}])
    assert not are_equal([{**one, "count": 2}], [unsaid]) and not are_equal([unsaid], [{**one, "count": 2}])
    assert not are_equal([one], [{**one, "minCount": 1}])
    assert are_equal([{**one, "minCount": 1}], [{**unsaid, "minCount": 1}])
    bare = {**one, "template": {"spec": _spec()}}
    assert not are_equal([one], [bare]) and are_equal([one], [bare], ignores_tolerations=True)
    more = {**one, "template": {"spec": _spec(OWN, initContainers=[{"name": "i"}])}}
    assert not are_equal([one], [more]) and not are_equal([one], [more], ignores_tolerations=True)
    other = {**one, "template": {"spec": _spec(OWN, image="x")}}
    assert not are_equal([one], [other]) and not are_equal([one], [other], ignores_tolerations=True)
    assert are_equal([{"name": "a"}], [{"name": "b", "count": 1, "template": {}}])
    assert not are_equal([one, other], [one, one]) and not are_equal([one, other], [other, other])
