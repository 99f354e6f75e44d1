"""scontrol, sacctmgr and sreport without a command: commands from stdin, one a line, until quit."""

from __future__ import annotations

from collections.abc import Callable

from fairway.slurm.commands.call import Call, Quit

_ENDS = ("quit", "exit", "q", "\\q")


def interactive(call: Call, act: Callable[[list[str]], None]) -> None:
    """Each line stands behind the prompt, as readline has it where nobody types; what is refused ends nothing.

    `!!` is the line before once more. The exit code is the last refusal's.
    """
    before: list[str] = []
    for line in call.stdin.splitlines():
        call.print(f"{call.name}: {line}")
        words = before if line.strip() == "!!" else line.split()
        if words[:1] and words[0] in _ENDS:
            return
        if not words:
            call.code = 1
            continue
        before = words
        if words[0].startswith("#"):
            continue
        try:
            act(words)
        except Quit as refused:
            call.code = refused.code or call.code
    call.print(f"{call.name}: ")
