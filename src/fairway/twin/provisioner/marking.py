"""Which claims are Consolidatable or Drifted now? Looked at where something changed or fell due, not all each time.

Source: pkg/controllers/nodeclaim/disruption.
"""

from __future__ import annotations

from heapq import heappop, heappush

from fairway.cluster.store import Store
from fairway.kube.conditions import is_condition_true, without_condition
from fairway.kube.objects import Obj, key_of, labels_of, meta_of, name_of
from fairway.provisioning.karpenter.fleet import Fleet
from fairway.provisioning.karpenter.labels import NODEPOOL
from fairway.provisioning.karpenter.nodeclaims import CONSOLIDATABLE, DRIFTED, is_true, with_condition
from fairway.provisioning.karpenter.nodepools import WHEN_EMPTY, NodePool
from fairway.provisioning.karpenter.podfacts import is_owned_by
from fairway.twin.provisioner.gathering import ClusterState, claim_key


class Marks:
    """`stale`: claims to look at. `ripe`: claims whose nodes could go at all."""

    __slots__ = ("_resting", "_written", "ripe", "stale")

    def __init__(self) -> None:
        self.stale: dict[str, None] = {}
        self._written: dict[str, Obj] = {}
        """What was written of each claim last: no news when it is heard of."""
        self.ripe: dict[str, None] = {}
        self._resting: list[tuple[int, str]] = []

    def copy(self) -> Marks:
        twin = Marks()
        twin.stale, twin.ripe, twin._resting = dict(self.stale), dict(self.ripe), list(self._resting)
        return twin

    def hear(self, claim: Obj) -> None:
        """A claim changed."""
        name = name_of(claim)
        if self._written.pop(name, None) is not claim:
            self.stale[name] = None

    def forget(self, claim: str) -> None:
        self.ripe.pop(claim, None)
        self._written.pop(claim, None)

    def bring_up_to_date(self, store: Store, known: ClusterState, fleet: Fleet, now_us: int) -> int | None:
        """Set conditions; when the next claim may be consolidated, if any waits for that. O(what changed)."""
        pools = {p.name: p for p in known.pools()}
        while self._resting and self._resting[0][0] <= now_us:
            self.stale[heappop(self._resting)[1]] = None
        stale, self.stale = self.stale, {}
        for name in stale:
            claim = store.get(claim_key(name))
            pool = None if claim is None else pools.get(labels_of(claim).get(NODEPOOL) or "")
            if claim is None or pool is None or "deletionTimestamp" in meta_of(claim):
                self.ripe.pop(name, None)
                continue
            at_us = known.due_us(claim, pool)
            due = at_us is not None and at_us <= now_us
            marked = _marked(claim, CONSOLIDATABLE, CONSOLIDATABLE if due else "", now_us)
            marked = _marked(marked, DRIFTED, known.drift(claim, pool, fleet, now_us), now_us)
            if marked is not claim:
                self._written[name] = store.set_status(key_of(claim), marked["status"])
            if _is_ripe(store, marked, pool):
                self.ripe[name] = None
            else:
                self.ripe.pop(name, None)
            if at_us is not None and at_us > now_us:
                heappush(self._resting, (at_us, name))
        return self._resting[0][0] if self._resting else None


def _is_ripe(store: Store, claim: Obj, pool: NodePool) -> bool:
    """Whether its node could go at all; one that holds pods, where only empty ones go, could not.

    Unlike kube: where no node could, nobody is told for each of them that it is not empty.
    """
    if is_true(claim, DRIFTED):
        return True
    if not is_true(claim, CONSOLIDATABLE):
        return False
    if pool.consolidation_policy != WHEN_EMPTY:
        return True
    row = store.accounts.row_of.get(name_of(claim))
    pods = (store.get(key) for key in store.accounts.pods[row]) if row is not None else ()
    return all(p is None or is_owned_by(p, "DaemonSet") or is_owned_by(p, "Node") for p in pods)


def _marked(claim: Obj, condition: str, reason: str, now_us: int) -> Obj:
    """The claim with this condition true for this reason, or without it."""
    conditions = (claim.get("status") or {}).get("conditions")
    if reason and not is_condition_true(conditions, condition):
        return with_condition(claim, condition, "True", reason, "", now_us)
    if not reason and is_condition_true(conditions, condition):
        left = without_condition(conditions, condition)
        return {**claim, "status": {**claim["status"], "conditions": left}}
    return claim
