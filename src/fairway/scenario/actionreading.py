"""From one entry of a timeline to its actions.

    timeline:
      - at: 1h
        comment: the morning rush
        apply: [jobs/*.yaml]
        scale: {target: deployment/prod/web, replicas: 8}
      - at: 2h
        every: 30m
        times: 4
        killPod: {namespace: serving, selector: app=web, count: 1}

Actions of one entry happen in the order of its lines. Objects are named `kind/name` (namespace `default`, or
none for cluster-scoped kinds) or `kind/namespace/name`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fairway.catalog.nodegpus import MOST
from fairway.devices.breaking import causes
from fairway.kube.kinds import Kind, find_kind, kind_of_unknown
from fairway.kube.located import Field
from fairway.kube.objects import Key
from fairway.kube.taints import Taint
from fairway.scenario import actions
from fairway.scenario.actions import Action, Choice
from fairway.scenario.fleet import read_fleet, read_taint
from fairway.scenario.model import Step
from fairway.scenario.objects import Loaded

NODE = "Node"
POD = "Pod"
_OBJECT = "expected kind/name or kind/namespace/name, such as job/train or pod/team-a/web-0"
_CHOICE_FIELDS = ("kind", "namespace", "names", "selector", "count")
PROPAGATIONS = ("Background", "Foreground", "Orphan")
PATCH_FORMS = ("merge", "strategic", "json")


@dataclass(frozen=True, slots=True)
class Context:
    """What reading a step needs: `load` turns paths and inline objects into complete objects."""

    start_us: int
    load: Callable[[Field], Loaded]


def read_step(field: Field, context: Context) -> Step | None:
    """One entry; None where it does nothing."""
    parts = field.members("at", "every", "times", *ACTIONS, required=("at",))
    at_us = parts["at"].moment(context.start_us, context.start_us) - context.start_us
    every_us = parts["every"].duration(positive=True)
    times = parts["times"].integer(1, 1, 1_000_000)
    if parts["times"].is_given and not parts["every"].is_given:
        parts["every"].reject("required with times: how long after one comes the next")
    if parts["every"].is_given and not parts["times"].is_given:
        parts["times"].reject("required with every: how often it happens in all")
    found: list[Action] = []
    for name in field.value if isinstance(field.value, dict) else ():
        if name in ACTIONS and parts[name].is_given:
            found.extend(ACTIONS[name](parts[name], context))
    if not any(parts[name].is_given for name in ACTIONS):
        field.reject(f"expected an action: one of {', '.join(ACTIONS)}")
        return None
    path = f"spec.timeline[{field.path[-1]}]"
    return Step(at_us, tuple(found), field.where(), path, every_us, times)


# Naming objects


def read_key(field: Field) -> Key | None:
    """`kind/name` or `kind/namespace/name`."""
    words = field.text().split("/")
    if len(words) not in (2, 3) or not all(words):
        field.reject(_OBJECT)
        return None
    kind = kind_of_text(words[0])
    if kind is None:
        field.reject(f"unknown kind {words[0]!r}; {_OBJECT}")
        return None
    if not kind.namespaced and len(words) == 3:
        field.reject(f"{kind.kind} has no namespace: expected {words[0]}/{words[2]}")
        return None
    namespace = (words[1] if len(words) == 3 else "default") if kind.namespaced else ""
    return Key(kind.group_kind, namespace, words[-1])


def kind_of_text(text: str) -> Kind | None:
    """A declared kind by any name; `Kind.group` for custom ones."""
    found = find_kind(text)
    if found is None and "." in text and text[:1].isupper():
        return kind_of_unknown(text)
    return found


def read_choice(field: Field, gk: str = "") -> Choice:
    """Objects by name (one, or a list), or `{kind, namespace, selector, count}`.

    With `gk` given, plain names are of that kind.
    """
    if isinstance(field.value, dict):
        return _choice_by_selector(field, gk)
    keys = []
    for item in field.one_or_many():
        key = Key(NODE, "", item.text()) if gk == NODE and "/" not in item.text() else read_key(item)
        if key is not None and gk and key.gk != gk:
            item.reject(f"expected a {gk.lower()}")
        elif key is not None:
            keys.append(key)
    if not field.one_or_many():
        field.reject(_OBJECT)
    kinds = sorted({k.gk for k in keys})
    return Choice(kinds[0] if len(kinds) == 1 else gk, tuple(keys))


def _choice_by_selector(field: Field, gk: str) -> Choice:
    names = _CHOICE_FIELDS if not gk else _CHOICE_FIELDS[1:]
    return choice_of(field.members(*names), gk, field)


def choice_of(parts: dict[str, Field], gk: str, whole: Field) -> Choice:
    """From the members `kind`, `namespace`, `names`, `selector` and `count`, as far as they are there."""
    if not gk:
        text = parts["kind"].required_text()
        kind = kind_of_text(text) if text else None
        if text and kind is None:
            parts["kind"].reject("expected a kind, such as Pod or deployments.apps")
        gk = kind.group_kind if kind else POD
    names = parts["names"].texts()
    if not names and not parts["selector"].is_given and not parts["count"].is_given and gk != NODE:
        whole.reject("expected names, a selector or a count: this would take all of them")
    namespace = parts["namespace"].text() or None
    scope = "" if gk == NODE else namespace or "default"
    keys = tuple(Key(gk, scope, name) for name in names)
    most = parts["count"].integer(0, 1, 1_000_000)
    return Choice(gk, keys, namespace, parts["selector"].selector(), most)


def _targeted(field: Field, *others: str, required: tuple[str, ...] = ()) -> dict[str, Field]:
    return field.members("target", *others, required=("target", *required))


def _nodes(field: Field, *others: str) -> tuple[Choice, dict[str, Field]]:
    """Nodes by name, or a mapping that names them (`nodes`) or selects them, with other members."""
    nothing = {name: Field(field.reading, (*field.path, name), None) for name in others}
    if not isinstance(field.value, dict):
        return read_choice(field, NODE), nothing
    parts = field.members("nodes", "selector", "count", *others)
    if parts["nodes"].is_given:
        return read_choice(parts["nodes"], NODE), parts
    absent = Field(field.reading, field.path, None)
    if not parts["selector"].is_given:
        parts["nodes"].reject("required: node names, or a selector")
    return choice_of({"namespace": absent, "names": absent, **parts}, NODE, field), parts


def _pods(field: Field, *others: str) -> tuple[Choice, dict[str, Field]]:
    nothing = {name: Field(field.reading, (*field.path, name), None) for name in others}
    if not isinstance(field.value, dict):
        return read_choice(field, POD), nothing
    parts = field.members("namespace", "names", "selector", "count", *others)
    return choice_of(parts, POD, field), parts


# One reader per action


def _apply(field: Field, context: Context) -> list[Action]:
    loaded = [context.load(item) for item in field.one_or_many()]
    objects = tuple(obj for part in loaded for obj in part.objects)
    return [actions.Apply(objects, tuple(origin for part in loaded for origin in part.origins))]


def _delete(field: Field, _context: Context) -> list[Action]:
    if not isinstance(field.value, dict):
        return [actions.Delete(read_choice(field))]
    if "target" in field.value:
        parts = _targeted(field, "gracePeriodSeconds", "propagationPolicy")
        chosen = read_choice(parts["target"])
    else:
        parts = field.members(*_CHOICE_FIELDS, "gracePeriodSeconds", "propagationPolicy")
        chosen = choice_of(parts, "", field)
    grace = parts["gracePeriodSeconds"]
    propagation = parts["propagationPolicy"].choice(PROPAGATIONS, PROPAGATIONS[0])
    return [actions.Delete(chosen, grace.integer() if grace.is_given else None, propagation)]


def _patch(field: Field, _context: Context) -> list[Action]:
    out: list[Action] = []
    for item in field.one_or_many():
        parts = _targeted(item, "type", "patch", required=("patch",))
        form = parts["type"].choice(PATCH_FORMS, "merge")
        patch = parts["patch"]
        wanted = list if form == "json" else dict
        if patch.is_given and not isinstance(patch.value, wanted):
            patch.reject("expected a list of operations" if form == "json" else "expected a mapping")
            continue
        if form == "json":
            for operation in patch.items():
                operation.members("op", "path", "value", "from", required=("op", "path"))
        out.append(actions.Patch(read_choice(parts["target"]), patch.value, form))
    return out


def _scale(field: Field, _context: Context) -> list[Action]:
    out: list[Action] = []
    for item in field.one_or_many():
        parts = _targeted(item, "replicas", required=("replicas",))
        chosen = read_choice(parts["target"])
        for key in chosen.keys:
            if key.gk not in SCALABLE:
                parts["target"].reject(f"expected something with replicas: {', '.join(SCALABLE)}")
        out.append(actions.Scale(chosen, parts["replicas"].integer(0, 0, 1_000_000)))
    return out


SCALABLE = ("Deployment.apps", "ReplicaSet.apps", "StatefulSet.apps", "ReplicationController", "Job.batch")


def _suspend(on: bool) -> Callable[[Field, Context], list[Action]]:
    return lambda field, _context: [actions.Suspend(read_choice(field), on)]


def _cordon(on: bool) -> Callable[[Field, Context], list[Action]]:
    return lambda field, _context: [actions.Cordon(_nodes(field)[0], on)]


def _drain(field: Field, _context: Context) -> list[Action]:
    nodes, parts = _nodes(field, "gracePeriodSeconds", "disableEviction", "timeout")
    grace = parts["gracePeriodSeconds"]
    grace_s = grace.integer() if grace.is_given else None
    return [actions.Drain(nodes, grace_s, parts["disableEviction"].flag(), parts["timeout"].duration())]


def _fail_node(field: Field, _context: Context) -> list[Action]:
    nodes, parts = _nodes(field, "recoverAfter")
    return [actions.FailNode(nodes, parts["recoverAfter"].duration(positive=True))]


def _break_gpu(field: Field, _context: Context) -> list[Action]:
    nodes, parts = _nodes(field, "gpu", "cause", "repairAfter", "drain")
    known = tuple(causes())
    if not parts["cause"].is_given:
        parts["cause"].reject(f"required: one of {', '.join(known)}")
    return [
        actions.BreakGpu(
            nodes,
            parts["gpu"].integer(0, 0, MOST - 1),
            parts["cause"].choice(known, known[0]),
            parts["repairAfter"].duration(positive=True),
            parts["drain"].flag(),
        )
    ]


def _recover_node(field: Field, _context: Context) -> list[Action]:
    return [actions.RecoverNode(_nodes(field)[0])]


def _remove_node(field: Field, _context: Context) -> list[Action]:
    return [actions.RemoveNode(_nodes(field)[0])]


def _add_nodes(field: Field, _context: Context) -> list[Action]:
    return [actions.Apply(tuple(node for item in field.one_or_many() for node in read_fleet(item)))]


def _set_quota(field: Field, _context: Context) -> list[Action]:
    out: list[Action] = []
    for item in field.one_or_many():
        parts = item.members("namespace", "name", "hard", required=("namespace", "name", "hard"))
        key = Key("ResourceQuota", parts["namespace"].text(), parts["name"].text())
        out.append(actions.SetQuota(key, tuple(parts["hard"].quantities().items())))
    return out


def _taint(field: Field, _context: Context) -> list[Action]:
    out: list[Action] = []
    for item in field.one_or_many():
        nodes, parts = _nodes(item, "taints")
        if not parts["taints"].is_given:
            parts["taints"].reject("required: key=value:Effect to set, key:Effect- or key- to remove")
        added: list[Taint] = []
        removed: list[tuple[str, str]] = []
        for taint in parts["taints"].one_or_many():
            if isinstance(taint.value, str) and taint.value.endswith("-"):
                key, _, effect = taint.value[:-1].partition(":")
                removed.append((key.partition("=")[0], effect))
            elif (found := read_taint(taint)) is not None:
                added.append(found)
        out.append(actions.SetTaints(nodes, tuple(added), tuple(removed)))
    return out


def _label(field: Field, _context: Context) -> list[Action]:
    out: list[Action] = []
    for item in field.one_or_many():
        parts = _targeted(item, "labels", required=("labels",))
        gone: list[tuple[str, str | None]] = [
            (n, None) for n, f in parts["labels"].entries() if not f.is_given
        ]
        labels = [*parts["labels"].words().items(), *gone]
        out.append(actions.SetLabels(read_choice(parts["target"]), tuple(labels)))
    return out


def _evict(field: Field, _context: Context) -> list[Action]:
    pods, parts = _pods(field, "gracePeriodSeconds")
    grace = parts["gracePeriodSeconds"]
    return [actions.Evict(pods, grace.integer() if grace.is_given else None)]


def _kill_pod(field: Field, _context: Context) -> list[Action]:
    pods, parts = _pods(field, "exitCode")
    return [actions.KillPod(pods, parts["exitCode"].integer(137, 0, 255))]


def _comment(field: Field, _context: Context) -> list[Action]:
    return [actions.Comment(field.text())]


Reader = Callable[[Field, Context], list[Any]]
ACTIONS: dict[str, Reader] = {
    "apply": _apply,
    "delete": _delete,
    "patch": _patch,
    "scale": _scale,
    "suspend": _suspend(True),
    "resume": _suspend(False),
    "cordon": _cordon(True),
    "uncordon": _cordon(False),
    "drain": _drain,
    "failNode": _fail_node,
    "breakGPU": _break_gpu,
    "recoverNode": _recover_node,
    "addNodes": _add_nodes,
    "removeNode": _remove_node,
    "setQuota": _set_quota,
    "taint": _taint,
    "label": _label,
    "evict": _evict,
    "killPod": _kill_pod,
    "comment": _comment,
}
"""Every action of a timeline, in the order of the documentation."""
