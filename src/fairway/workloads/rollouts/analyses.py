"""Which AnalysisRuns should there be: one beside the whole update, one for an analysis step; and what do they say?

Source: rollout/analysis.go, utils/analysis/helpers.go (NewAnalysisRunFromTemplates).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from fairway.cluster.actions import Action, Create, Patch, View
from fairway.kube.fieldpath import Path
from fairway.kube.objects import Key, Obj, labels_of
from fairway.workloads.podtemplate import owned_by
from fairway.workloads.rollouts.facts import HASH, KIND, REVISION, Facts
from fairway.workloads.rollouts.measuring import DONE, ERROR, FAILED, INCONCLUSIVE

RUN: Final = "AnalysisRun.argoproj.io"
TYPE: Final = "rollout-type"
STEP_INDEX: Final = "step-index"
_TEMPLATES: Final = {False: "AnalysisTemplate.argoproj.io", True: "ClusterAnalysisTemplate.argoproj.io"}


class Analyses(NamedTuple):
    """`abort`: why the update must be given up; `is_unsure`: a run could not say, people must."""

    actions: list[Action]
    background: Obj | None = None
    step: Obj | None = None
    abort: str = ""
    is_unsure: bool = False


def analyses(view: View, facts: Facts) -> Analyses:
    """O(templates). Raises: ValueError: a template or an argument is missing."""
    runs = _runs(view, facts)
    if facts.is_aborted or facts.is_promoted or facts.stable is None or facts.new is None:
        return Analyses(_ended(runs.values()))
    found = Analyses([])
    wanted: set[str] = set()
    background = facts.canary.get("analysis") or {}
    if background.get("templates") and facts.index >= int(background.get("startingStep") or 0):
        name = _name(facts)
        wanted.add(name)
        found = _judged(view, facts, runs, found, name, background, "Background", "Background analysis")
    given = facts.step.get("analysis") or {}
    if given.get("templates") and not facts.status.get("pauseConditions"):
        name = f"{_name(facts)}-{facts.index}"
        wanted.add(name)
        found = _judged(view, facts, runs, found, name, given, "Step", "Step-based analysis")
    others = [run for name, run in runs.items() if name not in wanted]
    return found._replace(actions=[*found.actions, *_ended(others)])


def _name(facts: Facts) -> str:
    return f"{facts.rollout['metadata']['name']}-{facts.hash}-{facts.revision}"


def _runs(view: View, facts: Facts) -> dict[str, Obj]:
    found = {}
    for key in view.dependents(facts.rollout["metadata"]["uid"]):
        run = view.get(key) if key.gk == RUN else None
        if run is not None:
            found[key.name] = run
    return found


def _ended(runs: Any) -> list[Action]:
    """Those still running are told to stop."""
    return [
        Patch(Key(RUN, run["metadata"]["namespace"], run["metadata"]["name"]), {"spec": {"terminate": True}})
        for run in runs
        if (run.get("status") or {}).get("phase") not in DONE and not run["spec"].get("terminate")
    ]


def _judged(
    view: View,
    facts: Facts,
    runs: dict[str, Obj],
    found: Analyses,
    name: str,
    given: dict[str, Any],
    type_: str,
    said: str,
) -> Analyses:
    run = runs.get(name)
    if run is None:
        made = Create(_made(view, facts, name, given, type_))
        return found._replace(actions=[*found.actions, made])
    status = run.get("status") or {}
    found = found._replace(step=run) if type_ == "Step" else found._replace(background=run)
    if status.get("phase") == INCONCLUSIVE:
        return found._replace(is_unsure=True)
    if status.get("phase") in (FAILED, ERROR):
        why = f"{said} phase error/failed"
        return found._replace(abort=f"{why}: {status['message']}" if status.get("message") else why)
    return found


def _made(view: View, facts: Facts, name: str, given: dict[str, Any], type_: str) -> Obj:
    rollout = facts.rollout
    namespace = rollout["metadata"]["namespace"]
    metrics: list[dict[str, Any]] = []
    arguments: dict[str, dict[str, Any]] = {}
    for one in given["templates"]:
        of_cluster = bool(one.get("clusterScope"))
        key = Key(_TEMPLATES[of_cluster], "" if of_cluster else namespace, one.get("templateName", ""))
        template = view.get(key)
        if template is None:
            kind = key.gk.partition(".")[0]
            raise ValueError(f'{kind} "{key.name}" not found')
        metrics += template["spec"].get("metrics") or []
        arguments |= {arg["name"]: dict(arg) for arg in template["spec"].get("args") or ()}
    for arg in given.get("args") or ():
        arguments[arg["name"]] = {"name": arg["name"], "value": _argument(facts, arg)}
    missing = [n for n, arg in arguments.items() if arg.get("value") is None and not arg.get("valueFrom")]
    if missing:
        raise ValueError(f"args.{missing[0]} was not resolved")
    labels = {
        **((rollout["spec"].get("selector") or {}).get("matchLabels") or {}),
        HASH: facts.hash,
        TYPE: type_,
    }
    if type_ == "Step":
        labels[STEP_INDEX] = str(facts.index)
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AnalysisRun",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": labels,
            "annotations": {REVISION: str(facts.revision)},
            "ownerReferences": owned_by(rollout, rollout["apiVersion"], KIND),
        },
        "spec": {"metrics": metrics, "args": list(arguments.values())},
    }


def _argument(facts: Facts, arg: dict[str, Any]) -> str | None:
    if arg.get("value") is not None:
        return str(arg["value"])
    source = arg.get("valueFrom") or {}
    which = source.get("podTemplateHashValue")
    if which:
        target = facts.new if which == "Latest" else facts.stable
        return labels_of(target).get(HASH) if target is not None else None
    path = (source.get("fieldRef") or {}).get("fieldPath")
    found: Any = facts.rollout
    for step in _steps(path or ""):
        found = found.get(step) if isinstance(found, dict) else None
    return None if found is None or not path else str(found)


def _steps(path: str) -> Path:
    """Of `metadata.labels['app']`."""
    head, bracket, rest = path.partition("[")
    steps: list[str] = [step for step in head.split(".") if step]
    if bracket:
        steps.append(rest.rstrip("]").strip("'\""))
    return tuple(steps)
