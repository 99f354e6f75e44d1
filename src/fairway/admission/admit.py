"""Admission of a new object: every plugin that concerns workloads, in kube-apiserver's order.

NamespaceLifecycle may refuse; LimitRanger (defaults), Priority and DefaultTolerationSeconds change a pod; then
LimitRanger (bounds) and ResourceQuota may refuse it. Claims get the default StorageClass, claims and volumes their
protection. Quota comes last, so that nothing is charged for what is
refused.

Source: pkg/kubeapiserver/options/plugins.go AllOrderedPlugins (v1.36).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from fairway.admission import defaultclasses, limitranger, namespace, priority, quota, volumeprotection
from fairway.admission.verdicts import Admitted, Refused, forbidden
from fairway.cluster.actions import View
from fairway.kube.defaults import add_default_tolerations
from fairway.kube.memos import memo
from fairway.kube.objects import Obj, gk_of, namespace_of, spec_of

_CLAIM: Final = "PersistentVolumeClaim"
_STORAGE: Final = {_CLAIM: "persistentvolumeclaims", "PersistentVolume": "persistentvolumes"}


def admit(view: View, obj: Obj) -> Admitted | Refused:
    """The object as it goes in, with its quota charges, or why it does not. O(policies of the namespace)."""
    refusal = namespace.refusal(view, obj)
    if refusal is not None:
        return refusal
    gk = gk_of(obj)
    changed: Obj | Refused = obj
    if gk == "Pod":
        changed = _changed(view, obj)
    elif gk in _STORAGE:
        changed = volumeprotection.guarded(obj, _STORAGE[gk])
        changed = defaultclasses.claim_with_class(view, changed) if gk == _CLAIM else changed
    if isinstance(changed, Refused):
        return changed
    refusal = limitranger.refusal(view, changed)
    if refusal is not None:
        return refusal
    violation = quota.quota_violation(view, changed)
    if violation is not None:
        return forbidden(changed, violation, quota.PLUGIN)
    return Admitted(changed, quota.charges(view, changed))


class _Known(NamedTuple):
    spec: dict[str, Any]
    policies: list[Obj]
    result: dict[str, Any]


# Specs after the changing plugins, by the identity of the spec that came in, which is kept alive beside them.
# Pods of one template share a spec, and go on sharing one: what is cached per spec further on stays cached.
_KNOWN: Final[dict[int, _Known]] = memo()
_MAX_KNOWN: Final = 16384


def _changed(view: View, pod: Obj) -> Obj | Refused:
    """The pod after the plugins that change it."""
    spec = spec_of(pod)
    ranges = view.objects(limitranger.LIMIT_RANGE, namespace_of(pod) or "default")
    policies = [*ranges, *view.objects(priority.PRIORITY_CLASS)]
    known = _KNOWN.get(id(spec))
    if known is not None and known.spec is spec and not ranges and _are_same(known.policies, policies):
        return {**pod, "spec": known.result}
    resolved = priority.resolved(view, limitranger.defaulted(view, pod))
    if isinstance(resolved, Refused):
        return resolved
    changed = add_default_tolerations(resolved)
    if len(_KNOWN) >= _MAX_KNOWN:
        _KNOWN.clear()
    _KNOWN[id(spec)] = _Known(spec, policies, changed.get("spec") or {})
    return changed


def _are_same(a: list[Obj], b: list[Obj]) -> bool:
    return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))
