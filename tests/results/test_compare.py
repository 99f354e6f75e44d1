"""Runs side by side: what matters, in which direction, and what makes them hard to compare."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from golden import check_golden
from runworld import complete, small_run

from fairway.results.compare import BETTER, DIFFERENT, SAME, WORSE, Comparison, compare
from fairway.results.comparetext import comparison_lines
from fairway.results.run import Run
from fairway.results.textlayout import as_text
from recorded import Recorded


def _waits(seconds: float, *, gpus: int = 1, name: str = "r", pods: int = 10) -> Run:
    """Pods that each waited this long, then ran for a minute."""
    world = Recorded().node("n1", gpus=16)
    for i in range(pods):
        world.at(0 if i == 0 else 200 * i).pod(f"p{i}", gpus=gpus)
        world.at(200 * i + seconds).bind(f"p{i}", "n1").run(f"p{i}")
        world.at(200 * i + seconds + 60).succeed(f"p{i}")
    return complete(world.at(200 * pods), name=name, digest="", assertions=())


def _verdicts(comparison: Comparison) -> dict[str, str]:
    return {d.name: d.verdicts[1] for d in comparison.differences if d.matters}


CASES: dict[str, tuple[Callable[[], list[Run]], dict[str, str]]] = {
    "the same run": (lambda: [_waits(5), _waits(5)], {}),
    "a change too small in seconds": (lambda: [_waits(5), _waits(9)], {}),
    "a change too small in percent": (lambda: [_waits(100), _waits(109)], {}),
    "longer waits": (
        lambda: [_waits(5), _waits(120)],
        {
            "wait p50": WORSE, "wait p95": WORSE, "wait max": WORSE, "all work done after": WORSE,
            "queue length, mean": WORSE, "GPUs asked for, mean": WORSE, "GPU-hours idle in demand": WORSE,
        },
    ),
    "more GPUs for the same pods": (
        lambda: [_waits(5), _waits(5, gpus=8)],
        {"GPUs allocated": BETTER, "fragmentation": DIFFERENT, "GPU-hours allocated": DIFFERENT},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_what_matters(case: tuple[Callable[[], list[Run]], dict[str, str]]) -> None:
    make, want = case
    found = _verdicts(compare(make()))
    want = {name: verdict for name, verdict in want.items() if name in found or verdict != DIFFERENT}
    assert {name: found.get(name) for name in want} == want
    if not want:
        assert found == {}


def test_what_matters_comes_first() -> None:
    comparison = compare([_waits(5), _waits(120)])
    flags = [d.matters for d in comparison.differences]
    assert flags == sorted(flags, reverse=True)
    assert comparison.differences[0].name == "wait p50"


def test_caveats() -> None:
    a, b = small_run(), small_run(seed=7, digest="other")
    caveats = " ".join(compare([a, b]).caveats)
    assert "B has another seed than A" in caveats
    assert "B has the digest of A" in " ".join(compare([a, small_run()]).caveats)
    short = compare([_waits(5), _waits(5, pods=4)]).caveats
    assert any("another number of pods (4 against 10)" in c for c in short)


def test_names_are_told_apart() -> None:
    assert compare([_waits(1, name="x"), _waits(1, name="y")]).names == ("x", "y")
    assert compare([_waits(1, name="x"), _waits(1, name="x")]).names == ("x (1)", "x (2)")


@pytest.mark.parametrize("count", [2, 3, 4])
def test_fits_100_columns(count: int) -> None:
    runs = [_waits(5 + 37 * i, gpus=1 + 3 * i, name=f"run {i}") for i in range(count)]
    text = as_text(comparison_lines(compare(runs), 100))
    assert max(map(len, text.splitlines())) <= 100
    check_golden(f"compare-{count}.txt", text)


def test_json_has_all_runs() -> None:
    data = compare([_waits(5), _waits(120), _waits(5)]).as_json()
    wait = next(d for d in data["differences"] if d["name"] == "wait p50")
    assert wait["values"] == (5_000_000, 120_000_000, 5_000_000)
    assert wait["verdicts"] == (SAME, WORSE, SAME)


def test_one_run_is_not_compared() -> None:
    with pytest.raises(ValueError, match="two runs"):
        compare([_waits(1)])
