"""Which domains do the pods of a pod set go to, and how does the Workload's status spell that?

Inside, an assignment is a list of domains with counts. In `status.admission` v1beta2 packs the domains into
slices that share prefixes and suffixes; v1beta1 lists them plainly. Both are read; v1beta2 is written.

Source: pkg/util/tas/tas_assignment.go; KEP-2724.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

from fairway.queueing.facts.objects import HOSTNAME_LABEL

# Limits of one slice and of one assignment. Source: maxDomainsPerTopologyAssignmentSlice, …Slices.
_DOMAINS_PER_SLICE: Final = 100_000
_SLICES: Final = 1_000


class DomainCount(NamedTuple):
    """`values`: the labels of the domain at the levels of the assignment."""

    values: tuple[str, ...]
    pods: int


class TopologyAssignment(NamedTuple):
    levels: tuple[str, ...]
    domains: tuple[DomainCount, ...]

    def pod_count(self) -> int:
        return sum(d.pods for d in self.domains)


def domain_id(values: Sequence[str]) -> str:
    return ",".join(values)


def read_assignment(raw: Mapping[str, Any] | None) -> TopologyAssignment | None:
    if raw is None:
        return None
    levels = tuple(raw.get("levels") or ())
    if "domains" in raw:
        return TopologyAssignment(
            levels,
            tuple(DomainCount(tuple(d["values"]), int(d["count"])) for d in raw.get("domains") or ()),
        )
    return TopologyAssignment(levels, tuple(d for s in raw.get("slices") or () for d in _domains(s)))


def _domains(part: Mapping[str, Any]) -> Iterator[DomainCount]:
    count = int(part.get("domainCount") or 0)
    columns = [_values(level, count) for level in part.get("valuesPerLevel") or ()]
    pods = part.get("podCounts") or {}
    counts = [int(pods["universal"])] * count if "universal" in pods else pods.get("individual") or ()
    for index in range(count):
        yield DomainCount(tuple(column[index] for column in columns), int(counts[index]))


def _values(level: Mapping[str, Any], count: int) -> list[str]:
    if "universal" in level:
        return [level["universal"]] * count
    individual = level.get("individual") or {}
    prefix, suffix = individual.get("prefix") or "", individual.get("suffix") or ""
    return [f"{prefix}{root}{suffix}" for root in individual.get("roots") or ()]


def write_assignment(
    assignment: TopologyAssignment | None, *, by_hostname_prefix: bool = True
) -> dict[str, Any] | None:
    """The v1beta2 form: one slice, or one per run of hostnames with a common prefix where that is shorter."""
    if assignment is None:
        return None
    single = _packed(assignment, [assignment.domains])
    if not by_hostname_prefix:
        return single
    prefixed = _packed(assignment, _runs(assignment))
    if len(prefixed["slices"]) <= 1 or len(assignment.domains) > _DOMAINS_PER_SLICE:
        return prefixed
    return single if _size(single) < _size(prefixed) else prefixed


def _packed(assignment: TopologyAssignment, runs: Sequence[Sequence[DomainCount]]) -> dict[str, Any]:
    slices = [
        _slice(len(assignment.levels), run[at : at + _DOMAINS_PER_SLICE])
        for run in runs
        for at in range(0, len(run), _DOMAINS_PER_SLICE)
    ]
    return {"levels": list(assignment.levels), "slices": slices}


def _size(packed: Mapping[str, Any]) -> int:
    return len(json.dumps(packed, separators=(",", ":")))


def _slice(levels: int, domains: Sequence[DomainCount]) -> dict[str, Any]:
    counts = [d.pods for d in domains]
    uniform = all(c == counts[0] for c in counts)
    return {
        "domainCount": len(domains),
        "valuesPerLevel": [_level([d.values[i] for d in domains]) for i in range(levels)],
        "podCounts": {"universal": counts[0]} if uniform else {"individual": counts},
    }


def _level(values: list[str]) -> dict[str, Any]:
    prefix = _common_prefix(values)
    suffix = _common_prefix([v[::-1] for v in values])[::-1]
    shortest, longest = min(map(len, values)), max(map(len, values))
    if len(prefix) == longest:
        return {"universal": prefix}
    prefix = prefix[: shortest - len(suffix)]
    individual: dict[str, Any] = {}
    if prefix:
        individual["prefix"] = prefix
    if suffix:
        individual["suffix"] = suffix
    individual["roots"] = [v[len(prefix) : len(v) - len(suffix)] for v in values]
    return {"individual": individual}


def _common_prefix(values: Sequence[str]) -> str:
    """What all begin with: the first and the last of them in order decide."""
    first, last = min(values), max(values)
    for at, letter in enumerate(first):
        if last[at] != letter:
            return first[:at]
    return first


def _runs(assignment: TopologyAssignment) -> list[Sequence[DomainCount]]:
    domains = assignment.domains
    if not domains:
        return []
    keys = None
    if assignment.levels and assignment.levels[-1] == HOSTNAME_LABEL:
        keys = _prefix_keys([d.values[-1] for d in domains])
    if keys is None:
        return [domains]
    of_run = iter(keys)
    return [tuple(run) for _, run in groupby(domains, key=lambda _: next(of_run))]


def _prefix_keys(hostnames: Sequence[str]) -> list[str] | None:
    """For each hostname the longest prefix up to a dash that another one shares, few enough to form runs."""
    prefixes = [[h[: i + 1] for i in range(len(h) - 1) if h[i] == "-"] for h in hostnames]
    seen: dict[str, int] = {}
    for of_host in prefixes:
        for prefix in of_host:
            seen[prefix] = seen.get(prefix, 0) + 1
    for depth in range(max(map(len, prefixes)), 0, -1):
        keys = [next((p for p in reversed(ps[:depth]) if seen[p] >= 2), "") for ps in prefixes]
        if sum(1 for _ in groupby(keys)) <= _SLICES:
            return keys
    return None
