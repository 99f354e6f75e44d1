"""The seam: a cluster that can be asked, wherever it is."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol

from fairway.cluster.store import Store
from fairway.kube.objects import Obj
from fairway.recorder.recorder import Recorder
from fairway.results.costs.borrowing import queues_in
from fairway.results.run import Run, RunInfo
from fairway.twin.twin import Twin

SCENARIO, RUN, DUMP, SERVED, CLUSTER = "scenario", "run", "dump", "served", "cluster"
# Whose absence changes answers: a ground that holds none of them may simply not have been asked for them.
TELLING = (
    "Namespace",
    "Node",
    "Pod",
    "PriorityClass.scheduling.k8s.io",
    "PersistentVolumeClaim",
    "PersistentVolume",
    "StorageClass.storage.k8s.io",
    "ResourceQuota",
    "LimitRange",
    "ClusterQueue.kueue.x-k8s.io",
    "LocalQueue.kueue.x-k8s.io",
    "ResourceFlavor.kueue.x-k8s.io",
    "Cohort.kueue.x-k8s.io",
    "WorkloadPriorityClass.kueue.x-k8s.io",
    "PodDisruptionBudget.policy",
    "ConfigMap",
    "Secret",
)


@dataclass(frozen=True)
class Moment:
    """A cluster at one time. `twin` stands there: read it, or `fork` it and go on; do not run it itself.

    `unseen`: group kinds of which nothing can be said, because they were not among what was read, or reading them was
    refused. `notes`: sentences for the reader about what could not be known. A simulation knows everything.
    """

    twin: Twin
    unseen: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    is_simulated: bool = True
    """Whether it was played from its start; else it was read from objects, and its namespaces are all there are."""
    usage: tuple[Obj, ...] = field(default=(), repr=False)
    """NodeMetrics and PodMetrics, where they were among what was read."""
    events: tuple[Obj, ...] = field(default=(), repr=False)
    """Events that were read; those of a simulation are the twin's own."""

    @property
    def store(self) -> Store:
        return self.twin.store

    @property
    def now_us(self) -> int:
        return self.twin.now_us

    def fork(self) -> Twin:
        """A copy that may be run and written to. O(objects)."""
        return self.twin.fork()


class Ground(Protocol):
    """One cluster. `kind`: scenario, run, dump, served or cluster."""

    @property
    def kind(self) -> str: ...
    @property
    def name(self) -> str:
        """What messages call it: the path as it was given."""
        ...

    def at(self, when: str | None = None) -> Moment:
        """The cluster then: a duration since a simulation's start, or an RFC 3339 time; None: its end, or now. The
        same question gives the same moment: it is kept.

        Raises: InvalidInput, UserError, WorldError.
        """
        ...

    def history(self, when: str | None = None) -> Run:
        """Who waited, ran and held what until then, as the tables of a run (`recorder.tables`). Of a ground without a
        record it is what its objects still tell; `Run.info.notes` says so."""
        ...


def history_of(moment: Moment, info: RunInfo) -> Run:
    """What the recorder of a moment's twin has written down."""
    recorder = moment.twin.component("recorder")
    assert isinstance(recorder, Recorder)
    return Run(replace(info, queues=queues_in(moment.store)), recorder.outcome())
