"""What is a trigger of KEDA's taken to say when it has failed too often?

Source: pkg/fallback/fallback.go (KEDA main, August 2026).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway.autoscaling.keda import scaledobjects
from fairway.autoscaling.keda.triggers import Probe
from fairway.kube.objects import Obj, spec_of

if TYPE_CHECKING:
    from fairway.twin.autoscaling.component import Autoscaling
    from fairway.twin.autoscaling.keda import Entry
    from fairway.twin.autoscaling.probing import Found


def instead(room: Autoscaling, entry: Entry, obj: Obj, one: Probe, found: Found) -> int | None:
    """In thousandths; None where what it says counts, or its fault. Every look counts, KEDA's and an autoscaler's."""
    spec = spec_of(obj)
    if not scaledobjects.has_fallback(spec):
        return None
    entry.failures[one.metric] = entry.failures.get(one.metric, 0) + 1 if found.fault else 0
    if not _is_over(entry, obj, one):
        return None
    there = room.host.store.get(entry.target) if entry.target else None
    current = int(((there or {}).get("spec") or {}).get("replicas") or 0)
    ready = int(((there or {}).get("status") or {}).get("readyReplicas") or 0)
    target = (one.spec.get("external") or {}).get("target") or {}
    is_value = target.get("type") == "Value"
    return scaledobjects.fallback_value(spec, one.target_milli, current, is_value, ready)


def is_left_to_formula(entry: Entry, obj: Obj, one: Probe) -> bool:
    """Whether its failures are nothing but a value that the formula goes without."""
    spec = spec_of(obj)
    is_so = (spec.get("fallback") or {}).get("behavior") == scaledobjects.OF_MODIFIERS
    return is_so and scaledobjects.has_fallback(spec) and _is_over(entry, obj, one)


def _is_over(entry: Entry, obj: Obj, one: Probe) -> bool:
    most = int(spec_of(obj)["fallback"].get("failureThreshold") or 0)
    return entry.failures.get(one.metric, 0) > most
