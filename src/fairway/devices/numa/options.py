"""What does a KubeletConfiguration say about CPUs, memory and topology, and would the kubelet start with it?

Source: pkg/kubelet/apis/config, cm/cpumanager/policy_options.go, cm/topologymanager/policy_options.go,
cm/memorymanager (v1.36). Gates are at their defaults, beta options on; alpha ones (`align-by-socket`,
`distribute-cpus-across-cores`) need `featureGates: {CPUManagerPolicyAlphaOptions: true}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fairway.devices.numa.cpus import CpuOptions
from fairway.devices.numa.hints import CONTAINER, MAX_NODES, NONE, POD, POLICIES, SINGLE
from fairway.kube.quantity import milli_ceil, whole_ceil

_CPU_OPTIONS: Final = {
    "full-pcpus-only": "full_cores",
    "distribute-cpus-across-numa": "across_numa",
    "align-by-socket": "by_socket",
    "distribute-cpus-across-cores": "across_cores",
    "strict-cpu-reservation": "strict_reservation",
    "prefer-align-cpus-by-uncorecache": "by_cache",
}
_ALPHA: Final = ("align-by-socket", "distribute-cpus-across-cores")
_ALPHA_GATE: Final = "CPUManagerPolicyAlphaOptions"
_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_CLASH: Final = (
    ("full_cores", "across_cores"),
    ("across_numa", "across_cores"),
    ("by_cache", "across_cores"),
    ("by_cache", "across_numa"),
)


class OptionError(ValueError):
    """The kubelet does not start with this. `field`: where in the KubeletConfiguration."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(why)
        self.field = field


@dataclass(frozen=True, slots=True)
class KubeletOptions:
    """`reserved_cpus` None: as many as are reserved for system and Kubernetes."""

    topology: str = NONE
    scope: str = CONTAINER
    closest: bool = False
    max_nodes: int = MAX_NODES
    static_cpus: bool = False
    cpu_options: CpuOptions = field(default_factory=CpuOptions)
    reserved_cpus: frozenset[int] | None = None
    reserved_milli: int = 0
    static_memory: bool = False
    reserved_memory: Mapping[int, Mapping[str, int]] = field(default_factory=dict)


def cpu_options(said: Mapping[str, str], *, alpha: bool = True) -> CpuOptions:
    """Raises: OptionError."""
    found: dict[str, bool] = {}
    for name, value in said.items():
        if name not in _CPU_OPTIONS:
            raise OptionError("cpuManagerPolicyOptions", f'unknown CPU Manager Policy option: "{name}"')
        if name in _ALPHA and not alpha:
            raise OptionError(
                "cpuManagerPolicyOptions",
                f'CPU Manager Policy Alpha-level Options not enabled, but option "{name}" provided',
            )
        found[_CPU_OPTIONS[name]] = _truth("cpuManagerPolicyOptions", name, value)
    for one, other in _CLASH:
        if found.get(one) and found.get(other):
            words = {field: name for name, field in _CPU_OPTIONS.items()}
            raise OptionError(
                "cpuManagerPolicyOptions",
                f"static policy options {words[one]} and {words[other]} can not be used at the same time",
            )
    return CpuOptions(**found)


def _truth(field: str, name: str, value: object) -> bool:
    """As Go's strconv.ParseBool reads it."""
    if str(value) in _TRUE or str(value) in _FALSE:
        return str(value) in _TRUE
    raise OptionError(
        field, f'bad value for option "{name}": strconv.ParseBool: parsing "{value}": invalid syntax'
    )


def read_options(said: Mapping[str, Any]) -> KubeletOptions:
    """Of a KubeletConfiguration. Raises: OptionError."""
    policy, scope = said.get("topologyManagerPolicy") or NONE, said.get("topologyManagerScope") or CONTAINER
    if policy not in POLICIES:
        raise OptionError("topologyManagerPolicy", f'unknown policy: "{policy}"')
    if scope not in (CONTAINER, POD):
        raise OptionError("topologyManagerScope", f'unknown scope: "{scope}"')
    closest, most = _topology_options(said.get("topologyManagerPolicyOptions") or {})
    cpu, memory = said.get("cpuManagerPolicy") or NONE, said.get("memoryManagerPolicy") or "None"
    if cpu not in (NONE, "static"):
        raise OptionError("cpuManagerPolicy", f'unknown policy: "{cpu}"')
    if memory not in ("None", "Static"):
        raise OptionError("memoryManagerPolicy", f'unknown policy: "{memory}"')
    gates = said.get("featureGates") or {}
    options = cpu_options(said.get("cpuManagerPolicyOptions") or {}, alpha=gates.get(_ALPHA_GATE) is True)
    if options.by_socket and policy == SINGLE:
        raise OptionError(
            "cpuManagerPolicyOptions",
            f"Topolgy manager {SINGLE} policy is incompatible with CPUManager align-by-socket policy option",
        )
    listed = said.get("reservedSystemCPUs")
    reserved = None if not listed else cpu_list("reservedSystemCPUs", str(listed))
    milli = sum(
        milli_ceil((said.get(part) or {}).get("cpu") or 0) for part in ("kubeReserved", "systemReserved")
    )
    if cpu == "static" and not reserved and not milli:
        raise OptionError(
            "cpuManagerPolicy",
            "[cpumanager] the static policy requires systemreserved.cpu + kubereserved.cpu to be greater than zero",
        )
    kept = _reserved_memory(said.get("reservedMemory") or ())
    if memory == "Static" and not any(node.get("memory") for node in kept.values()):
        raise OptionError("reservedMemory", "[memorymanager] you should specify the system reserved memory")
    return KubeletOptions(
        policy, scope, closest, most, cpu == "static", options, reserved, milli, memory == "Static", kept
    )


def _topology_options(said: Mapping[str, Any]) -> tuple[bool, int]:
    closest, most = False, MAX_NODES
    for name, value in said.items():
        if name == "prefer-closest-numa-nodes":
            closest = _truth("topologyManagerPolicyOptions", name, value)
        elif name == "max-allowable-numa-nodes":
            if not str(value).isdecimal() or int(str(value)[:6]) < MAX_NODES:
                raise OptionError(
                    "topologyManagerPolicyOptions",
                    f"the minimum value of {name} should not be less than {MAX_NODES}",
                )
            most = int(str(value)[:6])
        else:
            raise OptionError(
                "topologyManagerPolicyOptions", f'unknown Topology Manager Policy option: "{name}"'
            )
    return closest, most


def cpu_list(field: str, text: str) -> frozenset[int]:
    """`0-3,8` as a set. Raises: OptionError."""
    found: set[int] = set()
    for part in filter(None, text.replace(" ", "").split(",")):
        first, dash, last = part.partition("-")
        ends = first, last if dash else first
        if not all(end.isdecimal() and len(end) < 5 for end in ends) or int(ends[0]) > int(ends[1]):
            raise OptionError(field, f"unable to parse {text!r} as a list of CPUs: expected as 0-3,8")
        found.update(range(int(ends[0]), int(ends[1]) + 1))
    return frozenset(found)


def _reserved_memory(said: Any) -> dict[int, dict[str, int]]:
    found: dict[int, dict[str, int]] = {}
    for entry in said:
        node = entry.get("numaNode", 0) if isinstance(entry, Mapping) else None
        if not isinstance(node, int) or node in found:
            raise OptionError("reservedMemory", f"the NUMA node {node} is named twice, or is no number")
        found[node] = {str(n): whole_ceil(v) for n, v in (entry.get("limits") or {}).items()}
    return found
