"""What happens next on a node with GPUs, by what stands there? The Operator's operands as one state machine.

A `Step` is due once its condition has held for its delay; whoever carries it out asks again afterwards. The state is in
the cluster's objects alone: pods and their init containers, labels, annotations. Faults are said on the node
(`fairway.dev/gpu-fault: driver-failed`), with the symptom that users see.

Source: NVIDIA/gpu-operator 26.7 controllers/{state_manager,nodelabeling_controller}.go, cmd/nvidia-validator.
"""

from __future__ import annotations

from collections.abc import Mapping

from fairway.catalog.drivers import DRIVER, OLD, OLD_DRIVER, cuda_of
from fairway.catalog.nodegpus import HARDWARE
from fairway.cluster.devices import SINGLE_REQUESTS
from fairway.devices.advertising import advertised, feature_labels_of, outdated, single_requests
from fairway.devices.migmanager import manager_steps
from fairway.devices.nodeview import (
    DEPLOY,
    MIG_CONFIG,
    NFD,
    PLUGIN_CONFIG,
    PRESENT,
    RESOURCES,
    NodeView,
    Step,
)
from fairway.devices.pluginconfig import (
    MPS,
    PluginConfig,
    PluginConfigError,
    chosen_config,
    read_plugin_config,
)
from fairway.devices.policy import CONFIG_INIT, Policy, operands

# Seconds: validations poll every 5.
_POLL_S, _NFD_S, _LABEL_S, _REGISTER_S = 5, 3, 1, 2


def next_steps(view: NodeView) -> list[Step]:
    """Everything that is due or becomes due on this node."""
    if not view.gpus.count:
        return []
    steps = []
    if view.annotations.get(HARDWARE) != view.gpus.hardware:
        steps.append(Step("hardware", 0, annotations={HARDWARE: view.gpus.hardware}))
    if view.policy is not None:
        steps += _discovered(view, view.policy)
        steps += _validated(view)
        steps += manager_steps(view, view.policy)
    return [*steps, *_registered(view), *_withdrawn(view)]


def _discovered(view: NodeView, policy: Policy) -> list[Step]:
    """NFD's and the Operator's labels."""
    labels = view.labels
    if NFD not in labels:
        release = {"system-os_release.ID": "ubuntu", "system-os_release.VERSION_ID": "24.04"}
        found = {"pci-10de.present": "true", "kernel-version.full": "6.8.0-71-generic", **release}
        said = {f"feature.node.kubernetes.io/{name}": value for name, value in found.items()}
        return [Step("nfd", _NFD_S, labels=said)] if view.nfd_runs else []
    if labels.get(f"{DEPLOY}operands") == "false":
        return []
    wanted: dict[str, str | None] = {PRESENT: "true"}
    states = [
        *(o.deploy for o in operands() if o.key != "migManager"),
        "dcgm",
        "node-status-exporter",
        "client",
    ]
    wanted |= {f"{DEPLOY}{name}": "true" for name in states if not labels.get(f"{DEPLOY}{name}")}
    if labels.get("nvidia.com/mig.capable") == "true" and "migManager" not in policy.off:
        if not labels.get(f"{DEPLOY}mig-manager"):
            wanted[f"{DEPLOY}mig-manager"] = "true"
        if not labels.get(MIG_CONFIG) and policy.mig_default == "all-disabled":
            wanted[MIG_CONFIG] = policy.mig_default
    missing = {name: value for name, value in wanted.items() if labels.get(name) != value}
    return [Step("labels", _LABEL_S, labels=missing)] if missing else []


def _validated(view: NodeView) -> list[Step]:
    """Init containers end once what they wait for is there; what is broken ends with an error."""
    driver = view.runs("driver") and not view.fault("driver-failed")
    toolkit = driver and view.runs("toolkit") and not view.fault("toolkit-failed")
    holds = {
        "driver-validation": driver,
        "toolkit-validation": toolkit,
        "cuda-validation": toolkit and not view.fault(OLD_DRIVER),
        "plugin-validation": any(registered(view.annotations)[1].values()),
    }
    steps = []
    for key, pod in view.pods.items():
        if holds.get(pod.init):
            steps.append(Step(f"release/{key}/{pod.init}", _POLL_S, pod.name, pod.init))
    for key, fault, container, words in (
        ("driver", "driver-failed", "nvidia-driver-ctr", "Could not resolve Linux kernel version"),
        ("toolkit", "toolkit-failed", "nvidia-container-toolkit-ctr", "unable to load containerd config"),
    ):
        if view.fault(fault) and key in view.pods and view.pods[key].running:
            says = ("Warning", "Failed", f"Error: {words}")
            steps.append(Step(f"crash/{key}", 10, view.pods[key].name, container, 1, says=says))
    return steps


# The device plugin and GPU Feature Discovery


def plugin_config(view: NodeView) -> PluginConfig:
    """What the plugin on this node goes by. Raises: PluginConfigError."""
    policy = view.policy
    if policy is None:
        strategy = view.plugin_flags.get("MIG_STRATEGY", "")
        files = view.files or {}
        label, default = view.labels.get(PLUGIN_CONFIG, ""), view.plugin_flags.get("DEFAULT_CONFIG", "")
        name = chosen_config(files, label, default) if files else None
        # Without config-manager the one file that is mounted counts.
        name = name or next(iter(files), None)
        return read_plugin_config("" if name is None else files[name], strategy)
    if not policy.plugin_config or view.files is None:
        return read_plugin_config("", policy.mig_strategy)
    name = chosen_config(view.files, view.labels.get(PLUGIN_CONFIG, ""), policy.plugin_default)
    return read_plugin_config("" if name is None else view.files[name], policy.mig_strategy)


def _registered(view: NodeView) -> list[Step]:
    """Resources and labels, once plugin and GFD run; what they cannot read ends them."""
    steps: list[Step] = []
    try:
        config = plugin_config(view)
    except PluginConfigError as wrong:
        for key in ("devicePlugin", "gfd", "mps"):
            pod = view.pods.get(key)
            if pod is None:
                continue
            container = _container(key, view)
            at = CONFIG_INIT if pod.init == CONFIG_INIT else container if pod.running else ""
            if at:
                steps.append(
                    Step(f"config/{key}", 1, pod.name, at, 1, says=("Warning", "Failed", str(wrong)))
                )
        return steps
    plugin, gfd = view.pods.get("devicePlugin"), view.pods.get("gfd")
    if gfd is not None and gfd.ready:
        driver = (view.policy.driver_version if view.policy is not None else "") or DRIVER
        cuda = cuda_of(driver)
        if view.fault(OLD_DRIVER):
            driver, cuda = OLD
        machine = view.labels.get("node.kubernetes.io/instance-type", "") or "unknown"
        said = feature_labels_of(view.gpus, config, driver, cuda, machine)
        change: dict[str, str | None] = {n: v for n, v in said.items() if view.labels.get(n) != v}
        change |= dict.fromkeys(outdated(list(view.labels), said))
        if change:
            steps.append(Step("gfd", _REGISTER_S, labels=change))
    if plugin is None or not plugin.running:
        return steps
    if view.fault("plugin-crash"):
        says = (
            "Warning",
            "Failed",
            "Error: failed to create FS watcher for /var/lib/kubelet/device-plugins/",
        )
        return [*steps, Step("crash/plugin", 5, plugin.name, _container("devicePlugin", view), 1, says=says)]
    if not plugin.ready or view.fault("plugin-unregistered"):
        return steps
    if config.strategy == MPS and view.policy is not None and not view.ready("mps"):
        return steps
    try:
        capacity, healthy = advertised(view.gpus, config)
    except PluginConfigError as wrong:
        says = ("Warning", "Failed", str(wrong))
        return [
            *steps,
            Step("config/devicePlugin", 1, plugin.name, _container("devicePlugin", view), 1, says=says),
        ]
    text = ",".join(f"{name}={capacity[name]}/{healthy[name]}" for name in sorted(capacity))
    single = ",".join(single_requests(config))
    if (text, single) != (view.annotations.get(RESOURCES, ""), view.annotations.get(SINGLE_REQUESTS, "")):
        notes = {RESOURCES: text, SINGLE_REQUESTS: single or None}
        ignored = ", ".join(config.ignored[:5])
        told = ("Warning", "UnknownFields", f"the device plugin ignores: {ignored}") if ignored else None
        steps.append(Step("register", _REGISTER_S, devices=(capacity, healthy), annotations=notes, says=told))
    return steps


def _container(key: str, view: NodeView) -> str:
    return next(o.container for o in operands() if o.key == key) if view.policy is not None else ""


def _withdrawn(view: NodeView) -> list[Step]:
    """A kubelet whose plugin is gone has the devices still, none of them healthy; five minutes later none at all."""
    capacity, allocatable = registered(view.annotations)
    plugin = view.pods.get("devicePlugin")
    if not capacity or (plugin is not None and plugin.running and not view.fault("plugin-unregistered")):
        return []
    if any(allocatable.values()):
        none = dict.fromkeys(capacity, 0)
        text = ",".join(f"{name}={capacity[name]}/0" for name in sorted(capacity))
        return [Step("withdraw", 1, devices=(capacity, none), annotations={RESOURCES: text})]
    gone = dict.fromkeys(capacity, 0)
    return [Step("forget", 300, devices=(gone, gone), annotations={RESOURCES: None})]


def registered(annotations: Mapping[str, str]) -> tuple[dict[str, int], dict[str, int]]:
    """What the plugin has told the kubelet: capacity and allocatable."""
    capacity, allocatable = dict[str, int](), dict[str, int]()
    for part in filter(None, annotations.get(RESOURCES, "").split(",")):
        name, _, counts = part.partition("=")
        whole, _, healthy = counts.partition("/")
        if whole.isdecimal() and healthy.isdecimal():
            capacity[name], allocatable[name] = int(whole), int(healthy)
    return capacity, allocatable
