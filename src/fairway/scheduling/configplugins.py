"""Which plugins does a profile run, where, and with which weights?

A profile starts from the default list; `multiPoint` changes that list, each extension point adds to it or takes
from it, and `*` takes everything.

Unlike kube: filters always run in their default order, and plugins whose place Fairway does not model (volume
plugins, DefaultBinder, …) are accepted and do nothing.

Source: pkg/scheduler/apis/config/v1/default_plugins.go mergePlugins; framework/runtime/framework.go
updatePluginList, expandMultiPointPlugins, getValidScoreWeights (v1.36).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fairway.scheduling.configfields import Part
from fairway.scheduling.profile import DEFAULT_WEIGHTS, FILTER_PLUGINS, GPU_POLICIES

MULTI_POINT = "multiPoint"
# Extension points, and what upstream calls a plugin that implements one.
POINTS = {
    "preEnqueue": "PreEnqueuePlugin",
    "queueSort": "QueueSortPlugin",
    "preFilter": "PreFilterPlugin",
    "filter": "FilterPlugin",
    "postFilter": "PostFilterPlugin",
    "preScore": "PreScorePlugin",
    "score": "ScorePlugin",
    "reserve": "ReservePlugin",
    "permit": "PermitPlugin",
    "preBind": "PreBindPlugin",
    "bind": "BindPlugin",
    "postBind": "PostBindPlugin",
    "placementGenerate": "PlacementGeneratePlugin",
    "placementScore": "PlacementScorePlugin",
}

_FILTERING = ("preFilter", "filter")
_SCORING = ("preScore", "score")
# Where each plugin can stand. Source: the plugins' interface assertions; the last ones are Fairway's own.
PLUGINS: dict[str, tuple[str, ...]] = {
    "SchedulingGates": ("preEnqueue",),
    "PrioritySort": ("queueSort",),
    "NodeUnschedulable": ("filter",),
    "NodeName": ("filter",),
    "TaintToleration": ("filter", *_SCORING),
    "NodeAffinity": (*_FILTERING, *_SCORING),
    "NodePorts": _FILTERING,
    "NodeResourcesFit": (*_FILTERING, *_SCORING, "placementScore"),
    "VolumeRestrictions": _FILTERING,
    "NodeVolumeLimits": _FILTERING,
    "VolumeBinding": (*_FILTERING, *_SCORING, "reserve", "preBind"),
    "VolumeZone": _FILTERING,
    "PodTopologySpread": (*_FILTERING, *_SCORING),
    "InterPodAffinity": (*_FILTERING, *_SCORING),
    "DynamicResources": ("preEnqueue", *_FILTERING, "postFilter", *_SCORING, "reserve", "preBind"),
    "DefaultPreemption": ("preEnqueue", "postFilter"),
    "NodeResourcesBalancedAllocation": _SCORING,
    "ImageLocality": ("score",),
    "DefaultBinder": ("bind",),
    "NodeDeclaredFeatures": _FILTERING,
    "GangScheduling": ("preEnqueue", "reserve", "permit"),
    "TopologyPlacementGenerator": ("placementGenerate",),
    "PodGroupPodsCount": ("placementScore",),
    "Coscheduling": ("queueSort", "preFilter", "postFilter", "permit", "reserve"),
    "GpuShare": ("filter",),
    **dict.fromkeys(GPU_POLICIES, ("score",)),
}
_ALPHA = ("GangScheduling", "TopologyPlacementGenerator", "PodGroupPodsCount")
# Of scheduler-plugins, a scheduler built with more plugins.
_OUT_OF_TREE = ("Coscheduling",)
_DEFAULT_MULTI_POINT = tuple(
    p for p in PLUGINS if p not in (*_ALPHA, *_OUT_OF_TREE) and p not in GPU_POLICIES and p != "GpuShare"
)
# Gone from configurations before v1. Source: validation.go invalidPluginsByVersion.
_REMOVED = ("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits")


@dataclass(frozen=True, slots=True)
class Enabled:
    """What a profile's plugins come to."""

    filters: frozenset[str]
    weights: dict[str, int]
    preempts: bool
    has_dynamic_resources: bool
    permits: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Set:
    """One extension point's `enabled` (name, weight, place) and `disabled` names."""

    part: Part
    enabled: tuple[tuple[str, int, Part], ...]
    disabled: tuple[str, ...]

    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _, _ in self.enabled)


def read_plugins(part: Part, scheduler_name: str) -> Enabled:
    """From a profile's `plugins`; a missing one is the default."""
    members = part.members(MULTI_POINT, *POINTS)
    sets = {point: _read_set(members[point], point) for point in members}
    multi = _merged(sets[MULTI_POINT])
    active = {point: _active(point, sets[point], multi) for point in POINTS}
    _check_singletons(part, active, scheduler_name)
    filters = set(active["filter"])
    # Unlike kube: a file that was not written for Fairway cannot know it, so only its name turns it off.
    if not any("GpuShare" in sets[point].disabled for point in (MULTI_POINT, "filter")):
        filters.add("GpuShare")
    return Enabled(
        filters=frozenset(filters.intersection(FILTER_PLUGINS)),
        weights=_weights(sets, active["score"], multi),
        preempts="DefaultPreemption" in active["postFilter"],
        has_dynamic_resources="DynamicResources" in active["postFilter"],
        permits=frozenset(active["permit"]),
    )


def _read_set(part: Part, point: str) -> _Set:
    members = part.members("enabled", "disabled")
    enabled: dict[str, tuple[str, int, Part]] = {}
    for item in members["enabled"].items():
        plugin = item.members("name", "weight")
        name, weight = plugin["name"].required_text(), plugin["weight"].integer(0)
        if not name or not _is_known(plugin["name"], name, point):
            continue
        if name in enabled:
            plugin["name"].reject(f'plugin "{name}" already registered as "{POINTS.get(point, point)}"')
            continue
        enabled[name] = (name, weight, plugin["name"])
    disabled = []
    for item in members["disabled"].items():
        plugin = item.members("name", "weight")
        name = plugin["name"].required_text()
        if name and name != "*" and name not in PLUGINS and name not in _REMOVED:
            plugin["name"].reject(_no_such(name))
        disabled.append(name)
    return _Set(part, tuple(enabled.values()), tuple(disabled))


def _is_known(place: Part, name: str, point: str) -> bool:
    if name in _REMOVED:
        version = "kubescheduler.config.k8s.io/v1"
        place.reject(
            f'was invalid in version "{version}" (KubeSchedulerConfiguration is version "{version}")'
        )
        return False
    if name not in PLUGINS:
        place.reject(_no_such(name))
        return False
    if point != MULTI_POINT and point not in PLUGINS[name]:
        place.reject(f'plugin "{name}" does not extend {POINTS[point]} plugin')
        return False
    return True


def _no_such(name: str) -> str:
    return f'plugin "{name}" does not exist: expected one of {", ".join(sorted(PLUGINS))}'


def _merged(custom: _Set) -> tuple[tuple[str, int], ...]:
    """The default list as `multiPoint` changes it, with weights (0: not given)."""
    given = {name: weight for name, weight, _ in custom.enabled}
    kept: dict[str, int] = {}
    if "*" not in custom.disabled:
        for name in _DEFAULT_MULTI_POINT:
            if name not in custom.disabled:
                kept[name] = given.pop(name, _default_weight(name))
    return (*kept.items(), *given.items())


def _default_weight(name: str) -> int:
    return DEFAULT_WEIGHTS.get(name, 0)


def _active(point: str, own: _Set, multi: Sequence[tuple[str, int]]) -> tuple[str, ...]:
    """The plugins that run at a point."""
    if "*" in own.disabled:
        return own.names()
    expanded = [n for n, _ in multi if point in PLUGINS[n] and n not in own.disabled]
    return tuple(dict.fromkeys((*expanded, *own.names())))


def _weights(
    sets: dict[str, _Set], active: Sequence[str], multi: Sequence[tuple[str, int]]
) -> dict[str, int]:
    """A weight at `score` goes before one at `multiPoint`; 0 means 1. They are too small for a sum to overflow."""
    given = {name: weight for name, weight, _ in sets["score"].enabled}
    for name, weight in multi:
        given.setdefault(name, weight)
    return {name: given[name] or 1 for name in active}


def _check_singletons(part: Part, active: dict[str, tuple[str, ...]], scheduler_name: str) -> None:
    sorters = len(active["queueSort"])
    if sorters != 1:
        part.reject(
            "only one queue sort plugin required for profile with scheduler name "
            f'"{scheduler_name}", but got {sorters}'
        )
    if not active["bind"]:
        part.reject(f'at least one bind plugin is needed for profile with scheduler name "{scheduler_name}"')
