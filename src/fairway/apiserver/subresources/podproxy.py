"""`pods/NAME:PORT/proxy/PATH` and `services/NAME:PORT/proxy/PATH`: what answers on a port, by way of the API server.

Source: pkg/registry/core/pod/strategy.go ResourceLocation, pkg/registry/core/service/storage/storage.go, apimachinery
util/proxy (v1.36): words of refusals.
"""

from __future__ import annotations

from fairway.apiserver.asking import Api, Ask
from fairway.apiserver.controlplanepods import is_hosted
from fairway.apiserver.statuses import StatusError, bad_request, not_found
from fairway.apiserver.wire.messages import Response
from fairway.kube.integers import natural
from fairway.kube.objects import Key, Obj, name_of, namespace_of, spec_of, status_of

_TEXT = "text/plain; charset=utf-8"


def answer(api: Api, ask: Ask) -> Response:
    """Raises: StatusError (400, 404, 503)."""
    name, port = _name_and_port(ask.info.name)
    if ask.resource.kind.kind == "Service":
        pod, number = _behind(api, ask, name, port)
    else:
        found = api.store.get(ask.key._replace(name=name))
        if found is None:
            raise not_found(ask.resource.kind, name)
        pod, number = found, _port_of_pod(found, port)
    page = api.exporters.page_of_pod(pod, f"/{ask.info.rest}")
    if page is not None and status_of(pod).get("phase") == "Running":
        return Response(page.status, page.body, page.content_type)
    if status_of(pod).get("phase") != "Running" or is_hosted(pod) or not _declares(pod, number):
        raise _unreachable(pod, number)
    said = f"port {number} of pod {namespace_of(pod)}/{name_of(pod)}, simulated by Fairway\n"
    return Response(200, said.encode(), _TEXT)


def _name_and_port(text: str) -> tuple[str, str]:
    """`NAME`, `NAME:PORT`, `https:NAME:PORT`."""
    scheme, _, rest = text.partition(":")
    if scheme in ("http", "https") and rest:
        text = rest
    name, _, port = text.partition(":")
    return name, port


def _port_of_pod(pod: Obj, port: str) -> int:
    """The port that is named, or the first that a container declares."""
    if port:
        number = natural(port)
        if number is None:
            raise bad_request(f"invalid pod request {name_of(pod) + ':' + port!r}")
        return number
    for container in spec_of(pod).get("containers") or ():
        for declared in container.get("ports") or ():
            return int(declared["containerPort"])
    return 80


def _behind(api: Api, ask: Ask, name: str, port: str) -> tuple[Obj, int]:
    """A ready pod of a service, and the port of it that the service's port leads to."""
    service = api.store.get(ask.key._replace(name=name))
    if service is None:
        raise not_found(ask.resource.kind, name)
    ports = list(spec_of(service).get("ports") or ())
    wanted = next((p for p in ports if port in (p.get("name"), str(p.get("port")))), None)
    if wanted is None and not port and len(ports) == 1:
        wanted = ports[0]
    ends = api.store.get(Key("Endpoints", namespace_of(service), name)) or {}
    for subset in ends.get("subsets") or ():
        numbers = [
            p["port"] for p in subset.get("ports") or () if wanted and p.get("name") == wanted.get("name")
        ]
        for address in subset.get("addresses") or ():
            target = address.get("targetRef") or {}
            pod = api.store.get(Key("Pod", namespace_of(service), str(target.get("name"))))
            if pod is not None and numbers:
                return pod, int(numbers[0])
    words = f'no endpoints available for service "{ask.info.name}"'
    raise StatusError(503, "ServiceUnavailable", words, {})


def _declares(pod: Obj, port: int) -> bool:
    """Whether a container says that it listens there."""
    declared = (p for c in spec_of(pod).get("containers") or () for p in c.get("ports") or ())
    return any(p.get("containerPort") == port and p.get("protocol", "TCP") == "TCP" for p in declared)


def _unreachable(pod: Obj, port: int) -> StatusError:
    at = status_of(pod).get("podIP") or ""
    words = f"error trying to reach service: dial tcp {at}:{port}: connect: connection refused"
    return StatusError(503, "ServiceUnavailable", words, {})
