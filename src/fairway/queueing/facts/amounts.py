"""Amounts of quota: integers, one of which means "no limit".

A quantity too large for 64 bits is unlimited in Kueue; here it is a number no real amount reaches, so plain
integer arithmetic keeps it the largest: what is left of it after use is still unlimited.

Source: pkg/resources/amount.go, resource_formatter.go, pkg/util/math.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from fairway.kube import quantity
from fairway.kube.resources import CPU, EPHEMERAL_STORAGE, MEMORY, is_hugepages

UNLIMITED: Final = 1 << 100
# Sums and differences of unlimited and real amounts stay far above this.
_UNLIMITED_FROM: Final = 1 << 99
MAX_INT64: Final = quantity.MAX_INT64
MIN_INT64: Final = -MAX_INT64 - 1
# 64-bit FNV-1a. Source: http://www.isthe.com/chongo/tech/comp/fnv/ (offset basis and prime).
_FNV_OFFSET: Final = 0xCBF29CE484222325
_FNV_PRIME: Final = 0x100000001B3
_MASK_64: Final = (1 << 64) - 1


def quota_amount(resource: str, value: object) -> int:
    """A quota as an amount: milli-CPU for cpu, whole units otherwise, `UNLIMITED` from 2^63-1 on."""
    exact = quantity.of(value)
    ceiling = MAX_INT64 // 1000 if resource == CPU else MAX_INT64
    if exact >= ceiling:
        return UNLIMITED
    return quantity.milli_ceil(value) if resource == CPU else quantity.whole_ceil(value)


def is_unlimited(amount: int) -> bool:
    return amount >= _UNLIMITED_FROM


def saturated(value: int) -> int:
    """Clamped to 64 bits, as Kueue's requests saturate."""
    return max(MIN_INT64, min(value, MAX_INT64))


@lru_cache(maxsize=65536)
def amount_text(resource: str, amount: int) -> str:
    """The quantity as Kueue's messages print it: cpu 1500 → `1500m`, gpu 1000 → `1k`, memory 2^31 → `2Gi`."""
    if is_unlimited(amount):
        return "<unlimited>"
    if amount == 0:
        return "0"
    amount = saturated(amount)
    if resource == CPU:
        return quantity.format_milli(amount)
    if resource in (MEMORY, EPHEMERAL_STORAGE) or is_hugepages(resource):
        return quantity.format_binary(amount)
    return quantity.canonical(str(amount))


@lru_cache(maxsize=4096)
def resource_rank(resource: str) -> tuple[int, str]:
    """Where a resource stands among the requests of a pod set: Kueue walks them by hash of the name.

    It decides which resource is refused first, so messages depend on it.
    Source: pkg/resources/slice_requests.go (gate VectorizedResourceRequests).
    """
    value = _FNV_OFFSET
    for byte in resource.encode():
        value = ((value ^ byte) * _FNV_PRIME) & _MASK_64
    return value, resource


def in_rank_order(requests: dict[str, int]) -> dict[str, int]:
    """The same requests in the order Kueue walks them."""
    if len(requests) < 2:
        return requests
    return {name: requests[name] for name in sorted(requests, key=resource_rank)}
