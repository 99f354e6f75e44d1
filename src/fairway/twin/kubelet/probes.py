"""When does a probe's verdict change? Computed, not polled: a ten-day server costs no event per probe.

A probe runs at ticks `first + k × period`. It fails at ticks that lie in a failure window and succeeds at all
others; enough equal results in a row change the verdict.

Source: pkg/kubelet/prober/worker.go (v1.36): a readiness probe first runs when the container has started
(the manual trigger), startup and liveness probes tick from when the pod was added; nothing runs before
initialDelaySeconds have passed since the container's start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from fairway.kube.timestamps import SECOND_US

STARTUP: Final = "Startup"
READINESS: Final = "Readiness"
LIVENESS: Final = "Liveness"

Window = tuple[int, int]


class Probe(NamedTuple):
    """`grace_s` None: the pod's. `output` is what a failing probe of this form reports."""

    kind: str
    initial_delay_us: int
    period_us: int
    success_threshold: int
    failure_threshold: int
    grace_s: int | None
    output: str


class Flip(NamedTuple):
    """The verdict changes at `time_us`, after `failures` failed probes on the way."""

    time_us: int
    succeeded: bool
    failures: int


def parse_probe(kind: str, raw: Mapping[str, Any] | None) -> Probe | None:
    """With the API's defaults: every 10 s, failure after 3, success after 1."""
    if not raw:
        return None
    if raw.get("httpGet"):
        output = "HTTP probe failed with statuscode: 503"
    elif raw.get("tcpSocket"):
        output = f"dial tcp: connect to port {raw['tcpSocket'].get('port', '')}: connection refused"
    elif raw.get("grpc"):
        output = 'service unhealthy (responded with "NOT_SERVING")'
    else:
        output = ""
    return Probe(
        kind,
        int(raw.get("initialDelaySeconds") or 0) * SECOND_US,
        max(int(raw.get("periodSeconds") or 10), 1) * SECOND_US,
        max(int(raw.get("successThreshold") or 1), 1),
        max(int(raw.get("failureThreshold") or 3), 1),
        raw.get("terminationGracePeriodSeconds"),
        output,
    )


def first_tick_us(probe: Probe, phase_us: int, started_us: int, from_us: int) -> int:
    """The first tick of `phase + k × period` at or after `from`, not before the initial delay is over."""
    earliest_us = max(from_us, started_us + probe.initial_delay_us)
    behind = earliest_us - phase_us
    return phase_us + max(-(-behind // probe.period_us), 0) * probe.period_us


def next_flip(probe: Probe, first_us: int, fails: Iterable[Window], verdict: bool | None) -> Flip | None:
    """When, ticking from `first`, the verdict changes from `verdict` (None: to whatever comes first).

    `fails` are windows in absolute time, sorted and disjoint. None: never.
    """
    runs = _failing_ticks(probe, first_us, fails)
    failure = None if verdict is False else _first_failure(probe, first_us, runs)
    success = None if verdict is True else _first_success(probe, first_us, runs)
    if failure is None or success is None:
        return success or failure
    return min(failure, success)


def _failing_ticks(probe: Probe, first_us: int, fails: Iterable[Window]) -> list[tuple[int, int]]:
    """Half-open ranges of failing tick numbers; ranges with no passing tick between them are joined."""
    period_us = probe.period_us
    runs: list[tuple[int, int]] = []
    for start_us, end_us in fails:
        low = max(-((first_us - start_us) // period_us), 0)
        high = -((first_us - end_us) // period_us)
        if high <= low:
            continue
        if runs and low <= runs[-1][1]:
            runs[-1] = (runs[-1][0], high)
        else:
            runs.append((low, high))
    return runs


def _first_failure(probe: Probe, first_us: int, runs: list[tuple[int, int]]) -> Flip | None:
    failures = 0
    for low, high in runs:
        if high - low >= probe.failure_threshold:
            tick = low + probe.failure_threshold - 1
            return Flip(first_us + tick * probe.period_us, False, failures + probe.failure_threshold)
        failures += high - low
    return None


def _first_success(probe: Probe, first_us: int, runs: list[tuple[int, int]]) -> Flip | None:
    passing_from, failures = 0, 0
    for low, high in runs:
        if low - passing_from >= probe.success_threshold:
            break
        passing_from = high
        failures += high - low
    tick = passing_from + probe.success_threshold - 1
    return Flip(first_us + tick * probe.period_us, True, failures)
