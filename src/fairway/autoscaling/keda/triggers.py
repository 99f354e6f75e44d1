"""What do the scalers of KEDA ask, of whom, and what are their metrics called? A table, and how it is read.

A trigger becomes a `Probe`: the name and target of its metric, from when on it is active, and what to look up.

Source: pkg/scalers/*_scaler.go, pkg/scalers/scalersconfig/typed_config.go.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from fairway.autoscaling.keda.external import Asked, Metric
from fairway.kube.objects import Key
from fairway.kube.quantity import QuantityError, format_milli, milli_ceil

# Where a value comes from.
SERIES, QUEUE, CRON, PODS, RESOURCE = "series", "queue", "cron", "pods", "resource"
EXTERNAL: Final = "external"
EXTERNAL_KINDS: Final = ("external", "external-push")

Metadata = Mapping[str, str]


class TriggerFault(ValueError):
    """A trigger that no scaler can be built of. The text is KEDA's."""


@dataclass(frozen=True, slots=True)
class Scaler:
    """One type of trigger. `target` and `activation`: (parameter, default); a default of "" must be given.

    `metric`: a pattern of the metric's name; `sought`: the parameter that names the queue or query.
    """

    source: str
    metric: str
    sought: str
    target: tuple[str, str]
    activation: tuple[str, str] = ("", "0")
    required: tuple[tuple[str, str], ...] = ()
    """Parameters and where KEDA looks for them, in its words."""


_META: Final = "triggerMetadata"
_HOST: Final = "triggerMetadata authParams resolvedEnv"
_ENV: Final = "triggerMetadata resolvedEnv"

SCALERS: Final[dict[str, Scaler]] = {
    "prometheus": Scaler(
        SERIES,
        "prometheus",
        "query",
        ("threshold", ""),
        ("activationThreshold", "0"),
        (("serverAddress", _META), ("query", _META), ("threshold", _META)),
    ),
    "metrics-api": Scaler(
        SERIES,
        "metric-api-{valueLocation}",
        "valueLocation",
        ("targetValue", ""),
        ("activationTargetValue", "0"),
        (("url", _META), ("valueLocation", _META)),
    ),
    "postgresql": Scaler(
        SERIES,
        "postgresql",
        "query",
        ("targetQueryValue", ""),
        ("activationTargetQueryValue", "0"),
        (("query", _META),),
    ),
    "kafka": Scaler(
        QUEUE,
        "kafka-{topic}",
        "topic",
        ("lagThreshold", "10"),
        ("activationLagThreshold", "0"),
        (("bootstrapServers", _ENV), ("consumerGroup", _ENV)),
    ),
    "rabbitmq": Scaler(
        QUEUE,
        "rabbitmq-{queueName}",
        "queueName",
        ("value", ""),
        ("activationValue", "0"),
        (("queueName", _META), ("host", _HOST)),
    ),
    "redis": Scaler(
        QUEUE,
        "redis-{listName}",
        "listName",
        ("listLength", "5"),
        ("activationListLength", "0"),
        (("listName", _META),),
    ),
    "redis-streams": Scaler(
        QUEUE,
        "redis-streams-{stream}",
        "stream",
        ("pendingEntriesCount", "5"),
        ("activationLagCount", "0"),
        (("stream", _META),),
    ),
    "aws-sqs-queue": Scaler(
        QUEUE,
        "aws-sqs-{queue}",
        "queueURL",
        ("queueLength", "5"),
        ("activationQueueLength", "0"),
        (("queueURL", _ENV), ("awsRegion", "triggerMetadata authParams")),
    ),
    "gcp-pubsub": Scaler(
        QUEUE,
        "gcp-ps-{subscriptionName}",
        "subscriptionName",
        ("value", "10"),
        ("activationValue", "0"),
    ),
    "nats-jetstream": Scaler(
        QUEUE,
        "nats-jetstream-{stream}",
        "stream",
        ("lagThreshold", "10"),
        ("activationLagThreshold", "0"),
        (
            ("stream", _META),
            ("consumer", _META),
            ("natsServerMonitoringEndpoint", "authParams triggerMetadata"),
        ),
    ),
    "cron": Scaler(
        CRON,
        "cron-{timezone}-{start}-{end}",
        "",
        ("", "1"),
        required=tuple((name, _META) for name in ("start", "end", "timezone", "desiredReplicas")),
    ),
    "kubernetes-workload": Scaler(
        PODS,
        "workload-{namespace}",
        "podSelector",
        ("value", ""),
        ("activationValue", "0"),
        (("podSelector", _META),),
    ),
    "cpu": Scaler(RESOURCE, "", "", ("value", "")),
    "memory": Scaler(RESOURCE, "", "", ("value", "")),
}
# What its constructor, and then what reads its parameters, puts before a fault.
_SPOKEN: Final = {
    "prometheus": ("prometheus", "prometheus"),
    "metrics-api": ("metric API", "metrics API"),
    "postgresql": ("postgreSQL", "postgresql"),
    "kafka": ("kafka", "kafka"),
    "rabbitmq": ("RabbitMQ", "RabbitMQ"),
    "redis": ("redis", "redis"),
    "redis-streams": ("redis streams", "redis stream"),
    "aws-sqs-queue": ("SQS queue", "SQS queue"),
    "gcp-pubsub": ("PubSub", "gcp pubsub"),
    "nats-jetstream": ("NATS JetStream", "nats"),
    "kubernetes-workload": ("kubernetes workload", "kubernetes workload"),
    "cron": ("cron", ""),
}
# What is said of a target that is 0, and whether what reads the parameters says it. Others' autoscalers are refused.
_NO_TARGET: Final = {
    "kafka": ('"lagThreshold" must be positive number', True),
    "kubernetes-workload": ("value must be a float greater than 0", True),
    "metrics-api": ("no targetValue given in metadata", False),
    "postgresql": ("no targetQueryValue given", False),
    "rabbitmq": ("value must be specified", True),
}
_WHOLE: Final = ("kafka", "redis", "redis-streams", "aws-sqs-queue", "nats-jetstream", "cron")
"""Whose amounts are int64; others' are float64."""
_JSON_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
_UTILIZATION: Final = (
    "error getting scaler metric type: 'Utilization' metric type is unsupported for external metrics, "
    "allowed values are 'Value' or 'AverageValue'"
)
_ALIASES: Final = {
    "sqs": "aws-sqs-queue",
    "redis-cluster": "redis",
    "redis-sentinel": "redis",
    "apache-kafka": "kafka",
}


@dataclass(frozen=True, slots=True)
class Probe:
    """A trigger, read. Amounts are thousandths; `spec` is the metric of the autoscaler it makes."""

    number: int
    kind: str
    name: str
    source: str
    sought: str
    target_milli: int
    activation_milli: int
    metric: str
    spec: dict[str, Any] = field(hash=False)
    metadata: Mapping[str, str] = field(default_factory=dict, hash=False)
    asked: Asked | None = None
    """Of an external scaler: what it is asked, and `sought` the metric's name as it says it."""


def probe(number: int, trigger: Mapping[str, Any], namespace: str, auth: Mapping[str, str]) -> Probe:
    """`auth`: what its TriggerAuthentication gives. Raises: TriggerFault."""
    kind = _ALIASES.get(trigger.get("type") or "", trigger.get("type") or "")
    scaler = SCALERS.get(kind)
    if scaler is None:
        raise TriggerFault(f"no scaler found for type: {trigger.get('type')}")
    given = {str(k): str(v) for k, v in (trigger.get("metadata") or {}).items()}
    if scaler.source == RESOURCE:
        return _of_resource(number, kind, trigger, given)
    # Unlike KEDA: a prometheus trigger that only names its metric asks for the series of that name.
    if kind == "prometheus" and "query" not in given and "metricName" in given:
        given["query"] = given["metricName"]
        given.setdefault("serverAddress", "http://prometheus:9090")
    if trigger.get("metricType") == "Utilization":
        raise TriggerFault(_UTILIZATION)
    for name, places in scaler.required:
        if not (given.get(name) or auth.get(name) or given.get(f"{name}FromEnv")):
            raise TriggerFault(_before(kind) + f'missing required parameter "{name}" in [{places}]')
    wanted, default = scaler.target
    text = given.get(wanted) or _older(kind, given) or default
    target = _number(kind, wanted, text)
    if kind == "rabbitmq" and not given.get("mode") and not given.get("queueLength"):
        raise TriggerFault(_before(kind) + "mode must be specified")
    if target <= 0 and kind in _NO_TARGET:
        said, is_inside = _NO_TARGET[kind]
        raise TriggerFault(_before(kind, is_inside) + said)
    activation = _number(kind, scaler.activation[0], given.get(scaler.activation[0]) or scaler.activation[1])
    metric = f"s{number}-{_normalized(_name(kind, scaler.metric, given, namespace))}"
    sought = given.get(scaler.sought, "")
    if kind == "aws-sqs-queue":
        sought = sought.rstrip("/").rpartition("/")[2]
    spec = _external(metric, trigger.get("metricType") or "AverageValue", target)
    called = str(trigger.get("name") or "")
    return Probe(number, kind, called, scaler.source, sought, target, activation, metric, spec, given)


def asked_of(
    key: Key, number: int, trigger: Mapping[str, Any], env: Mapping[str, str], auth: Mapping[str, str]
) -> Asked:
    """What a trigger of type external or external-push asks of its scaler. Raises: TriggerFault."""
    given = {str(k): str(v) for k, v in (trigger.get("metadata") or {}).items()}
    if not given.get("scalerAddress"):
        raise TriggerFault(
            "error parsing external scaler metadata: error parsing external scaler metadata: "
            f'missing required parameter "scalerAddress" in [{_META}]'
        )
    told = {k: env.get(v, "") if k.endswith("FromEnv") else v for k, v in given.items()}
    metadata = tuple(sorted((k, v) for k, v in told.items() if v or not k.endswith("FromEnv")))
    is_push = trigger.get("type") == EXTERNAL_KINDS[1]
    return Asked(key, number, given["scalerAddress"], is_push, metadata, tuple(sorted(auth.items())))


def external_probes(asked: Asked, trigger: Mapping[str, Any], metrics: Sequence[Metric]) -> list[Probe]:
    """One for each metric its scaler offers."""
    called, kind = str(trigger.get("name") or ""), trigger.get("metricType") or "AverageValue"
    found = []
    for one in metrics:
        metric = f"s{asked.number}-{one.name}"
        spec = _external(metric, kind, one.target_milli)
        found.append(
            Probe(
                asked.number,
                str(trigger["type"]),
                called,
                EXTERNAL,
                one.name,
                one.target_milli,
                0,
                metric,
                spec,
                dict(asked.metadata),
                asked,
            )
        )
    return found


def _older(kind: str, given: Metadata) -> str:
    """Names that parameters had before."""
    return {"rabbitmq": given.get("queueLength"), "gcp-pubsub": given.get("subscriptionSize")}.get(kind) or ""


def _name(kind: str, pattern: str, given: Metadata, namespace: str) -> str:
    if kind == "cron":
        given = {**given, "start": _cron_text(given["start"]), "end": _cron_text(given["end"])}
    if kind == "kafka" and not given.get("topic"):
        return f"kafka-{given.get('consumerGroup', '')}-topics"
    queue = given.get("queueURL", "").rstrip("/").rpartition("/")[2]
    known = {**given, "queue": queue, "namespace": namespace}
    fill: Callable[[str], str] = lambda name: known.get(name, "")  # noqa: E731
    parts = pattern.split("{")
    return parts[0] + "".join(fill(p.partition("}")[0]) + p.partition("}")[2] for p in parts[1:])


def _cron_text(text: str) -> str:
    for before, after in ((" ", ""), ("*", "x"), ("/", "Sl"), ("?", "Qm"), (",", "Cm")):
        text = text.replace(before, after)
    return text


def _normalized(name: str) -> str:
    for character in "/.:%()":
        name = name.replace(character, "-")
    return name


def _before(kind: str, is_inside: bool = True) -> str:
    outer, inner = _SPOKEN[kind]
    inside = f"error parsing {inner} metadata: " if inner and is_inside else ""
    return f"error parsing {outer} metadata: {inside}"


def _number(kind: str, name: str, text: str) -> int:
    """As Go reads JSON. Raises: TriggerFault."""
    if not text:
        return 0
    found, of = _JSON_NUMBER.match(text), "int64" if kind in _WHOLE else "float64"
    if found is None:
        why = f"invalid character '{text[0]}' looking for beginning of value"
    elif found.end() < len(text):
        why = f"invalid character '{text[found.end()]}' after top-level value"
    elif of == "int64" and (found[1] or found[2]):
        why = f"json: cannot unmarshal number {text} into Go value of type int64"
    else:
        try:
            return milli_ceil(text)
        except QuantityError:
            why = f"json: cannot unmarshal number {text} into Go value of type {of}"
    said = f'unable to set param "{name}" value "{text}": unable to unmarshal to field type {of}: {why}'
    raise TriggerFault(_before(kind) + said)


def _external(metric: str, kind: str, target: int) -> dict[str, Any]:
    member = "value" if kind == "Value" else "averageValue"
    amount = {"type": kind, member: format_milli(target)}
    return {"type": "External", "external": {"metric": {"name": metric}, "target": amount}}


def _of_resource(number: int, kind: str, trigger: Mapping[str, Any], given: Metadata) -> Probe:
    """CPU and memory are not KEDA's to measure: they become metrics of resources."""
    metric_type = trigger.get("metricType") or given.get("type") or ""
    value = given.get("value") or ""
    if metric_type not in ("Utilization", "AverageValue"):
        raise TriggerFault(
            f"error parsing {kind} metadata: unknown metric type: {metric_type}, "
            "allowed values are 'Utilization' or 'AverageValue'"
        )
    target: dict[str, Any] = {"type": metric_type}
    if metric_type == "Utilization":
        if not value.isdigit():
            raise TriggerFault(f'error parsing {kind} metadata: error parsing value "{value}"')
        target["averageUtilization"] = int(value)
    else:
        target["averageValue"] = value
    container = given.get("containerName")
    if container:
        spec = {"name": kind, "container": container, "target": target}
        told = {"type": "ContainerResource", "containerResource": spec}
    else:
        told = {"type": "Resource", "resource": {"name": kind, "target": target}}
    return Probe(number, kind, str(trigger.get("name") or ""), RESOURCE, "", 0, 0, "", told, dict(given))
