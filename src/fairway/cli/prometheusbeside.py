"""A real Prometheus, and an Alertmanager, beside a served cluster: `fairway up --prometheus`.

Debian's packages, with a configuration of their own in the cluster's folder: the cluster is discovered and scraped, its
PrometheusRules are evaluated as they were at the start. Both end with the server.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from fairway.cli.serverclient import ask, found
from fairway.errors import FairwayError, WorldError

FOLDER: Final = "prometheus"
_PIDS: Final = "pids.json"
_START_S: Final = 30.0


def check_installed() -> None:
    """Raises: WorldError."""
    if shutil.which("prometheus") is None:
        raise WorldError("--prometheus: no prometheus is installed here: apt-get install prometheus")


def scrape_configuration(where: Path, discovery: str = "http") -> dict[str, Any]:
    """Prometheus' configuration for the server of a folder."""
    from fairway.telemetry.installing.scrapeconfigs import Server, scrape_configs

    files = [str(where / "pki" / name) for name in ("ca.crt", "admin.crt", "admin.key")]
    server = Server(found(where).url, discovery == "kubernetes", *files)
    monitors = [
        {**item, "kind": kind}
        for kind in ("ServiceMonitor", "PodMonitor")
        for item in _listed(where, f"{kind.lower()}s")
    ]
    return {
        "global": {"scrape_interval": "30s", "evaluation_interval": "30s"},
        "scrape_configs": scrape_configs(monitors, server),
    }


def _listed(where: Path, plural: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = ask(where, "GET", f"/apis/monitoring.coreos.com/v1/{plural}")["items"]
    return items


def start(where: Path) -> str:
    """Prometheus' address, once it is ready. Raises: WorldError."""
    folder = where / FOLDER
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    config = scrape_configuration(where)
    groups = [
        {
            **group,
            "name": f"{rule['metadata'].get('namespace', '')}/{rule['metadata']['name']}/{group.get('name', '')}",
        }
        for rule in _listed(where, "prometheusrules")
        for group in (rule.get("spec") or {}).get("groups") or ()
    ]
    (folder / "rules.yml").write_text(yaml.safe_dump({"groups": groups}, sort_keys=False))
    config["rule_files"] = [str(folder / "rules.yml")]
    pids = {}
    if shutil.which("prometheus-alertmanager"):
        port = _free_port()
        own = {"route": {"receiver": "none"}, "receivers": [{"name": "none"}]}
        file = folder / "alertmanager.yml"
        if not file.exists():
            file.write_text(yaml.safe_dump(own))
        pids["alertmanager"] = _run(
            folder,
            "prometheus-alertmanager",
            f"--config.file={file}",
            f"--storage.path={folder / 'alertmanager'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--cluster.listen-address=",
        )
        targets = [{"targets": [f"127.0.0.1:{port}"]}]
        config["alerting"] = {"alertmanagers": [{"static_configs": targets}]}
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config, sort_keys=False))
    port = _free_port()
    pids["prometheus"] = _run(
        folder,
        "prometheus",
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--web.enable-remote-write-receiver",
        "--web.enable-lifecycle",
    )
    (folder / _PIDS).write_bytes(msgspec.json.encode(pids))
    url = f"http://127.0.0.1:{port}"
    _await(url, folder, pids["prometheus"])
    return url


def _run(folder: Path, *command: str) -> int:
    log = folder / f"{Path(command[0]).name}.log"
    with open(log, "ab") as file:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
        )
    # It goes on without us, which Python would otherwise complain of.
    process.returncode = 0
    return process.pid


def _await(url: str, folder: Path, pid: int) -> None:
    until_s = time.monotonic() + _START_S
    while time.monotonic() < until_s and _is_prometheus(pid, "prometheus"):
        try:
            with urllib.request.urlopen(f"{url}/-/ready", timeout=1):
                return
        except OSError:
            time.sleep(0.1)
    raise WorldError(f"prometheus did not get ready; see {folder / 'prometheus.log'}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def stop(where: Path) -> None:
    """What was started beside the server of this folder, if it still runs."""
    file = where / FOLDER / _PIDS
    try:
        pids: dict[str, int] = msgspec.json.decode(file.read_bytes(), type=dict[str, int])
    except (OSError, msgspec.DecodeError, FairwayError):
        return
    for name, pid in pids.items():
        if _is_prometheus(pid, name):
            os.kill(pid, signal.SIGTERM)
    file.unlink(missing_ok=True)


def _is_prometheus(pid: int, name: str) -> bool:
    """Whether this process is still the one that was started."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return name.encode() in Path(words[0].decode("utf-8", "replace")).name.encode()
