"""What a Revision's annotations and the ConfigMap say together about its scale.

Source: pkg/reconciler/autoscaling/kpa/resources/decider.go, resources/{target,metric}.go,
pkg/apis/autoscaling/v1alpha1/pa_lifecycle.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from fairway.autoscaling.kpa.settings import TARGET_MIN, Settings
from fairway.kube.durations import duration_us
from fairway.kube.timestamps import SECOND_US

GROUP: Final = "autoscaling.knative.dev"
CONCURRENCY, RPS = "concurrency", "rps"
_T = TypeVar("_T", int, float)
PROGRESS_DEADLINE: Final = "serving.knative.dev/progress-deadline"
UNREACHABLE: Final = "Unreachable"
_EXPONENTIAL: Final = ("weighted-exponential", "weightedExponential")
# Annotations that Serving once spelt otherwise, and still reads.
_CAMEL: Final = frozenset(
    {
        "initial-scale",
        "max-scale",
        "metric-aggregation-algorithm",
        "min-scale",
        "panic-threshold-percentage",
        "panic-window-percentage",
        "scale-down-delay",
        "scale-to-zero-pod-retention-period",
        "target-burst-capacity",
        "target-utilization-percentage",
    }
)


@dataclass(frozen=True, slots=True)
class Spec:
    """How one Revision is scaled. `target` of the metric for each pod is aimed at, `total` is what it can take."""

    metric: str
    target: float
    total: float
    target_burst_capacity: float
    activator_capacity: float
    max_scale_up_rate: float
    max_scale_down_rate: float
    panic_threshold: float
    stable_window_us: int
    panic_window_us: int
    scale_down_delay_us: int
    is_reachable: bool
    initial_scale: int
    activation_scale: int
    min_scale: int
    max_scale: int
    retention_us: int
    grace_us: int
    scales_to_zero: bool
    activation_timeout_us: int
    is_weighted: bool


# Deployments get that long to become available. Source: config-deployment, progress-deadline.
PROGRESS_DEADLINE_US: Final = 600 * SECOND_US
# On top of it, so that the Revision can say what is wrong with its pods. Source: scaler.go.
_ACTIVATION_BUFFER_US: Final = 30 * SECOND_US


def annotation(of: Mapping[str, str], name: str) -> str | None:
    """By its name without the group, in either spelling."""
    told = of.get(f"{GROUP}/{name}")
    if told is None and name in _CAMEL:
        first, *rest = name.split("-")
        told = of.get(f"{GROUP}/{first}{''.join(word.capitalize() for word in rest)}")
    return told


def number(of: Mapping[str, str], name: str) -> float | None:
    """None where it is not there, or no number."""
    told = annotation(of, name)
    try:
        return None if told is None else float(told)
    except ValueError:
        return None


def whole(of: Mapping[str, str], name: str) -> int | None:
    told = annotation(of, name)
    try:
        return None if told is None else int(told)
    except ValueError:
        return None


def _time_us(told: str | None) -> int | None:
    try:
        return duration_us(told)
    except ValueError:
        return None


def targets(of: Mapping[str, str], container_concurrency: int, settings: Settings) -> tuple[float, float]:
    """What is aimed at for each pod, and what a pod can take at most."""
    by_rps = annotation(of, "metric") == RPS
    if by_rps:
        total, utilization = settings.rps_target_default, settings.target_utilization
    else:
        total = float(container_concurrency) or settings.concurrency_target_default
        utilization = settings.concurrency_target_fraction
    told = number(of, "target")
    if told is not None:
        total = told
        if not by_rps and container_concurrency:
            total = min(told, float(container_concurrency))
    percentage = number(of, "target-utilization-percentage")
    if percentage is not None:
        utilization = percentage / 100
    return max(TARGET_MIN, total * utilization), total


def initial_scale(of: Mapping[str, str], settings: Settings) -> int:
    told = whole(of, "initial-scale")
    if told is None or (told == 0 and not settings.allow_zero_initial_scale):
        return settings.initial_scale
    return told


def spec_of(
    of: Mapping[str, str],
    container_concurrency: int,
    settings: Settings,
    *,
    reachability: str = "",
    progress_deadline_us: int = PROGRESS_DEADLINE_US,
) -> Spec:
    """`of`: the annotations of a PodAutoscaler. `progress_deadline_us`: config-deployment's."""
    target, total = targets(of, container_concurrency, settings)
    is_reachable = reachability != UNREACHABLE
    stable_us = _or(_time_us(annotation(of, "window")), settings.stable_window_us)
    share = _or(number(of, "panic-window-percentage"), settings.panic_window_percentage)
    # Go rounds halves away from zero.
    panic_us = int(stable_us * share / 100 / SECOND_US + 0.5) * SECOND_US
    threshold = _or(number(of, "panic-threshold-percentage"), settings.panic_threshold_percentage)
    retention_us = _time_us(annotation(of, "scale-to-zero-pod-retention-period"))
    deadline_us = _or(_time_us(of.get(PROGRESS_DEADLINE)), progress_deadline_us)
    return Spec(
        metric=annotation(of, "metric") or CONCURRENCY,
        target=target,
        total=total,
        target_burst_capacity=_or(number(of, "target-burst-capacity"), settings.target_burst_capacity),
        activator_capacity=settings.activator_capacity,
        max_scale_up_rate=settings.max_scale_up_rate,
        max_scale_down_rate=settings.max_scale_down_rate,
        panic_threshold=threshold / 100,
        stable_window_us=stable_us,
        panic_window_us=max(panic_us, SECOND_US),
        scale_down_delay_us=_or(_time_us(annotation(of, "scale-down-delay")), settings.scale_down_delay_us),
        is_reachable=is_reachable,
        initial_scale=initial_scale(of, settings),
        activation_scale=_or(whole(of, "activation-scale"), 0),
        min_scale=_or(whole(of, "min-scale"), settings.min_scale) if is_reachable else 0,
        max_scale=_or(whole(of, "max-scale"), settings.max_scale),
        retention_us=_or(retention_us, settings.scale_to_zero_pod_retention_us) if is_reachable else 0,
        grace_us=settings.scale_to_zero_grace_us,
        scales_to_zero=settings.enable_scale_to_zero,
        activation_timeout_us=deadline_us + _ACTIVATION_BUFFER_US,
        is_weighted=annotation(of, "metric-aggregation-algorithm") in _EXPONENTIAL,
    )


def _or(told: _T | None, default: _T) -> _T:
    return default if told is None else told
