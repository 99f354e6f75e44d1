"""Which scenario does this path hold?

A file is one; of a directory it is `scenario.yaml` (`.yml`, `.json`) or the only Scenario among its own files.
A directory without any is a scenario too: all its manifests at time 0, run until nothing is left to happen.
"""

from __future__ import annotations

from pathlib import Path

from fairway.errors import FieldProblem, InvalidInput
from fairway.kube.located import Reading
from fairway.kube.manifest import SUFFIXES, Manifest, read_path, stranger
from fairway.kube.objects import gk_of
from fairway.scenario.checking import check_scenario
from fairway.scenario.model import Scenario
from fairway.scenario.objects import complete
from fairway.scenario.reading import cloud_of, read_scenario
from fairway.twin.twin import EPOCH_US

SCENARIO_GK = "Scenario.fairway.dev"
_NAMES = ("scenario.yaml", "scenario.yml", "scenario.json")


def load_scenario(path: Path, *, lenient: bool = False) -> Scenario:
    """The scenario of a file or directory, checked as far as it can be before it runs.

    `lenient` leaves out objects and trace rows that will not do, and says so in `skipped`.
    Raises: InvalidInput with every problem found.
    """
    file = _scenario_file(path) if path.is_dir() else path
    if file is None:
        return _without_scenario(path, read_path(path, lenient=lenient), lenient)
    manifests = read_path(file, lenient=lenient)
    scenarios = [m for m in manifests if gk_of(m.obj) == SCENARIO_GK]
    if not scenarios:
        return _without_scenario(path, manifests, lenient)
    if len(scenarios) > 1:
        expected = "expected one Scenario a file; this one holds several"
        raise InvalidInput((FieldProblem(str(file), scenarios[1].line, "kind", "", expected),))
    beside = [m for m in manifests if m is not scenarios[0]]
    scenario = read_scenario(scenarios[0], beside, lenient=lenient)
    check_scenario(scenario, scenarios[0])
    return scenario


def holds_scenario(path: Path) -> bool:
    """Whether there is a Scenario, not manifests alone."""
    file = _scenario_file(path) if path.is_dir() else path
    return file is not None and (path.is_dir() or _mentions_scenario(file))


def _scenario_file(directory: Path) -> Path | None:
    for name in _NAMES:
        if (directory / name).is_file() and not stranger(directory / name, directory):
            return directory / name
    found = [
        file
        for file in sorted(directory.iterdir())
        if file.is_file() and file.suffix.lower() in SUFFIXES and not stranger(file, directory)
        if _mentions_scenario(file)
    ]
    if len(found) > 1:
        names = ", ".join(f.name for f in found)
        expected = f"expected one Scenario, or a scenario.yaml among them: {names}; name the file to run"
        raise InvalidInput((FieldProblem(str(directory), 0, "", "", expected),))
    return found[0] if found else None


def _mentions_scenario(file: Path) -> bool:
    """Whether one of its documents is a Scenario. Broken files are reported when they are read for real."""
    if not file.is_file():
        return False
    data = file.read_bytes()
    if b"Scenario" not in data or b"fairway.dev/" not in data:
        return False
    return any(gk_of(m.obj) == SCENARIO_GK for m in read_path(file, lenient=True))


def _without_scenario(path: Path, manifests: list[Manifest], lenient: bool) -> Scenario:
    loaded = complete(manifests, lenient=lenient)
    reading = Reading(Manifest({}, str(path)))
    cloud = cloud_of(reading.root().at("cloud", None), manifests, path, EPOCH_US)
    reading.finish()
    return Scenario(
        name=path.resolve().name,
        file=str(path),
        objects=tuple(loaded.objects),
        origins=tuple(loaded.origins),
        is_lenient=lenient,
        cloud=cloud,
        skipped=tuple(loaded.skipped),
    )
