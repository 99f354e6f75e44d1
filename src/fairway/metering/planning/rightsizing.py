"""Whole GPUs against slices: how many GPUs do so many small services need?

Each service takes the smallest MIG profile with enough memory and compute; GPUs are filled with one profile's
instances (`instances_most`), or shared by several profiles, packed largest first by compute and memory slices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fairway.catalog.gpus import GpuModel, MigProfile
from fairway.catalog.placements import Layout, placed
from fairway.errors import UserError


@dataclass(frozen=True, slots=True)
class Service:
    """What one replica needs: memory, and a share of the GPU's compute (0 to 1)."""

    name: str
    memory_bytes: int
    compute_share: float = 0.0
    replicas: int = 1


@dataclass(frozen=True, slots=True)
class Rightsized:
    """GPUs and µ$ an hour, whole and cut. `profiles`: by service, the profile; empty: it needs a whole GPU."""

    profiles: tuple[tuple[str, str], ...]
    gpus_whole: int
    gpus_cut: int
    micros_whole: int
    micros_cut: int

    @property
    def saving_share(self) -> float:
        return 1 - self.micros_cut / self.micros_whole if self.micros_whole else 0.0


def rightsize(services: Sequence[Service], model: GpuModel, gpu_micros_per_hour: int) -> Rightsized:
    """Every service on the smallest slice that holds it, against a GPU each.

    Raises: UserError for a service that no GPU of the model can hold.
    """
    chosen = [(s, _smallest(s, model)) for s in services]
    whole = sum(s.replicas for s in services)
    cut = _packed([(p, s.replicas) for s, p in chosen if p is not None], model)
    cut += sum(s.replicas for s, p in chosen if p is None)
    return Rightsized(
        profiles=tuple((s.name, p.name if p else "") for s, p in chosen),
        gpus_whole=whole,
        gpus_cut=cut,
        micros_whole=whole * gpu_micros_per_hour,
        micros_cut=cut * gpu_micros_per_hour,
    )


def _smallest(service: Service, model: GpuModel) -> MigProfile | None:
    """The profile with the fewest slices that is enough; None: only a whole GPU is.

    Raises: UserError.
    """
    if service.memory_bytes > model.memory_bytes or service.compute_share > 1:
        raise UserError(
            f"service {service.name}: needs {service.memory_bytes / 2**30:.1f} GiB and "
            f"{service.compute_share:.0%} of the compute; a {model.name} has {model.memory_bytes / 2**30:.1f} GiB"
        )
    enough = [
        p
        for p in model.mig
        if not p.has_media
        and p.memory_bytes >= service.memory_bytes
        and p.compute_slices / model.compute_slices >= service.compute_share - 1e-9
    ]
    found = min(enough, key=lambda p: (p.compute_slices, p.memory_slices), default=None)
    return None if found is None or found.compute_slices == model.compute_slices else found


def _packed(wanted: Sequence[tuple[MigProfile, int]], model: GpuModel) -> int:
    """GPUs for these instances: first fit, the largest first, where the driver would place each."""
    gpus: list[Layout] = []
    for profile, count in sorted(wanted, key=lambda w: (-w[0].memory_slices, -w[0].compute_slices)):
        at = 0
        for _ in range(count):
            while at < len(gpus) and placed(model, gpus[at], profile) is None:
                at += 1
            if at == len(gpus):
                gpus.append(())
            new = placed(model, gpus[at], profile)
            assert new is not None
            gpus[at] = (*gpus[at], new)
    return len(gpus)
