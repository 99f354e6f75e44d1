"""What is a GPU of this model?

Source: NVIDIA datasheets; the MIG user guide and what `nvidia-smi mig -lgip` and `-lgipp` print.
"""

from __future__ import annotations

from dataclasses import dataclass

MIB = 2**20
# Start of the names that GPU feature discovery gives products, in any case.
_MAKERS = ("nvidia-", "tesla-")


@dataclass(frozen=True, slots=True)
class MigProfile:
    """One size a GPU can be cut into.

    `starts` are the memory slices on which an instance may begin; it covers `memory_slices` from there.
    `instances_most` of it fit on one GPU. A profile that ends in `+me` takes the media engines, once per GPU.
    """

    name: str
    id: int
    compute_slices: int
    memory_slices: int
    sms: int
    memory_bytes: int
    instances_most: int
    starts: tuple[int, ...]
    engines: tuple[int, int, int, int] = (0, 0, 0, 0)
    """Copy, decoder, JPEG and optical flow engines."""

    @property
    def has_media(self) -> bool:
        """Whether it takes the card's media engines, which one instance can have."""
        return self.name.endswith("+me")

    @property
    def resource(self) -> str:
        """The extended resource of the mixed strategy: `nvidia.com/mig-1g.5gb`."""
        return f"nvidia.com/mig-{self.name.replace('+', '.')}"


@dataclass(frozen=True, slots=True)
class GpuModel:
    """A model. `products` are other names it goes by (the label `nvidia.com/gpu.product`)."""

    name: str
    products: tuple[str, ...]
    architecture: str
    memory_bytes: int
    sms: int
    bandwidth_gb_per_s: int
    tdp_w: int
    throttle_c: int
    pcie: str
    nvlink_gb_per_s: int
    memory_slices: int
    mig: tuple[MigProfile, ...]
    compute_capability: str = ""
    device_id: str = ""
    """PCI device and vendor as mig-parted writes them, `0x233010DE`."""

    @property
    def is_mig_capable(self) -> bool:
        return bool(self.mig)

    @property
    def product(self) -> str:
        """What GPU feature discovery calls it."""
        return self.products[0] if self.products else self.name

    @property
    def compute_slices(self) -> int:
        """Of the largest profile: seven, four of an A30; 0 without MIG."""
        return max((p.compute_slices for p in self.mig), default=0)

    def profile(self, name: str) -> MigProfile | None:
        """The MIG profile `1g.5gb`, however the name is written (`mig-1g.5gb`, `1g.5gb.me`)."""
        wanted = name.removeprefix("nvidia.com/").removeprefix("mig-").replace(".me", "+me")
        return next((p for p in self.mig if p.name == wanted), None)

    def names(self) -> tuple[str, ...]:
        return (self.name, *self.products)


def plain_name(name: str) -> str:
    """A model's name without maker, case and separators: how models are looked up. What GPU feature discovery adds
    for cards that are cut or shared (`-MIG-1g.10gb`, `-SHARED`) is not part of it."""
    lower = name.lower().replace(" ", "-").replace("_", "-").removesuffix("-shared").partition("-mig-")[0]
    for maker in _MAKERS:
        lower = lower.removeprefix(maker)
    return lower.replace("-", "")
