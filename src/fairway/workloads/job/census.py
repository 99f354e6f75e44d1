"""The Job's pods, counted once: who runs, who is leaving, who ended since the last look.

A pod that carries the tracking finalizer has not been counted into the Job's status yet; lifting the
finalizer and counting it happen together. O(pods of the Job).
"""

from __future__ import annotations

from typing import Any, Final

from fairway.cluster.actions import View
from fairway.kube.memos import memo
from fairway.kube.objects import Obj, spec_of, status_of
from fairway.workloads.job import indexes
from fairway.workloads.job.failurepolicy import FAIL_INDEX, ruling
from fairway.workloads.job.indexes import Intervals
from fairway.workloads.job.podspec import TRACKING_FINALIZER, completion_index, failure_count
from fairway.workloads.pods import FAILED, SUCCEEDED, is_ready


class Facts:
    """What the Job asks for, with the API's defaults filled in.

    `completions` None: done when any pod succeeds. `backoff_per_index` None: one limit for the whole Job.
    """

    # Not a dataclass: compiled, making one of those costs ten times as much, and there is one for each Job.
    def __init__(
        self,
        *,
        parallelism: int,
        completions: int | None,
        indexed: bool,
        suspended: bool,
        backoff_limit: int,
        backoff_per_index: int | None,
        failure_policy: dict[str, Any] | None,
        replace_only_failed: bool,
        deadline_s: int | None,
        manager: str | None,
        mode: str | None,
    ) -> None:
        self.parallelism = parallelism
        self.completions = completions
        self.indexed = indexed
        self.suspended = suspended
        self.backoff_limit = backoff_limit
        self.backoff_per_index = backoff_per_index
        self.failure_policy = failure_policy
        self.replace_only_failed = replace_only_failed
        self.deadline_s = deadline_s
        self.manager = manager
        self.mode = mode


class Census:
    """`tracked`: pods with the finalizer, in order of name. `new_*`: ended and not counted yet."""

    # Not a dataclass, as above: there is one for each look.
    def __init__(self) -> None:
        self.pods: list[Obj] = []
        self.active: list[Obj] = []
        self.tracked: list[Obj] = []
        self.new_succeeded: list[Obj] = []
        self.new_failed: list[Obj] = []
        self.terminating = 0
        self.ready = 0


# Facts by the identity of the spec they were read from, which is kept alive beside them. Dropped whole when
# full: a Job is looked at a few times in a row, then never again.
_FACTS: Final[dict[int, tuple[dict[str, Any], Facts]]] = memo()
_MAX_FACTS: Final = 8192


def facts_of(job: Obj) -> Facts:
    """What this Job asks for. Source: pkg/apis/batch/v1/defaults.go SetDefaults_Job."""
    spec = spec_of(job)
    known = _FACTS.get(id(spec))
    if known is not None and known[0] is spec:
        return known[1]
    if len(_FACTS) >= _MAX_FACTS:
        _FACTS.clear()
    facts = _read(spec)
    _FACTS[id(spec)] = (spec, facts)
    return facts


def _read(spec: dict[str, Any]) -> Facts:
    completions, parallelism = spec.get("completions"), spec.get("parallelism")
    if completions is None and parallelism is None:
        completions = 1
    per_index = spec.get("backoffLimitPerIndex")
    backoff_limit = spec.get("backoffLimit")
    if backoff_limit is None:
        backoff_limit = 6 if per_index is None else 2**31 - 1
    policy = spec.get("podFailurePolicy")
    return Facts(
        parallelism=1 if parallelism is None else parallelism,
        completions=completions,
        indexed=spec.get("completionMode") == "Indexed",
        suspended=bool(spec.get("suspend")),
        backoff_limit=backoff_limit,
        backoff_per_index=per_index,
        failure_policy=policy,
        replace_only_failed=policy is not None or spec.get("podReplacementPolicy") == FAILED,
        deadline_s=spec.get("activeDeadlineSeconds"),
        manager=spec.get("managedBy"),
        mode=spec.get("completionMode"),
    )


def take(view: View, job: Obj, facts: Facts, uncounted: dict[str, Any]) -> Census:
    """Count every pod this Job controls.

    `uncounted` is `status.uncountedTerminatedPods`: ended pods that were noted but not counted by whoever
    wrote this status.
    """
    uid = job["metadata"]["uid"]
    census = Census()
    noted: list[str] = [*(uncounted.get("succeeded") or ()), *(uncounted.get("failed") or ())]
    for key in view.dependents(uid):
        if key[0] != "Pod":
            continue
        pod = view.get(key)
        if pod is None:
            continue
        meta: Obj = pod["metadata"]
        if not _is_controlled_by(meta["ownerReferences"], uid):
            continue
        census.pods.append(pod)
        phase = status_of(pod).get("phase")
        deleting = "deletionTimestamp" in meta
        is_over = phase in (SUCCEEDED, FAILED)
        if not is_over:
            if deleting:
                census.terminating += 1
            else:
                census.active.append(pod)
                census.ready += is_ready(pod)
        if TRACKING_FINALIZER not in (meta.get("finalizers") or ()):
            continue
        census.tracked.append(pod)
        if meta["uid"] in noted or (facts.indexed and not has_valid_index(pod, facts)):
            continue
        if phase == SUCCEEDED:
            census.new_succeeded.append(pod)
        elif is_failed(pod, facts):
            census.new_failed.append(pod)
    return census


def _is_controlled_by(references: list[dict[str, Any]], uid: str) -> bool:
    for ref in references:
        if ref["uid"] == uid:
            return bool(ref.get("controller"))
    return False


def is_failed(pod: Obj, facts: Facts) -> bool:
    """A pod being deleted counts as failed at once, unless only ended pods are replaced."""
    phase = status_of(pod).get("phase")
    if phase == FAILED:
        return True
    if facts.replace_only_failed:
        return False
    return "deletionTimestamp" in pod["metadata"] and phase != SUCCEEDED


def has_valid_index(pod: Obj, facts: Facts) -> bool:
    index = completion_index(pod)
    return index is not None and index < (facts.completions or 0)


def counts_as_failure(pod: Obj, facts: Facts) -> bool:
    """Towards backoffLimit and `status.failed`."""
    if facts.failure_policy is None:
        return True
    return ruling(facts.failure_policy, pod, per_index=facts.backoff_per_index is not None).counts


def succeeded_indexes(recorded: Intervals, census: Census) -> Intervals:
    ended = [i for p in census.new_succeeded if (i := completion_index(p)) is not None]
    return indexes.union(recorded, indexes.of(ended))


def failed_indexes(recorded: Intervals, census: Census, facts: Facts) -> Intervals:
    """Indexes that used up their backoffLimitPerIndex, or that a FailIndex rule gave up on."""
    ended = [
        i
        for p in census.tracked
        if has_valid_index(p, facts) and _fails_index(p, facts) and (i := completion_index(p)) is not None
    ]
    return indexes.union(recorded, indexes.of(ended))


def _fails_index(pod: Obj, facts: Facts) -> bool:
    if not is_failed(pod, facts):
        return False
    verdict = ruling(facts.failure_policy, pod, per_index=True)
    if verdict.action == FAIL_INDEX:
        return True
    return verdict.counts and failure_count(pod) >= (facts.backoff_per_index or 0)


def pod_indexes(pods: list[Obj]) -> Intervals:
    return indexes.of([i for p in pods if (i := completion_index(p)) is not None])
