"""What salloc, sbatch and srun were asked: options from a script, the environment and the command line, in that order.

Values are checked as they come, with Slurm's words: what its option table refuses ends the command with 255, a number
that is none with 1. Source: src/common/slurm_opt.c, src/common/proc_args.c, 22.05.8.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from fairway.slurm.commands.binding import wrong_memory_bind
from fairway.slurm.commands.call import VERSION, Call
from fairway.slurm.commands.getopt import Option, job_options, parse
from fairway.slurm.words import durations, sizes
from fairway.slurm.words.durations import INFINITE
from fairway.slurm.words.sizes import whole

REFUSED = 255
NICE_MOST = 0x80000000 - 3

Values = dict[str, Any]

EARLY = ("help", "quiet", "usage", "verbose", "version", "wrap", "ignore-pbs")
"""What sbatch looks at before it opens the script, and not again."""
_ALSO_LATE = ("ignore-pbs", "data")

AGAIN = frozenset((
    "accel-bind", "bb", "constraint", "contiguous", "core-spec", "cores-per-socket", "cpu-freq", "cpus-per-gpu",
    "cpus-per-task", "distribution", "exclusive", "extra-node-info", "gpu-bind", "gpu-freq", "gpus", "gpus-per-node",
    "gpus-per-socket", "gpus-per-task", "gres", "gres-flags", "hint", "licenses", "mail-type", "mail-user", "mem",
    "mem-bind", "mem-per-cpu", "mem-per-gpu", "mincpus", "network", "nodefile", "nodelist", "nodes", "ntasks",
    "ntasks-per-core", "ntasks-per-node", "ntasks-per-socket", "ntasks-per-tres", "ntasks-per-gpu", "overcommit",
    "oversubscribe", "partition", "power", "relative", "sockets-per-node", "spread-job", "switches", "switches-wait",
    "thread-spec", "threads-per-core", "tmp", "use-min-nodes",
))  # fmt: skip
"""What every component of a heterogeneous job says anew (reset_each_pass in slurm_opt.c); the rest holds on."""


class JobOptions:
    """Option name → value, and where it came from (`data`: a script, `env`, `cli`)."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.values: Values = {}
        self.source: dict[str, str] = {}

    def get(self, name: str, default: Any = None) -> Any:
        return self.values.get(name, default)

    def is_set(self, name: str) -> bool:
        return name in self.source

    def forget(self, *names: str) -> None:
        for name in names:
            self.values.pop(name, None)
            self.source.pop(name, None)

    def take(self, arguments: Sequence[str], source: str) -> list[str]:
        """Set what the arguments say; returns what is left of them at the first operand."""
        parsed = parse(self.call, job_options(self.call.name), arguments, permute=False, bad=REFUSED)
        for option, value in parsed.options:
            if self.call.name == "sbatch" and option.name in EARLY and (option.name, source) != _ALSO_LATE:
                continue
            self.set(option, value, source)
        return parsed.rest

    def take_early(self, arguments: Sequence[str]) -> list[str]:
        """sbatch's first look at its command line: all is checked, what it warns of is told the second time."""
        parsed = parse(self.call, job_options(self.call.name), arguments, permute=False, bad=REFUSED)
        others, told = JobOptions(self.call), len(self.call.errors)
        for option, value in parsed.options:
            (self if option.name in EARLY else others).set(option, value, "cli")
        del self.call.errors[told:]
        return parsed.rest

    def take_environment(self) -> None:
        for option in job_options(self.call.name):
            for variable in option.variables:
                value = self.call.environment.get(variable)
                if value is None or option.name in EARLY[:3]:
                    continue
                if option.argument == "none" and not _is_on(value):
                    self.forget(option.name)
                else:
                    self.set(option, value, "env")

    def set(self, option: Option, value: str | None, source: str) -> None:
        name = _ALIASES.get(option.name, option.name)
        setter = _SETTERS.get(name)
        if setter is not None:
            setter(self, value)
        elif option.how.startswith("int:"):
            self.values[name] = self.whole(option.how[4:], value)
        elif option.how.startswith("mbytes:"):
            self.values[name] = self.refuse_none(sizes.megabytes(value or ""), name)
        elif option.argument == "none":
            self.values[name] = True
        else:
            self.values[name] = value if value is not None else True
        self.source[name] = source

    def refuse(self, text: str) -> None:
        self.call.fail(text, REFUSED)

    def refuse_none(self, value: Any, name: str) -> Any:
        if value is None:
            self.refuse(f"Invalid --{name} specification")
        return value

    def whole(self, name: str, value: str | None, positive: bool = True) -> int:
        """A number as C's strtol reads it. What is none ends the command with 1."""
        found = re.fullmatch(r"\s*([+-]?\d+)", value or "")
        number = -1 if found is None else int(found[1][:_DIGITS])
        if number < positive:
            self.call.fail(f'Invalid numeric value "{value}" for {name}.')
        if number >= 2**63 - 1:
            self.call.fail(f"Numeric argument ({2**63 - 1}) to big for {name}.")
        return (number + 2**31) % 2**32 - 2**31


def _is_on(value: str) -> bool:
    """Does a variable set an option that takes no argument (slurm_process_option)?"""
    number = re.fullmatch(r"\s*([+-]?\d+)", value)
    return value == "" or value.lower() == "yes" or (number is not None and int(number[1][:_DIGITS]) != 0)


# Of a number: all beyond are too large as well.
_DIGITS = 100
_ALIASES = {"tasks-per-node": "ntasks-per-node", "cluster": "clusters", "cpu_bind": "cpu-bind"}

Setter = Callable[[JobOptions, str | None], None]


def _named(name: str, **words: Any) -> Setter:
    """One of a few words, in any case."""

    def setter(options: JobOptions, value: str | None) -> None:
        word = (value or "_none").lower().replace("-", "_")
        if word not in words:
            options.refuse(f"Invalid --{name} specification")
        options.values[name] = words[word]

    return setter


def _limit(name: str) -> Setter:
    def setter(options: JobOptions, value: str | None) -> None:
        minutes = options.refuse_none(durations.minutes(value or ""), name)
        options.values[name] = minutes or INFINITE

    return setter


def _moment(name: str) -> Setter:
    def setter(options: JobOptions, value: str | None) -> None:
        try:
            when = durations.parse_time(value or "", options.call.now)
        except durations.TimeError as bad:
            options.call.say(str(bad))
            when = 0
        options.values[name] = options.refuse_none(when or None, name)

    return setter


def _whole(name: str, said: str = "", positive: bool = True) -> Setter:
    def setter(options: JobOptions, value: str | None) -> None:
        options.values[name] = options.whole(said or f"--{name}", value, positive)

    return setter


def _memory(options: JobOptions, value: str | None) -> None:
    options.values["mem"] = options.refuse_none(sizes.megabytes(value or ""), "mem")
    if options.call.name == "srun":
        options.forget("mem-per-cpu")


def _nodes(options: JobOptions, value: str | None) -> None:
    """`4`, `2-4`, `1k`."""
    text = value or ""
    low, dash, high = text.partition("-")
    counts = []
    if dash and not high:
        options.refuse(f"Maximum node count -1 is less than minimum node count {low}")
    for part in (low or high, high) if dash else (text,):
        found = re.fullmatch(r"\s*(\d*)\s*([kKmM]?)\s*", part)
        if found is None or (not found[1] and not dash and found[2]):
            options.refuse(f'"{part}" is not a valid node count')
        else:
            counts.append(whole(found[1] or "0") * {"": 1, "k": 1024, "m": 1048576}[found[2].lower()])
    least, most = counts[0], counts[-1]
    if most and most < least:
        options.refuse(f"Maximum node count {most} is less than minimum node count {least}")
    options.values["nodes"] = (least, most)


def _nice(options: JobOptions, value: str | None) -> None:
    found = re.match(r"\s*[+-]?\d+", value or "")
    nice = 100 if value is None else whole(found[0].strip()) if found else 0
    if abs(nice) > NICE_MOST:
        options.refuse(f"Invalid --nice value, out of range (+/- {NICE_MOST})")
    options.values["nice"] = nice


def _priority(options: JobOptions, value: str | None) -> None:
    if (value or "").upper() == "TOP":
        options.values["priority"] = 0xFFFFFFFD
        return
    found = re.match(r"\s*[+-]?\d+", value or "")
    priority = whole(found[0].strip()) if found else 0
    if priority < 0:
        options.refuse("Priority must be >= 0")
    if priority >= 0xFFFFFFFE:
        options.refuse("Priority must be < 4294967294")
    options.values["priority"] = priority


def _open_mode(options: JobOptions, value: str | None) -> None:
    mode = (value or " ")[0].lower()
    if mode not in "at":
        options.refuse("Invalid --open-mode specification")
    options.values["open-mode"] = mode


def _nodelist(name: str, other: str) -> Setter:
    def setter(options: JobOptions, value: str | None) -> None:
        options.forget(other)
        options.values[name] = value

    return setter


_SIGNALS = (
    "HUP", "INT", "QUIT", "ABRT", "KILL", "ALRM", "TERM", "USR1", "USR2", "URG", "CONT", "STOP", "TSTP",
    "TTIN", "TTOU", "XCPU",
)  # fmt: skip


def signal_number(text: str) -> int:
    """`USR1`, `SIGUSR1` or a number; 0 for none Slurm knows."""
    import signal

    if text.isdecimal():
        return whole(text)
    name = text.upper().removeprefix("SIG")
    return int(getattr(signal, f"SIG{name}")) if name in _SIGNALS else 0


def _signal(options: JobOptions, value: str | None) -> None:
    found = re.fullmatch(r"[RrBb]{0,2}:?([A-Za-z0-9]+)(?:@(\d{1,5}))?", value or "")
    number = signal_number(found[1]) if found else 0
    if found is None or not 1 <= number <= 0xFFFF or int(found[2] or 0) > 0xFFFF:
        options.refuse("Invalid --signal specification")
    options.values["signal"] = value


_MAIL = (
    "ARRAY_TASKS", "INVALID_DEPEND", "BEGIN", "END", "FAIL", "REQUEUE", "STAGE_OUT",
    "TIME_LIMIT_50", "TIME_LIMIT_80", "TIME_LIMIT_90", "TIME_LIMIT",
)  # fmt: skip
"""In the order in which Slurm prints them (print_mail_type)."""


def mail_types(text: str) -> list[str] | None:
    """What --mail-type asks for; None where no word of it is known (parse_mail_type). NONE takes all before it back."""
    words = text.upper().split(",")
    if "NONE" in words:
        return []
    if "ALL" in words:
        words += _MAIL[1:7]
    return [word for word in _MAIL if word in words] or None


def _mail(options: JobOptions, value: str | None) -> None:
    """Each mention adds to those before it."""
    found = mail_types(value or "")
    if found is None:
        options.refuse("Invalid --mail-type specification")
        return
    found += (options.get("mail-type") or "").split(",")
    options.values["mail-type"] = ",".join(word for word in _MAIL if word in found)


_DISTRIBUTIONS = r"(block|cyclic|plane=\d+|arbitrary|\*)(:(block|cyclic|fcyclic|\*)){0,2}(,(pack|nopack))?"


def _distribution(options: JobOptions, value: str | None) -> None:
    if not re.fullmatch(_DISTRIBUTIONS, (value or "").lower()):
        options.refuse("Invalid --distribution specification")
    options.values["distribution"] = value


def _gres(options: JobOptions, value: str | None) -> None:
    text = value or ""
    if text.lower() in ("help", "list"):
        options.call.print("Valid gres options are:")
        for name in options.call.site.gres_names:
            options.call.print(f"{name}[[:type]:count]")
        options.call.quit(0)
    options.values["gres"] = text


def _no_kill(options: JobOptions, value: str | None) -> None:
    if value is not None and value.lower() not in ("set", "off", "no"):
        options.refuse("Invalid --no-kill specification")
    options.values["no-kill"] = value is None or value.lower() == "set"


def _chdir(options: JobOptions, value: str | None) -> None:
    text = value or ""
    options.values["chdir"] = text if text.startswith("/") else f"{options.call.cwd}/{text}"


def _switches(options: JobOptions, value: str | None) -> None:
    count, _, wait = (value or "").partition("@")
    options.values["switches"] = options.whole("--switches", count)
    options.values["switches-wait"] = durations.seconds(wait) if wait else None


def _verbose(options: JobOptions, value: str | None) -> None:
    options.values["verbose"] = options.get("verbose", 0) + 1


def _version(options: JobOptions, value: str | None) -> None:
    options.call.print(VERSION)
    options.call.quit(0)


def _help(options: JobOptions, value: str | None) -> None:
    name = options.call.name
    operand = "script [arguments...]" if name == "sbatch" else "[command [arguments...]]"
    options.call.print(f"Usage: {name} [OPTIONS...] {operand}\n")
    for option in job_options(name):
        letter = f"-{option.letter}, " if option.letter else "    "
        argument = {"required": "=…", "optional": "[=…]"}.get(option.argument, "")
        options.call.print(f"  {letter}--{option.name}{argument}")
    options.call.quit(0)


def _flag(name: str, of: str, value: Any) -> Setter:
    """Options that undo each other share one value: --requeue and --no-requeue."""

    def setter(options: JobOptions, _: str | None) -> None:
        options.values[of] = value

    return setter


def _extra_node_info(options: JobOptions, value: str | None) -> None:
    parts = (value or "").split(":")[:3]
    names = ("sockets-per-node", "cores-per-socket", "threads-per-core")
    for which, name, part in zip(("first", "second", "third"), names, parts, strict=False):
        number = re.match(r"\d{1,9}", part)
        if part in ("", "*"):
            continue
        if number is None or not int(number[0]):
            options.call.fail(f'Invalid numeric value "{part}" for {which} arg of -B.')
        options.values[name] = int(number[0])
    options.values["extra-node-info"] = value


def _user_environment(options: JobOptions, value: str | None) -> None:
    """--get-user-env[=SECONDS][S|L]"""
    if value and not re.match(r"\s*[+-]?\d*([sSlL]|$)", value):
        options.refuse("Invalid --get-user-env specification")
    options.values["get-user-env"] = value or True


def _uid(options: JobOptions, value: str | None) -> None:
    if options.call.user != "root":
        options.refuse("--uid only permitted by root user")
    if options.call.site.uid(value or "") is None:
        options.refuse("Invalid --uid specification")
    options.values["uid"] = value


def _gid(options: JobOptions, value: str | None) -> None:
    if options.call.user != "root":
        options.refuse("--gid only permitted by root user")
    options.values["gid"] = value


def _clusters(options: JobOptions, value: str | None) -> None:
    options.call.check_clusters(value)
    options.values["clusters"] = value


def _hint(options: JobOptions, value: str | None) -> None:
    if value not in ("compute_bound", "memory_bound", "multithread", "nomultithread", "help"):
        options.call.fail(f'unrecognized --hint argument "{value}", see --hint=help')
    options.values["hint"] = value
    if value != "multithread":  # verify_hint of proc_args.c
        options.values["threads-per-core"] = 1
    if value == "memory_bound":
        options.values["cores-per-socket"] = 1


def _memory_bind(options: JobOptions, value: str | None) -> None:
    wrong = wrong_memory_bind(value or "")
    if wrong:
        options.refuse(wrong)
    options.values["mem-bind"] = value


def _like(name: str, form: str, said: str, code: int = REFUSED, before: str = "") -> Setter:
    """A text of some form; `said` is what is told of another, `before` what is told first."""

    def setter(options: JobOptions, value: str | None) -> None:
        text = value or ""
        if not re.fullmatch(form, text.lower()):
            if before:
                options.call.error(before.format(text))
            options.call.fail(said.format(text), code)
        options.values[name] = value

    return setter


def _ignored(name: str, said: str) -> Setter:
    def setter(options: JobOptions, value: str | None) -> None:
        options.whole("--core-spec" if name == "core-spec" else name, value, positive=False)
        of = "(AllowSpecResourcesUsage = No)"
        options.call.error(f"Ignoring {said} since it's not allowed by configuration {of}")

    return setter


_SPEED = r"(low|medium|high|highm1|\d+)"
_GPU_SPEED = rf"((memory=)?{_SPEED}(,memory={_SPEED})?(,verbose)?)"
_GPU_BIND = r"(verbose,)?(closest|none|single:\d+|per_task:\d+|(map|mask)_gpu:[\dxa-f,*]+)(,verbose)?"
_GOVERNORS = r"(conservative|ondemand|performance|powersave|userspace|schedutil)"
_LIMITS = r"(all|none|as|core|cpu|data|fsize|memlock|nofile|nproc|rss|stack)"

_SETTERS: dict[str, Setter] = {
    "acctg-freq": _like(
        "acctg-freq",
        r"((task|energy|network|filesystem)=)?\d+(,(task|energy|network|filesystem)=\d+)*",
        "Invalid --acctg-freq specification: {}",
    ),
    "clusters": _clusters,
    "cpu-freq": _like(
        "cpu-freq",
        rf"{_SPEED}(-{_SPEED})?(:{_GOVERNORS})?|{_GOVERNORS}(,{_GOVERNORS})*",
        "Invalid --cpu-freq argument",
        before='unrecognized --cpu-freq argument "{}"',
    ),
    "gid": _gid,
    "gpu-bind": _like("gpu-bind", _GPU_BIND, "Invalid --gpu-bind argument: gpu:{}"),
    "gpu-freq": _like("gpu-freq", _GPU_SPEED, "Invalid --gpu-freq argument: gpu:{}"),
    "hint": _hint,
    "profile": _like(
        "profile",
        r"(all|none|energy|task|lustre|network)(,(energy|task|lustre|network))*",
        "invalid --profile={} option",
    ),
    "propagate": _like(
        "propagate", rf"|{_LIMITS}(,{_LIMITS})*", "--propagate={} is not valid.", 1, "Bad rlimit name: {}"
    ),
    "thread-spec": _ignored("thread-spec", "--thread-spec"),
    "wait-all-nodes": _like("wait-all-nodes", "[01]", "Invalid --wait-all-nodes specification"),
    "begin": _moment("begin"),
    "chdir": _chdir,
    "core-spec": _ignored("core-spec", "-S"),
    "cpus-per-task": _whole("cpus-per-task"),
    "deadline": _moment("deadline"),
    "distribution": _distribution,
    "exclusive": _named(
        "exclusive", _none="node", exclusive="node", oversubscribe="ok", user="user", mcs="mcs"
    ),
    "extra-node-info": _extra_node_info,
    "get-user-env": _user_environment,
    "gres": _gres,
    "gres-flags": _named(
        "gres-flags", disable_binding=("disable-binding",), enforce_binding=("enforce-binding",)
    ),
    "help": _help,
    "jobid": _whole("jobid"),
    "kill-on-invalid-dep": _named("kill-on-invalid-dep", yes=True, no=False),
    "mail-type": _mail,
    "mem": _memory,
    "mem-bind": _memory_bind,
    "nice": _nice,
    "no-kill": _no_kill,
    "no-requeue": _flag("no-requeue", "requeue", False),
    "nodefile": _nodelist("nodefile", "nodelist"),
    "nodelist": _nodelist("nodelist", "nodefile"),
    "nodes": _nodes,
    "ntasks": _whole("ntasks"),
    "open-mode": _open_mode,
    "oversubscribe": _flag("oversubscribe", "exclusive", "ok"),
    "priority": _priority,
    "requeue": _flag("requeue", "requeue", True),
    "signal": _signal,
    "switches": _switches,
    "threads-per-core": _whole("threads-per-core"),
    "time": _limit("time"),
    "time-min": _limit("time-min"),
    "uid": _uid,
    "usage": _help,
    "verbose": _verbose,
    "version": _version,
}
