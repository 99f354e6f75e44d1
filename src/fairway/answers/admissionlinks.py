"""What the cluster's door says: to an object that knocked, and to the pods a controller would make now."""

from __future__ import annotations

from collections.abc import Sequence

from fairway.admission.request import CONTROLLERS, Denied
from fairway.answers.explanation import ADMISSION, BLOCKED, QUEUE, Explanation, Link
from fairway.answers.naming import named, ref
from fairway.answers.templatepaths import at_path, templates_of
from fairway.cluster.errors import ApiError
from fairway.ground import Moment
from fairway.kube.objects import Obj, gk_of, labels_of, meta_of, name_of, namespace_of, spec_of, status_of
from fairway.kube.timestamps import rfc3339
from fairway.queueing.webhooks.settings import FRAMEWORKS
from fairway.scenario.component import ScenarioComponent
from fairway.traces.arrival import QUEUE_LABEL
from fairway.twin.kueue.component import Kueue
from fairway.workloads.podtemplate import pod_from_template

SUSPENDED, NOT_LOOKED_AFTER = "Suspended", "NotLookedAfter"


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


def suspension(moment: Moment, job: Obj) -> list[Link]:
    """A job that is suspended, and names no queue whose Kueue would start it, or one that looks after others."""
    path = suspended_at(job)
    if not path:
        return []
    field = path.strip("/").replace("/", ".")
    queue = labels_of(job).get(QUEUE_LABEL)
    if not queue:
        return [Link(QUEUE, BLOCKED, SUSPENDED, f"{named(job)} has {field}: true, and names no queue")]
    kueue = moment.twin.component("kueue")
    assert isinstance(kueue, Kueue)
    framework = next((n for n, gk in FRAMEWORKS.items() if gk == gk_of(job)), "")
    if framework in kueue.settings.frameworks or not framework:
        return []
    said = (
        f"{named(job)} has {field}: true, and Kueue does not look after {job.get('kind')}s here: its "
        f"integrations.frameworks lack {framework}"
    )
    return [Link(QUEUE, BLOCKED, NOT_LOOKED_AFTER, said, {"framework": framework})]


def suspended_at(job: Obj) -> str:
    """The pointer to the field that keeps it suspended; empty where it is not."""
    spec = spec_of(job)
    policy = spec.get("runPolicy")
    if isinstance(policy, dict) and policy.get("suspend"):
        return "/spec/runPolicy/suspend"
    return "/spec/suspend" if spec.get("suspend") else ""


def admission_links(moment: Moment, makers: Sequence[Obj]) -> list[Link]:
    """For each that lacks pods: what the door says to the next one it would make."""
    for maker in makers:
        wanted, has = _pods_wanted(maker), _pods_there(moment, maker)
        if wanted <= has:
            continue
        said = (refused_pod(moment, maker, at_path(maker, path)) for path in templates_of(maker))
        why = next((w for w in said if w is not None), None)
        if why is not None:
            numbers = {"pods": has, "wanted": wanted, "maker": f"{namespace_of(maker)}/{name_of(maker)}"}
            message = f"pods of {named(maker)} are refused: {why[1]}"
            return [Link(ADMISSION, BLOCKED, why[0], message, numbers)]
    return []


def _pods_wanted(maker: Obj) -> int:
    """Pods that it makes itself, not through another object."""
    if suspended_at(maker) or maker.get("kind") in ("RayJob", "JobSet", "Deployment"):
        return 0
    return pods_wanted(maker)


def pods_wanted(job: Obj) -> int:
    """As many as it is to have at once, at whatever depth; 0 of kinds that do not say."""
    kind, spec, status = job.get("kind"), spec_of(job), status_of(job)
    if kind == "Job":
        completions = number_or(spec.get("completions") or spec.get("parallelism"), 1)
        return min(
            number_or(spec.get("parallelism"), 1), max(completions - number_or(status.get("succeeded"), 0), 0)
        )
    if kind in ("Deployment", "ReplicaSet", "StatefulSet", "ReplicationController"):
        return number_or(spec.get("replicas"), 1)
    if kind in ("RayJob", "RayCluster"):
        groups = (spec.get("rayClusterSpec") or spec).get("workerGroupSpecs") or ()
        submits = kind == "RayJob" and (spec.get("submissionMode") or "K8sJobMode") == "K8sJobMode"
        return (
            1
            + submits
            + sum(number_or(g.get("replicas"), 1) * number_or(g.get("numOfHosts"), 1) for g in groups)
        )
    roles = [r for n, r in spec.items() if n.endswith("ReplicaSpecs") and isinstance(r, dict)]
    return sum(
        number_or(role.get("replicas"), 1) for r in roles for role in r.values() if isinstance(role, dict)
    )


def number_or(value: object, default: int) -> int:
    """A count that may be left out, or be none in a dump."""
    return value if isinstance(value, int) else default


def _pods_there(moment: Moment, maker: Obj) -> int:
    store = moment.store
    pods = [store.get(k) for k in store.dependents(meta_of(maker)["uid"]) if k.gk == "Pod"]
    return sum(p is not None and status_of(p).get("phase") not in ("Succeeded", "Failed") for p in pods)


def refused_pod(moment: Moment, maker: Obj, template: Obj) -> tuple[str, str] | None:
    """Reason and message with which the next pod would be refused; None where it would be let in."""
    if not isinstance(template.get("spec"), dict):
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
