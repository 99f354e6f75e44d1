"""The GPU Operator's pods log what its programs log, once they do their work."""

from __future__ import annotations

from fairway.apiserver.kubelets.containerlogs import SimulatedLog
from fairway.cluster.store import Store
from fairway.kube.objects import key_of
from fairway.kube.timestamps import parse_rfc3339

BEGAN = "2026-01-05T00:00:00Z"


def lines(seconds: int) -> list[str]:
    store = Store(now_us=parse_rfc3339(BEGAN) + seconds * 1_000_000)
    running = {"name": "nvidia-driver-ctr", "state": {"running": {"startedAt": BEGAN}}}
    made = store.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "d",
                "namespace": "gpu-operator",
                "labels": {"app": "nvidia-driver-daemonset"},
            },
            "spec": {"nodeName": "n", "containers": [{"name": "nvidia-driver-ctr", "image": "i"}]},
        }
    )
    pod = store.set_status(key_of(made), {"containerStatuses": [running]})
    return [text for _, text in SimulatedLog(store, pod, "nvidia-driver-ctr", previous=False).read()]


def test_a_driver_says_when_it_is_done() -> None:
    assert lines(10) == ["Creating directory NVIDIA-Linux-x86_64"]
    assert lines(200)[-1] == "Done, now waiting for signal"
