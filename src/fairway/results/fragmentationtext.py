"""Where the free GPUs are, and why they are of no use: for a terminal, and as plain data."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fairway.kube.resources import MEMORY, format_amount
from fairway.results import words
from fairway.results.fragmentation import GIVEN, PENDING, REMAINDER, ClusterGpus, NodeGpus, ShapeDemand
from fairway.results.textlayout import DIM, HEADING, TITLE, Line, table, wrapped

NODES_SHOWN = 30
SHAPES_SHOWN = 12
_HOLDERS_SHOWN = 3

_WHOSE = {
    PENDING: "pods that wait",
    "present": "pods that are there (none waits for a GPU)",
    GIVEN: "the shape asked about",
}


def fragmentation_lines(found: ClusterGpus, width: int = 100, *, all_nodes: bool = False) -> list[Line]:
    """The answer, most important first."""
    total, free = found.total_milli, found.free_milli
    if not total:
        return [Line("No node offers GPUs.", TITLE)]
    head = f"{words.gpus(total)} GPUs on {words.counted(len(found.nodes), 'node')}: "
    head += f"{words.gpus(found.allocated_milli)} allocated, {words.gpus(free)} free"
    lines = [Line(head, TITLE)]
    if not found.shapes:
        lines.extend(
            wrapped("No pod asks for GPUs; give a shape with --shape to ask what would fit.", width, "")
        )
    elif free:
        share = words.percent(found.lost_milli / free)
        lost = (
            f"Of the free, {words.gpus(found.lost_milli)} ({share}) are of no use to {_WHOSE[found.demand]}."
        )
        lines.extend(wrapped(lost, width, ""))
    if found.losses:
        rows = [(x.words, words.gpus(x.gpu_milli), words.count(x.nodes)) for x in found.losses]
        lines += [Line(""), Line("WHY", HEADING), *table(("cause", "GPUs", "nodes"), rows, width)]
    if found.shapes:
        lines += [Line(""), *_shapes(found, width)]
    lines += [Line(""), *_nodes(found, width, all_nodes)]
    if found.gated_pods:
        gated = words.counted(found.gated_pods, "pod")
        lines += [Line(""), *wrapped(f"{gated} held back by scheduling gates: not counted.", width, "")]
    return lines


def _shapes(found: ClusterGpus, width: int) -> list[Line]:
    rows = [
        (s.shape, "" if found.demand == GIVEN else words.count(s.pods), fits_text(s), _where(s))
        for s in found.shapes[:SHAPES_SHOWN]
    ]
    title = {PENDING: "WAITING, AND HOW MANY MORE FIT NOW", GIVEN: "HOW MANY MORE FIT NOW"}.get(
        found.demand, "THERE, AND HOW MANY MORE FIT NOW"
    )
    lines = [
        Line(title, HEADING),
        *table(("shape", "pods", "more fit", "where, or why not"), rows, width, left=(0, 3)),
    ]
    rest = len(found.shapes) - SHAPES_SHOWN
    return [*lines, Line(f"  … and {rest:,} more shapes", DIM)] if rest > 0 else lines


def fits_text(shape: ShapeDemand) -> str:
    return f"≥ {shape.fits.count:,}" if shape.fits.is_at_least else f"{shape.fits.count:,}"


def _where(shape: ShapeDemand) -> str:
    if not shape.fits.count:
        return f"nowhere: {shape.short}" if shape.short else "no node has a free GPU"
    named = [f"{count} on {node}" for node, count in shape.fits.by_node[:3]]
    rest = len(shape.fits.by_node) - len(named)
    return ", ".join(named) + (f", {words.counted(rest, 'other node')}" if rest else "")


def _nodes(found: ClusterGpus, width: int, all_nodes: bool) -> list[Line]:
    nodes = sorted(found.nodes, key=lambda n: (-n.lost_milli, -n.free_milli, n.node))
    shown = nodes if all_nodes else nodes[:NODES_SHOWN]
    rows = [
        (
            n.node,
            words.gpus(n.total_milli),
            words.gpus(n.allocated_milli),
            words.gpus(n.free_milli),
            words.gpus(n.lost_milli) if n.lost_milli else "",
            f"{n.cpu_milli_free / 1000:g}",
            _memory(n.memory_bytes_free),
            _story(n),
        )
        for n in shown
    ]
    header = ("node", "GPUs", "alloc", "free", "no use", "CPU free", "memory free", "why; by whom")
    lines = [Line("NODES", HEADING), *table(header, rows, width, left=(0, 7))]
    rest = len(nodes) - len(shown)
    return [*lines, Line(f"  … and {rest:,} more nodes (--all-nodes)", DIM)] if rest > 0 else lines


def _memory(count: int) -> str:
    """Whole GiB are enough to see what is short."""
    gib = count / 2**30
    return f"{gib:,.0f}Gi" if gib >= 10 else format_amount(MEMORY, count)


def _story(node: NodeGpus) -> str:
    holders = [f"{h.namespace}/{h.owner} {words.gpus(h.gpu_milli)}" for h in node.holders[:_HOLDERS_SHOWN]]
    if len(node.holders) > _HOLDERS_SHOWN:
        holders.append("…")
    cause = "remainder" if node.cause == REMAINDER else node.cause
    return "; ".join(filter(None, (cause, ", ".join(holders))))


def fragmentation_json(found: ClusterGpus) -> dict[str, Any]:
    """Everything, milli-GPU throughout."""
    return {
        "total_milli": found.total_milli,
        "allocated_milli": found.allocated_milli,
        "free_milli": found.free_milli,
        "lost_milli": found.lost_milli,
        "demand": found.demand,
        "losses": [asdict(x) for x in found.losses],
        "shapes": [
            {
                "shape": s.shape,
                "pods": s.pods,
                "gpu_milli": s.gpu_milli,
                "fits": s.fits.count,
                "fits_is_at_least": s.fits.is_at_least,
                "by_node": dict(s.fits.by_node),
                "short": s.short,
            }
            for s in found.shapes
        ],
        "nodes": [{**asdict(n), "free_milli": n.free_milli, "lost_milli": n.lost_milli} for n in found.nodes],
        "gated_pods": found.gated_pods,
    }
