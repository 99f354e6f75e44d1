"""Security contexts of pods and containers, and what an operating system cannot have.

Source: pkg/apis/core/validation/validation.go ValidateSecurityContext, validatePodSpecSecurityContext,
validateWindows… (v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from fairway.kube import names
from fairway.kube.fieldpath import Path
from fairway.kube.internals import Typed
from fairway.kube.problem import Faults
from fairway.kube.validation.kinds import texts

Part = Mapping[str, Any]
_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
_SYSCTL = re.compile(r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?")
_SYSCTL_TEXT = (
    r"must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*"
    r"[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
)
_MAX_PROFILE_BYTES = 4095
_NET_SYSCTLS = ("net.",)
_IPC_SYSCTLS = ("kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue.")
_WINDOWS_POD = "cannot be set for a windows pod"
# Members of a pod that no Windows pod has, in upstream's order; those without `@` stand in the security context.
_NOT_WINDOWS_POD = (
    *("appArmorProfile", "seLinuxOptions", "@hostUsers", "@hostPID", "@hostIPC", "seccompProfile", "fsGroup"),
    *(
        "fsGroupChangePolicy",
        "sysctls",
        "@shareProcessNamespace",
        "runAsUser",
        "runAsGroup",
        "supplementalGroups",
    ),
    *("supplementalGroupsPolicy", "seLinuxChangePolicy"),
)
_NOT_WINDOWS = (
    *(
        "appArmorProfile",
        "seLinuxOptions",
        "seccompProfile",
        "capabilities",
        "readOnlyRootFilesystem",
        "privileged",
    ),
    *("allowPrivilegeEscalation", "procMount", "runAsUser", "runAsGroup"),
)
_NETBIOS = re.compile(r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}')
_DOMAIN_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_DOMAIN = re.compile(rf"{_DOMAIN_LABEL}(?:\.{_DOMAIN_LABEL})*")


def visit_containers(spec: Part, at: Path) -> Iterator[tuple[Part, Path]]:
    """Every container of a pod with its path, in upstream's order. Source: VisitContainersWithPath."""
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(kind) or ()):
            yield container, (*at, kind, index)


def of_container(context: Part | None, at: Path, out: Faults, *, host_users: bool) -> None:
    if context is None:
        return
    texts.user_or_group_id(context.get("runAsUser"), (*at, "runAsUser"), out)
    texts.user_or_group_id(context.get("runAsGroup"), (*at, "runAsGroup"), out)
    mount = context.get("procMount")
    if mount is not None:
        if mount not in ("Default", "Unmasked"):
            out.unsupported((*at, "procMount"), mount, ("Default", "Unmasked"))
        if host_users and mount == "Unmasked":
            out.invalid((*at, "procMount"), mount, "`hostUsers` must be false to use `Unmasked`")
    _seccomp(context.get("seccompProfile"), (*at, "seccompProfile"), out)
    if context.get("allowPrivilegeEscalation") is False:
        shown = Typed("core.SecurityContext", context)
        if context.get("privileged"):
            out.invalid(at, shown, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true")
        if "CAP_SYS_ADMIN" in ((context.get("capabilities") or {}).get("add") or ()):
            said = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            out.invalid(at, shown, said)
    _windows_options(context.get("windowsOptions"), (*at, "windowsOptions"), out)
    _app_armor(context.get("appArmorProfile"), (*at, "appArmorProfile"), out)


def of_pod(spec: Part, at: Path, out: Faults) -> None:
    context, at = spec.get("securityContext") or {}, (*at, "securityContext")
    for name in ("fsGroup", "runAsUser", "runAsGroup"):
        texts.user_or_group_id(context.get(name), (*at, name), out)
    for index, group in enumerate(context.get("supplementalGroups") or ()):
        texts.user_or_group_id(group, (*at, "supplementalGroups", index), out)
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        said = "ShareProcessNamespace and HostPID cannot both be enabled"
        out.invalid((*at, "shareProcessNamespace"), True, said)
    _sysctls(spec, context, (*at, "sysctls"), out)
    _choice(context, "fsGroupChangePolicy", ("Always", "OnRootMismatch"), at, out)
    _seccomp(context.get("seccompProfile"), (*at, "seccompProfile"), out)
    _windows_options(context.get("windowsOptions"), (*at, "windowsOptions"), out)
    _app_armor(context.get("appArmorProfile"), (*at, "appArmorProfile"), out)
    _choice(context, "supplementalGroupsPolicy", ("Merge", "Strict"), at, out)
    _choice(context, "seLinuxChangePolicy", ("MountOption", "Recursive"), at, out)


def _choice(context: Part, name: str, choices: tuple[str, ...], at: Path, out: Faults) -> None:
    value = context.get(name)
    if value is not None and value not in choices:
        out.unsupported((*at, name), value, choices)


def _sysctls(spec: Part, context: Part, at: Path, out: Faults) -> None:
    seen = set()
    for index, sysctl in enumerate(context.get("sysctls") or ()):
        name, where = sysctl.get("name") or "", (*at, index, "name")
        if not name:
            out.required(where)
        elif len(name) > 253 or not _SYSCTL.fullmatch(name):
            out.invalid(where, name, _SYSCTL_TEXT)
        elif name in seen:
            out.duplicate(where, name)
        dotted = name.replace("/", ".")
        if spec.get("hostNetwork") and dotted.startswith(_NET_SYSCTLS):
            out.invalid(where, name, "may not be specified when 'hostNetwork' is true")
        elif spec.get("hostIPC") and dotted.startswith(_IPC_SYSCTLS):
            out.invalid(where, name, "may not be specified when 'hostIPC' is true")
        seen.add(name)


def _seccomp(profile: Part | None, at: Path, out: Faults) -> None:
    if profile is None:
        return
    kind, local = profile.get("type") or "", profile.get("localhostProfile")
    if not kind:
        out.required((*at, "type"), "type is required when seccompProfile is set")
    elif kind not in _PROFILES:
        out.unsupported((*at, "type"), kind, _PROFILES)
    if kind != "Localhost":
        if local is not None:
            shown = Typed("core.SeccompProfile", profile)
            out.invalid((*at, "localhostProfile"), shown, "can only be set when seccomp type is Localhost")
    elif local is None:
        out.required((*at, "localhostProfile"), "must be set when seccomp type is Localhost")
    else:
        texts.descending_path(local, (*at, "localhostProfile"), out)


def _app_armor(profile: Part | None, at: Path, out: Faults) -> None:
    if profile is None:
        return
    kind, local, where = profile.get("type") or "", profile.get("localhostProfile"), (*at, "localhostProfile")
    if not kind:
        out.required((*at, "type"), "type is required when appArmorProfile is set")
    elif kind not in _PROFILES:
        out.unsupported((*at, "type"), kind, _PROFILES)
    elif kind != "Localhost":
        if local is not None:
            out.invalid(where, local, "can only be set when AppArmor type is Localhost")
    elif local is None:
        out.required(where, "must be set when AppArmor type is Localhost")
    else:
        if local.strip() != local:
            out.invalid(where, local, "must not be padded with whitespace")
        elif not local:
            out.required(where, "must be set when AppArmor type is Localhost")
        if len(local) > _MAX_PROFILE_BYTES:
            out.too_long(where, _MAX_PROFILE_BYTES)


def _windows_options(options: Part | None, at: Path, out: Faults) -> None:
    if options is None:
        return
    name, spec, user = (
        options.get(m) for m in ("gmsaCredentialSpecName", "gmsaCredentialSpec", "runAsUserName")
    )
    if name is not None:
        out.invalids((*at, "gmsaCredentialSpecName"), name, names.dns_subdomain(name))
    if spec is not None:
        if not spec:
            out.invalid((*at, "gmsaCredentialSpec"), spec, "gmsaCredentialSpec cannot be an empty string")
        elif len(spec) > 64 * 1024:
            out.invalid((*at, "gmsaCredentialSpec"), spec, "gmsaCredentialSpec size must be under 64 KiB")
    if user is not None:
        where = (*at, "runAsUserName")
        out.invalids(where, user, [f"runAsUserName{said}" for said in _user_complaints(user)])


def _user_complaints(text: str) -> Iterator[str]:
    if not text:
        yield " cannot be an empty string"
    elif any(ord(char) < 32 or ord(char) == 127 for char in text):
        yield " cannot contain control characters"
    elif text.count("\\") > 1:
        yield " cannot contain more than one backslash"
    else:
        domain, slash, user = text.rpartition("\\")
        if len(domain) >= 256:
            yield "'s Domain length must be under 256 characters"
        if slash and not _NETBIOS.fullmatch(domain) and not _DOMAIN.fullmatch(domain):
            yield "'s Domain doesn't match the NetBios nor the DNS format"
        if not user:
            yield "'s User cannot be empty"
        elif len(user) > 104:
            yield "'s User length must not be longer than 104 characters"
        if user and not user.strip(". "):
            yield "'s User cannot contain only periods or spaces"
        if re.search(r'["/\\:;|=,+*?<>@\[\]]', user):
            yield r"""'s User cannot contain the following characters: "/\:;|=,+*?<>@[]"""


def host_process(spec: Part, at: Path, out: Faults) -> None:
    """Windows' HostProcess containers: all of a pod's or none."""
    of_pod_too = ((spec.get("securityContext") or {}).get("windowsOptions") or {}).get("hostProcess")
    total = count = 0
    for container, where in visit_containers(spec, at):
        total += 1
        own = ((container.get("securityContext") or {}).get("windowsOptions") or {}).get("hostProcess")
        if of_pod_too is not None and own is not None and of_pod_too != own:
            said = f"pod hostProcess value must be identical if both are specified, was {str(of_pod_too).lower()}"
            out.invalid((*where, "securityContext", "windowsOptions", "hostProcess"), own, said)
        count += bool(of_pod_too if own is None else own)
    if not count:
        return
    if count != total:
        said = "If pod contains any hostProcess containers then all containers must be HostProcess containers"
        out.invalid(at, "", said)
    if not spec.get("hostNetwork"):
        said = "hostNetwork must be true if pod contains any hostProcess containers"
        out.invalid((*at, "hostNetwork"), False, said)


def operating_system(spec: Part, at: Path, out: Faults) -> None:
    os = spec.get("os")
    if os is None:
        return
    name = os.get("name") or ""
    if not name:
        out.required((*at, "os", "name"))
    elif name == "linux":
        _linux(spec, at, out)
    elif name == "windows":
        _windows(spec, at, out)
    else:
        out.unsupported((*at, "os"), name, ("linux", "windows"))


def _linux(spec: Part, at: Path, out: Faults) -> None:
    places = [(spec, at), *visit_containers(spec, at)]
    for part, where in places:
        if (part.get("securityContext") or {}).get("windowsOptions") is not None:
            said = "windows options cannot be set for a linux pod"
            out.forbidden((*where, "securityContext", "windowsOptions"), said)


def _windows(spec: Part, at: Path, out: Faults) -> None:
    context = spec.get("securityContext") or {}
    for member in _NOT_WINDOWS_POD:
        name = member.removeprefix("@")
        value = (spec if name != member else context).get(name)
        if value not in (None, []) and not (name in ("hostPID", "hostIPC") and not value):
            out.forbidden((*at, name) if name != member else (*at, "securityContext", name), _WINDOWS_POD)
    for container, where in visit_containers(spec, at):
        own = container.get("securityContext") or {}
        for name in _NOT_WINDOWS:
            if own.get(name) is not None:
                out.forbidden((*where, "securityContext", name), _WINDOWS_POD)


def annotations_match(meta: Part, spec: Part, at: Path, out: Faults) -> None:
    """What old annotations and new fields say of seccomp and AppArmor must be the same."""
    notes = meta.get("annotations") or {}
    if not notes:
        return
    context = spec.get("securityContext") or {}
    seccomp = notes.get("seccomp.security.alpha.kubernetes.io/pod")
    where = (*at, "securityContext", "seccompProfile")
    if seccomp is not None:
        _matching_seccomp(seccomp, context.get("seccompProfile"), where, out)
    containers = list(visit_containers(spec, at))
    for container, place in containers:
        own = (container.get("securityContext") or {}).get("seccompProfile")
        note = notes.get(f"container.seccomp.security.alpha.kubernetes.io/{container.get('name')}")
        if note is not None:
            _matching_seccomp(note, own, (*place, "securityContext", "seccompProfile"), out)
    if (spec.get("os") or {}).get("name") == "windows":
        return
    for container, place in containers:
        profile = (container.get("securityContext") or {}).get("appArmorProfile") or context.get(
            "appArmorProfile"
        )
        note = notes.get(f"container.apparmor.security.beta.kubernetes.io/{container.get('name')}")
        if profile is not None and note is not None:
            _matching_app_armor(note, profile, (*place, "securityContext", "appArmorProfile"), out)


def _matching_seccomp(note: str, profile: Part | None, at: Path, out: Faults) -> None:
    if profile is None:
        return
    kind = profile.get("type")
    expected = {"Unconfined": ("unconfined",), "RuntimeDefault": ("runtime/default", "docker/default")}
    if kind in expected and note not in expected[kind]:
        out.forbidden((*at, "type"), "seccomp type in annotation and field must match")
    elif kind == "Localhost":
        _matching_local(note, "localhost/", profile, "seccomp", at, out)


def _matching_app_armor(note: str, profile: Part, at: Path, out: Faults) -> None:
    kind = profile.get("type")
    expected = {"Unconfined": "unconfined", "RuntimeDefault": "runtime/default"}
    if kind in expected and note != expected[kind]:
        out.forbidden((*at, "type"), "apparmor type in annotation and field must match")
    elif kind == "Localhost":
        _matching_local(note, "localhost/", profile, "apparmor", at, out)


def _matching_local(note: str, prefix: str, profile: Part, what: str, at: Path, out: Faults) -> None:
    if not note.startswith(prefix):
        out.forbidden((*at, "type"), f"{what} type in annotation and field must match")
    elif note.removeprefix(prefix) != profile.get("localhostProfile"):
        out.forbidden((*at, "localhostProfile"), f"{what} profile in annotation and field must match")
