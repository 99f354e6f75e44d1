"""Which of the published devices do selectors choose?

What an expression says of a device is remembered as long as the device's object is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from fairway.cluster.actions import View
from fairway.cluster.changes import Change
from fairway.cluster.following import index_of
from fairway.kube.cel.devices import is_match, selector
from fairway.kube.cel.operators import CelError
from fairway.kube.fieldpath import Path
from fairway.kube.objects import Key, Obj, spec_of
from fairway.kube.resourceclaims import CLASS, SLICE
from fairway.queueing.webhooks.faults import OMITTED, Fault, invalid

INTERNAL: Final = "Internal error"
_REMEMBERED: Final = 1 << 18
_MOST_MATCHES: Final = 256

_answers: dict[tuple[str, int], tuple[Obj, bool]] = {}


class Faulty(Exception):
    """What is wrong with a claim, as Kueue says it."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__("; ".join(str(f) for f in faults))
        self.faults = tuple(faults)


def internal(path: Path, detail: str) -> Fault:
    """An error that may pass: it is tried again."""
    return Fault(path, OMITTED, INTERNAL, detail)


class Published(NamedTuple):
    """One device."""

    driver: str
    obj: Obj


def devices_of(slices: Iterable[Obj]) -> Iterator[Published]:
    for one in slices:
        spec = spec_of(one)
        for device in spec.get("devices") or ():
            yield Published(spec.get("driver") or "", device)


def complete_pools(slices: Iterable[Obj], driver: str) -> Iterator[Obj]:
    """The slices of a driver's pools whose newest generation is all there."""
    pools: dict[str, list[Obj]] = {}
    for one in slices:
        pool = spec_of(one).get("pool") or {}
        if spec_of(one).get("driver") != driver:
            continue
        known = pools.setdefault(pool.get("name") or "", [])
        generation = pool.get("generation") or 0
        newest = (spec_of(known[0]).get("pool") or {}).get("generation") or 0 if known else generation
        if generation > newest:
            known.clear()
        if generation >= newest:
            known.append(one)
    for of_pool in pools.values():
        if len(of_pool) == (spec_of(of_pool[0])["pool"].get("resourceSliceCount") or 0):
            yield from of_pool


class Match(NamedTuple):
    """A device that selectors choose, by its place in the line; or the place where they failed."""

    place: int
    failed: CelError | None


class Matches:
    """The devices of a line that selectors choose, in its order, found as far as anybody has asked."""

    def __init__(self, devices: Sequence[Published], selectors: tuple[str, ...]) -> None:
        self._devices, self._selectors = devices, selectors
        self._found: list[Match] = []
        self._asked = 0

    def __iter__(self) -> Iterator[Match]:
        number = 0
        while True:
            while number < len(self._found):
                yield self._found[number]
                number += 1
            if self._asked >= len(self._devices):
                return
            self._ask()

    def _ask(self) -> None:
        place = self._asked
        self._asked += 1
        try:
            if all_hold(self._selectors, self._devices[place]):
                self._found.append(Match(place, None))
        except CelError as failed:
            self._found.append(Match(place, failed))


class PublishedDevices:
    """What drivers publish in one store, and what selectors choose of it: read again when a slice has changed."""

    def __init__(self, store: View) -> None:
        self._store = store
        self._lines: dict[tuple[str, ...], list[Published]] = {}
        self._matches: dict[tuple[tuple[str, ...], tuple[str, ...]], Matches] = {}
        self._complete: dict[str, list[Published]] = {}

    def apply(self, change: Change) -> None:
        if change.key[0] == SLICE:
            self._lines.clear()
            self._matches.clear()
            self._complete.clear()

    def of(self, drivers: tuple[str, ...]) -> list[Published]:
        """The devices of some drivers, one driver after the other; of none: all there are."""
        known = self._lines.get(drivers)
        if known is None:
            slices = self._store.objects(SLICE)
            if drivers:
                slices = [s for d in dict.fromkeys(drivers) for s in slices if spec_of(s).get("driver") == d]
            known = self._lines[drivers] = list(devices_of(slices))
        return known

    def matches(self, drivers: tuple[str, ...], selectors: tuple[str, ...]) -> Matches:
        key = drivers, selectors
        known = self._matches.get(key)
        if known is None:
            if len(self._matches) >= _MOST_MATCHES:
                self._matches.clear()
            known = self._matches[key] = Matches(self.of(drivers), selectors)
        return known

    def complete(self, driver: str) -> list[Published]:
        """Those of the driver's complete pools."""
        known = self._complete.get(driver)
        if known is None:
            slices = self._store.objects(SLICE)
            known = self._complete[driver] = list(devices_of(complete_pools(slices, driver)))
        return known


def published(view: View) -> PublishedDevices:
    """The index of this store."""
    return index_of(view, PublishedDevices, PublishedDevices)


def compile_faults(selectors: Sequence[Obj], at: Path, context: str) -> list[Fault]:
    """One for each selector that does not compile."""
    out = []
    for index, one in enumerate(selectors):
        expression = (one.get("cel") or {}).get("expression")
        if expression is not None and selector(expression).error:
            path = (*at, index, "cel", "expression")
            out.append(invalid(path, expression, f"{context}: {selector(expression).error}"))
    return out


def expressions(selectors: Sequence[Obj]) -> tuple[str, ...]:
    return tuple(s["cel"]["expression"] for s in selectors if s.get("cel"))


def class_selectors(view: View, name: str, at: Path, request: int) -> tuple[str, ...]:
    """Raises: Faulty, where the class is missing or its selectors do not compile."""
    if not name:
        return ()
    path: Path = (*at, "devices", "requests", request)
    found = view.get(Key(CLASS, "", name))
    if found is None:
        why = f'DeviceClass.resource.k8s.io "{name}" not found'
        raise Faulty([internal(path, f"failed to get DeviceClass {name}: {why}")])
    selectors = spec_of(found).get("selectors") or ()
    wrong = compile_faults(selectors, path, f"DeviceClass {name} has invalid CEL selector")
    if wrong:
        raise Faulty(wrong[:1])
    return expressions(selectors)


def all_hold(selectors: Iterable[str], device: Published) -> bool:
    """Raises: CelError, for an expression that fails on this device."""
    return all(_holds(expression, device) for expression in selectors)


def _holds(expression: str, device: Published) -> bool:
    key = expression, id(device.obj)
    known = _answers.get(key)
    if known is not None and known[0] is device.obj:
        return known[1]
    if len(_answers) >= _REMEMBERED:
        _answers.clear()
    answer = is_match(selector(expression), device.driver, device.obj)
    _answers[key] = device.obj, answer
    return answer


def chosen(
    view: View, driver: str, steps: Sequence[tuple[str, tuple[str, ...]]], fault: Callable[[str], Fault]
) -> list[Obj]:
    """The devices of a driver's complete pools that every step's selectors choose. `steps`: (whose they are, them).

    Raises: Faulty.
    """
    found = []
    for device in published(view).complete(driver):
        for whose, selectors in steps:
            try:
                holds = all_hold(selectors, device)
            except CelError as failed:
                name = device.obj.get("name") or ""
                why = f"CEL evaluation error in {whose} for device {name}: {failed}"
                raise Faulty([fault(why)]) from failed
            if not holds:
                break
        else:
            found.append(device.obj)
    return found
