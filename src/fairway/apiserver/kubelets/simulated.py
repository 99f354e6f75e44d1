"""The kubelet of simulated nodes, as the API server meets it.

What runs is in the twin's `kubelet` component and in the pods' statuses; here is what it answers when somebody
connects. Files of containers are kept as long as their run lasts, in this process only.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from fairway.apiserver.kubelets.containerlogs import SimulatedLog, status_of
from fairway.apiserver.kubelets.files import Files
from fairway.apiserver.kubelets.interface import (
    CannotConnect,
    Invocation,
    LogReader,
    Peer,
    Port,
    Process,
    Remote,
)
from fairway.apiserver.kubelets.modelserver import Engine, engine_of, is_model_server, port_of
from fairway.apiserver.kubelets.place import Place
from fairway.apiserver.kubelets.ports import ModelServerPort, SimulatedPort
from fairway.apiserver.kubelets.processes import CommandProcess, ShellProcess, attached
from fairway.apiserver.kubelets.running import SHELLS
from fairway.cluster.store import Store
from fairway.errors import UserError
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import SECOND_US, parse_rfc3339
from fairway.twin.kubelet.component import Kubelet as SimulatedNodes
from fairway.twin.kubelet.states import RUNNING
from fairway.twin.kubelet.usage import NodeUse, node_use

# Containers whose files are kept, and their bytes in all; beyond that, those used longest ago are forgotten.
_MAX_CONTAINERS = 256
_MAX_FILE_BYTES = 256 * 1024 * 1024

_Run = tuple[str, str, str]
"""A container's run: its pod's UID, its name, and when it started."""


class SimulatedKubelet:
    """Implements `interface.Kubelet`. `nodes` gives the twin's component once it is loaded."""

    def __init__(
        self,
        store: Store,
        nodes: Callable[[], SimulatedNodes | None],
        pages: Callable[[Obj, str], bytes | None] = lambda _pod, _path: None,
    ) -> None:
        """`pages`: what an exporter's pod answers; None for another pod."""
        self._store = store
        self._pages = pages
        self._nodes = nodes
        self._files: dict[_Run, Files] = {}
        self._engines: dict[_Run, Engine] = {}

    def log(self, pod: Obj, container: str, *, previous: bool) -> LogReader:
        return SimulatedLog(self._store, pod, container, previous=previous)

    def exec(self, pod: Obj, container: str, what: Invocation, remote: Remote) -> Process:
        place = self._place(pod, container)
        files = self._files_of(pod, container)
        is_shell = what.stdin and len(what.argv) == 1 and what.argv[0].rpartition("/")[2] in SHELLS
        return (ShellProcess if is_shell else CommandProcess)(place, files, what, remote)

    def attach(self, pod: Obj, container: str, what: Invocation, remote: Remote) -> Process:
        return attached(self._place(pod, container), what, remote)

    def connect(self, pod: Obj, port: int, peer: Peer) -> Port:
        meta = pod["metadata"]
        name = self._listening(pod, port)
        if name is None:
            raise CannotConnect(_refused(sandbox_of(pod), port))
        said = (
            f"port {port} of container {name} in pod {meta['namespace']}/{meta['name']}, simulated by Fairway"
        )
        container: Obj = next((c for c in pod["spec"]["containers"] if c["name"] == name), {})
        if is_model_server(container) and port == port_of(container):
            try:
                return ModelServerPort(peer, said, self._engine(pod, container))
            except UserError as wrong:
                raise CannotConnect(str(wrong)) from wrong
        return SimulatedPort(peer, said, partial(self._pages, pod))

    def _engine(self, pod: Obj, container: Obj) -> Engine:
        """Of the container's present run; those of others are forgotten."""
        started = (status_of(pod, container["name"]).get("state") or {}).get("running") or {}
        run = (pod["metadata"]["uid"], container["name"], started.get("startedAt") or "")
        if run not in self._engines:
            self._engines = {other: e for other, e in self._engines.items() if self._goes_on(other)}
            node = self._store.get(Key("Node", "", pod["spec"].get("nodeName") or ""))
            self._engines[run] = engine_of(container, node, pod)
        return self._engines[run]

    def use(self, node: str, at_us: int) -> NodeUse | None:
        nodes = self._nodes()
        found = None if nodes is None else nodes.nodes.get(node)
        if nodes is None or found is None or not (found.is_up and found.is_reachable):
            return None
        obj = self._store.get(found.key)
        since_us = at_us if obj is None else parse_rfc3339(obj["metadata"]["creationTimestamp"])
        return node_use(found, nodes.pods, since_us, at_us)

    def _place(self, pod: Obj, container: str) -> Place:
        """Raises: CannotConnect unless the container runs."""
        if "running" not in (status_of(pod, container).get("state") or {}):
            raise CannotConnect(f'container not found ("{container}")')
        return Place(pod, container, pod["spec"].get("nodeName") or "", self._store, self._store.now_us)

    def _files_of(self, pod: Obj, container: str) -> Files:
        """The files of the container's present run."""
        started = status_of(pod, container)["state"]["running"].get("startedAt") or ""
        run = (pod["metadata"]["uid"], container, started)
        files = self._files.pop(run, None)
        if files is None:
            files = _furnished(pod, self._store.now_us // SECOND_US)
        self._make_room(files.used)
        self._files[run] = files
        return files

    def _make_room(self, wanted: int) -> None:
        """Forget files of runs that are over; where that is not enough, those used longest ago."""
        if len(self._files) < _MAX_CONTAINERS and self._used() + wanted <= _MAX_FILE_BYTES:
            return
        for run in [run for run in self._files if not self._goes_on(run)]:
            del self._files[run]
        while self._files and (
            len(self._files) >= _MAX_CONTAINERS or self._used() + wanted > _MAX_FILE_BYTES
        ):
            del self._files[next(iter(self._files))]

    def _used(self) -> int:
        return sum(files.used for files in self._files.values())

    def _goes_on(self, run: _Run) -> bool:
        uid, container, started = run
        pod = self._store.by_uid(uid)
        now = {} if pod is None else status_of(pod, container).get("state") or {}
        return (now.get("running") or {}).get("startedAt") == started

    def _listening(self, pod: Obj, port: int) -> str | None:
        """The running container that declares the port, if its application is up."""
        for container in (*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or ())):
            for declared in container.get("ports") or ():
                is_tcp = declared.get("protocol", "TCP") == "TCP"
                if declared.get("containerPort") == port and is_tcp and self._is_up(pod, container["name"]):
                    return str(container["name"])
            if (
                is_model_server(container)
                and port_of(container) == port
                and self._is_up(pod, container["name"])
            ):
                return str(container["name"])
        return None

    def _is_up(self, pod: Obj, container: str) -> bool:
        nodes = self._nodes()
        state = None if nodes is None else nodes.pods.get(pod["metadata"]["uid"])
        if state is None:
            return False
        for plan, now in zip(state.plan.containers, state.containers, strict=True):
            if plan.name == container:
                return now.state == RUNNING and now.work_from_us <= self._store.now_us
        return False


def _furnished(pod: Obj, now_s: int) -> Files:
    meta = pod["metadata"]
    files = Files(now_s)
    name = pod["spec"].get("hostname") or meta["name"]
    files.write("/etc/hostname", f"{name}\n".encode(), now_s)
    account = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
    files.write(account, meta["namespace"].encode(), now_s)
    return files


def sandbox_of(pod: Obj) -> str:
    """What a container runtime would call the pod: it has names of its own; here it is the pod's UID."""
    return str(pod["metadata"]["uid"]).replace("-", "")


def _refused(sandbox: str, port: int) -> str:
    """Source: containerd pkg/cri/server/sandbox_portforward_linux.go."""
    return (
        f'failed to execute portforward in network namespace "/var/run/netns/cni-{sandbox[:8]}": '
        f'failed to connect to localhost:{port} inside namespace "{sandbox}", '
        f"IPv4: dial tcp4 127.0.0.1:{port}: connect: connection refused "
        f"IPv6 dial tcp6 [::1]:{port}: connect: connection refused "
    )
