"""DefaultPreemption: which pods would go, and from which node."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

from oracle.filters import State, filters_with_nominated, move
from oracle.matching import (
    is_empty,
    priority,
    selects,
)
from oracle.world import UNRESOLVABLE, UNSCHEDULABLE, Decision, NodeInfo, Obj, Status, World


def preempt(
    world: World,
    state: State,
    pod: Obj,
    infos: list[NodeInfo],
    statuses: dict[str, Status],
    decision: Decision,
) -> None:
    after = f"{decision.message} no new claims to deallocate, preemption:"
    if pod["spec"].get("preemptionPolicy") == "Never":
        decision.message = f"{after} not eligible due to preemptionPolicy=Never."
        return
    said: dict[str, Status] = {}
    for info in infos:
        if info.name in statuses and statuses[info.name].code == UNSCHEDULABLE:
            found = victims_on(world, copy.deepcopy(state), pod, NodeInfo(info.node, list(info.pods)))
            if isinstance(found, Status):
                said[info.name] = found
            elif found[0]:
                decision.candidates[info.name] = found
            else:
                said[info.name] = Status(UNSCHEDULABLE, [])
    if decision.candidates:
        decision.best = best_candidates(world, decision.candidates)
        return
    decision.message = f"{after} {fit_error(len(infos), said, 'Preemption is not helpful for scheduling')}"


def start_time(pod: Obj) -> str:
    return (pod.get("status") or {}).get("startTime") or "9999"


def importance(pod: Obj) -> tuple[int, str]:
    """Most important first."""
    return (-priority(pod), start_time(pod))


def victims_on(world: World, state: State, pod: Obj, info: NodeInfo) -> Status | tuple[tuple[str, ...], int]:
    lower = [p for p in info.pods if priority(p) < priority(pod)]
    for p in lower:
        move(world, state, pod, p, info, -1)
    if not lower:
        return Status(UNRESOLVABLE, ["No preemption victims found for incoming pod"])
    refused = filters_with_nominated(world, state, pod, info)
    if refused:
        return refused
    lower.sort(key=importance)
    violating, harmless = by_budget(world, lower)
    victims, violations = [], 0
    for p in [*violating, *harmless]:
        move(world, state, pod, p, info, 1)
        if filters_with_nominated(world, state, pod, info):
            move(world, state, pod, p, info, -1)
            victims.append(p)
            violations += p in violating
    victims.sort(key=importance)
    return tuple(p["metadata"]["name"] for p in victims), violations


def by_budget(world: World, pods: list[Obj]) -> tuple[list[Obj], list[Obj]]:
    left = [b["status"]["disruptionsAllowed"] for b in world.budgets]
    violating, harmless = [], []
    for p in pods:
        breaks = False
        labels = p["metadata"].get("labels") or {}
        for i, b in enumerate(world.budgets):
            if not labels or b["metadata"]["namespace"] != p["metadata"]["namespace"]:
                continue
            selector = b["spec"].get("selector")
            if is_empty(selector) or not selects(selector, labels):
                continue
            if p["metadata"]["name"] in (b["status"].get("disruptedPods") or {}):
                continue
            left[i] -= 1
            breaks = breaks or left[i] < 0
        (violating if breaks else harmless).append(p)
    return violating, harmless


def best_candidates(world: World, candidates: dict[str, tuple[tuple[str, ...], int]]) -> list[str]:
    pods = {p["metadata"]["name"]: p for p in world.pods}

    def harm(node: str) -> tuple[Any, ...]:
        names, violations = candidates[node]
        victims = [pods[n] for n in names]
        top = priority(victims[0])
        earliest = min(start_time(v) for v in victims if priority(v) == top)
        later_is_better = tuple(-ord(ch) for ch in earliest)
        total = sum(priority(v) + 2**31 for v in victims)
        return (violations, top, total, len(victims), later_is_better)

    least = min(harm(n) for n in candidates)
    return [n for n in candidates if harm(n) == least]


def fit_error(count: int, statuses: dict[str, Status], absent: str) -> str:
    reasons: Counter[str] = Counter(r for s in statuses.values() for r in s.reasons)
    if len(statuses) < count and absent:
        reasons[absent] += count - len(statuses)
    text = f"0/{count} nodes are available:"
    return text + (f" {', '.join(sorted(f'{n} {r}' for r, n in reasons.items()))}." if reasons else "")
