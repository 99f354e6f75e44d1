"""Pods and templates of pods: their containers, and what must hold between the parts of a spec.

Source: pkg/apis/core/validation/validation.go ValidatePodSpec, ValidatePodCreate, ValidatePodTemplateSpec (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fairway.kube import names
from fairway.kube.fieldpath import MapKey, Path
from fairway.kube.internals import Typed
from fairway.kube.objects import Obj, annotations_of, meta_of, name_of, spec_of
from fairway.kube.problem import Faults
from fairway.kube.validation.kinds import resources, scheduling, security, texts, volumes
from fairway.kube.validation.kinds.containers import Around, containers, image_text
from fairway.kube.validation.kinds.metadata import object_meta, object_meta_update
from fairway.kube.validation.kinds.texts import MAX_INT32, one_of

Part = Mapping[str, Any]
_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTION = ("PreemptLowerPriority", "Never")
_MIRROR = "kubernetes.io/config.mirror"
_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
_SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP = "container.seccomp.security.alpha.kubernetes.io/"


def pod(obj: Obj, out: Faults) -> None:
    """A pod that is created."""
    metadata_and_spec(obj, out)
    spec, at = spec_of(obj), ("spec",)
    if spec.get("ephemeralContainers"):
        out.forbidden((*at, "ephemeralContainers"), "cannot be set on create")
    if spec.get("nodeName") and spec.get("schedulingGates"):
        out.forbidden((*at, "nodeName"), "cannot be set until all schedulingGates have been cleared")
    security.annotations_match(meta_of(obj), spec, at, out)


def metadata_and_spec(obj: Obj, out: Faults) -> None:
    object_meta(obj, out, core=True)
    spec, at = spec_of(obj), ("spec",)
    pod_annotations(annotations_of(obj), spec, ("metadata", "annotations"), out)
    pod_spec(spec, name_of(obj), at, out, is_mirror=_MIRROR in annotations_of(obj))
    if not spec.get("serviceAccountName"):
        _tokens_without_account(spec, at, out)
    for kind in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(kind) or ()):
            image_text(container, (*at, kind, index, "image"), out)


def _tokens_without_account(spec: Part, at: Path, out: Faults) -> None:
    for number, volume in enumerate(spec.get("volumes") or ()):
        for index, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
            if source.get("serviceAccountToken") is not None:
                where = (*at, "volumes", number, "projected", "sources", index, "serviceAccountToken")
                out.forbidden(where, "must not be specified when serviceAccountName is not set")


def template(found: Part | None, at: Path, out: Faults, *, extra: Iterable[Part] = ()) -> None:
    """A pod template. `extra`: volumes that its controller adds, before its own."""
    meta, spec = (found or {}).get("metadata") or {}, (found or {}).get("spec") or {}
    texts.label_map(meta.get("labels"), (*at, "labels"), out)
    texts.annotation_map(meta.get("annotations"), (*at, "annotations"), out)
    pod_annotations(meta.get("annotations") or {}, spec, (*at, "annotations"), out)
    added = list(extra)
    if added:
        known = {volume["name"] for volume in added}
        own = [v for v in spec.get("volumes") or () if v.get("name") not in known]
        spec = {**spec, "volumes": [*added, *own]}
    pod_spec(spec, None, (*at, "spec"), out)
    security.annotations_match(meta, spec, (*at, "spec"), out)
    if spec.get("ephemeralContainers"):
        said = "ephemeral containers not allowed in pod template"
        out.forbidden((*at, "spec", "ephemeralContainers"), said)


def restarts_always(found: Part | None, at: Path, kind: str, out: Faults) -> None:
    """Templates of controllers that keep pods running."""
    spec = (found or {}).get("spec") or {}
    policy = spec.get("restartPolicy") or ("" if spec else "Always")
    if policy != "Always":
        out.unsupported((*at, "spec", "restartPolicy"), policy, ("Always",))
    if spec.get("activeDeadlineSeconds") is not None:
        said = f"activeDeadlineSeconds in {kind} is not Supported"
        out.forbidden((*at, "spec", "activeDeadlineSeconds"), said)


def pod_annotations(notes: Mapping[str, str], spec: Part, at: Path, out: Faults) -> None:
    if not notes:
        return
    if _MIRROR in notes and not spec.get("nodeName"):
        said = "must set spec.nodeName if mirror pod annotation is set"
        out.invalid((*at, MapKey(_MIRROR)), notes[_MIRROR], said)
    cost = notes.get(_DELETION_COST)
    if cost is not None and not _is_cost(cost):
        out.invalid((*at, MapKey(_DELETION_COST)), cost, "must be a 32bit integer")
    if _SECCOMP_POD in notes:
        _seccomp_note(notes[_SECCOMP_POD], (*at, _SECCOMP_POD), out)
    for key, value in notes.items():
        if key.startswith(_SECCOMP):
            _seccomp_note(value, (*at, key), out)
    known = {container.get("name") for container, _ in security.visit_containers(spec, ())}
    for key, value in notes.items():
        if key.startswith(_APP_ARMOR):
            name = key.removeprefix(_APP_ARMOR)
            if name not in known:
                out.invalid((*at, MapKey(key)), name, "container not found")
            if value not in ("", "runtime/default", "unconfined") and not value.startswith("localhost/"):
                out.invalid((*at, MapKey(key)), value, f'invalid AppArmor profile name: "{value}"')


def _is_cost(text: str) -> bool:
    """Signs other than minus, and zeros before a number, are no costs. Source: GetDeletionCostFromPodAnnotations."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or (digits != "0" and digits.startswith("0")):
        return False
    return -(2**31) <= int(text) < 2**31


def _seccomp_note(value: str, at: Path, out: Faults) -> None:
    if value.startswith("localhost/"):
        texts.descending_path(value.removeprefix("localhost/"), at, out)
    elif value not in ("runtime/default", "docker/default", "unconfined"):
        out.invalid(at, value, "must be a valid seccomp profile")


def pod_spec(spec: Part, name: str | None, at: Path, out: Faults, *, is_mirror: bool = False) -> None:
    """`name`: the pod's, None in a template."""
    if not spec:
        # Where nothing is given, everything else is defaulted.
        out.required((*at, "containers"))
        return
    fine = volumes.pod_volumes(spec.get("volumes") or (), name, (*at, "volumes"), out)
    _claims(spec.get("resourceClaims") or (), (*at, "resourceClaims"), out, is_mirror=is_mirror)
    claims = tuple(c["name"] for c in spec.get("resourceClaims") or () if c.get("name"))
    os = (spec.get("os") or {}).get("name") if spec.get("os") is not None else None
    around = Around(
        fine,
        claims,
        spec.get("terminationGracePeriodSeconds"),
        os,
        spec.get("restartPolicy") or "",
        spec.get("hostUsers") is not False,
    )
    containers(spec, around, at, out)
    resources.of_pod(spec, at, out)
    if spec.get("hostNetwork"):
        _host_network(spec, at, out, is_pod=name is not None)
    one_of(spec.get("restartPolicy"), _RESTART_POLICIES, (*at, "restartPolicy"), out)
    one_of(spec.get("dnsPolicy"), _DNS_POLICIES, (*at, "dnsPolicy"), out)
    texts.label_map(spec.get("nodeSelector"), (*at, "nodeSelector"), out)
    security.of_pod(spec, at, out)
    scheduling.affinity(spec.get("affinity"), (*at, "affinity"), out)
    _dns(spec.get("dnsConfig"), spec.get("dnsPolicy"), (*at, "dnsConfig"), out)
    _gates(spec, at, out)
    constraints = spec.get("topologySpreadConstraints") or ()
    scheduling.spread_constraints(constraints, (*at, "topologySpreadConstraints"), out)
    security.host_process(spec, at, out)
    _host_users(spec, at, out)
    _hostname_override(spec, at, out)
    _names_and_times(spec, at, out)
    if spec.get("overhead") is not None:
        resources.overhead(spec["overhead"], (*at, "overhead"), out)
    security.operating_system(spec, at, out)
    _scheduling_group(spec.get("schedulingGroup"), (*at, "schedulingGroup"), out)
    _file_volumes(spec, at, out)


def _claims(claims: Sequence[Part], at: Path, out: Faults, *, is_mirror: bool) -> None:
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        where, name = (*at, index), claim.get("name") or ""
        if is_mirror:
            out.forbidden(("",), "static pods do not support resource claims")
            continue
        if not name:
            out.required((*where, "name"))
        elif name in seen:
            out.duplicate((*where, "name"), name)
        else:
            texts.dns_label(name, (*where, "name"), out)
            seen.add(name)
        given = [m for m in ("resourceClaimName", "resourceClaimTemplateName") if claim.get(m) is not None]
        shown = Typed("core.PodResourceClaim", claim)
        if len(given) > 1:
            said = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            out.invalid(where, shown, said)
        if not given:
            said = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            out.invalid(where, shown, said)
        for member in given:
            texts.dns_subdomain(claim[member], (*where, member), out)


def _host_network(spec: Part, at: Path, out: Faults, *, is_pod: bool) -> None:
    for index, container in enumerate(spec.get("containers") or ()):
        for number, port in enumerate(container.get("ports") or ()):
            host = port.get("hostPort") or 0
            if (is_pod or host) and host != (port.get("containerPort") or 0):
                where = (*at, "containers", index, "ports", number, "hostPort")
                out.invalid(where, host, "must match `containerPort` when `hostNetwork` is true")


def _dns(config: Part | None, policy: str | None, at: Path, out: Faults) -> None:
    if policy == "None":
        if config is None:
            out.required(at, "must provide `dnsConfig` when `dnsPolicy` is None")
            return
        if not config.get("nameservers"):
            said = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            out.required((*at, "nameservers"), said)
            return
    if config is None:
        return
    servers, searches = config.get("nameservers") or (), config.get("searches") or ()
    if len(servers) > 3:
        out.invalid((*at, "nameservers"), servers, "must not have more than 3 nameservers")
    for index, server in enumerate(servers):
        texts.address(server, (*at, "nameservers", index), out)
    if len(searches) > 32:
        out.invalid((*at, "searches"), searches, "must not have more than 32 search paths")
    if len(" ".join(searches)) > 2048:
        said = "must not have more than 2048 characters (including spaces) in the search list"
        out.invalid((*at, "searches"), searches, said)
    for index, search in enumerate(searches):
        if search != ".":
            name = search.removesuffix(".")
            out.invalids((*at, "searches", index), name, names.dns_search(name))
    for index, option in enumerate(config.get("options") or ()):
        if not option.get("name"):
            out.required((*at, "options", index), "must not be empty")


def _gates(spec: Part, at: Path, out: Faults) -> None:
    for index, gate in enumerate(spec.get("readinessGates") or ()):
        kind = gate.get("conditionType") or ""
        texts.qualified_name(kind, (*at, "readinessGates", index, "conditionType"), out)
    seen: set[str] = set()
    for index, gate in enumerate(spec.get("schedulingGates") or ()):
        where, name = (*at, "schedulingGates", index), gate.get("name") or ""
        texts.qualified_name(name, where, out)
        if name in seen:
            out.duplicate(where, name)
        seen.add(name)


def _host_users(spec: Part, at: Path, out: Faults) -> None:
    if spec.get("hostUsers") is not False:
        return
    for member, shown in (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")):
        if spec.get(member):
            out.forbidden((*at, shown), "when `hostUsers` is false")
    for container, where in security.visit_containers(spec, at):
        if container.get("volumeDevices"):
            out.forbidden((*where, "volumeDevices"), "when `hostUsers` is false")


def _hostname_override(spec: Part, at: Path, out: Faults) -> None:
    name, where = spec.get("hostnameOverride"), (*at, "hostnameOverride")
    if name is None:
        return
    for member in ("setHostnameAsFQDN", "hostNetwork"):
        if spec.get(member):
            out.forbidden(where, f"may not be specified when {member} is true")
    if len(name) > 64:
        out.too_long(where, 64)
    texts.dns_subdomain(name, where, out)


def _names_and_times(spec: Part, at: Path, out: Faults) -> None:
    for member in ("serviceAccountName", "nodeName"):
        if spec.get(member):
            texts.dns_subdomain(spec[member], (*at, member), out)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= MAX_INT32:
        said = f"must be between 1 and {MAX_INT32}, inclusive"
        out.invalid((*at, "activeDeadlineSeconds"), deadline, said)
    for member in ("hostname", "subdomain"):
        if spec.get(member):
            texts.dns_label(spec[member], (*at, member), out)
    scheduling.tolerations(spec.get("tolerations") or (), (*at, "tolerations"), out)
    for index, alias in enumerate(spec.get("hostAliases") or ()):
        where = (*at, "hostAliases", index)
        texts.address(alias.get("ip") or "", (*where, "ip"), out)
        for number, hostname in enumerate(alias.get("hostnames") or ()):
            texts.dns_subdomain(hostname, (*where, "hostnames", number), out)
    if spec.get("priorityClassName"):
        texts.dns_subdomain(spec["priorityClassName"], (*at, "priorityClassName"), out)
    if spec.get("runtimeClassName") is not None:
        texts.dns_subdomain(spec["runtimeClassName"], (*at, "runtimeClassName"), out)
    if spec.get("preemptionPolicy") is not None:
        one_of(spec["preemptionPolicy"], _PREEMPTION, (*at, "preemptionPolicy"), out)


def _scheduling_group(group: Part | None, at: Path, out: Faults) -> None:
    if group is None:
        return
    name = group.get("podGroupName")
    if name is None:
        out.invalid((*at, "podGroupName"), None, "must specify one of: `podGroupName`")
    else:
        texts.dns_subdomain(name, (*at, "podGroupName"), out)


def _file_volumes(spec: Part, at: Path, out: Faults) -> None:
    found = {volume.get("name"): volume for volume in spec.get("volumes") or ()}
    for container, where in security.visit_containers(spec, at):
        for index, variable in enumerate(container.get("env") or ()):
            reference = (variable.get("valueFrom") or {}).get("fileKeyRef")
            if reference is None:
                continue
            name, place = reference.get("volumeName") or "", (*where, "env", index, "valueFrom", "fileKeyRef")
            if name not in found:
                out.not_found((*place, "volumeName"), name)
            elif found[name].get("emptyDir") is None:
                said = "referenced volume must be of type emptyDir"
                out.invalid((*place, "volumeName"), name, said)


def pod_template(obj: Obj, out: Faults) -> None:
    object_meta(obj, out, core=True)
    template(obj.get("template"), ("template",), out)


def pod_template_update(new: Obj, old: Obj, out: Faults) -> None:
    object_meta_update(new, old, out, core=True)
    template(new.get("template"), ("template",), out)
