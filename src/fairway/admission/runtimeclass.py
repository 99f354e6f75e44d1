"""The RuntimeClass plugin: overhead, node selector and tolerations a runtime brings along.

Source: plugin/pkg/admission/runtimeclass/admission.go (v1.36).
"""

from __future__ import annotations

from typing import Any

from fairway.cluster.actions import View
from fairway.kube.objects import Key, Obj
from fairway.kube.resources import parse_resources

PLUGIN = "RuntimeClass"
RUNTIME_CLASS = "RuntimeClass.node.k8s.io"


def resolved(view: View, pod: Obj) -> Obj | str:
    """The pod with what its RuntimeClass says, or why it is refused."""
    spec = pod.get("spec") or {}
    name = spec.get("runtimeClassName")
    if name is None:
        return pod
    runtime = view.get(Key(RUNTIME_CLASS, "", name))
    if runtime is None:
        return f'pod rejected: RuntimeClass "{name}" not found'
    changed = dict(spec)
    overhead = (runtime.get("overhead") or {}).get("podFixed")
    if overhead is not None:
        if spec.get("overhead") is not None and not _same(overhead, spec["overhead"]):
            return "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
        changed["overhead"] = overhead
    wrong = _schedule(changed, runtime.get("scheduling") or {})
    if wrong is not None:
        return wrong
    return pod if changed == spec else {**pod, "spec": changed}


def _schedule(spec: dict[str, Any], scheduling: dict[str, Any]) -> str | None:
    """Merge the runtime's node selector and tolerations in; or what contradicts."""
    selector = dict(spec.get("nodeSelector") or {})
    for key, value in sorted((scheduling.get("nodeSelector") or {}).items()):
        if selector.get(key, value) != value:
            return (
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                f"pod.spec.nodeSelector[{key}] = {selector[key]}"
            )
        selector[key] = value
    if selector:
        spec["nodeSelector"] = selector
    tolerations = list(spec.get("tolerations") or ())
    tolerations += [t for t in scheduling.get("tolerations") or () if t not in tolerations]
    if tolerations:
        spec["tolerations"] = tolerations
    return None


def refusal(view: View, pod: Obj) -> str | None:
    """Overhead is the runtime's to set, nobody else's."""
    spec = pod.get("spec") or {}
    stated = spec.get("overhead")
    name = spec.get("runtimeClassName")
    runtime = view.get(Key(RUNTIME_CLASS, "", name)) if name else None
    if name and runtime is None:
        return f'pod rejected: RuntimeClass "{name}" not found'
    defined = ((runtime or {}).get("overhead") or {}).get("podFixed")
    if defined is None:
        if stated is not None:
            return "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        return None
    if not _same(defined, stated or {}):
        return "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
    return None


def _same(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return parse_resources(a) == parse_resources(b)
