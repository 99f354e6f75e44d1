"""Pure controllers on the loop: work queues, rates, retries, and carrying out what they decide.

Each controller has a queue of keys without duplicates; a key that changes while it is worked on is queued
once more when that is done. Requests draw from one budget shared by all controllers, as in
kube-controller-manager. What they create passes admission, as at a real API server: defaults, priorities,
tolerations and limit ranges change it; quotas and namespaces on their way out refuse it. A refused creation is
told to the controller and retried, later every time; what a slow start would have tried beside it is tried first.

Source: client-go util/workqueue (default_rate_limiters.go), kube-controller-manager --kube-api-qps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Final

from fairway.cluster.actions import Action, Create, Emit, View, perform
from fairway.cluster.changes import ADDED, Change
from fairway.cluster.errors import NAMESPACE_TERMINATING, ApiError
from fairway.errors import BugError
from fairway.kube.objects import Key
from fairway.kube.timestamps import SECOND_US
from fairway.twin.components import Host
from fairway.twin.loop import CONTROLLERS
from fairway.workloads.controller import Controller

# DefaultTypedItemBasedRateLimiter: 5 ms doubling to 1000 s, per item.
_RETRY_BASE_US: Final = 5_000
_RETRY_MAX_US: Final = 1000 * SECOND_US
_NO_TICKET: Final = 0
# Keys looked at in one event, so that Ctrl-C, which waits for the end of an event, waits milliseconds.
_TURNS_AT_ONCE: Final = 32

Item = tuple[int, Key]
"""Which controller (by number), which key."""

Work = tuple[Item, tuple[Action, ...], int]
"""What a decision wants done, and how much of it is."""

Affected = Callable[[View, Change], Iterable[tuple[Controller, Key]]]
"""Who has to look at what after a change: a faster answer than asking every controller that watches."""


class Controllers:
    """All controllers of one control plane."""

    def __init__(
        self,
        controllers: Sequence[Controller],
        affected: Affected | None = None,
        name: str = "kube-controller-manager",
    ) -> None:
        self.name = name
        self.controllers = tuple(controllers)
        self.affected = affected or self._ask_all
        self._given = affected
        self.kinds: tuple[str, ...] = tuple({gk: None for c in self.controllers for gk in c.watches})
        self.acts_on: tuple[str, ...] = tuple({c.gk: None for c in self.controllers})
        self._number = {c.name: i for i, c in enumerate(self.controllers)}
        if len(self._number) < len(self.controllers):
            raise BugError(f"two controllers share a name: {[c.name for c in self.controllers]}")
        self._queued: dict[Item, None] = {}
        """Keys waiting for their turn."""
        self._turns: dict[int, deque[Item]] = {}
        """Whose turn it is when; one event is planned for each of these times."""
        self._again: dict[Item, int] = {}
        """Keys to be looked at at some time even if nothing changes."""
        self._working: dict[Item, bool] = {}
        """Keys whose actions are being carried out; true: changed meanwhile."""
        self._failures: dict[Item, int] = {}
        self._stumbling: dict[Item, None] = {}
        """Keys over which their controller raised, and has not got past since."""
        self._refused: dict[Item, list[str]] = {}
        """What the API said to creations of a batch that is not through yet."""
        self._tokens_us = 0
        """The budget of requests: when it would be full again, in µs."""
        self._short: deque[Work] = deque()
        """Work that waits for the budget, in order; one event is planned for the first of it."""
        self._is_armed = False
        self._asked: dict[Item, Work] = {}
        """Work that a webhook outside is being asked about."""

    def without(
        self, names: Collection[str], instead: Sequence[Controller] = (), name: str = ""
    ) -> Controllers | None:
        """New ones, less those of these names; `instead`: who does the work of those that bear the same name. `name`:
        what they are called together then. None: nobody is left."""
        others = {c.name: c for c in instead}
        stay = tuple(others.get(c.name, c) for c in self.controllers if c.name not in names)
        given, name = self._given, name or self.name
        if given is None or len(stay) == len(self.controllers):
            return Controllers(stay, given, name) if stay else None
        kept = frozenset(c.name for c in stay)

        def affected(view: View, change: Change) -> list[tuple[Controller, Key]]:
            return [(c, key) for c, key in given(view, change) if c.name in kept]

        return Controllers(stay, affected, name) if stay else None

    def attach(self, host: Host) -> None:
        self.host = host
        self._turn = host.loop.register(f"{self.name}.reconcile", self._on_turn)
        self._wake = host.loop.register(f"{self.name}.again", self._on_again)
        self._act = host.loop.register(f"{self.name}.act", self._on_act)
        latency, stream = host.latency, host.streams.stream(self.name)
        self._reconcile_us = latency.controller_reconcile.sampler(stream)
        self._write_us = latency.api_write.sampler(stream)
        self._arm()

    def start(self) -> None:
        """Queues fill as changes come."""

    def fork(self) -> Controllers:
        twin = Controllers(self.controllers, self._given, self.name)
        twin._queued = dict(self._queued)
        twin._turns = {at_us: items.copy() for at_us, items in self._turns.items()}
        twin._again = dict(self._again)
        twin._working = dict(self._working)
        twin._failures = dict(self._failures)
        twin._stumbling = dict(self._stumbling)
        twin._refused = {item: list(said) for item, said in self._refused.items()}
        twin._tokens_us = self._tokens_us
        twin._short = self._short.copy()
        twin._is_armed = self._is_armed
        # A fork asks nobody outside.
        twin._short.extend(self._asked.values())
        return twin

    # Queueing

    def observe(self, change: Change) -> None:
        for controller, key in self.affected(self.host.store, change):
            item = (self._number[controller.name], key)
            if item in self._failures and change.key == key and change.type == ADDED:
                # A new object of an old name does not wait as long as the old one that was refused.
                self._queued.pop(item, None)
            self._enqueue(item, controller.delay_us)

    def _ask_all(self, view: View, change: Change) -> list[tuple[Controller, Key]]:
        gk = change.key[0]
        asked = [c for c in self.controllers if gk in c.watches]
        return [(c, key) for c in asked for key in c.map_change(view, change)]

    def _enqueue(self, item: Item, after_us: int = 0) -> None:
        if item in self._queued:
            return
        if item in self._working:
            self._working[item] = True
            return
        self._queue(item, self.host.loop.now_us + after_us + self._reconcile_us() + self._write_us())

    def _queue(self, item: Item, at_us: int) -> None:
        self._queued[item] = None
        items = self._turns.get(at_us)
        if items is None:
            items = self._turns[at_us] = deque()
            self.host.loop.at(at_us, self._turn, at_us, CONTROLLERS)
        items.append(item)

    def _on_again(self, item: Item) -> None:
        self._again.pop(item, None)
        self._enqueue(item)

    # Working

    def _on_turn(self, at_us: int) -> None:
        """Look at the keys whose turn it is. Those of one microsecond share an event, as the workers of a
        controller share a moment: what one does the others' watchers see after it."""
        items = self._turns[at_us]
        for _ in range(min(len(items), _TURNS_AT_ONCE)):
            item = items.popleft()
            try:
                self._look_at(item)
                if self._stumbling:
                    self._recovered(item)
            except Exception as failed:
                self._stumbled(item, failed)
        if items:
            self.host.loop.at(at_us, self._turn, at_us, CONTROLLERS)
        else:
            del self._turns[at_us]

    def _look_at(self, item: Item) -> None:
        self._queued.pop(item, None)
        if item in self._working:
            # It came again while it was under way, before the turn that a refusal had given it.
            self._working[item] = True
            return
        i, key = item
        loop = self.host.loop
        decided = self.controllers[i].reconcile(self.host.store, key, loop.now_us)
        before = self._again.pop(item, _NO_TICKET)
        if before:
            loop.cancel(before)
        if decided.again_at_us is not None:
            self._again[item] = loop.at(decided.again_at_us, self._wake, item, CONTROLLERS)
        self._carry_out(item, decided.actions, 0)

    def _on_act(self, _data: None) -> None:
        """The budget allows a request again: go on with what has waited longest."""
        self._is_armed = False
        self._go_on(self._short.popleft())
        self._arm()

    def _go_on(self, work: Work) -> None:
        item, actions, done = work
        self._asked.pop(item, None)
        try:
            self._carry_out(item, actions, done)
            if self._stumbling:
                self._recovered(item)
        except Exception as failed:
            self._stumbled(item, failed)

    def _stumbled(self, item: Item, failed: Exception) -> None:
        """A controller raised over one key: that key is tried again, as after a refusal; the others have their turn."""
        containment = self.host.containment
        if containment is None:
            raise failed
        containment.failed(self.name, self.controllers[item[0]].name, item[1], failed)
        self._stumbling[item] = None
        self._working.pop(item, None)
        self._refused.pop(item, None)
        if containment.tries is None or self._failures.get(item, 0) < containment.tries:
            self._retry(item)

    def _recovered(self, item: Item) -> None:
        """A key that was stumbled over was looked at without falling."""
        if item in self._stumbling and item not in self._working and item not in self._failures:
            del self._stumbling[item]
            if self.host.containment is not None:
                self.host.containment.succeeded(self.name, self.controllers[item[0]].name, item[1])

    def _carry_out(self, item: Item, actions: tuple[Action, ...], done: int) -> None:
        """Do the actions in order, as far as the request budget goes; the rest when it allows."""
        while done < len(actions):
            action = actions[done]
            if not isinstance(action, Emit) and not self._take_token():
                self._working.setdefault(item, False)
                self._wait((item, actions, done))
                return
            did = self._do(item, action, (item, actions, done))
            if did is None:
                self._working.setdefault(item, False)
                return
            if not did:
                actions, done = self._left_of_batch(item, actions, done)
                continue
            done += 1
        if self._refused and item in self._refused:
            self._after_refusals(item)
            self._retry(item)
        elif self._failures:
            self._failures.pop(item, None)
        if self._working and self._working.pop(item, False):
            self._enqueue(item)

    def _wait(self, work: Work) -> None:
        """Stand in line for the budget: at its head if the work was already under way."""
        if work[2]:
            self._short.appendleft(work)
        else:
            self._short.append(work)
        self._arm()

    def _arm(self) -> None:
        if self._short and not self._is_armed:
            self._is_armed = True
            self.host.loop.at(self._token_at(), self._act, None, CONTROLLERS)

    def _token_at(self) -> int:
        """When the next request may go. Written as a time: the budget is full at `_tokens_us`, and each
        request puts that off by its price."""
        latency, now_us = self.host.latency, self.host.loop.now_us
        if not latency.controller_qps:
            return now_us
        each_us = SECOND_US // latency.controller_qps
        full_us = max(self._tokens_us, now_us)
        return max(full_us - (max(latency.controller_burst, 1) - 1) * each_us, now_us)

    def _take_token(self) -> bool:
        """Whether a request may go now; if so its price is paid. 0 requests a second: no limit."""
        qps = self.host.latency.controller_qps
        if not qps:
            return True
        now_us = self.host.loop.now_us
        if self._token_at() > now_us:
            return False
        self._tokens_us = max(self._tokens_us, now_us) + SECOND_US // qps
        return True

    def _do(self, item: Item, action: Action, work: Work) -> bool | None:
        """Carry out one action; False when the API refused a creation. None: a webhook is being asked, and `work` goes
        on from here once it is known."""
        if isinstance(action, Emit):
            self._emit(action)
            return True
        if not isinstance(action, Create):
            perform(self.host.store, action)
            return True
        try:
            if not self.host.create(action.obj, partial(self._go_on, work)):
                self._asked[item] = work
                return None
        except ApiError as refused:
            self._was_refused(item, refused)
            return False
        return True

    def _was_refused(self, item: Item, refused: ApiError) -> None:
        said = self._refused.setdefault(item, [])
        # Of a namespace that is going away nothing is told. Source: RealPodControl.createPods.
        if not self.controllers[item[0]].slow_start or NAMESPACE_TERMINATING not in refused.causes:
            said.append(refused.message)

    def _left_of_batch(
        self, item: Item, actions: tuple[Action, ...], refused: int
    ) -> tuple[tuple[Action, ...], int]:
        """The actions that are still carried out although the creation at `refused` was not, and where they go on."""
        go_on = _behind(actions, refused)
        if not self.controllers[item[0]].slow_start:
            return actions[:go_on], go_on
        return actions[: _end_of_batch(actions, refused)], go_on

    def _after_refusals(self, item: Item) -> None:
        told = self.controllers[item[0]].refused
        for message in self._refused.pop(item):
            if told is None:
                continue
            for action in told(self.host.store, item[1], self.host.loop.now_us, message).actions:
                if isinstance(action, Emit):
                    self._emit(action)
                else:
                    perform(self.host.store, action)

    def _retry(self, item: Item) -> None:
        failures = self._failures.get(item, 0)
        self._failures[item] = failures + 1
        # That often doubled it is beyond the maximum: the exponent need not grow further.
        delay_us = min(_RETRY_BASE_US << min(failures, _RETRY_MAX_US.bit_length()), _RETRY_MAX_US)
        if item not in self._queued:
            self._queue(item, self.host.loop.now_us + delay_us)

    def _emit(self, said: Emit) -> None:
        host = self.host
        now_us = host.loop.now_us
        obj = host.store.get(said.about)
        uid = "" if obj is None else obj["metadata"]["uid"]
        host.events.emit(now_us, said.about, uid, said.type, said.reason, said.message, said.component)
        about = said.about
        host.log.record(
            now_us, said.component, about.gk, about.namespace, about.name, said.reason, said.message
        )


def _behind(actions: tuple[Action, ...], at: int) -> int:
    """Behind a creation and what would have been said about it."""
    at += 1
    while at < len(actions) and isinstance(actions[at], Emit):
        at += 1
    return at


def _end_of_batch(actions: tuple[Action, ...], refused: int) -> int:
    """Pods are created 1, 2, 4, 8, … at once, and a batch is tried to its end. Source: slowStartBatch."""
    creations = [i for i, a in enumerate(actions) if isinstance(a, Create) and a.obj["kind"] == "Pod"]
    if refused not in creations:
        return _behind(actions, refused)
    nth = creations.index(refused) + 1
    last = min((1 << nth.bit_length()) - 1, len(creations))
    return _behind(actions, creations[last - 1])
