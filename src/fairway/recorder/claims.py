"""How much of GPUs do pods hold by claims, and how many GPUs does a node publish for them?

Of NVIDIA's DRA driver: a whole device is a GPU, an instance its part of one, and of a device that several claims share
each has as much as it has of its memory. A claim that several pods use counts for the first of them.
"""

from __future__ import annotations

from fairway.catalog.drivers import DRA_DRIVER
from fairway.cluster.changes import DELETED, Change
from fairway.cluster.gpurequests import DEFAULT_GPUS, MILLI
from fairway.cluster.store import Store
from fairway.kube import quantity
from fairway.kube.objects import Key, Obj, meta_of, spec_of, status_of
from fairway.kube.resourceclaims import CLAIM, allocation_of, pod_claims


class Published:
    """Devices by node and name, followed slice by slice."""

    def __init__(self) -> None:
        self._nodes: dict[str, dict[str, dict[str, Obj]]] = {}
        """By node and slice: devices by name."""

    def copy(self) -> Published:
        twin = Published()
        twin._nodes = {node: dict(slices) for node, slices in self._nodes.items()}
        return twin

    def see(self, change: Change) -> str:
        """The node that publishes otherwise now; empty: none."""
        spec, name = spec_of(change.obj), change.key.name
        node = str(spec.get("nodeName") or "")
        if spec.get("driver") != DRA_DRIVER or not node:
            return ""
        slices = self._nodes.setdefault(node, {})
        if change.type == DELETED:
            slices.pop(name, None)
        else:
            slices[name] = {str(d.get("name")): d for d in spec.get("devices") or ()}
        return node

    def milli_of(self, node: str) -> int:
        """Milli-GPU of the cards that it publishes, whole or in parts."""
        slices = self._nodes.get(node)
        if not slices:
            return 0
        return len({name.partition("-mig-")[0] for of in slices.values() for name in of}) * MILLI

    def held_by(self, store: Store, pod: Obj) -> int:
        """Milli-GPU that its claims give it."""
        if not self._nodes or not spec_of(pod).get("resourceClaims"):
            return 0
        uid, namespace = meta_of(pod).get("uid"), meta_of(pod).get("namespace") or ""
        total = 0
        for entry in pod_claims(pod):
            claim = store.get(Key(CLAIM, namespace, entry.claim)) if entry.claim else None
            users = [] if claim is None else status_of(claim).get("reservedFor") or []
            if claim is None or not users or users[0].get("uid") != uid:
                continue
            for result in ((allocation_of(claim) or {}).get("devices") or {}).get("results") or ():
                if result.get("driver") == DRA_DRIVER and not result.get("adminAccess"):
                    total += self._part(result)
        return total

    def _part(self, result: Obj) -> int:
        named = str(result.get("device"))
        slices = self._nodes.get(str(result.get("pool")), {})
        device: Obj = next((of[named] for of in slices.values() if named in of), {})
        profile = ((device.get("attributes") or {}).get("profile") or {}).get("string")
        if profile:
            whole = DEFAULT_GPUS.asked({f"nvidia.com/mig-{str(profile).replace('+', '.')}": 1})
        else:
            whole = MILLI
        taken = (result.get("consumedCapacity") or {}).get("memory")
        has = ((device.get("capacity") or {}).get("memory") or {}).get("value")
        if taken is None or not has:
            return whole
        of_all = quantity.whole_ceil(taken) * whole // max(quantity.whole_ceil(has), 1)
        return min(of_all, whole)
