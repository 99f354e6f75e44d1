"""The budget's numbers: expected pods, how many must be healthy, how many are, how many may go.

Source: pkg/controller/disruption/disruption.go trySync, getExpectedPodCount, updatePdbStatus (v1.36).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from fairway.cluster.actions import NOTHING_TO_DO, Action, Reconciliation, SetStatus, View
from fairway.cluster.changes import DELETED, Change
from fairway.kube.kinds import group_kind, kind_named
from fairway.kube.labels import Selector, label_selector
from fairway.kube.objects import Key, Obj, controller_of, labels_of
from fairway.kube.timestamps import SECOND_US, parse_rfc3339, rfc3339
from fairway.workloads.controller import NO_KEYS, WARNING, Controller, event, is_desire_changed
from fairway.workloads.intorpercent import scaled
from fairway.workloads.podchanges import is_relevant
from fairway.workloads.pods import is_ready

PDB = "PodDisruptionBudget.policy"
COMPONENT = "controllermanager"

# How long an evicted pod counts as gone before its deletion was seen. Source: DeletionTimeout (v1.36).
DELETION_TIMEOUT_US = 120 * SECOND_US

# Owners whose size a budget can know, and those that must themselves be asked about their owner.
_SCALES = (
    "ReplicaSet.apps",
    "StatefulSet.apps",
    "ReplicationController",
    "Deployment.apps",
)


class NoScale(Exception):
    """The pods' owners do not say how many pods there should be. The text is the condition's message."""


class Expected(NamedTuple):
    """`unmanaged`: pods without an owner that could be asked, by name."""

    pods: int
    desired_healthy: int
    unmanaged: tuple[str, ...] = ()


def reconcile(view: View, key: Key, now_us: int) -> Reconciliation:
    """What to write into one budget's status. O(pods of the namespace)."""
    budget = view.get(key)
    if budget is None:
        return NOTHING_TO_DO
    selected = selected_pods(view, budget)
    actions: list[Action] = []
    if not selected:
        actions.append(event(key, "NoPods", "No matching pods found", COMPONENT))
    old: dict[str, Any] = budget.get("status") or {}
    try:
        expected = expected_pods(view, budget, selected)
    except NoScale as why:
        message = f"Failed to calculate the number of expected pods: {why}"
        told = event(key, "CalculateExpectedPodCountFailed", message, COMPONENT, WARNING)
        failed = _failed_status(budget, old, str(why), now_us)
        if failed == old:
            return NOTHING_TO_DO
        return Reconciliation((*actions, told, SetStatus(key, failed)))
    disrupted, again = _still_disrupted(selected, old, now_us)
    healthy = sum(_is_healthy(p, disrupted) for p in selected)
    new = _next_status(budget, old, expected, healthy, disrupted, now_us)
    if new == old:
        # The events repeat only with a change: upstream's recorder folds the repetitions into a count.
        return Reconciliation((), again)
    if expected.unmanaged:
        actions.append(_unmanaged_event(key, budget))
    actions.append(SetStatus(key, new))
    return Reconciliation(tuple(actions), again)


def selector_of(budget: Obj) -> Selector:
    return label_selector((budget.get("spec") or {}).get("selector"))


def selected_pods(view: View, budget: Obj) -> list[Obj]:
    """The pods the budget speaks for, ordered by name. An empty selector speaks for the whole namespace."""
    selector = selector_of(budget)
    found = view.objects("Pod", budget["metadata"]["namespace"])
    return [p for p in found if selector.matches(labels_of(p))]


def budgets_of(view: View, pod: Obj) -> list[Obj]:
    """The budgets that speak for a pod, ordered by name. A pod without labels has none."""
    labels = labels_of(pod)
    if not labels:
        return []
    found = view.objects(PDB, pod["metadata"]["namespace"])
    return [b for b in found if selector_of(b).matches(labels)]


def expected_pods(view: View, budget: Obj, selected: list[Obj]) -> Expected:
    """How many pods there should be, and how many of them must be healthy.

    Raises: NoScale.
    """
    spec = budget.get("spec") or {}
    if spec.get("maxUnavailable") is not None:
        total, unmanaged = _expected_scale(view, selected)
        unavailable = scaled(spec["maxUnavailable"], total, round_up=True)
        return Expected(total, max(total - unavailable, 0), unmanaged)
    minimum = spec.get("minAvailable")
    if minimum is None:
        return Expected(0, 0)
    if isinstance(minimum, int):
        return Expected(len(selected), minimum)
    total, unmanaged = _expected_scale(view, selected)
    return Expected(total, scaled(minimum, total, round_up=True), unmanaged)


def _expected_scale(view: View, selected: list[Obj]) -> tuple[int, tuple[str, ...]]:
    """The sum of the sizes of the pods' top owners, each counted once."""
    sizes: dict[str, int] = {}
    unmanaged = []
    for pod in selected:
        ref = controller_of(pod)
        if ref is None:
            unmanaged.append(pod["metadata"]["name"])
            continue
        owner = _scaled_owner(view, ref, pod["metadata"]["namespace"])
        if owner is not None:
            sizes[owner["metadata"]["uid"]] = _size(owner)
    return sum(sizes.values()), tuple(unmanaged)


def _scaled_owner(view: View, ref: dict[str, Any], namespace: str) -> Obj | None:
    """The owner that says how many: a Deployment for its ReplicaSets. None: it is gone."""
    gk = group_kind(ref.get("apiVersion", ""), ref.get("kind", ""))
    owner = view.get(Key(gk, namespace, ref.get("name", "")))
    if owner is not None and owner["metadata"]["uid"] != ref.get("uid"):
        owner = None
    if gk not in _SCALES and "replicas" not in ((owner or {}).get("spec") or {}):
        if owner is None:
            return None
        kind = kind_named(gk)
        resource = f"{kind.plural}.{kind.group}" if kind.group else kind.plural
        raise NoScale(f"{resource} does not implement the scale subresource")
    if owner is not None and gk == "ReplicaSet.apps":
        parent = controller_of(owner)
        if parent is not None and parent.get("kind") == "Deployment":
            return _scaled_owner(view, parent, namespace) or owner
    return owner


def _size(owner: Obj) -> int:
    replicas = (owner.get("spec") or {}).get("replicas")
    return 1 if replicas is None else int(replicas)


def _still_disrupted(
    selected: list[Obj], status: dict[str, Any], now_us: int
) -> tuple[dict[str, str], int | None]:
    """Evicted pods whose deletion has not been seen yet, and when to give the first of them up."""
    noted: dict[str, str] = status.get("disruptedPods") or {}
    kept: dict[str, str] = {}
    again: int | None = None
    for pod in selected:
        meta = pod["metadata"]
        when = noted.get(meta["name"])
        if when is None or "deletionTimestamp" in meta:
            continue
        until = parse_rfc3339(when) + DELETION_TIMEOUT_US
        if until < now_us:
            continue
        kept[meta["name"]] = when
        again = until + SECOND_US if again is None else min(again, until + SECOND_US)
    return kept, again


def _is_healthy(pod: Obj, disrupted: dict[str, str]) -> bool:
    meta = pod["metadata"]
    return "deletionTimestamp" not in meta and meta["name"] not in disrupted and is_ready(pod)


def _next_status(
    budget: Obj,
    old: dict[str, Any],
    expected: Expected,
    healthy: int,
    disrupted: dict[str, str],
    now_us: int,
) -> dict[str, Any]:
    allowed = max(healthy - expected.desired_healthy, 0) if expected.pods > 0 else 0
    generation = budget["metadata"].get("generation", 0)
    status: dict[str, Any] = {
        "observedGeneration": generation,
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": expected.desired_healthy,
        "expectedPods": expected.pods,
    }
    if disrupted:
        status["disruptedPods"] = disrupted
    status["conditions"] = with_condition(old, allowed > 0, generation, now_us)
    return status


def with_condition(
    old: dict[str, Any],
    is_allowed: bool,
    generation: int,
    now_us: int,
    *,
    reason: str | None = None,
    message: str = "",
) -> list[dict[str, Any]]:
    """The conditions with DisruptionAllowed brought up to date."""
    made = {
        "type": "DisruptionAllowed",
        "status": "True" if is_allowed else "False",
        "observedGeneration": generation,
        "lastTransitionTime": rfc3339(now_us),
        "reason": reason or ("SufficientPods" if is_allowed else "InsufficientPods"),
        "message": message,
    }
    listed = list(old.get("conditions") or ())
    for at, condition in enumerate(listed):
        if condition.get("type") == made["type"]:
            if condition.get("status") == made["status"]:
                made["lastTransitionTime"] = condition["lastTransitionTime"]
            listed[at] = made
            return listed
    return [*listed, made]


def _failed_status(budget: Obj, old: dict[str, Any], why: str, now_us: int) -> dict[str, Any]:
    """Nothing may be evicted while the numbers cannot be told; the last ones stay."""
    generation = budget["metadata"].get("generation", 0)
    conditions = with_condition(old, False, generation, now_us, reason="SyncFailed", message=why)
    numbers = {"currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}
    return {
        **numbers,
        **old,
        "observedGeneration": generation,
        "disruptionsAllowed": 0,
        "conditions": conditions,
    }


def _unmanaged_event(key: Key, budget: Obj) -> Action:
    message = (
        f"Pods selected by this PodDisruptionBudget (selector: {selector_of(budget)}) were found to be "
        "unmanaged. As a result, the status of the PDB cannot be calculated correctly, which may result in "
        'undefined behavior. To account for these pods please set ".spec.minAvailable" field of the PDB to '
        "an integer value."
    )
    return event(key, "UnmanagedPods", message, COMPONENT, WARNING)


def map_change(view: View, change: Change) -> Sequence[Key]:
    """A budget whose wishes changed; the budgets of a pod that came, went, or changed its health or labels."""
    if change.key.gk == PDB:
        if change.type == DELETED:
            return NO_KEYS
        return (change.key,) if is_desire_changed(change) else NO_KEYS
    budgets = view.objects(PDB, change.key.namespace)
    if not budgets or not is_relevant(change):
        return NO_KEYS
    labels = labels_of(change.obj)
    before = labels if change.old is None else labels_of(change.old)
    found = []
    for budget in budgets:
        selector = selector_of(budget)
        if selector.matches(labels) or selector.matches(before):
            found.append(Key(PDB, change.key.namespace, budget["metadata"]["name"]))
    return found


CONTROLLER = Controller("disruption", PDB, (PDB, "Pod"), map_change, reconcile)
