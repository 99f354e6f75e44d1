"""The choice of devices on one node: depth first, first fit, with backtracking.

Claims in the pod's order, requests in the claim's, alternatives in theirs; pools by driver and name, slices by name,
devices as they stand in a slice. Within one request the next device comes after the last one; each request starts again
at the first. The first solution is taken.

The search is kept as upstream has it, with what it forgets: counters that a device took stay taken where a taint or a
constraint then refuses the device, until the end of the search.

Unlike kube: the search ends after `MAX_STEPS` steps instead of ten seconds; as there, other nodes are still looked at.

Source: structured/internal/incubating/allocator_incubating.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Final, NamedTuple, final

from fairway.scheduling.devices import capacity
from fairway.scheduling.devices.constraints import Distinct, Matching
from fairway.scheduling.devices.facts import (
    ALL,
    EXACT,
    Amount,
    Claim,
    Class,
    Device,
    DeviceId,
    Request,
    Slice,
)
from fairway.scheduling.devices.pools import Pool
from fairway.scheduling.devices.selecting import AllocationError, holds
from fairway.scheduling.devices.usage import Usage

MAX_DEVICES: Final = 32
"""Devices of one claim. Source: api/resource/v1 AllocationResultsMaxSize."""
MAX_STEPS: Final = 200_000
"""Devices tried for one pod on one node, before it is given up."""
_PREVENTING: Final = ("NoExecute", "NoSchedule")


class Node(NamedTuple):
    name: str
    labels: Mapping[str, str]


@final
class Chosen:
    """One device for one request. `consumed`: of a shared one, what is taken of each capacity."""

    # Plain, as all that is made for every device tried: compiled code makes dataclasses at Python's pace.
    def __init__(
        self, request: Request, device: Device, of: Slice, consumed: Mapping[str, Amount] | None
    ) -> None:
        self.request: Final = request
        self.device: Final = device
        self.slice: Final = of
        self.consumed: Final = consumed


@final
class Solution:
    """By claim: the devices in the order of their choice, which alternative each request took, and whether it had
    any."""

    def __init__(
        self,
        devices: tuple[tuple[Chosen, ...], ...],
        alternatives: tuple[tuple[int, ...], ...],
        has_alternatives: tuple[tuple[bool, ...], ...],
    ) -> None:
        self.devices: Final = devices
        self.alternatives: Final = alternatives
        self.has_alternatives: Final = has_alternatives


class NoSolution(NamedTuple):
    """The node cannot have the claims. `invalid`: because of an invalid pool, perhaps; `is_late`: nobody looked at
    everything."""

    invalid: bool = False
    is_late: bool = False


class _TimedOut(Exception):
    """`MAX_STEPS` are over."""


class _TooMany(Exception):
    """More devices than a claim may have: what was chosen before is not to blame."""


def solve(
    node: Node,
    pools: Sequence[Pool],
    usage: Usage,
    claims: Sequence[Claim],
    class_of: Callable[[str], Class | None],
) -> Solution | NoSolution:
    """The devices of all claims on this node, or none of them.

    Raises: AllocationError.
    """
    if len(claims) == 1 and is_plain(claims[0]):
        found = _straight(node, pools, usage, claims[0], class_of)
        if found is not None:
            return found
    return by_trial(node, pools, usage, claims, class_of)


def by_trial(
    node: Node,
    pools: Sequence[Pool],
    usage: Usage,
    claims: Sequence[Claim],
    class_of: Callable[[str], Class | None],
) -> Solution | NoSolution:
    """As `solve`, by trying what there is. Raises: AllocationError."""
    search = _Search(node, pools, usage, claims, class_of)
    search.prepare()
    try:
        if search.allocate_claims(0):
            return search.solution()
    except _TooMany:
        raise AllocationError("allocation max size exceeded") from None
    except _TimedOut:
        return NoSolution(is_late=True)
    return NoSolution(any(p.invalid for p in pools))


# Nothing to go back for


def is_plain(claim: Claim) -> bool:
    """Whether it asks for so many devices of one kind, and for nothing that one device would say of another."""
    if len(claim.requests) != 1 or claim.constraints:
        return False
    entries = claim.requests[0][1]
    if len(entries) != 1:
        return False
    request = entries[0]
    return (
        not request.parent
        and request.mode == EXACT
        and bool(request.class_name)
        and 0 < request.count <= MAX_DEVICES
        and not request.capacity
    )


def _straight(
    node: Node,
    pools: Sequence[Pool],
    usage: Usage,
    claim: Claim,
    class_of: Callable[[str], Class | None],
) -> Solution | NoSolution | None:
    """What the search would find for a plain claim where devices take nothing from each other: the first of those
    that will do. None: it has to be searched.

    Raises: AllocationError.
    """
    request = claim.requests[0][1][0]
    of_class = class_of(request.class_name)
    if of_class is None:
        return None
    chosen: list[Chosen] = []
    for pool in pools:
        if pool.gives_nothing:
            continue
        for one in pool.slices:
            for device in one.devices:
                if not request.admin and device.id in usage.whole:
                    continue
                if device.consumes or device.is_shared:
                    return None
                if (
                    _is_chosen(request, of_class, claim, device, one, node)
                    and not _is_kept_off(request, device)
                    and _has_all(device, usage)
                ):
                    chosen.append(Chosen(request, device, one, None))
                    if len(chosen) == request.count:
                        return Solution((tuple(chosen),), ((0,),), ((False,),))
    return NoSolution(any(p.invalid for p in pools))


def _has_all(device: Device, usage: Usage) -> bool:
    return not device.capacity or capacity.is_enough({}, device.capacity, usage.parts.get(device.id, {}), {})


def _is_chosen(
    request: Request, of_class: Class, claim: Claim, device: Device, one: Slice, node: Node
) -> bool:
    """By the selectors of the class, then of the request, then by where the device is. Raises: AllocationError."""
    return (
        holds(of_class.selectors, device, "class", of_class.name)
        and holds(request.selectors, device, "claim", claim.title)
        and (one.where is not None or device.where.reaches(node.name, node.labels))
    )


def _is_kept_off(request: Request, device: Device) -> bool:
    """Whether it has a taint that the request does not tolerate."""
    if not device.taints:
        return False
    return any(
        t.effect in _PREVENTING and not any(o.tolerates(t) for o in request.tolerations)
        for t in device.taints
    )


@final
class _Wanted:
    """One entry of a request: its class, how many devices, and which for `All`."""

    def __init__(self, request: Request, of_class: Class, count: int) -> None:
        self.request, self.of_class, self.count = request, of_class, count
        self.every: list[tuple[Device, Slice, Pool]] = []


class _Search:
    """One attempt. Its state is what would be taken if the search ended here."""

    def __init__(
        self,
        node: Node,
        pools: Sequence[Pool],
        usage: Usage,
        claims: Sequence[Claim],
        class_of: Callable[[str], Class | None],
    ) -> None:
        self._node, self._pools, self._usage, self._claims = node, pools, usage, claims
        self._class_of = class_of
        self._wanted: list[list[list[_Wanted]]] = []
        self._constraints: list[list[Matching | Distinct]] = []
        self._taking: dict[DeviceId, set[int]] = {}
        self._taking_parts: dict[DeviceId, dict[str, Fraction]] = {}
        self._available: dict[str, dict[str, dict[str, Fraction]]] = {}
        self._consumed: dict[str, dict[str, dict[str, Fraction]]] = {}
        self._result: list[list[Chosen]] = [[] for _ in claims]
        self._alternatives: list[list[int]] = [[0] * len(c.requests) for c in claims]
        self._matches: dict[tuple[DeviceId, int, int, int], bool] = {}
        self._steps = 0

    # What is asked for

    def prepare(self) -> None:
        """Raises: AllocationError, for claims that nobody could satisfy."""
        for index, claim in enumerate(self._claims):
            wanted: list[list[_Wanted]] = []
            self._wanted.append(wanted)
            least = 0
            for number, (_, entries) in enumerate(claim.requests):
                wanted.append([])
                for at, request in enumerate(entries):
                    wanted[-1].append(self._want(claim, request, (index, number, at)))
                least += min((w.count for w in wanted[-1]), default=0)
            if least > MAX_DEVICES:
                raise AllocationError(
                    f"claim {claim.title}: number of requested devices {least} exceeds the claim limit of {MAX_DEVICES}"
                )
            self._constraints.append([Matching(c) if c.match else Distinct(c) for c in claim.constraints])

    def _want(self, claim: Claim, request: Request, key: tuple[int, int, int]) -> _Wanted:
        subject = f"claim {claim.title}, request {request.name}"
        if not request.class_name:
            raise AllocationError(f"{subject}: missing device class name (unsupported request type?)")
        of_class = self._class_of(request.class_name)
        if of_class is None:
            name = request.class_name
            why = f'deviceclass.resource.k8s.io "{name}" not found'
            raise AllocationError(f"{subject}: could not retrieve device class {name}: {why}")
        wanted = _Wanted(request, of_class, request.count)
        if request.mode == EXACT:
            return wanted
        if request.mode != ALL:
            raise AllocationError(f"{subject}: unsupported count mode {request.mode}")
        for pool in self._pools:
            if pool.gives_nothing:
                state = "being updated" if pool.is_incomplete else "invalid"
                raise AllocationError(
                    f"{subject}: asks for all devices, but resource pool {pool.id} is currently {state}"
                )
            for one in pool.slices:
                for device in one.devices:
                    if self._is_selectable(key, wanted, claim, device, one) and self._has_room(
                        request, device
                    ):
                        wanted.every.append((device, one, pool))
        wanted.count = len(wanted.every)
        return wanted

    # The search

    def allocate_claims(self, claim: int) -> bool:
        return claim >= len(self._claims) or self._allocate_request(claim, 0)

    def _allocate_request(self, claim: int, number: int) -> bool:
        """This request and all that come after it."""
        wanted = self._wanted[claim]
        if number >= len(wanted):
            try:
                return self.allocate_claims(claim + 1)
            except _TooMany:
                # Another choice for this claim may leave the next one with fewer.
                return False
        if not wanted[number] or not wanted[number][0].request.parent:
            return bool(wanted[number]) and self._allocate_device(claim, number, 0, 0, (0, 0, 0))
        exceeded = 0
        for at in range(len(wanted[number])):
            try:
                if self._allocate_device(claim, number, at, 0, (0, 0, 0)):
                    self._alternatives[claim][number] = at
                    return True
            except _TooMany:
                exceeded += 1
        if exceeded == len(wanted[number]):
            raise _TooMany
        return False

    def _allocate_device(
        self, claim: int, number: int, at: int, index: int, start: tuple[int, int, int]
    ) -> bool:
        """The `index`-th device of an entry, looked for from `start` (pool, slice, device) on, and all that follows."""
        self._step()
        wanted = self._wanted[claim][number][at]
        is_all = wanted.request.mode == ALL
        if is_all and not wanted.every:
            return False
        if index >= wanted.count:
            return self._allocate_request(claim, number + 1)
        if len(self._result[claim]) + wanted.count - index > MAX_DEVICES:
            raise _TooMany
        if is_all:
            device, one, pool = wanted.every[index]
            return self._try(claim, number, at, index, device, one, pool, (0, 0, 0), must=True) is True
        return self._first_fit(claim, number, at, index, start)

    def _first_fit(self, claim: int, number: int, at: int, index: int, start: tuple[int, int, int]) -> bool:
        wanted = self._wanted[claim][number][at]
        request, of_claim = wanted.request, self._claims[claim]
        key = (claim, number, at)
        for p in range(start[0], len(self._pools)):
            pool = self._pools[p]
            if pool.gives_nothing:
                continue
            for s in range(start[1] if p == start[0] else 0, len(pool.slices)):
                one = pool.slices[s]
                first = start[2] if (p, s) == start[:2] else 0
                for d in range(first, len(one.devices)):
                    device = one.devices[d]
                    if self._is_busy(request, device.id, claim):
                        continue
                    if not self._is_selectable(key, wanted, of_claim, device, one):
                        continue
                    if not self._has_room(request, device):
                        continue
                    if self._try(claim, number, at, index, device, one, pool, (p, s, d + 1), must=False):
                        return True
        return False

    def _try(
        self,
        claim: int,
        number: int,
        at: int,
        index: int,
        device: Device,
        one: Slice,
        pool: Pool,
        following: tuple[int, int, int],
        *,
        must: bool,
    ) -> bool:
        """Take the device and go on; give it back where that leads nowhere."""
        request = self._wanted[claim][number][at].request
        if not self._take(claim, request, device, one, pool, must=must):
            return False
        done = False
        try:
            done = self._allocate_device(claim, number, at, index + 1, following)
        finally:
            if not done:
                self._give_back(claim, request, device, pool)
        return done

    def _step(self) -> None:
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise _TimedOut

    # Whether a device will do

    def _is_busy(self, request: Request, device: DeviceId, claim: int) -> bool:
        taking = self._taking.get(device)
        if request.admin:
            return taking is not None and claim in taking
        return device in self._usage.whole or bool(taking)

    def _is_selectable(
        self, key: tuple[int, int, int], wanted: _Wanted, claim: Claim, device: Device, one: Slice
    ) -> bool:
        """Raises: AllocationError."""
        known = self._matches.get((device.id, *key))
        if known is None:
            known = _is_chosen(wanted.request, wanted.of_class, claim, device, one, self._node)
            self._matches[(device.id, *key)] = known
        return known

    def _has_room(self, request: Request, device: Device) -> bool:
        if not device.capacity and not request.capacity:
            return True
        taken, taking = self._usage.parts.get(device.id, {}), self._taking_parts.get(device.id, {})
        return capacity.is_enough(request.capacity, device.capacity, taken, taking)

    # Taking and giving back

    def _take(
        self, claim: int, request: Request, device: Device, one: Slice, pool: Pool, *, must: bool
    ) -> bool:
        """Raises: AllocationError, where `must` and a constraint says no."""
        own = device.id
        taking = self._taking.get(own)
        if not device.is_shared and request.admin and taking is not None and claim in taking:
            return False
        if not request.admin and (own in self._usage.whole or taking):
            return False
        counts = device.consumes and not (device.is_shared and self._is_shared_now(own))
        if counts and not self._take_counters(device, pool):
            return False
        if _is_kept_off(request, device):
            return False
        if not self._constrained(claim, request, device, must=must):
            return False
        if not device.is_shared:
            self._taking.setdefault(own, set()).add(claim)
        if not self._has_room(request, device):
            return False
        consumed = None
        if device.is_shared:
            consumed = capacity.consumptions(request.capacity, device.capacity)
            parts = self._taking_parts.setdefault(own, {})
            for name, taken in consumed.items():
                parts[name] = parts.get(name, Fraction(0)) + taken.value
        self._result[claim].append(Chosen(request, device, one, consumed))
        return True

    def _constrained(self, claim: int, request: Request, device: Device, *, must: bool) -> bool:
        constraints = self._constraints[claim]
        for index, constraint in enumerate(constraints):
            if constraint.add(request, device):
                continue
            if must:
                subject = f"claim {self._claims[claim].title}, request {request.name}"
                why = "because a claim constraint would not be satisfied"
                raise AllocationError(f"{subject}: cannot add device {device.id} {why}")
            for earlier in constraints[:index]:
                earlier.remove(request)
            return False
        return True

    def _give_back(self, claim: int, request: Request, device: Device, pool: Pool) -> None:
        for constraint in self._constraints[claim]:
            constraint.remove(request)
        own = device.id
        if own in self._taking:
            self._taking[own].discard(claim)
        chosen = self._result[claim].pop()
        if not device.is_shared:
            if device.consumes:
                self._give_back_counters(device, pool)
            return
        parts = self._taking_parts.get(own)
        if parts is None or not chosen.consumed:
            return
        for name, taken in chosen.consumed.items():
            parts[name] -= taken.value
        if not any(parts.values()):
            del self._taking_parts[own]

    def _is_shared_now(self, device: DeviceId) -> bool:
        return device in self._usage.parts or device in self._taking_parts

    # Counters. As upstream: by the name of the pool alone, whichever driver's it is

    def _take_counters(self, device: Device, pool: Pool) -> bool:
        name = pool.id.pool
        available = self._available.get(name)
        if available is None:
            available = self._available[name] = self._left(pool)
        consumed = self._consumed.setdefault(name, {})
        for consumption in device.consumes:
            of_set = consumed.setdefault(consumption.counter_set, {})
            for counter, value in consumption.counters:
                of_set[counter] = of_set.get(counter, Fraction(0)) + value
        for set_name, counters in available.items():
            of_set = consumed.get(set_name, {})
            if any(left < of_set.get(counter, 0) for counter, left in counters.items()):
                self._give_back_counters(device, pool)
                return False
        return True

    def _left(self, pool: Pool) -> dict[str, dict[str, Fraction]]:
        """What devices that somebody has leave of the pool's counters."""
        left = {name: dict(counters) for name, counters in (pool.counters or {}).items()}
        for one in (*pool.slices, *pool.elsewhere):
            for device in one.devices:
                if not device.consumes or not self._usage.is_taken(device.id):
                    continue
                for consumption in device.consumes:
                    of_set = left.get(consumption.counter_set, {})
                    for counter, value in consumption.counters:
                        if counter in of_set:
                            of_set[counter] -= value
        return left

    def _give_back_counters(self, device: Device, pool: Pool) -> None:
        consumed = self._consumed[pool.id.pool]
        for consumption in device.consumes:
            of_set = consumed[consumption.counter_set]
            for counter, value in consumption.counters:
                of_set[counter] -= value

    def solution(self) -> Solution:
        choices = tuple(tuple(bool(e and e[0].parent) for _, e in c.requests) for c in self._claims)
        return Solution(tuple(map(tuple, self._result)), tuple(map(tuple, self._alternatives)), choices)
