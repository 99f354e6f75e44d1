"""The pages that people follow: every command in them runs, every page is in the site's list."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml

from fairway.cli.main import main

ROOT = Path(__file__).parents[1]
TASKS = sorted((ROOT / "docs/tasks").glob("*.md"))
DUMP = """
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: "8", memory: 8Gi, pods: "10"}}}
- {apiVersion: v1, kind: Namespace, metadata: {name: a}}
"""


def commands(page: Path) -> list[list[str]]:
    """The `fairway` lines of its console blocks."""
    blocks = re.findall(r"^```console\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    lines = [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]
    return [shlex.split(line)[1:] for line in lines if line.startswith("fairway ")]


@pytest.mark.parametrize("page", TASKS, ids=lambda p: p.stem)
def test_every_command_of_a_task_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dump.yaml").write_text(DUMP)
    assert commands(page)
    for command in commands(page):
        # 1: the answer is no, as in a queue with somebody waiting.
        assert main(command) in (0, 1), (command, capsys.readouterr().err)


def test_every_page_is_in_the_navigation() -> None:
    text = (ROOT / "mkdocs.yml").read_text()
    listed = set(re.findall(r"[\w/-]+\.md", text))
    pages = {p.relative_to(ROOT / "docs").as_posix() for p in (ROOT / "docs").rglob("*.md")}
    assert {p for p in pages if not p.startswith("decisions/0")} - listed == set()
    assert listed - pages == set()
    assert yaml.safe_load(text)["strict"] is True


def test_every_decision_is_listed() -> None:
    index = (ROOT / "docs/decisions/index.md").read_text()
    files = [f.name for f in (ROOT / "docs/decisions").glob("0*.md")]
    assert [f for f in files if f"({f})" not in index] == []


def test_pictures_of_the_gallery_are_there_and_used() -> None:
    used = set(re.findall(r"pictures/([\w.-]+)", (ROOT / "docs/gallery.md").read_text()))
    assert used == {f.name for f in (ROOT / "docs/pictures").iterdir()}
