"""How one scheduler is set up: which plugins, with which weights and arguments.

The default is kube-scheduler's default profile. `config` reads a KubeSchedulerConfiguration into profiles.
Source: pkg/scheduler/apis/config/v1/default_plugins.go and defaults.go (v1.36).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fairway.cluster.shapes import DEFAULT_SCHEDULER, SpreadConstraint
from fairway.kube.labels import NOTHING
from fairway.kube.nodeselection import Term
from fairway.kube.resources import CPU, MEMORY
from fairway.scheduling.coscheduling import DEFAULT_COSCHEDULING, CoschedulingArgs
from fairway.scheduling.extenders import Extender

LEAST_ALLOCATED = "LeastAllocated"
MOST_ALLOCATED = "MostAllocated"
REQUESTED_TO_CAPACITY_RATIO = "RequestedToCapacityRatio"

# Filter plugins in the order they run.
FILTER_PLUGINS = (
    "NodeUnschedulable",
    "NodeName",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "GpuShare",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
    "PodTopologySpread",
    "InterPodAffinity",
    "DynamicResources",
)

# The placement policies for shared GPUs that a profile may give a weight (see scheduling/gpushare).
GPU_POLICIES = ("Random", "DotProduct", "GpuClustering", "GpuPacking", "BestFit", "FGD", "Headroom")

DEFAULT_WEIGHTS: dict[str, int] = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesFit": 1,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "DynamicResources": 2,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
}


def _soft(max_skew: int, key: str) -> SpreadConstraint:
    return SpreadConstraint(
        max_skew, key, NOTHING, min_domains=1, honors_affinity=True, honors_taints=False, is_hard=False
    )


# Source: podtopologyspread/plugin.go systemDefaultConstraints.
SYSTEM_DEFAULT_SPREAD = (_soft(3, "kubernetes.io/hostname"), _soft(5, "topology.kubernetes.io/zone"))


@dataclass(frozen=True, slots=True)
class FitStrategy:
    """NodeResourcesFit's scoring. `shape` is (utilization %, score 0–10) points, for the ratio strategy."""

    kind: str = LEAST_ALLOCATED
    resources: tuple[tuple[str, int], ...] = ((CPU, 1), (MEMORY, 1))
    shape: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class PreemptionArgs:
    """How many candidate nodes a preemption looks at. Source: DefaultPreemptionArgs."""

    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100


@dataclass(frozen=True)
class Profile:
    """One scheduler profile."""

    scheduler_name: str = DEFAULT_SCHEDULER
    filters: frozenset[str] = frozenset(FILTER_PLUGINS)
    weights: dict[str, int] = field(default_factory=lambda: dict(DEFAULT_WEIGHTS))
    fit: FitStrategy = FitStrategy()
    ignored_resources: frozenset[str] = frozenset()
    ignored_resource_groups: frozenset[str] = frozenset()
    balanced_resources: tuple[str, ...] = (CPU, MEMORY)
    hard_pod_affinity_weight: int = 1
    ignores_preferred_terms_of_existing_pods: bool = False
    default_spread: tuple[SpreadConstraint, ...] = SYSTEM_DEFAULT_SPREAD
    is_spread_system_defaulted: bool = True
    added_required: tuple[Term, ...] | None = None
    added_preferred: tuple[tuple[int, Term], ...] = ()
    preempts: bool = True
    has_dynamic_resources: bool = True
    preemption: PreemptionArgs = PreemptionArgs()
    # Plugins that may keep a pod waiting on its node for others: GangScheduling, Coscheduling.
    permits: frozenset[str] = frozenset()
    coscheduling: CoschedulingArgs = DEFAULT_COSCHEDULING
    extenders: tuple[Extender, ...] = ()
    # 0: adaptive, 50 % less one per 125 nodes, at least 5 %.
    percentage_of_nodes_to_score: int = 0

    def filters_with(self, plugin: str) -> bool:
        return plugin in self.filters

    def weight(self, plugin: str) -> int:
        """0 where the plugin does not score."""
        return self.weights.get(plugin, 0)

    def ignores(self, resource: str) -> bool:
        """Whether NodeResourcesFit leaves this extended resource to somebody else."""
        if resource in self.ignored_resources:
            return True
        return (
            bool(self.ignored_resource_groups) and resource.partition("/")[0] in self.ignored_resource_groups
        )


DEFAULT_PROFILE = Profile()
