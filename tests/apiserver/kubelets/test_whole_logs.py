"""Whole logs of containers: what is made up of a command, a benchmark's table, and who has no log yet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.histories import check_history

from fairway.apiserver.kubelets import containerlogs, nccltests
from fairway.apiserver.kubelets.containerlogs import SimulatedLog
from fairway.apiserver.kubelets.interface import CannotConnect
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import SECOND_US, parse_rfc3339, rfc3339

HERE = Path(__file__).parent
START = parse_rfc3339("2026-01-05T08:00:00Z")
POD = Key("Pod", "team", "p")
NODE: Obj = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n", "labels": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}},
}


def at(seconds: float) -> str:
    return rfc3339(START + round(seconds * SECOND_US))


def running(since_s: float = 0) -> Obj:
    return {"running": {"startedAt": at(since_s)}}


def ended(until_s: float, code: int = 0, since_s: float = 0) -> Obj:
    return {"terminated": {"startedAt": at(since_s), "finishedAt": at(until_s), "exitCode": code}}


class World:
    def __init__(self, container: Obj | None = None, node: Obj = NODE, **meta: Any) -> None:
        self.store = Store(now_us=START)
        self.store.create(node)
        made = {"name": "c", "image": "registry/app:1", **(container or {})}
        spec = {
            "nodeName": "n",
            "restartPolicy": "Never",
            "containers": [made],
            "initContainers": [{"name": "i"}],
        }
        self.store.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "p", "namespace": "team", **meta},
                "spec": spec,
            }
        )

    def become(
        self, state: Obj | None, last: Obj | None = None, after_s: float = 0, name: str = "c"
    ) -> World:
        self.store.now_us = START + round(after_s * SECOND_US)
        told = {"name": name, **({"state": state} if state else {}), **({"lastState": last} if last else {})}
        kind = "containerStatuses" if name == "c" else "initContainerStatuses"
        self.store.set_status(POD, {"phase": "Running", kind: [told]})
        return self

    def log(self, *, previous: bool = False, name: str = "c") -> SimulatedLog:
        return SimulatedLog(self.store, self.store.require(POD), name, previous=previous)

    def read(self, **which: Any) -> list[tuple[float, str]]:
        return [((us - START) / SECOND_US, text) for us, text in self.log(**which).read()]


SERVER = {"command": ["/app/server"], "args": ["--x", "1"]}
BEGIN = (0, "starting /app/server --x 1")


@pytest.mark.parametrize(
    ("state", "after_s", "want"),
    [
        (running(), 0, [BEGIN]),
        (running(), 60, [BEGIN]),
        (running(), 60.000001, [BEGIN, (60, "running for 1m")]),
        (running(), 180, [BEGIN, (60, "running for 1m"), (120, "running for 2m")]),
        (running(30), 100, [(30, BEGIN[1]), (90, "running for 1m")]),
        (ended(59, 0), 900, [BEGIN, (59, "exit code 0")]),
        (ended(61, 3), 900, [BEGIN, (60, "running for 1m"), (61, "exit code 3")]),
        (ended(60, 137), 900, [BEGIN, (60, "exit code 137")]),
    ],
)
def test_a_command_that_is_not_known_tells_of_its_minutes(
    state: Obj, after_s: float, want: list[Any]
) -> None:
    world = World(SERVER).become(state, after_s=after_s)
    assert world.read() == want
    assert world.log().is_over is ("terminated" in state)


def test_without_a_command_its_image_is_told() -> None:
    assert World().become(running()).read() == [(0, "starting registry/app:1")]
    assert World({"args": ["a", "b"]}).become(running()).read() == [(0, "starting a b")]


def test_of_a_long_run_the_last_minutes_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containerlogs, "_MAX_LINES", 2)
    assert World(SERVER).become(running(), after_s=601).read() == [
        BEGIN,
        *((60 * n, f"running for {n}m") for n in (8, 9, 10)),
    ]


SCRIPT = {
    "command": [
        "sh",
        "-c",
        "printf a; sleep 10; echo b; printf 'c\\nd'; sleep 10; echo e >&2; sleep 5; echo f",
    ]
}
PRINTED = [(0, "ab"), (10, "c"), (10, "de"), (25, "f")]


@pytest.mark.parametrize(
    ("state", "after_s", "want"),
    [
        (running(), 0, PRINTED[:1]),
        (running(), 9.999999, PRINTED[:1]),
        (running(), 10, PRINTED[:3]),
        (running(), 24.999999, PRINTED[:3]),
        (running(), 25, PRINTED),
        (ended(10, 1), 99, PRINTED[:3]),
        # An end is known to the second.
        (ended(9, 0), 99, PRINTED),
        (ended(9, 1), 99, PRINTED[:1]),
    ],
)
def test_a_script_prints_when_it_does(state: Obj, after_s: float, want: list[Any]) -> None:
    assert World(SCRIPT).become(state, after_s=after_s).read() == want


def test_a_line_in_pieces_has_the_time_of_its_first() -> None:
    script = "printf a; sleep 5; printf b; sleep 5; echo c; printf d; sleep 5; printf e; sleep 5"
    world = World({"command": ["sh", "-c", script]}).become(running(), after_s=20)
    assert world.read() == [(0, "abc"), (10, "de")]
    script = "printf a; sleep 5; printf 'b\\nc\\nd'; sleep 5; printf '\\n\\ne\\n'"
    world = World({"command": ["sh", "-c", script]}).become(running(), after_s=20)
    assert world.read() == [(0, "ab"), (5, "c"), (5, "d"), (10, ""), (10, "e")]


def told(log: SimulatedLog) -> tuple[list[str], bool]:
    return [text for _, text in log.read()], log.is_over


def test_lines_come_once_and_end_with_the_run() -> None:
    world = World(SERVER).become(running())
    log = world.log()
    assert told(log) == ([BEGIN[1]], False)
    assert told(log) == ([], False)
    world.become(running(), after_s=61)
    assert told(log) == (["running for 1m"], False)
    world.become(ended(70, 2), after_s=75)
    assert told(log) == (["exit code 2"], True)
    assert told(log) == ([], True)
    # Another run: this log is of the first one.
    world.become(running(80), ended(70, 2), after_s=200)
    assert told(log) == ([], True)
    assert [text for _, text in world.log().read()] == [BEGIN[1], "running for 1m"]


def test_a_run_is_over_when_another_began_or_its_pod_is_another() -> None:
    world = World(SERVER).become(running())
    log = world.log()
    world.become(running(80), after_s=100)
    log.read()
    assert log.is_over
    for again in (False, True):
        world = World(SERVER).become(running())
        log = world.log()
        pod = world.store.require(POD)
        world.store.delete(POD, grace_s=0)
        if again:
            meta = {"name": "p", "namespace": "team"}
            world.store.create({**{k: v for k, v in pod.items() if k != "metadata"}, "metadata": meta})
            world.become(running())
        log.read()
        assert log.is_over


def test_the_run_before() -> None:
    world = World(SERVER).become(running(80), ended(70, 2), after_s=100)
    assert world.read(previous=True) == [BEGIN, (60, "running for 1m"), (70, "exit code 2")]
    assert world.read() == [(80, BEGIN[1])]
    world.become({"waiting": {"reason": "CrashLoopBackOff"}}, ended(70, 2), after_s=100)
    assert world.read(previous=True) == world.read() == [BEGIN, (60, "running for 1m"), (70, "exit code 2")]


WAITS = 'container "c" in pod "p" is waiting to start: '
PULLS = 'container "c" in pod "p" is trying and failing to pull image'
NONE_BEFORE = 'previous terminated container "c" in pod "p" not found'


@pytest.mark.parametrize(
    ("state", "last", "previous", "why"),
    [
        (None, None, False, f"{WAITS}ContainerCreating"),
        ({"waiting": {}}, None, False, f"{WAITS}ContainerCreating"),
        ({"waiting": {"reason": "PodInitializing"}}, None, False, f"{WAITS}PodInitializing"),
        ({"waiting": {"reason": "ErrImagePull"}}, None, False, PULLS),
        ({"waiting": {"reason": "ImagePullBackOff"}}, None, False, PULLS),
        ({"terminated": {"exitCode": 1}}, None, False, f"{WAITS}ContainerCreating"),
        (running(), None, True, NONE_BEFORE),
        (ended(9), None, True, NONE_BEFORE),
        (running(9), {"terminated": {"exitCode": 1}}, True, NONE_BEFORE),
    ],
)
def test_who_has_no_log(state: Obj | None, last: Obj | None, previous: bool, why: str) -> None:
    world = World(SERVER).become(state, last)
    with pytest.raises(CannotConnect) as refused:
        world.log(previous=previous)
    assert str(refused.value) == why


def test_init_containers_have_logs() -> None:
    world = World().become(ended(5), name="i")
    assert world.read(name="i") == [(0, "starting "), (5, "exit code 0")]


GPU = {"resources": {"limits": {"nvidia.com/gpu": "1"}}, "command": ["/app/server"]}
OUT = "RuntimeError: CUDA error: out of memory"


@pytest.mark.parametrize(
    ("says", "finished_s", "code", "is_out"),
    [
        ("0s:10Gi,30s:90Gi", 30, 1, True),
        ("0s:10Gi,30s:90Gi", 29, 1, True),
        ("0s:10Gi,30s:90Gi", 28, 1, False),
        ("0s:10Gi,30s:90Gi", 30, 0, False),
        ("0s:10Gi,30s:90Gi", 30, 2, False),
        ("0s:10Gi", 30, 1, False),
        ("", 30, 1, False),
        ("nonsense", 30, 1, False),
    ],
)
def test_whoever_outgrew_a_gpu_says_so(says: str, finished_s: int, code: int, is_out: bool) -> None:
    annotations = {"fairway.dev/gpu-memory": says} if says else {}
    world = World(GPU, annotations=annotations).become(ended(finished_s, code), after_s=99)
    found = [(when, text) for when, text in world.read() if OUT in text]
    assert [when for when, _ in found] == ([finished_s] if is_out else [])


def test_whoever_follows_hears_that_it_outgrew_its_gpu() -> None:
    """As the pod is by then, whatever it was when the log was opened."""
    world = World(GPU).become(running())
    log = world.log()
    assert [text for _, text in log.read()] == ["starting /app/server"]
    pod = world.store.require(POD)
    meta = {**pod["metadata"], "annotations": {"fairway.dev/gpu-memory": "0s:10Gi,30s:90Gi"}}
    world.store.replace({**pod, "metadata": meta})
    world.become(ended(30, 1), after_s=30)
    assert [when for when, text in log.read() if OUT in text] == [START + 30 * SECOND_US] and log.is_over


def test_files_of_a_container_are_as_old_as_its_run() -> None:
    world = World({"command": ["tar", "cf", "-", "/dev/null"]}).become(running(7), after_s=8)
    text = "\n".join(text for _, text in world.read())
    assert f"{(START + 7 * SECOND_US) // SECOND_US:011o}" in text


@pytest.mark.parametrize("where", ["requests", "limits"])
def test_an_instance_is_outgrown_as_the_container_asks_for_it(where: str) -> None:
    """A tenth of a card has ten gigabytes, however it was asked for."""
    container = {"resources": {where: {"nvidia.com/mig-1g.10gb": "1"}}, "command": ["/app/server"]}
    world = World(container, annotations={"fairway.dev/gpu-memory": "0s:5Gi,30s:20Gi"})
    found = world.become(ended(30, 1), after_s=99).read()
    assert [when for when, text in found if OUT in text] == [30]


@pytest.mark.parametrize(("after_s", "count"), [(0.999999, 2), (1, 4)])
def test_a_trainer_says_no_more_than_it_did_by_now(after_s: float, count: int) -> None:
    trains = {"resources": {"limits": {"nvidia.com/gpu": "2"}}, "command": ["python", "train.py"]}
    lines = World(trains).become(running(), after_s=after_s).read()
    assert [text.rpartition(" - ")[2] for _, text in lines][2:] == ["Init COMPLETE"] * (count - 2)
    assert len(lines) == count


def test_a_benchmark_prints_as_time_goes_and_all_of_it_when_it_is_done() -> None:
    command = {"command": ["all_reduce_perf", "-g", "8"], "resources": {"limits": {"nvidia.com/gpu": "8"}}}
    labels = {"node.kubernetes.io/instance-type": "p5.48xlarge"}
    world = World(command, {**NODE, "metadata": {"name": "n", "labels": labels}})
    capacity = {"nvidia.com/gpu": "8"}
    world.store.set_status(Key("Node", "", "n"), {"capacity": capacity, "allocatable": capacity})
    whole = world.become(ended(0), after_s=999).read()
    assert whole[0][0] == 1 and len({when for when, _ in whole}) == 2
    assert world.become(running(), after_s=0.999999).read() == []
    assert world.become(running(), after_s=1).read() == [line for line in whole if line[0] == 1]
    last = whole[-1][0]
    assert world.become(running(), after_s=last).read() == whole
    assert world.become(running(), after_s=last - 0.000001).read() == [line for line in whole if line[0] == 1]
    assert world.become(ended(1, 1), after_s=999).read() == [line for line in whole if line[0] == 1]


def test_whoever_shares_a_gpu_may_lack_what_neighbours_have() -> None:
    labels = {**NODE["metadata"]["labels"], "nvidia.com/gpu.sharing-strategy": "time-slicing"}
    for sharing, is_out in ((labels, True), (NODE["metadata"]["labels"], False)):
        node = {**NODE, "metadata": {"name": "n", "labels": sharing}}
        world = World(GPU, node, annotations={"fairway.dev/gpu-memory": "0s:10Gi"}).become(
            ended(30, 1), after_s=99
        )
        assert any(OUT in text for _, text in world.read()) is is_out


# Tables of nccl-tests


COMMANDS = (
    "all_reduce_perf -b 8 -e 128M -f 4 -g 8",
    "all_gather_perf_mpi -b 1M -e 4M -i 1M -g 4 -n 10 -w 2 -t 2",
    "/opt/reduce_scatter_perf --minbytes 1K --maxbytes 1M --stepfactor 32 --ngpus 8 --iters 7 --warmup_iters 0",
    "broadcast_perf -b 4G -e 8G -f 2 -g 8",
    "reduce_perf -g 2",
    "alltoall_perf -b 1 -e 3 -g 8",
    "sendrecv_perf -b 64K -e 64K -g 8",
    "mpirun -np 4 -x NCCL_DEBUG=INFO -x NCCL_ALGO=ring all_reduce_perf -g 2",
    "mpirun -np 8 -x NCCL_DEBUG=TRACE -x NCCL_IB_DISABLE=1 all_reduce_perf",
    "mpirun -np 9 all_reduce_perf",
    "all_reduce_perf -g 9",
    "python train.py",
)  # fmt: skip


def test_tables_are_what_they_were() -> None:
    def lines() -> Iterator[str]:
        for command in COMMANDS:
            for kind in ("Standard_ND96isr_H100_v5", "p5.48xlarge", "a3-highgpu-8g"):
                found = _table(command, kind)
                yield f"== {kind}: {command}{': nothing' if found is None else ''}"
                yield from (f"{us / SECOND_US:.6f} {text}".rstrip() for us, text in found or ())
                if found is None or not found:
                    break

    check_history(HERE / "nccltests.txt", lines())


def _table(command: str, kind: str) -> list[tuple[int, str]] | None:
    store = Store(now_us=START)
    labels = {"node.kubernetes.io/instance-type": kind}
    capacity = {"nvidia.com/gpu": "8"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": labels}}
    store.create(node)
    store.set_status(Key("Node", "", "n"), {"capacity": capacity, "allocatable": capacity})
    container = {"name": "c", "command": command.split(), "resources": {"limits": {"nvidia.com/gpu": "8"}}}
    pod = {
        "metadata": {"name": "p", "namespace": "team"},
        "spec": {"nodeName": "n", "containers": [container]},
        "status": {"podIP": "10.0.0.9"},
    }
    return nccltests.lines(store, pod, "c", 0)
