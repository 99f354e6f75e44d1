"""Which resources and labels does a node get of its cards, as the device plugin and GPU Feature Discovery see them?

Source: k8s-device-plugin 0.20 internal/rm/device_map.go (resources), internal/lm (labels), cmd/mps-control-daemon.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fairway.catalog.gpus import MIB, MigProfile
from fairway.catalog.nodegpus import NodeGpus
from fairway.devices.pluginconfig import (
    GPU,
    MPS,
    MPS_CLIENTS_MOST,
    NONE,
    SINGLE,
    PluginConfig,
    PluginConfigError,
)

_INVALID: Final = (
    "error starting plugins: error getting plugins: unable to create plugins: error building device map: "
    "error building device map from config.resources: "
)
# Devices that the kubelet takes note of. Source: gRPC's 16 MiB messages at about 100 bytes a device.
DEVICES_MOST: Final = 160_000


def advertised(gpus: NodeGpus, config: PluginConfig) -> tuple[dict[str, int], dict[str, int]]:
    """Capacity and allocatable: how many devices of each resource, and how many of them are healthy.

    Raises: PluginConfigError in the plugin's words, for which it exits.
    """
    found: dict[str, list[int]] = {}
    for card, layout in enumerate(gpus.layouts):
        if layout is None or config.mig_strategy == NONE:
            found.setdefault(GPU, []).append(card)
            continue
        for at in layout:
            resource = GPU if config.mig_strategy == SINGLE else at.profile.resource
            found.setdefault(resource, []).append(card)
    if config.mig_strategy == SINGLE:
        _check_uniform(gpus)
    if config.strategy == MPS:
        _check_mps(gpus, config)
    capacity, healthy = dict[str, int](), dict[str, int]()
    for resource, cards in found.items():
        name, replicas = config.name(resource), config.replicas(resource)
        if len(cards) * replicas > DEVICES_MOST:
            raise PluginConfigError(
                f"{len(cards)} x {replicas} devices of {resource}, more than {DEVICES_MOST:,}: "
                "rpc error: code = ResourceExhausted desc = grpc: trying to send message larger than max"
            )
        capacity[name] = capacity.get(name, 0) + len(cards) * replicas
        well = sum(card not in gpus.unhealthy for card in cards)
        healthy[name] = healthy.get(name, 0) + well * replicas
    return capacity, healthy


def _check_uniform(gpus: NodeGpus) -> None:
    cut = [layout for layout in gpus.layouts if layout is not None]
    empty = next((i for i, layout in enumerate(gpus.layouts) if layout == ()), None)
    if empty is not None:
        raise PluginConfigError(
            f"{_INVALID}invalid MIG configuration: at least one device with migEnabled=true was not configured "
            f"correctly: device {empty} has no MIG devices configured"
        )
    if len({at.profile for layout in cut for at in layout}) > 1:
        raise PluginConfigError(
            f"{_INVALID}invalid MIG configuration: more than one MIG device type present on node"
        )
    if cut and len(cut) < gpus.count:
        raise PluginConfigError(
            f"{_INVALID}all devices on the node must be configured with the same migEnabled value"
        )


def _check_mps(gpus: NodeGpus, config: PluginConfig) -> None:
    if any(layout is not None for layout in gpus.layouts):
        raise PluginConfigError(
            "error creating sharing labeler: failed to check MPS-capable: "
            "MPS sharing is not supported for mig devices"
        )
    for replicas, _ in config.shared.values():
        if replicas > MPS_CLIENTS_MOST:
            raise PluginConfigError(
                "error starting plugins: invalid MPS device: maximum allowed replicas exceeded: "
                f"{replicas} > {MPS_CLIENTS_MOST}"
            )


def single_requests(config: PluginConfig) -> tuple[str, ...]:
    """Resources of which a container may ask for one only."""
    return tuple(sorted(name for count, name in config.shared.values() if config.one_each and count > 1))


def mps_limits(gpus: NodeGpus, config: PluginConfig) -> tuple[int, int] | None:
    """Bytes of device memory and percent of threads that each client of an MPS-shared card has; None without MPS."""
    replicas = config.replicas(GPU)
    if config.strategy != MPS or gpus.model is None or replicas < 2:
        return None
    return gpus.model.memory_bytes // replicas // MIB * MIB, 100 // replicas


def feature_labels_of(
    gpus: NodeGpus, config: PluginConfig, driver: str, cuda: str, machine: str
) -> dict[str, str]:
    """GPU Feature Discovery's labels."""
    if not gpus.count:
        return {}
    major, minor, revision = ([*driver.split("."), "", ""])[:3]
    cuda_major, _, cuda_minor = cuda.partition(".")
    labels = {
        "cuda.driver.major": major,
        "cuda.driver.minor": minor,
        "cuda.driver.rev": revision,
        "cuda.runtime.major": cuda_major,
        "cuda.runtime.minor": cuda_minor,
        "cuda.driver-version.major": major,
        "cuda.driver-version.minor": minor,
        "cuda.driver-version.revision": revision,
        "cuda.driver-version.full": driver,
        "cuda.runtime-version.major": cuda_major,
        "cuda.runtime-version.minor": cuda_minor,
        "cuda.runtime-version.full": cuda,
        "gpu.machine": machine,
        "gpu.mode": "compute",
        "mig.capable": str(gpus.model is not None and gpus.model.is_mig_capable).lower(),
        "mps.capable": str(config.strategy == MPS and all(x is None for x in gpus.layouts)).lower(),
    }
    cards = _of_resource("gpu", gpus.product, gpus.count, config, GPU, is_shared=None in gpus.layouts)
    if gpus.model is not None:
        capability = gpus.model.compute_capability.partition(".")
        cards |= {
            "gpu.memory": str(gpus.model.memory_bytes // MIB),
            "gpu.family": gpus.model.architecture.lower().replace(" ", "-"),
            "gpu.compute.major": capability[0],
            "gpu.compute.minor": capability[2],
        }
    labels |= cards
    if config.mig_strategy != NONE:
        labels["mig.strategy"] = config.mig_strategy
        labels |= _of_instances(gpus, config)
    return {f"nvidia.com/{name}": value for name, value in labels.items() if value}


def _of_instances(gpus: NodeGpus, config: PluginConfig) -> dict[str, str]:
    found = [at.profile for layout in gpus.layouts if layout for at in layout]
    if config.mig_strategy == SINGLE:
        if all(layout is None for layout in gpus.layouts):
            return {}
        if () in gpus.layouts or None in gpus.layouts or len(set(found)) > 1:
            return {
                "gpu.product": f"{gpus.product}-MIG-INVALID",
                "gpu.count": "0",
                "gpu.replicas": "0",
                "gpu.sharing-strategy": "",
                "gpu.memory": "0",
            }
    labels: dict[str, str] = {}
    for profile in sorted(set(found), key=lambda p: p.name):
        resource = GPU if config.mig_strategy == SINGLE else profile.resource
        prefix = resource.removeprefix("nvidia.com/")
        product = f"{gpus.product}-MIG-{profile.name.replace('+', '.')}"
        labels |= _of_resource(prefix, product, found.count(profile), config, resource)
        labels |= _attributes(prefix, profile)
    return labels


def _of_resource(
    prefix: str, product: str, count: int, config: PluginConfig, resource: str, *, is_shared: bool = True
) -> dict[str, str]:
    """`is_shared` false: of cards that are cut, which the plugin does not share as such."""
    replicas = config.replicas(resource) if is_shared else 0
    keeps_name = replicas > 1 and config.name(resource) == resource
    return {
        f"{prefix}.product": f"{product}-SHARED" if keeps_name else product,
        f"{prefix}.count": str(count),
        f"{prefix}.replicas": str(replicas),
        f"{prefix}.sharing-strategy": config.strategy if replicas > 1 else NONE,
    }


def _attributes(prefix: str, profile: MigProfile) -> dict[str, str]:
    copy, decoders, jpeg, flow = profile.engines
    attributes = {
        "memory": profile.memory_bytes // MIB,
        "multiprocessors": profile.sms,
        "slices.gi": profile.compute_slices,
        "slices.ci": profile.compute_slices,
        "engines.copy": copy,
        "engines.decoder": decoders,
        "engines.encoder": 0,
        "engines.jpeg": jpeg,
        "engines.ofa": flow,
    }
    return {f"{prefix}.{name}": str(value) for name, value in attributes.items()}


def outdated(labels: Sequence[str], wanted: dict[str, str]) -> list[str]:
    """Labels of GPU Feature Discovery that are there and no longer said: of instances, as a rule."""
    of_cards = tuple(f"nvidia.com/gpu.{part}" for part in ("slices.", "engines.", "multiprocessors"))
    mine = ("nvidia.com/mig-", "nvidia.com/mig.strategy", *of_cards)
    return [name for name in labels if name.startswith(mine) and name not in wanted]
