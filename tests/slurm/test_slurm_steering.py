"""What users and operators do to jobs that are there, and what is left of them. Answers are a real 22.05.8's."""

from __future__ import annotations

import pytest
from slurmworld import World, world


def reasons(w: World) -> list[str]:
    return w.type("squeue -h -a -t all -S i -o '%i %t %r'")[1].splitlines()


def held() -> World:
    w = world()
    for options in ("--begin=now+1hour", "-H", "-H"):
        w.type(f"sbatch -n1 {options} --wrap true", "alice")
    return w


def test_what_an_operator_holds_its_user_does_not_release() -> None:
    w = held()
    assert w.type("scontrol hold 1", "root")[0] == 0
    assert w.type("scontrol hold 1", "alice") == (0, "", "")
    code, _, said = w.type("scontrol release 1", "alice")
    assert (code, said.splitlines()[0]) == (1, "Access/permission denied for job 1")
    assert w.type("scontrol uhold 1", "root")[0] == 0 and reasons(w)[0] == "1 PD JobHeldUser"
    assert w.type("scontrol release 1", "alice")[0] == 0 and reasons(w)[0] == "1 PD None"


def test_names_mean_every_job_of_that_name() -> None:
    w = held()
    assert w.type("scontrol hold name=wrap", "alice") == (0, "", "")
    assert [line.split()[2] for line in reasons(w)] == ["JobHeldUser"] * 3
    denied = w.type("scontrol update jobname=wrap timelimit=3", "bob")[2].splitlines()
    assert denied == [f"Invalid user id for job {number}" for number in (1, 2, 3)]
    nobody = w.type("scontrol update jobname=wrap userid=bob timelimit=3", "root")[2]
    assert nobody == "scontrol: error: No jobs with user ID 1002 and name 'wrap'\n"


def test_what_is_not_known_is_not_suspended() -> None:
    w = world()
    assert w.type("scontrol suspend 99", "root") == (1, "", "Unexpected message received for job 99\n")


@pytest.mark.parametrize(
    ("until", "limit"), [("now+3minutes", "4:00"), ("now+269", "5:00"), ("now+265", "5:00")]
)
def test_the_end_of_a_running_job_comes_earlier_by_whole_minutes(until: str, limit: str) -> None:
    w = world()
    w.type("sbatch -n1 -t 5 --wrap true", "alice")
    w.run(4)
    assert w.type(f"scontrol update jobid=1 endtime={until}", "alice")[0] == 0
    assert w.type("squeue -h -o %l")[1] == f"{limit}\n"
    assert (
        w.type("scontrol update jobid=1 endtime=now+1hour", "alice")[2]
        == "Access/permission denied for job 1\n"
    )


def test_tasks_cancelled_before_they_have_a_record_leave_none() -> None:
    w = world()
    w.type("sbatch -n1 -H --array=1-5 --wrap true", "alice")
    assert w.type("scancel 1_2 1_[4-5]", "alice") == (0, "", "")
    assert reasons(w) == ["1_[1,3] PD JobHeldUser"]
    assert w.type("sbatch --parsable -H --wrap true", "alice")[1] == "2\n"


def test_a_waiting_component_is_not_cancelled_alone() -> None:
    w = world()
    w.type("sbatch -n1 -H : -n1 --wrap true", "alice")
    code, _, said = w.type("scancel 2", "alice")
    assert (code, "individual component" in said) == (60, True)
    assert "Invalid job array" in w.type("sbatch -n1 --array=1-2 : -n1 --wrap true", "alice")[2]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--gres=", "Batch job submission failed: Invalid Trackable RESource (TRES) specification"),
        ("--gpus=1.5", "Batch job submission failed: Invalid Trackable RESource (TRES) specification"),
        ("--gres=gpu:1,gpu:h100:1", "Invalid GRES specification (with and without type identification)"),
    ],
)
def test_what_sbatch_refuses_before_there_is_a_number(options: str, said: str) -> None:
    w = world()
    assert w.type(f"sbatch {options} --wrap true", "alice") == (1, "", f"sbatch: error: {said}\n")
    assert w.type("sbatch --parsable -H --wrap true", "alice")[1] == "1\n"


def test_what_is_done_to_an_array_is_told_by_what_was_said_of_its_tasks() -> None:
    w = world()
    w.type("sbatch -n1 -t 5 --array=1-3 --wrap true", "alice")
    w.run(4)
    assert w.type("scontrol requeue 1_1", "alice") == (0, "", "")
    assert w.type("scontrol requeue 1_3", "alice") == (0, "", "")  # its record has the array's number
    w.run(4)
    assert [line.split()[1] for line in reasons(w)] == ["PD", "R", "PD"]
    said = "1_1,3: Job is pending execution\n1_2: No error\n"
    assert w.type("scontrol requeue 1", "alice") == (1, "", said)
    assert w.type("scontrol requeue 1", "alice") == (1, "", "1_1-3: Job is pending execution\n")
    assert w.type("scontrol hold 1", "alice") == (0, "", "")


def test_a_requeued_job_waits_for_its_credential_whatever_is_changed() -> None:
    w = world()
    w.type("sbatch -n1 -t 5 --wrap true", "alice")
    w.run(4)
    w.type("scontrol requeuehold 1", "alice")
    w.run(4)
    assert w.type("scontrol update jobid=1 timelimit=4", "alice")[0] == 0
    assert w.type("scontrol release 1", "alice")[0] == 0
    w.run(4)
    assert reasons(w) == ["1 PD BeginTime"]
    w.run(120)
    assert reasons(w) == ["1 R None"]


def test_the_boot_a_job_would_wait_for_is_delayed() -> None:
    w = held()
    assert w.type("scontrol update jobid=2 delayboot=1:30", "alice") == (0, "", "")
    assert "DelayBoot=00:01:30" in w.type("scontrol show job 2")[1]
    bad = (1, "", "scontrol: error: Invalid DelayBoot value\n")
    assert w.type("scontrol update jobid=2 delayboot=soon", "alice") == bad


def test_where_memory_is_bound_is_checked() -> None:
    said = 'sbatch: error: unrecognized --mem-bind argument "bogus"\n'
    assert world().type("sbatch --mem-bind=local,bogus --wrap true", "alice") == (255, "", said)


def test_a_running_job_that_is_held_is_no_longer_eligible_in_the_accounts() -> None:
    w = world()
    w.type("sbatch -n1 -t 5 --wrap true", "alice")
    w.run(4)
    accounts = "sacct -n -P -X --format=JobID,State"
    assert w.type(accounts, "alice")[1] == "1|RUNNING\n"
    before = w.type("scontrol show job 1")[1]
    assert w.type("scontrol hold 1", "alice")[0] == 0
    after = w.type("scontrol show job 1")[1]
    assert "EligibleTime=Unknown" in after
    assert [line for line in after.splitlines() if "AccrueTime" in line] == [
        line for line in before.splitlines() if "AccrueTime" in line
    ]
    w.type("scontrol release 1", "alice")
    assert w.type(accounts, "alice")[1] == ""
    assert w.type(accounts + " -j 1", "alice")[1] == "1|RUNNING\n"


def test_the_begin_of_a_held_job_that_is_past_is_forgotten() -> None:
    w = world()
    w.type("sbatch -n1 -t 5 --begin=now+10 --wrap true", "alice")
    w.type("sbatch -n1 -t 5 --begin=now+1hour --wrap true", "alice")
    w.type("scontrol hold 1 2", "alice")
    w.run(20)
    w.type("scontrol release 1 2", "alice")
    w.run(4)
    assert reasons(w) == ["1 R None", "2 PD BeginTime"]


def test_what_an_update_gives_as_nothing_or_badly() -> None:
    w = held()
    bad = "scontrol: error: Invalid MinMemoryNode value: 4G\n"
    assert w.type("scontrol update jobid=2 minmemorynode=4G", "alice") == (1, "", bad)
    assert w.type("scontrol update jobid=2 comment= features= switches=1 eligibletime=now", "alice")[0] == 0
    shown = w.type("scontrol show job 2")[1]
    assert "Comment= \n" in shown and "Features=(null)" in shown and "Switches=1@00:00:00" in shown
    assert "EligibleTime=Unknown" not in shown and "AccrueTime=Unknown" in shown


def asked(w: World, job: int) -> list[str]:
    shown = w.type(f"scontrol show job {job}")[1].splitlines()
    return [line.strip() for line in shown if "TRES=" in line or "Tres" in line]


def test_what_is_updated_is_counted_anew_and_the_rest_stays() -> None:
    w = world()
    w.type("sbatch -H -n4 --mem=4000 --gres=gpu:1 --wrap true", "alice")
    before = asked(w, 1)
    assert "cpu=4" in before[0] and "gres/gpu=1" in before[0]
    assert w.type("scontrol update jobid=1 trespernode=gpu:3", "alice")[0] == 0
    assert asked(w, 1) == [before[0], "TresPerNode=gpu:3"]  # not said to be of a GRES
    assert w.type("scontrol update jobid=1 numcpus=6", "alice")[0] == 0
    assert "cpu=6,mem=4000M,node=1" in asked(w, 1)[0]
    assert w.type("scontrol update jobid=1 numnodes=2", "alice")[0] == 0
    assert "cpu=6,mem=4000M,node=2" in asked(w, 1)[0] and "gres/gpu=1" in asked(w, 1)[0]
    assert w.type("scontrol update jobid=1 gres=gpu:2", "alice")[0] == 0
    assert "gres/gpu=4" in asked(w, 1)[0]


def test_gres_of_an_update_join_what_stands() -> None:
    w = world()
    w.type("sbatch -H --gres=gpu:1 --wrap true", "alice")
    w.type("sbatch -H --gpus=2 --wrap true", "alice")
    mixed = "Invalid GRES specification (with and without type identification) for job 1\n"
    assert mixed in w.type("scontrol update jobid=1 gres=gpu:h100:1", "alice")[2]
    contradictory = "Invalid generic resource (gres) specification for job 2\n"
    assert contradictory in w.type("scontrol update jobid=2 gres=gpu:1", "alice")[2]


def test_cpus_for_each_gpu_are_counted_when_the_gpus_are_given() -> None:
    w = world()
    w.type("sbatch -H --cpus-per-gpu=8 --gres=gpu:2 --wrap true", "alice")
    assert w.type("squeue -h -o %C")[1] == "1\n"
    assert "cpu=1," in asked(w, 1)[0]
