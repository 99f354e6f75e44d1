"""Reports about queues: the example of a night of borrowing, told by every rendering."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairway.results.charts import charts_of
from fairway.results.compare import compare
from fairway.results.figures import figures_of
from fairway.results.htmlreport import html_report
from fairway.results.plots import write_plots
from fairway.results.queuefigures import CLUSTER_QUEUE, QueueFigures
from fairway.results.run import Run, RunInfo
from fairway.results.rundir import QUEUE_TABLES, load_run, write_run
from fairway.results.textlayout import as_text
from fairway.results.textreport import report_lines
from fairway.scenario.loading import load_scenario
from fairway.scenario.running import run_scenario

EXAMPLE = Path(__file__).parents[2] / "examples" / "09-night-borrowing"


def _run(name: str) -> Run:
    finished = run_scenario(load_scenario(EXAMPLE / name))
    return Run(RunInfo(finished.scenario.name, finished.seed), finished.outcome)


@pytest.fixture(scope="module")
def lending() -> Run:
    return _run("scenario.yaml")


@pytest.fixture(scope="module")
def keeping() -> Run:
    return _run("no-lending.yaml")


def _figures(run: Run) -> QueueFigures:
    found = figures_of(run.outcome).queues
    assert found is not None
    return found


def test_figures(lending: Run) -> None:
    figures = _figures(lending)
    assert figures.unit == "GPUs"
    production, research = figures.quotas
    assert (production.nominal, research.nominal) == (24, 8)
    assert research.borrowed == pytest.approx(production.lent) and research.borrowed > 5
    assert research.borrowed_most == pytest.approx(16)
    by_queue = {w.group: w for w in figures.waits if w.by == CLUSTER_QUEUE}
    assert by_queue["production"].admitted == by_queue["production"].workloads == 40
    assert sum(w.workloads for w in by_queue.values()) == figures.waits[0].workloads
    pairs = {(p.preemptor, p.victim, p.reason): p.count for p in figures.pairs}
    assert pairs == {("production", "research", "InCohortReclamation"): figures.preempted}
    assert sum(u.workloads for u in figures.unadmitted) == figures.waits[0].waiting


@pytest.mark.parametrize("width", [80, 100, 140])
def test_terminal(lending: Run, width: int) -> None:
    text = as_text(report_lines(lending, width))
    assert max(map(len, text.splitlines())) <= width
    for part in (
        "QUEUE WAITS",
        "QUOTA OVER TIME",
        "production → research",
        "Jain's index",
        "NOT ADMITTED WHEN IT ENDED",
        "borrowed",
        "lent",
        "Preempted (by Kueue)",
    ):
        assert part in " ".join(text.split()), part


def test_html_and_plots(lending: Run, tmp_path: Path) -> None:
    page = html_report(lending)
    for part in ("Queue waits", "Quota, GPUs", "Preemptions by Kueue", "Fairness", "InCohortReclamation"):
        assert part in page, part
    names = {"quota-used", "quota-borrowed", "queue-pending", "queue-waits", "fairness"}
    assert names <= set(charts_of(lending))
    assert names <= set(write_plots(lending, tmp_path))
    assert all((tmp_path / f"{name}.svg").stat().st_size > 1000 for name in names)


def test_a_run_directory_keeps_the_queues(lending: Run, tmp_path: Path) -> None:
    write_run(tmp_path / "run", lending.outcome, lending.info)
    back = load_run(tmp_path / "run")
    assert back.outcome.queues == lending.outcome.queues or all(
        list(getattr(back.outcome.queues, name)) == list(getattr(lending.outcome.queues, name))
        for name in QUEUE_TABLES
    )
    assert as_text(report_lines(back)) == as_text(report_lines(lending))
    summary = json.loads((tmp_path / "run" / "summary.json").read_text(encoding="utf-8"))
    assert summary["figures"]["queues"]["quotas"][0]["cluster_queue"] == "production"


def test_a_run_without_kueue_has_none_of_it(tmp_path: Path) -> None:
    finished = run_scenario(load_scenario(EXAMPLE.parent / "04-anti-affinity"))
    run = Run(RunInfo("plain"), finished.outcome)
    assert figures_of(run.outcome).queues is None
    write_run(tmp_path, run.outcome, run.info)
    assert not list(tmp_path.glob("queue-*")) and load_run(tmp_path).missing == ()
    assert "QUEUE WAITS" not in as_text(report_lines(run))
    assert not any(d.name.startswith("queue wait") for d in compare([run, run]).differences)
    # One run over the directory of another leaves nothing of it behind.
    other = run_scenario(load_scenario(EXAMPLE.parent / "07-training-gang")).outcome
    write_run(tmp_path, other, run.info)
    assert list(tmp_path.glob("queue-*"))
    write_run(tmp_path, run.outcome, run.info)
    assert not list(tmp_path.glob("queue-*"))


def test_comparing_what_lending_is_worth(keeping: Run, lending: Run) -> None:
    found = {d.name: d for d in compare([keeping, lending]).differences}
    assert found["quota borrowed, mean"].values[0] == 0
    assert found["workloads not admitted at the end"].verdicts == ("same", "better")
    assert found["workloads preempted by Kueue"].verdicts == ("same", "worse")
    assert found["queue wait p95, cluster queue research"].verdicts == ("same", "better")
    assert found["queue wait p95"].matters
