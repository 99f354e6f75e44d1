"""Absolute numbers and percentages: how many pods is `25%` of 10?

Source: apimachinery pkg/util/intstr GetScaledValueFromIntOrPercent (v1.34).
"""

from __future__ import annotations


def scaled(value: int | str, total: int, *, round_up: bool) -> int:
    """`value` as a number: itself, or that percentage of `total`, rounded as asked.

    Raises: ValueError for text that is no percentage.
    """
    if isinstance(value, int):
        return value
    if not value.endswith("%"):
        raise ValueError(f"expected a number or a percentage such as 25%, not {value!r}")
    percent = int(value[:-1])
    return -(-percent * total // 100) if round_up else percent * total // 100
