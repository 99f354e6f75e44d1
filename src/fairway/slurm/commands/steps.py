"""Steps of running jobs, as squeue -s, scontrol show step and sstat list them."""

from __future__ import annotations

from dataclasses import dataclass

from fairway.slurm.commands.call import Call
from fairway.slurm.model.job import Job, Step
from fairway.slurm.words.durations import INFINITE


@dataclass(frozen=True, slots=True)
class StepRow:
    call: Call
    job: Job
    step: Step

    @property
    def number(self) -> str:
        """`7.0`, `5_3.batch`; of a heterogeneous job's component by its own job id (_print_step_id)."""
        job = self.job.job_id if self.job.het_job_id else self.job.label
        return f"{job}.{self.step.step_id}"

    @property
    def time_limit(self) -> int:
        """Minutes; a step has none unless `srun -t` or `scontrol update stepid` gives it one."""
        return int(self.step.extra.get("time_limit", INFINITE))


def step_rows(call: Call) -> list[StepRow]:
    """Every step that has not ended, by job; the batch step first."""
    return [
        StepRow(call, job, step)
        for job in call.site.cluster.jobs.values()
        if job.active
        for step in job.steps
        if not step.end
    ]
