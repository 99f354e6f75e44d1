"""Where the pod templates of a job are, and the paths into them as JSON pointers have them."""

from __future__ import annotations

from typing import Any

from fairway.kube.objects import Obj, spec_of
from fairway.scenario.profiles import template_path

_RAY = "ray.io/v1"


def templates_of(job: Obj) -> tuple[tuple[Any, ...], ...]:
    """Where its pod templates are; a pod is its own."""
    if job.get("kind") == "Pod":
        return ((),)
    if job.get("kind") not in ("RayJob", "RayService"):
        return template_path(job)
    name = "rayClusterSpec" if job["kind"] == "RayJob" else "rayClusterConfig"
    spec = spec_of(job).get(name)
    inner = {"apiVersion": _RAY, "kind": "RayCluster", "spec": spec if isinstance(spec, dict) else {}}
    return tuple(("spec", name, *path[1:]) for path in template_path(inner))


def at_path(obj: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        if isinstance(obj, list):
            obj = obj[int(step)] if int(step) < len(obj) else {}
        else:
            obj = (obj or {}).get(step)
    return obj if obj is not None else {}


def pointer(path: tuple[Any, ...]) -> str:
    return "".join(f"/{escaped(str(step))}" for step in path)


def escaped(name: str) -> str:
    """As a JSON pointer has it."""
    return name.replace("~", "~0").replace("/", "~1")
