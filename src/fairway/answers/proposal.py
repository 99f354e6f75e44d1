"""A guess at what might start something, and the paths into objects that guesses are made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fairway.answers.naming import job_of
from fairway.answers.steps import Delete, Step, escaped
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj, spec_of
from fairway.scenario.profiles import template_path

_HOLDERS = 4
_RAY = "ray.io/v1"


@dataclass(frozen=True)
class Proposal:
    """Steps, and what they are called. `family`: proposals of one are alternatives; `evicts`: whose work goes;
    `loses`: the work becomes less."""

    what: str
    steps: tuple[Step, ...]
    family: str
    evicts: tuple[str, ...] = ()
    loses: bool = False


def gone(store: Store, holders: list[Key]) -> Iterator[Proposal]:
    jobs = list(dict.fromkeys(job_of(store, k) for k in holders))
    sets = [jobs[i : i + 1] for i in range(min(len(jobs), _HOLDERS))] + [
        jobs[:n] for n in (2, 4, 8) if len(jobs) >= n
    ]
    for some in sets:
        names = tuple(f"{k.namespace}/{k.name}" for k in some)
        what = f"{', '.join(names[:3])}{' …' if len(names) > 3 else ''} finished or deleted"
        yield Proposal(what, tuple(Delete(k) for k in some), f"holders/{len(some)}", evicts=names)


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
