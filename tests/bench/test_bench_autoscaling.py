"""The benchmark of autoscalers, small: every target follows its load."""

from __future__ import annotations

import pytest

from fairway.bench import BENCHMARKS, autoscaling


def test_every_target_follows_its_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(autoscaling, "TARGETS", 400)
    rows = {row.name: row for row in autoscaling.run(quick=True)}
    assert rows["rescales"].figure == 5 * 40
    assert rows["a day of 40 autoscaled targets"].figure > 0
    assert BENCHMARKS["autoscaling"].module == "autoscaling"
