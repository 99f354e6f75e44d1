"""A twin that plays a scenario: the standard components, its traces, faults, timeline, and a recorder."""

from __future__ import annotations

from fairway.queueing.control.settings import DEFAULT_KUEUE
from fairway.recorder.recorder import Recorder
from fairway.scenario.assertions.watching import ReachingWatch
from fairway.scenario.component import ScenarioComponent
from fairway.scenario.entering import enter
from fairway.scenario.hazards import Hazards
from fairway.scenario.model import CloudPlan, Scenario
from fairway.traces.component import TraceComponent
from fairway.traces.sources import arrivals_of
from fairway.twin.components import Component
from fairway.twin.containment import Containment
from fairway.twin.markets.component import SpotMarket
from fairway.twin.nodegroups.component import ClusterAutoscaler
from fairway.twin.provisioner.component import Provisioner
from fairway.twin.standard import standard_components
from fairway.twin.twin import Twin


def build_twin(
    scenario: Scenario,
    *,
    seed: int | None = None,
    keep_records: int = 0,
    containment: Containment | None = None,
) -> Twin:
    """The twin, at its start: nothing has happened yet. `seed` None: the scenario's."""
    seed = scenario.seed if seed is None else seed
    components: list[Component] = [ScenarioComponent(scenario)]
    if scenario.traces:
        arrivals = tuple(arrivals_of(use, seed) for use in scenario.traces)
        components.append(TraceComponent(arrivals, enter, scenario.start_us))
    if scenario.faults:
        components.append(Hazards(scenario.faults))
    if scenario.cloud is not None:
        components += market_of(scenario.cloud)
    kueue = DEFAULT_KUEUE if scenario.kueue is None else scenario.kueue.kueue_settings()
    components += standard_components(
        scenario.profiles, kueue=kueue, load=scenario.load, stores=scenario.stores
    )
    if scenario.cloud is not None:
        components += provisioners_of(scenario.cloud)
    if scenario.serving:
        from fairway.twin.serving.component import Serving

        components.append(Serving(scenario.serving))
    watch = ReachingWatch.of(scenario.assertions)
    if watch.goals:
        components.append(watch)
    components.append(Recorder())
    return Twin(
        seed=seed,
        latency=scenario.latency,
        components=components,
        start_us=scenario.start_us,
        keep_records=keep_records,
        containment=containment,
    )


def market_of(plan: CloudPlan) -> list[Component]:
    """What takes a cloud's machines back, where anything does."""
    return [SpotMarket(plan.market)] if plan.market.hazards or plan.market.recorded else []


def provisioners_of(plan: CloudPlan) -> list[Component]:
    """Who launches a cloud's machines."""
    found: list[Component] = [Provisioner(plan.cloud)]
    return found if plan.autoscaler is None else [*found, ClusterAutoscaler(plan.autoscaler)]
