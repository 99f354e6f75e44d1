"""The PodSecurity plugin: pods are refused, workloads are warned about, namespaces are told what would break.

Source: pod-security-admission admission/admission.go (v1.36).
"""

from __future__ import annotations

from typing import NamedTuple

from fairway.admission.answers import aggregated
from fairway.admission.podsecurity.evaluation import detail, reason, violations
from fairway.admission.podsecurity.levels import LEVELS, PRIVILEGED, LevelVersion, Policy, policy_of
from fairway.admission.request import CREATE, UPDATE, AdmissionRequest
from fairway.cluster.actions import View
from fairway.kube.objects import Key, Obj, controller_of, dig, labels_of, name_of

PLUGIN = "PodSecurity"
MAX_PODS_CHECKED = 3000
"""Pods looked at when a namespace's enforce level rises. Source: defaultNamespaceMaxPodsToCheck."""

_ANNOTATION = "pod-security.kubernetes.io/"
_IGNORED_SUBRESOURCES = frozenset(
    ("exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status")
)
_TEMPLATES: dict[tuple[str, str], tuple[str, ...]] = {
    ("", "replicationcontrollers"): ("spec", "template"),
    ("", "podtemplates"): ("template",),
    ("apps", "replicasets"): ("spec", "template"),
    ("apps", "deployments"): ("spec", "template"),
    ("apps", "statefulsets"): ("spec", "template"),
    ("apps", "daemonsets"): ("spec", "template"),
    ("batch", "jobs"): ("spec", "template"),
    ("batch", "cronjobs"): ("spec", "jobTemplate", "spec", "template"),
}


class Verdict(NamedTuple):
    """`forbidden` is the text after `is forbidden: `; `invalid` are field errors of a namespace's labels."""

    forbidden: str = ""
    invalid: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    audit: tuple[tuple[str, str], ...] = ()


FINE = Verdict()


def verdict(view: View, request: AdmissionRequest) -> Verdict:
    """What Pod Security says to a create or update."""
    if request.operation not in (CREATE, UPDATE) or request.obj is None:
        return FINE
    group, resource = request.resource.group, request.resource.resource
    if (group, resource) == ("", "namespaces"):
        return FINE if request.subresource else _namespace(view, request, request.obj)
    if (group, resource) == ("", "pods"):
        return _pod(view, request, request.obj)
    path = _TEMPLATES.get((group, resource))
    if path is None or request.subresource:
        return FINE
    policy = _policy_in(view, request.namespace)
    if not policy.problems and policy.warn.level == policy.audit.level == PRIVILEGED:
        return FINE
    template = dig(request.obj, *path)
    return FINE if template is None else _evaluated(policy, template, enforce=False)


def _policy_in(view: View, namespace: str) -> Policy:
    found = view.get(Key("Namespace", "", namespace))
    return Policy() if found is None else policy_of(labels_of(found))


def _pod(view: View, request: AdmissionRequest, pod: Obj) -> Verdict:
    if request.subresource in _IGNORED_SUBRESOURCES:
        return FINE
    policy = _policy_in(view, request.namespace)
    if not policy.problems and policy.is_privileged:
        return Verdict(audit=((f"{_ANNOTATION}enforce-policy", str(LevelVersion())),))
    if request.operation == UPDATE and request.old is not None and not _changes_images(pod, request.old):
        return FINE
    return _evaluated(policy, pod, enforce=True)


def _changes_images(pod: Obj, old: Obj) -> bool:
    """Of a running pod, only new containers and images can matter."""
    for field in ("containers", "initContainers"):
        images = [[c.get("image") for c in dig(p, "spec", field) or ()] for p in (pod, old)]
        if images[0] != images[1]:
            return True
    before = {c.get("name"): c.get("image") for c in dig(old, "spec", "ephemeralContainers") or ()}
    ephemeral = dig(pod, "spec", "ephemeralContainers") or ()
    return any(c.get("name") not in before or before[c["name"]] != c.get("image") for c in ephemeral)


def _evaluated(policy: Policy, pod: Obj, *, enforce: bool) -> Verdict:
    meta, spec = pod.get("metadata") or {}, pod.get("spec") or {}
    audit: dict[str, str] = {}
    if policy.problems:
        audit["error"] = f"Failed to parse policy: {aggregated(policy.problems)}"
    forbidden = ""
    if enforce:
        audit[f"{_ANNOTATION}enforce-policy"] = str(policy.enforce)
        found = violations(policy.enforce, meta, spec)
        if found:
            forbidden = f'violates PodSecurity "{policy.enforce}": {detail(found)}'
    found = violations(policy.audit, meta, spec)
    if found:
        audit[f"{_ANNOTATION}audit-violations"] = (
            f'would violate PodSecurity "{policy.audit}": {detail(found)}'
        )
    warnings = []
    if not forbidden:
        found = violations(policy.warn, meta, spec)
        warnings = [f'would violate PodSecurity "{policy.warn}": {detail(found)}'] if found else []
    return Verdict(forbidden, (), tuple(warnings), tuple(audit.items()))


def _namespace(view: View, request: AdmissionRequest, namespace: Obj) -> Verdict:
    new = policy_of(labels_of(namespace))
    if request.operation == CREATE or request.old is None:
        return Verdict(invalid=new.problems)
    old = policy_of(labels_of(request.old))
    if new.problems and new.problems != old.problems:
        return Verdict(invalid=new.problems)
    rises = LEVELS.index(new.enforce.level) > LEVELS.index(old.enforce.level)
    if new.enforce.level == PRIVILEGED or not (rises or new.enforce.minor != old.enforce.minor):
        return FINE
    return Verdict(warnings=tuple(_violated_by_pods(view, name_of(namespace), new.enforce)))


def _violated_by_pods(view: View, namespace: str, enforce: LevelVersion) -> list[str]:
    """Warnings about pods that are there already: one per set of reasons, with a pod to look at."""
    pods = _one_per_controller_first(view.objects("Pod", namespace))
    names_by_reason: dict[str, list[str]] = {}
    for pod in pods[:MAX_PODS_CHECKED]:
        found = violations(enforce, pod.get("metadata") or {}, pod.get("spec") or {})
        if found:
            names_by_reason.setdefault(reason(found), []).append(name_of(pod))
    warnings = []
    if len(pods) > MAX_PODS_CHECKED:
        warnings.append(
            f"new PodSecurity enforce level only checked against the first {MAX_PODS_CHECKED} of {len(pods)} "
            "existing pods"
        )
    if names_by_reason:
        warnings.append(
            f'existing pods in namespace "{namespace}" violate the new PodSecurity enforce level "{enforce}"'
        )
    return warnings + sorted(_counted(names, why) for why, names in names_by_reason.items())


def _one_per_controller_first(pods: list[Obj]) -> list[Obj]:
    """So that a big Deployment does not use up the pods that are looked at."""
    first: list[Obj] = []
    others: list[Obj] = []
    seen: set[str] = set()
    for pod in pods:
        owner = (controller_of(pod) or {}).get("uid")
        (others if owner in seen else first).append(pod)
        if owner:
            seen.add(owner)
    return first + others


def _counted(names: list[str], why: str) -> str:
    first, others = min(names), len(names) - 1
    if others == 0:
        return f"{first}: {why}"
    return f"{first} (and {others} other {'pod' if others == 1 else 'pods'}): {why}"
