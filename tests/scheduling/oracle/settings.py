"""What a profile of a KubeSchedulerConfiguration, as it is written, says of one plugin."""

from __future__ import annotations

from oracle.world import Obj, World

_WEIGHTS = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesFit": 1,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
}


def _at(world: World, point: str, list_name: str) -> list[Obj]:
    plugins = world.profile.get("plugins") or {}
    return list((plugins.get(point) or {}).get(list_name) or [])


def filters_with(world: World, plugin: str) -> bool:
    return plugin not in {p["name"] for p in _at(world, "filter", "disabled")}


def weight(world: World, plugin: str) -> int:
    given = {p["name"]: p.get("weight") or 1 for p in _at(world, "score", "enabled")}
    if plugin in given:
        return int(given[plugin])
    return 0 if plugin in {p["name"] for p in _at(world, "score", "disabled")} else _WEIGHTS[plugin]


def args_of(world: World, plugin: str) -> Obj:
    for config in world.profile.get("pluginConfig") or []:
        if config["name"] == plugin:
            found: Obj = config["args"]
            return found
    return {}
