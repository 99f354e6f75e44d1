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


def mig_manager(*events: tuple[int, str, str]) -> list[str]:
    """A minute's log of MIG Manager, of whose pod these events tell: second, type, message."""
    store = Store(now_us=parse_rfc3339(BEGAN) + 60 * 1_000_000)
    name = "nvidia-mig-manager"
    made = store.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "m", "namespace": "gpu-operator", "labels": {"app": name}},
            "spec": {"nodeName": "n", "containers": [{"name": name, "image": "i"}]},
        }
    )
    for number, (second, kind, message) in enumerate(events):
        when = f"2026-01-05T00:00:{second:02d}Z"
        store.create(
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": f"e{number}", "namespace": "gpu-operator"},
                "involvedObject": {"uid": made["metadata"]["uid"]},
                "type": kind,
                "message": message,
                "firstTimestamp": when,
                "lastTimestamp": when,
                "reportingComponent": "gpu-operator",
            }
        )
    running = {"name": name, "state": {"running": {"startedAt": BEGAN}}}
    pod = store.set_status(key_of(made), {"containerStatuses": [running]})
    return [text for _, text in SimulatedLog(store, pod, name, previous=False).read()]


def test_mig_manager_says_what_became_of_a_configuration() -> None:
    """Its words are in its log, where its users look for them."""
    waits = "level=info msg=\"Waiting for change to 'nvidia.com/mig.config' label\""
    told = mig_manager(
        (20, "Warning", 'selected mig-config not present: "x"'),
        (40, "Normal", "Successfully updated to MIG config: all-1g.10gb"),
    )
    assert told[2:] == [
        'time="2026-01-05T00:00:20Z" level=error msg="Error: selected mig-config not present: \\"x\\""',
        f'time="2026-01-05T00:00:20Z" {waits}',
        'time="2026-01-05T00:00:40Z" level=info msg="Successfully updated to MIG config: all-1g.10gb"',
        f'time="2026-01-05T00:00:40Z" {waits}',
    ]
    assert told[1].endswith(waits)
