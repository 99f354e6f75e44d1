"""Which placement policies are there, and what does each need to decide?"""

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType

from fairway.errors import UserError
from fairway.scheduling.gpushare import (
    best_fit,
    dot_product,
    fgd,
    gpu_clustering,
    gpu_packing,
    headroom,
    random_fit,
)


@dataclass(frozen=True, slots=True)
class Policy:
    """One placement policy.

    `score(nodes, rows, pod, scores, chosen)` writes scores[row] (higher is better, -1: does not fit) and
    chosen[row] (bit mask of devices) for these rows alone; all arrays are int64. A policy with
    `uses_demand` takes the three arrays of TypicalPods after them. With `draws`, chance picks among the nodes
    that fit (see random_fit).
    """

    name: str
    score: Callable[..., None]
    uses_demand: bool = False
    draws: bool = False


RANDOM = Policy("Random", random_fit.score, draws=True)
DOT_PRODUCT = Policy("DotProduct", dot_product.score)
GPU_CLUSTERING = Policy("GpuClustering", gpu_clustering.score)
GPU_PACKING = Policy("GpuPacking", gpu_packing.score)
BEST_FIT = Policy("BestFit", best_fit.score)
FGD = Policy("FGD", fgd.score, uses_demand=True)
HEADROOM = Policy("Headroom", headroom.score, uses_demand=True)  # our own

PUBLISHED = (RANDOM, DOT_PRODUCT, GPU_CLUSTERING, GPU_PACKING, BEST_FIT, FGD)  # those of the FGD paper
POLICIES = MappingProxyType({policy.name: policy for policy in (*PUBLISHED, HEADROOM)})
ALIASES = MappingProxyType({"DotProd": "DotProduct"})  # as the paper's result files call it


def policy_named(name: str) -> Policy:
    """The policy of that name, in any case. Raises UserError naming those there are."""
    for known in (*POLICIES, *ALIASES):
        if known.lower() == name.lower():
            return POLICIES[ALIASES.get(known, known)]
    raise UserError(f"no placement policy {name!r}: expected one of {', '.join(POLICIES)}")
