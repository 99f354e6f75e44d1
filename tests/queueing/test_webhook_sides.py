"""What Kueue's webhooks of jobs refuse: each rule on both sides, with the gates it hangs on."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from test_kueue_job_webhooks import ALL, DEFAULT_QUEUE, NAMESPACE, K, made, refused, store, template

from fairway.queueing.webhooks.door import CREATE, defaulted
from fairway.queueing.webhooks.gatedby import gated_by_faults
from fairway.queueing.webhooks.jobs import go_integer
from fairway.queueing.webhooks.jobshapes import SHAPES, is_suspended, managed_by, with_held
from fairway.queueing.webhooks.settings import Settings
from fairway.queueing.webhooks.workloads import workload_faults

Obj = dict[str, Any]
WAITS, RUNS = {"suspend": True}, {"suspend": False}
FRAMEWORKS = (
    *ALL.frameworks,
    "ray.io/rayservice",
    "sparkoperator.k8s.io/sparkapplication",
    "kubeflow.org/tfjob",
)


def _settings(*, everybody: bool = False, **gates: bool) -> Settings:
    return Settings(frameworks=FRAMEWORKS, gates=gates, manages_without_queue_name=everybody)


def _said(obj: Obj, old: Obj | None = None, *there: Obj, settings: Settings | None = None) -> list[str]:
    """The path (without Kueue's prefix and its map) and first words of each fault."""
    (*found,) = refused(obj, old, store(*there), settings or _settings())
    if not found:
        return []
    text = found[0].partition("denied the request: ")[2]
    lines = text[1:-1].split(", metadata.") if text.startswith("[") else [text]
    return [("metadata." + line if i else line).replace(K, "") for i, line in enumerate(lines)]


def _is(lines: list[str], *starts: str) -> bool:
    return len(lines) == len(starts) and all(a.startswith(b) for a, b in zip(lines, starts, strict=True))


QUEUE, TIME, CLASS = (
    f"metadata.labels[{n}]" for n in ("queue-name", "max-exec-time-seconds", "priority-class")
)


@pytest.mark.parametrize(("was", "now"), list(product((True, False), repeat=2)))
def test_what_a_job_may_change_while_it_waits(was: bool, now: bool) -> None:
    """`suspend` before and after the change: the queue and prebuilt workload by the second, times by both."""

    def change(before: dict[str, str], after: dict[str, str], **queues: str) -> list[str]:
        old = made("Job", {"suspend": was}, queue=queues.get("old", "a"), **before)
        return _said(made("Job", {"suspend": now}, queue=queues.get("new", "a"), **after), old)

    assert change({}, {}) == []
    assert _is(
        change({}, {}, new="b"), *(() if now else (f'{QUEUE}: Invalid value: "b": field is immutable',))
    )
    limit = {"l_max_exec_time_seconds": "5"}
    fixed = () if was and now else (f"{TIME}: Invalid value: ",)
    assert _is(change({}, limit), *fixed) and _is(change(limit, {}), *fixed)
    assert _is(change(limit, {"l_max_exec_time_seconds": "6"}), *fixed)
    high, low = {"l_priority_class": "high"}, {"l_priority_class": "low"}
    assert _is(
        change({}, high),
        *(() if now else (f'{CLASS}: Invalid value: "high": WorkloadPriorityClass cannot be added',)),
    )
    assert change(high, low) == []
    assert _is(change(high, {}), f'{CLASS}: Invalid value: "": WorkloadPriorityClass cannot be removed')
    prebuilt = {"l_prebuilt_workload_name": "w"}
    said = change(prebuilt, {"l_prebuilt_workload_name": "v"})
    label = "metadata.labels[prebuilt-workload-name]"
    assert _is(said, *(() if now else (f'{label}: Invalid value: "v": field is immutable',)))
    bad = change(prebuilt, {"l_prebuilt_workload_name": "V!"})
    assert bad and bad[0].startswith(f'{label}: Invalid value: "V!"')


def test_a_queue_is_not_dropped_where_there_is_a_default_one() -> None:
    old, new = made("Job", WAITS, queue="a"), made("Job", WAITS)
    assert _said(new, old, NAMESPACE) == []
    queue_said = f'{QUEUE}: Invalid value: "": queue-name must not be empty in namespace with default queue'
    assert _said(new, old, NAMESPACE, DEFAULT_QUEUE) == [queue_said]
    assert _said(made("Job", WAITS, queue="b"), old, NAMESPACE, DEFAULT_QUEUE) == []
    assert _said(new, new, NAMESPACE, DEFAULT_QUEUE) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1", ""),
        ("0", "Invalid value: 0: should be greater than 0"),
        ("-1", "Invalid value: -1: should be greater than 0"),
        ("+5", ""),
        ("5s", 'Invalid value: "5s": strconv.Atoi: parsing "5s": invalid syntax'),
        ("", 'Invalid value: "": strconv.Atoi: parsing "": invalid syntax'),
    ],
)
def test_time_limits_of_jobs(text: str, words: str) -> None:
    found = _said(made("Job", RUNS, l_max_exec_time_seconds=text))
    assert found == ([f"{TIME}: {words}"] if words else [])


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("9223372036854775808", "out of range"),
        ("-9223372036854775809", "out of range"),
        ("1_0", "invalid syntax"),
        (" 1", "invalid syntax"),
        ("١", "invalid syntax"),
        ("1" * 4001, "invalid syntax"),
    ],
)
def test_numbers_as_go_reads_them(text: str, want: Any) -> None:
    found = go_integer(text)
    assert found == want if isinstance(want, int) else str(found).endswith(want)


def test_prebuilt_workloads_by_label_or_annotation() -> None:
    long = "w" * 64
    for by_annotation in (True, False):
        settings = _settings(WorkloadIdentifierAnnotations=by_annotation)

        def said(kind: str, settings: Settings = settings, **notes: str) -> list[str]:
            return _said(made(kind, WAITS, queue="q", **notes), settings=settings)

        assert said("Job", l_prebuilt_workload_name="w") == []
        assert said("Job", prebuilt_workload_name="w") == []
        label, note = (f"metadata.{m}[prebuilt-workload-name]: " for m in ("labels", "annotations"))
        assert _is(said("Job", l_prebuilt_workload_name="W_"), label + 'Invalid value: "W_"')
        bad = said("Job", prebuilt_workload_name="W_")
        assert _is(bad, *((note + 'Invalid value: "W_"',) if by_annotation else ()))
        assert _is(said("Job", prebuilt_workload_name=long + "_"), note + f'Invalid value: "{long}_"')
        forbidden = 'Forbidden: Is not supported for "sparkoperator.k8s.io/v1beta2, Kind=SparkApplication"'
        spark = {"apiVersion": "sparkoperator.k8s.io/v1beta2", "kind": "SparkApplication"}

        def of_spark(settings: Settings = settings, spark: Obj = spark, **notes: str) -> list[str]:
            return _said({**made("Job", WAITS, queue="q", **notes), **spark}, settings=settings)

        assert of_spark() == []
        assert of_spark(l_prebuilt_workload_name="w") == [label + forbidden]
        assert of_spark(prebuilt_workload_name="w") == ([note + forbidden] if by_annotation else [])
        assert of_spark(prebuilt_workload_name=long) == [note + forbidden]
        # Who has both: the annotation counts with the gate, else the label.
        old = made("Job", RUNS, l_prebuilt_workload_name="a", prebuilt_workload_name="b")
        by_label = made("Job", RUNS, l_prebuilt_workload_name="x", prebuilt_workload_name="b")
        by_note = made("Job", RUNS, l_prebuilt_workload_name="a", prebuilt_workload_name="y")
        assert bool(_said(by_label, old, settings=settings)) == (not by_annotation)
        assert bool(_said(by_note, old, settings=settings)) == by_annotation


def test_who_may_be_elastic() -> None:
    for on in (True, False):
        settings = _settings(ElasticJobsViaWorkloadSlices=on)
        path = "metadata.annotations[elastic-job]: "
        assert _said(made("Job", WAITS, elastic_job="true"), settings=settings) == []
        found = _said(made("PyTorchJob", {"runPolicy": WAITS}, elastic_job="true"), settings=settings)
        assert _is(found, *((path + "Forbidden: elastic job is not supported for",) if on else ()))
        assert _said(made("PyTorchJob", {"runPolicy": WAITS}, elastic_job="yes"), settings=settings) == []
        old, new = made("Job", WAITS), made("Job", WAITS, elastic_job="true")
        said = f"{path}Invalid value: true: field is immutable"
        assert _said(new, old, settings=settings) == ([said] if on else [])
        running = made("Job", RUNS, elastic_job="true", l_prebuilt_workload_name="a")
        other = made("Job", RUNS, elastic_job="true", l_prebuilt_workload_name="b")
        assert bool(_said(other, running, settings=settings)) == (not on), "slices follow one another"


@pytest.mark.parametrize(
    ("new", "old", "words"),
    [
        ("a.io/b", None, []),
        ("a.io/b,c.io/d", None, []),
        ("a.io/b, c.io/d", None, []),
        ("", None, []),
        (" ", None, []),
        ("a.io/b,", None, ["cannot contain empty gate names"]),
        ("a.io/b,a.io/b", None, ["duplicate gate name: a.io/b"]),
        ("b", None, ["must be a domain-prefixed path"]),
        ("/b", None, ["must be a domain-prefixed path"]),
        ("a.io/", None, ["must be a domain-prefixed path"]),
        ("A.io/b", None, ["a lowercase RFC 1123 subdomain"]),
        ("a.io/b c", None, ["Invalid path"]),
        ("a.io/" + "b" * 58, None, []),
        ("a.io/" + "b" * 59, None, ["Too long"]),
        ("a.io/b", "a.io/b", []),
        ("", "a.io/b", []),
        ("a.io/b", "a.io/b,c.io/d", []),
        ("a.io/b,c.io/d", "a.io/b", ["can only remove gates"]),
        ("c.io/d", "a.io/b", ["can only remove gates"]),
        ("a.io/b", "", ["cannot add admission gate"]),
        ("b", "b", ["must be a domain-prefixed path"]),
    ],
)
def test_gates_of_admission(new: str, old: str | None, words: list[str]) -> None:
    def obj(value: str) -> Obj:
        return {"metadata": {"annotations": {f"{K}admission-gated-by": value}}}

    found = [str(x) for x in gated_by_faults(obj(new), None if old is None else obj(old))]
    assert len(found) == len(words) and all(w in line for w, line in zip(words, found, strict=True)), found
    for on in (True, False):
        settings = _settings(AdmissionGatedBy=on)
        gated = [made(kind, queue="q", admission_gated_by=new) for kind in ("Job", "Deployment")]
        for job in gated if old is None else ():
            assert len(_said(job, settings=settings)) == (bool(words) and on)


# Jobs of several templates


def _mpi(**notes: Any) -> Obj:
    roles = {
        "Launcher": {"replicas": 1, "template": template(**notes)},
        "Worker": {"replicas": 2, "template": template()},
    }
    return made("MPIJob", {"runPolicy": WAITS, "mpiReplicaSpecs": roles}, queue="Q!")


def test_faults_of_mpi_jobs_are_sorted_by_field() -> None:
    (text,) = refused(_mpi(podset_required_topology="-", podset_slice_size="2"), None, store(), _settings())
    faults = text.partition("request: ")[2]
    assert faults.index("metadata.labels") < faults.index("spec.mpiReplicaSpecs")
    old = _mpi()
    old["metadata"]["labels"][f"{K}queue-name"] = "a"
    old["spec"]["runPolicy"] = RUNS
    new = _mpi(podset_required_topology="-")
    new["spec"]["runPolicy"] = RUNS
    new["metadata"]["annotations"] = {f"{K}elastic-job": "true"}
    (text,) = refused(new, old, store(), _settings(ElasticJobsViaWorkloadSlices=True))
    places = [text.index(p) for p in ("metadata.annotations", "metadata.labels", "spec.mpiReplicaSpecs")]
    assert places == sorted(places)


def _ray(kind: str, cluster: Obj, queue: str = "q", **more: Any) -> Obj:
    spec = cluster if kind == "RayCluster" else {"rayClusterSpec": cluster, "shutdownAfterJobFinishes": True}
    notes = more.pop("notes", {})
    return made(kind, {**spec, **more}, queue=queue, **notes)


GATED = {"spec": {"schedulingGates": [{"name": f"{K}elastic-job"}], "containers": []}}
BARE: Obj = {"spec": {"containers": []}}


def _cluster(*groups: Obj, head: Obj = BARE, **more: Any) -> Obj:
    return {"headGroupSpec": {"template": head}, "workerGroupSpecs": list(groups), **more}


def _group(name: str, of: Obj = BARE) -> Obj:
    return {"groupName": name, "replicas": 1, "template": of}


@pytest.mark.parametrize("kind", ["RayCluster", "RayJob", "RayService"])
def test_groups_of_ray_clusters(kind: str) -> None:
    at = "spec." if kind == "RayCluster" else "spec.rayClusterSpec."
    assert _said(_ray(kind, _cluster(*(_group(f"g{i}") for i in range(17))))) == []
    found = _said(_ray(kind, _cluster(*(_group(f"g{i}") for i in range(18)))))
    assert _is(found, f"{at}workerGroupSpecs: Too many: 19: must have at most 18 items")
    found = _said(_ray(kind, _cluster(_group("a"), _group("head"))))
    assert _is(found, f"{at}workerGroupSpecs[1].groupName: Forbidden: ")
    scales = _ray(kind, _cluster(_group("a"), enableInTreeAutoscaling=True))
    assert _is(_said(scales), f"{at}enableInTreeAutoscaling: Invalid value: true")
    unnamed = _ray(kind, _cluster(_group("head")), queue="")
    assert _said(unnamed) == []
    assert len(_said(unnamed, settings=_settings(everybody=True))) == 1


@pytest.mark.parametrize("on", [True, False])
def test_elastic_clusters_of_ray(on: bool) -> None:
    settings = _settings(ElasticJobsViaWorkloadSlices=on)
    notes = {"elastic_job": "true"}
    # The webhook writes the gates into new ones; who is asked about a change has to have them.
    for head, worker in product((GATED, BARE), repeat=2):
        cluster = _ray("RayCluster", _cluster(_group("a", worker), head=head), notes=notes)
        found = _said(cluster, cluster, settings=settings)
        assert len(found) == (bool(on) * (head is BARE or worker is BARE))
    for manager, scales in product(("", f"{K}multikueue"), (True, False)):
        more = {"enableInTreeAutoscaling": scales, **({"managedBy": manager} if manager else {})}
        cluster = _ray("RayCluster", _cluster(_group("a", GATED), head=GATED), notes=notes, **more)
        found = _said(cluster, settings=settings)
        if on:
            assert bool(found) == (bool(manager) and scales)
        else:
            assert bool(found) == scales
    for kind in ("RayJob", "RayService"):
        job = _ray(kind, _cluster(_group("a"), enableInTreeAutoscaling=True), notes=notes)
        assert bool(_said(job, settings=settings)) == (not on)


def test_ray_jobs_and_their_clusters() -> None:
    at = "spec."
    assert _said(_ray("RayJob", _cluster())) == []
    kept = _ray("RayJob", _cluster(), shutdownAfterJobFinishes=False)
    assert _is(_said(kept), f"{at}shutdownAfterJobFinishes: Invalid value: false")
    both = _ray("RayJob", _cluster(), clusterSelector={"a": "b"})
    assert _is(_said(both), f"{at}clusterSelector: Invalid value: ")
    other = made("RayJob", {"clusterSelector": {"a": "b"}}, queue="q")
    assert _said(other) == []
    assert _is(_said(made("RayJob", {}, queue="q")), f"{at}rayClusterSpec: Required value")


@pytest.mark.parametrize(("checks", "everybody"), list(product((True, False), repeat=2)))
def test_changes_of_unnamed_ray_jobs(checks: bool, everybody: bool) -> None:
    """Who names no queue is looked at where all are managed, or where it named one and a gate says so."""
    settings = _settings(everybody=everybody, ValidateRayAndSparkJobUpdates=checks)

    def asked(new: str, old: str) -> bool:
        wrong = {"max-exec-time-seconds": "x"}
        job = _ray("RayCluster", _cluster(), queue=new)
        job["metadata"]["labels"] |= {K + k: v for k, v in wrong.items()}
        was = _ray("RayCluster", _cluster(), queue=old)
        return bool(_said(job, was, settings=settings))

    assert asked("q", "q")
    assert asked("", "") == everybody
    assert asked("", "q") == (everybody or checks)


# Jobs


@pytest.mark.parametrize(
    ("spec", "minimum", "is_fine"),
    [
        ({"parallelism": 3}, "2", True),
        ({"parallelism": 3}, "3", False),
        ({"parallelism": 3}, "1", True),
        ({"parallelism": 3}, "0", False),
        ({"parallelism": 5, "completions": 3}, "2", True),
        ({"parallelism": 5, "completions": 3}, "3", False),
        ({}, "1", False),
        ({"parallelism": 3}, "x", False),
    ],
)
def test_partial_admission(spec: Obj, minimum: str, is_fine: bool) -> None:
    job = made("Job", {**spec, **WAITS}, job_min_parallelism=minimum)
    assert bool(_said(job)) == (not is_fine)
    assert _said(job, job) == [], "asked when it changes"
    changed = made("Job", {**spec, **WAITS}, job_min_parallelism=minimum)
    old = made("Job", {**spec, **WAITS}, job_min_parallelism="7")
    assert bool(_said(changed, old)) == (not is_fine)
    assert _said(made("Job", {**spec, **WAITS}), job) == []


@pytest.mark.parametrize(
    ("spec", "text", "want"),
    [
        ({"completionMode": "Indexed", "parallelism": 2, "completions": 2}, "true", 0),
        ({"completionMode": "Indexed", "parallelism": 2, "completions": 3}, "true", 1),
        ({"completionMode": "Indexed", "parallelism": 2, "completions": 3}, "false", 0),
        ({"completionMode": "Indexed", "parallelism": 2, "completions": 3}, "yes", 1),
        ({"completionMode": "NonIndexed", "parallelism": 2, "completions": 2}, "T", 1),
        ({"parallelism": 2, "completions": 2}, "1", 1),
        ({"completionMode": "Indexed"}, "true", 0),
        ({"completionMode": "Indexed", "completions": 1}, "true", 0),
        ({"completionMode": "Indexed", "parallelism": 2}, "true", 1),
        ({"parallelism": 2}, "true", 2),
    ],
)
def test_completions_in_step(spec: Obj, text: str, want: int) -> None:
    (*found,) = refused(made("Job", {**spec, **WAITS}, job_completions_equal_parallelism=text))
    count = 0 if not found else 1 + found[0].count(", spec.completions")
    assert count == want


@pytest.mark.parametrize(("was", "now"), list(product((True, False), repeat=2)))
def test_sizes_of_jobs_that_run(was: bool, now: bool) -> None:
    base = {"completionMode": "Indexed", "parallelism": 3, "completions": 3}
    note = {"job_min_parallelism": "1"}

    def change(before: Obj, after: Obj, old_notes: dict[str, str], new_notes: dict[str, str]) -> list[str]:
        return _said(
            made("Job", {**base, **after, "suspend": now}, **new_notes),
            made("Job", {**base, **before, "suspend": was}, **old_notes),
        )

    resized = change({}, {"parallelism": 2}, note, note)
    assert bool(resized) == (not was)
    assert change({}, {"parallelism": 2}, {}, {}) == []
    assert change({}, {}, note, note) == []
    for before, after in (({}, {"parallelism": 1}), ({"parallelism": 1}, {})):
        bare = (
            made("Job", {"suspend": now, **after}, **note),
            made("Job", {"suspend": was, **before}, **note),
        )
        assert _said(*bare) == [], "one is the default"
    sync = {"job_completions_equal_parallelism": "true"}
    assert bool(change({}, {}, {}, sync)) == bool(change({}, {}, sync, {})) == (not was and not now)
    assert change({}, {}, sync, sync) == []


# Pods


@pytest.mark.parametrize("by_annotation", [True, False])
def test_groups_of_pods(by_annotation: bool) -> None:
    settings = _settings(WorkloadIdentifierAnnotations=by_annotation)

    def said(old: Obj | None = None, **notes: str) -> list[str]:
        return _said(made("Pod", queue="q", **notes), old, settings=settings)

    label, note, count = (
        "metadata.labels[pod-group-name]: ",
        "metadata.annotations[pod-group-name]: ",
        "metadata.annotations[pod-group-total-count]: ",
    )
    assert said(l_pod_group_name="g", pod_group_total_count="1") == []
    assert _is(said(l_pod_group_name="g", pod_group_total_count="0"), count + 'Invalid value: "0": incorrect')
    assert _is(said(l_pod_group_name="g", pod_group_total_count="x"), count + 'Invalid value: "x": strconv')
    assert _is(said(l_pod_group_name="g"), count + "Required value")
    assert _is(said(pod_group_total_count="1"), label + "Required value")
    assert _is(said(l_pod_group_name="G_", pod_group_total_count="1"), label + 'Invalid value: "G_"')
    annotated = said(pod_group_name="G_", pod_group_total_count="1")
    assert _is(annotated, note + 'Invalid value: "G_"' if by_annotation else label + "Required value")
    matching = {"l_pod_group_name": "g", "pod_group_total_count": "1"}
    assert said(**matching, l_prebuilt_workload_name="g") == []
    assert _is(
        said(**matching, l_prebuilt_workload_name="w"),
        'metadata.labels[prebuilt-workload-name]: Invalid value: "w"',
    )
    assert said(l_prebuilt_workload_name="w") == []
    assert _said(made("Pod", l_managed="true"), settings=settings) == []
    assert _is(
        _said(made("Pod", l_managed="false"), settings=settings),
        "metadata.labels[managed]: Forbidden: managed label value can only be",
    )
    old = made("Pod", queue="q", **matching, retriable_in_group="false")
    same = {**matching, "retriable_in_group": "false"}
    assert said(old, **same) == []
    assert _is(
        said(old, **matching, retriable_in_group="true"),
        "metadata.annotations[retriable-in-group]: Forbidden",
    )
    fresh = made("Pod", queue="q", **matching)
    assert said(fresh, **same) == []
    moved = said(fresh, l_pod_group_name="h", pod_group_total_count="1")
    assert _is(moved, label + 'Invalid value: "h": field is immutable')
    assert said(made("Pod", queue="q"), **matching) == [], "it may join one"


def test_pods_wait_while_they_are_gated_or_over() -> None:
    gated = {"schedulingGates": [{"name": f"{K}admission"}], "containers": []}
    other: Obj = {"schedulingGates": [{"name": "mine"}], "containers": []}
    for spec, phase, waits in (
        (gated, "Pending", True),
        (other, "Pending", False),
        (other, "Running", False),
        (other, "Succeeded", True),
        (other, "Failed", True),
    ):
        pods = [made("Pod", spec, queue=q, status={"phase": phase}) for q in ("a", "b")]
        assert bool(_said(pods[1], pods[0])) == (not waits), (spec, phase)


# What serves


def _serves(kind: str, ready: int = 0, queue: str = "a", spec: Obj | None = None, **more: Any) -> Obj:
    status = {"readyReplicas": ready, **more.pop("status", {})}
    return made(kind, spec or {}, queue=queue, status=status, **more)


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
@pytest.mark.parametrize("ready", [0, 1])
def test_queues_and_classes_of_what_serves(kind: str, ready: int) -> None:
    old = _serves(kind, ready)
    assert _said(_serves(kind), old) == []
    assert bool(_said(_serves(kind, queue="b"), old)) == bool(ready)
    assert _said(_serves(kind, queue=""), old), "it may not lose it"
    assert _said(_serves(kind, queue=""), _serves(kind, ready, queue="")) == []
    assert bool(_said(_serves(kind, queue="b"), _serves(kind, ready, queue=""))) == bool(ready)
    assert bool(_said(_serves(kind, l_priority_class="x"), old)) == bool(ready)


def _box(cpu: str = "1", **more: Any) -> Obj:
    return {"name": "c", "resources": {"requests": {"cpu": cpu}}, **more}


def _pods(*boxes: Obj, **spec: Any) -> Obj:
    return {"spec": {"containers": list(boxes or (_box(),)), **spec}}


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (_pods(_box(), hostname="h"), ""),
        (_pods(_box(image="new")), ""),
        (_pods(_box("2")), "containers[0].resources.requests"),
        (_pods(_box(ports=[{"containerPort": 1}])), "containers[0].ports"),
        (_pods(_box(), _box()), "containers"),
        (_pods(initContainers=[_box()]), "initContainers"),
        *(
            (_pods(**{field: value}), field)
            for field, value in (
                ("nodeSelector", {"a": "b"}),
                ("affinity", {"nodeAffinity": {}}),
                ("tolerations", [{"key": "k"}]),
                ("runtimeClassName", "r"),
                ("priority", 1),
                ("topologySpreadConstraints", [{"maxSkew": 1}]),
                ("overhead", {"cpu": "1"}),
                ("resourceClaims", [{"name": "c"}]),
            )
        ),
    ],
)
def test_pods_of_sets_keep_their_shape(change: Obj, where: str) -> None:
    old = _serves("StatefulSet", spec={"replicas": 1, "template": _pods()})
    new = _serves("StatefulSet", spec={"replicas": 1, "template": change})
    found = _said(new, old)
    assert _is(found, *((f"spec.template.spec.{where}: Invalid value",) if where else ()))
    assert (
        _said(
            {**new, "metadata": {**new["metadata"], "labels": {}}},
            {**old, "metadata": {**old["metadata"], "labels": {}}},
        )
        == []
    )
    group = [{"leaderWorkerTemplate": {"size": 2, "workerTemplate": t}} for t in (_pods(), change)]
    before, after = (_serves("LeaderWorkerSet", spec=s) for s in group)
    at = f"spec.leaderWorkerTemplate.workerTemplate.spec.{where}: Invalid value"
    assert _is(_said(after, before), *((at,) if where else ()))
    leaders = [
        {"leaderWorkerTemplate": {"size": 2, "workerTemplate": _pods(), "leaderTemplate": t}}
        for t in (_pods(), change)
    ]
    before, after = (_serves("LeaderWorkerSet", spec=s) for s in leaders)
    at = f"spec.leaderWorkerTemplate.leaderTemplate.spec.{where}: Invalid value"
    assert _is(_said(after, before), *((at,) if where else ()))


@pytest.mark.parametrize(
    ("was", "now", "there", "is_fine"),
    [
        (2, 2, 0, True),
        (2, 3, 0, False),
        (2, 0, 2, True),
        (0, 2, 0, True),
        (0, 2, 1, False),
        (0, 0, 1, True),
        (None, 1, 0, True),
        (None, 2, 0, False),
    ],
)
def test_sizes_of_stateful_sets(was: int | None, now: int, there: int, is_fine: bool) -> None:
    before = {} if was is None else {"replicas": was}
    old = _serves("StatefulSet", spec={**before, "template": _pods()})
    new = _serves("StatefulSet", spec={"replicas": now, "template": _pods()}, status={"replicas": there})
    assert bool(_said(new, old)) == (not is_fine)


def test_leader_worker_sets() -> None:
    def group(**more: Any) -> Obj:
        return {"leaderWorkerTemplate": {"workerTemplate": _pods(), **more}}

    for replicas, is_fine in ((0, True), (-1, False), (1_000_000, True), (1_000_001, False)):
        found = _said(_serves("LeaderWorkerSet", spec={"replicas": replicas, **group()}))
        assert bool(found) == (not is_fine)
    old = _serves("LeaderWorkerSet", spec=group(size=1))
    assert _said(_serves("LeaderWorkerSet", spec=group()), old) == [], "one is the default"
    assert _is(_said(_serves("LeaderWorkerSet", spec=group(size=2)), old), "spec.leaderWorkerTemplate.size: ")
    led = _serves("LeaderWorkerSet", spec=group(size=1, leaderTemplate=_pods()))
    for a, b in ((old, led), (led, old)):
        assert _is(_said(a, b), "spec.leaderWorkerTemplate.leaderTemplate: ")


# Shapes


@pytest.mark.parametrize("gk", [g for g in SHAPES if g not in ("Pod", "Deployment.apps", "StatefulSet.apps")])
def test_where_kinds_say_that_they_wait(gk: str) -> None:
    shape = SHAPES[gk]
    job: Obj = {"metadata": {}, "spec": {"x": 1}}
    assert not is_suspended(shape, job) and managed_by(shape, job) is None
    held = with_held(shape, with_held(shape, job, "suspend", True), "managedBy", "m")
    assert is_suspended(shape, held) and managed_by(shape, held) == "m"
    assert held["spec"]["x"] == 1
    assert not is_suspended(shape, with_held(shape, held, "suspend", False))
    stopping = {**held, "metadata": {"annotations": {f"{K}stopping": "true"}}}
    assert is_suspended(shape, stopping) == (shape.name != "job")
    assert (shape.mutating, shape.validating) == (f"m{shape.name}.kb.io", f"v{shape.name}.kb.io")


def test_how_many_pods_each_template_has() -> None:
    def counts(kind: str, spec: Obj) -> list[tuple[str, int]]:
        return [(t.name, t.count) for t in SHAPES[kind].templates({"spec": spec})]

    assert counts("Job.batch", {}) == [("main", 1)]
    assert counts("Job.batch", {"parallelism": 3, "completions": 2}) == [("main", 2)]
    replicated = [
        {"name": "a", "template": {"spec": {"parallelism": 3}}},
        {"name": "b", "replicas": 2, "template": {"spec": {"parallelism": 3, "completions": 1}}},
    ]
    assert counts("JobSet.jobset.x-k8s.io", {"replicatedJobs": replicated}) == [("a", 3), ("b", 2)]
    roles = {"Worker": {"replicas": 4}, "Chief": {}, "Evaluator": {"replicas": 0}, "X": {}}
    assert counts("TFJob.kubeflow.org", {"tfReplicaSpecs": roles}) == [
        ("chief", 1),
        ("worker", 4),
        ("evaluator", 0),
    ]
    cluster = {
        "workerGroupSpecs": [
            {"groupName": "a"},
            {"groupName": "b", "replicas": 3, "numOfHosts": 2},
            {"groupName": "c", "replicas": 3, "numOfHosts": 0},
        ]
    }
    want = [("head", 1), ("a", 1), ("b", 6), ("c", 3)]
    assert counts("RayCluster.ray.io", cluster) == want
    assert counts("RayJob.ray.io", {"rayClusterSpec": cluster}) == want
    assert counts("RayService.ray.io", {}) == counts("TrainJob.trainer.kubeflow.org", {}) == []
    both: Obj = {"size": 4, "workerTemplate": {}}
    assert counts("LeaderWorkerSet.leaderworkerset.x-k8s.io", {"leaderWorkerTemplate": both}) == [("main", 4)]
    both["leaderTemplate"] = {}
    assert counts("LeaderWorkerSet.leaderworkerset.x-k8s.io", {"leaderWorkerTemplate": both}) == [
        ("leader", 1),
        ("worker", 3),
    ]


# Who runs it


@pytest.mark.parametrize("on", [True, False])
@pytest.mark.parametrize("manager", [None, "kubernetes.io/job-controller", "me"])
@pytest.mark.parametrize("controller", ["kueue.x-k8s.io/multikueue", "other"])
@pytest.mark.parametrize("queue", ["a", "none", ""])
def test_jobs_of_queues_that_run_elsewhere(
    on: bool, manager: str | None, controller: str, queue: str
) -> None:
    version = "kueue.x-k8s.io/v1beta2"
    there = [
        NAMESPACE,
        {
            "apiVersion": version,
            "kind": "LocalQueue",
            "metadata": {"name": "a", "namespace": "team"},
            "spec": {"clusterQueue": "cq"},
        },
        {
            "apiVersion": version,
            "kind": "ClusterQueue",
            "metadata": {"name": "cq"},
            "spec": {"admissionChecksStrategy": {"admissionChecks": [{"name": "gone"}, {"name": "check"}]}},
        },
        {
            "apiVersion": version,
            "kind": "AdmissionCheck",
            "metadata": {"name": "check"},
            "spec": {"controllerName": controller},
        },
    ]
    job = made("Job", {**RUNS, **({"managedBy": manager} if manager else {})}, queue=queue)
    found = defaulted(CREATE, job, store(*there), _settings(MultiKueue=on))
    moves = on and manager != "me" and controller.endswith("multikueue") and queue == "a"
    assert found["spec"].get("managedBy") == (f"{K}multikueue" if moves else manager)


# Workloads


def _workload(*pod_sets: Obj, annotations: Obj | None = None, **status: Any) -> Obj:
    return {
        "metadata": {"name": "w", "annotations": annotations or {}},
        "spec": {"podSets": list(pod_sets)},
        "status": status,
    }


def _pod_set(name: str = "main", **more: Any) -> Obj:
    spec = more.pop("pod", {"containers": [{"name": "c"}]})
    return {"name": name, "count": 2, "template": {"spec": spec}, **more}


def _wrong(workload: Obj, **gates: bool) -> list[str]:
    return [str(x) for x in workload_faults(workload, None, _settings(**gates))]


@pytest.mark.parametrize(
    ("asked", "want"),
    [
        ({}, ""),
        ({"podSetSliceRequiredTopology": "rack", "podSetSliceSize": 1}, ""),
        ({"podSetSliceRequiredTopology": "rack", "podSetSliceSize": 0}, "podSetSliceSize: Invalid value: 0"),
        ({"podSetSliceRequiredTopology": "rack"}, "podSetSliceSize: Required value"),
        ({"podSetSliceSize": 1}, "podSetSliceSize: Forbidden"),
        ({"podsetSliceRequiredTopologyConstraints": [{"topology": "a", "size": 1}]}, ""),
        (
            {"podsetSliceRequiredTopologyConstraints": [{"topology": "a", "size": 1}, {"topology": "b"}]},
            "podsetSliceRequiredTopologyConstraints[1].size: Invalid value: 0",
        ),
    ],
)
def test_sizes_of_slices_in_workloads(asked: Obj, want: str) -> None:
    workload = _workload(_pod_set(topologyRequest=asked))
    found = _wrong(workload, TASValidateWorkloadSliceSize=True)
    assert _is(found, *((f"spec.podSets[0].topologyRequest.{want}",) if want else ()))
    assert _wrong(workload, TASValidateWorkloadSliceSize=False) == []


def test_amounts_and_places_in_workloads() -> None:
    spec = {
        "containers": [{"resources": {"requests": {"pods": "1"}}}, {"resources": {"limits": {"cpu": "-1"}}}],
        "initContainers": [{"resources": {"requests": {"x": "-1"}}}],
        "resources": {"requests": {"pods": "1"}},
    }
    workload = _workload(_pod_set("a"), _pod_set("b", pod=spec))
    at = "spec.podSets[1].template.spec."
    reserved = 'Invalid value: "pods": the key is reserved for internal kueue use'
    negative = [
        f'{at}initContainers[0].resources.requests[x]: Invalid value: "-1"',
        f'{at}containers[1].resources.limits[cpu]: Invalid value: "-1"',
    ]
    pods = [
        f"{at}containers[0].resources.requests[pods]: {reserved}",
        f"{at}resources.requests[pods]: {reserved}",
    ]
    on = _wrong(workload, WorkloadValidateResourcesAreNonNegative=True)
    assert _is(on, negative[0], pods[0], negative[1], pods[1])
    assert _wrong(workload, WorkloadValidateResourcesAreNonNegative=False) == pods
    variable = [_pod_set("a", minCount=1), _pod_set("b")]
    assert _wrong(_workload(*variable)) == []
    both = _workload(_pod_set("a", minCount=1), _pod_set("b", minCount=0))
    assert _wrong(both) == ["spec.podSets: Invalid value: 2: at most one podSet can use minCount"]
    elastic = _workload(*variable, annotations={f"{K}elastic-job": "true"})
    together = "spec.podSets: Invalid value: 1: partial admission and elastic job cannot be used together"
    assert _wrong(elastic, ElasticJobsViaWorkloadSlices=True) == [together]
    assert _wrong(elastic, ElasticJobsViaWorkloadSlices=False) == []
    noted = _pod_set()
    noted["template"]["metadata"] = {"labels": {"-x": "y"}, "annotations": {"-y": "z"}}
    assert len(_wrong(_workload(noted), WorkloadValidationForPodSetMetadata=True)) == 2
    assert _wrong(_workload(noted), WorkloadValidationForPodSetMetadata=False) == []
