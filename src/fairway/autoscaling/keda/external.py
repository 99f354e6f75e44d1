"""What do KEDA and an external scaler say to each other, and what of it is believed?

The messages of `externalscaler.proto`, written and read here by hand: six small ones. A scaler is somebody else's
program: more metrics, longer names or other numbers than these limits make its answer a fault.

Source: kedacore/keda pkg/scalers/externalscaler/externalscaler.proto, pkg/scalers/external_scaler.go.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, Protocol

from fairway.autoscaling.source import NEVER_US
from fairway.kube.objects import Key

SERVICE: Final = "externalscaler.ExternalScaler"
# Of one answer. HorizontalPodAutoscalers with more metrics than this are nobody's.
MOST_METRICS: Final = 32
_NAME_CHARS: Final = 253
# What a HorizontalPodAutoscaler can still say in thousandths.
_MOST: Final = 2.0**53
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_SIGN: Final = 1 << 63


class ScalerFault(ValueError):
    """An answer that is none. The text says what is wrong with it."""


class Asked(NamedTuple):
    """Who asks whom: one trigger of one object. `metadata` and `auth`: sorted pairs."""

    key: Key
    number: int
    address: str
    is_push: bool
    metadata: tuple[tuple[str, str], ...]
    auth: tuple[tuple[str, str], ...] = ()


class Metric(NamedTuple):
    """One metric a scaler offers, and its target in thousandths."""

    name: str
    target_milli: int


class Answer(NamedTuple):
    """What a scaler said. `values`: thousandths by metric; `until_us`: until when it says the same."""

    metrics: tuple[Metric, ...] = ()
    values: Mapping[str, int] = {}
    is_active: bool = False
    until_us: int = NEVER_US
    fault: str = ""


class Outside(Protocol):
    """Somebody who really asks."""

    def answer(self, asked: Asked) -> Answer | None:
        """What it said last, None: nothing yet. To be asked for it is to ask again."""
        ...

    def frozen(self) -> Outside:
        """The same answers, and nobody is asked any more: for a copy of the cluster."""
        ...


class Frozen:
    """What was said before."""

    def __init__(self, answers: Mapping[Asked, Answer | None]) -> None:
        self._answers = answers

    def answer(self, asked: Asked) -> Answer | None:
        return self._answers.get(asked)

    def frozen(self) -> Frozen:
        return self


# Written


def scaled_object_ref(asked: Asked) -> bytes:
    parts = [_text(1, asked.key.name), _text(2, asked.key.namespace)]
    parts += [_bytes(3, _text(1, name) + _text(2, value)) for name, value in asked.metadata]
    return b"".join(parts)


def metrics_request(ref: bytes, metric: str) -> bytes:
    return _bytes(1, ref) + _text(2, metric)


def _text(number: int, text: str) -> bytes:
    return _bytes(number, text.encode()) if text else b""


def _bytes(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


# Read


def read_metrics(data: bytes) -> tuple[Metric, ...]:
    """A GetMetricSpecResponse. Raises: ScalerFault."""
    found = []
    for _number, part in _messages(data):
        name, whole, fraction = _named_number(part)
        target = fraction if fraction > 0 else float(whole)
        if target <= 0:
            raise ScalerFault(f'metric "{name}": target {target:g} is not greater than 0')
        found.append(Metric(name, _milli(target, name)))
    return tuple(found)


def read_value(data: bytes) -> int:
    """A GetMetricsResponse: the first value, in thousandths. Raises: ScalerFault."""
    for _number, part in _messages(data):
        name, whole, fraction = _named_number(part)
        return _milli(fraction if fraction > 0 else float(whole), name)
    raise ScalerFault("no metric values")


def read_active(data: bytes) -> bool:
    """An IsActiveResponse. Raises: ScalerFault."""
    is_active = False
    for number, value in _fields(data):
        if number == 1 and isinstance(value, int):
            is_active = bool(value)
    return is_active


def _messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    count = 0
    for number, value in _fields(data):
        if number == 1 and isinstance(value, bytes):
            count += 1
            if count > MOST_METRICS:
                raise ScalerFault(f"more than {MOST_METRICS} metrics")
            yield number, value


def _named_number(data: bytes) -> tuple[str, int, float]:
    """A MetricSpec or a MetricValue: its name, its int64 and its double."""
    name, whole, fraction = "", 0, 0.0
    for number, value in _fields(data):
        if number == 1 and isinstance(value, bytes):
            try:
                name = value.decode()
            except UnicodeDecodeError:
                raise ScalerFault("a metric's name is not UTF-8") from None
        elif number == 2 and isinstance(value, int):
            whole = value - 2 * _SIGN if value >= _SIGN else value
        elif number == 3 and isinstance(value, float):
            fraction = value
    if not name or len(name) > _NAME_CHARS or not name.isprintable():
        raise ScalerFault(f"a metric's name is not 1 to {_NAME_CHARS} printable characters")
    return name, whole, fraction


def _milli(value: float, name: str) -> int:
    if not math.isfinite(value) or abs(value) * 1000 > _MOST:
        raise ScalerFault(f'metric "{name}": {value:g} is out of range')
    return math.ceil(value * 1000)


def _fields(data: bytes) -> Iterator[tuple[int, int | float | bytes]]:
    """Fields by number. Raises: ScalerFault."""
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        kind = tag & 7
        if kind == _VARINT:
            value, at = _read_varint(data, at)
            yield tag >> 3, value
            continue
        size = 8 if kind == _FIXED64 else 4 if kind == _FIXED32 else -1
        if kind == _BYTES:
            size, at = _read_varint(data, at)
        if size < 0 or at + size > len(data):
            raise ScalerFault("not a message of externalscaler.proto")
        part = data[at : at + size]
        at += size
        yield tag >> 3, struct.unpack("<d", part)[0] if kind == _FIXED64 else part


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & (2 * _SIGN - 1), at
    raise ScalerFault("not a message of externalscaler.proto")
