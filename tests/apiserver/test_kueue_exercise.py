"""The hands-on exercise of the field, with kubectl alone: a queue with four GPUs, a job that makes room for itself.

Four low-priority jobs fill the queue; a high-priority job from another namespace preempts one of them, which goes
back to the queue and runs later.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from apiserver_serving import served
from test_kubectl import kubectl

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "gpu"},
    "status": {
        "capacity": {"cpu": "32", "memory": "64Gi", "pods": "20", "nvidia.com/gpu": "8"},
        "allocatable": {"cpu": "32", "memory": "64Gi", "pods": "20", "nvidia.com/gpu": "8"},
    },
}
QUEUES = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: default}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: gpus}
spec:
  namespaceSelector: {}
  preemption: {withinClusterQueue: LowerPriority}
  resourceGroups:
  - coveredResources: [nvidia.com/gpu]
    flavors: [{name: default, resources: [{name: nvidia.com/gpu, nominalQuota: 4}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: lq, namespace: research}
spec: {clusterQueue: gpus}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: lq, namespace: serving}
spec: {clusterQueue: gpus}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: low}
value: 10
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 1000
"""
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: %s, namespace: %s, labels: {kueue.x-k8s.io/queue-name: lq}}
spec:
  template:
    spec:
      restartPolicy: Never
      priorityClassName: %s
      containers: [{name: c, image: "cuda:1", command: [sleep, "600"], resources: {limits: {nvidia.com/gpu: 1}}}]
"""


def test_the_urgent_job_preempts_one_which_runs_later(tmp_path: Path) -> None:
    with served(tmp_path, paused=True) as api:
        api.until_ready()
        api.ask("POST", "/api/v1/nodes", NODE)

        def later(seconds: int) -> None:
            api.ask("POST", "/fairway/clock", {"advanceUs": seconds * 1_000_000})

        def suspended(namespace: str) -> list[str]:
            code, said = kubectl(tmp_path, f"get jobs -n {namespace} -o jsonpath={{.items[*].spec.suspend}}")
            assert code == 0
            return said.split()

        for namespace in ("research", "serving"):
            assert kubectl(tmp_path, f"create namespace {namespace}")[0] == 0
        assert kubectl(tmp_path, "apply -f -", QUEUES)[0] == 0
        later(2)
        for i in range(4):
            assert kubectl(tmp_path, "create -f -", JOB % (f"low-{i}", "research", "low"))[0] == 0
            later(1)
        later(10)
        assert suspended("research") == ["false"] * 4
        assert kubectl(tmp_path, "create -f -", JOB % ("urgent", "serving", "high"))[0] == 0
        later(60)
        assert suspended("serving") == ["false"]
        assert sorted(suspended("research")) == ["false", "false", "false", "true"]
        code, said = kubectl(tmp_path, "get events -n research --field-selector reason=Preempted -o name")
        assert code == 0 and said.count("event/") == 1
        code, table = kubectl(tmp_path, "get clusterqueue gpus")
        assert code == 0 and "PENDING WORKLOADS" in table
        later(3600)
        for namespace in ("research", "serving"):
            answer = kubectl(
                tmp_path, f"wait --for=condition=Complete job --all -n {namespace} --timeout=10s"
            )
            assert answer[0] == 0, answer
        refused = QUEUES.replace("LowerPriority", "Sometimes")
        code, said = kubectl(tmp_path, "apply -f -", refused)
        assert code == 1 and 'Unsupported value: "Sometimes"' in said
