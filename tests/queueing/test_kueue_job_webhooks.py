"""What Kueue's webhooks refuse of jobs and write into them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fairway.cluster.store import Store
from fairway.queueing.integrations.rolehash import role_hash
from fairway.queueing.webhooks.door import CREATE, UPDATE, defaulted, refusals
from fairway.queueing.webhooks.settings import Settings

Obj = dict[str, Any]
K = "kueue.x-k8s.io/"
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
ALL = Settings(
    frameworks=(
        "batch/job",
        "deployment",
        "jobset.x-k8s.io/jobset",
        "kubeflow.org/mpijob",
        "kubeflow.org/pytorchjob",
        "leaderworkerset.x-k8s.io/leaderworkerset",
        "pod",
        "ray.io/raycluster",
        "ray.io/rayjob",
        "statefulset",
    )
)
VERSIONS = {
    "Job": "batch/v1",
    "Pod": "v1",
    "Deployment": "apps/v1",
    "StatefulSet": "apps/v1",
    "JobSet": "jobset.x-k8s.io/v1alpha2",
    "PyTorchJob": "kubeflow.org/v1",
    "MPIJob": "kubeflow.org/v2beta1",
    "RayCluster": "ray.io/v1",
    "RayJob": "ray.io/v1",
    "RayService": "ray.io/v1",
    "LeaderWorkerSet": "leaderworkerset.x-k8s.io/v1",
}


def made(
    kind: str, spec: Obj | None = None, *, queue: str = "", status: Obj | None = None, **notes: str
) -> Obj:
    """`notes`: annotations, their names with `_` for `-`, without Kueue's prefix; `l_…` are labels."""
    words = {name.replace("_", "-"): value for name, value in notes.items()}
    labels = {K + n[2:]: v for n, v in words.items() if n.startswith("l-")}
    annotations = {K + n: v for n, v in words.items() if not n.startswith("l-")}
    if queue:
        labels[f"{K}queue-name"] = queue
    meta: Obj = {"name": "j", "namespace": "team", "labels": labels, "annotations": annotations}
    obj = {"apiVersion": VERSIONS[kind], "kind": kind, "metadata": meta, "spec": spec or {}}
    return obj if status is None else {**obj, "status": status}


def template(**notes: str) -> Obj:
    annotations = {K + n.replace("_", "-"): v for n, v in notes.items()}
    return {"metadata": {"annotations": annotations}, "spec": {"containers": [{"name": "c"}]}}


def store(*objects: Obj) -> Store:
    made_store = Store()
    for obj in objects:
        made_store.create(obj)
    return made_store


def refused(
    obj: Obj, old: Obj | None = None, view: Store | None = None, settings: Settings = ALL
) -> list[str]:
    operation = CREATE if old is None else UPDATE
    return [r.message for r in refusals(operation, obj, old, view or store(), settings)]


def denied(kind: str, text: str) -> str:
    return f'admission webhook "v{kind}.kb.io" denied the request: {text}'


ONE_OF = (
    'must not contain more than one topology annotation: ["kueue.x-k8s.io/podset-required-topology", '
    '"kueue.x-k8s.io/podset-preferred-topology", "kueue.x-k8s.io/podset-unconstrained-topology"]'
)
AT = "spec.template.metadata.annotations"
NEW: dict[str, tuple[Obj, str | None]] = {
    "a job without a word of Kueue": (made("Job", {"parallelism": 2}), None),
    "a queue that is no name": (
        made("Job", queue="Team_A"),
        denied("job", f'metadata.labels[{K}queue-name]: Invalid value: "Team_A": {SUBDOMAIN}'),
    ),
    "a minimum that is no number": (
        made("Job", {"parallelism": 3}, job_min_parallelism="two"),
        denied(
            "job",
            f'metadata.annotations[{K}job-min-parallelism]: Invalid value: "two": strconv.Atoi: parsing "two": '
            "invalid syntax",
        ),
    ),
    "a minimum as large as the job": (
        made("Job", {"parallelism": 3}, job_min_parallelism="3"),
        denied(
            "job",
            f"metadata.annotations[{K}job-min-parallelism]: Invalid value: 3: should be between 0 and 2",
        ),
    ),
    "a minimum within a job cut by its completions": (
        made("Job", {"parallelism": 9, "completions": 2}, job_min_parallelism="2"),
        denied(
            "job",
            f"metadata.annotations[{K}job-min-parallelism]: Invalid value: 2: should be between 0 and 1",
        ),
    ),
    "a minimum that fits": (made("Job", {"parallelism": 3}, job_min_parallelism="1"), None),
    "completions in step that are no boolean": (
        made("Job", job_completions_equal_parallelism="maybe"),
        denied(
            "job",
            f'metadata.annotations[{K}job-completions-equal-parallelism]: Invalid value: "maybe": strconv.ParseBool: '
            'parsing "maybe": invalid syntax',
        ),
    ),
    "completions in step of a job without indexes": (
        made("Job", {"parallelism": 2, "completions": 2}, job_completions_equal_parallelism="true"),
        denied(
            "job",
            f'metadata.annotations[{K}job-completions-equal-parallelism]: Invalid value: "true": should not be '
            "enabled for NonIndexed jobs",
        ),
    ),
    "completions in step that differ": (
        made(
            "Job",
            {"parallelism": 2, "completions": 4, "completionMode": "Indexed"},
            job_completions_equal_parallelism="true",
        ),
        denied(
            "job",
            f"spec.completions: Invalid value: 4: should be equal to parallelism when "
            f"{K}job-completions-equal-parallelism annotation is true",
        ),
    ),
    "a time limit that is no number": (
        made("Job", l_max_exec_time_seconds="1h"),
        denied(
            "job",
            f'metadata.labels[{K}max-exec-time-seconds]: Invalid value: "1h": strconv.Atoi: parsing "1h": invalid '
            "syntax",
        ),
    ),
    "a time limit of nothing": (
        made("Job", l_max_exec_time_seconds="0"),
        denied(
            "job", f"metadata.labels[{K}max-exec-time-seconds]: Invalid value: 0: should be greater than 0"
        ),
    ),
    "partial admission of an elastic job": (
        made("Job", {"parallelism": 3}, job_min_parallelism="2", elastic_job="true"),
        denied(
            "job",
            f'metadata.annotations[{K}job-min-parallelism]: Invalid value: "2": partial admission and elastic job '
            "cannot be used together",
        ),
    ),
    "required and preferred at once": (
        made(
            "Job", {"template": template(podset_required_topology="rack", podset_preferred_topology="block")}
        ),
        denied("job", f"{AT}: Invalid value: {ONE_OF}"),
    ),
    "a topology that is no label": (
        made("Job", {"template": template(podset_required_topology="a b")}),
        denied(
            "job",
            f'{AT}[{K}podset-required-topology]: Invalid value: "a b": name part must consist of alphanumeric '
            "characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or "
            "'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
        ),
    ),
    "unconstrained by a word": (
        made("Job", {"template": template(podset_unconstrained_topology="yes")}),
        denied(
            "job", f'{AT}[{K}podset-unconstrained-topology]: Invalid value: "yes": must be a boolean value'
        ),
    ),
    "slices without a size": (
        made("Job", {"template": template(podset_slice_required_topology="rack")}),
        denied(
            "job",
            f"{AT}[{K}podset-slice-size]: Required value: must be set when '{K}podset-slice-required-topology' is "
            "specified",
        ),
    ),
    "a slice size alone": (
        made("Job", {"template": template(podset_slice_size="x")}),
        denied(
            "job",
            f'[{AT}[{K}podset-slice-size]: Invalid value: "x": must be a numeric value, '
            f"{AT}[{K}podset-slice-size]: Forbidden: may not be set when '{K}podset-slice-required-topology' is not "
            "specified]",
        ),
    ),
    "slices larger than the job": (
        made(
            "Job",
            {
                "parallelism": 4,
                "template": template(podset_slice_required_topology="rack", podset_slice_size="8"),
            },
        ),
        denied(
            "job", f'{AT}[{K}podset-slice-size]: Invalid value: "8": must not be greater than pod set count 4'
        ),
    ),
    "layers that do not divide": (
        made(
            "Job",
            {
                "parallelism": 12,
                "template": template(
                    podset_slice_required_topology_constraints='[{"topology":"a","size":6},{"topology":"b","size":4}]'
                ),
            },
        ),
        denied(
            "job",
            f"{AT}[{K}podset-slice-required-topology-constraints][1].size: Invalid value: 4: must evenly divide the "
            "parent layer size 6",
        ),
    ),
    "too many layers": (
        made("Job", {"template": template(podset_slice_required_topology_constraints="[]")}),
        denied(
            "job",
            f'{AT}[{K}podset-slice-required-topology-constraints]: Invalid value: "[]": topology constraints must '
            "contain between 1 and 3 entries",
        ),
    ),
    "an elastic job in one rack": (
        made("Job", {"template": template(podset_required_topology="rack")}, elastic_job="true"),
        denied(
            "job",
            f"{AT}.{K}podset-required-topology: Forbidden: required topology is not supported with elastic jobs",
        ),
    ),
    "a gate without a domain": (
        made("Job", admission_gated_by="approval"),
        denied(
            "job",
            f'metadata.annotations[{K}admission-gated-by]: Invalid value: "approval": must be a domain-prefixed path '
            '(such as "acme.io/foo")',
        ),
    ),
    "a gate twice": (
        made("Job", admission_gated_by="a.b/c, a.b/c"),
        denied(
            "job",
            f'metadata.annotations[{K}admission-gated-by]: Invalid value: "a.b/c, a.b/c": duplicate gate name: a.b/c',
        ),
    ),
    "a Deployment that would be elastic": (
        made("Deployment", elastic_job="true"),
        denied(
            "deployment",
            f'metadata.annotations[{K}elastic-job]: Forbidden: elastic job is not supported for "apps/v1, '
            'Kind=Deployment"',
        ),
    ),
    "a pod of a group that does not say how many": (
        made("Pod", queue="q", l_pod_group_name="g"),
        denied(
            "pod",
            f"metadata.annotations[{K}pod-group-total-count]: Required value: both the '{K}pod-group-total-count' "
            f"annotation and the '{K}pod-group-name' label should be set",
        ),
    ),
    "a count without a group": (
        made("Pod", queue="q", pod_group_total_count="2"),
        denied(
            "pod",
            f"metadata.labels[{K}pod-group-name]: Required value: both the '{K}pod-group-total-count' annotation and "
            f"the '{K}pod-group-name' label should be set",
        ),
    ),
    "a group of nobody": (
        made("Pod", queue="q", l_pod_group_name="g", pod_group_total_count="0"),
        denied(
            "pod",
            f'metadata.annotations[{K}pod-group-total-count]: Invalid value: "0": incorrect annotation value '
            f"'{K}pod-group-total-count=0': group total count should be greater than zero",
        ),
    ),
    "a pod managed in another way": (
        made("Pod", l_managed="false"),
        denied("pod", f"metadata.labels[{K}managed]: Forbidden: managed label value can only be 'true'"),
    ),
    "a JobSet that wants two topologies": (
        made(
            "JobSet",
            {
                "replicatedJobs": [
                    {
                        "name": "w",
                        "template": {
                            "spec": {
                                "template": template(
                                    podset_required_topology="rack", podset_preferred_topology="block"
                                )
                            }
                        },
                    }
                ]
            },
        ),
        denied(
            "jobset",
            f"spec.replicatedJobs[0].template.spec.template.metadata.annotations: Invalid value: {ONE_OF}",
        ),
    ),
    "a PyTorchJob whose slices are too large": (
        made(
            "PyTorchJob",
            {
                "pytorchReplicaSpecs": {
                    "Worker": {
                        "replicas": 2,
                        "template": template(podset_slice_required_topology="rack", podset_slice_size="4"),
                    }
                }
            },
        ),
        denied(
            "pytorchjob",
            f"spec.pytorchReplicaSpecs[Worker].template.metadata.annotations[{K}podset-slice-size]: Invalid value: "
            '"4": must not be greater than pod set count 2',
        ),
    ),
    "an MPIJob whose group has one member": (
        made(
            "MPIJob",
            {
                "mpiReplicaSpecs": {
                    "Worker": {"template": template(podset_group_name="g", podset_required_topology="rack")}
                }
            },
        ),
        denied(
            "mpijob",
            f'spec.mpiReplicaSpecs[Worker].template.metadata.annotations[{K}podset-group-name]: Invalid value: "g": '
            "can only define groups of exactly 2 pod sets, got: 1 pod set(s)",
        ),
    ),
    "a RayCluster that scales by itself": (
        made("RayCluster", {"enableInTreeAutoscaling": True}, queue="q"),
        denied(
            "raycluster",
            "spec.enableInTreeAutoscaling: Invalid value: true: a kueue-managed RayCluster can use autoscaling only "
            "as an elastic job: enable the ElasticJobsViaWorkloadSlices feature gate and set the "
            f'"{K}elastic-job": "true" annotation',
        ),
    ),
    "a RayCluster without a queue may scale": (made("RayCluster", {"enableInTreeAutoscaling": True}), None),
    "a RayCluster with too many groups": (
        made("RayCluster", {"workerGroupSpecs": [{"groupName": f"g{i}"} for i in range(18)]}, queue="q"),
        denied("raycluster", "spec.workerGroupSpecs: Too many: 19: must have at most 18 items"),
    ),
    "a worker group called head": (
        made("RayCluster", {"workerGroupSpecs": [{"groupName": "head"}]}, queue="q"),
        denied(
            "raycluster",
            'spec.workerGroupSpecs[0].groupName: Forbidden: "head" is reserved for the head group',
        ),
    ),
    "a RayJob that leaves its cluster behind": (
        made("RayJob", {"rayClusterSpec": {"headGroupSpec": {}}}, queue="q"),
        denied(
            "rayjob",
            "spec.shutdownAfterJobFinishes: Invalid value: false: a kueue managed job should delete the cluster "
            "after finishing",
        ),
    ),
    "a RayJob without a cluster": (
        made("RayJob", {}, queue="q"),
        denied(
            "rayjob",
            "spec.rayClusterSpec: Required value: rayClusterSpec is required for Kueue-managed jobs that don't use "
            "clusterSelector",
        ),
    ),
    "a RayJob with its own and another's cluster": (
        made("RayJob", {"rayClusterSpec": {}, "clusterSelector": {"a": "b"}}, queue="q"),
        denied(
            "rayjob",
            'spec.clusterSelector: Invalid value: {"a":"b"}: a kueue managed job should not use an existing cluster',
        ),
    ),
    "a LeaderWorkerSet with more replicas than anybody has": (
        made("LeaderWorkerSet", {"replicas": 1_000_001, "leaderWorkerTemplate": {"workerTemplate": {}}}),
        denied(
            "leaderworkerset",
            "spec.replicas: Invalid value: 1000001: invalid LeaderWorkerSet replicas: must be <= 1000000, got 1000001",
        ),
    ),
    "a LeaderWorkerSet with a slice size alone": (
        made(
            "LeaderWorkerSet", {"leaderWorkerTemplate": {"workerTemplate": template(podset_slice_size="1")}}
        ),
        denied(
            "leaderworkerset",
            f"spec.leaderWorkerTemplate.workerTemplate.metadata.annotations[{K}podset-slice-size]: Forbidden: may "
            f"not be set when '{K}podset-slice-required-topology' is not specified",
        ),
    ),
}


@pytest.mark.parametrize("name", NEW)
def test_new_jobs(name: str) -> None:
    obj, want = NEW[name]
    assert refused(obj) == ([] if want is None else [want])


QUEUE_PATH = f"metadata.labels[{K}queue-name]"
RUNNING = {"suspend": False}
READY = {"readyReplicas": 1}
POD_SPEC = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}
BIGGER = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}}
CHANGED: dict[str, tuple[Obj, Obj, str | None]] = {
    "a running job keeps its queue": (
        made("Job", RUNNING, queue="a"),
        made("Job", RUNNING, queue="b"),
        denied("job", f'{QUEUE_PATH}: Invalid value: "b": field is immutable'),
    ),
    "a suspended job may change queues": (
        made("Job", {"suspend": True}, queue="a"),
        made("Job", {"suspend": True}, queue="b"),
        None,
    ),
    "a running job keeps its time limit": (
        made("Job", RUNNING, queue="a", l_max_exec_time_seconds="5"),
        made("Job", RUNNING, queue="a", l_max_exec_time_seconds="6"),
        denied("job", f'metadata.labels[{K}max-exec-time-seconds]: Invalid value: "6": field is immutable'),
    ),
    "a running job keeps its prebuilt workload": (
        made("Job", RUNNING, queue="a", l_prebuilt_workload_name="w"),
        made("Job", RUNNING, queue="a", l_prebuilt_workload_name="v"),
        denied("job", f'metadata.labels[{K}prebuilt-workload-name]: Invalid value: "v": field is immutable'),
    ),
    "a running job cannot get a class": (
        made("Job", RUNNING, queue="a"),
        made("Job", RUNNING, queue="a", l_priority_class="high"),
        denied(
            "job",
            f'metadata.labels[{K}priority-class]: Invalid value: "high": WorkloadPriorityClass cannot be added to a '
            "non-suspended workload",
        ),
    ),
    "nobody loses a class": (
        made("Job", {"suspend": True}, l_priority_class="high"),
        made("Job", {"suspend": True}),
        denied(
            "job",
            f'metadata.labels[{K}priority-class]: Invalid value: "": WorkloadPriorityClass cannot be removed from a '
            "workload",
        ),
    ),
    "a job stays elastic": (
        made("Job", {"suspend": True}, elastic_job="true"),
        made("Job", {"suspend": True}),
        denied("job", f"metadata.annotations[{K}elastic-job]: Invalid value: false: field is immutable"),
    ),
    "a partly admitted job keeps its size": (
        made("Job", {"parallelism": 3, **RUNNING}, queue="a", job_min_parallelism="1"),
        made("Job", {"parallelism": 4, **RUNNING}, queue="a", job_min_parallelism="1"),
        denied(
            "job",
            "spec.parallelism: Forbidden: cannot change when partial admission is enabled and the job is not "
            "suspended",
        ),
    ),
    "a group's pod stays in it": (
        made("Pod", queue="q", l_pod_group_name="a", pod_group_total_count="2"),
        made("Pod", queue="q", l_pod_group_name="b", pod_group_total_count="2"),
        denied("pod", f'metadata.labels[{K}pod-group-name]: Invalid value: "b": field is immutable'),
    ),
    "a pod not to be retried stays so": (
        made("Pod", queue="q", l_pod_group_name="a", pod_group_total_count="2", retriable_in_group="false"),
        made("Pod", queue="q", l_pod_group_name="a", pod_group_total_count="2"),
        denied(
            "pod",
            f"metadata.annotations[{K}retriable-in-group]: Forbidden: unretriable pod group can't be converted to "
            "retriable",
        ),
    ),
    "a Deployment with ready pods keeps its queue": (
        made("Deployment", queue="a", status=READY),
        made("Deployment", queue="b", status=READY),
        denied("deployment", f'{QUEUE_PATH}: Invalid value: "b": field is immutable'),
    ),
    "an idle Deployment may change queues": (
        made("Deployment", queue="a"),
        made("Deployment", queue="b"),
        None,
    ),
    "an idle Deployment may not lose its queue": (
        made("Deployment", queue="a"),
        made("Deployment"),
        denied("deployment", f'{QUEUE_PATH}: Invalid value: "": field is immutable'),
    ),
    "a StatefulSet keeps its size": (
        made("StatefulSet", {"replicas": 2}, queue="a"),
        made("StatefulSet", {"replicas": 3}, queue="a"),
        denied("statefulset", "spec.replicas: Invalid value: 3: field is immutable"),
    ),
    "a StatefulSet may go to zero": (
        made("StatefulSet", {"replicas": 2}, queue="a"),
        made("StatefulSet", {"replicas": 0}, queue="a"),
        None,
    ),
    "a StatefulSet comes back only when all pods are gone": (
        made("StatefulSet", {"replicas": 0}, queue="a"),
        made("StatefulSet", {"replicas": 2}, queue="a", status={"replicas": 1}),
        denied("statefulset", "spec.replicas: Forbidden: scaling down is still in progress"),
    ),
    "a StatefulSet keeps its requests": (
        made("StatefulSet", {"template": POD_SPEC}, queue="a"),
        made("StatefulSet", {"template": BIGGER}, queue="a"),
        denied(
            "statefulset",
            'spec.template.spec.containers[0].resources.requests: Invalid value: {"cpu":"2"}: field is immutable',
        ),
    ),
    "a LeaderWorkerSet keeps its group's size": (
        made("LeaderWorkerSet", {"leaderWorkerTemplate": {"size": 2, "workerTemplate": {}}}, queue="a"),
        made("LeaderWorkerSet", {"leaderWorkerTemplate": {"size": 3, "workerTemplate": {}}}, queue="a"),
        denied("leaderworkerset", "spec.leaderWorkerTemplate.size: Invalid value: 3: field is immutable"),
    ),
}


@pytest.mark.parametrize("name", CHANGED)
def test_changed_jobs(name: str) -> None:
    old, new, want = CHANGED[name]
    assert refused(new, old) == ([] if want is None else [want])


NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team", "labels": {}}}
DEFAULT_QUEUE = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "LocalQueue",
    "metadata": {"name": "default", "namespace": "team"},
    "spec": {"clusterQueue": "cq"},
}
DEFAULT_CLASS = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "WorkloadPriorityClass",
    "metadata": {"name": "default"},
    "value": 5,
}


def filled(obj: Obj, *objects: Obj, operation: str = CREATE, **settings: Any) -> Obj:
    chosen = Settings(frameworks=ALL.frameworks, **settings)
    return defaulted(operation, obj, store(NAMESPACE, *objects), chosen)


def test_a_job_with_a_queue_waits() -> None:
    assert filled(made("Job", RUNNING, queue="a"))["spec"]["suspend"] is True
    assert filled(made("Job", RUNNING))["spec"] == RUNNING


def test_a_job_without_a_queue_waits_where_all_are_managed() -> None:
    assert filled(made("Job"), manages_without_queue_name=True)["spec"]["suspend"] is True
    system = {**made("Job"), "metadata": {"name": "j", "namespace": "kube-system"}}
    assert filled(system, manages_without_queue_name=True) == system


def test_an_updated_job_is_not_suspended_again() -> None:
    job = made("Job", RUNNING, queue="a")
    assert filled(job, operation=UPDATE) == job


def test_the_default_queue_takes_jobs_that_name_none() -> None:
    job = filled(made("Job"), DEFAULT_QUEUE, DEFAULT_CLASS)
    assert job["metadata"]["labels"] == {f"{K}queue-name": "default", f"{K}priority-class": "default"}
    assert job["spec"]["suspend"] is True


def test_a_job_of_a_managed_owner_is_left_alone() -> None:
    view = store(NAMESPACE)
    parent = view.create(made("JobSet", {"suspend": True}, queue="a"))
    owner = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "name": "j",
        "uid": parent["metadata"]["uid"],
        "controller": True,
    }
    child = made("Job", RUNNING, queue="a")
    child["metadata"]["ownerReferences"] = [owner]
    assert defaulted(CREATE, child, view, ALL) == child


def test_a_pod_with_a_queue_is_gated() -> None:
    pod = filled(made("Pod", {"containers": [{"name": "c"}]}, queue="a"))
    gates = [gate["name"] for gate in pod["spec"]["schedulingGates"]]
    assert gates == [f"{K}admission", f"{K}topology"]
    assert pod["metadata"]["labels"][f"{K}managed"] == "true"
    assert pod["metadata"]["finalizers"] == [f"{K}managed"]
    assert pod["metadata"]["annotations"][f"{K}role-hash"] == role_hash(pod["spec"])


def test_roles_are_hashed_as_kueue_does() -> None:
    """The hash of the pod in Kueue's own tests."""
    assert (
        role_hash({"containers": [{"name": "c", "image": "i", "resources": {"requests": {}}}]}) == "a9f06f3a"
    )


def test_a_pod_of_nobody_stays_the_same_object() -> None:
    pod = made("Pod", {"containers": []})
    assert filled(pod) is pod


def test_a_deployment_hands_its_queue_to_its_pods() -> None:
    spec = filled(made("Deployment", {"template": template()}, queue="a", l_priority_class="high"))["spec"]
    assert spec["template"]["metadata"]["labels"] == {
        f"{K}managed": "true",
        f"{K}queue-name": "a",
        f"{K}priority-class": "high",
    }
    assert spec["template"]["metadata"]["annotations"] == {f"{K}pod-suspending-parent": "deployment"}


def test_an_elastic_job_gates_its_pods() -> None:
    spec = filled(made("Job", {"template": template()}, queue="a", elastic_job="true"))["spec"]
    assert spec["template"]["spec"]["schedulingGates"] == [{"name": f"{K}elastic-job"}]


def test_jobs_of_multikueue_queues_are_run_elsewhere() -> None:
    queue = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": "cq"},
        "spec": {"admissionChecksStrategy": {"admissionChecks": [{"name": "remote"}]}},
    }
    check = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "AdmissionCheck",
        "metadata": {"name": "remote"},
        "spec": {"controllerName": f"{K}multikueue"},
    }
    job = filled(made("Job", queue="default"), DEFAULT_QUEUE, queue, check)
    assert job["spec"]["managedBy"] == f"{K}multikueue"


def test_integrations_that_are_off_say_nothing() -> None:
    job = made("Job", queue="Team_A")
    off = Settings(frameworks=("pod",))
    assert refused(job, settings=off) == []
    assert defaulted(CREATE, job, store(), off) is job
    assert defaulted(CREATE, job, store(), None) is job


def test_a_queue_may_not_be_dropped_beside_a_default_queue() -> None:
    old, new = made("Job", {"suspend": True}, queue="a"), made("Job", {"suspend": True})
    why = "queue-name must not be empty in namespace with default queue"
    want = denied("job", f'{QUEUE_PATH}: Invalid value: "": {why}')
    assert refused(new, old, store(DEFAULT_QUEUE)) == [want]


GATE = {"spec": {"schedulingGates": [{"name": "kueue.x-k8s.io/elastic-job"}]}}


def test_elastic_clusters_of_ray_have_their_gates_and_scale_here() -> None:
    on = replace(
        ALL, gates={"ElasticJobsViaWorkloadSlices": True}, frameworks=(*ALL.frameworks, "ray.io/rayservice")
    )

    def cluster(head: Obj, *workers: Obj, **more: Any) -> Obj:
        groups = [{"groupName": f"g{i}", "template": t} for i, t in enumerate(workers)]
        return {"headGroupSpec": {"template": head}, "workerGroupSpecs": groups, **more}

    def said_of(spec: Obj, settings: Settings = on, **notes: str) -> list[str]:
        return refused(made("RayCluster", spec, queue="q", **notes), settings=settings)

    scaling = cluster(GATE, GATE, enableInTreeAutoscaling=True)
    assert said_of(scaling, elastic_job="true") == []
    assert said_of({**scaling, "managedBy": "ray.io/kuberay-operator"}, elastic_job="true") == []
    [elsewhere] = said_of({**scaling, "managedBy": "kueue.x-k8s.io/multikueue"}, elastic_job="true")
    assert "in-tree autoscaling is not supported for a MultiKueue-managed elastic RayCluster" in elsewhere
    assert said_of({**cluster(GATE), "managedBy": "kueue.x-k8s.io/multikueue"}, elastic_job="true") == []
    assert (
        said_of(cluster({"spec": {}}, {"spec": {"schedulingGates": [{"name": "x"}]}}), elastic_job="true")
        == []
    ), "what lacks the gate gets it"
    # Nothing is filled in at an update.
    old = made("RayCluster", {**cluster(GATE, GATE, GATE), "suspend": True}, queue="q", elastic_job="true")
    spec = {**cluster({"spec": {}}, GATE, {"spec": {"schedulingGates": [{"name": "x"}]}}), "suspend": True}
    [ungated] = refused({**old, "spec": spec}, old, settings=on)
    why = "an elastic job must have the ElasticJobSchedulingGate"
    for at, value in (("workerGroupSpecs[1]", '[{"name":"x"}]'), ("headGroupSpec", "null")):
        assert f"spec.{at}.template.spec.schedulingGates: Invalid value: {value}: {why}" in ungated
    assert "workerGroupSpecs[0]" not in ungated
    off = replace(on, gates={"ElasticJobsViaWorkloadSlices": False})
    assert len(said_of(scaling, off, elastic_job="true")) == 1, "without the gate no job is elastic"

    why = "a kueue managed job should only use autoscaling when workload slicing is enabled"
    for kind, more in (("RayJob", {"shutdownAfterJobFinishes": True}), ("RayService", {})):
        obj = made(
            kind,
            {"rayClusterSpec": {**scaling, "workerGroupSpecs": [{"groupName": "head"}]}, **more},
            queue="q",
        )
        [message] = refused(obj, settings=on)
        assert f"spec.rayClusterSpec.enableInTreeAutoscaling: Invalid value: true: {why}" in message
        assert "spec.rayClusterSpec.workerGroupSpecs[0].groupName: Forbidden" in message
        elastic = made(kind, {"rayClusterSpec": scaling, **more}, queue="q", elastic_job="true")
        assert not any(why in message for message in refused(elastic, settings=on))
    chosen = made("RayJob", {"clusterSelector": {"a": "b"}}, queue="q")
    assert refused(chosen) == []
