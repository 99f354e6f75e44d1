"""What is said about binding tasks to CPUs and memory, and about MPI: words are checked, nothing is bound.

Source: slurm_resource_info.c, 22.05.8; the MPI plugins are those of Debian's packages.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fairway.slurm.commands.call import Call

if TYPE_CHECKING:
    from fairway.slurm.commands.joboptions import JobOptions

_CPU_WORDS = frozenset((
    "q", "quiet", "v", "verbose", "one_thread", "no", "none", "rank", "rank_ldom", "socket", "sockets", "core", "cores",
    "thread", "threads", "ldom", "ldoms",
))  # fmt: skip
_CPU_LISTS = r"(map_?cpu|mask_?cpu|map_?ldom|mask_?ldom)"
_MEMORY_WORDS = frozenset((
    "p", "prefer", "nosort", "sort", "q", "quiet", "v", "verbose", "no", "none", "rank", "local",
))  # fmt: skip
_MEMORY_LISTS = r"(map_?mem|mask_?mem)"
_NUMBER = r"(0x[0-9a-f]+|\d+)(\*\d+)?"
_MPI = ("pmix", "none", "cray_shasta", "pmi2")
_MPI_VERSION = "pmix_v4"


def check_cpu_bind(call: Call, text: str) -> None:
    """srun's --cpu-bind; with TaskPlugin=task/none it says first that nothing comes of it."""
    binds = call.site.conf.get("TaskPlugin", "task/none") not in ("task/none", "")
    for word in _words(text):
        if word.lower() == "help":
            if not binds:
                call.print("CPU bind options not supported with current configuration")
            call.quit(0)
        if not binds:
            call.info("cluster configuration lacks support for cpu binding")
            binds = True
        said = _wrong(word, "cpu", _CPU_WORDS, _CPU_LISTS)
        if said:
            call.error(said)
            call.fatal("Failed to parse --cpu-bind= values.")


def wrong_memory_bind(text: str) -> str:
    """What is wrong with --mem-bind; '' where nothing is."""
    words = (word for word in _words(text) if word.lower() != "help")
    return next((wrong for word in words if (wrong := _wrong(word, "mem", _MEMORY_WORDS, _MEMORY_LISTS))), "")


def _words(text: str) -> list[str]:
    """Commas part words, but not the numbers of a list."""
    return re.split(r",(?!\d|0x)", text)


def _wrong(word: str, what: str, words: frozenset[str], lists: str) -> str:
    name, sign, values = re.fullmatch(r"([^:=]*)([:=]?)(.*)", word, re.DOTALL).groups()  # type: ignore[union-attr]
    if not re.match(lists, word.lower()):
        return "" if word.lower() in words else f'unrecognized --{what}-bind argument "{word}"'
    if not sign or not values:
        return f'missing list for "--{what}-bind={name}:<list>"'
    bad = next((one for one in values.split(",") if not re.fullmatch(_NUMBER, one.lower())), None)
    if bad is None:
        return ""
    offending = re.sub(r"^(0x[0-9a-fA-F]*|\d*)", "", bad)
    return f"Failed to validate number: {bad}, the offending character is {offending[:1]}"


def check_mpi(options: JobOptions) -> None:
    """srun's --mpi: `list` tells the kinds there are, others are refused."""
    call, asked = options.call, str(options.get("mpi") or "none")
    if asked == "list":
        call.print("MPI plugin types are...")
        for name in _MPI:
            call.print(f"\t{name}")
        call.print(f"specific pmix plugin versions available: {_MPI_VERSION}")
        call.quit(0)
    if asked not in (*_MPI, _MPI_VERSION):
        call.error(f"Couldn't find the specified plugin name for mpi/{asked} looking at all files")
        call.error(f"cannot find mpi plugin for mpi/{asked}")
        call.error(f"MPI: Cannot create context for mpi/{asked}")
        call.error("MPI: Unable to load any plugin")
        call.fail(f"Invalid MPI type '{asked}', --mpi=list for acceptable types")
