"""How does a node go, once its claim is deleted? It is drained, look by look, and then it is gone.

Source: node/termination/controller.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fairway.kube.conditions import get_condition
from fairway.kube.objects import Obj, name_of, spec_of, status_of
from fairway.kube.timestamps import SECOND_US, rfc3339
from fairway.provisioning.karpenter.events import (
    FORCEFUL,
    deleted,
    evicted,
    eviction_refused,
    grace_period_expiring,
    waiting_for_pods,
)
from fairway.provisioning.karpenter.nodeclaims import DISRUPTION_REASON
from fairway.provisioning.karpenter.nodepools import duration_us
from fairway.twin.loop import CONTROLLERS
from fairway.twin.provisioner import metrics
from fairway.twin.provisioner.draining import Drained, drain
from fairway.twin.provisioner.gathering import claim_key, node_key

if TYPE_CHECKING:
    from fairway.twin.provisioner.component import Provisioner

# A drain is looked at every second, for five seconds at least (MinDrainTime).
DRAIN_EVERY_US: Final = SECOND_US
LEAST_DRAIN_US: Final = 5 * SECOND_US


class Termination:
    """Claims whose nodes are being emptied, since when. Data only, beside its provisioner."""

    def __init__(self) -> None:
        self.since_us: dict[str, int] = {}

    def attach(self, provisioner: Provisioner) -> None:
        self.provisioner = provisioner
        self._h_drain = provisioner.host.loop.register("karpenter.drain", self._on_drain)

    def copy(self) -> Termination:
        twin = Termination()
        twin.since_us = dict(self.since_us)
        return twin

    def begin(self, name: str) -> None:
        loop = self.provisioner.host.loop
        self.since_us[name] = loop.now_us
        loop.at(loop.now_us, self._h_drain, name, CONTROLLERS)

    def _on_drain(self, name: str) -> None:
        claim, loop = self.provisioner.host.store.get(claim_key(name)), self.provisioner.host.loop
        if claim is None:
            self.since_us.pop(name, None)
            return
        until_us = self._gone_by_us(claim)
        look = drain(self.provisioner.host, name, until_us)
        reason = (get_condition(status_of(claim).get("conditions"), DISRUPTION_REASON) or {}).get("reason")
        self._tell_drain(name, look, until_us, reason or "")
        # A pod may have been bound before the taint was seen. Source: MinDrainTime.
        since_us = self.since_us.get(name, loop.now_us)
        if not look.waiting and loop.now_us - since_us >= LEAST_DRAIN_US:
            node = self.provisioner.host.store.get(node_key(name))
            if node is not None:
                metrics.emptied(self.provisioner.tally, node, since_us, loop.now_us)
            self.provisioner.remove(node_key(name))
            self.provisioner.finish(name)
        else:
            loop.at(loop.now_us + DRAIN_EVERY_US, self._h_drain, name, CONTROLLERS)

    def _gone_by_us(self, claim: Obj) -> int | None:
        """When the termination grace period of a claim that goes is over; None: it has none."""
        grace = spec_of(claim).get("terminationGracePeriod")
        lasts_us = duration_us(grace) if grace else None
        began_us = self.since_us.get(name_of(claim), self.provisioner.host.loop.now_us)
        return None if lasts_us is None else began_us + lasts_us

    def _tell_drain(self, name: str, look: Drained, until_us: int | None, reason: str) -> None:
        if until_us is not None:
            self.provisioner.tell_both(name, grace_period_expiring(rfc3339(until_us)))
            for key, grace_s in look.deleted:
                own = ((self.provisioner.host.store.get(key) or {}).get("spec") or {}).get(
                    "terminationGracePeriodSeconds"
                ) or 0
                self.provisioner.tell(key, deleted(rfc3339(until_us), grace_s, int(own)))
        tally, why = self.provisioner.tally, reason or FORCEFUL
        tally.add("karpenter_pods_eviction_requests_total", "200", times=len(look.evicted))
        tally.add("karpenter_pods_drained_total", why, times=len(look.evicted) + len(look.deleted))
        for _, several in look.refused:
            tally.add("karpenter_pods_eviction_requests_total", "500" if several else "429")
        for key in look.evicted:
            self.provisioner.tell(key, evicted(reason))
        for key, several in look.refused:
            self.provisioner.tell(node_key(name), eviction_refused(key.namespace, key.name, several=several))
        if look.waiting:
            self.provisioner.tell(node_key(name), waiting_for_pods(look.waiting))
