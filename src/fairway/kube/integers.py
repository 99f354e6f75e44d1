"""Which number does a text say? Annotations, labels and queries are texts that anybody may write.

`str.isdigit` is true of `²`, and `int` refuses 5,000 digits: neither may reach who only asks for a count.
"""

from __future__ import annotations

# Whatever has more does not fit into Go's int64 (or is its last tenth, which nobody counts to).
_MAX_DIGITS = 18


def natural(text: str | None) -> int | None:
    """0 or more in decimal digits and nothing else; None where it is not that."""
    if not text or len(text) > _MAX_DIGITS or not text.isascii() or not text.isdigit():
        return None
    return int(text)


def integer(text: str | None) -> int | None:
    """As Go's strconv.ParseInt reads it: a sign may come first."""
    if text and text[0] in "+-":
        found = natural(text[1:])
        return -found if found is not None and text[0] == "-" else found
    return natural(text)
