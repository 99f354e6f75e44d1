"""Every score of a profile, normalised over the feasible nodes."""

from __future__ import annotations

import math
from collections import Counter

from oracle.filters import constraints, count_matching, included, is_listed
from oracle.matching import (
    node_affinity,
    node_term_matches,
    term_matches,
    terms_of,
    untolerated,
)
from oracle.requests import NON_ZERO, allocatable, as_int, pod_requests, requested
from oracle.resources import balance_score, fit_score
from oracle.settings import args_of, weight
from oracle.world import HOSTNAME, PREFERRED, REQUIRED, NodeInfo, Obj, World


def normalize(raw: dict[str, int], *, reverse: bool) -> dict[str, int]:
    top = max(raw.values())
    if top <= 0:
        return dict.fromkeys(raw, 100 if reverse else 0)
    return {n: 100 - 100 * s // top if reverse else 100 * s // top for n, s in raw.items()}


def score_all(world: World, pod: Obj, feasible: list[NodeInfo], infos: list[NodeInfo]) -> dict[str, int]:
    total: Counter[str] = Counter()
    taints = {i.name: len(untolerated(pod, i, ("PreferNoSchedule",))) for i in feasible}
    parts = {
        "TaintToleration": normalize(taints, reverse=True),
        "NodeAffinity": normalize({i.name: preference(world, pod, i) for i in feasible}, reverse=False),
        "NodeResourcesFit": {i.name: fit(world, pod, i) for i in feasible},
        "NodeResourcesBalancedAllocation": {i.name: balance(world, pod, i) for i in feasible},
        "ImageLocality": {i.name: image_locality(pod, i, infos) for i in feasible},
        "PodTopologySpread": spread_scores(world, pod, feasible, infos),
        "InterPodAffinity": affinity_scores(world, pod, feasible, infos),
    }
    for plugin, scores in parts.items():
        for name, score in scores.items():
            total[name] += weight(world, plugin) * score
    return {i.name: total[i.name] for i in feasible}


def preference(world: World, pod: Obj, info: NodeInfo) -> int:
    added = (args_of(world, "NodeAffinity").get("addedAffinity") or {}).get(PREFERRED) or []
    terms = [*(node_affinity(pod).get(PREFERRED) or []), *added]
    return sum(t["weight"] for t in terms if node_term_matches(t["preference"], info))


def fit(world: World, pod: Obj, info: NodeInfo) -> int:
    asked = pod_requests(pod, NON_ZERO, skip_pod_level=True)
    taken, cpu, memory = requested(info)
    strategy = args_of(world, "NodeResourcesFit").get("scoringStrategy") or {}
    used = {**taken, "cpu": cpu, "memory": memory}
    return fit_score(strategy, allocatable(info), used, {k: as_int(k, v) for k, v in asked.items()})


def balance(world: World, pod: Obj, info: NodeInfo) -> int:
    asked = {k: as_int(k, v) for k, v in pod_requests(pod, {}).items()}
    listed = args_of(world, "NodeResourcesBalancedAllocation").get("resources")
    names = [r["name"] for r in listed] if listed else ["cpu", "memory"]
    return balance_score(names, allocatable(info), requested(info)[0], asked)


def image_locality(pod: Obj, info: NodeInfo, infos: list[NodeInfo]) -> int:
    spec = pod["spec"]
    containers = [*(spec.get("initContainers") or []), *spec["containers"]]
    names = [c.get("image") or "" for c in containers]
    names += [v["image"]["reference"] for v in spec.get("volumes") or [] if v.get("image")]
    total = 0
    for name in names:
        name = name if name.rfind(":") > name.rfind("/") else name + ":latest"
        sizes: dict[str, int] = {}
        for i in infos:
            for n, size in image_names(i):
                if n == name:
                    sizes.setdefault(i.name, size)
        if info.name in sizes:
            total += int(float(next(iter(sizes.values()))) * (len(sizes) / len(infos)))
    low, high = 23 * 2**20, 1000 * 2**20 * len(containers)
    return 100 * (min(max(total, low), high) - low) // (high - low)


def image_names(info: NodeInfo) -> list[tuple[str, int]]:
    images = (info.node.get("status") or {}).get("images") or []
    return [(n, i["sizeBytes"]) for i in images for n in i["names"]]


def spread_scores(world: World, pod: Obj, feasible: list[NodeInfo], infos: list[NodeInfo]) -> dict[str, int]:
    soft = constraints(world, pod, "ScheduleAnyway")
    if not soft:
        return {}
    strict = bool(pod["spec"].get("topologySpreadConstraints")) or is_listed(world)
    ignored = [i.name for i in feasible if strict and not all(c["topologyKey"] in i.labels for c in soft)]
    counted = [i for i in feasible if i.name not in ignored]
    raw = {i.name: 0.0 for i in feasible}
    for c in soft:
        key = c["topologyKey"]
        buckets = {i.labels.get(key, ""): 0 for i in counted}
        for i in infos:
            if strict and not all(other["topologyKey"] in i.labels for other in soft):
                continue
            value = i.labels.get(key, "")
            if value in buckets and included(c, pod, i):
                buckets[value] += count_matching(c, pod, i)
        share = math.log((len(counted) if key == HOSTNAME else len(buckets)) + 2)
        for i in counted:
            if key in i.labels:
                count = count_matching(c, pod, i) if key == HOSTNAME else buckets[i.labels[key]]
                raw[i.name] += count * share + float(c["maxSkew"] - 1)
    scores = {n: math.floor(s + 0.5) for n, s in raw.items()}
    of_counted = [scores[i.name] for i in counted]
    out = {}
    for name, score in scores.items():
        if name in ignored:
            out[name] = 0
        elif max(of_counted) == 0:
            out[name] = 100
        else:
            out[name] = 100 * (max(of_counted) + min(of_counted) - score) // max(of_counted)
    return out


def affinity_scores(
    world: World, pod: Obj, feasible: list[NodeInfo], infos: list[NodeInfo]
) -> dict[str, int]:
    args = args_of(world, "InterPodAffinity")
    wants = terms_of(pod, "podAffinity", PREFERRED) or terms_of(pod, "podAntiAffinity", PREFERRED)
    if args.get("ignorePreferredTermsOfExistingPods") and not wants:
        return {}
    hard_weight = args.get("hardPodAffinityWeight", 1)
    score: Counter[tuple[str, str]] = Counter()
    for info in infos:
        for there in info.pods:
            for owner, other in ((pod, there), (there, pod)):
                for kind, sign in (("podAffinity", 1), ("podAntiAffinity", -1)):
                    for w in terms_of(owner, kind, PREFERRED):
                        add_term(world, score, w["podAffinityTerm"], owner, other, info, sign * w["weight"])
            for t in terms_of(there, "podAffinity", REQUIRED):
                add_term(world, score, t, there, pod, info, hard_weight)
    raw = {i.name: sum(score.get(pair, 0) for pair in i.labels.items()) for i in feasible}
    low, high = min(raw.values()), max(raw.values())
    if high == low:
        return {}
    return {n: int(100.0 * (float(s - low) / float(high - low))) for n, s in raw.items()}


def add_term(
    world: World,
    score: Counter[tuple[str, str]],
    term: Obj,
    owner: Obj,
    other: Obj,
    info: NodeInfo,
    weight: int,
) -> None:
    key = term["topologyKey"]
    if key in info.labels and term_matches(world, term, owner, other):
        score[key, info.labels[key]] += weight
