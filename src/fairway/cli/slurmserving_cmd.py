"""`fairway slurm up` and what goes with it: a Slurm cluster on this machine that sbatch and the others talk to."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

_DATA = Annotated[Path | None, typer.Option("--data", help="Folder of the cluster's state.")]
_OUTPUT = Annotated[str, typer.Option("--output", "-o", metavar="table|json", help="How to print.")]
_START_TIMEOUT_S = 120.0
_STOP_TIMEOUT_S = 20.0
_CONF_FILES_MOST = 256
_CONF_BYTES_MOST = 16 << 20
_FILES = ("journal", "clock", "lock", "server.log", "server.json", "jwt_hs256.key")


def add_to(app: typer.Typer) -> None:
    """The commands become those of a group."""
    for command in (up, advance, pause, resume, speed, status, restd, down):
        app.command()(command)
    app.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})(shell)


def up(
    data: Annotated[
        Path | None, typer.Argument(metavar="[DATA]", help="Folder of the cluster's state.")
    ] = None,
    conf: Annotated[
        Path | None,
        typer.Option(
            "--conf", help="Folder with slurm.conf, gres.conf …, of a new cluster; else a small one."
        ),
    ] = None,
    accounts: Annotated[
        Path | None, typer.Option("--accounts", help="Accounts of a new cluster: what sacctmgr dump wrote.")
    ] = None,
    skip_unknown: Annotated[
        bool,
        typer.Option("--skip-unknown", help="Go on without configuration lines that are not understood."),
    ] = False,
    speed: Annotated[
        float | None, typer.Option("--speed", help="Virtual seconds per second; as before, or 1.")
    ] = None,
    paused: Annotated[
        bool | None, typer.Option("--paused/--running", help="Let time stand until it is told to go.")
    ] = None,
    data_option: _DATA = None,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Return once it answers.")] = False,
) -> None:
    """Start a Slurm cluster: its commands are in fairway slurm shell, and its time can be moved.

    Example: fairway slurm up --detach
    """
    from fairway.apiserver.folders import is_taken, take
    from fairway.errors import UserError
    from fairway.slurm.serving.server import Server, serve

    if speed is not None and not 0 < speed <= 1e6:
        raise UserError(
            f"--speed {speed:g}: expected more than 0 and at most 1000000 (--paused lets time stand)"
        )
    where = _folder(data or data_option)
    texts = None if conf is None else _texts(conf)
    dump = None if accounts is None else _text(accounts)
    if is_taken(where):
        raise UserError(f"{where}: a cluster is served from this folder already; see fairway slurm status")
    if detach:
        again = [a for a in sys.argv[1:] if a not in ("--detach", "-d")] or ["slurm", "up"]
        _detached(where, again)
        _say(where)
        return
    held = take(where)
    server = Server(where, texts, dump, speed, paused, skip_unknown, _nvidia_smi)
    serve(server, lambda _: _say(where))
    held.close()


def _nvidia_smi(site: Any, environment: Mapping[str, str], arguments: list[str]) -> tuple[str, int]:
    from fairway.cli.slurmgpus import shown

    return shown(site, environment, arguments)


def _texts(folder: Path) -> dict[str, str]:
    """The *.conf files there, by their names relative to it. Raises: UserError."""
    from fairway.errors import UserError

    if not (folder / "slurm.conf").is_file():
        raise UserError(f"{folder}: has no slurm.conf; --conf names a folder such as /etc/slurm")
    found = sorted(
        path for pattern in ("*.conf", "*/*.conf") for path in folder.glob(pattern) if path.is_file()
    )
    if len(found) > _CONF_FILES_MOST:
        raise UserError(f"{folder}: {len(found)} *.conf files, expected at most {_CONF_FILES_MOST}")
    return {str(path.relative_to(folder)): _text(path) for path in found}


def _text(path: Path) -> str:
    """Raises: UserError."""
    from fairway.errors import UserError

    try:
        size = path.stat().st_size
        if size > _CONF_BYTES_MOST:
            raise UserError(f"{path}: {size} bytes, expected at most {_CONF_BYTES_MOST}")
        return path.read_text(encoding="utf-8")
    except OSError as failed:
        raise UserError(f"{path}: {failed.strerror}") from failed
    except UnicodeDecodeError as wrong:
        raise UserError(f"{path}: byte {wrong.start} is not UTF-8; expected a text file") from wrong


def _detached(where: Path, arguments: list[str]) -> None:
    """Raises: UserError or WorldError (it did not start), in the words of the server."""
    from fairway.apiserver.folders import owners_alone
    from fairway.errors import UserError, WorldError

    where.mkdir(parents=True, exist_ok=True, mode=0o700)
    log = where / "server.log"
    before = log.stat().st_size if log.exists() else 0
    with open(log, "ab", opener=owners_alone) as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "fairway.cli.main", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    until_s = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < until_s:
        if process.poll() is not None:
            text = log.read_bytes()[before:].decode("utf-8", "replace").strip()
            said = text[-8000:].removeprefix("fairway: ") or "the server ended at once and said nothing"
            raise (UserError if process.returncode == 2 else WorldError)(said)
        try:
            _ask(where, {"name": "fairway-status"})
        except (UserError, WorldError):
            time.sleep(0.03)
            continue
        process.returncode = 0  # it goes on without us, which Python would otherwise complain of
        return
    process.terminate()
    raise WorldError(f"the server did not answer within {_START_TIMEOUT_S:.0f} s; see {log}")


def _say(where: Path) -> None:
    """What to do next."""
    said = _ask(where, {"name": "fairway-status"})["status"] if _is_other(where) else None
    nodes = f" of {said['nodes']} nodes" if said else ""
    there = "" if where == _folder(None) else f" --data {shlex.quote(str(where))}"
    typer.echo(f"Fairway serves a Slurm cluster{nodes}, state in {where}")
    typer.echo("")
    for line in (
        f"fairway slurm shell{there}",
        f"fairway slurm advance 8h{there}",
        f"fairway slurm down{there}",
    ):
        typer.echo(f"  {line}")
    sys.stdout.flush()


def _is_other(where: Path) -> bool:
    """Is it another process that serves it?"""
    from fairway.apiserver.folders import is_taken

    return is_taken(where) not in (0, os.getpid())


def shell(
    command: Annotated[list[str] | None, typer.Argument(help="What to run instead of a shell.")] = None,
    user: Annotated[
        str, typer.Option("--user", "-u", help="Be this user of the cluster (root, alice …), not yourself.")
    ] = "",
    data: _DATA = None,
) -> None:
    """Open a shell where sbatch, srun, squeue and the others are this cluster's; or run a command there.

    Example: fairway slurm shell sbatch --wrap "sleep 60"
    """
    where = _folder(data)
    _ask(where, {"name": "fairway-status"})
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "FAIRWAY_AS"))}
    environment["PATH"] = f"{where / 'bin'}{os.pathsep}{environment.get('PATH', os.defpath)}"
    environment["FAIRWAY_SOCKET"] = str(where / "bin" / "socket")
    if user:
        environment["FAIRWAY_AS"] = user
    words = command or [os.environ.get("SHELL") or "/bin/sh"]
    try:
        os.execvpe(words[0], words, environment)
    except OSError as failed:
        typer.echo(f"fairway: {words[0]}: {failed.strerror}", err=True)
        raise typer.Exit(127 if isinstance(failed, FileNotFoundError) else 126) from None


_MOST_DAYS = 3_660
"""Ten years: Slurm's clock ends in 2106."""


def advance(
    duration: Annotated[str, typer.Argument(help="Such as 90s, 1h30m or 2d.")],
    data: _DATA = None,
    output: _OUTPUT = "table",
) -> None:
    """Go this far as fast as possible; returns when it is there. Scripts that compute are waited for.

    Example: fairway slurm advance 8h
    """
    from fairway.cli.output import check_output
    from fairway.errors import UserError
    from fairway.kube.timestamps import parse_duration

    check_output(output)
    try:
        us = parse_duration(duration)
    except ValueError as wrong:
        raise UserError(f"{duration!r}: {wrong}") from wrong
    if us > _MOST_DAYS * 86_400_000_000:
        raise UserError(f"{duration!r}: expected at most {_MOST_DAYS}d at a time")
    where = _folder(data)
    _ask(where, {"name": "fairway-advance", "us": us})
    _tell(where, {"name": "fairway-status"}, output)


def pause(data: _DATA = None, output: _OUTPUT = "table") -> None:
    """Let time stand.

    Example: fairway slurm pause
    """
    _tell(_folder(data), {"name": "fairway-pace", "paused": True}, output)


def resume(data: _DATA = None, output: _OUTPUT = "table") -> None:
    """Let time go on.

    Example: fairway slurm resume
    """
    _tell(_folder(data), {"name": "fairway-pace", "paused": False}, output)


def speed(
    factor: Annotated[float, typer.Argument(help="Virtual seconds per second.")],
    data: _DATA = None,
    output: _OUTPUT = "table",
) -> None:
    """Let time go this fast.

    Example: fairway slurm speed 60
    """
    from fairway.errors import UserError

    if not 0 < factor <= 1e6:
        raise UserError(
            f"{factor:g}: expected more than 0 and at most 1000000 (fairway slurm pause lets time stand)"
        )
    _tell(_folder(data), {"name": "fairway-pace", "speed": factor}, output)


def status(data: _DATA = None, output: _OUTPUT = "table") -> None:
    """Is a cluster served, what time is it there? Exit code 1 where none is.

    Example: fairway slurm status -o json
    """
    from fairway.apiserver.folders import is_taken
    from fairway.cli.output import check_output, print_json

    check_output(output)
    where = _folder(data)
    if not is_taken(where):
        if output == "json":
            print_json({"running": False, "data": str(where)})
        else:
            typer.echo(f"no Slurm cluster is served from {where}")
        raise typer.Exit(1)
    _tell(where, {"name": "fairway-status"}, output)


def restd(
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: any free one.")] = 6820,
    data: _DATA = None,
) -> None:
    """Serve slurmrestd's API v0.0.38 on loopback, until interrupted; scontrol token has the token it asks for.

    Example: fairway slurm restd --port 6820
    """
    from fairway.slurm.serving.restd import Restd

    where = _folder(data)
    _ask(where, {"name": "fairway-status"})
    with Restd(port, where / "bin") as server:
        typer.echo(f"slurmrestd's API is at http://127.0.0.1:{server.server_port}/slurm/v0.0.38/ping")
        sys.stdout.flush()
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            typer.echo("stopped", err=True)


def down(
    data: Annotated[
        Path | None, typer.Argument(metavar="[DATA]", help="Folder of the cluster's state.")
    ] = None,
    wipe: Annotated[bool, typer.Option("--wipe", help="Delete the state as well.")] = False,
    data_option: _DATA = None,
) -> None:
    """Stop the cluster. What it held is there again at the next fairway slurm up.

    Example: fairway slurm down
    """
    from fairway.apiserver.folders import is_taken
    from fairway.errors import WorldError

    where = _folder(data or data_option)
    pid = is_taken(where)
    if pid > 0:
        os.kill(pid, signal.SIGTERM)
        until_s = time.monotonic() + _STOP_TIMEOUT_S
        while is_taken(where):
            if time.monotonic() > until_s:
                raise WorldError(f"pid {pid} did not stop within {_STOP_TIMEOUT_S:.0f} s")
            time.sleep(0.02)
        typer.echo(f"stopped (pid {pid})" + ("" if wipe else f"; state kept in {where}"))
    else:
        typer.echo(f"no Slurm cluster is served from {where}")
    if wipe:
        _wipe(where)


def _wipe(where: Path) -> None:
    """Delete what a server wrote there, and nothing else."""
    import shutil

    if (where / "bin" / "client").is_file():
        shutil.rmtree(where / "bin")
    for name in _FILES:
        (where / name).unlink(missing_ok=True)
    typer.echo(f"deleted the state in {where}")


def _folder(data: Path | None) -> Path:
    from fairway.apiserver.folders import default_folder

    return (data or default_folder() / "slurm").expanduser().absolute()


def _tell(where: Path, asked: dict[str, Any], output: str) -> None:
    from fairway.cli.output import check_output, print_json
    from fairway.kube.timestamps import rfc3339

    check_output(output)
    said = _ask(where, asked)["status"]
    if output == "json":
        print_json({"running": True, "data": str(where), **said})
        return
    pace = "paused" if said["paused"] else f"at speed {said['speed']:g}"
    rows = [
        ("cluster", f"{said['cluster']} (pid {said['pid']}), {said['nodes']} nodes"),
        ("clock", f"{rfc3339(said['nowUs'])} {pace}"),
        ("jobs", f"{said['pending']} pending, {said['running']} running, {said['ended']} ended"),
        ("state", str(where)),
    ]
    for name, value in rows:
        typer.echo(f"{name:<12}{value}")


def _ask(where: Path, asked: dict[str, Any]) -> dict[str, Any]:
    """Raises: UserError (none is served), WorldError (it does not answer)."""
    import socket

    import msgspec

    from fairway.errors import UserError, WorldError

    try:
        folder = os.open(where / "bin", os.O_PATH)
    except OSError:
        raise UserError(
            f"no Slurm cluster is served from {where}; start one with fairway slurm up -d"
        ) from None
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(f"/proc/self/fd/{folder}/socket")
        except OSError:
            raise UserError(
                f"no Slurm cluster is served from {where}; start one with fairway slurm up -d"
            ) from None
        finally:
            os.close(folder)
        stream = connection.makefile("rwb")
        stream.write(msgspec.json.encode(asked) + b"\n")
        stream.flush()
        line = stream.readline()
    if not line:
        raise WorldError(f"the server of {where} ended before it answered; see {where / 'server.log'}")
    said: dict[str, Any] = msgspec.json.decode(line)
    return said
