"""Latency models: named, from files, and what is wrong with a file."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from random import Random

import pytest

from fairway.errors import InvalidInput
from fairway.kube.timestamps import SECOND_US, parse_duration
from fairway.twin.distributions import Distribution, parse_distribution
from fairway.twin.latency import DEFAULT, NONE, YAML_NAMES, latency_named, read_latency


def test_zero_takes_no_time_and_keeps_the_deadlines() -> None:
    zero = latency_named("zero")
    assert zero.image_pull.is_zero and zero.watch.is_zero and zero.controller_qps == 0
    assert zero.node_monitor_grace_period_us == DEFAULT.node_monitor_grace_period_us == 50 * SECOND_US


# As upstream's flags and defaults have them, and the estimates beside them: what is no text is in seconds.
SAID: dict[str, str | float] = {
    "api_write": "5ms",
    "watch": "5ms",
    "scheduler_cycle": "1.3ms",
    "kueue_cycle": "5ms",
    "controller_reconcile": "10ms",
    "kubelet_sync": "50ms",
    "sandbox_start": "uniform(400ms, 1s)",
    "image_pull": "lognormal(20s, 0.8)",
    "image_check": "300ms",
    "volume_provision": "uniform(2s, 5s)",
    "container_start": "uniform(200ms, 500ms)",
    "container_relist": "uniform(0s, 1s)",
    "pod_teardown": "300ms",
    "lease_renew_interval_us": 10,
    "node_monitor_period_us": 5,
    "node_monitor_grace_period_us": 50,
    "node_startup_grace_period_us": 60,
    "default_toleration_us": 300,
    "pod_gc_period_us": 20,
    "pod_gc_quarantine_us": 40,
    "container_backoff_us": 10,
    "container_backoff_max_us": 300,
}
COUNTS = {
    "node_eviction_rate_milli": 100,
    "secondary_node_eviction_rate_milli": 10,
    "large_cluster_size_threshold": 50,
    "unhealthy_zone_threshold_milli": 550,
    "terminated_pod_gc_threshold": 12_500,
}
RATES = {
    "controller_qps": 20,
    "controller_burst": 30,
    "scheduler_qps": 50,
    "scheduler_burst": 100,
    "kueue_qps": 300,
    "kueue_burst": 500,
}


def test_what_holds_where_nobody_says_anything() -> None:
    deadlines = {name: round(s * SECOND_US) for name, s in SAID.items() if not isinstance(s, str)}
    takes_time = {name: parse_distribution(text) for name, text in SAID.items() if isinstance(text, str)}
    assert asdict(DEFAULT).keys() == {*SAID, *COUNTS, *RATES}
    assert {f: getattr(DEFAULT, f) for f in asdict(DEFAULT)} == deadlines | takes_time | COUNTS | RATES
    nothing = dict.fromkeys(takes_time, parse_distribution("0s"))
    assert {f: getattr(NONE, f) for f in asdict(NONE)} == deadlines | nothing | COUNTS | dict.fromkeys(
        RATES, 0
    )


def test_a_file_says_what_differs(tmp_path: Path) -> None:
    path = tmp_path / "latency.yaml"
    path.write_text(
        "base: zero\nimagePull: lognormal(45s, 0.6)\nnodeMonitorGracePeriod: 40s\n"
        "controllerQPS: 100\nnodeEvictionRate: 0.5\n"
    )
    model = latency_named(str(path))
    assert model.image_pull == Distribution("lognormal", 45 * SECOND_US, 0.6)
    assert model.node_monitor_grace_period_us == 40 * SECOND_US
    assert (model.controller_qps, model.node_eviction_rate_milli) == (100, 500)
    assert model.sandbox_start == NONE.sandbox_start


def test_rates_are_numbers_from_none_to_a_thousand_million() -> None:
    text = "controllerQPS: 0\nschedulerQPS: 1000000000\nnodeEvictionRate: 0.0016\npodGcPeriod: 1m30s\n"
    model = read_latency(text, "l.yaml")
    assert (model.controller_qps, model.scheduler_qps, model.node_eviction_rate_milli) == (0, 10**9, 2)
    assert model.pod_gc_period_us == 90 * SECOND_US
    assert read_latency("", "l.yaml") is DEFAULT and read_latency("base: zero", "l.yaml") == NONE
    with pytest.raises(InvalidInput) as caught:
        read_latency(
            "schedulerQPS: 1000000001\nnodeEvictionRate: -0.001\nwatch: x\nkueueQPS: many\n", "l.yaml"
        )
    assert [(p.line, p.path, p.value) for p in caught.value.problems] == [
        *((1, "schedulerQPS", "1000000001"), (2, "nodeEvictionRate", "-0.001")),
        *((3, "watch", "x"), (4, "kueueQPS", "many")),
    ]


WRONG = {
    "an unknown name": ("imagepull: 3s\n", 1, "unknown name"),
    "not a duration": ("watch: 1s\nimagePull: quick\n", 2, "expected a duration"),
    "a deadline that is no duration": (
        "watch: 1s\npodGcPeriod: soon\n",
        2,
        "expected a duration (250ms, 1h30m)",
    ),
    "less than no time": ("watch: -1s\n", 1, "expected a duration"),
    "low above high": ("imagePull: uniform(3s, 1s)\n", 1, "LOW at most HIGH"),
    "a negative rate": ("controllerQPS: -1\n", 1, "0 or more"),
    "an unknown base": ("base: fast\n", 1, "default or zero"),
    "a list": ("- a\n", 1, "mapping"),
    "no YAML": ("a: [\n", 2, "not YAML"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_file_that_is_wrong(name: str) -> None:
    text, line, expected = WRONG[name]
    with pytest.raises(InvalidInput) as caught:
        read_latency(text, "l.yaml")
    problem = caught.value.problems[0]
    assert problem.line == line and expected in problem.expected


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(InvalidInput, match="default, zero or a readable"):
        latency_named("/nowhere/l.yaml")


def test_names_are_those_of_kubernetes() -> None:
    assert {"nodeMonitorGracePeriod", "terminatedPodGcThreshold", "controllerQPS"} <= set(YAML_NAMES)


@pytest.mark.parametrize(
    ("text", "low_s", "middle_s", "high_s"),
    [
        ("2s", 2, 2, 2),
        ("uniform(1s, 3s)", 1, 2, 3),
        ("exponential(10s)", 0, 6.93, 1000),
        ("lognormal(20s, 0.5)", 0, 20, 1e4),
    ],
)
def test_draws_follow_their_distribution(text: str, low_s: float, middle_s: float, high_s: float) -> None:
    distribution = parse_distribution(text)
    draw = distribution.sampler(Random(1))
    drawn = sorted(draw() for _ in range(4001))
    assert low_s * SECOND_US <= drawn[0] and drawn[-1] <= high_s * SECOND_US
    assert drawn[2000] == pytest.approx(middle_s * SECOND_US, rel=0.1)
    assert distribution.at_quantile(0.5) == pytest.approx(middle_s * SECOND_US, rel=0.01)
    assert parse_distribution(str(distribution)) == distribution


@pytest.mark.parametrize("text", ["0s", "90s", "1234567s", " 90s ", "1.5s", "90", "1m30s", "250ms"])
def test_a_duration_does_not_vary(text: str) -> None:
    assert parse_distribution(text) == Distribution("constant", parse_duration(text))


@pytest.mark.parametrize(
    "text", ["", "uniform(1s)", "lognormal(1s, x)", "lognormal(1s, 99)", "exponential(1s, 2s)", "-3s"]
)
def test_what_is_no_distribution(text: str) -> None:
    with pytest.raises(ValueError, match="expected a duration"):
        parse_distribution(text)
