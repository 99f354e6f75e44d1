"""sacctmgr: accounts, users, associations and QOS, read and written."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fairway.slurm.commands.call import VERSION, Call
from fairway.slurm.commands.getopt import parse, short_table
from fairway.slurm.commands.prompt import interactive

_OPTIONS = short_table(
    "help:h usage immediate:i noheader:n oneliner:o parsable:p parsable2:P quiet:Q readonly:r associations:s "
    "verbose:v version:V"
)
_ENTITIES = {
    "accounts": 1,
    "associations": 2,
    "clusters": 2,
    "configuration": 2,
    "coordinators": 2,
    "events": 1,
    "federations": 1,
    "problems": 1,
    "qos": 1,
    "reservations": 5,
    "resources": 3,
    "runawayjobs": 2,
    "stats": 1,
    "transactions": 1,
    "tres": 2,
    "users": 1,
    "wckeys": 1,
}
_COMMANDS = {
    "add": 3,
    "create": 3,
    "delete": 2,
    "remove": 3,
    "dump": 2,
    "list": 1,
    "show": 1,
    "modify": 1,
    "load": 2,
}
_COMMANDS |= {
    "version": 3,
    "help": 1,
    "exit": 1,
    "quit": 4,
    "clear": 2,
    "reconfigure": 4,
    "shutdown": 4,
    "archive": 2,
}
_WANTED = {
    "list": 'Input line must include "Account", "Association", "Cluster", "Configuration",\n"Event", "Federation", '
    '"Problem", "QOS", "Resource", "Reservation",\n"RunAwayJobs", "Stats", "Transaction", "TRES", "User", or "WCKey"',
    "add": 'Input line must include "Account", "Cluster", "Coordinator", "Federation", "QOS", "Resource", or "User"',
    "modify": 'Input line must include "Account", "Cluster", "Federation", "Job", "QOS", "Resource" or "User"',
    "delete": 'Input line must include "Account", "Cluster", "Coordinator", "Federation", "QOS", "Resource", or "User"',
}


@dataclass(slots=True)
class Asked:
    """How it is to be printed and done."""

    flags: set[str] = field(default_factory=set)

    @property
    def parsable(self) -> int:
        return 1 if "parsable" in self.flags else 2 if "parsable2" in self.flags else 0


def sacctmgr(call: Call) -> None:
    asked = Asked()
    parsed = parse(call, _OPTIONS, call.arguments)
    for name, _ in parsed:
        if name == "version":
            call.print(VERSION)
            call.quit(0)
        if name in ("help", "usage"):
            call.print("sacctmgr [<OPTION>] [<COMMAND>]")
            call.quit(0)
        asked.flags.add(name)
    words = parsed.rest
    if words:
        _do(call, asked, words)
        return
    interactive(call, lambda words: _do(call, asked, words))


def _do(call: Call, asked: Asked, words: list[str]) -> None:
    word = words[0].lower()
    command = next((c for c, least in _COMMANDS.items() if len(word) >= least and c.startswith(word)), None)
    if command is None:
        call.say(f"invalid keyword: {words[0]}")
        call.quit(1)
    if command == "version":
        call.print(VERSION)
        return
    if command in ("help", "exit", "quit", "clear", "reconfigure", "shutdown", "archive"):
        return
    if command in ("dump", "load"):
        from fairway.slurm.commands import accountdump

        (accountdump.dump if command == "dump" else accountdump.load)(call, words[1:])
        return
    command = {"show": "list", "create": "add", "remove": "delete"}.get(command, command)
    entity = _entity(call, words[1] if len(words) > 1 else "", command)
    if command == "list":
        from fairway.slurm.commands.sacctmgrshow import SHOWN

        if entity in SHOWN:
            SHOWN[entity](call, asked, Conditions(words[2:]))
        return
    from fairway.slurm.commands import sacctmgrwrite

    writers: dict[str, dict[str, Callable[[Call, Asked, list[str]], None]]] = sacctmgrwrite.WRITERS
    writer = writers[command].get(entity)
    if writer is None:
        call.say(f"No valid entity in {command} command")
        call.say(_WANTED[command])
        call.quit(1)
    writer(call, asked, words[2:])


def _entity(call: Call, word: str, command: str) -> str:
    lower = word.lower()
    found = next((e for e, least in _ENTITIES.items() if len(lower) >= least and e.startswith(lower)), None)
    if found is None or not lower:
        call.say(f"No valid entity in {command} command")
        call.say(_WANTED[command])
        call.quit(1)
    return found


class Conditions:
    """`where name=… format=… withassoc`: words of a list, add, modify or delete, in order."""

    def __init__(self, words: list[str]) -> None:
        self.pairs: list[tuple[str, str, str]] = []  # key (lower), sign, value
        self.bare: list[str] = []
        for word in words:
            match = re.match(r"([A-Za-z]\w*)\s*([+-]?=)(.*)", word, re.DOTALL)
            if match:
                self.pairs.append((match[1].lower(), match[2], match[3].strip("\"'")))
            elif word.lower() not in ("where", "set"):
                self.bare.append(word)

    def take(self, *names: tuple[str, int]) -> list[str] | None:
        """Values of a key, by a name and how many letters of it are enough; None where it is not said."""
        found: list[str] | None = None
        for key, _, value in self.pairs:
            if any(len(key) >= least and name.startswith(key) for name, least in names):
                found = (found or []) + [v for v in value.split(",") if v]
        return found

    def has(self, name: str, least: int) -> bool:
        return any(len(w) >= least and name.startswith(w.lower()) for w in self.bare)


def privileged(call: Call) -> bool:
    """May the caller write? Slurm asks for an administrator level."""
    return call.site.cluster.is_operator(call.user)


def forbid(call: Call) -> None:
    call.error("Your user doesn't have privilege to perform this action")
    call.say(" Error with request: Access/permission denied")
    call.quit(1)


def answered(call: Call, asked: Asked) -> bool:
    """Is what was said to be done? -i, or an answer typed in."""
    if "immediate" in asked.flags:
        return True
    call.print("Would you like to commit changes? (You have 30 seconds to decide)")
    call.write("(N/y): ")
    if call.stdin[:1].lower() == "y":
        return True
    call.print("\n Changes Discarded" if not call.stdin else " Changes Discarded")
    return False


def value_of(pairs: list[Any]) -> Any:
    return pairs[0] if pairs else None
