"""One session: the world, the plugins by tier, and how their answers are put together.

Which rule applies differs by question: orders take the first plugin that has one, votes end with the first tier
that has an opinion, victims are those on whom all plugins of the first tier that names any agree.

Source: volcano-sh/volcano pkg/scheduler/framework/session_plugins.go.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from fairway.volcano.configuration import VolcanoConfiguration
from fairway.volcano.facts import Floats, Ints, QueueFacts
from fairway.volcano.state import Job, Task, World
from fairway.volcano.statement import Outcome, Statement

T = TypeVar("T")
PERMIT, ABSTAIN, REJECT = 1, 0, -1
Draw = Callable[[int], int]
"""A number below its argument: how Volcano picks among equals."""


class Heap(Generic[T]):
    """A priority queue by a `less` that is asked whenever two meet, as Volcano's is; equals in order of arrival."""

    def __init__(self, less: Callable[[T, T], bool]) -> None:
        self._less = less
        self._entries: list[_Entry[T]] = []
        self._count = 0

    def push(self, item: T) -> None:
        self._count += 1
        heapq.heappush(self._entries, _Entry(item, self._count, self._less))

    def pop(self) -> T:
        return heapq.heappop(self._entries).item

    def __bool__(self) -> bool:
        return bool(self._entries)


class _Entry(Generic[T]):
    __slots__ = ("item", "less", "number")

    def __init__(self, item: T, number: int, less: Callable[[T, T], bool]) -> None:
        self.item, self.number, self.less = item, number, less

    def __lt__(self, other: _Entry[T]) -> bool:
        if self.less(self.item, other.item):
            return True
        return not self.less(other.item, self.item) and self.number < other.number


class Plugin:
    """What a plugin may answer. `hooks`: by flag of the configuration, its function; see the methods of `Session`."""

    name = ""

    def hooks(self) -> dict[str, Callable[..., Any]]:
        return {}


class Session:
    """`draw` picks among nodes of equal score; `search_from` is where the last search for nodes ended."""

    def __init__(
        self,
        world: World,
        configuration: VolcanoConfiguration,
        draw: Draw,
        search_from: int = 0,
    ) -> None:
        self.world = world
        self.configuration = configuration
        self.draw = draw
        self.search_from = search_from
        self.outcome = Outcome()
        self.notes: list[tuple[str, str]] = []
        """Events about PodGroups that could not be enqueued: (group, message)."""
        self._tiers: dict[str, list[list[Callable[..., Any]]]] = {}

    def register(self, tiers: Sequence[Sequence[tuple[Any, Plugin]]]) -> None:
        """Plugins with their options, by tier."""
        for tier in tiers:
            found: dict[str, list[Callable[..., Any]]] = {}
            for option, plugin in tier:
                for flag, hook in plugin.hooks().items():
                    if option.is_on(flag.partition(":")[0]):
                        found.setdefault(flag, []).append(hook)
            for flag, hooks in found.items():
                self._tiers.setdefault(flag, []).append(hooks)

    def _all(self, flag: str) -> Iterable[Callable[..., Any]]:
        for tier in self._tiers.get(flag, ()):
            yield from tier

    def statement(self) -> Statement:
        return Statement(self.world, self.outcome)

    # Orders

    def _compare(self, flag: str, left: Any, right: Any) -> int:
        for hook in self._all(flag):
            answer: int = hook(left, right)
            if answer:
                return answer
        return 0

    def compare_jobs(self, left: Job, right: Job) -> int:
        return self._compare("enableJobOrder", left, right)

    def job_before(self, left: Job, right: Job) -> bool:
        answer = self.compare_jobs(left, right)
        if answer:
            return answer < 0
        return (left.group.created, left.id) < (right.group.created, right.id)

    def queue_before(self, left: QueueFacts, right: QueueFacts) -> bool:
        answer = self._compare("enableQueueOrder", left, right)
        if answer:
            return answer < 0
        return (left.created, left.name) < (right.created, right.name)

    def task_before(self, left: Task, right: Task) -> bool:
        """By the plugins, then by index, then by age. Source: api/helpers CompareTask."""
        answer = self._compare("enableTaskOrder", left, right)
        if answer:
            return answer < 0
        a, b = left.facts, right.facts
        if a.index is not None and b.index is not None and a.index != b.index:
            return a.index < b.index
        return (a.created, a.namespace, a.name) < (b.created, b.namespace, b.name)

    def victims_first(self, victims: Iterable[Task], preemptor: Task) -> Heap[Task]:
        """Whom to evict first: of the queue, job and task that would be served last."""

        def before(left: Task, right: Task) -> bool:
            a, b = left.owner, right.owner
            if a is b:
                return self.task_before(right, left)
            if a.queue is not b.queue:
                return self.queue_before(b.queue, a.queue)
            answer = self.compare_jobs(a, b)
            return answer > 0 if answer else self.task_before(right, left)

        heap = Heap(before)
        for victim in victims:
            heap.push(victim)
        return heap

    # Judgements

    def why_invalid(self, job: Job) -> tuple[str, str] | None:
        """Reason and message of why the job cannot be scheduled whatever happens. No flag turns this off."""
        for hook in self._all("jobValid:"):
            why: tuple[str, str] | None = hook(job)
            if why is not None:
                return why
        return None

    def is_ready(self, job: Job) -> bool:
        return all(hook(job) for hook in self._all("enableJobReady"))

    def is_pipelined(self, job: Job) -> bool:
        return self._vote("enableJobPipelined", job)

    def is_enqueueable(self, job: Job) -> bool:
        return self._vote("enableJobEnqueued", job)

    def _vote(self, flag: str, job: Job) -> bool:
        """A rejection rejects; the first tier with a permission permits; nobody's opinion permits."""
        for tier in self._tiers.get(flag, ()):
            answers = []
            for hook in tier:
                answers.append(hook(job))
                if answers[-1] < 0:
                    return False
            if any(answer > 0 for answer in answers):
                return True
        return True

    def enqueued(self, job: Job) -> None:
        for hook in self._all("enableJobEnqueued:done"):
            hook(job)

    def is_starving(self, job: Job) -> bool:
        """Whether it wants more: all plugins of the first tier that has any say so."""
        for tier in self._tiers.get("enableJobStarving", ()):
            return all(hook(job) for hook in tier)
        return False

    def is_overused(self, queue: QueueFacts) -> bool:
        return any(hook(queue) for hook in self._all("enabledOverused"))

    def is_allocatable(self, queue: QueueFacts, task: Task) -> bool:
        return all(hook(queue, task) for hook in self._all("enabledAllocatable"))

    def may_reclaim(self, queue: QueueFacts, task: Task) -> bool:
        """Whether the queue may take from others for this task (Preemptive)."""
        return all(hook(queue, task) for hook in self._all("enablePreemptive"))

    def preemptable(self, preemptor: Task, candidates: list[Task]) -> list[Task]:
        return self._victims("enablePreemptable", preemptor, candidates)

    def reclaimable(self, reclaimer: Task, candidates: list[Task]) -> list[Task]:
        return self._victims("enableReclaimable", reclaimer, candidates)

    def _victims(self, flag: str, task: Task, candidates: list[Task]) -> list[Task]:
        """Those on whom all plugins of a tier agree; the next tier is asked where one of them names nobody."""
        for tier in self._tiers.get(flag, ()):
            agreed: list[Task] | None = None
            for hook in tier:
                named: list[Task] = hook(task, candidates)
                if not named:
                    agreed = None
                    break
                ids = {t.id for t in named}
                agreed = named if agreed is None else [t for t in agreed if t.id in ids]
            if agreed is not None:
                return agreed
        return []

    @property
    def has_predicates(self) -> bool:
        option = self.configuration.option("predicates")
        return option is not None and option.is_on("enablePredicate")

    def scores(self, task: Task, nodes: Ints) -> Floats | None:
        """The sum of what the plugins give these nodes; None: nobody scores."""
        total: Floats | None = None
        for hook in self._all("enableNodeOrder"):
            found: Floats = hook(task, nodes)
            total = found if total is None else total + found
        return total
