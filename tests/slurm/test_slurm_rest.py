"""slurmrestd's API: tokens, what clients read, submit and cancel, and what is refused."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slurmtyped import Typed

from fairway.slurm.commands import tokens
from fairway.slurm.serving.rest import answer

SUBMIT = {
    "script": "#!/bin/bash\nsleep 600\n",
    "job": {
        "name": "rest",
        "environment": {"PATH": "/usr/bin:/bin"},
        "current_working_directory": "/",
        "standard_output": "/dev/null",
        "tres_per_node": "gpu:2",
        "cpus_per_task": 4,
        "time_limit": 30,
        "nodes": [1, 1],
    },
}


class Rest:
    """Requests to a cluster in this process."""

    def __init__(self, folder: Path) -> None:
        self.door = Typed(folder)
        self.now = self.door.server.host.site.controller.now

    def token(self, user: str) -> str:
        return self.door.type("scontrol", "token", user=user)[1].removeprefix("SLURM_JWT=").strip()

    def __call__(self, method: str, path: str, body: Any = None, user: str = "alice", **headers: str) -> Any:
        told = {"X-SLURM-USER-NAME": user, "X-SLURM-USER-TOKEN": self.token(user)} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        message = {
            "method": method,
            "path": path,
            "headers": told,
            "body": "" if body is None else json.dumps(body),
        }
        server = self.door.server
        return answer(message, server.host.site.token_key, server.rest_call, server.rest_run)


@pytest.fixture
def rest(tmp_path: Path) -> Iterator[Rest]:
    one = Rest(tmp_path)
    yield one
    one.door.end()


def test_a_job_is_submitted_read_changed_and_cancelled(rest: Rest) -> None:
    status, body = rest("POST", "/slurm/v0.0.38/job/submit", SUBMIT)
    assert (status, body["job_id"], body["errors"]) == (200, 1, [])
    rest.door.run(5)
    job = rest("GET", "/slurm/v0.0.38/job/1")[1]["jobs"][0]
    assert (job["name"], job["job_state"], job["user_name"], job["time_limit"]) == (
        "rest",
        "RUNNING",
        "alice",
        30,
    )
    assert "gres/gpu=2" in job["tres_alloc_str"]
    assert rest("POST", "/slurm/v0.0.38/job/1", {"time_limit": 20})[0] == 200
    assert rest("GET", "/slurm/v0.0.38/jobs")[1]["jobs"][0]["time_limit"] == 20
    assert (
        rest("DELETE", "/slurm/v0.0.38/job/1", user="carol")[1]["errors"][0]["error"]
        == "Access/permission denied"
    )
    assert rest("DELETE", "/slurm/v0.0.38/job/1")[0] == 200
    rest.door.run(60)
    ended = rest("GET", "/slurmdb/v0.0.38/jobs")[1]["jobs"]
    assert [job["job_state"] for job in ended] == ["CANCELLED"]
    assert rest("GET", "/slurmdb/v0.0.38/jobs", user="carol")[1]["jobs"] == []


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("/slurm/v0.0.38/ping", "pings"),
        ("/slurm/v0.0.38/diag", "statistics"),
        ("/slurm/v0.0.38/nodes", "nodes"),
        ("/slurm/v0.0.38/node/gpu01", "nodes"),
        ("/slurm/v0.0.38/partitions", "partitions"),
        ("/slurm/v0.0.38/partition/gpu", "partitions"),
        ("/slurm/v0.0.38/reservations", "reservations"),
        ("/slurmdb/v0.0.38/accounts", "accounts"),
        ("/slurmdb/v0.0.38/users", "users"),
        ("/slurmdb/v0.0.38/user/alice", "users"),
        ("/slurmdb/v0.0.38/associations", "associations"),
        ("/slurmdb/v0.0.38/qos", "QOS"),
    ],
)
def test_what_can_be_read(rest: Rest, path: str, key: str) -> None:
    rest.door.type(
        "scontrol", "create", "reservation", "starttime=now+60", "duration=60", "nodes=gpu02", "users=alice"
    )
    status, body = rest("GET", path)
    assert status == 200
    assert body["errors"] == []
    assert body[key]
    assert json.loads(json.dumps(body)) == body


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "said"),
    [
        ("GET", "/slurm/v0.0.38/nothing", None, 404, "Unable find requested URL"),
        ("POST", "/slurm/v0.0.38/ping", {}, 405, "method is not defined"),
        ("GET", "/slurm/v0.0.38/job/99", None, 500, "Invalid job id specified"),
        ("GET", "/slurm/v0.0.38/node/x", None, 500, "Invalid node name specified"),
        ("POST", "/slurm/v0.0.38/job/submit", [], 400, "Empty or wrong request body"),
        (
            "POST",
            "/slurm/v0.0.38/job/submit",
            {"script": "#!/bin/sh\n", "job": {}},
            500,
            "environment must be set",
        ),
        (
            "POST",
            "/slurm/v0.0.38/job/submit",
            {"script": "x", "job": {"environment": {"A": "b"}}},
            500,
            "batch script",
        ),
        (
            "POST",
            "/slurm/v0.0.38/job/submit",
            {"script": "#!/bin/sh\n", "job": {"environment": {"A": "b"}, "partition": "no"}},
            500,
            "Invalid partition name specified",
        ),
        (
            "POST",
            "/slurm/v0.0.38/job/submit",
            {"script": "#!/bin/sh\n", "job": {"environment": {"A": "b"}, "wrap": "no"}},
            500,
            "wrap: is no field",
        ),
    ],
)
def test_what_is_refused(rest: Rest, method: str, path: str, body: Any, status: int, said: str) -> None:
    got, told = rest(method, path, body)
    assert got == status
    assert said in json.dumps(told)
    assert rest("GET", "/slurm/v0.0.38/jobs")[1]["jobs"] == []


def test_who_asks_is_known_by_the_token(rest: Rest) -> None:
    refused = (401, "Authentication failure")
    assert rest("GET", "/slurm/v0.0.38/ping", X_SLURM_USER_TOKEN="") == refused
    assert rest("GET", "/slurm/v0.0.38/ping", X_SLURM_USER_TOKEN=rest.token("carol")) == refused
    assert rest("GET", "/slurm/v0.0.38/ping", X_SLURM_USER_TOKEN=rest.token("root"))[0] == 200
    assert (
        rest("GET", "/slurm/v0.0.38/ping", X_SLURM_USER_TOKEN=tokens.make(b"other", "alice", rest.now, 99))
        == refused
    )
    old = rest.token("alice")
    rest.door.run(1801)
    assert rest("GET", "/slurm/v0.0.38/ping", X_SLURM_USER_TOKEN=old) == refused
    assert rest.door.type("scontrol", "token", "username=carol", user="alice") == (
        1,
        "",
        "Error fetching token\n",
    )
    assert rest.door.type("scontrol", "token", "username=carol", "lifespan=9")[0] == 0


@given(st.text(max_size=60), st.integers(0, 200), st.integers(0, 255))
def test_a_token_that_was_changed_is_no_token(user: str, at: int, bit: int) -> None:
    key = b"k" * 32
    token = tokens.make(key, user, 1000, 60)
    assert tokens.user_of(key, token, 1059) == user
    assert tokens.user_of(key, token, 1060) is None
    at %= len(token)
    changed = token[:at] + chr(bit) + token[at + 1 :]
    if changed != token:
        assert tokens.user_of(key, changed, 1000) is None


def test_it_is_served_on_loopback(tmp_path: Path) -> None:
    fairway = [sys.executable, "-m", "fairway.cli.main", "slurm"]
    at = ["--data", str(tmp_path / "c")]
    subprocess.run([*fairway, "up", "-d", *at], check=True, capture_output=True)
    served = subprocess.Popen([*fairway, "restd", "--port", "0", *at], stdout=subprocess.PIPE, text=True)
    try:
        assert served.stdout is not None
        line = served.stdout.readline()
        port = int(line.split(":")[-1].split("/")[0])
        token = (
            subprocess.run(
                [*fairway, "shell", *at, "scontrol", "token"], check=True, capture_output=True, text=True
            )
            .stdout.split("=", 1)[1]
            .strip()
        )
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        for headers, status in (({}, 401), ({"X-SLURM-USER-TOKEN": token}, 200)):
            connection.request("GET", "/slurm/v0.0.38/ping", headers=headers)
            told = connection.getresponse()
            told.read()
            assert told.status == status
        connection.request("POST", "/slurm/v0.0.38/job/submit", headers={"Content-Length": str(1 << 40)})
        assert connection.getresponse().status == 413
        connection.close()
        listening = [row.split()[1] for row in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        assert next(row for row in listening if row.endswith(f":{port:04X}")).startswith("0100007F")
    finally:
        served.terminate()
        served.communicate()
        subprocess.run([*fairway, "down", "--wipe", *at], check=True, capture_output=True)


def test_runs_are_chosen_by_query(rest: Rest) -> None:
    for user, name in (("alice", "one"), ("alice", "two"), ("carol", "one")):
        assert (
            rest("POST", "/slurm/v0.0.38/job/submit", SUBMIT | {"job": SUBMIT["job"] | {"name": name}}, user)[
                0
            ]
            == 200
        )
    rest.door.run(5)

    def chosen(query: str) -> list[tuple[str, str]]:
        told = rest("GET", f"/slurmdb/v0.0.38/jobs?{query}", user="root")[1]["jobs"]
        return [(job["user_name"], job["name"]) for job in told]

    assert len(chosen("")) == 3
    assert chosen("account=RESEARCH,none") == [("alice", "one"), ("alice", "two")]
    assert chosen("job_name=one&account=research") == [("alice", "one")]
    assert chosen("state=running&qos=normal&partition=gpu&account=prod") == [("carol", "one")]
    assert chosen("state=failed") == chosen("end_time=now-1minute") == chosen("reservation=x") == []
    assert len(chosen("start_time=now&end_time=now")) == 3
    for query in ("users=bob", "start_time=x", "&".join(f"a{n}=1" for n in range(65))):
        assert rest("GET", f"/slurmdb/v0.0.38/jobs?{query}", user="root")[0] in (400, 500)
