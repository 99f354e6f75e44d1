"""Scripts and words that mean no good: each is answered in Slurm's words, and the cluster goes on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from slurmtyped import Typed

NINES = "9" * 5_000
TOO_LONG = "Pathname of a file, directory or other parameter too long"
DIRECTIVES = {
    "a number": (f"-n {NINES}", "sbatch: error: Numeric argument (9223372036854775807) to big for --ntasks."),
    "no number": ("-n ²", 'sbatch: error: Invalid numeric value "²" for --ntasks.'),
    "a time": (f"-t {NINES}", "sbatch: error: Invalid --time specification"),
    "memory": (f"--mem={NINES}G", "sbatch: error: Invalid --mem specification"),
    "a dependency": (f"--dependency=afterok:{NINES}", "Job dependency problem"),
    "dependencies": ("--dependency=" + ",".join(["afterok:9"] * 12_000), "Job dependency problem"),
    "an array": ("--array=0-99999999", "Invalid job array specification"),
    "brackets": ("--constraint=" + "(" * 1_000, "Invalid feature specification"),
    "a product of hosts": ("--nodelist=n[0-9999][0-9999][0-9999]", "Invalid node name specified"),
    "an open quote": ('-J "abc', 'sbatch: fatal: stdin: line 2: Unmatched `"` in [ "abc]'),
    "licences": ("-L " + ",".join(f"l{n}:1" for n in range(150)), "Invalid license specification"),
    "too many dependencies": ("--dependency=" + ",".join(["afterok:1"] * 50_000), TOO_LONG),
    "too many brackets": ("--constraint=" + "(" * 50_000, TOO_LONG),
    "too many licences": ("-L " + ",".join(f"l{n}:1" for n in range(20_000)), TOO_LONG),
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Typed]:
    found = Typed(tmp_path_factory.mktemp("hostile"))
    yield found
    found.end()


@pytest.mark.parametrize("case", DIRECTIVES.values(), ids=DIRECTIVES.keys())
def test_a_directive(cluster: Typed, case: tuple[str, str]) -> None:
    directive, words = case
    code, out, err = cluster.type("sbatch", stdin=f"#!/bin/sh\n#SBATCH {directive}\nsleep 1\n")
    assert code and not out and words in err
    assert cluster.type("squeue", "-h") == (0, "", "")


def test_long_names_and_many_directives_are_read_letter_by_letter_once(cluster: Typed) -> None:
    """Each of these took minutes when every letter copied the word before it, and every option the list behind it."""
    name, more = "x" * 1_024, "#SBATCH -n 1\n" * 100_000 + "#SBATCH -Hs\nsleep 1\n"
    assert TOO_LONG in cluster.type("sbatch", stdin=f"#!/bin/sh\n#SBATCH -J {'x' * 2_000_000}\n{more}")[2]
    code, out, _ = cluster.type("sbatch", stdin=f"#!/bin/sh\n#SBATCH -J {name}\n{more}")
    assert (code, out.split()[:3]) == (0, ["Submitted", "batch", "job"])
    shown = cluster.type("squeue", "-h", "-o", "%j %C %r")[1]
    assert shown == f"{name} 1 JobHeldUser\n"
    assert cluster.type("scancel", out.split()[3])[0] == 0
    # As long took the words of one line, each of which copied what was left of it.
    code, out, _ = cluster.type("sbatch", stdin=f"#!/bin/sh\n#SBATCH -H {'-n1 ' * 300_000}\nsleep 1\n")
    assert code == 0 and cluster.type("scancel", out.split()[3])[0] == 0


def test_a_script_in_pieces_of_others_formats(cluster: Typed) -> None:
    assert "NULL character" in cluster.type("sbatch", stdin="#!/bin/sh\na\0b\n")[2]
    assert "DOS line breaks" in cluster.type("sbatch", stdin="#!/bin/sh\r\nsleep 1\n")[2]
    assert "Batch script is empty!" in cluster.type("sbatch", stdin="")[2]
