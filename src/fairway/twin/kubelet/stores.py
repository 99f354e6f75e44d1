"""How long do init containers take to fetch their models, when many fetch at one time?

A store (an object store, a registry, a shared volume) gives so many bytes a second in all, and no reader more than
its own limit: those who read at one time share evenly, as flows through one bottleneck do (processor sharing). A node
with a cache fetches a model once: pods of it that want the same one meanwhile wait for that transfer, later ones find
it there, until models used since need the room. Reading from the node's disk into a GPU is the server's
`startup-time`.

Which model: the annotation `fairway.dev/weights.<init container>`, or what KServe's storage-initializer is to fetch.

Every reader of a store has been given equally much since it began, so one number grows for all of them, and who is
done next is the least of "that number at its beginning, plus its size": O(log readers) at each beginning and end.
Numbers are integers, 10^-18 bytes: a share is cut there, and an end rounded up to the next microsecond.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final, NamedTuple

from fairway.kube.objects import Obj, annotations_of, spec_of
from fairway.twin.behaviour import PREFIX
from fairway.twin.kubelet.states import NO_TICKET, RUNNING, Ended, PodState
from fairway.twin.loop import NO_TIME
from fairway.workloads.kserve.storage import NAME as STORAGE_INITIALIZER

if TYPE_CHECKING:
    from fairway.twin.kubelet.component import Kubelet

WEIGHTS: Final = PREFIX + "weights."
# In 10^-18 bytes: what one byte a second gives in a microsecond, and a byte.
_PER_US: Final = 10**12
_PER_BYTE: Final = 10**18

Reader = tuple[str, int]
"""A pod's UID and the number of its container."""


class Store(NamedTuple):
    """What the scenario says of one, in bytes and bytes a second. `models`: name and size.

    `reader_rate` 0: no limit but the store's; `cache_bytes` 0: nodes keep nothing.
    """

    name: str
    rate: int
    reader_rate: int
    cache_bytes: int
    models: tuple[tuple[str, int], ...]


class Transfer:
    """One model on its way to one node; `readers` wait for it."""

    def __init__(self, node: str, model: str, size: int, done_at: int, readers: tuple[Reader, ...]) -> None:
        self.node = node
        self.model = model
        self.size = size
        self.done_at = done_at
        self.readers = readers

    def copy(self) -> Transfer:
        return Transfer(self.node, self.model, self.size, self.done_at, self.readers)


class Line:
    """A store at work: its transfers by number, and what nodes (by UID) keep, the longest unused first."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.given = 0
        self.at_us = 0
        self.begun = 0
        self.ticket = NO_TICKET
        self.transfers: dict[int, Transfer] = {}
        self.readers: dict[Reader, int] = {}
        self.coming: dict[tuple[str, str], int] = {}
        """The transfer of a model to a node, where nodes keep them."""
        self.order: list[tuple[int, int]] = []
        self.caches: dict[str, dict[str, int]] = {}

    def copy(self) -> Line:
        twin = Line(self.store)
        twin.given, twin.at_us, twin.begun, twin.ticket = self.given, self.at_us, self.begun, self.ticket
        twin.transfers = {number: transfer.copy() for number, transfer in self.transfers.items()}
        twin.readers, twin.coming = dict(self.readers), dict(self.coming)
        twin.order = list(self.order)
        twin.caches = {node: dict(models) for node, models in self.caches.items()}
        return twin

    def share(self) -> int:
        """What each transfer is given in a microsecond."""
        share = max(self.store.rate * _PER_US // len(self.transfers), 1)
        return min(share, self.store.reader_rate * _PER_US) if self.store.reader_rate else share

    def advance(self, now_us: int) -> None:
        if self.transfers:
            self.given += self.share() * (now_us - self.at_us)
        self.at_us = now_us

    def begin(self, node: str, model: str, size: int, reader: Reader) -> None:
        """One more reads; with a cache, together with others of its node that want the same."""
        number = self.coming.get((node, model))
        if number is not None:
            transfer = self.transfers[number]
            transfer.readers = (*transfer.readers, reader)
            self.readers[reader] = number
            return
        self.begun += 1
        done_at = self.given + size * _PER_BYTE
        self.transfers[self.begun] = Transfer(node, model, size, done_at, (reader,))
        self.readers[reader] = self.begun
        if self.store.cache_bytes:
            self.coming[node, model] = self.begun
        heappush(self.order, (done_at, self.begun))

    def leave(self, reader: Reader) -> None:
        """A reader was stopped; what nobody waits for any more ends."""
        number = self.readers.pop(reader)
        transfer = self.transfers[number]
        transfer.readers = tuple(r for r in transfer.readers if r != reader)
        if not transfer.readers:
            del self.transfers[number]
            self.coming.pop((transfer.node, transfer.model), None)

    def next_us(self) -> int:
        """When the next transfer is done; `NO_TIME`: none is under way."""
        while self.order and self.order[0][1] not in self.transfers:
            heappop(self.order)
        if not self.order:
            return NO_TIME
        left = max(self.order[0][0] - self.given, 0)
        share = self.share()
        return self.at_us + (left + share - 1) // share

    def done(self) -> list[Transfer]:
        """Take out what is done by now, in the order of its ending."""
        found: list[Transfer] = []
        while self.order and self.order[0][0] <= self.given:
            number = heappop(self.order)[1]
            transfer = self.transfers.pop(number, None)
            if transfer is not None:
                self.coming.pop((transfer.node, transfer.model), None)
                for reader in transfer.readers:
                    del self.readers[reader]
                found.append(transfer)
        return found

    def finds(self, node: str, model: str) -> bool:
        """Whether a node has it; then it was used just now."""
        kept = self.caches.get(node)
        if kept is None or model not in kept:
            return False
        kept[model] = kept.pop(model)
        return True

    def keep(self, node: str, model: str, size: int) -> None:
        """Make room for it: what was not used for the longest time goes."""
        if size > self.store.cache_bytes:
            return
        kept = self.caches.setdefault(node, {})
        room = self.store.cache_bytes - size - sum(kept.values())
        while room < 0:
            room += kept.pop(next(iter(kept)))
        kept[model] = size


class Stores:
    """All stores of a scenario, as the kubelet has them."""

    def __init__(self, stores: tuple[Store, ...]) -> None:
        self.lines = [Line(store) for store in stores]
        self.homes = {model: (at, size) for at, store in enumerate(stores) for model, size in store.models}

    def copy(self) -> Stores:
        twin = Stores(())
        twin.lines = [line.copy() for line in self.lines]
        twin.homes = self.homes
        return twin

    def fetches(self, k: Kubelet, pod: PodState, i: int) -> bool:
        """Whether this container, which starts now, fetches a model: it ends when it has it."""
        container = pod.plan.containers[i]
        obj = k.store.get(pod.key) if container.is_init and not container.is_sidecar else None
        model = "" if obj is None else model_of(obj, container.name)
        home = self.homes.get(model)
        if home is None:
            return False
        at, size = home
        line = self.lines[at]
        node = k.nodes[pod.node].uid
        reader = (pod.uid, i)
        if line.finds(node, model):
            _end(k, reader)
            k.record(pod.key, "WeightsThere", f"{model} in the node's cache")
            return True
        line.advance(k.loop.now_us)
        line.begin(node, model, size, reader)
        self._plan(k, at)
        k.record(pod.key, "FetchesWeights", f"{model} from {line.store.name}, {len(line.transfers)} at once")
        return True

    def leave(self, k: Kubelet, reader: Reader) -> None:
        """This container has ended, whatever it did."""
        for at, line in enumerate(self.lines):
            if reader in line.readers:
                line.advance(k.loop.now_us)
                line.leave(reader)
                self._plan(k, at)

    def on_fetched(self, k: Kubelet, at: int) -> None:
        """A transfer of this store is done."""
        line = self.lines[at]
        line.ticket = NO_TICKET
        line.advance(k.loop.now_us)
        for transfer in line.done():
            if line.store.cache_bytes:
                line.keep(transfer.node, transfer.model, transfer.size)
            for reader in transfer.readers:
                _end(k, reader)
        self._plan(k, at)

    def _plan(self, k: Kubelet, at: int) -> None:
        line = self.lines[at]
        if line.ticket:
            k.loop.cancel(line.ticket)
        next_us = line.next_us()
        line.ticket = k.loop.at(next_us, k.h_fetched, at) if next_us != NO_TIME else NO_TICKET


def model_of(pod: Obj, container: str) -> str:
    """What an init container fetches; empty: nothing that is known."""
    said = annotations_of(pod).get(WEIGHTS + container)
    if said is not None or container != STORAGE_INITIALIZER:
        return str(said or "")
    for one in spec_of(pod).get("initContainers") or ():
        if one.get("name") == container:
            return str((one.get("args") or ("",))[0])
    return ""


def _end(k: Kubelet, reader: Reader) -> None:
    """It has what it came for, unless it is being stopped and ends before that is noticed."""
    uid, i = reader
    pod = k.pods.get(uid)
    if pod is None or pod.containers[i].state != RUNNING:
        return
    state = pod.containers[i]
    now_us = k.loop.now_us
    if state.exit_at is not None and state.exit_at.finished_us <= now_us:
        return
    if state.exit_ticket:
        k.loop.cancel(state.exit_ticket)
    state.exit_at = Ended(0, "Completed", "", state.started_us, now_us)
    state.exit_ticket = k.loop.at(now_us + k.relist_delay(pod), k.h_exit, reader)
