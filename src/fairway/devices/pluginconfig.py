"""What does the device plugin's configuration make of a node's devices? Its files and flags, in its words.

Unlike a typed reader, the plugin takes no notice of keys it does not know: they are listed for whoever tells the user.

Source: NVIDIA/k8s-device-plugin 0.20 api/config/v1, cmd/{config-manager,nvidia-device-plugin}, cmd/mps-control-daemon.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fairway.errors import UserError
from fairway.kube.yamltext import first_value

NONE, SINGLE, MIXED = "none", "single", "mixed"
TIME_SLICING, MPS = "time-slicing", "mps"
GPU: Final = "nvidia.com/gpu"
_PREFIX: Final = (
    "unable to load config: unable to parse config file: error parsing config file: unmarshal error: "
    "error unmarshaling JSON: while decoding JSON: "
)
_TOP: Final = ("version", "flags", "resources", "sharing", "imex")
_FLAGS: Final = (
    *("migStrategy", "failOnInitError", "mpsRoot", "nvidiaDriverRoot", "nvidiaDevRoot", "gdrcopyEnabled"),
    *("gdsEnabled", "mofedEnabled", "useNodeFeatureAPI", "deviceDiscoveryStrategy", "plugin", "gfd"),
)
_SHARING: Final = ("timeSlicing", "mps")
_REPLICATED: Final = ("renameByDefault", "failRequestsGreaterThanOne", "resources")
_RESOURCE: Final = ("name", "rename", "devices", "replicas")
# Clients of one MPS server since Volta. Source: mps-control-daemon/mps/device.go.
MPS_CLIENTS_MOST: Final = 48
# Replicas of one device; Go's integers are larger, but a kubelet that is told of more devices refuses the message.
_REPLICAS_MOST: Final = 2**31
_BYTES_MOST: Final = 2**20


class PluginConfigError(UserError):
    """What the plugin or its config-manager says before it exits."""


@dataclass(frozen=True, slots=True)
class PluginConfig:
    """`shared`: by resource, how many of each device are made and under which name."""

    mig_strategy: str = NONE
    strategy: str = NONE
    shared: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    one_each: bool = False
    """Whether a request for more than one shared device is refused."""
    ignored: tuple[str, ...] = ()

    def replicas(self, resource: str) -> int:
        return self.shared.get(resource, (1, ""))[0]

    def name(self, resource: str) -> str:
        return self.shared.get(resource, (1, resource))[1]


def chosen_config(
    files: Mapping[str, str], label: str, default: str, *, falls_back: bool = True
) -> str | None:
    """Which of a ConfigMap's files a node takes, as config-manager chooses; None: an empty configuration.

    Raises: PluginConfigError.
    """
    if not files:
        raise PluginConfigError("no configuration files available")
    for wanted in (label, default):
        if wanted:
            if wanted not in files:
                raise PluginConfigError(f"specified config {wanted} does not exist")
            return wanted
    if falls_back:
        return None
    raise PluginConfigError("no config was set, no default was provided, and all fallbacks failed")


def read_plugin_config(text: str, mig_strategy: str = "") -> PluginConfig:
    """A file's, where a command-line flag or an environment variable (`mig_strategy`) wins.

    Raises: PluginConfigError.
    """
    if len(text) > _BYTES_MOST:
        raise PluginConfigError(f"unable to load config: {len(text)} bytes, expected at most {_BYTES_MOST}")
    try:
        raw = first_value(text) or {}
    except ValueError as wrong:
        raise PluginConfigError(
            f"{_PREFIX.partition('error unm')[0]}error converting YAML to JSON: yaml: {wrong}"
        ) from None
    ignored: list[str] = []
    top = _mapping(raw, "Config", "", _TOP, ignored)
    if top.get("version") not in (None, "", "v1"):
        raise PluginConfigError(
            "unable to load config: unable to parse config file: error parsing config file: "
            f"unknown version: {top['version']}"
        )
    flags = _mapping(top.get("flags") or {}, "Flags", "flags.", _FLAGS, ignored)
    sharing = _mapping(top.get("sharing") or {}, "Sharing", "sharing.", _SHARING, ignored)
    strategy = mig_strategy or str(flags.get("migStrategy") or NONE)
    if strategy not in (NONE, SINGLE, MIXED):
        raise PluginConfigError(f"unable to validate flags: unknown MIG strategy: {strategy}")
    shared, one_each = dict[str, tuple[int, str]](), None
    for name in _SHARING:
        if sharing.get(name) is not None:
            # Of both, MPS is what counts.
            shared, one_each = _replicated(sharing[name], f"sharing.{name}.", ignored)
    is_mps = sharing.get("mps") is not None
    if is_mps and strategy == MIXED:
        raise PluginConfigError(
            "unable to validate flags: using --mig-strategy=mixed is not supported with MPS"
        )
    return PluginConfig(
        strategy,
        (MPS if is_mps else TIME_SLICING) if shared else NONE,
        shared,
        is_mps if one_each is None else one_each,
        tuple(ignored),
    )


def _mapping(raw: Any, kind: str, path: str, known: tuple[str, ...], ignored: list[str]) -> Mapping[str, Any]:
    if not isinstance(raw, dict):
        raise PluginConfigError(
            f"{_PREFIX}json: cannot unmarshal {_json_type(raw)} into Go value of type v1.{kind}"
        )
    ignored += [f"{path}{key}" for key in raw if key not in known]
    return raw


def _replicated(raw: Any, path: str, ignored: list[str]) -> tuple[dict[str, tuple[int, str]], bool | None]:
    given = _mapping(raw, "ReplicatedResources", path, _REPLICATED, ignored)
    for name in _REPLICATED[:2]:
        if name in given and type(given[name]) is not bool:
            raise PluginConfigError(
                f"{_PREFIX}json: cannot unmarshal {_json_type(given[name])} into Go value of type bool"
            )
    resources = given.get("resources")
    if resources is not None and not isinstance(resources, list):
        raise PluginConfigError(
            f"{_PREFIX}json: cannot unmarshal {_json_type(resources)} into Go value of type []v1.ReplicatedResource"
        )
    if not resources:
        raise PluginConfigError(f"{_PREFIX}no resources specified")
    shared: dict[str, tuple[int, str]] = {}
    for i, entry in enumerate(resources):
        one = _mapping(entry, "ReplicatedResource", f"{path}resources[{i}].", _RESOURCE, ignored)
        name, count = _resource(one)
        # Names of one's own and chosen devices are not supported yet: the plugin warns and goes on.
        shared[name] = (count, f"{name}.shared" if given.get("renameByDefault") else name)
    return shared, given.get("failRequestsGreaterThanOne")


def _resource(given: Mapping[str, Any]) -> tuple[str, int]:
    name = given.get("name")
    if name is None:
        raise PluginConfigError(f"{_PREFIX}no resource name specified")
    if not isinstance(name, str) or not name:
        raise PluginConfigError(
            f"{_PREFIX}json: cannot unmarshal {_json_type(name)} into Go value of type string"
        )
    devices = given.get("devices", "all")
    if isinstance(devices, str) and devices != "all":
        raise PluginConfigError(
            f"{_PREFIX}devices set as '{devices}' but the only valid string input is 'all'"
        )
    count = given.get("replicas")
    if count is None:
        raise PluginConfigError(f"{_PREFIX}no replicas specified")
    if type(count) is not int or abs(count) > _REPLICAS_MOST:
        raise PluginConfigError(
            f"{_PREFIX}json: cannot unmarshal {_json_type(count)} into Go value of type int"
        )
    if count < 2:
        raise PluginConfigError(f"{_PREFIX}number of replicas must be >= 2")
    return name if "/" in name else f"nvidia.com/{name}", count


def _json_type(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, (int, float)):
        return "number" if abs(value) <= _REPLICAS_MOST else f"number {value}"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"
