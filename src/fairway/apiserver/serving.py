"""The process: files, certificates, the listener, and everything put together in the order that answers soonest.

server = Server(Settings(data=Path("…")))
await server.start()          # answers from here on; components load right after
await server.stop()
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import ssl
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import msgspec

from fairway.admission.rbac.authorizer import Authorizer
from fairway.apiserver import apiservices, bootstrap, kubeconfig
from fairway.apiserver.addresses import Addresses
from fairway.apiserver.asking import Api
from fairway.apiserver.auth.authentication import Authentication
from fairway.apiserver.auth.certificates import Pki, ensure
from fairway.apiserver.auth.tokens import Tokens
from fairway.apiserver.bodies import Bodies
from fairway.apiserver.canonical import complete_in
from fairway.apiserver.cluster import Cluster, restored
from fairway.apiserver.definitions import Definitions
from fairway.apiserver.discovery import Discovery
from fairway.apiserver.folders import announce, take
from fairway.apiserver.handling import Handling
from fairway.apiserver.history import BUDGET_BYTES, History
from fairway.apiserver.journal import Journal
from fairway.apiserver.leftout import LeftOut, check_names
from fairway.apiserver.memory import Memory
from fairway.apiserver.pages import Clock, Pages
from fairway.apiserver.representing import Representation
from fairway.apiserver.requestmeter import RequestMeter
from fairway.apiserver.resources import Resources
from fairway.apiserver.statuses import refused_connection
from fairway.apiserver.watching import Watches
from fairway.apiserver.wire.connection import Connection
from fairway.apiserver.wire.gate import Gate, behind, most_connections
from fairway.cluster.store import Store
from fairway.errors import FairwayError, UserError, WorldError
from fairway.kube.defaults import apply_defaults, generate_job_selector
from fairway.kube.objects import Obj

if TYPE_CHECKING:
    from fairway.scenario.model import CloudPlan
    from fairway.scheduling.profile import Profile

LOOPBACK = "127.0.0.1"
# Objects are trees that reference counts free; the cycle collector would only look at them, 100,000 at a time.
_GC_THRESHOLDS = (50_000, 50, 1_000)
# The journal's thread gets its turn this soon after its disk is done: at 5 ms, Python's default, it waited longer
# for the interpreter than for the disk.
_SWITCH_S = 0.0005
# Loading the components waits this long: whoever waits for the server asks it something first.
_FIRST_ANSWERS_S = 0.1
# Connections accepted in one go, and those that the kernel keeps waiting.
# Of TLS 1.2: forward secrecy and authenticated encryption; none with CBC.
_SUITES = "ECDHE+AESGCM:ECDHE+CHACHA20"
_BACKLOG = 1024
_DRAIN_S = 0.5


@dataclass(frozen=True, slots=True)
class Settings:
    """How a server is to run. `speed`, `paused`, `without` None: as it ran before, or 1, running, with everything.
    `cloud`: a file. `without`: names of parts that are left out (`leftout`)."""

    data: Path
    listen: str = LOOPBACK
    port: int = 0
    speed: float | None = None
    paused: bool | None = None
    fleet: tuple[Obj, ...] = ()
    latency: str = "served"
    kubeconfig: Path | None = None
    metrics_server: bool = True
    cloud: Path | None = None
    without: tuple[str, ...] | None = None
    scheduler: Path | None = None
    """A KubeSchedulerConfiguration."""
    call: tuple[str, ...] = ()
    """Hosts outside the cluster, with or without a port, that objects of tenants may have called."""
    history: int = BUDGET_BYTES
    """How many bytes of what happened are kept; 0: nothing more is."""


def settings_of(said: dict[str, Any]) -> Settings:
    """Settings as the command line has them: plain values, paths as text."""
    return msgspec.convert(said, Settings, dec_hook=lambda kind, value: kind(value))


class Server:
    """One server over one data folder."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.port = 0
        self.failure: Exception | None = None
        self.ended = asyncio.Event()
        self.pki: Pki
        self.api: Api
        self._lock: IO[str] | None = None
        self._connections: set[Any] = set()
        self.gate = Gate(most_connections())
        self._tasks: list[asyncio.Task[Any]] = []
        self._listener: asyncio.Server

    @property
    def url(self) -> str:
        host = (
            self.settings.listen if self.settings.listen not in ("0.0.0.0", "::", "localhost") else LOOPBACK
        )
        return f"https://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def kubeconfig(self) -> Path:
        return self.settings.kubeconfig or self.settings.data / "kubeconfig"

    async def start(self) -> None:
        """Listen. Raises: UserError (somebody serves this folder), WorldError."""
        self._lock = take(self.settings.data)
        self.pki = ensure(self.settings.data / "pki", self.settings.listen)
        bodies = Bodies()
        history = History(self.settings.data, self.settings.history) if self.settings.history else None
        journal = Journal(self.settings.data, bodies, history)
        try:
            saved = journal.load()
            left = LeftOut(_without(self.settings, saved.notes))
        except FairwayError:
            self._lock.close()
            raise
        store = restored(saved)
        journal.begin(store)
        journal.failed = self._fail
        speed, paused = _pace(self.settings, saved.notes)
        cluster = Cluster(
            store,
            journal,
            self.settings.latency,
            speed=speed,
            paused=paused,
            left=left,
            outside=self.settings.call,
            history=history,
        )
        resources = Resources(self.settings.metrics_server)
        self.api = _api(store, cluster, journal, bodies, self.pki, resources)
        await self._listen(saved.notes)
        bootstrap.furnish(store, self.pki.ca.read_text(encoding="utf-8"), LOOPBACK, self.port)
        complete_in(store)
        apiservices.register(store, self.api.resources)
        journal.note("seed", str(store.seed))
        journal.note("port", str(self.port))
        journal.note("speed", repr(speed))
        journal.note("paused", "1" if paused else "")
        journal.note("without", ",".join(sorted(left.names)))
        journal.note("cloud", str(self.settings.cloud or ""))
        self._enroll()
        kubeconfig.write(self.kubeconfig, self.pki, self.url)
        announce(self.settings.data, self.url, self.kubeconfig)
        gc.freeze()
        gc.set_threshold(*_GC_THRESHOLDS)
        sys.setswitchinterval(_SWITCH_S)
        self._tasks.append(asyncio.create_task(self._bring_up()))
        self._tasks.append(asyncio.create_task(self.api.watches.bookmark_forever()))
        self._tasks.append(asyncio.create_task(cluster.expire_forever()))
        self._tasks.append(asyncio.create_task(self.gate.expire_forever()))

    async def _listen(self, notes: dict[str, str]) -> None:
        discovery = Discovery(self.api.resources, "")
        clock = Clock(self.api)
        handling = Handling(self.api, discovery, Pages(self.api, clock.answer).handlers)
        journal = self.api.journal

        def connect() -> Connection:
            return Connection(
                handling.answer,
                journal.when_durable,
                refused_connection,
                self._connections,
                self.api.meter,
                self.gate,
            )

        loop = asyncio.get_running_loop()
        context = tls(self.pki)
        wanted = self.settings.port or int(notes.get("port", "0"))
        entrance = behind(self.gate, context, connect)
        listen = partial(loop.create_server, entrance, self.settings.listen, backlog=_BACKLOG)
        try:
            self._listener = await listen(wanted)
        except OSError as taken:
            if self.settings.port or not wanted:
                raise WorldError(
                    f"cannot listen on {self.settings.listen}:{wanted}: {taken.strerror}"
                ) from taken
            # The port of last time belongs to somebody else now.
            self._listener = await listen(0)
        self.port = self._listener.sockets[0].getsockname()[1]
        discovery.address = f"{self.settings.listen}:{self.port}"

    def _enroll(self) -> None:
        """Create the fleet's objects that are not there."""
        if not self.settings.fleet:
            # What nodes say of themselves comes with their kubelets.
            return
        from fairway.kube.kinds import kind_named
        from fairway.kube.objects import Key, gk_of
        from fairway.twin.kubelet.nodestatus import with_machine

        for obj in self.settings.fleet:
            gk = gk_of(obj)
            meta = obj["metadata"]
            namespace = (meta.get("namespace") or "default") if kind_named(gk).namespaced else ""
            if self.api.store.get(Key(gk, namespace, meta["name"])) is None:
                self.api.store.create(with_machine(obj) if gk == "Node" else obj)

    async def _bring_up(self) -> None:
        """Load the components once the first requests have been answered."""
        try:
            await asyncio.sleep(_FIRST_ANSWERS_S)
            await asyncio.to_thread(_import_components)
            from fairway.apiserver.signingrequests import CertificateSigner

            signer = CertificateSigner(self.pki, self.api.authorizer)
            cloud = await asyncio.to_thread(_cloud, self.settings.cloud, self.api.store.now_us)
            profiles = await asyncio.to_thread(_profiles, self.settings.scheduler)
            self.api.cluster.start(self.api.door, signer, cloud, profiles)
            _trim()
        except Exception as bug:
            self._fail(bug)

    def _fail(self, error: Exception) -> None:
        """Nothing can be acknowledged any more: stop."""
        self.failure = error
        self.ended.set()

    async def stop(self) -> None:
        """Answer nobody else, write everything down."""
        self._listener.close()
        self.api.watches.close()
        self.api.cluster.stop()
        self.api.webhooks.stop()
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        if self.failure is None:
            await asyncio.sleep(0)
            self.api.journal.close()
        for connection in list(self._connections):
            connection.transport.abort()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._listener.wait_closed(), _DRAIN_S)
        if self._lock is not None:
            self._lock.close()
            self._lock = None
        self.ended.set()


def _api(
    store: Store, cluster: Cluster, journal: Journal, bodies: Bodies, pki: Pki, resources: Resources
) -> Api:
    """Put the parts together."""
    definitions = Definitions(store, resources)
    authorizer = Authorizer(store)
    store.followers.append(authorizer)
    tokens = Tokens(pki.folder, store)
    store.completing["Job.batch"] = _completed_job
    addresses = Addresses(store)
    store.completing["Service"] = addresses.complete
    watches = Watches(store)
    journal.advanced.append(watches.tell)
    memory = Memory(store, bodies, lambda: min(watches.told, cluster.delivered) + 1)
    journal.wrote = memory.written
    return Api(
        store=store,
        cluster=cluster,
        journal=journal,
        bodies=bodies,
        resources=resources,
        definitions=definitions,
        representation=Representation(bodies, lambda: store.now_us),
        watches=watches,
        authorizer=authorizer,
        authentication=Authentication(tokens, authorizer),
        tokens=tokens,
        addresses=addresses,
        meter=RequestMeter(),
        memory=memory,
    )


def _completed_job(job: Obj) -> Obj:
    """Its selector; and its template's labels, which defaulting copies to a Job without labels whenever it is read."""
    return apply_defaults(generate_job_selector(job))


def tls(pki: Pki) -> ssl.SSLContext:
    """TLS 1.2 and up; client certificates are asked for, and checked where given."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(_SUITES)
    context.load_cert_chain(pki.server, pki.server_key)
    context.load_verify_locations(pki.ca)
    context.verify_mode = ssl.CERT_OPTIONAL
    context.set_alpn_protocols(["http/1.1"])
    return context


def _pace(settings: Settings, notes: dict[str, str]) -> tuple[float, bool]:
    speed = settings.speed if settings.speed is not None else float(notes.get("speed", "1.0"))
    paused = settings.paused if settings.paused is not None else bool(notes.get("paused"))
    return speed, paused


def _without(settings: Settings, notes: dict[str, str]) -> tuple[str, ...]:
    """What is left out: as asked for now, or as it was.

    Raises: UserError (a name nobody bears; nodes of a cloud without the kubelets they boot).
    """
    said = settings.without
    names = check_names((notes.get("without", ""),) if said is None else said)
    if "kubelet" in names and settings.cloud is not None:
        raise UserError("--without kubelet: nodes of --cloud boot simulated kubelets; leave out one of both")
    return names


def _cloud(file: Path | None, now_us: int) -> CloudPlan | None:
    """What a file says of the cloud, its times from now on. Raises: InvalidInput."""
    if file is None:
        return None
    from fairway.scenario.cloudfile import read_cloud_file

    return read_cloud_file(file, now_us)


def _profiles(file: Path | None) -> tuple[Profile, ...] | None:
    """What a file says of kube-scheduler; None: it is as it comes. Raises: InvalidInput."""
    if file is None:
        return None
    from fairway.scheduling.config import read_configuration_file

    return read_configuration_file(file).profiles


def _trim() -> None:
    """Give back what reading tables and compiling patterns took for a moment: a quarter of an empty server.

    Only glibc keeps it, and only glibc has such a call.
    """
    import ctypes

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _import_components() -> None:
    """Loaded in a worker thread: requests are answered meanwhile."""
    import fairway.admission.chain
    import fairway.admission.door
    import fairway.apiserver.components
    import fairway.apiserver.events
    import fairway.apiserver.pump
    import fairway.apiserver.verbs.deleting
    import fairway.apiserver.verbs.writing  # noqa: F401
