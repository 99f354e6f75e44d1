"""Sessions of Slurm's commands, played as `fairway verify slurm-commands` plays them. Answers are the real one's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fairway.conformance.slurm.commands import verify_commands
from fairway.slurm.commands import jobtext
from fairway.slurm.model.job import Job, JobRequest

SESSION: list[tuple[str, str, int, str, str]] = [
    # user, command, exit code, stdout, stderr
    (
        "alice",
        "sbatch --time=abc --wrap 'sleep 600'",
        255,
        "",
        "sbatch: error: Invalid --time specification\n",
    ),
    (
        "alice",
        "sbatch --partition=nosuch --wrap 'sleep 600'",
        1,
        "",
        "sbatch: error: invalid partition specified: nosuch\n"
        "sbatch: error: Batch job submission failed: Invalid partition name specified\n",
    ),
    ("alice", "sbatch -p cpu -J one --wrap 'echo hi; hostname'", 0, "Submitted batch job 1\n", ""),
    ("alice", "sbatch --parsable -p cpu -w cpu01 -t 5 --wrap 'sleep 600'", 0, "2\n", ""),
    ("bob", "sbatch --parsable -N2 --gres=gpu:h100:8 -t 1-0 --wrap 'sleep 600'", 0, "3\n", ""),
    ("root", "scontrol update nodename=gpu04 state=drain reason='fan'", 0, "", ""),
    (
        "alice",
        "scontrol update nodename=gpu03 state=drain reason=x",
        1,
        "",
        "slurm_update error: Invalid user id\n",
    ),
    (
        "alice",
        "squeue -S i",
        0,
        "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)\n"
        "                 2       cpu     wrap    alice  R       0:02      1 cpu01\n"
        "                 3       gpu     wrap      bob  R       0:02      2 gpu[01-02]\n",
        "",
    ),
    ("alice", "cat slurm-1.out", 0, "hi\nvm\n", ""),
    (
        "alice",
        'sinfo -h -p gpu -o "%t %D %N"',
        0,
        "drain 1 gpu04\nmix 2 gpu[01-02]\nidle 3 a[01-02],gpu03\n",
        "",
    ),
    (
        "alice",
        "scancel 3",
        210,
        "",
        "scancel: error: Kill job error on job id 3: Access/permission denied\n",
    ),
    ("root", "sacctmgr -n -P show assoc user=bob format=account,user,share", 0, "research|bob|3\n", ""),
    (
        "alice",
        "srun -p cpu -l -n2 bash -c 'echo $SLURM_PROCID of $SLURM_NTASKS' | sort",
        0,
        "0: 0 of 2\n1: 1 of 2\n",
        "",
    ),
    (
        "alice",
        "srun -w cpu01 -p cpu bash -c 'exit 3'",
        3,
        "",
        "srun: error: cpu01: task 0: Exited with exit code 3\n",
    ),
    (
        "alice",
        "sacct -X -n -P -o jobid,state,exitcode -S 00:00 -E now -s CD,F",
        0,
        "1|COMPLETED|0:0\n4|COMPLETED|0:0\n5|FAILED|3:0\n",
        "",
    ),
    ("alice", "scontrol bogus", 1, "", "invalid keyword: bogus\n"),
]


def _recording(folder: Path, wanted: dict[int, dict[str, Any]] | None = None) -> Path:
    rows: list[dict[str, Any]] = [{"group": "one", "seq": 0, "op": "group", "t0_epoch": 1795384416}]
    for seq, (user, command, code, out, err) in enumerate(SESSION, 1):
        after = 0.0 if seq < 8 else seq - 6.0
        row = {"group": "one", "seq": seq, "op": "cmd", "user": user, "cmd": command, "t": after}
        rows.append(row | {"rc": code, "stdout": out, "stderr": err} | (wanted or {}).get(seq, {}))
    file = folder / "commands.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def test_a_session_is_answered_as_slurm_answers_it(tmp_path: Path) -> None:
    found = verify_commands(_recording(tmp_path))
    assert [d.text() for d in found.differences] == []
    assert (found.agreed, found.total) == (len(SESSION), len(SESSION))


def test_what_differs_is_told_with_its_line_and_aspect(tmp_path: Path) -> None:
    found = verify_commands(_recording(tmp_path, {1: {"rc": 0}, 3: {"stdout": "Submitted batch job 7\n"}}))
    assert [(d.line, d.aspect) for d in found.differences] == [(2, "exit code"), (4, "stdout")]
    assert found.agreed == found.total - 2


def test_a_begin_time_to_come_is_when_a_job_without_a_plan_starts() -> None:
    job = Job(1, JobRequest(), "alice", "a", "normal", 1, "cpu", ("cpu",), 100, 0, 5, True, begin=700)
    assert (jobtext.eligible_time(job), jobtext.start_time(job), jobtext.end_time(job)) == (700, 700, 1000)
    job.eligible = 700
    assert (jobtext.eligible_time(job), jobtext.start_time(job), jobtext.end_time(job)) == (700, 0, 0)
