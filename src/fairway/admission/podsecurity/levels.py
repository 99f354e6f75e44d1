"""What a namespace's `pod-security.kubernetes.io/…` labels ask for.

Source: pod-security-admission api/helpers.go, api/constants.go (v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

PRIVILEGED, BASELINE, RESTRICTED = "privileged", "baseline", "restricted"
LEVELS = (PRIVILEGED, BASELINE, RESTRICTED)
PREFIX = "pod-security.kubernetes.io/"
LATEST = -1

_VERSION = re.compile(r"v1\.([0-9]|[1-9][0-9]*)")


class LevelVersion(NamedTuple):
    """`minor` is the Kubernetes minor version the level is pinned to, or LATEST."""

    level: str = PRIVILEGED
    minor: int = LATEST

    def __str__(self) -> str:
        return f"{self.level}:{'latest' if self.minor == LATEST else f'v1.{self.minor}'}"


class Policy(NamedTuple):
    """`problems` are the labels that make no sense, as field errors (`label: Invalid value: …`)."""

    enforce: LevelVersion = LevelVersion()
    audit: LevelVersion = LevelVersion()
    warn: LevelVersion = LevelVersion()
    problems: tuple[str, ...] = ()

    @property
    def is_privileged(self) -> bool:
        return all(mode.level == PRIVILEGED for mode in (self.enforce, self.audit, self.warn))


_OPEN = Policy()


def policy_of(labels: Mapping[str, str]) -> Policy:
    """The policy a namespace asks for. A broken enforce level counts as restricted, the others as privileged."""
    if not any(label.startswith(PREFIX) for label in labels):
        return _OPEN
    problems: list[str] = []
    enforce = _mode(labels, "enforce", RESTRICTED, problems)
    audit = _mode(labels, "audit", PRIVILEGED, problems)
    warn = _mode(labels, "warn", PRIVILEGED, problems)
    if f"{PREFIX}warn" not in labels and labels.get(f"{PREFIX}enforce") in (BASELINE, RESTRICTED):
        # Whoever enforces and says nothing about warnings is warned of what would be refused in pods.
        pinned = f"{PREFIX}warn-version" in labels
        warn = LevelVersion(enforce.level, warn.minor if pinned else enforce.minor)
    return Policy(enforce, audit, warn, tuple(problems))


def _mode(labels: Mapping[str, str], mode: str, otherwise: str, problems: list[str]) -> LevelVersion:
    label = f"{PREFIX}{mode}"
    level = labels.get(label, PRIVILEGED)
    if level not in LEVELS:
        problems.append(_problem(label, level, f"must be one of {', '.join(LEVELS)}"))
        level = otherwise
    return LevelVersion(level, _minor(labels, mode, problems))


def _minor(labels: Mapping[str, str], mode: str, problems: list[str]) -> int:
    label = f"{PREFIX}{mode}-version"
    value = labels.get(label)
    if value is None or value == "latest":
        return LATEST
    found = _VERSION.fullmatch(value)
    if found is None:
        problems.append(_problem(label, value, 'must be "latest" or "v1.x"'))
        return LATEST
    return int(found[1])


def _problem(label: str, value: str, why: str) -> str:
    return f'metadata.labels[{label}]: Invalid value: "{value}": {why}'
