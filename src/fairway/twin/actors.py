"""Who acts on a kind? Kinds that only lie there are told: a rule nobody evaluates must not pass for one that holds.

A component acts on the kinds it watches, unless it says otherwise (`acts_on`): onlookers act on none, controllers on
those they reconcile. So a new room has nothing to register but its component.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from fairway.cluster.store import Store
from fairway.kube import published
from fairway.twin.components import EVERY_KIND, Component

# Settings of others: read by whoever acts on these.
_READ_FOR: Final = {
    "GatewayClass.gateway.networking.k8s.io": "Gateway.gateway.networking.k8s.io",
    "LLMInferenceServiceConfig.serving.kserve.io": "LLMInferenceService.serving.kserve.io",
    "ServingRuntime.serving.kserve.io": "InferenceService.serving.kserve.io",
    "ClusterServingRuntime.serving.kserve.io": "InferenceService.serving.kserve.io",
    # Rules see what these would have scraped; a real Prometheus beside a served cluster scrapes by them.
    "ServiceMonitor.monitoring.coreos.com": "PrometheusRule.monitoring.coreos.com",
    "PodMonitor.monitoring.coreos.com": "PrometheusRule.monitoring.coreos.com",
}
# Of Kubernetes' own kinds: no packet is sent here.
_WITHOUT_EFFECT: Final = ("Ingress.networking.k8s.io", "NetworkPolicy.networking.k8s.io")


def acted_on(components: Iterable[Component]) -> frozenset[str]:
    """The group kinds that at least one of these components does something about."""
    found: set[str] = set()
    for component in components:
        kinds: tuple[str, ...] = getattr(component, "acts_on", component.kinds)
        found.update(gk for gk in kinds if gk != EVERY_KIND)
    found.update(gk for gk, actor in _READ_FOR.items() if actor in found)
    return frozenset(found)


def idle_kinds(store: Store, components: Iterable[Component]) -> list[str]:
    """The kinds of which there are objects, but nobody who acts on them. Sorted."""
    acted = acted_on(components)
    known = published.kinds()
    return [
        gk
        for gk in store.kinds()
        if (gk in known or gk in _WITHOUT_EFFECT) and gk not in acted and store.count(gk)
    ]
