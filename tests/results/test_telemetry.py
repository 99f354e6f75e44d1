"""A run's series, from its tables."""

import numpy as np
import pytest

from fairway.recorder.tables import Outcome, Table
from fairway.results.gpuseries import parts_of
from fairway.results.rundir import load_run, write_run
from fairway.results.telemetry import series_of_run
from fairway.telemetry.store import Matcher, Series, is_stale
from recorded import Recorded
from results.runworld import INFO, small_world


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    return small_world().outcome()


def asked(outcome: Outcome, name: str, **labels: str) -> list[Series]:
    matchers = [Matcher("__name__", "=", name), *(Matcher(k, "=", v) for k, v in labels.items())]
    return list(series_of_run(outcome).select(matchers, outcome.began_us // 1000, outcome.ended_us // 1000))


def test_a_pods_gpus_are_as_busy_as_it_says(outcome: Outcome) -> None:
    found = asked(outcome, "DCGM_FI_DEV_GPU_UTIL", pod="train-1")
    assert len(found) == 4
    busy = np.concatenate([s.values[2:] for s in found])
    assert busy[~np.isnan(busy)].mean() == pytest.approx(85, abs=1)
    assert len(asked(outcome, "dcgm_gpu_utilization", pod="train-1")) == 4


def test_every_device_of_a_node_has_series(outcome: Outcome) -> None:
    devices = {
        (d["node"], d["gpu"]) for s in asked(outcome, "DCGM_FI_DEV_GPU_TEMP") for d in [dict(s.labels)]
    }
    assert len(devices) == 12
    labels = [s.labels for s in asked(outcome, "DCGM_FI_DEV_GPU_TEMP")]
    assert len(labels) == len(set(labels))


def test_a_series_ends_with_a_marker_when_its_pod_does(outcome: Outcome) -> None:
    for series in asked(outcome, "DCGM_FI_DEV_GPU_UTIL", namespace="platform"):
        if series.times[-1] < outcome.ended_us // 1000 - 30_000:
            assert is_stale(series.values)[-1]
        assert not is_stale(series.values)[:-1].any()


def test_the_state_of_pods_and_nodes(outcome: Outcome) -> None:
    (running,) = asked(outcome, "kube_pod_status_phase", pod="train-0", phase="Running")
    assert running.values[0] == 0 and 1 in running.values
    requests = asked(
        outcome, "kube_pod_container_resource_requests", resource="nvidia_com_gpu", pod="train-0"
    )
    assert [s.values[0] for s in requests if dict(s.labels).get("node")] == [4]
    (labels,) = asked(outcome, "kube_node_labels", node="gpu-b")
    assert dict(labels.labels)["label_nvidia_com_gpu_product"] == "NVIDIA-L40S"


def test_it_is_the_same_however_time_is_cut(outcome: Outcome) -> None:
    source, step = series_of_run(outcome), 601_000
    began, ended = outcome.began_us // 1000, outcome.ended_us // 1000
    for name in source.names():
        matchers = [Matcher("__name__", "=", name)]
        whole = {
            s.labels: (s.times.tolist(), s.values.tobytes()) for s in source.select(matchers, began, ended)
        }
        pieces: dict[object, tuple[list[int], bytes]] = {}
        for at in range(began, ended + 1, step):
            for s in source.select(matchers, at, min(at + step - 1, ended)):
                times, values = pieces.get(s.labels, ([], b""))
                pieces[s.labels] = (times + s.times.tolist(), values + s.values.tobytes())
        assert pieces == whole, name


def test_it_follows_from_the_directory(outcome: Outcome, tmp_path: object) -> None:
    run = write_run(tmp_path / "run", outcome, INFO)  # type: ignore[operator]
    again = load_run(tmp_path / "run").outcome  # type: ignore[operator]
    assert run.outcome.pods.columns["behaviour"] == again.pods.columns["behaviour"]
    for name in ("DCGM_FI_DEV_POWER_USAGE", "kube_pod_info"):
        first, second = ([(s.labels, s.values.tobytes()) for s in asked(o, name)] for o in (outcome, again))
        assert first == second


def test_a_run_without_anything() -> None:
    bare = Recorded().at(60).outcome()
    source = series_of_run(bare)
    for name in source.names():
        list(source.select([Matcher("__name__", "=", name)], 0, 10**15))
    assert isinstance(bare.pods, Table)


def test_what_a_nodes_resources_stand_for() -> None:
    from fairway.catalog.catalog import load_catalog

    a100 = load_catalog().gpu("A100-SXM4-80GB")
    shared = parts_of(a100, {"nvidia.com/gpu": "8"}, {"nvidia.com/gpu.replicas": "4"})
    assert [part.gpu for part in shared] == [0, 1]
    cut = parts_of(a100, {"nvidia.com/mig-3g.40gb": "2", "nvidia.com/mig-1g.10gb": "8"}, {})
    assert [(p.gpu, p.profile) for p in cut][:3] == [(0, "1g.10gb")] * 3
    assert max(p.gpu for p in cut) == 1
    assert parts_of(None, {"nvidia.com/mig-3g.40gb": "2"}, {}) == []
    assert len(parts_of(a100, {"fairway.dev/gpu-milli": "2000", "nvidia.com/gpu": "2"}, {})) == 2
