"""The program: draws the changes, tries them, says what was not noticed."""

from __future__ import annotations

import argparse
import os
import sys
import tomllib
from pathlib import Path

from tools.mutants.choosing import coverage_of, sample
from tools.mutants.recording import record, recordings
from tools.mutants.trying import BROKEN, NOTICED, Attempt, Verdict, attempts

ROOT = Path(__file__).parents[2]
PACKAGE, TESTS, DATA = ROOT / "src/fairway", ROOT / "tests", ROOT / "build/mutants"
ACCEPTED = Path(__file__).parent / "accepted.toml"
_ENGINE_ROOMS = "admission apiserver cluster metering provisioning queueing scheduling twin workloads"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__)
    parser.add_argument("rooms", nargs="*", help="folders of src/fairway; without any: the engine rooms")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--each", type=int, default=20, help="changes a room (default 20)")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--record", action="store_true", help="record anew which test runs which line")
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="of tests a change is tried against (default 60)"
    )
    parser.add_argument("--as-recorded", action="store_true", help="go by the recordings there are")
    asked = parser.parse_args()
    rooms = asked.rooms or _ENGINE_ROOMS.split()
    unknown = [room for room in rooms if not (PACKAGE / room).is_dir()]
    if unknown:
        parser.error(f"no such room: {', '.join(unknown)}")
    if not asked.as_recorded:
        record(DATA, PACKAGE, TESTS, workers=asked.workers, anew=asked.record)
    accepted = _accepted()
    chosen = [(room, change) for room in rooms for change in sample(PACKAGE, room, asked.seed, asked.each)]
    tried = [(room, c) for room, c in chosen if _key(c.path, c.before, c.after) not in accepted]
    covered = coverage_of(recordings(DATA), PACKAGE, TESTS, {change.path for _, change in tried})
    jobs = [Attempt(change, *covered.tests_of(change, asked.seconds)) for _, change in tried]
    verdicts = []
    for place, verdict in attempts(jobs, PACKAGE, ROOT, asked.workers):
        verdicts.append((tried[place][0], verdict))
        sys.stderr.write(
            f"{len(verdicts)} of {len(jobs)}: {verdict.outcome} {verdict.change.name} {verdict.by}\n"
        )
    return _report(rooms, verdicts, len(chosen) - len(tried))


def _report(rooms: list[str], verdicts: list[tuple[str, Verdict]], accepted: int) -> int:
    for _, verdict in verdicts:
        if verdict.outcome != NOTICED:
            sys.stdout.write(f"{verdict.outcome}: {verdict.change.name} {verdict.by}\n")
    sys.stdout.write(f"\n{'room':14} {'valid':>6} {'noticed':>8} {'share':>6}\n")
    all_valid = all_noticed = 0
    for room in rooms:
        valid = [v for r, v in verdicts if r == room and v.outcome != BROKEN]
        noticed = sum(v.outcome == NOTICED for v in valid)
        all_valid, all_noticed = all_valid + len(valid), all_noticed + noticed
        sys.stdout.write(f"{room:14} {len(valid):6} {noticed:8} {_share(noticed, len(valid)):>6}\n")
    sys.stdout.write(f"{'all':14} {all_valid:6} {all_noticed:8} {_share(all_noticed, all_valid):>6}\n")
    sys.stdout.write(f"{accepted} accepted as the same (tools/mutants/accepted.toml)\n")
    return 0


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "-"


def _accepted() -> set[tuple[str, str, str]]:
    found = tomllib.loads(ACCEPTED.read_text(encoding="utf-8")).get("same", [])
    return {_key(entry["file"], entry["before"], entry["after"]) for entry in found}


def _key(path: str, before: str, after: str) -> tuple[str, str, str]:
    return path, " ".join(before.split()), " ".join(after.split())


if __name__ == "__main__":
    sys.exit(main())
