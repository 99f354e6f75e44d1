"""Why a Workload without quota is not even tried; and what is left of a pod template between two admissions."""

from __future__ import annotations

from typing import Any

from tests.queueing.queueworld import workload_of

from fairway.queueing.control.blockers import EVALUATING, Blocker, QueueFacts, blocker_of
from fairway.queueing.cycle.admissibility import Namespaces
from fairway.queueing.facts.gates import gates_from
from fairway.queueing.facts.objects import LocalQueue
from fairway.queueing.integrations.podsetinfo import (
    SLICE_NAME_ANNOTATION,
    WORKLOAD_ANNOTATION,
    PodSetInfo,
    into_template,
)


def blocked(
    stop: str | None, status: dict[str, Any] | None = None, spec: Any = None, **gates: bool
) -> Blocker | None:
    """Of a Workload whose LocalQueue is there (`stop`: its policy) or not; its ClusterQueue never is."""
    on, _ = gates_from(gates)
    here = None if stop is None else LocalQueue("ns/q", "c", 1.0, stop)
    facts = QueueFacts(here, None, False, "c", None)
    obj = {"metadata": {}, "spec": {"queueName": "q", **(spec or {})}, "status": status or {}}
    return blocker_of(obj, workload_of(obj=obj), facts, Namespaces({}), on)


def test_queues_that_are_missing_or_stopped() -> None:
    on = {"UnadmittedWorkloadsObservability": True}
    assert blocked(None, **on) == ("Misconfigured", "LocalQueue q doesn't exist")
    assert blocked("Hold", **on) == ("Suspended", "LocalQueue q is inactive")
    assert blocked("None", **on) == ("Misconfigured", "ClusterQueue c doesn't exist")
    off = {"UnadmittedWorkloadsObservability": False}
    assert blocked(None, **off) == ("Inadmissible", "LocalQueue q doesn't exist")
    assert blocked("Hold", **off) == ("Inadmissible", "LocalQueue q is inactive")
    assert blocked(None, spec={"active": False}, **on) == ("Deactivated", "The workload is deactivated")
    assert EVALUATING.startswith("Workload is pending evaluation")


def test_the_slice_before_leaves_no_trace_in_a_template() -> None:
    old = {WORKLOAD_ANNOTATION: "old", SLICE_NAME_ANNOTATION: "old", "own": "x"}
    template = {"metadata": {"annotations": old}, "spec": {"nodeSelector": {"a": "b"}}}
    new = {WORKLOAD_ANNOTATION: "new", SLICE_NAME_ANNOTATION: "new"}
    made = into_template(template, PodSetInfo("main", 1, annotations=new, node_selector={"c": "d"}))
    assert made["metadata"]["annotations"] == {**new, "own": "x"}
    assert made["spec"]["nodeSelector"] == {"a": "b", "c": "d"}
    plain = into_template(template, PodSetInfo("main", 1, labels={"l": "m"}))
    assert plain["metadata"]["annotations"] == {WORKLOAD_ANNOTATION: "old", "own": "x"}
    assert plain["metadata"]["labels"] == {"l": "m"}
