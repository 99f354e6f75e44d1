"""What a real kube-scheduler v1.36.3 did on small random clusters, replayed: all of it must agree.

A sample of the recording travels with the tests; the whole of it lies beside the checkout, where there is one.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fairway.conformance.placements import verify_placements

_ROOT = Path(__file__).parents[2]
SAMPLE = _ROOT / "tests" / "data" / "placements-sample.jsonl"
WHOLE = _ROOT.parent / "shared" / "conformance" / "kube-scheduler" / "placements.jsonl"


def _agrees_on_all(file: Path, at_least: int) -> None:
    found = verify_placements(file)
    assert [d.text() for d in found.differences] == []
    assert found.agreed == found.total >= at_least


def test_the_sample() -> None:
    _agrees_on_all(SAMPLE, 100)


@pytest.mark.skipif(not WHOLE.exists(), reason="the whole recording is not beside this checkout (../shared)")
def test_the_whole_recording() -> None:
    _agrees_on_all(WHOLE, 582)
