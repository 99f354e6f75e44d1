"""Files that somebody else wrote: they hang nothing, lead nowhere, steer no terminal and no spreadsheet."""

from __future__ import annotations

import csv
import os
import re
import stat
from io import StringIO
from pathlib import Path

import pytest

from fairway.cli.main import main
from fairway.kube.plaintext import plain_cell, plain_frame, printed
from fairway.results.htmlpage import page
from fairway.results.textlayout import Line, as_text

SPEC = "spec: {containers: [{name: c, image: i, command: [sleep, '1']}]}"
POD = f"apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\n{SPEC}\n"


def test_a_pipe_in_a_folder_is_not_waited_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pod.yaml").write_text(POD)
    os.mkfifo(tmp_path / "endless.yaml")
    assert main(["simulate", str(tmp_path)]) == 2
    assert "endless.yaml" in (said := capsys.readouterr().err) and "not a file" in said


def test_a_pipe_that_is_named_is_not_waited_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "pod.yaml")
    assert main(["simulate", str(tmp_path / "pod.yaml")]) == 2
    assert "not a file" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["pod.yaml", "scenario.yaml"])
def test_a_link_out_of_a_folder_shows_nothing_of_what_it_leads_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (secret := tmp_path / "secret").write_text("root:$6$hash: [\n")
    (folder := tmp_path / "given").mkdir()
    (folder / "pod2.yaml").write_text(POD)
    (folder / name).symlink_to(secret)
    assert main(["simulate", str(folder)]) == 2
    said = capsys.readouterr()
    assert "symbolic link that leads out of the folder" in said.err
    assert "hash" not in said.out + said.err


def test_a_link_within_a_folder_is_followed(tmp_path: Path) -> None:
    """ConfigMaps are mounted so."""
    (tmp_path / "..data").mkdir()
    (tmp_path / "..data" / "pod.yaml").write_text(POD)
    (tmp_path / "pod.yaml").symlink_to("..data/pod.yaml")
    assert main(["simulate", "-q", str(tmp_path)]) == 0


ESCAPE = "\x1b]0;owned\x07\x1b[2J\r\x1b[31mred\u202e"


def test_no_name_reaches_the_terminal_as_a_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = f'apiVersion: v1\nkind: Pod\nmetadata: {{name: "{ESCAPE.encode("unicode_escape").decode()}"}}\nspec: {{}}\n'
    (tmp_path / f"a{ESCAPE[1:6].replace('/', '')}.yaml").write_text(bad)
    main(["simulate", str(tmp_path)])
    main([ESCAPE])
    said = capsys.readouterr()
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", said.out + said.err)
    assert "\\x1b" in said.err


def test_colours_are_ours_alone() -> None:
    assert as_text([Line("a\x1b[31mb", "bad")], colour=True) == "\x1b[31;1ma\\x1b[31mb\x1b[0m\n"
    assert printed("naïve – ö\n\t") == "naïve – ö\n\t"


CELLS = {
    "=cmd|' /C calc'!A0": "'=cmd|' /C calc'!A0",
    "@SUM(A1)": "'@SUM(A1)",
    "+1+1": "'+1+1",
    "\tx": "'\tx",
    "-5": "-5",
    "+3.25": "+3.25",
    "team-a": "team-a",
    "": "",
}


def test_a_formula_is_a_text() -> None:
    import polars as pl

    assert {text: plain_cell(text) for text in CELLS} == CELLS
    frame = plain_frame(pl.DataFrame({"text": list(CELLS), "number": range(len(CELLS))}))
    assert dict(zip(CELLS, frame["text"], strict=True)) == CELLS


def test_traces_come_back_as_they_were(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text('{"job_id": "=cmd|x", "submit_time": 0, "run_time": 60, "gpus": 1, "user": "@u"}\n')
    assert main(["trace", "convert", str(source), "--to", str(tmp_path / "out.csv")]) == 0
    text = (tmp_path / "out.csv").read_text()
    cells = next(csv.DictReader(StringIO(text)))
    assert cells["job_id"] == "'=cmd|x"
    assert main(["trace", "convert", str(tmp_path / "out.csv"), "--to", str(tmp_path / "back.jsonl")]) == 0
    assert '"=cmd|x"' in (tmp_path / "back.jsonl").read_text()


def test_a_report_runs_its_own_script_alone() -> None:
    text = page("t", "<p></p>", {})
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    import base64
    import hashlib

    script = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)[-1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"'sha256-{digest}'" in policy


def test_what_a_server_writes_down_is_its_owners(tmp_path: Path) -> None:
    from fairway.apiserver.folders import announce, take

    before = os.umask(0)
    try:
        (tmp_path / "lock").write_text("")
        (tmp_path / "lock").chmod(0o644)
        with take(tmp_path):
            announce(tmp_path, "https://x", tmp_path / "kubeconfig")
    finally:
        os.umask(before)
    for name in ("lock", "server.json"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600, name
