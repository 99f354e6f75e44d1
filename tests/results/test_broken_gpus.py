"""GPUs that break in a run, as their exporter tells."""

from pathlib import Path

from fairway.cli.main import main
from fairway.results.rundir import load_run
from fairway.results.telemetry import RunSource, series_of_run
from fairway.telemetry.promql import Matrix, query_range

SCENARIO = """
apiVersion: fairway.dev/v1alpha1
kind: Scenario
metadata: {name: broken}
spec:
  duration: 6h
  nodes:
    - {name: n-0, gpuModel: NVIDIA-H100-80GB-HBM3, capacity: {cpu: 64, memory: 512Gi, nvidia.com/gpu: 8}}
  timeline:
    - {at: 0s, apply: job.yaml}
    - {at: 1h, breakGPU: {nodes: n-0, gpu: 3, cause: xid-95, repairAfter: 1h}}
    - {at: 1h, breakGPU: {nodes: n-0, gpu: 5, cause: thermal, repairAfter: 2h}}
    - {at: 2h, breakGPU: {nodes: n-0, gpu: 1, cause: xid-13}}
"""
JOB = """
apiVersion: v1
kind: Pod
metadata: {name: work, annotations: {fairway.dev/run-time: 5h30m}}
spec:
  restartPolicy: Never
  containers:
    - {name: main, image: pytorch, resources: {limits: {nvidia.com/gpu: "6", cpu: "48", memory: 64Gi}}}
"""


def values(source: RunSource, began_ms: int, metric: str, gpu: int) -> list[float]:
    """Every half hour from 30 minutes on, whoever held it."""
    query = f'max without (pod, namespace, container) ({metric}{{gpu="{gpu}"}})'
    step = 1_800_000
    found = query_range(source, query, began_ms + step, began_ms + 11 * step, step)
    assert isinstance(found, Matrix) and len(found.labels) == 1
    return [float(v) for v in found.values[0]]


def test_what_breaks_is_in_the_series_for_as_long_as_it_lasts(tmp_path: Path) -> None:
    (tmp_path / "scenario.yaml").write_text(SCENARIO)
    (tmp_path / "job.yaml").write_text(JOB)
    out = tmp_path / "run"
    assert main(["simulate", str(tmp_path / "scenario.yaml"), "--out", str(out), "--quiet"]) == 0
    outcome = load_run(out).outcome
    assert [(b.node, b.card, b.cause) for b in outcome.breaks] == [
        ("n-0", 3, "xid-95"),
        ("n-0", 5, "thermal"),
        ("n-0", 1, "xid-13"),
    ]
    source, began = series_of_run(outcome), outcome.began_us // 1000
    started = began

    def of(metric: str, gpu: int) -> list[float]:
        return values(source, started, metric, gpu)

    assert of("DCGM_FI_DEV_XID_ERRORS", 3) == [0, 95, 95, 0, 0, 0, 0, 0, 0, 0, 0]
    # The card itself is well: the last error stays in sight.
    assert of("DCGM_FI_DEV_XID_ERRORS", 1) == [0, 0, 0, *[13] * 8]
    assert of("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", 3) == [0, 1, 1, *[0] * 8]
    assert of("DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", 3) == [0, *[1] * 10]
    assert of("DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", 2) == [0] * 11
    assert of("DCGM_FI_DEV_GPU_TEMP", 5)[1:5] == [87.0] * 4 and max(of("DCGM_FI_DEV_GPU_TEMP", 5)[5:]) < 87
    reasons = [int(v) & 0x60 for v in of("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", 5)]
    assert reasons == [0, *[0x60] * 4, *[0] * 6]
    spent = of("DCGM_FI_DEV_THERMAL_VIOLATION", 5)
    assert spent[0] == 0 and spent[4] > spent[1] and spent[5] == spent[10] > 6e12
    clocks, usual = of("DCGM_FI_DEV_SM_CLOCK", 5), of("DCGM_FI_DEV_SM_CLOCK", 4)
    assert all(slow < 0.85 * well for slow, well in zip(clocks[1:5], usual[1:5], strict=True) if well > 1000)
