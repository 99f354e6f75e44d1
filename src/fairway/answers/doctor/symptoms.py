"""The symptoms and their checks, as `symptoms.toml` has them."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_FILE = Path(__file__).with_name("symptoms.toml")


@dataclass(frozen=True, slots=True)
class Check:
    """`name` of a function, the `command` that shows it by hand, the `signal` of a cluster that is well, the `fix`."""

    name: str
    command: str
    signal: str
    fix: str


@dataclass(frozen=True, slots=True)
class Alert:
    """A Prometheus rule: `expr` held for `for_`."""

    name: str
    expr: str
    for_: str

    def rule(self, summary: str) -> dict[str, object]:
        """As a rule file has it."""
        return {"alert": self.name, "expr": self.expr, "for": self.for_, "annotations": {"summary": summary}}


@dataclass(frozen=True, slots=True)
class Symptom:
    name: str
    title: str
    checks: tuple[Check, ...]
    alert: Alert | None


@cache
def symptoms() -> tuple[Symptom, ...]:
    """In the order in which they are looked at."""
    found = tomllib.loads(_FILE.read_text(encoding="utf-8"))["symptom"]
    return tuple(
        Symptom(
            one["name"],
            one["title"],
            tuple(Check(c["check"], c["command"], c["signal"], c["fix"]) for c in one["check"]),
            Alert(a["name"], a["expr"], a["for"]) if (a := one.get("alert")) else None,
        )
        for one in found
    )
