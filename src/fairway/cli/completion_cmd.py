"""`fairway completion`: a shell's own script that completes commands and options."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Annotated, Any

import typer

app = typer.Typer(rich_markup_mode=None, add_completion=False)

# What follows a command line so far: words to offer; with none that fits, files.
_BASH = """\
_fairway() {
  local key="${COMP_WORDS[*]:1:COMP_CWORD-1}" words
  key="${key%%%% -*}"
  case "$key" in
%s  esac
  COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))
  [ ${#COMPREPLY[@]} -gt 0 ] || COMPREPLY=($(compgen -f -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o filenames -F _fairway fairway
"""
SHELLS = ("bash", "zsh", "fish")


@app.command()
def completion(
    shell: Annotated[str, typer.Argument(metavar="bash|zsh|fish", help="Whose script.")],
) -> None:
    """Print a script that completes fairway's commands and options.

    Example: fairway completion bash > ~/.local/share/bash-completion/completions/fairway
    """
    from fairway.errors import UserError

    if shell not in SHELLS:
        raise UserError(f"{shell}: expected one of {', '.join(SHELLS)}")
    typer.echo(script(shell, dict(_words())), nl=False)


def script(shell: str, words: dict[str, list[str]]) -> str:
    """The script; `words` are those that may follow, by the commands typed so far."""
    if shell == "fish":
        lines = [
            f"complete -c fairway -n '{_fish_condition(key)}' -a '{' '.join(found)}'"
            for key, found in words.items()
        ]
        return "\n".join(lines) + "\n"
    cases = "".join(
        f'    "{key}"{"*" if key else ""}) words="{" ".join(found)}" ;;\n'
        for key, found in sorted(words.items(), key=lambda item: -len(item[0]))
    )
    bash = _BASH % cases
    return bash if shell == "bash" else f"autoload -U +X bashcompinit && bashcompinit\n{bash}"


def _fish_condition(key: str) -> str:
    if not key:
        return "__fish_use_subcommand"
    return "; and ".join(f"__fish_seen_subcommand_from {word}" for word in key.split())


def _words() -> Iterator[tuple[str, list[str]]]:
    """Commands, their subcommands and options. Imports them all."""
    from fairway.cli.main import COMMANDS

    yield "", [*COMMANDS, "--help", "--version"]
    for name, (module, _) in COMMANDS.items():
        command: Any = typer.main.get_command(import_module(f"fairway.cli.{module}").app)
        yield from _of(name, command)


def _of(key: str, command: Any) -> Iterator[tuple[str, list[str]]]:
    inner = getattr(command, "commands", {})
    options = [o for p in command.params for o in (*p.opts, *p.secondary_opts) if o.startswith("--")]
    yield key, [*inner, *options, "--help"] if "--help" not in options else [*inner, *options]
    for name, one in inner.items():
        yield from _of(f"{key} {name}", one)
