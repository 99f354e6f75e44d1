"""A scheduler's decision: this pod goes to that node.

Source: pkg/registry/core/pod/storage/storage.go BindingREST (v1.36).
"""

from __future__ import annotations

from fairway.apiserver.asking import Api, Ask
from fairway.apiserver.decoding import typed_body
from fairway.apiserver.statuses import StatusError, not_found
from fairway.apiserver.wire.messages import Response, encode
from fairway.kube.conditions import set_condition
from fairway.kube.kinds import BY_GROUP_KIND
from fairway.kube.objects import Key, Obj
from fairway.kube.problem import Faults
from fairway.kube.timestamps import rfc3339


def bind_pod(api: Api, ask: Ask, body: Obj) -> Response:
    """POST pods/NAME/binding. Raises: ApiError (400, 404, 409)."""
    return _bind(api, ask, ask.info.name, body)


def bind_from_collection(api: Api, ask: Ask) -> Response:
    """POST bindings, the old spelling."""
    body = typed_body(ask, "v1", "Binding")
    return _bind(api, ask, str((body.get("metadata") or {}).get("name") or ""), body)


def _bind(api: Api, ask: Ask, name: str, body: Obj) -> Response:
    target = body.get("target") or {}
    _check_target(target)
    key = Key("Pod", ask.info.namespace, name)
    pod = api.store.get(key)
    if pod is None:
        raise not_found(BY_GROUP_KIND["Pod"], name)
    if pod["spec"].get("nodeName"):
        raise _conflict(name, f'is already assigned to node "{pod["spec"]["nodeName"]}"')
    if "deletionTimestamp" in pod["metadata"]:
        raise _conflict(name, "is being deleted, cannot be assigned to a host")
    if pod["spec"].get("schedulingGates"):
        raise _conflict(name, "has non-empty .spec.schedulingGates")
    api.cluster.touch()
    now = rfc3339(api.store.now_us)
    conditions = set_condition(
        (pod.get("status") or {}).get("conditions"), "PodScheduled", "True", now_text=now
    )
    mark = api.store.mark()
    annotations = (body.get("metadata") or {}).get("annotations")
    status = {**(pod.get("status") or {}), "conditions": conditions}
    status.pop("nominatedNodeName", None)
    api.store.bind(key, str(target["name"]), status, annotations)
    if ask.dry_run:
        api.store.rewind(mark)
    else:
        api.cluster.poke()
    answer = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    return Response(201, encode(answer), durable=0 if ask.dry_run else api.store.version)


def _check_target(target: Obj) -> None:
    """Source: ValidatePodBinding, whose errors are passed on as they are. Raises: StatusError (500)."""
    found = Faults()
    if target.get("kind") not in (None, "", "Node"):
        found.unsupported(("target", "kind"), target["kind"], ("Node", "<empty>"))
    if not target.get("name"):
        found.required(("target", "name"))
    if found:
        lines = [str(problem) for problem in found]
        raise StatusError(500, "", lines[0] if len(lines) == 1 else f"[{', '.join(lines)}]")


def _conflict(name: str, why: str) -> StatusError:
    message = f'Operation cannot be fulfilled on pods/binding "{name}": pod {name} {why}'
    return StatusError(409, "Conflict", message, {"name": name, "kind": "pods/binding"})
