"""The recordings of the real engines that travel with the code, replayed: what was agreed on stays agreed on."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from fairway.cli.main import main
from fairway.conformance.suite import INDEX, Recording, check_of, read_index
from fairway.errors import InvalidInput

FOLDER = Path(__file__).parents[2] / "recordings"
ALL = read_index(FOLDER)
NEEDS_KUBECTL = {"kubectl"}


@pytest.mark.parametrize("recording", ALL, ids=lambda r: r.file)
def test_every_recorded_case_agrees(recording: Recording) -> None:
    if recording.check in NEEDS_KUBECTL and shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    found = check_of(recording.check)(FOLDER / recording.file)
    assert [d.text() for d in found.differences] == []
    assert found.agreed == found.total > 0


def test_every_file_in_the_folder_is_listed_and_explained() -> None:
    assert sorted(r.file for r in ALL) == sorted(f.name for f in FOLDER.glob("*.gz"))
    readme = (FOLDER / "README.md").read_text()
    assert [r.file for r in ALL if f"**{r.file.removesuffix('.jsonl.gz')}**" not in readme] == []


def small_folder(path: Path, **changes: str) -> Path:
    entry = {"file": "s.jsonl", "check": "kueue-scenarios", "engine": "Kueue", "version": "v1", "what": "one"}
    lines = [f"{name} = {json.dumps(value)}" for name, value in (entry | changes).items()]
    (path / INDEX).write_text("[[recording]]\n" + "\n".join(lines) + "\n")
    observed = {"jobs": {"a/train": {"active": 1}}}
    (path / "s.jsonl").write_text(json.dumps({"name": "x", "steps": [{"do": [], "observed": observed}]}))
    return path


def test_a_folder_is_replayed_and_summed_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "all", str(small_folder(tmp_path)), "-v"]) == 1
    printed = capsys.readouterr()
    assert printed.out.splitlines()[0] == "line 1 x step 0: jobs a/train"
    assert printed.out.splitlines()[-2:] == [
        "Kueue   v1           1      0  0.0%  one",
        "agree 0 of 1",
    ]
    assert printed.err == "1/1 s.jsonl: agree 0 of 1\n"


def test_a_folder_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "all", str(small_folder(tmp_path)), "-o", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["agreed"], found["total"]) == (0, 1)
    assert found["recordings"][0]["engine"] == "Kueue"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"check": "nothing"}, "recording[0].check: expected one of placements, "),
        ({"file": "../s.jsonl"}, "recording[0].file: expected the name of a file beside the index"),
        ({"colour": "red"}, "recording[0].colour: unknown; expected file, check, "),
    ],
)
def test_an_index_that_is_none_is_told_by_field(tmp_path: Path, changes: dict[str, str], says: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_index(small_folder(tmp_path, **changes))
    assert says in str(refused.value)


@pytest.mark.parametrize("text", ["", "recording = 3", "not toml", "[[recording]]\nfile = 3\n"])
def test_bad_indexes(tmp_path: Path, text: str) -> None:
    (tmp_path / INDEX).write_text(text)
    with pytest.raises(InvalidInput):
        read_index(tmp_path)
