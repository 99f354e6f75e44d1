"""The cluster of `fairway up`, by its data folder: asked over its API while it runs, else read from its journal.

The journal is read from a copy: nothing in the folder is written, and a server may start on it meanwhile. What became
of everything until then is in the history beside it (`recorded`).
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import msgspec

from fairway.apiserver import objectsdb, segments
from fairway.apiserver.folders import running
from fairway.apiserver.historyfiles import FOLDER, contents
from fairway.apiserver.inspection import Inspection, inspect
from fairway.apiserver.objectsdb import number
from fairway.errors import FairwayError
from fairway.ground.dumps import newest_stamp_us
from fairway.ground.ground import SERVED, Moment
from fairway.ground.kubeclient import client_of
from fairway.ground.recorded import Recorded, recorded_history, stood
from fairway.ground.reviving import KeptMoments, Written, kept, revived
from fairway.kube.manifest import Manifest, read_path
from fairway.results.run import Run, RunInfo
from fairway.scenario.cloudfile import read_cloud_file
from fairway.scenario.model import CloudPlan

_FILES = (objectsdb.NAME, *segments.NAMES)
_MOST_DAMAGES = 3


def is_data_folder(path: Path) -> bool:
    return any((path / name).is_file() for name in _FILES)


class ServedGround:
    """One data folder."""

    kind = SERVED

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path
        self._moments: KeptMoments = {}
        self._found: tuple[Written, list[str]] | None = None
        self._recorded = Recorded(lambda: contents(path / FOLDER))

    def at(self, when: str | None = None) -> Moment:
        return kept(self._moments, when, lambda: self._stood(when))

    def history(self, when: str | None = None) -> Run:
        return recorded_history(self._recorded, self.at(when), RunInfo(self.name, books=self._books()))

    def _stood(self, when: str | None) -> Moment:
        if when is None:
            return revived(*self._now())
        now = self.at()
        return stood(self._now()[0], self._recorded, self._recorded.until(when, now.now_us))

    def _now(self) -> tuple[Written, list[str]]:
        """What is there now, read once."""
        if self._found is None:
            server = running(self._path)
            self._found = self._of_journal() if server is None else self._asked(Path(server.kubeconfig))
        return self._found

    def _books(self) -> tuple[str, ...]:
        cloud = self._now()[0].cloud
        return () if cloud is None else tuple(str(book) for book in cloud.books)

    def _asked(self, kubeconfig: Path) -> tuple[Written, list[str]]:
        (config,) = [m.obj for m in read_path(kubeconfig)]
        with client_of(config, str(kubeconfig)) as client:
            found = client.everything(secrets=True)
            now_us = int(client.get("/fairway/clock")["nowUs"])
        # Beside the objects, only the journal says where nodes come from.
        cloud = self._cloud(self._inspected().facts.get("cloud", ""), now_us)
        manifests = [Manifest(obj, self.name) for obj in found.objects]
        return self._written(manifests, now_us, 0, cloud, knows_all=True), []

    def _inspected(self) -> Inspection:
        """What a copy of the journal holds."""
        with tempfile.TemporaryDirectory(prefix="fairway-") as copy:
            for name in _FILES:
                if (self._path / name).is_file():
                    shutil.copyfile(self._path / name, Path(copy) / name)
            return inspect(Path(copy))

    def _of_journal(self) -> tuple[Written, list[str]]:
        found = self._inspected()
        objects = [msgspec.json.decode(body) for body in found.bodies.values()]
        notes = [f"the journal is damaged: {damage}" for damage in found.damages[:_MOST_DAMAGES]]
        now_us = number(found.facts.get("now_us", "0")) or newest_stamp_us(objects)
        seed = number(found.facts.get("seed", "0"))
        manifests = [Manifest(obj, self.name) for obj in objects]
        cloud = self._cloud(found.facts.get("cloud", ""), now_us)
        return self._written(manifests, now_us, seed, cloud, knows_all=not found.damages), notes

    def _written(
        self, manifests: list[Manifest], now_us: int, seed: int, cloud: CloudPlan | None, *, knows_all: bool
    ) -> Written:
        return Written(
            self.name, manifests, now_us, seed, knows_all=knows_all, trusted=True, cloud=cloud, is_served=True
        )

    def _cloud(self, file: str, now_us: int) -> CloudPlan | None:
        """The file it was started with, if it is still there."""
        try:
            return read_cloud_file(Path(file), now_us) if file else None
        except FairwayError:
            return None
