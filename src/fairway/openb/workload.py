"""The trace as tables: which kinds of pods are there, and what does each node have?

Pods with the same needs are one shape; an experiment then handles 8,152 pods as 91 shapes.
"""

from dataclasses import dataclass

import numpy as np

from fairway.openb.trace import Trace
from fairway.scheduling.gpushare.devices import COUNT, EACH, POD_COLUMNS, GpuNodes, Int64s, ModelCodes
from fairway.scheduling.gpushare.fragmentation import TypicalPods, typical_pods

MIB = 1 << 20  # bytes


@dataclass(frozen=True, slots=True)
class Workload:
    """nodes: in the order of their names, idle. shapes: int64[shape, POD_COLUMNS]. shape_of: int64[pod], by pod name.

    `typical` are the trace's own popular shapes: what the measure of fragmentation expects to come.
    """

    nodes: GpuNodes
    shapes: Int64s
    shape_of: Int64s
    typical: TypicalPods

    @property
    def gpu_milli_of(self) -> Int64s:
        """GPU-milli each shape asks for in total: int64[shape]."""
        total: Int64s = self.shapes[:, COUNT] * self.shapes[:, EACH]
        return total

    @property
    def gpu_milli_capacity(self) -> int:
        return int(self.nodes.gpu_milli_free.sum())


def workload(trace: Trace) -> Workload:
    """Both lists as tables. Shapes are numbered in the order of their needs."""
    models = ModelCodes.of(node.model for node in trace.nodes)
    needs = [
        (p.cpu_milli, p.memory_mib * MIB, p.num_gpu, p.gpu_milli, models.mask(p.gpu_models))
        for p in trace.pods
    ]
    number = {shape: i for i, shape in enumerate(sorted(dict.fromkeys(needs)))}
    nodes = GpuNodes.idle(
        [n.cpu_milli for n in trace.nodes],
        [n.memory_mib * MIB for n in trace.nodes],
        [n.gpu for n in trace.nodes],
        [models.code(n.model) for n in trace.nodes],
    )
    return Workload(
        nodes=nodes,
        shapes=np.array(list(number), np.int64).reshape(-1, POD_COLUMNS),
        shape_of=np.array([number[shape] for shape in needs], np.int64),
        typical=typical_pods(needs, ("|".join(pod.gpu_models) for pod in trace.pods)),
    )
