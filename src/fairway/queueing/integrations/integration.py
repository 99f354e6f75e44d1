"""What a kind of job has to answer so that Kueue can run it.

`Integration` is the contract. A module per kind subclasses it and adds one instance to `registry`. All methods
are pure: objects in, objects out; `view` reads whatever else is in the store. A method that returns an object
returns a changed copy.

To add a kind, answer the first group; the second group has defaults that fit most kinds:

    class JobSet(Integration):
        name, gk, api_version = "jobset.x-k8s.io/jobset", "JobSet.jobset.x-k8s.io", "jobset.x-k8s.io/v1alpha2"

        def pod_sets(self, view, job): ...       # the podSets of its Workload, templates as they stand in the job
        def is_suspended(self, job): ...
        def with_suspend(self, job, on): ...     # spec.suspend and the like
        def with_infos(self, job, infos): ...    # node selectors, tolerations, gates, counts: one info per pod set
        def restored(self, job, infos): ...      # the templates back to what the Workload says
        def is_active(self, view, job): ...      # pods of it still run
        def finished(self, view, job): ...       # Finish(message, success), or None
        def pods_ready(self, view, job): ...

Kinds made of several objects (pod groups) or whose "suspended" is something else (scheduling gates of a pod)
override `load`, `start` and `stop` instead, and `shaped` where several objects own the Workload.

Source: pkg/controller/jobframework/interface.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from fairway.cluster.actions import Action, Emit, Replace, View
from fairway.cluster.changes import DELETED, Change
from fairway.kube.objects import Key, Obj, key_of
from fairway.queueing.facts.gates import DEFAULT_GATES, FeatureGates
from fairway.queueing.integrations.podsetinfo import PodSetInfo
from fairway.queueing.integrations.settings import JobSettings

NORMAL, WARNING = "Normal", "Warning"

PodSetObj = dict[str, Any]


class Finish(NamedTuple):
    """How a job ended: `message` and whether it succeeded."""

    message: str
    success: bool


@dataclass(frozen=True, slots=True, order=True)
class Reclaimable:
    """Pods of a pod set that ended for good: their quota is free."""

    name: str
    count: int


class StopReason:
    """Why a job is stopped; kinds made of pods write it into them. Source: jobframework/stop_reason.go."""

    WORKLOAD_DELETED = "WorkloadDeleted"
    WORKLOAD_EVICTED = "WorkloadEvicted"
    NO_MATCHING_WORKLOAD = "NoMatchingWorkload"
    NOT_ADMITTED = "NotAdmitted"


class Integration:
    """One kind of job. Stateless; `gates` of the Kueue it serves.

    `name`: as in Configuration `integrations.frameworks`. `component`: the source of its events.
    """

    name: str
    gk: str
    api_version: str
    watches: tuple[str, ...] = ()
    """Kinds beside its own whose changes concern its jobs; `jobs_of` says which."""
    is_one_object = True
    """Whether a job is the object of its key alone: once that is gone only its Workloads are left to look after."""

    is_top_level = False
    """Never below another job of Kueue's, whoever owns it (pods)."""

    makes_groups = False
    """It does not run by itself: it makes the Workloads of groups of pods, which `groups` keeps."""

    def __init__(self, gates: FeatureGates = DEFAULT_GATES) -> None:
        self.gates = gates

    @property
    def kind(self) -> str:
        return self.gk.partition(".")[0]

    @property
    def component(self) -> str:
        return f"{self.name}-kueue-controller"

    # Every kind answers these.

    def pod_sets(self, view: View, job: Obj) -> list[PodSetObj]:
        """`spec.podSets` of its Workload."""
        raise NotImplementedError

    def is_suspended(self, job: Obj) -> bool:
        raise NotImplementedError

    def with_suspend(self, job: Obj, on: bool) -> Obj:
        raise NotImplementedError

    def with_infos(self, job: Obj, infos: Sequence[PodSetInfo]) -> Obj:
        """With the admission injected into its templates (not resumed).

        Raises: BadPodSets, where that can never work.
        """
        raise NotImplementedError

    def restored(self, job: Obj, infos: Sequence[PodSetInfo]) -> Obj:
        """With the templates of its Workload."""
        raise NotImplementedError

    def is_active(self, view: View, job: Obj) -> bool:
        """Whether pods of it still run."""
        raise NotImplementedError

    def finished(self, view: View, job: Obj) -> Finish | None:
        raise NotImplementedError

    def pods_ready(self, view: View, job: Obj) -> bool:
        """Whether as many pods as it wants are ready or succeeded."""
        raise NotImplementedError

    # Most kinds keep these.

    def load(self, view: View, key: Key) -> Obj | None:
        """The job by this key: the object itself, unless the kind composes several."""
        return view.get(key)

    def jobs_of(self, view: View, change: Change) -> Iterable[Key]:
        """Jobs a change of one of `watches` concerns."""
        raise NotImplementedError

    def concerns(self, change: Change) -> bool:
        """Whether a change of an object of its own kind can matter: not where nothing but Kueue's own write did."""
        return change.type == DELETED or change.old is not change.obj

    def skips(self, view: View, job: Obj) -> bool:
        """Whether Kueue leaves this one alone, whatever its labels."""
        return False

    def reclaimable(self, view: View, job: Obj) -> list[Reclaimable] | None:
        """None: the kind does not tell."""
        return None

    def priority_class(self, view: View, job: Obj) -> str | None:
        """The PriorityClass that counts; None: that of the first pod set that names one."""
        return None

    def workload_name(self, job: Obj) -> str | None:
        """The name of its Workload where that is not derived from the job's name, UID and kind."""
        return None

    def shaped(self, job: Obj, workload: Obj) -> Obj:
        """The Workload as this kind wants it, from that which every kind would have (pod groups)."""
        return workload

    def upkeep(self, view: View, job: Obj, workload: Obj | None, now_us: int) -> list[Action] | None:
        """What has to be done before anything else: pods of a group in excess, or still missing.

        None: nothing, go on. A list, even an empty one, ends the decision.
        """
        return None

    def is_on_hold(self, job: Obj) -> bool:
        """Whether it asks to wait without quota (a RayJob that the operator found invalid)."""
        return False

    def known(self, job: Obj, workload: Obj) -> Obj:
        """The job as its Workload knows it (a group without pods it has no room for)."""
        return job

    def groups(
        self, view: View, job: Obj, workloads: Sequence[Obj], settings: JobSettings, now_us: int
    ) -> list[Action]:
        """Of a kind that makes groups: everything there is to do. `workloads`: those it owns.

        Raises: ClassMissing.
        """
        raise NotImplementedError

    def claimed(self, job: Obj, workload: Obj) -> list[Action] | None:
        """What makes a Workload that somebody else made its own; None: whoever is its controller owns it."""
        return None

    def is_equivalent(self, job: Obj, mine: Sequence[PodSetObj], others: Sequence[PodSetObj]) -> bool | None:
        """Whether two lists of pod sets describe one job; None: compare them as usual."""
        return None

    def start(self, view: View, job: Obj, infos: Sequence[PodSetInfo], message: str) -> list[Action]:
        """Let it run with what was admitted.

        Raises: BadPodSets.
        """
        running = self.with_infos(self.with_suspend(job, False), infos)
        return [Replace(running), self.told(job, "Started", message)]

    def stop(
        self, view: View, job: Obj, infos: Sequence[PodSetInfo] | None, reason: str, message: str
    ) -> list[Action]:
        """Stop it and restore its templates (None: there is nothing to restore them from)."""
        if self.is_suspended(job):
            return []
        stopped = self.with_suspend(job, True)
        if infos is not None:
            stopped = self.restored(stopped, infos)
        return [Replace(stopped), self.told(job, "Stopped", message)]

    def finalized(self, view: View, job: Obj) -> list[Action]:
        """What is left to do when the job is over (finalizers of pods)."""
        return []

    def told(self, job: Obj, reason: str, message: str, type_: str = NORMAL) -> Emit:
        """An event about the job."""
        return Emit(key_of(job), type_, reason, message, self.component)
