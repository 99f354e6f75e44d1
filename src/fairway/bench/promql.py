"""How long do queries over many series take, beside a real Prometheus that has the same samples?

600 series of a counter and 400 of a gauge, every 30 seconds for twelve hours (1,440,000 samples), asked at 720 steps of
a minute. Where `prometheus` and `promtool` are installed, the samples are written as blocks, and a Prometheus on
loopback answers the same queries over HTTP; its answer is read, not compared (`fairway verify promql` does that). The
ratio is its time to ours, the best of three each. `quick`: a tenth of the series.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from fairway.bench import BenchRow
from fairway.telemetry.exporting import openmetrics
from fairway.telemetry.promql import query_range
from fairway.telemetry.store import MemoryStore, Series, labels

_START_MS = 1_767_225_600_000
_STEP_MS, _SAMPLES, _ASKED_MS = 30_000, 1_440, 60_000
_TRIES = 3
_QUERIES = (
    "avg(gauge)",
    "gauge > 90",
    "sum by (node) (rate(counter_total[5m]))",
    "avg_over_time(gauge[1h]) < 45",
    "max_over_time(gauge[6h])",
    "quantile_over_time(0.9, gauge[30m])",
    "topk(5, gauge)",
    "sum by (node) (rate(counter_total[5m])) / on (node) count by (node) (gauge)",
    "max_over_time(avg by (node) (gauge)[1h:5m])",
)


def run(quick: bool = False) -> Iterator[BenchRow]:
    series = list(_series(10 if quick else 100))
    store = MemoryStore()
    for one in series:
        store.extend(one.labels, one.times, one.values)
    first, last = _START_MS + 60 * _ASKED_MS, _START_MS + (_SAMPLES - 1) * _STEP_MS
    with _beside(series) as ask:
        for query in _QUERIES:

            def ours(query: str = query) -> None:
                query_range(store, query, first, last, _ASKED_MS)

            own_s = _best(ours)
            if ask is None:
                yield BenchRow(query, own_s * 1000, "ms", 0.0, "no prometheus and promtool here")
            else:
                their_s = _best(lambda query=query, ask=ask: ask(query, first, last))  # type: ignore[misc]
                reference = f"{their_s * 1000:.0f} ms, a Prometheus over HTTP"
                yield BenchRow(query, own_s * 1000, "ms", their_s / own_s, reference)


def _best(act: Callable[[], None]) -> float:
    best = float("inf")
    for _ in range(_TRIES):
        began = time.perf_counter()
        act()
        best = min(best, time.perf_counter() - began)
    return best


def _series(nodes: int) -> Iterator[Series]:
    rng = np.random.default_rng(1)
    times = _START_MS + np.arange(_SAMPLES, dtype=np.int64) * _STEP_MS
    for number in range(10 * nodes):
        node = {"node": f"n{number % nodes}", "instance": f"i{number}"}
        if number < 6 * nodes:
            values = np.cumsum(rng.integers(0, 100, _SAMPLES)).astype(np.float64)
            yield Series(labels("counter_total", node), times, values)
        else:
            yield Series(labels("gauge", node), times, np.rint(rng.uniform(0, 100, _SAMPLES)))


_Ask = Callable[[str, int, int], None]


@contextmanager
def _beside(series: list[Series]) -> Iterator[_Ask | None]:
    """A Prometheus with these samples; None where it is not installed."""
    if shutil.which("prometheus") is None or shutil.which("promtool") is None:
        yield None
        return
    with tempfile.TemporaryDirectory() as name, socket.socket() as free:
        folder = Path(name)
        text = folder / "samples.om"
        named = [(dict(one.labels)["__name__"], [one]) for one in series]
        with text.open("w", encoding="utf-8") as file:
            file.writelines(openmetrics(sorted(named, key=lambda part: part[0])))
        blocks = [
            "promtool",
            "tsdb",
            "create-blocks-from",
            "openmetrics",
            "-q",
            str(text),
            str(folder / "data"),
        ]
        subprocess.run(blocks, check=True, capture_output=True)
        (folder / "empty.yml").write_text("{}")
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        command = [
            "prometheus",
            f"--config.file={folder / 'empty.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            "--storage.tsdb.retention.time=100y",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        url = f"http://127.0.0.1:{port}"

        def ask(query: str, first_ms: int, last_ms: int) -> None:
            step = _ASKED_MS // 1000
            given = {"query": query, "start": first_ms // 1000, "end": last_ms // 1000, "step": step}
            with urllib.request.urlopen(
                f"{url}/api/v1/query_range?{urllib.parse.urlencode(given)}", timeout=60
            ) as answer:
                found = json.loads(answer.read())
            if not found["data"]["result"]:
                raise ValueError(f"Prometheus found nothing for {query}")

        try:
            _until_ready(url, server)
            yield ask
        finally:
            server.terminate()
            server.wait()


def _until_ready(url: str, server: subprocess.Popen[bytes]) -> None:
    for _ in range(120):
        if server.poll() is not None:
            raise OSError("prometheus ended before it was ready")
        try:
            with urllib.request.urlopen(f"{url}/-/ready", timeout=5):
                return
        except OSError:
            time.sleep(0.5)
    raise OSError("prometheus was not ready within a minute")
