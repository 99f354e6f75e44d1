"""How does a container behave? From annotations, from plain commands, or by a documented default.

Annotations of the pod, all optional, as `fairway.dev/<key>`, speak for its main containers;
`fairway.dev/<key>.<container>` speaks for one container, init containers and sidecars included, and wins.
Durations are `90s`, `1h30m` or a bare number of seconds; where it says *varies*, `uniform(LOW, HIGH)`,
`lognormal(MEDIAN, SIGMA)` and `exponential(MEAN)` are drawn once per pod.

| key | value | meaning |
|---|---|---|
| `run-time` | duration (*varies*) or `forever` | work until the container exits by itself |
| `exit-code` | `0`, or a list `1,1,0` | exit code, by attempt; the last one stays |
| `startup-time` | duration (*varies*) | until the application is up: no work before, every probe fails |
| `out-of-memory-after` | duration | killed by the kernel (137, OOMKilled) this long after its start |
| `stop-time` | duration or `never` | how long it takes to stop after SIGTERM; `never`: until SIGKILL |
| `stop-exit-code` | number | exit code after SIGTERM (143) |
| `checkpoint-interval` | duration | work between two checkpoints; absent: no checkpoints |
| `checkpoint-time` | duration | time one checkpoint takes, during which no work is done |
| `restore-time` | duration | time to resume from a checkpoint |
| `checkpoint-key` | text | whose work it is, where ownership does not tell (see `progress`) |
| `readiness-fails`, `liveness-fails`, `startup-fails` | `5m-6m,1h-` | when probes fail, since the container's start |
| `gpu-utilization` | `85%`, or `0s:10%,5m:90%` | GPU utilisation over work time, in steps |
| `gpu-memory` | `40Gi`, or `0s:10Gi,5m:60Gi` | memory of each GPU over work time, in steps; beyond its own: exit 1 |
| `gpu-activity` | `training,input-stalls=20%` | what the GPUs' metrics look like: see `telemetry.gpus.kinds` |
| `cpu-usage` | `500m`, or `0s:100m,5m:3` | CPU in use over work time, in steps; no more than its limit |
| `memory-usage` | `2Gi`, or `0s:1Gi,5m:6Gi` | memory in use over work time, in steps; above its limit it is killed |
| `image-pull-time` | duration (*varies*) | instead of the latency model's |
| `image-pull-fails` | `true`, or `0s-5m` | when pulling fails, since the pod's start on the node |
| `serving` | `slowdown=1.5,errors=2%,accuracy=0.91` | what sets this version of a model server apart |

Other annotation names can stand for these: `ALIASES` maps them. A container that says nothing of CPU and memory is
idle: it uses `IDLE_CPU_MILLI` and `IDLE_MEMORY_BYTES`.

Without `run-time` the command decides if it is understood (`commands`); a process that is PID 1 of its
container ignores SIGTERM unless it asked for it, which `sleep` and `sh` do not, so those stop at SIGKILL.
Otherwise a sidecar or a container that restarts Always runs for ever, an init container
`DEFAULT_INIT_RUN_US`, any other `DEFAULT_RUN_US`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fairway.kube.quantity import QuantityError, milli_ceil, whole_ceil
from fairway.kube.timestamps import MINUTE_US, SECOND_US, parse_duration
from fairway.serving.nature import parse_nature
from fairway.telemetry.gpus.kinds import Activity, parse_activity
from fairway.twin.commands import understand
from fairway.twin.distributions import ZERO, Distribution, constant, parse_distribution

PREFIX: Final = "fairway.dev/"

# Other spellings of our keys: those of the recordings under tests, KWOK's, and any a caller adds.
# Source: kwok kustomize/metrics/usage/usage-from-annotation.yaml.
ALIASES: Final[Mapping[str, str]] = {
    "rec/seconds": "run-time",
    "rec/exit": "exit-code",
    "kwok.x-k8s.io/usage-cpu": "cpu-usage",
    "kwok.x-k8s.io/usage-memory": "memory-usage",
}

# How long a run-to-completion container runs when nothing says: long enough to be seen, short enough not to
# hide that nobody said it. `fairway simulate` names the pods it was used for.
DEFAULT_RUN_US: Final = MINUTE_US
# How long an init container runs when nothing says: most prepare a volume or wait for a name to resolve.
DEFAULT_INIT_RUN_US: Final = SECOND_US
# What a container uses that says nothing: KWOK's default. Source: kwok usage-from-annotation.yaml (1m, 1Mi).
IDLE_CPU_MILLI: Final = 1
IDLE_MEMORY_BYTES: Final = 2**20
SIGKILL_EXIT: Final = 137
SIGTERM_EXIT: Final = 143

Window = tuple[int, int]
Step = tuple[int, int]
_FOREVER_US: Final = 2**62


class Behaviour:
    """One container's. Times in µs; `run` None: until stopped; `stop_us` None: only SIGKILL stops it.

    `gpu_utilization_milli`, `gpu_memory_bytes`, `cpu_milli` and `memory_bytes` are steps (from, value) over work time,
    sorted. `memory_limit_bytes` 0: none. Not changed once it is made; what nobody said keeps the class's value. A
    frozen dataclass sets all its fields, at 0.2 µs each: too dear where every pod has annotations of its own.
    """

    run: Distribution | None = None
    exit_codes: tuple[int, ...] = (0,)
    startup: Distribution = ZERO
    oom_after_us: int | None = None
    stop_us: int | None = 0
    stop_exit_code: int = SIGTERM_EXIT
    checkpoint_interval_us: int = 0
    checkpoint_us: int = 0
    restore_us: int = 0
    checkpoint_key: str = ""
    readiness_fails: tuple[Window, ...] = ()
    liveness_fails: tuple[Window, ...] = ()
    startup_fails: tuple[Window, ...] = ()
    gpu_utilization_milli: tuple[Step, ...] = ()
    gpu_memory_bytes: tuple[Step, ...] = ()
    cpu_milli: tuple[Step, ...] = ()
    memory_bytes: tuple[Step, ...] = ()
    memory_limit_bytes: int = 0
    gpu_activity: Activity | None = None
    step_us: int = 0
    """Of computing, in a step of training; 0: nobody said."""
    step_traffic: tuple[tuple[str, int, int], ...] = ()
    """Of a step: operation, ranks that take part (0: all), bytes."""
    image_pull: Distribution | None = None
    image_pull_fails: tuple[Window, ...] = ()
    is_default: bool = False
    """Whether nothing said how long it runs, so that `DEFAULT_RUN_US` was taken."""

    def exit_code(self, attempt: int) -> int:
        """The code of the attempt-th run (from 0)."""
        codes = self.exit_codes
        return codes[attempt] if attempt < len(codes) else codes[-1]


def limited(behaviour: Behaviour, memory_bytes: int) -> Behaviour:
    """The same container under another memory limit."""
    other = using(behaviour, behaviour.cpu_milli, behaviour.memory_bytes)
    other.memory_limit_bytes = memory_bytes
    return other


def using(behaviour: Behaviour, cpu_milli: tuple[Step, ...], memory_bytes: tuple[Step, ...]) -> Behaviour:
    """The same container, using as much as that."""
    other = Behaviour()
    other.run = behaviour.run
    other.exit_codes = behaviour.exit_codes
    other.startup = behaviour.startup
    other.oom_after_us = behaviour.oom_after_us
    other.stop_us = behaviour.stop_us
    other.stop_exit_code = behaviour.stop_exit_code
    other.checkpoint_interval_us = behaviour.checkpoint_interval_us
    other.checkpoint_us = behaviour.checkpoint_us
    other.restore_us = behaviour.restore_us
    other.checkpoint_key = behaviour.checkpoint_key
    other.readiness_fails = behaviour.readiness_fails
    other.liveness_fails = behaviour.liveness_fails
    other.startup_fails = behaviour.startup_fails
    other.gpu_utilization_milli = behaviour.gpu_utilization_milli
    other.gpu_memory_bytes = behaviour.gpu_memory_bytes
    other.memory_limit_bytes = behaviour.memory_limit_bytes
    other.gpu_activity = behaviour.gpu_activity
    other.step_us, other.step_traffic = behaviour.step_us, behaviour.step_traffic
    other.image_pull = behaviour.image_pull
    other.image_pull_fails = behaviour.image_pull_fails
    other.is_default = behaviour.is_default
    other.cpu_milli, other.memory_bytes = cpu_milli, memory_bytes
    return other


class BehaviourError(ValueError):
    """An annotation that does not say how to behave. Fields: the annotation's name, its value, what to write."""

    def __init__(self, annotation: str, value: str, expected: str) -> None:
        self.annotation = annotation
        self.value = value
        self.expected = expected
        super().__init__(f"{annotation}: {value!r}: {expected}")


Said = tuple[tuple[str, str, str], ...]
"""What annotations say: (our key with container suffix, value, annotation name), sorted."""


def said(annotations: Mapping[str, str], aliases: Mapping[str, str] = ALIASES) -> Said:
    """The annotations that concern behaviour, in one canonical form: a key for caches."""
    found = []
    for name, value in annotations.items():
        if name.startswith(PREFIX):
            found.append((name[len(PREFIX) :], str(value), name))
        elif name in aliases:
            found.append((aliases[name], str(value), name))
    found.sort()
    return tuple(found)


def behaviour_of(
    container: Mapping[str, Any], restart_policy: str, annotations: Said, *, is_init: bool = False
) -> Behaviour:
    """How this container behaves in a pod with these annotations. A sidecar is an init container that restarts
    Always.

    Raises: BehaviourError.
    """
    suffix = "." + str(container.get("name", ""))
    words = {} if is_init else {k: (value, name) for k, value, name in annotations if "." not in k}
    for key, value, name in annotations:
        if key.endswith(suffix):
            words[key.removesuffix(suffix)] = (value, name)
    changes: dict[str, Any] = {}
    for key, (value, name) in words.items():
        reader = _READERS.get(key)
        if reader is not None:
            try:
                changes.update(reader(value))
            except (ValueError, QuantityError) as wrong:
                raise BehaviourError(name, value, str(wrong)) from None
    if changes.get("cpu_milli") or changes.get("memory_bytes"):
        changes.update(_within_limits(container, changes))
    behaviour = _unannotated(container, restart_policy, is_init, says_run="run" in changes)
    for field, said_of_it in changes.items():
        setattr(behaviour, field, said_of_it)
    return behaviour


def _within_limits(container: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """CPU above its limit is throttled; memory above its limit is the kubelet's business."""
    limits = (container.get("resources") or {}).get("limits") or {}
    within: dict[str, Any] = {}
    if limits.get("cpu"):
        most = milli_ceil(limits["cpu"])
        within["cpu_milli"] = tuple((at, min(milli, most)) for at, milli in changes.get("cpu_milli", ()))
    if limits.get("memory"):
        within["memory_limit_bytes"] = whole_ceil(limits["memory"])
    return within


def problems(annotations: Mapping[str, str], aliases: Mapping[str, str] = ALIASES) -> list[BehaviourError]:
    """What is wrong with a pod's behaviour annotations, for whoever checks input; unknown keys included."""
    found = []
    for key, value, name in said(annotations, aliases):
        base = key.partition(".")[0]
        reader = _READERS.get(base)
        if reader is None:
            if base not in _NOT_OURS:
                expected = f"unknown annotation; expected one of {', '.join(PREFIX + k for k in _READERS)}"
                found.append(BehaviourError(name, value, expected))
            continue
        try:
            reader(value)
        except (ValueError, QuantityError) as wrong:
            found.append(BehaviourError(name, value, str(wrong)))
    return found


def _unannotated(
    container: Mapping[str, Any], restart_policy: str, is_init: bool, *, says_run: bool
) -> Behaviour:
    """What the command says, or the default. A new one, for the caller to add to."""
    behaviour = Behaviour()
    command = container.get("command")
    run = understand(tuple(str(w) for w in (*command, *(container.get("args") or ())))) if command else None
    if run is not None:
        behaviour.run = None if run.run_us is None else constant(run.run_us)
        behaviour.exit_codes = (run.exit_code,)
        behaviour.stop_us = None
    elif restart_policy != "Always" and not says_run:
        behaviour.run = constant(DEFAULT_INIT_RUN_US if is_init else DEFAULT_RUN_US)
        behaviour.is_default = not is_init
    return behaviour


# Readers: annotation text → fields.


def _run(value: str) -> dict[str, Any]:
    if value.strip() in ("forever", "infinity", "never"):
        return {"run": None}
    return {"run": parse_distribution(value)}


def _exit_codes(value: str) -> dict[str, Any]:
    codes = [c.strip() for c in value.split(",")]
    if not all(c.isdigit() and int(c) <= 255 for c in codes):
        raise ValueError("expected exit codes from 0 to 255, such as 0 or 1,1,0")
    return {"exit_codes": tuple(int(c) for c in codes)}


def _stop(value: str) -> dict[str, Any]:
    return {"stop_us": None if value.strip() == "never" else _us(value)}


def _windows(value: str) -> tuple[Window, ...]:
    """`5m-6m,1h-`: from-to since a start; an open end lasts for ever; `true` is always."""
    text = value.strip()
    if text in ("true", "always"):
        return ((0, _FOREVER_US),)
    if text in ("", "false", "never"):
        return ()
    windows = []
    for part in text.split(","):
        start, dash, end = part.partition("-")
        if not dash:
            raise ValueError("expected windows such as 5m-6m or 1h- (open end), separated by commas, or true")
        window = (_us(start or "0"), _us(end) if end.strip() else _FOREVER_US)
        if window[1] <= window[0]:
            raise ValueError("expected windows that end after they begin")
        windows.append(window)
    return _merged(sorted(windows))


def _merged(windows: list[Window]) -> tuple[Window, ...]:
    merged: list[Window] = []
    for start, end in windows:
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)


def _steps(value: str, amount: Any) -> tuple[Step, ...]:
    """`85%` or `0s:10%,5m:90%`."""
    steps = []
    for part in value.split(","):
        at, colon, what = part.rpartition(":")
        steps.append((_us(at) if colon else 0, amount(what.strip())))
    return tuple(sorted(steps))


def _percent_milli(text: str) -> int:
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        raise ValueError("expected a percentage from 0% to 100%, or steps such as 0s:10%,5m:90%") from None
    if not 0 <= value <= 100:
        raise ValueError("expected a percentage from 0% to 100%, or steps such as 0s:10%,5m:90%")
    return round(value * 10)


_OPERATIONS: Final = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "broadcast",
    "reduce",
    "alltoall",
    "sendrecv",
)


def _traffic(text: str) -> tuple[tuple[str, int, int], ...]:
    """`all_reduce=14Gi,alltoall@8=2Gi`."""
    found = []
    for part in text.replace(" ", "").split(","):
        name, sign, size = part.partition("=")
        kind, _, ranks = name.partition("@")
        if not sign or kind not in _OPERATIONS or (ranks and not (ranks.isdecimal() and int(ranks[:6]) > 1)):
            known = ", ".join(_OPERATIONS)
            raise ValueError(f"expected operations such as all_reduce=14Gi,alltoall@8=2Gi, of {known}")
        found.append((kind, int(ranks[:6] or 0), whole_ceil(size)))
    return tuple(found)


def _us(value: str) -> int:
    try:
        return parse_duration(value)
    except ValueError:
        raise ValueError("expected a duration such as 90s, 1h30m or a number of seconds") from None


def _code(value: str) -> dict[str, Any]:
    return {"stop_exit_code": _exit_codes(value)["exit_codes"][0]}


def _nature(value: str) -> dict[str, Any]:
    """Checked here; who serves reads it from the pod."""
    parse_nature(value)
    return {}


_READERS: Final[dict[str, Any]] = {
    "run-time": _run,
    "exit-code": _exit_codes,
    "startup-time": lambda v: {"startup": parse_distribution(v)},
    "out-of-memory-after": lambda v: {"oom_after_us": _us(v)},
    "stop-time": _stop,
    "stop-exit-code": _code,
    "checkpoint-interval": lambda v: {"checkpoint_interval_us": _us(v)},
    "checkpoint-time": lambda v: {"checkpoint_us": _us(v)},
    "restore-time": lambda v: {"restore_us": _us(v)},
    "checkpoint-key": lambda v: {"checkpoint_key": v},
    "readiness-fails": lambda v: {"readiness_fails": _windows(v)},
    "liveness-fails": lambda v: {"liveness_fails": _windows(v)},
    "startup-fails": lambda v: {"startup_fails": _windows(v)},
    "gpu-utilization": lambda v: {"gpu_utilization_milli": _steps(v, _percent_milli)},
    "gpu-memory": lambda v: {"gpu_memory_bytes": _steps(v, whole_ceil)},
    "gpu-activity": lambda v: {"gpu_activity": parse_activity(v)},
    "step-time": lambda v: {"step_us": _us(v)},
    "step-traffic": lambda v: {"step_traffic": _traffic(v)},
    "cpu-usage": lambda v: {"cpu_milli": _steps(v, milli_ceil)},
    "memory-usage": lambda v: {"memory_bytes": _steps(v, whole_ceil)},
    "image-pull-time": lambda v: {"image_pull": parse_distribution(v)},
    "image-pull-fails": lambda v: {"image_pull_fails": _windows(v)},
    "serving": _nature,
}
KEYS: Final = tuple(_READERS)
"""Every key, for the documentation's sake."""
# Annotations under our prefix that other rooms read.
_NOT_OURS: Final = (
    *("queue", "cost-center", "owner", "gpu-share", "gpu-index", "gpu-model"),
    *("gpu-instances", "numa-nodes", "cpus", "weights"),
)
