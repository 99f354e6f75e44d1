"""Knative Serving's own test tables, played: `knative_tables.yaml`."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fairway.autoscaling.kpa import deciding, scaling
from fairway.autoscaling.kpa.deciding import Memory, decide, first_memory
from fairway.autoscaling.kpa.scaling import State, active_condition, scale_to
from fairway.autoscaling.kpa.settings import DEFAULT, SettingsFault, read_settings
from fairway.autoscaling.kpa.specs import GROUP, PROGRESS_DEADLINE, Spec, annotation, spec_of, targets
from fairway.autoscaling.kpa.windows import Averages, Buckets, Maximum
from fairway.kube.timestamps import SECOND_US

TABLES: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "knative_tables.yaml").read_text())
_DAY_S = 86_400


def _told(annotations: dict[str, str]) -> dict[str, str]:
    return {f"{GROUP}/{name}": value for name, value in annotations.items()}


def _id(case: Any) -> str:
    return str(case[0] if isinstance(case, list) else case["name"])


@pytest.mark.parametrize("case", TABLES["settings"], ids=_id)
def test_settings(case: Any) -> None:
    _, data, want = case
    if want is None:
        with pytest.raises(SettingsFault):
            read_settings(data)
    else:
        assert read_settings(data) == replace(DEFAULT, **want)


@pytest.mark.parametrize("case", TABLES["targets"], ids=_id)
def test_targets(case: Any) -> None:
    _, concurrency, annotations, settings, target, total = case
    found = targets(
        _told(annotations), concurrency, replace(DEFAULT, **{"concurrency_target_fraction": 1.0, **settings})
    )
    assert found == pytest.approx((target, total))


@pytest.mark.parametrize("case", TABLES["specs"], ids=_id)
def test_specs(case: Any) -> None:
    _, concurrency, annotations, settings, reachability, want = case
    whole = replace(DEFAULT, **{"concurrency_target_fraction": 1.0, **settings})
    spec = spec_of(_told(annotations), concurrency, whole, reachability=reachability)
    assert {name: getattr(spec, name) for name in want} == want


def test_older_spellings_of_annotations_are_read() -> None:
    assert annotation({f"{GROUP}/minScale": "3"}, "min-scale") == "3"
    assert annotation({f"{GROUP}/minScale": "3", f"{GROUP}/min-scale": "4"}, "min-scale") == "4"
    assert annotation({f"{GROUP}/scaleDownDelay": "3s"}, "scale-down-delay") == "3s"


@pytest.mark.parametrize("case", TABLES["maxima"], ids=_id)
def test_maxima(case: Any) -> None:
    _, buckets, values, want = case
    window, found = Maximum(), []
    for bucket, value in zip(buckets, values, strict=True):
        window = window.recorded(bucket, value, 5)
        found.append(window.current)
    assert found == want


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), min_size=1), st.integers(1, 6))
def test_a_maximum_is_that_of_the_last_buckets(steps: list[tuple[int, int]], size: int) -> None:
    window, at, seen = Maximum(), 0, []
    for gap, value in steps:
        at += gap
        seen.append((at, value))
        window = window.recorded(at, value, size)
        assert window.current == max(v for when, v in seen if at - when < size)


@pytest.mark.parametrize("case", TABLES["averages"], ids=_id)
def test_averages(case: Any) -> None:
    _, window_s, steps = case
    buckets = Buckets(window_s * SECOND_US)
    now_us = 0
    for step in steps:
        if isinstance(step, str):
            buckets.resize(int(step.split()[1]) * SECOND_US, now_us)
        elif isinstance(step, dict):
            ((second, want),) = step.items()
            assert buckets.average(_at(second)) == pytest.approx(want, abs=1e-6)
        else:
            now_us = _at(step[0])
            buckets.record(now_us, step[1])


def _at(second: float) -> int:
    return int((_DAY_S + second) * SECOND_US)


@pytest.mark.parametrize("case", TABLES["weighted"], ids=_id)
def test_weighted_averages(case: Any) -> None:
    _, window_s, steps, at, want = case
    buckets = Buckets(window_s * SECOND_US, is_weighted=True)
    for second, value in steps:
        buckets.record(_at(second), value)
    assert round(buckets.average(_at(at)), 3) == want
    # Nothing but time passes: everything weighs less, and after more than a window nothing is left.
    silent = [buckets.average(_at(at + i)) for i in range(window_s + 2)]
    assert silent == sorted(silent, reverse=True)
    assert silent[-1] == 0


@given(
    st.lists(st.tuples(st.integers(0, 12), st.floats(0, 100)), min_size=1, max_size=30),
    st.integers(1, 8),
    st.integers(0, 12),
)
def test_an_average_is_that_of_the_seconds_of_its_window(
    steps: list[tuple[int, float]], size: int, later: int
) -> None:
    """Against the definition: what was written in the window, over the seconds since the first write."""
    buckets, at = Buckets(size * SECOND_US), _DAY_S
    written: dict[int, float] = {}
    first = at
    for gap, value in steps:
        at += gap
        if not written or at - max(written) >= size:
            first = at
        written[at] = written.get(at, 0.0) + value
        buckets.record(at * SECOND_US, value)
    now = at + later
    inside = sum(value for when, value in written.items() if now - size < when >= first)
    seconds = min(at - first + 1, size - later)
    want = inside / seconds if later < size else 0.0
    assert buckets.average(now * SECOND_US) == pytest.approx(want, abs=1e-5)


def _spec(case: dict[str, Any], *, is_reachable: bool) -> Spec:
    return replace(
        spec_of({}, 0, DEFAULT),
        target=case["target"],
        total=case["target"] / 0.75,
        target_burst_capacity=case["tbc"],
        panic_threshold=case.get("panic_threshold", 2),
        max_scale_up_rate=case.get("up", 10),
        max_scale_down_rate=case.get("down", 10),
        scale_down_delay_us=case.get("delay", 0) * SECOND_US,
        activation_scale=case.get("activation_scale", 0),
        is_reachable=is_reachable,
    )


@pytest.mark.parametrize("case", TABLES["decisions"], ids=_id)
def test_decisions(case: Any) -> None:
    memory = first_memory(case.get("ready", 1), _at(0))
    if "panics" in case:
        memory = Memory(_at(case["panics"][0]), case["panics"][1])
    looks = [(look, True) for look in case["looks"]]
    looks += [(look, False) for look in case.get("then_unreachable", ())]
    for (second, ready, stable, panicking, want, *panic), is_reachable in looks:
        spec = _spec(case, is_reachable=is_reachable)
        found = decide(spec, memory, Averages(stable, panicking), ready, _at(second))
        memory = found.memory
        assert found.pods == want, found.why
        assert found.excess_burst == _excess(spec, ready, panicking)
        if panic:
            since_us = None if panic[0] == "none" else _at(panic[0])
            assert memory.panic_from_us == since_us


def _excess(spec: Spec, ready: int, panicking: float) -> int:
    """As the tests' expectedEBC works it out."""
    if spec.target_burst_capacity <= 0:
        return int(spec.target_burst_capacity)
    return math.floor(spec.target / 0.75 * ready - spec.target_burst_capacity - panicking)


@pytest.mark.parametrize("case", TABLES["scaling"]["cases"], ids=_id)
def test_scaling(case: Any) -> None:
    _, replicas, wanted, how, want, is_applied, again = case
    settings = read_settings({**TABLES["scaling"]["settings"], **how.get("settings", {})})
    bounds = {f"{name}-scale": str(how[name]) for name in ("min", "max") if name in how}
    annotations = _told({**how.get("annotations", {}), **bounds})
    if "progress_deadline" in how:
        annotations[PROGRESS_DEADLINE] = how["progress_deadline"]
    deadline_us = TABLES["scaling"]["progress_deadline_s"] * SECOND_US
    spec = spec_of(
        annotations, 0, settings, reachability=how.get("reach", ""), progress_deadline_us=deadline_us
    )
    active, for_s = how.get("active", ["Unknown", 0])
    now_us = _at(0)
    state = State(
        active,
        now_us - for_s * SECOND_US,
        how.get("initialized", False),
        now_us - how.get("proxied_for", 0) * SECOND_US if how.keys() & {"proxied_for", "proxied"} else None,
        how.get("activator", True),
    )
    found = scale_to(spec, state, wanted, now_us)
    assert found.wanted == want
    assert (found.applies and found.wanted != replicas) == is_applied
    assert (found.again_us > 0 and not found.is_probed) == (again is True)
    assert found.is_probed == (again == "probed")


@pytest.mark.parametrize("case", TABLES["active"], ids=str)
def test_active(case: Any) -> None:
    wanted, ready, least, before, after = case
    spec = replace(spec_of({}, 0, DEFAULT), min_scale=least, initial_scale=least)
    found = active_condition(spec, State(before, 0, is_initialized=False), wanted, ready)
    assert (before if found is None else found[0]) == after


def test_the_first_excess_burst_capacity() -> None:
    spec = spec_of({}, 0, DEFAULT)
    assert deciding.first_excess_burst(spec) == 100 - 211
    assert deciding.first_excess_burst(replace(spec, target_burst_capacity=-1)) == -1
    assert deciding.activators(spec, 10) == math.ceil((10 * 100 + 211) / 100)
    assert not scaling.is_served(scaling.Scaled(1, applies=True), -111)
