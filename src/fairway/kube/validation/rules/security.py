"""Security contexts: profiles and settings that exclude each other.

Source: pkg/apis/core/validation/validation.go ValidateSecurityContext, validateSysctls (v1.36).
"""

from __future__ import annotations

import re
from typing import Any

from fairway.kube.fieldpath import Path
from fairway.kube.validation.context import Context
from fairway.kube.validation.formats import FORMATS
from fairway.kube.validation.problem import duplicate, invalid, invalids, required
from fairway.kube.validation.rules.paths import check_descending

_SYSCTL_TEXT = r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
_SYSCTL = re.compile(_SYSCTL_TEXT)


def check_context(security: dict[str, Any], path: Path, context: Context) -> None:
    out = context.out
    if security.get("procMount") == "Unmasked" and context.pod.host_users:
        detail = "`hostUsers` must be false to use `Unmasked`"
        out.append(invalid((*path, "procMount"), "Unmasked", detail))
    if security.get("allowPrivilegeEscalation") is False:
        denied = "cannot set `allowPrivilegeEscalation` to false and"
        if security.get("privileged"):
            out.append(invalid(path, security, f"{denied} `privileged` to true"))
        if "CAP_SYS_ADMIN" in ((security.get("capabilities") or {}).get("add") or ()):
            out.append(invalid(path, security, f"{denied} `capabilities.Add` CAP_SYS_ADMIN"))


def check_pod_context(security: dict[str, Any], path: Path, context: Context) -> None:
    for index, group in enumerate(security.get("supplementalGroups") or ()):
        context.out.extend(invalids((*path, "supplementalGroups", index), group, FORMATS["id"](group)))
    seen: set[str] = set()
    for index, sysctl in enumerate(security.get("sysctls") or ()):
        at = (*path, "sysctls", index, "name")
        name = sysctl.get("name") or ""
        if not name:
            context.out.append(required(at))
        elif len(name) > 253 or not _SYSCTL.fullmatch(name):
            detail = f"must have at most 253 characters and match regex {_SYSCTL_TEXT}"
            context.out.append(invalid(at, name, detail))
        elif name in seen:
            context.out.append(duplicate(at, name))
        seen.add(name)


def check_seccomp(profile: dict[str, Any], path: Path, context: Context) -> None:
    type_, local = profile.get("type"), profile.get("localhostProfile")
    if not type_:
        context.out.append(required((*path, "type"), "type is required when seccompProfile is set"))
    if type_ == "Localhost":
        if local is None:
            detail = "must be set when seccomp type is Localhost"
            context.out.append(required((*path, "localhostProfile"), detail))
        else:
            check_descending(local, (*path, "localhostProfile"), context.out)
    elif local is not None:
        detail = "can only be set when seccomp type is Localhost"
        context.out.append(invalid((*path, "localhostProfile"), local, detail))


def check_app_armor(profile: dict[str, Any], path: Path, context: Context) -> None:
    type_, local = profile.get("type"), profile.get("localhostProfile")
    at = (*path, "localhostProfile")
    if not type_:
        context.out.append(required((*path, "type"), "type is required when appArmorProfile is set"))
    elif type_ == "Localhost":
        if not (local or "").strip():
            context.out.append(required(at, "must be set when AppArmor type is Localhost"))
        elif local != local.strip():  # type: ignore[union-attr]
            context.out.append(invalid(at, local, "must not be padded with whitespace"))
    elif local is not None:
        context.out.append(invalid(at, local, "can only be set when AppArmor type is Localhost"))


RULES = {
    "SecurityContext": check_context,
    "PodSecurityContext": check_pod_context,
    "SeccompProfile": check_seccomp,
    "AppArmorProfile": check_app_armor,
}
