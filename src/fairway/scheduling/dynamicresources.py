"""Pods that use devices: which nodes can give them what their claims ask for, how well, and what then is to be written.

The plugin DynamicResources of kube-scheduler, as questions: `waits_for` (PreEnqueue), `look` (PreFilter), `code_at`
(Filter), `raw_scores` (Score), `plan` (Reserve and PreBind), `after_refusal` (PostFilter). What a node says of a claim
that is still to be allocated depends on its content, the node and what is taken there: it is remembered until one of
them changes, so that many pods of one template ask each node once.

Source: pkg/scheduler/framework/plugins/dynamicresources (v1.36, features at their defaults).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, final

import numpy as np
import numpy.typing as npt

from fairway.cluster.accounts import NodeAccounts
from fairway.cluster.actions import View
from fairway.cluster.records import PodRecord
from fairway.kube.nodeselection import Term, node_selector_terms
from fairway.kube.objects import Key, Obj, meta_of, quick_key, spec_of, status_of
from fairway.kube.resourceclaims import (
    CLAIM,
    allocation_of,
    can_be_reserved,
    is_for_pod,
    is_reserved_for,
    not_owned,
    pod_claims,
)
from fairway.kube.resources import is_extended
from fairway.kube.timestamps import SECOND_US, parse_rfc3339
from fairway.scheduling.devices.alike import Choice, State, kind_of, taken_of
from fairway.scheduling.devices.allocations import allocation_of as made_allocation
from fairway.scheduling.devices.book import DeviceBook
from fairway.scheduling.devices.extended import IMPLICIT, Asked, asked
from fairway.scheduling.devices.facts import Claim, claim_of
from fairway.scheduling.devices.pools import Pool, PoolId
from fairway.scheduling.devices.search import Node, NoSolution, Solution, solve
from fairway.scheduling.verdict import Refusal, Release

Ints = npt.NDArray[np.int64]

PLUGIN: Final = "DynamicResources"
BINDING_TIMEOUT_S: Final = 600
"""DynamicResourcesArgs.bindingTimeout."""
_MOST_ALTERNATIVES: Final = 8
NOT_ASKED: Final = -1
_ANSWERS_KEPT: Final = 256
_SOLUTIONS_KEPT: Final = 65536
_SPECIAL: Final = "<extended-resources>"


class Said(NamedTuple):
    """What one node said: its code, its raw score, and what was found where the code is 0."""

    code: int
    score: int
    choice: Choice | None


@dataclass(slots=True)
class Answers:
    """What each row said of one set of claims: `codes` (-1: not asked yet) and raw `scores`. `held`: of a pod that
    stands for itself, whose identity must stay taken."""

    held: Obj | None
    codes: Ints
    scores: Ints
    published: int
    moved: int
    respecced: int
    solutions: dict[int, Solution] = field(default_factory=dict)
    """By row, what was found where the code is 0: good as long as the code is. Of nodes that are like no others."""
    said: dict[State, Said] = field(default_factory=dict)
    """What nodes said that others are like."""


class Binding(NamedTuple):
    """A claim of a pod that is to be bound. `allocation` None: it has one already. `key` None: to be made of `obj`."""

    key: Key | None
    obj: Obj
    allocation: Obj | None


class Plan(NamedTuple):
    """What is to be written when the pod goes to a node. `mappings`: which container uses which request."""

    bindings: tuple[Binding, ...] = ()
    mappings: tuple[Obj, ...] = ()


@final
class PodLook:
    """PreFilter's findings about one pod. `why`: what keeps it from every node; `resources`: extended ones that some
    class backs; `stale`: the claim of an earlier attempt for them; `base`: the score of alternatives chosen before."""

    # Plain, as all that is made for every pod tried: compiled code makes dataclasses at Python's pace.
    def __init__(self, pod: Obj) -> None:
        self.pod: Final = pod
        self.why = ""
        self.claims: list[Obj] = []
        self.reachable: list[tuple[Term, ...] | None] = []
        self.unready: list[bool] = []
        self.to_allocate: list[Claim] = []
        self.resources: tuple[str, ...] = ()
        self.stale: Obj | None = None
        self.unavailable: set[int] = set()
        self.base = 0

    @property
    def is_empty(self) -> bool:
        return not self.claims and not self.resources and self.stale is None

    @property
    def is_alike(self) -> bool:
        """Whether nodes say to it what they say to every pod with such claims: none is allocated yet."""
        return len(self.to_allocate) == len(self.claims) and not self.resources and self.stale is None

    @property
    def has_scores(self) -> bool:
        """Whether nodes may differ in which alternatives they have."""
        if self.base:
            return True
        return any(claim.has_alternatives for claim in self.to_allocate)


def waits_for(view: View, pod: Obj) -> str:
    """Why the pod is not worth a try: a claim that is not there, is going, or is somebody else's."""
    found = claims_of(view, pod)
    return found if isinstance(found, str) else ""


def claims_of(view: View, pod: Obj) -> list[Obj] | str:
    """The claims of a pod, or what is wrong with them."""
    namespace, found = meta_of(pod).get("namespace") or "", []
    for entry in pod_claims(pod):
        if entry.claim is None:
            continue
        if not entry.claim:
            return f'pod "{namespace}/{meta_of(pod)["name"]}": claim {entry.name} not created yet'
        claim = view.get(quick_key(CLAIM, namespace, entry.claim))
        if claim is None:
            return f'resourceclaim "{entry.claim}" not found'
        if "deletionTimestamp" in meta_of(claim):
            return f'resourceclaim "{entry.claim}" is being deleted'
        if entry.is_made and not is_for_pod(pod, claim):
            return not_owned(pod, entry.claim)
        found.append(claim)
    return found


class DynamicResources:
    """The plugin over one cluster."""

    def __init__(self, view: View, accounts: NodeAccounts, book: DeviceBook) -> None:
        self._view, self._accounts, self._book = view, accounts, book
        self._answers: dict[tuple[str, ...], Answers] = {}
        self._rows_of: tuple[int, dict[PoolId, list[int]]] | None = None
        self._pools: dict[str, tuple[int, Mapping[str, str], tuple[Pool, ...], int]] = {}
        """By node, as of a version of what is published and its labels."""
        self._last: PodLook | None = None
        """The latest look: who has found a node for a pod asks what is to be written next."""
        self._solutions_kept = 0

    def over(self, accounts: NodeAccounts) -> DynamicResources:
        """The same, over a copy of the nodes."""
        return DynamicResources(self._view, accounts, self._book)

    def concerns(self, pod: PodRecord) -> bool:
        return pod.shape.has_devices or bool(self._backed(pod.shape.requests))

    def delegated(self) -> frozenset[str]:
        """Resources that nodes without a device plugin give by claims."""
        return self._book.backed_names

    def _backed(self, requests: Mapping[str, int]) -> tuple[str, ...]:
        extended = self._book.extended
        if not extended:
            return ()
        return tuple(
            name
            for name, value in requests.items()
            if value and name in extended and (name.startswith(IMPLICIT) or is_extended(name))
        )

    # PreFilter

    def look(self, pod: PodRecord, now_us: int = 0) -> PodLook | None:
        """What is known of the pod's claims; None where it has none."""
        obj = self._view.get(pod.key)
        if obj is None or not self.concerns(pod):
            return None
        found = PodLook(obj)
        claims = claims_of(self._view, obj)
        if isinstance(claims, str):
            found.why = claims
            return found
        found.claims = claims
        found.resources = self._backed(pod.shape.requests)
        if found.resources:
            known = self._book.of_pod.get(pod.uid)
            found.stale = None if known is None else self._view.get(known)
        for claim in claims:
            found.why = found.why or self._look_at(found, claim, obj, now_us)
        self._last = found
        return found

    def _look_again(self, pod: PodRecord) -> PodLook | None:
        """As `look`, of what has not changed since the last time: no claim of the pod was written."""
        last = self._last
        if last is None or last.why or last.resources or last.stale is not None:
            return self.look(pod)
        if self._view.get(pod.key) is not last.pod:
            return self.look(pod)
        for claim in last.claims:
            if self._view.get(_key(claim)) is not claim:
                return self.look(pod)
        return last

    def _look_at(self, found: PodLook, claim: Obj, pod: Obj, now_us: int) -> str:
        allocation = allocation_of(claim)
        if allocation is None:
            if _key(claim) in self._book.pending:
                meta = meta_of(claim)
                return (
                    f"resource claim {meta['namespace']}/{meta['name']} is in the process of being allocated"
                )
            found.reachable.append(None)
            found.unready.append(False)
            facts = claim_of(claim)
            found.to_allocate.append(facts)
            return self._missing_class(facts)
        if not can_be_reserved(claim) and not is_reserved_for(pod, claim):
            return "resourceclaim in use"
        selector = allocation.get("nodeSelector")
        found.reachable.append(None if selector is None else node_selector_terms(selector))
        problem, is_ready = readiness(claim)
        found.unready.append(bool(problem) or (not is_ready and is_late(claim, now_us)))
        found.base += _chosen_before(claim)
        return ""

    def _missing_class(self, claim: Claim) -> str:
        for _, entries in claim.requests:
            for entry in entries:
                if entry.class_name not in self._book.classes:
                    return f"request {entry.full_name}: device class {entry.class_name} does not exist"
        return ""

    # Filter

    def codes(self, look: PodLook) -> Answers:
        """What is known of every row. Ask `code_at` where it is -1."""
        book, accounts = self._book, self._accounts
        key = tuple([claim.text for claim in look.to_allocate])
        # What it gets for extended resources depends on its containers: it stands for itself.
        own = spec_of(look.pod) if look.resources else None
        if own is not None:
            key = (*key, f"{id(own)}")
        found = self._answers.get(key)
        rows = accounts.alive.shape[0]
        if found is None or found.published != book.published_version or len(found.codes) != rows:
            if len(self._answers) >= _ANSWERS_KEPT:
                self._answers.clear()
            fresh = np.full(rows, NOT_ASKED, np.int64)
            found = self._answers[key] = Answers(
                own,
                fresh,
                np.zeros(rows, np.int64),
                book.published_version,
                len(book.moved),
                len(accounts.respecced),
            )
            return found
        self._forget(found)
        return found

    def _forget(self, answers: Answers) -> None:
        """Rows whose node, or whose devices, changed are to be asked again."""
        respecced, moved = self._accounts.respecced, self._book.moved
        if len(respecced) > answers.respecced:
            answers.codes[respecced[answers.respecced :]] = NOT_ASKED
            answers.respecced = len(respecced)
        if len(moved) == answers.moved:
            return
        of_pool = self._rows_by_pool()
        for pool in dict.fromkeys(moved[answers.moved :]):
            rows = of_pool.get(pool)
            if rows is None:
                # Who knows who uses a pool of many nodes: everybody is asked again.
                answers.codes[:] = NOT_ASKED
                break
            for row in rows:
                answers.codes[row] = NOT_ASKED
        answers.moved = len(moved)

    def _rows_by_pool(self) -> dict[PoolId, list[int]]:
        """Pools of one node each → its row."""
        stamp = self._book.published_version + len(self._accounts.respecced) + len(self._accounts.born)
        if self._rows_of is None or self._rows_of[0] != stamp:
            found: dict[PoolId, list[int]] = {}
            published = self._book.published
            for name, row in self._accounts.row_of.items():
                for pool in published.own_pools(name):
                    found.setdefault(pool, []).append(row)
            for pool in published.shared_pools():
                found.pop(pool, None)
            self._rows_of = (stamp, found)
        return self._rows_of[1]

    def code_at(self, look: PodLook, answers: Answers, row: int) -> int:
        """What this node says: a `Refusal`.

        Raises: AllocationError, which ends the attempt on all nodes.
        """
        if look.stale is not None:
            return int(Refusal.DEVICES_STALE)
        if look.resources and not look.claims and not self._needed(look, row):
            return 0
        code = int(answers.codes[row])
        if code == NOT_ASKED:
            code = answers.codes[row] = self._allocator_says(look, answers, row)
        # Where the allocator says no, nobody hears which claims are elsewhere: PostFilter gives none of them back.
        return code or self._unavailable(look, row)

    def _unavailable(self, look: PodLook, row: int) -> int:
        labels, name = self._accounts.labels[row], self._accounts.names[row]
        refused = 0
        for index, terms in enumerate(look.reachable):
            away = terms is not None and not any(t.matches(labels, name) for t in terms)
            if away or look.unready[index]:
                look.unavailable.add(index)
                refused = int(Refusal.CLAIM_UNAVAILABLE)
        return refused

    def _allocator_says(self, look: PodLook, answers: Answers, row: int) -> int:
        state = self._state_of(look, row)
        known = None if state is None else answers.said.get(state)
        if known is not None:
            answers.scores[row] = known.score
            return known.code
        code, score, choice = 0, 0, None
        solution = self._solve(look, row)
        if isinstance(solution, NoSolution):
            code = _code_of(solution)
        elif solution is not None:
            score = answers.scores[row] = _score(solution)
            self._make_room()
            if state is None:
                answers.solutions[row] = solution
            else:
                choice = Choice(self._pools_of(row)[0], solution)
        if state is not None:
            answers.said[state] = Said(code, score, choice)
        return code

    def _state_of(self, look: PodLook, row: int) -> State | None:
        """What nodes that are alike have in common; None: this one is like no other."""
        if look.resources or not look.to_allocate:
            return None
        pools, kind = self._pools_of(row)
        taken = taken_of(pools, self._book.usage) if kind else -1
        return None if taken < 0 else (kind, taken)

    def _make_room(self) -> None:
        if self._solutions_kept >= _SOLUTIONS_KEPT:
            for one in self._answers.values():
                one.solutions.clear()
                one.said.clear()
            self._solutions_kept = 0
        self._solutions_kept += 1

    def _solved(self, look: PodLook, row: int) -> Solution | NoSolution | None:
        """As `_solve`: what the filter found there, if it still holds."""
        if not look.to_allocate and not look.resources:
            return None
        answers = self.codes(look)
        if answers.codes[row] == 0:
            found = answers.solutions.get(row)
            if found is not None:
                return found
            state = self._state_of(look, row)
            known = None if state is None else answers.said.get(state)
            if known is not None and known.choice is not None:
                return known.choice.at(self._pools_of(row)[0])
        return self._solve(look, row)

    def _solve(self, look: PodLook, row: int) -> Solution | NoSolution | None:
        """None: there is nothing to allocate. Raises: AllocationError."""
        claims = self._claims_at(look, row)
        if not claims:
            return None
        name, labels = self._accounts.names[row], self._accounts.labels[row]
        node = Node(name, labels)
        return solve(node, self._pools_of(row)[0], self._book.usage, claims, self._book.classes.get)

    def _pools_of(self, row: int) -> tuple[tuple[Pool, ...], int]:
        """What the node can use, and the number of its kind."""
        name = self._accounts.names[row]
        labels = self._accounts.labels[row]
        known = self._pools.get(name)
        if known is None or known[0] != self._book.published_version or known[1] is not labels:
            pools = self._book.published.pools_for(name, labels)
            known = self._pools[name] = (
                self._book.published_version,
                labels,
                pools,
                kind_of(pools),
            )
        return known[2], known[3]

    def _claims_at(self, look: PodLook, row: int) -> list[Claim]:
        special = self._special_at(look, row)
        if special is None:
            return look.to_allocate
        spec = {"devices": {"requests": list(special.requests)}}
        meta = {"namespace": meta_of(look.pod).get("namespace"), "name": _SPECIAL}
        return [*look.to_allocate, claim_of({"metadata": meta, "spec": spec})]

    def _needed(self, look: PodLook, row: int) -> tuple[str, ...]:
        """The resources this node gives by claims: those it does not advertise itself."""
        accounts = self._accounts
        return tuple(
            name
            for name in look.resources
            if (column := accounts.column_of.get(name)) is None or not accounts.allocatable[row, column]
        )

    def _special_at(self, look: PodLook, row: int) -> Asked | None:
        needed = self._needed(look, row) if look.resources else ()
        return asked(spec_of(look.pod), needed, self._book.extended) if needed else None

    # Score

    def raw_scores(self, look: PodLook, answers: Answers, rows: Ints) -> Ints | None:
        """The higher, the earlier the alternatives that were taken. None: no node has a score."""
        if not look.has_scores or (not look.to_allocate and not look.resources):
            return None
        return answers.scores[rows] + look.base

    # Reserve and PreBind

    def plan(self, pod: PodRecord, node: str) -> Plan:
        """What is to be written so that the pod has its devices on this node. Raises: AllocationError."""
        look, row = self._look_again(pod), self._accounts.row_of.get(node)
        if look is None or row is None or look.why or look.is_empty:
            return Plan()
        solution = self._solved(look, row)
        bindings, number = [], 0
        claims = self._claims_at(look, row)
        for claim in look.claims:
            meta = meta_of(claim)
            key = _key(claim)
            allocation = None
            if allocation_of(claim) is None:
                assert isinstance(solution, Solution)
                allocation = self._made(solution, number, claims[number], node, meta["uid"])
                number += 1
            bindings.append(Binding(key, claim, allocation))
        special = self._special_at(look, row)
        if special is None:
            return Plan(tuple(bindings))
        assert isinstance(solution, Solution)
        made = {"spec": {"devices": {"requests": list(special.requests)}}}
        allocation = self._made(solution, number, claims[number], node, pod.uid)
        return Plan((*bindings, Binding(None, made, allocation)), special.mappings)

    def _made(self, solution: Solution, number: int, claim: Claim, node: str, uid: str) -> Obj:
        return made_allocation(solution, number, claim, node=node, uid=uid, class_of=self._book.classes.get)

    # PostFilter

    def after_refusal(self, look: PodLook) -> Release:
        """What could be given back so that the pod finds other devices. Source: PostFilter."""
        uid = meta_of(look.pod).get("uid")
        for index in sorted(look.unavailable):
            claim = look.claims[index]
            users: Sequence[Obj] = status_of(claim).get("reservedFor") or ()
            if not users or (len(users) == 1 and users[0].get("uid") == uid):
                return Release("deallocation of ResourceClaim completed", deallocates=_key(claim))
        if look.stale is not None:
            return Release("deletion of ResourceClaim completed", deletes=_key(look.stale))
        return Release("still not schedulable")


def _code_of(found: NoSolution) -> int:
    if found.is_late:
        return int(Refusal.DEVICES_LATE)
    return int(Refusal.DEVICES_INVALID if found.invalid else Refusal.DEVICES)


def _key(claim: Obj) -> Key:
    meta = meta_of(claim)
    return quick_key(CLAIM, meta["namespace"], meta["name"])


def _score(solution: Solution) -> int:
    """Source: computeScore."""
    return sum(
        _MOST_ALTERNATIVES - at
        for index, taken in enumerate(solution.alternatives)
        for number, at in enumerate(taken)
        if solution.has_alternatives[index][number]
    )


def _chosen_before(claim: Obj) -> int:
    results = ((allocation_of(claim) or {}).get("devices") or {}).get("results") or ()
    chosen = {r["request"] for r in results if "/" in r["request"]}
    if not chosen:
        return 0
    return sum(
        _MOST_ALTERNATIVES - at
        for _, entries in claim_of(claim).requests
        for at, entry in enumerate(entries)
        if entry.parent and entry.full_name in chosen
    )


# Binding conditions


def readiness(claim: Obj) -> tuple[str, bool]:
    """Why binding failed (empty: it did not), and whether all of the claim's devices are ready.

    Source: isClaimReadyForBinding.
    """
    status = status_of(claim)
    if status.get("allocation") is None:
        return "", False
    for result in ((status["allocation"].get("devices") or {}).get("results")) or ():
        wanted = result.get("bindingConditions") or ()
        if not wanted:
            continue
        conditions = _said_of(status, result)
        if conditions is None:
            return "", False
        for name in result.get("bindingFailureConditions") or ():
            failed = conditions.get(name)
            if failed is not None and failed.get("status") == "True":
                where = f"claim={meta_of(claim)['name']}, reason={failed.get('reason', '')}"
                return f'device binding failed: {where}, message="{failed.get("message", "")}"', False
        if any((conditions.get(name) or {}).get("status") != "True" for name in wanted):
            return "", False
    return "", True


def _said_of(status: Obj, result: Obj) -> dict[str, Obj] | None:
    """The conditions of one device; None where its driver has said nothing."""
    for device in status.get("devices") or ():
        if all(device.get(name) == result.get(name) for name in ("driver", "pool", "device")):
            return {c.get("type"): c for c in device.get("conditions") or ()}
    return None


def has_binding_conditions(allocation: Obj) -> bool:
    return any(r.get("bindingConditions") for r in (allocation.get("devices") or {}).get("results") or ())


def is_late(claim: Obj, now_us: int) -> bool:
    """Whether its devices have had their time to get ready."""
    allocation = allocation_of(claim) or {}
    since = allocation.get("allocationTimestamp")
    if since is None or not has_binding_conditions(allocation):
        return False
    return parse_rfc3339(since) + BINDING_TIMEOUT_S * SECOND_US < now_us
