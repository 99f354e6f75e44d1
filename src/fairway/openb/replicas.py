"""Several runs of one experiment, over the cores there are.

The published results are means over ten runs that differ in their seed alone; one run of a policy that
breaks ties by node order can be several points off. Runs share nothing, so they may go side by side.
"""

import multiprocessing
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from fairway.openb.arrivals import ArrivalRun, run_arrivals
from fairway.openb.workload import Workload
from fairway.scheduling.gpushare.policies import Policy, policy_named

MOST_WORKERS = 8  # a run takes a fraction of a second; more workers would only start up


def run_replicas(
    load: Workload, policy: Policy, arrival: float, seeds: Sequence[int], workers: int | None = None
) -> list[ArrivalRun]:
    """One run per seed, in the order of the seeds; the result does not depend on the number of workers."""
    # The first run, here, loads or compiles the kernels once for all workers.
    first, rest = [run_arrivals(load, policy, arrival, seed) for seed in seeds[:1]], seeds[1:]
    workers = min(workers or _cores(), len(rest), MOST_WORKERS)
    if workers <= 1 or sys.platform != "linux":
        return first + [run_arrivals(load, policy, arrival, seed) for seed in rest]
    # Forked workers inherit the workload and the loaded modules: starting anew would cost more than a run.
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        one = partial(_run_named, load, policy.name, arrival)
        return first + list(pool.map(one, rest, chunksize=-(-len(rest) // (2 * workers))))


def _run_named(load: Workload, policy_name: str, arrival: float, seed: int) -> ArrivalRun:
    return run_arrivals(load, policy_named(policy_name), arrival, seed)


def _cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
