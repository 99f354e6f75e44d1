"""How long does each part of the machinery take? A frozen model with sourced defaults.

Two groups. *Latencies* are what work costs (an API write, an image pull, starting a container): `zero` sets
them to nothing. *Settings* are deadlines the real components are configured with (the 50 s after which a
silent node is unknown, request rates): they are policy, so `zero` keeps the deadlines and lifts the rates.

On the command line: `--latency default`, `--latency zero`, or a YAML file that names what differs:

    base: default            # or zero
    imagePull: lognormal(45s, 0.6)
    containerStart: 300ms
    nodeMonitorGracePeriod: 40s
    controllerQPS: 100

Keys are the fields below in camelCase.
"""

# ruff: noqa: RUF009 (Distribution is frozen: sharing a default is safe)
from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from fairway.errors import FieldProblem, InvalidInput
from fairway.kube.timestamps import SECOND_US, parse_duration
from fairway.twin.distributions import EXPECTED, ZERO, Distribution, constant, parse_distribution


def _ms(milliseconds: float) -> Distribution:
    return constant(round(milliseconds * 1000))


@dataclass(frozen=True, slots=True)
class Latency:
    """Latencies are distributions; settings are integer microseconds or rates (0: unlimited)."""

    # One mutating API request, p50. Kubernetes promises p99 ≤ 1 s (SIG Scalability SLO api_call_latency);
    # its 5,000-node load tests show medians of a few milliseconds, which is one etcd commit.
    api_write: Distribution = _ms(5)
    # From commit to the watcher's handler. An estimate: the watch cache adds about a millisecond a hop.
    watch: Distribution = _ms(5)
    # One scheduling cycle and binding. kube-scheduler's performance thresholds are 680–810 pods/s on 5,000
    # nodes (test/integration/scheduler_perf), that is about 1.3 ms a pod.
    scheduler_cycle: Distribution = _ms(1.3)
    # One cycle of Kueue's scheduler, from taking the heads to its decisions. An estimate.
    kueue_cycle: Distribution = _ms(5)
    # From an item entering a controller's queue to its first request. An estimate.
    controller_reconcile: Distribution = _ms(10)
    # From the watch event to the kubelet's pod worker acting. An estimate.
    kubelet_sync: Distribution = _ms(50)
    # Creating the pod sandbox and its network. With container_start below this lands on the 1–2 s medians
    # the SIG Scalability pod start-up tests report (SLO: p99 ≤ 5 s without image pulls).
    sandbox_start: Distribution = Distribution("uniform", 400_000, 1_000_000)
    # Pulling an image that the node does not have. 15 GB of CUDA and PyTorch at 200 MB/s would be 75 s, a
    # slim web image 5 s; registries vary. Say what yours are: this is the first number to measure.
    image_pull: Distribution = Distribution("lognormal", 20_000_000, 0.8)
    # Asking the registry about an image the node has (imagePullPolicy Always).
    image_check: Distribution = _ms(300)
    # From a claim's wish to its volume, as a cloud's CSI driver makes one. An estimate: disks of the large clouds
    # are there within seconds.
    volume_provision: Distribution = Distribution("uniform", 2_000_000, 5_000_000)
    # Creating and starting one container.
    container_start: Distribution = Distribution("uniform", 200_000, 500_000)
    # Noticing that a container ended: the kubelet relists containers every second (genericPlegRelistPeriod).
    container_relist: Distribution = Distribution("uniform", 0, 1_000_000)
    # Taking down volumes, network and cgroups of a pod after its last container, before it leaves the API.
    pod_teardown: Distribution = _ms(300)

    # kubelet: a node's lease is renewed every 10 s (nodeLeaseDurationSeconds 40 × 0.25).
    lease_renew_interval_us: int = 10 * SECOND_US
    # kube-controller-manager --node-monitor-period.
    node_monitor_period_us: int = 5 * SECOND_US
    # kube-controller-manager --node-monitor-grace-period: 50 s since 1.32, 40 s before.
    node_monitor_grace_period_us: int = 50 * SECOND_US
    # kube-controller-manager --node-startup-grace-period.
    node_startup_grace_period_us: int = 60 * SECOND_US
    # kube-controller-manager --node-eviction-rate: nodes per 1,000 seconds and zone (0.1/s).
    node_eviction_rate_milli: int = 100
    # kube-controller-manager --secondary-node-eviction-rate (0.01/s), in zones of more than
    # --large-cluster-size-threshold (50) nodes with at least --unhealthy-zone-threshold (55 %) not ready.
    secondary_node_eviction_rate_milli: int = 10
    large_cluster_size_threshold: int = 50
    unhealthy_zone_threshold_milli: int = 550
    # Admission plugin DefaultTolerationSeconds: not-ready and unreachable are put up with for 300 s.
    default_toleration_us: int = 300 * SECOND_US
    # podgc: gcCheckPeriod and quarantineTime; kube-controller-manager --terminated-pod-gc-threshold.
    pod_gc_period_us: int = 20 * SECOND_US
    pod_gc_quarantine_us: int = 40 * SECOND_US
    terminated_pod_gc_threshold: int = 12_500
    # kubelet: CrashLoopBackOff and ImagePullBackOff start at 10 s and double up to 300 s
    # (MaxContainerBackOff); a container that ran 10 minutes starts over (backOffPeriod, 2 × maximum).
    container_backoff_us: int = 10 * SECOND_US
    container_backoff_max_us: int = 300 * SECOND_US
    # kube-controller-manager --kube-api-qps and --kube-api-burst, shared by all controllers.
    controller_qps: int = 20
    controller_burst: int = 30
    # kube-scheduler clientConnection.qps and burst.
    scheduler_qps: int = 50
    scheduler_burst: int = 100
    # Kueue's clientConnection.qps and burst (apis/config/v1beta2/defaults.go). A limit for each kind it writes:
    # controller-runtime has a client per kind, with a limiter of its own.
    kueue_qps: int = 300
    kueue_burst: int = 500


DEFAULT = Latency()
_RATES = (
    *("controller_qps", "controller_burst"),
    *("scheduler_qps", "scheduler_burst"),
    *("kueue_qps", "kueue_burst"),
)
_NOTHING: dict[str, Any] = {
    **{f.name: ZERO for f in fields(Latency) if isinstance(getattr(DEFAULT, f.name), Distribution)},
    **dict.fromkeys(_RATES, 0),
}
NONE = replace(DEFAULT, **_NOTHING)
_BASES = {"default": DEFAULT, "zero": NONE}


def latency_named(text: str) -> Latency:
    """The model a command line names: `default`, `zero` or a YAML file.

    Raises: InvalidInput.
    """
    if text in _BASES:
        return _BASES[text]
    path = Path(text)
    try:
        return read_latency(path.read_text(encoding="utf-8"), text)
    except (OSError, UnicodeDecodeError) as unreadable:
        problem = FieldProblem(
            text, 0, "--latency", "", f"expected default, zero or a readable YAML file ({unreadable})"
        )
        raise InvalidInput((problem,)) from unreadable


def read_latency(text: str, file: str) -> Latency:
    """The model a YAML document describes; see the module's docstring.

    Raises: InvalidInput, with every problem.
    """
    import yaml

    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as broken:
        line = getattr(getattr(broken, "problem_mark", None), "line", -1) + 1
        raise InvalidInput((FieldProblem(file, line, "", "", f"not YAML: {broken}"),)) from broken
    if node is None:
        return DEFAULT
    if not isinstance(node, yaml.MappingNode):
        raise InvalidInput((FieldProblem(file, 1, "", "", "expected a mapping of names to durations"),))
    base = DEFAULT
    changed: dict[str, Any] = {}
    problems: list[FieldProblem] = []
    for key_node, value_node in node.value:
        name, raw = str(key_node.value), str(value_node.value)
        line = key_node.start_mark.line + 1
        if name == "base":
            if raw in _BASES:
                base = _BASES[raw]
                continue
            problems.append(FieldProblem(file, line, name, raw, "expected default or zero"))
        elif (field := _BY_NAME.get(name)) is None:
            problems.append(
                FieldProblem(file, line, name, raw, f"unknown name; expected one of {', '.join(_BY_NAME)}")
            )
        else:
            try:
                changed[field] = _value(field, raw)
            except ValueError as wrong:
                problems.append(FieldProblem(file, line, name, raw, str(wrong)))
    if problems:
        raise InvalidInput(tuple(problems))
    return replace(base, **changed)


def _value(field: str, raw: str) -> Distribution | int:
    if isinstance(getattr(DEFAULT, field), Distribution):
        return parse_distribution(raw)
    if field.endswith("_us"):
        try:
            return parse_duration(raw)
        except ValueError:
            raise ValueError("expected a duration (250ms, 1h30m)") from None
    scale = 1000 if field.endswith("_milli") else 1
    try:
        value = float(raw) * scale
    except ValueError:
        raise ValueError("expected a number, 0 or more") from None
    if not 0 <= value <= 10**9:
        raise ValueError("expected a number, 0 or more")
    return round(value)


def _yaml_name(field: str) -> str:
    """`node_monitor_grace_period_us` → `nodeMonitorGracePeriod`."""
    head, *rest = field.removesuffix("_us").removesuffix("_milli").split("_")
    return head + "".join("QPS" if r == "qps" else r.capitalize() for r in rest)


_BY_NAME = {_yaml_name(f.name): f.name for f in fields(Latency)}
YAML_NAMES = tuple(_BY_NAME)
"""Every key a latency file may have, besides `base`."""

__all__ = ["DEFAULT", "EXPECTED", "Latency", "NONE", "YAML_NAMES", "latency_named", "read_latency"]
