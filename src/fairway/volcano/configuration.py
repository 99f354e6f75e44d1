"""What does the scheduler's ConfigMap ask for: which actions in which order, which plugins in which tiers?

    actions: "enqueue, allocate, backfill"
    tiers:
    - plugins:
      - name: gang
        enablePreemptable: false

Unlike kube: a plugin or action this package does not have is refused, where Volcano logs a line and goes on
without it: Fairway would decide something else than the cluster. So are hierarchical drf and arguments that
mean nothing.

Source: volcano-sh/volcano pkg/scheduler/util.go UnmarshalSchedulerConf, conf/scheduler_conf.go,
plugins/defaults.go; installer/helm/chart/volcano/config/volcano-scheduler.conf (the default here).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fairway.errors import FieldProblem, InvalidInput
from fairway.kube.objects import Obj

CONFIG_MAP = "volcano-scheduler-configmap"
CONFIG_NAMESPACE = "volcano-system"
_KEY_SUFFIX = ".conf"

ACTIONS = ("enqueue", "allocate", "backfill", "preempt", "reclaim")
PLUGINS = (
    "priority",
    "gang",
    "conformance",
    "overcommit",
    "drf",
    "predicates",
    "proportion",
    "nodeorder",
    "binpack",
)
# What upstream has and this package has not.
NOT_SIMULATED = (
    "capacity",
    "cdp",
    "deviceshare",
    "extender",
    "network-topology-aware",
    "nodegroup",
    "numaaware",
    "pdb",
    "rescheduling",
    "resource-strategy-fit",
    "resourcequota",
    "sla",
    "task-topology",
    "tdm",
    "usage",
    "gangpreempt",
    "gangreclaim",
    "shuffle",
)
FLAGS = (
    "enableJobOrder",
    "enableJobReady",
    "enableJobPipelined",
    "enableTaskOrder",
    "enablePreemptable",
    "enableReclaimable",
    "enablePreemptive",
    "enableQueueOrder",
    "enablePredicate",
    "enableNodeOrder",
    "enableJobEnqueued",
    "enableJobStarving",
    "enabledOverused",
    "enabledAllocatable",
)
# Known upstream, without effect on what is simulated.
_OTHER_FLAGS = (
    "enableHierarchy",
    "enabledClusterOrder",
    "enableBestNode",
    "enableTargetJob",
    "enableReservedNodes",
    "enabledVictim",
    "enabledHyperNodeOrder",
    "enabledSubJobReady",
    "enabledSubJobPipelined",
    "enabledSubJobOrder",
    "enabledHyperNodeGradient",
)
NODE_ORDER_WEIGHTS = {
    "leastrequested.weight": 1,
    "mostrequested.weight": 0,
    "nodeaffinity.weight": 2,
    "podaffinity.weight": 2,
    "balancedresource.weight": 1,
    "tainttoleration.weight": 3,
    "imagelocality.weight": 1,
    "podtopologyspread.weight": 2,
}
OVERCOMMIT_PERMILLE = 1200
"""overcommit-factor 1.2, in thousandths."""


@dataclass(frozen=True)
class PluginOption:
    """One plugin of a tier. `disabled` are the flags set to false: everything is on by default."""

    name: str
    disabled: frozenset[str] = frozenset()
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def is_on(self, flag: str) -> bool:
        return flag not in self.disabled


@dataclass(frozen=True)
class VolcanoConfiguration:
    """Actions in their order, plugins by tier."""

    actions: tuple[str, ...]
    tiers: tuple[tuple[PluginOption, ...], ...]

    def option(self, name: str) -> PluginOption | None:
        return next((o for tier in self.tiers for o in tier if o.name == name), None)


def _tier(*names: str) -> tuple[PluginOption, ...]:
    off = frozenset({"enablePreemptable"})
    return tuple(PluginOption(n, off if n in ("gang", "drf") else frozenset()) for n in names)


DEFAULT_CONFIGURATION = VolcanoConfiguration(
    ("enqueue", "allocate", "backfill"),
    (
        _tier("priority", "gang", "conformance"),
        _tier("overcommit", "drf", "predicates", "proportion", "nodeorder", "binpack"),
    ),
)


def configuration_of(config_map: Obj) -> VolcanoConfiguration:
    """From the scheduler's ConfigMap: its entry that ends in `.conf`.

    Raises: InvalidInput with every problem.
    """
    name = (config_map.get("metadata") or {}).get("name") or CONFIG_MAP
    for key, text in sorted((config_map.get("data") or {}).items()):
        if key.endswith(_KEY_SUFFIX):
            return read_configuration(text, f"ConfigMap {name}, {key}")
    expected = f"expected an entry such as volcano-scheduler{_KEY_SUFFIX}"
    raise InvalidInput((FieldProblem(f"ConfigMap {name}", 0, "data", "", expected),))


def read_configuration(text: str, file: str = "volcano-scheduler.conf") -> VolcanoConfiguration:
    """From the text of the file. Raises: InvalidInput with every problem."""
    return _Reader(file).read(text)


class _Reader:
    def __init__(self, file: str) -> None:
        self._file = file
        self._problems: list[FieldProblem] = []

    def read(self, text: str) -> VolcanoConfiguration:
        root = self._parsed(text)
        actions = self._actions(root.get("actions"))
        tiers = []
        for i, tier in enumerate(self._list(root.get("tiers"), "tiers")):
            plugins = self._list(
                (tier or {}).get("plugins") if isinstance(tier, dict) else None, f"tiers[{i}].plugins"
            )
            tiers.append(
                tuple(
                    option
                    for j, item in enumerate(plugins)
                    if (option := self._plugin(item, f"tiers[{i}].plugins[{j}]")) is not None
                )
            )
        for i, item in enumerate(self._list(root.get("configurations"), "configurations", optional=True)):
            name = item.get("name") if isinstance(item, dict) else item
            if name not in ACTIONS:
                self._reject(f"configurations[{i}].name", name, f"expected one of {', '.join(ACTIONS)}")
        if self._problems:
            raise InvalidInput(tuple(self._problems))
        return VolcanoConfiguration(actions, tuple(tiers))

    def _parsed(self, text: str) -> dict[str, Any]:
        from fairway.kube.yamltext import read_documents

        documents, broken = read_documents(text)
        for problem in broken:
            self._reject("", "", f"not YAML: {problem}")
        if len(documents) == 1 and isinstance(documents[0].value, dict):
            return documents[0].value
        self._reject("", "", "expected a mapping with actions and tiers")
        return {"actions": "allocate", "tiers": []}

    def _reject(self, path: str, value: object, expected: str) -> None:
        self._problems.append(
            FieldProblem(self._file, 0, path, "" if value is None else str(value), expected)
        )

    def _list(self, value: Any, path: str, *, optional: bool = False) -> list[Any]:
        if value is None and optional:
            return []
        if not isinstance(value, list):
            self._reject(path, value, "expected a list")
            return []
        return value

    def _actions(self, value: Any) -> tuple[str, ...]:
        if not isinstance(value, str):
            self._reject("actions", value, 'expected a text such as "enqueue, allocate, backfill"')
            return ()
        names = [name.strip() for name in value.split(",")]
        for name in names:
            if name in NOT_SIMULATED:
                self._reject(
                    "actions", name, f"action cannot be simulated: expected among {', '.join(ACTIONS)}"
                )
            elif name not in ACTIONS:
                self._reject("actions", name, f"failed to find Action {name}: expected {', '.join(ACTIONS)}")
        return tuple(names)

    def _plugin(self, item: Any, path: str) -> PluginOption | None:
        if not isinstance(item, dict):
            self._reject(path, item, "expected a mapping with a name")
            return None
        name = item.get("name")
        if name in NOT_SIMULATED:
            self._reject(
                f"{path}.name", name, f"plugin cannot be simulated: expected among {', '.join(PLUGINS)}"
            )
            return None
        if name not in PLUGINS:
            self._reject(f"{path}.name", name, f"no such plugin: expected one of {', '.join(PLUGINS)}")
            return None
        disabled = []
        for key, value in item.items():
            if key in ("name", "arguments"):
                continue
            if key not in FLAGS and key not in _OTHER_FLAGS:
                self._reject(f"{path}.{key}", value, f"unknown field: expected one of {', '.join(FLAGS)}")
            elif not isinstance(value, bool):
                self._reject(f"{path}.{key}", value, "expected true or false")
            elif key == "enableHierarchy" and value:
                self._reject(
                    f"{path}.{key}", value, "hierarchical queues cannot be simulated: expected false"
                )
            elif not value:
                disabled.append(key)
        arguments = item.get("arguments") or {}
        if not isinstance(arguments, dict):
            self._reject(f"{path}.arguments", arguments, "expected a mapping")
            arguments = {}
        self._check_arguments(name, arguments, f"{path}.arguments")
        return PluginOption(name, frozenset(disabled), arguments)

    def _check_arguments(self, name: str, arguments: dict[str, Any], path: str) -> None:
        """Weights are whole numbers; overcommit-factor is a number of at least 1."""
        for key, value in arguments.items():
            if name == "nodeorder" and key not in NODE_ORDER_WEIGHTS:
                self._reject(f"{path}.{key}", value, f"expected one of {', '.join(NODE_ORDER_WEIGHTS)}")
            elif key in NODE_ORDER_WEIGHTS or (name == "binpack" and key != "binpack.resources"):
                if isinstance(value, bool) or not isinstance(value, int):
                    self._reject(f"{path}.{key}", value, "expected a whole number")
            elif key == "overcommit-factor" and (
                isinstance(value, bool) or not isinstance(value, int | float) or value < 1
            ):
                self._reject(f"{path}.{key}", value, "expected a number of at least 1")
