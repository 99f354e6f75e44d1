"""Which ConfigMaps and Secrets does a pod need before it can start, and what of them is missing?

A volume that is not there keeps the whole pod from starting (`FailedMount`); a variable keeps its container from
starting (`CreateContainerConfigError`). What is `optional` keeps nobody.

Source: pkg/volume/{configmap,secret,projected}, pkg/kubelet/kubelet_pods.go makeEnvironmentVariables (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from fairway.cluster.actions import View
from fairway.kube.memos import memo
from fairway.kube.objects import Key

_WORDS: Final = {"ConfigMap": "configmap", "Secret": "secret"}
_REFERENCES: Final = {
    "ConfigMap": "configmap references non-existent config key",
    "Secret": "references non-existent secret key",
}
# Every namespace of a cluster has it; of simulations' namespaces nobody says so.
_ALWAYS_THERE: Final = "kube-root-ca.crt"
_MAX_KNOWN: Final = 4096


class Reference(NamedTuple):
    """One object and the keys wanted of it (none: all there are). `volume` is empty for variables."""

    kind: str
    name: str
    keys: tuple[str, ...]
    volume: str = ""


_MOUNTS: Final[dict[int, tuple[Any, tuple[Reference, ...]]]] = memo()


def mounts_of(volumes: list[dict[str, Any]]) -> tuple[Reference, ...]:
    """What these volumes need; worked out once per list (pods of one template share it)."""
    known = _MOUNTS.get(id(volumes))
    if known is None or known[0] is not volumes:
        if len(_MOUNTS) >= _MAX_KNOWN:
            _MOUNTS.clear()
        known = _MOUNTS[id(volumes)] = (volumes, tuple(_mounted(volumes)))
    return known[1]


def _mounted(volumes: list[dict[str, Any]]) -> Iterable[Reference]:
    for volume in volumes:
        name = str(volume.get("name") or "")
        sources = [volume, *((volume.get("projected") or {}).get("sources") or ())]
        for source in sources:
            for field, kind, named in (
                ("configMap", "ConfigMap", "name"),
                ("secret", "Secret", "secretName" if source is volume else "name"),
            ):
                asked = source.get(field)
                if asked and asked.get(named) and not asked.get("optional") and asked[named] != _ALWAYS_THERE:
                    keys = tuple(str(item.get("key")) for item in asked.get("items") or ())
                    yield Reference(kind, str(asked[named]), keys, name)


def variables_of(container: Mapping[str, Any]) -> tuple[Reference, ...]:
    """What a container's environment needs."""
    found = []
    for source in container.get("envFrom") or ():
        for field, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
            asked = source.get(field)
            if asked and asked.get("name") and not asked.get("optional"):
                found.append(Reference(kind, str(asked["name"]), ()))
    for variable in container.get("env") or ():
        source = variable.get("valueFrom") or {}
        for field, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
            asked = source.get(field)
            if asked and asked.get("name") and not asked.get("optional"):
                found.append(Reference(kind, str(asked["name"]), (str(asked.get("key")),)))
    return tuple(found)


def missing(view: View, namespace: str, wanted: Iterable[Reference]) -> tuple[Reference, str] | None:
    """The first that is not there, and the kubelet's words for it."""
    for reference in wanted:
        found = view.get(Key(reference.kind, namespace, reference.name))
        word = _WORDS[reference.kind]
        if found is None:
            return reference, f'{word} "{reference.name}" not found'
        held = {
            **(found.get("data") or {}),
            **(found.get("binaryData") or {}),
            **(found.get("stringData") or {}),
        }
        for key in reference.keys:
            if key not in held:
                if not reference.volume:
                    return (
                        reference,
                        f"couldn't find key {key} in {reference.kind} {namespace}/{reference.name}",
                    )
                return reference, f"{_REFERENCES[reference.kind]}: {key}"
    return None
