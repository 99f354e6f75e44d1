"""What does `sh -c` make of a line? Commands with `;`, `&&`, `||`, pipes, redirections, quotes and variables.

No loops, functions, substitutions, globs or background: a script with one of those is not understood, and says so.

Source: POSIX.1-2024 Shell Command Language, 2.2–2.10.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

MAX_SCRIPT = 64 * 1024
_OPERATORS = ("&&", "||", ">&2", ">>", ";", "|", ">", "<", "\n")
# At the beginning of a word only: `a2>b` writes to `b`, with the argument `a2`.
_NUMBERED = ("2>&1", "1>&2", "2>>", "1>>", "2>", "1>")
_COPIES = {"2>&1": "err", "1>&2": "out", ">&2": "out"}
_FILES = {"<": "source", ">": "out", ">>": "out", "1>": "out", "1>>": "out", "2>": "err", "2>>": "err"}
_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_NOT_KNOWN = frozenset(
    ("while", "until", "for", "if", "case", "function", "{", "}", "!", "do", "done", "then", "fi")
)


# What `$?` is until its command runs.
STATUS: Final = "\0?"


class ShellError(ValueError):
    """A script that this shell cannot run, and why."""


class Simple(NamedTuple):
    """One command: its words, and where its streams go: a path, `&` for where the other one goes, "" onward."""

    words: tuple[str, ...]
    source: str = ""
    out: str = ""
    err: str = ""
    appends: bool = False


class Pipeline(NamedTuple):
    """Commands whose outputs are the next one's input. `joined`: `;`, `&&` or `||`, what stood before it."""

    joined: str
    commands: tuple[Simple, ...]


class _Word(NamedTuple):
    text: str
    is_operator: bool


def parsed(script: str, variables: Mapping[str, str]) -> list[Pipeline]:
    """A script's pipelines in order.

    Raises: ShellError.
    """
    if len(script) > MAX_SCRIPT:
        raise ShellError(f"a script of {len(script)} characters; at most {MAX_SCRIPT} are taken")
    pipelines: list[Pipeline] = []
    joined, line, commands = ";", list[_Word](), list[Simple]()
    for word in (*_words(script, variables), _Word("\n", True)):
        if not word.is_operator or word.text in _FILES or word.text in _COPIES:
            line.append(word)
            continue
        if line:
            commands.append(_simple(line))
        elif word.text == "\n":
            # Behind `|`, `&&` or `||` a command may be on a later line.
            continue
        else:
            raise ShellError(f'Syntax error: "{word.text}" unexpected')
        line = []
        if word.text == "|":
            continue
        pipelines.append(Pipeline(joined, tuple(commands)))
        commands = []
        joined = word.text if word.text in ("&&", "||") else ";"
    if commands or joined != ";":
        raise ShellError("Syntax error: end of file unexpected")
    return pipelines


def _simple(line: list[_Word]) -> Simple:
    words: list[str] = []
    streams = {"source": "", "out": "", "err": ""}
    appends = False
    rest = iter(line)
    for word in rest:
        if not word.is_operator:
            words.append(word.text)
        elif word.text in _COPIES:
            streams[_COPIES[word.text]] = "&"
        else:
            target = next(rest, None)
            if target is None or target.is_operator or not target.text:
                raise ShellError("Syntax error: redirection unexpected")
            streams[_FILES[word.text]] = target.text
            appends = appends or word.text.endswith(">>")
    if words and words[0] in _NOT_KNOWN:
        raise ShellError(f'"{words[0]}" is not known to this shell: it runs plain commands only')
    return Simple(tuple(words), streams["source"], streams["out"], streams["err"], appends)


def _words(script: str, variables: Mapping[str, str]) -> list[_Word]:
    """Words with quotes and variables worked out, and operators."""
    found: list[_Word] = []
    text, is_word, at = "", False, 0

    def finish() -> None:
        nonlocal text, is_word
        if is_word:
            found.append(_Word(text, False))
        text, is_word = "", False

    while at < len(script):
        char = script[at]
        operators = _OPERATORS if is_word else (*_NUMBERED, *_OPERATORS)
        operator = next((o for o in operators if script.startswith(o, at)), "")
        if operator:
            finish()
            found.append(_Word(operator, True))
            at += len(operator)
        elif char in " \t\r":
            finish()
            at += 1
        elif char == "#" and not is_word:
            end = script.find("\n", at)
            at = len(script) if end == -1 else end
        else:
            piece, at = _piece(script, at, variables)
            text, is_word = text + piece, True
    finish()
    return found


def _piece(script: str, at: int, variables: Mapping[str, str]) -> tuple[str, int]:
    """One character of a word, a quoted part, or a variable; and where it ends."""
    char = script[at]
    if char == "'":
        end = script.find("'", at + 1)
        if end == -1:
            raise ShellError("Syntax error: Unterminated quoted string")
        return script[at + 1 : end], end + 1
    if char == '"':
        return _quoted(script, at + 1, variables)
    if char == "\\":
        following = script[at + 1 : at + 2]
        return "" if following == "\n" else following or char, at + 2
    if char == "$":
        return _variable(script, at + 1, variables)
    if char in "`&()":
        raise ShellError(f'"{char}" is not known to this shell: it runs plain commands only')
    return char, at + 1


def _quoted(script: str, at: int, variables: Mapping[str, str]) -> tuple[str, int]:
    text = ""
    while at < len(script):
        char = script[at]
        if char == '"':
            return text, at + 1
        if char == "\\" and script[at + 1 : at + 2] in ('"', "\\", "$", "`", "\n"):
            text += script[at + 1].strip("\n")
            at += 2
        elif char == "$":
            piece, at = _variable(script, at + 1, variables)
            text += piece
        elif char == "`":
            raise ShellError('"`" is not known to this shell: it runs plain commands only')
        else:
            text += char
            at += 1
    raise ShellError("Syntax error: Unterminated quoted string")


def _variable(script: str, at: int, variables: Mapping[str, str]) -> tuple[str, int]:
    """What stands behind a `$`."""
    if script.startswith("?", at):
        return STATUS, at + 1
    if script.startswith("(", at):
        raise ShellError('"$(" is not known to this shell: it runs plain commands only')
    if script.startswith("{", at):
        end = script.find("}", at)
        name = script[at + 1 : end]
        if name == "?":
            return STATUS, end + 1
        if end == -1 or not name or not set(name) <= _NAME:
            raise ShellError("Bad substitution")
        return variables.get(name, ""), end + 1
    end = at
    while end < len(script) and script[end] in _NAME:
        end += 1
    return ("$", at) if end == at else (variables.get(script[at:end], ""), end)
