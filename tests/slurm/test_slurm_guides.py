"""What the guides' readers type at a Slurm cluster, as they type it."""

from __future__ import annotations

import os
import pty
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

TRAIN = """#!/bin/bash
#SBATCH --job-name=train_model
#SBATCH --output=output.log
#SBATCH --partition=gpu
#SBATCH --gres=gpu:1
#SBATCH --cpus-per-task=4
#SBATCH --mem=16G
#SBATCH --time=02:00:00
echo trained on GPU $CUDA_VISIBLE_DEVICES
"""


class Shell:
    """`fairway slurm shell` of a default cluster, in a folder with the guides' scripts."""

    def __init__(self, data: Path, folder: Path) -> None:
        self.data, self.folder = data, folder
        folder.mkdir()
        for name in ("train_model.sh", "script.sh", "run_train.sh"):
            (folder / name).write_text(TRAIN)
        self.environment = os.environ | {"PATH": f"{data / 'bin'}:{os.environ['PATH']}"}

    def __call__(self, line: str) -> str:
        done = subprocess.run(
            shlex.split(line),
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def until(self, line: str, wanted: str) -> str:
        for _ in range(600):
            if re.search(wanted, shown := self(line)):
                return shown
            time.sleep(0.05)
        raise AssertionError(f"{line} never showed {wanted}: {shown}")


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    folder = tmp_path_factory.mktemp("guides")
    fairway = [sys.executable, "-m", "fairway.cli.main", "slurm"]
    subprocess.run([*fairway, "up", "-d", str(folder / "c")], check=True, capture_output=True)
    try:
        yield Shell(folder / "c", folder / "work")
    finally:
        subprocess.run([*fairway, "down", str(folder / "c")], check=True, capture_output=True)


def test_a_job_is_submitted_seen_read_and_accounted_for(shell: Shell) -> None:
    number = re.fullmatch(r"Submitted batch job (\d+)\n", shell("sbatch train_model.sh"))
    assert number is not None
    assert shell("squeue").startswith("             JOBID PARTITION     NAME     USER ST       TIME  NODES")
    shell.until(f"sacct -j {number[1]}", rf"{number[1]} +train_mod\+ +gpu +\S+ +4 +COMPLETED +0:0")
    assert re.fullmatch(r"trained on GPU \d\n", shell("cat output.log"))
    assert re.search(r"gpu\* +up 2-00:00:00 +\d +(idle|mix|comp)", shell("sinfo"))
    assert "JobID" in shell("sacct")


def test_a_job_is_cancelled(shell: Shell) -> None:
    number = shell("sbatch --parsable --wrap 'sleep 600'").strip()
    assert shell(f"scancel {number}") == ""
    shell.until(f"sacct -X -n -j {number} -o state%20", "CANCELLED by")


def test_a_partition_and_an_array(shell: Shell) -> None:
    assert shell("sbatch --partition=gpu-research script.sh").startswith("Submitted batch job ")
    number = shell("sbatch --array=0-9 run_train.sh").split()[-1]
    shell.until(f"sacct -X -n -j {number} -o jobid,state", rf"(?s)({number}_\d +COMPLETED\s+){{10}}")


def test_a_job_is_suspended_resumed_and_shortened_by_root(shell: Shell) -> None:
    number = shell("sbatch --parsable --time=02:00:00 --wrap 'sleep 6000'").strip()
    shell.until(f"squeue -h -j {number} -o %t", "R")
    shell.environment["FAIRWAY_AS"] = "root"
    try:
        shell(f"scontrol suspend {number}")
        assert shell(f"squeue -h -j {number} -o %t") == "S\n"
        shell(f"scontrol resume {number}")
        assert shell(f"squeue -h -j {number} -o %t") == "R\n"
        shell(f"scontrol update jobid={number} TimeLimit=01:00:00")
    finally:
        del shell.environment["FAIRWAY_AS"]
    assert "TimeLimit=01:00:00" in shell(f"scontrol show job {number}")


def test_an_interactive_shell_has_a_gpu_and_a_terminal(shell: Shell) -> None:
    pid, terminal = pty.fork()
    if not pid:
        os.chdir(shell.folder)
        os.execvpe("srun", ["srun", "--gres=gpu:1", "--pty", "bash", "--norc"], shell.environment)
    os.write(terminal, b"test -t 0 && echo gpu-$CUDA_VISIBLE_DEVICES-of-$SLURM_JOB_ID; exit 5\n")
    told = b""
    try:
        while data := os.read(terminal, 4096):
            told += data
    except OSError:  # the terminal's other end has gone
        pass
    assert re.search(rb"gpu-\d-of-\d+\r", told), told
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 5


def test_fields_that_slurm_has_no_more_are_refused_and_todays_are_shown(shell: Shell) -> None:
    user = shell("whoami").strip()
    old = subprocess.run(
        ["sacct", "-u", user, "--format=JobID,Elapsed,ReqGRES,AllocGRES,MaxRSS"],
        env=shell.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (old.returncode, old.stderr) == (1, "sacct: fatal: ReqGRES has been removed, please use ReqTRES\n")
    today = shell(f"sacct -u {user} --format=JobID,Elapsed,ReqTRES,AllocTRES%40,MaxRSS")
    assert "gres/gpu" in today


@pytest.mark.parametrize(
    ("name", "text", "want"),
    [
        (
            "AllowUsers",
            "PartitionName=p Nodes=n1 AllowUsers=alice\n",
            "slurm.conf:2: allowusers: alice: is no key of",
        ),
        (
            "AllowAccounts",
            "PartitionName=p Nodes=n1 Default=YES AllowAccounts=root\nPriorityWeightFairshare=1000\n",
            "",
        ),
    ],
)
def test_configuration_of_the_guides(tmp_path: Path, name: str, text: str, want: str) -> None:
    (tmp_path / "slurm.conf").write_text(
        f"NodeName=n1 CPUs=8 Gres=gpu:1g.5gb:7 RealMemory=1000\n{text}GresTypes=gpu\n"
    )
    (tmp_path / "gres.conf").write_text(
        "NodeName=n1 Name=gpu Type=1g.5gb Count=7 File=/dev/nvidia-caps/nvidia-cap[0-6]\n"
    )
    fairway = [sys.executable, "-m", "fairway.cli.main", "slurm"]
    done = subprocess.run(
        [*fairway, "up", "-d", "--conf", str(tmp_path), str(tmp_path / "c")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, want in done.stderr) == (2 if want else 0, True), done.stderr
    if not want:
        environment = os.environ | {"PATH": f"{tmp_path}/c/bin:{os.environ['PATH']}"}
        shown = subprocess.run(
            ["scontrol", "show", "config"], env=environment, capture_output=True, text=True, check=True
        )
        assert re.search(r"PriorityWeightFairShare += 1000", shown.stdout)
        ran = subprocess.run(
            ["srun", "--gres=gpu:1g.5gb:1", "printenv", "CUDA_VISIBLE_DEVICES"],
            env=environment | {"FAIRWAY_AS": "root"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert ran.stdout == "0\n"
        subprocess.run([*fairway, "down", "--wipe", str(tmp_path / "c")], check=True, capture_output=True)
