"""sbatch: a script and its directives become a job."""

from __future__ import annotations

from dataclasses import replace

from fairway.slurm.behaviours import BadHint, hints
from fairway.slurm.commands.call import Call
from fairway.slurm.commands.environment import asked_variables, tres_variables
from fairway.slurm.commands.joboptions import AGAIN, REFUSED, JobOptions
from fairway.slurm.commands.jobrequests import request_of
from fairway.slurm.commands.otherdirectives import other_directives
from fairway.slurm.model.job import JobRequest
from fairway.slurm.words.durations import stamp
from fairway.slurm.words.errors import SlurmError
from fairway.slurm.words.hostlist import compress

_NO_SHEBANG = (
    "This does not look like a batch script.  The first",
    "line must start with #! followed by the path to an interpreter.",
    "For instance: #!/bin/sh",
)


def sbatch(call: Call) -> None:
    early = JobOptions(call)
    operands = early.take_early([word for word in call.arguments if word != ":"])
    wrap = early.get("wrap")
    if operands and wrap is not None:
        call.fail("Script arguments not permitted with --wrap option")
    body = wrapped(wrap) if wrap is not None else _script(call, operands)
    try:
        hints(body)
    except BadHint as wrong:
        call.fail(f"Invalid #FAIRWAY hint in batch script: {wrong}")
    requests, options = [], early
    components = _components(call.arguments[: len(call.arguments) - len(operands)], body)
    for directives, typed in components:
        before, options = options, JobOptions(call)
        options.values.update({k: v for k, v in before.values.items() if k not in AGAIN})
        options.source.update({k: v for k, v in before.source.items() if k not in AGAIN})
        _read_script(options, directives, operands[0] if operands else "stdin")
        if not (options.get("ignore-pbs") or "SBATCH_IGNORE_PBS" in call.environment):
            other_directives(options, body)
        options.take_environment()
        options.take(typed, "cli")
        requests.append(_request(call, options, operands, wrap, body))
    request = requests[0] if len(requests) == 1 else JobRequest(het=tuple(requests), script=body)
    if options.get("test-only"):
        will_run(call, request)
    try:
        job = call.site.controller.submit(request, call.user)
    except SlurmError as refused:
        refused_submission(call, refused, request, "Batch job submission failed")
    if not options.get("quiet"):
        call.print(f"{job.job_id}" if options.get("parsable") else f"Submitted batch job {job.job_id}")
    if options.get("wait"):
        call.waits_for = job.job_id


def refused_submission(call: Call, refused: SlurmError, request: JobRequest, what: str) -> None:
    tell_notes(call, refused, request)
    call.fail(f"{what}: {refused.message}")


def tell_notes(call: Call, refused: SlurmError, request: JobRequest) -> None:
    """What the controller says beside a refusal."""
    for note in refused.notes:
        call.error(note)
    if refused.name == "INVALID_PARTITION_NAME":
        asked = [p for one in request.het or (request,) for p in (one.partition or "").split(",") if p]
        unknown = [p for p in asked if p not in call.site.cluster.partitions]
        if not unknown and any(one.partition == "" for one in request.het or (request,)):
            unknown = ["(null)"]
        if unknown:
            call.error(f"invalid partition specified: {unknown[0]}")


def will_run(call: Call, request: JobRequest) -> None:
    """--test-only: when and where it would start; submits nothing."""
    try:
        found = call.site.controller.test_only(request, call.user)
    except SlurmError as refused:
        tell_notes(call, refused, request)
        call.say(f"allocation failure: {refused.message}")
        call.quit(1)
    where = f"{found.cpus} processors on nodes {compress(found.nodes)} in partition {found.partition}"
    call.info(f"Job {found.job_id} to start at {stamp(found.start)} using {where}")
    call.quit(0)


def wrapped(command: str) -> str:
    return f"#!/bin/sh\n# This script was created by sbatch --wrap.\n\n{command}\n"


def _script(call: Call, operands: list[str]) -> str:
    if operands:
        path = operands[0]
        text = call.site.read_file(call, path)
        if text is None and not call.site.is_folder(call, path):
            call.fail(f"Unable to open file {path}")
    else:
        text = call.stdin
    if not text:
        call.fail("Batch script is empty!")
    if not text.strip():
        call.fail("Batch script contains only whitespace!")
    if not text.startswith("#!"):
        for line in _NO_SHEBANG:
            call.error(line)
        call.quit(1)
    if "\0" in text:
        call.error("The Slurm controller does not allow scripts that")
        call.fail("contain a NULL character '\\0'.")
    if "\r\n" in text:
        call.error("Batch script contains DOS line breaks (\\r\\n)")
        call.fail("instead of expected UNIX line breaks (\\n).")
    return text


def _components(typed: list[str], body: str) -> list[tuple[list[tuple[int, str]], list[str]]]:
    """The script's directives and the typed options of every part of a heterogeneous job; most have one."""
    parts: list[list[tuple[int, str]]] = [[]]
    for number, line in _directives(body):
        word = line.strip().partition(" ")[0].lower()
        if word in ("hetjob", "packjob"):
            parts.append([])
            line = line.strip()[len(word) :]
        parts[-1].append((number, line))
    words: list[list[str]] = [[]]
    for word in typed:
        if word == ":":
            words.append([])
        else:
            words[-1].append(word)
    count = max(len(parts), len(words))
    return [
        (parts[at] if at < len(parts) else [], words[at] if at < len(words) else []) for at in range(count)
    ]


def _directives(body: str) -> list[tuple[int, str]]:
    """The #SBATCH lines before the first command, with their line numbers."""
    found = []
    for number, line in enumerate(body.splitlines(), 1):
        for word in ("#SBATCH", "#SLURM"):
            if line.startswith(word):
                found.append((number, line[len(word) :]))
                break
        else:
            if line.strip() and not line.strip().startswith("#"):
                break
    return found


def _read_script(options: JobOptions, directives: list[tuple[int, str]], file: str) -> None:
    words: list[str] = []
    name = file.rsplit("/", 1)[-1]
    for number, line in directives:
        words.extend(split_directive(options.call, line, name, number))
    left = options.take(words, "data")
    if left:
        options.call.fail(f"Invalid directive found in batch script: {left[0]}", REFUSED)


def split_directive(call: Call, line: str, file: str, number: int) -> list[str]:
    """Words of a directive: quotes hold together, `#` begins a comment, an empty word ends it as well."""
    words: list[str] = []
    at = len(line) - len(line.lstrip())
    while True:
        word, at = _argument(call, line, at, file, number)
        if not word:
            return words
        words.append(word)


def _argument(call: Call, text: str, begin: int, file: str, number: int) -> tuple[str, int]:
    """The next word of a text, and where it ends; a space parts words even behind a backslash (get_argument)."""
    at = begin
    while at < len(text) and text[at].isspace():
        at += 1
    if text[at : at + 1] == ":":
        call.fatal(f"{file}: line {number}: Unexpected `:` in [{text[begin:]}]")
    word: list[str] = []
    quote, escaped = "", False
    while at < len(text) and (quote or not text[at].isspace()):
        letter = text[at]
        if escaped or not (letter in "\\#\"'" if not quote else letter in ("\\", quote)):
            word.append(letter)
            escaped = False
        elif letter == "#":
            break
        elif letter == "\\":
            escaped = True
        else:
            quote = "" if quote else letter
        at += 1
    if quote:
        call.fatal(f"{file}: line {number}: Unmatched `{quote}` in [{text[begin:]}]")
    return "".join(word), at


def _request(call: Call, options: JobOptions, operands: list[str], wrap: str | None, body: str) -> JobRequest:
    request = request_of(options)
    name = "wrap" if wrap is not None else operands[0].rsplit("/", 1)[-1] if operands else "sbatch"
    script = operands[0] if operands else ""
    if script and not script.startswith("/"):
        script = f"{call.cwd}/{script}"
    files = {
        "std_in": options.get("input") or "/dev/null",
        "std_out": options.get("output") or "",
        "std_err": options.get("error") or "",
        "open_mode": options.get("open-mode", ""),
        "command": " ".join([script, *operands[1:]]) if script else "",
    }
    return replace(
        request,
        name=request.name if options.is_set("job-name") else name,
        script=body,
        argv=tuple(operands[1:]),
        environment=_environment(call, options)
        | asked_variables(options.values)
        | tres_variables(options.values)
        | ({"SLURM_OPEN_MODE": files["open_mode"]} if files["open_mode"] else {}),
        extra=request.extra | {key: value for key, value in files.items() if value},
    )


def task_environment(call: Call, options: JobOptions) -> dict[str, str] | None:
    """What srun's tasks find of its environment where --export says so; None: all of it."""
    export = str(options.get("export") or "ALL")
    if export.upper() == "ALL":
        return None
    return _environment(call, options) | (dict(call.environment) if "ALL" in export.split(",") else {})


def _environment(call: Call, options: JobOptions) -> dict[str, str]:
    """What the job inherits: all, none, or what --export names."""
    export = options.get("export") or "ALL"
    if export.upper() == "ALL":
        kept = dict(call.environment)
    elif export.upper() == "NONE":
        kept = {key: value for key, value in call.environment.items() if key.startswith(("SLURM_", "SPANK_"))}
    else:
        kept = dict(call.environment) if "ALL" in export.split(",") else {}
        for part in export.split(","):
            key, equals, value = part.partition("=")
            if equals:
                kept[key] = value
            elif key in call.environment:
                kept[key] = call.environment[key]
        for key, value in call.environment.items():
            if key.startswith(("SLURM_", "SPANK_")):
                kept.setdefault(key, value)
    for key in ("SLURM_JOB_NAME",):
        kept.pop(key, None)
    return kept
