"""From documents to models, types and prices, or to everything that is wrong with them.

`PriceBook`, `InstanceCatalog` and `GPUCatalog` of fairway.dev/v1alpha1; docs/prices.md shows each field.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any

from fairway.catalog.gpus import MIB, GpuModel, MigProfile, plain_name
from fairway.catalog.instances import InstanceType, plain_instance_name
from fairway.catalog.prices import (
    END_OF_TIME,
    EVERYWHERE,
    MICROS_PER_DOLLAR,
    MICROS_PER_HOUR_MOST,
    ON_DEMAND,
    ONE_YEAR,
    RESERVED,
    SPOT,
    START_OF_TIME,
    THREE_YEARS,
    Price,
    overlaps,
)
from fairway.errors import FieldProblem
from fairway.kube.located import Field, Reading, did_you_mean, nearest
from fairway.kube.manifest import Manifest
from fairway.kube.quantity import milli_ceil, whole_ceil
from fairway.kube.timestamps import parse_rfc3339

API_VERSION = "fairway.dev/v1alpha1"
PRICE_BOOK, INSTANCE_CATALOG, GPU_CATALOG = "PriceBook", "InstanceCatalog", "GPUCatalog"
KINDS = (PRICE_BOOK, INSTANCE_CATALOG, GPU_CATALOG)
CURRENCY, UNIT = "USD", "instance-hour"

# Columns of a row of prices: (field, capacity type, commitment).
COLUMNS = (
    ("onDemand", ON_DEMAND, ""),
    ("spot", SPOT, ""),
    ("oneYear", RESERVED, ONE_YEAR),
    ("threeYear", RESERVED, THREE_YEARS),
)
_GIB = 2**30
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_MODEL = (
    "name",
    "products",
    "deviceId",
    "architecture",
    "computeCapability",
    "memory",
    "sms",
    "bandwidth",
    "tdp",
    "throttleTemperature",
    "pcie",
    "nvlink",
    "memorySlices",
    "mig",
)
_PROFILE = ("profile", "id", "slices", "sms", "memory", "most", "starts", "engines")
_TYPE = ("name", "family", "cpu", "memory", "gpu", "gpus", "regions", "arch", "pods")
_ROW = ("instanceType", "regions", "zones", "from", "until", *(c[0] for c in COLUMNS))
_BOOK = ("currency", "unit", "source", "from", "until", "prices")


@dataclass(slots=True)
class Parts:
    """What the documents hold, by name where a later one replaces an earlier one."""

    gpus: dict[str, GpuModel] = field(default_factory=dict)
    zones: dict[str, str] = field(default_factory=dict)  # zone → region
    regions: dict[str, tuple[str, ...]] = field(default_factory=dict)
    types: dict[str, InstanceType] = field(default_factory=dict)
    books: list[tuple[str, tuple[Price, ...]]] = field(default_factory=list)
    problems: list[FieldProblem] = field(default_factory=list)


def read_documents(manifests: Iterable[Manifest]) -> Parts:
    """All documents; models first, then types, then prices, wherever they stand in the files."""
    parts = Parts()
    by_kind: dict[str, list[Manifest]] = {kind: [] for kind in KINDS}
    for manifest in manifests:
        kind = manifest.obj.get("kind")
        if kind in by_kind and manifest.obj.get("apiVersion") == API_VERSION:
            by_kind[str(kind)].append(manifest)
        else:
            parts.problems.append(_not_ours(manifest))
    for kind, read in ((GPU_CATALOG, _gpus), (INSTANCE_CATALOG, _types), (PRICE_BOOK, _book)):
        for manifest in by_kind[kind]:
            reading = Reading(manifest)
            root = reading.root().members("apiVersion", "kind", "metadata", "spec", required=("spec",))
            read(root["spec"], parts)
            parts.problems += reading.problems
    return parts


def _not_ours(manifest: Manifest) -> FieldProblem:
    kind = f"{manifest.obj.get('apiVersion')} {manifest.obj.get('kind')}"
    expected = f"expected {API_VERSION} and kind {', '.join(KINDS)}"
    return FieldProblem(manifest.file, manifest.line_of(("kind",)), "kind", kind, expected)


# GPU models


def _gpus(spec: Field, parts: Parts) -> None:
    for item in spec.members("models", required=("models",))["models"].items():
        given = item.members(*_MODEL, required=("name", "memory"))
        model = GpuModel(
            name=given["name"].text(),
            products=given["products"].texts(),
            architecture=given["architecture"].text(),
            memory_bytes=given["memory"].integer(0, 1) * MIB,
            sms=given["sms"].integer(0),
            bandwidth_gb_per_s=given["bandwidth"].integer(0),
            tdp_w=given["tdp"].integer(0),
            throttle_c=given["throttleTemperature"].integer(0),
            pcie=given["pcie"].text(),
            nvlink_gb_per_s=given["nvlink"].integer(0),
            memory_slices=given["memorySlices"].integer(0),
            mig=tuple(_profile(p) for p in given["mig"].items()),
            compute_capability=given["computeCapability"].text(),
            device_id=given["deviceId"].text(),
        )
        for name in model.names():
            parts.gpus[plain_name(name)] = model


def _profile(item: Field) -> MigProfile:
    given = item.members(*_PROFILE, required=_PROFILE[:-1])
    slices = [f.integer(1, 1, 8) for f in given["slices"].items()]
    if len(slices) != 2:
        given["slices"].reject("expected [compute slices, memory slices]")
        slices = [1, 1]
    engines = [f.integer(0, 0, 64) for f in given["engines"].items()] or [0, 0, 0, 0]
    if len(engines) != 4:
        given["engines"].reject("expected [copy, decoder, JPEG, optical flow]")
        engines = [0, 0, 0, 0]
    return MigProfile(
        name=given["profile"].text(),
        id=given["id"].integer(0),
        compute_slices=slices[0],
        memory_slices=slices[1],
        sms=given["sms"].integer(0),
        memory_bytes=given["memory"].integer(0, 1) * MIB,
        instances_most=given["most"].integer(1, 1),
        starts=tuple(f.integer(0, 0, 7) for f in given["starts"].items()),
        engines=(engines[0], engines[1], engines[2], engines[3]),
    )


# Instance types


def _types(spec: Field, parts: Parts) -> None:
    given = spec.members("provider", "regions", "types", required=("provider", "types"))
    own: dict[str, tuple[str, ...]] = {}
    for region, zones in given["regions"].entries():
        own[region] = zones.texts()
        parts.regions[region] = own[region]
        parts.zones.update(dict.fromkeys(own[region], region))
    for item in given["types"].items():
        found = _type(item, given["provider"].text(), own, parts)
        if found.name:
            parts.types[found.name] = found


def _type(item: Field, provider: str, own: dict[str, tuple[str, ...]], parts: Parts) -> InstanceType:
    given = item.members(*_TYPE, required=("name", "cpu", "memory"))
    regions = given["regions"].texts() or tuple(own)
    for at in given["regions"].one_or_many():
        if at.value not in own:
            at.reject(did_you_mean(str(at.value), list(own), "expected a region of this catalog:"))
    gpu = _model_name(given["gpu"], parts)
    return InstanceType(
        name=plain_instance_name(given["name"].text()),
        provider=provider,
        family=given["family"].text(),
        cpu_milli=given["cpu"].parsed(milli_ceil, "expected CPUs such as 96 or 3920m", 0),
        memory_bytes=given["memory"].parsed(_memory, "expected GiB, or a quantity such as 1152Gi", 0),
        gpu=gpu,
        gpus=given["gpus"].integer(1 if gpu else 0, 1 if gpu else 0),
        regions=regions,
        zones=tuple(z for r in regions for z in own.get(r, ())),
        arch=given["arch"].choice(("amd64", "arm64"), "amd64"),
        pods=given["pods"].integer(110, 1),
    )


def _model_name(given: Field, parts: Parts) -> str:
    if not given.is_given:
        return ""
    model = parts.gpus.get(plain_name(given.text()))
    if model is None:
        names = sorted({m.name for m in parts.gpus.values()})
        given.reject(did_you_mean(str(given.value), names, "expected a GPU model of the catalog:"))
        return ""
    return model.name


def _memory(value: Any) -> int:
    """A bare number is GiB, as catalogs of instance types write it."""
    return whole_ceil(f"{value}Gi" if isinstance(value, (int, float)) else value)


# Prices


def _book(spec: Field, parts: Parts) -> None:
    given = spec.members(*_BOOK, required=("currency", "unit", "prices"))
    for name, only in (("currency", CURRENCY), ("unit", UNIT)):
        if given[name].is_given and given[name].value != only:
            given[name].reject(f"expected {only}: every price is in US dollars per instance and hour")
    named = (spec.reading.manifest.obj.get("metadata") or {}).get("name")
    book = str(named or spec.reading.manifest.file)
    whole_period = _period(given["from"], given["until"], (START_OF_TIME, END_OF_TIME))
    prices = tuple(p for row in given["prices"].items() for p in _row(row, book, whole_period, parts))
    spec.reading.problems += overlaps(prices)
    parts.books.append((book, prices))


def _row(row: Field, book: str, period: tuple[int, int], parts: Parts) -> list[Price]:
    given = row.members(*_ROW, required=("instanceType",))
    instance_type = _known_type(given["instanceType"], parts)
    start_us, end_us = _period(given["from"], given["until"], period)
    places = _places(given, parts)
    if not any(given[name].is_given for name, _, _ in COLUMNS):
        row.reject(f"expected at least one price: {', '.join(name for name, _, _ in COLUMNS)}")
    prices = []
    for name, capacity_type, commitment in COLUMNS:
        micros = _micros(given[name])
        if micros is None or not instance_type:
            continue
        at = given[name]
        prices += [
            Price(
                instance_type=instance_type,
                capacity_type=capacity_type,
                commitment=commitment,
                place=place,
                micros_per_hour=micros,
                from_us=start_us,
                until_us=end_us,
                book=book,
                file=row.reading.manifest.file,
                line=at.line,
                path=at.path,
            )
            for place in places
        ]
    return prices


def _known_type(given: Field, parts: Parts) -> str:
    name = plain_instance_name(given.text())
    if not name or name in parts.types:
        return name
    close = nearest(name, parts.types)
    hint = f"did you mean {' or '.join(close)}? " if close else ""
    given.reject(f"{hint}unknown instance type: add it with an {INSTANCE_CATALOG}")
    return ""


def _places(given: dict[str, Field], parts: Parts) -> tuple[str, ...]:
    for name, known in (("regions", parts.regions), ("zones", parts.zones)):
        for at in given[name].one_or_many():
            if isinstance(at.value, str) and at.value not in known:
                close = nearest(at.value, known)
                hint = f"did you mean {' or '.join(close)}? " if close else ""
                at.reject(f"{hint}unknown {name[:-1]}: add it to the regions of an {INSTANCE_CATALOG}")
    return (*given["regions"].texts(), *given["zones"].texts()) or (EVERYWHERE,)


def _period(start: Field, end: Field, default: tuple[int, int]) -> tuple[int, int]:
    expected = "expected a date such as 2026-01-31, or an RFC 3339 time"
    start_us = start.parsed(parse_date, expected, default[0])
    end_us = end.parsed(parse_date, expected, default[1])
    if end_us <= start_us:
        (end if end.is_given else start).reject("expected `until` after `from`")
        return default
    return start_us, end_us


def parse_date(value: Any) -> int:
    """A day is its first moment, UTC."""
    text = str(value)
    return parse_rfc3339(f"{text}T00:00:00Z" if _DATE.fullmatch(text) else text)


def _micros(given: Field) -> int | None:
    """µ$, exact: a price finer than that is refused rather than rounded."""
    if not given.is_given:
        return None
    expected = "expected US dollars an hour, 0 or more, such as 32.77"
    if isinstance(given.value, bool) or not isinstance(given.value, (int, float, str)):
        given.reject(expected)
        return None
    try:
        micros = Decimal(str(given.value)) * MICROS_PER_DOLLAR
    except InvalidOperation:
        given.reject(expected)
        return None
    if not micros.is_finite() or micros < 0:
        given.reject(expected)
        return None
    if micros > MICROS_PER_HOUR_MOST:
        given.reject(f"expected at most {MICROS_PER_HOUR_MOST // MICROS_PER_DOLLAR:,} dollars an hour")
        return None
    if micros != int(micros):
        given.reject("expected at most six decimals: prices are whole micro-dollars")
        return None
    return int(micros)
