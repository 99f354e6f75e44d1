"""InferenceServices: what they run as in both modes, what is told of them, and how their models get there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from fairway.kube.conditions import get_condition, is_condition_true
from fairway.kube.objects import Key, Obj
from fairway.scenario.loading import load_scenario
from fairway.scenario.running import run_scenario
from fairway.workloads.kserve.decide import ISVC
from fairway.workloads.kserve.podspecs import merged
from fairway.workloads.kserve.runtimes import shipped
from fairway.workloads.kserve.status import KNATIVE_SERVICE

SCENARIO = """\
apiVersion: fairway.dev/v1alpha1
kind: Scenario
metadata: {name: served}
spec:
  seed: 3
  duration: 20m
  nodes: [{name: "gpu-{i}", count: 2, gpuModel: NVIDIA-L40S, capacity: {cpu: 64, memory: 512Gi, nvidia.com/gpu: 4}}]
  manifests: [objects.yaml]
"""
# What the guide has, line 1237 of its second part.
GUIDE = """\
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata:
  name: llama2-inference
  namespace: default
  annotations: {serving.kserve.io/deploymentMode: RawDeployment, fairway.dev/run-time.storage-initializer: 3m}
spec:
  predictor:
    model:
      modelFormat: {name: pytorch}
      storageUri: s3://models/llama2-v1.5
      resources: {limits: {nvidia.com/gpu: 1, cpu: 4, memory: 16Gi}}
"""


class World:
    """The objects at the end of a scenario."""

    def __init__(self, folder: Path, *objects: Obj, **changes: str) -> None:
        text = SCENARIO
        for old, new in changes.items():
            text = text.replace(old, new)
        (folder / "scenario.yaml").write_text(text, encoding="utf-8")
        (folder / "objects.yaml").write_text(yaml.safe_dump_all(objects), encoding="utf-8")
        twin = run_scenario(load_scenario(folder)).twin
        self.store, self.told = twin.store, twin.host.events.told()

    def get(self, gk: str, name: str) -> Obj:
        found = self.store.get(Key(gk, "default", name))
        assert found is not None, f"no {gk} {name}"
        return found

    def status(self) -> dict[str, Any]:
        return dict(self.get(ISVC, "llama2-inference")["status"])


def guide(**predictor: Any) -> Obj:
    found: Obj = yaml.safe_load(GUIDE)
    found["spec"]["predictor"].update(predictor)
    return found


def test_the_guides_model_is_fetched_served_and_reached(tmp_path: Path) -> None:
    world = World(tmp_path, guide())
    status = world.status()
    assert is_condition_true(status["conditions"], "Ready")
    assert status["clusterServingRuntimeName"] == "kserve-torchserve"
    assert status["url"] == "http://llama2-inference-default.example.com"
    assert status["address"]["url"] == "http://llama2-inference-predictor.default.svc.cluster.local"
    assert status["modelStatus"]["states"] == {"activeModelState": "Loaded", "targetModelState": "Loaded"}
    (container,) = world.get("Deployment.apps", "llama2-inference-predictor")["spec"]["template"]["spec"][
        "containers"
    ]
    assert container["image"] == "pytorch/torchserve-kfs:0.9.0-gpu"
    assert container["resources"]["limits"]["memory"] == "16Gi"
    assert container["resources"]["requests"]["memory"] == "2Gi"
    assert {"name": "TS_SERVICE_ENVELOPE", "value": "kserve"} in container["env"]
    (pod,) = world.store.objects("Pod")
    (fetching,) = pod["spec"]["initContainers"]
    assert fetching["args"] == ["s3://models/llama2-v1.5", "/mnt/models"]
    assert any(m["mountPath"] == "/mnt/models" for m in pod["spec"]["containers"][0]["volumeMounts"])
    ingress = world.get("Ingress.networking.k8s.io", "llama2-inference")
    assert ingress["spec"]["rules"][0]["host"] == "llama2-inference-default.example.com"
    hpa = world.get("HorizontalPodAutoscaler.autoscaling", "llama2-inference-predictor")
    assert (hpa["spec"]["minReplicas"], hpa["spec"]["maxReplicas"]) == (1, 1)


def test_while_the_model_is_fetched_it_is_loading(tmp_path: Path) -> None:
    status = World(tmp_path, guide(), **{"duration: 20m": "duration: 2m"}).status()
    assert status["modelStatus"]["transitionStatus"] == "InProgress"
    assert not is_condition_true(status["conditions"], "Ready")


def test_a_format_that_nobody_serves_is_told_as_kserve_tells_it(tmp_path: Path) -> None:
    world = World(tmp_path, guide(model={"modelFormat": {"name": "caffe"}, "storageUri": "s3://m"}))
    model = world.status()["modelStatus"]
    assert model["transitionStatus"] == "InvalidSpec"
    assert model["lastFailureInfo"] == {
        "reason": "NoSupportingRuntime",
        "message": "No runtime found to support specified framework/version",
    }
    said = "no runtime found to support predictor with model type: {caffe <nil>}"
    assert said in [told.message for told in world.told if told.reason == "InternalError"]
    assert not world.store.objects("Deployment.apps")


def test_a_runtime_of_the_namespace_comes_before_the_clusters(tmp_path: Path) -> None:
    own = {
        "apiVersion": "serving.kserve.io/v1alpha1",
        "kind": "ServingRuntime",
        "metadata": {"name": "ours", "namespace": "default"},
        "spec": {
            "supportedModelFormats": [{"name": "pytorch", "autoSelect": True}],
            "containers": [{"name": "kserve-container", "image": "ours:1", "args": ["--name={{.Name}}"]}],
        },
    }
    world = World(tmp_path, own, guide())
    assert world.status()["servingRuntimeName"] == "ours"
    (container,) = world.get("Deployment.apps", "llama2-inference-predictor")["spec"]["template"]["spec"][
        "containers"
    ]
    assert (container["image"], container["args"]) == ("ours:1", ["--name=llama2-inference"])


def test_a_transformer_stands_before_the_predictor(tmp_path: Path) -> None:
    service = guide()
    service["spec"]["transformer"] = {"containers": [{"image": "tokens:1", "name": "kserve-container"}]}
    world = World(tmp_path, service)
    (container,) = world.get("Deployment.apps", "llama2-inference-transformer")["spec"]["template"]["spec"][
        "containers"
    ]
    assert container["args"][2:4] == ["--predictor_host", "llama2-inference-predictor.default"]
    assert world.status()["address"]["url"].startswith("http://llama2-inference-transformer.")


def test_in_knative_mode_it_is_a_knative_service_with_a_canary(tmp_path: Path) -> None:
    service = guide(
        minReplicas=0, maxReplicas=3, scaleTarget=5, scaleMetric="concurrency", canaryTrafficPercent=20
    )
    service["metadata"]["annotations"] = {"serving.kserve.io/deploymentMode": "Serverless"}
    world = World(tmp_path, service)
    made = world.get(KNATIVE_SERVICE, "llama2-inference-predictor")
    scaling = made["spec"]["template"]["metadata"]["annotations"]
    assert scaling["autoscaling.knative.dev/min-scale"] == "0"
    assert scaling["autoscaling.knative.dev/max-scale"] == "3"
    assert scaling["autoscaling.knative.dev/target"] == "5"
    assert made["spec"]["traffic"][0]["latestRevision"] is True
    assert world.status()["deploymentMode"] == "Knative"


def test_what_is_changed_reaches_the_deployment_and_what_is_stopped_is_taken_away(tmp_path: Path) -> None:
    patch = "{at: 8m, patch: {target: inferenceservice/default/llama2-inference, patch: PATCH}}"
    image = "{spec: {predictor: {model: {runtimeVersion: 0.9.1}}}}"
    changed = {"manifests:": f"timeline: [{patch.replace('PATCH', image)}]\n  manifests:"}
    world = World(tmp_path, guide(), **changed)
    (container,) = world.get("Deployment.apps", "llama2-inference-predictor")["spec"]["template"]["spec"][
        "containers"
    ]
    assert container["image"] == "pytorch/torchserve-kfs:0.9.1"
    stop = "{metadata: {annotations: {serving.kserve.io/stop: 'true'}}}"
    stopped = World(
        tmp_path, guide(), **{"manifests:": f"timeline: [{patch.replace('PATCH', stop)}]\n  manifests:"}
    )
    assert not stopped.store.objects("Deployment.apps") and not stopped.store.objects("Pod")
    assert get_condition(stopped.status()["conditions"], "Stopped")["status"] == "True"  # type: ignore[index]


def test_containers_merge_as_strategic_patches_do() -> None:
    base = {"args": ["a"], "env": [{"name": "X", "value": "1"}], "resources": {"limits": {"cpu": "1"}}}
    over = {
        "args": ["b"],
        "env": [{"name": "X", "value": "2"}, {"name": "Y"}],
        "resources": {"limits": {"gpu": 1}},
    }
    assert merged(base, over) == {
        "args": ["a", "b"],
        "env": [{"name": "X", "value": "2"}, {"name": "Y"}],
        "resources": {"limits": {"cpu": "1", "gpu": 1}},
    }


@pytest.mark.parametrize("name", ["kserve-huggingfaceserver", "kserve-vllmserver", "kserve-tritonserver"])
def test_the_installations_runtimes_are_there(name: str) -> None:
    assert name in {obj["metadata"]["name"] for obj in shipped()}
