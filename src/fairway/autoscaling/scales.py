"""Which field of which kind is the number of replicas? The scale subresource, wherever it is asked for.

Built-in workloads have it at the usual place; a CustomResourceDefinition declares where; of kinds that Fairway serves
without their definition the places are below.

Source: pkg/registry/apps (ScaleREST), apiextensions scale subresource, LeaderWorkerSet's and Argo Rollouts'
definitions (v1.36, v0.8, v1.8).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple, Protocol

from fairway.kube.kinds import BY_GROUP_KIND, group_kind
from fairway.kube.labels import label_selector, set_selector
from fairway.kube.objects import Key, Obj, dig


class Paths(NamedTuple):
    """Dotted paths: replicas wanted and counted; where a selector is text, else it is `spec.selector`."""

    wanted: str = "spec.replicas"
    there: str = "status.replicas"
    selector: str = ""


PLAIN: Final = Paths()
_KNOWN: Final = {
    "Deployment.apps": PLAIN,
    "ReplicaSet.apps": PLAIN,
    "StatefulSet.apps": PLAIN,
    "ReplicationController": PLAIN,
    "LeaderWorkerSet.leaderworkerset.x-k8s.io": Paths(selector="status.hpaPodSelector"),
    "Rollout.argoproj.io": Paths(there="status.HPAReplicas", selector="status.selector"),
}
_NO_SUBRESOURCE: Final = "the server could not find the requested resource"


class Scale(NamedTuple):
    """A target's scale: replicas wanted and counted, and the text of its selector."""

    wanted: int
    there: int
    selector: str


class Objects(Protocol):
    """What is read of a store."""

    def get(self, key: Key) -> Obj | None: ...
    def objects(self, gk: str, namespace: str | None = None) -> Iterable[Obj]: ...


class Target(NamedTuple):
    """A scale and where it stands."""

    key: Key
    paths: Paths
    scale: Scale


def declared_paths(scale: dict[str, Any] | None) -> Paths:
    """Of a CustomResourceDefinition's `subresources.scale`."""
    told = scale or {}
    return Paths(
        (told.get("specReplicasPath") or ".spec.replicas").lstrip("."),
        (told.get("statusReplicasPath") or ".status.replicas").lstrip("."),
        (told.get("labelSelectorPath") or "").lstrip("."),
    )


def scale_at(obj: Obj, paths: Paths) -> Scale:
    """An object's scale."""
    return Scale(
        dig(obj, *paths.wanted.split(".")) or 0,
        dig(obj, *paths.there.split(".")) or 0,
        selector_text(obj, paths.selector),
    )


def selector_text(obj: Obj, path: str) -> str:
    if path:
        return str(dig(obj, *path.split(".")) or "")
    raw = dig(obj, "spec", "selector")
    if raw is None:
        return ""
    if "matchLabels" not in raw and "matchExpressions" not in raw:
        return str(set_selector(raw))
    return str(label_selector(raw))


def with_replicas(path: str, replicas: int) -> dict[str, Any]:
    """The merge patch that sets them."""
    patch: Any = replicas
    for member in reversed(path.split(".")):
        patch = {member: patch}
    return dict(patch)


def target_of(view: Objects, namespace: str, ref: dict[str, Any]) -> Target | str:
    """The target of a `scaleTargetRef`, or the API server's words where it cannot be had."""
    version, kind = ref.get("apiVersion") or "", ref.get("kind") or ""
    if version.count("/") > 1:
        return f"unexpected GroupVersion string: {version}"
    group = version.rpartition("/")[0]
    gk = group_kind(version, kind)
    paths, plural = paths_of(view, gk)
    if not plural:
        return f'no matches for kind "{kind}" in group "{group}"'
    if paths is None:
        return _NO_SUBRESOURCE
    obj = view.get(Key(gk, namespace, ref["name"]))
    if obj is None:
        resource = f"{plural}.{group}" if group else plural
        return f'{resource} "{ref["name"]}" not found'
    return Target(Key(gk, namespace, ref["name"]), paths, scale_at(obj, paths))


def paths_of(view: Objects, gk: str) -> tuple[Paths | None, str]:
    """Where a kind keeps its replicas (None: it has no scale), and its plural ("": there is no such kind)."""
    known = BY_GROUP_KIND.get(gk)
    if gk in _KNOWN and (known is not None or _definition(view, gk) is not None):
        return _KNOWN[gk], known.plural if known else _plural(view, gk)
    definition = _definition(view, gk)
    if definition is not None:
        for version in definition["spec"].get("versions") or ():
            scale = (version.get("subresources") or {}).get("scale")
            if scale:
                return declared_paths(scale), definition["spec"]["names"]["plural"]
        return None, definition["spec"]["names"]["plural"]
    return None, known.plural if known else ""


def _plural(view: Objects, gk: str) -> str:
    definition = _definition(view, gk)
    return "" if definition is None else str(definition["spec"]["names"]["plural"])


def _definition(view: Objects, gk: str) -> Obj | None:
    kind, _, group = gk.partition(".")
    for found in view.objects("CustomResourceDefinition.apiextensions.k8s.io"):
        spec = found["spec"]
        if spec.get("group") == group and spec["names"]["kind"] == kind:
            return found
    return None
