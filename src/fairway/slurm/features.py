"""What `--constraint` asks of nodes: `h100&ib`, `a|b`, `[a|b]`, `(a|b)&c`, `a*2&b*4`.

Source: build_feature_list and _valid_feature_counts in src/slurmctld/job_mgr.c, 22.05.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

_TOKEN = re.compile(r"[^&|,()\[\]*]+|[&|,()\[\]]|\*\d+")
MAX_LENGTH = 1_024


@dataclass(frozen=True, slots=True)
class Features:
    """Alternatives tried one after the other (more than one: all nodes of one kind), each an OR of ANDs."""

    alternatives: tuple[tuple[frozenset[str], ...], ...]
    names: frozenset[str]
    counts: tuple[tuple[str, int], ...] = ()
    """`a*2`: so many nodes with that feature; others need not have it."""

    def counted(self, features: Iterable[str]) -> bool:
        """Does a node count for one of the counted features, or as one beyond them?"""
        plain = self.names - {name for name, _ in self.counts}
        return bool(plain <= frozenset(features)) if plain else True

    def matching(self, features: Iterable[str], alternative: int) -> bool:
        have = frozenset(features)
        return any(all_of <= have for all_of in self.alternatives[alternative])


@lru_cache(1 << 14)
def parse(text: str) -> Features | None:
    """The constraint; None for one that cannot be read."""
    tokens = _TOKEN.findall(text)
    if not tokens or "".join(tokens) != text or len(text) > MAX_LENGTH or text.count("[") != text.count("]"):
        return None
    if len(tokens) > 1 and tokens[-1] in ("&", ","):  # nothing after it is asked for
        tokens.pop()
    counts = tuple((tokens[i - 1], int(t[1:])) for i, t in enumerate(tokens) if t[0] == "*" and i)
    words = [token for token in tokens if token[0] != "*"]
    if (
        "[" not in words and "&" in words
    ):  # outside of brackets a count changes nothing: each node has all of them
        counts = ()
    exclusive = words[0] == "[" and words[-1] == "]" and "|" in words
    words = [word for word in words if word not in "[]"]
    reader = _Reader(words)
    either = reader.either()
    if either is None or reader.at != len(words):
        return None
    names = frozenset(word for word in words if word not in "&|,()")
    alternatives = tuple((one,) for one in either) if exclusive else (tuple(either),)
    return Features(alternatives, names, counts)


class _Reader:
    """or := and ('|' and)*; and := one (('&' | ',') one)*; one := NAME | '(' or ')'. Each gives an OR of ANDs.

    Parentheses within parentheses are refused (build_feature_list, job_scheduler.c).
    """

    def __init__(self, words: list[str]) -> None:
        self.words, self.at, self.within = words, 0, False

    def _next(self) -> str:
        return self.words[self.at] if self.at < len(self.words) else ""

    def either(self) -> list[frozenset[str]] | None:
        found = self.all_of()
        while found is not None and self._next() == "|":
            self.at += 1
            more = self.all_of()
            found = None if more is None else found + more
        return found

    def all_of(self) -> list[frozenset[str]] | None:
        found = self.one()
        while found is not None and self._next() in ("&", ","):
            self.at += 1
            more = self.one()
            found = (
                None if more is None or len(found) * len(more) > 64 else [a | b for a in found for b in more]
            )
        return found

    def one(self) -> list[frozenset[str]] | None:
        word = self._next()
        self.at += 1
        if word == "(" and not self.within:
            self.within = True
            found = self.either()
            self.within = False
            closed = self._next() == ")"
            self.at += 1
            return found if closed else None
        return [frozenset((word,))] if word and word not in "&|,()" else None
