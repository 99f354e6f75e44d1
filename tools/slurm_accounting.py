"""Makes an accounting (sacct -P) of a Slurm site by playing random work through Fairway's own slurmctld.

.venv/bin/python tools/slurm_accounting.py SITE DAYS SEED > sacct.csv
"""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random

from fairway.slurm.clockwork import SECOND
from fairway.slurm.commands.call import Call
from fairway.slurm.commands.sacct import sacct
from fairway.slurm.commands.site import Site
from fairway.slurm.lifecycle import Behaviour
from fairway.slurm.model.job import JobRequest
from fairway.slurm.sitefolder import read_site
from fairway.slurm.words.errors import SlurmError

START_S = 1_767_571_200  # 2026-01-05, a Monday
COLUMNS = (
    "JobID,JobName,User,Account,Partition,QOS,State,Submit,Eligible,Start,End,Timelimit,ReqTRES,AllocTRES,NNodes,"
    "NodeList,ExitCode,Priority"
)
# account, users, jobs a day, what they ask: (weight, name, partition, nodes, gpus a node, cpus, limits in minutes).
WORK = (
    ("vision", ("ann", "bo"), 20, (
        (8, "finetune", "train", 1, 8, 64, (360, 720)),
        (1, "pretrain", "train", 2, 8, 64, (1440, 2880)),
        (11, "notebook", "dev", 1, 1, 8, (240, 480)),
    )),
    ("nlp", ("cy",), 20, (
        (4, "llama", "train", 1, 8, 64, (720, 1440)),
        (16, "eval", "dev", 1, 4, 32, (120, 480)),
    )),
    ("ops", ("dee",), 24, (
        (6, "etl", "cpu", 1, 0, 16, (60, 240)),
        (2, "infer", "dev", 1, 1, 8, (60, 480)),
    )),
)  # fmt: skip


def main(folder: str, days: str, seed: str) -> None:
    site, random = read_site(Path(folder)), Random(int(seed))
    controller = site.controller(START_S * SECOND)
    controller.behave = lambda job, now: Behaviour(job.request.extra["runs"], job.request.extra["exit"])
    for at, account, users, work in sorted(_arrivals(int(days), random), key=lambda one: one[0]):
        controller.advance(at * SECOND)
        _, name, partition, nodes, gpus, cpus, limits = random.choices(work, [w[0] for w in work])[0]
        limit = random.choice(limits)
        runs = limit * 60 * min(random.lognormvariate(-1.1, 0.7), 1.4)
        asked = JobRequest(
            name=f"{name}-{random.randint(1, 40)}", account=account, partition=partition, time_limit=limit,
            min_nodes=nodes, max_nodes=nodes, num_tasks=nodes, ntasks_per_node=1, cpus_per_task=cpus,
            min_cpus=cpus * nodes, tres_per_node={"gpu": gpus} if gpus else {},
            qos=random.choices(("normal", "high"), (9, 1))[0],
            extra={"runs": runs, "exit": int(random.random() < 0.04)},
        )  # fmt: skip
        try:
            controller.submit(asked, random.choice(users))
        except SlurmError as refused:
            sys.stderr.write(f"{name}: {refused}\n")
    while controller.cluster.running and (due := controller.next_event_us()) is not None:
        controller.advance(due)
    words = ["-a", "-X", "-P", "--duplicates", "-S", "2025-01-01", "-o", COLUMNS]
    call = Call(Site(controller), "sacct", words, {}, "root", "/")
    sacct(call)
    sys.stdout.write("".join(call.out))


def _arrivals(days: int, random: Random):  # type: ignore[no-untyped-def]
    """Twice as many by day as by night, half of them on weekends."""
    for account, users, a_day, work in WORK:
        for day in range(days):
            count = round(a_day * (0.5 if day % 7 > 4 else 1.0) * random.uniform(0.8, 1.2))
            for _ in range(count):
                hour = random.triangular(0, 24, 13)
                yield START_S + int((day * 24 + hour) * 3600), account, users, work


if __name__ == "__main__":
    main(*sys.argv[1:4])
