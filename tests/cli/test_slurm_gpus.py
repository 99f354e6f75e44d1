"""nvidia-smi within jobs of a served Slurm cluster: which GPUs, of which model, how busy; and where there is none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fairway.cli.slurmgpus import shown
from fairway.slurm.commands.call import Call
from fairway.slurm.serving.connections import Kept
from fairway.slurm.serving.server import Server

CONF = """ClusterName=x
GresTypes=gpu
SelectType=select/cons_tres
NodeName=n1 CPUs=8 RealMemory=8000 Gres=gpu:h100:4
NodeName=n2 CPUs=8 RealMemory=8000 Gres=gpu:1g.10gb:7 Feature=h100
NodeName=n3 CPUs=8 RealMemory=8000
NodeName=n4 CPUs=8 RealMemory=8000 Gres=gpu:mystery:2
PartitionName=p Nodes=ALL Default=YES
"""
ASK = ["--query-gpu=index,name,utilization.gpu,memory.total", "--format=csv,noheader"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    one = Server(tmp_path_factory.mktemp("gpus"), {"slurm.conf": CONF}, paused=True, gpus=shown)
    one.start()
    yield one
    one.host.record = None
    one.host.close()
    one.journal.close()


def submitted(server: Server, *words: str, hint: str = "runtime=2h gpu=80") -> dict[str, str]:
    """A job that runs; the variables its step finds."""
    site = server.host.site
    call = Call(site, "sbatch", ["--parsable", "-o", "/dev/null", *words], {"HOME": "/"}, "root", "/")
    connection = Kept(None)
    server.host.answer(connection, call, f"#!/bin/sh\n#FAIRWAY {hint}\n")
    job = next(one["out"].strip() for one in connection.said if one.get("out"))
    server._move(server.host.now_us + 5_000_000)
    return {"SLURM_JOB_ID": job, "SLURMD_NODENAME": site.cluster.jobs[int(job)].nodes[0]}


def test_a_step_sees_its_own_gpus_as_busy_as_its_script_says(server: Server) -> None:
    first = submitted(server, "-w", "n1", "--gres=gpu:1")
    second = submitted(server, "-w", "n1", "--gres=gpu:2", hint="runtime=2h")
    site = server.host.site
    assert shown(site, first, ASK) == ("0, NVIDIA H100 80GB HBM3, 80 %, 81559 MiB\n", 0)
    idle = "{}, NVIDIA H100 80GB HBM3, 0 %, 81559 MiB\n"
    assert shown(site, second, ASK) == (idle.format(0) + idle.format(1), 0)
    one_of_them = shown(site, second | {"SLURM_STEP_GPUS": "2"}, ["-L"])[0]
    assert one_of_them in shown(site, second, ["-L"])[0].replace("GPU 1:", "GPU 0:")
    assert shown(site, first | {"SLURM_STEP_GPUS": "1,2,3"}, ["-L"]) == (
        "No devices were found\n",
        6,
    )  # others'
    assert shown(site, first, ["--nonsense"])[1] == 2


def test_slices_and_cards_that_nobody_knows(server: Server) -> None:
    slices = submitted(server, "-w", "n2", "--gres=gpu:1g.10gb:2")
    told = shown(server.host.site, slices, ["-L"])[0].splitlines()
    assert [line.split(" (")[0].strip() for line in told] == [
        "GPU 0: NVIDIA H100 80GB HBM3",
        "MIG 1g.10gb     Device  0:",
        "MIG 1g.10gb     Device  1:",
    ]
    strange = submitted(server, "-w", "n4", "--gres=gpu:1")
    assert shown(server.host.site, strange, ["-L"])[0].startswith("GPU 0: mystery (UUID: GPU-")


@pytest.mark.parametrize(
    ("words", "want"),
    [
        (("-w", "n1"), ("No devices were found\n", 6)),
        (("-w", "n3"), ("nvidia-smi: command not found\n", 127)),
    ],
)
def test_without_gpus(server: Server, words: tuple[str, ...], want: tuple[str, int]) -> None:
    assert shown(server.host.site, submitted(server, *words), []) == want


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"SLURM_JOB_ID": "9" * 5000, "SLURMD_NODENAME": "n1"},
        {"SLURM_JOB_ID": "1", "SLURMD_NODENAME": "n9"},
    ],
)
def test_outside_of_jobs_there_is_none(server: Server, environment: dict[str, str]) -> None:
    assert shown(server.host.site, environment, [])[1] == 127


def test_it_is_asked_at_the_socket(server: Server, tmp_path: Path) -> None:
    """A client tells its variables as they are; nothing of it is recorded."""
    connection, size = Kept(None), server.journal.path.stat().st_size
    asked = {"name": "nvidia-smi", "arguments": ["-L"], "environment": {}, "cwd": str(tmp_path)}
    server.host._request(connection, asked)
    assert connection.said == [{"err": "nvidia-smi: command not found\n", "exit": 127}]
    assert server.journal.path.stat().st_size == size
    assert (server.host.bin / "jobs" / "nvidia-smi").is_symlink()
