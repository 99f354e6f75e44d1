"""A disk without room: nothing is acknowledged that is not on it, the server ends and says why, and goes on later."""

from __future__ import annotations

import errno
import http.client
import json
import os
from pathlib import Path

import pytest
from apiserver_serving import CONFIG_MAPS, config_map, served

from fairway.apiserver import segments


@pytest.mark.parametrize("is_torn", [False, True], ids=["nothing is written", "half of it is"])
def test_a_full_disk_loses_nothing_that_was_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_torn: bool
) -> None:
    real = os.pwrite
    room = [12]

    def pwrite(file: int, data: bytes, at: int) -> int:
        if b"ConfigMap" not in data:
            return real(file, data, at)
        room[0] -= 1
        if room[0] > 0:
            return real(file, data, at)
        if is_torn:
            return real(file, data[: len(data) // 2], at)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with served(tmp_path) as api:
        api.until_ready()
        monkeypatch.setattr(segments.os, "pwrite", pwrite)
        stopping = api.server.ended
        made: list[str] = []
        for i in range(40):
            if stopping.is_set():
                break
            connection = api.connect()
            connection.timeout = 2
            made += _tried(connection, f"c{i}")
        assert stopping.is_set()
        failure = api.server.failure
        assert isinstance(failure, OSError)
        assert ("No space left" in str(failure)) is not is_torn
        monkeypatch.setattr(segments.os, "pwrite", real)
    with served(tmp_path) as api:
        there = {o["metadata"]["name"] for o in api.ask("GET", CONFIG_MAPS)[1]["items"]}
        assert len(made) >= 8
        assert set(made) <= there


def _tried(connection: http.client.HTTPSConnection, name: str) -> list[str]:
    try:
        connection.request(
            "POST", CONFIG_MAPS, json.dumps(config_map(name)), {"Content-Type": "application/json"}
        )
        return [name] if connection.getresponse().status == 201 else []
    except (OSError, http.client.HTTPException):
        return []
    finally:
        connection.close()
