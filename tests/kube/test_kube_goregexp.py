"""Patterns are Go's: what it reads, what it refuses in which words, and never slower than linear."""

from __future__ import annotations

import pytest

from fairway.kube.cel.functions.quantities import _is_semver as is_semver
from fairway.kube.goregexp import RegexpError, compiled, is_match
from fairway.kube.labelparsing import parse_selector
from fairway.kube.labels import SelectorError

# What go 1.24's regexp.Compile says of each.
REFUSED = {
    "(": "missing closing ): `(`",
    "a(b(": "missing closing ): `a(b(`",
    "a)": "unexpected ): `a)`",
    "[a": "missing closing ]: `[a`",
    "x[a-": "missing closing ]: `[a-`",
    "*": "missing argument to repetition operator: `*`",
    "a**": "invalid nested repetition operator: `**`",
    "a{2}{3}": "invalid nested repetition operator: `{2}{3}`",
    "a{1001}": "invalid repeat count: `{1001}`",
    "a{5,2}": "invalid repeat count: `{5,2}`",
    "((a{100}){100}){100}": "invalid repeat count: `{100}`",
    "[z-a]": "invalid character class range: `z-a`",
    r"\pX": r"invalid character class range: `\pX`",
    "[[:foo:]]": "invalid character class range: `[:foo:]`",
    r"\q": r"invalid escape sequence: `\q`",
    "ab\\": "trailing backslash at end of expression: ``",
    "(?=a)": "invalid or unsupported Perl syntax: `(?=`",
    "(?P=n)": "invalid or unsupported Perl syntax: `(?P`",
    "(?i": "invalid or unsupported Perl syntax: `(?i`",
    "(?P<1": "invalid named capture: `(?P<1`",
}
# Pattern, text, whether it is found.
FOUND = {
    "a flag in the middle, as in Kueue's CRDs": ("^(?i)[a-z]+$", "ABC", True),
    "dollar is the very end": ("^a$", "a\n", False),
    "classes of POSIX": ("^[[:alpha:]]+$", "abc", True),
    "classes of Unicode": (r"^\pL+$", "straße", True),
    "\\d is ASCII": (r"^\d$", "٣", False),
    "groups of many": ("^(a{100}){10}$", "a" * 1000, True),
    "nothing matches what cannot be read": ("(", "(", False),
}
# What `re` takes hours for, each with a text of a million letters.
SLOW = {
    "nested repetition": ("^(a+)+$", "a" * 1_000_000 + "!"),
    "alternatives that are the same": ("^(a|a)*$", "a" * 1_000_000 + "!"),
    "two repetitions side by side": ("(x+x+)+y", "x" * 1_000_000),
}


@pytest.mark.parametrize("pattern", REFUSED)
def test_what_go_refuses_is_refused_in_its_words(pattern: str) -> None:
    with pytest.raises(RegexpError) as refused:
        compiled(pattern)
    assert str(refused.value) == f"error parsing regexp: {REFUSED[pattern]}"


@pytest.mark.parametrize("name", FOUND)
def test_what_is_found(name: str) -> None:
    pattern, text, want_found = FOUND[name]
    assert is_match(pattern, text) is want_found


@pytest.mark.parametrize("name", SLOW)
def test_no_pattern_backtracks(name: str) -> None:
    assert not is_match(*SLOW[name])


def test_our_own_patterns_read_a_long_text_once() -> None:
    """Quadratic in blanks, digits or dots would be minutes for each of these."""
    with pytest.raises(SelectorError):
        parse_selector(" " * 1_000_000 + "&")
    for text in ("1" * 1_000_000, "a" * 1_000_000):
        assert is_semver(f"1.2.3-{text}") is True
        assert is_semver(f"1.2.3-{text}!") is False
