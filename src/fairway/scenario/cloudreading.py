"""The `cloud:` section: what can be launched, at what price, how soon, and when it is taken back.

cloud:
  provider: aws                     # or gcp, azure; absent: what the NodePools' node classes say, else aws
  regions: [us-east-1]              # absent: the provider's first
  instanceTypes: [g5.*, p4d.24xlarge]
  prices: [prices.yaml]             # PriceBooks and InstanceCatalogs beside the scenario; they win over ours
  bootTime: {default: 60s, "p5.*": lognormal(5m, 0.3)}
  startupTime: 15s                  # how long startup taints stay
  spotToSpotConsolidation: false
  stock:
    - {instanceType: p5.48xlarge, zone: us-east-1a, capacityType: spot, available: 0, from: 1h, until: 3h}
  interruptions:
    - {instanceTypes: [g5.*], zones: [us-east-1a], meanTimeBetween: 20h}
    - {series: interruptions.csv}
  notice: 2m                        # absent: two minutes at AWS, thirty seconds at GCP and Azure
  rebalanceHint: 10m                # before the notice; absent: none
  nodeGroups:                       # what a Cluster Autoscaler grows and shrinks
    - {name: gpu, instanceType: p4d.24xlarge, zone: us-east-1a, capacityType: on-demand, min: 0, max: 8}
  autoscaler: {expander: [priority, least-waste], balanceSimilarNodeGroups: true, scaleDownUnneededTime: 10m}
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from fairway.catalog.catalog import Catalog, catalog_of, load_catalog
from fairway.catalog.instances import InstanceType as CatalogType
from fairway.errors import InvalidInput
from fairway.kube.located import Field, did_you_mean, nearest
from fairway.kube.manifest import Manifest
from fairway.kube.objects import Obj
from fairway.provisioning.karpenter.fleet import Fleet
from fairway.provisioning.karpenter.instancetypes import InstanceType, types_of_catalog
from fairway.provisioning.karpenter.labels import INSTANCE_TYPE, ON_DEMAND, RESERVED, SPOT
from fairway.provisioning.karpenter.nodepoolchecks import problems_of
from fairway.provisioning.karpenter.nodepools import node_pool
from fairway.provisioning.karpenter.requirement import IN
from fairway.scenario.groupreading import read_autoscaler
from fairway.scenario.model import CloudPlan
from fairway.twin.distributions import EXPECTED, Distribution, parse_distribution
from fairway.twin.markets.plan import DEFAULT_NOTICE_US, NOTICE_US, Hazard, Interruption, Market
from fairway.twin.markets.recorded import read_interruptions
from fairway.twin.provisioner.cloud import (
    DEFAULT_BOOT,
    DEFAULT_STARTUP_US,
    EIGHT_GPUS_BOOT,
    FOREVER_US,
    GPU_BOOT,
    Cloud,
    Shortage,
)

CLOUD = (
    "provider",
    "regions",
    "instanceTypes",
    "prices",
    "bootTime",
    "startupTime",
    "spotToSpotConsolidation",
    "stock",
    "interruptions",
    "notice",
    "rebalanceHint",
    "nodeGroups",
    "autoscaler",
)
STOCK = ("instanceType", "zone", "capacityType", "available", "from", "until")
INTERRUPTION = ("name", "instanceTypes", "zones", "meanTimeBetween", "after", "series")
PROVIDERS = ("aws", "gcp", "azure")
_OF_GROUP = {"karpenter.k8s.aws": "aws", "karpenter.k8s.gcp": "gcp", "karpenter.azure.com": "azure"}
_NODE_POOL = "NodePool"
_MANY_GPUS = 8


def read_cloud(field: Field, pools: Sequence[Manifest], base: Path, start_us: int) -> CloudPlan | None:
    """The cloud of a scenario; None where it has neither the section nor NodePools."""
    if not field.is_given and not pools:
        return None
    before = len(field.reading.problems)
    parts = field.members(*CLOUD)
    books = _paths(parts["prices"], base)
    catalog = _catalog(parts["prices"], books)
    provider = parts["provider"].choice(PROVIDERS, _provider_of(pools))
    regions = _regions(parts["regions"], catalog, provider)
    known = [t for t in catalog.instance_types() if not t.provider or t.provider == provider]
    names = _names(parts["instanceTypes"], known)
    offered = types_of_catalog(catalog, provider=provider, regions=regions, at_us=start_us)
    types = tuple(t for t in offered if t.name in names)
    cloud = Cloud(
        types,
        boots=_boots(parts["bootTime"], [t for t in known if t.name in names]),
        boot=DEFAULT_BOOT,
        spot_to_spot=parts["spotToSpotConsolidation"].flag(),
        shortages=tuple(_shortage(item, known, start_us) for item in parts["stock"].items()),
        startup_us=parts["startupTime"].duration(DEFAULT_STARTUP_US),
    )
    # Of a cloud that is not understood nothing can be said.
    for manifest in pools if len(field.reading.problems) == before else ():
        _check_pool(manifest, field, cloud.types, known, provider)
    return CloudPlan(
        cloud,
        _market(parts, known, provider, base, start_us),
        provider,
        books,
        read_autoscaler(parts["nodeGroups"], parts["autoscaler"], cloud, offered, provider),
    )


def node_pools(manifests: Sequence[Manifest]) -> list[Manifest]:
    """Those that Karpenter would accept; what is wrong with others is said where objects are checked."""
    return [m for m in manifests if m.broken is None and is_node_pool(m.obj) and not problems_of(m)]


def is_node_pool(obj: Obj) -> bool:
    return obj.get("kind") == _NODE_POOL and str(obj.get("apiVersion", "")).startswith("karpenter.sh/")


# What can be had


def _paths(field: Field, base: Path) -> tuple[Path, ...]:
    """The files that are there; the others are problems."""
    found = []
    for item in field.one_or_many():
        path = base / item.text()
        if item.text() and path.exists():
            found.append(path)
        elif item.text():
            item.reject(f"no such file or directory: expected a price book beside {base}")
    return tuple(found)


def _catalog(field: Field, books: Sequence[Path]) -> Catalog:
    try:
        return load_catalog(books)
    except InvalidInput as wrong:
        field.reading.problems.extend(wrong.problems)
        return catalog_of(())


def _provider_of(pools: Sequence[Manifest]) -> str:
    for manifest in pools:
        spec = (manifest.obj.get("spec") or {}).get("template") or {}
        group = ((spec.get("spec") or {}).get("nodeClassRef") or {}).get("group")
        if group in _OF_GROUP:
            return _OF_GROUP[group]
    return PROVIDERS[0]


def _regions(field: Field, catalog: Catalog, provider: str) -> tuple[str, ...]:
    known = list(
        dict.fromkeys(r for t in catalog.instance_types() if t.provider == provider for r in t.regions)
    )
    if not field.is_given:
        return tuple(known[:1])
    for item in field.one_or_many():
        if item.text() and item.text() not in known:
            item.reject(did_you_mean(item.text(), known))
    return field.texts()


def _names(field: Field, known: Sequence[CatalogType]) -> frozenset[str]:
    """The types allowed, by patterns; without any: all."""
    if not field.is_given:
        return frozenset(t.name for t in known)
    found: list[str] = []
    for item in field.one_or_many():
        found += _matching(item, known)
    return frozenset(found)


def _matching(item: Field, known: Sequence[CatalogType]) -> list[str]:
    """The known types that a pattern names; none is a problem."""
    pattern = item.text().removeprefix("Standard_")
    found = [t.name for t in known if fnmatchcase(t.name, pattern)]
    if pattern and not found:
        item.reject(_unknown_type(pattern, known))
    return found


def _unknown_type(word: str, known: Sequence[CatalogType]) -> str:
    close = nearest(word, [t.name for t in known])
    hint = f"; did you mean {' or '.join(close)}?" if close else ""
    return f"no instance type of this provider in the catalog{hint} (fairway catalog instances lists them)"


def _boots(field: Field, known: Sequence[CatalogType]) -> dict[str, Distribution]:
    """By type: what the scenario says, else an estimate by its GPUs."""
    boots = {t.name: _boot_of(t) for t in known}
    if field.is_given and not isinstance(field.value, dict):
        said = field.parsed(parse_distribution, EXPECTED, DEFAULT_BOOT)
        return dict.fromkeys(boots, said)
    # The general rule first, whatever the order of the text.
    for pattern, item in sorted(field.entries(), key=lambda e: e[0] != "default"):
        said = item.parsed(parse_distribution, EXPECTED, DEFAULT_BOOT)
        names = [n for n in boots if pattern == "default" or fnmatchcase(n, pattern)]
        if not names:
            item.reject(f"no instance type of this cloud is called {pattern}")
        boots.update(dict.fromkeys(names, said))
    return boots


def _boot_of(kind: CatalogType) -> Distribution:
    if kind.gpus >= _MANY_GPUS:
        return EIGHT_GPUS_BOOT
    return GPU_BOOT if kind.gpus else DEFAULT_BOOT


def _shortage(item: Field, known: Sequence[CatalogType], start_us: int) -> Shortage:
    parts = item.members(*STOCK)
    if parts["instanceType"].is_given:
        _matching(parts["instanceType"], known)
    from_us = parts["from"].moment(start_us, start_us)
    until_us = parts["until"].moment(start_us, FOREVER_US)
    if until_us <= from_us:
        parts["until"].reject("expected a time after `from`")
    return Shortage(
        instance_type=parts["instanceType"].text("*"),
        zone=parts["zone"].text("*"),
        capacity_type=parts["capacityType"].choice((ON_DEMAND, SPOT, RESERVED, "*"), "*"),
        from_us=from_us,
        until_us=until_us,
        most=parts["available"].integer(0),
    )


# What is taken back


def _market(
    parts: dict[str, Field], known: Sequence[CatalogType], provider: str, base: Path, start_us: int
) -> Market:
    hazards: list[Hazard] = []
    recorded: list[Interruption] = []
    for item in parts["interruptions"].items():
        given = item.members(*INTERRUPTION)
        said = [name for name in ("meanTimeBetween", "after", "series") if given[name].is_given]
        if len(said) != 1:
            item.reject(
                "expected one of meanTimeBetween (exponential), after (any distribution), series (CSV)"
            )
        elif said == ["series"]:
            recorded += _series(given["series"], base, start_us)
        else:
            for pattern in given["instanceTypes"].one_or_many():
                _matching(pattern, known)
            hazards.append(_hazard(item, given))
    return Market(
        hazards=tuple(hazards),
        recorded=tuple(sorted(recorded, key=lambda i: i.at_us)),
        notice_us=parts["notice"].duration(NOTICE_US.get(provider, DEFAULT_NOTICE_US)),
        hint_us=parts["rebalanceHint"].duration(),
    )


def _hazard(item: Field, given: dict[str, Field]) -> Hazard:
    mean = given["meanTimeBetween"]
    if mean.is_given:
        after = Distribution("exponential", mean.duration(1, positive=True))
    else:
        after = given["after"].parsed(parse_distribution, EXPECTED, DEFAULT_BOOT)
    return Hazard(
        given["name"].text(f"interruption-{item.path[-1]}"),
        after,
        given["instanceTypes"].texts() or ("*",),
        given["zones"].texts() or ("*",),
    )


def _series(field: Field, base: Path, start_us: int) -> tuple[Interruption, ...]:
    try:
        return read_interruptions(base / field.required_text(), start_us)
    except InvalidInput as wrong:
        field.reading.problems.extend(wrong.problems)
        return ()


# NodePools that can never give a node


def _check_pool(
    manifest: Manifest,
    field: Field,
    types: Sequence[InstanceType],
    known: Sequence[CatalogType],
    provider: str,
) -> None:
    reading = field.reading
    if _unknown_names(manifest, field, known):
        return
    pool = node_pool(manifest.obj)
    fleet = Fleet(types)
    suited = fleet.compatible(pool.requirements)
    if suited and suited & fleet.offered(pool.requirements):
        return
    path = ("spec", "template", "spec", "requirements")
    offerings = sum(len(t.offerings) for t in types)
    what = (
        "no offering (zone, capacity type, price) of those that do meets them"
        if suited
        else "no instance type meets these requirements"
    )
    at = Field(type(reading)(manifest, reading.problems), path, None)
    at.reject(
        f"this NodePool can match nothing: {what}; {provider} has {len(types)} types, {offerings} offerings here"
    )


def _unknown_names(manifest: Manifest, field: Field, known: Sequence[CatalogType]) -> bool:
    """Whether a requirement names types that nobody knows; each is a problem at its place."""
    reading = type(field.reading)(manifest, field.reading.problems)
    before = len(reading.problems)
    names = {t.name for t in known}
    spec = ((manifest.obj.get("spec") or {}).get("template") or {}).get("spec") or {}
    for i, requirement in enumerate(spec.get("requirements") or ()):
        if requirement.get("key") != INSTANCE_TYPE or requirement.get("operator") != IN:
            continue
        for j, value in enumerate(requirement.get("values") or ()):
            if str(value).removeprefix("Standard_") not in names:
                path = ("spec", "template", "spec", "requirements", i, "values", j)
                Field(reading, path, value).reject(_unknown_type(str(value), known))
    return len(reading.problems) > before
