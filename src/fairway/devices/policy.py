"""What does a ClusterPolicy ask for? Its settings, and the DaemonSets that the GPU Operator makes of them.

Source: NVIDIA/gpu-operator 26.7 api/nvidia/v1/clusterpolicy_types.go, controllers/object_controls.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, Final

import msgspec
import yaml

from fairway.kube.objects import Obj, meta_of, spec_of

POLICY: Final = "ClusterPolicy.nvidia.com"
NAMESPACE: Final = "gpu-operator"
_TOLERATIONS: Final = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
CONFIG_INIT: Final = "config-manager-init"


class Operand(msgspec.Struct, frozen=True):
    """One DaemonSet of the Operator; see `data/operands.yaml`."""

    key: str
    state: str
    name: str
    app: str
    container: str
    deploy: str
    waits: list[str]
    seconds: int
    image: str
    account: str
    init: list[str] = []
    also: dict[str, str] = {}
    update: str = "RollingUpdate"
    config: bool = False
    logs: list[str] = []

    @property
    def deploy_label(self) -> str:
        return f"nvidia.com/gpu.deploy.{self.deploy}"


@cache
def operands() -> tuple[Operand, ...]:
    text = files("fairway.devices").joinpath("data/operands.yaml").read_text("utf-8")
    return msgspec.convert(yaml.safe_load(text), tuple[Operand, ...])


@dataclass(frozen=True, slots=True)
class Policy:
    """What of a ClusterPolicy matters here. `off`: operands that are not deployed."""

    name: str
    uid: str
    namespace: str
    off: frozenset[str]
    mig_strategy: str
    plugin_config: str
    plugin_default: str
    mig_config: str
    mig_default: str
    driver_version: str
    runtime_class: str
    parts: Mapping[str, Mapping[str, Any]]
    upgrades_itself: bool = False
    parallel_upgrades: int = 1
    """Nodes whose driver is exchanged at a time; 0: all."""
    mig_env: Mapping[str, str] = field(default_factory=dict)
    """MIG Manager's environment, as `migManager.env` sets it."""

    def deployed(self) -> tuple[Operand, ...]:
        return tuple(o for o in operands() if o.key not in self.off)


def read_policy(obj: Obj, namespace: str = NAMESPACE) -> Policy:
    """A ClusterPolicy of the API; what is missing or misshapen counts as the Operator's default."""
    spec = spec_of(obj)
    parts = {o.key: _part(spec, o.key) for o in operands()}
    off = {key for key, part in parts.items() if part.get("enabled") is False}
    if "devicePlugin" in off:
        off.add("mps")
    plugin, mig = _part(parts["devicePlugin"], "config"), _part(parts["migManager"], "config")
    upgrade = _part(parts["driver"], "upgradePolicy")
    parallel = upgrade.get("maxParallelUpgrades", 1)
    meta = meta_of(obj)
    return Policy(
        name=meta.get("name") or "",
        uid=meta.get("uid") or "",
        namespace=namespace,
        off=frozenset(off),
        mig_strategy=str(_part(spec, "mig").get("strategy") or "single"),
        plugin_config=str(plugin.get("name") or ""),
        plugin_default=str(plugin.get("default") or ""),
        mig_config=str(mig.get("name") or ""),
        mig_default=str(mig.get("default") or ""),
        driver_version=str(parts["driver"].get("version") or ""),
        runtime_class=str(_part(spec, "operator").get("runtimeClass") or "nvidia"),
        parts=parts,
        upgrades_itself=upgrade.get("autoUpgrade") is True,
        parallel_upgrades=parallel if type(parallel) is int and parallel >= 0 else 1,
        mig_env=_env(parts["migManager"]),
    )


def _part(of: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = of.get(key)
    return found if isinstance(found, Mapping) else {}


def _env(part: Mapping[str, Any]) -> dict[str, str]:
    given = part.get("env")
    found = [e for e in given if isinstance(e, Mapping)] if isinstance(given, list) else []
    return {str(e["name"]): str(e.get("value") or "") for e in found if e.get("name")}


def daemonset(operand: Operand, policy: Policy) -> Obj:
    """The DaemonSet as the Operator makes it. Its wait for validations is told by annotations of behaviour: init
    containers run until somebody ends them."""
    part = policy.parts[operand.key]
    labels = {"app": operand.app, "app.kubernetes.io/managed-by": "gpu-operator"}
    waits = list(operand.waits)
    image = _image(part, operand, policy)
    inits: list[Obj] = [{"name": name, "image": image} for name in operand.init]
    inits += [
        {"name": name, "image": image, "command": ["sh", "-c"], "args": ["nvidia-validator"]}
        for name in waits
    ]
    has_config = operand.config and policy.plugin_config
    if has_config:
        env = [
            {"name": "NODE_LABEL", "value": "nvidia.com/device-plugin.config"},
            {"name": "DEFAULT_CONFIG", "value": policy.plugin_default},
            {"name": "FALLBACK_STRATEGIES", "value": "empty"},
        ]
        inits.append({"name": CONFIG_INIT, "image": image, "command": ["config-manager"], "env": env})
    container: Obj = {"name": operand.container, "image": image, "imagePullPolicy": "IfNotPresent"}
    if operand.config:
        container["env"] = [{"name": "MIG_STRATEGY", "value": policy.mig_strategy}]
    if operand.key == "migManager" and policy.mig_env:
        container["env"] = [{"name": name, "value": value} for name, value in policy.mig_env.items()]
    if operand.key == "driver":
        container["startupProbe"] = {
            "exec": {"command": ["sh", "/usr/local/bin/startup-probe.sh"]},
            "initialDelaySeconds": 60,
            "periodSeconds": 10,
            "timeoutSeconds": 60,
            "failureThreshold": 120,
        }
    spec: Obj = {
        "nodeSelector": {operand.deploy_label: "true", **operand.also},
        "tolerations": _TOLERATIONS,
        "priorityClassName": "system-node-critical",
        "initContainers": inits,
        "containers": [container],
    }
    volumes = {"plugin-config": policy.plugin_config} if has_config else {}
    if operand.key == "migManager" and policy.mig_config:
        volumes = {"mig-parted-config": policy.mig_config}
    if volumes:
        spec["volumes"] = [{"name": v, "configMap": {"name": c}} for v, c in volumes.items()]
    if not inits:
        del spec["initContainers"]
    if operand.key not in ("driver", "toolkit"):
        spec["runtimeClassName"] = policy.runtime_class
    behaviour = {f"fairway.dev/run-time.{name}": "forever" for name in waits}
    behaviour[f"fairway.dev/startup-time.{operand.container}"] = f"{operand.seconds}s"
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {
            "name": operand.name,
            "namespace": policy.namespace,
            "labels": labels,
            "ownerReferences": [
                {
                    "apiVersion": "nvidia.com/v1",
                    "kind": "ClusterPolicy",
                    "name": policy.name,
                    "uid": policy.uid,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "selector": {"matchLabels": {"app": operand.app}},
            "updateStrategy": {"type": operand.update},
            "template": {"metadata": {"labels": labels, "annotations": behaviour}, "spec": spec},
        },
    }


def driver_image(policy: Policy) -> str:
    return _image(policy.parts["driver"], operands()[0], policy)


def _image(part: Mapping[str, Any], operand: Operand, policy: Policy) -> str:
    if operand.key == "mps":
        part = policy.parts["devicePlugin"]
    repository, _, image = operand.image.rpartition("/")
    version = str(part.get("version") or "latest")
    # A version that is a digest is appended as one. Source: gpuv1.ImagePath.
    between = "@" if version.startswith("sha256:") else ":"
    suffix = "-ubuntu24.04" if operand.key == "driver" and between == ":" else ""
    return f"{part.get('repository') or repository}/{part.get('image') or image}{between}{version}{suffix}"
