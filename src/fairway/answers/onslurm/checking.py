"""What would become of a batch script here, were it submitted now? Asked of a copy; the site hears nothing of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairway.answers.onslurm.planning import planned
from fairway.ground.slurmground import SlurmMoment
from fairway.slurm.clockwork import SECOND
from fairway.slurm.commands.site import Site
from fairway.slurm.converting.scripts import read_script
from fairway.slurm.model.job import JobRequest
from fairway.slurm.records.runtimes import RunTimes
from fairway.slurm.words.durations import stamp
from fairway.slurm.words.errors import SlurmError

HORIZON_S = 7 * 86_400
REFUSED, STARTS, WAITS = "refused", "starts", "waits"


@dataclass(frozen=True, slots=True)
class CheckedScript:
    """`slurm`: when backfill would start it; `ours`: when it starts with jobs as long as such jobs are (0: later than
    looked); seconds since 1970."""

    file: str
    verdict: str
    message: str
    slurm: int = 0
    ours: int = 0
    nodes: tuple[str, ...] = ()
    now: int = 0

    def as_json(self) -> dict[str, Any]:
        return {
            "file": self.file,
            "verdict": self.verdict,
            "message": self.message,
            "slurmStart": stamp(self.slurm) if self.slurm else None,
            "start": stamp(self.ours) if self.ours else None,
            "startsIn": self.ours - self.now if self.ours else None,
            "nodes": list(self.nodes),
        }


def check_script(moment: SlurmMoment, file: Path, user: str) -> CheckedScript:
    """Raises: InvalidInput for a script that sbatch itself would refuse."""
    site = Site(moment.site.controller(moment.now * SECOND, enforce=False))
    script = read_script(str(file), file.read_text("utf-8", "replace"), site)
    requests = [part.request for part in script.parts]
    request = requests[0] if len(requests) == 1 else JobRequest(het=tuple(requests))
    user = _somebody(moment, user, requests[0].account)
    runtimes = RunTimes(moment.past, moment.now)
    standing = moment.standing(runtimes.median)
    for one in requests:
        one.extra["left_s"] = max((one.time_limit or 60) * 60, 60)
    plans = moment.standing()
    try:
        planning = plans.controller.submit(request, user)
        job = standing.controller.submit(request, user)
    except SlurmError as refused:
        said = " ".join([f"Batch job submission failed: {refused.message}", *refused.notes])
        return CheckedScript(str(file), REFUSED, said, now=moment.now)
    plans.controller._pass(full=True)
    plans.controller._on_backfill()
    plan = planned(plans, planning)
    controller, end = standing.controller, (moment.now + HORIZON_S) * SECOND
    while job.pending and (due := controller.next_event_us()) is not None and due <= end:
        controller.advance(due)
    ours = job.start if not job.pending else 0
    if plan.runs:
        return CheckedScript(str(file), STARTS, "at once", plan.start, moment.now, plan.nodes, moment.now)
    said = f"{plan.reason}{': ' + plan.detail if plan.detail else ''}"
    return CheckedScript(str(file), WAITS, said, plan.start, ours, job.nodes or plan.nodes, moment.now)


def _somebody(moment: SlurmMoment, user: str, account: str | None) -> str:
    """Root has few associations: for it the first user of the account asks."""
    if user != "root" or account is None:
        return user
    found = [a.user for a in moment.site.accounts.associations.values() if a.account == account and a.user]
    return min(found, default=user)
