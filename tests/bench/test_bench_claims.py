"""The benchmark of claims places what it counts, and says what it compares with."""

from __future__ import annotations

from fairway.bench import BENCHMARKS, claims


def test_every_pod_gets_its_device() -> None:
    assert BENCHMARKS["claims"].module == "claims"
    assert claims.measure(nodes=3, claims=24) > 0
