"""Which node, and which of its cards, does a pod get?

Cards of a node are tried from the end of their order: spread (the default) ends with the least used, binpack with the
most used. Of nodes that fit, the fullest is taken (or the emptiest: `hami.io/node-scheduler-policy: spread`).

Unlike HAMi: of nodes that score alike the first by name (there it is chance); no MIG mode, no `topology-aware`, no
quotas of gpumem.

Source: pkg/scheduler/score.go, policy/gpu_policy.go, policy/node_policy.go; pkg/device/nvidia/device.go Fit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Final, NamedTuple

from fairway.kube.objects import Obj, annotations_of, spec_of
from fairway.scheduling.hami.cards import Card, Held, cards_of
from fairway.scheduling.hami.requests import Request, request_of

NODE_POLICY: Final = "hami.io/node-scheduler-policy"
GPU_POLICY: Final = "hami.io/gpu-scheduler-policy"
USE_TYPE, NO_TYPE = "nvidia.com/use-gputype", "nvidia.com/nouse-gputype"
USE_UUID, NO_UUID = "nvidia.com/use-gpuuuid", "nvidia.com/nouse-gpuuuid"
CORDONED: Final = "hami.io/device-cordon"
UNREGISTERED: Final = "node unregistered"
INSUFFICIENT: Final = "NodeInsufficientDevice"
_WEIGHT: Final = 10


class Chosen(NamedTuple):
    """`containers`: init containers first, what each gets."""

    node: str
    containers: tuple[tuple[Held, ...], ...]
    score: Fraction


class Answer(NamedTuple):
    """`chosen` None: `refused` says why of every node. `fits`: how many do."""

    chosen: Chosen | None
    refused: Mapping[str, str]
    fits: int = 0


def asks(pod: Obj) -> bool:
    return any(r is not None for r in _requests(pod))


def _requests(pod: Obj) -> list[Request | None]:
    spec = spec_of(pod)
    return [request_of(c) for c in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))]


def answer(
    pod: Obj, nodes: Iterable[tuple[str, Obj]], held: Mapping[str, Sequence[tuple[Held, ...]]]
) -> Answer:
    """O(nodes × cards × containers). `held`: by node, what each pod holds."""
    refused: dict[str, str] = {}
    fitting: list[Chosen] = []
    for name, node in nodes:
        cards = cards_of(node)
        if cards is None:
            refused[name] = UNREGISTERED
            continue
        by_id = {card.id: card for card in cards}
        for of_pod in held.get(name, ()):
            for part in of_pod:
                if part.uuid in by_id:
                    by_id[part.uuid].take(part)
        found = _on_node(pod, node, cards)
        if isinstance(found, str):
            refused[name] = found
        else:
            fitting.append(Chosen(name, *found))
    if not fitting:
        return Answer(None, refused)
    spreads = annotations_of(pod).get(NODE_POLICY) == "spread"
    chosen = min(fitting, key=lambda c: (c.score if spreads else -c.score, c.node))
    return Answer(chosen, refused, len(fitting))


def _on_node(pod: Obj, node: Obj, cards: list[Card]) -> tuple[tuple[tuple[Held, ...], ...], Fraction] | str:
    """What its containers get, and the node's score before that; a text: why it does not fit."""
    score = _score(cards)
    inits = len(spec_of(pod).get("initContainers") or ())
    out: list[tuple[Held, ...]] = []
    for number, request in enumerate(_requests(pod)):
        if request is None:
            out.append(())
            continue
        before = [(c.used, c.used_cores, c.used_memory) for c in cards]
        order = _ordered(pod, cards)
        if request.cards > len(cards):
            return INSUFFICIENT
        found = _fit(pod, node, order, request)
        if isinstance(found, str):
            return found
        by_id = {card.id: card for card in cards}
        for part in found:
            by_id[part.uuid].take(part)
        if number < inits:
            # Init containers run before the others: what they take is free again.
            for card, (used, used_cores, used_memory) in zip(cards, before, strict=True):
                card.used, card.used_cores, card.used_memory = used, used_cores, used_memory
        out.append(found)
    return tuple(out), score


def _score(cards: Sequence[Card]) -> Fraction:
    totals = [sum(getattr(c, n) for c in cards) for n in ("count", "cores", "memory")]
    used = [sum(getattr(c, n) for c in cards) for n in ("used", "used_cores", "used_memory")]
    if not all(totals):
        return Fraction(0)
    return _WEIGHT * sum((Fraction(u, t) for u, t in zip(used, totals, strict=True)), Fraction(0))


def _ordered(pod: Obj, cards: list[Card]) -> list[Card]:
    """As they are sorted; they are tried from the end. Several policies are keys one after the other."""
    said = annotations_of(pod)
    policy = said.get(GPU_POLICY, "spread")
    if policy == "mutex":
        return sorted(cards, key=lambda c: (-c.used, c.numa))
    binds = _binds_numa(said)
    names = [p.strip() for p in policy.split(",")]
    if "," not in policy and policy != "numa":
        way = 1 if policy == "binpack" else -1
        if binds:
            return sorted(cards, key=lambda c: (-way * c.numa, way * _score([c])))
        return sorted(cards, key=lambda c: (way * _score([c]), c.numa))
    chain = list(dict.fromkeys(n for n in names if n in ("binpack", "spread", "numa"))) or ["spread"]
    if binds and chain[0] != "numa":
        chain = ["numa", *(n for n in chain if n != "numa")]
    return sorted(cards, key=lambda c: (*(_key(c, name) for name in chain), c.index))


def _key(card: Card, policy: str) -> Fraction:
    if policy == "numa":
        return Fraction(card.numa)
    return _score([card]) if policy == "binpack" else -_score([card])


def _binds_numa(said: Mapping[str, str]) -> bool:
    """Source: strconv.ParseBool."""
    return said.get("nvidia.com/numa-bind") in ("1", "t", "T", "true", "TRUE", "True")


def _fit(pod: Obj, node: Obj, cards: Sequence[Card], request: Request) -> tuple[Held, ...] | str:
    said = annotations_of(pod)
    is_mutex = "mutex" in said.get(GPU_POLICY, "").split(",")
    binds_numa = _binds_numa(said)
    cordoned = {u.strip() for u in annotations_of(node).get(CORDONED, "").split(",")}
    reasons: Counter[str] = Counter()
    found: list[Held] = []
    numa = -1
    for card in reversed(cards):
        why = _unusable(said, card, cordoned)
        if not why and binds_numa and numa != card.numa:
            if found:
                reasons["NumaNotFit"] += len(found)
            found, numa = [], card.numa
        memory = request.memory or card.memory * request.percent // 100
        why = why or _short(card, memory, request.cores, said, is_mutex=is_mutex)
        if why:
            reasons[why] += 1
            continue
        found.append(Held(card.id, memory, request.cores))
        if len(found) == request.cards:
            return tuple(found)
    if found:
        reasons["AllocatedCardsInsufficientRequest"] = len(found)
    return ", ".join(sorted(f"{count}/{len(cards)} {why}" for why, count in reasons.items()))


def _unusable(said: Mapping[str, str], card: Card, cordoned: set[str]) -> str:
    if not card.is_healthy:
        return "CardNotHealth"
    if card.id in cordoned:
        return "CardCordoned"
    kind = card.kind.lower()
    wanted, unwanted = (
        [t.strip().lower() for t in said.get(name, "").split(",") if t.strip()]
        for name in (USE_TYPE, NO_TYPE)
    )
    if (wanted and not any(t in kind for t in wanted)) or any(t in kind for t in unwanted):
        return "CardTypeMismatch"
    return ""


def _short(card: Card, memory: int, cores: int, said: Mapping[str, str], *, is_mutex: bool) -> str:
    wanted, unwanted = (
        [u.strip() for u in said.get(n, "").split(",") if u.strip()] for n in (USE_UUID, NO_UUID)
    )
    if (wanted and card.id not in wanted) or card.id in unwanted:
        return "CardUuidMismatch"
    if card.count <= card.used:
        return "CardTimeSlicingExhausted"
    if is_mutex and card.used > 0:
        return "ExclusiveDeviceAllocateConflict"
    if card.memory - card.used_memory < memory:
        return "CardInsufficientMemory"
    if card.cores - card.used_cores < cores:
        return "CardInsufficientCore"
    if card.cores == 100 and cores == 100 and card.used > 0:
        return "ExclusiveDeviceAllocateConflict"
    if card.cores and card.used_cores == card.cores and cores == 0:
        return "CardComputeUnitsExhausted"
    return ""
