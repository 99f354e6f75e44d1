"""Options as GNU getopt_long reads them, with its complaints."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import NoReturn

from fairway.slurm.commands.call import Call


@dataclass(frozen=True, slots=True)
class Option:
    """argument: `none`, `required` or `optional`."""

    name: str
    letter: str = ""
    argument: str = "none"
    variables: tuple[str, ...] = ()
    """Environment variables that set it."""
    how: str = ""
    """The kind of its value where Slurm's source says so by a macro: `int:--mincpus`, `string`, `bool`, `mbytes:…`."""

    @property
    def key(self) -> str:
        return self.name or self.letter


@cache
def job_options(command: str) -> tuple[Option, ...]:
    """What salloc, sbatch or srun take, from Slurm's own table."""
    text = files("fairway.slurm").joinpath("data/options.tsv").read_text(encoding="utf-8")
    found = []
    for line in text.splitlines()[1:]:
        name, letter, argument, commands, variables, how = line.split("\t")
        if command in commands.split(","):
            own = tuple(v.partition("=")[2] for v in variables.split(",") if v.startswith(command + "="))
            found.append(Option(name, letter, argument, own, how))
    return tuple(found)


def short_table(text: str) -> tuple[Option, ...]:
    """Options written as `account:A: all:a me`: name, letter, `:` for an argument, `?` for one that may be."""
    found = []
    for word in text.split():
        kind = {":": "required", "?": "optional"}.get(word[-1], "none")
        name, _, letter = word.rstrip(":?").partition(":")
        found.append(Option(name, letter, kind))
    return tuple(found)


@dataclass(slots=True)
class Parsed:
    """Options in the order given, and what is left over."""

    options: list[tuple[Option, str | None]]
    rest: list[str]

    def __iter__(self) -> Iterator[tuple[str, str | None]]:
        return ((option.key, value) for option, value in self.options)


def parse(
    call: Call,
    table: Sequence[Option],
    arguments: Sequence[str],
    *,
    permute: bool = True,
    bad: int = 1,
    hint: bool = True,
) -> Parsed:
    """Read `arguments`. permute: operands may stand between options; bad: the exit code of a complaint."""
    reading = _Reading(call, table, deque(arguments), bad, hint)
    found: list[tuple[Option, str | None]] = []
    rest: list[str] = []
    while reading.left:
        word = reading.left.popleft()
        if word == "--":
            break
        if word.startswith("--"):
            found.append(reading.long(word))
        elif word.startswith("-") and len(word) > 1:
            found.extend(reading.short(word[1:]))
        elif permute:
            rest.append(word)
        else:
            reading.left.appendleft(word)
            break
    return Parsed(found, [*rest, *reading.left])


class _Reading:
    def __init__(self, call: Call, table: Sequence[Option], left: deque[str], bad: int, hint: bool) -> None:
        self.call, self.left, self.bad, self.hint = call, left, bad, hint
        self.names = {option.name: option for option in table if option.name}
        self.letters = {option.letter: option for option in table if option.letter}

    def long(self, word: str) -> tuple[Option, str | None]:
        name, equals, value = word[2:].partition("=")
        option = self.names.get(name)
        if option is None:
            near = sorted(n for n in self.names if n.startswith(name))
            if not near:
                self.complain(f"unrecognized option '{word}'")
            if len({self.names[n].letter or n for n in near}) > 1:
                said = " ".join(f"'--{n}'" for n in near)
                self.complain(f"option '{word}' is ambiguous; possibilities: {said}")
            option = self.names[near[0]]
        if option.argument == "none" and equals:
            self.complain(f"option '--{option.name}' doesn't allow an argument")
        if option.argument == "required" and not equals:
            if not self.left:
                self.complain(f"option '--{option.name}' requires an argument")
            return option, self.left.popleft()
        return option, value if equals else None

    def short(self, word: str) -> Iterator[tuple[Option, str | None]]:
        for at, letter in enumerate(word, 1):
            option = self.letters.get(letter)
            if option is None:
                self.complain(f"invalid option -- '{letter}'")
            if option.argument == "none":
                yield option, None
                continue
            if option.argument == "required" and at == len(word):
                if not self.left:
                    self.complain(f"option requires an argument -- '{letter}'")
                yield option, self.left.popleft()
            else:
                yield option, word[at:] or None
            return

    def complain(self, text: str) -> NoReturn:
        self.call.say(f"{self.call.name}: {text}")
        if self.hint:
            self.call.say(f'Try "{self.call.name} --help" for more information')
        self.call.quit(self.bad)
