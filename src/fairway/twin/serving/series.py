"""What would Prometheus have scraped from the model servers? Derived from the requests when somebody asks.

By pod, with the labels `namespace`, `service` (the Service it is behind), `pod`, `model_name` and
`rollouts_pod_template_hash`: vLLM's histograms of the time to the first token, per token and end to end, its counters,
requests by HTTP code; `model_accuracy` as the pod's annotation says; restarts and GPU memory as kube-state-metrics and
DCGM name them. A sample every 15 s.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from fairway.serving import batching as b
from fairway.serving.steptimes import Deployed
from fairway.telemetry.store import Labels, Matcher, Series, Times, Values, fits, labels, name_of

if TYPE_CHECKING:
    from fairway.twin.serving.component import Room, Serving

SCRAPE_MS: Final = 15_000
# Prometheus keeps what it scraped for longer; queries of an analysis look back minutes.
_SAMPLES_MOST: Final = 11_520
_FIRST: Final = (
    0.001,
    0.005,
    0.01,
    0.02,
    0.04,
    0.06,
    0.08,
    0.1,
    0.25,
    0.5,
    0.75,
    1,
    2.5,
    5,
    7.5,
    10,
    20,
    40,
    80,
)
_TOKEN: Final = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5)
_WHOLE: Final = (0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480)
# Source: vllm/v1/metrics/loggers.py.
_HISTOGRAMS: Final = {
    "vllm:time_to_first_token_seconds": _FIRST,
    "vllm:time_per_output_token_seconds": _TOKEN,
    "vllm:e2e_request_latency_seconds": _WHOLE,
}
_CODES: Final = {b.DONE_WELL: "200", b.FAILED: "500", b.LOST: "502"}


class ServingSource:
    """A source of series over everything served in a twin, up to now."""

    def __init__(self, serving: Serving) -> None:
        self._serving = serving

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> Iterator[Series]:
        began_ms, now_ms = self._serving.began_us // 1000, self._serving.host.loop.now_us // 1000
        first = max(-(-(start_ms - began_ms) // SCRAPE_MS), 0)
        last = min(end_ms, now_ms) - began_ms
        count = last // SCRAPE_MS - first + 1
        if count <= 0:
            return
        first = max(first, first + count - _SAMPLES_MOST)
        times = began_ms + SCRAPE_MS * np.arange(first, last // SCRAPE_MS + 1, dtype=np.int64)
        wanted = name_of(matchers)
        for room in self._serving.rooms:
            for replica, given in room.labels.items():
                for found, values in _of_pod(room, replica, given, wanted, (times - began_ms) / 1000):
                    if fits(found, matchers):
                        yield Series(found, times, values)

    def names(self) -> list[str]:
        return sorted(NAMES)


NAMES: Final = (
    *(f"{name}_{part}" for name in _HISTOGRAMS for part in ("bucket", "count", "sum")),
    "vllm:request_success_total",
    "vllm:generation_tokens_total",
    "http_requests_total",
    "model_accuracy",
    "DCGM_FI_DEV_FB_USED",
    "kube_pod_container_status_restarts_total",
)


def _of_pod(
    room: Room, replica: int, given: dict[str, str], wanted: str | None, at_s: Values
) -> Iterator[tuple[Labels, Values]]:
    def is_wanted(name: str) -> bool:
        return wanted is None or wanted == name

    come = room.fleet.arrived
    when, what = room.fleet.tables()
    mine = np.flatnonzero(what[:come, b.WHERE] == replica)
    when, what = when[mine], what[mine]
    good = what[:, b.STATUS] == b.DONE_WELL
    for name, bounds in _HISTOGRAMS.items():
        if wanted is None or wanted.startswith(name):
            yield from _histogram(name, bounds, given, when[good], what[good], at_s, wanted)
    for status, code in _CODES.items():
        if is_wanted("http_requests_total"):
            ended = np.sort(when[what[:, b.STATUS] == status, b.DONE])
            counts = np.searchsorted(ended, at_s, side="right").astype(np.float64)
            yield labels("http_requests_total", {**given, "code": code}), counts
    if is_wanted("vllm:request_success_total"):
        ended = np.sort(when[good, b.DONE])
        counts = np.searchsorted(ended, at_s, side="right").astype(np.float64)
        yield labels("vllm:request_success_total", {**given, "finished_reason": "stop"}), counts
    if is_wanted("vllm:generation_tokens_total"):
        order = np.argsort(when[good, b.DONE])
        total = np.concatenate([[0.0], np.cumsum(what[good, b.OUTPUT][order])])
        ends = np.searchsorted(when[good, b.DONE][order], at_s, side="right")
        yield labels("vllm:generation_tokens_total", given), total[ends]
    nature = room.natures.get(replica)
    if is_wanted("model_accuracy") and nature is not None and not math.isnan(nature.accuracy):
        yield labels("model_accuracy", given), np.full(len(at_s), nature.accuracy)
    if is_wanted("DCGM_FI_DEV_FB_USED"):
        served = room.served.deployed
        used = served.gpu.memory_bytes * served.memory_share / 2**20 if isinstance(served, Deployed) else 0.0
        yield labels("DCGM_FI_DEV_FB_USED", given), np.full(len(at_s), room.memory_mib.get(replica, used))
    if is_wanted("kube_pod_container_status_restarts_total"):
        runs = room.runs.get(given.get("pod", ""), [])
        counts = np.maximum(np.searchsorted(np.array(runs), at_s, side="right") - 1, 0).astype(np.float64)
        if replica == room.last_replica.get(given.get("pod", "")):
            yield labels("kube_pod_container_status_restarts_total", given), counts


def _histogram(
    name: str,
    bounds: tuple[float, ...],
    given: dict[str, str],
    when: Values,
    what: Times,
    at_s: Values,
    wanted: str | None,
) -> Iterator[tuple[Labels, Values]]:
    """Cumulative counts: of requests whose value is at most a bound, and that were over by each scrape."""
    done = when[:, b.DONE]
    if name.endswith("first_token_seconds"):
        done, values = when[:, b.FIRST], when[:, b.FIRST] - when[:, b.ARRIVED]
    elif name.endswith("output_token_seconds"):
        values = (when[:, b.DONE] - when[:, b.FIRST]) / np.maximum(what[:, b.OUTPUT] - 1, 1)
    else:
        values = when[:, b.DONE] - when[:, b.ARRIVED]
    for bound in (*bounds, math.inf):
        if wanted in (None, f"{name}_bucket"):
            ended = np.sort(done[values <= bound])
            counts = np.searchsorted(ended, at_s, side="right").astype(np.float64)
            le = "+Inf" if math.isinf(bound) else f"{bound:g}" if bound != int(bound) else f"{bound:.1f}"
            yield labels(f"{name}_bucket", {**given, "le": le}), counts
    order = np.argsort(done)
    ends = np.searchsorted(done[order], at_s, side="right")
    if wanted in (None, f"{name}_count"):
        yield labels(f"{name}_count", given), ends.astype(np.float64)
    if wanted in (None, f"{name}_sum"):
        yield labels(f"{name}_sum", given), np.concatenate([[0.0], np.cumsum(values[order])])[ends]
