"""Prefixes, adapters, guesses and servers apart: what each must do, and what it may never do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fairway.catalog.catalog import load_catalog
from fairway.serving import batching as b
from fairway.serving.disaggregated import served_apart
from fairway.serving.fleet import Fleet, Gateway
from fairway.serving.models import model_named
from fairway.serving.readings import Readings, readings
from fairway.serving.steptimes import Deployed
from fairway.serving.traffic import Requests, Tokens, Traffic, made, sharing, steady


def deployed(**changes: Any) -> Deployed:
    gpu = load_catalog().gpu("H100-SXM5-80GB")
    assert gpu is not None
    return replace(Deployed(model_named("llama-3.1-8b"), gpu), **changes)


def requests(rate: float = 8.0, seconds: float = 600.0, prompt: int = 200, output: int = 60) -> Requests:
    return made(Traffic(steady(rate, seconds), Tokens(prompt), Tokens(output)), 5)


def served(
    asked: Requests, replicas: int = 1, policy: str = "LeastRequests", **changes: Any
) -> tuple[Fleet, Readings]:
    fleet = Fleet(deployed(**changes), asked, Gateway(policy=policy))
    fleet.add(replicas)
    fleet.drain()
    return fleet, readings(fleet.when, fleet.what)


def test_a_prefix_is_computed_once_as_long_as_it_has_room() -> None:
    asked = sharing(requests(), 10, 3000, 0.0, 0, 1)
    assert asked.things is not None
    fleet, found = served(asked)
    (row,) = fleet.replicas
    assert found.ends["ok"] == len(asked)
    assert row[b.HITS] == len(asked) - len(np.unique(asked.things.of))
    assert row[b.READ] == asked.prompt.sum() - 3000 * row[b.HITS]
    _, cold = served(replace(asked, things=None))
    assert found.means["ttft"] < 0.5 * cold.means["ttft"]


def test_where_the_cache_is_small_prefixes_push_each_other_out() -> None:
    asked = sharing(requests(rate=1.0), 200, 6000, 0.0, 0, 1)
    tight, found = served(asked, memory_share=0.26)
    roomy, _ = served(asked)
    assert found.ends["ok"] == len(asked)
    assert 0 < tight.replicas[0, b.HITS] < roomy.replicas[0, b.HITS]
    assert tight.replicas[0, b.RESIDENT] <= tight.times.cache_tokens


def test_a_gateway_that_knows_of_prefixes_finds_more_of_them() -> None:
    asked = sharing(requests(rate=20.0), 60, 4000, 0.0, 12, 1)
    hits = {
        policy: int(served(asked, 6, policy)[0].replicas[:, b.HITS].sum())
        for policy in ("LeastRequests", "PrefixAware")
    }
    assert hits["PrefixAware"] > 1.2 * hits["LeastRequests"]


def test_adapters_are_loaded_when_missing_and_so_many_stay() -> None:
    asked = sharing(requests(rate=1.0), 8, 0, 2.0, 4, 1)
    fleet, found = served(asked)
    assert found.ends["ok"] == len(asked)
    assert (fleet._resident > 0).sum() == 4
    loads = len(asked) - fleet.replicas[0, b.HITS]
    assert 4 < loads < len(asked)
    _, all_stay = served(sharing(requests(rate=1.0), 8, 0, 2.0, 0, 1))
    assert all_stay.means["ttft"] < found.means["ttft"]


def test_guesses_help_one_and_cost_many() -> None:
    """As measured everywhere: speculative decoding pays while the GPU waits for memory, not where it computes."""
    few, many = requests(rate=0.2), requests(rate=60.0, seconds=120.0)
    guessing: dict[str, Any] = {"draft_tokens": 4, "acceptance": 0.7, "draft_share": 0.05}
    assert deployed(**guessing).tokens_a_step == pytest.approx((1 - 0.7**5) / 0.3)
    alone = served(few, **guessing)[1].means["tpot"] / served(few)[1].means["tpot"]
    crowded = served(many, **guessing)[1].means["tpot"] / served(many)[1].means["tpot"]
    assert 0.36 <= alone < 0.55
    assert crowded > alone


def test_servers_apart_answer_all_and_keep_prompts_out_of_the_way_of_tokens() -> None:
    asked = requests(rate=6.0, prompt=3000, output=120)
    _, found = served(asked, 2)
    when, what = served_apart(asked, (deployed(), 1), (deployed(), 1))
    apart = readings(when, what)
    assert apart.ends["ok"] == found.ends["ok"] == len(asked)
    assert apart.percentiles["tpot"][2] < found.percentiles["tpot"][2]
    assert (when[:, b.FIRST] >= when[:, b.ARRIVED]).all() and (when[:, b.DONE] >= when[:, b.FIRST]).all()
    slow, _ = served_apart(asked, (deployed(), 1), (deployed(), 1), link_bytes_per_s=1e9)
    assert slow[:, b.DONE].mean() > when[:, b.DONE].mean()
