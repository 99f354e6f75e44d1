"""What do frameworks write while they use GPUs? Steps and losses, NCCL's start, servers' requests, tracebacks.

Lines of a run that asks for GPUs, by what it does with them (`telemetry.gpus.kinds`): as PyTorch's trainers, NCCL, vLLM
and uvicorn word them. Losses fall as a power of the steps; everything follows from the pod and the time, so that it is
the same whenever it is read. At most one line a minute, besides checkpoints.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final, NamedTuple

from fairway.apiserver.kubelets.interface import Line
from fairway.cluster.gpurequests import DEFAULT_GPUS
from fairway.kube.objects import Obj, annotations_of, controller_of, meta_of, name_of, spec_of, status_of
from fairway.kube.podrequests import container_requests
from fairway.kube.timestamps import MINUTE_US, SECOND_US
from fairway.telemetry.gpus.fleet import stable
from fairway.telemetry.gpus.kinds import NOTEBOOK, SERVING, TRAINING, Activity, guess
from fairway.twin.behaviour import Behaviour, BehaviourError, behaviour_of, said

_STEPS_A_MINUTE: Final = 20
# Programs of frameworks, in a command that names one; what an image runs by itself is taken to be one.
_FRAMEWORK: Final = re.compile(
    r"python|torchrun|accelerate|deepspeed|mpirun|vllm|triton|sglang|ollama|jupyter|train|serve"
)
_NCCL: Final = "2.27.3+cuda12.9"


class Run(NamedTuple):
    """One run of a container. `finished_us`, `exit_code` None: it goes on."""

    pod: Obj
    container: Obj
    started_us: int
    until_us: int
    exit_code: int | None
    most: int
    """Minutes that are told at most: the last ones."""


def lines(run: Run) -> Iterator[Line] | None:
    """None for a container without GPUs, a command that is no framework's, and work that writes nothing of its own."""
    gpus = DEFAULT_GPUS.units(container_requests(run.container))
    command, args = (" ".join(map(str, run.container.get(name) or ())) for name in ("command", "args"))
    if not gpus or (command and not _FRAMEWORK.search(f"{command} {args}")):
        return None
    behaviour = _behaviour(run)
    told = behaviour.gpu_activity if behaviour is not None else None
    by = controller_of(run.pod) or {}
    serves = spec_of(run.pod).get("restartPolicy", "Always") == "Always"
    kind = (told or Activity(guess(str(by.get("kind") or ""), name_of(run.pod), is_serving=serves))).kind
    if kind == TRAINING:
        return _training(run, gpus, behaviour)
    if kind == SERVING:
        return _serving(run)
    return _notebook(run) if kind == NOTEBOOK else None


def _behaviour(run: Run) -> Behaviour | None:
    try:
        policy = str(spec_of(run.pod).get("restartPolicy") or "Always")
        return behaviour_of(run.container, policy, said(annotations_of(run.pod)))
    except BehaviourError:
        return None


def _training(run: Run, gpus: int, behaviour: Behaviour | None) -> Iterator[Line]:
    seed, at_us = stable(str(meta_of(run.pod).get("uid"))), run.started_us
    host = name_of(run.pod)
    if gpus > 1:
        address = status_of(run.pod).get("podIP") or "127.0.0.1"
        yield at_us, f"{host}:1:1 [0] NCCL INFO Bootstrap: Using eth0:{address}<0>"
        yield at_us, f"{host}:1:1 [0] NCCL INFO NCCL version {_NCCL}"
        for rank in range(gpus):
            words = f"comm 0x{seed:08x}{rank:02x}0 rank {rank} nranks {gpus} cudaDev {rank} - Init COMPLETE"
            yield (
                at_us + SECOND_US,
                f"{host}:1:{100 + rank} [{rank}] NCCL INFO ncclCommInitRankConfig {words}",
            )
    every_us = behaviour.checkpoint_interval_us if behaviour is not None else 0
    for minute in _minutes(run):
        now_us = at_us + minute * MINUTE_US
        step = minute * _STEPS_A_MINUTE
        loss = 1.7 + 9.2 * (step + 40) ** -0.45 + 0.02 * (stable(f"{seed}/{minute}") % 1000 / 500 - 1)
        yield now_us, f"{{'loss': {loss:.4f}, 'grad_norm': {0.3 + loss / 9:.4f}, 'step': {step}}}"
        if every_us and (minute * MINUTE_US) // every_us > ((minute - 1) * MINUTE_US) // every_us:
            yield now_us, f"Saving model checkpoint to /checkpoints/checkpoint-{step}"
    yield from _ending(run)


def _ending(run: Run) -> Iterator[Line]:
    """A failure of its own leaves a traceback; who is killed writes nothing."""
    if run.exit_code is None or run.exit_code >= 128:
        return
    if run.exit_code == 0:
        yield run.until_us, "Training completed."
        return
    for line in (
        "Traceback (most recent call last):",
        '  File "/workspace/train.py", line 214, in <module>',
        "    main()",
        '  File "/workspace/train.py", line 168, in main',
        "    loss = train_step(model, batch)",
        f"RuntimeError: exit code {run.exit_code}",
    ):
        yield run.until_us, line


def _serving(run: Run) -> Iterator[Line]:
    at_us, seed = run.started_us, stable(str(meta_of(run.pod).get("uid")))
    yield at_us, "INFO:     Started server process [1]"
    yield at_us, "INFO:     Waiting for application startup."
    yield at_us, "INFO:     Application startup complete."
    for minute in _minutes(run):
        now_us = at_us + minute * MINUTE_US
        drawn = stable(f"{seed}/{minute}")
        peer = f"10.0.{drawn % 8}.{2 + drawn // 8 % 240}:{32768 + drawn % 28000}"
        yield now_us, f'INFO:     {peer} - "POST /v1/chat/completions HTTP/1.1" 200 OK'
        stamp = datetime.fromtimestamp(now_us // SECOND_US, UTC).strftime("%m-%d %H:%M:%S")
        prompts, answers = drawn % 4000 / 10, drawn % 900 / 10
        speeds = (
            f"prompt throughput: {prompts:.1f} tokens/s, Avg generation throughput: {answers:.1f} tokens/s"
        )
        yield now_us, f"INFO {stamp} [loggers.py:118] Engine 000: Avg {speeds}, Running: {drawn % 4} reqs"
    if run.exit_code is not None:
        yield run.until_us, "INFO:     Shutting down"


def _notebook(run: Run) -> Iterator[Line]:
    stamp = datetime.fromtimestamp(run.started_us // SECOND_US, UTC).strftime("%Y-%m-%d %H:%M:%S.000")
    yield run.started_us, f"[I {stamp} ServerApp] Serving notebooks from local directory: /home/jovyan"
    yield run.started_us, f"[I {stamp} ServerApp] Jupyter Server 2.16.0 is running at:"


def _minutes(run: Run) -> range:
    whole = max(run.until_us - run.started_us - 1, 0) // MINUTE_US
    return range(max(1, whole - run.most + 1), whole + 1)
