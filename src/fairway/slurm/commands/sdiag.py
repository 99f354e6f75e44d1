"""sdiag: what the controller has done since its statistics were reset, at the latest at midnight (UTC).

How long cycles took is told as 0, since they take no virtual time; requests are not counted.
"""

from __future__ import annotations

from fairway.slurm.commands.call import VERSION, Call
from fairway.slurm.commands.getopt import parse, short_table
from fairway.slurm.words import durations
from fairway.slurm.words.errors import refusals

_OPTIONS = short_table(
    "all:a help:h reset:r sort-by-id:i cluster:M: clusters:M: sort-by-time:t sort-by-time2:T usage version:V"
)
_USAGE = "Usage: sdiag [-M cluster] [-aritT]"
_STARS = "*" * 55
DAY_S = 86400


def sdiag(call: Call) -> None:
    reset = False
    for name, value in parse(call, _OPTIONS, call.arguments):
        if name in ("cluster", "clusters"):
            call.check_clusters(value)
        if name == "version":
            call.print(VERSION)
            call.quit(0)
        if name in ("help", "usage"):
            call.print(_USAGE)
            call.quit(0)
        reset |= name == "reset"
    if reset:
        if not call.site.cluster.is_administrator(call.user):
            call.say(f"slurm_reset_statistics: {refusals()['ACCESS_DENIED'][1]}")
            call.quit(255)
        controller = call.site.controller
        controller.counts.reset()
        controller.counted_from = call.now
        call.print("Reset scheduling statistics")
        return
    for line in lines(call):
        call.print(line)


def lines(call: Call) -> list[str]:
    told = statistics(call)
    now, since = call.now, told["req_time_start"]
    found = [
        _STARS,
        f"sdiag output at {_ctime(now)} ({now})",
        f"Data since      {_ctime(since)} ({since})",
        _STARS,
        "Server thread count:  1",
        "Agent queue size:     0",
        "Agent count:          0",
        "Agent thread count:   0",
        "DBD Agent queue size: 0",
        "",
        f"Jobs submitted: {told['jobs_submitted']}",
        f"Jobs started:   {told['jobs_started']}",
        f"Jobs completed: {told['jobs_completed']}",
        f"Jobs canceled:  {told['jobs_canceled']}",
        f"Jobs failed:    {told['jobs_failed']}",
        "",
        f"Job states ts:  {_ctime(now)} ({now})",
        f"Jobs pending:   {told['jobs_pending']}",
        f"Jobs running:   {told['jobs_running']}",
        "",
        "Main schedule statistics (microseconds):",
        "\tLast cycle:   0",
        "\tMax cycle:    0",
        f"\tTotal cycles: {told['schedule_cycle_total']}",
    ]
    if told["schedule_cycle_total"]:
        found += ["\tMean cycle:   0", f"\tMean depth cycle:  {told['schedule_cycle_mean_depth']}"]
    if now - since > 60:
        found.append(f"\tCycles per minute: {told['schedule_cycle_total'] // ((now - since) // 60)}")
    last = told["bf_when_last_cycle"]

    def mean(words: str, name: str) -> list[str]:
        return [f"\t{words}: {told[name]}"] if told["bf_cycle_counter"] else []

    found += [
        f"\tLast queue length: {told['schedule_queue_length']}",
        "",
        "Backfilling stats",
        f"\tTotal backfilled jobs (since last slurm start): {told['bf_backfilled_jobs']}",
        f"\tTotal backfilled jobs (since last stats cycle start): {told['bf_last_backfilled_jobs']}",
        "\tTotal backfilled heterogeneous job components: 0",
        f"\tTotal cycles: {told['bf_cycle_counter']}",
        f"\tLast cycle when: {_ctime(last)} ({last})" if last else "\tLast cycle when: N/A",
        "\tLast cycle: 0",
        "\tMax cycle:  0",
        *(["\tMean cycle: 0"] if told["bf_cycle_counter"] else []),
        f"\tLast depth cycle: {told['bf_last_depth']}",
        f"\tLast depth cycle (try sched): {told['bf_last_depth_try']}",
        *mean("Depth Mean", "bf_depth_mean"),
        *mean("Depth Mean (try depth)", "bf_depth_mean_try"),
        f"\tLast queue length: {told['bf_queue_len']}",
        *mean("Queue length mean", "bf_queue_len_mean"),
        f"\tLast table size: {told['bf_table_size']}",
        *mean("Mean table size", "bf_table_size_mean"),
        "",
        "Latency for 1000 calls to gettimeofday(): 0 microseconds",
        "",
        "Remote Procedure Call statistics by message type",
        "",
        "Remote Procedure Call statistics by user",
        "",
        "Pending RPC statistics",
        "\tNo pending RPCs",
    ]
    return found


def statistics(call: Call) -> dict[str, int]:
    """Counts since the last reset, under slurmrestd's names."""
    controller, cluster, counts = call.site.controller, call.site.cluster, call.site.controller.counts
    counts.begin(call.now)
    since = max(controller.counted_from, call.now - call.now % DAY_S)
    current = [job for job in cluster.jobs.values() if not job.finished]
    ended = [job for job in cluster.archive if job.end >= since]
    every = [*cluster.archive, *current]
    started = [job for job in every if job.shares and job.start >= since and not job.pending]
    backfilled = [job for job in every if job.scheduler == "Backfill" and job.shares and not job.pending]
    states = [job.state for job in ended]
    return {
        "req_time": call.now,
        "req_time_start": since,
        "jobs_submitted": sum(max(len(job.array_left), 1) for job in every if job.submit >= since),
        "jobs_started": len(started),
        "jobs_completed": states.count("COMPLETED"),
        "jobs_canceled": states.count("CANCELLED"),
        "jobs_failed": sum(state in ("FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY") for state in states),
        "jobs_pending": sum(max(len(job.array_left), 1) for job in cluster.pending.values()),
        "jobs_running": sum(job.state == "RUNNING" for job in cluster.running.values()),
        "schedule_cycle_total": counts.passes,
        "schedule_cycle_mean_depth": counts.pass_depth // counts.passes if counts.passes else 0,
        "schedule_queue_length": counts.last_pass_queue,
        "bf_backfilled_jobs": len(backfilled),
        "bf_last_backfilled_jobs": sum(job.start >= since for job in backfilled),
        "bf_cycle_counter": counts.cycles,
        "bf_when_last_cycle": counts.last_cycle,
        "bf_last_depth": counts.last_depth,
        "bf_last_depth_try": counts.last_tried,
        "bf_depth_mean": counts.mean(counts.depth),
        "bf_depth_mean_try": counts.mean(counts.tried),
        "bf_queue_len": counts.last_queue,
        "bf_queue_len_mean": counts.mean(counts.queue),
        "bf_table_size": counts.last_table,
        "bf_table_size_mean": counts.mean(counts.table),
    }


def _ctime(when: int) -> str:
    return durations.stamp(when, "%a %b %d %H:%M:%S %Y")
