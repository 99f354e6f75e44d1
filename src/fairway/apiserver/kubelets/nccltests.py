"""What does a benchmark of nccl-tests print here? `all_reduce_perf` and the others, alone or under mpirun.

The communicator is where the pods are: a launcher's workers with their nodes and boards, or the container's own GPUs.
Times are `devices.collectives`'. Where the network cards cannot be used the log says so as NCCL does, and the
table shows what TCP carries: `NCCL_IB_DISABLE=1`, plain Ethernet, or a node that hands out its cards as a resource
(`rdma/…`, `vpc.amazonaws.com/efa`) of which the workers ask for none.

Source: nccl-tests 2.17 src/common.cu (columns), NCCL 2.27 src/transport/net*.cc (words).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from fairway.apiserver.kubelets.interface import Line
from fairway.apiserver.kubelets.place import container_in
from fairway.catalog.boards import Board, board_of
from fairway.catalog.nodegpus import NodeGpus, gpus_of_node
from fairway.cluster.store import Store
from fairway.devices import collectives
from fairway.devices.collectives import Place
from fairway.kube.integers import natural
from fairway.kube.objects import Key, Obj, labels_of, meta_of, name_of, spec_of, status_of
from fairway.kube.podrequests import container_requests
from fairway.kube.resources import NVIDIA_GPU
from fairway.kube.timestamps import SECOND_US

_PROGRAM: Final = re.compile(
    r"(?:^|/)(all_reduce|all_gather|reduce_scatter|broadcast|reduce|alltoall|sendrecv)_perf(?:_mpi)?$"
)
_MPI_JOB: Final = "MPIJob.kubeflow.org"
_JOB, _ROLE = "training.kubeflow.org/job-name", "training.kubeflow.org/job-role"
_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_SIZE: Final = re.compile(r"(\d{1,12})([KMG]?)")
# Rows of one table: from bytes to the largest that fits a card, by factors of two.
_ROWS_MOST: Final = 64
_RANKS_MOST: Final = 16_384
_NUMBER_MOST: Final = 999_999
_DEFAULTS: Final = {
    "-b": "32M",
    "-e": "32M",
    "-f": "",
    "-i": "1M",
    "-g": "1",
    "-n": "20",
    "-w": "5",
    "-t": "1",
}
_LONG: Final = {
    "--minbytes": "-b",
    "--maxbytes": "-e",
    "--stepfactor": "-f",
    "--stepbytes": "-i",
    "--ngpus": "-g",
    "--iters": "-n",
    "--warmup_iters": "-w",
    "--nthreads": "-t",
}


class _Asked(NamedTuple):
    kind: str
    options: Mapping[str, str]
    environment: Mapping[str, str]
    processes: int


class _Member(NamedTuple):
    pod: Obj
    node: Obj
    board: Board
    gpus: NodeGpus
    asks: int


def lines(store: Store, pod: Obj, container: str, started_us: int) -> list[Line] | None:
    """What it prints, when; None where it runs no such program."""
    made = container_in(pod, container)
    words = [str(w) for part in ("command", "args") for w in made.get(part) or ()]
    words = [word for text in words for word in text.split()] if any(" " in w for w in words) else words
    asked = _asked(words, {str(e.get("name")): str(e.get("value") or "") for e in made.get("env") or ()})
    members = None if asked is None else _members(store, pod, container)
    if asked is None or not members:
        return None
    found = _place(asked, members)
    return [] if found is None else list(_printed(asked, members, found, started_us))


def _asked(words: Sequence[str], environment: dict[str, str]) -> _Asked | None:
    at = next((i for i, word in enumerate(words) if _PROGRAM.search(word)), None)
    if at is None:
        return None
    match = _PROGRAM.search(words[at])
    before, after = words[:at], list(words[at + 1 :])
    processes = 1
    for word, value in pairwise(before):
        if word in ("-np", "-n", "--np", "-c"):
            processes = _number(value)
        elif word == "-x" and "=" in value:
            name, _, said = value.partition("=")
            environment[name] = said
    options = dict(_DEFAULTS)
    for word, value in pairwise(after):
        name = _LONG.get(word, word)
        if name in options:
            options[name] = value
    return None if match is None else _Asked(match[1], options, environment, processes)


def _members(store: Store, pod: Obj, container: str) -> list[_Member]:
    """The pods whose GPUs it runs on, with their nodes."""
    labels = labels_of(pod)
    if labels.get(_ROLE) == "launcher":
        pods = [
            p
            for p in store.objects("Pod", meta_of(pod)["namespace"])
            if labels_of(p).get(_JOB) == labels.get(_JOB) and labels_of(p).get(_ROLE) == "worker"
        ]
        pods = pods or _gone(store, meta_of(pod)["namespace"], labels.get(_JOB, ""))
        pods.sort(key=lambda p: (len(name_of(p)), name_of(p)))
    else:
        pods = [pod]
    found = []
    for one in pods:
        node = store.get(Key("Node", "", spec_of(one).get("nodeName") or ""))
        count = sum(container_requests(c).get(NVIDIA_GPU, 0) for c in spec_of(one)["containers"])
        board = None if node is None else board_of(node)
        if node is None or board is None or not count:
            continue
        found.append(_Member(one, node, board, gpus_of_node(node), count))
    return found


def _gone(store: Store, namespace: str, job: str) -> list[Obj]:
    """Workers that went when the job was done: as its template has them, where their Events say they were."""
    obj = store.get(Key(_MPI_JOB, namespace, job))
    worker = (spec_of(obj or {}).get("mpiReplicaSpecs") or {}).get("Worker") or {}
    spec = (worker.get("template") or {}).get("spec") or {}
    placed = {}
    for event in store.objects("Event", namespace) if spec.get("containers") else ():
        name = str((event.get("involvedObject") or {}).get("name") or "")
        if event.get("reason") == "Scheduled" and name.startswith(f"{job}-worker-"):
            placed[name] = str(event.get("message") or "").rpartition(" ")[2]
    return [{"metadata": {"name": n}, "spec": {**spec, "nodeName": node}} for n, node in placed.items()]


def _place(asked: _Asked, members: Sequence[_Member]) -> Place | None:
    """The communicator, as far as it is of one kind of node; what it is short of comes first."""
    first = min(members, key=lambda m: m.board.nics.count * m.board.nics.gbit_per_s)
    model = first.gpus.model
    wanted, there = _ranks(asked), sum(m.asks for m in members)
    if model is None or wanted > there:
        return None
    per_node = min(first.asks, wanted)
    return Place(first.board, model, -(-wanted // per_node), per_node, has_rdma=not _why_tcp(asked, members))


def _ranks(asked: _Asked) -> int:
    """How many GPUs take part. The last machine of the communicator may have more."""
    return min(asked.processes * _number(asked.options["-g"]) * _number(asked.options["-t"]), _RANKS_MOST)


def _why_tcp(asked: _Asked, members: Sequence[_Member]) -> str:
    """Why the network cards are not used; empty where they are."""
    if asked.environment.get("NCCL_IB_DISABLE") == "1":
        return "disabled"
    for member in members:
        offered = status_of(member.node).get("allocatable") or {}
        taken = {
            n
            for c in spec_of(member.pod)["containers"]
            for n in (c.get("resources") or {}).get("limits") or {}
        }
        if not collectives.shows_cards(offered, taken):
            return "no device"
    return ""


def _number(text: str) -> int:
    return min(natural(text) or 1, _NUMBER_MOST)


def _bytes(text: str) -> int:
    match = _SIZE.fullmatch(text)
    return int(match[1]) * _UNITS[match[2]] if match else _UNITS["M"] * 32


def _sizes(options: Mapping[str, str]) -> list[int]:
    least, most = max(_bytes(options["-b"]), 4), _bytes(options["-e"])
    step, size, found = _number(options["-f"]) if options["-f"] else 0, least, list[int]()
    while size <= most and len(found) < _ROWS_MOST:
        found.append(size)
        size = size * step if step > 1 else size + _bytes(options["-i"])
    return found or [least]


def _printed(asked: _Asked, members: Sequence[_Member], place: Place, started_us: int) -> Iterator[Line]:
    iterations, warmup = _number(asked.options["-n"]), _number(asked.options["-w"])
    now_us = started_us + SECOND_US
    if asked.environment.get("NCCL_DEBUG") in ("INFO", "TRACE"):
        for text in _network(asked, members, place):
            yield now_us, text
    for text in _head(asked, members, place):
        yield now_us, text
    only, total, sizes = asked.environment.get("NCCL_ALGO", "").capitalize(), 0.0, _sizes(asked.options)
    for size in sizes:
        took = collectives.time_of(place, asked.kind, size, only=only).seconds
        # Out of place, then in place; each with its warm-up.
        now_us += round(2 * (iterations + warmup) * took * 1_000_000)
        text, bus = _row(asked.kind, size, took, _ranks(asked))
        total += bus
        yield now_us, text
    yield now_us, "# Out of bounds values : 0 OK"
    yield now_us, f"# Avg bus bandwidth    : {total / len(sizes):g} "
    yield now_us, "#"


def _head(asked: _Asked, members: Sequence[_Member], place: Place) -> Iterator[str]:
    options, sizes = asked.options, _sizes(asked.options)
    step = f"{options['-f']}(factor)" if options["-f"] else f"{_bytes(options['-i'])}(bytes)"
    yield (
        f"# nThread {options['-t']} nGpus {options['-g']} minBytes {sizes[0]} maxBytes {_bytes(options['-e'])} "
        f"step: {step} warmup iters: {options['-w']} iters: {options['-n']} agg iters: 1 validation: 1 graph: 0"
    )
    yield "#"
    yield "# Using devices"
    rank = 0
    for number, member in enumerate(members):
        product = member.gpus.product.replace("-", " ") or place.model.name
        for slot in range(min(member.asks, _ranks(asked) - rank)):
            yield (
                f"#  Rank {rank:>2} Group  0 Pid {300 + 100 * number + slot:>6} on {name_of(member.pod):>10} "
                f"device {slot:>2} [0x{0x10 + 8 * slot:02x}] {product}"
            )
            rank += 1
    yield "#"
    yield f"#{'':61} out-of-place                       in-place          "
    columns = f"{'time':>8}{'algbw':>8}{'busbw':>8}{'#wrong':>7}"
    yield f"#{'size':>11}{'count':>14}{'type':>10}{'redop':>8}{'root':>8} {columns} {columns}"
    units = f"{'(us)':>8}{'(GB/s)':>8}{'(GB/s)':>8}{'':>7}"
    yield f"#{'(B)':>11}{'(elements)':>14}{'':>26} {units} {units}"


def _row(kind: str, size: int, seconds: float, ranks: int) -> tuple[str, float]:
    algorithm = size / 1e9 / seconds if seconds else 0.0
    bus = algorithm * collectives.factor(kind, ranks)
    us = seconds * 1e6
    time = f"{us:7.0f}" if us >= 10_000 else f"{us:7.1f}" if us >= 100 else f"{us:7.2f}"
    cells = f"  {time}  {algorithm:6.2f}  {bus:6.2f}  "
    redop = "sum" if "reduce" in kind or kind == "sendrecv" else "none"
    # These two are not checked in place.
    wrong = "N/A" if kind in ("sendrecv", "alltoall") else "0"
    root = 0 if kind in (collectives.BROADCAST, collectives.REDUCE) else -1
    return (
        f"{size:>12}  {size // 4:>12}  {'float':>8}  {redop:>6}  {root:>6}{cells}    0{cells}{wrong:>5}",
        bus,
    )


def _network(asked: _Asked, members: Sequence[_Member], place: Place) -> Iterator[str]:
    """How NCCL finds its network: the words by which people notice that it is on Ethernet."""
    why, nics = _why_tcp(asked, members), place.board.nics
    for member in members:
        at = f"{name_of(member.pod)}:1:1 [0] NCCL INFO"
        address = status_of(member.pod).get("podIP") or "127.0.0.1"
        yield f"{at} Bootstrap: Using eth0:{address}<0>"
        if nics.kind == "InfiniBand" and not why:
            cards = " ".join(f"[{i}]mlx5_{i}:1/IB" for i in range(nics.count))
            yield f"{at} NET/IB : Using {cards} [RO]; OOB eth0:{address}<0>"
            yield f"{at} Using network IB"
        elif nics.kind == "EFA" and not why:
            yield f"{at} NET/OFI Selected provider is efa, fabric is efa (found {nics.count} nics)"
            yield f"{at} Using network AWS Libfabric"
        else:
            found = "NCCL_IB_DISABLE set by environment to 1." if why == "disabled" else "No device found."
            yield f"{at} NET/IB : {found}"
            yield f"{at} NET/Socket : Using [0]eth0:{address}<0>"
            yield f"{at} Using network Socket"
