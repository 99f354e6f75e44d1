"""What runs in a cluster that is served: what every twin runs, and what only a served one needs.

Here is also where another kubelet comes in: one that runs real processes takes the nodes that are its own, by
being a component that watches pods and nodes as the simulated one does.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fairway.apiserver.controlplanepods import OF_AUTOSCALER, OF_KARPENTER, ControlPlanePods, Program
from fairway.apiserver.endpoints import EndpointsController
from fairway.apiserver.leftout import EVERYTHING, MANAGER, LeftOut
from fairway.apiserver.namespaced import NamespaceFurniture
from fairway.apiserver.nodeleases import NodeLeases
from fairway.apiserver.nodettl import NodeTtl
from fairway.apiserver.signingrequests import CertificateSigner
from fairway.scheduling.profile import DEFAULT_PROFILE, Profile
from fairway.twin.autoscaling.component import Autoscaling
from fairway.twin.components import Component
from fairway.twin.controllers import Controllers
from fairway.twin.distributions import Distribution
from fairway.twin.latency import DEFAULT, Latency, latency_named
from fairway.twin.standard import standard_components
from fairway.workloads import adoption

if TYPE_CHECKING:
    from fairway.scenario.model import CloudPlan

SERVED = "served"
_OPERATORS = "workload-operators"
# A person waits for these pods at wall speed: images are small or cached nearby. Everything else as in a twin.
_SERVED = replace(
    DEFAULT,
    image_pull=Distribution("uniform", 100_000, 400_000),
    image_check=Distribution("uniform", 50_000, 100_000),
)


def served_components(
    signer: CertificateSigner,
    cloud: CloudPlan | None = None,
    left: LeftOut = EVERYTHING,
    profiles: tuple[Profile, ...] | None = None,
) -> list[Component]:
    """New components, in the order in which they see changes. `cloud`: where nodes come from by themselves; `left`:
    whose place somebody else takes; `profiles`: of kube-scheduler."""
    market, provisioners = _of_cloud(cloud)
    found = [
        *market,
        *standard_components((DEFAULT_PROFILE,) if profiles is None else profiles, is_served=True),
        *provisioners,
        NamespaceFurniture(),
        EndpointsController(),
        NodeTtl(),
        NodeLeases(),
        ControlPlanePods(_programs(cloud), left),
        signer,
    ]
    return [kept for one in found if (kept := _kept(one, left)) is not None] if left.names else found


def _kept(component: Component, left: LeftOut) -> Component | None:
    """What is left of a component; None: nothing."""
    if component.name in left.components:
        return None
    if isinstance(component, Controllers):
        instead = (adoption.pods_without(left.owners),) if left.owners else ()
        # What is left of kube-controller-manager then are the operators that run beside it.
        name = _OPERATORS if component.name == MANAGER and MANAGER in left else component.name
        return component.without(left.controllers, instead, name)
    if isinstance(component, Autoscaling) and left.scalers:
        return Autoscaling(component.load, without=left.scalers)
    return component


def _programs(plan: CloudPlan | None) -> tuple[Program, ...]:
    if plan is None:
        return ()
    return (OF_KARPENTER,) if plan.autoscaler is None else (OF_KARPENTER, OF_AUTOSCALER)


def _of_cloud(plan: CloudPlan | None) -> tuple[list[Component], list[Component]]:
    if plan is None:
        return [], []
    from fairway.scenario.building import market_of, provisioners_of

    return market_of(plan), provisioners_of(plan)


def latency_of(name: str) -> Latency:
    """`served`, or what `latency_named` knows.

    Raises: InvalidInput.
    """
    return _SERVED if name == SERVED else latency_named(name)
