"""`fairway up`: a Kubernetes control plane on this machine, in one process."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from fairway.apiserver.folders import Running

app = typer.Typer(rich_markup_mode=None, add_completion=False)
LEAST_HISTORY_BYTES, MOST_HISTORY_BYTES = 2**20, 2**40
# A large journal takes its time to read.
_START_TIMEOUT_S = 60.0
# Of the log of a server that ended at once.
_MOST_SAID_BYTES, _MOST_SAID_LINES = 64 * 1024, 15


@app.command()
def up(
    fleet: Annotated[
        Path | None, typer.Option("--fleet", help="Nodes: manifests, or a fleet description (see below).")
    ] = None,
    cloud: Annotated[
        Path | None,
        typer.Option(
            "--cloud", help="Where nodes come from by themselves: a Scenario with cloud, or its section."
        ),
    ] = None,
    scheduler_config: Annotated[
        Path | None,
        typer.Option(
            "--scheduler-config", help="KubeSchedulerConfiguration: profiles, arguments, extenders."
        ),
    ] = None,
    speed: Annotated[
        float | None, typer.Option("--speed", help="Virtual seconds per second; as before, or 1.")
    ] = None,
    paused: Annotated[bool, typer.Option("--paused", help="Let time stand until it is told to go.")] = False,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: as before, or any free one.")] = 0,
    listen: Annotated[
        str, typer.Option("--listen", help="Address to listen on; beyond loopback only where asked for.")
    ] = "127.0.0.1",
    data: Annotated[Path | None, typer.Option("--data", help="Folder of the cluster's state.")] = None,
    kubeconfig: Annotated[Path | None, typer.Option("--kubeconfig", help="Where to write it.")] = None,
    latency: Annotated[
        str, typer.Option("--latency", help="served (images are near), default, zero, or a YAML file.")
    ] = "served",
    metrics_server: Annotated[
        bool, typer.Option("--metrics-server/--no-metrics-server", help="Serve metrics.k8s.io (kubectl top).")
    ] = True,
    without: Annotated[
        list[str] | None,
        typer.Option(
            "--without",
            metavar="NAMES",
            help="Leave components out, so that real ones take their place; none: all run.",
        ),
    ] = None,
    call: Annotated[
        list[str] | None,
        typer.Option(
            "--call",
            metavar="HOST[:PORT]",
            help="Address outside the cluster that tenants' objects may have called (external scalers).",
        ),
    ] = None,
    history: Annotated[
        str,
        typer.Option("--history", metavar="BYTES", help="How much of what happens is kept; 0: nothing more."),
    ] = "256Mi",
    recover: Annotated[
        bool,
        typer.Option("--recover", help="Drop what is damaged of the cluster's state, say what, and start."),
    ] = False,
    prometheus: Annotated[
        bool,
        typer.Option(
            "--prometheus",
            help="Start Debian's Prometheus (and Alertmanager) beside it, configured; with --detach.",
        ),
    ] = False,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Return once it answers and its nodes are Ready.")
    ] = False,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="table|json", help="How to print.")
    ] = "table",
) -> None:
    """Start a cluster: kubectl and every client of Kubernetes talk to it, and its time can be moved.

    Example: fairway up --fleet fleet.yaml --detach

    With --cloud Karpenter works for the cluster's NodePools, and a Cluster Autoscaler for the file's node groups.
    A fleet description is a file with `nodes:`, as scenarios have them: name, count, capacity, gpuModel…
    """
    from fairway.apiserver.leftout import check_names
    from fairway.cli.fleetfile import read_fleet_file
    from fairway.cli.output import check_output
    from fairway.cli.serverclient import folder
    from fairway.errors import UserError

    check_output(output)
    if speed is not None and speed <= 0:
        raise UserError(f"--speed {speed:g}: expected more than 0 (--paused lets time stand)")
    where = folder(data)
    settings: dict[str, Any] = {
        "data": str(where),
        "listen": listen,
        "port": port,
        "speed": speed,
        "paused": True if paused else None,
        "fleet": [] if fleet is None else read_fleet_file(fleet),
        "latency": latency,
        "metrics_server": metrics_server,
        "kubeconfig": None if kubeconfig is None else str(kubeconfig.absolute()),
        "cloud": None if cloud is None else str(cloud.absolute()),
        "scheduler": None if scheduler_config is None else str(scheduler_config.absolute()),
        "without": check_names(without) if without else None,
        "call": [_checked_address(text) for text in call or ()],
        "history": _checked_history(history),
    }
    _check_latency(latency)
    _check_cloud(cloud)
    _check_scheduler(scheduler_config)
    if prometheus and not detach:
        raise UserError("--prometheus goes with --detach")
    if prometheus:
        from fairway.cli.prometheusbeside import check_installed

        check_installed()
    if recover:
        _recover(where)
    if detach:
        _detach(where, settings, prometheus, output)
    else:
        _serve(where, settings, output)


def _detach(where: Path, settings: dict[str, Any], prometheus: bool, output: str) -> None:
    server = _detached(where, settings)
    if prometheus:
        from fairway.cli.prometheusbeside import start

        typer.echo(f"Prometheus scrapes it at {start(where)}", err=output == "json")
    _say(server, where, output)


def _checked_address(text: str) -> str:
    """Raises: UserError."""
    from fairway.errors import UserError

    host, colon, port = text.rpartition(":") if not text.endswith("]") else (text, "", "")
    if (colon and not (host and port.isdigit() and 0 < int(port) < 65536)) or not text.strip() or "/" in text:
        raise UserError(f"--call {text}: expected HOST or HOST:PORT, such as 127.0.0.1:6000")
    return text


def _checked_history(text: str) -> int:
    """Raises: UserError."""
    from fairway.errors import UserError
    from fairway.kube.quantity import QuantityError, parse

    try:
        found = int(parse(text))
    except QuantityError as wrong:
        raise UserError(f"--history {text}: {wrong}") from None
    if found and not LEAST_HISTORY_BYTES <= found <= MOST_HISTORY_BYTES:
        raise UserError(f"--history {text}: expected 0, or from 1Mi to 1Ti")
    return found


def _recover(where: Path) -> None:
    """Say every part that is dropped. Raises: UserError, where a server runs on the folder."""
    from fairway.apiserver.inspection import KEPT_FOLDER
    from fairway.apiserver.inspection import recover as recovered

    dropped = recovered(where)
    for damage in dropped:
        typer.echo(f"dropped: {damage}", err=True)
    said = f"the files as they were are in {where / KEPT_FOLDER}" if dropped else "nothing is damaged"
    typer.echo(said, err=True)


def _check_latency(name: str) -> None:
    """Raises: InvalidInput, before anything is started."""
    if name != "served":
        from fairway.twin.latency import latency_named

        latency_named(name)


def _check_cloud(file: Path | None) -> None:
    """Raises: InvalidInput, before anything is started."""
    if file is not None:
        from fairway.scenario.cloudfile import read_cloud_file
        from fairway.twin.twin import EPOCH_US

        read_cloud_file(file, EPOCH_US)


def _check_scheduler(file: Path | None) -> None:
    """Raises: InvalidInput, UserError, before anything is started."""
    if file is None:
        return
    from fairway.errors import UserError
    from fairway.scheduling.config import read_configuration_file

    for profile in read_configuration_file(file).profiles:
        if any(e.bind_verb for e in profile.extenders):
            # It would bind through this server, which waits for its answer.
            raise UserError(f"{file}: bindVerb: an extender that binds is called by fairway simulate alone")


def _serve(where: Path, settings: dict[str, Any], output: str) -> None:
    from fairway.apiserver.folders import Running
    from fairway.apiserver.process import serve
    from fairway.apiserver.serving import Server, settings_of

    def told(server: Server) -> None:
        import os

        _say(Running(os.getpid(), server.url, str(server.kubeconfig)), where, output)

    serve(settings_of(settings), told)


def _detached(where: Path, settings: dict[str, Any]) -> Running:
    """Raises: UserError (one runs already), WorldError (it did not start)."""
    import msgspec

    from fairway.apiserver.folders import is_taken, owners_alone, running
    from fairway.errors import UserError, WorldError

    if is_taken(where):
        found = running(where)
        at = f" at {found.url} (pid {found.pid})" if found is not None else ""
        raise UserError(f"{where}: a server is running on this folder already{at}; see fairway status")
    where.mkdir(parents=True, exist_ok=True, mode=0o700)
    log = where / "server.log"
    said_before = log.stat().st_size if log.exists() else 0
    with open(log, "ab", opener=owners_alone) as file:
        os.fchmod(file.fileno(), 0o600)
        process = subprocess.Popen(
            [sys.executable, "-m", "fairway.apiserver", msgspec.json.encode(settings).decode()],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    until_s = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < until_s:
        found = running(where)
        if found is not None and found.pid == process.pid:
            # It goes on without us, which Python would otherwise complain of.
            process.returncode = 0
            _await_nodes(where, until_s)
            return found
        if process.poll() is not None:
            raise WorldError(f"the server ended at once; {log} says:\n{_said_since(log, said_before)}")
        time.sleep(0.02)
    process.terminate()
    raise WorldError(f"the server did not answer within {_START_TIMEOUT_S:.0f} s; see {log}")


def _await_nodes(where: Path, until_s: float) -> None:
    """Until every node is Ready, so that what is applied next finds them. Where time stands, they stay as they are."""
    from fairway.cli.serverclient import ask
    from fairway.errors import FairwayError

    while time.monotonic() < until_s:
        try:
            if ask(where, "GET", "/fairway/clock").get("paused"):
                return
            nodes = ask(where, "GET", "/api/v1/nodes")["items"]
        except FairwayError:
            return
        conditions = [
            {c["type"]: c["status"] for c in n.get("status", {}).get("conditions", ())} for n in nodes
        ]
        if all("Ready" in c for c in conditions):
            return
        time.sleep(0.05)


def _said_since(log: Path, offset: int) -> str:
    with open(log, "rb") as file:
        file.seek(offset)
        lines = file.read(_MOST_SAID_BYTES).decode("utf-8", "replace").strip().splitlines()
    return "\n".join(lines[-_MOST_SAID_LINES:]) or "nothing"


def _say(server: Running, where: Path, output: str) -> None:
    """What to do next."""
    from fairway.cli.serverclient import folder

    if output == "json":
        from fairway.cli.output import print_json

        print_json(
            {"pid": server.pid, "url": server.url, "kubeconfig": server.kubeconfig, "data": str(where)}
        )
        sys.stdout.flush()
        return
    typer.echo(f"Fairway serves Kubernetes at {server.url} (pid {server.pid}), state in {where}")
    typer.echo("")
    typer.echo(f"  export KUBECONFIG={server.kubeconfig}")
    typer.echo("  kubectl get nodes,pods -A")
    # The other commands look into the default folder unless told.
    there = "" if where == folder(None) else f" --data {shlex.quote(str(where))}"
    typer.echo(f"  fairway clock advance 8h{there}")
    typer.echo(f"  fairway down{there}")
    sys.stdout.flush()
