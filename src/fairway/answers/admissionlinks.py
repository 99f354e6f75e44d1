"""What the cluster's door says: to an object that knocked, and to the pods a controller would make now."""

from __future__ import annotations

from collections.abc import Sequence

from fairway.admission.request import CONTROLLERS, Denied
from fairway.answers.explanation import ADMISSION, BLOCKED, QUEUE, Explanation, Link
from fairway.answers.naming import named, ref
from fairway.cluster.errors import ApiError
from fairway.ground import Moment
from fairway.kube.objects import Obj, meta_of, name_of, namespace_of, spec_of, status_of
from fairway.kube.timestamps import rfc3339
from fairway.scenario.component import ScenarioComponent
from fairway.workloads.podtemplate import pod_from_template

_TEMPLATED = ("Job", "ReplicaSet", "StatefulSet", "ReplicationController")


def refusal_of(moment: Moment, text: str, namespace: str | None) -> Explanation | None:
    """Of an object that a scenario wanted and the cluster did not let in."""
    player = moment.twin.host.parts.get("scenario")
    if not isinstance(player, ScenarioComponent):
        return None
    name = text.rpartition("/")[2]
    for refusal in reversed(player.refusals):
        key = refusal.key
        kinds = (
            ref(key).rpartition("/")[0],
            ref(key).partition(".")[0],
            key.gk.partition(".")[0].lower(),
            "",
        )
        asked = text.rpartition("/")[0].rpartition("/")[2]
        if key.name == name and (namespace is None or key.namespace == namespace) and asked.lower() in kinds:
            link = Link(ADMISSION, BLOCKED, refusal.reason, refusal.message, {"where": refusal.where})
            who = f"{key.gk.partition('.')[0]} {key.namespace}/{key.name}"
            sentence = f"{who} was refused at admission: {refusal.message}"
            written = f"{key.namespace}/{ref(key)}" if key.namespace else ref(key)
            return Explanation(written, "Refused", rfc3339(refusal.at_us), sentence, (link,))
    return None


def suspension(job: Obj) -> list[Link]:
    """A job that is suspended, and names no queue whose Kueue would start it."""
    if not spec_of(job).get("suspend"):
        return []
    return [Link(QUEUE, BLOCKED, "Suspended", f"{named(job)} has spec.suspend: true, and names no queue")]


def admission_links(moment: Moment, makers: Sequence[Obj]) -> list[Link]:
    """For each that lacks pods: what the door says to the next one it would make."""
    for maker in makers:
        wanted, has = _pods_wanted(maker), _pods_there(moment, maker)
        if wanted <= has:
            continue
        why = refused_pod(moment, maker)
        if why is not None:
            numbers = {"pods": has, "wanted": wanted, "maker": f"{namespace_of(maker)}/{name_of(maker)}"}
            said = f"pods of {named(maker)} are refused: {why[1]}"
            return [Link(ADMISSION, BLOCKED, why[0], said, numbers)]
    return []


def _pods_wanted(maker: Obj) -> int:
    spec, status = spec_of(maker), status_of(maker)
    if maker.get("kind") == "Job":
        if spec.get("suspend"):
            return 0
        left = int(spec.get("completions") or spec.get("parallelism") or 1) - int(
            status.get("succeeded") or 0
        )
        return min(int(spec.get("parallelism", 1)), max(left, 0))
    if maker.get("kind") in _TEMPLATED:
        return int(spec.get("replicas", 1))
    return 0


def _pods_there(moment: Moment, maker: Obj) -> int:
    store = moment.store
    pods = [store.get(k) for k in store.dependents(meta_of(maker)["uid"]) if k.gk == "Pod"]
    return sum(p is not None and status_of(p).get("phase") not in ("Succeeded", "Failed") for p in pods)


def refused_pod(moment: Moment, maker: Obj) -> tuple[str, str] | None:
    """Reason and message with which the next pod would be refused; None where it would be let in."""
    template = spec_of(maker).get("template")
    if not isinstance(template, dict):
        return None
    pod = pod_from_template(
        template,
        namespace=namespace_of(maker),
        owner_references=[],
        name=f"{name_of(maker)}-asked",
    )
    try:
        outcome = moment.twin.host.door.enter(pod, user=CONTROLLERS)
    except ApiError as refused:
        return refused.reason, refused.message
    if isinstance(outcome, Denied):
        error = outcome.error()
        return error.reason, error.message
    return None
