"""Fairway and the brute-force oracle agree on random clusters: feasible nodes, scores, messages, preemption.

A failure prints its seed; `agreement.disagreement(seed)` plays it again.
"""

from __future__ import annotations

import pytest
from agreement import Play, disagreement


@pytest.mark.parametrize("seed", range(100))
def test_agrees_with_the_oracle(seed: int) -> None:
    assert disagreement(seed) == ""


@pytest.mark.parametrize("seed", range(80))
def test_agrees_with_the_oracle_on_other_profiles(seed: int) -> None:
    assert disagreement(seed, 10, has_own_profile=True) == ""


@pytest.mark.parametrize("seed", range(100, 140))
def test_nothing_is_overallocated_and_nothing_stands_where_a_filter_forbids(seed: int) -> None:
    play = Play(seed)
    for _ in range(12):
        assert play.step() == ""
        accounts = play.store.accounts
        assert (accounts.requested <= accounts.allocatable).all()
        assert (accounts.pod_count <= accounts.allowed_pods).all()
        for row, pods in enumerate(accounts.pods):
            _check_row(play, row, sorted(pods))


def _check_row(play: Play, row: int, keys: list[object]) -> None:
    """Ports are distinct and required node affinity and taints hold (nodes do not change in this test)."""
    accounts = play.store.accounts
    if not accounts.alive[row]:
        return
    taken = []
    for record in accounts.pods[row].values():
        assert record.shape.selection.allows(accounts.labels[row], accounts.names[row])
        taken.extend((p.protocol, p.port) for p in record.shape.host_ports if p.ip == "0.0.0.0")
        hard = [t for t in accounts.taints[row] if t.effect in ("NoSchedule", "NoExecute")]
        assert all(any(t.tolerates(h) for t in record.shape.tolerations) for h in hard)
    assert len(taken) == len(set(taken))
