"""Writes the Grafana dashboards that `fairway monitoring` installs: panels as data, JSON by Grafana's Foundation SDK.

    pip install grafana-foundation-sdk
    python -m tools.dashboards

A panel is a title, a unit and its queries; rows of three. `tests/results/test_monitoring_set.py` asks every query of a
simulated run.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from grafana_foundation_sdk.builders import common, dashboard, heatmap, prometheus, stat, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import LegendDisplayMode, LegendPlacement
from grafana_foundation_sdk.models.dashboard import DataSourceRef

_OUT = Path(__file__).parent.parent / "src/fairway/telemetry/installing/dashboards"
_SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")


class Panel(NamedTuple):
    """`queries`: (PromQL, legend). `kind`: timeseries, stat or heatmap."""

    title: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    kind: str = "timeseries"


_HELD = 'DCGM_FI_DEV_GPU_UTIL{pod!=""}'
_BY_GPU = "max by (Hostname, gpu)"
BOARDS: dict[str, tuple[str, tuple[Panel, ...]]] = {
    "fairway-fleet": (
        "GPU fleet",
        (
            Panel("GPUs", "short", ((f"count({_BY_GPU} (DCGM_FI_DEV_GPU_TEMP))", "GPUs"),), "stat"),
            Panel(
                "Held", "short", ((f'count({_BY_GPU} (DCGM_FI_DEV_GPU_TEMP{{pod!=""}}))', "held"),), "stat"
            ),
            Panel("Utilisation", "percent", ((f"avg({_BY_GPU} (DCGM_FI_DEV_GPU_UTIL))", "mean"),), "stat"),
            Panel(
                "GPUs over time",
                "short",
                (
                    (f"count({_BY_GPU} (DCGM_FI_DEV_GPU_TEMP))", "all"),
                    (f'count({_BY_GPU} (DCGM_FI_DEV_GPU_TEMP{{pod!=""}}))', "held"),
                    (f"count({_BY_GPU} ({_HELD}) > 5)", "busy"),
                ),
            ),
            Panel(
                "Utilisation",
                "percent",
                ((f"avg({_BY_GPU} (DCGM_FI_DEV_GPU_UTIL))", "all GPUs"), (f"avg({_HELD})", "held GPUs")),
            ),
            Panel(
                "What SMs do",
                "percentunit",
                (
                    ("avg(DCGM_FI_PROF_GR_ENGINE_ACTIVE)", "a kernel runs"),
                    ("avg(DCGM_FI_PROF_PIPE_TENSOR_ACTIVE)", "tensor cores"),
                    ("avg(DCGM_FI_PROF_DRAM_ACTIVE)", "memory"),
                ),
            ),
            Panel("Power", "watt", ((f"sum({_BY_GPU} (DCGM_FI_DEV_POWER_USAGE))", "all GPUs"),)),
            Panel(
                "Temperature",
                "celsius",
                (("max(DCGM_FI_DEV_GPU_TEMP)", "hottest"), ("avg(DCGM_FI_DEV_GPU_TEMP)", "mean")),
            ),
            Panel(
                "Idle GPUs that are held",
                "short",
                (
                    (
                        'count(max by (Hostname, gpu) (max_over_time(DCGM_FI_DEV_GPU_UTIL{pod!=""}[30m])) < 5) '
                        "or vector(0)",
                        "idle",
                    ),
                ),
            ),
            Panel(
                "Utilisation by node",
                "percent",
                (("avg by (Hostname) (DCGM_FI_DEV_GPU_UTIL)", "{{Hostname}}"),),
                "heatmap",
            ),
            Panel(
                "GPUs by model",
                "short",
                (
                    (
                        "count by (modelName) (max by (modelName, Hostname, gpu) (DCGM_FI_DEV_GPU_TEMP))",
                        "{{modelName}}",
                    ),
                ),
            ),
            Panel(
                "Pods by phase",
                "short",
                (("sum by (phase) (kube_pod_status_phase)", "{{phase}}"),),
            ),
        ),
    ),
    "fairway-teams": (
        "GPU teams and jobs",
        (
            Panel(
                "GPUs held by namespace",
                "short",
                (
                    (
                        'count by (namespace) (max by (namespace, Hostname, gpu) (DCGM_FI_DEV_GPU_TEMP{pod!=""}))',
                        "{{namespace}}",
                    ),
                ),
            ),
            Panel(
                "Utilisation by namespace", "percent", ((f"avg by (namespace) ({_HELD})", "{{namespace}}"),)
            ),
            Panel(
                "Dollars an hour by namespace, at $3 a GPU-hour",
                "currencyUSD",
                (
                    (
                        'count by (namespace) (max by (namespace, Hostname, gpu) (DCGM_FI_DEV_GPU_TEMP{pod!=""})) * 3',
                        "{{namespace}}",
                    ),
                ),
            ),
            Panel(
                "Of that for idle GPUs",
                "currencyUSD",
                (
                    (
                        "sum by (namespace) (max by (namespace, Hostname, gpu) "
                        '(avg_over_time(DCGM_FI_DEV_GPU_UTIL{pod!=""}[30m])) < bool 5) * 3',
                        "{{namespace}}",
                    ),
                ),
            ),
            Panel(
                "Least used pods",
                "percent",
                ((f"bottomk(10, avg by (namespace, pod) ({_HELD}))", "{{pod}}"),),
            ),
            Panel(
                "Utilisation by owner",
                "percent",
                (
                    (
                        f"avg by (owner_kind, owner_name) (avg by (namespace, pod) ({_HELD}) * on (namespace, pod) "
                        "group_left (owner_kind, owner_name) max by (namespace, pod, owner_kind, owner_name) "
                        '(kube_pod_owner{owner_name!=""}))',
                        "{{owner_kind}}/{{owner_name}}",
                    ),
                ),
            ),
            Panel(
                "GPUs asked for, by namespace",
                "short",
                (
                    (
                        'sum by (namespace) (kube_pod_container_resource_requests{resource="nvidia_com_gpu"})',
                        "{{namespace}}",
                    ),
                ),
            ),
            Panel(
                "Memory of GPUs in use",
                "percentunit",
                (
                    (
                        'avg by (namespace) (DCGM_FI_DEV_FB_USED{pod!=""} / '
                        "(DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE))",
                        "{{namespace}}",
                    ),
                ),
            ),
            Panel(
                "Energy, kWh an hour",
                "short",
                (
                    (
                        'sum by (namespace) (rate(DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{pod!=""}[15m])) / 1e6',
                        "{{namespace}}",
                    ),
                ),
            ),
        ),
    ),
    "fairway-queues": (
        "GPU queues",
        (
            Panel(
                "Workloads waiting",
                "short",
                (("sum by (cluster_queue) (kueue_pending_workloads)", "{{cluster_queue}}"),),
            ),
            Panel(
                "Workloads admitted",
                "short",
                (("sum by (cluster_queue) (kueue_admitted_active_workloads)", "{{cluster_queue}}"),),
            ),
            Panel(
                "GPU quota in use",
                "percentunit",
                (
                    (
                        'sum by (cluster_queue) (kueue_cluster_queue_resource_usage{resource="nvidia.com/gpu"}) / '
                        'sum by (cluster_queue) (kueue_cluster_queue_nominal_quota{resource="nvidia.com/gpu"})',
                        "{{cluster_queue}}",
                    ),
                ),
            ),
            Panel(
                "Wait for admission, 95th percentile",
                "s",
                (
                    (
                        "histogram_quantile(0.95, sum by (cluster_queue, le) "
                        "(increase(kueue_admission_wait_time_seconds_bucket[6h])))",
                        "{{cluster_queue}}",
                    ),
                ),
            ),
            Panel(
                "Admissions an hour",
                "short",
                (
                    (
                        "sum by (cluster_queue) (increase(kueue_admitted_workloads_total[1h]))",
                        "{{cluster_queue}}",
                    ),
                ),
            ),
            Panel(
                "Pods without a node", "short", (("sum by (queue) (scheduler_pending_pods)", "{{queue}}"),)
            ),
        ),
    ),
    "fairway-node": (
        "GPU node",
        (
            Panel(
                "Utilisation",
                "percent",
                (('DCGM_FI_DEV_GPU_UTIL{Hostname=~"$node"}', "GPU {{gpu}} {{pod}}"),),
            ),
            Panel(
                "Memory used",
                "decmbytes",
                (('DCGM_FI_DEV_FB_USED{Hostname=~"$node"}', "GPU {{gpu}} {{pod}}"),),
            ),
            Panel("Power", "watt", (('DCGM_FI_DEV_POWER_USAGE{Hostname=~"$node"}', "GPU {{gpu}}"),)),
            Panel("Temperature", "celsius", (('DCGM_FI_DEV_GPU_TEMP{Hostname=~"$node"}', "GPU {{gpu}}"),)),
            Panel("SM clock", "hertz", (('DCGM_FI_DEV_SM_CLOCK{Hostname=~"$node"} * 1e6', "GPU {{gpu}}"),)),
            Panel(
                "PCIe, in and out",
                "Bps",
                (
                    ('sum by (gpu) (DCGM_FI_PROF_PCIE_RX_BYTES{Hostname=~"$node"})', "GPU {{gpu}} in"),
                    ('sum by (gpu) (DCGM_FI_PROF_PCIE_TX_BYTES{Hostname=~"$node"})', "GPU {{gpu}} out"),
                ),
            ),
            Panel(
                "NVLink",
                "KiBs",
                (
                    (
                        'sum by (gpu) (rate(DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL{Hostname=~"$node"}[5m]))',
                        "GPU {{gpu}}",
                    ),
                ),
            ),
            Panel(
                "Xid", "short", (('max by (gpu) (DCGM_FI_DEV_XID_ERRORS{Hostname=~"$node"})', "GPU {{gpu}}"),)
            ),
            Panel(
                "Tensor cores",
                "percentunit",
                (('DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{Hostname=~"$node"}', "GPU {{gpu}} {{pod}}"),),
            ),
        ),
    ),
}


def _panel(panel: Panel) -> object:
    made = {"timeseries": timeseries, "stat": stat, "heatmap": heatmap}[panel.kind].Panel()
    made = made.title(panel.title).unit(panel.unit).datasource(_SOURCE)
    if panel.kind == "timeseries":
        legend = (
            common.VizLegendOptions().display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM)
        )
        made = made.legend(legend.show_legend(True))
    for at, (query, legend_text) in enumerate(panel.queries):
        target = prometheus.Dataquery().expr(query).legend_format(legend_text).ref_id(chr(ord("A") + at))
        made = made.with_target(target)
    return made.height(8).span(8)


def _board(uid: str, title: str, panels: tuple[Panel, ...]) -> str:
    board = dashboard.Dashboard(title).uid(uid).tags(["gpu", "fairway"]).refresh("1m").time("now-6h", "now")
    board = board.with_variable(
        dashboard.DatasourceVariable("datasource").type("prometheus").label("Prometheus")
    )
    if any("$node" in query for panel in panels for query, _ in panel.queries):
        nodes = "label_values(DCGM_FI_DEV_GPU_TEMP, Hostname)"
        board = board.with_variable(
            dashboard.QueryVariable("node")
            .label("Node")
            .datasource(_SOURCE)
            .query(nodes)
            .include_all(True)
            .multi(True)
        )
    for panel in panels:
        board = board.with_panel(_panel(panel))
    return JSONEncoder(sort_keys=True, indent=1).encode(board.build()) + "\n"


def main() -> None:
    _OUT.mkdir(exist_ok=True)
    for uid, (title, panels) in BOARDS.items():
        (_OUT / f"{uid}.json").write_text(_board(uid, title, panels))


if __name__ == "__main__":
    main()
