"""What other programs read."""

import struct

import numpy as np

from fairway.telemetry.exporting import openmetrics, parts, write_requests
from fairway.telemetry.store import STALE, MemoryStore, labels


def store() -> MemoryStore:
    kept = MemoryStore()
    kept.extend(labels("up", {"job": 'a"b'}), np.array([1500, 2000, 3000]), np.array([1.0, np.inf, STALE]))
    kept.extend(labels("x", {}), np.array([-1]), np.array([0.5]))
    return kept


def test_openmetrics() -> None:
    text = "".join(openmetrics(parts(store(), ["up"], (), 0, 9000)))
    assert text == '# TYPE up unknown\nup{job="a\\"b"} 1 1.500\nup{job="a\\"b"} +Inf 2.000\n# EOF\n'


def test_a_write_request_is_protobuf_in_literals_of_snappy() -> None:
    (body,) = write_requests(parts(store(), ["x"], (), -1000, 0))
    name = b"\x0a\x08__name__\x12\x01x"
    sample = b"\x09" + struct.pack("<d", 0.5) + b"\x10" + b"\xff" * 9 + b"\x01"
    series = b"\x0a" + bytes([len(name)]) + name + b"\x12" + bytes([len(sample)]) + sample
    message = b"\x0a" + bytes([len(series)]) + series
    assert body == bytes([len(message)]) + b"\xf4" + struct.pack("<H", len(message) - 1) + message


def test_requests_are_cut() -> None:
    kept = MemoryStore()
    kept.extend(labels("x", {}), np.arange(5000, dtype=np.int64), np.zeros(5000))
    assert len(list(write_requests(parts(kept, ["x"], (), 0, 9000)))) == 3
