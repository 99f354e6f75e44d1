"""Which group grows by how many nodes, and why is that no help to the rest?

1. Groups in backoff or at their maximum are skipped.
2. Per group: the kinds of pods that fit an empty node of it, and how many nodes they would fill.
3. The expander picks one; it is capped to what may be had, and spread over similar groups.

Source: core/scaleup/orchestrator/orchestrator.go ScaleUp; skippedreasons.go;
processors/status/eventing_scale_up_processor.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fairway.kube.resources import NVIDIA_GPU
from fairway.kube.timestamps import SECOND_US, parse_rfc3339
from fairway.provisioning.clusterautoscaler.balancing import are_similar, balanced
from fairway.provisioning.clusterautoscaler.estimating import Kinds, estimate
from fairway.provisioning.clusterautoscaler.expanders import Option, Priorities, choose
from fairway.provisioning.clusterautoscaler.fitting import Room
from fairway.provisioning.clusterautoscaler.groups import NodeGroup, Options
from fairway.provisioning.clusterautoscaler.snapshot import by_kind
from fairway.provisioning.karpenter.podfacts import PodFacts, Shape

NEW_US, NEW_WITH_GPU_US = 2 * SECOND_US, 30 * SECOND_US
# Source: utils/gpu/gpu.go GPUVendorResourceNames.
GPU_RESOURCES = (NVIDIA_GPU, "habana.ai/gaudi", "gpu.intel.com/xe", "amd.com/gpu", "microsoft.com/directx")
BACKOFF_REASON = "in backoff after failed scale-up"
MAX_SIZE_REASON = "max node group size reached"
MAX_NODES_TOTAL = "max total nodes in cluster reached"
ALL_OR_NOTHING_REASON = "not all pods would fit and scale-up is using all-or-nothing strategy"


@dataclass(frozen=True, slots=True)
class Resize:
    """Prints as upstream's ScaleUpInfo: `{group 1->3 (max: 4)}`."""

    group: str
    size: int
    new_size: int
    most: int

    def __str__(self) -> str:
        return f"{{{self.group} {self.size}->{self.new_size} (max: {self.most})}}"


@dataclass(frozen=True, slots=True)
class ScaleUp:
    """`triggered`: pods it is for. `unhelped`: pods no group can help, with the reasons in their event."""

    resizes: tuple[Resize, ...] = ()
    triggered: tuple[PodFacts, ...] = ()
    awaiting: tuple[PodFacts, ...] = ()
    """Looked at again in the next loop: another option was better."""
    unhelped: tuple[tuple[PodFacts, str], ...] = ()


def are_new(pods: Sequence[PodFacts], now_us: int) -> bool:
    """Whether all came so recently that more may follow: two seconds, half a minute where any asks for GPUs.

    Source: core/static_autoscaler.go allPodsAreNew.
    """
    oldest = min(p.created for p in pods)
    if parse_rfc3339(oldest) + NEW_US > now_us:
        return True
    with_gpu = [p.created for p in pods if any(name in p.shape.requests for name in GPU_RESOURCES)]
    return bool(with_gpu) and parse_rfc3339(min(with_gpu)) + NEW_WITH_GPU_US > now_us


def scale_up(
    pods: Sequence[PodFacts],
    groups: Sequence[NodeGroup],
    options: Options,
    draw: float,
    *,
    nodes_total: int,
    priorities: Priorities | None = None,
    all_or_nothing: bool = False,
) -> ScaleUp:
    """What is done for pods that wait. `nodes_total`: nodes there and coming."""
    if not pods:
        return ScaleUp()
    kinds = by_kind(pods)
    left_total = options.max_nodes_total - nodes_total if options.max_nodes_total else options.most_new_nodes
    if left_total <= 0:
        return ScaleUp(unhelped=tuple((p, MAX_NODES_TOTAL) for p in pods))
    skipped = {g.name: why for g in groups if (why := _skip_reason(g))}
    rejected: dict[Shape, dict[str, tuple[str, ...]]] = {shape: {} for shape in kinds}
    found: list[Option] = []
    fitting: dict[str, Kinds] = {}
    for group in groups:
        if group.name in skipped:
            continue
        fitting[group.name] = _fitting(kinds, group, rejected)
        most = min(_room_to_grow(group, groups, options), options.most_new_nodes)
        got = estimate(fitting[group.name], group.template, most)
        if all_or_nothing and len(got.pods) < len(pods):
            for shape in fitting[group.name]:
                rejected[shape][group.name] = (ALL_OR_NOTHING_REASON,)
        elif got.nodes:
            found.append(Option(group, got.nodes, got.pods))
    best = choose(found, options.expanders, draw, priorities=priorities, cluster_size=nodes_total)
    if best is None:
        return ScaleUp(unhelped=_all_unhelped(kinds, skipped, rejected))
    nodes = min(best.nodes, left_total)
    if all_or_nothing and nodes < best.nodes:
        return ScaleUp(unhelped=tuple((p, MAX_NODES_TOTAL) for p in pods))
    resizes = _spread(best, nodes, groups, fitting, options)
    triggered = {p.uid for p in best.pods}
    helped = {p.uid for o in found for p in o.pods}
    hopeless = {s: kin for s, kin in kinds.items() if not any(p.uid in helped for p in kin)}
    return ScaleUp(
        resizes=resizes,
        triggered=best.pods,
        awaiting=tuple(p for p in pods if p.uid not in triggered and p.shape not in hopeless),
        unhelped=_all_unhelped(hopeless, skipped, rejected),
    )


def _skip_reason(group: NodeGroup) -> str:
    if group.unsafe:
        return group.unsafe
    return MAX_SIZE_REASON if group.target >= group.most else ""


def _fitting(
    kinds: Kinds, group: NodeGroup, rejected: Mapping[Shape, dict[str, tuple[str, ...]]]
) -> dict[Shape, Sequence[PodFacts]]:
    """The kinds an empty node of the group would hold; why it would not hold others is noted."""
    found = {}
    for shape, pods in kinds.items():
        why = Room(group.template).why_not(shape)
        if why:
            rejected[shape][group.name] = why
        else:
            found[shape] = pods
    return found


def _room_to_grow(group: NodeGroup, groups: Sequence[NodeGroup], options: Options) -> int:
    """Source: estimator/sng_capacity_threshold.go: with balancing, that of similar groups counts, too."""
    kin = _similar(group, groups) if options.balance_similar else []
    return sum(max(g.most - g.target, 0) for g in (group, *kin) if not g.unsafe)


def _similar(group: NodeGroup, groups: Sequence[NodeGroup]) -> list[NodeGroup]:
    return [g for g in groups if g.name != group.name and are_similar(group.template, g.template)]


def _spread(
    best: Option,
    nodes: int,
    groups: Sequence[NodeGroup],
    fitting: Mapping[str, Kinds],
    options: Options,
) -> tuple[Resize, ...]:
    """Over the group and those like it that could hold all its pods."""
    kin: list[NodeGroup] = []
    if options.balance_similar:
        shapes = {p.shape for p in best.pods}
        kin = [g for g in _similar(best.group, groups) if shapes <= set(fitting.get(g.name, ()))]
    return tuple(Resize(g.name, g.target, size, g.most) for g, size in balanced((best.group, *kin), nodes))


def _all_unhelped(
    kinds: Kinds, skipped: Mapping[str, str], rejected: Mapping[Shape, Mapping[str, tuple[str, ...]]]
) -> tuple[tuple[PodFacts, str], ...]:
    out = []
    for shape, pods in kinds.items():
        counts: dict[str, int] = {}
        for reasons in rejected[shape].values():
            for reason in reasons:
                counts[reason] = counts.get(reason, 0) + 1
        for reason in skipped.values():
            counts[reason] = counts.get(reason, 0) + 1
        # Unlike kube: by count, then by text; upstream's order is that of a hash map.
        ordered = sorted(counts.items(), key=lambda c: (-c[1], c[0]))
        message = ", ".join(f"{n} {reason}" for reason, n in ordered)
        out += [(pod, message) for pod in pods]
    return tuple(out)
