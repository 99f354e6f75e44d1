"""The checks the restricted level adds to, or puts in the place of, baseline's.

Source: pod-security-admission policy/check_*.go (v1.36).
"""

from __future__ import annotations

from fairway.admission.podsecurity.checks import GOOD_PROFILES, Meta, seccomp_profile
from fairway.admission.podsecurity.containers import (
    Spec,
    Violation,
    containers_of,
    has_own_user_namespace,
    is_windows,
    named,
    plural,
    quote,
    security,
    setters,
)

_VOLUMES = (
    *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim"),
    *("projected", "secret"),
)
_FORBIDDEN_VOLUMES = (
    *("hostPath", "gcePersistentDisk", "awsElasticBlockStore", "gitRepo", "nfs", "iscsi", "glusterfs", "rbd"),
    *(
        "flexVolume",
        "cinder",
        "cephfs",
        "flocker",
        "fc",
        "azureFile",
        "vsphereVolume",
        "quobyte",
        "azureDisk",
    ),
    *("photonPersistentDisk", "portworxVolume", "scaleIO", "storageos"),
)


def allow_privilege_escalation(meta: Meta, spec: Spec, minor: int) -> Violation | None:
    if minor >= 25 and is_windows(spec):
        return None
    bad = [c["name"] for c in containers_of(spec) if security(c).get("allowPrivilegeEscalation") is not False]
    if not bad:
        return None
    return Violation(
        "allowPrivilegeEscalation != false",
        f"{named(bad)} must set securityContext.allowPrivilegeEscalation=false",
    )


def capabilities(meta: Meta, spec: Spec, minor: int) -> Violation | None:
    """Since 1.22: drop ALL, add nothing but NET_BIND_SERVICE."""
    if minor >= 25 and is_windows(spec):
        return None
    undropped, adding = [], []
    added: set[str] = set()
    for c in containers_of(spec):
        lists = security(c).get("capabilities") or {}
        if "ALL" not in (lists.get("drop") or ()):
            undropped.append(c["name"])
        wrong = [x for x in lists.get("add") or () if x != "NET_BIND_SERVICE"]
        if wrong:
            adding.append(c["name"])
            added.update(wrong)
    details = []
    if undropped:
        details.append(f'{named(undropped)} must set securityContext.capabilities.drop=["ALL"]')
    if adding:
        details.append(
            f"{named(adding)} must not include {quote(sorted(added))} in securityContext.capabilities.add"
        )
    return Violation("unrestricted capabilities", "; ".join(details)) if details else None


def restricted_volumes(meta: Meta, spec: Spec, minor: int) -> Violation | None:
    bad, kinds = [], set()
    for volume in spec.get("volumes") or ():
        if any(volume.get(kind) is not None for kind in _VOLUMES):
            continue
        bad.append(volume.get("name", ""))
        kinds.add(next((k for k in _FORBIDDEN_VOLUMES if volume.get(k) is not None), "unknown"))
    if not bad:
        return None
    uses = "uses" if len(bad) == 1 else "use"
    what = plural("restricted volume type", len(kinds))
    return Violation(
        "restricted volume types",
        f"{plural('volume', len(bad))} {quote(bad)} {uses} {what} {quote(sorted(kinds))}",
    )


def run_as_non_root(meta: Meta, spec: Spec, minor: int) -> Violation | None:
    if minor >= 35 and has_own_user_namespace(spec):
        return None
    of_pod = security(spec).get("runAsNonRoot")
    stated = [(c["name"], security(c).get("runAsNonRoot")) for c in containers_of(spec)]
    explicit = [name for name, value in stated if value is False]
    if of_pod is False or explicit:
        who = setters(of_pod is False, explicit)
        return Violation("runAsNonRoot != true", f"{who} must not set securityContext.runAsNonRoot=false")
    silent = [name for name, value in stated if value is None] if not of_pod else []
    if not silent:
        return None
    return Violation(
        "runAsNonRoot != true", f"pod or {named(silent)} must set securityContext.runAsNonRoot=true"
    )


def run_as_user(meta: Meta, spec: Spec, minor: int) -> Violation | None:
    if minor >= 35 and has_own_user_namespace(spec):
        return None
    bad = [c["name"] for c in containers_of(spec) if security(c).get("runAsUser") == 0]
    pod_is_bad = security(spec).get("runAsUser") == 0
    if not bad and not pod_is_bad:
        return None
    return Violation("runAsUser=0", f"{setters(pod_is_bad, bad)} must not set runAsUser=0")


def seccomp(meta: Meta, spec: Spec, minor: int) -> Violation | None:
    """Since 1.19: a good profile must be set, on the pod or on every container."""
    if minor >= 25 and is_windows(spec):
        return None
    explicit = seccomp_profile(meta, spec, minor)
    if explicit is not None:
        return explicit
    if (security(spec).get("seccompProfile") or {}).get("type") in GOOD_PROFILES:
        return None
    silent = [c["name"] for c in containers_of(spec) if security(c).get("seccompProfile") is None]
    if not silent:
        return None
    return Violation(
        "seccompProfile",
        f'pod or {named(silent)} must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"',
    )
