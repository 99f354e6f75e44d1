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
from fairway.scheduling.gpushare.devices import Int64s

MOST_POINTS = 100  # a scheduler plugin's best score


@dataclass(frozen=True, slots=True)
class Policy:
    """One placement policy.

    `score(nodes, rows, pod, scores, chosen)` writes scores[row] (higher is better, -1: does not fit) and
    chosen[row] (bit mask of devices) for these rows alone; all arrays are int64. A policy with
    `uses_demand` takes the arrays of TypicalPods after them. With `draws`, chance picks among the nodes that fit
    (see random_fit). A policy that `spreads` has scores of any size: as a scheduler plugin it needs
    `plugin_scores`.
    """

    name: str
    score: Callable[..., None]
    uses_demand: bool = False
    draws: bool = False
    spreads: bool = False


RANDOM = Policy("Random", random_fit.score, draws=True)
DOT_PRODUCT = Policy("DotProduct", dot_product.score)
GPU_CLUSTERING = Policy("GpuClustering", gpu_clustering.score)
GPU_PACKING = Policy("GpuPacking", gpu_packing.score)
BEST_FIT = Policy("BestFit", best_fit.score, spreads=True)
FGD = Policy("FGD", fgd.score, uses_demand=True)
HEADROOM = Policy("Headroom", headroom.score, uses_demand=True, spreads=True)  # our own

PUBLISHED = (RANDOM, DOT_PRODUCT, GPU_CLUSTERING, GPU_PACKING, BEST_FIT, FGD)  # those of the FGD paper
POLICIES = MappingProxyType({policy.name: policy for policy in (*PUBLISHED, HEADROOM)})
ALIASES = MappingProxyType({"DotProd": "DotProduct"})  # as the paper's result files call it


def policy_named(name: str) -> Policy:
    """The policy of that name, in any case. Raises UserError naming those there are."""
    for known in (*POLICIES, *ALIASES):
        if known.lower() == name.lower():
            return POLICIES[ALIASES.get(known, known)]
    raise UserError(f"no placement policy {name!r}: expected one of {', '.join(POLICIES)}")


def plugin_scores(policy: Policy, scores: Int64s) -> Int64s:
    """The scores of nodes that passed the filters as a scheduler plugin gives them: 0 … 100.

    What spreads is stretched from the lowest to the highest, rounded down: the best stay the best, alone. All
    equal is 0, as in the FGD simulator.
    """
    if not policy.spreads or not len(scores):
        return scores
    low, high = scores.min(), scores.max()
    stretched: Int64s = (scores - low) * MOST_POINTS // max(high - low, 1)
    return stretched
