"""HorizontalPodAutoscalers in a twin: what they measure, when they look, and what a load does to them."""

from __future__ import annotations

import pytest
from scalingworld import World, autoscaler, cpu, deployment, external, of_pods

from fairway.autoscaling.hpa.settings import Settings
from fairway.autoscaling.source import MetricsError
from fairway.kube.objects import Key
from fairway.kube.timestamps import SECOND_US
from fairway.twin.autoscaling.component import Autoscaling
from fairway.twin.autoscaling.horizontal import Horizontal


def shared(total: str, **more: object) -> dict[str, object]:
    return {"workloads": [{"kind": "Deployment", "name": "web", "total": {"cpu": total}, **more}]}


def test_a_load_shared_by_ready_pods_is_followed_up_and_down() -> None:
    world = World(load=shared("0s:1,10m:4,30m:1"), objects=[deployment("web"), autoscaler("web", cpu(50))])
    world.run(590)
    assert world.replicas("web") == 2
    world.run(300)
    assert world.replicas("web") == 8
    current = world.status("web")["currentMetrics"][0]["resource"]["current"]
    assert current == {"averageUtilization": 50, "averageValue": "500m"}
    world.run(1800)
    assert world.replicas("web") == 2
    assert world.said("HorizontalPodAutoscaler")[-1][1] == "New size: 2; reason: All metrics below target"


def test_an_external_metric_that_nobody_feeds_and_one_that_somebody_does() -> None:
    world = World(objects=[deployment("web"), autoscaler("web", external("depth", "10"))])
    world.run(40)
    assert world.conditions("web")["ScalingActive"] == ("False", "FailedGetExternalMetric")
    fault = "the server could not find the requested resource (get depth.external.metrics.k8s.io)"
    assert any(message.endswith(fault) for _, message in world.said("HorizontalPodAutoscaler"))
    load = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "l", "labels": {"fairway.dev/load": "true"}},
    }
    world.apply({**load, "data": {"a": "series: [{name: depth, value: 60}]", "b": "series: 3"}})
    world.run(120)
    assert world.replicas("web") == 6
    assert ("InvalidLoad", "b: series: expected a list") in world.said("ConfigMap")


def test_gpu_utilization_of_pods_is_a_custom_metric() -> None:
    """The guide's `gpu_utilization`, averaged over pods."""
    busy = {"fairway.dev/gpu-utilization": "0s:95%"}
    world = World(
        objects=[
            deployment("web", annotations=busy),
            autoscaler("web", of_pods("gpu_utilization", "70"), high=5),
        ]
    )
    world.run(60)
    assert world.replicas("web") == 5
    assert world.status("web")["currentMetrics"][0]["pods"]["current"] == {"averageValue": "95"}


def test_a_custom_metric_without_an_adapter() -> None:
    world = World(objects=[deployment("web"), autoscaler("web", of_pods("requests", "70"))])
    world.run(30)
    fault = "no custom metrics API (custom.metrics.k8s.io) registered"
    assert any(message.endswith(fault) for _, message in world.said("HorizontalPodAutoscaler"))


def test_two_autoscalers_on_one_target_are_told() -> None:
    load = {"series": [{"name": "depth", "value": 60}]}
    both = [autoscaler(n, external("depth", "10"), target="web") for n in ("a", "b")]
    world = World(load=load, objects=[deployment("web"), *both])
    world.run(120)
    assert world.conditions("b")["ScalingActive"] == ("False", "AmbiguousSelector")


def test_no_such_target_and_a_target_without_scale() -> None:
    lost = autoscaler("lost", cpu(50), target="nobody")
    world = World(objects=[lost])
    other = autoscaler("other", cpu(50))
    other["spec"]["scaleTargetRef"] = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d"}
    world.apply(other)
    world.run(20)
    said = [message for _, message in world.said("HorizontalPodAutoscaler")]
    assert said == ['deployments.apps "nobody" not found', "the server could not find the requested resource"]
    world.apply(deployment("nobody"))
    world.run(30)
    assert world.conditions("lost")["AbleToScale"][0] == "True"


def test_a_world_without_autoscalers_is_not_watched() -> None:
    world = World(objects=[deployment("web")])
    world.run(60)
    assert "Pod" not in world.room.kinds
    assert world.room._index is None


def test_nothing_left_to_look_at_ends_a_run() -> None:
    world = World(load=shared("1"), objects=[deployment("web"), autoscaler("web", cpu(50))])
    world.twin.run()
    assert world.replicas("web") == 2
    assert world.conditions("web")["ScalingActive"] == ("True", "ValidMetricFound")


def test_a_fork_decides_what_the_original_does() -> None:
    world = World(load=shared("0s:1,10m:4,30m:1"), objects=[deployment("web"), autoscaler("web", cpu(50))])
    world.run(700)
    fork = world.twin.fork()
    world.run(3000)
    fork.run_for(3000 * SECOND_US)
    assert fork.digest() == world.twin.digest()
    room = fork.component("autoscaling")
    assert isinstance(room, Autoscaling)
    assert room.journal.scalings == world.room.journal.scalings


@pytest.mark.parametrize("curve", ["0s:1,10m:4,20m:2,40m:6,41m:1", "0s:3,7m:3.2,30m:0.2"])
def test_looks_that_are_left_out_change_nothing(curve: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against a controller that looks every period, as the real one does."""

    def scalings() -> list[object]:
        world = World(load=shared(curve), objects=[deployment("web"), autoscaler("web", cpu(50))])
        world.run(3 * 3600)
        return [*world.room.journal.scalings, world.replicas("web")]

    lazy = scalings()
    monkeypatch.setattr("fairway.twin.autoscaling.horizontal.quiet_until", lambda *a: a[-1])
    assert scalings() == lazy


def test_settings_are_the_controllers() -> None:
    room = Autoscaling(settings=Settings(sync_us=5 * SECOND_US))
    assert isinstance(room.horizontal, Horizontal)
    assert room.horizontal.settings.sync_us == 5 * SECOND_US


def test_a_deleted_autoscaler_is_forgotten() -> None:
    world = World(load=shared("4"), objects=[deployment("web"), autoscaler("web", cpu(50))])
    world.run(5)
    world.twin.store.delete(Key("HorizontalPodAutoscaler.autoscaling", "default", "web"))
    world.twin.wake()
    world.run(100)
    assert world.replicas("web") == 2
    assert world.room.horizontal.entries == {}


def test_a_metric_of_one_object_is_not_that_of_another() -> None:
    def fed(value: int, name: str, namespace: str = "") -> dict[str, object]:
        return {
            "name": "hits",
            "value": value,
            "namespace": namespace,
            "object": {"kind": "Service", "name": name},
        }

    series = [fed(1, "other"), fed(2, "front", "apart"), fed(3, "front", "default"), fed(4, "everywhere")]
    measured = World(load={"series": series}).room.measured

    def told(name: str, namespace: str = "default") -> int:
        return measured.of_object(namespace, "hits", {"kind": "Service", "name": name}, None)

    assert (told("front"), told("front", "apart"), told("everywhere", "apart")) == (3000, 2000, 4000)
    with pytest.raises(MetricsError, match="could not find the metric hits for services none"):
        told("none")
    with pytest.raises(MetricsError, match="could not find the metric hits for services front"):
        told("front", "elsewhere")
