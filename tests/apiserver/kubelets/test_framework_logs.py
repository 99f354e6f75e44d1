"""What frameworks write while they use GPUs."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.apiserver.kubelets.frameworklogs import Run, lines

MINUTE = 60_000_000
START = 1_767_225_600_000_000


def written(
    minutes: float, gpus: int = 1, exit_code: int | None = None, most: int = 10_000, **more: Any
) -> list[str] | None:
    says = {f"fairway.dev/{key.replace('_', '-')}": value for key, value in more.get("says", {}).items()}
    container = {"name": "main", "resources": {"requests": {"nvidia.com/gpu": str(gpus)}}}
    pod = {
        "metadata": {"name": more.get("name", "train-0"), "uid": "u", "annotations": says},
        "spec": {"restartPolicy": more.get("policy", "Never"), "containers": [container]},
    }
    found = lines(Run(pod, container, START, START + round(minutes * MINUTE), exit_code, most))
    if found is None:
        return None
    told = list(found)
    assert [at for at, _ in told] == sorted(at for at, _ in told)
    return [text for _, text in told]


def losses(said: list[str]) -> list[float]:
    return [float(line.partition("'loss': ")[2].partition(",")[0]) for line in said if "'loss'" in line]


def test_training_tells_steps_and_its_loss_falls() -> None:
    said = written(60.5, gpus=8, says={"checkpoint_interval": "20m", "checkpoint_time": "1m"})
    assert said is not None
    assert "NCCL INFO Bootstrap" in said[0]
    assert sum("Init COMPLETE" in line for line in said) == 8
    found = losses(said)
    assert len(found) == 60 and found[-1] < found[0] / 1.1
    assert sum("Saving model checkpoint" in line for line in said) == 3
    assert said == written(60.5, gpus=8, says={"checkpoint_interval": "20m", "checkpoint_time": "1m"})


def test_what_was_read_stays() -> None:
    early, late = written(10.5), written(30.5)
    assert early and late and late[: len(early)] == early


@pytest.mark.parametrize(
    ("exit_code", "last"),
    [(0, "Training completed."), (1, "RuntimeError: exit code 1"), (137, "'step'")],
)
def test_how_it_ends(exit_code: int, last: str) -> None:
    said = written(5.5, exit_code=exit_code)
    assert said is not None and last in said[-1]
    assert ("Traceback (most recent call last):" in said) == (exit_code == 1)


def test_servers_tell_of_requests() -> None:
    said = written(10.5, policy="Always", name="chat")
    assert said is not None and said[2] == "INFO:     Application startup complete."
    assert sum('"POST /v1/chat/completions HTTP/1.1" 200 OK' in line for line in said) == 10


def test_who_else_writes() -> None:
    assert written(5, name="jupyter-ann", policy="Always")
    assert written(5, gpus=0) is None
    assert written(5, says={"gpu_activity": "idle"}) is None
    assert written(5, says={"gpu_activity": "nonsense"}) is not None


def test_the_oldest_lines_of_a_long_run_are_left_out() -> None:
    said = written(60 * 24 * 30, most=100)
    assert said is not None and len(losses(said)) == 100


def told(pod_ip: str = "", started: int = START, **more: Any) -> list[tuple[int, str]]:
    """Each line with its microseconds since the start."""
    container = {"name": "main", "resources": {"requests": {"nvidia.com/gpu": str(more.get("gpus", 2))}}}
    pod = {
        "metadata": {"name": "train-0", "uid": "u", "annotations": more.get("annotations", {})},
        "spec": {"restartPolicy": more.get("policy", "Never"), "containers": [container]},
        "status": {"podIP": pod_ip} if pod_ip else {},
    }
    until = started + round(more.get("minutes", 2.5) * MINUTE)
    found = lines(Run(pod, container, started, until, more.get("exit_code"), 100))
    return [(at - started, text) for at, text in found or ()]


@pytest.mark.parametrize("pod_ip", ["", "10.0.0.7"])
def test_nccl_says_where_it_is_and_each_rank_a_second_later(pod_ip: str) -> None:
    said = told(pod_ip, gpus=3)
    assert said[0] == (0, f"train-0:1:1 [0] NCCL INFO Bootstrap: Using eth0:{pod_ip or '127.0.0.1'}<0>")
    assert said[1][0] == 0 and said[1][1].startswith("train-0:1:1 [0] NCCL INFO NCCL version 2.")
    for rank in range(3):
        at, text = said[2 + rank]
        assert at == 1_000_000 and text.startswith(
            f"train-0:1:{100 + rank} [{rank}] NCCL INFO ncclCommInitRank"
        )
        assert f"rank {rank} nranks 3 cudaDev {rank} - Init COMPLETE" in text
    assert len({text.partition("comm ")[2].partition(" ")[0] for _, text in said[2:5]}) == 3
    assert [at for at, _ in said[5:]] == [MINUTE, 2 * MINUTE]
    assert "'step': 20}" in said[5][1] and "'step': 40}" in said[6][1]
    assert "NCCL" not in told(gpus=1)[0][1]


def test_checkpoints_are_saved_as_often_as_is_said() -> None:
    says = {"fairway.dev/checkpoint-interval": "2m", "fairway.dev/checkpoint-time": "1s"}
    saved = [(at, text) for at, text in told(gpus=1, minutes=6.5, annotations=says) if "Saving" in text]
    assert saved == [
        (n * MINUTE, f"Saving model checkpoint to /checkpoints/checkpoint-{20 * n}") for n in (2, 4, 6)
    ]


@pytest.mark.parametrize("exit_code", [None, 0, 127, 128, 137])
def test_the_last_words_come_with_the_end(exit_code: int | None) -> None:
    said = told(gpus=1, exit_code=exit_code)
    last = said[-1]
    if exit_code == 0:
        assert last == (round(2.5 * MINUTE), "Training completed.")
    elif exit_code == 127:
        assert last == (round(2.5 * MINUTE), "RuntimeError: exit code 127") and len(said) == 2 + 6
    else:
        assert "'step': 40}" in last[1]
    serving = told(policy="Always", exit_code=exit_code)
    assert (serving[-1][1] == "INFO:     Shutting down") is (exit_code is not None)
