"""One server a folder; whoever looks whether there is one keeps none from starting."""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path
from typing import IO

import pytest

from fairway.apiserver.folders import is_taken, take
from fairway.errors import UserError


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
