"""What scripts say they do, and how processes of jobs are watched."""

from __future__ import annotations

import os
import socket
import time

import pytest

from fairway.slurm.behaviours import BadHint, Known, hints, known
from fairway.slurm.serving.connections import Connection
from fairway.slurm.serving.processes import Processes


@pytest.mark.parametrize(
    ("script", "want"),
    [
        ("#!/bin/sh\nsleep 600\n", Known(600)),
        ("#!/bin/bash\n#SBATCH -t 5\nset -e\nsleep 2m; exit 3\n", Known(120, 3)),
        ("#!/bin/sh\ntrue\n", Known(0)),
        ("#!/bin/sh\nsleep $N\n", None),
        ("#!/usr/bin/env python3\nexit\n", None),
        ("#!/bin/bash\n#FAIRWAY runtime=2h exit=1 gpu=80%\npython train.py\n", Known(7200, 1, 80)),
        ("#!/bin/bash\n#FAIRWAY runtime=1-00:00:00\npython train.py\n", Known(86400)),
    ],
)
def test_what_a_script_will_do(script: str, want: Known | None) -> None:
    assert known(script) == want


@pytest.mark.parametrize("line", ["runtime=soon", "exit=900", "gpu=lots", "speed=3", "runtime"])
def test_hints_that_cannot_be_read(line: str) -> None:
    with pytest.raises(BadHint):
        hints(f"#!/bin/sh\n#FAIRWAY {line}\n")


def test_a_process_that_sleeps_waits_and_one_that_computes_does_not() -> None:
    processes = Processes()
    null = os.open(os.devnull, os.O_RDWR)
    try:
        processes.start(1, ["sleep", "60"], dict(os.environ), "/", (null, null, null))
        until = time.monotonic() + 10
        while processes.are_busy({}) and time.monotonic() < until:
            time.sleep(0.01)
        assert not processes.are_busy({})
        processes.start(2, ["sh", "-c", "while :; do :; done"], dict(os.environ), "/", (null, null, null))
        while not processes.are_busy({}) and time.monotonic() < until:
            time.sleep(0.01)
        assert processes.are_busy({})
        processes.signal(2, 9)
        while not (ended := processes.ended()) and time.monotonic() < until:
            time.sleep(0.01)
        assert [(of, status & 0x7F) for _, of, status in ended] == [(2, 9)]
    finally:
        processes.kill_all()
        os.close(null)
    assert not processes.live


def test_a_client_waits_from_its_question_until_it_is_told_what_to_do() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        client = Connection(ours, waits=True)
        client.send(out="Granted\n")
        assert client.waits
        for turn in ({"run": []}, {"need": "stdin"}, {"out": "", "exit": 0}):
            client.waits = True
            client.send(**turn)
            assert not client.waits
        assert not Connection(ours).waits  # it has connected, and asked nothing yet
