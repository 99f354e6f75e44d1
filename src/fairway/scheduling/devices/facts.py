"""ResourceSlices, DeviceClasses and ResourceClaims as typed facts, each read once.

An object is frozen: its facts are remembered by its identity, and go with it.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final, NamedTuple, TypeVar, final

from fairway.kube import quantity
from fairway.kube.nodeselection import Term, node_selector_terms
from fairway.kube.objects import Obj, meta_of, name_of, spec_of

SLICE: Final = "ResourceSlice.resource.k8s.io"
CLASS: Final = "DeviceClass.resource.k8s.io"
CLAIM: Final = "ResourceClaim.resource.k8s.io"
TEMPLATE: Final = "ResourceClaimTemplate.resource.k8s.io"
EXACT, ALL = "ExactCount", "All"

_REMEMBERED: Final = 65536
_SHAPES_KEPT: Final = 4096

T = TypeVar("T")


class Amount(NamedTuple):
    """A quantity: its value, and its text as Kubernetes prints it."""

    value: Fraction
    text: str


def amount(text: Any) -> Amount:
    return Amount(quantity.of(text), quantity.canonical(text))


class DeviceId(NamedTuple):
    """A device of the whole cluster."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


class Taint(NamedTuple):
    key: str
    value: str
    effect: str


class Toleration(NamedTuple):
    key: str
    operator: str
    value: str
    effect: str

    def tolerates(self, taint: Taint) -> bool:
        """Whatever its effect. Source: resourceclaim.ToleratesTaint."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        return self.operator == "Exists" or (self.operator in ("", "Equal") and self.value == taint.value)


class Policy(NamedTuple):
    """How much of a capacity may be asked for."""

    default: Amount | None
    values: tuple[Amount, ...]
    low: Amount | None
    high: Amount | None
    step: Amount | None


class Capacity(NamedTuple):
    total: Amount
    policy: Policy | None


class Consumption(NamedTuple):
    """What a device takes of one counter set."""

    counter_set: str
    counters: tuple[tuple[str, Fraction], ...]


class Where(NamedTuple):
    """Which nodes: one by name, all, or by selector. None of them: nowhere."""

    node: str = ""
    all_nodes: bool = False
    terms: tuple[Term, ...] | None = None
    selector: Obj | None = None

    def reaches(self, name: str, labels: Mapping[str, str]) -> bool:
        if self.node:
            return self.node == name
        if self.all_nodes:
            return True
        return self.terms is not None and any(t.matches(labels, name) for t in self.terms)


@dataclass(slots=True, eq=False)
class Device:
    """One device. `matches`: what selectors said of it (see `selecting`), remembered as long as it stays the same; one
    dict for devices in the same place of slices of one shape."""

    id: DeviceId
    obj: Obj
    attributes: Mapping[str, Obj]
    capacity: Mapping[str, Capacity]
    consumes: tuple[Consumption, ...]
    taints: tuple[Taint, ...]
    where: Where
    is_shared: bool
    binds_to_node: bool
    binding: tuple[str, ...]
    failing: tuple[str, ...]
    matches: dict[str, bool] = field(default_factory=dict)
    _content: str = ""

    @property
    def content(self) -> str:
        """All that an expression can see of it: two devices of one content differ in name, place or use."""
        if not self._content:
            obj = self.obj
            seen = (obj.get("attributes"), obj.get("capacity"), self.is_shared)
            self._content = f"{self.id.driver} {seen!r}"
        return self._content

    def attribute(self, name: str) -> Obj | None:
        """By its full name; a bare one is of the driver's domain."""
        found = self.attributes.get(name)
        if found is not None:
            return found
        domain, _, own = name.partition("/")
        return self.attributes.get(own) if domain == self.id.driver else None


@dataclass(slots=True, eq=False)
class Slice:
    """One ResourceSlice. `where` None: each device says for itself."""

    name: str
    driver: str
    pool: str
    generation: int
    count: int
    where: Where | None
    devices: tuple[Device, ...]
    counters: Mapping[str, Mapping[str, Fraction]]
    duplicate_set: str = ""
    shape: int = 0
    """Slices of one number have equal devices of one driver. 0: its devices are shared, or take counters."""


class Config(NamedTuple):
    """Configuration for a driver. `requests` empty: of all of them."""

    requests: tuple[str, ...]
    obj: Obj


@dataclass(slots=True, eq=False)
class Class:
    name: str
    selectors: tuple[str, ...]
    configs: tuple[Config, ...]
    extended: str
    created: str


@dataclass(slots=True, eq=False)
class Request:
    """One request, or one alternative of it (`parent` is the request's name then). `tolerations_obj`: as written."""

    name: str
    parent: str
    class_name: str
    mode: str
    count: int
    admin: bool
    selectors: tuple[str, ...]
    tolerations: tuple[Toleration, ...]
    tolerations_obj: list[Obj]
    capacity: Mapping[str, Amount]

    @property
    def full_name(self) -> str:
        return f"{self.parent}/{self.name}" if self.parent else self.name


class Constraint(NamedTuple):
    requests: frozenset[str]
    match: str
    distinct: str


Requests = tuple[tuple[str, tuple[Request, ...]], ...]


@final
class Claim:
    """What a claim asks for. `requests[i]`: one entry, or its alternatives in order. Two claims of one `text` ask for
    the same."""

    # Plain: one is made whenever a pod is tried, and compiled code makes dataclasses at Python's pace.
    def __init__(
        self,
        namespace: str,
        name: str,
        requests: Requests,
        constraints: tuple[Constraint, ...],
        configs: tuple[Config, ...],
        text: str,
    ) -> None:
        self.namespace: Final = namespace
        self.name: Final = name
        self.requests: Final = requests
        self.constraints: Final = constraints
        self.configs: Final = configs
        self.text: Final = text

    @property
    def title(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def has_alternatives(self) -> bool:
        return any(entries and entries[0].parent for _, entries in self.requests)


# Reading


def slice_of(obj: Obj) -> Slice:
    return _remembered(_slices, obj, _slice)


def class_of(obj: Obj) -> Class:
    return _remembered(_classes, obj, _class)


def claim_of(obj: Obj) -> Claim:
    meta = meta_of(obj)
    namespace, name = meta.get("namespace") or "", meta.get("name") or ""
    requests, constraints, configs, text = _remembered(_specs, spec_of(obj), _spec)
    return Claim(namespace, name, requests, constraints, configs, text)


_slices: dict[int, tuple[Obj, Slice]] = {}
_classes: dict[int, tuple[Obj, Class]] = {}
_Spec = tuple[Requests, tuple[Constraint, ...], tuple[Config, ...], str]
_specs: dict[int, tuple[Obj, _Spec]] = {}


def _remembered(memo: dict[int, tuple[Obj, T]], obj: Obj, read: Callable[[Obj], T]) -> T:
    known = memo.get(id(obj))
    if known is not None and known[0] is obj:
        return known[1]
    if len(memo) >= _REMEMBERED:
        memo.clear()
    facts = read(obj)
    memo[id(obj)] = (obj, facts)
    return facts


def _slice(obj: Obj) -> Slice:
    spec = spec_of(obj)
    driver, pool = spec.get("driver") or "", spec.get("pool") or {}
    pool_name = pool.get("name") or ""
    sets: dict[str, Mapping[str, Fraction]] = {}
    twice = ""
    for counter_set in spec.get("sharedCounters") or ():
        name = counter_set.get("name") or ""
        twice = twice or (name if name in sets else "")
        counters = counter_set.get("counters") or {}
        sets[name] = {k: quantity.of((v or {}).get("value") or 0) for k, v in counters.items()}
    devices = tuple([_device(d, driver, pool_name) for d in spec.get("devices") or ()])
    return Slice(
        name_of(obj),
        driver,
        pool_name,
        pool.get("generation") or 0,
        pool.get("resourceSliceCount") or 0,
        None if spec.get("perDeviceNodeSelection") else _where(spec),
        devices,
        sets,
        twice,
        _shape_of(driver, spec.get("devices"), devices),
    )


_shapes: dict[tuple[str, bytes], tuple[int, tuple[Device, ...]]] = {}
"""By what stands in a slice: the shape's number, and the devices of the first that had it."""
_shapes_seen = [0]


def _shape_of(driver: str, written: Any, devices: tuple[Device, ...]) -> int:
    if not devices or any(d.is_shared or bool(d.consumes) for d in devices):
        return 0
    try:
        # Version 2: equal contents are equal bytes, whoever else holds their parts.
        key = (driver, marshal.dumps(written, 2))
    except ValueError:
        return 0
    known = _shapes.get(key)
    if known is None:
        if len(_shapes) >= _SHAPES_KEPT:
            _shapes.clear()
        _shapes_seen[0] += 1
        known = _shapes[key] = (_shapes_seen[0], devices)
    for device, first in zip(devices, known[1], strict=True):
        device.matches = first.matches
    return known[0]


def _where(value: Obj) -> Where:
    selector = value.get("nodeSelector")
    terms = None if selector is None else node_selector_terms(selector)
    return Where(value.get("nodeName") or "", bool(value.get("allNodes")), terms, selector)


def _device(value: Obj, driver: str, pool: str) -> Device:
    return Device(
        DeviceId(driver, pool, value.get("name") or ""),
        value,
        value.get("attributes") or {},
        {name: _capacity(c or {}) for name, c in (value.get("capacity") or {}).items()},
        tuple(
            Consumption(
                c.get("counterSet") or "",
                tuple(
                    (k, quantity.of((v or {}).get("value") or 0))
                    for k, v in sorted((c.get("counters") or {}).items())
                ),
            )
            for c in value.get("consumesCounters") or ()
        ),
        tuple(
            Taint(t.get("key") or "", t.get("value") or "", t.get("effect") or "")
            for t in value.get("taints") or ()
        ),
        _where(value),
        bool(value.get("allowMultipleAllocations")),
        bool(value.get("bindsToNode")),
        tuple(value.get("bindingConditions") or ()),
        tuple(value.get("bindingFailureConditions") or ()),
    )


def _capacity(value: Obj) -> Capacity:
    policy = value.get("requestPolicy")
    if policy is None:
        return Capacity(amount(value.get("value") or "0"), None)
    span = policy.get("validRange") or {}

    def maybe(text: Any) -> Amount | None:
        return None if text is None else amount(text)

    values = tuple(amount(v) for v in policy.get("validValues") or ())
    return Capacity(
        amount(value.get("value") or "0"),
        Policy(
            maybe(policy.get("default")),
            values,
            maybe(span.get("min")),
            maybe(span.get("max")),
            maybe(span.get("step")),
        ),
    )


def _class(obj: Obj) -> Class:
    spec = spec_of(obj)
    return Class(
        name_of(obj),
        _expressions(spec),
        tuple(Config((), _without_requests(c)) for c in spec.get("config") or ()),
        spec.get("extendedResourceName") or "",
        meta_of(obj).get("creationTimestamp") or "",
    )


def _expressions(value: Obj) -> tuple[str, ...]:
    return tuple((s.get("cel") or {}).get("expression") or "" for s in value.get("selectors") or ())


def _without_requests(config: Obj) -> Obj:
    return {k: v for k, v in config.items() if k != "requests"}


def _spec(spec: Obj) -> _Spec:
    devices = spec.get("devices") or {}
    requests = tuple((r.get("name") or "", _entries(r)) for r in devices.get("requests") or ())
    constraints = tuple(
        Constraint(
            frozenset(c.get("requests") or ()),
            c.get("matchAttribute") or "",
            c.get("distinctAttribute") or "",
        )
        for c in devices.get("constraints") or ()
    )
    configs = tuple(
        Config(tuple(c.get("requests") or ()), _without_requests(c)) for c in devices.get("config") or ()
    )
    return requests, constraints, configs, repr(spec)


def _entries(request: Obj) -> tuple[Request, ...]:
    name = request.get("name") or ""
    exactly = request.get("exactly")
    if exactly is not None:
        return (request_of(exactly, name, ""),)
    return tuple(request_of(s, s.get("name") or "", name) for s in request.get("firstAvailable") or ())


def request_of(value: Obj, name: str, parent: str) -> Request:
    tolerations = value.get("tolerations") or []
    return Request(
        name,
        parent,
        value.get("deviceClassName") or "",
        value.get("allocationMode") or EXACT,
        value.get("count") or (1 if (value.get("allocationMode") or EXACT) == EXACT else 0),
        bool(value.get("adminAccess")),
        _expressions(value),
        tuple(
            Toleration(
                t.get("key") or "", t.get("operator") or "", t.get("value") or "", t.get("effect") or ""
            )
            for t in tolerations
        ),
        tolerations,
        {k: amount(v) for k, v in ((value.get("capacity") or {}).get("requests") or {}).items()},
    )
