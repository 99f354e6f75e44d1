"""The table of nccl-tests: of a launcher and its workers, of one container; and what a fall-back to Ethernet shows."""

from __future__ import annotations

import re
from typing import Any

import pytest

from fairway.apiserver.kubelets import nccltests
from fairway.kube.objects import Key, Obj, labels_of, name_of, status_of
from fairway.kube.timestamps import MINUTE_US
from fairway.twin.latency import latency_named
from fairway.twin.standard import standard_components
from fairway.twin.twin import Twin

ROLE = "training.kubeflow.org/job-role"
COMMAND = (
    "mpirun -np 16 -bind-to none -x NCCL_DEBUG=INFO -x NCCL_IB_HCA=mlx5 /opt/nccl_tests/build/all_reduce_perf "
    "-b 512M -e 8G -f 2 -g 1"
)

# A row that somebody published (nccl-tests issue 232): the columns are where it has them.
PUBLISHED_ROW = (
    "     2097152        524288     float     sum      -1    113.2   18.53   18.53      0"
    "    93.35   22.46   22.46      0"
)


def node(name: str, kind: str = "ND96isr_H100_v5", **resources: str) -> Obj:
    capacity = {"cpu": "96", "memory": "1900Gi", "pods": "110", "nvidia.com/gpu": "8", **resources}
    labels = {"node.kubernetes.io/instance-type": f"Standard_{kind}" if kind.startswith("N") else kind}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": capacity},
    }


def mpi_job(command: str = COMMAND, workers: int = 2, **limits: str) -> Obj:
    def template(container: dict[str, Any]) -> dict[str, Any]:
        return {"spec": {"containers": [{"image": "nvcr.io/nvidia/pytorch:24.01-py3", **container}]}}

    gpus = {"nvidia.com/gpu": 8, **limits}
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": "nccl-test", "namespace": "training"},
        "spec": {
            "slotsPerWorker": 8,
            "runPolicy": {"cleanPodPolicy": "Running"},
            "mpiReplicaSpecs": {
                "Launcher": {
                    "replicas": 1,
                    "template": template({"name": "launcher", "command": command.split()}),
                },
                "Worker": {
                    "replicas": workers,
                    "template": template({"name": "worker", "resources": {"limits": gpus}}),
                },
            },
        },
    }


def log(*objects: Obj) -> tuple[list[str], Twin]:
    twin = Twin(seed=1, latency=latency_named("zero"), components=standard_components())
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "training"}}
    twin.apply([space, *objects])
    twin.run_for(2 * MINUTE_US)
    launcher = next(
        (p for p in twin.store.objects("Pod") if labels_of(p).get(ROLE) == "launcher"),
        None,
    )
    assert launcher is not None
    found = nccltests.lines(twin.store, launcher, "launcher", 0)
    return [text for _, text in found or []], twin


def rows(lines: list[str]) -> list[list[str]]:
    return [line.split() for line in lines if re.match(r" +\d+ ", line)]


def test_the_guides_job_prints_the_table_of_sixteen_h100() -> None:
    lines, _ = log(node("a"), node("b"), mpi_job())
    table = rows(lines)
    assert [int(row[0]) for row in table] == [2**n for n in range(29, 34)]
    assert {len(line) for line in lines if re.match(r" +\d+ ", line)} == {len(PUBLISHED_ROW)}
    bus = [float(row[7]) for row in table]
    assert bus == sorted(bus) and 360 < bus[-1] < 385
    assert any("NET/IB : Using [0]mlx5_0:1/IB" in line for line in lines)
    assert any(line.startswith("# Avg bus bandwidth    : 3") for line in lines)
    devices = [line for line in lines if line.startswith("#  Rank")]
    assert len(devices) == 16 and "on nccl-test-worker-1 device  7" in devices[-1]


def test_the_table_stays_when_the_workers_are_gone() -> None:
    before, twin = log(node("a"), node("b"), mpi_job())
    launcher, *workers = sorted(twin.store.objects("Pod"), key=lambda p: labels_of(p)[ROLE])
    for number, pod in enumerate(workers):
        name, host = name_of(pod), pod["spec"]["nodeName"]
        event: Obj = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"e{number}", "namespace": "training"},
            "involvedObject": {"kind": "Pod", "namespace": "training", "name": name},
            "reason": "Scheduled",
            "message": f"Successfully assigned training/{name} to {host}",
        }
        twin.store.create(event)
        twin.store.delete(Key("Pod", "training", name), grace_s=0)
    assert [p for p in twin.store.objects("Pod") if labels_of(p)[ROLE] == "worker"] == []
    after = [text for _, text in nccltests.lines(twin.store, launcher, "launcher", 0) or []]
    assert rows(after) == rows(before) != []
    # Without the Events nobody knows where they were.
    for event in twin.store.objects("Event", "training"):
        twin.store.delete(Key("Event", "training", name_of(event)))
    assert not nccltests.lines(twin.store, launcher, "launcher", 0)


@pytest.mark.parametrize(
    ("objects", "words"),
    [
        (
            (node("a"), node("b"), mpi_job(COMMAND.replace("NCCL_IB_HCA=mlx5", "NCCL_IB_DISABLE=1"))),
            "NCCL_IB_DISABLE",
        ),
        ((node("a", **{"rdma/hca": "8"}), node("b", **{"rdma/hca": "8"}), mpi_job()), "No device found."),
        ((node("a", "a3-highgpu-8g"), node("b", "a3-highgpu-8g"), mpi_job()), "No device found."),
    ],
)
def test_ethernet_shows(objects: tuple[Obj, ...], words: str) -> None:
    lines, _ = log(*objects)
    assert any(words in line for line in lines)
    assert any(line.endswith("Using network Socket") for line in lines)
    assert float(rows(lines)[-1][7]) < 100


def test_who_asks_for_the_cards_has_them() -> None:
    cards = {"rdma/hca": "8"}
    lines, _ = log(node("a", **cards), node("b", **cards), mpi_job(**cards))
    assert float(rows(lines)[-1][7]) > 360


def test_a_launcher_whose_workers_wait_has_no_table_and_does_not_succeed() -> None:
    lines, twin = log(mpi_job())
    assert lines == []
    found = twin.store.get(Key("MPIJob.kubeflow.org", "training", "nccl-test"))
    assert all(c["type"] != "Succeeded" for c in status_of(found or {}).get("conditions") or ())


@pytest.mark.parametrize(("ranks", "want"), [(3, [3]), (8, [8]), (9, [8, 1]), (15, [8, 7]), (16, [8, 8])])
def test_ranks_fill_one_machine_after_another(ranks: int, want: list[int]) -> None:
    lines, _ = log(node("a"), node("b"), mpi_job(f"mpirun -np {ranks} all_reduce_perf -b 8 -e 8 -g 1"))
    told = [line.split() for line in lines if line.startswith("#  Rank")]
    assert [int(words[2]) for words in told] == list(range(ranks))
    hosts = [words[words.index("on") + 1] for words in told]
    assert [hosts.count(host) for host in dict.fromkeys(hosts)] == want
    assert [int(words[words.index("device") + 1]) for words in told] == [
        n for count in want for n in range(count)
    ]


def alone(words: list[str], gpus: str = "8", env: dict[str, str] | None = None) -> list[tuple[int, str]]:
    """What a container on a node of H100s prints."""
    twin = Twin(seed=1, latency=latency_named("zero"), components=standard_components())
    container = {"name": "c", "command": words, "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    container["env"] = [{"name": name, "value": value} for name, value in (env or {}).items()]
    pod = {
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"nodeName": "a", "containers": [container]},
        "status": {"podIP": "10.0.0.7"},
    }
    twin.apply([node("a")])
    return nccltests.lines(twin.store, pod, "c", 0) or []


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        ("-b 4 -e 4K -i 4", [4 * n for n in range(1, 65)]),
        ("-b 4 -e 256 -i 4", [4 * n for n in range(1, 65)]),
        ("-b 4 -e 252 -i 4", [4 * n for n in range(1, 64)]),
        ("-b 1 -e 8 -f 2", [4, 8]),
        ("-b 4 -e 7 -f 2", [4]),
        ("-b 8 -e 4 -f 2", [8]),
        ("-b 1K -e 3K -f 3", [1024, 3072]),
        ("-b 1K -e 3K -f 1 -i 1K", [1024, 2048, 3072]),
        ("-b 1G -e 1G", [1 << 30]),
        ("-b 1M", [n << 20 for n in range(1, 33)]),
        ("", [32 << 20]),
        ("-b 1KB -e 1.5M", [32 << 20]),
    ],
)
def test_how_large_the_messages_are(options: str, sizes: list[int]) -> None:
    table = rows([text for _, text in alone(["all_reduce_perf", "-g", "8", *options.split()])])
    assert [int(row[0]) for row in table] == sizes
    assert [int(row[1]) for row in table] == [size // 4 for size in sizes]


@pytest.mark.parametrize(
    ("words", "ranks"),
    [
        ("all_reduce_perf", 1),
        ("all_reduce_perf -g 2 -t 3", 6),
        ("all_reduce_perf --ngpus 2 --nthreads 4", 8),
        ("all_reduce_perf -g 8 -t 2", 0),
        ("all_reduce_perf -g x", 1),
        ("mpirun -np 2 all_reduce_perf -g 3", 6),
        ("mpirun --np 2 all_reduce_perf", 2),
        ("mpirun -n 2 all_reduce_perf", 2),
        ("srun -c 5 all_reduce_perf", 5),
        ("mpirun -np all_reduce_perf", 1),
        ("mpirun -np 0 all_reduce_perf", 1),
        ("mpirun -np 0000005 all_reduce_perf", 5),
        ("mpirun -np 1000000 all_reduce_perf", 0),
    ],
)
def test_how_many_ranks_there_are(words: str, ranks: int) -> None:
    said = [text for _, text in alone(words.split())]
    assert [text[:20] for text in said if text.startswith("#  Rank")] == [
        f"#  Rank {n:>2} Group  0 " for n in range(ranks)
    ]


def test_a_pod_that_says_it_has_a_million_million_cards_costs_no_more() -> None:
    """Whoever binds a pod by hand writes any number: ranks end at 16,384."""
    said = [text for _, text in alone(["all_reduce_perf", "-g", "999999"], "1000000000000")]
    assert sum(text.startswith("#  Rank") for text in said) == 16_384
    assert len(said) < 16_400


def test_what_a_table_takes_and_comes_to() -> None:
    """A row's time is that of its iterations and their warm-up, out of place and in place."""
    words = ["all_reduce_perf", "-g", "8", "-b", "1G", "-e", "2G", "-f", "2", "-n", "10", "-w", "2"]
    found = alone(words)
    head, first, second, end = sorted({at_us for at_us, _ in found} | {0})
    assert (head, first) == (0, 1_000_000)
    table = rows([text for _, text in found])
    for before, after, row in ((first, second, table[0]), (second, end, table[1])):
        assert row[5] == row[9] and row[7] == row[11] and row[8] == row[12] == "0"
        assert after - before == pytest.approx(2 * 12 * float(row[5]), abs=30)
    average = sum(float(row[7]) for row in table) / 2
    assert float(found[-2][1].rpartition(":")[2]) == pytest.approx(average, abs=0.01)
    assert [text for _, text in found[-3:]][::2] == ["# Out of bounds values : 0 OK", "#"]


@pytest.mark.parametrize(
    ("kind", "operation", "root", "wrong"),
    [
        ("all_reduce", "sum", "-1", "0"),
        ("reduce_scatter", "sum", "-1", "0"),
        ("reduce", "sum", "0", "0"),
        ("all_gather", "none", "-1", "0"),
        ("broadcast", "none", "0", "0"),
        ("alltoall", "none", "-1", "N/A"),
        ("sendrecv", "sum", "-1", "N/A"),
    ],
)
def test_what_each_benchmark_says_of_itself(kind: str, operation: str, root: str, wrong: str) -> None:
    (row,) = rows([text for _, text in alone([f"/opt/{kind}_perf", "-g", "8"])])
    assert (row[2], row[3], row[4], row[8], row[12]) == ("float", operation, root, "0", wrong)


@pytest.mark.parametrize(
    ("env", "before", "last"),
    [
        ({}, 0, ""),
        ({"NCCL_DEBUG": "WARN"}, 0, ""),
        ({"NCCL_DEBUG": "INFO"}, 3, "Using network IB"),
        ({"NCCL_DEBUG": "TRACE"}, 3, "Using network IB"),
        ({"NCCL_DEBUG": "INFO", "NCCL_IB_DISABLE": "0"}, 3, "Using network IB"),
        ({"NCCL_DEBUG": "INFO", "NCCL_IB_DISABLE": "1"}, 4, "Using network Socket"),
    ],
)
def test_what_the_environment_says(env: dict[str, str], before: int, last: str) -> None:
    said = [text for _, text in alone(["all_reduce_perf"], env=env)]
    head = next(n for n, text in enumerate(said) if text.startswith("# nThread"))
    assert head == before
    if before:
        assert said[0] == "p:1:1 [0] NCCL INFO Bootstrap: Using eth0:10.0.0.7<0>"
        assert said[before - 1] == f"p:1:1 [0] NCCL INFO {last}"


@pytest.mark.parametrize(
    "words",
    [
        ["all_reduce_perf", "-b", "8", "-e", "1M", "-g", "0"],
        ["all_reduce_perf", "-b", "x", "-e", "9999999999999G", "-f", "1"],
        ["all_reduce_perf", "-f"],
        ["mpirun", "-np", "99999999999", "all_reduce_perf"],
        ["sh", "-c", "all_reduce_perf -b 8 -e 128M -f 2 -g 8"],
        ["alltoall_perf", "-i", "0", "-e", "1T"],
    ],
)
def test_odd_commands_end(words: list[str]) -> None:
    twin = Twin(seed=1, latency=latency_named("zero"), components=standard_components())
    container = {"name": "c", "command": words, "resources": {"limits": {"nvidia.com/gpu": "8"}}}
    pod = {
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"nodeName": "a", "containers": [container]},
    }
    twin.apply([node("a")])
    found = nccltests.lines(twin.store, pod, "c", 0)
    assert found is not None and len(found) < 200
