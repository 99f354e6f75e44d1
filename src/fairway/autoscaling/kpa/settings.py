"""The ConfigMap `config-autoscaler` of knative-serving.

Source: pkg/autoscaler/config/config.go, pkg/apis/autoscaling/register.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from fairway.kube.durations import duration_ns, go_duration_us
from fairway.kube.timestamps import MINUTE_US, SECOND_US

NAME: Final = "config-autoscaler"
NAMESPACE: Final = "knative-serving"
KPA: Final = "kpa.autoscaling.knative.dev"
HPA: Final = "hpa.autoscaling.knative.dev"
TARGET_MIN: Final = 0.01
WINDOW_MIN_US, WINDOW_MAX_US = 6 * SECOND_US, 60 * MINUTE_US
_TRUE: Final = ("1", "t", "T", "TRUE", "true", "True")
_FALSE: Final = ("0", "f", "F", "FALSE", "false", "False")


class SettingsFault(Exception):
    """Serving's words for why a ConfigMap is refused; the one before stays in force."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Defaults are Serving's."""

    enable_scale_to_zero: bool = True
    allow_zero_initial_scale: bool = False
    concurrency_target_fraction: float = 0.7
    concurrency_target_default: float = 100.0
    target_utilization: float = 0.7
    rps_target_default: float = 200.0
    target_burst_capacity: float = 211.0
    activator_capacity: float = 100.0
    max_scale_up_rate: float = 1000.0
    max_scale_down_rate: float = 2.0
    panic_window_percentage: float = 10.0
    panic_threshold_percentage: float = 200.0
    stable_window_us: int = 60 * SECOND_US
    scale_to_zero_grace_us: int = 30 * SECOND_US
    scale_to_zero_pod_retention_us: int = 0
    scale_down_delay_us: int = 0
    initial_scale: int = 1
    min_scale: int = 0
    max_scale: int = 0
    max_scale_limit: int = 0
    pod_autoscaler_class: str = KPA


DEFAULT: Final = Settings()


def _flag(text: str) -> bool:
    if text not in _TRUE + _FALSE:
        raise ValueError(f'strconv.ParseBool: parsing "{text}": invalid syntax')
    return text in _TRUE


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f'strconv.ParseFloat: parsing "{text}": invalid syntax') from None


def _duration(text: str) -> int:
    return duration_ns(text) // 1000


# Key → field and how it is read, in the order in which Serving reads them.
_READ: Final[dict[str, tuple[str, Callable[[str], Any]]]] = {
    "pod-autoscaler-class": ("pod_autoscaler_class", str),
    "enable-scale-to-zero": ("enable_scale_to_zero", _flag),
    "allow-zero-initial-scale": ("allow_zero_initial_scale", _flag),
    "max-scale-up-rate": ("max_scale_up_rate", _number),
    "max-scale-down-rate": ("max_scale_down_rate", _number),
    "container-concurrency-target-percentage": ("concurrency_target_fraction", _number),
    "container-concurrency-target-default": ("concurrency_target_default", _number),
    "requests-per-second-target-default": ("rps_target_default", _number),
    "target-burst-capacity": ("target_burst_capacity", _number),
    "panic-window-percentage": ("panic_window_percentage", _number),
    "activator-capacity": ("activator_capacity", _number),
    "panic-threshold-percentage": ("panic_threshold_percentage", _number),
    "initial-scale": ("initial_scale", _whole),
    "min-scale": ("min_scale", _whole),
    "max-scale": ("max_scale", _whole),
    "max-scale-limit": ("max_scale_limit", _whole),
    "stable-window": ("stable_window_us", _duration),
    "scale-down-delay": ("scale_down_delay_us", _duration),
    "scale-to-zero-grace-period": ("scale_to_zero_grace_us", _duration),
    "scale-to-zero-pod-retention-period": ("scale_to_zero_pod_retention_us", _duration),
}


def read_settings(data: Mapping[str, str]) -> Settings:
    """Keys that Serving does not know are passed over, as it does. Raises: SettingsFault."""
    told: dict[str, Any] = {}
    for key, (member, read) in _READ.items():
        if key in data:
            try:
                told[member] = read(str(data[key]).strip())
            except ValueError as wrong:
                raise SettingsFault(f'failed to parse data: failed to parse "{key}": {wrong}') from None
    settings = replace(DEFAULT, **told)
    if settings.concurrency_target_fraction > 1.0:
        fraction = settings.concurrency_target_fraction / 100.0
        settings = replace(settings, concurrency_target_fraction=fraction)
    fault = next((text for is_wrong, text in _faults(settings) if is_wrong), "")
    if fault:
        raise SettingsFault(fault)
    return settings


def _faults(of: Settings) -> list[tuple[bool, str]]:
    """What may be wrong, in Serving's order and words."""
    retention_us, fraction = of.scale_to_zero_pod_retention_us, of.concurrency_target_fraction
    target = fraction * of.concurrency_target_default
    least = 1 if of.max_scale_limit > 0 else 0
    return [
        (
            of.scale_to_zero_grace_us <= 0,
            f"scale-to-zero-grace-period must be positive, was: {go_duration_us(of.scale_to_zero_grace_us)}",
        ),
        (
            of.scale_down_delay_us < 0,
            f"scale-down-delay cannot be negative, was: {go_duration_us(of.scale_down_delay_us)}",
        ),
        (
            of.scale_down_delay_us % SECOND_US != 0,
            f"scale-down-delay = {go_duration_us(of.scale_down_delay_us)}, "
            "must be specified with at most second precision",
        ),
        (
            retention_us < 0,
            f"scale-to-zero-pod-retention-period cannot be negative, was: {go_duration_us(retention_us)}",
        ),
        (
            of.target_burst_capacity < 0 and of.target_burst_capacity != -1,
            "target-burst-capacity must be either non-negative or -1 (for unlimited), "
            f"was: {of.target_burst_capacity:f}",
        ),
        (
            not 0 < fraction <= 1,
            f"container-concurrency-target-percentage = {fraction:f} is outside of valid range of (0, 100]",
        ),
        (
            target < TARGET_MIN,
            "container-concurrency-target-percentage and container-concurrency-target-default yield target "
            f"concurrency of {target:g}, can't be less than {TARGET_MIN}",
        ),
        (
            of.rps_target_default < TARGET_MIN,
            f"requests-per-second-target-default must be at least {TARGET_MIN}, "
            f"was: {of.rps_target_default:g}",
        ),
        (of.activator_capacity < 1, f"activator-capacity = {of.activator_capacity:g}, must be at least 1"),
        (
            of.max_scale_up_rate <= 1,
            f"max-scale-up-rate = {of.max_scale_up_rate:g}, must be greater than 1.0",
        ),
        (
            of.max_scale_down_rate <= 1,
            f"max-scale-down-rate = {of.max_scale_down_rate:g}, must be greater than 1.0",
        ),
        (
            not WINDOW_MIN_US <= of.stable_window_us <= WINDOW_MAX_US,
            f"stable-window = {go_duration_us(of.stable_window_us)}, must be in [6s; 1h0m0s] range",
        ),
        (
            of.stable_window_us % SECOND_US != 0,
            f"stable-window = {go_duration_us(of.stable_window_us)}, must be specified with at most second precision",
        ),
        (
            not 1 <= of.panic_window_percentage <= 100,
            f"panic-window-percentage = {of.panic_window_percentage:g}, must be in [1, 100] interval",
        ),
        (
            of.initial_scale < 0 or (of.initial_scale == 0 and not of.allow_zero_initial_scale),
            f"initial-scale = {of.initial_scale}, must be at least 0 "
            "(or at least 1 when allow-zero-initial-scale is false)",
        ),
        (of.min_scale < 0, f"min-scale = {of.min_scale}, must be at least 0"),
        (
            of.max_scale < least or 0 < of.max_scale_limit < of.max_scale,
            f"max-scale = {of.max_scale}, must be in [{least}, max-scale-limit({of.max_scale_limit})] range",
        ),
        (of.max_scale_limit < 0, f"max-scale-limit = {of.max_scale_limit}, must be at least 0"),
        (
            0 < of.max_scale < of.min_scale,
            f"min-scale ({of.min_scale}) must be less than max-scale ({of.max_scale})",
        ),
    ]
