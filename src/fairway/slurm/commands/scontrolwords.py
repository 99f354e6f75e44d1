"""`Key=Value` words of scontrol: which entity and which field does a key, as far as it is written, name?"""

from __future__ import annotations

from fairway.slurm.commands.call import Call
from fairway.slurm.words.errors import SlurmError, refusals

Pairs = list[tuple[str, str, str]]
"""Key, operator (`=`, `+=`, `-=`), value."""


def names(key: str, *fields: tuple[str, int]) -> bool:
    """Does a key name one of these (`name`, letters that are enough)?"""
    lower = key.lower()
    return any(len(lower) >= least and name.startswith(lower) for name, least in fields)


def refuse_update(call: Call, refused: SlurmError) -> None:
    call.say(f"slurm_update error: {refused.message}")
    call.quit(1)


def ask_administrator(call: Call, said: str, *, operator: bool = False) -> None:
    """Nodes and partitions are an administrator's, reservations an operator's too."""
    if not (call.site.cluster.is_operator if operator else call.site.cluster.is_administrator)(call.user):
        call.say(f"{said}: {refusals()['USER_ID_MISSING'][1]}")
        call.quit(1)
