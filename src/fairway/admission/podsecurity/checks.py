"""The checks of the baseline level.

A check is `(metadata, spec, minor) → Violation | None`; `minor` is the version of the standard, resolved.

Source: pod-security-admission policy/check_*.go (v1.36).
"""

from __future__ import annotations

from typing import Any

from fairway.admission.podsecurity.containers import (
    Spec,
    Violation,
    containers_of,
    has_own_user_namespace,
    named,
    plural,
    quote,
    security,
    setters,
)

Meta = dict[str, Any]

_CAPABILITIES = frozenset(
    (
        *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE"),
        *("SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
    )
)
_APPARMOR_PREFIX = "container.apparmor.security.beta.kubernetes.io/"
_SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
GOOD_PROFILES = ("RuntimeDefault", "Localhost")

# The minor version since which each sysctl is allowed.
_SYSCTLS = {
    "kernel.shm_rmid_forced": 0,
    "net.ipv4.ip_local_port_range": 0,
    "net.ipv4.tcp_syncookies": 0,
    "net.ipv4.ping_group_range": 0,
    "net.ipv4.ip_unprivileged_port_start": 0,
    "net.ipv4.ip_local_reserved_ports": 27,
    "net.ipv4.tcp_keepalive_time": 29,
    "net.ipv4.tcp_fin_timeout": 29,
    "net.ipv4.tcp_keepalive_intvl": 29,
    "net.ipv4.tcp_keepalive_probes": 29,
    "net.ipv4.tcp_rmem": 32,
    "net.ipv4.tcp_wmem": 32,
    "net.ipv4.tcp_slow_start_after_idle": 37,
    "net.ipv4.tcp_notsent_lowat": 37,
}


def app_armor_profile(meta: Meta, spec: Spec, minor: int) -> Violation | None:
    values: set[str] = set()
    pod_is_bad = _has_bad_profile(spec, "appArmorProfile", values)
    bad = [c["name"] for c in containers_of(spec) if _has_bad_profile(c, "appArmorProfile", values)]
    annotations = sorted(
        f'{key}="{value}"'
        for key, value in (meta.get("annotations") or {}).items()
        if key.startswith(_APPARMOR_PREFIX)
        and value not in ("", "runtime/default")
        and not value.startswith("localhost/")
    )
    who = [*([setters(pod_is_bad, bad)] if pod_is_bad or bad else [])]
    if annotations:
        who.append(plural("annotation", len(annotations)))
    if not who:
        return None
    found = [*sorted(values), *annotations]
    return Violation(
        plural("forbidden AppArmor profile", len(found)),
        f"{' and '.join(who)} must not set AppArmor profile type to {quote(found)}",
    )


def _has_bad_profile(holder: Spec, field: str, values: set[str]) -> bool:
    profile = security(holder).get(field)
    if profile is None or profile.get("type") in GOOD_PROFILES:
        return False
    values.add(profile.get("type") or "")
    return True


def capabilities(meta: Meta, spec: Spec, minor: int) -> Violation | None:
    added: set[str] = set()
    bad = []
    for c in containers_of(spec):
        wrong = [
            x for x in (security(c).get("capabilities") or {}).get("add") or () if x not in _CAPABILITIES
        ]
        if wrong:
            added.update(wrong)
            bad.append(c["name"])
    if not bad:
        return None
    detail = f"{named(bad)} must not include {quote(sorted(added))} in securityContext.capabilities.add"
    return Violation("non-default capabilities", detail)


def host_namespaces(meta: Meta, spec: Spec, minor: int) -> Violation | None:
    shared = [f"{field}=true" for field in ("hostNetwork", "hostPID", "hostIPC") if spec.get(field)]
    return Violation("host namespaces", ", ".join(shared)) if shared else None


def host_path_volumes(meta: Meta, spec: Spec, minor: int) -> Violation | None:
    bad = [v.get("name", "") for v in spec.get("volumes") or () if v.get("hostPath") is not None]
    return Violation("hostPath volumes", f"{plural('volume', len(bad))} {quote(bad)}") if bad else None


def host_ports(meta: Meta, spec: Spec, minor: int) -> Violation | None:
    ports: set[str] = set()
    bad = []
    for c in containers_of(spec):
        wrong = [str(p["hostPort"]) for p in c.get("ports") or () if p.get("hostPort")]
        if wrong:
            ports.update(wrong)
            bad.append(c["name"])
    if not bad:
        return None
    uses = "uses" if len(bad) == 1 else "use"
    return Violation(
        "hostPort", f"{named(bad)} {uses} {plural('hostPort', len(ports))} {', '.join(sorted(ports))}"
    )


def host_probes(meta: Meta, spec: Spec, minor: int) -> Violation | None:
    """Since 1.34: probes and lifecycle hooks stay with their own pod."""
    hosts: set[str] = set()
    bad: set[str] = set()
    for c in containers_of(spec) if minor >= 34 else ():
        hooks = c.get("lifecycle") or {}
        handlers = [c.get(f"{kind}Probe") for kind in ("liveness", "readiness", "startup")]
        for handler in (*handlers, hooks.get("postStart"), hooks.get("preStop")):
            for action in ("httpGet", "tcpSocket"):
                host = ((handler or {}).get(action) or {}).get("host")
                if host:
                    hosts.add(host)
                    bad.add(c["name"])
    if not bad:
        return None
    what = plural("probe or lifecycle host", len(hosts))
    uses = "uses" if len(bad) == 1 else "use"
    return Violation("probe or lifecycle host", f"{named(sorted(bad))} {uses} {what} {quote(sorted(hosts))}")


def privileged(meta: Meta, spec: Spec, minor: int) -> Violation | None:
    bad = [c["name"] for c in containers_of(spec) if security(c).get("privileged")]
    return (
        Violation("privileged", f"{named(bad)} must not set securityContext.privileged=true") if bad else None
    )


def proc_mount(meta: Meta, spec: Spec, minor: int) -> Violation | None:
    if minor >= 35 and has_own_user_namespace(spec):
        return None
    return proc_mount_restricted(meta, spec, minor)


def proc_mount_restricted(meta: Meta, spec: Spec, minor: int) -> Violation | None:
    mounts = [(c["name"], security(c).get("procMount")) for c in containers_of(spec)]
    wrong = [(name, mount) for name, mount in mounts if mount not in (None, "Default")]
    if not wrong:
        return None
    kinds = sorted({mount for _, mount in wrong})
    bad = [name for name, _ in wrong]
    return Violation("procMount", f"{named(bad)} must not set securityContext.procMount to {quote(kinds)}")


def se_linux_options(meta: Meta, spec: Spec, minor: int) -> Violation | None:
    allowed = {"", "container_t", "container_init_t", "container_kvm_t"}
    if minor >= 31:
        allowed.add("container_engine_t")
    holders = [spec, *containers_of(spec)]
    options = [security(h).get("seLinuxOptions") or {} for h in holders]
    wrong = [bool((o.get("type") or "") not in allowed or o.get("user") or o.get("role")) for o in options]
    if not any(wrong):
        return None
    types = sorted({o.get("type") or "" for o in options} - allowed)
    data = [f"{plural('type', len(types))} {quote(types)}"] if types else []
    data += ["user may not be set"] if any(o.get("user") for o in options) else []
    data += ["role may not be set"] if any(o.get("role") for o in options) else []
    who = setters(wrong[0], [h["name"] for h, bad in zip(holders[1:], wrong[1:], strict=True) if bad])
    return Violation(
        "seLinuxOptions", f"{who} set forbidden securityContext.seLinuxOptions: {'; '.join(data)}"
    )


def seccomp_profile(meta: Meta, spec: Spec, minor: int) -> Violation | None:
    if minor < 19:
        return _seccomp_annotations(meta, spec)
    values: set[str] = set()
    pod_is_bad = _has_bad_profile(spec, "seccompProfile", values)
    bad = [c["name"] for c in containers_of(spec) if _has_bad_profile(c, "seccompProfile", values)]
    if not pod_is_bad and not bad:
        return None
    who = setters(pod_is_bad, bad)
    return Violation(
        "seccompProfile", f"{who} must not set securityContext.seccompProfile.type to {quote(sorted(values))}"
    )


def _seccomp_annotations(meta: Meta, spec: Spec) -> Violation | None:
    annotations = meta.get("annotations") or {}
    keys = [_SECCOMP_POD, *(f"{_SECCOMP_CONTAINER}{c['name']}" for c in containers_of(spec))]
    bad = sorted(
        f'{key}="{annotations[key]}"'
        for key in dict.fromkeys(keys)
        if key in annotations
        and annotations[key] not in ("runtime/default", "docker/default")
        and not annotations[key].startswith("localhost/")
    )
    if not bad:
        return None
    return Violation("seccompProfile", f"forbidden {plural('annotation', len(bad))} {', '.join(bad)}")


def sysctls(meta: Meta, spec: Spec, minor: int) -> Violation | None:
    names = [s.get("name", "") for s in security(spec).get("sysctls") or ()]
    bad = [n for n in names if n not in _SYSCTLS or _SYSCTLS[n] > minor]
    return Violation("forbidden sysctls", ", ".join(bad)) if bad else None


def windows_host_process(meta: Meta, spec: Spec, minor: int) -> Violation | None:
    def is_bad(holder: Spec) -> bool:
        return bool((security(holder).get("windowsOptions") or {}).get("hostProcess"))

    bad = [c["name"] for c in containers_of(spec) if is_bad(c)]
    if not bad and not is_bad(spec):
        return None
    who = setters(is_bad(spec), bad)
    return Violation("hostProcess", f"{who} must not set securityContext.windowsOptions.hostProcess=true")
