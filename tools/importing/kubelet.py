"""The test tables of the kubelet's managers, as facts: one JSON object a case.

    python -m tools.importing.kubelet KUBERNETES > recordings/kubelet-managers.jsonl

`KUBERNETES` is a checkout. Taken are machines, what was given out, what is asked for, and what must come of it.
Cases that need the alpha gate PodLevelResourceManagers, and what a restarted kubelet checks of its files, are left out.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tools.importing.gotables import Sources, Unknown

_CM = "pkg/kubelet/cm"
_MAPS = {
    "state.ContainerCPUAssignments": "map[string]map[string]cpuset.CPUSet",
    "state.NUMANodeMap": "map[int]*state.NUMANodeState",
    "state.ContainerMemoryAssignments": "map[string]map[string][]state.Block",
    "v1.ResourceList": "map[v1.ResourceName]resource.Quantity",
    "systemReservedMemory": "map[int]map[v1.ResourceName]uint64",
    "reusableMemory": "map[string]map[string]map[v1.ResourceName]uint64",
    "NUMADistances": "map[int][]uint64",
}


def _ranges(text: str) -> list[int]:
    found: list[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def _error(form: str, *given: Any) -> dict[str, str]:
    return {"error": re.sub(r"%[sdvq]", "%s", form) % given if given else form}


def _smt(**said: Any) -> dict[str, str]:
    per_core, asked = said.get("CpusPerCore", 0), said.get("RequestedCPUs", 0)
    if said.get("CausedByPhysicalCPUs"):
        text = f"not enough free physical CPUs: available physical CPUs = {said.get('AvailablePhysicalCPUs', 0)}, "
        text += f"requested CPUs = {asked}, CPUs per core = {per_core}"
    else:
        text = f"requested {asked} cpus not multiple cpus per core = {per_core}"
    return {"error": f"SMT Alignment Error: {text}"}


def _container(name: str, request: str, limit: str, restart: Any = None) -> dict[str, Any]:
    if not request:
        return {"name": name}
    resources = {"requests": {"cpu": request, "memory": "1G"}, "limits": {"cpu": limit, "memory": "1G"}}
    found = {"name": name, "resources": resources}
    return {**found, "restartPolicy": restart} if restart else found


def _pod(uid: str, containers: Any, inits: Any = ()) -> dict[str, Any]:
    return {"metadata": {"uid": uid}, "spec": {"containers": list(containers), "initContainers": list(inits)}}


def _plain(value: Any) -> Any:
    """A pod or container as Kubernetes writes it."""
    if isinstance(value, list):
        return [_plain(v) for v in value]
    if not isinstance(value, dict):
        return value
    names = {"ObjectMeta": "metadata", "UID": "uid", "CPU": "cpu"}
    return {
        names.get(k, k[:1].lower() + k[1:] if "/" not in k and k[:1].isupper() else k): _plain(v)
        for k, v in value.items()
    }


def _of_pairs(kind: str) -> Any:
    def made(*given: Any) -> list[Any]:
        return [
            _container(f"{kind}-{i}", *g.values()) if isinstance(g, dict) else _container(f"{kind}-{i}", *g)
            for i, g in enumerate(given)
        ]

    return made


def _multi(inits: list[Any], apps: list[Any]) -> dict[str, Any]:
    return _pod("podUID", _of_pairs("appContainer")(*apps), _of_pairs("initContainer")(*inits))


def _multi_options(inits: list[Any], apps: list[Any]) -> dict[str, Any]:
    def made(kind: str, options: list[Any]) -> list[Any]:
        return [
            _container(f"{kind}-{i}", o.get("request", ""), o.get("limit", ""), o.get("restartPolicy"))
            for i, o in enumerate(options)
        ]

    return _pod("podUID", made("appContainer", apps), made("initContainer", inits))


def _details(topology: dict[str, Any]) -> dict[int, dict[str, int]]:
    return topology.get("CPUDetails", topology)


def _in_caches(topology: Any, *caches: int) -> list[int]:
    return [n for n, c in _details(topology).items() if c.get("UncoreCacheID", 0) in caches]


CALLS: Mapping[str, Any] = {
    "cpuset.New": lambda *cpus: sorted(cpus),
    "newCPUSetPtr": lambda *cpus: sorted(cpus),
    "cpuset.Parse": _ranges,
    "mustParseCPUSet": lambda _, text: _ranges(text),
    ".Difference": lambda a, b: sorted(set(a) - set(b)),
    ".Union": lambda a, *b: sorted(set(a).union(*b)),
    ".Clone": lambda a: a,
    ".CPUs": lambda topology: sorted(_details(topology)),
    ".CPUsInUncoreCaches": _in_caches,
    ".CPUsInNUMANodes": lambda t, *nodes: [
        n for n, c in _details(t).items() if c.get("NUMANodeID", 0) in nodes
    ],
    ".CPUsInSockets": lambda t, *nodes: [n for n, c in _details(t).items() if c.get("SocketID", 0) in nodes],
    "NewTestBitMask": lambda *bits: list(bits),
    "newNUMAAffinity": lambda *bits: list(bits),
    "makeSocketMask": lambda *bits: list(bits),
    "bitmask.NewBitMask": lambda *bits: list(bits),
    "bitmask.NewEmptyBitMask": list,
    "TopologyHint{}": lambda *given, **named: (
        list(given) or [named.get("NUMANodeAffinity"), named.get("Preferred", False)]
    ),
    "SMTAlignmentError{}": _smt,
    "fmt.Errorf": _error,
    "fmt.Sprintf": lambda form, *given: form % given,
    "resource.MustParse": lambda text: text,
    "makePod": lambda uid, name, request, limit: _pod(uid, [_container(name, request, limit)]),
    "makeMultiContainerPod": _multi,
    "makeMultiContainerPodWithOptions": _multi_options,
    "WithPodUID": lambda pod, uid: {**pod, "metadata": {"uid": uid}},
    "makeNUMADevice": lambda name, numa: {"ID": name, "Topology": {"Nodes": [{"ID": numa}]}},
    "getPod": lambda uid, name, needs: _pod(uid, [{"name": name, "resources": needs}]),
    "getPodWithInitContainers": _pod,
    "getPodWithPodLevelResources": lambda uid, whole, name, needs: {
        **_pod(uid, [{"name": name, "resources": needs}]),
        "alpha": True,
    },
    "makePodWithPodLevelResources": lambda uid, _request, _limit, name, request, limit: {
        **_pod(uid, [_container(name, request, limit)]),
        "alpha": True,
    },
    "makeMultiContainerPodWithOptionsAndPodLevelResources": lambda _, i, a: {
        **_multi_options(i, a),
        "alpha": True,
    },
    "v1.ResourceCPU": "cpu",
    "v1.ResourceMemory": "memory",
    "v1.ResourceHugePagesPrefix": "hugepages-",
    "v1.ContainerRestartPolicyAlways": "Always",
}
_GIVEN = {
    "v1": {
        "ResourceCPU": "cpu",
        "ResourceMemory": "memory",
        "ResourceHugePagesPrefix": "hugepages-",
        "ContainerRestartPolicyAlways": "Always",
    },
    "FullPCPUsOnlyOption": "full-pcpus-only",
    "DistributeCPUsAcrossNUMAOption": "distribute-cpus-across-numa",
    "AlignBySocketOption": "align-by-socket",
    "DistributeCPUsAcrossCoresOption": "distribute-cpus-across-cores",
    "StrictCPUReservationOption": "strict-cpu-reservation",
    "PreferAlignByUnCoreCacheOption": "prefer-align-cpus-by-uncorecache",
    "t": None,
    "CPUSortingStrategyPacked": "packed",
    "CPUSortingStrategySpread": "spread",
}
CALLS = {k: v for k, v in CALLS.items() if not k.startswith("v1.")}


def sources(root: Path, part: str) -> Sources:
    found = Sources(CALLS, _MAPS, given=dict(_GIVEN))
    for path in sorted((root / _CM / part).glob("*_test.go")):
        found.read(path.read_text("utf-8"))
    return found


# The tables


def cases(root: Path) -> Iterator[dict[str, Any]]:
    yield from _topology(sources(root, "topologymanager"))
    yield from _cpus(sources(root, "cpumanager"))
    yield from _memory(sources(root, "memorymanager"))
    yield from _devices(sources(root, "devicemanager"))


def _topology(s: Sources) -> Iterator[dict[str, Any]]:
    four = {
        "nodes": list(range(4)),
        "distances": [[10, 11, 12, 12], [11, 10, 12, 12], [12, 12, 10, 11], [12, 12, 11, 10]],
    }
    eight = s.table("commonNUMAInfoEightNodes")
    eight = {"nodes": eight["Nodes"], "distances": list(eight["NUMADistances"].values())}
    best = "bestEffortPolicy.mergeTestCases"
    runs = [
        ("best-effort", four, False, ("commonPolicyMergeTestCases", best, f"{best}NoPolicies")),
        ("best-effort", eight, True, ("commonPolicyMergeTestCases", best, f"{best}ClosestNUMA")),
        ("restricted", four, False, ("commonPolicyMergeTestCases", best, f"{best}NoPolicies")),
        ("restricted", eight, True, ("commonPolicyMergeTestCases", best, f"{best}ClosestNUMA")),
        (
            "single-numa-node",
            four,
            False,
            ("commonPolicyMergeTestCases", "singleNumaNodePolicy.mergeTestCases"),
        ),
    ]
    for policy, machine, closest, tables in runs:
        for table in tables:
            for case in s.table(table, numaNodes=machine["nodes"]):
                hints = [
                    next(iter(p.values()), None) if isinstance(p, dict) else p[0] if p else None
                    for p in case["hp"]
                ]
                yield {
                    "table": "topologymanager/merge",
                    "name": f"{policy}{', closest' if closest else ''}: {case['name']}",
                    "policy": policy,
                    "closest": closest,
                    **machine,
                    "providers": hints,
                    "want": case["expected"],
                }
    for case in s.table("TestPolicyNoneMerge", "tcases"):
        yield {
            "table": "topologymanager/merge",
            "name": f"none: {case['name']}",
            "policy": "none",
            "closest": False,
            **four,
            "providers": case["providersHints"],
            "want": [None, False],
        }
    for case in s.table("TestClosest", "tcases"):
        yield {"table": "topologymanager/closest", **case}


def _cpus(s: Sources) -> Iterator[dict[str, Any]]:
    large = s.table("TestStaticPolicyAdd", "largeTopo")
    every = sorted(large["CPUDetails"])
    by_socket = {
        n: sorted(c for c in every if large["CPUDetails"][c].get("SocketID", 0) == n) for n in (0, 1)
    }
    given = {
        "largeTopoCPUSet": every,
        "largeTopoSock0CPUSet": by_socket[0],
        "largeTopoSock1CPUSet": by_socket[1],
    }
    for function, name in (
        ("TestCPUAccumulatorFreeSockets", "free sockets"),
        ("TestCPUAccumulatorFreeNUMANodes", "free NUMA nodes"),
        ("TestCPUAccumulatorFreeCores", "free cores"),
        ("TestCPUAccumulatorFreeCPUs", "free CPUs"),
    ):
        for case in s.table(function, "testCases"):
            yield _renamed("cpumanager/free", case, what=name)
    common = s.table("commonTakeByTopologyTestCases")
    for case in [*common, *_added(s, "TestTakeByTopologyNUMAPacked")]:
        yield _renamed("cpumanager/packed", case)
    for case in s.table("TestTakeByTopologyWithSpreadPhysicalCPUsPreferredOption", "testCases"):
        yield _renamed("cpumanager/packed", case)
    extended = [*({**c, "cpuGroupSize": 1} for c in common), *_extended(s)]
    for case in [*extended, *_added(s, "TestTakeByTopologyNUMADistributed")]:
        yield _renamed("cpumanager/distributed", case)
    for name in (
        "optionsInsensitiveTestCases",
        "defaultOptionsTestCases",
        "smtalignOptionTestCases",
        "alignBySocketOptionTestCases",
    ):
        for case in s.table("TestStaticPolicyAdd", name, **given):
            yield _renamed("cpumanager/allocate", case)
    for function in ("TestStaticPolicyAddWithResvList", "TestStaticPolicyAddWithUncoreAlignment"):
        for case in s.table(function, "testCases"):
            yield _renamed("cpumanager/allocate", case, every=function.endswith("Alignment"))
    for case in s.table("TestStaticPolicyRemove", "testCases"):
        yield _renamed("cpumanager/remove", case)
    for function in ("TestStaticPolicyReuseCPUs", "TestStaticPolicyDoNotReuseCPUs"):
        for case in s.table(function, "testCases"):
            yield _renamed("cpumanager/reuse", {**case.pop("staticPolicyTest"), **case})
    for case in s.table("TestTopologyAwareAllocateCPUs", "testCases"):
        yield _renamed("cpumanager/aligned", case)
    machine = _machine(s.table("returnMachineInfo"))
    for case in s.table("returnTestCases"):
        yield _renamed("cpumanager/hints", {**case, "topo": machine})
    for case in s.table("TestGetPodTopologyHintsWithPolicyOptions", "testCases"):
        yield _renamed("cpumanager/podhints", case)


def _added(s: Sources, function: str) -> list[Any]:
    from tools.importing.gotables import Scope, _appended, declared

    body = s.functions[function]
    scope = Scope(s, declared(body, ":="), {})
    return [case for tokens in _appended(body, "testCases") for case in scope.evaluate(tokens)]


def _extended(s: Sources) -> list[Any]:
    from tools.importing.gotables import Scope, _appended, declared

    body = s.functions["commonTakeByTopologyExtendedTestCases"]
    scope = Scope(s, declared(body, ":="), {})
    found = []
    for tokens in _appended(body, "extendedTestCases"):
        try:
            value = scope.evaluate(tokens)
        except Unknown:
            continue
        found += value if isinstance(value, list) else []
    return found


def _machine(info: dict[str, Any]) -> dict[str, Any]:
    details = {}
    cores = 0
    for node in info["Topology"]:
        for core in node["Cores"]:
            cores += 1
            for cpu in core["Threads"]:
                details[cpu] = {
                    "NUMANodeID": node["Id"],
                    "SocketID": core.get("SocketID", 0),
                    "CoreID": min(core["Threads"]),
                    "UncoreCacheID": (core.get("UncoreCaches") or [{"Id": core.get("SocketID", 0)}])[0]["Id"],
                }
    numa = {d["NUMANodeID"] for d in details.values()}
    return {
        "NumCPUs": info["NumCores"], "NumCores": cores, "NumSockets": info.get("NumSockets", 0),
        "NumNUMANodes": len(numa), "NumUncoreCache": len({d["UncoreCacheID"] for d in details.values()}),
        "CPUDetails": details,
    }  # fmt: skip


def _memory(s: Sources) -> Iterator[dict[str, Any]]:
    for function, table in (
        ("TestStaticPolicyAllocate", "allocate"),
        ("TestStaticPolicyAllocateWithInitContainers", "allocate"),
        ("TestStaticPolicyAllocateWithRestartableInitContainers", "allocate"),
        ("TestStaticPolicyRemoveContainer", "remove"),
        ("TestStaticPolicyGetTopologyHints", "hints"),
        ("TestStaticPolicyGetPodTopologyHints", "podhints"),
    ):
        for case in s.table(function, "testCases"):
            yield _renamed(f"memorymanager/{table}", case)
    for case in s.table("Test_getPodRequestedResources", "testCases"):
        yield _renamed("memorymanager/requests", case)
    for case in s.table("Test_isAffinityViolatingNUMAAllocations", "testsCases"):
        yield _renamed("memorymanager/violates", case)


def _devices(s: Sources) -> Iterator[dict[str, Any]]:
    common = s.table("getCommonTestCases")
    for case in common:
        yield _renamed("devicemanager/hints", case)
    for case in [*common, *s.table("getPodScopeTestCases")]:
        yield _renamed("devicemanager/podhints", case)
    for case in s.table("TestTopologyAlignedAllocation", "tcases"):
        yield _renamed("devicemanager/aligned", case)
    for case in s.table("TestGetPreferredAllocationParameters", "tcases"):
        yield _renamed("devicemanager/preferred", case)


def _renamed(table: str, case: dict[str, Any], **more: Any) -> dict[str, Any]:
    name = case.get("description") or case.get("name") or ""
    rest = {
        k: _plain(v) if k in ("pod", "container") else v
        for k, v in case.items()
        if k not in ("description", "name")
    }
    return {"table": table, "name": name, **more, **rest}


def main() -> int:
    found = [case for case in cases(Path(sys.argv[1])) if not _is_alpha(case)]
    for case in found:
        sys.stdout.write(json.dumps(case, sort_keys=True, separators=(",", ":")) + "\n")
    return 0


def _is_alpha(case: dict[str, Any]) -> bool:
    pod = case.get("pod")
    return bool(
        case.get("podLevelResourceManagersEnabled")
        or (isinstance(pod, dict) and (pod.get("alpha") or (pod.get("spec") or {}).get("resources")))
    )


if __name__ == "__main__":
    raise SystemExit(main())
