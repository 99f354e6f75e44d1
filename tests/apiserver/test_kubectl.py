"""The installed kubectl against a server: what people type first."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from apiserver_serving import served

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")

NODE = """
apiVersion: v1
kind: Node
metadata: {name: gpu, labels: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}}
status:
  capacity: {cpu: "8", memory: 64Gi, pods: "20", nvidia.com/gpu: "4"}
  allocatable: {cpu: "8", memory: 64Gi, pods: "20", nvidia.com/gpu: "4"}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: train}
spec:
  containers:
  - {name: c, image: "cuda:1", command: [sleep, infinity], resources: {limits: {nvidia.com/gpu: "2"}}}
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    data: Path = tmp_path_factory.mktemp("kubectl")
    with served(data) as api:
        api.until_ready()
        yield data


def kubectl(home: Path, command: str, stdin: str = "") -> tuple[int, str]:
    """Exit code and what it printed."""
    done = subprocess.run(
        [
            "kubectl",
            "--kubeconfig",
            str(home / "kubeconfig"),
            "--cache-dir",
            str(home / "cache"),
            *command.split(),
        ],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_a_gpu_pod_runs_logs_and_shows_its_gpus(home: Path) -> None:
    assert kubectl(home, "apply -f -", NODE) == (0, "node/gpu created\n")
    assert kubectl(home, "apply -f -", POD) == (0, "pod/train created\n")
    assert kubectl(home, "wait --for=condition=Ready pod/train --timeout=30s")[0] == 0
    assert kubectl(home, "logs train") == (0, "starting sleep infinity\n")
    code, table = kubectl(home, "exec train -- nvidia-smi")
    assert code == 0
    assert table.count("NVIDIA H100 80GB HBM3") == 2
    assert kubectl(home, "exec train -- false") == (1, "command terminated with exit code 1\n")
    assert kubectl(home, "apply -f -", POD) == (0, "pod/train unchanged\n")
    assert kubectl(home, "delete pod train --grace-period=1") == (0, 'pod "train" deleted\n')


def test_typed_commands_that_speak_protobuf(home: Path) -> None:
    assert kubectl(home, "create namespace team") == (0, "namespace/team created\n")
    assert kubectl(home, "create configmap c --from-literal=a=1 -n team") == (0, "configmap/c created\n")
    assert kubectl(home, "create deployment d --image=i:1 --replicas=0 -n team")[0] == 0
    assert kubectl(home, "get deployment d -n team -o jsonpath={.spec.replicas}") == (0, "0")
    assert kubectl(home, "scale deployment d --replicas=2 -n team") == (0, "deployment.apps/d scaled\n")
    assert kubectl(home, "auth can-i create pods") == (0, "yes\n")
    assert kubectl(home, "create quota q --hard=pods=1 -n team") == (0, "resourcequota/q created\n")
    assert kubectl(home, "create role r --verb=get --resource=pods -n team")[0] == 0
    assert kubectl(home, "delete namespace team --timeout=30s") == (0, 'namespace "team" deleted\n')


def test_definitions_are_served_explained_and_taken_away(home: Path) -> None:
    crd = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            x-kubernetes-validations: [{rule: "self.size < 10", message: too big}]
            properties: {size: {type: integer, minimum: 1}, color: {type: string, default: red}}
"""
    assert kubectl(home, "apply -f -", crd)[0] == 0
    widget = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\nspec: {size: %d}\n"
    assert kubectl(home, "apply -f -", widget % 3) == (0, "widget.example.com/a created\n")
    assert kubectl(home, "get widget a -o jsonpath={.spec.color}") == (0, "red")
    code, said = kubectl(home, "apply -f -", widget % 20)
    assert (code, said) == (1, 'The Widget "a" is invalid: spec: Invalid value: too big\n')
    code, said = kubectl(home, "explain widget.spec.size")
    assert code == 0 and "integer" in said
    assert kubectl(home, "delete crd widgets.example.com")[0] == 0
    assert kubectl(home, "get widgets")[0] == 1
