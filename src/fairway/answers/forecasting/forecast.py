"""The answer: when each pending object starts and ends, and what lies ahead of queues, GPUs and money.

    answer = forecast(open_ground(path), "8h")
    answer.objects[0].start.p50

Quantiles are None where the future does not reach so far within the horizon: "later than that", never a number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from fairway.answers.forecasting import twins
from fairway.answers.forecasting.arriving import Arrivals
from fairway.answers.forecasting.calibration import QUANTILES, Calibration, scale, unscale
from fairway.answers.forecasting.futures import (
    AHEAD_HOURS,
    FUTURES,
    HORIZON_US,
    TWIN_FUTURES,
    Futures,
    Player,
    Progressing,
    Question,
    QuickPlayer,
    Runs,
    TwinPlayer,
    needs_twin,
    play_all,
)
from fairway.answers.forecasting.history import History, history_of
from fairway.answers.forecasting.keeping import found_beside
from fairway.answers.forecasting.losses import NO_LOSSES, Losses, losses_of
from fairway.answers.forecasting.runtimes import RunTimes
from fairway.answers.forecasting.situation import Situation, situation_of
from fairway.answers.trials import price_of
from fairway.cluster.store import Store
from fairway.ground.ground import Ground, Moment
from fairway.kube.resources import NVIDIA_GPU
from fairway.kube.timestamps import SECOND_US, rfc3339
from fairway.queueing.control.settings import DEFAULT_KUEUE
from fairway.results.run import Run
from fairway.twin.autoscaling.component import SCALERS
from fairway.twin.components import Component
from fairway.twin.kubelet.component import Kubelet
from fairway.twin.kueue.component import Kueue
from fairway.twin.nodegroups.component import ClusterAutoscaler
from fairway.twin.provisioner.component import Provisioner
from fairway.twin.scheduler import SchedulerComponent
from fairway.twin.twin import Twin

UNCALIBRATED: Final = (
    "not calibrated: nothing known of how earlier forecasts did is used here (--backtest learns it)"
)


Playing = Callable[[Question, int, Progressing | None], Futures]


@dataclass(frozen=True, slots=True)
class Options:
    """`futures` 0: 200, or 20 where all engines play them. `load`: so many times the arrivals of the past.
    `processes` 0: all cores."""

    futures: int = 0
    seed: int = 0
    horizon_us: int = HORIZON_US
    processes: int = 0
    load: float = 1.0
    engine: str = "auto"
    """`auto`, `twin` (all engines), or `quick` (kube-scheduler's alone)."""


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Seconds from now; None: later than the horizon."""

    p10: float | None
    p50: float | None
    p90: float | None


@dataclass(frozen=True, slots=True)
class ObjectForecast:
    """One pending object."""

    object: str
    queue: str
    gpus: float
    waited_s: float
    start: Quantiles
    finish: Quantiles
    basis: str
    """What its run time is known by."""
    calibration: str


@dataclass(frozen=True, slots=True)
class Ahead:
    """The cluster after so many hours. Spend: of all nodes until then, at today's prices; None where none has one."""

    hours: int
    queued: Quantiles
    allocated_gpus: Quantiles
    spend_usd: float | None


@dataclass(frozen=True, slots=True)
class Forecast:
    """`notes`: what could not be known."""

    ground: str
    now: str
    futures: int
    seed: int
    horizon_s: float
    engine: str
    objects: tuple[ObjectForecast, ...]
    ahead: tuple[Ahead, ...]
    gpus: float
    calibration: dict[str, Any]
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def forecast(
    ground: Ground,
    at: str | None = None,
    options: Options | None = None,
    *,
    calibration: Calibration | None = None,
    progress: Progressing | None = None,
    elsewhere: Playing | None = None,
) -> Forecast:
    """`calibration` None: what a backtest kept beside a run, if it did. `elsewhere`: who plays the futures, if not the
    processes of this machine.

    Raises: UserError, InvalidInput, WorldError.
    """
    options = options or Options()
    found = asked(ground, at, options)
    moment, run, history, situation, question = (
        found.moment,
        found.run,
        found.history,
        found.situation,
        found.question,
    )
    engine, losses = found.engine, question.losses
    count = options.futures or (FUTURES if isinstance(question.player, QuickPlayer) else TWIN_FUTURES)
    futures = (
        play_all(question, count, processes=options.processes, progress=progress)
        if elsewhere is None
        else elsewhere(question, count, progress)
    )
    notes = [*moment.notes, *run.info.notes, *history.notes]
    if calibration is None:
        calibration, told = found_beside(ground, moment.now_us)
        notes += told
    notes += [f"what is lost is drawn anew in every future: {words}" for words in losses.basis]
    if question.arrivals.note:
        notes.append(question.arrivals.note)
    if "Node" in moment.unseen:
        notes.append("no nodes are known: nothing can start in any future")
    if any(moment.store.count(gk) for kinds in SCALERS.values() for gk in kinds):
        notes.append("autoscalers hold still in every future: the load that they follow is not known ahead")
    return Forecast(
        ground.name,
        rfc3339(moment.now_us),
        count,
        options.seed,
        options.horizon_us / SECOND_US,
        engine,
        _objects(situation, question.runs.times, futures, calibration, options.horizon_us / SECOND_US),
        _ahead(moment.twin, futures),
        gpus_of(moment.store),
        calibration.as_json(),
        tuple(dict.fromkeys(notes)),
    )


@dataclass(frozen=True, slots=True)
class Asked:
    """What is known of a cluster at a moment, and the question that futures answer. `engine`: who plays, and why."""

    moment: Moment
    run: Run
    history: History
    situation: Situation
    question: Question
    engine: str


def asked(ground: Ground, at: str | None, options: Options) -> Asked:
    """Raises: UserError, InvalidInput, WorldError."""
    moment = ground.at(at)
    run = ground.history(at)
    history = history_of(run.outcome, moment.now_us)
    situation = situation_of(moment.store, moment.now_us)
    losses = losses_of(moment, run.outcome)
    question, engine = question_of(moment, situation, history, options, losses=losses)
    return Asked(moment, run, history, situation, question, engine)


def question_of(
    moment: Moment,
    situation: Situation,
    history: History,
    options: Options,
    *,
    looks_ahead: bool = True,
    losses: Losses = NO_LOSSES,
) -> tuple[Question, str]:
    """What futures are drawn from, and which engine plays them and why."""
    now_us = moment.now_us
    arrivals = Arrivals(history, now_us, factor=options.load)
    kueue = moment.twin.host.parts.get("kueue")
    backlog = kueue.backlog if isinstance(kueue, Kueue) and kueue.is_awake else None
    why = needs_twin(moment.store, situation, backlog, losses) if options.engine == "auto" else ""
    is_quick = options.engine == "quick" or (options.engine == "auto" and not why)
    player: Player | None = None
    if is_quick:
        profile, saved = _scheduler(moment).profiles[0], saved_of(moment)
        quick = QuickPlayer(moment.store, situation, arrivals.jobs, profile, backlog, losses, saved)
        if losses.is_any and quick.why_asked:
            # Kube-scheduler itself is asked then, of nodes as they are.
            why = f"nodes are lost, and {quick.why_asked}"
        else:
            player = quick
    if player is not None:
        engine = "kube-scheduler's placement alone" if backlog is None else "placement and quota alone"
    else:
        player = TwinPlayer(base_of(moment, situation), situation, arrivals.jobs)
        engine = "all engines" + (f" ({why})" if why else "")
    runs = Runs(RunTimes(history, now_us), situation, arrivals.jobs)
    question = Question(
        situation, runs, arrivals, player, options.seed, options.horizon_us, looks_ahead, losses
    )
    return question, engine


def base_of(moment: Moment, situation: Situation, others: Sequence[Component] = ()) -> Twin:
    """A twin of what is there, configured as the one it comes from, that knows nothing of what a scenario plans."""
    parts = moment.twin.host.parts
    kueue = parts.get("kueue")
    provisioners = [
        type(part)(part.cloud) if isinstance(part, Provisioner) else ClusterAutoscaler(part.plan)
        for part in parts.values()
        if isinstance(part, Provisioner | ClusterAutoscaler)
    ]
    twin = twins.copy_of(
        (obj for gk in moment.store.kinds() for obj in moment.store.objects(gk)),
        moment.now_us,
        profiles=_scheduler(moment).profiles,
        kinds={item.key.gk for item in situation.items},
        others=(*provisioners, *others),
        kueue=kueue.settings if isinstance(kueue, Kueue) else DEFAULT_KUEUE,
    )
    had, has = parts.get("kubelet"), twin.host.parts["kubelet"]
    if isinstance(had, Kubelet) and isinstance(has, Kubelet):
        has.progress = had.progress.fork()
    return twin


def saved_of(moment: Moment) -> dict[str, list[int]]:
    """What runs that were cut short left in checkpoints and nobody has gone on from, by the uid of whose they were."""
    kubelet = moment.twin.host.parts.get("kubelet")
    found: dict[str, list[int]] = {}
    if isinstance(kubelet, Kubelet):
        for identity, pool in kubelet.progress.pools().items():
            found.setdefault(identity.partition("/")[0], []).extend(pool)
    return found


def _scheduler(moment: Moment) -> SchedulerComponent:
    return next(p for p in moment.twin.components if isinstance(p, SchedulerComponent))


def _objects(
    situation: Situation, times: RunTimes, futures: Futures, calibration: Calibration, horizon_s: float
) -> tuple[ObjectForecast, ...]:
    found = []
    said = f"calibrated {calibration.words}" if calibration.cases else UNCALIBRATED
    for number, item in enumerate(situation.items):
        if item.since_us is not None:
            continue
        start = calibration.apply(*quantiles(futures.start_s[:, number]))
        finish = calibration.apply(*quantiles(futures.finish_s[:, number]))
        found.append(
            ObjectForecast(
                item.object,
                item.ask.queue,
                item.ask.gpu_milli * item.ask.replicas / 1000,
                (situation.now_us - item.ask.submit_us) / SECOND_US,
                _within(start, horizon_s),
                _within(finish, np.inf),
                times.of(item.ask, item.limit_us).basis,
                said,
            )
        )
    return tuple(found)


def quantiles(values: Any) -> tuple[float, float, float]:
    """P10, P50 and P90. What never came (inf) counts as later than all others.

    Of n draws the k-th smallest is, on average, the quantile k / (n + 1) of what they are drawn from (Weibull 1939);
    what lies between two is read off on a scale of logarithms. The k nearest to q * n instead would leave a quarter
    of the truths outside where sixteen futures are drawn.
    """
    ordered = np.sort(values)
    low, middle, high = (_quantile(ordered, q) for q in QUANTILES)
    return low, middle, high


def _quantile(ordered: Any, level: float) -> float:
    place = min(max(level * (len(ordered) + 1) - 1, 0.0), len(ordered) - 1.0)
    first, share = int(place), place - int(place)
    before, after = ordered[first], ordered[min(first + 1, len(ordered) - 1)]
    if not share or not np.isfinite(after):
        return float(after if share >= 0.5 else before)
    return max(0.0, float(unscale((1 - share) * scale(before) + share * scale(after))))


def _within(values: tuple[float, float, float], horizon_s: float) -> Quantiles:
    low, middle, high = (round(v, 1) if np.isfinite(v) and v <= horizon_s else None for v in values)
    return Quantiles(low, middle, high)


def _ahead(twin: Twin, futures: Futures) -> tuple[Ahead, ...]:
    if not futures.queued.size:
        return ()
    per_hour = usd_per_hour(twin)
    found = []
    for number, hours in enumerate(AHEAD_HOURS):
        found.append(
            Ahead(
                hours,
                _within(quantiles(futures.queued[:, number]), np.inf),
                _within(quantiles(futures.held[:, number]), np.inf),
                None if per_hour is None else round(per_hour * hours, 2),
            )
        )
    return tuple(found)


def usd_per_hour(twin: Twin) -> float | None:
    """What the nodes that are there cost, as far as their prices are known; None where none is."""
    known = [micros for node in twin.store.objects("Node") if (micros := price_of(twin, node)) is not None]
    return sum(known) / 1e6 if known else None


def gpus_of(store: Store) -> float:
    accounts = store.accounts
    column = accounts.column_of.get(NVIDIA_GPU)
    return 0.0 if column is None else float(accounts.allocatable[:, column].sum())
