"""What will be lost: nodes that fail or are taken back, GPUs that break, pods that die?

Rates are those that a simulation declares (its `faults`, its spot market), conditional on how long each node has been
there already; never the draws that it has in store. A cluster that declares none has its own record: losses of nodes
per node-hour, how long they were gone, and deaths of pods per hour by the number of GPUs. Each future has its own
draws, the same for counted futures as for those of all engines.

Not drawn: losses of nodes that are opened only in the future, and interruptions that a scenario has recorded ahead.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from statistics import median
from typing import Final

from fairway.catalog.nodegpus import gpus_of_node
from fairway.cluster.store import Store
from fairway.devices.breaking import rates_of
from fairway.ground.ground import Moment
from fairway.kube.objects import Obj, labels_of, meta_of, name_of, spec_of, status_of
from fairway.kube.timestamps import HOUR_US, SECOND_US, parse_rfc3339
from fairway.provisioning.karpenter.labels import INSTANCE_TYPE, ZONE
from fairway.recorder.tables import Outcome, PodRow
from fairway.scenario.hazards import GPU_FAILURE, NODE_FAILURE, Hazards, concerns, fresh_node
from fairway.scenario.model import FaultProcess
from fairway.twin.distributions import Distribution
from fairway.twin.markets.component import SpotMarket, is_spot
from fairway.twin.streams import Streams

# From a crash until the pods of a node are made elsewhere: missing heartbeats (50 s), and the 300 s that pods tolerate
# it. Source: --node-monitor-grace-period, DefaultTolerationSeconds.
_GIVEN_UP_US: Final = 350 * SECOND_US
# Until the pods of a machine that is gone without a word are collected. Source: pkg/controller/podgc (looks every 20 s,
# waits 40 s).
_COLLECTED_US: Final = 50 * SECOND_US
_MOST_OF_A_NODE: Final = 1_000
"""Losses of one node in one future, at most."""
_HALVINGS: Final = 50
# Whoever lost his node, by the reason of the pod's disruption. Source: pkg/controller/tainteviction, pkg/controller/
# podgc, pkg/kubelet/nodeshutdown.
_LOST_NODE: Final = ("DeletionByTaintManager", "DeletionByPodGC", "TerminationByKubelet")
# Pods of one node that go within so long went with it.
_ONE_LOSS_US: Final = 600 * SECOND_US


@dataclass(frozen=True, slots=True)
class Loss:
    """One node's, `at_us` from now; 0: it is lost already. `back_us`: when it is there again; None: never.
    `is_gone`: the machine is taken back, `notice_us` after its pods were told; else it crashed. `card`: only that GPU
    breaks, of that `cause`."""

    at_us: int
    node: str
    back_us: int | None = None
    is_gone: bool = False
    notice_us: int = 0
    card: int = -1
    cause: str = ""
    drains: bool = False

    @property
    def failed_us(self) -> int:
        """When the pods that were on it count as failed."""
        if self.is_gone:
            return self.at_us if self.notice_us else self.at_us + _COLLECTED_US
        given_up_us = self.at_us + _GIVEN_UP_US
        return given_up_us if self.back_us is None else min(self.back_us, given_up_us)


@dataclass(frozen=True, slots=True)
class Risk:
    """One way of being lost. `nodes`: names, since how long they are there (µs), how many GPUs they have. `backs`: how
    long nodes were gone in the past, None where one never came back; without them `repair` says it."""

    after: Distribution
    repair: Distribution | None
    nodes: tuple[tuple[str, int, int], ...]
    is_gone: bool = False
    notice_us: int = 0
    backs: tuple[int | None, ...] = ()
    fleet: str = ""
    """Of GPUs that break: whose causes."""
    is_of_gpus: bool = False
    drains: bool = False

    def back_after_us(self, random: Random) -> int | None:
        if self.backs:
            return self.backs[random.randrange(len(self.backs))]
        return None if self.repair is None else max(self.repair.at_quantile(random.random()), 1)


@dataclass(frozen=True, slots=True)
class Luck:
    """Of one future. `rates`: deaths of a pod per hour, by its milli-GPUs. `missing`: nodes that are not there now."""

    losses: tuple[Loss, ...] = ()
    rates: Mapping[int, float] = field(default_factory=dict)
    seed: int = 0
    missing: Mapping[str, Obj] = field(default_factory=dict)

    @property
    def is_any(self) -> bool:
        return bool(self.losses or self.rates)

    def dies_after_us(self, number: int, turn: int, gpu_milli: int) -> int | None:
        """How long the turn-th pod of an object runs until it dies; None: it does not."""
        rate = self.rates.get(gpu_milli, 0.0)
        if rate <= 0:
            return None
        u = Streams(self.seed).draw_for("death", str(number), str(turn))
        return max(round(-math.log(1 - u) / rate * HOUR_US), 1)


@dataclass(frozen=True, slots=True)
class Losses:
    """What futures draw from. `missing`: nodes that are lost now, as they come back. `basis`: how it is known."""

    risks: tuple[Risk, ...] = ()
    missing: tuple[tuple[Obj, Risk, int], ...] = ()
    """A node, by which risk it is lost, and since how long."""
    rates: Mapping[int, float] = field(default_factory=dict)
    basis: tuple[str, ...] = ()

    @property
    def is_any(self) -> bool:
        return bool(self.risks or self.missing or self.rates)

    @property
    def breaks_gpus(self) -> bool:
        return any(risk.is_of_gpus for risk in self.risks)

    def draw(self, seed: int, until_us: int) -> Luck:
        """O(losses)."""
        random = Random(seed)
        found: list[Loss] = []
        for node, risk, lost_us in self.missing:
            back_us = _left_us(risk.repair, lost_us, random) if risk.repair else risk.back_after_us(random)
            found.append(Loss(0, name_of(node), back_us, risk.is_gone))
            if back_us is not None:
                found += _of_node(
                    risk, (name_of(node), 0, gpus_of_node(node).count), random, until_us, back_us
                )
        for risk in self.risks:
            for node_of in risk.nodes:
                found += _of_node(risk, node_of, random, until_us)
        return Luck(
            tuple(_apart(found)), self.rates, seed, {name_of(node): node for node, _, _ in self.missing}
        )


NO_LUCK: Final = Luck()
NO_LOSSES: Final = Losses()


def _of_node(
    risk: Risk, node: tuple[str, int, int], random: Random, until_us: int, from_us: int = 0
) -> list[Loss]:
    """All losses of one node, from a time on."""
    name, age_us, gpus = node
    if risk.is_of_gpus and not gpus:
        return []
    share = gpus if risk.is_of_gpus else 1
    at_us = from_us + max(_left_us(risk.after, age_us, random) // share, 1)
    found: list[Loss] = []
    while at_us < until_us and len(found) < _MOST_OF_A_NODE:
        gone_us = risk.back_after_us(random)
        back_us = None if gone_us is None else at_us + risk.notice_us + max(gone_us, 1)
        if risk.is_of_gpus:
            cause, card = rates_of(risk.fleet).cause_at(random.random()), random.randrange(gpus)
            found.append(Loss(at_us, name, back_us, card=card, cause=cause, drains=risk.drains))
        else:
            found.append(Loss(at_us, name, back_us, risk.is_gone, risk.notice_us))
        after_us = max(risk.after.at_quantile(random.random()) // share, 1)
        if risk.is_of_gpus:
            at_us += after_us
        elif back_us is None:
            break
        else:
            at_us = back_us + after_us
    return found


def _left_us(of: Distribution, passed_us: int, random: Random) -> int:
    """How much longer, given that it has lasted so long. One that outlived all it could have: as a new one."""
    if of.at_quantile(1 - 1e-9) <= passed_us:
        return of.at_quantile(random.random())
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if of.at_quantile(middle) <= passed_us else (low, middle)
    return max(of.at_quantile(high + (1 - high) * random.random()) - passed_us, 1)


def _apart(found: Iterable[Loss]) -> list[Loss]:
    """By time; what is lost already is not lost again."""
    kept: list[Loss] = []
    until: dict[str, int | None] = {}
    for loss in sorted(found, key=lambda one: (one.at_us, one.node, one.card)):
        if loss.card < 0:
            back_us = until.get(loss.node, 0)
            if back_us is None or (loss.at_us < back_us):
                continue
            until[loss.node] = loss.back_us
        kept.append(loss)
    return kept


def losses_of(moment: Moment, outcome: Outcome) -> Losses:
    """As declared; where nothing is, as recorded."""
    parts = moment.twin.host.parts
    hazards, market = parts.get("hazards"), parts.get("market")
    risks: list[Risk] = []
    missing: list[tuple[Obj, Risk, int]] = []
    basis: list[str] = []
    if isinstance(hazards, Hazards):
        for process in hazards.processes:
            risk = _declared(process, moment)
            if not risk.nodes and process.repair is None:
                continue
            risks.append(risk)
            missing += _missing(process, risk, hazards, moment)
            basis.append(f"{process.kind} {process.name}: after {process.after}, declared")
    if isinstance(market, SpotMarket):
        for hazard in market.market.hazards:
            at = [
                n
                for n in moment.store.objects("Node")
                if is_spot(n) and meta_of(n)["uid"] not in market.noticed
            ]
            nodes = [n for n in at if hazard.concerns(_label(n, INSTANCE_TYPE), _label(n, ZONE))]
            if nodes:
                notice_us = market.market.notice_us
                risks.append(Risk(hazard.after, None, _aged(nodes, moment.now_us), True, notice_us))
                basis.append(f"spot market {hazard.name}: after {hazard.after}, declared")
    if hazards is None and market is None:
        risks, said = _learnt(moment.store, outcome, moment.now_us)
        basis += said
    rates, told = _deaths(outcome, moment.now_us)
    return Losses(tuple(risks), tuple(missing), rates, (*basis, *told))


def _label(node: Obj, name: str) -> str:
    return labels_of(node).get(name) or ""


def _declared(process: FaultProcess, moment: Moment) -> Risk:
    nodes = [n for n in moment.store.objects("Node") if concerns(process, n) and _ready_since(n) is not None]
    is_gone = process.kind not in (NODE_FAILURE, GPU_FAILURE)
    return Risk(
        process.after,
        process.repair,
        _aged(nodes, moment.now_us),
        is_gone,
        process.warning_us,
        fleet=process.fleet,
        is_of_gpus=process.kind == GPU_FAILURE,
        drains=process.drains,
    )


def _missing(
    process: FaultProcess, risk: Risk, hazards: Hazards, moment: Moment
) -> list[tuple[Obj, Risk, int]]:
    """Nodes that are lost now and come back."""
    if risk.is_of_gpus or process.repair is None:
        return []
    if risk.is_gone:
        return [(node, risk, 0) for node in hazards.gone.values() if concerns(process, node)]
    down = [n for n in moment.store.objects("Node") if concerns(process, n) and _ready_since(n) is None]
    return [
        (fresh_node(node), risk, max(moment.now_us - _down_since(node, moment.now_us), 0)) for node in down
    ]


def _aged(nodes: Iterable[Obj], now_us: int) -> tuple[tuple[str, int, int], ...]:
    aged = ((n, _ready_since(n)) for n in nodes)
    return tuple(
        (name_of(n), max(now_us - (now_us if t is None else t), 0), gpus_of_node(n).count) for n, t in aged
    )


def _ready(node: Obj) -> Obj:
    return next((c for c in status_of(node).get("conditions") or () if c.get("type") == "Ready"), {})


def _ready_since(node: Obj) -> int | None:
    """Since when it is there; None: it is not."""
    ready = _ready(node)
    if ready and ready.get("status") != "True":
        return None
    stamp = ready.get("lastTransitionTime") or meta_of(node).get("creationTimestamp")
    return parse_rfc3339(stamp) if stamp else 0


def _down_since(node: Obj, now_us: int) -> int:
    stamp = _ready(node).get("lastTransitionTime")
    return parse_rfc3339(stamp) if stamp else now_us


def _learnt(store: Store, outcome: Outcome, now_us: int) -> tuple[list[Risk], list[str]]:
    """From the record: losses per node-hour, and how long nodes were gone."""
    hours = sum(n.lifetime_us for n in outcome.nodes) / HOUR_US
    times: dict[str, list[int]] = {}
    for pod in outcome.pods:
        if pod.disruption in _LOST_NODE and pod.node and pod.finished_us is not None:
            times.setdefault(pod.node, []).append(pod.finished_us)
    starts: dict[str, list[int]] = {}
    for pod in outcome.pods:
        if pod.started_us is not None:
            starts.setdefault(pod.node, []).append(pod.started_us)
    backs: list[int | None] = []
    for name, at in sorted(times.items()):
        for event_us in _events(sorted(at)):
            back_us = min((t for t in starts.get(name, ()) if t > event_us), default=None)
            backs.append(None if back_us is None else back_us - event_us)
    if not backs or hours <= 0:
        return [], []
    nodes = [
        n
        for n in store.objects("Node")
        if _ready_since(n) is not None and not spec_of(n).get("unschedulable")
    ]
    mean_us = round(hours / len(backs) * HOUR_US)
    known = [b for b in backs if b is not None]
    gone = (
        f"back after {Distribution('constant', round(median(known)))} by the median"
        if known
        else "never back"
    )
    said = f"{len(backs)} losses of nodes in {hours:,.0f} node-hours of history, {gone}"
    after = Distribution("exponential", mean_us)
    return [Risk(after, None, _aged(nodes, now_us), backs=tuple(backs))], [said]


def _events(times: Sequence[int]) -> list[int]:
    found: list[int] = []
    for at_us in times:
        if not found or at_us - found[-1] > _ONE_LOSS_US:
            found.append(at_us)
    return found


def _deaths(outcome: Outcome, now_us: int) -> tuple[dict[int, float], list[str]]:
    """Deaths that were retried, per hour that pods of so many GPUs ran. What ends a job is part of its run time."""
    last: dict[tuple[str, str, str], int] = {}
    for pod in outcome.pods:
        last[_root(pod)] = max(last.get(_root(pod), 0), pod.created_us)
    hours: dict[int, float] = {}
    deaths: dict[int, int] = {}
    for pod in outcome.pods:
        if pod.started_us is None or pod.is_serving:
            continue
        ended_us = now_us if pod.finished_us is None else pod.finished_us
        hours[pod.gpu_milli] = hours.get(pod.gpu_milli, 0.0) + max(ended_us - pod.started_us, 0) / HOUR_US
        is_own = pod.phase == "Failed" and not pod.is_evicted and last[_root(pod)] > pod.created_us
        deaths[pod.gpu_milli] = deaths.get(pod.gpu_milli, 0) + is_own
    rates = {gpus: n / hours[gpus] for gpus, n in sorted(deaths.items()) if n and hours[gpus] > 0}
    if not rates:
        return {}, []
    total, ran = sum(deaths.values()), sum(hours.values())
    return rates, [f"{total} deaths of pods that were retried in {ran:,.0f} pod-hours of history, by GPUs"]


def _root(pod: PodRow) -> tuple[str, str, str]:
    return pod.root_kind, pod.namespace, pod.root_name or pod.name
