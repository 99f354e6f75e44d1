"""One value spoilt: fields of wrong types, missing, doubled, nested, at their limits and far beyond."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final

WRONG: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, 1, -1, 1.5, 20, 10_000, 2**31 - 1, 2**31, 2**63 - 1, 2**63, -(2**63), 10**30),
    *(
        "",
        "x",
        " ",
        "²",
        "0",
        "-1",
        "True",
        "None",
        "a" * 63,
        "a" * 64,
        "a" * 254,
        "9" * 5000,
        "\u0000",
        "\ud7ff\U0010ffff",
    ),
    *("../..", "a/b", "a/b/c", "A", "*", "%s", "{}", "$(A)", "=1+1", "\x1b[31m", "f-0", "f-1", "f-2"),
    *([], {}, [None], [[]], [{}], {"": None}, {"a": None}, {"a": {"a": {"a": {}}}}, ["f-0", "f-0"]),
)
COUNTS: Final = (0, 1, 2, 3, -1, 20, 2**31 - 1, 2**31, 2**63 - 1, 1.5, "1", None)
QUANTITIES: Final = (
    *(
        "1",
        "0",
        "-1",
        "100m",
        "1e3",
        "1E3",
        "1.5Gi",
        "9223372036854775807",
        "9223372036854775808",
        "9" * 40,
        "9" * 30 + "Ei",
    ),
    *(
        "1e400",
        "1e-400",
        "0.0000000001n",
        "0.5",
        "+1",
        ".5",
        "1.",
        "1 Gi",
        "1gi",
        "NaN",
        "Inf",
        "1e",
        "--1",
        "1Ki1",
    ),
)
TIMES: Final = (
    *("0001-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "2026-01-05T00:00:00Z", "2262-04-12T00:00:00Z"),
    *("9999-12-31T23:59:59Z", "2026-02-30T00:00:00Z", "2026-01-05T00:00:00+14:00", "2026-01-05", "yesterday"),
    *("1677-09-21T00:12:43Z", "2026-01-05T00:00:00.000000001Z", "2016-12-31T23:59:60Z"),
)
DURATIONS: Final = ("0s", "1s", "-1s", "1h", "2562048h", "1e9h", "1x", "300d", "1h1m1s1ms", "0")
# Of what a string is called, what it may be replaced by.
_BY_NAME: Final = (
    (("time", "timestamp", "since", "at"), TIMES),
    (("duration", "after", "interval", "seconds"), DURATIONS),
    (("cpu", "memory", "storage", "pods", "quota", "limit", "capacity", "gpu"), QUANTITIES),
)
_LABELS: Final = (
    *("kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class", "kueue.x-k8s.io/pod-group-name", "app"),
    *("kueue.x-k8s.io/job-uid", "kueue.x-k8s.io/managed", "batch.kubernetes.io/job-completion-index"),
    *("kubernetes.io/hostname", "topology.kubernetes.io/zone", "karpenter.sh/nodepool", "pod-template-hash"),
    *(
        "leaderworkerset.sigs.k8s.io/name",
        "leaderworkerset.sigs.k8s.io/worker-index",
        "jobset.sigs.k8s.io/jobset-name",
    ),
    *(
        "training.kubeflow.org/job-name",
        "ray.io/cluster",
        "volcano.sh/job-name",
        "kubernetes.io/service-name",
    ),
)
_ANNOTATIONS: Final = (
    *(
        "kueue.x-k8s.io/pod-group-total-count",
        "kueue.x-k8s.io/podset-required-topology",
        "kueue.x-k8s.io/elastic-job",
    ),
    *(
        "kueue.x-k8s.io/job-min-parallelism",
        "kueue.x-k8s.io/podset-slice-size",
        "provreq.kueue.x-k8s.io/maxRunDurationSeconds",
    ),
    *(
        "fairway.dev/run-time",
        "fairway.dev/exit-code",
        "fairway.dev/gpu-milli",
        "fairway.dev/gpu-index",
        "fairway.dev/checkpoint",
    ),
    *(
        "deployment.kubernetes.io/revision",
        "scheduling.k8s.io/group-name",
        "scheduling.volcano.sh/queue-name",
    ),
    *("batch.kubernetes.io/job-tracking", "leaderworkerset.sigs.k8s.io/size", "karpenter.sh/do-not-disrupt"),
    *(
        "controller.kubernetes.io/pod-deletion-cost",
        "volume.kubernetes.io/selected-node",
        "pv.kubernetes.io/bind-completed",
    ),
)
_VALUES: Final = (
    "f-0",
    "f-1",
    "0",
    "1",
    "-1",
    "999999999999999999999",
    "x",
    "",
    "true",
    "nan",
    "60s",
    "1e9",
    "²",
    "{",
    "a" * 63,
)
_WORDS: Final = (
    *(
        "All",
        "Any",
        "Never",
        "Always",
        "Recreate",
        "OnDelete",
        "InOrder",
        "Ready",
        "Complete",
        "True",
        "False",
        "NotIn",
    ),
    *(
        "DoesNotExist",
        "Gt",
        "LowerPriority",
        "LowerOrNewerEqualPriority",
        "StrictFIFO",
        "Hold",
        "HoldAndDrain",
        "None",
    ),
    *(
        "100%",
        "0%",
        "200%",
        "-1%",
        "1Gi",
        "1m",
        "* * * * *",
        "@daily",
        "0-1",
        "1,3-2",
        "a.b",
        "kubernetes.io/hostname",
    ),
)
_FINALIZERS: Final = (
    *("example.com/never", "kubernetes", "foregroundDeletion", "orphan", "batch.kubernetes.io/job-tracking"),
    *(
        "kueue.x-k8s.io/resource-in-use",
        "kueue.x-k8s.io/managed",
        "karpenter.sh/termination",
        "kubernetes.io/pvc-protection",
    ),
)
_CONDITIONS: Final = (
    *(
        "Ready",
        "Admitted",
        "QuotaReserved",
        "Evicted",
        "Finished",
        "PodsReady",
        "Complete",
        "Failed",
        "Suspended",
        "Active",
    ),
    *(
        "Available",
        "Progressing",
        "PodScheduled",
        "DisruptionTarget",
        "Launched",
        "Initialized",
        "Provisioned",
        "Requeued",
    ),
)
_REASONS: Final = (
    "Preempted",
    "PodsReadyTimeout",
    "Deactivated",
    "Pending",
    "",
    "x y",
    "InClusterQueue",
    "Unschedulable",
)


class Mutator:
    """Spoils copies of objects. `uids`: of objects that are there, by kind and name, for owners that are real."""

    def __init__(self, draw: Random) -> None:
        self.draw = draw
        self.uids: dict[tuple[str, str, str], str] = {}

    def spoilt(self, obj: dict[str, Any], times: int = 1) -> dict[str, Any]:
        """A copy with some things wrong with it."""
        found: dict[str, Any] = copied(obj)
        for _ in range(times):
            spoil = self.draw.choices(_WAYS, _WEIGHTS)[0]
            spoil(self, found)
        return found

    def value(self, name: str = "") -> Any:
        """Something that should not be there, or might be, going by the field's name."""
        draw = self.draw
        if draw.random() < 0.5:
            lower = name.lower()
            for words, values in _BY_NAME:
                if any(word in lower for word in words):
                    return draw.choice(values)
        return copied(draw.choice(WRONG))

    def condition(self) -> Any:
        draw = self.draw
        found = {
            "type": draw.choice(_CONDITIONS),
            "status": draw.choice(("True", "False", "Unknown", "", "true")),
            "reason": draw.choice(_REASONS),
            "message": draw.choice(_VALUES),
            "lastTransitionTime": draw.choice(TIMES),
            "observedGeneration": draw.choice((0, 1, -1, 2**63 - 1)),
        }
        for name in draw.sample(sorted(found), draw.choice((0, 0, 0, 1, 2))):
            if draw.random() < 0.5:
                del found[name]
            else:
                found[name] = self.value(name)
        return found


def copied(value: Any) -> Any:
    """A copy of JSON."""
    if isinstance(value, dict):
        return {k: copied(v) for k, v in value.items()}
    return [copied(v) for v in value] if isinstance(value, list) else value


# Ways to spoil


def _somewhere(draw: Random, value: Any) -> tuple[Any, Any] | None:
    """A container within, and a key of it; deep ones are as likely as shallow ones."""
    found = None
    while value:
        if isinstance(value, dict):
            key: Any = draw.choice(sorted(value, key=str))
        elif isinstance(value, list):
            key = draw.randrange(len(value))
        else:
            return found
        if found is not None and draw.random() < 0.15:
            return found
        found, value = (value, key), value[key]
    return found


def _below(draw: Random, obj: dict[str, Any]) -> tuple[Any, Any] | None:
    """As `_somewhere`, mostly in what the object says rather than in its name."""
    part = draw.choice([k for k in obj if k not in ("apiVersion", "kind", "metadata")] or sorted(obj) or [""])
    if part not in obj:
        return None
    if draw.random() < 0.1 or not isinstance(obj[part], dict | list) or not obj[part]:
        return obj, part
    return _somewhere(draw, obj[part])


def _replace(by: Mutator, obj: dict[str, Any]) -> None:
    at = _below(by.draw, obj)
    if at is not None:
        at[0][at[1]] = by.value(str(at[1]))


def _change(by: Mutator, obj: dict[str, Any]) -> None:
    """Another value of the same type: it decodes, and somebody has to make sense of it."""
    at = _below(by.draw, obj)
    if at is None:
        return
    old = at[0][at[1]]
    if isinstance(old, str):
        at[0][at[1]] = by.draw.choice(
            [w for w in (by.value(str(at[1])), *_VALUES, *_WORDS) if isinstance(w, str)]
        )
    elif isinstance(old, bool):
        at[0][at[1]] = not old
    elif isinstance(old, int):
        at[0][at[1]] = by.draw.choice([c for c in COUNTS if isinstance(c, int)])
    else:
        at[0][at[1]] = {} if isinstance(old, dict) else []


def _remove(by: Mutator, obj: dict[str, Any]) -> None:
    at = _below(by.draw, obj)
    if at is not None:
        del at[0][at[1]]


def _double(by: Mutator, obj: dict[str, Any]) -> None:
    """A list with an item twice, or a value in a list of its own."""
    at = _below(by.draw, obj)
    if at is not None:
        value = at[0][at[1]]
        if isinstance(at[0], list):
            at[0].append(copied(value))
        else:
            at[0][at[1]] = [value, copied(value)] if not isinstance(value, list) else value + copied(value)


def _swap(by: Mutator, obj: dict[str, Any]) -> None:
    """What stands in one place, in another."""
    here, there = _below(by.draw, obj), _below(by.draw, obj)
    if here is not None and there is not None:
        there[0][there[1]] = copied(here[0][here[1]])


def _grow(by: Mutator, obj: dict[str, Any]) -> None:
    """A field that nobody knows, or one that belongs elsewhere."""
    at = _below(by.draw, obj)
    if at is not None and isinstance(at[0], dict):
        name = by.draw.choice(
            ("x", "spec", "status", "template", "name", "replicas", "labels", "metadata", "items", "")
        )
        at[0][name] = by.value(name)


def _number(by: Mutator, obj: dict[str, Any]) -> None:
    """A count at its limit, a small one, or none."""
    places = [(c, k) for c, k in _places(obj) if isinstance(c[k], int | float) and not isinstance(c[k], bool)]
    if places:
        container, key = by.draw.choice(places)
        container[key] = by.draw.choice(COUNTS)


def _places(value: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    keys: Any = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        found.append((value, key))
        found += _places(value[key])
    return found


def _meta(obj: dict[str, Any]) -> dict[str, Any]:
    meta = obj.get("metadata")
    if not isinstance(meta, dict):
        meta = obj["metadata"] = {}
    return meta


def _label(by: Mutator, obj: dict[str, Any]) -> None:
    """Labels and annotations that somebody reads, on the object or on what it makes pods of."""
    draw = by.draw
    metas = [_meta(obj), *(m for m in _metas(obj) if m is not obj.get("metadata"))]
    field, names = draw.choice((("labels", _LABELS), ("annotations", _ANNOTATIONS)))
    for _ in range(draw.choice((1, 1, 3))):
        meta = draw.choice(metas)
        held = meta.get(field)
        if not isinstance(held, dict):
            held = meta[field] = {}
        held[draw.choice(names)] = draw.choice(_VALUES)


def _metas(value: Any) -> list[dict[str, Any]]:
    """The metadata of templates within."""
    found = []
    for container, key in _places(value):
        if key == "template" and isinstance(container[key], dict):
            meta = container[key].setdefault("metadata", {})
            if isinstance(meta, dict):
                found.append(meta)
    return found


def _own(by: Mutator, obj: dict[str, Any]) -> None:
    """Owners: of any kind, in circles, itself, with UIDs that are real, old or none."""
    draw = by.draw
    owners = []
    for _ in range(draw.choice((1, 1, 2, 3))):
        if by.uids and draw.random() < 0.8:
            (api_version, kind, name), uid = draw.choice(list(by.uids.items()))
        else:
            api_version, kind, name, uid = "v1", "Pod", "f-0", draw.choice(("", "x", "0000", "a" * 300))
        ref: dict[str, Any] = {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid}
        if draw.random() < 0.5:
            ref["controller"] = draw.choice((True, True, False, None, "x"))
        if draw.random() < 0.3:
            ref["blockOwnerDeletion"] = draw.choice((True, False, 1))
        if draw.random() < 0.15:
            ref[draw.choice(sorted(ref))] = by.value()
        owners.append(ref)
    _meta(obj)["ownerReferences"] = owners if draw.random() < 0.95 else by.value()


def _finalize(by: Mutator, obj: dict[str, Any]) -> None:
    chosen = by.draw.sample(_FINALIZERS, by.draw.choice((1, 1, 2)))
    _meta(obj)["finalizers"] = chosen if by.draw.random() < 0.9 else by.value()


def _stamp(by: Mutator, obj: dict[str, Any]) -> None:
    """What the server writes: times, versions, generations, managed fields."""
    draw = by.draw
    name = draw.choice(
        (
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "generation",
            "resourceVersion",
        )
        + ("uid", "selfLink", "managedFields", "generateName", "namespace", "name", "labels", "annotations")
    )
    _meta(obj)[name] = by.value(name) if draw.random() < 0.8 else draw.choice(TIMES)


def _state(by: Mutator, obj: dict[str, Any]) -> None:
    """A status: conditions that lack what they need, counts, and nonsense."""
    draw = by.draw
    held = obj.get("status")
    status: Any = held if isinstance(held, dict) else {}
    status["conditions"] = [by.condition() for _ in range(draw.choice((0, 1, 1, 2, 4)))]
    for _ in range(draw.choice((0, 1, 2, 3))):
        name = draw.choice(_STATUS_FIELDS)
        status[name] = by.value(name)
    obj["status"] = status if draw.random() < 0.9 else by.value("status")


_STATUS_FIELDS: Final = (
    *(
        "phase",
        "replicas",
        "readyReplicas",
        "observedGeneration",
        "active",
        "succeeded",
        "failed",
        "startTime",
    ),
    *(
        "completionTime",
        "admission",
        "admissionChecks",
        "requeueState",
        "reclaimablePods",
        "capacity",
        "allocatable",
    ),
    *(
        "addresses",
        "containerStatuses",
        "initContainerStatuses",
        "hostIP",
        "podIP",
        "podIPs",
        "nominatedNodeName",
    ),
    *(
        "uncountedTerminatedPods",
        "completedIndexes",
        "state",
        "replicaStatuses",
        "replicatedJobsStatus",
        "restarts",
    ),
    *(
        "providerID",
        "nodeName",
        "used",
        "hard",
        "flavorsReservation",
        "unhealthyNodes",
        "schedulingStats",
        "allocation",
    ),
)

_RATED: Final[tuple[tuple[Callable[[Mutator, dict[str, Any]], None], int], ...]] = (
    *((_replace, 6), (_change, 12), (_remove, 7), (_double, 3), (_swap, 3), (_grow, 1), (_number, 4)),
    *((_label, 4), (_own, 3), (_finalize, 2), (_stamp, 3), (_state, 5)),
)
_WAYS: Final = tuple(way for way, _ in _RATED)
_WEIGHTS: Final = tuple(weight for _, weight in _RATED)
