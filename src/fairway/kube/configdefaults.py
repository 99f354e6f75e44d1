"""What the API server fills into kinds that configure: secrets, bindings, volumes, classes, network policies, hooks.

All return a new object where something was missing, and the same one where nothing was.

Source: pkg/apis/{core,rbac,storage,networking,admissionregistration,autoscaling}/v1*/defaults.go and the
strategies' PrepareForCreate (v1.36).
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from typing import Any

from fairway.kube.objects import Obj

_RBAC = "rbac.authorization.k8s.io"
_HOOK_SECONDS = 10


def _filled(given: dict[str, Any], **wanted: Any) -> dict[str, Any]:
    missing = {k: v for k, v in wanted.items() if given.get(k) in (None, "")}
    return {**given, **missing} if missing else given


def _spec(obj: Obj, **wanted: Any) -> Obj:
    spec = obj.get("spec") or {}
    filled = _filled(spec, **wanted)
    return obj if filled is spec else {**obj, "spec": filled}


def _secret(obj: Obj) -> Obj:
    """`stringData` is written, never read: it becomes `data`."""
    texts = obj.get("stringData")
    if isinstance(texts, dict):
        encoded = {k: b64encode(str(v or "").encode()).decode() for k, v in texts.items()}
        obj = {k: v for k, v in obj.items() if k != "stringData"}
        if encoded:
            obj["data"] = {**(obj.get("data") or {}), **encoded}
    return _filled(obj, type="Opaque")


def _binding(obj: Obj) -> Obj:
    out = obj
    reference = obj.get("roleRef")
    if isinstance(reference, dict) and not reference.get("apiGroup"):
        out = {**out, "roleRef": {**reference, "apiGroup": _RBAC}}
    subjects = obj.get("subjects") or ()
    # What is no subject is for validation to say.
    filled = [_subject(s) if isinstance(s, dict) else s for s in subjects]
    if any(a is not b for a, b in zip(filled, subjects, strict=True)):
        out = {**out, "subjects": filled}
    return out


def _subject(subject: dict[str, Any]) -> dict[str, Any]:
    if subject.get("kind") in ("User", "Group") and not subject.get("apiGroup"):
        return {**subject, "apiGroup": _RBAC}
    return subject


def _volume(obj: Obj) -> Obj:
    out = _spec(obj, persistentVolumeReclaimPolicy="Retain", volumeMode="Filesystem")
    path = (out.get("spec") or {}).get("hostPath")
    if isinstance(path, dict) and path.get("type") is None:
        out = {**out, "spec": {**out["spec"], "hostPath": {**path, "type": ""}}}
    return _phase(out)


def _claim(obj: Obj) -> Obj:
    return _phase(_spec(obj, volumeMode="Filesystem"))


def _phase(obj: Obj) -> Obj:
    return obj if (obj.get("status") or {}).get("phase") else {**obj, "status": {"phase": "Pending"}}


def _storage_class(obj: Obj) -> Obj:
    return _filled(obj, reclaimPolicy="Delete", volumeBindingMode="Immediate")


def _driver(obj: Obj) -> Obj:
    if not (obj.get("spec") or {}).get("volumeLifecycleModes"):
        obj = _spec(obj, volumeLifecycleModes=["Persistent"])
    return _spec(
        obj,
        attachRequired=True,
        podInfoOnMount=False,
        storageCapacity=False,
        fsGroupPolicy="ReadWriteOnceWithFSType",
        requiresRepublish=False,
        seLinuxMount=False,
    )


def _priority_level(obj: Obj) -> Obj:
    """Source: pkg/apis/flowcontrol/v1/defaults.go."""
    spec = obj.get("spec") or {}
    for kind, shares in (("limited", 30), ("exempt", 0)):
        given = spec.get(kind)
        if isinstance(given, dict):
            filled = _filled(given, nominalConcurrencyShares=shares, lendablePercent=0)
            spec = spec if filled is given else {**spec, kind: filled}
    return obj if spec is (obj.get("spec") or {}) else {**obj, "spec": spec}


def _api_service(obj: Obj) -> Obj:
    service = (obj.get("spec") or {}).get("service")
    if not isinstance(service, dict) or service.get("port") is not None:
        return obj
    return {**obj, "spec": {**obj["spec"], "service": {**service, "port": 443}}}


def _network_policy(obj: Obj) -> Obj:
    spec = obj.get("spec") or {}
    types = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
    filled = spec if spec.get("policyTypes") else {**spec, "policyTypes": types}
    for side in ("ingress", "egress"):
        rules = spec.get(side) or ()
        new = [_with_protocols(r) for r in rules]
        if any(a is not b for a, b in zip(new, rules, strict=True)):
            filled = {**filled, side: new}
    return obj if filled is spec else {**obj, "spec": filled}


def _with_protocols(rule: dict[str, Any]) -> dict[str, Any]:
    ports = rule.get("ports") or ()
    filled = [_filled(p, protocol="TCP") for p in ports]
    return rule if all(a is b for a, b in zip(filled, ports, strict=True)) else {**rule, "ports": filled}


def _endpoints(obj: Obj) -> Obj:
    subsets = obj.get("subsets")
    return {**obj, "subsets": [_with_protocols(subset) for subset in subsets]} if subsets else obj


def _slice(obj: Obj) -> Obj:
    ports = obj.get("ports")
    return {**obj, "ports": [_filled(port, name="", protocol="TCP") for port in ports]} if ports else obj


def _hooks(obj: Obj) -> Obj:
    is_mutating = obj.get("kind") == "MutatingWebhookConfiguration"
    hooks = [_hook(h, is_mutating=is_mutating) for h in obj.get("webhooks") or ()]
    return {**obj, "webhooks": hooks} if hooks else obj


def _hook(hook: dict[str, Any], *, is_mutating: bool) -> dict[str, Any]:
    filled = _filled(hook, failurePolicy="Fail", matchPolicy="Equivalent", timeoutSeconds=_HOOK_SECONDS)
    filled = {"namespaceSelector": {}, "objectSelector": {}, **filled}
    if is_mutating:
        filled = _filled(filled, reinvocationPolicy="Never")
    service = (filled.get("clientConfig") or {}).get("service")
    if isinstance(service, dict) and service.get("port") is None:
        filled["clientConfig"] = {**filled["clientConfig"], "service": {**service, "port": 443}}
    filled["rules"] = [_filled(rule, scope="*") for rule in filled.get("rules") or ()]
    return filled


def _policy(obj: Obj) -> Obj:
    spec = obj.get("spec") or {}
    filled = _filled(spec, failurePolicy="Fail")
    constraints = filled.get("matchConstraints")
    if isinstance(constraints, dict):
        filled = {**filled, "matchConstraints": _constraints(constraints)}
    return {**obj, "spec": filled}


def _policy_binding(obj: Obj) -> Obj:
    spec = obj.get("spec") or {}
    matching = spec.get("matchResources")
    if not isinstance(matching, dict):
        return obj
    return {**obj, "spec": {**spec, "matchResources": _constraints(matching)}}


def _constraints(given: dict[str, Any]) -> dict[str, Any]:
    filled = {"namespaceSelector": {}, "objectSelector": {}, **_filled(given, matchPolicy="Equivalent")}
    for name in ("resourceRules", "excludeResourceRules"):
        if filled.get(name):
            filled[name] = [_filled(rule, scope="*") for rule in filled[name]]
    return filled


DEFAULTS: dict[str, Callable[[Obj], Obj]] = {
    "Secret": _secret,
    "Endpoints": _endpoints,
    "EndpointSlice.discovery.k8s.io": _slice,
    "PersistentVolume": _volume,
    "PersistentVolumeClaim": _claim,
    f"RoleBinding.{_RBAC}": _binding,
    f"ClusterRoleBinding.{_RBAC}": _binding,
    "StorageClass.storage.k8s.io": _storage_class,
    "CSIDriver.storage.k8s.io": _driver,
    "PriorityLevelConfiguration.flowcontrol.apiserver.k8s.io": _priority_level,
    "APIService.apiregistration.k8s.io": _api_service,
    "NetworkPolicy.networking.k8s.io": _network_policy,
    "MutatingWebhookConfiguration.admissionregistration.k8s.io": _hooks,
    "ValidatingWebhookConfiguration.admissionregistration.k8s.io": _hooks,
    "ValidatingAdmissionPolicy.admissionregistration.k8s.io": _policy,
    "MutatingAdmissionPolicy.admissionregistration.k8s.io": _policy,
    "ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io": _policy_binding,
    "MutatingAdmissionPolicyBinding.admissionregistration.k8s.io": _policy_binding,
}
