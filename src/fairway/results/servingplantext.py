"""A serving plan for a terminal, and its frontier as a drawing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairway.results import words
from fairway.results.axes import value_label, value_ticks
from fairway.results.drawing import SERIES_COLOURS, Box, Drawing, Line, Shape, Text
from fairway.results.plotting import HEIGHT, WIDTH
from fairway.results.servingplan import Option, frontier
from fairway.results.textlayout import DIM, GOOD, HEADING, table, wrapped
from fairway.results.textlayout import Line as TextLine

ROWS = 12
_HEAD = ["", "GPU", "weights", "limits", "replicas", "ttft p95", "tpot p95", "in SLO", "$/h", "$/day"]
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 24, 56, 48


def plan_lines(
    options: Sequence[Option], why: Mapping[str, int], has_trough: bool, width: int
) -> list[TextLine]:
    """Frontier and cheapest; what the best means as settings; why others are none."""
    if not options:
        lines = [TextLine("nothing that is priced keeps this SLO", HEADING)]
        return [*lines, *_reasons(why, width)]
    best = options[0]
    edge = frontier(options)
    shown = list(dict.fromkeys([*edge, *options]))[: max(ROWS, len(edge))]
    shown.sort(key=lambda o: (o.micros_mean, o.ttft_p95_s))
    lines = table(_HEAD, [_row(o, o is best, o in edge) for o in shown], width)
    lines.append(
        TextLine(
            f"→ cheapest   * on the frontier of money and time to the first token ({len(options)} ways)", DIM
        )
    )
    args = f"--tensor-parallel-size {best.parallel} --max-num-seqs {best.seqs} --max-num-batched-tokens {best.tokens}"
    if best.quantization != "auto":
        args += f" --quantization {best.quantization}"
    said = f"{words.counted(best.replicas, 'replica')} of {best.name}: vllm serve … {args}"
    lines += [TextLine(line.text, GOOD) for line in wrapped(said, width)]
    scaling = f"minReplicas {best.least}, maxReplicas {best.replicas}, " if has_trough else ""
    said = f"autoscaling: {scaling}{max(round(best.in_flight), 1)} requests in flight for each replica"
    return [*lines, TextLine(said, GOOD), *_reasons(why, width)]


def _reasons(why: Mapping[str, int], width: int) -> list[TextLine]:
    if not why:
        return []
    said = ", ".join(
        f"{count} × {reason}" for reason, count in sorted(why.items(), key=lambda r: (-r[1], r[0]))
    )
    return [TextLine(line.text, DIM) for line in wrapped(f"not: {said}", width)]


def _row(option: Option, is_best: bool, is_edge: bool) -> list[str]:
    return [
        "→" if is_best else "*" if is_edge else "",
        option.name,
        option.quantization,
        f"{option.seqs}/{option.tokens}",
        str(option.replicas),
        f"{1000 * option.ttft_p95_s:.0f}ms",
        f"{1000 * option.tpot_p95_s:.0f}ms",
        f"{100 * option.found.attained:.1f}%",
        f"{option.micros_per_hour / 1e6:,.2f}",
        f"{24 * option.micros_mean / 1e6:,.0f}",
    ]


def frontier_drawing(options: Sequence[Option], title: str) -> Drawing:
    """Money over the time to the first token; a point an option, the frontier as a line, the cheapest named."""
    top, right = max(o.micros_mean / 1e6 for o in options), max(1000 * o.ttft_p95_s for o in options)
    rows, columns = value_ticks(top), value_ticks(right)

    def x(ms: float) -> float:
        return _LEFT + ms / columns[-1] * (WIDTH - _LEFT - _RIGHT)

    def y(usd: float) -> float:
        return HEIGHT - _BOTTOM - usd / rows[-1] * (HEIGHT - _TOP - _BOTTOM)

    shapes: list[Shape] = [Text(18, 18, title, "ink", 14, bold=True), Text(18, 40, "$ per hour", "muted", 11)]
    for value in rows:
        shapes.append(Line(((_LEFT, y(value)), (WIDTH - _RIGHT, y(value))), "grid"))
        shapes.append(Text(_LEFT - 8, y(value) + 4, value_label(value), anchor="end"))
    for value in columns:
        shapes.append(Line(((x(value), HEIGHT - _BOTTOM), (x(value), HEIGHT - _BOTTOM + 4)), "muted"))
        shapes.append(Text(x(value), HEIGHT - _BOTTOM + 18, value_label(value), anchor="middle"))
    middle = (_LEFT + WIDTH - _RIGHT) / 2
    shapes.append(
        Text(middle, HEIGHT - 10, "time to the first token, 95th percentile, ms", "muted", 11, "middle")
    )
    cards = list(dict.fromkeys(o.gpu for o in options))
    colours = {card: SERIES_COLOURS[i % len(SERIES_COLOURS)] for i, card in enumerate(cards)}
    edge = frontier(options)
    corners: list[tuple[float, float]] = []
    for option in edge:
        at = (x(1000 * option.ttft_p95_s), y(option.micros_mean / 1e6))
        if corners:
            corners.append((corners[-1][0], at[1]))
        corners.append(at)
    shapes.append(Line(tuple(corners), "muted", 1.5, dash=True))
    for option in reversed(options):
        size = 9 if option in edge else 6
        at_x, at_y = x(1000 * option.ttft_p95_s), y(option.micros_mean / 1e6)
        opacity = 1.0 if option in edge else 0.55
        shapes.append(Box(at_x - size / 2, at_y - size / 2, size, size, colours[option.gpu], opacity))
    best = options[0]
    at_x, at_y = x(1000 * best.ttft_p95_s), y(best.micros_mean / 1e6)
    anchor = "end" if at_x > middle else "start"
    named = f"{words.counted(best.replicas, 'replica')} of {best.name}"
    shapes.append(Text(at_x + (-9 if anchor == "end" else 9), at_y - 8, named, "ink", 11, anchor))
    for i, card in enumerate(cards[:12]):
        column, row = divmod(i, 6)
        left, baseline = WIDTH - _RIGHT - 150 * (2 - column), _TOP + 6 + 16 * row
        shapes.append(Box(left, baseline - 9, 10, 10, colours[card]))
        shapes.append(Text(left + 15, baseline, card, "ink", 11))
    return Drawing(WIDTH, HEIGHT, title, tuple(shapes))
