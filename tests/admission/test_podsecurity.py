"""Pod Security Standards: every check's sentence, levels and versions, and what namespaces are told."""

from __future__ import annotations

from typing import Any

import pytest
from admissionrequests import World, namespace, pod, request

from fairway.admission.podsecurity.admission import FINE, Verdict, verdict
from fairway.admission.podsecurity.evaluation import detail, violations
from fairway.admission.podsecurity.levels import LATEST, LevelVersion, policy_of
from fairway.admission.request import CREATE, DELETE, UPDATE, AdmissionRequest, Admitted, Denied
from fairway.kube.objects import Key, Obj

GOOD: dict[str, Any] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def spec(security: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    container: dict[str, Any] = {"name": "c", "image": "i"}
    if security is not None:
        container["securityContext"] = security
    return {"containers": [container], **fields}


def good(**changes: Any) -> dict[str, Any]:
    """A container's security that keeps to restricted, but for the changes."""
    return {k: v for k, v in {**GOOD, **changes}.items() if v is not None}


BASELINE: dict[str, tuple[dict[str, Any], str]] = {
    "a plain pod": (spec(), ""),
    "host network": (spec(hostNetwork=True), "host namespaces (hostNetwork=true)"),
    "all host namespaces": (
        spec(hostNetwork=True, hostPID=True, hostIPC=True),
        "host namespaces (hostNetwork=true, hostPID=true, hostIPC=true)",
    ),
    "privileged": (
        spec({"privileged": True}),
        'privileged (container "c" must not set securityContext.privileged=true)',
    ),
    "two privileged containers": (
        {"containers": [{"name": n, "securityContext": {"privileged": True}} for n in "ab"]},
        'privileged (containers "a", "b" must not set securityContext.privileged=true)',
    ),
    "an init container comes first": (
        {
            "containers": [{"name": "c", "securityContext": {"privileged": True}}],
            "initContainers": [{"name": "i", "securityContext": {"privileged": True}}],
        },
        'privileged (containers "i", "c" must not set securityContext.privileged=true)',
    ),
    "a capability": (
        spec({"capabilities": {"add": ["SYS_ADMIN", "CHOWN", "NET_RAW"]}}),
        'non-default capabilities (container "c" must not include "NET_RAW", "SYS_ADMIN" in '
        "securityContext.capabilities.add)",
    ),
    "a default capability": (spec({"capabilities": {"add": ["CHOWN"]}}), ""),
    "a host path": (
        spec(volumes=[{"name": "v", "hostPath": {"path": "/"}}]),
        'hostPath volumes (volume "v")',
    ),
    "a host port": (
        {"containers": [{"name": "c", "ports": [{"hostPort": 80}, {"hostPort": 443}]}]},
        'hostPort (container "c" uses hostPorts 443, 80)',
    ),
    "a probe of another host": (
        {"containers": [{"name": "c", "livenessProbe": {"httpGet": {"host": "example.com"}}}]},
        'probe or lifecycle host (container "c" uses probe or lifecycle host "example.com")',
    ),
    "an unmasked proc": (
        spec({"procMount": "Unmasked"}),
        'procMount (container "c" must not set securityContext.procMount to "Unmasked")',
    ),
    "an unmasked proc in a user namespace": (spec({"procMount": "Unmasked"}, hostUsers=False), ""),
    "an SELinux type": (
        spec({"seLinuxOptions": {"type": "spc_t", "user": "u", "role": "r"}}),
        'seLinuxOptions (container "c" set forbidden securityContext.seLinuxOptions: type "spc_t"; user may not '
        "be set; role may not be set)",
    ),
    "an SELinux type of the pod": (
        spec(securityContext={"seLinuxOptions": {"type": "spc_t"}}),
        'seLinuxOptions (pod set forbidden securityContext.seLinuxOptions: type "spc_t")',
    ),
    "seccomp unconfined": (
        spec(
            {"seccompProfile": {"type": "Unconfined"}},
            securityContext={"seccompProfile": {"type": "Unconfined"}},
        ),
        'seccompProfile (pod and container "c" must not set securityContext.seccompProfile.type to "Unconfined")',
    ),
    "AppArmor unconfined": (
        spec({"appArmorProfile": {"type": "Unconfined"}}),
        'forbidden AppArmor profile (container "c" must not set AppArmor profile type to "Unconfined")',
    ),
    "a sysctl": (
        spec(securityContext={"sysctls": [{"name": "kernel.msgmax"}, {"name": "net.ipv4.tcp_rmem"}]}),
        "forbidden sysctls (kernel.msgmax)",
    ),
    "a Windows host process": (
        spec(securityContext={"windowsOptions": {"hostProcess": True}}),
        "hostProcess (pod must not set securityContext.windowsOptions.hostProcess=true)",
    ),
    "several at once, by identifier": (
        spec({"privileged": True}, hostPID=True),
        "host namespaces (hostPID=true), "
        'privileged (container "c" must not set securityContext.privileged=true)',
    ),
}


@pytest.mark.parametrize("name", BASELINE)
def test_baseline(name: str) -> None:
    of_pod, want = BASELINE[name]
    assert detail(violations(LevelVersion("baseline"), {}, of_pod)) == want


RESTRICTED: dict[str, tuple[dict[str, Any], str]] = {
    "a good pod": (spec(GOOD), ""),
    "a plain pod": (
        spec(),
        'allowPrivilegeEscalation != false (container "c" must set '
        "securityContext.allowPrivilegeEscalation=false), "
        'unrestricted capabilities (container "c" must set securityContext.capabilities.drop=["ALL"]), '
        'runAsNonRoot != true (pod or container "c" must set securityContext.runAsNonRoot=true), '
        'seccompProfile (pod or container "c" must set securityContext.seccompProfile.type to '
        '"RuntimeDefault" or "Localhost")',
    ),
    "a capability it may add": (spec(good(capabilities={"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]})), ""),
    "a capability it may not": (
        spec(good(capabilities={"drop": ["ALL"], "add": ["CHOWN"]})),
        'unrestricted capabilities (container "c" must not include "CHOWN" in securityContext.capabilities.add)',
    ),
    "root by number": (spec(good(runAsUser=0)), 'runAsUser=0 (container "c" must not set runAsUser=0)'),
    "root by the pod": (
        spec(GOOD, securityContext={"runAsUser": 0}),
        "runAsUser=0 (pod must not set runAsUser=0)",
    ),
    "explicitly maybe root": (
        spec(good(runAsNonRoot=False)),
        'runAsNonRoot != true (container "c" must not set securityContext.runAsNonRoot=false)',
    ),
    "non-root by the pod": (spec(good(runAsNonRoot=None), securityContext={"runAsNonRoot": True}), ""),
    "seccomp by the pod": (
        spec(good(seccompProfile=None), securityContext={"seccompProfile": {"type": "Localhost"}}),
        "",
    ),
    "root inside a user namespace": (spec(good(runAsNonRoot=None, runAsUser=0), hostUsers=False), ""),
    "an NFS volume": (
        spec(GOOD, volumes=[{"name": "n", "nfs": {}}, {"name": "e", "emptyDir": {}}]),
        'restricted volume types (volume "n" uses restricted volume type "nfs")',
    ),
    "a host path is told once": (
        spec(GOOD, volumes=[{"name": "h", "hostPath": {}}, {"name": "n", "nfs": {}}]),
        'restricted volume types (volumes "h", "n" use restricted volume types "hostPath", "nfs")',
    ),
    "Windows needs neither": (
        spec({"runAsNonRoot": True}, os={"name": "windows"}),
        "",
    ),
}


@pytest.mark.parametrize("name", RESTRICTED)
def test_restricted(name: str) -> None:
    of_pod, want = RESTRICTED[name]
    assert detail(violations(LevelVersion("restricted"), {}, of_pod)) == want


def test_annotations_count_for_app_armor() -> None:
    meta = {"annotations": {"container.apparmor.security.beta.kubernetes.io/c": "unconfined"}}
    assert detail(violations(LevelVersion("baseline"), meta, spec())) == (
        "forbidden AppArmor profile (annotation must not set AppArmor profile type to "
        '"container.apparmor.security.beta.kubernetes.io/c="unconfined"")'
    )


VERSIONS: dict[str, tuple[LevelVersion, dict[str, Any], bool]] = {
    "probes of other hosts before 1.34": (
        LevelVersion("baseline", 33),
        {"containers": [{"name": "c", "livenessProbe": {"tcpSocket": {"host": "x"}}}]},
        True,
    ),
    "a sysctl before it was allowed": (
        LevelVersion("baseline", 28),
        spec(securityContext={"sysctls": [{"name": "net.ipv4.tcp_fin_timeout"}]}),
        False,
    ),
    "a sysctl since it is allowed": (
        LevelVersion("baseline", 29),
        spec(securityContext={"sysctls": [{"name": "net.ipv4.tcp_fin_timeout"}]}),
        True,
    ),
    "dropping ALL is asked since 1.22": (LevelVersion("restricted", 21), spec(good(capabilities=None)), True),
    "user namespaces help since 1.35": (
        LevelVersion("restricted", 34),
        spec(good(runAsNonRoot=None), hostUsers=False),
        False,
    ),
    "a version to come is the latest": (LevelVersion("restricted", 99), spec(GOOD), True),
    "privileged asks nothing": (LevelVersion("privileged"), spec({"privileged": True}, hostPID=True), True),
}


@pytest.mark.parametrize("name", VERSIONS)
def test_versions(name: str) -> None:
    asked, of_pod, want = VERSIONS[name]
    assert (violations(asked, {}, of_pod) == ()) is want


P = "pod-security.kubernetes.io/"


def test_whoever_enforces_is_warned_too() -> None:
    policy = policy_of({f"{P}enforce": "baseline", f"{P}enforce-version": "v1.30"})
    assert policy.warn == LevelVersion("baseline", 30)
    assert policy.audit == LevelVersion("privileged", LATEST)


def test_a_broken_level_is_restricted_and_reported() -> None:
    policy = policy_of({f"{P}enforce": "strict", f"{P}warn-version": "1.30"})
    assert policy.enforce.level == "restricted"
    assert policy.problems == (
        'metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: "strict": must be one of privileged, '
        "baseline, restricted",
        'metadata.labels[pod-security.kubernetes.io/warn-version]: Invalid value: "1.30": must be "latest" or "v1.x"',
    )


def test_a_pod_is_refused_in_kubernetes_words() -> None:
    world = World(namespace("team-a", {f"{P}enforce": "restricted"}))
    refused = world.validate(
        request(
            pod(
                containers=[
                    {"name": "c", "image": "i", "securityContext": good(allowPrivilegeEscalation=None)}
                ]
            )
        )
    )
    assert isinstance(refused, Denied)
    assert (refused.code, refused.plugin) == (403, "PodSecurity")
    assert refused.message == (
        'pods "p" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false '
        '(container "c" must set securityContext.allowPrivilegeEscalation=false)'
    )
    assert refused.audit == {"pod-security.kubernetes.io/enforce-policy": "restricted:latest"}


def deployment(**of_pod: Any) -> Obj:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "team-a"},
        "spec": {"template": {"metadata": {}, "spec": spec(**of_pod)}},
    }


def test_a_workload_is_only_warned_about() -> None:
    world = World(namespace("team-a", {f"{P}enforce": "baseline", f"{P}audit": "baseline"}))
    outcome = world.validate(request(deployment(hostPID=True)))
    said = 'would violate PodSecurity "baseline:latest": host namespaces (hostPID=true)'
    assert isinstance(outcome, Admitted)
    assert outcome.warnings == (said,)
    assert outcome.audit == {"pod-security.kubernetes.io/audit-violations": said}


def test_a_namespace_is_told_which_pods_would_be_refused() -> None:
    world = World(namespace("team-a"), pod("a", hostPID=True), pod("b", hostPID=True), pod("c"))
    old = world.store.require(Key("Namespace", "", "team-a"))
    new = {**old, "metadata": {**old["metadata"], "labels": {f"{P}enforce": "baseline"}}}
    outcome = world.validate(request(new, UPDATE, old))
    assert outcome.warnings == (
        'existing pods in namespace "team-a" violate the new PodSecurity enforce level "baseline:latest"',
        "a (and 1 other pod): host namespaces",
    )


def test_labels_that_make_no_sense_are_invalid() -> None:
    outcome = World().validate(request(namespace("n", {f"{P}enforce": "strict"})))
    assert isinstance(outcome, Denied)
    assert outcome.code == 422
    assert outcome.message == (
        'Namespace "n" is invalid: metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: "strict": '
        "must be one of privileged, baseline, restricted"
    )


def test_of_a_running_pod_only_images_matter() -> None:
    world = World(namespace("team-a", {f"{P}enforce": "baseline"}))
    old = pod(hostPID=True)
    same = {**old, "metadata": {**old["metadata"], "labels": {"a": "b"}}}
    assert isinstance(world.validate(request(same, UPDATE, old)), Admitted)
    other = pod(hostPID=True, containers=[{"name": "c", "image": "j"}])
    assert isinstance(world.validate(request(other, UPDATE, old)), Denied)


def test_subresources_are_not_asked() -> None:
    world = World(namespace("team-a", {f"{P}enforce": "restricted"}))
    assert isinstance(world.validate(request(pod(), UPDATE, pod(), subresource="status")), Admitted)


def test_an_update_of_labels_asks_the_pods_only_where_more_is_enforced() -> None:
    world = World(namespace("team-a"), pod("a", hostPID=True))
    told = "a: host namespaces"

    def warned(old: dict[str, str], new: dict[str, str]) -> Any:
        before, after = namespace("team-a", old), namespace("team-a", new)
        outcome = world.validate(request(after, UPDATE, before))
        return (
            outcome.warnings[1:] if isinstance(outcome, Admitted) else outcome.message.split(": Invalid")[0]
        )

    baseline, restricted = {f"{P}enforce": "baseline"}, {f"{P}enforce": "restricted"}
    newer = {**baseline, f"{P}enforce-version": "v1.25"}
    wrong = {**baseline, f"{P}warn": "strict"}
    assert warned({}, baseline) == (told,)
    assert warned(baseline, baseline) == ()
    assert warned(restricted, baseline) == ()
    assert warned(restricted, {}) == ()
    assert warned(baseline, newer) == (told,)
    assert warned(baseline, {f"{P}enforce": "privileged", f"{P}enforce-version": "v1.25"}) == ()
    said = 'Namespace "team-a" is invalid: metadata.labels[pod-security.kubernetes.io/warn]'
    assert warned(baseline, wrong) == said
    assert warned(wrong, wrong) == ()
    assert warned(wrong, {**wrong, f"{P}audit": "strict"}) == (
        'Namespace "team-a" is invalid: [metadata.labels[pod-security.kubernetes.io/audit]'
    )


def test_each_controller_has_a_pod_looked_at_before_its_others() -> None:
    """3,000 pods are looked at: the last controller's is among them where the first has as many."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": True}
    world = World(namespace("team-a"))
    for i in range(3000):
        kin = pod(f"a{i:04}")
        kin["metadata"]["ownerReferences"] = [owner]
        world.add(kin)
    world.add(pod("z", hostPID=True), pod("y", hostPID=True), pod("x", hostPID=True))
    old = world.store.require(Key("Namespace", "", "team-a"))
    new = {**old, "metadata": {**old["metadata"], "labels": {f"{P}enforce": "baseline"}}}
    assert world.validate(request(new, UPDATE, old)).warnings == (
        "new PodSecurity enforce level only checked against the first 3000 of 3003 existing pods",
        'existing pods in namespace "team-a" violate the new PodSecurity enforce level "baseline:latest"',
        "x (and 2 other pods): host namespaces",
    )


HOST_PID = "host namespaces (hostPID=true)"
WRONG_VERSION = (
    "Failed to parse policy: metadata.labels[pod-security.kubernetes.io/audit-version]: Invalid value: "
    '"1.30": must be "latest" or "v1.x"'
)
VIOLATED = f'violates PodSecurity "baseline:latest": {HOST_PID}'
WOULD = f"would {VIOLATED}".replace("violates", "violate")
OPEN, BASE = (f"{P}enforce-policy", "privileged:latest"), (f"{P}enforce-policy", "baseline:latest")
AUDITED, BROKEN = (f"{P}audit-violations", WOULD), ("error", WRONG_VERSION)

# What the namespace is labelled: what is said to a pod with the host's processes, and to a workload of such pods.
VERDICTS: dict[str, tuple[dict[str, str], Verdict, Verdict]] = {
    "nothing": ({}, Verdict(audit=(OPEN,)), FINE),
    "privileged": ({"enforce": "privileged"}, Verdict(audit=(OPEN,)), FINE),
    "a version that is none": (
        {"audit-version": "1.30"},
        Verdict(audit=(BROKEN, OPEN)),
        Verdict(audit=(BROKEN,)),
    ),
    "warned alone": (
        {"warn": "baseline"},
        Verdict(warnings=(WOULD,), audit=(OPEN,)),
        Verdict(warnings=(WOULD,)),
    ),
    "audited alone": (
        {"audit": "baseline"},
        Verdict(audit=(OPEN, AUDITED)),
        Verdict(audit=(AUDITED,)),
    ),
    "warned and audited": (
        {"audit": "baseline", "warn": "baseline"},
        Verdict(warnings=(WOULD,), audit=(OPEN, AUDITED)),
        Verdict(warnings=(WOULD,), audit=(AUDITED,)),
    ),
    "enforced alone": (
        {"enforce": "baseline", "warn": "privileged"},
        Verdict(forbidden=VIOLATED, audit=(BASE,)),
        FINE,
    ),
    "enforced": (
        {"enforce": "baseline"},
        Verdict(forbidden=VIOLATED, audit=(BASE,)),
        Verdict(warnings=(WOULD,)),
    ),
    "all three": (
        {"enforce": "baseline", "audit": "baseline", "warn": "baseline"},
        Verdict(forbidden=VIOLATED, audit=(BASE, AUDITED)),
        Verdict(warnings=(WOULD,), audit=(AUDITED,)),
    ),
    "enforced, a version that is none": (
        {"enforce": "baseline", "warn": "privileged", "audit-version": "1.30"},
        Verdict(forbidden=VIOLATED, audit=(BROKEN, BASE)),
        Verdict(audit=(BROKEN,)),
    ),
}


@pytest.mark.parametrize("name", VERDICTS)
def test_each_mode_says_its_own(name: str) -> None:
    labels, of_pod, of_workload = VERDICTS[name]
    view = World(namespace("team-a", {f"{P}{mode}": value for mode, value in labels.items()})).store
    assert verdict(view, request(pod(hostPID=True))) == of_pod
    assert verdict(view, request(deployment(hostPID=True))) == of_workload


def templated(api: str, kind: str, path: str) -> Obj:
    """An object with the template of a pod at a path."""
    found: Obj = {"metadata": {}, "spec": spec(hostPID=True)}
    for field in reversed(path.split(".")):
        found = {field: found}
    return {"apiVersion": api, "kind": kind, "metadata": {"name": "o", "namespace": "team-a"}, **found}


TEMPLATED: dict[str, tuple[str, str]] = {
    "ReplicationController": ("v1", "spec.template"),
    "PodTemplate": ("v1", "template"),
    "ReplicaSet": ("apps/v1", "spec.template"),
    "Deployment": ("apps/v1", "spec.template"),
    "StatefulSet": ("apps/v1", "spec.template"),
    "DaemonSet": ("apps/v1", "spec.template"),
    "Job": ("batch/v1", "spec.template"),
    "CronJob": ("batch/v1", "spec.jobTemplate.spec.template"),
}


@pytest.mark.parametrize("kind", TEMPLATED)
def test_a_workload_is_looked_at_where_its_template_is(kind: str) -> None:
    view = World(namespace("team-a", {f"{P}warn": "baseline"})).store
    api, path = TEMPLATED[kind]
    made = templated(api, kind, path)
    assert verdict(view, request(made)) == Verdict(warnings=(WOULD,))
    assert verdict(view, request(made, UPDATE, made)) == Verdict(warnings=(WOULD,))
    assert verdict(view, request(made, UPDATE, made, subresource="status")) == FINE
    assert verdict(view, request(templated(api, kind, "spec.elsewhere"))) == FINE


def test_what_is_not_a_write_of_pods_or_workloads_is_not_asked() -> None:
    view = World(
        namespace("team-a", {f"{P}{mode}": "baseline" for mode in ("enforce", "warn", "audit")})
    ).store
    bad = pod(hostPID=True)
    assert verdict(view, request(None, DELETE, bad)) == FINE
    assert verdict(view, request(bad, DELETE, bad)) == FINE
    assert verdict(view, request(None, CREATE, bad)) == FINE
    assert verdict(view, request(bad, "CONNECT")) == FINE
    wrong = namespace("n", {f"{P}enforce": "strict"})
    assert verdict(view, request(wrong, UPDATE, wrong, subresource="status")) == FINE
    assert verdict(view, request(templated("v1", "Secret", "spec.template"))) == FINE


@pytest.mark.parametrize(
    ("subresource", "is_asked"),
    [
        *(
            (s, False)
            for s in ("exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status")
        ),
        *((s, True) for s in ("", "ephemeralcontainers", "resize")),
    ],
)
def test_subresources_that_cannot_change_what_runs_are_not_asked(subresource: str, is_asked: bool) -> None:
    view = World(namespace("team-a", {f"{P}enforce": "baseline"})).store
    said = verdict(view, request(pod(hostPID=True), subresource=subresource))
    assert said == (Verdict(forbidden=VIOLATED, audit=(BASE,)) if is_asked else FINE)


def containers(*images: str, **more: str) -> list[Obj]:
    return [{"name": f"c{i}", "image": image, **more} for i, image in enumerate(images)]


CHANGES: dict[str, tuple[Obj, Obj, bool]] = {
    "nothing": ({}, {}, False),
    "a command": (
        {"containers": containers("i")},
        {"containers": containers("i", workingDir="/")},
        False,
    ),
    "an image": ({"containers": containers("i")}, {"containers": containers("j")}, True),
    "the second's image": ({"containers": containers("i", "i")}, {"containers": containers("i", "j")}, True),
    "one more container": ({"containers": containers("i")}, {"containers": containers("i", "i")}, True),
    "one fewer": ({"containers": containers("i", "i")}, {"containers": containers("i")}, True),
    "an init container's image": (
        {"initContainers": containers("i")},
        {"initContainers": containers("j")},
        True,
    ),
    "the same init container": (
        {"initContainers": containers("i")},
        {"initContainers": containers("i")},
        False,
    ),
    "the first ephemeral container": ({}, {"ephemeralContainers": containers("i")}, True),
    "one more ephemeral container": (
        {"ephemeralContainers": containers("i")},
        {"ephemeralContainers": containers("i", "i")},
        True,
    ),
    "an ephemeral container's image": (
        {"ephemeralContainers": containers("i", "k")},
        {"ephemeralContainers": containers("i", "j")},
        True,
    ),
    "the same ephemeral containers": (
        {"ephemeralContainers": containers("i", "j")},
        {"ephemeralContainers": containers("i", "j")},
        False,
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_which_changes_of_a_pod_are_looked_at(name: str) -> None:
    view = World(namespace("team-a", {f"{P}enforce": "baseline"})).store
    old, new, is_asked = CHANGES[name]
    asked = request(pod(hostPID=True, **new), UPDATE, pod(hostPID=True, **old))
    assert verdict(view, asked) == (Verdict(forbidden=VIOLATED, audit=(BASE,)) if is_asked else FINE)


def test_a_pod_in_a_namespace_that_is_not_there_is_free() -> None:
    assert verdict(World().store, request(pod(hostPID=True))) == Verdict(audit=(OPEN,))


def told(labels: dict[str, str], *pods: Obj) -> tuple[str, ...]:
    """What a namespace with these pods is warned of where it is labelled so."""
    view = World(namespace("team-a"), *pods).store
    asked: AdmissionRequest = request(namespace("team-a", labels), UPDATE, namespace("team-a"))
    return verdict(view, asked).warnings


def test_pods_with_the_same_reasons_are_counted_together_by_the_first_of_them() -> None:
    root = {"privileged": True}
    bad = [pod(n, hostPID=True) for n in "dbc"]
    worse = [pod(n, **spec(root, hostPID=True)) for n in "ae"]
    alone = pod("f", **spec(root))
    head = 'existing pods in namespace "team-a" violate the new PodSecurity enforce level "baseline:v1.30"'
    labels = {f"{P}enforce": "baseline", f"{P}enforce-version": "v1.30"}
    assert told(labels, *bad, *worse, alone, pod("g")) == (
        head,
        "a (and 1 other pod): host namespaces, privileged",
        "b (and 2 other pods): host namespaces",
        "f: privileged",
    )
    assert told(labels, pod("g")) == ()
    assert told({f"{P}audit": "restricted", f"{P}warn": "restricted"}, *bad) == ()
