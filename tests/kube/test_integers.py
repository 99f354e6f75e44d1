"""Numbers that are texts: what counts as one, and what must not reach `int`."""

from __future__ import annotations

import pytest

from fairway.kube.integers import integer, natural

TEXTS = {
    "0": (0, 0),
    "007": (7, 7),
    "-3": (None, -3),
    "+3": (None, 3),
    "": (None, None),
    "-": (None, None),
    "²": (None, None),
    "٣": (None, None),
    " 3": (None, None),
    "1_0": (None, None),
    "9" * 18: (10**18 - 1, 10**18 - 1),
    "9" * 5000: (None, None),
}


@pytest.mark.parametrize("text", TEXTS)
def test_texts_that_say_a_number(text: str) -> None:
    assert (natural(text), integer(text)) == TEXTS[text]
