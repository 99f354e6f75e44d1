"""What is in a machine of this type, and where can it be had?"""

from __future__ import annotations

from dataclasses import dataclass

_AZURE = "Standard_"


@dataclass(frozen=True, slots=True)
class InstanceType:
    """A machine one can order. `zones` are all zones of `regions`; empty: a machine of one's own, anywhere.

    `gpu` is the name of a model of the catalog, empty without GPUs.
    """

    name: str
    provider: str
    family: str
    cpu_milli: int
    memory_bytes: int
    gpu: str
    gpus: int
    regions: tuple[str, ...]
    zones: tuple[str, ...]
    arch: str = "amd64"
    pods: int = 110


def plain_instance_name(name: str) -> str:
    """The name without what Azure puts before its sizes."""
    return name.removeprefix(_AZURE)
