"""Does Fairway's slurmctld start recorded jobs when, where and in which order the real one did?

A recording has one scenario a line: a cluster's slurm.conf, commands at times, how long each job ran, and what became
of the jobs. The commands are run against a controller in virtual time. Compared are each job's state, nodes, cores and
GPUs, why it waited once that had settled, when it started (within two seconds, four with sched/builtin), and the order
of starts. What no recording can tell is left open: where within a second the daemon's loop turned, and when it last
looked at time limits; a scenario agrees when it does for one of a few such phases.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import pairwise, product
from pathlib import Path
from typing import Any, Final

from fairway.conformance.rows import nothing_recorded, read_rows
from fairway.conformance.slurm.scripts import behaviour_of
from fairway.conformance.verification import Difference, Verification
from fairway.errors import FieldProblem, InvalidInput
from fairway.slurm.administration import Slurmctld
from fairway.slurm.clockwork import SECOND
from fairway.slurm.commands.call import Call
from fairway.slurm.commands.site import Site
from fairway.slurm.conf import read_configuration
from fairway.slurm.lifecycle import Behaviour
from fairway.slurm.model.association import empty_accounts
from fairway.slurm.model.job import Job
from fairway.slurm.model.node import NodeConf
from fairway.slurm.serving.host import run
from fairway.slurm.words import hostlist
from fairway.slurm.words.errors import SlurmError

# Seconds the daemon had been up before a scenario began (limits are looked at every 30), and where in a second.
_LEADS_S: Final = (14.5, 4.5, 24.5, 9.5, 19.5, 29.5)
_PHASES_S: Final = (0.0, 0.5, 0.25, 0.75)
_SLACK_S: Final = 2
_BUILTIN_SLACK_S: Final = 4
# A reason counts as settled when it stood this long; it must have been ours within the slack of its middle.
_SETTLED_S: Final = 4.0
# A job that had just ended may, in ours, end this much later.
_AFTER_S: Final = 3.0

Moment = tuple[float, str, str]
"""(second, state, reason) of a job from then on."""


def verify_scheduling(file: Path) -> Verification:
    """Replay a recording. Raises: InvalidInput for a file that is none."""
    result = Verification()
    texts = _texts(file)
    for number, row in read_rows(file, _shape):
        result.count(_judge(file, number, row, texts))
    if not result.total:
        raise nothing_recorded(file, "scenarios")
    return result


def _shape(row: Any) -> tuple[str, str] | None:
    for name, kind in (
        ("id", str),
        ("slurm_conf", str),
        ("events", list),
        ("jobs", dict),
        ("timeline", dict),
    ):
        if not isinstance(row, dict) or not isinstance(row.get(name), kind):
            return name, f"expected a {kind.__name__}"
    return None


def _texts(file: Path) -> dict[str, str]:
    """The recorded cluster's GPUs and accounts: those beside the recording, or the ones kept here."""
    beside = file.parent / "conf" / "scheduling"
    kept = files("fairway.conformance.slurm") / "sched"
    names = ("gres.conf", "accounts_setup.sh")
    folder = beside if all((beside / name).is_file() for name in names) else kept
    return {name: (folder / name).read_text(encoding="utf-8") for name in names}


def _judge(file: Path, number: int, row: dict[str, Any], texts: dict[str, str]) -> list[Difference]:
    """None for one phase: none; else those of the first."""
    first: list[Difference] | None = None
    try:
        for lead, phase in product(_LEADS_S, _PHASES_S):
            played = Play(row, texts, lead, phase)
            played.run()
            found = list(_differences(number, row, played))
            if not found:
                return []
            first = found if first is None else first
    except (KeyError, TypeError, ValueError, AttributeError) as broken:
        text = f"not a scenario of Slurm: {type(broken).__name__}: {broken}"
        raise InvalidInput((FieldProblem(str(file), number, "", "", text),)) from broken
    return first or []


@dataclass(slots=True)
class Start:
    """One start of a job: (node, CPU ids, GPU indexes) each."""

    at: float
    nodes: list[tuple[str, list[int], list[int]]]


@dataclass(slots=True)
class Play:
    """A scenario while it is played; `t` is seconds from its beginning."""

    row: dict[str, Any]
    texts: dict[str, str]
    lead: float
    phase: float
    ctl: Slurmctld = field(init=False)
    site: Site = field(init=False)
    labels: dict[int, str] = field(default_factory=dict)
    runtimes: dict[str, Any] = field(default_factory=dict)
    moments: dict[str, list[Moment]] = field(default_factory=dict)
    starts: dict[str, list[Start]] = field(default_factory=dict)
    refused: list[tuple[str, str, str]] = field(default_factory=list)
    """(what, recorded, ours) of commands that ended otherwise."""
    at_stop: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        texts = {"slurm.conf": self.row["slurm_conf"], "gres.conf": self.texts["gres.conf"]}
        if self.row.get("topology_conf"):
            texts["topology.conf"] = self.row["topology_conf"]
        conf = read_configuration(texts)
        name = conf.get("ClusterName", "cluster")
        self.ctl = Slurmctld(conf, empty_accounts(name), self._behave, self._us(-self.lead))
        users = ("alice", "bob", "carol", "dave", "erin")
        uids = {"root": 0, "slurm": 64030} | {user: 1001 + number for number, user in enumerate(users)}
        self.site = Site(self.ctl, host="vm", uids=uids)
        for line in [
            *self.texts["accounts_setup.sh"].replace("CLUSTER", name).splitlines(),
            *self.row["setup"],
        ]:
            words = shlex.split(line, comments=True)
            if words:
                self._type("root", words)
        self.ctl.accounts_changed()

    def _us(self, t: float) -> int:
        return int((self.row["t0_epoch"] + self.phase + t) * SECOND)

    @property
    def t(self) -> float:
        return self.ctl.now_us / SECOND - float(self.row["t0_epoch"]) - self.phase

    def _type(self, user: str, words: list[str]) -> tuple[int, str, str]:
        call = Call(self.site, words[0], words[1:], {}, user, "/")
        code = run(call)
        return code, "".join(call.out), "".join(call.errors)

    def run(self) -> None:
        for event in sorted(self.row["events"], key=lambda event: float(event["t"])):
            self._advance(float(event["t"]))
            self._do(event)
            self._look()
        stop = float(self.row["stopped_at"])
        self._advance(stop)
        self.at_stop = {job.job_id: job.state for job in self.ctl.cluster.jobs.values()}
        self._advance(stop + _AFTER_S)

    def _advance(self, t: float) -> None:
        until = self._us(t)
        while (due := self.ctl.next_event_us()) is not None and due <= until:
            self.ctl.advance(due)
            self._look()
        self.ctl.advance(until)

    def _do(self, event: dict[str, Any]) -> None:
        ids = {label: str(number) for number, label in self.labels.items()}
        if event["kind"] == "submit":
            options = _filled(event["options"], ids)
            self.runtimes[event["label"]] = event["runtime"]
            words = ["sbatch", "--parsable", *shlex.split(options), "--wrap", "true"]
            self.labels[self.ctl.cluster.next_job_id] = event["label"]
            code, out, err = self._type(event["user"], words)
            if code == 0:
                self.labels[int(out.split(";")[0])] = event["label"]
        else:
            code, err = self._operate(event, _filled(event["template"], ids))
        if bool(code) != bool(event.get("rc")):
            what = event.get("label") or event["template"]
            self.refused.append(
                (f"exit code of {what}", f"{event.get('rc')} {event.get('stderr', '')}", f"{code} {err}")
            )

    def _operate(self, event: dict[str, Any], command: str) -> tuple[int, str]:
        words = shlex.split(command)
        if words[0].startswith("@"):
            try:
                for name in hostlist.expand(words[1]):
                    (self.ctl.lose_node if "kill" in words[0] else self.ctl.revive_node)(name)
            except SlurmError as error:
                return 1, error.message
            return 0, ""
        code, _, err = self._type(event["user"], words)
        return code, err

    def label(self, job: Job) -> str:
        leader = job.array_job_id or job.het_job_id or job.job_id
        label = self.labels.get(leader, str(job.job_id))
        if job.het_job_id:
            return f"{label}+{job.het_offset}"
        return label if job.array_task is None else f"{label}_{job.array_task}"

    def _behave(self, job: Job, now: int) -> Behaviour:
        nodes = self.ctl.cluster.nodes
        held = []
        for share in job.shares:
            conf = nodes[share.node].conf
            held.append((conf.name, _cpu_ids(share.cores, conf), _ones(share.gres.get("gpu", 0))))
        self.starts.setdefault(self.label(job), []).append(Start(self.t, held))
        return behaviour_of(self.runtimes.get(self.label(job).partition("_")[0].partition("+")[0], 0), job)

    def _look(self) -> None:
        """Note what is different of every job."""
        for job in self.ctl.cluster.jobs.values():
            label = self.label(job)
            names = [f"{label}_{task}" for task in job.array_left] or [label]
            shown = (job.state, job.reason_detail or job.reason)
            for name in names:
                noted = self.moments.setdefault(name, [])
                if not noted or noted[-1][1:] != shown:
                    noted.append((self.t, *shown))


def _filled(text: str, ids: dict[str, str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda found: ids.get(found[1], found[0]), text)


def _ones(bits: int) -> list[int]:
    return [at for at in range(bits.bit_length()) if bits >> at & 1]


def _cpu_ids(cores: int, conf: NodeConf) -> list[int]:
    """As scontrol tells them: a core's threads are neighbours."""
    return [core * conf.threads + thread for core in _ones(cores) for thread in range(conf.threads)]


def _numbers(text: str) -> list[int]:
    found: list[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.extend(range(int(first), int(last or first) + 1))
    return found


def _differences(line: int, row: dict[str, Any], played: Play) -> Iterator[Difference]:
    where = row["id"]
    for what, wanted, got in played.refused:
        yield Difference(line, where, what, wanted, got)
    jobs = {played.label(job): job for job in played.ctl.cluster.jobs.values()}
    slack = _BUILTIN_SLACK_S if "SchedulerType=sched/builtin" in row["slurm_conf"] else _SLACK_S
    for label, wanted in row["jobs"].items():
        job = jobs.get(label) or _unsplit(jobs, label)
        if job is None:
            yield Difference(line, where, f"job {label}", wanted["state"], "not there")
            continue
        for aspect, want, got in _of_job(wanted, job, played, slack):
            yield Difference(line, where, f"{aspect} of {label}", want, got)
        yield from _allocation(line, where, label, row, played)
        yield from _reasons(line, where, label, row, played)
    yield from _order(line, row, jobs)


def _unsplit(jobs: dict[str, Job], label: str) -> Job | None:
    """The record of an array whose task has not started."""
    name, _, task = label.rpartition("_")
    job = jobs.get(name)
    return job if job is not None and task.isdigit() and int(task) in job.array_left else None


def _of_job(wanted: dict[str, Any], job: Job, played: Play, slack: int) -> Iterator[tuple[str, str, str]]:
    state = wanted["state"]
    ours = "SPECIAL_EXIT" if "SPECIAL_EXIT" in job.flags else job.state
    if state not in (ours, played.at_stop.get(job.job_id)):
        yield "state", state, ours
    if state in ("PENDING", "SPECIAL_EXIT"):
        if wanted["reason"] != (job.reason_detail or job.reason) and wanted["reason"] not in (
            "Priority",
            "None",
        ):
            yield "reason", wanted["reason"], job.reason_detail or job.reason
        return
    nodes = hostlist.compress_sorted(job.nodes)
    if (wanted["nodes"] or "") != nodes and state != "CANCELLED":
        yield "nodes", wanted["nodes"], nodes
    start = job.start - played.row["t0_epoch"]
    if state != "CANCELLED" and wanted["start"] is not None and abs(wanted["start"] - start) > slack:
        yield "start", f"{wanted['start']} s", f"{start} s"


def _allocation(line: int, where: str, label: str, row: dict[str, Any], played: Play) -> Iterator[Difference]:
    """The last start's nodes, CPUs and GPUs."""
    recorded = [one for one in row.get("allocations", ()) if one["job"] == label]
    ours = played.starts.get(label)
    if not recorded or not ours:
        return
    wanted = []
    for one in recorded[-1]["nodes"]:
        found = re.search(r"IDX:([\d,\-]+)", one["gres"] or "")
        for name in hostlist.expand(one["nodes"]):
            wanted += [(name, _numbers(one["cpu_ids"]), _numbers(found[1]) if found else [])]
    got = ours[-1].nodes
    if "gres/gpu" in recorded[-1]["tres"] and not any(gpus for _, _, gpus in wanted):
        got = [(name, cpus, []) for name, cpus, _ in got]  # told while it was being launched anew
    if wanted != got:
        yield Difference(line, where, f"allocation of {label}", str(wanted), str(got))


def _reasons(line: int, where: str, label: str, row: dict[str, Any], played: Play) -> Iterator[Difference]:
    """Every reason that stood for some seconds stood here too, about then."""
    recorded = row["timeline"].get(label, [])
    for at, (begin, state, reason, _) in enumerate(recorded):
        end = recorded[at + 1][0] if at + 1 < len(recorded) else row["stopped_at"]
        if state != "PENDING" or end - begin < _SETTLED_S:
            continue
        middle = (begin + end) / 2
        ours = played.moments.get(label, [])
        said = [
            one[2]
            for number, one in enumerate(ours)
            if one[0] <= middle + _SLACK_S
            and (number + 1 == len(ours) or ours[number + 1][0] >= middle - _SLACK_S)
            and one[1] == "PENDING"
        ]
        if reason not in said:
            yield Difference(line, where, f"why {label} waited at {middle:.0f} s", reason, ", ".join(said))


def _order(line: int, row: dict[str, Any], jobs: dict[str, Job]) -> Iterator[Difference]:
    """Jobs that started more than a second apart started in this order."""
    times = {
        label: job["start"]
        for label, job in row["jobs"].items()
        if label in jobs and job["start"] is not None
    }
    started = [label for label in row.get("start_order", ()) if label in times and not jobs[label].pending]
    for earlier, later in pairwise(started):
        if times[later] - times[earlier] > 1 and jobs[later].start < jobs[earlier].start:
            yield Difference(
                line, row["id"], "order of starts", f"{earlier} before {later}", f"{later} before {earlier}"
            )
