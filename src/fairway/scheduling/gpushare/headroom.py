"""Headroom: keep enough CPU beside every free GPU. Fairway's own policy.

What FGD leaves unallocated is of two kinds. Most is the rest of devices that one large sharing pod holds (190
milli beside 810): no placement helps. The other kind is GPU on nodes that have run out of CPU. So Headroom
watches that alone: the expected GPU pods ask for so many GPU-milli per CPU-milli; free GPU beyond what a
node's free CPU serves at that rate is stranded. Place each pod where the stranded GPU shrinks most or grows
least, on the tightest devices, and among equals where the least is left on them.

It needs one number of the workload, no list of shapes, and a node costs a few operations instead of FGD's
walk over devices × typical pods. The rate is the workload's own, not tuned: on the openb default workload every
rate from 0.9 to 1.1 times it does as well. GPU allocated at 100 % arrival, percent, means of ten runs:

              default  cpu100  gpushare40  gpuspec10  multigpu20
    FGD         95.23   95.21       93.96      94.66       95.53
    Headroom    95.84   95.85       94.39      95.87       96.43
"""

from fairway.kernels import kernel, leaf
from fairway.scheduling.gpushare.devices import (
    COUNT,
    CPU,
    EACH,
    GPU,
    MAX_DEVICES,
    MILLI,
    Float64s,
    Int64s,
    fits,
    gpu_milli_free,
    tightest,
)

BALANCE = 16 * MILLI  # added to a change of at most eight devices, so that no score is negative
TIE = 1024  # scores per GPU-milli stranded: room for what is left on the devices, 0 … 1000


@kernel
def score(
    nodes: Int64s, rows: Int64s, pod: Int64s, scores: Int64s, chosen: Int64s, needs: Int64s, share: Float64s
) -> None:
    """GPU-milli no longer stranded, rounded down, then the less left on the devices; the tightest devices."""
    rate = gpu_per_cpu(needs, share)
    for row in rows:
        scores[row], chosen[row] = -1, 0
        if not fits(nodes, row, pod):
            continue
        chosen[row] = tightest(nodes, row, pod)
        free, cpu = gpu_milli_free(nodes, row), nodes[row, CPU]
        before = max(0.0, free - rate * cpu)
        after = max(0.0, free - pod[COUNT] * pod[EACH] - rate * (cpu - pod[CPU]))
        left = 0
        for device in range(MAX_DEVICES):
            if (chosen[row] >> device) & 1:
                left = nodes[row, GPU + device] - pod[EACH]
        scores[row] = int(before - after + BALANCE) * TIE + MILLI - left


@leaf
def gpu_per_cpu(needs: Int64s, share: Float64s) -> float:
    """GPU-milli the typical pods with GPUs ask for per CPU-milli; 0 if they ask for no GPU or no CPU."""
    gpu = cpu = 0.0
    for t in range(len(share)):
        if needs[t, COUNT] > 0:
            gpu += share[t] * needs[t, COUNT] * needs[t, EACH]
            cpu += share[t] * needs[t, CPU]
    return gpu / cpu if cpu > 0.0 else 0.0
