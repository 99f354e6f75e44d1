"""Writes Slurm's facts into `src/fairway/slurm/data/`: names of errors with their sentences, options, states, reasons.

    python -m tools.importing.slurm SLURM

SLURM is a checkout of SchedMD/slurm (tag slurm-22-05-8-1). Nothing of its code is taken: only the names and sentences
that a user of its commands sees.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

DATA = Path(__file__).parents[2] / "src/fairway/slurm/data"


def main() -> None:
    slurm = Path(sys.argv[1])
    _write("errors.tsv", "name\tnumber\tsentence", _errors(slurm))
    _write("fields.tsv", "command\tname\tleast\tfield\theading\twidth", _fields(slurm))
    columns = [row for command in ("squeue", "sinfo", "sprio") for row in _columns(slurm, command)]
    _write("columns.tsv", "command\tof\tcolumn\tletter\tnames\theading", iter(columns))
    _write("options.tsv", "name\tletter\targument\tcommands\tvariables\thow", _options(slurm))


def _write(name: str, head: str, rows: Iterator[str]) -> None:
    DATA.mkdir(exist_ok=True)
    (DATA / name).write_text("\n".join([head, *rows]) + "\n", encoding="utf-8")


def _errors(slurm: Path) -> Iterator[str]:
    numbers: dict[str, int] = {"SLURM_SUCCESS": 0, "SLURM_ERROR": -1}
    at = 0
    header = re.sub(r"/\*.*?\*/", "", (slurm / "slurm/slurm_errno.h").read_text(), flags=re.DOTALL)
    for name, value in re.findall(r"^\s*(E?SLURM\w+)\s*(?:=\s*(\d+))?,", header, re.MULTILINE):
        at = int(value) if value else at + 1
        numbers[name] = at
    source = (slurm / "src/common/slurm_errno.c").read_text()
    sentences = {"SLURM_SUCCESS": "No error", "SLURM_ERROR": "Unspecified error"}
    for name, words in re.findall(r"\{\s*(E?SLURM\w+)\s*,((?:\s*\"(?:[^\"\\]|\\.)*\")+)\s*\}", source):
        sentences[name] = "".join(re.findall(r"\"((?:[^\"\\]|\\.)*)\"", words))
    for name, words in sentences.items():
        if name in numbers:
            yield f"{name.removeprefix('ESLURM_')}\t{numbers[name]}\t{words}"


_COMMANDS = ("salloc", "sbatch", "srun")


def _options(slurm: Path) -> Iterator[str]:
    """One line an option of salloc, sbatch and srun.

    argument: none, required, optional; commands: who has it; variables: what sets it in each one's environment;
    how: the kind of its value, where the source says so by a macro (`int:--ntasks`), else nothing.
    """
    source = (slurm / "src/common/slurm_opt.c").read_text()
    kinds = {
        field: f"{kind.lower()}:{said or ''}".rstrip(":")
        for kind, field, said in re.findall(
            r"^COMMON_(?:SBATCH_|SRUN_)?(\w+?)_OPTION(?:_SET)?\((\w+)(?:,\s*\"?(.*?)\"?)?\)",
            source,
            re.MULTILINE,
        )
    }
    variables = {command: _variables(slurm, command) for command in _COMMANDS}
    for body in re.findall(
        r"^static slurm_cli_opt_t slurm_opt_\w+ = \{(.*?)^\};", source, re.DOTALL | re.MULTILINE
    ):
        entry = dict(re.findall(r"\.(\w+)\s*=\s*(.*?),\s*\n", body))
        if "name" not in entry:
            continue
        name, value = entry["name"].strip('"'), entry.get("val", "")
        letter = value.strip("'") if value.startswith("'") else ""
        argument = entry.get("has_arg", "no_argument").split("_")[0]
        if name == "NULL":  # abbreviated names, said elsewhere
            continue
        which = [c for c in _COMMANDS if f"set_func_{c}" in entry or "set_func" in entry]
        if not which:
            continue
        code = value if not letter else f"'{letter}'"
        said = ",".join(f"{c}={v}" for c in which for v in variables[c].get(code, ()))
        setter = entry.get("set_func", next((v for k, v in entry.items() if k.startswith("set_func_")), ""))
        how = kinds.get(setter.removeprefix("arg_set_"), "")
        yield f"{name}\t{letter}\t{ {'no': 'none'}.get(argument, argument) }\t{','.join(which)}\t{said}\t{how}"


def _variables(slurm: Path, command: str) -> dict[str, list[str]]:
    """Option value → the environment variables that set it."""
    source = (slurm / "src" / command / ("libsrun/opt.c" if command == "srun" else "opt.c")).read_text()
    found: dict[str, list[str]] = {}
    for table in re.findall(r"env_vars\[\] = \{(.*?)^\};", source, re.DOTALL | re.MULTILINE):
        for name, value in re.findall(r"\{\s*\"(\w+)\",\s*('.'|\w+)\s*\}", table):
            found.setdefault(value, []).append(name)
    return found


def _columns(slurm: Path, command: str) -> Iterator[str]:
    """One line a column of `squeue`, `sinfo` or `sprio`: its letter for -o, its names for -O, its heading.

    of: what the line is about (job or step); column: the part of the source's function names that tells them apart.
    """
    folder = slurm / "src" / command
    options, prints = (folder / "opts.c").read_text(), (folder / "print.c").read_text()
    macros = dict(
        re.findall(
            r"#define\s+((?:job_|step_|)format_add_\w+)\([^\\\n]*(?:\\\s*)?\s*\w*format_add_function\([^)]*?(_print_\w+)\s*\)",
            _joined(folder / "print.h"),
        )
    )
    headings = {}
    for name, body in re.findall(
        r"^int\s+(_print_\w+)\s*\([^)]*\)\s*\{(.*?)^\}", prints, re.DOTALL | re.MULTILINE
    ):
        words = [w for w in re.findall(r"\"([^\"]*)\"", body) if re.fullmatch(r"[A-Z][A-Z0-9_:()/]+", w)]
        headings[name] = words[-1 if command == "sinfo" else 0] if words else ""
    letters: dict[tuple[str, str], str] = {}
    names: dict[tuple[str, str], list[str]] = {}
    waiting: list[str] = []
    found = re.finditer(
        r"field\[0\] == '(.)'|strn?casecmp\(\s*token,\s*\"([\w-]+)\"|\b(job_|step_|)format_add_(\w+)\s*\(",
        options,
    )
    for match in found:
        letter, name, of, column = match.groups()
        if column is None:
            waiting.append(letter or name)
            continue
        key = (of, column)
        for word in waiting:
            if len(word) == 1:
                letters.setdefault(key, word)
            elif word not in names.setdefault(key, []):
                names[key].append(word)
        waiting = []
    for of, column in dict.fromkeys([*letters, *names]):
        guesses = (
            macros.get(f"{of}format_add_{column}"),
            f"_print_{of}{column}",
            f"_print_job_{column}",
            f"_print_{column}",
        )
        heading = next((headings[g] for g in guesses if g in headings), "")
        said = ",".join(names.get((of, column), ()))
        yield f"{command}\t{of.rstrip('_')}\t{column}\t{letters.get((of, column), '')}\t{said}\t{heading}"


def _fields(slurm: Path) -> Iterator[str]:
    """One line a field of sacct, sshare, sstat and sacctmgr.

    least: how many letters of its name are enough; field: what tells it apart; width: negative stands left.
    """
    for command in ("sacct", "sshare", "sstat"):
        source = "".join(path.read_text() for path in sorted((slurm / "src" / command).glob("*.c")))
        begin = source.index("print_field_t fields[] = {")
        table = source[begin : source.index("NULL", begin)]
        for width, name in re.findall(r"\{\s*(-?\d+),\s*\"(\w+)\",", table):
            yield f"{command}\t{name}\t1\t{name.lower()}\t{name}\t{width}"
    source = (slurm / "src/sacctmgr/common.c").read_text()
    body = source[source.index("static print_field_t *_get_print_field(char *object)\n{") :]
    waiting: list[tuple[str, str]] = []
    of = heading = ""
    pattern = (
        r"xstrncasecmp\(\s*\"([\w]+)\",\s*object,?\s*(?:MAX\(command_len,\s*(\d+)\))?|field->type = (\w+)"
        r"|field->name = xstrdup\(\"(.*?)\"\)|field->len = (-?\w+);|^\}"
    )
    for found in re.finditer(pattern, body, re.MULTILINE):
        name, least, kind, said, width = found.groups()
        if found[0] == "}":
            break
        if name:
            waiting.append((name, least or "1"))
        elif kind:
            of = kind.removeprefix("PRINT_").lower()
        elif said:
            heading = said
        elif width and waiting:
            if not width.lstrip("-").isdigit():
                width = "-20"
            for name, least in waiting:
                yield f"sacctmgr\t{name}\t{least}\t{of}\t{heading}\t{width}"
            waiting = []


def _joined(path: Path) -> str:
    return path.read_text().replace("\\\n", " ")


if __name__ == "__main__":
    main()
