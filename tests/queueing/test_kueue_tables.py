"""Rows of Kueue's own decision tables, where they are at hand, and the reader of such rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairway.cli.verify_kueue_cmd import kueue_table
from fairway.errors import InvalidInput
from fairway.twin.recordings.kueue_tables import verify_table

SHARED = Path(__file__).parents[2].parent / "shared" / "conformance" / "kueue"
TABLES = sorted(SHARED.glob("*.jsonl"))


@pytest.mark.skipif(not TABLES, reason="../shared/conformance/kueue is not there")
def test_all_rows_agree() -> None:
    for file in TABLES:
        result = verify_table(file)
        assert [d.text() for d in result.differences] == []
        assert result.inapplicable == []
        assert result.agreed == result.total > 0


def test_a_row_that_disagrees_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "table.jsonl"
    file.write_text(
        '{"suite": "TestFairPreemptions", "name": "nobody goes", "targetCQ": "a", "wantPreempted": ["/x:y"],'
        ' "clusterQueues": [{"metadata": {"name": "a"}, "spec": {"resourceGroups": []}}], "admitted": [],'
        ' "incoming": {"metadata": {"name": "w"}, "spec": {"podSets": [{"name": "main", "count": 1,'
        ' "template": {"spec": {"containers": []}}}]}}}\n'
    )
    assert kueue_table(file, True) == 1
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "line 1 nobody goes: wantPreempted"
    assert printed[-1] == "agree 0 of 1"


def test_a_row_of_an_unknown_suite_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "table.jsonl"
    file.write_text('{"suite": "TestOther", "name": "strange"}\n')
    assert kueue_table(file, False) == 1
    assert "strange: not applicable: no runner for suite 'TestOther'" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["not json\n", "[1]\n", "{}\n"])
def test_a_file_that_is_no_table_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "table.jsonl"
    file.write_text(text)
    with pytest.raises(InvalidInput):
        verify_table(file)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput):
        verify_table(tmp_path / "none.jsonl")
