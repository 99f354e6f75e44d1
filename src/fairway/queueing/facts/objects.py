"""What do Kueue's configuration objects say? Typed facts of flavors, queues, cohorts, topologies and checks.

Reads v1beta1 and v1beta2 alike: where they differ (`cohort`/`cohortName`, `admissionChecks`,
`Preempt`/`Borrow` in flavor fungibility, `parent`/`parentName`) both spellings are understood. What the API
server defaults is written by `defaulting`; an object that never passed it is read as Kueue's cache reads it:
a preemption policy left empty inside a given `preemption` is neither Never nor one that finds victims.

Source: apis/kueue/v1beta2/*_types.go, apis/kueue/v1beta1/*_conversion.go, pkg/cache/scheduler/clusterqueue.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from fairway.kube import quantity
from fairway.kube.labels import Selector, label_selector
from fairway.kube.objects import Obj, labels_of, meta_of, name_of, namespace_of, spec_of, status_of
from fairway.kube.resources import Resources, parse_resources
from fairway.kube.taints import Taint, Toleration, parse_taints, parse_tolerations
from fairway.queueing.facts.amounts import quota_amount

HOSTNAME_LABEL: Final = "kubernetes.io/hostname"

STRICT_FIFO: Final = "StrictFIFO"
BEST_EFFORT_FIFO: Final = "BestEffortFIFO"

NEVER: Final = "Never"
ANY: Final = "Any"
LOWER_PRIORITY: Final = "LowerPriority"
LOWER_OR_NEWER_EQUAL_PRIORITY: Final = "LowerOrNewerEqualPriority"

TRY_NEXT_FLAVOR: Final = "TryNextFlavor"
MAY_STOP_SEARCH: Final = "MayStopSearch"
BORROWING_OVER_PREEMPTION: Final = "BorrowingOverPreemption"
PREEMPTION_OVER_BORROWING: Final = "PreemptionOverBorrowing"

NO_STOP: Final = "None"
HOLD_AND_DRAIN: Final = "HoldAndDrain"

USAGE_BASED_ADMISSION: Final = "UsageBasedAdmissionFairSharing"
PROVISIONING_CONTROLLER: Final = "kueue.x-k8s.io/provisioning-request"
MULTIKUEUE_CONTROLLER: Final = "kueue.x-k8s.io/multikueue"


class FlavorResource(NamedTuple):
    """What quota is counted in: one resource of one flavor."""

    flavor: str
    resource: str


_FLAVOR_RESOURCES: Final[dict[str, dict[str, FlavorResource]]] = {}


def flavor_resource(flavor: str, resource: str) -> FlavorResource:
    """The one of this name: made once, since making a tuple costs ten times what looking it up does, and a dict
    finds the very key it holds without comparing."""
    of_flavor = _FLAVOR_RESOURCES.get(flavor)
    if of_flavor is None:
        of_flavor = _FLAVOR_RESOURCES[flavor] = {}
    found = of_flavor.get(resource)
    if found is None:
        found = of_flavor[resource] = FlavorResource(flavor, resource)
    return found


class Quota(NamedTuple):
    """`borrowing_limit`, `lending_limit` None: no limit."""

    nominal: int
    borrowing_limit: int | None = None
    lending_limit: int | None = None


@dataclass(frozen=True, slots=True)
class ResourceGroup:
    """Flavors are tried in this order for every covered resource. `at`: its position in the ClusterQueue."""

    covered: frozenset[str]
    flavors: tuple[str, ...]
    at: int = 0


@dataclass(frozen=True, slots=True)
class ResourceFlavor:
    name: str
    node_labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    tolerations: tuple[Toleration, ...]
    topology: str


@dataclass(frozen=True, slots=True)
class PreemptionPolicy:
    """`borrow_while_reclaiming`: borrowWithinCohort is LowerPriority; `max_priority_threshold` bounds its victims."""

    within_cluster_queue: str = NEVER
    reclaim_within_cohort: str = NEVER
    borrow_while_reclaiming: bool = False
    max_priority_threshold: int | None = None


@dataclass(frozen=True, slots=True)
class FlavorFungibility:
    when_can_borrow: str = MAY_STOP_SEARCH
    when_can_preempt: str = TRY_NEXT_FLAVOR
    preference: str = BORROWING_OVER_PREEMPTION


@dataclass(frozen=True, slots=True)
class ClusterQueue:
    """`admission_checks`: check → flavors it applies to. `uses_usage_ordering`: admission fair sharing is on.

    `last_acceptable_flavor`: of concurrent admission. `is_going`: it is deleted once nothing holds quota in it.
    """

    name: str
    cohort: str
    groups: tuple[ResourceGroup, ...]
    quotas: Mapping[FlavorResource, Quota]
    queueing_strategy: str
    namespace_selector: Selector
    preemption: PreemptionPolicy
    fungibility: FlavorFungibility
    fair_weight: float
    admission_checks: Mapping[str, frozenset[str]]
    stop_policy: str
    uses_usage_ordering: bool
    last_acceptable_flavor: str = ""
    is_going: bool = False

    def group_of(self, resource: str) -> ResourceGroup | None:
        """The resource group that covers a resource."""
        for group in self.groups:
            if resource in group.covered:
                return group
        return None


@dataclass(frozen=True, slots=True)
class Cohort:
    name: str
    parent: str
    quotas: Mapping[FlavorResource, Quota]
    fair_weight: float


@dataclass(frozen=True, slots=True)
class LocalQueue:
    key: str
    cluster_queue: str
    fair_weight: float
    stop_policy: str


@dataclass(frozen=True, slots=True)
class Topology:
    """Node labels from the widest level to the narrowest."""

    name: str
    levels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AdmissionCheck:
    name: str
    controller: str
    is_active: bool


@dataclass(frozen=True, slots=True)
class TopologyNode:
    """What topology-aware scheduling knows of a node."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    allocatable: Resources
    is_schedulable_and_ready: bool


def resource_flavor(obj: Obj) -> ResourceFlavor:
    spec = spec_of(obj)
    return ResourceFlavor(
        name=name_of(obj),
        node_labels=spec.get("nodeLabels") or {},
        taints=parse_taints(spec.get("nodeTaints")),
        tolerations=parse_tolerations(spec.get("tolerations")),
        topology=spec.get("topologyName") or "",
    )


def cluster_queue(obj: Obj) -> ClusterQueue:
    spec = spec_of(obj)
    groups, quotas = _resource_groups(spec.get("resourceGroups"))
    flavors = frozenset(f for g in groups for f in g.flavors)
    scope = spec.get("admissionScope") or {}
    return ClusterQueue(
        name=name_of(obj),
        cohort=spec.get("cohortName") or spec.get("cohort") or "",
        groups=groups,
        quotas=quotas,
        queueing_strategy=spec.get("queueingStrategy") or BEST_EFFORT_FIFO,
        namespace_selector=label_selector(spec.get("namespaceSelector")),
        preemption=_preemption(spec.get("preemption")),
        fungibility=_fungibility(spec.get("flavorFungibility") or {}),
        fair_weight=_fair_weight(spec),
        admission_checks=_admission_checks(spec, flavors),
        stop_policy=spec.get("stopPolicy") or NO_STOP,
        uses_usage_ordering=scope.get("admissionMode") == USAGE_BASED_ADMISSION,
        last_acceptable_flavor=_last_acceptable_flavor(spec),
        is_going="deletionTimestamp" in meta_of(obj),
    )


def cohort(obj: Obj) -> Cohort:
    spec = spec_of(obj)
    _, quotas = _resource_groups(spec.get("resourceGroups"))
    parent = spec.get("parentName") or spec.get("parent") or ""
    return Cohort(name_of(obj), parent, quotas, _fair_weight(spec))


def local_queue(obj: Obj) -> LocalQueue:
    spec = spec_of(obj)
    return LocalQueue(
        key=f"{namespace_of(obj)}/{name_of(obj)}",
        cluster_queue=spec.get("clusterQueue") or "",
        fair_weight=_fair_weight(spec),
        stop_policy=spec.get("stopPolicy") or NO_STOP,
    )


def topology(obj: Obj) -> Topology:
    return Topology(name_of(obj), tuple(level["nodeLabel"] for level in spec_of(obj).get("levels") or ()))


def admission_check(obj: Obj) -> AdmissionCheck:
    active = any(
        c.get("type") == "Active" and c.get("status") == "True"
        for c in status_of(obj).get("conditions") or ()
    )
    return AdmissionCheck(name_of(obj), spec_of(obj).get("controllerName") or "", active)


def topology_node(obj: Obj) -> TopologyNode:
    spec, status = spec_of(obj), status_of(obj)
    ready = any(
        c.get("type") == "Ready" and c.get("status") == "True" for c in status.get("conditions") or ()
    )
    return TopologyNode(
        name=name_of(obj),
        labels=labels_of(obj),
        taints=parse_taints(spec.get("taints")),
        allocatable=parse_resources(status.get("allocatable")),
        is_schedulable_and_ready=ready and not spec.get("unschedulable"),
    )


def _resource_groups(raw: Any) -> tuple[tuple[ResourceGroup, ...], dict[FlavorResource, Quota]]:
    groups: list[ResourceGroup] = []
    quotas: dict[FlavorResource, Quota] = {}
    for at, group in enumerate(raw or ()):
        flavors = group.get("flavors") or ()
        covered = frozenset(group.get("coveredResources") or ())
        groups.append(ResourceGroup(covered, tuple(f["name"] for f in flavors), at))
        for flavor in flavors:
            for resource in flavor.get("resources") or ():
                quotas[flavor_resource(flavor["name"], resource["name"])] = _quota(resource)
    return tuple(groups), quotas


def _quota(raw: Mapping[str, Any]) -> Quota:
    name = raw["name"]

    def limit(field: str) -> int | None:
        value = raw.get(field)
        return None if value is None else quota_amount(name, value)

    return Quota(
        quota_amount(name, raw.get("nominalQuota", 0)), limit("borrowingLimit"), limit("lendingLimit")
    )


def _preemption(raw: Mapping[str, Any] | None) -> PreemptionPolicy:
    if raw is None:
        return PreemptionPolicy()
    borrow = raw.get("borrowWithinCohort")
    may_borrow = borrow is not None and borrow.get("policy") != NEVER
    return PreemptionPolicy(
        within_cluster_queue=raw.get("withinClusterQueue") or "",
        reclaim_within_cohort=raw.get("reclaimWithinCohort") or "",
        borrow_while_reclaiming=may_borrow,
        max_priority_threshold=borrow.get("maxPriorityThreshold") if borrow and may_borrow else None,
    )


def _fungibility(raw: Mapping[str, Any]) -> FlavorFungibility:
    borrow, preempt = raw.get("whenCanBorrow"), raw.get("whenCanPreempt")
    return FlavorFungibility(
        # v1beta1 said Borrow and Preempt where v1beta2 says MayStopSearch.
        when_can_borrow=TRY_NEXT_FLAVOR if borrow == TRY_NEXT_FLAVOR else MAY_STOP_SEARCH,
        when_can_preempt=MAY_STOP_SEARCH if preempt in (MAY_STOP_SEARCH, "Preempt") else TRY_NEXT_FLAVOR,
        preference=raw.get("preference") or BORROWING_OVER_PREEMPTION,
    )


def _fair_weight(spec: Mapping[str, Any]) -> float:
    weight = (spec.get("fairSharing") or {}).get("weight")
    return 1.0 if weight is None else float(quantity.of(weight))


def _last_acceptable_flavor(spec: Mapping[str, Any]) -> str:
    """The worst flavor concurrent admission migrates to."""
    migration = (spec.get("concurrentAdmissionPolicy") or {}).get("migration") or {}
    return (migration.get("constraints") or {}).get("lastAcceptableFlavorName") or ""


def _admission_checks(spec: Mapping[str, Any], flavors: frozenset[str]) -> dict[str, frozenset[str]]:
    checks = dict.fromkeys(spec.get("admissionChecks") or (), flavors)
    for rule in (spec.get("admissionChecksStrategy") or {}).get("admissionChecks") or ():
        on = rule.get("onFlavors")
        checks[rule["name"]] = frozenset(on) if on else flavors
    return checks
