"""Which pod held which part of which node when: a lane per GPU, or a heat map where there are too many.

Lanes are drawn, not recorded: a pod takes the lowest lanes that are free, a share of a GPU the lowest free part
of a lane. Which device of the node it really had is not known to a cluster that does not share GPUs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairway.kube.timestamps import format_duration
from fairway.recorder.tables import NodeRow, Outcome
from fairway.results import words
from fairway.results.axes import time_ticks
from fairway.results.drawing import Box, Drawing, Line, Picture, Shape, Text
from fairway.results.plotting import WIDTH, legend
from fairway.results.shares import REST, namespace_colours, on_even_grid

# Above this many GPU nodes all are shown as a heat map, and the busiest in detail.
DETAIL_NODES = 40
BUSIEST_NODES = 16
# Boxes in a detailed timeline: beyond it the browser suffers and boxes are thinner than a pixel.
MOST_BOXES = 6000
HEAT_ROWS, HEAT_COLUMNS = 128, 320

_LEFT, _RIGHT, _TOP, _BOTTOM = 150, 16, 30, 30
_LANE = 1000  # milli-GPU
_HEAT_RGB = (26, 127, 191)


@dataclass(frozen=True, slots=True)
class Timeline:
    """A drawing, what its boxes stand for by key, and a sentence on what was left out (empty: nothing)."""

    drawing: Drawing
    boxes: tuple[tuple[Any, ...], ...]
    """(namespace, pod, owner, GPUs, node, start s, end s or None) each; keys are indexes."""
    left_out: str = ""


def detailed(outcome: Outcome) -> Timeline | None:
    """A lane per GPU of every node, or of the busiest where there are many."""
    # A name that comes back is one row: its lives are drawn side by side.
    nodes = list({n.name: n for n in reversed(outcome.nodes) if n.gpu_milli}.values())[::-1]
    if not nodes or outcome.duration_us <= 0:
        return None
    left_out = ""
    shown = nodes
    if len(nodes) > DETAIL_NODES:
        busiest = sorted(nodes, key=lambda n: (-n.held_gpu_milli_us, n.name))[:BUSIEST_NODES]
        shown = sorted(busiest, key=lambda n: n.name)
        left_out = f"The {len(shown)} nodes of {len(nodes):,} that had the most GPU time allocated."
    held = _intervals_by_node(outcome, {n.name for n in shown})
    total = sum(len(v) for v in held.values())
    if total > MOST_BOXES:
        longest = sorted((i for v in held.values() for i in v), key=lambda i: (-_length(outcome, i), i))
        kept = set(longest[:MOST_BOXES])
        held = {name: [i for i in v if i in kept] for name, v in held.items()}
        left_out += f" The {MOST_BOXES:,} longest of {total:,} stays on them."
    return _draw(outcome, shown, held, left_out.strip())


def _length(outcome: Outcome, i: int) -> int:
    end = outcome.intervals.columns["end_us"][i]
    return int((outcome.ended_us if end is None else end) - outcome.intervals.columns["start_us"][i])


def _intervals_by_node(outcome: Outcome, names: set[str]) -> dict[str, list[int]]:
    """GPU intervals of these nodes, in order of their start."""
    found: dict[str, list[int]] = {}
    columns = outcome.intervals.columns
    for i, (node, gpu) in enumerate(zip(columns["node"], columns["gpu_milli"], strict=True)):
        if gpu and node in names and _length(outcome, i) > 0:
            found.setdefault(node, []).append(i)
    return found


def _draw(outcome: Outcome, nodes: Sequence[NodeRow], held: dict[str, list[int]], left_out: str) -> Timeline:
    lanes = sum(-(-n.gpu_milli // _LANE) for n in nodes)
    lane = 9.0 if lanes <= 100 else 6.0 if lanes <= 200 else 4.0
    gap = 7.0
    height = round(_TOP + sum(-(-n.gpu_milli // _LANE) * lane + gap for n in nodes) + _BOTTOM)
    colours = namespace_colours(outcome)
    span = outcome.duration_us

    def x(at_us: int) -> float:
        return _LEFT + (at_us - outcome.began_us) / span * (WIDTH - _LEFT - _RIGHT)

    shapes: list[Shape] = [Text(12, 18, "Nodes and their GPUs", "ink", 14, bold=True)]
    for at, label in time_ticks(outcome.began_us, outcome.ended_us):
        shapes.append(Line(((x(at), _TOP), (x(at), height - _BOTTOM + 4)), "grid"))
        shapes.append(Text(x(at), height - 10, label, anchor="middle"))
    boxes: list[tuple[Any, ...]] = []
    lives: dict[str, list[NodeRow]] = {}
    for life in outcome.nodes:
        lives.setdefault(life.name, []).append(life)
    y = float(_TOP)
    for node in nodes:
        count = -(-node.gpu_milli // _LANE)
        top, tall = y, count * lane
        shapes.append(Text(_LEFT - 8, top + tall / 2 + 4, words.cut(node.name, 21), "ink", 11, "end"))
        for life in lives[node.name]:
            begin, end = x(max(life.created_us, outcome.began_us)), x(_gone(outcome, life))
            shapes.append(Box(begin, top, end - begin, tall, "grid", 0.8))
        for i, parts in _packed(outcome, held.get(node.name, []), count):
            columns = outcome.intervals.columns
            left = x(columns["start_us"][i])
            wide = max(x(_end(outcome, i)) - left, 0.6)
            colour = colours.get(columns["namespace"][i], REST)
            for offset, size in parts:
                bar = size / _LANE * lane
                # A hairline keeps neighbours apart where there is room for one.
                shapes.append(
                    Box(
                        left,
                        top + offset / _LANE * lane,
                        max(wide - 0.7, 0.6),
                        max(bar - 0.7, 0.7),
                        colour,
                        key=str(len(boxes)),
                    )
                )
            boxes.append(_told(outcome, i))
        y += tall + gap
    present = dict.fromkeys(box[0] for box in boxes)
    entries = [(name, colour) for name, colour in colours.items() if name in present]
    entries += [("others", REST)] if len(present) > len(entries) else []
    shapes.extend(legend(WIDTH - _RIGHT, 18, entries))
    drawing = Drawing(WIDTH, height, "Nodes and their GPUs", tuple(shapes))
    return Timeline(drawing, tuple(boxes), left_out)


def _end(outcome: Outcome, i: int) -> int:
    end = outcome.intervals.columns["end_us"][i]
    return int(outcome.ended_us if end is None else end)


def _told(outcome: Outcome, i: int) -> tuple[Any, ...]:
    columns, pods = outcome.intervals.columns, outcome.pods.columns
    pod = columns["pod"][i]
    owner = f"{pods['root_kind'][pod]}/{pods['root_name'][pod]}" if pods["root_kind"][pod] else ""
    end = columns["end_us"][i]
    return (
        columns["namespace"][i],
        columns["name"][i],
        owner,
        columns["gpu_milli"][i] / 1000,
        columns["node"][i],
        (columns["start_us"][i] - outcome.began_us) // 1_000_000,
        None if end is None else (end - outcome.began_us) // 1_000_000,
    )


def _packed(
    outcome: Outcome, intervals: Sequence[int], lanes: int
) -> list[tuple[int, list[tuple[int, int]]]]:
    """Where each interval is drawn: (offset, size) pieces in milli-GPU from the node's top."""
    columns = outcome.intervals.columns
    taken: list[tuple[int, int, int]] = []  # (end, offset, size)
    found = []
    for i in intervals:
        start, want = columns["start_us"][i], columns["gpu_milli"][i]
        taken = [t for t in taken if t[0] > start]
        pieces = _lowest(taken, want, lanes)
        taken.extend((_end(outcome, i), offset, size) for offset, size in pieces)
        found.append((i, pieces))
    return found


def _lowest(taken: list[tuple[int, int, int]], want: int, lanes: int) -> list[tuple[int, int]]:
    """The lowest free pieces: a share within one lane, whole GPUs over whole lanes."""
    each = min(want, _LANE)
    pieces: list[tuple[int, int]] = []
    left = want
    for lane in range(lanes):
        if left <= 0:
            break
        at, ceiling = lane * _LANE, (lane + 1) * _LANE
        for offset, size in sorted((o, s) for _, o, s in taken if o < ceiling and o + s > at):
            if offset < at + each:
                at = max(at, offset + size)
        if at + each > ceiling:
            continue
        left -= each
        if pieces and sum(pieces[-1]) == at:
            pieces[-1] = (pieces[-1][0], pieces[-1][1] + each)
        else:
            pieces.append((at, each))
    return pieces


def heat_map(outcome: Outcome) -> Timeline | None:
    """The share of its GPUs that each node had allocated, for clusters with many nodes; None for small ones."""
    nodes = [n for n in outcome.nodes if n.gpu_milli]
    if len(nodes) <= DETAIL_NODES or outcome.duration_us <= 0:
        return None
    nodes.sort(key=lambda n: (n.gpu_model or n.instance_type, n.name, n.created_us))
    per_row = -(-len(nodes) // HEAT_ROWS)
    rows = -(-len(nodes) // per_row)
    ratios = _ratios(outcome, nodes, per_row, rows)
    tall = max(240, min(rows * 4, 520))
    shapes: list[Shape] = [Text(12, 18, "GPUs allocated, node by node", "ink", 14, bold=True)]
    wide = WIDTH - _LEFT - _RIGHT
    rgba = np.zeros((rows, HEAT_COLUMNS, 4), np.uint8)
    rgba[..., :3] = _HEAT_RGB
    rgba[..., 3] = np.where(ratios < 0, 0, 14 + np.clip(ratios, 0, 1) * 241).astype(np.uint8)
    shapes.append(Picture(_LEFT, _TOP, wide, tall, HEAT_COLUMNS, rows, rgba.tobytes()))
    shapes.extend(_model_labels(nodes, per_row, rows, tall))
    for at, label in time_ticks(outcome.began_us, outcome.ended_us):
        x = _LEFT + (at - outcome.began_us) / outcome.duration_us * wide
        shapes.append(Line(((x, _TOP + tall), (x, _TOP + tall + 4)), "muted"))
        shapes.append(Text(x, _TOP + tall + 18, label, anchor="middle"))
    percents = np.where(ratios < 0, 255, np.rint(np.clip(ratios, 0, 1) * 100)).astype(np.uint8)
    readout = {
        "grid": [_LEFT, _TOP, WIDTH - _RIGHT, _TOP + tall],
        "columns": HEAT_COLUMNS,
        "rows": [_row_name(nodes[r * per_row : (r + 1) * per_row]) for r in range(rows)],
        "began_s": outcome.began_us // 1_000_000,
        "ended_s": outcome.ended_us // 1_000_000,
        "percents": percents.tobytes(),
    }
    each = f"a row is {per_row} nodes" if per_row > 1 else "a row is a node"
    column = format_duration(outcome.duration_us // HEAT_COLUMNS)
    left_out = (
        f"{len(nodes):,} GPU nodes, by model: {each}, a column {column}; the darker, the more is allocated."
    )
    drawing = Drawing(
        WIDTH, round(_TOP + tall + _BOTTOM), "GPUs allocated, node by node", tuple(shapes), readout
    )
    return Timeline(drawing, (), left_out)


def _ratios(outcome: Outcome, nodes: Sequence[NodeRow], per_row: int, rows: int) -> np.ndarray[Any, Any]:
    """float64[rows, HEAT_COLUMNS]: allocated of what is there; -1 where nothing is there."""
    row_of = {n.name: i // per_row for i, n in enumerate(nodes)}
    columns = outcome.intervals.columns
    held = [
        (row_of[node], columns["start_us"][i], _end(outcome, i), columns["gpu_milli"][i])
        for i, node in enumerate(columns["node"])
        if columns["gpu_milli"][i] and node in row_of
    ]
    there = [
        (
            i // per_row,
            max(n.created_us, outcome.began_us),
            outcome.ended_us if n.deleted_us is None else n.deleted_us,
            n.gpu_milli,
        )
        for i, n in enumerate(nodes)
    ]
    grids = []
    for entries in (held, there):
        table = np.array(entries, np.int64).reshape(-1, 4)
        starts, ends = table[:, 1] - outcome.began_us, table[:, 2] - outcome.began_us
        amounts = table[:, 3].astype(np.float64)
        grids.append(
            on_even_grid(table[:, 0], starts, ends, amounts, rows, outcome.duration_us, HEAT_COLUMNS)
        )
    return np.where(grids[1] > 1e-6, grids[0] / np.maximum(grids[1], 1e-6), -1.0)


def _gone(outcome: Outcome, node: NodeRow) -> int:
    return outcome.ended_us if node.deleted_us is None else node.deleted_us


def _row_name(nodes: Sequence[NodeRow]) -> str:
    model = nodes[0].gpu_model or nodes[0].instance_type
    name = nodes[0].name if len(nodes) == 1 else f"{nodes[0].name} … {nodes[-1].name}"
    return f"{name} ({model})" if model else name


def _model_labels(nodes: Sequence[NodeRow], per_row: int, rows: int, tall: float) -> list[Shape]:
    """The model's name beside its rows, and a line where the next begins."""
    shapes: list[Shape] = []
    begin = 0
    last_y = -20.0
    for i in range(1, len(nodes) + 1):
        model = nodes[begin].gpu_model or nodes[begin].instance_type
        if i < len(nodes) and (nodes[i].gpu_model or nodes[i].instance_type) == model:
            continue
        top, bottom = begin / per_row / rows * tall, i / per_row / rows * tall
        y = _TOP + (top + bottom) / 2 + 4
        if y - last_y >= 12:
            shapes.append(Text(_LEFT - 8, y, words.cut(model or "GPU nodes", 21), "ink", 11, "end"))
            last_y = y
        if i < len(nodes):
            shapes.append(Line(((_LEFT - 4, _TOP + bottom), (WIDTH - _RIGHT, _TOP + bottom)), "paper"))
        begin = i
    return shapes
