"""A Slurm site as a ground: a folder with slurm.conf, and what its commands printed.

Of jobs there may be: `sacct -P` (history; without more also what runs and waits), `scontrol show job` or
`squeue --json` (now), `scontrol show node` (states). They are told by their first words, whatever the files are called.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from fairway.errors import FieldProblem, InvalidInput, UserError
from fairway.kube.timestamps import SECOND_US, parse_duration, parse_rfc3339
from fairway.slurm.records.record import JobRecord
from fairway.slurm.records.reviving import RunsFor, Standing, revive, to_limit
from fairway.slurm.records.sacct import ADVICE, looks_like_sacct, read_sacct
from fairway.slurm.records.scontrol import newest_stamp, node_states, read_jobs, read_squeue_json
from fairway.slurm.sitefolder import MAX_BYTES, SiteFolder, read_site
from fairway.slurm.words.errors import SlurmError

SLURM = "slurm"
_SUFFIXES = (".csv", ".txt", ".psv", ".out", ".json", ".dump", ".sacct")
_MARGIN_S = 1


@dataclass(frozen=True)
class SlurmMoment:
    """A site at `now` (seconds since 1970). `past`: all that accounting knows; `records`: what runs and waits too."""

    site: SiteFolder
    now: int
    past: tuple[JobRecord, ...]
    records: tuple[JobRecord, ...]
    states: dict[str, tuple[str, str]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def standing(
        self, runs_for: RunsFor = to_limit, records: tuple[JobRecord, ...] | None = None
    ) -> Standing:
        """A slurmctld of its own that stands there and can go on."""
        found = revive(self.site, self.records if records is None else records, self.now, runs_for)
        for name, (state, reason) in self.states.items():
            for word in ("DRAIN", "DOWN"):
                if word in state.upper():
                    try:
                        found.controller.update_node([name], {"state": word, "reason": reason})
                    except SlurmError as refused:
                        found.left_out.append(f"node {name}: {refused}")
                    break
        return found


class SlurmGround:
    """Files of one site."""

    kind = SLURM

    def __init__(self, path: Path, name: str = "", taken: int = 0) -> None:
        """`taken`: the second the files were written at, where that is known."""
        self.name = name or str(path)
        self.site = read_site(path)
        self.past: list[JobRecord] = []
        self.current: list[JobRecord] = []
        self.states: dict[str, tuple[str, str]] = {}
        self._taken, self._is_known = taken, taken > 0
        for file in sorted(path.iterdir()):
            if file.suffix in _SUFFIXES and file.is_file() and file.name not in self.site.files:
                self._read(file)
        if not (self.past or self.current or self._is_known):
            said = f"says nothing of jobs: expected what this prints: {ADVICE}; or scontrol show job, squeue --json"
            raise InvalidInput((FieldProblem(self.name, 0, "", "", said),))

    def _read(self, file: Path) -> None:
        with file.open("rb") as stream:
            head = stream.read(4096).decode("utf-8", "replace")
        if looks_like_sacct(head):
            self.past += read_sacct(file)
            return
        if file.stat().st_size > MAX_BYTES:
            raise InvalidInput((FieldProblem(str(file), 0, "", "", f"is over {MAX_BYTES} bytes"),))
        text = file.read_text("utf-8", "replace")
        if head.startswith("JobId="):
            self.current += read_jobs(text, str(file))
            self._taken = max(self._taken, newest_stamp(text))
        elif head.startswith("NodeName="):
            self.states |= node_states(text)
        elif head.lstrip().startswith("{") and '"jobs"' in text:
            self.current += read_squeue_json(text, str(file))

    def at(self, when: str | None = None) -> SlurmMoment:
        """Raises: UserError."""
        notes: list[str] = []
        if (self.current or self._is_known) and when is None:
            stamps = (max(r.submit, r.start, r.end) for r in self.current)
            now = max((self._taken, *stamps))
            if not self._is_known:
                notes.append(
                    "the newest moment that scontrol or squeue speak of; it may have been taken later"
                )
            known = tuple(r for r in self.current if r.state in ("PENDING", "RUNNING", "SUSPENDED"))
            past = tuple(r for r in self.past if r.end and r.end <= now)
            return SlurmMoment(self.site, now, past, past + known, self.states, tuple(notes))
        if not self.past:
            raise UserError(f"--at {when}: {self.name} holds no accounting (sacct -P): only now is known")
        now = self._moment(when)
        ahead = tuple(self.past)
        return SlurmMoment(self.site, now, ahead, ahead, self.states if when is None else {}, tuple(notes))

    def end(self) -> SlurmMoment:
        """When all that accounting knows is over."""
        if not self.past:
            return self.at()
        now = max(max(r.end, r.start, r.submit) for r in self.past) + _MARGIN_S
        return SlurmMoment(self.site, now, tuple(self.past), tuple(self.past))

    def _moment(self, when: str | None) -> int:
        first = self.past[0].submit
        if when is None:
            return max(r.submit for r in self.past) + _MARGIN_S
        try:
            if when[:4].isdigit() and "-" in when:
                return parse_rfc3339(when if when.endswith("Z") else when + "Z") // SECOND_US
            return first + parse_duration(when) // SECOND_US
        except ValueError as wrong:
            raise UserError(f"--at {when!r}: {wrong}") from None
