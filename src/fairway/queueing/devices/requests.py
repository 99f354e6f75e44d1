"""How many devices of which class does a claim ask for, and are there any that its selectors choose?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fairway.cluster.actions import View
from fairway.kube.cel.operators import CelError
from fairway.kube.fieldpath import Path
from fairway.kube.objects import Obj
from fairway.queueing.devices.mapping import DeviceClassMappings
from fairway.queueing.devices.matching import (
    Faulty,
    Match,
    class_selectors,
    compile_faults,
    expressions,
    internal,
    published,
)
from fairway.queueing.facts.amounts import saturated
from fairway.queueing.webhooks.faults import Fault, aggregate, invalid

_REQUESTS: Path = ("devices", "requests")


def requests_of(spec: Obj) -> list[Obj]:
    found: list[Obj] = (spec.get("devices") or {}).get("requests") or []
    return found


def is_charged(exactly: Obj | None) -> bool:
    """Administrators' access is free."""
    return exactly is not None and not exactly.get("adminAccess")


def count_of(exactly: Obj) -> int:
    return int(exactly.get("count") or 1)


def devices_per_class(spec: Obj) -> dict[str, int]:
    """Raises: Faulty, for what Kueue does not support; paths are relative to the claim's spec."""
    out: dict[str, int] = {}
    for index, request in enumerate(requests_of(spec)):
        at: Path = (*_REQUESTS, index)
        exactly = request.get("exactly")
        if request.get("firstAvailable"):
            raise Faulty([invalid(at, None, "FirstAvailable device selection is not supported")])
        if exactly is None:
            raise Faulty([invalid(at, None, "Exactly must be set if FirstAvailable is nil")])
        selectors: Path = (*at, "exactly", "selectors")
        wrong = compile_faults(exactly.get("selectors") or (), selectors, "CEL compilation failed")
        if wrong:
            raise Faulty([invalid(selectors, None, aggregate(str(w) for w in wrong))])
        if not is_charged(exactly):
            continue
        mode, mode_at = exactly.get("allocationMode") or "ExactCount", (*at, "exactly", "allocationMode")
        if mode == "All":
            raise Faulty([invalid(mode_at, mode, "AllocationMode 'All' is not supported")])
        if mode != "ExactCount":
            raise Faulty([invalid(mode_at, mode, f"unsupported allocation mode: {mode}")])
        name = exactly.get("deviceClassName") or ""
        if name:
            out[name] = saturated(out.get(name, 0) + count_of(exactly))
    return out


def selection_faults(view: View, mappings: DeviceClassMappings, spec: Obj, at: Path) -> list[Fault]:
    """Requests with selectors that too few devices of the cluster satisfy: quota would be held for nothing."""
    asked = [(i, r["exactly"]) for i, r in enumerate(requests_of(spec)) if _has_selectors(r)]
    if not asked:
        return []
    devices, drivers = published(view), _drivers(mappings, [exactly for _, exactly in asked])
    taken: set[int] = set()
    out: list[Fault] = []
    for index, exactly in asked:
        path: Path = (*at, *_REQUESTS, index, "exactly", "selectors")
        name, wanted = exactly.get("deviceClassName") or "", count_of(exactly)
        try:
            of_class = class_selectors(view, name, at, index)
            selectors = (*of_class, *expressions(exactly["selectors"]))
            found = _take(devices.matches(drivers, selectors), taken, wanted)
        except Faulty as wrong:
            out += wrong.faults
        except CelError as failed:
            out.append(invalid(path, None, f"CEL evaluation failed for DeviceClass {name}: {failed}"))
        else:
            if found < wanted:
                what = f"insufficient matching devices for CEL selector in DeviceClass {name}"
                out.append(
                    internal(path, f"{what}: {found} device(s) match in the cluster but {wanted} requested")
                )
    return out


def _has_selectors(request: Obj) -> bool:
    return any(s.get("cel") for s in (request.get("exactly") or {}).get("selectors") or ())


def _drivers(mappings: DeviceClassMappings, asked: Sequence[Obj]) -> tuple[str, ...]:
    """Those that sources name, where every class has sources; else none: the devices of all drivers count."""
    drivers: list[str] = []
    for exactly in asked:
        name = exactly.get("deviceClassName") or ""
        of_class = [s.driver for _, s in mappings.counters_of(name)]
        of_class += [s.driver for s in mappings.capacities_of(name)]
        if not of_class:
            return ()
        drivers += of_class
    return tuple(dict.fromkeys(drivers))


def _take(matches: Iterable[Match], taken: set[int], wanted: int) -> int:
    """How many are found, up to what is wanted; each counts for one request only.

    Raises: CelError, where a selector fails on a device before enough are found.
    """
    found = 0
    for match in matches:
        if match.place in taken:
            continue
        if match.failed is not None:
            raise match.failed.with_traceback(None)
        taken.add(match.place)
        found += 1
        if found >= wanted:
            break
    return found
