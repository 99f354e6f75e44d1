"""scontrol's words to the controller itself: does it answer, how much does it log, what does it read and write."""

from __future__ import annotations

import re
from collections.abc import Callable

from fairway.slurm.commands import tokens
from fairway.slurm.commands.call import VERSION, Call
from fairway.slurm.commands.scontrolwords import names
from fairway.slurm.conf import read_configuration
from fairway.slurm.words import durations
from fairway.slurm.words.errors import refusals
from fairway.slurm.words.sizes import whole

Command = Callable[[Call, list[str]], None]
_LEVELS = ("quiet", "fatal", "error", "info", "verbose", "debug", "debug2", "debug3", "debug4", "debug5")
_DEBUG_FLAGS = frozenset(
    """
    accrue agent backfill backfillmap burstbuffer cgroup cpu_bind cpufrequency data db_archive db_assoc
    db_event db_job db_qos db_query db_reservation db_resource db_step db_tres db_usage db_wckey dependency
    elasticsearch energy extsensors federation frontend gang glob_silence gres hetjob influxdb jobcontainer
    journal jobcompletion license network networkraw nodefeatures no_conf_hash power priority profile protocol
    reservation route script selecttype steps switch timecray tracejobs triggers workqueue
    """.split()  # noqa: SIM905 - one a word
)


def ping(call: Call, words: list[str]) -> None:
    call.print(f"Slurmctld(primary) at {call.site.host} is UP")


def version(call: Call, words: list[str]) -> None:
    call.print(VERSION)


def reboot(call: Call, words: list[str]) -> None:
    if not any("=" not in word and word.lower() != "asap" for word in words):
        call.say("Missing node list. Specify ALL|<NodeList>")
        call.quit(1)
    if call.site.conf.get("RebootProgram") in ("", "(null)"):
        call.error("RebootProgram isn't defined")
    call.say(f"scontrol_reboot_nodes error: {refusals()['SLURM_ERROR'][1]}")
    call.quit(1)


def write(call: Call, words: list[str]) -> None:
    """write batch_script JOB [FILE | -], write config [FILE]"""
    if not words:
        call.say("too few arguments for keyword:write")
        call.quit(1)
    if names(words[0], ("config", 6)):
        write_config(call, words[1:])
        return
    if not names(words[0], ("batch_script", 5)):
        call.say(f"invalid write argument:{words[0]}")
        call.quit(1)
    if len(words) < 2:
        call.say("too few arguments for keyword:write")
        call.quit(1)
    job = call.site.job(whole(words[1])) if words[1].isdecimal() else None
    mine = job is not None and (job.user == call.user or call.site.cluster.is_operator(call.user))
    if job is None or not job.request.script or not mine:
        refused = "INVALID_JOB_ID" if job is None or mine else "USER_ID_MISSING"
        call.say(f"job script retrieval failed: {refusals()[refused][1]}")
        return
    if words[2:] == ["-"]:
        call.write(job.request.script)
        return
    name = words[2] if len(words) > 2 else f"slurm-{job.job_id}.sh"
    try:
        call.site.write_file(call, name, job.request.script)
    except OSError as failed:
        call.say(f"failed to open file `{name}': {failed.strerror}")
        call.quit(1)
    call.print(f"batch script for job {job.job_id} written to {name}")


def write_config(call: Call, words: list[str]) -> None:
    """The configuration as it was read, beside it or under the name given, with the time; for administrators."""
    name = words[0] if words else call.environment.get("SLURM_CONF", "/etc/slurm/slurm.conf")
    name = f"{name}.{durations.stamp(call.now)}"
    try:
        if not call.site.cluster.is_administrator(call.user):
            raise PermissionError(13, "Permission denied")
        call.site.write_file(call, name, call.site.conf.texts["slurm.conf"], new=True)
    except OSError as failed:
        call.say(f"Could not create file {name}: {failed.strerror}")
        return
    call.print(f"Slurm config saved to {name}")


def token(call: Call, words: list[str]) -> None:
    """token [lifespan=SECONDS] [username=USER]: what slurmrestd knows a user by."""
    asked = {"lifespan": "0", "username": call.user}
    for word in words:
        key, _, value = word.partition("=")
        if key.lower() not in asked or "=" not in word:
            call.say(f"Invalid option: `{word}`")
            call.quit(1)
        asked[key.lower()] = value
    may = asked["username"] == call.user or call.user in ("root", call.site.conf.get("SlurmUser", "root"))
    if not call.site.token_key or not may or call.site.uid(asked["username"]) is None:
        call.say("Error fetching token")
        call.quit(1)
    lifespan = int(asked["lifespan"]) if asked["lifespan"].isdecimal() and len(asked["lifespan"]) < 11 else 0
    token = tokens.make(call.site.token_key, asked["username"], call.now, lifespan or tokens.LIFESPAN_S)
    call.print(f"SLURM_JWT={token}")


def schedule_log(call: Call, words: list[str]) -> None:
    if words and words[0].lower() not in ("disable", "enable", "0", "1"):
        call.say(f"invalid schedlog level: {words[0]}")
        call.quit(1)
    ask("slurm_set_schedlog_level", "Permission denied")(call, words)
    call.say(
        f"slurm_set_schedlog_level error: {refusals()['DISABLED'][1]}"
    )  # there is no log of the scheduler's own
    call.quit(1)


def set_debug(call: Call, words: list[str]) -> None:
    word = words[0].lower() if words else ""
    if not words or not (word in _LEVELS or (word.isdecimal() and whole(word) <= 9)):
        call.say(f"invalid debug level: {words[0]}" if words else "too few arguments for keyword:setdebug")
        call.quit(1)
    ask("slurm_set_debug_level", "Permission denied")(call, words)


def set_debug_flags(call: Call, words: list[str]) -> None:
    for word in words:
        if word[1:].lower() not in _DEBUG_FLAGS or word[0] not in "+-":
            call.say(f"invalid debug flag: {word}")
            call.say("Usage: setdebugflags [+|-]NAME")
            call.quit(1)
    ask("slurm_set_debugflags", "Permission denied")(call, words)


def errnumstr(call: Call, words: list[str]) -> None:
    if len(words) != 1 or not re.fullmatch(r"[+-]?\d+", words[0]):
        wanted = "one" if len(words) != 1 else "numeric"
        call.say(f"{wanted} arguments required for keyword:errnumstr")
        call.quit(1)
    numbers = dict(refusals().values())
    call.print(numbers.get(whole(words[0]), "Unspecified error"))


def takeover(call: Call, words: list[str]) -> None:
    """There is no backup controller to ask."""
    call.error("slurm_get_port: Address family '0' not supported")
    call.error("Error connecting, bad data: family = 0, port = 0")
    call.say("slurm_takeover error: Unable to contact slurm controller (connect failure)")
    call.quit(1)


def cluster(call: Call, words: list[str]) -> None:
    call.check_clusters(words[0] if words else "")


def ask(said: str, refusal: str = "", told: str = "") -> Command:
    """An administrator's word to the controller; this one has nothing stale to reread, and no log.

    `told`: what an administrator hears where this controller does not do it.
    """

    def ask(call: Call, words: list[str]) -> None:
        if not call.site.cluster.is_administrator(call.user):
            call.say(f"{said} error: {refusal or refusals()['USER_ID_MISSING'][1]}")
            call.quit(1)
        if told:
            call.error(told)
            call.quit(1)

    return ask


def cancel_reboot(call: Call, words: list[str]) -> None:
    """Nothing reboots here; only an administrator is told that it is the node's state."""
    ask("slurm_update")(call, words)
    call.say(f"slurm_update error: {refusals()['INVALID_NODE_STATE'][1]}")
    call.quit(1)


def reconfigure(call: Call, words: list[str]) -> None:
    """Partitions as slurm.conf had them when the controller came up; what else may change there stays as it is."""
    ask("slurm_reconfigure")(call, words)
    call.site.controller.reconfigure(read_configuration(call.site.conf.texts).partitions, call.user)
