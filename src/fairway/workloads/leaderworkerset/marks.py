"""What the pods of a LeaderWorkerSet bear: labels, annotations and the variables of their containers.

Leaders and workers come from StatefulSets; the webhook adds to each what only its name tells.

Source: lws api/leaderworkerset/v1/leaderworkerset_types.go, pkg/webhooks/pod_webhook.go, pkg/utils/pod/pod_utils.go.
"""

from __future__ import annotations

import hashlib
from typing import Any

from fairway.kube.integers import natural
from fairway.kube.objects import Obj, annotations_of, labels_of, spec_of

PREFIX = "leaderworkerset.sigs.k8s.io/"
SET_NAME = PREFIX + "name"
GROUP_INDEX = PREFIX + "group-index"
WORKER_INDEX = PREFIX + "worker-index"
GROUP_KEY = PREFIX + "group-key"
REVISION = PREFIX + "template-revision-hash"
SIZE = PREFIX + "size"
REPLICAS = PREFIX + "replicas"
LEADER_NAME = PREFIX + "leader-name"
EXCLUSIVE = PREFIX + "exclusive-topology"
SUBDOMAIN_POLICY = PREFIX + "subdomainPolicy"
SUBGROUP_INDEX = PREFIX + "subgroup-index"
SUBGROUP_SIZE = PREFIX + "subgroup-size"
SUBGROUP_KEY = PREFIX + "subgroup-key"


def is_member(pod: Obj) -> bool:
    return SET_NAME in labels_of(pod)


def is_leader(pod: Obj) -> bool:
    return labels_of(pod).get(WORKER_INDEX) == "0"


def parent_and_ordinal(name: str) -> tuple[str, int]:
    """`lws-1-3` → (`lws-1`, 3); -1 where the name ends otherwise."""
    parent, _, ordinal = name.rpartition("-")
    return (parent, int(ordinal)) if ordinal.isdigit() else ("", -1)


def injected(pod: Obj) -> Obj:
    """The pod as the webhook lets it in."""
    meta, spec = pod["metadata"], spec_of(pod)
    labels, annotations = dict(labels_of(pod)), annotations_of(pod)
    _, ordinal = parent_and_ordinal(meta["name"])
    size = natural(annotations.get(SIZE))
    if ordinal < 0 or not size:
        return pod
    if labels.get(WORKER_INDEX) == "0":
        labels.setdefault(GROUP_INDEX, str(ordinal))
        labels.setdefault(GROUP_KEY, group_key(meta["namespace"], meta["name"]))
        if annotations.get(SUBDOMAIN_POLICY) == "UniquePerReplica":
            spec = {**spec, "subdomain": meta["name"]}
        if EXCLUSIVE in annotations:
            spec = _exclusive(spec, annotations[EXCLUSIVE], labels[GROUP_KEY])
        if SUBGROUP_SIZE in annotations:
            labels.setdefault(SUBGROUP_INDEX, "0")
            labels.setdefault(SUBGROUP_KEY, group_key(meta["name"], "0"))
    else:
        labels[WORKER_INDEX] = str(ordinal)
        subgroup = natural(annotations.get(SUBGROUP_SIZE))
        if subgroup:
            index = _subgroup(size, subgroup, ordinal)
            labels.setdefault(SUBGROUP_INDEX, index)
            labels.setdefault(SUBGROUP_KEY, group_key(annotations.get(LEADER_NAME, ""), index))
    address = (
        f"{labels[SET_NAME]}-{labels.get(GROUP_INDEX, '')}.{spec.get('subdomain', '')}.{meta['namespace']}"
    )
    env = {
        "LWS_LEADER_ADDRESS": address,
        "LWS_GROUP_SIZE": str(size),
        "LWS_WORKER_INDEX": labels[WORKER_INDEX],
    }
    for field in ("containers", "initContainers"):
        if spec.get(field):
            spec = {**spec, field: [_with_variables(c, env) for c in spec[field]]}
    return {**pod, "metadata": {**meta, "labels": labels}, "spec": spec}


def _with_variables(container: dict[str, Any], env: dict[str, str]) -> dict[str, Any]:
    """Ours come first, so that others may refer to them."""
    own = [{"name": name, "value": value} for name, value in env.items()]
    return {**container, "env": [*own, *(v for v in container.get("env") or () if v.get("name") not in env)]}


def group_key(namespace: str, name: str) -> str:
    return hashlib.sha1(f"{namespace}/{name}".encode(), usedforsecurity=False).hexdigest()


def _subgroup(size: int, subgroup_size: int, worker: int) -> str:
    if (size - 1) % subgroup_size == 0 and size % subgroup_size != 0:
        # The leader is one more in the first subgroup.
        return str((worker - 1) // subgroup_size)
    return str(worker // subgroup_size)


def _exclusive(spec: dict[str, Any], topology_key: str, key: str) -> dict[str, Any]:
    """The group shares a domain, with no other group."""
    here = {"key": GROUP_KEY, "operator": "In", "values": [key]}
    others: list[dict[str, Any]] = [
        {"key": GROUP_KEY, "operator": "Exists"},
        {"key": GROUP_KEY, "operator": "NotIn", "values": [key]},
    ]
    return with_affinity(spec, topology_key, [here], others)


def with_affinity(
    spec: dict[str, Any],
    topology_key: str,
    here: list[dict[str, Any]],
    others: list[dict[str, Any]],
    **more: Any,
) -> dict[str, Any]:
    """The pod spec with a required affinity to pods `here` and anti-affinity to `others`, in one domain."""
    affinity = dict(spec.get("affinity") or {})
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    for kind, expressions in (("podAffinity", here), ("podAntiAffinity", others)):
        given = affinity.get(kind) or {}
        term = {"labelSelector": {"matchExpressions": expressions}, "topologyKey": topology_key, **more}
        affinity[kind] = {**given, required: [*(given.get(required) or ()), term]}
    return {**spec, "affinity": affinity}
