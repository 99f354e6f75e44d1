"""How are a device's series labelled? As dcgm-exporter labels them in Kubernetes, and as a scrape adds to it.

Source: dcgm-exporter 4.5.3, internal/pkg/rendermetrics (order and names), transformation/kubernetes.go (pod, namespace,
container of whoever holds the device, and the claim that gave it, as with `KUBERNETES_ENABLE_DRA`).
"""

from __future__ import annotations

from bisect import bisect_left
from functools import lru_cache
from typing import NamedTuple

from fairway.catalog.drivers import DRA_DRIVER, DRIVER, gpu_uuid
from fairway.telemetry.store import NAME, Labels

PORT = 9400
JOB = "nvidia-dcgm-exporter"


class Device(NamedTuple):
    """A row of a fleet. `profile`, `instance`: of a MIG instance, else empty."""

    node: str
    slot: int
    model: str
    profile: str = ""
    instance: str = ""

    def labels(self) -> dict[str, str]:
        """In the exporter's order."""
        own = {
            "gpu": str(self.slot),
            "UUID": gpu_uuid(self.node, self.slot),
            "pci_bus_id": f"00000000:{0x10 + 8 * self.slot:02X}:00.0",
            "device": f"nvidia{self.slot}",
            "modelName": self.model,
        }
        if self.profile:
            own |= {"GPU_I_PROFILE": self.profile, "GPU_I_ID": self.instance}
        return {**own, "Hostname": self.node, "DCGM_FI_DRIVER_VERSION": DRIVER}


class Holder(NamedTuple):
    """Whoever holds a device; empty: nobody. `container`: empty where it is not known which; `claim`, `pool`, `device`:
    where a claim gave it; `profile`, `uuid`: of a MIG instance then."""

    namespace: str = ""
    pod: str = ""
    container: str = ""
    claim: str = ""
    pool: str = ""
    device: str = ""
    profile: str = ""
    uuid: str = ""

    def labels(self) -> dict[str, str]:
        """In the exporter's order: by name."""
        said = {"container": self.container}
        if self.claim:
            said |= {
                "dra_claim_name": self.claim,
                "dra_claim_namespace": self.namespace,
                "dra_device_name": self.device,
                "dra_driver_name": DRA_DRIVER,
                "dra_mig_device_uuid": self.uuid,
                "dra_mig_profile": self.profile,
                "dra_pool_name": self.pool,
            }
        said |= {"namespace": self.namespace, "pod": self.pod}
        return {name: value for name, value in said.items() if value}


def split_labels(device: Device, holder: Holder) -> tuple[Labels, Labels]:
    """A series' labels with what a scrape adds, sorted, before and behind the metric's name."""
    pairs = list(_of_device(device))
    for name, value in holder.labels().items():
        pairs.insert(bisect_left(pairs, (name,)), (name, value))
    middle = bisect_left(pairs, (NAME,))
    return tuple(pairs[:middle]), tuple(pairs[middle:])


@lru_cache(maxsize=1 << 15)
def _of_device(device: Device) -> Labels:
    """Sorted: one GPU has many holders in a month."""
    scraped = {"node": device.node, "instance": f"{device.node}:{PORT}", "job": JOB}
    return tuple(sorted((device.labels() | scraped).items()))
