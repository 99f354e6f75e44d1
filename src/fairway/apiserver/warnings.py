"""What does kube-apiserver warn of when it lets an object in?

Fields that will not do what they seem to: variables hidden by later ones, deprecated annotations and node labels, names
that make awkward host names. Warnings go to whoever writes; the object is stored as it is.

Source: pkg/api/{pod,service,job,persistentvolume,persistentvolumeclaim,storage,node}/warnings.go,
pkg/registry/{networking/ingress,apps,batch}/…/strategy.go WarningsOnCreate (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from fairway.kube import names, quantity
from fairway.kube.objects import Obj, annotations_of, dig, gk_of, name_of, spec_of

_NODE_LABELS = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": (
        'deprecated since v1.17; use "topology.kubernetes.io/region" instead'
    ),
    "failure-domain.beta.kubernetes.io/zone": (
        'deprecated since v1.17; use "topology.kubernetes.io/zone" instead'
    ),
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
}
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_CLASS_WARNING = 'deprecated since v1.8; use "storageClassName" attribute instead'
_POD_ANNOTATIONS = {
    "scheduler.alpha.kubernetes.io/critical-pod": (
        'non-functional in v1.16+; use the "priorityClassName" field instead'
    ),
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "security.alpha.kubernetes.io/unsafe-sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
}
_SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
_APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
_VOLUMES = {
    "gitRepo": "deprecated in v1.11",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}
_BYTES = ("memory", "ephemeral-storage")
_HOSTNAME = "which can result in surprising behavior; a DNS label is recommended"
_INGRESS_CLASS = "kubernetes.io/ingress.class"


def warnings(obj: Obj) -> list[str]:
    """The sentences for a new object, or a new state of one. O(size of its spec)."""
    find = _BY_KIND.get(gk_of(obj))
    return list(find(obj)) if find is not None else []


def _pod(pod: Obj) -> Iterator[str]:
    said = names.dns_label(name_of(pod)) if name_of(pod) else ()
    if said:
        yield f"metadata.name: this is used in the Pod's hostname, {_HOSTNAME}: [{' '.join(said)}]"
    yield from _template(pod, "")


def _template(template: Obj, at: str) -> Iterator[str]:
    """`at`: what stands before `spec`, with its dot."""
    spec = template.get("spec") or {}
    yield from _node_terms(spec, f"{at}spec")
    for index, volume in enumerate(spec.get("volumes") or ()):
        for kind, why in _VOLUMES.items():
            if volume.get(kind) is not None:
                yield f"{at}spec.volumes[{index}].{kind}: {why}"
    yield from _annotations(template, at)
    yield from _repeated_names(spec, at)
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or ()):
            yield from _container(container, f"{at}spec.{field}[{index}]")
    grace = spec.get("terminationGracePeriodSeconds")
    if grace is not None and grace < 0:
        yield (
            f"{at}spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be "
            "treated as 1"
        )
    yield from _affinity(spec.get("affinity") or {}, f"{at}spec.affinity")


def _node_terms(spec: dict[str, Any], at: str) -> Iterator[str]:
    for key in sorted(spec.get("nodeSelector") or ()):
        if key in _NODE_LABELS:
            yield f"{at}.nodeSelector[{key}]: {_NODE_LABELS[key]}"
    node = "affinity", "nodeAffinity"
    wanted = dig(spec, *node, "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms") or ()
    where = f"{at}.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    for index, term in enumerate(wanted):
        yield from _node_expressions(term, f"{where}[{index}]")
    liked = dig(spec, *node, "preferredDuringSchedulingIgnoredDuringExecution") or ()
    where = f"{at}.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution"
    for index, term in enumerate(liked):
        yield from _node_expressions(term.get("preference") or {}, f"{where}[{index}].preference")
    for index, spread in enumerate(spec.get("topologySpreadConstraints") or ()):
        key = spread.get("topologyKey")
        if key in _NODE_LABELS:
            yield f"{at}.topologySpreadConstraints[{index}].topologyKey: {key} is {_NODE_LABELS[key]}"
        if spread.get("labelSelector") is None:
            why = "a null labelSelector results in matching no pod"
            yield f"{at}.topologySpreadConstraints[{index}].labelSelector: {why}"


def _node_expressions(term: dict[str, Any], at: str) -> Iterator[str]:
    for index, expression in enumerate(term.get("matchExpressions") or ()):
        key = expression.get("key")
        if key in _NODE_LABELS:
            yield f"{at}.matchExpressions[{index}].key: {key} is {_NODE_LABELS[key]}"


def _annotations(template: Obj, at: str) -> Iterator[str]:
    for key in sorted(annotations_of(template)):
        where = f"{at}metadata.annotations[{key}]"
        if key in _POD_ANNOTATIONS:
            yield f"{where}: {_POD_ANNOTATIONS[key]}"
        elif key == _SECCOMP_POD or key.startswith(_SECCOMP_CONTAINER):
            yield f'{where}: non-functional in v1.27+; use the "seccompProfile" field instead'
        elif key.startswith(_APPARMOR):
            yield f'{where}: deprecated since v1.30; use the "appArmorProfile" field instead'


def _repeated_names(spec: dict[str, Any], at: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, secret in enumerate(spec.get("imagePullSecrets") or ()):
        name = secret.get("name") or ""
        if not name:
            yield f'{at}spec.imagePullSecrets[{index}]: invalid empty name ""'
        elif name in seen:
            yield f'{at}spec.imagePullSecrets[{index}].name: duplicate name "{name}"'
        seen.add(name)
    addresses: set[str] = set()
    for index, alias in enumerate(spec.get("hostAliases") or ()):
        if alias.get("ip") in addresses:
            yield f'{at}spec.hostAliases[{index}].ip: duplicate ip "{alias["ip"]}"'
        addresses.add(alias.get("ip") or "")


def _container(container: dict[str, Any], at: str) -> Iterator[str]:
    for side in ("limits", "requests"):
        amounts = (container.get("resources") or {}).get(side) or {}
        for name in _BYTES:
            if name in amounts and quantity.parse(str(amounts[name])).denominator != 1:
                why = f'fractional byte value "{amounts[name]}" is invalid, must be an integer'
                yield f"{at}.resources.{side}[{name}]: {why}"
    variables: set[str] = set()
    for index, variable in enumerate(container.get("env") or ()):
        name = variable.get("name") or ""
        if name in variables and not _refers_to_itself(variable):
            why = f'hides previous definition of "{name}", which may be dropped when using apply'
            yield f"{at}.env[{index}]: {why}"
        variables.add(name)
    ports: dict[tuple[Any, Any, Any], int] = {}
    for index, port in enumerate(container.get("ports") or ()):
        key = (port.get("containerPort"), port.get("protocol") or "TCP", port.get("hostPort"))
        if key in ports:
            yield f"{at}.ports[{index}]: duplicate port definition with {at}.ports[{ports[key]}]"
        ports.setdefault(key, index)


def _refers_to_itself(variable: dict[str, Any]) -> bool:
    """`$(NAME)` adds to the former value rather than hiding it."""
    return f"$({variable.get('name')})" in (variable.get("value") or "")


def _affinity(affinity: dict[str, Any], at: str) -> Iterator[str]:
    why = "a null labelSelector results in matching no pod"
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(kind) or {}
        field = "requiredDuringSchedulingIgnoredDuringExecution"
        for index, term in enumerate(rules.get(field) or ()):
            if term.get("labelSelector") is None:
                yield f"{at}.{kind}.{field}[{index}].labelSelector: {why}"
        field = "preferredDuringSchedulingIgnoredDuringExecution"
        for index, term in enumerate(rules.get(field) or ()):
            if (term.get("podAffinityTerm") or {}).get("labelSelector") is None:
                yield f"{at}.{kind}.{field}[{index}].podAffinityTerm.labelSelector: {why}"


def _controller(obj: Obj) -> Iterator[str]:
    yield from _template(spec_of(obj).get("template") or {}, "spec.template.")
    if gk_of(obj) == "StatefulSet.apps":
        for index, claim in enumerate(spec_of(obj).get("volumeClaimTemplates") or ()):
            yield from _claim_spec(claim.get("spec") or {}, f"spec.volumeClaimTemplates[{index}].spec")


def _job(job: Obj) -> Iterator[str]:
    yield from _job_name(name_of(job))
    yield from _template(spec_of(job).get("template") or {}, "spec.template.")


def _cron_job(obj: Obj) -> Iterator[str]:
    yield from _job_name(name_of(obj))
    template = dig(spec_of(obj), "jobTemplate", "spec", "template") or {}
    yield from _template(template, "spec.jobTemplate.spec.template.")


def _job_name(name: str) -> Iterator[str]:
    said = names.dns_label(name) if name else ()
    if said:
        yield f"metadata.name: this is used in Pod names and hostnames, {_HOSTNAME}: [{' '.join(said)}]"


def _service(service: Obj) -> Iterator[str]:
    spec = spec_of(service)
    if spec.get("clusterIP") == "None" and spec.get("type") in (None, "ClusterIP"):
        if spec.get("loadBalancerIP"):
            yield "spec.loadBalancerIP is ignored for headless services"
        if spec.get("externalIPs"):
            yield "spec.externalIPs is ignored for headless services"
        if spec.get("sessionAffinity") not in (None, "None"):
            yield "spec.SessionAffinity is ignored for headless services"
    if spec.get("type") == "ExternalName" and spec.get("externalIPs"):
        yield 'spec.externalIPs is ignored when spec.type is "ExternalName"'


def _ingress(ingress: Obj) -> Iterator[str]:
    if _INGRESS_CLASS in annotations_of(ingress):
        yield f"annotation \"{_INGRESS_CLASS}\" is deprecated, please use 'spec.ingressClassName' instead"


def _volume(volume: Obj) -> Iterator[str]:
    if _CLASS_ANNOTATION in annotations_of(volume):
        yield f"metadata.annotations[{_CLASS_ANNOTATION}]: {_CLASS_WARNING}"
    if spec_of(volume).get("persistentVolumeReclaimPolicy") == "Recycle":
        yield (
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended "
            "approach is to use dynamic provisioning."
        )


def _claim(claim: Obj) -> Iterator[str]:
    if _CLASS_ANNOTATION in annotations_of(claim):
        yield f"metadata.annotations[{_CLASS_ANNOTATION}]: {_CLASS_WARNING}"
    yield from _claim_spec(spec_of(claim), "spec")


def _claim_spec(spec: dict[str, Any], at: str) -> Iterator[str]:
    for side in ("requests", "limits"):
        value = dig(spec, "resources", side, "storage")
        if value is not None and quantity.parse(str(value)).denominator != 1:
            why = f'fractional byte value "{value}" is invalid, must be an integer'
            yield f"{at}.resources.{side}[storage]: {why}"


_BY_KIND: dict[str, Callable[[Obj], Iterator[str]]] = {
    "Pod": _pod,
    "ReplicationController": _controller,
    "Deployment.apps": _controller,
    "ReplicaSet.apps": _controller,
    "StatefulSet.apps": _controller,
    "DaemonSet.apps": _controller,
    "Job.batch": _job,
    "CronJob.batch": _cron_job,
    "Service": _service,
    "Ingress.networking.k8s.io": _ingress,
    "PersistentVolume": _volume,
    "PersistentVolumeClaim": _claim,
}
