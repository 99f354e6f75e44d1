"""The process of a server: how it begins, how it is told to end, and what it says of why it could not go on."""

from __future__ import annotations

import gc
import json
import logging
import os
import resource
import runpy
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from apiserver_serving import served

from fairway.apiserver.__main__ import main
from fairway.apiserver.folders import running
from fairway.apiserver.process import serve
from fairway.apiserver.serving import Server, Settings, _profiles, settings_of
from fairway.apiserver.sparinglog import Sparing
from fairway.errors import WorldError


@pytest.fixture(autouse=True)
def process() -> Iterator[None]:
    """What a server sets for its whole process is set back."""
    thresholds, switch_s = gc.get_threshold(), sys.getswitchinterval()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    gc.set_threshold(*thresholds)
    sys.setswitchinterval(switch_s)
    gc.unfreeze()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_server_runs_until_it_is_told_to_stop(
    tmp_path: Path, number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    raised: list[Any] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (512, 1024))
    monkeypatch.setattr(resource, "setrlimit", lambda _which, limits: raised.append(limits))
    told: list[Any] = []

    def stop(server: Server) -> None:
        found = running(tmp_path)
        told.append((server.url, None if found is None else found.url))
        os.kill(os.getpid(), number)

    assert serve(Settings(data=tmp_path, latency="zero"), stop) == 0
    ((url, announced),) = told
    assert url == announced and running(tmp_path) is None
    assert raised == [(1024, 1024)]
    monkeypatch.undo()


def test_how_a_process_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    monkeypatch.setattr(logging.getLogger(), "level", logging.NOTSET)
    assert serve(Settings(data=tmp_path, latency="zero"), lambda server: server.ended.set()) == 0
    root = logging.getLogger()
    (handler,) = root.handlers
    assert root.level == logging.WARNING
    assert [type(one) for one in handler.filters] == [Sparing]
    record = logging.LogRecord("fairway", logging.ERROR, "f", 1, "hello", None, None)
    assert handler.format(record).endswith(" fairway ERROR hello")


def test_a_server_that_could_not_go_on_says_why(tmp_path: Path) -> None:
    with pytest.raises(WorldError, match=r"^the server stopped: OSError: \[Errno 28\] full$"):
        serve(Settings(data=tmp_path, latency="zero"), lambda server: server._fail(OSError(28, "full")))
    assert running(tmp_path) is None


def test_a_server_whose_components_do_not_come_up_stops(tmp_path: Path) -> None:
    cloud = tmp_path / "cloud.yaml"
    cloud.write_text("cloud: {provider: nobody}", encoding="utf-8")
    with pytest.raises(WorldError, match=r"^the server stopped: .*nobody"):
        serve(Settings(data=tmp_path / "data", latency="zero", cloud=cloud))


def test_settings_are_plain_values(tmp_path: Path) -> None:
    said = {
        "data": str(tmp_path),
        "speed": 2,
        "paused": True,
        "without": ["kueue"],
        "call": ["a:1"],
        "port": 7,
    }
    found = settings_of({**said, "cloud": str(tmp_path / "c"), "history": 5})
    assert found == Settings(
        data=tmp_path,
        speed=2.0,
        paused=True,
        without=("kueue",),
        call=("a:1",),
        port=7,
        cloud=tmp_path / "c",
        history=5,
    )
    assert settings_of({"data": "/x"}) == Settings(data=Path("/x"))


@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")
def test_the_command_ends_with_the_failures_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    data = tmp_path / "file" / "data"
    monkeypatch.setattr(sys, "argv", ["fairway.apiserver", json.dumps({"data": str(data)})])
    for run in (main, lambda: runpy.run_module("fairway.apiserver.__main__", run_name="__main__")):
        try:
            code = run()
        except SystemExit as end:
            code = end.code
        assert code == 3
        assert capsys.readouterr().err == f"fairway: {data}: Not a directory\n"


def test_the_command_serves_until_it_is_told_to_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"data": str(tmp_path), "latency": "zero"}
    monkeypatch.setattr(sys, "argv", ["fairway.apiserver", json.dumps(settings)])
    is_over = threading.Event()

    def stop() -> None:
        while not is_over.wait(0.01):
            if (tmp_path / "server.json").exists():
                os.kill(os.getpid(), signal.SIGTERM)
                return

    watcher = threading.Thread(target=stop)
    watcher.start()
    try:
        assert main() == 0
    finally:
        is_over.set()
        watcher.join(10)


def test_a_port_of_last_time_that_is_taken_gives_way_to_another(tmp_path: Path) -> None:
    with served(tmp_path) as api:
        port = api.server.port
    with socket.create_server(("127.0.0.1", port)), served(tmp_path) as api:
        assert api.server.port not in (0, port) and api.server.url.endswith(f":{api.server.port}")
        assert api.ask("GET", "/livez")[0] == 200


def test_profiles_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{schedulerName: default-scheduler}, {schedulerName: packer}]\n",
        encoding="utf-8",
    )
    found = _profiles(file)
    assert found is not None and [profile.scheduler_name for profile in found] == [
        "default-scheduler",
        "packer",
    ]
    assert _profiles(None) is None
