"""Whole batches, told beside what `slots` makes of the same requests, and beside queueing theory; image pipelines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.catalog.catalog import load_catalog
from fairway.serving import batching as b
from fairway.serving.fleet import Fleet, Gateway
from fairway.serving.models import model_named
from fairway.serving.pipelines import Named, Pipeline
from fairway.serving.readings import readings
from fairway.serving.slots import serve
from fairway.serving.steptimes import Deployed
from fairway.serving.traffic import Requests


def requests(arrived: Any, steps: Any) -> Requests:
    n = len(arrived)
    return Requests(
        np.asarray(arrived, float), np.ones(n, np.int64), np.asarray(steps, np.int64), np.arange(n)
    )


def played(pipeline: Pipeline, asked: Requests, slices: int = 1) -> Fleet:
    fleet = Fleet(pipeline, asked, Gateway())
    fleet.add()
    for at in np.linspace(0, asked.arrived_s[-1] + 1, slices)[1:]:
        fleet.advance(float(at))
    fleet.drain()
    return fleet


@settings(max_examples=60, deadline=None)
@given(
    size=st.integers(1, 6),
    delay=st.sampled_from([0.0, 0.3, 2.0]),
    batched=st.sampled_from([0.0, 0.5, 1.0]),
    start=st.sampled_from([0.0, 0.7]),
    slices=st.sampled_from([1, 13]),
    seed=st.integers(0, 2**16),
)
def test_batches_are_those_of_a_queue_of_whole_requests(
    size: int, delay: float, batched: float, start: float, slices: int, seed: int
) -> None:
    chance = np.random.Generator(np.random.PCG64(seed))
    n = 60
    arrived, steps = np.cumsum(chance.exponential(1.0, n)), chance.integers(1, 9, n)
    pipeline = Pipeline(Named("x"), start, 0.2, batched, size, delay)
    fleet = played(pipeline, requests(arrived, steps), slices)
    began, done = np.empty(n), np.empty(n)
    factors = 1 + np.arange(size) * batched
    serve(arrived, start + 0.2 * steps, np.zeros(1), factors, delay, began, done)
    assert fleet.when[:, b.BEGAN] == pytest.approx(began, abs=1e-9)
    assert fleet.when[:, b.DONE] == pytest.approx(done, abs=1e-9)
    # Whoever asked hears of it at the end only.
    assert (fleet.when[:, b.FIRST] == fleet.when[:, b.DONE]).all()
    assert fleet.replicas[0, b.CACHED] == fleet.replicas[0, b.HELD] == 0


def test_one_at_a_time_waits_as_m_d_1_says() -> None:
    chance = np.random.Generator(np.random.PCG64(5))
    rate, spent = 0.7, 1.0
    asked = requests(np.cumsum(chance.exponential(1 / rate, 400_000)), np.full(400_000, 4))
    found = readings(*_tables(played(Pipeline(Named("x"), 0.2, 0.2), asked)))
    assert found.means["queue"] == pytest.approx(rate * spent**2 / (2 * (1 - rate * spent)), rel=0.02)
    assert found.means["prefill"] == pytest.approx(spent, rel=1e-6)


def _tables(fleet: Fleet) -> tuple[Any, Any]:
    return fleet.when, fleet.what


def test_a_language_model_in_whole_batches_waits_for_the_longest_and_gives_less() -> None:
    gpu = load_catalog().gpu("A100-SXM4-80GB")
    assert gpu is not None
    chance = np.random.Generator(np.random.PCG64(5))
    n = 400
    asked = Requests(
        np.cumsum(chance.exponential(0.2, n)),
        chance.integers(50, 400, n),
        np.clip(chance.lognormal(4.5, 0.9, n), 2, 800).astype(np.int64),
        np.arange(n),
    )
    found = {}
    for name, changes in (("continuous", {}), ("whole", {"batch_delay_s": 0.05})):
        fleet = Fleet(Deployed(model_named("llama-2-7b"), gpu, seqs_most=8, **changes), asked, Gateway())
        fleet.add()
        fleet.drain()
        found[name] = readings(fleet.when, fleet.what)
        assert found[name].ends["ok"] == n
    assert found["whole"].means["end_to_end"] > 1.5 * found["continuous"].means["end_to_end"]
    assert found["whole"].tokens_per_s < found["continuous"].tokens_per_s


TRACE = next(
    (
        p
        for up in (3, 4)
        if (p := Path(__file__).resolve().parents[up] / "shared" / "traces" / "genai").is_dir()
    ),
    None,
)


@pytest.mark.skipif(TRACE is None, reason="needs Alibaba's cluster-trace-v2026-GenAI")
def test_an_image_pipeline_runs_as_long_as_alibabas_requests_did() -> None:
    """Steps and start fitted to the first half of the requests; the second half is played, each alone on a server."""
    pl = pytest.importorskip("polars")
    assert TRACE is not None
    rows = pl.read_csv(TRACE / "lora_request_trace.csv.gz", infer_schema_length=100_000).filter(
        (pl.col("predict_status") == "SUCCEED")
        & (pl.col("exec_time_seconds") > 0)
        & pl.col("num_inference_steps").is_not_null()
    )
    took = rows["exec_time_seconds"].to_numpy()
    work = (rows["num_inference_steps"] * rows["num_images_per_prompt"]).to_numpy()
    has_lora = rows["num_lora"].to_numpy() > 0
    half = len(rows) // 2
    asked = np.column_stack([np.ones(len(rows)), work, has_lora])
    (start, step, load), *_ = np.linalg.lstsq(asked[:half], took[:half], rcond=None)
    steps = np.rint(work + has_lora * load / step)[half:]
    arrived = np.arange(len(steps)) * 10_000.0
    fleet = played(Pipeline(Named("image"), float(start), float(step)), requests(arrived, steps))
    found = readings(fleet.when, fleet.what)
    assert found.means["prefill"] == pytest.approx(took[half:].mean(), rel=0.15)
