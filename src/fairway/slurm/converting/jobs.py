"""The objects of one script: a ConfigMap with the script, and a Job, JobSet, PyTorchJob or MPIJob that runs it.

| script | object |
|---|---|
| one node | Job; an array: Indexed Job |
| several nodes, torchrun or srun python | PyTorchJob; as an array: JobSet |
| mpirun | MPIJob |
| several nodes, another program by srun | JobSet of one Indexed Job |
| heterogeneous | JobSet with a replicated job for each part |
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from fairway.errors import InvalidInput
from fairway.kube.objects import Obj
from fairway.slurm.behaviours import BadHint, known
from fairway.slurm.cluster import Cluster
from fairway.slurm.converting import launching
from fairway.slurm.converting.launching import MPI, PLAIN, TORCH
from fairway.slurm.converting.layouts import Layout, layout_of
from fairway.slurm.converting.notes import CHANGED, LABELS, LOST, Note, fixed_notes
from fairway.slurm.converting.placement import JOB_LABEL, affinity_of, topology_annotations
from fairway.slurm.converting.scripts import Part, Script
from fairway.slurm.submitting import array_tasks
from fairway.slurm.words.durations import INFINITE
from fairway.slurm.words.errors import SlurmError

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"
TIME_LABEL = "kueue.x-k8s.io/max-exec-time-seconds"
MIN_PARALLELISM = "kueue.x-k8s.io/job-min-parallelism"
PYTORCH_FRAMEWORK = "kubeflow.org/pytorchjob"
ARRAY_INDEX = "jobset.sigs.k8s.io/job-index"
MAX_LISTED = 1_000
"""Indexes of an array without a rule that fit into a variable."""
_MAX_NAME = 40
_SHELLS = ("sh", "bash", "dash", "ksh", "zsh")
_FOLDER = "/slurm"


@dataclass(frozen=True, slots=True)
class Choices:
    """What scripts do not say. `claims`: (claim, path) to mount; `cluster`: the site, if its configuration was given;
    `levels`: how many levels of switches its Topology has; `classes`: QOS that are WorkloadPriorityClasses."""

    image: str = "python:3.12"
    claims: tuple[tuple[str, str], ...] = ()
    namespace: str = "default"
    queue: str = "default"
    cluster: Cluster | None = None
    levels: int = 0
    classes: frozenset[str] | None = None


@dataclass(slots=True)
class Converted:
    """`objects` in the order in which they are created."""

    file: str
    kind: str = ""
    objects: list[Obj] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)


def convert_script(script: Script, choices: Choices, names: set[str]) -> Converted:
    """`names`: those taken already, added to. Raises: InvalidInput for an array or a hint that cannot be read."""
    made = Converted(script.file)
    launcher = launching.launcher_of(script.text)
    first = script.parts[0]
    name = _free_name(first.request.name or script.file.rsplit("/", 1)[-1], names)
    namespace = object_name(first.request.account) if first.request.account else choices.namespace
    components = [_Component(script, part, choices, name, made.notes) for part in script.parts]
    nodes = max(one.layout.nodes for one in components)
    made.notes += launching.script_notes(script.file, script.text, launcher, nodes)
    meta = {"name": name, "namespace": namespace, "labels": _labels(script, choices, made.notes)}
    made.objects = [_config_map(script, name, namespace)]
    body = _object(components, launcher, meta)
    made.kind = body["kind"]
    made.objects.append(body)
    made.notes = sorted(dict.fromkeys(made.notes))
    return made


def object_name(text: str) -> str:
    """A legal object name in the likeness of a Slurm name."""
    plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:_MAX_NAME].strip("-")
    return plain if plain and plain[0].isalpha() else f"job-{plain}".strip("-")


def _free_name(text: str, names: set[str]) -> str:
    stem = object_name(re.sub(r"\.(sh|sbatch|slurm|bash|job)$", "", text))
    name, number = stem, 1
    while name in names:
        number += 1
        name = f"{stem}-{number}"
    names.add(name)
    return name


def _labels(script: Script, choices: Choices, notes: list[Note]) -> dict[str, str]:
    part = script.parts[0]
    partitions = _partitions(part, choices)
    labels = {QUEUE_LABEL: object_name(partitions[0]) if partitions else choices.queue}
    qos = part.request.qos or ("normal" if choices.classes and "normal" in choices.classes else "")
    if qos:
        labels[PRIORITY_LABEL] = object_name(qos)
    if part.request.qos and choices.classes is None:
        line, text = part.where("qos")
        why = f"the job needs a WorkloadPriorityClass named {object_name(qos)}"
        do = "Convert slurm.conf with the QOS of sacctmgr, which makes them (--conf)"
        notes.append(Note(script.file, line, CHANGED, text, why, do))
    limit = _time_limit(part, choices)
    if limit is not None and not part.request.array:
        labels[TIME_LABEL] = str(limit)
    return labels


def _partitions(part: Part, choices: Choices) -> tuple[str, ...]:
    """Those asked for, or the site's default."""
    names = tuple(name for name in (part.request.partition or "").split(",") if name)
    if names or choices.cluster is None:
        return names
    return tuple(one.name for one in choices.cluster.partitions.values() if one.default)


def _time_limit(part: Part, choices: Choices) -> int | None:
    """Seconds; the partition's where the script says none."""
    minutes = part.request.time_limit
    if minutes is None and choices.cluster is not None:
        names = _partitions(part, choices)
        found = choices.cluster.partitions.get(names[0]) if names else None
        if found is not None:
            minutes = found.default_time if found.default_time is not None else found.max_time
    return None if minutes is None or minutes >= INFINITE else max(minutes, 1) * 60


def _config_map(script: Script, name: str, namespace: str) -> Obj:
    data = {"script": script.text}
    if _shell(script.text):
        data["prologue"] = launching.prologue()
    meta = {"name": f"{name}-script", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def _interpreter(text: str) -> list[str]:
    words = text.splitlines()[0][2:].split()
    return words[1:] if words and words[0].endswith("/env") and len(words) > 1 else words


def _shell(text: str) -> bool:
    words = _interpreter(text)
    return bool(words) and words[0].rsplit("/", 1)[-1] in _SHELLS


class _Component:
    """One part of a job: its layout, and the pods of it."""

    def __init__(self, script: Script, part: Part, choices: Choices, name: str, notes: list[Note]) -> None:
        self.script, self.part, self.choices, self.name, self.notes = script, part, choices, name, notes
        self.layout: Layout = layout_of(part, choices.cluster, self.say)
        self.indexes, self.throttle = self._array()
        self._fixed()
        self._others()

    @property
    def request(self) -> Any:
        return self.part.request

    def say(self, where: tuple[int, str], kind: str, why: str, do: str = "") -> None:
        self.notes.append(Note(self.script.file, where[0], kind, where[1], why, do))

    def _array(self) -> tuple[list[int], int]:
        where = self.part.where("array")
        try:
            controller = self.part.options.call.site.controller
            indexes, throttle = array_tasks(controller.cluster, self.request.array)
        except SlurmError as refused:
            said = f"Batch job submission failed: {refused.message}"
            raise InvalidInput((self.script.problem(where[0], where[1], said),)) from None
        if len(indexes) > MAX_LISTED and not _regular(indexes):
            said = f"{len(indexes)} indexes without a regular step: expected at most {MAX_LISTED}"
            raise InvalidInput((self.script.problem(where[0], where[1], said),))
        return indexes, throttle

    def _fixed(self) -> None:
        for option, where in self.part.lines.items():
            if option in fixed_notes():
                kind, why, do = fixed_notes()[option]
                if not (option == "export" and (self.part.options.get("export") or "").upper() == "NONE"):
                    self.say(where, kind, why, do)
        for option, value in self.part.pyxis.items():
            if option not in ("container-image", "container-workdir"):
                do = "Mount volumes with --claim" if option == "container-mounts" else ""
                self.say((0, f"--{option}={value}"), CHANGED, "pyxis is not asked: the pod has its image", do)

    def _others(self) -> None:
        where, request = self.part.where, self.request
        if request.dependency:
            why = "a Job does not wait for other Jobs"
            do = "Put both into one JobSet with dependsOn, or use Argo Workflows or Kubeflow Pipelines"
            self.say(where("dependency"), LOST, why, do)
        if request.exclusive == "user":
            why = "nodes that are shared with the same user alone are not known"
            self.say(where("exclusive"), LOST, why, "Use --exclusive, or a tainted pool for the team")
        if request.exclusive == "mcs":
            self.say(where("exclusive"), LOST, "there are no MCS labels", "Use --exclusive")
        if self.part.options.is_set("chdir") and not self._mounted(request.work_dir):
            why = f"{request.work_dir} is no mounted volume: it must be in the image"
            self.say(where("chdir"), CHANGED, why, "Mount it with --claim NAME:PATH")
        if "," in (request.partition or ""):
            why = "one queue takes a job: the first of these; its nodes may be any partition's"
            self.say(where("partition"), CHANGED, why)
        if self.indexes and not self.throttle and len(self.indexes) > 1 and self.layout.nodes == 1:
            why = "Kueue admits an array at once, with as many tasks side by side as fit then"
            self.say(where("array"), CHANGED, why, "It does not grow later: make it several smaller arrays")
        if self.indexes and self.throttle and self.layout.nodes > 1:
            why = f"gangs of an array start all at once: %{self.throttle} cannot be said"
            self.say(where("array"), LOST, why, "Give the team less quota, or several JobSets")

    def _mounted(self, path: str) -> bool:
        return any(path == at or path.startswith(at.rstrip("/") + "/") for _, at in self.choices.claims)

    # Pods

    def template(
        self, container: str = "main", *, restart: str = "Never", gang: bool = False, devices: bool = True
    ) -> dict[str, Any]:
        """A pod template. `gang`: its array index is its Job's in a JobSet; `devices` False: a launcher, which
        takes next to nothing."""
        main: dict[str, Any] = {"name": container, "image": self._image(), "command": self._command()}
        folder = self.part.pyxis.get("container-workdir") or self._work_dir()
        if folder:
            main["workingDir"] = folder
        main["env"] = self._env(gang)
        main["resources"] = self._resources() if devices else {"requests": {"cpu": "1", "memory": "1Gi"}}
        mounts = [{"name": "script", "mountPath": _FOLDER, "readOnly": True}]
        mounts += [{"name": f"claim-{n}", "mountPath": at} for n, (_, at) in enumerate(self.choices.claims)]
        main["volumeMounts"] = mounts
        volumes: list[dict[str, Any]] = [{"name": "script", "configMap": {"name": f"{self.name}-script"}}]
        volumes += [
            {"name": f"claim-{n}", "persistentVolumeClaim": {"claimName": claim}}
            for n, (claim, _) in enumerate(self.choices.claims)
        ]
        spec: dict[str, Any] = {"restartPolicy": restart, "containers": [main], "volumes": volumes}
        if devices:
            names = _partitions(self.part, self.choices)
            affinity = affinity_of(self.part, self.layout, names, self.say)
            if affinity:
                spec["affinity"] = affinity
        self._end(spec)
        meta: dict[str, Any] = {"labels": {JOB_LABEL: self.name}}
        annotations = self._annotations()
        if annotations:
            meta["annotations"] = annotations
        return {"metadata": meta, "spec": spec}

    def _image(self) -> str:
        image = self.part.pyxis.get("container-image", "")
        return image.replace("#", "/").removeprefix("docker://") or self.choices.image

    def _command(self) -> list[str]:
        if _shell(self.script.text):
            return ["bash", "-c", f". {_FOLDER}/prologue; . {_FOLDER}/script"]
        return [*_interpreter(self.script.text), f"{_FOLDER}/script"]

    def _work_dir(self) -> str:
        if self.part.options.is_set("chdir"):
            return str(self.request.work_dir)
        return self.choices.claims[0][1] if self.choices.claims else ""

    def _env(self, gang: bool) -> list[dict[str, Any]]:
        request = self.request
        asked = {
            "SLURM_JOB_NAME": self.name,
            "SLURM_JOB_PARTITION": request.partition or "",
            "SLURM_JOB_ACCOUNT": request.account or "",
            "SLURM_JOB_QOS": request.qos or "",
            **self._array_variables(),
        }
        export = self.part.options.get("export") or ""
        for word in export.split(","):
            key, equals, value = word.partition("=")
            if equals and re.fullmatch(r"[A-Za-z_]\w*", key):
                asked[key] = value
        values = launching.variables(self.layout, asked)
        env: list[dict[str, Any]] = [{"name": key, "value": value} for key, value in values.items()]
        env.append(_field("POD_NAME", "metadata.name"))
        env.append(_field("NODE_NAME", "spec.nodeName"))
        if gang:
            env.append(_field("SLURM_ARRAY_AT", f"metadata.labels['{ARRAY_INDEX}']"))
            leader = f"{self.name}-main-$(SLURM_ARRAY_AT)-0.{self.name}"
            env.append({"name": "MASTER_ADDR", "value": leader})
        return env

    def _array_variables(self) -> dict[str, str]:
        if not self.indexes:
            return {}
        found = {
            "SLURM_ARRAY_TASK_COUNT": str(len(self.indexes)),
            "SLURM_ARRAY_TASK_MIN": str(self.indexes[0]),
            "SLURM_ARRAY_TASK_MAX": str(self.indexes[-1]),
        }
        if _regular(self.indexes):
            step = self.indexes[1] - self.indexes[0] if len(self.indexes) > 1 else 1
            return found | {"SLURM_ARRAY_TASK_STEP": str(step)}
        return found | {"SLURM_ARRAY_INDEXES": ",".join(map(str, self.indexes))}

    def _resources(self) -> dict[str, Any]:
        layout = self.layout
        requests: dict[str, str] = {"cpu": str(layout.cpus)}
        limits: dict[str, str] = {}
        if layout.memory:
            requests["memory"] = limits["memory"] = _mebibytes(layout.memory)
        if self.request.min_tmp_disk:
            requests["ephemeral-storage"] = _mebibytes(self.request.min_tmp_disk)
        for name, count in layout.devices.items():
            requests[name] = limits[name] = str(count)
        return {"requests": requests, "limits": limits} if limits else {"requests": requests}

    def _end(self, spec: dict[str, Any]) -> None:
        found = re.search(r"@(\d+)", self.part.options.get("signal") or "")
        if self.part.options.get("signal"):
            spec["terminationGracePeriodSeconds"] = int(found[1]) if found else 60
        limit = _time_limit(self.part, self.choices)
        if self.indexes and limit is not None:
            spec["activeDeadlineSeconds"] = limit

    def _annotations(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for name in ("comment", "wckey"):
            if self.part.options.get(name):
                found[LABELS + name] = str(self.part.options.get(name))
        found |= topology_annotations(self.part, self.choices.levels, self.say)
        try:
            will = known(self.script.text)
        except BadHint as bad:
            raise InvalidInput((self.script.problem(0, "#FAIRWAY", str(bad)),)) from None
        if will is not None:
            found["fairway.dev/run-time"] = f"{max(int(will.runtime_s), 1)}s"
            if will.exit_code:
                found["fairway.dev/exit-code"] = str(will.exit_code)
            if will.gpu_percent is not None and self.layout.gpus:
                found["fairway.dev/gpu-utilization"] = f"{will.gpu_percent}%"
        return found

    def job_spec(self, *, parallelism: int, completions: int, indexed: bool, gang: bool = False) -> Obj:
        requeues = self.request.requeue
        if requeues is None:
            cluster = self.choices.cluster
            requeues = cluster is None or cluster.conf.number("JobRequeue", 1) != 0
        action = "Ignore" if requeues else "FailJob"
        rule: dict[str, Any] = {"action": action, "onPodConditions": [{"type": "DisruptionTarget"}]}
        spec: dict[str, Any] = {
            "parallelism": parallelism,
            "completions": completions,
            "backoffLimit": 0,
            "podFailurePolicy": {"rules": [rule]},
        }
        if indexed:
            spec["completionMode"] = "Indexed"
        if indexed and not gang and self.indexes:
            del spec["backoffLimit"]
            spec |= {"backoffLimitPerIndex": 0, "maxFailedIndexes": completions}
            if not requeues:
                rule["action"] = "FailIndex"
        spec["template"] = self.template(gang=gang)
        return spec


def _regular(indexes: list[int]) -> bool:
    steps = {b - a for a, b in pairwise(indexes)}
    return len(steps) <= 1


def _field(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _mebibytes(count: int) -> str:
    return f"{count // 1024}Gi" if count % 1024 == 0 else f"{count}Mi"


def _object(components: list[_Component], launcher: str, meta: dict[str, Any]) -> Obj:
    first = components[0]
    if len(components) > 1:
        return _heterogeneous(components, meta)
    if launcher == MPI:
        return _mpi_job(first, meta)
    if first.layout.nodes == 1 or launcher == PLAIN:
        return _job(first, meta)
    if launcher == TORCH and not first.indexes:
        return _pytorch_job(first, meta)
    return _job_set([("main", first)], meta, count=max(len(first.indexes), 1))


def _job(one: _Component, meta: dict[str, Any]) -> Obj:
    count = max(len(one.indexes), 1)
    at_once = min(one.throttle or count, count)
    if one.layout.nodes > 1:
        where = one.part.where("nodes", "ntasks")
        why = f"the script starts nothing on its other {one.layout.nodes - 1} nodes: they are not asked for"
        one.say(where, CHANGED, why, "Start it with torchrun, mpirun or srun where it should span nodes")
        one.layout.nodes = 1
    if one.indexes and not one.throttle and count > 1:
        meta = {**meta, "annotations": {MIN_PARALLELISM: "1"}}
    spec = one.job_spec(parallelism=at_once, completions=count, indexed=bool(one.indexes))
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}


def _pytorch_job(one: _Component, meta: dict[str, Any]) -> Obj:
    why = f"Kueue's own manifests leave {PYTORCH_FRAMEWORK} alone: it would start without a queue"
    do = "Add it to integrations.frameworks of Kueue's Configuration"
    one.say(one.part.where("nodes", "ntasks", "job-name"), CHANGED, why, do)
    template = one.template("pytorch")
    roles: dict[str, Any] = {"Master": {"replicas": 1, "restartPolicy": "Never", "template": template}}
    if one.layout.nodes > 1:
        roles["Worker"] = {
            "replicas": one.layout.nodes - 1,
            "restartPolicy": "Never",
            "template": one.template("pytorch"),
        }
    spec = {
        "nprocPerNode": str(max(one.layout.tasks, one.layout.gpus if one.layout.tasks == 1 else 1, 1)),
        "runPolicy": {"backoffLimit": 0, "cleanPodPolicy": "None"},
        "pytorchReplicaSpecs": roles,
    }
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": meta, "spec": spec}


def _mpi_job(one: _Component, meta: dict[str, Any]) -> Obj:
    if one.indexes:
        why = "an MPIJob has no array: it runs once"
        one.say(one.part.where("array"), LOST, why, "Create one MPIJob for each index")
    why = "ranks are started over SSH: the image needs mpirun and sshd"
    one.say(one.part.where("ntasks", "nodes", "job-name"), CHANGED, why, "Use an image made for mpi-operator")
    launcher, worker = one.template("launcher", devices=False), one.template("worker")
    main = worker["spec"]["containers"][0]
    main["command"] = ["/usr/sbin/sshd", "-De"]
    if "fairway.dev/run-time" in worker["metadata"].get("annotations", {}):
        worker["metadata"]["annotations"]["fairway.dev/run-time"] = "forever"
    spec = {
        "slotsPerWorker": one.layout.tasks,
        "launcherCreationPolicy": "WaitForWorkersReady",
        "runPolicy": {"backoffLimit": 0, "cleanPodPolicy": "Running"},
        "mpiReplicaSpecs": {
            "Launcher": {"replicas": 1, "restartPolicy": "Never", "template": launcher},
            "Worker": {"replicas": one.layout.nodes, "restartPolicy": "Never", "template": worker},
        },
    }
    return {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": meta, "spec": spec}


def _heterogeneous(components: list[_Component], meta: dict[str, Any]) -> Obj:
    parts = [(f"part-{at}", one) for at, one in enumerate(components)]
    script = components[0].script
    why = "each part runs the whole script; SLURM_HET_GROUP says which one it is"
    line = next((one.part.lines[n][0] for one in components[1:] for n in one.part.lines), 1)
    note = Note(script.file, line, CHANGED, "hetjob", why, "Branch on $SLURM_HET_GROUP in the script")
    components[0].notes.append(note)
    return _job_set(parts, meta, count=1)


def _job_set(parts: list[tuple[str, _Component]], meta: dict[str, Any], *, count: int) -> Obj:
    jobs = []
    for at, (name, one) in enumerate(parts):
        nodes = one.layout.nodes
        spec = one.job_spec(parallelism=nodes, completions=nodes, indexed=True, gang=True)
        if len(parts) > 1:
            env = spec["template"]["spec"]["containers"][0]["env"]
            env[:] = [entry for entry in env if entry["name"] not in ("SLURM_ARRAY_AT", "MASTER_ADDR")]
            env.append({"name": "SLURM_HET_GROUP", "value": str(at)})
            env.append({"name": "MASTER_ADDR", "value": f"{one.name}-part-0-0-0.{one.name}"})
        jobs.append({"name": name, "replicas": count, "template": {"spec": spec}})
    spec = {
        "network": {"enableDNSHostnames": True},
        "failurePolicy": {"maxRestarts": 0},
        "replicatedJobs": jobs,
    }
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": meta, "spec": spec}
