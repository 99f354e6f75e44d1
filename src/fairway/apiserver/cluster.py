"""The cluster behind the API: a store that is there at once, and the twin that works on it.

The store is restored from the journal and served while the components (scheduler, controllers, kubelets) are
still being loaded; `start` puts them on it. What a cluster has from its first second (namespaces, service accounts,
roles, priority classes) is in `bootstrap`.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

from fairway.apiserver.journal import VERSION_GAP, Journal, Saved
from fairway.apiserver.leftout import EVERYTHING, LeftOut
from fairway.autoscaling.keda.external import Frozen
from fairway.cluster.store import Store
from fairway.kube.timestamps import SECOND_US

if TYPE_CHECKING:
    from fairway.admission.door import Door
    from fairway.apiserver.events import StoredEvents
    from fairway.apiserver.exporter.podmeter import PodMeter
    from fairway.apiserver.exporter.queuemeter import QueueMeter
    from fairway.apiserver.externalscalers import ExternalScalers
    from fairway.apiserver.history import History
    from fairway.apiserver.pump import Pump
    from fairway.apiserver.rulesoutside import RulesOutside
    from fairway.apiserver.signingrequests import CertificateSigner
    from fairway.autoscaling.keda.external import Answer, Asked, Outside
    from fairway.queueing.webhooks.settings import Settings
    from fairway.scenario.model import CloudPlan
    from fairway.scheduling.profile import Profile
    from fairway.twin.autoscaling.component import Autoscaling
    from fairway.twin.containment import Containment
    from fairway.twin.kubelet.component import Kubelet
    from fairway.twin.rules.component import Rules
    from fairway.twin.twin import Twin

_EXPIRE_EVERY_S = 5.0


class Cluster:
    """Store first, twin when it is loaded."""

    def __init__(
        self,
        store: Store,
        journal: Journal,
        latency: str,
        *,
        speed: float,
        paused: bool,
        left: LeftOut = EVERYTHING,
        outside: tuple[str, ...] = (),
        history: History | None = None,
    ) -> None:
        """`left`: components whose place somebody else takes. `outside`: hosts beyond the cluster that tenants' objects
        may have it call, with a port or with all of theirs. `history`: where what happens is written."""
        self.store = store
        self.left = left
        self.outside = outside
        self._history = history
        self._latency = latency
        self.journal = journal
        self.speed = speed
        self.paused = paused
        self.twin: Twin | None = None
        self.pump: Pump | None = None
        self.events: StoredEvents | None = None
        self.queue_meter: QueueMeter | None = None
        self.pod_meter: PodMeter | None = None
        """Only where nodes are provisioned: what Karpenter observes of pods."""
        self.alerts: Rules | None = None
        self.scalers: _Scalers | None = None
        self.rules_outside: RulesOutside | None = None
        self.ready = asyncio.Event()

    @property
    def delivered(self) -> int:
        """The version up to which components were told of changes; those that are loaded later see what is there."""
        return self.store.version if self.twin is None else self.twin.delivered

    def touch(self) -> None:
        """Before a write from outside: let the clock stand at now."""
        if self.pump is not None:
            self.pump.touch()

    @contextmanager
    def no_faster(self) -> Iterator[None]:
        """While this lasts the cluster's time goes no faster than the wall's: somebody outside is waited for."""
        pump = self.pump
        if pump is not None:
            pump.hold()
        try:
            yield
        finally:
            if pump is not None:
                pump.release()

    def poke(self) -> None:
        """After a write from outside: components will hear of it."""
        if self.pump is not None:
            self.pump.poke()

    def start(
        self,
        door: Door,
        signer: CertificateSigner,
        cloud: CloudPlan | None = None,
        profiles: tuple[Profile, ...] | None = None,
    ) -> None:
        """Load the components and let time run. Takes about half a second the first time.

        `door` is what the components' own new objects pass; `cloud`: where nodes come from; `profiles`: of
        kube-scheduler, None: its default. Raises: ApiError.
        """
        from fairway.apiserver.components import latency_of, served_components
        from fairway.apiserver.events import StoredEvents
        from fairway.apiserver.exporter.queuemeter import QueueMeter
        from fairway.apiserver.pump import Pump
        from fairway.apiserver.rulesoutside import RulesOutside
        from fairway.twin.autoscaling.component import Autoscaling
        from fairway.twin.containment import Containment
        from fairway.twin.rules.component import rules_part
        from fairway.twin.twin import Twin

        self.events = StoredEvents(self.store)
        self.twin = Twin(
            seed=self.store.seed,
            latency=latency_of(self._latency),
            components=served_components(signer, cloud, self.left, profiles),
            start_us=self.store.now_us,
            store=self.store,
            events=self.events,
            containment=Containment(),
        )
        self.twin.host.served_door = door
        if self._history is not None:
            self._history.launched = self.twin.host.launches.launched_us
        room = self.twin.host.parts.get("autoscaling")
        if isinstance(room, Autoscaling):
            self.scalers = room.outside = _Scalers(room, self)
        self.pump = Pump(self.twin, self.journal, speed=self.speed, paused=self.paused)
        self.queue_meter = QueueMeter(self.store)
        self.store.followers.append(self.queue_meter)
        if cloud is not None:
            from fairway.apiserver.exporter.podmeter import PodMeter

            self.pod_meter = PodMeter(self.store)
            self.store.followers.append(self.pod_meter)
        self.alerts = rules_part(self.twin.host.parts)
        if self.alerts is not None:
            self.rules_outside = self.alerts.outside = RulesOutside(self, self.journal.folder)
        self.pump.poke()
        self.ready.set()

    @property
    def containment(self) -> Containment | None:
        """What components failed at; None while they are loaded."""
        return None if self.twin is None else self.twin.host.containment

    def kueue_settings(self) -> Settings | None:
        """What Kueue's webhooks go by; while its component is being loaded, as it comes where anything is Kueue's."""
        from fairway.twin.operators import settings_of, settings_where_used

        if self.twin is None:
            return None if "kueue" in self.left else settings_where_used(self.store)
        return settings_of(self.twin.host.parts)

    def simulated_nodes(self) -> Kubelet | None:
        """The twin's kubelets; None while they are loaded, and where they are left out."""
        return None if self.twin is None else cast("Kubelet | None", self.twin.host.parts.get("kubelet"))

    async def expire_forever(self) -> None:
        """Forget events that are too old."""
        while True:
            await asyncio.sleep(_EXPIRE_EVERY_S)
            if self.events is not None:
                self.events.expire(self.store.now_us)
                self.poke()

    def stop(self) -> None:
        if self.pump is not None:
            self.pump.stop()
        if self.scalers is not None:
            self.scalers.stop()
        if self.rules_outside is not None:
            self.rules_outside.stop()


class _Scalers:
    """External scalers of KEDA. Loaded when the first trigger asks one."""

    def __init__(self, room: Autoscaling, cluster: Cluster) -> None:
        self._room = room
        self._cluster = cluster
        self._real: ExternalScalers | None = None

    def answer(self, asked: Asked) -> Answer | None:
        if self._real is None:
            from fairway.apiserver.externalscalers import ExternalScalers

            self._real = ExternalScalers(
                self._room, self._cluster.store, self._cluster, self._cluster.outside
            )
        return self._real.answer(asked)

    def frozen(self) -> Outside:
        return Frozen({}) if self._real is None else self._real.frozen()

    def stop(self) -> None:
        if self._real is not None:
            self._real.stop()


def restored(saved: Saved) -> Store:
    """The store as it was; a new one begins at the wall clock's time, with chance of its own."""
    seed = int(saved.notes.get("seed", "0")) or secrets.randbits(46) | 1
    now_us = saved.now_us or int(time.time()) * SECOND_US
    store = Store(seed=seed, now_us=now_us)
    if saved.version:
        store.restore(saved.objects, version=saved.version + VERSION_GAP, serial=saved.serial + 1000)
    return store
