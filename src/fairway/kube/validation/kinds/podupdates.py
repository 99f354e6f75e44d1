"""What may change of a pod, through which door: itself, its status, its resources, its ephemeral containers.

Source: pkg/apis/core/validation/validation.go ValidatePodUpdate, ValidatePodStatusUpdate, ValidatePodResize,
ValidatePodEphemeralContainersUpdate (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairway.kube import names
from fairway.kube.fieldpath import MapKey, Path
from fairway.kube.internals import Typed, difference
from fairway.kube.objects import Obj, annotations_of, spec_of, status_of
from fairway.kube.problem import Faults
from fairway.kube.validation.kinds import scheduling, texts
from fairway.kube.validation.kinds.metadata import object_meta_update
from fairway.kube.validation.kinds.pods import metadata_and_spec, pod_annotations
from fairway.kube.validation.kinds.sameness import immutable, is_same
from fairway.kube.validation.kinds.selectors import sorted_map
from fairway.kube.validation.kinds.texts import MAX_INT32

Part = Mapping[str, Any]
_MIRROR = "kubernetes.io/config.mirror"
_APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_UPDATABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_NOT_NEGATIVE = "must be a non-negative integer"
_ENDED = "may not be transitioned to non-terminated state"
_SYSTEM_CONDITIONS = ("PodScheduled", "Ready", "Initialized")
_KINDS = ("containers", "initContainers")


def pod_update(new: Obj, old: Obj, out: Faults) -> None:
    object_meta_update(new, old, out, core=True)
    metadata_and_spec(new, out)
    _annotations(new, old, out)
    spec, before, at = spec_of(new), spec_of(old), ("spec",)
    for kind in _KINDS:
        if not _images(spec.get(kind) or (), before.get(kind) or (), (*at, kind), out):
            return
    if not _deadline(spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds"), at, out):
        return
    _tolerations(spec.get("tolerations") or (), before.get("tolerations") or (), (*at, "tolerations"), out)
    _gates(spec.get("schedulingGates") or (), before.get("schedulingGates") or (), at, out)
    if is_same(spec, before):
        return
    munged = _munged(spec, before)
    if before.get("schedulingGates"):
        _gated(munged, before, at, out)
    if not is_same(munged, before):
        kind = "core.PodSpec"
        out.forbidden(at, f"{_UPDATABLE}\n{difference(Typed(kind, before), Typed(kind, munged))}")


def _annotations(new: Obj, old: Obj, out: Faults) -> None:
    notes, before, at = annotations_of(new), annotations_of(old), ("metadata", "annotations")
    for key, value in before.items():
        if notes.get(key) == value:
            continue
        if key.startswith(_APP_ARMOR):
            out.forbidden((*at, MapKey(key)), "may not remove or update AppArmor annotations")
        if key == _MIRROR:
            out.forbidden((*at, MapKey(key)), "may not remove or update mirror pod annotation")
    for key in notes:
        if key not in before and key.startswith(_APP_ARMOR):
            out.forbidden((*at, MapKey(key)), "may not add AppArmor annotations")
        if key not in before and key == _MIRROR:
            out.forbidden((*at, MapKey(key)), "may not add mirror pod annotation")
    pod_annotations(notes, spec_of(new), at, out)


def _images(containers: Sequence[Part], before: Sequence[Part], at: Path, out: Faults) -> bool:
    """False: containers came or went, and nothing else is looked at."""
    if len(containers) != len(before):
        out.forbidden(at, "pod updates may not add or remove containers")
        return False
    for index, container in enumerate(containers):
        image = container.get("image") or ""
        if not image:
            out.required((*at, index, "image"))
        if image.strip() != image:
            out.invalid((*at, index, "image"), image, "must not have leading or trailing whitespace")
    return True


def _deadline(now: int | None, then: int | None, at: Path, out: Faults) -> bool:
    """False: nothing else is looked at."""
    where, before = (*at, "activeDeadlineSeconds"), len(out)
    if now is None:
        if then is not None:
            out.invalid(where, None, "must not update from a positive integer to nil value")
        return True
    if not 0 <= now <= MAX_INT32:
        out.invalid(where, now, f"must be between 0 and {MAX_INT32}, inclusive")
    elif then is not None and then < now:
        out.invalid(where, now, "must be less than or equal to previous value")
    return len(out) == before


def _tolerations(now: Sequence[Part], then: Sequence[Part], at: Path, out: Faults) -> None:
    for old in then:
        if not any(is_same({**old, "tolerationSeconds": new.get("tolerationSeconds")}, new) for new in now):
            out.forbidden(at, "existing toleration can not be modified except its tolerationSeconds")
            return
    scheduling.tolerations(now, at, out)


def _gates(now: Sequence[Part], then: Sequence[Part], at: Path, out: Faults) -> None:
    known = {gate.get("name") for gate in then}
    for index, gate in enumerate(now):
        if gate.get("name") not in known:
            said = f"only deletion is allowed, but found new scheduling gate '{gate.get('name') or ''}'"
            out.forbidden((*at, "schedulingGates", index, "name"), said)


def _munged(spec: Part, before: Part) -> dict[str, Any]:
    """The new spec with everything that may change as it was."""
    out = dict(spec)
    for kind in _KINDS:
        if spec.get(kind):
            pairs = zip(spec[kind], before[kind], strict=True)
            out[kind] = [{**new, "image": old.get("image")} for new, old in pairs]
    for name in ("activeDeadlineSeconds", "schedulingGates", "tolerations"):
        out[name] = before.get(name)
    if (before.get("terminationGracePeriodSeconds") or 0) < 0 and spec.get(
        "terminationGracePeriodSeconds"
    ) == 1:
        out["terminationGracePeriodSeconds"] = before["terminationGracePeriodSeconds"]
    return out


def _gated(munged: dict[str, Any], before: Part, at: Path, out: Faults) -> None:
    """A gated pod's scheduling directives may be tightened."""
    selector, then = munged.get("nodeSelector") or {}, before.get("nodeSelector") or {}
    if any(selector.get(key) != value for key, value in then.items()):
        said = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        out.invalid((*at, "nodeSelector"), sorted_map(munged.get("nodeSelector")), said)
    munged["nodeSelector"] = before.get("nodeSelector")
    node = (munged.get("affinity") or {}).get("nodeAffinity")
    old = (before.get("affinity") or {}).get("nodeAffinity")
    if is_same(node, old):
        return
    _node_affinity(
        node or {}, old or {}, (*at, "affinity", "nodeAffinity", _REQUIRED, "nodeSelectorTerms"), out
    )
    rest = {key: value for key, value in (munged.get("affinity") or {}).items() if key != "nodeAffinity"}
    munged["affinity"] = {**rest, "nodeAffinity": old} if old is not None else rest or None


def _node_affinity(now: Part, then: Part, at: Path, out: Faults) -> None:
    terms = (now.get(_REQUIRED) or {}).get("nodeSelectorTerms") or []
    before = (then.get(_REQUIRED) or {}).get("nodeSelectorTerms") or []
    if before and len(before) != len(terms):
        said = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        out.invalid(at, Typed("[]core.NodeSelectorTerm", terms or None), said)
        return
    for index, (term, old) in enumerate(zip(terms, before, strict=False)):
        if not _only_adds(term, old):
            said = "only additions are allowed (no mutations or deletions)"
            out.invalid((*at, index), Typed("core.NodeSelectorTerm", term), said)


def _only_adds(term: Part, old: Part) -> bool:
    names_of = ("matchExpressions", "matchFields")
    if not any(old.get(name) for name in names_of):
        return not any(term.get(name) for name in names_of)
    return all(is_same((term.get(n) or [])[: len(old[n])], old[n]) for n in names_of if old.get(n))


def pod_status(new: Obj, old: Obj, out: Faults) -> None:
    object_meta_update(new, old, out, core=True)
    _annotations(new, old, out)
    status, before, at = status_of(new), status_of(old), ("status",)
    _conditions(status.get("conditions") or (), (*at, "conditions"), out)
    nominated = status.get("nominatedNodeName") or ""
    if nominated != (before.get("nominatedNodeName") or "") and nominated:
        texts.dns_subdomain(nominated, (*at, "nominatedNodeName"), out)
        if spec_of(old).get("nodeName"):
            said = "may not be set on pods that are already bound to a node"
            out.forbidden((*at, "nominatedNodeName"), said)
    _not_negative(status, at, out)
    immutable(status.get("qosClass") or "", before.get("qosClass") or "", (*at, "qosClass"), out)
    _transitions(new, old, at, out)
    _claim_statuses(status.get("resourceClaimStatuses") or (), spec_of(new), at, out)
    _addresses(status, before, "podIPs", at, out)
    hosts = status.get("hostIPs") or ()
    if hosts:
        if (status.get("hostIP") or "") != (hosts[0].get("ip") or ""):
            out.invalid((*at, "hostIPs", 0, "ip"), hosts[0].get("ip") or "", "must be equal to `hostIP`")
        _addresses(status, before, "hostIPs", at, out)


def _not_negative(found: Part, at: Path, out: Faults) -> None:
    if (found.get("observedGeneration") or 0) < 0:
        out.invalid((*at, "observedGeneration"), found["observedGeneration"], _NOT_NEGATIVE)


def _conditions(conditions: Sequence[Part], at: Path, out: Faults) -> None:
    for index, condition in enumerate(conditions):
        _not_negative(condition, (*at, index), out)
        kind = condition.get("type") or ""
        if kind not in _SYSTEM_CONDITIONS:
            texts.qualified_name(kind, (*at, index, "Type"), out)


def _transitions(new: Obj, old: Obj, at: Path, out: Faults) -> None:
    """Containers that have ended for good stay so."""
    spec = spec_of(old)
    for kind in ("container", "initContainer", "ephemeralContainer"):
        name = f"{kind}Statuses"
        now = {s.get("name"): s for s in status_of(new).get(name) or ()}
        for index, status in enumerate(status_of(old).get(name) or ()):
            ended, found = (status.get("state") or {}).get("terminated"), now.get(status.get("name"))
            if ended is None or found is None or (found.get("state") or {}).get("terminated") is not None:
                continue
            if kind == "ephemeralContainer" or not _may_restart(
                spec, kind, status, ended.get("exitCode") or 0
            ):
                out.forbidden((*at, name, index, "state"), _ENDED)


def _may_restart(spec: Part, kind: str, status: Part, code: int) -> bool:
    """Source: podutil.ContainerShouldRestart, AllContainersCouldRestart."""
    every = [c for k in _KINDS for c in spec.get(k) or ()]
    rules = [rule for c in every for rule in c.get("restartPolicyRules") or ()]
    if any(rule.get("action") == "RestartAllContainers" for rule in rules):
        return True
    container = next((c for c in spec.get(f"{kind}s") or () if c.get("name") == status.get("name")), None)
    if container is None:
        return False
    for rule in container.get("restartPolicyRules") or ():
        codes = rule.get("exitCodes") or {}
        inside = code in (codes.get("values") or ())
        if rule.get("action") == "Restart" and inside == (codes.get("operator") == "In"):
            return True
    policy = container.get("restartPolicy") or spec.get("restartPolicy")
    return policy == "Always" or (policy == "OnFailure" and code != 0)


def _claim_statuses(statuses: Sequence[Part], spec: Part, at: Path, out: Faults) -> None:
    known = {claim.get("name") for claim in spec.get("resourceClaims") or ()}
    seen = set()
    for index, status in enumerate(statuses):
        where, name = (*at, "resourceClaimStatuses", index), status.get("name") or ""
        if name not in known:
            out.invalid((*where, "name"), name, "must match the name of an entry in `spec.resourceClaims`")
        if name in seen:
            out.duplicate((*where, "name"), name)
        seen.add(name)
        claim = status.get("resourceClaimName")
        if claim is not None:
            out.invalids((*where, "resourceClaimName"), claim, names.dns_subdomain(claim))


def _addresses(status: Part, before: Part, name: str, at: Path, out: Faults) -> None:
    found = [entry.get("ip") or "" for entry in status.get(name) or ()]
    known = [entry.get("ip") or "" for entry in before.get(name) or ()]
    for index, text in enumerate(found):
        texts.address(text, (*at, name, index), out, known)
    if len(found) > 1 and not texts.is_one_of_each_family(found):
        shown = Typed("[]core.PodIP" if name == "podIPs" else "[]core.HostIP", status[name])
        out.invalid((*at, name), shown, "may specify no more than one IP for each IP family")


def ephemeral_update(new: Obj, old: Obj, out: Faults) -> None:
    """The `ephemeralcontainers` subresource: only more of them."""
    if _MIRROR in annotations_of(old):
        out.forbidden(("",), "static pods do not support ephemeral containers")
        return
    object_meta_update(new, old, out, core=True)
    metadata_and_spec(new, out)
    _annotations(new, old, out)
    at = ("spec", "ephemeralContainers")
    now = {c.get("name"): c for c in spec_of(new).get("ephemeralContainers") or ()}
    for container in spec_of(old).get("ephemeralContainers") or ():
        name = container.get("name") or ""
        if name not in now:
            out.forbidden(at, f'existing ephemeral containers "{name}" may not be removed\n')
        elif not is_same(container, now[name]):
            kind = "core.EphemeralContainer"
            found = difference(Typed(kind, container), Typed(kind, now[name]))
            out.forbidden(at, f'existing ephemeral containers "{name}" may not be changed\n{found}')


def resize(new: Obj, old: Obj, out: Faults, qos: tuple[str, str]) -> None:
    """The `resize` subresource: cpu and memory of containers. `qos`: the pod's class now, and as it would be."""
    at = ("spec",)
    if _MIRROR in annotations_of(old):
        out.forbidden(("",), "static pods cannot be resized")
        return
    if (spec_of(old).get("os") or {}).get("name") == "windows":
        out.forbidden(("",), "windows pods cannot be resized")
        return
    object_meta_update(new, old, out, core=True)
    metadata_and_spec(new, out)
    if qos[0] != qos[1]:
        said = "Pod QOS Class may not change as a result of resizing"
        out.invalid(at, status_of(new).get("qosClass") or "", said)
    running = [
        s for s in status_of(old).get("containerStatuses") or () if (s.get("state") or {}).get("running")
    ]
    if running and running[0].get("resources") is None:
        out.forbidden(at, "Pod running on node without support for resize")
    spec, before = dict(spec_of(new)), spec_of(old)
    _pod_resources(spec, before, at, out)
    if not _in_order(spec, before, at, out):
        return
    _resized(spec, before, at, out)
    if not out and not is_same(spec, before):
        out.forbidden(at, "only cpu and memory resources are mutable")


def _pod_resources(spec: dict[str, Any], before: Part, at: Path, out: Faults) -> None:
    now, then = spec.get("resources"), before.get("resources")
    if not (now or then):
        return
    if then is not None and now is None:
        out.forbidden((*at, "resources"), "pod-level resources cannot be removed")
        return
    for side in ("requests", "limits"):
        if set((then or {}).get(side) or ()) - set((now or {}).get(side) or ()):
            said = f"pod-level resource {side} cannot be removed"
            out.forbidden((*at, "resources", side), said)
    spec["resources"] = _without_cpu_and_memory(now or {}, then or {}) or None
    if not is_same(spec["resources"], then):
        out.forbidden(at, "only cpu and memory resources are mutable at pod-level")


def _without_cpu_and_memory(now: Part, then: Part) -> dict[str, Any]:
    out = dict(now)
    for side in ("requests", "limits"):
        old = {k: v for k, v in (then.get(side) or {}).items() if k in ("cpu", "memory")}
        rest = {k: v for k, v in (now.get(side) or {}).items() if k not in ("cpu", "memory")}
        out[side] = {**rest, **old}
    return {key: value for key, value in out.items() if value}


def _in_order(spec: Part, before: Part, at: Path, out: Faults) -> bool:
    start = len(out)
    for kind in _KINDS:
        now, then = spec.get(kind) or (), before.get(kind) or ()
        if len(now) != len(then):
            out.forbidden((*at, kind), f"{kind} may not be added or removed on resize")
            continue
        for index, (container, old) in enumerate(zip(now, then, strict=True)):
            if container.get("name") != old.get("name"):
                said = f"{kind} may not be renamed or reordered on resize"
                out.forbidden((*at, kind, index, "name"), said)
    return len(out) == start


def _resized(spec: dict[str, Any], before: Part, at: Path, out: Faults) -> None:
    """Puts the old cpu and memory back into the spec, and says what else differs."""
    for kind in reversed(_KINDS):
        for index, old in enumerate(before.get(kind) or ()):
            now, then = (c.get("resources") or {} for c in (spec[kind][index], old))
            for side in ("requests", "limits"):
                if set(then.get(side) or ()) - set(now.get(side) or ()):
                    said = f"resource {side} cannot be removed"
                    out.forbidden((*at, kind, index, "resources", side), said)
    for kind in _KINDS:
        changed = []
        for index, old in enumerate(before.get(kind) or ()):
            new = spec[kind][index]
            kept = _without_cpu_and_memory(new.get("resources") or {}, old.get("resources") or {})
            kept.pop("claims", None)
            container = {**new, "resources": kept}
            if not is_same(container, old):
                is_app = kind == "containers"
                what = "only cpu and memory resources are mutable"
                init = "only cpu and memory resources for init or sidecar containers are mutable"
                out.forbidden(at if is_app else (*at, kind, index), what if is_app else init)
            elif kind == "initContainers" and not is_same(new, old):
                _not_restarted(new, (*at, kind, index), out)
            changed.append(container)
        if changed:
            spec[kind] = changed


def _not_restarted(container: Part, at: Path, out: Faults) -> None:
    if container.get("restartPolicy") == "Always":
        return
    for policy in container.get("resizePolicy") or ():
        if policy.get("restartPolicy") == "RestartContainer":
            said = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized"
            out.forbidden(at, said)
