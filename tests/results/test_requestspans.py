"""Requests of a served model as spans: phases follow each other, and what is taken is a fair sample."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from fairway.cli.main import main
from fairway.results.requestspans import FILE

SCENARIO = Path(__file__).parents[2] / "examples" / "16-serving"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("spans") / "run"
    words = ["simulate", str(SCENARIO), "--duration", "20m", "--out", str(out), "--request-spans", "40", "-q"]
    assert main(words) in (0, 1)
    return out


def spans(file: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    return [s for line in lines for r in line["resourceSpans"] for c in r["scopeSpans"] for s in c["spans"]]


def test_phases_fill_a_request(run: Path) -> None:
    found = spans(run / FILE)
    tops = [s for s in found if "parentSpanId" not in s]
    assert 60 <= len(tops) <= 120  # Of three models.
    answered = 0
    for top in tops:
        inside = [
            s for s in found if s.get("parentSpanId") == top["spanId"] and s["traceId"] == top["traceId"]
        ]
        assert inside[0]["name"] == "queue"
        assert inside[0]["startTimeUnixNano"] == top["startTimeUnixNano"]
        for one, following in pairwise(inside):
            assert one["endTimeUnixNano"] == following["startTimeUnixNano"]
        assert inside[-1]["endTimeUnixNano"] == top["endTimeUnixNano"]
        if top.get("status") == {"code": 1}:
            answered += 1
            assert [s["name"] for s in inside] == ["queue", "prefill", "decode"]
            assert any(a["key"] == "k8s.pod.name" for a in top["attributes"])
    assert answered


def test_export_has_them_too(run: Path, tmp_path: Path) -> None:
    target = tmp_path / "spans.json"
    words = ["metrics", "export", str(target), "--on", str(run), "--format", "otlp"]
    assert main(words) == 0
    names = {s["name"] for s in spans(target)}
    assert {"queue", "prefill", "decode", "scheduling", "running"} <= names


def test_they_go_to_a_run_directory() -> None:
    assert main(["simulate", str(SCENARIO), "--request-spans", "5"]) == 2
