"""The messages of externalscaler.proto, written and read by hand, beside Google's own protobuf."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from fairway.autoscaling.keda.external import (
    MOST_METRICS,
    Asked,
    Metric,
    ScalerFault,
    metrics_request,
    read_active,
    read_metrics,
    read_value,
    scaled_object_ref,
)
from fairway.kube.objects import Key

STRING, INT64, DOUBLE, BOOL, MESSAGE = 9, 3, 1, 8, 11
# kedacore/keda pkg/scalers/externalscaler/externalscaler.proto: name, number, type, message, repeated.
PROTO: dict[str, list[tuple[str, int, int, str, bool]]] = {
    "Pair": [("key", 1, STRING, "", False), ("value", 2, STRING, "", False)],
    "ScaledObjectRef": [
        ("name", 1, STRING, "", False),
        ("namespace", 2, STRING, "", False),
        ("scalerMetadata", 3, MESSAGE, "Pair", True),
    ],
    "IsActiveResponse": [("result", 1, BOOL, "", False)],
    "MetricSpec": [
        ("metricName", 1, STRING, "", False),
        ("targetSize", 2, INT64, "", False),
        ("targetSizeFloat", 3, DOUBLE, "", False),
    ],
    "GetMetricSpecResponse": [("metricSpecs", 1, MESSAGE, "MetricSpec", True)],
    "GetMetricsRequest": [
        ("scaledObjectRef", 1, MESSAGE, "ScaledObjectRef", False),
        ("metricName", 2, STRING, "", False),
    ],
    "MetricValue": [
        ("metricName", 1, STRING, "", False),
        ("metricValue", 2, INT64, "", False),
        ("metricValueFloat", 3, DOUBLE, "", False),
    ],
    "GetMetricsResponse": [("metricValues", 1, MESSAGE, "MetricValue", True)],
}


def _classes() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="scaler.proto", package="x", syntax="proto3")
    for name, fields in PROTO.items():
        message = file.message_type.add(name=name)
        for field, number, kind, of, repeated in fields:
            message.field.add(
                name=field,
                number=number,
                type=kind,
                type_name=f".x.{of}" if of else None,
                label=3 if repeated else 1,
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {n: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"x.{n}")) for n in PROTO}


OURS = _classes()
NAMES = st.text(st.characters(codec="utf-8", categories=("L", "N")), min_size=1, max_size=60)


def _asked(name: str, namespace: str, metadata: dict[str, str]) -> Asked:
    return Asked(
        Key("ScaledObject.keda.sh", namespace, name), 0, "a:1", False, tuple(sorted(metadata.items()))
    )


@given(NAMES, NAMES, st.dictionaries(NAMES, st.text(max_size=200), max_size=8), NAMES)
def test_requests_are_read_by_protobuf(
    name: str, namespace: str, metadata: dict[str, str], metric: str
) -> None:
    ref = scaled_object_ref(_asked(name, namespace, metadata))
    read = OURS["GetMetricsRequest"].FromString(metrics_request(ref, metric))
    assert (read.metricName, read.scaledObjectRef.name, read.scaledObjectRef.namespace) == (
        metric,
        name,
        namespace,
    )
    assert {p.key: p.value for p in read.scaledObjectRef.scalerMetadata} == metadata


@given(st.lists(st.tuples(NAMES, st.integers(1, 2**40), st.floats(0, 1e9)), max_size=MOST_METRICS))
def test_metrics_of_protobuf_are_read(metrics: list[tuple[str, int, float]]) -> None:
    made = OURS["GetMetricSpecResponse"]()
    for name, whole, fraction in metrics:
        made.metricSpecs.add(metricName=name, targetSize=whole, targetSizeFloat=fraction)
    found = read_metrics(made.SerializeToString())
    assert [m.name for m in found] == [name for name, _, _ in metrics]
    for (_, whole, fraction), one in zip(metrics, found, strict=True):
        wanted = fraction if fraction > 0 else whole
        assert wanted * 1000 <= one.target_milli < wanted * 1000 + 2


@given(NAMES, st.integers(-(2**40), 2**40), st.floats(0, 1e9))
def test_the_first_value_counts_and_its_fraction_before_its_whole_number(
    name: str, whole: int, part: float
) -> None:
    made = OURS["GetMetricsResponse"]()
    made.metricValues.add(metricName=name, metricValue=whole, metricValueFloat=part)
    made.metricValues.add(metricName="other", metricValue=1)
    wanted = (part if part > 0 else whole) * 1000
    assert wanted <= read_value(made.SerializeToString()) < wanted + 2


def test_activity() -> None:
    active = OURS["IsActiveResponse"]
    assert read_active(active(result=True).SerializeToString())
    assert not read_active(active(result=False).SerializeToString())


@given(st.binary(max_size=300))
def test_bytes_of_anybody_are_read_or_refused(data: bytes) -> None:
    for read in (read_metrics, read_value, read_active):
        try:
            read(data)
        except ScalerFault as fault:
            assert len(str(fault)) < 400


@pytest.mark.parametrize(
    ("specs", "said"),
    [
        ([("a", 0, 0.0)], "target 0 is not greater than 0"),
        ([("a", -3, 0.0)], "target -3 is not greater than 0"),
        ([("a", 1, float("inf"))], "out of range"),
        ([("", 1, 0.0)], "1 to 253 printable characters"),
        ([("a" * 254, 1, 0.0)], "1 to 253 printable characters"),
        ([("a\nb", 1, 0.0)], "1 to 253 printable characters"),
        ([(f"m{i}", 1, 0.0) for i in range(MOST_METRICS + 1)], "more than 32 metrics"),
    ],
)
def test_what_is_not_believed(specs: list[tuple[str, int, float]], said: str) -> None:
    made = OURS["GetMetricSpecResponse"]()
    for name, whole, fraction in specs:
        made.metricSpecs.add(metricName=name, targetSize=whole, targetSizeFloat=fraction)
    with pytest.raises(ScalerFault, match=said):
        read_metrics(made.SerializeToString())
    assert read_metrics(b"") == () and Metric("a", 1).name == "a"
