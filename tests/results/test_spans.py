"""Jobs of a run as OpenTelemetry's spans."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from fairway.cli.main import main
from fairway.results.rundir import load_run

EXAMPLE = Path(__file__).parents[2] / "examples/11-spot-exercise"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("spans")
    run, out = folder / "run", folder / "spans.json"
    assert main(["simulate", str(EXAMPLE), "--out", str(run), "--quiet"]) in (0, 1)
    assert main(["metrics", "export", str(out), "--on", str(run), "--format", "otlp"]) == 0
    return run, out


def spans_of(out: Path) -> list[dict[str, Any]]:
    requests = [json.loads(line) for line in out.read_text().splitlines()]
    return [
        span
        for request in requests
        for one in request["resourceSpans"]
        for scope in one["scopeSpans"]
        for span in scope["spans"]
    ]


def test_spans_are_trees_in_which_children_lie_within_their_parents(written: tuple[Path, Path]) -> None:
    run, out = written
    spans = spans_of(out)
    by_id = {span["spanId"]: span for span in spans}
    assert len(by_id) == len(spans)
    for span in spans:
        assert len(span["traceId"]) == 32 and len(span["spanId"]) == 16
        begin, end = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
        assert begin <= end
        parent = by_id[span["parentSpanId"]] if "parentSpanId" in span else None
        if parent is not None:
            assert parent["traceId"] == span["traceId"]
            assert int(parent["startTimeUnixNano"]) <= begin and end <= int(parent["endTimeUnixNano"])
    outcome = load_run(run).outcome
    pods = {pod.uid: pod for pod in outcome.pods}
    told = {}
    for span in spans:
        uid = next((a["value"]["stringValue"] for a in span["attributes"] if a["key"] == "k8s.pod.uid"), None)
        if uid is not None:
            told[uid] = span
    assert set(told) == set(pods)
    running = {s["parentSpanId"]: s for s in spans if s["name"] == "running"}
    for uid, pod in pods.items():
        found = running.get(told[uid]["spanId"])
        assert (found is None) == (pod.started_us is None)
        if found is not None and pod.finished_us is not None:
            assert pod.started_us is not None
            lasted = int(found["endTimeUnixNano"]) - int(found["startTimeUnixNano"])
            assert lasted == (pod.finished_us - pod.started_us) * 1000
    assert any(event["name"] == "evicted" for span in spans for event in span.get("events", ()))
    assert sum(span["name"].startswith("queued ") for span in spans) == len(outcome.queues.workloads)


def test_opentelemetry_reads_every_line(written: tuple[Path, Path]) -> None:
    service = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    from google.protobuf import json_format

    count = 0
    for line in written[1].read_text().splitlines():
        request = json.loads(line)
        for span in request["resourceSpans"][0]["scopeSpans"][0]["spans"]:
            # OTLP writes ids in hexadecimal where Protobuf's own JSON has base64.
            for name in ("traceId", "spanId", "parentSpanId"):
                if name in span:
                    span[name] = base64.b64encode(bytes.fromhex(span[name])).decode()
        read = json_format.ParseDict(request, service.ExportTraceServiceRequest())
        count += len(read.resource_spans[0].scope_spans[0].spans)
    assert count == len(spans_of(written[1]))


def test_what_chooses_series_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--on", str(EXAMPLE), "--format", "otlp", "--match", "up"]
    assert main(["metrics", "export", str(tmp_path / "x"), *arguments]) == 2
    assert "otlp writes all spans" in capsys.readouterr().err
