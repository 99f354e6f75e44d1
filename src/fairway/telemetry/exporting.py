"""Series as other programs read them: OpenMetrics text, and Prometheus' remote-write protocol.

Source: OpenMetrics 1.0; prompb/remote.proto (remote write 1.0); snappy's format description (a block of literals).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from fairway.telemetry.promql.aggregating import number_text
from fairway.telemetry.promql.matrix import quoted
from fairway.telemetry.store import NAME, Labels, Matcher, Series, SeriesSource, is_stale

DAY_MS: Final = 86_400_000
# Of one request: Prometheus' own sender sends 2,000 samples at most.
SAMPLES_A_REQUEST: Final = 2_000
# A Prometheus takes samples that are at most an hour older than its newest.
SENT_TOGETHER_MS: Final = 1_800_000


def parts(
    source: SeriesSource, names: Sequence[str], matchers: Sequence[Matcher], start_ms: int, end_ms: int
) -> Iterator[tuple[str, list[Series]]]:
    """Metric by metric, a day at a time, so that memory stays bounded."""
    for name in names:
        wanted = [Matcher(NAME, "=", name), *(m for m in matchers if m.name != NAME)]
        for first in range(start_ms, end_ms + 1, DAY_MS):
            found = list(source.select(wanted, first, min(first + DAY_MS - 1, end_ms)))
            if found:
                yield name, found


def openmetrics(found: Iterable[tuple[str, list[Series]]]) -> Iterator[str]:
    """Text, piece by piece, ending in `# EOF`. Staleness markers cannot be said in it and are left out."""
    before = ""
    for name, series in found:
        if name != before:
            yield f"# TYPE {name} unknown\n"
            before = name
        for labels, times, values in series:
            head = f"{name}{_braces(labels)} "
            keep = ~is_stale(values)
            pairs = zip(times[keep].tolist(), values[keep].tolist(), strict=True)
            yield "".join(f"{head}{number_text(v)} {t // 1000}.{t % 1000:03d}\n" for t, v in pairs)
    yield "# EOF\n"


def _braces(labels: Labels) -> str:
    inside = ",".join(f"{key}={quoted(value)}" for key, value in labels if key != NAME)
    return f"{{{inside}}}" if inside else ""


def write_requests(found: Iterable[tuple[str, list[Series]]]) -> Iterator[bytes]:
    """Bodies for POST /api/v1/write: protobuf in snappy's block format."""
    body, count = bytearray(), 0
    for _, series in found:
        for labels, times, values in series:
            head = b"".join(
                _field(1, _field(1, key.encode()) + _field(2, value.encode())) for key, value in labels
            )
            for first in range(0, len(times), SAMPLES_A_REQUEST):
                part = slice(first, first + SAMPLES_A_REQUEST)
                samples = b"".join(
                    _field(2, b"\x09" + struct.pack("<d", value) + b"\x10" + _varint(at))
                    for at, value in zip(times[part].tolist(), values[part], strict=True)
                )
                body += _field(1, head + samples)
                count += len(times[part])
                if count >= SAMPLES_A_REQUEST:
                    yield _snappy(bytes(body))
                    body, count = bytearray(), 0
    if body:
        yield _snappy(bytes(body))


def _field(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _snappy(data: bytes) -> bytes:
    """Not made smaller: every piece of 64 KiB as it is."""
    out = bytearray(_varint(len(data)))
    for first in range(0, len(data), 65_536):
        piece = data[first : first + 65_536]
        out += b"\xf4" + struct.pack("<H", len(piece) - 1) + piece
    return bytes(out)
