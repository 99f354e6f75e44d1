"""How long a recorded job's script would run, found out without waiting: its sleeps are added up instead of slept."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from typing import Any, Final

from fairway.slurm.lifecycle import Behaviour
from fairway.slurm.model.job import Job

_FOREVER_S: Final = 100_000
_PATIENCE_S: Final = 20

_PRELUDE: Final = f"""
slept=0
sleep() {{
  slept=$(awk -v a="$slept" -v b="$1" 'BEGIN {{ print a + b }}')
  if awk -v a="$slept" 'BEGIN {{ exit !(a > {_FOREVER_S}) }}'; then exit 99; fi
}}
trap 'code=$?; echo "$slept" >&3; exit $code' EXIT
"""


def behaviour_of(runtime: Any, job: Job) -> Behaviour:
    """What a recording says of a job: seconds of sleep, or a shell text (trusted, as the recording is)."""
    if isinstance(runtime, (int, float)):
        return Behaviour(runtime, by_clock=True)
    text = str(runtime)
    deaf = re.search(r"trap\s+(\"\"|'')\s+(SIG)?TERM", text) is not None
    if re.search(r"while\s+(:|true)\s*;", text):
        return Behaviour(_FOREVER_S, deaf=deaf, by_clock=True)
    slept, code = _dry_run(
        text, job.array_job_id, -1 if job.array_task is None else job.array_task, job.restarts
    )
    return Behaviour(slept, code, deaf=deaf, by_clock=True)


@cache
def _dry_run(text: str, array: int, task: int, restarts: int) -> tuple[float, int]:
    environment = {
        "PATH": "/usr/bin:/bin",
        "SLURM_ARRAY_JOB_ID": str(array),
        "SLURM_ARRAY_TASK_ID": "" if task < 0 else str(task),
        "SLURM_RESTART_COUNT": str(restarts),
    }
    command = ["bash", "-c", f"{_PRELUDE}\nexec 3>&1 >/dev/null 2>&1\n{text}"]
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=_PATIENCE_S, check=False
        )
    except subprocess.TimeoutExpired:
        return float(_FOREVER_S), 0
    last = done.stdout.strip().rpartition("\n")[2]
    return float(last or 0), done.returncode
