"""What exists is documented, and what is documented exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fairway.bench import BENCHMARKS
from fairway.cli.main import COMMANDS, main
from fairway.scheduling.profile import GPU_POLICIES
from fairway.twin import behaviour
from fairway.twin.latency import YAML_NAMES

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
PAGES = sorted([ROOT / "README.md", ROOT / "ARCHITECTURE.md", *(ROOT / "docs").glob("*.md")])


@pytest.mark.parametrize("command", COMMANDS)
def test_the_readme_names_every_command(command: str) -> None:
    assert f"fairway {command}" in README


@pytest.mark.parametrize("key", sorted(behaviour._READERS))
def test_every_behaviour_annotation_is_documented(key: str) -> None:
    assert f"`{key}`" in (ROOT / "docs/behaviour.md").read_text()


@pytest.mark.parametrize("policy", GPU_POLICIES)
def test_every_placement_policy_is_documented(policy: str) -> None:
    assert f"| {policy} |" in (ROOT / "docs/gpu-sharing.md").read_text()


@pytest.mark.parametrize("name", YAML_NAMES)
def test_every_latency_is_documented(name: str) -> None:
    assert f"`{name}`" in (ROOT / "docs/latency.md").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_files_named_in_the_text_exist(page: Path) -> None:
    rooms = "kube|cluster|admission|workloads|queueing|scheduling|twin|results|bench|cli"
    for path in re.findall(rf"`((?:{rooms})/[\w/]+(?:\.py|/))`", page.read_text()):
        assert (ROOT / "src/fairway" / path).exists(), path


def test_the_bench_lists_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(BENCHMARKS)
