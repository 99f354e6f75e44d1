"""Node groups and the flags of a Cluster Autoscaler: `cloud.nodeGroups`, `cloud.autoscaler`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fairway.kube import names
from fairway.kube.located import Field, did_you_mean
from fairway.provisioning.clusterautoscaler.groups import EXPANDERS, LEAST_WASTE, Options
from fairway.provisioning.karpenter.instancetypes import InstanceType
from fairway.provisioning.karpenter.labels import ON_DEMAND, SPOT
from fairway.scenario.fleet import read_taints
from fairway.twin.nodegroups.grouping import AutoscalerPlan, GroupSpec
from fairway.twin.provisioner.cloud import Cloud

GROUP = ("name", "instanceType", "zone", "capacityType", "min", "max", "size", "labels", "taints")
# Our name for a flag, and the option: a duration, a flag or a number, by the type of its default.
FLAGS = {
    "scanInterval": "scan_interval_us",
    "maxNodesTotal": "max_nodes_total",
    "maxNodeProvisionTime": "max_node_provision_us",
    "balanceSimilarNodeGroups": "balance_similar",
    "scaleDownEnabled": "scale_down",
    "scaleDownUtilizationThreshold": "utilization_threshold",
    "scaleDownGpuUtilizationThreshold": "gpu_utilization_threshold",
    "scaleDownUnneededTime": "unneeded_us",
    "scaleDownUnreadyTime": "unready_us",
    "scaleDownDelayAfterAdd": "delay_after_add_us",
    "scaleDownDelayAfterDelete": "delay_after_delete_us",
    "scaleDownDelayAfterFailure": "delay_after_failure_us",
    "ignoreDaemonsetsUtilization": "ignore_daemon_sets",
    "skipNodesWithSystemPods": "skip_system_pods",
    "skipNodesWithLocalStorage": "skip_local_storage",
    "skipNodesWithCustomControllerPods": "skip_custom_controllers",
    "enableProvisioningRequests": "provisioning_requests",
    "provisioningRequestInitialBackoffTime": "request_backoff_us",
    "provisioningRequestMaxBackoffTime": "most_request_backoff_us",
}
AUTOSCALER = ("expander", *FLAGS)
_MOST_NODES = 50_000


def read_autoscaler(
    groups: Field, flags: Field, cloud: Cloud, offered: Sequence[InstanceType], provider: str
) -> AutoscalerPlan | None:
    """None where there are no node groups."""
    options = _options(flags)
    if flags.is_given and not groups.is_given:
        flags.reject("expected nodeGroups beside it: the autoscaler has nothing to grow")
    found = [g for item in groups.items() if (g := _group(item, offered)) is not None]
    seen: set[str] = set()
    for item, group in zip(groups.items(), found, strict=False):
        if group.name in seen:
            item.reject(f"two node groups are called {group.name}")
        seen.add(group.name)
    return AutoscalerPlan(tuple(found), cloud, provider, options) if found else None


def _group(item: Field, offered: Sequence[InstanceType]) -> GroupSpec | None:
    parts = item.members(*GROUP, required=("name", "instanceType", "max"))
    name = parts["name"].text()
    if name and names.dns_subdomain(name):
        parts["name"].reject("expected a name in lower case, such as gpu-a")
    kind = _kind(parts["instanceType"], offered)
    capacity_type = parts["capacityType"].choice((ON_DEMAND, SPOT), ON_DEMAND)
    least, most = parts["min"].integer(0, 0, _MOST_NODES), parts["max"].integer(1, 1, _MOST_NODES)
    size = parts["size"].integer(least, 0, _MOST_NODES)
    if least > most:
        parts["min"].reject(f"expected at most max, {most}")
    elif not least <= size <= most:
        parts["size"].reject(f"expected a size from min, {least}, to max, {most}")
    if kind is None:
        return None
    zones = [o.zone for o in kind.offerings if o.capacity_type == capacity_type]
    zone = parts["zone"].text(zones[0] if zones else "")
    if zone not in zones:
        what = f"{kind.name} ({capacity_type})"
        where = (
            f"offered and priced in {', '.join(zones)}" if zones else "not offered, or nobody says its price"
        )
        (parts["zone"] if parts["zone"].is_given else item).reject(f"{what} is {where}")
        return None
    return GroupSpec(
        name,
        kind,
        zone,
        capacity_type,
        least,
        most,
        size,
        parts["labels"].words(),
        tuple(read_taints(parts["taints"])),
    )


def _kind(field: Field, offered: Sequence[InstanceType]) -> InstanceType | None:
    word = field.text().removeprefix("Standard_")
    found = next((t for t in offered if t.name == word), None)
    if word and found is None:
        field.reject(did_you_mean(word, [t.name for t in offered], "expected an instance type:"))
    return found


def _options(field: Field) -> Options:
    options = Options()
    parts = field.members(*AUTOSCALER)
    said = [item.choice(EXPANDERS, LEAST_WASTE) for item in parts["expander"].one_or_many()]
    changes: dict[str, object] = {"expanders": tuple(said)} if said else {}
    for name, option in FLAGS.items():
        given, default = parts[name], getattr(options, option)
        if not given.is_given:
            continue
        if isinstance(default, bool):
            changes[option] = given.flag()
        elif isinstance(default, float):
            changes[option] = given.number(default, 0.0, 1.0)
        elif option.endswith("_us"):
            changes[option] = given.duration(default, positive=option == "scan_interval_us")
        else:
            changes[option] = given.integer()
    return replace(options, **changes)  # type: ignore[arg-type]
