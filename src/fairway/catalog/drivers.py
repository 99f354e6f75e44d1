"""What does NVIDIA's driver say of the GPUs of a simulated node, and its DRA driver publish?

Pool and node of one name, devices `gpu-0` to `gpu-N`, described from the catalog. A card that is cut is its instances,
`gpu-0-mig-1g10gb-19-4`. With the gate DynamicMIG (on the node: `fairway.dev/dra-feature-gates: DynamicMIG=true`) each
card is all that it could be cut into, and counters say what goes together. Where the node's board is known, devices say
which NUMA node and PCIe root they are at.

Source: kubernetes-sigs/dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin (deviceinfo.go, mig.go, partitions.go, driver.go);
its Helm chart's device classes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any, Final

from fairway.catalog.gpus import MIB, GpuModel, MigProfile
from fairway.catalog.placements import Instance, placements
from fairway.kube.objects import Obj, annotations_of, labels_of, meta_of, status_of
from fairway.kube.quantity import whole_ceil
from fairway.kube.resources import NVIDIA_GPU

DRIVER, CUDA = "580.82.07", "13.0"
# The newest CUDA that drivers of a branch run, by the branch. Source: CUDA toolkit release notes.
_CUDA_OF: Final = (
    (595, "13.2"),
    (590, "13.1"),
    (580, CUDA),
    (575, "12.9"),
    (570, "12.8"),
    (565, "12.7"),
    (560, "12.6"),
    (555, "12.5"),
    (550, "12.4"),
    (545, "12.3"),
    (535, "12.2"),
    (530, "12.1"),
    (525, "12.0"),
    (520, "11.8"),
    (515, "11.7"),
    (510, "11.6"),
    (470, "11.4"),
)
OLD: Final = ("470.256.02", "11.4")
"""The driver of a node with the fault `driver-version`, and the newest CUDA that it runs."""
OLD_DRIVER: Final = "driver-version"
DRA_DRIVER: Final = "gpu.nvidia.com"
"""The DRA driver's name, and its device class's."""
_PRODUCT, _COUNT = "nvidia.com/gpu.product", "nvidia.com/gpu.count"
# Devices in one ResourceSlice. Source: resource.k8s.io ResourceSliceMaxDevices.
_MOST: Final = 128
# Counter sets in one ResourceSlice. Source: resource.k8s.io ResourceSliceMaxCounterSets.
_SETS_MOST: Final = 8
GATES: Final = "fairway.dev/dra-feature-gates"
DYNAMIC_MIG: Final = "DynamicMIG=true"
# Feature discovery writes a hyphen for each space; those around SXM are the product's own.
_HYPHEN_FOR_SPACE: Final = re.compile(r"-(?!SXM\d)(?<!SXM\d-)")


def cuda_of(driver: str) -> str:
    """The newest CUDA that a driver runs; of one that names no number, the usual one."""
    branch = driver.partition(".")[0]
    number = int(branch[:4]) if branch.isdecimal() else 0
    return next((cuda for first, cuda in _CUDA_OF if number >= first), CUDA)


def card_name(product: str) -> str:
    """What drivers call a card that feature discovery calls so: `NVIDIA A100-SXM4-40GB`."""
    return _HYPHEN_FOR_SPACE.sub(" ", product)


def shaped_uuid(kind: str, of: str) -> str:
    digest = hashlib.blake2b(of.encode(), digest_size=16).hexdigest()
    return f"{kind}-{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}"


def gpu_uuid(node: str, slot: int) -> str:
    """Of one GPU of a node, the same in every run."""
    return shaped_uuid("GPU", f"{node}/{slot}")


def mig_uuid(node: str, slot: int, start: int) -> str:
    """Of the MIG instance that begins on this memory slice of a card."""
    return shaped_uuid("MIG", f"{gpu_uuid(node, slot)}/{start}")


def published_slices(node: Obj) -> list[Obj]:
    """What each slice of the node holds: devices or counters; none where it is not said which and how many GPUs there
    are, or where a device plugin hands them out."""
    labels = labels_of(node)
    product, count = labels.get(_PRODUCT), labels.get(_COUNT, "")
    if not product or not count.isdecimal() or int(count[:4]) > _MOST:
        return []
    free = status_of(node).get("allocatable") or {}
    if any(n == NVIDIA_GPU or n.startswith("nvidia.com/mig-") for n, v in free.items() if whole_ceil(v or 0)):
        return []
    from fairway.catalog.catalog import load_catalog
    from fairway.catalog.nodegpus import LAYOUT, read_layouts

    model = load_catalog().gpu(product)
    if model is None:
        return []
    notes = annotations_of(node)
    cards = [_Card(node, slot, model) for slot in range(int(count))]
    if DYNAMIC_MIG in notes.get(GATES, "").replace(" ", "").split(",") and model.mig:
        return [*_counters(cards), *({"devices": card.partitions()} for card in cards)]
    layouts = read_layouts(model, int(count), notes.get(LAYOUT, ""))
    devices = []
    for card, layout in zip(cards, layouts, strict=True):
        devices += [card.whole()] if layout is None else [card.instance(at) for at in layout]
    return [{"devices": devices[i : i + _MOST]} for i in range(0, len(devices), _MOST)]


def published_domain_slices(node: Obj) -> list[Obj]:
    """What the plugin for ComputeDomains publishes of a node with GPUs: a daemon, and the first of its channels.

    Source: cmd/compute-domain-kubelet-plugin (driver.go, deviceinfo.go)."""
    if not labels_of(node).get(_PRODUCT):
        return []
    kinds = ("channel", "daemon")
    return [
        {
            "devices": [
                {"name": f"{k}-0", "attributes": {"type": {"string": k}, "id": {"int": 0}}} for k in kinds
            ]
        }
    ]


def published_devices(node: Obj) -> list[Obj]:
    """The devices of all of its slices."""
    return [device for part in published_slices(node) for device in part.get("devices") or ()]


def _counters(cards: Sequence[_Card]) -> list[Obj]:
    """Slices with the counters of the cards: no more sets in one than the API takes."""
    sets = [card.counter_set() for card in cards]
    return [{"sharedCounters": sets[i : i + _SETS_MOST]} for i in range(0, len(sets), _SETS_MOST)]


class _Card:
    """One GPU of a node, as devices."""

    def __init__(self, node: Obj, slot: int, model: GpuModel) -> None:
        self.node, self.slot, self.model = meta_of(node)["name"], slot, model
        self.about = {name: value for name, value in _about(model).items() if all(value.values())}
        self.about |= _locality(node, slot)

    def whole(self) -> Obj:
        attributes = {
            "type": {"string": "gpu"},
            **self.about,
            "uuid": {"string": gpu_uuid(self.node, self.slot)},
        }
        capacity = {"memory": {"value": f"{self.model.memory_bytes // MIB}Mi"}}
        return {"name": f"gpu-{self.slot}", "attributes": attributes, "capacity": capacity}

    def instance(self, at: Instance, *, is_there: bool = True) -> Obj:
        """One that is there, or (with no UUID yet) could be."""
        profile, capacity = at.profile, _mig_capacity(at.profile)
        plain = re.sub(r"[^a-z0-9-]", "-", profile.name.replace(".", "").lower())
        attributes: Obj = {
            "type": {"string": "mig"},
            "parentUUID": {"string": gpu_uuid(self.node, self.slot)},
            "profile": {"string": profile.name},
            **self.about,
        }
        if is_there:
            attributes["uuid"] = {"string": mig_uuid(self.node, self.slot, at.start)}
            capacity |= {f"memorySlice{i}": {"value": "1"} for i in range(at.start, at.end)}
        return {
            "name": f"gpu-{self.slot}-mig-{plain}-{profile.id}-{at.start}",
            "attributes": attributes,
            "capacity": capacity,
        }

    def partitions(self) -> list[Obj]:
        """The whole card and every instance it could have; what each takes of the card's counters."""
        whole = self.whole()
        whole |= {
            "capacity": self._most(),
            "consumesCounters": [self._taken(self._most(), 0, self._slices())],
        }
        found = [whole]
        for at in placements(self.model):
            device = self.instance(at, is_there=False)
            found.append({**device, "consumesCounters": [self._taken(device["capacity"], at.start, at.end)]})
        return sorted(found, key=lambda d: str(d["name"]))

    def counter_set(self) -> Obj:
        taken = self._taken(self._most(), 0, self._slices())
        return {"name": taken["counterSet"], "counters": taken["counters"]}

    def _slices(self) -> int:
        return max(p.memory_slices for p in self.model.mig)

    def _most(self) -> Obj:
        """Of every capacity the most that any instance has."""
        most: dict[str, Obj] = {}
        for profile in self.model.mig:
            for name, value in _mig_capacity(profile).items():
                if name not in most or whole_ceil(value["value"]) > whole_ceil(most[name]["value"]):
                    most[name] = value
        return most

    def _taken(self, capacity: Obj, start: int, end: int) -> Obj:
        counters = {_dashed(name): value for name, value in capacity.items()}
        counters |= {f"memory-slice-{i}": {"value": "1"} for i in range(start, end)}
        return {"counterSet": f"gpu-{self.slot}-counter-set", "counters": counters}


def _mig_capacity(profile: MigProfile) -> Obj:
    copy, decoders, jpeg, flow = profile.engines
    counts = {"multiprocessors": profile.sms, "copyEngines": copy, "decoders": decoders, "encoders": 0}
    counts |= {"jpegEngines": jpeg, "ofaEngines": flow}
    memory = {"memory": {"value": f"{profile.memory_bytes // MIB}Mi"}}
    return {name: {"value": str(count)} for name, count in counts.items()} | memory


def _dashed(name: str) -> str:
    """`copyEngines` as the name of a counter: `copy-engines`."""
    return re.sub(r"([a-z0-9])([A-Z])", r"\1-\2", name).lower()


def _locality(node: Obj, slot: int) -> Obj:
    """NUMA node and PCIe root, where the node's board is known."""
    from fairway.catalog.boards import PLAIN, board_of

    board = board_of(node)
    if board is None or board.name == PLAIN or slot >= board.gpus:
        return {}
    root = slot // max(board.switches, 1)
    return {
        "resource.kubernetes.io/numaNode": {"int": board.numa[slot]},
        "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{0x10 + 0x10 * root:02x}"},
    }


def _about(model: GpuModel) -> dict[str, Any]:
    return {
        "productName": {"string": _HYPHEN_FOR_SPACE.sub(" ", model.product)},
        "brand": {"string": "Tesla" if model.product.startswith("Tesla") else "Nvidia"},
        "architecture": {"string": model.architecture},
        "cudaComputeCapability": {"version": _version(model.compute_capability)},
        "driverVersion": {"version": _version(DRIVER)},
        "cudaDriverVersion": {"version": _version(CUDA)},
    }


def _version(text: str) -> str:
    """As a semantic version: three numbers without leading zeros; empty for none."""
    numbers = [str(int(part)) for part in text.split(".") if part.isdecimal()]
    return ".".join([*numbers, "0", "0"][:3]) if numbers else ""
