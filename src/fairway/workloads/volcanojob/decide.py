"""What to do about one Volcano Job: its PodGroup, its pods once that is let in, and its phase.

    1. what happened to its pods, and what its policies order (`policies`)
    2. what that means in its phase (`phases`): go on, kill the job, or kill a task or pod
    3. go on: the PodGroup and the plugins' objects, then (once Inqueue) the pods of every task
    4. the status: counts, phase, conditions

Source: volcano-sh/volcano pkg/controllers/job/job_controller_actions.go syncJob, killPods;
garbagecollector/garbagecollector.go (ttlSecondsAfterFinished).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fairway.cluster.actions import (
    NOTHING_TO_DO,
    Action,
    Create,
    Delete,
    Patch,
    Reconciliation,
    SetStatus,
    View,
)
from fairway.cluster.changes import ADDED, DELETED, Change
from fairway.kube.objects import Key, Obj, annotations_of, key_of
from fairway.kube.timestamps import SECOND_US, parse_rfc3339, rfc3339
from fairway.workloads.controller import NO_KEYS, WARNING, Controller, event, owner_key
from fairway.workloads.pods import (
    MOST_AT_ONCE,
    RETRY_REFUSED_US,
    SUCCEEDED,
    is_deleting,
    is_ready,
    phase_of,
    wanted_indexes,
)
from fairway.workloads.volcanojob import phases, policies
from fairway.workloads.volcanojob.gang import POD_GROUP, group_of, new_group
from fairway.workloads.volcanojob.pods import has_too_many_hosts, helpers_of, job_pod
from fairway.workloads.volcanojob.policies import OUT_OF_SYNC, TASK_SPEC, Ordered
from fairway.workloads.volcanojob.spec import KIND, VC_JOB, TaskSpec, VolcanoJob, read_job

COMPONENT = "vc-controller-manager"
EXECUTE_ACTION = "ExecuteAction"
PLUGIN_ERROR = "PluginError"
_GROUP = "batch.volcano.sh"


def reconcile(view: View, key: Key, now_us: int) -> Reconciliation:
    """O(its pods)."""
    obj = view.get(key)
    if obj is None or is_deleting(obj):
        return NOTHING_TO_DO
    job = read_job(obj)
    pods = [p for k in view.dependents(job.uid) if k.gk == "Pod" and (p := view.get(k)) is not None]
    phase = (job.status.get("state") or {}).get("phase") or ""
    if phase in phases.FINISHED:
        gone = _expired(job, key, now_us)
        if gone is not None:
            return gone
    ordered, later_us = _ordered(job, phase, pods, now_us)
    work = _Work(view, key, job, pods, rfc3339(now_us))
    if ordered.action != policies.SYNC:
        said = f"Start to execute action {ordered.action} "
        work.actions.append(event(key, EXECUTE_ACTION, said, COMPONENT))
    plan = phases.plan(job, phase, ordered.action)
    if plan.kind == phases.KILL_JOB:
        work.kill_job(plan, phase)
    elif plan.kind == phases.KILL_TARGET:
        work.kill_target(plan, ordered)
    else:
        work.sync(plan)
    again_us = _expires_us(job) if later_us is None else later_us
    return Reconciliation(tuple(work.actions), again_us)


def _ordered(job: VolcanoJob, phase: str, pods: list[Obj], now_us: int) -> tuple[Ordered, int | None]:
    if phase in (phases.PENDING, phases.RUNNING):
        return policies.judge(job, pods, now_us)
    return Ordered(), None


def _expires_us(job: VolcanoJob) -> int | None:
    state = job.status.get("state") or {}
    if job.ttl_s is None or state.get("phase") not in phases.FINISHED:
        return None
    return parse_rfc3339(state["lastTransitionTime"]) + job.ttl_s * SECOND_US


def _expired(job: VolcanoJob, key: Key, now_us: int) -> Reconciliation | None:
    due_us = _expires_us(job)
    return Reconciliation((Delete(key, job.uid),)) if due_us is not None and due_us <= now_us else None


class _Work:
    """One look at one job: the actions so far, and the status they lead to."""

    def __init__(self, view: View, key: Key, job: VolcanoJob, pods: list[Obj], now: str) -> None:
        self._view, self._key, self._job, self._pods, self._now = view, key, job, pods, now
        self.actions: list[Action] = []

    # Going on

    def sync(self, plan: phases.Plan) -> None:
        status = dict(self._job.status)
        if not (status.get("state") or {}).get("phase"):
            status = self._initial(status)
            if has_too_many_hosts(self._job):
                why = "Execute plugin when job add failed, err: etcdserver: request is too large"
                self.actions.append(event(self._key, PLUGIN_ERROR, why, COMPONENT, WARNING))
        if has_too_many_hosts(self._job):
            self._close(status, plan.next_phase)
            return
        group = group_of(self._view, self._job)
        for helper in helpers_of(self._job):
            self._create_missing(helper)
        if group is None:
            self.actions.append(Create(new_group(self._view, self._job)))
        status["controlledResources"] = {
            **(status.get("controlledResources") or {}),
            **{f"plugin-{name}": name for name in self._job.plugins},
        }
        is_let_in = group is not None and (group.get("status") or {}).get("phase") not in (
            None,
            "",
            "Pending",
        )
        if is_let_in:
            status = self._with_pods(status)
        self._close(status, plan.next_phase)

    def _initial(self, status: dict[str, Any]) -> dict[str, Any]:
        state = {"phase": phases.PENDING, "lastTransitionTime": self._now}
        return {**status, "state": state, "minAvailable": self._job.min_available}

    def _create_missing(self, obj: Obj) -> None:
        if self._view.get(key_of(obj)) is None:
            self.actions.append(Create(obj))

    def _with_pods(self, status: dict[str, Any]) -> dict[str, Any]:
        """Create what is missing, delete what is too much or out of sync, and count the rest."""
        counted: list[Obj] = []
        terminating = 0
        by_name = {p["metadata"]["name"]: p for p in self._pods}
        room = MOST_AT_ONCE
        for task in self._job.tasks:
            may_create = self._is_depended_on_ready(task, by_name)
            held = self._held(task, by_name)
            for index in wanted_indexes(task.replicas, held, room if may_create else 0):
                pod = held.get(index)
                if pod is None:
                    room -= 1
                    new = job_pod(self._job, task, index)
                    self.actions.append(Create(new))
                    counted.append(new)
                    continue
                del by_name[pod["metadata"]["name"]]
                if is_deleting(pod):
                    terminating += 1
                else:
                    counted.append(pod)
                    if OUT_OF_SYNC in annotations_of(pod):
                        terminating += self._delete(pod)
        for pod in by_name.values():
            terminating += self._delete(pod)
        return self._counts(status, counted, terminating)

    def _held(self, task: TaskSpec, by_name: dict[str, Obj]) -> dict[int, Obj]:
        """The task's pods by index."""
        found = {}
        stem = f"{self._job.name}-{task.name}-"
        for name, pod in by_name.items():
            index = name.removeprefix(stem)
            if index.isdecimal() and name == self._job.pod_name(task, int(index)):
                found[int(index)] = pod
        return found

    def _is_depended_on_ready(self, task: TaskSpec, by_name: dict[str, Obj]) -> bool:
        """Whether the tasks it depends on have their `minAvailable` ready (or ended well)."""
        found = []
        for name in task.depends_on:
            other = self._job.task(name)
            if other is None:
                continue
            ready = sum(
                phase_of(p) == SUCCEEDED or is_ready(p)
                for p in self._pods
                if annotations_of(p).get(TASK_SPEC) == name
            )
            found.append(ready >= other.min_available)
        return not found or (any(found) if task.depends_on_any else all(found))

    # Killing

    def kill_job(self, plan: phases.Plan, phase: str) -> None:
        """Every pod but those the plan keeps; on the last retry those that ended are kept in any case."""
        job = self._job
        keeps = plan.keeps
        if int(job.status.get("retryCount") or 0) >= job.max_retry - 1:
            keeps = phases.ENDED_PODS
        terminating = sum(is_deleting(p) for p in self._pods)
        for pod in self._pods:
            if not is_deleting(pod) and phase_of(pod) not in keeps:
                terminating += self._kill(pod)
        status = self._counts(dict(job.status), [], terminating)
        if phase in (phases.PENDING, phases.RUNNING):
            # Unlike kube: the version is raised when a kill begins, not again at every look while it lasts.
            status["version"] = int(status.get("version") or 0) + 1
        group = group_of(self._view, job)
        if group is not None and not is_deleting(group):
            meta = group["metadata"]
            self.actions.append(Delete(Key(POD_GROUP, job.namespace, meta["name"]), meta["uid"]))
        self._close(status, plan.next_phase)

    def kill_target(self, plan: phases.Plan, ordered: Ordered) -> None:
        """The pods of a task, or one pod."""
        terminating = 0
        rest: list[Obj] = []
        for pod in self._pods:
            is_target = annotations_of(pod).get(TASK_SPEC) == ordered.task and (
                ordered.action != policies.RESTART_POD or pod["metadata"]["name"] == ordered.pod
            )
            if is_deleting(pod):
                terminating += 1
            elif is_target:
                terminating += self._kill(pod)
            else:
                rest.append(pod)
        self._close(self._counts(dict(self._job.status), rest, terminating), plan.next_phase)

    def _kill(self, pod: Obj) -> int:
        """Marked first, so that its going is no eviction."""
        meta = pod["metadata"]
        key = Key("Pod", meta["namespace"], meta["name"])
        self.actions.append(Patch(key, {"metadata": {"annotations": {OUT_OF_SYNC: "true"}}}))
        return self._delete(pod)

    def _delete(self, pod: Obj) -> int:
        meta = pod["metadata"]
        self.actions.append(Delete(Key("Pod", meta["namespace"], meta["name"]), meta["uid"]))
        return 1

    # The status

    def _counts(self, status: dict[str, Any], pods: list[Obj], terminating: int) -> dict[str, Any]:
        by_phase: dict[str, int] = {}
        by_task: dict[str, dict[str, int]] = {}
        for pod in pods:
            phase = phase_of(pod)
            by_phase[phase] = by_phase.get(phase, 0) + 1
            of_task = by_task.setdefault(annotations_of(pod).get(TASK_SPEC, ""), {})
            of_task[phase] = of_task.get(phase, 0) + 1
        counts = {
            p.lower(): by_phase.get(p, 0) for p in ("Pending", "Running", "Succeeded", "Failed", "Unknown")
        }
        counts["terminating"] = terminating
        for name, count in counts.items():
            status.pop(name, None)
            if count:
                status[name] = count
        status["taskStatusCount"] = {name: {"phase": found} for name, found in by_task.items()}
        status["minAvailable"] = self._job.min_available
        return status

    def _close(self, status: dict[str, Any], next_phase: Callable[[dict[str, Any]], str]) -> None:
        """Every change of the status is a transition, as upstream has it."""
        phase = next_phase(status) or status["state"]["phase"]
        status["state"] = {**status["state"], "phase": phase}
        if status == self._job.status:
            return
        status["state"] = {**status["state"], "lastTransitionTime": self._now}
        kept = [c for c in status.get("conditions") or () if c["status"] != phase]
        status["conditions"] = [*kept, {"status": phase, "lastTransitionTime": self._now}]
        self.actions.append(SetStatus(self._key, status))


def refused(view: View, key: Key, now_us: int, message: str) -> Reconciliation:
    """After a pod was refused: say so, try again later."""
    if view.get(key) is None:
        return NOTHING_TO_DO
    told = event(key, "FailedCreate", f"Error creating pods: [{message}]", COMPONENT, WARNING)
    return Reconciliation((told,), now_us + RETRY_REFUSED_US)


def changed_keys(view: View, change: Change) -> Sequence[Key]:
    if change.key.gk == VC_JOB:
        return NO_KEYS if change.type == DELETED else (change.key,)
    if change.type == ADDED and change.key.gk == POD_GROUP:
        return NO_KEYS
    owner = owner_key(change.obj, KIND, _GROUP, VC_JOB)
    return NO_KEYS if owner is None else (owner,)


CONTROLLER = Controller(
    "vc-job-controller", VC_JOB, (VC_JOB, "Pod", POD_GROUP), changed_keys, reconcile, refused
)
