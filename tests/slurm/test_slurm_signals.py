"""scancel: what is signalled, what is refused in which words; and who is written to about a job."""

from __future__ import annotations

import pytest
from tests.slurm.slurmworld import World, world

from fairway.slurm.model.job import Step
from fairway.slurm.serving.processes import Processes

UNKNOWN = "Invalid job id specified"
LATER = "Job can not be altered now, try again later"


def told(**more: str) -> tuple[World, list[tuple[int, int, str]]]:
    """Job 1 runs with a step 0 and one that is over, 2 runs without a script, 3 is over, 4 is held."""
    w, heard = world(more.get("conf", "")), list[tuple[int, int, str]]()
    w.ctl.on_signal = lambda job, number: heard.append(
        (job.job_id, number, job.request.extra.get("signal_only", ""))
    )
    running = w.submit(1000)
    w.submit(1000, batch=False)
    w.submit(1)
    w.run(4)
    w.submit(10, hold="user")
    running.steps += [Step("0", start=w.ctl.now), Step("1", start=w.ctl.now, end=w.ctl.now)]
    assert [job.state for job in w.ctl.cluster.jobs.values()] == [
        "RUNNING",
        "RUNNING",
        "COMPLETED",
        "PENDING",
    ]
    return w, heard


def refusal(text: str, what: str = "id") -> str:
    return f"scancel: error: Kill job error on job {what}\n".replace(what, f"{what} {text}")


@pytest.mark.parametrize(
    ("line", "signals", "code", "said"),
    [
        ("-s USR1 1", [(1, 10, "steps")], 0, ""),
        ("-b -s USR1 1", [(1, 10, "batch")], 0, ""),
        ("-f -s USR1 1", [(1, 10, "")], 0, ""),
        ("-b 1", [(1, 9, "batch")], 0, ""),
        ("-b -s KILL 1", [(1, 9, "batch")], 0, ""),
        ("-b 2", [], 2009 % 256, refusal("2: Job script not specified")),
        ("-s USR1 3", [], 1, refusal(f"3: {UNKNOWN}")),
        ("-s USR1 99", [], 1, refusal(f"99: {UNKNOWN}")),
        ("-Q -s USR1 99", [], 1, ""),
        ("99", [], 0, ""),
        ("3", [], 0, ""),
        ("3,99", [], 0, ""),
        ("99999999999", [], 0, ""),
        ("0", [], 1, "scancel: error: Invalid job id 0\n"),
        ("1.", [(1, 9, ".0")], 0, ""),
        ("--wckey=x", [], 0, ""),
        ("-s USR1 4", [], 2020 % 256, refusal(f"4: {LATER}")),
        ("1.0", [(1, 9, ".0")], 0, ""),
        ("-s USR1 1.0", [(1, 10, ".0")], 0, ""),
        ("1.1", [], 2017 % 256, refusal(f"1: {UNKNOWN}", "step id")),
        ("1.7", [], 2017 % 256, refusal(f"1: {UNKNOWN}", "step id")),
        ("4.0", [], 0, ""),
        ("3.0", [], 1, refusal(f"3.0: {UNKNOWN}", "step id")),
        ("99.3", [], 1, refusal(f"99.3: {UNKNOWN}", "step id")),
    ],
)
def test_what_scancel_signals(line: str, signals: list[tuple[int, int, str]], code: int, said: str) -> None:
    w, heard = told()
    assert w.type(f"scancel {line}") == (code, "", said)
    assert heard == signals
    assert [job.state for job in w.ctl.cluster.jobs.values()] == [
        "RUNNING",
        "RUNNING",
        "COMPLETED",
        "PENDING",
    ]


def test_a_step_of_another_users_job_is_not_signalled() -> None:
    w, heard = told()
    said = "scancel: error: Kill job error on job step id 1: Invalid user id\n"
    assert w.type("scancel 1.0", "bob") == (2010 % 256, "", said)
    assert heard == []
    assert w.type("scancel 1.0", "root") == (0, "", "")
    assert heard == [(1, 9, ".0")]


def test_a_pending_job_whose_script_alone_is_cancelled_is_cancelled() -> None:
    w, _ = told()
    assert w.type("scancel -b 4") == (0, "", "")
    assert w.ctl.cluster.jobs[4].state == "CANCELLED"


def test_what_processes_started_is_signalled_and_not_they(monkeypatch: pytest.MonkeyPatch) -> None:
    """1: the script 10 with a child 11, its srun 20 with tasks 21, 23 and a child of one; another's 30."""
    children = {1: [10, 30], 10: [11, 20], 20: [21, 23], 21: [22], 30: [31]}
    killed = list[tuple[int, int]]()
    where = "fairway.slurm.serving.processes"
    monkeypatch.setattr(f"{where}._children", lambda pid: children.get(pid, []))
    monkeypatch.setattr(f"{where}._kill", lambda pid, number: killed.append((pid, number)))
    Processes().signal_below([20], 10)
    assert killed == [(21, 10), (23, 10), (22, 10)]
    killed.clear()
    Processes().signal_below([], 10)
    assert killed == []


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ("--mail-type=ALL", "MailUser=alice MailType=INVALID_DEPEND,BEGIN,END,FAIL,REQUEUE,STAGE_OUT"),
        ("--mail-type=end,Begin --mail-user=a@b", "MailUser=a@b MailType=BEGIN,END"),
        ("--mail-type=TIME_LIMIT,TIME_LIMIT_50", "MailUser=alice MailType=TIME_LIMIT_50,TIME_LIMIT"),
        ("--mail-type=REQUEUE,ARRAY_TASKS", "MailUser=alice MailType=ARRAY_TASKS,REQUEUE"),
        ("--mail-type=END --mail-type=FAIL", "MailUser=alice MailType=END,FAIL"),
        ("--mail-type=END,bogus", "MailUser=alice MailType=END"),
        ("--mail-type=END,NONE", ""),
        ("--mail-user=a@b", ""),
    ],
)  # fmt: skip
def test_who_is_written_to_and_when(options: str, shown: str) -> None:
    w = world()
    assert w.type(f"sbatch {options} --wrap true")[0] == 0
    lines = [line.strip() for line in w.type("scontrol show job 1")[1].splitlines()]
    assert [line for line in lines if line.startswith("Mail")] == ([shown] if shown else [])


@pytest.mark.parametrize("value", ["bogus", "''", "END;FAIL", "' END'"])
def test_a_mail_type_of_no_known_word_is_refused(value: str) -> None:
    w = world()
    assert w.type(f"sbatch --mail-type={value} --wrap true") == (
        255,
        "",
        "sbatch: error: Invalid --mail-type specification\n",
    )


def test_mail_of_a_job_is_changed() -> None:
    w = world("MailDomain=example.org\n")
    w.type("sbatch -H --mail-type=END --wrap true")

    def mail() -> str:
        return next((li.strip() for li in w.type("scontrol show job 1")[1].splitlines() if "Mail" in li), "")

    assert mail() == "MailUser=alice@example.org MailType=END"
    assert w.type("scontrol update jobid=1 mailtype=all mailuser=bob") == (0, "", "")
    assert mail() == "MailUser=bob MailType=INVALID_DEPEND,BEGIN,END,FAIL,REQUEUE,STAGE_OUT"
    assert w.type("scontrol update jobid=1 mailtype=x") == (1, "", "Invalid MailType: x\n")
    assert w.type("scontrol update jobid=1 mailtype=none") == (0, "", "")
    assert mail() == ""


def stepped() -> tuple[World, list[tuple[int, int, str]]]:
    """Job 1 has steps 0, 1 (over) and 2."""
    w, heard = told()
    w.ctl.step_start(1, Step("2", start=w.ctl.now))
    return w, heard


def limits(w: World) -> list[str]:
    shown = w.type("scontrol show step 1")[1]
    return [line.split("TimeLimit=")[1].strip() for line in shown.splitlines() if "TimeLimit" in line]


@pytest.mark.parametrize(
    ("words", "code", "said", "after"),
    [
        ("stepid=1.0 timelimit=20", 0, "", ["UNLIMITED", "00:20:00", "UNLIMITED"]),
        ("StepId=1 TimeL=1-0", 0, "", ["1-00:00:00"] * 3),
        ("stepid=1.2 timelimit=UNLIMITED", 0, "", ["UNLIMITED"] * 3),
        ("stepid=1.1 timelimit=20", 1, f"slurm_update error: {UNKNOWN}\n", None),
        ("stepid=9.0 timelimit=20", 1, f"slurm_update error: {UNKNOWN}\n", None),
        ("stepid=1.0", 1, "No changes specified\n", None),
        ("stepid=1x timelimit=1", 1, "Invalid StepID parameter: stepid=1x\nRequest aborted\n", None),
        (
            "stepid=1.0 name=x",
            1,
            "Update of this parameter is not supported: name=x\nRequest aborted\n",
            None,
        ),
        ("stepid=1.0 timelimit=x", 1, "scontrol: error: Invalid TimeLimit value\n", None),
    ],
)
def test_a_steps_limit_is_changed(words: str, code: int, said: str, after: list[str] | None) -> None:
    w, _ = stepped()
    assert w.type(f"scontrol update {words}") == (code, "", said)
    assert limits(w) == (["UNLIMITED"] * 3 if after is None else after)


def test_a_steps_limit_is_raised_and_lowered_by_so_much() -> None:
    w, _ = stepped()
    assert w.type("scontrol update stepid=1.0 timelimit=20")[0] == 0
    assert w.type("scontrol update stepid=1.0 timelimit=+5")[0] == 0
    assert limits(w)[1] == "00:25:00"
    assert w.type("scontrol update stepid=1.0 timelimit=-10")[0] == 0
    assert limits(w)[1] == "00:15:00"
    larger = "scontrol: error: TimeLimit decrement larger than current time limit (16 > 15)\n"
    assert w.type("scontrol update stepid=1.0 timelimit=-16") == (1, "", larger)
    assert w.type("squeue -h -s -o %i:%l", "root")[1].split()[:2] == ["1.0:15:00", "1.2:UNLIMITED"]


def test_only_its_owner_and_operators_change_a_steps_limit() -> None:
    w, _ = stepped()
    words = "scontrol update stepid=1.0 timelimit=20"
    assert w.type(words, "bob") == (1, "", "slurm_update error: Invalid user id\n")
    assert w.type(words, "root") == (0, "", "")


def test_a_step_past_its_limit_is_killed_and_no_other() -> None:
    w, heard = stepped()
    w.type("scontrol update stepid=1.0 timelimit=2")
    w.run(90)
    assert heard == []
    w.run(60)
    assert heard == [(1, 9, ".0")]
    assert [step.state for step in w.ctl.cluster.jobs[1].steps] == [
        "RUNNING",
        "TIMEOUT",
        "RUNNING",
        "RUNNING",
    ]


def test_a_limit_that_was_raised_in_time_kills_nothing() -> None:
    w, heard = stepped()
    w.type("scontrol update stepid=1.0 timelimit=1")
    w.type("scontrol update stepid=1.0 timelimit=3")
    w.run(150)
    assert heard == []
    w.run(60)
    assert heard == [(1, 9, ".0")]
