"""When may a Job replace a failed pod?

The wait doubles with every failure since the last success: 10 s, 20 s, … at most 10 min, from the latest
failure on. Upstream keeps the count in memory; here it is read off the pods that are still there. A pod that
failed by being deleted will not be: what it contributed is kept in an annotation of the Job.

Source: pkg/controller/job/backoff_utils.go (v1.36); DefaultJobPodFailureBackOff, MaxJobPodFailureBackOff.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from fairway.kube.objects import Obj, spec_of, status_of
from fairway.kube.timestamps import SECOND_US, parse_rfc3339, rfc3339
from fairway.workloads.pods import condition

DEFAULT_BACKOFF_US: Final = 10 * SECOND_US
MAX_BACKOFF_US: Final = 600 * SECOND_US

# `{failures}/{time of the latest}`. Unlike kube: upstream forgets it when the controller restarts.
RECORD: Final = "fairway.dev/job-deleted-pod-failures"


class Failures(NamedTuple):
    """Failures since the last success, and when the latest was."""

    number: int
    last_us: int


NO_FAILURES: Final = Failures(0, 0)


def wait_until_us(failures: Failures) -> int:
    """The moment the next pod may be created; 0: at once."""
    if failures.number <= 0:
        return 0
    # Beyond 2^10 × 10 s the ceiling holds; the shift stays small.
    wait = min(DEFAULT_BACKOFF_US << min(failures.number - 1, 10), MAX_BACKOFF_US)
    return failures.last_us + wait


def since_last_success(succeeded: list[Obj], failed: list[Obj], recorded: str | None) -> Failures:
    """`failed`: pods that failed and stay; `recorded`: the Job's annotation about those that do not stay."""
    last_success = max((finished_us(p) for p in succeeded), default=-1)
    moments = [t for p in failed if (t := finished_us(p)) > last_success]
    gone = parse_record(recorded)
    if gone.number and gone.last_us > last_success:
        return Failures(len(moments) + gone.number, max([*moments, gone.last_us]))
    return Failures(len(moments), max(moments)) if moments else NO_FAILURES


def parse_record(text: str | None) -> Failures:
    if not text:
        return NO_FAILURES
    count, _, moment = text.partition("/")
    try:
        return Failures(int(count), parse_rfc3339(moment))
    except ValueError:
        return NO_FAILURES


def extended_record(recorded: str | None, deleted: list[Obj], successes_us: list[int]) -> str:
    """The annotation once these deleted pods count as failures too."""
    before = parse_record(recorded)
    if any(before.last_us <= at_us for at_us in successes_us):
        before = NO_FAILURES
    last = max([before.last_us, *(finished_us(p) for p in deleted)])
    return f"{before.number + len(deleted)}/{rfc3339(last)}"


def finished_us(pod: Obj) -> int:
    """When a pod ended, as well as its status tells.

    The latest end of its containers; else when it stopped being ready; else when its deletion was asked for;
    else its creation.
    """
    ended = _containers_ended_us(pod)
    if ended is not None:
        return ended
    ready = condition(pod, "Ready")
    if ready is not None and ready.get("status") == "False" and ready.get("lastTransitionTime"):
        return parse_rfc3339(ready["lastTransitionTime"])
    meta: Obj = pod["metadata"]
    if meta.get("deletionTimestamp"):
        asked = parse_rfc3339(meta["deletionTimestamp"])
        return asked - int(meta.get("deletionGracePeriodSeconds") or 0) * SECOND_US
    return parse_rfc3339(meta["creationTimestamp"])


def _containers_ended_us(pod: Obj) -> int | None:
    """None unless every container has ended; sidecars end last and count."""
    status = status_of(pod)
    statuses: list[dict[str, Any]] = list(status.get("containerStatuses") or ())
    if status.get("initContainerStatuses"):
        sidecars = [
            c["name"] for c in spec_of(pod).get("initContainers") or () if c.get("restartPolicy") == "Always"
        ]
        statuses += [s for s in status["initContainerStatuses"] if s.get("name") in sidecars]
    latest: int | None = None
    for container in statuses:
        terminated = (container.get("state") or {}).get("terminated")
        if terminated is None or not terminated.get("finishedAt"):
            return None
        at = parse_rfc3339(terminated["finishedAt"])
        latest = at if latest is None or at > latest else latest
    return latest
