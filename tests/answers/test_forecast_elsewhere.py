"""Futures played elsewhere are the same futures; who cannot play them says so."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.answers.test_forecast_losses import lab

from fairway.answers.forecasting.elsewhere import Answer, Source, play_on, source_of
from fairway.answers.forecasting.forecast import Options, asked
from fairway.answers.forecasting.futures import Question, play_all
from fairway.cli.main import main
from fairway.errors import UserError, WorldError
from fairway.ground import open_ground
from fairway.kube.timestamps import HOUR_US

OPTIONS = Options(futures=12, processes=1, horizon_us=4 * HOUR_US)


def question(folder: Path, at: str) -> tuple[Question, Source]:
    lab(folder)
    return asked(open_ground(folder), at, OPTIONS).question, source_of(str(folder), at, OPTIONS)


class Silent(Executor):
    """Takes everything and answers nothing, or the same failure."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.given: list[Future[Answer]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        task: Future[Answer] = Future()
        if self.failure is not None:
            task.set_exception(self.failure)
        self.given.append(task)
        return task


def test_another_executor_plays_the_same_futures(tmp_path: Path) -> None:
    here, source = question(tmp_path, "10h")
    told: list[tuple[int, int]] = []
    with ThreadPoolExecutor(1) as executor:
        there = play_on(executor, source, here, 12, progress=lambda done, of: told.append((done, of)))
    alone = play_all(here, 12, processes=1)
    assert np.array_equal(there.start_s, alone.start_s) and np.array_equal(there.finish_s, alone.finish_s)
    assert np.array_equal(there.held, alone.held) and there.start_s.shape == (12, len(here.situation.items))
    assert told[-1] == (12, 12)


def test_a_worker_that_sees_another_cluster_is_refused(tmp_path: Path) -> None:
    here, _ = question(tmp_path, "10h")
    _, other = question(tmp_path, "11h")
    with ThreadPoolExecutor(1) as executor, pytest.raises(WorldError, match="another cluster"):
        play_on(executor, other, here, 4)


def test_a_worker_that_fails_or_never_answers_ends_it(tmp_path: Path) -> None:
    here, source = question(tmp_path, "10h")
    with pytest.raises(WorldError, match="a worker failed: no module named fairway"):
        play_on(Silent(ModuleNotFoundError("no module named fairway")), source, here, 4)
    silent = Silent()
    with pytest.raises(WorldError, match="0 came back, and none for"):
        play_on(silent, source, here, 20, patience_s=0.01)
    assert len(silent.given) == 3 and all(task.cancelled() for task in silent.given)


def test_a_ground_that_is_no_path_cannot_be_sent() -> None:
    with pytest.raises(UserError, match="a path that its workers can open"):
        source_of("my-context", None, OPTIONS)


def test_without_ray_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lab(tmp_path)
    monkeypatch.setattr("fairway.extras.have", lambda module: False)
    on = ["forecast", "--on", str(tmp_path), "--at", "10h", "--futures", "2", "--horizon", "1h"]
    assert main([*on, "--executor", "ray"]) == 3
    assert "pip install 'fairway[ray]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--executor", "dask"], "expected processes, ray or ray://HOST:PORT"),
        (["--executor", "ray", "--backtest"], "not with --backtest"),
    ],
)
def test_where_futures_run_is_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    lab(tmp_path)
    assert main(["forecast", "--on", str(tmp_path), *arguments]) == 2
    assert said in capsys.readouterr().err
