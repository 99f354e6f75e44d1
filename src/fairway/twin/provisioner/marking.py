"""Which claims are Consolidatable or Drifted now? Looked at where something changed or fell due, not all each time.

Source: pkg/controllers/nodeclaim/disruption.
"""

from __future__ import annotations

from heapq import heappop, heappush

from fairway.cluster.store import Store
from fairway.kube.conditions import Condition, is_condition_true, without_condition
from fairway.kube.objects import Obj, name_of, status_of
from fairway.provisioning.karpenter.claimfacts import CONSOLIDATABLE
from fairway.provisioning.karpenter.disruption.marks import consolidatable_at_us
from fairway.provisioning.karpenter.fleet import Fleet
from fairway.provisioning.karpenter.nodeclaims import DRIFTED, conditions_with
from fairway.provisioning.karpenter.nodepools import WHEN_EMPTY, NodePool
from fairway.provisioning.karpenter.podfacts import is_owned_by
from fairway.twin.provisioner.gathering import ClusterState, claim_key

Conditions = list[Condition]


class Marks:
    """`stale`: claims to look at. `ripe`: claims whose nodes could go at all."""

    __slots__ = ("_due_us", "_resting", "_written", "ripe", "stale")

    def __init__(self) -> None:
        self.stale: dict[str, None] = {}
        self._written: dict[str, Obj] = {}
        """What was written of each claim last: no news when it is heard of."""
        self.ripe: dict[str, None] = {}
        self._resting: list[tuple[int, str]] = []
        """Whose consolidateAfter is over when; a claim with a pod event since is there again."""
        self._due_us: dict[str, int] = {}
        """The last of these times of each claim."""

    def copy(self) -> Marks:
        twin = Marks()
        twin.stale, twin.ripe = dict(self.stale), dict(self.ripe)
        twin._resting, twin._due_us = list(self._resting), dict(self._due_us)
        return twin

    def hear(self, claim: Obj) -> bool:
        """A claim changed; whether that is news, or what was written here."""
        name = name_of(claim)
        if self._written.pop(name, None) is claim:
            return False
        self.stale[name] = None
        return True

    @property
    def due_us(self) -> int | None:
        """When the next consolidateAfter is over, if one runs."""
        return self._resting[0][0] if self._resting else None

    def forget(self, claim: str) -> None:
        self.ripe.pop(claim, None)
        self._written.pop(claim, None)
        self._due_us.pop(claim, None)

    def rest(self, name: str, written: Obj, due_us: int) -> None:
        """A claim that was not drifted was written: a pod came or went, and its consolidateAfter starts anew."""
        self._written[name] = written
        self.ripe.pop(name, None)
        self._rest_until(name, due_us)

    def _rest_until(self, name: str, due_us: int) -> None:
        if self._due_us.get(name) != due_us:
            self._due_us[name] = due_us
            heappush(self._resting, (due_us, name))

    def bring_up_to_date(self, store: Store, known: ClusterState, fleet: Fleet, now_us: int) -> int | None:
        """Set conditions; when the next claim may be consolidated, if any waits for that. O(what changed)."""
        while self._resting and self._resting[0][0] <= now_us:
            due_us, name = heappop(self._resting)
            if self._due_us.get(name) == due_us:  # else it rests on
                del self._due_us[name]
                self.stale[name] = None
        stale, self.stale = self.stale, {}
        for name in stale:
            claim = known.claim(name)
            pool = None if claim is None else known.pool_named(claim.pool)
            if claim is None or pool is None or claim.is_going:
                self.ripe.pop(name, None)
                continue
            at_us = consolidatable_at_us(claim, pool)
            is_due = at_us is not None and at_us <= now_us
            drift = known.drift(claim, pool, fleet, now_us)
            if claim.is_true(CONSOLIDATABLE) != is_due or claim.is_true(DRIFTED) != bool(drift):
                status = status_of(claim.object)
                conditions: Conditions = status.get("conditions") or []
                conditions = _marked(conditions, CONSOLIDATABLE, CONSOLIDATABLE if is_due else "", now_us)
                conditions = _marked(conditions, DRIFTED, drift, now_us)
                written = store.set_status(claim_key(name), {**status, "conditions": conditions})
                self._written[name] = written
            if drift or (is_due and _could_go(store, name, pool)):
                self.ripe[name] = None
            else:
                self.ripe.pop(name, None)
            if at_us is not None and at_us > now_us:
                self._rest_until(name, at_us)
        return self.due_us


def _could_go(store: Store, name: str, pool: NodePool) -> bool:
    """Whether a consolidatable node could go at all; one that holds pods, where only empty ones go, could not.

    Unlike kube: where no node could, nobody is told for each of them that it is not empty.
    """
    if pool.consolidation_policy != WHEN_EMPTY:
        return True
    row = store.accounts.row_of.get(name)
    if row is not None:
        for key in store.accounts.pods[row]:
            pod = store.get(key)
            if pod is not None and not is_owned_by(pod, "DaemonSet") and not is_owned_by(pod, "Node"):
                return False
    return True


def _marked(conditions: Conditions, condition: str, reason: str, now_us: int) -> Conditions:
    """With this condition true for this reason, or without it."""
    is_true = is_condition_true(conditions, condition)
    if reason and not is_true:
        return conditions_with(conditions, condition, "True", reason, "", now_us)
    return without_condition(conditions, condition) if is_true and not reason else conditions
