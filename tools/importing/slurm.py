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


if __name__ == "__main__":
    main()
