"""The nodes of a world, and what is asked of all of them at once, kept as they come, change and go.

Every batch of pods asks what is left of a NodePool's limits and which nodes have room; every look at what could go
asks how many nodes a budget counts, which are empty, and which must be left alone. None of that walks over all
nodes: a node that changes takes its old part out and puts its new one in. O(what a node has) per change.

Source: pkg/controllers/state/cluster.go (nodePoolResources), disruption/helpers.go (BuildDisruptionBudgetMapping).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from fairway.kube.resources import PODS, Resources
from fairway.provisioning.karpenter.nodeclaims import DRIFTED, INSTANCE_TERMINATING
from fairway.provisioning.karpenter.statenode import StateNode

NODES: Final = "nodes"
Usage = dict[str, dict[str, int]]
"""What the nodes of each NodePool come to; `nodes` counts them."""
_Place = tuple[bool, str]
_Amounts = tuple[tuple[str, int], ...]
# What a budget sees of a node.
_UNCOUNTED: Final = 0
_STAYING: Final = 1
_GOING: Final = 2


class Standing:
    """What a budget of one NodePool sees: `nodes` it counts, and those of them that are `going` or not ready."""

    __slots__ = ("going", "nodes")

    def __init__(self) -> None:
        self.nodes = 0
        self.going = 0


class _Room:
    """Nodes that have the same left. `too_small_for`: the sizes that were asked last, where it holds none of them."""

    __slots__ = ("available", "key", "names", "too_small_for")

    def __init__(self, key: _Amounts, available: Mapping[str, int]) -> None:
        self.key = key
        self.available = available
        self.names: dict[str, None] = {}
        self.too_small_for: Sequence[Resources] | None = None


class Nodes:
    """State nodes by name; iterated in order: those that are there by name, then those that are on their way.

    Names by what holds of them: `barred` (must not be disrupted, with why), `held` (a pod of theirs asks not to be),
    `apart` (a pod of theirs keeps others off), `empty`, `drifted`, `marked` (for deletion). `supply` is another number
    whenever a node comes, goes, or is another in what it offers to pods, but for the room that its own leave.
    """

    __slots__ = (
        "_by_name",
        "_by_room",
        "_order",
        "_room_of",
        "apart",
        "barred",
        "drifted",
        "empty",
        "held",
        "marked",
        "standing",
        "supply",
        "used",
    )

    def __init__(self, nodes: Iterable[StateNode] = ()) -> None:
        self._by_name: dict[str, StateNode] = {}
        self._order: list[_Place] = []
        self._by_room: dict[_Amounts, _Room] = {}
        self._room_of: dict[str, _Room] = {}
        self.barred: dict[str, str] = {}
        self.held: dict[str, None] = {}
        self.apart: dict[str, None] = {}
        self.empty: dict[str, None] = {}
        self.drifted: dict[str, None] = {}
        self.marked: dict[str, None] = {}
        self.used: Usage = {}
        self.standing: dict[str, Standing] = {}
        self.supply = 0
        for node in nodes:
            self.put(node)

    def __iter__(self) -> Iterator[StateNode]:
        by_name = self._by_name
        return iter([by_name[name] for _, name in self._order])

    def __len__(self) -> int:
        return len(self._order)

    def get(self, name: str) -> StateNode | None:
        return self._by_name.get(name)

    def named(self, names: Iterable[str]) -> list[StateNode]:
        """Those of these names that are there, in order."""
        found = [node for name in names if (node := self._by_name.get(name)) is not None]
        found.sort(key=_place)
        return found

    # Changes

    def put(self, node: StateNode) -> None:
        """A node that came, or what has become of one."""
        name = node.name
        before = self._by_name.get(name)
        if before is None or before.has_node != node.has_node:
            if before is not None:
                self._take_place(before)
            insort(self._order, _place(node))
        self._by_name[name] = node
        # Of most nodes that are another only the pods are, and of their claims when the last one came or went.
        if before is None or not _is_itself(before, node):
            if before is None or _offers_other(before, node):
                self.supply += 1
            if before is None or before.capacity is not node.capacity or before.pool != node.pool:
                self._use(before, -1)
                self._use(node, 1)
            self._stand(before, node)
            self._sort(name, node)
        if before is None or before.pod_facts is not node.pod_facts:
            self._sort_by_pods(name, node)
        self._make_room(name, node)

    def drop(self, name: str) -> None:
        node = self._by_name.pop(name, None)
        if node is not None:
            self.supply += 1
            self._take_place(node)
            self._use(node, -1)
            self._stand(node, None)
            self._sort(name, None)
            self._sort_by_pods(name, None)
            self._make_room(name, None)

    def _take_place(self, node: StateNode) -> None:
        del self._order[bisect_left(self._order, _place(node))]

    def _use(self, node: StateNode | None, sign: int) -> None:
        if node is not None and node.pool:
            add_usage(self.used, node.pool, node.capacity, sign)
            if not self.used[node.pool]:
                del self.used[node.pool]

    def _stand(self, before: StateNode | None, node: StateNode | None) -> None:
        was, now = _standing_of(before), _standing_of(node)
        if was == now and (before is None or node is None or before.pool == node.pool):
            return
        for one, counted, sign in ((before, was, -1), (node, now, 1)):
            if one is not None and counted != _UNCOUNTED:
                standing = self.standing.get(one.pool)
                if standing is None:
                    standing = self.standing[one.pool] = Standing()
                standing.nodes += sign
                standing.going += sign if counted == _GOING else 0

    def _sort(self, name: str, node: StateNode | None) -> None:
        """By what holds of it, its pods aside; None: it is gone."""
        why = None if node is None else node.why_not_disruptable
        if why is not None:
            self.barred[name] = why
        else:
            self.barred.pop(name, None)
        _mark(self.marked, name, node is not None and node.is_marked_for_deletion)
        is_drifted = node is not None and node.is_managed and node.claim_facts.is_true(DRIFTED)
        _mark(self.drifted, name, is_drifted)

    def _sort_by_pods(self, name: str, node: StateNode | None) -> None:
        _mark(self.held, name, node is not None and bool(node.pod_facts.held))
        _mark(self.apart, name, node is not None and bool(node.pod_facts.apart))
        _mark(self.empty, name, node is not None and node.is_empty)

    def _make_room(self, name: str, node: StateNode | None) -> None:
        before = self._room_of.get(name)
        if (
            node is not None
            and before is not None
            and (before.available is node.available or before.available == node.available)
        ):
            return
        if before is not None:
            del before.names[name], self._room_of[name]
            if not before.names:
                del self._by_room[before.key]
        if node is not None:
            # In the order they come: nodes of one type name their resources alike.
            key = tuple(node.available.items())
            room = self._by_room.get(key)
            if room is None:
                room = self._by_room[key] = _Room(key, node.available)
            room.names[name] = None
            self._room_of[name] = room

    # Questions

    def usage(self) -> Usage:
        """A copy to count on with."""
        return {pool: dict(amounts) for pool, amounts in self.used.items()}

    def with_room(self, sizes: Sequence[Resources]) -> list[StateNode]:
        """Those that could hold one pod of any of these sizes, for size alone. O(different rooms), not nodes.

        Who asks again and again should ask with the same object, which must not change.
        """
        found: list[StateNode] = []
        for room in self._by_room.values():
            if room.too_small_for is sizes:
                continue
            if _fits_any(room.available, sizes):
                found += [self._by_name[name] for name in room.names]
            else:
                room.too_small_for = sizes
        return found


def _is_itself(before: StateNode, node: StateNode) -> bool:
    """Whether it is what it was, its pods aside."""
    was, now = before.claim_facts, node.claim_facts
    return (
        before.node_object is node.node_object
        and before.labels is node.labels
        and before.capacity is node.capacity
        and before.is_initialized == node.is_initialized
        and before.is_nominated == node.is_nominated
        and before.is_marked_for_deletion == node.is_marked_for_deletion
        and before.is_ready == node.is_ready
        and before.has_node == node.has_node
        and before.taints == node.taints
        and before.claim == node.claim
        and was.is_true(DRIFTED) == now.is_true(DRIFTED)
        and was.is_true(INSTANCE_TERMINATING) == now.is_true(INSTANCE_TERMINATING)
    )


def _offers_other(before: StateNode, node: StateNode) -> bool:
    """Whether pods may fare differently on it, its room aside."""
    return (
        (before.labels is not node.labels and before.labels != node.labels)
        or (before.capacity is not node.capacity and before.capacity != node.capacity)
        or before.taints != node.taints
        or before.has_node != node.has_node
        or before.is_initialized != node.is_initialized
        or before.is_marked_for_deletion != node.is_marked_for_deletion
    )


def add_usage(used: Usage, pool: str, capacity: Mapping[str, int], nodes: int = 1) -> None:
    """So many more nodes of the pool; below 0: fewer."""
    of_pool = used.setdefault(pool, {})
    _add(of_pool, NODES, nodes)
    # Compiled, a product of large integers costs ten times what a sum of them does; mostly it is one node.
    for resource, amount in capacity.items():
        _add(of_pool, resource, amount if nodes == 1 else -amount if nodes == -1 else nodes * amount)


def _add(total: dict[str, int], name: str, amount: int) -> None:
    """What comes to nothing is not mentioned."""
    total[name] = total.get(name, 0) + amount
    if not total[name]:
        del total[name]


def _mark(names: dict[str, None], name: str, is_one: bool) -> None:
    if is_one:
        names[name] = None
    else:
        names.pop(name, None)


def _place(node: StateNode) -> _Place:
    return (not node.has_node, node.name)


def _standing_of(node: StateNode | None) -> int:
    if node is None or not node.is_managed or not node.is_initialized:
        return _UNCOUNTED
    if node.claim_facts.is_true(INSTANCE_TERMINATING):
        return _UNCOUNTED
    return _STAYING if node.is_ready and not node.is_marked_for_deletion else _GOING


def _fits_any(available: Mapping[str, int], sizes: Sequence[Resources]) -> bool:
    """Plain loops: it is asked of every room there is, for every batch."""
    for size in sizes:
        for name, amount in size.items():
            if name != PODS and amount > available.get(name, 0):
                break
        else:
            return True
    return False
