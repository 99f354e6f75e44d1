"""What happens when a command runs in a simulated container? Its program is looked up, a shell's script is run.

Source: POSIX.1-2024 Shell Command Language, 2.9 (lists, pipelines).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from fairway.apiserver.kubelets.commands import COMMANDS
from fairway.apiserver.kubelets.files import FileError, Files
from fairway.apiserver.kubelets.invocation import Result, Run, variables
from fairway.apiserver.kubelets.place import Place
from fairway.apiserver.kubelets.shell import STATUS, Pipeline, ShellError, Simple, parsed
from fairway.kube.integers import natural

_NOT_FOUND = 127
SHELLS = ("sh", "bash", "ash", "dash")
# One script that starts itself would start them without end.
_MAX_SHELLS = 64


def run(argv: list[str], place: Place, files: Files, stdin: bytes = b"", before: Run | None = None) -> Run:
    """Run a command to its end; `sleep` only moves its own time on. `before`: a shell's last line."""
    invocation = Run(place, files, stdin)
    if before is not None:
        invocation.code, invocation.directory = before.code, before.directory
        invocation.stops_on_error = before.stops_on_error
    _finish(invocation, _result(argv, invocation, stdin))
    return invocation


def needs_input(argv: list[str]) -> bool:
    """Whether a command reads its standard input to the end before it does anything."""
    name, arguments = _program(argv), argv[1:]
    if name in SHELLS:
        script = _script_of(arguments)
        first = "" if script is None else script.split(";")[0].split("|")[0].strip()
        return script is None or needs_input(first.split() or ["true"])
    if name == "tar":
        return _is_unpacking(arguments)
    operands = [a for a in arguments if not a.startswith("-") or a == "-"]
    if name in ("cat", "wc", "tail", "head"):
        return not operands or "-" in operands
    return name == "tee"


def reads_archive(argv: list[str]) -> bool:
    """Whether its input is a tar archive, whose end can be seen."""
    return _program(argv) == "tar" and _is_unpacking(argv[1:])


def _is_unpacking(arguments: list[str]) -> bool:
    return bool(arguments) and "x" in arguments[0].lstrip("-")


def _program(argv: Sequence[str]) -> str:
    return argv[0].rpartition("/")[2] if argv else ""


def _script_of(arguments: list[str]) -> str | None:
    """What `-c` (`-ec`, `-lc`, `-e -c`) has to run."""
    for i, argument in enumerate(arguments):
        if not argument.startswith("-"):
            return None
        if "c" in argument:
            return arguments[i + 1] if i + 1 < len(arguments) else None
    return None


def _result(argv: list[str], run: Run, stdin: bytes) -> Result:
    """One command's result; what a shell says on the way goes to the run at once."""
    if not argv:
        return Result(err=b"no command given\n", code=126, is_known=False)
    name = _program(argv)
    if name in SHELLS:
        run.shells += 1
        if run.shells > _MAX_SHELLS:
            return Result(err=b"sh: 1: Cannot fork\n", code=2, is_known=False)
        script = _script_of(argv[1:])
        if script is None and argv[-1].startswith("-") and "c" in argv[-1]:
            return Result(err=f"{argv[0]}: 0: -c requires an argument\n".encode(), code=2)
        text = stdin.decode("utf-8", "replace") if script is None else script
        stops = any(a.startswith("-") and "e" in a for a in argv[1:2])
        return _scripted(text, run, b"" if script is None else stdin, stops_on_error=stops)
    known = COMMANDS.get(name)
    if known is None:
        return Result(err=f"{argv[0]}: not found\n".encode(), code=_NOT_FOUND, is_known=False)
    try:
        return known(argv[1:], run, stdin)
    except FileError as why:
        return Result(err=f"{name}: {why}\n".encode(), code=1)


def _finish(run: Run, result: Result) -> None:
    run.say(result.out)
    run.say(result.err, is_error=True)
    run.code = result.code
    run.is_known = run.is_known and result.is_known


# A shell


def _scripted(script: str, run: Run, stdin: bytes, *, stops_on_error: bool) -> Result:
    """Pipelines one after another."""
    try:
        pipelines = parsed(script, variables(run.place))
    except ShellError as why:
        return Result(err=f"sh: 1: {why}\n".encode(), code=2, is_known=False)
    code, run.code = run.code, 0
    run.stops_on_error = stops_on_error or (run.shells == 1 and run.stops_on_error)
    for pipeline, following in zip_longest(pipelines, pipelines[1:]):
        if (pipeline.joined == "&&" and code) or (pipeline.joined == "||" and not code):
            continue
        code = _piped(pipeline, run, stdin, code)
        # What has `&&` or `||` behind it may fail.
        is_last = following is None or following.joined == ";"
        run.is_over = run.is_over or (run.stops_on_error and bool(code) and is_last)
        if run.is_over:
            break
    return Result(code=code, is_known=run.is_known)


def _piped(pipeline: Pipeline, run: Run, stdin: bytes, before: int) -> int:
    """The last command's exit code; the outputs of those before it are the next one's input. `before`: what `$?` is."""
    code = 0
    for place, command in enumerate(pipeline.commands):
        words = tuple(word.replace(STATUS, str(before)) for word in command.words)
        outer = run.directory, run.is_over, run.stops_on_error
        result = _redirected(command._replace(words=words), run, stdin, before)
        if len(pipeline.commands) > 1 or _program(words) in SHELLS:
            # A shell of its own: where it went and how it ended is not this one's.
            run.directory, run.is_over, run.stops_on_error = outer
        run.is_known = run.is_known and result.is_known
        run.say(result.err, is_error=True)
        code, stdin = result.code, result.out
        if place == len(pipeline.commands) - 1:
            run.say(result.out)
    return code


def _redirected(command: Simple, run: Run, stdin: bytes, before: int) -> Result:
    try:
        if command.source:
            stdin = run.files.read(run.path(command.source))
        begun = len(run.said)
        result = _builtin(command, run, before) or _result(list(command.words), run, stdin)
        # What a shell in this one said on the way goes where its output goes.
        inner, run.said = run.said[begun:], run.said[:begun]
        out = b"".join(said.data for said in inner if not said.is_error) + result.out
        err = b"".join(said.data for said in inner if said.is_error) + result.err
        if command.err == "&":
            out, err = out + err, b""
        elif command.out == "&":
            out, err = b"", err + out
        if command.err not in ("", "&"):
            err = _saved(run, command.err, err, command.appends)
        if command.out not in ("", "&"):
            out = _saved(run, command.out, out, command.appends)
    except FileError as why:
        name = command.source or command.out or command.err
        return Result(err=f"sh: 1: cannot open {name}: {why}\n".encode(), code=2)
    return result._replace(out=out, err=err)


def _saved(run: Run, name: str, data: bytes, appends: bool) -> bytes:
    path = run.path(name)
    if path != "/dev/null":
        run.files.write(path, data, run.now_s, append=appends)
    return b""


def _builtin(command: Simple, run: Run, before: int) -> Result | None:
    """What only a shell itself can do."""
    words = command.words
    if not words or words[0] == ":":
        return Result()
    if words[0] == "exit":
        run.is_over = True
        return Result(code=(natural(words[1]) or 0) & 0xFF if len(words) > 1 else before)
    if words[0] == "cd":
        path = run.path(words[1] if len(words) > 1 else "/root")
        if not run.files.is_directory(path):
            return Result(err=f"sh: 1: cd: can't cd to {words[1]}\n".encode(), code=2)
        run.directory = path
        return Result()
    if words[0] == "set" and any(word[:1] == "-" and "e" in word for word in words[1:]):
        run.stops_on_error = True
    if words[0] in ("set", "export"):
        return Result()
    return None
