"""Traces on the loop: each job is created when its time comes."""

from __future__ import annotations

from collections.abc import Callable

from fairway.cluster.changes import Change
from fairway.kube.objects import Obj
from fairway.traces.arrival import Arrivals, objects_for
from fairway.twin.components import Host
from fairway.twin.loop import INPUT

Enter = Callable[[Host, Obj], None]
"""Puts an object into the store as the API server would."""


class TraceComponent:
    """Submits the jobs of several traces. Only the next arrival of each is queued."""

    name = "traces"
    kinds: tuple[str, ...] = ()

    def __init__(self, arrivals: tuple[Arrivals, ...], enter: Enter, start_us: int) -> None:
        self.arrivals = arrivals
        self.start_us = start_us
        self.next = [0] * len(arrivals)
        self._enter = enter

    def attach(self, host: Host) -> None:
        self.host = host
        self._arrive = host.loop.register("traces.arrive", self._on_arrive)

    def start(self) -> None:
        for number in range(len(self.arrivals)):
            self._arm(number)

    def observe(self, change: Change) -> None:
        """Nothing that happens changes what arrives."""

    def fork(self) -> TraceComponent:
        twin = TraceComponent(self.arrivals, self._enter, self.start_us)
        twin.next = list(self.next)
        return twin

    @property
    def is_done(self) -> bool:
        """Whether every job has arrived."""
        return all(n == len(a.trace.jobs) for n, a in zip(self.next, self.arrivals, strict=True))

    def _arm(self, number: int) -> None:
        source = self.arrivals[number]
        if self.next[number] < len(source.trace.jobs):
            at_us = self.start_us + source.at_us(self.next[number])
            self.host.loop.at(at_us, self._arrive, number, INPUT)

    def _on_arrive(self, number: int) -> None:
        """One job per event: watchers of the first see it before the second is there."""
        source = self.arrivals[number]
        job = source.trace.jobs[self.next[number]]
        self.next[number] += 1
        for obj in objects_for(source, job):
            self._enter(self.host, obj)
        self._arm(number)
