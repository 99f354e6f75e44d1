"""Scripts in simulated containers: those any shell runs, against this machine's; the others as they are on file."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.histories import check_history

from fairway.apiserver.kubelets import running
from fairway.apiserver.kubelets.files import Files
from fairway.apiserver.kubelets.place import Place
from fairway.cluster.store import Store
from fairway.kube.timestamps import parse_rfc3339

HERE = Path(__file__).parent
SCRIPTS: dict[str, list[str]] = yaml.safe_load((HERE / "commands.yaml").read_text(encoding="utf-8"))
NOW_US = parse_rfc3339("2026-01-05T01:00:00Z")
BUSY = {"fairway.dev/gpu-utilization": "0s:10%,30m:85%", "fairway.dev/gpu-memory": "0s:10Gi,30m:40Gi"}
MIG = {
    "nvidia.com/mig.strategy": "mixed",
    "nvidia.com/gpu.count": "2",
    "nvidia.com/mig.config": "all-3g.40gb",
}
# Labels of the node, limits of the container, annotations of the pod.
PLACES: dict[str, tuple[dict[str, str], dict[str, str], dict[str, str]]] = {
    "no card": ({}, {}, {}),
    "two cards": ({}, {"nvidia.com/gpu": "2"}, {**BUSY, "fairway.dev/gpu-index": "1,3"}),
    "an instance": (MIG, {"nvidia.com/mig-3g.40gb": "1"}, BUSY),
    "an idle card": ({"nvidia.com/gpu.product": "NVIDIA-L4"}, {"nvidia.com/gpu": "1"}, {}),
}


def _place(name: str) -> Place:
    labels, limits, annotations = PLACES[name]
    store = Store(now_us=NOW_US)
    labels = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", **labels}
    store.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": labels}})
    env = [{"name": "MODEL", "value": "llama"}]
    running_now = {"running": {"startedAt": "2026-01-05T00:00:00Z"}}
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "team", "uid": "u", "annotations": annotations},
        "spec": {
            "nodeName": "n",
            "restartPolicy": "Never",
            "containers": [{"name": "c", "env": env, "resources": {"limits": limits}}],
        },
        "status": {"containerStatuses": [{"name": "c", "state": running_now}]},
    }
    return Place(pod, "c", "n", store, NOW_US)


def _ran(place: str, script: str) -> tuple[str, str, int, bool]:
    files = Files(NOW_US // 1_000_000)
    files.make_directory("/tmp/w", NOW_US // 1_000_000)
    done = running.run(["sh", "-c", script], _place(place), files, b"")
    out, err = (
        b"".join(said.data for said in done.said if said.is_error == is_error).decode()
        for is_error in (False, True)
    )
    return out, err, done.code, done.is_known


@pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("dash") is None,
    reason="compares with dash and GNU coreutils: none here",
)
def test_scripts_come_to_what_a_shell_makes_of_them(tmp_path: Path) -> None:
    for number, script in enumerate(SCRIPTS["as sh"]):
        folder = tmp_path / str(number)
        folder.mkdir()
        here = script.replace("/tmp/w", str(folder))
        real = subprocess.run(
            ["dash", "-c", here],
            check=False,
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"},
        )
        out, err, code, is_known = _ran("no card", script)
        told = (real.stdout, real.stderr, real.returncode)
        assert (out, err, code) == tuple(
            t.replace(str(folder), "/tmp/w") if isinstance(t, str) else t for t in told
        ), script
        assert is_known, script


def test_what_commands_say_is_what_they_said() -> None:
    check_history(HERE / "commands.txt", _said())


def _said() -> Iterator[str]:
    for script in SCRIPTS["as ours"]:
        before: tuple[str, str, int, bool] | None = None
        for place in PLACES:
            found = _ran(place, script)
            if found == before:
                continue
            before = found
            out, err, code, is_known = found
            yield f"== {place}: {script}: {code}{'' if is_known else ', not known'}"
            yield from out.splitlines()
            yield from (f"! {line}" for line in err.splitlines())
