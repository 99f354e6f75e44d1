"""How does each kind of work use a GPU? One model a kind, as numbers.

`fairway.dev/gpu-activity` names it; without, a pod's owner tells (`guess`). The level is the share of time in which a
kernel runs, which is what DCGM_FI_DEV_GPU_UTIL says; how full the SMs are meanwhile is less: an idle stream keeps
"utilisation" at 100 %.

Source: measured from Alibaba's GenAI serving trace of 2026: duty cycles by pod (busy a third of the time in runs of
minutes, 18 % at the median while busy, 39 % at the 90th percentile, days with a peak of 2.7 times their mean).
Estimates in the range that published fleets report (Hu et al., NSDI 2024; Patel et al., POLCA, 2024), not fitted to
their data: training's SM activity of about 40 %, memory hotter than the die, training near the power limit.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple


class Kind(NamedTuple):
    """Ratios to the level, unless said otherwise. `power`: share of the board's limit at a level of 1."""

    name: str
    level: float
    sm: float
    occupancy: float
    """Of active SMs: their warps in use."""
    tensor: float
    dram: float
    power: float
    memory: float
    """Share of the framebuffer taken where nobody says."""
    pcie: float
    """Share of the bus at a level of 1, host to device."""
    link: float
    """Share of NVLink, where it works with other GPUs."""


TRAINING, SERVING, NOTEBOOK, IDLE, STEADY = range(5)
KINDS: Final = (
    Kind("training", 0.93, 0.82, 0.34, 0.38, 0.46, 0.93, 0.76, 0.030, 0.22),
    Kind("serving", 0.0726, 0.60, 0.22, 0.14, 0.62, 0.68, 0.88, 0.012, 0.05),
    Kind("notebook", 0.03, 0.45, 0.18, 0.06, 0.20, 0.45, 0.12, 0.010, 0.0),
    Kind("idle", 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.10, 0.0, 0.0),
    Kind("steady", 1.0, 0.75, 0.30, 0.28, 0.45, 0.82, 0.60, 0.020, 0.15),
)
CODES: Final = {kind.name: code for code, kind in enumerate(KINDS)}
# Cores a GPU in training wants for its input; with fewer it waits for them. Source: what clouds sell beside one
# (4 to 12 vCPU), and example 03.
CORES_WANTED: Final = 4.0
INPUT_STALLS: Final = 0.04
"""Share of training's time that waits for input where nobody says."""

_TRAINERS: Final = (
    "Job",
    "CronJob",
    "JobSet",
    "PyTorchJob",
    "TFJob",
    "MPIJob",
    "XGBoostJob",
    "TrainJob",
    "RayJob",
)
_NOTEBOOK: Final = re.compile(r"notebook|jupyter|jhub|code-?server|workspace", re.IGNORECASE)


def guess(root_kind: str, name: str, *, is_serving: bool) -> int:
    """What a pod probably does, by its topmost owner and its name."""
    if root_kind == "Notebook" or _NOTEBOOK.search(name):
        return NOTEBOOK
    return SERVING if is_serving and root_kind not in _TRAINERS else TRAINING


class Activity(NamedTuple):
    """What the annotation says. `leak_mib_per_h`: framebuffer that is never given back."""

    kind: int
    input_stalls: float = INPUT_STALLS
    leak_mib_per_h: float = 0.0


def parse_activity(text: str) -> Activity:
    """`training`, `training,input-stalls=20%`, `serving,leak=2Gi` (per hour).

    Raises: ValueError, with what was expected.
    """
    name, *options = (part.strip() for part in text.split(","))
    if name not in CODES:
        raise ValueError(
            f"expected one of {', '.join(CODES)}, with input-stalls=20% or leak=1Gi behind a comma"
        )
    stalls, leak = INPUT_STALLS, 0.0
    for option in options:
        key, _, value = option.partition("=")
        if key == "input-stalls":
            stalls = _share(value)
        elif key == "leak":
            leak = _mib(value)
        else:
            raise ValueError(f"unknown option {key!r}; expected input-stalls=20% or leak=1Gi")
    return Activity(CODES[name], stalls, leak)


def _share(text: str) -> float:
    try:
        share = float(text.removesuffix("%")) / 100
    except ValueError:
        share = -1.0
    if not 0 <= share <= 0.95:
        raise ValueError(f"input-stalls: expected a percentage from 0% to 95%, not {text!r}")
    return share


def _mib(text: str) -> float:
    from fairway.kube.quantity import QuantityError, whole_ceil

    try:
        size = whole_ceil(text)
    except QuantityError:
        size = -1
    if not 0 <= size <= 2**44:
        raise ValueError(f"leak: expected bytes an hour, such as 500Mi or 2Gi, not {text!r}")
    return size / 2**20
