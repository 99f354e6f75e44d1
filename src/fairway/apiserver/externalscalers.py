"""External scalers of KEDA, really called: gRPC to the address a trigger names, while the cluster goes on.

KEDA's loop asks for what is known; to ask is to have the scaler asked again, one call of each trigger at a time and not
more often than every second. What has changed wakes the trigger's object. A scaler of type `external-push` is also
listened to. A scaler is somebody else's program: an answer has ten seconds and 64 KiB; only addresses (host and port,
or a Service of this cluster) are called, no sockets of files, and of them only those that whoever started the cluster
allows (`fairway up --call`): the server sees this machine and its network, whoever writes a ScaledObject may not. Needs
the extra `grpc`.

Source: kedacore/keda pkg/scalers/external_scaler.go.
"""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from fairway.apiserver.serviceaddresses import Unresolved, resolved
from fairway.autoscaling.keda import external
from fairway.autoscaling.keda.external import Answer, Asked, Frozen, ScalerFault
from fairway.cluster.actions import View
from fairway.errors import WorldError
from fairway.extras import need
from fairway.kube.objects import Key

if TYPE_CHECKING:
    from fairway.apiserver.cluster import Cluster
    from fairway.twin.autoscaling.component import Autoscaling

CALL_S: Final = 10.0
MOST_BYTES: Final = 64 * 1024
# Triggers that are asked for, and connections that are kept.
MOST_TRIGGERS: Final = 1024
_MOST_CHANNELS: Final = 64
_EVERY_S: Final = 1.0
# A stream whose trigger nobody has asked for any more.
_FORGOTTEN_S: Final = 300.0
_RETRY_S: Final = (2.0, 60.0)
# Between two messages of a stream.
_BREATH_S: Final = 0.1
_WORDS: Final = 200
_ADDRESS: Final = re.compile(r"(?:dns:///)?([A-Za-z0-9](?:[A-Za-z0-9.-]{0,252}))(?::([0-9]{1,5}))?")
_DEFAULT_PORT: Final = 443
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", MOST_BYTES),
    ("grpc.max_send_message_length", MOST_BYTES),
    ("grpc.max_metadata_size", 16 * 1024),
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),
)


@dataclass(slots=True)
class _Known:
    """One trigger: what its scaler said last, who is asking it, who listens to it."""

    answer: Answer | None = None
    asking: asyncio.Task[None] | None = None
    listening: asyncio.Task[None] | None = None
    asked_s: float = 0.0
    wanted_s: float = 0.0


class ExternalScalers:
    """All scalers of a served cluster."""

    def __init__(self, room: Autoscaling, view: View, cluster: Cluster, allowed: tuple[str, ...]) -> None:
        self._room = room
        self._allowed = frozenset(allowed)
        self._view = view
        self._cluster = cluster
        self._known: dict[Asked, _Known] = {}
        self._channels: dict[tuple[str, tuple[tuple[str, str], ...]], Any] = {}

    def frozen(self) -> Frozen:
        return Frozen({asked: known.answer for asked, known in self._known.items()})

    def answer(self, asked: Asked) -> Answer | None:
        known, now_s = self._known.get(asked), time.monotonic()
        if known is None:
            if len(self._known) >= MOST_TRIGGERS and not self._forget(now_s):
                return Answer(fault=f"external: more than {MOST_TRIGGERS} triggers ask external scalers")
            known = self._known[asked] = _Known()
        known.wanted_s = now_s
        if known.asking is None and now_s - known.asked_s >= _EVERY_S:
            known.asked_s = now_s
            known.asking = asyncio.get_running_loop().create_task(self._ask(asked, known))
        if asked.is_push and known.listening is None:
            known.listening = asyncio.get_running_loop().create_task(self._listen(asked, known))
        return known.answer

    def _forget(self, now_s: float) -> bool:
        """Those that nobody has asked for in a while."""
        old = [a for a, k in self._known.items() if k.asking is None and now_s - k.wanted_s > _FORGOTTEN_S]
        for asked in old:
            known = self._known.pop(asked)
            if known.listening is not None:
                known.listening.cancel()
        return bool(old)

    def stop(self) -> None:
        for known in self._known.values():
            for task in (known.asking, known.listening):
                if task is not None:
                    task.cancel()
        self._known.clear()

    # Asking

    async def _ask(self, asked: Asked, known: _Known) -> None:
        try:
            with self._cluster.no_faster():
                found = await self._answered(asked)
        finally:
            known.asking = None
        before = known.answer
        if asked.is_push and before is not None and not found.fault:
            found = found._replace(is_active=before.is_active or found.is_active)
        known.answer = found
        if found != before:
            self._tell(asked.key, is_another=before is None or before.metrics != found.metrics)

    def _tell(self, key: Key, *, is_another: bool) -> None:
        self._cluster.touch()
        self._room.keda.answered(key, is_another=is_another)
        self._cluster.poke()

    async def _answered(self, asked: Asked) -> Answer:
        """What the scaler says now, or why it says nothing."""
        try:
            async with asyncio.timeout(CALL_S):
                channel = await self._channel(asked)
                ref = external.scaled_object_ref(asked)
                metrics = external.read_metrics(await _call(channel, "GetMetricSpec", ref))
                values = {
                    m.name: external.read_value(
                        await _call(channel, "GetMetrics", external.metrics_request(ref, m.name))
                    )
                    for m in metrics
                }
                is_active = external.read_active(await _call(channel, "IsActive", ref))
                return Answer(metrics, values, is_active)
        except TimeoutError:
            return Answer(fault="rpc error: code = DeadlineExceeded desc = context deadline exceeded")
        except (ScalerFault, Unresolved, WorldError, OSError, ValueError) as wrong:
            return Answer(fault=f"external: {asked.address}: {str(wrong)[:_WORDS]}")
        except need("grpc").RpcError as refused:
            return Answer(fault=_go_words(refused))

    async def _listen(self, asked: Asked, known: _Known) -> None:
        """Follow StreamIsActive, and begin again where it ends."""
        wait_s = _RETRY_S[0]
        try:
            while time.monotonic() - known.wanted_s < _FORGOTTEN_S:
                try:
                    channel = await self._channel(asked)
                    stream = channel.unary_stream(f"/{external.SERVICE}/StreamIsActive")
                    async for message in stream(external.scaled_object_ref(asked)):
                        wait_s = _RETRY_S[0]
                        self._pushed(asked, known, external.read_active(message))
                        await asyncio.sleep(_BREATH_S)
                except (ScalerFault, Unresolved, WorldError, OSError, ValueError):
                    pass
                except need("grpc").RpcError:
                    pass
                await asyncio.sleep(wait_s)
                wait_s = min(2 * wait_s, _RETRY_S[1])
        finally:
            known.listening = None

    def _pushed(self, asked: Asked, known: _Known, is_active: bool) -> None:
        before = known.answer
        if before is not None and not before.fault and before.is_active != is_active:
            known.answer = before._replace(is_active=is_active)
            self._tell(asked.key, is_another=False)

    # Connections

    async def _channel(self, asked: Asked) -> Any:
        """Raises: Unresolved, ScalerFault, WorldError."""
        address = self._target(asked.address)
        at = (address, _tls(asked))
        found = self._channels.get(at)
        if found is None:
            if len(self._channels) >= _MOST_CHANNELS:
                oldest = next(iter(self._channels))
                await self._channels.pop(oldest).close()
            found = self._channels[at] = _opened(address, dict(at[1]))
        return found

    def _target(self, text: str) -> str:
        """Where an address leads: a Service of this cluster, or a host outside."""
        match = _ADDRESS.fullmatch(text)
        if match is None or int(match[2] or _DEFAULT_PORT) > 65535:
            raise ScalerFault("expected an address such as my-scaler.default:6000")
        host, port = match[1], int(match[2] or _DEFAULT_PORT)
        parts = host.split(".")
        is_inside = len(parts) >= 2 and (
            len(parts) == 2 or parts[2:] in (["svc"], ["svc", "cluster", "local"])
        )
        if is_inside and self._view.get(Key("Service", parts[1], parts[0])) is not None:
            host, port = resolved(self._view, {"name": parts[0], "namespace": parts[1], "port": port})
        if not self._allowed & {host, f"{host}:{port}"}:
            raise ScalerFault(
                f"{host}:{port} is outside the cluster: fairway up --call {host}:{port} allows it"
            )
        return f"{host}:{port}"


def _tls(asked: Asked) -> tuple[tuple[str, str], ...]:
    """What says how to speak to it; empty for plain text."""
    metadata, auth = dict(asked.metadata), dict(asked.auth)
    if metadata.get("unsafeSsl", "").lower() in ("true", "1", "t"):
        raise ScalerFault("unsafeSsl: certificates are always checked here; give its caCert instead")
    given = {name: auth.get(name, "") for name in ("caCert", "tlsClientCert", "tlsClientKey")}
    is_on = metadata.get("enableTLS", "").lower() in ("true", "1", "t")
    return tuple(given.items()) if is_on or given["caCert"] or given["tlsClientCert"] else ()


def _opened(address: str, tls: dict[str, str]) -> Any:
    need("grpc")
    from importlib import import_module

    grpc, aio = import_module("grpc"), import_module("grpc.aio")
    if not tls:
        return aio.insecure_channel(address, options=_OPTIONS)
    ca, cert, key = ((tls[name].encode() or None) for name in ("caCert", "tlsClientCert", "tlsClientKey"))
    return aio.secure_channel(address, grpc.ssl_channel_credentials(ca, key, cert), options=_OPTIONS)


async def _call(channel: Any, method: str, request: bytes) -> bytes:
    """Raises: grpc.RpcError."""
    answer: bytes = await channel.unary_unary(f"/{external.SERVICE}/{method}")(request, timeout=CALL_S)
    return answer


def _go_words(refused: Any) -> str:
    """As grpc-go says it."""
    code = "".join(part.title() for part in refused.code().name.split("_"))
    return f"rpc error: code = {code} desc = {(refused.details() or '')[:_WORDS]}"
