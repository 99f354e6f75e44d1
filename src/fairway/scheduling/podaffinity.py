"""Where do the pods already there want this one, or not: inter-pod affinity and anti-affinity.

Arrays over all rows, from counts kept per selector and per carried term.
Source: kube-scheduler v1.36 plugins/interpodaffinity filtering.go and scoring.go.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fairway.cluster.accounts import NodeAccounts
from fairway.cluster.podcounts import PREFERRED, PREFERRED_ANTI, REQUIRED, REQUIRED_ANTI, PodQuestion
from fairway.cluster.records import PodRecord
from fairway.cluster.shapes import PodTerm
from fairway.kube.labels import EVERYTHING, Selector
from fairway.scheduling.profile import Profile
from fairway.scheduling.resourcescores import MAX_SCORE
from fairway.scheduling.verdict import Refusal

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def affinity_refusals(accounts: NodeAccounts, pod: PodRecord) -> Ints | None:
    """int64[row] of `Refusal`; None when nothing that is required concerns this pod."""
    shape = pod.shape
    refusal: Ints | None = None
    if shape.required_affinity or shape.required_anti_affinity:
        refusal = np.zeros(accounts.alive.shape[0], np.int64)
    for carried, counts in accounts.counts.carried(pod.labels, (REQUIRED_ANTI,)):
        marked = _in_marked_domain(accounts, carried.term.topology_key, counts)
        if marked.any():
            refusal = np.zeros(accounts.alive.shape[0], np.int64) if refusal is None else refusal
            refusal[marked] = Refusal.EXISTING_ANTI_AFFINITY
    if refusal is None:
        return None
    for term in shape.required_anti_affinity:
        counts = accounts.counts.matching(_question(accounts, (term,)))
        refusal[_in_marked_domain(accounts, term.topology_key, counts)] = Refusal.POD_ANTI_AFFINITY
    if shape.required_affinity:
        refusal[~_is_near(accounts, pod)] = Refusal.POD_AFFINITY
    return refusal


def _in_marked_domain(accounts: NodeAccounts, key: str, counts: Ints) -> Bools:
    """bool[row]: the row's domain holds at least one counted pod."""
    domains = accounts.counts.domains(key)
    marked = np.append(domains.sums(counts) > 0, False)
    return np.asarray(marked[domains.of_row])


def _is_near(accounts: NodeAccounts, pod: PodRecord) -> Bools:
    """bool[row]: every required affinity term is met; the first pod of a self-loving series may go anywhere."""
    terms = pod.shape.required_affinity
    counts = accounts.counts.matching(_question(accounts, terms))
    labelled = np.ones(accounts.alive.shape[0], np.bool_)
    near = labelled.copy()
    counted_anywhere = False
    for term in terms:
        domains = accounts.counts.domains(term.topology_key)
        sums = domains.sums(counts)
        counted_anywhere = counted_anywhere or bool((sums > 0).any())
        labelled &= domains.of_row >= 0
        near &= np.append(sums > 0, False)[domains.of_row]
    if not counted_anywhere and _question(accounts, terms).matches(pod.labels):
        return labelled
    return near


def affinity_scores(accounts: NodeAccounts, pod: PodRecord, profile: Profile) -> Ints | None:
    """int64[row] raw scores (may be negative), to be normalised over feasible nodes; None: no say at all."""
    shape = pod.shape
    wants = bool(shape.preferred_affinity or shape.preferred_anti_affinity)
    if profile.ignores_preferred_terms_of_existing_pods and not wants:
        return None
    total: Ints | None = None
    for sign, weighted in ((1, shape.preferred_affinity), (-1, shape.preferred_anti_affinity)):
        for weight, term in weighted:
            counts = accounts.counts.matching(_question(accounts, (term,)))
            total = _add(accounts, total, term.topology_key, counts, sign * weight)
    roles = (
        (PREFERRED, PREFERRED_ANTI)
        if profile.hard_pod_affinity_weight <= 0
        else (PREFERRED, PREFERRED_ANTI, REQUIRED)
    )
    for carried, counts in accounts.counts.carried(pod.labels, roles):
        weight = profile.hard_pod_affinity_weight if carried.role == REQUIRED else carried.weight
        sign = -1 if carried.role == PREFERRED_ANTI else 1
        total = _add(accounts, total, carried.term.topology_key, counts, sign * weight)
    return total


def _add(accounts: NodeAccounts, total: Ints | None, key: str, counts: Ints, weight: int) -> Ints | None:
    domains = accounts.counts.domains(key)
    sums = domains.sums(counts)
    if not sums.any():
        return total
    score = np.append(sums * weight, 0)[domains.of_row]
    return score if total is None else total + score


def normalized(raw: Ints) -> Ints:
    """Stretched over 0–100 between the lowest and the highest; all 0 where they are equal."""
    low, high = int(raw.min()), int(raw.max())
    if high == low:
        return np.zeros(raw.shape, np.int64)
    return (float(MAX_SCORE) * ((raw - low) / float(high - low))).astype(np.int64)


def _question(accounts: NodeAccounts, terms: tuple[PodTerm, ...]) -> PodQuestion:
    """Which pods meet all of these terms of an incoming pod; namespace selectors resolved to names."""
    parts: list[tuple[tuple[str, ...] | None, Selector]] = []
    for term in terms:
        if term.namespace_selector == EVERYTHING:
            parts.append((None, term.selector))
            continue
        names = term.namespaces
        if not term.namespace_selector.nothing:
            selected = [
                n
                for n in accounts.namespaces()
                if term.namespace_selector.matches(accounts.labels_of_namespace(n))
            ]
            names = tuple(sorted({*selected, *names}))
        parts.append((names, term.selector))
    return PodQuestion(tuple(parts), is_live=False)
