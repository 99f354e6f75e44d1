"""What is told of an array's planned start: that of the last task that backfill planned, as Slurm's record has it."""

from __future__ import annotations

import pytest
from tests.slurm.slurmworld import START_US, world

FROM = START_US // 1_000_000


@pytest.mark.parametrize(
    ("tasks", "more", "minutes"),
    [
        ("1", "", 5),
        ("1-2", "", 10),
        ("1-3", "", 15),
        ("1-9", ",bf_max_job_array_resv=2", 10),
        ("1-9", ",bf_max_job_array_resv=1", 5),
        ("1-9", ",bf_one_resv_per_job", 45),
        ("1-9", ",bf_window=60", 45),
        ("1-30", "", 100),
    ],
)
def test_the_last_planned_task_tells_its_start(tasks: str, more: str, minutes: int) -> None:
    """One node of eight GPUs, taken for five minutes; each task takes it for five. Twenty are planned at most."""
    bf = "SchedulerParameters=bf_interval=2,bf_resolution=1,batch_sched_delay=0,sched_interval=2"
    w = world(bf + more + "\n")
    w.submit(300, gpus=8)
    w.run(2)
    array = w.submit(300, gpus=8, array=tasks)
    w.run(4)
    assert array.pending
    assert (array.start - w.ctl.cluster.jobs[1].end) // 60 == minutes - 5
    assert array.scheduled_nodes == ("n1",)


def test_a_task_beyond_the_window_leaves_the_array_without_a_start() -> None:
    bf = "SchedulerParameters=bf_interval=2,bf_resolution=1,batch_sched_delay=0,sched_interval=2,bf_window=23\n"
    w = world(bf)
    w.submit(300, gpus=8)
    w.run(2)
    array = w.submit(300, gpus=8, array="1-9")
    w.run(4)
    assert (array.state, array.start, array.scheduled_nodes) == ("PENDING", 0, ("n1",))


def test_of_several_partitions_the_earlier_start_is_told() -> None:
    w = world()
    w.submit(600, gpus=8, time_limit=10)
    w.run(2)
    w.submit(300, gpus=8, time_limit=5, partition="p2", nodelist=("n2",))
    w.run(2)
    both = w.submit(300, gpus=8, time_limit=5, partition="p1,p2", priority=None)
    w.run(4)
    assert both.pending
    assert both.scheduled_nodes == ("n2",)
    assert both.start - FROM == pytest.approx(304, abs=3)
