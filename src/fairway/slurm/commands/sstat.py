"""sstat: what running steps use."""

from __future__ import annotations

from typing import Any

from fairway.slurm.commands import jobtext
from fairway.slurm.commands.call import VERSION, Call
from fairway.slurm.commands.fields import (
    Column,
    Style,
    fields_of,
    find_column,
    heading_lines,
    help_lines,
    joined,
)
from fairway.slurm.commands.getopt import parse, short_table
from fairway.slurm.commands.steps import StepRow, step_rows

_OPTIONS = short_table(
    "allsteps:a helpformat:e help:h jobs:j: noconvert noheader:n fields:o: format:o: pidformat:i parsable:p "
    "parsable2:P usage verbose:v version:V"
)
_DEFAULT = (
    "jobid,maxvmsize,maxvmsizenode,maxvmsizetask,avevmsize,maxrss,maxrssnode,maxrsstask,averss,maxpages,maxpagesnode,"
    "maxpagestask,avepages,mincpu,mincpunode,mincputask,avecpu,ntasks,avecpufreq,reqcpufreqmin,reqcpufreqmax,"
    "reqcpufreqgov,consumedenergy,maxdiskread,maxdiskreadnode,maxdiskreadtask,avediskread,maxdiskwrite,"
    "maxdiskwritenode,maxdiskwritetask,avediskwrite,tresusageinave,tresusageinmax,tresusageinmaxnode,"
    "tresusageinmaxtask,tresusageinmin,tresusageinminnode,tresusageinmintask,tresusageintot,tresusageoutave,"
    "tresusageoutmax,tresusageoutmaxnode,tresusageoutmaxtask,tresusageoutmin,tresusageoutminnode,tresusageoutmintask,"
    "tresusageouttot"
)


def sstat(call: Call) -> None:
    asked: dict[str, Any] = {}
    parsed = parse(call, _OPTIONS, call.arguments, hint=False)
    for name, value in parsed:
        if name == "version":
            call.print(VERSION)
            call.quit(0)
        if name == "helpformat":
            call.print(help_lines([n for n, _, _ in fields_of("sstat")], 20).replace(" " * 1 + "\n", " \n"))
            call.quit(0)
        if name in ("help", "usage"):
            call.print("Usage: sstat [options] -j <job(.stepid)>\n\tUse --help for help")
            call.quit(0)
        asked["format" if name == "fields" else name] = True if value is None else value
    named = [word for word in (asked.get("jobs"), *parsed.rest) if word]
    if not named:
        call.fail("You didn't give me any jobs to stat.")
    text = asked.get("format") or ("jobid,nodelist,pids" if "pidformat" in asked else _DEFAULT)
    columns: list[Column] = []
    for word in filter(None, text.split(",")):
        column = find_column("sstat", word)
        if column is None:
            call.fail(f'Invalid field requested: "{word}"')
        columns.append(column)
    style = Style(1 if "parsable" in asked else 2 if "parsable2" in asked else 0, "noheader" not in asked)
    words = [word for text in named for word in text.split(",") if word]
    for word in words:
        if not word[:1].isdecimal():
            call.fatal(f"Bad job/step specified: {word}")
    for line in heading_lines(columns, style):
        call.print(line)
    for word in words:
        _print(call, word, columns, style, "allsteps" in asked)


def _print(call: Call, word: str, columns: list[Column], style: Style, every: bool) -> None:
    number, dot, step = word.partition(".")
    known = [j for j in call.site.cluster.jobs.values() if number in (str(j.job_id), j.label)]
    rows = [r for r in step_rows(call) if number in (str(r.job.job_id), r.job.label)]
    if not rows or (dot and not any(r.step.step_id == step for r in rows)):
        if not known:
            call.error(f"couldn't get steps for job {number}")
        else:
            call.error(f"StepId={word} not found running." if dot else f"No steps running for job {number}")
        return
    if dot:
        rows = [r for r in rows if r.step.step_id == step]
    elif not every:
        rows = [r for r in rows if r.step.step_id not in ("batch", "extern")][-1:]
    for row in rows:
        if call.user not in (row.job.user, "root"):
            call.error(
                f"slurm_job_step_stat: there was an error with the request to {row.step.nodes[0]} rc = Invalid user id"
            )
            call.error(f"problem getting step_layout for StepId={row.number}: Invalid user id")
            continue
        call.print(joined([_value(row, c) for c in columns], columns, style))


def _value(row: StepRow, column: Column) -> str:
    field = column.field
    node = row.step.nodes[0] if row.step.nodes else ""
    known = {
        "jobid": row.number,
        "ntasks": str(row.step.tasks),
        "nodelist": jobtext.node_list(row.step.nodes),
        "avecpu": "00:00:00",
        "mincpu": "00:00:00",
        "avecpufreq": "0",
        "consumedenergy": "0",
        "consumedenergyraw": "0",
        "pids": "",
    }
    if field in known:
        return known[field]
    if field.startswith("reqcpufreq"):
        return "0"
    if field.endswith("node"):
        return node
    if field.endswith("task"):
        return "0"
    return "0" if field.startswith(("max", "ave")) else ""
