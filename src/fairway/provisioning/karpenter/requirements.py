"""What must a node's labels be? Requirements on several labels, and whether two such wishes go together.

`Requirements` are values: hashable, so what they filter (instance types, offerings) is computed once per value.

Source: pkg/scheduling/requirements.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from fairway.provisioning.karpenter.labels import NORMALIZED, RESTRICTED
from fairway.provisioning.karpenter.requirement import (
    DOES_NOT_EXIST,
    EXISTS,
    IN,
    NOT_IN,
    Requirement,
    one_of,
    requirement,
)

NO_LABELS: Final[frozenset[str]] = frozenset()


class Requirements:
    """Requirements by key; all must hold. Immutable."""

    __slots__ = ("_by_key", "_hash")

    def __init__(self, items: Iterable[Requirement] = ()) -> None:
        by_key: dict[str, Requirement] = {}
        for item in items:
            there = by_key.get(item.key)
            by_key[item.key] = item if there is None else item.intersection(there)
        self._by_key = by_key
        self._hash: int | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """By its parts; see `Requirement`."""
        return (Requirements, (tuple(self._by_key.values()),))

    def __iter__(self) -> Iterator[Requirement]:
        return iter(self._by_key.values())

    def __len__(self) -> int:
        return len(self._by_key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Requirements) and self._by_key == other._by_key

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self._by_key.values()))
        return self._hash

    def __contains__(self, key: str) -> bool:
        return key in self._by_key

    def keys(self) -> list[str]:
        return sorted(self._by_key)

    def find(self, key: str) -> Requirement | None:
        return self._by_key.get(key)

    def get(self, key: str) -> Requirement:
        """The requirement on this label; none given: any value."""
        found = self._by_key.get(key)
        return Requirement(key, True, frozenset()) if found is None else found

    def plus(self, other: Iterable[Requirement]) -> Requirements:
        """Both wishes: the intersection per key."""
        return Requirements([*self._by_key.values(), *other])

    def replacing(self, item: Requirement) -> Requirements:
        rest = [r for r in self._by_key.values() if r.key != item.key]
        return Requirements([*rest, item])

    def without(self, *keys: str) -> Requirements:
        return Requirements(r for r in self._by_key.values() if r.key not in keys)

    @property
    def has_min_values(self) -> bool:
        return any(r.min_values is not None for r in self._by_key.values())

    def incompatible(self, wanted: Requirements, allow_undefined: frozenset[str] = NO_LABELS) -> str | None:
        """Why a node with these labels does not do for `wanted`; None where it may.

        A label that only `wanted` has is denied, unless it is well known or wanted absent.
        """
        for key in wanted.keys():  # noqa: SIM118
            if key in allow_undefined or key in self._by_key:
                continue
            if wanted.get(key).operator not in (NOT_IN, DOES_NOT_EXIST):
                return f'label "{key}" does not have known values{self._hint(key, allow_undefined)}'
        return self.conflict(wanted)

    def is_compatible(self, wanted: Requirements, allow_undefined: frozenset[str] = NO_LABELS) -> bool:
        for key, asked in wanted._by_key.items():
            have = self._by_key.get(key)
            if have is None:
                if key not in allow_undefined and asked.operator not in (NOT_IN, DOES_NOT_EXIST):
                    return False
            elif not have.intersects(asked) and not _both_absent(have, asked):
                return False
        return True

    def conflict(self, wanted: Requirements) -> str | None:
        """The labels on which both say something and nothing suits both."""
        found = []
        for key in sorted(self._by_key.keys() & wanted._by_key.keys()):
            have, asked = self._by_key[key], wanted._by_key[key]
            if not have.intersects(asked) and not _both_absent(have, asked):
                found.append(f"key {key}, {asked} not in {have}")
        return "; ".join(found) or None

    def _hint(self, key: str, allowed: frozenset[str]) -> str:
        suffix = key.partition("/")[2] or key
        for known in (*sorted(allowed), *self.keys()):
            if key in known or known.endswith(suffix):
                return f' (typo of "{known}"?)'
        return ""

    def as_selectors(self) -> list[dict[str, Any]]:
        return [s for key in self.keys() for s in self._by_key[key].as_selectors()]

    def __str__(self) -> str:
        return ", ".join(sorted(str(r) for r in self._by_key.values() if r.key not in RESTRICTED))

    def __repr__(self) -> str:
        return f"Requirements({self})"


def _both_absent(have: Requirement, asked: Requirement) -> bool:
    absent = (NOT_IN, DOES_NOT_EXIST)
    return asked.operator in absent and have.operator in absent


def label_requirements(labels: Mapping[str, str] | None) -> Requirements:
    return Requirements(one_of(NORMALIZED.get(k, k), (v,)) for k, v in (labels or {}).items())


def selector_requirements(selectors: Iterable[Mapping[str, Any]] | None) -> Requirements:
    """From `matchExpressions` or a NodePool's `requirements`."""
    return Requirements(
        requirement(
            str(s.get("key") or ""),
            str(s.get("operator") or ""),
            [str(v) for v in s.get("values") or ()],
            s.get("minValues"),
        )
        for s in selectors or ()
    )


def affinity_requirements(spec: Mapping[str, Any], *, with_preferred: bool) -> Requirements:
    """A pod's node selector, its first required term and, if asked for, its heaviest preferred one.

    Relaxing removes the term in front, so the next one gets its turn.
    """
    wanted = label_requirements(spec.get("nodeSelector"))
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    preferred = affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    if with_preferred and preferred:
        heaviest = max(preferred, key=lambda p: p.get("weight") or 0)
        wanted = wanted.plus(
            selector_requirements((heaviest.get("preference") or {}).get("matchExpressions"))
        )
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = required.get("nodeSelectorTerms") or ()
    if terms:
        wanted = wanted.plus(selector_requirements(terms[0].get("matchExpressions")))
    return wanted


__all__ = [
    "EXISTS",
    "IN",
    "NO_LABELS",
    "Requirements",
    "affinity_requirements",
    "label_requirements",
    "selector_requirements",
]
