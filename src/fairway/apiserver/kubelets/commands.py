"""What does a command do in a simulated container? What people try first, and what `kubectl cp` runs.

Made from the pod, its node, the cluster's clock and the container's small file system; nothing of this machine is read
or run. A command that is not in `COMMANDS` is not found, as in an image that lacks it.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping
from typing import Final

from fairway.apiserver.kubelets import archives, nvidiasmi
from fairway.apiserver.kubelets.files import FileError, absolute
from fairway.apiserver.kubelets.invocation import Result, Run, hostname, variables
from fairway.kube.integers import natural
from fairway.kube.timestamps import SECOND_US, rfc3339
from fairway.twin.commands import understand

_NOT_FOUND = 127
# `sleep infinity`.
_FOREVER_US = 2**60


# Commands: (arguments, run, standard input) → result


def _hostname(_arguments: list[str], run: Run, _stdin: bytes) -> Result:
    return Result(f"{hostname(run.place)}\n".encode())


def _env(arguments: list[str], run: Run, _stdin: bytes) -> Result:
    known = variables(run.place)
    if arguments:
        found = [known[name] for name in arguments if name in known]
        return Result(
            "".join(f"{value}\n" for value in found).encode(), code=int(len(found) < len(arguments))
        )
    return Result("".join(f"{name}={value}\n" for name, value in known.items()).encode())


def _each(name: str, arguments: list[str], run: Run, stdin: bytes) -> tuple[list[tuple[str, bytes]], Result]:
    """The operands and their contents, standard input without any; and what went wrong."""
    found, err = list[tuple[str, bytes]](), b""
    operands = [a for a in arguments if not a.startswith("-") or a == "-"]
    for operand in operands or ["-"]:
        try:
            found.append((operand, stdin if operand == "-" else run.files.read(run.path(operand))))
        except FileError as why:
            what = f"cannot open '{operand}' for reading" if name in ("head", "tail") else operand
            err += f"{name}: {what}: {why}\n".encode()
        if operand == "-":
            stdin = b""
    return found, Result(err=err, code=int(bool(err)))


def _cat(arguments: list[str], run: Run, stdin: bytes) -> Result:
    found, result = _each("cat", arguments, run, stdin)
    return result._replace(out=b"".join(data for _, data in found))


def _date(arguments: list[str], run: Run, _stdin: bytes) -> Result:
    if arguments == ["+%s"]:
        return Result(f"{run.now_s}\n".encode())
    return Result(f"{rfc3339(run.now_us)}\n".encode(), is_known=not arguments)


def _nvidia_smi(arguments: list[str], run: Run, _stdin: bytes) -> Result:
    shown = nvidiasmi.shown(arguments, run.place._replace(at_us=run.now_us))
    if shown is None:
        return Result(err=b"nvidia-smi: not found\n", code=_NOT_FOUND)
    if not shown.is_known:
        return Result(err=shown.text.encode(), code=shown.code, is_known=False)
    return Result(shown.text.encode(), code=shown.code)


def _echo(arguments: list[str], _run: Run, _stdin: bytes) -> Result:
    end = "\n"
    while arguments and arguments[0] in ("-n", "-e", "-en", "-ne"):
        end = "" if "n" in arguments[0] else end
        arguments = arguments[1:]
    return Result((" ".join(arguments) + end).encode())


_ESCAPED: Final = {"\\n": "\n", "\\t": "\t", "\\\\": "\\", "%%": "%"}


def _printf(arguments: list[str], _run: Run, _stdin: bytes) -> Result:
    """`%s` and `%d` filled in, `\\n` and `\\t` written out; again from the start while values are left."""
    if not arguments:
        return Result(err=b"printf: usage: printf format [arguments]\n", code=2)
    form, *values = arguments
    out, has_places, is_first = "", re.search(r"(?<!%)(%%)*%[sd]", form) is not None, True
    while is_first or (values and has_places):
        for piece in re.split(r"(\\[nt\\]|%[%sd])", form):
            out += _ESCAPED.get(piece) or (piece if piece not in ("%s", "%d") else _value(piece, values))
        is_first = False
    return Result(out.encode())


def _value(piece: str, values: list[str]) -> str:
    return values.pop(0) if values else "" if piece == "%s" else "0"


def _ls(arguments: list[str], run: Run, _stdin: bytes) -> Result:
    flags = "".join(a[1:] for a in arguments if a.startswith("-"))
    operands = [a for a in arguments if not a.startswith("-")] or ["."]
    # Files before directories.
    operands.sort(key=lambda o: ("d" not in flags and run.files.is_directory(run.path(o)), o))
    out, err = "", ""
    for operand in operands:
        path = run.path(operand)
        if not run.files.exists(path):
            err += f"ls: cannot access '{operand}': No such file or directory\n"
            continue
        is_directory = run.files.is_directory(path) and "d" not in flags
        names = run.files.listed(path) if is_directory else [operand]
        if len(operands) > 1 and is_directory:
            out += ("\n" if out else "") + f"{operand}:\n"
        for name in names:
            if not is_directory or set("aA") & set(flags) or not name.startswith("."):
                out += _line(run, absolute(name, path) if is_directory else path, name, "l" in flags)
    return Result(out.encode(), err.encode(), 2 if err else 0)


def _line(run: Run, path: str, name: str, is_long: bool) -> str:
    if not is_long:
        return f"{name}\n"
    entry = run.files.entry(path)
    bits = "".join(c if entry.mode >> (8 - i) & 1 else "-" for i, c in enumerate("rwxrwxrwx"))
    kind, size = ("d", 4096) if entry.data is None else ("-", len(entry.data))
    when = rfc3339(entry.modified_s * SECOND_US)[:16].replace("T", " ")
    return f"{kind}{bits} 1 root root {size:>8} {when} {name}\n"


def _mkdir(arguments: list[str], run: Run, _stdin: bytes) -> Result:
    makes_parents = "-p" in arguments

    def make(path: str) -> None:
        if makes_parents:
            run.files.make_directories(path, run.now_s)
        else:
            run.files.make_directory(path, run.now_s)

    return _changed("mkdir: cannot create directory '{}'", arguments, run, make)


def _rm(arguments: list[str], run: Run, _stdin: bytes) -> Result:
    flags = "".join(a[1:] for a in arguments if a.startswith("-"))

    def remove(path: str) -> None:
        if run.files.exists(path) or "f" not in flags:
            if run.files.is_directory(path) and not set("rR") & set(flags):
                raise FileError("Is a directory")
            run.files.remove(path, recursive=True)

    return _changed("rm: cannot remove '{}'", arguments, run, remove)


def _touch(arguments: list[str], run: Run, _stdin: bytes) -> Result:
    def touch(path: str) -> None:
        if not run.files.is_directory(path):
            run.files.write(path, b"", run.now_s, append=True)

    return _changed("touch: cannot touch '{}'", arguments, run, touch)


def _changed(complaint: str, arguments: list[str], run: Run, change: Callable[[str], None]) -> Result:
    """Do something to every operand."""
    err = ""
    for operand in (a for a in arguments if not a.startswith("-")):
        try:
            change(run.path(operand))
        except FileError as why:
            err += f"{complaint.format(operand)}: {why}\n"
    return Result(err=err.encode(), code=int(bool(err)))


def _tee(arguments: list[str], run: Run, stdin: bytes) -> Result:
    appends = "-a" in arguments

    def write(path: str) -> None:
        run.files.write(path, stdin, run.now_s, append=appends)

    return _changed("tee: {}", arguments, run, write)._replace(out=stdin)


def _test(arguments: list[str], run: Run, _stdin: bytes) -> Result:
    """`-e`, `-f`, `-d`, `-s`, `-n`, `-z`, `=`, `!=`, and `!` before them."""
    words = [a for a in arguments if a != "]"]
    if words[:1] == ["!"] and len(words) > 1:
        said = _test(words[1:], run, _stdin)
        return said if said.code > 1 else said._replace(code=1 - said.code)
    files = run.files
    if len(words) == 3 and words[1] in ("=", "!="):
        return Result(code=int((words[0] == words[2]) != (words[1] == "=")))
    if len(words) < 2:
        return Result(code=int(not any(words)))
    if len(words) != 2:
        return Result(err=b"test: too many arguments\n", code=2, is_known=False)
    path = run.path(words[1])
    holds = {
        "-e": files.exists(path),
        "-f": files.exists(path) and not files.is_directory(path),
        "-d": files.is_directory(path),
        "-s": files.exists(path) and files.entry(path).data != b"",
        "-n": bool(words[1]),
        "-z": not words[1],
    }.get(words[0])
    if holds is None:
        return Result(err=f"test: {words[0]}: unary operator expected\n".encode(), code=2, is_known=False)
    return Result(code=int(not holds))


def _head(arguments: list[str], run: Run, stdin: bytes) -> Result:
    return _ends("head", arguments, run, stdin)


def _tail(arguments: list[str], run: Run, stdin: bytes) -> Result:
    result = _ends("tail", [a for a in arguments if a != "-f"], run, stdin)
    if "-f" in arguments and not result.code:
        run.elapsed_us += _FOREVER_US
    return result


def _ends(name: str, arguments: list[str], run: Run, stdin: bytes) -> Result:
    """`-n 5`, `-5`, `-c 100`, tail's `-n +3` and head's `-n -3`: lines or bytes of the beginning or the end."""
    unit, count, operands, at = "n", "10", list[str](), 0
    while at < len(arguments):
        argument = arguments[at]
        at += 1
        if argument[:2] in ("-n", "-c"):
            unit, count = argument[1], argument[2:]
            if not count and at < len(arguments):
                count = arguments[at]
                at += 1
        elif argument[:1] == "-" and argument[1:].isdigit():
            count = argument[1:]
        else:
            operands.append(argument)
    number = natural(count.lstrip("+-"))
    if number is None:
        what = "lines" if unit == "n" else "bytes"
        return Result(err=f"{name}: invalid number of {what}: '{count}'\n".encode(), code=1)
    found, result = _each(name, operands, run, stdin)
    out = b""
    for place, (operand, data) in enumerate(found):
        if len(operands) > 1:
            shown = "standard input" if operand == "-" else operand
            out += (b"\n" if place else b"") + f"==> {shown} <==\n".encode()
        pieces = (
            data.splitlines(keepends=True) if unit == "n" else [data[i : i + 1] for i in range(len(data))]
        )
        out += b"".join(_part(name, pieces, number, count[:1]))
    return result._replace(out=out)


def _part(name: str, pieces: list[bytes], number: int, sign: str) -> list[bytes]:
    if name == "head":
        return pieces[: max(len(pieces) - number, 0)] if sign == "-" else pieces[:number]
    return pieces[max(number - 1, 0) :] if sign == "+" else pieces[max(len(pieces) - number, 0) :]


def _wc(arguments: list[str], run: Run, stdin: bytes) -> Result:
    """Numbers are as wide as the bytes of all files; of standard input, if there are several, seven."""
    found, result = _each("wc", arguments, run, stdin)
    flags = "".join(a[1:] for a in arguments if a.startswith("-") and a != "-") or "lwc"
    names = [a for a in arguments if not a.startswith("-") or a == "-"]
    rows = [([data.count(b"\n"), len(data.split()), len(data)], name) for name, data in found]
    if len(names) > 1:
        rows.append(([sum(r[0][i] for r in rows) for i in range(3)], "total"))
    chosen = [i for i, flag in enumerate("lwc") if flag in flags]
    is_plain = len(names) < 2 and len(chosen) == 1
    width = 1 if is_plain else 7 if not names or "-" in names else len(str(rows[-1][0][2])) if rows else 1
    lines = (
        " ".join([*(f"{counts[i]:{width}}" for i in chosen), *([name] if names else [])])
        for counts, name in rows
    )
    return result._replace(out="".join(f"{line}\n" for line in lines).encode())


def _tar(arguments: list[str], run: Run, stdin: bytes) -> Result:
    """`tar cf - PATH…` and `tar xmf - -C DIRECTORY`, which is what `kubectl cp` says."""
    directory, operands, at = run.directory, list[str](), 1
    flags = arguments[0].lstrip("-") if arguments else ""
    target = ""
    if "f" in flags and len(arguments) > 1:
        target, at = arguments[1], 2
    while at < len(arguments):
        argument = arguments[at]
        at += 1
        if argument in ("-C", "--directory") and at < len(arguments):
            directory = run.path(arguments[at])
            at += 1
        elif not argument.startswith("--"):
            operands.append(argument)
    if not run.files.is_directory(directory):
        return Result(err=f"tar: {directory}: Cannot open: No such file or directory\n".encode(), code=2)
    if target not in ("", "-") or set(flags) & set("zjJ"):
        return Result(err=b"tar: only plain archives on standard input and output\n", code=2, is_known=False)
    if "c" in flags:
        data, said = archives.pack(run.files, operands, directory)
        is_bad = any("Cannot" in line for line in said)
        return _told(said, 2 if is_bad else 0)._replace(out=data)
    if "x" in flags:
        said = archives.unpack(run.files, stdin, directory, run.now_s)
        return _told(said, 2 if said else 0)
    return Result(err=b"tar: You must specify one of the '-Acdtrux' options\n", code=2)


def _told(said: list[str], code: int) -> Result:
    if code:
        said = [*said, "tar: Exiting with failure status due to previous errors"]
    return Result(err="".join(f"{line}\n" for line in said).encode(), code=code)


def _sleep(arguments: list[str], run: Run, _stdin: bytes) -> Result:
    """Time passes for what comes after it."""
    slept = understand(("sleep", *arguments))
    if slept is None or slept.run_us is None:
        said = (
            b"" if slept is not None else f"sleep: invalid time interval '{' '.join(arguments)}'\n".encode()
        )
        run.elapsed_us += 0 if slept is None else _FOREVER_US
        return Result(err=said, code=int(slept is None))
    run.elapsed_us += slept.run_us
    return Result()


def _copy(arguments: list[str], run: Run, _stdin: bytes) -> Result:
    return _placed("cp", arguments, run, keeps=True)


def _move(arguments: list[str], run: Run, _stdin: bytes) -> Result:
    return _placed("mv", arguments, run, keeps=False)


def _placed(name: str, arguments: list[str], run: Run, *, keeps: bool) -> Result:
    """One file to another name, or into a directory."""
    operands = [a for a in arguments if not a.startswith("-")]
    if len(operands) != 2:
        return Result(err=f"{name}: missing file operand\n".encode(), code=1)
    source, target = (run.path(o) for o in operands)
    if run.files.is_directory(target):
        target = posixpath.join(target, posixpath.basename(source))
    doing = f"cannot stat '{operands[0]}'"
    try:
        data = run.files.read(source)
        doing = f"cannot create regular file '{operands[1]}'"
        if not keeps:
            doing = f"cannot move '{operands[0]}' to '{operands[1]}'"
        run.files.write(target, data, run.now_s)
    except FileError as why:
        return Result(err=f"{name}: {doing}: {why}\n".encode(), code=1)
    if not keeps and source != target:
        run.files.remove(source)
    return Result()


def _chroot(arguments: list[str], run: Run, stdin: bytes) -> Result:
    """`chroot /host nvidia-smi`: the machine has the same commands."""
    command = COMMANDS.get(arguments[1]) if len(arguments) > 1 else None
    if command is None:
        what = arguments[1] if len(arguments) > 1 else "/bin/bash"
        words = f"chroot: failed to run command '{what}': No such file or directory\n"
        return Result(err=words.encode(), code=_NOT_FOUND)
    return command(arguments[2:], run, stdin)


COMMANDS: Mapping[str, Callable[[list[str], Run, bytes], Result]] = {
    "[": _test,
    "cat": _cat,
    "chroot": _chroot,
    "cp": _copy,
    "date": _date,
    "echo": _echo,
    "env": _env,
    "false": lambda _arguments, _run, _stdin: Result(code=1),
    "head": _head,
    "hostname": _hostname,
    "id": lambda _arguments, _run, _stdin: Result(b"uid=0(root) gid=0(root) groups=0(root)\n"),
    "ls": _ls,
    "mkdir": _mkdir,
    "mv": _move,
    "nvidia-smi": _nvidia_smi,
    "printenv": _env,
    "printf": _printf,
    "pwd": lambda _arguments, run, _stdin: Result(f"{run.directory}\n".encode()),
    "rm": _rm,
    "sleep": _sleep,
    "tail": _tail,
    "tar": _tar,
    "tee": _tee,
    "test": _test,
    "touch": _touch,
    "true": lambda _arguments, _run, _stdin: Result(),
    "wc": _wc,
    "whoami": lambda _arguments, _run, _stdin: Result(b"root\n"),
}
NAMES = tuple(COMMANDS)
"""For the documentation's sake."""
