"""What a Job's status may say, and how it may change.

Source: pkg/apis/batch/validation/validation.go ValidateJobStatusUpdate, with the options that
pkg/registry/batch/job/strategy.go getStatusValidationOptions sets (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairway.kube.internals import Typed
from fairway.kube.objects import Obj, spec_of, status_of
from fairway.kube.problem import Faults
from fairway.kube.validation.kinds.indexes import IndexesError, intervals_of
from fairway.kube.validation.kinds.metadata import object_meta_update

Part = Mapping[str, Any]
_AT = ("status",)
_TERMINAL = ("Failed", "Complete", "FailureTarget")


def job_status(new: Obj, old: Obj, out: Faults) -> None:
    object_meta_update(new, old, out, core=True)
    status, before = status_of(new), status_of(old)
    _counts(status, out)
    now, then = _true(status), _true(before)
    _conditions(status, now, now != then, out)
    _finished(status, now, now != then or status != before, out)
    _indexes(spec_of(new), status, before, out)
    if (status.get("ready") or 0) > (status.get("active") or 0) and status.get("ready") != before.get(
        "ready"
    ):
        out.invalid((*_AT, "ready"), status["ready"], "cannot set more ready pods than active")
    _success(spec_of(new), now, out)
    _changes(new, old, now, then, out)


def _true(status: Part) -> frozenset[str]:
    conditions = status.get("conditions") or ()
    return frozenset(c.get("type") or "" for c in conditions if c.get("status") == "True")


def _counts(status: Part, out: Faults) -> None:
    for name in ("active", "succeeded", "failed", "ready", "terminating"):
        out.negative((*_AT, name), status.get(name))
    uncounted = status.get("uncountedTerminatedPods") or {}
    seen = set()
    for name in ("succeeded", "failed"):
        for index, uid in enumerate(uncounted.get(name) or ()):
            at = (*_AT, "uncountedTerminatedPods", name, index)
            if not uid:
                out.invalid(at, uid, "must not be empty")
            elif uid in seen:
                out.duplicate(at, uid)
            seen.add(uid)


def _conditions(status: Part, now: frozenset[str], changed: bool, out: Faults) -> None:
    at, done, complete = (*_AT, "conditions"), status.get("completionTime"), "Complete" in now
    if changed and complete and "Failed" in now:
        out.omitted(at, "cannot set Complete=True and Failed=true conditions")
    if changed and complete and "FailureTarget" in now:
        out.omitted(at, "cannot set Complete=True and FailureTarget=true conditions")
    if done is not None and not complete:
        said = "cannot set completionTime when there is no Complete=True condition"
        out.invalid((*_AT, "completionTime"), done, said)
    if done is None and complete:
        out.required((*_AT, "completionTime"), "completionTime is required for Complete jobs")
    if done is not None and status.get("startTime") is not None and done < status["startTime"]:
        out.invalid((*_AT, "completionTime"), done, "must be equal to or after `startTime`")
    if changed and "Failed" in now and "FailureTarget" not in now:
        out.omitted(at, "cannot set Failed=True condition without the FailureTarget=true condition")
    if changed and complete and "SuccessCriteriaMet" not in now:
        out.omitted(at, "cannot set Complete=True condition without the SuccessCriteriaMet=true condition")


def _finished(status: Part, now: frozenset[str], changed: bool, out: Faults) -> None:
    if not changed or not now & {"Complete", "Failed"}:
        return
    if (status.get("active") or 0) > 0:
        out.invalid((*_AT, "active"), status["active"], "active>0 is invalid for finished job")
    if status.get("startTime") is None:
        out.required((*_AT, "startTime"), "startTime is required for finished job")
    uncounted = status.get("uncountedTerminatedPods") or {}
    if uncounted.get("failed") or uncounted.get("succeeded"):
        shown = Typed("batch.UncountedTerminatedPods", uncounted)
        out.invalid((*_AT, "uncountedTerminatedPods"), shown, "must be empty for finished job")
    if (status.get("terminating") or 0) > 0:
        said = "terminating>0 is invalid for finished job"
        out.invalid((*_AT, "terminating"), status["terminating"], said)


def _indexes(spec: Part, status: Part, before: Part, out: Faults) -> None:
    done, failed, completions = (
        status.get("completedIndexes") or "",
        status.get("failedIndexes"),
        spec.get("completions"),
    )
    per_index = spec.get("backoffLimitPerIndex")
    if done != (before.get("completedIndexes") or ""):
        _wrong_indexes(done, completions, "completedIndexes", out)
        if done and spec.get("completionMode") != "Indexed":
            said = "cannot set non-empty completedIndexes when non-indexed completion mode"
            out.invalid((*_AT, "completedIndexes"), done, said)
    if failed is not None and failed != before.get("failedIndexes"):
        if per_index is not None:
            _wrong_indexes(failed, completions, "failedIndexes", out)
        else:
            said = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
            out.invalid((*_AT, "failedIndexes"), failed, said)
    if failed and done and completions is not None and status != before:
        _overlap(done, failed, completions, out)


def _wrong_indexes(text: str, completions: int | None, name: str, out: Faults) -> None:
    if completions is None:
        return
    try:
        intervals_of(text, completions)
    except IndexesError as wrong:
        out.invalid((*_AT, name), text, f"error parsing {name}: {wrong}")


def _overlap(done: str, failed: str, completions: int, out: Faults) -> None:
    try:
        ours, theirs = intervals_of(done, completions), intervals_of(failed, completions)
    except IndexesError:
        return
    for low, high in theirs:
        for first, last in ours:
            if first <= high and low <= last:
                said = f"failedIndexes and completedIndexes overlap at index: {max(first, low)}"
                out.invalid((*_AT, "failedIndexes"), failed, said)
                return


def _success(spec: Part, now: frozenset[str], out: Faults) -> None:
    at, met = (*_AT, "conditions"), "SuccessCriteriaMet" in now
    if met and "Failed" in now:
        out.omitted(at, "cannot set SuccessCriteriaMet=True and Failed=true conditions")
    if met and "FailureTarget" in now:
        out.omitted(at, "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions")
    if spec.get("successPolicy") is not None and not met and "Complete" in now:
        said = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"
        out.omitted(at, said)


def _changes(new: Obj, old: Obj, now: frozenset[str], then: frozenset[str], out: Faults) -> None:
    status, before, at = status_of(new), status_of(old), (*_AT, "conditions")
    for kind in _TERMINAL:
        if kind in then and kind not in now:
            out.omitted(at, f"cannot disable the terminal {kind}=True condition")
    for name in ("failed", "succeeded"):
        if (status.get(name) or 0) < (before.get(name) or 0):
            out.invalid((*_AT, name), status.get(name) or 0, f"cannot decrease the {name} counter")
    done, was = status.get("completionTime"), before.get("completionTime")
    if done is not None and was is not None and done != was:
        out.invalid((*_AT, "completionTime"), done, "field is immutable")
    start, started = status.get("startTime"), before.get("startTime")
    if started is not None and start != started and not spec_of(new).get("suspend"):
        said = "field is immutable for unsuspended job once set"
        out.invalid((*_AT, "startTime"), start, said)
    if "SuccessCriteriaMet" in then and "SuccessCriteriaMet" not in now:
        out.omitted(at, "cannot disable the SuccessCriteriaMet=True condition")
    if "Complete" in then and "SuccessCriteriaMet" not in then and "SuccessCriteriaMet" in now:
        out.omitted(at, "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions")
