"""From an entry of `traces` to a source and how it is used.

traces:
  - path: jobs.csv             # or generate: {…}, see docs/traces.md
    window: 2d..9d
    load: 1.3
"""

from __future__ import annotations

import re
from pathlib import Path

from fairway.errors import InvalidInput
from fairway.kube.located import Field
from fairway.kube.quantity import milli_ceil, whole_ceil
from fairway.kube.timestamps import DAY_US, HOUR_US
from fairway.traces import generate, scaling, sources
from fairway.traces.arrival import JOB, KINDS
from fairway.traces.generate import Mix, Recipe, zipf
from fairway.traces.jobs import JobTrace
from fairway.traces.sources import TraceUse
from fairway.twin.distributions import EXPECTED, Distribution, parse_distribution

_USE = (
    "path",
    "generate",
    "format",
    "seed",
    "start",
    "window",
    "speed",
    "load",
    "limit",
    "prefix",
    "kind",
    "namespace",
    "schedulerName",
    "suspended",
)
_RECIPE = (
    "name",
    "duration",
    "rate",
    "jobs",
    "pattern",
    "peakHour",
    "peakToTrough",
    "weekend",
    "startsAt",
    "runTime",
    "gpus",
    "replicas",
    "users",
    "namespaces",
    "priorityClasses",
    "queues",
    "gpuModels",
    "exitCodes",
    "cpusPerGpu",
    "memoryPerGpu",
    "cpusAlone",
    "memoryAlone",
    "gpuUtilization",
)
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*/\s*(s|m|h|d)")
_PER_HOUR = {"s": 3600.0, "m": 60.0, "h": 1.0, "d": 1 / 24}


def parse_rate(text: str | int | float) -> float:
    """Jobs per hour: `40/h`, `2/m`, `600/d`.

    Raises: ValueError.
    """
    match = _RATE.fullmatch(str(text).strip())
    if match is None or float(match[1]) <= 0:
        raise ValueError("expected a rate such as 40/h, 2/m or 600/d")
    return float(match[1]) * _PER_HOUR[match[2]]


def read_trace_use(field: Field, base: Path, start_us: int, lenient: bool) -> TraceUse | None:
    parts = field.members(*_USE)
    source = _source(field, parts, base, lenient)
    if source is None:
        return None
    seed = parts["seed"]
    window = parts["window"]
    return TraceUse(
        source=source,
        where=field.where(),
        path=f"spec.traces[{field.path[-1]}]",
        seed=seed.integer(0) if seed.is_given else None,
        start_us=parts["start"].moment(start_us, start_us) - start_us,
        window_us=window.parsed(
            lambda v: scaling.parse_window(str(v)), "expected a window such as 2d..9d, 12h.. or ..3d", None
        ),
        speed=parts["speed"].number(1.0, 0.001, 1e6),
        load=parts["load"].number(1.0, 0.0, scaling.MAX_LOAD),
        limit=parts["limit"].integer(0, 1),
        prefix=parts["prefix"].text(),
        kind=parts["kind"].choice(KINDS, JOB),
        namespace=parts["namespace"].text("default"),
        scheduler_name=parts["schedulerName"].text(),
        suspended=parts["suspended"].flag(),
    )


def _source(field: Field, parts: dict[str, Field], base: Path, lenient: bool) -> JobTrace | Recipe | None:
    given = [name for name in ("path", "generate") if parts[name].is_given]
    if len(given) != 1:
        field.reject("expected either path or generate")
        return None
    form = parts["format"].choice(sources.FORMATS, sources.AUTO)
    if given == ["generate"]:
        return read_recipe(parts["generate"], f"generated-{field.path[-1]}")
    path = base / parts["path"].text()
    try:
        return sources.read_trace(path, form=form, lenient=lenient)
    except InvalidInput as wrong:
        field.reading.problems.extend(wrong.problems)
        return None


def read_recipe(field: Field, name: str) -> Recipe:
    """A generator's recipe; what is left out is `Recipe`'s default."""
    plain = Recipe()
    parts = field.members(*_RECIPE)
    return Recipe(
        name=parts["name"].text(name),
        duration_us=parts["duration"].duration(DAY_US, positive=True),
        rate_per_hour=parts["rate"].parsed(
            parse_rate, "expected a rate such as 40/h, 2/m or 600/d", plain.rate_per_hour
        ),
        jobs=parts["jobs"].integer(0, 1, generate.MAX_JOBS),
        pattern=parts["pattern"].choice(generate.PATTERNS, generate.POISSON),
        peak_hour=parts["peakHour"].number(plain.peak_hour, 0, 24),
        peak_to_trough=parts["peakToTrough"].number(plain.peak_to_trough, 1, 1000),
        weekend=parts["weekend"].number(1.0, 0, 100),
        starts_at_us=parts["startsAt"].duration() % (7 * 24 * HOUR_US),
        run_time=_run_time(parts["runTime"], plain.run_time),
        gpus=_mix(parts["gpus"], plain.gpus, _gpus),
        replicas=_mix(parts["replicas"], plain.replicas, _positive),
        users=_users(parts["users"]),
        namespaces=_mix(parts["namespaces"], ()),
        priority_classes=_mix(parts["priorityClasses"], ()),
        queues=_mix(parts["queues"], ()),
        gpu_models=_mix(parts["gpuModels"], ()),
        exit_codes=_mix(parts["exitCodes"], plain.exit_codes, _exit_code),
        cpu_milli_per_gpu=_amount(parts["cpusPerGpu"], plain.cpu_milli_per_gpu, milli_ceil),
        memory_bytes_per_gpu=_amount(parts["memoryPerGpu"], plain.memory_bytes_per_gpu, whole_ceil),
        cpu_milli_alone=_amount(parts["cpusAlone"], plain.cpu_milli_alone, milli_ceil),
        memory_bytes_alone=_amount(parts["memoryAlone"], plain.memory_bytes_alone, whole_ceil),
        gpu_utilization=parts["gpuUtilization"].text(),
    )


def _run_time(field: Field, default: Distribution) -> Distribution:
    return field.parsed(parse_distribution, EXPECTED, default)


def _amount(field: Field, default: int, read: object) -> int:
    expected = "expected a quantity such as 500m, 8 or 64Gi"
    found = field.parsed(read, expected, default)  # type: ignore[arg-type]
    if found < 0:
        field.reject(expected)
        return default
    return int(found)


def _mix(field: Field, default: Mix, is_good: object = None) -> Mix:
    """Values and weights: a mapping, or one value."""
    if not field.is_given:
        return default
    if not isinstance(field.value, dict):
        return _checked(field, ((str(field.value), 1.0),), is_good)
    pairs = tuple((name, member.number(1.0, 0, 1e12)) for name, member in field.entries())
    if sum(weight for _, weight in pairs) <= 0:
        field.reject("expected values with weights, not all of them 0")
        return default
    return _checked(field, pairs, is_good)


def _checked(field: Field, pairs: Mix, is_good: object) -> Mix:
    if is_good is not None:
        for value, _ in pairs:
            if (why := is_good(value)) is not None:  # type: ignore[operator]
                field.reject(why, value)
                return ()
    return pairs


def _gpus(text: str) -> str | None:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    good = 0 <= value <= 1024 and (value <= 1 or value == int(value)) and round(value * 1000) == value * 1000
    return None if good else "expected GPU counts with weights, such as {0.5: 1, 1: 6, 8: 2}"


def _positive(text: str) -> str | None:
    return (
        None
        if text.isdigit() and 1 <= int(text) <= 100_000
        else "expected counts with weights, such as {1: 9, 4: 1}"
    )


def _exit_code(text: str) -> str | None:
    return (
        None
        if text.isdigit() and int(text) <= 255
        else "expected exit codes with weights, such as {0: 9, 1: 1}"
    )


def _users(field: Field) -> Mix:
    """`{alice: 3, bob: 1}`, or `{count: 20, skew: 1.1}` for users whose activity follows Zipf's law."""
    if isinstance(field.value, dict) and set(field.value) <= {"count", "skew"} and "count" in field.value:
        parts = field.members("count", "skew")
        return zipf(parts["count"].integer(1, 1, 100_000), parts["skew"].number(1.0, 0, 10))
    return _mix(field, ())
