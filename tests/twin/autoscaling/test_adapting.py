"""Prometheus Adapter in a twin: what its rules make of series, and autoscalers that go by it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from scalingworld import World, deployment, node

from fairway.autoscaling.load.reading import read_load
from fairway.autoscaling.source import MetricsError
from fairway.kube.labelparsing import parse_selector
from fairway.kube.objects import Obj
from fairway.kube.timestamps import MINUTE_US
from fairway.twin.autoscaling.adapting import (
    AdapterFault,
    _label_of,
    _metric_of,
    _passes,
    _resource_of,
    read_adapter,
)
from fairway.twin.autoscaling.component import Autoscaling
from fairway.twin.latency import NONE
from fairway.twin.twin import EPOCH_US, Twin

RATE = """
rules:
- seriesQuery: 'DCGM_FI_DEV_GPU_UTIL{namespace!="",pod!=""}'
  resources: {overrides: {namespace: {resource: namespace}, pod: {resource: pod}}}
  name: {matches: ^DCGM_FI_DEV_(.*)$, as: "gpu_${1}_avg"}
  metricsQuery: avg(avg_over_time(<<.Series>>{<<.LabelMatchers>>}[2m])) by (<<.GroupBy>>)
- seriesQuery: 'hits_total'
  resources: {template: <<.Resource>>}
  name: {matches: (.*)_total}
  metricsQuery: sum(rate(<<.Series>>{<<.LabelMatchers>>}[5m])) by (<<.GroupBy>>)
externalRules:
- seriesQuery: '{__name__=~"^http_.*"}'
  seriesFilters: [{isNot: _errors_}]
  resources: {namespaced: false}
  name: {matches: ^(.*)_total$, as: "${1}_per_second"}
  metricsQuery: sum(rate(<<.Series>>{<<.LabelMatchers>>}[2m]))
"""


def adapter(text: str) -> Obj:
    meta = {"name": "prometheus-adapter", "namespace": "monitoring"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"config.yaml": text}}


def autoscaler(*metrics: dict[str, Any]) -> Obj:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 20, "metrics": list(metrics)}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web"},
        "spec": spec,
    }


LOAD = {
    "series": [
        {"name": "http_requests_total", "labels": {"service": "a"}, "perSecond": "0s:20,20m:90"},
        {"name": "http_requests_total", "labels": {"service": "b"}, "perSecond": 500},
        {"name": "http_errors_total", "perSecond": 7},
        {"name": "hits_total", "labels": {"service": "front"}, "namespace": "default", "perSecond": 60},
    ]
}


def test_an_external_metric_of_a_query() -> None:
    chosen = {"matchLabels": {"service": "a"}}
    metric = {"name": "http_requests_per_second", "selector": chosen}
    told = {
        "type": "External",
        "external": {"metric": metric, "target": {"type": "AverageValue", "averageValue": 10}},
    }
    world = World(load=LOAD, objects=[adapter(RATE), deployment("web"), autoscaler(told)])
    world.run(900)
    assert world.replicas("web") == 2
    world.run(900)
    assert world.replicas("web") == 9
    assert world.room.metric_names(of_objects=False)[:2] == ["hits_total", "http_errors_total"]
    assert "http_requests_per_second" in world.room.metric_names(of_objects=False)
    assert not any(name.startswith("http_errors_per") for name in world.room.metric_names(of_objects=False))


def test_a_metric_of_an_object() -> None:
    described = {"apiVersion": "v1", "kind": "Service", "name": "front"}
    target = {"type": "Value", "value": 20}
    told = {
        "type": "Object",
        "object": {"metric": {"name": "hits"}, "describedObject": described, "target": target},
    }
    world = World(load=LOAD, objects=[adapter(RATE), deployment("web", 1), autoscaler(told)])
    world.run(600)
    measured = world.room.measured
    assert measured.of_object("default", "hits", described, None) == pytest.approx(60_000, abs=2)
    assert "services/hits" in world.room.metric_names(of_objects=True)
    # Three times what it should be, whatever the number of pods: it grows to its most.
    assert world.replicas("web") == 20


def test_what_pods_gpus_do() -> None:
    web = deployment("web")
    template: dict[str, Any] = web["spec"]["template"]
    template["metadata"]["annotations"] = {"fairway.dev/gpu-utilization": "80"}
    template["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    target = {"type": "AverageValue", "averageValue": 40}
    told = {"type": "Pods", "pods": {"metric": {"name": "gpu_GPU_UTIL_avg"}, "target": target}}
    board = node("gpu-0")
    board["metadata"]["labels"] = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    world = World(nodes=0, objects=[board, adapter(RATE), web, autoscaler(told)])
    world.run(900)
    current = world.status("web")["currentMetrics"][0]["pods"]["current"]["averageValue"]
    assert (
        75_000 <= int(str(current).removesuffix("m")) * (1 if str(current).endswith("m") else 1000) <= 85_000
    )
    # Twice what each should be: it grows beyond the eight that have a GPU.
    assert world.replicas("web") > 8


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rules: 3", "rules: expected a list"),
        ("- a", "expected a mapping"),
        ("rules: [{seriesQuery: a}]", "rules[0]: metricsQuery: expected a query"),
        ("rules: [{metricsQuery: a, name: {matches: '(a'}}]", "rules[0]: "),
        (
            "rules: [{seriesQuery: x, metricsQuery: a, name: {matches: '(a)(b)'}}]",
            'must specify an \'as\' value for name matcher "(a)(b)" associated with series query "x"',
        ),
        (
            "rules: [{metricsQuery: a, seriesFilters: [{is: a, isNot: b}]}]",
            'cannot have both an `is` ("a") and `isNot` ("b") expression in a single filter',
        ),
        ("rules: [{metricsQuery: a, seriesFilters: [{}]}]", "must have either an `is` or `isNot` expression"),
        ("rules: [{metricsQuery: a, seriesFilters: [{is: '('}]}]", 'unable to compile series filter "("'),
        ("rules: [{metricsQuery: a, resources: {template: x}}]", "must include at least `{{.Resource}}`"),
        ("rules: [{metricsQuery: a, resources: {template: x.Resource}}]", "at least `{{.Resource}}` in the"),
        (
            "rules: [{metricsQuery: a, resources: {template: '(<<.Resource>>'}}]",
            "unable to convert label template to matcher: error parsing regexp: missing closing )",
        ),
        (
            "rules: [{metricsQuery: a, resources: {overrides: {x: {resource: thing}}}}]",
            "unable to map resource",
        ),
    ],
)
def test_what_is_wrong_with_rules(text: str, said: str) -> None:
    with pytest.raises(AdapterFault) as wrong:
        read_adapter(text)
    assert said in str(wrong.value)


def test_an_adapter_that_cannot_be_read_is_told_and_gone() -> None:
    world = World(load=LOAD, objects=[adapter("rules: 3")])
    world.run(5)
    assert ("InvalidConfig", "config.yaml: rules: expected a list of at most 1000 rules") in world.said(
        "ConfigMap"
    )
    assert len(world.room.adapter) == 0
    world.apply(adapter(RATE))
    world.run(5)
    assert len(world.room.adapter) == 1


PLAIN = """
rules:
- seriesQuery: 'hits_total{service!=""}'
  resources: {template: <<.Resource>>}
  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)
externalRules:
- {seriesQuery: depth, resources: {namespaced: false}, metricsQuery: 'sum(<<.Series>>{<<.LabelMatchers>>})'}
- seriesQuery: length
  resources: {overrides: {namespace: {resource: namespace}}}
  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>})
"""


def test_rules_that_rename_nothing_and_those_of_every_namespace() -> None:
    series = [
        {"name": "depth", "namespace": "a", "value": 3},
        {"name": "depth", "namespace": "b", "value": 4},
        {"name": "length", "namespace": "a", "value": 5},
        {"name": "length", "namespace": "b", "value": 6},
        {"name": "hits_total", "labels": {"service": "front"}, "namespace": "a", "value": 7},
    ]
    twin = Twin(latency=NONE, components=[Autoscaling(read_load({"series": series}))])
    twin.apply([adapter(PLAIN)])
    twin.run_for(MINUTE_US)
    room = twin.component("autoscaling")
    assert isinstance(room, Autoscaling)
    assert room.adapter.names(of_objects=False) == ["depth", "length"]
    assert room.adapter.names(of_objects=True) == ["namespaces/hits_total", "services/hits_total"]
    room.measured.begin()
    assert room.measured.external("a", "depth", None) == [7000], "of both namespaces"
    assert room.measured.external("a", "length", None) == [5000]
    assert room.measured.external("b", "length", None) == [6000]
    front = {"kind": "Service", "name": "front"}
    assert room.measured.of_object("a", "hits_total", front, None) == 7000


OBJECTS = """
rules:
- seriesQuery: 'rps{service!=""}'
  resources: {template: <<.Resource>>}
  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)
- seriesQuery: 'rps{pod!=""}'
  resources: {template: <<.Resource>>}
  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)
- {seriesQuery: 'queue', metricsQuery: 'sum(<<.Series>>{<<.LabelMatchers>>}) by (kind)'}
- {seriesQuery: 'broken', resources: {template: <<.Resource>>}, metricsQuery: 'sum('}
externalRules:
- {seriesQuery: rps, resources: {namespaced: false}, metricsQuery: 'sum(<<.Series>>{<<.LabelMatchers>>}) by (tier)'}
- {seriesQuery: 'rps + 1', metricsQuery: 'vector(1)', name: {as: sums}}
- {seriesQuery: 'rps{', metricsQuery: 'vector(1)', name: {as: halves}}
"""
RPS = (
    ("a", {"service": "front", "tier": "one"}, 1),
    ("a", {"service": "back", "tier": "two"}, 2),
    ("b", {"service": "front", "tier": "two"}, 4),
    ("a", {"pod": "p", "tier": "one"}, 8),
    ("b", {"pod": "p"}, 16),
)


def adapted(*more: dict[str, Any]) -> Autoscaling:
    series = [{"name": "rps", "namespace": n, "labels": labels, "value": v} for n, labels, v in RPS]
    series += [{"name": "broken", "labels": {"service": "x"}, "value": 1}, *more]
    twin = Twin(latency=NONE, components=[Autoscaling(read_load({"series": series}))])
    twin.apply([adapter(OBJECTS)])
    twin.run_for(MINUTE_US)
    room = twin.component("autoscaling")
    assert isinstance(room, Autoscaling)
    return room


@pytest.mark.parametrize(
    ("resource", "namespace", "names", "chosen", "found"),
    [
        ("services", "a", ("front",), "", {"front": 1}),
        ("services", "a", ("front", "back"), "", {"back": 2, "front": 1}),
        ("services", "a", (), "", {"back": 2, "front": 1}),
        ("services", "b", ("front", "back"), "", {"front": 4}),
        ("services", "c", ("front",), "", {}),
        ("services", "a", ("front", "back"), "tier=two", {"back": 2}),
        ("services", "a", ("front", "back"), "tier!=two", {"front": 1}),
        ("services", "a", ("front", "back"), "tier in (one,three)", {"front": 1}),
        ("services", "a", ("front", "back"), "tier notin (one,three)", {"back": 2}),
        ("services", "a", ("front", "back"), "tier", {"back": 2, "front": 1}),
        ("services", "a", ("front", "back"), "!tier", {}),
        ("pods", "a", ("p", "q"), "", {"p": 8}),
        ("pods", "b", ("p",), "tier", {}),
        ("pods", "b", ("p",), "!tier", {"p": 16}),
        # Of namespaces themselves none is asked for but by name, and whatever is in them counts.
        ("namespaces", "a", ("b",), "", {"b": 20}),
        ("namespaces", "", (), "", {"a": 11, "b": 20}),
        ("deployments.apps", "a", ("front",), "", None),
    ],
)
def test_objects_of_a_kind_in_a_namespace_by_name_and_selector(
    resource: str, namespace: str, names: tuple[str, ...], chosen: str, found: dict[str, int] | None
) -> None:
    selector = parse_selector(chosen) if chosen else None
    told = adapted().adapter.of_resource(resource, namespace, "rps", names, selector)
    got = None if told is None else {name: one.milli // 1000 for name, one in told.items()}
    assert got == found
    assert adapted().adapter.of_resource(resource, namespace, "lag", names, selector) is None


def test_external_ones_have_every_element_and_odd_rules_give_none() -> None:
    room = adapted()
    told = room.adapter.external("a", "rps", None) or []
    assert sorted((dict(one.labels).get("tier", ""), one.milli) for one in told) == [
        *(("", 16_000), ("one", 9000), ("two", 6000)),
    ]
    told = room.adapter.external("a", "rps", parse_selector("tier=one")) or []
    assert [(one.labels, one.milli) for one in told] == [((("tier", "one"),), 9000)]
    for name in ("sums", "halves", "queue"):
        assert room.adapter.external("a", name, None) is None
    assert room.adapter.names(of_objects=False) == ["rps"]
    assert room.adapter.names(of_objects=True) == [
        *("namespaces/rps", "pods/rps", "services/broken", "services/rps"),
    ]
    with pytest.raises(MetricsError, match="Internal error occurred: unable to fetch metrics"):
        room.adapter.of_resource("services", "a", "broken", ("x",), None)
    # Steps of what it goes by end what it says.
    stepping = {"name": "rps", "namespace": "a", "labels": {"service": "step"}, "value": "0s:1,5m:2"}
    (one,) = (adapted(stepping).adapter.of_resource("services", "a", "rps", ("step",), None) or {}).values()
    assert (one.milli, one.until_us) == (1000, EPOCH_US + 5 * MINUTE_US)


@pytest.mark.parametrize(
    ("name", "series", "metric"),
    [
        ({}, "a_total", "a_total"),
        ({"matches": "^b"}, "a_total", ""),
        ({"matches": "^(.*)_total$"}, "a_total", "a"),
        ({"matches": "^(.*)_total$", "as": "x_$1"}, "a_total", "x_a"),
        ({"matches": "^(.*)_total$", "as": "${1}_y"}, "a_total", "a_y"),
        ({"matches": "^(?P<what>.*)_(?P<how>total)$", "as": "${how}_of_${what}"}, "a_total", "total_of_a"),
        ({"matches": "^(a)(b)?", "as": "$1-$2-$3-${none}"}, "a_total", "a---"),
    ],
)
def test_what_a_series_is_called_as_a_metric(name: dict[str, str], series: str, metric: str) -> None:
    (rule,), _ = read_adapter(json.dumps({"rules": [{"name": name, "metricsQuery": "a"}]}))
    assert _metric_of(rule, series) == metric


@pytest.mark.parametrize(
    ("filters", "passes"),
    [
        ([], "a_errors a_total"),
        ([{"is": "_errors"}], "a_errors"),
        ([{"isNot": "_errors"}], "a_total"),
        ([{"is": "^a"}, {"isNot": "l$"}], "a_errors"),
        ([{"is": "^b"}], ""),
    ],
)
def test_which_series_pass_its_filters(filters: list[dict[str, str]], passes: str) -> None:
    (rule,), _ = read_adapter(json.dumps({"rules": [{"seriesFilters": filters, "metricsQuery": "a"}]}))
    assert " ".join(name for name in ("a_errors", "a_total") if _passes(rule, name)) == passes


@pytest.mark.parametrize(
    ("resources", "labels", "resources_of"),
    [
        (
            {"template": "kube_<<.Resource>>_x"},
            {"pods": "kube_pod_x", "deployments": "kube_deployment_x"},
            {"kube_pod_x": "pods", "kube_pod_y": "", "pod": ""},
        ),
        (
            {"template": "kube_<<.Group>>_<<.Resource>>"},
            {
                "deployments": "kube_apps_deployment",
                "rayclusters": "kube_ray_io_raycluster",
                "pods": "kube__pod",
            },
            {
                "kube_apps_deployment": "deployments",
                "kube_apps_pod": "",
                "kube_deployment": "",
                "kube__pod": "",
            },
        ),
        (
            {"template": "<<.Resource>>", "overrides": {"ns": {"resource": "namespace"}}},
            {"namespaces": "ns", "pods": "pod"},
            {"ns": "namespaces", "pod": "pods", "namespace": "", "nothing": ""},
        ),
        (
            {"overrides": {"ns": {"resource": "namespace"}}},
            {"namespaces": "ns", "pods": ""},
            {"pod": "", "ns": "namespaces"},
        ),
    ],
)
def test_which_label_says_what_a_series_is_about(
    resources: dict[str, Any], labels: dict[str, str], resources_of: dict[str, str]
) -> None:
    (rule,), _ = read_adapter(json.dumps({"rules": [{"resources": resources, "metricsQuery": "a"}]}))
    assert {plural: _label_of(rule, plural) for plural in labels} == labels
    assert {label: _resource_of(rule, label) for label in resources_of} == resources_of
