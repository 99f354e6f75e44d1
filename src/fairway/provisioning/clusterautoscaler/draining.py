"""Which pod keeps its node from being removed?

Rules in upstream's order: the first that has an opinion decides.

Source: simulator/drainability/rules; utils/drain/drain.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fairway.kube.objects import Obj, annotations_of, controller_of, labels_of, meta_of, name_of, namespace_of
from fairway.kube.timestamps import SECOND_US, parse_rfc3339
from fairway.provisioning.clusterautoscaler.groups import Options
from fairway.provisioning.karpenter.disruption.evictions import Budget

SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
SAFE_VOLUMES = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
_EXTRA_TERMINATING_S = 30
_DEFAULT_GRACE_S = 30
_CONTROLLERS = frozenset({"ReplicationController", "DaemonSet", "Job", "ReplicaSet", "StatefulSet"})


@dataclass(frozen=True, slots=True)
class Blocking:
    """`reason` as upstream names it; `message` says which pod."""

    reason: str
    message: str


def blocking_pod(
    pods: Sequence[Obj], budgets: Sequence[Budget], options: Options, now_us: int
) -> Blocking | None:
    """The first pod that blocks; None where all may go."""
    spent: dict[int, int] = {}
    for pod in pods:
        found = _why(pod, budgets, spent, options, now_us)
        if found is not None:
            return found
    return None


def moving(pods: Sequence[Obj], now_us: int) -> list[Obj]:
    """The pods that need another place: not mirrors, DaemonSets', ended or long terminating ones."""
    return [
        p
        for p in pods
        if not (is_mirror(p) or is_of_daemon_set(p) or _is_over(p) or _is_long_terminating(p, now_us))
    ]


def is_of_daemon_set(pod: Obj) -> bool:
    owner = controller_of(pod)
    annotated = annotations_of(pod).get("cluster-autoscaler.kubernetes.io/daemonset-pod") == "true"
    return annotated or (owner is not None and owner.get("kind") == "DaemonSet")


def _why(
    pod: Obj, budgets: Sequence[Budget], spent: dict[int, int], options: Options, now_us: int
) -> Blocking | None:
    safe = annotations_of(pod).get(SAFE_TO_EVICT)
    if is_mirror(pod) or _is_long_terminating(pod, now_us) or is_of_daemon_set(pod) or safe == "true":
        return None
    if _is_over(pod):
        return None
    name, namespace = name_of(pod), namespace_of(pod)
    owner = controller_of(pod)
    known = owner is not None and (not options.skip_custom_controllers or owner.get("kind") in _CONTROLLERS)
    if not known:
        return Blocking("NotReplicated", f"{namespace}/{name} is not replicated")
    matching = [
        (i, b)
        for i, b in enumerate(budgets)
        if b.namespace == namespace and b.selector.matches(labels_of(pod))
    ]
    if options.skip_system_pods and namespace == "kube-system" and not matching:
        if _is_older_than(pod, options.system_pods_hold_us, now_us):
            return None
        text = f"non-daemonset, non-mirrored, non-pdb-assigned kube-system pod present: {name}"
        return Blocking("UnmovableKubeSystemPod", text)
    if safe == "false":
        return Blocking("NotSafeToEvictAnnotation", f"pod annotated as not safe to evict present: {name}")
    if options.skip_local_storage and has_blocking_local_storage(pod):
        return Blocking("LocalStorageRequested", f"pod with local storage present: {name}")
    for i, budget in matching:
        if budget.allowed - spent.get(i, 0) < 1:
            return Blocking("NotEnoughPdb", f"not enough pod disruption budget to move {namespace}/{name}")
        spent[i] = spent.get(i, 0) + 1
    return None


def _is_older_than(pod: Obj, age_us: int, now_us: int) -> bool:
    created = meta_of(pod).get("creationTimestamp")
    return created is not None and parse_rfc3339(created) + age_us < now_us


def has_blocking_local_storage(pod: Obj) -> bool:
    """A hostPath or emptyDir on disk that its annotation does not name."""
    named = (annotations_of(pod).get(SAFE_VOLUMES) or "").split(",")
    for volume in (pod.get("spec") or {}).get("volumes") or ():
        empty = volume.get("emptyDir")
        is_local = "hostPath" in volume or (empty is not None and empty.get("medium") != "Memory")
        if is_local and volume.get("name") not in named:
            return True
    return False


def is_mirror(pod: Obj) -> bool:
    return "kubernetes.io/config.mirror" in annotations_of(pod)


def _is_over(pod: Obj) -> bool:
    phase = (pod.get("status") or {}).get("phase")
    policy = (pod.get("spec") or {}).get("restartPolicy", "Always")
    return phase == "Failed" or (phase == "Succeeded" and policy in ("Never", "OnFailure"))


def _is_long_terminating(pod: Obj, now_us: int) -> bool:
    since = meta_of(pod).get("deletionTimestamp")
    if since is None:
        return False
    grace = (pod.get("spec") or {}).get("terminationGracePeriodSeconds")
    grace_s = _DEFAULT_GRACE_S if grace is None else int(grace)
    return parse_rfc3339(since) + (grace_s + _EXTRA_TERMINATING_S) * SECOND_US < now_us
