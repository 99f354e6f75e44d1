"""The trace in its own time: who waits, who leaves unplaced, and how much is in use when."""

import pytest
from openbworld import written

from fairway.errors import UserError
from fairway.openb.own_time import DAY_S, run_own_time
from fairway.openb.trace import read_trace
from fairway.openb.workload import workload
from fairway.scheduling.gpushare.policies import FGD, POLICIES

NODES = "sn,cpu_milli,memory_mib,gpu,model\nn-0,8000,65536,1,T4\n"
HEADER = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time\n"


def replay(directory, *rows, policy=FGD):
    pods = HEADER + "".join(
        f"{name},1000,1024,{gpus},{milli},{come},{go}\n" for name, gpus, milli, come, go in rows
    )
    trace = read_trace(*written(directory, NODES, pods))
    return run_own_time(trace, workload(trace), policy, 42)


CASES = {
    "one after the other": ([("a", 1, 1000, 0, 10), ("b", 1, 1000, 10, 20)], (0, 10), ()),
    "waits until there is room": ([("a", 1, 1000, 0, 10), ("b", 1, 1000, 4, 20)], (0, 10), (6,)),
    "leaves unplaced": ([("a", 1, 1000, 0, 10), ("b", 1, 1000, 4, 9)], (0, None), ()),
    "room is made before the last second is over": (
        [("a", 1, 1000, 0, 10), ("b", 1, 1000, 4, 10)],
        (0, 10),
        (6,),
    ),
    "the older waits first": (
        [("a", 1, 1000, 0, 10), ("b", 1, 600, 1, 30), ("c", 1, 600, 2, 40)],
        (0, 10, 30),
        (9, 28),
    ),
    "one that does not fit holds up nobody": (
        [("a", 1, 500, 0, 90), ("b", 1, 1000, 1, 95), ("c", 1, 500, 2, 30)],
        (0, 90, 2),
        (89,),
    ),
    "no duration at all": ([("a", 1, 1000, 5, 5), ("b", 1, 1000, 5, 9)], (5, 5), ()),
    "without GPUs": ([("a", 0, 0, 0, 10), ("b", 1, 1000, 1, 2)], (0, 1), ()),
}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("case", CASES)
def test_who_waits(tmp_path, case, policy):
    rows, placed_s, waits_s = CASES[case]
    run = replay(tmp_path, *rows, policy=POLICIES[policy])
    assert run.placed_s == placed_s
    assert run.waits_s == waits_s


def test_use_is_counted_by_day(tmp_path):
    run = replay(tmp_path, ("a", 1, 500, 0, DAY_S + 100), ("b", 1, 500, 10, 20))
    assert run.gpu_milli_seconds == (500 * DAY_S + 500 * 10, 500 * 100)
    assert run.peak_milli == (1000, 500)


def test_a_list_without_stamps_is_refused(tmp_path):
    trace = read_trace(*written(tmp_path, pods="name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1,1,0,0\n"))
    with pytest.raises(UserError, match="pod a has no creation_time or deletion_time"):
        run_own_time(trace, workload(trace), FGD, 42)
