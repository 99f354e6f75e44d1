"""Does Fairway play scenarios of Kueue as the real one did?

A file has one scenario a line: `steps`, each with what is done (`do`), how long to wait and what was `observed`
once all had settled: workloads with conditions, admissions and flavors, ClusterQueues, jobs, pods by node, and
what the API refused. A step agrees when all of that does; a scenario when all its steps do.

kube-scheduler breaks ties between equally good nodes at random, so where a pod could go to several nodes only
the numbers of pods placed and of pods that wait for a node are compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import msgspec

from fairway.conformance.kueue_player import (
    Player,
    base_name,
    by_their_jobs,
    job_of,
    owner_name,
    set_name,
    without_uids,
)
from fairway.conformance.rows import nothing_recorded, read_rows
from fairway.conformance.verification import Difference, Verification
from fairway.kube.objects import Obj, spec_of
from fairway.queueing.facts.objects import HOSTNAME_LABEL

_PARTS = ("workloads", "clusterQueues", "jobs")


def verify_scenarios(file: Path) -> Verification:
    """Play every scenario of a file.

    Raises: InvalidInput for a file that is no such recording.
    """
    result = Verification()
    for line, row in read_rows(file, _shape_problem):
        result.count(list(_replay(line, row)))
    if not result.total:
        raise nothing_recorded(file, "scenarios")
    return result


def _replay(line: int, row: Mapping[str, Any]) -> Iterator[Difference]:
    name = str(row.get("name") or "")
    player = Player(row, seed=line)
    for number, step in enumerate(row["steps"]):
        got = player.play(step)
        wanted = step.get("observed") or {}
        for aspect, want, have in _compare(player, step, wanted, got):
            yield Difference(line, f"{name} step {number}", aspect, _shown(want), _shown(have))


def _compare(
    player: Player, step: Mapping[str, Any], wanted: Mapping[str, Any], got: Mapping[str, Any]
) -> Iterator[tuple[str, Any, Any]]:
    refused = [(r.get("kind"), r.get("name"), r.get("message")) for r in step.get("rejected") or ()]
    ours = [(r["kind"], r["name"], r["message"]) for r in player.refused]
    if refused != ours:
        yield "refused", refused, ours
    names = player.workload_names()
    got = {
        **got,
        "workloads": _as_recorded(got["workloads"], wanted.get("workloads") or {}, player.aliases()),
    }
    for part in _PARTS:
        if part in wanted:
            yield from _compare_parts(part, wanted[part] or {}, got[part], names)
    if "pods" in wanted:
        yield from _compare_pods(player, wanted["pods"] or {}, got["pods"])


def _as_recorded(
    got: Mapping[str, Any], wanted: Mapping[str, Any], aliases: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """Workloads that no job controls, under the names they were recorded by.

    Several may share a name without what was made up: each goes to one that it agrees with, else to any.
    """
    free: dict[str, list[str]] = {}
    for name in wanted:
        if name not in got:
            for alias in dict.fromkeys((name, base_name(name), set_name(name))):
                free.setdefault(alias, []).append(name)
    found: dict[str, Any] = {}
    for name, seen in got.items():
        own = () if name in wanted else (name, *aliases.get(name, ()))
        known = [w for a in own for w in free.get(a, ()) if w not in found]
        alike = (w for w in known if _normal(wanted[w]) == _normal(seen))
        found[next(alike, known[0] if known else name)] = seen
    return found


def _compare_parts(
    part: str, wanted: Mapping[str, Any], got: Mapping[str, Any], names: Mapping[str, str]
) -> Iterator[tuple[str, Any, Any]]:
    """Object by object, field by field, condition by condition."""
    for name in sorted({*wanted, *got}):
        want, have = wanted.get(name), got.get(name)
        if want is None or have is None:
            yield f"{part} {name}", want, have
            continue
        for field_name in sorted({*want, *have}):
            x, y = want.get(field_name), have.get(field_name)
            if field_name != "conditions":
                if field_name in want and _normal(x) != _normal(y):
                    yield f"{part} {name} {field_name}", x, y
                continue
            for kind in sorted({*(x or {}), *(y or {})}):
                a, b = _condition((x or {}).get(kind), names), _condition((y or {}).get(kind), names)
                if a != b:
                    yield f"{part} {name} condition {kind}", a, b


def _condition(raw: Mapping[str, Any] | None, names: Mapping[str, str]) -> dict[str, Any] | None:
    if raw is None:
        return None
    return {**raw, "message": by_their_jobs(without_uids(str(raw.get("message") or "")), names)}


def _normal(value: Any) -> Any:
    """Without what is empty, which the API leaves out."""
    if isinstance(value, dict):
        return {k: n for k, v in value.items() if (n := _normal(v)) not in (None, {}, [])} or None
    if isinstance(value, list):
        return [_normal(v) for v in value]
    return value


def _compare_pods(
    player: Player, wanted: Mapping[str, Mapping[str, int]], got: Mapping[str, Mapping[str, int]]
) -> Iterator[tuple[str, Any, Any]]:
    """Those that wait for a node are counted, too. Names that end in something made up go by what is before it."""
    both = wanted.keys() & got.keys()
    want_of, have_of = _grouped(wanted, both), _grouped(got, both)
    for job in sorted({*want_of, *have_of}):
        want, have = want_of.get(job) or {}, have_of.get(job) or {}
        if want == have:
            continue
        own = {name for name in got if _group(name, both) == job}
        is_count_equal = sum(want.values()) == sum(have.values()) and want.get("", 0) == have.get("", 0)
        if not is_count_equal or _is_forced(player, own):
            yield f"pods {job}", want, have


def _grouped(jobs: Mapping[str, Mapping[str, int]], both: Set[str]) -> dict[str, dict[str, int]]:
    """Pods by node, `""` for those without; no jobs without pods."""
    found: dict[str, dict[str, int]] = {}
    for job, nodes in jobs.items():
        for node, count in nodes.items():
            if count:
                of_job = found.setdefault(_group(job, both), {})
                at = "" if node == "null" else node
                of_job[at] = of_job.get(at, 0) + count
    return found


def _group(job: str, both: Set[str]) -> str:
    """ReplicaSets end in a hash of their templates, others in random letters. `both`: names that are equal anyway."""
    return job if job in both else owner_name(job)


def _is_forced(player: Player, jobs: Set[str]) -> bool:
    """Whether the pods of these had no choice: they name their nodes, or only one node will do."""
    store = player.twin.store
    nodes = store.objects("Node")
    for pod in store.objects("Pod"):
        if job_of(pod) in jobs and spec_of(pod).get("nodeName"):
            selector = spec_of(pod).get("nodeSelector") or {}
            fitting = [n for n in nodes if _has_labels(n, selector)]
            if HOSTNAME_LABEL not in selector and len(fitting) > 1:
                return False
    return True


def _has_labels(node: Obj, selector: Mapping[str, str]) -> bool:
    labels = node["metadata"].get("labels") or {}
    return all(labels.get(k) == v for k, v in selector.items())


def _shown(value: Any) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


def _shape_problem(row: Any) -> tuple[str, str] | None:
    if not isinstance(row, dict) or not isinstance(row.get("steps"), list):
        return ("steps", "expected a scenario with a list of steps")
    for i, step in enumerate(row["steps"]):
        if not isinstance(step, dict) or not isinstance(step.get("do") or [], list):
            return (f"steps[{i}].do", "expected a list of actions")
        for j, action in enumerate(step.get("do") or ()):
            obj = action.get("object") if isinstance(action, dict) else None
            if not isinstance(obj, dict) or not isinstance((obj.get("metadata") or {}).get("name"), str):
                return (f"steps[{i}].do[{j}].object", "expected an object with kind and metadata.name")
    return None
