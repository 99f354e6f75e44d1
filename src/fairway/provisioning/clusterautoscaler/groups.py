"""What is decided from: node groups, nodes, and options with upstream's defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fairway.kube.objects import Obj
from fairway.kube.resources import NVIDIA_GPU, Resources
from fairway.kube.taints import Taint
from fairway.kube.timestamps import HOUR_US, MINUTE_US, SECOND_US
from fairway.provisioning.karpenter.podfacts import HostPort
from fairway.provisioning.karpenter.requirements import Requirements, label_requirements

RANDOM, MOST_PODS, LEAST_WASTE, PRICE, PRIORITY = "random", "most-pods", "least-waste", "price", "priority"
EXPANDERS = (RANDOM, MOST_PODS, LEAST_WASTE, PRICE, PRIORITY)


@dataclass(frozen=True, slots=True)
class Options:
    """Flags. Source: config/flags/flags.go, config/const.go."""

    expanders: tuple[str, ...] = (LEAST_WASTE,)
    scan_interval_us: int = 10 * SECOND_US
    max_nodes_total: int = 0
    max_node_provision_us: int = 15 * MINUTE_US
    balance_similar: bool = False
    scale_down: bool = True
    utilization_threshold: float = 0.5
    gpu_utilization_threshold: float = 0.5
    unneeded_us: int = 10 * MINUTE_US
    unready_us: int = 20 * MINUTE_US
    delay_after_add_us: int = 10 * MINUTE_US
    delay_after_delete_us: int = 0
    delay_after_failure_us: int = 3 * MINUTE_US
    most_at_once: int = 10
    most_drained_at_once: int = 1
    delete_delay_us: int = 5 * SECOND_US
    """From the taint to the drain."""
    most_eviction_us: int = 2 * MINUTE_US
    ignore_daemon_sets: bool = False
    skip_system_pods: bool = True
    system_pods_hold_us: int = HOUR_US
    """How long a pod of kube-system without a budget keeps its node, from its creation."""
    skip_local_storage: bool = True
    skip_custom_controllers: bool = True
    backoff_us: int = 5 * MINUTE_US
    most_backoff_us: int = 30 * MINUTE_US
    backoff_reset_us: int = 180 * MINUTE_US
    most_graceful_s: int = 600
    most_new_nodes: int = 1000
    provisioning_requests: bool = False
    request_backoff_us: int = MINUTE_US
    most_request_backoff_us: int = 10 * MINUTE_US
    expendable_below: int = -10
    """Pods of a lower priority open no nodes."""


@dataclass(frozen=True, slots=True)
class Seat:
    """A node as pods see it: one that is there, or a template of one that would be."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    capacity: Resources
    allocatable: Resources
    used: Resources = field(default_factory=dict)
    ports: tuple[HostPort, ...] = ()
    requirements: Requirements = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "requirements", label_requirements(self.labels))

    @property
    def has_gpu(self) -> bool:
        return self.allocatable.get(NVIDIA_GPU, 0) > 0


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """`target`: the size asked of the cloud. `price`: µ$ per node and hour, None where nobody knows.

    `unsafe`: why it may not grow now (it is in backoff), else empty.
    """

    name: str
    least: int
    most: int
    target: int
    template: Seat
    price: int | None = None
    unsafe: str = ""


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node that is there. `group`: empty where the autoscaler does not manage it."""

    seat: Seat
    group: str
    pods: tuple[Obj, ...] = ()
    is_ready: bool = True
    is_going: bool = False
    no_scale_down: bool = False

    @property
    def name(self) -> str:
        return self.seat.name
