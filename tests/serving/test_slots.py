"""Servers of whole requests against queueing theory and by hand."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairway.catalog.catalog import load_catalog
from fairway.errors import UserError
from fairway.serving.models import model_named
from fairway.serving.slots import serve
from fairway.serving.steptimes import Deployed, step_times
from fairway.serving.traffic import Tokens, Traffic, made, recorded, steady

ALONE = np.ones(1)


def mean_wait(rate: float, work: str, slots: int, n: int = 1_500_000) -> float:
    chance = np.random.Generator(np.random.PCG64(11))
    arrived = np.cumsum(chance.exponential(1 / rate, n))
    seconds = {
        "exponential": lambda: chance.exponential(1.0, n),
        "always the same": lambda: np.ones(n),
        "two kinds": lambda: np.where(chance.random(n) < 0.9, 0.5, 5.5),
    }[work]()
    began, done = np.empty(n), np.empty(n)
    serve(arrived, seconds, np.zeros(slots), ALONE, 0.0, began, done)
    return float((began - arrived)[n // 10 :].mean())


def erlang_c_wait(rate: float, slots: int) -> float:
    """Mean wait of M/M/c with a service time of 1."""
    terms = [rate**k / math.factorial(k) for k in range(slots)]
    last = rate**slots / math.factorial(slots) * slots / (slots - rate)
    return last / (sum(terms) + last) / (slots - rate)


@pytest.mark.parametrize(("rate", "slots"), [(0.7, 1), (3.0, 4), (7.0, 8)])
def test_m_m_c_waits_as_erlang_says(rate: float, slots: int) -> None:
    assert mean_wait(rate, "exponential", slots) == pytest.approx(erlang_c_wait(rate, slots), rel=0.02)


@pytest.mark.parametrize(
    ("work", "second_moment"), [("always the same", 1.0), ("two kinds", 0.9 * 0.25 + 0.1 * 30.25)]
)
def test_m_g_1_waits_as_pollaczek_and_khinchine_say(work: str, second_moment: float) -> None:
    rate = 0.6
    assert mean_wait(rate, work, 1) == pytest.approx(rate * second_moment / (2 * (1 - rate)), rel=0.02)


def test_a_batch_waits_for_others_and_ends_together() -> None:
    arrived = np.array([0.0, 0.01, 0.02, 0.5])
    began, done = np.empty(4), np.empty(4)
    serve(arrived, np.full(4, 0.1), np.zeros(1), np.array([1.0, 1.2, 1.4]), 0.05, began, done)
    assert began.tolist() == pytest.approx([0.02, 0.02, 0.02, 0.55])
    assert done.tolist() == pytest.approx([0.16, 0.16, 0.16, 0.65])


def test_arrivals_come_at_their_rate_and_in_bursts() -> None:
    rates = ((0.0, 10.0), (100.0, 30.0), (200.0, 0.0))
    smooth, bursty = (
        made(Traffic(rates, Tokens(1), Tokens(1), burstiness=v), 1).arrived_s for v in (1.0, 3.0)
    )
    for times in (smooth, bursty):
        assert len(times) == pytest.approx(3500, rel=0.15)
        assert (np.diff(times) >= 0).all() and times[-1] < 200
    variances = []
    for burstiness in (1.0, 3.0):
        times = made(Traffic(steady(20, 500), Tokens(1), Tokens(1), burstiness=burstiness), 1).arrived_s
        counts = np.histogram(times, np.arange(0, 501, 5))[0]
        variances.append(counts.var() / counts.mean())
    assert 0.6 < variances[0] < 1.6 and variances[1] > 5
    assert abs(len(made(Traffic(steady(5, 60), Tokens(1), Tokens(1), burstiness=0), 1)) - 300) <= 1


def test_recorded_requests_are_read_as_azure_writes_them(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2023-11-16 18:17:04.0319600,3180,8\n2023-11-16 18:17:03.9819600,48,10\n"
    )
    found = recorded(file)
    assert found.arrived_s == pytest.approx([0.0, 0.05])
    assert (found.prompt.tolist(), found.output.tolist()) == ([48, 3180], [10, 8])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("TIMESTAMP,ContextTokens\n", ":1: no column GeneratedTokens"),
        ("", ":1: no column TIMESTAMP"),
        ("time,input_tokens,output_tokens\n", "no requests in it"),
        ("time,input_tokens,output_tokens\n1,2\n", ":2: ['1', '2', None]: expected a time"),
        ("time,input_tokens,output_tokens\nnan,2,3\n", ":2: "),
        ("time,input_tokens,output_tokens\n1,-2,3\n", ":2: "),
        ("time,input_tokens,output_tokens\n1,2," + "9" * 5000 + "\n", ":2: "),
    ],
)
def test_a_trace_with_holes_is_located(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "trace.csv"
    file.write_text(text)
    with pytest.raises(UserError, match=re.escape(said)):
        recorded(file)
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="not a CSV file"):
        recorded(file)
    with pytest.raises(UserError, match="expected a file"):
        recorded(tmp_path)


@pytest.mark.parametrize(
    ("model", "changes", "said"),
    [
        ("llama-3-70b", {}, "does not fit on 1 × A100-SXM4-80GB: its weights take 131.4 GiB"),
        (
            "llama-2-7b",
            {"tensor_parallel": 3},
            "32 attention heads cannot be divided by tensor parallel size 3",
        ),
        ("llama-2-7b", {"quantization": "int3"}, "unknown precision"),
    ],
)
def test_what_cannot_be_served_says_why(model: str, changes: dict[str, Any], said: str) -> None:
    gpu = load_catalog().gpu("A100-SXM4-80GB")
    assert gpu is not None
    with pytest.raises(UserError, match=re.escape(said)):
        step_times(Deployed(model_named(model), gpu, **changes))
    with pytest.raises(UserError, match="no such model; expected one of phi-2"):
        model_named("gpt-5")
