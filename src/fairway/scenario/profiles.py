"""How do workloads behave that do not say so themselves? Annotations for the pods of those that match.

behaviours:
  - match: {kinds: [Job], namespaces: [team-a], selector: app=train}
    set: {run-time: "lognormal(2h, 0.6)", gpu-utilization: 85%}
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

from fairway.kube.fieldpath import Path
from fairway.kube.objects import Obj, gk_of, labels_of, name_of, namespace_of
from fairway.scenario.model import BehaviourProfile
from fairway.twin.behaviour import PREFIX

_TEMPLATE: Path = ("spec", "template")
# Where kinds keep their pod templates. Empty: the object is the pod.
_TEMPLATES: dict[str, tuple[Path, ...]] = {
    "Pod": ((),),
    "CronJob.batch": (("spec", "jobTemplate", "spec", "template"),),
    "PodTemplate": (("template",),),
    # Its own annotations go to the submitter: its cluster runs as long as the job does.
    "RayJob.ray.io": ((),),
}
# Where kinds with several templates keep them; `*`: in every item of a list.
_LISTED: dict[str, tuple[Path, ...]] = {
    "JobSet.jobset.x-k8s.io": (("spec", "replicatedJobs", "*", "template", "spec", "template"),),
    "RayCluster.ray.io": (
        ("spec", "headGroupSpec", "template"),
        ("spec", "workerGroupSpecs", "*", "template"),
    ),
    "LeaderWorkerSet.leaderworkerset.x-k8s.io": (
        ("spec", "leaderWorkerTemplate", "leaderTemplate"),
        ("spec", "leaderWorkerTemplate", "workerTemplate"),
    ),
}
_WITH_TEMPLATE = frozenset(
    {
        "Job.batch",
        "Deployment.apps",
        "ReplicaSet.apps",
        "StatefulSet.apps",
        "DaemonSet.apps",
        "ReplicationController",
    }
)


def template_path(obj: Obj) -> tuple[Path, ...]:
    """Where its pod templates are; none for objects without pods."""
    gk = gk_of(obj)
    return (_TEMPLATE,) if gk in _WITH_TEMPLATE else (_TEMPLATES.get(gk) or _templates_within(obj))


def _templates_within(obj: Obj) -> tuple[Path, ...]:
    """Of kinds with several: one per role, replicated job or group, in the order in which they stand."""
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        return ()
    listed = _LISTED.get(gk_of(obj))
    if listed is not None:
        return tuple(path for place in listed for path in _existing(obj, place))
    for name, replicas in spec.items():
        if name.endswith("ReplicaSpecs") and isinstance(replicas, dict):
            return tuple(("spec", name, role, "template") for role in replicas)
    return ()


def _existing(obj: Any, place: Path) -> list[Path]:
    """The paths of this form that the object has; `*` stands for every item of a list."""
    if not place:
        return [()]
    step, rest = place[0], place[1:]
    if step == "*":
        items = obj if isinstance(obj, list) else []
        return [(i, *path) for i, item in enumerate(items) for path in _existing(item, rest)]
    if not isinstance(obj, dict) or obj.get(step) is None:
        return []
    return [(step, *path) for path in _existing(obj[step], rest)]


def with_profiles(obj: Obj, profiles: tuple[BehaviourProfile, ...]) -> Obj:
    """The object with the annotations of every profile that matches it; later profiles win."""
    paths = template_path(obj) if profiles else ()
    for path in paths:
        wanted: dict[str, str] = {}
        forced: dict[str, str] = {}
        for profile in profiles:
            if matches(profile, obj, path):
                (forced if profile.overrides else wanted).update(profile.annotations)
        if wanted or forced:
            obj = _annotated(obj, path, wanted, forced)
    return obj


def matches(profile: BehaviourProfile, obj: Obj, path: Path) -> bool:
    if profile.kinds and obj.get("kind") not in profile.kinds:
        return False
    if profile.namespaces and (namespace_of(obj) or "default") not in profile.namespaces:
        return False
    if profile.names and not any(fnmatchcase(name_of(obj), pattern) for pattern in profile.names):
        return False
    template = _at(obj, path)
    if profile.priority_classes:
        found = (template.get("spec") or {}).get("priorityClassName") or ""
        if found not in profile.priority_classes:
            return False
    return profile.selector.matches({**labels_of(template), **labels_of(obj)})


def _at(obj: Any, path: Path) -> Any:
    for step in path:
        obj = obj[int(step)] if isinstance(obj, list) else obj.get(step) or {}
    return obj


def _annotated(obj: Any, path: Path, wanted: dict[str, str], forced: dict[str, str]) -> Any:
    if path:
        head, rest = path[0], path[1:]
        if isinstance(obj, list):
            return [_annotated(o, rest, wanted, forced) if i == head else o for i, o in enumerate(obj)]
        return {**obj, str(head): _annotated(obj.get(str(head)) or {}, rest, wanted, forced)}
    meta = obj.get("metadata") or {}
    annotations = {**_prefixed(wanted), **(meta.get("annotations") or {}), **_prefixed(forced)}
    return {**obj, "metadata": {**meta, "annotations": annotations}}


def _prefixed(annotations: dict[str, str]) -> dict[str, str]:
    return {f"{PREFIX}{name}": value for name, value in annotations.items()}
