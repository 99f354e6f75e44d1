"""One server a folder; whoever looks whether there is one keeps none from starting."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from pathlib import Path
from typing import IO

import pytest

from fairway.apiserver.folders import Running, announce, default_folder, is_taken, running, take
from fairway.errors import UserError, WorldError


def test_a_folder_is_held_by_one(tmp_path: Path) -> None:
    assert is_taken(tmp_path) == 0
    with take(tmp_path):
        assert is_taken(tmp_path) == os.getpid()
        with pytest.raises(UserError, match="a server is running on this folder already"):
            take(tmp_path)
    assert is_taken(tmp_path) == 0


def test_a_look_in_progress_is_waited_for(tmp_path: Path) -> None:
    """`fairway status`, or whoever waits for the server to answer, shares the lock while it looks."""
    with open(tmp_path / "lock", "w", encoding="utf-8") as looker:
        fcntl.flock(looker, fcntl.LOCK_SH)
        held: list[IO[str]] = []
        server = threading.Thread(target=lambda: held.append(take(tmp_path)))
        server.start()
        server.join(0.05)
        assert server.is_alive(), "neither refused nor let in while somebody looks"
    server.join(10)
    (lock,) = held
    lock.close()


def test_whoever_waits_sleeps_between_its_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open(tmp_path / "lock", "w", encoding="utf-8") as looker:
        fcntl.flock(looker, fcntl.LOCK_SH)
        slept: list[float] = []

        def sleep(seconds: float) -> None:
            slept.append(seconds)
            if len(slept) == 3:
                fcntl.flock(looker, fcntl.LOCK_UN)

        monkeypatch.setattr(time, "sleep", sleep)
        take(tmp_path).close()
    assert slept == [0.001] * 3


def test_what_is_made_is_its_owners_alone(tmp_path: Path) -> None:
    data = tmp_path / "a" / "b"
    with take(data):
        announce(data, "https://127.0.0.1:1", data / "admin.conf")
        assert data.stat().st_mode & 0o777 == 0o700
        assert {p.name: p.stat().st_mode & 0o777 for p in data.iterdir()} == dict.fromkeys(
            ("lock", "server.json"), 0o600
        )


def test_who_answers_for_a_folder(tmp_path: Path) -> None:
    assert running(tmp_path) is None
    there = Running(os.getpid(), "https://127.0.0.1:1", "/c")
    with take(tmp_path):
        assert running(tmp_path) is None, "it does not answer yet"
        announce(tmp_path, there.url, Path(there.kubeconfig))
        assert running(tmp_path) == there
        with pytest.raises(UserError, match=rf"already at https://127.0.0.1:1 \(pid {os.getpid()}\); see"):
            take(tmp_path)
        announce(tmp_path, "https://127.0.0.1:2", Path(there.kubeconfig))
        found = running(tmp_path)
        assert found is not None and found.url == "https://127.0.0.1:2"
        (tmp_path / "server.json").write_text("{")
        assert running(tmp_path) is None
        (tmp_path / "server.json").write_text("{}")
        assert running(tmp_path) == Running(os.getpid(), "", "")
        announce(tmp_path, there.url, Path(there.kubeconfig))
    assert running(tmp_path) is None, "what it said is left, and it is gone"
    with take(tmp_path):
        assert running(tmp_path) is None, "what the last one said is not said again"
        (tmp_path / "lock").write_text("no number")
        assert is_taken(tmp_path) == -1


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WorldError, match="Not a directory"):
        take(tmp_path / "file" / "data")


def test_where_the_folder_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.delenv("FAIRWAY_DATA", raising=False)
    assert default_folder() == tmp_path / ".local" / "share" / "fairway"
    monkeypatch.setenv("XDG_DATA_HOME", "/x")
    assert default_folder() == Path("/x/fairway")
    monkeypatch.setenv("FAIRWAY_DATA", "/mine")
    assert default_folder() == Path("/mine")
