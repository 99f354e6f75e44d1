"""What state is a pod in, as controllers count it, and which pods go first when there are too many?

Source: pkg/controller/controller_utils.go (v1.36): IsPodActive, IsPodTerminating, ActivePods,
ActivePodsWithRanks; pkg/api/v1/pod/util.go: IsPodReady, IsPodAvailable.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cmp_to_key
from typing import Any, Final

from fairway.kube.objects import Obj, meta_of, spec_of, status_of
from fairway.kube.timestamps import SECOND_US, parse_rfc3339

PENDING: Final = "Pending"
RUNNING: Final = "Running"
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"

DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"

# How long to wait before a refused creation is tried again. Source: client-go rate limiters end between 1 s
# and 1000 s; a minute is the Job controller's ceiling.
RETRY_REFUSED_US: Final = 60 * SECOND_US

# Pods (or whatever else there is one of for each replica) that one look at an object creates: what replicas ask for
# costs nothing before it is there. Source: replica_set.go BurstReplicas, job_controller.go MaxPodCreateDeletePerSync.
MOST_AT_ONCE: Final = 500
# What an object may have that names every pod of a job. Source: etcd --max-request-bytes.
MOST_OBJECT_BYTES: Final = 1_572_864

_PHASE_ORDER: Final = {"Pending": 0, "Unknown": 1, "Running": 2}


def phase_of(pod: Obj) -> str:
    return status_of(pod).get("phase") or PENDING


def is_terminal(pod: Obj) -> bool:
    return phase_of(pod) in (SUCCEEDED, FAILED)


def is_deleting(obj: Obj) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def is_active(pod: Obj) -> bool:
    """Neither finished nor on its way out."""
    return not is_terminal(pod) and "deletionTimestamp" not in pod["metadata"]


def is_terminating(pod: Obj) -> bool:
    """On its way out and not finished yet."""
    return "deletionTimestamp" in pod["metadata"] and not is_terminal(pod)


def condition(pod: Obj, type_: str) -> dict[str, Any] | None:
    for found in status_of(pod).get("conditions") or ():
        if found.get("type") == type_:
            return found  # type: ignore[no-any-return]
    return None


def is_ready(pod: Obj) -> bool:
    conditions: list[Obj] = status_of(pod).get("conditions") or []
    for found in conditions:
        if found.get("type") == "Ready":
            return bool(found.get("status") == "True")
    return False


def ready_since_us(pod: Obj) -> int | None:
    """When it became ready; None where it is not, or where nobody wrote down when."""
    found = condition(pod, "Ready")
    if found is None or found.get("status") != "True" or not found.get("lastTransitionTime"):
        return None
    return parse_rfc3339(found["lastTransitionTime"])


def is_available(pod: Obj, min_ready_s: int, now_us: int) -> bool:
    """Ready for at least `min_ready_s`."""
    if not is_ready(pod):
        return False
    if min_ready_s == 0:
        return True
    since = ready_since_us(pod)
    return since is not None and since + min_ready_s * SECOND_US <= now_us


def next_available_us(pods: list[Obj], min_ready_s: int, now_us: int) -> int | None:
    """The first moment at which one of the ready pods becomes available; None where none will by waiting."""
    if min_ready_s <= 0:
        return None
    moments = [
        since + min_ready_s * SECOND_US
        for pod in pods
        if "deletionTimestamp" not in pod["metadata"] and (since := ready_since_us(pod)) is not None
    ]
    return min((m for m in moments if m > now_us), default=None)


def restarts(pod: Obj) -> tuple[int, int]:
    """The most restarts of any container, and of any sidecar."""
    status = status_of(pod)
    regular = max((c.get("restartCount", 0) for c in status.get("containerStatuses") or ()), default=0)
    sidecars = [
        c["name"] for c in spec_of(pod).get("initContainers") or () if c.get("restartPolicy") == "Always"
    ]
    sidecar = max(
        (
            c.get("restartCount", 0)
            for c in status.get("initContainerStatuses") or ()
            if c.get("name") in sidecars
        ),
        default=0,
    )
    return regular, sidecar


def deletion_cost(pod: Obj) -> int:
    """`controller.kubernetes.io/pod-deletion-cost`; anything but an int32 reads as 0."""
    text = (meta_of(pod).get("annotations") or {}).get(DELETION_COST)
    if text is None:
        return 0
    try:
        value = int(text)
    except ValueError:
        return 0
    canonical = str(value) == text and -(2**31) <= value < 2**31
    return value if canonical else 0


def node_of(pod: Obj) -> str:
    return spec_of(pod).get("nodeName") or ""


def in_deletion_order(pods: list[Obj]) -> list[Obj]:
    """Active pods, the first to go first (a Job's and a DaemonSet's order: exact times, no ranks)."""
    if len(pods) < 2:
        return list(pods)
    return sorted(pods, key=_plain_order)


def _plain_order(pod: Obj) -> tuple[Any, ...]:
    regular, sidecar = restarts(pod)
    return (
        bool(node_of(pod)),
        _PHASE_ORDER.get(phase_of(pod), 0),
        is_ready(pod),
        -_ready_or_latest(pod),
        -regular,
        -sidecar,
        -_created_us(pod),
        pod["metadata"]["name"],
    )


def _ready_or_latest(pod: Obj) -> int:
    """Ready without a time counts as ready just now, before everyone else."""
    if not is_ready(pod):
        return 0
    since = ready_since_us(pod)
    return 2**62 if since is None else since


def _created_us(pod: Obj) -> int:
    created = meta_of(pod).get("creationTimestamp")
    return parse_rfc3339(created) if created else 2**62


def in_ranked_deletion_order(pods: list[Obj], ranks: dict[str, int], now_us: int) -> list[Obj]:
    """Active pods of a ReplicaSet, the first to go first; `ranks` counts pods per node.

    Ages are compared by the power of two of their nanoseconds, equal ones by UID, as upstream does to
    spread scale-downs over nodes.
    """

    def compare(a: Obj, b: Obj) -> int:
        ka, kb = _ranked_head(a, ranks), _ranked_head(b, ranks)
        if ka != kb:
            return -1 if ka < kb else 1
        if is_ready(a) and is_ready(b):
            order = _by_age(a, b, ready_since_us(a), ready_since_us(b), now_us)
            if order:
                return order
        ra, rb = restarts(a), restarts(b)
        if ra != rb:
            return -1 if ra > rb else 1
        order = _by_age(a, b, _created_us(a), _created_us(b), now_us)
        return order or (-1 if a["metadata"]["name"] < b["metadata"]["name"] else 1)

    return sorted(pods, key=cmp_to_key(compare))


def _ranked_head(pod: Obj, ranks: dict[str, int]) -> tuple[bool, int, bool, int, int]:
    node = node_of(pod)
    return (
        bool(node),
        _PHASE_ORDER.get(phase_of(pod), 0),
        is_ready(pod),
        deletion_cost(pod),
        -ranks.get(node, 0),
    )


def _by_age(a: Obj, b: Obj, at_a: int | None, at_b: int | None, now_us: int) -> int:
    """Younger first; 0 where the times are the same."""
    if at_a == at_b:
        return 0
    if at_a is None or at_b is None:
        return -1 if at_a is None else 1
    difference = _log2_ns(now_us - at_a) - _log2_ns(now_us - at_b)
    if difference == 0:
        return -1 if a["metadata"]["uid"] < b["metadata"]["uid"] else 1
    return -1 if difference < 0 else 1


def _log2_ns(age_us: int) -> int:
    return (age_us * 1000).bit_length() - 1 if age_us > 0 else -1


def wanted_indexes(replicas: int, held: Collection[int], room: int) -> list[int]:
    """Indexes below `replicas` in order: those that are held, and the first `room` that are not. O(held + room)."""
    wanted = [index for index in held if index < replicas]
    # A loop, not a generator: compiled code makes a list of that, here of two billion numbers.
    index = 0
    while room > 0 and index < replicas:
        if index not in held:
            wanted.append(index)
            room -= 1
        index += 1
    return sorted(wanted)
