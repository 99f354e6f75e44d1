"""The served cluster: what was told is there after any end, users have Slurm's rights, time goes as it is told."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from slurmtyped import Typed

from fairway.errors import InvalidInput, UserError, WorldError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "c").mkdir(mode=0o700)
    return tmp_path / "c"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs write their output where they were submitted: not into the repository."""
    monkeypatch.chdir(tmp_path)


def lived_in(folder: Path) -> Typed:
    """A cluster where something of everything has happened."""
    door = Typed(folder)
    (folder / "job.sh").write_text(
        "#!/bin/bash\n#SBATCH --gres=gpu:2\n#FAIRWAY runtime=2h exit=1\npython x\n"
    )
    for words in (
        ("sacctmgr", "-i", "add", "user", "dave", "account=prod", "adminlevel=operator"),
        ("sacctmgr", "-i", "modify", "account", "prod", "set", "grptres=gres/gpu=4"),
        ("scontrol", "update", "nodename=a02", "state=drain", "reason=fan"),
        (
            "scontrol",
            "create",
            "reservation",
            "starttime=now+60",
            "duration=60",
            "nodes=gpu02",
            "users=alice",
        ),
    ):
        assert door.type(*words)[0] == 0, words
    for number in range(6):
        assert door.type("sbatch", "job.sh", user=("alice", "bob", "carol")[number % 3])[0] == 0
        door.run(7.3)
    assert door.type("sbatch", "--array=0-9%2", "--wrap", "sleep 100", user="alice")[0] == 0
    assert door.type("sbatch", "-d", "afternotok:1", "--wrap", "sleep 5", user="bob")[0] == 0
    door.run(30)
    for words in (
        ("scancel", "2"),
        ("scontrol", "hold", "3"),
        ("scontrol", "suspend", "1"),
        ("scontrol", "update", "jobid=4", "timelimit=30"),
        ("sbatch", "--test-only", "job.sh"),
        ("sbatch", "-p", "nowhere", "job.sh"),
    ):
        door.type(*words)
        door.run(1.1)
    door.run(3600)
    return door


def test_a_new_server_shows_what_the_last_one_showed(folder: Path) -> None:
    first = lived_in(folder)
    before = first.shown()
    first.end()
    second = Typed(folder)
    assert second.shown() == before
    used = set(second.type("sacct", "-a", "-X", "-n", "-P", "-o", "jobidraw")[1].split())
    assert second.type("sbatch", "job.sh")[1].split()[-1] not in used
    second.run(8 * 3600)
    later = second.shown()
    second.end()
    third = Typed(folder)
    assert third.shown() == later
    third.end()


def test_a_journal_cut_anywhere_keeps_all_that_was_whole(folder: Path, tmp_path: Path) -> None:
    first = Typed(folder)
    for _ in range(3):
        first.type("sbatch", "--wrap", "sleep 60")
    first.end()
    whole = (folder / "journal").read_bytes()
    ends = [at + 1 for at, byte in enumerate(whole) if byte == 10]
    for cut in range(ends[0], len(whole) + 1, 97):
        again = tmp_path / f"at{cut}"
        again.mkdir()
        (again / "journal").write_bytes(whole[:cut])
        door = Typed(again)
        kept = sum(
            b'"op":"call"' in line for line in whole[:cut].splitlines(keepends=True) if line.endswith(b"\n")
        )
        assert sorted(door.type("squeue", "-h", "-o", "%i")[1].split()) == [
            str(n) for n in range(1, kept + 1)
        ]
        assert door.type("sbatch", "--wrap", "sleep 1")[1] == f"Submitted batch job {kept + 1}\n"
        door.end()


def test_damage_before_the_end_is_named_and_nothing_starts(folder: Path) -> None:
    first = Typed(folder)
    first.type("sbatch", "--wrap", "sleep 60")
    first.type("sbatch", "--wrap", "sleep 61")
    first.end()
    data = bytearray((folder / "journal").read_bytes())
    at = data.index(b"sleep 60")
    data[at] ^= 1
    (folder / "journal").write_bytes(data)
    with pytest.raises(WorldError, match=r"journal:4: damaged at byte \d+: .*truncate -s"):
        Typed(folder)


def test_a_cluster_keeps_its_configuration(folder: Path) -> None:
    Typed(folder).end()
    with pytest.raises(UserError, match="holds a cluster of another configuration"):
        Typed(folder, texts={"slurm.conf": "NodeName=x CPUs=4\nPartitionName=p Nodes=x\n"})


def test_a_configuration_that_slurm_would_refuse_is_refused_by_line(folder: Path) -> None:
    texts = {"slurm.conf": "ClusterName=c\nNodeName=x CPUs=4\nPartitionName=p Nodes=x AllowUsers=alice,bob\n"}
    with pytest.raises(
        InvalidInput, match=r"slurm.conf:3: allowusers: alice,bob: is no key of PartitionName"
    ):
        Typed(folder, texts=texts)
    assert not (folder / "journal").exists()
    broken = {"slurm.conf": "ClusterName=c\nNodeName=x CPUs=four\nPartitionName=p Nodes=ALL\n"}
    with pytest.raises(
        InvalidInput, match=r"slurm.conf:2: NodeName: x: cannot be read: cpus=four is no number"
    ):
        Typed(folder, texts=broken)
    door = Typed(folder, texts=texts, skip_unknown=True)
    assert "AllowAccounts=ALL" in door.type("scontrol", "show", "partition")[1]
    door.end()


@pytest.mark.parametrize(
    ("user", "words", "want"),
    [
        ("carol", ("scancel", "1"), "scancel: error: Kill job error on job id 1: Access/permission denied\n"),
        ("carol", ("scontrol", "update", "jobid=1", "name=x"), "Invalid user id for job 1\n"),
        ("alice", ("scontrol", "update", "jobid=1", "timelimit=+60"), "Access/permission denied for job 1\n"),
        ("alice", ("scontrol", "suspend", "1"), "Access/permission denied for job 1\n"),
        (
            "dave",
            ("scontrol", "update", "nodename=a01", "state=drain", "reason=x"),
            "slurm_update error: Invalid user id\n",
        ),
        ("alice", ("scontrol", "update", "jobid=1", "timelimit=1"), ""),
        ("dave", ("scontrol", "suspend", "1"), ""),
        ("dave", ("scancel", "1"), ""),
        ("slurm", ("scontrol", "update", "nodename=a01", "state=drain", "reason=x"), ""),
    ],
)
def test_others_jobs_and_nodes_are_for_operators_and_administrators(
    folder: Path, user: str, words: tuple[str, ...], want: str
) -> None:
    door = Typed(folder)
    door.type("sacctmgr", "-i", "add", "user", "dave", "account=prod", "adminlevel=operator")
    door.type("sbatch", "--wrap", "sleep 600", user="alice")
    door.run(5)
    code, _, err = door.type(*words, user=user)
    assert (err, bool(code)) == (want, bool(want))
    door.end()


def test_a_task_of_an_array_is_cancelled_alone(folder: Path) -> None:
    door = Typed(folder)
    door.type("sbatch", "--array=0-3", "--wrap", "sleep 600", user="alice")
    door.run(5)
    assert door.type("scancel", "1", user="bob")[2].count("\n") == 1
    assert door.type("scancel", "1_3", user="alice")[0] == 0
    door.run(5)
    assert sorted(door.type("squeue", "-h", "-o", "%i")[1].split()) == ["1_0", "1_1", "1_2"]
    assert door.type("scancel", "1", user="alice")[0] == 0
    door.run(5)
    assert door.type("squeue", "-h")[1] == ""
    door.end()


def test_a_hint_that_cannot_be_read_is_refused_and_nothing_submitted(folder: Path) -> None:
    door = Typed(folder)
    code, out, err = door.type("sbatch", stdin="#!/bin/sh\n#FAIRWAY runtime=soon\n")
    assert (code, out) == (1, "")
    assert err == (
        "sbatch: error: Invalid #FAIRWAY hint in batch script: runtime=soon: expected a duration such as 90s, 2h or "
        "1-00:00:00\n"
    )
    assert door.type("squeue", "-h")[1] == ""
    door.end()


@pytest.mark.parametrize(
    ("change", "want"),
    [
        ("timelimit=10-00:00:00", "Access/permission denied for job 1\n"),
        ("contiguous=yes", "Access/permission denied for job 1\n"),
        ("admincomment=x", "Access/permission denied for job 1\n"),
        ("nice=-5", "Access/permission denied for job 1\n"),
        ("burstbuffer=x", "Requested operation not supported on this system for job 1\n"),
        ("numnodes=0", "Node count specification invalid for job 1\n"),
        ("starttime=soon", "Invalid time specification (pos=0): soon\nNo changes specified\n"),
        ("nice=5", ""),
        ("switches=1@2", ""),
    ],
)
def test_a_user_changes_what_users_may_of_a_waiting_job(folder: Path, change: str, want: str) -> None:
    door = Typed(folder)
    door.type("sbatch", "-H", "-t", "5", "--wrap", "sleep 600", user="alice")
    before = door.type("scontrol", "show", "job", "1")[1]
    code, _, err = door.type("scontrol", "update", "jobid=1", change, user="alice")
    assert (err, bool(code)) == (want, bool(want))
    assert (door.type("scontrol", "show", "job", "1")[1] == before) is bool(want)
    door.end()


def test_top_gives_a_job_the_first_place_and_the_others_pay_for_it(folder: Path) -> None:
    door = Typed(folder)
    for nice in ("0", "10", "20"):
        door.type("sbatch", "-b", "now+1hour", f"--nice={nice}", "--wrap", "sleep 600", user="alice")
    door.type("sbatch", "-b", "now+1hour", "--wrap", "sleep 600", user="bob")
    first, *_ = door.type("squeue", "-h", "-S", "i", "-o", "%Q")[1].split()
    assert door.type("scontrol", "top", "3")[0] == 0
    most = int(first)
    assert door.type("squeue", "-h", "-S", "i", "-u", "alice", "-o", "%i %Q %y")[1] == (
        f"1 {most - 10} 10\n2 {most - 20} 20\n3 {most} 0\n"
    )
    assert door.type("squeue", "-h", "-u", "bob", "-o", "%y")[1] == "0\n"
    assert door.type("scontrol", "top", "99")[2] == "Invalid job id specified for job 99\n"
    door.end()


def test_waiting_tasks_of_an_array_stand_in_one_line(folder: Path) -> None:
    door = Typed(folder)
    door.type("sbatch", "-H", "--array=1-4%2", "--wrap", "sleep 600", user="alice")
    door.type("scontrol", "update", "jobid=1_2", "timelimit=3", user="alice")
    assert door.type("squeue", "-h", "-o", "%i %r")[1] == "1_[1-4] JobHeldUser\n"
    assert door.type("squeue", "-h", "--array-unique", "-S", "i", "-o", "%i %l")[1].count("\n") == 2
    door.end()


def test_the_last_task_of_an_array_is_that_task(folder: Path) -> None:
    door = Typed(folder)
    door.type("sbatch", "-H", "--array=3,7%1", "--wrap", "sleep 600", user="alice")
    door.type("scontrol", "release", "1", user="alice")
    door.run(5)
    assert sorted(door.type("squeue", "-h", "-o", "%i %t")[1].splitlines()) == ["1_3 R", "1_7 PD"]
    door.end()


def test_a_job_id_is_no_arrays_id(folder: Path) -> None:
    door = Typed(folder)
    door.type("sbatch", "--array=5-6", "--wrap", "sleep 600", user="alice")
    door.run(5)
    task = door.type("squeue", "-h", "-r", "-o", "%A %i")[1].split("\n")
    number = next(line.split()[0] for line in task if line and line.split()[0] != "1")
    assert door.type("scontrol", "hold", f"{number}_5")[2].startswith(f"{number}_5: Invalid job id specified")
    door.type("scancel", f"{number}_5")
    door.run(5)
    assert sorted(door.type("squeue", "-h", "-o", "%i %t")[1].splitlines()) == ["1_5 R", "1_6 R"]
    assert door.type("scontrol", "update", "jobid=1", "nice=1", user="bob")[2] == "1_5-6: Invalid user id\n"
    door.end()


def test_a_signal_does_not_cancel_what_waits(folder: Path) -> None:
    door = Typed(folder)
    door.type("sbatch", "-H", "--wrap", "sleep 600", user="alice")
    code, _, err = door.type("scancel", "-s", "USR1", "1", user="alice")
    assert (bool(code), err.count("try again later")) == (True, 1)
    assert door.type("squeue", "-h", "-o", "%t")[1] == "PD\n"
    door.end()


def test_an_account_that_a_partition_refuses_is_told_so(folder: Path) -> None:
    door = Typed(folder)
    door.type("scontrol", "update", "partitionname=gpu", "allowaccounts=prod")
    door.type("sbatch", "-p", "gpu", "--wrap", "sleep 600", user="alice")
    door.run(5)
    assert door.type("squeue", "-h", "-o", "%r")[1] == (
        "Job's account not permitted to use this partition (gpu allows prod not research)\n"
    )
    door.type("scontrol", "update", "partitionname=gpu", "allowaccounts=all")
    door.run(5)
    assert door.type("squeue", "-h", "-o", "%t")[1] == "R\n"
    door.end()


def test_reports_of_reservations_and_wckeys(folder: Path) -> None:
    door = Typed(folder)
    door.type(
        "scontrol",
        "create",
        "reservation=r",
        "starttime=now",
        "duration=10:00:00",
        "nodes=cpu01",
        "users=alice",
    )
    door.type(
        "sbatch", "-p", "cpu", "--reservation=r", "-n2", "-t", "600", "--wrap", "sleep 36000", user="alice"
    )
    door.run(7200)
    told = door.type(
        "sreport", "-n", "-P", "-t", "hours", "reservation", "utilization", "start=now-3hours", "end=now"
    )[1]
    _, name, _, _, tres, held, idle = told.strip().split("|")
    assert (name, tres) == ("r", "cpu") and int(held) > 0 and int(held) * 6 < int(idle)
    assert door.type("sreport", "cluster", "userutilizationbywckey", user="alice")[2] == (
        "sreport: error: Your user doesn't have privilege to perform this action\n"
        "slurmdb_report_cluster_user_by_wckey: Problem with get query.\n"
    )
    assert "Cluster/User/WCKey Utilization" in door.type("sreport", "cluster", "uw")[1]
    door.end()


def test_multi_prog_reads_its_file_before_anything_is_asked_for(folder: Path) -> None:
    door = Typed(folder)
    file = folder / "programs"
    for text, said in (
        (None, f"srun: error: Could not open multi_prog config file {file}\n"),
        ("0 true\n", f"srun: error: Configuration file {file} invalid, no record for task id 1\n"),
        ("0-5 true\n", "srun: error: Invalid task id, 5 >= ntasks\n"),
    ):
        if text is not None:
            file.write_text(text)
        assert door.type("srun", "-n2", "--multi-prog", str(file), user="alice") == (1, "", said)
    assert door.type("sacct", "-a", "-X", "-n")[1] == ""
    door.end()


# As a process, through its socket


@dataclass
class Served:
    """`fairway slurm up` as a process of its own."""

    folder: Path
    process: subprocess.Popen[bytes] | None = None

    def up(self, *more: str) -> None:
        words = [sys.executable, "-m", "fairway.cli.main", "slurm", "up", str(self.folder), *more]
        log = self.folder.with_name("log")
        with open(log, "wb") as out:
            self.process = subprocess.Popen(words, stdout=out, stderr=out)
        _until(lambda: "serves a Slurm cluster" in log.read_text() or self.process.poll() is not None)
        assert self.process.poll() is None, log.read_text()

    def type(self, *words: str, user: str = "", cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}", "HOME": str(self.folder)}
        if user:
            environment["FAIRWAY_AS"] = user
        return subprocess.run(
            list(words),
            env=environment,
            cwd=cwd or self.folder,
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def end(self, number: int = signal.SIGKILL) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)
            self.process.wait(30)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    one = Served(tmp_path / "cluster")
    try:
        yield one
    finally:
        one.end()


def test_a_kill_while_users_submit_loses_no_job_that_was_told(served: Served) -> None:
    served.up("--speed", "1000")
    told = []
    typing = [
        subprocess.Popen(
            [
                "sh",
                "-c",
                f"for i in 1 2 3 4 5 6 7 8; do {served.folder}/bin/sbatch -J t$i --wrap 'sleep 3600'; done",
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for _ in range(3)
    ]
    assert typing[0].stdout is not None
    told.append(typing[0].stdout.readline())
    served.end()
    for one in typing:
        told += (one.communicate()[0] or "").splitlines(keepends=True)
    served.up()
    ids = {line.split()[-1] for line in told}
    assert ids
    there = set(served.type("sacct", "-X", "-n", "-o", "jobid").stdout.split())
    assert ids <= there
    after = served.type("squeue", "--version")
    assert (after.returncode, after.stdout) == (0, "slurm-wlm 22.05.8\n")


def test_scripts_end_with_their_server_and_their_jobs_run_again(served: Served, tmp_path: Path) -> None:
    served.up()
    script = tmp_path / "train.sh"
    script.write_text(f"#!/bin/bash\nsh -c 'echo $$ >> {tmp_path}/pids; while :; do :; done' &\nwait\n")
    assert served.type("sbatch", "-o", "out", str(script)).stdout == "Submitted batch job 1\n"
    _until(lambda: (tmp_path / "pids").exists() and (tmp_path / "pids").read_text().count("\n") == 1)
    pid = int((tmp_path / "pids").read_text())
    served.end()
    served.up()
    _until(lambda: not _is_alive(pid))
    _until(lambda: "JobState=PENDING" in served.type("scontrol", "show", "job", "1").stdout)
    assert "Restarts=1" in served.type("scontrol", "show", "job", "1").stdout
    assert "NODE_FAIL" in served.type("sacct", "-n", "-X", "-D", "-o", "state").stdout
    assert _fairway("slurm", "advance", "125s", "--data", str(served.folder)).returncode == 0
    _until(lambda: (tmp_path / "pids").read_text().count("\n") == 2)
    assert served.type("scancel", "1").returncode == 0


def test_nobody_else_reaches_it(served: Served) -> None:
    served.up()
    assert stat.S_IMODE(served.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((served.folder / "bin" / "socket").stat().st_mode) == 0o600
    assert stat.S_IMODE((served.folder / "journal").stat().st_mode) == 0o600
    assert served.process is not None
    inodes = {os.readlink(f) for f in Path(f"/proc/{served.process.pid}/fd").iterdir() if f.is_symlink()}
    for table in ("tcp", "tcp6", "udp", "udp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            assert f"socket:[{line.split()[9]}]" not in inodes


def test_the_shell_has_the_commands_and_time_is_moved(served: Served, tmp_path: Path) -> None:
    served.up()
    at = ("--data", str(served.folder))
    done = _fairway(
        "slurm", "shell", *at, "--user", "alice", "sbatch", "--wrap", "sleep 3000; exit 4", cwd=tmp_path
    )
    assert (done.returncode, done.stdout) == (0, "Submitted batch job 1\n")
    assert _fairway("slurm", "advance", "1h", *at).returncode == 0
    asks = "sacct -S now-2hours -a -X -n -P -o user,state,exitcode,elapsed"  # also after midnight
    shown = _fairway("slurm", "shell", *at, "sh", "-c", asks)
    assert shown.stdout == "alice|FAILED|4:0|00:50:00\n"
    assert _fairway("slurm", "shell", *at, "sh", "-c", "exit 7").returncode == 7
    assert "1 ended" in _fairway("slurm", "status", *at).stdout
    late = _fairway("slurm", "advance", "99999999999h", *at)
    assert late.returncode == 2 and "expected at most 3660d at a time" in late.stderr
    wrong = _fairway("slurm", "advance", "soon", *at)
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)
    assert "Traceback" not in wrong.stderr
    assert _fairway("slurm", "down", *at).returncode == 0
    gone = _fairway("slurm", "shell", *at, "squeue")
    assert gone.returncode == 2
    assert "start one with fairway slurm up -d" in gone.stderr
    left = served.type("squeue")
    assert (left.returncode, left.stderr) == (
        1,
        "squeue: error: Unable to contact slurm controller (connect failure)\n",
    )


def test_whoever_leaves_an_srun_frees_what_it_held(served: Served) -> None:
    served.up()
    typed = subprocess.Popen(
        [str(served.folder / "bin" / "srun"), "--gres=gpu:8", "-C", "h100", "sleep", "1000"]
    )
    _until(lambda: " R " in served.type("squeue", "-h").stdout)
    typed.kill()
    typed.wait()
    _until(lambda: "CANCELLED" in served.type("sacct", "-n", "-X", "-o", "state%20").stdout)
    assert served.type("srun", "--gres=gpu:8", "-C", "h100", "echo", "free").stdout == "free\n"


def test_tasks_of_srun_are_dealt_fed_and_ended_as_asked(served: Served, tmp_path: Path) -> None:
    served.up()
    (served.folder / "programs").write_text("0 echo zero\n* echo %t-%o\n")
    echo = ["bash", "-c", "echo $SLURM_PROCID $SLURM_NODEID"]
    for words, want in (  # three CPUs of one node, one of the other
        (["-N2", "-n4", "-c1", "-m", "cyclic", *echo], "0 0,1 1,2 0,3 0"),
        (["-n3", "--multi-prog", "programs"], "1-0,2-1,zero"),
        (["-D", "/", "pwd"], "/"),
        (["--export=NONE", "/bin/sh", "-c", "echo ${HOME-none}"], "none"),
    ):
        typed = served.type("srun", *words)
        assert ",".join(sorted(typed.stdout.split("\n")[:-1])) == want, typed
    both = served.type("bash", "-c", "echo in | srun -n2 cat")
    assert both.stdout == "in\nin\n"
    bad = served.type("srun", "-n2", "-K", "bash", "-c", "[ $SLURM_PROCID = 0 ] && exit 4; /bin/sleep 60")
    assert bad.returncode == 143
    assert "task 0: Exited with exit code 4\n" in bad.stderr and "task 1: Terminated\n" in bad.stderr
    gone = served.type("srun", "/")
    assert (gone.returncode, "execve(): /: Permission denied" in gone.stderr) == (13, True)


def test_what_a_partition_refuses_does_not_start_by_srun(served: Served) -> None:
    served.up()
    served.type("scontrol", "update", "partitionname=gpu", "state=down", user="root")
    typed = served.type("srun", "-I", "-p", "gpu", "true")
    assert (typed.returncode, typed.stderr.count("Partition in DOWN state")) == (1, 1)


def _fairway(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fairway.cli.main", *words],
        check=False,
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=120,
    )


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _until(holds: Callable[[], bool]) -> None:
    for _ in range(3000):
        if holds():
            return
        time.sleep(0.02)
    raise AssertionError("it did not come about within a minute")


def test_assoc_mgr_tells_who_gathers_age_and_counts_a_node_once(folder: Path) -> None:
    door = Typed(folder)
    for words in (("-n2",), ("-n2",), ("--array=1-9%2",), ("-H",), ("--begin=now+1hour",)):
        assert (
            door.type("sbatch", "-p", "cpu", "-t", "9", *words, "--wrap", "sleep 500", user="alice")[0] == 0
        )
    door.run(5)
    out = door.type("scontrol", "-o", "show", "assoc_mgr", "users=alice", "accounts=research")[1]
    held = next(line for line in out.splitlines() if "UserName=alice(" in line and "GrpJobs" in line)
    assert "GrpJobs=N(4) GrpJobsAccrue=N(2) GrpSubmitJobs=N(13)" in held
    nodes = set(door.type("squeue", "-h", "-t", "R", "-o", "%N")[1].split())
    assert len(nodes) == 1 and ",node=N(1)," in held.partition("GrpTRES=")[2].partition(" ")[0]
    (qos,) = [line for line in out.splitlines() if line.startswith("QOS=normal(")]
    assert "GrpJobsAccrue=N(2)" in qos and "MaxJobsAccruePA=N(2)" in qos and "MaxJobsAccruePU=N(2)" in qos
    door.end()


ODD = ("9" * 5_000, "²", "1e400", "1_[1-", "[", "\udcff", "")
TAKES_A_WORD = (
    "scontrol create reservation {}", "scontrol create reservation starttime=now duration=5 nodecnt={} users=root",
    "scontrol update partition=gpu maxnodes={}", "scontrol notify {} x", "scontrol wait_job {}", "scontrol show job {}",
    "scontrol hold {}", "scancel {}", "scancel -s {} 1", "squeue -u {}", "squeue -j {}", "sinfo -n {}", "sacct -j {}",
    "sacctmgr -i add coordinator account={} names=alice", "sacctmgr -i modify account prod set fairshare={}",
    "sacctmgr -i modify account prod set grptres=cpu={}", "sacctmgr -i modify qos normal set priority={}",
    "sacctmgr -i modify qos normal set usagefactor={}", "sacctmgr -i modify qos normal set limitfactor={}",
    "sreport user top topcount={}", "sreport job sizesbyaccount grouping={}", "sprio -j {}", "sstat -j {}",
    "sbatch -N {} --wrap x", "sbatch -n {} --wrap x", "sbatch --array {} --wrap x", "sbatch --priority {} --wrap x",
    "sbatch --nice={} --wrap x", "sbatch --mem {} --wrap x", "sbatch --gres gpu:{} --wrap x", "sbatch -t {} --wrap x",
)  # fmt: skip


def test_no_odd_word_leaves_a_command_without_its_answer(folder: Path) -> None:
    """Numbers of thousands of digits, signs that only look like digits: an answer and an exit code, no exception."""
    door = Typed(folder)
    for line in TAKES_A_WORD:
        for odd in ODD:
            assert door.type(*[word.replace("{}", odd) for word in line.split()])[0] is not None, (
                line,
                odd[:9],
            )
    door.end()


@pytest.mark.parametrize(
    ("words", "want"),
    [
        ("create reservation", "scontrol: error: A start time must be given.  No reservation created.\n"),
        ("add coordinator", " You need to specify conditions to to add the coordinator.\n"),
        ("add coordinator names=alice", " You need to specify an account list here.\n"),
        (
            "add coordinator account=no names=me,alice",
            " You specified a non-existent account 'no'.\n You specified a non-existent user 'me'.\n",
        ),
        (
            "modify qos normal set usagefactor=x",
            "Invalid value for UsageFactor (x)\n You didn't give me anything to set\n",
        ),
    ],
)
def test_what_accounts_cannot_become_is_told(folder: Path, words: str, want: str) -> None:
    door = Typed(folder)
    tool = ["scontrol"] if words.startswith("create") else ["sacctmgr", "-i"]
    assert door.type(*tool, *words.split())[::2] == (1, want)
    door.end()


def test_a_default_account_is_one_the_user_is_in(folder: Path) -> None:
    door = Typed(folder)
    code, out, _ = door.type("sacctmgr", "-i", "modify", "user", "alice", "set", "defaultaccount=prod")
    assert (code, out) == (
        1,
        " Can't modify because these users aren't associated with new default account 'prod'...\n"
        "  U = alice C = fairway\n",
    )
    assert door.server.host.site.cluster.accounts.users["alice"].default_account == "research"
    door.end()
