"""What somebody made up is answered in Slurm's words or by its line, soon, and ends nobody's server."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from slurmtyped import Typed

from fairway.errors import InvalidInput
from fairway.ground.slurmground import SlurmGround
from fairway.slurm import features
from fairway.slurm.behaviours import BadHint, Known, known
from fairway.slurm.conf import nodes, read_configuration
from fairway.slurm.conf.lines import MAX_FILES
from fairway.slurm.serving.rest import answer
from fairway.slurm.sitefolder import read_site
from fairway.slurm.words import hostlist
from fairway.slurm.words.sizes import LONG_MAX

SCRIPT = "#!/bin/sh\necho hi\n"
CONF = "ClusterName=x\nGresTypes=gpu\nNodeName=n[1-2] CPUs=8 RealMemory=1000 Gres=gpu:2\nPartitionName=p Nodes=ALL\n"
MANY = "9" * 5000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Typed]:
    one = Typed(tmp_path_factory.mktemp("bounds"))
    yield one
    one.end()


def ask(cluster: Typed, method: str, path: str, body: str = "", user: str = "alice") -> tuple[int, Any]:
    token = cluster.type("scontrol", "token", user=user)[1].removeprefix("SLURM_JWT=").strip()
    server = cluster.server
    message = {"method": method, "path": f"/slurm/v0.0.38/{path}", "body": body}
    message["headers"] = {"X-SLURM-USER-TOKEN": token}
    return answer(message, server.host.site.token_key, server.rest_call, server.rest_run)


# slurmrestd and scripts as processes: each of these had ended the server, or kept it waiting, when its job started.


@pytest.mark.parametrize(
    ("what", "state"),
    [
        ('{"job": {"environment": {"A": "x\\u0000y"}}, "script": SCRIPT}', "COMPLETED"),
        ('{"job": {"environment": {"A\\u0000": "x"}}, "script": SCRIPT}', "COMPLETED"),
        ('{"job": {"environment": {"A=B": "x"}}, "script": SCRIPT}', "COMPLETED"),
        ('{"job": {"environment": ["A=\\ud800"]}, "script": SCRIPT}', "COMPLETED"),
        ('{"job": {"environment": {"A": "1"}, "name": "\\ud800\\u0000"}, "script": SCRIPT}', "COMPLETED"),
        ('{"job": {"environment": {"A": "1"}}, "script": "#!/bin/sh\\n: \\ud800\\n"}', "COMPLETED"),
        ('{"job": {"environment": {"A": "1"}, "current_working_directory": "\\u0000"}, "script": SCRIPT}', "COMPLETED"),
        ('{"job": {"environment": {"A": "1"}, "standard_output": "/\\u0000"}, "script": SCRIPT}', "FAILED"),
        ('{"job": {"environment": {"A": "1"}, "standard_input": "PIPE"}, "script": SCRIPT}', "COMPLETED"),
        ('{"job": {"environment": {"A": "1"}, "standard_output": "PIPE"}, "script": SCRIPT}', "FAILED"),
        ('{"job": {"environment": {"A": "1"}}, "script": "#!/bin/sh\\nsleep MANYd\\n"}', "RUNNING"),
        ('{"job": {"environment": {"A": "1"}}, "script": "#!/bin/sh\\n#FAIRWAY runtime=MANYd\\n"}', "RUNNING"),
    ],
)  # fmt: skip
def test_no_submission_ends_the_server(cluster: Typed, what: str, state: str) -> None:
    pipe = cluster.folder / "pipe"
    if not pipe.exists():
        os.mkfifo(pipe)
    body = what.replace("SCRIPT", json.dumps(SCRIPT)).replace("PIPE", str(pipe)).replace("MANY", MANY)
    if "standard_output" not in body:
        body = body.replace('"job": {', '"job": {"standard_output": "/dev/null", ')
    status, told = ask(cluster, "POST", "job/submit", body)
    assert (status, told["errors"]) == (200, [])
    cluster.run(3)
    host = cluster.server.host
    while host.processes.live:
        host.pump(0.01)
    cluster.run(3)
    assert ask(cluster, "GET", f"job/{told['job_id']}")[1]["jobs"][0]["job_state"] == state
    cluster.type("scancel", str(told["job_id"]))


def test_no_pipe_is_waited_for_by_whom_all_wait_for(cluster: Typed) -> None:
    pipe = cluster.folder / "pipe"
    if not pipe.exists():
        os.mkfifo(pipe)
    nobody = "No such device or address"  # no reader has it open
    code, job, said = cluster.type(
        "sbatch", "--parsable", "-t", "1", "-o", str(pipe), "--wrap", "sleep 9d", user="alice"
    )
    assert (code, said) == (0, "")
    job = job.strip()
    assert cluster.type("scontrol", "write", "batch_script", job, "pipe") == (
        1,
        "",
        f"failed to open file `pipe': {nobody}\n",
    )
    assert (
        cluster.type("scontrol", "write", "batch_script", job, "..")[2]
        == "failed to open file `..': Is a directory\n"
    )
    assert (
        cluster.type("scontrol", "write", "batch_script", MANY)[2]
        == "job script retrieval failed: Invalid job id specified\n"
    )
    assert cluster.type("scontrol", "write", "config", "pipe")[0] is not None
    assert cluster.type("sacctmgr", "-i", "dump", "file=pipe")[2].endswith(
        f"Unable to open file pipe: {nobody}\n"
    )
    assert cluster.type("sbatch", "pipe")[0] == 1
    assert cluster.type("scontrol", "show", "hostnames", str(pipe))[0] is not None
    cluster.run(200)  # what slurmstepd says of the time limit has nowhere to go
    assert ask(cluster, "GET", f"job/{job}")[1]["jobs"][0]["job_state"] in ("TIMEOUT", "FAILED")


def test_a_process_gets_no_variable_that_none_can_have(cluster: Typed) -> None:
    """A client of the socket may send anything; the job fails, as where execve() does."""
    job = cluster.server.rest_run(
        "alice", ["sbatch", "--parsable", "-o", "/dev/null"], {"A": "\0"}, "/", SCRIPT
    )[1]
    cluster.run(3)
    told = ask(cluster, "GET", f"job/{job.strip()}")[1]["jobs"][0]
    assert (told["job_state"], told["exit_code"]) == ("FAILED", 127 << 8)


@pytest.mark.parametrize("method", ["GET", "DELETE", "POST"])
@pytest.mark.parametrize("number", ["0", "9999999999"])
def test_no_job_has_the_number_of_no_array(cluster: Typed, method: str, number: str) -> None:
    status, told = ask(cluster, method, f"job/{number}", '{"comment": "x"}')
    assert (status, [one["error"] for one in told["errors"]]) == (500, ["Invalid job id specified"])


def test_digits_are_those_of_ascii(cluster: Typed) -> None:
    assert ask(cluster, "GET", "job/١")[0] == 404


# Texts of a request. Source: _test_job_desc_fields, job_mgr.c.


@pytest.mark.parametrize(
    ("option", "most"),
    [
        ("--job-name", 1024),
        ("--comment", 1024),
        ("--account", 1024),
        ("--reservation", 1024),
        ("--qos", 1024),
        ("--wckey", 1024),
        ("--output", 4096),
    ],
)
def test_a_text_has_its_most_bytes(cluster: Typed, option: str, most: int) -> None:
    too_long = "sbatch: error: Batch job submission failed: Pathname of a file, directory or other parameter too long\n"
    assert cluster.type("sbatch", f"{option}={'x' * (most + 1)}", stdin=SCRIPT) == (1, "", too_long)
    assert cluster.type("sbatch", f"{option}={'é' * (most // 2 + 1)}", stdin=SCRIPT) == (1, "", too_long)
    assert cluster.type("sbatch", "-H", f"{option}={'x' * most}", stdin=SCRIPT)[2] != too_long


def test_an_array_has_four_thousand_letters_and_a_script_its_size(cluster: Typed) -> None:
    too_long = "Pathname of a file, directory or other parameter too long"
    assert too_long in cluster.type("sbatch", f"--array={'1,' * 2048}1", stdin=SCRIPT)[2]
    assert cluster.type("sbatch", "-H", f"--array={'1,' * 2047}1", stdin=SCRIPT)[0] == 0
    assert too_long in cluster.type("sbatch", "-H", stdin=SCRIPT + "#" * (4 << 20))[2]


def test_a_waiting_jobs_texts_are_as_long(cluster: Typed) -> None:
    job = cluster.type("sbatch", "-H", "--parsable", stdin=SCRIPT)[1].strip()
    code, _, err = cluster.type("scontrol", "update", f"jobid={job}", f"comment={'x' * 1025}")
    assert (code, "parameter too long" in err) == (1, True)
    assert cluster.type("scontrol", "update", f"jobid={job}", f"comment={'x' * 1024}")[0] == 0


# Lists of hosts and tasks


def test_a_list_of_hosts_is_read_in_one_go() -> None:
    assert hostlist.expand("[" * 20_000) == ["[" * 19_999 + "]"]
    assert len(hostlist.expand(",".join(["x"] * 20_000))) == 20_000
    assert hostlist.compress(["1" * 20_000 + "x"]) == "1" * 20_000 + "x"
    for text in ("x[1-99999999999]", "x[0-65536]", ",".join(["x[1-65536]"] * 5), "x[1-999][1-999]"):
        with pytest.raises(hostlist.HostlistError):
            hostlist.expand(text)


def test_a_list_is_cut_at_the_letters_asked_for_in_one_go() -> None:
    assert hostlist.tokens("1_[1,2],3 4,,5", ",") == ["1_[1,2]", "3 4", "5"]
    assert len(hostlist.tokens("1," * 60_000, ",")) == 60_000


HUGE = "[0-4000000000]"
FAILED = "sbatch: error: Batch job submission failed"


@pytest.mark.parametrize(
    ("words", "want"),
    [
        (f"squeue -w x{HUGE}", f"squeue: error: 'x{HUGE}' invalid entry for --nodelist\n"),
        (f"squeue -j 1_{HUGE}", "squeue: error: _parse_single_range: Too many hosts in range `0-4000000000'\n"),
        (f"sinfo -n x{HUGE}", "sinfo: error: _parse_single_range: Too many hosts in range `0-4000000000'\n"),
        (f"scancel 1_{HUGE}", f"scancel: error: Invalid job id 1_{HUGE}\n"),
        (f"scontrol update nodename=x{HUGE} state=idle", "slurm_update error: Invalid node name specified\n"),
        ("sbatch --array=0-4000000000 --wrap x", f"{FAILED}: Invalid job array specification\n"),
        (f"sbatch -w x{HUGE} --wrap x", f"{FAILED}: Invalid node name specified\n"),
    ],
)  # fmt: skip
def test_commands_refuse_what_is_too_many(cluster: Typed, words: str, want: str) -> None:
    code, out, err = cluster.type(*words.split(" "))
    assert (code, out, err) == (1, "", want)


# Hints


def test_hints_have_bounds() -> None:
    assert known(f"#FAIRWAY runtime={MANY}d exit=255 gpu=100\n") == Known(1e9, 255, 100)
    assert known(f"#!/bin/sh\nsleep {MANY}d\nsleep 5\n") == Known(1e9)
    for words in (f"exit={MANY}", "exit=256", "exit=٣", f"gpu={MANY}", "gpu=101", "runtime=-1"):
        with pytest.raises(BadHint):
            known(f"#FAIRWAY {words}\n")


# Configuration


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (f"NodeName=z CPUs={MANY}", "is no number up to 65535"),
        (
            "NodeName=z Sockets=999 CoresPerSocket=999",
            "999 sockets of 999 cores of 1 threads are more than 65535",
        ),
        (f"NodeName=z Gres=gpu:{MANY}", "is more than 1024 devices"),
        ("NodeName=z Gres=" + ",".join(f"gpu:t{at}:1" for at in range(1025)), "is more than 1024 devices"),
        ("NodeName=z[1-99999999999]", "cannot be read: Invalid hostlist: z[1-99999999999]"),
        (f"SchedulerParameters={'a=1,' * 1000}", "is no option of it in Slurm 22.05"),
    ],
)
def test_what_no_node_has_is_told_once(line: str, said: str) -> None:
    (problem,) = read_configuration({"slurm.conf": f"{CONF}{line}\n"}).problems
    assert (problem.line, said in problem.expected) == (5, True)


def test_a_cluster_has_its_most_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "MAX_NODES", 6)
    conf = read_configuration({"slurm.conf": f"{CONF}NodeName=z[1-9]\n"})
    assert [node.name for node in conf.nodes] == ["n1", "n2", "z1", "z2", "z3", "z4"]
    assert [(p.line, p.value) for p in conf.problems] == [(5, "z5")]


def test_files_that_include_many_files_come_to_an_end() -> None:
    bomb = {f"{at}.conf": f"Include {at + 1}.conf\n" * 50 for at in range(4)} | {"4.conf": "#\n"}
    with pytest.raises(InvalidInput, match=f"over {MAX_FILES} of them"):
        read_configuration({"slurm.conf": f"{CONF}Include 0.conf\n"} | bomb)


def test_lines_of_gres_conf_are_found_by_their_nodes() -> None:
    texts = {
        "slurm.conf": CONF,
        "gres.conf": "Name=gpu File=/dev/a\nNodeName=n2 Name=gpu File=/dev/b\nNodeName=n3 Name=gpu File=/dev/c\n",
    }
    conf = read_configuration(texts)
    assert [node.gres[0].files for node in conf.nodes] == [("/dev/a",), ("/dev/a", "/dev/b")]
    texts["gres.conf"] = "NodeName=n[1-65536] Name=gpu Count=2\n" * 17
    assert [(p.line, p.path) for p in read_configuration(texts).problems] == [(17, "NodeName")]


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("(a|b)&(c|d)", True),
        ("((a))", False),
        ("(a&(b|c))", False),
        ("(" * 1000 + ")" * 1000, False),
        ("(a", False),
    ],
)
def test_parentheses_do_not_nest(text: str, is_one: bool) -> None:
    assert (features.parse(text) is not None) is is_one


# What a site wrote down

HEAD = "JobID|User|Partition|State|Submit|Start|End|Timelimit|ReqTRES|AllocTRES|NNodes|NodeList|ExitCode|Priority"
TIMES = "2026-01-01T00:00:00|2026-01-01T00:01:00|2026-01-01T01:00:00|60"
ROW = f"{{id}}|u|p|COMPLETED|{TIMES}|{{tres}}|cpu=1|{{nodes}}|n1|{{exit}}:0|{{priority}}"
KINDS = {"id": "1", "tres": "cpu=1", "nodes": "1", "exit": "0", "priority": "5"}


@pytest.mark.parametrize("column", ["id", "nodes", "exit", "priority"])
def test_accounting_with_numbers_of_many_digits_is_read(tmp_path: Path, column: str) -> None:
    (tmp_path / "slurm.conf").write_text(CONF)
    (tmp_path / "sacct.csv").write_text(f"{HEAD}\n{ROW.format(**KINDS | {column: MANY})}\n")
    (record,) = SlurmGround(tmp_path).past
    assert (record.user, record.exit_code) == ("u", 255 if column == "exit" else 0)


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("sacct.csv", f"{HEAD}\n{ROW.format(**KINDS | {'id': ''})}\n", "sacct.csv:2: JobID: is empty"),
        ("queue.json", '{"jobs": [{"job_id": 1, "job_state": []}]}', "is no squeue --json"),
        ("queue.json", '{"jobs":' + "[" * 100_000, "is no squeue --json"),
        (
            "queue.json",
            '{"jobs": [{"job_id": {"number": 1e400}, "job_state": "PENDING"}]}',
            "is no squeue --json",
        ),
    ],
)
def test_dumps_that_are_none_are_refused_by_their_place(
    tmp_path: Path, file: str, text: str, said: str
) -> None:
    (tmp_path / "slurm.conf").write_text(CONF)
    (tmp_path / file).write_text(text)
    with pytest.raises(InvalidInput, match=said):
        SlurmGround(tmp_path)


def test_accounts_and_qos_with_numbers_of_many_digits_are_read(tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text(CONF)
    (tmp_path / "accounts.cfg").write_text(
        f"Cluster - 'x'\nParent - 'root'\nAccount - 'a':Fairshare={MANY}:GrpTRES=cpu={MANY[:18]}\n"
    )
    (tmp_path / "qos.txt").write_text(f"Name|Priority|\nfast|{MANY}|\n")
    accounts = read_site(tmp_path).accounts
    assert (accounts.qos["fast"].priority, "a" in accounts.accounts) == (LONG_MAX, True)
