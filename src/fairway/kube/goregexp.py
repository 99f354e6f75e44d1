"""Which texts does a regular expression of Go match? RE2's syntax, and its promise: time linear in the text.

Kubernetes runs patterns that users write (a CRD's `pattern`, `find` in CEL, a JobSet's failure policy) with Go's
`regexp`, which never backtracks. Python's `re` does: `^(a+)+$` on thirty letters takes it minutes. RE2 is what Go's
package was made after, with the same syntax (`(?i)` anywhere, `\\z`, `[[:alpha:]]`, `\\pL`; no look-around).

Unlike Go: `\\C` (one byte) is read.

Source: go regexp/syntax/parse.go (1.24); decision 50 says why RE2's own binding.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Protocol


class Pattern(Protocol):
    """What is used of `re2`'s patterns, which are those of `re`."""

    def search(self, text: str) -> Any: ...
    def fullmatch(self, text: str) -> Any: ...
    def finditer(self, text: str) -> Any: ...


class RegexpError(ValueError):
    """What is wrong with a pattern, as Go says it."""


# Memory of one pattern: 80,000 instructions, and the states that its texts lead to.
_MAX_BYTES = 2 * 1024 * 1024
# What RE2 says, and Go's words for the same. Both quote the same part of the pattern behind it.
_WORDS = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
    "pattern too large": "expression too large",
}
_TRAILING = "trailing \\"


@lru_cache(maxsize=256)
def compiled(pattern: str) -> Pattern:
    """Raises: RegexpError."""
    # Loaded with the first pattern: 7 ms that a server without one need not wait for.
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_BYTES
    try:
        found: Pattern = re2.compile(pattern, options)
    except re2.error as broken:
        raise RegexpError(_as_go_says(broken.args[0].decode("utf-8", "replace"))) from None
    except UnicodeEncodeError:
        raise RegexpError("error parsing regexp: invalid UTF-8") from None
    return found


def _as_go_says(said: str) -> str:
    if said == _TRAILING:
        return "error parsing regexp: trailing backslash at end of expression: ``"
    what, _, part = said.partition(": ")
    return f"error parsing regexp: {_WORDS.get(what, what)}: `{part}`"


def is_match(pattern: str, text: str) -> bool:
    """Whether the pattern matches anywhere in the text; never where Go cannot read the pattern."""
    try:
        return compiled(pattern).search(text) is not None
    except (RegexpError, UnicodeEncodeError):
        return False
