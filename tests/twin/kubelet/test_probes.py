"""Probe verdicts, computed, against a prober that runs every tick."""

from __future__ import annotations

from itertools import combinations, product

from hypothesis import given
from hypothesis import strategies as st

from fairway.twin.kubelet.probes import READINESS, Flip, Probe, first_tick_us, next_flip, parse_probe

HORIZON = 400


def by_ticking(
    probe: Probe, first: int, fails: list[tuple[int, int]], verdict: bool | None, horizon: int = HORIZON
) -> Flip | None:
    """The brute force: run every probe up to a horizon."""
    run, last, failures = 0, None, 0
    for tick in range(horizon):
        now = first + tick * probe.period_us
        ok = not any(start <= now < end for start, end in fails)
        run = run + 1 if ok == last else 1
        last = ok
        failures += not ok
        if run >= (probe.success_threshold if ok else probe.failure_threshold) and ok != verdict:
            return Flip(now, ok, failures)
    return None


def windows(cuts: list[int]) -> list[tuple[int, int]]:
    ordered = sorted(set(cuts))
    return list(zip(ordered[::2], ordered[1::2], strict=False))


@given(
    st.integers(1, 7),
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(0, 20),
    st.lists(st.integers(0, 120), max_size=8),
    st.sampled_from([None, True, False]),
)
def test_flips_are_those_of_a_prober(
    period: int, success: int, failure: int, first: int, cuts: list[int], verdict: bool | None
) -> None:
    probe = Probe(READINESS, 0, period, success, failure, None, "")
    fails = windows(cuts)
    assert next_flip(probe, first, fails, verdict) == by_ticking(probe, first, fails, verdict)


def test_flips_of_windows_with_no_tick_between_them() -> None:
    """Every pair of windows in nine instants."""
    for period, success, failure, first in product((1, 3), (1, 2), (1, 2, 3), (0, 1)):
        probe = Probe(READINESS, 0, period, success, failure, None, "")
        for cuts in combinations(range(9), 4):
            fails = windows(list(cuts))
            for verdict in (None, True, False):
                assert next_flip(probe, first, fails, verdict) == by_ticking(
                    probe, first, fails, verdict, 12
                ), (probe, first, fails, verdict)


def test_the_first_tick_waits_for_the_initial_delay() -> None:
    probe = parse_probe(READINESS, {"initialDelaySeconds": 7, "periodSeconds": 5})
    assert probe is not None
    s = 1_000_000
    assert first_tick_us(probe, phase_us=0, started_us=2 * s, from_us=2 * s) == 10 * s
    assert first_tick_us(probe, phase_us=3 * s, started_us=3 * s, from_us=50 * s) == 53 * s


def test_defaults_are_the_apis() -> None:
    probe = parse_probe(READINESS, {"exec": {"command": ["x"]}})
    assert probe is not None
    assert (probe.period_us, probe.success_threshold, probe.failure_threshold) == (10_000_000, 1, 3)
    assert parse_probe(READINESS, None) is None
    assert (probe.initial_delay_us, probe.grace_s, probe.output) == (0, None, "")
    said = {
        "initialDelaySeconds": 2,
        "periodSeconds": 1,
        "successThreshold": 2,
        "failureThreshold": 1,
        "terminationGracePeriodSeconds": 0,
        "tcpSocket": {"port": 80},
    }
    assert parse_probe(READINESS, said) == Probe(
        READINESS, 2_000_000, 1_000_000, 2, 1, 0, "dial tcp: connect to port 80: connection refused"
    )
