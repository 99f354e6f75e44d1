"""Parts of a served cluster, each alone on a twin: leases of nodes, pods of the control plane and what they log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.histories import check_history

from fairway.apiserver.controlplanepods import (
    HOSTED,
    OF_AUTOSCALER,
    OF_KARPENTER,
    ControllerLog,
    ControlPlanePods,
    is_hosted,
)
from fairway.apiserver.leftout import summary
from fairway.apiserver.nodeleases import NodeLeases
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import SECOND_US, parse_rfc3339, rfc3339
from fairway.twin.latency import NONE
from fairway.twin.twin import Twin

HERE = Path(__file__).parent


def run(twin: Twin, seconds: float = 1) -> None:
    twin.wake()
    twin.run(twin.now_us + round(seconds * SECOND_US))


def node(name: str) -> Obj:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}


# Leases


def leases(twin: Twin) -> dict[str, Any]:
    found = twin.store.objects("Lease.coordination.k8s.io", "kube-node-lease")
    return {lease["metadata"]["name"]: lease["spec"].get("renewTime") for lease in found}


def test_a_node_has_a_lease_that_says_when_it_fell_silent() -> None:
    """Whoever is heard of is read as renewed lately: only silence is written."""
    twin = Twin(seed=1, latency=NONE, components=[NodeLeases()])
    assert leases(twin) == {}
    for name in ("a", "b"):
        twin.store.create(node(name))
    run(twin)
    assert leases(twin) == {"a": None, "b": None}
    (lease, _) = twin.store.objects("Lease.coordination.k8s.io", "kube-node-lease")
    uid = twin.store.require(Key("Node", "", "a"))["metadata"]["uid"]
    assert lease["apiVersion"] == "coordination.k8s.io/v1"
    assert lease["spec"] == {"holderIdentity": "a", "leaseDurationSeconds": 40}
    owner = {"apiVersion": "v1", "kind": "Node", "name": "a", "uid": uid}
    assert lease["metadata"]["ownerReferences"] == [owner]
    silent_us = twin.now_us - 1_500_000
    twin.host.heartbeats.stop("a", silent_us)
    run(twin)
    assert leases(twin) == {"a": f"{rfc3339(silent_us)[:-1]}.{silent_us % SECOND_US:06d}Z", "b": None}
    twin.host.heartbeats.stop("b", silent_us + 1)
    twin.host.heartbeats.resume("a")
    run(twin)
    assert leases(twin) == {
        "a": None,
        "b": f"{rfc3339(silent_us + 1)[:-1]}.{(silent_us + 1) % SECOND_US:06d}Z",
    }
    version = twin.store.version
    twin.store.patch(Key("Node", "", "a"), {"metadata": {"labels": {"x": "y"}}})
    run(twin)
    assert twin.store.version == version + 1, "a node that changes has the lease it had"


def test_a_node_that_is_gone_gets_no_lease_again() -> None:
    twin = Twin(seed=1, latency=NONE, components=[NodeLeases()])
    twin.store.create(node("a"))
    run(twin)
    twin.host.heartbeats.stop("a", twin.now_us)
    twin.store.delete(Key("Node", "", "a"))
    twin.store.delete(Key("Lease.coordination.k8s.io", "kube-node-lease", "a"))
    run(twin)
    assert leases(twin) == {}


# The control plane's pods


def hosted(*also: Any, without: tuple[str, ...] = ()) -> Twin:
    twin = Twin(seed=1, latency=NONE, components=[ControlPlanePods(also, without)])
    run(twin)
    return twin


def made(twin: Twin) -> list[str]:
    kinds = ("Namespace", "Pod", "Deployment.apps")
    found = (obj["metadata"] for kind in kinds for obj in twin.store.objects(kind))
    return [f"{meta.get('namespace') or ''}/{meta['name']}" for meta in found]


def kueue(twin: Twin) -> None:
    flavor = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "f"}}
    twin.store.create(flavor)
    run(twin)


MANAGER, SCHEDULER = (
    "kube-system/kube-controller-manager-control-plane",
    "kube-system/kube-scheduler-control-plane",
)


@pytest.mark.parametrize(
    ("also", "without", "want"),
    [
        ((), (), {MANAGER, SCHEDULER}),
        ((), ("kube-scheduler",), {MANAGER}),
        ((), ("kube-controller-manager",), {SCHEDULER}),
        ((OF_KARPENTER,), (), {MANAGER, SCHEDULER, "karpenter/karpenter"}),
        ((OF_KARPENTER,), ("karpenter",), {MANAGER, SCHEDULER}),
        (
            (OF_KARPENTER, OF_AUTOSCALER),
            (),
            {MANAGER, SCHEDULER, "karpenter/karpenter", "kube-system/cluster-autoscaler"},
        ),
    ],
)
def test_which_programs_have_pods(also: Any, without: tuple[str, ...], want: set[str]) -> None:
    twin = hosted(*also, without=without)
    assert {name for name in made(twin) if not name.startswith("/")} == want
    kueue(twin)
    assert "kueue-system/kueue-controller-manager" in made(twin)


def test_kueue_has_one_once_there_is_something_of_its_own() -> None:
    twin = hosted()
    assert not any("kueue" in name for name in made(twin))
    kueue(twin)
    version = twin.store.version
    assert "kueue-system/kueue-controller-manager" in made(twin)
    twin.store.patch(Key("ResourceFlavor.kueue.x-k8s.io", "", "f"), {"metadata": {"labels": {"a": "b"}}})
    run(twin)
    assert twin.store.version == version + 1
    elsewhere = hosted(without=("kueue",))
    kueue(elsewhere)
    assert not any("kueue" in name for name in made(elsewhere))


def test_what_an_earlier_start_made_goes_where_the_real_one_runs() -> None:
    twin = hosted()
    kueue(twin)
    mine = {"name": "mine", "namespace": "kube-system", "labels": {"fairway.dev/controller": "somebody"}}
    spec = {"containers": [{"name": "c", "image": "i"}]}
    twin.store.create({"apiVersion": "v1", "kind": "Pod", "metadata": mine, "spec": spec})
    later = Twin(
        seed=1,
        latency=NONE,
        store=twin.store,
        start_us=twin.now_us,
        components=[ControlPlanePods((), ("kube-scheduler", "kueue"))],
    )
    run(later)
    assert {name for name in made(later) if not name.startswith("/")} == {MANAGER, "kube-system/mine"}


def test_their_pods_run_whoever_made_them() -> None:
    twin = hosted()
    pods = {p["metadata"]["name"]: p for p in twin.store.objects("Pod")}
    assert {p["status"]["phase"] for p in pods.values()} == {"Running"} and all(map(is_hosted, pods.values()))
    spec = {"containers": [{"name": "c", "image": "i"}, {"name": "d"}]}
    for name, scheduler in (("theirs", HOSTED), ("other", "default-scheduler")):
        meta = {"name": name, "namespace": "default"}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": meta,
            "spec": {**spec, "schedulerName": scheduler},
        }
        twin.store.create(pod)
    began = twin.now_us
    run(twin)
    theirs, other = (twin.store.require(Key("Pod", "default", name)) for name in ("theirs", "other"))
    assert (other.get("status") or {}).get("phase") != "Running" and not is_hosted(other)
    status = theirs["status"]
    assert (status["phase"], parse_rfc3339(status["startTime"])) == (
        "Running",
        began // SECOND_US * SECOND_US,
    )
    assert [(c["type"], c["status"]) for c in status["conditions"]] == [
        ("PodScheduled", "True"),
        ("PodReadyToStartContainers", "True"),
        ("Initialized", "True"),
        ("ContainersReady", "True"),
        ("Ready", "True"),
    ]
    running = {"running": {"startedAt": status["startTime"]}}
    base = {
        "imageID": "",
        "ready": True,
        "started": True,
        "restartCount": 0,
        "lastState": {},
        "state": running,
    }
    assert status["containerStatuses"] == [
        {"name": "c", "image": "i", **base},
        {"name": "d", "image": "", **base},
    ]
    version = twin.store.version
    twin.store.patch(Key("Pod", "default", "theirs"), {"metadata": {"labels": {"a": "b"}}})
    run(twin)
    assert twin.store.version == version + 1


def test_what_programs_look_like() -> None:
    def lines() -> Iterator[str]:
        twin = hosted(OF_KARPENTER, OF_AUTOSCALER)
        kueue(twin)
        for kind in ("Namespace", "Pod", "Deployment.apps"):
            for obj in twin.store.objects(kind):
                left = ("uid", "resourceVersion", "creationTimestamp", "generation")
                meta = {k: v for k, v in obj["metadata"].items() if k not in left}
                yield f"== {kind} {meta['name']}"
                yield json.dumps(meta, sort_keys=True)
                yield json.dumps(obj["spec"], sort_keys=True)

    check_history(HERE / "controlplane.txt", lines())


def log_of(twin: Twin, name: str = "kube-scheduler-control-plane") -> ControllerLog:
    return ControllerLog(twin.store, twin.store.require(Key("Pod", "kube-system", name)))


def event(name: str, by: str, about: Obj | None = None, **fields: Any) -> Obj:
    meta = {"name": name, "namespace": "default"}
    told = {"type": "Normal", "reason": "R", "message": f"of {name}", "reportingComponent": by}
    about = {"kind": "Pod", "namespace": "team", "name": "p", "apiVersion": "v1"} if about is None else about
    return {"apiVersion": "v1", "kind": "Event", "metadata": meta, "involvedObject": about, **told, **fields}


def test_a_program_logs_each_of_its_events_whenever_it_is_told() -> None:
    twin = hosted()
    log = log_of(twin)
    assert log.read() == [] and not log.is_over
    stamp = "2026-01-05T08:00:0"
    for one in (
        event("b", "default-scheduler", lastTimestamp=f"{stamp}2Z", eventTime=f"{stamp}9.000000Z"),
        event("a", "", eventTime=f"{stamp}1.250000Z", source={"component": "default-scheduler"}),
        event(
            "c",
            "default-scheduler",
            {},
            series={"lastObservedTime": f"{stamp}3.000001Z"},
            lastTimestamp=f"{stamp}1Z",
        ),
        event("d", "kueue-admission", lastTimestamp=f"{stamp}1Z"),
        event("e", "job-controller", {"kind": "Node", "name": "n"}, lastTimestamp=f"{stamp}4Z"),
        event("f", "", lastTimestamp=f"{stamp}1Z"),
    ):
        twin.store.create(one)
    pod = 'object="team/p" kind="Pod" apiVersion="v1" type="Normal" reason="R"'
    none = 'object="None" kind="" apiVersion="" type="Normal" reason="R"'
    head = '       1 event.go:389] "Event occurred"'
    read = log.read()
    assert [text for _, text in read] == [
        f'I0105 08:00:01.250000{head} {pod} message="of a"',
        f'I0105 08:00:02.000000{head} {pod} message="of b"',
        f'I0105 08:00:03.000001{head} {none} message="of c"',
    ]
    assert [at_us % (60 * SECOND_US) for at_us, _ in read] == [1_250_000, 2_000_000, 3_000_001]
    assert log.read() == []
    twin.store.patch(Key("Event", "default", "b"), {"lastTimestamp": f"{stamp}8Z", "message": "again"})
    assert [text for _, text in log.read()] == [f'I0105 08:00:08.000000{head} {pod} message="again"']
    ((_, of_manager),) = log_of(twin, "kube-controller-manager-control-plane").read()
    assert 'object="n" kind="Node"' in of_manager
    twin.store.patch(
        Key("Pod", "kube-system", "kube-scheduler-control-plane"),
        {"metadata": {"labels": {"fairway.dev/controller": "nobody"}}},
    )
    assert log_of(twin).read() == []


# What is said of them


@pytest.mark.parametrize(
    ("told", "on", "off"),
    [
        ({"kueue": False, "kube-scheduler": True}, ["kube-controller-manager", "kube-scheduler"], ["kueue"]),
        ({}, ["kube-controller-manager"], []),
    ],
)
def test_what_nobody_spoke_of_is_neither_on_nor_off(
    told: dict[str, bool], on: list[str], off: list[str]
) -> None:
    """A manager of which nothing was said runs as it does."""
    assert summary(told) == (on, off)
