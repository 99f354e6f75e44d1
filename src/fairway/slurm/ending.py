"""What does the end of a script mean: for its steps, and for whether the job comes again?"""

from __future__ import annotations

from typing import Final

from fairway.slurm.conf import Configuration
from fairway.slurm.model.job import Job, Step
from fairway.slurm.words import hostlist
from fairway.slurm.words.errors import SlurmError

QUEUED: Final = "queued"
HELD: Final = "held"


def comes_again(conf: Configuration, job: Job) -> str:
    """QUEUED or HELD by RequeueExit and RequeueExitHold, --no-requeue or not; else ''.

    Source: _set_job_requeue_exit_value, batch_requeue_fini in job_mgr.c.
    """
    if not job.batch or not job.finished or job.state == "CANCELLED":
        return ""
    for key, then in (("RequeueExit", QUEUED), ("RequeueExitHold", HELD)):
        if str(job.exit_code) in _codes(conf.get(key)):
            return then
    return ""


def hold(job: Job, again: str) -> None:
    """A job that came back by RequeueExitHold waits to be released, in a state of its own."""
    if again == HELD:
        job.priority, job.reason, job.reason_detail = 0, "JobHeldUser", ""
        job.flags.add("SPECIAL_EXIT")


def _codes(text: str) -> list[str]:
    try:
        return hostlist.expand(f"[{text}]") if text else []
    except SlurmError:
        return []


def close_step(step: Step, now: int, exit_code: int, signal: int) -> None:
    step.end, step.exit_code, step.signal = now, exit_code, signal
    step.state = "COMPLETED" if not exit_code and not signal else "CANCELLED" if signal else "FAILED"
