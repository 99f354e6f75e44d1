"""sreport and sdiag: sums agree with the accounts, layouts with Slurm's source."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slurmtyped import Typed
from slurmworld import START_US, world

from fairway.slurm.utilization import utilization

HOUR = 3600


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(("alice", "bob", "carol")),
            st.integers(1, 20000),
            st.integers(0, 3000),
            st.integers(0, 8),
        ),
        min_size=1,
        max_size=25,
    )
)
def test_every_second_of_the_cluster_is_somebodys_or_nobodys(jobs: list[tuple[str, int, int, int]]) -> None:
    one = world()
    for user, runs, wait, gpus in jobs:
        one.submit(runs, user=user, gpus=gpus, num_tasks=4, time_limit=600)
        one.run(wait)
    one.run(30000)
    cluster, now = one.ctl.cluster, one.ctl.now
    begin = START_US // 1_000_000 // HOUR * HOUR
    end = -(-now // HOUR) * HOUR
    sums = utilization(cluster, begin, end, now)
    for name, total in sums.reported.items():
        parts = (sums.allocated, sums.down, sums.planned_down, sums.planned, sums.idle)
        assert sum(part[name] for part in parts) - sums.over[name] == pytest.approx(total)
        assert sum(held.get(name, 0) for held in sums.by_holder.values()) == pytest.approx(
            sums.allocated[name]
        )
    # Against the rows of the accounts, added up without hours.
    rows = [(job, job.end if job.finished else now) for job in (*cluster.archive, *cluster.running.values())]
    want = sum((stop - job.start) * job.alloc_tres.get("gres/gpu", 0) for job, stop in rows if job.shares)
    assert sums.allocated["gres/gpu"] == pytest.approx(want)


def test_the_reports_look_as_slurms(tmp_path: Path) -> None:
    door = Typed(tmp_path)
    for user, gpus in (("alice", 1), ("carol", 4)):
        door.type("sbatch", f"--gres=gpu:{gpus}", "--wrap", "sleep 1800", user=user)
    door.run(86400)
    top = door.type("sreport", "-P", "-T", "gres/gpu", "-t", "seconds", "-n", "user", "top", *LATELY)[1]
    # Whole seconds: a start late in one may count it.
    assert re.fullmatch(
        r"fairway\|carol\|\|prod\|gres/gpu\|720[04]\nfairway\|alice\|\|research\|gres/gpu\|180[01]\n", top
    )
    shown = door.type("sreport", "cluster", "AccountUtilizationByUser", *LATELY)[1].splitlines()
    assert shown[0] == "-" * 80
    assert shown[1].startswith("Cluster/Account/User Utilization ")
    assert shown[2] == "Usage reported in CPU Minutes"
    assert shown[4] == "  Cluster         Account     Login     Proper Name     Used   Energy "
    assert shown[6:] == [
        "  fairway            root                                 60        0 ",
        "  fairway            prod                                 30        0 ",
        "  fairway            prod     carol                       30        0 ",
        "  fairway        research                                 30        0 ",
        "  fairway        research     alice                       30        0 ",
    ]
    assert door.type("sreport", "job", "sizes")[0] == 0
    assert "Cluster Utilization" in door.type("sreport", stdin="cluster utilization\nquit\n")[1]
    door.end()


# Starts and ends are rounded to the nearest hour.
LATELY = ("start=now-3days", "end=now")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("cluster",), "too few arguments for keyword:cluster\n"),
        (("user", "x"), 'Not valid report x\nValid user reports are, "Top"\n'),
        (("nothing",), "invalid keyword: nothing\n"),
        (("user", "top", "format=x"), " Unknown field 'x'\n"),
        (("-T", "gold", "user", "top"), "sreport: fatal: No valid TRES given\n"),
    ],
)
def test_what_sreport_refuses(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    door = Typed(tmp_path)
    code, _, err = door.type("sreport", *words)
    assert (code, err) == (1, said)
    door.end()


def test_sdiag_tells_how_many_jobs_a_cycle_looked_at(tmp_path: Path) -> None:
    """Six jobs of a node each on four nodes: two are left for the last cycle, which plans both."""
    door = Typed(tmp_path)
    for _ in range(6):
        door.type("sbatch", "--exclusive", "-t", "5", "--wrap", "sleep 100")
    door.run(20)
    shown = [line.strip() for line in door.type("sdiag")[1].splitlines()]
    for name in ("Last depth cycle", "Last depth cycle (try sched)", "Last queue length"):
        assert f"{name}: 2" in shown
    assert shown.count("Last queue length: 2") == 2  # the main scheduler's and backfill's
    assert "Last table size: 3" in shown
    # Of all cycles so far, the first of which may have seen all six: when they come goes by the second of the start.
    (mean,) = (int(line.split()[-1]) for line in shown if line.startswith("Mean depth cycle:"))
    assert 2 <= mean <= 6
    assert door.type("sdiag", "-r")[0] == 0
    reset = [line.strip() for line in door.type("sdiag")[1].splitlines()]
    assert "Last depth cycle: 0" in reset and "Last table size: 3" in reset
    door.end()


def test_sdiag_counts_and_is_reset_by_administrators(tmp_path: Path) -> None:
    door = Typed(tmp_path)
    for wrap in ("sleep 60", "exit 1", "sleep 9999"):
        door.type("sbatch", "--wrap", wrap)
    door.run(30)
    door.type("scancel", "3")
    door.run(60)
    shown = door.type("sdiag")[1]
    for line in (
        "Jobs submitted: 3",
        "Jobs started:   3",
        "Jobs completed: 1",
        "Jobs canceled:  1",
        "Jobs failed:    1",
    ):
        assert line in shown.splitlines()
    assert door.type("sdiag", "-r", user="alice")[0] == 255
    assert door.type("sdiag", "-r")[1] == "Reset scheduling statistics\n"
    assert "\tTotal cycles: 0" in door.type("sdiag")[1].splitlines()
    before = door.type("sdiag")
    door.end()
    again = Typed(tmp_path)
    assert again.type("sdiag") == before
    again.end()
