"""Records what a real Slurm of this machine prints, in the form that `fairway verify slurm-commands` reads.

python tools/slurm_recording.py CONF SESSIONS.txt > recording.jsonl

CONF is a folder with slurm.conf, gres.conf and accounts_setup.sh, as in a conformance recording: every node is a slurmd
of its own on loopback, every GPU a copy of /dev/null. Needs root, Debian's slurm-wlm, slurmdbd, mariadb-server and
munge, and a machine on which nothing else uses them: it makes users, drops slurmdbd's database and kills Slurm's
daemons. SESSIONS.txt holds groups of lines, each group recorded from an empty controller and fresh accounts:

    group NAME             a new group; `group NAME settled` waits after each accepted sbatch until the job is placed
    alice> squeue -l       a command, by whom
    sleep 2                seconds to wait
    file bob job.sh        a file in that user's home: the lines after it that begin with `|`
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path("/srv/slurm")
ETC = ROOT / "atlas/etc"
USERS = ("alice", "bob", "carol", "dave", "erin")
FIRST_UID, GPUS, PLACED_S, TIMEOUT_S = 1001, 8, 1.3, 60
_TMP = "/tmp/slurm_recording.err"  # what the daemons say, for whoever records
DBD = """AuthType=auth/munge
DbdHost=localhost
DbdPort=17900
SlurmUser=slurm
LogFile=/srv/slurm/log/slurmdbd.log
PidFile=/srv/slurm/run/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=slurm
StoragePass=x
StorageLoc=slurm_acct_db
DebugLevel=info
"""


def main(conf: str, sessions: str) -> None:
    folder = Path(conf)
    _users()
    _services()
    for name, is_settled, lines in _groups(Path(sessions).read_text(encoding="utf-8").splitlines()):
        _start(folder)
        began = time.time()
        _write({"group": name, "seq": 0, "op": "group", "t0_epoch": int(began), "all_nodes_idle_at_start": True,
                "steps": len(lines), "settled": is_settled, "repeated": False})  # fmt: skip
        for seq, row in enumerate(_rows(lines, is_settled, began), 1):
            _write({"group": name, "seq": seq, **row})
        _stop()
        sys.stderr.write(f"{name}: {len(lines)} lines in {time.time() - began:.0f} s\n")


def _write(row: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(row, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def _groups(lines: list[str]) -> Iterator[tuple[str, bool, list[str]]]:
    name, is_settled, held = "", False, list[str]()
    for line in [*lines, "group end"]:
        if line.startswith("group "):
            if held:
                yield name, is_settled, held
            name, held = line.split()[1], []
            is_settled = line.endswith(" settled")
        elif line.strip() and not line.startswith("#"):
            held.append(line)


def _rows(lines: list[str], is_settled: bool, began: float) -> Iterator[dict[str, Any]]:
    for place, line in enumerate(lines):
        at = round(time.time() - began, 3)
        if line.startswith("|"):
            continue
        if line.startswith("sleep "):
            time.sleep(float(line.split()[1]))
            yield {"op": "sleep", "seconds": float(line.split()[1]), "t": at}
        elif line.startswith("file "):
            _, user, path = line.split()
            body = []
            for rest in lines[place + 1 :]:
                if not rest.startswith("|"):
                    break
                body.append(rest[1:] + "\n")
            file = _home(user) / path
            file.write_text("".join(body), encoding="utf-8")
            shutil.chown(file, user, user)
            yield {"op": "file", "user": user, "path": path, "content": "".join(body), "t": at}
        else:
            user, _, command = line.partition("> ")
            row = _run(user, command, at)
            yield row
            if is_settled and "sbatch" in command and row["rc"] == 0:
                time.sleep(PLACED_S)
                yield {"op": "sleep", "seconds": PLACED_S, "t": round(time.time() - began, 3)}


def _home(user: str) -> Path:
    return Path("/root") if user == "root" else ROOT / "home" / user


def _run(user: str, command: str, at: float) -> dict[str, Any]:
    environment = {
        "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
        "HOME": str(_home(user)),
        "USER": user,
        "LOGNAME": user,
        "TZ": "UTC",
        "LC_ALL": "C",
        "SLURM_CONF": str(ETC / "slurm.conf"),
    }
    who: dict[str, Any] = {}
    if user != "root":
        entry = pwd.getpwnam(user)
        who = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    began = time.time()
    process = subprocess.Popen(
        ["/bin/bash", "-c", command],
        env=environment,
        cwd=_home(user),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        **who,
    )
    row: dict[str, Any] = {"op": "cmd", "user": user, "cmd": command}
    try:
        out, err = process.communicate(timeout=TIMEOUT_S)
        row["rc"] = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        out, err = process.communicate()
        row |= {"rc": None, "recorder_timeout_s": TIMEOUT_S}
    said = {"stdout": out.decode("utf-8", "replace"), "stderr": err.decode("utf-8", "replace")}
    return {**row, **said, "t": at, "dt": round(time.time() - began, 3)}


def _users() -> None:
    (ROOT / "home").mkdir(parents=True, exist_ok=True)
    for place, user in enumerate(USERS):
        home = ROOT / "home" / user
        if subprocess.run(["id", user], capture_output=True, check=False).returncode:
            uid = str(FIRST_UID + place)
            subprocess.run(["groupadd", "-g", uid, user], check=True)
            made = ["useradd", "-u", uid, "-g", uid, "-m", "-d", str(home), "-s", "/bin/bash", user]
            subprocess.run(made, check=True)
    (ROOT / "dev").mkdir(exist_ok=True)
    for gpu in range(GPUS):
        file = ROOT / "dev" / f"nvidia{gpu}"
        if not file.exists():
            subprocess.run(["mknod", "-m", "666", str(file), "c", "1", "3"], check=True)


def _services() -> None:
    Path("/run/mysqld").mkdir(exist_ok=True)
    shutil.chown("/run/mysqld", "mysql", "mysql")
    Path("/run/munge").mkdir(exist_ok=True)
    shutil.chown("/run/munge", "munge", "munge")
    if subprocess.run(["pidof", "mariadbd"], capture_output=True, check=False).returncode:
        _daemon(["mysqld_safe"])
    if subprocess.run(["pidof", "munged"], capture_output=True, check=False).returncode:
        subprocess.run(["runuser", "-u", "munge", "--", "munged", "--force"], check=True)
    _until(["mysqladmin", "ping"], 30)
    _mysql(
        "CREATE USER IF NOT EXISTS slurm@localhost IDENTIFIED BY 'x'; GRANT ALL ON *.* TO slurm@localhost;"
    )


def _mysql(words: str) -> None:
    subprocess.run(["mysql", "-u", "root", "-e", words], check=True)


def _daemon(command: list[str], environment: dict[str, str] | None = None) -> None:
    with open(_TMP, "ab") as said:
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True,
            env={**os.environ, **(environment or {})}, cwd="/",
        )  # fmt: skip


def _until(command: list[str], seconds: float, says: str = "") -> str:
    ends = time.time() + seconds
    environment = {**os.environ, "SLURM_CONF": str(ETC / "slurm.conf"), "TZ": "UTC"}
    while True:
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        if done.returncode == 0 and says in done.stdout:
            return done.stdout
        if time.time() > ends:
            raise SystemExit(f"{' '.join(command)}: {done.stdout}{done.stderr}")
        time.sleep(0.3)


def _start(conf: Path) -> None:
    """A fresh site: accounts, controller, one slurmd a node."""
    _stop()
    for user in USERS:
        for file in (ROOT / "home" / user).iterdir():
            if not file.name.startswith("."):
                shutil.rmtree(file) if file.is_dir() else file.unlink()
    shutil.rmtree(ROOT / "atlas", ignore_errors=True)
    places = (
        ETC,
        *(ROOT / "atlas" / name for name in ("state", "spool", "run", "log")),
        ROOT / "log",
        ROOT / "run",
    )
    for place in places:
        place.mkdir(parents=True, exist_ok=True)
        shutil.chown(place, "slurm", "slurm")
    for file in conf.glob("*.conf"):
        shutil.copyfile(file, ETC / file.name)
    (ETC / "slurmdbd.conf").write_text(DBD, encoding="utf-8")
    (ETC / "slurmdbd.conf").chmod(0o600)
    shutil.chown(ETC / "slurmdbd.conf", "slurm", "slurm")
    setting = {"SLURM_CONF": str(ETC / "slurm.conf"), "TZ": "UTC", "LC_ALL": "C"}
    _mysql("DROP DATABASE IF EXISTS slurm_acct_db; CREATE DATABASE slurm_acct_db;")
    _daemon(["runuser", "-u", "slurm", "--", "slurmdbd", "-D"], setting)
    _until(["sacctmgr", "-n", "show", "qos", "format=name"], 40, "normal")
    _daemon(
        ["runuser", "-u", "slurm", "--", "slurmctld", "-D", "-c"], setting
    )  # limits of GPUs need its TRES
    _until(["sacctmgr", "-n", "show", "tres", "format=type,name"], 20, "gres")
    subprocess.run(["pkill", "-9", "-x", "slurmctld"], check=False)
    setup = subprocess.run(
        ["bash", str(conf / "accounts_setup.sh")],
        env={**os.environ, **setting},
        capture_output=True,
        text=True,
        check=False,
    )
    if setup.returncode:
        sys.stderr.write(setup.stdout[-400:] + setup.stderr[-400:])
    _daemon(["runuser", "-u", "slurm", "--", "slurmctld", "-D", "-c"], setting)
    _until(["scontrol", "ping"], 20, "UP")
    lines = (ETC / "slurm.conf").read_text(encoding="utf-8").splitlines()
    nodes = [line.split()[0].partition("=")[2] for line in lines if line.startswith("NodeName=")]
    for node in nodes:
        (ROOT / "atlas/spool" / node).mkdir(exist_ok=True)
        _daemon(["slurmd", "-D", "-N", node], setting)
    ends = time.time() + 40
    while len(_until(["sinfo", "-h", "-N", "-t", "idle", "-o", "%N"], 20).split()) < len(nodes):
        if time.time() > ends:
            raise SystemExit("nodes are not idle")
        time.sleep(0.5)
    time.sleep(3)  # associations and their usage have come from slurmdbd


def _stop() -> None:
    for name in ("slurmstepd", "slurmd", "slurmctld", "slurmdbd"):
        subprocess.run(["pkill", "-9", "-x", name], check=False)
    for user in USERS:
        subprocess.run(["pkill", "-9", "-u", user], check=False)
    time.sleep(0.5)


if __name__ == "__main__":
    main(*sys.argv[1:])
