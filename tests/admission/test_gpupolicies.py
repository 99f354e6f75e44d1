"""The GPU policy set: what it asks, of whom, and that it runs as it is printed."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from admissionrequests import World, namespace, request

from fairway.admission import gpupolicies
from fairway.admission.cel.compiling import Program
from fairway.admission.policies.validating import compile_policy
from fairway.admission.request import UPDATE, Admitted, Denied
from fairway.kube.manifest import read_text
from fairway.kube.objects import Obj, name_of

LABELS = {"team": "research", "cost-center": "cc-1", "environment": "dev"}
GPU = {"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}


def good(**changes: Any) -> Obj:
    spec: dict[str, Any] = {
        "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-A100"},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "containers": [{"name": "train", "image": "i", "resources": copy.deepcopy(GPU)}],
        **changes,
    }
    meta = {"name": "p", "namespace": "ml", "labels": dict(LABELS)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def labelled(pod: Obj, **labels: str | None) -> Obj:
    kept = {
        k.replace("_", "-"): v for k, v in {**pod["metadata"]["labels"], **labels}.items() if v is not None
    }
    return {**pod, "metadata": {**pod["metadata"], "labels": kept}}


def in_namespace(pod: Obj, home: str) -> Obj:
    return {**pod, "metadata": {**pod["metadata"], "namespace": home}}


def asking(**resources: dict[str, str]) -> Obj:
    return good(containers=[{"name": "train", "image": "i", "resources": resources}])


def pinned_by(*terms: list[dict[str, Any]]) -> Obj:
    selectors = [{"matchExpressions": expressions} for expressions in terms]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": selectors}}
    return good(nodeSelector={}, affinity={"nodeAffinity": required})


def world(mode: str = gpupolicies.ENFORCE) -> World:
    here = World(
        namespace("ml", {"fairway.dev/gpu-access": "allowed"}), namespace("web"), namespace("gpu-operator")
    )
    return here.add(*(m.obj for m in gpupolicies.manifests(mode)))


EQUAL = "GPU requests must equal limits: set both to the same number, or limits alone, in container(s) train"
PIN = "GPU pods must pin themselves to GPU nodes"
TOLERATE = "GPU pods must tolerate the GPU taint"
ON_GPU = {"key": "nvidia.com/gpu.present", "operator": "In", "values": ["true"]}
ELSEWHERE = {"key": "zone", "operator": "In", "values": ["a"]}
NOT_GPU = {"key": "nvidia.com/gpu.present", "operator": "DoesNotExist"}
CPU_ONLY = {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}

# name → (pod, what it is refused for)
CASES: dict[str, tuple[Obj, str]] = {
    "a good pod": (good(), ""),
    "limits alone": (asking(limits={"nvidia.com/gpu": "1"}), ""),
    "the same amount said twice": (
        asking(requests={"nvidia.com/gpu": "1"}, limits={"nvidia.com/gpu": "1k"}),
        EQUAL,
    ),
    "requests below limits": (
        asking(requests={"nvidia.com/gpu": "1"}, limits={"nvidia.com/gpu": "2"}),
        EQUAL,
    ),
    "requests alone": (asking(requests={"nvidia.com/gpu": "1"}), EQUAL),
    "CPU may differ": (
        asking(requests={"cpu": "1", "nvidia.com/gpu": "1"}, limits={"cpu": "2", "nvidia.com/gpu": "1"}),
        "",
    ),
    "a MIG slice counts": (
        asking(requests={"nvidia.com/mig-1g.10gb": "1"}, limits={"nvidia.com/mig-1g.10gb": "2"}),
        EQUAL,
    ),
    "no toleration": (good(tolerations=[]), TOLERATE),
    "a toleration of something else": (good(tolerations=[{"key": "spot", "operator": "Exists"}]), TOLERATE),
    "a toleration of everything": (good(tolerations=[{"operator": "Exists"}]), ""),
    "a toleration of another effect": (
        good(tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoExecute"}]),
        TOLERATE,
    ),
    "nowhere pinned": (good(nodeSelector={}), PIN),
    "pinned to something else": (good(nodeSelector={"zone": "a"}), PIN),
    "pinned by affinity": (pinned_by([ON_GPU, ELSEWHERE]), ""),
    "pinned by every alternative": (pinned_by([ON_GPU], [ON_GPU]), ""),
    "one alternative leads elsewhere": (pinned_by([ON_GPU], [ELSEWHERE]), PIN),
    "kept away from GPUs": (pinned_by([NOT_GPU]), PIN),
    "a namespace that may not": (
        in_namespace(good(), "web"),
        "namespace web may not ask for GPUs: it needs the label fairway.dev/gpu-access=allowed",
    ),
    "nobody's": (
        labelled(good(), team=None, cost_center=None, environment=None, **{"cost-center": None}),
        "GPU workloads must say who owns them: missing label(s) team, cost-center, environment",
    ),
    "an empty label": (labelled(good(), team=""), "missing label(s) team"),
    "a pod without GPUs is left alone": (
        {**in_namespace(good(), "web"), "spec": {"containers": [{"name": "c", "resources": CPU_ONLY}]}},
        "",
    ),
    "a pod without resources is left alone": (
        {**in_namespace(good(), "web"), "spec": {"containers": [{"name": "c"}]}},
        "",
    ),
    "a system namespace is exempt": (in_namespace(good(tolerations=[], nodeSelector={}), "gpu-operator"), ""),
    "GPUs of an init container count": (
        good(containers=[{"name": "c"}], initContainers=[{"name": "i", "resources": GPU}], tolerations=[]),
        TOLERATE,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_the_policies_ask(name: str) -> None:
    pod, want = CASES[name]
    outcome = world().validate(request(pod))
    if not want:
        assert isinstance(outcome, Admitted), outcome
    else:
        assert isinstance(outcome, Denied)
        assert want in outcome.message


def workload(kind: str) -> Obj:
    template = {"metadata": {"labels": {}}, "spec": good()["spec"]}
    group = "apps/v1" if kind in ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet") else "batch/v1"
    spec: dict[str, Any] = {"template": template}
    if kind == "CronJob":
        spec = {"jobTemplate": {"spec": {"template": template}}}
    return {"apiVersion": group, "kind": kind, "metadata": {"name": "w", "namespace": "ml"}, "spec": spec}


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob"])
def test_templates_are_looked_at(kind: str) -> None:
    outcome = world().validate(request(workload(kind)))
    assert isinstance(outcome, Denied)
    want = "missing label(s) team, cost-center, environment on the pod template"
    assert outcome.message.endswith(want)


def test_warnings_come_first() -> None:
    outcome = world(gpupolicies.WARN).validate(request(good(tolerations=[])))
    assert isinstance(outcome, Admitted)
    said = "Validation failed for ValidatingAdmissionPolicy 'fairway-gpu-placement' with binding "
    assert outcome.warnings[0].startswith(f"{said}'fairway-gpu-placement': {TOLERATE}")


def test_enforcing_replaces_warning() -> None:
    modes = [sorted(name_of(m.obj) for m in gpupolicies.manifests(mode)) for mode in gpupolicies.MODES]
    assert modes[0] == modes[1]


def test_what_is_being_deleted_can_lose_its_finalizers() -> None:
    old = workload("Deployment")
    meta = {**old["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
    outcome = world().validate(request({**old, "metadata": meta}, UPDATE, old))
    assert isinstance(outcome, Admitted)


@pytest.mark.parametrize("file", gpupolicies.policy_texts())
def test_every_expression_compiles(file: str) -> None:
    policy = compile_policy(read_text(gpupolicies.policy_texts()[file], file)[0].obj, [])
    programs = [
        *policy.conditions,
        *(v.program for v in policy.composition.variables),
        *(v.program for v in policy.validations),
        *(v.message_program for v in policy.validations if v.message_program is not None),
        *(program for _, program in policy.annotations),
    ]
    assert programs
    assert [p for p in programs if not isinstance(p, Program)] == []
