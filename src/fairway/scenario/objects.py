"""From files and inline objects to what is put into the cluster.

An object is checked as the API server would, gets its defaults and the behaviour profiles that match it. What
a dump of a real cluster says about identity and state is left out: here the object begins anew.
"""

from __future__ import annotations

import glob
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from fairway.errors import FieldProblem, InvalidInput
from fairway.kube import fieldpath, published
from fairway.kube.creationorder import creation_step
from fairway.kube.defaults import apply_defaults
from fairway.kube.fieldpath import MapKey, path_text, value_text
from fairway.kube.located import Field
from fairway.kube.manifest import Manifest, read_path
from fairway.kube.objects import Key, Obj, controller_of, gk_of, key_of, spec_of
from fairway.kube.provisioningrequests import REQUEST
from fairway.kube.validation.checking import check, field_problem, subject_of
from fairway.queueing.webhooks.door import new_refusals
from fairway.scenario.model import BehaviourProfile
from fairway.scenario.profiles import template_path, with_profiles
from fairway.scenario.storereading import unknown_weights
from fairway.twin.behaviour import problems as behaviour_problems

# Metadata that belongs to the cluster an object was dumped from.
_SERVER_OWNED = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
    "ownerReferences",
)
_GONE = frozenset({"kubectl.kubernetes.io/last-applied-configuration"})
# Read by the API server or kubelets, not part of any simulation.
_LEFT_OUT = frozenset({"Event", "Lease.coordination.k8s.io", "Scenario.fairway.dev"})
_OBJECTS = (
    "expected objects of a cluster: a KubeletConfiguration goes under a scenario's nodes: kubelet, "
    "a KubeSchedulerConfiguration under scheduler, Kueue's Configuration under kueue: configuration"
)


class Within:
    """Lines of an object that stands inside another one's document."""

    __slots__ = ("_manifest", "_prefix")

    def __init__(self, manifest: Manifest, prefix: fieldpath.Path) -> None:
        self._manifest = manifest
        self._prefix = prefix

    def line_of(self, path: fieldpath.Path) -> int:
        return self._manifest.line_of((*self._prefix, *path))


@dataclass(slots=True)
class Loaded:
    """Complete objects and where each one was read; `skipped` are those lenient reading left out."""

    objects: list[Obj]
    origins: list[Manifest]
    skipped: list[FieldProblem]


def manifests_of(field: Field, base: Path) -> list[Manifest]:
    """What a path, a glob or an inline object stands for. Problems are noted at the field."""
    if isinstance(field.value, dict):
        for name in ("apiVersion", "kind"):
            if not isinstance(field.value.get(name), str):
                Field(field.reading, (*field.path, name), field.value.get(name)).reject("required text")
                return []
        outer = field.reading.manifest
        return [Manifest(field.value, outer.file, Within(outer, field.path))]
    text = field.required_text()
    return [m for path in _paths(field, text, base) for m in _read(field, path)] if text else []


def _paths(field: Field, text: str, base: Path) -> list[Path]:
    pattern = str(base / text)
    if not glob.has_magic(text):
        if not Path(pattern).exists():
            field.reject(f"no such file or directory below {base}")
            return []
        return [Path(pattern)]
    found = sorted(glob.glob(pattern, recursive=True))
    if not found:
        field.reject(f"expected files below {base}: none matches")
    return [Path(p) for p in found]


def _read(field: Field, path: Path) -> list[Manifest]:
    try:
        return read_path(path)
    except InvalidInput as wrong:
        field.reading.problems.extend(wrong.problems)
        return []


def complete(
    manifests: Iterable[Manifest],
    behaviours: tuple[BehaviourProfile, ...] = (),
    *,
    lenient: bool = False,
    models: Collection[str] = (),
) -> Loaded:
    """Checked, defaulted objects in the order of their creation. `models`: those that stores have.

    Raises: InvalidInput with every problem, unless lenient.
    """
    read = list(manifests)
    taken = [m for m in read if m.broken is not None or not _is_left_out(m.obj)]
    checked = check(taken, lenient=lenient)
    by_object = {id(m.obj): m for m in taken}
    problems: list[FieldProblem] = [*checked.problems, *(() if taken else _mere_settings(read))]
    found: list[tuple[Obj, Manifest]] = []
    for obj in without_dependents(checked.objects):
        manifest = by_object[id(obj)]
        wrong = [
            *_annotation_problems(manifest, models),
            *_zone_problems(manifest),
            *(_rule_problems(manifest) or _kueue_problems(manifest)),
            *_autoscaling_problems(manifest),
        ]
        problems.extend(wrong)
        if not wrong:
            found.append((with_profiles(apply_defaults(as_new(obj)), behaviours), manifest))
    if problems and not lenient:
        raise InvalidInput(tuple(problems))
    found.sort(key=lambda pair: creation_step(pair[0]))
    return Loaded([obj for obj, _ in found], [origin for _, origin in found], problems)


def _is_left_out(obj: Obj) -> bool:
    return gk_of(obj) in _LEFT_OUT or _is_settings(obj)


def _is_settings(obj: Obj) -> bool:
    """A file that a component reads at its start: beside a scenario it is read where the scenario names it."""
    return str(obj.get("kind", "")).endswith("Configuration") and "metadata" not in obj


def _mere_settings(manifests: list[Manifest]) -> list[FieldProblem]:
    """Where nothing else is there: who runs such a file alone would wait for its effect."""
    return [
        FieldProblem(
            m.file, m.line_of(("kind",)), "kind", value_text(m.obj.get("kind")), _OBJECTS, subject_of(m.obj)
        )
        for m in manifests
        if _is_settings(m.obj)
    ]


def without_dependents(objects: list[Obj]) -> list[Obj]:
    """The objects without those whose controller is among them: it will create them anew."""
    keys = {key_of(obj) for obj in objects}
    return [obj for obj in objects if not _is_made_here(obj, keys)]


def _is_made_here(obj: Obj, keys: set[Key]) -> bool:
    owner = controller_of(obj)
    if owner is None:
        return False
    gk = gk_of({"apiVersion": owner.get("apiVersion", ""), "kind": owner.get("kind", "")})
    return Key(gk, key_of(obj).namespace, owner.get("name", "")) in keys


def as_new(obj: Obj) -> Obj:
    """The object as its author wrote it: no identity, no state (a Node keeps its status: what it has)."""
    meta = obj.get("metadata") or {}
    if "status" not in obj and not any(name in meta for name in _SERVER_OWNED):
        return obj
    kept: dict[str, Any] = {k: v for k, v in meta.items() if k not in _SERVER_OWNED}
    if "annotations" in kept:
        kept["annotations"] = {k: v for k, v in (kept["annotations"] or {}).items() if k not in _GONE}
    new = {**obj, "metadata": kept}
    if gk_of(obj) != "Node":
        new.pop("status", None)
    return new


def _annotation_problems(manifest: Manifest, models: Collection[str]) -> list[FieldProblem]:
    """What is wrong with behaviour annotations of a pod or a pod template."""
    found = []
    for path in template_path(manifest.obj):
        at: Any = manifest.obj
        for step in path:
            at = at[int(step)] if isinstance(at, list) else at.get(step) or {}
        annotations = (at.get("metadata") or {}).get("annotations") or {}
        for wrong in (*behaviour_problems(annotations), *unknown_weights(annotations, models)):
            place = (*path, "metadata", "annotations", MapKey(wrong.annotation))
            found.append(
                FieldProblem(
                    manifest.file,
                    manifest.line_of(place),
                    path_text(place),
                    wrong.value,
                    wrong.expected,
                    subject_of(manifest.obj),
                )
            )
    return found


def _zone_problems(manifest: Manifest) -> list[FieldProblem]:
    """A CronJob in a time zone nobody knows would never run. Source: ValidateCronJobSpec, validateTimeZone."""
    if gk_of(manifest.obj) != "CronJob.batch":
        return []
    name = spec_of(manifest.obj).get("timeZone")
    if name is None:
        return []
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        path = ("spec", "timeZone")
        expected = f"unknown time zone {name}; expected a name of the IANA database such as Europe/Paris"
        subject = subject_of(manifest.obj)
        line = manifest.line_of(path)
        return [FieldProblem(manifest.file, line, path_text(path), value_text(name), expected, subject)]
    return []


def _autoscaling_problems(manifest: Manifest) -> list[FieldProblem]:
    """What the CRDs of Karpenter and the Cluster Autoscaler, or Karpenter itself, would refuse."""
    gk = gk_of(manifest.obj)
    if gk == "NodePool.karpenter.sh":
        from fairway.provisioning.karpenter import nodepoolchecks

        return nodepoolchecks.problems_of(manifest)
    if gk == REQUEST:
        from fairway.provisioning.clusterautoscaler import requestchecks

        return requestchecks.problems_of(manifest)
    return []


def _kueue_problems(manifest: Manifest) -> list[FieldProblem]:
    """What Kueue's webhooks would refuse, in their words."""
    return [
        FieldProblem(
            manifest.file,
            manifest.line_of(fault.path),
            path_text(fault.path),
            "",
            fault.body,
            subject_of(manifest.obj),
        )
        for refusal in new_refusals(manifest.obj)
        for fault in refusal.faults
    ]


def _rule_problems(manifest: Manifest) -> list[FieldProblem]:
    """The rules in CEL of a published kind's definition."""
    version = published.entry(gk_of(manifest.obj), str(manifest.obj["apiVersion"]).rpartition("/")[2])
    if version is None:
        return []
    from fairway.admission.crdrules import problems

    found = problems(version["schema"]["openAPIV3Schema"], apply_defaults(manifest.obj))
    return [field_problem(manifest, problem) for problem in found]
