"""A served cluster, as it is put together when it starts: what each part is given, and what a restart goes on with."""

from __future__ import annotations

import asyncio
import gc
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from apiserver_serving import Served, served

from fairway.apiserver import serving
from fairway.apiserver.bodies import Bodies
from fairway.apiserver.cluster import Cluster, restored
from fairway.apiserver.journal import VERSION_GAP, Journal, Saved
from fairway.apiserver.serving import Settings, _pace, _without
from fairway.cluster.store import Store
from fairway.errors import UserError
from fairway.kube.objects import Key, Obj
from fairway.twin.rules.component import rules_part

NODE: Obj = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n"},
    "status": {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "4"}},
}
QUOTA: Obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "here"}, "data": {"a": "b"}}
CLOUD = "cloud: {provider: aws, instanceTypes: [m5.xlarge], bootTime: 20s}"


@pytest.fixture
def process() -> Iterator[None]:
    """What a server sets for its whole process is set back."""
    thresholds, switch_s = gc.get_threshold(), sys.getswitchinterval()
    yield
    gc.set_threshold(*thresholds)
    sys.setswitchinterval(switch_s)
    gc.unfreeze()


def _wiring(api: Served) -> dict[str, bool]:
    """What each part is given by the others."""
    server = api.server
    of, cluster, journal = server.api, server.api.cluster, server.api.journal
    twin, history = cluster.twin, cluster._history
    assert twin is not None and cluster.pump is not None and history is not None
    room: Any = twin.host.parts["autoscaling"]
    alerts: Any = cluster.alerts
    tasks = sorted(task.get_coro().__qualname__ for task in server._tasks)  # type: ignore[union-attr]
    return {
        "objects of components pass the server's door": twin.host.served_door is of.door,
        "history asks when pods were launched": history.launched == twin.host.launches.launched_us,
        "KEDA asks outside": room.outside is cluster.scalers is not None,
        "rules look outside": alerts.outside is cluster.rules_outside is not None,
        "rules are the twin's": alerts is rules_part(twin.host.parts),
        "the meter of queues follows": cluster.queue_meter in cluster.store.followers,
        "events are written": cluster.events in cluster.store.followers
        and twin.host.events is cluster.events,
        "roles are followed": of.authorizer in cluster.store.followers,
        "failures are contained": cluster.containment is twin.host.containment is not None,
        "kubelets are there": cluster.simulated_nodes() is twin.host.parts["kubelet"],
        "seeds are one": twin.host.store.seed == cluster.store.seed == of.store.seed,
        "watches hear of the disk": of.watches.tell in journal.advanced,
        "memory hears of the disk": journal.wrote == of.memory.written,
        "the server hears of a disk that fails": journal.failed == server._fail,
        "objects are completed": {"Job.batch", "Service"} <= of.store.completing.keys(),
        "it is told ready": cluster.ready.is_set(),
        "no failure": server.failure is None and not server.ended.is_set(),
        "it goes on": tasks
        == [
            "Cluster.expire_forever",
            "Gate.expire_forever",
            "Server._bring_up",
            "Watches.bookmark_forever",
        ],
    }


def test_every_part_of_a_served_cluster_is_given_the_others(tmp_path: Path, process: None) -> None:
    """And a restart goes on with the seed, the port, the pace and what was left out."""
    gc.set_threshold(700, 10, 10)
    with served(
        tmp_path, speed=3.5, paused=True, without=("kueue",), fleet=(NODE, QUOTA), call=("h",)
    ) as api:
        api.until_ready()
        wiring = api.call(lambda: _wiring(api))
        assert [what for what, is_so in wiring.items() if not is_so] == []
        cluster, store = api.server.api.cluster, api.server.api.store
        assert (cluster.pump.speed, cluster.pump.paused) == (3.5, True)
        assert (cluster.speed, cluster.paused, cluster.outside) == (3.5, True, ("h",))
        assert "kueue" in cluster.left and cluster.pod_meter is None
        assert gc.get_threshold() == (50_000, 50, 1_000) and gc.get_freeze_count() > 0
        assert sys.getswitchinterval() == pytest.approx(0.0005)
        assert store.require(Key("ConfigMap", "default", "here"))["data"] == {"a": "b"}
        assert store.require(Key("Node", "", "n"))["status"]["nodeInfo"]["kubeletVersion"]
        assert (tmp_path / "kubeconfig").read_text(encoding="utf-8").count(api.server.url) == 1
        seed, port = store.seed, api.server.port
    assert cluster.pump.is_stopped and api.server.ended.is_set()
    with served(tmp_path, fleet=(QUOTA | {"data": {"a": "c"}},)) as again:
        cluster, store = again.server.api.cluster, again.server.api.store
        assert (store.seed, again.server.port) == (seed, port)
        assert (cluster.speed, cluster.paused) == (3.5, True)
        assert "kueue" in cluster.left
        assert store.require(Key("ConfigMap", "default", "here"))["data"] == {"a": "b"}, "it was there"


def test_where_nodes_are_provisioned_pods_are_metered(tmp_path: Path, process: None) -> None:
    file = tmp_path / "cloud.yaml"
    file.write_text(CLOUD, encoding="utf-8")
    with served(tmp_path / "data", cloud=file, paused=True) as api:
        api.until_ready()
        cluster = api.server.api.cluster
        assert cluster.pod_meter is not None and cluster.pod_meter in cluster.store.followers
        assert api.server.failure is None


# Quick ones


@pytest.mark.parametrize(
    ("asked", "notes", "want"),
    [
        ({}, {}, (1.0, False)),
        ({}, {"speed": "2.5", "paused": "1"}, (2.5, True)),
        ({}, {"paused": ""}, (1.0, False)),
        ({"speed": 4.0}, {"speed": "2.5", "paused": "1"}, (4.0, True)),
        ({"paused": False}, {"speed": "2.5", "paused": "1"}, (2.5, False)),
        ({"paused": True}, {}, (1.0, True)),
    ],
)
def test_how_fast_time_goes(asked: Any, notes: dict[str, str], want: tuple[float, bool]) -> None:
    assert _pace(Settings(Path(), **asked), notes) == want


def test_what_is_left_out_is_what_was_unless_it_is_said() -> None:
    def left(without: tuple[str, ...] | None, was: str = "kueue", cloud: Path | None = None) -> Any:
        return _without(Settings(Path(), without=without, cloud=cloud), {"without": was})

    assert left(None) == ("kueue",)
    assert left(None, "") == ()
    assert left(()) == ()
    assert left(("kubelet",)) == ("kubelet",)
    assert left(None, "", Path("c")) == ()
    for without, was in ((("kubelet",), ""), (None, "kubelet")):
        with pytest.raises(UserError, match="leave out one of both"):
            left(without, was, Path("c"))


@pytest.mark.parametrize(
    ("listen", "url"),
    [
        ("127.0.0.1", "https://127.0.0.1:7"),
        ("0.0.0.0", "https://127.0.0.1:7"),
        ("::", "https://127.0.0.1:7"),
        ("localhost", "https://127.0.0.1:7"),
        ("10.1.2.3", "https://10.1.2.3:7"),
        ("fd00::1", "https://[fd00::1]:7"),
    ],
)
def test_where_it_is_found(listen: str, url: str) -> None:
    server = serving.Server(Settings(Path("/data"), listen=listen))
    assert (server.port, server.failure, server.ended.is_set()) == (0, None, False)
    server.port = 7
    assert server.url == url
    assert server.kubeconfig == Path("/data/kubeconfig")
    other = serving.Server(Settings(Path("/data"), kubeconfig=Path("/elsewhere")))
    assert other.kubeconfig == Path("/elsewhere")


def test_a_store_is_restored_as_it_was() -> None:
    """A new one has chance of its own, and begins now; what was given out before the end is not given out again."""
    first, second = (restored(Saved([], 0, 0, 0, {})) for _ in range(2))
    assert first.seed != second.seed and first.seed % 2 == second.seed % 2 == 1
    assert first.now_us > 1_700_000_000_000_000 and first.now_us % 1_000_000 == 0
    before = Store(seed=9, now_us=5_000_000)
    made = before.create(dict(QUOTA))
    found = restored(Saved([made], before.version, before.serial, 7_000_000, {"seed": "9"}))
    assert (found.seed, found.now_us, found.version) == (9, 7_000_000, before.version + VERSION_GAP)
    assert found.serial == before.serial + 1000
    assert found.require(Key("ConfigMap", "default", "here")) == made


def test_before_its_components_are_loaded_a_cluster_stands_still(tmp_path: Path) -> None:
    async def story() -> None:
        store = Store(seed=1)
        cluster = Cluster(store, Journal(tmp_path, Bodies()), "zero", speed=1.0, paused=False)
        cluster.touch()
        cluster.poke()
        with cluster.no_faster():
            pass
        cluster.stop()
        assert (cluster.twin, cluster.pump, cluster.events, cluster.containment) == (None, None, None, None)
        assert cluster.simulated_nodes() is None and not cluster.ready.is_set()
        assert cluster.delivered == store.version == 0
        store.create(dict(QUOTA))
        assert cluster.delivered == store.version == 1
        assert (cluster.left.names, cluster.outside) == (frozenset(), ())

    asyncio.run(story())


def test_tls_is_new_and_forward_secret(tmp_path: Path) -> None:
    from fairway.apiserver.auth.certificates import ensure

    context = serving.tls(ensure(tmp_path / "pki", "127.0.0.1"))
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2 and context.verify_mode == ssl.CERT_OPTIONAL
    suites = {c["name"] for c in context.get_ciphers() if c["protocol"] != "TLSv1.3"}
    assert suites and all(s.startswith("ECDHE-") and ("GCM" in s or "CHACHA20" in s) for s in suites)
    assert context.get_ca_certs()
