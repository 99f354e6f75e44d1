"""`fairway bench openb` without the trace says what it needs."""

from fairway.bench.openb import DIRECTORY, run


def test_without_the_trace_it_says_what_it_needs(monkeypatch):
    monkeypatch.delenv(DIRECTORY, raising=False)
    (row,) = run(quick=True)
    assert "set FAIRWAY_OPENB" in row.reference
