"""Where may the pods go? Partitions, constraints and node lists as node affinity, `--switches` as topology requests.

An affinity's terms are alternatives; what must hold in any case (node lists) stands in each of them.
"""

from __future__ import annotations

from typing import Any

from fairway.slurm import features
from fairway.slurm.converting.layouts import Layout, Say
from fairway.slurm.converting.notes import CHANGED, LABELS, LOST
from fairway.slurm.converting.scripts import Part

HOSTNAME = "kubernetes.io/hostname"
JOB_LABEL = LABELS + "job"
USER_LABEL = LABELS + "user"
MAX_TERMS = 64
_YES = "true"


def partition_label(name: str) -> str:
    return f"{LABELS}partition.{name}"


def feature_label(name: str) -> str:
    return f"{LABELS}feature.{name}"


def gres_label(kind: str) -> str:
    """Nodes with GPUs of that type."""
    return f"{LABELS}gpu.{kind}"


def switch_label(level: int) -> str:
    """`level` 0 is the lowest switch."""
    return f"{LABELS}switch-{level}"


def affinity_of(part: Part, layout: Layout, partitions: tuple[str, ...], say: Say) -> dict[str, Any]:
    """A pod's `affinity`; empty where it may go anywhere."""
    request = part.request
    each = [[_has(gres_label(kind)) for kind in layout.gpu_kinds]]
    if len(partitions) > 1:
        each = [[*term, _has(partition_label(name))] for term in each for name in partitions]
    elif partitions:
        each = [[*term, _has(partition_label(partitions[0]))] for term in each]
    if request.features:
        each = [[*term, *more] for term in each for more in _features(part, layout, say)]
    if request.nodelist:
        if layout.nodes > 1 or len(request.nodelist) > layout.nodes:
            why = "Slurm takes all of these nodes and others beside them; here pods stay on these"
            say(part.where("nodelist", "nodefile"), CHANGED, why, "Use --constraint, nodes come and go")
        each = [[*term, _name("In", request.nodelist)] for term in each]
    if request.exclude:
        each = [[*term, _name("NotIn", request.exclude)] for term in each]
    if len(each) > MAX_TERMS:
        say(part.where("constraint"), LOST, f"{len(each)} alternatives are too many", "Ask for fewer")
        each = each[:MAX_TERMS]
    found: dict[str, Any] = {}
    terms = [{"matchExpressions": term} for term in each if term]
    node: dict[str, Any] = {}
    if terms:
        node["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    preferred = _preferred(part, say)
    if preferred:
        node["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
    if node:
        found["nodeAffinity"] = node
    apart = _apart(part)
    if apart:
        found["podAntiAffinity"] = apart
    return found


def _has(label: str) -> dict[str, Any]:
    return {"key": label, "operator": "In", "values": [_YES]}


def _name(operator: str, names: tuple[str, ...]) -> dict[str, Any]:
    return {"key": HOSTNAME, "operator": operator, "values": list(names)}


def _features(part: Part, layout: Layout, say: Say) -> list[list[dict[str, Any]]]:
    """Each alternative as expressions."""
    text = part.request.features or ""
    wanted, where = features.parse(text), part.where("constraint")
    if wanted is None:
        say(where, LOST, "the constraint cannot be read", "Write it with & and |")
        return [[]]
    if wanted.counts:
        counts = ", ".join(f"{count} of {name}" for name, count in wanted.counts)
        why = f"one gang cannot have so many nodes of each kind ({counts}); any of them will do"
        say(where, LOST, why, "Make it a hetjob: each part becomes a replicatedJob of a JobSet")
        return [[_has(feature_label(name))] for name, _ in wanted.counts]
    if len(wanted.alternatives) > 1 and layout.nodes > 1:
        why = "all nodes of one kind cannot be asked for; pods may be on different ones"
        say(where, LOST, why, "Put the kinds into ResourceFlavors: Kueue takes one for all pods of a gang")
    return [
        [_has(feature_label(name)) for name in sorted(one)]
        for alternative in wanted.alternatives
        for one in alternative
    ]


def _preferred(part: Part, say: Say) -> list[dict[str, Any]]:
    if not part.request.prefer:
        return []
    wanted = features.parse(part.request.prefer)
    if wanted is None:
        say(part.where("prefer"), LOST, "the preference cannot be read", "Write it with & and |")
        return []
    return [
        {"weight": 100, "preference": {"matchExpressions": [_has(feature_label(n)) for n in sorted(one)]}}
        for alternative in wanted.alternatives
        for one in alternative
    ]


def _apart(part: Part) -> dict[str, Any]:
    """--exclusive and --spread-job as anti-affinity among pods that were Slurm jobs."""
    required: list[dict[str, Any]] = []
    if part.request.exclusive == "node":
        required.append(_selects({"key": JOB_LABEL, "operator": "Exists"}))
    found: dict[str, Any] = {}
    if required:
        found["requiredDuringSchedulingIgnoredDuringExecution"] = required
    if part.request.spread:
        term = {"weight": 100, "podAffinityTerm": _selects({"key": JOB_LABEL, "operator": "Exists"})}
        found["preferredDuringSchedulingIgnoredDuringExecution"] = [term]
    return found


def _selects(expression: dict[str, Any]) -> dict[str, Any]:
    return {
        "topologyKey": HOSTNAME,
        "namespaceSelector": {},
        "labelSelector": {"matchExpressions": [expression]},
    }


def topology_annotations(part: Part, levels: int, say: Say) -> dict[str, str]:
    """`--switches=1` is one leaf switch at most; more of them are a wish here."""
    count, where = part.request.switches, part.where("switches")
    if not count:
        return {}
    if not levels:
        say(where, LOST, "no topology.conf was given: switches are not known", "Give it with --conf")
        return {}
    if part.options.get("switches-wait") is not None:
        why = "a gang waits for its switches as long as it takes"
        say(where, CHANGED, why, "Use podset-preferred-topology where waiting is worse")
    if count == 1:
        return {"kueue.x-k8s.io/podset-required-topology": switch_label(0)}
    why = f"a number of switches ({count}) cannot be asked for: as few as possible are preferred"
    say(where, CHANGED, why, "")
    return {"kueue.x-k8s.io/podset-preferred-topology": switch_label(0)}
