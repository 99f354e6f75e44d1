"""The generic job format: what it reads, what it refuses, and that writing loses nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.errors import InvalidInput
from fairway.kube.timestamps import HOUR_US, MINUTE_US, SECOND_US
from fairway.traces.generic import read_generic, write_generic
from fairway.traces.jobs import JobTrace, TraceJob, in_order


def read(text: str, tmp_path: Path, name: str = "jobs.csv", *, lenient: bool = False) -> JobTrace:
    (tmp_path / name).write_text(text, encoding="utf-8")
    return read_generic(tmp_path / name, lenient=lenient)


def test_every_column(tmp_path: Path) -> None:
    text = (
        "job_id,submit_time,run_time,gpus,cpus,memory,replicas,user,namespace,priority_class,queue,gpu_model,"
        "exit_code,labels,gpu_utilization,checkpoint_interval,is_censored\n"
        "b,60,1h30m,8,500m,16Gi,2,alice,team-a,prod,main,H100,1,b=2;a=1,85%,15m,true\n"
        "a,0.5,90,0.25,2,1024,,,,,,,,,,,\n"
    )
    a, b = read(text, tmp_path).jobs
    assert a == TraceJob("a", SECOND_US // 2, 90 * SECOND_US, 250, 2000, 1024)
    assert b == TraceJob(
        job_id="b",
        submit_us=MINUTE_US,
        run_us=90 * MINUTE_US,
        gpu_milli=8000,
        cpu_milli=500,
        memory_bytes=16 * 2**30,
        replicas=2,
        user="alice",
        namespace="team-a",
        priority_class="prod",
        queue="main",
        gpu_model="H100",
        exit_code=1,
        labels=(("a", "1"), ("b", "2")),
        gpu_utilization="85%",
        checkpoint_interval_us=15 * MINUTE_US,
        is_censored=True,
    )


@pytest.mark.parametrize(
    "times",
    [("2026-01-05T08:00:00Z", "2026-01-05T09:00:00+00:00"), ("1767600000", "1767603600"), ("0", "3600")],
)
def test_absolute_times_count_from_the_first(times: tuple[str, str], tmp_path: Path) -> None:
    text = f"job_id,submit_time\nlate,{times[1]}\nearly,{times[0]}\n"
    assert [(j.job_id, j.submit_us) for j in read(text, tmp_path).jobs] == [("early", 0), ("late", HOUR_US)]


def test_relative_times_stay_as_they_are(tmp_path: Path) -> None:
    assert read("job_id,submit_time\na,100\n", tmp_path).jobs[0].submit_us == 100 * SECOND_US


def test_json_lines(tmp_path: Path) -> None:
    rows = [
        {"job_id": "a", "submit_time": 0, "gpus": 2, "labels": {"team": "x"}, "run_time": 1.5},
        {"job_id": "b", "submit_time": "10", "memory": 1024, "gpus": None},
    ]
    text = "\n".join(json.dumps(r) for r in rows) + "\n\n"
    a, b = read(text, tmp_path, "jobs.jsonl").jobs
    assert a.gpu_milli == 2000 and a.labels == (("team", "x"),) and a.run_us == 1_500_000
    assert b.memory_bytes == 1024 and b.run_us is None


def test_columns_nobody_reads_are_named(tmp_path: Path) -> None:
    trace = read("job_id,submit_time,color\na,0,red\n", tmp_path)
    assert trace.notes == ("columns nobody reads: color",)


# rows below `job_id,submit_time,run_time,gpus,memory,labels,namespace` → column, value, words
BAD: dict[str, tuple[str, str, str, str]] = {
    "cut off": ("a,0", "run_time", "a,0", "a truncated row of 2"),
    "too long": ("a,0,1,1,1,,,x", "namespace", "a,0,1,1,1,,,x", "too long"),
    "no id": (",0,1,1,1,,", "job_id", "", "required"),
    "no time": ("a,,1,1,1,,", "submit_time", "", "required"),
    "a time that is none": ("a,soon,1,1,1,,", "submit_time", "soon", "RFC 3339"),
    "a time without a zone": (
        "a,2026-01-05T00:00:00,1,1,1,,",
        "submit_time",
        "2026-01-05T00:00:00",
        "RFC 3339",
    ),
    "a negative time": ("a,-1,1,1,1,,", "submit_time", "-1", "seconds since"),
    "a run time that is none": ("a,0,long,1,1,,", "run_time", "long", "expected a duration"),
    "an infinite run time": ("a,0,inf,1,1,,", "run_time", "inf", "expected a duration"),
    "negative GPUs": ("a,0,1,-1,1,,", "gpus", "-1", "from 0 to 1024"),
    "one and a half GPUs": ("a,0,1,1.5,1,,", "gpus", "1.5", "whole ones, or a share"),
    "a ten-thousandth of a GPU": ("a,0,1,0.0001,1,,", "gpus", "0.0001", "three decimals"),
    "GPUs in words": ("a,0,1,two,1,,", "gpus", "two", "number of GPUs"),
    "memory that is none": ("a,0,1,1,lots,,", "memory", "lots", "expected a quantity"),
    "negative memory": ("a,0,1,1,-1Gi,,", "memory", "-1Gi", "0 or more"),
    "impossible memory": ("a,0,1,1,1e30,,", "memory", "1e30", ""),
    "labels that are none": ("a,0,1,1,1,team,", "labels", "team", "labels such as"),
    "an illegal label": ("a,0,1,1,1,team=a b,", "labels", "team=a b", "label"),
    "an illegal namespace": ("a,0,1,1,1,,Team", "namespace", "Team", "RFC 1123"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_rows(name: str, tmp_path: Path) -> None:
    row, column, value, words = BAD[name]
    text = f"job_id,submit_time,run_time,gpus,memory,labels,namespace\nok,0,1,1,1Gi,,\n{row}\n"
    with pytest.raises(InvalidInput) as caught:
        read(text, tmp_path)
    (problem,) = caught.value.problems
    assert (problem.line, problem.path, problem.value) == (3, column, value)
    assert words in problem.expected
    trace = read(text, tmp_path, lenient=True)
    assert len(trace.jobs) == 1 and trace.skipped == (problem,)


WHOLE_FILE: dict[str, tuple[str, str, str]] = {
    "a missing column": ("jobs.csv", "job_id,submited\na,0\n", "submit_time"),
    "a misspelt column": ("jobs.csv", "job_id,submit_time,runtime\na,0,1\n", "did you mean run_time"),
    "an empty file": ("jobs.csv", "", "expected a header"),
    "no rows": ("jobs.csv", "job_id,submit_time\n", "at least one job"),
    "an id twice": ("jobs.csv", "job_id,submit_time\na,0\na,1\n", "line 2 has it"),
    "absolute among relative": (
        "jobs.csv",
        "job_id,submit_time\na,0\nb,2026-01-05T00:00:00Z\n",
        "as in the rows before",
    ),
    "a quote that never ends": ("jobs.csv", 'job_id,submit_time\n"a,0\n', "expected CSV"),
    "JSON that is none": ("jobs.jsonl", '{"job_id": "a"\n', "one JSON object a line"),
    "a list": ("jobs.jsonl", "[1]\n", "one JSON object a line"),
    "Parquet that is none": ("jobs.parquet", "PAR0", "expected a Parquet file"),
    "another suffix": ("jobs.txt", "", "ends in .csv"),
}


@pytest.mark.parametrize("name", WHOLE_FILE)
def test_bad_files(name: str, tmp_path: Path) -> None:
    file, text, words = WHOLE_FILE[name]
    with pytest.raises(InvalidInput, match=words.replace(".", r"\.")):
        read(text, tmp_path, file)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    for name in ("a.csv", "a.jsonl", "a.parquet"):
        with pytest.raises(InvalidInput, match="exists"):
            read_generic(tmp_path / name)


NAMES = st.text("abz09", min_size=1, max_size=8)
WORDS = st.text("aZ09-_.,;|'\"=é漢", max_size=8)
LABELS = st.dictionaries(NAMES, NAMES, max_size=3).map(lambda d: tuple(sorted(d.items())))
GPUS = st.one_of(st.integers(0, 1000), st.integers(1, 64).map(lambda n: n * 1000))
RUNS = st.one_of(st.none(), st.integers(0, 10**13))


@st.composite
def jobs(draw: st.DrawFn) -> TraceJob:
    run_us = draw(RUNS)
    return TraceJob(
        job_id=draw(WORDS.filter(bool)),
        submit_us=draw(st.integers(0, 10**14)),
        run_us=run_us,
        gpu_milli=draw(GPUS),
        cpu_milli=draw(st.integers(0, 10**6)),
        memory_bytes=draw(st.integers(0, 2**50)),
        replicas=draw(st.integers(1, 1000)),
        user=draw(WORDS),
        namespace=draw(st.one_of(st.just(""), NAMES)),
        priority_class=draw(st.one_of(st.just(""), NAMES)),
        queue=draw(st.one_of(st.just(""), NAMES)),
        gpu_model=draw(WORDS),
        exit_code=draw(st.integers(0, 255)),
        labels=draw(LABELS),
        gpu_utilization=draw(st.sampled_from(["", "85%", "0s:10%,5m:90%"])),
        checkpoint_interval_us=draw(st.integers(0, 10**10)),
        is_censored=draw(st.booleans()) if run_us is not None else False,
    )


@pytest.mark.parametrize("name", ["jobs.csv", "jobs.jsonl", "jobs.parquet"])
def test_round_trip(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("round") / name

    @settings(max_examples=40, deadline=None, derandomize=True)
    @given(st.lists(jobs(), min_size=1, max_size=4, unique_by=lambda j: j.job_id))
    def reads_what_was_written(listed: list[TraceJob]) -> None:
        trace = JobTrace("x", in_order(listed))
        write_generic(trace, path)
        assert read_generic(path).jobs == trace.jobs

    reads_what_was_written()


def test_writing_needs_a_known_suffix(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"ends in \.csv"):
        write_generic(JobTrace("x", ()), tmp_path / "a.txt")


def test_the_openb_trace_converts_and_back(tmp_path: Path) -> None:
    """Fractions of a GPU, several models and jobs without GPUs survive."""
    listed = [TraceJob("p", 0, 10, 460), TraceJob("q", 5, 10, 2000, gpu_model="A|B"), TraceJob("r", 7, None)]
    trace = JobTrace("x", tuple(replace(j, submit_us=j.submit_us * SECOND_US) for j in listed))
    write_generic(trace, tmp_path / "j.csv")
    assert read_generic(tmp_path / "j.csv").jobs == trace.jobs
