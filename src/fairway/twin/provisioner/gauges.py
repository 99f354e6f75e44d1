"""What would Karpenter's metrics say now? Counters as they stand, and gauges of the nodes and NodePools there are.

Worked out when somebody asks: O(nodes + pods). Unlike kube: nodes that may go, and what budgets allow, are of now, not
of the last time a method of disruption looked.

Source: controllers/metrics/node, controllers/metrics/nodepool, controllers/state/metrics.go,
disruption/helpers.go BuildDisruptionBudgetMapping.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from fairway.kube.metricfamilies import Observed, Sample
from fairway.kube.objects import Obj, meta_of, status_of
from fairway.kube.podrequests import pod_limits
from fairway.kube.resources import CPU, PODS, Resources, add_into, parse_resources
from fairway.kube.timestamps import SECOND_US, parse_rfc3339
from fairway.provisioning.karpenter.disruption.budgets import allowed_disruptions
from fairway.provisioning.karpenter.disruption.context import DRIFTED_REASON, EMPTY, UNDERUTILIZED
from fairway.provisioning.karpenter.disruption.methods import eligible
from fairway.provisioning.karpenter.labels import (
    ARCH,
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    NODEPOOL,
    OS,
    REGION,
    WINDOWS_BUILD,
    ZONE,
)
from fairway.provisioning.karpenter.nodes import Standing
from fairway.provisioning.karpenter.podfacts import is_owned_by, requests_of
from fairway.provisioning.karpenter.statenode import StateNode
from fairway.provisioning.karpenter.world import World
from fairway.provisioning.metrics import NODE_LABELS

if TYPE_CHECKING:
    from fairway.twin.provisioner.component import Provisioner

_K = "karpenter_"
_MICROS = 1_000_000
# A label of a metric, and the label of a Node that it is.
_FROM_LABELS = {
    "arch": ARCH,
    "capacity_type": CAPACITY_TYPE,
    "instance_type": INSTANCE_TYPE,
    "nodepool": NODEPOOL,
    "os": OS,
    "region": REGION,
    "windows_build": WINDOWS_BUILD,
    "zone": ZONE,
}


def samples(provisioner: Provisioner) -> list[Sample]:
    """Counters so far, and gauges as of now; of pods by themselves `podmeter` of the API server tells."""
    context = provisioner.disruption.context()
    world = context.world
    out = provisioner.tally.samples()
    out += _of_pools(world)
    out += _of_budgets(world)
    out += _of_nodes(world)
    name = f"{_K}voluntary_disruption_eligible_nodes"
    out += [Sample(name, (reason.lower(),), float(n)) for reason, n in eligible(context).items()]
    refused = Sample(f"{_K}scheduler_unschedulable_pods_count", ("provisioner",), float(provisioner.refused))
    plain = {
        "scheduler_ignored_pods_count": provisioner.ignored,
        "cluster_state_node_count": len(world.nodes),
        # What a twin's Karpenter knows is the store.
        "cluster_state_synced": 1,
        "cluster_state_unsynced_time_seconds": 0,
    }
    return [*out, refused, *(Sample(f"{_K}{n}", (), float(value)) for n, value in plain.items())]


def observed(provisioner: Provisioner) -> list[Observed]:
    return provisioner.tally.observed(provisioner.host.loop.now_us)


def _of_pools(world: World) -> Iterator[Sample]:
    usage = world.nodes.usage()
    for pool in world.pools:
        yield from _amounts(f"{_K}nodepools_limit", pool.limits or {}, after=(pool.name,))
        yield from _amounts(f"{_K}nodepools_usage", usage.get(pool.name, {}), after=(pool.name,))
        cost = sum(_price(world, node) for node in world.nodes if node.pool == pool.name)
        yield Sample(f"{_K}nodepools_cost_total", (pool.name,), cost / _MICROS)


def _price(world: World, node: StateNode) -> int:
    """µ$ an hour of its offering, at list price; 0 where there is none."""
    fleet, labels = world.fleets.get(node.pool), node.labels
    kind = None if fleet is None else fleet.named(labels.get(INSTANCE_TYPE) or "")
    if kind is None:
        return 0
    return kind.price_of(labels.get(ZONE) or "", labels.get(CAPACITY_TYPE) or "") or 0


def _of_budgets(world: World) -> Iterator[Sample]:
    for pool in world.pools:
        standing = world.nodes.standing.get(pool.name) or Standing()
        for reason in (EMPTY, DRIFTED_REASON, UNDERUTILIZED):
            allowed = allowed_disruptions(pool, reason, standing.nodes, world.now_us)
            labels = (pool.name, reason)
            yield Sample(f"{_K}nodepools_allowed_disruptions", labels, float(allowed))
            yield Sample(f"{_K}nodepools_nodes_consuming_budgets", labels, float(standing.going))


def _of_nodes(world: World) -> Iterator[Sample]:
    allocatable_of_all: Resources = {}
    asked_of_all: Resources = {}
    for node in world.nodes:
        if not node.has_node:
            continue
        labels = _labels(node)
        status = status_of(node.node_object)
        capacity = parse_resources(status.get("capacity"))
        allocatable = parse_resources(status.get("allocatable") or status.get("capacity"))
        requests, limits = _summed(node.pods)
        of_daemons = _summed(p for p in node.pods if is_owned_by(p, "DaemonSet"))
        overhead = {name: amount - allocatable.get(name, 0) for name, amount in capacity.items()}
        for metric, amounts in (
            ("allocatable", allocatable),
            ("system_overhead", overhead),
            ("total_pod_requests", requests),
            ("total_pod_limits", limits),
            ("total_daemon_requests", of_daemons[0]),
            ("total_daemon_limits", of_daemons[1]),
        ):
            yield from _amounts(f"{_K}nodes_{metric}", amounts, before=labels)
        born_us = parse_rfc3339(meta_of(node.node_object)["creationTimestamp"])
        age_s = (world.now_us - born_us) / SECOND_US
        yield Sample(f"{_K}nodes_current_lifetime_seconds", labels, age_s)
        add_into(allocatable_of_all, allocatable)
        add_into(asked_of_all, requests)
    for name, amount in sorted(allocatable_of_all.items()):
        if amount:
            percent = 100 * asked_of_all.get(name, 0) / amount
            yield Sample(f"{_K}cluster_utilization_percent", (_resource(name),), percent)


def _labels(node: StateNode) -> tuple[str, ...]:
    """In the order of NODE_LABELS."""
    own = {"managed": str(node.is_managed).lower(), "node_name": node.name}
    own["phase"] = str(status_of(node.node_object).get("phase") or "")
    return tuple(own[label] if label in own else _labelled(node.labels, label) for label in NODE_LABELS)


def _labelled(labels: Mapping[str, str], label: str) -> str:
    return labels.get(_FROM_LABELS[label]) or ""


def _summed(pods: Iterable[Obj]) -> tuple[Resources, Resources]:
    """Requests and limits of these, each with how many they are. Nobody: nothing."""
    requests: Resources = {}
    limits: Resources = {}
    for pod in pods:
        add_into(requests, requests_of(pod["spec"]))
        add_into(limits, {**pod_limits(pod["spec"]), PODS: 1})
    return requests, limits


def _amounts(
    name: str, amounts: Mapping[str, int], *, before: tuple[str, ...] = (), after: tuple[str, ...] = ()
) -> Iterator[Sample]:
    """A sample a resource, its name among the other labels."""
    for resource, amount in sorted(amounts.items()):
        yield Sample(name, (*before, _resource(resource), *after), _amount(resource, amount))


def _resource(name: str) -> str:
    return name.lower().replace("-", "_")


def _amount(name: str, amount: int) -> float:
    """CPU in cores, everything else as it is."""
    return amount / 1000 if name == CPU else float(amount)
