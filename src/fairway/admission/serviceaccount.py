"""The ServiceAccount plugin: a pod runs as one, and finds its token, CA and namespace where it expects them.

The token volume's name ends in letters derived from the pod's controller or name, so that pods of one template
go on sharing one spec and a run can be repeated; in Kubernetes they are drawn by chance.

Source: plugin/pkg/admission/serviceaccount/admission.go (v1.36).
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

from fairway.cluster.actions import View
from fairway.kube.memos import memo
from fairway.kube.objects import Key, Obj, annotations_of, controller_of, dig, meta_of

PLUGIN = "ServiceAccount"
SERVICE_ACCOUNT = "ServiceAccount"
DEFAULT = "default"
MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
TOKEN_SECONDS = 3607
"""Lifetime of a mounted token. Source: pkg/serviceaccount WarnOnlyBoundTokenExpirationPeriod."""

_LETTERS = "bcdfghjklmnpqrstvwxz2456789"

# Specs with the account filled in, by the identity of the spec that came in (kept alive beside it).
_KNOWN: dict[tuple[int, str, int, str], tuple[Any, Any, dict[str, Any]]] = memo()
_MAX_KNOWN = 16384


def accounted(view: View, pod: Obj, namespace: str, *, mounts_token: bool = True) -> Obj | str:
    """The pod with its service account, or why it may not have it (the text after `is forbidden: `).

    Unlike kube: the account `default` need not be there yet; Kubernetes refuses pods until its controller made it.
    """
    spec = pod.get("spec") or {}
    if MIRROR_ANNOTATION in annotations_of(pod):
        return _mirror(pod, spec)
    name = spec.get("serviceAccountName") or spec.get("serviceAccount") or DEFAULT
    account = view.get(Key(SERVICE_ACCOUNT, namespace, name))
    if account is None and name != DEFAULT:
        return _missing(namespace, name)
    suffix = _suffix(namespace, pod) if mounts_token else ""
    key = (id(spec), namespace, id(account), suffix)
    known = _KNOWN.get(key)
    if known is None:
        if len(_KNOWN) >= _MAX_KNOWN:
            _KNOWN.clear()
        known = _KNOWN[key] = (spec, account, _filled(spec, name, account, suffix))
    return pod if known[2] is spec else {**pod, "spec": known[2]}


def _mirror(pod: Obj, spec: dict[str, Any]) -> Obj | str:
    if spec.get("serviceAccountName"):
        return "a mirror pod may not reference service accounts"
    if any(v.get("secret") for v in spec.get("volumes") or ()):
        return "a mirror pod may not reference secrets"
    return pod


def _filled(spec: dict[str, Any], name: str, account: Obj | None, suffix: str) -> dict[str, Any]:
    filled = {**spec, "serviceAccountName": name, "serviceAccount": name}
    if suffix and _mounts_token(spec, account):
        filled = _with_token(filled, suffix)
    if not spec.get("imagePullSecrets") and account is not None and account.get("imagePullSecrets"):
        filled["imagePullSecrets"] = list(account["imagePullSecrets"])
    return spec if filled == spec else filled


def _mounts_token(spec: dict[str, Any], account: Obj | None) -> bool:
    """The pod's word counts first, then the account's."""
    for holder in (spec, account or {}):
        wish = holder.get("automountServiceAccountToken")
        if wish is not None:
            return bool(wish)
    return True


def _with_token(spec: dict[str, Any], suffix: str) -> dict[str, Any]:
    """Every container that has nothing at the path yet mounts one projected volume."""
    existing = next((v["name"] for v in spec.get("volumes") or () if _is_token_volume(v)), None)
    name = existing or f"kube-api-access-{suffix}"
    filled, needs_volume = dict(spec), False
    for field in ("initContainers", "containers"):
        containers = []
        for container in spec.get(field) or ():
            mounts = container.get("volumeMounts") or ()
            if not any(m.get("mountPath") == MOUNT_PATH for m in mounts):
                mount = {"name": name, "readOnly": True, "mountPath": MOUNT_PATH}
                container = {**container, "volumeMounts": [*mounts, mount]}
                needs_volume = True
            containers.append(container)
        if containers:
            filled[field] = containers
    if needs_volume and existing is None:
        filled["volumes"] = [*(spec.get("volumes") or ()), _token_volume(name)]
    return filled if needs_volume else spec


def _is_token_volume(volume: dict[str, Any]) -> bool:
    return str(volume.get("name", "")).startswith("kube-api-access-")


def _token_volume(name: str) -> dict[str, Any]:
    token = {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}}
    certificate = {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    field = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
    own = {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": field}]}}
    sources = [token, {"configMap": certificate}, own]
    return {"name": name, "projected": {"sources": sources, "defaultMode": 420}}


def _suffix(namespace: str, pod: Obj) -> str:
    meta = meta_of(pod)
    owner = (controller_of(pod) or {}).get("uid")
    subject = f"{namespace}/{owner or meta.get('name') or meta.get('generateName') or ''}"
    digest = int.from_bytes(blake2b(subject.encode(), digest_size=8).digest())
    letters = []
    for _ in range(5):
        digest, letter = divmod(digest, len(_LETTERS))
        letters.append(_LETTERS[letter])
    return "".join(letters)


def refusal(view: View, pod: Obj, namespace: str) -> str | None:
    """What the finished pod may not have."""
    name = dig(pod, "spec", "serviceAccountName")
    if not name or name == DEFAULT or MIRROR_ANNOTATION in annotations_of(pod):
        return None
    found = view.get(Key(SERVICE_ACCOUNT, namespace, name))
    return _missing(namespace, name) if found is None else None


def _missing(namespace: str, name: str) -> str:
    return f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'
