"""A server that stops: who is told, what is written, and that nothing of it goes on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from apiserver_serving import CONFIG_MAPS, Served, config_map, served


def test_nothing_goes_on_and_all_is_written(tmp_path: Path) -> None:
    with served(tmp_path) as api:
        api.until_ready()
        watching = api.connect()
        watching.request("GET", f"{CONFIG_MAPS}?watch=1&resourceVersion=0&timeoutSeconds=30")
        events = watching.getresponse()
        assert b"ADDED" in events.readline()
        assert api.ask("POST", CONFIG_MAPS, config_map("last"))[0] == 201
        server = api.server
        pump, tasks = server.api.cluster.pump, list(server._tasks)
        assert pump is not None and tasks
    assert events.read().endswith(b"\n"), "a watch ends as an answer does"
    watching.close()
    assert server.ended.is_set() and server.failure is None
    assert pump.is_stopped and all(task.done() for task in tasks)
    assert server.api.journal.waiting == 0 and server._lock is None
    with pytest.raises(OSError):
        api.ask("GET", "/version")
    with served(tmp_path) as again:
        assert again.ask("GET", f"{CONFIG_MAPS}/last")[0] == 200


def test_a_server_that_failed_writes_no_more(tmp_path: Path) -> None:
    with served(tmp_path) as api:
        api.until_ready()
        failure = OSError("no space left")

        async def failing() -> None:
            api.server._fail(failure)
            await api.server.ended.wait()

        asyncio.run_coroutine_threadsafe(failing(), api.loop).result(20)
        server = api.server
        closed: list[str] = []
        server.api.journal.close = lambda: closed.append("journal")  # type: ignore[method-assign]
    assert server.failure is failure and closed == []


def _kept(api: Served) -> int:
    return len(api.server._connections)


def test_connections_that_wait_are_closed(tmp_path: Path) -> None:
    with served(tmp_path) as api:
        api.until_ready()
        idle = api.connect()
        idle.request("GET", "/version")
        idle.getresponse().read()
        assert _kept(api) == 1
        server = api.server
    assert not server._connections
    with pytest.raises(OSError):
        idle.request("GET", "/version")
        idle.getresponse()
