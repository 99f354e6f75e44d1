"""Admission fair sharing: which LocalQueue of a ClusterQueue used most lately?

Every LocalQueue has a consumption that follows what its workloads hold, with a half-life; a workload that is
admitted adds a penalty at once, so that bursts do not slip through between two samples. Queues with less
usage per weight are served first, and preempted last.

Amounts are exact decimals cut at nine digits, as Kueue's quantities are.

Source: pkg/util/admissionfairsharing, pkg/cache/queue/afs, localqueue_controller.go reconcileConsumedUsage,
workload_controller.go updateAfsConsumedUsage; KEP-4136.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import ROUND_DOWN, Context, Decimal
from typing import Any, Final

from fairway.kube import quantity
from fairway.kube.resources import CPU
from fairway.kube.timestamps import parse_duration
from fairway.queueing.facts.workloads import Workload

_NANO: Final = Decimal("1e-9")
_EXACT: Final = Context(prec=80)
_US_PER_S: Final = 1_000_000
# Defaults of Kueue's Configuration. Source: apis/config/v1beta2 defaults.
_SAMPLING_INTERVAL: Final = "5m"

Consumption = dict[str, Decimal]


@dataclass(frozen=True, slots=True)
class UsageSettings:
    """The `admissionFairSharing` section of Kueue's Configuration."""

    half_life_s: float
    sampling_interval_s: float
    weights: Mapping[str, float]


def usage_settings(raw: Mapping[str, Any]) -> UsageSettings:
    interval = parse_duration(raw.get("usageSamplingInterval") or _SAMPLING_INTERVAL)
    half_life = raw.get("usageHalfLifeTime")
    return UsageSettings(
        half_life_s=parse_duration(half_life) / _US_PER_S if half_life else 0.0,
        sampling_interval_s=interval / _US_PER_S,
        weights={n: float(quantity.of(v)) for n, v in (raw.get("resourceWeights") or {}).items()},
    )


@dataclass(slots=True)
class _Account:
    consumed: Consumption = field(default_factory=dict)
    penalties: dict[str, Consumption] = field(default_factory=dict)
    updated_us: int = 0


class QueueUsageLedger:
    """Consumption and penalties per LocalQueue (`namespace/name`)."""

    def __init__(self, settings: UsageSettings) -> None:
        self.settings = settings
        self._accounts: dict[str, _Account] = {}

    def copy(self) -> QueueUsageLedger:
        twin = QueueUsageLedger(self.settings)
        for queue, account in self._accounts.items():
            penalties = {key: dict(amounts) for key, amounts in account.penalties.items()}
            twin._accounts[queue] = _Account(dict(account.consumed), penalties, account.updated_us)
        return twin

    def set_consumed(self, queue: str, consumed: Mapping[str, Any], now_us: int) -> None:
        """Take over what a LocalQueue's status says was consumed."""
        amounts = {name: _decimal(quantity.of(value)) for name, value in consumed.items()}
        self._accounts[queue] = _Account(amounts, updated_us=now_us)

    def penalize(self, workload: Workload, now_us: int) -> None:
        """A workload was given quota: count part of its requests at once."""
        account = self._accounts.get(workload.queue)
        if account is None:
            account = self._accounts[workload.queue] = _Account(updated_us=now_us)
        rate = _decay_rate(self.settings.sampling_interval_s, self.settings.half_life_s)
        total: dict[str, int] = {}
        for pod_set in workload.totals:
            for name, value in pod_set.requests.items():
                total[name] = total.get(name, 0) + value
        account.penalties[workload.key] = _scaled(_amounts(total), rate)

    def forgive(self, queue: str, workload: str) -> None:
        """It was not admitted after all, or ended before it was."""
        account = self._accounts.get(queue)
        if account is not None:
            account.penalties.pop(workload, None)

    def sample(self, queue: str, holding: Mapping[str, int], now_us: int) -> Mapping[str, Decimal]:
        """Let consumption follow what is held now; called every sampling interval."""
        account = self._accounts.setdefault(queue, _Account())
        self._follow(account, holding, now_us)
        return account.consumed

    def settle(self, queue: str, workload: str, holding: Mapping[str, int], now_us: int) -> None:
        """A workload is admitted: its penalty becomes consumption."""
        account = self._accounts.get(queue)
        if account is None:
            account = self._accounts[queue] = _Account(updated_us=now_us)
        self._follow(account, holding, now_us)
        account.consumed = _sum(account.consumed, account.penalties.pop(workload, {}))

    def usage(self, queue: str, weight: float = 1.0) -> float:
        """What the LocalQueue used, weighted; infinite for weight zero."""
        if weight <= 0:
            return float("inf")
        account = self._accounts.get(queue)
        if account is None:
            return 0.0
        amounts = account.consumed
        for penalty in account.penalties.values():
            amounts = _sum(amounts, penalty)
        weights = self.settings.weights
        used = sum(weights.get(name, 1.0) * float(amounts[name]) for name in sorted(amounts))
        return used / weight

    def _follow(self, account: _Account, holding: Mapping[str, int], now_us: int) -> None:
        if self.settings.half_life_s == 0:
            account.consumed = {}
        else:
            elapsed_s = max(0.0, (now_us - account.updated_us) / _US_PER_S)
            rate = _decay_rate(elapsed_s, self.settings.half_life_s)
            held = _amounts(holding)
            account.consumed = _sum(_scaled(account.consumed, 1 - rate), _scaled(held, rate))
        account.updated_us = max(account.updated_us, now_us)


def _decay_rate(elapsed_s: float, half_life_s: float) -> float:
    """The part of the old value that is gone after this time."""
    return 0.0 if half_life_s == 0 else 1.0 - 0.5 ** (elapsed_s / half_life_s)


def _amounts(vector: Mapping[str, int]) -> Consumption:
    """Milli-CPU as CPUs, everything else as it is."""
    return {name: Decimal(v) / 1000 if name == CPU else Decimal(v) for name, v in vector.items()}


def _decimal(exact: Any) -> Decimal:
    return Decimal(exact.numerator) / Decimal(exact.denominator)


def _scaled(amounts: Consumption, factor: float) -> Consumption:
    """Times the factor as it prints, cut at nine digits."""
    exact = Decimal(repr(factor))
    return {
        name: _EXACT.multiply(value, exact).quantize(_NANO, rounding=ROUND_DOWN, context=_EXACT)
        for name, value in amounts.items()
    }


def _sum(a: Consumption, b: Consumption) -> Consumption:
    total = dict(a)
    for name, value in b.items():
        total[name] = total.get(name, Decimal(0)) + value
    return total
