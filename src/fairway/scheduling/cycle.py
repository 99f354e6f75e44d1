"""One scheduling cycle: which node for this pod, or why none?

`Scheduler` holds what kube-scheduler keeps between cycles (where the search last stopped, nominations) and
memos per pod shape; a decision itself is a function of the accounts, the pod and two random draws handed in.
It never writes to the store: the caller binds, evicts and reports.

    1. filter nodes, from where the last search stopped, until enough are found
    2. none: say why, and look for a preemption
    3. one: take it
    4. several: score, normalise over the feasible, weigh, sum; the best wins, a draw among equals

Source: pkg/scheduler/schedule_one.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from fairway.cluster.accounts import NodeAccounts
from fairway.cluster.actions import View
from fairway.cluster.records import PodRecord
from fairway.kube.labels import Selector
from fairway.kube.objects import Key, Obj
from fairway.scheduling.devices.selecting import AllocationError
from fairway.scheduling.diagnosis import Diagnosis as Diagnosis
from fairway.scheduling.dynamicresources import PLUGIN as DEVICES_PLUGIN
from fairway.scheduling.dynamicresources import DynamicResources, Plan
from fairway.scheduling.extenders import ExtenderError, Extenders, Passed
from fairway.scheduling.filters import DeviceFilter, Filters
from fairway.scheduling.nodelocal import NodeLocal
from fairway.scheduling.podaffinity import affinity_scores, normalized
from fairway.scheduling.podspread import constraints_of, spread_scores
from fairway.scheduling.profile import DEFAULT_PROFILE, GPU_POLICIES, Profile
from fairway.scheduling.resourcescores import MAX_SCORE
from fairway.scheduling.verdict import NO_NODES, Refusal, Scheduled, ScoreSheet
from fairway.scheduling.volumes import VolumeFilter, VolumePlan, look, plan

if TYPE_CHECKING:
    from fairway.scheduling.gpushare.plugin import GpuPolicies

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

# Source: schedule_one.go: minFeasibleNodesToFind, minFeasibleNodesPercentageToFind.
MIN_FEASIBLE_NODES: Final = 100
MIN_FEASIBLE_PERCENT: Final = 5

SelectorOf = Callable[[Key], Selector | None]


def no_selector(_: Key) -> Selector | None:
    """For callers whose pods belong to no Service, ReplicaSet or StatefulSet."""
    return None


@dataclass
class Scheduler:
    """The state of one profile's scheduler over a cluster's accounts."""

    accounts: NodeAccounts
    profile: Profile = DEFAULT_PROFILE
    default_selector: SelectorOf = no_selector
    next_start: int = 0
    nominated: dict[Key, tuple[PodRecord, str]] = field(default_factory=dict)
    view: View | None = None
    """Where claims and volumes are looked up; None: pods' claims are of no account."""
    devices: DynamicResources | None = None
    """Who knows about devices; None: there are none, and nobody asks for any."""
    extenders: Extenders | None = None
    _locals: dict[int, NodeLocal] = field(default_factory=dict)
    _delegated: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self._spreads_hard = any(c.is_hard for c in self.profile.default_spread)
        self._spreads_soft = any(not c.is_hard for c in self.profile.default_spread)
        # What TaintToleration gives every node where none has a PreferNoSchedule taint.
        self._everywhere = MAX_SCORE * self.profile.weight("TaintToleration")
        self._policy_names = tuple(sorted(n for n in GPU_POLICIES if self.profile.weight(n)))
        self._policies: GpuPolicies | None = None
        if self._policy_names:
            # Compiled loops: loaded only where a profile asks for them.
            from fairway.scheduling.gpushare.plugin import GpuPolicies

            self._policies = GpuPolicies(self.accounts)

    def fork(self, accounts: NodeAccounts, default_selector: SelectorOf) -> Scheduler:
        """The same state over a copy of the cluster; memos start empty."""
        nominated = dict(self.nominated)
        devices = None if self.devices is None else self.devices.over(accounts)
        return Scheduler(
            accounts,
            self.profile,
            default_selector,
            self.next_start,
            nominated,
            self.view,
            devices,
            self.extenders,
        )

    def give_devices(self, devices: DynamicResources) -> None:
        """From now on there are devices."""
        self.devices = devices
        self._locals.clear()

    # Step 1

    def local(self, pod: PodRecord) -> NodeLocal:
        """The node-by-node answers for the pod's shape, up to date."""
        delegated = _NO_NAMES if self.devices is None else self.devices.delegated()
        if delegated is not self._delegated:
            self._delegated = delegated
            self._locals.clear()
        found = self._locals.get(pod.shape.id)
        if found is None:
            if len(self._locals) >= _MEMO_LIMIT:
                self._locals.clear()
            found = self._locals[pod.shape.id] = NodeLocal(self.accounts, pod.shape, self.profile, delegated)
        else:
            found.refresh()
        return found

    def place(self, pod: PodRecord, draw: int = 0, now_us: int = 0) -> Scheduled | Diagnosis:
        """Steps 1, 3 and 4. `draw` picks among equally good nodes: any non-negative integer."""
        accounts = self.accounts
        if accounts.node_count == 0:
            return Diagnosis(_EMPTY, _EMPTY, _EMPTY.astype(np.bool_), prefilter=NO_NODES)
        local = self.local(pod)
        if self._policies is not None:
            self._policies.see(pod)
        extended = None if self.extenders is None else self.extenders.of(pod.key)
        is_alone = extended is None and self._stands_alone(pod, local)
        if is_alone and (self.devices is None or not self.devices.concerns(pod)):
            alone = self._place_alone(pod, local, draw)
            if alone is not None:
                return alone
        if pod.shape.claims and self.view is not None:
            found = look(self.view, accounts, pod, self.profile)
            if found.why:
                return self._nowhere(found.why, found.plugin)
        devices = self._device_filter(pod, now_us)
        if devices is not None and devices.look.why:
            return self._nowhere(devices.look.why, DEVICES_PLUGIN)
        try:
            if is_alone and devices is not None and self._have_all(local, devices):
                alone = self._place_alone(pod, local, draw)
                if alone is not None:
                    return alone
            filters = self._filters(pod, local, self._nominees(pod), devices)
            nominee = self._on_nominated_node(pod, filters, extended)
            if nominee is not None:
                return nominee
            outside = self._outside_pinned(pod)
            rows, evaluated = self._search(filters, outside)
            passed = None
            if extended is not None and len(rows):
                rows, passed = self._extended(extended, rows)
        except ExtenderError as failed:
            return Diagnosis(_EMPTY, _EMPTY, _EMPTY.astype(np.bool_), error=str(failed))
        except AllocationError as failed:
            error = f'running "{DEVICES_PLUGIN}" filter plugin: {failed}'
            return Diagnosis(_EMPTY, _EMPTY, _EMPTY.astype(np.bool_), error=error)
        if not len(rows):
            found_none = self._diagnosis(filters, outside)
            return found_none if passed is None else self._as_extenders_say(found_none, passed)
        if len(rows) == 1:
            row = int(rows[0])
            return Scheduled(accounts.names[row], 0, 1, evaluated, 1, self._devices(pod, row))
        totals = self._totals(pod, local, rows, filters.devices)
        if extended is not None and self.extenders is not None:
            names = [accounts.names[row] for row in rows.tolist()]
            added = self.extenders.scores(extended, names)
            totals = totals + np.array([added.get(name, 0) for name in names], np.int64)
        # argmax and nonzero are C calls; max and boolean indexing go through Python and cost more than the work.
        best = int(totals[totals.argmax()])
        tied = rows[(totals == best).nonzero()[0]]
        winner = int(tied[draw % len(tied)])
        given = self._devices(pod, winner)
        return Scheduled(accounts.names[winner], best, len(rows), evaluated, len(tied), given)

    def _extended(self, pod: Obj, rows: Ints) -> tuple[Ints, Passed]:
        """The rows that extenders leave. Raises: ExtenderError."""
        assert self.extenders is not None
        by_name = {self.accounts.names[row]: row for row in rows.tolist()}
        passed = self.extenders.passed(pod, list(by_name))
        return np.array([by_name[name] for name in passed.nodes], np.int64), passed

    def _as_extenders_say(self, diagnosis: Diagnosis, passed: Passed) -> Diagnosis:
        """Nodes that filters allow, extenders refused, or nobody asked about: those have no say, and no hope."""
        rows = self.accounts.row_of
        said = {rows[name]: words for name, words in passed.refused.items() if name in rows}
        allowed = diagnosis.refusal == 0
        diagnosis.is_hopeless |= allowed
        diagnosis.refusal[allowed] = Refusal.EXTENDER
        for row in said:
            diagnosis.refusal[row] = Refusal.EXTENDER
            diagnosis.is_hopeless[row] = self.accounts.names[row] in passed.hopeless
        diagnosis.said = said
        return diagnosis

    def _nowhere(self, why: str, plugin: str) -> Diagnosis:
        """A PreFilter refused the pod on every node."""
        rows = self.accounts.alive.shape[0]
        nothing = np.zeros(rows, np.int64)
        everywhere = np.ones(rows, np.bool_)
        return Diagnosis(nothing, nothing, everywhere, prefilter=why, prefilter_plugin=plugin)

    def _stands_alone(self, pod: PodRecord, local: NodeLocal) -> bool:
        """Whether each node can be judged by itself, its devices aside: nothing depends on other pods or on who else is
        feasible."""
        shape = pod.shape
        return not (
            shape.spread
            or shape.has_pod_terms
            or local.has_preference
            or local.any_prefer_taints
            or shape.claims
            or self.nominated
            or self._spreads_hard
            or self._policies is not None
            or self.accounts.counts.has_carried
            or shape.selection.required
            or (self._spreads_soft and self.default_selector(pod.key) is not None)
        )

    def _have_all(self, local: NodeLocal, devices: DeviceFilter) -> bool:
        """Whether each node the search comes by has the devices, none better than another: they have no say then.

        Raises: AllocationError.
        """
        if not devices.look.is_alike or devices.look.has_scores:
            return False
        count = self.accounts.node_count
        wanted = feasible_nodes_to_find(count, self.profile.percentage_of_nodes_to_score)
        rows = local.ranking().stretch(self.next_start % count, wanted)
        return rows is not None and devices.are_free(rows)

    def _place_alone(self, pod: PodRecord, local: NodeLocal, draw: int) -> Scheduled | None:
        """Steps 1, 3 and 4 on the ranking of the shape; None where no node will do."""
        count = self.accounts.node_count
        wanted = feasible_nodes_to_find(count, self.profile.percentage_of_nodes_to_score)
        if wanted < 2 or not self.profile.weights:
            return None
        found = local.ranking().best(self.next_start % count, wanted, draw)
        if found is None:
            return None
        row, best, tied, feasible, evaluated = found
        self.next_start = (self.next_start + evaluated) % count
        total = best + self._everywhere if feasible > 1 else 0
        devices = self._devices(pod, row)
        return Scheduled(self.accounts.names[row], total, feasible, evaluated, tied, devices)

    def _devices(self, pod: PodRecord, row: int) -> int:
        """Bit mask of the GPUs it gets where GPUs are shared: the policy's choice, else the tightest that fit."""
        accounts = self.accounts
        if not pod.shape.gpu_count or not accounts.devices.count[row]:
            return 0
        if self._policies is not None:
            _, chosen = self._policies.scores(self._policy_names[0], pod, np.array([row], np.int64))
            if chosen[0]:
                return int(chosen[0])
        return accounts.devices.tightest(row, pod.shape)

    def refusals(self, pod: PodRecord, local: NodeLocal) -> Ints:
        """int64[row] of `Refusal` as things stand, nominations aside. May be `local`'s own array: read only."""
        return self._filters(pod, local, {}, self._device_filter(pod)).codes

    def _filters(
        self,
        pod: PodRecord,
        local: NodeLocal,
        nominees: Mapping[int, Sequence[PodRecord]],
        devices: DeviceFilter | None,
    ) -> Filters:
        hard = constraints_of(pod, self.profile, self._selector(pod, hard=True), hard=True)
        volumes = None
        if pod.shape.claims and self.view is not None:
            found = look(self.view, self.accounts, pod, self.profile)
            volumes = VolumeFilter(self.view, self.accounts, pod, local, self.profile, found)
        return Filters(
            self.accounts,
            self.profile,
            pod,
            local,
            spread=hard,
            nominees=nominees,
            volumes=volumes,
            devices=devices,
        )

    def _device_filter(self, pod: PodRecord, now_us: int = 0) -> DeviceFilter | None:
        if self.devices is None or not self.profile.filters_with(DEVICES_PLUGIN):
            return None
        look = self.devices.look(pod, now_us)
        if look is None or (look.is_empty and not look.why):
            return None
        return DeviceFilter(self.devices, look, self.devices.codes(look))

    def volume_plan(self, pod: PodRecord, node: str) -> VolumePlan:
        """What is to be done about the pod's claims on this node."""
        row = self.accounts.row_of.get(node)
        if not pod.shape.claims or self.view is None or row is None:
            return VolumePlan()
        if not self.profile.filters_with("VolumeBinding"):
            return VolumePlan()
        found = look(self.view, self.accounts, pod, self.profile)
        return plan(self.view, self.local(pod), row, found)

    def device_plan(self, pod: PodRecord, node: str) -> Plan:
        """What is to be done about the pod's resource claims on this node. Raises: AllocationError."""
        return Plan() if self.devices is None else self.devices.plan(pod, node)

    def _selector(self, pod: PodRecord, *, hard: bool) -> Selector | None:
        if pod.shape.spread or not (self._spreads_hard if hard else self._spreads_soft):
            return None
        return self.default_selector(pod.key)

    def _nominees(self, pod: PodRecord) -> dict[int, list[PodRecord]]:
        """By row: the pods nominated to it that this pod may not displace."""
        by_row: dict[int, list[PodRecord]] = {}
        if not self.nominated:
            return by_row
        for other, node in self.nominated.values():
            row = self.accounts.row_of.get(node)
            if row is not None and other.key != pod.key and other.shape.priority >= pod.shape.priority:
                by_row.setdefault(row, []).append(other)
        return by_row

    def _on_nominated_node(self, pod: PodRecord, filters: Filters, extended: Obj | None) -> Scheduled | None:
        """A nominated pod tries its node first. Raises: AllocationError."""
        mine = self.nominated.get(pod.key)
        if mine is None:
            return None
        row = self.accounts.row_of.get(mine[1])
        if row is None:
            return None
        filters.ask_devices(np.array([row], np.int64))
        if filters.codes[row] != 0:
            return None
        if extended is not None and self.extenders is not None:
            try:
                if not self.extenders.passed(extended, [mine[1]]).nodes:
                    return None
            except ExtenderError:
                return None
        return Scheduled(mine[1], 0, 1, 1, 1, self._devices(pod, row))

    def _outside_pinned(self, pod: PodRecord) -> Bools | None:
        """bool[row]: rows the required terms exclude by name (PreFilter restricts the search); None: none."""
        names = pod.shape.selection.pinned_names()
        if names is None or not self.profile.filters_with("NodeAffinity"):
            return None
        outside = np.ones(self.accounts.alive.shape[0], np.bool_)
        for name in names:
            row = self.accounts.row_of.get(name)
            if row is not None:
                outside[row] = False
        return outside

    def _search(self, filters: Filters, outside: Bools | None) -> tuple[Ints, int]:
        """Feasible rows, in search order and no more than are wanted; and how many nodes were looked at.

        Raises: AllocationError.
        """
        twice = self.accounts.order_twice()
        total = len(twice) // 2
        if outside is not None:
            twice = twice[~outside[twice]]
        count = len(twice) // 2
        if not count:
            return _EMPTY, 0
        wanted = feasible_nodes_to_find(count, self.profile.percentage_of_nodes_to_score)
        if not self.profile.weights and not any(
            e.filter_verb or e.prioritize_verb for e in self.profile.extenders
        ):
            wanted = 1
        start = self.next_start % count
        # Most searches end soon: look at as many as are wanted, then at twice as many, then at everything.
        rows = twice[start : start + wanted]
        filters.ask_devices(rows)
        if not np.count_nonzero(filters.codes[rows]):
            evaluated = wanted
        else:
            for stretch in (min(2 * wanted, count), count):
                near = twice[start : start + stretch]
                filters.ask_devices(near)
                found = np.flatnonzero(filters.codes[near] == 0)
                if len(found) >= wanted:
                    break
            evaluated = int(found[wanted - 1]) + 1 if len(found) >= wanted else count
            rows = near[found[:wanted]]
        self.next_start = (self.next_start + evaluated) % total
        return rows, evaluated

    def _diagnosis(self, filters: Filters, outside: Bools | None) -> Diagnosis:
        # What-ifs on the way to a preemption change the NodeLocal's arrays and change them back.
        diagnosis = Diagnosis(filters.codes.copy(), filters.short(), filters.hopeless(), filters, outside)
        if outside is not None:
            diagnosis.is_hopeless |= outside
            if not filters.pod.shape.selection.pinned_names():
                diagnosis.prefilter = "pod affinity terms conflict"
                diagnosis.prefilter_plugin = "NodeAffinity"
        return diagnosis

    # Step 4

    def _totals(
        self, pod: PodRecord, local: NodeLocal, rows: Ints, devices: DeviceFilter | None = None
    ) -> Ints:
        total = local.score[rows]
        everywhere = 0
        for _, scores in self._normalized_scores(pod, local, rows, devices):
            if isinstance(scores, int):
                everywhere += scores
            else:
                total += scores
        total += everywhere
        return total

    def _normalized_scores(
        self, pod: PodRecord, local: NodeLocal, rows: Ints, devices: DeviceFilter | None = None
    ) -> list[tuple[str, Ints | int]]:
        """The weighted scores that depend on which nodes are feasible, by plugin."""
        profile = self.profile
        found: list[tuple[str, Ints | int]] = []
        weight = profile.weight("TaintToleration")
        if weight:
            found.append(("TaintToleration", weight * _reversed_share(local, rows)))
        weight = profile.weight("NodeAffinity")
        if weight and local.has_preference:
            found.append(("NodeAffinity", weight * _share(local.preference[rows])))
        weight = profile.weight("PodTopologySpread")
        if weight:
            soft = constraints_of(pod, profile, self._selector(pod, hard=False), hard=False)
            if soft:
                needs_all = bool(pod.shape.spread) or not profile.is_spread_system_defaulted
                scores = spread_scores(self.accounts, pod, local, soft, rows, requires_all=needs_all)
                found.append(("PodTopologySpread", weight * scores))
        if self._policies is not None:
            for name in self._policy_names:
                scores, _ = self._policies.scores(name, pod, rows)
                found.append((name, profile.weight(name) * scores))
        weight = profile.weight(DEVICES_PLUGIN)
        if weight and devices is not None:
            chosen = devices.plugin.raw_scores(devices.look, devices.answers, rows)
            found.append((DEVICES_PLUGIN, 0 if chosen is None else weight * _share(chosen)))
        weight = profile.weight("InterPodAffinity")
        if weight:
            raw = affinity_scores(self.accounts, pod, profile)
            if raw is not None:
                found.append(("InterPodAffinity", weight * normalized(raw[rows])))
        return found

    def totals_among(self, pod: PodRecord, rows: Ints) -> Ints:
        """The final scores of these rows, as if they alone were feasible: for whoever filters by itself."""
        return self._totals(pod, self.local(pod), rows)

    def score_sheet(self, pod: PodRecord) -> ScoreSheet:
        """Every feasible node with its final score, as a cycle now would see it; changes nothing."""
        local = self.local(pod)
        order = self.accounts.order()
        outside = self._outside_pinned(pod)
        if outside is not None:
            order = order[~outside[order]]
        filters = self._filters(pod, local, self._nominees(pod), self._device_filter(pod))
        try:
            filters.ask_devices(order)
        except AllocationError:
            return ScoreSheet((), ())
        rows = order[filters.codes[order] == 0]
        if not len(rows):
            return ScoreSheet((), ())
        parts = self._normalized_scores(pod, local, rows, filters.devices)
        totals = local.score[rows]
        for _, scores in parts:
            totals = totals + scores
        return ScoreSheet(
            tuple(self.accounts.names[r] for r in rows.tolist()),
            tuple(totals.tolist()),
            {
                "Resources": tuple(local.score[rows].tolist()),
                **{n: tuple(np.broadcast_to(s, len(rows)).tolist()) for n, s in parts},
            },
        )


_EMPTY: Final[Ints] = np.zeros(0, np.int64)
_NO_NAMES: Final[frozenset[str]] = frozenset()
# Shapes whose answers are kept. A shape's arrays are 50 bytes per node.
_MEMO_LIMIT: Final = 512


def feasible_nodes_to_find(node_count: int, percentage: int) -> int:
    """How many feasible nodes end the search. Source: numFeasibleNodesToFind."""
    if node_count < MIN_FEASIBLE_NODES:
        return node_count
    if percentage == 0:
        percentage = max(50 - node_count // 125, MIN_FEASIBLE_PERCENT)
    return max(node_count * percentage // 100, MIN_FEASIBLE_NODES)


def _share(raw: Ints) -> Ints:
    """`100 × raw / max`; 0 where nothing scored. Source: helper.DefaultNormalizeScore."""
    top = int(raw.max())
    return raw * MAX_SCORE // top if top else np.zeros(raw.shape, np.int64)


def _reversed_share(local: NodeLocal, rows: Ints) -> Ints | int:
    """100 for the node with the fewest untolerated PreferNoSchedule taints… (the most get 0)."""
    if not local.any_prefer_taints:
        return MAX_SCORE
    raw = local.prefer_taints[rows]
    top = int(raw.max())
    return MAX_SCORE - raw * MAX_SCORE // top if top else MAX_SCORE
