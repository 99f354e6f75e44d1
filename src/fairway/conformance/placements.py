"""Does Fairway place pods as a recorded kube-scheduler did?

A recording has one cluster a line: `nodes` (Node objects) and `steps`, each a `pod` with what became of it:
`chosen` (node name or null), `message` (why not), `scores` (final score per feasible node; empty where only
one node was feasible). Pods are submitted one after another; each is bound where it was recorded before the
next is judged, so one disagreement does not cause another.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fairway.cluster.store import Store
from fairway.conformance.rows import nothing_recorded, read_rows
from fairway.conformance.verification import Difference, Verification
from fairway.kube.objects import Obj, key_of
from fairway.scheduling.cycle import Diagnosis, Scheduler
from fairway.scheduling.preemption import explain
from fairway.scheduling.profile import DEFAULT_PROFILE, Profile
from fairway.twin.owners import DefaultSelectors


def verify_placements(file: Path, profile: Profile = DEFAULT_PROFILE) -> Verification:
    """Replay a recording.

    Raises: InvalidInput for a file that is not such a recording.
    """
    result = Verification()
    for number, row in read_rows(file, _shape_problem):
        _replay(number, row, profile, result)
    if not result.total:
        raise nothing_recorded(file, "recorded pods")
    return result


def _shape_problem(row: Any) -> tuple[str, str] | None:
    if not isinstance(row, dict) or not isinstance(row.get("nodes"), list):
        return ("nodes", "expected a list of Node objects")
    if not isinstance(row.get("steps"), list):
        return ("steps", "expected a list of steps with pod, chosen, message and scores")
    for i, node in enumerate(row["nodes"]):
        if not isinstance(node, dict) or not isinstance((node.get("metadata") or {}).get("name"), str):
            return (f"nodes[{i}].metadata.name", "expected a Node object with a name")
    for i, step in enumerate(row["steps"]):
        pod = step.get("pod") if isinstance(step, dict) else None
        if not isinstance(pod, dict) or not isinstance((pod.get("metadata") or {}).get("name"), str):
            return (f"steps[{i}].pod.metadata.name", "expected a Pod object with a name")
    return None


def _replay(number: int, row: dict[str, Any], profile: Profile, result: Verification) -> None:
    store = Store(seed=number)
    for obj in [*row.get("objects", ()), *row["nodes"]]:
        store.create({"apiVersion": "v1", "kind": "Node", **obj})
    scheduler = Scheduler(store.accounts, profile, DefaultSelectors(store).of, view=store)
    for i, step in enumerate(row["steps"]):
        pod = store.create({"apiVersion": "v1", "kind": "Pod", **step["pod"]})
        found = _judge(store, scheduler, pod, step)
        where = f"step {i} pod {pod['metadata']['name']}"
        result.count([Difference(number, where, *found)] if found else [])
        if step.get("chosen"):
            store.bind(key_of(pod), step["chosen"], {**pod["status"], "phase": "Running"})


def _judge(store: Store, scheduler: Scheduler, pod: Obj, step: dict[str, Any]) -> tuple[str, str, str] | None:
    """None where it agrees, else what differs: aspect, recorded, ours."""
    record = store.accounts.record(pod, key_of(pod))
    sheet = scheduler.score_sheet(record)
    verdict = scheduler.place(record)
    chosen, message = step.get("chosen"), step.get("message")
    if isinstance(verdict, Diagnosis):
        said = explain(scheduler, record, verdict).message
        if chosen:
            return ("feasible", f"on {chosen}", said)
        return None if said == message else ("message", str(message), said)
    ours = dict(zip(sheet.nodes, sheet.totals, strict=True))
    if not chosen:
        return ("feasible", str(message), f"on {verdict.node}")
    recorded: dict[str, int] = step.get("scores") or {}
    if sorted(recorded or [chosen]) != sorted(ours):
        return ("feasible", ", ".join(sorted(recorded or [chosen])), ", ".join(sorted(ours)))
    if recorded and recorded != ours:
        return ("scores", _scores(recorded), _scores(ours))
    if ours[chosen] != max(ours.values()):
        return ("choice", chosen, _scores(ours))
    return None


def _scores(scores: dict[str, int]) -> str:
    return ", ".join(f"{node} {score}" for node, score in sorted(scores.items()))
