"""A batch script as sbatch reads it: one request for each part, and where each option stands.

What sbatch would refuse is refused in its words, at the line. Options of pyxis (`--container-image` and the like) are
no options of Slurm's own, but of so many sites that they are read too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from fairway.errors import FieldProblem, InvalidInput
from fairway.slurm.commands import sbatch as command
from fairway.slurm.commands.call import Call, Quit
from fairway.slurm.commands.getopt import job_options, parse
from fairway.slurm.commands.joboptions import JobOptions
from fairway.slurm.commands.jobrequests import request_of
from fairway.slurm.commands.otherdirectives import other_directives
from fairway.slurm.commands.site import MAX_SCRIPT, Site
from fairway.slurm.model.job import JobRequest
from fairway.slurm.words.errors import SlurmError

_PYXIS = re.compile(r"--(container-[a-z-]+|no-container-[a-z-]+)(?:=(.*))?$")
_PYXIS_FLAGS = ("container-mount-home", "container-writable", "container-remap-root", "container-readonly")
# Whose options a refusal of the controller is about, so that it can be located.
_ABOUT = {
    "INVALID_PARTITION_NAME": ("partition",),
    "INVALID_ACCOUNT": ("account",),
    "INVALID_QOS": ("qos",),
    "INVALID_FEATURE": ("constraint",),
    "INVALID_GRES": ("gres", "gpus", "gpus-per-node", "gpus-per-task"),
    "INVALID_GRES_TYPE": ("gres", "gpus", "gpus-per-node", "gpus-per-task"),
    "INVALID_TIME_LIMIT": ("time",),
    "INVALID_NODE_NAME": ("nodelist", "exclude"),
    "INVALID_NODE_COUNT": ("nodes",),
    "INVALID_ARRAY": ("array",),
    "INVALID_TASK_MEMORY": ("mem", "mem-per-cpu", "mem-per-gpu"),
    "REQUESTED_NODE_CONFIG_UNAVAILABLE": ("gres", "gpus", "gpus-per-node", "nodes", "mem", "ntasks"),
}


@dataclass(frozen=True, slots=True)
class Part:
    """One component. `lines`: option → (line, its text); `pyxis`: option → value."""

    request: JobRequest
    options: JobOptions
    lines: Mapping[str, tuple[int, str]]
    pyxis: Mapping[str, str]

    def where(self, *names: str) -> tuple[int, str]:
        """Where the first of these options stands that does; (0, '') for none."""
        return next((self.lines[name] for name in names if name in self.lines), (0, ""))


@dataclass(slots=True)
class Script:
    """`parts`: more than one for a heterogeneous job."""

    file: str
    text: str
    parts: list[Part] = field(default_factory=list)

    def problem(self, line: int, text: str, expected: str) -> FieldProblem:
        return FieldProblem(self.file, line, "", text, expected)


def read_script(file: str, text: str, site: Site) -> Script:
    """Raises: InvalidInput with every line that sbatch would not take, or the controller's refusal."""
    script = Script(file, text)
    call = Call(site, "sbatch", [file], {}, "root", "/")
    if len(text) > MAX_SCRIPT:
        raise InvalidInput((script.problem(0, f"{len(text)} bytes", f"is over {MAX_SCRIPT} bytes"),))
    _check_text(call, script)
    problems: list[FieldProblem] = []
    for directives, _ in command._components([], text):
        part = _part(call, script, directives, problems)
        if part is not None:
            script.parts.append(part)
    if problems:
        raise InvalidInput(tuple(problems))
    if site.cluster.nodes:
        _submit(site, script)
    return script


def _check_text(call: Call, script: Script) -> None:
    call.stdin = script.text
    try:
        command._script(call, [])
    except Quit:
        said = " ".join(line.removeprefix("sbatch: error: ").strip() for line in call.errors)
        raise InvalidInput((script.problem(1, "", said),)) from None


def _part(
    call: Call, script: Script, directives: list[tuple[int, str]], problems: list[FieldProblem]
) -> Part | None:
    options, lines, pyxis = JobOptions(call), dict[str, tuple[int, str]](), dict[str, str]()
    known, before = job_options("sbatch"), len(problems)
    for number, line in directives:
        call.errors.clear()
        try:
            words = _without_pyxis(command.split_directive(call, line, script.file, number), pyxis)
            parsed = parse(call, known, words, permute=False, bad=255)
            if parsed.rest:
                call.fail(f"Invalid directive found in batch script: {parsed.rest[0]}", 255)
            for option, value in parsed.options:
                if option.name in ("help", "usage", "version"):
                    continue
                options.set(option, value, "data")
                lines[option.name] = (number, f"--{option.name}" + (f"={value}" if value is not None else ""))
        except Quit:
            problems.append(script.problem(number, f"#SBATCH{line}"[:80], _said(call)))
    if len(problems) > before:
        return None
    call.errors.clear()
    try:
        if not options.get("ignore-pbs"):
            other_directives(options, script.text)
        request = request_of(options)
    except Quit:
        first = min((number for number, _ in directives), default=1)
        problems.append(script.problem(first, "", _said(call)))
        return None
    return Part(request, options, lines, pyxis)


def _said(call: Call) -> str:
    said = [line.strip() for line in call.errors if not line.startswith("Try ")]
    return " ".join(line.removeprefix("sbatch: ").removeprefix("error: ") for line in said) or "is refused"


def _without_pyxis(words: list[str], pyxis: dict[str, str]) -> list[str]:
    left: list[str] = []
    rest = iter(words)
    for word in rest:
        found = _PYXIS.match(word)
        if found is None:
            left.append(word)
        elif found[2] is not None or found[1] in _PYXIS_FLAGS or found[1].startswith("no-"):
            pyxis[found[1]] = found[2] or ""
        else:
            pyxis[found[1]] = next(rest, "")
    return left


def _submit(site: Site, script: Script) -> None:
    """Would the site take it? Jobs it waits for and reservations are not asked about: they come and go."""
    made = tuple(replace(part.request, dependency=None, reservation=None) for part in script.parts)
    request = made[0] if len(made) == 1 else JobRequest(het=made)
    ids = site.cluster.next_job_id
    try:
        site.controller.submit(request, "root")
    except SlurmError as refused:
        names = _ABOUT.get(refused.name, ())
        spots = [part.where(*names) for part in script.parts]
        line, text = next((spot for spot in spots if spot[0]), (0, ""))
        said = " ".join(["Batch job submission failed: " + refused.message, *refused.notes])
        raise InvalidInput((script.problem(line, text, said),)) from None
    finally:
        site.cluster.next_job_id = ids
