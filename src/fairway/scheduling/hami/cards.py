"""What do annotations say: which cards a node has, and who holds how much of them?"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from fairway.cluster.actions import View
from fairway.cluster.changes import DELETED, Change
from fairway.cluster.following import index_of
from fairway.kube.integers import natural
from fairway.kube.objects import Key, Obj, annotations_of, key_of, meta_of, status_of

REGISTER: Final = "hami.io/node-nvidia-register"
NODE: Final = "hami.io/vgpu-node"
TIME: Final = "hami.io/vgpu-time"
ALLOCATED: Final = "hami.io/vgpu-devices-allocated"
TO_ALLOCATE: Final = "hami.io/vgpu-devices-to-allocate"
BIND_PHASE: Final = "hami.io/bind-phase"
BIND_TIME: Final = "hami.io/bind-time"
VENDOR: Final = "NVIDIA"
_OVER: Final = ("Succeeded", "Failed")
# Of an annotation that anybody may write.
_MOST_CARDS, _MOST_BYTES = 1024, 1 << 20
_TEXTS_KEPT, _LONGEST_KEPT = 4096, 16 << 10
_POD: Final = "Pod"


class Held(NamedTuple):
    """Of one card. `memory`: MiB; `cores`: hundredths of it."""

    uuid: str
    memory: int
    cores: int


class Card:
    """A card while a node is filled. `count`: pods that may share it; `memory`, `cores`: all of it."""

    __slots__ = (
        "cores",
        "count",
        "id",
        "index",
        "is_healthy",
        "kind",
        "memory",
        "mode",
        "numa",
        "used",
        "used_cores",
        "used_memory",
    )

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.id = str(raw.get("id") or "")
        self.index = natural(str(raw.get("index") or 0)) or 0
        self.count = natural(str(raw.get("count") or 0)) or 0
        self.memory = natural(str(raw.get("devmem") or 0)) or 0
        self.cores = natural(str(raw.get("devcore") or 0)) or 0
        self.kind = str(raw.get("type") or "")
        self.numa = natural(str(raw.get("numa") or 0)) or 0
        self.mode = str(raw.get("mode") or "")
        self.is_healthy = raw.get("health") is True
        self.used = self.used_cores = self.used_memory = 0

    def take(self, held: Held) -> None:
        self.used += 1
        self.used_cores += held.cores
        self.used_memory += held.memory


def cards_of(node: Obj) -> list[Card] | None:
    """As registered; None: HAMi does not know the node."""
    said = annotations_of(node).get(REGISTER)
    if said is None or len(said) > _MOST_BYTES:
        return None
    raw = _remembered(said) if len(said) <= _LONGEST_KEPT else _read(said)
    return None if raw is None else [Card(one) for one in raw]


@lru_cache(_TEXTS_KEPT)
def _remembered(said: str) -> tuple[Mapping[str, Any], ...] | None:
    """A node says the same until its cards change, and is asked for every pod."""
    return _read(said)


def _read(said: str) -> tuple[Mapping[str, Any], ...] | None:
    try:
        raw = json.loads(said)
    except (ValueError, RecursionError):
        return None
    if not isinstance(raw, list) or len(raw) > _MOST_CARDS:
        return None
    return tuple(one for one in raw if isinstance(one, dict))


def registration(cards: Iterable[Mapping[str, Any]]) -> str:
    """The annotation, as Go writes it: fields that are zero are left out."""
    return json.dumps(
        [{k: v for k, v in c.items() if v not in (0, "", False)} for c in cards], separators=(",", ":")
    )


Holdings = dict[str, list[tuple[Held, ...]]]


class CardHolders:
    """By node, what each pod that was given cards, and is not over, holds: kept by following a store's changes."""

    def __init__(self, store: View) -> None:
        self._of_node: dict[str, dict[Key, tuple[str, tuple[Held, ...]]]] = {}
        for pod in store.objects(_POD):
            self._put(key_of(pod), pod)

    def on(self, nodes: Iterable[str], but: str = "") -> Holdings:
        """Of these nodes. `but`: a pod's uid. O(who holds something there)."""
        found: Holdings = {}
        for node in nodes:
            of_node = self._of_node.get(node)
            if of_node:
                found[node] = [held for uid, held in of_node.values() if uid != but]
        return found

    def apply(self, change: Change) -> None:
        if change.key[0] != _POD:
            return
        if change.old is not None:
            node = annotations_of(change.old).get(NODE)
            of_node = self._of_node.get(node) if node else None
            if node and of_node and of_node.pop(change.key, None) is not None and not of_node:
                del self._of_node[node]
        if change.type != DELETED:
            self._put(change.key, change.obj)

    def _put(self, key: Key, pod: Obj) -> None:
        said = annotations_of(pod)
        node = said.get(NODE)
        if not node or status_of(pod).get("phase") in _OVER:
            return
        held = tuple(h for of_container in decoded(said.get(ALLOCATED, "")) for h in of_container)
        if held:
            self._of_node.setdefault(node, {})[key] = (meta_of(pod).get("uid") or "", held)


def card_holders(store: View) -> CardHolders:
    """The index of this store."""
    return index_of(store, CardHolders, CardHolders)


def decoded(text: str) -> list[tuple[Held, ...]]:
    """By container: `uuid,NVIDIA,4096,30:;`. What is malformed is nothing."""
    return [
        tuple(_held(part) for part in one.split(":") if part.count(",") >= 3) for one in text.split(";")[:-1]
    ]


def _held(part: str) -> Held:
    uuid, _, memory, cores = part.split(",")[:4]
    return Held(uuid, natural(memory) or 0, natural(cores) or 0)


def encoded(containers: Iterable[Iterable[Held]]) -> str:
    return "".join(
        "".join(f"{h.uuid},{VENDOR},{h.memory},{h.cores}:" for h in of_container) + ";"
        for of_container in containers
    )


def share_of(pod: Obj, memories: Mapping[str, int]) -> int:
    """Thousandths of cards that it was given: of each the larger of its parts of memory and of cores. `memories`: MiB
    by uuid."""
    return sum(
        min(max(held.memory * 1000 // (memories.get(held.uuid) or held.memory or 1), held.cores * 10), 1000)
        for of_container in decoded(annotations_of(pod).get(ALLOCATED, ""))
        for held in of_container
    )
