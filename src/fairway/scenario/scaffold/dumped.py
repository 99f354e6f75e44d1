"""A cluster's own objects (`kubectl get … -A -o yaml`) as the start of a scenario, without what a server wrote.

Objects that a controller made are left out: their owners make them again. Nodes keep what they offer. Of Secrets only
the names of their keys are kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fairway.kube.manifestwriting import write_yaml
from fairway.kube.objects import Obj, controller_of, status_of

_OF_THE_SERVER = frozenset(
    {"creationTimestamp", "finalizers", "generation", "managedFields", "ownerReferences", "resourceVersion"}
    | {"selfLink", "uid", "deletionTimestamp", "deletionGracePeriodSeconds"}
)
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
# Written by controllers about others; made anew.
_DERIVED = frozenset(
    {"Event", "Lease", "Endpoints", "EndpointSlice", "ReplicaSet", "ControllerRevision", "Workload"}
)
_NODE_STATUS = ("capacity", "allocatable")
_ENDED = frozenset({"Succeeded", "Failed"})


def kept(objects: Iterable[Obj]) -> list[Obj]:
    """What a scenario starts from, in the order given."""
    return [_cleaned(obj) for obj in objects if _is_a_start(obj)]


def files_of_dump(objects: Iterable[Obj], name: str) -> dict[str, str]:
    """A scenario of these objects: text by file name. Empty where none of them is a start."""
    by_kind: dict[str, list[Obj]] = {}
    for obj in kept(objects):
        by_kind.setdefault(obj["kind"], []).append(obj)
    files = {f"manifests/{kind.lower()}s.yaml": write_yaml(found) for kind, found in by_kind.items()}
    return {"scenario.yaml": _scenario(name), **files} if files else {}


def _is_a_start(obj: Obj) -> bool:
    has_ended = obj["kind"] == "Pod" and status_of(obj).get("phase") in _ENDED
    return obj["kind"] not in _DERIVED and controller_of(obj) is None and not has_ended


def _cleaned(obj: Obj) -> Obj:
    meta = {k: v for k, v in obj["metadata"].items() if k not in _OF_THE_SERVER}
    annotations = {k: v for k, v in (meta.get("annotations") or {}).items() if k != _LAST_APPLIED}
    meta.pop("annotations", None)
    if annotations:
        meta["annotations"] = annotations
    found: dict[str, Any] = {k: v for k, v in obj.items() if k not in ("metadata", "status")}
    found["metadata"] = meta
    if obj["kind"] == "Node":
        found["status"] = {k: v for k, v in status_of(obj).items() if k in _NODE_STATUS}
    if obj["kind"] == "Pod" and "spec" in found:
        found["spec"] = {k: v for k, v in found["spec"].items() if k != "nodeName"}
    if obj["kind"] == "Secret":
        found["data"] = dict.fromkeys(found.get("data") or (), "")
    order = ("apiVersion", "kind", "metadata")
    return {k: found[k] for k in (*order, *(k for k in found if k not in order))}


def _scenario(name: str) -> str:
    return f"""\
# Made from a cluster's own objects. Run it: fairway simulate {name}
# Containers run for ever until a behaviour says otherwise: behaviours below, or fairway.dev/… annotations
# (docs/behaviour.md). What arrives later: a trace (fairway trace convert makes one of the same dump).
apiVersion: fairway.dev/v1alpha1
kind: Scenario
metadata:
  name: {name}
spec:
  seed: 1
  duration: 24h
  manifests: [manifests]
  behaviours:
    - match: {{kinds: [Job]}}
      set: {{run-time: "lognormal(1h, 1.0)"}}
"""
