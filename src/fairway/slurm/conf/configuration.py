"""A site's configuration, read: nodes, partitions, settings, and what was not understood."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fairway.errors import FieldProblem
from fairway.slurm.model.node import NodeConf
from fairway.slurm.model.partition import Partition

NUMBERS = frozenset((
    "defmempercpu", "defmempernode", "firstjobid", "jobrequeue", "killwait", "maxarraysize", "messagetimeout",
    "minjobage", "overtimelimit", "priorityweightage", "priorityweightassoc", "priorityweightfairshare",
    "priorityweightjobsize", "priorityweightpartition", "priorityweightqos",
))  # fmt: skip
"""Settings that are integers and are used (lower case)."""
MOST_DIGITS = 18


def is_number(text: str) -> bool:
    return text.upper() in ("INFINITE", "UNLIMITED") or (
        text.isascii() and text.removeprefix("-").isdecimal() and len(text) <= MOST_DIGITS
    )


@dataclass(slots=True)
class Switch:
    """A line of topology.conf."""

    name: str
    nodes: tuple[str, ...] = ()
    switches: tuple[str, ...] = ()
    speed: int = 1


@dataclass(slots=True)
class Configuration:
    """`settings`: lower-case key → value as written, without NodeName and PartitionName lines."""

    settings: dict[str, str] = field(default_factory=dict)
    nodes: list[NodeConf] = field(default_factory=list)
    partitions: list[Partition] = field(default_factory=list)
    node_sets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    topology: list[Switch] = field(default_factory=list)
    cgroup: dict[str, str] = field(default_factory=dict)
    problems: list[FieldProblem] = field(default_factory=list)
    """What Slurm would not understand, or Fairway does not: named, left out."""
    texts: dict[str, str] = field(default_factory=dict)
    """File name → text, as read."""
    read: dict[tuple[str, ...], Any] = field(default_factory=dict)
    """Settings once asked for, as they were understood; `set` empties it."""

    def set(self, key: str, value: str) -> None:
        self.settings[key.lower()] = value
        self.read.clear()

    def get(self, key: str, default: str = "") -> str:
        """A setting, `default` where it is not set."""
        return self.settings.get(key.lower(), default)

    def number(self, key: str, default: int) -> int:
        """An integer setting; INFINITE/UNLIMITED is 4294967295."""
        found: tuple[int | None] | None = self.read.get((key, "#"))
        if found is None:
            text = self.get(key)
            if text.upper() in ("INFINITE", "UNLIMITED", "-1"):
                found = (0xFFFFFFFF,)
            else:
                found = (int(text) if is_number(text) else None,)
            self.read[key, "#"] = found
        return default if found[0] is None else found[0]

    def is_on(self, key: str, default: bool = False) -> bool:
        text = self.get(key).upper()
        return text in ("YES", "Y", "TRUE", "T", "UP", "1") if text else default

    def words(self, key: str) -> tuple[str, ...]:
        """A comma list, lower case."""
        found: tuple[str, ...] | None = self.read.get((key,))
        if found is None:
            found = tuple(word.strip().lower() for word in self.get(key).split(",") if word.strip())
            self.read[key,] = found
        return found

    def parameter(self, name: str, default: int, key: str = "SchedulerParameters") -> int:
        """`name=N` of SchedulerParameters or another list of options."""
        options: dict[str, int] | None = self.read.get((key, "="))
        if options is None:
            options = {}
            for word in self.words(key):
                option, equals, value = word.partition("=")
                if equals and is_number(value):
                    options.setdefault(option, int(value) if value[-1:].isdecimal() else 0xFFFFFFFF)
            self.read[key, "="] = options
        return options.get(name, default)

    def has_option(self, name: str, key: str = "SchedulerParameters") -> bool:
        return name in self.words(key)

    @property
    def saves_power(self) -> bool:
        """Are idle nodes shut down? Needs both programs and a time. Source: power_save.c, _init_power_config."""
        programs = self.get("SuspendProgram") and self.get("ResumeProgram")
        return bool(programs) and self.number("SuspendTime", 0xFFFFFFFF) != 0xFFFFFFFF

    @property
    def select_parameters(self) -> frozenset[str]:
        """SelectTypeParameters, upper case."""
        found: frozenset[str] | None = self.read.get(("select",))
        if found is None:
            found = frozenset(word.upper() for word in self.words("SelectTypeParameters"))
            self.read["select",] = found
        return found

    @property
    def select_units(self) -> str:
        """What is handed out: `socket`, `core` or `cpu`."""
        found: str | None = self.read.get(("units",))
        if found is None:
            words, found = self.select_parameters, "core"
            for unit in ("cpu", "core", "socket"):
                if any(word.startswith(f"CR_{unit.upper()}") for word in words):
                    found = unit
            self.read["units",] = found
        return found

    @property
    def tracked(self) -> tuple[str, ...]:
        """AccountingStorageTRES beyond the static ones, in order."""
        found: tuple[str, ...] | None = self.read.get(("tracked",))
        if found is None:
            static = {"cpu", "mem", "energy", "node", "billing", "fs/disk", "vmem", "pages"}
            found = tuple(word for word in self.words("AccountingStorageTRES") if word not in static)
            self.read["tracked",] = found
        return found

    @property
    def enforce(self) -> frozenset[str]:
        """What AccountingStorageEnforce implies: associations, limits, qos, safe, wckeys, nojobs, nosteps."""
        known: frozenset[str] | None = self.read.get(("enforce",))
        if known is not None:
            return known
        words = set(self.words("AccountingStorageEnforce"))
        if "all" in words:
            words |= {"associations", "limits", "qos", "safe", "wckeys"}
        if words & {"1", "safe"}:
            words |= {"limits"}
        if words & {"limits", "qos", "wckeys"}:
            words |= {"associations"}
        found: frozenset[str] = frozenset(words - {"0", "none"})
        self.read["enforce",] = found
        return found
