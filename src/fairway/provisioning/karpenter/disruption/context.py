"""What disruption is decided from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from fairway.kube.objects import Obj
from fairway.provisioning.karpenter.packing import Options
from fairway.provisioning.karpenter.podfacts import Shapes
from fairway.provisioning.karpenter.world import World

EMPTY: Final = "Empty"
DRIFTED_REASON: Final = "Drifted"
UNDERUTILIZED: Final = "Underutilized"
# (reason, message) of a Kubernetes event.
BLOCKED: Final = "DisruptionBlocked"
UNCONSOLIDATABLE: Final = "Unconsolidatable"


class Notice(NamedTuple):
    """An event about a node and its claim, or about a NodePool."""

    about: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class DisruptionContext:
    """`world` holds every node, also those that are going; `disrupting` are the names of nodes under a command.

    `consolidated`: methods that found nothing to do and need not look again, because nothing changed since.
    `shapes`: what is known of pods from before.
    """

    world: World
    now_us: int
    pending: tuple[Obj, ...] = ()
    budgets: tuple[Obj, ...] = ()
    disrupting: frozenset[str] = frozenset()
    options: Options = field(default_factory=Options)
    spot_to_spot: bool = False
    consolidated: frozenset[str] = frozenset()
    shapes: Shapes = field(default_factory=Shapes)
