"""What may be set about the controller: kube-controller-manager's `--horizontal-pod-autoscaler-*`.

Source: pkg/controller/podautoscaler/config/v1alpha1/defaults.go, kube-controller-manager's options (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from fairway.kube.timestamps import MINUTE_US, SECOND_US, parse_duration

_PREFIX: Final = "--horizontal-pod-autoscaler-"


@dataclass(frozen=True, slots=True)
class Settings:
    """Defaults are upstream's."""

    sync_us: int = 15 * SECOND_US
    tolerance: float = 0.1
    stabilization_us: int = 5 * MINUTE_US
    initialization_us: int = 5 * MINUTE_US
    readiness_delay_us: int = 30 * SECOND_US


DEFAULT: Final = Settings()
_FLAGS: Final = {
    "sync-period": "sync_us",
    "downscale-stabilization": "stabilization_us",
    "cpu-initialization-period": "initialization_us",
    "initial-readiness-delay": "readiness_delay_us",
}


def from_flags(flags: Iterable[str]) -> Settings:
    """The controller's settings from its command line; flags of others are passed over. Raises: ValueError."""
    settings = DEFAULT
    for flag in flags:
        name, _, value = flag.removeprefix(_PREFIX).partition("=")
        if not flag.startswith(_PREFIX):
            continue
        if name == "tolerance":
            settings = replace(settings, tolerance=float(value))
        elif name in _FLAGS:
            settings = replace(settings, **{_FLAGS[name]: parse_duration(value)})
        else:
            raise ValueError(f"no setting {flag.partition('=')[0]} of the autoscaler is known")
    return settings
