"""A small Slurm cluster for tests: nodes n1…, accounts acctA (alice, bob) and acctB (carol), jobs by their options."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import Any

from fairway.slurm.administration import Slurmctld
from fairway.slurm.commands.call import Call
from fairway.slurm.commands.site import Site
from fairway.slurm.conf import read_configuration
from fairway.slurm.lifecycle import Behaviour
from fairway.slurm.model.association import User, add_association, add_qos, empty_accounts
from fairway.slurm.model.job import Job, JobRequest
from fairway.slurm.serving.host import run

START_US = 1_800_000_000_000_000

CONF = """
ClusterName=c
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
SchedulerParameters=bf_interval=2,bf_resolution=1,batch_sched_delay=0,sched_interval=2
AccountingStorageEnforce=associations,limits,qos
AccountingStorageTRES=gres/gpu,gres/gpu:h100
KillWait=2
ReturnToService=2
DefMemPerCPU=1000
"""
NODES = """
NodeName=n[1-4] CPUs=32 SocketsPerBoard=2 CoresPerSocket=16 RealMemory=256000 Gres=gpu:h100:8 Feature=h100
PartitionName=p1 Nodes=n1 Default=YES MaxTime=INFINITE
PartitionName=p2 Nodes=n[1-2] MaxTime=INFINITE
PartitionName=p4 Nodes=n[1-4] MaxTime=INFINITE
"""
GRES = "NodeName=n[1-4] Name=gpu Type=h100 File=/dev/nvidia[0-7]\n"


@dataclass
class World:
    """`run(seconds)`, `submit(seconds of run, **fields of the request)`."""

    ctl: Slurmctld
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def now(self) -> int:
        return self.ctl.now - START_US // 1_000_000

    def submit(self, runs: float = 10, user: str = "alice", **asked: Any) -> Job:
        gpus = asked.pop("gpus", 0)
        if gpus:
            asked["tres_per_node"] = {"gpu": gpus}
        asked.setdefault("time_limit", 5)
        return self.ctl.submit(JobRequest(name=asked.pop("name", "j"), extra={"runs": runs}, **asked), user)

    def type(self, line: str, user: str = "alice", **environment: str) -> tuple[int, str, str]:
        """A command typed: exit code, stdout, stderr."""
        words = shlex.split(line)
        site = Site(self.ctl, uids={"root": 0, "alice": 1001, "bob": 1002, "carol": 1003})
        call = Call(site, words[0], words[1:], environment, user, "/home")
        code = run(call)
        return code, "".join(call.out), "".join(call.errors)

    def run(self, seconds: float) -> None:
        self.ctl.advance(self.ctl.now_us + int(seconds * 1_000_000))

    def start(self, job: Job) -> int:
        return job.start - START_US // 1_000_000


def world(more: str = "", nodes: str = NODES, gres: str = GRES) -> World:
    conf = read_configuration({"slurm.conf": CONF + more + nodes, "gres.conf": gres})
    accounts = empty_accounts("c")
    for account, users in (("accta", ("alice", "bob")), ("acctb", ("carol",))):
        add_association(accounts, account, parent="root")
        for user in users:
            accounts.users[user] = User(user, account)
            add_association(accounts, account, user, parent=account)
    for name in ("low", "high"):
        add_qos(accounts, name)
    accounts.qos["high"].preempt = ("low",)
    for one in accounts.associations.values():
        one.qos = ("normal", "low", "high")

    def behave(job: Job, now: int) -> Behaviour:
        runs = job.request.extra.get("runs", 100)
        return runs if isinstance(runs, Behaviour) else Behaviour(runs)

    return World(Slurmctld(conf, accounts, behave, START_US))
