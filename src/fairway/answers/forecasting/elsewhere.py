"""Futures on a Ray cluster: who plays them, and do they play the same?

Nothing of a cluster is sent: a worker opens the same path, asks the same question, and says by a digest which one it
was. Another digest (a cluster that went on meanwhile, other files, another version of Fairway) ends it with an error;
equal ones make equal numbers, as every future has its own seed. So the path must be there for the workers, as on a file
system that they share, and so must Fairway.

The executor is one of the standard library's: whatever else implements `concurrent.futures.Executor` will do.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from threading import Thread
from typing import Any, Final

from fairway.answers.forecasting.forecast import Options, asked
from fairway.answers.forecasting.futures import Futures, Progressing, Question, gathered
from fairway.answers.forecasting.situation import Played
from fairway.errors import FairwayError, UserError, WorldError
from fairway.extras import need
from fairway.ground import open_ground

RAY: Final = "ray"
_CONNECT_S: Final = 60.0
PATIENCE_S: Final = 900.0
"""So long nothing may come back: a worker plays the cluster up to the moment before its first future."""
_CHUNK: Final = 8
"""Futures of a task, at most."""

Answer = tuple[str, dict[int, Played]]
"""The digest of the question, and futures by number."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a question comes from: enough to ask it again."""

    path: str
    at: str | None
    options: Options


_known: dict[Source, tuple[Question, str]] = {}
"""The last question of this worker."""


def play_of(source: Source, first: int, last: int) -> Answer:
    """What a worker does: futures `first` to `last` (exclusive) of the question."""
    found = _known.get(source)
    if found is None:
        question = asked(open_ground(Path(source.path)), source.at, source.options).question
        _known.clear()
        found = _known[source] = question, digest_of(question)
    question, digest = found
    return digest, {number: question.one(number) for number in range(first, last)}


def digest_of(question: Question) -> str:
    """Of what decides the futures."""
    state = blake2b(digest_size=16)
    state.update(
        f"{question.situation.now_us} {question.seed} {question.horizon_us} {question.losses}".encode()
    )
    for item in question.situation.items:
        state.update(f"{item.object} {item.uid} {item.since_us} {item.ask} {item.limit_us}".encode())
    for job, run_us in zip(question.arrivals.jobs, question.runs.of_arrivals, strict=True):
        state.update(f"{job.object} {job.ask.submit_us} {run_us}".encode())
    return state.hexdigest()


def source_of(path: str, at: str | None, options: Options) -> Source:
    """Raises: UserError where the ground is not a path."""
    if not Path(path).exists():
        raise UserError(f"{path}: futures on a Ray cluster need a path that its workers can open")
    return Source(str(Path(path).resolve()), at, replace(options, processes=1))


def play_on(
    executor: Executor,
    source: Source,
    question: Question,
    count: int,
    *,
    progress: Progressing | None = None,
    patience_s: float = PATIENCE_S,
) -> Futures:
    """Raises: WorldError where a worker cannot play, plays something else, or nothing comes back for too long."""
    expected, found = digest_of(question), dict[int, Played]()
    tasks: set[Future[Answer]] = {
        executor.submit(play_of, source, first, min(first + _CHUNK, count))
        for first in range(0, count, _CHUNK)
    }
    try:
        while tasks:
            done, tasks = wait(tasks, patience_s, FIRST_COMPLETED)
            if not done:
                raise WorldError(
                    f"Ray: of {count} futures {len(found)} came back, and none for {patience_s:g} s: "
                    "are there free CPUs, and can the workers read the path?"
                )
            for task in done:
                digest, played = _result(task)
                if digest != expected:
                    raise WorldError(
                        f"Ray: a worker found another cluster at {source.path}: its state went on meanwhile, its files "
                        "differ, or its Fairway is another version"
                    )
                found.update(played)
            if progress is not None:
                progress(len(found), count)
    finally:
        for task in tasks:
            task.cancel()
    return gathered([found[number] for number in range(count)])


def _result(task: Future[Answer]) -> Answer:
    try:
        return task.result()
    except FairwayError:
        raise
    except Exception as failed:
        said = str(failed).strip().splitlines() or [type(failed).__name__]
        raise WorldError(f"Ray: a worker failed: {said[-1][:300]}") from failed


class RayExecutor(Executor):
    """Tasks of a Ray cluster, one CPU each."""

    def __init__(self, address: str = "") -> None:
        """`address`: RAY_ADDRESS's, or of the cluster on this machine, where it is empty.

        Raises: WorldError where ray is not installed or nothing answers there.
        """
        self._ray: Any = need("ray")
        address = address or os.environ.get("RAY_ADDRESS", "") or "auto"
        _within(_CONNECT_S, address, lambda: self._connect(address))

    def _connect(self, address: str) -> None:
        self._ray.init(address=address, log_to_driver=False, logging_level="ERROR", ignore_reinit_error=True)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        found: Future[Any] = self._ray.remote(max_retries=2)(fn).remote(*args, **kwargs).future()
        return found

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._ray.shutdown()


def _within(seconds: float, address: str, connect: Callable[[], None]) -> None:
    """A client that finds nobody tries for minutes; nobody waits for it."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            connect()
        except BaseException as wrong:
            failed.append(wrong)

    thread = Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if not thread.is_alive() and not failed:
        return
    why = f"nothing answered within {seconds:g} s" if thread.is_alive() else ""
    if failed:
        with suppress(IndexError):
            why = str(failed[0]).strip().splitlines()[0][:200]
    raise WorldError(
        f"Ray at {address}: {why}: expected a running cluster (`ray start --head`, or RAY_ADDRESS)"
    )
