"""Every action of a timeline does what kubectl would have done, at its time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import HOUR_US, MINUTE_US
from fairway.scenario.actionreading import ACTIONS
from fairway.scenario.building import build_twin
from fairway.scenario.component import ScenarioComponent
from fairway.scenario.loading import load_scenario
from fairway.scenario.model import Scenario
from fairway.scenario.running import Finished, run_scenario
from fairway.twin.twin import Twin

HEAD = """\
apiVersion: fairway.dev/v1alpha1
kind: Scenario
metadata: {name: actions}
spec:
  seed: 7
  latency: zero
  startTime: 2026-01-05T00:00:00Z
  duration: 3h
  nodes:
    - {name: "gpu-{i}", count: 2, capacity: {cpu: 8, memory: 32Gi, nvidia.com/gpu: 4}, labels: {pool: train}}
  manifests: [objects.yaml]
"""
OBJECTS = """\
apiVersion: v1
kind: Namespace
metadata: {name: team-a}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: "i:1", resources: {limits: {nvidia.com/gpu: 1}}}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  template:
    metadata: {annotations: {fairway.dev/run-time: 2h30m}}
    spec: {restartPolicy: OnFailure, containers: [{name: c, image: "i:1", resources: {limits: {nvidia.com/gpu: 1}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: solo, labels: {app: solo}}
spec: {nodeName: gpu-0, containers: [{name: c, image: "i:1"}]}
"""
DONE_US = HOUR_US + MINUTE_US


def scenario_with(timeline: str, tmp_path: Path, head: str = HEAD) -> Scenario:
    (tmp_path / "scenario.yaml").write_text(head + timeline, encoding="utf-8")
    (tmp_path / "objects.yaml").write_text(OBJECTS, encoding="utf-8")
    (tmp_path / "late.yaml").write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: late}\nspec: {containers: [{name: c, image: i}]}\n",
        encoding="utf-8",
    )
    return load_scenario(tmp_path)


def after(action: str, tmp_path: Path) -> Twin:
    """The twin an hour and a minute in; the action happened after an hour."""
    scenario = scenario_with(f"  timeline:\n    - at: 1h\n      {action}\n", tmp_path)
    twin = build_twin(scenario)
    twin.run_for(DONE_US)
    return twin


def get(twin: Twin, kind: str, name: str, namespace: str = "default") -> Obj:
    return twin.store.require(Key(kind, namespace if kind != "Node" else "", name))


def troubles(twin: Twin) -> list[str]:
    player = twin.component("scenario")
    assert isinstance(player, ScenarioComponent)
    return [t.message for t in player.troubles]


def running(twin: Twin, app: str) -> list[str]:
    return sorted(
        p["spec"]["nodeName"]
        for p in twin.store.objects("Pod")
        if (p["metadata"].get("labels") or {}).get("app") == app and p["status"].get("phase") == "Running"
    )


def test_apply_a_file_and_an_inline_object(tmp_path: Path) -> None:
    inline = "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: team-a}, data: {a: b}}"
    twin = after(f"apply: [late.yaml, {inline}]", tmp_path)
    assert get(twin, "Pod", "late")["status"]["phase"] == "Running"
    assert get(twin, "ConfigMap", "c", "team-a")["data"] == {"a": "b"}
    assert get(twin, "Pod", "late")["metadata"]["creationTimestamp"] == "2026-01-05T01:00:00Z"


@pytest.mark.parametrize(
    "target",
    [
        "pod/solo",
        "{target: pod/solo, gracePeriodSeconds: 0}",
        "{kind: Pod, namespace: default, selector: app=solo}",
    ],
)
def test_delete(target: str, tmp_path: Path) -> None:
    twin = after(f"delete: {target}", tmp_path)
    assert twin.store.get(Key("Pod", "default", "solo")) is None


def test_delete_a_job_takes_its_pods(tmp_path: Path) -> None:
    twin = after("delete: job/train", tmp_path)
    names = [p["metadata"]["name"] for p in twin.store.objects("Pod")]
    assert not [n for n in names if n.startswith("train")]


@pytest.mark.parametrize(
    "patch",
    [
        "{target: deployment/web, patch: {spec: {replicas: 3}}}",
        "{target: deployment/web, type: strategic, patch: {spec: {replicas: 3}}}",
        "{target: deployment/web, type: json, patch: [{op: replace, path: /spec/replicas, value: 3}]}",
    ],
)
def test_patch(patch: str, tmp_path: Path) -> None:
    assert len(running(after(f"patch: {patch}", tmp_path), "web")) == 3


def test_scale(tmp_path: Path) -> None:
    assert len(running(after("scale: {target: deployment/web, replicas: 4}", tmp_path), "web")) == 4
    assert running(after("scale: [{target: deploy/web, replicas: 0}]", tmp_path), "web") == []


def test_suspend_and_resume(tmp_path: Path) -> None:
    twin = after("suspend: job/train", tmp_path)
    assert get(twin, "Job.batch", "train")["spec"]["suspend"] is True
    assert not [p for p in twin.store.objects("Pod") if p["metadata"]["name"].startswith("train")]
    twin = after("suspend: job/train\n      resume: job/train", tmp_path)
    assert get(twin, "Job.batch", "train")["spec"]["suspend"] is False


def test_cordon_and_uncordon(tmp_path: Path) -> None:
    assert get(after("cordon: gpu-1", tmp_path), "Node", "gpu-1")["spec"]["unschedulable"] is True
    twin = after("cordon: {selector: pool=train, count: 1}", tmp_path)
    assert "unschedulable" in get(twin, "Node", "gpu-0")["spec"]
    assert "unschedulable" not in get(twin, "Node", "gpu-1")["spec"]
    twin = after("cordon: [gpu-0, gpu-1]\n      uncordon: gpu-1", tmp_path)
    assert "unschedulable" not in get(twin, "Node", "gpu-1")["spec"]


def test_drain_moves_what_can_move(tmp_path: Path) -> None:
    twin = after("drain: gpu-0", tmp_path)
    assert running(twin, "web") == ["gpu-1", "gpu-1"]
    assert twin.store.get(Key("Pod", "default", "solo")) is None


PDB = (
    "apply: {apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: b}, "
    "spec: {minAvailable: 2, selector: {matchLabels: {app: web}}}}"
)


def test_drain_respects_budgets_until_it_gives_up(tmp_path: Path) -> None:
    text = (
        f"  timeline:\n    - at: 10m\n      {PDB}\n"
        "    - at: 1h\n      drain: {nodes: [gpu-0, gpu-1], timeout: 30s}\n"
    )
    twin = build_twin(scenario_with(text, tmp_path))
    twin.run_for(DONE_US)
    assert len(running(twin, "web")) == 2
    assert any("drain gave up after 30s: 2 pods left" in t for t in troubles(twin))


def test_drain_may_delete_instead(tmp_path: Path) -> None:
    text = (
        f"  timeline:\n    - at: 10m\n      {PDB}\n"
        "    - at: 1h\n      drain: {nodes: [gpu-0, gpu-1], disableEviction: true}\n"
    )
    twin = build_twin(scenario_with(text, tmp_path))
    twin.run_for(DONE_US)
    assert running(twin, "web") == []


def test_fail_and_recover_a_node(tmp_path: Path) -> None:
    twin = after("failNode: gpu-0", tmp_path)
    ready = {c["type"]: c["status"] for c in get(twin, "Node", "gpu-0")["status"]["conditions"]}
    assert ready["Ready"] == "Unknown"
    twin = after("failNode: {nodes: gpu-0, recoverAfter: 10s}", tmp_path)
    ready = {c["type"]: c["status"] for c in get(twin, "Node", "gpu-0")["status"]["conditions"]}
    assert ready["Ready"] == "True"
    twin = after("failNode: gpu-0\n    - at: 1h5s\n      recoverNode: gpu-0", tmp_path)
    ready = {c["type"]: c["status"] for c in get(twin, "Node", "gpu-0")["status"]["conditions"]}
    assert ready["Ready"] == "True"


def test_break_a_gpu(tmp_path: Path) -> None:
    label = "label: {target: node/gpu-0, labels: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}}\n      "
    twin = after(f"{label}breakGPU: {{nodes: gpu-0, gpu: 3, cause: xid-79}}", tmp_path)
    assert get(twin, "Node", "gpu-0")["status"]["allocatable"]["nvidia.com/gpu"] == "3"


def test_add_and_remove_nodes(tmp_path: Path) -> None:
    twin = after('addNodes: {name: "more-{i:2}", count: 3, capacity: {cpu: 4, memory: 8Gi}}', tmp_path)
    assert get(twin, "Node", "more-02")["status"]["allocatable"]["cpu"] == "4"
    twin = after("removeNode: gpu-0", tmp_path)
    assert twin.store.get(Key("Node", "", "gpu-0")) is None


def test_set_a_quota_creates_and_changes_it(tmp_path: Path) -> None:
    twin = after("setQuota: {namespace: team-a, name: q, hard: {requests.nvidia.com/gpu: 4}}", tmp_path)
    assert get(twin, "ResourceQuota", "q", "team-a")["spec"]["hard"] == {"requests.nvidia.com/gpu": "4"}
    two = (
        "setQuota: {namespace: team-a, name: q, hard: {pods: 4}}\n"
        "    - at: 1h10s\n      setQuota: {namespace: team-a, name: q, hard: {pods: 2}}"
    )
    assert get(after(two, tmp_path), "ResourceQuota", "q", "team-a")["spec"]["hard"] == {"pods": "2"}


def test_taint_and_label(tmp_path: Path) -> None:
    twin = after('taint: {nodes: gpu-0, taints: ["a=b:NoSchedule", "c:PreferNoSchedule"]}', tmp_path)
    keys = [t["key"] for t in get(twin, "Node", "gpu-0")["spec"]["taints"]]
    assert keys == ["a", "c"]
    gone = 'taint: [{nodes: gpu-0, taints: "a=b:NoSchedule"}, {nodes: gpu-0, taints: "a-"}]'
    assert not get(after(gone, tmp_path), "Node", "gpu-0")["spec"].get("taints")
    twin = after("label: {target: node/gpu-0, labels: {pool: null, zone: b}}", tmp_path)
    labels = get(twin, "Node", "gpu-0")["metadata"]["labels"]
    assert labels["zone"] == "b" and "pool" not in labels


def test_evict_asks_once(tmp_path: Path) -> None:
    twin = after("evict: pod/solo", tmp_path)
    assert twin.store.get(Key("Pod", "default", "solo")) is None
    text = f"  timeline:\n    - at: 10m\n      {PDB}\n    - at: 1h\n      evict: {{selector: app=web}}\n"
    twin = build_twin(scenario_with(text, tmp_path))
    twin.run_for(DONE_US)
    assert len(running(twin, "web")) == 2 and len(troubles(twin)) == 2


def test_kill_pod(tmp_path: Path) -> None:
    twin = after("killPod: {selector: app=solo, exitCode: 3}", tmp_path)
    status = get(twin, "Pod", "solo")["status"]["containerStatuses"][0]
    assert status["restartCount"] == 1
    assert status["lastState"]["terminated"]["exitCode"] == 3


def test_a_comment_goes_on_record(tmp_path: Path) -> None:
    scenario = scenario_with("  timeline:\n    - {at: 1h, comment: lunch}\n", tmp_path)
    twin = build_twin(scenario, keep_records=1000)
    twin.run_for(DONE_US)
    assert [r.message for r in twin.host.log.records() if r.reason == "Comment"] == ["lunch"]


def test_repeating_and_absolute_times(tmp_path: Path) -> None:
    text = (
        "  timeline:\n    - {at: 10m, every: 10m, times: 3, killPod: pod/solo}\n"
        '    - {at: "2026-01-05T00:50:00Z", cordon: gpu-1}\n'
    )
    twin = build_twin(scenario_with(text, tmp_path))
    twin.run_for(DONE_US)
    assert get(twin, "Pod", "solo")["status"]["containerStatuses"][0]["restartCount"] == 3
    assert get(twin, "Node", "gpu-1")["spec"]["unschedulable"] is True


def test_what_cannot_be_done_is_noted_and_the_run_goes_on(tmp_path: Path) -> None:
    text = (
        "  timeline:\n    - {at: 1h, delete: pod/web-abcde}\n    - {at: 2h, cordon: {selector: pool=serve}}\n"
    )
    finished = run_scenario(scenario_with(text, tmp_path))
    assert [t.message for t in finished.status.troubles] == [
        "Pod/default/web-abcde is not there",
        "nothing matches Node pool=serve",
    ]


def test_every_action_has_a_test() -> None:
    here = Path(__file__).read_text(encoding="utf-8")
    assert [name for name in ACTIONS if f"{name}:" not in here] == []


def run(timeline: str, tmp_path: Path, **options: Any) -> Finished:
    return run_scenario(scenario_with(timeline, tmp_path), **options)


def test_a_fork_goes_on_as_its_original(tmp_path: Path) -> None:
    text = (
        "  timeline:\n    - {at: 1h, drain: {nodes: gpu-0}}\n    - {at: 90m, uncordon: gpu-0, scale: "
        "{target: deployment/web, replicas: 4}}\n    - {at: 2h, killPod: {selector: app=web, count: 2}}\n"
    )
    twin = build_twin(scenario_with(text, tmp_path, HEAD.replace("zero", "default")))
    twin.run_for(HOUR_US + 3_000_000)
    fork = twin.fork()
    twin.run_for(90 * MINUTE_US)
    fork.run_for(90 * MINUTE_US)
    assert fork.digest() == twin.digest()
