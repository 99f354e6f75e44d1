"""Whole logs of what uses GPUs: trainers, servers and notebooks, still running, ended and failed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.histories import check_history

from fairway.apiserver.kubelets.frameworklogs import Run, lines

MINUTE = 60_000_000
START = 1_767_225_600_000_000
CHECKPOINTS = {"fairway.dev/checkpoint-interval": "90s", "fairway.dev/checkpoint-time": "5s"}
ACTIVITIES = ("training", "serving", "notebook", "idle", "nonsense")
# Name: (seconds until it is read, exit code, lines at most), parts of the pod.
RUNS: dict[str, tuple[tuple[float, int | None, int], dict[str, Any]]] = {
    "one GPU": ((180, None, 9), {}),
    "a moment more": ((180.000001, None, 9), {}),
    "at its start": ((0, None, 9), {}),
    "before its start": ((-5, None, 9), {}),
    "two GPUs": ((70, None, 9), {"gpus": 2}),
    "an address": ((30, None, 9), {"gpus": 2, "status": {"podIP": "10.0.0.9"}}),
    "saves": ((310, None, 9), {"annotations": CHECKPOINTS}),
    "the last three": ((3601, None, 3), {}),
    "done": ((150, 0, 9), {}),
    "failed": ((150, 3, 9), {}),
    "killed": ((150, 137, 9), {}),
    "at the limit of signals": ((61, 128, 9), {}),
    "below it": ((61, 127, 9), {}),
    "serves": ((310, None, 9), {"policy": "Always"}),
    "served": ((70, 143, 9), {"policy": "Always"}),
    "a ReplicaSet's": ((70, None, 9), {"policy": "Always", "owner": "ReplicaSet"}),
    "a Job's": ((70, None, 9), {"owner": "Job"}),
    "a StatefulSet's": ((70, None, 9), {"policy": "Always", "owner": "StatefulSet"}),
    "a notebook": ((70, None, 9), {"name": "jupyter-ann", "policy": "Always"}),
    "no GPU": ((70, None, 9), {"gpus": 0}),
    "another program": ((70, None, 9), {"command": ["sleep", "9"]}),
    "another program's argument": ((70, None, 9), {"command": ["bash", "-c"], "args": ["python x.py"]}),
    "arguments alone": ((70, None, 9), {"args": ["sleep"]}),
    **{
        f"says it is {a}": ((70, None, 9), {"annotations": {"fairway.dev/gpu-activity": a}})
        for a in ACTIVITIES
    },
}


def test_whole_logs_are_what_they_were() -> None:
    def told() -> Iterator[str]:
        for name, (limits, parts) in RUNS.items():
            found = _lines(*limits, **parts)
            yield f"== {name}{': none' if found is None else ''}"
            for at_us, line in found or ():
                yield f"{(at_us - START) / 1_000_000:g} {line}"

    check_history(Path(__file__).parent / "whole_framework_logs.txt", told())


def _lines(seconds: float, exit_code: int | None, most: int, **parts: Any) -> list[tuple[int, str]] | None:
    container = {
        "name": "main",
        **{key: parts[key] for key in ("command", "args") if key in parts},
        "resources": {"requests": {"nvidia.com/gpu": str(parts.get("gpus", 1))}},
    }
    meta: dict[str, Any] = {"name": parts.get("name", "train-0"), "uid": "u"}
    meta["annotations"] = parts.get("annotations", {})
    if "owner" in parts:
        meta["ownerReferences"] = [{"kind": parts["owner"], "name": "o", "uid": "o", "controller": True}]
    pod = {
        "metadata": meta,
        "spec": {"restartPolicy": parts.get("policy", "Never"), "containers": [container]},
        "status": parts.get("status", {}),
    }
    found = lines(Run(pod, container, START, START + round(seconds * 1_000_000), exit_code, most))
    return None if found is None else list(found)
