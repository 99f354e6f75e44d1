"""The tutorial's commands are run, one after another, and print what the page shows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from apiserver_serving import served

from fairway.cli.fleetfile import read_fleet_file
from fairway.conformance.kubectl.comparing import is_same

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
FILES = re.compile(r"^```yaml file=(\S+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
CONSOLES = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)


def commands(page: str) -> list[tuple[str, str]]:
    """Command lines and what they print, in the page's order."""
    found = []
    for block in CONSOLES.findall(page):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            line, _, said = part.partition("\n")
            found.append((line, said))
    return found


def plain(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_the_tutorial_prints_what_it_shows(tmp_path: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    for name, text in FILES.findall(page):
        (tmp_path / name).write_text(text)
    data = tmp_path / "data"
    fleet = tuple(read_fleet_file(tmp_path / "fleet.yaml"))
    env = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "KUBECONFIG": str(data / "kubeconfig"),
        "FAIRWAY_DATA": str(data),
    }
    shown = commands(page)
    assert len(shown) > 30
    with served(data, fleet=fleet, latency="served") as api:
        api.until_ready()
        for line, wanted in shown:
            done = subprocess.run(
                ["/bin/sh", "-c", line],
                cwd=tmp_path,
                env=env,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            found = plain(done.stdout + done.stderr)
            assert is_same(line, plain(wanted), found), f"$ {line}\n{found}\ninstead of\n{wanted}"
