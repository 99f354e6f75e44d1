"""`python -m fairway.compiled [needs|build]`: say whether compiled code runs, what is missing for it, or make it."""

from __future__ import annotations

import sys

from fairway.compiled import building, loading
from fairway.errors import FairwayError


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["needs"], ["build"]):
        sys.stderr.write("usage: python -m fairway.compiled [needs|build]\n")
        return 2
    if not arguments:
        sys.stdout.write(f"{loading.state()}\n")
        return 0
    if arguments == ["needs"]:
        missing = building.what_is_missing()
        sys.stdout.write(f"{missing or 'nothing is missing'}\n")
        return 0 if missing is None else 3
    try:
        count = building.build(loading.PACKAGE, building.MODULES, loading.build_directory())
    except FairwayError as problem:
        sys.stderr.write(f"fairway.compiled: {problem}; Fairway runs as pure Python\n")
        return problem.exit_code
    sys.stdout.write(f"{count} modules compiled into {loading.build_directory()}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
