"""Services of Knative Serving in a cluster: what is made of them, and how many pods they have when."""

from __future__ import annotations

from typing import Any

from scalingworld import World

from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import SECOND_US

KNATIVE = "serving.knative.dev"
PA = "PodAutoscaler.autoscaling.internal.knative.dev"


def service(annotations: dict[str, str] | None = None, image: str = "model", **spec: Any) -> Obj:
    told = {f"autoscaling.knative.dev/{k}": v for k, v in (annotations or {}).items()}
    container = {"image": image, "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    template = {"metadata": {"annotations": told}, "spec": {"containers": [container]}}
    meta = {"name": "model", "namespace": "default"}
    body = {"template": template, **spec}
    return {"apiVersion": f"{KNATIVE}/v1", "kind": "Service", "metadata": meta, "spec": body}


def load(value: str, name: str = "concurrency", about: str = "model") -> dict[str, Any]:
    kind = {"kind": "Service", "name": about}
    return {"series": [{"name": name, "object": kind, "namespace": "default", "value": value}]}


def pods_wanted(world: World, revision: str = "model-00001") -> int:
    return world.replicas(f"{revision}-deployment")


def test_a_service_gets_its_configuration_route_revision_and_deployment() -> None:
    world = World(objects=[service()])
    world.run(10)
    assert world.conditions("model", f"Service.{KNATIVE}") == {
        "ConfigurationsReady": ("True", ""),
        "RoutesReady": ("True", ""),
        "Ready": ("True", ""),
    }
    status = world.status("model", f"Service.{KNATIVE}")
    assert status["url"] == "http://model.default.svc.cluster.local"
    assert status["latestReadyRevisionName"] == "model-00001"
    assert status["traffic"] == [{"revisionName": "model-00001", "percent": 100, "latestRevision": True}]
    revision = world.get(f"Revision.{KNATIVE}", "model-00001")
    assert revision["metadata"]["labels"][f"{KNATIVE}/routingState"] == "active"
    template = world.get("Deployment.apps", "model-00001-deployment")["spec"]["template"]
    assert [c["name"] for c in template["spec"]["containers"]] == ["user-container", "queue-proxy"]
    assert world.get("Service", "model-00001-private")["spec"]["selector"]
    assert world.get("Service", "model")["spec"]["type"] == "ExternalName"


def test_the_ports_of_a_revision() -> None:
    world = World(objects=[service()])
    world.run(5)
    http = {"name": "http", "port": 80, "targetPort": 8012, "protocol": "TCP"}
    private = [
        http,
        {"name": "http-autometric", "port": 9090, "targetPort": 9090, "protocol": "TCP"},
        {"name": "http-usermetric", "port": 9091, "targetPort": 9091, "protocol": "TCP"},
    ]
    assert world.get("Service", "model-00001")["spec"]["ports"] == [http]
    ports = world.get("Service", "model-00001-private")["spec"]["ports"]
    assert ports == [*private, {"name": "http-queueadm", "port": 8022, "targetPort": 8022, "protocol": "TCP"}]


def test_without_requests_it_goes_to_zero_once_its_window_and_the_network_allow() -> None:
    """Active for the stable window of 60 s; behind the activator all the while, so looked at again 3 s later."""
    world = World(objects=[service()])
    world.run(59)
    assert pods_wanted(world) == 1
    world.run(6)
    assert pods_wanted(world) == 0
    assert world.conditions("model-00001", PA)["Active"] == ("False", "NoTraffic")
    assert world.conditions("model", f"Service.{KNATIVE}")["Ready"] == ("True", "")


def test_the_first_request_wakes_it_at_once_and_a_surge_panics() -> None:
    world = World(load=load("0s:0,10m:1,20m:65,25m:1"), objects=[service({"target": "10"})])
    world.run(599)
    assert pods_wanted(world) == 0
    world.run(1)
    assert pods_wanted(world) == 1
    # The panic window is six seconds: it takes that long for all of the surge to be seen.
    world.run(20 * 60 - 600 + 8)
    assert pods_wanted(world) == 10
    assert "panic" in world.room.journal.scalings[-1].why
    world.run(290)
    assert pods_wanted(world) == 10
    world.run(160)
    assert pods_wanted(world) == 1


def test_bounds_initial_scale_and_delay_come_from_annotations() -> None:
    annotations = {
        "target": "10",
        "min-scale": "2",
        "max-scale": "5",
        "initial-scale": "3",
        "scale-down-delay": "2m",
    }
    world = World(load=load("0s:0,5m:300,10m:0"), objects=[service(annotations)])
    world.run(1)
    assert pods_wanted(world) == 3
    world.run(298)
    assert pods_wanted(world) == 2
    world.run(20)
    assert pods_wanted(world) == 5
    # For two minutes after the averages of its last minute are below what five pods take.
    world.run(281 + 150)
    assert pods_wanted(world) == 5
    world.run(120)
    assert pods_wanted(world) == 2


def test_requests_a_second_scale_by_their_own_target() -> None:
    annotations = {"metric": "rps", "target": "100"}
    world = World(load=load("0s:350", "requests_per_second"), objects=[service(annotations)])
    world.run(90)
    # 350 requests a second at 70 % of 100.
    assert pods_wanted(world) == 5


def test_a_new_template_is_a_new_revision_and_the_old_one_goes_to_zero() -> None:
    world = World(load=load("0s:21"), objects=[service({"target": "10"})])
    world.run(120)
    assert pods_wanted(world) == 3
    world.apply(service({"target": "10"}, image="model:2"))
    world.run(200)
    assert pods_wanted(world) == 0
    assert pods_wanted(world, "model-00002") == 3
    old = world.get(f"Revision.{KNATIVE}", "model-00001")
    assert old["metadata"]["labels"][f"{KNATIVE}/routingState"] == "reserve"


def test_traffic_is_divided_as_the_route_says() -> None:
    world = World(load=load("0s:70"), objects=[service({"target": "10"})])
    world.run(120)
    split = [
        {"revisionName": "model-00001", "percent": 80},
        {"latestRevision": True, "percent": 20, "tag": "new"},
    ]
    world.apply(service({"target": "10"}, image="model:2", traffic=split))
    world.run(300)
    assert pods_wanted(world) == 8
    assert pods_wanted(world, "model-00002") == 2
    told = world.status("model", f"Service.{KNATIVE}")["traffic"]
    assert [(t["revisionName"], t["percent"]) for t in told] == [("model-00001", 80), ("model-00002", 20)]
    assert told[1]["url"] == "http://new-model.default.svc.cluster.local"


def test_settings_of_the_cluster_hold_for_all_and_wrong_ones_change_nothing() -> None:
    settings = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "config-autoscaler", "namespace": "knative-serving"},
        "data": {"enable-scale-to-zero": "false"},
    }
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "knative-serving"}}
    world = World(objects=[namespace, settings, service()])
    world.run(300)
    assert pods_wanted(world) == 1
    world.apply({**settings, "data": {"enable-scale-to-zero": "true", "stable-window": "1s"}})
    world.run(300)
    assert pods_wanted(world) == 1
    assert ("InvalidSettings", "stable-window = 1s, must be in [6s; 1h0m0s] range") in world.said("ConfigMap")
    world.apply({**settings, "data": {}})
    world.run(120)
    assert pods_wanted(world) == 0


def test_what_does_not_fit_is_told_by_revision_configuration_and_service() -> None:
    world = World(objects=[service()], nodes=0)
    world.run(60)
    revision = world.conditions("model-00001", f"Revision.{KNATIVE}")
    assert revision["ResourcesAvailable"][0] == "Unknown"
    # The Deployment gives up after its progress deadline; the autoscaler 30 s later.
    world.run(700)
    assert world.conditions("model-00001", f"Revision.{KNATIVE}")["Ready"][0] == "False"
    assert world.conditions("model", f"Configuration.{KNATIVE}")["Ready"] == ("False", "RevisionFailed")
    told = world.conditions("model", f"Service.{KNATIVE}")
    assert told["ConfigurationsReady"] == ("False", "RevisionFailed")
    assert told["RoutesReady"] == told["Ready"] == ("False", "RevisionMissing")
    assert ("LatestCreatedFailed", 'Latest created revision "model-00001" has failed') in world.said(
        "Configuration"
    )


def test_the_other_class_makes_a_horizontal_pod_autoscaler() -> None:
    annotations = {"class": "hpa.autoscaling.knative.dev", "target": "60", "min-scale": "1", "max-scale": "4"}
    world = World(objects=[service(annotations)])
    world.run(10)
    spec = world.get("HorizontalPodAutoscaler.autoscaling", "model-00001")["spec"]
    assert (spec["minReplicas"], spec["maxReplicas"]) == (1, 4)
    assert spec["metrics"][0]["resource"]["target"]["averageUtilization"] == 60


def test_what_somebody_changes_of_the_other_class_is_set_again() -> None:
    """With the PodAutoscaler, whose Revision sets that again; what else is written stays, and so do its Services."""
    annotations = {"class": "hpa.autoscaling.knative.dev", "target": "60", "min-scale": "1", "max-scale": "4"}
    world = World(objects=[service(annotations)])
    world.run(10)
    key = Key("HorizontalPodAutoscaler.autoscaling", "default", "model-00001")
    public, private = (Key("Service", "default", f"model-00001{suffix}") for suffix in ("", "-private"))
    wanted = world.twin.store.require(key)["spec"]
    own = {"scaleDown": {"stabilizationWindowSeconds": 7}}
    world.twin.store.patch(key, {"spec": {"maxReplicas": 9, "behavior": own}})
    before = world.twin.store.require(public)
    world.twin.store.delete(private)
    status, more = world.status("model-00001", PA), {"autoscaling.knative.dev/max-scale": "5"}
    world.twin.store.patch(Key(PA, "default", "model-00001"), {"metadata": {"annotations": more}})
    world.twin.wake()
    world.run(10)
    assert world.twin.store.require(key)["spec"] == {**wanted, "behavior": own}
    assert world.twin.store.require(public) is before
    made = world.twin.store.require(private)
    assert made["metadata"]["labels"]["networking.internal.knative.dev/serviceType"] == "Private"
    assert world.status("model-00001", PA) == status
    assert {k: v for k, v in status.items() if k not in ("conditions", "observedGeneration")} == {
        "metricsServiceName": "model-00001-private",
        "serviceName": "model-00001",
    }
    assert world.conditions("model-00001", PA) == dict.fromkeys(
        ("Active", "Ready", "SKSReady", "ScaleTargetInitialized"), ("True", "")
    )


def test_requests_of_other_namespaces_and_of_nobody_are_not_its_own() -> None:
    """A series without a namespace counts, by the Service's name or the Revision's."""
    for about, namespace, pods in (
        ("model", "default", 3),
        ("model", "other", 0),
        ("other", "default", 0),
        ("model-00001", "default", 3),
        ("model-00001-private", "default", 3),
    ):
        kind = {"kind": "Service", "name": about}
        series = {"name": "concurrency", "object": kind, "namespace": namespace, "value": "15"}
        world = World(load={"series": [series]}, objects=[service({"target": "10"})])
        world.run(180)
        assert pods_wanted(world) == pods, (about, namespace)


def test_a_traffic_target_that_is_not_there_is_named() -> None:
    world = World(objects=[service(traffic=[{"revisionName": "model-00009", "percent": 100}])])
    world.run(10)
    conditions = world.status("model", f"Route.{KNATIVE}")["conditions"]
    told = next(c for c in conditions if c["type"] == "AllTrafficAssigned")
    assert told["message"] == 'Revision "model-00009" referenced in traffic not found.'


def test_a_fork_goes_on_as_the_original() -> None:
    world = World(load=load("0s:0,2m:65,4m:30,6m:0"), objects=[service({"target": "10"})])
    world.run(150)
    twin = world.twin.fork()
    for each in (world.twin, twin):
        each.run_for(900 * SECOND_US)
    names = [o["metadata"]["resourceVersion"] for o in world.twin.store.objects("Deployment.apps")]
    assert names == [o["metadata"]["resourceVersion"] for o in twin.store.objects("Deployment.apps")]
    assert pods_wanted(world) == 0


def test_looks_are_left_out_while_nothing_changes() -> None:
    """A day of steady requests costs a few hundred looks, not one every two seconds."""
    world = World(load=load("0s:35"), objects=[service({"target": "10"})])
    world.run(120)
    looks = 0
    inner = world.room.knative.on_look

    def counted(key: Key) -> None:
        nonlocal looks
        looks += 1
        inner(key)

    world.twin.host.loop._handlers[world.room.h_knative] = counted
    world.run(86_400)
    assert looks < 100
    assert pods_wanted(world) == 5


def test_the_whole_of_what_an_autoscaler_says() -> None:
    world = World(load=load("0s:5,5m:0"), objects=[service()])
    for seconds, pods, is_active in ((120, 1, ("True", "")), (600, 0, ("False", "NoTraffic"))):
        world.run(seconds)
        said = world.status("model-00001", PA)
        assert world.conditions("model-00001", PA) == {
            "Active": is_active,
            "Ready": is_active,
            "SKSReady": ("True", ""),
            "ScaleTargetInitialized": ("True", ""),
        }
        assert {k: v for k, v in said.items() if k != "conditions"} == {
            "actualScale": pods,
            "desiredScale": pods,
            "metricsServiceName": "model-00001-private",
            "serviceName": "model-00001",
            "observedGeneration": 1,
        }


def test_requests_come_and_go_second_by_second() -> None:
    """Requests come at 120 s and end at 240 s; a copy made meanwhile says the same."""
    world = World(load=load("0s:0,2m:250,4m:0"), objects=[service()])
    found, copied = list[tuple[int, int, int, str]](), list[tuple[int, int, int, str]]()
    copy = None
    for second in range(1, 400):
        world.run(1)
        copy = world.twin.fork() if second == 200 else copy
        if copy is not None and second > 200:
            copy.run_for(SECOND_US)
        for twin, seen in ((world.twin, found), (copy, copied)):
            status = twin.store.require(Key(PA, "default", "model-00001")).get("status") if twin else None
            if status and second > 1:
                active = next(c["status"] for c in status["conditions"] if c["type"] == "Active")
                now = status["desiredScale"], status["actualScale"], active
                if not seen or seen[-1][1:] != now:
                    seen.append((second, *now))
    ending = [
        (250, 3, 3, "True"),
        (266, 2, 2, "True"),
        (284, 1, 1, "True"),
        (300, 0, 1, "False"),
        (302, 0, 0, "False"),
    ]
    assert found == [
        (2, 1, 1, "True"),
        (60, 0, 1, "False"),
        (63, 0, 0, "False"),
        (120, 4, 4, "True"),
        *ending,
    ]
    assert copied == [(200, 4, 4, "True"), *ending]
