"""A component that is left out does nothing, and says so; everybody else goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from apiserver_serving import Served, served

from fairway.apiserver.components import _kept
from fairway.apiserver.leftout import OF_MANAGER, PARTS, PROGRAMS, LeftOut, check_names, summary
from fairway.apiserver.serving import Server, Settings
from fairway.errors import UserError
from fairway.twin.autoscaling.component import Autoscaling
from fairway.twin.controllers import Controllers
from fairway.twin.standard import standard_components
from fairway.workloads.registry import CONTROLLERS

JOBS = "/apis/batch/v1/namespaces/default/jobs"
SETS = "/apis/apps/v1/namespaces/default/replicasets"
PODS = "/api/v1/namespaces/default/pods"
QUEUE = "kueue.x-k8s.io/queue-name"
POD: dict[str, Any] = {"containers": [{"name": "c", "image": "i:1"}]}
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n"},
    "status": {"capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
}


def job(name: str, **labels: str) -> dict[str, Any]:
    template = {"spec": {**POD, "restartPolicy": "Never"}}
    meta = {"name": name, "labels": labels}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {"template": template}}


def pod(name: str, **labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": POD}


def replica_set(name: str) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": name}}, "spec": POD}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name}, "spec": spec}


def create(api: Served, path: str, obj: dict[str, Any]) -> dict[str, Any]:
    code, made = api.ask("POST", path, obj)
    assert code == 201, made
    return dict(made)


def advance(api: Served, seconds: int = 20) -> dict[str, Any]:
    code, said = api.ask("POST", "/fairway/clock", {"advanceUs": seconds * 1_000_000})
    assert code == 200
    return dict(said)


def names(api: Served, path: str) -> list[str]:
    return [found["metadata"]["name"] for found in api.ask("GET", path)[1]["items"]]


SAID: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "nothing": ((), ()),
    "none": (("none",), ()),
    "short names and long": (("job,cronjob-controller",), ("cronjob-controller", "job-controller")),
    "twice is once": (("kueue, kueue", "kueue"), ("kueue",)),
    "names by which they are known, too": (("scheduler", "hpa,lws"), tuple(
        sorted(("kube-scheduler", "horizontal-pod-autoscaler-controller", "leaderworkerset"))
    )),
    "work that is done in one place": (("endpointslice",), ("endpoints-controller",)),
    "all of kube-controller-manager": (("controllers",), tuple(sorted(OF_MANAGER))),
}  # fmt: skip


@pytest.mark.parametrize("name", SAID)
def test_names(name: str) -> None:
    said, want = SAID[name]
    assert check_names(said) == want


@pytest.mark.parametrize("said", ["kubernetes", "job-controller-controller", "kueue,none", "KUEUE"])
def test_names_of_nobody_are_refused(said: str) -> None:
    with pytest.raises(UserError, match=f"^--without {said}: expected "):
        check_names([said])


@pytest.mark.parametrize("name", PARTS)
def test_every_name_leaves_out_something_that_is_there(name: str) -> None:
    part = PARTS[name]
    there = {c.name for c in standard_components()} | {
        "node-lease",
        "karpenter",
        "cluster-autoscaler",
        "endpoints-controller",
        "certificate-controller",
        "serviceaccount-controller",
        "ttl-controller",
    }
    assert set(part.components) <= there
    assert set(part.controllers) <= {c.name for c in CONTROLLERS}
    assert part.components or part.controllers or part.scalers


_OF_MACHINES = ("faults", "gpu-operator", "gpu-health", "hami-device-plugin")


def test_every_controller_of_the_manager_can_be_left_out() -> None:
    """None is left when all of kube-controller-manager's and the operators' are out."""
    assert [c.name for c in standard_components() if isinstance(_kept(c, LeftOut(PARTS)), Controllers)] == []
    beside = [_kept(c, LeftOut(OF_MANAGER)) for c in standard_components()]
    assert [c.name for c in beside if isinstance(c, Controllers)] == [
        "workload-operators",
        "vc-controller-manager",
        "knative-serving",
    ]
    left = LeftOut(PARTS)
    for component in standard_components():
        kept = _kept(component, left)
        if isinstance(kept, Autoscaling):
            assert kept.kinds == ("ConfigMap",)
        else:
            # Machines break, have drivers and say what cards they have, whoever controls the cluster.
            assert kept is None or kept.name in _OF_MACHINES


def test_what_is_told() -> None:
    on, off = summary(LeftOut(("kueue", "job-controller")).told(("karpenter",)))
    assert on == [
        "kube-controller-manager",
        *(n for n in PROGRAMS if n not in ("kueue", "cluster-autoscaler")),
    ]
    assert off == ["kueue", "cluster-autoscaler", "job-controller"]
    on, off = summary(LeftOut(OF_MANAGER).told(()))
    assert off == ["kube-controller-manager", "karpenter", "cluster-autoscaler"]


def test_a_scheduler_and_controllers_of_others(tmp_path: Path) -> None:
    left = check_names(["kube-scheduler,job,kueue"])
    with served(tmp_path, without=left) as api:
        api.until_ready()
        create(api, "/api/v1/nodes", NODE)
        create(api, PODS, pod("waits"))
        made = create(api, JOBS, job("j", **{QUEUE: "q"}))
        create(api, SETS, replica_set("r"))
        told = advance(api)["components"]
        assert [name for name in PROGRAMS if not told[name]] == [
            "kube-scheduler",
            "kueue",
            "karpenter",
            "cluster-autoscaler",
        ]
        assert [name for name in OF_MANAGER if not told[name]] == ["job-controller"]
        # Nobody binds; nobody works on Jobs, and no webhook of Kueue's holds them; ReplicaSets have their pods.
        assert "suspend" not in made["spec"] or made["spec"]["suspend"] is False
        _, found = api.ask("GET", PODS)
        assert all("nodeName" not in p["spec"] for p in found["items"])
        assert [p["metadata"]["name"][:2] for p in found["items"]] == ["r-", "wa"]
        _, page = api.ask("GET", "/readyz?verbose")
        assert "component/default-scheduler" not in page
        assert "component/kueue" not in page
        assert "[+]component/kube-controller-manager ok" in page
        assert names(api, "/api/v1/namespaces/kube-system/pods") == ["kube-controller-manager-control-plane"]
        # Somebody binds: the kubelet runs the pod.
        target = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": "waits"},
            "target": {"name": "n"},
        }
        assert api.ask("POST", f"{PODS}/waits/binding", target)[0] == 201
        advance(api)
        assert api.ask("GET", f"{PODS}/waits")[1]["status"]["phase"] == "Running"


def test_it_is_remembered_until_told_otherwise(tmp_path: Path) -> None:
    flavor = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ResourceFlavor",
        "metadata": {"name": "d"},
        "spec": {},
    }
    deployments = "/apis/apps/v1/namespaces/kueue-system/deployments"
    with served(tmp_path) as api:
        api.until_ready()
        create(api, "/apis/kueue.x-k8s.io/v1beta2/resourceflavors", flavor)
        assert all(advance(api)["components"][n] for n in ("kueue", "kube-scheduler"))
        assert names(api, deployments) == ["kueue-controller-manager"]
    with served(tmp_path, without=("kueue", "kube-scheduler")) as api:
        api.until_ready()
    with served(tmp_path) as api:
        api.until_ready()
        told = advance(api)["components"]
        assert not told["kueue"]
        assert not told["kube-scheduler"]
        assert names(api, deployments) == []
        assert names(api, "/api/v1/namespaces/kube-system/pods") == ["kube-controller-manager-control-plane"]
        assert api.ask("GET", "/metrics")[0] == 200
    with served(tmp_path, without=()) as api:
        api.until_ready()
        assert all(advance(api)["components"][n] for n in ("kueue", "kube-scheduler"))
        assert len(names(api, "/api/v1/namespaces/kube-system/pods")) == 2


def test_orphans_of_kinds_with_controllers_elsewhere_stay_orphans(tmp_path: Path) -> None:
    for left, owners in ((("replicaset-controller",), 0), ((), 1)):
        with served(tmp_path / str(owners), without=left) as api:
            api.until_ready()
            create(api, PODS, pod("orphan", app="r"))
            create(api, SETS, replica_set("r"))
            create(api, PODS, pod("late", app="r"))
            advance(api)
            found = [api.ask("GET", f"{PODS}/{name}")[1]["metadata"] for name in ("orphan",)]
            assert sum(len(m.get("ownerReferences", ())) for m in found) == owners


def test_without_kubelets_pods_are_bound_and_nobody_runs_them(tmp_path: Path) -> None:
    with served(tmp_path, without=("kubelet",)) as api:
        api.until_ready()
        ready = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
        node: dict[str, Any] = {**NODE, "status": {**NODE["status"], "conditions": ready}}  # type: ignore[dict-item]
        create(api, "/api/v1/nodes", node)
        advance(api, 2)
        create(api, PODS, pod("p"))
        advance(api, 5)
        assert api.ask("GET", f"{PODS}/p")[1]["status"]["phase"] == "Pending"
        assert api.ask("GET", f"{PODS}/p/log")[0] in (400, 404, 500)
        assert api.ask("GET", "/readyz")[0] == 200


def test_a_cloud_needs_its_kubelets(tmp_path: Path) -> None:
    import asyncio

    server = Server(Settings(data=tmp_path, without=("kubelet",), cloud=tmp_path / "cloud.yaml"))
    with pytest.raises(UserError, match="boot simulated kubelets"):
        asyncio.run(server.start())
