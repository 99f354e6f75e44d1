"""May a workload be admitted into its ClusterQueue at all? Namespace, requests and limit ranges.

Source: pkg/workload/resources.go ValidateAdmissibility; pkg/util/limitrange.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from fairway.kube.labels import Selector
from fairway.kube.objects import Obj
from fairway.queueing.facts.limits import aggregate, out_of_range, summarize
from fairway.queueing.facts.workloads import Workload

NAMESPACE_MISMATCH: Final = "workload namespace doesn't match ClusterQueue selector"


@dataclass(frozen=True, slots=True)
class Namespaces:
    """Labels of every namespace, and its LimitRanges."""

    labels: Mapping[str, Mapping[str, str]]
    limit_ranges: Mapping[str, Sequence[Obj]] = field(default_factory=dict)


class Inadmissible(NamedTuple):
    message: str
    is_namespace_mismatch: bool = False


def inadmissible(workload: Workload, selector: Selector, namespaces: Namespaces) -> Inadmissible | None:
    """Why it may not be admitted, or None."""
    name = workload.namespace
    labels = namespaces.labels.get(name)
    if labels is None:
        return Inadmissible(f'workload namespace "{name}" does not exist: namespaces "{name}" not found')
    if (selector.requirements or selector.nothing) and not selector.matches(labels):
        return Inadmissible(NAMESPACE_MISMATCH, is_namespace_mismatch=True)
    if workload.shape.limit_problems:
        return Inadmissible(f"resources validation failed: {aggregate(workload.shape.limit_problems)}")
    ranges = namespaces.limit_ranges.get(name)
    if ranges:
        summary = summarize(ranges)
        problems: list[str] = []
        for index, pod_set in enumerate(workload.shape.pod_sets):
            problems.extend(out_of_range(_path(index), pod_set.spec, summary))
        if problems:
            return Inadmissible(f"resources didn't satisfy LimitRange constraints: {aggregate(problems)}")
    return None


def _path(index: int) -> str:
    return f"spec.podSets[{index}].template.spec"
