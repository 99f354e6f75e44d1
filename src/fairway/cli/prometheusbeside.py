"""A real Prometheus, and an Alertmanager, beside a served cluster: `fairway up --prometheus`.

Debian's packages, with a configuration of their own in the cluster's folder. A third process follows the cluster's
monitors and PrometheusRules, as the Prometheus Operator and its config-reloader do: what changes is written down and
Prometheus is told to read it. What `promtool` refuses is left out and named in `follower.log`. All end with the server.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from fairway.apiserver.folders import running
from fairway.cli.serverclient import ask, found
from fairway.errors import FairwayError, WorldError
from fairway.kube.objects import Obj

FOLDER: Final = "prometheus"
CONFIG: Final = "prometheus.yml"
RULES: Final = "rules"
_PIDS: Final = "pids.json"
_START_S: Final = 30.0
# Between two looks at what the cluster wants scraped and evaluated.
_LOOK_S: Final = 5.0
_CHECK_S: Final = 30.0
_THANOS: Final = ("partial_response_strategy",)


def check_installed() -> None:
    """Raises: WorldError."""
    if shutil.which("prometheus") is None:
        raise WorldError("--prometheus: no prometheus is installed here: apt-get install prometheus")


def scrape_configuration(where: Path, discovery: str = "http") -> dict[str, Any]:
    """Prometheus' configuration for the server of a folder."""
    monitors = [
        {**item, "kind": kind}
        for kind in ("ServiceMonitor", "PodMonitor")
        for item in _listed(where, f"{kind.lower()}s")
    ]
    return _scraping(where, monitors, discovery)


def _scraping(where: Path, monitors: list[Obj], discovery: str = "http") -> dict[str, Any]:
    from fairway.telemetry.installing.scrapeconfigs import Server, scrape_configs

    files = [str(where / "pki" / name) for name in ("ca.crt", "admin.crt", "admin.key")]
    server = Server(found(where).url, discovery == "kubernetes", *files)
    return {
        "global": {"scrape_interval": "30s", "evaluation_interval": "30s"},
        "scrape_configs": scrape_configs(monitors, server),
    }


def _listed(where: Path, plural: str) -> list[Obj]:
    items: list[Obj] = ask(where, "GET", f"/apis/monitoring.coreos.com/v1/{plural}")["items"]
    return items


def start(where: Path) -> str:
    """Prometheus' address, once it is ready. Raises: WorldError."""
    folder = where / FOLDER
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    pids: dict[str, int] = {}
    own: dict[str, Any] = {"rule_files": [str(folder / RULES / "*.yml")]}
    if shutil.which("prometheus-alertmanager"):
        pids["prometheus-alertmanager"], own["alerting"] = _alertmanager(folder)
    Follower(where, own, sys.stderr.write).look()
    port = _free_port()
    pids["prometheus"] = _run(
        folder,
        "prometheus",
        f"--config.file={folder / CONFIG}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--web.enable-remote-write-receiver",
        "--web.enable-lifecycle",
    )
    (folder / _PIDS).write_bytes(msgspec.json.encode(pids))
    url = f"http://127.0.0.1:{port}"
    _await(url, folder, pids["prometheus"])
    words = (sys.executable, "-m", __name__, str(where), url, str(pids["prometheus"]))
    # It ends by itself once either of the two has ended.
    _run(folder, *words, log="follower.log")
    return url


def _alertmanager(folder: Path) -> tuple[int, dict[str, Any]]:
    """Its process, and Prometheus' section about it."""
    port, file = _free_port(), folder / "alertmanager.yml"
    if not file.exists():
        file.write_text(yaml.safe_dump({"route": {"receiver": "none"}, "receivers": [{"name": "none"}]}))
    pid = _run(
        folder,
        "prometheus-alertmanager",
        f"--config.file={file}",
        f"--storage.path={folder / 'alertmanager'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
    )
    return pid, {"alertmanagers": [{"static_configs": [{"targets": [f"127.0.0.1:{port}"]}]}]}


class Follower:
    """Writes what the cluster's monitors and rules say into Prometheus' folder. `say`: told of what is left out."""

    def __init__(self, where: Path, own: dict[str, Any], say: Callable[[str], object]) -> None:
        self.where, self.own, self.say = where, own, say
        self._rules: dict[str, str] = {}
        self._monitors: list[Obj] | None = None

    def look(self) -> bool:
        """Whether anything is other than it was. Raises: WorldError, UserError where the server cannot be asked."""
        rules = dict(map(_rule_file, _listed(self.where, "prometheusrules")))
        monitors = [
            {
                "kind": kind,
                "metadata": {k: meta.get(k) for k in ("namespace", "name")},
                "spec": item.get("spec"),
            }
            for kind in ("ServiceMonitor", "PodMonitor")
            for item in _listed(self.where, f"{kind.lower()}s")
            for meta in (item["metadata"],)
        ]
        changed = self._follow_rules(rules)
        if monitors != self._monitors:
            self._follow_monitors(monitors)
            changed = True
        return changed

    def _follow_rules(self, rules: dict[str, str]) -> bool:
        folder = self.where / FOLDER / RULES
        if rules == self._rules and folder.is_dir():
            return False
        folder.mkdir(exist_ok=True)
        for old in folder.glob("*.yml"):
            if old.name not in rules:
                old.unlink()
        for name, text in rules.items():
            if self._rules.get(name) == text:
                continue
            refused = _refused(text, "rules", "--lint=none")
            if refused:
                self.say(f"PrometheusRule {name.removesuffix('.yml')} is left out: {refused}\n")
                (folder / name).unlink(missing_ok=True)
            else:
                _write(folder / name, text)
        self._rules = rules
        return True

    def _follow_monitors(self, monitors: list[Obj]) -> None:
        self._monitors = monitors
        config = _scraping(self.where, monitors)
        if _refused(_text(config), "config", "--syntax-only"):
            kept = []
            for monitor in monitors:
                refused = _refused(_text(_scraping(self.where, [monitor])), "config", "--syntax-only")
                if not refused:
                    kept.append(monitor)
                    continue
                name = "/".join(map(str, monitor["metadata"].values()))
                self.say(f"{monitor['kind']} {name} is left out: {refused}\n")
            config = _scraping(self.where, kept)
        _write(self.where / FOLDER / CONFIG, _text({**config, **self.own}))


def _rule_file(rule: Obj) -> tuple[str, str]:
    """A PrometheusRule as a file of Prometheus'. What Thanos alone reads is dropped, as the operator does."""
    place = f"{rule['metadata'].get('namespace', '')}/{rule['metadata']['name']}"
    groups = [
        {k: v for k, v in {**group, "name": f"{place}/{group.get('name', '')}"}.items() if k not in _THANOS}
        for group in (rule.get("spec") or {}).get("groups") or ()
    ]
    return f"{place.replace('/', '_', 1)}.yml", _text({"groups": groups})


def _text(value: dict[str, Any]) -> str:
    text: str = yaml.safe_dump(value, sort_keys=False)
    return text


def _refused(text: str, kind: str, *options: str) -> str:
    """What promtool has against a file, if anything; nothing where there is no promtool."""
    if shutil.which("promtool") is None:
        return ""
    with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
        file.write(text)
        file.flush()
        command = ("promtool", "check", kind, *options, file.name)
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_CHECK_S)
        except subprocess.TimeoutExpired:
            return f"promtool had no answer after {_CHECK_S:.0f} s"
    if done.returncode == 0:
        return ""
    return " ".join(done.stderr.replace(file.name, "").replace("FAILED:", "").split())


def _write(file: Path, text: str) -> None:
    """Whole or not at all: Prometheus may read it at any time."""
    new = file.with_name(f".{file.name}.new")
    new.write_text(text)
    new.replace(file)


def follow(where: Path, url: str, pid: int) -> None:
    """Until Prometheus or the server has ended."""
    own = yaml.safe_load((where / FOLDER / CONFIG).read_text())
    kept = {key: own[key] for key in ("rule_files", "alerting") if key in own}
    follower = Follower(where, kept, lambda said: print(said, end="", flush=True))
    is_due, told = False, ""
    while _is_prometheus(pid, "prometheus") and running(where) is not None:
        try:
            is_due = follower.look() or is_due
            if is_due:
                urllib.request.urlopen(urllib.request.Request(f"{url}/-/reload", method="POST"), timeout=30)
                is_due = False
            told = ""
        except (FairwayError, OSError) as failed:
            if str(failed) != told:
                print(failed, flush=True)
            told = str(failed)
        time.sleep(_LOOK_S)


def _run(folder: Path, *command: str, log: str = "") -> int:
    with open(folder / (log or f"{command[0]}.log"), "ab") as file:
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


if __name__ == "__main__":
    follow(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
