"""Run directories: written, read back, cut off, and refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from runworld import INFO, small_run, small_world

from fairway.errors import InvalidInput, UserError
from fairway.recorder.tables import COMPLETE, INTERRUPTED, RUNNING
from fairway.results.run import RunInfo
from fairway.results.rundir import EVENTS, SUMMARY, TABLES, RunWriter, load_run, read_events, write_run
from recorded import Recorded


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    run = small_run()
    write_run(tmp_path / "run", run.outcome, run.info)
    again = load_run(tmp_path / "run")
    assert again.info == run.info
    assert again.missing == ()
    for name in TABLES:
        assert list(getattr(again.outcome, name)) == list(getattr(run.outcome, name)), name
    for name in ("began_us", "ended_us", "status", "events", "reasons", "peaks", "integrals"):
        assert getattr(again.outcome, name) == getattr(run.outcome, name), name


def test_the_summary_may_be_named_itself(tmp_path: Path) -> None:
    run = small_run()
    write_run(tmp_path, run.outcome, run.info)
    assert load_run(tmp_path / SUMMARY).info.name == run.info.name


def test_ctrl_c_leaves_an_interrupted_run(tmp_path: Path) -> None:
    world = Recorded().node("n1", gpus=2)
    with pytest.raises(KeyboardInterrupt), RunWriter(tmp_path, world.recorder, RunInfo("r")) as writer:
        world.twin.host.log.sinks.append(writer.on_records)
        world.at(1).pod("p", gpus=1).bind("p", "n1").run("p")
        world.twin.host.log.record(5, "c", "Pod", "a", "p", "Started", "words")
        world.at(60)
        raise KeyboardInterrupt
    run = load_run(tmp_path)
    assert (run.status, run.info.reason) == (INTERRUPTED, "stopped by Ctrl-C")
    assert [i.end_us for i in run.outcome.intervals] == [None]
    assert run.outcome.pods[0].phase == "Running"
    assert [r.reason for r in read_events(tmp_path)] == ["Started"]


def test_an_error_leaves_an_interrupted_run_that_says_which(tmp_path: Path) -> None:
    world = Recorded()
    with pytest.raises(RuntimeError), RunWriter(tmp_path, world.recorder, RunInfo("r")):
        raise RuntimeError("out of luck")
    assert load_run(tmp_path).info.reason == "RuntimeError: out of luck"


def test_a_killed_run_says_running_and_has_its_events(tmp_path: Path) -> None:
    script = f"""
import os, sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from pathlib import Path
from recorded import Recorded
from fairway.results import rundir
from fairway.results.run import RunInfo
rundir.PART_RECORDS = 10
world = Recorded().node("n1")
with rundir.RunWriter(Path({str(tmp_path)!r}), world.recorder, RunInfo("killed", seed=7)) as writer:
    world.twin.host.log.sinks.append(writer.on_records)
    for i in range(25):
        world.twin.host.log.record(i, "c", "Pod", "a", "p", "Started", "")
        world.twin.host.log.flush()
    os.kill(os.getpid(), 9)
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -9
    run = load_run(tmp_path)
    assert (run.status, run.info.name, run.info.seed) == (RUNNING, "killed", 7)
    assert run.missing == tuple(TABLES)
    assert len(run.outcome.pods) == 0
    assert [r.time_us for r in read_events(tmp_path)] == list(range(20))


def test_a_checkpoint_is_what_a_killed_run_has(tmp_path: Path) -> None:
    world = Recorded().node("n1")
    writer = RunWriter(tmp_path, world.recorder, RunInfo("r"))
    writer.__enter__()
    world.at(1).pod("p")
    writer.checkpoint(world.outcome(RUNNING))
    run = load_run(tmp_path)
    assert (run.status, [p.name for p in run.outcome.pods]) == (RUNNING, ["p"])


def test_an_earlier_run_is_replaced(tmp_path: Path) -> None:
    run = small_run()
    write_run(tmp_path, run.outcome, run.info)
    write_run(tmp_path, Recorded().at(5).outcome(), RunInfo("new"))
    again = load_run(tmp_path)
    assert (again.info.name, again.status, len(again.outcome.pods)) == ("new", COMPLETE, 0)


def test_other_directories_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(UserError, match="expected a new or empty directory"):
        write_run(tmp_path, small_run().outcome, INFO)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize(
    ("break_it", "want"),
    [
        (lambda d: (d / SUMMARY).unlink(), "expected a run directory"),
        (lambda d: (d / SUMMARY).write_text("{"), "not JSON"),
        (lambda d: (d / SUMMARY).write_text("[]"), "expected fairway.dev/run/v1"),
        (
            lambda d: (d / SUMMARY).write_text('{"schema": "fairway.dev/run/v9"}'),
            "expected fairway.dev/run/v1",
        ),
        (lambda d: (d / "pods.parquet").write_text("no"), "expected a Parquet file"),
        (
            lambda d: os.replace(d / "nodes.parquet", d / "pods.parquet"),
            "namespace: expected a column of this name",
        ),
    ],
)
def test_what_is_no_run_is_refused(tmp_path: Path, break_it: object, want: str) -> None:
    run = small_run()
    write_run(tmp_path, run.outcome, run.info)
    break_it(tmp_path)  # type: ignore[operator]
    with pytest.raises(InvalidInput, match=want):
        load_run(tmp_path)


def test_a_missing_table_is_empty_and_named(tmp_path: Path) -> None:
    run = small_run()
    write_run(tmp_path, run.outcome, run.info)
    (tmp_path / "intervals.parquet").unlink()
    again = load_run(tmp_path)
    assert (again.missing, len(again.outcome.intervals), len(again.outcome.pods)) == (("intervals",), 0, 10)


def test_equal_runs_are_equal_files(tmp_path: Path) -> None:
    """Whatever the hash seed: every file, the report and the charts included."""
    script = f"""
import sys
sys.path[:0] = [{str(Path(__file__).parents[1])!r}, {str(Path(__file__).parent)!r}]
from pathlib import Path
from runworld import small_run
from fairway.results.htmlreport import html_report
from fairway.results.plots import write_plots
from fairway.results.rundir import write_run
out = Path(sys.argv[1])
run = small_run()
write_run(out / "run", run.outcome, run.info)
write_plots(run, out / "plots")
(out / "report.html").write_text(html_report(run))
"""
    found = []
    for seed in ("1", "2"):
        out = tmp_path / seed
        env = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run([sys.executable, "-c", script, str(out)], check=True, env=env)
        found.append({p.relative_to(out).as_posix(): p.read_bytes() for p in sorted(out.rglob("*.*"))})
    assert found[0].keys() == found[1].keys()
    assert [name for name in found[0] if found[0][name] != found[1][name]] == []
    assert {"run/pods.parquet", "plots/allocation.png", "plots/timeline.svg", "report.html"} <= found[
        0
    ].keys()


def test_the_summary_is_for_programs(tmp_path: Path) -> None:
    run = small_run()
    write_run(tmp_path, run.outcome, run.info)
    summary = json.loads((tmp_path / SUMMARY).read_text())
    assert summary["schema"] == "fairway.dev/run/v1"
    assert summary["began"] == "2026-01-05T00:00:00.000000Z"
    assert summary["figures"]["pods"] == {
        "total": 10, "started": 8, "succeeded": 5, "failed": 2, "running": 1, "waiting": 2, "evicted": 1, "restarts": 2,
    }  # fmt: skip
    assert summary["figures"]["waits"][0]["by"] == "all"
    assert (tmp_path / EVENTS).is_dir()


def test_an_empty_run_can_be_written_and_read(tmp_path: Path) -> None:
    write_run(tmp_path, Recorded().outcome(), RunInfo("nothing"))
    assert load_run(tmp_path).outcome.duration_us == 0


def test_worlds_are_what_they_seem() -> None:
    outcome = small_world().outcome()
    assert [p.name for p in outcome.pods if p.is_wasted] == ["train-1", "sweep-0"]
