"""Every score of the default profile, normalised over the feasible nodes."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

from oracle.filters import constraints, count_matching, included
from oracle.matching import (
    node_affinity,
    node_term_matches,
    term_matches,
    terms_of,
    untolerated,
)
from oracle.requests import NON_ZERO, allocatable, as_int, pod_requests, requested
from oracle.world import HOSTNAME, PREFERRED, REQUIRED, NodeInfo, Obj, World


def normalize(raw: dict[str, int], *, reverse: bool) -> dict[str, int]:
    top = max(raw.values())
    if top <= 0:
        return dict.fromkeys(raw, 100 if reverse else 0)
    return {n: 100 - 100 * s // top if reverse else 100 * s // top for n, s in raw.items()}


def score_all(world: World, pod: Obj, feasible: list[NodeInfo], infos: list[NodeInfo]) -> dict[str, int]:
    total: Counter[str] = Counter()
    parts = (
        (
            3,
            normalize(
                {i.name: len(untolerated(pod, i, ("PreferNoSchedule",))) for i in feasible}, reverse=True
            ),
        ),
        (2, normalize({i.name: preference(pod, i) for i in feasible}, reverse=False)),
        (1, {i.name: least_allocated(pod, i) for i in feasible}),
        (1, {i.name: balanced(pod, i) for i in feasible}),
        (1, {i.name: image_locality(pod, i, infos) for i in feasible}),
        (2, spread_scores(world, pod, feasible, infos)),
        (2, affinity_scores(world, pod, feasible, infos)),
    )
    for weight, scores in parts:
        for name, score in scores.items():
            total[name] += weight * score
    return {i.name: total[i.name] for i in feasible}


def preference(pod: Obj, info: NodeInfo) -> int:
    terms = node_affinity(pod).get(PREFERRED) or []
    return sum(t["weight"] for t in terms if node_term_matches(t["preference"], info))


def least_allocated(pod: Obj, info: NodeInfo) -> int:
    asked = pod_requests(pod, NON_ZERO, skip_pod_level=True)
    capacity = allocatable(info)
    _, cpu, memory = requested(info)
    scores = []
    for name, used in (("cpu", cpu), ("memory", memory)):
        have = capacity.get(name, 0)
        if have:
            use = used + as_int(name, asked.get(name, Fraction(0)))
            scores.append(0 if use > have else (have - use) * 100 // have)
    return sum(scores) // len(scores) if scores else 0


def balanced(pod: Obj, info: NodeInfo) -> int:
    asked = {k: as_int(k, v) for k, v in pod_requests(pod, {}).items()}
    if not asked.get("cpu") and not asked.get("memory"):
        return 0
    capacity = allocatable(info)
    taken, _, _ = requested(info)

    def score(extra: bool) -> int:
        fractions = [
            min((taken.get(n, 0) + (asked.get(n, 0) if extra else 0)) / capacity[n], 1.0)
            for n in ("cpu", "memory")
            if capacity.get(n)
        ]
        std = abs((fractions[0] - fractions[1]) / 2) if len(fractions) == 2 else 0.0
        return int((1 - std) * 100.0)

    return 50 + (50 + score(True) - score(False)) // 2


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
    strict = bool(pod["spec"].get("topologySpreadConstraints"))
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
        weight = math.log((len(counted) if key == HOSTNAME else len(buckets)) + 2)
        for i in counted:
            if key in i.labels:
                count = count_matching(c, pod, i) if key == HOSTNAME else buckets[i.labels[key]]
                raw[i.name] += count * weight + float(c["maxSkew"] - 1)
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
    score: Counter[tuple[str, str]] = Counter()
    for info in infos:
        for there in info.pods:
            for owner, other in ((pod, there), (there, pod)):
                for kind, sign in (("podAffinity", 1), ("podAntiAffinity", -1)):
                    for w in terms_of(owner, kind, PREFERRED):
                        add_term(world, score, w["podAffinityTerm"], owner, other, info, sign * w["weight"])
            for t in terms_of(there, "podAffinity", REQUIRED):
                add_term(world, score, t, there, pod, info, 1)
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
