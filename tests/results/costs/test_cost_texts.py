"""What a cost report looks like: within its width, self-contained, and the same numbers everywhere."""

from __future__ import annotations

import csv
import json
from io import StringIO
from pathlib import Path

import pytest
from costworld import CATALOG, LABELS, bill

from fairway.metering.focus import MANDATORY
from fairway.results.costs.answers import CostReport, Question, cost_report
from fairway.results.costs.breakdown import Shared
from fairway.results.costs.budgets import Budget, Period
from fairway.results.costs.costtext import cost_lines
from fairway.results.costs.exports import showback_csv, write_bill, write_focus
from fairway.results.costs.money import dollars, exact_dollars
from fairway.results.costs.showbackhtml import showback_html
from fairway.results.costs.trends import cost_charts
from fairway.results.textlayout import as_text
from recorded import Recorded


def report() -> CostReport:
    """Three machines, one without a price, two teams and a nobody, over a month's end."""
    world = Recorded()
    world.node("od", gpus=8, cpu="96", memory="1152Gi", **{LABELS: "p4d.24xlarge"})
    world.node("sp", gpus=1, **{LABELS: "g5.xlarge", "karpenter_sh__capacity-type": "spot"})
    world.node("own-with-a-very-long-name-indeed", gpus=4)
    job = world.workload("Job", "train-" + "x" * 60, "research")
    for i, team in enumerate(("vision", "<b>chat</b>", "")):
        labels = {"fairway.dev/epochs": "3"} | ({"team": team} if team else {})
        world.pod(f"p{i}", "research", gpus=i + 1, owner=job, labels=labels, use="40%" if i else "")
        world.bind(f"p{i}", "od", "research").run(f"p{i}", "research")
    world.pod("q", "ops", gpus=2).bind("q", "own-with-a-very-long-name-indeed", "ops")
    queues = ({"namespace": "ops", "name": "x", "cluster_queue": "cq", "cohort": "", "gpu_milli": 0},)
    world.at(27.5 * 86400)
    budgets = (Budget("everything", {}, 10_000_000_000, Period.MONTH, enforce_at=50, action="record"),)
    question = Question(by=("team",), shared=(Shared("idle"),), budgets=budgets)
    return cost_report(bill(world, queues=queues), question)


REPORT = report()


@pytest.mark.parametrize("width", [80, 100, 120])
def test_lines_fit(width: int) -> None:
    text = as_text(cost_lines(REPORT, width, months=True))
    assert max(map(len, text.splitlines())) <= width
    for said in (
        "UNPRICED",
        "WHERE IT WENT",
        "BY TEAM",
        "2026-02 BY TEAM",
        "TOP CONSUMERS",
        "BUDGETS",
        "vision",
    ):
        assert said in text
    assert "of p4d" not in text.split("WHERE IT WENT")[0]


def test_nothing_priced_is_not_nothing() -> None:
    world = Recorded()
    world.node("n", gpus=8).at(3600)
    text = as_text(cost_lines(cost_report(bill(world))))
    assert "unpriced" in text.splitlines()[0]
    assert "$0.00" not in text.splitlines()[0]
    assert "set the label node.kubernetes.io/instance-type" in " ".join(text.split())
    assert "$0.00" not in text


def test_the_page_needs_no_network_and_escapes_names() -> None:
    page = showback_html(REPORT)
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "https://" not in page
    assert "<b>chat</b>" not in page
    assert "&lt;b&gt;chat&lt;/b&gt;" in page
    assert "have no price" in " ".join(page.split())
    assert page.count('<svg id="chart-') == 2


def test_the_csv_adds_up_to_the_ledger() -> None:
    rows = list(csv.DictReader(StringIO(showback_csv(REPORT))))
    assert {row["month"] for row in rows} == {"2026-01", "2026-02"}
    micros = sum(round(float(row["owed_usd"] or 0) * 1_000_000) for row in rows)
    assert micros == REPORT.run.metered.ledger.total


def test_json_says_the_same() -> None:
    data = json.loads(json.dumps(REPORT.as_json()))
    total = REPORT.run.metered.ledger.total
    assert data["figures"]["total_micros"] == total
    assert sum(line["owed_micros"] or 0 for line in data["lines"]) == total
    assert data["budgets"][0]["is_over"]
    assert data["decisions"][0]["percent"] == 50


def test_exports_keep_every_micro_dollar(tmp_path: Path) -> None:
    import polars as pl

    total = REPORT.run.metered.ledger.total
    for suffix in (".csv", ".parquet"):
        file = tmp_path / f"bill{suffix}"
        write_bill(REPORT.run, file)
        read = pl.read_csv(file) if suffix == ".csv" else pl.read_parquet(file)
        assert read["micros"].sum() == total
    file = tmp_path / "focus.parquet"
    write_focus(REPORT.run, CATALOG, file)
    focus = pl.read_parquet(file)
    assert set(MANDATORY) <= set(focus.columns)
    assert round(float(focus["BilledCost"].sum()) * 1_000_000) == total
    spot = focus.filter(pl.col("PricingCategory") == "Dynamic")
    # Spot is listed at what it costs on demand.
    assert float(spot["ListCost"].sum()) == pytest.approx(
        float(spot["BilledCost"].sum()) * 1.01 / 0.35, rel=1e-4
    )
    assert set(focus["ProviderName"]) == {"AWS", "Fairway"}
    assert focus.filter(pl.col("x_Unpriced"))["BilledCost"].null_count() == focus["x_Unpriced"].sum()


def test_charts_are_there_where_there_is_money() -> None:
    assert set(cost_charts(REPORT.trend, "team", REPORT.budgets)) == {"cost", "cost-total"}
    assert cost_charts(None, "team") == {}


def test_how_money_is_written() -> None:
    assert [dollars(m) for m in (0, 4_100, 1_234_500_000, -3_000_000, None)] == [
        "$0.00",
        "$0.0041",
        "$1,234.50",
        "-$3.00",
        "–",
    ]
    assert exact_dollars(1) == "0.000001"
