"""Cards that break: what ends, what nobody gets, what is slower, and what is as before once they are mended."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.devices.breaking import cause_named, causes, fleets, rates_of
from fairway.errors import UserError
from fairway.kube.objects import Key, Obj, spec_of, status_of
from fairway.kube.timestamps import HOUR_US, MINUTE_US, SECOND_US, parse_rfc3339
from fairway.twin.devices.gpuhealth import break_gpu
from fairway.twin.latency import latency_named
from fairway.twin.standard import standard_components
from fairway.twin.twin import Twin


def node(name: str = "n", gpus: int = 4) -> Obj:
    labels = {"kubernetes.io/hostname": name, "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    capacity = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
    meta = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": {"capacity": capacity}}


def pod(name: str, gpus: int = 1, run: str = "1h", **meta: Any) -> Obj:
    container = {"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    annotations = {"fairway.dev/run-time": run}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations, **meta},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }


def world(*objects: Obj) -> Twin:
    twin = Twin(seed=1, latency=latency_named("zero"), components=standard_components())
    twin.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}, *objects])
    twin.run_for(5 * SECOND_US)
    return twin


def phase(twin: Twin, name: str) -> str:
    found = twin.store.get(Key("Pod", "default", name))
    return str(status_of(found or {}).get("phase"))


def node_of(twin: Twin, name: str = "n") -> Obj:
    found = twin.store.get(Key("Node", "", name))
    assert found is not None
    return found


def free(twin: Twin) -> str:
    return str(status_of(node_of(twin))["allocatable"]["nvidia.com/gpu"])


def condition(twin: Twin, kind: str) -> str:
    found = [c["status"] for c in status_of(node_of(twin)).get("conditions") or () if c["type"] == kind]
    return found[0] if found else ""


def test_a_card_off_the_bus_ends_its_work_and_is_given_to_nobody_until_it_is_mended() -> None:
    twin = world(node(), pod("a"), pod("b"))
    break_gpu(twin.host, "n", 1, "xid-79", repair_us=30 * MINUTE_US)
    twin.run_for(MINUTE_US)
    assert (phase(twin, "a"), phase(twin, "b")) == ("Running", "Failed")
    ended = status_of(twin.store.get(Key("Pod", "default", "b")) or {})["containerStatuses"][0]["state"][
        "terminated"
    ]
    assert ended["exitCode"] == 1
    assert free(twin) == "3" and status_of(node_of(twin))["capacity"]["nvidia.com/gpu"] == "4"
    assert condition(twin, "GPUMissing") == "True"
    told = [e.message for e in twin.host.events.told() if e.reason == "GPUMissing"]
    assert told == ["NVRM: Xid (PCI:0000:18:00): 79, GPU has fallen off the bus."]
    twin.apply([pod("c", 3)])
    twin.run_for(MINUTE_US)
    assert phase(twin, "c") == "Pending"
    twin.run_for(40 * MINUTE_US)
    assert free(twin) == "4" and condition(twin, "GPUMissing") == "False"
    assert phase(twin, "c") == "Running"


def test_an_applications_error_leaves_the_card_well() -> None:
    twin = world(node(), pod("a"))
    break_gpu(twin.host, "n", 0, "xid-31")
    twin.run_for(MINUTE_US)
    assert phase(twin, "a") == "Failed" and free(twin) == "4" and condition(twin, "XIDErrors") == ""
    twin.apply([pod("again")])
    twin.run_for(SECOND_US)
    break_gpu(twin.host, "n", 0, "xid-31")
    twin.run_for(MINUTE_US)
    assert phase(twin, "again") == "Failed"


def test_a_row_to_be_remapped_lets_work_go_on() -> None:
    twin = world(node(), pod("a", 4))
    break_gpu(twin.host, "n", 2, "xid-63")
    twin.run_for(MINUTE_US)
    assert phase(twin, "a") == "Running" and free(twin) == "3"


def test_two_faults_of_one_card_are_mended_each() -> None:
    twin = world(node())
    break_gpu(twin.host, "n", 0, "xid-94", repair_us=10 * MINUTE_US)
    break_gpu(twin.host, "n", 0, "xid-74", repair_us=20 * MINUTE_US)
    break_gpu(twin.host, "n", 0, "xid-74", repair_us=5 * MINUTE_US)
    twin.run_for(15 * MINUTE_US)
    assert free(twin) == "3" and condition(twin, "XIDErrors") == "False"
    assert condition(twin, "NVLinkStatusInactive") == "True"
    twin.run_for(10 * MINUTE_US)
    assert free(twin) == "4"


def test_a_drain_cordons_until_it_is_mended() -> None:
    twin = world(node(), pod("a"), pod("b"))
    break_gpu(twin.host, "n", 0, "xid-119", repair_us=10 * MINUTE_US, drains=True)
    twin.run_for(MINUTE_US)
    assert spec_of(node_of(twin))["unschedulable"] is True
    assert twin.store.get(Key("Pod", "default", "b")) is None
    twin.run_for(15 * MINUTE_US)
    assert not spec_of(node_of(twin)).get("unschedulable")


def finished(twin: Twin, name: str) -> int:
    found = status_of(twin.store.get(Key("Pod", "default", name)) or {})
    ended = found["containerStatuses"][0]["state"]["terminated"]
    return parse_rfc3339(ended["finishedAt"]) - parse_rfc3339(ended["startedAt"])


def test_a_slow_card_stretches_the_rest_of_its_work() -> None:
    twin = world(node(), pod("a"), pod("b"))
    twin.run_for(30 * MINUTE_US - 5 * SECOND_US)
    break_gpu(twin.host, "n", 0, "thermal", repair_us=-1)
    twin.run_for(2 * HOUR_US)
    assert abs(finished(twin, "a") - 72 * MINUTE_US) < 5 * SECOND_US
    assert abs(finished(twin, "b") - HOUR_US) < 5 * SECOND_US
    # Who comes later and gets the card is slow from the start.
    twin.apply([pod("late")])
    twin.run_for(2 * HOUR_US)
    assert abs(finished(twin, "late") - 84 * MINUTE_US) < 5 * SECOND_US


def test_a_card_that_recovers_goes_on_at_its_pace() -> None:
    twin = world(node(), pod("a"))
    break_gpu(twin.host, "n", 0, "thermal", repair_us=28 * MINUTE_US)
    twin.run_for(3 * HOUR_US)
    # Twenty minutes' work in 28, then forty in forty.
    assert abs(finished(twin, "a") - 68 * MINUTE_US) < 10 * SECOND_US


def test_a_straggler_slows_the_whole_job() -> None:
    job = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "t", "namespace": "default"},
        "spec": {
            "pytorchReplicaSpecs": {
                kind: {
                    "replicas": count,
                    "restartPolicy": "Never",
                    "template": {
                        "metadata": {"annotations": {"fairway.dev/run-time": "1h"}},
                        "spec": {
                            "containers": [
                                {
                                    "name": "pytorch",
                                    "image": "i",
                                    "resources": {"limits": {"nvidia.com/gpu": "4"}},
                                }
                            ]
                        },
                    },
                }
                for kind, count in (("Master", 1), ("Worker", 2))
            }
        },
    }
    twin = world(node("n"), node("m"), node("o"), job)
    twin.run_for(20 * SECOND_US)
    break_gpu(twin.host, "m", 3, "straggler", repair_us=-1)
    twin.run_for(3 * HOUR_US)
    lasted = [finished(twin, name) for name in ("t-master-0", "t-worker-0", "t-worker-1")]
    assert all(abs(us - 69 * MINUTE_US) < MINUTE_US for us in lasted), lasted


def test_cards_nodes_and_causes_that_are_not_there_break_nothing() -> None:
    twin = world(node(), pod("a"))
    break_gpu(twin.host, "n", 99, "xid-79")
    break_gpu(twin.host, "gone", 0, "xid-79")
    twin.run_for(MINUTE_US)
    assert phase(twin, "a") == "Running" and free(twin) == "4"
    with pytest.raises(UserError, match="unknown cause 'xid-1'"):
        cause_named("xid-1")


def test_a_copy_goes_on_as_the_original() -> None:
    twin = world(node(), pod("a"), pod("b"))
    break_gpu(twin.host, "n", 0, "thermal", repair_us=20 * MINUTE_US)
    break_gpu(twin.host, "n", 1, "xid-79", repair_us=20 * MINUTE_US)
    twin.run_for(10 * MINUTE_US)
    copy = twin.fork()
    for one in (twin, copy):
        one.run_for(3 * HOUR_US)
    assert twin.digest() == copy.digest()


def test_rates_are_those_that_were_published() -> None:
    """Llama 3: 268 failures of GPUs in 54 days of 16,384."""
    rates = rates_of("llama3")
    assert round(rates.mean_us / HOUR_US) == 79_230
    assert rates.causes[-1][0] == pytest.approx(1)
    assert rates.cause_at(0.0) == "xid-79" and rates.cause_at(0.999999) == "thermal"
    assert round(rates_of("meta-rsc-1").mean_us / HOUR_US) == 29_538
    assert all(c.repair or not (c.unhealthy or c.slow > 1) for c in causes().values())
    assert set(fleets()) == {"llama3", "meta-rsc-1", "meta-rsc-2"}
