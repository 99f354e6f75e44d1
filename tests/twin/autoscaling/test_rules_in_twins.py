"""Rules that act while a twin runs: what scales asks for their records and alerts, and Alertmanagers tell."""

from __future__ import annotations

from typing import Any

from scalingworld import World, deployment, node
from test_queries_in_twins import number, requests, scaled

from fairway.kube.objects import Obj
from fairway.telemetry.store import Matcher
from fairway.twin.queries import TwinSource, ask
from fairway.twin.rules.component import Rules, rules_part


def rules(*rules_: dict[str, Any], name: str = "rules") -> Obj:
    groups = [{"name": "g", "interval": "30s", "rules": list(rules_)}]
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"groups": groups},
    }


RATE = {"record": "web:requests:rate2m", "expr": "sum(rate(http_requests_total[2m]))"}
BUSY = {"alert": "Busy", "expr": "web:requests:rate2m > 50", "for": "5m", "labels": {"severity": "page"}}


def part(world: World) -> Rules:
    found = rules_part(world.twin.host.parts)
    assert found is not None
    return found


def firings(world: World) -> list[tuple[str, str]]:
    return [(r, m) for r, m in world.said("PrometheusRule") if r.startswith("Alert")]


def test_a_record_scales() -> None:
    objects = [rules(RATE), deployment("web"), scaled("web:requests:rate2m", "10")]
    world = World(load=requests("0s:20,20m:90"), objects=objects)
    world.run(900)
    assert world.replicas("web") == 2
    world.run(900)
    assert world.replicas("web") == 9


def test_an_alert_scales_at_its_moment() -> None:
    query = 'count(ALERTS{alertname="Busy",alertstate="firing"}) * 40'
    objects = [rules(RATE, BUSY), deployment("web"), scaled(query, "10")]
    world = World(load=requests("0s:20,20m:90,40m:20"), objects=objects)
    # Above 50 within two minutes of 20 min, and five more until it fires.
    world.run(1440)
    assert world.replicas("web") == 1 and firings(world) == []
    world.run(210)
    assert world.replicas("web") == 4 and firings(world) == [("AlertFiring", "Busy")]
    world.run(1500)
    assert firings(world)[-1] == ("AlertResolved", "Busy")
    assert world.replicas("web") == 1


def test_a_copy_goes_on_alike_and_alone() -> None:
    objects = [rules(RATE, BUSY), deployment("web"), scaled("web:requests:rate2m", "10")]
    world = World(load=requests("0s:20,20m:90"), objects=objects)
    world.run(600)
    copy = world.twin.fork()
    copy.run_for(1_200_000_000)
    before = len(part(world).alerts())
    world.run(1200)
    found = ask(copy.host, "web:requests:rate2m").result
    assert not isinstance(found, str)
    assert found.values.tolist() == [[number(world, "web:requests:rate2m")]]  # type: ignore[union-attr]
    assert before == 0 and [a.rule.alert for a in part(world).alerts()] == ["Busy"]
    assert copy.digest() == world.twin.digest()


def test_nothing_is_done_where_nobody_asks() -> None:
    world = World(load=requests("20"), objects=[rules(RATE, BUSY), deployment("web"), scaled("busy", "10")])
    world.run(900)
    other = World(load=requests("20"), objects=[deployment("web"), scaled("busy", "10")])
    other.run(900)
    assert world.twin.loop.handled == other.twin.loop.handled
    assert part(world).alerts() == []


def test_an_alertmanager_tells_in_a_simulation() -> None:
    manager = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "Alertmanager",
        "metadata": {"name": "main", "namespace": "default"},
        "spec": {"alertmanagerConfigSelector": {}, "alertmanagerConfigMatcherStrategy": {"type": "None"}},
    }
    hook = {"name": "hook", "webhookConfigs": [{"url": "http://x.example"}]}
    config = {
        "apiVersion": "monitoring.coreos.com/v1alpha1",
        "kind": "AlertmanagerConfig",
        "metadata": {"name": "own", "namespace": "default"},
        "spec": {"receivers": [hook], "route": {"receiver": "hook", "groupWait": "45s"}},
    }
    world = World(load=requests("90"), objects=[rules(RATE, BUSY), manager, config, deployment("web")])
    part(world).until_us = world.twin.now_us + 600_000_000
    world.run(600)
    ((who, note),) = part(world).notes
    assert (who, note.receiver) == ("default/main", "default/own/hook")
    (alert,) = note.firing
    assert alert.fired_ms is not None and note.at_ms == alert.fired_ms + 45_000
    assert firings(world) == [("AlertFiring", "Busy")]
    assert alert.fired_ms - alert.active_ms == 300_000


def test_a_twin_with_rules_comes_to_its_end() -> None:
    manager = {"apiVersion": "monitoring.coreos.com/v1", "kind": "Alertmanager"}
    world = World(
        nodes=0, objects=[{**manager, "metadata": {"name": "m", "namespace": "default"}, "spec": {}}]
    )
    world.apply(rules({"alert": "Always", "expr": "vector(1)"}))
    assert world.twin.loop.run_until_idle(100_000) < 100_000


def test_answers_hold_until_what_they_are_of_is_another() -> None:
    """Records until the next evaluation, at whole half minutes; what is scraped until the scrape after the next."""
    world = World(load=requests("5"), objects=[rules(RATE), deployment("web")])
    board = node("gpu-0")
    board["metadata"]["labels"] = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    world.apply(board)
    world.run(167)
    now_us, host = world.twin.now_us, world.twin.host
    wanted = {
        "web:requests:rate2m": (now_us // 30_000_000 + 1) * 30_000_000,
        "kube_node_info": now_us + 30_000_000,
        "DCGM_FI_DEV_GPU_UTIL": now_us + 30_000_000,
    }
    assert {query: ask(host, query).until_us for query in wanted} == wanted
    assert ask(host, "kube_node_info + on() group_left() web:requests:rate2m").until_us == min(
        wanted.values()
    )


def test_what_is_of_now_has_one_sample_a_series_and_evaluations_see_no_records() -> None:
    world = World(load=requests("5", "6"), objects=[rules(RATE)])
    world.run(167)
    now_ms, host = world.twin.now_us // 1000, world.twin.host

    def times(name: str, *, is_of_now: bool) -> list[list[int]]:
        source = TwinSource(host)
        source.is_of_now = is_of_now
        found = list(source.select([Matcher("__name__", "=", name)], now_ms - 60_000, now_ms))
        return [[now_ms - int(t) for t in one.times] for one in found]

    assert times("http_requests_total", is_of_now=True) == [[0], [0]]
    assert times("http_requests_total", is_of_now=False) == [[60_000, 45_000, 30_000, 15_000, 0]] * 2
    for with_rules in (True, False):
        source = TwinSource(host, with_rules)
        list(source.select([Matcher("__name__", "=", "web:requests:rate2m")], now_ms, now_ms))
        assert source.missing == (set() if with_rules else {"web:requests:rate2m"})
