"""Which module answers for which subresource?"""

from __future__ import annotations

from functools import partial

from fairway.admission.request import CONNECT, CREATE
from fairway.apiserver import door
from fairway.apiserver.asking import Api, Ask
from fairway.apiserver.decoding import typed_body
from fairway.apiserver.statuses import method_not_allowed, page_not_found
from fairway.apiserver.verbs import reading, writing
from fairway.apiserver.wire.messages import Answer
from fairway.kube.integers import natural
from fairway.kube.objects import Obj

# Parts of the object itself: read and written as the object is.
_PARTS = ("status", "approval", "ephemeralcontainers", "resize", "finalize")


def answer(api: Api, ask: Ask) -> Answer:
    """Raises: ApiError."""
    name = ask.info.subresource
    ask.subresource = ask.resource.subresource(name)
    if ask.subresource is None:
        raise page_not_found()
    verb = ask.info.verb
    if verb not in ask.subresource.verbs:
        raise method_not_allowed(None)
    if name == "scale":
        from fairway.apiserver.subresources import scale

        return scale.answer(api, ask)
    if name in _PARTS:
        if verb == "get":
            return reading.get(api, ask)
        write = writing.update if verb == "update" else writing.patch
        return door.run(api, write(api, ask))
    if name == "eviction":
        from fairway.apiserver.subresources import eviction

        return door.run(api, eviction.evict_pod(api, ask))
    if name == "binding":
        from fairway.apiserver.subresources import binding

        body = typed_body(ask, "v1", "Binding")
        return door.run(api, door.asked(api, ask, CREATE, body, partial(binding.bind_pod, api, ask)))
    if name == "token":
        from fairway.apiserver.subresources import tokens

        body = typed_body(ask, "authentication.k8s.io/v1", "TokenRequest")
        return door.run(api, door.asked(api, ask, CREATE, body, partial(tokens.create, api, ask)))
    if name == "proxy":
        from fairway.apiserver.subresources import nodeproxy, podproxy

        is_of_node = ask.resource.kind.kind == "Node"
        return nodeproxy.answer(api, ask) if is_of_node else podproxy.answer(api, ask)
    if name == "log":
        from fairway.apiserver.subresources.logs import answer as logged

        return logged(api, ask)
    from fairway.apiserver.subresources.execution import answer as executed

    return door.run(api, door.asked(api, ask, CONNECT, _options(ask), lambda _options: executed(api, ask)))


def _options(ask: Ask) -> Obj:
    """PodExecOptions and the like, as admission sees a connection that is asked for."""
    assert ask.subresource is not None
    query = ask.request.query
    options: Obj = {"kind": ask.subresource.kind, "apiVersion": ask.subresource.api_version}
    for flag in ("stdin", "stdout", "stderr", "tty"):
        if ask.request.flag(flag):
            options[flag] = True
    if query.get("container"):
        options["container"] = query["container"][0]
    if query.get("command"):
        options["command"] = query["command"]
    if query.get("ports"):
        options["ports"] = [n for text in query["ports"] if (n := natural(text)) is not None]
    return options
