"""Which checks a level and version consist of, and what a pod violates.

Baseline's checks come first, then restricted's, each by identifier; restricted replaces some of baseline's.

Source: pod-security-admission policy/registry.go, policy/checks.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from fairway.admission.podsecurity import checks, restrictedchecks
from fairway.admission.podsecurity.checks import Meta
from fairway.admission.podsecurity.containers import Spec, Violation
from fairway.admission.podsecurity.levels import BASELINE, LATEST, PRIVILEGED, LevelVersion

LATEST_MINOR = 36
"""The Kubernetes version whose rules `latest` means."""

_Check = Callable[[Meta, Spec, int], Violation | None]

_BASELINE: dict[str, _Check] = {
    "appArmorProfile": checks.app_armor_profile,
    "capabilities_baseline": checks.capabilities,
    "hostNamespaces": checks.host_namespaces,
    "hostPathVolumes": checks.host_path_volumes,
    "hostPorts": checks.host_ports,
    "hostProbesAndHostLifecycle": checks.host_probes,
    "privileged": checks.privileged,
    "procMount": checks.proc_mount,
    "seLinuxOptions": checks.se_linux_options,
    "seccompProfile_baseline": checks.seccomp_profile,
    "sysctls": checks.sysctls,
    "windowsHostProcess": checks.windows_host_process,
}

# identifier → (check, since minor, baseline check it replaces).
_RESTRICTED: dict[str, tuple[_Check, int, str]] = {
    "allowPrivilegeEscalation": (restrictedchecks.allow_privilege_escalation, 8, ""),
    "capabilities_restricted": (restrictedchecks.capabilities, 22, "capabilities_baseline"),
    "procMount_restricted": (checks.proc_mount_restricted, 35, "procMount"),
    "restrictedVolumes": (restrictedchecks.restricted_volumes, 0, "hostPathVolumes"),
    "runAsNonRoot": (restrictedchecks.run_as_non_root, 0, ""),
    "runAsUser": (restrictedchecks.run_as_user, 23, ""),
    "seccompProfile_restricted": (restrictedchecks.seccomp, 19, "seccompProfile_baseline"),
}


def violations(asked: LevelVersion, meta: Meta, spec: Spec) -> tuple[Violation, ...]:
    """What a pod does that its level forbids."""
    if asked.level == PRIVILEGED:
        return ()
    minor = LATEST_MINOR if asked.minor == LATEST else min(asked.minor, LATEST_MINOR)
    found = (check(meta, spec, minor) for check in _checks(asked.level, minor))
    return tuple(v for v in found if v is not None)


@cache
def _checks(level: str, minor: int) -> tuple[_Check, ...]:
    baseline = sorted(_BASELINE.items())
    if level == BASELINE:
        return tuple(check for _, check in baseline)
    added = [(i, check, over) for i, (check, since, over) in sorted(_RESTRICTED.items()) if minor >= since]
    replaced = {over for _, _, over in added}
    return (*(c for i, c in baseline if i not in replaced), *(c for _, c, _ in added))


def detail(found: tuple[Violation, ...]) -> str:
    """`host namespaces (hostPID=true), privileged (container "c" must not set …)`."""
    return ", ".join(str(v) for v in found)


def reason(found: tuple[Violation, ...]) -> str:
    return ", ".join(v.reason for v in found)
