"""What each check of pod security says of one container, of several, of the pod, and of both, version by version."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.histories import check_history

from fairway.admission.podsecurity.evaluation import detail, reason, violations
from fairway.admission.podsecurity.levels import LATEST, LevelVersion

Spec = dict[str, Any]

# What two containers say of their security.
CONTAINERS: dict[str, tuple[Spec, Spec]] = {
    "privileged": ({"privileged": True}, {"privileged": True}),
    "capabilities": (
        {"capabilities": {"add": ["SYS_TIME", "CHOWN"]}},
        {"capabilities": {"add": ["BPF", "CHOWN"]}},
    ),
    "dropped": (
        {"capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}},
        {"capabilities": {"drop": ["CHOWN"], "add": ["CHOWN"]}},
    ),
    "mounts": ({"procMount": "Unmasked"}, {"procMount": "Other"}),
    "escalation": ({"allowPrivilegeEscalation": True}, {"allowPrivilegeEscalation": False}),
    "host process": ({"windowsOptions": {"hostProcess": True}}, {"windowsOptions": {"hostProcess": True}}),
    "user": ({"runAsUser": 0}, {"runAsUser": 0}),
    "another user": ({"runAsUser": 1}, {"runAsUser": None}),
    "root": ({"runAsNonRoot": False}, {"runAsNonRoot": False}),
    "no root": ({"runAsNonRoot": True}, {"runAsNonRoot": None}),
    "seccomp": ({"seccompProfile": {"type": "Unconfined"}}, {"seccompProfile": {"type": "Other"}}),
    "good seccomp": (
        {"seccompProfile": {"type": "Localhost"}},
        {"seccompProfile": {"type": "RuntimeDefault"}},
    ),
    "AppArmor": ({"appArmorProfile": {"type": "Unconfined"}}, {"appArmorProfile": {}}),
    "SELinux": (
        {"seLinuxOptions": {"type": "x_t", "user": "u"}},
        {"seLinuxOptions": {"type": "a_t", "role": "r"}},
    ),
    "SELinux by type": (
        {"seLinuxOptions": {"type": "container_engine_t"}},
        {"seLinuxOptions": {"type": "container_kvm_t", "level": "s0"}},
    ),
}
# Containers as a whole.
WHOLE: dict[str, tuple[Spec, Spec]] = {
    "ports": (
        {"ports": [{"hostPort": 90}, {"hostPort": 0}, {"containerPort": 1}]},
        {"ports": [{"hostPort": 80}, {"hostPort": 90}]},
    ),
    "probes": (
        {"livenessProbe": {"httpGet": {"host": "h"}}, "startupProbe": {"tcpSocket": {"host": "a"}}},
        {
            "lifecycle": {"postStart": {"tcpSocket": {"host": "h"}}, "preStop": {"httpGet": {"host": ""}}},
            "readinessProbe": {"exec": {}},
        },
    ),
}
PODS: dict[str, Spec] = {
    "namespaces": {"hostNetwork": True, "hostPID": True, "hostIPC": True},
    "one namespace": {"hostPID": True, "hostIPC": False},
    "a path": {"volumes": [{"name": "v", "hostPath": {}}]},
    "paths": {
        "volumes": [
            {"name": "v", "hostPath": {"path": "/"}},
            {"name": "w", "nfs": {}},
            {"name": "x", "emptyDir": {}},
            {"name": "y", "hostPath": {}},
            {"name": "z"},
        ]
    },
    "sysctls": {
        "securityContext": {"sysctls": [{"name": n} for n in ("kernel.msgmax", "net.ipv4.tcp_rmem", "a")]}
    },
    **{
        name: {"securityContext": both[0]}
        for name, both in CONTAINERS.items()
        if name not in ("mounts", "privileged")
    },
}
ANNOTATIONS: dict[str, dict[str, str]] = {
    "AppArmor": {
        "container.apparmor.security.beta.kubernetes.io/a": "unconfined",
        "container.apparmor.security.beta.kubernetes.io/b": "localhost/x",
        "container.apparmor.security.beta.kubernetes.io/c": "other",
    },
    "seccomp": {
        "seccomp.security.alpha.kubernetes.io/pod": "unconfined",
        "container.seccomp.security.alpha.kubernetes.io/a": "bad",
        "container.seccomp.security.alpha.kubernetes.io/b": "localhost/x",
        "container.seccomp.security.alpha.kubernetes.io/nobody": "bad",
    },
}
MINORS = (0, 7, 8, 18, 19, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, LATEST)


def pods() -> Iterator[tuple[str, Spec, Spec]]:
    """(name, metadata, spec) of each."""
    plain = {"name": "a"}
    for name, (first, second) in CONTAINERS.items():
        yield f"{name}, one", {}, {"containers": [{"name": "a", "securityContext": first}]}
        spec = {
            "initContainers": [{"name": "a", "securityContext": first}],
            "containers": [plain | {"name": "b"}],
            "ephemeralContainers": [{"name": "c", "securityContext": second}],
        }
        yield f"{name}, two", {}, spec
        yield f"{name}, both", {}, {**spec, "securityContext": second}
    for name, (first, second) in WHOLE.items():
        yield f"{name}, one", {}, {"containers": [{"name": "a", **first}]}
        yield (
            f"{name}, two",
            {},
            {"containers": [{"name": "b", **first}, plain], "initContainers": [{"name": "c", **second}]},
        )
    for name, spec in PODS.items():
        yield f"{name}, pod", {}, {"containers": [plain], **spec}
    for name, said in ANNOTATIONS.items():
        yield f"{name}, annotations", {"annotations": said}, {"containers": [plain, {"name": "b"}]}
        one = {"name": "a", "securityContext": {"appArmorProfile": {"type": "Unconfined"}}}
        yield f"{name}, annotations and a field", {"annotations": said}, {"containers": [one]}
    every = {key: value for first, _ in CONTAINERS.values() for key, value in first.items()}
    for name, more in (
        ("windows", {"os": {"name": "windows"}}),
        ("own users", {"hostUsers": False}),
        ("none", {}),
    ):
        yield f"everything, {name}", {}, {"containers": [{"name": "a", "securityContext": every}], **more}
        yield f"nothing, {name}", {}, {"containers": [plain], **more}


def test_every_check_says_what_it_said() -> None:
    def told() -> Iterator[str]:
        for name, meta, spec in pods():
            for level in ("baseline", "restricted"):
                found = {m: violations(LevelVersion(level, m), meta, spec) for m in MINORS}
                assert found[LATEST] == violations(LevelVersion(level, 999), meta, spec)
                for said in sorted({str(v) for by_minor in found.values() for v in by_minor}):
                    minors = [m for m in MINORS if said in map(str, found[m])]
                    yield f"{name} ({level}:{_spans(minors)}): {said}"
                if name.startswith("everything"):
                    yield detail(found[LATEST])
                    assert reason(found[LATEST]) == ", ".join(v.reason for v in found[LATEST])
            assert violations(LevelVersion("privileged"), meta, spec) == ()

    check_history(Path(__file__).parent / "podsecurity.txt", told())


def _spans(minors: list[int]) -> str:
    """`0-18,23-latest`."""
    names = [MINORS.index(m) for m in minors]
    first = [at for at in names if at - 1 not in names]
    last = [at for at in names if at + 1 not in names]
    spans = zip(first, last, strict=True)
    return ",".join(f"{MINORS[a]}-{'latest' if MINORS[b] == LATEST else MINORS[b]}" for a, b in spans)
