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
