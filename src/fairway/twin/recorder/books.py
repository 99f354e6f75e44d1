"""The books of a run: what pods wait for, hold and use, entered as it happens.

Every entry keeps four ledgers in step: pods and their intervals, nodes, workloads, and the cluster's series.
Times are µs since the run began and never go back; `pass_time` comes before the entries of a moment.
"""

from __future__ import annotations

from heapq import heappop, heappush

from fairway.twin.recorder import series as s
from fairway.twin.recorder.demand import Demand, Size
from fairway.twin.recorder.nodes import NodeLedger, Place
from fairway.twin.recorder.pods import (
    BOUND,
    ENDED,
    FINISHED,
    INTERVAL,
    PENDING,
    PLACE,
    RUNNING,
    SCHEDULED,
    STARTED,
    STATE,
    WIDTH,
    PodLedger,
)
from fairway.twin.recorder.series import SeriesLedger
from fairway.twin.recorder.utilization import Use
from fairway.twin.recorder.workloads import Workload, WorkloadLedger


class Books:
    """All ledgers of one run."""

    def __init__(self) -> None:
        self.pods = PodLedger()
        self.nodes = NodeLedger()
        self.workloads = WorkloadLedger()
        self.series = SeriesLedger()
        self.demand = Demand()
        self._due: list[tuple[int, int, int]] = []
        """Changes of use to come: (time, row, step), a heap."""
        self._fragmentation: float | None = None
        self._is_stale = False

    def fork(self) -> Books:
        twin = Books()
        twin.workloads, copies = self.workloads.fork()
        twin.pods = self.pods.fork(copies)
        twin.nodes = self.nodes.fork()
        twin.series = self.series.fork()
        twin.demand = self.demand.fork()
        twin._due = list(self._due)
        twin._fragmentation, twin._is_stale = self._fragmentation, self._is_stale
        return twin

    # Time

    def pass_time(self, now: int) -> None:
        """Let time pass to `now`; what pods use changes on the way."""
        due = self._due
        while due and due[0][0] <= now:
            at, row, step = heappop(due)
            self._tick(at)
            numbers, pod = self.pods.numbers, row * WIDTH
            if numbers[pod + STATE] == RUNNING and numbers[pod + INTERVAL] >= 0:
                self._step(row, self.pods.use[row], step, at)
        self._tick(now)

    def _tick(self, now: int) -> None:
        series = self.series
        if now != series.now:
            series.tick(now, self.fragmentation() if series.is_cut_due(now) else None)

    def fragmentation(self) -> float | None:
        """As things stand; worked out again only where something changed."""
        if self._is_stale:
            self._fragmentation = self.demand.fragmentation(self.nodes.free)
            self._is_stale = False
        return self._fragmentation

    # Nodes

    def arrive(self, name: str, uid: str, now: int) -> Place:
        """A node exists from now on."""
        self.series.add(s.NODES, 1)
        return self.nodes.arrive(name, uid, now)

    def offer(self, place: Place, deltas: Size, now: int) -> None:
        """A node's capacity changed; pods bound to its name before it came hold their share from now on."""
        self._is_stale = True
        gpu, cpu, memory = deltas
        self.series.add_all(((s.GPU_TOTAL, gpu), (s.CPU_TOTAL, cpu), (s.MEMORY_TOTAL, memory)))
        for row in place.pods:
            if self.pods.numbers[row * WIDTH + INTERVAL] < 0:
                self._hold(row, place, now)

    def lose(self, place: Place, now: int) -> None:
        """A node is gone: its pods hold nothing any more, whatever becomes of them."""
        life = place.life
        if life is None:
            return
        for row in place.pods:
            self._release(row, now)
        self.nodes.leave(place, now)
        self._is_stale = True
        self.series.add_all(
            (
                (s.NODES, -1),
                (s.GPU_TOTAL, -life.gpu),
                (s.CPU_TOTAL, -life.cpu),
                (s.MEMORY_TOTAL, -life.memory),
            )
        )

    # Waiting

    def queue(self, workload: Workload) -> None:
        """Count it in the queue, or no longer."""
        if workload.wants_queue != workload.is_queued:
            workload.is_queued = not workload.is_queued
            self.series.add(s.QUEUE_LENGTH, 1 if workload.is_queued else -1)

    def admit(self, row: int, now: int) -> None:
        """A pod is there and waits for a node."""
        size = self.pods.sorts[row].size
        if size[0]:
            self.demand.see(size)
            self._is_stale = True
        self._wait(row, now, 1)

    def _wait(self, row: int, now: int, sign: int) -> None:
        """Count a pod as waiting for a node (1), or no longer (-1)."""
        values, moments = self.series.values, self.series.moments
        gpu, owner = self.pods.sorts[row].size[0], self.pods.owners[row]
        moment = sign * now
        values[s.PODS_PENDING] += sign
        moments[s.PODS_PENDING] += moment
        if gpu:
            values[s.GPU_PENDING] += sign * gpu
            moments[s.GPU_PENDING] += gpu * moment
            self.nodes.clock.set(now, is_waiting=values[s.GPU_PENDING] > 0)
        if owner is None:
            values[s.QUEUE_LENGTH] += sign
            moments[s.QUEUE_LENGTH] += moment
            return
        owner.waiting += sign
        if (owner.waiting > 0) is not owner.is_queued:
            self.queue(owner)

    # Holding

    def bind(self, row: int, node: str, now: int, *, tells_use: bool) -> None:
        """A pod got its node."""
        pods, series = self.pods, self.series
        place = self.nodes.place(node)
        self._wait(row, now, -1)
        numbers, at = pods.numbers, row * WIDTH
        numbers[at + STATE] = BOUND
        numbers[at + PLACE] = place.index
        if numbers[at + SCHEDULED] < 0:
            numbers[at + SCHEDULED] = now
        place.pods[row] = None
        series.values[s.PODS_STARTING] += 1
        series.moments[s.PODS_STARTING] += now
        if tells_use and pods.sorts[row].size[0]:
            pods.use[row] = Use()
        if place.life is not None:
            place.life.pods += 1
            self._hold(row, place, now)

    def resize(self, row: int, size: Size, now: int) -> None:
        """A bound pod asks for something else from now on."""
        numbers, at = self.pods.numbers, row * WIDTH
        was_held = numbers[at + INTERVAL] >= 0
        self._release(row, now)
        self.pods.resize(row, size)
        if was_held:
            self._hold(row, self.nodes.places[numbers[at + PLACE]], now)

    def start(self, row: int, now: int, *, has_run: bool) -> None:
        """A bound pod is Running for the first time, or over before anybody saw it run (`has_run` or not)."""
        pods, values, moments = self.pods, self.series.values, self.series.moments
        numbers, at = pods.numbers, row * WIDTH
        numbers[at + STATE] = RUNNING
        values[s.PODS_STARTING] -= 1
        moments[s.PODS_STARTING] -= now
        values[s.PODS_RUNNING] += 1
        moments[s.PODS_RUNNING] += now
        if not has_run:
            return
        if numbers[at + STARTED] < 0:
            numbers[at + STARTED] = now
        above = pods.owners[row]
        while above is not None and above.started < 0:
            above.started = now
            above = above.parent
        if pods.use:
            use = pods.use.get(row)
            if use is not None and numbers[at + INTERVAL] >= 0:
                self._step(row, use, 0, now)

    def end(self, row: int, now: int) -> None:
        """A pod is over: nothing of it runs, nothing is held or waited for any more."""
        numbers, at = self.pods.numbers, row * WIDTH
        state = numbers[at + STATE]
        if state == ENDED:
            return
        numbers[at + STATE] = ENDED
        numbers[at + FINISHED] = now
        if state == PENDING:
            self._wait(row, now, -1)
            return
        metric = s.PODS_STARTING if state == BOUND else s.PODS_RUNNING
        self.series.values[metric] -= 1
        self.series.moments[metric] -= now
        self._release(row, now)
        self.nodes.places[numbers[at + PLACE]].pods.pop(row, None)

    def _hold(self, row: int, place: Place, now: int) -> None:
        size = self.pods.sorts[row].size
        self.pods.open(row, place.index, size, now)
        self._count_held(row, place, size, now, 1)

    def _release(self, row: int, now: int) -> None:
        """Close the pod's interval, if one is open."""
        pods = self.pods
        if pods.numbers[row * WIDTH + INTERVAL] >= 0:
            size, place = pods.close(row, now)
            self._count_held(row, self.nodes.places[place], size, now, -1)

    def _count_held(self, row: int, place: Place, size: Size, now: int, sign: int) -> None:
        gpu, cpu, memory = size
        values, moments = self.series.values, self.series.moments
        moment = sign * now
        values[s.CPU_ALLOCATED] += sign * cpu
        moments[s.CPU_ALLOCATED] += moment * cpu
        values[s.MEMORY_ALLOCATED] += sign * memory
        moments[s.MEMORY_ALLOCATED] += moment * memory
        self.nodes.hold(place, size, now, sign)
        self._is_stale = True
        if not gpu:
            return
        values[s.GPU_ALLOCATED] += sign * gpu
        moments[s.GPU_ALLOCATED] += moment * gpu
        above = self.pods.owners[row]
        while above is not None:
            above.gpu += sign * gpu
            if above.gpu > above.gpu_peak:
                above.gpu_peak = above.gpu
            above = above.parent
        if self.pods.use:
            self._count_told(row, place, gpu, now, sign)

    def _count_told(self, row: int, place: Place, gpu: int, now: int, sign: int) -> None:
        use = self.pods.use.get(row)
        if use is None:
            return
        self.series.add(s.GPU_TOLD, sign * gpu)
        if place.life is not None:
            place.life.tells_use = True
        if sign < 0:
            self._use(use, place, now, 0)

    # Using

    def _step(self, row: int, use: Use, step: int, now: int) -> None:
        """Make the changes of use that are due, and note when the next one is."""
        numbers, at = self.pods.numbers, row * WIDTH
        started = numbers[at + STARTED]
        place = self.nodes.places[numbers[at + PLACE]]
        while step < len(use.steps) and started + use.steps[step][0] <= now:
            self._use(use, place, now, use.steps[step][1])
            step += 1
        if step < len(use.steps):
            heappush(self._due, (started + use.steps[step][0], row, step))

    def _use(self, use: Use, place: Place, now: int, milli: int) -> None:
        delta = use.change(now, milli)
        if delta:
            self.series.add(s.GPU_USED, delta)
            if place.life is not None:
                self.nodes.settle(place.life, now)
                place.life.used += delta
