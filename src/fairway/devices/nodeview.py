"""What stands on a node with GPUs, and what is to be done about it? The words that all its operands share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from fairway.catalog.nodegpus import NodeGpus
from fairway.cluster.devices import GPU_FAULT
from fairway.devices.migapplying import Held
from fairway.devices.policy import Policy

FAULT: Final = GPU_FAULT
FAULTS: Final = (
    *("driver-failed", "driver-version", "toolkit-failed", "runtime-class"),
    *("plugin-crash", "plugin-unregistered", "mig-busy"),
)
RESOURCES: Final = "fairway.dev/gpu-resources"
"""On a node: what the device plugin registered, `nvidia.com/gpu=8/7`: capacity and allocatable."""
MIG_CONFIG, MIG_STATE = "nvidia.com/mig.config", "nvidia.com/mig.config.state"
PLUGIN_CONFIG: Final = "nvidia.com/device-plugin.config"
PRESENT: Final = "nvidia.com/gpu.present"
DEPLOY: Final = "nvidia.com/gpu.deploy."
PAUSED: Final = "paused-for-mig-change"
NFD: Final = "feature.node.kubernetes.io/pci-10de.present"


@dataclass(frozen=True, slots=True)
class PodFacts:
    """An operand's pod on the node. `init`: the init container that runs, `running`: whether its main one does."""

    name: str
    init: str
    running: bool
    ready: bool
    image: str = ""
    """Of its main container."""


@dataclass(frozen=True, slots=True)
class NodeView:
    """`pods`: by the operand's key. `files`: of the plugin's ConfigMap, None where there is none of that name.
    `mig_file`: MIG Manager's custom configuration. `holders`: pods that hold GPUs of the node."""

    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    gpus: NodeGpus
    pods: Mapping[str, PodFacts]
    policy: Policy | None = None
    nfd_runs: bool = True
    files: Mapping[str, str] | None = None
    mig_file: str | None = None
    holders: tuple[str, ...] = ()
    plugin_flags: Mapping[str, str] = field(default_factory=dict)
    """MIG_STRATEGY of a device plugin that nobody operates."""
    held: Held = frozenset()
    """What of the cards those pods have."""
    third_parties: int = 0
    """Pods of DaemonSets that select the label `nvidia.com/gpu.deploy.client`."""

    def fault(self, name: str) -> bool:
        return name in self.annotations.get(FAULT, "").replace(" ", "").split(",")

    def ready(self, key: str) -> bool:
        return key in self.pods and self.pods[key].ready

    def runs(self, key: str) -> bool:
        """Whether an operand does its work here; one that is not deployed is taken to be on the machine."""
        return self.ready(key) or (self.policy is not None and key in self.policy.off)


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do. `what` tells steps apart; only the fields that it needs are given.

    `pod`, `container`, `code`: end that container so. `labels`, `annotations`: None removes. `devices`: capacity and
    allocatable to write. `delete`: that pod; `evict`: pods as `namespace/name`. `says`: an event about the pod, or the
    node where none is named: type, reason, message.
    """

    what: str
    after_s: float
    pod: str = ""
    container: str = ""
    code: int = 0
    labels: Mapping[str, str | None] = field(default_factory=dict)
    annotations: Mapping[str, str | None] = field(default_factory=dict)
    devices: tuple[Mapping[str, int], Mapping[str, int]] | None = None
    delete: str = ""
    cordon: bool | None = None
    evict: tuple[str, ...] = ()
    reboots_s: int = 0
    """The machine goes down, and comes back so many seconds later."""
    says: tuple[str, str, str] | None = None
