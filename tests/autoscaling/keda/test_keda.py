"""KEDA's decisions: metrics' names and targets, bounds, activation, cooldown, fallback, formulas, jobs."""

from __future__ import annotations

import re
from typing import Any

import pytest

from fairway.autoscaling.keda import scaledjobs
from fairway.autoscaling.keda.formulas import CHARS_MOST, FormulaFault, evaluate
from fairway.autoscaling.keda.scaledobjects import (
    Activity,
    autoscaler,
    bounds_fault,
    fallback_value,
    has_fallback,
    paused,
    step,
)
from fairway.autoscaling.keda.triggers import SCALERS, TriggerFault, probe
from fairway.kube.timestamps import SECOND_US


def trigger(kind: str, **metadata: str) -> dict[str, Any]:
    return {"type": kind, "metadata": metadata}


NAMES = {
    "s0-prometheus": trigger("prometheus", serverAddress="http://p", query="up", threshold="5"),
    "s0-aws-sqs-jobs": trigger("aws-sqs-queue", queueURL="https://sqs.x.com/1/jobs", awsRegion="x"),
    "s0-kafka-t": trigger("kafka", bootstrapServers="k:9092", consumerGroup="g", topic="t"),
    "s0-kafka-g-topics": trigger("kafka", bootstrapServers="k:9092", consumerGroup="g"),
    "s0-rabbitmq-q": trigger("rabbitmq", queueName="q", host="amqp://r", mode="QueueLength", value="7"),
    "s0-redis-mine": trigger("redis", listName="mine", address="r:6379"),
    "s0-redis-streams-st": trigger("redis-streams", stream="st", address="r:6379"),
    "s0-gcp-ps-sub": trigger("gcp-pubsub", subscriptionName="sub"),
    "s0-nats-jetstream-st": trigger(
        "nats-jetstream", stream="st", consumer="c", natsServerMonitoringEndpoint="n"
    ),
    "s0-postgresql": trigger("postgresql", query="select 1", targetQueryValue="2"),
    "s0-metric-api-a-b": trigger("metrics-api", url="http://m", valueLocation="a.b", targetValue="2"),
    "s0-workload-team": trigger("kubernetes-workload", podSelector="app=x", value="0.5"),
    "s0-cron-Etc-UTC-09xxx-Sl518xx1-5": trigger(
        "cron", timezone="Etc/UTC", start="0 9 * * *", end="/5 18 * * 1-5", desiredReplicas="3"
    ),
}


@pytest.mark.parametrize("name", NAMES)
def test_names_of_metrics(name: str) -> None:
    assert probe(0, NAMES[name], "team", {}).metric == name


def test_every_scaler_is_tried() -> None:
    kinds = {t["type"] for t in NAMES.values()}
    assert set(SCALERS) - kinds == {"cpu", "memory"}


def test_targets() -> None:
    spec = probe(2, {**NAMES["s0-workload-team"], "metricType": "Value"}, "team", {}).spec
    assert spec["external"]["target"] == {"type": "Value", "value": "500m"}
    spec = probe(1, NAMES["s0-kafka-t"], "team", {}).spec
    assert spec["external"] == {
        "metric": {"name": "s1-kafka-t"},
        "target": {"type": "AverageValue", "averageValue": "10"},
    }
    cpu = probe(0, {"type": "cpu", "metricType": "Utilization", "metadata": {"value": "60"}}, "team", {}).spec
    assert cpu["resource"]["target"] == {"type": "Utilization", "averageUtilization": 60}
    named = {
        "type": "memory",
        "metricType": "AverageValue",
        "metadata": {"value": "1Gi", "containerName": "c"},
    }
    assert probe(0, named, "team", {}).spec["containerResource"]["container"] == "c"


FAULTS = {
    "no scaler found for type: pigeon": trigger("pigeon"),
    'error parsing RabbitMQ metadata: error parsing RabbitMQ metadata: missing required parameter "host" in '
    "[triggerMetadata authParams resolvedEnv]": trigger(
        "rabbitmq", queueName="q", mode="QueueLength", value="20"
    ),
    "error parsing prometheus metadata: error parsing prometheus metadata: missing required parameter "
    '"query" in [triggerMetadata]': trigger("prometheus", serverAddress="http://p", threshold="1"),
    "error parsing SQS queue metadata: error parsing SQS queue metadata: missing required parameter "
    '"awsRegion" in [triggerMetadata authParams]': trigger("aws-sqs-queue", queueURL="u"),
    "error parsing RabbitMQ metadata: error parsing RabbitMQ metadata: mode must be specified": trigger(
        "rabbitmq", queueName="q", host="h", value="20"
    ),
    "error parsing RabbitMQ metadata: error parsing RabbitMQ metadata: value must be specified": trigger(
        "rabbitmq", queueName="q", host="h", mode="QueueLength"
    ),
    "error parsing metric API metadata: no targetValue given in metadata": trigger(
        "metrics-api", url="u", valueLocation="a"
    ),
    "error parsing redis metadata: error parsing redis metadata: unable to set param "
    '"listLength" value "1.5": unable to unmarshal to field type int64: '
    "json: cannot unmarshal number 1.5 into Go value of type int64": trigger(
        "redis", listName="l", listLength="1.5"
    ),
    "error parsing kubernetes workload metadata: error parsing kubernetes workload metadata: "
    "value must be a float greater than 0": trigger("kubernetes-workload", podSelector="a=b", value="0"),
    "error parsing kafka metadata: error parsing kafka metadata: unable to set param "
    '"lagThreshold" value "much": unable to unmarshal to field type int64: '
    "invalid character 'm' looking for beginning of value": trigger(
        "kafka", bootstrapServers="k", consumerGroup="g", lagThreshold="much"
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_triggers_that_are_none(fault: str) -> None:
    with pytest.raises(TriggerFault) as wrong:
        probe(0, FAULTS[fault], "team", {})
    assert str(wrong.value) == fault


def test_what_the_value_of_all_replicas_falls_back_to() -> None:
    spec: dict[str, Any] = {"fallback": {"replicas": 6}}
    assert fallback_value(spec, 10_000, 8, True, 4) == 15_000
    assert fallback_value(spec, 10_000, 8, True, 0) is None
    changed = {**spec, "advanced": {"scalingModifiers": {"formula": "a", "target": "2"}}}
    assert has_fallback(changed) and fallback_value(changed, 10_000, 8, True, 4) == 12_000
    assert not has_fallback({**spec, "advanced": {"scalingModifiers": {"formula": "a", "target": "2.5"}}})


def test_utilization_is_nothing_for_external_metrics() -> None:
    given = {
        **trigger("prometheus", serverAddress="p", query="q", threshold="1"),
        "metricType": "Utilization",
    }
    with pytest.raises(TriggerFault, match="'Utilization' metric type is unsupported for external metrics"):
        probe(0, given, "team", {})


def test_a_secret_gives_what_the_trigger_leaves_out() -> None:
    given = trigger("rabbitmq", queueName="q", mode="QueueLength", value="20")
    assert probe(0, given, "team", {"host": "amqp://r"}).metric == "s0-rabbitmq-q"


def scaled(annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    meta = {"name": "web", "namespace": "team", "uid": "u", "annotations": annotations or {}}
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": meta,
        "spec": {"scaleTargetRef": {"name": "web"}, **spec},
    }


def test_the_autoscaler_it_makes() -> None:
    probes = [probe(0, NAMES["s0-kafka-t"], "team", {}), probe(1, NAMES["s0-prometheus"], "team", {})]
    cpu = probe(2, {"type": "cpu", "metricType": "Utilization", "metadata": {"value": "60"}}, "team", {})
    made = autoscaler(scaled(minReplicaCount=0), "apps/v1", "Deployment", [cpu, *probes])
    assert made["metadata"]["name"] == "keda-hpa-web"
    assert made["metadata"]["labels"]["app.kubernetes.io/part-of"] == "web"
    assert (made["spec"]["minReplicas"], made["spec"]["maxReplicas"]) == (1, 100)
    assert [m["type"] for m in made["spec"]["metrics"]] == ["External", "External", "Resource"]
    selector = made["spec"]["metrics"][0]["external"]["metric"]["selector"]
    assert selector == {"matchLabels": {"scaledobject.keda.sh/name": "web"}}
    changed = scaled(advanced={"scalingModifiers": {"formula": "a + b", "target": "2"}})
    metrics = autoscaler(changed, "apps/v1", "Deployment", [cpu, *probes])["spec"]["metrics"]
    assert [m["type"] for m in metrics] == ["External", "Resource"]
    assert metrics[0]["external"]["metric"]["name"] == "composite-metric"
    held = scaled({"autoscaling.keda.sh/paused-scale-in": "true"})
    made = autoscaler(held, "apps/v1", "Deployment", probes)
    assert made["spec"]["behavior"] == {"scaleDown": {"selectPolicy": "Disabled"}}


def test_bounds_and_pausing() -> None:
    assert bounds_fault({"minReplicaCount": 5, "maxReplicaCount": 2}) == (
        "MinReplicaCount=5 must be less than MaxReplicaCount=2"
    )
    assert bounds_fault({"idleReplicaCount": 2, "minReplicaCount": 2}) == (
        "IdleReplicaCount=2 must be less than MinReplicaCount=2"
    )
    assert bounds_fault({"idleReplicaCount": 0, "minReplicaCount": 2}) == ""
    held = paused(scaled({"autoscaling.keda.sh/paused-replicas": "3"}))
    assert (held.whole, held.replicas) == (True, 3)
    assert not paused(scaled({"autoscaling.keda.sh/paused": "false"})).whole


ON, OFF, BROKEN = Activity(True, False, ("t",)), Activity(False, False), Activity(False, True)
NOW = 10_000 * SECOND_US
STEPS: dict[str, tuple[Activity, dict[str, Any], int, int | None, int | None, str]] = {
    "activity wakes it": (ON, {}, 0, None, 1, "ScalerActive"),
    "to its minimum": (ON, {"minReplicaCount": 3}, 0, None, 3, "ScalerActive"),
    "from idle": (ON, {"minReplicaCount": 3, "idleReplicaCount": 1}, 1, None, 3, "ScalerActive"),
    "it is awake": (ON, {}, 4, None, None, "ScalerActive"),
    "it cools down": (OFF, {}, 4, NOW - 299 * SECOND_US, None, "ScalerCooldown"),
    "it is cool": (OFF, {}, 4, NOW - 301 * SECOND_US, 0, "ScalerNotActive"),
    "its own cooldown": (OFF, {"cooldownPeriod": 10}, 4, NOW - 11 * SECOND_US, 0, "ScalerNotActive"),
    "down to idle": (OFF, {"minReplicaCount": 3, "idleReplicaCount": 1}, 5, NOW // 2, 1, "ScalerNotActive"),
    "a minimum is the autoscaler's": (OFF, {"minReplicaCount": 2}, 5, NOW // 2, None, "ScalerNotActive"),
    "up to the minimum": (OFF, {"minReplicaCount": 2}, 1, NOW // 2, 2, "ScalerNotActive"),
    "never active, the initial cooldown goes on": (
        OFF,
        {"initialCooldownPeriod": 20_000},
        4,
        None,
        None,
        "ScalerCooldown",
    ),
    "errors leave it": (BROKEN, {}, 4, NOW // 2, None, "ScalerNotActive"),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_poll(name: str) -> None:
    activity, spec, current, last, want, reason = STEPS[name]
    found = step(scaled(**spec), activity, current, 0, last, NOW)
    assert found.replicas == want
    assert found.active is not None
    assert found.active[1] == reason
    assert (found.ready is not None) == (name == "errors leave it")


@pytest.mark.parametrize(
    ("behavior", "want"),
    [
        ("static", 60_000),
        ("currentReplicas", 80_000),
        ("currentReplicasIfHigher", 80_000),
        ("currentReplicasIfLower", 60_000),
        ("scalingModifiers", None),
    ],
)
def test_fallback(behavior: str, want: int | None) -> None:
    assert fallback_value({"fallback": {"replicas": 6, "behavior": behavior}}, 10_000, 8, False, 8) == want


FORMULAS = {
    "a + b * 2": 7.0,
    "(a + b) / 2": 2.0,
    "a > 2 ? a : b": 3.0,
    "max(a, b, 2)": 3.0,
    "sum([a, b, 1.5])": 6.5,
    "c ?? 9": 9.0,
    "a > 2 && !(b > 2) ? 1 : 0": 1.0,
    "-a ** 2": 9.0,
    "ceil(b / 3)": 1.0,
    "median([a, b, 9])": 3.0,
}


@pytest.mark.parametrize("formula", FORMULAS)
def test_formulas(formula: str) -> None:
    values: dict[str, float | None] = {"a": 3.0, "b": 2.0 if formula != "(a + b) / 2" else 1.0, "c": None}
    assert evaluate(formula, values) == FORMULAS[formula]


@pytest.mark.parametrize(
    "formula",
    ["", "a +", "a ; b", "unknown", "exec(a)", "a / 0", "1 2", "c + 1", "(" * 200, "1+" * CHARS_MOST],
)
def test_what_is_no_formula(formula: str) -> None:
    with pytest.raises(FormulaFault):
        evaluate(formula, {"a": 1.0, "c": None})


JOBS: dict[str, tuple[dict[str, Any], int, int, int, int]] = {
    "one a message": ({}, 10, 0, 0, 10),
    "less those that run": ({}, 10, 4, 0, 6),
    "at most so many": ({"maxReplicaCount": 3}, 10, 0, 0, 3),
    "accurate: less those that wait": ({"scalingStrategy": {"strategy": "accurate"}}, 10, 4, 1, 9),
    "accurate, near the maximum": (
        {"maxReplicaCount": 10, "scalingStrategy": {"strategy": "accurate"}},
        10,
        4,
        1,
        6,
    ),
    "eager": ({"maxReplicaCount": 10, "scalingStrategy": {"strategy": "eager"}}, 6, 3, 1, 6),
    "custom": (
        {
            "scalingStrategy": {
                "strategy": "custom",
                "customScalingQueueLengthDeduction": 1,
                "customScalingRunningJobPercentage": "0.5",
            }
        },
        10,
        4,
        0,
        7,
    ),
    "a minimum": ({"minReplicaCount": 2}, 0, 0, 0, 2),
}


@pytest.mark.parametrize("name", JOBS)
def test_jobs(name: str) -> None:
    spec, length, running, pending, want = JOBS[name]
    demand = scaledjobs.demand(spec, [scaledjobs.asked([length * 1000], 1000, length > 0, spec)])
    assert scaledjobs.to_create(spec, demand, running, pending) == want


@pytest.mark.parametrize(("how", "want"), [("max", 8), ("min", 2), ("avg", 5), ("sum", 10)])
def test_several_triggers_of_a_job(how: str, want: int) -> None:
    spec = {"scalingStrategy": {"multipleScalersCalculation": how}}
    asked = [scaledjobs.asked([n * 1000], 1000, True, spec) for n in (2, 8)]
    assert scaledjobs.demand(spec, asked).jobs == want


@pytest.mark.parametrize(
    ("formula", "wanted"),
    [
        ("sum(map([2, 3], {# * 2}))", 10),
        ("sum([1, 2], {# + 1})", 5),
        ("len(filter([1, 2, 3], {# > 1}))", 2),
        ("any([0, 2], {# > 1}) ? 1 : 0", 1),
        ("all([0, 2], {# > 1}) ? 1 : 0", 0),
        ("none([], {# > 1}) ? 1 : 0", 1),
        ("one([0, 2], {# > 1}) ? 1 : 0", 1),
        ("count([1, 2], {count([3, 4], {# > 3}) == # }) + 0", 1),
        ("2 in [1, 2] ? 7 : 0", 7),
        ("a == 0 ? 5 : 10 / a", 5),
    ],
)
def test_lists_in_formulas(formula: str, wanted: float) -> None:
    assert evaluate(formula, {"a": 0.0}) == wanted


@pytest.mark.parametrize(
    ("formula", "said"),
    [
        ("1 / 0", "comes to inf"),
        ("count(1, {# > 0})", "expects a list and a predicate"),
        ("# + 1", "unknown name #"),
        ("count([1], {# > 0)", "expected }"),
        (f"count([{'1,' * 300}1], {{count([{'1,' * 300}1], {{# > 0}}) > 0}})", "at most at 20000 values"),
    ],
)
def test_formulas_that_come_to_nothing(formula: str, said: str) -> None:
    with pytest.raises(FormulaFault, match=re.escape(said)):
        evaluate(formula, {})
