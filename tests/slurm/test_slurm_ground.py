"""A Slurm site as a ground: what was written down is what stands there, and answers add up."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from fairway.answers.onslurm.explaining import explain_job
from fairway.answers.onslurm.forecasting import forecast
from fairway.answers.onslurm.owing import COLUMNS, micros_of, owed
from fairway.answers.onslurm.planning import looked
from fairway.answers.onslurm.telling import jain, stays_of, told
from fairway.answers.onslurm.whatif import what_if
from fairway.cli.main import main
from fairway.errors import InvalidInput, UserError
from fairway.ground import open_ground
from fairway.ground.slurmground import SlurmGround
from fairway.slurm.commands.call import Call
from fairway.slurm.commands.scontrol import scontrol
from fairway.slurm.commands.site import Site
from fairway.slurm.commands.squeue import squeue
from fairway.slurm.records.replaying import replay
from fairway.slurm.records.sacct import read_sacct
from fairway.slurm.words.durations import stamp

SITE = Path(__file__).parents[2] / "examples" / "19-leaving-slurm" / "site"
CONF = """ClusterName=c
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
AccountingStorageEnforce=associations,limits,qos
AccountingStorageTRES=gres/gpu
NodeName=n[1-2] CPUs=32 SocketsPerBoard=2 CoresPerSocket=16 RealMemory=256000 Gres=gpu:h100:8
PartitionName=p Nodes=n[1-2] Default=YES MaxTime=2-0
"""
ACCOUNTS = """Cluster - 'c':Fairshare=1
Parent - 'root'
Account - 'a':Description='a':Organization='o':Fairshare=1:GrpTRES=gres/gpu=10
Account - 'b':Description='b':Organization='o':Fairshare=1
Parent - 'a'
User - 'ann':DefaultAccount='a':Fairshare=1
Parent - 'b'
User - 'bo':DefaultAccount='b':Fairshare=1
"""
HEADER = (
    "JobID|JobName|User|Account|Partition|QOS|State|Submit|Eligible|Start|End|Timelimit|ReqTRES|AllocTRES|NNodes|"
    "NodeList"
)
T = 1_767_571_200


@pytest.fixture(scope="module")
def ground() -> SlurmGround:
    return SlurmGround(SITE)


def row(
    label: str, user: str, gpus: int, start: int = 0, end: int = 0, *, limit: str = "10:00:00", node: str = ""
) -> str:
    tres = f"billing=8,cpu=8,gres/gpu={gpus},mem=8G,node=1"
    state = "RUNNING" if start and not end else "COMPLETED" if end else "PENDING"
    when = [stamp(T + at) if at else "Unknown" for at in (start, end)]
    account = {"ann": "a", "bo": "b"}[user]
    said = stamp(T + int(label))
    return "|".join(
        [
            label,
            "job",
            user,
            account,
            "p",
            "normal",
            state,
            said,
            said,
            *when,
            limit,
            tres,
            tres if start else "",
            "1",
            node,
        ]
    )


def small(tmp_path: Path, *rows: str) -> SlurmGround:
    (tmp_path / "slurm.conf").write_text(CONF)
    (tmp_path / "accounts.cfg").write_text(ACCOUNTS)
    (tmp_path / "sacct.csv").write_text("\n".join([HEADER, *rows]) + "\n")
    return SlurmGround(tmp_path)


@pytest.mark.parametrize("hours", [30, 100, 250])
def test_what_ran_runs_on_its_nodes(ground: SlurmGround, hours: int) -> None:
    moment = ground.at(f"{hours}h")
    standing = moment.standing()
    assert not standing.left_out
    running = {r.label: r for r in moment.records if r.start and r.start <= moment.now < r.end}
    waiting = {r.label for r in moment.records if r.submit <= moment.now < r.start}
    there = {label: job for label, job in standing.jobs.items() if not job.pending}
    assert set(there) == set(running) and set(standing.jobs) - set(there) == waiting
    for label, record in running.items():
        assert there[label].nodes == record.host_names()
        assert there[label].alloc_tres == record.alloc
        assert (there[label].start, there[label].submit) == (record.start, record.submit)


def test_a_replay_of_our_own_accounting_decides_the_same(ground: SlurmGround) -> None:
    """The example's accounting was made by this engine: played again, jobs start when they did."""
    records = [r for r in ground.past if r.submit < T + 5 * 86_400]
    played = replay(ground.site, records)
    assert not played.refused and len(played.jobs) == len(records)
    off = [abs(job.start - record.start) for record, job in played.jobs]
    assert sum(one <= 2 for one in off) >= 0.9 * len(off)


def test_every_second_is_owed_by_somebody_or_idle(ground: SlurmGround) -> None:
    moment = ground.end()
    bills = [owed(moment, by) for by in COLUMNS]
    for bill in bills:
        assert sum(row.micros for row in bill.rows) + bill.idle_micros == bill.total_micros
        assert bill.idle_micros >= 0 and sum(row.jobs for row in bill.rows) == len(ground.past)
        assert sum(r.gpu_s for r in bill.rows) == sum(r.gpus * r.ran_s for r in ground.past)
    assert len({bill.total_micros for bill in bills}) == 1
    h100 = bills[0].rates.gpus["h100"]
    assert micros_of({"gres/gpu": 8, "gres/gpu:h100": 8}, 3600, bills[0].rates) == 8 * h100


def test_explain_says_which_limit_and_by_how_much(tmp_path: Path) -> None:
    ground = small(tmp_path, row("1", "ann", 6, 5, node="n1"), row("10", "ann", 6))
    found = explain_job(ground.at("20s"), "job/10")
    assert found.reason == "AssocGrpGRES"
    assert "account a: GrpTRES gres/gpu=10, 6 in use, 6 asked: 2 over" in found.facts
    assert any(change.text.startswith("--gpus=3") and change.now for change in found.changes)


def test_explain_says_who_is_before_and_what_is_short(tmp_path: Path) -> None:
    rows = [row("1", "bo", 8, 5, node="n1"), row("2", "bo", 8, 5, node="n2", limit="02:00:00")]
    ground = small(
        tmp_path, *rows, row("10", "bo", 8), row("11", "bo", 8, limit="01:00:00"), row("12", "bo", 9)
    )
    second = explain_job(ground.at("20s"), "11")
    assert second.reason in ("Priority", "Resources") and second.ahead[0].startswith("10 job of bo")
    first = explain_job(ground.at("20s"), "10")
    assert first.reason == "Resources" and not first.ahead
    assert "0 of 2 nodes have that free" in first.facts[0] and "1 node short" in first.facts[0]
    assert first.start == T + 5 + 2 * 3600 and first.nodes == ("n2",)
    never = explain_job(ground.at("20s"), "12")
    assert "not available" in never.facts[0]
    with pytest.raises(UserError, match="no such job; waiting are 10, 11"):
        explain_job(ground.at("20s"), "99")


def test_changes_that_start_it_do(ground: SlurmGround) -> None:
    """What is proposed as starting at once was tried: tried again on its own, it does."""
    moment = ground.at("250h")
    found = explain_job(moment, "590")
    assert found.blocked and found.changes and found.changes[0].now
    assert [change.now for change in found.changes] == sorted((c.now for c in found.changes), reverse=True)


def test_dumps_of_the_commands_are_read_back(tmp_path: Path, ground: SlurmGround) -> None:
    """scontrol show job and squeue --json of a standing site tell the same jobs as its accounting."""
    moment = ground.at("250h")
    standing = looked(moment)
    site = Site(standing.controller)
    for file, command, words in (
        ("jobs.txt", scontrol, ["show", "job"]),
        ("queue.json", squeue, ["--json"]),
    ):
        call = Call(site, words[0] if command is squeue else "scontrol", words, {}, "root", "/")
        command(call)
        folder = tmp_path / file.partition(".")[0]
        folder.mkdir()
        for name, text in ground.site.files.items():
            (folder / name).write_text(text)
        (folder / file).write_text("".join(call.out))
        read = SlurmGround(folder).at()
        now = {(r.user, r.submit, r.gpus, r.state, r.start) for r in read.records}
        then = {
            (r.user, r.submit, r.gpus, "RUNNING" if not standing.jobs[r.label].pending else "PENDING",
             standing.jobs[r.label].start if not standing.jobs[r.label].pending else 0)
            for r in standing.of.values()
        }  # fmt: skip
        assert now == then


def test_a_forecast_is_ordered_and_repeats(ground: SlurmGround) -> None:
    moment = ground.at("250h")
    found = forecast(moment, futures=4, seed=3)
    assert {one.label for one in found} == {
        r.label for r in moment.records if r.submit <= moment.now < r.start
    }
    for one in found:
        assert moment.now <= one.p10 <= one.p50 <= one.p90
    assert found == forecast(moment, futures=4, seed=3)


def test_more_nodes_wait_less(tmp_path: Path) -> None:
    rows = [
        row(str(n), "bo", 8, n + 3600 * (n // 2), n + 3600 * (n // 2 + 1), limit="01:30:00")
        for n in range(1, 9)
    ]
    ground = small(tmp_path, *rows)
    before, after, notes = what_if(ground.at(), ["nodes=+2"])
    assert not notes and after.all.wait_mean_s < before.all.wait_mean_s
    same, also, _ = what_if(ground.at(), ["KillWait=7"])
    assert same == also == before
    for wrong in ("nodes=2", "nodes/x=+1", "partition/q/MaxTime=1", "Nonsense=1", "load=-1", "x"):
        with pytest.raises(UserError):
            what_if(ground.at(), [wrong])


def test_a_new_node_is_at_the_switch_of_the_one_it_is_like(tmp_path: Path) -> None:
    """A node at no switch gets no job under topology/tree: the answer had been that more nodes change nothing."""
    rows = [row(str(n), "bo", 8, n, n + 3600, limit="01:30:00") for n in range(1, 9)]
    small(tmp_path, *rows)
    conf = tmp_path / "slurm.conf"
    conf.write_text(conf.read_text() + "TopologyPlugin=topology/tree\n")
    names = [node.name for node in SlurmGround(tmp_path).site.conf.nodes]
    (tmp_path / "topology.conf").write_text(
        f"SwitchName=s Nodes={','.join(names)}\nSwitchName=t Switches=s\n"
    )
    before, after, _ = what_if(SlurmGround(tmp_path).at(), ["nodes=+2"])
    assert after.all.wait_mean_s < before.all.wait_mean_s
    fewer, less, _ = what_if(SlurmGround(tmp_path).at(), ["nodes=-1"])
    assert less.all.wait_mean_s > fewer.all.wait_mean_s


def test_jain_is_one_for_equals() -> None:
    random = Random(1)
    assert jain([3.0] * 5) == pytest.approx(1) and jain([1.0, 0, 0, 0]) == pytest.approx(0.25)
    for _ in range(50):
        values = [random.random() for _ in range(random.randint(1, 9))]
        assert 1 / len(values) - 1e-9 <= jain(values) <= 1 + 1e-9


def test_shares_of_all_accounts_are_one(ground: SlurmGround) -> None:
    found = told(stays_of(ground.at().records, ground.at().now), ground.site.conf.nodes)
    assert sum(g.share for g in found.accounts) == pytest.approx(1)
    assert sum(g.share for g in found.partitions) == pytest.approx(1)
    assert sum(g.jobs for g in found.accounts) == found.jobs == found.all.jobs
    assert 0 < found.allocated_gpus < 1


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("JobID|Submit\n1|x\n", 1, "no column start, end, AllocTRES"),
        (HEADER + "\n1|2\n", 2, "expected 16 columns, not 2"),
        (HEADER + "\n" + row("1", "bo", 1, 2, 3).replace("2026", "soon", 1) + "\n", 2, "is no time"),
        (HEADER + "\n" + row("1", "bo", 1, 2, 3).replace("cpu=8", "cpu=many") + "\n", 2, "is no NAME=COUNT"),
        (HEADER + "\n" + row("1", "bo", 1, 2, 3, limit="ever") + "\n", 2, "is no duration"),
        (HEADER + "\n", 0, "holds no job"),
    ],
)
def test_accounting_that_cannot_be_read_is_located(tmp_path: Path, text: str, line: int, said: str) -> None:
    file = tmp_path / "sacct.csv"
    file.write_text(text)
    with pytest.raises(InvalidInput) as wrong:
        read_sacct(file)
    assert wrong.value.problems[0].line == line and said in wrong.value.problems[0].expected


def test_the_commands_answer(capsys: pytest.CaptureFixture[str]) -> None:
    where, at = str(SITE), ["--at", "250h"]
    for words, code in (
        (["report", where], 0),
        (["cost", where, "--by", "user"], 0),
        (["fragmentation", where, *at], 1),
        (["explain", "590", "--on", where, "--no-changes", *at], 1),
        (["check", "-f", str(SITE.parent / "scripts" / "sweep.sh"), "--on", where, *at], 0),
    ):
        assert main(words) == code
        told_lines = capsys.readouterr().out.splitlines()
        assert told_lines and all(len(line) <= 100 for line in told_lines)
        assert main([*words, "-o", "json"]) == code
        assert json.loads(capsys.readouterr().out)
    assert main(["explain", "1", "--on", str(SITE.parent)]) != 4
    with pytest.raises(UserError, match="is a Slurm site"):
        open_ground(SITE)
