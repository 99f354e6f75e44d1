"""Which of a node's devices does a container get? The choice of the device plugin and the kubelet.

Whole cards: the lowest that are free. Shared ones: of the card or instance that fewest have (the plugin's policy
`distributed`). Unhealthy cards are given to nobody.

Source: k8s-device-plugin 0.20 internal/rm/allocate.go; pkg/kubelet/cm/devicemanager.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from fairway.catalog.nodegpus import NodeGpus
from fairway.devices.pluginconfig import GPU

SHARED = ".shared"


def devices_of(gpus: NodeGpus, resource: str, strategy: str) -> tuple[str, ...]:
    """Devices behind a resource: a card `3`, an instance `3/1g.10gb@4`. `strategy`: MIG's, as the node's label says."""
    name = resource.removesuffix(SHARED)
    found = []
    for card, layout in enumerate(gpus.layouts):
        if layout is None or strategy in ("", "none"):
            found += [str(card)] if name == GPU else []
        else:
            found += [
                f"{card}/{at}"
                for at in layout
                if name == (GPU if strategy == "single" else at.profile.resource)
            ]
    return tuple(found)


def assigned(
    gpus: NodeGpus,
    wanted: Mapping[str, int],
    capacity: Mapping[str, int],
    strategy: str,
    taken: Iterable[str],
) -> list[str]:
    """Devices for these amounts beside those taken (one entry a share); fewer where there are not enough."""
    used, chosen = Counter(taken), list[str]()
    for resource, amount in sorted(wanted.items()):
        devices = devices_of(gpus, resource, strategy)
        if not devices:
            continue
        replicas = max(capacity.get(resource, 0) // len(devices), 1)
        well = [d for d in devices if int(d.partition("/")[0]) not in gpus.unhealthy]
        for _ in range(min(amount, replicas * len(devices))):
            free = [d for d in well if used[d] < replicas]
            if not free:
                break
            best = min(free, key=lambda d: (used[d], devices.index(d)))
            used[best] += 1
            chosen.append(best)
    return chosen
