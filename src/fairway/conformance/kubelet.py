"""Does Fairway's kubelet choose NUMA nodes, CPUs, memory and devices as Kubernetes' own test tables say?

One case a line, made by `tools/importing/kubelet.py`: `table` says which function it tests; the other fields are the
test's own. What a test leaves to Go's random order of maps is compared as sets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from fairway.conformance.rows import nothing_recorded, read_rows
from fairway.conformance.verification import Difference, Verification
from fairway.devices.numa.admitting import INIT, Ask, asks_of, memory_together, together
from fairway.devices.numa.cpupicking import PickError, Picking, distributed, packed
from fairway.devices.numa.cpus import CPU, CpuBook, CpuPolicy, cpu_hints, give_cpus, reserved_cpus, take_back
from fairway.devices.numa.cputopology import Cpu, CpuTopology
from fairway.devices.numa.devices import DeviceBook, DeviceSort, device_hints, give_devices
from fairway.devices.numa.hints import Hint, NumaNodes, mask_of, merged
from fairway.devices.numa.memory import (
    Block,
    MemoryBook,
    NumaMemory,
    Table,
    fresh_memory,
    give_memory,
    may_give,
    memory_hints,
    take_back_memory,
)
from fairway.devices.numa.options import cpu_options
from fairway.devices.numa.refusals import Refused
from fairway.errors import FieldProblem, InvalidInput

Case = Mapping[str, Any]
Answers = dict[str, tuple[Any, Any]]
"""By aspect: what was wanted, and what came."""


def verify_kubelet(file: Path) -> Verification:
    """Try every case. Raises: InvalidInput for a file that is not such a recording."""
    result = Verification()
    for number, row in read_rows(file, _shape_problem):
        try:
            answers = _TABLES[row["table"]](row)
        except Refused as refused:
            answers = {"refused": ("", refused.message)}
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as broken:
            text = f"not a case of {row['table']}: {type(broken).__name__}: {broken}"
            raise InvalidInput((FieldProblem(str(file), number, "", "", text),)) from broken
        name = f"{row['table']}: {row.get('name') or ''}"
        result.count(
            [
                Difference(number, name, aspect, str(wanted), str(got))
                for aspect, (wanted, got) in answers.items()
                if wanted != got
            ]
        )
    if not result.total:
        raise nothing_recorded(file, "cases of the kubelet's managers")
    return result


def _shape_problem(row: Any) -> tuple[str, str] | None:
    if not isinstance(row, dict) or row.get("table") not in _TABLES:
        return "table", f"expected one of {', '.join(_TABLES)}"
    return None


def _hint(said: Any) -> Hint:
    nodes, preferred = said if said else (None, False)
    return Hint(None if nodes is None else mask_of(nodes), bool(preferred))


def _sorted(hints: Any) -> list[Hint] | None:
    """Hints in any order; none and nothing are one."""
    return sorted(hints, key=lambda h: (not h.preferred, h.nodes or 0)) if hints else None


def _merge(case: Case) -> Answers:
    distances = dict(zip(case["nodes"], case["distances"], strict=True))
    providers = [
        {r: None if found is None else [_hint(h) for h in found] for r, found in (p or {}).items()}
        for p in case["providers"]
    ]
    best, _ = merged(
        case["policy"], providers, NumaNodes(tuple(case["nodes"]), distances), closest=case["closest"]
    )
    return {"hint": (_hint(case["want"]), best)}


def _closest(case: Case) -> Answers:
    """Of two sets that all agree on, the one chosen."""
    current, candidate = mask_of(case["current"]), mask_of(case["candidate"])
    told = case["numaInfo"].get("NUMADistances") or {}
    distances = {int(n): row for n, row in told.items()} or {n: [10] * 4 for n in range(4)}
    hints = {"a": [Hint(current, preferred=True), Hint(candidate, preferred=True)]}
    best, _ = merged("restricted", [hints], NumaNodes(tuple(distances), distances), closest=True)
    return {"chosen": (case["expected"], "current" if best.nodes == current else "candidate")}


# CPUs


def _topology(said: Mapping[str, Any]) -> CpuTopology:
    cpus = {
        int(n): Cpu(
            c.get("NUMANodeID", 0), c.get("SocketID", 0), c.get("CoreID", 0), c.get("UncoreCacheID", 0)
        )
        for n, c in said["CPUDetails"].items()
    }
    counts = (said.get(n, 0) for n in ("NumSockets", "NumCores", "NumUncoreCache", "NumNUMANodes"))
    return CpuTopology(cpus, *counts)


def _free(case: Case) -> Answers:
    topology = _topology(case["topo"])
    picking = Picking(topology, frozenset(case["availableCPUs"]), 0)
    found = {
        "free sockets": lambda: sorted(
            picking.whole(picking.sockets(), lambda c: c.socket, topology.per_socket)
        ),
        "free NUMA nodes": lambda: picking.whole(picking.numa_nodes(), lambda c: c.numa),
        "free cores": lambda: picking.whole(picking.cores(), lambda c: c.core, topology.per_core),
        "free CPUs": picking.cpus,
    }[case["what"]]()
    return {case["what"]: (case["expect"], found)}


def _picked(case: Case, pick: Callable[[], frozenset[int]]) -> Answers:
    wanted, error = case["expResult"], case.get("expErr") or ""
    try:
        return {"CPUs": (sorted(wanted), sorted(pick())), "error": (error, "")}
    except PickError as short:
        return {"error": (error, str(short))}


def _packed(case: Case) -> Answers:
    options = cpu_options(_options(case.get("opts")))
    topology = _topology(case["topo"])
    free, count = frozenset(case["availableCPUs"]), case["numCPUs"]
    return _picked(
        case, lambda: packed(topology, free, count, spread=options.across_cores, by_cache=options.by_cache)
    )


_FIELDS: Final = {
    "FullPhysicalCPUsOnly": "full-pcpus-only",
    "DistributeCPUsAcrossNUMA": "distribute-cpus-across-numa",
    "AlignBySocket": "align-by-socket",
    "DistributeCPUsAcrossCores": "distribute-cpus-across-cores",
    "StrictCPUReservation": "strict-cpu-reservation",
    "PreferAlignByUncoreCacheOption": "prefer-align-cpus-by-uncorecache",
}


def _options(said: Any) -> dict[str, str]:
    return {_FIELDS.get(name, name): str(value).lower() for name, value in (said or {}).items()}


def _distributed(case: Case) -> Answers:
    topology, free = _topology(case["topo"]), frozenset(case["availableCPUs"])
    return _picked(case, lambda: distributed(topology, free, case["numCPUs"], case["cpuGroupSize"]))


def _cpu_state(case: Case, topology: CpuTopology) -> tuple[CpuPolicy, CpuBook]:
    options = cpu_options(
        _options(case.get("options") or case.get("cpuPolicyOptions") or case.get("policyOptions"))
    )
    told = case.get("reserved") or case.get("reservedCPUs")
    reserved = frozenset(told) if told else reserved_cpus(topology, case.get("numReservedCPUs", 0))
    given = {
        pod: {name: frozenset(cpus) for name, cpus in containers.items()}
        for pod, containers in (case.get("stAssignments") or case.get("assignments") or {}).items()
    }
    shared = frozenset(case.get("stDefaultCPUSet") or case.get("defaultCPUSet") or ())
    if case.get("every"):
        shared -= reserved
    return CpuPolicy(topology, reserved, options), CpuBook(shared, given)


def _cpus_given(case: Case) -> Answers:
    topology = _topology(case["topo"])
    policy, book = _cpu_state(case, topology)
    uid = case["pod"]["metadata"]["uid"]
    asks = asks_of(case["pod"], ())
    mains = [a for a in asks if a.kind != INIT]
    hint = _hint(case.get("topologyHint"))
    error = (case.get("expErr") or {}).get("error", "")
    try:
        for ask in mains if case.get("every") else mains[:1]:
            book = give_cpus(policy, book, uid, ask.name, ask.cpus, hint.nodes, is_init=False)
    except Refused as refused:
        return {"error": (error, _plain_words(refused))}
    mine = book.given.get(uid) or {}
    got = mine.get(mains[0].name)
    if not case.get("every") or case.get("expCPUAlloc"):
        wanted = sorted(case["expCSet"]) if case.get("expCPUAlloc") else None
        return {"error": (error, ""), "CPUs": (wanted, None if got is None else sorted(got))}
    caches = sorted({topology.cpus[n].uncore for cpus in mine.values() for n in cpus})
    return {"error": (error, ""), "caches": (sorted(case["expUncoreCache"]), caches)}


def _plain_words(refused: Refused) -> str:
    """The manager's own words, without those of the admission around them."""
    return refused.message.removeprefix("Allocate failed due to ").removesuffix(", which is unexpected")


def _cpus_back(case: Case) -> Answers:
    _, book = _cpu_state(case, _topology(case["topo"]))
    book = take_back(book, case["podUID"], case["containerName"])
    left = (book.given.get(case["podUID"]) or {}).get(case["containerName"])
    return {"shared": (sorted(case["expCSet"]), sorted(book.shared)), "given": (None, left)}


def _cpus_reused(case: Case) -> Answers:
    policy, book = _cpu_state(case, _topology(case["topo"]))
    uid = case["pod"]["metadata"]["uid"]
    for ask in asks_of(case["pod"], ()):
        book = give_cpus(policy, book, uid, ask.name, ask.cpus, None, is_init=ask.kind == INIT)
    answers: Answers = {"shared": (sorted(case["expCSetAfterAlloc"]), sorted(book.shared))}
    if "expCSetAfterRemove" in case:
        book = take_back(book, uid, case["containerName"])
        answers["shared after"] = (sorted(case["expCSetAfterRemove"]), sorted(book.shared))
    return answers


def _cpus_aligned(case: Case) -> Answers:
    policy, book = _cpu_state(case, _topology(case["topo"]))
    nodes = None if case["socketMask"] is None else mask_of(case["socketMask"])
    book = give_cpus(policy, book, "pod", "c", case["numRequested"], nodes, is_init=False)
    return {"CPUs": (sorted(case["expCSet"]), sorted(book.given["pod"]["c"]))}


def _cpu_hints(case: Case) -> Answers:
    policy, book = _cpu_state(case, _topology(case.get("topo") or case["topology"]))
    uid, asks = case["pod"]["metadata"]["uid"], asks_of(case["pod"], ())
    count = together(asks, lambda a: {CPU: a.cpus}).get(CPU, 0)
    found = cpu_hints(policy, book, uid, {a.name: a.cpus for a in asks}, count) or {}
    return {"hints": (_sorted([_hint(h) for h in case["expectedHints"] or ()]), _sorted(found.get(CPU)))}


# Memory


def _memory_state(case: Case) -> MemoryBook:
    nodes = {
        int(number): NumaMemory(
            {
                name: Table(
                    t["Allocatable"], t["Free"], t["Reserved"], t["SystemReserved"], t["TotalMemSize"]
                )
                for name, t in (node.get("MemoryMap") or {}).items()
            },
            tuple(node.get("Cells") or ()),
            node.get("NumberOfAssignments", 0),
        )
        for number, node in (case.get("machineState") or {}).items()
    }
    given = {
        pod: {
            name: tuple(Block(tuple(b["NUMAAffinity"]), b["Type"], b["Size"]) for b in blocks)
            for name, blocks in containers.items()
        }
        for pod, containers in (case.get("assignments") or {}).items()
    }
    pods = case.get("initContainersReusableMemory") or {}
    for uid, by_mask in pods.items():
        left = {
            (int(mask, 2), resource): size
            for mask, resources in by_mask.items()
            for resource, size in resources.items()
        }
        return MemoryBook(nodes, given, (uid, left))
    return MemoryBook(nodes, given)


def _memory_given(case: Case) -> Answers:
    book, uid = _memory_state(case), case["pod"]["metadata"]["uid"]
    asks = asks_of(case["pod"], ())
    has_inits = any(a.kind == INIT or a.kind == "sidecar" for a in asks)
    hint = _hint(case.get("topologyHint"))
    error = (case.get("expectedError") or {}).get("error", "")
    try:
        for i, ask in enumerate(asks if has_inits else asks[:1]):
            if ask.memory:
                before = tuple(a.name for a in asks[:i] if a.kind == INIT)
                is_init = ask.kind == INIT
                book = give_memory(book, uid, ask.name, ask.memory, hint, is_init=is_init, init_before=before)
    except Refused as refused:
        return {"error": (error, _plain_words(refused))}
    return {"error": (error, ""), **_memory_answers(case, book)}


def _memory_answers(case: Case, book: MemoryBook) -> Answers:
    wanted = _memory_state(
        {"machineState": case["expectedMachineState"], "assignments": case["expectedAssignments"]}
    )
    return {
        "given": (_blocks(wanted), _blocks(book)),
        "machine": (_nodes(wanted), _nodes(book)),
    }


def _blocks(book: MemoryBook) -> Any:
    return {p: {c: sorted(b) for c, b in containers.items()} for p, containers in book.given.items()}


def _nodes(book: MemoryBook) -> Any:
    """A group's free and reserved memory counts together: in which order its nodes give is nobody's business."""
    found = {}
    for number, node in book.nodes.items():
        group = tuple(sorted(node.group))
        tables = {}
        for name, t in sorted(node.tables.items()):
            of_group = [book.nodes[n].tables[name] for n in group if name in book.nodes[n].tables]
            tables[name] = (
                t.allocatable,
                t.system,
                t.total,
                sum(x.free for x in of_group),
                sum(x.reserved for x in of_group),
            )
        found[number] = (group, node.assignments, tables)
    return found


def _memory_back(case: Case) -> Answers:
    book = take_back_memory(_memory_state(case), "pod1", "container1")
    return _memory_answers(case, book)


def _memory_hints(case: Case) -> Answers:
    book, uid = _memory_state(case), case["pod"]["metadata"]["uid"]
    asks = asks_of(case["pod"], ())
    asks = asks if case["table"].endswith("podhints") else [a for a in asks if a.kind != INIT][:1]
    if not book.nodes and case.get("machineInfo"):
        sizes = {n["Id"]: _sizes(n) for n in case["machineInfo"]["Topology"]}
        system = {int(n): r for n, r in (case.get("systemReserved") or {}).items()}
        book = fresh_memory(sizes, system)
    found = memory_hints(book, uid, [a.name for a in asks], memory_together(asks))
    wanted = case.get("expectedTopologyHints")
    return {"hints": (_by_resource(wanted, _hint), _by_resource(found, lambda h: h))}


def _sizes(node: Mapping[str, Any]) -> dict[str, int]:
    found = {"memory": node["Memory"]}
    for pages in node.get("HugePages") or ():
        name = "hugepages-1Gi" if pages["PageSize"] == 1 << 20 else f"hugepages-{pages['PageSize']}Ki"
        found[name] = pages["PageSize"] * pages["NumPages"] * 1024
    return found


def _by_resource(hints: Any, read: Callable[[Any], Hint]) -> Any:
    return {name: _sorted([read(h) for h in found or ()]) for name, found in (hints or {}).items()} or None


def _memory_requests(case: Case) -> Answers:
    spec = {**case["pod"]["spec"]}
    for part in ("containers", "initContainers"):
        spec[part] = [_guaranteed(c) for c in spec.get(part) or ()]
    asks = asks_of({"metadata": case["pod"]["metadata"], "spec": spec}, ())
    found = memory_together([Ask(a.name, a.kind, 0, a.memory, {}) for a in asks])
    return {"requests": (case["expected"], found)}


def _guaranteed(container: Mapping[str, Any]) -> dict[str, Any]:
    """The table's pods ask for memory alone: with limits and a CPU they are Guaranteed."""
    requests = {**((container.get("resources") or {}).get("requests") or {}), "cpu": "1"}
    return {**container, "resources": {"requests": requests, "limits": requests}}


def _memory_violates(case: Case) -> Answers:
    nodes = _hint(case["topologyHint"]).nodes or 0
    return {"violates": (bool(case.get("isViolationExpected")), not may_give(_memory_state(case), nodes))}


# Devices


def _device_sort(devices: Sequence[Mapping[str, Any]]) -> DeviceSort:
    return DeviceSort(
        {d["ID"]: tuple(n["ID"] for n in (d.get("Topology") or {}).get("Nodes") or ()) for d in devices}
    )


def _device_hints(case: Case) -> Answers:
    sorts = {r: _device_sort(devices) for r, devices in case["devices"].items()}
    given = {
        pod: {c: {r: frozenset(d) for r, d in resources.items()} for c, resources in containers.items()}
        for pod, containers in (case.get("allocatedDevices") or {}).items()
    }
    asks = asks_of(case["pod"], sorts)
    is_pod = case["table"].endswith("podhints")
    mains = asks if is_pod else [a for a in asks if a.kind != INIT][:1]
    container = None if is_pod else mains[0].name
    asked = together(mains, lambda a: a.devices)
    uid = case["pod"]["metadata"]["uid"]
    found = device_hints(sorts, DeviceBook(given), uid, container, asked, (0, 1))
    wanted = {r: case["expectedHints"][r] for r in case["expectedHints"]}
    return {
        "hints": (_by_resource(wanted, _hint), _by_resource({r: found.get(r) for r in wanted}, lambda h: h))
    }


def _device_aligned(case: Case) -> Answers:
    told = (case.get("getPreferredAllocationFunc") or {}).get("function") or ()
    preferred = [word.strip('"') for word in told if word.startswith('"')]
    sort = _device_sort(case["devices"])
    if told:
        sort = DeviceSort(sort.numa, prefer=lambda *_: preferred)
    taken = frozenset(case.get("allocatedDevices") or ())
    book = DeviceBook({"other": {"c": {"resource": taken}}} if taken else {})
    book = give_devices(
        sort, book, "pod", "c", "resource", case["request"], _hint(case["hint"]).nodes, is_init=False
    )
    chosen = book.of("pod", "c", "resource")
    alignment: dict[str, int] = {}
    for device in chosen if sort.has_locality else ():
        for node in sort.numa[device][:1]:
            alignment[str(node)] = alignment.get(str(node), 0) + 1
    missing = sorted(set(case.get("expectedPreferredAllocation") or ()) - chosen)
    return {"alignment": (case["expectedAlignment"], alignment), "missing": ([], missing)}


def _device_preferred(case: Case) -> Answers:
    """What the plugin is asked."""
    asked: list[tuple[list[str], list[str], int]] = []

    def prefer(available: Sequence[str], included: Sequence[str], size: int) -> Sequence[str]:
        asked.append((sorted(available), sorted(included), size))
        return []

    reusable = frozenset(case.get("reusableDevices") or ())
    others = frozenset(case.get("allocatedDevices") or ())
    sort = DeviceSort(_device_sort(case["allDevices"]).numa, prefer=prefer)
    book = DeviceBook({"other": {"c": {"resource": others}}}, ("pod", {"resource": reusable}))
    give_devices(
        sort, book, "pod", "c", "resource", case["request"], _hint(case["hint"]).nodes, is_init=False
    )
    available, _, size = asked[0]
    return {"available": (sorted(case["expectedAvailable"]), available), "size": (case["expectedSize"], size)}


_TABLES: Final[Mapping[str, Callable[[Case], Answers]]] = {
    "topologymanager/merge": _merge,
    "topologymanager/closest": _closest,
    "cpumanager/free": _free,
    "cpumanager/packed": _packed,
    "cpumanager/distributed": _distributed,
    "cpumanager/allocate": _cpus_given,
    "cpumanager/remove": _cpus_back,
    "cpumanager/reuse": _cpus_reused,
    "cpumanager/aligned": _cpus_aligned,
    "cpumanager/hints": _cpu_hints,
    "cpumanager/podhints": _cpu_hints,
    "memorymanager/allocate": _memory_given,
    "memorymanager/remove": _memory_back,
    "memorymanager/hints": _memory_hints,
    "memorymanager/podhints": _memory_hints,
    "memorymanager/requests": _memory_requests,
    "memorymanager/violates": _memory_violates,
    "devicemanager/hints": _device_hints,
    "devicemanager/podhints": _device_hints,
    "devicemanager/aligned": _device_aligned,
    "devicemanager/preferred": _device_preferred,
}
