"""metrics-server's arithmetic: two scrapes, fresh containers, restarts, windows."""

from __future__ import annotations

import pytest

from fairway.apiserver.metricsserver.answering import go_seconds, nano
from fairway.apiserver.metricsserver.nodepages import resource_metrics
from fairway.twin.kubelet.sampling import Scrapes, node_sample, pod_sample, scrapes
from fairway.twin.kubelet.usage import ContainerUse, NodeUse, PodUse

S = 1_000_000
WHEN = Scrapes(15 * S, 30 * S)


def container(started_s: int, core_ns: int, memory: int = 1, name: str = "c") -> ContainerUse:
    return ContainerUse(name, started_s * S, core_ns, 0, memory)


def pod(*containers: ContainerUse) -> PodUse:
    return PodUse("default", "p", "u", 0, containers)


def test_scrapes_are_at_multiples_of_the_resolution() -> None:
    assert scrapes(44 * S) == WHEN == scrapes(30 * S)


# (last, previous) → (milli-CPU, window in s), or nothing.
CASES: dict[str, tuple[PodUse, PodUse | None, tuple[int, int] | None]] = {
    "two points": (pod(container(1, 3000 * S)), pod(container(1, 1500 * S)), (100, 15)),
    "fresh, old enough": (pod(container(18, 1200 * S)), None, (100, 12)),
    "fresh, too young": (pod(container(25, 500 * S)), None, None),
    "started at the scrape before": (pod(container(15, 1500 * S)), pod(container(15, 0)), None),
    "restarted since": (pod(container(26, 100)), pod(container(1, 1500 * S)), None),
    "one of two too young": (
        pod(container(1, 3000 * S), container(25, 5, name="d")),
        pod(container(1, 1500 * S)),
        None,
    ),
    "no memory": (pod(container(1, 3000 * S, 0)), pod(container(1, 1500 * S)), None),
    "one of two without memory": (
        pod(container(1, 3000 * S), container(1, 3000 * S, 0, "d")),
        pod(container(1, 1500 * S), container(1, 1500 * S, 1, "d")),
        None,
    ),
    "one of two without cpu": (
        pod(container(1, 0), container(1, 3000 * S, 1, "d")),
        pod(container(1, 0), container(1, 1500 * S, 1, "d")),
        None,
    ),
    "as young as it may be": (pod(container(20, 1000 * S)), None, (100, 10)),
    "as old as the time between": (pod(container(15, 1500 * S)), None, None),
    "a microsecond before": (pod(container(14, 1600 * S)), pod(container(14, 100 * S)), (100, 15)),
    "less than before": (pod(container(1, 100)), pod(container(1, 101)), None),
    "no more than before": (pod(container(1, 100)), pod(container(1, 100)), (0, 15)),
    "no cpu": (pod(container(1, 0)), pod(container(1, 0)), None),
    "nothing runs": (pod(), pod(), None),
}


@pytest.mark.parametrize("name", CASES)
def test_a_pod_has_samples_once_every_container_has_two_points(name: str) -> None:
    last, previous, want = CASES[name]
    found = pod_sample(last, previous, WHEN)
    got = found and (found.containers[0][1].cpu_nano // 10**6, found.window_us // S)
    assert got == want


def test_a_pods_sample_is_as_old_as_its_oldest_containers() -> None:
    both = pod(container(1, 3000 * S, 7), container(18, 1200 * S, 9, "d"))
    found = pod_sample(both, pod(container(1, 1500 * S)), WHEN)
    assert found is not None and (found.at_us, found.window_us) == (30 * S, 15 * S)
    assert [(name, one.window_us, one.memory_bytes) for name, one in found.containers] == [
        ("c", 15 * S, 7),
        ("d", 12 * S, 9),
    ]


def test_a_node_has_samples_once_it_was_scraped_twice() -> None:
    last, previous = NodeUse("n", 30, 0, 5, ()), NodeUse("n", 15, 0, 4, ())
    assert node_sample(last, None, WHEN) is None
    for nothing in (NodeUse("n", 0, 0, 5, ()), NodeUse("n", 30, 0, 0, ()), NodeUse("n", 14, 0, 5, ())):
        assert node_sample(nothing, previous, WHEN) is None
    found = node_sample(last, previous, WHEN)
    assert found is not None and (found.at_us, found.window_us) == (30 * S, 15 * S)
    assert found is not None and (found.cpu_nano, found.memory_bytes) == (1, 5)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (1, "1n"), (1_500, "1500n"), (2_000, "2u"), (250 * 10**6, "250m"), (10**9, "1")],
)
def test_billionths_print_as_quantities(value: int, text: str) -> None:
    assert nano(value) == text


@pytest.mark.parametrize(
    ("duration_us", "text"), [(15 * S, "15s"), (12_345_678, "12.345678s"), (60 * S, "1m0s")]
)
def test_windows_print_as_go_prints_them(duration_us: int, text: str) -> None:
    assert go_seconds(duration_us) == text


def test_resource_metrics_is_exact_text() -> None:
    use = NodeUse("n", 2_500_000_000, 0, 7, (pod(container(3, 1_250_000_000, 6)),))
    lines = resource_metrics(use, 30 * S).splitlines()
    assert 'container_cpu_usage_seconds_total{container="c",namespace="default",pod="p"} 1.25 30000' in lines
    assert 'container_start_time_seconds{container="c",namespace="default",pod="p"} 3' in lines
    assert "node_cpu_usage_seconds_total 2.5 30000" in lines
    assert lines[-1] == "resource_scrape_error 0"
