"""`kubectl exec`, `attach` and `port-forward`: which kubelet, which protocol, and may they?

The kubelet of the pod's node answers (`kubelets`); how the bytes travel is `streaming`'s business.

Source: pkg/registry/core/pod/rest/subresources.go, pkg/registry/core/pod/strategy.go; kubelet server.go (v1.36).
"""

from __future__ import annotations

from fairway.apiserver.asking import Api, Ask, attributes
from fairway.apiserver.kubelets.interface import CannotConnect, Invocation, Kubelet, Peer, Port, Process
from fairway.apiserver.kubelets.simulated import sandbox_of
from fairway.apiserver.statuses import bad_request, not_found
from fairway.apiserver.streaming import portforward, remotecommand
from fairway.apiserver.streaming.remotecommand import ChannelSession, StreamSession
from fairway.apiserver.streaming.upgrades import (
    SpdyUpgrade,
    is_websocket,
    spdy_in_websocket,
    spdy_protocol,
    websocket_protocol,
)
from fairway.apiserver.subresources.containers import container_named
from fairway.apiserver.wire.messages import Response, Stream
from fairway.apiserver.wire.websocket import offered
from fairway.kube.objects import Obj


def answer(api: Api, ask: Ask) -> Response | Stream:
    """Raises: StatusError (400, 403, 404); Refused (403)."""
    _authorize_create(api, ask)
    pod = api.store.get(ask.key)
    if pod is None:
        raise not_found(ask.resource.kind, ask.info.name)
    if ask.info.subresource == "portforward":
        return _forwarded(api, ask, pod)
    name = container_named(pod, ask.request.option("container"))
    what = _invocation(ask)
    kubelet = _kubelet(api, pod)
    if is_websocket(ask.request):
        return _over_channels(ask, kubelet, pod, name, what)
    session = StreamSession(what, spdy_protocol(ask.request, remotecommand.STREAM_PROTOCOLS))
    try:
        session.process = _start(ask, kubelet, pod, name, what, session)
    except CannotConnect as why:
        session.give_up()
        return _kubelet_error(str(why))
    return session.upgrade


def _authorize_create(api: Api, ask: Ask) -> None:
    """A WebSocket is a GET, which readers may: what it opens takes the right to create.

    Source: feature gate AuthorizePodWebsocketUpgradeCreatePermission (on by default since v1.35).
    """
    if ask.info.verb != "create":
        api.authentication.require(attributes(ask.user, ask.info, "create"))


def _kubelet(api: Api, pod: Obj) -> Kubelet:
    """Raises: StatusError (400)."""
    node = pod["spec"].get("nodeName") or ""
    if not node:
        raise bad_request(f"pod {pod['metadata']['name']} does not have a host assigned")
    return api.kubelets.of(node)


def _invocation(ask: Ask) -> Invocation:
    """Raises: StatusError (400)."""
    request = ask.request
    argv = tuple(request.query.get("command", ()))
    if ask.info.subresource == "exec" and not argv:
        raise bad_request("you must specify at least 1 command for the container")
    tty = request.flag("tty")
    stdin, stdout = request.flag("stdin"), request.flag("stdout")
    stderr = request.flag("stderr") and not tty
    if not (stdin or stdout or stderr):
        raise bad_request("you must specify at least 1 of stdin, stdout, stderr")
    return Invocation(argv, stdin, stdout, stderr, tty)


def _start(
    ask: Ask, kubelet: Kubelet, pod: Obj, name: str, what: Invocation, session: ChannelSession | StreamSession
) -> Process:
    prepare = kubelet.exec if ask.info.subresource == "exec" else kubelet.attach
    return prepare(pod, name, what, session)


def _over_channels(ask: Ask, kubelet: Kubelet, pod: Obj, name: str, what: Invocation) -> Response | Stream:
    """With v5 the API server has upgraded before it asks the kubelet: a refusal comes as the error channel's Status."""
    protocol = websocket_protocol(ask.request, remotecommand.CHANNEL_PROTOCOLS)
    session = ChannelSession(ask.request, protocol)
    try:
        session.process = _start(ask, kubelet, pod, name, what, session)
    except CannotConnect as why:
        if protocol != remotecommand.V5:
            return _kubelet_error(str(why))
        return ChannelSession(ask.request, protocol, refusal=str(why)).socket
    return session.socket


def _forwarded(api: Api, ask: Ask, pod: Obj) -> Response | Stream:
    request, kubelet, sandbox = ask.request, _kubelet(api, pod), sandbox_of(pod)

    def connect(port: int, peer: Peer) -> Port:
        now = api.store.get(ask.key)
        if now is None or now["metadata"]["uid"] != pod["metadata"]["uid"]:
            raise CannotConnect("pod does not exist")
        return kubelet.connect(now, port, peer)

    meta = pod["metadata"]
    if (pod.get("status") or {}).get("phase") != "Running":
        return _kubelet_error(f'pod not found ("{meta["name"]}_{meta["namespace"]}")')
    if not is_websocket(request):
        protocol = spdy_protocol(request, (portforward.STREAM_PROTOCOL,))
        return SpdyUpgrade(portforward.ForwardStreams(connect, sandbox).session, protocol)
    if portforward.TUNNELLED in offered(request):
        streams = portforward.ForwardStreams(connect, sandbox)
        return spdy_in_websocket(request, streams.session, portforward.TUNNELLED)
    protocol = websocket_protocol(request, portforward.CHANNEL_PROTOCOLS)
    ports = portforward.ports_asked(request)
    return portforward.ForwardChannels(request, protocol, ports, connect, sandbox).socket


def _kubelet_error(why: str) -> Response:
    """What a kubelet answers when it cannot connect; the API server passes it on as it is."""
    return Response(500, f"{why}\n".encode(), "text/plain; charset=utf-8")
