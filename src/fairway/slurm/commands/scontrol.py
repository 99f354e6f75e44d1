"""scontrol: what the cluster is, and changing it."""

from __future__ import annotations

import re
from collections.abc import Callable

from fairway.slurm.commands import jobtext, scontrolassoc, scontroldaemon, scontroljobs, scontrolshow
from fairway.slurm.commands.call import VERSION, Call
from fairway.slurm.commands.getopt import parse, short_table
from fairway.slurm.commands.prompt import interactive
from fairway.slurm.commands.scontrolupdate import create, delete, update
from fairway.slurm.model.job import Job
from fairway.slurm.words import hostlist
from fairway.slurm.words.errors import SlurmError, refusals
from fairway.slurm.words.sizes import whole

_OPTIONS = short_table(
    "all:a cluster:M: clusters:M: details:d federation:F future help:h hide local oneliner:o quiet:Q sibling "
    "uid:u: usage verbose:v version:V"
)
_SHOW: dict[str, tuple[scontrolshow.Shower, int]] = {
    "aliases": (scontrolshow.show_aliases, 1),
    "assoc_mgr": (scontrolassoc.show_assoc_mgr, 2),
    "bbstat": (scontrolshow.show_nothing, 2),
    "burstbuffer": (scontrolshow.show_nothing, 1),
    "config": (scontrolshow.show_config, 1),
    "daemons": (scontrolshow.show_daemons, 1),
    "dwstat": (scontrolshow.show_nothing, 2),
    "federation": (scontrolshow.show_nothing, 1),
    "frontend": (scontrolshow.show_frontend, 1),
    "hostlist": (scontrolshow.show_hostlist, 5),
    "hostlistsorted": (scontrolshow.show_hostlist_sorted, 9),
    "hostnames": (scontrolshow.show_hostnames, 5),
    "jobs": (scontrolshow.show_job, 1),
    "jobid": (scontrolshow.show_job, 1),
    "licenses": (scontrolshow.show_licenses, 2),
    "nodes": (scontrolshow.show_node, 1),
    "partitions": (scontrolshow.show_partition, 2),
    "reservations": (scontrolshow.show_reservation, 1),
    "reservationname": (scontrolshow.show_reservation, 1),
    "slurmd": (scontrolshow.show_slurmd, 2),
    "steps": (scontrolshow.show_step, 2),
    "topology": (scontrolshow.show_topology, 1),
}
"""What can be shown, and how many letters of its name are enough."""
_SHOW_HOSTS = (scontrolshow.show_hostnames, scontrolshow.show_hostlist, scontrolshow.show_hostlist_sorted)


def scontrol(call: Call) -> None:
    detail = line = quiet = False
    at = 1 + next(
        (n for n, word in enumerate(call.arguments) if word.lower() == "setdebugflags"), len(call.arguments)
    )
    parsed = parse(call, _OPTIONS, call.arguments[:at])
    for name, value in parsed:
        quiet |= name == "quiet"
        if name in ("cluster", "clusters"):
            call.check_clusters(value)
        if name == "uid" and call.site.uid(str(value)) is None:
            call.error(f'--uid="{value}" invalid')
            call.quit(0)
        if name == "version":
            call.print(VERSION)
            call.quit(0)
        if name == "help":
            _help(call, [])
            call.quit(0)
        detail |= name == "details"
        line |= name == "oneliner"
        call.shows_all = name == "all" or (call.shows_all and name != "hide")
    words = parsed.rest + call.arguments[at:]
    try:
        if words:
            _do(call, words, detail, line)
        else:
            interactive(call, lambda typed: _do(call, typed, detail, line))
    finally:
        if quiet:
            call.errors.clear()


def _do(call: Call, words: list[str], detail: bool, line: bool) -> None:
    word, rest = words[0].lower(), words[1:]
    command = next((name for name in _COMMANDS if len(word) >= _least(name) and name.startswith(word)), None)
    if command is None:
        call.say(f"invalid keyword: {words[0]}")
        call.quit(1)
    if command == "show":
        _show(call, rest, detail, line)
        return
    _COMMANDS[command](call, rest)


def _least(name: str) -> int:
    return _ENOUGH.get(name, 3)


def _show(call: Call, words: list[str], detail: bool, line: bool) -> None:
    words = list(words)
    for flag in ("-d", "--details", "-o", "--oneliner", "-a", "--all"):
        if flag in words:
            words.remove(flag)
            call.shows_all |= flag in ("-a", "--all")
            detail |= flag in ("-d", "--details")
            line |= flag in ("-o", "--oneliner")
    if not words:
        call.say("too few arguments for keyword:show")
        call.quit(1)
    entity, _, name = words[0].partition("=")
    word = entity.lower()
    found = next((s for n, (s, least) in _SHOW.items() if len(word) >= least and n.startswith(word)), None)
    if found is None:
        call.say(f"invalid entity:{entity} for keyword:show ")
        call.quit(1)
    if len(words) > 2 and found is not scontrolassoc.show_assoc_mgr:
        call.say("too many arguments for keyword:show")
        call.quit(1)
    is_given = "=" in words[0] or len(words) > 1
    name = name or " ".join(words[1:])
    if found in _SHOW_HOSTS and not is_given:
        name = _hosts_not_given(call, found)
    if found not in (scontrolassoc.show_assoc_mgr, scontrolshow.show_hostnames, scontrolshow.show_hostlist):
        name = name.partition(" ")[0]
    found(call, name, detail, line)


def _hosts_not_given(call: Call, found: scontrolshow.Shower) -> str:
    """What `show hostnames` without a list shows; the others want one."""
    if found is not scontrolshow.show_hostnames:
        call.say("invalid encode argument")
        call.quit(1)
    if "SLURM_NODELIST" not in call.environment:
        call.error("host list is empty")
    return call.environment.get("SLURM_NODELIST", "")


Command = Callable[[Call, list[str]], None]
Act = Callable[[list[int], bool], None]
"""Done to records by their numbers; True: to these alone, though a number names an array as well."""


def job_ids(call: Call, text: str, split: bool = False) -> list[int]:
    """Records named by `7`, `5_3`, `5_[1-2]`, `4+1` or a list of them. split: tasks that wait get records of their own.

    Raises: SlurmError for one that is none.
    """
    cluster = call.site.cluster
    found: list[int] = []
    for word in re.findall(r"[^,\[]+(?:\[[^\]]*\])?", text):
        match = re.fullmatch(r"(\d{1,10})(?:_(\d+)|_\[([\d,-]+)\])?(?:\+(\d{1,9}))?", word)
        if match is None:
            raise SlurmError("INVALID_JOB_ID")
        number = int(match[1])
        try:
            tasks = hostlist.task_numbers(match[2], match[3])
        except hostlist.HostlistError:
            raise SlurmError("INVALID_JOB_ID") from None
        mine = [j for j in cluster.jobs.values() if number in (j.job_id, j.array_job_id, j.het_job_id)]
        if tasks is None and not any(j.array_job_id == number for j in mine):
            mine = [j for j in mine if number in (j.job_id, j.het_job_id)]
        if tasks is not None:
            mine = [j for j in mine if j.array_task in tasks or tasks & set(j.array_left)]
        if match[4]:
            mine = [j for j in mine if j.het_job_id == number and j.het_offset == int(match[4])]
        if not mine:
            raise SlurmError("INVALID_JOB_ID")
        if tasks is None:
            found.append(mine[0].job_id if match[4] else number)
        elif split:
            found += [call.site.controller.split_off(number, t) for t in sorted(tasks) if _has_task(mine, t)]
        else:
            found += [j.job_id for j in mine]
    return found


def _has_task(jobs: list[Job], task: int) -> bool:
    return any(task == j.array_task or task in j.array_left for j in jobs)


def on_jobs(call: Call, words: list[str], name: str, act: Act, said: str = "") -> None:
    """Do something to every job named; what is refused is told job by job, of an array's tasks by what was said."""
    if not words:
        call.say(f"too few arguments for keyword:{name}")
        call.quit(1)
    for word in ",".join(words).split(",") if "[" not in "".join(words) else words:
        try:
            ids = job_ids(call, _number_of(word), split=name in ("hold", "release", "update"))
            tasks = [] if name == "top" else _array_records(call, word, ids)
            if tasks:
                _on_tasks(call, tasks, act, name in ("suspend", "resume"))
            else:
                act(ids, False)
        except SlurmError as refused:
            if name in ("suspend", "resume") and refused.name == "INVALID_JOB_ID" and _is_unknown(call, word):
                refused = SlurmError("SLURM_UNEXPECTED_MSG_ERROR")
            denied = name in ("suspend", "resume") and refused.name == "ACCESS_DENIED"
            whose = "" if denied else _array_of(call, word)
            call.say(f"{whose}: {refused.message}" if whose else f"{refused.message} for job {word}")
            if said and not whose:
                call.say(f"{said} error: {refused.message}")
            call.code = 1


def _array_records(call: Call, word: str, ids: list[int]) -> list[Job]:
    """The records meant of an array that is named by its own number; none of any other job."""
    number = re.match(r"\d{1,10}", _number_of(word))
    array = int(number[0]) if number else 0
    jobs = call.site.cluster.jobs
    mine = [jobs[at] for at in call.site.cluster.arrays.get(array, ()) if at in jobs]
    return mine if ids == [array] and "_" not in word else [job for job in mine if job.job_id in ids]


def _on_tasks(call: Call, jobs: list[Job], act: Act, needs_operator: bool) -> None:
    """One by one; where not all went alike, those that went well are named too (_resp_array_xlate).

    Raises: SlurmError for who may do it to no job at all.
    """
    told: dict[str, set[int]] = {}
    for job in jobs:
        try:
            act([job.job_id], True)
            said = refusals()["SLURM_SUCCESS"][1]
        except SlurmError as refused:
            if needs_operator and refused.name == "ACCESS_DENIED":
                raise
            said = refused.message
        told.setdefault(said, set()).update(_tasks_of([job]))
    if list(told) == [refusals()["SLURM_SUCCESS"][1]]:
        return
    for said, tasks in sorted(told.items(), key=lambda one: min(one[1])):
        call.say(f"{jobs[0].array_job_id}_{jobtext.index_list(sorted(tasks))}: {said}")
    call.code = 1


def _is_unknown(call: Call, word: str) -> bool:
    """A number of no job: slurmctld does not answer whether it suspends that (_slurm_rpc_suspend)."""
    number = re.match(r"\d{1,10}", _number_of(word))
    return number is not None and call.site.job(int(number[0])) is None


def _array_of(call: Call, word: str) -> str:
    """What a refusal of no record begins with, if it is about an array: `5_1`; '' otherwise."""
    number, mark, _ = word.partition("_")
    if not mark or not number.isdecimal() or len(number) > 10:
        return ""
    job = call.site.job(int(number))
    plain = word.replace("[", "").replace("]", "")  # scontrol strips them (_next_job_id)
    return plain if job is None or job.array_job_id else ""


def _tasks_of(jobs: list[Job]) -> set[int]:
    return {task for job in jobs for task in (*job.array_left, job.array_task) if task is not None}


def _each(act: Callable[[int, bool], None]) -> Act:
    def every(ids: list[int], alone: bool) -> None:
        for one in ids:
            act(one, alone)

    return every


def _number_of(word: str) -> str:
    key, equals, number = word.partition("=")
    return number if equals and key.lower() in ("job", "jobid") else word


def jobs_of_name(call: Call, name: str, user: str = "") -> list[Job]:
    jobs = call.site.cluster.listed()
    return [job for job in jobs if job.request.name == name and user in ("", job.user)]


def _hold(call: Call, words: list[str]) -> None:
    _hold_named(
        call, words, "hold", _each(lambda one, alone: call.site.controller.hold(one, call.user, alone=alone))
    )


def _user_hold(call: Call, words: list[str]) -> None:
    hold = _each(lambda one, alone: call.site.controller.hold(one, call.user, as_user=True, alone=alone))
    _hold_named(call, words, "hold", hold)


def _release(call: Call, words: list[str]) -> None:
    _hold_named(
        call,
        words,
        "release",
        _each(lambda one, alone: call.site.controller.release(one, call.user, alone=alone)),
    )


def _hold_named(call: Call, words: list[str], name: str, act: Act) -> None:
    """Of jobs named `name=` those that run are told of, and done all the same (scontrol_hold)."""
    numbers = []
    for word in words:
        key, equals, called = word.partition("=")
        if not equals or key.lower() not in ("name", "jobname"):
            numbers.append(word)
            continue
        named = jobs_of_name(call, called)
        if named:
            on_jobs(call, [job.label for job in named], name, act, "slurm_suspend")
        if not all(job.pending for job in named):
            call.say(f"slurm_suspend error: {refusals()['JOB_NOT_PENDING'][1]}")
            call.code = 1
    if numbers or not words:
        on_jobs(call, numbers, name, act, "slurm_suspend")


def _requeue(call: Call, words: list[str]) -> None:
    on_jobs(
        call,
        words,
        "requeue",
        _each(lambda one, alone: call.site.controller.requeue(one, call.user, alone=alone)),
    )


def _requeue_hold(call: Call, words: list[str]) -> None:
    state = [w for w in words if w.lower().startswith("state=")]
    rest = [w for w in words if w not in state]
    special = bool(state)

    def again(one: int, alone: bool) -> None:
        call.site.controller.requeue(one, call.user, hold=True, special=special, alone=alone)

    on_jobs(call, rest, "requeuehold", _each(again))


def _suspend(call: Call, words: list[str]) -> None:
    on_jobs(
        call,
        words,
        "suspend",
        _each(lambda one, alone: call.site.controller.suspend(one, call.user, alone=alone)),
    )


def _resume(call: Call, words: list[str]) -> None:
    on_jobs(
        call,
        words,
        "resume",
        _each(lambda one, alone: call.site.controller.resume(one, call.user, alone=alone)),
    )


def _top(call: Call, words: list[str]) -> None:
    on_jobs(call, words, "top", lambda ids, _: call.site.controller.top(ids, call.user))


def _list_pids(call: Call, words: list[str]) -> None:
    call.print("PID      JOBID    STEPID   LOCALID GLOBALID")
    call.error("stepd_available: Couldn't find nodename")
    call.say(
        f"JobId={words[0]} does not exist on node (null)." if words else "No job steps exist on this node."
    )
    call.quit(1)


def _completing(call: Call, words: list[str]) -> None:
    for job in call.site.cluster.jobs.values():
        if "COMPLETING" in job.flags:
            call.write("\n   ".join(scontroljobs.job_lines(call, job, False)) + "\n")


def _wait_job(call: Call, words: list[str]) -> None:
    if not words:
        call.say("too few arguments for keyword:wait_job")
        call.quit(1)
    job = call.site.job(whole(words[0])) if words[0].isdecimal() else None
    if job is None:
        call.say(f"scontrol: Problem running job {words[0]}")
        call.quit(1)
    call.info(f"Nodes are ready for job {job.job_id}" if job.active else "Job is no longer running")


def _notify(call: Call, words: list[str]) -> None:
    if len(words) < 2:
        call.say("too few arguments for keyword:notify")
        call.quit(1)
    job = call.site.job(whole(words[0])) if words and words[0].isdecimal() else None
    if job is None or job.finished:
        call.say(f"job notify failure: {refusals()['INVALID_JOB_ID'][1]}")
        call.quit(1)
    if job.pending:
        call.say(f"job notify failure: {refusals()['DISABLED'][1]}")
        call.quit(1)


def _help(call: Call, words: list[str]) -> None:
    call.print("scontrol [<OPTION>] [<COMMAND>]")
    call.print("    Valid <COMMAND> values are: " + " ".join(_COMMANDS))


def _pidinfo(call: Call, words: list[str]) -> None:
    """A job of this cluster has no processes of this machine's numbers."""
    if not words:
        call.say("missing argument for keyword:pidinfo")
    else:
        call.say("Failed to locate job for requested pid")
    call.quit(1)


def _nothing(call: Call, words: list[str]) -> None:
    """What only changes how later commands print."""


_ENDED = "this controller ends with `fairway slurm down`"
_COMMANDS: dict[str, Command] = {
    "show": _nothing,
    "hold": _hold,
    "uhold": _user_hold,
    "release": _release,
    "requeue": _requeue,
    "requeuehold": _requeue_hold,
    "suspend": _suspend,
    "resume": _resume,
    "top": _top,
    "update": update,
    "create": create,
    "delete": delete,
    "ping": scontroldaemon.ping,
    "version": scontroldaemon.version,
    "listpids": _list_pids,
    "reboot": scontroldaemon.reboot,
    "completing": _completing,
    "write": scontroldaemon.write,
    "wait_job": _wait_job,
    "notify": _notify,
    "token": scontroldaemon.token,
    "errnumstr": scontroldaemon.errnumstr,
    "reconfigure": scontroldaemon.reconfigure,
    "setdebugflags": scontroldaemon.set_debug_flags,
    "setdebug": scontroldaemon.set_debug,
    "takeover": scontroldaemon.takeover,
    "help": _help,
    "schedloglevel": scontroldaemon.schedule_log,
    "shutdown": scontroldaemon.ask("slurm_shutdown", told=_ENDED),
    "abort": scontroldaemon.ask("slurm_shutdown", told=_ENDED),
    "cancel_reboot": scontroldaemon.cancel_reboot,
    "cluster": scontroldaemon.cluster,
    "fsdampeningfactor": scontroldaemon.ask("slurm_set_fs_dampeningfactor", "Permission denied"),
    "pidinfo": _pidinfo,
    "details": _nothing,
    "oneliner": _nothing,
    "all": _nothing,
    "hide": _nothing,
    "quiet": _nothing,
    "verbose": _nothing,
}
_ENOUGH = {
    "abort": 5, "all": 2, "completing": 2, "cluster": 2, "create": 2, "details": 1, "errnumstr": 2, "help": 2,
    "hide": 2, "hold": 4, "uhold": 5, "oneliner": 1, "quiet": 4, "requeuehold": 8, "suspend": 2, "wait_job": 2,
    "setdebugflags": 9, "setdebug": 2, "write": 5, "takeover": 8, "shutdown": 8, "update": 1, "delete": 1,
    "verbose": 4, "version": 4, "listpids": 1, "notify": 1,
}  # fmt: skip
"""How many letters of a command's name are enough, where it is not three."""
