"""A cluster in its own time: components on one loop over one store.

    twin = Twin(seed=42, latency=latency_named("zero"), components=standard_components())
    twin.apply(objects)
    twin.run_for(2 * HOUR_US)
    later = twin.fork()                 # continues by itself, exactly as the original would

Which components live here is the caller's choice; `standard` has what every cluster has. Without any, a twin is
a store with a clock.
"""

from __future__ import annotations

import gc
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from fairway.cluster.changes import ADDED, Change
from fairway.cluster.store import Store
from fairway.errors import BugError
from fairway.kube.kinds import kind_named
from fairway.kube.objects import Key, Obj, gk_of, key_of
from fairway.kube.timestamps import parse_rfc3339
from fairway.twin import hugepages, invariants
from fairway.twin.components import EVERY_KIND, Component, Feed, Host
from fairway.twin.containment import Containment
from fairway.twin.eventlog import EventLog
from fairway.twin.heartbeats import Heartbeats
from fairway.twin.kubeevents import KubeEvents
from fairway.twin.latency import DEFAULT, Latency
from fairway.twin.loop import DEFAULT_LIMIT, STUCK_LIMIT, Loop, LoopLimit
from fairway.twin.streams import Streams

# When a twin's time begins unless told otherwise: a Monday, so that weekly patterns start at their start.
EPOCH_US = parse_rfc3339("2026-01-05T00:00:00Z")

# Events between two looks at the wall clock. At 3 µs an event that is about 60 ms.
_SLICE = 20_000
# Events between two recounts of what must hold. Measured: a recount over 100,000 pods takes 60 ms, a million
# events several seconds.
_CHECK_EVERY = 1_000_000
# Wall seconds between two calls of the progress callback.
_PROGRESS_EVERY_S = 0.2


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is: virtual time, events so far, and virtual seconds per wall second in this run."""

    now_us: int
    until_us: int | None
    events: int
    speed_up: float


class Twin:
    """One simulated cluster. Not thread-safe: one thread runs it."""

    def __init__(
        self,
        *,
        seed: int = 0,
        latency: Latency = DEFAULT,
        components: Iterable[Component] = (),
        start_us: int = EPOCH_US,
        keep_records: int = 0,
        store: Store | None = None,
        events: KubeEvents | None = None,
        containment: Containment | None = None,
    ) -> None:
        """`store`: go on with a cluster that was there before; components learn of its objects as of new ones.
        `containment`: what components raise stops nothing but the object it was about; without it, the run."""
        if store is None:
            store = Store(seed=seed, now_us=start_us)
        store.now_us = start_us
        feed = Feed()
        feed.begin_after(store.version)
        self._assemble(
            Host(
                loop=Loop(start_us),
                store=store,
                streams=Streams(seed),
                latency=latency,
                log=EventLog(keep=keep_records),
                events=KubeEvents() if events is None else events,
                heartbeats=Heartbeats(),
                containment=containment,
            ),
            list(components),
            feed,
        )
        for component in self.components:
            component.start()
        self._introduce()
        self._feed.after_event()

    def _introduce(self) -> None:
        """Show every component what is there already, as its first list would: nodes, then the rest.

        Pods by age: those that wait would otherwise stand in the scheduler's queue by name, and a cluster that goes on
        would start others first than it would have.
        """
        kinds = sorted(self.store.kinds(), key=lambda gk: (gk != "Node", gk))
        known = [
            Change(int(o["metadata"]["resourceVersion"]), ADDED, key_of(o), o, None)
            for gk in kinds
            for o in (_by_age(self.store.objects(gk)) if gk == "Pod" else self.store.objects(gk))
        ]
        containment = self.host.containment
        for component in self.components:
            for change in known:
                if change.key.gk not in component.kinds and EVERY_KIND not in component.kinds:
                    continue
                if containment is None:
                    component.observe(change)
                else:
                    containment.hear(component.name, component.observe, change)

    def _assemble(self, host: Host, components: list[Component], feed: Feed) -> None:
        """Put the parts together; handlers are registered in an order that a fork repeats."""
        hugepages.ask()
        names = [c.name for c in components]
        if len(set(names)) != len(names):
            raise BugError(f"two components share a name: {names}")
        self.host = host
        self.components = components
        self._feed = feed
        self._unchecked = 0
        host.loop.on_time = self._on_time
        feed.attach(host, components)
        host.owners = ["watch"]
        for component in components:
            component.attach(host)
            host.owners += [component.name] * (len(host.loop.handler_names()) - len(host.owners))
        if host.containment is not None:
            host.containment.attach(host)
        host.parts = {c.name: c for c in components}

    def _on_time(self, now_us: int) -> None:
        self.host.store.now_us = now_us

    # Reading

    @property
    def now_us(self) -> int:
        return self.host.loop.now_us

    @property
    def store(self) -> Store:
        return self.host.store

    @property
    def loop(self) -> Loop:
        return self.host.loop

    def component(self, name: str) -> Component:
        """Raises: KeyError."""
        return self.host.parts[name]

    def digest(self) -> str:
        """Equal for two runs that did the same: the event log and the newest resource version."""
        return f"{self.host.log.digest()}-{self.store.version}"

    # Acting

    def apply(self, objects: Iterable[Obj]) -> None:
        """Create each object, or replace it where it exists (its status is kept), now."""
        with _without_collector_pauses():
            for obj in objects:
                apply_object(self.store, obj)
        self.wake()

    @property
    def delivered(self) -> int:
        """The version up to which every component was told of changes."""
        return self._feed.delivered

    def wake(self) -> None:
        """Tell watchers about writes made to the store from outside the loop."""
        self._feed.after_event()

    def run(
        self,
        until_us: int | None = None,
        *,
        limit: int = DEFAULT_LIMIT,
        progress: Callable[[Progress], None] | None = None,
    ) -> int:
        """Run to a time, or until nothing is left to happen; returns the number of events.

        Ctrl-C stops between two events and then raises KeyboardInterrupt: the twin stays consistent.
        Raises: LoopLimit.
        """
        self.wake()
        loop = self.host.loop
        with _between_events(loop), _without_collector_pauses():
            done = self._run_slices(until_us, limit, progress)
        if loop.stopping:
            loop.stopping = False
            raise KeyboardInterrupt
        if until_us is not None:
            loop.advance(until_us)
        return done

    def run_for(
        self,
        duration_us: int,
        *,
        limit: int = DEFAULT_LIMIT,
        progress: Callable[[Progress], None] | None = None,
    ) -> int:
        return self.run(self.now_us + duration_us, limit=limit, progress=progress)

    def _run_slices(
        self, until_us: int | None, limit: int, progress: Callable[[Progress], None] | None
    ) -> int:
        loop = self.host.loop
        horizon_us = 2**62 if until_us is None else until_us
        started_s = reported_s = time.perf_counter()
        began_us = standing_us = loop.now_us
        done = standing = 0
        while not loop.stopping:
            handled = loop.run_some(horizon_us, min(_SLICE, limit - done))
            done += handled
            if handled == 0:
                break
            standing = standing + handled if loop.now_us == standing_us else 0
            standing_us = loop.now_us
            self._unchecked += handled
            if self._unchecked >= _CHECK_EVERY:
                self._unchecked = 0
                invariants.check(self.host)
            if standing > STUCK_LIMIT or (done >= limit and self._is_due(horizon_us)):
                raise LoopLimit(f"{done} events handled; the clock stands at {loop.now_us} µs")
            now_s = time.perf_counter()
            if progress is not None and now_s - reported_s >= _PROGRESS_EVERY_S:
                reported_s = now_s
                speed_up = (loop.now_us - began_us) / 1e6 / (now_s - started_s)
                progress(Progress(loop.now_us, until_us, done, speed_up))
        return done

    def _is_due(self, until_us: int) -> bool:
        following = self.host.loop.next_time()
        return following is not None and following <= until_us

    def fork(self) -> Twin:
        """An independent copy at this moment, O(state). Log sinks stay with the original."""
        twin = object.__new__(Twin)
        with _without_collector_pauses():
            twin._assemble(
                self.host.fork(), [component.fork() for component in self.components], self._feed.fork()
            )
        if twin.host.loop.handler_names() != self.host.loop.handler_names():
            raise BugError("a forked component registered other handlers than its original")
        return twin


def _by_age(objects: list[Obj]) -> list[Obj]:
    return sorted(objects, key=lambda obj: obj["metadata"].get("creationTimestamp") or "")


def apply_object(store: Store, obj: Obj) -> Obj:
    """Create, or replace what is there, keeping its status when none is given."""
    gk = gk_of(obj)
    meta = obj.get("metadata") or {}
    namespace = (meta.get("namespace") or "default") if kind_named(gk).namespaced else ""
    old = store.get(Key(gk, namespace, meta.get("name") or ""))
    if old is None:
        return store.create(obj)
    if "status" not in obj and "status" in old:
        obj = {**obj, "status": old["status"]}
    return store.replace(obj)


@contextmanager
def _between_events(loop: Loop) -> Iterator[None]:
    """While this runs, Ctrl-C asks the loop to stop after the event at hand; a second one stops at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)

    def stop(_signal: int, _frame: FrameType | None) -> None:
        loop.stopping = True
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _without_collector_pauses() -> Iterator[None]:
    """Keep the cycle collector off the heap of objects: they are trees, reference counts free them.

    Measured: with it a run over 100,000 pods spends a third of its time looking for cycles it never finds.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
