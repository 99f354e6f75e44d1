"""Ten million requests to a fleet of 32 model servers, token by token; and what the closed sums spare."""

from __future__ import annotations

import time
from collections.abc import Iterator

from fairway.bench import BenchRow
from fairway.catalog.catalog import load_catalog
from fairway.errors import BugError
from fairway.serving.fleet import Fleet, Gateway
from fairway.serving.models import model_named
from fairway.serving.readings import readings
from fairway.serving.steptimes import Deployed
from fairway.serving.traffic import Tokens, Traffic, made, steady

REQUESTS, REPLICAS, RATE = 10_000_000, 32, 200.0
_LIMIT_S = 60.0


def run(quick: bool) -> Iterator[BenchRow]:
    requests = REQUESTS // 10 if quick else REQUESTS
    _fleet(1000).drain()  # loads or compiles the kernel
    fleet = _fleet(requests)
    began_s = time.perf_counter()
    fleet.drain()
    spent_s = time.perf_counter() - began_s
    if readings(fleet.when, fleet.what).ends["ok"] != len(fleet.requests):
        raise BugError("requests were lost")
    limit_s = _LIMIT_S * requests / REQUESTS
    reference = f"our limit: {limit_s:g} s"
    yield BenchRow(f"{requests:,} requests, {REPLICAS} servers", spent_s, "s", limit_s / spent_s, reference)
    tokens = fleet.load().tokens_written
    yield BenchRow("tokens written a second", tokens / spent_s, "/s", 0.0, "")


def _fleet(requests: int) -> Fleet:
    gpu = load_catalog().gpu("A100-SXM4-80GB")
    if gpu is None:
        raise BugError("the catalog lost the A100")
    traffic = Traffic(steady(RATE, requests / RATE), Tokens(512, 0.8, 3000), Tokens(150, 0.7, 1000))
    fleet = Fleet(Deployed(model_named("llama-2-7b"), gpu), made(traffic, 7), Gateway())
    fleet.add(REPLICAS)
    return fleet
