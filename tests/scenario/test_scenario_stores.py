"""`stores` of a scenario: KServe's storage-initializer fetches from them, and what is wrong with one is located."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from fairway.errors import InvalidInput
from fairway.scenario.loading import load_scenario
from fairway.scenario.running import run_scenario

LLAMA = "s3://models/llama"
HUB: dict[str, Any] = {"name": "hub", "bandwidth": "2Gi", "models": {LLAMA: "16Gi"}}
SERVICE = """\
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata:
  name: llama
  annotations: {serving.kserve.io/deploymentMode: RawDeployment, serving.kserve.io/autoscalerClass: none}
spec:
  predictor:
    minReplicas: 8
    model:
      modelFormat: {name: huggingface}
      storageUri: s3://models/llama
      resources: {limits: {nvidia.com/gpu: 1}}
"""


def scenario(tmp_path: Path, stores: Any, pods: str = SERVICE, **more: Any) -> Path:
    (tmp_path / "pods.yaml").write_text(pods)
    document = {
        "apiVersion": "fairway.dev/v1alpha1",
        "kind": "Scenario",
        "metadata": {"name": "stampede"},
        "spec": {
            "duration": "30m",
            "latency": "zero",
            "nodes": [
                {"name": "n{i}", "count": 4, "capacity": {"cpu": 64, "memory": "512Gi", "nvidia.com/gpu": 2}}
            ],
            "manifests": ["pods.yaml"],
            "stores": stores,
            **more,
        },
    }
    path = tmp_path / "scenario.yaml"
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return path


@pytest.mark.parametrize(
    ("more", "seconds"), [({}, 64), ({"perReader": "128Mi"}, 128), ({"cache": "1Ti"}, 32)]
)
def test_an_inference_services_pods_fetch_at_once(tmp_path: Path, more: dict[str, str], seconds: int) -> None:
    """Eight pods on four nodes, 16 GiB each, 2 GiB/s in all; a cache fetches once for both pods of a node."""
    found = run_scenario(load_scenario(scenario(tmp_path, [{**HUB, **more}])))
    kubelet: Any = found.twin.host.parts["kubelet"]
    took = [
        (p.containers[1].started_us - p.containers[0].started_us) / 1_000_000 for p in kubelet.pods.values()
    ]
    assert took == [seconds] * 8


POD = """\
apiVersion: v1
kind: Pod
metadata: {name: p, annotations: {ANNOTATION}}
spec: {initContainers: [{name: load, image: i}], containers: [{name: c, image: i}]}
"""


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"bandwidth": None}, "stores[0].bandwidth: required"),
        ({"bandwidth": -1}, "stores[0].bandwidth: -1: expected bytes a second, such as 10Gi, above 0"),
        ({"bandwidth": "fast"}, 'stores[0].bandwidth: "fast": expected bytes a second'),
        ({"perReader": 0}, "stores[0].perReader: 0: expected bytes a second"),
        ({"cache": True}, "stores[0].cache: true: expected bytes, such as 16Gi"),
        ({"models": {LLAMA: 0}}, "expected bytes, such as 16Gi, above 0"),
        ({"models": {LLAMA: "2Ei"}}, "at most 1Ei"),
        ({"models": {LLAMA: None}}, "expected bytes, such as 16Gi"),
        ({"models": {}}, "stores[0].models"),
        ({"speed": 1}, "stores[0].speed: 1: unknown field"),
    ],
)
def test_a_wrong_store_is_located(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput) as wrong:
        load_scenario(scenario(tmp_path, [{**HUB, **change}]))
    assert words in str(wrong.value) and "scenario.yaml:" in str(wrong.value)


def test_two_stores_have_no_name_and_no_model_in_common(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as wrong:
        load_scenario(scenario(tmp_path, [HUB, HUB]))
    assert "a store of this name is there already" in str(wrong.value)
    assert "the store hub has a model of this name" in str(wrong.value)


@pytest.mark.parametrize(
    ("annotation", "stores", "words"),
    [
        (
            "fairway.dev/weights.load: s3://models/lama",
            [HUB],
            "no store has this model; did you mean s3://models/llama",
        ),
        ("fairway.dev/weights.load: gpt", None, "no store has this model; name it under stores[].models"),
        (
            "fairway.dev/weights: s3://models/llama",
            [HUB],
            "expected fairway.dev/weights.<init container>: <model>",
        ),
    ],
)
def test_a_model_no_store_has_is_located(tmp_path: Path, annotation: str, stores: Any, words: str) -> None:
    pods = POD.replace("{ANNOTATION}", "{" + f"'{annotation.replace(': ', chr(39) + ': ', 1)}" + "}")
    with pytest.raises(InvalidInput) as wrong:
        load_scenario(scenario(tmp_path, stores, pods))
    assert words in str(wrong.value) and "pods.yaml:3" in str(wrong.value)


def test_a_behaviour_that_names_an_unknown_model_is_located(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no store has this model"):
        load_scenario(scenario(tmp_path, [HUB], behaviours=[{"set": {"weights.load": "gpt"}}]))
