"""Who lives on the loop, and how do they see what changes?

A component holds only data, registers named handlers with the loop, and watches some kinds. It reads the
store and writes to it while it handles an event; it learns of others' writes (and its own) through `observe`,
a watch latency after they were made. A component that is forked gets its data copied and is attached to the
fork's host; queued events find it there by the handler's name.

    class Reaper:
        name = "reaper"
        kinds = ("Pod",)
        # acts_on = (…)                    # where that is less than it watches (`actors`)

        def attach(self, host):            # at the start and again in every fork
            self.host = host
            self._reap = host.loop.register("reaper.reap", self._on_reap)

        def start(self): ...               # once, before the first event; never in a fork

        def observe(self, change): ...     # every change of its kinds, in order

        def fork(self): ...                # an independent, unattached copy of its data

Event data must be immutable (numbers, strings, tuples): forks share it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from fairway.admission.door import Awaiting, Door
from fairway.admission.intree import Options
from fairway.admission.request import CONTROLLERS, Denied
from fairway.cluster.actions import Create, perform
from fairway.cluster.changes import MODIFIED, Change
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj, meta_of
from fairway.twin.containment import Containment
from fairway.twin.eventlog import EventLog
from fairway.twin.heartbeats import Heartbeats
from fairway.twin.kubeevents import KubeEvents
from fairway.twin.latency import Latency
from fairway.twin.launches import Launches
from fairway.twin.loop import NO_TIME, WATCH, Loop
from fairway.twin.streams import Streams

if TYPE_CHECKING:
    from fairway.queueing.webhooks.settings import Settings

EVERY_KIND: Final = "*"

# Changes kept behind the slowest watcher, for those who come later (a browser that reconnects). etcd keeps
# five minutes' worth; a twin would drown in that, since minutes pass in milliseconds.
CHANGES_KEPT: Final = 10_000


@dataclass(slots=True)
class Host:
    """What a component may use. One per twin; a fork has its own."""

    loop: Loop
    store: Store
    streams: Streams
    latency: Latency
    log: EventLog
    events: KubeEvents
    heartbeats: Heartbeats
    launches: Launches = field(default_factory=Launches)
    parts: dict[str, Component] = field(default_factory=dict)
    """The components by name, once all are attached."""
    owners: list[str] = field(default_factory=list)
    """The components' names by the handlers they registered."""
    containment: Containment | None = None
    """Who contains what components raise; None: it is raised."""
    rewatch: Callable[[], None] | None = None
    """To be called by a component whose `kinds` have become others. It looks at what is there itself."""
    served_door: Door | None = None
    """The server's, where the cluster is served."""
    _door: Door | None = None

    @property
    def door(self) -> Door:
        """What every new object passes."""
        return self.served_door or self._door or self.put_door()

    def put_door(self, kueue: Callable[[], Settings | None] | None = None) -> Door:
        """One that goes by these settings of Kueue's webhooks; by those of the Kueue here unless told."""
        # Imported here: a twin whose components create nothing has no door.
        from fairway.twin.operators import OperatorWebhooks, settings_of

        operators = OperatorWebhooks(self.store, kueue or (lambda: settings_of(self.parts)))
        self._door = Door(self.store, options=Options(is_served=False), operators=operators)
        self.store.followers.append(self._door)
        return self._door

    def create(self, obj: Obj, again: Callable[[], None]) -> bool:
        """What a controller creates: past the door, charged to its quotas.

        False: somebody outside is being asked; `again` is called when the same object can be created again.
        Raises: ApiError.
        """
        checks = self.served_door is not None and _is_made_by_operator(obj)
        try:
            outcome = self.door.enter(obj, user=CONTROLLERS, checks=checks)
        except Awaiting as waiting:
            waiting.then.append(again)
            return False
        if isinstance(outcome, Denied):
            raise outcome.error()
        assert outcome.obj is not None
        if perform(self.store, Create(outcome.obj)) is not None:
            for charge in outcome.charges:
                perform(self.store, charge)
        return True

    def attempt(self, handler: int, data: Any) -> None:
        """Handle it now, as an event would; what fails is contained to these data, or raised where nothing is."""
        try:
            self.loop.call(handler, data)
        except Exception as failed:
            self.contain(handler, data, failed)
        else:
            self.went_well(handler, data)

    def contain(self, handler: int, data: Any, failed: Exception) -> None:
        """Go on without what failed; this handler tries it again later. Raises it where nothing is contained."""
        if self.containment is None:
            raise failed
        self.containment.handler_failed(handler, data, failed)

    def register_again(self, name: str, handler: Callable[[Any], None]) -> int:
        """A handler for `contain` that puts something back into a queue. It is done with what `went_well` names."""
        if self.containment is not None:
            self.containment.resubmits(name)
        return self.loop.register(name, handler)

    def went_well(self, handler: int, data: Any) -> None:
        if self.containment is not None:
            self.containment.went_well(handler, data)

    def fork(self) -> Host:
        """Independent copies of everything but the components."""
        return Host(
            loop=self.loop.fork(),
            store=self.store.fork(),
            streams=self.streams.copy(),
            latency=self.latency,
            log=self.log.fork(),
            events=self.events.fork(),
            heartbeats=self.heartbeats.fork(),
            launches=self.launches.fork(),
            containment=None if self.containment is None else self.containment.fork(),
        )

    def owner_of(self, handler: int) -> str:
        """The component that registered it."""
        return self.owners[handler] if handler < len(self.owners) else self.loop.name_of(handler)


# Groups whose templates the API server checks as closely as what is made of them.
_CHECKED_GROUPS: Final = ("v1", "apps", "batch")


def _is_made_by_operator(obj: Obj) -> bool:
    """Whether its owner is of a kind of others, whose templates nobody has checked by the rules of what they become."""
    owners = meta_of(obj).get("ownerReferences") or ()
    return any(str(o.get("apiVersion", "")).partition("/")[0] not in _CHECKED_GROUPS for o in owners)


class Component(Protocol):
    """Something that acts in time. See the module's example.

    One that has `skips_pod_status = True` is spared the changes of pods that are neither created, bound,
    respecified nor deleted: most of them.
    """

    @property
    def name(self) -> str: ...
    @property
    def kinds(self) -> tuple[str, ...]:
        """Group kinds it observes, such as `Pod` or `Job.batch`; `EVERY_KIND` alone for all. One that lets them
        become others calls the host's `rewatch`."""
        ...

    def attach(self, host: Host) -> None: ...
    def start(self) -> None: ...
    def observe(self, change: Change) -> None: ...
    def fork(self) -> Self: ...


Observe = Callable[[Change], None]


class Feed:
    """Delivers the store's changes to components, in order, a watch latency after they were made.

    All changes of one microsecond travel in one event. O(changes × components that watch the kind). Nobody misses a
    change because of another: whoever raises hears of the object again (see `containment`).
    """

    def __init__(self, changes_kept: int = CHANGES_KEPT) -> None:
        self.changes_kept = changes_kept
        self._components: list[Component] = []
        self.delivered = 0
        self._seen = 0
        self._armed_us = NO_TIME
        self._due_us = 0
        self._batches: deque[int] = deque()
        self._watchers: dict[str, tuple[Observe, ...]] = {}
        """Who is told of which kind."""
        self._watch_all: tuple[Observe, ...] = ()
        self._watch_pod_status: tuple[Observe, ...] = ()

    def attach(self, host: Host, components: list[Component]) -> None:
        self._loop = host.loop
        self._log = host.store.log
        self._containment = host.containment
        self._delay = host.latency.watch.sampler(host.streams.stream("watch"))
        self._deliver = host.loop.register("watch.deliver", self._on_deliver)
        host.loop.after_event = self.after_event
        self._components = components
        host.rewatch = self._rewatch
        self._rewatch()

    def _rewatch(self) -> None:
        components = self._components
        watched = dict.fromkeys(gk for component in components for gk in component.kinds if gk != EVERY_KIND)
        self._watchers.clear()
        self._watchers.update({gk: _watching(gk, components) for gk in watched})
        self._watch_all = _watching(EVERY_KIND, components)
        patient = [c for c in components if not getattr(c, "skips_pod_status", False)]
        self._watch_pod_status = _watching("Pod", patient)

    def begin_after(self, version: int) -> None:
        """Deliver only what comes after this version: what was there before is introduced otherwise."""
        self.delivered = self._seen = version

    def after_event(self) -> None:
        """Queue a delivery if anything was written; call it after every write from outside the loop, too."""
        version = self._log.next - 1
        if version == self._seen:
            return
        now_us = self._loop.now_us
        if now_us != self._armed_us:
            self._armed_us = now_us
            self._due_us = max(self._due_us, now_us + self._delay())
            self._batches.append(self._seen)
            self._loop.at(self._due_us, self._deliver, None, WATCH)
        self._seen = version

    def _on_deliver(self, _data: None) -> None:
        if self._batches:
            # A delivery that was cut short is made up for by the next: what counts is how far this one got.
            self._batches.popleft()
        if self._batches:
            until = self._batches[0]
        else:
            until = self._seen
            # What is written from here on needs a delivery of its own, even within this microsecond.
            self._armed_us = NO_TIME
        log = self._log
        watchers = self._watchers
        watch_all = self._watch_all
        containment = self._containment
        missed = _NOTHING_MISSED if containment is None else containment.missed
        for version in range(self.delivered + 1, until + 1):
            change = log.at(version)
            self.delivered = version
            gk = change[2][0]
            if gk == "Pod" and _is_status_only(change):
                concerned = self._watch_pod_status
            else:
                concerned = watchers.get(gk, watch_all)
            if missed and change[2] in missed and containment is not None:
                for observe in concerned:
                    containment.hear(_name_of(observe), observe, change)
                continue
            for observe in concerned:
                try:
                    observe(change)
                except Exception as failed:
                    if containment is None:
                        raise
                    containment.observer_failed(_name_of(observe), change, failed)
        if len(log) > 2 * self.changes_kept:
            log.compact(until - self.changes_kept)

    def fork(self) -> Feed:
        twin = Feed(self.changes_kept)
        twin.delivered = self.delivered
        twin._seen = self._seen
        twin._armed_us = self._armed_us
        twin._due_us = self._due_us
        twin._batches = self._batches.copy()
        return twin


def _watching(gk: str, components: Iterable[Component]) -> tuple[Observe, ...]:
    """Their `observe`, bound once: it is called a hundred times a job."""
    return tuple([c.observe for c in components if gk in c.kinds or EVERY_KIND in c.kinds])


_NOTHING_MISSED: Final[dict[Key, Any]] = {}


def _name_of(observe: Observe) -> str:
    """Of the component whose method it is."""
    name: str = observe.__self__.name  # type: ignore[attr-defined]
    return name


def _is_status_only(change: Change) -> bool:
    """Whether nothing but the status (or labels and the like) of a living object changed: most pod changes."""
    old = change.old
    return (
        old is not None
        and change.type == MODIFIED
        and change.obj["spec"] is old["spec"]
        and "deletionTimestamp" not in change.obj["metadata"]
    )
