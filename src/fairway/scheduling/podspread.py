"""How evenly are the pods like this one spread, and which nodes keep it so: topology spread constraints.

Source: kube-scheduler v1.36 plugins/podtopologyspread filtering.go, scoring.go, common.go.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fairway.cluster.accounts import NodeAccounts
from fairway.cluster.podcounts import PodQuestion
from fairway.cluster.records import PodRecord
from fairway.cluster.shapes import SpreadConstraint, is_empty
from fairway.kube.labels import Selector
from fairway.scheduling.nodelocal import NodeLocal
from fairway.scheduling.profile import Profile
from fairway.scheduling.resourcescores import MAX_SCORE
from fairway.scheduling.verdict import Refusal

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

HOSTNAME = "kubernetes.io/hostname"


class Move(NamedTuple):
    """In a what-if, a pod came to a row (+1) or left it (-1); the accounts already show it."""

    pod: PodRecord
    row: int
    sign: int


def constraints_of(
    pod: PodRecord, profile: Profile, default_selector: Selector | None, *, hard: bool
) -> tuple[SpreadConstraint, ...]:
    """The pod's own constraints of one kind; without any, the profile's defaults.

    `default_selector` selects the pods of the Service, ReplicaSet, … this pod belongs to; None: of none.
    """
    if pod.shape.spread:
        return tuple(c for c in pod.shape.spread if c.is_hard == hard)
    if default_selector is None:
        return ()
    return tuple(c._replace(selector=default_selector) for c in profile.default_spread if c.is_hard == hard)


def spread_refusals(
    accounts: NodeAccounts,
    pod: PodRecord,
    local: NodeLocal,
    constraints: Sequence[SpreadConstraint],
    moved: Sequence[Move] = (),
) -> Ints:
    """int64[row] of `Refusal`: nodes without the label, and nodes where the skew would exceed the maximum."""
    refusal = np.zeros(accounts.alive.shape[0], np.int64)
    eligible = _eligible(accounts, local, constraints)
    has_all = _has_all_keys(accounts, constraints)
    # The last constraint is written first: a node is refused for the first constraint it breaks.
    for constraint, inside in zip(reversed(constraints), reversed(eligible), strict=True):
        domains = accounts.counts.domains(constraint.topology_key)
        inside = inside & has_all
        counts = np.where(inside, _matching(accounts, pod, constraint.selector), 0)
        for move in moved:
            if inside[move.row] and _counts_by_move_alone(move.pod, pod, constraint.selector):
                counts[move.row] += move.sign
        # Domains without an eligible node count zero pods and do not pull the minimum down.
        present = domains.present(inside)
        sums = np.where(present, domains.sums(counts), 0)
        domain_count = int(np.count_nonzero(present))
        low = int(sums[present].min()) if domain_count else _NO_DOMAIN
        if domain_count < constraint.min_domains:
            low = 0
        own = 1 if constraint.selector.matches(pod.labels.labels) else 0
        skewed = np.append(sums, 0)[domains.of_row] + own - low > constraint.max_skew
        refusal[skewed] = Refusal.SPREAD_SKEW
        refusal[domains.of_row < 0] = Refusal.SPREAD_LABEL
    return refusal


def _counts_by_move_alone(moved: PodRecord, pod: PodRecord, selector: Selector) -> bool:
    """Pods being deleted, and any pod under an empty selector, are not counted, but a move counts them.

    Source: podtopologyspread/filtering.go updateWithPod, which does not ask what countPodsMatchSelector asks.
    """
    if moved.labels.namespace != pod.labels.namespace or not (moved.is_terminating or is_empty(selector)):
        return False
    return selector.matches(moved.labels.labels)


# What an empty minimum is upstream (math.MaxInt32): no domain at all never refuses by skew.
_NO_DOMAIN = 2**31 - 1


def spread_scores(
    accounts: NodeAccounts,
    pod: PodRecord,
    local: NodeLocal,
    constraints: Sequence[SpreadConstraint],
    rows: Ints,
    *,
    requires_all: bool,
) -> Ints:
    """int64[len(rows)], 0–100, for feasible rows; fewer matching pods around score higher.

    `requires_all`: nodes lacking one of the keys score 0 (always, but for the system's own defaults).
    """
    has_all = _has_all_keys(accounts, constraints)
    ignored = ~has_all[rows] if requires_all else np.zeros(len(rows), np.bool_)
    eligible = _eligible(accounts, local, constraints)
    raw = np.zeros(len(rows))
    for constraint, inside in zip(constraints, eligible, strict=True):
        domains = accounts.counts.domains(constraint.topology_key)
        of_rows = domains.of_row[rows]
        matching = _matching(accounts, pod, constraint.selector)
        if constraint.topology_key == HOSTNAME:
            size = len(rows) - int(ignored.sum())
            counts = matching[rows]
        else:
            # Nodes without the key share the domain of the empty value where keys are not required.
            size = int(np.count_nonzero(np.bincount(of_rows[~ignored] + 1)))
            if requires_all:
                inside = inside & has_all
            counts = np.append(domains.sums(np.where(inside, matching, 0)), 0)[of_rows]
        weight = math.log(size + 2)
        raw += np.where(of_rows >= 0, counts * weight + float(constraint.max_skew - 1), 0.0)
    scores = np.floor(raw + 0.5).astype(np.int64)
    return _normalized(scores, ignored)


def _normalized(scores: Ints, ignored: Bools) -> Ints:
    """Reversed: `100 × (max + min − score) / max`; all 100 where nothing matches anywhere."""
    counted = scores[~ignored]
    if not len(counted):
        return np.zeros(scores.shape, np.int64)
    low, high = int(counted.min()), max(int(counted.max()), 0)
    if high == 0:
        return np.where(ignored, 0, MAX_SCORE).astype(np.int64)
    return np.where(ignored, 0, MAX_SCORE * (high + low - scores) // high).astype(np.int64)


def _matching(accounts: NodeAccounts, pod: PodRecord, selector: Selector) -> Ints:
    """int64[row]: pods of this namespace that match and are not being deleted. An empty selector counts none."""
    if is_empty(selector):
        return np.zeros(accounts.alive.shape[0], np.int64)
    return accounts.counts.matching(PodQuestion((((pod.labels.namespace,), selector),), is_live=True))


def _has_all_keys(accounts: NodeAccounts, constraints: Sequence[SpreadConstraint]) -> Bools:
    ok = accounts.alive.copy()
    for constraint in constraints:
        ok &= accounts.counts.domains(constraint.topology_key).of_row >= 0
    return ok


def _eligible(
    accounts: NodeAccounts, local: NodeLocal, constraints: Sequence[SpreadConstraint]
) -> list[Bools]:
    """bool[row] per constraint: the nodes whose pods count, by its node inclusion policies."""
    allowed = local.allowed_everywhere() if any(c.honors_affinity for c in constraints) else accounts.alive
    tolerated = local.tolerated_everywhere() if any(c.honors_taints for c in constraints) else accounts.alive
    eligible = []
    for constraint in constraints:
        inside = accounts.alive
        if constraint.honors_affinity:
            inside = inside & allowed
        if constraint.honors_taints:
            inside = inside & tolerated
        eligible.append(inside)
    return eligible
