"""Spot capacity that is taken back, on the loop.

A machine's luck belongs to its place in the fleet, not to its name: the n-th machine of an offering lives as long under
every policy, so that two runs differ by what they do about it.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from fairway.cluster.changes import ADDED, DELETED, Change
from fairway.kube.objects import Key, Obj, labels_of, meta_of, name_of
from fairway.kube.timestamps import SECOND_US
from fairway.provisioning.karpenter.labels import CAPACITY_TYPE, INSTANCE_TYPE, SPOT, ZONE
from fairway.twin.components import Host
from fairway.twin.faults import plan_fault
from fairway.twin.loop import INPUT
from fairway.twin.markets.plan import Market

NAME = "market"
_CRITICAL_US = 15 * SECOND_US


@runtime_checkable
class HearsNotices(Protocol):
    """A component that does something about a notice: Karpenter."""

    def spot_notice(self, node: str) -> bool:
        """The machine of this node will be taken back; whether it was one of its own."""
        ...

    def spot_hint(self, node: str) -> None:
        """The machine of this node is at elevated risk."""
        ...


class SpotMarket:
    """Takes spot machines back."""

    name = NAME
    kinds: tuple[str, ...] = ("Node",)

    def __init__(self, market: Market) -> None:
        self.market = market
        self.born: dict[str, int] = {}
        """How many machines of an offering there have been."""
        self.noticed: dict[str, None] = {}
        """Machines that are being taken back, by their node's uid."""
        self.taken = 0
        """Machines taken back so far."""

    def attach(self, host: Host) -> None:
        self.host = host
        self._h_hint = host.loop.register("market.hint", self._on_hint)
        self._h_notice = host.loop.register("market.notice", self._on_notice)
        self._h_recorded = host.loop.register("market.recorded", self._on_recorded)

    def start(self) -> None:
        for number, interruption in enumerate(self.market.recorded):
            self.host.loop.at(max(interruption.at_us, self.host.loop.now_us), self._h_recorded, number, INPUT)

    def fork(self) -> SpotMarket:
        twin = SpotMarket(self.market)
        twin.born, twin.noticed, twin.taken = dict(self.born), dict(self.noticed), self.taken
        return twin

    def observe(self, change: Change) -> None:
        uid = str(meta_of(change.obj).get("uid") or "")
        if change.type == DELETED:
            self.noticed.pop(uid, None)
        elif change.type == ADDED and is_spot(change.obj):
            self._arm(change.obj, uid)

    def _arm(self, node: Obj, uid: str) -> None:
        labels, loop = labels_of(node), self.host.loop
        kind, zone = labels.get(INSTANCE_TYPE) or "", labels.get(ZONE) or ""
        place = f"{kind}/{zone}"
        turn = self.born.get(place, 0)
        self.born[place] = turn + 1
        for hazard in self.market.hazards:
            if not hazard.concerns(kind, zone):
                continue
            luck = self.host.streams.draw_for("market", hazard.name, place, str(turn))
            at_us = loop.now_us + max(hazard.after.at_quantile(luck), 1)
            hint_us = at_us - self.market.hint_us
            if self.market.hint_us and hint_us > loop.now_us:
                loop.at(hint_us, self._h_hint, (name_of(node), uid), INPUT)
            loop.at(at_us, self._h_notice, (name_of(node), uid), INPUT)

    def _on_recorded(self, number: int) -> None:
        interruption = self.market.recorded[number]
        there = [n for n in self.host.store.objects("Node") if is_spot(n) and self._is_left(n)]
        struck = [
            n
            for n in there
            if interruption.concerns(labels_of(n).get(INSTANCE_TYPE) or "", labels_of(n).get(ZONE) or "")
        ]
        struck.sort(key=lambda n: (meta_of(n).get("creationTimestamp") or "", name_of(n)))
        for node in struck[: interruption.count]:
            self._on_notice((name_of(node), str(meta_of(node).get("uid") or "")))

    def _is_left(self, node: Obj) -> bool:
        return str(meta_of(node).get("uid") or "") not in self.noticed

    def _node(self, name: str, uid: str) -> Obj | None:
        node = self.host.store.get(Key("Node", "", name))
        return node if node is not None and meta_of(node).get("uid") == uid else None

    def _on_hint(self, data: tuple[str, str]) -> None:
        if self._node(*data) is not None:
            self._record(data[0], "RebalanceRecommendation")
            for part in self._listeners():
                part.spot_hint(data[0])

    def _on_notice(self, data: tuple[str, str]) -> None:
        name, uid = data
        if self._node(name, uid) is None or uid in self.noticed:
            return
        self.noticed[uid] = None
        self.taken += 1
        notice_us = self.market.notice_us
        self._record(name, "SpotInterruption")
        heard = [part.spot_notice(name) for part in self._listeners()]
        if notice_us and not any(heard):
            plan_fault(self.host, "shutDown", name, notice_us, min(notice_us // 4, _CRITICAL_US))
        plan_fault(self.host, "reclaim", name, uid, after_us=notice_us)

    def _listeners(self) -> list[HearsNotices]:
        return [part for part in self.host.parts.values() if isinstance(part, HearsNotices)]

    def _record(self, node: str, reason: str) -> None:
        self.host.log.record(self.host.loop.now_us, NAME, "Node", "", node, reason, "")


def is_spot(node: Obj) -> bool:
    """Whether the cloud may take it back: Karpenter's label, or those of EKS, GKE and AKS node groups."""
    labels = labels_of(node)
    return (
        labels.get(CAPACITY_TYPE) == SPOT
        or labels.get("eks.amazonaws.com/capacityType") == "SPOT"
        or labels.get("cloud.google.com/gke-spot") == "true"
        or labels.get("kubernetes.azure.com/scalesetpriority") == "spot"
    )
