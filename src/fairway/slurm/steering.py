"""What users and operators do to jobs that are there: hold and release, put on top, requeue, suspend and resume."""

from __future__ import annotations

from collections.abc import Iterable

from fairway.slurm.controller import Controller
from fairway.slurm.model.job import Job
from fairway.slurm.words.errors import SlurmError

HELD_AGAIN = "job requeued in held state"


class Steering(Controller):
    """See the module."""

    def hold(self, job_id: int, user: str, *, as_user: bool = False, alone: bool = False) -> None:
        """A running job goes on; should it be requeued, it stays held. Raises: SlurmError.

        as_user: an operator's hold that the user may release (scontrol uhold). alone: here and below, this record,
        though the number names an array as well.
        """
        operates = self.cluster.is_operator(user)
        for job in self._records(job_id, alone):
            self._may(job, user, "USER_ID_MISSING")
            if job.finished:
                raise SlurmError("JOB_FINISHED")
            if job.priority == 0 and not operates:
                continue
            job.priority, job.reason_detail = 0, ""
            job.reason = "JobHeldAdmin" if operates and not as_user else "JobHeldUser"
            self._forget_eligible(job)

    def release(self, job_id: int, user: str, *, alone: bool = False) -> None:
        """Raises: SlurmError ACCESS_DENIED for what an administrator holds."""
        for job in self._records(job_id, alone):
            self._may(job, user, "USER_ID_MISSING")
            if job.finished:
                raise SlurmError("JOB_FINISHED")
            if job.priority:
                continue
            if job.reason != "JobHeldUser" and not self.cluster.is_operator(user):
                raise SlurmError("ACCESS_DENIED")
            job.reason, job.reason_detail = "None", ""
            job.flags.discard("SPECIAL_EXIT")
            self._forget_eligible(job)
            self._set_priority(job)
        self.changed()

    def top(self, job_ids: Iterable[int], user: str) -> None:
        """Before the user's other pending jobs, which give up what these gain (scontrol top)."""
        if not self.cluster.is_operator(user) and not self.cluster.conf.has_option("enable_user_top"):
            raise SlurmError("ACCESS_DENIED")
        chosen: list[Job] = []
        refused = ""
        for job in (self._records(job_id)[0] for job_id in job_ids):
            self._may(job, user)
            if not job.pending or not job.priority:
                refused = "JOB_HELD" if job.pending else "JOB_NOT_PENDING"
            elif len(job.partitions) > 1:
                raise SlurmError("REQUESTED_PART_CONFIG_UNAVAILABLE")
            elif job not in chosen:
                chosen.append(job)
        if chosen:
            self._put_on_top(chosen)
            self.changed()
        elif refused:
            raise SlurmError(refused)

    def _put_on_top(self, chosen: list[Job]) -> None:
        """Priorities and nice move at once, the factors that sprio shows when they are next counted (_set_top)."""
        head = chosen[0]

        def alike(job: Job) -> tuple[int, tuple[str, ...], str, str]:
            return job.assoc_id, job.partitions, job.qos, job.user

        pending = (job for job in self.cluster.listed() if job.pending and job.priority > 1)
        others = [job for job in pending if job not in chosen and alike(job) == alike(head)]
        order = sorted((job.priority for job in (*chosen, *others)), reverse=True)
        last = gained = 0
        for job, value in zip(chosen, order, strict=False):
            last = last - 1 if value == last and last > 2 else value
            nicer = last - job.priority
            job.priority, job.nice, gained = last, job.nice - nicer, gained + nicer
        for left, job in zip(range(len(others), 0, -1), others, strict=True):
            less = int(gained / left)
            if job.priority - less >= last:
                less = job.priority - (last - 1)
            job.priority, job.nice, gained = job.priority - less, job.nice + less, gained - less

    def requeue(
        self, job_id: int, user: str, *, hold: bool = False, special: bool = False, alone: bool = False
    ) -> None:
        """Raises: SlurmError."""
        for job in self._records(job_id, alone):
            self._may(job, user)
            if not job.requeue:
                raise SlurmError("DISABLED")
            if not job.batch:
                raise SlurmError("BATCH_ONLY")
            if job.pending:
                raise SlurmError("JOB_PENDING")
            self._requeue(job, "REQUEUED")
            if hold or special:
                job.priority, job.reason = 0, "JobHeldUser"
                job.reason_detail = HELD_AGAIN
                job.flags |= {"SPECIAL_EXIT"} if special else set()
            elif not job.priority:
                job.reason = "JobHeldUser"

    def suspend(self, job_id: int, user: str, *, alone: bool = False) -> None:
        """Raises: SlurmError."""
        if not self.cluster.is_operator(user):
            raise SlurmError("ACCESS_DENIED")
        for job in self._records(job_id, alone):
            if job.state != "RUNNING":
                raise SlurmError(
                    "ALREADY_DONE" if job.finished else "JOB_PENDING" if job.pending else "JOB_NOT_RUNNING"
                )
            self._suspend(job)
        self.changed()

    def resume(self, job_id: int, user: str, *, alone: bool = False) -> None:
        """Raises: SlurmError."""
        if not self.cluster.is_operator(user):
            raise SlurmError("ACCESS_DENIED")
        for job in self._records(job_id, alone):
            if job.state != "SUSPENDED":
                raise SlurmError("ALREADY_DONE" if job.finished else "JOB_NOT_SUSPENDED")
            self._resume(job)
