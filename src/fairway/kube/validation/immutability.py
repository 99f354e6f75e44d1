"""What may not change once it is written? The update rules of kinds where people run into them.

Source: pkg/apis/{core,batch,apps,rbac}/validation, ValidateXUpdate (v1.36).
"""

from __future__ import annotations

from typing import Any

from fairway.kube.fieldpath import Path
from fairway.kube.objects import Obj, dig
from fairway.kube.validation.problem import Problem, forbidden, invalid

_IMMUTABLE = "field is immutable"

# Paths that keep the value they had.
_FIXED: dict[str, tuple[Path, ...]] = {
    "Job.batch": (("spec", "selector"), ("spec", "completionMode"), ("spec", "podFailurePolicy")),
    "Deployment.apps": (("spec", "selector"),),
    "ReplicaSet.apps": (("spec", "selector"),),
    "DaemonSet.apps": (("spec", "selector"),),
    "Secret": (("type",),),
    "StorageClass.storage.k8s.io": (
        ("provisioner",),
        ("parameters",),
        ("reclaimPolicy",),
        ("volumeBindingMode",),
    ),
    "PriorityClass.scheduling.k8s.io": (("value",), ("preemptionPolicy",)),
    "RuntimeClass.node.k8s.io": (("handler",),),
}
_ROLE_REF = ("RoleBinding.rbac.authorization.k8s.io", "ClusterRoleBinding.rbac.authorization.k8s.io")
_STATEFUL_MUTABLE = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)
_STATEFUL_WHY = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)
_POD_WHY = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_SCHEDULING_FIELDS = ("nodeSelector", "affinity", "tolerations", "schedulingGates")


def update_problems(gk: str, new: Obj, old: Obj, subresource: str = "") -> list[Problem]:
    """Every immutable field that changed."""
    if gk == "Pod":
        return _pod(new, old, subresource)
    if gk == "StatefulSet.apps":
        return _stateful_set(new, old)
    if gk in ("ConfigMap", "Secret") and old.get("immutable"):
        return _immutable_data(new, old)
    if gk in _ROLE_REF and new.get("roleRef") != old.get("roleRef"):
        return [invalid(("roleRef",), new.get("roleRef"), "cannot change roleRef")]
    found = [
        invalid(path, dig(new, *path), _IMMUTABLE)
        for path in _FIXED.get(gk, ())
        if dig(new, *path) != dig(old, *path)
    ]
    if gk == "Job.batch":
        found += _job(new, old)
    if gk == "Service":
        found += _service(new, old)
    return found


def _pod(new: Obj, old: Obj, subresource: str) -> list[Problem]:
    if subresource == "ephemeralcontainers":
        return _ephemeral(new["spec"], old["spec"])
    if subresource == "resize":
        return _resized(new["spec"], old["spec"])
    before, after = _pod_rest(old["spec"]), _pod_rest(new.get("spec") or {})
    added = [
        t for t in (new["spec"].get("tolerations") or ()) if t not in (old["spec"].get("tolerations") or ())
    ]
    kept = [t for t in (old["spec"].get("tolerations") or ()) if t in (new["spec"].get("tolerations") or ())]
    is_gated = bool(old["spec"].get("schedulingGates"))
    if is_gated:
        # A gated pod's scheduling directives may be tightened. Source: ValidatePodUpdate, KEP-3838.
        before, after = _without(before, _SCHEDULING_FIELDS), _without(after, _SCHEDULING_FIELDS)
    elif len(kept) < len(old["spec"].get("tolerations") or ()) and not added:
        return [forbidden(("spec",), "existing toleration can not be modified except its tolerationSeconds")]
    gates = _without(before, ("schedulingGates",)) == _without(after, ("schedulingGates",))
    if gates and not is_gated and new["spec"].get("schedulingGates"):
        return [
            forbidden(
                ("spec", "schedulingGates", 0),
                "only deletion is allowed, but found new scheduling gate "
                f"'{new['spec']['schedulingGates'][0].get('name')}'",
            )
        ]
    return [] if before == after else [forbidden(("spec",), _POD_WHY)]


def _ephemeral(new: dict[str, Any], old: dict[str, Any]) -> list[Problem]:
    """Those that are there stay as they are. Source: ValidatePodEphemeralContainersUpdate."""
    at, there = (
        ("spec", "ephemeralContainers"),
        {c.get("name"): c for c in new.get("ephemeralContainers") or ()},
    )
    found = []
    for container in old.get("ephemeralContainers") or ():
        name = container["name"]
        if name not in there:
            found.append(forbidden(at, f'existing ephemeral containers "{name}" may not be removed\n'))
        elif there[name] != container:
            found.append(forbidden(at, f'existing ephemeral containers "{name}" may not be changed\n'))
    return found


def _resized(new: dict[str, Any], old: dict[str, Any]) -> list[Problem]:
    """Containers stay who they are. Source: ValidatePodResize, validatePodResizeContainerOrdering."""
    found = []
    for field in ("containers", "initContainers"):
        before, after = old.get(field) or [], new.get(field) or []
        if len(before) != len(after):
            found.append(forbidden(("spec", field), f"{field} may not be added or removed on resize"))
            continue
        for index, (one, other) in enumerate(zip(before, after, strict=True)):
            if one.get("name") != other.get("name"):
                why = f"{field} may not be renamed or reordered on resize"
                found.append(forbidden(("spec", field, index, "name"), why))
    return found


def _pod_rest(spec: dict[str, Any]) -> dict[str, Any]:
    """What must stay of a pod's spec."""
    out = _without(spec, ("activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds"))
    for field in ("containers", "initContainers"):
        if out.get(field):
            out[field] = [_without(c, ("image",)) for c in out[field]]
    return {k: v for k, v in out.items() if v not in (None, [], {})}


def _without(mapping: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {k: v for k, v in mapping.items() if k not in names}


def _stateful_set(new: Obj, old: Obj) -> list[Problem]:
    before, after = _without(old["spec"], _STATEFUL_MUTABLE), _without(new["spec"], _STATEFUL_MUTABLE)
    return [] if before == after else [forbidden(("spec",), _STATEFUL_WHY)]


def _immutable_data(new: Obj, old: Obj) -> list[Problem]:
    found = []
    if not new.get("immutable"):
        found.append(forbidden(("immutable",), "field is immutable when `immutable` is set"))
    found.extend(
        forbidden((field,), "field is immutable when `immutable` is set")
        for field in ("data", "binaryData", "stringData")
        if (new.get(field) or {}) != (old.get(field) or {})
    )
    return found


def _job(new: Obj, old: Obj) -> list[Problem]:
    """Templates and completions are fixed, with the exceptions of suspended and of Indexed jobs."""
    found = []
    spec, before = new["spec"], old["spec"]
    may_move = before.get("suspend") and not (old.get("status") or {}).get("startTime")
    if _job_template(spec, may_move=bool(may_move)) != _job_template(before, may_move=bool(may_move)):
        found.append(invalid(("spec", "template"), spec.get("template"), _IMMUTABLE))
    elastic = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")
    if spec.get("completions") != before.get("completions") and not elastic:
        found.append(invalid(("spec", "completions"), spec.get("completions"), _IMMUTABLE))
    return found


def _job_template(spec: dict[str, Any], *, may_move: bool) -> dict[str, Any]:
    template = spec.get("template") or {}
    if not may_move:
        return template
    pod = _without(template.get("spec") or {}, ("nodeSelector", "tolerations", "affinity", "schedulingGates"))
    pod["containers"] = [_without(c, ("resources",)) for c in pod.get("containers") or ()]
    meta = _without(template.get("metadata") or {}, ("labels", "annotations"))
    return {**template, "spec": pod, "metadata": meta}


def _service(new: Obj, old: Obj) -> list[Problem]:
    before, after = dig(old, "spec", "clusterIP"), dig(new, "spec", "clusterIP")
    if before and before != after and dig(new, "spec", "type") != "ExternalName":
        at = ("spec", "clusterIPs", 0)
        return [invalid(at, [after] if after else [], "may not change once set")]
    return []
