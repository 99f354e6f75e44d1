"""Which container of a pod is meant?

Source: pkg/registry/core/pod/strategy.go LogLocation, streamLocation (v1.36).
"""

from __future__ import annotations

from fairway.apiserver.statuses import bad_request
from fairway.kube.objects import Obj


def container_named(pod: Obj, asked: str) -> str:
    """Raises: StatusError (400) where it is not clear, or not there."""
    spec, meta = pod["spec"], pod["metadata"]
    names = [c["name"] for c in spec.get("containers") or ()]
    inits = [c["name"] for c in spec.get("initContainers") or ()]
    if asked:
        if asked not in (*names, *inits):
            raise bad_request(f"container {asked} is not valid for pod {meta['name']}")
        return asked
    if len(names) == 1:
        return str(names[0])
    said = f"a container name must be specified for pod {meta['name']}, choose one of: [{' '.join(names)}]"
    raise bad_request(said + (f" or one of the init containers: [{' '.join(inits)}]" if inits else ""))
