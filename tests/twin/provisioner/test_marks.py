"""What Karpenter remembers of claims between its looks."""

from __future__ import annotations

from typing import Any

from fairway.twin.provisioner.marking import Marks


def claim(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}}


def test_what_was_written_here_is_no_news_once() -> None:
    marks, written = Marks(), claim("a")
    marks.rest("a", written, 70)
    assert (marks.hear(written), list(marks.stale)) == (False, [])
    assert (marks.hear(written), list(marks.stale)) == (True, ["a"])
    marks.rest("a", claim("a"), 70)
    # Somebody else wrote after it: both are news.
    assert (marks.hear(claim("a")), marks.hear(written)) == (True, True)


def test_a_rest_that_begins_anew_ends_the_old_one() -> None:
    marks = Marks()
    assert marks.due_us is None
    marks.ripe["a"] = None
    marks.rest("a", claim("a"), 70)
    assert (marks.due_us, list(marks.ripe)) == (70, [])
    marks.rest("b", claim("b"), 60)
    marks.rest("b", claim("b"), 60)
    assert (marks.due_us, marks._resting) == (60, [(60, "b"), (70, "a")])
    marks.rest("a", claim("a"), 90)
    assert marks._due_us == {"a": 90, "b": 60}
    assert sorted(marks._resting) == [(60, "b"), (70, "a"), (90, "a")]


def test_a_claim_that_goes_is_forgotten() -> None:
    marks, written = Marks(), claim("a")
    marks.rest("a", written, 70)
    marks.rest("b", claim("b"), 80)
    marks.ripe |= {"a": None, "b": None}
    marks.forget("a")
    assert (list(marks.ripe), marks._due_us) == (["b"], {"b": 80})
    assert marks.hear(written)
    marks.forget("never")


def test_a_copy_remembers_by_itself() -> None:
    marks = Marks()
    marks.rest("a", claim("a"), 70)
    marks.ripe["b"] = marks.stale["c"] = None
    twin = marks.copy()
    assert (twin.due_us, list(twin.ripe), list(twin.stale), twin._due_us) == (70, ["b"], ["c"], {"a": 70})
    twin.forget("b")
    twin.stale.clear()
    twin.rest("a", claim("a"), 20)
    assert (marks.due_us, list(marks.ripe), list(marks.stale), marks._due_us) == (70, ["b"], ["c"], {"a": 70})
