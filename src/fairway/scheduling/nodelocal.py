"""What a pod shape makes of every node by itself: filters and scores that look at one node at a time.

One `NodeLocal` per (shape, profile) holds the answer for all rows and redoes only the rows that changed since
it was last asked: a placement costs one row per shape in use, not one pass over the cluster per pod.

Source: kube-scheduler v1.36 plugins NodeUnschedulable, NodeName, TaintToleration, NodeAffinity, NodePorts,
NodeResourcesFit, NodeResourcesBalancedAllocation, ImageLocality.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fairway.cluster.accounts import NodeAccounts, elements
from fairway.cluster.records import PodRecord
from fairway.cluster.shapes import HostPort, PodShape
from fairway.kube.labels import Requirement
from fairway.kube.nodeselection import Term
from fairway.kube.resources import is_extended
from fairway.kube.taints import (
    NO_EXECUTE,
    NO_SCHEDULE,
    PREFER_NO_SCHEDULE,
    UNSCHEDULABLE_TAINT,
    Taint,
    first_untolerated,
    is_tolerated,
)
from fairway.scheduling.plainscores import PlainScores, is_plain
from fairway.scheduling.profile import Profile
from fairway.scheduling.ranking import Ranking
from fairway.scheduling.resourcescores import MAX_SCORE, Rows, balanced_scores, fit_scores
from fairway.scheduling.verdict import Refusal

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_MB: Final = 1024 * 1024
# Source: imagelocality: images below 23 MB do not count, 1000 MB per container counts in full.
_IMAGE_MIN_BYTES: Final = 23 * _MB
_IMAGE_MAX_BYTES_PER_CONTAINER: Final = 1000 * _MB
_HARD_EFFECTS: Final = (NO_SCHEDULE, NO_EXECUTE)
_ALL_ROWS: Final = slice(None)
# Up to this many changed rows, plain integers beat array calls (measured: 4 µs a row against 140 µs a call).
_FEW_ROWS: Final = 30
# States whose making is remembered, of each shape. In a fleet of equal nodes and jobs of a few sizes there are dozens.
_STATES_KEPT: Final = 512
# As plain integers: to put a member of an enumeration into an array costs three times as much.
_NODE_NAME, _FIT = int(Refusal.NODE_NAME), int(Refusal.FIT)


class NodeLocal:
    """Per row: `refusal` (a `Refusal`), `short` (bits: 0 too many pods, i+1 the i-th request), `is_hopeless`
    (no eviction helps), `score` (weighted sum of the scores that need no normalising), and the raw counts
    that do: `prefer_taints`, `preference`.
    """

    def __init__(
        self,
        accounts: NodeAccounts,
        shape: PodShape,
        profile: Profile,
        delegated: frozenset[str] = frozenset(),
    ) -> None:
        """`delegated`: resources that a node without any may give by claims; DynamicResources knows."""
        self.accounts = accounts
        self.shape = shape
        self.profile = profile
        self._asked = [(n, v) for n, v in shape.requests.items() if v > 0 and not _ignored(profile, n)]
        self.resources = tuple(name for name, _ in self._asked)
        self._columns = np.array([accounts.column(n) for n, _ in self._asked], np.int64)
        self._values = np.array([v for _, v in self._asked], np.int64)
        self._bits = np.array([2 << i for i in range(len(self._asked))], np.int64)
        self._taint_ok: list[bool] = []
        self._taint_prefer: list[int] = []
        self._tolerates_unschedulable = is_tolerated(
            Taint(UNSCHEDULABLE_TAINT, "", NO_SCHEDULE), shape.tolerations
        )
        self.asked = [(2 << i, accounts.column(n), v) for i, (n, v) in enumerate(self._asked)]
        by_claims = [name in delegated for name, _ in self._asked]
        self._delegated = np.array(by_claims, np.bool_) if any(by_claims) else None
        self._is_plain = is_plain(shape, profile) and self._delegated is None
        self._plain_scores = PlainScores(
            shape, profile.weight("NodeResourcesFit"), profile.weight("NodeResourcesBalancedAllocation")
        )
        self._made_of: dict[bytes, tuple[int, bool, int]] = {}
        self._ranking: Ranking | None = None
        self.has_preference = bool(shape.selection.preferred or profile.added_preferred)
        self._restart()

    def _restart(self) -> None:
        rows = self.accounts.alive.shape[0]
        self.refusal: Ints = np.zeros(rows, np.int64)
        self.short: Ints = np.zeros(rows, np.int64)
        self.is_hopeless: Bools = np.zeros(rows, np.bool_)
        self.score: Ints = np.zeros(rows, np.int64)
        self.prefer_taints: Ints = np.zeros(rows, np.int64)
        self.preference: Ints = np.zeros(rows, np.int64)
        self._static: Ints = np.zeros(rows, np.int64)
        self._static_at, self._refusal_at = elements(self._static), elements(self.refusal)
        self._short_at, self._score_at = elements(self.short), elements(self.score)
        self._is_hopeless_at = elements(self.is_hopeless)
        self._images_at = self._image_stamp()
        self._image_scores = self._score_images()
        self._touched = len(self.accounts.touched)
        self._respecced = len(self.accounts.respecced)
        self._describe(_ALL_ROWS)
        self._weigh(_ALL_ROWS)
        self.any_prefer_taints = bool(self.prefer_taints.any())

    def refresh(self) -> None:
        """Catch up with what changed. O(changed rows)."""
        accounts = self.accounts
        if accounts.alive.shape[0] != self.refusal.shape[0] or self._images_moved():
            self._restart()
            return
        touched, respecced = accounts.touched, accounts.respecced
        if len(touched) == self._touched and len(respecced) == self._respecced:
            return
        rows: dict[int, None] = dict.fromkeys(respecced[self._respecced :])
        if rows:
            self._describe(np.array(list(rows), np.int64))
            self.any_prefer_taints = bool(self.prefer_taints.any())
        rows.update(dict.fromkeys(touched[self._touched :]))
        self._touched, self._respecced = len(touched), len(respecced)
        if self._is_plain and len(rows) <= _FEW_ROWS:
            for row in rows:
                self._weigh_one(row)
        else:
            self._weigh(np.array(list(rows), np.int64))

    def _image_stamp(self) -> tuple[int, int]:
        """Image scores depend on who holds which image, and on how many nodes there are."""
        return (self.accounts.image_version, self.accounts.node_count)

    def _images_moved(self) -> bool:
        """Whether image scores of all rows may be stale. Where no node holds one of the images, they are not."""
        stamp = self._image_stamp()
        if stamp == self._images_at:
            return False
        self._images_at = stamp
        return self._image_scores is not None or self._finds_images()

    def _finds_images(self) -> bool:
        return any(image in self.accounts.image_holders for image in self.shape.images)

    def ranking(self) -> Ranking:
        """Which nodes a search would come by. O(1) while the nodes stay the same."""
        twice = self.accounts.order_twice()
        found = self._ranking
        if found is None or found.twice is not twice:
            order = twice[: len(twice) // 2]
            scores = np.where(self.refusal[order] == 0, self.score[order], -1)
            found = self._ranking = Ranking(twice, self.accounts.turns(), scores)
        return found

    # What the node object says

    def _describe(self, rows: Rows) -> None:
        accounts, profile = self.accounts, self.profile
        self._learn_taint_sets()
        refusal = np.zeros(accounts.alive[rows].shape, np.int64)
        taint_set = accounts.taint_set[rows]
        # Later filters are written first, so that the earliest refusal stands.
        if profile.filters_with("NodeAffinity"):
            refusal[~self._allowed(rows)] = Refusal.NODE_AFFINITY
            if profile.added_required is not None:
                enforced = self._any_term(profile.added_required, rows)
                refusal[~enforced] = Refusal.NODE_AFFINITY_ENFORCED
        if profile.filters_with("TaintToleration"):
            refusal[~np.array(self._taint_ok, np.bool_)[taint_set]] = Refusal.TAINT
        if profile.filters_with("NodeUnschedulable") and not self._tolerates_unschedulable:
            refusal[accounts.unschedulable[rows]] = Refusal.NODE_UNSCHEDULABLE
        self._static[rows] = refusal
        self.prefer_taints[rows] = np.array(self._taint_prefer, np.int64)[taint_set]
        if self.has_preference:
            self.preference[rows] = self._preferences(rows)

    def _learn_taint_sets(self) -> None:
        tolerations = self.shape.tolerations
        for taints in self.accounts.taint_sets[len(self._taint_ok) :]:
            self._taint_ok.append(first_untolerated(taints, tolerations, _HARD_EFFECTS) is None)
            self._taint_prefer.append(
                sum(t.effect == PREFER_NO_SCHEDULE and not is_tolerated(t, tolerations) for t in taints)
            )

    def _allowed(self, rows: Rows) -> Bools:
        """bool[rows]: nodeSelector and required node affinity hold."""
        selection = self.shape.selection
        ok = self._all_requirements(selection.node_selector.requirements, rows)
        if selection.required is not None:
            ok = ok & self._any_term(selection.required, rows)
        return ok

    def allowed_everywhere(self) -> Bools:
        """bool[row]: nodeSelector and required node affinity hold (topology spread asks for it by itself)."""
        return self._allowed(_ALL_ROWS) & self.accounts.alive

    def tolerated_everywhere(self) -> Bools:
        """bool[row]: every NoSchedule and NoExecute taint is tolerated."""
        self._learn_taint_sets()
        return np.array(self._taint_ok, np.bool_)[self.accounts.taint_set] & self.accounts.alive

    def matching(self, terms: tuple[Term, ...]) -> Bools:
        """bool[row]: one of the terms holds. Without any: nowhere."""
        return self._any_term(terms, _ALL_ROWS)

    def lacking(self, label: str) -> Bools:
        """bool[row]: the node has no such label."""
        return self.accounts.counts.domains(label).of_row < 0

    def named(self, node: str) -> Bools:
        """bool[row]: the node has this name."""
        found = np.zeros(self.refusal.shape[0], np.bool_)
        row = self.accounts.row_of.get(node)
        if row is not None:
            found[row] = True
        return found

    def _any_term(self, terms: tuple[Term, ...], rows: Rows) -> Bools:
        ok = np.zeros(self.accounts.alive[rows].shape, np.bool_)
        for term in terms:
            ok |= self._term(term, rows)
        return ok

    def _term(self, term: Term, rows: Rows) -> Bools:
        if not term.expressions and not term.fields:
            return np.zeros(self.accounts.alive[rows].shape, np.bool_)
        ok = self._all_requirements(term.expressions, rows)
        if term.fields:
            names = self._names(rows)
            by_name = [all(f.matches({"metadata.name": n}) for f in term.fields) for n in names]
            ok = ok & np.array(by_name, np.bool_)
        return ok

    def _names(self, rows: Rows) -> list[str]:
        names = self.accounts.names + [""] * (self.accounts.alive.shape[0] - len(self.accounts.names))
        return names if isinstance(rows, slice) else [names[r] for r in rows]

    def _all_requirements(self, requirements: tuple[Requirement, ...], rows: Rows) -> Bools:
        ok = np.ones(self.accounts.alive[rows].shape, np.bool_)
        for requirement in requirements:
            # Decided once per distinct label value, then looked up per node.
            domains = self.accounts.counts.domains(requirement.key)
            by_value = [requirement.matches({requirement.key: value}) for value in domains.id_of]
            by_value.append(requirement.matches({}))
            ok &= np.array(by_value, np.bool_)[domains.of_row[rows]]
        return ok

    def _preferences(self, rows: Rows) -> Ints:
        total = np.zeros(self.accounts.alive[rows].shape, np.int64)
        for weight, term in (*self.shape.selection.preferred, *self.profile.added_preferred):
            # An empty preferred term adds nothing: nodeaffinity.NewPreferredSchedulingTerms drops it.
            total += weight * self._term(term, rows)
        return total

    # What the pods on the node leave

    def _weigh_one(self, row: int) -> None:
        """`_weigh` for one row in plain integers: a fiftieth of the cost of array calls on one element.

        Only for shapes `_is_plain` admits; a property test holds it equal to `_weigh`.
        """
        state = self.accounts.state(row)
        made = self._made_of.get(state)
        if made is None:
            if len(self._made_of) >= _STATES_KEPT:
                self._made_of.clear()
            made = self._made_of[state] = self._make_of(row)
        short, too_big, score = made
        refusal = self._static_at[row] if self.accounts.alive[row] else _NODE_NAME
        self._is_hopeless_at[row] = too_big or refusal != 0
        if not refusal:
            refusal = _FIT if short else self._device_refusal(row)
        if self._image_scores is not None:
            score += int(self._image_scores[row])
        self._short_at[row], self._refusal_at[row], self._score_at[row] = short, refusal, score
        if self._ranking is not None:
            self._ranking.put(row, -1 if refusal else score)

    def _make_of(self, row: int) -> tuple[int, bool, int]:
        """Bits of what is short on a row, whether more is asked than there is at all, and its score, images aside.

        They follow from the row's state alone.
        """
        accounts = self.accounts
        allocatable: list[int] = accounts.allocatable[row].tolist()
        requested: list[int] = accounts.requested[row].tolist()
        non_zero: list[int] = accounts.non_zero[row].tolist()
        short = 1 if accounts.pod_count[row] >= accounts.allowed_pods[row] else 0
        too_big = False
        for bit, column, value in self.asked:
            if value > allocatable[column] - requested[column]:
                short |= bit
                too_big = too_big or value > allocatable[column]
        return short, too_big, self._plain_scores.of(allocatable, requested, non_zero)

    def _device_refusal(self, row: int) -> int:
        """GPU_SHARE where the node shares its GPUs and too few devices have enough free, else 0."""
        if not self._shares_gpus() or not self.profile.filters_with("GpuShare"):
            return 0
        devices = self.accounts.devices
        if not devices.count[row]:
            return 0
        able = sum(free >= self.shape.gpu_each for free in devices.free[row].tolist())
        return 0 if able >= self.shape.gpu_count else Refusal.GPU_SHARE

    def _weigh(self, rows: Rows) -> None:
        accounts, profile = self.accounts, self.profile
        refusal = self._static[rows].copy()
        hopeless = refusal > 0
        ports = bool(self.shape.host_ports) and profile.filters_with("NodePorts")
        if profile.filters_with("NodeResourcesFit"):
            short, too_big = self._shortage(rows)
            unfit = (short > 0) & ~hopeless
            self.short[rows] = short
            refusal[unfit] = Refusal.FIT
            if ports:
                clash = self._port_clash(rows) & ~hopeless
                refusal[clash] = Refusal.NODE_PORTS
                too_big = too_big & ~clash
            hopeless = hopeless | (too_big & unfit)
        elif ports:
            refusal[self._port_clash(rows) & ~hopeless] = Refusal.NODE_PORTS
        if self._shares_gpus() and profile.filters_with("GpuShare"):
            refusal = np.where(
                (refusal == 0) & accounts.devices.short(self.shape, rows), Refusal.GPU_SHARE, refusal
            )
        self.refusal[rows] = refusal
        self.is_hopeless[rows] = hopeless
        self.score[rows] = self._scores(rows)
        self._ranking = None
        dead = ~accounts.alive[rows]
        if dead.any():
            self.refusal[rows] = np.where(dead, Refusal.NODE_NAME, self.refusal[rows])
            self.is_hopeless[rows] |= dead

    @property
    def is_about_room(self) -> bool:
        """Whether the pods on a node matter by what they ask for alone, not by ports or devices."""
        return (
            not self.shape.host_ports
            and not self._shares_gpus()
            and self.profile.filters_with("NodeResourcesFit")
        )

    def shortage_with(self, row: int, others: Sequence[PodRecord]) -> int:
        """Bits of what would be short on a row if these pods were there, too."""
        accounts = self.accounts
        allocatable, requested = accounts.allocatable[row].tolist(), accounts.requested[row].tolist()
        short = int(accounts.pod_count[row] + len(others) >= accounts.allowed_pods[row])
        for name, (bit, column, value) in zip(self.resources, self.asked, strict=True):
            taken = requested[column] + sum(o.shape.requests.get(name, 0) for o in others)
            if value > allocatable[column] - taken:
                short |= bit
        return short

    def static_refusal(self, row: int) -> int:
        """What the node object alone says (0: nothing against it)."""
        return int(self._static[row])

    def is_too_small(self, row: int) -> bool:
        """Whether the pod asks for more than the node has at all."""
        allocatable = self.accounts.allocatable[row].tolist()
        return any(value > allocatable[column] for _, column, value in self.asked)

    def _shares_gpus(self) -> bool:
        """Whether devices matter: it asks for GPUs, and some node hands them out in parts."""
        return self.shape.gpu_count > 0 and self.accounts.devices.shared_rows > 0

    def _shortage(self, rows: Rows) -> tuple[Ints, Bools]:
        """int64[rows] bits of what is short, bool[rows] whether more is asked than the node has at all."""
        accounts = self.accounts
        full = accounts.pod_count[rows] + 1 > accounts.allowed_pods[rows]
        if not len(self._columns):
            return full.astype(np.int64), np.zeros(full.shape, np.bool_)
        allocatable = accounts.allocatable[rows][:, self._columns]
        free = allocatable - accounts.requested[rows][:, self._columns]
        lacks, never = free < self._values, allocatable < self._values
        if self._delegated is not None:
            by_claims = self._delegated & (allocatable == 0)
            lacks, never = lacks & ~by_claims, never & ~by_claims
        return lacks @ self._bits + full, np.asarray(never.any(axis=1), np.bool_)

    def _port_clash(self, rows: Rows) -> Bools:
        at: Any = range(self.accounts.alive.shape[0]) if isinstance(rows, slice) else rows
        used = self.accounts.ports
        return np.array(
            [r < len(used) and any(_clashes(p, used[r]) for p in self.shape.host_ports) for r in at], np.bool_
        )

    def _scores(self, rows: Rows) -> Ints:
        accounts, shape, profile = self.accounts, self.shape, self.profile
        if self._is_plain:
            total = self._plain_scores.of_rows(accounts, rows)
            return total if self._image_scores is None else total + self._image_scores[rows]
        total = np.zeros(accounts.alive[rows].shape, np.int64)
        weight = profile.weight("NodeResourcesFit")
        if weight:
            total += weight * fit_scores(accounts, shape, profile.fit, rows)
        weight = profile.weight("NodeResourcesBalancedAllocation")
        if weight:
            balanced = balanced_scores(accounts, shape, profile.balanced_resources, rows)
            if balanced is not None:
                total += weight * balanced
        if self._image_scores is not None:
            total += self._image_scores[rows]
        return total

    def _score_images(self) -> Ints | None:
        """int64[row]: ImageLocality's weighted score; None where it is 0 everywhere.

        The more nodes hold an image, the more it counts: that spreads load off nodes that alone hold it.
        """
        accounts, shape = self.accounts, self.shape
        weight = self.profile.weight("ImageLocality")
        if not weight or not self._finds_images():
            return None
        found = np.zeros(accounts.alive.shape[0], np.int64)
        for image in shape.images:
            holders = list(accounts.image_holders.get(image, ()))
            if holders:
                found[holders] += int(
                    float(accounts.image_size(image)) * (len(holders) / accounts.node_count)
                )
        top = _IMAGE_MAX_BYTES_PER_CONTAINER * max(shape.container_count, 1)
        clamped = np.clip(found, _IMAGE_MIN_BYTES, top)
        return weight * (MAX_SCORE * (clamped - _IMAGE_MIN_BYTES) // (top - _IMAGE_MIN_BYTES))


def _ignored(profile: Profile, resource: str) -> bool:
    return is_extended(resource) and profile.ignores(resource)


def _clashes(port: HostPort, used: dict[HostPort, int]) -> bool:
    """The wildcard address clashes with every address. Source: framework.HostPortInfo.CheckConflict."""
    if port in used:
        return True
    wildcard = port.ip == "0.0.0.0"
    return any(
        u.port == port.port and u.protocol == port.protocol and (wildcard or u.ip == "0.0.0.0") for u in used
    )
