"""One future by the true engines: a copy of the cluster, run forward with run times that were drawn.

The copy knows what a cluster's objects say, and nothing of what a scenario or a trace has still in store: arrivals
are those it is given. What containers say of their own run time is overruled by the draw, as nobody knows it.
Autoscalers hold still: the load that they follow is as unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from fairway.answers.forecasting.arriving import again
from fairway.answers.forecasting.history import PastJob
from fairway.answers.forecasting.losses import NO_LUCK, Loss, Luck
from fairway.answers.forecasting.situation import NEVER, Item, Played, root_of
from fairway.cluster.accounts import NodeAccounts
from fairway.cluster.changes import DELETED, Change
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj, gk_of, key_of, status_of
from fairway.kube.resources import NVIDIA_GPU
from fairway.kube.timestamps import HOUR_US, SECOND_US
from fairway.queueing.control.settings import DEFAULT_KUEUE, KueueSettings
from fairway.queueing.facts import conditions as conds
from fairway.queueing.integrations.ownership import WORKLOAD
from fairway.scenario.entering import enter
from fairway.scenario.hazards import fresh_node
from fairway.scheduling.profile import DEFAULT_PROFILE, Profile
from fairway.traces.arrival import Arrivals, objects_for
from fairway.traces.jobs import JobTrace
from fairway.twin.autoscaling.component import Autoscaling
from fairway.twin.components import Component, Host
from fairway.twin.devices.gpuhealth import break_gpu
from fairway.twin.faults import plan_fault
from fairway.twin.kubelet import working
from fairway.twin.kubelet.component import Kubelet
from fairway.twin.kubelet.states import RUNNING
from fairway.twin.latency import latency_named
from fairway.twin.loop import INPUT
from fairway.twin.rules.component import ALERTMANAGER
from fairway.twin.standard import standard_components
from fairway.twin.twin import Twin

# A Job that met its criteria has done its work, though a pod on a lost node may keep it from being complete.
_ENDS: Final = ("SuccessCriteriaMet", "Complete", "Completed", "Succeeded", "Failed", "Finished")
_LEFT_OUT: Final = ("Event", "Event.events.k8s.io", "Lease.coordination.k8s.io", ALERTMANAGER)
# Between two looks whether all that was waited for has happened.
_LOOK_US: Final = HOUR_US
# So long a world in which every job takes a second is given to start what can start at all.
_HOPE_US: Final = 6 * HOUR_US
_ARRIVED: Final = "fairway-future"
# What a graceful shutdown keeps for critical pods, at most. As for `scenario.hazards`.
_CRITICAL_US: Final = 15 * SECOND_US
_OTHER_SEED: Final = 1 << 44


class Newcomers:
    """Creates what arrives in a future, and takes away what is lost in it."""

    name = "newcomers"
    kinds: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.coming: tuple[tuple[int, PastJob], ...] = ()
        self.nodes: dict[str, Obj] = {}
        """Those that are lost in the future, as they come back."""

    def attach(self, host: Host) -> None:
        self.host = host
        self._return = host.loop.register("newcomers.return", self._on_return)
        self._arrive = host.loop.register("newcomers.arrive", self._on_arrive)

    def start(self) -> None:
        """Nobody comes until a future begins."""

    def observe(self, change: Change) -> None:
        """Nothing that happens changes what arrives."""

    def fork(self) -> Newcomers:
        return Newcomers()

    def lose(self, luck: Luck) -> None:
        """Plan what is lost and what comes back."""
        store, now_us = self.host.store, self.host.loop.now_us
        self.nodes = {
            loss.node: fresh_node(node)
            for loss in luck.losses
            if (node := store.get(Key("Node", "", loss.node))) is not None
        } | dict(luck.missing)
        for loss in luck.losses:
            if loss.card >= 0:
                repair_us = 0 if loss.back_us is None else loss.back_us - loss.at_us
                after_us = loss.at_us
                break_gpu(
                    self.host,
                    loss.node,
                    loss.card,
                    loss.cause,
                    repair_us=repair_us,
                    drains=loss.drains,
                    after_us=after_us,
                )
                continue
            if loss.at_us:
                self._plan_loss(loss)
            if loss.back_us is None:
                continue
            if loss.is_gone:
                self.host.loop.at(now_us + loss.back_us, self._return, loss.node, INPUT)
            else:
                plan_fault(self.host, "recover", loss.node, after_us=loss.back_us)

    def _plan_loss(self, loss: Loss) -> None:
        if not loss.is_gone:
            plan_fault(self.host, "crash", loss.node, after_us=loss.at_us)
            return
        if loss.notice_us:
            critical_us = min(loss.notice_us // 4, _CRITICAL_US)
            plan_fault(self.host, "shutDown", loss.node, loss.notice_us, critical_us, after_us=loss.at_us)
        plan_fault(self.host, "remove", loss.node, after_us=loss.at_us + loss.notice_us)

    def _on_return(self, name: str) -> None:
        node = self.nodes.get(name)
        if node is not None and self.host.store.get(Key("Node", "", name)) is None:
            enter(self.host, node)

    def expect(self, coming: Sequence[tuple[int, PastJob]]) -> None:
        """(µs from now, job), by time."""
        self.coming = tuple(coming)
        now_us = self.host.loop.now_us
        for number, (at_us, _) in enumerate(self.coming):
            self.host.loop.at(now_us + at_us, self._arrive, number, INPUT)

    def _on_arrive(self, number: int) -> None:
        job = again(self.coming[number][1], arrived_name(number), self.host.loop.now_us).ask
        for obj in objects_for(Arrivals(JobTrace("future", ()), "future"), job):
            enter(self.host, obj)


def arrived_name(number: int) -> str:
    return f"{_ARRIVED}-{number}"


class Watching:
    """Notes when each of some objects first runs and when it ends."""

    name = "watching"

    def __init__(self, kinds: Iterable[str] = ()) -> None:
        self.kinds: tuple[str, ...] = tuple(sorted({"Pod", "Job.batch", WORKLOAD, *kinds}))
        self.number_of: dict[str, int] = {}
        self.start_us: list[int] = []
        self.finish_us: list[int] = []
        self.unstarted = 0
        self.hopeless: Collection[int] = ()
        self.evictions = 0
        self.unfinished = 0
        self.luck = NO_LUCK
        self.gpu_milli: list[int] = []
        """Of a pod of each item, and then of each that arrives."""
        self.turns: dict[int, int] = {}
        self.waited: set[int] = set()
        self.ended: set[int] = set()

    def attach(self, host: Host) -> None:
        self.host = host

    def start(self) -> None:
        """It is told whom to watch."""

    def fork(self) -> Watching:
        return Watching(self.kinds)

    def watch(self, items: Sequence[Item], hopeless: Collection[int] = ()) -> None:
        """`hopeless`: numbers of items that nobody waits for."""
        self.number_of = {item.uid: n for n, item in enumerate(items)}
        self.start_us = [NEVER if item.since_us is None else 0 for item in items]
        self.finish_us = [NEVER] * len(items)
        self.begin_us = self.host.loop.now_us
        self.hopeless = hopeless
        self.unstarted = sum(item.since_us is None for item in items) - len(hopeless)
        self.waited = {n for n, item in enumerate(items) if item.since_us is None} - set(hopeless)
        self.unfinished = len(self.waited) if self.luck.is_any else 0
        if self.luck.rates:
            for pod in self.host.store.objects("Pod"):
                if status_of(pod).get("phase") == "Running":
                    self._doom(pod)

    def _doom(self, pod: Obj) -> None:
        """A pod begins to run: when it dies, if it does."""
        root = root_of(self.host.store, pod)["metadata"]
        number = self.number_of.get(root["uid"])
        if number is None and root["name"].startswith(_ARRIVED + "-"):
            number = len(self.start_us) + int(root["name"].rpartition("-")[2])
        if number is None or number >= len(self.gpu_milli):
            return
        turn = self.turns.get(number, 0)
        self.turns[number] = turn + 1
        after_us = self.luck.dies_after_us(number, turn, self.gpu_milli[number])
        if after_us is not None:
            plan_fault(self.host, "kill", key_of(pod), "", 1, after_us=after_us)

    def observe(self, change: Change) -> None:
        obj, old = change.obj, change.old
        if not self.number_of:
            return
        if change.type == DELETED:
            if change.key.gk == "Pod":
                self._take_back(obj)
            return
        status, before = status_of(obj), status_of(old or {})
        if change.key.gk == "Pod":
            phase = status.get("phase")
            if phase != before.get("phase") and phase in ("Running", "Succeeded", "Failed"):
                is_alone = "ownerReferences" not in obj["metadata"]
                self._note(obj, is_end=phase != "Running" and is_alone, is_lost=phase == "Failed")
                if phase == "Running" and self.luck.rates:
                    self._doom(obj)
        elif change.key.gk == WORKLOAD:
            is_evicted = conds.is_true(status, conds.EVICTED) and not conds.is_true(before, conds.EVICTED)
            self.evictions += is_evicted
        else:
            true = {c.get("type") for c in status.get("conditions") or () if c.get("status") == "True"}
            if true.intersection(_ENDS):
                self._note(obj, is_end=True, is_lost="Failed" in true)

    def _note(self, obj: Obj, *, is_end: bool, is_lost: bool = False) -> None:
        number = self.number_of.get(root_of(self.host.store, obj)["metadata"]["uid"])
        if number is None:
            return
        at_us = self.host.loop.now_us - self.begin_us
        if self.start_us[number] < 0:
            self.start_us[number] = at_us
            self.unstarted -= number not in self.hopeless
        if is_end and self.finish_us[number] < 0 and number not in self.ended:
            self.ended.add(number)
            self.unfinished -= self.luck.is_any and number in self.waited
            # What fails for want of what was lost never finishes.
            if not (is_lost and self.luck.is_any):
                self.finish_us[number] = at_us

    def _take_back(self, pod: Obj) -> None:
        """A pod that went the moment it began to run, without an end of its own, was no start."""
        number = self.number_of.get(root_of(self.host.store, pod)["metadata"]["uid"])
        if number is None or status_of(pod).get("phase") == "Succeeded" or self.finish_us[number] >= 0:
            return
        at_us = self.host.loop.now_us - self.begin_us
        if at_us and self.start_us[number] == at_us:
            self.start_us[number] = NEVER
            self.unstarted += number not in self.hopeless


def copy_of(
    objects: Iterable[Obj],
    now_us: int,
    *,
    kueue: KueueSettings = DEFAULT_KUEUE,
    profiles: Sequence[Profile] = (DEFAULT_PROFILE,),
    kinds: Iterable[str] = (),
    others: Sequence[Component] = (),
    seed: int = 0,
) -> Twin:
    """A twin that goes on from these objects; what has ended is left behind. `kinds`: of the objects to watch."""
    # UIDs follow from the seed: those of a future must not be those of the objects that are there.
    store = Store(seed=_OTHER_SEED + seed, now_us=now_us)
    for obj in objects:
        if gk_of(obj) not in _LEFT_OUT and not has_ended(obj):
            store.load(obj)
    standard = [c for c in standard_components(profiles, kueue=kueue) if not isinstance(c, Autoscaling)]
    components: list[Component] = [Newcomers(), *standard, *others, Watching(kinds)]
    return Twin(seed=seed, latency=latency_named("zero"), components=components, start_us=now_us, store=store)


def has_ended(obj: Obj) -> bool:
    status = obj.get("status")
    if not isinstance(status, dict):
        return False
    if status.get("phase") in ("Succeeded", "Failed"):
        return True
    conditions = status.get("conditions") or ()
    return gk_of(obj) in ("Job.batch", WORKLOAD) and any(
        c.get("type") in _ENDS and c.get("status") == "True" for c in conditions
    )


def play(
    base: Twin,
    items: Sequence[Item],
    run_us: Sequence[int],
    coming: Sequence[tuple[int, PastJob]],
    coming_run_us: Sequence[int],
    *,
    until_us: int,
    grid_us: Sequence[int] = (),
    hopeless: Collection[int] = (),
    luck: Luck = NO_LUCK,
) -> Played:
    """One future. `run_us`: whole run times of the items, the part that has passed included. It ends when all have
    started but the `hopeless`, and ended where something is lost, and not before the grid does."""
    twin = base.fork()
    watching = begin(twin, items, run_us, coming, coming_run_us, hopeless, luck)
    begin_us = twin.now_us
    queued, held = [], []
    for mark_us in grid_us:
        twin.run(begin_us + mark_us)
        queued.append(_waiting(twin.store))
        held.append(gpus_held(twin.store.accounts))
    while twin.now_us < begin_us + until_us and (watching.unstarted or watching.unfinished):
        twin.run(min(begin_us + until_us, twin.now_us + _LOOK_US))
    # Where the future ended before it did: as if nothing happened to it any more.
    planned = _planned(twin, watching.number_of, begin_us)
    finish_us = [
        planned.get(number, NEVER) if end < 0 and number not in watching.ended else end
        for number, end in enumerate(watching.finish_us)
    ]
    return Played(watching.start_us, finish_us, queued, held, watching.evictions)


def _planned(twin: Twin, number_of: Mapping[str, int], begin_us: int) -> dict[int, int]:
    """When those end all of whose pods run, µs from the beginning."""
    kubelet = twin.host.parts["kubelet"]
    assert isinstance(kubelet, Kubelet)
    found: dict[int, int] = {}
    for pod in twin.store.objects("Pod"):
        number = number_of.get(root_of(twin.store, pod)["metadata"]["uid"])
        if number is None or status_of(pod).get("phase") in ("Succeeded", "Failed"):
            continue
        state = kubelet.pods.get(pod["metadata"]["uid"])
        ends = (
            []
            if state is None or state.is_lost
            else [c.exit_at for c in state.containers if c.state == RUNNING]
        )
        end_us = max((e.finished_us for e in ends if e is not None), default=None)
        before_us = found.get(number, 0)
        found[number] = NEVER if end_us is None or before_us < 0 else max(before_us, end_us - begin_us)
    return found


def hopeless_of(base: Twin, items: Sequence[Item]) -> frozenset[int]:
    """Numbers of those that would not start though whatever runs ended within a second and nothing new came."""
    twin = base.fork()
    watching = begin(twin, items, [SECOND_US] * len(items), (), ())
    end_us = twin.now_us + _HOPE_US
    while twin.now_us < end_us and watching.unstarted:
        twin.run(min(end_us, twin.now_us + _LOOK_US))
    return frozenset(number for number, start_us in enumerate(watching.start_us) if start_us == NEVER)


def begin(
    twin: Twin,
    items: Sequence[Item],
    run_us: Sequence[int],
    coming: Sequence[tuple[int, PastJob]],
    coming_run_us: Sequence[int],
    hopeless: Collection[int] = (),
    luck: Luck = NO_LUCK,
) -> Watching:
    """Give this twin, made by `copy_of`, the future's luck; run it to see what comes of it."""
    watching, newcomers, kubelet = (twin.host.parts[n] for n in ("watching", "newcomers", "kubelet"))
    assert isinstance(watching, Watching) and isinstance(newcomers, Newcomers)
    assert isinstance(kubelet, Kubelet)
    watching.luck = luck
    watching.gpu_milli = [item.ask.gpu_milli for item in items] + [job.ask.gpu_milli for _, job in coming]
    watching.watch(items, hopeless)
    named = {item.uid: run for item, run in zip(items, run_us, strict=True)}
    arrived = {arrived_name(n): run for n, run in enumerate(coming_run_us)}
    kubelet.drawn_us = _drawn(twin.store, named, arrived)
    for pod in list(kubelet.pods.values()):
        for i, state in enumerate(pod.containers):
            if state.state == RUNNING and state.exit_at is not None:
                twin.loop.cancel(state.exit_ticket)
                working.plan_exit(kubelet, pod, i)
    newcomers.expect(coming)
    newcomers.lose(luck)
    return watching


def _drawn(store: Store, named: Mapping[str, int], arrived: Mapping[str, int]) -> Callable[[Key], int | None]:
    known: dict[str, int | None] = {}

    def drawn_us(key: Key) -> int | None:
        pod = store.get(key)
        if pod is None:
            return None
        root = root_of(store, pod)["metadata"]
        uid = root["uid"]
        if uid not in known:
            known[uid] = named[uid] if uid in named else arrived.get(root["name"])
        return known[uid]

    return drawn_us


def gpus_held(accounts: NodeAccounts) -> int:
    column = accounts.column_of.get(NVIDIA_GPU)
    return 0 if column is None else int(accounts.requested[:, column].sum())


def _waiting(store: Store) -> int:
    """Objects without a pod that runs. O(pods)."""
    running = {root_of(store, p)["metadata"]["uid"] for p in store.objects("Pod") if _runs(p)}
    roots = {
        root_of(store, p)["metadata"]["uid"]
        for p in store.objects("Pod")
        if p["spec"].get("restartPolicy") != "Always"
    }
    roots |= {
        root_of(store, w)["metadata"]["uid"]
        for w in store.objects(WORKLOAD)
        if not conds.is_true(status_of(w), conds.FINISHED)
    }
    return len(roots - running)


def _runs(pod: Obj) -> bool:
    return bool(status_of(pod).get("phase") not in (None, "Pending"))
