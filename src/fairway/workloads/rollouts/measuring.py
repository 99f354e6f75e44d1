"""What do its measurements make of an AnalysisRun: is each metric done, has the run failed, when is the next one due?

Source: analysis/analysis.go, utils/analysis/helpers.go.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Any, Final

from fairway.kube.objects import Obj
from fairway.kube.timestamps import SECOND_US, parse_duration, parse_rfc3339, rfc3339
from fairway.workloads.rollouts.conditions import ConditionError, holds

SUCCESSFUL, FAILED, ERROR, INCONCLUSIVE = "Successful", "Failed", "Error", "Inconclusive"
RUNNING, PENDING = "Running", "Pending"
_BAD: Final = (FAILED, ERROR, INCONCLUSIVE)
DONE: Final = (SUCCESSFUL, *_BAD)
# From best to worst, as IsWorse orders them.
_WORSE: Final = (PENDING, RUNNING, SUCCESSFUL, INCONCLUSIVE, ERROR, FAILED)
_ERRORS_IN_A_ROW: Final = 4
_RETRY_US: Final = 10 * SECOND_US
_HISTORY: Final = 10


def argument_values(run: Obj) -> dict[str, str]:
    return {
        arg["name"]: str(arg["value"])
        for arg in run["spec"].get("args") or ()
        if arg.get("value") is not None
    }


def filled(text: str, arguments: dict[str, str]) -> str:
    """With `{{args.name}}` replaced. Raises: ValueError where an argument is not there."""

    def given(found: re.Match[str]) -> str:
        if found[1] not in arguments:
            raise ValueError(f"failed to resolve {{{{args.{found[1]}}}}}")
        return arguments[found[1]]

    return re.sub(r"\{\{\s*args\.([\w-]+)\s*\}\}", given, text)


def due_us(run: Obj, metric: dict[str, Any], now_us: int) -> int | None:
    """When this metric is to be measured next; None: never again."""
    result = _result(run, metric["name"])
    if result is not None and result.get("phase") in DONE:
        return None
    measured = (result or {}).get("measurements") or []
    started = (run.get("status") or {}).get("startedAt")
    if not measured:
        delay = parse_duration(str(metric.get("initialDelay") or "0s"))
        return (parse_rfc3339(started) if started else now_us) + delay
    last = measured[-1]
    if last["phase"] == ERROR:
        return parse_rfc3339(last["finishedAt"]) + _RETRY_US
    count = _count(metric)
    if count is not None and int((result or {}).get("count", 0)) >= count:
        return None
    if not metric.get("interval"):
        return None
    return parse_rfc3339(last["finishedAt"]) + parse_duration(str(metric["interval"]))


def _count(metric: dict[str, Any]) -> int | None:
    """Without a count: one, or with an interval for ever."""
    if metric.get("count") is not None:
        return int(metric["count"])
    return None if metric.get("interval") else 1


def measured(metric: dict[str, Any], value: Any, arguments: dict[str, str], now_us: int) -> dict[str, Any]:
    """One measurement: the value, and what the conditions say of it. `value` an Exception: nothing was found out."""
    at = rfc3339(now_us)
    one: dict[str, Any] = {"startedAt": at, "finishedAt": at}
    if isinstance(value, Exception):
        return {**one, "phase": ERROR, "message": str(value)}
    said = {}
    for which in ("successCondition", "failureCondition"):
        if metric.get(which):
            try:
                said[which] = holds(filled(metric[which], arguments), value)
            except (ConditionError, ValueError) as wrong:
                nothing = "metric result is nil or empty: no data returned from the metric provider"
                why = nothing if value in (None, []) else str(wrong)
                message = f'could not evaluate {which} "{metric[which]}": {why}'
                return {**one, "phase": ERROR, "message": message, "value": text_of(value)}
    good = said.get("successCondition", not said.get("failureCondition", False))
    bad = said.get("failureCondition", not good)
    phase = FAILED if bad else SUCCESSFUL if good else INCONCLUSIVE
    return {**one, "phase": phase, "value": text_of(value)}


def text_of(value: Any) -> str:
    """As the Prometheus provider writes it: the shortest digits that are the same number, without an exponent."""
    if isinstance(value, list):
        return "[" + ",".join(text_of(one) for one in value) + "]"
    if not isinstance(value, float):
        return str(value)
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{value:+}".title()
    return f"{Decimal(repr(value)):f}".removesuffix(".0")


def with_measurement(result: dict[str, Any], one: dict[str, Any]) -> dict[str, Any]:
    """The metric's result with one more."""
    found = {**result, "measurements": [*(result.get("measurements") or ()), one][-_HISTORY:]}
    names = {SUCCESSFUL: "successful", FAILED: "failed", INCONCLUSIVE: "inconclusive", ERROR: "error"}
    found[names[one["phase"]]] = int(found.get(names[one["phase"]], 0)) + 1
    if one["phase"] == ERROR:
        found["consecutiveError"] = int(found.get("consecutiveError", 0)) + 1
    else:
        found["consecutiveError"] = 0
        found["count"] = int(found.get("count", 0)) + 1
    found["consecutiveSuccess"] = (
        int(found.get("consecutiveSuccess", 0)) + 1 if one["phase"] == SUCCESSFUL else 0
    )
    return found


def assessed(metric: dict[str, Any], result: dict[str, Any], is_ending: bool) -> tuple[str, str]:
    """The metric's phase, and why where it is bad."""
    if result.get("phase") in DONE:
        return str(result["phase"]), _trouble(metric, result)[1]
    if not result.get("measurements"):
        return (SUCCESSFUL if is_ending else PENDING), ""
    phase, message = _trouble(metric, result)
    if phase:
        return phase, message
    count = _count(metric)
    if count is not None and int(result.get("count", 0)) >= count:
        return SUCCESSFUL, ""
    return (SUCCESSFUL if is_ending else RUNNING), ""


def _trouble(metric: dict[str, Any], result: dict[str, Any]) -> tuple[str, str]:
    phase = message = ""
    limit = int(metric.get("failureLimit") or 0)
    if 0 <= limit < int(result.get("failed", 0)):
        phase, message = FAILED, f"failed ({result['failed']}) > failureLimit ({limit})"
    limit = int(metric.get("inconclusiveLimit") or 0)
    if int(result.get("inconclusive", 0)) > limit:
        phase, message = (
            INCONCLUSIVE,
            f"inconclusive ({result['inconclusive']}) > inconclusiveLimit ({limit})",
        )
    given = metric.get("consecutiveErrorLimit")
    limit = _ERRORS_IN_A_ROW if given is None else int(given)
    if int(result.get("consecutiveError", 0)) > limit:
        said = f"consecutiveErrors ({result['consecutiveError']}) > consecutiveErrorLimit ({limit})"
        phase, message = ERROR, said
    return phase, message


def status_of_run(run: Obj, results: dict[str, dict[str, Any]], now_us: int) -> dict[str, Any]:
    """The run's status with these results by metric. One that is bad ends the others as they are."""
    spec, before = run["spec"], run.get("status") or {}
    metrics = [(m, results.get(m["name"])) for m in spec.get("metrics") or ()]
    is_ending = bool(spec.get("terminate")) or any(r and assessed(m, r, False)[0] in _BAD for m, r in metrics)
    worst, message, is_complete = "", "Run Terminated" if spec.get("terminate") else "", True
    summary = dict.fromkeys(("count", "successful", "failed", "inconclusive", "error"), 0)
    told = []
    for metric, result in metrics:
        summary["count"] += 1
        if result is None:
            is_complete = False
            continue
        phase, why = assessed(metric, result, is_ending)
        told.append({**result, "name": metric["name"], "phase": phase})
        if phase not in DONE:
            is_complete = False
            continue
        summary[phase.lower()] += 1
        if not worst or _WORSE.index(phase) > _WORSE.index(worst):
            worst = phase
            if why:
                message = f'Metric "{metric["name"]}" assessed {phase} due to {why}'
                last = (result.get("measurements") or [{}])[-1].get("message")
                message += f': "Error Message: {last}"' if last else ""
    status = {
        "startedAt": before.get("startedAt") or rfc3339(now_us),
        "metricResults": told,
        "runSummary": summary,
    }
    if not is_ending and not (is_complete and worst):
        return {**status, "phase": RUNNING}
    status |= {"phase": worst or SUCCESSFUL, "completedAt": before.get("completedAt") or rfc3339(now_us)}
    return {**status, "message": message} if message else status


def _result(run: Obj, name: str) -> dict[str, Any] | None:
    for result in (run.get("status") or {}).get("metricResults") or ():
        if result.get("name") == name:
            return dict(result)
    return None


def results_of(run: Obj) -> dict[str, dict[str, Any]]:
    return {r["name"]: dict(r) for r in (run.get("status") or {}).get("metricResults") or ()}
