"""What do the scalers of KEDA ask, of whom, and what are their metrics called? A table, and how it is read.

A trigger becomes a `Probe`: the name and target of its metric, from when on it is active, and what to look up.

Source: pkg/scalers/*_scaler.go, pkg/scalers/scalersconfig/typed_config.go.
"""

from __future__ import annotations

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
        ("value", "20"),
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
_SPOKEN: Final = {
    "aws-sqs-queue": "SQS",
    "kubernetes-workload": "kubernetes workload",
    "metrics-api": "metric API",
}
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
    spoken = _SPOKEN.get(kind, kind.split("-")[0] if kind.startswith("redis") else kind)
    for name, places in scaler.required:
        if not (given.get(name) or auth.get(name) or given.get(f"{name}FromEnv")):
            raise TriggerFault(
                f'error parsing {spoken} metadata: missing required parameter "{name}" in [{places}]'
            )
    wanted, default = scaler.target
    text = given.get(wanted) or _older(kind, given) or default
    target = _number(kind, wanted, text)
    if target <= 0:
        raise TriggerFault(f"error parsing {spoken} metadata: {wanted} must be greater than 0")
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


def _number(kind: str, name: str, text: str) -> int:
    try:
        return milli_ceil(text) if text else 0
    except QuantityError:
        raise TriggerFault(
            f'error parsing {kind} metadata: unable to set param "{name}" value "{text}": not a number'
        ) from None


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
