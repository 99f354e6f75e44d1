"""Run directories with and without Polars: other files, the same run."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from runworld import small_run

from fairway import extras
from fairway.errors import InvalidInput, WorldError
from fairway.recorder.tables import PodRow
from fairway.results import frames, plots
from fairway.results.frames import read_table, table_file
from fairway.results.rundir import TABLES, load_run, write_run


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Call it with modules that are then not installed."""

    def lose(*names: str) -> None:
        real = extras.find_spec
        monkeypatch.setattr(extras, "find_spec", lambda name: None if name in names else real(name))

    return lose


def test_a_run_is_the_same_in_either_form(tmp_path: Path, without: Any) -> None:
    run = small_run()
    write_run(tmp_path / "parquet", run.outcome, run.info)
    without("polars")
    write_run(tmp_path / "json", run.outcome, run.info)
    assert table_file(tmp_path / "json", "pods") == tmp_path / "json" / "pods.json.gz"
    found = load_run(tmp_path / "json")
    for name in TABLES:
        assert list(getattr(found.outcome, name)) == list(getattr(run.outcome, name)), name
    with pytest.raises(WorldError, match=r"pip install 'fairway\[cost\]'"):
        load_run(tmp_path / "parquet")


def test_equal_runs_are_equal_bytes(tmp_path: Path, without: Any) -> None:
    without("polars")
    run = small_run()
    for name in ("a", "b"):
        write_run(tmp_path / name, run.outcome, run.info)
    files = sorted(f.name for f in (tmp_path / "a").glob("*.gz"))
    assert "intervals.json.gz" in files
    assert all((tmp_path / "a" / f).read_bytes() == (tmp_path / "b" / f).read_bytes() for f in files)


@pytest.mark.parametrize(
    "content",
    [
        b"no",
        gzip.compress(b"[]"),
        gzip.compress(b'{"columns": {"a": [1], "b": []}}'),
        gzip.compress(b"{}")[:12],
    ],
    ids=["no gzip", "no object", "uneven columns", "cut off"],
)
def test_what_is_no_table(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "pods.json.gz").write_bytes(content)
    with pytest.raises(InvalidInput, match="expected a table of columns in gzipped JSON"):
        read_table(tmp_path / "pods.json.gz", PodRow)


def test_charts_without_pillow_are_svg_only(tmp_path: Path, without: Any) -> None:
    without("PIL")
    names = plots.write_plots(small_run(), tmp_path)
    assert names and sorted(f.name for f in tmp_path.iterdir()) == sorted(f"{name}.svg" for name in names)
    assert "fairway[png]" in plots.forms()


def test_every_extra_is_one_of_the_package() -> None:
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert [extra for extra, _ in extras.EXTRAS.values() if f"\n{extra} = [" not in text] == []
    assert frames.SUFFIXES == (".parquet", ".json.gz")
