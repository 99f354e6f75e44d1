"""What has a simulated container written? Made up from what is known: when it started, what it runs, how it ended.

A container whose command the simulated shell knows writes what that prints, when it prints it; one with GPUs what
frameworks write (`frameworklogs`). Any other writes one line when it starts, one a minute while it runs, and one when
it ends. The lines follow from its pod and its status:
asked twice, it says the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fairway.apiserver.kubelets import frameworklogs, running
from fairway.apiserver.kubelets.files import Files
from fairway.apiserver.kubelets.interface import CannotConnect, Line
from fairway.apiserver.kubelets.place import Place, container_in
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj, annotations_of, key_of, labels_of
from fairway.kube.timestamps import MINUTE_US, SECOND_US, parse_rfc3339, rfc3339
from fairway.twin import behaviour as behaviours
from fairway.twin.devices.gpuoperator import NAME as OPERATOR
from fairway.twin.kubelet.gpumemory import OUT_OF_MEMORY, TIME_SLICING, card_bytes, outgrown_us

if TYPE_CHECKING:
    from fairway.devices.policy import Operand

_MAX_LINES = 10_000
_MIG_MANAGER: Final = "migManager"


class _Era(NamedTuple):
    """One run of a container. `finished_us` and `exit_code` None: it goes on."""

    started_us: int
    finished_us: int | None
    exit_code: int | None


class SimulatedLog:
    """The log of the run that was there when it was opened, or of the one before."""

    def __init__(self, store: Store, pod: Obj, container: str, *, previous: bool) -> None:
        """Raises: CannotConnect where there is no such run."""
        self._store = store
        self._key: Key = key_of(pod)
        self._uid = pod["metadata"]["uid"]
        self._container = container
        self._pod = pod
        status = status_of(pod, container)
        eras = _eras(status)
        if previous:
            ended = (status.get("lastState") or {}).get("terminated")
            eras = [era for era in eras if ended and era.started_us == _us(ended.get("startedAt"))]
        if not eras:
            raise CannotConnect(_why_not(pod, container, status, previous=previous))
        self._era = eras[0]
        self._told = 0
        self._has_ended = self._era.finished_us is not None

    @property
    def is_over(self) -> bool:
        return self._has_ended

    def read(self) -> list[Line]:
        self._look()
        lines = self._lines()
        fresh, self._told = lines[self._told :], max(self._told, len(lines))
        return fresh

    def _look(self) -> None:
        """How the run stands now; it is over when another one has begun, or the pod is gone."""
        now = self._store.get(self._key)
        if now is None or now["metadata"]["uid"] != self._uid:
            self._has_ended = True
            return
        eras = _eras(status_of(now, self._container))
        found = next((era for era in eras if era.started_us == self._era.started_us), None)
        self._pod = now
        self._era = found or self._era
        self._has_ended = found is None or found.finished_us is not None

    def _lines(self) -> list[Line]:
        until_us = self._store.now_us if self._era.finished_us is None else self._era.finished_us
        printed = _printed(self._store, self._pod, self._container, self._era.started_us)
        operand = self._operand()
        if operand is not None:
            lines = _of_operand(operand, self._era, until_us, self._store, self._pod)
        elif (benchmarked := self._benchmarked()) is not None:
            lines = [line for line in benchmarked if line[0] <= until_us or self._era.exit_code == 0]
        elif printed is None:
            lines = list(self._framed(until_us) or _minutes(self._pod, self._container, self._era, until_us))
        else:
            # An end is known to the second only.
            lines = [line for line in printed if line[0] <= until_us or self._era.exit_code == 0]
        if self._era.exit_code == 1 and self._ran_out_of_gpu_memory():
            lines.append((until_us, OUT_OF_MEMORY))
        return lines

    def _operand(self) -> Operand | None:
        """Which of the GPU Operator's this is."""
        app = labels_of(self._pod).get("app", "")
        if not app.startswith(("nvidia-", "gpu-")):
            return None
        from fairway.devices.policy import operands

        return next((o for o in operands() if o.app == app and o.container == self._container), None)

    def _benchmarked(self) -> list[Line] | None:
        """What a program of nccl-tests prints; None where none runs."""
        container = container_in(self._pod, self._container)
        if not any("_perf" in str(w) for p in ("command", "args") for w in container.get(p) or ()):
            return None
        from fairway.apiserver.kubelets import nccltests

        return nccltests.lines(self._store, self._pod, self._container, self._era.started_us)

    def _framed(self, until_us: int) -> list[Line]:
        """What a framework wrote by then; nothing where none runs."""
        container, era = container_in(self._pod, self._container), self._era
        exit_code = None if self._ran_out_of_gpu_memory() else era.exit_code
        run = frameworklogs.Run(self._pod, container, era.started_us, until_us, exit_code, _MAX_LINES)
        return [line for line in frameworklogs.lines(run) or () if line[0] <= until_us]

    def _ran_out_of_gpu_memory(self) -> bool:
        """Whether it wanted more than its GPU has when it ended."""
        container = container_in(self._pod, self._container)
        try:
            policy = str(self._pod["spec"].get("restartPolicy") or "Always")
            words = behaviours.said(annotations_of(self._pod))
            behaviour = behaviours.behaviour_of(container, policy, words)
        except behaviours.BehaviourError:
            return False
        node = self._store.get(Key("Node", "", self._pod["spec"].get("nodeName") or ""))
        if not behaviour.gpu_memory_bytes or node is None or self._era.finished_us is None:
            return False
        resources = container.get("resources") or {}
        wanted = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
        after_us = outgrown_us(behaviour, card_bytes(labels_of(node), wanted))
        if after_us is None:
            # Its neighbours had the rest.
            return labels_of(node).get("nvidia.com/gpu.sharing-strategy") == TIME_SLICING
        return self._era.started_us + after_us <= self._era.finished_us + SECOND_US


def _of_operand(operand: Operand, era: _Era, until_us: int, store: Store, pod: Obj) -> list[Line]:
    """Of one of the GPU Operator's: its first line as it starts, the others once it does its work, and what became of
    it, as its events tell. Of an event that came several times the first and the last."""
    lines = [
        (era.started_us + (operand.seconds * SECOND_US if i else 0), "info", text)
        for i, text in enumerate(operand.logs)
    ]
    lines = [line for line in lines if line[0] <= until_us]
    for event in store.objects("Event", pod["metadata"].get("namespace") or ""):
        about = event.get("involvedObject") or {}
        if about.get("uid") != pod["metadata"]["uid"] or event.get("reportingComponent") != OPERATOR:
            continue
        is_bad, message = event.get("type") == "Warning", str(event.get("message") or "")
        for at_us in sorted({_us(event.get("firstTimestamp")), _us(event.get("lastTimestamp"))}):
            if era.started_us <= at_us < until_us + SECOND_US:
                lines.append((at_us, "error" if is_bad else "info", message))
                if operand.key == _MIG_MANAGER:
                    lines.append((at_us, "info", operand.logs[-1]))
    lines.sort(key=lambda line: line[0])
    if operand.key != _MIG_MANAGER:
        return [(at_us, text) for at_us, _, text in lines]
    return [(at_us, _logrus(at_us, level, text)) for at_us, level, text in lines]


def _logrus(at_us: int, level: str, text: str) -> str:
    """A line of a program that logs with logrus, as MIG Manager does."""
    words = f"Error: {text}" if level == "error" else text
    return f'time="{rfc3339(at_us // SECOND_US * SECOND_US)}" level={level} msg={json.dumps(words, ensure_ascii=False)}'


def status_of(pod: Obj, name: str) -> dict[str, Any]:
    status = pod.get("status") or {}
    for told in (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())):
        if told.get("name") == name:
            return dict(told)
    return {}


def _eras(status: dict[str, Any]) -> list[_Era]:
    """The runs a status tells of, the newest first."""
    found = []
    for state in (status.get("state") or {}, status.get("lastState") or {}):
        if "running" in state:
            found.append(_Era(_us(state["running"].get("startedAt")), None, None))
        ended = state.get("terminated")
        if ended and ended.get("startedAt"):
            found.append(_Era(_us(ended["startedAt"]), _us(ended.get("finishedAt")), ended.get("exitCode")))
    return found


def _us(text: str | None) -> int:
    return parse_rfc3339(text) if text else -1


def _why_not(pod: Obj, container: str, status: dict[str, Any], *, previous: bool) -> str:
    """Source: kubelet_pods.go validateContainerLogStatus."""
    name = pod["metadata"]["name"]
    if previous:
        return f'previous terminated container "{container}" in pod "{name}" not found'
    reason = ((status.get("state") or {}).get("waiting") or {}).get("reason") or "ContainerCreating"
    why = "trying and failing to pull image" if "Pull" in reason else f"waiting to start: {reason}"
    return f'container "{container}" in pod "{name}" is {why}'


def _printed(store: Store, pod: Obj, name: str, started_us: int) -> list[Line] | None:
    """What its command prints, where the simulated shell knows it; None: it does not."""
    container = container_in(pod, name)
    argv = [*(container.get("command") or ()), *(container.get("args") or ())]
    place = Place(pod, name, pod["spec"].get("nodeName") or "", store, started_us)
    done = running.run(argv, place, Files(started_us // SECOND_US))
    if not done.is_known or not done.said:
        return None
    lines: list[Line] = []
    partial, partial_us = b"", 0
    for said in done.said:
        partial_us = partial_us if partial else started_us + said.after_us
        *whole, rest = (partial + said.data).split(b"\n")
        lines += [
            (partial_us if i == 0 else started_us + said.after_us, _text(w)) for i, w in enumerate(whole)
        ]
        partial_us, partial = partial_us if not whole else started_us + said.after_us, rest
    return lines + ([(partial_us, _text(partial))] if partial else [])


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace")


def _minutes(pod: Obj, name: str, era: _Era, until_us: int) -> Iterator[Line]:
    container = container_in(pod, name)
    command = " ".join([*(container.get("command") or ()), *(container.get("args") or ())])
    yield era.started_us, f"starting {command or container.get('image', '')}"
    minutes = max(until_us - era.started_us, 0) // MINUTE_US
    for minute in range(max(1, minutes - _MAX_LINES), minutes + 1):
        at_us = era.started_us + minute * MINUTE_US
        if at_us < until_us:
            yield at_us, f"running for {minute}m"
    if era.exit_code is not None:
        yield until_us, f"exit code {era.exit_code}"
