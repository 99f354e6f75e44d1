"""LLMInferenceServices: what they run as, which presets are put under them, what their conditions say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from fairway.kube.conditions import get_condition, is_condition_true
from fairway.kube.objects import Key, Obj
from fairway.scenario.loading import load_scenario
from fairway.scenario.running import run_scenario
from fairway.workloads.kserve.llm.decide import LLM
from fairway.workloads.kserve.llm.presets import merged
from fairway.workloads.kserve.llm.routing import picker_config

SCENARIO = """\
apiVersion: fairway.dev/v1alpha1
kind: Scenario
metadata: {name: served}
spec:
  seed: 3
  startTime: 2026-01-05T00:00:00Z
  duration: 15m
  nodes: [{name: "gpu-{i}", count: 3, gpuModel: NVIDIA-L40S, capacity: {cpu: 64, memory: 512Gi, nvidia.com/gpu: 4}}]
  manifests: [objects.yaml]
  EXTRA
"""
GATEWAY = """\
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: istio}
spec: {controllerName: istio.io/gateway-controller}
---
apiVersion: v1
kind: Namespace
metadata: {name: kserve}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: kserve-ingress-gateway, namespace: kserve}
spec: {gatewayClassName: istio, listeners: [{name: http, port: 80, protocol: HTTP}]}
"""
MAIN = {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}
FAST = {"fairway.dev/startup-time": "20s"}
LWS = "LeaderWorkerSet.leaderworkerset.x-k8s.io"


def llm(**spec: Any) -> Obj:
    model = {"uri": "hf://meta-llama/Llama-3.1-8B-Instruct", "name": "llama"}
    return {
        "apiVersion": "serving.kserve.io/v1alpha2",
        "kind": "LLMInferenceService",
        "metadata": {"name": "chat", "namespace": "default"},
        "spec": {"model": model, "replicas": 2, "annotations": FAST, "template": MAIN, **spec},
    }


class World:
    """The objects at the end of a scenario."""

    def __init__(self, folder: Path, *objects: Obj, gateway: str = GATEWAY, extra: str = "") -> None:
        (folder / "scenario.yaml").write_text(SCENARIO.replace("EXTRA", extra), encoding="utf-8")
        text = f"{gateway}---\n{yaml.safe_dump_all(objects)}" if gateway else yaml.safe_dump_all(objects)
        (folder / "objects.yaml").write_text(text, encoding="utf-8")
        finished = run_scenario(load_scenario(folder))
        self.store, self.told = finished.twin.store, finished.twin.host.events.told()
        self.services = finished.outcome.services

    def get(self, gk: str, name: str) -> Obj:
        found = self.store.get(Key(gk, "default", name))
        assert found is not None, f"no {gk} {name}"
        return found

    def said(self, type_: str) -> tuple[str, str, str]:
        found = get_condition(self.get(LLM, "chat")["status"]["conditions"], type_)
        return (
            ("", "", "")
            if found is None
            else (found["status"], found.get("reason", ""), found.get("message", ""))
        )

    def names(self, gk: str) -> list[str]:
        return [obj["metadata"]["name"] for obj in self.store.objects(gk, "default")]


def test_a_service_with_scheduler_and_route_becomes_ready_and_is_reached(tmp_path: Path) -> None:
    world = World(tmp_path, llm(router={"route": {}, "gateway": {}, "scheduler": {}}))
    status = world.get(LLM, "chat")["status"]
    assert is_condition_true(status["conditions"], "Ready")
    assert [ref["name"] for ref in status["appliedConfigs"]] == [
        "kserve-config-llm-scheduler",
        "kserve-config-llm-router-route",
        "kserve-config-llm-template",
    ]
    assert status["url"] == "http://kserve-ingress-gateway-istio.kserve.svc.cluster.local/default/chat"
    assert status["workloads"]["primary"]["readyReplicas"] == 2
    assert status["workloads"]["scheduler"]["name"] == "chat-kserve-router-scheduler"
    deployment = world.get("Deployment.apps", "chat-kserve")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "ghcr.io/llm-d/llm-d-cuda:v0.8.0"
    assert '--served-model-name "llama" "publishers/default/models/llama"' in container["command"][2]
    assert "{{" not in yaml.safe_dump(deployment)
    (fetching,) = deployment["spec"]["template"]["spec"]["initContainers"]
    assert fetching["args"] == ["hf://meta-llama/Llama-3.1-8B-Instruct", "/mnt/models"]
    assert deployment["spec"]["template"]["metadata"]["labels"]["llm-d.ai/role"] == "both"
    pool = world.get("InferencePool.inference.networking.k8s.io", "chat-inference-pool")
    assert pool["spec"]["selector"]["matchLabels"]["app.kubernetes.io/name"] == "chat"
    assert pool["spec"]["endpointPickerRef"]["name"] == "chat-epp-service"
    route = world.get("HTTPRoute.gateway.networking.k8s.io", "chat-kserve-route")
    assert route["spec"]["parentRefs"][0]["name"] == "kserve-ingress-gateway"
    kinds = {ref["kind"] for rule in route["spec"]["rules"] for ref in rule["backendRefs"]}
    assert kinds == {"InferencePool", "Service"}
    assert "LLMInferenceService [chat] is Ready" in [told.message for told in world.told]


def test_without_a_scheduler_the_route_leads_to_the_service(tmp_path: Path) -> None:
    world = World(tmp_path, llm(router={"route": {}}))
    route = world.get("HTTPRoute.gateway.networking.k8s.io", "chat-kserve-route")
    names = {ref["name"] for rule in route["spec"]["rules"] for ref in rule["backendRefs"]}
    assert names == {"chat-kserve-workload-svc"}
    assert world.names("InferencePool.inference.networking.k8s.io") == []
    assert world.said("InferencePoolReady") == ("", "", "")
    assert world.said("Ready")[0] == "True"


def test_prefill_and_decode_are_two_deployments_and_decode_has_a_sidecar(tmp_path: Path) -> None:
    prefill = {"replicas": 1, "template": MAIN, "annotations": FAST}
    world = World(tmp_path, llm(router={"route": {}, "scheduler": {}}, replicas=1, prefill=prefill))
    assert world.said("Ready")[0] == "True"
    assert world.said("PrefillWorkloadReady")[0] == "True"
    roles = {
        name: world.get("Deployment.apps", name)["spec"]["template"]["metadata"]["labels"]["llm-d.ai/role"]
        for name in ("chat-kserve", "chat-kserve-prefill")
    }
    assert roles == {"chat-kserve": "decode", "chat-kserve-prefill": "prefill"}
    pod = world.get("Deployment.apps", "chat-kserve")["spec"]["template"]["spec"]
    sidecar = next(c for c in pod["initContainers"] if c["name"] == "llm-d-routing-sidecar")
    assert {"name": "INFERENCE_POOL_NAME", "value": "chat-inference-pool"} in sidecar["env"]
    assert pod["serviceAccountName"] == "chat-kserve"


def test_workers_make_it_a_leader_worker_set(tmp_path: Path) -> None:
    parallel = {"data": 4, "dataLocal": 2, "expert": True, "tensor": 2}
    world = World(tmp_path, llm(replicas=1, worker=MAIN, parallelism=parallel))
    group = world.get(LWS, "chat-kserve-mn")["spec"]["leaderWorkerTemplate"]
    assert (group["size"], group["restartPolicy"]) == (2, "RecreateGroupOnPodRestart")
    said = group["leaderTemplate"]["spec"]["containers"][0]["command"][2]
    assert "--data-parallel-size 4" in said
    assert "--tensor-parallel-size 2" in said
    assert "--enable-expert-parallel" in said
    assert world.names("Deployment.apps") == []
    assert world.said("WorkerWorkloadReady")[0] == "True"
    assert world.said("MainWorkloadReady")[0] == ""
    assert world.get(LLM, "chat")["status"]["workloads"]["primary"]["kind"] == "LeaderWorkerSet"
    selector = world.get("Service", "chat-kserve-workload-svc")["spec"]["selector"]
    selected = [
        pod["metadata"]["name"]
        for pod in world.store.objects("Pod", "default")
        if all(pod["metadata"]["labels"].get(k) == v for k, v in selector.items())
    ]
    assert selected == ["chat-kserve-mn-0"]
    pods = [group[which]["spec"] for which in ("leaderTemplate", "workerTemplate")]
    assert [pod["serviceAccountName"] for pod in pods] == ["chat-kserve-mn", "chat-kserve-mn"]
    assert "chat-kserve-mn" in world.names("ServiceAccount")


@pytest.mark.parametrize(("leader", "worker", "used"), [("", "b", "b"), ("a", "", "a"), ("a", "b", "a")])
def test_one_account_serves_a_whole_group(tmp_path: Path, leader: str, worker: str, used: str) -> None:
    """As kserve's `expectedMultiNodeMainServiceAccount`: the leader's comes first, and none is made beside it."""
    given = {
        "template": {**MAIN, "serviceAccountName": leader},
        "worker": {**MAIN, "serviceAccountName": worker},
    }
    world = World(tmp_path, llm(replicas=1, parallelism={"data": 4, "dataLocal": 2}, **given))
    group = world.get(LWS, "chat-kserve-mn")["spec"]["leaderWorkerTemplate"]
    pods = [group[which]["spec"] for which in ("leaderTemplate", "workerTemplate")]
    assert [pod["serviceAccountName"] for pod in pods] == [used, used]
    assert "chat-kserve-mn" not in world.names("ServiceAccount")


def test_a_missing_gateway_is_told_as_kserve_tells_it(tmp_path: Path) -> None:
    world = World(tmp_path, llm(router={"route": {}, "scheduler": {}}), gateway="")
    wanted = "Managed HTTPRoute references non-existent Gateway kserve/kserve-ingress-gateway"
    assert world.said("HTTPRoutesReady") == ("False", "RefsInvalid", wanted)
    assert world.said("Ready") == ("False", "RefsInvalid", wanted)
    assert world.said("MainWorkloadReady")[0] == "True"
    said = f"Reconciliation failed: failed to reconcile networking: {wanted}"
    assert said in [told.message for told in world.told if told.reason == "Error"]


def test_a_preset_that_was_never_shipped_is_told_of_and_nothing_is_made(tmp_path: Path) -> None:
    world = World(tmp_path, llm(worker=MAIN, parallelism={"pipeline": 2}))
    status, reason, message = world.said("PresetsCombined")
    assert (status, reason) == ("False", "ConfigNotFound")
    assert message == (
        'LLMInferenceServiceConfig "kserve-config-llm-worker-pipeline-parallel" not found in namespaces '
        "[default kserve]"
    )
    assert world.said("Ready")[0] == "Unknown"
    assert world.names("Deployment.apps") == world.names(LWS) == []


def test_weights_from_nowhere_known(tmp_path: Path) -> None:
    world = World(tmp_path, llm(model={"uri": "ftp://somewhere/model"}))
    status, reason, message = world.said("MainWorkloadReady")
    assert (status, reason) == ("False", "ReconcileSingleNodeWorkloadError")
    assert message.endswith("unsupported schema in model URI: ftp://somewhere/model")


def test_a_config_of_the_namespace_is_put_over_the_presets_and_filled_in(tmp_path: Path) -> None:
    env = [
        {
            "name": "VLLM_ADDITIONAL_ARGS",
            "value": "--seed {{ .Name }} {{ if .Spec.Replicas }}{{ .Spec.Replicas }}{{ end }}",
        }
    ]
    config = {
        "apiVersion": "serving.kserve.io/v1alpha2",
        "kind": "LLMInferenceServiceConfig",
        "metadata": {"name": "ours", "namespace": "default"},
        "spec": {"template": {"containers": [{"name": "main", "image": "ours:1", "env": env}]}},
    }
    world = World(tmp_path, config, llm(baseRefs=[{"name": "ours"}]))
    (container,) = world.get("Deployment.apps", "chat-kserve")["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "ours:1"
    assert {e["name"]: e.get("value") for e in container["env"]} == {
        "HOME": "/home",
        "VLLM_LOGGING_LEVEL": "INFO",
        "HF_HUB_CACHE": "/models",
        "VLLM_ADDITIONAL_ARGS": "--seed chat 2",
    }
    assert world.get(LLM, "chat")["status"]["appliedConfigs"][-1] == {
        "name": "ours",
        "namespace": "default",
        "source": "UserRef",
    }


STOPPED = (
    "timeline: [{at: 5m, patch: {target: llminferenceservice/chat, patch: "
    "{metadata: {annotations: {serving.kserve.io/stop: 'true'}}}}}]"
)


def test_stopped_everything_goes_and_the_conditions_say_so(tmp_path: Path) -> None:
    world = World(tmp_path, llm(router={"route": {}, "scheduler": {}}), extra=STOPPED)
    assert world.said("Ready") == ("False", "Stopped", "Service is stopped")
    for gk in (
        "Deployment.apps",
        "HTTPRoute.gateway.networking.k8s.io",
        "InferencePool.inference.networking.k8s.io",
    ):
        assert world.names(gk) == []
    assert "workloads" not in world.get(LLM, "chat")["status"]


SERVED = """serving:
    - route: chat-kserve-route
      model: llama-3.1-8b
      gpu: L40S
      traffic: {rate: {0s: 0, 5m: 0, 5m1s: 3, 12m: 3}, prompt: 300, output: 100}
      gateway: {policy: LeastKVCache}"""


@pytest.mark.parametrize("prefill", [None, {"replicas": 1, "template": MAIN, "annotations": FAST}])
def test_requests_by_its_route_reach_the_pods_of_its_pool(tmp_path: Path, prefill: Obj | None) -> None:
    more = {} if prefill is None else {"prefill": prefill}
    world = World(tmp_path, llm(router={"route": {}, "scheduler": {}}, **more), extra=SERVED)
    (row,) = world.services
    assert row.requests > 1000
    assert (row.ok, row.lost) == (row.requests, 0)
    # Pods that only read prompts get no requests of their own.
    assert row.ready_most == 2


def test_merging_keeps_what_is_not_said_and_tells_items_by_their_key() -> None:
    base = {"containers": [{"name": "a", "args": ["1"], "env": [{"name": "X", "value": "1"}]}, {"name": "b"}]}
    over = {"containers": [{"name": "a", "args": ["2"], "env": [{"name": "Y", "value": "2"}]}, {"name": "c"}]}
    assert merged(base, over) == {
        "containers": [
            {"name": "a", "args": ["2"], "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}]},
            {"name": "b"},
            {"name": "c"},
        ]
    }
    assert merged(base, {}) == base


def test_the_picker_scores_with_adapters_where_there_are_any() -> None:
    plain = picker_config({"model": {}})
    assert plain["plugins"][0]["type"] == "single-profile-handler"
    lora = picker_config({"model": {"lora": {"adapters": [{"name": "x"}]}}, "prefill": {}})
    assert [profile["name"] for profile in lora["schedulingProfiles"]] == ["prefill", "decode"]
    for profile in lora["schedulingProfiles"]:
        assert {"pluginRef": "lora-affinity-scorer", "weight": 4} in profile["plugins"]
