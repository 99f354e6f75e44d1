"""From a pod template to a pod: what a controller writes into what it creates.

Source: pkg/controller/controller_utils.go (v1.36) GetPodFromTemplate, ComputeHash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from fairway.cluster.actions import View
from fairway.cluster.metadata import generated_suffix
from fairway.kube.objects import Key, Obj, meta_of

# apiserver pkg/storage/names: a generated name is at most 63 characters, 5 of them random.
MAX_GENERATED_PREFIX_LENGTH: Final = 58

# More names than any one decision asks for, so that names of two versions never meet.
_NAMES_PER_VERSION: Final = 4096

_SAFE: Final = "bcdfghjklmnpqrstvwxz2456789"
# What hashes were worked out of, by identity.
_HASHES: Final[dict[tuple[int, int], tuple[object, str]]] = {}
_HASHES_KEPT: Final = 65_536

_encode = msgspec.json.Encoder(order="deterministic").encode


def pod_from_template(
    template: dict[str, Any],
    *,
    namespace: str,
    owner_references: list[dict[str, Any]],
    name: str,
    generate_name: str = "",
) -> Obj:
    """A pod of this template. Its spec is the template's own dict: pods of one shape share it."""
    given = meta_of(template)
    meta: dict[str, Any] = {"name": name, "namespace": namespace, "ownerReferences": owner_references}
    if generate_name:
        meta["generateName"] = generate_name
    for field in ("labels", "annotations", "finalizers"):
        if given.get(field):
            meta[field] = given[field]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": template.get("spec") or {}}


def owned_by(owner: Obj, api_version: str, kind: str) -> list[dict[str, Any]]:
    """The owner references of what this controller creates."""
    meta: Obj = owner["metadata"]
    ref = {
        "apiVersion": api_version,
        "kind": kind,
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return [ref]


def fresh_names(view: View, gk: str, namespace: str, prefix: str, owner_uid: str) -> Iterator[str]:
    """Names with this prefix that no object of the kind has: the same for the same view, never used twice.

    Unlike kube: the API server draws them; here the decision does, so that its events can name the pods.
    """
    stem = prefix[:MAX_GENERATED_PREFIX_LENGTH]
    seed = _number(owner_uid)
    serial = view.version * _NAMES_PER_VERSION
    while True:
        serial += 1
        name = stem + generated_suffix(seed, serial)
        if view.get(Key(gk, namespace, name)) is None:
            yield name


def _number(uid: str) -> int:
    """A UID as a number; 0 for one that is none, as in hand-written dumps."""
    try:
        return int(uid.replace("-", ""), 16)
    except ValueError:
        return 0


def generate_name_prefix(owner_name: str) -> str:
    """`{owner}-`, without the dash where that would make no valid name. Source: getPodsPrefix."""
    return f"{owner_name}-" if len(owner_name) < 252 else owner_name


def stable_hash(value: object, collision_count: int = 0) -> str:
    """Ten letters of Kubernetes' safe alphabet for any plain value; the same in every run.

    Unlike kube: upstream's is FNV-32a over Go's printing of the struct, which nothing outside Go can repeat.

    Objects are never changed, and the template of a Deployment is the same one through all of its status: what was
    worked out of it is kept.
    """
    known = _HASHES.get((id(value), collision_count))
    if known is not None:
        return known[1]
    digest = hashlib.blake2b(_encode(value), digest_size=8)
    if collision_count:
        digest.update(str(collision_count).encode())
    n = int.from_bytes(digest.digest(), "big")
    letters = []
    for _ in range(10):
        n, i = divmod(n, len(_SAFE))
        letters.append(_SAFE[i])
    text = "".join(letters)
    if len(_HASHES) >= _HASHES_KEPT:
        _HASHES.clear()
    # With the value itself, so that nothing else gets its identity.
    _HASHES[(id(value), collision_count)] = (value, text)
    return text
