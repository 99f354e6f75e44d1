"""Whole twins: determinism, forks mid-run, random histories, interruption."""

from __future__ import annotations

import gc
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairway.cluster.changes import Change
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import HOUR_US, MINUTE_US, SECOND_US
from fairway.twin import faults, invariants
from fairway.twin import twin as twins
from fairway.twin.components import Host
from fairway.twin.latency import NONE, latency_named
from fairway.twin.loop import LoopLimit
from fairway.twin.standard import standard_components
from fairway.twin.twin import EPOCH_US, Progress, Twin


def node(name: str, cpu: str = "8") -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"allocatable": {"cpu": cpu, "memory": "32Gi", "pods": "20"}},
    }


def pod(name: str, cpu: int, seconds: int, policy: str = "Never", **says: str) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "annotations": {
                "fairway.dev/run-time": f"{seconds}s",
                **{f"fairway.dev/{k.replace('_', '-')}": v for k, v in says.items()},
            },
        },
        "spec": {
            "restartPolicy": policy,
            "containers": [{"name": "main", "image": "i:1", "resources": {"requests": {"cpu": str(cpu)}}}],
        },
    }


def busy(seed: int = 1, latency: str = "default") -> Twin:
    """Twelve nodes, pods of all kinds, two node failures, a slow registry."""
    twin = Twin(
        seed=seed, latency=latency_named(latency), components=standard_components(), keep_records=100_000
    )
    twin.apply(node(f"n{i:02}") for i in range(12))
    for i in range(60):
        policy = ("Never", "OnFailure", "Always")[i % 3]
        code = "1,0" if i % 7 == 0 else "0"
        twin.apply(
            [pod(f"p{i:02}", 1 + i % 4, 60 + 37 * i % 900, policy, exit_code=code, checkpoint_interval="2m")]
        )
    start = twin.now_us
    faults.fail_node(twin, "n03", start + 90 * SECOND_US, 4 * MINUTE_US)
    faults.preempt_node(twin, "n07", start + 200 * SECOND_US)
    faults.slow_registry(twin, start + 10 * SECOND_US, 3.0, MINUTE_US)
    return twin


def state(twin: Twin) -> list[Obj]:
    return [*twin.store.objects("Pod"), *twin.store.objects("Node")]


@pytest.mark.parametrize("latency", ["default", "zero"])
def test_a_fork_mid_run_continues_as_the_original(latency: str) -> None:
    twin = busy(latency=latency)
    for _ in range(6):
        twin.run_for(97 * SECOND_US)
        copy = twin.fork()
        before = twin.digest()
        copy.run_for(HOUR_US)
        invariants.check(copy.host)
        assert twin.digest() == before
        again = twin.fork()
        again.run_for(HOUR_US)
        assert again.digest() == copy.digest()
    end = copy.now_us
    twin.run(end)
    assert twin.digest() == copy.digest()
    assert state(twin) == state(copy)
    assert twin.host.events.told() == copy.host.events.told()
    assert twin.host.log.records() == copy.host.log.records()


def test_what_happens_in_a_fork_stays_there() -> None:
    twin = busy()
    twin.run_for(MINUTE_US)
    fork = twin.fork()
    faults.fail_node(fork, "n00", fork.now_us)
    fork.run_for(10 * MINUTE_US)
    twin.run_for(10 * MINUTE_US)
    assert "n00" not in twin.host.heartbeats.silent
    assert twin.digest() != fork.digest()


def test_seeds_differ_and_runs_of_one_seed_do_not() -> None:
    digests = []
    for seed in (1, 1, 2):
        twin = busy(seed)
        twin.run_for(HOUR_US)
        digests.append(twin.digest())
    assert digests[0] == digests[1] != digests[2]


_RUN = (
    "import sys; sys.path.insert(0, {here!r}); import test_twin; t = test_twin.busy(); "
    "t.run_for(3600 * 10**6); print(t.digest())"
)


def test_the_digest_does_not_depend_on_the_hash_seed() -> None:
    here = os.path.dirname(__file__)
    outputs = {
        subprocess.run(
            [sys.executable, "-c", _RUN.format(here=here)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "12345")
    }
    assert len(outputs) == 1


def test_every_pod_ends_or_can_say_why_not() -> None:
    twin = busy()
    twin.apply([pod("giant", 64, 10)])
    twin.run_for(24 * HOUR_US)
    invariants.check(twin.host)
    assert invariants.unexplained(twin.host) == []


# Random histories: whatever users and faults do, in whatever order, nothing is over-allocated or forgotten.

NAMES = [f"p{i}" for i in range(6)]
NODES = ["a", "b", "c"]
Step = st.one_of(
    st.tuples(
        st.just("apply"),
        st.sampled_from(NAMES),
        st.integers(1, 6),
        st.integers(1, 400),
        st.sampled_from(["Never", "OnFailure", "Always"]),
        st.sampled_from(["0", "1", "1,0"]),
        st.sampled_from(["plain", "inits", "sidecar", "probed", "deadline", "hooked"]),
    ),
    st.tuples(st.just("job"), st.sampled_from(["j1", "j2"]), st.integers(1, 4), st.integers(1, 300)),
    st.tuples(st.just("cordon"), st.sampled_from(NODES), st.booleans()),
    st.tuples(st.just("evict"), st.sampled_from(NAMES)),
    st.tuples(st.just("delete"), st.sampled_from(NAMES), st.sampled_from([None, 0, 5])),
    st.tuples(st.just("crash"), st.sampled_from(NODES), st.sampled_from([None, 5, 100, 500])),
    st.tuples(st.just("partition"), st.sampled_from(NODES), st.sampled_from([None, 5, 100, 500])),
    st.tuples(st.just("recover"), st.sampled_from(NODES)),
    st.tuples(st.just("shutdown"), st.sampled_from(NODES)),
    st.tuples(st.just("remove"), st.sampled_from(NODES)),
    st.tuples(st.just("add"), st.sampled_from(NODES)),
    st.tuples(st.just("kill"), st.sampled_from(NAMES)),
    st.tuples(st.just("wait"), st.integers(0, 700)),
)


def of_kind(made: Obj, kind: str) -> Obj:
    """The pod with more to it than one container that runs."""
    spec = made["spec"]
    (main,) = spec["containers"]
    if kind == "inits":
        inits = [("a", ["sleep", "7"]), ("b", ["sh", "-c", "sleep 3; exit 1"])]
        spec["initContainers"] = [{"name": n, "image": "i:2", "command": c} for n, c in inits]
    elif kind == "sidecar":
        probe = {"tcpSocket": {"port": 1}, "periodSeconds": 3, "failureThreshold": 4}
        spec["initContainers"] = [
            {"name": "side", "image": "i:3", "restartPolicy": "Always", "startupProbe": probe},
            {"name": "log", "image": "i:3", "restartPolicy": "Always", "command": ["sleep", "40"]},
        ]
        made["metadata"]["annotations"]["fairway.dev/startup-time.side"] = "8s"
    elif kind == "probed":
        main["readinessProbe"] = {"httpGet": {"port": 1}, "periodSeconds": 7}
        main["livenessProbe"] = {"httpGet": {"port": 1}, "periodSeconds": 5, "failureThreshold": 2}
        made["metadata"]["annotations"]["fairway.dev/liveness-fails"] = "30s-50s"
    elif kind == "deadline":
        spec["activeDeadlineSeconds"] = 45
    elif kind == "hooked":
        spec["containers"].append({"name": "two", "image": "i:4", "command": ["sleep", "25"]})
        main["lifecycle"] = {"preStop": {"sleep": {"seconds": 11}}}
    return made


def job(name: str, pods: int, seconds: int) -> Obj:
    made = pod(name, 1, seconds)
    template = {"metadata": {"annotations": made["metadata"]["annotations"]}, "spec": made["spec"]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"template": template, "parallelism": pods, "completions": 2 * pods},
    }


def act(twin: Twin, step: tuple[Any, ...]) -> None:
    verb, rest, now = step[0], step[1:], twin.now_us
    if verb == "apply":
        name, cpu, seconds, policy, codes, kind = rest
        if twin.store.get(Key("Pod", "default", name)) is None:
            made = pod(name, cpu, seconds, policy, exit_code=codes, checkpoint_interval="60s")
            twin.apply([of_kind(made, kind)])
    elif verb == "delete":
        if twin.store.get(Key("Pod", "default", rest[0])) is not None:
            twin.store.delete(Key("Pod", "default", rest[0]), grace_s=rest[1])
    elif verb == "crash":
        faults.fail_node(twin, rest[0], now, None if rest[1] is None else rest[1] * SECOND_US)
    elif verb == "partition":
        faults.partition_node(twin, rest[0], now, None if rest[1] is None else rest[1] * SECOND_US)
    elif verb == "recover":
        faults.recover_node(twin, rest[0], now)
    elif verb == "shutdown":
        faults.shut_down_node(twin, rest[0], now, grace_us=20 * SECOND_US, critical_us=5 * SECOND_US)
    elif verb == "remove":
        if twin.store.get(Key("Node", "", rest[0])) is not None:
            twin.store.delete(Key("Node", "", rest[0]))
    elif verb == "add":
        if twin.store.get(Key("Node", "", rest[0])) is None:
            twin.apply([node(rest[0])])
    elif verb == "kill":
        faults.kill_container(twin, Key("Pod", "default", rest[0]), now)
    elif verb == "job":
        if twin.store.get(Key("Job.batch", "default", rest[0])) is None:
            twin.apply([job(*rest)])
    elif verb == "cordon":
        if twin.store.get(Key("Node", "", rest[0])) is not None:
            twin.store.patch(Key("Node", "", rest[0]), {"spec": {"unschedulable": rest[1] or None}})
    elif verb == "evict":
        faults.evict_pod(twin, Key("Pod", "default", rest[0]), now)
    elif verb == "wait":
        twin.run_for(rest[0] * SECOND_US)


@given(st.lists(Step, max_size=25), st.sampled_from(["zero", "default"]), st.integers(0, 25))
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_random_histories(steps: list[tuple[Any, ...]], latency: str, fork_at: int) -> None:
    twin = Twin(seed=3, latency=latency_named(latency), components=standard_components())
    twin.apply(node(n) for n in NODES)
    copy = None
    for i, step in enumerate(steps):
        if i == fork_at:
            copy = twin.fork()
        act(twin, step)
        if copy is not None:
            act(copy, step)
        invariants.check(twin.host)
    for _ in range(3):
        twin.run_for(HOUR_US)
        invariants.check(twin.host)
    assert invariants.unexplained(twin.host) == []
    if copy is not None:
        copy.run(twin.now_us)
        assert copy.digest() == twin.digest()


@pytest.mark.parametrize("was_enabled", [True, False])
def test_the_collector_rests_meanwhile_and_is_as_it_was_after(was_enabled: bool) -> None:
    twin, seen = Twin(components=[]), list[bool]()
    look = twin.loop.register("test.look", lambda _: seen.append(gc.isenabled()))
    twin.loop.at(twin.now_us + 1, look, None)
    before = gc.isenabled()
    try:
        (gc.enable if was_enabled else gc.disable)()
        twin.run_for(10)
        assert (seen, gc.isenabled()) == ([False], was_enabled)
    finally:
        (gc.enable if before else gc.disable)()


def test_what_must_hold_is_recounted_every_million_events() -> None:
    twin = Twin(latency=NONE, components=standard_components())
    twin.apply([node("n")])
    twin.run_for(1)
    twin.store.accounts.allocatable[0, 0] = -1
    twin._unchecked = 999_998
    look = twin.loop.register("test.look", lambda _: None)
    for _ in range(2):
        twin.loop.at(twin.now_us + 1, look, None)
        if twin._unchecked == 999_998:
            twin.run_for(1)
            assert twin._unchecked == 999_999
        else:
            with pytest.raises(invariants.InvariantBroken):
                twin.run_for(1)
            assert twin._unchecked == 0


def test_progress_is_told_and_limits_hold() -> None:
    twin = busy()
    with pytest.raises(LoopLimit):
        twin.run_for(HOUR_US, limit=50)
    told: list[Progress] = []
    twin.run_for(HOUR_US, progress=told.append)
    assert all(p.events > 0 and p.now_us <= twin.now_us for p in told)
    assert Twin()._unchecked == 0


@pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(), reason="signals need the main thread"
)
class Ticks:
    """A thousand times forty-five things that happen, one a microsecond."""

    name = "ticks"
    kinds: tuple[str, ...] = ()

    def attach(self, host: Host) -> None:
        self.host = host
        self.tick = host.loop.register("tick", lambda _: None)

    def start(self) -> None:
        for at_us in range(45_000):
            self.host.loop.at(EPOCH_US + 1 + at_us, self.tick)

    def observe(self, change: Change) -> None: ...

    def fork(self) -> Ticks:
        return Ticks()


def test_a_run_handles_all_that_is_due_and_no_more_than_its_limit() -> None:
    twin = Twin(components=[Ticks()])
    assert twin.run(EPOCH_US + 41_000) == 41_000 and twin.now_us == EPOCH_US + 41_000
    assert twin.run(EPOCH_US + 41_500, limit=500) == 500
    with pytest.raises(LoopLimit, match="499 events handled; the clock stands at"):
        twin.run(EPOCH_US + 42_000, limit=499)
    assert (twin.run_for(1), twin.run(limit=3_000)) == (1, 3_000)
    assert (twin.now_us, twin.run()) == (EPOCH_US + 45_000, 0)


def test_progress_is_told_at_most_five_times_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that says a tenth more at each look: 20,000 events take a look."""
    looks = itertools.count()
    monkeypatch.setattr(time, "perf_counter", lambda: next(looks) / 10)
    twin = Twin(components=[Ticks()])
    told: list[Progress] = []
    twin.run(EPOCH_US + 45_000, progress=told.append)
    assert told == [Progress(EPOCH_US + 40_000, EPOCH_US + 45_000, 40_000, pytest.approx(0.04 / 0.2))]
    twin = Twin(components=[Ticks()])
    twin.run(progress=told.append)
    assert [p.until_us for p in told] == [EPOCH_US + 45_000, None]


@pytest.mark.parametrize(
    ("number", "apart_us", "stuck"), [(60_000, 0, False), (60_001, 0, True), (70_000, 1, False)]
)
def test_a_twin_whose_clock_stands_is_stuck(
    number: int, apart_us: int, stuck: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(twins, "STUCK_LIMIT", 60_000)
    twin = Twin()
    tick = twin.loop.register("test.tick", lambda _: None)
    for i in range(number):
        twin.loop.at(twin.now_us + i * apart_us, tick)
    if stuck:
        with pytest.raises(LoopLimit, match="60001 events handled; the clock stands at"):
            twin.run()
    else:
        assert twin.run() == number


@pytest.fixture
def interruptible() -> Iterator[None]:
    """What a shell starts in the background ignores interrupts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_waits_for_the_end_of_an_event_and_a_second_one_does_not() -> None:
    twin, seen, before = Twin(), list[str](), signal.getsignal(signal.SIGINT)

    def interrupt(times: int) -> None:
        for i in range(times):
            signal.raise_signal(signal.SIGINT)
            seen.append(f"{i + 1} of {times}")

    pull = twin.loop.register("test.interrupt", interrupt)
    for at, times in ((1, 1), (2, 0), (3, 2), (4, 0)):
        twin.loop.at(twin.now_us + at, pull, times)
    for stands in (1, 3):
        with pytest.raises(KeyboardInterrupt):
            twin.run()
        assert twin.now_us == EPOCH_US + stands and signal.getsignal(signal.SIGINT) is before
        twin.loop.stopping = False
    assert seen == ["1 of 1", "1 of 2"]
    assert twin.run() == 1


def test_an_interrupt_stops_between_events_and_the_twin_goes_on() -> None:
    twin, other = busy(), busy()
    pull = twin.loop.register("test.interrupt", lambda _: signal.raise_signal(signal.SIGINT))
    other.loop.register("test.interrupt", lambda _: None)
    at = twin.now_us + 5 * MINUTE_US
    twin.loop.at(at, pull)
    other.loop.at(at, pull)
    with pytest.raises(KeyboardInterrupt):
        twin.run_for(HOUR_US)
    assert twin.now_us == at
    invariants.check(twin.host)
    end = at + HOUR_US
    twin.run(end)
    other.run(end)
    assert twin.digest() == other.digest()
