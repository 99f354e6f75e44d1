"""The catalog: models, types and prices, from the files that ship with Fairway and the user's own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

from fairway.catalog.gpus import GpuModel, plain_name
from fairway.catalog.instances import InstanceType, plain_instance_name
from fairway.catalog.prices import (
    COMMITMENTS,
    EVERYWHERE,
    ON_DEMAND,
    RESERVED,
    Price,
    PriceTable,
    Unpriced,
    UnpricedReason,
)
from fairway.catalog.reading import Parts, read_documents
from fairway.errors import BugError, InvalidInput
from fairway.kube.manifest import Manifest, capped, read_path, read_text

# In this order: prices of a later file win.
PACKAGED = (
    "gpus.yaml",
    "instances-aws.yaml",
    "instances-gcp.yaml",
    "instances-azure.yaml",
    "prices-list.yaml",
    "prices-guides.yaml",
)


class Catalog:
    """What can be had and what it costs. Immutable."""

    __slots__ = ("_parts", "_prices")

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._prices = PriceTable(prices for _, prices in parts.books)

    # Hardware

    def gpus(self) -> tuple[GpuModel, ...]:
        """All models, by name."""
        return tuple(sorted({m.name: m for m in self._parts.gpus.values()}.values(), key=lambda m: m.name))

    def gpu(self, name: str) -> GpuModel | None:
        """A model by its name or by what GPU feature discovery calls it."""
        return self._parts.gpus.get(plain_name(name))

    def instance_types(self) -> tuple[InstanceType, ...]:
        """All types, by provider and then as the files have them."""
        return tuple(sorted(self._parts.types.values(), key=lambda t: t.provider))

    def instance_type(self, name: str) -> InstanceType | None:
        return self._parts.types.get(plain_instance_name(name))

    def region_of(self, zone: str) -> str:
        """The region of a zone; empty where the catalog does not know the zone."""
        return self._parts.zones.get(zone, "")

    # Money

    def books(self) -> tuple[str, ...]:
        """The names of the price books; later ones win."""
        return tuple(name for name, _ in self._parts.books)

    def prices(self, instance_type: str = "") -> Iterator[Price]:
        """Every entry (of a type)."""
        return self._prices.entries(plain_instance_name(instance_type))

    def price(
        self,
        instance_type: str,
        capacity_type: str = ON_DEMAND,
        *,
        zone: str = "",
        region: str = "",
        at_us: int | None = None,
        commitment: str = "",
    ) -> Price | Unpriced:
        """What an hour costs: the price for the zone, else its region, else everywhere.

        A commitment (`1y`, `3y`) makes on-demand capacity `reserved`; reserved capacity needs one. Without a time:
        the newest price.
        """
        if capacity_type == ON_DEMAND and commitment:
            capacity_type = RESERVED
        name = plain_instance_name(instance_type)
        reason, near = self._unaskable(name, capacity_type, commitment), tuple[Price, ...]()
        if reason is None:
            here = region or self.region_of(zone)
            places = (*(p for p in (zone, here) if p), EVERYWHERE)
            found = self._prices.find((name, capacity_type, commitment), places, at_us)
            if isinstance(found, Price):
                return found
            reason, near = found
        return Unpriced(name, capacity_type, commitment, region, zone, at_us, reason, near)

    def _unaskable(self, name: str, capacity_type: str, commitment: str) -> UnpricedReason | None:
        if not name:
            return UnpricedReason.NO_TYPE
        if name not in self._parts.types:
            return UnpricedReason.UNKNOWN_TYPE
        if capacity_type == RESERVED and commitment not in COMMITMENTS:
            return UnpricedReason.NO_COMMITMENT
        return None


def load_catalog(books: Iterable[Path] = ()) -> Catalog:
    """What ships with Fairway, then these files or directories: what they say wins.

    Raises: InvalidInput with every problem of the user's files.
    """
    return catalog_of([m for path in books for m in read_path(path)])


def catalog_of(manifests: Iterable[Manifest]) -> Catalog:
    """What ships with Fairway, then these documents.

    Raises: InvalidInput.
    """
    own = list(manifests)
    if not own:
        return _packaged_catalog()
    parts = read_documents([*_packaged(), *own])
    if parts.problems:
        raise InvalidInput(capped(parts.problems))
    return Catalog(parts)


@lru_cache(maxsize=1)
def _packaged() -> tuple[Manifest, ...]:
    folder = files("fairway.catalog").joinpath("data")
    return tuple(m for name in PACKAGED for m in read_text(folder.joinpath(name).read_text("utf-8"), name))


@lru_cache(maxsize=1)
def _packaged_catalog() -> Catalog:
    parts = read_documents(_packaged())
    if parts.problems:
        raise BugError("; ".join(str(p) for p in parts.problems))
    return Catalog(parts)
