"""Steps of running jobs, as squeue -s, scontrol show step and sstat list them."""

from __future__ import annotations

from dataclasses import dataclass

from fairway.slurm.commands.call import Call
from fairway.slurm.model.job import Job, Step


@dataclass(frozen=True, slots=True)
class StepRow:
    call: Call
    job: Job
    step: Step

    @property
    def number(self) -> str:
        return f"{self.job.label}.{self.step.step_id}"


def step_rows(call: Call) -> list[StepRow]:
    """Every step that has not ended, by job; the batch step first."""
    return [
        StepRow(call, job, step)
        for job in call.site.cluster.jobs.values()
        if job.active
        for step in job.steps
        if not step.end
    ]
