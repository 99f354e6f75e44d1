"""Verdicts for people (text), for programs (JSON) and for a CI (JUnit XML)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

from fairway.kube.timestamps import format_duration
from fairway.scenario.assertions.judging import Verdict, value_text
from fairway.scenario.repeating import Repeated, Spread
from fairway.scenario.running import STOPPED, Finished

PASS, FAIL = "pass", "FAIL"


def verdict_lines(verdicts: Sequence[Verdict], width: int = 100) -> list[str]:
    """One line per assertion with its measure; beneath a failed one, who is to blame."""
    lines = []
    for verdict in verdicts:
        word = PASS if verdict.passed else FAIL
        measured = verdict.shown
        room = width - len(word) - len(measured) - 4
        lines.append(f"{word}  {_cut(verdict.assertion.title, room):<{room}}  {measured}")
        if verdict.note:
            lines.append(_cut(f"      {verdict.note}", width))
        lines.extend(_cut(f"      {text}", width) for text in verdict.worst)
    return lines


def spread_lines(spreads: Sequence[Spread], width: int = 100) -> list[str]:
    """One line per assertion: how often it held, and least, median and most of its measure."""
    lines = []
    for spread in spreads:
        word = PASS if spread.passed == spread.runs else FAIL
        numbers = f"{spread.passed}/{spread.runs}  {spread_text(spread)}"
        room = width - len(word) - len(numbers) - 4
        lines.append(f"{word}  {_cut(spread.assertion.title, room):<{room}}  {numbers}")
        if spread.failed_seeds:
            seeds = ", ".join(map(str, spread.failed_seeds[:10]))
            lines.append(_cut(f"      fails with seed {seeds}", width))
    return lines


def spread_text(spread: Spread) -> str:
    """`4m12s … 6m1s … 9m40s`: least, median, most."""
    parts = (spread.lowest, spread.median, spread.highest)
    if spread.median is None:
        return "nothing"
    return " … ".join(value_text(part, spread.unit) for part in parts if part is not None)


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[: max(room - 1, 0)] + "…"


def verdict_json(verdict: Verdict) -> dict[str, Any]:
    """`measured` in base units: µs, ratio, milli-GPU, milli-CPU, bytes, count."""
    assertion = verdict.assertion
    return {
        "name": assertion.title,
        "assertion": assertion.text,
        "where": assertion.where,
        "passed": verdict.passed,
        "measured": verdict.measured,
        "unit": verdict.unit,
        "shown": verdict.shown,
        "samples": verdict.samples,
        "note": verdict.note,
        "worst": list(verdict.worst),
    }


def finished_json(finished: Finished) -> dict[str, Any]:
    """A run's status and verdicts; its outcome has tables of its own."""
    status = finished.status
    return {
        "scenario": finished.scenario.name,
        "seed": finished.seed,
        "passed": finished.passed,
        "ended": status.ended,
        "duration_s": status.duration_us / 1e6,
        "events": status.events,
        "wall_s": round(status.wall_s, 3),
        "digest": status.digest,
        "assertions": [verdict_json(v) for v in finished.verdicts],
        "not_done": [
            {"at_s": (t.at_us - status.began_us) / 1e6, "path": t.path, "message": t.message}
            for t in status.troubles
        ],
        "refused": [
            {
                "at_s": (r.at_us - status.began_us) / 1e6,
                "where": r.where,
                "object": str(r.key),
                "reason": r.reason,
                "message": r.message,
                "expected": r not in finished.unexpected,
            }
            for r in status.refusals
        ],
        "skipped": [str(p) for p in finished.scenario.skipped],
        "failures": list(status.failures),
    }


def repeated_json(repeated: Repeated) -> dict[str, Any]:
    return {
        "scenario": repeated.scenario.name,
        "passed": repeated.passed,
        "failures": list(repeated.failures),
        "runs": [
            {
                "seed": r.seed,
                "passed": r.passed,
                "ended": r.ended,
                "digest": r.digest,
                "duration_s": r.duration_us / 1e6,
            }
            for r in repeated.runs
        ],
        "assertions": [
            {
                "name": s.assertion.title,
                "assertion": s.assertion.text,
                "passed": s.passed,
                "runs": s.runs,
                "unit": s.unit,
                "min": s.lowest,
                "median": s.median,
                "max": s.highest,
                "failed_seeds": list(s.failed_seeds),
            }
            for s in repeated.spreads
        ],
    }


def junit(finished: Sequence[Finished]) -> str:
    """One test suite per run, one test case per assertion.

    Source: the common subset of the JUnit XML that CI systems read (testsuites/testsuite/testcase/failure).
    """
    root = ElementTree.Element("testsuites", name="fairway")
    for run in finished:
        refused = () if run.scenario.is_lenient else run.unexpected
        failures = sum(not v.passed for v in run.verdicts) + len(refused)
        stopped = run.status.ended == STOPPED
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=run.scenario.name,
            tests=str(len(run.verdicts) + len(refused)),
            failures=str(failures),
            errors=str(int(stopped) + len(run.status.failures)),
            time=f"{run.status.wall_s:.3f}",
        )
        properties = ElementTree.SubElement(suite, "properties")
        for name, value in (
            ("seed", str(run.seed)),
            ("digest", run.status.digest),
            ("simulated", format_duration(run.status.duration_us)),
        ):
            ElementTree.SubElement(properties, "property", name=name, value=value)
        if stopped:
            case = ElementTree.SubElement(suite, "testcase", classname=run.scenario.name, name="run")
            ElementTree.SubElement(case, "error", message="the run was interrupted")
        for text in run.status.failures:
            case = ElementTree.SubElement(suite, "testcase", classname=run.scenario.name, name="run")
            ElementTree.SubElement(case, "error", message=text)
        for refusal in refused:
            attributes = {"classname": run.scenario.name, "name": f"{refusal.key} is let in", "time": "0"}
            case = ElementTree.SubElement(suite, "testcase", attributes)
            ElementTree.SubElement(case, "failure", message=refusal.message).text = str(refusal)
        for verdict in run.verdicts:
            _case(suite, run, verdict)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def junit_repeated(repeated: Repeated) -> str:
    """One test case per assertion over all seeds: it passes when every run does."""
    root = ElementTree.Element("testsuites", name="fairway")
    failures = sum(spread.passed < spread.runs for spread in repeated.spreads)
    suite = ElementTree.SubElement(
        root,
        "testsuite",
        name=repeated.scenario.name,
        tests=str(len(repeated.spreads)),
        failures=str(failures),
        errors=str(sum(run.ended == STOPPED for run in repeated.runs)),
        time=f"{sum(run.wall_s for run in repeated.runs):.3f}",
    )
    for spread in repeated.spreads:
        attributes = {"classname": repeated.scenario.name, "name": spread.assertion.title, "time": "0"}
        case = ElementTree.SubElement(suite, "testcase", attributes)
        held = f"{spread.passed} of {spread.runs} seeds: {spread_text(spread)}"
        if spread.failed_seeds:
            failure = ElementTree.SubElement(case, "failure", message=held)
            failure.text = f"fails with seed {', '.join(map(str, spread.failed_seeds))}"
        else:
            ElementTree.SubElement(case, "system-out").text = held
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _case(suite: ElementTree.Element, run: Finished, verdict: Verdict) -> None:
    assertion = verdict.assertion
    file, _, line = assertion.where.rpartition(":")
    attributes = {"classname": run.scenario.name, "name": assertion.title, "time": "0"}
    if file:
        attributes.update(file=file, line=line)
    case = ElementTree.SubElement(suite, "testcase", attributes)
    if not verdict.passed:
        failure = ElementTree.SubElement(case, "failure", message=f"measured {verdict.shown}")
        failure.text = "\n".join([assertion.text, *([verdict.note] if verdict.note else []), *verdict.worst])
    else:
        out = ElementTree.SubElement(case, "system-out")
        out.text = f"measured {verdict.shown} over {verdict.samples}"
