"""`fairway plan serving`: what it proposes keeps the SLO, one replica less does not, and nothing beats the frontier."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fairway.catalog.catalog import load_catalog
from fairway.cli.main import main
from fairway.errors import UserError
from fairway.results.servingplan import Wanted, _fewest, _played, frontier, planned
from fairway.serving.models import model_named
from fairway.serving.readings import Slo
from fairway.serving.steptimes import Deployed
from fairway.serving.traffic import Tokens

WANTED = Wanted(
    model_named("llama-3.1-8b"), 12.0, Tokens(500, 0.6, 4000), Tokens(150, 0.6, 1200), Slo(1.0, 0.06), 0.99
)


def test_proposals_keep_the_slo_and_one_replica_less_does_not() -> None:
    catalog = load_catalog()
    options, _ = planned(WANTED, catalog, ("L40S", "L4"))
    assert options and all(o.found.attained >= 0.99 for o in options)
    assert [o.micros_mean for o in options] == sorted(o.micros_mean for o in options)
    for option in options[:3]:
        gpu = catalog.gpu(option.gpu)
        assert gpu is not None
        deployed = Deployed(
            WANTED.model, gpu, option.parallel, seqs_most=option.seqs, tokens_most=option.tokens
        )
        if option.replicas > 1:
            assert _played(WANTED, deployed, option.replicas - 1, WANTED.rate).attained < 0.99
        assert _fewest(WANTED, deployed, WANTED.rate) == option.replicas
    edge = frontier(options)
    for option in options:
        beaten = any(e.micros_mean <= option.micros_mean and e.ttft_p95_s <= option.ttft_p95_s for e in edge)
        assert beaten


def test_a_quiet_night_makes_it_cheaper() -> None:
    (day, _), (night, _) = (
        planned(replace(WANTED, rate=40.0, trough=trough, quiet_hours=12.0), load_catalog(), ("L40S",))
        for trough in (0.0, 2.0)
    )
    assert night[0].least < night[0].replicas
    assert night[0].micros_mean < day[0].micros_mean


def test_slices_have_their_share_and_small_ones_do_not_fit() -> None:
    options, why = planned(replace(WANTED, rate=0.5), load_catalog(), ("A100-SXM4-80GB",))
    slices = {o.slice for o in options}
    assert "3g.40gb" in slices and "1g.10gb" not in slices
    assert why["the model does not fit"] > 0
    whole = next(o for o in options if not o.slice and o.parallel == 1)
    part = next(o for o in options if o.slice == "3g.40gb")
    assert part.tpot_p95_s > 1.5 * whole.tpot_p95_s


def test_the_command_prints_draws_and_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = [
        "plan",
        "serving",
        "llama-3.1-8b",
        "--rate",
        "5",
        "--gpu",
        "L40S",
        "--tpot",
        "60ms",
        "--plot",
        str(tmp_path),
    ]
    assert main(said) == 0
    out = capsys.readouterr().out
    assert "→ cheapest" in out and "vllm serve … --tensor-parallel-size" in out
    assert (tmp_path / "serving-plan.svg").read_text(encoding="utf-8").startswith("<svg")
    assert main(["plan", "serving", "llama-3.1-405b", "--rate", "5", "--gpu", "L4"]) == 1
    assert "the model does not fit" in capsys.readouterr().out
    assert main(["plan", "serving", "llama-2-7b", "--rate", "1", "--prompt", "4000", "--answer", "200"]) == 2
    assert "context of 4096 tokens" in capsys.readouterr().err
    with pytest.raises(UserError, match="--gpu 'H9000'"):
        planned(WANTED, load_catalog(), ("H9000",))
