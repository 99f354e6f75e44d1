"""srun, salloc and sacct, played as `fairway verify slurm-commands` plays them. Answers are the real one's."""

from __future__ import annotations

import json
from pathlib import Path

from fairway.conformance.slurm.commands import verify_commands

SESSION: list[tuple[str, str, int, str, str]] = [
    # user, command, exit code, stdout, stderr
    (
        "alice",
        "salloc -J out -p cpu -n1 bash -c 'srun hostname; exit 3'",
        3,
        "vm\n",
        "salloc: Granted job allocation 1\n"
        "salloc: Relinquishing job allocation 1\n"
        "salloc: Job allocation 1 has been revoked.\n",
    ),
    (
        "alice",
        "salloc -p cpu true",
        0,
        "",
        "salloc: Granted job allocation 2\nsalloc: Relinquishing job allocation 2\n",
    ),
    ("alice", "srun -t 5 -p cpu -J nm -o out.%j.%t -n2 hostname", 0, "", ""),
    ("alice", "cat out.3.0 out.3.1", 0, "vm\nvm\n", ""),
    ("alice", "srun -p cpu --gpus-per-node=0 env | grep GPUS", 1, "", ""),
    ("alice", "sacct -n -P -X -j 1 -o jobid,state,exitcode,flags", 0, "1|FAILED|3:0|SchedSubmit,StartRecieved\n", ""),
    ("alice", "sacct -X -n -P -g 1001 -o jobid,gid", 0, "1|1001\n2|1001\n3|1001\n4|1001\n", ""),
    ("alice", "sacct -X -n -P -k 10 -o jobid", 0, "", ""),
    ("alice", "sacct -X -n -P -k 1 -K 10 -o jobid,timelimit", 0, "3|00:05:00\n", ""),
    ("alice", "sacct -X -n -P -j 4_[1-2]", 1, "", "sacct: fatal: Bad job array element specified: 4\n"),
    ("alice", "sacct -c", 1, "", "Slurm job completion is disabled\n"),
    ("alice", "scontrol show job 1 2", 1, "", "too many arguments for keyword:show\n"),
    ("alice", "scontrol -Q show job 99", 1, "", ""),
    ("alice", "scontrol reconfigure", 1, "", "slurm_reconfigure error: Invalid user id\n"),
    ("root", "scontrol reconfigure", 0, "", ""),
    ("alice", "scontrol setdebug info", 1, "", "slurm_set_debug_level error: Permission denied\n"),
    ("alice", "scontrol show frontend", 0, "No nodes in the system\n", ""),
    (
        "alice",
        "scontrol show assoc_mgr flags=bogus",
        0,
        "",
        "invalid flag 'bogus', valid options are 'Assoc, QOS, and/or Users'\n",
    ),
    ("alice", "sbatch --parsable -p cpu -t 5 --array=1-3%1 --wrap 'sleep 600'", 0, "5\n", ""),
    ("alice", "sbatch --parsable -p cpu -t 5 -d afterok:5 --wrap 'sleep 600'", 0, "7\n", ""),
    (
        "alice",
        "sbatch --parsable -p cpu -t 5 -d expand:5 --wrap 'sleep 600'",
        1,
        "",
        "sbatch: error: Batch job submission failed: Requested operation not supported on this system\n",
    ),
    ("alice", "squeue -h -j 7 -o '%E'", 0, "afterok:5_*(unfulfilled)\n", ""),
    (
        "alice",
        "scontrol update jobid=7 priority=10",
        1,
        "",
        "Changes to job priority are not persistent, change nice instead for job 7\n",
    ),
    (
        "alice",
        "scontrol show job 5_3 | grep -oE 'JobId.*|Eligible.*|StdOut.*'",
        0,
        "JobId=5 ArrayJobId=5 ArrayTaskId=3 ArrayTaskThrottle=1 JobName=wrap\n"
        "EligibleTime=Unknown\n"
        "StdOut=/srv/slurm/home/alice/slurm-5_3.out\n",
        "",
    ),
    ("alice", "scancel 7.batch", 1, "", "scancel: error: Invalid job id 7.batch\n"),
    ("alice", "sbatch --parsable -H -p cpu -t 5 --array=%2 --wrap 'sleep 600'", 0, "9\n", ""),
    ("alice", "squeue -h -j 9 -o '%i %r'", 0, "9_[0%2] JobHeldUser\n", ""),
    ("alice", "squeue -h -j 9 -O 'jobid:.5,state:-12'", 0, "    9PENDING \n", ""),
    (
        "alice",
        "sinfo -l -o %P",
        1,
        "",
        "sinfo: fatal: Options -o(--format) and -l(--long) are mutually exclusive. Please remove one and retry.\n",
    ),
    (
        "alice",
        "scancel -M nosuch 1",
        1,
        "",
        "scancel: error: No cluster 'nosuch' known by database.\n"
        "scancel: error: 'nosuch' can't be reached now, or it is an invalid entry for --cluster.  "
        "Use 'sacctmgr list clusters' to see available clusters.\n",
    ),
    ("alice", "sacct --usage", 0, "Usage: sacct [options]\n\tUse --help for help\n", ""),
    ("alice", "sacct -n -P --units=G -X -j 3 -o reqmem,alloctres", 0, "3.91G|billing=2,cpu=2,mem=3.91G,node=1\n", ""),
]  # fmt: skip


def _recorded(file: Path, *groups: list[tuple[float, str, int, str, str, str]]) -> Path:
    """A recording of rows (second, user, command, exit code, stdout, stderr)."""
    rows: list[dict[str, object]] = []
    for number, group in enumerate(groups):
        name = f"g{number}"
        rows.append({"op": "group", "group": name, "seq": 0, "t0_epoch": 1_795_384_416})
        for seq, (at, user, command, code, out, err) in enumerate(group, start=1):
            row = {"op": "cmd", "group": name, "seq": seq, "user": user, "cmd": command, "t": at}
            rows.append(row | {"rc": code, "stdout": out, "stderr": err})
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def test_sessions_agree(tmp_path: Path) -> None:
    rows = [(at * 2.0, *one) for at, one in enumerate(SESSION, start=1)]
    found = verify_commands(_recorded(tmp_path / "r.jsonl", rows))
    assert [(d.where, d.aspect, d.wanted, d.got) for d in found.differences] == []


def test_who_prints_more_than_is_read_waits_for_the_reader_and_time_goes_on(tmp_path: Path) -> None:
    script = "scontrol show hostnames n[1-20000] | (sleep 2; wc -l)"
    rows = [
        (0.3, "alice", f"sbatch --parsable -p cpu -t 5 --wrap '{script}'", 0, "1\n", ""),
        (9.3, "alice", "cat slurm-1.out; squeue -h", 0, "20000\n", ""),
    ]
    assert verify_commands(_recorded(tmp_path / "r.jsonl", rows)).holds


def test_each_group_has_the_phase_of_the_recorded_loops_in_which_most_of_it_agrees(tmp_path: Path) -> None:
    def started_by(job_1: str, job_2: str) -> list[tuple[float, str, int, str, str, str]]:
        asks = "scontrol show job {} | grep -o Scheduler=.*"
        return [
            (0.3, "alice", "sbatch --parsable -p cpu -t 5 --wrap 'sleep 60'", 0, "1\n", ""),
            (2.9, "alice", asks.format(1), 0, f"Scheduler={job_1}\n", ""),
            (4.3, "alice", "sbatch --parsable -p cpu -t 5 --wrap 'sleep 60'", 0, "2\n", ""),
            (6.9, "alice", asks.format(2), 0, f"Scheduler={job_2}\n", ""),
        ]

    two = started_by("Main", "Main"), started_by("Backfill", "Backfill")
    found = verify_commands(_recorded(tmp_path / "r.jsonl", *two))
    assert (found.agreed, found.total) == (8, 8)
    # Both came so long after an even second: no loop of ours starts one at once and leaves the other to backfill.
    found = verify_commands(_recorded(tmp_path / "r.jsonl", started_by("Main", "Backfill")))
    assert (found.agreed, found.total, [d.line for d in found.differences]) == (3, 4, [5])
