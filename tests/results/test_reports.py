"""The reports of a run: goldens at three widths, plain data, HTML that stands by itself, charts."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from io import BytesIO
from xml.etree import ElementTree

import pytest
from golden import check_golden
from runworld import complete, large_world, small_run, small_world

from fairway.recorder.tables import INTERRUPTED
from fairway.results.charts import charts_of
from fairway.results.figures import figures_of, percentile
from fairway.results.htmlreport import PODS_LISTED, html_report
from fairway.results.png import SCALE, png_bytes
from fairway.results.run import Run, RunInfo
from fairway.results.svg import svg_file
from fairway.results.textlayout import as_text
from fairway.results.textreport import report_lines
from fairway.results.timeline import DETAIL_NODES, HEAT_ROWS, detailed, heat_map
from recorded import Recorded

WIDTHS = (80, 100, 140)


@pytest.mark.parametrize("width", WIDTHS)
def test_terminal_report(width: int) -> None:
    text = as_text(report_lines(small_run(), width))
    assert max(map(len, text.splitlines())) <= width
    check_golden(f"report-{width}.txt", text)


@pytest.mark.parametrize("width", WIDTHS)
def test_terminal_report_of_an_interrupted_run(width: int) -> None:
    run = Run(
        RunInfo("cut short", reason="stopped by Ctrl-C"),
        small_world().outcome(INTERRUPTED),
        missing=("intervals",),
    )
    text = as_text(report_lines(run, width))
    assert max(map(len, text.splitlines())) <= width
    assert "This run was interrupted (stopped by Ctrl-C)" in text.replace("\n", " ")
    assert "Missing: intervals." in text.replace("\n", " ")


@pytest.mark.parametrize("width", WIDTHS)
def test_long_names_do_not_break_lines(width: int) -> None:
    world = Recorded().node("n" * 60, gpus=8)
    for i in range(20):
        world.pod(
            "p" * 200 + str(i), "namespace-" * 6 + str(i), gpus=4, priorityClassName="class-" * 10 + str(i)
        )
        world.refuse(
            "p" * 200 + str(i),
            "0/1 nodes are available: 1 " + "very " * 60 + "insufficient.",
            "namespace-" * 6 + str(i),
        )
    run = complete(world.at(50), name="name " * 50)
    text = as_text(report_lines(run, width))
    assert max(map(len, text.splitlines())) <= width


def test_an_empty_run_has_a_report() -> None:
    run = Run(RunInfo("nothing"), Recorded().outcome())
    assert as_text(report_lines(run, 80)).startswith("nothing")
    assert "nothing" in html_report(run)
    assert charts_of(run) == {}


def test_a_run_without_gpus_has_a_report() -> None:
    run = complete(Recorded().node("n1").at(1).pod("p").bind("p", "n1").at(9))
    text = as_text(report_lines(run, 100))
    assert "GPU-hours" not in text
    assert "queue" in text
    assert html_report(run)


def test_use_nobody_told_is_not_invented() -> None:
    run = complete(Recorded().node("n1", gpus=2).pod("p", gpus=1).bind("p", "n1").run("p").at(60))
    text = as_text(report_lines(run, 100))
    assert "used: unknown" in text
    assert figures_of(run.outcome).gpu.used_ratio is None
    assert "no pod says how it uses them" in html_report(run)


@pytest.mark.parametrize(
    ("values", "percent", "want"),
    [
        ([], 50, None),
        ([7], 50, 7),
        ([7], 99, 7),
        ([1, 2, 3, 4], 50, 2),
        ([1, 2, 3, 4], 90, 4),
        (list(range(1, 101)), 95, 95),
    ],
)
def test_percentile(values: list[int], percent: int, want: int | None) -> None:
    assert percentile(values, percent) == want


# HTML


class _Page(HTMLParser):
    """Elements, their references to elsewhere, and the text of scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.references: list[str] = []
        self.scripts: list[str] = []
        self._in_script = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.references += [
            v or "" for k, v in attrs if k in ("src", "href") and not (v or "").startswith("data:")
        ]
        if tag == "script":
            self._in_script = True
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == "script":
            self._in_script = False

    def handle_data(self, data: str) -> None:
        if self._in_script:
            self.scripts[-1] += data


def test_the_page_stands_by_itself() -> None:
    text = html_report(small_run())
    page = _Page(text)
    assert page.references == []
    assert "@import" not in text
    assert "url(" not in text
    urls = set(re.findall(r"https?://[^\s\"'<)]+", text))
    assert urls <= {"http://www.w3.org/2000/svg"}
    data = json.loads(page.scripts[0])
    assert len(data["pods"]) == 10
    assert {"chart-allocation", "chart-queue"} <= data["charts"].keys()


def test_the_page_does_not_believe_names() -> None:
    evil = "</script><img src=x onerror=alert(1)>"
    world = Recorded().node("n1", gpus=1)
    world.pod("p", labels={"kueue.x-k8s.io/queue-name": evil}).refuse("p", evil)
    world.at(5)
    run = complete(
        world,
        name=evil,
        notes=(evil,),
        reason=evil,
        assertions=({"name": evil, "passed": False, "shown": evil},),
    )
    text = html_report(run)
    assert "<img" not in text
    assert len(_Page(text).scripts) == 2


def test_the_page_is_bounded_and_says_so() -> None:
    world = Recorded().node("n1", gpus=1)
    for i in range(PODS_LISTED + 5):
        world.pod(f"p{i}")
    text = html_report(complete(world.at(9)))
    assert len(json.loads(_Page(text).scripts[0])["pods"]) == PODS_LISTED
    assert f"{PODS_LISTED:,} of {PODS_LISTED + 5:,} pods" in text


def test_many_nodes_become_a_heat_map() -> None:
    outcome = large_world().outcome()
    assert len(outcome.nodes) > DETAIL_NODES
    heat, lanes = heat_map(outcome), detailed(outcome)
    assert heat is not None
    assert lanes is not None
    assert len(heat.drawing.readout["rows"]) <= HEAT_ROWS
    assert "16 nodes of 60" in lanes.left_out
    assert heat_map(small_world().outcome()) is None


def test_lanes_do_not_overlap() -> None:
    """On a node with 8 GPUs, pods that are there at the same time have different lanes."""
    from fairway.results.drawing import Box

    lanes = detailed(small_world().outcome())
    assert lanes is not None
    boxes = [s for s in lanes.drawing.shapes if isinstance(s, Box) and s.key]
    for i, a in enumerate(boxes):
        for b in boxes[i + 1 :]:
            beside = a.x + a.width <= b.x or b.x + b.width <= a.x
            above = a.y + a.height <= b.y or b.y + b.height <= a.y
            assert beside or above, (lanes.boxes[int(a.key)], lanes.boxes[int(b.key)])


# Charts


def test_charts_are_svg_and_png() -> None:
    from PIL import Image

    charts = charts_of(small_run())
    assert list(charts) == ["allocation", "holders", "queue", "waits", "fragmentation"]
    for name, drawing in charts.items():
        root = ElementTree.fromstring(svg_file(drawing))
        texts = [t.text for t in root.iter("{http://www.w3.org/2000/svg}text")]
        assert any(texts), name
        image = Image.open(BytesIO(png_bytes(drawing)))
        assert image.size == (drawing.width * SCALE, drawing.height * SCALE)


def test_axes_are_labelled_with_units_and_times() -> None:
    svg = svg_file(charts_of(small_run())["allocation"])
    assert ">GPUs<" in svg
    for tick in ("Jan 5", "00:30", "01:00", "02:00"):
        assert f">{tick}<" in svg


def test_a_colour_means_the_same_namespace_everywhere() -> None:
    charts = charts_of(small_run())
    entries = {}
    for name in ("holders",):
        for series in charts[name].readout["series"]:
            entries[series["name"]] = series["colour"]
    assert entries == {"research": "c0", "platform": "c1", "serving": "c2"}
    waits = svg_file(charts["waits"])
    for colour in ("c0", "c1", "c2"):
        assert f's-{colour}"' in waits


def test_reports_do_not_change_a_run() -> None:
    run = small_run()
    assert html_report(run) == html_report(replace(run))
