"""What is a scenario? Frozen data: all a run needs.

Times are integer µs; `at_us` counts from the scenario's start. `where` is `file:line` for messages. Whoever
runs it may give another seed: what depends on it (generated traces) is made when a twin is built.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from fairway.autoscaling.load.reading import NO_LOAD, Load
from fairway.errors import FieldProblem
from fairway.kube.labels import EVERYTHING, Selector
from fairway.kube.manifest import Manifest
from fairway.kube.objects import Obj
from fairway.queueing.configuration import Configuration
from fairway.scenario.actions import Action
from fairway.scenario.assertions.grammar import Assertion
from fairway.scheduling.profile import DEFAULT_PROFILE, Profile
from fairway.traces.sources import TraceUse
from fairway.twin.distributions import Distribution
from fairway.twin.kubelet.stores import Store
from fairway.twin.latency import DEFAULT, Latency
from fairway.twin.markets.plan import Market
from fairway.twin.nodegroups.grouping import AutoscalerPlan
from fairway.twin.provisioner.cloud import Cloud
from fairway.twin.twin import EPOCH_US

if TYPE_CHECKING:
    from fairway.twin.serving.served import Served

API_VERSION = "fairway.dev/v1alpha1"
KIND = "Scenario"


@dataclass(frozen=True, slots=True)
class Step:
    """One entry of the timeline: what is done, in order. `every_us` and `times` repeat it."""

    at_us: int
    actions: tuple[Action, ...]
    where: str
    path: str
    every_us: int = 0
    times: int = 1


@dataclass(frozen=True, slots=True)
class BehaviourProfile:
    """Annotations (`fairway.dev/…`) for the pods of matching workloads. Empty criteria match everything.

    What an object says itself stays, unless `overrides`.
    """

    annotations: tuple[tuple[str, str], ...]
    kinds: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    priority_classes: tuple[str, ...] = ()
    selector: Selector = EVERYTHING
    overrides: bool = False


@dataclass(frozen=True, slots=True)
class FaultProcess:
    """A random process that breaks nodes, one per matching node.

    `kind`: NodeFailure (down after `after`, up again after `repair`), SpotPreemption (a warning, then gone; a
    replacement after `repair` unless that is None), or GPUFailure (one card, by the causes of `fleet`).
    """

    name: str
    kind: str
    after: Distribution
    repair: Distribution | None
    warning_us: int = 0
    selector: Selector = EVERYTHING
    nodes: tuple[str, ...] = ()
    fleet: str = ""
    """Of GPUFailure: whose rates; `after` is one card's then."""
    drains: bool = False


@dataclass(frozen=True, slots=True)
class CloudPlan:
    """The cloud nodes come from. `books`: files of prices beside the scenario, for its bill."""

    cloud: Cloud
    market: Market = field(default_factory=Market)
    provider: str = ""
    books: tuple[Path, ...] = ()
    autoscaler: AutoscalerPlan | None = None


@dataclass(frozen=True, slots=True)
class Scenario:
    """`objects` are there at the start, in the order of their creation. `duration_us` None: until nothing is
    left to happen, at most `running.HORIZON_US` after the last thing the scenario itself does. `kueue`: how Kueue is
    configured, where the scenario says it."""

    name: str
    file: str
    objects: tuple[Obj, ...]
    seed: int = 0
    start_us: int = EPOCH_US
    duration_us: int | None = None
    latency: Latency = DEFAULT
    profiles: tuple[Profile, ...] = (DEFAULT_PROFILE,)
    kueue: Configuration | None = None
    steps: tuple[Step, ...] = ()
    traces: tuple[TraceUse, ...] = ()
    behaviours: tuple[BehaviourProfile, ...] = ()
    faults: tuple[FaultProcess, ...] = ()
    assertions: tuple[Assertion, ...] = ()
    cloud: CloudPlan | None = None
    load: Load = NO_LOAD
    """What pods use and report beyond their behaviour, series of metrics, and queues."""
    serving: tuple[Served, ...] = ()
    """Services that model servers answer, with their requests."""
    stores: tuple[Store, ...] = ()
    """Where init containers fetch models from."""
    description: str = ""
    skipped: tuple[FieldProblem, ...] = field(default=())
    """What lenient reading left out."""
    origins: tuple[Manifest, ...] = ()
    """Where each of the objects was read."""
    is_lenient: bool = False

    @property
    def last_step_us(self) -> int:
        """When the timeline does something for the last time, from the start."""
        return max([0, *(s.at_us + s.every_us * (s.times - 1) for s in self.steps)])
