"""#PBS and #BSUB lines of a script, as sbatch translates them."""

from __future__ import annotations

import re

from fairway.slurm.commands.getopt import job_options
from fairway.slurm.commands.joboptions import JobOptions

_PBS = {
    "N": "job-name",
    "A": "account",
    "e": "error",
    "o": "output",
    "q": "partition",
    "M": "mail-user",
    "J": "array",
    "t": "array",
    "a": "begin",
    "p": "nice",
    "W": "",
    "h": "hold",
}
_BSUB = {
    "c": "chdir",
    "e": "error",
    "J": "job-name",
    "m": "nodelist",
    "M": "mem-per-cpu",
    "n": "ntasks",
    "o": "output",
    "q": "partition",
    "W": "time",
    "x": "exclusive",
}
_RESOURCES = {
    "walltime": "time",
    "ncpus": "mincpus",
    "mem": "mem",
    "nice": "nice",
    "accelerator": "",
    "naccelerators": "",
}


def other_directives(options: JobOptions, body: str) -> None:
    """Set what #BSUB lines say, or else what #PBS lines say."""
    for word, table in (("#BSUB", _BSUB), ("#PBS", _PBS)):
        lines = [line[len(word) :] for line in body.splitlines() if line.startswith(word)]
        if not lines:
            continue
        for line in lines:
            for letter, value in re.findall(r"-(\w)\s*([^\s#-][^\s#]*)?", line):
                if word == "#PBS" and letter == "l":
                    _resources(options, value)
                elif table.get(letter):
                    _set(
                        options,
                        table[letter],
                        value + "K" if letter == "M" and value[-1:].isdecimal() else value,
                    )
        return


def _resources(options: JobOptions, text: str) -> None:
    for part in text.split(","):
        name, _, value = part.partition("=")
        if name == "nodes":
            count, *rest = value.split(":")
            _set(options, "nodes" if count.isdecimal() else "nodelist", count)
            for more in rest:
                if more.startswith("ppn="):
                    _set(options, "ntasks-per-node", more[4:])
        elif _RESOURCES.get(name):
            _set(options, _RESOURCES[name], value)


def _set(options: JobOptions, name: str, value: str) -> None:
    option = next(o for o in job_options("sbatch") if o.name == name)
    options.set(option, value or None, "data")
