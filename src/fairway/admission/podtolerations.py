"""ExtendedResourceToleration and DefaultTolerationSeconds: tolerations a pod gets by what it is.

Source: plugin/pkg/admission/{extendedresourcetoleration,defaulttolerationseconds}/admission.go (v1.36).
"""

from __future__ import annotations

from fairway.kube.objects import Obj
from fairway.kube.resources import is_extended


def tolerating_own_resources(pod: Obj) -> Obj:
    """The pod tolerates the taint named like each extended resource it asks for (`nvidia.com/gpu`)."""
    spec = pod.get("spec") or {}
    names = {
        name
        for field in ("containers", "initContainers")
        for container in spec.get(field) or ()
        for name in (container.get("resources") or {}).get("requests") or ()
        if is_extended(name)
    }
    tolerations = list(spec.get("tolerations") or ())
    for name in sorted(names):
        toleration = {"key": name, "operator": "Exists"}
        if toleration not in tolerations:
            tolerations.append(toleration)
    if len(tolerations) == len(spec.get("tolerations") or ()):
        return pod
    return {**pod, "spec": {**spec, "tolerations": tolerations}}
