"""The GPU Operator's pods log what its programs log, once they do their work."""

from __future__ import annotations

from fairway.apiserver.kubelets.containerlogs import SimulatedLog
from fairway.cluster.store import Store
from fairway.kube.objects import Obj, key_of
from fairway.kube.timestamps import parse_rfc3339, rfc3339

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
    assert lines(10) == lines(149) == ["Creating directory NVIDIA-Linux-x86_64"]
    assert len(lines(150)) == 3
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


def events_of(name: str, *told: tuple[str, int, int, Obj]) -> list[tuple[int, str]]:
    """What a pod of that app logged from 00:01 to 00:02, of events: message, first and last second, the rest."""
    began = parse_rfc3339(BEGAN)
    store = Store(now_us=began + 120 * 1_000_000)
    made = store.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "m", "namespace": "gpu-operator", "labels": {"app": name}},
            "spec": {"nodeName": "n", "containers": [{"name": name, "image": "i"}]},
        }
    )
    for number, (message, first, last, more) in enumerate(told):
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"e{number}", "namespace": "gpu-operator"},
            "involvedObject": {"uid": made["metadata"]["uid"]},
            "type": "Normal",
            "message": message,
            "firstTimestamp": rfc3339(began + first * 1_000_000),
            "lastTimestamp": rfc3339(began + last * 1_000_000),
            "reportingComponent": "gpu-operator",
        }
        store.create({**event, **more})
    running = {"name": name, "state": {"running": {"startedAt": "2026-01-05T00:01:00Z"}}}
    pod = store.set_status(key_of(made), {"containerStatuses": [running]})
    found = SimulatedLog(store, pod, name, previous=False).read()
    return [((at - began) // 1_000_000, text) for at, text in found]


def test_events_of_its_own_run_are_told_the_first_and_the_last_of_each() -> None:
    found = events_of(
        "nvidia-operator-validator",
        ("before", 59, 59, {}),
        ("begins", 60, 90, {}),
        ("several", 70, 80, {}),
        ("now", 120, 120, {}),
        ("later", 121, 121, {}),
        ("another's", 70, 70, {"involvedObject": {"uid": "x"}}),
        ("of the kubelet", 70, 70, {"reportingComponent": "kubelet"}),
        ("bad", 75, 75, {"type": "Warning"}),
    )
    assert found == [
        (60, "all validations are successful"),
        (60, "begins"),
        (70, "several"),
        (75, "bad"),
        (80, "several"),
        (90, "begins"),
        (120, "now"),
    ]


def test_an_operands_container_is_known_by_its_pods_app() -> None:
    """The driver's name alone says nothing, nor does another operand's."""
    for app, is_one in (
        ("nvidia-driver-daemonset", True),
        ("nvidia-device-plugin-daemonset", False),
        ("web", False),
    ):
        store = Store(now_us=parse_rfc3339(BEGAN) + 10 * 1_000_000)
        meta = {"name": "d", "namespace": "gpu-operator", "labels": {"app": app}}
        spec = {"nodeName": "n", "containers": [{"name": "nvidia-driver-ctr", "image": "i"}]}
        made = store.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
        running = {"name": "nvidia-driver-ctr", "state": {"running": {"startedAt": BEGAN}}}
        pod = store.set_status(key_of(made), {"containerStatuses": [running]})
        (first, *_) = SimulatedLog(store, pod, "nvidia-driver-ctr", previous=False).read()
        assert (first[1] == "Creating directory NVIDIA-Linux-x86_64") is is_one
